/* kernels/cpu/math/gemm.c - see the header. */
#include "kernels/cpu/math/gemm.h"

#include <cblas.h>
#include <limits.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "base/thread_blocks.h"
#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/loops/narrow.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/math/tiles.h"

typedef struct gemm {
  weft_dtype_t dtype;
  weft_gemm_op_t op_a, op_b;
  int64_t m, n, k, lda, ldb, ldc;
  const void *a, *b;
  void *c;
  bool accumulate;
  const float *panels; /* of b, all of it; NULL: there are none */
} gemm_t;

#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/math/gemm_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"

typedef void naive_fn(const gemm_t *g, void *row);
#define MAP_STEM naive
static naive_fn *const naive_fns[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

static enum CBLAS_TRANSPOSE blas_op(weft_gemm_op_t op) {
  if (op == WEFT_GEMM_PLAIN) return CblasNoTrans;
  return op == WEFT_GEMM_TRANSPOSED ? CblasTrans : CblasConjTrans;
}

static void blas_product(const gemm_t *g) {
  enum CBLAS_TRANSPOSE ta = blas_op(g->op_a), tb = blas_op(g->op_b);
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
  if (g->dtype == WEFT_F32 && n == 1 && ldb == 1 && tb == CblasNoTrans) { /* a column: matrix times vector */
    cblas_sgemv(CblasRowMajor, ta, ta == CblasNoTrans ? m : k, ta == CblasNoTrans ? k : m, 1, g->a, lda, g->b,
                1, g->accumulate ? 1 : 0, g->c, ldc);
  } else if (g->dtype == WEFT_F32) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, g->accumulate ? 1 : 0, g->c, ldc);
  } else if (g->dtype == WEFT_F64 && m == 1) { /* a row: the other matrix, transposed, times a column */
    const bool is_plain = tb == CblasNoTrans;
    if (!g->accumulate) memset(g->c, 0, (size_t)n * sizeof(double));
    cblas_dgemv(CblasRowMajor, is_plain ? CblasTrans : CblasNoTrans, is_plain ? k : n, is_plain ? n : k, 1,
                g->b, ldb, g->a, ta == CblasNoTrans ? 1 : lda, 1, g->c, 1);
  } else if (g->dtype == WEFT_F64) {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, g->accumulate ? 1 : 0, g->c, ldc);
  } else if (g->dtype == WEFT_C64) {
    const float one[2] = {1, 0}, beta[2] = {g->accumulate ? 1 : 0, 0};
    cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, one, g->a, lda, g->b, ldb, beta, g->c, ldc);
  } else {
    const double one[2] = {1, 0}, beta[2] = {g->accumulate ? 1 : 0, 0};
    cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, one, g->a, lda, g->b, ldb, beta, g->c, ldc);
  }
}

static bool is_half(weft_dtype_t d) { return d == WEFT_F16 || d == WEFT_BF16; }

static bool is_blas(weft_dtype_t d) {
  return d == WEFT_F32 || d == WEFT_F64 || d == WEFT_C64 || d == WEFT_C128;
}

/* ---- products in pieces: each of some rows and some columns of one of them ---- */

typedef struct pieces {
  gemm_t g; /* a, b and c: where the places count from */
  bool by_tiles;
  int64_t count;             /* products */
  weft_gemm_place_fn *place; /* NULL: one product, at g's own */
  const void *place_arg;
  bool is_swapped;                 /* g's a is the caller's b */
  int64_t row_parts, column_parts; /* of each product */
  int64_t rows, columns;           /* of a part; the last ones may have fewer */
  atomic_bool failed;              /* no memory for a piece */
} pieces_t;

static const void *at(const void *base, int64_t elements, weft_dtype_t dtype) {
  return (const char *)base + elements * (int64_t)weft_dtype_size(dtype);
}

/* Rows [row, row + m) and columns [column, column + n) of g. */
static gemm_t part_of(const gemm_t *g, int64_t row, int64_t m, int64_t column, int64_t n) {
  gemm_t part = *g;
  part.m = m;
  part.n = n;
  part.a = at(g->a, g->op_a == WEFT_GEMM_PLAIN ? row * g->lda : row, g->dtype);
  part.b = at(g->b, g->op_b == WEFT_GEMM_PLAIN ? column : column * g->ldb, g->dtype);
  part.c = (char *)g->c + (row * g->ldc + column) * (int64_t)weft_dtype_size(g->dtype);
  return part;
}

