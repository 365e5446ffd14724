/* tests/services/device_tensor_test.c - tensors between the memories of devices of two processes of a host:
 * received into one, sent in parts, and read by the peer's device where they lie. Both ends are in one
 * process, with a device that takes its own memory for that of another process, and an owner that says what a
 * test wants.
 *
 * tests/cuda/sharing_test.c has two processes.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/peer_memory.h"
#include "device/queue.h"
#include "rpc/channel.h"
#include "rpc/local_link.h"
#include "rpc/service.h"
#include "services/local_transport.h"
#include "services/messages.h"
#include "services/remote_worker.h"
#include "tensor/tensor_proto.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:3"
enum {
  COUNT = 100000,
  BYTES = 4 * COUNT,
  IN_PARTS = (4 << 20) + 1, /* floats: 16 parts of a MiB, and 4 bytes */
  NUM_PARTS = 17,
};

/* ---- devices whose memory is the host's; one of them shares it ---- */

static atomic_int num_copies, num_open, num_imported, num_exported;
static atomic_bool cannot_import;
static atomic_size_t says_bytes; /* that memory has */

static void queue_wait(weft_queue_t *q, weft_fence_t f) { (void)q, (void)f; }
static bool queue_has_passed(weft_queue_t *q, uint64_t value) {
  (void)q, (void)value;
  return true;
}
static void queue_then(weft_queue_t *q, weft_fence_waiter_t *w) {
  (void)q;
  w->fn(w->arg, NULL);
}
static weft_status_t *queue_copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  (void)q;
  memcpy(to->data, from->data, from->bytes);
  atomic_fetch_add(&num_copies, 1);
  return NULL;
}
static const weft_queue_ops_t queue_ops = {queue_wait, queue_has_passed, queue_then, queue_copy};

static weft_status_t *identify(const weft_device_t *d, uint8_t *out) {
  (void)d;
  memset(out, 7, WEFT_DEVICE_ID_BYTES);
  return NULL;
}
static weft_status_t *export_memory(const weft_device_t *d, const void *p, const uint8_t *reader,
                                    WEFT_SharedMemory *out) {
  (void)d;
  const uintptr_t at = (uintptr_t)p - 256;
  if (reader[0] != 7) return WEFT_ERROR(UNIMPLEMENTED, "another card");
  memcpy(out->handle, &at, sizeof at);
  out->offset = 256;
  atomic_fetch_add(&num_exported, 1);
  return NULL;
}
static weft_status_t *import_memory(const weft_device_t *d, const uint8_t *handle, const void **out_at,
                                    size_t *out_bytes) {
  (void)d;
  if (cannot_import) return WEFT_ERROR(INTERNAL, "no such memory");
  uintptr_t at;
  memcpy(&at, handle, sizeof at);
  *out_at = (const void *)at;
  *out_bytes = says_bytes;
  atomic_fetch_add(&num_imported, 1);
  atomic_fetch_add(&num_open, 1);
  return NULL;
}
static void forget_memory(const weft_device_t *d, const void *at) {
  (void)d, (void)at;
  atomic_fetch_sub(&num_open, 1);
}
static const weft_device_sharing_t sharing = {.identify = identify,
                                              .export_memory = export_memory,
                                              .import_memory = import_memory,
                                              .forget_memory = forget_memory};
static const weft_device_driver_t sharing_driver = {.type = "TEST", .sharing = &sharing},
                                  plain_driver = {.type = "TEST"};

static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  (void)self;
  return weft_cpu_allocator()->allocate(weft_cpu_allocator(), bytes, after);
}
static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  (void)self;
  weft_cpu_allocator()->deallocate(weft_cpu_allocator(), p, bytes);
}

/* ---- both ends ---- */

typedef struct ends {
  weft_worker_client_t worker;
  weft_queue_t queue;
  weft_device_t device;
  weft_memory_space_t space;
  weft_allocator_t memory;
  weft_tensor_t *tensor; /* the owner's */
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_worker_service_t *service;
  weft_local_sender_t *sender;     /* of the owner that says what a test wants */
  weft_local_transport_msg_t says; /* lent */
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  weft_mutex_t mu;
  weft_cond_t changed;
  bool has_answer; /* guarded by mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *got;
  int num_given_back;
  weft_local_end_t how; /* the last */
} ends_t;

