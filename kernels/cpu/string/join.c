/* kernels/cpu/string/join.c - strings put together: n-grams, and those of a segment. */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"

/* ---- StringNGrams ---- */

WEFT_ATTRS_STRUCT(ngram, (STRING, separator), (INTS, ngram_widths), (STRING, left_pad), (STRING, right_pad),
                  (INT, pad_width), (BOOL, preserve_short_sequences))

typedef struct ngram_run {
  const ngram_attrs_t *attrs;
  const weft_tensor_t *data, *splits;
  weft_tensor_t *ngrams, *ngram_splits;
} ngram_run_t;

/* Pads on each side: never so many that an n-gram had nothing else. */
static int64_t pads_of(const ngram_attrs_t *a, int64_t width) {
  return a->pad_width < 0 || a->pad_width > width - 1 ? width - 1 : a->pad_width;
}

static weft_status_t *count_row(const ngram_run_t *r, int64_t length, int64_t *total) {
  const weft_attr_t *widths = r->attrs->ngram_widths;
  int64_t n = 0;
  for (int k = 0; k < widths->n; k++) {
    int64_t width = widths->list.ints[k], more = length + 2 * pads_of(r->attrs, width) - width + 1;
    if (more > 0 && __builtin_add_overflow(n, more, &n))
      return WEFT_ERROR(INVALID_ARGUMENT, "too many n-grams");
  }
  if (n == 0 && length > 0 && r->attrs->preserve_short_sequences) {
    if (r->attrs->pad_width < 0) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not "
          "provided, got %" PRId64,
          r->attrs->pad_width);
    }
    n = 1;
  }
  if (__builtin_add_overflow(*total, n, total)) return WEFT_ERROR(INVALID_ARGUMENT, "too many n-grams");
  return NULL;
}

static weft_status_t *check_splits(const ngram_run_t *r) {
  int64_t n = r->splits->count, before = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t split = weft_cpu_int_at(r->splits, i);
    if (i == 0 && split != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "First split value must be 0, got %" PRId64, split);
    }
    if (split < before || split > r->data->count) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Invalid split value %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "]", split,
                        before, r->data->count);
    }
    before = split;
  }
  if (n > 0 && before != r->data->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Last split value must be data size. Expected %" PRId64 ", got %" PRId64,
                      r->data->count, before);
  }
  return NULL;
}

static void set_split(weft_tensor_t *t, int64_t i, int64_t value) {
  if (t->dtype == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)value;
  if (t->dtype == WEFT_I64) ((int64_t *)t->data)[i] = value;
}

/* Pads and tokens from `from` on, which counts from the first pad, with separators between them. */
static void put_ngram(const ngram_run_t *r, int64_t begin, int64_t length, int64_t pads, int64_t from,
                      int64_t width, weft_strbuf_t *text) {
  text->length = 0;
  for (int64_t k = from; k < from + width && !text->failed; k++) {
    if (k > from) weft_strbuf_append(text, r->attrs->separator);
    weft_strbuf_append(text, k < pads            ? r->attrs->left_pad
                             : k < pads + length ? weft_tensor_str_at(r->data, begin + k - pads)
                                                 : r->attrs->right_pad);
  }
}

static weft_status_t *ngram_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const ngram_run_t *r = arg;
  const weft_attr_t *widths = r->attrs->ngram_widths;
  int64_t begin = weft_cpu_int_at(r->splits, i), length = weft_cpu_int_at(r->splits, i + 1) - begin,
          first = weft_cpu_int_at(r->ngram_splits, i), at = first;
  for (int k = 0; k < widths->n; k++) {
    int64_t width = widths->list.ints[k], pads = pads_of(r->attrs, width), n = length + 2 * pads - width + 1;
    for (int64_t from = 0; from < n; from++) {
      put_ngram(r, begin, length, pads, from, width, text);
      WEFT_RETURN_IF_ERROR(weft_set_text(r->ngrams, at++, text));
    }
  }
  if (at > first || weft_cpu_int_at(r->ngram_splits, i + 1) == first) return NULL;
  int64_t pads = r->attrs->pad_width; /* a short sequence is one n-gram, with all its pads */
  put_ngram(r, begin, length, pads, 0, length + 2 * pads, text);
  return weft_set_text(r->ngrams, at, text);
}

static weft_status_t *put_splits(const ngram_run_t *r, int64_t *total) {
  for (int64_t i = 1; i < r->splits->count; i++) {
    int64_t length = weft_cpu_int_at(r->splits, i) - weft_cpu_int_at(r->splits, i - 1);
    WEFT_RETURN_IF_ERROR(count_row(r, length, total));
    if (r->splits->dtype == WEFT_I32 && *total > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " n-grams do not fit splits of int32", *total);
    }
    set_split(r->ngram_splits, i, *total);
  }
  return NULL;
}

