/* The exchange of places by PMI, with a process manager that has all its answers ready. */
#include "server/pmi.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/runner.h"

#define INIT "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define NAME "cmd=my_kvsname kvsname=kvs_7_0\n"
#define PUT "cmd=put_result rc=0 msg=success\n"
#define BARRIER "cmd=barrier_out\n"
#define GET(value) "cmd=get_result rc=0 msg=success value=" value "\n"
#define END "cmd=finalize_ack\n"

typedef struct run {
  weft_arena_t arena;
  weft_rank_place_t places[3];
  char sent[4096]; /* what the rank said */
} run_t;

/* Rank 1 of 3, number 0 of host b, with these answers. */
static weft_status_t *exchange(const char *answers, run_t *r) {
  const weft_rank_place_t own = {WEFT_STR("b"), 0};
  int ends[2];
  *r = (run_t){.arena = WEFT_ARENA_INIT};
  CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  size_t length = strlen(answers);
  CU_ASSERT_EQUAL_FATAL(write(ends[1], answers, length), (ssize_t)length);
  CU_ASSERT_EQUAL_FATAL(shutdown(ends[1], SHUT_WR), 0);
  weft_status_t *s = weft_pmi_places(ends[0], 1, &own, 3, &r->arena, r->places);
  ssize_t n = read(ends[1], r->sent, sizeof r->sent - 1);
  CU_ASSERT_TRUE(n >= 0);
  close(ends[1]);
  CU_ASSERT_EQUAL(fcntl(ends[0], F_GETFD), -1); /* closed */
  return s;
}

static void ranks_learn_each_others_places(void) {
  run_t r;
  weft_status_t *s = exchange(INIT NAME PUT BARRIER GET("a/0") GET("b/0") GET("a.site-x/1") END, &r);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  CU_ASSERT_TRUE(weft_str_is(r.places[0].host, "a") && r.places[0].local == 0);
  CU_ASSERT_TRUE(weft_str_is(r.places[1].host, "b") && r.places[1].local == 0);
  CU_ASSERT_TRUE(weft_str_is(r.places[2].host, "a.site-x") && r.places[2].local == 1);
  CU_ASSERT_STRING_EQUAL(r.sent,
                         "cmd=init pmi_version=1 pmi_subversion=1\n"
                         "cmd=get_my_kvsname\n"
                         "cmd=put kvsname=kvs_7_0 key=weft-place-1 value=b/0\n"
                         "cmd=barrier_in\n"
                         "cmd=get kvsname=kvs_7_0 key=weft-place-0\n"
                         "cmd=get kvsname=kvs_7_0 key=weft-place-1\n"
                         "cmd=get kvsname=kvs_7_0 key=weft-place-2\n"
                         "cmd=finalize\n");
  weft_arena_deinit(&r.arena);
}

static void broken_answers_are_told(void) {
  static const struct {
    const char *answers, *why;
  } cases[] = {
      {"", "has closed the connection"},
      {"cmd=respon", "has closed the connection"},
      {"\n", "answers '' to 'cmd=init"},
      {"hello\n", "answers 'hello'"},
      {"cmd=response_to_init rc=-1\n", "answers 'cmd=response_to_init rc=-1'"},
      {"cmd=my_kvsname kvsname=k\n", "answers 'cmd=my_kvsname"},
      {INIT "cmd=my_kvsname\n", "gives no table"},
      {INIT "cmd=my_kvsname kvsname=\n", "gives no table"},
      {INIT NAME "cmd=put_result rc=1 msg=full\n", "rc=1 msg=full' to 'cmd=put"},
      {INIT NAME PUT, "has closed the connection"},
      {INIT NAME PUT "cmd=abort\n", "answers 'cmd=abort' to 'cmd=barrier_in'"},
      {INIT NAME PUT BARRIER "cmd=get_result rc=-1 msg=key_not_found\n", "key_not_found"},
      {INIT NAME PUT BARRIER "cmd=get_result rc=0\n", "rank 0 says of its place"},
      {INIT NAME PUT BARRIER GET("a"), "rank 0 says of its place"},
      {INIT NAME PUT BARRIER GET("/0"), "rank 0 says of its place"},
      {INIT NAME PUT BARRIER GET("a/0") GET("b/x"), "rank 1 says of its place"},
      {INIT NAME PUT BARRIER GET("a/0") GET("b/3"), "rank 1 says of its place"},
      {INIT NAME PUT BARRIER GET("a/0") GET("b/-1"), "rank 1 says of its place"},
      {INIT NAME PUT BARRIER GET("a/0") GET("b/0") GET("a/1"), "has closed the connection"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run_t r;
    weft_status_t *s = exchange(cases[i].answers, &r);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
    bool is_named = strstr(weft_status_message(s), cases[i].why) != NULL;
    CU_ASSERT_TRUE(is_named && strstr(weft_status_message(s), "--cluster") != NULL);
    if (!is_named) printf("\n    %s: %s\n", cases[i].why, weft_status_message(s));
    weft_status_free(s);
    weft_arena_deinit(&r.arena);
  }
}

static void long_lines_are_refused(void) {
  char answers[6000];
  run_t r;
  memset(answers, 'x', sizeof answers - 1);
  answers[sizeof answers - 1] = '\0';
  weft_status_t *s = exchange(answers, &r);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "too long"));
  weft_status_free(s);
  memcpy(answers, INIT "cmd=my_kvsname kvsname=", strlen(INIT "cmd=my_kvsname kvsname="));
  memcpy(answers + 3000, "\n", 2);
  s = exchange(answers, &r); /* a name of a table that leaves no room in a request */
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "gives no table"));
  weft_status_free(s);
}

static void what_is_no_connection_is_refused(void) {
  const weft_rank_place_t own = {WEFT_STR("b"), 0};
  weft_rank_place_t places[1];
  weft_arena_t arena = WEFT_ARENA_INIT;
  int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  CU_ASSERT_TRUE_FATAL(file >= 0);
  const int fds[] = {file, 1 << 20};
  for (int i = 0; i < 2; i++) {
    weft_status_t *s = weft_pmi_places(fds[i], 0, &own, 1, &arena, places);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "no connection to a process manager"));
    weft_status_free(s);
  }
  close(file);
}

static void a_manager_that_is_gone_is_told(void) {
  const weft_rank_place_t own = {WEFT_STR("b"), 0};
  weft_rank_place_t places[1];
  weft_arena_t arena = WEFT_ARENA_INIT;
  int ends[2];
  CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  weft_status_t *s = weft_pmi_places(ends[0], 0, &own, 1, &arena, places);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "cannot write to the process manager"));
  weft_status_free(s);
}

static weft_status_t *exchange_and_drop(void) {
  run_t r;
  weft_status_t *s = exchange(INIT NAME PUT BARRIER GET("a/0") GET("b/0") GET("a/1") END, &r);
  weft_arena_deinit(&r.arena);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, exchange_and_drop());
  CU_ASSERT_TRUE(n >= 1);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"ranks_learn_each_others_places", ranks_learn_each_others_places},
      {"broken_answers_are_told", broken_answers_are_told},
      {"long_lines_are_refused", long_lines_are_refused},
      {"what_is_no_connection_is_refused", what_is_no_connection_is_refused},
      {"a_manager_that_is_gone_is_told", a_manager_that_is_gone_is_told},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("pmi", tests);
}
