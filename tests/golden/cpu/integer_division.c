typedef int int8 __attribute__((ext_vector_type(8), aligned(4)));
static inline __attribute__((always_inline)) int8 vidiv_int8(int8 a, int8 b) {
  int8 q = a / ((b == 0 | b == -1) ? (int8)(1) : b);
  return b == 0 ? (int8)(0) : b == -1 ? -a : q;
}
static inline __attribute__((always_inline)) int8 vimod_int8(int8 a, int8 b) {
  int8 r = a % ((b == 0 | b == -1) ? (int8)(1) : b);
  return (b == 0 | b == -1) ? (int8)(0) : r;
}
static inline __attribute__((always_inline)) int idiv_int(int a, int b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
static inline __attribute__((always_inline)) int imod_int(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
void integer_division(int* restrict data0_16, int* restrict data1_16, const int* restrict data2_8, const int* restrict data3_8) {
  int8 val0 = *((int8*)(data2_8+0));
  int8 val1 = *((int8*)(data3_8+0));
  *((int8*)(data0_16+0)) = vidiv_int8(val0, val1);
  *((int8*)(data1_16+0)) = vimod_int8(val0, val1);
  for (int idx0 = 0; idx0 < 8; idx0++) {
    int val2 = data2_8[idx0];
    int val3 = data3_8[idx0];
    int alu0 = idx0+8;
    data0_16[alu0] = idiv_int(val2, val3);
    data1_16[alu0] = imod_int(val2, val3);
  }
}
