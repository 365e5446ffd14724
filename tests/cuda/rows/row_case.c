/* tests/cuda/rows/row_case.c - arguments from a seed, and the comparison. */
#include "tests/cuda/rows/row_case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "resources/variable.h"
#include "tests/kernels/harness.h"

enum { ROUNDS = 8 };

/* ---- making arguments ---- */

static uint64_t next(weft_row_case_t *c) { /* splitmix64 */
  uint64_t z = c->random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t weft_row_int(weft_row_case_t *c, int64_t low, int64_t high) {
  return low + (int64_t)(next(c) % (uint64_t)(high - low + 1));
}

static double real(weft_row_case_t *c, double low, double high) {
  return low + (high - low) * (double)(next(c) >> 11) * 0x1p-53;
}

weft_shape_t weft_row_shape(weft_row_case_t *c, int min_rank, int max_rank) {
  weft_shape_t s = {.rank = (int)weft_row_int(c, min_rank, max_rank)};
  const bool may_be_empty = c->round == 2;
  int64_t count = 1;
  for (int d = 0; d < s.rank; d++) {
    s.dims[d] = weft_row_int(c, may_be_empty ? 0 : 1, count > 2000 ? 2 : 7);
    count *= s.dims[d] == 0 ? 1 : s.dims[d];
  }
  if (c->round == 1 && s.rank > 0) {
    const int at = (int)weft_row_int(c, 0, s.rank - 1);
    s.dims[at] = s.rank == 1 ? weft_row_int(c, 9000, 40000) : weft_row_int(c, 100, 400);
    for (int d = 0; d < s.rank; d++) {
      if (d != at && s.rank > 3) s.dims[d] = 1 + s.dims[d] % 2;
    }
  }
  return s;
}

static double value_of(weft_row_case_t *c, weft_dtype_t dtype, weft_row_values_t values) {
  static const double special[] = {0,   -0.0, 1,    -1,  INFINITY, -INFINITY, NAN, 6,
                                   0.5, -0.5, 1e-7, 3e4, -3e4,     1.5,       2.5};
  const bool is_float = weft_dtype_is_floating(dtype);
  const bool is_unsigned = dtype == WEFT_U8 || dtype == WEFT_U16 || dtype == WEFT_U32 || dtype == WEFT_U64;
  if (dtype == WEFT_BOOL) return (double)weft_row_int(c, 0, 1);
  if (!is_float) {
    double v = 0;
    switch (values) {
      case WEFT_ROW_POSITIVE: return (double)weft_row_int(c, 1, 9);
      case WEFT_ROW_SMALL: v = (double)weft_row_int(c, -8, 8); break;
      case WEFT_ROW_NONZERO: v = (double)(weft_row_int(c, 1, 100) * (weft_row_int(c, 0, 1) * 2 - 1)); break;
      case WEFT_ROW_ANY: v = (double)weft_row_int(c, -120, 120); break;
    }
    return is_unsigned ? fabs(v) : v;
  }
  switch (values) {
    case WEFT_ROW_POSITIVE: return real(c, .25, 4);
    case WEFT_ROW_SMALL: return real(c, -2, 2);
    case WEFT_ROW_NONZERO: return real(c, .1, 4) * (double)(weft_row_int(c, 0, 1) * 2 - 1);
    case WEFT_ROW_ANY: break;
  }
  if (weft_row_int(c, 0, 4) == 0)
    return special[weft_row_int(c, 0, (int64_t)(sizeof special / sizeof special[0]) - 1)];
  return weft_row_int(c, 0, 1) == 0 ? real(c, -2, 2) : real(c, -20, 20);
}

static void put(weft_tensor_t *t, int64_t i, double v) {
  switch (t->dtype) {
    case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
    case WEFT_F64: ((double *)t->data)[i] = v; break;
    case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v); break;
    case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)v); break;
    case WEFT_C64: ((weft_c64_t *)t->data)[i].re = (float)v; break;
    case WEFT_C128: ((weft_c128_t *)t->data)[i].re = v; break;
    case WEFT_I64:
    case WEFT_U64: ((int64_t *)t->data)[i] = (int64_t)v; break;
    case WEFT_I32:
    case WEFT_U32: ((int32_t *)t->data)[i] = (int32_t)v; break;
    case WEFT_I16:
    case WEFT_U16: ((int16_t *)t->data)[i] = (int16_t)v; break;
    default: ((int8_t *)t->data)[i] = (int8_t)(int)v; break;
  }
}

