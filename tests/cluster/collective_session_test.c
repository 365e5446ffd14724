/* tests/cluster/collective_session_test.c - one client per worker, each running the same graph with a
 * collective.
 *
 * The death of a worker's process is told to the clients of all others, and once it
 * is there again, new sessions work. Reference: T-MWM-3, T-MWM-4.
 */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/pace.h"
#include "tests/runner.h"
#include "weft/cluster.h"

enum { N = 3 };

typedef struct cluster {
  weft_test_process_t servers[N];
  int ports[N];
  char text[256];
} cluster_t;

/* The client of one worker. */
typedef struct member {
  cluster_t *cluster;
  int rank;
  TF_Graph *graph;
  TF_Session *session;
  TF_Output sum;
  TF_Status *status;
  pthread_t thread;
  float result;
} member_t;

static void start_server(cluster_t *c, int i) {
  char index[8];
  snprintf(index, sizeof index, "%d", i);
  const char *arguments[] = {"server", "--cluster", c->text, "--job", "worker", "--task", index, NULL};
  weft_test_process_start(&c->servers[i], arguments, NULL);
}

static void describe(cluster_t *c) {
  memset(c, 0, sizeof *c);
  for (int i = 0; i < N; i++) c->ports[i] = weft_test_free_port();
  snprintf(c->text, sizeof c->text, "worker=127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", c->ports[0], c->ports[1],
           c->ports[2]);
}

static void start_servers(cluster_t *c) {
  describe(c);
  for (int i = 0; i < N; i++) start_server(c, i);
  for (int i = 0; i < N; i++) CU_ASSERT_TRUE_FATAL(weft_test_process_ready(&c->servers[i]));
}

static void kill_servers(cluster_t *c) {
  for (int i = 0; i < N; i++) weft_test_process_kill(&c->servers[i]);
}

/* sum = CollectiveReduce(rank + 1) over all workers, on its own worker's CPU. */
static void build(member_t *m) {
  float value = (float)(m->rank + 1);
  char device[64];
  snprintf(device, sizeof device, "/job:worker/replica:0/task:%d/device:CPU:0", m->rank);
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof value);
  memcpy(TF_TensorData(t), &value, sizeof value);
  TF_OperationDescription *d = TF_NewOperation(m->graph, "Const", "value");
  TF_SetDevice(d, device);
  TF_SetAttrTensor(d, "value", t, m->status);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_Output input = {TF_FinishOperation(d, m->status), 0};
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(m->status), TF_OK);
  TF_DeleteTensor(t);
  d = TF_NewOperation(m->graph, "CollectiveReduce", "sum");
  TF_SetDevice(d, device);
  TF_AddInput(d, input);
  int64_t offsets[1] = {0};
  TF_SetAttrInt(d, "group_size", N);
  TF_SetAttrInt(d, "group_key", 1);
  TF_SetAttrInt(d, "instance_key", 7);
  TF_SetAttrString(d, "merge_op", "Add", 3);
  TF_SetAttrString(d, "final_op", "Id", 2);
  TF_SetAttrIntList(d, "subdiv_offsets", offsets, 1);
  m->sum = (TF_Output){TF_FinishOperation(d, m->status), 0};
  if (TF_GetCode(m->status) != TF_OK) fprintf(stderr, "%s\n", TF_Message(m->status));
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(m->status), TF_OK);
}

static void open_member(cluster_t *c, int rank, member_t *m) {
  char own[32];
  const char *filters[1] = {own};
  *m = (member_t){.cluster = c, .rank = rank, .graph = TF_NewGraph(), .status = TF_NewStatus()};
  snprintf(own, sizeof own, "/job:worker/task:%d", rank);
  build(m);
  WEFT_Cluster *cluster = WEFT_NewCluster(c->text, m->status);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cluster);
  TF_SessionOptions *o = WEFT_NewClusterSessionOptions(cluster, "worker", rank, filters, 1, m->status);
  CU_ASSERT_PTR_NOT_NULL_FATAL(o);
  m->session = TF_NewSession(m->graph, o, m->status);
  if (TF_GetCode(m->status) != TF_OK) fprintf(stderr, "%s\n", TF_Message(m->status));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m->session);
  TF_DeleteSessionOptions(o);
  WEFT_DeleteCluster(cluster);
}

static void close_member(member_t *m) {
  TF_DeleteSession(m->session, m->status); /* its server may be gone */
  TF_DeleteGraph(m->graph);
  TF_DeleteStatus(m->status);
}

static void *run(void *arg) {
  member_t *m = arg;
  TF_Tensor *out = NULL;
  static const char collective_graph_key[] = "\x42\x02\x08\x05"; /* RunOptions.experimental */
  TF_Buffer options = {.data = collective_graph_key, .length = sizeof collective_graph_key - 1};
  TF_SessionRun(m->session, &options, NULL, NULL, 0, &m->sum, &out, 1, NULL, 0, NULL, m->status);
  m->result = out == NULL ? -1 : *(const float *)TF_TensorData(out);
  if (out != NULL) TF_DeleteTensor(out);
  return NULL;
}

