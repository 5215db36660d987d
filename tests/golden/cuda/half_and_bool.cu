#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(16) half_and_bool(half* data0_64, const half* data1_64, const bool* data2_64) {
  int gidx0 = blockIdx.x; /* 4 */
  int lidx0 = threadIdx.x; /* 16 */
  int alu0 = (gidx0*16)+lidx0;
  half val0 = data1_64[alu0];
  bool val1 = data2_64[alu0];
  data0_64[alu0] = (half)(val1?((half)(sqrt(((float)(val0))))):((half)(1.5f)));
}
