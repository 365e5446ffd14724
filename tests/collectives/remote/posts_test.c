/* tests/collectives/remote/posts_test.c - posts of several tasks, all in this process, and segments of peers
 * that lie. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "collectives/remote/posts.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "tests/runner.h"

enum { RANKS = 3, BYTES = 1000, STEP = 5 };

typedef struct world {
  weft_posts_t *posts[RANKS];
  weft_posts_view_t *views[RANKS];
} world_t;

static void setup(world_t *w) {
  for (int i = 0; i < RANKS; i++) {
    w->posts[i] = weft_posts_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->posts[i]);
    w->views[i] = weft_posts_view_new(weft_posts_file(w->posts[i]));
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->views[i]);
  }
}

static void teardown(world_t *w) {
  for (int i = 0; i < RANKS; i++) weft_posts_destroy(w->posts[i]);
  for (int i = 0; i < RANKS; i++) weft_posts_view_release(w->views[i]);
}

static weft_post_t *post_bytes(world_t *w, int rank, const char *key, const char *data, size_t bytes) {
  const weft_post_request_t q = {.step_id = STEP,
                                 .key = weft_str(key),
                                 .id = 100 + (uint64_t)rank,
                                 .rank = rank,
                                 .n = RANKS,
                                 .views = w->views,
                                 .data = data,
                                 .bytes = bytes,
                                 .second_bytes = bytes};
  return weft_post_new(w->posts[rank], &q);
}

static weft_post_t *post(world_t *w, int rank, const char *key) {
  char data[BYTES];
  memset(data, 'a' + rank, sizeof data);
  weft_post_t *x = post_bytes(w, rank, key, data, sizeof data);
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  return x;
}

static bool holds(const void *bytes, size_t n, char value) {
  for (size_t i = 0; i < n; i++) {
    if (((const char *)bytes)[i] != value) return false;
  }
  return n == BYTES;
}

static void check_all(const weft_post_t *x, bool is_second) {
  for (int i = 0; i < RANKS; i++) {
    size_t n = 0;
    const void *bytes = is_second ? weft_post_second(x, i, &n) : weft_post_first(x, i, &n);
    CU_ASSERT_TRUE(bytes != NULL && holds(bytes, n, (char)((is_second ? 'A' : 'a') + i)));
  }
  CU_ASSERT_TRUE(weft_post_is_intact(x));
}

static void all_find_all_in_any_order(void) {
  static const int orders[][RANKS] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
  world_t w;
  setup(&w);
  for (int round = 0; round < 3; round++) {
    weft_post_t *x[RANKS] = {NULL}, *other[RANKS];
    char key[32];
    snprintf(key, sizeof key, "run.%d/", round);
    for (int i = 0; i < RANKS; i++) other[i] = post(&w, i, "other/"); /* does not count */
    for (int i = 0; i < RANKS; i++) {
      x[orders[round][i]] = post(&w, orders[round][i], key);
      CU_ASSERT_EQUAL(weft_post_have_all(x[orders[round][0]], WEFT_POST_FIRST), i == RANKS - 1);
    }
    for (int i = 0; i < RANKS; i++) {
      CU_ASSERT_TRUE(weft_post_have_all(x[i], WEFT_POST_FIRST));
      CU_ASSERT_FALSE(weft_post_have_all(x[i], WEFT_POST_SECOND));
      check_all(x[i], false);
    }
    for (int i = 0; i < RANKS; i++) {
      memset(weft_post_own_second(x[i]), 'A' + i, BYTES);
      weft_post_set(x[i], WEFT_POST_SECOND);
    }
    for (int i = 0; i < RANKS; i++) {
      CU_ASSERT_TRUE(weft_post_have_all(x[i], WEFT_POST_SECOND));
      check_all(x[i], true);
      weft_post_set(x[i], WEFT_POST_READ);
    }
    for (int i = 0; i < RANKS; i++) CU_ASSERT_TRUE(weft_post_have_all(x[i], WEFT_POST_READ));
    for (int i = 0; i < RANKS; i++) weft_post_leave(x[i]);
    for (int i = 0; i < RANKS; i++) weft_post_withdraw(other[i]);
  }
  teardown(&w);
}