/* Element i: a number, or two. */
static void fill(weft_row_case_t *c, weft_tensor_t *t, int64_t i, weft_row_values_t values) {
  const bool is_complex = weft_dtype_is_complex(t->dtype);
  put(t, i, value_of(c, is_complex ? WEFT_F64 : t->dtype, values));
  if (!is_complex) return;
  const double im = value_of(c, WEFT_F64, values);
  if (t->dtype == WEFT_C64) {
    ((weft_c64_t *)t->data)[i].im = (float)im;
  } else {
    ((weft_c128_t *)t->data)[i].im = im;
  }
}

static void must(weft_status_t *s) {
  if (s == NULL) return;
  fprintf(stderr, "row_case: %s\n", weft_status_message(s));
  weft_status_free(s);
  CU_FAIL_FATAL("cannot make arguments");
}

weft_tensor_t *weft_row_add(weft_row_case_t *c, weft_dtype_t dtype, const weft_shape_t *shape,
                            weft_row_values_t values) {
  weft_tensor_t *t = NULL;
  must(weft_tensor_new(dtype, shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) fill(c, t, i, values);
  if (values == WEFT_ROW_ANY && !weft_dtype_is_floating(dtype) && !weft_dtype_is_complex(dtype) &&
      dtype != WEFT_BOOL && t->bytes > 0 &&
      weft_row_int(c, 0, 2) == 0) { /* the lowest number, or the highest of unsigned ones */
    memset(t->data, weft_row_int(c, 0, 1) == 0 ? 0xff : 0x80, weft_dtype_size(dtype));
  }
  return c->inputs[c->num_inputs++] = t;
}

weft_tensor_t *weft_row_add_variable(weft_row_case_t *c, const weft_shape_t *shape,
                                     weft_row_values_t values) {
  c->is_variable[c->num_inputs] = true;
  return weft_row_add(c, c->dtype, shape, values);
}

weft_tensor_t *weft_row_add_ints(weft_row_case_t *c, weft_dtype_t dtype, int n, const int64_t *values) {
  const weft_shape_t shape = n < 0 ? WEFT_SCALAR : weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  must(weft_tensor_new(dtype, &shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) put(t, i, (double)values[i]);
  return c->inputs[c->num_inputs++] = t;
}

void weft_row_attr(weft_row_case_t *c, const char *format, ...) {
  const size_t at = strlen(c->attrs);
  va_list list;
  va_start(list, format);
  vsnprintf(c->attrs + at, sizeof c->attrs - at, format, list);
  va_end(list);
  strncat(c->attrs, " ", sizeof c->attrs - strlen(c->attrs) - 1);
}

/* ---- the comparison ---- */

static double tolerance_of(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F16: return 2e-3;
    case WEFT_BF16: return 1.6e-2;
    case WEFT_F32:
    case WEFT_C64: return 4e-6;
    case WEFT_F64:
    case WEFT_C128: return 1e-13;
    default: return 0;
  }
}

static void free_case(weft_row_case_t *c) {
  for (int i = 0; i < c->num_inputs; i++) weft_tensor_release(c->inputs[i]);
}

static void describe(const weft_row_op_t *op, const weft_row_case_t *c, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s of %s, round %d, attributes '%s', inputs", op->op, weft_dtype_name(c->dtype),
                     c->round, c->attrs);
  for (int i = 0; i < c->num_inputs; i++)
    weft_strbuf_printf(out, " %s%s", weft_dtype_name(c->inputs[i]->dtype),
                       WEFT_SHAPE_TEXT(&c->inputs[i]->shape));
}

