/* kernels/cpu/summary/summary_histogram.c - HistogramSummary. Field numbers are those of histogram.proto. */
#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/summary/summary_common.h"

enum {
  HISTO_MIN = 1,
  HISTO_MAX = 2,
  HISTO_NUM = 3,
  HISTO_SUM = 4,
  HISTO_SQUARES = 5,
  HISTO_LIMITS = 6,
  HISTO_BUCKETS = 7,
};

/* ---- histograms: buckets that grow by a tenth, the same on both sides of 0 ---- */

typedef struct histogram {
  double *limits, *counts; /* num of them */
  size_t num;
  double min, max, n, sum, squares;
} histogram_t;

static weft_status_t *histogram_init(histogram_t *h) {
  enum { MOST = 800 }; /* of each sign: log(1e32) / log(1.1) is 773 */
  double *positive = weft_calloc(MOST, sizeof *positive);
  size_t n = 0;
  *h = (histogram_t){.min = DBL_MAX, .max = -DBL_MAX};
  h->limits = weft_calloc(2 * MOST + 1, sizeof *h->limits);
  h->counts = weft_calloc(2 * MOST + 1, sizeof *h->counts);
  if (positive == NULL || h->limits == NULL || h->counts == NULL) {
    weft_free(positive);
    return WEFT_NO_MEMORY("making a histogram");
  }
  for (double v = 1.0e-12; v < 1.0e20 && n < MOST - 1; v *= 1.1) positive[n++] = v;
  positive[n++] = DBL_MAX;
  for (size_t i = n; i > 0; i--) h->limits[h->num++] = -positive[i - 1];
  h->limits[h->num++] = 0;
  for (size_t i = 0; i < n; i++) h->limits[h->num++] = positive[i];
  weft_free(positive);
  return NULL;
}

static void histogram_deinit(histogram_t *h) {
  weft_free(h->limits);
  weft_free(h->counts);
}

static void histogram_add(histogram_t *h, double v) {
  size_t low = 0, high = h->num - 1; /* the first limit above v; the last takes the rest */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (h->limits[middle] > v) high = middle;
    if (h->limits[middle] <= v) low = middle + 1;
  }
  h->counts[low]++;
  if (v < h->min) h->min = v;
  if (v > h->max) h->max = v;
  h->n++;
  h->sum += v;
  h->squares += v * v;
}

/* A run of empty buckets is written as one. */
static void histogram_put(const histogram_t *h, weft_strbuf_t *b) {
  weft_wire_put_double(b, HISTO_MIN, h->min);
  weft_wire_put_double(b, HISTO_MAX, h->max);
  weft_wire_put_double(b, HISTO_NUM, h->n);
  weft_wire_put_double(b, HISTO_SUM, h->sum);
  weft_wire_put_double(b, HISTO_SQUARES, h->squares);
  for (int pass = 0; pass < 2; pass++) {
    size_t mark = weft_wire_begin(b, pass == 0 ? HISTO_LIMITS : HISTO_BUCKETS);
    for (size_t i = 0; i < h->num; i++) {
      while (h->counts[i] <= 0 && i + 1 < h->num && h->counts[i + 1] <= 0) i++;
      uint8_t *to = weft_wire_room(b, 8);
      double value = pass == 0 ? h->limits[i] : h->counts[i];
      if (to != NULL) weft_wire_advance(b, weft_wire_store64(to, weft_wire_double_bits(value)));
    }
    weft_wire_end(b, mark);
  }
}

weft_status_t *weft_summary_put_histogram(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *values,
                                          weft_str_t what) {
  histogram_t h;
  weft_status_t *s = histogram_init(&h);
  for (int64_t i = 0; s == NULL && i < values->count; i++) {
    double v = weft_summary_number(values, i);
    if (isnan(v)) s = WEFT_ERROR(INVALID_ARGUMENT, "Nan in summary histogram for: %.*s", WEFT_STR_ARGS(what));
    if (isinf(v)) s = WEFT_ERROR(INVALID_ARGUMENT, "Infinity in Histogram for: %.*s", WEFT_STR_ARGS(what));
    if (s == NULL) histogram_add(&h, v);
  }
  if (s == NULL) {
    size_t value = weft_wire_begin(b, WEFT_SUMMARY_VALUE);
    weft_wire_put_bytes(b, WEFT_VALUE_TAG, tag);
    size_t histo = weft_wire_begin(b, WEFT_VALUE_HISTO);
    histogram_put(&h, b);
    weft_wire_end(b, histo);
    weft_wire_end(b, value);
  }
  histogram_deinit(&h);
  return s;
}

static weft_status_t *histogram_summary(weft_kernel_ctx_t *c) {
  weft_str_t tag = WEFT_STR("");
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_summary_tag(c, "tags must be scalar", &tag));
  return weft_summary_finish(c, weft_summary_put_histogram(&b, tag, weft_in(c, 1), c->node->name), &b);
}

const weft_kernel_t weft_cpu_summary_histogram_kernels[] = {
    {.op = "HistogramSummary", .type_attr = "T", .types = WEFT_SET_REAL, .compute = histogram_summary},
    {0},
};
