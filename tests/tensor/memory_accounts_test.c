/* Memory by what it is for: what is in use, what was at most, and lifetimes of accounts and tensors. */
#include "tensor/memory_accounts.h"
#include "base/alloc.h"
#include "tests/runner.h"

enum { KB = 1024 };

static weft_tensor_t *make(weft_memory_accounts_t *a, weft_memory_tag_t tag, int64_t bytes) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(bytes);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_U8, &shape, weft_memory_account(a, tag), &t));
  return t;
}

static void bytes_are_counted_while_they_are_used(void) {
  weft_memory_accounts_t *a = weft_memory_accounts_create(weft_cpu_allocator());
  weft_tensor_t *x = make(a, WEFT_MEMORY_ACTIVATION, 4 * KB), *y = make(a, WEFT_MEMORY_ACTIVATION, 2 * KB),
                *g = make(a, WEFT_MEMORY_GRAD, KB);
  weft_tensor_t *view = NULL;
  weft_shape_t half = weft_shape_vector(2 * KB);
  CU_ASSERT_PTR_NULL(weft_tensor_slice(x, 0, half.dims[0], &view));
  weft_tensor_release(x); /* the view keeps its bytes */
  weft_tensor_release(y);
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_ACTIVATION), 4 * KB);
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_ACTIVATION, false), 6 * KB);
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_GRAD, false), KB);
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_ACTIVATION, true), 6 * KB); /* begins anew */
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_ACTIVATION, false), 4 * KB);
  weft_tensor_release(view);
  weft_tensor_release(g);
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_ACTIVATION), 0);
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_ACTIVATION, true), 4 * KB);
  CU_ASSERT_EQUAL(weft_memory_high_water(a, WEFT_MEMORY_ACTIVATION, false), 0);
  weft_memory_accounts_release(a);
}

static void a_value_of_a_variable_moves_once(void) {
  weft_memory_accounts_t *a = weft_memory_accounts_create(weft_cpu_allocator());
  weft_tensor_t *x = make(a, WEFT_MEMORY_ACTIVATION, KB), *slot = make(a, WEFT_MEMORY_OPT_STATE, 3 * KB),
                *copy = NULL;
  weft_memory_becomes_variable(x, WEFT_MEMORY_PARAM);
  weft_memory_becomes_variable(x, WEFT_MEMORY_PARAM);
  weft_memory_becomes_variable(slot, WEFT_MEMORY_PARAM); /* keeps its account */
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_ACTIVATION), 0);
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_PARAM), KB);
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_OPT_STATE), 3 * KB);
  CU_ASSERT_PTR_NULL(weft_tensor_copy(x, &copy)); /* copy on write: a parameter, too */
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_PARAM), 2 * KB);
  weft_tensor_release(copy);
  weft_tensor_release(x);
  weft_tensor_release(slot);
  CU_ASSERT_EQUAL(weft_memory_in_use(a, WEFT_MEMORY_PARAM), 0);
  weft_memory_accounts_release(a);
}

static void tensors_may_outlive_the_device(void) { /* the address sanitizer tells if they may not */
  weft_memory_accounts_t *a = weft_memory_accounts_create(weft_cpu_allocator());
  weft_tensor_t *x = make(a, WEFT_MEMORY_COMM, KB);
  weft_memory_accounts_release(a);
  weft_tensor_release(x);
}

static void tags_have_names(void) {
  for (weft_memory_tag_t i = 0; i < WEFT_NUM_MEMORY_TAGS; i++) {
    weft_memory_tag_t tag;
    CU_ASSERT_TRUE(weft_memory_tag_parse(weft_str(weft_memory_tag_name(i)), &tag));
    CU_ASSERT_EQUAL(tag, i);
  }
  weft_memory_tag_t none;
  CU_ASSERT_FALSE(weft_memory_tag_parse(WEFT_STR("nothing"), &none));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"bytes are counted while they are used", bytes_are_counted_while_they_are_used},
      {"a value of a variable moves once", a_value_of_a_variable_moves_once},
      {"tensors may outlive the device", tensors_may_outlive_the_device},
      {"tags have names", tags_have_names},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("memory accounts", tests);
}
