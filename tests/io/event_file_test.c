/* tests/io/event_file_test.c - event files: names, the first record, when they are written, what fails. The
 * conformance suite has TensorFlow and TensorBoard read them. */
#include "io/event_file.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/event_values.h"
#include "io/file.h"
#include "io/record_reader.h"
#include "io/summary_check.h"
#include "protos/wire.h"
#include "tests/directory.h"
#include "tests/runner.h"

static void must(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
}

static weft_event_file_t *create(int64_t max_queue, int64_t flush_millis) {
  weft_event_file_t *f = NULL;
  must(weft_event_file_create(weft_str(weft_test_directory()), WEFT_STR(".v2"), max_queue, flush_millis, &f));
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  return f;
}

/* An event of this step, with a scalar. */
static weft_status_t *add(weft_event_file_t *f, int64_t step) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_event_begin(&b, step);
  size_t summary = weft_wire_begin(&b, WEFT_EVENT_SUMMARY);
  weft_event_put_scalar(&b, WEFT_STR("t"), (float)step, NULL);
  weft_wire_end(&b, summary);
  weft_status_t *s =
      b.failed ? WEFT_NO_MEMORY("an event") : weft_event_file_add(f, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  return s;
}

/* Reads the records of a file; what `each` gets is lent. Returns how many there are. */
typedef void each_fn(void *arg, weft_str_t record);
static int read_records(const char *path, each_fn *each, void *arg) {
  weft_byte_stream_t *stream = NULL;
  must(weft_byte_stream_open(path, WEFT_COMPRESSION_NONE, &stream));
  if (stream == NULL) return -1;
  weft_record_reader_t r = {.stream = stream};
  weft_str_t record;
  bool is_end = false;
  int n = 0;
  while (!is_end) {
    weft_status_t *s = weft_record_reader_lend(&r, &record, &is_end);
    must(s);
    if (s != NULL) break;
    if (is_end) continue;
    if (each != NULL) each(arg, record);
    n++;
  }
  weft_record_reader_deinit(&r);
  weft_byte_stream_close(stream);
  return n;
}

static void the_name_has_time_host_process_and_number(void) {
  char host[256] = "", end[400];
  weft_event_file_t *f = create(0, -1), *other = NULL;
  must(weft_event_file_create(weft_file_dirname(weft_str(weft_event_file_path(f))), WEFT_STR(".v2"), 0, -1,
                              &other));
  CU_ASSERT_EQUAL(gethostname(host, sizeof host - 1), 0);
  weft_str_t name = weft_file_basename(weft_str(weft_event_file_path(f)));
  CU_ASSERT_TRUE(weft_str_starts_with(name, "events.out.tfevents."));
  snprintf(end, sizeof end, ".%s.%ld.", host, (long)getpid());
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_event_file_path(f), end));
  CU_ASSERT_TRUE(weft_str_ends_with(name, ".v2"));
  CU_ASSERT_STRING_NOT_EQUAL(weft_event_file_path(f), weft_event_file_path(other));
  must(weft_event_file_close(f));
  must(weft_event_file_close(other));
  must(weft_event_file_close(NULL));
}

/* Fields of an event, as far as they are looked at. */
typedef struct seen {
  int64_t steps[8];
  weft_str_t first;
  char version[32];
  int n;
} seen_t;

static void look(void *arg, weft_str_t record) {
  seen_t *seen = arg;
  weft_wire_field_t f;
  double time = 0;
  int64_t step = 0;
  for (weft_wire_reader_t r = weft_wire_reader(record); weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_FIXED64)) time = weft_wire_double(f.value);
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_VARINT)) step = (int64_t)f.value;
    if (f.tag == WEFT_WIRE_TAG(WEFT_EVENT_FILE_VERSION, WEFT_WIRE_BYTES))
      snprintf(seen->version, sizeof seen->version, "%.*s", WEFT_STR_ARGS(f.bytes));
    if (f.tag == WEFT_WIRE_TAG(WEFT_EVENT_SUMMARY, WEFT_WIRE_BYTES))
      CU_ASSERT_TRUE(weft_summary_has_values(f.bytes));
  }
  CU_ASSERT_TRUE(time > 1e9);
  if (seen->n < 8) seen->steps[seen->n++] = step;
}

