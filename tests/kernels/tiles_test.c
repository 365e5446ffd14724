/* tests/kernels/tiles_test.c - products in register tiles: no bit depends on how a product is cut, and
 * nothing is written beside a piece.
 */
#include "kernels/cpu/math/tiles.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/half.h"
#include "tests/runner.h"

enum { M = 61, N = 149, K = 600, PAD = 5 };

static float *numbers(int64_t n, unsigned seed) {
  float *x = weft_calloc((size_t)n, sizeof *x);
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
  return x;
}

/* Cuts behind each `rows` rows and `columns` columns. */
static void run(const weft_tiles_t *t, int64_t rows, int64_t columns) {
  void *scratch = weft_aligned_alloc(64, weft_tiles_scratch(t->dtype, rows, columns));
  CU_ASSERT_PTR_NOT_NULL_FATAL(scratch);
  for (int64_t i = 0; i < t->m; i += rows) {
    for (int64_t j = 0; j < t->n; j += columns) {
      weft_tiles_run(t, i, t->m - i < rows ? t->m - i : rows, j, t->n - j < columns ? t->n - j : columns,
                     scratch);
    }
  }
  weft_free(scratch);
}

static void check(bool ta, bool tb, bool accumulate) {
  static const int64_t cuts[][2] = {{M, N}, {14, 32}, {1, N}, {3, 40}, {17, 1}, {M, 64}, {6, 149}};
  const int64_t lda = (ta ? M : K) + PAD, ldb = (tb ? K : N) + PAD, ldc = N + PAD;
  float *a = numbers((ta ? K : M) * lda, 1), *b = numbers((tb ? N : K) * ldb, 2),
        *before = numbers(M * ldc, 3), *c = numbers(M * ldc, 3), *first = numbers(M * ldc, 3);
  weft_tiles_t t = {.dtype = WEFT_F32,
                    .turns_a = ta,
                    .turns_b = tb,
                    .accumulate = accumulate,
                    .m = M,
                    .n = N,
                    .k = K,
                    .lda = lda,
                    .ldb = ldb,
                    .ldc = ldc,
                    .a = a,
                    .b = b,
                    .c = first};
  run(&t, M, N);
  double worst = 0;
  for (int64_t i = 0; i < M; i++) {
    for (int64_t j = 0; j < N; j++) {
      double sum = accumulate ? (double)before[i * ldc + j] : 0;
      for (int64_t l = 0; l < K; l++) {
        sum += (double)a[ta ? l * lda + i : i * lda + l] * (double)b[tb ? j * ldb + l : l * ldb + j];
      }
      worst = fmax(worst, fabs(sum - (double)first[i * ldc + j]));
    }
    CU_ASSERT_EQUAL(memcmp(first + i * ldc + N, before + i * ldc + N, PAD * sizeof *c), 0);
  }
  CU_ASSERT_TRUE(worst < 1e-4);
  t.c = c;
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    memcpy(c, before, (size_t)(M * ldc) * sizeof *c);
    run(&t, cuts[i][0], cuts[i][1]);
    CU_ASSERT_EQUAL(memcmp(c, first, (size_t)(M * ldc) * sizeof *c), 0);
  }
  float *panels = weft_aligned_alloc(64, weft_tiles_panels_bytes(K, N));
  CU_ASSERT_PTR_NOT_NULL_FATAL(panels);
  const int64_t width = weft_tiles_columns();
  for (int64_t j = 0; j < N; j += 2 * width)
    weft_tiles_pack(&t, j, N - j < 2 * width ? N - j : 2 * width, panels);
  t.panels = panels;
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    memcpy(c, before, (size_t)(M * ldc) * sizeof *c);
    run(&t, cuts[i][0], (cuts[i][1] + width - 1) / width * width);
    CU_ASSERT_EQUAL(memcmp(c, first, (size_t)(M * ldc) * sizeof *c), 0);
  }
  weft_free(panels);
  weft_free(a);
  weft_free(b);
  weft_free(before);
  weft_free(c);
  weft_free(first);
}

static void pieces_change_no_bit(void) {
  for (int form = 0; form < 8; form++) check(form & 1, form & 2, form & 4);
}

/* A small a is read where it is, and one whose lines lie far apart is laid out first. */
static void check_places_of_a(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  const int64_t lines = ta ? k : m, line = ta ? m : k, far = 5000;
  float *a = numbers(lines * line, 1), *spread = numbers(lines * far, 2), *b = numbers(k * n, 3);
  float *c = numbers(m * n, 4), *of_spread = numbers(m * n, 5);
  for (int64_t i = 0; i < lines; i++) memcpy(spread + i * far, a + i * line, (size_t)line * sizeof *a);
  weft_tiles_t t = {.dtype = WEFT_F32,
                    .turns_a = ta,
                    .turns_b = tb,
                    .m = m,
                    .n = n,
                    .k = k,
                    .lda = line,
                    .ldb = tb ? k : n,
                    .ldc = n,
                    .a = a,
                    .b = b,
                    .c = c};
  run(&t, m, n);
  t.a = spread;
  t.lda = far;
  t.c = of_spread;
  run(&t, m, n);
  CU_ASSERT_EQUAL(memcmp(c, of_spread, (size_t)(m * n) * sizeof *c), 0);
  for (int64_t i = 0; i < m * n; i++) {
    double sum = 0;
    for (int64_t l = 0; l < k; l++) {
      sum += (double)a[ta ? l * m + i / n : i / n * k + l] * (double)b[tb ? i % n * k + l : l * n + i % n];
    }
    CU_ASSERT_DOUBLE_EQUAL((double)c[i], sum, 1e-4);
  }
  weft_free(a);
  weft_free(spread);
  weft_free(b);
  weft_free(c);
  weft_free(of_spread);
}

