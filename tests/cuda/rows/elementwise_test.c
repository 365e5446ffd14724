/* The functions of one and of two operands, on all their types, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void one(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void equal(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
}

static void complex_one(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_SMALL : WEFT_ROW_ANY);
}
/* What C says of infinities and of NaN is not all kept by these, or digits are lost near a pole. */
static void complex_finite(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_SMALL : WEFT_ROW_NONZERO);
}

static void leaky(weft_row_case_t *c) {
  one(c);
  weft_row_attr(c, "alpha=0.3");
}
static void leaky_grad(weft_row_case_t *c) {
  equal(c);
  weft_row_attr(c, "alpha=0.3");
}

/* Shapes that fit: of equal rank or not, 1 in places; a scalar on either side; the same. */
static void shapes_that_fit(weft_row_case_t *c, weft_shape_t *x, weft_shape_t *y) {
  *x = weft_row_shape(c, 0, c->round == 1 ? 3 : 8);
  *y = *x;
  switch (c->round) {
    case 0: break;
    case 3: *x = WEFT_SCALAR; break;
    case 4: *y = WEFT_SCALAR; break;
    default: {
      const int drop = (int)weft_row_int(c, 0, x->rank);
      for (int d = 0; d < x->rank; d++) {
        if (weft_row_int(c, 0, 2) == 0) x->dims[d] = 1;
        if (weft_row_int(c, 0, 2) == 0) y->dims[d] = 1;
      }
      y->rank -= drop;
      for (int d = 0; d < y->rank; d++) y->dims[d] = y->dims[d + drop];
    }
  }
}

static void two_of(weft_row_case_t *c, weft_row_values_t x_values, weft_row_values_t y_values) {
  weft_shape_t x, y;
  shapes_that_fit(c, &x, &y);
  weft_row_add(c, c->dtype, &x, x_values);
  weft_row_add(c, c->dtype, &y, y_values);
}
static void two(weft_row_case_t *c) { two_of(c, WEFT_ROW_ANY, WEFT_ROW_ANY); }
static void divide(weft_row_case_t *c) {
  two_of(c, WEFT_ROW_ANY, weft_dtype_is_floating(c->dtype) ? WEFT_ROW_ANY : WEFT_ROW_NONZERO);
}
static void modulo(weft_row_case_t *c) {
  two_of(c, weft_dtype_is_floating(c->dtype) ? WEFT_ROW_SMALL : WEFT_ROW_ANY, WEFT_ROW_NONZERO);
}
static void power(weft_row_case_t *c) {
  two_of(c, WEFT_ROW_ANY, weft_dtype_is_floating(c->dtype) ? WEFT_ROW_SMALL : WEFT_ROW_POSITIVE);
}
static void finite_numbers(weft_row_case_t *c) { two_of(c, WEFT_ROW_SMALL, WEFT_ROW_NONZERO); }
/* In some rounds shapes that do not fit. */
static void compare(weft_row_case_t *c) {
  if (c->round < 6) {
    two(c);
    return;
  }
  const weft_shape_t x = weft_shape_vector(3), y = weft_shape_vector(4);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &y, WEFT_ROW_ANY);
  weft_row_attr(c, "incompatible_shape_error=%s", c->round == 6 ? "true" : "false");
}

static void bias_at(weft_row_case_t *c, int at) {
  const weft_shape_t x = weft_row_shape(c, 2, 5);
  const weft_shape_t b = weft_shape_vector(c->round == 7 ? 9 : x.dims[at < 0 ? x.rank - 1 : at]);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_ANY);
  weft_row_add(c, c->dtype, &b, WEFT_ROW_ANY);
}
static void bias(weft_row_case_t *c) {
  bias_at(c, c->round % 2 == 0 ? -1 : 1);
  weft_row_attr(c, "data_format=%s", c->round % 2 == 0 ? "NHWC" : "NCHW");
}
static void bias_v1(weft_row_case_t *c) { bias_at(c, -1); }

/* Scalars among tensors of one shape; in one round a shape that differs. */
static void three(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3), other = weft_shape_vector(5);
  for (int i = 0; i < 3; i++) {
    const bool is_scalar = c->round > 3 && weft_row_int(c, 0, 1) == 0;
    weft_row_add(c, c->dtype,
                 c->round == 7 && i == 2 ? &other
                 : is_scalar             ? &WEFT_SCALAR
                                         : &s,
                 i == 2 || c->round % 2 == 1 ? WEFT_ROW_ANY : WEFT_ROW_POSITIVE);
  }
}
static const weft_row_op_t special[] = {{"Betainc", WEFT_CUDA_SET(F32_F64), three}};

#define complex_EQUAL equal
#define complex_BROADCAST two

#define make_SAME_EQUAL equal
#define make_SAME_BROADCAST two
#define make_TRUTH_BROADCAST two

