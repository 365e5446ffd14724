/* tests/cuda/sharing_test.c - two processes with a GPU each, or one of both, on the fake driver: what one has
 * the other receives by RecvTensor, without a copy by way of the host.
 *
 * A trial is the reader. It begins an owner in a process of its own, which says by a pipe where it listens
 * and when a tensor was released, and ends when a byte comes by another pipe.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/loaded/loaded.h"
#include "device/peer_memory.h"
#include "device/transfer.h"
#include "rpc/channel.h"
#include "services/remote_worker.h"
#include "tests/cuda/rig.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:3"

/* ---- tensors ---- */

static const struct {
  weft_dtype_t dtype;
  int rank;
  int64_t dims[4];
} cases[] = {
    {WEFT_F32, 1, {65536}},        {WEFT_F32, 4, {3, 5, 7, 1001}}, {WEFT_F64, 2, {300, 301}},
    {WEFT_F16, 3, {2, 1, 140001}}, {WEFT_I8, 1, {262145}},         {WEFT_BOOL, 2, {600, 601}},
    {WEFT_I64, 1, {40000}},        {WEFT_C64, 2, {33, 1025}},      {WEFT_F32, 2, {1025, 1024}},
};
enum { NUM_CASES = sizeof cases / sizeof *cases, SMALL = NUM_CASES };

static weft_tensor_t *host_tensor(int which) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(100);
  if (which < NUM_CASES) {
    shape = WEFT_SCALAR;
    shape.rank = cases[which].rank;
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = cases[which].dims[i];
  }
  TRIAL(weft_tensor_new(which < NUM_CASES ? cases[which].dtype : WEFT_F32, &shape, NULL, &t) == NULL);
  uint8_t *bytes = t->data;
  for (size_t i = 0; i < t->bytes; i++)
    bytes[i] = (uint8_t)((i + (size_t)which * 31) * 2654435761u >> 13) & 1;
  return t;
}

/* ---- devices ---- */

static weft_loaded_driver_t *driver;

static weft_device_t *device_open(int ordinal) {
  weft_device_t *d = NULL;
  weft_rig_library();
  TRIAL(weft_loaded_driver_create(&weft_cuda_device_type, &driver) == NULL);
  const weft_device_driver_t *base = weft_loaded_driver_base(driver);
  const weft_device_spec_t spec = {.name = WEFT_STR(TASK "/device:GPU:0"), .incarnation = 1};
  weft_status_t *s = base->create(base, &spec, ordinal, &d);
  TRIAL_SAYS(s == NULL, weft_status_message(s));
  return d;
}

static void device_close(weft_device_t *d) {
  weft_device_destroy(d);
  weft_loaded_driver_destroy(driver);
}

/* ---- the owner ---- */

typedef struct owner {
  weft_worker_client_t base;
  weft_device_t *device;
  int events;
} owner_t;

typedef struct owned {
  weft_tensor_t *inner;
  int events;
} owned_t;

static void on_released(void *data, size_t bytes, void *arg) {
  owned_t *o = arg;
  (void)data, (void)bytes;
  const int events = o->events;
  weft_tensor_release(o->inner);
  weft_free(o);
  TRIAL(write(events, "r", 1) == 1);
}

