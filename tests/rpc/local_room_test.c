/* tests/rpc/local_room_test.c - both ends of a room in one process, each with its own mapping. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "rpc/local_room.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rpc/local_link.h"
#include "tests/runner.h"

enum { UNIT = WEFT_LOCAL_ROOM_UNIT, MOST = WEFT_LOCAL_ROOM_MOST };

typedef struct room_ends {
  weft_local_room_t *receiver, *sender;
  char *data; /* MOST + 1 bytes */
} room_ends_t;

static void setup(room_ends_t *e) {
  e->receiver = weft_local_room_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(e->receiver);
  e->sender = weft_local_room_open(dup(weft_local_room_file(e->receiver)));
  CU_ASSERT_PTR_NOT_NULL_FATAL(e->sender);
  e->data = weft_malloc(MOST + 1);
  for (int i = 0; i <= MOST; i++) e->data[i] = (char)(i / 255 + i);
}

static void teardown(room_ends_t *e) {
  weft_local_room_release(e->receiver);
  weft_local_room_release(e->sender);
  weft_free(e->data);
}

static bool put(weft_local_room_t *r, uint64_t transfer, const void *data, size_t bytes, uint64_t *out_at) {
  return weft_local_room_take(r, transfer, bytes, out_at) &&
         weft_local_room_fill(r, *out_at, data, bytes) == WEFT_LOCAL_FILLED;
}

static void bytes_are_whole_and_places_are_used_again(void) {
  static const size_t sizes[] = {1, 4097, UNIT - 1, UNIT, UNIT + 1, 1 << 20, MOST - 1, MOST};
  room_ends_t e;
  uint64_t first = 0, at = 0;
  setup(&e);
  for (int round = 0; round < 30; round++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      CU_ASSERT_TRUE_FATAL(put(e.sender, 7, e.data, sizes[i], &at));
      if (first == 0) first = at;
      CU_ASSERT_EQUAL(at, first); /* the lowest that is free */
      const void *data = weft_local_room_at(e.receiver, at, sizes[i]);
      CU_ASSERT_PTR_NOT_NULL_FATAL(data);
      CU_ASSERT_EQUAL(memcmp(data, e.data, sizes[i]), 0);
      weft_local_room_give_back(e.receiver, data);
    }
  }
  CU_ASSERT_FALSE(put(e.sender, 7, e.data, 0, &at));
  CU_ASSERT_FALSE(put(e.sender, 7, e.data, MOST + 1, &at));
  teardown(&e);
}

static void a_full_room_takes_nothing(void) {
  room_ends_t e;
  uint64_t at[WEFT_LOCAL_ROOM_BYTES / UNIT], more = 0;
  int n = 0;
  setup(&e);
  while (put(e.sender, (uint64_t)n, e.data, UNIT, &at[n])) n++;
  CU_ASSERT_EQUAL(n, WEFT_LOCAL_ROOM_BYTES / UNIT - 1);
  /* Two free units that do not touch hold no place of two; two that do, do. */
  weft_local_room_give_back(e.receiver, weft_local_room_at(e.receiver, at[9], UNIT));
  weft_local_room_give_back(e.receiver, weft_local_room_at(e.receiver, at[11], UNIT));
  CU_ASSERT_FALSE(put(e.sender, 1000, e.data, UNIT + 1, &more));
  weft_local_room_give_back(e.receiver, weft_local_room_at(e.receiver, at[10], UNIT));
  CU_ASSERT_TRUE(put(e.sender, 1000, e.data, UNIT + 1, &more));
  CU_ASSERT_EQUAL(more, at[9]);
  teardown(&e);
}

static void what_a_failed_transfer_has_is_free_again(void) {
  room_ends_t e;
  uint64_t a = 0, b = 0, c = 0;
  setup(&e);
  CU_ASSERT_TRUE(put(e.sender, 1, e.data, MOST, &a));
  CU_ASSERT_TRUE(put(e.sender, 2, e.data, MOST, &b));
  CU_ASSERT_FALSE(weft_local_room_forget(e.sender, 3));
  CU_ASSERT_TRUE(weft_local_room_forget(e.sender, 1));
  CU_ASSERT_FALSE(weft_local_room_forget(e.sender, 1));
  CU_ASSERT_TRUE(put(e.sender, 3, e.data, MOST, &c));
  CU_ASSERT_EQUAL(c, a);
  teardown(&e);
}

