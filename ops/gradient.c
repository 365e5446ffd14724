/* ops/gradient.c - the short forms that gradient functions are written in. */
#include "ops/gradient.h"

#include "ops/grad.h"

value_t weft_grad_node(weft_grad_t *g, const char *op, const value_t *inputs, int n,
                       const weft_named_attr_t *attrs, int num_attrs) {
  value_t out = WEFT_GRAD_ZERO;
  if (g->s == NULL) g->s = g->c->ops->add(g->c->self, op, inputs, n, attrs, num_attrs, &out);
  return out;
}

value_t weft_grad_op1(weft_grad_t *g, const char *op, value_t a) {
  return weft_grad_node(g, op, &a, 1, NULL, 0);
}

value_t weft_grad_op2(weft_grad_t *g, const char *op, value_t a, value_t b) {
  return weft_grad_node(g, op, (value_t[]){a, b}, 2, NULL, 0);
}

value_t weft_grad_op3(weft_grad_t *g, const char *op, value_t a, value_t b, value_t d) {
  return weft_grad_node(g, op, (value_t[]){a, b, d}, 3, NULL, 0);
}

value_t weft_grad_output(value_t node, int index) {
  node.index = index;
  return node;
}

/* ---- constants ---- */

static value_t constant(weft_grad_t *g, weft_tensor_t *tensor) {
  value_t out = WEFT_GRAD_ZERO;
  if (g->s == NULL) g->s = g->c->ops->constant(g->c->self, tensor, &out);
  weft_tensor_release(tensor);
  return out;
}

/* Writes `value` as an element of a plain dtype; integers wrap. */
static bool store(int dtype, double value, void *to) {
  switch (dtype) {
    case WEFT_F32: *(float *)to = (float)value; return true;
    case WEFT_F64: *(double *)to = value; return true;
    case WEFT_F16: *(uint16_t *)to = weft_f32_to_f16((float)value); return true;
    case WEFT_BF16: *(uint16_t *)to = weft_f32_to_bf16((float)value); return true;
    case WEFT_C64: *(weft_c64_t *)to = (weft_c64_t){(float)value, 0}; return true;
    case WEFT_C128: *(weft_c128_t *)to = (weft_c128_t){value, 0}; return true;
    case WEFT_I64: *(int64_t *)to = (int64_t)value; return true;
    case WEFT_U64: *(uint64_t *)to = (uint64_t)(int64_t)value; return true;
    case WEFT_I32: *(int32_t *)to = (int32_t)value; return true;
    case WEFT_U32: *(uint32_t *)to = (uint32_t)(int64_t)value; return true;
    case WEFT_I16: *(int16_t *)to = (int16_t)value; return true;
    case WEFT_U16: *(uint16_t *)to = (uint16_t)(int32_t)value; return true;
    case WEFT_I8: *(int8_t *)to = (int8_t)value; return true;
    case WEFT_U8:
    case WEFT_BOOL: *(uint8_t *)to = (uint8_t)(int32_t)value; return true;
    default: return false;
  }
}

value_t weft_grad_scalar(weft_grad_t *g, int dtype, double value) {
  union {
    double f;
    weft_c128_t c;
  } element = {0};
  weft_tensor_t *t = NULL;
  if (g->s != NULL) return WEFT_GRAD_ZERO;
  if (!store(dtype, value, &element)) {
    g->s = WEFT_ERROR(UNIMPLEMENTED, "the gradient of '%.*s' needs a number of type %s",
                      WEFT_STR_ARGS(g->c->node_name), weft_dtype_name(dtype));
    return WEFT_GRAD_ZERO;
  }
  g->s = weft_tensor_scalar((weft_dtype_t)dtype, &element, &t);
  return constant(g, t);
}

value_t weft_grad_int_scalar(weft_grad_t *g, int dtype, int64_t value) {
  return weft_grad_scalar(g, dtype, (double)value);
}

value_t weft_grad_int32s(weft_grad_t *g, const int32_t *values, int n) {
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  if (g->s != NULL) return WEFT_GRAD_ZERO;
  g->s = weft_tensor_new(WEFT_I32, &shape, NULL, &t);
  if (g->s == NULL && n > 0) memcpy(t->data, values, (size_t)n * sizeof *values);
  return constant(g, t);
}

/* ---- what is known ---- */

static const weft_attr_t *attr_of(weft_grad_t *g, const char *name) {
  const weft_attr_t *a = weft_attr_find(g->c->attrs, g->c->num_attrs, name);
  if (a != NULL) return a;
  const weft_attr_def_t *def = weft_op_attr(g->c->op, weft_str(name));
  if (def != NULL && def->has_default) return &def->default_value;
  if (g->s == NULL) {
    g->s = WEFT_ERROR(INVALID_ARGUMENT, "NodeDef missing attr '%s' in node '%.*s'", name,
                      WEFT_STR_ARGS(g->c->node_name));
  }
  return NULL;
}

weft_named_attr_t weft_grad_same(weft_grad_t *g, const char *name) {
  const weft_attr_t *a = attr_of(g, name);
  return (weft_named_attr_t){weft_str(name), a == NULL ? (weft_attr_t){.kind = WEFT_ATTR_NONE} : *a};
}

bool weft_grad_attr_bool(weft_grad_t *g, const char *name) {
  const weft_attr_t *a = attr_of(g, name);
  return a != NULL && a->kind == WEFT_ATTR_BOOL && a->b;
}

int64_t weft_grad_attr_int(weft_grad_t *g, const char *name) {
  const weft_attr_t *a = attr_of(g, name);
  return a != NULL && a->kind == WEFT_ATTR_INT ? a->i : 0;
}

