/* Cholesky, LU and triangular equations, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define COMPLEX (WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define REALS WEFT_CUDA_SET(F32_F64)
#define TYPES (REALS | COMPLEX)

/* ---- numbers of a tensor, as pairs of doubles ---- */

static double get(const weft_tensor_t *t, int64_t i, int part) {
  switch (t->dtype) {
    case WEFT_F32: return part == 0 ? (double)((const float *)t->data)[i] : 0;
    case WEFT_F64: return part == 0 ? ((const double *)t->data)[i] : 0;
    case WEFT_C64: return (double)((const float *)t->data)[2 * i + part];
    default: return ((const double *)t->data)[2 * i + part];
  }
}

static void put(weft_tensor_t *t, int64_t i, double re, double im) {
  switch (t->dtype) {
    case WEFT_F32: ((float *)t->data)[i] = (float)re; break;
    case WEFT_F64: ((double *)t->data)[i] = re; break;
    case WEFT_C64:
      ((float *)t->data)[2 * i] = (float)re;
      ((float *)t->data)[2 * i + 1] = (float)im;
      break;
    default:
      ((double *)t->data)[2 * i] = re;
      ((double *)t->data)[2 * i + 1] = im;
      break;
  }
}

/* Matrices [n, m], with up to two batch dimensions. */
static weft_shape_t shape_of(weft_row_case_t *c, int64_t n, int64_t m) {
  weft_shape_t s = {.rank = 0};
  const int batches = (int)weft_row_int(c, 0, 2);
  for (int i = 0; i < batches; i++) s.dims[s.rank++] = weft_row_int(c, c->round == 2 ? 0 : 1, 3);
  s.dims[s.rank++] = n;
  s.dims[s.rank++] = m;
  return s;
}

static int64_t size_of(weft_row_case_t *c) {
  return c->round == 0 ? 1 : c->round == 1 ? 0 : c->round == 3 ? 35 : weft_row_int(c, 2, 7);
}

/* Adds `by` to the diagonals. */
static void shift(weft_tensor_t *t, double by) {
  const int64_t n = t->shape.dims[t->shape.rank - 1];
  for (int64_t i = 0; i < t->count; i++) {
    if (i / n % n == i % n) put(t, i, get(t, i, 0) + by, get(t, i, 1));
  }
}

/* A matrix with an inverse: its diagonal is the largest of each row. */
static weft_tensor_t *regular(weft_row_case_t *c, const weft_shape_t *s) {
  weft_tensor_t *t = weft_row_add(c, c->dtype, s, WEFT_ROW_SMALL);
  const int64_t n = s->dims[s->rank - 1];
  for (int64_t i = 0; i < t->count; i++) put(t, i, get(t, i, 0) / (double)n, get(t, i, 1) / (double)n);
  shift(t, 3);
  /* Rows in another order, so that LU has to look for its pivots. */
  for (int64_t at = 0; at + n * n <= t->count && n > 1; at += n * n) {
    for (int64_t j = 0; j < n; j++) {
      const double re = get(t, at + j, 0), im = get(t, at + j, 1);
      put(t, at + j, get(t, at + (n - 1) * n + j, 0), get(t, at + (n - 1) * n + j, 1));
      put(t, at + (n - 1) * n + j, re, im);
    }
  }
  return t;
}

/* A Hermitian matrix that is positive definite. */
static weft_tensor_t *definite(weft_row_case_t *c, const weft_shape_t *s) {
  weft_tensor_t *t = weft_row_add(c, c->dtype, s, WEFT_ROW_SMALL);
  const int64_t n = s->dims[s->rank - 1];
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t at = i / (n * n) * n * n, row = i / n % n, column = i % n, mirror = at + column * n + row;
    if (row == column) put(t, i, get(t, i, 0), 0);
    if (row < column) put(t, i, get(t, mirror, 0), -get(t, mirror, 1));
  }
  shift(t, 3 * (double)n);
  return t;
}

/* ---- arguments ---- */

