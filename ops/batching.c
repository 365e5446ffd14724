/* ops/batching.c - shapes of what joins requests to batches, as in TensorFlow's batch_ops. */
#include "ops/infer.h"

/* Input i with a first dimension that only the step knows. */
static weft_status_t *any_rows(weft_shape_ctx_t *c, int i, int output) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[i], 1, &c->outputs[output]));
  if (c->outputs[output].rank > 0) c->outputs[output].dims[0] = WEFT_UNKNOWN_DIM;
  return NULL;
}

weft_status_t *weft_infer_batch(weft_shape_ctx_t *c) {
  const int n = c->num_inputs;
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(any_rows(c, i, i));
  c->outputs[n] = weft_shape_matrix(WEFT_UNKNOWN_DIM, 3);
  c->outputs[n + 1] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_unbatch(weft_shape_ctx_t *c) { return any_rows(c, 0, 0); }

weft_status_t *weft_infer_unbatch_grad(weft_shape_ctx_t *c) {
  if (c->inputs[2].rank >= 0) c->outputs[0] = weft_infer_unknown_of_rank(c->inputs[2].rank);
  return NULL;
}
