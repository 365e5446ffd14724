/* QR, eigenvalues and singular values, against the CPU's kernels: QR to the number. Vectors of the others may
 * have other signs, so their rows give what they make up together: that is tests/cuda:linalg_test. */
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

static const weft_row_op_t ops[] = {
    {"BatchSelfAdjointEigV2", REALS, eigenvalues, .tolerance = 64, .same_message = true},
    {"BatchSvd", TYPES, singular_values, .tolerance = 16, .same_message = true},
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
