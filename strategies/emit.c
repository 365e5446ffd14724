/* strategies/emit.c - nodes added one by one, with one place to look for a failure. */
#include "strategies/emit.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

static const weft_output_t nothing = {NULL, 0};

weft_status_t *weft_emitter_end(weft_emitter_t *e) {
  weft_status_t *s = e->s;
  e->s = NULL;
  return s;
}

bool weft_emitter_fail(weft_emitter_t *e, weft_status_t *s) {
  e->s = weft_status_join(e->s, s);
  return e->s != NULL;
}

static void no_memory(weft_emitter_t *e) {
  if (e->s == NULL) e->s = WEFT_NO_MEMORY("adding nodes to a graph");
}

/* The name with its scope, as the graph keeps it; data NULL without memory. */
WEFT_PRINTF(2, 0)
static weft_str_t make_name(weft_emitter_t *e, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, e->scope);
  weft_str_t name = {NULL, 0};
  int length = vsnprintf(NULL, 0, format, args);
  char *at = length <= 0 ? NULL : weft_strbuf_reserve(&b, (size_t)length + 1);
  if (at != NULL) {
    vsnprintf(at, (size_t)length + 1, format, again);
    name = weft_graph_unique_name(e->g, weft_str_of(b.data, b.length + (size_t)length));
  }
  va_end(again);
  weft_strbuf_deinit(&b);
  return name;
}

weft_status_t *weft_forget_colocation(weft_graph_t *g, weft_node_t *n) {
  return weft_graph_clear_attr(g, n, "_class");
}

/* `spec` lacks a name and a device. Attributes may be those of another node, which lies elsewhere. */
WEFT_PRINTF(3, 0)
static weft_node_t *add(weft_emitter_t *e, weft_node_spec_t *spec, const char *format, va_list args) {
  if (e->s != NULL) return NULL;
  weft_node_t *n = NULL;
  spec->name = make_name(e, format, args);
  spec->device = e->device;
  spec->controls = e->after == NULL ? NULL : &e->after;
  spec->num_controls = e->after != NULL;
  if (spec->name.data == NULL) {
    no_memory(e);
    return NULL;
  }
  if (weft_emitter_fail(e, weft_graph_add(e->g, spec, &n))) return NULL;
  return weft_emitter_fail(e, weft_forget_colocation(e->g, n)) ? NULL : n;
}

#define WITH_NAME(result, spec)                     \
  va_list args;                                     \
  va_start(args, name);                             \
  weft_node_t *node_ = add(e, &(spec), name, args); \
  va_end(args);                                     \
  weft_output_t result = node_ == NULL ? nothing : (weft_output_t) { node_, 0 }

