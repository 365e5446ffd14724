/* tests/cuda/joint_processes_test.c - collectives between GPUs of several `weft server` processes by NCCL, on
 * the fake driver, and the death of one of them.
 *
 * What is summed tells which way it went: NCCL's fake adds in double precision, the host's algorithms round
 * at each step.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/client/client_testing.h"
#include "tests/cluster/server_process.h"
#include "weft/cluster.h"

enum { MOST = 3, MOST_GPUS = 2, COUNT = 3000 };

typedef struct cluster {
  int n, gpus; /* processes, and GPUs of each */
  weft_test_process_t servers[MOST];
  char text[256];
} cluster_t;

static void start_server(cluster_t *c, int i) {
  char index[16], cards[128];
  snprintf(index, sizeof index, "%d", i);
  snprintf(cards, sizeof cards, "WEFT_FAKE_CUDA=devices=%d,first=%d,memory=64m,late_us=20,seed=%d", c->gpus,
           i * MOST_GPUS, i + 1);
  const char *arguments[] = {"server", "--cluster", c->text, "--job", "worker", "--task", index, NULL};
  weft_test_process_start(&c->servers[i], arguments, cards);
}

static void start_servers(cluster_t *c, int n, int gpus) {
  *c = (cluster_t){.n = n, .gpus = gpus};
  size_t at = (size_t)snprintf(c->text, sizeof c->text, "worker=");
  for (int i = 0; i < n; i++) {
    at += (size_t)snprintf(c->text + at, sizeof c->text - at, "%s127.0.0.1:%d", i == 0 ? "" : ",",
                           weft_test_free_port());
  }
  for (int i = 0; i < n; i++) start_server(c, i);
  for (int i = 0; i < n; i++) CU_ASSERT_TRUE_FATAL(weft_test_process_ready(&c->servers[i]));
}

static void kill_servers(cluster_t *c) {
  for (int i = 0; i < c->n; i++) weft_test_process_kill(&c->servers[i]);
}

/* ---- a step ---- */

typedef struct job {
  cluster_t *cluster;
  world_t w;
  TF_Output members[MOST * MOST_GPUS];
  int n;
} job_t;

/* 1e8, 1, -1e8, 1, ...: what is left depends on the rounding of what was added before. */
static float value_of(int rank) { return rank % 4 == 0 ? 1e8f : rank % 4 == 2 ? -1e8f : 1.0f; }
static float sum_of(int n) {
  double sum = 0;
  for (int r = 0; r < n; r++) sum += (double)value_of(r);
  return (float)sum;
}

static TF_Output member(job_t *j, int rank) {
  const int64_t dims[] = {COUNT};
  float values[COUNT];
  char name[32], device[96];
  world_t *w = &j->w;
  for (int i = 0; i < COUNT; i++) values[i] = value_of(rank);
  snprintf(name, sizeof name, "x%d", rank);
  const TF_Output x = constant(w, w->g, name, new_floats(1, dims, values));
  snprintf(name, sizeof name, "sum%d", rank);
  snprintf(device, sizeof device, "/job:worker/replica:0/task:%d/device:GPU:%d", rank / j->cluster->gpus,
           rank % j->cluster->gpus);
  TF_OperationDescription *d = TF_NewOperation(w->g, "CollectiveReduce", name);
  const int64_t offsets[1] = {0};
  TF_SetDevice(d, device);
  TF_AddInput(d, x);
  TF_SetAttrInt(d, "group_size", j->n);
  TF_SetAttrInt(d, "group_key", 1);
  TF_SetAttrInt(d, "instance_key", 7);
  TF_SetAttrString(d, "merge_op", "Add", 3);
  TF_SetAttrString(d, "final_op", "Id", 2);
  TF_SetAttrIntList(d, "subdiv_offsets", offsets, 1);
  const TF_Output sum = {TF_FinishOperation(d, w->s), 0};
  ASSERT_OK(w);
  return sum;
}

