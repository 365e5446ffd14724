/* tensor/shape.h - the shape of a value, or what is known of it. */
#ifndef WEFT_TENSOR_SHAPE_H_
#define WEFT_TENSOR_SHAPE_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

enum { WEFT_MAX_DIMS = 16, WEFT_UNKNOWN_DIM = -1 };

/* A plain value; copy it freely. A tensor's shape is fully known; a shape in an
 * attribute or in inference may have rank or single dims WEFT_UNKNOWN_DIM. */
typedef struct weft_shape {
  int rank; /* WEFT_UNKNOWN_DIM, or 0..WEFT_MAX_DIMS */
  int64_t dims[WEFT_MAX_DIMS];
} weft_shape_t;

#define WEFT_SCALAR ((weft_shape_t){.rank = 0})
#define WEFT_UNKNOWN_SHAPE ((weft_shape_t){.rank = WEFT_UNKNOWN_DIM})
static inline weft_shape_t weft_shape_vector(int64_t n) { return (weft_shape_t){.rank = 1, .dims = {n}}; }
static inline weft_shape_t weft_shape_matrix(int64_t m, int64_t n) {
  return (weft_shape_t){.rank = 2, .dims = {m, n}};
}

/* Errors: INVALID_ARGUMENT if rank is out of range, a dim is below 0 or the product overflows int64. */
WEFT_MUST_CHECK weft_status_t *weft_shape_make(const int64_t *dims, int rank, weft_shape_t *out);
bool weft_shape_is_known(const weft_shape_t *s); /* rank and every dim */
/* Product of the dims; 1 for a scalar; -1 if unknown or if it overflows. */
int64_t weft_shape_count(const weft_shape_t *s);
bool weft_shape_eq(const weft_shape_t *a, const weft_shape_t *b);         /* unknown equals unknown only */
bool weft_shape_compatible(const weft_shape_t *a, const weft_shape_t *b); /* could both describe one value? */
/* Adds what `also` says of the same value; false, and nothing is changed, if the two contradict each other.
 */
bool weft_shape_refine(weft_shape_t *s, const weft_shape_t *also);
/* "[2,3]", "[]", "[?,3]", "<unknown>", as TensorFlow prints shapes in its messages. `text` is borrowed and
 * returned. */
typedef struct weft_shape_text {
  char text[WEFT_MAX_DIMS * 21 + 16];
} weft_shape_text_t;
const char *weft_shape_print(const weft_shape_t *s, weft_shape_text_t *text);
#define WEFT_SHAPE_TEXT(s) weft_shape_print((s), &(weft_shape_text_t){{0}})

#endif /* WEFT_TENSOR_SHAPE_H_ */
