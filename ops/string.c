/* ops/string.c - shapes of strings. */
#include "ops/infer.h"

weft_status_t *weft_infer_fingerprint(weft_shape_ctx_t *c) {
  weft_shape_t data;
  int64_t bytes = WEFT_UNKNOWN_DIM;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &data));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  if (c->values[1] != NULL) {
    weft_str_t method = weft_tensor_str_at(c->values[1], 0);
    if (!weft_str_is(method, "farmhash64")) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported method: %.*s", WEFT_STR_ARGS(method));
    }
    bytes = 8;
  }
  c->outputs[0] = weft_shape_matrix(weft_infer_dim(&data, 0), bytes);
  return NULL;
}

weft_status_t *weft_infer_string_split(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, 2);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[2] = weft_shape_vector(2);
  return NULL;
}

weft_status_t *weft_infer_string_ngrams(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &c->outputs[1]));
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

/* Positions and lengths are of one shape, which broadcasts with that of the strings. */
weft_status_t *weft_infer_substr(weft_shape_ctx_t *c) {
  const weft_shape_t *pos = &c->inputs[1], *len = &c->inputs[2];
  if (len->rank != WEFT_UNKNOWN_DIM) WEFT_RETURN_IF_ERROR(weft_infer_rank(pos, len->rank, NULL));
  for (int d = 0; d < pos->rank; d++) {
    if (pos->dims[d] == weft_infer_dim(len, d)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "pos and len shapes must match: %s vs. %s", WEFT_SHAPE_TEXT(pos),
                      WEFT_SHAPE_TEXT(len));
  }
  return weft_shape_broadcast(&c->inputs[0], pos, &c->outputs[0]);
}

/* One split more than strings; values and offsets. */
weft_status_t *weft_infer_unicode_decode(weft_shape_ctx_t *c) {
  int64_t rows = weft_shape_count(&c->inputs[0]);
  if (!weft_shape_is_known(&c->inputs[0]) || rows < 0) rows = WEFT_UNKNOWN_DIM;
  for (int d = 0; d < c->inputs[0].rank; d++) {
    if (c->inputs[0].dims[d] == 0) rows = 0; /* whatever the other dimensions are */
  }
  if (rows == INT64_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension size overflows: %lld + 1", (long long)rows);
  c->outputs[0] = weft_shape_vector(rows == WEFT_UNKNOWN_DIM ? rows : rows + 1);
  for (int i = 1; i < c->num_outputs; i++) c->outputs[i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_unicode_encode(weft_shape_ctx_t *c) {
  weft_shape_t splits;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &splits));
  if (splits.dims[0] == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Negative dimension size caused by subtracting 1 from 0");
  }
  c->outputs[0] =
      weft_shape_vector(splits.dims[0] == WEFT_UNKNOWN_DIM ? WEFT_UNKNOWN_DIM : splits.dims[0] - 1);
  return NULL;
}
