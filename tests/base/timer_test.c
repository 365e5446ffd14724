/* Timers: in order, once, and never after their removal. */
#include "base/timer.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "tests/runner.h"

enum { MS = 1000000 };

typedef struct log {
  weft_mutex_t mu;
  weft_cond_t changed;
  int order[16], n; /* guarded by mu */
} log_t;

typedef struct mark {
  log_t *log;
  int number;
} mark_t;

static void log_init(log_t *l) {
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->changed);
  l->n = 0;
}

static void log_deinit(log_t *l) {
  weft_cond_deinit(&l->changed);
  weft_mutex_deinit(&l->mu);
}

static void note(void *arg) {
  mark_t *m = arg;
  weft_mutex_lock(&m->log->mu);
  m->log->order[m->log->n++] = m->number;
  weft_cond_signal(&m->log->changed);
  weft_mutex_unlock(&m->log->mu);
}

/* True when `n` notes have come; false after 10 s. */
static bool await(log_t *l, int n) {
  int64_t deadline = weft_clock_ns() + (int64_t)10000 * MS;
  weft_mutex_lock(&l->mu);
  while (l->n < n && weft_cond_wait_until(&l->changed, &l->mu, deadline)) {
  }
  bool all = l->n >= n;
  weft_mutex_unlock(&l->mu);
  return all;
}

