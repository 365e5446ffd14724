/* tests/kernels/table_test.c - walks the tables: every elementwise op and every reduction, in every dtype
 * that has a kernel, against itself in double and in pieces. A new line in a table is tested without new test
 * code.
 *
 * What a single number should be is golden_test's business; here is what must hold for any function:
 *   - a large tensor (several threads, vectors) gives what its pieces give
 *   - broadcasting gives what operands spread out beforehand give
 *   - working in place gives what working apart gives
 *   - a narrow type gives what double gives, within its epsilon
 *   - an empty tensor gives an empty one, and a NaN no crash
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { LARGE = 70003, PIECE = 17, MAX_INPUTS = 3 };

static uint64_t seed = 42;
static double draw(void) { /* [0, 1) */
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 40) / 16777216.0;
}

typedef struct bench {
  weft_bench_t b;
  int checks, failures;
} bench_t;

static void expect(bench_t *t, bool ok, const char *op, int dtype, const char *what) {
  t->checks++;
  if (ok) return;
  t->failures++;
  fprintf(stderr, "%s of %s: %s\n", op, weft_dtype_name(dtype), what);
}

static weft_tensor_t *new_tensor(weft_dtype_t dtype, weft_shape_t shape) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  if (s != NULL) abort();
  return t;
}

/* Numbers for which most functions are defined: 0.1 to 0.9 and, for integers, 1 to 5. */
static void fill(weft_tensor_t *t) {
  for (int64_t i = 0; i < t->count; i++) {
    double v = 0.1 + 0.8 * draw();
    int n = 1 + (int)(draw() * 5);
    switch (t->dtype) {
      case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
      case WEFT_F64: ((double *)t->data)[i] = v; break;
      case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v); break;
      case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)v); break;
      case WEFT_C64: ((weft_c64_t *)t->data)[i] = (weft_c64_t){(float)v, (float)(draw() - 0.5)}; break;
      case WEFT_C128: ((weft_c128_t *)t->data)[i] = (weft_c128_t){v, draw() - 0.5}; break;
      case WEFT_BOOL: ((uint8_t *)t->data)[i] = n > 3; break;
      case WEFT_STRING: {
        weft_status_t *s = weft_tensor_set_str(t, i, n > 3 ? WEFT_STR("yes") : WEFT_STR("no"));
        if (s != NULL) abort();
        break;
      }
      default: { /* little-endian: the low bytes are the number */
        int64_t wide = n;
        memcpy((char *)t->data + (size_t)i * weft_dtype_size(t->dtype), &wide, weft_dtype_size(t->dtype));
      }
    }
  }
}

/* Output 0, owned by the caller; NULL if the op refuses. */
static weft_tensor_t *run(bench_t *t, const char *op, weft_tensor_t *const *inputs, int n,
                          weft_code_t *out_code) {
  weft_tensor_t *outputs[8] = {NULL};
  int num = 0;
  weft_status_t *s = weft_run_op(&t->b, op, NULL, inputs, n, outputs, 8, &num);
  if (out_code != NULL) *out_code = weft_status_code(s);
  weft_status_free(s);
  for (int i = 1; i < num; i++) weft_tensor_release(outputs[i]);
  return outputs[0];
}

static weft_tensor_t *run_in_place(bench_t *t, const char *op, weft_tensor_t *const *inputs, int n) {
  int types[MAX_INPUTS];
  weft_tensor_t *mine[MAX_INPUTS] = {NULL}, *outputs[8] = {NULL};
  weft_harness_t *h = NULL;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    types[i] = inputs[i]->dtype;
    s = weft_tensor_copy(inputs[i], &mine[i]);
  }
  if (s == NULL) s = weft_harness_create(&t->b, op, NULL, types, n, &h);
  if (s == NULL) s = weft_harness_run_owned(h, mine, outputs);
  weft_harness_destroy(h);
  weft_status_free(s);
  return outputs[0];
}

static bool same(const weft_tensor_t *a, const weft_tensor_t *b, double tolerance) {
  weft_strbuf_t why = WEFT_STRBUF_INIT;
  bool ok = a != NULL && b != NULL && weft_tensor_close(a, b, tolerance, &why);
  weft_strbuf_deinit(&why);
  return ok;
}

