/* Select, ClipByValue, AddN, Cast, complex numbers, Fill and the like, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN (WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define PLAIN_BUT_I32 (PLAIN & ~WEFT_DTYPE_BIT(WEFT_I32))

static void select_v2(weft_row_case_t *c) {
  weft_shape_t s[3];
  s[0] = s[1] = s[2] = weft_row_shape(c, 0, 5);
  for (int i = 0; i < 3 && c->round > 1; i++) {
    for (int d = 0; d < s[i].rank; d++) {
      if (weft_row_int(c, 0, 3) == 0) s[i].dims[d] = 1;
    }
  }
  if (c->round == 3) s[0] = WEFT_SCALAR;
  weft_row_add(c, WEFT_BOOL, &s[0], WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &s[1], WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &s[2], WEFT_ROW_ANY);
}

static void select_v1(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 1, 5);
  weft_shape_t condition = s;
  if (c->round % 3 == 1) condition = WEFT_SCALAR;
  if (c->round % 3 == 2) condition.rank = 1;
  if (c->round == 7) condition = weft_shape_vector(s.dims[0] + 1);
  weft_row_add(c, WEFT_BOOL, &condition, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void clip(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4), scalar = WEFT_SCALAR;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, c->round % 2 == 0 ? &scalar : &s, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, c->round % 3 == 0 ? &scalar : &s, WEFT_ROW_SMALL);
}

static void add_n(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4), other = weft_shape_vector(11);
  const int n = c->round == 0 ? 1 : (int)weft_row_int(c, 2, 15);
  for (int i = 0; i < n; i++) weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  if (c->round == 7) weft_row_add(c, c->dtype, &other, WEFT_ROW_SMALL);
}

static void accumulate(weft_row_case_t *c) {
  add_n(c);
  weft_row_attr(c, "shape=?");
}

/* Between all pairs: the round says where to begin. Numbers that every type has, but for one pair of floats.
 */
static void cast_to(weft_row_case_t *c, int part) {
  static const char *const names[] = {"float", "double", "int32",  "uint8",    "int16",  "int8",  "int64",
                                      "bool",  "half",   "uint16", "bfloat16", "uint32", "uint64"};
  const int to = c->round * 2 + part;
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_POSITIVE);
  weft_row_attr(c, "DstT=%s", names[to % 13]);
  weft_row_attr(c, "Truncate=%s", c->round == 4 ? "true" : "false");
}
static void cast_even(weft_row_case_t *c) { cast_to(c, 0); }
static void cast_odd(weft_row_case_t *c) { cast_to(c, 1); }

/* Between the complex numbers and all others. */
static void cast_complex_to(weft_row_case_t *c, int part) {
  static const char *const names[] = {"float",      "double",    "int32",     "complex64", "int16",
                                      "complex128", "int64",     "bool",      "half",      "uint8",
                                      "bfloat16",   "complex64", "complex128"};
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_POSITIVE);
  weft_row_attr(c, "DstT=%s", names[(c->round * 2 + part) % 13]);
}
static void complex_even(weft_row_case_t *c) { cast_complex_to(c, 0); }
static void complex_odd(weft_row_case_t *c) { cast_complex_to(c, 1); }
static void to_complex(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_attr(c, "DstT=%s", c->round % 2 == 0 ? "complex64" : "complex128");
}

/* Two shapes that broadcast. */
static void join(weft_row_case_t *c) {
  weft_shape_t x = weft_row_shape(c, 0, 4), y = x;
  for (int d = 0; d < x.rank && c->round > 2; d++) *(d % 2 == 0 ? &x.dims[d] : &y.dims[d]) = 1;
  if (c->round == 4) y = WEFT_SCALAR;
  if (c->round == 7 && x.rank > 0) y = weft_shape_vector(x.dims[x.rank - 1] + 2);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &y, WEFT_ROW_ANY);
  weft_row_attr(c, "Tout=%s", c->dtype == WEFT_F32 ? "complex64" : "complex128");
}
static void part(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_attr(c, "Tout=%s", (c->round % 3 == 0) == (c->dtype == WEFT_C64) ? "double" : "float");
}

static void fill(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4), scalar = WEFT_SCALAR;
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I32 : WEFT_I64, s.rank, s.dims);
  weft_row_add(c, c->dtype, &scalar, WEFT_ROW_SMALL);
}

static void one(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static const weft_row_op_t select_ops[] = {
    {"AccumulateNV2", WEFT_CUDA_SET(FLOAT_I64), accumulate, .tolerance = 8},
    {"AccumulateNV2", WEFT_CUDA_SET(COMPLEX), accumulate, .tolerance = 8},
    {"AddN", WEFT_CUDA_SET(FLOAT_I64), add_n, .tolerance = 8},
    {"AddN", WEFT_CUDA_SET(COMPLEX), add_n, .tolerance = 8},
    {"ClipByValue", WEFT_CUDA_SET(FLOAT_INDEX), clip},
    {"Select", PLAIN, select_v1},
    {"SelectV2", PLAIN, select_v2},
};
static const weft_row_op_t cast_ops[] = {
    {"Cast", WEFT_CUDA_SET(EVERY), cast_even},
    {"Cast", WEFT_CUDA_SET(EVERY), cast_odd},
    {"Fill", PLAIN_BUT_I32, fill},
    {"OnesLike", WEFT_CUDA_SET(REAL_BOOL) | WEFT_CUDA_SET(COMPLEX), one},
    {"ZerosLike", PLAIN_BUT_I32, one},
};
static const weft_row_op_t complex_ops[] = {
    {"Angle", WEFT_CUDA_SET(COMPLEX), part},       {"Cast", WEFT_CUDA_SET(COMPLEX), complex_even},
    {"Cast", WEFT_CUDA_SET(COMPLEX), complex_odd}, {"Cast", WEFT_CUDA_SET(EVERY), to_complex},
    {"Complex", WEFT_CUDA_SET(F32_F64), join},     {"ComplexAbs", WEFT_CUDA_SET(COMPLEX), part},
    {"Imag", WEFT_CUDA_SET(COMPLEX), part},        {"Real", WEFT_CUDA_SET(COMPLEX), part},
};
enum {
  NUM_COMPLEX = sizeof complex_ops / sizeof complex_ops[0],
  NUM_SELECT = sizeof select_ops / sizeof select_ops[0],
  NUM_CAST = sizeof cast_ops / sizeof cast_ops[0]
};

static void select_as_the_cpu(void) { weft_row_check(weft_cuda_select_kernels, select_ops, NUM_SELECT); }
static void cast_as_the_cpu(void) { weft_row_check(weft_cuda_cast_kernels, cast_ops, NUM_CAST); }
static void complex_as_the_cpu(void) { weft_row_check(weft_cuda_complex_kernels, complex_ops, NUM_COMPLEX); }
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_complex_kernels, complex_ops, NUM_COMPLEX);
  weft_row_check_covered(weft_cuda_select_kernels, select_ops, NUM_SELECT);
  weft_row_check_covered(weft_cuda_cast_kernels, cast_ops, NUM_CAST);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"select as the CPU", select_as_the_cpu},
      {"cast as the CPU", cast_as_the_cpu},
      {"complex as the CPU", complex_as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("select", tests);
}
