/* Conformance of rendezvous: every implementation runs the same tests. */
#include <pthread.h>
#include <stdio.h>

#include "base/mutex.h"
#include "rendezvous/remote/remote_rendezvous.h"
#include "tests/runner.h"

#define HERE "/job:w/replica:0/task:0"
#define SRC HERE "/device:CPU:0"
#define KEY(name) weft_key(WEFT_STR(SRC ";0000000000000001;" SRC ";" name ";0:0"))
#define ELSEWHERE(name) \
  weft_key(WEFT_STR("/job:w/replica:0/task:7/device:CPU:0;0000000000000001;" SRC ";" name ";0:0"))

static void no_fetch(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                     weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg) {
  (void)arg;
  (void)step_id;
  (void)key;
  (void)parts;
  (void)canceller;
  fn(fn_arg, WEFT_ERROR(INTERNAL, "a fetch for our own device"), NULL, false);
}

static weft_rendezvous_t *make_local(void) {
  weft_rendezvous_t *r = NULL;
  weft_status_t *s = weft_local_rendezvous_create(0, &r);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return r;
}

static weft_rendezvous_t *make_remote(void) {
  weft_rendezvous_t *r = NULL;
  weft_status_t *s =
      weft_remote_rendezvous_create(WEFT_STR(HERE), 1, (weft_tensor_source_t){.fetch = no_fetch}, &r);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return r;
}

static void each(void (*test)(weft_rendezvous_t *r)) {
  weft_rendezvous_t *(*const make[])(void) = {make_local, make_remote};
  for (int i = 0; i < 2; i++) {
    weft_rendezvous_t *r = make[i]();
    test(r);
    weft_rendezvous_release(r);
  }
}

/* What a receive got. */
typedef struct got {
  int calls;
  weft_code_t code;
  bool is_dead, is_derived;
  int32_t value; /* -1: no tensor */
} got_t;

static void record(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  got_t *g = arg;
  g->calls++;
  g->code = weft_status_code(status);
  g->is_derived = weft_status_is_derived(status);
  g->is_dead = is_dead;
  g->value = tensor == NULL ? -1 : *(const int32_t *)tensor->data;
  weft_status_free(status);
  weft_tensor_release(tensor);
}

static weft_status_t *send(weft_rendezvous_t *r, weft_key_t key, int32_t value) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &value, &t));
  weft_status_t *s = weft_rendezvous_send(r, key, t, false);
  weft_tensor_release(t);
  return s;
}

static void either_order(weft_rendezvous_t *r) {
  got_t early = {0}, late = {0};
  weft_rendezvous_recv_async(r, KEY("a"), NULL, record, &early);
  CU_ASSERT_EQUAL(early.calls, 0);
  CU_ASSERT_PTR_NULL(send(r, KEY("a"), 1));
  CU_ASSERT_EQUAL(early.calls, 1);
  CU_ASSERT_EQUAL(early.value, 1);
  CU_ASSERT_PTR_NULL(send(r, KEY("b"), 2));
  weft_rendezvous_recv_async(r, KEY("b"), NULL, record, &late);
  CU_ASSERT_EQUAL(late.calls, 1);
  CU_ASSERT_EQUAL(late.value, 2);
}
static void sender_or_receiver_may_come_first(void) { each(either_order); }

static void fifo(weft_rendezvous_t *r) {
  got_t got[6] = {{0}};
  for (int i = 0; i < 3; i++) CU_ASSERT_PTR_NULL(send(r, KEY("k"), i));
  for (int i = 0; i < 6; i++) weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &got[i]);
  for (int i = 3; i < 6; i++) CU_ASSERT_PTR_NULL(send(r, KEY("k"), i));
  for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(got[i].value, i);
}
static void values_of_one_key_arrive_in_order(void) { each(fifo); }

static void dead(weft_rendezvous_t *r) {
  got_t g = {0};
  CU_ASSERT_PTR_NULL(weft_rendezvous_send(r, KEY("k"), NULL, true));
  weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &g);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_TRUE(g.is_dead);
  CU_ASSERT_EQUAL(g.value, -1);
}
static void deadness_travels(void) { each(dead); }

