/* tests/kernels/vector_math_test.c - elementwise functions against the C library's in a wider type, on the
 * instruction-set level that WEFT_ISA names: their error in ulp, special values, and that a result does not
 * depend on where its element stands.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/isa.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"

static float sigmoid_limit = 3, softplus_limit = 2;

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double softplus(long double x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
static long double elu(long double x) { return x < 0 ? expm1l(x) : x; }
static long double rsqrt(long double x) { return 1 / sqrtl(x); }

/* What docs/performance.md says of each function: the largest error in units of the last place. */
static const struct {
  const char *op;
  long double (*exact)(long double);
  const float *single_at_most; /* NULL: 4 */
} functions[] = {
    {"Acos", acosl, NULL},
    {"Acosh", acoshl, NULL},
    {"Asin", asinl, NULL},
    {"Asinh", asinhl, NULL},
    {"Atan", atanl, NULL},
    {"Atanh", atanhl, NULL},
    {"Cos", cosl, NULL},
    {"Cosh", coshl, NULL},
    {"Elu", elu, NULL},
    {"Erf", erfl, NULL},
    {"Erfc", erfcl, NULL},
    {"Exp", expl, &softplus_limit},
    {"Expm1", expm1l, NULL},
    {"Log", logl, &softplus_limit},
    {"Log1p", log1pl, NULL},
    {"Rsqrt", rsqrt, NULL},
    {"Sigmoid", sigmoid, &sigmoid_limit},
    {"Sin", sinl, NULL},
    {"Sinh", sinhl, NULL},
    {"Softplus", softplus, &softplus_limit},
    {"Tan", tanl, NULL},
    {"Tanh", tanhl, NULL},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof functions[0], MAX_N = 1 << 20 };

static weft_tensor_t *run1(weft_bench_t *b, const char *op, weft_dtype_t dtype, const void *values,
                           int64_t n) {
  const weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *x = NULL, *y = NULL;
  int num = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &x));
  memcpy(x->data, values, (size_t)n * weft_dtype_size(dtype));
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(b, op, NULL, &x, 1, &y, 1, &num));
  weft_tensor_release(x);
  return y;
}

/* In units of the last place of a type with so many bits of mantissa, which begins with `normal`. Steps run
 * with subnormal numbers as zeros, as TensorFlow's do. */
static double error_of(long double got, long double exact, int digits, long double normal) {
  const long double largest = digits == 24 ? 3.40282347e38L : 1.7976931348623157e308L;
  if (fabsl(exact) <= normal && fabsl(got) <= normal) return 0;
  if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
  if (isinf(got) && fabsl(exact) > largest * (1 - 1e-7L))
    return signbit(got) == signbit(exact) ? 0 : INFINITY;
  if (isinf(got) || isinf(exact)) return got == exact ? 0 : INFINITY;
  int e = 0;
  (void)frexpl(exact, &e);
  return (double)(fabsl(got - exact) / ldexpl(1, e - digits));
}

static long double without_subnormals(long double x, long double normal) {
  return fabsl(x) < normal ? copysignl(0, x) : x;
}

static void floats_are_as_exact_as_it_is_said(void) {
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  float *x = malloc(MAX_N * sizeof *x);
  int n = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32 && n < MAX_N; bits += 4099) {
    const uint32_t u = (uint32_t)bits;
    memcpy(&x[n++], &u, sizeof u);
  }
  for (int f = 0; f < NUM_FUNCTIONS; f++) {
    weft_tensor_t *y = run1(&b, functions[f].op, WEFT_F32, x, n);
    double worst = 0;
    float at = 0;
    for (int i = 0; i < n; i++) {
      const long double exact = functions[f].exact(without_subnormals((long double)x[i], FLT_MIN));
      const double e = error_of(((const float *)y->data)[i], exact, 24, FLT_MIN);
      if (!(e <= worst)) {
        worst = e;
        at = x[i];
      }
    }
    const double at_most = functions[f].single_at_most == NULL ? 4.01 : (double)*functions[f].single_at_most;
    if (worst > at_most) fprintf(stderr, "%s(%a): %.2f ulp\n", functions[f].op, (double)at, worst);
    CU_ASSERT_TRUE(worst <= at_most);
    weft_tensor_release(y);
  }
  free(x);
  weft_bench_deinit(&b);
}