static double epsilon_of(int dtype) {
  switch (dtype) {
    case WEFT_F16: return 0x1p-10;
    case WEFT_BF16: return 0x1p-7;
    case WEFT_F32:
    case WEFT_C64: return 0x1p-23;
    default: return 0x1p-52;
  }
}

static weft_tensor_t *cast(bench_t *t, weft_tensor_t *x, const char *to) {
  char attrs[32];
  weft_tensor_t *y = NULL;
  int n = 0;
  (void)snprintf(attrs, sizeof attrs, "DstT=%s", to);
  weft_status_t *s = weft_run_op(&t->b, "Cast", attrs, &x, 1, &y, 1, &n);
  weft_status_free(s);
  return y;
}

static void release_all(weft_tensor_t **t, int n) {
  for (int i = 0; i < n; i++) weft_tensor_release(t[i]);
}

/* ---- elementwise ---- */

static void pieces_agree(bench_t *t, const char *op, int dtype, weft_tensor_t **inputs, int n,
                         const weft_tensor_t *whole) {
  static const int64_t starts[] = {0, 32760, 40001, LARGE - PIECE};
  for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
    weft_tensor_t *parts[MAX_INPUTS] = {NULL}, *want = NULL;
    weft_status_t *s = weft_tensor_slice((weft_tensor_t *)(uintptr_t)whole, starts[k], PIECE, &want);
    for (int i = 0; s == NULL && i < n; i++) s = weft_tensor_slice(inputs[i], starts[k], PIECE, &parts[i]);
    weft_tensor_t *got = s == NULL ? run(t, op, parts, n, NULL) : NULL;
    expect(t, same(got, want, 4 * epsilon_of(dtype)), op, dtype, "a piece differs from the whole");
    weft_status_free(s);
    weft_tensor_release(got);
    weft_tensor_release(want);
    release_all(parts, n);
  }
}

/* Functions with jumps: a quotient that float rounds up to a whole number is one below it in double. */
static bool jumps(const char *op) {
  static const char *const names[] = {"FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(op, names[i]) == 0) return true;
  }
  return false;
}

static void double_agrees(bench_t *t, const char *op, int dtype, weft_tensor_t **inputs, int n,
                          weft_tensor_t *whole) {
  if (jumps(op) || (dtype != WEFT_F16 && dtype != WEFT_BF16 && dtype != WEFT_F32)) return;
  weft_tensor_t *wide[MAX_INPUTS] = {NULL}, *got = NULL, *want = NULL;
  for (int i = 0; i < n; i++) wide[i] = cast(t, inputs[i], "double");
  want = run(t, op, wide, n, NULL);
  bool widens = want != NULL && want->dtype != whole->dtype;
  got = widens ? cast(t, whole, weft_dtype_name(want->dtype)) : weft_tensor_retain(whole);
  if (want != NULL) expect(t, same(got, want, 16 * epsilon_of(dtype)), op, dtype, "differs from double");
  weft_tensor_release(got);
  weft_tensor_release(want);
  release_all(wide, n);
}

static weft_tensor_t *spread(bench_t *t, weft_tensor_t *x, const weft_shape_t *to) {
  weft_shape_t rank = weft_shape_vector(to->rank);
  weft_tensor_t *sizes = new_tensor(WEFT_I64, rank), *in[2] = {x, sizes};
  memcpy(sizes->data, to->dims, (size_t)to->rank * sizeof to->dims[0]);
  weft_tensor_t *y = run(t, "BroadcastTo", in, 2, NULL);
  weft_tensor_release(sizes);
  return y;
}

