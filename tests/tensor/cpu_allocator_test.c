/* The host's allocator: which freed blocks it keeps, and which it gives up. */
#include <stdint.h>
#include <string.h>

#include "tensor/allocator.h"
#include "tests/runner.h"

enum { MIB = 1 << 20, MARK = 4096 /* a byte of a block that is 0 until a test writes it */ };

static void *take(size_t bytes) {
  weft_fence_t after = {NULL, 0};
  weft_allocator_t *a = weft_cpu_allocator();
  void *p = a->allocate(a, bytes, &after);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CU_ASSERT_EQUAL((uintptr_t)p % WEFT_TENSOR_ALIGNMENT, 0);
  return p;
}

static void give(void *p, size_t bytes) { weft_cpu_allocator()->deallocate(weft_cpu_allocator(), p, bytes); }

/* `n` blocks of one size, held together and then freed. */
static void use(int n, size_t bytes) {
  void *blocks[32];
  for (int i = 0; i < n; i++) ((char *)(blocks[i] = take(bytes)))[MARK] = 1;
  for (int i = 0; i < n; i++) give(blocks[i], bytes);
}

static void a_freed_block_is_used_again(void) {
  static const size_t sizes[] = {300 << 10, 3 * MIB, 28 * MIB};
  for (int i = 0; i < 3; i++) {
    void *p = take(sizes[i]);
    give(p, sizes[i]);
    CU_ASSERT_PTR_EQUAL(take(sizes[i] - 64), p); /* sizes that are alike are one */
    give(p, sizes[i] - 64);
  }
}

/* 320 MiB of another size were freed before: the cache is full of them. What is mapped anew is zero. */
static void the_blocks_of_a_phase_that_has_ended_go_first(void) {
  use(5, 64 * MIB);
  for (int i = 0; i < 2; i++) {
    char *p = take(56 * MIB);
    CU_ASSERT_EQUAL(p[56 * MIB - 1], i);
    p[56 * MIB - 1] = 1;
    give(p, 56 * MIB);
  }
}

static void blocks_of_one_size_do_not_overlap(void) {
  char *blocks[8];
  use(8, 5 * MIB);
  for (int i = 0; i < 8; i++) memset(blocks[i] = take(5 * MIB), i, 5 * MIB);
  for (int i = 0; i < 8; i++) {
    CU_ASSERT_EQUAL(blocks[i][0], i);
    CU_ASSERT_EQUAL(blocks[i][5 * MIB - 1], i);
  }
  for (int i = 7; i >= 0; i--) give(blocks[i], 5 * MIB);
}

/* More than is kept of what was not in use together: 640 MiB, of which those of 80 MiB are freed last. */
static void a_step_that_repeats_finds_all_of_its_blocks(void) {
  enum { SMALL = 8, LARGE = 4 };
  char *blocks[SMALL + LARGE];
  for (int step = 0; step < 3; step++) {
    int num_new = 0;
    for (int i = 0; i < SMALL + LARGE; i++) {
      const size_t bytes = (size_t)(i < SMALL ? 40 : 80) * MIB;
      blocks[i] = take(bytes);
      num_new += blocks[i][MARK] == 0; /* mapped anew */
      blocks[i][MARK] = 1;
    }
    CU_ASSERT_TRUE(step > 0 || num_new > 0);
    if (step > 0) CU_ASSERT_EQUAL(num_new, 0);
    for (int i = 0; i < SMALL + LARGE; i++) give(blocks[i], (size_t)(i < SMALL ? 40 : 80) * MIB);
  }
}

/* What is mapped beside blocks that are kept and of no use makes these go. */
static void no_more_is_held_than_was_in_use(void) {
  use(16, 40 * MIB);
  char *p = take((size_t)600 * MIB), *blocks[16];
  int num_kept = 0;
  for (int i = 0; i < 16; i++) {
    blocks[i] = take(40 * MIB);
    num_kept += blocks[i][MARK] != 0;
  }
  CU_ASSERT_TRUE(num_kept <= 6); /* 256 MiB */
  for (int i = 0; i < 16; i++) give(blocks[i], 40 * MIB);
  give(p, (size_t)600 * MIB);
}

static void large_blocks_are_kept_too(void) {
  for (int i = 0; i < 3; i++) {
    char *p = take((size_t)300 * MIB);
    CU_ASSERT_EQUAL(p[(size_t)300 * MIB - 1], i > 0);
    p[0] = p[(size_t)300 * MIB - 1] = 1;
    give(p, (size_t)300 * MIB);
  }
}

static void memory_can_be_refused(void) {
  weft_fence_t after = {NULL, 0};
  weft_allocator_t *a = weft_cpu_allocator();
  CU_ASSERT_PTR_NULL(a->allocate(a, SIZE_MAX / 2, &after));
  weft_fault_arm(0);
  CU_ASSERT_PTR_NULL(a->allocate(a, 77 * MIB, &after));
  weft_fault_arm(-1);
  a->deallocate(a, NULL, 77 * MIB);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a freed block is used again", a_freed_block_is_used_again},
      {"the blocks of a phase that has ended go first", the_blocks_of_a_phase_that_has_ended_go_first},
      {"blocks of one size do not overlap", blocks_of_one_size_do_not_overlap},
      {"a step that repeats finds all of its blocks", a_step_that_repeats_finds_all_of_its_blocks},
      {"no more is held than was in use", no_more_is_held_than_was_in_use},
      {"large blocks are kept, too", large_blocks_are_kept_too},
      {"memory can be refused", memory_can_be_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("cpu_allocator", tests);
}
