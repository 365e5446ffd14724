/* A server and its clients in one process, over real sockets. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/rpc/rpc_testing.h"
#include "tests/rpc/tsan.h"
#include "tests/runner.h"

static void a_message_comes_back(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("hello"), NULL));
  CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR(""), NULL));
  weft_test_rpc_teardown(&f);
}

static void messages_beyond_grpcs_own_limit_pass(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  size_t n = 9u << 20;
  char *big = weft_malloc(n);
  for (size_t i = 0; i < n; i++) big[i] = (char)(i * 2654435761u >> 13);
  CU_ASSERT_TRUE(weft_test_echoes(&f, weft_str_of(big, n), NULL));
  weft_free(big);
  weft_test_rpc_teardown(&f);
}

static void a_failure_keeps_code_and_text(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_message_t *m;
  weft_status_t *s = weft_test_ask(&f, FAIL, WEFT_STR("no such thing: 100% \xc3\xa4\n"), NULL, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "no such thing: 100% \xc3\xa4\n");
  weft_status_free(s);
  weft_test_rpc_teardown(&f);
}

static void a_long_failure_is_cut(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  static char text[10 << 20];
  memset(text, '%', sizeof text); /* three bytes each on the wire */
  memcpy(text + sizeof text - 3, "end", 3);
  weft_message_t *m;
  weft_status_t *s = weft_test_ask(&f, FAIL, weft_str_of(text, sizeof text), NULL, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_str_t got = weft_str(weft_status_message(s));
  CU_ASSERT(got.length <= 3072 && got.length > 3000);
  CU_ASSERT_TRUE(weft_str_starts_with(got, "%%%") && weft_str_ends_with(got, "%%%end"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got.data, " bytes left out) ... "));
  weft_status_free(s);
  s = weft_test_ask(&f, FAIL, weft_str_of(text, 3072), NULL, &m);
  CU_ASSERT_EQUAL(strlen(weft_status_message(s)), 3072);
  weft_status_free(s);
  weft_test_rpc_teardown(&f);
}

static void an_unknown_method_is_unimplemented(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  for (int i = 0; i < 20; i++) { /* more often than calls are awaited */
    weft_message_t *m;
    weft_status_t *s = weft_test_ask(&f, "/weft.Test/Nothing", WEFT_STR("x"), NULL, &m);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNIMPLEMENTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "/weft.Test/Nothing"));
    weft_status_free(s);
  }
  weft_test_rpc_teardown(&f);
}

static void a_deadline_ends_the_call_on_both_ends(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_message_t *m;
  weft_rpc_options_t o = {.timeout_ms = 1000}; /* enough for the call to arrive */
  weft_status_t *s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DEADLINE_EXCEEDED);
  weft_status_free(s);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 1));
  weft_test_rpc_teardown(&f);
}

typedef struct cancel_later {
  weft_test_rpc_t *f;
  weft_canceller_t *canceller;
} cancel_later_t;
static void *cancel_when_held(void *arg) {
  cancel_later_t *c = arg;
  weft_test_latch_wait(&c->f->host.held, 1);
  weft_canceller_cancel(c->canceller);
  return NULL;
}

static void end_by_canceller(bool is_quiet) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  cancel_later_t c = {&f, weft_canceller_create(NULL)};
  pthread_t thread;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_when_held, &c), 0);
  weft_message_t *m;
  weft_rpc_options_t o = {.canceller = c.canceller, .is_quiet = is_quiet};
  weft_status_t *s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  pthread_join(thread, NULL);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, 1));
  s = weft_test_ask(&f, ECHO, WEFT_STR("x"), &o, &m); /* cancelled before it began */
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  weft_status_free(s);
  weft_canceller_release(c.canceller);
  weft_test_rpc_teardown(&f);
}

static void a_canceller_ends_the_call_on_both_ends(void) {
  end_by_canceller(false);
  end_by_canceller(true);
}

/* What ends a call that is open beside others: an answer, a failure, a deadline, the end of the server. Steps
 * go on meanwhile. */
