/* kernels/cpu/math/gemm.c - see the header. */
#include "kernels/cpu/math/gemm.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Below this many multiplications a second thread costs more than it saves. */
enum { MIN_FLOPS_PER_THREAD = 1 << 19 };

typedef struct gemm {
  weft_dtype_t dtype;
  weft_gemm_op_t op_a, op_b;
  int64_t m, n, k, lda, ldb, ldc;
  const void *a, *b;
  void *c;
  bool accumulate;
  bool failed; /* of the integer loop: no memory for a row */
} gemm_t;

#define EACH_HALFS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/math/gemm_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"

typedef void naive_fn(const gemm_t *g, int64_t m, const void *a, void *c, void *row);
#define MAP_STEM naive
static naive_fn *const naive_fns[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

/* OpenBLAS's own choice of kernels (driver/others/dynamic.c). Weak: another build of it may not have them. */
void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));

/* OpenBLAS knows processors by their model number, and takes kernels for SSE3 for a model that is younger
   than itself. Instructions that the processor has are the better evidence. */
static void choose_blas_kernels(void) {
#if defined(__x86_64__)
  const char *better = NULL;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    better = "SkylakeX";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    better = "Haswell";
  }
  if (better == NULL || gotoblas_dynamic_quit == NULL || gotoblas_dynamic_init == NULL) return;
  if (strcmp(openblas_get_corename(), "Prescott") != 0 || setenv("OPENBLAS_CORETYPE", better, 0) != 0) return;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
#endif
}

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static void blas_init(void) {
  choose_blas_kernels();
  openblas_set_num_threads(1);
}

void weft_blas_init(void) { (void)pthread_once(&blas_once, blas_init); }

static enum CBLAS_TRANSPOSE blas_op(weft_gemm_op_t op) {
  if (op == WEFT_GEMM_PLAIN) return CblasNoTrans;
  return op == WEFT_GEMM_TRANSPOSED ? CblasTrans : CblasConjTrans;
}

static void blas_rows(const gemm_t *g, int64_t m, const void *a, void *c) {
  enum CBLAS_TRANSPOSE ta = blas_op(g->op_a), tb = blas_op(g->op_b);
  int mi = (int)m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
  if (g->dtype == WEFT_F32 && n == 1 && ldb == 1 && tb == CblasNoTrans) { /* a column: matrix times vector */
    cblas_sgemv(CblasRowMajor, ta, ta == CblasNoTrans ? mi : k, ta == CblasNoTrans ? k : mi, 1, a, lda, g->b,
                1, g->accumulate ? 1 : 0, c, ldc);
  } else if (g->dtype == WEFT_F32) {
    cblas_sgemm(CblasRowMajor, ta, tb, mi, n, k, 1, a, lda, g->b, ldb, g->accumulate ? 1 : 0, c, ldc);
  } else if (g->dtype == WEFT_F64) {
    cblas_dgemm(CblasRowMajor, ta, tb, mi, n, k, 1, a, lda, g->b, ldb, g->accumulate ? 1 : 0, c, ldc);
  } else if (g->dtype == WEFT_C64) {
    const float one[2] = {1, 0}, beta[2] = {g->accumulate ? 1 : 0, 0};
    cblas_cgemm(CblasRowMajor, ta, tb, mi, n, k, one, a, lda, g->b, ldb, beta, c, ldc);
  } else {
    const double one[2] = {1, 0}, beta[2] = {g->accumulate ? 1 : 0, 0};
    cblas_zgemm(CblasRowMajor, ta, tb, mi, n, k, one, a, lda, g->b, ldb, beta, c, ldc);
  }
}

static bool is_blas(weft_dtype_t d) {
  return d == WEFT_F32 || d == WEFT_F64 || d == WEFT_C64 || d == WEFT_C128;
}

static void rows_range(void *arg, int64_t begin, int64_t end) {
  gemm_t *g = arg;
  size_t size = weft_dtype_size(g->dtype);
  const char *a = (const char *)g->a + (size_t)(g->op_a == WEFT_GEMM_PLAIN ? begin * g->lda : begin) * size;
  char *c = (char *)g->c + (size_t)(begin * g->ldc) * size;
  if (is_blas(g->dtype)) {
    blas_rows(g, end - begin, a, c);
    return;
  }
  void *row = weft_calloc((size_t)g->n, sizeof(uint64_t));
  if (row == NULL) {
    __atomic_store_n(&g->failed, true, __ATOMIC_RELAXED); /* read after the threads have joined */
    return;
  }
  naive_fns[g->dtype](g, end - begin, a, c, row);
  weft_free(row);
}

