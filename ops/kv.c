/* ops/kv.c - shapes of clocks and of tables of keys and values. */
#include "ops/infer.h"

/* Every input is a scalar, the handle too; so is every output. */
weft_status_t *weft_infer_kv_scalars(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, c->num_inputs - 1));
  return weft_infer_scalar(c);
}

/* (variable, scalar id, value) -> a scalar. */
weft_status_t *weft_infer_kv_once_update(weft_shape_ctx_t *c) {
  weft_shape_t merged, variable = weft_infer_variable(c, 0);
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&variable, &c->inputs[2], &merged));
  return weft_infer_scalar(c);
}

/* keys [n], values [n, ...] -> N pieces of both. */
weft_status_t *weft_infer_kv_slice(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  weft_shape_t rows = c->inputs[1];
  if (rows.rank >= 1) rows.dims[0] = WEFT_UNKNOWN_DIM;
  int n = c->num_outputs / 2;
  for (int i = 0; i < n; i++) {
    c->outputs[i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
    c->outputs[n + i] = rows;
  }
  return NULL;
}

/* keys [n] and N pieces -> values [n, ...]. */
weft_status_t *weft_infer_kv_merge(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  weft_shape_t rows = c->inputs[c->num_inputs - 1];
  if (rows.rank >= 1) rows.dims[0] = weft_infer_dim(&c->inputs[0], 0);
  c->outputs[0] = rows;
  return NULL;
}
