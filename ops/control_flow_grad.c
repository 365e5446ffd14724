/* ops/control_flow_grad.c - gradients of ops that pass values on: identities, conditionals, reads of
 * variables. */
#include "ops/grad.h"

/* Every output's gradient is that of the input at its place. */
weft_status_t *weft_grad_identity(weft_grad_ctx_t *c) {
  for (int i = 0; i < c->num_inputs && i < c->num_outputs; i++) c->dx[i] = c->dy[i];
  return NULL;
}

weft_status_t *weft_grad_first(weft_grad_ctx_t *c) {
  c->dx[0] = c->dy[0];
  return NULL;
}

weft_status_t *weft_grad_prevent(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t message = weft_grad_same(&g, "message");
  weft_status_free(g.s);
  weft_str_t reason = message.value.kind == WEFT_ATTR_STRING ? message.value.s : WEFT_STR("");
  return WEFT_ERROR(NOT_FOUND, "Gradient explicitly disabled. Reason: %.*s", WEFT_STR_ARGS(reason));
}

weft_status_t *weft_grad_check_numerics(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_str_t text = WEFT_STR("Not a number (NaN) or infinity (Inf) values detected in gradient.");
  weft_named_attr_t message = {weft_str("message"), {.kind = WEFT_ATTR_STRING, .s = text}};
  c->dx[0] = weft_grad_node(&g, "CheckNumerics", &c->dy[0], 1, &message, 1);
  return g.s;
}

weft_status_t *weft_grad_check_numerics_v2(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t message = weft_grad_same(&g, "message");
  if (g.s != NULL) return g.s;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "Not a number (NaN) or infinity (Inf) values detected in gradient. %.*s",
                     WEFT_STR_ARGS(message.value.s));
  message.value.s = weft_str_of(text.data, text.length);
  c->dx[0] = weft_grad_node(&g, "CheckNumericsV2", &c->dy[0], 1, &message, 1);
  weft_strbuf_deinit(&text);
  return g.s;
}

weft_status_t *weft_grad_ensure_shape(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t shape = weft_grad_same(&g, "shape");
  c->dx[0] = weft_grad_node(&g, "EnsureShape", &c->dy[0], 1, &shape, 1);
  return g.s;
}

/* Only the branch that was taken has a live gradient. A branch whose output has no consumer gives zeros. The
 * gradient of a handle is one of what it refers to. */
static value_t branch_or_zeros(weft_grad_t *g, int i, int dtype) {
  weft_grad_ctx_t *c = g->c;
  if (weft_grad_dtype(g, c->outputs[i]) != WEFT_RESOURCE || !weft_grad_is_zero(c->dy[i]))
    return weft_grad_dy_or_zeros(g, i);
  value_t shape = weft_grad_op1(g, "VariableShape", c->outputs[i]);
  return weft_grad_op2(g, "Fill", shape, weft_grad_scalar(g, dtype, 0));
}

/* Of Switch and _SwitchN outside of loops' conditions. */
weft_status_t *weft_grad_switch(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  value_t *branches = weft_arena_calloc(&arena, (size_t)c->num_outputs, sizeof *branches);
  if (branches == NULL) return WEFT_NO_MEMORY("building a gradient");
  int dtype = 0;
  for (int i = 0; i < c->num_outputs; i++) {
    if (!weft_grad_is_zero(c->dy[i])) dtype = weft_grad_dtype(&g, c->dy[i]);
  }
  for (int i = 0; i < c->num_outputs; i++) branches[i] = branch_or_zeros(&g, i, dtype);
  weft_named_attr_t n = weft_int_attr("N", c->num_outputs);
  c->dx[0] = weft_grad_node(&g, "Merge", branches, c->num_outputs, &n, 1);
  weft_arena_deinit(&arena);
  return g.s;
}

/* The gradient is alive where the value that was taken came from: output 1 says where. */
weft_status_t *weft_grad_merge(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t dy = c->dy[0], index = c->outputs[1];
  if (weft_grad_is_zero(dy)) return NULL;
  weft_named_attr_t num_outs = weft_int_attr("num_outs", c->num_inputs);
  value_t parts;
  if (c->num_inputs == 2) {
    value_t is_second = weft_grad_op2(&g, "Equal", index, weft_grad_int_scalar(&g, WEFT_I32, 1));
    parts = weft_grad_op2(&g, "Switch", dy, is_second);
  } else {
    parts = weft_grad_node(&g, "_SwitchN", (value_t[]){dy, index}, 2, &num_outs, 1);
  }
  for (int i = 0; i < c->num_inputs; i++) c->dx[i] = weft_grad_output(parts, i);
  return g.s;
}

/* The record of an op that is differentiated as what it is lowered to, or with the loop around it. */
weft_status_t *weft_grad_as_part(weft_grad_ctx_t *c) {
  return WEFT_ERROR(UNIMPLEMENTED, "node '%.*s' has no gradient of its own", WEFT_STR_ARGS(c->node_name));
}
