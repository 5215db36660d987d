extern "C" __global__ void __launch_bounds__(16) group_sum(float* data0_4, const float* data1_64) {
  int gidx0 = blockIdx.x; /* 4 */
  int lidx0 = threadIdx.x; /* 16 */
  __align__(16) __shared__ float temp0[16];
  float acc0[1];
  float val0 = data1_64[(gidx0*16)+lidx0];
  temp0[lidx0] = val0;
  __syncthreads();
  if (lidx0<1) {
    acc0[0] = 0.0f;
    for (int idx1 = 0; idx1 < 16; idx1++) {
      float val1 = acc0[0];
      float val2 = temp0[idx1];
      acc0[0] = val1+val2;
    }
    float val3 = acc0[0];
    data0_4[gidx0] = val3;
  }
}