typedef struct woken {
  int n;
  uint64_t ids;
} woken_t;
static void note_wake(void *arg, int rank, uint64_t id) {
  woken_t *k = arg;
  k->n++;
  k->ids += id * (uint64_t)(rank + 1);
}

static void sleepers_are_woken_by_id(void) {
  world_t w;
  setup(&w);
  weft_post_t *x[RANKS];
  for (int i = 0; i < RANKS; i++) x[i] = post(&w, i, "k/");
  weft_post_sleep(x[0], WEFT_POST_FIRST);
  weft_post_sleep(x[1], WEFT_POST_READ);
  woken_t first = {0, 0}, read = {0, 0}, none = {0, 0};
  CU_ASSERT_TRUE(weft_post_have_all(x[2], WEFT_POST_FIRST));
  weft_post_wake(x[2], WEFT_POST_FIRST, note_wake, &first);
  weft_post_wake(x[2], WEFT_POST_READ, note_wake, &read);
  CU_ASSERT_TRUE(first.n == 1 && first.ids == 100);
  CU_ASSERT_TRUE(read.n == 1 && read.ids == 202);
  weft_post_awake(x[0]);
  weft_post_wake(x[2], WEFT_POST_FIRST, note_wake, &none);
  CU_ASSERT_EQUAL(none.n, 0);
  for (int i = 0; i < RANKS; i++) weft_post_withdraw(x[i]);
  teardown(&w);
}

typedef struct sleeper {
  weft_post_t *post;
  weft_post_state_t until;
} sleeper_t;

/* Sleeps on words until all have reached the state. */
static void *sleep_on_words(void *arg) {
  sleeper_t *s = arg;
  weft_watched_word_t words[WEFT_POST_RANKS];
  for (int n = 1; n > 0;) {
    n = weft_post_watch(s->post, s->until, words);
    if (n > 0 && !weft_words_wait(words, n)) break;
  }
  return NULL;
}

/* Whatever the order is of what the sleepers do and the others post: no message is needed. */
static void sleepers_on_words_are_woken_by_the_last(void) {
  world_t w;
  setup(&w);
  static _Atomic uint32_t changed = 1;
  const bool can = weft_words_wait(&(weft_watched_word_t){&changed, 0}, 1);
  if (!can) fprintf(stderr, "the system cannot sleep on several words\n");
  for (int round = 0; round < 200 && can; round++) {
    woken_t none = {0, 0};
    weft_post_t *x[RANKS];
    pthread_t threads[RANKS - 1];
    sleeper_t sleepers[RANKS - 1];
    for (int i = 0; i < RANKS - 1; i++) {
      x[i] = post(&w, i, "k/");
      sleepers[i] = (sleeper_t){x[i], WEFT_POST_FIRST};
      CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, sleep_on_words, &sleepers[i]), 0);
    }
    x[RANKS - 1] = post(&w, RANKS - 1, "k/");
    CU_ASSERT_TRUE(weft_post_have_all(x[RANKS - 1], WEFT_POST_FIRST));
    weft_post_wake(x[RANKS - 1], WEFT_POST_FIRST, note_wake, &none);
    for (int i = 0; i < RANKS - 1; i++) pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(none.n, 0);
    for (int i = 0; i < RANKS; i++) weft_post_withdraw(x[i]);
  }
  teardown(&w);
}

static void a_withdrawn_post_spoils_what_was_read(void) {
  world_t w;
  setup(&w);
  weft_post_t *x[RANKS];
  for (int i = 0; i < RANKS; i++) x[i] = post(&w, i, "k/");
  CU_ASSERT_TRUE(weft_post_have_all(x[0], WEFT_POST_FIRST));
  weft_post_withdraw(x[1]);
  CU_ASSERT_FALSE(weft_post_is_intact(x[0]));
  CU_ASSERT_FALSE(weft_post_have_all(x[0], WEFT_POST_FIRST));
  x[1] = post(&w, 1, "k/"); /* again: it is another one */
  CU_ASSERT_FALSE(weft_post_is_intact(x[0]));
  CU_ASSERT_FALSE(weft_post_have_all(x[0], WEFT_POST_FIRST));
  for (int i = 0; i < RANKS; i++) weft_post_withdraw(x[i]);
  teardown(&w);
}

