/* tests/client/server_test.c - servers in this process, and sessions that reach them over gRPC. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/client/client_testing.h"
#include "tests/pace.h"
#include "tests/ports.h"
#include "tests/rpc/tsan.h"
#include "weft/cluster.h"
#include "weft/statistics.h"

static const TF_Output nothing = {NULL, 0};

/* ServerDef: one task of job "worker" on a port that the server chooses. */
static const char server_def[] =
    "\x0a\x1b\x0a\x19\x0a\x06"
    "worker"
    "\x12\x0f\x08\x00\x12\x0b"
    "127.0.0.1:0"
    "\x12\x06"
    "worker"
    "\x2a\x04"
    "grpc";

typedef struct host {
  world_t w;
  TF_Server *server;
} host_t;

static void serve(host_t *h) {
  world_open(&h->w);
  h->server = TF_NewServer(server_def, sizeof server_def - 1, h->w.s);
  ASSERT_OK(&h->w);
  CU_ASSERT_STRING_EQUAL(TF_ServerTarget(h->server), ""); /* the port is still to be found */
  TF_ServerStart(h->server, h->w.s);
  ASSERT_OK(&h->w);
  h->w.target = TF_ServerTarget(h->server);
  CU_ASSERT_EQUAL(strncmp(h->w.target, "grpc://", 7), 0);
}

static void dismiss(host_t *h) {
  if (h->w.session != NULL) TF_DeleteSession(h->w.session, h->w.s);
  h->w.session = NULL;
  TF_ServerStop(h->server, h->w.s);
  ASSERT_OK(&h->w);
  TF_ServerJoin(h->server, h->w.s);
  TF_DeleteServer(h->server);
  world_close(&h->w);
}

static void a_session_runs_on_a_server(void) {
  host_t h;
  serve(&h);
  world_t *w = &h.w;
  TF_Output x = placeholder(w, w->g, "x", TF_FLOAT), y = unary(w, w->g, "Neg", "y", x);
  TF_Tensor *in = new_float(4), *t = run1(w, x, in, y);
  ASSERT_OK(w);
  CU_ASSERT_EQUAL(float_at(t, 0), -4);
  TF_DeleteTensor(t);
  TF_Output z = unary(w, w->g, "Square", "z", y); /* the graph grows */
  t = run1(w, x, in, z);
  ASSERT_OK(w);
  CU_ASSERT_EQUAL(float_at(t, 0), 16);
  TF_DeleteTensor(t);
  TF_DeleteTensor(in);
  TF_Output s = placeholder(w, w->g, "s", TF_STRING), same = unary(w, w->g, "Identity", "same", s);
  in = new_string("over the wire, longer than in place");
  t = run1(w, s, in, same);
  ASSERT_OK(w);
  CU_ASSERT_EQUAL(TF_StringGetSize(TF_TensorData(t)), 35);
  TF_DeleteTensor(t);
  TF_DeleteTensor(in);
  dismiss(&h);
}

static void failures_come_back_with_their_task(void) {
  host_t h;
  serve(&h);
  world_t *w = &h.w;
  TF_Output x = placeholder(w, w->g, "x", TF_FLOAT), y = unary(w, w->g, "Neg", "y", x);
  CU_ASSERT_PTR_NULL(run1(w, nothing, NULL, y));
  ASSERT_FAILS(w, TF_INVALID_ARGUMENT, "From /job:worker/replica:0/task:0:\n");
  ASSERT_FAILS(w, TF_INVALID_ARGUMENT, "[[{{node x}}]]");
  TF_DeviceList *l = TF_SessionListDevices(w->session, w->s);
  ASSERT_OK(w);
  CU_ASSERT_STRING_EQUAL(TF_DeviceListName(l, 0, w->s), "/job:worker/replica:0/task:0/device:CPU:0");
  TF_DeleteDeviceList(l);
  TF_CloseSession(w->session, w->s);
  ASSERT_OK(w);
  CU_ASSERT_PTR_NULL(run1(w, nothing, NULL, y));
  ASSERT_FAILS(w, TF_INVALID_ARGUMENT, "A session is not created yet....");
  dismiss(&h);
}

