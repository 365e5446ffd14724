/* tests/kernels/half_test.c - half and bfloat16 are computed as float is, and rounded once (tensor/half.h),
 * on the instruction-set level that WEFT_ISA names; and rows of few elements, which kernels take many at a
 * time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "tensor/half.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { ALL = 65536, PAIRS = 70001 };

static const weft_dtype_t halfs[] = {WEFT_F16, WEFT_BF16};
static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

static float to_float(weft_dtype_t dtype, uint16_t x) {
  return dtype == WEFT_F16 ? weft_f16_to_f32(x) : weft_bf16_to_f32(x);
}
static uint16_t from_float(weft_dtype_t dtype, float x) {
  return dtype == WEFT_F16 ? weft_f32_to_f16(x) : weft_f32_to_bf16(x);
}
static bool is_nan(weft_dtype_t dtype, uint16_t x) {
  return (x & 0x7fff) > (dtype == WEFT_F16 ? 0x7c00 : 0x7f80);
}

static weft_tensor_t *tensor(weft_dtype_t dtype, weft_shape_t shape, const void *values) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &t));
  memcpy(t->data, values, (size_t)t->count * weft_dtype_size(dtype));
  return t;
}

/* Consumes the inputs. */
static weft_tensor_t *run(const char *op, const char *attrs, weft_tensor_t **in, int n) {
  weft_tensor_t *y = NULL;
  int num = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&bench, op, attrs, in, n, &y, 1, &num));
  for (int i = 0; i < n; i++) weft_tensor_release(in[i]);
  return y;
}

/* Of the same values as float. */
static weft_tensor_t *widened(const weft_tensor_t *t) {
  weft_tensor_t *y = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &t->shape, NULL, &y));
  for (int64_t i = 0; i < t->count; i++) ((float *)y->data)[i] = to_float(t->dtype, ((uint16_t *)t->data)[i]);
  return y;
}

/* How many elements of `got` are not `exact`, rounded if it is float. A NaN may have any bits. */
static int differ(const weft_tensor_t *got, const weft_tensor_t *exact) {
  int wrong = 0;
  CU_ASSERT_EQUAL_FATAL(got->count, exact->count);
  if (got->dtype == WEFT_F32 || got->dtype == WEFT_C64) {
    const float *y = got->data, *e = exact->data;
    for (int64_t i = 0; i < got->count * (got->dtype == WEFT_C64 ? 2 : 1); i++)
      wrong += memcmp(y + i, e + i, sizeof *y) != 0 && !(isnan(y[i]) && isnan(e[i]));
    return wrong;
  }
  if (got->dtype == exact->dtype)
    return memcmp(got->data, exact->data, (size_t)got->count * weft_dtype_size(got->dtype)) != 0;
  for (int64_t i = 0; i < got->count; i++) {
    const uint16_t y = ((uint16_t *)got->data)[i], e = from_float(got->dtype, ((float *)exact->data)[i]);
    wrong += y != e && !(is_nan(got->dtype, y) && is_nan(got->dtype, e));
  }
  return wrong;
}

/* Releases both. */
static void expect(const char *op, weft_tensor_t *got, weft_tensor_t *exact) {
  const int wrong = differ(got, exact);
  if (wrong != 0) fprintf(stderr, "%s of %s: %d differ\n", op, weft_dtype_name(got->dtype), wrong);
  CU_ASSERT_EQUAL(wrong, 0);
  weft_tensor_release(got);
  weft_tensor_release(exact);
}

static weft_tensor_t *all_values(weft_dtype_t dtype) {
  uint16_t x[ALL];
  for (int i = 0; i < ALL; i++) x[i] = (uint16_t)i;
  return tensor(dtype, weft_shape_vector(ALL), x);
}

static weft_tensor_t *some_values(weft_dtype_t dtype, int64_t n, unsigned seed) {
  uint16_t *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (uint16_t)(seed >> 16);
  }
  weft_tensor_t *t = tensor(dtype, weft_shape_vector(n), x);
  free(x);
  return t;
}

static void functions_of_every_half(void) {
  static const char *const ops[] = {"Abs",      "Ceil",    "Elu",      "Erf",      "Exp",    "Floor",
                                    "IsFinite", "IsNan",   "Log",      "Neg",      "Relu",   "Rint",
                                    "Rsqrt",    "Sigmoid", "Sign",     "Softplus", "Square", "Reciprocal",
                                    "Tanh",     "Ndtri",   "LeakyRelu"};
  begin();
  for (size_t d = 0; d < 2; d++) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
      weft_tensor_t *x = all_values(halfs[d]), *wide = widened(x);
      expect(ops[i], run(ops[i], NULL, &x, 1), run(ops[i], NULL, &wide, 1));
    }
  }
  end();
}

static void functions_of_two_halfs(void) {
  static const char *const ops[] = {"AddV2", "Equal",   "Greater",           "Maximum", "Minimum", "Mul",
                                    "Pow",   "RealDiv", "SquaredDifference", "Sub",     "TanhGrad"};
  begin();
  for (size_t d = 0; d < 2; d++) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
      for (int form = 0; form < 3; form++) { /* the first, or the second, is one number */
        if (form > 0 && strcmp(ops[i], "TanhGrad") == 0) continue;
        weft_tensor_t *in[] = {some_values(halfs[d], form == 1 ? 1 : PAIRS, 5),
                               some_values(halfs[d], form == 2 ? 1 : PAIRS, 9)};
        weft_tensor_t *wide[] = {widened(in[0]), widened(in[1])};
        expect(ops[i], run(ops[i], NULL, in, 2), run(ops[i], NULL, wide, 2));
      }
    }
  }
  end();
}

