/* ops/reader.c - shapes of readers of files. */
#include "ops/infer.h"

/* A handle of the old kind is two strings; everything else is a scalar. */
static weft_status_t *check_inputs(weft_shape_ctx_t *c) {
  weft_shape_t handle;
  for (int i = 0; i < c->num_inputs; i++) {
    if (!weft_dtype_is_ref(c->input_types[i])) {
      WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, i, i));
      continue;
    }
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &handle));
    WEFT_RETURN_IF_ERROR(weft_infer_dim_is(handle.dims[0], 2));
  }
  return NULL;
}

weft_status_t *weft_infer_use_reader(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_inputs(c));
  return weft_infer_scalar(c);
}

weft_status_t *weft_infer_reader_records(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_inputs(c));
  return weft_infer_vector(c);
}
