/* Calls past gRPC: between two channels and servers of one process, and to a server in a process of its own,
 * which this program is, too, when it is started with "serve". */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/rpc/rpc_testing.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

/* Serves until its standard input ends; says its port first. */
static int be_server(void) {
  weft_test_host_t h;
  weft_test_host_init(&h);
  weft_status_t *s = weft_test_host_serve(&h, 0, NULL);
  char end;
  if (s != NULL) return 1;
  const int port = weft_rpc_server_port(h.server);
  if (write(1, &port, sizeof port) != sizeof port) return 1;
  while (read(0, &end, 1) > 0) {
  }
  weft_rpc_server_destroy(h.server);
  weft_test_host_deinit(&h);
  return 0;
}

static void setup(weft_test_rpc_t *f) {
  weft_test_rpc_setup(f);
  weft_test_become_near(f);
}

/* A server of its own. */
typedef struct child {
  pid_t pid;
  int stop; /* what ends it */
} child_t;

static void setup_with_child(weft_test_rpc_t *f, child_t *child) {
  int to[2], from[2], port = 0;
  CU_ASSERT_EQUAL_FATAL(pipe(to) + pipe(from), 0);
  child->pid = fork();
  if (child->pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    execl("/proc/self/exe", "local_call_test", "serve", (char *)NULL);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  child->stop = to[1];
  CU_ASSERT_EQUAL_FATAL(read(from[0], &port, sizeof port), (ssize_t)sizeof port);
  close(from[0]);
  weft_test_rpc_init(f);
  weft_test_rpc_connect(f, port);
  weft_test_become_near(f);
}

static void teardown_with_child(weft_test_rpc_t *f, const child_t *child) {
  weft_test_rpc_teardown(f);
  close(child->stop);
  waitpid(child->pid, NULL, 0);
}

static void plain_calls_go_past_grpc(void) {
  weft_test_rpc_t f;
  setup(&f);
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_rpc_options_t with_deadline = {.timeout_ms = 60000}, ready = {.wait_for_ready = true},
                     quiet = {.is_quiet = true};
  CU_ASSERT_FALSE(weft_test_is_near(&f, &with_deadline));
  CU_ASSERT_FALSE(weft_test_is_near(&f, &ready));
  CU_ASSERT_FALSE(weft_test_is_near(&f, &quiet));
  weft_test_rpc_teardown(&f);
}

static void messages_of_all_sizes_come_back(void) {
  static const size_t sizes[] = {0, 1, 100, 65535, 65536, 65537, 1 << 20, 40 << 20};
  weft_test_rpc_t f;
  setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  long all = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *bytes = weft_malloc(sizes[i] + 1);
    for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (char)(k * 31 + k / 251);
    CU_ASSERT_TRUE(weft_test_echoes(&f, weft_str_of(bytes, sizes[i]), NULL));
    weft_test_begin(&f, ECHO, weft_str_of(bytes, sizes[i]), NULL, &a);
    all += (long)sizes[i];
    CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, (int)i + 1));
    weft_free(bytes);
  }
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), all);
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

static void a_message_of_many_pieces_comes_back_whole(void) {
  enum { PIECES = 300, PIECE = 50 };
  weft_test_rpc_t f;
  setup(&f);
  weft_message_t *m = NULL, *back = NULL;
  char bytes[PIECES * PIECE];
  for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (char)(k * 7 + k / 13);
  CU_ASSERT_PTR_NULL_FATAL(weft_message_create(&m));
  for (int i = 0; i < PIECES; i++)
    CU_ASSERT_PTR_NULL(weft_message_append(m, weft_str_of(bytes + i * PIECE, PIECE)));
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_call_sync(f.channel, ECHO, m, NULL, &back));
  weft_str_t got;
  CU_ASSERT_PTR_NULL_FATAL(weft_message_flatten(back, &got));
  CU_ASSERT_TRUE(weft_str_eq(got, weft_str_of(bytes, sizeof bytes)));
  weft_message_destroy(back);
  weft_test_rpc_teardown(&f);
}

