/* tests/collectives/remote/refused_read_test.c - the system forbids to read in other tasks' memory while
 * links are in use.
 *
 * A filter of system calls does so for the rest of this program: links are made before, and go on after it by
 * calls.
 */
#define _GNU_SOURCE /* syscall */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "collectives/remote/remote_transport.h"
#include "tests/runner.h"

enum { NUM_TASKS = 2, STEP = 5, BYTES = 3 * 1000 * 1000 };

typedef struct task {
  char name[64], device[96];
  weft_transport_t *transport;
} task_t;
static struct {
  task_t tasks[NUM_TASKS];
  weft_thread_pool_t *pool;
  int num_calls; /* guarded by mu */
  weft_mutex_t mu;
  weft_cond_t changed;
} cluster;

static void recv_buf(void *arg, weft_str_t task, const weft_buf_request_t *r, weft_canceller_t *canceller,
                     weft_buf_fn *fn, void *fn_arg) {
  (void)arg;
  weft_mutex_lock(&cluster.mu);
  cluster.num_calls++;
  weft_mutex_unlock(&cluster.mu);
  int i = weft_str_is(task, cluster.tasks[0].name) ? 0 : 1;
  weft_remote_transport_serve(cluster.tasks[i].transport, r, canceller, fn, fn_arg);
}
static void complete_group(void *arg, const weft_group_request_t *r, weft_canceller_t *canceller,
                           weft_group_fn *fn, void *fn_arg) {
  (void)arg;
  weft_remote_transport_join_group(cluster.tasks[0].transport, r, canceller, fn, fn_arg);
}

typedef struct outcome {
  int num_done; /* guarded by mu */
  weft_status_t *status;
} outcome_t;

static void on_done(void *arg, weft_status_t *status) {
  outcome_t *o = arg;
  weft_mutex_lock(&cluster.mu);
  o->num_done++;
  o->status = status;
  weft_cond_broadcast(&cluster.changed);
  weft_mutex_unlock(&cluster.mu);
}
static void on_group(void *arg, weft_status_t *status, weft_group_t *group) {
  weft_group_release(group);
  on_done(arg, status);
}
static void check(outcome_t *o) {
  int64_t deadline = weft_clock_ns() + INT64_C(10000000000);
  weft_mutex_lock(&cluster.mu);
  while (o->num_done == 0 && weft_cond_wait_until(&cluster.changed, &cluster.mu, deadline)) {
  }
  CU_ASSERT_EQUAL(o->num_done, 1);
  weft_mutex_unlock(&cluster.mu);
  if (o->status != NULL) fprintf(stderr, "%s\n", weft_status_message(o->status));
  CU_ASSERT_PTR_NULL(o->status);
  weft_status_free(o->status);
}

static void setup(void) {
  weft_mutex_init(&cluster.mu);
  weft_cond_init(&cluster.changed);
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 2, &cluster.pool));
  outcome_t joined[NUM_TASKS] = {{0}};
  for (int i = 0; i < NUM_TASKS; i++) {
    task_t *t = &cluster.tasks[i];
    snprintf(t->name, sizeof t->name, "/job:w/replica:0/task:%d", i);
    snprintf(t->device, sizeof t->device, "/job:w/replica:0/task:%d/device:CPU:0", i);
    weft_remote_transport_options_t o = {.task = weft_str(t->name),
                                         .incarnation = weft_random_id(),
                                         .pool = cluster.pool,
                                         .peers = {.leader = WEFT_STR("/job:w/replica:0/task:0"),
                                                   .recv_buf = recv_buf,
                                                   .complete_group = complete_group}};
    CU_ASSERT_PTR_NULL_FATAL(weft_remote_transport_create(&o, &t->transport));
  }
  for (int i = 0; i < NUM_TASKS; i++) {
    weft_group_request_t r = {.group_key = 1,
                              .group_size = NUM_TASKS,
                              .rank = -1,
                              .device_type = WEFT_STR("CPU"),
                              .device = weft_str(cluster.tasks[i].device)};
    cluster.tasks[i].transport->ops->complete_group(cluster.tasks[i].transport, &r, NULL, on_group,
                                                    &joined[i]);
  }
  for (int i = 0; i < NUM_TASKS; i++) check(&joined[i]);
}

static void teardown(void) {
  for (int i = NUM_TASKS; i-- > 0;) weft_remote_transport_stop(cluster.tasks[i].transport);
  for (int i = NUM_TASKS; i-- > 0;) cluster.tasks[i].transport->ops->destroy(cluster.tasks[i].transport);
  weft_thread_pool_destroy(cluster.pool);
  weft_cond_deinit(&cluster.changed);
  weft_mutex_deinit(&cluster.mu);
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

static void add_up(void *arg, size_t at, const void *bytes, size_t n) {
  (void)at;
  uint64_t *sum = arg;
  for (size_t i = 0; i < n; i++) *sum += ((const unsigned char *)bytes)[i];
}

/* A large payload from task 1 to task 0; consumed on the way or not. */
static void move(const char *key, const unsigned char *data, bool is_consumed) {
  outcome_t given = {0}, taken = {0};
  unsigned char *got = weft_calloc(1, BYTES);
  uint64_t sum = 0, wanted = 0;
  add_up(&wanted, 0, data, BYTES);
  weft_transport_t *from = cluster.tasks[1].transport, *to = cluster.tasks[0].transport;
  weft_fetch_t f = {.from_task = weft_str(cluster.tasks[1].name),
                    .from_device = weft_str(cluster.tasks[1].device),
                    .to_device = weft_str(cluster.tasks[0].device),
                    .step_id = STEP,
                    .key = weft_str(key),
                    .bytes = BYTES};
  f.to = is_consumed ? NULL : got;
  f.consume = is_consumed ? add_up : NULL;
  f.consume_arg = &sum;
  to->ops->fetch(to, &f, NULL, on_done, &taken);
  from->ops->offer(from, STEP, weft_str(key), weft_str(cluster.tasks[0].name),
                   weft_str(cluster.tasks[0].device), data, BYTES, false, on_done, &given);
  check(&taken);
  check(&given);
  if (is_consumed) CU_ASSERT_EQUAL(sum, wanted);
  if (!is_consumed) CU_ASSERT_EQUAL(memcmp(got, data, BYTES), 0);
  weft_free(got);
}

static void links_go_on_when_reading_is_forbidden(void) {
  setup();
  unsigned char *data = weft_malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 31);
  uint64_t word = 1, copy = 0;
  struct iovec here = {&copy, sizeof copy}, there = {&word, sizeof word};
  bool had_links = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof word;
  move("run/before", data, false);
  CU_ASSERT_TRUE(!had_links || cluster.num_calls == 0);
  if (!forbid_reading()) {
    fprintf(stderr, "SKIPPED: this system has no filters of system calls\n");
  } else {
    move("run/a", data, false);
    move("run/b", data, true);
    CU_ASSERT_TRUE(cluster.num_calls >= 2);
  }
  weft_free(data);
  teardown();
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"links go on when reading is forbidden", links_go_on_when_reading_is_forbidden},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("refused_read", tests);
}
