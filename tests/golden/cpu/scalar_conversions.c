void scalar_conversions(long* restrict data0_4, const double* restrict data1_1) {
  double val0 = data1_1[0];
  int bits0 = ((union {float from; int to;}){.from=((float)(val0))}).to;
  data0_4[0] = (long)(bits0);
  data0_4[1] = ((union {double from; long to;}){.from=val0}).to;
  data0_4[2] = (long)((signed char)(((signed char)(bits0))+((signed char)(100))));
  data0_4[3] = (long)(bits0>>3);
}