static void a_failure_keeps_code_and_text(void) {
  weft_test_rpc_t f;
  setup(&f);
  weft_message_t *m;
  bool is_answered = false;
  const weft_rpc_options_t o = {.out_is_answered = &is_answered};
  weft_status_t *s = weft_test_ask(&f, FAIL, WEFT_STR("it is there"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "it is there");
  CU_ASSERT_TRUE(is_answered);
  weft_status_free(s);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  weft_test_begin(&f, FAIL, WEFT_STR("again"), NULL, &a);
  weft_test_begin(&f, "/weft.Test/Nothing", WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 2));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_ALREADY_EXISTS]), 1);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNIMPLEMENTED]), 1);
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

typedef struct canceller_thread {
  weft_test_rpc_t *f;
  weft_canceller_t *canceller;
} canceller_thread_t;
static void *cancel_when_held(void *arg) {
  canceller_thread_t *c = arg;
  weft_test_latch_wait(&c->f->host.held, 1);
  weft_canceller_cancel(c->canceller);
  return NULL;
}

static void a_canceller_ends_the_call_on_both_ends(void) {
  weft_test_rpc_t f;
  setup(&f);
  weft_message_t *m;
  canceller_thread_t c = {&f, weft_canceller_create(NULL)};
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_when_held, &c), 0);
  weft_rpc_options_t o = {.canceller = c.canceller};
  weft_status_t *s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  pthread_join(thread, NULL);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 1));
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  weft_test_begin(&f, ECHO, WEFT_STR("x"), &o, &a); /* cancelled before it began */
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 1));
  s = weft_test_ask(&f, ECHO, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  weft_canceller_release(c.canceller);
  o.canceller = weft_canceller_create(NULL);
  weft_test_begin(&f, HOLD, WEFT_STR("x"), &o, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.held, 2));
  weft_canceller_cancel(o.canceller);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 2));
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 2));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_CANCELLED]), 2);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "was cancelled by its caller"));
  weft_canceller_release(o.canceller);
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

static void *ask_and_hold(void *arg) {
  weft_message_t *m;
  return weft_test_ask(arg, HOLD, WEFT_STR("x"), NULL, &m);
}

/* Of what waits and what is told of its end, all that is old enough ends with the reason. */
static void calls_to_a_lost_server_end(void) {
  weft_test_rpc_t f;
  setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 3; i++) weft_test_begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.held, 4));
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "The task is lost");
  weft_rpc_channel_end_calls(f.channel, why, 3600000); /* they are too young */
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  CU_ASSERT_EQUAL(a.latch.count, 0);
  weft_rpc_channel_end_calls(f.channel, why, 0);
  weft_status_free(why);
  pthread_join(thread, &got);
  CU_ASSERT_STRING_EQUAL(weft_status_message(got), "The task is lost");
  weft_status_free(got);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 3));
  CU_ASSERT_STRING_EQUAL(a.text, "The task is lost");
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 4));
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL)); /* later ones are not harmed */
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

