void scalar_add(float* restrict data0_10, const float* restrict data1_10, const float* restrict data2_10) {
  for (int idx0 = 0; idx0 < 10; idx0++) {
    float val0 = data1_10[idx0];
    float val1 = data2_10[idx0];
    data0_10[idx0] = val0+val1;
  }
}
