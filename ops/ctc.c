/* ops/ctc.c - shapes of connectionist temporal classification. */
#include "ops/infer.h"

/* Predictions are [time, batch, classes], lengths [batch]. */
static weft_status_t *sequences(weft_shape_ctx_t *c, int lengths, weft_shape_t *x) {
  weft_shape_t n;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 3, x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, lengths, 1, &n));
  return weft_shape_merge_dim(x->dims[1], n.dims[0], &x->dims[1]);
}

weft_status_t *weft_infer_ctc_loss(weft_shape_ctx_t *c) {
  weft_shape_t x, indices, values;
  int64_t rows = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &indices));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &values));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(indices.dims[0], values.dims[0], &rows));
  WEFT_RETURN_IF_ERROR(sequences(c, 3, &x));
  c->outputs[0] = weft_shape_vector(x.dims[1]);
  c->outputs[1] = x;
  return NULL;
}

/* Indices, values and sizes of each path, then the scores of all. */
weft_status_t *weft_infer_ctc_decoder(weft_shape_ctx_t *c) {
  weft_shape_t x;
  const int paths = (c->num_outputs - 1) / 3;
  WEFT_RETURN_IF_ERROR(sequences(c, 1, &x));
  for (int p = 0; p < paths; p++) {
    c->outputs[p] = weft_shape_matrix(WEFT_UNKNOWN_DIM, 2);
    c->outputs[paths + p] = weft_shape_vector(WEFT_UNKNOWN_DIM);
    c->outputs[2 * paths + p] = weft_shape_vector(2);
  }
  c->outputs[3 * paths] = weft_shape_matrix(x.dims[1], paths);
  return NULL;
}