static void begin(member_t *m) { CU_ASSERT_EQUAL_FATAL(pthread_create(&m->thread, NULL, run, m), 0); }
static void end(member_t *m) { pthread_join(m->thread, NULL); }

/* A step of all. */
static void check_step(member_t *members) {
  for (int i = 0; i < N; i++) begin(&members[i]);
  for (int i = 0; i < N; i++) {
    end(&members[i]);
    if (TF_GetCode(members[i].status) != TF_OK)
      fprintf(stderr, "worker %d: %s\n", i, TF_Message(members[i].status));
    CU_ASSERT_EQUAL(TF_GetCode(members[i].status), TF_OK);
    CU_ASSERT_EQUAL(members[i].result, 6.0f);
  }
}

static void independent_clients_run_one_collective_graph(void) {
  cluster_t c;
  member_t members[N];
  start_servers(&c);
  for (int i = 0; i < N; i++) open_member(&c, i, &members[i]);
  for (int step = 0; step < 5; step++) check_step(members);
  for (int i = 0; i < N; i++) close_member(&members[i]);
  kill_servers(&c);
}

static void a_killed_worker_is_told_to_all_clients_and_may_come_again(void) {
  cluster_t c;
  member_t members[N];
  start_servers(&c);
  for (int i = 0; i < N; i++) open_member(&c, i, &members[i]);
  for (int step = 0; step < 2; step++) check_step(members);
  begin(&members[0]); /* the third one never comes */
  begin(&members[1]);
  weft_test_process_kill(&c.servers[2]);
  int64_t killed = weft_clock_ns();
  for (int i = 0; i < 2; i++) {
    end(&members[i]);
    bool is_named = TF_GetCode(members[i].status) == TF_UNAVAILABLE &&
                    strstr(TF_Message(members[i].status), "/job:worker/replica:0/task:2") != NULL;
    if (!is_named)
      fprintf(stderr, "worker %d: %d %s\n", i, (int)TF_GetCode(members[i].status),
              TF_Message(members[i].status));
    CU_ASSERT_TRUE(is_named);
  }
  CU_ASSERT_TRUE(weft_test_is_within(killed, 1000));
  start_server(&c, 2);
  CU_ASSERT_TRUE(weft_test_process_ready(&c.servers[2]));
  for (int i = 0; i < N; i++) close_member(&members[i]);
  for (int i = 0; i < N; i++) open_member(&c, i, &members[i]);
  check_step(members);
  check_step(members);
  for (int i = 0; i < N; i++) close_member(&members[i]);
  kill_servers(&c);
}

/* The leader is worker 0. */
static void a_killed_leader_is_told_to_all_clients(void) {
  cluster_t c;
  member_t members[N];
  start_servers(&c);
  for (int i = 0; i < N; i++) open_member(&c, i, &members[i]);
  check_step(members);
  begin(&members[1]);
  begin(&members[2]);
  weft_test_process_kill(&c.servers[0]);
  for (int i = 1; i < N; i++) {
    end(&members[i]);
    bool is_named = TF_GetCode(members[i].status) == TF_UNAVAILABLE &&
                    strstr(TF_Message(members[i].status), "/job:worker/replica:0/task:0") != NULL;
    if (!is_named)
      fprintf(stderr, "worker %d: %d %s\n", i, (int)TF_GetCode(members[i].status),
              TF_Message(members[i].status));
    CU_ASSERT_TRUE(is_named);
  }
  start_server(&c, 0); /* a client's CloseSession waits for its server */
  CU_ASSERT_TRUE(weft_test_process_ready(&c.servers[0]));
  for (int i = 0; i < N; i++) close_member(&members[i]);
  kill_servers(&c);
}

static void workers_start_in_any_order(void) {
  cluster_t c;
  member_t members[N];
  describe(&c);
  for (int i = N; i-- > 0;) { /* the leader last; its clients wait for it in their first step */
    start_server(&c, i);
    CU_ASSERT_TRUE_FATAL(weft_test_process_ready(&c.servers[i]));
    open_member(&c, i, &members[i]);
    begin(&members[i]);
  }
  for (int i = 0; i < N; i++) {
    end(&members[i]);
    if (TF_GetCode(members[i].status) != TF_OK)
      fprintf(stderr, "worker %d: %s\n", i, TF_Message(members[i].status));
    CU_ASSERT_EQUAL(TF_GetCode(members[i].status), TF_OK);
    CU_ASSERT_EQUAL(members[i].result, 6.0f);
  }
  for (int i = 0; i < N; i++) close_member(&members[i]);
  kill_servers(&c);
}

static const CU_TestInfo tests[] = {
    {"independent clients run one collective graph", independent_clients_run_one_collective_graph},
    {"a killed worker is told to all clients, and may come again",
     a_killed_worker_is_told_to_all_clients_and_may_come_again},
    {"a killed leader is told to all clients", a_killed_leader_is_told_to_all_clients},
    {"workers start in any order", workers_start_in_any_order},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("collective_session", tests); }
