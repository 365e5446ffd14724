/* CTCLoss, against the CPU's kernel. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* What is wrong in a round, behind those in which nothing is. */
enum { EMPTY_SEQUENCE = 4, LONG_LABELS, NULL_LABEL, OUT_OF_ORDER };

static void labels(weft_row_case_t *c) {
  enum { MOST = 64 };
  const int64_t time = c->round == 1 ? 40 : weft_row_int(c, 4, 9), batch = weft_row_int(c, 1, 4),
                classes = c->round == 2 ? 300 : weft_row_int(c, 2, 6);
  const weft_shape_t x = {.rank = 3, .dims = {time, batch, classes}};
  int64_t at[2 * MOST], values[MOST], lengths[4], n = 0;
  for (int64_t b = 0; b < batch; b++) {
    const int64_t num = c->round == 1 ? 12 : weft_row_int(c, 1, c->round == LONG_LABELS ? 12 : 3);
    lengths[b] = weft_row_int(c, num < time ? num : time, time);
    if (c->round == EMPTY_SEQUENCE && b == 0) lengths[b] = 0;
    for (int64_t k = 0; k < num; k++, n++) {
      at[2 * n] = b;
      at[2 * n + 1] = k;
      values[n] = weft_row_int(c, 0, classes - 2);
    }
    if (c->round == NULL_LABEL && b == 0) values[0] = classes;
  }
  if (c->round == OUT_OF_ORDER) at[2 * n - 1] = 99, at[1] = n > 1 ? 100 : -1;
  const weft_shape_t indices = weft_shape_matrix(n, 2);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_tensor_t *t = weft_row_add(c, WEFT_I64, &indices, WEFT_ROW_SMALL);
  memcpy(t->data, at, (size_t)(2 * n) * sizeof at[0]);
  weft_row_add_ints(c, WEFT_I32, (int)n, values);
  weft_row_add_ints(c, WEFT_I32, (int)batch, lengths);
  weft_row_attr(c,
                "preprocess_collapse_repeated=%s ctc_merge_repeated=%s ignore_longer_outputs_than_inputs=%s",
                c->round % 3 == 1 ? "true" : "false", c->round % 4 == 3 ? "false" : "true",
                c->round == LONG_LABELS ? "true" : "false");
}

static const weft_row_op_t ops[] = {
    {"CTCLoss", UINT32_C(1) << WEFT_CUDA_f32, labels, .tolerance = 20, .same_message = true},
    /* Corrections of sums are computed in float. */
    {"CTCLoss", UINT32_C(1) << WEFT_CUDA_f64, labels, .tolerance = 1e7, .same_message = true},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_ctc_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_ctc_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("ctc", tests);
}
