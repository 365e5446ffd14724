/* Calls past gRPC: between two channels and servers of one process, and to a server in a process of its own,
 * which this program is, too, when it is started with "serve". */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/channel.h"
#include "rpc/local_link.h"
#include "rpc/server.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

#define ECHO "/weft.Test/Echo"
#define PEER "/weft.Test/Peer"
#define HOLD "/weft.Test/Hold"
#define FAIL "/weft.Test/Fail"
#define BLOCK "/weft.Test/Block"
#define UNBLOCK "/weft.Test/Unblock"

typedef struct latch {
  weft_mutex_t mu;
  weft_cond_t changed;
  int count;
} latch_t;
static void latch_init(latch_t *l) {
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->changed);
  l->count = 0;
}
static void latch_deinit(latch_t *l) {
  weft_cond_deinit(&l->changed);
  weft_mutex_deinit(&l->mu);
}
static void latch_add(latch_t *l) {
  weft_mutex_lock(&l->mu);
  l->count++;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}
static bool latch_wait(latch_t *l, int count) {
  int64_t deadline = weft_clock_ns() + 60000000000;
  weft_mutex_lock(&l->mu);
  bool in_time = true;
  while (l->count < count && in_time) in_time = weft_cond_wait_until(&l->changed, &l->mu, deadline);
  bool reached = l->count >= count;
  weft_mutex_unlock(&l->mu);
  return reached;
}

/* ---- the server ---- */

typedef struct host {
  weft_rpc_server_t *server;
  latch_t held, cancelled, unblocked;
} host_t;

static void host_init(host_t *h) {
  memset(h, 0, sizeof *h);
  latch_init(&h->held);
  latch_init(&h->cancelled);
  latch_init(&h->unblocked);
}
static void host_deinit(host_t *h) {
  latch_deinit(&h->held);
  latch_deinit(&h->cancelled);
  latch_deinit(&h->unblocked);
}

static void answer_text(weft_rpc_call_t *call, weft_str_t text) {
  weft_message_t *response = NULL;
  weft_status_t *s = weft_message_create(&response);
  if (s == NULL) s = weft_message_append(response, text);
  if (s == NULL) {
    weft_rpc_reply(call, response);
  } else {
    weft_message_destroy(response);
    weft_rpc_fail(call, s);
  }
}

static void echo(void *arg, weft_rpc_call_t *call) {
  (void)arg;
  weft_str_t text;
  weft_status_t *s = weft_message_flatten(weft_rpc_call_request(call), &text);
  if (s != NULL) {
    weft_rpc_fail(call, s);
  } else {
    answer_text(call, text);
  }
}
static void tell_peer(void *arg, weft_rpc_call_t *call) {
  (void)arg;
  char peer[100];
  snprintf(peer, sizeof peer, "%s", weft_rpc_call_peer(call));
  answer_text(call, weft_str(peer));
}
static void fail(void *arg, weft_rpc_call_t *call) {
  (void)arg;
  weft_str_t text;
  weft_status_t *s = weft_message_flatten(weft_rpc_call_request(call), &text);
  if (s == NULL) s = WEFT_ERROR(ALREADY_EXISTS, "%.*s", WEFT_STR_ARGS(text));
  weft_rpc_fail(call, s);
}

/* Takes its thread until there is an UNBLOCK. */
static void block(void *arg, weft_rpc_call_t *call) {
  host_t *h = arg;
  latch_add(&h->held);
  latch_wait(&h->unblocked, 1);
  answer_text(call, WEFT_STR(""));
}
static void unblock(void *arg, weft_rpc_call_t *call) {
  latch_add(&((host_t *)arg)->unblocked);
  answer_text(call, WEFT_STR(""));
}

