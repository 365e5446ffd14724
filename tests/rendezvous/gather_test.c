/* Receives of several keys at once, and subscriptions, which are made of them. */
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "rendezvous/remote/remote_rendezvous.h"
#include "tests/runner.h"

#define HERE "/job:w/replica:0/task:0"
#define PEER "/job:ps/replica:0/task:1"
#define DST HERE "/device:CPU:0"
#define TEXT(name) PEER "/device:CPU:0;0000000000000001;" DST ";" name ";0:0"
#define KEY(name) weft_key(WEFT_STR(TEXT(name)))

static weft_rendezvous_t *make_local(void) {
  weft_rendezvous_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_rendezvous_create(7, &r));
  return r;
}

static weft_status_t *send_bytes(weft_rendezvous_t *r, weft_key_t key, int32_t value, size_t bytes) {
  weft_tensor_t *t = NULL;
  const weft_shape_t shape = weft_shape_vector((int64_t)(bytes / sizeof value));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  memset(t->data, 0, t->bytes);
  *(int32_t *)t->data = value;
  weft_status_t *s = weft_rendezvous_send(r, key, t, false);
  weft_tensor_release(t);
  return s;
}
static weft_status_t *send(weft_rendezvous_t *r, weft_key_t key, int32_t value) {
  return send_bytes(r, key, value, sizeof value);
}

/* What a gather got. */
enum { MOST = 16 };
typedef struct got {
  int calls, n;
  weft_code_t code;
  bool is_derived;
  int key[MOST], value[MOST];
  weft_gathered_kind_t kind[MOST];
} got_t;

static void record(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  got_t *g = arg;
  g->calls++;
  g->n = n;
  g->code = weft_status_code(status);
  g->is_derived = weft_status_is_derived(status);
  for (int i = 0; i < n; i++) {
    if (i < MOST) {
      g->key[i] = items[i].key;
      g->kind[i] = items[i].kind;
      g->value[i] = items[i].tensor == NULL ? -1 : *(const int32_t *)items[i].tensor->data;
    }
    weft_tensor_release(items[i].tensor);
  }
  weft_status_free(status);
}

/* What a receive got. */
typedef struct one {
  int calls, value;
  weft_code_t code;
  bool is_dead;
} one_t;

static void record_one(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  one_t *o = arg;
  o->calls++;
  o->code = weft_status_code(status);
  o->is_dead = is_dead;
  o->value = tensor == NULL ? -1 : *(const int32_t *)tensor->data;
  weft_status_free(status);
  weft_tensor_release(tensor);
}

/* ---- gathers ---- */

static void what_is_there_is_taken(void) {
  weft_rendezvous_t *r = make_local();
  const weft_key_t keys[] = {KEY("a"), KEY("b"), KEY("c"), KEY("d")};
  got_t g = {0}, rest = {0};
  CU_ASSERT_PTR_NULL(send(r, keys[2], 3));
  CU_ASSERT_PTR_NULL(weft_rendezvous_send(r, keys[3], NULL, true));
  CU_ASSERT_PTR_NULL(send(r, keys[0], 1));
  weft_local_rendezvous_gather(r, keys, 4, NULL, record, &g);
  CU_ASSERT_EQUAL(g.calls, 1);
  CU_ASSERT_EQUAL_FATAL(g.n, 3);
  CU_ASSERT_TRUE(g.key[0] == 0 && g.value[0] == 1 && g.kind[0] == WEFT_GATHERED_TENSOR);
  CU_ASSERT_TRUE(g.key[1] == 2 && g.value[1] == 3);
  CU_ASSERT_TRUE(g.key[2] == 3 && g.kind[2] == WEFT_GATHERED_DEAD);
  weft_local_rendezvous_gather(r, &keys[1], 1, NULL, record, &rest);
  CU_ASSERT_EQUAL(rest.calls, 0);
  CU_ASSERT_PTR_NULL(send(r, KEY("other"), 9));
  CU_ASSERT_EQUAL(rest.calls, 0);
  CU_ASSERT_PTR_NULL(send(r, keys[1], 2));
  CU_ASSERT_EQUAL(rest.calls, 1);
  CU_ASSERT_TRUE(rest.n == 1 && rest.key[0] == 0 && rest.value[0] == 2);
  weft_rendezvous_release(r);
}