static void recv_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                        weft_recv_fn *fn, void *arg) {
  owner_t *owner = (owner_t *)(void *)w;
  (void)step_id, (void)c;
  if (weft_str_is(key.text, "fail")) {
    fn(arg, WEFT_ERROR(NOT_FOUND, "no such tensor"), NULL, false);
    return;
  }
  int which = 0;
  for (size_t i = 0; i < key.text.length; i++) which = 10 * which + (key.text.data[i] - '0');
  weft_tensor_t *host = host_tensor(which), *t = NULL;
  owned_t *o = weft_calloc(1, sizeof *o);
  o->events = owner->events;
  TRIAL(weft_tensor_at_sync(host, owner->device->space, &o->inner) == NULL);
  TRIAL(weft_tensor_wrap(host->dtype, &host->shape, o->inner->data, host->bytes, on_released, o, &t) == NULL);
  t->space = owner->device->space;
  t->fence = o->inner->fence;
  weft_tensor_release(host);
  fn(arg, NULL, t, false);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

static void own(int events, int commands) {
  static const weft_worker_client_ops_t ops = {.recv_tensor = recv_tensor, .destroy = destroy};
  owner_t o = {.base.ops = &ops, .events = events, .device = device_open(0)};
  atomic_init(&o.base.refs, 1);
  weft_rpc_client_t *rpc = NULL;
  weft_rpc_server_t *server = NULL;
  weft_worker_service_t *service = NULL;
  TRIAL(weft_rpc_client_create(2, &rpc) == NULL);
  const weft_rpc_server_options_t options = {.host = "127.0.0.1", .client = rpc};
  TRIAL(weft_rpc_server_create(&options, &server) == NULL);
  TRIAL(weft_worker_service_create(&o.base, server, &service) == NULL);
  TRIAL(weft_rpc_server_start(server) == NULL);
  const int port = weft_rpc_server_port(server);
  TRIAL(write(events, &port, sizeof port) == sizeof port);
  char quit;
  (void)!read(commands, &quit, 1);
  weft_rpc_server_destroy(server);
  weft_worker_service_destroy(service);
  weft_rpc_client_destroy(rpc);
  device_close(o.device);
  weft_rig_is_clean();
}

/* ---- the reader ---- */

typedef struct reader {
  pid_t owner;
  int events, commands;
  weft_device_t *device;
  weft_rpc_client_t *rpc;
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  weft_mutex_t mu;
  weft_cond_t changed;
  bool has_answer; /* guarded by mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *tensor;
} reader_t;

typedef struct trial {
  void (*body)(reader_t *r, const struct trial *t);
  const char *owner, *reader; /* options of the fake driver */
  int ordinal;                /* of the reader's device */
  int imports;                /* for bodies that count them */
} trial_t;

static pid_t begin_process(void (*role)(int in, int out), const char *options, int *out_from, int *out_to) {
  int from[2], to[2];
  TRIAL(pipe(from) == 0 && pipe(to) == 0);
  const pid_t pid = fork();
  TRIAL(pid >= 0);
  if (pid == 0) {
    close(from[0]);
    close(to[1]);
    setenv("WEFT_FAKE_CUDA", options, 1);
    alarm(WEFT_TRIAL_SECONDS);
    role(from[1], to[0]);
    exit(0);
  }
  close(from[1]);
  close(to[0]);
  *out_from = from[0];
  *out_to = to[1];
  return pid;
}

static void reader_disconnect(reader_t *r) {
  weft_worker_client_release(r->remote);
  r->remote = NULL;
}

static void reader_close(reader_t *r) {
  weft_worker_client_release(r->remote);
  weft_rpc_channel_release(r->channel);
  weft_rpc_client_destroy(r->rpc);
  device_close(r->device);
  weft_cond_deinit(&r->changed);
  weft_mutex_deinit(&r->mu);
}

static void reader_end(reader_t *r) {
  reader_close(r);
  weft_rig_is_clean();
}

/* And the owner ends as it should. */
static void owner_end(reader_t *r) {
  int how = 0;
  TRIAL(write(r->commands, "q", 1) == 1);
  TRIAL(waitpid(r->owner, &how, 0) == r->owner);
  TRIAL(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void owner_kill(reader_t *r) {
  TRIAL(kill(r->owner, SIGKILL) == 0);
  TRIAL(waitpid(r->owner, NULL, 0) == r->owner);
}

static void on_recv(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  reader_t *r = arg;
  (void)is_dead;
  weft_mutex_lock(&r->mu);
  r->has_answer = true;
  r->status = status;
  r->tensor = tensor;
  weft_cond_broadcast(&r->changed);
  weft_mutex_unlock(&r->mu);
}

static void ask(reader_t *r, const char *name, const weft_memory_space_t *space, weft_canceller_t *c) {
  weft_key_t key = weft_key(weft_str(name));
  key.space = space;
  weft_mutex_lock(&r->mu);
  r->has_answer = false;
  weft_mutex_unlock(&r->mu);
  r->remote->ops->recv_tensor(r->remote, 8, key, c, on_recv, r);
}

static weft_status_t *answer(reader_t *r, weft_tensor_t **out) {
  weft_mutex_lock(&r->mu);
  while (!r->has_answer) weft_cond_wait(&r->changed, &r->mu);
  weft_mutex_unlock(&r->mu);
  *out = r->tensor;
  return r->status;
}

/* Opens the device, and a connection to the owner that is there: on a machine that is busy with other work a
 * first attempt may take longer than gRPC lets it, which is no fault of what is tested. */
static void reader_connect(reader_t *r, int ordinal, int port) {
  char target[64];
  weft_code_t code;
  r->device = device_open(ordinal);
  weft_mutex_init(&r->mu);
  weft_cond_init(&r->changed);
  snprintf(target, sizeof target, "127.0.0.1:%d", port);
  TRIAL(weft_rpc_client_create(2, &r->rpc) == NULL);
  TRIAL(weft_rpc_channel_create(r->rpc, weft_str(target), &r->channel) == NULL);
  TRIAL(weft_remote_worker_client_create(r->channel, WEFT_STR(TASK), &r->remote) == NULL);
  do {
    weft_tensor_t *none = NULL;
    ask(r, "fail", NULL, NULL);
    weft_status_t *s = answer(r, &none);
    code = weft_status_code(s);
    weft_status_free(s);
  } while (code == WEFT_UNAVAILABLE);
  TRIAL(code == WEFT_NOT_FOUND);
}

static void reader_begin(reader_t *r, const trial_t *t) {
  int port = 0;
  *r = (reader_t){0};
  r->owner = begin_process(own, t->owner, &r->events, &r->commands);
  TRIAL(read(r->events, &port, sizeof port) == sizeof port);
  setenv("WEFT_FAKE_CUDA", t->reader, 1);
  reader_connect(r, t->ordinal, port);
}

/* The owner has released so many tensors. */
static void await_released(reader_t *r, int n) {
  char what;
  while (n-- > 0) TRIAL(read(r->events, &what, 1) == 1 && what == 'r');
}

/* Receives a tensor, compares it, and waits for the owner to release it. Was it read where it lay? */
static bool receive(reader_t *r, int which, const weft_memory_space_t *space) {
  char name[16];
  weft_tensor_t *t = NULL, *host = NULL, *expected = host_tensor(which);
  snprintf(name, sizeof name, "%d", which);
  const weft_fake_cuda_live_t before = weft_rig_live();
  ask(r, name, space, NULL);
  weft_status_t *s = answer(r, &t);
  TRIAL_SAYS(s == NULL, weft_status_message(s));
  const weft_fake_cuda_live_t now = weft_rig_live();
  const bool was_read = now.imported_bytes > before.imported_bytes;
  if (was_read) {
    TRIAL(t->space == space);
    TRIAL(now.imported_bytes - before.imported_bytes == t->bytes);
    TRIAL(now.host_bytes == before.host_bytes);
  }
  TRIAL(weft_tensor_at_sync(t, NULL, &host) == NULL);
  TRIAL(host->dtype == expected->dtype && weft_shape_eq(&host->shape, &expected->shape));
  TRIAL(memcmp(host->data, expected->data, expected->bytes) == 0);
  weft_tensor_release(t);
  weft_tensor_release(host);
  weft_tensor_release(expected);
  await_released(r, 1);
  return was_read;
}

/* The first tensor comes with its answer, and others until the link is there. */
static void warm_up(reader_t *r) {
  for (int i = 0; !receive(r, 0, r->device->space); i++) TRIAL(i < 10000);
}

/* ---- trials ---- */

static void types_and_shapes(reader_t *r, const trial_t *t) {
  (void)t;
  warm_up(r);
  for (int i = 0; i < NUM_CASES; i++) TRIAL(receive(r, i, r->device->space));
  TRIAL(!receive(r, SMALL, r->device->space));
  TRIAL(!receive(r, 1, NULL));
  TRIAL(receive(r, 1, r->device->space));
  TRIAL(weft_rig_calls("cuIpcOpenMemHandle_v2") <= 4); /* once for a region, of which there are few */
  reader_end(r);
  owner_end(r);
}

/* Twenty receives, all right, of which some may be read where they lie. */
static void twenty(reader_t *r, const trial_t *t) {
  int imports = 0;
  for (int i = 0; i < 20; i++) imports += receive(r, i % NUM_CASES, r->device->space);
  TRIAL(t->imports != 0 || imports == 0);
  reader_end(r);
  owner_end(r);
}

/* What cannot be closed ends with the context. */
static void nothing_is_closed(reader_t *r, const trial_t *t) {
  (void)t;
  warm_up(r);
  reader_close(r);
  const weft_fake_cuda_live_t l = weft_rig_live();
  TRIAL_SAYS(l.imports == 0 && strstr(l.fault, "left open") != NULL, l.fault);
  owner_end(r);
}

/* The link is there: a receive that is not read is asked for once more, as bytes. */
static void the_first_cannot_be_opened(reader_t *r, const trial_t *t) {
  (void)t;
  for (int i = 0; weft_rig_calls("cuIpcOpenMemHandle_v2") == 0; i++) {
    TRIAL(!receive(r, 8, r->device->space) && i < 10000);
  }
  const long opened = weft_rig_calls("cuIpcOpenMemHandle_v2");
  for (int i = 0; i < 5; i++) TRIAL(!receive(r, i, r->device->space));
  TRIAL(weft_rig_calls("cuIpcOpenMemHandle_v2") == opened); /* it is not tried again */
  reader_end(r);
  owner_end(r);
}

/* Asks for a tensor of which the copy does not end. */
static void ask_and_hold(reader_t *r, weft_canceller_t *c) {
  warm_up(r);
  weft_rig_hold(WEFT_FAKE_HOLD_COPIES);
  const long copies = weft_rig_calls("cuMemcpyAsync");
  ask(r, "1", r->device->space, c);
  while (weft_rig_calls("cuMemcpyAsync") == copies) sched_yield();
}

static void the_owner_is_killed(reader_t *r, const trial_t *t) {
  weft_tensor_t *tensor = NULL;
  (void)t;
  ask_and_hold(r, NULL);
  owner_kill(r);
  weft_status_t *s = answer(r, &tensor);
  TRIAL(weft_status_code(s) == WEFT_UNAVAILABLE && tensor == NULL);
  TRIAL(strstr(weft_status_message(s), TASK) != NULL);
  weft_status_free(s);
  weft_rig_hold(0);
  reader_end(r);
}

static void a_receive_is_cancelled(reader_t *r, const trial_t *t) {
  weft_tensor_t *tensor = NULL;
  weft_canceller_t *c = weft_canceller_create(NULL);
  (void)t;
  ask_and_hold(r, c);
  weft_canceller_cancel(c);
  weft_status_t *s = answer(r, &tensor);
  TRIAL(weft_status_code(s) == WEFT_CANCELLED && tensor == NULL);
  weft_status_free(s);
  weft_canceller_release(c);
  reader_disconnect(r); /* the link stays while the copy is under way */
  weft_rig_hold(0);
  await_released(r, 1);
  reader_end(r);
  owner_end(r);
}

static void a_failure_is_told(reader_t *r, const trial_t *t) {
  weft_tensor_t *tensor = NULL;
  (void)t;
  warm_up(r);
  ask(r, "fail", r->device->space, NULL);
  weft_status_t *s = answer(r, &tensor);
  TRIAL(weft_status_code(s) == WEFT_NOT_FOUND);
  weft_status_free(s);
  TRIAL(receive(r, 2, r->device->space));
  reader_end(r);
  owner_end(r);
}

/* The reader's device is lost while it copies: that is said, and the owner gets its tensor back. */
static void the_readers_device_is_lost(reader_t *r, const trial_t *t) {
  weft_tensor_t *tensor = NULL;
  (void)t;
  ask_and_hold(r, NULL);
  weft_rig_break(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  weft_status_t *s = answer(r, &tensor);
  TRIAL(weft_status_code(s) == WEFT_UNAVAILABLE && tensor == NULL);
  TRIAL(strstr(weft_status_message(s), "CUDA_ERROR") != NULL);
  weft_status_free(s);
  await_released(r, 1);
  reader_close(r);
  owner_end(r);
}

/* The bytes of a handle and an offset may be any. */
static atomic_int num_copied;
static void on_copied(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  (void)arg;
  weft_status_free(status);
  weft_tensor_release(tensor);
  atomic_fetch_add(&num_copied, 1);
}

static void is_refused(const weft_memory_space_t *space, const uint8_t *handle, uint64_t offset,
                       int64_t count) {
  const weft_peer_tensor_t from = {
      .dtype = WEFT_F32, .shape = weft_shape_vector(count), .handle = handle, .offset = offset};
  weft_status_t *s = weft_peer_memory_copy(7, &from, space, on_copied, NULL);
  TRIAL(s != NULL);
  weft_status_free(s);
}

static void copies_that_are_wrong(reader_t *r, const trial_t *t) {
  uint8_t handle[WEFT_MEMORY_HANDLE_BYTES] = {1, 2, 3};
  const void *at = NULL;
  size_t bytes = 0;
  WEFT_SharedMemory memory = {.size = sizeof memory};
  (void)t;
  is_refused(r->device->space, handle, 0, 16);
  uint8_t id[WEFT_DEVICE_ID_BYTES];
  TRIAL(weft_peer_memory_identify(r->device->space, id));
  weft_tensor_t *host = host_tensor(0), *mine = NULL; /* own=1: as if it were another's */
  TRIAL(weft_tensor_at_sync(host, r->device->space, &mine) == NULL);
  TRIAL(weft_peer_memory_export(mine, WEFT_STR("GPU"), weft_str_of((char *)id, sizeof id), &memory));
  TRIAL(!weft_peer_memory_export(mine, WEFT_STR("LATE"), weft_str_of((char *)id, sizeof id), &memory));
  TRIAL(!weft_peer_memory_export(mine, WEFT_STR("GPU"), weft_str_of((char *)id, 15), &memory));
  TRIAL(!weft_peer_memory_export(host, WEFT_STR("GPU"), weft_str_of((char *)id, sizeof id), &memory));
  const weft_device_sharing_t *sharing = r->device->driver->sharing;
  TRIAL(sharing->import_memory(r->device, memory.handle, &at, &bytes) == NULL);
  is_refused(r->device->space, memory.handle, bytes - 60, 16);
  is_refused(r->device->space, memory.handle, bytes + 1, 16);
  is_refused(r->device->space, memory.handle, UINT64_MAX - 3, 16);
  is_refused(r->device->space, memory.handle, 4, (int64_t)(bytes / 4));
  TRIAL(weft_rig_live().imports == 1);
  sharing->forget_memory(r->device, at);
  TRIAL(weft_rig_live().imports == 1); /* what was opened for a copy is kept for the next */
  weft_peer_memory_forget(8);
  TRIAL(weft_rig_live().imports == 1);
  weft_peer_memory_forget(7);
  TRIAL(weft_rig_live().imports == 0);
  TRIAL(atomic_load(&num_copied) == 0);
  weft_tensor_release(host);
  weft_tensor_release(mine);
  reader_end(r);
  owner_end(r);
}

/* ---- the reader is killed: the trial is neither ---- */

static int told; /* a pipe */
static trial_t killed;

/* Asks, and says so when the copy is under way. */
static void read_until_killed(int out, int in) {
  reader_t r = {0};
  (void)in;
  told = out;
  r.events = -1;
  reader_connect(&r, 0, atoi(getenv("WEFT_TEST_PORT")));
  weft_rig_hold(WEFT_FAKE_HOLD_COPIES);
  for (int i = 0;; i++) {
    weft_tensor_t *t = NULL;
    const long opened = weft_rig_calls("cuIpcOpenMemHandle_v2"), copies = weft_rig_calls("cuMemcpyAsync");
    ask(&r, "1", r.device->space, NULL);
    /* Either it comes, by way of the host, or its copy from the owner's memory is held. */
    for (;;) {
      weft_mutex_lock(&r.mu);
      const bool has = r.has_answer;
      weft_mutex_unlock(&r.mu);
      if (has) break;
      if (weft_rig_calls("cuIpcOpenMemHandle_v2") > opened && weft_rig_calls("cuMemcpyAsync") > copies) {
        TRIAL(write(out, &i, sizeof i) == sizeof i);
        for (;;) pause();
      }
      sched_yield();
    }
    TRIAL(answer(&r, &t) == NULL);
    weft_tensor_release(t);
  }
}

static void trial_killed_reader(void *arg) {
  const trial_t *t = arg;
  reader_t r = {0};
  int port = 0, from = -1, to = -1, earlier = 0;
  char text[16];
  r.owner = begin_process(own, t->owner, &r.events, &r.commands);
  TRIAL(read(r.events, &port, sizeof port) == sizeof port);
  snprintf(text, sizeof text, "%d", port);
  setenv("WEFT_TEST_PORT", text, 1);
  const pid_t reader = begin_process(read_until_killed, t->reader, &from, &to);
  TRIAL(read(from, &earlier, sizeof earlier) == sizeof earlier);
  TRIAL(kill(reader, SIGKILL) == 0);
  TRIAL(waitpid(reader, NULL, 0) == reader);
  await_released(&r, earlier + 1); /* the one that it was reading, too */
  owner_end(&r);
}

/* ---- tests ---- */

static void run_reader(void *arg) {
  const trial_t *t = arg;
  reader_t r;
  reader_begin(&r, t);
  t->body(&r, t);
}

#define ONE "devices=1,late_us=100,memory=64m,seed=3"
#define TWO "devices=2,late_us=100,memory=64m,seed=5"

static void passes(trial_t t, const char *file, int line) {
  const char *failed = weft_trial(run_reader, &t, "", NULL);
  if (failed != NULL)
    fprintf(stderr, "%s:%d: owner '%s', reader '%s': %s\n", file, line, t.owner, t.reader, failed);
  CU_ASSERT_PTR_NULL(failed);
}
#define PASSES(...) passes((trial_t){__VA_ARGS__}, __FILE__, __LINE__)

static void tensors_are_read_where_they_lie(void) {
  PASSES(types_and_shapes, ONE, ONE);
  PASSES(types_and_shapes, TWO, TWO, .ordinal = 1);
}

static void what_fails_goes_by_way_of_the_host(void) {
  static const char *const of_owner[] = {"cuIpcGetMemHandle@1:201", "cuIpcGetMemHandle@2:1",
                                         "cuIpcGetMemHandle@*:801"};
  static const char *const of_reader[] = {"cuIpcOpenMemHandle_v2@1:1", "cuIpcOpenMemHandle_v2@2:1",
                                          "cuMemGetAddressRange_v2@1:1"};
  char options[160];
  for (size_t i = 0; i < sizeof of_owner / sizeof *of_owner; i++) {
    snprintf(options, sizeof options, ONE ",fail=%s", of_owner[i]);
    PASSES(twenty, options, ONE, .imports = i < 2);
  }
  for (size_t i = 0; i < sizeof of_reader / sizeof *of_reader; i++) {
    snprintf(options, sizeof options, ONE ",fail=%s", of_reader[i]);
    PASSES(twenty, ONE, options, .imports = 1);
  }
  PASSES(twenty, ONE, ONE ",fail=cuDeviceGetUuid_v2@1:1");
  PASSES(twenty, ONE ",fail=cuDeviceGetUuid_v2@*:1", ONE, .imports = 1); /* the reader finds that it can */
  PASSES(nothing_is_closed, ONE, ONE ",fail=cuIpcCloseMemHandle@*:1");
  PASSES(the_first_cannot_be_opened, ONE, ONE ",fail=cuIpcOpenMemHandle_v2@1:205");
}

static void cards_out_of_reach_go_by_way_of_the_host(void) {
  PASSES(twenty, TWO ",peers=0", TWO ",peers=0", .ordinal = 1);
  PASSES(the_first_cannot_be_opened, ONE, TWO ",peers=0",
         .ordinal = 1); /* the owner does not see that card */
}

static void a_killed_owner_is_named(void) { PASSES(the_owner_is_killed, ONE, ONE); }

static void a_killed_reader_gives_back(void) {
  killed = (trial_t){.owner = ONE, .reader = ONE};
  const char *failed = weft_trial(trial_killed_reader, &killed, "", NULL);
  if (failed != NULL) fprintf(stderr, "%s\n", failed);
  CU_ASSERT_PTR_NULL(failed);
}

static void receives_end_in_other_ways(void) {
  PASSES(a_receive_is_cancelled, ONE, ONE);
  PASSES(a_failure_is_told, ONE, ONE);
  PASSES(the_readers_device_is_lost, ONE, ONE);
}

/* Without local links tensors go as between hosts: the largest in parts, out of one card's memory and into
 * the other's. */
static void parts_between_hosts(reader_t *r, const trial_t *t) {
  (void)t;
  for (int i = 0; i < NUM_CASES; i++) TRIAL(!receive(r, i, r->device->space));
  const weft_fake_cuda_live_t before = weft_rig_live();
  TRIAL(!receive(r, 8, r->device->space) && !receive(r, 8, NULL));
  /* Into the card, out of it to be compared, and none of the second. */
  TRIAL(weft_rig_live().host_bytes - before.host_bytes == 2 * 4 * 1025 * 1024);
  reader_end(r);
  owner_end(r);
}

static void the_owner_is_killed_between_parts(reader_t *r, const trial_t *t) {
  weft_tensor_t *tensor = NULL;
  (void)t;
  weft_rig_hold(WEFT_FAKE_HOLD_COPIES);
  const long copies = weft_rig_calls("cuMemcpyAsync");
  ask(r, "8", r->device->space, NULL);
  while (weft_rig_calls("cuMemcpyAsync") == copies) sched_yield();
  owner_kill(r);
  weft_status_t *s = answer(r, &tensor); /* all of it was sent, or that it was not is said */
  TRIAL(s == NULL ? tensor != NULL : weft_status_code(s) == WEFT_UNAVAILABLE);
  weft_status_free(s);
  weft_rig_hold(0);
  weft_tensor_release(tensor);
  weft_tensor_t *host = host_tensor(SMALL), *there = NULL, *back = NULL; /* behind the copies of the parts */
  TRIAL(weft_tensor_at_sync(host, r->device->space, &there) == NULL);
  TRIAL(weft_tensor_at_sync(there, NULL, &back) == NULL);
  weft_tensor_release(host);
  weft_tensor_release(there);
  weft_tensor_release(back);
  reader_end(r);
}

static void tensors_go_in_parts_between_hosts(void) {
  setenv("WEFT_LOCAL_LINKS", "0", 1);
  PASSES(parts_between_hosts, ONE, ONE);
  PASSES(the_owner_is_killed_between_parts, ONE, ONE);
  unsetenv("WEFT_LOCAL_LINKS");
}

static void places_of_other_processes_are_checked(void) { PASSES(copies_that_are_wrong, ONE, ONE ",own=1"); }

static const CU_TestInfo tests[] = {
    {"tensors are read where they lie", tensors_are_read_where_they_lie},
    {"what fails goes by way of the host", what_fails_goes_by_way_of_the_host},
    {"cards out of reach go by way of the host", cards_out_of_reach_go_by_way_of_the_host},
    {"a killed owner is named", a_killed_owner_is_named},
    {"a killed reader gives back", a_killed_reader_gives_back},
    {"receives end in other ways", receives_end_in_other_ways},
    {"tensors go in parts between hosts", tensors_go_in_parts_between_hosts},
    {"places of other processes are checked", places_of_other_processes_are_checked},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1); /* several regions, and small ones */
  return weft_run_tests("CUDA sharing", tests);
}
