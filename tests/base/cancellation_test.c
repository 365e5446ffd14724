#include "base/cancellation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "tests/runner.h"

static void count(void *arg) { ++*(int *)arg; }

static void cancelling_calls_each_waiter_once(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  int a = 0, b = 0;
  uint64_t token;
  CU_ASSERT_TRUE(weft_canceller_register(c, count, &a, &token));
  CU_ASSERT_TRUE(weft_canceller_register(c, count, &b, &token));
  CU_ASSERT_FALSE(weft_canceller_is_cancelled(c));
  weft_canceller_cancel(c);
  weft_canceller_cancel(c);
  CU_ASSERT_TRUE(weft_canceller_is_cancelled(c));
  CU_ASSERT_EQUAL(a, 1);
  CU_ASSERT_EQUAL(b, 1);
  CU_ASSERT_FALSE(weft_canceller_register(c, count, &a, &token));
  weft_canceller_release(c);
}

static void deregistered_waiters_are_not_called(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  int calls = 0;
  uint64_t token;
  CU_ASSERT_TRUE(weft_canceller_register(c, count, &calls, &token));
  CU_ASSERT_TRUE(weft_canceller_deregister(c, token));
  CU_ASSERT_FALSE(weft_canceller_deregister(c, token));
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(calls, 0);
  weft_canceller_release(c);
}

static void children_are_cancelled_with_their_parent(void) {
  weft_canceller_t *parent = weft_canceller_create(NULL);
  weft_canceller_t *child = weft_canceller_create(parent), *gone = weft_canceller_create(parent);
  weft_canceller_release(gone);
  int calls = 0;
  uint64_t token;
  CU_ASSERT_TRUE(weft_canceller_register(child, count, &calls, &token));
  weft_canceller_cancel(parent);
  CU_ASSERT_TRUE(weft_canceller_is_cancelled(child));
  CU_ASSERT_EQUAL(calls, 1);
  weft_canceller_t *late = weft_canceller_create(parent);
  CU_ASSERT_TRUE(weft_canceller_is_cancelled(late));
  weft_canceller_release(late);
  weft_canceller_release(child);
  weft_canceller_release(parent);
}

static void parents_outlive_cancelled_children(void) {
  weft_canceller_t *parent = weft_canceller_create(NULL), *child = weft_canceller_create(parent);
  weft_canceller_cancel(child);
  CU_ASSERT_FALSE(weft_canceller_is_cancelled(parent));
  weft_canceller_release(parent);
  weft_canceller_release(child);
}

static void null_is_never_cancelled(void) {
  uint64_t token = 7;
  CU_ASSERT_FALSE(weft_canceller_is_cancelled(NULL));
  CU_ASSERT_TRUE(weft_canceller_register(NULL, count, NULL, &token));
  CU_ASSERT_TRUE(weft_canceller_deregister(NULL, token));
  weft_canceller_release(NULL);
}

/* Deregistering while the callback runs waits for its end. */
typedef struct slow {
  weft_canceller_t *c;
  uint64_t token;
  weft_mutex_t mu;
  weft_cond_t change;
  bool is_inside; /* guarded by mu */
  atomic_int ended;
} slow_t;

static void slow_callback(void *arg) {
  slow_t *s = arg;
  weft_mutex_lock(&s->mu);
  s->is_inside = true;
  weft_cond_broadcast(&s->change);
  weft_mutex_unlock(&s->mu);
  for (int i = 0; i < 1000; i++)
    CU_ASSERT_FALSE(weft_canceller_try_deregister(s->c, s->token)); /* takes a while */
  atomic_store(&s->ended, 1);
}

static void *cancel(void *arg) {
  weft_canceller_cancel(arg);
  return NULL;
}

static void deregistering_waits_for_a_running_callback(void) {
  slow_t s = {.c = weft_canceller_create(NULL)};
  weft_mutex_init(&s.mu);
  weft_cond_init(&s.change);
  CU_ASSERT_TRUE(weft_canceller_register(s.c, slow_callback, &s, &s.token));
  pthread_t t;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel, s.c), 0);
  weft_mutex_lock(&s.mu);
  while (!s.is_inside) weft_cond_wait(&s.change, &s.mu);
  weft_mutex_unlock(&s.mu);
  CU_ASSERT_FALSE(weft_canceller_deregister(s.c, s.token));
  CU_ASSERT_EQUAL(atomic_load(&s.ended), 1);
  pthread_join(t, NULL);
  weft_canceller_release(s.c);
  weft_cond_deinit(&s.change);
  weft_mutex_deinit(&s.mu);
}

/* A callback may drop the last reference and register anew. */
static void release_inside(void *arg) { weft_canceller_release(arg); }

static void a_callback_may_drop_the_last_reference(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  uint64_t token;
  CU_ASSERT_TRUE(weft_canceller_register(c, release_inside, c, &token));
  weft_canceller_cancel(c);
}

static void *register_many(void *arg) {
  for (int i = 0; i < 2000; i++) {
    uint64_t token;
    int calls = 0;
    if (weft_canceller_register(arg, count, &calls, &token)) weft_canceller_deregister(arg, token);
  }
  return NULL;
}