static void large_tensors_stay_for_a_receive_of_their_own(void) {
  weft_rendezvous_t *r = make_local();
  const weft_key_t keys[] = {KEY("large"), KEY("small")};
  got_t g = {0};
  one_t alone = {0};
  CU_ASSERT_PTR_NULL(send_bytes(r, keys[0], 5, WEFT_GATHER_TENSOR_BYTES + 4));
  CU_ASSERT_PTR_NULL(send_bytes(r, keys[1], 6, WEFT_GATHER_TENSOR_BYTES));
  weft_local_rendezvous_gather(r, keys, 2, NULL, record, &g);
  CU_ASSERT_EQUAL_FATAL(g.n, 2);
  CU_ASSERT_TRUE(g.kind[0] == WEFT_GATHERED_ALONE && g.value[0] == -1);
  CU_ASSERT_TRUE(g.kind[1] == WEFT_GATHERED_TENSOR && g.value[1] == 6);
  weft_rendezvous_recv_async(r, keys[0], NULL, record_one, &alone);
  CU_ASSERT_EQUAL(alone.value, 5);
  weft_rendezvous_release(r);
}

static void an_answer_has_a_limit(void) {
  enum { MANY = 12 };
  weft_rendezvous_t *r = make_local();
  char text[MANY][128];
  weft_key_t keys[MANY];
  int got = 0, rounds = 0;
  for (int i = 0; i < MANY; i++) {
    snprintf(text[i], sizeof text[i], TEXT("k%d"), i);
    keys[i] = weft_key(weft_str(text[i]));
    CU_ASSERT_PTR_NULL(send_bytes(r, keys[i], i, WEFT_GATHER_TENSOR_BYTES));
  }
  while (got < MANY && rounds < MANY) {
    got_t g = {0};
    weft_local_rendezvous_gather(r, keys + got, MANY - got, NULL, record, &g);
    CU_ASSERT_TRUE(g.n >= 1 && g.n <= WEFT_GATHER_BYTES / WEFT_GATHER_TENSOR_BYTES);
    for (int i = 0; i < g.n; i++) CU_ASSERT_EQUAL(g.value[i], got + i);
    got += g.n;
    rounds++;
  }
  CU_ASSERT_EQUAL(rounds, MANY * WEFT_GATHER_TENSOR_BYTES / WEFT_GATHER_BYTES);
  weft_rendezvous_release(r);
}

static void waits_end_with_their_canceller_and_with_the_step(void) {
  for (int how = 0; how < 3; how++) {
    weft_rendezvous_t *r = make_local();
    weft_canceller_t *c = weft_canceller_create(NULL);
    const weft_key_t keys[] = {KEY("a"), KEY("b")};
    got_t g = {0}, late = {0};
    weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "worker 1 is gone");
    weft_local_rendezvous_gather(r, keys, 2, c, record, &g);
    CU_ASSERT_EQUAL(g.calls, 0);
    if (how == 0) weft_canceller_cancel(c);
    if (how == 1) weft_rendezvous_abort(r, why);
    if (how == 2) weft_rendezvous_abort(r, NULL);
    CU_ASSERT_EQUAL(g.calls, 1);
    CU_ASSERT_EQUAL(g.code, how == 0 ? WEFT_CANCELLED : how == 1 ? WEFT_UNAVAILABLE : WEFT_ABORTED);
    CU_ASSERT_EQUAL(g.is_derived, how != 1);
    weft_local_rendezvous_gather(r, keys, 2, c, record, &late);
    CU_ASSERT_EQUAL(late.calls, 1);
    CU_ASSERT_EQUAL(late.code, g.code);
    weft_status_free(why);
    weft_canceller_cancel(c);
    CU_ASSERT_EQUAL(g.calls, 1);
    weft_rendezvous_release(r);
    weft_canceller_release(c);
  }
}

static void of_two_gathers_one_gets_a_value(void) {
  weft_rendezvous_t *r = make_local();
  const weft_key_t keys[] = {KEY("a"), KEY("b")};
  got_t first = {0}, second = {0};
  weft_local_rendezvous_gather(r, keys, 2, NULL, record, &first);
  weft_local_rendezvous_gather(r, keys, 2, NULL, record, &second);
  CU_ASSERT_PTR_NULL(send(r, keys[0], 1));
  CU_ASSERT_EQUAL(first.calls + second.calls, 1);
  CU_ASSERT_PTR_NULL(send(r, keys[1], 2));
  CU_ASSERT_EQUAL(first.calls + second.calls, 2);
  CU_ASSERT_EQUAL(first.value[0] + second.value[0], 3);
  weft_rendezvous_release(r);
}

