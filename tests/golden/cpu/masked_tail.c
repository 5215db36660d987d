typedef unsigned char bool16 __attribute__((ext_vector_type(16), aligned(1)));
typedef float float16 __attribute__((ext_vector_type(16), aligned(4)));
static inline __attribute__((always_inline)) float16 masked_load_float16(const float* p, bool16 mask, float16 other) {
#if __has_builtin(__builtin_masked_load)
  typedef _Bool lanes __attribute__((ext_vector_type(16)));
  return __builtin_masked_load(__builtin_convertvector(mask, lanes), (const __typeof__(other[0])*)p, other);
#else
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && __has_builtin(__builtin_ia32_loadups512_mask)
  typedef float part __attribute__((vector_size(64)));
  typedef int whole __attribute__((vector_size(64)));
  other = (__typeof__(other))(__builtin_ia32_loadups512_mask((const void*)(p + 0), (part)(other), __builtin_ia32_cvtb2mask128((__attribute__((vector_size(16))) char)(mask << 7))));
#elif defined(__AVX2__) && __has_builtin(__builtin_ia32_maskloadps256)
  typedef float part __attribute__((vector_size(32)));
  typedef int whole __attribute__((vector_size(32)));
  other.lo = (__typeof__(other.lo))(((whole)__builtin_ia32_maskloadps256((const void*)(p + 0), (-__builtin_convertvector(mask.lo, whole))) & (-__builtin_convertvector(mask.lo, whole))) | ((whole)(other.lo) & ~(-__builtin_convertvector(mask.lo, whole))));
  other.hi = (__typeof__(other.hi))(((whole)__builtin_ia32_maskloadps256((const void*)(p + 8), (-__builtin_convertvector(mask.hi, whole))) & (-__builtin_convertvector(mask.hi, whole))) | ((whole)(other.hi) & ~(-__builtin_convertvector(mask.hi, whole))));
#else
  unsigned char all = 1;
  for (int i = 0; i < 16; i++) all &= mask[i];
  if (all) { __builtin_memcpy(&other, p, 64); return other; }
  for (int i = 0; i < 16; i++) if (mask[i]) other[i] = p[i];
#endif
  return other;
#endif
}
static inline __attribute__((always_inline)) void masked_store_float16(float* p, bool16 mask, float16 v) {
#if __has_builtin(__builtin_masked_store)
  typedef _Bool lanes __attribute__((ext_vector_type(16)));
  __builtin_masked_store(__builtin_convertvector(mask, lanes), v, (__typeof__(v[0])*)p);
#else
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && __has_builtin(__builtin_ia32_storeups512_mask)
  typedef float part __attribute__((vector_size(64)));
  typedef int whole __attribute__((vector_size(64)));
  __builtin_ia32_storeups512_mask((void*)(p + 0), (part)(v), __builtin_ia32_cvtb2mask128((__attribute__((vector_size(16))) char)(mask << 7)));
#elif defined(__AVX2__) && __has_builtin(__builtin_ia32_maskstoreps256)
  typedef float part __attribute__((vector_size(32)));
  typedef int whole __attribute__((vector_size(32)));
  __builtin_ia32_maskstoreps256((void*)(p + 0), (-__builtin_convertvector(mask.lo, whole)), (part)(v.lo));
  __builtin_ia32_maskstoreps256((void*)(p + 8), (-__builtin_convertvector(mask.hi, whole)), (part)(v.hi));
#else
  unsigned char all = 1;
  for (int i = 0; i < 16; i++) all &= mask[i];
  if (all) { __builtin_memcpy(p, &v, 64); return; }
  for (int i = 0; i < 16; i++) if (mask[i]) p[i] = v[i];
#endif
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