static void owner_recv_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                              weft_recv_fn *fn, void *arg) {
  ends_t *e = (ends_t *)(void *)w;
  (void)step_id, (void)key, (void)c;
  weft_mutex_lock(&e->mu);
  weft_mutex_unlock(&e->mu);
  fn(arg, NULL, weft_tensor_retain(e->tensor), false);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

static bool on_given_back(void *arg, weft_local_end_t how) {
  ends_t *e = arg;
  weft_mutex_lock(&e->mu);
  e->num_given_back++;
  e->how = how;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
  return how != WEFT_LOCAL_UNUSABLE; /* this owner has no bytes to send */
}

/* Gives the link's name to a receiver without one; lends to another, and says of it what the test wants. */
static void say(weft_served_t *s) {
  ends_t *e = s->service;
  const weft_recv_tensor_request_msg_t *m = s->request;
  weft_local_transport_msg_t peer = {.link = 0};
  weft_strbuf_t options = WEFT_STRBUF_INIT;
  weft_mutex_lock(&e->mu); /* the test's thread wrote all of this before it took it */
  weft_tensor_t *t = e->tensor;
  weft_local_sender_t *sender = e->sender;
  const weft_local_transport_msg_t says = e->says;
  weft_mutex_unlock(&e->mu);
  weft_local_transport_msg_t answer = {.name = weft_local_sender_name(sender)};
  if (weft_local_transport_from_any(m->transport_options, &s->arena, &peer) &&
      weft_local_sender_lend(sender, peer.link, (uint64_t)m->request_id, on_given_back, e)) {
    answer = says;
    t = NULL;
  }
  weft_local_transport_to_any(&answer, &options);
  const weft_recv_tensor_response_msg_t response = {
      .tensor = t, .transport_options = weft_str_of(options.data, options.length)};
  weft_served_reply(s, &weft_recv_tensor_response_type, &response);
  weft_strbuf_deinit(&options);
}

static const weft_service_method_t saying[] = {
    {WEFT_METHOD_OF("/tensorflow.WorkerService/RecvTensor", recv_tensor_request, say)}};

/* The owner's tensor of `count` floats lies in the memory of the device if `on_device`. */
static void setup_with(ends_t *e, const weft_device_driver_t *driver, bool says, int count, bool on_device) {
  static const weft_worker_client_ops_t ops = {.recv_tensor = owner_recv_tensor, .destroy = destroy};
  memset(e, 0, sizeof *e);
  e->worker.ops = &ops;
  atomic_init(&e->worker.refs, 1);
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  e->queue.ops = &queue_ops;
  e->device.driver = driver;
  e->device.type = driver->type;
  e->device.copies_in = e->device.copies_out = &e->queue;
  e->device.host_allocator = weft_cpu_allocator();
  e->space.device = &e->device;
  e->memory = (weft_allocator_t){.space = &e->space, .allocate = allocate, .deallocate = deallocate};
  e->device.memory = weft_memory_accounts_create(&e->memory);
  atomic_store(&num_copies, 0);
  atomic_store(&num_imported, 0);
  atomic_store(&num_exported, 0);
  cannot_import = false;
  says_bytes = SIZE_MAX / 2;
  weft_shape_t shape = weft_shape_vector(count);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &e->tensor));
  for (int i = 0; i < count; i++) ((float *)e->tensor->data)[i] = (float)i;
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &e->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = e->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &e->server));
  if (says) {
    CU_ASSERT_PTR_NULL_FATAL(weft_local_sender_create(&e->sender));
    CU_ASSERT_PTR_NULL_FATAL(weft_service_register(e->server, saying, 1, e));
  } else {
    if (on_device) e->tensor->space = &e->space;
    CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&e->worker, e->server, &e->service));
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(e->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(e->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(e->rpc, weft_str(target), &e->channel));
  CU_ASSERT_PTR_NULL_FATAL(weft_remote_worker_client_create(e->channel, WEFT_STR(TASK), &e->remote));
}

/* Of tests of what is lent. */
static void setup(ends_t *e, bool says) { setup_with(e, &sharing_driver, says, COUNT, true); }

static void teardown(ends_t *e) {
  weft_worker_client_release(e->remote);
  weft_rpc_channel_release(e->channel);
  weft_rpc_server_destroy(e->server);
  weft_worker_service_destroy(e->service);
  weft_local_sender_destroy(e->sender);
  weft_rpc_client_destroy(e->rpc);
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(e->tensor)); /* nothing is lent any more */
  e->tensor->space = NULL;
  weft_tensor_release(e->tensor);
  weft_peer_memory_end(&e->device);
  CU_ASSERT_EQUAL(atomic_load(&num_open), 0);
  weft_memory_accounts_release(e->device.memory);
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

/* Receives into `space`. The status is owned; the tensor is compared and released. *out_space: where it lay.
 */
