define void @vector_fma_relu(ptr noalias %data0_64, ptr noalias %data1_64, ptr noalias %data2_64) #0 {
entry:
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v1 = icmp slt i32 %idx0, 4
  br i1 %v1, label %body_idx0, label %exit_idx0
body_idx0:
  %v2 = mul nsw i32 %idx0, 16
  %p3 = getelementptr inbounds float, ptr %data1_64, i32 %v2
  %v4 = load <16 x float>, ptr %p3, align 4
  %p5 = getelementptr inbounds float, ptr %data2_64, i32 %v2
  %v6 = load <16 x float>, ptr %p5, align 4
  %v7 = fmul <16 x float> %v4, %v6
  %v8 = fadd <16 x float> %v7, %v4
  %v9 = fcmp olt <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %v8
  %p10 = getelementptr inbounds float, ptr %data0_64, i32 %v2
  %v11 = select <16 x i1> %v9, <16 x float> %v8, <16 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  store <16 x float> %v11, ptr %p10, align 4
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  ret void
}
attributes #0 = { nounwind }
