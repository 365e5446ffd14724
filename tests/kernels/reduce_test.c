/* tests/kernels/reduce_test.c - reductions of rows of every length: sums of floats are exact where sums in
 * double are, and a NaN is found wherever it is.
 */
#include <math.h>

#include "tensor/half.h"
#include "tests/kernels/script.h"

enum { ROWS = 3 };
static const int64_t lengths[] = {1,   2,   3,   7,   8,   9,   15,  16,   17,   31,  32,
                                  33,  39,  40,  41,  63,  64,  100, 127,  255,  256, 257,
                                  263, 264, 287, 288, 300, 319, 320, 1000, 1023, 1024};
enum { NUM_LENGTHS = sizeof lengths / sizeof lengths[0] };

static weft_bench_t bench;

static weft_tensor_t *tensor_of(weft_dtype_t dtype, weft_shape_t shape) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &t));
  return t;
}

static void put(weft_tensor_t *t, int64_t i, double v) {
  switch (t->dtype) {
    case WEFT_F64: ((double *)t->data)[i] = v; break;
    case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
    case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v); break;
    default: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)v); break;
  }
}

static double at(const weft_tensor_t *t, int64_t i) {
  switch (t->dtype) {
    case WEFT_F64: return ((const double *)t->data)[i];
    case WEFT_F32: return (double)((const float *)t->data)[i];
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    default: return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
  }
}

static weft_tensor_t *reduce(const char *op, weft_tensor_t *x, int axis) {
  weft_tensor_t *inputs[] = {x, tensor_of(WEFT_I32, WEFT_SCALAR)}, *y = NULL;
  *(int32_t *)inputs[1]->data = axis;
  int n = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_run_op(&bench, op, "", inputs, strcmp(op, "L2Loss") == 0 ? 1 : 2, &y, 1, &n));
  weft_tensor_release(inputs[1]);
  return y;
}

/* Multiples of 1/256 below 1000: their sum, and that of their squares, has fewer bits than a double. */
static double number(int64_t i) { return (double)((i * 7919 + 13) % 512000 - 256000) / 256; }

static void sums_of_floats_are_those_of_doubles(void) {
  for (int k = 0; k < NUM_LENGTHS; k++) {
    const int64_t n = lengths[k];
    weft_tensor_t *rows = tensor_of(WEFT_F32, weft_shape_matrix(ROWS, n)),
                  *columns = tensor_of(WEFT_F32, weft_shape_matrix(n, ROWS));
    double sum[ROWS] = {0}, squares[ROWS] = {0};
    for (int64_t i = 0; i < ROWS * n; i++) {
      const double v = number(i);
      put(rows, i, v);
      put(columns, i % n * ROWS + i / n, v);
      sum[i / n] += v;
      squares[i / n] += v * v;
    }
    for (int turned = 0; turned < 2; turned++) {
      weft_tensor_t *x = turned ? columns : rows;
      weft_tensor_t *s = reduce("Sum", x, !turned), *m = reduce("Mean", x, !turned),
                    *e = reduce("EuclideanNorm", x, !turned), *l = reduce("L2Loss", x, 0);
      for (int r = 0; r < ROWS; r++) {
        CU_ASSERT_EQUAL(at(s, r), (double)(float)sum[r]);
        CU_ASSERT_TRUE(fabs(at(m, r) - sum[r] / (double)n) <= 1e-7 * fabs(sum[r] / (double)n));
        CU_ASSERT_EQUAL(at(e, r), (double)(float)sqrt(squares[r]));
      }
      CU_ASSERT_EQUAL(at(l, 0), (double)(float)((squares[0] + squares[1] + squares[2]) / 2));
      weft_tensor_release(s);
      weft_tensor_release(m);
      weft_tensor_release(e);
      weft_tensor_release(l);
    }
    weft_tensor_release(rows);
    weft_tensor_release(columns);
  }
}

/* In each place of each row one number that is special. */
static void check_extreme(weft_dtype_t dtype, const char *op, int64_t n, int64_t place, double special) {
  weft_tensor_t *x = tensor_of(dtype, weft_shape_matrix(ROWS, n));
  double want[ROWS] = {0};
  const bool is_max = strcmp(op, "Max") == 0;
  for (int64_t i = 0; i < ROWS * n; i++) {
    put(x, i, i % n == place ? special : floor(number(i) / 8)); /* exact in bfloat16 */
    const double v = at(x, i);
    double *w = &want[i / n];
    if (i % n == 0 || v != v || (*w == *w && (is_max ? v > *w : v < *w))) *w = v;
  }
  weft_tensor_t *y = reduce(op, x, 1);
  for (int r = 0; r < ROWS; r++)
    CU_ASSERT_TRUE(at(y, r) == want[r] || (at(y, r) != at(y, r) && want[r] != want[r]));
  weft_tensor_release(x);
  weft_tensor_release(y);
}

static void extremes_find_what_is_special_anywhere(void) {
  static const weft_dtype_t dtypes[] = {WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16};
  static const double specials[] = {(double)NAN, -(double)NAN, (double)INFINITY, -(double)INFINITY, 0};
  for (int k = 0; k < NUM_LENGTHS; k++) {
    const int64_t n = lengths[k], places[] = {0, n / 3, n / 2, n - 1};
    for (int d = 0; d < 4; d++) {
      for (int p = 0; p < 4; p++) {
        for (int s = 0; s < 5; s++) {
          check_extreme(dtypes[d], "Max", n, places[p], specials[s]);
          check_extreme(dtypes[d], "Min", n, places[p], specials[s]);
        }
      }
    }
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"sums of floats are those of doubles", sums_of_floats_are_those_of_doubles},
      {"extremes find what is special anywhere", extremes_find_what_is_special_anywhere},
      CU_TEST_INFO_NULL,
  };
  return weft_run_bench_tests("reductions", tests, &bench);
}
