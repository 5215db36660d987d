define void @bool_vectors(ptr noalias %data0_8, ptr noalias %data1_8, ptr noalias %data2_8) #0 {
entry:
  %p1 = getelementptr inbounds i8, ptr %data1_8, i32 0
  %v2 = load <8 x i8>, ptr %p1, align 1
  %v3 = trunc <8 x i8> %v2 to <8 x i1>
  %p4 = getelementptr inbounds i8, ptr %data2_8, i32 0
  %v5 = load <8 x i8>, ptr %p4, align 1
  %v6 = trunc <8 x i8> %v5 to <8 x i1>
  %v7 = and <8 x i1> %v3, %v6
  %v8 = or <8 x i1> %v3, %v7
  %p9 = getelementptr inbounds i8, ptr %data0_8, i32 0
  %v10 = icmp ult <8 x i1> %v3, %v6
  %v11 = xor <8 x i1> %v8, %v10
  %v12 = zext <8 x i1> %v11 to <8 x i8>
  store <8 x i8> %v12, ptr %p9, align 1
  ret void
}
attributes #0 = { nounwind }
