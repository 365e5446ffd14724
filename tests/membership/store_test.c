/* Keys and values that wait for each other. */
#include "membership/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/membership/membership_testing.h"
#include "tests/runner.h"

static weft_timer_t *timer;
static weft_store_t *store;

static void begin(void) {
  CU_ASSERT_PTR_NULL_FATAL(weft_timer_create(&timer));
  CU_ASSERT_PTR_NULL_FATAL(weft_store_create(timer, &store));
}

static void end(void) {
  weft_store_destroy(store);
  weft_timer_destroy(timer);
}

static weft_store_request_t request(weft_store_op_t op, const char *key) {
  return (weft_store_request_t){.op = op, .key = weft_str(key)};
}

/* Asks for what ends at once. */
static void expect(weft_store_request_t r, weft_code_t code, const char *text) {
  weft_test_answer_t a;
  weft_test_answer_init(&a);
  weft_store_ask(store, &r, NULL, weft_test_answered, &a);
  CU_ASSERT_TRUE(weft_test_answer_is_done(&a));
  CU_ASSERT_EQUAL(a.code, code);
  CU_ASSERT_STRING_EQUAL(code == WEFT_OK ? a.value : a.message, text);
  CU_ASSERT_EQUAL(a.times, 1);
  weft_test_answer_deinit(&a);
}

static weft_store_request_t set(const char *key, const char *value) {
  weft_store_request_t r = request(WEFT_STORE_SET, key);
  r.value = weft_str(value);
  return r;
}
static weft_store_request_t get(const char *key, int64_t timeout_ms) {
  weft_store_request_t r = request(WEFT_STORE_GET, key);
  r.timeout_ms = timeout_ms;
  return r;
}
static weft_store_request_t add(const char *key, int64_t delta) {
  weft_store_request_t r = request(WEFT_STORE_ADD, key);
  r.delta = delta;
  return r;
}
static weft_store_request_t compare_set(const char *key, const char *expected, const char *desired) {
  weft_store_request_t r = request(WEFT_STORE_COMPARE_SET, key);
  r.expected = weft_str(expected);
  r.value = weft_str(desired);
  return r;
}
static weft_store_request_t barrier(const char *name, int64_t size, int64_t timeout_ms) {
  weft_store_request_t r = request(WEFT_STORE_BARRIER, name);
  r.size = size;
  r.timeout_ms = timeout_ms;
  return r;
}

static void values_are_set_added_compared_and_deleted(void) {
  begin();
  expect(get("a", 0), WEFT_NOT_FOUND, "there is no 'a'");
  expect(set("a", "x"), WEFT_OK, "");
  expect(get("a", 0), WEFT_OK, "x");
  expect(set("a", ""), WEFT_OK, "");
  expect(get("a", 0), WEFT_OK, "");
  expect(add("n", 5), WEFT_OK, "5");
  expect(add("n", -7), WEFT_OK, "-2");
  expect(set("a", "word"), WEFT_OK, "");
  expect(add("a", 1), WEFT_INVALID_ARGUMENT, "cannot add to 'a': its value is not a number");
  expect(set("n", "9223372036854775807"), WEFT_OK, "");
  expect(add("n", 1), WEFT_OUT_OF_RANGE, "cannot add 1 to 'n': it is 9223372036854775807");
  expect(compare_set("c", "x", "y"), WEFT_OK, ""); /* not there, so it is not x */
  expect(get("c", 0), WEFT_NOT_FOUND, "there is no 'c'");
  expect(compare_set("c", "", "1"), WEFT_OK, "1");
  expect(compare_set("c", "", "2"), WEFT_OK, "1");
  expect(compare_set("c", "1", "2"), WEFT_OK, "2");
  expect(request(WEFT_STORE_DELETE, "c"), WEFT_OK, "1");
  expect(request(WEFT_STORE_DELETE, "c"), WEFT_OK, "0");
  expect(set("", "x"), WEFT_INVALID_ARGUMENT, "a key must not be empty");
  expect(get("a", -1), WEFT_INVALID_ARGUMENT, "the timeout for 'a' is -1 ms");
  expect(barrier("b", 0, 5), WEFT_INVALID_ARGUMENT, "barrier 'b' is for 0 callers");
  end();
}

