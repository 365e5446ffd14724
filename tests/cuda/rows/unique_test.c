/* Unique, UniqueWithCounts and their V2 forms, against the CPU's kernels. */
#include <string.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Numbers of which many are equal, zeros of either sign and NaNs; in one round all are equal, in another none
 * is, and in a third there are several pieces of them. */
static weft_tensor_t *add_values(weft_row_case_t *c, const weft_shape_t *s) {
  weft_tensor_t *x = weft_row_add(c, c->dtype, s, c->round == 4 ? WEFT_ROW_SMALL : WEFT_ROW_ANY);
  const size_t size = x->count == 0 ? 1 : x->bytes / (size_t)x->count;
  char *at = x->data;
  if (c->round == 4) return x;
  for (int64_t i = 1; i < x->count; i++) {
    const int64_t from = c->round == 3 ? 0 : weft_row_int(c, 0, i);
    memcpy(at + (size_t)i * size, at + (size_t)from * size, size);
  }
  return x;
}
static void add_idx(weft_row_case_t *c) {
  weft_row_attr(c, "out_idx=%s", c->round % 2 == 0 ? "int32" : "int64");
}

static void vector(weft_row_case_t *c) {
  const weft_shape_t s = c->round == 7   ? weft_shape_matrix(2, 2)
                         : c->round == 2 ? weft_shape_vector(0)
                         : c->round == 1 ? weft_shape_vector(9001)
                                         : weft_shape_vector(weft_row_int(c, 1, 300));
  (void)add_values(c, &s);
  add_idx(c);
}

/* Along an axis of a tensor, whose rows repeat; an axis that is not there, or two. */
static void along(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 1, 4);
  if (c->round == 1) s = (weft_shape_t){.rank = 3, .dims = {2, 700, 3}};
  int64_t axis[2] = {c->round == 1 ? 1 : weft_row_int(c, -s.rank, s.rank - 1), 0};
  weft_tensor_t *x = add_values(c, &s);
  const int at = (int)(axis[0] < 0 ? axis[0] + s.rank : axis[0]);
  int64_t inner = 1;
  for (int d = at + 1; d < s.rank; d++) inner *= s.dims[d];
  const size_t row = x->count == 0 ? 0 : (size_t)inner * (x->bytes / (size_t)x->count);
  const int64_t n = s.dims[at], outer = row == 0 || n == 0 ? 0 : (int64_t)(x->bytes / row) / n;
  for (int64_t i = 1; i < n && c->round != 4; i++) {
    const int64_t from = weft_row_int(c, 0, i);
    for (int64_t o = 0; o < outer; o++) {
      char *rows = (char *)x->data + (size_t)(o * n) * row;
      memmove(rows + (size_t)i * row, rows + (size_t)from * row, row);
    }
  }
  if (c->round == 7) axis[0] = s.rank;
  weft_row_add_ints(c, c->round % 2 == 0 ? WEFT_I64 : WEFT_I32,
                    c->round == 5   ? 0
                    : c->round == 6 ? 2
                                    : 1,
                    axis);
  add_idx(c);
}

#define TYPES \
  ((WEFT_CUDA_SET(EVERY) & ~WEFT_DTYPE_BIT(WEFT_I32)) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
static const weft_row_op_t ops[] = {
    {"Unique", TYPES, vector, .tolerance = -1, .same_message = true},
    {"UniqueWithCounts", TYPES, vector, .tolerance = -1, .same_message = true},
    {"UniqueV2", TYPES, along, .tolerance = -1, .same_message = true},
    {"UniqueWithCountsV2", TYPES, along, .tolerance = -1, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_unique_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_unique_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("unique", tests);
}
