typedef unsigned char bool16 __attribute__((ext_vector_type(16), aligned(1)));
typedef float float16 __attribute__((ext_vector_type(16), aligned(4)));
typedef int int16 __attribute__((ext_vector_type(16), aligned(4)));
void vector_fma_relu(float* restrict data0_64, const float* restrict data1_64, const float* restrict data2_64) {
  for (int idx0 = 0; idx0 < 4; idx0++) {
    int alu0 = idx0*16;
    float16 val0 = *((float16*)(data1_64+alu0));
    float16 val1 = *((float16*)(data2_64+alu0));
    float16 vec0 = (float16)(0.0f);
    float16 alu1 = (val0*val1)+val0;
    *((float16*)(data0_64+alu0)) = (__builtin_convertvector((__builtin_convertvector((vec0<alu1), bool16)&1), int16)!=0)?alu1:vec0;
  }
}
