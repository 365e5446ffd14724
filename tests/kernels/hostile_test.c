/* tests/kernels/hostile_test.c - no input crashes a kernel.
 *
 * Every op that has a kernel and no effect on the outside runs many times with attributes and inputs drawn at
 * random: ranks and sizes that do not fit each other, empty tensors, indices far out of range, lowest and
 * highest numbers, NaN. Most runs fail, and may; what is tested is that each one ends with a status, under
 * the sanitizers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { RUNS_PER_OP = 1000, MAX_INPUTS = 12 };

/* Sizes of 2^40 are refused by the allocator; the sanitizer must not take that for a crash. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static uint64_t seed = 0x9E3779B97F4A7C15u;
static uint64_t draw(uint64_t n) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (seed >> 11) % n;
}

/* Ops that touch files, print, end the process, or wait. */
static bool is_harmless(const weft_op_def_t *op) {
  static const char *const not_these[] = {"Abort", "Print", "ReadFile", "MatchingFiles", "Const", NULL};
  for (int i = 0; not_these[i] != NULL; i++) {
    if (weft_str_is(op->name, not_these[i])) return false;
  }
  if ((op->flags & (WEFT_OP_BLOCKING | WEFT_OP_SEND | WEFT_OP_RECV | WEFT_OP_ARG | WEFT_OP_RETVAL |
                    WEFT_OP_SWITCH | WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION |
                    WEFT_OP_FUNCTIONAL | WEFT_OP_PLACEHOLDER | WEFT_OP_INTERNAL)) != 0) {
    return false;
  }
  bool is_random = weft_str_starts_with(op->name, "Random") || weft_str_is(op->name, "WeftRandomRows") ||
                   weft_str_is(op->name, "WeftMultinomialRows") || weft_str_is(op->name, "TruncatedNormal") ||
                   weft_str_is(op->name, "Multinomial") || weft_str_is(op->name, "CheckNumerics") ||
                   weft_str_is(op->name, "Empty");
  if ((op->flags & WEFT_OP_STATEFUL) != 0 && !is_random) return false;
  for (int side = 0; side < 2; side++) {
    const weft_arg_def_t *args = side == 0 ? op->inputs : op->outputs;
    for (int i = 0; i < (side == 0 ? op->num_inputs : op->num_outputs); i++) {
      if (args[i].is_ref || args[i].dtype == WEFT_RESOURCE || args[i].dtype == WEFT_VARIANT) return false;
    }
  }
  return true;
}

/* ---- attributes, as the harness's text ---- */

static int draw_type(weft_dtype_set_t allowed) {
  for (int tries = 0; tries < 200; tries++) {
    int d = 1 + (int)draw(WEFT_DTYPE_COUNT - 1);
    if (!weft_dtype_is_valid(d) || d == WEFT_RESOURCE || d == WEFT_VARIANT) continue;
    if (allowed == 0 || (allowed & WEFT_DTYPE_BIT(d)) != 0) return d;
  }
  return WEFT_F32;
}

static int64_t draw_small(void) {
  static const int64_t values[] = {1, 1, 1, 2, 2, 3, 0, -1, 4, 7};
  return values[draw(sizeof values / sizeof values[0])];
}

static void print_value(const weft_attr_def_t *def, weft_strbuf_t *out) {
  switch (def->kind) {
    case WEFT_ATTR_STRING: {
      weft_str_t s = def->allowed_strings != NULL ? def->allowed_strings[draw((uint64_t)def->num_allowed)]
                     : draw(2) == 0               ? WEFT_STR("a%sb")
                                                  : WEFT_STR("");
      weft_strbuf_printf(out, "'%.*s'", WEFT_STR_ARGS(s));
      break;
    }
    case WEFT_ATTR_INT: weft_strbuf_printf(out, "%lld", (long long)draw_small()); break;
    case WEFT_ATTR_FLOAT: weft_strbuf_printf(out, "%g", (double)draw_small() / 2); break;
    case WEFT_ATTR_BOOL: weft_strbuf_puts(out, draw(2) == 0 ? "true" : "false"); break;
    case WEFT_ATTR_TYPE: weft_strbuf_puts(out, weft_dtype_name(draw_type(def->allowed_types))); break;
    case WEFT_ATTR_SHAPE: weft_strbuf_puts(out, draw(2) == 0 ? "?" : "[2,?]"); break;
    default: weft_strbuf_puts(out, "float[]:0"); break;
  }
}

