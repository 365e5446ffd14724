/* tests/services/local_transfer_test.c - tensors that lie in a link's room, or will lie there: the receiving
 * end of a peer whose answers the test makes itself, in whatever order. */
#include "services/local_transfer.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/local_link.h"
#include "tensor/tensor_proto.h"
#include "tests/runner.h"

enum { COUNT = 100000 };

typedef struct transfer_ends {
  weft_local_transfers_t *receiver;
  weft_local_sender_t *sender;
  weft_tensor_t *tensor; /* the owner's */
  uint64_t link;
  int64_t last_id;
  weft_mutex_t mu;
  weft_cond_t changed;
  int num_answers; /* guarded by mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *got;
} transfer_ends_t;

static void on_recv(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  transfer_ends_t *e = arg;
  (void)is_dead;
  weft_mutex_lock(&e->mu);
  e->num_answers++;
  e->status = status;
  e->got = tensor;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}

static int answers(transfer_ends_t *e) {
  weft_mutex_lock(&e->mu);
  const int n = e->num_answers;
  weft_mutex_unlock(&e->mu);
  return n;
}

static void wait_for(transfer_ends_t *e, int n) {
  weft_mutex_lock(&e->mu);
  while (e->num_answers < n) weft_cond_wait(&e->changed, &e->mu); /* woken by on_recv() */
  weft_mutex_unlock(&e->mu);
}

/* A receive begins: what its request says is *out. Returns its id. */
static int64_t expect(transfer_ends_t *e, weft_arena_t *arena, weft_local_transport_msg_t *out) {
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  const int64_t id = ++e->last_id;
  *out = (weft_local_transport_msg_t){.link = 0};
  CU_ASSERT_PTR_NULL_FATAL(weft_local_transfers_expect(e->receiver, id, NULL, &options));
  CU_ASSERT_TRUE_FATAL(weft_local_transport_from_any(weft_str_of(options.data, options.length), arena, out));
  weft_strbuf_deinit(&options);
  return id;
}

static void release_tensor(void *arg) { weft_tensor_release(arg); }

static bool fill(transfer_ends_t *e, weft_local_place_t *p) {
  return weft_local_sender_fill(p, e->tensor->data, e->tensor->bytes, release_tensor,
                                weft_tensor_retain(e->tensor));
}

static void setup(transfer_ends_t *e) {
  memset(e, 0, sizeof *e);
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  const weft_shape_t shape = weft_shape_vector(COUNT);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &e->tensor));
  for (int i = 0; i < COUNT; i++) ((float *)e->tensor->data)[i] = (float)i;
  CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&e->sender));
  CU_ASSERT_PTR_NULL_FATAL(
      weft_local_transfers_create(WEFT_STR("/job:worker/replica:0/task:3"), &e->receiver));
  weft_local_transfers_offer(e->receiver, weft_local_sender_name(e->sender));
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_local_transport_msg_t request;
  const int64_t id = expect(e, &arena, &request);
  weft_local_transfers_forget(e->receiver, id, false);
  e->link = request.link;
  CU_ASSERT_NOT_EQUAL_FATAL(e->link, 0);
  weft_arena_deinit(&arena);
  while (!weft_local_sender_has(e->sender, e->link)) { /* until the sender's thread has read the hello */
  }
}

static void teardown(transfer_ends_t *e) {
  weft_local_transfers_destroy(e->receiver);
  weft_local_sender_destroy(e->sender);
  weft_tensor_release(e->tensor);
  weft_cond_deinit(&e->changed);
  weft_mutex_deinit(&e->mu);
}

/* Begins a receive whose answer says that the place is being filled, and looks at it: false. */
static int64_t begin(transfer_ends_t *e, weft_local_place_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_local_transport_msg_t request;
  const int64_t id = expect(e, &arena, &request);
  CU_ASSERT_TRUE_FATAL(weft_local_sender_take(e->sender, e->link, (uint64_t)id, e->tensor->bytes, out));
  weft_arena_deinit(&arena);
  return id;
}

static bool take(transfer_ends_t *e, int64_t id, const weft_local_place_t *p, bool is_filling,
                 weft_status_t **out_status, weft_tensor_t **out) {
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  weft_tensor_proto_header(e->tensor, &head);
  const weft_local_transport_msg_t answer = {.in_room = true,
                                             .is_filling = is_filling,
                                             .offset = (int64_t)p->at,
                                             .head = weft_str_of(head.data, head.length),
                                             .bytes = (int64_t)e->tensor->bytes};
  const bool is_taken = weft_local_transfers_take(e->receiver, id, &answer, out_status, out);
  weft_strbuf_deinit(&head);
  return is_taken;
}

static void check(const transfer_ends_t *e, weft_tensor_t *got) {
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  CU_ASSERT_EQUAL_FATAL(got->bytes, e->tensor->bytes);
  CU_ASSERT_EQUAL(memcmp(got->data, e->tensor->data, got->bytes), 0);
  weft_tensor_release(got);
}

/* The sender ends without a word of it. */
static void abandon(transfer_ends_t *e, weft_local_place_t *p) {
  CU_ASSERT_TRUE(weft_local_room_forget(p->room, p->transfer));
  CU_ASSERT_FALSE(fill(e, p));
}

