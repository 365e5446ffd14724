/* tests/cuda/arena_test.c - the caching allocator over regions of the host's memory. */
#include "device/cuda/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/runner.h"

enum { K = 1024, M = 1024 * 1024 };

typedef struct arena_source {
  size_t room; /* bytes that there are */
  int regions;
  uint64_t passed;
} arena_source_t;

static void *get(void *arg, size_t bytes) {
  arena_source_t *s = arg;
  if (bytes > s->room) return NULL;
  void *p = aligned_alloc(256, bytes);
  if (p == NULL) return NULL;
  s->room -= bytes;
  s->regions++;
  return p;
}

static void give_back(void *arg, void *p, size_t bytes) {
  arena_source_t *s = arg;
  s->room += bytes;
  s->regions--;
  free(p);
}

static uint64_t passed(void *arg) { return ((arena_source_t *)arg)->passed; }

static weft_cuda_arena_t *make(arena_source_t *s, size_t limit, bool grow) {
  weft_cuda_arena_t *a =
      weft_cuda_arena_create(&(weft_cuda_arena_source_t){get, give_back, passed, s}, limit, grow);
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  return a;
}

static void the_best_fit_is_taken_and_neighbours_are_joined(void) {
  arena_source_t s = {.room = 64 * M};
  weft_cuda_arena_t *a = make(&s, M, false);
  uint64_t after = 7;
  char *p[5];
  static const size_t sizes[] = {4 * K, 256, 2 * K, 256, 8 * K};
  for (int i = 0; i < 5; i++) {
    p[i] = weft_cuda_arena_allocate(a, sizes[i], &after);
    CU_ASSERT_EQUAL(after, 0);
    CU_ASSERT_EQUAL((uintptr_t)p[i] % 256, 0);
  }
  weft_cuda_arena_free(a, p[0], 0);
  weft_cuda_arena_free(a, p[2], 0);
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, 2 * K - 100, &after),
                      p[2]); /* not the larger hole before it */
  weft_cuda_arena_free(a, p[2], 0);
  weft_cuda_arena_free(a, p[1], 0); /* three neighbours are one of 4 K + 256 + 2 K */
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, 6 * K + 256, &after), p[0]);
  weft_cuda_arena_statistics_t t;
  weft_cuda_arena_statistics(a, &t);
  CU_ASSERT_EQUAL(t.num_in_use, 3);
  CU_ASSERT_EQUAL(t.in_use, 6 * K + 256 + 256 + 8 * K);
  CU_ASSERT_EQUAL(t.peak, t.in_use);
  CU_ASSERT_EQUAL(t.reserved, M);
  CU_ASSERT_EQUAL(t.largest_free, M - t.in_use);
  weft_cuda_arena_destroy(a);
  CU_ASSERT_EQUAL(s.regions, 0);
}

static void a_block_has_the_mark_of_its_last_work(void) {
  arena_source_t s = {.room = 64 * M};
  weft_cuda_arena_t *a = make(&s, M, false);
  uint64_t after = 7;
  void *p = weft_cuda_arena_allocate(a, K, &after), *q = weft_cuda_arena_allocate(a, K, &after);
  weft_cuda_arena_free(a, p, 5);
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, K, &after), p);
  CU_ASSERT_EQUAL(after, 5);
  weft_cuda_arena_free(a, p, 5);
  weft_cuda_arena_free(a, q, 9);
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, 2 * K, &after), p); /* joined: the later one */
  CU_ASSERT_EQUAL(after, 9);
  weft_cuda_arena_free(a, p, 11);
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, 256, &after), p);
  CU_ASSERT_EQUAL(after, 11);
  CU_ASSERT_PTR_NOT_NULL(weft_cuda_arena_allocate(a, 256, &after)); /* what was cut off has it, too */
  CU_ASSERT_EQUAL(after, 11);
  weft_cuda_arena_free(a, p, 11);
  s.passed = 11;
  CU_ASSERT_PTR_EQUAL(weft_cuda_arena_allocate(a, 256, &after), p);
  CU_ASSERT_EQUAL(after, 0);
  weft_cuda_arena_destroy(a);
}

