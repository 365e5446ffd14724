/* What folds start from: as many elements as are asked for, each the same, and nothing behind them. */
#include "tensor/update.h"

#include <string.h>

#include "tests/runner.h"

static void every_element_is_the_identity(void) {
  static const weft_dtype_t dtypes[] = {WEFT_I8, WEFT_F16, WEFT_F32, WEFT_F64, WEFT_C128};
  static const weft_update_t updates[] = {WEFT_UPDATE_ADD, WEFT_UPDATE_MUL, WEFT_UPDATE_MAX};
  static const int64_t counts[] = {0, 1, 2, 3, 1000, 1024, 1025, 2048, 5000};
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    const size_t size = weft_dtype_size(dtypes[d]);
    for (size_t u = 0; u < sizeof updates / sizeof updates[0]; u++) {
      if (dtypes[d] == WEFT_C128 && updates[u] == WEFT_UPDATE_MAX) continue; /* has no order */
      char one[16], *all = weft_malloc(5001 * size);
      CU_ASSERT_PTR_NOT_NULL_FATAL(all);
      weft_update_identity(updates[u], dtypes[d], 1, one);
      for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
        const size_t count = (size_t)counts[n];
        bool is_right = true;
        memset(all, 0x5a, 5001 * size);
        weft_update_identity(updates[u], dtypes[d], counts[n], all);
        for (size_t i = 0; i < count; i++) is_right &= memcmp(all + i * size, one, size) == 0;
        for (size_t i = count * size; i < 5001 * size; i++) is_right &= all[i] == 0x5a;
        CU_ASSERT_TRUE(is_right);
      }
      weft_free(all);
    }
  }
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"every element is the identity", every_element_is_the_identity},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("update", tests);
}