/* A step that runs again under its id, while one rank's post of the first time is still there. */
static void what_is_left_of_an_earlier_time_does_not_count(void) {
  world_t w;
  setup(&w);
  weft_post_t *x[RANKS];
  for (int i = 0; i < RANKS; i++) x[i] = post(&w, i, "k/");
  for (int i = 0; i < RANKS; i++) CU_ASSERT_TRUE(weft_post_have_all(x[i], WEFT_POST_FIRST));
  for (int i = 0; i < RANKS; i++) weft_post_set(x[i], WEFT_POST_READ);
  for (int i = 0; i < RANKS; i++) weft_post_leave(x[i]);
  x[0] = post(&w, 0, "k/");
  x[1] = post(&w, 1, "k/");
  CU_ASSERT_FALSE(weft_post_have_all(x[0], WEFT_POST_FIRST)); /* rank 2's is of the first time */
  x[2] = post(&w, 2, "k/");
  for (int i = 0; i < RANKS; i++) {
    CU_ASSERT_TRUE(weft_post_have_all(x[i], WEFT_POST_FIRST));
    check_all(x[i], false);
  }
  for (int i = 0; i < RANKS; i++) weft_post_withdraw(x[i]);
  teardown(&w);
}

static void room_comes_back_when_all_have_read(void) {
  world_t w;
  setup(&w);
  static char data[1 << 20];
  const int rounds = 3 * WEFT_POST_BYTES / (2 * (int)sizeof data); /* three times the segment */
  for (int round = 0; round < rounds; round++) {
    weft_post_t *x[RANKS];
    char key[32];
    snprintf(key, sizeof key, "run.%d/", round);
    for (int i = 0; i < RANKS; i++) x[i] = post_bytes(&w, i, key, data, sizeof data);
    for (int i = 0; i < RANKS; i++)
      CU_ASSERT_TRUE_FATAL(x[i] != NULL && weft_post_have_all(x[i], WEFT_POST_FIRST));
    for (int i = 0; i < RANKS; i++) weft_post_set(x[i], WEFT_POST_READ);
    for (int i = 0; i < RANKS; i++) weft_post_leave(x[i]);
  }
  /* Until then it does not. */
  int n = 0;
  weft_post_t *kept[64];
  for (; n < 64; n++) {
    char key[32];
    snprintf(key, sizeof key, "kept.%d/", n);
    kept[n] = post_bytes(&w, 0, key, data, sizeof data);
    if (kept[n] == NULL) break;
  }
  CU_ASSERT_EQUAL(n, WEFT_POST_BYTES / (2 * (int)sizeof data));
  while (n > 0) weft_post_withdraw(kept[--n]);
  CU_ASSERT_PTR_NULL(post_bytes(&w, 0, "large/", data, (size_t)WEFT_POST_BYTES + 1));
  teardown(&w);
}

static void a_peer_that_has_ended_reads_nothing_more(void) {
  world_t w;
  setup(&w);
  static char data[1 << 20];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < WEFT_POST_BYTES / (2 * (int)sizeof data); i++) {
      weft_post_t *x[RANKS];
      char key[32];
      snprintf(key, sizeof key, "run.%d.%d/", round, i);
      for (int k = 0; k < RANKS; k++) x[k] = post_bytes(&w, k, key, data, k == 0 ? sizeof data : 0);
      CU_ASSERT_TRUE_FATAL(x[0] != NULL && weft_post_have_all(x[0], WEFT_POST_FIRST));
      weft_post_set(x[0], WEFT_POST_READ);
      for (int k = 0; k < RANKS; k++) weft_post_leave(x[k]); /* the others have not read */
    }
    for (int k = 1; k < RANKS; k++) weft_posts_view_end(w.views[k]);
  }
  teardown(&w);
}

