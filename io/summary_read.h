/* io/summary_read.h - what a Summary has, value by value:
 *
 *   weft_wire_reader_t r = weft_wire_reader(bytes);     // of which weft_summary_has_values holds
 *   weft_summary_value_t v;
 *   while (weft_summary_next(&r, &v)) ...
 */
#ifndef WEFT_IO_SUMMARY_READ_H_
#define WEFT_IO_SUMMARY_READ_H_

#include "base/str.h"
#include "protos/wire.h"
#include "tensor/shape.h"

typedef enum weft_summary_kind {
  WEFT_SUMMARY_SCALAR,
  WEFT_SUMMARY_HISTOGRAM,
  WEFT_SUMMARY_IMAGE,
  WEFT_SUMMARY_AUDIO,
  WEFT_SUMMARY_TENSOR,
  WEFT_SUMMARY_TEXT, /* a tensor that is one string, for the page of texts */
  WEFT_SUMMARY_OTHER
} weft_summary_kind_t;

typedef struct weft_summary_value { /* Texts are lent as long as the bytes. */
  weft_str_t tag;
  weft_summary_kind_t kind;
  float scalar;
  double count, min, max; /* of a histogram */
  int32_t height, width;  /* of an image */
  double seconds;         /* of a sound; 0: not known */
  int dtype;              /* of a tensor */
  weft_shape_t shape;     /* of a tensor; rank 0 also if it is not known */
  weft_str_t text;        /* of a text */
} weft_summary_value_t;

/* "scalar", "histogram", ... */
const char *weft_summary_kind_name(weft_summary_kind_t kind);
/* False at the end. Thread-compatible. */
bool weft_summary_next(weft_wire_reader_t *r, weft_summary_value_t *out);

#endif /* WEFT_IO_SUMMARY_READ_H_ */
