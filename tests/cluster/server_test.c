/* Real servers: how they start and stop, what becomes of a cluster when a process dies, and bytes that are no
 * gRPC. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
#define QUEUE_TYPES "attr{key:\"component_types\" value{list{type:DT_FLOAT}}} "
#define X NODE("x", "Placeholder", "", "", "attr{key:\"dtype\" value{type:DT_FLOAT}} ")

/* y needs the ps, z the second worker; "stuck" waits on the ps for ever */
static const char over_all[] = X NODE("y", "Neg", IN("x"), "/job:ps", T)
    NODE("z", "Neg", IN("y"), "/job:worker/task:1", T) NODE("q", "FIFOQueueV2", "", "/job:ps", QUEUE_TYPES)
        NODE("deq", "QueueDequeueV2", IN("q"), "/job:ps", QUEUE_TYPES)
            NODE("stuck", "Neg", IN("deq"), "/job:worker/task:1", T);
static const char alone[] = X NODE("y", "Neg", IN("x"), "", T) NODE("q", "FIFOQueueV2", "", "", QUEUE_TYPES)
    NODE("stuck", "QueueDequeueV2", IN("q"), "", QUEUE_TYPES);
enum { DEADLINE_MS = 60000, END_MS = 30000 };

static void start_alone(weft_test_process_t *p, const char *address) {
  char cluster[128];
  snprintf(cluster, sizeof cluster, "worker=%s", address);
  const char *const arguments[] = {"server", "--cluster", cluster, "--job", "worker", "--task", "0", NULL};
  weft_test_process_start(p, arguments, NULL);
}

/* Does a server answer? */
static void serves(const char *target) {
  weft_test_client_t c;
  weft_test_session_t s;
  double out = 0;
  if (!weft_test_client_open(&c, target, DEADLINE_MS)) return;
  weft_status_t *status = weft_test_open(c.master, alone, "", &s);
  if (status == NULL)
    status = weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"y:0"}}, &out);
  weft_test_expect(status, WEFT_OK, "");
  CU_ASSERT_EQUAL(out, -2);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_client_close(&c);
}

/* ---- start and stop ---- */

static void a_server_says_one_line_and_stops_on_sigterm(void) {
  weft_test_process_t p;
  char out[512], err[8192];
  start_alone(&p, "127.0.0.1:0");
  if (weft_test_process_ready(&p)) serves(p.target);
  CU_ASSERT_TRUE(strncmp(p.target, "grpc://127.0.0.1:", 17) == 0 && atoi(p.target + 17) > 0);
  kill(p.pid, SIGTERM);
  CU_ASSERT_EQUAL(weft_test_process_wait(&p, END_MS, out, err, sizeof out), 0);
  CU_ASSERT_STRING_EQUAL(out, ""); /* nothing behind the ready line */
  start_alone(&p, "127.0.0.1:0");
  (void)weft_test_process_ready(&p);
  kill(p.pid, SIGINT);
  CU_ASSERT_EQUAL(weft_test_process_wait(&p, END_MS, NULL, NULL, 0), 0);
}

static void a_server_restarts_on_its_port_at_once(void) {
  weft_test_process_t p;
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%d", weft_test_free_port());
  for (int i = 0; i < 4; i++) {
    start_alone(&p, address);
    if (weft_test_process_ready(&p)) serves(p.target);
    CU_ASSERT_STRING_EQUAL(p.target + 7, address);
    if (i % 2 == 0) CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
    if (i % 2 == 1) weft_test_process_kill(&p); /* no less after a crash */
  }
}

static void a_port_in_use_is_an_error(void) {
  weft_test_process_t p, second;
  char err[1024];
  start_alone(&p, "127.0.0.1:0");
  if (weft_test_process_ready(&p)) {
    start_alone(&second, p.target + 7);
    CU_ASSERT_EQUAL(weft_test_process_wait(&second, END_MS, NULL, err, sizeof err), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err, p.target + 7 + strlen("127.0.0.1:")));
    serves(p.target);
  }
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
}

static void tf_config_says_the_same_as_options(void) {
  weft_test_process_t p;
  const char *const none[] = {"server", NULL};
  weft_test_process_start(
      &p, none,
      "TF_CONFIG={\"cluster\":{\"worker\":[\"127.0.0.1:0\"]},\"task\":{\"type\":\"worker\",\"index\":0}}");
  if (weft_test_process_ready(&p)) serves(p.target);
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
}

/* What a server says while it runs with these arguments. */
static void run_and_stop(const char *const *arguments, char *err, size_t size) {
  weft_test_process_t p;
  weft_test_process_start(&p, arguments, NULL);
  CU_ASSERT_TRUE(weft_test_process_ready(&p));
  kill(p.pid, SIGTERM);
  CU_ASSERT_EQUAL(weft_test_process_wait(&p, END_MS, NULL, err, size), 0);
}