static weft_tiles_t tiles_of(const gemm_t *g) {
  weft_tiles_t t = {.dtype = g->dtype,
                    .turns_a = g->op_a != WEFT_GEMM_PLAIN,
                    .turns_b = g->op_b != WEFT_GEMM_PLAIN,
                    .accumulate = g->accumulate,
                    .m = g->m,
                    .n = g->n,
                    .k = g->k,
                    .lda = g->lda,
                    .ldb = g->ldb,
                    .ldc = g->ldc,
                    .a = g->a,
                    .b = g->b,
                    .panels = g->panels,
                    .c = g->c};
  if (g->m == 1 && t.turns_a && t.lda == 1) t.turns_a = false; /* a row all the same */
  t.dots = t.turns_b && !t.turns_a ? weft_tiles_dots(g->m, g->k) : 0;
  return t;
}

static void run_part(const pieces_t *p, const gemm_t *g, int64_t row, int64_t m, int64_t column, int64_t n,
                     void *scratch) {
  if (p->by_tiles) {
    const weft_tiles_t t = tiles_of(g);
    weft_tiles_run(&t, row, m, column, n, scratch);
    return;
  }
  const gemm_t part = part_of(g, row, m, column, n);
  if (is_blas(part.dtype)) {
    blas_product(&part);
  } else {
    naive_fns[part.dtype](&part, scratch);
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A small product takes less time than malloc does for its scratch. */
static void *scratch_take(size_t bytes) {
  return bytes <= WEFT_THREAD_BLOCK_LARGEST ? weft_thread_block_take(bytes) : weft_aligned_alloc(64, bytes);
}

static void scratch_give(void *p, size_t bytes) {
  if (bytes <= WEFT_THREAD_BLOCK_LARGEST) {
    weft_thread_block_give(p, bytes);
  } else {
    weft_free(p);
  }
}

static void run_range(void *arg, int64_t begin, int64_t end) {
  pieces_t *p = arg;
  const size_t scratch_size = p->by_tiles           ? weft_tiles_scratch(p->g.dtype, p->rows, p->columns)
                              : is_blas(p->g.dtype) ? 0
                                                    : (size_t)p->columns * sizeof(uint64_t);
  void *scratch = scratch_size > 0 ? scratch_take(scratch_size) : NULL;
  if (scratch == NULL && scratch_size > 0) {
    atomic_store(&p->failed, true);
    return;
  }
  const int64_t parts = p->row_parts * p->column_parts;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i % parts / p->column_parts * p->rows, column = i % p->column_parts * p->columns;
    int64_t places[3] = {0};
    gemm_t g = p->g;
    if (p->place != NULL) p->place(p->place_arg, i / parts, places);
    g.a = at(g.a, places[p->is_swapped], g.dtype);
    g.b = at(g.b, places[!p->is_swapped], g.dtype);
    g.c = (char *)g.c + places[2] * (int64_t)weft_dtype_size(g.dtype);
    run_part(p, &g, row, least(p->rows, g.m - row), column, least(p->columns, g.n - column), scratch);
  }
  scratch_give(scratch, scratch_size);
}

/* Nanoseconds of one thread, roughly: what a processor of 2020 takes for a multiplication, and for a byte
 * that it brings from the third-level cache. */
static double cost_of(const gemm_t *g) {
  const double m = (double)g->m, n = (double)g->n, k = (double)g->k, size = (double)weft_dtype_size(g->dtype);
  const double each = g->dtype == WEFT_F32 || is_half(g->dtype)      ? 0.0125
                      : g->dtype == WEFT_F64 || g->dtype == WEFT_C64 ? 0.04
                      : g->dtype == WEFT_C128                        ? 0.1
                                                                     : 0.3;
  return m * n * k * each + (m * k + k * n + m * n) * size * 0.07;
}

enum {
  PIECE_NS = 2 * (int)WEFT_HANDOFF_NS, /* a shorter piece is not worth another thread */
  PIECES_PER_THREAD = 4                /* so that one that is late does not hold the others long */
};

static int64_t parts_of(int64_t total, int64_t parts, int64_t multiple, int64_t *out_size) {
  int64_t size = (total - 1) / parts + 1;
  size = (size - 1) / multiple * multiple + multiple;
  *out_size = size;
  return (total - 1) / size + 1;
}

/* Cuts each product into at least `wanted` parts, if it has so many tiles: by rows, columns or both, such
 * that the least is laid out again. A part of all columns lays out b, one of all rows a; a costs more, as it
 * is transposed. Parts have about as many rows each, whole tiles or not: threads that have as many parts end
 * together. */
static void cut(pieces_t *p, int64_t wanted) {
  const int64_t tile_m = p->by_tiles ? weft_tiles_rows() : 1,
                tile_n = p->by_tiles ? weft_tiles_strip(p->g.m) : 16;
  const int64_t most_rows = (p->g.m - 1) / tile_m + 1, most_columns = (p->g.n - 1) / tile_n + 1;
  double best = 0;
  int64_t row_parts = 1, column_parts = 1;
  for (int64_t rows = 1; rows <= wanted; rows++) {
    const int64_t r = least(rows, most_rows), c = least((wanted - 1) / r + 1, most_columns);
    const double laid_out = (double)r * (double)p->g.n + 3.0 * (double)c * (double)p->g.m;
    const double missing = (double)wanted / (double)(r * c); /* of the threads' work */
    const double cost = (missing > 1 ? missing : 1) * ((double)p->g.m * (double)p->g.n + 30 * laid_out);
    if (rows > 1 && cost >= best) continue;
    best = cost;
    row_parts = r;
    column_parts = c;
  }
  p->row_parts = parts_of(p->g.m, row_parts, 1, &p->rows);
  p->column_parts = parts_of(p->g.n, column_parts, tile_n, &p->columns);
}

static weft_status_t *run(weft_thread_pool_t *pool, pieces_t *p) {
  const double cost = cost_of(&p->g), total = cost * (double)p->count;
  const int threads = pool == NULL ? 1 : weft_thread_pool_size(pool);
  int64_t wanted = 1;
  if (is_blas(p->g.dtype) && !p->by_tiles) weft_blas_init();
  if (threads > 1 && total >= 2.0 * PIECE_NS) {
    const double pieces = total / PIECE_NS, most = (double)threads * PIECES_PER_THREAD;
    wanted = ((int64_t)(pieces < most ? pieces : most) - 1) / p->count + 1;
  }
  cut(p, wanted);
  const int64_t units = p->count * p->row_parts * p->column_parts;
  const double unit = total / (double)units;
  const int64_t grain = unit >= PIECE_NS ? 1 : (int64_t)(PIECE_NS / (unit + 1)) + 1;
  if (threads <= 1 || units < 2 || total < 2.0 * PIECE_NS) {
    run_range(p, 0, units);
  } else {
    weft_parallel_for(pool, units, grain, run_range, p);
  }
  return atomic_load(&p->failed) ? WEFT_NO_MEMORY("a matrix product") : NULL;
}

/* A column is the transpose of a row: of b's transpose and a's. */
static void swap_column(gemm_t *g) {
  const gemm_t was = *g;
  g->a = was.b;
  g->b = was.a;
  g->m = 1;
  g->n = was.m;
  g->op_a = was.op_b == WEFT_GEMM_PLAIN ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN;
  g->op_b = was.op_a == WEFT_GEMM_PLAIN ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN;
  g->lda = was.ldb;
  g->ldb = was.lda;
  g->ldc = was.m;
}

static weft_status_t *run_products(weft_thread_pool_t *pool, const gemm_t *g, int64_t count,
                                   weft_gemm_place_fn *place, const void *place_arg) {
  pieces_t p = {.g = *g, .count = count, .place = place, .place_arg = place_arg};
  p.by_tiles = WEFT_SIMD_FMA && (g->dtype == WEFT_F32 || is_half(g->dtype));
  p.is_swapped = p.by_tiles && g->n == 1 && g->m > 1 && g->ldc == 1;
  if (p.is_swapped) swap_column(&p.g);
  return run(pool, &p);
}

/* ---- half and bfloat16 without tiles: convert, multiply in float, convert back ---- */

static void to_float(weft_dtype_t dtype, const uint16_t *x, int64_t n, float *y) {
  if (dtype == WEFT_F16) {
    weft_widen_f16(n, x, y);
  } else {
    weft_widen_bf16(n, x, y);
  }
}

static void from_float(weft_dtype_t dtype, const float *x, int64_t n, uint16_t *y) {
  if (dtype == WEFT_F16) {
    weft_narrow_f16(n, x, y);
  } else {
    weft_narrow_bf16(n, x, y);
  }
}

static int64_t extent(int64_t rows, int64_t cols, int64_t ld) {
  return rows <= 0 ? 0 : (rows - 1) * ld + cols;
}

static weft_status_t *run_half(weft_thread_pool_t *pool, const gemm_t *g) {
  int64_t a_rows = g->op_a == WEFT_GEMM_PLAIN ? g->m : g->k,
          b_rows = g->op_b == WEFT_GEMM_PLAIN ? g->k : g->n;
  int64_t a_n = extent(a_rows, g->op_a == WEFT_GEMM_PLAIN ? g->k : g->m, g->lda);
  int64_t b_n = extent(b_rows, g->op_b == WEFT_GEMM_PLAIN ? g->n : g->k, g->ldb);
  size_t total = 0;
  if (!weft_add_size((size_t)a_n, (size_t)b_n, &total) ||
      !weft_add_size(total, (size_t)(g->m * g->n), &total)) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "a matrix product is too large");
  }
  size_t bytes = 0;
  float *buffer = weft_mul_size(total, sizeof *buffer, &bytes) ? weft_malloc(bytes) : NULL;
  if (buffer == NULL) return WEFT_NO_MEMORY("a matrix product");
  float *a = buffer, *b = a + a_n, *c = b + b_n;
  to_float(g->dtype, g->a, a_n, a);
  to_float(g->dtype, g->b, b_n, b);
  gemm_t f = *g;
  f.dtype = WEFT_F32;
  f.a = a;
  f.b = b;
  f.c = c;
  f.ldc = g->n;
  f.accumulate = false;
  weft_status_t *s = run_products(pool, &f, 1, NULL, NULL);
  uint16_t *out = g->c;
  for (int64_t i = 0; s == NULL && i < g->m; i++) {
    uint16_t *to = out + i * g->ldc;
    float *row = c + i * g->n;
    for (int64_t j = 0; g->accumulate && j < g->n; j++) {
      float old = 0;
      to_float(g->dtype, to + j, 1, &old);
      row[j] += old;
    }
    from_float(g->dtype, row, g->n, to);
  }
  weft_free(buffer);
  return s;
}