WEFT_ATTRS_OF(string_ngrams, ngram)
static weft_status_t *string_ngrams(weft_kernel_ctx_t *c, const ngram_attrs_t *attrs) {
  ngram_run_t r = {.attrs = attrs, .data = weft_in(c, 0), .splits = weft_in(c, 1)};
  int64_t total = 0;
  if (r.data->shape.rank != 1 || r.splits->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "data and data_splits must be vectors, got shapes %s and %s",
                      WEFT_SHAPE_TEXT(&r.data->shape), WEFT_SHAPE_TEXT(&r.splits->shape));
  }
  WEFT_RETURN_IF_ERROR(check_splits(&r));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, r.splits->dtype, &r.splits->shape, &r.ngram_splits));
  weft_cpu_zero(r.ngram_splits);
  if (r.splits->count == 0 || r.data->count == 0) { /* no rows or no data: as many empty strings */
    return weft_out_new(c, 0, WEFT_STRING, &r.data->shape, &r.ngrams);
  }
  WEFT_RETURN_IF_ERROR(put_splits(&r, &total));
  weft_shape_t shape = weft_shape_vector(total);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &shape, &r.ngrams));
  return weft_each_row(c, r.splits->count - 1, 64, ngram_row, &r);
}

static weft_status_t *ngrams_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *widths = weft_knode_attr(setup, "ngram_widths");
  for (int k = 0; widths != NULL && k < widths->n; k++) {
    if (widths->list.ints[k] <= 0 || widths->list.ints[k] > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT, "ngram_widths must contain positive values");
    }
  }
  if (weft_knode_int(setup, "pad_width") > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "pad_width is too large");
  }
  return weft_attrs_prepare(setup, out_state);
}

/* ---- UnsortedSegmentJoin ---- */

typedef struct segment_join {
  weft_str_t separator;
  const weft_tensor_t *in, *ids;
  weft_tensor_t *out;
  int64_t width;           /* elements behind an id */
  int64_t *rows, *offsets; /* the ids' positions by segment, as a counting sort has them */
} segment_join_t;

static weft_status_t *join_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const segment_join_t *j = arg;
  int64_t segment = i / j->width, column = i % j->width;
  for (int64_t k = j->offsets[segment]; k < j->offsets[segment + 1]; k++) {
    if (text->length > 0) weft_strbuf_append(text, j->separator); /* none behind leading empty strings */
    weft_strbuf_append(text, weft_tensor_str_at(j->in, j->rows[k] * j->width + column));
  }
  return weft_set_text(j->out, i, text);
}

static weft_status_t *join_check(const weft_tensor_t *in, const weft_tensor_t *ids,
                                 const weft_tensor_t *num) {
  if (num->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "Number of segments must be a scalar");
  if (weft_cpu_int_at(num, 0) < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of segments must be non-negative but got %" PRId64,
                      weft_cpu_int_at(num, 0));
  }
  if (ids->shape.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Segment_id cannot have rank 0");
  bool is_prefix = ids->shape.rank <= in->shape.rank;
  for (int d = 0; is_prefix && d < ids->shape.rank; d++) is_prefix = ids->shape.dims[d] == in->shape.dims[d];
  if (!is_prefix) {
    return WEFT_ERROR(INVALID_ARGUMENT, "segment_ids' shape %s must be a prefix of the input's, %s",
                      WEFT_SHAPE_TEXT(&ids->shape), WEFT_SHAPE_TEXT(&in->shape));
  }
  for (int64_t i = 0; i < ids->count; i++) {
    int64_t id = weft_cpu_int_at(ids, i);
    if (id < 0 || id >= weft_cpu_int_at(num, 0)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "segment_ids are not allowed to exceed num_segments or to have negative values.");
    }
  }
  return NULL;
}

static weft_status_t *sort_by_segment(segment_join_t *j, int64_t num) {
  j->offsets = weft_calloc((size_t)num + 2, sizeof *j->offsets);
  j->rows = weft_calloc((size_t)j->ids->count + 1, sizeof *j->rows);
  if (j->offsets == NULL || j->rows == NULL) return WEFT_NO_MEMORY("%" PRId64 " segments", num);
  for (int64_t i = 0; i < j->ids->count; i++) j->offsets[weft_cpu_int_at(j->ids, i) + 2]++;
  for (int64_t k = 2; k < num + 2; k++) j->offsets[k] += j->offsets[k - 1];
  for (int64_t i = 0; i < j->ids->count; i++) j->rows[j->offsets[weft_cpu_int_at(j->ids, i) + 1]++] = i;
  return NULL;
}

WEFT_ATTRS(segment_join, (STRING, separator))
static weft_status_t *segment_join(weft_kernel_ctx_t *c, const segment_join_attrs_t *attrs) {
  segment_join_t j = {.separator = attrs->separator, .in = weft_in(c, 0), .ids = weft_in(c, 1)};
  int64_t dims[WEFT_MAX_DIMS + 1];
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(join_check(j.in, j.ids, weft_in(c, 2)));
  int rank = j.in->shape.rank - j.ids->shape.rank;
  dims[0] = weft_cpu_int_at(weft_in(c, 2), 0);
  memcpy(dims + 1, j.in->shape.dims + j.ids->shape.rank, (size_t)rank * sizeof *dims);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank + 1, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &shape, &j.out));
  if (j.out->count == 0) return NULL;
  j.width = j.out->count / dims[0];
  weft_status_t *s = sort_by_segment(&j, dims[0]);
  if (s == NULL) s = weft_each_row(c, j.out->count, 256, join_row, &j);
  weft_free(j.offsets);
  weft_free(j.rows);
  return s;
}

const weft_kernel_t weft_cpu_string_join_kernels[] = {
    {.op = "StringNGrams", WEFT_COMPUTE_CHECKED(string_ngrams, ngrams_prepare)},
    {.op = "UnsortedSegmentJoin", WEFT_COMPUTE(segment_join)},
    {0},
};
