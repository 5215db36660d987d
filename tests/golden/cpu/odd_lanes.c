typedef float float3 __attribute__((ext_vector_type(3), aligned(4)));
static inline __attribute__((always_inline)) float3 load_float3(const float* p) { float3 v; __builtin_memcpy(&v, p, 12); return v; }
static inline __attribute__((always_inline)) void store_float3(float* p, float3 v) { __builtin_memcpy(p, &v, 12); }
void odd_lanes(float* restrict data0_4, const float* restrict data1_3) {
  float3 val0 = load_float3((data1_3+0));
  store_float3((data0_4+0), val0*val0);
}
