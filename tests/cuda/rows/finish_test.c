/* Rows whose results depend on values in the device's memory, against the CPU's kernels: Where, both
 * CheckNumerics and InvertPermutation. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define COMPLEX (WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))

/* Half of the elements, or some, all or none of them, are zero. */
static void where(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, c->round == 7 ? 0 : 1, 5);
  if (c->round == 3) s = weft_shape_vector(3 * 4096 + 17); /* several pieces, the last of them not whole */
  if (c->round == 4) s = weft_shape_matrix(2, 4096);
  weft_tensor_t *x = weft_row_add(c, c->dtype, &s, c->round == 5 ? WEFT_ROW_NONZERO : WEFT_ROW_ANY);
  const size_t size = x->count == 0 ? 1 : x->bytes / (size_t)x->count;
  for (int64_t i = 0; c->round != 5 && i < x->count; i++) {
    const int64_t each = c->round == 3 ? 100 : 1;
    if (c->round == 6 || weft_row_int(c, 0, each) != 0) memset((char *)x->data + (size_t)i * size, 0, size);
  }
}

/* Numbers, and what `round` says of others: bit 0 NaN, bit 1 -Inf, bit 2 Inf. */
static void check(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 3), n = c->round == 0 ? s : weft_shape_vector(1000);
  weft_tensor_t *x = weft_row_add(c, c->dtype, &n, WEFT_ROW_SMALL);
  const uint64_t nan[] = {0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000},
                 inf[] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
  const size_t size = c->dtype == WEFT_F64 ? 8 : c->dtype == WEFT_F32 ? 4 : 2;
  const int which = c->dtype == WEFT_F16 ? 0 : c->dtype == WEFT_BF16 ? 1 : c->dtype == WEFT_F32 ? 2 : 3;
  weft_row_attr(c, "message='what it is'");
  for (int bit = 0; bit < 3 && x->count == 1000; bit++) {
    const uint64_t sign = bit == 1 ? UINT64_C(1) << (8 * size - 1) : 0;
    const uint64_t bits = bit == 0 ? nan[which] : inf[which] | sign;
    if ((c->round >> bit & 1) != 0)
      memcpy((char *)x->data + (size_t)weft_row_int(c, 0, 999) * size, &bits, size);
  }
}

/* A permutation, but for some elements in later rounds: the same as others, or out of range. */
static void invert(weft_row_case_t *c) {
  enum { MOST = 3000 };
  static int64_t values[MOST];
  const int n = c->round == 7 ? 0 : c->round == 1 ? MOST : (int)weft_row_int(c, 1, 60);
  for (int i = 0; i < n; i++) {
    const int64_t with = weft_row_int(c, 0, i);
    values[i] = values[with];
    values[with] = i;
  }
  for (int i = 0; i < 3 && c->round >= 3 && n > 0; i++) {
    const int64_t at = weft_row_int(c, 0, n - 1);
    values[at] = c->round == 3 ? weft_row_int(c, 0, n - 1) : weft_row_int(c, -3, 2 * (int64_t)n);
  }
  if (c->round == 5) {
    const weft_shape_t matrix = weft_shape_matrix(2, 3);
    (void)weft_row_add(c, c->dtype, &matrix, WEFT_ROW_SMALL);
  } else {
    (void)weft_row_add_ints(c, c->dtype, n, values);
  }
}

static const weft_row_op_t permutations[] = {
    {"InvertPermutation", WEFT_DTYPE_BIT(WEFT_I64), invert, .tolerance = -1, .same_message = true},
};
static const weft_row_op_t wheres[] = {
    {"Where", WEFT_CUDA_SET(REAL_BOOL) | COMPLEX, where, .tolerance = -1},
};
static const weft_row_op_t checks[] = {
    {"CheckNumerics", WEFT_CUDA_SET(FLOAT), check, .tolerance = -1, .same_message = true},
    {"CheckNumericsV2", WEFT_CUDA_SET(FLOAT), check, .tolerance = -1, .same_message = true},
};

static void coordinates_as_the_cpu(void) { weft_row_check(weft_cuda_where_kernels, wheres, 1); }
static void checks_as_the_cpu(void) { weft_row_check(weft_cuda_check_kernels, checks, 2); }
static void permutations_as_the_cpu(void) { weft_row_check(weft_cuda_permutation_kernels, permutations, 1); }
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_permutation_kernels, permutations, 1);
  weft_row_check_covered(weft_cuda_where_kernels, wheres, 1);
  weft_row_check_covered(weft_cuda_check_kernels, checks, 2);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"coordinates as the CPU", coordinates_as_the_cpu},
      {"checks as the CPU", checks_as_the_cpu},
      {"permutations as the CPU", permutations_as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("finish", tests);
}
