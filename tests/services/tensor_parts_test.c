/* tests/services/tensor_parts_test.c - tensors between hosts in parts: a part is sent while the device copies
 * the next, and goes to the receiver's device while that is sent. Both ends are in one process, without local
 * links, and the owner's device copies a part when the test says so: what waited for more than the parts that
 * are there would wait for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/device.h"
#include "device/queue.h"
#include "rpc/channel.h"
#include "rpc/service.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "services/part_owner.h"
#include "services/remote_worker.h"
#include "tensor/tensor_proto.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:3"
enum {
  COUNT = (6 << 18) + 1, /* floats: 6 MiB, and 4 bytes */
  NUM_COPIES = 7,        /* of the owner's device */
  NUM_FETCHES = 4,       /* of 2 MiB, but the last */
  BYTES = 4 * COUNT,
  MAX_COPIES = 64,
};

typedef struct ends ends_t;

typedef struct parts_queue {
  weft_queue_t base; /* first */
  ends_t *ends;
} parts_queue_t;

/* The owner and the receiver of a tensor. */
struct ends {
  weft_worker_client_t worker;
  parts_queue_t out, in; /* the owner's, by hand; the receiver's, at once */
  weft_device_t device, to_device;
  weft_memory_space_t space, to_space;
  weft_allocator_t memory;
  weft_tensor_t *tensor; /* the owner's; released by the owner only */
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_worker_service_t *service;
  weft_part_owner_t *parts;        /* of the server that says what a test wants */
  weft_local_transport_msg_t says; /* lent */
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  weft_canceller_t *canceller;
  weft_mutex_t mu;
  weft_cond_t changed;
  bool by_hand; /* guarded by mu, as the rest */
  int num_copies, num_waiters, num_passed;
  struct {
    const char *from;
    char *to;
    size_t bytes;
  } copies[MAX_COPIES];
  weft_fence_waiter_t *waiters[MAX_COPIES];
  size_t arrived; /* bytes that were copied into the receiver's device */
  int num_arrivals;
  bool has_answer, is_released;
  weft_status_t *status;
  weft_tensor_t *got;
};

/* ---- queues ---- */

static ends_t *ends_of(weft_queue_t *q) { return ((parts_queue_t *)(void *)q)->ends; }

static void queue_wait(weft_queue_t *q, weft_fence_t f) { (void)q, (void)f; }
static bool has_passed(weft_queue_t *q, uint64_t value) {
  (void)q, (void)value;
  return true;
}
static void in_then(weft_queue_t *q, weft_fence_waiter_t *w) {
  (void)q;
  w->fn(w->arg, NULL);
}
static weft_status_t *in_copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  ends_t *e = ends_of(q);
  memcpy(to->data, from->data, from->bytes);
  weft_mutex_lock(&e->mu);
  e->arrived += from->bytes;
  e->num_arrivals++;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
  return NULL;
}
static const weft_queue_ops_t in_ops = {queue_wait, has_passed, in_then, in_copy};

static void out_then(weft_queue_t *q, weft_fence_waiter_t *w) {
  ends_t *e = ends_of(q);
  weft_mutex_lock(&e->mu);
  const bool waits = e->by_hand;
  if (waits) e->waiters[e->num_waiters++] = w;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
  if (!waits) w->fn(w->arg, NULL);
}
static weft_status_t *out_copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  ends_t *e = ends_of(q);
  weft_mutex_lock(&e->mu);
  if (e->by_hand) {
    e->copies[e->num_copies].from = from->data;
    e->copies[e->num_copies].to = to->data;
    e->copies[e->num_copies].bytes = from->bytes;
  } else {
    memcpy(to->data, from->data, from->bytes);
  }
  e->num_copies++;
  weft_mutex_unlock(&e->mu);
  return NULL;
}
static const weft_queue_ops_t out_ops = {queue_wait, has_passed, out_then, out_copy};

/* The owner's device has copied its next part, or fails with `status`. Returns how many bytes it has copied.
 */