static void many_calls_at_once_are_all_answered(void) {
  enum { N = 20000 };
  weft_test_rpc_t f;
  setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  for (int i = 0; i < N; i++) weft_test_begin(&f, ECHO, WEFT_STR("abc"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), 3L * N);
  CU_ASSERT_EQUAL(atomic_load(&f.host.num_looked_for), 0); /* no handler has said that more will come */
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

/* Calls that follow each other, as both ends are told: the threads that take their packets look for more. */
typedef struct call_chain {
  weft_test_rpc_t *f;
  weft_test_answers_t *answers; /* counts its last answer, and each good one */
  int left;                     /* calls to come; below 0: until one fails */
} call_chain_t;

static void go_on(call_chain_t *c);

static void on_more(void *arg, weft_status_t *status, weft_message_t *response) {
  call_chain_t *c = arg;
  weft_rpc_channel_expect_more(c->f->channel);
  if (status != NULL || --c->left == 0) {
    weft_test_answers_count(c->answers, status, response);
    return;
  }
  atomic_fetch_add(&c->answers->bytes, (long)weft_message_bytes(response));
  weft_message_destroy(response);
  go_on(c);
}

static void go_on(call_chain_t *c) {
  weft_rpc_call(c->f->channel, MORE, weft_test_text_message(WEFT_STR("more")), NULL, on_more, c);
}

enum { CHAINS = 4 };
static void begin_chains(weft_test_rpc_t *f, weft_test_answers_t *a, call_chain_t *chains, int left) {
  for (int i = 0; i < CHAINS; i++) {
    chains[i] = (call_chain_t){f, a, left};
    go_on(&chains[i]);
  }
}

static void calls_that_follow_each_other_are_all_answered(void) {
  enum { N = 3000 };
  weft_test_rpc_t f;
  call_chain_t chains[CHAINS];
  setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  for (int round = 1; round <= 3; round++) {
    begin_chains(&f, &a, chains, N);
    CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, round * CHAINS));
    CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  }
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), 3 * CHAINS);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), 3L * CHAINS * N * (long)strlen("more"));
  CU_ASSERT_TRUE(atomic_load(&f.host.num_looked_for) > 0);
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

/* Waits for some answers of chains that do not end by themselves. */
static void await_some(weft_test_answers_t *a) {
  while (atomic_load(&a->bytes) < 4000) sched_yield();
}

static void a_connection_that_ends_while_more_is_looked_for_ends_once(void) {
  for (int round = 0; round < 20; round++) {
    weft_test_rpc_t f;
    child_t child = {0, -1};
    call_chain_t chains[CHAINS];
    const bool is_killed = round % 2 == 0;
    if (is_killed) setup_with_child(&f, &child);
    if (!is_killed) setup(&f);
    weft_test_answers_t a;
    weft_test_answers_init(&a);
    begin_chains(&f, &a, chains, -1);
    await_some(&a);
    if (is_killed) kill(child.pid, SIGKILL);
    if (!is_killed) weft_rpc_server_stop(f.host.server, 0);
    CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, CHAINS));
    CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), 0);
    CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNAVAILABLE]), CHAINS);
    if (is_killed) teardown_with_child(&f, &child);
    if (!is_killed) weft_test_rpc_teardown(&f);
    weft_test_answers_deinit(&a);
  }
}

static void *echo_often(void *arg) {
  intptr_t good = 0;
  for (int i = 0; i < 200; i++) good += weft_test_echoes(arg, WEFT_STR("from a thread"), NULL);
  return (void *)good;
}
static void waiting_calls_of_many_threads_do_not_mix(void) {
  enum { N = 12 }; /* more than connections are kept */
  weft_test_rpc_t f;
  setup(&f);
  pthread_t threads[N];
  for (int i = 0; i < N; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, echo_often, &f), 0);
  for (int i = 0; i < N; i++) {
    void *good = NULL;
    pthread_join(threads[i], &good);
    CU_ASSERT_EQUAL((intptr_t)good, 200);
  }
  weft_test_rpc_teardown(&f);
}

static void a_server_that_stops_cancels_its_calls(void) {
  weft_test_rpc_t f;
  setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 5; i++) weft_test_begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.held, 6));
  weft_rpc_server_stop(f.host.server, 50);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 6));
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 5));
  pthread_join(thread, &got);
  CU_ASSERT_PTR_NOT_NULL(got);
  weft_status_free(got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), 0);
  CU_ASSERT_FALSE(weft_test_echoes(&f, WEFT_STR("x"), NULL));
  weft_test_answers_deinit(&a);
  weft_test_rpc_teardown(&f);
}

static void a_new_server_is_found_again(void) {
  weft_test_rpc_t f;
  setup(&f);
  const int port = weft_rpc_server_port(f.host.server);
  weft_rpc_server_destroy(f.host.server);
  f.host.server = NULL;
  CU_ASSERT_FALSE(weft_test_echoes(&f, WEFT_STR("x"), NULL));
  CU_ASSERT_PTR_NULL_FATAL(weft_test_host_serve(&f.host, port, f.client));
  const weft_rpc_options_t ready = {.wait_for_ready = true};
  CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("x"), &ready));
  weft_test_become_near(&f);
  weft_test_rpc_teardown(&f);
}

