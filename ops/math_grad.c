/* ops/math_grad.c - gradients of elementwise arithmetic that are no formulas in the op's record
 * (ops/formula.c). Complex values: a gradient is multiplied by the conjugate. */
#include "ops/grad.h"

/* Every function begins with the names of the formula. */
#define UNARY                                                 \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                       \
  value_t x = c->inputs[0], y = c->outputs[0], dy = c->dy[0]; \
  (void)x;                                                    \
  (void)y
#define BINARY                                                                  \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                                         \
  value_t a = c->inputs[0], b = c->inputs[1], y = c->outputs[0], dy = c->dy[0]; \
  (void)a;                                                                      \
  (void)b;                                                                      \
  (void)y

static value_t mul(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Mul", a, b); }
static value_t add(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "AddV2", a, b); }
static value_t sub(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Sub", a, b); }
static value_t divide(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "RealDiv", a, b); }
static value_t neg(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "Neg", a); }
static value_t square(weft_grad_t *g, value_t a) { return weft_grad_op1(g, "Square", a); }
static value_t f(weft_grad_t *g, const char *op, value_t a) { return weft_grad_op1(g, op, a); }
static value_t conjugate(weft_grad_t *g, value_t a) { return weft_grad_conj(g, a); }
/* A constant of the type of `like`. */
static value_t number(weft_grad_t *g, value_t like, double v) {
  return weft_grad_scalar(g, weft_grad_dtype(g, like), v);
}

/* dx of a function of two: each summed down to its input's shape. */
static weft_status_t *both(weft_grad_t *g, value_t da, value_t db) {
  const value_t *x = g->c->inputs;
  g->c->dx[0] = weft_grad_unbroadcast(g, da, x[0], x[1], 0);
  g->c->dx[1] = weft_grad_unbroadcast(g, db, x[1], x[0], 1);
  return g->s;
}

/* ---- complex ---- */

/* A Complex node of the type of x. */
static value_t complex_like(weft_grad_t *g, value_t x, value_t re, value_t im) {
  weft_named_attr_t type = weft_type_attr("Tout", weft_grad_dtype(g, x));
  return weft_grad_node(g, "Complex", (value_t[]){re, im}, 2, &type, 1);
}
static value_t part(weft_grad_t *g, const char *op, value_t z) {
  weft_named_attr_t type = weft_type_attr("Tout", weft_grad_dtype(g, z) == WEFT_C128 ? WEFT_F64 : WEFT_F32);
  return weft_grad_node(g, op, &z, 1, &type, 1);
}
weft_status_t *weft_grad_real(weft_grad_ctx_t *c) {
  UNARY;
  c->dx[0] = complex_like(g, x, dy, number(g, dy, 0));
  return g->s;
}
weft_status_t *weft_grad_imag(weft_grad_ctx_t *c) {
  UNARY;
  c->dx[0] = complex_like(g, x, number(g, dy, 0), dy);
  return g->s;
}
weft_status_t *weft_grad_angle(weft_grad_ctx_t *c) {
  UNARY;
  value_t turned = complex_like(g, x, part(g, "Imag", x), part(g, "Real", x));
  value_t towards = complex_like(g, x, neg(g, dy), number(g, dy, 0));
  c->dx[0] = mul(g, towards, weft_grad_op1(g, "Reciprocal", turned));
  return g->s;
}
weft_status_t *weft_grad_complex(weft_grad_ctx_t *c) {
  BINARY;
  return both(g, part(g, "Real", dy), part(g, "Imag", dy));
}
weft_status_t *weft_grad_complex_abs(weft_grad_ctx_t *c) {
  UNARY;
  c->dx[0] = mul(g, complex_like(g, x, dy, f(g, "ZerosLike", dy)), f(g, "Sign", x));
  return g->s;
}

/* ---- two arguments ---- */

