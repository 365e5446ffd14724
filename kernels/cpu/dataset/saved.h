/* kernels/cpu/dataset/saved.h - where a pass through a data set stands, as bytes: what iterators write, one
 * after the other, and read back in the same order.
 *
 * The bytes: a format number, then values, each with a letter in front that says its kind: 'i' and eight
 * bytes, 's' and a length and bytes, 't' and a TensorProto as a string. Whatever was changed on the way ends
 * in DATA_LOSS. */
#ifndef WEFT_KERNELS_CPU_DATASET_SAVED_H_
#define WEFT_KERNELS_CPU_DATASET_SAVED_H_

#include "kernels/cpu/dataset/dataset.h"

/* Thread-compatible. */
struct weft_saved {
  weft_strbuf_t bytes;   /* being written */
  bool refuses_state;    /* FAILED_PRECONDITION for a function whose state the bytes do not have */
  weft_str_t rest;       /* still to be read; lent */
  weft_device_t *device; /* of data sets that are read back */
  int depth;             /* of such data sets in each other */
};

void weft_saved_begin(weft_saved_t *s);
void weft_saved_deinit(weft_saved_t *s);
/* For reading; `bytes` is lent. Errors: DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_saved_open(weft_saved_t *s, weft_str_t bytes, weft_device_t *device);
/* DATA_LOSS: the state was damaged on the way. */
WEFT_MUST_CHECK weft_status_t *weft_saved_broken(const char *why);

/* What fails for want of memory fails in weft_saved_end. */
void weft_saved_put_int(weft_saved_t *s, int64_t v);
void weft_saved_put_string(weft_saved_t *s, weft_str_t v);
/* Errors: UNIMPLEMENTED: a variant that has no bytes, such as a data set. */
WEFT_MUST_CHECK weft_status_t *weft_saved_put_tensor(weft_saved_t *s, const weft_tensor_t *t);
void weft_saved_put_status(weft_saved_t *s, const weft_status_t *status);
WEFT_MUST_CHECK weft_status_t *weft_saved_end(const weft_saved_t *s);

/* Errors: DATA_LOSS, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_saved_get_int(weft_saved_t *s, int64_t *out);
/* An int from `min` to `max`. */
WEFT_MUST_CHECK weft_status_t *weft_saved_get_int_in(weft_saved_t *s, int64_t min, int64_t max, int64_t *out);
WEFT_MUST_CHECK weft_status_t *weft_saved_get_string(weft_saved_t *s, weft_str_t *out); /* lent */
WEFT_MUST_CHECK weft_status_t *weft_saved_get_tensor(weft_saved_t *s, weft_tensor_t **out);
WEFT_MUST_CHECK weft_status_t *weft_saved_get_status(weft_saved_t *s, weft_status_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_SAVED_H_ */
