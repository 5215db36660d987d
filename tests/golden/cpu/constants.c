void constants(float* restrict data0_8, double* restrict data1_8, long* restrict data2_4) {
  data0_8[0] = __builtin_inff();
  data1_8[0] = (double)(__builtin_inff());
  data0_8[1] = -__builtin_inff();
  data1_8[1] = (double)(-__builtin_inff());
  data0_8[2] = __builtin_nanf("");
  data1_8[2] = (double)(__builtin_nanf(""));
  data0_8[3] = 0.100000001f;
  data1_8[3] = 0.1;
  data0_8[4] = -0.0f;
  data1_8[4] = -0.0;
  data0_8[5] = 3.40282347e+38f;
  data1_8[5] = 3.4028235e+38;
  data0_8[6] = 1.40129846e-45f;
  data1_8[6] = 1e-45;
  data0_8[7] = 16777216.0f;
  data1_8[7] = 16777217.0;
  data2_4[0] = -9223372036854775807l-1l;
  data2_4[1] = 9223372036854775807l;
  data2_4[2] = -2147483648l;
  data2_4[3] = 5000000000l;
}
