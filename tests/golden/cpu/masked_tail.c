typedef unsigned char bool16 __attribute__((ext_vector_type(16), aligned(1)));
typedef float float16 __attribute__((ext_vector_type(16), aligned(4)));
static inline __attribute__((always_inline)) float16 masked_load_float16(const float* p, bool16 mask, float16 other) {
#if __has_builtin(__builtin_masked_load)
  typedef _Bool lanes __attribute__((ext_vector_type(16)));
  return __builtin_masked_load(__builtin_convertvector(mask, lanes), (const __typeof__(other[0])*)p, other);
#else
  for (int i = 0; i < 16; i++) if (mask[i]) other[i] = p[i];
  return other;
#endif
}
static inline __attribute__((always_inline)) void masked_store_float16(float* p, bool16 mask, float16 v) {
#if __has_builtin(__builtin_masked_store)
  typedef _Bool lanes __attribute__((ext_vector_type(16)));
  __builtin_masked_store(__builtin_convertvector(mask, lanes), v, (__typeof__(v[0])*)p);
#else
  for (int i = 0; i < 16; i++) if (mask[i]) p[i] = v[i];
#endif
}
void masked_tail(float* restrict data0_19, const float* restrict data1_19) {
  bool16 vec0 = (bool16){1,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0};
  float16 vec1 = (float16)(1.0f);
  float16 val0 = *((float16*)(data1_19+0));
  *((float16*)(data0_19+0)) = val0+vec1;
  float16 val1 = masked_load_float16((data1_19+16), vec0, vec1);
  masked_store_float16((data0_19+16), vec0, val1+vec1);
}