static size_t pass(ends_t *e, weft_status_t *status) {
  weft_mutex_lock(&e->mu);
  while (e->num_waiters <= e->num_passed) weft_cond_wait(&e->changed, &e->mu);
  const int i = e->num_passed++;
  weft_fence_waiter_t *w = e->waiters[i];
  const size_t end = (size_t)(e->copies[i].from - (const char *)e->copies[0].from) + e->copies[i].bytes;
  weft_mutex_unlock(&e->mu);
  if (status == NULL) memcpy(e->copies[i].to, e->copies[i].from, e->copies[i].bytes);
  w->fn(w->arg, status);
  return end;
}

static void await_arrival(ends_t *e, size_t bytes) {
  weft_mutex_lock(&e->mu);
  while (e->arrived < bytes) weft_cond_wait(&e->changed, &e->mu);
  weft_mutex_unlock(&e->mu);
}

/* Copies that the owner's device was asked for. */
static int copies_of(ends_t *e) {
  weft_mutex_lock(&e->mu);
  const int n = e->num_copies;
  weft_mutex_unlock(&e->mu);
  return n;
}

/* ---- both ends ---- */

static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  (void)self;
  return weft_cpu_allocator()->allocate(weft_cpu_allocator(), bytes, after);
}
static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  (void)self;
  weft_cpu_allocator()->deallocate(weft_cpu_allocator(), p, bytes);
}

static void on_released(void *data, size_t bytes, void *arg) {
  ends_t *e = arg;
  (void)bytes;
  free(data);
  weft_mutex_lock(&e->mu);
  e->is_released = true;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}

static void await_release(ends_t *e) {
  weft_mutex_lock(&e->mu);
  while (!e->is_released) weft_cond_wait(&e->changed, &e->mu);
  weft_mutex_unlock(&e->mu);
}

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 2654435761u >> 13); }

/* Hands its reference on: what is released then is released for good. */
/* The owner's reference, on its threads. */
static weft_tensor_t *take_tensor(ends_t *e) {
  weft_mutex_lock(&e->mu);
  weft_tensor_t *t = e->tensor;
  e->tensor = NULL;
  weft_mutex_unlock(&e->mu);
  return t;
}

