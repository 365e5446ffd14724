#include "base/parallel_for.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "tests/runner.h"

/* Something that happens once and can be waited for. */
typedef struct event {
  weft_mutex_t mu;
  weft_cond_t changed;
  bool happened;
} event_t;

static void event_init(event_t *e) {
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  e->happened = false;
}
static void event_set(event_t *e) {
  weft_mutex_lock(&e->mu);
  e->happened = true;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}
static void event_wait(event_t *e) {
  weft_mutex_lock(&e->mu);
  while (!e->happened) weft_cond_wait(&e->changed, &e->mu);
  weft_mutex_unlock(&e->mu);
}
static void event_deinit(event_t *e) {
  weft_cond_deinit(&e->changed);
  weft_mutex_deinit(&e->mu);
}

static weft_thread_pool_t *pool_of(int n) {
  weft_thread_pool_t *p = NULL;
  weft_status_t *s = weft_thread_pool_create("test", n, &p);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return p;
}

/* ---- plans ---- */

static void check_plan(int64_t total, weft_loop_plan_t p) {
  CU_ASSERT_TRUE(p.piece >= 1 && p.num_pieces >= 1 && p.num_pieces <= 1 << 20);
  CU_ASSERT_TRUE(p.max_threads >= 1 && p.max_threads <= p.num_pieces);
  CU_ASSERT_EQUAL(p.num_pieces, (total - 1) / p.piece + 1);
}

static void plans_cover_any_total(void) {
  static const int64_t totals[] = {1, 2, 63, 64, 65, 1000000, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
  static const double costs[] = {0, 1e-9, 1, 1e3, 1e12, 1e300, -1, 0.0 / 0.0};
  for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
    for (size_t k = 0; k < sizeof totals / sizeof totals[0]; k++)
      check_plan(totals[i], weft_loop_plan_by_grain(totals[i], totals[k]));
    check_plan(totals[i], weft_loop_plan_by_grain(totals[i], 0));
    check_plan(totals[i], weft_loop_plan_by_grain(totals[i], INT64_MIN));
    for (size_t k = 0; k < sizeof costs / sizeof costs[0]; k++) {
      check_plan(totals[i], weft_loop_plan(totals[i], (weft_unit_cost_t){.bytes = costs[k]}));
      check_plan(totals[i], weft_loop_plan(totals[i], (weft_unit_cost_t){.cycles = costs[k]}));
    }
  }
}

static void cheap_loops_are_worth_one_thread(void) {
  const weft_unit_cost_t add = {.bytes = 12};
  CU_ASSERT_EQUAL(weft_loop_plan(4096, add).max_threads, 1);
  const weft_loop_plan_t some = weft_loop_plan(64 * 1024, add), large = weft_loop_plan(16 << 20, add);
  CU_ASSERT_TRUE(some.max_threads >= 2 && some.max_threads <= 8);
  CU_ASSERT_TRUE(large.max_threads > 64);
}

static void short_loops_are_timed(void) {
  const weft_unit_cost_t add = {.bytes = 12};
  CU_ASSERT_TRUE(weft_loop_plan(64 * 1024, add).is_short);
  CU_ASSERT_FALSE(weft_loop_plan(16 << 20, add).is_short);
  CU_ASSERT_FALSE(weft_loop_plan_by_grain(64 * 1024, 1024).is_short);
  CU_ASSERT_EQUAL(weft_loop_worth(0, 1000), 1);
  CU_ASSERT_EQUAL(weft_loop_worth(19, 1000), 1);
  CU_ASSERT_EQUAL(weft_loop_worth(20, 5000), 10);
  CU_ASSERT_EQUAL(weft_loop_worth(20, -5000), 1);
  CU_ASSERT_EQUAL(weft_loop_worth(INT64_MAX, INT64_MAX), 1 << 20);
}

static void pieces_are_bounded_in_time(void) {
  const weft_unit_cost_t add = {.bytes = 12};
  for (int64_t n = 1 << 16; n <= 1 << 28; n *= 4) {
    const double ns = (double)weft_loop_plan(n, add).piece * add.bytes / WEFT_CORE_BYTES_PER_NS;
    CU_ASSERT_TRUE(ns > 2000 && ns <= 25000);
  }
  CU_ASSERT_EQUAL(weft_loop_plan(100, (weft_unit_cost_t){.cycles = 1e6}).piece, 1);
}

/* ---- which pieces a loop has ---- */

typedef struct pieces {
  int64_t total, piece;
  atomic_ullong units, begins;
  atomic_llong num;
  atomic_bool is_off_grid;
} pieces_t;

