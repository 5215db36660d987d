typedef float float16 __attribute__((ext_vector_type(16), aligned(4)));
void matmul_tile(float* restrict data0_64, const float* restrict data1_96, const float* restrict data2_384) {
  float acc0[64];
  float16 vec0 = (float16)(0.0f);
  *((float16*)(acc0+0)) = vec0;
  *((float16*)(acc0+16)) = vec0;
  *((float16*)(acc0+32)) = vec0;
  *((float16*)(acc0+48)) = vec0;
  for (int ridx0 = 0; ridx0 < 24; ridx0++) {
    float16 val0 = *((float16*)(data2_384+(ridx0*16)));
    float val1 = data1_96[ridx0+0];
    float16 val2 = *((float16*)(acc0+0));
    *((float16*)(acc0+0)) = val2+(((float16)(val1))*val0);
    float val3 = data1_96[ridx0+24];
    float16 val4 = *((float16*)(acc0+16));
    *((float16*)(acc0+16)) = val4+(((float16)(val3))*val0);
    float val5 = data1_96[ridx0+48];
    float16 val6 = *((float16*)(acc0+32));
    *((float16*)(acc0+32)) = val6+(((float16)(val5))*val0);
    float val7 = data1_96[ridx0+72];
    float16 val8 = *((float16*)(acc0+48));
    *((float16*)(acc0+48)) = val8+(((float16)(val7))*val0);
  }
  float16 val9 = *((float16*)(acc0+0));
  *((float16*)(data0_64+0)) = val9;
  float16 val10 = *((float16*)(acc0+16));
  *((float16*)(data0_64+16)) = val10;
  float16 val11 = *((float16*)(acc0+32));
  *((float16*)(data0_64+32)) = val11;
  float16 val12 = *((float16*)(acc0+48));
  *((float16*)(data0_64+48)) = val12;
}
