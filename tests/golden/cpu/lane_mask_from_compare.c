typedef unsigned char bool8 __attribute__((ext_vector_type(8), aligned(1)));
typedef int int8 __attribute__((ext_vector_type(8), aligned(4)));
static inline __attribute__((always_inline)) int8 masked_load_int8(const int* p, bool8 mask, int8 other) {
#if __has_builtin(__builtin_masked_load)
  typedef _Bool lanes __attribute__((ext_vector_type(8)));
  return __builtin_masked_load(__builtin_convertvector(mask, lanes), (const __typeof__(other[0])*)p, other);
#else
  for (int i = 0; i < 8; i++) if (mask[i]) other[i] = p[i];
  return other;
#endif
}
void lane_mask(int* restrict data0_8, const int* restrict data1_8, const _Bool* restrict data2_8) {
  bool8 val0 = *((bool8*)(data2_8+0));
  int8 vec0 = (int8)(-5);
  int8 val1 = masked_load_int8((data1_8+0), val0, vec0);
  *((int8*)(data0_8+0)) = (__builtin_convertvector((__builtin_convertvector((val1!=vec0), bool8)&1), int8)!=0)?(val1+val1):vec0;
}
