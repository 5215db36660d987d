void branch_and_gates(float* restrict data0_6, const float* restrict data1_4, const int n) {
  for (int idx0 = 0; idx0 < n; idx0++) {
    float val0 = (idx0<4)?data1_4[idx0]:(-1.0f);
    if (idx0!=2) {
      data0_6[idx0] = val0+val0;
    }
  }
}
