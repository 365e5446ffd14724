/* tests/services/host_loan_test.c - large tensors of the host's memory between two tasks of a host: they come
 * in the room of their link; the receiver reads larger ones where they lie, or gets them over the link where
 * the system forbids that. Both ends are in one process.
 */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/process_memory.h"
#include "rpc/local_room.h"
#include "services/remote_worker.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

typedef struct host_ends {
  weft_worker_client_t worker; /* knows recv_tensor only */
  weft_tensor_t *tensor;       /* the owner's */
  weft_rpc_client_t *rpc;
  weft_rpc_server_t *server;
  weft_worker_service_t *service;
  weft_rpc_channel_t *channel;
  weft_worker_client_t *remote;
  weft_mutex_t mu;
  weft_cond_t changed;
  int num_answers; /* guarded by mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *got;
} host_ends_t;

static void give(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                 weft_recv_fn *fn, void *arg) {
  (void)step_id, (void)key, (void)c;
  host_ends_t *e = (host_ends_t *)(void *)w;
  weft_mutex_lock(&e->mu);
  weft_tensor_t *t = weft_tensor_retain(e->tensor);
  weft_mutex_unlock(&e->mu);
  fn(arg, NULL, t, false);
}
static void destroy(weft_worker_client_t *w) { (void)w; }

static void setup(host_ends_t *e) {
  static const weft_worker_client_ops_t ops = {.recv_tensor = give, .destroy = destroy};
  memset(e, 0, sizeof *e);
  e->worker.ops = &ops;
  atomic_init(&e->worker.refs, 1);
  weft_mutex_init(&e->mu);
  weft_cond_init(&e->changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &e->rpc));
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .client = e->rpc};
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_create(&o, &e->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_worker_service_create(&e->worker, e->server, &e->service));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_server_start(e->server));
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", weft_rpc_server_port(e->server));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(e->rpc, weft_str(target), &e->channel));
  CU_ASSERT_PTR_NULL_FATAL(
      weft_remote_worker_client_create(e->channel, WEFT_STR("/job:worker/replica:0/task:3"), &e->remote));
}

static void teardown(host_ends_t *e) {
  weft_worker_client_release(e->remote);
  weft_rpc_channel_release(e->channel);
  weft_rpc_server_destroy(e->server);
  weft_worker_service_destroy(e->service);
  weft_rpc_client_destroy(e->rpc);
  weft_cond_deinit(&e->changed);
  weft_mutex_deinit(&e->mu);
}

static void on_recv(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  host_ends_t *e = arg;
  (void)is_dead;
  weft_mutex_lock(&e->mu);
  e->num_answers++;
  e->status = status;
  e->got = tensor;
  weft_cond_broadcast(&e->changed);
  weft_mutex_unlock(&e->mu);
}

/* Receives the owner's tensor, which the caller releases. */
static weft_tensor_t *receive(host_ends_t *e) {
  weft_mutex_lock(&e->mu);
  const int before = e->num_answers;
  weft_mutex_unlock(&e->mu);
  e->remote->ops->recv_tensor(e->remote, 8, weft_key(WEFT_STR("key")), NULL, on_recv, e);
  weft_mutex_lock(&e->mu);
  while (e->num_answers == before) weft_cond_wait(&e->changed, &e->mu);
  weft_mutex_unlock(&e->mu);
  CU_ASSERT_PTR_NULL_FATAL(e->status);
  CU_ASSERT_EQUAL_FATAL(e->got->bytes, e->tensor->bytes);
  CU_ASSERT_EQUAL(e->got->dtype, e->tensor->dtype);
  CU_ASSERT_EQUAL(memcmp(e->got->data, e->tensor->data, e->tensor->bytes), 0);
  return e->got;
}

static void make(host_ends_t *e, weft_dtype_t dtype, int64_t count) {
  const weft_shape_t shape = weft_shape_vector(count);
  weft_mutex_lock(&e->mu); /* the owner's threads see what is new */
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &e->tensor));
  for (size_t i = 0; i < e->tensor->bytes; i++)
    ((unsigned char *)e->tensor->data)[i] = (unsigned char)(i / 255 + i);
  weft_mutex_unlock(&e->mu);
}