static void owner_recv_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                              weft_recv_fn *fn, void *arg) {
  ends_t *e = (ends_t *)(void *)w;
  (void)step_id, (void)key, (void)c;
  fn(arg, NULL, take_tensor(e), false);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

/* Keeps the tensor and says of it what the test wants. */
static void say(weft_served_t *s) {
  ends_t *e = s->service;
  const weft_recv_tensor_request_msg_t *m = s->request;
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  weft_tensor_t *t = take_tensor(e);
  weft_status_t *status = weft_part_owner_keep(e->parts, (uint64_t)m->request_id, t);
  weft_tensor_release(t);
  if (status != NULL) {
    weft_served_fail(s, status);
    return;
  }
  weft_mutex_lock(&e->mu);
  weft_local_transport_to_any(&e->says, &options);
  weft_mutex_unlock(&e->mu);
  const weft_recv_tensor_response_msg_t response = {.transport_options =
                                                        weft_str_of(options.data, options.length)};
  weft_served_reply(s, &weft_recv_tensor_response_type, &response);
  weft_strbuf_deinit(&options);
}
static void say_part(weft_served_t *s) { weft_part_owner_serve(((ends_t *)s->service)->parts, s); }

static const weft_service_method_t saying[] = {
    {WEFT_METHOD_OF("/tensorflow.WorkerService/RecvTensor", recv_tensor_request, say)},
    {WEFT_METHOD_OF("/weft.WorkerService/RecvTensorPart", recv_tensor_part_request, say_part)},
};

static void make_tensor(ends_t *e, bool on_device) {
  const weft_shape_t shape = weft_shape_vector(COUNT);
  unsigned char *data = malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++) data[i] = byte_at(i);
  weft_mutex_lock(&e->mu); /* the owner's threads see what is written here */
  e->is_released = false;
  weft_status_t *s = weft_tensor_wrap(WEFT_F32, &shape, data, BYTES, on_released, e, &e->tensor);
  if (s == NULL && on_device) e->tensor->space = &e->space;
  weft_mutex_unlock(&e->mu);
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static void setup(ends_t *e, bool on_device, bool by_hand, int says_idle_ms) {
  static const weft_worker_client_ops_t ops = {.recv_tensor = owner_recv_tensor, .destroy = destroy};
  memset(e, 0, sizeof *e);
  e->worker.ops = &ops;
  atomic_init(&e->worker.refs, 1);
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  e->by_hand = by_hand;
  e->out = (parts_queue_t){{.ops = &out_ops, .device = &e->device}, e};
  e->in = (parts_queue_t){{.ops = &in_ops, .device = &e->to_device}, e};
  e->device = (weft_device_t){.copies_out = &e->out.base, .host_allocator = weft_cpu_allocator()};
  e->to_device = (weft_device_t){.copies_in = &e->in.base, .host_allocator = weft_cpu_allocator()};
  e->space.device = &e->device;
  e->to_space.device = &e->to_device;
  e->memory = (weft_allocator_t){.space = &e->to_space, .allocate = allocate, .deallocate = deallocate};
  e->to_device.memory = weft_memory_accounts_create(&e->memory);
  make_tensor(e, on_device);
  e->canceller = weft_canceller_create(NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &e->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = e->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &e->server));
  if (says_idle_ms > 0) {
    CU_ASSERT_PTR_NULL_FATAL(weft_part_owner_create(says_idle_ms, &e->parts));
    CU_ASSERT_PTR_NULL_FATAL(weft_service_register(e->server, saying, 2, e));
  } else {
    CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&e->worker, e->server, &e->service));
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(e->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(e->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(e->rpc, weft_str(target), &e->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_worker_client_create(e->channel, WEFT_STR(TASK), &e->remote));
}

static void teardown(ends_t *e) {
  weft_worker_client_release(e->remote);
  weft_rpc_channel_release(e->channel);
  weft_rpc_server_destroy(e->server);
  weft_worker_service_destroy(e->service);
  weft_part_owner_destroy(e->parts);
  weft_rpc_client_destroy(e->rpc);
  weft_canceller_release(e->canceller);
  weft_tensor_release(e->tensor);
  CU_ASSERT_TRUE(e->is_released); /* nothing keeps it any more */
  weft_memory_accounts_release(e->to_device.memory);
  weft_cond_deinit(&e->changed);
  weft_mutex_deinit(&e->mu);
}

static void on_recv(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  ends_t *e = arg;
  (void)is_dead;
  weft_mutex_lock(&e->mu);
  e->has_answer = true;
  e->status = status;
  e->got = tensor;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}

static void begin_receive(ends_t *e, const weft_memory_space_t *space) {
  weft_key_t key = weft_key(WEFT_STR("key"));
  key.space = space;
  e->remote->ops->recv_tensor(e->remote, 8, key, e->canceller, on_recv, e);
}

/* The status is owned; the tensor is compared and released. */
static weft_status_t *end_receive(ends_t *e, const weft_memory_space_t *space) {
  weft_mutex_lock(&e->mu);
  while (!e->has_answer) weft_cond_wait(&e->changed, &e->mu);
  e->has_answer = false;
  weft_mutex_unlock(&e->mu);
  if (e->got != NULL) {
    CU_ASSERT_EQUAL_FATAL(e->got->bytes, BYTES);
    CU_ASSERT_PTR_EQUAL(e->got->space, space);
    size_t same = 0;
    while (same < BYTES && ((unsigned char *)e->got->data)[same] == byte_at(same)) same++;
    CU_ASSERT_EQUAL(same, BYTES);
    weft_tensor_release(e->got);
    e->got = NULL;
  }
  return e->status;
}

/* ---- tests ---- */

/* With all parts behind it still to be copied, a part is sent and goes to the receiver's device. */
static void parts_are_sent_while_others_are_copied(void) {
  enum { PART = 2 << 20 };
  ends_t e;
  setup(&e, true, true, 0);
  begin_receive(&e, &e.to_space);
  for (size_t copied = 0; copied < BYTES;) {
    copied = pass(&e, NULL);
    await_arrival(&e, copied == BYTES ? BYTES : copied / PART * PART);
  }
  CU_ASSERT_EQUAL(e.num_passed, NUM_COPIES);
  CU_ASSERT_PTR_NULL(end_receive(&e, &e.to_space));
  CU_ASSERT_TRUE(e.num_arrivals >= NUM_FETCHES - 1);
  await_release(&e);
  teardown(&e);
}

static void a_tensor_comes_into_the_host_s_memory_in_parts(void) {
  ends_t e;
  setup(&e, true, false, 0);
  begin_receive(&e, NULL);
  CU_ASSERT_PTR_NULL(end_receive(&e, NULL));
  CU_ASSERT_EQUAL(copies_of(&e), NUM_COPIES);
  await_release(&e);
  teardown(&e);
}

static void a_tensor_of_the_host_goes_to_a_device_in_parts(void) {
  ends_t e;
  setup(&e, false, false, 0);
  begin_receive(&e, &e.to_space);
  CU_ASSERT_PTR_NULL(end_receive(&e, &e.to_space));
  CU_ASSERT_TRUE(e.num_arrivals >= 1 && e.num_arrivals <= NUM_FETCHES); /* parts may change places */
  await_release(&e);
  teardown(&e);
}

/* Between two hosts' memories nothing is copied that could be under way beside the network. */
static void a_tensor_between_hosts_memories_is_one_message(void) {
  ends_t e;
  setup(&e, false, false, 0);
  begin_receive(&e, NULL);
  CU_ASSERT_PTR_NULL(end_receive(&e, NULL));
  teardown(&e);
}

static weft_status_t *call(ends_t *e, const char *path, const weft_message_type_t *type, const void *request,
                           weft_message_t **out) {
  weft_message_t *m = NULL;
  *out = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_fields_encode(type, request, &m));
  return weft_rpc_call_sync(e->channel, path, m, NULL, out);
}

