/* tests/worker/transfer_log_test.c - the log of transfers: what is logged, how it reads, what is dropped. */
#include "worker/transfer_log.h"

#include <string.h>

#include "tests/runner.h"

#define KEY                                                                              \
  "/job:ps/replica:0/task:0/device:CPU:0;00000000000000ff;/job:worker/replica:0/task:1/" \
  "device:CPU:0;edge_4_x;0:0"
#define ROUTE \
  "edge_4_x from /job:ps/replica:0/task:0/device:CPU:0 to /job:worker/replica:0/task:1/device:CPU:0"

static weft_transfer_log_t *fresh(void) {
  weft_transfer_log_t *l = NULL;
  weft_status_t *s = weft_transfer_log_create(&l);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return l;
}

static void add(weft_transfer_log_t *l, int64_t step, int64_t bytes, int64_t micros) {
  weft_transfer_t t = {.step_id = step,
                       .key = WEFT_STR(KEY),
                       .start_micros = 1000,
                       .end_micros = 1000 + micros,
                       .bytes = bytes};
  weft_transfer_log_add(l, &t);
}

static bool has(const weft_strbuf_t *b, const char *text) {
  size_t n = strlen(text);
  for (size_t i = 0; i + n <= b->length; i++) {
    if (memcmp(b->data + i, text, n) == 0) return true;
  }
  return false;
}

static void only_open_steps_are_logged(void) {
  weft_transfer_log_t *l = fresh();
  CU_ASSERT_FALSE(weft_transfer_log_wants(NULL, 1));
  CU_ASSERT_FALSE(weft_transfer_log_wants(l, 1));
  weft_transfer_log_open(l, 1);
  CU_ASSERT_TRUE(weft_transfer_log_wants(l, 1));
  CU_ASSERT_FALSE(weft_transfer_log_wants(l, 2));
  add(l, 1, 4, 2);
  add(l, 2, 4, 2);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_transfer_log_take(l, 2, &out);
  CU_ASSERT_EQUAL(out.length, 0);
  weft_transfer_log_take(l, 1, &out);
  CU_ASSERT_TRUE(has(&out, "RecvTensor"));
  CU_ASSERT_TRUE(has(&out, "[4B] [16Mb/s] " ROUTE));
  CU_ASSERT_FALSE(weft_transfer_log_wants(l, 1));
  weft_strbuf_deinit(&out);
  weft_transfer_log_destroy(l);
}

static void a_copy_leaves_the_log_as_it_is(void) {
  weft_transfer_log_t *l = fresh();
  weft_strbuf_t copy = WEFT_STRBUF_INIT, taken = WEFT_STRBUF_INIT;
  weft_transfer_log_copy(l, 1, &copy);
  CU_ASSERT_EQUAL(copy.length, 0);
  weft_transfer_log_open(l, 1);
  add(l, 1, 4, 2);
  weft_transfer_log_copy(l, 1, &copy);
  weft_transfer_log_take(l, 1, &taken);
  CU_ASSERT_TRUE(has(&copy, ROUTE));
  CU_ASSERT_TRUE(weft_str_eq(weft_str_of(copy.data, copy.length), weft_str_of(taken.data, taken.length)));
  weft_strbuf_deinit(&copy);
  weft_strbuf_deinit(&taken);
  weft_transfer_log_destroy(l);
}

static void large_and_fast_transfers_are_told_in_large_units(void) {
  weft_transfer_log_t *l = fresh();
  weft_transfer_log_open(l, 7);
  add(l, 7, 3 << 20, 1000);
  add(l, 7, 100, 0);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_transfer_log_take(l, 7, &out);
  CU_ASSERT_TRUE(has(&out, "[3.0MB] [25.2Gb/s] " ROUTE));
  CU_ASSERT_TRUE(has(&out, "[100B] [800Mb/s] " ROUTE));
  weft_strbuf_deinit(&out);
  weft_transfer_log_destroy(l);
}