static void growing_regions_go_back_before_memory_is_used_up(void) {
  arena_source_t s = {.room = 8 * M};
  weft_cuda_arena_t *a = make(&s, 8 * M, true);
  uint64_t after;
  void *small = weft_cuda_arena_allocate(a, K, &after);
  CU_ASSERT_EQUAL(s.room, 6 * M); /* a region of 2 MiB */
  void *large = weft_cuda_arena_allocate(a, 3 * M, &after);
  CU_ASSERT_EQUAL(s.room, 2 * M); /* one of 4 */
  CU_ASSERT_TRUE(weft_cuda_arena_has(a, (char *)large + 3 * M - 1));
  CU_ASSERT_FALSE(weft_cuda_arena_has(a, &after));
  CU_ASSERT_PTR_NULL(weft_cuda_arena_allocate(a, 6 * M, &after));
  weft_cuda_arena_free(a, large, 3);
  CU_ASSERT_PTR_NULL(weft_cuda_arena_allocate(a, 6 * M, &after)); /* work still uses it */
  s.passed = 3;
  large = weft_cuda_arena_allocate(a, 6 * M, &after);
  CU_ASSERT_PTR_NOT_NULL(large);
  CU_ASSERT_EQUAL(s.room, 0);
  weft_cuda_arena_free(a, small, 0);
  weft_cuda_arena_free(a, large, 0);
  weft_cuda_arena_destroy(a);
  CU_ASSERT_EQUAL(s.room, 8 * M);
}

static void one_region_is_as_large_as_there_is_memory(void) {
  arena_source_t s = {.room = 7 * M};
  weft_cuda_arena_t *a = make(&s, 10 * M, false); /* 10, 9, 8.1, 7.29, 6.561 */
  uint64_t after;
  CU_ASSERT_PTR_NOT_NULL(weft_cuda_arena_allocate(a, K, &after));
  weft_cuda_arena_statistics_t t;
  weft_cuda_arena_statistics(a, &t);
  CU_ASSERT(t.reserved > 6 * M && t.reserved < 7 * M);
  CU_ASSERT_PTR_NULL(weft_cuda_arena_allocate(a, 20 * M, &after));
  CU_ASSERT_PTR_NULL(weft_cuda_arena_allocate(a, SIZE_MAX - 3, &after));
  weft_cuda_arena_destroy(a);
}

/* Random blocks keep their bytes; at the end all of the region is free again. */
static void blocks_never_overlap(void) {
  enum { N = 300, ROUNDS = 20000 };
  arena_source_t s = {.room = 64 * M};
  weft_cuda_arena_t *a = make(&s, 16 * M, true);
  unsigned char *p[N] = {NULL};
  size_t size[N] = {0};
  uint64_t random = 1, after;
  int wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    const int i = (int)((random >> 33) % N);
    if (p[i] != NULL) {
      for (size_t k = 0; k < size[i]; k += 97) wrong += p[i][k] != (unsigned char)i;
      weft_cuda_arena_free(a, p[i], 0);
      p[i] = NULL;
    } else {
      size[i] = (random >> 40) % ((random >> 20) % 8 == 0 ? 300 * K : 3 * K);
      p[i] = weft_cuda_arena_allocate(a, size[i], &after);
      if (p[i] != NULL) memset(p[i], i, size[i]);
    }
  }
  for (int i = 0; i < N; i++) weft_cuda_arena_free(a, p[i], 0);
  weft_cuda_arena_statistics_t t;
  weft_cuda_arena_statistics(a, &t);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(t.in_use, 0);
  CU_ASSERT_EQUAL(t.num_in_use, 0);
  CU_ASSERT(t.largest_free >= t.reserved / 2); /* as a whole: one of the regions is at least half of all */
  weft_cuda_arena_destroy(a);
  CU_ASSERT_EQUAL(s.regions, 0);
}

static void without_memory_for_itself_it_gives_less(void) {
  for (long n = 0;; n++) {
    arena_source_t s = {.room = 64 * M};
    uint64_t after;
    weft_fault_arm(n);
    weft_cuda_arena_t *a =
        weft_cuda_arena_create(&(weft_cuda_arena_source_t){get, give_back, passed, &s}, 16 * M, true);
    void *p = a == NULL ? NULL : weft_cuda_arena_allocate(a, K, &after);
    void *q = a == NULL ? NULL : weft_cuda_arena_allocate(a, 5 * M, &after);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    if (a != NULL) {
      weft_cuda_arena_free(a, p, 0);
      weft_cuda_arena_free(a, q, 0);
    }
    weft_cuda_arena_destroy(a);
    CU_ASSERT_EQUAL(s.regions, 0);
    if (!fired) {
      CU_ASSERT(p != NULL && q != NULL);
      break;
    }
  }
}

static const CU_TestInfo tests[] = {
    {"the best fit is taken and neighbours are joined", the_best_fit_is_taken_and_neighbours_are_joined},
    {"a block has the mark of its last work", a_block_has_the_mark_of_its_last_work},
    {"growing regions go back before memory is used up", growing_regions_go_back_before_memory_is_used_up},
    {"one region is as large as there is memory", one_region_is_as_large_as_there_is_memory},
    {"blocks never overlap", blocks_never_overlap},
    {"without memory for itself it gives less", without_memory_for_itself_it_gives_less},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("arena", tests); }