static void failures_are_received(void) {
  weft_rendezvous_t *r = make_local();
  one_t early = {0}, late = {0};
  weft_rendezvous_recv_async(r, KEY("a"), NULL, record_one, &early);
  weft_local_rendezvous_fail(r, KEY("a"), WEFT_ERROR(DATA_LOSS, "lost"));
  weft_local_rendezvous_fail(r, KEY("b"), WEFT_ERROR(DATA_LOSS, "lost"));
  weft_local_rendezvous_fail(r, KEY("unused"), WEFT_ERROR(DATA_LOSS, "lost"));
  weft_rendezvous_recv_async(r, KEY("b"), NULL, record_one, &late);
  CU_ASSERT_TRUE(early.calls == 1 && early.code == WEFT_DATA_LOSS);
  CU_ASSERT_TRUE(late.calls == 1 && late.code == WEFT_DATA_LOSS);
  weft_rendezvous_release(r);
}

/* Senders, gathers and a canceller at once: each gather ends once, and each value arrives at most once. */
enum { THREADS = 3, ROUNDS = 3000, CROWD_KEYS = 8 };
typedef struct crowd {
  weft_rendezvous_t *r;
  weft_canceller_t *c;
  weft_key_t keys[CROWD_KEYS];
  char text[CROWD_KEYS][128];
  atomic_int begun, ended, values;
} crowd_t;

static void count(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  crowd_t *w = arg;
  for (int i = 0; i < n; i++) weft_tensor_release(items[i].tensor);
  weft_status_free(status);
  atomic_fetch_add(&w->values, n);
  atomic_fetch_add(&w->ended, 1);
}
static void *crowd_send(void *arg) {
  crowd_t *w = arg;
  for (int i = 0; i < ROUNDS; i++) weft_status_free(send(w->r, w->keys[i % CROWD_KEYS], i));
  return NULL;
}
static void *crowd_gather(void *arg) {
  crowd_t *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    const int from = i % (CROWD_KEYS - 1);
    atomic_fetch_add(&w->begun, 1);
    weft_local_rendezvous_gather(w->r, w->keys + from, CROWD_KEYS - from, w->c, count, w);
  }
  return NULL;
}
static void threads_may_send_gather_and_cancel_at_once(void) {
  crowd_t w = {.r = make_local(), .c = weft_canceller_create(NULL)};
  pthread_t t[2 * THREADS];
  for (int i = 0; i < CROWD_KEYS; i++) {
    snprintf(w.text[i], sizeof w.text[i], TEXT("k%d"), i);
    w.keys[i] = weft_key(weft_str(w.text[i]));
  }
  for (int i = 0; i < 2 * THREADS; i++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, i % 2 == 0 ? crowd_send : crowd_gather, &w), 0);
  for (int i = 0; i < 2 * THREADS; i++) pthread_join(t[i], NULL);
  weft_canceller_cancel(w.c);
  CU_ASSERT_EQUAL(w.ended, w.begun);
  CU_ASSERT_TRUE(w.values <= THREADS * ROUNDS && w.values > 0);
  weft_rendezvous_release(w.r);
  weft_canceller_release(w.c);
}

static weft_status_t *send_and_gather(void) {
  weft_rendezvous_t *r = NULL;
  const weft_key_t keys[] = {KEY("a"), KEY("b")};
  got_t g = {0};
  weft_canceller_t *c = weft_canceller_create(NULL);
  if (c == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no canceller");
  weft_status_t *s = weft_local_rendezvous_create(1, &r);
  if (s == NULL) {
    weft_local_rendezvous_gather(r, keys, 2, c, record, &g);
    if (g.calls == 0) s = send(r, keys[1], 1);
    weft_canceller_cancel(c);
    if (s == NULL && g.code != WEFT_OK) s = weft_status_from_wire((int)g.code, "gather", 6);
  }
  weft_rendezvous_release(r);
  weft_canceller_release(c);
  return s;
}
static void every_failing_allocation_is_reported(void) {
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, send_and_gather());
  CU_ASSERT_TRUE(n >= 4);
}

/* ---- subscriptions: the peer is a table of this process ---- */

typedef struct peer {
  weft_rendezvous_t *table;
  int gathers, fetches;
  bool is_old; /* answers receives of one key only */
} peer_t;