static weft_status_t *receive_into(ends_t *e, const weft_memory_space_t *space,
                                   const weft_memory_space_t **out_space) {
  weft_key_t key = weft_key(WEFT_STR("key"));
  key.space = space;
  weft_mutex_lock(&e->mu); /* the owner's threads see what the test has changed: they take it, too */
  e->has_answer = false;
  e->got = NULL;
  weft_mutex_unlock(&e->mu);
  e->remote->ops->recv_tensor(e->remote, 8, key, NULL, on_recv, e);
  weft_mutex_lock(&e->mu);
  while (!e->has_answer) weft_cond_wait(&e->changed, &e->mu);
  weft_mutex_unlock(&e->mu);
  if (e->got != NULL) {
    *out_space = e->got->space;
    CU_ASSERT_EQUAL(e->got->bytes, e->tensor->bytes);
    CU_ASSERT_EQUAL(memcmp(e->got->data, e->tensor->data, e->tensor->bytes), 0);
    CU_ASSERT_PTR_EQUAL(e->got->fence.queue, e->got->space == NULL ? NULL : &e->queue);
    weft_tensor_release(e->got);
  }
  return e->status;
}

static weft_status_t *receive(ends_t *e) {
  const weft_memory_space_t *space = NULL;
  return receive_into(e, &e->space, &space);
}

/* Receives by other ways until the first tensor is exported: the link has to be there. */
static void receive_until_exported(ends_t *e) {
  for (int i = 0; i < 10000 && atomic_load(&num_exported) == 0; i++) CU_ASSERT_PTR_NULL(receive(e));
  CU_ASSERT_EQUAL(atomic_load(&num_exported), 1);
}

/* ---- tests of parts ---- */

/* With an answer at first; then, when the link is there, each part goes to the device as it comes. */
static void a_tensor_is_received_into_a_device(void) {
  ends_t e;
  setup_with(&e, &plain_driver, false, IN_PARTS, false);
  bool came = false;
  for (int round = 0; round < 1000 && !came; round++) {
    const weft_memory_space_t *space = NULL;
    atomic_store(&num_copies, 0);
    CU_ASSERT_PTR_NULL(receive_into(&e, &e.space, &space));
    came = space == &e.space; /* else it came with an answer: the hint is one */
    CU_ASSERT_EQUAL(atomic_load(&num_copies), came ? NUM_PARTS : 0);
  }
  CU_ASSERT_TRUE(came);
  teardown(&e);
}

/* As a whole with an answer, then, when the link is there, in parts on that. */
static void a_device_s_tensor_is_received_in_parts(void) {
  ends_t e;
  setup_with(&e, &plain_driver, false, IN_PARTS, true);
  int copies = 0;
  for (int round = 0; round < 1000 && copies <= 1; round++) {
    const weft_memory_space_t *space = NULL;
    atomic_store(&num_copies, 0);
    CU_ASSERT_PTR_NULL(receive_into(&e, NULL, &space));
    CU_ASSERT_PTR_NULL(space);
    copies = atomic_load(&num_copies);
    CU_ASSERT_TRUE(round > 0 || copies == 1);
  }
  CU_ASSERT_EQUAL(copies, NUM_PARTS);
  teardown(&e);
}

/* As when the request is quicker than the link's own thread. */
static void a_device_s_tensor_is_copied_once_if_the_link_is_not_there(void) {
  ends_t e;
  setup_with(&e, &plain_driver, false, IN_PARTS, true);
  const weft_local_transport_msg_t link = {.host = weft_local_link_host(), .link = 4711};
  weft_strbuf_t options = WEFT_STRBUF_INIT, request = WEFT_STRBUF_INIT;
  weft_local_transport_to_any(&link, &options);
  const weft_recv_tensor_request_msg_t m = {.step_id = 8,
                                            .request_id = 9,
                                            .rendezvous_key = WEFT_STR("key"),
                                            .transport_options = weft_str_of(options.data, options.length)};
  weft_fields_encode_bytes(&weft_recv_tensor_request_type, &m, &request);
  weft_message_t *question = NULL, *answer = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_message_create(&question));
  CU_ASSERT_PTR_NULL_FATAL(weft_message_append(question, weft_str_of(request.data, request.length)));
  CU_ASSERT_PTR_NULL(
      weft_rpc_call_sync(e.channel, "/tensorflow.WorkerService/RecvTensor", question, NULL, &answer));
  CU_ASSERT_TRUE(answer != NULL && weft_message_bytes(answer) > e.tensor->bytes);
  CU_ASSERT_EQUAL(atomic_load(&num_copies), 1);
  weft_message_destroy(answer);
  weft_strbuf_deinit(&options);
  weft_strbuf_deinit(&request);
  teardown(&e);
}