static void draw_attrs(const weft_op_def_t *op, weft_strbuf_t *out) {
  for (int i = 0; i < op->num_attrs; i++) {
    const weft_attr_def_t *def = &op->attrs[i];
    if (def->has_default && draw(2) == 0) continue;
    bool is_count = false;
    for (int a = 0; a < op->num_inputs; a++) is_count |= weft_str_eq(op->inputs[a].number_attr, def->name);
    weft_strbuf_printf(out, "%s=", def->name.data);
    if (is_count) {
      weft_strbuf_printf(out, "%d", 1 + (int)draw(3));
    } else if (!def->is_list) {
      print_value(def, out);
    } else {
      int n = draw(6) == 0 ? (int)draw(9) : 4;
      if (def->kind == WEFT_ATTR_TYPE) n = 1 + (int)draw(3);
      weft_strbuf_putc(out, '[');
      for (int k = 0; k < n; k++) {
        if (k > 0) weft_strbuf_putc(out, ',');
        print_value(def, out);
      }
      weft_strbuf_putc(out, ']');
    }
    weft_strbuf_putc(out, ' ');
  }
}

/* ---- tensors ---- */

static weft_shape_t draw_shape(void) {
  static const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 4, 5};
  weft_shape_t s = {.rank = (int)draw(6)};
  if (s.rank == 5) s.rank = (int)draw(9);
  for (int d = 0; d < s.rank; d++) s.dims[d] = sizes[draw(s.rank > 5 ? 5 : sizeof sizes / sizeof sizes[0])];
  return s;
}

static int64_t draw_int(void) {
  static const int64_t odd[] = {INT64_MIN, INT64_MAX, (int64_t)1 << 40, (int64_t)1 << 62, INT32_MIN, -100};
  return draw(8) == 0 ? odd[draw(sizeof odd / sizeof odd[0])] : (int64_t)draw(7) - 2;
}

static void fill(weft_tensor_t *t) {
  for (int64_t i = 0; i < t->count; i++) {
    static const double odd[] = {0, -1, 1e30, -1e30};
    double real = draw(4) == 0 ? odd[draw(4)] : (double)draw(9) - 4;
    if (draw(12) == 0) real = NAN;
    if (draw(12) == 0) real = INFINITY;
    int64_t number = draw_int();
    switch (t->dtype) {
      case WEFT_F32: ((float *)t->data)[i] = (float)real; break;
      case WEFT_F64: ((double *)t->data)[i] = real; break;
      case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)real); break;
      case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)real); break;
      case WEFT_C64: ((weft_c64_t *)t->data)[i] = (weft_c64_t){(float)real, 1}; break;
      case WEFT_C128: ((weft_c128_t *)t->data)[i] = (weft_c128_t){real, -1}; break;
      case WEFT_BOOL: ((uint8_t *)t->data)[i] = (uint8_t)draw(2); break;
      case WEFT_STRING:
        weft_status_free(weft_tensor_set_str(t, i, draw(2) == 0 ? WEFT_STR("12") : WEFT_STR("(x")));
        break;
      /* A large int32 would be a size that can be had: no more than memory is tested by it. */
      case WEFT_I32:
      case WEFT_U32:
      case WEFT_QINT32:
        if (t->dtype == WEFT_U32 && number < 0) number = 5;
        ((int32_t *)t->data)[i] = number == INT64_MIN && t->dtype == WEFT_I32 ? INT32_MIN
                                  : number < -9 || number > 100               ? 3
                                                                              : (int32_t)number;
        break;
      default:
        memcpy((char *)t->data + (size_t)i * weft_dtype_size(t->dtype), &number, weft_dtype_size(t->dtype));
        break;
    }
  }
}