static void events_follow_the_version_in_their_order(void) {
  seen_t seen = {.n = 0};
  char path[500];
  weft_event_file_t *f = create(100, -1);
  for (int64_t step = 1; step <= 3; step++) must(add(f, step * 10));
  snprintf(path, sizeof path, "%s", weft_event_file_path(f));
  must(weft_event_file_close(f));
  CU_ASSERT_EQUAL(read_records(path, look, &seen), 4);
  CU_ASSERT_STRING_EQUAL(seen.version, "brain.Event:2");
  CU_ASSERT_EQUAL(seen.steps[0], 0);
  for (int i = 1; i < 4; i++) CU_ASSERT_EQUAL(seen.steps[i], 10 * i);
}

/* The number of events that may wait, and what is in the file after five. */
static void a_full_queue_is_written(void) {
  static const struct {
    int max_queue, in_file;
  } cases[] = {{0, 6}, {1, 5}, {2, 4}, {4, 6}, {5, 1}, {100, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_event_file_t *f = create(cases[i].max_queue, -1);
    for (int64_t step = 1; step <= 5; step++) must(add(f, step));
    CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), cases[i].in_file);
    must(weft_event_file_flush(f));
    must(weft_event_file_flush(f)); /* nothing waits */
    CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), 6);
    must(weft_event_file_close(f));
  }
}

static void time_and_size_write_the_queue_too(void) {
  enum { LARGE = 17 << 20 };
  weft_event_file_t *f = create(100, -1);
  char *bytes = calloc(1, LARGE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
  must(weft_event_file_add(f, weft_str_of(bytes, LARGE)));
  CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), 2);
  free(bytes);
  must(weft_event_file_close(f));
  f = create(100, 1);
  int n = 0;
  while (n == 0 || read_records(weft_event_file_path(f), NULL, NULL) == 1)
    must(add(f, ++n)); /* 1 ms passes */
  must(weft_event_file_close(f));
}

static void add_some(weft_event_file_t *f) {
  for (int64_t step = 0; step < 200; step++) must(add(f, step));
}
static void *add_from_a_thread(void *arg) {
  add_some(arg);
  return NULL;
}

static void threads_do_not_mix_records(void) {
  pthread_t threads[4];
  weft_event_file_t *f = create(7, -1);
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(pthread_create(&threads[i], NULL, add_from_a_thread, f), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  must(weft_event_file_flush(f));
  CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), 801);
  must(weft_event_file_close(f));
}

static void refused(weft_status_t *s, weft_code_t code, const char *text) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(s == NULL ? NULL : strstr(weft_status_message(s), text));
  weft_status_free(s);
}

static void errors_name_the_file(void) {
  weft_event_file_t *f = NULL, *none = NULL;
  char directory[500];
  weft_status_t *s;
  snprintf(directory, sizeof directory, "%s/file", weft_test_directory());
  must(weft_file_append(directory, "x", 1));
  s = weft_event_file_create(weft_str(directory), WEFT_STR(""), 0, -1, &none);
  CU_ASSERT_PTR_NULL(none);
  refused(s, weft_status_code(s) == WEFT_OK ? WEFT_UNKNOWN : weft_status_code(s), directory);
  f = create(100, -1);
  must(add(f, 1));
  weft_file_remove(weft_event_file_path(f));
  refused(weft_event_file_flush(f), WEFT_UNKNOWN, weft_event_file_path(f));
  refused(weft_event_file_close(f), WEFT_UNKNOWN, "has disappeared");
}

static rlim_t size_of(const char *path) {
  struct stat at;
  CU_ASSERT_EQUAL_FATAL(stat(path, &at), 0);
  return (rlim_t)at.st_size;
}

