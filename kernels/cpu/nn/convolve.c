/* kernels/cpu/nn/convolve.c - see the header. */
#include "kernels/cpu/nn/convolve.h"

#include "base/alloc.h"
#include "kernels/cpu/math/gemm.h"
#include "kernels/cpu/nn/direct.h"
#include "tensor/update.h"

/* Bytes of columns made at a time: half of a usual second-level cache. Not less than 8 rows. */
enum { COLUMN_BYTES = 256 * 1024, MAX_PIECES = 8 };

static bool is_pointwise(const weft_conv_t *v) {
  for (int i = 0; i < WEFT_SPACE; i++) {
    const weft_window_t *w = &v->s[i];
    if (w->k != 1 || w->stride != 1 || w->before != 0 || w->out != w->in) return false;
  }
  return v->groups == 1;
}

static int64_t column_width(const weft_conv_t *v) { return v->s[0].k * v->s[1].k * v->s[2].k * v->cg; }
static int64_t out_pixels(const weft_conv_t *v) { return v->s[0].out * v->s[1].out * v->s[2].out; }
static int64_t pixels(const weft_conv_t *v) { return v->n * out_pixels(v); }

static int64_t block_rows(const weft_conv_t *v) {
  int64_t rows = COLUMN_BYTES / (int64_t)weft_dtype_size(v->dtype) / column_width(v);
  return rows < 8 ? 8 : rows;
}

/* The input pixel under cell `k` of the window at `o`; false if it is padding. */
static bool cell(const weft_window_t *w, int64_t o, int64_t k, int64_t *out) {
  *out = o * w->stride - w->before + k * w->dilation;
  return *out >= 0 && *out < w->in;
}

/* Where an output pixel is. */
typedef struct place {
  int64_t n, at[WEFT_SPACE];
} place_t;

static place_t place_of(const weft_conv_t *v, int64_t pixel) {
  place_t p;
  for (int i = WEFT_SPACE - 1; i >= 0; i--) {
    p.at[i] = pixel % v->s[i].out;
    pixel /= v->s[i].out;
  }
  p.n = pixel;
  return p;
}

/* The number of the first pixel of the line of x under row `k` (of KD*KH) of the window at p; -1: padding. */
static int64_t line_under(const weft_conv_t *v, const place_t *p, int64_t k) {
  int64_t z, y;
  if (!cell(&v->s[0], p->at[0], k / v->s[1].k, &z) || !cell(&v->s[1], p->at[1], k % v->s[1].k, &y)) return -1;
  return ((p->n * v->s[0].in + z) * v->s[1].in + y) * v->s[2].in;
}

/* Columns of output pixels [begin, end) for one group. */
static void to_columns(const weft_conv_t *v, const char *x, int64_t group, int64_t begin, int64_t end,
                       char *columns) {
  size_t size = weft_dtype_size(v->dtype), piece = (size_t)v->cg * size;
  const weft_window_t *w = &v->s[2];
  for (int64_t pixel = begin; pixel < end; pixel++) {
    place_t p = place_of(v, pixel);
    for (int64_t k = 0; k < v->s[0].k * v->s[1].k; k++) {
      int64_t at = line_under(v, &p, k), iw;
      if (at < 0) {
        memset(columns, 0, (size_t)w->k * piece);
        columns += (size_t)w->k * piece;
        continue;
      }
      const char *line = x + (size_t)(at * v->c + group * v->cg) * size;
      int64_t first = p.at[2] * w->stride - w->before;
      if (v->groups == 1 && w->dilation == 1 && first >= 0 && first + w->k <= w->in) {
        memcpy(columns, line + (size_t)(first * v->c) * size, (size_t)w->k * piece);
        columns += (size_t)w->k * piece;
        continue;
      }
      for (int64_t kw = 0; kw < w->k; kw++, columns += piece) {
        if (cell(w, p.at[2], kw, &iw)) {
          memcpy(columns, line + (size_t)(iw * v->c) * size, piece);
        } else {
          memset(columns, 0, piece);
        }
      }
    }
  }
}