/* Newton's method on a concave function, from the left, where it does not go beyond the root. */
static long double erfinv(long double x) {
  long double y = fabsl(x) * 0.8862269254527580136L, step = 1;
  if (fabsl(x) < 1e-9L) return x * 0.8862269254527580136L;
  for (int i = 0; i < 200 && fabsl(step) > fabsl(y) * 1e-15L; i++) {
    step = (fabsl(x) - erfl(y)) * expl(y * y) * 0.8862269254527580136L;
    y += step;
  }
  return copysignl(y, x);
}

static long double ndtri(long double p) {
  long double y = -14, step = 1;
  for (int i = 0; i < 200 && fabsl(step) > fabsl(y) * 1e-15L; i++) {
    const long double below = 0.5L * erfcl(-y * 0.70710678118654752440L);
    step = (logl(p) - logl(below)) * below / (0.39894228040143267794L * expl(-0.5L * y * y));
    y += step;
  }
  return y;
}

static void inverse_error_functions_of_floats_are_exact(void) {
  enum { N = 3000 };
  static const struct {
    const char *op;
    long double (*exact)(long double);
  } inverses[] = {{"Erfinv", erfinv}, {"Ndtri", ndtri}};
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  float x[N];
  for (uint32_t i = 0; i < N; i++) { /* all exponents below 1; then the last floats below it */
    const uint32_t bits = i < N - 100 ? 0x00800001u + i * ((0x3f800000u - 0x00800001u) / (N - 100))
                                      : 0x3f7fff9cu + i - (N - 100);
    memcpy(&x[i], &bits, sizeof bits);
  }
  for (size_t f = 0; f < 2; f++) {
    weft_tensor_t *y = run1(&b, inverses[f].op, WEFT_F32, x, N);
    double worst = 0, at = 0;
    for (int i = 0; i < N; i++) {
      const long double exact = inverses[f].exact((long double)x[i]);
      const double e = error_of((long double)((const float *)y->data)[i], exact, 24, FLT_MIN);
      if (!(e <= worst)) {
        worst = e;
        at = (double)x[i];
      }
    }
    if (worst > 2) fprintf(stderr, "%s(%a): %.2f ulp\n", inverses[f].op, at, worst);
    CU_ASSERT_TRUE(worst <= 2);
    weft_tensor_release(y);
  }
  weft_bench_deinit(&b);
}

static double any_double(uint64_t *state) {
  double x;
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  const uint64_t bits = *state >> 2 ^ *state << 29;
  if (bits % 4 == 0) { /* any exponent */
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  return ((double)(bits >> 12) / 4503599627370496.0 - 0.5) * (bits % 4 == 1 ? 2 : bits % 4 == 2 ? 40 : 1e-3);
}

static void doubles_are_as_exact_as_it_is_said(void) {
  enum { N = 60000 };
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  double *x = malloc(N * sizeof *x);
  uint64_t state = 12345;
  for (int i = 0; i < N; i++) x[i] = any_double(&state);
  for (int f = 0; f < NUM_FUNCTIONS; f++) {
    weft_tensor_t *y = run1(&b, functions[f].op, WEFT_F64, x, N);
    double worst = 0, at = 0;
    for (int i = 0; i < N; i++) {
      const long double exact = functions[f].exact(without_subnormals((long double)x[i], DBL_MIN));
      const double e = error_of((long double)((const double *)y->data)[i], exact, 53, DBL_MIN);
      if (!(e <= worst)) {
        worst = e;
        at = x[i];
      }
    }
    if (worst > 6) fprintf(stderr, "%s(%a): %.2f ulp\n", functions[f].op, at, worst);
    CU_ASSERT_TRUE(worst <= 6);
    weft_tensor_release(y);
  }
  free(x);
  weft_bench_deinit(&b);
}

/* A part of an array gives the bits that the whole array has there: replicas that split a batch agree. */
static void a_result_does_not_depend_on_its_place(void) {
  static const char *const binary[] = {"Pow", "Atan2", "Xlogy", "Xlog1py"};
  static const weft_dtype_t dtypes[] = {WEFT_F32, WEFT_F64, WEFT_F16};
  enum { N = 83 };
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    const size_t size = weft_dtype_size(dtypes[d]);
    char values[2][N * sizeof(double)];
    for (int k = 0; k < 2; k++) {
      for (int i = 0; i < N; i++) {
        const double x = 0.03 + 0.0113 * ((i * 37 + k * 11) % N);
        const float single = (float)x;
        const uint16_t half = (uint16_t)(0x2c00 + (i * 37 + k * 11) % N * 23);
        memcpy(values[k] + (size_t)i * size,
               size == 8   ? (const void *)&x
               : size == 4 ? (const void *)&single
                           : &half,
               size);
      }
    }
    for (int f = 0; f < NUM_FUNCTIONS; f++) {
      weft_tensor_t *all = run1(&b, functions[f].op, dtypes[d], values[0], N);
      for (int begin = 0; begin < N; begin += 7) {
        for (int n = 1; begin + n <= N; n += begin % 3 + 5) {
          weft_tensor_t *part = run1(&b, functions[f].op, dtypes[d], values[0] + (size_t)begin * size, n);
          CU_ASSERT_EQUAL(memcmp(part->data, (char *)all->data + (size_t)begin * size, (size_t)n * size), 0);
          weft_tensor_release(part);
        }
      }
      weft_tensor_release(all);
    }
    for (size_t f = 0; f < sizeof binary / sizeof binary[0]; f++) {
      /* Each of x with all of y, as a row that repeats x, and one by one. */
      for (int i = 0; i < N; i += 9) {
        const weft_shape_t one = weft_shape_vector(1), many = weft_shape_vector(N);
        weft_tensor_t *in[2] = {NULL}, *row = NULL;
        int num = 0;
        CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtypes[d], &one, NULL, &in[0]));
        CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtypes[d], &many, NULL, &in[1]));
        memcpy(in[0]->data, values[0] + (size_t)i * size, size);
        memcpy(in[1]->data, values[1], N * size);
        CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&b, binary[f], NULL, in, 2, &row, 1, &num));
        weft_tensor_release(in[1]);
        for (int k = 0; k < N; k++) {
          weft_tensor_t *alone = NULL;
          CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtypes[d], &one, NULL, &in[1]));
          memcpy(in[1]->data, values[1] + (size_t)k * size, size);
          CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&b, binary[f], NULL, in, 2, &alone, 1, &num));
          CU_ASSERT_EQUAL(memcmp(alone->data, (char *)row->data + (size_t)k * size, size), 0);
          weft_tensor_release(alone);
          weft_tensor_release(in[1]);
        }
        weft_tensor_release(in[0]);
        weft_tensor_release(row);
      }
    }
  }
  weft_bench_deinit(&b);
}

