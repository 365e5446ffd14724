/* ops/lookup.c - shapes of lookup tables' operations, and of vocabularies. */
#include "ops/infer.h"

/* The handle in input 0 is two strings, or a scalar resource. */
static weft_status_t *check_table(weft_shape_ctx_t *c) {
  weft_shape_t handle;
  if (c->input_types[0] == WEFT_RESOURCE) return weft_infer_scalars(c, 0, 0);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &handle));
  return weft_infer_dim_is(handle.dims[0], 2);
}

weft_status_t *weft_infer_table_use(weft_shape_ctx_t *c) { return check_table(c); }

weft_status_t *weft_infer_table_size(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_table(c));
  return weft_infer_scalar(c);
}

weft_status_t *weft_infer_table_remove(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_table(c));
  return weft_shape_with_rank_at_least(c, 1, 1, NULL);
}

weft_status_t *weft_infer_table_find(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_table(c));
  return c->input_types[0] == WEFT_RESOURCE ? NULL : weft_infer_rank_at_most(c, 2, 1);
}

weft_status_t *weft_infer_table_initialize(weft_shape_ctx_t *c) {
  weft_shape_t keys;
  WEFT_RETURN_IF_ERROR(check_table(c));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &keys));
  return weft_shape_merge(&keys, &c->inputs[2], &keys);
}

weft_status_t *weft_infer_table_from_file(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_table(c));
  return weft_infer_scalars(c, 1, 1);
}

weft_status_t *weft_infer_table_export(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_table(c));
  if (c->input_types[0] != WEFT_RESOURCE) c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_vocab_remapping(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 1));
  c->outputs[0] = weft_shape_vector(weft_infer_int(c, "num_new_vocab"));
  c->outputs[1] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_remapped_matrix(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  c->outputs[0] = weft_shape_matrix(weft_infer_int(c, "num_rows"), weft_infer_int(c, "num_cols"));
  return NULL;
}
