/* ops/collective.c - shapes of collective operations. N: members of the group. */
#include <inttypes.h>

#include "ops/infer.h"

/* The shape that input 3 holds. */
weft_status_t *weft_infer_collective_shape_input(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 3, 1, NULL));
  return weft_shape_from_input(c, 3, &c->outputs[0]);
}

/* input [d0, ...] -> [N*d0, ...] */
weft_status_t *weft_infer_collective_gather(weft_shape_ctx_t *c) {
  weft_shape_t in;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &in));
  c->outputs[0] = in;
  if (in.rank < 1) return NULL;
  int64_t n = weft_infer_int(c, "group_size"), d0 = in.dims[0];
  if (d0 == WEFT_UNKNOWN_DIM) return NULL;
  if (n < 0 && d0 > 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", n);
  return weft_infer_multiply(n < 0 ? 0 : n, d0, &c->outputs[0].dims[0]);
}

/* input [?, ...] -> [?, ...]: as many rows as the group, or the rank, decides. */
weft_status_t *weft_infer_collective_rows(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &c->outputs[0]));
  if (c->outputs[0].rank > 0) c->outputs[0].dims[0] = WEFT_UNKNOWN_DIM;
  return NULL;
}

weft_status_t *weft_infer_collective_all_to_all_v(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_collective_rows(c));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  c->outputs[1] = weft_shape_vector(weft_infer_int(c, "group_size"));
  return NULL;
}

/* As the tensor that the output shall be like, if there is one; else a part of the rows. */
weft_status_t *weft_infer_collective_scatter(weft_shape_ctx_t *c) {
  if (c->num_inputs > 1) {
    c->outputs[0] = c->inputs[1];
    return NULL;
  }
  return weft_infer_collective_rows(c);
}
