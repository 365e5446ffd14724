/* kernels/cpu/array/strided_slice.h - what a StridedSlice's masks and bounds mean for a tensor of a known
 * shape. */
#ifndef WEFT_KERNELS_CPU_ARRAY_STRIDED_SLICE_H_
#define WEFT_KERNELS_CPU_ARRAY_STRIDED_SLICE_H_

#include "kernels/cpu/loops/move.h"

WEFT_ATTRS_STRUCT(weft_slice, (INT, begin_mask), (INT, end_mask), (INT, ellipsis_mask), (INT, new_axis_mask),
                  (INT, shrink_axis_mask))

/* One entry per dimension of the input. */
typedef struct weft_slice {
  int64_t begin[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
  weft_shape_t full;  /* result with every input dimension kept: size[] */
  weft_shape_t final; /* result with axes inserted and dropped */
} weft_slice_t;

/* begin, end, strides: vectors of one integer type and length.
 * Errors: INVALID_ARGUMENT as TensorFlow words it. */
WEFT_MUST_CHECK weft_status_t *weft_slice_decode(const weft_shape_t *input, const weft_tensor_t *begin,
                                                 const weft_tensor_t *end, const weft_tensor_t *strides,
                                                 const weft_slice_attrs_t *masks, weft_slice_t *out);
/* Input positions as the source (to_input false) or as the target of a copy; the other side is dense. */
void weft_slice_move(const weft_slice_t *s, const weft_shape_t *input, bool to_input, weft_move_t *out);

/* *out is `value` broadcast to the shape of the slice, for the caller to release: `value` itself where it has
 * that shape, or where the slice is empty, which takes any value. Errors: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_slice_value(const weft_slice_t *s, weft_allocator_t *allocator,
                                                weft_tensor_t *value, weft_tensor_t **out);

#endif /* WEFT_KERNELS_CPU_ARRAY_STRIDED_SLICE_H_ */