/* ---- tests of loans ---- */

static void memory_is_opened_once_and_closed_with_the_link(void) {
  ends_t e;
  setup(&e, false);
  receive_until_exported(&e);
  for (int i = 0; i < 5; i++) CU_ASSERT_PTR_NULL(receive(&e));
  CU_ASSERT_EQUAL(atomic_load(&num_exported), 6);
  CU_ASSERT_EQUAL(atomic_load(&num_imported), 1);
  CU_ASSERT_EQUAL(atomic_load(&num_open), 1);
  teardown(&e);
}

static void what_cannot_be_opened_comes_on_the_link(void) {
  ends_t e;
  setup(&e, false);
  cannot_import = true;
  receive_until_exported(&e);
  for (int i = 0; i < 5; i++) CU_ASSERT_PTR_NULL(receive(&e));
  CU_ASSERT_EQUAL(atomic_load(&num_exported), 1); /* it is not tried again */
  teardown(&e);
}

static void what_lies_beyond_the_memory_comes_on_the_link(void) {
  ends_t e;
  setup(&e, false);
  says_bytes = 256 + BYTES - 1;
  receive_until_exported(&e);
  CU_ASSERT_PTR_NULL(receive(&e));
  CU_ASSERT_EQUAL(atomic_load(&num_exported), 1);
  teardown(&e);
}

/* An owner may say anything: the receive fails, and what was lent is given back. */
static void places_that_are_none_lose_the_receive(void) {
  uint8_t handle[WEFT_MEMORY_HANDLE_BYTES + 1] = {0};
  ends_t e;
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  setup(&e, true);
  const uintptr_t at = (uintptr_t)e.tensor->data;
  memcpy(handle, &at, sizeof at);
  says_bytes = BYTES;
  weft_tensor_proto_header(e.tensor, &head);
  const weft_local_transport_msg_t right = {.memory = weft_str_of((char *)handle, WEFT_MEMORY_HANDLE_BYTES),
                                            .head = weft_str_of(head.data, head.length),
                                            .bytes = BYTES};
  weft_local_transport_msg_t wrong[8] = {right, right, right, right, right, right, right, right};
  wrong[0].memory.length = 1;
  wrong[1].memory.length = sizeof handle;
  wrong[2].bytes = BYTES - 1;
  wrong[3].bytes = -1;
  wrong[4].bytes = INT64_MAX;
  wrong[5].offset = -1;
  wrong[6].head.length--;
  wrong[7].head = WEFT_STR("\xff\xff\xff");
  e.says = right;
  int received = 0, given_back = 0;
  for (; received < 10000 && given_back == 0; received++) {
    CU_ASSERT_PTR_NULL(receive(&e));
    weft_mutex_lock(&e.mu);
    given_back = e.num_given_back;
    weft_mutex_unlock(&e.mu);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    weft_mutex_lock(&e.mu);
    given_back = e.num_given_back;
    weft_mutex_unlock(&e.mu);
    e.says = wrong[i];
    weft_status_t *s = receive(&e);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
    weft_status_free(s);
    weft_mutex_lock(&e.mu);
    while (e.num_given_back == given_back) weft_cond_wait(&e.changed, &e.mu);
    CU_ASSERT_EQUAL(e.how, WEFT_LOCAL_DONE);
    weft_mutex_unlock(&e.mu);
  }
  e.says = right;
  CU_ASSERT_PTR_NULL(receive(&e));
  /* Outside of the memory: bytes are asked for, which this owner has not, and so the link breaks. */
  e.says.offset = 4;
  weft_status_t *s = receive(&e);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  weft_status_free(s);
  weft_strbuf_deinit(&head);
  teardown(&e);
}

static const CU_TestInfo tests[] = {
    {"a tensor is received into a device", a_tensor_is_received_into_a_device},
    {"a device's tensor is received in parts", a_device_s_tensor_is_received_in_parts},
    {"a device's tensor is copied once if the link is not there",
     a_device_s_tensor_is_copied_once_if_the_link_is_not_there},
    {"memory is opened once and closed with the link", memory_is_opened_once_and_closed_with_the_link},
    {"what cannot be opened comes on the link", what_cannot_be_opened_comes_on_the_link},
    {"what lies beyond the memory comes on the link", what_lies_beyond_the_memory_comes_on_the_link},
    {"places that are none lose the receive", places_that_are_none_lose_the_receive},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("services/device_tensor", tests); }