static void casts_go_through_float(void) {
  static const char *const to[] = {"float", "double", "int8", "uint8", "int32", "int64", "bool", "complex64"};
  static const char *const half_names[] = {"DstT=half", "DstT=bfloat16"};
  begin();
  for (size_t d = 0; d < 2; d++) {
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
      char attrs[32];
      snprintf(attrs, sizeof attrs, "DstT=%s", to[i]);
      weft_tensor_t *x = all_values(halfs[d]), *wide = widened(x), *there = NULL, *again = NULL;
      if (i > 0) {
        expect("Cast", run("Cast", attrs, &x, 1), run("Cast", attrs, &wide, 1));
      } else {
        there = run("Cast", attrs, &x, 1);
        CU_ASSERT_EQUAL(differ(there, wide), 0);
        weft_tensor_release(there);
        weft_tensor_release(wide);
      }
      x = some_values(WEFT_BF16, PAIRS, 3);
      there = run("Cast", attrs, &x, 1);
      again = weft_tensor_retain(there);
      wide = run("Cast", "DstT=float", &again, 1);
      expect("Cast back", run("Cast", half_names[d], &there, 1), wide);
    }
  }
  end();
}

/* Each partial sum is rounded. */
static void sums_of_halfs_are_rounded_one_by_one(void) {
  begin();
  for (size_t d = 0; d < 2; d++) {
    weft_tensor_t *in[5], *y = NULL;
    for (unsigned k = 0; k < 5; k++) in[k] = some_values(halfs[d], 1111, k);
    y = weft_tensor_retain(in[0]);
    for (int k = 1; k < 5; k++) {
      weft_tensor_t *two[] = {y, weft_tensor_retain(in[k])};
      y = run("AddV2", NULL, two, 2);
    }
    weft_tensor_t *sum = run("AddN", "N=5", in, 5);
    int wrong = 0;
    for (int64_t i = 0; i < sum->count; i++) {
      const uint16_t a = ((uint16_t *)sum->data)[i], b = ((uint16_t *)y->data)[i];
      wrong += a != b && !(is_nan(halfs[d], a) && is_nan(halfs[d], b));
    }
    CU_ASSERT_EQUAL(wrong, 0);
    weft_tensor_release(sum);
    weft_tensor_release(y);
  }
  end();
}

/* ---- rows of few elements ---- */

/* `x`, repeated along the dimensions that it lacks. */
static weft_tensor_t *repeated(const weft_tensor_t *x, weft_shape_t shape) {
  weft_tensor_t *y = NULL;
  const size_t size = weft_dtype_size(x->dtype);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(x->dtype, &shape, NULL, &y));
  for (int64_t i = 0; i < y->count; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
      const int mine = d - (shape.rank - x->shape.rank);
      const int64_t dim = mine < 0 ? 1 : x->shape.dims[mine];
      if (dim > 1) at += rest % shape.dims[d] * step;
      step *= dim;
      rest /= shape.dims[d];
    }
    memcpy((char *)y->data + (size_t)i * size, (const char *)x->data + (size_t)at * size, size);
  }
  return y;
}

static void short_rows_are_repeated_as_long_ones(void) {
  static const weft_shape_t shapes[][2] = {
      {{.rank = 2, .dims = {2501, 3}}, {.rank = 1, .dims = {3}}},
      {{.rank = 2, .dims = {2501, 4}}, {.rank = 2, .dims = {2501, 1}}},
      {{.rank = 2, .dims = {1, 5}}, {.rank = 2, .dims = {777, 1}}},
      {{.rank = 3, .dims = {7, 300, 2}}, {.rank = 3, .dims = {7, 1, 2}}},
      {{.rank = 3, .dims = {1, 300, 1}}, {.rank = 3, .dims = {9, 1, 47}}},
      {{.rank = 4, .dims = {3, 1, 5, 1}}, {.rank = 4, .dims = {1, 6, 5, 7}}},
  };
  static const weft_dtype_t dtypes[] = {WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16, WEFT_I8, WEFT_C128};
  begin();
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
      for (int swap = 0; swap < 2; swap++) {
        weft_tensor_t *in[2], *all[2];
        for (int k = 0; k < 2; k++) {
          CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtypes[d], &shapes[s][k ^ swap], NULL, &in[k]));
          const size_t bytes = (size_t)in[k]->count * weft_dtype_size(dtypes[d]);
          for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)in[k]->data)[i] = (uint8_t)(i * 7 + (size_t)k + i / 9) & 0x3f;
        }
        weft_tensor_t *kept[] = {weft_tensor_retain(in[0]), weft_tensor_retain(in[1])};
        weft_tensor_t *got = run("Sub", NULL, in, 2);
        for (int k = 0; k < 2; k++) {
          all[k] = repeated(kept[k], got->shape);
          weft_tensor_release(kept[k]);
        }
        expect("Sub", got, run("Sub", NULL, all, 2));
      }
    }
  }
  end();
}

int main(void) {
  const uint64_t old = weft_float_mode_flush(); /* as threads that run kernels */
  static const CU_TestInfo tests[] = {
      {"functions of every half", functions_of_every_half},
      {"functions of two halfs", functions_of_two_halfs},
      {"casts go through float", casts_go_through_float},
      {"sums of halfs are rounded one by one", sums_of_halfs_are_rounded_one_by_one},
      {"short rows are repeated as long ones", short_rows_are_repeated_as_long_ones},
      CU_TEST_INFO_NULL,
  };
  const int code = weft_run_tests("half", tests);
  weft_float_mode_restore(old);
  return code;
}
