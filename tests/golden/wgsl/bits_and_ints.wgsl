@group(0) @binding(0) var<storage, read_write> data0_16: array<u32>;
@group(0) @binding(1) var<storage, read_write> data1_16: array<f32>;
@group(0) @binding(2) var<uniform> n: i32;
@compute @workgroup_size(16,1,1) fn bits_and_ints(@builtin(workgroup_id) gindex: vec3<u32>, @builtin(local_invocation_id) lindex: vec3<u32>) {
  let lidx0: i32 = i32(lindex.x); /* 16 */
  let val0: f32 = select((-1.0f), data1_16[lidx0], (lidx0<n));
  let bits0: u32 = bitcast<u32>(val0);
  data0_16[lidx0] = ((bits0>>u32(16u))^bits0)+2147483648u;
}
