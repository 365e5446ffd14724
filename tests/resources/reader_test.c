/* Readers as objects: what they read, how a wait for a name ends, each failing allocation. */
#include <stdio.h>
#include <string.h>

#include "base/cancellation.h"
#include "resources/reader.h"
#include "tests/directory.h"
#include "tests/runner.h"

/* A call that notes its end. */
typedef struct ended {
  weft_value_t outputs[2];
  int times;
  weft_code_t code;
} ended_t;

static void note(void *arg, weft_status_t *status) {
  ended_t *e = arg;
  e->times++;
  e->code = weft_status_code(status);
  weft_status_free(status);
}

static weft_resource_call_t call_for(ended_t *e, weft_canceller_t *canceller) {
  *e = (ended_t){.times = 0};
  return (weft_resource_call_t){.canceller = canceller, .outputs = e->outputs, .done = note, .arg = e};
}

static void drop(ended_t *e) {
  for (int i = 0; i < 2; i++) weft_tensor_release(e->outputs[i].tensor);
}

static weft_tensor_queue_t *fresh_queue(void) {
  weft_object_t *o = NULL;
  weft_tensor_queue_config_t config = {.kind = WEFT_QUEUE_FIFO,
                                       .num_components = 1,
                                       .capacity = 100,
                                       .dtypes = weft_calloc(1, sizeof *config.dtypes)};
  CU_ASSERT_PTR_NOT_NULL_FATAL(config.dtypes);
  config.dtypes[0] = WEFT_STRING;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_queue_create("q", &config, &o));
  return (weft_tensor_queue_t *)o;
}

static void put_name(weft_tensor_queue_t *q, const char *name) {
  ended_t e;
  weft_resource_call_t call = call_for(&e, NULL);
  weft_value_t x = {NULL, NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_string(weft_str(name), &x.tensor));
  weft_tensor_queue_enqueue(q, &call, &x, 1, false);
  CU_ASSERT_EQUAL(e.code, WEFT_OK);
  weft_tensor_release(x.tensor);
}

static weft_reader_t *fresh_reader(weft_reader_kind_t kind) {
  const weft_reader_config_t config = {.kind = kind};
  weft_object_t *o = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_reader_create(&config, &o));
  return (weft_reader_t *)o;
}

static void release(weft_reader_t *r, weft_tensor_queue_t *q) {
  weft_object_release((weft_object_t *)r);
  weft_object_release((weft_object_t *)q);
}

static bool is_text(const ended_t *e, int output, int64_t i, const char *text) {
  return e->outputs[output].tensor != NULL &&
         weft_str_is(weft_tensor_str_at(e->outputs[output].tensor, i), text);
}

static void a_read_waits_for_a_name_and_others_wait_behind_it(void) {
  weft_tensor_queue_t *q = fresh_queue();
  weft_reader_t *r = fresh_reader(WEFT_READER_IDENTITY);
  ended_t first, second, count;
  weft_resource_call_t a = call_for(&first, NULL), b = call_for(&second, NULL), c = call_for(&count, NULL);
  weft_reader_read(r, &a, q);
  weft_reader_read(r, &b, q);
  weft_reader_num_records(r, &c);
  CU_ASSERT_EQUAL(first.times + second.times + count.times, 0);
  put_name(q, "x");
  CU_ASSERT_EQUAL(first.times, 1);
  CU_ASSERT_TRUE(is_text(&first, 0, 0, "x") && is_text(&first, 1, 0, "x"));
  CU_ASSERT_EQUAL(second.times + count.times, 0);
  put_name(q, "y");
  CU_ASSERT_TRUE(is_text(&second, 0, 0, "y"));
  CU_ASSERT_EQUAL(count.times, 1);
  CU_ASSERT_EQUAL(*(int64_t *)count.outputs[0].tensor->data, 2);
  drop(&first);
  drop(&second);
  drop(&count);
  release(r, q);
}

static void a_wait_ends_when_it_is_cancelled_or_the_queue_is_closed(void) {
  weft_tensor_queue_t *q = fresh_queue();
  weft_reader_t *r = fresh_reader(WEFT_READER_TEXT_LINE);
  weft_canceller_t *early = weft_canceller_create(NULL), *late = weft_canceller_create(NULL);
  ended_t first, second, third, closed;
  CU_ASSERT_TRUE_FATAL(early != NULL && late != NULL);
  weft_resource_call_t a = call_for(&first, early), b = call_for(&second, late), c = call_for(&third, NULL);
  weft_reader_read(r, &a, q);
  weft_reader_read(r, &b, q);
  weft_reader_read(r, &c, q);
  weft_canceller_cancel(late); /* which is still in line */
  CU_ASSERT_EQUAL(second.code, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(first.times + third.times, 0);
  weft_canceller_cancel(early);
  CU_ASSERT_EQUAL(first.code, WEFT_CANCELLED);
  CU_ASSERT_EQUAL(third.times, 0);
  weft_resource_call_t close = call_for(&closed, NULL);
  weft_tensor_queue_close(q, &close, false);
  CU_ASSERT_EQUAL(third.times, 1);
  CU_ASSERT_EQUAL(third.code, WEFT_OUT_OF_RANGE);
  weft_canceller_release(early);
  weft_canceller_release(late);
  release(r, q);
}

static weft_status_t *read_a_file(const char *path) {
  const weft_reader_config_t config = {.kind = WEFT_READER_TEXT_LINE};
  weft_tensor_queue_t *q = fresh_queue();
  weft_object_t *o = NULL;
  ended_t e;
  put_name(q, path);
  weft_status_t *s = weft_reader_create(&config, &o);
  if (s == NULL) {
    weft_resource_call_t call = call_for(&e, NULL);
    weft_reader_read_up_to((weft_reader_t *)o, &call, q, 5);
    CU_ASSERT_EQUAL(e.times, 1);
    CU_ASSERT_TRUE(e.code == WEFT_OK || e.code == WEFT_RESOURCE_EXHAUSTED);
    if (e.code == WEFT_OK) {
      CU_ASSERT_EQUAL(e.outputs[0].tensor->count, 2);
      CU_ASSERT_TRUE(is_text(&e, 1, 0, "one") && is_text(&e, 1, 1, "two"));
    } else {
      s = WEFT_ERROR(RESOURCE_EXHAUSTED, "a read failed");
    }
    drop(&e);
  }
  weft_object_release(o);
  weft_object_release((weft_object_t *)q);
  return s;
}

static void a_file_is_read_line_by_line(void) {
  char path[512];
  (void)weft_test_directory();
  snprintf(path, sizeof path, "%s", weft_test_path("lines"));
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("one\r\ntwo", f);
  fclose(f);
  weft_status_t *s = read_a_file(path);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
}

static const CU_TestInfo tests[] = {
    {"a read waits for a name and others wait behind it", a_read_waits_for_a_name_and_others_wait_behind_it},
    {"a wait ends when it is cancelled or the queue is closed",
     a_wait_ends_when_it_is_cancelled_or_the_queue_is_closed},
    {"a file is read line by line", a_file_is_read_line_by_line},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("reader", tests); }
