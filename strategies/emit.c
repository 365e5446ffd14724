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

static void fail(weft_emitter_t *e, weft_status_t *s) { e->s = weft_status_join(e->s, s); }

static void no_memory(weft_emitter_t *e) {
  if (e->s == NULL) e->s = WEFT_ERROR(RESOURCE_EXHAUSTED, "adding nodes to a graph");
}

typedef struct spec {
  const char *op;
  const weft_output_t *inputs;
  int num_inputs;
  const weft_named_attr_t *attrs;
  int num_attrs;
  weft_node_t *const *controls;
  int num_controls;
} spec_t;

WEFT_PRINTF(3, 0)
static weft_node_t *add(weft_emitter_t *e, const spec_t *spec, const char *format, va_list args) {
  if (e->s != NULL) return NULL;
  va_list again;
  va_copy(again, args);
  weft_node_t *n = NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  int length = vsnprintf(NULL, 0, format, args);
  char *at = length < 0 ? NULL : weft_strbuf_reserve(&b, (size_t)length + 1);
  if (at == NULL) {
    no_memory(e);
  } else {
    vsnprintf(at, (size_t)length + 1, format, again);
    weft_str_t name = weft_graph_unique_name(e->g, weft_str_of(at, (size_t)length));
    weft_node_spec_t node = {.name = name,
                             .op = weft_str(spec->op),
                             .device = e->device,
                             .inputs = spec->inputs,
                             .num_inputs = spec->num_inputs,
                             .controls = spec->controls,
                             .num_controls = spec->num_controls,
                             .attrs = spec->attrs,
                             .num_attrs = spec->num_attrs};
    if (name.data == NULL) {
      no_memory(e);
    } else {
      weft_status_t *s = weft_graph_add(e->g, &node, &n);
      if (s != NULL) {
        n = NULL;
        fail(e, s);
      }
    }
  }
  va_end(again);
  weft_strbuf_deinit(&b);
  return n;
}

#define WITH_NAME(result, spec)                                   \
  va_list args;                                                   \
  va_start(args, name);                                           \
  weft_node_t *node_ = add(e, &(spec), name, args);               \
  va_end(args);                                                   \
  weft_output_t result = node_ == NULL ? nothing : (weft_output_t){node_, 0}

weft_output_t weft_emit(weft_emitter_t *e, const char *op, const weft_output_t *inputs, int num_inputs,
                        const weft_named_attr_t *attrs, int num_attrs, const char *name, ...) {
  spec_t spec = {op, inputs, num_inputs, attrs, num_attrs, NULL, 0};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit1(weft_emitter_t *e, const char *op, weft_output_t a, const char *name, ...) {
  spec_t spec = {op, &a, 1, NULL, 0, NULL, 0};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit2(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b, const char *name, ...) {
  weft_output_t inputs[2] = {a, b};
  spec_t spec = {op, inputs, 2, NULL, 0, NULL, 0};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit3(weft_emitter_t *e, const char *op, weft_output_t a, weft_output_t b, weft_output_t c, const char *name,
                         ...) {
  weft_output_t inputs[3] = {a, b, c};
  spec_t spec = {op, inputs, 3, NULL, 0, NULL, 0};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit_cast(weft_emitter_t *e, weft_output_t x, int dtype, const char *name, ...) {
  if (e->s != NULL || weft_base_type_of(x) == dtype) return x;
  weft_named_attr_t to = weft_type_attr("DstT", dtype);
  spec_t spec = {"Cast", &x, 1, &to, 1, NULL, 0};
  WITH_NAME(out, spec);
  return out;
}

weft_output_t weft_emit_const(weft_emitter_t *e, weft_tensor_t *value, const char *name, ...) {
  if (value == NULL) {
    no_memory(e);
    return nothing;
  }
  weft_named_attr_t attrs[2] = {weft_type_attr("dtype", value->dtype),
                                {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value}}};
  spec_t spec = {"Const", NULL, 0, attrs, 2, NULL, 0};
  WITH_NAME(out, spec);
  weft_tensor_release(value);
  return out;
}

/* A new tensor; NULL on failure, which the emitter has then. */
static weft_tensor_t *tensor(weft_emitter_t *e, weft_dtype_t dtype, weft_shape_t shape, const void *values) {
  weft_tensor_t *t = NULL;
  if (e->s != NULL) return NULL;
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  if (s != NULL) {
    fail(e, s);
    return NULL;
  }
  if (t->bytes > 0) memcpy(t->data, values, t->bytes);
  return t;
}

#define CONSTANT(value)                                                                             \
  weft_tensor_t *value_ = (value);                                                                  \
  if (value_ == NULL) return nothing;                                                               \
  weft_named_attr_t attrs[2] = {weft_type_attr("dtype", value_->dtype),                              \
                                {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value_}}}; \
  spec_t spec = {"Const", NULL, 0, attrs, 2, NULL, 0};                                              \
  WITH_NAME(out, spec);                                                                             \
  weft_tensor_release(value_);                                                                      \
  return out

weft_output_t weft_emit_int32(weft_emitter_t *e, int32_t value, const char *name, ...) {
  CONSTANT(tensor(e, WEFT_I32, WEFT_SCALAR, &value));
}

weft_output_t weft_emit_int64(weft_emitter_t *e, int64_t value, const char *name, ...) {
  CONSTANT(tensor(e, WEFT_I64, WEFT_SCALAR, &value));
}

weft_output_t weft_emit_int64s(weft_emitter_t *e, const int64_t *values, int n, const char *name, ...) {
  CONSTANT(tensor(e, WEFT_I64, weft_shape_vector(n), values));
}

static weft_tensor_t *text_tensor(weft_emitter_t *e, weft_str_t value) {
  weft_tensor_t *t = NULL;
  if (e->s == NULL) fail(e, weft_tensor_string(value, &t));
  return t;
}

weft_output_t weft_emit_string(weft_emitter_t *e, weft_str_t value, const char *name, ...) {
  CONSTANT(text_tensor(e, value));
}

static weft_output_t named_number(weft_emitter_t *e, double value, const char *name) {
  weft_tensor_t *t = tensor(e, WEFT_F64, WEFT_SCALAR, &value);
  return t == NULL ? nothing : weft_emit_const(e, t, "%s", name);
}

weft_output_t weft_emit_number(weft_emitter_t *e, int dtype, double value, const char *name, ...) {
  char text[512];
  va_list args;
  va_start(args, name);
  int length = vsnprintf(text, sizeof text, name, args);
  va_end(args);
  if (length < 0 || e->s != NULL) return nothing;
  return weft_emit_cast(e, named_number(e, value, text), dtype, "%s/cast", text);
}

weft_node_t *weft_emit_noop(weft_emitter_t *e, weft_node_t *const *controls, int num_controls, const char *name, ...) {
  spec_t spec = {"NoOp", NULL, 0, NULL, 0, controls, num_controls};
  WITH_NAME(out, spec);
  return out.node;
}

void weft_emit_control(weft_emitter_t *e, weft_node_t *from, weft_node_t *to) {
  if (e->s != NULL || from == NULL || to == NULL) return;
  fail(e, weft_graph_add_control(e->g, from, to));
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