typedef struct held {
  host_t *h;
  weft_rpc_call_t *call;
} held_t;
static void answer_held(void *arg) {
  held_t *h = arg;
  latch_t *cancelled = &h->h->cancelled;
  weft_rpc_call_t *call = h->call;
  weft_free(h);
  latch_add(cancelled);
  weft_rpc_fail(call, WEFT_ERROR(CANCELLED, "held until cancelled"));
}
static void hold(void *arg, weft_rpc_call_t *call) {
  held_t *h = weft_calloc(1, sizeof *h);
  latch_t *held = &((host_t *)arg)->held;
  uint64_t token;
  h->h = arg;
  h->call = call;
  if (!weft_canceller_register(weft_rpc_call_canceller(call), answer_held, h, &token)) answer_held(h);
  latch_add(held);
}

static weft_status_t *serve(host_t *h, int port, weft_rpc_client_t *client) {
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .port = port, .client = client};
  WEFT_RETURN_IF_ERROR(weft_rpc_server_create(&o, &h->server));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, ECHO, echo, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, PEER, tell_peer, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, HOLD, hold, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, FAIL, fail, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, BLOCK, block, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, UNBLOCK, unblock, h, NULL));
  return weft_rpc_server_start(h->server);
}

/* Serves until its standard input ends; says its port first. */
static int be_server(void) {
  host_t h;
  host_init(&h);
  weft_status_t *s = serve(&h, 0, NULL);
  char end;
  if (s != NULL) return 1;
  const int port = weft_rpc_server_port(h.server);
  if (write(1, &port, sizeof port) != sizeof port) return 1;
  while (read(0, &end, 1) > 0) {
  }
  weft_rpc_server_destroy(h.server);
  host_deinit(&h);
  return 0;
}

/* ---- the client ---- */

typedef struct fixture {
  weft_rpc_client_t *client;
  weft_rpc_channel_t *channel;
  host_t host; /* of a server in this process */
  pid_t child; /* a server of its own, and what ends it; 0: none */
  int stop;
} fixture_t;

static weft_message_t *text_message(weft_str_t text) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  if (s == NULL) s = weft_message_append(m, text);
  weft_status_free(s); /* the answer will show it */
  return m;
}

static weft_status_t *ask(fixture_t *f, const char *path, weft_str_t text, const weft_rpc_options_t *o,
                          weft_message_t **out) {
  *out = NULL;
  return weft_rpc_call_sync(f->channel, path, text_message(text), o, out);
}

static bool echoes(fixture_t *f, weft_str_t text, const weft_rpc_options_t *o) {
  weft_message_t *m;
  weft_str_t got = {NULL, 0};
  weft_status_t *s = ask(f, ECHO, text, o, &m);
  bool ok = s == NULL;
  if (ok) s = weft_message_flatten(m, &got);
  ok = ok && s == NULL && weft_str_eq(got, text);
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

/* Does the call come past gRPC? */
static bool is_near(fixture_t *f, const weft_rpc_options_t *o) {
  weft_message_t *m;
  weft_str_t peer = {NULL, 0};
  weft_status_t *s = ask(f, PEER, WEFT_STR(""), o, &m);
  if (s == NULL) s = weft_message_flatten(m, &peer);
  const bool ok = s == NULL && weft_str_starts_with(peer, "unix:process ");
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

/* After a few calls: the name was asked for. */
static void become_near(fixture_t *f) {
  bool ok = false;
  for (int i = 0; i < 100 && !ok; i++) ok = is_near(f, NULL);
  CU_ASSERT_TRUE_FATAL(ok);
}

static void connect_to(fixture_t *f, int port) {
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", port);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f->client, weft_str(target), &f->channel));
}

static void setup(fixture_t *f) {
  memset(f, 0, sizeof *f);
  host_init(&f->host);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->client));
  CU_ASSERT_PTR_NULL_FATAL(serve(&f->host, 0, f->client));
  connect_to(f, weft_rpc_server_port(f->host.server));
  become_near(f);
}

static void setup_with_child(fixture_t *f) {
  int to[2], from[2], port = 0;
  memset(f, 0, sizeof *f);
  host_init(&f->host);
  CU_ASSERT_EQUAL_FATAL(pipe(to) + pipe(from), 0);
  f->child = fork();
  if (f->child == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    execl("/proc/self/exe", "local_call_test", "serve", (char *)NULL);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  f->stop = to[1];
  CU_ASSERT_EQUAL_FATAL(read(from[0], &port, sizeof port), (ssize_t)sizeof port);
  close(from[0]);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->client));
  connect_to(f, port);
  become_near(f);
}