static void threads_may_register_while_another_cancels(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  pthread_t t[3];
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t[0], NULL, register_many, c), 0);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t[1], NULL, register_many, c), 0);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t[2], NULL, cancel, c), 0);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  CU_ASSERT_TRUE(weft_canceller_is_cancelled(c));
  weft_canceller_release(c);
}

/* ---- waiters that lie in what their caller keeps ---- */

static void waiters_of_callers_are_called_or_deregistered(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_cancel_waiter_t a, b, late;
  int num_a = 0, num_b = 0, num_late = 0, num_plain = 0;
  uint64_t plain;
  CU_ASSERT_TRUE(weft_canceller_register_in(c, &a, count, &num_a));
  CU_ASSERT_TRUE(weft_canceller_register(c, count, &num_plain, &plain));
  CU_ASSERT_TRUE(weft_canceller_register_in(c, &b, count, &num_b));
  CU_ASSERT_TRUE(weft_canceller_deregister(c, a.token));
  CU_ASSERT_FALSE(weft_canceller_deregister(c, a.token));
  CU_ASSERT_TRUE(weft_canceller_register_in(c, &a, count, &num_a)); /* once more, in the same place */
  CU_ASSERT_TRUE(weft_canceller_try_deregister(c, a.token));
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(num_a, 0);
  CU_ASSERT_EQUAL(num_b, 1);
  CU_ASSERT_EQUAL(num_plain, 1);
  CU_ASSERT_FALSE(weft_canceller_deregister(c, b.token));
  CU_ASSERT_FALSE(weft_canceller_register_in(c, &late, count, &num_late));
  CU_ASSERT_EQUAL(num_late, 0);
  weft_canceller_release(c);
}

typedef struct own_call {
  weft_cancel_waiter_t waiter;
  int *ended;
} own_call_t;

static void end_call(void *arg) {
  own_call_t *call = arg;
  ++*call->ended;
  memset(call, 0xff, sizeof *call); /* a later use of it fails without a sanitizer, too */
  weft_free(call);
}

static void a_callback_may_free_its_waiter(void) {
  enum { CALLS = 200 }; /* several in each of the canceller's lists */
  weft_canceller_t *c = weft_canceller_create(NULL);
  int ended = 0;
  for (int i = 0; i < CALLS; i++) {
    own_call_t *call = weft_calloc(1, sizeof *call);
    CU_ASSERT_PTR_NOT_NULL_FATAL(call);
    call->ended = &ended;
    CU_ASSERT_TRUE(weft_canceller_register_in(c, &call->waiter, end_call, call));
  }
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(ended, CALLS);
  weft_canceller_release(c);
}

static void null_accepts_waiters_of_callers(void) {
  weft_cancel_waiter_t w;
  CU_ASSERT_TRUE(weft_canceller_register_in(NULL, &w, count, NULL));
  CU_ASSERT_TRUE(weft_canceller_deregister(NULL, w.token));
}

static void *register_many_in(void *arg) {
  for (int i = 0; i < 2000; i++) {
    weft_cancel_waiter_t w;
    int calls = 0;
    if (weft_canceller_register_in(arg, &w, count, &calls) && !weft_canceller_deregister(arg, w.token))
      CU_ASSERT_EQUAL(calls, 1); /* the callback is through, and the waiter's place is free */
  }
  return NULL;
}

static void callers_may_leave_while_another_cancels(void) {
  for (int round = 0; round < 50; round++) {
    weft_canceller_t *c = weft_canceller_create(NULL);
    pthread_t t[3];
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[0], NULL, register_many_in, c), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[1], NULL, register_many_in, c), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[2], NULL, cancel, c), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    weft_canceller_release(c);
  }
}

static weft_status_t *make_child(weft_canceller_t *parent) {
  weft_canceller_t *child = weft_canceller_create(parent);
  if (child == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no canceller");
  weft_canceller_release(child);
  return NULL;
}

static void every_failing_allocation_is_reported(void) {
  weft_canceller_t *parent = weft_canceller_create(NULL);
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_child(parent));
  CU_ASSERT_EQUAL(n, 1); /* its place in the parent lies in it */
  weft_canceller_release(parent);
}

static const CU_TestInfo tests[] = {
    {"cancelling calls each waiter once", cancelling_calls_each_waiter_once},
    {"deregistered waiters are not called", deregistered_waiters_are_not_called},
    {"children are cancelled with their parent", children_are_cancelled_with_their_parent},
    {"parents outlive cancelled children", parents_outlive_cancelled_children},
    {"NULL is never cancelled", null_is_never_cancelled},
    {"deregistering waits for a running callback", deregistering_waits_for_a_running_callback},
    {"a callback may drop the last reference", a_callback_may_drop_the_last_reference},
    {"threads may register while another cancels", threads_may_register_while_another_cancels},
    {"waiters of callers are called or deregistered", waiters_of_callers_are_called_or_deregistered},
    {"a callback may free its waiter", a_callback_may_free_its_waiter},
    {"NULL accepts waiters of callers", null_accepts_waiters_of_callers},
    {"callers may leave while another cancels", callers_may_leave_while_another_cancels},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("cancellation", tests); }
