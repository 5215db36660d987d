define void @lane_mask(ptr noalias %data0_8, ptr noalias %data1_8, ptr noalias %data2_8) #0 {
entry:
  %p1 = getelementptr inbounds i8, ptr %data2_8, i32 0
  %v2 = load <8 x i8>, ptr %p1, align 1
  %v3 = trunc <8 x i8> %v2 to <8 x i1>
  %p4 = getelementptr i32, ptr %data1_8, i32 0
  %v5 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %p4, i32 4, <8 x i1> %v3, <8 x i32> <i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5>)
  %v6 = icmp ne <8 x i32> %v5, <i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5>
  %p7 = getelementptr inbounds i32, ptr %data0_8, i32 0
  %v8 = add <8 x i32> %v5, %v5
  %v9 = select <8 x i1> %v6, <8 x i32> %v8, <8 x i32> <i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5, i32 -5>
  store <8 x i32> %v9, ptr %p7, align 4
  ret void
}
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32 immarg, <8 x i1>, <8 x i32>)
attributes #0 = { nounwind }