static void teardown(fixture_t *f) {
  weft_rpc_channel_release(f->channel);
  weft_rpc_server_destroy(f->host.server);
  weft_rpc_client_destroy(f->client);
  if (f->child > 0) {
    close(f->stop);
    waitpid(f->child, NULL, 0);
  }
  host_deinit(&f->host);
}

/* Calls that are told of their end. */
typedef struct answers {
  latch_t latch;
  atomic_int codes[17];
  atomic_long bytes;
  char text[300]; /* of the last failure; after the latch */
} answers_t;
static void count_answer(void *arg, weft_status_t *status, weft_message_t *response) {
  answers_t *a = arg;
  atomic_fetch_add(&a->codes[weft_status_code(status)], 1);
  if (response != NULL) atomic_fetch_add(&a->bytes, (long)weft_message_bytes(response));
  if (status != NULL) snprintf(a->text, sizeof a->text, "%s", weft_status_message(status));
  weft_status_free(status);
  weft_message_destroy(response);
  latch_add(&a->latch);
}
static void answers_init(answers_t *a) {
  memset(a, 0, sizeof *a);
  latch_init(&a->latch);
}
static void begin(fixture_t *f, const char *path, weft_str_t text, const weft_rpc_options_t *o,
                  answers_t *a) {
  weft_rpc_call(f->channel, path, text_message(text), o, count_answer, a);
}

/* ---- tests ---- */

static void plain_calls_go_past_grpc(void) {
  fixture_t f;
  setup(&f);
  CU_ASSERT_TRUE(is_near(&f, NULL));
  weft_rpc_options_t with_deadline = {.timeout_ms = 60000}, ready = {.wait_for_ready = true},
                     quiet = {.is_quiet = true};
  CU_ASSERT_FALSE(is_near(&f, &with_deadline));
  CU_ASSERT_FALSE(is_near(&f, &ready));
  CU_ASSERT_FALSE(is_near(&f, &quiet));
  teardown(&f);
}

static void messages_of_all_sizes_come_back(void) {
  static const size_t sizes[] = {0, 1, 100, 65535, 65536, 65537, 1 << 20, 40 << 20};
  fixture_t f;
  setup(&f);
  answers_t a;
  answers_init(&a);
  long all = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *bytes = weft_malloc(sizes[i] + 1);
    for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (char)(k * 31 + k / 251);
    CU_ASSERT_TRUE(echoes(&f, weft_str_of(bytes, sizes[i]), NULL));
    begin(&f, ECHO, weft_str_of(bytes, sizes[i]), NULL, &a);
    all += (long)sizes[i];
    CU_ASSERT_TRUE(latch_wait(&a.latch, (int)i + 1));
    weft_free(bytes);
  }
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), all);
  latch_deinit(&a.latch);
  teardown(&f);
}

static void a_message_of_many_pieces_comes_back_whole(void) {
  enum { PIECES = 300, PIECE = 50 };
  fixture_t f;
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
  teardown(&f);
}

static void a_failure_keeps_code_and_text(void) {
  fixture_t f;
  setup(&f);
  weft_message_t *m;
  bool is_answered = false;
  const weft_rpc_options_t o = {.out_is_answered = &is_answered};
  weft_status_t *s = ask(&f, FAIL, WEFT_STR("it is there"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "it is there");
  CU_ASSERT_TRUE(is_answered);
  weft_status_free(s);
  answers_t a;
  answers_init(&a);
  begin(&f, FAIL, WEFT_STR("again"), NULL, &a);
  begin(&f, "/weft.Test/Nothing", WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 2));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_ALREADY_EXISTS]), 1);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNIMPLEMENTED]), 1);
  latch_deinit(&a.latch);
  teardown(&f);
}