/* Adds columns back to the pixels that they came from. */
static void from_columns(const weft_conv_t *v, const char *columns, int64_t group, int64_t begin, int64_t end,
                         char *dx) {
  size_t size = weft_dtype_size(v->dtype), piece = (size_t)v->cg * size;
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, v->dtype);
  for (int64_t pixel = begin; pixel < end; pixel++) {
    place_t p = place_of(v, pixel);
    for (int64_t k = 0; k < v->s[0].k * v->s[1].k; k++) {
      int64_t at = line_under(v, &p, k), iw;
      for (int64_t kw = 0; kw < v->s[2].k; kw++, columns += piece) {
        if (at < 0 || !cell(&v->s[2], p.at[2], kw, &iw)) continue;
        add(dx + (size_t)((at + iw) * v->c + group * v->cg) * size, columns, v->cg, false);
      }
    }
  }
}

typedef struct conv_job {
  const weft_conv_t *v;
  const char *x, *f, *dy;
  char *y, *dx, *partial;
  int64_t rows, pieces; /* of a block; of the sum over pixels */
  int64_t images;       /* that are multiplied at once at most, where a block holds several */
  weft_status_t *_Atomic status;
} conv_job_t;

static void keep_first(conv_job_t *j, weft_status_t *s) {
  weft_status_t *none = NULL;
  if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
}

static char *column_buffer(conv_job_t *j) {
  size_t bytes = 0;
  char *buffer = NULL;
  if (weft_mul_size((size_t)(j->rows * column_width(j->v)), weft_dtype_size(j->v->dtype), &bytes)) {
    buffer = weft_malloc(bytes);
  }
  if (buffer == NULL) keep_first(j, WEFT_NO_MEMORY("the columns of a convolution"));
  return buffer;
}

/* ---- forward ---- */

static void forward_blocks(void *arg, int64_t begin, int64_t end) {
  conv_job_t *j = arg;
  const weft_conv_t *v = j->v;
  int64_t K = column_width(v), per_group = v->oc / v->groups;
  size_t size = weft_dtype_size(v->dtype);
  char *columns = column_buffer(j);
  if (columns == NULL) return;
  for (int64_t b = begin; b < end; b++) {
    int64_t from = b * j->rows, to = from + j->rows < pixels(v) ? from + j->rows : pixels(v);
    for (int64_t g = 0; g < v->groups; g++) {
      to_columns(v, j->x, g, from, to, columns);
      keep_first(j, weft_gemm(NULL, v->dtype, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, to - from, per_group, K,
                              columns, K, j->f + (size_t)(g * per_group) * size, v->oc,
                              j->y + (size_t)(from * v->oc + g * per_group) * size, v->oc, false));
    }
  }
  weft_free(columns);
}

static weft_status_t *forward_by_columns(weft_thread_pool_t *pool, const weft_conv_t *v, const void *x,
                                         const void *f, void *y) {
  const int64_t total = pixels(v);
  if (is_pointwise(v)) {
    return weft_gemm(pool, v->dtype, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, total, v->oc, v->c, x, v->c, f, v->oc,
                     y, v->oc, false);
  }
  conv_job_t j = {.v = v, .x = x, .f = f, .y = y, .rows = block_rows(v)};
  int64_t share = (total + 1) / 2; /* at least two blocks where there is work for two threads */
  if (total * column_width(v) * v->oc > 1 << 20 && share < j.rows) j.rows = share;
  if (j.rows > total) j.rows = total;
  weft_parallel_for(pool, (total + j.rows - 1) / j.rows, 1, forward_blocks, &j);
  return atomic_load(&j.status);
}

bool weft_conv_sums_in_place(const weft_conv_t *v) {
  return pixels(v) > 0 && v->oc > 0 && weft_direct_fits(v) && weft_direct_sums_in_place(v);
}