static void report(const weft_row_op_t *op, const weft_row_case_t *c, const char *why) {
  weft_strbuf_t text = {0};
  describe(op, c, &text);
  fprintf(stderr, "%s: %s\n", text.data, why);
  weft_strbuf_deinit(&text);
  CU_FAIL("a row differs from the CPU's kernel");
}

static void input_types(const weft_row_case_t *c, bool by_handle, int *out) {
  for (int i = 0; i < c->num_inputs; i++) {
    out[i] = (int)c->inputs[i]->dtype;
    if (c->is_variable[i]) out[i] = by_handle ? WEFT_RESOURCE : out[i] + WEFT_REF;
  }
}

static weft_status_t *make_variable(weft_bench_t *b, const weft_tensor_t *t, bool by_handle,
                                    weft_value_t *out, weft_variable_t **v) {
  WEFT_RETURN_IF_ERROR(weft_variable_create(WEFT_STR("v"), t->dtype, &t->shape, v));
  WEFT_RETURN_IF_ERROR(weft_tensor_copy(t, &(*v)->value));
  if (!by_handle) {
    out->ref = (weft_variable_t *)weft_object_retain(&(*v)->object);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &out->tensor));
  ((weft_handle_t **)out->tensor->data)[0] =
      weft_handle_create(b->device->name, WEFT_STR("localhost"), WEFT_STR("v"),
                         weft_str(weft_variable_type.name), 1, &(*v)->object);
  return NULL;
}

/* Runs the CPU's kernel; *updated are the values of variables afterwards. */
static weft_status_t *run_cpu(weft_bench_t *b, weft_harness_t *h, const weft_row_case_t *c, bool by_handle,
                              weft_tensor_t **outputs, weft_tensor_t **updated) {
  weft_value_t values[WEFT_ROW_MAX_ARGS] = {{0}}, results[WEFT_ROW_MAX_ARGS] = {{0}};
  weft_variable_t *variables[WEFT_ROW_MAX_ARGS] = {NULL};
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < c->num_inputs; i++) {
    if (c->is_variable[i]) {
      s = make_variable(b, c->inputs[i], by_handle, &values[i], &variables[i]);
    } else {
      values[i].tensor = c->inputs[i];
    }
  }
  if (s == NULL) s = weft_harness_run_values(h, values, results);
  for (int i = 0; i < WEFT_ROW_MAX_ARGS; i++) {
    outputs[i] = results[i].tensor;
    if (results[i].ref != NULL) weft_object_release(&results[i].ref->object);
    if (variables[i] == NULL) continue;
    updated[i] = weft_tensor_retain(variables[i]->value);
    weft_object_release(&variables[i]->object);
    if (values[i].ref != NULL) weft_object_release(&values[i].ref->object);
    weft_tensor_release(values[i].tensor);
  }
  return s;
}

static void compare(const weft_row_op_t *op, const weft_row_case_t *c, weft_tensor_t *const *got,
                    weft_tensor_t *const *want) {
  for (int i = 0; i < WEFT_ROW_MAX_ARGS; i++) {
    if (want[i] == NULL || got[i] == NULL) continue;
    weft_strbuf_t why = {0};
    const double times = op->tolerance == 0 ? 1 : op->tolerance < 0 ? 0 : op->tolerance;
    const double tolerance = tolerance_of(want[i]->dtype) * times;
    weft_strbuf_printf(&why, "%d: ", i);
    if (!weft_tensor_close(got[i], want[i], tolerance, &why)) report(op, c, why.data);
    weft_strbuf_deinit(&why);
  }
}

static void release_all(weft_tensor_t **t) {
  for (int i = 0; i < WEFT_ROW_MAX_ARGS; i++) weft_tensor_release(t[i]);
}