static void abort_all(weft_rendezvous_t *r) {
  got_t early = {0}, late = {0}, waiting = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &early);
  weft_rendezvous_recv_async(r, KEY("l"), c, record, &waiting);
  CU_ASSERT_PTR_NULL(send(r, KEY("unused"), 1));
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "worker 1 is gone");
  weft_status_t *later = WEFT_ERROR(INTERNAL, "too late");
  weft_rendezvous_abort(r, why);
  weft_rendezvous_abort(r, later);
  weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &late);
  CU_ASSERT_EQUAL(early.code, WEFT_UNAVAILABLE);
  CU_ASSERT_EQUAL(waiting.code, WEFT_UNAVAILABLE);
  CU_ASSERT_EQUAL(late.code, WEFT_UNAVAILABLE);
  weft_status_t *s = send(r, KEY("k"), 1);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  weft_status_free(s);
  weft_status_free(why);
  weft_status_free(later);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(waiting.calls, 1);
  weft_canceller_release(c);
}
static void abort_reaches_present_and_future_receivers(void) { each(abort_all); }

static void cancel(weft_rendezvous_t *r) {
  got_t waiting = {0}, other = {0}, late = {0}, there = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_rendezvous_recv_async(r, KEY("k"), c, record, &waiting);
  weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &other);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(waiting.calls, 1);
  CU_ASSERT_EQUAL(waiting.code, WEFT_CANCELLED);
  CU_ASSERT_TRUE(waiting.is_derived);
  weft_rendezvous_recv_async(r, KEY("x"), c, record, &late);
  CU_ASSERT_EQUAL(late.code, WEFT_CANCELLED);
  CU_ASSERT_PTR_NULL(send(r, KEY("there"), 3));
  weft_rendezvous_recv_async(r, KEY("there"), c, record,
                             &there); /* what is there is handed out all the same */
  CU_ASSERT_EQUAL(there.value, 3);
  CU_ASSERT_PTR_NULL(send(r, KEY("k"), 5));
  CU_ASSERT_EQUAL(other.value, 5);
  weft_canceller_release(c);
}
static void a_canceller_ends_its_own_waits_only(void) { each(cancel); }

static void received_then_cancelled(weft_rendezvous_t *r) {
  got_t g = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_rendezvous_recv_async(r, KEY("k"), c, record, &g);
  CU_ASSERT_PTR_NULL(send(r, KEY("k"), 5));
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_EQUAL(g.value, 5);
  weft_canceller_release(c);
}
static void each_receive_ends_once(void) { each(received_then_cancelled); }

static void many(weft_rendezvous_t *r) {
  enum { KEYS = 2000 };
  char text[256];
  got_t *got = weft_calloc(KEYS, sizeof *got);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < KEYS; i++) {
      snprintf(text, sizeof text, SRC ";0000000000000001;" SRC ";edge_%d;0:0", i);
      if (round == 0) {
        CU_ASSERT_PTR_NULL(send(r, weft_key(weft_str(text)), i));
      } else {
        weft_rendezvous_recv_async(r, weft_key(weft_str(text)), NULL, record, &got[i]);
      }
    }
  }
  int right = 0;
  for (int i = 0; i < KEYS; i++) right += got[i].calls == 1 && got[i].value == i;
  CU_ASSERT_EQUAL(right, KEYS);
  weft_free(got);
}
static void keys_may_be_many(void) { each(many); }

static void the_last_release_ends_waits(void) {
  weft_rendezvous_t *r = make_local();
  got_t g = {0};
  weft_rendezvous_recv_async(r, KEY("k"), NULL, record, &g);
  weft_rendezvous_release(r);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_EQUAL(g.code, WEFT_ABORTED);
}

/* Senders, receivers and cancellers at once: every receive ends exactly once, whatever wins. */
typedef struct crowd {
  weft_rendezvous_t *r;
  weft_canceller_t *c;
  weft_mutex_t mu;
  int ends; /* guarded by mu */
} crowd_t;

enum { ROUNDS = 2000 };