static void note_piece(void *arg, int64_t begin, int64_t end) {
  pieces_t *p = arg;
  atomic_fetch_add(&p->units, (unsigned long long)(end - begin));
  atomic_fetch_add(&p->begins, (unsigned long long)begin);
  atomic_fetch_add(&p->num, 1);
  const bool fits = begin % p->piece == 0 && (end - begin == p->piece || end == p->total);
  if (!fits) atomic_store(&p->is_off_grid, true);
}

static void check_pieces(weft_thread_pool_t *pool, int64_t total, int64_t grain) {
  const weft_loop_plan_t plan = weft_loop_plan_by_grain(total, grain);
  pieces_t p = {.total = total, .piece = plan.piece};
  weft_parallel_for(pool, total, grain, note_piece, &p);
  CU_ASSERT_EQUAL(atomic_load(&p.units), (unsigned long long)total);
  if (atomic_load(&p.num) == 1) return; /* not shared */
  CU_ASSERT_EQUAL(atomic_load(&p.num), plan.num_pieces);
  CU_ASSERT_FALSE(atomic_load(&p.is_off_grid));
  const unsigned long long n = (unsigned long long)plan.num_pieces;
  CU_ASSERT_EQUAL(atomic_load(&p.begins), n * (n - 1) / 2 * (unsigned long long)plan.piece);
}

static void pieces_do_not_depend_on_threads(void) {
  for (int threads = 1; threads <= 5; threads++) {
    weft_thread_pool_t *pool = pool_of(threads);
    check_pieces(pool, 1000, 7);
    check_pieces(pool, 100000, 1);
    check_pieces(pool, 5000000, 1); /* more than there may be */
    check_pieces(pool, INT64_MAX, INT64_MAX / 1000);
    check_pieces(pool, INT64_MAX - 1, 1);
    check_pieces(pool, 10, INT64_MAX);
    weft_thread_pool_destroy(pool);
  }
}

typedef struct cells {
  weft_thread_pool_t *pool;
  atomic_uchar *seen;
  atomic_int inner_units;
} cells_t;

static void mark(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&((cells_t *)arg)->seen[i], 1);
}

static void loops_by_cost_cover_every_index_once(void) {
  static const int64_t totals[] = {0, 1, 2, 63, 1001, 300000};
  static const double costs[] = {0, 12, 1e4, 1e7};
  weft_thread_pool_t *pool = pool_of(3);
  for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
    for (size_t k = 0; k < sizeof costs / sizeof costs[0]; k++) {
      cells_t c = {.seen = weft_calloc((size_t)totals[i] + 1, 1)};
      weft_parallel_for_cost(k % 2 == 0 ? pool : NULL, totals[i], (weft_unit_cost_t){.bytes = costs[k]}, mark,
                             &c);
      weft_parallel_for_cost(pool, totals[i], (weft_unit_cost_t){.cycles = costs[k]}, mark, &c);
      int64_t twice = 0;
      for (int64_t n = 0; n < totals[i]; n++) twice += atomic_load(&c.seen[n]) == 2;
      CU_ASSERT_EQUAL(twice, totals[i]);
      weft_free(c.seen);
    }
  }
  weft_thread_pool_destroy(pool);
}

static void inner(void *arg, int64_t begin, int64_t end) {
  atomic_fetch_add(&((cells_t *)arg)->inner_units, (int)(end - begin));
}
static void outer(void *arg, int64_t begin, int64_t end) {
  cells_t *c = arg;
  for (int64_t i = begin; i < end; i++)
    weft_parallel_for_cost(c->pool, 64, (weft_unit_cost_t){.cycles = 1e5}, inner, c);
}

static void loops_by_cost_may_nest(void) {
  cells_t c = {.pool = pool_of(3)};
  weft_parallel_for_cost(c.pool, 100, (weft_unit_cost_t){.cycles = 1e6}, outer, &c);
  CU_ASSERT_EQUAL(atomic_load(&c.inner_units), 6400);
  weft_thread_pool_destroy(c.pool);
}

/* ---- threads that are held up ---- */

typedef struct held {
  pthread_t caller;
  int num_helpers;
  int64_t num_pieces;
  atomic_int entered; /* helpers in a piece */
  atomic_llong ended; /* pieces of the caller */
  event_t all_entered, others_ended;
} held_t;

/* The caller's first piece lasts until every helper is in a piece, and theirs until the caller has run all
 * other pieces. */
