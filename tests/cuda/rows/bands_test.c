/* Equations and products of matrices with few diagonals, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define TYPES (WEFT_CUDA_SET(F32_F64) | WEFT_CUDA_SET(COMPLEX))

/* Element i of a tensor: a real number. */
static void put(weft_tensor_t *t, int64_t i, double v) {
  switch (t->dtype) {
    case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
    case WEFT_F64: ((double *)t->data)[i] = v; break;
    case WEFT_C64: ((weft_c64_t *)t->data)[i] = (weft_c64_t){(float)v, 0}; break;
    default: ((weft_c128_t *)t->data)[i] = (weft_c128_t){v, 0}; break;
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

static void multiply(weft_row_case_t *c) {
  const int64_t n = size_of(c), m = weft_row_int(c, c->round == 4 ? 0 : 1, 5);
  weft_shape_t diagonal = shape_of(c, 1, n), b = diagonal;
  b.dims[b.rank - 2] = n;
  b.dims[b.rank - 1] = m;
  if (c->round == 7) b.rank = 1;
  for (int i = 0; i < 3; i++) {
    weft_shape_t own = diagonal;
    if (c->round == 6 && i == 1) own.dims[own.rank - 1]++;
    (void)weft_row_add(c, c->dtype, &own, WEFT_ROW_SMALL);
  }
  (void)weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
}

/* Diagonals [3, n] and right sides [n, m]. The middle one is the largest of each row, so that nothing depends
 * on which pivots are chosen, or it is small, and then neighbouring rows are exchanged. */
static void solve(weft_row_case_t *c, bool pivots, bool perturbs) {
  const int64_t n = size_of(c), m = weft_row_int(c, c->round == 4 ? 0 : 1, 5);
  weft_shape_t s = shape_of(c, c->round == 6 ? 2 : 3, n), b = s;
  b.dims[b.rank - 2] = n + (c->round == 7);
  b.dims[b.rank - 1] = m;
  weft_tensor_t *a = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  (void)weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
  for (int64_t i = 0; c->round < 6 && i < a->count; i++) {
    if (i / n % 3 == 1) put(a, i, pivots && i % 2 == 0 ? 0.25 : i % 3 == 0 ? 5 : -6);
    if (i / n % 3 != 1 && pivots) put(a, i, i / n % 3 == 0 ? 1 + (double)(i % 5) : 2 + (double)(i % 3) / 2);
  }
  if (c->round == 5 && a->count > 0) { /* the first matrix has no inverse: its first row is 0 */
    put(a, 0, 0);
    put(a, n, 0);
    /* What a perturbed pivot gives depends on the last bit of the others: here they are exact. */
    for (int64_t i = 1; perturbs && i < n; i++) {
      put(a, i, 0);
      put(a, n + i, 2);
      put(a, 2 * n + i, 0);
    }
  }
  weft_row_attr(c, "partial_pivoting=%s perturb_singular=%s", pivots ? "true" : "false",
                perturbs ? "true" : "false");
}
static void plainly(weft_row_case_t *c) { solve(c, false, false); }
static void pivoted(weft_row_case_t *c) { solve(c, true, false); }
static void perturbed(weft_row_case_t *c) { solve(c, c->round != 4, true); }

/* Diagonals [bands, n] and right sides [n, m], whose batches broadcast. */
static void banded(weft_row_case_t *c) {
  const bool is_lower = c->round % 2 == 0;
  const int64_t n = c->round == 1 ? 3 : size_of(c), m = weft_row_int(c, 1, 5),
                bands = c->round == 2 ? 1 : weft_row_int(c, 1, n + 1);
  weft_shape_t s = shape_of(c, bands, n), b = s;
  b.dims[b.rank - 2] = n;
  b.dims[b.rank - 1] = m;
  if (s.rank > 2 && c->round % 2 == 0) s.dims[0] = 1; /* repeated */
  if (s.rank > 2 && c->round == 3) {
    for (int d = 0; d + 1 < b.rank; d++) b.dims[d] = b.dims[d + 1];
    b.rank--;
  }
  if (c->round == 6) b.dims[b.rank - 2]++;
  if (c->round == 7) s.dims[s.rank - 2] = 0;
  weft_tensor_t *a = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  const int64_t diagonal = is_lower ? 0 : bands - 1;
  for (int64_t i = 0; i < a->count; i++) {
    if (i / n % bands == diagonal) put(a, i, i % 2 == 0 ? 4 : -5);
  }
  if (c->round == 5) put(a, diagonal * n + n - 1, 0); /* no inverse */
  (void)weft_row_add(c, c->dtype, &b, WEFT_ROW_SMALL);
  weft_row_attr(c, "lower=%s", is_lower ? "true" : "false");
  weft_row_attr(c, "adjoint=%s", c->round / 2 % 2 == 0 ? "true" : "false");
}

static const weft_row_op_t ops[] = {
    {"BandedTriangularSolve", TYPES, banded, .tolerance = 32, .same_message = true},
    {"TridiagonalMatMul", TYPES, multiply, .tolerance = 2, .same_message = true},
    {"TridiagonalSolve", TYPES, plainly, .tolerance = 16, .same_message = true},
    {"TridiagonalSolve", TYPES, pivoted, .tolerance = 64, .same_message = true},
    {"TridiagonalSolve", TYPES, perturbed, .tolerance = 64, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_bands_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_bands_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("bands", tests);
}