/* As TensorFlow's workers ask. */
static void a_peer_that_takes_no_parts_gets_none(void) {
  ends_t e;
  setup(&e, true, false, 0);
  const weft_recv_tensor_request_msg_t m = {.step_id = 8, .request_id = 9, .rendezvous_key = WEFT_STR("key")};
  weft_message_t *answer = NULL;
  CU_ASSERT_PTR_NULL(
      call(&e, "/tensorflow.WorkerService/RecvTensor", &weft_recv_tensor_request_type, &m, &answer));
  CU_ASSERT_TRUE(answer != NULL && weft_message_bytes(answer) > BYTES);
  CU_ASSERT_EQUAL(copies_of(&e), 1);
  weft_message_destroy(answer);
  teardown(&e);
}

static void a_copy_that_fails_fails_the_receive(void) {
  ends_t e;
  setup(&e, true, true, 0);
  begin_receive(&e, &e.to_space);
  for (int i = 0; i < 5; i++) (void)pass(&e, NULL);
  for (int i = 5; i < NUM_COPIES; i++) (void)pass(&e, WEFT_ERROR(INTERNAL, "the card is gone"));
  weft_status_t *s = end_receive(&e, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "the card is gone"));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), TASK));
  weft_status_free(s);
  await_release(&e);
  teardown(&e);
}

static void a_receive_that_is_cancelled_lets_the_tensor_go(void) {
  ends_t e;
  setup(&e, true, true, 0);
  begin_receive(&e, &e.to_space);
  for (int i = 0; i < 5; i++) (void)pass(&e, NULL);
  await_arrival(&e, 4 << 20);
  weft_canceller_cancel(e.canceller);
  weft_status_t *s = end_receive(&e, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  for (int i = 5; i < NUM_COPIES; i++) (void)pass(&e, NULL);
  await_release(&e); /* long before the peer would be taken for gone */
  teardown(&e);
}

static void descriptions_of_no_tensor_fail_the_receive(void) {
  ends_t e;
  setup(&e, true, false, 60000);
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  weft_tensor_proto_header(e.tensor, &head);
  const weft_local_transport_msg_t right = {
      .in_parts = true, .head = weft_str_of(head.data, head.length), .bytes = BYTES};
  weft_local_transport_msg_t wrong[6] = {right, right, right, right, right, right};
  wrong[0].bytes = BYTES - 4;
  wrong[1].bytes = BYTES + 4;
  wrong[2].bytes = -1;
  wrong[3].bytes = INT64_MAX;
  wrong[4].head.length--;
  wrong[5].head = WEFT_STR("\xff\xff\xff");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    weft_mutex_lock(&e.mu);
    e.says = wrong[i];
    weft_mutex_unlock(&e.mu);
    begin_receive(&e, i % 2 == 0 ? &e.to_space : NULL);
    weft_status_t *s = end_receive(&e, NULL);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
    await_release(&e); /* the receiver says that it wants no more of it */
    make_tensor(&e, true);
  }
  weft_mutex_lock(&e.mu);
  e.says = right;
  weft_mutex_unlock(&e.mu);
  begin_receive(&e, &e.to_space);
  CU_ASSERT_PTR_NULL(end_receive(&e, &e.to_space));
  weft_strbuf_deinit(&head);
  await_release(&e);
  teardown(&e);
}