/* Where the comparison holds the gradient is the first's, elsewhere the second's. */
static weft_status_t *chosen(weft_grad_ctx_t *c, const char *comparison) {
  BINARY;
  value_t is_first = weft_grad_op2(g, comparison, a, b), zeros = f(g, "ZerosLike", dy);
  return both(g, weft_grad_op3(g, "Select", is_first, dy, zeros),
              weft_grad_op3(g, "Select", is_first, zeros, dy));
}
weft_status_t *weft_grad_maximum(weft_grad_ctx_t *c) { return chosen(c, "GreaterEqual"); }
weft_status_t *weft_grad_minimum(weft_grad_ctx_t *c) { return chosen(c, "LessEqual"); }
weft_status_t *weft_grad_squared_difference(weft_grad_ctx_t *c) {
  BINARY;
  value_t d =
      mul(g, mul(g, number(g, a, 2), dy), sub(g, a, b)); /* also of complex numbers, as TensorFlow's */
  return both(g, d, neg(g, d));
}
weft_status_t *weft_grad_pow(weft_grad_ctx_t *c) {
  BINARY;
  value_t x = conjugate(g, a), p = conjugate(g, b), zero = number(g, a, 0);
  value_t is_safe = weft_dtype_is_complex(weft_grad_dtype(g, a)) ? weft_grad_op2(g, "NotEqual", x, zero)
                                                                 : weft_grad_op2(g, "Greater", x, zero);
  value_t zeros = f(g, "ZerosLike", x), ones = f(g, "OnesLike", x);
  value_t log =
      weft_grad_op3(g, "Select", is_safe, f(g, "Log", weft_grad_op3(g, "Select", is_safe, x, ones)), zeros);
  value_t da = mul(g, dy, mul(g, p, weft_grad_op2(g, "Pow", x, sub(g, p, number(g, a, 1)))));
  return both(g, da, mul(g, dy, mul(g, conjugate(g, y), log)));
}
/* Of the order there is none. */
weft_status_t *weft_grad_polygamma(weft_grad_ctx_t *c) {
  BINARY;
  value_t next = weft_grad_op2(g, "Polygamma", add(g, a, number(g, a, 1)), b);
  c->dx[1] = weft_grad_unbroadcast(g, mul(g, dy, next), b, a, 1);
  return g->s;
}
/* Of the first argument there is none. */
weft_status_t *weft_grad_zeta(weft_grad_ctx_t *c) {
  BINARY;
  value_t next = weft_grad_op2(g, "Zeta", add(g, a, number(g, a, 1)), b);
  c->dx[1] = weft_grad_unbroadcast(g, mul(g, dy, mul(g, neg(g, a), next)), b, a, 1);
  return g->s;
}
/* Of a and b there is none. */
weft_status_t *weft_grad_betainc(weft_grad_ctx_t *c) {
  BINARY;
  value_t x = c->inputs[2], one = number(g, a, 1);
  value_t log_beta = sub(g, add(g, f(g, "Lgamma", a), f(g, "Lgamma", b)), f(g, "Lgamma", add(g, a, b)));
  value_t logs = add(g, weft_grad_op2(g, "Xlog1py", sub(g, b, one), neg(g, x)),
                     weft_grad_op2(g, "Xlogy", sub(g, a, one), x));
  c->dx[2] = weft_grad_unbroadcast(g, mul(g, dy, f(g, "Exp", sub(g, logs, log_beta))), x, y, 0);
  return g->s;
}
weft_status_t *weft_grad_atan2(weft_grad_ctx_t *c) {
  BINARY;
  value_t scaled = divide(g, dy, add(g, square(g, b), square(g, a)));
  return both(g, mul(g, b, scaled), mul(g, neg(g, a), scaled));
}
/* ---- others ---- */

weft_status_t *weft_grad_add_n(weft_grad_ctx_t *c) {
  for (int i = 0; i < c->num_inputs; i++) c->dx[i] = c->dy[0];
  return NULL;
}

weft_status_t *weft_grad_cast_op(weft_grad_ctx_t *c) {
  UNARY;
  int from = weft_grad_dtype(g, x), to = weft_grad_dtype(g, y);
  bool is_smooth = (weft_dtype_is_floating(from) || weft_dtype_is_complex(from)) &&
                   (weft_dtype_is_floating(to) || weft_dtype_is_complex(to));
  if (is_smooth) c->dx[0] = weft_grad_cast(g, dy, from);
  return g->s;
}

weft_status_t *weft_grad_select(weft_grad_ctx_t *c) {
  UNARY;
  value_t zeros = f(g, "ZerosLike", dy);
  c->dx[1] = weft_grad_op3(g, "Select", x, dy, zeros);
  c->dx[2] = weft_grad_op3(g, "Select", x, zeros, dy);
  return g->s;
}

weft_status_t *weft_grad_select_v2(weft_grad_ctx_t *c) {
  UNARY;
  value_t zeros = number(g, dy, 0);
  c->dx[1] = weft_grad_unbroadcast(g, weft_grad_op3(g, "SelectV2", x, dy, zeros), c->inputs[1], y, 0);
  c->dx[2] = weft_grad_unbroadcast(g, weft_grad_op3(g, "SelectV2", x, zeros, dy), c->inputs[2], y, 0);
  return g->s;
}

weft_status_t *weft_grad_clip(weft_grad_ctx_t *c) {
  UNARY;
  value_t low = c->inputs[1], high = c->inputs[2], zeros = f(g, "ZerosLike", dy);
  value_t below = weft_grad_op2(g, "Less", x, low), above = weft_grad_op2(g, "Greater", x, high);
  c->dx[0] = weft_grad_op3(g, "Select", weft_grad_op2(g, "LogicalOr", below, above), zeros, dy);
  c->dx[1] = weft_grad_unbroadcast(g, weft_grad_op3(g, "Select", below, dy, zeros), low, x, 0);
  c->dx[2] = weft_grad_unbroadcast(g, weft_grad_op3(g, "Select", above, dy, zeros), high, x, 0);
  return g->s;
}

/* ---- second order of the gradient ops that networks with gradient penalties meet ---- */

weft_status_t *weft_grad_tanh_grad(weft_grad_ctx_t *c) {
  BINARY;
  c->dx[0] = mul(g, mul(g, mul(g, number(g, a, -2), dy), conjugate(g, b)), conjugate(g, a));
  c->dx[1] = weft_grad_op2(g, "TanhGrad", conjugate(g, a), dy);
  return g->s;
}
weft_status_t *weft_grad_sigmoid_grad(weft_grad_ctx_t *c) {
  BINARY;
  value_t gb = mul(g, dy, conjugate(g, b)), ca = conjugate(g, a);
  c->dx[0] = sub(g, gb, mul(g, mul(g, number(g, a, 2), gb), ca));
  c->dx[1] = weft_grad_op2(g, "SigmoidGrad", ca, dy);
  return g->s;
}
