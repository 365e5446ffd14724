/* ops/sampler.c - shapes of candidate samplers. */
#include <inttypes.h>

#include "ops/infer.h"

weft_status_t *weft_infer_candidates(weft_shape_ctx_t *c) {
  weft_shape_t classes;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &classes));
  c->outputs[0] = c->outputs[2] = weft_shape_vector(weft_infer_int(c, "num_sampled"));
  c->outputs[1] = weft_shape_matrix(classes.dims[0], weft_infer_int(c, "num_true"));
  return NULL;
}

weft_status_t *weft_infer_accidental_hits(weft_shape_ctx_t *c) {
  weft_shape_t classes;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &classes));
  if (classes.dims[1] >= 0)
    WEFT_RETURN_IF_ERROR(weft_infer_dim_is(classes.dims[1], weft_infer_int(c, "num_true")));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  return weft_infer_vector(c);
}
