void local_memory(float* restrict data0_4, const float* restrict data1_4) {
  __attribute__((aligned(64))) float temp0[4];
  for (int idx0 = 0; idx0 < 4; idx0++) {
    float val0 = data1_4[idx0];
    temp0[idx0] = val0;
  }
  for (int idx1 = 0; idx1 < 4; idx1++) {
    float val1 = temp0[3-idx1];
    data0_4[idx1] = val1;
  }
}