/* Halfs, one product after the other or side by side. */
typedef struct halfs {
  gemm_t g;
  weft_gemm_place_fn *place;
  const void *place_arg;
  weft_thread_pool_t *pool; /* of each product; NULL when they are spread */
  weft_status_t *_Atomic status;
} halfs_t;

static void halfs_range(void *arg, int64_t begin, int64_t end) {
  halfs_t *h = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t places[3] = {0};
    gemm_t g = h->g;
    if (h->place != NULL) h->place(h->place_arg, i, places);
    g.a = at(g.a, places[0], g.dtype);
    g.b = at(g.b, places[1], g.dtype);
    g.c = (char *)g.c + places[2] * (int64_t)weft_dtype_size(g.dtype);
    weft_status_t *s = run_half(h->pool, &g), *none = NULL;
    if (s != NULL && !atomic_compare_exchange_strong(&h->status, &none, s)) weft_status_free(s);
  }
}

static weft_status_t *run_halfs(weft_thread_pool_t *pool, const gemm_t *g, int64_t count,
                                weft_gemm_place_fn *place, const void *place_arg) {
  const double macs = (double)g->m * (double)g->n * (double)g->k;
  const bool is_large = count == 1 || macs > 1e7;
  halfs_t h = {.g = *g, .place = place, .place_arg = place_arg, .pool = is_large ? pool : NULL};
  weft_parallel_for(is_large ? NULL : pool, count, (int64_t)(5e5 / (macs + 1)) + 1, halfs_range, &h);
  return atomic_load(&h.status);
}