static void a_value_beyond_the_limit_is_refused(void) {
  begin();
  size_t n = (size_t)WEFT_STORE_MAX_VALUE + 1;
  char *big = weft_malloc(n);
  memset(big, 'x', n);
  weft_test_answer_t a;
  weft_test_answer_init(&a);
  weft_store_request_t r = {.op = WEFT_STORE_SET, .key = WEFT_STR("k"), .value = weft_str_of(big, n)};
  weft_store_ask(store, &r, NULL, weft_test_answered, &a);
  CU_ASSERT_EQUAL(a.code, WEFT_RESOURCE_EXHAUSTED);
  r.value.length = WEFT_STORE_MAX_VALUE; /* four of these are too many for all */
  char key[2] = "0";
  weft_code_t codes[5];
  for (int i = 0; i < 5; i++) {
    key[0] = (char)('0' + i);
    r.key = weft_str(key);
    weft_store_ask(store, &r, NULL, weft_test_answered, &a);
    codes[i] = a.code;
  }
  CU_ASSERT_TRUE(codes[0] == WEFT_OK && codes[2] == WEFT_OK && codes[4] == WEFT_RESOURCE_EXHAUSTED);
  weft_free(big);
  weft_test_answer_deinit(&a);
  end();
}

enum { CLIENTS = 64 };

static void a_set_wakes_all_waits(void) {
  weft_test_answer_t a[CLIENTS];
  begin();
  for (int i = 0; i < CLIENTS; i++) {
    weft_store_request_t r = get("k", 60000);
    weft_test_answer_init(&a[i]);
    weft_store_ask(store, &r, NULL, weft_test_answered, &a[i]);
    CU_ASSERT_FALSE(weft_test_answer_is_done(&a[i]));
  }
  expect(set("other", "x"), WEFT_OK, "");
  CU_ASSERT_FALSE(weft_test_answer_is_done(&a[7]));
  expect(set("k", "v"), WEFT_OK, "");
  for (int i = 0; i < CLIENTS; i++) {
    CU_ASSERT_TRUE(a[i].is_done && a[i].code == WEFT_OK && a[i].times == 1);
    CU_ASSERT_STRING_EQUAL(a[i].value, "v");
    weft_test_answer_deinit(&a[i]);
  }
  end();
}

static void waits_end_with_their_deadline_or_canceller(void) {
  weft_test_answer_t a, b;
  begin();
  weft_test_answer_init(&a);
  weft_test_answer_init(&b);
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_store_request_t r = get("k", 20);
  weft_store_ask(store, &r, c, weft_test_answered, &a);
  CU_ASSERT_EQUAL(weft_test_answer_wait(&a), WEFT_DEADLINE_EXCEEDED);
  CU_ASSERT_STRING_EQUAL(a.message, "'k' was not set in time");
  r.timeout_ms = 60000;
  weft_store_ask(store, &r, c, weft_test_answered, &a);
  weft_store_ask(store, &r, NULL, weft_test_answered, &b);
  weft_canceller_cancel(c);
  CU_ASSERT_EQUAL(a.code, WEFT_CANCELLED);
  weft_store_ask(store, &r, c, weft_test_answered, &a); /* it is cancelled already */
  CU_ASSERT_EQUAL(a.code, WEFT_CANCELLED);
  CU_ASSERT_FALSE(weft_test_answer_is_done(&b));
  expect(add("k", 1), WEFT_OK, "1");
  CU_ASSERT_EQUAL(weft_test_answer_wait(&b), WEFT_OK);
  CU_ASSERT_STRING_EQUAL(b.value, "1");
  weft_canceller_release(c);
  weft_test_answer_deinit(&a);
  weft_test_answer_deinit(&b);
  end();
}