static void cholesky(weft_row_case_t *c) {
  const int64_t n = size_of(c);
  weft_shape_t s = shape_of(c, n, n);
  if (c->round == 6) s.dims[s.rank - 1]++;
  if (c->round == 7) s.rank = 1;
  if (c->round >= 6) {
    (void)weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  } else {
    shift(definite(c, &s), c->round == 5 ? -8 * (double)n : 0); /* not definite */
  }
}

static void cholesky_grad(weft_row_case_t *c) {
  const int64_t n = size_of(c);
  weft_shape_t s = shape_of(c, n, n);
  weft_tensor_t *l = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < l->count; i++) put(l, i, get(l, i, 0) / (double)n, 0);
  shift(l, 3);
  if (c->round == 6) s.dims[s.rank - 1]++;
  if (c->round == 7) s.rank = 1;
  (void)weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static void of_square(weft_row_case_t *c) {
  const int64_t n = size_of(c);
  weft_shape_t s = shape_of(c, n, n);
  if (c->round == 6) s.dims[s.rank - 1]++;
  if (c->round == 7) s.rank = 1;
  if (c->round >= 6) {
    (void)weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
    return;
  }
  weft_tensor_t *t = regular(c, &s);
  for (int64_t i = 0; c->round == 5 && i < n && i < t->count; i++) put(t, i * n, 0, 0); /* no inverse */
}

static void inverse(weft_row_case_t *c) {
  of_square(c);
  weft_row_attr(c, "adjoint=%s", c->round % 2 == 0 ? "true" : "false");
}

static void solve(weft_row_case_t *c) {
  inverse(c);
  weft_shape_t s = c->inputs[0]->shape;
  if (s.rank >= 2 && c->round != 6) s.dims[s.rank - 1] = weft_row_int(c, c->round == 4 ? 0 : 1, 5);
  (void)weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static void triangular(weft_row_case_t *c) {
  const int64_t n = size_of(c), m = weft_row_int(c, 1, 5);
  weft_shape_t s = shape_of(c, n, n), b = s;
  b.dims[b.rank - 1] = m;
  if (s.rank > 2 && c->round % 2 == 0) s.dims[0] = 1; /* repeated */
  if (s.rank > 2 && c->round == 3) {
    for (int d = 0; d + 1 < b.rank; d++) b.dims[d] = b.dims[d + 1];
    b.rank--;
  }
  if (c->round == 6) b.dims[b.rank - 2]++;
  if (c->round == 7) s.dims[s.rank - 1]++;
  weft_tensor_t *a = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < a->count; i++)
    put(a, i, get(a, i, 0) / (double)(n + 1), get(a, i, 1) / (double)(n + 1));
  if (c->round != 7) shift(a, 3);
  (void)weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
  weft_row_attr(c, "lower=%s", c->round % 2 == 0 ? "true" : "false");
  weft_row_attr(c, "adjoint=%s", c->round / 2 % 2 == 0 ? "true" : "false");
}

static const weft_row_op_t ops[] = {
    {"BatchCholesky", REALS, cholesky, .tolerance = 8, .same_message = true},
    {"BatchCholeskyGrad", REALS, cholesky_grad, .tolerance = 16, .same_message = true},
    {"BatchMatrixDeterminant", TYPES, of_square, .tolerance = 16, .same_message = true},
    {"BatchMatrixInverse", REALS, inverse, .tolerance = 8, .same_message = true},
    {"BatchMatrixSolve", REALS, solve, .tolerance = 8, .same_message = true},
    {"BatchMatrixTriangularSolve", REALS, triangular, .tolerance = 8, .same_message = true},
    {"Cholesky", TYPES, cholesky, .tolerance = 8, .same_message = true},
    {"CholeskyGrad", REALS, cholesky_grad, .tolerance = 16, .same_message = true},
    {"LogMatrixDeterminant", TYPES, of_square, .tolerance = 16, .same_message = true},
    {"MatrixDeterminant", TYPES, of_square, .tolerance = 16, .same_message = true},
    {"MatrixInverse", TYPES, inverse, .tolerance = 8, .same_message = true},
    {"MatrixSolve", TYPES, solve, .tolerance = 8, .same_message = true},
    {"MatrixTriangularSolve", TYPES, triangular, .tolerance = 8, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_linalg_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_linalg_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("linalg", tests);
}
