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

/* Outside loops: only the branch that was taken has a live gradient. A branch whose outputs have no consumer
 * gives zeros.
 */
weft_status_t *weft_grad_switch(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t n = weft_int_attr("N", 2);
  value_t branches[] = {weft_grad_dy_or_zeros(&g, 0), weft_grad_dy_or_zeros(&g, 1)};
  c->dx[0] = weft_grad_node(&g, "Merge", branches, 2, &n, 1);
  return g.s;
}