weft_status_t *weft_conv_forward(weft_thread_pool_t *pool, const weft_conv_t *v, const void *x, const void *f,
                                 void *y) {
  if (pixels(v) == 0 || v->oc == 0) return NULL;
  if (weft_direct_fits(v)) return weft_direct_forward(pool, v, x, f, y);
  WEFT_RETURN_IF_ERROR(forward_by_columns(pool, v, x, f, y));
  if (v->epilogue != NULL) weft_epilogue_run(pool, v->epilogue, y, pixels(v));
  return NULL;
}

/* ---- gradient of the input: images are independent ---- */

/* Blocks of whole images, or of a part of one. Which rows are multiplied together must not depend on the
 * number of threads: with OpenBLAS the last bits of a product do. */
static void input_images(void *arg, int64_t begin, int64_t end) {
  conv_job_t *j = arg;
  const weft_conv_t *v = j->v;
  int64_t K = column_width(v), per_group = v->oc / v->groups, per_unit = j->images * out_pixels(v);
  size_t size = weft_dtype_size(v->dtype);
  char *columns = column_buffer(j);
  if (columns == NULL) return;
  const int64_t last = end * per_unit < pixels(v) ? end * per_unit : pixels(v);
  for (int64_t from = begin * per_unit, to; from < last; from = to) {
    const int64_t unit_end = (from / per_unit + 1) * per_unit;
    to = from + j->rows < unit_end ? from + j->rows : unit_end;
    if (to > last) to = last;
    for (int64_t g = 0; g < v->groups; g++) {
      keep_first(j, weft_gemm(NULL, v->dtype, WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, to - from, K, per_group,
                              j->dy + (size_t)(from * v->oc + g * per_group) * size, v->oc,
                              j->f + (size_t)(g * per_group) * size, v->oc, columns, K, false));
      from_columns(v, columns, g, from, to, j->dx);
    }
  }
  weft_free(columns);
}

weft_status_t *weft_conv_backprop_input(weft_thread_pool_t *pool, const weft_conv_t *v, const void *dy,
                                        const void *f, void *dx) {
  size_t bytes = (size_t)(v->n * v->s[0].in * v->s[1].in * v->s[2].in * v->c) * weft_dtype_size(v->dtype);
  if (bytes == 0) return NULL;
  if (pixels(v) > 0 && v->oc > 0 && weft_direct_fits_input(v)) return weft_direct_input(pool, v, dy, f, dx);
  if (is_pointwise(v)) {
    return weft_gemm(pool, v->dtype, WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED, pixels(v), v->c, v->oc, dy, v->oc,
                     f, v->oc, dx, v->c, false);
  }
  memset(dx, 0, bytes);
  if (pixels(v) == 0 || v->oc == 0) return NULL;
  conv_job_t j = {.v = v, .f = f, .dy = dy, .dx = dx, .rows = block_rows(v), .images = 1};
  const int64_t share = (v->n + MAX_PIECES - 1) / MAX_PIECES;
  if (j.rows / out_pixels(v) > 1) j.images = j.rows / out_pixels(v) < share ? j.rows / out_pixels(v) : share;
  int64_t work = j.images * out_pixels(v) * column_width(v) * v->oc;
  int64_t grain = (1 << 19) / (work + 1) + 1;
  weft_parallel_for(pool, (v->n + j.images - 1) / j.images, grain, input_images, &j);
  return atomic_load(&j.status);
}

/* ---- gradient of the filter: a sum over all pixels, in a fixed number of pieces ---- */

