/* kernels/cpu/parsing/feature.h - the features of a serialized Example, read in place.
 *
 * What is accepted is what TensorFlow's own reader accepts, which is not quite what protobuf does: a length
 * that reaches beyond the end of its message is cut there, unknown fields are skipped in the outermost
 * message only, and a list has its values packed or one by one, not mixed.
 */
#ifndef WEFT_KERNELS_CPU_PARSING_FEATURE_H_
#define WEFT_KERNELS_CPU_PARSING_FEATURE_H_

#include "tensor/tensor.h"

/* What is still to be read of a message. Lent bytes. */
typedef struct weft_example_cursor {
  const uint8_t *p, *end;
} weft_example_cursor_t;

static inline weft_example_cursor_t weft_example_cursor(weft_str_t bytes) {
  const uint8_t *p = (const uint8_t *)bytes.data;
  return (weft_example_cursor_t){p, bytes.length == 0 ? p : p + bytes.length};
}
/* One tag, which must be `tag`. */
bool weft_example_expect(weft_example_cursor_t *c, uint8_t tag);
/* The low 32 bits of a varint. */
bool weft_example_varint(weft_example_cursor_t *c, uint32_t *out);
/* Reads a length; *out is that many bytes, or as many as there are. The bytes are not skipped: the caller
 * goes on where its reading of *out ends. */
bool weft_example_limit(weft_example_cursor_t *c, weft_example_cursor_t *out);
/* A length and as many bytes, which must be there; skips them. */
bool weft_example_bytes(weft_example_cursor_t *c, weft_str_t *out);
/* Skips the value of a field whose tag was read. False for groups and for what is cut off. */
bool weft_example_skip(weft_example_cursor_t *c, uint32_t tag);

/* One entry of a map of features, its feature not yet read. */
typedef struct weft_feature_entry {
  weft_str_t key, feature;
} weft_feature_entry_t;

/* Begins as {0}. Confined. */
typedef struct weft_feature_entries {
  weft_feature_entry_t *entries; /* owned */
  int64_t n, capacity;
} weft_feature_entries_t;
void weft_feature_entries_deinit(weft_feature_entries_t *e);

/* Replaces the entries by those of a serialized Example, in its order; keys may be there more than once.
 * Errors: INVALID_ARGUMENT with the bytes for anything malformed; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_example_read(weft_str_t bytes, weft_feature_entries_t *out);

/* A growing list of values of one type. Texts are lent by the bytes they were read from. Begins with a dtype
 * of WEFT_I64, WEFT_F32 or WEFT_STRING and all else zero. Confined. */
typedef struct weft_feature_values {
  weft_dtype_t dtype;
  int64_t n, capacity;
  union {
    void *data; /* owned */
    int64_t *ints;
    float *floats;
    weft_str_t *texts;
  };
} weft_feature_values_t;
void weft_feature_values_deinit(weft_feature_values_t *v);

/* The dtype of a feature's list; 0: it holds none. *rest is what follows the tag.
 * Errors: INVALID_ARGUMENT: there is no such kind of list. */
WEFT_MUST_CHECK weft_status_t *weft_feature_dtype(weft_str_t feature, int *out_dtype, weft_str_t *rest);
/* Appends the values of a list of the dtype in `out`. False with *out_status NULL: malformed. */
bool weft_feature_read(weft_str_t rest, weft_feature_values_t *out, weft_status_t **out_status);
/* Copies values[from..from+n) to elements at..at+n of `t`. */
WEFT_MUST_CHECK weft_status_t *weft_feature_copy(const weft_feature_values_t *v, int64_t from, int64_t n,
                                                 weft_tensor_t *t, int64_t at);

#endif /* WEFT_KERNELS_CPU_PARSING_FEATURE_H_ */
