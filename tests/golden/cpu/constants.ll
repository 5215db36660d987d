define void @constants(ptr noalias %data0_8, ptr noalias %data1_8, ptr noalias %data2_4) #0 {
entry:
  %p1 = getelementptr inbounds float, ptr %data0_8, i32 0
  store float 0x7FF0000000000000, ptr %p1, align 4
  %p2 = getelementptr inbounds double, ptr %data1_8, i32 0
  store double 0x7FF0000000000000, ptr %p2, align 8
  %p3 = getelementptr inbounds float, ptr %data0_8, i32 1
  store float 0xFFF0000000000000, ptr %p3, align 4
  %p4 = getelementptr inbounds double, ptr %data1_8, i32 1
  store double 0xFFF0000000000000, ptr %p4, align 8
  %p5 = getelementptr inbounds float, ptr %data0_8, i32 2
  store float 0x7FF8000000000000, ptr %p5, align 4
  %p6 = getelementptr inbounds double, ptr %data1_8, i32 2
  store double 0x7FF8000000000000, ptr %p6, align 8
  %p7 = getelementptr inbounds float, ptr %data0_8, i32 3
  store float 0x3FB99999A0000000, ptr %p7, align 4
  %p8 = getelementptr inbounds double, ptr %data1_8, i32 3
  store double 0x3FB999999999999A, ptr %p8, align 8
  %p9 = getelementptr inbounds float, ptr %data0_8, i32 4
  store float 0x8000000000000000, ptr %p9, align 4
  %p10 = getelementptr inbounds double, ptr %data1_8, i32 4
  store double 0x8000000000000000, ptr %p10, align 8
  %p11 = getelementptr inbounds float, ptr %data0_8, i32 5
  store float 0x47EFFFFFE0000000, ptr %p11, align 4
  %p12 = getelementptr inbounds double, ptr %data1_8, i32 5
  store double 0x47EFFFFFE54DAFF8, ptr %p12, align 8
  %p13 = getelementptr inbounds float, ptr %data0_8, i32 6
  store float 0x36A0000000000000, ptr %p13, align 4
  %p14 = getelementptr inbounds double, ptr %data1_8, i32 6
  store double 0x3696D601AD376AB9, ptr %p14, align 8
  %p15 = getelementptr inbounds float, ptr %data0_8, i32 7
  store float 0x4170000000000000, ptr %p15, align 4
  %p16 = getelementptr inbounds double, ptr %data1_8, i32 7
  store double 0x4170000010000000, ptr %p16, align 8
  %p17 = getelementptr inbounds i64, ptr %data2_4, i32 0
  store i64 -9223372036854775808, ptr %p17, align 8
  %p18 = getelementptr inbounds i64, ptr %data2_4, i32 1
  store i64 9223372036854775807, ptr %p18, align 8
  %p19 = getelementptr inbounds i64, ptr %data2_4, i32 2
  store i64 -2147483648, ptr %p19, align 8
  %p20 = getelementptr inbounds i64, ptr %data2_4, i32 3
  store i64 5000000000, ptr %p20, align 8
  ret void
}
attributes #0 = { nounwind }