static void count_end(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  crowd_t *w = arg;
  (void)is_dead;
  weft_status_free(status);
  weft_tensor_release(tensor);
  weft_mutex_lock(&w->mu);
  w->ends++;
  weft_mutex_unlock(&w->mu);
}

static void *crowd_send(void *arg) {
  crowd_t *w = arg;
  for (int i = 0; i < ROUNDS; i++) weft_status_free(send(w->r, i % 2 == 0 ? KEY("x") : KEY("y"), i));
  return NULL;
}
static void *crowd_recv(void *arg) {
  crowd_t *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    weft_rendezvous_recv_async(w->r, i % 2 == 0 ? KEY("x") : KEY("y"), w->c, count_end, w);
  }
  return NULL;
}
static void *crowd_cancel(void *arg) {
  crowd_t *w = arg;
  weft_canceller_cancel(w->c);
  return NULL;
}

static void crowd(weft_rendezvous_t *r) {
  crowd_t w = {.r = r, .c = weft_canceller_create(NULL)};
  weft_mutex_init(&w.mu);
  void *(*const jobs[])(void *) = {crowd_recv, crowd_send, crowd_recv, crowd_cancel};
  pthread_t t[4];
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, jobs[i], &w), 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  CU_ASSERT_EQUAL(w.ends, 2 * ROUNDS); /* the canceller ended those that got nothing */
  weft_canceller_release(w.c);
  weft_mutex_deinit(&w.mu);
}
static void threads_may_send_receive_and_cancel_at_once(void) { each(crowd); }

static weft_status_t *send_and_receive(weft_rendezvous_t *r) {
  got_t g = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  if (c == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no canceller");
  weft_rendezvous_recv_async(r, KEY("k"), c, record, &g);
  weft_status_t *s = NULL;
  if (g.calls == 0) s = send(r, KEY("k"), 1);
  weft_canceller_cancel(c); /* ends a receive that nothing was sent to */
  weft_canceller_release(c);
  if (s == NULL && g.code != WEFT_OK) s = weft_status_from_wire((int)g.code, "receive", 7);
  return s;
}

static void allocations(weft_rendezvous_t *r) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, send_and_receive(r));
  CU_ASSERT_TRUE(n >= 3);
}
static void every_failing_allocation_is_reported(void) { each(allocations); }

/* ---- fetching from elsewhere ---- */

typedef struct peer {
  weft_recv_fn *fn; /* of the fetch under way */
  void *fn_arg;
  int fetches, cancelled;
  uint64_t token;
  bool ends_when_cancelled;
} peer_t;

static void peer_cancelled(void *arg) {
  peer_t *p = arg;
  p->cancelled++;
  if (p->ends_when_cancelled) p->fn(p->fn_arg, WEFT_ERROR(CANCELLED, "call cancelled"), NULL, false);
}

static void peer_fetch(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                       weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg) {
  peer_t *p = arg;
  (void)key;
  CU_ASSERT_EQUAL(step_id, 42);
  CU_ASSERT_TRUE(weft_str_is(parts->src_device, "/job:w/replica:0/task:7/device:CPU:0"));
  p->fetches++;
  p->fn = fn;
  p->fn_arg = fn_arg;
  p->ends_when_cancelled = true;
  CU_ASSERT_TRUE(weft_canceller_register(canceller, peer_cancelled, p, &p->token));
}

static weft_rendezvous_t *make_fetching(peer_t *p) {
  weft_rendezvous_t *r = NULL;
  weft_status_t *s = weft_remote_rendezvous_create(WEFT_STR(HERE), 42,
                                                   (weft_tensor_source_t){.fetch = peer_fetch, .arg = p}, &r);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return r;
}

static void other_tasks_tensors_are_fetched(void) {
  peer_t p = {0};
  got_t g = {0};
  weft_rendezvous_t *r = make_fetching(&p);
  weft_rendezvous_recv_async(r, ELSEWHERE("k"), NULL, record, &g);
  CU_ASSERT_EQUAL(p.fetches, 1);
  CU_ASSERT_EQUAL(g.calls, 0);
  int32_t nine = 9;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL(weft_tensor_scalar(WEFT_I32, &nine, &t));
  p.ends_when_cancelled = false;
  p.fn(p.fn_arg, NULL, t, false);
  CU_ASSERT_EQUAL(g.value, 9);
  weft_rendezvous_release(r);
}