static void peer_fetch(void *arg, int64_t step_id, weft_key_t key, const weft_key_parts_t *parts,
                       weft_canceller_t *canceller, weft_recv_fn *fn, void *fn_arg) {
  peer_t *p = arg;
  (void)step_id;
  (void)parts;
  p->fetches++;
  weft_rendezvous_recv_async(p->table, key, canceller, fn, fn_arg);
}
static void peer_gather(void *arg, int64_t step_id, weft_str_t task, const weft_key_t *keys, int n,
                        weft_canceller_t *canceller, weft_gather_fn *fn, void *fn_arg) {
  peer_t *p = arg;
  CU_ASSERT_EQUAL(step_id, 42);
  CU_ASSERT_TRUE(weft_str_is(task, PEER));
  p->gathers++;
  if (p->is_old) {
    fn(fn_arg, WEFT_ERROR(UNIMPLEMENTED, "no such method"), NULL, 0);
  } else {
    weft_local_rendezvous_gather(p->table, keys, n, canceller, fn, fn_arg);
  }
}

static weft_receive_lists_t *make_lists(void) {
  const weft_str_t keys[] = {WEFT_STR(TEXT("a")),  WEFT_STR(TEXT("b")),
                             WEFT_STR(TEXT("c")),  WEFT_STR(TEXT("b")),
                             WEFT_STR("nonsense"), WEFT_STR(DST ";0000000000000001;" DST ";own;0:0")};
  weft_receive_lists_t *lists = NULL;
  CU_ASSERT_PTR_NULL(weft_receive_lists_create(WEFT_STR(HERE), keys, 6, &lists));
  CU_ASSERT_PTR_NOT_NULL_FATAL(lists);
  return lists;
}

/* A step that has subscribed. */
static weft_rendezvous_t *begin_step(peer_t *p, weft_receive_lists_t *lists) {
  weft_rendezvous_t *r = NULL;
  const weft_tensor_source_t source = {peer_fetch, peer_gather, p};
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_rendezvous_create(WEFT_STR(HERE), 42, source, &r));
  if (p->table == NULL) p->table = make_local();
  weft_remote_rendezvous_subscribe(r, lists, NULL);
  return r;
}
static void end_step(peer_t *p, weft_rendezvous_t *r) {
  weft_rendezvous_abort(r, NULL);
  weft_rendezvous_release(r);
  weft_rendezvous_release(p->table);
  p->table = NULL;
}

static one_t receive(weft_rendezvous_t *r, weft_key_t key) {
  one_t o = {0};
  weft_rendezvous_recv_async(r, key, NULL, record_one, &o);
  return o;
}

static void what_is_ready_together_comes_together(void) {
  weft_receive_lists_t *lists = make_lists();
  peer_t p = {.table = make_local()};
  CU_ASSERT_PTR_NULL(send(p.table, KEY("a"), 1));
  CU_ASSERT_PTR_NULL(send(p.table, KEY("b"), 2));
  weft_rendezvous_t *r = begin_step(&p, lists);
  CU_ASSERT_EQUAL(p.gathers, 2); /* the second waits */
  one_t waits = {0};
  CU_ASSERT_EQUAL(receive(r, KEY("b")).value, 2);
  weft_rendezvous_recv_async(r, KEY("c"), NULL, record_one, &waits);
  CU_ASSERT_EQUAL(waits.calls, 0);
  CU_ASSERT_PTR_NULL(weft_rendezvous_send(p.table, KEY("c"), NULL, true));
  CU_ASSERT_TRUE(waits.calls == 1 && waits.is_dead);
  CU_ASSERT_EQUAL(receive(r, KEY("a")).value, 1);
  CU_ASSERT_EQUAL(p.gathers, 2);
  CU_ASSERT_EQUAL(p.fetches, 0);
  end_step(&p, r);
  weft_receive_lists_release(lists);
}

static void what_is_large_is_not_subscribed_again(void) {
  weft_receive_lists_t *lists = make_lists();
  peer_t p = {0};
  for (int step = 0; step < 2; step++) {
    p = (peer_t){.table = NULL};
    weft_rendezvous_t *r = begin_step(&p, lists);
    CU_ASSERT_PTR_NULL(send_bytes(p.table, KEY("a"), 5, 1 << 20));
    CU_ASSERT_PTR_NULL(send(p.table, KEY("b"), 6));
    CU_ASSERT_PTR_NULL(send(p.table, KEY("c"), 7));
    CU_ASSERT_EQUAL(p.fetches, step == 0 ? 1 : 0);
    CU_ASSERT_EQUAL(receive(r, KEY("a")).value, 5);
    CU_ASSERT_EQUAL(receive(r, KEY("b")).value, 6);
    CU_ASSERT_EQUAL(receive(r, KEY("c")).value, 7);
    CU_ASSERT_EQUAL(p.fetches, 1);
    end_step(&p, r);
  }
  weft_receive_lists_release(lists);
}