static weft_timer_t *fresh(void) {
  weft_timer_t *t = NULL;
  weft_status_t *s = weft_timer_create(&t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static uint64_t add(weft_timer_t *t, int64_t deadline, weft_timer_fn *fn, void *arg) {
  uint64_t id = 0;
  weft_status_t *s = weft_timer_add(t, deadline, fn, arg, &id);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  return id;
}

/* The thread sleeps until an entry that was removed, or longer: none that is due before is late. */
static void what_was_removed_makes_no_other_late(void) {
  weft_timer_t *t = fresh();
  log_t l;
  log_init(&l);
  mark_t far = {&l, 100}, due[8];
  const int64_t later = weft_clock_ns() + (int64_t)3600000 * MS;
  for (int i = 0; i < 8; i++) {
    due[i] = (mark_t){&l, i};
    const uint64_t removed[] = {add(t, later + i, note, &far), add(t, later - i, note, &far),
                                add(t, weft_clock_ns() + 200 * MS, note, &far)};
    if (i % 2 == 0) add(t, later + 10, note, &far);
    for (int k = 0; k < 3; k++) CU_ASSERT_TRUE(weft_timer_remove(t, removed[(i + k) % 3]));
    add(t, weft_clock_ns() + (i % 3) * MS, note, &due[i]);
    CU_ASSERT_TRUE(await(&l, i + 1));
    CU_ASSERT_EQUAL(l.order[i], i);
  }
  weft_timer_destroy(t);
  log_deinit(&l);
}

/* A call that keeps the timer's thread, so that a test can add and remove while nothing comes due. */
typedef struct gate {
  weft_mutex_t mu;
  weft_cond_t changed;
  bool is_reached, is_open; /* guarded by mu */
} gate_t;

static void wait_at(void *arg) {
  gate_t *g = arg;
  weft_mutex_lock(&g->mu);
  g->is_reached = true;
  weft_cond_broadcast(&g->changed);
  while (!g->is_open) weft_cond_wait(&g->changed, &g->mu);
  weft_mutex_unlock(&g->mu);
}

static void close_gate(gate_t *g, weft_timer_t *t) {
  weft_mutex_init(&g->mu);
  weft_cond_init(&g->changed);
  g->is_reached = g->is_open = false;
  add(t, weft_clock_ns(), wait_at, g);
  weft_mutex_lock(&g->mu);
  while (!g->is_reached) weft_cond_wait(&g->changed, &g->mu);
  weft_mutex_unlock(&g->mu);
}

static void open_gate(gate_t *g) {
  weft_mutex_lock(&g->mu);
  g->is_open = true;
  weft_cond_broadcast(&g->changed);
  weft_mutex_unlock(&g->mu);
}

static void gate_deinit(gate_t *g) { /* the timer is no more */
  weft_cond_deinit(&g->changed);
  weft_mutex_deinit(&g->mu);
}

static void calls_come_in_the_order_of_their_moments(void) {
  weft_timer_t *t = fresh();
  log_t l;
  gate_t g;
  log_init(&l);
  close_gate(&g, t);
  mark_t marks[4] = {{&l, 0}, {&l, 1}, {&l, 2}, {&l, 3}};
  int64_t now = weft_clock_ns();
  add(t, now + 30 * MS, note, &marks[3]);
  add(t, now + 10 * MS, note, &marks[1]);
  add(t, now - 5 * MS, note, &marks[0]);  /* long past: at once */
  add(t, now + 10 * MS, note, &marks[2]); /* as soon as another: behind it */
  open_gate(&g);
  CU_ASSERT_TRUE(await(&l, 4));
  CU_ASSERT_TRUE(weft_clock_ns() >= now + 30 * MS);
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(l.order[i], i);
  weft_timer_destroy(t);
  gate_deinit(&g);
  log_deinit(&l);
}

static void what_is_removed_is_not_called(void) {
  weft_timer_t *t = fresh();
  log_t l;
  gate_t g;
  log_init(&l);
  close_gate(&g, t);
  mark_t first = {&l, 1}, second = {&l, 2};
  int64_t now = weft_clock_ns();
  uint64_t id = add(t, now + 5 * MS, note, &first);
  add(t, now + 20 * MS, note, &second);
  CU_ASSERT_TRUE(weft_timer_remove(t, id));
  CU_ASSERT_FALSE(weft_timer_remove(t, id));
  CU_ASSERT_FALSE(weft_timer_remove(t, 12345));
  open_gate(&g);
  CU_ASSERT_TRUE(await(&l, 1));
  CU_ASSERT_EQUAL(l.order[0], 2);
  weft_timer_destroy(t);
  gate_deinit(&g);
  log_deinit(&l);
}

typedef struct slow {
  log_t *log;
  atomic_bool has_begun, has_ended;
} slow_t;

static void take_long(void *arg) {
  slow_t *w = arg;
  mark_t m = {w->log, 1};
  atomic_store(&w->has_begun, true);
  note(&m);
  int64_t until = weft_clock_ns() + 20 * MS; /* works, rather than sleeps */
  while (weft_clock_ns() < until) {
  }
  atomic_store(&w->has_ended, true);
}

static void removal_waits_for_a_call_in_progress(void) {
  weft_timer_t *t = fresh();
  log_t l;
  log_init(&l);
  slow_t w = {.log = &l};
  uint64_t id = add(t, weft_clock_ns(), take_long, &w);
  CU_ASSERT_TRUE(await(&l, 1));
  CU_ASSERT_FALSE(weft_timer_remove(t, id));
  CU_ASSERT_TRUE(atomic_load(&w.has_begun) && atomic_load(&w.has_ended));
  weft_timer_destroy(t);
  log_deinit(&l);
}

typedef struct own {
  weft_timer_t *timer;
  uint64_t id;
  mark_t mark;
} own_t;

static void remove_itself(void *arg) {
  own_t *o = arg;
  if (weft_timer_remove(o->timer, o->id)) o->mark.number = -1;
  note(&o->mark);
}

static void a_call_can_ask_for_its_own_removal(void) {
  weft_timer_t *t = fresh();
  log_t l;
  log_init(&l);
  own_t o = {.timer = t, .mark = {&l, 7}};
  /* The id is there before the call can be: it goes straight to where the call looks. */
  weft_status_t *s = weft_timer_add(t, weft_clock_ns() + 5 * MS, remove_itself, &o, &o.id);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  CU_ASSERT_TRUE(await(&l, 1));
  CU_ASSERT_EQUAL(l.order[0], 7);
  weft_timer_destroy(t);
  log_deinit(&l);
}

static void destruction_drops_what_is_pending(void) {
  weft_timer_t *t = fresh();
  log_t l;
  log_init(&l);
  mark_t m = {&l, 1};
  add(t, weft_clock_ns() + (int64_t)3600 * 1000 * MS, note, &m);
  weft_timer_destroy(t);
  CU_ASSERT_EQUAL(l.n, 0);
  weft_timer_destroy(fresh()); /* one that was never used has no thread */
  weft_timer_destroy(NULL);
  log_deinit(&l);
}

static weft_status_t *make_and_add(mark_t *m) {
  weft_timer_t *t = NULL;
  uint64_t id;
  weft_status_t *s = weft_timer_create(&t);
  if (s == NULL) s = weft_timer_add(t, weft_clock_ns() + (int64_t)3600 * 1000 * MS, note, m, &id);
  weft_timer_destroy(t);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  log_t l;
  log_init(&l);
  mark_t m = {&l, 1};
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_and_add(&m));
  CU_ASSERT_EQUAL(n, 2);
  log_deinit(&l);
}

static void no_time_is_too_long(void) {
  int64_t now = weft_clock_ns();
  CU_ASSERT_EQUAL(weft_clock_deadline_ns(INT64_C(1) << 62), INT64_MAX);
  CU_ASSERT_EQUAL(weft_clock_deadline_ns(INT64_MAX), INT64_MAX);
  CU_ASSERT_TRUE(weft_clock_deadline_ns(INT64_MAX / 2000000) > now);
  CU_ASSERT_TRUE(weft_clock_deadline_ns(1000) >= now + INT64_C(1000) * MS);
  CU_ASSERT_TRUE(weft_clock_deadline_ns(-5) >= now);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"no_time_is_too_long", no_time_is_too_long},
      {"calls_come_in_the_order_of_their_moments", calls_come_in_the_order_of_their_moments},
      {"what_is_removed_is_not_called", what_is_removed_is_not_called},
      {"what_was_removed_makes_no_other_late", what_was_removed_makes_no_other_late},
      {"removal_waits_for_a_call_in_progress", removal_waits_for_a_call_in_progress},
      {"a_call_can_ask_for_its_own_removal", a_call_can_ask_for_its_own_removal},
      {"destruction_drops_what_is_pending", destruction_drops_what_is_pending},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("timer", tests);
}
