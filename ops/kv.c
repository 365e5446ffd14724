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
