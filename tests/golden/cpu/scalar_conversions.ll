define void @scalar_conversions(ptr noalias %data0_4, ptr noalias %data1_1) #0 {
entry:
  %p1 = getelementptr inbounds double, ptr %data1_1, i32 0
  %v2 = load double, ptr %p1, align 8
  %v3 = fptrunc double %v2 to float
  %v4 = bitcast float %v3 to i32
  %p5 = getelementptr inbounds i64, ptr %data0_4, i32 0
  %v6 = sext i32 %v4 to i64
  store i64 %v6, ptr %p5, align 8
  %p7 = getelementptr inbounds i64, ptr %data0_4, i32 1
  %v8 = bitcast double %v2 to i64
  store i64 %v8, ptr %p7, align 8
  %v9 = trunc i32 %v4 to i8
  %v10 = add i8 %v9, 100
  %p11 = getelementptr inbounds i64, ptr %data0_4, i32 2
  %v12 = sext i8 %v10 to i64
  store i64 %v12, ptr %p11, align 8
  %v13 = ashr i32 %v4, 3
  %p14 = getelementptr inbounds i64, ptr %data0_4, i32 3
  %v15 = sext i32 %v13 to i64
  store i64 %v15, ptr %p14, align 8
  ret void
}
attributes #0 = { nounwind }