static void a_server_that_is_killed_ends_its_calls(void) {
  weft_test_rpc_t f;
  child_t child;
  setup_with_child(&f, &child);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 5; i++) weft_test_begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  kill(child.pid, SIGKILL);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 5));
  pthread_join(thread, &got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNAVAILABLE]), 5);
  CU_ASSERT_EQUAL(weft_status_code(got), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "connect"));
  weft_status_free(got);
  weft_test_answers_deinit(&a);
  teardown_with_child(&f, &child);
}

/* More than the sockets hold is begun while the server is stopped. */
static void calls_wait_for_a_server_that_is_stopped_for_a_moment(void) {
  enum { N = 3000 };
  weft_test_rpc_t f;
  child_t child;
  setup_with_child(&f, &child);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  char bytes[2000];
  memset(bytes, 'x', sizeof bytes);
  kill(child.pid, SIGSTOP);
  for (int i = 0; i < N; i++) weft_test_begin(&f, ECHO, weft_str_of(bytes, sizeof bytes), NULL, &a);
  kill(child.pid, SIGCONT);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), (long)N * (long)sizeof bytes);
  weft_test_answers_deinit(&a);
  teardown_with_child(&f, &child);
}

static void a_server_that_stays_stopped_is_given_up(void) {
  weft_test_rpc_t f;
  child_t child;
  setup_with_child(&f, &child);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  kill(child.pid, SIGSTOP);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  weft_test_begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 1));
  pthread_join(thread, &got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNAVAILABLE]), 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "does not answer"));
  CU_ASSERT_EQUAL(weft_status_code(got), WEFT_UNAVAILABLE);
  CU_ASSERT_TRUE(weft_rpc_channel_is_silent(f.channel));
  weft_status_free(got);
  kill(child.pid, SIGCONT);
  const weft_rpc_options_t ready = {.wait_for_ready = true};
  CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("x"), &ready));
  weft_test_become_near(&f);
  weft_test_answers_deinit(&a);
  teardown_with_child(&f, &child);
}

/* Neither side's other calls wait for handlers that take their time. */
static void handlers_that_take_their_time_hold_up_no_other(void) {
  enum { N = 6 };
  weft_test_rpc_t f;
  child_t child;
  setup_with_child(&f, &child);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  for (int i = 0; i < N; i++) weft_test_begin(&f, BLOCK, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_is_near(&f, NULL));
  weft_test_begin(&f, UNBLOCK, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, N + 1));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N + 1);
  for (int i = 0; i < 100; i++)
    CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("x"), NULL)); /* the usual threads are enough */
  weft_test_answers_deinit(&a);
  teardown_with_child(&f, &child);
}

/* Otherwise the later call may do what makes the cancelled one go on. Through the ring, over the socket, and
 * in a file. */
static void a_call_comes_behind_the_end_of_one_that_was_cancelled_before(void) {
  static const size_t sizes[] = {1, 4000, 20000, 200000};
  static char bytes[200000];
  memset(bytes, 'x', sizeof bytes);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    weft_test_rpc_t f;
    setup(&f);
    weft_test_answers_t a;
    weft_test_answers_init(&a);
    weft_rpc_options_t o = {.canceller = weft_canceller_create(NULL)};
    weft_test_begin(&f, LINGER, WEFT_STR("x"), &o, &a);
    CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.held, 1));
    weft_canceller_cancel(o.canceller);
    weft_test_begin(&f, UNBLOCK, weft_str_of(bytes, sizes[i]), NULL, &a);
    CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 2));
    CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 1));
    CU_ASSERT_EQUAL(atomic_load(&f.host.num_overtaken), 0);
    CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_CANCELLED]), 1);
    weft_canceller_release(o.canceller);
    weft_test_answers_deinit(&a);
    weft_test_rpc_teardown(&f);
  }
}