static void a_barrier_opens_for_the_last_and_again(void) {
  weft_test_answer_t a[7];
  begin();
  for (int i = 0; i < 7; i++) weft_test_answer_init(&a[i]);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 7; i++) {
      weft_store_request_t r = barrier("b", 7, 60000);
      weft_store_ask(store, &r, NULL, weft_test_answered, &a[i]);
      if (i < 6) CU_ASSERT_FALSE(weft_test_answer_is_done(&a[0]) || weft_test_answer_is_done(&a[i]));
    }
    for (int i = 0; i < 7; i++) CU_ASSERT_EQUAL(weft_test_answer_wait(&a[i]), WEFT_OK);
  }
  weft_store_request_t r = barrier("b", 3, 20);
  weft_store_ask(store, &r, NULL, weft_test_answered, &a[0]);
  expect(barrier("b", 2, 60000), WEFT_INVALID_ARGUMENT, "barrier 'b' is for 3, not for 2");
  CU_ASSERT_EQUAL(weft_test_answer_wait(&a[0]), WEFT_DEADLINE_EXCEEDED);
  CU_ASSERT_STRING_EQUAL(a[0].message, "only 1 of 3 callers arrived at the barrier 'b' in time");
  expect(barrier("b", 1, 60000), WEFT_OK, ""); /* the wait that ended has left no trace */
  for (int i = 0; i < 7; i++) weft_test_answer_deinit(&a[i]);
  end();
}

static void a_stop_ends_every_wait(void) {
  weft_test_answer_t a, b;
  begin();
  weft_test_answer_init(&a);
  weft_test_answer_init(&b);
  weft_store_request_t g = get("k", 60000), w = barrier("b", 2, 60000);
  weft_store_ask(store, &g, NULL, weft_test_answered, &a);
  weft_store_ask(store, &w, NULL, weft_test_answered, &b);
  weft_store_stop(store);
  CU_ASSERT_TRUE(a.code == WEFT_CANCELLED && b.code == WEFT_CANCELLED);
  expect(set("k", "v"), WEFT_CANCELLED, "'k' cannot be reached: the coordination service is shutting down");
  weft_test_answer_deinit(&a);
  weft_test_answer_deinit(&b);
  end();
}

/* ---- many at once ---- */

enum { WRITERS = 8, ROUNDS = 500 };

static void *add_often(void *arg) {
  weft_test_answer_t a;
  (void)arg;
  weft_test_answer_init(&a);
  for (int i = 0; i < ROUNDS; i++) {
    weft_store_request_t r = add("sum", 1);
    weft_store_ask(store, &r, NULL, weft_test_answered, &a);
  }
  weft_test_answer_deinit(&a);
  return NULL;
}

/* Each success of a compare-set from n to n + 1 is one; a failure tells what is there. */
static void *count_by_compare_set(void *arg) {
  weft_test_answer_t a;
  int *wins = arg;
  char now[256] = "", next[64];
  weft_test_answer_init(&a);
  while (*wins < ROUNDS) {
    snprintf(next, sizeof next, "%d by %p", atoi(now) + 1, arg);
    weft_store_request_t r = compare_set("count", now, next);
    weft_store_ask(store, &r, NULL, weft_test_answered, &a);
    if (strcmp(a.value, next) == 0) (*wins)++;
    snprintf(now, sizeof now, "%s", a.value);
  }
  weft_test_answer_deinit(&a);
  return NULL;
}

static void adds_and_compare_sets_are_atomic(void) {
  pthread_t threads[2 * WRITERS];
  int wins[WRITERS] = {0};
  begin();
  for (int i = 0; i < WRITERS; i++) {
    pthread_create(&threads[i], NULL, add_often, NULL);
    pthread_create(&threads[WRITERS + i], NULL, count_by_compare_set, &wins[i]);
  }
  for (int i = 0; i < 2 * WRITERS; i++) pthread_join(threads[i], NULL);
  expect(get("sum", 0), WEFT_OK, "4000");
  weft_test_answer_t a;
  weft_test_answer_init(&a);
  weft_store_request_t r = get("count", 0);
  weft_store_ask(store, &r, NULL, weft_test_answered, &a);
  CU_ASSERT_EQUAL(atoi(a.value), WRITERS * ROUNDS); /* no success was lost, none counted twice */
  weft_test_answer_deinit(&a);
  end();
}

/* Deadlines, cancels and sets race for the same waits; each ends exactly once. */
static void *race_sets(void *arg) {
  (void)arg;
  for (int i = 0; i < 300; i++) {
    weft_test_answer_t a;
    weft_test_answer_init(&a);
    weft_store_request_t s = set("race", "x"), d = request(WEFT_STORE_DELETE, "race");
    weft_store_ask(store, &s, NULL, weft_test_answered, &a);
    weft_store_ask(store, &d, NULL, weft_test_answered, &a);
    weft_test_answer_deinit(&a);
  }
  return NULL;
}