static void a_place_is_seen_before_it_is_filled(void) {
  room_ends_t e;
  uint64_t a = 0, b = 0, c = 0;
  setup(&e);
  CU_ASSERT_TRUE_FATAL(weft_local_room_take(e.sender, 1, 100, &a));
  CU_ASSERT_TRUE_FATAL(weft_local_room_take(e.sender, 2, 100, &b));
  const void *at_a = weft_local_room_at(e.receiver, a, 100), *at_b = weft_local_room_at(e.receiver, b, 100);
  CU_ASSERT_FALSE(weft_local_room_is_filled(e.receiver, at_a));
  CU_ASSERT_EQUAL(weft_local_room_fill(e.sender, a, e.data, 100), WEFT_LOCAL_FILLED);
  CU_ASSERT_TRUE(weft_local_room_is_filled(e.receiver, at_a));
  CU_ASSERT_TRUE(weft_local_room_await(e.receiver, at_a));
  CU_ASSERT_FALSE(weft_local_room_await(e.receiver, at_b));
  CU_ASSERT_FALSE(weft_local_room_is_filled(e.receiver, at_b));
  CU_ASSERT_EQUAL(weft_local_room_fill(e.sender, b, e.data + 1, 100), WEFT_LOCAL_FILLED_AWAITED);
  CU_ASSERT_TRUE(weft_local_room_is_filled(e.receiver, at_b));
  CU_ASSERT_EQUAL(memcmp(at_a, e.data, 100), 0);
  CU_ASSERT_EQUAL(memcmp(at_b, e.data + 1, 100), 0);
  CU_ASSERT_TRUE(put(e.sender, 3, e.data, 1, &c)); /* while both are in use */
  CU_ASSERT_TRUE(c != a && c != b);
  weft_local_room_give_back(e.receiver, at_b);
  CU_ASSERT_TRUE(put(e.sender, 3, e.data, 1, &c));
  CU_ASSERT_EQUAL(c, b);
  teardown(&e);
}

/* A place whose transfer fails is not free before the copy has been made. */
static void a_place_that_is_forgotten_is_free_behind_its_copy(void) {
  room_ends_t e;
  uint64_t a = 0, other = 0;
  setup(&e);
  for (int is_awaited = 0; is_awaited < 2; is_awaited++) {
    CU_ASSERT_TRUE_FATAL(weft_local_room_take(e.sender, 1, 100, &a));
    if (is_awaited)
      CU_ASSERT_FALSE(weft_local_room_await(e.receiver, weft_local_room_at(e.receiver, a, 100)));
    CU_ASSERT_TRUE(weft_local_room_forget(e.sender, 1));
    CU_ASSERT_TRUE_FATAL(put(e.sender, 2, e.data, 100, &other));
    CU_ASSERT_NOT_EQUAL(other, a);
    weft_local_room_give_back(e.receiver, weft_local_room_at(e.receiver, other, 100));
    CU_ASSERT_EQUAL(weft_local_room_fill(e.sender, a, e.data, 100), WEFT_LOCAL_FILLED_FORGOTTEN);
    CU_ASSERT_TRUE_FATAL(weft_local_room_take(e.sender, 3, 100, &other));
    CU_ASSERT_EQUAL(other, a);
    weft_local_room_drop(e.sender, other);
  }
  teardown(&e);
}

static void places_outside_of_the_room_are_none(void) {
  room_ends_t e;
  setup(&e);
  const uint64_t end = WEFT_LOCAL_ROOM_BYTES;
  CU_ASSERT_PTR_NOT_NULL(weft_local_room_at(e.receiver, UNIT, end - UNIT));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, UNIT, end - UNIT + 1));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, 0, 1));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, UNIT + 64, 1));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, end, 0));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, UINT64_MAX - UNIT + 1, UNIT));
  CU_ASSERT_PTR_NULL(weft_local_room_at(e.receiver, UNIT, SIZE_MAX));
  teardown(&e);
}

