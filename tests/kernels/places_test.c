/* tests/kernels/places_test.c - the bits of a result do not depend on where its element or row lies: not on
 * what is beside it, not on how long the tensor is, not on where its bytes begin, on the instruction-set
 * level that WEFT_ISA names.
 *
 * Elementwise ops are taken from the op table, each in every type that has fractions. Ops of rows are a
 * table: the letter R is the dimension that is cut, C a length that is varied. Products of matrices are not
 * here: a sum's order may depend on how the whole is cut into blocks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "tensor/half.h"
#include "tests/kernels/harness.h"
#include "tests/runner.h"
#include "tests/sharding/parts.h"

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 10 };

static const weft_dtype_t fractions[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128};
enum { NUM_FRACTIONS = sizeof fractions / sizeof fractions[0] };

static weft_bench_t bench;
static int checks, failures;
static void begin(void) {
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench));
  checks = failures = 0;
}
static void end(void) { weft_bench_deinit(&bench); }

static char difference[128]; /* the last that was found */

static void expect(bool ok, const char *op, weft_dtype_t dtype, const char *what, int64_t n, int64_t from) {
  checks++;
  if (ok || failures++ > 50) return;
  fprintf(stderr, "%s of %s: %s %lld from %lld: %s\n", op, weft_dtype_name(dtype), what, (long long)n,
          (long long)from, difference);
}

/* ---- numbers ---- */

static uint64_t seed = 7;
static uint64_t bits(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 32;
}

typedef enum numbers {
  ANY,      /* of many magnitudes, both signs, and one of 40 without a usual value */
  FINITE,   /* of many magnitudes, both signs */
  POSITIVE, /* in (0, 2) */
} numbers_t;

static double number(numbers_t kind) {
  static const double unusual[] = {0.0,      -0.0,  INFINITY, -INFINITY, NAN,  1,     -1,
                                   0x1p-149, 1e-40, -1e-320,  6e4,       3e38, 1e308, 0.5};
  const double unit = ((double)bits() + 1) / 4294967297.0;
  if (kind == POSITIVE) return 2 * unit;
  if (kind == ANY && bits() % 40 == 0) return unusual[bits() % (sizeof unusual / sizeof unusual[0])];
  return ldexp((bits() & 1) != 0 ? -unit : unit, (int)(bits() % 14) - 7);
}

static void set(weft_tensor_t *t, int64_t i, numbers_t kind) {
  const double x = number(kind);
  switch (t->dtype) {
    case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)x); break;
    case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)x); break;
    default: weft_parts_set(t, i, x, number(kind)); break;
  }
}

static weft_tensor_t *drawn(weft_dtype_t dtype, const weft_shape_t *shape, numbers_t kind, int64_t below) {
  weft_tensor_t *t = weft_parts_new(dtype, shape);
  const bool is_fraction = (WEFT_SET_FIELD & WEFT_DTYPE_BIT(dtype)) != 0;
  for (int64_t i = 0; i < t->count; i++) {
    if (is_fraction)
      set(t, i, kind);
    else if (dtype == WEFT_BOOL)
      weft_parts_set(t, i, (double)(bits() & 1), 0);
    else
      weft_parts_set(t, i, (double)(bits() % (uint64_t)below), 0);
  }
  return t;
}

static bool is_nan(const weft_tensor_t *t, int64_t i) {
  const uint16_t half = t->dtype == WEFT_F16 || t->dtype == WEFT_BF16 ? ((const uint16_t *)t->data)[i] : 0;
  switch (t->dtype) {
    case WEFT_F16: return (half & 0x7fff) > 0x7c00;
    case WEFT_BF16: return (half & 0x7fff) > 0x7f80;
    case WEFT_F32: return isnan(((const float *)t->data)[i]);
    case WEFT_F64: return isnan(((const double *)t->data)[i]);
    default: return false;
  }
}