static void *stop_when_held(void *arg) {
  weft_test_rpc_t *f = arg;
  weft_test_latch_wait(&f->host.held, 2);
  for (int i = 0; i < 100; i++) CU_ASSERT_TRUE(weft_test_echoes(f, WEFT_STR("meanwhile"), NULL));
  weft_rpc_server_stop(f->host.server, 0);
  return NULL;
}

static void a_quiet_call_ends_as_others_do(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_message_t *m;
  pthread_t thread;
  weft_rpc_options_t o = {.is_quiet = true};
  CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("hello"), &o));
  weft_status_t *s = weft_test_ask(&f, FAIL, WEFT_STR("no"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_ALREADY_EXISTS);
  weft_status_free(s);
  o.timeout_ms = 1000;
  s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DEADLINE_EXCEEDED);
  weft_status_free(s);
  o.timeout_ms = 0;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_when_held, &f), 0);
  s = weft_test_ask(&f, HOLD, WEFT_STR("x"), &o, &m);
  CU_ASSERT_TRUE(weft_status_code(s) == WEFT_UNAVAILABLE || weft_status_code(s) == WEFT_CANCELLED);
  weft_status_free(s);
  pthread_join(thread, NULL);
  weft_test_rpc_teardown(&f);
}

static void no_server_is_unavailable(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_rpc_server_stop(f.host.server, 0);
  weft_message_t *m;
  weft_status_t *s = weft_test_ask(&f, ECHO, WEFT_STR("x"), NULL, &m);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  weft_status_free(s);
  weft_test_rpc_teardown(&f);
}

/* How one that listens goes away before it has spoken HTTP/2. */
typedef enum { RESET, CLOSE, GARBAGE, NUM_WAYS } way_t;

typedef struct leaver {
  int fd;
  way_t way;
} leaver_t;

static void *leave(void *arg) {
  const leaver_t *l = arg;
  for (int fd; (fd = accept(l->fd, NULL, NULL)) >= 0; close(fd)) {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0}; /* close() resets the connection */
    if (l->way == RESET) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (l->way == GARBAGE && write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28) != 28) break;
  }
  return NULL;
}

static void one_that_leaves_before_it_speaks_cannot_be_connected_to(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  for (way_t way = 0; way < NUM_WAYS; way++) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    leaver_t leaver = {.fd = socket(AF_INET, SOCK_STREAM, 0), .way = way};
    CU_ASSERT_EQUAL_FATAL(bind(leaver.fd, (struct sockaddr *)&address, length), 0);
    CU_ASSERT_EQUAL_FATAL(listen(leaver.fd, 8), 0);
    CU_ASSERT_EQUAL_FATAL(getsockname(leaver.fd, (struct sockaddr *)&address, &length), 0);
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, leave, &leaver), 0);
    char target[64], begin[100];
    snprintf(target, sizeof target, "127.0.0.1:%d", ntohs(address.sin_port));
    snprintf(begin, sizeof begin, "cannot connect to the server at %s: ", target);
    weft_rpc_channel_t *channel = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f.client, weft_str(target), &channel));
    weft_message_t *m = NULL;
    weft_status_t *s = weft_rpc_call_sync(channel, ECHO, weft_test_text_message(WEFT_STR("x")), NULL, &m);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
    CU_ASSERT_TRUE(strncmp(weft_status_message(s), begin, strlen(begin)) == 0);
    CU_ASSERT_PTR_NULL(strstr(weft_status_message(s) + strlen(begin), target)); /* says it once */
    if (strncmp(weft_status_message(s), begin, strlen(begin)) != 0)
      fprintf(stderr, "%s\n", weft_status_message(s));
    weft_status_free(s);
    weft_rpc_channel_release(channel);
    shutdown(leaver.fd, SHUT_RDWR); /* accept fails */
    pthread_join(thread, NULL);
    close(leaver.fd);
  }
  weft_test_rpc_teardown(&f);
}

static void many_calls_at_once_are_all_answered(void) {
  enum { N = 500 };
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  for (int i = 0; i < N; i++) weft_test_begin(&f, ECHO, WEFT_STR("abc"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), N);
  CU_ASSERT_EQUAL(atomic_load(&a.bytes), 3 * N);
  weft_test_rpc_teardown(&f);
  weft_test_answers_deinit(&a);
}