static void variables_outlive_sessions_until_a_reset(void) {
  host_t h;
  serve(&h);
  world_t *w = &h.w;
  TF_OperationDescription *d = TF_NewOperation(w->g, "VariableV2", "v");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", NULL, 0);
  TF_Output v = {TF_FinishOperation(d, w->s), 0};
  ASSERT_OK(w);
  TF_Output init = binary(w, w->g, "Assign", "init", v, constant(w, w->g, "seven", new_float(7)));
  run_target(w, init.oper);
  ASSERT_OK(w);
  TF_DeleteSession(w->session, w->s);
  w->session = NULL;
  TF_Tensor *t = run1(w, nothing, NULL, v);
  ASSERT_OK(w);
  CU_ASSERT_EQUAL(float_at(t, 0), 7);
  TF_DeleteTensor(t);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetTarget(o, w->target);
  TF_Reset(o, NULL, 0, w->s);
  ASSERT_OK(w);
  TF_DeleteSessionOptions(o);
  CU_ASSERT_PTR_NULL(run1(w, nothing, NULL, v));
  CU_ASSERT_EQUAL(TF_GetCode(w->s), TF_ABORTED); /* a reset closes all sessions */
  TF_DeleteSession(w->session, w->s);
  w->session = NULL;
  CU_ASSERT_PTR_NULL(run1(w, nothing, NULL, v));
  ASSERT_FAILS(w, TF_FAILED_PRECONDITION, "uninitialized value v");
  dismiss(&h);
}

static void a_step_in_pieces_runs_on_a_server(void) {
  host_t h;
  serve(&h);
  world_t *w = &h.w;
  TF_Output x = placeholder(w, w->g, "x", TF_INT32), y = unary(w, w->g, "Neg", "y", x);
  TF_Tensor *in = new_int(4), *t = run1(w, x, in, y);
  ASSERT_OK(w);
  TF_DeleteTensor(t);
  const char *handle = NULL;
  TF_SessionPRunSetup(w->session, &x, 1, &y, 1, NULL, 0, &handle, w->s);
  ASSERT_OK(w);
  TF_SessionPRun(w->session, handle, &x, &in, 1, &y, &t, 1, NULL, 0, w->s);
  ASSERT_OK(w);
  CU_ASSERT_EQUAL(int_at(t, 0), -4);
  TF_DeleteTensor(t);
  TF_DeleteTensor(in);
  TF_DeletePRunHandle(handle);
  dismiss(&h);
}

static void bad_definitions_are_refused(void) {
  TF_Status *s = TF_NewStatus();
  CU_ASSERT_PTR_NULL(TF_NewServer("\xff", 1, s));
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "Could not parse provided bytes into a ServerDef protocol buffer");
  CU_ASSERT_PTR_NULL(TF_NewServer("", 0, s));
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  TF_DeleteStatus(s);
}

/* ---- two tasks ---- */

static void put_field(char *to, size_t *n, char tag, const char *bytes,
                      size_t length) { /* lengths fit in one byte */
  to[(*n)++] = tag;
  to[(*n)++] = (char)length;
  memcpy(to + *n, bytes, length);
  *n += length;
}

/* ServerDef of task `index` of two of job "worker". */
static size_t two_tasks(const int ports[2], int index, char def[200]) {
  char job[100], cluster[120];
  size_t job_length = 0, cluster_length = 0, n = 0;
  put_field(job, &job_length, 0x0a, "worker", 6);
  for (int i = 0; i < 2; i++) {
    char address[32], task[48];
    size_t length = 0;
    snprintf(address, sizeof address, "127.0.0.1:%d", ports[i]);
    task[length++] = 0x08;
    task[length++] = (char)i;
    put_field(task, &length, 0x12, address, strlen(address));
    put_field(job, &job_length, 0x12, task, length);
  }
  put_field(cluster, &cluster_length, 0x0a, job, job_length);
  put_field(def, &n, 0x0a, cluster, cluster_length);
  put_field(def, &n, 0x12, "worker", 6);
  def[n++] = 0x18;
  def[n++] = (char)index;
  put_field(def, &n, 0x2a, "grpc", 4);
  return n;
}

static int64_t tensor_bytes(TF_Server *server, int64_t *messages) {
  WEFT_TransportCount counts[8];
  int64_t bytes = *messages = 0;
  int n = WEFT_ServerTransportCounters(server, counts, 8);
  for (int i = 0; i < n && i < 8; i++) {
    if (strcmp(counts[i].traffic, "tensor") != 0) continue;
    CU_ASSERT_STRING_EQUAL(counts[i].source, "/job:worker/replica:0/task:1");
    CU_ASSERT_STRING_EQUAL(counts[i].destination, "/job:worker/replica:0/task:0");
    *messages += counts[i].messages;
    bytes += counts[i].bytes;
  }
  return bytes;
}

