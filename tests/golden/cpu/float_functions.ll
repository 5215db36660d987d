define void @float_functions(ptr noalias %data0_40, ptr noalias %data1_8) #0 {
entry:
  %p1 = getelementptr inbounds float, ptr %data1_8, i32 0
  %v2 = load <8 x float>, ptr %p1, align 4
  %p3 = getelementptr inbounds float, ptr %data0_40, i32 0
  %v4 = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v2)
  store <8 x float> %v4, ptr %p3, align 4
  %p5 = getelementptr inbounds float, ptr %data0_40, i32 8
  %v6 = call <8 x float> @llvm.trunc.v8f32(<8 x float> %v2)
  store <8 x float> %v6, ptr %p5, align 4
  %p7 = getelementptr inbounds float, ptr %data0_40, i32 16
  %v8 = fdiv <8 x float> <float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000>, %v2
  store <8 x float> %v8, ptr %p7, align 4
  %p9 = getelementptr inbounds float, ptr %data0_40, i32 24
  %v10 = fneg <8 x float> %v2
  store <8 x float> %v10, ptr %p9, align 4
  %v11 = shufflevector <8 x float> %v2, <8 x float> poison, <8 x i32> <i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %p12 = getelementptr inbounds float, ptr %data0_40, i32 32
  %v13 = fcmp olt <8 x float> %v2, %v11
  %v14 = fcmp uno <8 x float> %v11, %v11
  %v15 = or <8 x i1> %v13, %v14
  %v16 = select <8 x i1> %v15, <8 x float> %v11, <8 x float> %v2
  store <8 x float> %v16, ptr %p12, align 4
  ret void
}
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
declare <8 x float> @llvm.trunc.v8f32(<8 x float>)
attributes #0 = { nounwind }