static void *echo_often(void *arg) {
  weft_test_rpc_t *f = arg;
  intptr_t good = 0;
  for (int i = 0; i < 100; i++) good += weft_test_echoes(f, WEFT_STR("from a thread"), NULL);
  return (void *)good;
}
static void waiting_calls_of_many_threads_do_not_mix(void) {
  enum { N = 12 }; /* more than queues are kept */
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  pthread_t threads[N];
  for (int i = 0; i < N; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, echo_often, &f), 0);
  for (int i = 0; i < N; i++) {
    void *good = NULL;
    pthread_join(threads[i], &good);
    CU_ASSERT_EQUAL((intptr_t)good, 100);
  }
  weft_test_rpc_teardown(&f);
}

static void stop_cancels_calls_in_flight(void) {
  enum { N = 7 };
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_test_answers_t a;
  weft_test_answers_init(&a);
  for (int i = 0; i < N; i++) weft_test_begin(&f, HOLD, WEFT_STR("x"), NULL, &a);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.held, N));
  int64_t begin = weft_clock_ns();
  weft_rpc_server_stop(f.host.server, 50);
  CU_ASSERT_TRUE(weft_clock_ns() - begin < 5000000000);
  CU_ASSERT_TRUE(weft_test_latch_wait(&f.host.cancelled, N));
  CU_ASSERT_TRUE(weft_test_latch_wait(&a.latch, N));
  CU_ASSERT_EQUAL(atomic_load(&a.codes[WEFT_OK]), 0);
  weft_rpc_server_stop(f.host.server, 0); /* again: nothing happens */
  weft_test_rpc_teardown(&f);
  weft_test_answers_deinit(&a);
}

static void a_new_server_takes_the_port_at_once(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  int port = weft_rpc_server_port(f.host.server);
  weft_rpc_options_t o = {.wait_for_ready = true, .timeout_ms = 20000};
  for (int i = 0; i < 3;
       i++) { /* a call that meets the old connection's end is UNAVAILABLE: then once more */
    CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("before"), &o) ||
                   weft_test_echoes(&f, WEFT_STR("before"), &o));
    weft_rpc_server_destroy(f.host.server);
    f.host.server = NULL;
    weft_status_t *s = weft_test_host_serve(&f.host, port, f.client);
    CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
    CU_ASSERT_TRUE(weft_test_echoes(&f, WEFT_STR("after"), &o) ||
                   weft_test_echoes(&f, WEFT_STR("after"), &o));
  }
  weft_test_rpc_teardown(&f);
}

static void a_port_that_is_taken_is_named(void) {
  weft_test_rpc_t f;
  weft_test_rpc_setup(&f);
  weft_rpc_server_t *second = NULL;
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .port = weft_rpc_server_port(f.host.server)};
  CU_ASSERT_PTR_NULL(weft_rpc_server_create(&o, &second));
  weft_status_t *s = weft_rpc_server_start(second);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%d", o.port);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), address));
  weft_status_free(s);
  weft_rpc_server_destroy(second); /* never started */
  weft_test_rpc_teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"a message comes back", a_message_comes_back},
    {"messages beyond gRPC's own limit pass", messages_beyond_grpcs_own_limit_pass},
    {"a failure keeps code and text", a_failure_keeps_code_and_text},
    {"a long failure is cut", a_long_failure_is_cut},
    {"an unknown method is unimplemented", an_unknown_method_is_unimplemented},
    {"a deadline ends the call on both ends", a_deadline_ends_the_call_on_both_ends},
    {"a canceller ends the call on both ends", a_canceller_ends_the_call_on_both_ends},
    {"a quiet call ends as others do", a_quiet_call_ends_as_others_do},
    {"no server is unavailable", no_server_is_unavailable},
    {"one that leaves before it speaks cannot be connected to",
     one_that_leaves_before_it_speaks_cannot_be_connected_to},
    {"many calls at once are all answered", many_calls_at_once_are_all_answered},
    {"waiting calls of many threads do not mix", waiting_calls_of_many_threads_do_not_mix},
    {"stop cancels calls in flight", stop_cancels_calls_in_flight},
    {"a new server takes the port at once", a_new_server_takes_the_port_at_once},
    {"a port that is taken is named", a_port_that_is_taken_is_named},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("rpc", tests); }