static void open_job(job_t *j, cluster_t *c) {
  memset(j, 0, sizeof *j);
  j->cluster = c;
  j->n = c->n * c->gpus;
  world_open(&j->w);
  for (int r = 0; r < j->n; r++) j->members[r] = member(j, r);
  WEFT_Cluster *cluster = WEFT_NewCluster(c->text, j->w.s);
  ASSERT_OK(&j->w);
  TF_SessionOptions *o = WEFT_NewClusterSessionOptions(cluster, "worker", 0, NULL, 0, j->w.s);
  ASSERT_OK(&j->w);
  j->w.session = TF_NewSession(j->w.g, o, j->w.s);
  ASSERT_OK(&j->w);
  TF_DeleteSessionOptions(o);
  WEFT_DeleteCluster(cluster);
}

/* Ends the session at a master that may be gone. */
static void close_job(job_t *j) {
  TF_DeleteSession(j->w.session, j->w.s);
  j->w.session = NULL;
  world_close(&j->w);
}

/* False: the step failed. What it gives must be right. */
static bool step(job_t *j) {
  TF_Tensor *out[MOST * MOST_GPUS] = {NULL};
  run(&j->w, NULL, NULL, 0, j->members, out, j->n);
  if (TF_GetCode(j->w.s) != TF_OK) return false;
  for (int r = 0; r < j->n; r++) {
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += float_at(out[r], i) != sum_of(j->n);
    if (wrong > 0) fprintf(stderr, "rank %d: %d wrong, such as %g\n", r, wrong, (double)float_at(out[r], 0));
    CU_ASSERT_EQUAL(wrong, 0);
    TF_DeleteTensor(out[r]);
  }
  return true;
}

static void works(job_t *j) {
  const bool ok = step(j);
  if (!ok) fprintf(stderr, "%s\n", TF_Message(j->w.s));
  CU_ASSERT_TRUE(ok);
}

/* ---- tests ---- */

static void processes_sum_on_their_cards(void) {
  static const int shapes[][2] = {{2, 1}, {2, 2}, {3, 1}, {3, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    cluster_t c;
    job_t j;
    start_servers(&c, shapes[i][0], shapes[i][1]);
    open_job(&j, &c);
    for (int k = 0; k < 5; k++) works(&j);
    close_job(&j);
    kill_servers(&c);
  }
}

static void *run_until_it_fails(void *arg) {
  job_t *j = arg;
  while (step(j)) {
  }
  return NULL;
}

/* A worker dies while steps run; the step's failure names it, and a new session works when it is back. */
static void a_killed_process_ends_the_step(void) {
  cluster_t c;
  job_t j;
  pthread_t thread;
  start_servers(&c, 3, 1);
  for (int round = 0; round < 2; round++) {
    open_job(&j, &c);
    works(&j);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_until_it_fails, &j), 0);
    weft_test_process_kill(&c.servers[1 + round]);
    pthread_join(thread, NULL);
    char task[64];
    snprintf(task, sizeof task, "/job:worker/replica:0/task:%d", 1 + round);
    if (TF_GetCode(j.w.s) != TF_UNAVAILABLE) fprintf(stderr, "%s\n", TF_Message(j.w.s));
    ASSERT_FAILS(&j.w, TF_UNAVAILABLE, task);
    close_job(&j);
    start_server(&c, 1 + round);
    CU_ASSERT_TRUE_FATAL(weft_test_process_ready(&c.servers[1 + round]));
  }
  open_job(&j, &c);
  for (int k = 0; k < 3; k++) works(&j);
  close_job(&j);
  kill_servers(&c);
}

static const CU_TestInfo tests[] = {
    {"processes sum on their cards", processes_sum_on_their_cards},
    {"a killed process ends the step", a_killed_process_ends_the_step},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 1);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 1);
  setenv("WEFT_NCCL", "tests/cuda/fake/libnccl_fake.so", 1);
  setenv("WEFT_NVRTC", "none", 1);
  return weft_run_tests("CUDA joint processes", tests);
}
