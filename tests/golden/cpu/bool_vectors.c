typedef unsigned char bool8 __attribute__((ext_vector_type(8), aligned(1)));
void bool_vectors(_Bool* restrict data0_8, const _Bool* restrict data1_8, const _Bool* restrict data2_8) {
  bool8 val0 = *((bool8*)(data1_8+0));
  bool8 val1 = *((bool8*)(data2_8+0));
  *((bool8*)(data0_8+0)) = (val0|(val0&val1))^(__builtin_convertvector((val0<val1), bool8)&1);
}
