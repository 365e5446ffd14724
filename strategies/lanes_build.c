/* strategies/lanes_build.c - adds nodes, remembers the first failure. */
#include "strategies/lanes_build.h"

#include "base/alloc.h"

enum { MAX_PLAIN_INPUTS = 4 };

weft_status_t *weft_build_end(weft_build_t *b) {
  weft_status_t *s = b->failure;
  b->failure = NULL;
  return s;
}

bool weft_build_fail(weft_build_t *b, weft_status_t *s) {
  if (s != NULL && b->failure != NULL) {
    weft_status_free(s);
  } else if (s != NULL) {
    b->failure = s;
  }
  return b->failure != NULL;
}

static const weft_output_t nothing = {NULL, 0};

static weft_str_t scoped(weft_build_t *b, weft_str_t name) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, b->scope);
  weft_strbuf_append(&text, name);
  weft_str_t out = {NULL, 0};
  if (!text.failed && name.data != NULL) out = weft_graph_unique_name(b->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (out.data == NULL) {
    weft_build_fail(b, WEFT_ERROR(RESOURCE_EXHAUSTED, "adding node '%.*s'", WEFT_STR_ARGS(name)));
  }
  return out;
}

weft_output_t weft_build(weft_build_t *b, const char *op, weft_str_t name, const weft_output_t *inputs, int num_inputs,
                         const weft_named_attr_t *attrs, int num_attrs) {
  if (b->failure != NULL) return nothing;
  weft_str_t full = scoped(b, name);
  if (full.data == NULL) return nothing;
  const weft_node_spec_t spec = {.name = full, .op = weft_str(op), .device = b->device, .inputs = inputs,
                                 .num_inputs = num_inputs, .controls = b->after == NULL ? NULL : &b->after,
                                 .num_controls = b->after != NULL, .attrs = attrs, .num_attrs = num_attrs};
  weft_node_t *n = NULL;
  if (weft_build_fail(b, weft_graph_add(b->g, &spec, &n))) return nothing;
  return (weft_output_t){n, 0};
}

weft_output_t weft_build0(weft_build_t *b, const char *op, weft_str_t name, const weft_named_attr_t *attrs, int num_attrs) {
  return weft_build(b, op, name, NULL, 0, attrs, num_attrs);
}

weft_output_t weft_build1(weft_build_t *b, const char *op, const char *name, weft_output_t x) {
  return weft_build(b, op, weft_str(name), &x, 1, NULL, 0);
}

weft_output_t weft_build2(weft_build_t *b, const char *op, const char *name, weft_output_t x, weft_output_t y) {
  const weft_output_t in[2] = {x, y};
  return weft_build(b, op, weft_str(name), in, 2, NULL, 0);
}

weft_output_t weft_build3(weft_build_t *b, const char *op, const char *name, weft_output_t x, weft_output_t y,
                          weft_output_t z) {
  const weft_output_t in[3] = {x, y, z};
  return weft_build(b, op, weft_str(name), in, 3, NULL, 0);
}

void weft_build_control(weft_build_t *b, weft_node_t *from, weft_node_t *to) {
  if (b->failure != NULL || from == NULL || to == NULL || from == to) return;
  for (int i = 0; i < to->num_controls; i++) {
    if (to->controls[i] == from) return;
  }
  weft_build_fail(b, weft_graph_add_control(b->g, from, to));
}

weft_node_t *weft_build_noop(weft_build_t *b, weft_str_t name, weft_node_t *const *controls, int num_controls) {
  weft_node_t *n = weft_build(b, "NoOp", name, NULL, 0, NULL, 0).node;
  for (int i = 0; i < num_controls; i++) weft_build_control(b, controls[i], n);
  return b->failure == NULL ? n : NULL;
}

int weft_output_type(weft_output_t o) { return weft_dtype_base(o.node->output_types[o.index]); }

weft_output_t weft_build_cast(weft_build_t *b, const char *name, weft_output_t x, int to) {
  if (b->failure != NULL || weft_output_type(x) == to) return x;
  const weft_named_attr_t attr = weft_type_attr("DstT", to);
  return weft_build(b, "Cast", weft_str(name), &x, 1, &attr, 1);
}

/* ---- constants ---- */

weft_output_t weft_build_tensor(weft_build_t *b, const char *name, weft_tensor_t *value) {
  const weft_named_attr_t attrs[2] = {{WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value}},
                                      weft_type_attr("dtype", (int)value->dtype)};
  return weft_build(b, "Const", weft_str(name), NULL, 0, attrs, 2);
}

static weft_output_t integers(weft_build_t *b, const char *name, weft_dtype_t dtype, const int64_t *values,
                              const weft_shape_t *shape) {
  weft_tensor_t *t = NULL;
  if (b->failure != NULL || weft_build_fail(b, weft_tensor_new(dtype, shape, NULL, &t))) return nothing;
  for (int64_t i = 0; i < t->count; i++) {
    if (dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)values[i];
    if (dtype == WEFT_I64) ((int64_t *)t->data)[i] = values[i];
  }
  weft_output_t out = weft_build_tensor(b, name, t);
  weft_tensor_release(t);
  return out;
}

weft_output_t weft_build_ints(weft_build_t *b, const char *name, weft_dtype_t dtype, const int64_t *values, int n) {
  const weft_shape_t shape = weft_shape_vector(n);
  return integers(b, name, dtype, values, &shape);
}

weft_output_t weft_build_int(weft_build_t *b, const char *name, weft_dtype_t dtype, int64_t value) {
  const weft_shape_t shape = WEFT_SCALAR;
  return integers(b, name, dtype, &value, &shape);
}

weft_output_t weft_build_number(weft_build_t *b, const char *name, int dtype, double value) {
  weft_tensor_t *t = NULL;
  const float narrow = (float)value;
  const void *at = dtype == WEFT_F32 ? (const void *)&narrow : &value;
  if (b->failure != NULL || weft_build_fail(b, weft_tensor_scalar(dtype == WEFT_F32 ? WEFT_F32 : WEFT_F64, at, &t))) {
    return nothing;
  }
  weft_output_t out = weft_build_tensor(b, name, t);
  weft_tensor_release(t);
  return weft_build_cast(b, name, out, dtype);
}