static void broadcasting_agrees(bench_t *t, const char *op, weft_dtype_t dtype, int n) {
  static const weft_shape_t cases[][2] = {
      {{.rank = 2, .dims = {5, 7}}, {.rank = 1, .dims = {7}}},
      {{.rank = 2, .dims = {5, 1}}, {.rank = 2, .dims = {1, 9}}},
      {{.rank = 0}, {.rank = 3, .dims = {2, 3, 5}}},
      {{.rank = 4, .dims = {3, 1, 2, 1}}, {.rank = 3, .dims = {5, 1, 4}}},
      {{.rank = 8, .dims = {2, 1, 2, 1, 1, 2, 1, 3}}, {.rank = 8, .dims = {1, 2, 1, 2, 1, 1, 2, 3}}},
      {{.rank = 2, .dims = {200, 300}}, {.rank = 2, .dims = {200, 1}}},
      {{.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {1, 3}}},
  };
  for (size_t k = 0; n == 2 && k < sizeof cases / sizeof cases[0]; k++) {
    weft_tensor_t *in[2] = {new_tensor(dtype, cases[k][0]), new_tensor(dtype, cases[k][1])}, *out[2] = {NULL};
    weft_code_t code = WEFT_OK;
    fill(in[0]);
    fill(in[1]);
    weft_tensor_t *got = run(t, op, in, 2, &code), *want = NULL;
    if (code == WEFT_OK) {
      for (int i = 0; i < 2; i++) out[i] = spread(t, in[i], &got->shape);
      bool spreads = out[0] != NULL && out[1] != NULL; /* or only the number of elements had to agree */
      if (spreads) want = run(t, op, out, 2, NULL);
      expect(t, !spreads || same(got, want, 4 * epsilon_of(dtype)), op, dtype, "broadcasting differs");
    } else { /* an op without broadcasting says so */
      expect(t, code == WEFT_INVALID_ARGUMENT, op, dtype, "broadcasting fails with another code");
    }
    weft_tensor_release(got);
    weft_tensor_release(want);
    release_all(in, 2);
    release_all(out, 2);
  }
}

static void check_elementwise(bench_t *t, const weft_op_def_t *op, weft_dtype_t dtype) {
  int n = op->num_inputs;
  weft_tensor_t *inputs[MAX_INPUTS] = {NULL};
  for (int i = 0; i < n; i++) {
    bool typed = op->inputs[i].kind == WEFT_ARG_ATTR;
    inputs[i] = new_tensor(typed ? dtype : (weft_dtype_t)op->inputs[i].dtype, weft_shape_vector(LARGE));
    fill(inputs[i]);
  }
  const char *name = op->name.data;
  weft_code_t code = WEFT_OK;
  weft_tensor_t *whole = run(t, name, inputs, n, &code);
  if (code == WEFT_NOT_FOUND) { /* no kernel for this dtype with the default attributes */
    release_all(inputs, n);
    return;
  }
  expect(t, whole != NULL, name, dtype, "fails");
  if (whole != NULL && whole->count == LARGE) {
    pieces_agree(t, name, dtype, inputs, n, whole);
    double_agrees(t, name, dtype, inputs, n, whole);
    weft_tensor_t *in_place = run_in_place(t, name, inputs, n);
    expect(t, same(in_place, whole, 0), name, dtype, "working in place differs");
    weft_tensor_release(in_place);
    broadcasting_agrees(t, name, dtype, n);
  }
  weft_tensor_release(whole);
  release_all(inputs, n);
}

/* Ops of the shape "f(x: T ...) -> T or bool" with nothing else required. */
static bool is_plain_map(const weft_op_def_t *op) {
  if ((op->flags & WEFT_OP_ELEMENTWISE) == 0 || (op->flags & WEFT_OP_STATEFUL) != 0) return false;
  if (op->num_inputs < 1 || op->num_inputs > MAX_INPUTS || op->num_outputs != 1) return false;
  for (int i = 0; i < op->num_inputs; i++) {
    const weft_arg_def_t *a = &op->inputs[i];
    if (a->is_ref || (a->kind != WEFT_ARG_ATTR && a->kind != WEFT_ARG_FIXED)) return false;
    if (a->kind == WEFT_ARG_ATTR && !weft_str_is(a->type_attr, "T")) return false;
  }
  for (int i = 0; i < op->num_attrs; i++) {
    if (!op->attrs[i].has_default && !weft_str_is(op->attrs[i].name, "T")) return false;
  }
  return !weft_str_is(op->name, "ApproximateEqual");
}

