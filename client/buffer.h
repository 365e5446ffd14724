/* client/buffer.h - filling a caller's TF_Buffer. */
#ifndef WEFT_CLIENT_BUFFER_H_
#define WEFT_CLIENT_BUFFER_H_

#include "base/str.h"
#include "tensorflow/c/tf_buffer.h"

static inline weft_str_t weft_client_bytes(const TF_Buffer *b) { return weft_str_of(b->data, b->length); }
/* Moves the text into *out, which must be empty. Errors: INVALID_ARGUMENT if it is not; RESOURCE_EXHAUSTED if
 * an append had failed. `from` is empty afterwards in every case. */
WEFT_MUST_CHECK weft_status_t *weft_client_fill(TF_Buffer *out, weft_strbuf_t *from);
/* A new buffer with the text; NULL and *status set on failure. */
WEFT_MUST_CHECK weft_status_t *weft_client_new_buffer(weft_strbuf_t *from, TF_Buffer **out);

#endif /* WEFT_CLIENT_BUFFER_H_ */
