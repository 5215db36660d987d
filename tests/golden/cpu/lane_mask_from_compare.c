typedef unsigned char bool8 __attribute__((ext_vector_type(8), aligned(1)));
typedef int int8 __attribute__((ext_vector_type(8), aligned(4)));
static inline __attribute__((always_inline)) int8 masked_load_int8(const int* p, bool8 mask, int8 other) {
#if __has_builtin(__builtin_masked_load)
  typedef _Bool lanes __attribute__((ext_vector_type(8)));
  return __builtin_masked_load(__builtin_convertvector(mask, lanes), (const __typeof__(other[0])*)p, other);
#else
#if defined(__AVX2__) && __has_builtin(__builtin_ia32_maskloadps256)
  typedef float part __attribute__((vector_size(32)));
  typedef int whole __attribute__((vector_size(32)));
  other = (__typeof__(other))(((whole)__builtin_ia32_maskloadps256((const void*)(p + 0), (-__builtin_convertvector(mask, whole))) & (-__builtin_convertvector(mask, whole))) | ((whole)(other) & ~(-__builtin_convertvector(mask, whole))));
#else
  unsigned char all = 1;
  for (int i = 0; i < 8; i++) all &= mask[i];
  if (all) { __builtin_memcpy(&other, p, 32); return other; }
  for (int i = 0; i < 8; i++) if (mask[i]) other[i] = p[i];
#endif
  return other;
#endif
}
void lane_mask(int* restrict data0_8, const int* restrict data1_8, const _Bool* restrict data2_8) {
  bool8 val0 = *((bool8*)(data2_8+0));
  int8 vec0 = (int8)(-5);
  int8 val1 = masked_load_int8((data1_8+0), val0, vec0);
  *((int8*)(data0_8+0)) = (__builtin_convertvector((__builtin_convertvector((val1!=vec0), bool8)&1), int8)!=0)?(val1+val1):vec0;
}