static void elementwise_ops_hold_in_every_dtype(void) {
  bench_t t = {.checks = 0};
  int num_ops = 0, walked = 0;
  weft_status_t *s = weft_bench_init(&t.b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  const weft_op_def_t *const *ops = weft_op_list(&num_ops);
  for (int i = 0; i < num_ops; i++) {
    weft_dtype_set_t types = 0;
    if (!is_plain_map(ops[i]) || !weft_kernel_exists("CPU", ops[i]->name, &types)) continue;
    const weft_attr_def_t *attr = weft_op_attr(ops[i], WEFT_STR("T"));
    walked++;
    if (attr == NULL) {
      check_elementwise(&t, ops[i], WEFT_BOOL);
      continue;
    }
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
      weft_dtype_set_t bit = WEFT_DTYPE_BIT(d);
      bool usual = (bit & (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL) | WEFT_DTYPE_BIT(WEFT_STRING))) != 0;
      if (!usual || (types != 0 && (types & bit) == 0)) continue;
      if (attr->allowed_types != 0 && (attr->allowed_types & bit) == 0) continue;
      check_elementwise(&t, ops[i], (weft_dtype_t)d);
    }
  }
  weft_bench_deinit(&t.b);
  fprintf(stderr, "%d ops, %d checks, %d failed\n", walked, t.checks, t.failures);
  CU_ASSERT_TRUE(walked > 80);
  CU_ASSERT_EQUAL(t.failures, 0);
}

/* ---- reductions ---- */

/* Whether the result in the dtype itself is that of the wide type, rounded or wrapped at the end. The norm of
 * narrow integers is not: squares wrap around before their root is taken. The conformance suite has its
 * numbers (properties/arithmetic.py). */
static bool is_narrowing(const char *op, weft_dtype_t dtype) {
  return strcmp(op, "EuclideanNorm") == 0 && weft_dtype_is_integer(dtype) && weft_dtype_size(dtype) < 8;
}

static void check_reduction(bench_t *t, const char *op, weft_dtype_t dtype, weft_shape_t shape,
                            const int32_t *axes, int num_axes) {
  bool is_int = weft_dtype_is_integer(dtype), is_complex = weft_dtype_is_complex(dtype);
  const char *wide_type = is_int ? "int64" : is_complex ? "complex128" : "double";
  weft_tensor_t *x = new_tensor(dtype, shape), *list = new_tensor(WEFT_I32, weft_shape_vector(num_axes));
  if (num_axes > 0) memcpy(list->data, axes, (size_t)num_axes * sizeof axes[0]);
  fill(x);
  weft_tensor_t *wide = cast(t, x, wide_type), *in[2] = {x, list}, *wide_in[2] = {wide, list};
  weft_tensor_t *got = run(t, op, in, 2, NULL), *reference = run(t, op, wide_in, 2, NULL), *want = NULL;
  if (got != NULL && reference != NULL) {
    /* Integers wrap alike; the rest is rounded once at the end. A product of many numbers loses an epsilon
     * for each. */
    want = (int)dtype == weft_dtype_from_name(weft_str(wide_type))
               ? weft_tensor_retain(reference)
               : cast(t, reference, weft_dtype_name(dtype));
    double steps = strcmp(op, "Prod") == 0 ? 64 : 8;
    expect(t, same(got, want, is_int ? 0 : steps * epsilon_of(dtype)), op, dtype,
           "differs from the wide type");
  } else {
    expect(t, false, op, dtype, "fails");
  }
  weft_tensor_release(want);
  weft_tensor_release(reference);
  weft_tensor_release(got);
  release_all(wide_in, 1);
  release_all(in, 2);
}