static weft_status_t *part(ends_t *e, uint64_t id, int64_t offset, int64_t bytes, size_t *out_bytes) {
  const weft_recv_tensor_part_request_msg_t m = {id, offset, bytes};
  weft_message_t *answer = NULL;
  weft_status_t *s =
      call(e, "/weft.WorkerService/RecvTensorPart", &weft_recv_tensor_part_request_type, &m, &answer);
  *out_bytes = answer == NULL ? 0 : weft_message_bytes(answer);
  weft_message_destroy(answer);
  return s;
}

static void parts_that_are_none_are_refused(void) {
  static const int64_t wrong[][2] = {{-1, 4},        {0, -1},        {0, BYTES + 1},
                                     {BYTES, 1},     {BYTES + 1, 0}, {INT64_MAX, INT64_MAX},
                                     {INT64_MIN, 4}, {4, INT64_MAX}};
  ends_t e;
  size_t bytes;
  setup(&e, false, false, 60000);
  CU_ASSERT_PTR_NULL_FATAL(weft_part_owner_keep(e.parts, 7, e.tensor));
  weft_status_t *s = weft_part_owner_keep(e.parts, 7, e.tensor);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_status_free(s);
  weft_tensor_release(e.tensor);
  e.tensor = NULL;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    s = part(&e, 7, wrong[i][0], wrong[i][1], &bytes);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
  s = part(&e, 8, 0, 4, &bytes);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
  weft_status_free(s);
  CU_ASSERT_PTR_NULL(part(&e, 7, 4, 1000, &bytes));
  CU_ASSERT_EQUAL(bytes, 1003);
  weft_mutex_lock(&e.mu);
  CU_ASSERT_FALSE(e.is_released);
  weft_mutex_unlock(&e.mu);
  CU_ASSERT_PTR_NULL(part(&e, 7, 0, 0, &bytes)); /* no more of it */
  await_release(&e);
  s = part(&e, 7, 4, 1000, &bytes);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ABORTED);
  weft_status_free(s);
  teardown(&e);
}

static void a_tensor_that_is_not_fetched_is_dropped(void) {
  ends_t e;
  setup(&e, true, false, 20);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_part_owner_keep(e.parts, 7, e.tensor));
    weft_tensor_release(e.tensor);
    e.tensor = NULL;
    await_release(&e);
    make_tensor(&e, true);
  }
  teardown(&e);
}

static const CU_TestInfo tests[] = {
    {"parts are sent while others are copied", parts_are_sent_while_others_are_copied},
    {"a tensor comes into the host's memory in parts", a_tensor_comes_into_the_host_s_memory_in_parts},
    {"a tensor of the host goes to a device in parts", a_tensor_of_the_host_goes_to_a_device_in_parts},
    {"a tensor between hosts' memories is one message", a_tensor_between_hosts_memories_is_one_message},
    {"a peer that takes no parts gets none", a_peer_that_takes_no_parts_gets_none},
    {"a copy that fails fails the receive", a_copy_that_fails_fails_the_receive},
    {"a receive that is cancelled lets the tensor go", a_receive_that_is_cancelled_lets_the_tensor_go},
    {"descriptions of no tensor fail the receive", descriptions_of_no_tensor_fail_the_receive},
    {"parts that are none are refused", parts_that_are_none_are_refused},
    {"a tensor that is not fetched is dropped", a_tensor_that_is_not_fetched_is_dropped},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_LOCAL_LINKS", "0", 1);
  return weft_run_tests("services/tensor_parts", tests);
}