/* A server that is waited for, but is heard of, is not given up. */
static void a_server_that_takes_its_time_is_waited_for(void) {
  weft_test_rpc_t f;
  child_t child;
  setup_with_child(&f, &child);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  weft_rpc_options_t o = {.canceller = weft_canceller_create(NULL)};
  weft_test_begin(&f, HOLD, WEFT_STR("x"), &o, &a);
  const weft_rpc_options_t limit = {.timeout_ms = 4500};
  weft_message_t *m;
  weft_status_t *s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &limit, &m); /* longer than a silent server has */
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DEADLINE_EXCEEDED);
  weft_status_free(s);
  CU_ASSERT_EQUAL(a.latch.count, 0);
  weft_canceller_cancel(o.canceller);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 1));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_CANCELLED]), 1);
  weft_canceller_release(o.canceller);
  weft_test_answers_deinit(&a);
  teardown_with_child(&f, &child);
}

/* Whatever is not there, the call ends, and the next one goes on. */
static void a_call_without_memory_ends(void) {
  weft_test_rpc_t f;
  setup(&f);
  int failures = 0;
  for (long n = 0; n < 60; n++) {
    weft_message_t *request = weft_test_text_message(WEFT_STR("abc")), *m = NULL;
    weft_test_answers_t a;
    weft_test_answers_init(&a);
    weft_fault_arm(n / 2);
    if (n % 2 == 0) {
      weft_status_t *s = weft_rpc_call_sync(f.channel, ECHO, request, NULL, &m);
      failures += s != NULL;
      weft_status_free(s);
      weft_message_destroy(m);
    } else {
      weft_rpc_call(f.channel, ECHO, request, NULL, weft_test_answers_count, &a);
      CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, 1));
    }
    weft_fault_arm(-1);
    CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("abc"), NULL));
    weft_test_answers_deinit(&a);
  }
  CU_ASSERT_TRUE(failures > 0);
  weft_test_become_near(&f);
  weft_test_rpc_teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"plain calls go past gRPC", plain_calls_go_past_grpc},
    {"messages of all sizes come back", messages_of_all_sizes_come_back},
    {"a message of many pieces comes back whole", a_message_of_many_pieces_comes_back_whole},
    {"a failure keeps code and text", a_failure_keeps_code_and_text},
    {"a canceller ends the call on both ends", a_canceller_ends_the_call_on_both_ends},
    {"calls to a lost server end", calls_to_a_lost_server_end},
    {"many calls at once are all answered", many_calls_at_once_are_all_answered},
    {"calls that follow each other are all answered", calls_that_follow_each_other_are_all_answered},
    {"a connection that ends while more is looked for ends once",
     a_connection_that_ends_while_more_is_looked_for_ends_once},
    {"waiting calls of many threads do not mix", waiting_calls_of_many_threads_do_not_mix},
    {"a server that stops cancels its calls", a_server_that_stops_cancels_its_calls},
    {"a new server is found again", a_new_server_is_found_again},
    {"a server that is killed ends its calls", a_server_that_is_killed_ends_its_calls},
    {"calls wait for a server that is stopped for a moment",
     calls_wait_for_a_server_that_is_stopped_for_a_moment},
    {"a server that stays stopped is given up", a_server_that_stays_stopped_is_given_up},
    {"handlers that take their time hold up no other", handlers_that_take_their_time_hold_up_no_other},
    {"a call comes behind the end of one that was cancelled before",
     a_call_comes_behind_the_end_of_one_that_was_cancelled_before},
    {"a server that takes its time is waited for", a_server_that_takes_its_time_is_waited_for},
    {"a call without memory ends", a_call_without_memory_ends},
    CU_TEST_INFO_NULL,
};

int main(int argc, char **argv) {
  return argc > 1 && strcmp(argv[1], "serve") == 0 ? be_server() : weft_run_tests("local_call", tests);
}
