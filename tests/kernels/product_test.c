/* tests/kernels/product_test.c - MatMul, BatchMatMul and Einsum of floats against sums in double, on the
 * instruction-set level that WEFT_ISA names: every remainder of a tile, both ways of each operand, few rows
 * and few columns.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/runner.h"

static weft_tensor_t *numbers(const weft_shape_t *shape, unsigned seed) {
  weft_tensor_t *x = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, shape, NULL, &x));
  for (int64_t i = 0; i < x->count; i++) {
    seed = seed * 1664525u + 1013904223u;
    ((float *)x->data)[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
  return x;
}

static weft_tensor_t *run2(weft_bench_t *b, const char *op, const char *attrs, weft_tensor_t *x,
                           weft_tensor_t *y) {
  weft_tensor_t *inputs[2] = {x, y}, *out = NULL;
  int num = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(b, op, attrs, inputs, 2, &out, 1, &num));
  return out;
}

static double at(const weft_tensor_t *t, int64_t i) { return (double)((const float *)t->data)[i]; }

/* Of `count` products of one size, each operand behind the other. */
static void check(const weft_tensor_t *a, const weft_tensor_t *b, const weft_tensor_t *c, int64_t count,
                  int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
  double worst = 0;
  for (int64_t p = 0; p < count; p++) {
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++) {
          sum += at(a, p * m * k + (ta ? l * m + i : i * k + l)) *
                 at(b, p * k * n + (tb ? j * k + l : l * n + j));
        }
        worst = fmax(worst, fabs(sum - at(c, p * m * n + i * n + j)));
      }
    }
  }
  const double tolerance = 4e-6 * sqrt((double)k);
  if (!(worst <= tolerance)) {
    fprintf(stderr, "%dx%dx%d, %d %d: off by %g\n", (int)m, (int)k, (int)n, ta, tb, worst);
  }
  CU_ASSERT_TRUE(worst <= tolerance);
}

static void check_matmul(weft_bench_t *b, int64_t m, int64_t k, int64_t n) {
  for (int form = 0; form < 4; form++) {
    const bool ta = form & 1, tb = form & 2;
    char attrs[64];
    (void)snprintf(attrs, sizeof attrs, "transpose_a=%s transpose_b=%s", ta ? "true" : "false",
                   tb ? "true" : "false");
    const weft_shape_t sx = weft_shape_matrix(ta ? k : m, ta ? m : k),
                       sy = weft_shape_matrix(tb ? n : k, tb ? k : n);
    weft_tensor_t *x = numbers(&sx, 1), *y = numbers(&sy, 2), *z = run2(b, "MatMul", attrs, x, y);
    CU_ASSERT_EQUAL(z->count, m * n);
    check(x, y, z, 1, m, k, n, ta, tb);
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_tensor_release(z);
  }
}

static void every_remainder_of_a_tile_is_right(void) {
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (int64_t m = 1; m <= 30; m++) check_matmul(&b, m, 19, 37);
  for (int64_t n = 1; n <= 70; n++) check_matmul(&b, 17, 9, n);
  for (int64_t k = 1; k <= 18; k++) check_matmul(&b, 15, k, 33);
  weft_bench_deinit(&b);
}

static void blocks_and_pieces_are_right(void) {
  static const int64_t sizes[][3] = {{1, 700, 900},  {2, 513, 600},  {3, 257, 1000},  {900, 700, 1},
                                     {450, 300, 70}, {70, 300, 450}, {200, 1030, 40}, {33, 600, 170},
                                     {500, 17, 500}, {1, 3000, 7}};
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    check_matmul(&b, sizes[i][0], sizes[i][1], sizes[i][2]);
  }
  weft_bench_deinit(&b);
}

static void batches_are_right(void) {
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (int form = 0; form < 4; form++) {
    const bool ta = form & 1, tb = form & 2;
    const int64_t m = 20, k = 33, n = 45, count = 60;
    char attrs[64];
    (void)snprintf(attrs, sizeof attrs, "adj_x=%s adj_y=%s", ta ? "true" : "false", tb ? "true" : "false");
    const weft_shape_t sx = {.rank = 4, .dims = {4, 15, ta ? k : m, ta ? m : k}},
                       sy = {.rank = 4, .dims = {4, 15, tb ? n : k, tb ? k : n}};
    weft_tensor_t *x = numbers(&sx, 1), *y = numbers(&sy, 2), *z = run2(&b, "BatchMatMulV2", attrs, x, y);
    check(x, y, z, count, m, k, n, ta, tb);
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_tensor_release(z);
  }
  weft_bench_deinit(&b);
}

/* [2,1,3,4] . [5,4,6]: the second operand's only dimension is the first's second, which repeats. */
static void batches_that_broadcast_are_right(void) {
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  const weft_shape_t sx = {.rank = 4, .dims = {2, 1, 3, 4}}, sy = {.rank = 3, .dims = {5, 4, 6}};
  weft_tensor_t *x = numbers(&sx, 1), *y = numbers(&sy, 2), *z = run2(&b, "BatchMatMulV2", NULL, x, y);
  CU_ASSERT_EQUAL_FATAL(z->count, 2 * 5 * 3 * 6);
  for (int64_t e = 0; e < z->count; e++) {
    const int64_t j = e % 6, i = e / 6 % 3, q = e / 18 % 5, p = e / 90;
    double sum = 0;
    for (int64_t l = 0; l < 4; l++) sum += at(x, p * 12 + i * 4 + l) * at(y, q * 24 + l * 6 + j);
    CU_ASSERT_DOUBLE_EQUAL(at(z, e), sum, 1e-5);
  }
  weft_tensor_release(x);
  weft_tensor_release(y);
  weft_tensor_release(z);
  weft_bench_deinit(&b);
}