static weft_code_t ask(weft_transfer_log_t *l, const char *bytes, size_t n, weft_strbuf_t *out) {
  weft_status_t *s = weft_transfer_log_answer(l, weft_str_of(bytes, n), out);
  weft_code_t code = weft_status_code(s);
  weft_status_free(s);
  return code;
}

static void masters_switch_it_on_read_it_and_switch_it_off(void) {
  weft_transfer_log_t *l = fresh();
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  CU_ASSERT_EQUAL(ask(l, "\x08\x01", 2, &out), WEFT_OK); /* enable */
  CU_ASSERT_TRUE(weft_transfer_log_is_enabled(l));
  CU_ASSERT_TRUE(weft_transfer_log_wants(l, 3));
  add(l, 3, 4, 2);
  add(l, 4, 4, 2);
  CU_ASSERT_EQUAL(out.length, 0);
  CU_ASSERT_EQUAL(ask(l, "\x1a\x01\x03", 3, &out), WEFT_OK); /* fetch 3, packed */
  CU_ASSERT_TRUE(has(&out, ROUTE));
  out.length = 0;
  CU_ASSERT_EQUAL(ask(l, "\x18\x03", 2, &out), WEFT_OK); /* again, unpacked: it was forgotten */
  CU_ASSERT_FALSE(has(&out, ROUTE));
  CU_ASSERT_TRUE(out.length > 0);
  CU_ASSERT_TRUE(weft_transfer_log_is_enabled(l));
  out.length = 0;
  CU_ASSERT_EQUAL(ask(l, "\x10\x01\x20\x01", 4, &out), WEFT_OK); /* clear, disable */
  CU_ASSERT_FALSE(weft_transfer_log_wants(l, 3));
  CU_ASSERT_EQUAL(ask(l, "\x18\x04", 2, &out), WEFT_OK);
  CU_ASSERT_FALSE(has(&out, ROUTE));
  weft_transfer_log_enable(l, true);
  CU_ASSERT_EQUAL(ask(l, "", 0, &out), WEFT_OK); /* old masters: nothing said is off */
  CU_ASSERT_FALSE(weft_transfer_log_is_enabled(l));
  CU_ASSERT_EQUAL(ask(l, "\x1a\xff\xff", 3, &out), WEFT_INVALID_ARGUMENT);
  weft_strbuf_deinit(&out);
  weft_transfer_log_destroy(l);
}

static void a_log_without_readers_stays_small(void) {
  weft_transfer_log_t *l = fresh();
  weft_transfer_log_open(l, 1000000);
  weft_transfer_log_enable(l, true);
  for (int64_t step = 1; step <= 5000; step++) add(l, step, 4, 2);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_transfer_log_take(l, 1, &out);
  CU_ASSERT_EQUAL(out.length, 0);
  weft_transfer_log_take(l, 5000, &out);
  CU_ASSERT_TRUE(out.length > 0);
  weft_transfer_log_enable(l, false);
  CU_ASSERT_TRUE(weft_transfer_log_wants(l, 1000000)); /* the open one was not forgotten */
  weft_strbuf_deinit(&out);
  weft_transfer_log_destroy(l);
}

static void keys_that_are_none_are_left_out(void) {
  weft_transfer_log_t *l = fresh();
  weft_transfer_log_open(l, 1);
  weft_transfer_t t = {.step_id = 1, .key = WEFT_STR("no key"), .bytes = 4};
  weft_transfer_log_add(l, &t);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_transfer_log_take(l, 1, &out);
  CU_ASSERT_EQUAL(out.length, 0);
  weft_transfer_log_destroy(l);
}

static const CU_TestInfo tests[] = {
    {"only open steps are logged", only_open_steps_are_logged},
    {"a copy leaves the log as it is", a_copy_leaves_the_log_as_it_is},
    {"large and fast transfers are told in large units", large_and_fast_transfers_are_told_in_large_units},
    {"masters switch it on, read it and switch it off", masters_switch_it_on_read_it_and_switch_it_off},
    {"a log without readers stays small", a_log_without_readers_stays_small},
    {"keys that are none are left out", keys_that_are_none_are_left_out},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("transfer_log", tests); }
