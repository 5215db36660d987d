extern "C" __global__ void __launch_bounds__(16) vector_copy_scale(float* data0_256, const float* data1_256) {
  int gidx0 = blockIdx.x; /* 4 */
  int lidx0 = threadIdx.x; /* 16 */
  int alu0 = (gidx0*64)+(lidx0*4);
  float4 val0 = *((float4*)(data1_256+alu0));
  *((float4*)(data0_256+alu0)) = make_float4((val0.x*0.5f),(val0.y*0.5f),(val0.z*0.5f),(val0.w*0.5f));
}