static void *race_waits(void *arg) {
  int *wrong = arg;
  for (int i = 0; i < 300; i++) {
    weft_test_answer_t a;
    weft_test_answer_init(&a);
    weft_canceller_t *c = weft_canceller_create(NULL);
    weft_store_request_t r = get("race", 1);
    weft_store_ask(store, &r, c, weft_test_answered, &a);
    if (i % 2 == 0) weft_canceller_cancel(c);
    weft_code_t code = weft_test_answer_wait(&a);
    bool ok = code == WEFT_OK || code == WEFT_CANCELLED || code == WEFT_DEADLINE_EXCEEDED;
    *wrong += !ok || a.times != 1;
    weft_canceller_release(c);
    weft_test_answer_deinit(&a);
  }
  return NULL;
}

static void every_wait_ends_once_whatever_ends_it(void) {
  pthread_t threads[4];
  int wrong[3] = {0};
  begin();
  pthread_create(&threads[3], NULL, race_sets, NULL);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, race_waits, &wrong[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CU_ASSERT_EQUAL(wrong[0] + wrong[1] + wrong[2], 0);
  end();
}

static weft_status_t *use_and_report(void) {
  weft_store_t *s = NULL;
  weft_test_answer_t a;
  WEFT_RETURN_IF_ERROR(weft_store_create(timer, &s));
  weft_test_answer_init(&a);
  weft_store_request_t r = set("k", "v");
  weft_store_ask(s, &r, NULL, weft_test_answered, &a);
  if (a.code == WEFT_OK) {
    r = barrier("b", 1, 60000);
    weft_store_ask(s, &r, NULL, weft_test_answered, &a);
  }
  if (a.code == WEFT_OK) {
    r = add("n", 1);
    weft_store_ask(s, &r, NULL, weft_test_answered, &a);
  }
  weft_code_t code = a.code;
  weft_test_answer_deinit(&a);
  weft_store_destroy(s);
  return code == WEFT_OK ? NULL : weft_status_from_wire((int)code, "", 0);
}

/* A wait that is cancelled later; without memory it fails, and is not cancelled. */
static weft_status_t *wait_and_cancel(void) {
  weft_canceller_t *c = weft_canceller_create(NULL);
  if (c == NULL) return WEFT_NO_MEMORY("a canceller");
  weft_test_answer_t a;
  weft_test_answer_init(&a);
  weft_store_ask(store,
                 &(weft_store_request_t){.op = WEFT_STORE_GET, .key = WEFT_STR("w"), .timeout_ms = 60000}, c,
                 weft_test_answered, &a);
  const bool had_memory = !weft_test_answer_is_done(&a);
  weft_canceller_cancel(c);
  const weft_code_t code = weft_test_answer_wait(&a);
  CU_ASSERT_EQUAL(code, had_memory ? WEFT_CANCELLED : WEFT_RESOURCE_EXHAUSTED);
  weft_test_answer_deinit(&a);
  weft_canceller_release(c);
  return had_memory ? NULL : weft_status_from_wire((int)code, "", 0);
}

static void every_failed_allocation_is_reported(void) {
  int n = 0;
  begin();
  weft_status_free(use_and_report()); /* the timer's thread is there */
  WEFT_FAIL_EACH_ALLOCATION(n, s, use_and_report());
  CU_ASSERT_TRUE(n > 5);
  WEFT_FAIL_EACH_ALLOCATION(n, s, wait_and_cancel());
  CU_ASSERT_TRUE(n > 2);
  end();
}

static const CU_TestInfo tests[] = {
    {"values are set, added, compared and deleted", values_are_set_added_compared_and_deleted},
    {"a value beyond the limit is refused", a_value_beyond_the_limit_is_refused},
    {"a set wakes all waits", a_set_wakes_all_waits},
    {"waits end with their deadline or canceller", waits_end_with_their_deadline_or_canceller},
    {"a barrier opens for the last, and again", a_barrier_opens_for_the_last_and_again},
    {"a stop ends every wait", a_stop_ends_every_wait},
    {"adds and compare-sets are atomic", adds_and_compare_sets_are_atomic},
    {"every wait ends once, whatever ends it", every_wait_ends_once_whatever_ends_it},
    {"every failed allocation is reported", every_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("store", tests); }