static void a_server_that_others_cannot_reach_says_so(void) {
  static const struct {
    const char *arguments[10];
    bool is_warned;
  } cases[] = {
      {{"server", "--cluster", "ps=some.host:0;worker=other.host:0", "--job", "worker"}, true},
      {{"server", "--cluster", "ps=some.host:0;worker=other.host:0", "--job", "worker", "--host",
        "127.0.0.1"},
       false},
      {{"server", "--cluster", "worker=other.host:0", "--job", "worker"}, false},
      {{"server", "--cluster", "ps=127.0.0.1:0;worker=127.0.0.1:0", "--job", "worker"}, false},
      {{"server", "--cluster", "ps=localhost:0;worker=localhost:0", "--job", "worker"}, false},
      {{"server", "--cluster", "ps=[::1]:0;worker=[::1]:0", "--job", "worker"}, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char err[4096] = "";
    run_and_stop(cases[i].arguments, err, sizeof err);
    bool is_warned =
        strstr(err,
               "the cluster has this task at other.host:0: if other hosts have to reach it, give "
               "--host other.host or 0.0.0.0") != NULL;
    CU_ASSERT_EQUAL(is_warned, cases[i].is_warned);
    if (is_warned != cases[i].is_warned) printf("\n    case %zu: %s\n", i, err);
    CU_ASSERT_TRUE(is_warned || strstr(err, "--host") == NULL);
  }
}

static void wrong_command_lines_end_with_one_line_that_names_the_culprit(void) {
  static const struct {
    const char *arguments[10], *environment, *text;
  } cases[] = {
      {{"server"}, "TF_CONFIG=", "TF_CONFIG"},
      {{"server"}, "TF_CONFIG={nonsense", "TF_CONFIG"},
      {{"server"},
       "TF_CONFIG={\"cluster\":{\"worker\":[\"nowhere\"]},\"task\":{\"type\":\"worker\",\"index\":0}}",
       "nowhere"},
      {{"server"},
       "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}",
       "ps"},
      {{"server", "--cluster", "worker=127.0.0.1:0"}, NULL, "--job"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "ps"}, NULL, "ps"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", "--task", "3"}, NULL, "3"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", "--task", "x"}, NULL, "--task"},
      {{"server", "--cluster", "worker", "--job", "worker"}, NULL, "'worker'"},
      {{"server", "--cluster", "worker=host", "--job", "worker"}, NULL, "host"},
      {{"server", "--cluster", "worker=a:99999", "--job", "worker"}, NULL, "99999"},
      {{"server", "--cluster", "1x=a:1", "--job", "worker"}, NULL, "1x"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", "--port", "70000"}, NULL, "70000"},
      {{"server", "--slurm"}, "SLURM_STEP_NODELIST=", "start the servers with srun"},
      {{"server", "--mpi"}, "OMPI_COMM_WORLD_RANK=", "start the servers with mpirun"},
      {{"server", "--kubernetes"}, "WEFT_JOBS=", "WEFT_JOBS"},
      {{"server", "--slurm", "--mpi"}, NULL, "one of --slurm, --mpi and --kubernetes"},
      {{"server", "--mpi", "--cluster", "worker=127.0.0.1:0"}, NULL, "--cluster"},
      {{"server", "--kubernetes", "--job", "worker"}, NULL, "--job"},
      {{"server", "--slurm", "--task", "0"}, NULL, "--task"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", "--jobs", "worker=1"},
       NULL,
       "--jobs"},
      {{"server", "--port-base", "0"}, NULL, "--port-base"},
      {{"server", "--cluster", "worker=127.0.0.1:0", "--job", "ps", "--print-config"}, NULL, "'ps'"},
      {{"server", "--nonsense"}, NULL, "--nonsense"},
      {{"nonsense"}, NULL, "nonsense"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_test_process_t p;
    char out[512], err[2048];
    weft_test_process_start(&p, cases[i].arguments, cases[i].environment);
    int code =
        weft_test_process_wait(&p, END_MS, out, err, sizeof err < sizeof out ? sizeof err : sizeof out);
    CU_ASSERT_TRUE(code == 1 || code == 2);
    CU_ASSERT_STRING_EQUAL(out, "");
    CU_ASSERT_PTR_NOT_NULL(strstr(err, cases[i].text));
    size_t lines = 0;
    for (const char *c = err; *c != '\0'; c++) lines += *c == '\n';
    CU_ASSERT_EQUAL(lines, 1);
    if (strstr(err, cases[i].text) == NULL || lines != 1)
      printf("\n    case %zu: exit %d: %s\n", i, code, err);
  }
}

/* ---- steps in other threads ---- */

typedef struct blocked {
  weft_test_session_t session;
  weft_test_step_t step;
  weft_test_run_t run;
  pthread_t thread;
} blocked_t;

static void *run_blocked(void *arg) {
  blocked_t *b = arg;
  weft_test_start(&b->session, &b->run, &b->step); /* a remote master's call waits on its caller's thread */
  return NULL;
}

static void start_blocked(blocked_t *b, weft_test_session_t s, const char *fetch) {
  *b = (blocked_t){.session = s, .run = {.fetches = {fetch}}};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&b->thread, NULL, run_blocked, b), 0);
}

