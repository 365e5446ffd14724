/* tensor/shape.c - arithmetic on shapes. */
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>

weft_status_t *weft_shape_make(const int64_t *dims, int rank, weft_shape_t *out) {
  if (rank < 0 || rank > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a shape has %d dimensions; at most %d are supported", rank,
                      WEFT_MAX_DIMS);
  }
  weft_shape_t s = {.rank = rank};
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= 0", dims[i]);
    s.dims[i] = dims[i];
    /* A zero dim makes the product zero, but the others must not overflow either. */
    if (__builtin_mul_overflow(count, dims[i] > 0 ? dims[i] : 1, &count)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape would have more than 2**63 - 1 elements");
    }
  }
  *out = s;
  return NULL;
}

bool weft_shape_is_known(const weft_shape_t *s) {
  if (s->rank < 0) return false;
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < 0) return false;
  }
  return true;
}

int64_t weft_shape_count(const weft_shape_t *s) {
  int64_t count = 1;
  if (s->rank < 0) return -1;
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] < 0 || __builtin_mul_overflow(count, s->dims[i], &count)) return -1;
  }
  return count;
}

bool weft_shape_eq(const weft_shape_t *a, const weft_shape_t *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

bool weft_shape_compatible(const weft_shape_t *a, const weft_shape_t *b) {
  if (a->rank < 0 || b->rank < 0) return true;
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

bool weft_shape_refine(weft_shape_t *s, const weft_shape_t *also) {
  if (!weft_shape_compatible(s, also)) return false;
  if (s->rank < 0) *s = *also;
  for (int i = 0; i < also->rank; i++) {
    if (s->dims[i] < 0) s->dims[i] = also->dims[i];
  }
  return true;
}

const char *weft_shape_print(const weft_shape_t *s, weft_shape_text_t *text) {
  char *p = text->text, *end = p + sizeof text->text;
  if (s->rank < 0) return "<unknown>";
  p += snprintf(p, (size_t)(end - p), "[");
  for (int i = 0; i < s->rank && i < WEFT_MAX_DIMS; i++) {
    const char *comma = i > 0 ? "," : "";
    if (s->dims[i] < 0) {
      p += snprintf(p, (size_t)(end - p), "%s?", comma);
    } else {
      p += snprintf(p, (size_t)(end - p), "%s%" PRId64, comma, s->dims[i]);
    }
  }
  snprintf(p, (size_t)(end - p), "]");
  return text->text;
}
