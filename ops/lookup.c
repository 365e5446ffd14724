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

/* A table of keys [K] and values [V] that grows: what it holds goes along with its handle. */
weft_status_t *weft_infer_mutable_table(weft_shape_ctx_t *c) {
  const bool has_shape = weft_op_attr(c->op, WEFT_STR("value_shape")) != NULL;
  if (c->num_inputs > 0) WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 1));
  c->outputs[0] = WEFT_SCALAR;
  if (c->out_handles == NULL) return NULL;
  c->out_handles[0] =
      (weft_handle_data_t){.shape = has_shape ? weft_infer_shape(c, "value_shape") : WEFT_SCALAR,
                           .dtype = weft_infer_type(c, "value_dtype"),
                           .keys = c->num_inputs > 0 ? c->inputs[0] : WEFT_SCALAR,
                           .key_dtype = weft_infer_type(c, "key_dtype")};
  return NULL;
}

/* What is known of the table behind input 0, whose dtypes the attributes repeat; *out is NULL: nothing. */
static weft_status_t *table_behind(const weft_shape_ctx_t *c, const char *key_attr, const char *value_attr,
                                   const weft_handle_data_t **out) {
  const weft_handle_data_t *table = c->handles == NULL ? NULL : &c->handles[0];
  *out = NULL;
  if (table == NULL || table->dtype == 0 || table->key_dtype == 0) return NULL;
  const int dtypes[][2] = {{table->key_dtype, weft_infer_type(c, key_attr)},
                           {table->dtype, weft_infer_type(c, value_attr)}};
  for (int i = 0; i < 2; i++) {
    if (dtypes[i][0] != dtypes[i][1]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Trying to read value with wrong dtype. Expected %s got %s",
                        weft_dtype_name(dtypes[i][0]), weft_dtype_name(dtypes[i][1]));
    }
  }
  *out = table;
  return NULL;
}

/* keys [N..., K] of a table of keys [K] and values [V]: values [N..., V] */
weft_status_t *weft_infer_table_find(weft_shape_ctx_t *c) {
  const weft_handle_data_t *table = NULL;
  const weft_shape_t *keys = &c->inputs[1];
  WEFT_RETURN_IF_ERROR(check_table(c));
  if (c->input_types[0] != WEFT_RESOURCE) return weft_infer_rank_at_most(c, 2, 1);
  WEFT_RETURN_IF_ERROR(table_behind(c, "Tin", "Tout", &table));
  if (table == NULL || table->keys.rank < 0 || keys->rank < 0) return NULL;
  if (keys->rank < table->keys.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected keys to have suffix %s but saw shape: %s",
                      WEFT_SHAPE_TEXT(&table->keys), WEFT_SHAPE_TEXT(keys));
  }
  c->outputs[0] = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&c->outputs[0], keys, 0, keys->rank - table->keys.rank));
  return weft_infer_append(&c->outputs[0], &table->shape, 0, table->shape.rank);
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
  const weft_handle_data_t *table = NULL;
  WEFT_RETURN_IF_ERROR(check_table(c));
  if (c->input_types[0] == WEFT_RESOURCE) return table_behind(c, "Tkeys", "Tvalues", &table);
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_table_import(weft_shape_ctx_t *c) {
  int64_t rows;
  WEFT_RETURN_IF_ERROR(check_table(c));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 2, 1, NULL));
  return weft_shape_merge_dim(weft_infer_dim(&c->inputs[1], 0), weft_infer_dim(&c->inputs[2], 0), &rows);
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