/* Returns when the place is free: the sender has heard that it was given back. */
static void wait_until_free(transfer_ends_t *e, uint64_t at) {
  for (bool is_free = false; !is_free;) {
    weft_local_place_t p;
    CU_ASSERT_TRUE_FATAL(weft_local_sender_take(e->sender, e->link, 1000000, e->tensor->bytes, &p));
    is_free = p.at == at;
    abandon(e, &p);
  }
}

static void a_tensor_that_is_there_is_taken(void) {
  transfer_ends_t e;
  setup(&e);
  for (int is_filling = 0; is_filling < 2; is_filling++) {
    weft_local_place_t p;
    weft_status_t *s = NULL;
    weft_tensor_t *got = NULL;
    const int64_t id = begin(&e, &p);
    CU_ASSERT_TRUE(fill(&e, &p));
    CU_ASSERT_TRUE_FATAL(take(&e, id, &p, is_filling == 1, &s, &got));
    CU_ASSERT_PTR_NULL(s);
    check(&e, got);
  }
  teardown(&e);
}

/* Filled before the receive waits, or behind that. */
static void a_tensor_that_is_being_copied_is_awaited(void) {
  transfer_ends_t e;
  setup(&e);
  for (int i = 0; i < 20; i++) {
    weft_local_place_t p;
    weft_status_t *s = NULL;
    weft_tensor_t *got = NULL;
    const int64_t id = begin(&e, &p);
    CU_ASSERT_FALSE_FATAL(take(&e, id, &p, true, &s, &got));
    if (i % 2 == 0) CU_ASSERT_TRUE(fill(&e, &p));
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    weft_local_transfers_await(e.receiver, id, canceller, on_recv, &e);
    if (i % 2 == 1) {
      CU_ASSERT_EQUAL(answers(&e), i);
      CU_ASSERT_TRUE(fill(&e, &p));
    }
    wait_for(&e, i + 1);
    CU_ASSERT_PTR_NULL(e.status);
    check(&e, e.got);
    weft_canceller_release(canceller);
  }
  teardown(&e);
}

/* The place stays the sender's until it is filled, and is free then. */
static void a_receive_that_is_cancelled_frees_its_place(void) {
  transfer_ends_t e;
  setup(&e);
  weft_local_place_t p, other;
  weft_status_t *s = NULL;
  weft_tensor_t *got = NULL;
  const int64_t id = begin(&e, &p);
  CU_ASSERT_FALSE_FATAL(take(&e, id, &p, true, &s, &got));
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  weft_local_transfers_await(e.receiver, id, canceller, on_recv, &e);
  weft_canceller_cancel(canceller);
  weft_canceller_release(canceller);
  wait_for(&e, 1);
  CU_ASSERT_EQUAL(weft_status_code(e.status), WEFT_CANCELLED);
  CU_ASSERT_PTR_NULL(e.got);
  weft_status_free(e.status);
  const uint64_t at = p.at;
  (void)begin(&e, &other);
  CU_ASSERT_NOT_EQUAL(other.at, at);
  abandon(&e, &other);
  (void)fill(&e, &p);
  wait_until_free(&e, at);
  teardown(&e);
}

static void a_link_that_breaks_ends_what_is_awaited(void) {
  for (int moment = 0; moment < 2; moment++) {
    transfer_ends_t e;
    setup(&e);
    weft_local_place_t p;
    weft_status_t *s = NULL;
    weft_tensor_t *got = NULL;
    const int64_t id = begin(&e, &p);
    CU_ASSERT_FALSE_FATAL(take(&e, id, &p, true, &s, &got));
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    if (moment == 0) weft_local_transfers_await(e.receiver, id, canceller, on_recv, &e);
    abandon(&e, &p);
    weft_local_sender_destroy(e.sender);
    e.sender = NULL;
    if (moment == 1) weft_local_transfers_await(e.receiver, id, canceller, on_recv, &e);
    wait_for(&e, 1);
    CU_ASSERT_EQUAL(weft_status_code(e.status), WEFT_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(e.status), "/task:3"));
    weft_status_free(e.status);
    weft_canceller_release(canceller);
    teardown(&e);
  }
}

static void a_place_outside_of_the_room_is_an_error(void) {
  transfer_ends_t e;
  setup(&e);
  static const int64_t places[] = {-1, 0, 1, WEFT_LOCAL_ROOM_BYTES, INT64_MAX};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_local_transport_msg_t request;
    const int64_t id = expect(&e, &arena, &request);
    const weft_local_place_t p = {.at = (uint64_t)places[i]};
    weft_status_t *s = NULL;
    weft_tensor_t *got = NULL;
    CU_ASSERT_TRUE_FATAL(take(&e, id, &p, i % 2 == 0, &s, &got));
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
    weft_status_free(s);
    CU_ASSERT_TRUE_FATAL(take(&e, id, &p, true, &s, &got)); /* there is no such receive any more */
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
    weft_status_free(s);
    weft_arena_deinit(&arena);
  }
  teardown(&e);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a tensor that is there is taken", a_tensor_that_is_there_is_taken},
      {"a tensor that is being copied is awaited", a_tensor_that_is_being_copied_is_awaited},
      {"a receive that is cancelled frees its place", a_receive_that_is_cancelled_frees_its_place},
      {"a link that breaks ends what is awaited", a_link_that_breaks_ends_what_is_awaited},
      {"a place outside of the room is an error", a_place_outside_of_the_room_is_an_error},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("local_transfer", tests);
}