static void limit_file_size(rlim_t bytes) {
  struct rlimit limit;
  CU_ASSERT_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A disk that is full takes a part of a write: that part goes, and what waited is written when there is room.
 */
static void a_write_that_fails_leaves_no_half_of_a_record(void) {
  weft_status_t *s = NULL;
  weft_event_file_t *f = create(100, -1);
  must(add(f, 1));
  must(weft_event_file_flush(f));
  must(add(f, 2));
  limit_file_size(size_of(weft_event_file_path(f)) + 10);
  s = weft_event_file_flush(f);
  limit_file_size(RLIM_INFINITY);
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  refused(s, weft_status_code(s), weft_event_file_path(f));
  CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), 2);
  must(weft_event_file_flush(f));
  CU_ASSERT_EQUAL(read_records(weft_event_file_path(f), NULL, NULL), 3);
  must(weft_event_file_close(f));
}

static weft_status_t *write_one(void) {
  weft_event_file_t *f = NULL;
  WEFT_RETURN_IF_ERROR(weft_event_file_create(weft_str(weft_test_path("logs")), WEFT_STR(""), 0, -1, &f));
  weft_status_t *s = add(f, 1);
  return weft_status_join(s, weft_event_file_close(f));
}

static void each_failing_allocation_is_reported(void) {
  long n;
  weft_test_directory();
  WEFT_FAIL_EACH_ALLOCATION(n, s, write_one());
  CU_ASSERT_TRUE(n > 3);
}

/* ---- is it a summary? ---- */

static bool has_values(const weft_strbuf_t *b) {
  return weft_summary_has_values(weft_str_of(b->data, b->length));
}

static void texts_are_not_taken_for_summaries(void) {
  static const char *const texts[] = {"",         "hello",       "loss",         "\n",
                                      "\n\n",     "\n\x05hello", "\n\x00",       "\x08\x01",
                                      "\xff\xff", "{\"a\": 1}",  "\n\x03\n\x01x"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    CU_ASSERT_FALSE(weft_summary_has_values(weft_str(texts[i])));
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_event_put_scalar(&b, WEFT_STR("loss"), 0, NULL);
  CU_ASSERT_TRUE(has_values(&b));
  weft_event_put_text(&b, WEFT_STR("words"), WEFT_STR("some"));
  weft_event_put_graph(&b, WEFT_STR("graph"), WEFT_STR(""), WEFT_STR(""));
  CU_ASSERT_TRUE(has_values(&b));
  for (size_t cut = 1; cut < b.length; cut++) { /* a part is one only if it ends between two values */
    weft_str_t part = weft_str_of(b.data, cut);
    if (weft_summary_has_values(part)) CU_ASSERT_TRUE(weft_summary_is_valid(part));
  }
  weft_wire_put_text(&b, 2, "more");
  CU_ASSERT_FALSE(has_values(&b));
  weft_strbuf_deinit(&b);
}

int main(void) {
  signal(SIGXFSZ, SIG_IGN); /* a file that is too large is an error of a write */
  static const CU_TestInfo tests[] = {
      {"the_name_has_time_host_process_and_number", the_name_has_time_host_process_and_number},
      {"events_follow_the_version_in_their_order", events_follow_the_version_in_their_order},
      {"a_full_queue_is_written", a_full_queue_is_written},
      {"time_and_size_write_the_queue_too", time_and_size_write_the_queue_too},
      {"threads_do_not_mix_records", threads_do_not_mix_records},
      {"errors_name_the_file", errors_name_the_file},
      {"a_write_that_fails_leaves_no_half_of_a_record", a_write_that_fails_leaves_no_half_of_a_record},
      {"each_failing_allocation_is_reported", each_failing_allocation_is_reported},
      {"texts_are_not_taken_for_summaries", texts_are_not_taken_for_summaries},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("event_file", tests);
}