typedef struct canceller_thread {
  fixture_t *f;
  weft_canceller_t *canceller;
} canceller_thread_t;
static void *cancel_when_held(void *arg) {
  canceller_thread_t *c = arg;
  latch_wait(&c->f->host.held, 1);
  weft_canceller_cancel(c->canceller);
  return NULL;
}

static void a_canceller_ends_the_call_on_both_ends(void) {
  fixture_t f;
  setup(&f);
  weft_message_t *m;
  canceller_thread_t c = {&f, weft_canceller_create(NULL)};
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_when_held, &c), 0);
  weft_rpc_options_t o = {.canceller = c.canceller};
  weft_status_t *s = ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  pthread_join(thread, NULL);
  CU_ASSERT_TRUE(latch_wait(&f.host.cancelled, 1));
  answers_t a;
  answers_init(&a);
  begin(&f, ECHO, WEFT_STR("x"), &o, &a); /* cancelled before it began */
  CU_ASSERT_TRUE(latch_wait(&a.latch, 1));
  s = ask(&f, ECHO, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  weft_canceller_release(c.canceller);
  o.canceller = weft_canceller_create(NULL);
  begin(&f, HOLD, WEFT_STR("x"), &o, &a);
  CU_ASSERT_TRUE(latch_wait(&f.host.held, 2));
  weft_canceller_cancel(o.canceller);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 2));
  CU_ASSERT_TRUE(latch_wait(&f.host.cancelled, 2));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_CANCELLED]), 2);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "was cancelled by its caller"));
  weft_canceller_release(o.canceller);
  CU_ASSERT_TRUE(is_near(&f, NULL));
  latch_deinit(&a.latch);
  teardown(&f);
}

static void *ask_and_hold(void *arg) {
  weft_message_t *m;
  return ask(arg, HOLD, WEFT_STR("x"), NULL, &m);
}

/* Of what waits and what is told of its end, all that is old enough ends with the reason. */
static void calls_to_a_lost_server_end(void) {
  fixture_t f;
  setup(&f);
  answers_t a;
  answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 3; i++) begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&f.host.held, 4));
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "The task is lost");
  weft_rpc_channel_end_calls(f.channel, why, 3600000); /* they are too young */
  CU_ASSERT_TRUE(is_near(&f, NULL));
  CU_ASSERT_EQUAL(a.latch.count, 0);
  weft_rpc_channel_end_calls(f.channel, why, 0);
  weft_status_free(why);
  pthread_join(thread, &got);
  CU_ASSERT_STRING_EQUAL(weft_status_message(got), "The task is lost");
  weft_status_free(got);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 3));
  CU_ASSERT_STRING_EQUAL(a.text, "The task is lost");
  CU_ASSERT_TRUE(latch_wait(&f.host.cancelled, 4));
  CU_ASSERT_TRUE(is_near(&f, NULL)); /* later ones are not harmed */
  latch_deinit(&a.latch);
  teardown(&f);
}

static void many_calls_at_once_are_all_answered(void) {
  enum { N = 20000 };
  fixture_t f;
  setup(&f);
  answers_t a;
  answers_init(&a);
  for (int i = 0; i < N; i++) begin(&f, ECHO, WEFT_STR("abc"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), 3L * N);
  latch_deinit(&a.latch);
  teardown(&f);
}

static void *echo_often(void *arg) {
  intptr_t good = 0;
  for (int i = 0; i < 200; i++) good += echoes(arg, WEFT_STR("from a thread"), NULL);
  return (void *)good;
}
static void waiting_calls_of_many_threads_do_not_mix(void) {
  enum { N = 12 }; /* more than connections are kept */
  fixture_t f;
  setup(&f);
  pthread_t threads[N];
  for (int i = 0; i < N; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, echo_often, &f), 0);
  for (int i = 0; i < N; i++) {
    void *good = NULL;
    pthread_join(threads[i], &good);
    CU_ASSERT_EQUAL((intptr_t)good, 200);
  }
  teardown(&f);
}

