define void @conversions(ptr noalias %data0_8, ptr noalias %data1_8, ptr noalias %data2_8) #0 {
entry:
  %p1 = getelementptr inbounds float, ptr %data2_8, i32 0
  %v2 = load <8 x float>, ptr %p1, align 4
  %p3 = getelementptr inbounds i32, ptr %data0_8, i32 0
  %v4 = bitcast <8 x float> %v2 to <8 x i32>
  store <8 x i32> %v4, ptr %p3, align 4
  %v5 = fptosi <8 x float> %v2 to <8 x i32>
  %v6 = icmp ne <8 x i32> %v5, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v7 = trunc <8 x i32> %v5 to <8 x i8>
  %v8 = zext <8 x i1> %v6 to <8 x i8>
  %p9 = getelementptr inbounds i8, ptr %data1_8, i32 0
  %v10 = add <8 x i8> %v7, %v8
  store <8 x i8> %v10, ptr %p9, align 1
  ret void
}
attributes #0 = { nounwind }
