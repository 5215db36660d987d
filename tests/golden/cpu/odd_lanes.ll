define void @odd_lanes(ptr noalias %data0_4, ptr noalias %data1_3) #0 {
entry:
  %p1 = getelementptr inbounds float, ptr %data1_3, i32 0
  %v2 = load <3 x float>, ptr %p1, align 4
  %p3 = getelementptr inbounds float, ptr %data0_4, i32 0
  %v4 = fmul <3 x float> %v2, %v2
  store <3 x float> %v4, ptr %p3, align 4
  ret void
}
attributes #0 = { nounwind }
