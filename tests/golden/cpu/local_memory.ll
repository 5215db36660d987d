define void @local_memory(ptr noalias %data0_4, ptr noalias %data1_4) #0 {
entry:
  %temp1 = alloca [4 x float], align 64
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v2 = icmp slt i32 %idx0, 4
  br i1 %v2, label %body_idx0, label %exit_idx0
body_idx0:
  %p3 = getelementptr inbounds float, ptr %temp1, i32 %idx0
  %p4 = getelementptr inbounds float, ptr %data1_4, i32 %idx0
  %v5 = load float, ptr %p4, align 4
  store float %v5, ptr %p3, align 4
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  br label %head_idx1
head_idx1:
  %idx1 = phi i32 [ 0, %exit_idx0 ], [ %idx1_next, %latch_idx1 ]
  %v6 = icmp slt i32 %idx1, 4
  br i1 %v6, label %body_idx1, label %exit_idx1
body_idx1:
  %v7 = sub nsw i32 3, %idx1
  %p8 = getelementptr inbounds float, ptr %data0_4, i32 %idx1
  %p9 = getelementptr inbounds float, ptr %temp1, i32 %v7
  %v10 = load float, ptr %p9, align 4
  store float %v10, ptr %p8, align 4
  br label %latch_idx1
latch_idx1:
  %idx1_next = add nuw nsw i32 %idx1, 1
  br label %head_idx1
exit_idx1:
  ret void
}
attributes #0 = { nounwind }