static void reductions_hold_in_every_dtype(void) {
  static const char *const ops[] = {"Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"};
  static const struct {
    weft_shape_t shape;
    int32_t axes[4];
    int n;
  } cases[] = {
      {{.rank = 1, .dims = {200003}}, {0}, 1},        /* cut into pieces */
      {{.rank = 2, .dims = {5001, 33}}, {0}, 1},      /* rows of accumulators, cut */
      {{.rank = 2, .dims = {33, 5001}}, {1}, 1},      /* runs */
      {{.rank = 3, .dims = {7, 901, 13}}, {1}, 1},    /* between kept ones */
      {{.rank = 4, .dims = {3, 5, 7, 2}}, {0, 2}, 2}, /* alternating */
      {{.rank = 4, .dims = {3, 5, 7, 2}}, {1, 3}, 2}, {{.rank = 2, .dims = {1, 1}}, {0, 1}, 2},
      {{.rank = 2, .dims = {4, 9}}, {0}, 0}, /* none: a copy */
  };
  bench_t t = {.checks = 0};
  weft_status_t *s = weft_bench_init(&t.b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
    weft_dtype_set_t types = 0;
    CU_ASSERT_TRUE(weft_kernel_exists("CPU", weft_str(ops[o]), &types));
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
      if ((types & WEFT_DTYPE_BIT(d)) == 0 || is_narrowing(ops[o], (weft_dtype_t)d)) continue;
      for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        check_reduction(&t, ops[o], (weft_dtype_t)d, cases[k].shape, cases[k].axes, cases[k].n);
      }
    }
  }
  weft_bench_deinit(&t.b);
  CU_ASSERT_EQUAL(t.failures, 0);
}

/* ---- products of matrices large enough for several threads ---- */

static void products_hold_in_every_dtype(void) {
  static const char *const flips[] = {
      "transpose_a=false transpose_b=false", "transpose_a=true transpose_b=false",
      "transpose_a=false transpose_b=true", "transpose_a=true transpose_b=true"};
  static const int types[] = {WEFT_F32, WEFT_F64, WEFT_F16,  WEFT_BF16, WEFT_I32,
                              WEFT_I64, WEFT_C64, WEFT_C128, WEFT_U8};
  bench_t t = {.checks = 0};
  weft_status_t *s = weft_bench_init(&t.b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (size_t d = 0; d < sizeof types / sizeof types[0]; d++) {
    weft_dtype_t dtype = (weft_dtype_t)types[d];
    const char *wide_type = weft_dtype_is_integer(dtype)   ? "int64"
                            : weft_dtype_is_complex(dtype) ? "complex128"
                                                           : "double";
    for (int f = 0; f < 4; f++) {
      int64_t m = 211, k = 97, n = 103;
      weft_shape_t sa = (f & 1) != 0 ? weft_shape_matrix(k, m) : weft_shape_matrix(m, k);
      weft_shape_t sb = (f & 2) != 0 ? weft_shape_matrix(n, k) : weft_shape_matrix(k, n);
      weft_tensor_t *in[2] = {new_tensor(dtype, sa), new_tensor(dtype, sb)}, *wide[2], *got = NULL,
                    *want = NULL, *back;
      int num = 0;
      fill(in[0]);
      fill(in[1]);
      for (int i = 0; i < 2; i++) wide[i] = cast(&t, in[i], wide_type);
      weft_status_free(weft_run_op(&t.b, "MatMul", flips[f], in, 2, &got, 1, &num));
      weft_status_free(weft_run_op(&t.b, "MatMul", flips[f], wide, 2, &want, 1, &num));
      back = want == NULL ? NULL : cast(&t, want, weft_dtype_name(dtype));
      /* Imaginary parts cancel: their error is that of the terms, not of the small sum. */
      double steps = weft_dtype_is_complex(dtype) ? 256 : 16;
      double tolerance = weft_dtype_is_integer(dtype) ? 0 : steps * epsilon_of(dtype);
      expect(&t, same(got, back, tolerance), "MatMul", dtype, flips[f]);
      weft_tensor_release(got);
      weft_tensor_release(want);
      weft_tensor_release(back);
      release_all(in, 2);
      release_all(wide, 2);
    }
  }
  weft_bench_deinit(&t.b);
  CU_ASSERT_EQUAL(t.failures, 0);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"elementwise ops hold in every dtype", elementwise_ops_hold_in_every_dtype},
      {"reductions hold in every dtype", reductions_hold_in_every_dtype},
      {"products hold in every dtype", products_hold_in_every_dtype},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("kernel tables", tests);
}