static void an_old_peer_is_asked_for_each_key(void) {
  weft_receive_lists_t *lists = make_lists();
  for (int step = 0; step < 2; step++) {
    peer_t p = {.is_old = true};
    weft_rendezvous_t *r = begin_step(&p, lists);
    CU_ASSERT_EQUAL(p.gathers, step == 0 ? 1 : 0); /* once */
    CU_ASSERT_PTR_NULL(send(p.table, KEY("a"), 1));
    CU_ASSERT_PTR_NULL(send(p.table, KEY("b"), 2));
    CU_ASSERT_PTR_NULL(send(p.table, KEY("c"), 3));
    CU_ASSERT_EQUAL(receive(r, KEY("c")).value, 3);
    CU_ASSERT_EQUAL(receive(r, KEY("a")).value, 1);
    CU_ASSERT_EQUAL(receive(r, KEY("b")).value, 2);
    CU_ASSERT_EQUAL(p.fetches, 3);
    end_step(&p, r);
  }
  weft_receive_lists_release(lists);
}

static void a_failure_ends_the_receives_that_have_nothing(void) {
  weft_receive_lists_t *lists = make_lists();
  peer_t p = {0};
  weft_rendezvous_t *r = begin_step(&p, lists);
  weft_status_t *why = WEFT_ERROR(FAILED_PRECONDITION, "a node there has failed");
  one_t waits = {0};
  weft_rendezvous_recv_async(r, KEY("c"), NULL, record_one, &waits);
  CU_ASSERT_PTR_NULL(send(p.table, KEY("a"), 1));
  weft_rendezvous_abort(p.table, why);
  CU_ASSERT_TRUE(waits.calls == 1 && waits.code == WEFT_FAILED_PRECONDITION);
  CU_ASSERT_EQUAL(receive(r, KEY("a")).value, 1);
  CU_ASSERT_EQUAL(receive(r, KEY("b")).code, WEFT_FAILED_PRECONDITION);
  weft_status_free(why);
  end_step(&p, r);
  weft_receive_lists_release(lists);
}

static void the_end_of_the_step_ends_what_was_asked_for(void) {
  weft_receive_lists_t *lists = make_lists();
  for (int has_failed = 0; has_failed < 2; has_failed++) {
    peer_t p = {0};
    weft_rendezvous_t *r = begin_step(&p, lists);
    weft_status_t *why = has_failed ? WEFT_ERROR(INTERNAL, "the cause") : NULL;
    one_t waits = {0};
    weft_rendezvous_recv_async(r, KEY("c"), NULL, record_one, &waits);
    weft_rendezvous_abort(r, why);
    CU_ASSERT_TRUE(waits.calls == 1 && waits.code == (has_failed ? WEFT_INTERNAL : WEFT_ABORTED));
    CU_ASSERT_PTR_NULL(send(p.table, KEY("c"), 4)); /* the request waits no more: this stays there */
    one_t there = receive(p.table, KEY("c"));
    CU_ASSERT_EQUAL(there.value, 4);
    weft_status_free(why);
    end_step(&p, r);
  }
  weft_receive_lists_release(lists);
}