/* Columns begin..end: so few rows that cutting them would only make each thread lay out all of b. */
static void columns_range(void *arg, int64_t begin, int64_t end) {
  gemm_t part = *(const gemm_t *)arg;
  size_t size = weft_dtype_size(part.dtype);
  part.n = end - begin;
  part.b = (const char *)part.b + (size_t)(part.op_b == WEFT_GEMM_PLAIN ? begin : begin * part.ldb) * size;
  part.c = (char *)part.c + (size_t)begin * size;
  blas_rows(&part, part.m, part.a, part.c);
}

static weft_status_t *run(weft_thread_pool_t *pool, gemm_t *g) {
  if (is_blas(g->dtype)) weft_blas_init();
  double flops = (double)g->m * (double)g->n * (double)g->k;
  int threads = pool == NULL ? 1 : weft_thread_pool_size(pool);
  enum { FEW_ROWS = 64, MIN_COLUMNS = 64 };
  bool by_columns = is_blas(g->dtype) && g->m < FEW_ROWS && g->n > g->m;
  if (threads <= 1 || flops < 2.0 * MIN_FLOPS_PER_THREAD || (g->m < 2 && !by_columns)) {
    rows_range(g, 0, g->m);
  } else if (by_columns) {
    int64_t grain = (g->n + threads - 1) / threads,
            least = (int64_t)((double)MIN_FLOPS_PER_THREAD / (flops / (double)g->n)) + 1;
    if (grain < MIN_COLUMNS) grain = MIN_COLUMNS;
    weft_parallel_for(pool, g->n, grain > least ? grain : least, columns_range, g);
  } else {
    /* About two blocks for each thread: fewer keep BLAS's own blocking efficient, more would balance better.
     */
    int64_t grain = g->m / (2 * threads),
            least = (int64_t)((double)MIN_FLOPS_PER_THREAD / (flops / (double)g->m)) + 1;
    weft_parallel_for(pool, g->m, grain > least ? grain : least, rows_range, g);
  }
  return g->failed ? WEFT_NO_MEMORY("a matrix product") : NULL;
}

/* ---- half and bfloat16: convert, multiply in float, convert back ---- */

static void to_float(weft_dtype_t dtype, const uint16_t *x, int64_t n, float *y) {
  if (dtype == WEFT_F16) {
    for (int64_t i = 0; i < n; i++) y[i] = weft_f16_to_f32(x[i]);
  } else {
    for (int64_t i = 0; i < n; i++) y[i] = weft_bf16_to_f32(x[i]);
  }
}

static uint16_t from_float(weft_dtype_t dtype, float v) {
  return dtype == WEFT_F16 ? weft_f32_to_f16(v) : weft_f32_to_bf16(v);
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
  weft_status_t *s = run(pool, &f);
  uint16_t *out = g->c;
  for (int64_t i = 0; s == NULL && i < g->m; i++) {
    for (int64_t j = 0; j < g->n; j++) {
      uint16_t *o = &out[i * g->ldc + j];
      float old = 0;
      if (g->accumulate) to_float(g->dtype, o, 1, &old);
      *o = from_float(g->dtype, old + c[i * g->n + j]);
    }
  }
  weft_free(buffer);
  return s;
}

weft_status_t *weft_gemm(weft_thread_pool_t *pool, weft_dtype_t dtype, weft_gemm_op_t op_a,
                         weft_gemm_op_t op_b, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                         const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return NULL;
  size_t size = weft_dtype_size(dtype);
  if (k == 0) {
    for (int64_t i = 0; !accumulate && i < m; i++) {
      memset((char *)c + (size_t)(i * ldc) * size, 0, (size_t)n * size);
    }
    return NULL;
  }
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a matrix product has a dimension of 2^31 or more");
  }
  gemm_t g = {dtype, op_a, op_b, m, n, k, lda, ldb, ldc, a, b, c, accumulate, false};
  if (dtype == WEFT_F16 || dtype == WEFT_BF16) return run_half(pool, &g);
  if (!is_blas(dtype) && naive_fns[dtype] == NULL) {
    return WEFT_ERROR(UNIMPLEMENTED, "no matrix product of %s", weft_dtype_name(dtype));
  }
  return run(pool, &g);
}