/* Bit for bit; a NaN may have any. */
static bool same(const weft_tensor_t *a, const weft_tensor_t *b) {
  if (a->dtype != b->dtype || a->count != b->count) return false;
  if (a->dtype == WEFT_STRING) {
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    const bool equal = weft_tensor_close(a, b, 0, &why);
    weft_strbuf_deinit(&why);
    return equal;
  }
  const weft_dtype_t part = a->dtype == WEFT_C64 ? WEFT_F32 : a->dtype == WEFT_C128 ? WEFT_F64 : a->dtype;
  const size_t size = weft_dtype_size(part);
  const int64_t count = a->count * (part == a->dtype ? 1 : 2);
  const weft_tensor_t as = {.dtype = part, .data = a->data}, bs = {.dtype = part, .data = b->data};
  if (count == 0 || memcmp(a->data, b->data, (size_t)count * size) == 0) return true;
  for (int64_t i = 0; i < count; i++) {
    const char *x = (const char *)a->data + (size_t)i * size, *y = (const char *)b->data + (size_t)i * size;
    if (memcmp(x, y, size) == 0 || (is_nan(&as, i) && is_nan(&bs, i))) continue;
    (void)snprintf(difference, sizeof difference, "element %lld is %a, not %a", (long long)i,
                   weft_tensor_number(&as, i, false), weft_tensor_number(&bs, i, false));
    return false;
  }
  return true;
}

static void release_all(weft_tensor_t **t, int n) {
  for (int i = 0; i < n; i++) weft_tensor_release(t[i]);
}

/* Parts along dimension 0 are views, which may begin anywhere. */
static weft_tensor_t *part(weft_tensor_t *whole, int dim, int64_t begin, int64_t end) {
  weft_tensor_t *t = NULL;
  if (dim > 0) return weft_parts_slice(whole, dim, begin, end);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_slice(whole, begin, end - begin, &t));
  return t;
}

/* ---- nodes ---- */

/* A node with its inputs, and along which dimension each input and output is cut: -1: it is not. */
typedef struct node {
  const char *op;
  weft_dtype_t dtype;
  weft_harness_t *harness;
  weft_tensor_t *inputs[MAX_INPUTS], *outputs[MAX_OUTPUTS];
  int num_inputs, num_outputs;
  int in_dims[MAX_INPUTS], out_dims[MAX_OUTPUTS];
} node_t;

static void node_release(node_t *n) {
  weft_harness_destroy(n->harness);
  release_all(n->inputs, n->num_inputs);
  release_all(n->outputs, n->num_outputs);
}

/* Computes the whole. False: there is no kernel for the type. What fails otherwise fails the test. */
static bool node_run(node_t *n, const char *attrs) {
  int types[MAX_INPUTS];
  for (int i = 0; i < n->num_inputs; i++) types[i] = n->inputs[i]->dtype;
  weft_status_t *s = weft_harness_create(&bench, n->op, attrs, types, n->num_inputs, &n->harness);
  const bool is_absent = s != NULL;
  if (s == NULL) s = weft_harness_run(n->harness, n->inputs, n->outputs);
  if (s == NULL) n->num_outputs = weft_harness_num_outputs(n->harness);
  if (s != NULL && !is_absent) fprintf(stderr, "%s: %s\n", n->op, weft_status_message(s));
  CU_ASSERT_TRUE(s == NULL || is_absent);
  const bool ran = s == NULL;
  weft_status_free(s);
  return ran;
}

/* Is what is computed of rows begin to end-1 that of the whole? */
static void check_part(node_t *n, const char *what, int64_t begin, int64_t end) {
  weft_tensor_t *in[MAX_INPUTS] = {NULL}, *out[MAX_OUTPUTS] = {NULL};
  for (int i = 0; i < n->num_inputs; i++) {
    in[i] =
        n->in_dims[i] < 0 ? weft_tensor_retain(n->inputs[i]) : part(n->inputs[i], n->in_dims[i], begin, end);
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run(n->harness, in, out));
  for (int i = 0; i < n->num_outputs; i++) {
    if (n->out_dims[i] < 0) continue;

    weft_tensor_t *want = part(n->outputs[i], n->out_dims[i], begin, end);
    expect(same(out[i], want), n->op, n->dtype, what, end - begin, begin);
    weft_tensor_release(want);
  }
  release_all(in, n->num_inputs);
  release_all(out, n->num_outputs);
}

/* ---- elements ---- */

enum { ELEMENTS = 4203 };

/* Pieces of every length up to 70, and longer ones, from many places. */
static void check_elements(node_t *n) {
  for (int64_t length = 1; length <= 70; length++) {
    const int64_t from = length * 977 % (ELEMENTS - 70);
    check_part(n, "a piece of", from, from + length);
  }
  check_part(n, "a piece of", 3, 2052);
  check_part(n, "a piece of", 2049, ELEMENTS);
}