static void the_place_of_a_changes_no_bit(void) {
  static const int64_t m[] = {1, 2, 4, 6, 7, 16, 20}, n[] = {1, 8, 10, 33, 64}, k[] = {1, 7, 8, 9, 64, 300};
  for (size_t i = 0; i < sizeof m / sizeof m[0]; i++) {
    for (size_t j = 0; j < sizeof n / sizeof n[0]; j++) {
      for (size_t l = 0; l < sizeof k / sizeof k[0]; l++) {
        for (int form = 0; form < 4; form++) check_places_of_a(m[i], n[j], k[l], form & 1, form & 2);
      }
    }
  }
}

/* Up to four rows against rows of b; k ends within a vector. */
static void dot_products_are_right(void) {
  enum { ROWS = 4, ODD_K = K - 3 };
  float *a = numbers(ROWS * K, 1), *b = numbers((int64_t)N * K, 2);
  for (int64_t m = 1; m <= ROWS; m++) {
    float c[ROWS * N] = {0}, by_rows[ROWS * N] = {0};
    weft_tiles_t t = {.dtype = WEFT_F32,
                      .turns_b = true,
                      .dots = weft_tiles_dots(m, ODD_K),
                      .m = m,
                      .n = N,
                      .k = ODD_K,
                      .lda = K,
                      .ldb = K,
                      .ldc = N,
                      .a = a,
                      .b = b,
                      .c = c};
    run(&t, m, 10);
    t.c = by_rows;
    run(&t, 1, N);
    CU_ASSERT_EQUAL(memcmp(c, by_rows, sizeof c), 0);
    for (int64_t i = 0; i < m * N; i++) {
      double sum = 0;
      for (int64_t l = 0; l < ODD_K; l++) sum += (double)a[i / N * K + l] * (double)b[i % N * K + l];
      CU_ASSERT_DOUBLE_EQUAL((double)c[i], sum, 1e-4);
    }
  }
  weft_free(a);
  weft_free(b);
}

/* Multiples of 1/8 up to 2: their products and sums are exact in float. */
static uint16_t *halfs(weft_dtype_t dtype, int64_t n, unsigned seed) {
  float *x = numbers(n, seed);
  uint16_t *h = weft_calloc((size_t)n, sizeof *h);
  CU_ASSERT_PTR_NOT_NULL_FATAL(h);
  for (int64_t i = 0; i < n; i++) {
    x[i] = rintf(x[i] * 16) / 8;
    h[i] = dtype == WEFT_F16 ? weft_f32_to_f16(x[i]) : weft_f32_to_bf16(x[i]);
  }
  weft_free(x);
  return h;
}

static float to_float(weft_dtype_t dtype, uint16_t h) {
  return dtype == WEFT_F16 ? weft_f16_to_f32(h) : weft_bf16_to_f32(h);
}

/* Of halfs each element is the exact sum, rounded once (twice where it is added to c). */
static void check_halfs(weft_dtype_t dtype, bool ta, bool tb, bool accumulate, int64_t k) {
  static const int64_t cuts[][2] = {{M, N}, {14, 32}, {1, N}, {17, 1}, {6, 149}};
  const int64_t lda = (ta ? M : k) + 1, ldb = (tb ? k : N) + 1, ldc = N + PAD;
  uint16_t *a = halfs(dtype, (ta ? k : M) * lda, 1), *b = halfs(dtype, (tb ? N : k) * ldb, 2),
           *before = halfs(dtype, M * ldc, 3), *c = halfs(dtype, M * ldc, 3);
  const weft_tiles_t t = {.dtype = dtype,
                          .turns_a = ta,
                          .turns_b = tb,
                          .accumulate = accumulate,
                          .m = M,
                          .n = N,
                          .k = k,
                          .lda = lda,
                          .ldb = ldb,
                          .ldc = ldc,
                          .a = a,
                          .b = b,
                          .c = c};
  int wrong = 0;
  for (size_t at = 0; at < sizeof cuts / sizeof cuts[0]; at++) {
    memcpy(c, before, (size_t)(M * ldc) * sizeof *c);
    run(&t, cuts[at][0], cuts[at][1]);
    for (int64_t i = 0; i < M; i++) {
      for (int64_t j = 0; j < N; j++) {
        float sum = 0;
        for (int64_t l = 0; l < k; l++) {
          sum += to_float(dtype, a[ta ? l * lda + i : i * lda + l]) *
                 to_float(dtype, b[tb ? j * ldb + l : l * ldb + j]);
        }
        if (accumulate) sum += to_float(dtype, before[i * ldc + j]);
        wrong += c[i * ldc + j] != (dtype == WEFT_F16 ? weft_f32_to_f16(sum) : weft_f32_to_bf16(sum));
      }
      wrong += memcmp(c + i * ldc + N, before + i * ldc + N, PAD * sizeof *c) != 0;
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  weft_free(a);
  weft_free(b);
  weft_free(before);
  weft_free(c);
}

static void products_of_halfs_are_rounded_once(void) {
  for (int form = 0; form < 8; form++) {
    check_halfs(WEFT_F16, form & 1, form & 2, form & 4, 1);
    check_halfs(WEFT_F16, form & 1, form & 2, form & 4, 301);
    check_halfs(WEFT_BF16, form & 1, form & 2, form & 4, 1);
    check_halfs(WEFT_BF16, form & 1, form & 2, form & 4, 40);
    check_halfs(WEFT_BF16, form & 1, form & 2, form & 4, 1037);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"pieces and panels change no bit", pieces_change_no_bit},
      {"the place of a changes no bit", the_place_of_a_changes_no_bit},
      {"dot products are right", dot_products_are_right},
      {"products of halfs are rounded once", products_of_halfs_are_rounded_once},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("tiles", tests);
}