/* The dtypes of the inputs that go with these attributes; 0 if they cannot be told. */
static int input_types(const weft_op_def_t *op, const char *attrs, int *types) {
  int n = 0;
  for (int a = 0; a < op->num_inputs; a++) {
    const weft_arg_def_t *arg = &op->inputs[a];
    int count = 1, dtype = arg->dtype;
    char key[64];
    if (arg->type_attr.length > 0) {
      (void)snprintf(key, sizeof key, " %s=", arg->type_attr.data);
      const char *at = strstr(attrs, key);
      const weft_attr_def_t *def = weft_op_attr(op, arg->type_attr);
      if (arg->kind == WEFT_ARG_TYPE_LIST) return 0;
      dtype = def->default_value.type;
      if (at != NULL)
        dtype = weft_dtype_from_name(weft_str_of(at + strlen(key), strcspn(at + strlen(key), " ")));
    }
    if (arg->number_attr.length > 0) {
      (void)snprintf(key, sizeof key, " %s=", arg->number_attr.data);
      const char *at = strstr(attrs, key);
      if (at == NULL) return 0;
      count = atoi(at + strlen(key));
    }
    for (; count > 0 && n < MAX_INPUTS; count--) types[n++] = dtype;
  }
  return n;
}

static bool run_once(weft_bench_t *b, const weft_op_def_t *op) {
  weft_strbuf_t attrs = WEFT_STRBUF_INIT;
  weft_tensor_t *inputs[MAX_INPUTS] = {NULL}, *outputs[64] = {NULL};
  int types[MAX_INPUTS] = {0};
  weft_strbuf_putc(&attrs, ' ');
  draw_attrs(op, &attrs);
  int n = input_types(op, attrs.data, types);
  weft_harness_t *h = NULL;
  weft_status_t *s = weft_harness_create(b, op->name.data, attrs.data, types, n, &h);
  weft_shape_t shape = draw_shape();
  bool alike = draw(2) == 0;
  for (int i = 0; s == NULL && i < n; i++) {
    if (!alike || draw(4) == 0) shape = draw_shape();
    s = weft_tensor_new((weft_dtype_t)types[i], &shape, NULL, &inputs[i]);
    if (s == NULL) fill(inputs[i]);
  }
  bool ran = s == NULL && weft_harness_num_outputs(h) <= 64;
  if (ran) s = weft_harness_run_owned(h, inputs, outputs);
  bool worked = ran && s == NULL;
  for (int i = 0; worked && i < weft_harness_num_outputs(h); i++) weft_tensor_release(outputs[i]);
  for (int i = 0; i < n; i++) weft_tensor_release(inputs[i]);
  weft_harness_destroy(h);
  weft_status_free(s);
  weft_strbuf_deinit(&attrs);
  return worked;
}

static void no_input_crashes_a_kernel(void) {
  weft_bench_t b;
  int num_ops = 0, tried = 0, worked = 0;
  weft_status_t *s = weft_bench_init(&b);
  CU_ASSERT_PTR_NULL_FATAL(s);
  const weft_op_def_t *const *ops = weft_op_list(&num_ops);
  const char *only = getenv("WEFT_HOSTILE_OP");
  for (int i = 0; i < num_ops; i++) {
    if (!is_harmless(ops[i]) || (only != NULL && !weft_str_is(ops[i]->name, only))) continue;
    if (getenv("WEFT_HOSTILE_TRACE") != NULL) fprintf(stderr, "%s\n", ops[i]->name.data);
    for (int r = 0; r < RUNS_PER_OP; r++) worked += run_once(&b, ops[i]);
    tried++;
  }
  weft_bench_deinit(&b);
  fprintf(stderr, "%d ops, %d of %d runs gave a result\n", tried, worked, tried * RUNS_PER_OP);
  CU_ASSERT_TRUE(tried > (only != NULL ? 0 : 200));
  CU_ASSERT_TRUE(worked > 0);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"no input crashes a kernel", no_input_crashes_a_kernel},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("hostile", tests);
}
