var<workgroup> temp0: array<f32,16>;
@group(0) @binding(0) var<storage, read_write> data0_4: array<f32>;
@group(0) @binding(1) var<storage, read_write> data1_64: array<f32>;
@compute @workgroup_size(16,1,1) fn group_sum(@builtin(workgroup_id) gindex: vec3<u32>, @builtin(local_invocation_id) lindex: vec3<u32>) {
  let gidx0: i32 = i32(gindex.x); /* 4 */
  let lidx0: i32 = i32(lindex.x); /* 16 */
  var acc0: array<f32,1>;
  let val0: f32 = data1_64[(gidx0*16)+lidx0];
  temp0[lidx0] = val0;
  workgroupBarrier();
  if (lidx0<1) {
    acc0[0] = 0.0f;
    for (var idx1: i32 = 0; idx1 < 16; idx1++) {
      let val1: f32 = acc0[0];
      let val2: f32 = temp0[idx1];
      acc0[0] = val1+val2;
    }
    let val3: f32 = acc0[0];
    data0_4[gidx0] = val3;
  }
}
