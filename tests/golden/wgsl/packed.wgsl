var<workgroup> temp0: array<atomic<u32>,4>;
@group(0) @binding(0) var<storage, read_write> data0_16: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read_write> data1_16: array<atomic<u32>>;
@compute @workgroup_size(16,1,1) fn packed(@builtin(workgroup_id) gindex: vec3<u32>, @builtin(local_invocation_id) lindex: vec3<u32>) {
  let lidx0: i32 = i32(lindex.x); /* 16 */
  let val0: u32 = extractBits(atomicLoad(&data1_16[(lidx0)/2]), (u32((lidx0)%2)*16u), 16u);
  atomicAnd(&data0_16[(lidx0)/4], ~(255u<<(u32((lidx0)%4)*8u))); atomicOr(&data0_16[(lidx0)/4], (u32(extractBits(i32(val0), 0u, 8u))&255u)<<(u32((lidx0)%4)*8u));
}