bool weft_grad_is_zero(value_t v) { return v.node == NULL; }

int weft_grad_dtype(weft_grad_t *g, value_t v) {
  return g->s != NULL || v.node == NULL ? WEFT_F32 : g->c->ops->dtype(g->c->self, v);
}

weft_shape_t weft_grad_shape_of(weft_grad_t *g, value_t v) {
  return g->s != NULL || v.node == NULL ? WEFT_UNKNOWN_SHAPE : g->c->ops->shape(g->c->self, v);
}

bool weft_grad_const_int(weft_grad_t *g, value_t v, int64_t *out) {
  if (g->s != NULL || v.node == NULL || g->c->ops->value == NULL) return false;
  const weft_tensor_t *t = g->c->ops->value(g->c->self, v);
  if (t == NULL || t->count != 1) return false;
  if (t->dtype == WEFT_I32) {
    *out = *(const int32_t *)t->data;
  } else if (t->dtype == WEFT_I64) {
    *out = *(const int64_t *)t->data;
  } else {
    return false;
  }
  return true;
}

/* ---- formulas ---- */

value_t weft_grad_shape_node(weft_grad_t *g, value_t x, int out_type) {
  weft_named_attr_t type = weft_type_attr("out_type", out_type);
  return weft_grad_node(g, "Shape", &x, 1, &type, 1);
}

value_t weft_grad_cast(weft_grad_t *g, value_t x, int dtype) {
  if (weft_grad_dtype(g, x) == dtype) return x;
  weft_named_attr_t type = weft_type_attr("DstT", dtype);
  return weft_grad_node(g, "Cast", &x, 1, &type, 1);
}

value_t weft_grad_conj(weft_grad_t *g, value_t x) {
  return weft_dtype_is_complex(weft_grad_dtype(g, x)) ? weft_grad_op1(g, "Conj", x) : x;
}

value_t weft_grad_reduce(weft_grad_t *g, const char *op, value_t x, value_t axes, bool keep_dims) {
  weft_named_attr_t keep = weft_bool_attr("keep_dims", keep_dims);
  return weft_grad_node(g, op, (value_t[]){x, axes}, 2, &keep, 1);
}

value_t weft_grad_expand(weft_grad_t *g, value_t x, int axis) {
  return weft_grad_op2(g, "ExpandDims", x, weft_grad_int_scalar(g, WEFT_I32, axis));
}

/* inputs then `last` (if it is one), with N = n */
static value_t listed(weft_grad_t *g, const char *op, const value_t *x, int n, const value_t *last) {
  weft_named_attr_t number = weft_int_attr("N", n);
  value_t inputs[9];
  if (n > 8 && g->s == NULL)
    g->s = WEFT_ERROR(INTERNAL, "a gradient joins %d values with %s, not 8 at most", n, op);
  if (g->s != NULL) return WEFT_GRAD_ZERO;
  memcpy(inputs, x, (size_t)n * sizeof *x);
  if (last != NULL) inputs[n] = *last;
  return weft_grad_node(g, op, inputs, n + (last != NULL), &number, 1);
}

value_t weft_grad_concat(weft_grad_t *g, const value_t *x, int n, int axis) {
  value_t at = weft_grad_int_scalar(g, WEFT_I32, axis);
  return listed(g, "ConcatV2", x, n, &at);
}

value_t weft_grad_pack(weft_grad_t *g, const value_t *x, int n) { return listed(g, "Pack", x, n, NULL); }

value_t weft_grad_gather0(weft_grad_t *g, value_t params, value_t indices) {
  return weft_grad_op3(g, "GatherV2", params, indices, weft_grad_int_scalar(g, WEFT_I32, 0));
}

value_t weft_grad_dy_or_zeros(weft_grad_t *g, int i) {
  return weft_grad_is_zero(g->c->dy[i]) ? weft_grad_op1(g, "ZerosLike", g->c->outputs[i]) : g->c->dy[i];
}

value_t weft_grad_kept_shape(weft_grad_t *g, value_t x, value_t axes) {
  weft_named_attr_t n = weft_int_attr("N", 2);
  value_t shape = weft_grad_shape_node(g, x, WEFT_I32), zero = weft_grad_int_scalar(g, WEFT_I32, 0),
          one = weft_grad_int_scalar(g, WEFT_I32, 1), rank = weft_grad_op1(g, "Size", shape);
  value_t positive =
      weft_grad_op2(g, "FloorMod", weft_grad_op2(g, "AddV2", weft_grad_cast(g, axes, WEFT_I32), rank), rank);
  value_t ones = weft_grad_op2(g, "Fill", weft_grad_shape_node(g, positive, WEFT_I32), one);
  value_t all = weft_grad_op3(g, "Range", zero, rank, one);
  return weft_grad_node(g, "DynamicStitch", (value_t[]){all, positive, shape, ones}, 4, &n, 1);
}

value_t weft_grad_unbroadcast(weft_grad_t *g, value_t grad, value_t x, value_t other, int side) {
  weft_shape_t a = weft_grad_shape_of(g, x), b = weft_grad_shape_of(g, other);
  if (weft_shape_is_known(&a) && weft_shape_eq(&a, &b)) return grad;
  value_t shape_x = weft_grad_shape_node(g, x, WEFT_I32),
          shape_other = weft_grad_shape_node(g, other, WEFT_I32);
  value_t axes = weft_grad_output(side == 0 ? weft_grad_op2(g, "BroadcastGradientArgs", shape_x, shape_other)
                                            : weft_grad_op2(g, "BroadcastGradientArgs", shape_other, shape_x),
                                  side);
  return weft_grad_op2(g, "Reshape", weft_grad_reduce(g, "Sum", grad, axes, false), shape_x);
}