static void a_file_that_its_owner_can_cut_is_refused(void) {
  static const struct {
    int seals;
    off_t bytes;
  } cases[] = {{0, WEFT_LOCAL_ROOM_BYTES},
               {F_SEAL_SHRINK | F_SEAL_GROW, WEFT_LOCAL_ROOM_BYTES},
               {F_SEAL_SEAL | F_SEAL_GROW, WEFT_LOCAL_ROOM_BYTES},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW, WEFT_LOCAL_ROOM_BYTES - 1},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_EQUAL(ftruncate(file, cases[i].bytes), 0);
    if (cases[i].seals != 0) CU_ASSERT_EQUAL(fcntl(file, F_ADD_SEALS, cases[i].seals), 0);
    CU_ASSERT_PTR_NULL(weft_local_room_open(file));
  }
  int pipes[2];
  CU_ASSERT_EQUAL(pipe(pipes), 0);
  CU_ASSERT_PTR_NULL(weft_local_room_open(pipes[0]));
  close(pipes[1]);
}

static void each_failing_allocation_leaves_no_room(void) {
  bool fired = true;
  for (long n = 0; fired; n++) {
    weft_fault_arm(n);
    weft_local_room_t *receiver = weft_local_room_create();
    weft_local_room_t *sender =
        receiver == NULL ? NULL : weft_local_room_open(dup(weft_local_room_file(receiver)));
    fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(sender == NULL, fired);
    weft_local_room_release(sender);
    weft_local_room_release(receiver);
  }
}

/* Threads that put, and of which each forgets some of its transfers, sometimes before they are there. */
enum { THREADS = 4, ROUNDS = 400 };

typedef struct room_user {
  room_ends_t *ends;
  int index;
  atomic_int num_wrong;
} room_user_t;

static void *forget(void *arg) {
  room_user_t *u = arg;
  for (uint64_t i = 0; i < ROUNDS; i++)
    if (i % 3 == 0) (void)weft_local_room_forget(u->ends->sender, (uint64_t)u->index * ROUNDS + i);
  return NULL;
}

static void *use(void *arg) {
  room_user_t *u = arg;
  char *own = weft_malloc(3 * UNIT);
  memset(own, u->index + 1, 3 * UNIT);
  for (uint64_t i = 0; i < ROUNDS; i++) {
    const size_t bytes = (size_t)(1 + (i * 7919) % (3 * UNIT));
    uint64_t at = 0;
    if (!put(u->ends->sender, (uint64_t)u->index * ROUNDS + i, own, bytes, &at)) continue;
    if (i % 3 == 0) { /* a transfer that the other thread may forget: its receiver does not read it */
      (void)weft_local_room_forget(u->ends->sender, (uint64_t)u->index * ROUNDS + i);
      continue;
    }
    const void *data = weft_local_room_at(u->ends->receiver, at, bytes);
    if (data == NULL || memcmp(data, own, bytes) != 0) {
      atomic_fetch_add(&u->num_wrong, 1);
    } else {
      weft_local_room_give_back(u->ends->receiver, data);
    }
  }
  weft_free(own);
  return NULL;
}

static void threads_share_a_room(void) {
  room_ends_t e;
  setup(&e);
  room_user_t users[THREADS];
  pthread_t threads[2 * THREADS];
  for (int i = 0; i < THREADS; i++) {
    users[i] = (room_user_t){.ends = &e, .index = i};
    atomic_init(&users[i].num_wrong, 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[2 * i], NULL, use, &users[i]), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[2 * i + 1], NULL, forget, &users[i]), 0);
  }
  for (int i = 0; i < 2 * THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) CU_ASSERT_EQUAL(users[i].num_wrong, 0);
  /* All is free again. */
  uint64_t at = 0;
  for (int i = 0; i < WEFT_LOCAL_ROOM_BYTES / MOST - 1; i++)
    CU_ASSERT_TRUE(put(e.sender, 1, e.data, MOST, &at));
  teardown(&e);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"bytes are whole and places are used again", bytes_are_whole_and_places_are_used_again},
      {"a full room takes nothing", a_full_room_takes_nothing},
      {"what a failed transfer has is free again", what_a_failed_transfer_has_is_free_again},
      {"a place is seen before it is filled", a_place_is_seen_before_it_is_filled},
      {"a place that is forgotten is free behind its copy",
       a_place_that_is_forgotten_is_free_behind_its_copy},
      {"places outside of the room are none", places_outside_of_the_room_are_none},
      {"a file that its owner can cut is refused", a_file_that_its_owner_can_cut_is_refused},
      {"each failing allocation leaves no room", each_failing_allocation_leaves_no_room},
      {"threads share a room", threads_share_a_room},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("local_room", tests);
}