/* task 1: 1000 floats, or 0 in all; task 0 wants them. */
static void tensors_that_cross_are_counted(void) {
  world_t w;
  TF_Server *servers[2];
  char def[200];
  int ports[2] = {weft_test_free_port(), weft_test_free_port()};
  int64_t messages;
  world_open(&w);
  for (int i = 0; i < 2; i++) {
    servers[i] = TF_NewServer(def, two_tasks(ports, i, def), w.s);
    ASSERT_OK(&w);
    TF_ServerStart(servers[i], w.s);
    ASSERT_OK(&w);
  }
  w.target = TF_ServerTarget(servers[0]);
  static const float zeros[1000];
  static const int64_t dims[1] = {1000};
  TF_Output c = constant(&w, w.g, "c", new_floats(1, dims, zeros));
  TF_OperationDescription *d = TF_NewOperation(w.g, "PlaceholderWithDefault", "there"); /* is not folded */
  TF_SetDevice(d, "/job:worker/task:1");
  TF_AddInput(d, c);
  TF_SetAttrShape(d, "shape", dims, 1);
  TF_Output there = {TF_FinishOperation(d, w.s), 0};
  TF_SetRequestedDevice(w.g, c.oper, "/job:worker/task:1");
  d = TF_NewOperation(w.g, "Abs", "here");
  TF_SetDevice(d, "/job:worker/task:0");
  TF_AddInput(d, there);
  TF_Output here = {TF_FinishOperation(d, w.s), 0};
  for (int step = 1; step <= 3; step++) {
    TF_DeleteTensor(run1(&w, nothing, NULL, here));
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(tensor_bytes(servers[0], &messages), 4000 * step);
    CU_ASSERT_EQUAL(messages, step);
  }
  CU_ASSERT_EQUAL(tensor_bytes(servers[1], &messages), 0); /* nothing went the other way */
  WEFT_ResetServerTransportCounters(servers[0]);
  CU_ASSERT_EQUAL(tensor_bytes(servers[0], &messages), 0);
  TF_DeleteSession(w.session, w.s);
  w.session = NULL;
  for (int i = 0; i < 2; i++) {
    TF_ServerStop(servers[i], w.s);
    TF_ServerJoin(servers[i], w.s);
    TF_DeleteServer(servers[i]);
  }
  world_close(&w);
}

/* Its master was there and has gone. */
static void a_session_need_not_wait_for_its_master(void) {
  world_t w;
  char target[64];
  world_open(&w);
  snprintf(target, sizeof target, "grpc://127.0.0.1:%d", weft_test_free_port());
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetTarget(o, target);
  WEFT_SetWaitForMaster(o, 0);
  w.session = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NULL(TF_SessionListDevices(w.session, w.s));
  ASSERT_FAILS(&w, TF_UNAVAILABLE, "cannot connect to");
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

/* A host accepts connections for a server that is stopped: gRPC would wait 20 s for a greeting. */
static void a_server_that_never_greets_is_given_up(void) {
  world_t w;
  char target[64];
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  world_open(&w);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  CU_ASSERT_EQUAL_FATAL(listen(fd, 8), 0);
  CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&at, &size), 0);
  snprintf(target, sizeof target, "grpc://127.0.0.1:%d", ntohs(at.sin_port));
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetTarget(o, target);
  WEFT_SetWaitForMaster(o, 0);
  w.session = TF_NewSession(w.g, o, w.s);
  int64_t began = weft_clock_ns();
  CU_ASSERT_PTR_NULL(TF_SessionListDevices(w.session, w.s));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_UNAVAILABLE);
  CU_ASSERT_TRUE(weft_test_is_within(began, 10000));
  TF_DeleteSessionOptions(o);
  close(fd);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"a server that never greets is given up", a_server_that_never_greets_is_given_up},
    {"a session need not wait for its master", a_session_need_not_wait_for_its_master},
    {"a session runs on a server", a_session_runs_on_a_server},
    {"failures come back with their task", failures_come_back_with_their_task},
    {"variables outlive sessions until a reset", variables_outlive_sessions_until_a_reset},
    {"a step in pieces runs on a server", a_step_in_pieces_runs_on_a_server},
    {"bad definitions are refused", bad_definitions_are_refused},
    {"tensors that cross are counted", tensors_that_cross_are_counted},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/server", tests); }
