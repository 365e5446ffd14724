/* A client's side of being there: calls at a master that answers as it is told. */
#include "services/presence.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "tests/runner.h"

enum { CALLS = 4 };

typedef struct fake {
  weft_master_client_t base;
  weft_mutex_t mu;
  weft_cond_t changed;
  weft_code_t answers[CALLS]; /* of the first calls; later ones wait for the canceller */
  int calls, open;            /* guarded by mu */
  char ids[CALLS + 1][256];   /* guarded by mu */
} fake_t;

static void wake(void *arg) {
  fake_t *f = arg;
  weft_mutex_lock(&f->mu);
  f->open = 0;
  weft_cond_broadcast(&f->changed);
  weft_mutex_unlock(&f->mu);
}

/* Waits, as the client of a master that is far away does. */
static void hold_client(weft_master_client_t *m, const weft_hold_client_t *r, weft_canceller_t *c,
                        weft_done_fn *fn, void *arg) {
  fake_t *f = (fake_t *)(void *)m;
  uint64_t token = 0;
  weft_mutex_lock(&f->mu);
  int i = f->calls++;
  if (i <= CALLS) memcpy(f->ids[i], r->client.data, r->client.length);
  weft_code_t code = i < CALLS ? f->answers[i] : WEFT_CANCELLED;
  bool waits = i >= CALLS || code == WEFT_CANCELLED;
  if (waits) f->open = 1;
  weft_cond_broadcast(&f->changed);
  weft_mutex_unlock(&f->mu);
  if (waits && weft_canceller_register(c, wake, f, &token)) {
    weft_mutex_lock(&f->mu);
    while (f->open > 0) weft_cond_wait(&f->changed, &f->mu);
    weft_mutex_unlock(&f->mu);
    weft_canceller_deregister(c, token);
  }
  fn(arg, code == WEFT_OK ? NULL : weft_status_new(code, __FILE__, __LINE__, "as told"));
}

static void destroy(weft_master_client_t *m) { (void)m; }
static const weft_master_client_ops_t ops = {.hold_client = hold_client, .destroy = destroy};

static void setup(fake_t *f, weft_code_t first, weft_code_t then) {
  *f = (fake_t){.base = {.ops = &ops}, .answers = {first, then, then, WEFT_CANCELLED}};
  atomic_init(&f->base.refs, 1);
  weft_mutex_init(&f->mu);
  weft_cond_init(&f->changed);
}

static int wait_for_calls(fake_t *f, int n) {
  int64_t deadline = weft_clock_ns() + INT64_C(20000000000);
  weft_mutex_lock(&f->mu);
  while (f->calls < n && weft_cond_wait_until(&f->changed, &f->mu, deadline)) {
  }
  int calls = f->calls;
  weft_mutex_unlock(&f->mu);
  return calls;
}

static weft_presence_t *started(fake_t *f) {
  weft_presence_t *p = NULL;
  weft_status_t *s = weft_presence_start(&f->base, &p);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return p;
}

static void a_call_that_breaks_is_opened_again_with_the_same_id(void) {
  static const weft_code_t breaks[] = {WEFT_UNAVAILABLE, WEFT_CANCELLED, WEFT_UNKNOWN, WEFT_INTERNAL};
  for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
    fake_t f;
    setup(&f, breaks[i] == WEFT_CANCELLED ? WEFT_INTERNAL : breaks[i], WEFT_UNAVAILABLE);
    weft_presence_t *p = started(&f);
    CU_ASSERT_EQUAL(wait_for_calls(&f, 4), 4);
    for (int k = 0; k < 4; k++) CU_ASSERT_TRUE(weft_str_is(weft_presence_id(p), f.ids[k]));
    weft_presence_stop(p); /* while the call is open */
    CU_ASSERT_EQUAL(f.calls, 4);
    CU_ASSERT_EQUAL(atomic_load(&f.base.refs), 1);
  }
}

static void a_master_that_does_not_know_the_call_is_not_asked_again(void) {
  static const weft_code_t ends[] = {WEFT_OK, WEFT_UNIMPLEMENTED, WEFT_ABORTED, WEFT_INVALID_ARGUMENT};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    fake_t f;
    setup(&f, WEFT_UNAVAILABLE, ends[i]);
    weft_presence_t *p = started(&f);
    CU_ASSERT_EQUAL(wait_for_calls(&f, 2), 2);
    weft_presence_stop(p); /* waits for the thread, which has nothing to wait for */
    CU_ASSERT_EQUAL(f.calls, 2);
  }
}

static void ids_are_printable_and_differ(void) {
  fake_t f;
  setup(&f, WEFT_UNIMPLEMENTED, WEFT_OK);
  weft_presence_t *a = started(&f), *b = started(&f);
  weft_str_t ids[2] = {weft_presence_id(a), weft_presence_id(b)};
  CU_ASSERT_FALSE(weft_str_eq(ids[0], ids[1]));
  for (int i = 0; i < 2; i++) {
    CU_ASSERT(ids[i].length > 10 && ids[i].length < 200);
    for (size_t k = 0; k < ids[i].length; k++) CU_ASSERT(ids[i].data[k] >= ' ' && ids[i].data[k] <= '~');
  }
  weft_presence_stop(a);
  weft_presence_stop(b);
  weft_presence_stop(NULL);
}

static void memory_may_run_out(void) {
  fake_t f;
  int n;
  setup(&f, WEFT_UNIMPLEMENTED, WEFT_OK);
  for (n = 0;; n++) {
    weft_presence_t *p = NULL;
    weft_fault_arm(n);
    weft_status_t *s = weft_presence_start(&f.base, &p);
    weft_fault_arm(-1);
    weft_presence_stop(p);
    weft_code_t code = weft_status_code(s);
    weft_status_free(s);
    if (code == WEFT_OK) break;
    CU_ASSERT_EQUAL(code, WEFT_RESOURCE_EXHAUSTED);
  }
  CU_ASSERT(n >= 3);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a call that breaks is opened again with the same id",
       a_call_that_breaks_is_opened_again_with_the_same_id},
      {"a master that does not know the call is not asked again",
       a_master_that_does_not_know_the_call_is_not_asked_again},
      {"ids are printable and differ", ids_are_printable_and_differ},
      {"memory may run out", memory_may_run_out},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("presence", tests);
}
