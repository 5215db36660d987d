void threads(int* restrict data0_64, const int* restrict data1_64, const int scale, const int core_id) {
  for (int idx0 = 0; idx0 < 16; idx0++) {
    int alu0 = (core_id*16)+idx0;
    int val0 = data1_64[alu0];
    data0_64[alu0] = (val0*scale)+core_id;
  }
}