static void filter_pieces(void *arg, int64_t begin, int64_t end) {
  conv_job_t *j = arg;
  const weft_conv_t *v = j->v;
  int64_t K = column_width(v), per_group = v->oc / v->groups, total = pixels(v);
  size_t size = weft_dtype_size(v->dtype), filter_bytes = (size_t)(K * v->oc) * size;
  char *columns = column_buffer(j);
  if (columns == NULL) return;
  for (int64_t piece = begin; piece < end; piece++) {
    char *df = j->partial + (size_t)piece * filter_bytes;
    int64_t last = total * (piece + 1) / j->pieces;
    memset(df, 0, filter_bytes);
    for (int64_t from = total * piece / j->pieces; from < last; from += j->rows) {
      int64_t to = from + j->rows < last ? from + j->rows : last;
      for (int64_t g = 0; g < v->groups; g++) {
        to_columns(v, j->x, g, from, to, columns);
        keep_first(j, weft_gemm(NULL, v->dtype, WEFT_GEMM_TRANSPOSED, WEFT_GEMM_PLAIN, K, per_group,
                                to - from, columns, K, j->dy + (size_t)(from * v->oc + g * per_group) * size,
                                v->oc, df + (size_t)(g * per_group) * size, v->oc, true));
      }
    }
  }
  weft_free(columns);
}

weft_status_t *weft_conv_backprop_filter(weft_thread_pool_t *pool, const weft_conv_t *v, const void *x,
                                         const void *dy, void *df) {
  int64_t K = column_width(v), total = pixels(v);
  size_t bytes = (size_t)(K * v->oc) * weft_dtype_size(v->dtype);
  if (bytes == 0) return NULL;
  if (total == 0) {
    memset(df, 0, bytes);
    return NULL;
  }
  if (weft_direct_fits(v)) return weft_direct_filter(pool, v, x, dy, df);
  if (is_pointwise(v)) {
    return weft_gemm(pool, v->dtype, WEFT_GEMM_TRANSPOSED, WEFT_GEMM_PLAIN, v->c, v->oc, total, x, v->c, dy,
                     v->oc, df, v->oc, false);
  }
  conv_job_t j = {.v = v, .x = x, .dy = dy, .rows = block_rows(v)};
  double work = (double)total * (double)K * (double)v->oc;
  j.pieces = work > 8e6 ? MAX_PIECES : work > 1e6 ? 2 : 1;
  if (j.pieces > total) j.pieces = 1;
  j.partial = j.pieces == 1 ? df : weft_malloc(bytes * (size_t)j.pieces);
  if (j.partial == NULL) return WEFT_NO_MEMORY("the gradient of a filter");
  if (j.rows > total) j.rows = total;
  weft_parallel_for(pool, j.pieces, 1, filter_pieces, &j);
  if (j.pieces > 1) {
    weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, v->dtype);
    memcpy(df, j.partial, bytes);
    for (int64_t p = 1; p < j.pieces; p++) add(df, j.partial + (size_t)p * bytes, K * v->oc, false);
    weft_free(j.partial);
  }
  return atomic_load(&j.status);
}

/* ---- the naive twin ---- */

static double number(const weft_conv_t *v, const void *t, int64_t i) {
  return v->dtype == WEFT_F32 ? (double)((const float *)t)[i] : ((const double *)t)[i];
}

void weft_conv_naive(const weft_conv_t *v, const void *x, const void *f, void *y) {
  int64_t per_group = v->oc / v->groups, cells = v->s[0].k * v->s[1].k * v->s[2].k;
  for (int64_t pixel = 0; pixel < pixels(v); pixel++) {
    place_t p = place_of(v, pixel);
    for (int64_t o = 0; o < v->oc; o++) {
      double sum = 0;
      for (int64_t k = 0; k < cells; k++) {
        int64_t line = line_under(v, &p, k / v->s[2].k), iw;
        if (line < 0 || !cell(&v->s[2], p.at[2], k % v->s[2].k, &iw)) continue;
        for (int64_t c = 0; c < v->cg; c++) {
          sum += number(v, x, (line + iw) * v->c + o / per_group * v->cg + c) *
                 number(v, f, (k * v->cg + c) * v->oc + o);
        }
      }
      if (v->dtype == WEFT_F32) {
        ((float *)y)[pixel * v->oc + o] = (float)sum;
      } else {
        ((double *)y)[pixel * v->oc + o] = sum;
      }
    }
  }
}
