define void @threads(ptr noalias %data0_64, ptr noalias %data1_64, i32 %scale, i32 %core_id) #0 {
entry:
  %v1 = mul nsw i32 %core_id, 16
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v2 = icmp slt i32 %idx0, 16
  br i1 %v2, label %body_idx0, label %exit_idx0
body_idx0:
  %v3 = add nsw i32 %v1, %idx0
  %p4 = getelementptr inbounds i32, ptr %data1_64, i32 %v3
  %v5 = load i32, ptr %p4, align 4
  %v6 = mul i32 %v5, %scale
  %p7 = getelementptr inbounds i32, ptr %data0_64, i32 %v3
  %v8 = add i32 %v6, %core_id
  store i32 %v8, ptr %p7, align 4
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  ret void
}
attributes #0 = { nounwind }
