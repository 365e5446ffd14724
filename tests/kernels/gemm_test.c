/* Matrix products that threads share, by rows and by columns, against a plain loop: every form, float and
 * double, strides, sums onto what is there. */
#include "kernels/cpu/math/gemm.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/runner.h"

typedef struct product {
  int64_t m, n, k;
  bool ta, tb, accumulate;
} product_t;

static double at(const void *x, weft_dtype_t dtype, int64_t i) {
  return dtype == WEFT_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void *numbers(weft_dtype_t dtype, int64_t n, unsigned seed) {
  void *x = weft_calloc((size_t)n, weft_dtype_size(dtype));
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    double v = (double)(seed >> 8) / (1 << 23) - 1;
    if (dtype == WEFT_F32) {
      ((float *)x)[i] = (float)v;
    } else {
      ((double *)x)[i] = v;
    }
  }
  return x;
}

static void check(weft_thread_pool_t *pool, weft_dtype_t dtype, const product_t *p) {
  enum { PAD = 3 };
  int64_t a_rows = p->ta ? p->k : p->m, a_columns = p->ta ? p->m : p->k, b_rows = p->tb ? p->n : p->k,
          b_columns = p->tb ? p->k : p->n;
  int64_t lda = a_columns + PAD, ldb = b_columns + PAD, ldc = p->n + PAD;
  void *a = numbers(dtype, a_rows * lda, 1), *b = numbers(dtype, b_rows * ldb, 2),
       *c = numbers(dtype, p->m * ldc, 3), *before = numbers(dtype, p->m * ldc, 3);
  weft_status_t *s = weft_gemm(pool, dtype, p->ta ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN,
                               p->tb ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN, p->m, p->n, p->k, a, lda, b,
                               ldb, c, ldc, p->accumulate);
  CU_ASSERT_PTR_NULL(s);
  double worst = 0, tolerance = dtype == WEFT_F32 ? 1e-6 * sqrt((double)p->k) : 1e-14 * sqrt((double)p->k);
  int touched = 0;
  for (int64_t i = 0; i < p->m; i++) {
    for (int64_t j = 0; j < p->n; j++) {
      double sum = p->accumulate ? at(before, dtype, i * ldc + j) : 0;
      for (int64_t k = 0; k < p->k; k++)
        sum +=
            at(a, dtype, p->ta ? k * lda + i : i * lda + k) * at(b, dtype, p->tb ? j * ldb + k : k * ldb + j);
      worst = fmax(worst, fabs(sum - at(c, dtype, i * ldc + j)));
    }
    for (int64_t j = p->n; j < ldc; j++)
      touched += at(c, dtype, i * ldc + j) != at(before, dtype, i * ldc + j);
  }
  if (worst > 4 * tolerance)
    fprintf(stderr, "m %d n %d k %d: off by %g\n", (int)p->m, (int)p->n, (int)p->k, worst);
  CU_ASSERT_TRUE(worst <= 4 * tolerance);
  CU_ASSERT_EQUAL(touched, 0);
  weft_free(a);
  weft_free(b);
  weft_free(c);
  weft_free(before);
}

static void shared_products_are_right(void) {
  static const int64_t few[] = {1, 2, 8, 65}, many[] = {64, 65, 1023, 1100};
  weft_thread_pool_t *pool = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 2, &pool));
  for (int form = 0; form < 6; form++) {
    for (int i = 0; i < 4; i++) {
      for (int j = 0; j < 4; j++) {
        bool is_sum_short = form >= 4;
        product_t p = {.m = is_sum_short ? many[3 - j] : few[i],
                       .n = many[j],
                       .k = is_sum_short ? few[i] : many[3 - j] + 1,
                       .ta = is_sum_short,
                       .tb = form == 2 || form == 3,
                       .accumulate = form % 2 == 1};
        check(pool, WEFT_F32, &p);
        check(pool, WEFT_F64, &p);
      }
    }
  }
  weft_thread_pool_destroy(pool);
}

/* OpenBLAS takes kernels for SSE3 on a processor younger than itself. */
static void products_use_the_vectors_of_the_processor(void) {
  weft_thread_pool_t *pool = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 1, &pool));
  check(pool, WEFT_F32, &(product_t){.m = 8, .n = 64, .k = 64});
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      getenv("OPENBLAS_CORETYPE") == NULL) {
    CU_ASSERT_STRING_NOT_EQUAL(openblas_get_corename(), "Prescott");
  }
#endif
  weft_thread_pool_destroy(pool);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"products use the vectors of the processor", products_use_the_vectors_of_the_processor},
      {"shared products are right", shared_products_are_right},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("matrix products", tests);
}
