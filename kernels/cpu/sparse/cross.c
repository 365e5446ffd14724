/* kernels/cpu/sparse/cross.c - crosses of features; see the header. */
#include "kernels/cpu/sparse/cross.h"

#include <inttypes.h>

#include "kernels/cpu/loops/fingerprint.h"

enum { HASHED_BYTES = 4 }; /* of an integer: TensorFlow takes the size of its dtype's number */

weft_status_t *weft_cross_init(weft_cross_t *c, int num_columns) {
  *c = (weft_cross_t){.num_columns = num_columns};
  c->columns = weft_calloc((size_t)num_columns + 1, sizeof *c->columns);
  c->picks = weft_calloc((size_t)num_columns + 1, sizeof *c->picks);
  return c->columns == NULL || c->picks == NULL ? WEFT_NO_MEMORY("a cross of %d columns", num_columns) : NULL;
}

void weft_cross_deinit(weft_cross_t *c) {
  weft_free(c->columns);
  weft_free(c->picks);
  *c = (weft_cross_t){0};
}

/* ---- rows ---- */

void weft_cross_rewind(weft_cross_t *c) {
  for (int i = 0; i < c->num_columns; i++) c->columns[i].begin = c->columns[i].count = 0;
}

static void next_row(weft_cross_column_t *column, int64_t b) {
  int64_t end = column->begin + column->count, n = column->values->count;
  switch (column->by) {
    case WEFT_CROSS_DENSE:
      column->count = column->values->shape.dims[1];
      column->begin = b * column->count;
      return;
    case WEFT_CROSS_RAGGED:
      column->begin = weft_cpu_int_at(column->places, b);
      column->count = weft_cpu_int_at(column->places, b + 1) - column->begin;
      return;
    case WEFT_CROSS_SPARSE:
    case WEFT_CROSS_SPARSE_UP_TO: break;
  }
  const int64_t *indices = column->places->data; /* [n, 2] */
  bool up_to = column->by == WEFT_CROSS_SPARSE_UP_TO;
  column->begin = end;
  while (end < n && (indices[2 * end] == b || (up_to && indices[2 * end] < b))) end++;
  column->count = end - column->begin;
}

weft_status_t *weft_cross_next_row(weft_cross_t *c, int64_t b, int64_t *out) {
  int64_t n = 1;
  bool is_empty = false;
  for (int i = 0; i < c->num_columns; i++) {
    next_row(&c->columns[i], b);
    is_empty = is_empty || c->columns[i].count <= 0;
  }
  for (int i = 0; i < c->num_columns && !is_empty; i++) {
    if (!weft_cpu_mul(n, c->columns[i].count, &n))
      return WEFT_ERROR(INVALID_ARGUMENT, "too many crosses in row %" PRId64, b);
  }
  *out = is_empty ? 0 : n;
  return NULL;
}

/* ---- features ---- */

static int64_t int_of(const weft_cross_column_t *column, int64_t i) {
  return ((const int64_t *)column->values->data)[i];
}

static uint64_t number_of(const weft_cross_t *c, const weft_cross_column_t *column, int64_t i) {
  weft_str_t text;
  int64_t v = 0;
  if (column->values->dtype == WEFT_STRING) {
    text = weft_tensor_str_at(column->values, i);
  } else {
    v = int_of(column, i);
    text = weft_str_of((const char *)&v, HASHED_BYTES);
    bool is_own =
        c->hash == WEFT_CROSS_PLAIN || (c->hash == WEFT_CROSS_WEAK && column->by == WEFT_CROSS_DENSE);
    if (is_own) return (uint64_t)v;
  }
  return c->hash == WEFT_CROSS_STRONG ? weft_siphash64(c->key, text) : weft_fingerprint64(text);
}

static int64_t hash_picked(const weft_cross_t *c) {
  uint64_t hash = c->seed;
  for (int i = 0; i < c->num_columns; i++) {
    uint64_t number = number_of(c, &c->columns[i], c->columns[i].begin + c->picks[i]);
    hash = i == 0 && !c->has_seed ? number : weft_fingerprint_join(hash, number);
  }
  return (int64_t)(hash % (c->buckets > 0 ? (uint64_t)c->buckets : (uint64_t)INT64_MAX));
}

static void join_picked(const weft_cross_t *c, weft_strbuf_t *out) {
  for (int i = 0; i < c->num_columns; i++) {
    const weft_cross_column_t *column = &c->columns[i];
    int64_t k = column->begin + c->picks[i];
    if (i > 0) weft_strbuf_append(out, c->separator);
    if (column->values->dtype == WEFT_STRING) {
      weft_strbuf_append(out, weft_tensor_str_at(column->values, k));
    } else {
      weft_strbuf_printf(out, "%" PRId64, int_of(column, k));
    }
  }
}

static weft_status_t *put_text(const weft_cross_t *c, weft_tensor_t *out, int64_t at) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  join_picked(c, &text);
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("a cross of texts")
                                 : weft_tensor_set_str(out, at, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return s;
}

weft_status_t *weft_cross_put(weft_cross_t *c, int64_t n, weft_tensor_t *out, int64_t at) {
  for (int i = 0; i < c->num_columns; i++) c->picks[i] = 0;
  for (int64_t k = 0; k < n; k++) {
    if (out->dtype == WEFT_STRING) {
      WEFT_RETURN_IF_ERROR(put_text(c, out, at + k));
    } else {
      ((int64_t *)out->data)[at + k] = hash_picked(c);
    }
    for (int i = c->num_columns - 1; i >= 0 && ++c->picks[i] == c->columns[i].count; i--) c->picks[i] = 0;
  }
  return NULL;
}
