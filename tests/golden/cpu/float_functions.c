typedef float float8 __attribute__((ext_vector_type(8), aligned(4)));
static inline __attribute__((always_inline)) float8 sqrt_float8(float8 a) {
#if __has_builtin(__builtin_elementwise_sqrt)
  return __builtin_elementwise_sqrt(a);
#else
  float lane[8];
  __builtin_memcpy(lane, &a, sizeof(lane));
  for (int i = 0; i < 8; i++) lane[i] = __builtin_sqrtf(lane[i]);
  __builtin_memcpy(&a, lane, sizeof(lane));
  return a;
#endif
}
static inline __attribute__((always_inline)) float8 trunc_float8(float8 a) {
#if __has_builtin(__builtin_elementwise_trunc)
  return __builtin_elementwise_trunc(a);
#else
  float lane[8];
  __builtin_memcpy(lane, &a, sizeof(lane));
  for (int i = 0; i < 8; i++) lane[i] = __builtin_truncf(lane[i]);
  __builtin_memcpy(&a, lane, sizeof(lane));
  return a;
#endif
}
static inline __attribute__((always_inline)) float8 fmaximum_float8(float8 a, float8 b) { return ((a < b) | (b != b)) ? b : a; }
void float_functions(float* restrict data0_40, const float* restrict data1_8) {
  float8 val0 = *((float8*)(data1_8+0));
  *((float8*)(data0_40+0)) = sqrt_float8(val0);
  *((float8*)(data0_40+8)) = trunc_float8(val0);
  *((float8*)(data0_40+16)) = ((float8)(1.0f))/val0;
  *((float8*)(data0_40+24)) = -val0;
  *((float8*)(data0_40+32)) = fmaximum_float8(val0, ((float8)__builtin_shufflevector(val0,val0,7,6,5,4,3,2,1,0)));
}