static void a_server_that_stops_cancels_its_calls(void) {
  fixture_t f;
  setup(&f);
  answers_t a;
  answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 5; i++) begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&f.host.held, 6));
  weft_rpc_server_stop(f.host.server, 50);
  CU_ASSERT_TRUE(latch_wait(&f.host.cancelled, 6));
  CU_ASSERT_TRUE(latch_wait(&a.latch, 5));
  pthread_join(thread, &got);
  CU_ASSERT_PTR_NOT_NULL(got);
  weft_status_free(got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), 0);
  CU_ASSERT_FALSE(echoes(&f, WEFT_STR("x"), NULL));
  latch_deinit(&a.latch);
  teardown(&f);
}

static void a_new_server_is_found_again(void) {
  fixture_t f;
  setup(&f);
  const int port = weft_rpc_server_port(f.host.server);
  weft_rpc_server_destroy(f.host.server);
  f.host.server = NULL;
  CU_ASSERT_FALSE(echoes(&f, WEFT_STR("x"), NULL));
  CU_ASSERT_PTR_NULL_FATAL(serve(&f.host, port, f.client));
  const weft_rpc_options_t ready = {.wait_for_ready = true};
  CU_ASSERT_TRUE(echoes(&f, WEFT_STR("x"), &ready));
  become_near(&f);
  teardown(&f);
}

static void a_server_that_is_killed_ends_its_calls(void) {
  fixture_t f;
  setup_with_child(&f);
  answers_t a;
  answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  for (int i = 0; i < 5; i++) begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(is_near(&f, NULL));
  kill(f.child, SIGKILL);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 5));
  pthread_join(thread, &got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNAVAILABLE]), 5);
  CU_ASSERT_EQUAL(weft_status_code(got), WEFT_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "connect"));
  weft_status_free(got);
  latch_deinit(&a.latch);
  teardown(&f);
}

/* More than the sockets hold is begun while the server is stopped. */
static void calls_wait_for_a_server_that_is_stopped_for_a_moment(void) {
  enum { N = 3000 };
  fixture_t f;
  setup_with_child(&f);
  answers_t a;
  answers_init(&a);
  char bytes[2000];
  memset(bytes, 'x', sizeof bytes);
  kill(f.child, SIGSTOP);
  for (int i = 0; i < N; i++) begin(&f, ECHO, weft_str_of(bytes, sizeof bytes), NULL, &a);
  kill(f.child, SIGCONT);
  CU_ASSERT_TRUE(latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), (long)N * (long)sizeof bytes);
  latch_deinit(&a.latch);
  teardown(&f);
}

static void a_server_that_stays_stopped_is_given_up(void) {
  fixture_t f;
  setup_with_child(&f);
  answers_t a;
  answers_init(&a);
  pthread_t thread;
  void *got = NULL;
  kill(f.child, SIGSTOP);
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_and_hold, &f), 0);
  begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 1));
  pthread_join(thread, &got);
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_UNAVAILABLE]), 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.text, "does not answer"));
  CU_ASSERT_EQUAL(weft_status_code(got), WEFT_UNAVAILABLE);
  CU_ASSERT_TRUE(weft_rpc_channel_is_silent(f.channel));
  weft_status_free(got);
  kill(f.child, SIGCONT);
  const weft_rpc_options_t ready = {.wait_for_ready = true};
  CU_ASSERT_TRUE(echoes(&f, WEFT_STR("x"), &ready));
  become_near(&f);
  latch_deinit(&a.latch);
  teardown(&f);
}

