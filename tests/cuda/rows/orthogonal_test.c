/* QR, eigenvalues, singular values and least squares, against the CPU's kernels: QR to the number. Vectors of
 * the others may have other signs, so their rows give what they make up together: that is
 * tests/cuda:linalg_test. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define COMPLEX (WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define REALS WEFT_CUDA_SET(F32_F64)
#define TYPES (REALS | COMPLEX)

static int64_t size_of(weft_row_case_t *c) {
  return c->round == 0   ? 1
         : c->round == 1 ? weft_row_int(c, 0, 1)
         : c->round == 3 ? 9
                         : weft_row_int(c, 2, 5);
}

static weft_tensor_t *add(weft_row_case_t *c, int64_t m, int64_t n) {
  weft_shape_t s = {.rank = 0};
  const int batches = c->round == 2 || c->round == 4 ? 1 : 0;
  for (int i = 0; i < batches; i++) s.dims[s.rank++] = weft_row_int(c, c->round == 2 ? 0 : 1, 3);
  s.dims[s.rank++] = m;
  s.dims[s.rank++] = n;
  if (c->round == 7) s.rank = 1;
  return weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}

static void qr(weft_row_case_t *c) {
  const int64_t m = size_of(c), n = size_of(c);
  weft_tensor_t *t = add(c, m, n);
  if (c->round == 6) memset(t->data, 0, t->bytes);
  weft_row_attr(c, "full_matrices=%s", c->round % 2 == 0 ? "true" : "false");
}

static void eigenvalues(weft_row_case_t *c) {
  const int64_t n = size_of(c);
  weft_tensor_t *t = add(c, n, n + (c->round == 6)); /* of which the lower triangle is read */
  if (c->round == 5) memset(t->data, 0, t->bytes);
  weft_row_attr(c, "compute_v=false");
}

static void singular_values(weft_row_case_t *c) {
  const int64_t m = size_of(c), n = size_of(c);
  weft_tensor_t *t = add(c, m, n);
  if (c->round == 5) memset(t->data, 0, t->bytes / 2);
  if (c->round == 6) memset(t->data, 0, t->bytes);
  weft_row_attr(c, "compute_uv=false");
}

/* Adds v to the diagonals of matrices [n, m], so that their condition is small. */
static void lift(weft_tensor_t *t, int64_t n, int64_t m, double v) {
  for (int64_t i = 0; i < t->count; i++) {
    if (i % (n * m) / m != i % m) continue;
    switch (t->dtype) {
      case WEFT_F32: ((float *)t->data)[i] += (float)v; break;
      case WEFT_F64: ((double *)t->data)[i] += v; break;
      case WEFT_C64: ((float *)t->data)[2 * i] += (float)v; break;
      default: ((double *)t->data)[2 * i] += v; break;
    }
  }
}

static void least_squares(weft_row_case_t *c) {
  const bool is_fast = c->round % 2 == 0;
  const int64_t m = size_of(c), n = size_of(c);
  weft_tensor_t *a = add(c, m, n);
  weft_shape_t b = a->shape;
  if (a->shape.rank > 1) lift(a, m, n, 6);
  /* Of no rank: refused by the normal equations, and zeros by the other way. Of less than the full one. */
  if (c->round == 6) memset(a->data, 0, a->bytes);
  if (c->round == 5 && m > 1) memcpy(a->data, (char *)a->data + a->bytes / (size_t)m, a->bytes / (size_t)m);
  b.dims[b.rank - 1] = weft_row_int(c, 1, 4);
  if (c->round == 3 && c->dtype == WEFT_F64) b.dims[b.rank - 2]++;
  weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
  weft_tensor_t *l2 = weft_row_add(c, WEFT_F64, &WEFT_SCALAR, WEFT_ROW_SMALL);
  ((double *)l2->data)[0] = c->round == 4 ? 0.5 : c->round == 1 && c->dtype == WEFT_F32 ? -1 : 0;
  weft_row_attr(c, "fast=%s", is_fast ? "true" : "false");
}

static const weft_row_op_t ops[] = {
    {"BatchMatrixSolveLs", REALS, least_squares, .tolerance = 400, .same_message = true},
    {"BatchSelfAdjointEigV2", REALS, eigenvalues, .tolerance = 64, .same_message = true},
    {"BatchSvd", TYPES, singular_values, .tolerance = 16, .same_message = true},
    {"MatrixSolveLs", TYPES, least_squares, .tolerance = 400, .same_message = true},
    {"Qr", TYPES, qr, .tolerance = 16, .same_message = true},
    {"SelfAdjointEigV2", TYPES, eigenvalues, .tolerance = 64, .same_message = true},
    {"Svd", TYPES, singular_values, .tolerance = 16, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_orthogonal_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_orthogonal_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("orthogonal", tests);
}
