/* tests/kernels/kept_test.c - what a kernel keeps of an input: when it holds a tensor, and when it lets go.
 */
#include "kernels/cpu/math/kept.h"

#include "base/alloc.h"
#include "tests/runner.h"

static weft_tensor_t *new_tensor(void) {
  const float value = 1;
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_scalar(WEFT_F32, &value, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static weft_kept_t *new_kept(void) {
  weft_kept_t *k = NULL;
  weft_status_t *s = weft_kept_create(&k);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return k;
}

/* A step of a kernel: uses what is kept or offers a copy. Was one kept? */
static bool step(weft_kept_t *k, weft_tensor_t *t, int64_t key) {
  bool is_wanted = false;
  weft_kept_copy_t *copy = weft_kept_find(k, t, key, &is_wanted);
  const bool was_kept = copy != NULL;
  CU_ASSERT_FALSE(was_kept && is_wanted);
  weft_kept_copy_release(copy);
  if (is_wanted) {
    void *data = weft_aligned_alloc(64, 64);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    weft_kept_offer(k, t, key, data);
  }
  return was_kept;
}

static void the_second_step_makes_a_copy_for_all_others(void) {
  weft_kept_t *k = new_kept();
  weft_tensor_t *t = new_tensor();
  CU_ASSERT_FALSE(step(k, t, 1));
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(t)); /* so its bytes stay */
  CU_ASSERT_FALSE(step(k, t, 1));
  CU_ASSERT_TRUE(step(k, t, 1));
  CU_ASSERT_TRUE(step(k, t, 1));
  weft_kept_destroy(k);
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(t));
  weft_tensor_release(t);
}

static void another_layout_is_another_copy(void) {
  weft_kept_t *k = new_kept();
  weft_tensor_t *t = new_tensor();
  for (int i = 0; i < 3; i++) (void)step(k, t, 1);
  CU_ASSERT_FALSE(step(k, t, 2));
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(t));
  weft_kept_destroy(k);
  weft_tensor_release(t);
}

/* Of a thousand steps each of which has a tensor of its own, few hold theirs. */
static void what_changes_is_let_go(void) {
  weft_kept_t *k = new_kept();
  int held = 0;
  for (int i = 0; i < 1000; i++) {
    weft_tensor_t *t = new_tensor();
    CU_ASSERT_FALSE(step(k, t, 1));
    held += !weft_tensor_is_exclusive(t);
    weft_tensor_release(t);
  }
  CU_ASSERT_TRUE(held <= 10);
  weft_kept_destroy(k);
}

/* A copy that a step still uses outlives the tensor's place, and what is offered too late is dropped. */
static void steps_overlap(void) {
  weft_kept_t *k = new_kept();
  weft_tensor_t *t = new_tensor(), *other = new_tensor();
  bool is_wanted = false, also_wanted = false;
  CU_ASSERT_FALSE(step(k, t, 1));
  CU_ASSERT_PTR_NULL(weft_kept_find(k, t, 1, &is_wanted));
  CU_ASSERT_PTR_NULL(weft_kept_find(k, t, 1, &also_wanted));
  CU_ASSERT_TRUE(is_wanted && also_wanted);
  char *first = weft_aligned_alloc(64, 64), *second = weft_aligned_alloc(64, 64);
  first[0] = 'a';
  second[0] = 'b';
  weft_kept_offer(k, t, 1, first);
  weft_kept_offer(k, t, 1, second);
  weft_kept_copy_t *copy = weft_kept_find(k, t, 1, &is_wanted);
  CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
  CU_ASSERT_FALSE(step(k, other, 1));
  CU_ASSERT_EQUAL(*(char *)copy->data, 'a');
  weft_kept_offer(k, t, 1, weft_aligned_alloc(64, 64));
  weft_kept_copy_release(copy);
  weft_kept_destroy(k);
  weft_tensor_release(t);
  weft_tensor_release(other);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"the second step makes a copy for all others", the_second_step_makes_a_copy_for_all_others},
      {"another layout is another copy", another_layout_is_another_copy},
      {"what changes is let go", what_changes_is_let_go},
      {"steps overlap", steps_overlap},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("kept", tests);
}
