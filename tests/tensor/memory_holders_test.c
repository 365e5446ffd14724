/* tests/tensor/memory_holders_test.c - what holds the bytes of a memory. */
#include "tensor/memory_holders.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/runner.h"

static const weft_memory_space_t space = {NULL}, other = {NULL};
static char blocks[16]; /* addresses only */

static void state(void *arg, weft_memory_state_t *out) {
  (void)arg;
  *out = (weft_memory_state_t){.limit = 1000, .largest_free = 70};
}

static weft_memory_holders_t *fresh(void) {
  return weft_memory_holders_create(&space, WEFT_STR("/device:GPU:0"), state, NULL);
}

static void add(weft_memory_holders_t *h, int block, size_t bytes, weft_memory_use_t use, const char *name) {
  const weft_memory_holder_t before = weft_memory_hold_for((weft_memory_holder_t){use, weft_str(name)});
  CU_ASSERT_TRUE(weft_memory_holders_add(h, &blocks[block], bytes));
  (void)weft_memory_hold_for(before);
}

static void says(const char *expected) {
  const weft_allocator_t allocator = {.name = "gpu_0", .space = &space};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_memory_explain(&allocator, &text);
  CU_ASSERT_STRING_EQUAL(text.length == 0 ? "" : text.data, expected);
  if (text.length > 0 && strcmp(text.data, expected) != 0) fprintf(stderr, "%s\n", text.data);
  weft_strbuf_deinit(&text);
}

static void holders_are_summed_up_by_size(void) {
  weft_memory_holders_t *h = fresh();
  says(
      " on /device:GPU:0 by allocator gpu_0: 0 of 1000 bytes are in use, 0 at most so far, the largest free "
      "block has 70");
  add(h, 0, 10, WEFT_HELD_BY_NODE, "a");
  add(h, 1, 20, WEFT_HELD_BY_NODE, "b");
  add(h, 2, 15, WEFT_HELD_BY_NODE, "a");
  add(h, 3, 5, WEFT_HELD_BY_SCRATCH, "a");
  add(h, 4, 30, WEFT_HELD_BY_OTHER, "");
  add(h, 5, 100, WEFT_HELD_BY_NODE, "gone");
  weft_memory_holders_remove(h, &blocks[5]);
  weft_memory_holders_remove(h, &blocks[6]); /* was never there */
  says(
      " on /device:GPU:0 by allocator gpu_0: 80 of 1000 bytes are in use, 180 at most so far, the largest "
      "free block has 70; held by constants (30 bytes), node 'a' (25 bytes), node 'b' (20 bytes), scratch "
      "memory of node 'a' (5 bytes)");
  weft_memory_holders_destroy(h);
  says("");
}

static void the_rest_is_counted(void) {
  weft_memory_holders_t *h = fresh();
  char name[16];
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof name, "n%d", i);
    add(h, i, (size_t)(100 - i), WEFT_HELD_BY_NODE, name);
  }
  says(
      " on /device:GPU:0 by allocator gpu_0: 955 of 1000 bytes are in use, 955 at most so far, the largest "
      "free block has 70; held by node 'n0' (100 bytes), node 'n1' (99 bytes), node 'n2' (98 bytes), node "
      "'n3' (97 bytes), node 'n4' (96 bytes), node 'n5' (95 bytes), node 'n6' (94 bytes), node 'n7' (93 "
      "bytes) and 2 more (183 bytes)");
  weft_memory_holders_destroy(h);
}

static void a_block_becomes_a_variables(void) {
  weft_memory_holders_t *h = fresh();
  weft_memory_holders_t *h2 = weft_memory_holders_create(&other, WEFT_STR("x"), state, NULL);
  add(h, 0, 10, WEFT_HELD_BY_NODE, "init");
  weft_tensor_t root = {.data = &blocks[0], .space = &space}, on_host = {.data = &blocks[0]};
  weft_tensor_t view = {.data = &blocks[3], .space = &space, .owner = &root};
  char name[100];
  memset(name, 'x', sizeof name);
  memcpy(name + 95, "/end", 5);
  const weft_memory_holder_t variable = {WEFT_HELD_BY_VARIABLE, weft_str(name)};
  weft_memory_belongs_to(&on_host, variable);
  weft_memory_belongs_to(NULL, variable);
  says(
      " on /device:GPU:0 by allocator gpu_0: 10 of 1000 bytes are in use, 10 at most so far, the largest "
      "free block has 70; held by node 'init' (10 bytes)");
  weft_memory_belongs_to(&view, variable);
  char text[300]; /* the last 79 bytes of the name */
  snprintf(
      text, sizeof text,
      " on /device:GPU:0 by allocator gpu_0: 10 of 1000 bytes are in use, 10 at most so far, the largest "
      "free block has 70; held by variable '%s' (10 bytes)",
      name + 99 - 79);
  says(text);
  weft_memory_holders_destroy(h2);
  weft_memory_holders_destroy(h);
}

static void without_memory_there_is_no_record(void) {
  weft_memory_holders_t *h = fresh();
  add(h, 0, 10, WEFT_HELD_BY_NODE, "a");
  weft_fault_arm(0);
  CU_ASSERT_FALSE(weft_memory_holders_add(h, &blocks[1], 10));
  weft_fault_arm(-1);
  weft_memory_holders_remove(h, &blocks[1]);
  says(
      " on /device:GPU:0 by allocator gpu_0: 10 of 1000 bytes are in use, 10 at most so far, the largest "
      "free block has 70; held by node 'a' (10 bytes)");
  CU_ASSERT_TRUE(weft_memory_holders_add(NULL, &blocks[0], 1));
  weft_memory_holders_remove(NULL, &blocks[0]);
  weft_memory_holders_destroy(h);
  weft_fault_arm(0);
  CU_ASSERT_PTR_NULL(fresh());
  weft_fault_arm(-1);
  weft_memory_holders_destroy(NULL);
}

static const CU_TestInfo tests[] = {
    {"holders are summed up by size", holders_are_summed_up_by_size},
    {"the rest is counted", the_rest_is_counted},
    {"a block becomes a variable's", a_block_becomes_a_variables},
    {"without memory there is no record", without_memory_there_is_no_record},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("memory holders", tests); }