/* Attributes that have no default, and those that make another function of an op. */
static const char *const elementwise_attrs[][2] = {
    {"Bucketize", "boundaries=[-1,0.25,0.5]"},
    {"AccumulateNV2", "shape=[4203]"},
    {"LeakyRelu", "alpha=0.3"},
    {"Cast", "DstT=half"},
    {"Cast", "DstT=bfloat16"},
    {"Cast", "DstT=float"},
    {"Cast", "DstT=double"},
    {"Cast", "DstT=complex64"},
    {"Cast", "DstT=complex128"},
    {"Cast", "DstT=int8"},
    {"Cast", "DstT=uint8"},
    {"Cast", "DstT=int16"},
    {"Cast", "DstT=uint16"},
    {"Cast", "DstT=int32"},
    {"Cast", "DstT=uint32"},
    {"Cast", "DstT=int64"},
    {"Cast", "DstT=uint64"},
    {"Cast", "DstT=bool"},
    {"Cast", "DstT=bfloat16 Truncate=true"},
    {"Cast", "DstT=half Truncate=true"},
    {"Cast", "DstT=float Truncate=true"},
};

static bool is_elementwise(const weft_op_def_t *op) {
  if (!weft_op_is_elementwise(op) || (op->flags & (WEFT_OP_STATEFUL | WEFT_OP_INTERNAL)) != 0) return false;
  for (int i = 0; i < op->num_inputs; i++) {
    if (op->inputs[i].is_ref || op->inputs[i].kind == WEFT_ARG_TYPE_LIST) return false;
    if (op->inputs[i].kind == WEFT_ARG_FIXED && op->inputs[i].dtype != WEFT_BOOL) return false;
  }
  return op->num_inputs > 0 && op->num_inputs < MAX_INPUTS;
}

/* Ops that refuse some of the numbers that they are given. */
static bool is_choosy(const char *op) {
  return strncmp(op, "CheckNumerics", 13) == 0 || strncmp(op, "DebugNumeric", 12) == 0;
}

static bool check_elementwise(const weft_op_def_t *op, weft_dtype_t dtype, const char *attrs) {
  const weft_shape_t shape = weft_shape_vector(ELEMENTS);
  node_t n = {.op = op->name.data, .dtype = dtype};
  for (int i = 0; i < op->num_inputs; i++) {
    const weft_arg_def_t *arg = &op->inputs[i];
    const weft_dtype_t type = arg->kind == WEFT_ARG_FIXED ? (weft_dtype_t)arg->dtype : dtype;
    for (int k = 0; k < (arg->kind == WEFT_ARG_REPEATED ? 3 : 1) && n.num_inputs < MAX_INPUTS; k++)
      n.inputs[n.num_inputs++] = drawn(type, &shape, is_choosy(n.op) ? FINITE : ANY, 2);
  }
  const bool runs = node_run(&n, attrs);
  bool is_map = runs;
  for (int i = 0; i < n.num_outputs; i++) is_map = is_map && weft_shape_eq(&n.outputs[i]->shape, &shape);
  if (is_map) check_elements(&n);
  node_release(&n);
  return is_map;
}

static void elements_do_not_depend_on_their_places(void) {
  int num_ops = 0, walked = 0;
  const weft_op_def_t *const *ops = weft_op_list(&num_ops);
  begin();
  for (int i = 0; i < num_ops; i++) {
    weft_dtype_set_t types = 0;
    if (!is_elementwise(ops[i]) || !weft_kernel_exists("CPU", ops[i]->name, &types)) continue;
    int ran = 0;
    bool has_attrs = false;
    for (int d = 0; d < NUM_FRACTIONS; d++) {
      for (size_t k = 0; k < sizeof elementwise_attrs / sizeof elementwise_attrs[0]; k++) {
        if (!weft_str_is(ops[i]->name, elementwise_attrs[k][0])) continue;
        has_attrs = true;
        ran += check_elementwise(ops[i], fractions[d], elementwise_attrs[k][1]);
      }
      if (!has_attrs) ran += check_elementwise(ops[i], fractions[d], NULL);
    }
    walked += ran > 0;
  }
  fprintf(stderr, "%d elementwise ops, %d pieces, %d differ\n", walked, checks, failures);
  CU_ASSERT_TRUE(walked > 80);
  CU_ASSERT_EQUAL(failures, 0);
  end();
}