static void aborting_cancels_fetches(void) {
  peer_t p = {0};
  got_t g = {0}, late = {0};
  weft_rendezvous_t *r = make_fetching(&p);
  weft_rendezvous_recv_async(r, ELSEWHERE("k"), NULL, record, &g);
  weft_status_t *why = WEFT_ERROR(DATA_LOSS, "the cause");
  weft_rendezvous_abort(r, why);
  weft_status_free(why);
  CU_ASSERT_EQUAL(p.cancelled, 1);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_EQUAL(g.code, WEFT_DATA_LOSS);
  weft_rendezvous_recv_async(r, ELSEWHERE("k"), NULL, record, &late);
  CU_ASSERT_EQUAL(late.code, WEFT_DATA_LOSS);
  CU_ASSERT_EQUAL(p.fetches, 1);
  weft_rendezvous_release(r);
}

static void cancelling_a_receive_cancels_its_fetch(void) {
  peer_t p = {0};
  got_t g = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_rendezvous_t *r = make_fetching(&p);
  weft_rendezvous_recv_async(r, ELSEWHERE("k"), c, record, &g);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(p.cancelled, 1);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_EQUAL(g.code, WEFT_CANCELLED);
  weft_canceller_release(c);
  weft_rendezvous_release(r);
}

static void a_table_that_was_never_used_is_as_new(void) {
  weft_rendezvous_t *r = make_remote();
  for (int64_t step = 2; step < 5; step++) {
    weft_rendezvous_abort(r, NULL);
    CU_ASSERT_TRUE(weft_remote_rendezvous_renew(r, step));
  }
  weft_tensor_t *out = NULL;
  bool is_dead = true;
  CU_ASSERT_PTR_NULL(send(r, KEY("a"), 7));
  CU_ASSERT_FALSE(weft_remote_rendezvous_renew(r, 5)); /* it is used now */
  CU_ASSERT_TRUE(weft_remote_rendezvous_take(r, KEY("a"), &out, &is_dead));
  CU_ASSERT_EQUAL(*(const int32_t *)out->data, 7);
  CU_ASSERT_FALSE(is_dead);
  weft_tensor_release(out);
  CU_ASSERT_FALSE(weft_remote_rendezvous_take(r, KEY("a"), &out, &is_dead));
  CU_ASSERT_FALSE(weft_remote_rendezvous_renew(r, 5)); /* also when it is empty again */
  weft_rendezvous_release(r);
}

/* What comes after the end of a step is told so, whether it was used before or not. */
static void a_step_that_has_ended_says_so(void) {
  for (int is_used = 0; is_used < 2; is_used++) {
    weft_rendezvous_t *r = make_remote();
    got_t waits = {0}, late = {0};
    CU_ASSERT_PTR_NULL(weft_remote_rendezvous_aborted(r));
    if (is_used) weft_rendezvous_recv_async(r, KEY("a"), NULL, record, &waits);
    weft_rendezvous_abort(r, NULL);
    CU_ASSERT_EQUAL(waits.calls, is_used);
    if (is_used) CU_ASSERT_EQUAL(waits.code, WEFT_ABORTED);
    weft_rendezvous_recv_async(r, KEY("a"), NULL, record, &late);
    CU_ASSERT_EQUAL(late.calls, 1);
    CU_ASSERT_EQUAL(late.code, WEFT_ABORTED);
    CU_ASSERT_TRUE(late.is_derived);
    weft_status_t *s = send(r, KEY("a"), 1);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), WEFT_DERIVED_MARK "Cleanup 1");
    weft_status_free(s);
    s = weft_remote_rendezvous_aborted(r);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), WEFT_DERIVED_MARK "Cleanup 1");
    weft_status_free(s);
    weft_rendezvous_release(r);
  }
}

