define void @matmul_tile(ptr noalias %data0_64, ptr noalias %data1_96, ptr noalias %data2_384) #0 {
entry:
  %acc1 = alloca [64 x float], align 64
  %p2 = getelementptr inbounds float, ptr %acc1, i32 0
  store <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %p2, align 4
  %p3 = getelementptr inbounds float, ptr %acc1, i32 16
  store <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %p3, align 4
  %p4 = getelementptr inbounds float, ptr %acc1, i32 32
  store <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %p4, align 4
  %p5 = getelementptr inbounds float, ptr %acc1, i32 48
  store <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %p5, align 4
  br label %head_ridx0
head_ridx0:
  %ridx0 = phi i32 [ 0, %entry ], [ %ridx0_next, %latch_ridx0 ]
  %v6 = icmp slt i32 %ridx0, 24
  br i1 %v6, label %body_ridx0, label %exit_ridx0
body_ridx0:
  %v7 = mul nsw i32 %ridx0, 16
  %p8 = getelementptr inbounds float, ptr %data2_384, i32 %v7
  %v9 = load <16 x float>, ptr %p8, align 4
  %v10 = add nsw i32 %ridx0, 0
  %p11 = getelementptr inbounds float, ptr %data1_96, i32 %v10
  %v12 = load float, ptr %p11, align 4
  %p13 = getelementptr inbounds float, ptr %acc1, i32 0
  %v14 = load <16 x float>, ptr %p13, align 4
  %v15 = insertelement <16 x float> poison, float %v12, i32 0
  %v16 = shufflevector <16 x float> %v15, <16 x float> poison, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v17 = fmul <16 x float> %v16, %v9
  %v18 = fadd <16 x float> %v14, %v17
  store <16 x float> %v18, ptr %p13, align 4
  %v19 = add nsw i32 %ridx0, 24
  %p20 = getelementptr inbounds float, ptr %data1_96, i32 %v19
  %v21 = load float, ptr %p20, align 4
  %p22 = getelementptr inbounds float, ptr %acc1, i32 16
  %v23 = load <16 x float>, ptr %p22, align 4
  %v24 = insertelement <16 x float> poison, float %v21, i32 0
  %v25 = shufflevector <16 x float> %v24, <16 x float> poison, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v26 = fmul <16 x float> %v25, %v9
  %v27 = fadd <16 x float> %v23, %v26
  store <16 x float> %v27, ptr %p22, align 4
  %v28 = add nsw i32 %ridx0, 48
  %p29 = getelementptr inbounds float, ptr %data1_96, i32 %v28
  %v30 = load float, ptr %p29, align 4
  %p31 = getelementptr inbounds float, ptr %acc1, i32 32
  %v32 = load <16 x float>, ptr %p31, align 4
  %v33 = insertelement <16 x float> poison, float %v30, i32 0
  %v34 = shufflevector <16 x float> %v33, <16 x float> poison, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v35 = fmul <16 x float> %v34, %v9
  %v36 = fadd <16 x float> %v32, %v35
  store <16 x float> %v36, ptr %p31, align 4
  %v37 = add nsw i32 %ridx0, 72
  %p38 = getelementptr inbounds float, ptr %data1_96, i32 %v37
  %v39 = load float, ptr %p38, align 4
  %p40 = getelementptr inbounds float, ptr %acc1, i32 48
  %v41 = load <16 x float>, ptr %p40, align 4
  %v42 = insertelement <16 x float> poison, float %v39, i32 0
  %v43 = shufflevector <16 x float> %v42, <16 x float> poison, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v44 = fmul <16 x float> %v43, %v9
  %v45 = fadd <16 x float> %v41, %v44
  store <16 x float> %v45, ptr %p40, align 4
  br label %latch_ridx0
latch_ridx0:
  %ridx0_next = add nuw nsw i32 %ridx0, 1
  br label %head_ridx0
exit_ridx0:
  %p46 = getelementptr inbounds float, ptr %data0_64, i32 0
  %p47 = getelementptr inbounds float, ptr %acc1, i32 0
  %v48 = load <16 x float>, ptr %p47, align 4
  store <16 x float> %v48, ptr %p46, align 4
  %p49 = getelementptr inbounds float, ptr %data0_64, i32 16
  %p50 = getelementptr inbounds float, ptr %acc1, i32 16
  %v51 = load <16 x float>, ptr %p50, align 4
  store <16 x float> %v51, ptr %p49, align 4
  %p52 = getelementptr inbounds float, ptr %data0_64, i32 32
  %p53 = getelementptr inbounds float, ptr %acc1, i32 32
  %v54 = load <16 x float>, ptr %p53, align 4
  store <16 x float> %v54, ptr %p52, align 4
  %p55 = getelementptr inbounds float, ptr %data0_64, i32 48
  %p56 = getelementptr inbounds float, ptr %acc1, i32 48
  %v57 = load <16 x float>, ptr %p56, align 4
  store <16 x float> %v57, ptr %p55, align 4
  ret void
}
attributes #0 = { nounwind }
