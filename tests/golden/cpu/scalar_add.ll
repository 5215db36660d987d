define void @scalar_add(ptr noalias %data0_10, ptr noalias %data1_10, ptr noalias %data2_10) #0 {
entry:
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v1 = icmp slt i32 %idx0, 10
  br i1 %v1, label %body_idx0, label %exit_idx0
body_idx0:
  %p2 = getelementptr inbounds float, ptr %data1_10, i32 %idx0
  %v3 = load float, ptr %p2, align 4
  %p4 = getelementptr inbounds float, ptr %data2_10, i32 %idx0
  %v5 = load float, ptr %p4, align 4
  %v6 = fadd float %v3, %v5
  %p7 = getelementptr inbounds float, ptr %data0_10, i32 %idx0
  store float %v6, ptr %p7, align 4
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  ret void
}
attributes #0 = { nounwind }
