define void @branch_and_gates(ptr noalias %data0_6, ptr noalias %data1_4, i32 %n) #0 {
entry:
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v1 = icmp slt i32 %idx0, %n
  br i1 %v1, label %body_idx0, label %exit_idx0
body_idx0:
  %v2 = icmp slt i32 %idx0, 4
  %p3 = getelementptr float, ptr %data1_4, i32 %idx0
  br i1 %v2, label %load_gate4, label %after_gate4
load_gate4:
  %v5 = load float, ptr %p3, align 4
  br label %after_gate4
after_gate4:
  %v6 = phi float [ %v5, %load_gate4 ], [ 0xBFF0000000000000, %body_idx0 ]
  %v7 = icmp ne i32 %idx0, 2
  br i1 %v7, label %then_if8, label %end_if8
then_if8:
  %p9 = getelementptr inbounds float, ptr %data0_6, i32 %idx0
  %v10 = fadd float %v6, %v6
  store float %v10, ptr %p9, align 4
  br label %end_if8
end_if8:
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  ret void
}
attributes #0 = { nounwind }
