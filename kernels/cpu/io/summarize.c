/* kernels/cpu/io/summarize.c - a tensor's values as text. */
#include "kernels/cpu/io/summarize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* As few digits as give the same number again: 6 or 9 of a float, 15 or 17 of a double. */
static void put_float(float x, weft_strbuf_t *out) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", (double)x);
  if (isnan(x)) {
    snprintf(text, sizeof text, "nan");
  } else if (strtof(text, NULL) != x) {
    snprintf(text, sizeof text, "%.9g", (double)x);
  }
  weft_strbuf_puts(out, text);
}

static void put_double(double x, weft_strbuf_t *out) {
  char text[32];
  snprintf(text, sizeof text, "%.15g", x);
  if (isnan(x)) {
    snprintf(text, sizeof text, "nan");
  } else if (strtod(text, NULL) != x) {
    snprintf(text, sizeof text, "%.17g", x);
  }
  weft_strbuf_puts(out, text);
}

static void put_complex(double re, double im, bool is_single, weft_strbuf_t *out) {
  weft_strbuf_putc(out, '(');
  if (is_single) put_float((float)re, out);
  if (!is_single) put_double(re, out);
  weft_strbuf_putc(out, ',');
  if (is_single) put_float((float)im, out);
  if (!is_single) put_double(im, out);
  weft_strbuf_putc(out, ')');
}

/* Escaped, but for the bytes of UTF-8. */
static void put_text(weft_str_t s, weft_strbuf_t *out) {
  for (size_t i = 0; i < s.length; i++) {
    bool is_wide = (unsigned char)s.data[i] >= 0x80;
    if (is_wide) weft_strbuf_putc(out, s.data[i]);
    if (!is_wide) weft_strbuf_put_escaped(out, weft_str_of(s.data + i, 1));
  }
}

static void put_one(const weft_tensor_t *t, int64_t i, bool quotes, weft_strbuf_t *out) {
  const void *d = t->data;
  switch (t->dtype) {
    case WEFT_F32: put_float(((const float *)d)[i], out); break;
    case WEFT_F64: put_double(((const double *)d)[i], out); break;
    case WEFT_F16: put_float(weft_f16_to_f32(((const uint16_t *)d)[i]), out); break;
    case WEFT_BF16: put_float(weft_bf16_to_f32(((const uint16_t *)d)[i]), out); break;
    case WEFT_I8:
    case WEFT_QINT8: weft_strbuf_printf(out, "%d", ((const int8_t *)d)[i]); break;
    case WEFT_U8:
    case WEFT_QUINT8:
    case WEFT_BOOL: weft_strbuf_printf(out, "%d", ((const uint8_t *)d)[i]); break;
    case WEFT_I16:
    case WEFT_QINT16: weft_strbuf_printf(out, "%d", ((const int16_t *)d)[i]); break;
    case WEFT_U16:
    case WEFT_QUINT16: weft_strbuf_printf(out, "%d", ((const uint16_t *)d)[i]); break;
    case WEFT_I32:
    case WEFT_QINT32: weft_strbuf_printf(out, "%" PRId32, ((const int32_t *)d)[i]); break;
    case WEFT_U32: weft_strbuf_printf(out, "%" PRIu32, ((const uint32_t *)d)[i]); break;
    case WEFT_I64: weft_strbuf_printf(out, "%" PRId64, ((const int64_t *)d)[i]); break;
    case WEFT_U64: weft_strbuf_printf(out, "%" PRIu64, ((const uint64_t *)d)[i]); break;
    case WEFT_C64:
      put_complex((double)((const weft_c64_t *)d)[i].re, (double)((const weft_c64_t *)d)[i].im, true, out);
      break;
    case WEFT_C128:
      put_complex(((const weft_c128_t *)d)[i].re, ((const weft_c128_t *)d)[i].im, false, out);
      break;
    case WEFT_STRING:
      if (quotes) weft_strbuf_putc(out, '"');
      put_text(weft_tensor_str_at(t, i), out);
      if (quotes) weft_strbuf_putc(out, '"');
      break;
    case WEFT_RESOURCE: weft_strbuf_puts(out, "<Resource>"); break;
    case WEFT_VARIANT: weft_strbuf_puts(out, "<Variant>"); break;
    default: weft_strbuf_puts(out, "?"); break;
  }
}

/* ---- the first values ---- */

typedef struct summary_walk {
  const weft_tensor_t *t;
  int64_t at, limit;
  weft_strbuf_t *out;
} summary_walk_t;

static void put_row(summary_walk_t *w, int dim) {
  int64_t n = w->t->shape.dims[dim];
  for (int64_t i = 0; i < n; i++) {
    if (w->at >= w->limit) {
      if (dim != 0) weft_strbuf_puts(w->out, "...");
      return;
    }
    if (i > 0) weft_strbuf_putc(w->out, ' ');
    put_one(w->t, w->at++, false, w->out);
  }
}

static void put_dim(summary_walk_t *w, int dim) {
  if (w->at >= w->limit) return;
  if (dim == w->t->shape.rank - 1) {
    put_row(w, dim);
    return;
  }
  for (int64_t i = 0; i < w->t->shape.dims[dim]; i++) {
    bool is_open = w->at < w->limit;
    if (!is_open) return; /* nothing more will be printed */
    weft_strbuf_putc(w->out, '[');
    put_dim(w, dim + 1);
    weft_strbuf_putc(w->out, ']');
  }
}

void weft_summarize(const weft_tensor_t *t, int64_t max, weft_strbuf_t *out) {
  int64_t limit = max < 0 || max > t->count ? t->count : max;
  summary_walk_t w = {t, 0, limit, out};
  if (t->shape.rank == 0) {
    if (limit > 0) put_one(t, 0, false, out);
  } else {
    put_dim(&w, 0);
  }
  if (t->count > limit) weft_strbuf_puts(out, "...");
}

/* ---- the first and last of each dimension ---- */

static void space(int dim, int rank, weft_strbuf_t *out) {
  if (dim == rank - 1) {
    weft_strbuf_putc(out, ' ');
    return;
  }
  for (int i = 0; i < rank - dim - 1; i++) weft_strbuf_putc(out, '\n');
  for (int i = 0; i <= dim; i++) weft_strbuf_putc(out, ' ');
}

static void put_dim_v2(const weft_tensor_t *t, int64_t ends, int dim, int64_t at, weft_strbuf_t *out) {
  int rank = t->shape.rank;
  if (dim == rank) {
    put_one(t, at, true, out);
    return;
  }
  int64_t n = t->shape.dims[dim], step = 1;
  for (int d = dim + 1; d < rank; d++) step *= t->shape.dims[d];
  bool is_cut = ends >= 0 && n > 2 * ends, has_any = false;
  weft_strbuf_putc(out, '[');
  for (int64_t i = 0; i < n; i++) {
    bool is_gap = is_cut && i == ends;
    if (has_any || is_gap) space(dim, rank, out);
    has_any = true;
    if (is_gap) {
      weft_strbuf_puts(out, "...");
      i = n - ends - 1; /* on with the last ones */
      continue;
    }
    put_dim_v2(t, ends, dim + 1, at + i * step, out);
  }
  weft_strbuf_putc(out, ']');
}

void weft_summarize_v2(const weft_tensor_t *t, int64_t ends, weft_strbuf_t *out) {
  if (t->count == 0) ends = 0; /* as TensorFlow: no more than there are elements */
  if (ends == 0 && t->shape.rank == 0) weft_strbuf_puts(out, "...");
  if (ends != 0 || t->shape.rank > 0) put_dim_v2(t, ends, 0, 0, out);
}
