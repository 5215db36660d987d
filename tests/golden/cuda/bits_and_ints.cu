template <class T, class F> __device__ __forceinline__ T bits_as(F from) {
  union U { F f; T t; __device__ U() {} } u; u.f = from; return u.t;
}
extern "C" __global__ void __launch_bounds__(16) bits_and_ints(unsigned int* data0_16, const float* data1_16, const int n) {
  int lidx0 = threadIdx.x; /* 16 */
  float val0 = (lidx0<n)?data1_16[lidx0]:(-1.0f);
  unsigned int bits0 = bits_as<unsigned int>(val0);
  data0_16[lidx0] = ((bits0>>16u)^bits0)+2147483648u;
}
