/* Rows that are handed out to several tensors, against the CPU's kernel. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define PLAIN_BUT_I32 \
  ((WEFT_CUDA_SET(EVERY) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128)) & ~WEFT_DTYPE_BIT(WEFT_I32))

static void partition(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  weft_shape_t to = s;
  const int n = (int)weft_row_int(c, 1, 5);
  to.rank = (int)weft_row_int(c, 0, s.rank);
  if (c->round == 7 && to.rank > 0) to.dims[0]++;
  weft_row_attr(c, "num_partitions=%d", n);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  weft_tensor_t *t = weft_row_add(c, WEFT_I32, &to, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++) ((int32_t *)t->data)[i] = (int32_t)weft_row_int(c, 0, n - 1);
  if (c->round == 6 && t->count > 0) ((int32_t *)t->data)[t->count - 1] = n;
  if (c->round == 5 && t->count > 0) ((int32_t *)t->data)[0] = -1;
}

static const weft_row_op_t ops[] = {{"DynamicPartition", PLAIN_BUT_I32, partition, .tolerance = -1}};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_partition_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_partition_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("partition", tests);
}