/* [3,2,m,k] . [k,n]: what is no more than 6 m rows. */
static void a_matrix_times_all_batches_is_right(void) {
  static const int64_t sizes[][3] = {{1, 70, 90}, {4, 33, 17}, {20, 300, 45}, {1, 5, 1},
                                     {2, 1, 3},   {0, 4, 4},   {3, 0, 2}};
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (size_t i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
    const int64_t *size = sizes[i / 4], m = size[0], k = size[1], n = size[2];
    const bool ta = i & 1, tb = i & 2;
    char attrs[64];
    (void)snprintf(attrs, sizeof attrs, "adj_x=%s adj_y=%s", ta ? "true" : "false", tb ? "true" : "false");
    const weft_shape_t sx = {.rank = 4, .dims = {3, 2, ta ? k : m, ta ? m : k}},
                       sy = weft_shape_matrix(tb ? n : k, tb ? k : n);
    weft_tensor_t *x = numbers(&sx, 1), *y = numbers(&sy, 2), *z = run2(&b, "BatchMatMulV2", attrs, x, y);
    CU_ASSERT_EQUAL_FATAL(z->count, 6 * m * n);
    for (int64_t e = 0; e < z->count; e++) {
      const int64_t col = e % n, row = e / n % m, batch = e / n / m;
      double sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum +=
            at(x, batch * m * k + (ta ? l * m + row : row * k + l)) * at(y, tb ? col * k + l : l * n + col);
      CU_ASSERT_DOUBLE_EQUAL(at(z, e), sum, 1e-4);
    }
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_tensor_release(z);
  }
  weft_bench_deinit(&b);
}

/* The dimensions of b, q, k, h and d in the operands and the output of an equation, by letter. */
static void check_einsum(weft_bench_t *b, const char *first, const char *second, const char *out) {
  static const char letters[] = "bqkhd";
  static const int64_t dims[] = {2, 5, 7, 3, 4};
  const char *terms[3] = {first, second, out};
  weft_shape_t shapes[3] = {{0}};
  char attrs[64];
  for (int t = 0; t < 3; t++) {
    for (const char *c = terms[t]; *c != '\0'; c++)
      shapes[t].dims[shapes[t].rank++] = dims[strchr(letters, *c) - letters];
  }
  (void)snprintf(attrs, sizeof attrs, "equation='%s,%s->%s' N=2", first, second, out);
  weft_tensor_t *x = numbers(&shapes[0], 1), *y = numbers(&shapes[1], 2), *z = run2(b, "Einsum", attrs, x, y);
  CU_ASSERT_TRUE(weft_shape_eq(&z->shape, &shapes[2]));
  weft_tensor_t *const tensors[3] = {x, y, z};
  double want[1024] = {0}, worst = 0;
  for (int64_t e = 0; e < 2 * 5 * 7 * 3 * 4; e++) { /* every value of every label */
    int64_t at_of[3] = {0}, index[5], rest = e;
    for (int d = 0; d < 5; d++) {
      index[d] = rest % dims[d];
      rest /= dims[d];
    }
    bool is_first = true; /* a label in none of the terms counts once */
    for (int d = 0; d < 5; d++) {
      const bool is_used = strchr(first, letters[d]) != NULL || strchr(second, letters[d]) != NULL;
      is_first = is_first && (is_used || index[d] == 0);
    }
    if (!is_first) continue;
    for (int t = 0; t < 3; t++) {
      for (const char *c = terms[t]; *c != '\0'; c++) {
        const int d = (int)(strchr(letters, *c) - letters);
        at_of[t] = at_of[t] * dims[d] + index[d];
      }
    }
    want[at_of[2]] += at(tensors[0], at_of[0]) * at(tensors[1], at_of[1]);
  }
  for (int64_t i = 0; i < z->count; i++) worst = fmax(worst, fabs(want[i] - at(z, i)));
  if (!(worst < 1e-5)) fprintf(stderr, "%s: off by %g\n", attrs, worst);
  CU_ASSERT_TRUE(worst < 1e-5);
  for (int t = 0; t < 3; t++) weft_tensor_release(tensors[t]);
}

static void einsum_uses_its_operands_where_they_are(void) {
  static const char *const equations[][3] = {
      {"bqhd", "bkhd", "bhqk"}, {"bhqk", "bkhd", "bqhd"}, {"bqhd", "bkhd", "bqhk"}, {"bqhd", "bkhd", "bhkq"},
      {"bqhd", "hdk", "bqk"},   {"bqhd", "dhk", "bqk"},   {"qd", "dk", "qk"},       {"qd", "dk", "kq"},
      {"dq", "kd", "kq"},       {"q", "k", "qk"},         {"qk", "k", "q"},         {"qk", "q", "k"},
      {"bqd", "bqd", "bq"},     {"hbqd", "dk", "qkbh"},   {"bqh", "d", "bqh"},      {"q", "q", ""},
  };
  weft_bench_t b;
  CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&b));
  for (size_t i = 0; i < sizeof equations / sizeof equations[0]; i++) {
    check_einsum(&b, equations[i][0], equations[i][1], equations[i][2]);
  }
  weft_bench_deinit(&b);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every remainder of a tile is right", every_remainder_of_a_tile_is_right},
      {"blocks and pieces are right", blocks_and_pieces_are_right},
      {"batches are right", batches_are_right},
      {"batches that broadcast are right", batches_that_broadcast_are_right},
      {"a matrix times all batches is right", a_matrix_times_all_batches_is_right},
      {"einsum uses its operands where they are", einsum_uses_its_operands_where_they_are},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("products", tests);
}