/* Neither side's other calls wait for handlers that take their time. */
static void handlers_that_take_their_time_hold_up_no_other(void) {
  enum { N = 6 };
  fixture_t f;
  setup_with_child(&f);
  answers_t a;
  answers_init(&a);
  for (int i = 0; i < N; i++) begin(&f, BLOCK, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(is_near(&f, NULL));
  begin(&f, UNBLOCK, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(latch_wait(&a.latch, N + 1));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N + 1);
  for (int i = 0; i < 100; i++)
    CU_ASSERT_TRUE(echoes(&f, WEFT_STR("x"), NULL)); /* the usual threads are enough */
  latch_deinit(&a.latch);
  teardown(&f);
}

/* A server that is waited for, but is heard of, is not given up. */
static void a_server_that_takes_its_time_is_waited_for(void) {
  fixture_t f;
  setup_with_child(&f);
  answers_t a;
  answers_init(&a);
  weft_rpc_options_t o = {.canceller = weft_canceller_create(NULL)};
  begin(&f, HOLD, WEFT_STR("x"), &o, &a);
  const weft_rpc_options_t limit = {.timeout_ms = 4500};
  weft_message_t *m;
  weft_status_t *s = ask(&f, HOLD, WEFT_STR("x"), &limit, &m); /* longer than a silent server has */
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DEADLINE_EXCEEDED);
  weft_status_free(s);
  CU_ASSERT_EQUAL(a.latch.count, 0);
  weft_canceller_cancel(o.canceller);
  CU_ASSERT_TRUE(latch_wait(&a.latch, 1));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_CANCELLED]), 1);
  weft_canceller_release(o.canceller);
  latch_deinit(&a.latch);
  teardown(&f);
}

/* The name of the server's socket, as any process of this user may learn it. */
static bool ask_name(fixture_t *f, const char *version, char *out, size_t size) {
  char text[200];
  weft_message_t *m;
  weft_str_t name = {NULL, 0};
  snprintf(text, sizeof text, "%s%.*s", version, WEFT_STR_ARGS(weft_local_link_host()));
  weft_status_t *s = ask(f, "/weft.LocalService/Introduce", weft_str(text), NULL, &m);
  if (s == NULL) s = weft_message_flatten(m, &name);
  snprintf(out, size, "%.*s", WEFT_STR_ARGS(name));
  const bool ok = s == NULL && name.length > 0;
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

static int connect_raw(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
  close(fd);
  return -1;
}

static void bytes_that_are_no_packet_end_their_connection_only(void) {
  fixture_t f;
  setup(&f);
  char name[100], other[100];
  CU_ASSERT_FALSE(ask_name(&f, "0 ", other, sizeof other)); /* what speaks otherwise is told nothing */
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "1 ", name, sizeof name));
  unsigned seed = 1;
  for (int round = 0; round < 300; round++) {
    unsigned char bytes[300];
    int fd = connect_raw(name);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    const size_t n = 1 + (size_t)round % sizeof bytes;
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    if (round % 2 == 0 && n > 24) { /* a head that is nearly right */
      memset(bytes, 0, 24);
      bytes[0] = (unsigned char)(round % 8);
      bytes[5] = (unsigned char)(round / 8 % 3); /* its bytes are in a file that is not there */
      bytes[6] = (unsigned char)(round / 2);
      bytes[16] = (unsigned char)(n - 24);
      bytes[22] = (unsigned char)(round % 5 == 0 ? 255 : 0);
    }
    CU_ASSERT_EQUAL(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    if (round % 3 == 0) { /* it hears of it, or gets an answer to a call that happened to be one */
      shutdown(fd, SHUT_WR);
      while (recv(fd, bytes, sizeof bytes, 0) > 0) {
      }
    }
    close(fd);
  }
  CU_ASSERT_TRUE(is_near(&f, NULL));
  teardown(&f);
}

/* A call of ECHO whose bytes are in `file`, of which it says that it has `bytes`. */
static bool send_file(int fd, int file, uint64_t bytes) {
  struct {
    uint16_t kind, code;
    uint8_t is_answered, is_in_file;
    uint16_t text_bytes;
    uint64_t id, message_bytes;
  } head = {.kind = 1, .is_in_file = 1, .text_bytes = sizeof ECHO - 1, .id = 7, .message_bytes = bytes};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  char path[] = ECHO;
  struct iovec pieces[2] = {{&head, sizeof head}, {path, sizeof ECHO - 1}};
  struct msghdr m = {.msg_iov = pieces,
                     .msg_iovlen = 2,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  memset(&control, 0, sizeof control);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(c), &file, sizeof file);
  return sendmsg(fd, &m, MSG_NOSIGNAL) > 0;
}

/* A file that could still change, or is shorter than its packet says, is refused: reading it could end the
 * process. */