/* What is broadcast is what it gives when it is spread out beforehand. */
static void operands_that_are_broadcast_give_the_same_bits(void) {
  static const int64_t sizes[][2] = {{5, 1}, {5, 7}, {3, 33}, {1, 70}, {9, 129}};
  int num_ops = 0, walked = 0;
  const weft_op_def_t *const *ops = weft_op_list(&num_ops);
  begin();
  for (int i = 0; i < num_ops; i++) {
    weft_dtype_set_t types = 0;
    if (!is_elementwise(ops[i]) || ops[i]->num_inputs != 2 || ops[i]->inputs[1].kind != WEFT_ARG_ATTR ||
        !weft_kernel_exists("CPU", ops[i]->name, &types))
      continue;
    for (int d = 0; d < NUM_FRACTIONS; d++) {
      for (size_t k = 0; k < 3 * sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t R = sizes[k / 3][0], C = sizes[k / 3][1];
        const weft_shape_t narrow[] = {weft_shape_matrix(1, C), weft_shape_matrix(R, 1),
                                       weft_shape_matrix(1, 1)};
        const weft_shape_t full = weft_shape_matrix(R, C), of = narrow[k % 3];
        for (int swap = 0; swap < 2; swap++) {
          weft_tensor_t *x = drawn(fractions[d], &full, ANY, 2), *y = drawn(fractions[d], &of, ANY, 2);
          weft_tensor_t *wide = weft_parts_new(fractions[d], &full), *in[2], *got = NULL, *want = NULL;
          for (int64_t e = 0; e < full.dims[0] * full.dims[1]; e++) {
            const int64_t row = of.dims[0] == 1 ? 0 : e / C, column = of.dims[1] == 1 ? 0 : e % C;
            CU_ASSERT_PTR_NULL(weft_tensor_copy_elements(wide, e, y, row * of.dims[1] + column, 1));
          }
          int num = 0;
          in[swap] = x;
          in[1 - swap] = y;
          weft_status_t *s = weft_run_op(&bench, ops[i]->name.data, NULL, in, 2, &got, 1, &num);
          in[1 - swap] = wide;
          if (s == NULL) s = weft_run_op(&bench, ops[i]->name.data, NULL, in, 2, &want, 1, &num);
          if (s == NULL) expect(same(got, want), ops[i]->name.data, fractions[d], "broadcast", R, C);
          walked += s == NULL;
          weft_status_free(s); /* ops that take no operand of another shape, types without a kernel */
          release_all((weft_tensor_t *[]){x, y, wide, got, want}, 5);
        }
      }
    }
  }
  fprintf(stderr, "%d nodes with broadcasting, %d differ\n", walked, failures);
  CU_ASSERT_TRUE(walked > 1000);
  CU_ASSERT_EQUAL(failures, 0);
  end();
}

/* ---- rows ---- */

/* inputs: "T[R,C]" is of the type that is varied, "T[C]+" of positive numbers, "int32[R]%C" of numbers below
 * C, "int32[1]:1" a constant. outputs: the dimension of R in each, "-" where it is not compared. */
static const struct row_case {
  const char *op, *attrs, *inputs, *outputs;
  int least; /* how many rows a part has at least; 0: one */
} row_cases[] = {
#include "tests/kernels/places.def"
};

static int64_t size_of(const char **at, int64_t R, int64_t C) {
  const char *p = *at;
  *at += 1;
  if (*p == 'R') return R;
  if (*p == 'C') return C;
  char *end;
  const int64_t n = strtoll(p, &end, 10);
  *at = end;
  return n;
}

/* The input that `word` says; *out_dim: that of R. */
static weft_tensor_t *input(weft_str_t word, weft_dtype_t dtype, int64_t R, int64_t C, int *out_dim) {
  char text[128];
  *out_dim = -1;
  (void)snprintf(text, sizeof text, "%.*s", WEFT_STR_ARGS(word));
  if (strchr(text, ':') != NULL) {
    const char *p = text;
    weft_tensor_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_parse(&p, &t));
    return t;
  }
  const char *open = strchr(text, '[');
  const int named = weft_dtype_from_name(weft_str_of(text, (size_t)(open - text)));
  weft_shape_t shape = WEFT_SCALAR;
  const char *p = open + 1;
  while (*p != ']') {
    if (*p == 'R') *out_dim = shape.rank;
    shape.dims[shape.rank++] = size_of(&p, R, C);
    if (*p == ',') p++;
  }
  p++;
  const numbers_t kind = *p == '+' ? POSITIVE : FINITE;
  int64_t below = 2;
  if (*p++ == '%') below = size_of(&p, R, C);
  return drawn(text[0] == 'T' ? dtype : (weft_dtype_t)named, &shape, kind, below);
}