static weft_status_t *end_blocked(blocked_t *b) {
  pthread_join(b->thread, NULL);
  weft_status_t *s = weft_test_step_wait(&b->step);
  weft_test_step_deinit(&b->step);
  return s;
}

/* Waits, by asking, until the queue's dequeue is the only thing a step can wait for: another step goes all
 * the way. */
static void let_it_begin(weft_test_session_t *s) {
  const char *fetch = "y:0";
  for (int i = 0; i < 20; i++) {
    weft_test_expect(
        weft_test_run(s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {1}, .fetches = {fetch}}, NULL),
        WEFT_OK, "");
  }
}

static void sigterm_ends_a_server_with_a_blocked_step(void) {
  weft_test_process_t p;
  weft_test_client_t c;
  blocked_t b;
  start_alone(&p, "127.0.0.1:0");
  if (!weft_test_process_ready(&p) || !weft_test_client_open(&c, p.target, DEADLINE_MS)) return;
  weft_test_session_t s = weft_test_opened(c.master, alone);
  start_blocked(&b, s, "stuck:0");
  let_it_begin(&s);
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
  weft_status_t *status = end_blocked(&b);
  CU_ASSERT_NOT_EQUAL(weft_status_code(status), WEFT_OK);
  weft_status_free(status);
  weft_test_client_close(&c);
}

/* ---- a cluster ---- */

static void cluster_serves(weft_test_servers_t *servers, int master) {
  weft_test_client_t c;
  double out = 0;
  if (!weft_test_client_open(&c, servers->processes[master].target, DEADLINE_MS)) return;
  weft_test_session_t s = weft_test_opened(c.master, over_all);
  weft_test_expect(
      weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0"}}, &out),
      WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 2);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_client_close(&c);
}

static void a_worker_that_is_killed_fails_its_steps_and_comes_back(void) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  cluster_serves(&servers, 1);
  if (weft_test_client_open(&c, servers.processes[1].target, DEADLINE_MS)) {
    weft_test_session_t s = weft_test_opened(c.master, over_all);
    blocked_t b;
    start_blocked(&b, s, "stuck:0");
    let_it_begin(&s);
    weft_test_process_kill(&servers.processes[2]);
    weft_status_t *status = end_blocked(&b);
    weft_code_t code = weft_status_code(status);
    CU_ASSERT_TRUE(code == WEFT_UNAVAILABLE || code == WEFT_ABORTED);
    weft_status_free(status);
    status = weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0"}}, NULL);
    CU_ASSERT_TRUE(weft_status_code(status) == WEFT_UNAVAILABLE || weft_status_code(status) == WEFT_ABORTED);
    weft_status_free(status);
    double out = 0; /* what does not need it goes on */
    weft_test_expect(
        weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"y:0"}}, &out),
        WEFT_OK, "");
    (void)weft_test_servers_start_one(&servers, 2);
    cluster_serves(&servers, 1);
    status = weft_test_run(&s, &(weft_test_run_t){.feeds = {"x:0"}, .values = {2}, .fetches = {"z:0"}}, NULL);
    CU_ASSERT_EQUAL(weft_status_code(status), WEFT_ABORTED); /* it has forgotten the session */
    weft_status_free(status);
    weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