/* A tensor of that type and length, received `times` times. */
static void move(host_ends_t *e, weft_dtype_t dtype, int64_t count, int times) {
  make(e, dtype, count);
  for (int i = 0; i < times; i++) {
    weft_tensor_t *got = receive(e);
    /* What does not lie in the room is the receiver's own. */
    if (got->bytes > WEFT_LOCAL_ROOM_MOST) CU_ASSERT_TRUE(weft_tensor_is_exclusive(got));
    weft_tensor_release(got);
  }
}

static void tensors_of_all_sizes_arrive_whole(host_ends_t *e) {
  static const int64_t counts[] = {32767,  32768,  65537,         262143,        262144,
                                   262145, 524289, (1 << 20) + 1, (16 << 20) + 3};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    move(e, WEFT_U8, counts[i], 4);
    weft_tensor_release(e->tensor);
    move(e, WEFT_F64, counts[i] / 8, 2);
    weft_tensor_release(e->tensor);
  }
}

/* Until the receiver gives a tensor back it is held: the service's end waits for that, or breaks the link. */
static void lent_tensors_are_given_back(void) {
  host_ends_t e;
  setup(&e);
  tensors_of_all_sizes_arrive_whole(&e);
  move(&e, WEFT_F32, 1 << 20, 20);
  teardown(&e);
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(e.tensor));
  weft_tensor_release(e.tensor);
}

/* Tensors that the receiver keeps take up the room: the next ones come in other ways, and in the room again
 * when there are places. What was received stays as it is behind the end of both ends. */
static void a_full_room_holds_nothing_up(void) {
  enum { COUNT = WEFT_LOCAL_ROOM_MOST / 4, KEPT = WEFT_LOCAL_ROOM_BYTES / WEFT_LOCAL_ROOM_MOST + 4 };
  host_ends_t e;
  setup(&e);
  make(&e, WEFT_F32, COUNT);
  for (int i = 0; i < 4; i++) weft_tensor_release(receive(&e)); /* the link is there */
  weft_tensor_t *kept[KEPT];
  int num_own = 0;
  for (int i = 0; i < KEPT; i++) {
    kept[i] = receive(&e);
    num_own += weft_tensor_is_exclusive(kept[i]);
  }
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(kept[0]));
  CU_ASSERT_EQUAL(num_own, 5); /* the first unit has no place: one less fits */
  for (int i = 0; i < KEPT; i += 2) weft_tensor_release(kept[i]);
  weft_tensor_t *again = receive(&e);
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(again));
  weft_tensor_release(again);
  teardown(&e);
  for (int i = 1; i < KEPT; i += 2) {
    CU_ASSERT_EQUAL(memcmp(kept[i]->data, e.tensor->data, e.tensor->bytes), 0);
    weft_tensor_release(kept[i]);
  }
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(e.tensor));
  weft_tensor_release(e.tensor);
}

/* From now on the call fails with EPERM, on all threads. */
static bool forbid_reading(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* The last test: it cannot be allowed again. */
static void where_reading_is_forbidden_tensors_come_over_the_link(void) {
  host_ends_t e;
  setup(&e);
  move(&e, WEFT_F32, 1 << 20, 20);
  weft_tensor_release(e.tensor);
  if (forbid_reading()) {
    weft_status_t *s = weft_process_memory_read(getpid(), weft_process_memory_own(), 0, NULL, 0);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_PERMISSION_DENIED);
    weft_status_free(s);
    tensors_of_all_sizes_arrive_whole(&e);
  } else {
    fprintf(stderr, "SKIPPED: this system has no filters of system calls\n");
  }
  move(&e, WEFT_F32, 1 << 20, 1);
  teardown(&e);
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(e.tensor));
  weft_tensor_release(e.tensor);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"lent tensors are given back", lent_tensors_are_given_back},
      {"a full room holds nothing up", a_full_room_holds_nothing_up},
      {"where reading is forbidden tensors come over the link",
       where_reading_is_forbidden_tensors_come_over_the_link},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("host_loan", tests);
}