static void segments_are_checked(void) {
  weft_posts_t *p = weft_posts_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  struct stat st;
  const int own = weft_posts_file(p);
  CU_ASSERT_EQUAL(fstat(own, &st), 0);
  CU_ASSERT_TRUE(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0) == MAP_FAILED);
  CU_ASSERT_NOT_EQUAL(ftruncate(own, 0), 0);
  const int seals = fcntl(own, F_GET_SEALS);
  const struct {
    int seals;
    off_t bytes;
    bool has_text;
  } cases[] = {{seals & ~F_SEAL_SHRINK, st.st_size, true},
               {0, st.st_size, true},
               {seals, st.st_size - 1, true},
               {seals, 0, true},
               {seals, st.st_size, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char head[16];
    CU_ASSERT_EQUAL(ftruncate(file, cases[i].bytes), 0);
    CU_ASSERT_EQUAL(pread(own, head, sizeof head, 0), (ssize_t)sizeof head);
    if (cases[i].has_text && cases[i].bytes > 0)
      CU_ASSERT_EQUAL(pwrite(file, head, sizeof head, 0), (ssize_t)sizeof head);
    CU_ASSERT_EQUAL(fcntl(file, F_ADD_SEALS, cases[i].seals), 0);
    CU_ASSERT_PTR_NULL(weft_posts_view_new(file));
    close(file);
  }
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CU_ASSERT_PTR_NULL(weft_posts_view_new(null));
  CU_ASSERT_PTR_NULL(weft_posts_view_new(-1));
  close(null);
  weft_posts_destroy(p);
}

/* A copy of rank 1's segment whose owner, this test, can write it as it likes. */
static uint64_t *forge(world_t *w, weft_posts_view_t **out_view, size_t *out_bytes) {
  struct stat st;
  const int own = weft_posts_file(w->posts[1]), file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CU_ASSERT_EQUAL(fstat(own, &st), 0);
  *out_bytes = (size_t)st.st_size;
  CU_ASSERT_EQUAL(ftruncate(file, st.st_size), 0);
  uint64_t *to = mmap(NULL, *out_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CU_ASSERT_TRUE_FATAL(to != MAP_FAILED);
  CU_ASSERT_TRUE(pread(own, to, 1 << 20, 0) > 4096);
  CU_ASSERT_EQUAL(fcntl(file, F_ADD_SEALS, fcntl(own, F_GET_SEALS)), 0);
  *out_view = weft_posts_view_new(file);
  CU_ASSERT_PTR_NOT_NULL_FATAL(*out_view);
  close(file);
  return to;
}

static void places_outside_a_segment_are_refused(void) {
  world_t w;
  setup(&w);
  weft_post_t *real = post(&w, 1, "k/"), *third = post(&w, 2, "k/");
  weft_posts_view_t *view = NULL, *honest = w.views[1];
  size_t bytes = 0;
  uint64_t *forged = forge(&w, &view, &bytes), *id = forged;
  while (*id != 101) id++; /* followed by: step, place, first bytes, second bytes */
  const uint64_t cases[][3] = {{UINT64_MAX, BYTES, BYTES},
                               {WEFT_POST_BYTES, BYTES, BYTES},
                               {WEFT_POST_BYTES - BYTES, BYTES, BYTES},
                               {0, UINT64_MAX, BYTES},
                               {1, UINT64_MAX - 63, BYTES},
                               {0, BYTES, UINT64_MAX},
                               {WEFT_POST_BYTES, UINT64_MAX, UINT64_MAX}};
  w.views[1] = view;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memcpy(id + 2, cases[i], sizeof cases[i]);
    weft_post_t *x = post(&w, 0, "k/");
    CU_ASSERT_TRUE(weft_post_have_all(x, WEFT_POST_FIRST));
    memset(id + 2, 0, sizeof cases[i]); /* it was taken already */
    size_t first = 0, second = 0;
    const void *a = weft_post_first(x, 1, &first), *b = weft_post_second(x, 1, &second);
    CU_ASSERT_EQUAL(first, cases[i][1]);
    CU_ASSERT_EQUAL(second, cases[i][2]);
    CU_ASSERT_TRUE(a == NULL || b == NULL);
    CU_ASSERT_TRUE(a == NULL || holds(a, first, 0) || holds(a, first, 'b'));
    weft_post_withdraw(x);
  }
  weft_post_withdraw(real);
  weft_post_withdraw(third);
  weft_posts_view_release(view);
  w.views[1] = honest;
  munmap(forged, bytes);
  teardown(&w);
}

