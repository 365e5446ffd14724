/* io/checkpoint_v1.h - TensorFlow's checkpoints, first format: one file, or several that a pattern matches.
 *
 * The file is a table. Its first value (key "") says which tensors there are, in
 * which slices; each slice has a value of its own under the key of
 * weft_tensor_slice_key(). New checkpoints are written in the second format
 * (io/bundle.h); this one is for graphs of 2015 and 2016.
 */
#ifndef WEFT_IO_CHECKPOINT_V1_H_
#define WEFT_IO_CHECKPOINT_V1_H_

#include "io/tensor_slice.h"

/* ---- writing; Confined ---- */
typedef struct weft_checkpoint_v1_writer weft_checkpoint_v1_writer_t;
/* Touches no file yet. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_v1_writer_create(weft_str_t path,
                                                                weft_checkpoint_v1_writer_t **out);
/* `t` (retained) is the part `slice` of a tensor of shape `full`. Of equal slices the first is kept.
 * Errors: UNIMPLEMENTED (the type), INVALID_ARGUMENT (too large), INTERNAL (shape or type differ from those
 * under which the name was added before), all as TensorFlow words them. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_v1_writer_add(weft_checkpoint_v1_writer_t *w, weft_str_t name,
                                                             const weft_shape_t *full,
                                                             const weft_tensor_slice_t *slice,
                                                             weft_tensor_t *t);
/* Writes the file. Consumes `w`; on failure no file is left. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_v1_writer_finish(weft_checkpoint_v1_writer_t *w);
void weft_checkpoint_v1_writer_abandon(weft_checkpoint_v1_writer_t *w); /* NULL is fine */

/* ---- reading; Confined ---- */
typedef struct weft_checkpoint_v1_reader weft_checkpoint_v1_reader_t;
/* Opens the file `preferred` of those that match `pattern`, in the order of their names, and the others when
 * something is not in it; all at once if `preferred` is negative or not below their number. Errors: NOT_FOUND
 * (nothing matches), DATA_LOSS and INTERNAL (a file that is damaged, or slices that overlap). */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_v1_reader_open(weft_str_t pattern, int64_t preferred,
                                                              weft_checkpoint_v1_reader_t **out);
void weft_checkpoint_v1_reader_close(weft_checkpoint_v1_reader_t *r); /* NULL is fine */
/* The names of tensors in the files opened so far, in no order: *at starts as 0. False at the end. The name
 * is lent until the reader is closed. */
bool weft_checkpoint_v1_reader_next(const weft_checkpoint_v1_reader_t *r, size_t *at, weft_str_t *out_name);
/* What is known of a tensor from the files opened so far; false: nothing. */
bool weft_checkpoint_v1_reader_lookup(const weft_checkpoint_v1_reader_t *r, weft_str_t name,
                                      weft_dtype_t *out_dtype, weft_shape_t *out_shape);
/* A new tensor: all of `name` if `spec` is empty, else the part that it names ("10 20 0,5:-").
 * Errors: NOT_FOUND, INVALID_ARGUMENT (another dtype or shape, or not all of it is there). */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_v1_reader_restore(weft_checkpoint_v1_reader_t *r,
                                                                 weft_str_t name, weft_str_t spec,
                                                                 weft_dtype_t dtype, weft_tensor_t **out);

/* Field numbers of saved_tensor_slice.proto, for both files. */
enum {
  WEFT_V1_META = 1,
  WEFT_V1_DATA = 2,
  WEFT_V1_META_TENSOR = 1,
  WEFT_V1_META_VERSIONS = 2,
  WEFT_V1_TENSOR_NAME = 1,
  WEFT_V1_TENSOR_SHAPE = 2,
  WEFT_V1_TENSOR_TYPE = 3,
  WEFT_V1_TENSOR_SLICE = 4,
  WEFT_V1_DATA_NAME = 1,
  WEFT_V1_DATA_SLICE = 2,
  WEFT_V1_DATA_VALUES = 3,
  WEFT_V1_VERSION_PRODUCER = 1,
  WEFT_V1_VERSION_MIN_CONSUMER = 2,
  WEFT_V1_VERSION_BAD_CONSUMERS = 3,
  WEFT_V1_VERSION = 1, /* the only one there has been */
};

#endif /* WEFT_IO_CHECKPOINT_V1_H_ */