static void malformed_keys_are_refused(void) {
  peer_t p = {0};
  got_t g = {0};
  weft_rendezvous_t *r = make_fetching(&p);
  weft_rendezvous_recv_async(r, weft_key(WEFT_STR("nonsense")), NULL, record, &g);
  CU_ASSERT_EQUAL(g.code, WEFT_INVALID_ARGUMENT);
  weft_rendezvous_release(r);
}

static void the_service_reads_the_local_table(void) {
  peer_t p = {0};
  got_t g = {0};
  weft_rendezvous_t *r = make_fetching(&p);
  CU_ASSERT_PTR_NULL(send(r, ELSEWHERE("k"), 6));
  weft_remote_rendezvous_recv_local(r, ELSEWHERE("k"), NULL, record, &g);
  CU_ASSERT_EQUAL(g.value, 6);
  CU_ASSERT_EQUAL(p.fetches, 0);
  weft_rendezvous_release(r);
}

/* ---- keys ---- */

static void keys_are_printed_as_tensorflow_does(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_key_print(&b, WEFT_STR("/job:ps/replica:0/task:0/device:CPU:0"), 0x00c0ffee12345678u,
                 WEFT_STR("/job:worker/replica:0/task:1/device:GPU:0"), WEFT_STR("edge_42_w/read"), 0, 0);
  CU_ASSERT_STRING_EQUAL(b.data,
                         "/job:ps/replica:0/task:0/device:CPU:0;00c0ffee12345678;"
                         "/job:worker/replica:0/task:1/device:GPU:0;edge_42_w/read;0:0");
  weft_key_parts_t parts;
  CU_ASSERT_PTR_NULL(weft_key_parse(weft_str_of(b.data, b.length), &parts));
  CU_ASSERT_EQUAL(parts.src_incarnation, 0x00c0ffee12345678u);
  CU_ASSERT_TRUE(weft_str_is(parts.edge, "edge_42_w/read"));
  CU_ASSERT_TRUE(weft_str_is(parts.dst_device, "/job:worker/replica:0/task:1/device:GPU:0"));
  weft_strbuf_deinit(&b);
}

static void wrong_keys_are_refused(void) {
  static const char *const wrong[] = {
      "",
      ";;;;",
      "a",
      "/job:a;1;/job:b;e",
      "/job:a;1;/job:b;e;0:0;more",
      "/job:a;xyz;/job:b;e;0:0",
      "/job:a;1;/job:b;;0:0",
      "job:a;1;/job:b;e;0:0",
      "/job:a;1;b;e;0:0",
      "/job:a;11111111111111111;/job:b;e;0:0",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    weft_key_parts_t parts;
    weft_status_t *s = weft_key_parse(weft_str(wrong[i]), &parts);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
}

static const CU_TestInfo tests[] = {
    {"sender or receiver may come first", sender_or_receiver_may_come_first},
    {"values of one key arrive in order", values_of_one_key_arrive_in_order},
    {"deadness travels", deadness_travels},
    {"abort reaches present and future receivers", abort_reaches_present_and_future_receivers},
    {"a canceller ends its own waits only", a_canceller_ends_its_own_waits_only},
    {"each receive ends once", each_receive_ends_once},
    {"keys may be many", keys_may_be_many},
    {"the last release ends waits", the_last_release_ends_waits},
    {"threads may send, receive and cancel at once", threads_may_send_receive_and_cancel_at_once},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"other tasks' tensors are fetched", other_tasks_tensors_are_fetched},
    {"aborting cancels fetches", aborting_cancels_fetches},
    {"cancelling a receive cancels its fetch", cancelling_a_receive_cancels_its_fetch},
    {"a table that was never used is as new", a_table_that_was_never_used_is_as_new},
    {"a step that has ended says so", a_step_that_has_ended_says_so},
    {"malformed keys are refused", malformed_keys_are_refused},
    {"the service reads the local table", the_service_reads_the_local_table},
    {"keys are printed as TensorFlow does", keys_are_printed_as_tensorflow_does},
    {"wrong keys are refused", wrong_keys_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("rendezvous", tests); }