/* Any bytes at all in a peer's table end in no more than a collective that does not go on. */
static void any_table_is_read_safely(void) {
  world_t w;
  setup(&w);
  weft_post_t *real = post(&w, 1, "k/"), *third = post(&w, 2, "k/");
  weft_posts_view_t *view = NULL, *honest = w.views[1];
  size_t bytes = 0, sum = 0;
  uint64_t *forged = forge(&w, &view, &bytes), *id = forged, state = 7, kept[8];
  while (*id != 101) id++;
  memcpy(kept, id - 2, sizeof kept);
  w.views[1] = view;
  for (int i = 0; i < 20000; i++) {
    weft_post_t *x = post(&w, 0, "k/");
    for (int change = 0; change < 3; change++) {
      state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
      const int which = (int)(state >> 40) % 8;
      id[which - 2] = state >> 33 & 1 ? state * state : kept[which] ^ UINT64_C(1) << (state >> 50 & 63);
      if (weft_post_have_all(x, (weft_post_state_t)(1 + i % 3))) {
        size_t n = 0;
        const char *a = weft_post_first(x, 1, &n);
        if (a != NULL && n > 0) sum += (size_t)a[0] + (size_t)a[n - 1];
        const char *b = weft_post_second(x, 1, &n);
        if (b != NULL && n > 0) sum += (size_t)b[0] + (size_t)b[n - 1];
        weft_post_set(x, WEFT_POST_READ);
      }
    }
    memcpy(id - 2, kept, sizeof kept);
    weft_post_withdraw(x);
  }
  CU_ASSERT_TRUE(sum != 1);
  weft_post_withdraw(real);
  weft_post_withdraw(third);
  weft_posts_view_release(view);
  w.views[1] = honest;
  munmap(forged, bytes);
  teardown(&w);
}

static void the_lack_of_memory_is_survived(void) {
  for (int n = 0;; n++) {
    weft_fault_arm(n);
    weft_posts_t *p = weft_posts_create();
    weft_posts_view_t *v = p == NULL ? NULL : weft_posts_view_new(weft_posts_file(p));
    weft_posts_view_t *views[2] = {v, v};
    const weft_post_request_t q = {.key = WEFT_STR("k/"), .n = 2, .views = views};
    weft_post_t *x = v == NULL ? NULL : weft_post_new(p, &q);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(x == NULL, fired);
    weft_post_withdraw(x);
    weft_posts_view_release(v);
    weft_posts_destroy(p);
    if (!fired) break;
  }
}

static const CU_TestInfo tests[] = {
    {"all find all in any order", all_find_all_in_any_order},
    {"sleepers are woken by id", sleepers_are_woken_by_id},
    {"sleepers on words are woken by the last", sleepers_on_words_are_woken_by_the_last},
    {"a withdrawn post spoils what was read", a_withdrawn_post_spoils_what_was_read},
    {"what is left of an earlier time does not count", what_is_left_of_an_earlier_time_does_not_count},
    {"room comes back when all have read", room_comes_back_when_all_have_read},
    {"a peer that has ended reads nothing more", a_peer_that_has_ended_reads_nothing_more},
    {"segments are checked", segments_are_checked},
    {"places outside a segment are refused", places_outside_a_segment_are_refused},
    {"any table is read safely", any_table_is_read_safely},
    {"the lack of memory is survived", the_lack_of_memory_is_survived},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("posts", tests); }