static void clear_products(const gemm_t *g, int64_t count, weft_gemm_place_fn *place, const void *place_arg) {
  const size_t size = weft_dtype_size(g->dtype);
  for (int64_t i = 0; i < count; i++) {
    int64_t places[3] = {0};
    if (place != NULL) place(place_arg, i, places);
    for (int64_t row = 0; row < g->m; row++) {
      memset((char *)g->c + (size_t)(places[2] + row * g->ldc) * size, 0, (size_t)g->n * size);
    }
  }
}

weft_status_t *weft_gemm_many(weft_thread_pool_t *pool, weft_dtype_t dtype, weft_gemm_op_t op_a,
                              weft_gemm_op_t op_b, int64_t m, int64_t n, int64_t k, const void *a,
                              int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate,
                              int64_t count, weft_gemm_place_fn *place, const void *place_arg) {
  if (m == 0 || n == 0 || count == 0) return NULL;
  const gemm_t g = {dtype, op_a, op_b, m, n, k, lda, ldb, ldc, a, b, c, accumulate, NULL};
  if (k == 0) {
    if (!accumulate) clear_products(&g, count, place, place_arg);
    return NULL;
  }
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a matrix product has a dimension of 2^31 or more");
  }
  const bool is_tiled = WEFT_SIMD_FMA && m > 1 && n > 1; /* vectors are read once: nothing is laid out */
  if (is_half(dtype) && !is_tiled) return run_halfs(pool, &g, count, place, place_arg);
  if (!is_blas(dtype) && !is_half(dtype) && naive_fns[dtype] == NULL) {
    return WEFT_ERROR(UNIMPLEMENTED, "no matrix product of %s", weft_dtype_name(dtype));
  }
  return run_products(pool, &g, count, place, place_arg);
}

