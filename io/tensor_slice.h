/* io/tensor_slice.h - a box in a tensor: how both checkpoint formats store a tensor in parts. */
#ifndef WEFT_IO_TENSOR_SLICE_H_
#define WEFT_IO_TENSOR_SLICE_H_

#include "base/status.h"
#include "base/str.h"
#include "tensor/tensor.h"

typedef struct weft_tensor_slice {
  int rank;
  int64_t start[WEFT_MAX_DIMS], length[WEFT_MAX_DIMS];
  bool is_full[WEFT_MAX_DIMS]; /* the whole dimension, whatever its size: "-". Then length is that size */
} weft_tensor_slice_t;

weft_tensor_slice_t weft_tensor_slice_whole(const weft_shape_t *shape);
/* "10 20 0,5:-": a tensor's shape and a slice of it, which has the shape *out_shape.
 * Errors: INVALID_ARGUMENT and INTERNAL (the slice does not fit) in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_slice_parse(weft_str_t text, weft_shape_t *out_full,
                                                       weft_tensor_slice_t *out_slice,
                                                       weft_shape_t *out_shape);
/* "0,5:-". */
void weft_tensor_slice_print(const weft_tensor_slice_t *slice, weft_strbuf_t *out);

/* What both have in common, if anything, goes to *out (may be NULL). */
bool weft_tensor_slice_intersect(const weft_tensor_slice_t *a, const weft_tensor_slice_t *b,
                                 weft_tensor_slice_t *out);
/* Copies what `from` (at `from_at` in the whole) and `to` have in common; adds the number of
 * elements to *inout_n. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_slice_copy(weft_tensor_t *to, const weft_tensor_slice_t *to_at,
                                                      const weft_tensor_t *from,
                                                      const weft_tensor_slice_t *from_at, int64_t *inout_n);

/* ---- stored: TensorSliceProto, and keys of tables ---- */
/* Appends the message as field `number`. */
void weft_tensor_slice_put(const weft_tensor_slice_t *slice, uint32_t number, weft_strbuf_t *out);
/* A message's bytes as a slice of a tensor of shape `full`; false if they are bad or do not fit. */
bool weft_tensor_slice_get(weft_str_t bytes, const weft_shape_t *full, weft_tensor_slice_t *out);
/* The key of a slice's own entry: bytes in the order of name, rank, starts and lengths. */
void weft_tensor_slice_key(weft_str_t name, const weft_tensor_slice_t *slice, weft_strbuf_t *out);

#endif /* WEFT_IO_TENSOR_SLICE_H_ */
