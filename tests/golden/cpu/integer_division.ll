define void @integer_division(ptr noalias %data0_16, ptr noalias %data1_16, ptr noalias %data2_8, ptr noalias %data3_8) #0 {
entry:
  %p1 = getelementptr inbounds i32, ptr %data2_8, i32 0
  %v2 = load <8 x i32>, ptr %p1, align 4
  %p3 = getelementptr inbounds i32, ptr %data3_8, i32 0
  %v4 = load <8 x i32>, ptr %p3, align 4
  %p5 = getelementptr inbounds i32, ptr %data0_16, i32 0
  %v6 = icmp eq <8 x i32> %v4, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v7 = icmp eq <8 x i32> %v4, <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>
  %v8 = or <8 x i1> %v6, %v7
  %v9 = select <8 x i1> %v8, <8 x i32> <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>, <8 x i32> %v4
  %v10 = sdiv <8 x i32> %v2, %v9
  %v11 = sub <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, %v2
  %v12 = select <8 x i1> %v7, <8 x i32> %v11, <8 x i32> %v10
  %v13 = select <8 x i1> %v6, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, <8 x i32> %v12
  store <8 x i32> %v13, ptr %p5, align 4
  %p14 = getelementptr inbounds i32, ptr %data1_16, i32 0
  %v15 = icmp eq <8 x i32> %v4, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v16 = icmp eq <8 x i32> %v4, <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>
  %v17 = or <8 x i1> %v15, %v16
  %v18 = select <8 x i1> %v17, <8 x i32> <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>, <8 x i32> %v4
  %v19 = srem <8 x i32> %v2, %v18
  %v20 = select <8 x i1> %v17, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, <8 x i32> %v19
  store <8 x i32> %v20, ptr %p14, align 4
  br label %head_idx0
head_idx0:
  %idx0 = phi i32 [ 0, %entry ], [ %idx0_next, %latch_idx0 ]
  %v21 = icmp slt i32 %idx0, 8
  br i1 %v21, label %body_idx0, label %exit_idx0
body_idx0:
  %p22 = getelementptr inbounds i32, ptr %data2_8, i32 %idx0
  %v23 = load i32, ptr %p22, align 4
  %p24 = getelementptr inbounds i32, ptr %data3_8, i32 %idx0
  %v25 = load i32, ptr %p24, align 4
  %v26 = add nsw i32 %idx0, 8
  %p27 = getelementptr inbounds i32, ptr %data0_16, i32 %v26
  %v28 = icmp eq i32 %v25, 0
  %v29 = icmp eq i32 %v25, -1
  %v30 = or i1 %v28, %v29
  %v31 = select i1 %v30, i32 1, i32 %v25
  %v32 = sdiv i32 %v23, %v31
  %v33 = sub i32 0, %v23
  %v34 = select i1 %v29, i32 %v33, i32 %v32
  %v35 = select i1 %v28, i32 0, i32 %v34
  store i32 %v35, ptr %p27, align 4
  %p36 = getelementptr inbounds i32, ptr %data1_16, i32 %v26
  %v37 = icmp eq i32 %v25, 0
  %v38 = icmp eq i32 %v25, -1
  %v39 = or i1 %v37, %v38
  %v40 = select i1 %v39, i32 1, i32 %v25
  %v41 = srem i32 %v23, %v40
  %v42 = select i1 %v39, i32 0, i32 %v41
  store i32 %v42, ptr %p36, align 4
  br label %latch_idx0
latch_idx0:
  %idx0_next = add nuw nsw i32 %idx0, 1
  br label %head_idx0
exit_idx0:
  ret void
}
attributes #0 = { nounwind }