static weft_status_t *subscribe_and_receive(void) {
  const weft_str_t keys[] = {WEFT_STR(TEXT("a")), WEFT_STR(TEXT("b"))};
  weft_receive_lists_t *lists = NULL;
  peer_t p = {0};
  weft_rendezvous_t *r = NULL;
  const weft_tensor_source_t source = {peer_fetch, peer_gather, &p};
  one_t a = {0}, b = {0};
  weft_status_t *s = weft_local_rendezvous_create(1, &p.table);
  if (s == NULL) s = weft_receive_lists_create(WEFT_STR(HERE), keys, 2, &lists);
  if (s == NULL) s = weft_remote_rendezvous_create(WEFT_STR(HERE), 42, source, &r);
  if (s == NULL) s = send(p.table, KEY("a"), 1);
  if (s == NULL) s = send_bytes(p.table, KEY("b"), 2, 1 << 20);
  if (s == NULL) {
    weft_remote_rendezvous_subscribe(r, lists, NULL);
    weft_rendezvous_recv_async(r, KEY("a"), NULL, record_one, &a);
    weft_rendezvous_recv_async(r, KEY("b"), NULL, record_one, &b);
    if (a.calls + b.calls < 2) s = WEFT_ERROR(INTERNAL, "not received");
    if (s == NULL && a.code != WEFT_OK) s = weft_status_from_wire((int)a.code, "a", 1);
    if (s == NULL && b.code != WEFT_OK) s = weft_status_from_wire((int)b.code, "b", 1);
  }
  if (r != NULL) weft_rendezvous_abort(r, NULL);
  weft_rendezvous_release(r);
  weft_rendezvous_release(p.table);
  weft_receive_lists_release(lists);
  return s;
}
static void a_subscription_without_memory_fails_or_fetches(void) {
  long n = 0;
  for (bool fired = true; fired; n++) {
    weft_fault_arm(n);
    weft_status_t *s = subscribe_and_receive();
    fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_TRUE(s == NULL || (fired && weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED));
    weft_status_free(s);
  }
  CU_ASSERT_TRUE(n >= 10);
}

/* Whatever the key before was, the parts are those of weft_key_parse(), and what that refuses is refused. */
static void keys_are_parsed_quickly_behind_others(void) {
  static const char *const texts[] = {
      TEXT("a"),
      TEXT("another edge"),
      PEER "/device:CPU:0;0000000000000002;" DST ";a;0:0",
      PEER "/device:CPU:1;0000000000000001;" DST ";a;0:0",
      PEER "/device:CPU:0;0000000000000001;" DST "0;a;0:0",
      PEER "/device:CPU:0;0000000000000001;" DST ";;0:0",
      PEER "/device:CPU:0;0000000000000001;" DST ";a;0:0;",
      PEER "/device:CPU:0;0000000000000001;" DST ";a;",
      PEER "/device:CPU:0;0000000000000001;" DST ";a",
      PEER "/device:CPU:0;0000000000000001;" DST ";",
      PEER "/device:CPU:0;0000000000000001;" DST,
      "",
  };
  enum { N = sizeof texts / sizeof texts[0], VALID = 5 };
  for (int b = 0; b < VALID; b++) {
    weft_key_parts_t before;
    CU_ASSERT_PTR_NULL_FATAL(weft_key_parse(weft_str(texts[b]), &before));
    for (int i = 0; i < N; i++) {
      weft_key_parts_t slow, quick;
      weft_status_t *s = weft_key_parse(weft_str(texts[i]), &slow);
      weft_status_t *q = weft_key_parse_next(weft_str(texts[i]), &before, &quick);
      CU_ASSERT_EQUAL(weft_status_code(q), weft_status_code(s));
      CU_ASSERT_EQUAL(s == NULL, i < VALID);
      if (s == NULL && q == NULL) {
        CU_ASSERT_TRUE(weft_str_eq(quick.src_device, slow.src_device));
        CU_ASSERT_TRUE(weft_str_eq(quick.dst_device, slow.dst_device));
        CU_ASSERT_TRUE(weft_str_eq(quick.edge, slow.edge));
        CU_ASSERT_EQUAL(quick.src_incarnation, slow.src_incarnation);
      }
      weft_status_free(s);
      weft_status_free(q);
    }
  }
}

static const CU_TestInfo tests[] = {
    {"what is there is taken", what_is_there_is_taken},
    {"large tensors stay for a receive of their own", large_tensors_stay_for_a_receive_of_their_own},
    {"an answer has a limit", an_answer_has_a_limit},
    {"waits end with their canceller and with the step", waits_end_with_their_canceller_and_with_the_step},
    {"of two gathers one gets a value", of_two_gathers_one_gets_a_value},
    {"failures are received", failures_are_received},
    {"threads may send, gather and cancel at once", threads_may_send_gather_and_cancel_at_once},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"keys are parsed quickly behind others", keys_are_parsed_quickly_behind_others},
    {"what is ready together comes together", what_is_ready_together_comes_together},
    {"what is large is not subscribed again", what_is_large_is_not_subscribed_again},
    {"an old peer is asked for each key", an_old_peer_is_asked_for_each_key},
    {"a failure ends the receives that have nothing", a_failure_ends_the_receives_that_have_nothing},
    {"the end of the step ends what was asked for", the_end_of_the_step_ends_what_was_asked_for},
    {"a subscription without memory fails or fetches", a_subscription_without_memory_fails_or_fetches},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("gather", tests); }
