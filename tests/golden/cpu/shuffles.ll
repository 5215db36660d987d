define void @shuffles(ptr noalias %data0_16, ptr noalias %data1_8) #0 {
entry:
  %p1 = getelementptr inbounds float, ptr %data1_8, i32 0
  %v2 = load <8 x float>, ptr %p1, align 4
  %v3 = shufflevector <8 x float> %v2, <8 x float> poison, <8 x i32> <i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %v4 = shufflevector <8 x float> %v2, <8 x float> poison, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %v5 = extractelement <8 x float> %v2, i32 5
  %p6 = getelementptr inbounds float, ptr %data0_16, i32 0
  store <8 x float> %v3, ptr %p6, align 4
  %v7 = insertelement <4 x float> poison, float %v5, i32 0
  %v8 = shufflevector <4 x float> %v7, <4 x float> poison, <4 x i32> <i32 0, i32 0, i32 0, i32 0>
  %v9 = shufflevector <4 x float> %v4, <4 x float> %v8, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %p10 = getelementptr inbounds float, ptr %data0_16, i32 8
  store <8 x float> %v9, ptr %p10, align 4
  ret void
}
attributes #0 = { nounwind }