static void files_are_taken_only_when_they_are_sealed(void) {
  enum { BYTES = 100000 };
  static const struct {
    int seals;
    uint64_t said;
    bool is_taken;
  } cases[] = {{F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, BYTES, true},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, BYTES + 1, false},
               {F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, UINT64_MAX, false},
               {F_SEAL_SHRINK | F_SEAL_GROW, BYTES, false},
               {0, BYTES, false}};
  fixture_t f;
  setup(&f);
  char name[100];
  static char bytes[BYTES];
  CU_ASSERT_TRUE_FATAL(ask_name(&f, "1 ", name, sizeof name));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int fd = connect_raw(name), file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_EQUAL(write(file, bytes, BYTES), (ssize_t)BYTES);
    if (cases[i].seals != 0) CU_ASSERT_EQUAL(fcntl(file, F_ADD_SEALS, cases[i].seals), 0);
    CU_ASSERT_TRUE(send_file(fd, file, cases[i].said));
    CU_ASSERT_EQUAL(recv(fd, bytes, sizeof bytes, 0) > 0, cases[i].is_taken);
    close(file);
    close(fd);
  }
  CU_ASSERT_TRUE(is_near(&f, NULL));
  teardown(&f);
}

/* Whatever is not there, the call ends, and the next one goes on. */
static void a_call_without_memory_ends(void) {
  fixture_t f;
  setup(&f);
  int failures = 0;
  for (long n = 0; n < 60; n++) {
    weft_message_t *request = text_message(WEFT_STR("abc")), *m = NULL;
    answers_t a;
    answers_init(&a);
    weft_fault_arm(n / 2);
    if (n % 2 == 0) {
      weft_status_t *s = weft_rpc_call_sync(f.channel, ECHO, request, NULL, &m);
      failures += s != NULL;
      weft_status_free(s);
      weft_message_destroy(m);
    } else {
      weft_rpc_call(f.channel, ECHO, request, NULL, count_answer, &a);
      CU_ASSERT_TRUE(latch_wait(&a.latch, 1));
    }
    weft_fault_arm(-1);
    CU_ASSERT_TRUE(echoes(&f, WEFT_STR("abc"), NULL));
    latch_deinit(&a.latch);
  }
  CU_ASSERT_TRUE(failures > 0);
  become_near(&f);
  teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"plain calls go past gRPC", plain_calls_go_past_grpc},
    {"messages of all sizes come back", messages_of_all_sizes_come_back},
    {"a message of many pieces comes back whole", a_message_of_many_pieces_comes_back_whole},
    {"a failure keeps code and text", a_failure_keeps_code_and_text},
    {"a canceller ends the call on both ends", a_canceller_ends_the_call_on_both_ends},
    {"calls to a lost server end", calls_to_a_lost_server_end},
    {"many calls at once are all answered", many_calls_at_once_are_all_answered},
    {"waiting calls of many threads do not mix", waiting_calls_of_many_threads_do_not_mix},
    {"a server that stops cancels its calls", a_server_that_stops_cancels_its_calls},
    {"a new server is found again", a_new_server_is_found_again},
    {"a server that is killed ends its calls", a_server_that_is_killed_ends_its_calls},
    {"calls wait for a server that is stopped for a moment",
     calls_wait_for_a_server_that_is_stopped_for_a_moment},
    {"a server that stays stopped is given up", a_server_that_stays_stopped_is_given_up},
    {"handlers that take their time hold up no other", handlers_that_take_their_time_hold_up_no_other},
    {"a server that takes its time is waited for", a_server_that_takes_its_time_is_waited_for},
    {"bytes that are no packet end their connection only",
     bytes_that_are_no_packet_end_their_connection_only},
    {"files are taken only when they are sealed", files_are_taken_only_when_they_are_sealed},
    {"a call without memory ends", a_call_without_memory_ends},
    CU_TEST_INFO_NULL,
};

int main(int argc, char **argv) {
  return argc > 1 && strcmp(argv[1], "serve") == 0 ? be_server() : weft_run_tests("local_call", tests);
}
