/* ops/learn.c - shapes of solvers and clustering. */
#include "ops/infer.h"

weft_status_t *weft_infer_isotonic(weft_shape_ctx_t *c) {
  c->outputs[0] = c->outputs[1] = c->inputs[0];
  return NULL;
}

weft_status_t *weft_infer_sdca_fprint(weft_shape_ctx_t *c) {
  weft_shape_t in;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &in));
  c->outputs[0] = weft_shape_matrix(in.dims[0], 2);
  return NULL;
}

/* What is added to weights has their shape: the state of the examples is the last input and the first output.
 */
weft_status_t *weft_infer_sdca(weft_shape_ctx_t *c) {
  int num_weights = c->num_outputs - 1, first = c->num_inputs - 1 - num_weights;
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, 4);
  for (int i = 0; i < num_weights && first >= 0; i++) c->outputs[1 + i] = c->inputs[first + i];
  return NULL;
}