static void run_row(const WEFT_DeviceKernel *rows, const weft_row_op_t *op, weft_row_case_t *c,
                    const weft_kernel_setup_t *setup, weft_tensor_t *const *outputs,
                    weft_tensor_t *const *updated, const weft_status_t *failure) {
  for (int layout = 0; layout < 4; layout++) {
    weft_row_run_t r = {.setup = setup,
                        .row = weft_row_find(rows, setup),
                        .num_inputs = c->num_inputs,
                        .ends_at_guard = (layout & 1) != 0,
                        .may_forward = (layout & 2) != 0,
                        .num_processors = 1 + layout};
    if (r.row == NULL) {
      report(op, c, "there is no row");
      return;
    }
    memcpy(r.inputs, c->inputs, sizeof r.inputs);
    weft_status_t *s = weft_row_run(&r);
    if (weft_status_code(s) != weft_status_code(failure)) {
      report(op, c, s != NULL ? weft_status_message(s) : weft_status_message(failure));
    } else if (s != NULL && op->same_message &&
               strcmp(weft_status_message(s), weft_status_message(failure)) != 0) {
      report(op, c, weft_status_message(s));
    } else if (s == NULL) {
      compare(op, c, r.outputs, outputs);
      compare(op, c, r.updated, updated);
    }
    weft_status_free(s);
    release_all(r.outputs);
    release_all(r.updated);
  }
}

static bool is_by_handle(const char *op) {
  const size_t length = strlen(op), tail = strlen("VariableOp");
  return strncmp(op, "Resource", strlen("Resource")) == 0 ||
         (length > tail && strcmp(op + length - tail, "VariableOp") == 0);
}

static void check_one(weft_bench_t *b, const WEFT_DeviceKernel *rows, const weft_row_op_t *op,
                      weft_row_case_t *c) {
  weft_harness_t *h = NULL;
  int types[WEFT_ROW_MAX_ARGS];
  weft_tensor_t *outputs[WEFT_ROW_MAX_ARGS] = {NULL}, *updated[WEFT_ROW_MAX_ARGS] = {NULL};
  const bool by_handle = is_by_handle(op->op);
  op->make(c);
  input_types(c, by_handle, types);
  if (by_handle && c->is_variable[0] && strstr(op->op, "VariableOp") != NULL)
    weft_row_attr(c, "dtype=%s", weft_dtype_name(c->dtype));
  weft_status_t *s = weft_harness_create(b, op->op, c->attrs, types, c->num_inputs, &h);
  if (s != NULL) {
    report(op, c, weft_status_message(s));
  } else {
    s = run_cpu(b, h, c, by_handle, outputs, updated);
    run_row(rows, op, c, weft_harness_setup(h), outputs, updated, s);
  }
  weft_status_free(s);
  release_all(outputs);
  release_all(updated);
  weft_harness_destroy(h);
}

void weft_row_check(const WEFT_DeviceKernel *rows, const weft_row_op_t *ops, int num_ops) {
  weft_bench_t b;
  must(weft_bench_init(&b));
  weft_row_host_init();
  for (int o = 0; o < num_ops; o++) {
    for (int dtype = 1; dtype < WEFT_DTYPE_COUNT; dtype++) {
      if ((ops[o].types >> dtype & 1) == 0) continue;
      for (int round = 0; round < ROUNDS; round++) {
        weft_row_case_t c = {.dtype = (weft_dtype_t)dtype,
                             .round = round,
                             .random = (uint64_t)(o * 1000 + dtype * 20 + round)};
        check_one(&b, rows, &ops[o], &c);
        free_case(&c);
      }
    }
  }
  weft_bench_deinit(&b);
}

void weft_row_check_covered(const WEFT_DeviceKernel *rows, const weft_row_op_t *ops, int num_ops) {
  for (const WEFT_DeviceKernel *k = rows; k->op != NULL; k++) {
    uint32_t tested = 0;
    for (int o = 0; o < num_ops; o++) {
      if (strcmp(ops[o].op, k->op) == 0) tested |= ops[o].types;
    }
    if ((k->type_attr == NULL ? tested != 0 : (k->types & ~tested) == 0)) continue;
    fprintf(stderr, "%s: types %#x of %#x are not tested\n", k->op, k->types & ~tested, k->types);
    CU_FAIL("a row is not tested");
  }
}