static void a_client_of_a_killed_master_gets_an_error(void) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  if (weft_test_client_open(&c, servers.processes[1].target, 3000)) {
    weft_test_session_t s = weft_test_opened(c.master, over_all);
    blocked_t b;
    start_blocked(&b, s, "stuck:0");
    let_it_begin(&s);
    weft_test_process_kill(&servers.processes[1]);
    weft_status_t *status = end_blocked(&b);
    CU_ASSERT_NOT_EQUAL(weft_status_code(status), WEFT_OK);
    weft_status_free(status);
    (void)weft_test_servers_start_one(&servers, 1);
    cluster_serves(&servers, 1);
    cluster_serves(&servers, 2);
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

/* A peer that neither answers nor closes its connections. */
static void sigterm_ends_a_master_whose_worker_hangs(void) {
  weft_test_servers_t servers;
  weft_test_client_t c;
  weft_test_servers_start(&servers);
  if (weft_test_client_open(&c, servers.processes[1].target, DEADLINE_MS)) {
    weft_test_session_t s = weft_test_opened(c.master, over_all);
    blocked_t b;
    start_blocked(&b, s, "stuck:0");
    let_it_begin(&s);
    kill(servers.processes[0].pid, SIGSTOP);
    CU_ASSERT_EQUAL(weft_test_process_stop(&servers.processes[1]), 0);
    weft_status_free(end_blocked(&b));
    weft_test_client_close(&c);
  }
  weft_test_servers_kill(&servers);
}

/* ---- bytes that are no gRPC ---- */

static int dial(const char *target) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)atoi(strrchr(target, ':') + 1));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval timeout = {.tv_sec = 2};
  CU_ASSERT_TRUE_FATAL(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

static void shout(int fd, const void *data, size_t n) { (void)!send(fd, data, n, MSG_NOSIGNAL); }

static void hostile_bytes_leave_a_server_serving(void) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static const unsigned char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
  static const unsigned char huge_frame[] = {0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1};
  static const unsigned char bad_frames[] = {0, 0, 4, 8, 0,  0,    0,    0,    0,    0,    0, 0,
                                             0, 0, 0, 1, 99, 0xff, 0x7f, 0xff, 0xff, 0xff, 7};
  enum { HALF_OPEN = 60 };
  weft_test_process_t p;
  unsigned char noise[65536];
  int half_open[HALF_OPEN];
  uint64_t seed = 88172645463325252u;
  start_alone(&p, "127.0.0.1:0");
  if (!weft_test_process_ready(&p)) return;
  for (int round = 0; round < 30; round++) {
    for (size_t i = 0; i < sizeof noise; i++) {
      seed ^= seed << 13;
      seed ^= seed >> 7;
      seed ^= seed << 17;
      noise[i] = (unsigned char)seed;
    }
    int fd = dial(p.target);
    if (round % 2 == 1) shout(fd, preface, sizeof preface - 1);
    if (round % 4 == 1) shout(fd, settings, sizeof settings);
    if (round % 3 == 1) shout(fd, huge_frame, sizeof huge_frame);
    if (round % 3 == 2) shout(fd, bad_frames, sizeof bad_frames);
    shout(fd, noise, round % 5 == 0 ? 1 : sizeof noise);
    close(fd);
  }
  for (int i = 0; i < HALF_OPEN; i++) { /* some silent, some in the middle of something */
    half_open[i] = dial(p.target);
    if (i % 2 == 0) shout(half_open[i], preface, sizeof preface - 1);
    if (i % 4 == 0) shout(half_open[i], settings, 3);
  }
  serves(p.target);
  for (int i = 0; i < HALF_OPEN; i++) close(half_open[i]);
  serves(p.target);
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
}

static void a_server_stops_with_half_open_connections(void) {
  weft_test_process_t p;
  start_alone(&p, "127.0.0.1:0");
  if (!weft_test_process_ready(&p)) return;
  int silent = dial(p.target);
  CU_ASSERT_EQUAL(weft_test_process_stop(&p), 0);
  close(silent);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_server_says_one_line_and_stops_on_sigterm", a_server_says_one_line_and_stops_on_sigterm},
      {"a_server_restarts_on_its_port_at_once", a_server_restarts_on_its_port_at_once},
      {"a_port_in_use_is_an_error", a_port_in_use_is_an_error},
      {"tf_config_says_the_same_as_options", tf_config_says_the_same_as_options},
      {"a_server_that_others_cannot_reach_says_so", a_server_that_others_cannot_reach_says_so},
      {"wrong_command_lines_end_with_one_line_that_names_the_culprit",
       wrong_command_lines_end_with_one_line_that_names_the_culprit},
      {"sigterm_ends_a_server_with_a_blocked_step", sigterm_ends_a_server_with_a_blocked_step},
      {"a_worker_that_is_killed_fails_its_steps_and_comes_back",
       a_worker_that_is_killed_fails_its_steps_and_comes_back},
      {"a_client_of_a_killed_master_gets_an_error", a_client_of_a_killed_master_gets_an_error},
      {"sigterm_ends_a_master_whose_worker_hangs", sigterm_ends_a_master_whose_worker_hangs},
      {"hostile_bytes_leave_a_server_serving", hostile_bytes_leave_a_server_serving},
      {"a_server_stops_with_half_open_connections", a_server_stops_with_half_open_connections},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("server", tests);
}