static void the_level_is_the_one_that_was_asked_for(void) {
  const char *text = getenv("WEFT_ISA");
  weft_isa_t isa = WEFT_ISA_BASE;
  CU_ASSERT_TRUE(weft_isa_is_supported(weft_isa()));
  if (text == NULL || !weft_isa_of_name(weft_str(text), &isa) || !weft_isa_is_supported(isa)) return;
  CU_ASSERT_EQUAL(weft_isa(), isa);
}

static void names_of_levels(void) {
  weft_isa_t isa = WEFT_ISA_BASE;
#ifdef __x86_64__
  CU_ASSERT_TRUE(weft_isa_of_name(WEFT_STR("v4"), &isa));
  CU_ASSERT_EQUAL(isa, WEFT_ISA_V4);
  CU_ASSERT_TRUE(weft_isa_of_name(WEFT_STR("x86-64-v3"), &isa));
  CU_ASSERT_EQUAL(isa, WEFT_ISA_V3);
#endif
  CU_ASSERT_TRUE(weft_isa_of_name(weft_str(weft_isa_name(WEFT_ISA_BASE)), &isa));
  CU_ASSERT_EQUAL(isa, WEFT_ISA_BASE);
  static const char *const others[] = {"", "v", "v5", "x86-64", "x86-64-", "x86-64-v3 ", "V3", "3"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    CU_ASSERT_FALSE(weft_isa_of_name(weft_str(others[i]), &isa));
}

int main(void) {
  const uint64_t old = weft_float_mode_flush(); /* as threads that run kernels */
  static const CU_TestInfo tests[] = {
      {"the level is the one that was asked for", the_level_is_the_one_that_was_asked_for},
      {"names of levels", names_of_levels},
      {"floats are as exact as it is said", floats_are_as_exact_as_it_is_said},
      {"doubles are as exact as it is said", doubles_are_as_exact_as_it_is_said},
      {"inverse error functions of floats are exact", inverse_error_functions_of_floats_are_exact},
      {"a result does not depend on its place", a_result_does_not_depend_on_its_place},
      CU_TEST_INFO_NULL,
  };
  const int code = weft_run_tests("vector_math", tests);
  weft_float_mode_restore(old);
  return code;
}
