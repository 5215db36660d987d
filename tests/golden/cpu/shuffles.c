typedef float float4 __attribute__((ext_vector_type(4), aligned(4)));
typedef float float8 __attribute__((ext_vector_type(8), aligned(4)));
void shuffles(float* restrict data0_16, const float* restrict data1_8) {
  float8 val0 = *((float8*)(data1_8+0));
  float lane0 = val0[5];
  *((float8*)(data0_16+0)) = (float8)__builtin_shufflevector(val0,val0,7,6,5,4,3,2,1,0);
  float8 vec0 = (float8)__builtin_shufflevector(((float4)__builtin_shufflevector(val0,val0,0,2,4,6)),((float4)(lane0)),0,1,2,3,4,5,6,7);
  *((float8*)(data0_16+8)) = vec0;
}