static weft_row_op_t unary[] = {
#define WEFT_CUDA_UNARY(op, set, result) {#op, WEFT_CUDA_SET(set), one},
#include "kernels/cuda/special_unary.def"
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY
#define WEFT_CUDA_COMPLEX_UNARY(op) {#op, WEFT_CUDA_SET(COMPLEX), complex_one, .tolerance = 20},
#include "kernels/cuda/complex_unary.def"
#undef WEFT_CUDA_COMPLEX_UNARY
    {"Inv", WEFT_CUDA_SET(FLOAT_I64), one},     {"Inv", WEFT_CUDA_SET(COMPLEX), complex_one},
    {"LeakyRelu", WEFT_CUDA_SET(FLOAT), leaky}, {"LeakyReluGrad", WEFT_CUDA_SET(FLOAT), leaky_grad},
    {"Round", WEFT_CUDA_SET(FLOAT), one},
};

static const struct {
  const char *op;
  void (*make)(weft_row_case_t *c);
} own[] = {{"Div", divide},         {"Equal", compare},     {"FloorDiv", divide}, {"FloorMod", modulo},
           {"Mod", modulo},         {"NotEqual", compare},  {"Pow", power},       {"RealDiv", divide},
           {"TruncateDiv", divide}, {"TruncateMod", modulo}};
/* Of complex numbers. */
static const char *const finite_ops[] = {"Pow", "Xlog1py", "Xlogy"};

static weft_row_op_t binary[] = {
#define WEFT_CUDA_BINARY(op, set, result, shapes) {#op, WEFT_CUDA_SET(set), make_##result##_##shapes},
#include "kernels/cuda/binary.def"
#include "kernels/cuda/special_binary.def"
#undef WEFT_CUDA_BINARY
#define WEFT_CUDA_COMPLEX_BINARY(op, result, shapes) \
  {#op, WEFT_CUDA_SET(COMPLEX), complex_##shapes, .tolerance = 20},
#include "kernels/cuda/complex_binary.def"
    WEFT_CUDA_COMPLEX_BINARY(Equal, TRUTH, BROADCAST) WEFT_CUDA_COMPLEX_BINARY(NotEqual, TRUTH, BROADCAST)
#undef WEFT_CUDA_COMPLEX_BINARY
        {"Add", WEFT_CUDA_SET(COMPLEX), two},
    {"Equal", WEFT_CUDA_SET(COMPLEX), compare},
    {"NotEqual", WEFT_CUDA_SET(COMPLEX), compare},
    {"InvGrad", WEFT_CUDA_SET(COMPLEX), equal},
    {"RealDiv", WEFT_CUDA_SET(COMPLEX), two},
    {"Add", WEFT_CUDA_SET(FLOAT_SIGNED) | UINT32_C(1) << WEFT_CUDA_u8, two},
    {"BiasAdd", WEFT_CUDA_SET(REAL), bias},
    {"BiasAddV1", WEFT_CUDA_SET(REAL), bias_v1},
    {"InvGrad", WEFT_CUDA_SET(FLOAT), equal},
    {"Mod", WEFT_CUDA_SET(FLOAT_INDEX), two},
    {"RealDiv", WEFT_CUDA_SET(REAL), two},
};
enum { NUM_UNARY = sizeof unary / sizeof unary[0], NUM_BINARY = sizeof binary / sizeof binary[0] };

static void unary_as_the_cpu(void) {
  static const char *const names[] = {"Cos", "Cosh", "Sigmoid", "Sin", "Sinh", "Tan", "Tanh"};
  for (int i = 0; i < NUM_UNARY; i++) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
      if (unary[i].make == complex_one && strcmp(unary[i].op, names[k]) == 0) unary[i].make = complex_finite;
    }
  }
  weft_row_check(weft_cuda_unary_kernels, unary, NUM_UNARY);
}
static void binary_as_the_cpu(void) {
  for (int i = 0; i < NUM_BINARY; i++) {
    if (binary[i].types == WEFT_CUDA_SET(COMPLEX)) {
      for (size_t k = 0; k < sizeof finite_ops / sizeof finite_ops[0]; k++) {
        if (strcmp(binary[i].op, finite_ops[k]) != 0) continue;
        binary[i].make = finite_numbers;
        binary[i].tolerance = 200; /* the CPU computes those of floats in float */
      }
      continue;
    }
    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
      if (strcmp(binary[i].op, own[k].op) == 0) binary[i].make = own[k].make;
    }
  }
  weft_row_check(weft_cuda_binary_kernels, binary, NUM_BINARY);
}
static void special_as_the_cpu(void) { weft_row_check(weft_cuda_special_kernels, special, 1); }
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_special_kernels, special, 1);
  weft_row_check_covered(weft_cuda_unary_kernels, unary, NUM_UNARY);
  weft_row_check_covered(weft_cuda_binary_kernels, binary, NUM_BINARY);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"unary as the CPU", unary_as_the_cpu},
      {"binary as the CPU", binary_as_the_cpu},
      {"special as the CPU", special_as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("elementwise", tests);
}