static node_t node_of_case(const struct row_case *of, weft_dtype_t dtype, int64_t R, int64_t C) {
  node_t n = {.op = of->op, .dtype = dtype};
  for (const char *p = of->inputs; *p != '\0';) {
    const size_t length = strcspn(p, " ");
    n.inputs[n.num_inputs] = input(weft_str_of(p, length), dtype, R, C, &n.in_dims[n.num_inputs]);
    n.num_inputs++;
    p += length + strspn(p + length, " ");
  }
  CU_ASSERT_TRUE_FATAL(n.num_inputs <= MAX_INPUTS);
  const char *p = of->outputs; /* those that it lacks are not compared */
  for (int i = 0; i < MAX_OUTPUTS; i++)
    n.out_dims[i] = *p == '\0' || *p == '-' ? -1 : *p - '0', p += *p != '\0';
  return n;
}

/* Each row alone, or some of many; and the whole cut at odd places. */
static bool check_rows(const struct row_case *of, weft_dtype_t dtype, int64_t R, int64_t C) {
  node_t n = node_of_case(of, dtype, R, C);
  const bool runs = node_run(&n, of->attrs);
  char what[64];
  (void)snprintf(what, sizeof what, "C = %lld, R = %lld:", (long long)C, (long long)R);
  if (runs) {
    const int64_t step = R > 19 ? R / 3 : 1, least = of->least > 0 ? of->least : 1;
    for (int64_t row = 0; row + least <= R; row += step) check_part(&n, what, row, row + least);
    if (R >= least) check_part(&n, what, R - least, R);
    for (int64_t cut = least; cut + least <= R; cut += cut + 2) {
      check_part(&n, what, 0, cut);
      check_part(&n, what, cut, R);
    }
  }
  node_release(&n);
  return runs;
}

static void rows_do_not_depend_on_their_places(void) {
  static const int64_t lengths[] = {129, 1000, 2049, 5000};
  begin();
  for (size_t i = 0; i < sizeof row_cases / sizeof row_cases[0]; i++) {
    const struct row_case *of = &row_cases[i];
    int ran = 0;
    for (int d = 0; d < NUM_FRACTIONS; d++) {
      if (ran > 0 && strstr(of->inputs, "T[") == NULL) break;
      if (!check_rows(of, fractions[d], of->least > 0 ? 70 : 19, 8)) continue;
      ran++;
      const bool is_varied = strstr(of->inputs, "C") != NULL;
      for (int64_t n = 1; n <= 70; n += n < 20 ? 1 : 3) {
        if (is_varied) (void)check_rows(of, fractions[d], 19, n);
        (void)check_rows(of, fractions[d], n, 5);
      }
      for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        if (is_varied) (void)check_rows(of, fractions[d], 5, lengths[k]);
      }
      (void)check_rows(of, fractions[d], 2052, 3);
    }
    if (ran == 0) fprintf(stderr, "%s (%s): not run\n", of->op, of->inputs);
    CU_ASSERT_TRUE(ran > 0);
  }
  fprintf(stderr, "%d ops of rows, %d parts, %d differ\n", (int)(sizeof row_cases / sizeof row_cases[0]),
          checks, failures);
  CU_ASSERT_EQUAL(failures, 0);
  end();
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"elements do not depend on their places", elements_do_not_depend_on_their_places},
      {"operands that are broadcast give the same bits", operands_that_are_broadcast_give_the_same_bits},
      {"rows do not depend on their places", rows_do_not_depend_on_their_places},
      CU_TEST_INFO_NULL,
  };
  const uint64_t old = weft_float_mode_flush(); /* as threads that run kernels */
  const int failed = weft_run_tests("places", tests);
  weft_float_mode_restore(old);
  return failed;
}