static void hold_helpers(void *arg, int64_t begin, int64_t end) {
  held_t *h = arg;
  (void)begin;
  (void)end;
  if (!pthread_equal(pthread_self(), h->caller)) {
    if (atomic_fetch_add(&h->entered, 1) + 1 == h->num_helpers) event_set(&h->all_entered);
    event_wait(&h->others_ended);
    atomic_fetch_add(&h->ended, 1);
    return;
  }
  event_wait(&h->all_entered);
  if (atomic_fetch_add(&h->ended, 1) + 1 == h->num_pieces - h->num_helpers) event_set(&h->others_ended);
}

static void helpers_that_are_held_hold_one_piece_each(void) {
  for (int threads = 2; threads <= 5; threads++) {
    weft_thread_pool_t *pool = pool_of(threads);
    held_t h = {.caller = pthread_self(), .num_helpers = threads - 1, .num_pieces = 1000};
    event_init(&h.all_entered);
    event_init(&h.others_ended);
    weft_parallel_for(pool, h.num_pieces, 1, hold_helpers, &h);
    CU_ASSERT_EQUAL(atomic_load(&h.ended), h.num_pieces);
    weft_thread_pool_destroy(pool);
    event_deinit(&h.all_entered);
    event_deinit(&h.others_ended);
  }
}

typedef struct blocked {
  atomic_int running;
  event_t all_run, go_on;
} blocked_t;

static void block(void *arg) {
  blocked_t *b = arg;
  if (atomic_fetch_add(&b->running, 1) == 1) event_set(&b->all_run);
  event_wait(&b->go_on);
}

static void a_loop_does_not_wait_for_threads_that_do_not_come(void) {
  blocked_t b = {.running = 0};
  cells_t c = {.pool = pool_of(2)};
  event_init(&b.all_run);
  event_init(&b.go_on);
  for (int i = 0; i < 2; i++) CU_ASSERT_TRUE_FATAL(weft_thread_pool_submit(c.pool, block, &b));
  event_wait(&b.all_run);
  weft_parallel_for(c.pool, 1000, 1, inner, &c);
  CU_ASSERT_EQUAL(atomic_load(&c.inner_units), 1000);
  event_set(&b.go_on);
  weft_thread_pool_destroy(c.pool);
  event_deinit(&b.all_run);
  event_deinit(&b.go_on);
}

typedef struct own {
  pthread_t self;
  weft_thread_pool_t *pool;
  atomic_int elsewhere, units;
} own_t;

static void note_thread(void *arg, int64_t begin, int64_t end) {
  own_t *o = arg;
  if (!pthread_equal(pthread_self(), o->self)) atomic_fetch_add(&o->elsewhere, 1);
  atomic_fetch_add(&o->units, (int)(end - begin));
}
static void *loop_alone(void *arg) {
  own_t *o = arg;
  o->self = pthread_self();
  weft_parallel_for_alone();
  weft_parallel_for(o->pool, 1000, 1, note_thread, o);
  return NULL;
}

static void a_thread_of_its_own_keeps_its_loops(void) {
  own_t o = {.pool = pool_of(2)};
  pthread_t t;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, loop_alone, &o), 0);
  pthread_join(t, NULL);
  CU_ASSERT_EQUAL(atomic_load(&o.units), 1000);
  CU_ASSERT_EQUAL(atomic_load(&o.elsewhere), 0);
  weft_thread_pool_destroy(o.pool);
}

static void without_memory_the_caller_does_all(void) {
  cells_t c = {.pool = pool_of(2)};
  weft_fault_arm(0);
  weft_parallel_for(c.pool, 1000, 1, inner, &c);
  CU_ASSERT_TRUE(weft_fault_fired());
  weft_fault_arm(1); /* the helper's closure */
  weft_parallel_for(c.pool, 1000, 1, inner, &c);
  weft_fault_arm(-1);
  CU_ASSERT_EQUAL(atomic_load(&c.inner_units), 2000);
  weft_thread_pool_destroy(c.pool);
}

static const CU_TestInfo tests[] = {
    {"plans cover any total", plans_cover_any_total},
    {"cheap loops are worth one thread", cheap_loops_are_worth_one_thread},
    {"short loops are timed", short_loops_are_timed},
    {"pieces are bounded in time", pieces_are_bounded_in_time},
    {"pieces do not depend on threads", pieces_do_not_depend_on_threads},
    {"loops by cost cover every index once", loops_by_cost_cover_every_index_once},
    {"loops by cost may nest", loops_by_cost_may_nest},
    {"helpers that are held hold one piece each", helpers_that_are_held_hold_one_piece_each},
    {"a loop does not wait for threads that do not come", a_loop_does_not_wait_for_threads_that_do_not_come},
    {"a thread of its own keeps its loops", a_thread_of_its_own_keeps_its_loops},
    {"without memory the caller does all", without_memory_the_caller_does_all},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("parallel for", tests); }
