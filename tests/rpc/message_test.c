#include "rpc/message.h"

#include "base/alloc.h"
#include "tests/runner.h"

static void count(void *arg) { ++*(int *)arg; }

static weft_message_t *fresh(void) {
  weft_message_t *m = NULL;
  CU_ASSERT_PTR_NULL(weft_message_create(&m));
  return m;
}

static void pieces_come_in_the_order_appended(void) {
  weft_message_t *m = fresh();
  int released = 0;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&b, "-mid-");
  CU_ASSERT_PTR_NULL(weft_message_append(m, WEFT_STR("head")));
  CU_ASSERT_PTR_NULL(weft_message_take(m, &b));
  CU_ASSERT_PTR_NULL(b.data);
  CU_ASSERT_PTR_NULL(weft_message_share(m, "tail", 4, count, &released));
  CU_ASSERT_EQUAL(weft_message_bytes(m), 13);
  CU_ASSERT_EQUAL(weft_message_num_pieces(m), 3);
  weft_str_t all;
  CU_ASSERT_PTR_NULL(weft_message_flatten(m, &all));
  CU_ASSERT_TRUE(weft_str_is(all, "head-mid-tail"));
  CU_ASSERT_EQUAL(released, 0);
  weft_message_destroy(m);
  CU_ASSERT_EQUAL(released, 1);
}

static void many_pieces_stay_where_they_are(void) {
  weft_message_t *m = fresh();
  CU_ASSERT_PTR_NULL(weft_message_append(m, WEFT_STR("a")));
  weft_str_t first = weft_message_piece(m, 0);
  for (int i = 0; i < 1000; i++) CU_ASSERT_PTR_NULL(weft_message_append(m, WEFT_STR("b")));
  CU_ASSERT_PTR_EQUAL(weft_message_piece(m, 0).data, first.data);
  CU_ASSERT_TRUE(weft_str_is(first, "a"));
  CU_ASSERT_EQUAL(weft_message_bytes(m), 1001);
  weft_message_destroy(m);
}

static void read_crosses_pieces_and_refuses_what_is_not_there(void) {
  weft_message_t *m = fresh();
  CU_ASSERT_PTR_NULL(weft_message_append(m, WEFT_STR("abc")));
  CU_ASSERT_PTR_NULL(weft_message_append(m, WEFT_STR("defg")));
  char to[8] = "";
  CU_ASSERT_TRUE(weft_message_read(m, 2, to, 3));
  CU_ASSERT_EQUAL(memcmp(to, "cde", 3), 0);
  CU_ASSERT_TRUE(weft_message_read(m, 7, to, 0));
  CU_ASSERT_FALSE(weft_message_read(m, 5, to, 3));
  CU_ASSERT_FALSE(weft_message_read(m, 8, to, 0));
  CU_ASSERT_FALSE(weft_message_read(m, SIZE_MAX, to, 2));
  weft_message_destroy(m);
}

static void an_empty_share_is_released_at_once(void) {
  weft_message_t *m = fresh();
  int released = 0;
  CU_ASSERT_PTR_NULL(weft_message_share(m, "", 0, count, &released));
  CU_ASSERT_EQUAL(released, 1);
  CU_ASSERT_EQUAL(weft_message_num_pieces(m), 0);
  weft_message_destroy(m);
}

static weft_status_t *build(int *released, int *shared) {
  weft_message_t *m = NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_message_create(&m);
  for (int i = 0; i < 9 && s == NULL; i++) {
    ++*shared;
    s = weft_message_share(m, "x", 1, count, released);
  }
  if (s == NULL) s = weft_message_append(m, WEFT_STR("y"));
  for (int i = 0; i < 2000; i++) weft_strbuf_putc(&b, 'z');
  if (s == NULL) s = weft_message_take(m, &b);
  weft_str_t all;
  if (s == NULL) s = weft_message_flatten(m, &all);
  weft_strbuf_deinit(&b);
  weft_message_destroy(m);
  return s;
}

static void each_failed_allocation_releases_what_was_shared(void) {
  int n, released = 0, shared = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, build(&released, &shared));
  CU_ASSERT_TRUE(n >= 3);
  CU_ASSERT_EQUAL(released, shared);
}

static const CU_TestInfo tests[] = {
    {"pieces come in the order appended", pieces_come_in_the_order_appended},
    {"many pieces stay where they are", many_pieces_stay_where_they_are},
    {"read crosses pieces and refuses what is not there", read_crosses_pieces_and_refuses_what_is_not_there},
    {"an empty share is released at once", an_empty_share_is_released_at_once},
    {"each failed allocation releases what was shared", each_failed_allocation_releases_what_was_shared},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("message", tests); }