weft_output_t weft_emit(weft_emitter_t *e, const char *op, const weft_output_t *inputs, int num_inputs,
                        const weft_named_attr_t *attrs, int num_attrs, const char *name, ...) {
  weft_node_spec_t spec = {
      .op = weft_str(op), .inputs = inputs, .num_inputs = num_inputs, .attrs = attrs, .num_attrs = num_attrs};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit1(weft_emitter_t *e, const char *op, weft_output_t a, const char *name, ...) {
  weft_node_spec_t spec = {.op = weft_str(op), .inputs = &a, .num_inputs = 1};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit2(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b,
                         const char *name, ...) {
  weft_output_t inputs[2] = {a, b};
  weft_node_spec_t spec = {.op = weft_str(op), .inputs = inputs, .num_inputs = 2};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit3(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b, weft_output_t c,
                         const char *name, ...) {
  weft_output_t inputs[3] = {a, b, c};
  weft_node_spec_t spec = {.op = weft_str(op), .inputs = inputs, .num_inputs = 3};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit_cast(weft_emitter_t *e, weft_output_t x, int dtype, const char *name, ...) {
  if (e->s != NULL || weft_base_type_of(x) == dtype) return x;
  weft_named_attr_t to = weft_type_attr("DstT", dtype);
  weft_node_spec_t spec = {
      .op = WEFT_STR("Cast"), .inputs = &x, .num_inputs = 1, .attrs = &to, .num_attrs = 1};
  WITH_NAME(out, spec);
  return out;
}

/* ---- constants ---- */

/* Takes value_ over; returns. */
#define CONSTANT(value)                                                                             \
  weft_tensor_t *value_ = (value);                                                                  \
  if (value_ == NULL) {                                                                             \
    no_memory(e);                                                                                   \
    return nothing;                                                                                 \
  }                                                                                                 \
  weft_named_attr_t attrs[2] = {weft_type_attr("dtype", value_->dtype),                             \
                                {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value_}}}; \
  weft_node_spec_t spec = {.op = WEFT_STR("Const"), .attrs = attrs, .num_attrs = 2};                \
  WITH_NAME(out, spec);                                                                             \
  weft_tensor_release(value_);                                                                      \
  return out

weft_output_t weft_emit_const(weft_emitter_t *e, weft_tensor_t *value, const char *name, ...) {
  CONSTANT(value);
}

/* NULL on failure, which the emitter has then. */
static weft_tensor_t *integers(weft_emitter_t *e, weft_dtype_t dtype, weft_shape_t shape,
                               const int64_t *values) {
  weft_tensor_t *t = NULL;
  if (e->s != NULL || weft_emitter_fail(e, weft_tensor_new(dtype, &shape, NULL, &t))) return NULL;
  for (int64_t i = 0; i < t->count; i++) {
    if (dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)values[i];
    if (dtype == WEFT_I64) ((int64_t *)t->data)[i] = values[i];
  }
  return t;
}

weft_output_t weft_emit_int(weft_emitter_t *e, weft_dtype_t dtype, int64_t value, const char *name, ...) {
  CONSTANT(integers(e, dtype, WEFT_SCALAR, &value));
}

weft_output_t weft_emit_ints(weft_emitter_t *e, weft_dtype_t dtype, const int64_t *values, int n,
                             const char *name, ...) {
  CONSTANT(integers(e, dtype, weft_shape_vector(n), values));
}

static weft_tensor_t *text_tensor(weft_emitter_t *e, weft_str_t value) {
  weft_tensor_t *t = NULL;
  return e->s != NULL || weft_emitter_fail(e, weft_tensor_string(value, &t)) ? NULL : t;
}

weft_output_t weft_emit_string(weft_emitter_t *e, weft_str_t value, const char *name, ...) {
  CONSTANT(text_tensor(e, value));
}

/* float where that is asked for, else double. */
static weft_tensor_t *fraction(weft_emitter_t *e, int dtype, double value) {
  weft_tensor_t *t = NULL;
  const float narrow = (float)value;
  weft_status_t *s = dtype == WEFT_F32 ? weft_tensor_scalar(WEFT_F32, &narrow, &t)
                                       : weft_tensor_scalar(WEFT_F64, &value, &t);
  return weft_emitter_fail(e, s) ? NULL : t;
}

weft_output_t weft_emit_number(weft_emitter_t *e, int dtype, double value, const char *name, ...) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_output_t out = nothing;
  va_list args, again;
  if (e->s != NULL) return nothing;
  va_start(args, name);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, name, args);
  char *at = length < 0 ? NULL : weft_strbuf_reserve(&text, (size_t)length + 1);
  if (at == NULL) {
    no_memory(e);
  } else {
    vsnprintf(at, (size_t)length + 1, name, again);
    out = weft_emit_const(e, fraction(e, dtype, value), "%s", at);
    out = weft_emit_cast(e, out, dtype, "%s/cast", at);
  }
  va_end(again);
  va_end(args);
  weft_strbuf_deinit(&text);
  return out;
}

weft_node_t *weft_emit_noop(weft_emitter_t *e, weft_node_t *const *controls, int num_controls,
                            const char *name, ...) {
  weft_node_spec_t spec = {.op = WEFT_STR("NoOp")};
  WITH_NAME(out, spec);
  for (int i = 0; i < num_controls; i++) weft_emit_control(e, controls[i], out.node);
  return e->s == NULL ? out.node : NULL;
}

void weft_emit_control(weft_emitter_t *e, weft_node_t *from, weft_node_t *to) {
  if (e->s != NULL || from == NULL || to == NULL || from == to) return;
  weft_emitter_fail(e, weft_graph_add_control(e->g, from, to));
}

int weft_base_type_of(weft_output_t o) { return weft_dtype_base(o.node->output_types[o.index]); }

weft_shape_t weft_static_shape_of(weft_output_t o) {
  return o.node->output_shapes == NULL ? WEFT_UNKNOWN_SHAPE : o.node->output_shapes[o.index];
}

int64_t weft_static_bytes_of(weft_output_t o) {
  weft_shape_t shape = weft_static_shape_of(o);
  size_t size = weft_dtype_size(weft_base_type_of(o));
  int64_t count = weft_shape_is_known(&shape) ? weft_shape_count(&shape) : -1;
  return count < 0 || size == 0 || count > INT64_MAX / (int64_t)size ? -1 : count * (int64_t)size;
}
