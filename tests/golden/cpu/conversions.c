typedef unsigned char bool8 __attribute__((ext_vector_type(8), aligned(1)));
typedef float float8 __attribute__((ext_vector_type(8), aligned(4)));
typedef int int8 __attribute__((ext_vector_type(8), aligned(4)));
typedef unsigned char unsigned_char8 __attribute__((ext_vector_type(8), aligned(1)));
void conversions(int* restrict data0_8, unsigned char* restrict data1_8, const float* restrict data2_8) {
  float8 val0 = *((float8*)(data2_8+0));
  *((int8*)(data0_8+0)) = (int8)val0;
  int8 cast0 = __builtin_convertvector(val0, int8);
  unsigned_char8 alu0 = __builtin_convertvector(cast0, unsigned_char8)+__builtin_convertvector((__builtin_convertvector(cast0!=0, bool8)&1), unsigned_char8);
  *((unsigned_char8*)(data1_8+0)) = alu0;
}
