/* io/source.h - a checkpoint to read from, in either of TensorFlow's formats.
 *
 * The second format has an index, PREFIX.index; of the first one PREFIX is the file itself, or the beginning
 * of the names of several, PREFIX-00000-of-00002.
 */
#ifndef WEFT_IO_SOURCE_H_
#define WEFT_IO_SOURCE_H_

#include "io/bundle.h"

typedef struct weft_source weft_source_t; /* Confined. */

/* Is there a checkpoint of either format? */
bool weft_source_exists(weft_str_t prefix);
/* Errors: NOT_FOUND; DATA_LOSS, INTERNAL (damaged); those of the file. */
WEFT_MUST_CHECK weft_status_t *weft_source_open(weft_str_t prefix, weft_source_t **out);
void weft_source_close(weft_source_t *s); /* NULL is fine */
/* The names of tensors, each once: *at starts as 0. False at the end. The name is lent until the source is
 * closed. */
bool weft_source_next(const weft_source_t *s, size_t *at, weft_str_t *out_name);
bool weft_source_lookup(const weft_source_t *s, weft_str_t name, weft_dtype_t *out_dtype,
                        weft_shape_t *out_shape);
/* A new tensor: `at` of the tensor of that name, or all of it if NULL. Errors: DATA_LOSS and others where it
 * is damaged. */
WEFT_MUST_CHECK weft_status_t *weft_source_read(weft_source_t *s, weft_str_t name,
                                                const weft_tensor_slice_t *at, weft_tensor_t **out);

#endif /* WEFT_IO_SOURCE_H_ */