weft_status_t *weft_gemm(weft_thread_pool_t *pool, weft_dtype_t dtype, weft_gemm_op_t op_a,
                         weft_gemm_op_t op_b, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                         const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate) {
  return weft_gemm_many(pool, dtype, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc, accumulate, 1, NULL, NULL);
}

/* ---- with panels that are kept ---- */

/* Panels pay where a panel serves few rows: laying it out on the way costs about as much as ten of them. Very
 * few rows are computed without panels. */
enum { LEAST_KEPT_ROWS = 4, MOST_KEPT_ROWS = 512 };

typedef struct pack_job {
  weft_tiles_t t;
  float *panels;
} pack_job_t;

static void pack_range(void *arg, int64_t begin, int64_t end) {
  const pack_job_t *j = arg;
  const int64_t width = weft_tiles_columns();
  weft_tiles_pack(&j->t, begin * width, least(end * width, j->t.n) - begin * width, j->panels);
}

/* From weft_aligned_alloc; NULL without memory: then the product does without. */
static float *pack_panels(weft_thread_pool_t *pool, const gemm_t *g) {
  const size_t bytes = weft_tiles_panels_bytes(g->k, g->n);
  pack_job_t j = {.t = tiles_of(g), .panels = bytes == 0 ? NULL : weft_aligned_alloc(64, bytes)};
  const int64_t width = weft_tiles_columns();
  if (j.panels != NULL)
    weft_parallel_for(pool, (g->n - 1) / width + 1, WEFT_CPU_GRAIN / (g->k * width) + 1, pack_range, &j);
  return j.panels;
}

weft_status_t *weft_gemm_kept(weft_thread_pool_t *pool, weft_dtype_t dtype, weft_gemm_op_t op_a,
                              weft_gemm_op_t op_b, int64_t m, int64_t n, int64_t k, const void *a,
                              int64_t lda, weft_tensor_t *b, void *c, int64_t ldc, weft_kept_t *kept) {
  const int64_t ldb = b->shape.dims[1];
  const bool are_dots = op_a == WEFT_GEMM_PLAIN && op_b != WEFT_GEMM_PLAIN && weft_tiles_dots(m, k) > 0;
  const bool is_tiled = WEFT_SIMD_FMA && dtype == WEFT_F32 && n > 1 && k > 0 && m >= LEAST_KEPT_ROWS &&
                        m <= MOST_KEPT_ROWS && !are_dots && n < INT_MAX && k < INT_MAX && lda < INT_MAX &&
                        ldc < INT_MAX;
  bool is_wanted = false;
  weft_kept_copy_t *copy = kept != NULL && is_tiled ? weft_kept_find(kept, b, op_b, &is_wanted) : NULL;
  if (copy == NULL && !is_wanted)
    return weft_gemm(pool, dtype, op_a, op_b, m, n, k, a, lda, b->data, ldb, c, ldc, false);
  gemm_t g = {dtype, op_a, op_b, m, n, k, lda, ldb, ldc, a, b->data, c, false, NULL};
  float *made = is_wanted ? pack_panels(pool, &g) : NULL;
  g.panels = copy != NULL ? copy->data : made;
  weft_status_t *s = run_products(pool, &g, 1, NULL, NULL);
  if (made != NULL) weft_kept_offer(kept, b, op_b, made);
  weft_kept_copy_release(copy);
  return s;
}
