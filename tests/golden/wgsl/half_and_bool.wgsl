enable f16;
@group(0) @binding(0) var<storage, read_write> data0_64: array<f16>;
@group(0) @binding(1) var<storage, read_write> data1_64: array<f16>;
@group(0) @binding(2) var<storage, read_write> data2_64: array<atomic<u32>>;
@compute @workgroup_size(16,1,1) fn half_and_bool(@builtin(workgroup_id) gindex: vec3<u32>, @builtin(local_invocation_id) lindex: vec3<u32>) {
  let gidx0: i32 = i32(gindex.x); /* 4 */
  let lidx0: i32 = i32(lindex.x); /* 16 */
  let alu0: i32 = (gidx0*16)+lidx0;
  let val0: f16 = data1_64[alu0];
  let val1: bool = extractBits(atomicLoad(&data2_64[(alu0)/4]), (u32((alu0)%4)*8u), 8u)!=0u;
  data0_64[alu0] = f16(select((f16(1.5f)), (f16(sqrt((f32(val0))))), val1));
}
