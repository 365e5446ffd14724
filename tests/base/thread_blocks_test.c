/* Aligned blocks that threads keep: which are used again, and by which thread. */
#include "base/thread_blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/runner.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif

static void *take(size_t bytes) {
  void *p = weft_thread_block_take(bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CU_ASSERT_EQUAL((uintptr_t)p % WEFT_THREAD_BLOCK_ALIGNMENT, 0);
  return p;
}

static void a_freed_block_is_used_again(void) {
  static const size_t sizes[] = {513, 4096, 16384, 100000, WEFT_THREAD_BLOCK_LARGEST};
  for (int i = 0; i < 5; i++) {
    void *p = take(sizes[i]);
    weft_thread_block_give(p, sizes[i]);
    void *q = take(sizes[i]), *other = take(sizes[i]);
    CU_ASSERT(!KEEPS || q == p);
    CU_ASSERT_PTR_NOT_EQUAL(other, q);
    weft_thread_block_give(q, sizes[i]);
    weft_thread_block_give(other, sizes[i]);
  }
}

/* Each size that there is, and those beside it. */
static void blocks_do_not_overlap(void) {
  enum { MOST = 600 };
  static char *blocks[MOST];
  static size_t sizes[MOST];
  for (int round = 0; round < 3; round++) {
    int n = 0;
    for (size_t power = 1; power <= WEFT_THREAD_BLOCK_LARGEST; power *= 2) {
      for (size_t eighth = 0; eighth < 8; eighth++) {
        for (size_t by = 0; by < 3; by++) {
          const size_t bytes = power + power * eighth / 8 + by;
          if (bytes < 2 || bytes - 1 > WEFT_THREAD_BLOCK_LARGEST) continue;
          sizes[n] = bytes - 1;
          blocks[n] = take(sizes[n]);
          memset(blocks[n], n & 127, sizes[n]);
          n++;
        }
      }
    }
    int wrong = 0;
    for (int i = 0; i < n; i++) {
      wrong += blocks[i][0] != (i & 127) || blocks[i][sizes[i] - 1] != (i & 127);
      weft_thread_block_give(blocks[i], sizes[i]);
    }
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

static void *give_and_take(void *arg) {
  void **block = arg;
  weft_thread_block_give(*block, 5000);
  *block = weft_thread_block_take(5000);
  return NULL;
}

/* A block that another thread has made is kept by the thread that gave it back, and goes with that. */
static void any_thread_may_give_a_block_back(void) {
  void *before = take(5000), *block = before;
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, give_and_take, &block), 0);
  pthread_join(thread, NULL);
  CU_ASSERT(!KEEPS || block == before);
  CU_ASSERT_PTR_NOT_NULL(block);
  weft_thread_block_give(block, 5000);
}

static void memory_can_be_refused(void) {
  weft_thread_block_give(take(3000), 3000);
  weft_fault_arm(0);
  CU_ASSERT_PTR_NULL(weft_thread_block_take(3000)); /* although one is kept */
  weft_fault_arm(-1);
  weft_thread_block_give(NULL, 3000);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a freed block is used again", a_freed_block_is_used_again},
      {"blocks do not overlap", blocks_do_not_overlap},
      {"any thread may give a block back", any_thread_may_give_a_block_back},
      {"memory can be refused", memory_can_be_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("blocks of threads", tests);
}
