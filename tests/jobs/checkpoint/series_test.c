/* tests/jobs/checkpoint/series_test.c - what is in a directory while a series is written, kept, broken off,
 * resumed. */
#include "jobs/checkpoint/series.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/checkpoint/state.h"
#include "tests/directory.h"
#include "tests/runner.h"

static const char *dir;

static void begin(void) { dir = weft_test_directory(); }

static bool is_there(const char *name) { return access(weft_test_path(name), F_OK) == 0; }

static weft_status_t *open_series(const char *prefix, int keep, bool goes_on, weft_series_t *out) {
  weft_status_t *s = weft_series_open("--save", prefix, keep, goes_on, out);
  return s == NULL ? weft_series_check_place(out) : s;
}

/* A checkpoint of one number and of `bytes` zeros. */
static weft_status_t *add(weft_series_t *s, int64_t step, size_t bytes) {
  weft_bundle_writer_t *w = NULL;
  weft_tensor_t *number = NULL, *ballast = NULL;
  weft_str_t path;
  const weft_shape_t many = weft_shape_vector((int64_t)bytes);
  weft_status_t *failure = weft_tensor_scalar(WEFT_I64, &step, &number);
  if (failure == NULL) failure = weft_tensor_new(WEFT_U8, &many, NULL, &ballast);
  if (failure == NULL) memset(ballast->data, 0, bytes);
  if (failure == NULL) failure = weft_series_begin(s, step, &path, &w);
  if (failure == NULL) failure = weft_bundle_writer_add(w, WEFT_STR("step"), number);
  if (failure == NULL) failure = weft_bundle_writer_add(w, WEFT_STR("zeros"), ballast);
  if (failure == NULL) {
    failure = weft_series_commit(s, path, w);
  } else {
    weft_bundle_writer_abandon(w);
  }
  weft_tensor_release(number);
  weft_tensor_release(ballast);
  return failure;
}

/* The number in a checkpoint, all of which must be whole; -1: it is not. */
static int64_t number_in(weft_str_t path) {
  weft_bundle_reader_t *r = NULL;
  weft_tensor_t *t = NULL, *zeros = NULL;
  weft_status_t *s = weft_bundle_reader_open(path, &r);
  if (s == NULL) s = weft_bundle_reader_read(r, WEFT_STR("step"), &t);
  if (s == NULL) s = weft_bundle_reader_read(r, WEFT_STR("zeros"), &zeros);
  int64_t number = s == NULL ? *(const int64_t *)t->data : -1;
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  weft_status_free(s);
  weft_tensor_release(t);
  weft_tensor_release(zeros);
  weft_bundle_reader_close(r);
  return number;
}

/* The newest checkpoint of "m" that a job would resume from; -1: there is none. */
static int64_t latest(void) {
  weft_series_t s;
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 5, true, &s));
  int64_t number = s.latest.length == 0 ? -1 : number_in(s.latest);
  CU_ASSERT_TRUE(s.latest.length == 0 || number >= 0);
  weft_series_deinit(&s);
  return number;
}

static void the_last_few_are_kept(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 2, false, &s));
  CU_ASSERT_EQUAL(s.latest.length, 0);
  for (int64_t step = 1; step <= 4; step++) CU_ASSERT_PTR_NULL_FATAL(add(&s, step, 10));
  weft_series_deinit(&s);
  CU_ASSERT_FALSE(is_there("m-1.index") || is_there("m-2.index") || is_there("m-2.data-00000-of-00001"));
  CU_ASSERT_TRUE(is_there("m-3.index") && is_there("m-4.index"));
  CU_ASSERT_EQUAL(latest(), 4);
}

static void a_series_that_goes_on_drops_the_older_ones(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 2, false, &s));
  for (int64_t step = 1; step <= 2; step++) CU_ASSERT_PTR_NULL_FATAL(add(&s, step, 10));
  weft_series_deinit(&s);
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 2, true, &s));
  CU_ASSERT_PTR_NULL_FATAL(add(&s, 3, 10));
  weft_series_deinit(&s);
  CU_ASSERT_TRUE(!is_there("m-1.index") && is_there("m-2.index") && is_there("m-3.index"));
  CU_ASSERT_PTR_NULL_FATAL(
      open_series(weft_test_path("m"), 1, false, &s)); /* anew: it leaves what others have made */
  CU_ASSERT_PTR_NULL_FATAL(add(&s, 1, 10));
  weft_series_deinit(&s);
  CU_ASSERT_TRUE(is_there("m-1.index") && is_there("m-2.index") && is_there("m-3.index"));
  CU_ASSERT_EQUAL(latest(), 1);
}

static void the_newest_that_is_there_is_found(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 0, false, &s));
  for (int64_t step = 1; step <= 3; step++) CU_ASSERT_PTR_NULL_FATAL(add(&s, step, 10));
  weft_series_deinit(&s);
  unlink(weft_test_path("m-3.index"));
  CU_ASSERT_EQUAL(latest(), 2);
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_str_t path;
  CU_ASSERT_PTR_NULL_FATAL(weft_series_resolve(dir, &arena, &path));
  CU_ASSERT_EQUAL(number_in(path), 2);
  weft_arena_deinit(&arena);
}

static void checkpoints_of_another_prefix_are_not_its_own(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("model"), 1, false, &s));
  CU_ASSERT_PTR_NULL_FATAL(add(&s, 7, 10));
  weft_series_deinit(&s);
  CU_ASSERT_EQUAL(latest(), -1);
}

static void what_a_killed_process_left_is_removed(void) {
  begin();
  static const char *const left[] = {"m-3.index.tempstate12", "m-3.data-00000-of-00001.tempstate9"};
  static const char *const not_ours[] = {"m-3.index.tempstate", "m-3.index.tempstatex",
                                         "mm-3.index.tempstate1", "m-x.index.tempstate1", "m-3.txt"};
  for (size_t i = 0; i < 2; i++) fclose(fopen(weft_test_path(left[i]), "w"));
  for (size_t i = 0; i < 5; i++) fclose(fopen(weft_test_path(not_ours[i]), "w"));
  CU_ASSERT_EQUAL(latest(), -1);
  for (size_t i = 0; i < 2; i++) CU_ASSERT_FALSE(is_there(left[i]));
  for (size_t i = 0; i < 5; i++) CU_ASSERT_TRUE(is_there(not_ours[i]));
}

static void expect_refusal(const char *prefix, weft_code_t code, const char *part) {
  weft_series_t s;
  weft_status_t *failure = open_series(prefix, 5, false, &s);
  CU_ASSERT_EQUAL(weft_status_code(failure), code);
  bool has = failure != NULL && strstr(weft_status_message(failure), part) != NULL;
  if (!has) fprintf(stderr, "%s\n", failure == NULL ? "OK" : weft_status_message(failure));
  CU_ASSERT_TRUE(has);
  weft_status_free(failure);
  weft_series_deinit(&s);
}

static void a_directory_that_is_not_there_is_made(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL(open_series(weft_test_path("new/deep/m"), 5, false, &s));
  weft_series_deinit(&s);
  CU_ASSERT_EQUAL(access(weft_test_path("new/deep"), W_OK), 0);
}

static void a_place_that_cannot_be_written_is_refused_at_once(void) {
  begin();
  expect_refusal("/proc/no/m", WEFT_NOT_FOUND, "the directory /proc/no cannot be made");
  expect_refusal(dir, WEFT_FAILED_PRECONDITION, "is a directory");
  expect_refusal(weft_test_path(""), WEFT_FAILED_PRECONDITION, "/model");
  fclose(fopen(weft_test_path("file"), "w"));
  expect_refusal(weft_test_path("file/m"), WEFT_FAILED_PRECONDITION, "is no directory");
  expect_refusal("/proc/m", WEFT_NOT_FOUND, "nothing can be written into /proc");
  mkdir(weft_test_path("locked"), 0555);
  if (geteuid() != 0) expect_refusal(weft_test_path("locked/m"), WEFT_PERMISSION_DENIED, "Permission denied");
  fclose(fopen(weft_test_path("checkpoint"), "w"));
  CU_ASSERT_EQUAL(latest(), -1); /* an empty list */
  FILE *f = fopen(weft_test_path("checkpoint"), "w");
  fputs("model_checkpoint_path: m-1", f);
  fclose(f);
  expect_refusal(weft_test_path("m"), WEFT_INVALID_ARGUMENT, "checkpoint:1:");
}

static void a_full_disk_is_seen_before(void) {
  weft_series_t s;
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_series(weft_test_path("m"), 5, false, &s));
  CU_ASSERT_PTR_NULL(weft_series_check_room(&s, 1000));
  weft_status_t *failure = weft_series_check_room(&s, UINT64_C(1) << 60);
  CU_ASSERT_EQUAL(weft_status_code(failure), WEFT_RESOURCE_EXHAUSTED);
  weft_status_free(failure);
  weft_series_deinit(&s);
}

static void the_list_is_tensorflows(void) {
  begin();
  static const weft_str_t names[] = {{"a \"b\"-1", 7}, {"m-2", 3}};
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_state_write(weft_str(dir), names, 2));
  char *text = NULL;
  size_t n = 0;
  CU_ASSERT_PTR_NULL_FATAL(weft_file_read_all(weft_test_path("checkpoint"), &text, &n));
  CU_ASSERT_STRING_EQUAL(text,
                         "model_checkpoint_path: \"m-2\"\nall_model_checkpoint_paths: \"a "
                         "\\\"b\\\"-1\"\nall_model_checkpoint_paths: \"m-2\"\n");
  weft_free(text);
  weft_checkpoint_state_t state;
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_state_read(weft_str(dir), &state));
  CU_ASSERT_EQUAL_FATAL(state.n, 2);
  CU_ASSERT_STRING_EQUAL(state.paths[1].data, weft_test_path("m-2"));
  weft_checkpoint_state_deinit(&state);
}

/* ---- a process that is killed ---- */

/* Saves steps 1, 2, 3, ... for ever, two of them kept; `again`: always as step 1. */
static void save_for_ever(bool again) {
  weft_series_t s;
  weft_status_t *failure = open_series(weft_test_path("m"), 2, true, &s);
  int64_t first = s.n == 0 ? 1 : number_in(s.latest);
  for (int64_t step = first; failure == NULL; step++) failure = add(&s, again ? 1 : step, 40000);
  _exit(1);
}

/* Kills it at the n-th thing that happens in the directory after the first checkpoint is complete. */
static void kill_at(int n, bool again) {
  union {
    struct inotify_event event;
    char bytes[4096];
  } read_here;
  int watch = inotify_init(), seen = 0;
  CU_ASSERT_TRUE_FATAL(watch >= 0 &&
                       inotify_add_watch(watch, dir, IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE) >= 0);
  int64_t before = latest();
  pid_t pid = fork();
  if (pid == 0) save_for_ever(again);
  while (seen < n) {
    ssize_t length = read(watch, &read_here, sizeof read_here);
    for (char *at = read_here.bytes; at < read_here.bytes + length && seen < n; seen++)
      at += sizeof(struct inotify_event) + ((struct inotify_event *)(void *)at)->len;
    if (length <= 0) break;
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(watch);
  int64_t after = latest();
  CU_ASSERT_TRUE(after >= before);
}

static void a_process_may_be_killed_at_any_moment(void) {
  begin();
  kill_at(60, false);
  CU_ASSERT_TRUE(latest() > 0);
  for (int n = 1; n <= 60; n++) kill_at(n, false);
}

static void also_while_it_replaces_the_only_one(void) {
  begin();
  kill_at(60, true);
  CU_ASSERT_EQUAL(latest(), 1);
  for (int n = 1; n <= 60; n++) {
    kill_at(n, true);
    CU_ASSERT_EQUAL(latest(), 1);
  }
}

static weft_status_t *open_add_close(void) {
  weft_series_t s;
  weft_status_t *failure = open_series(weft_test_path("m"), 1, true, &s);
  if (failure == NULL) failure = add(&s, 1, 10);
  if (failure == NULL) failure = add(&s, 2, 10);
  weft_series_deinit(&s);
  return failure;
}

static void no_memory_loses_nothing(void) {
  begin();
  CU_ASSERT_PTR_NULL_FATAL(open_add_close());
  for (int n = 0, is_over = 0; !is_over; n++) {
    weft_fault_arm(n);
    weft_status_t *failure = open_add_close();
    is_over = !weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_TRUE(failure == NULL || weft_status_code(failure) == WEFT_RESOURCE_EXHAUSTED);
    weft_status_free(failure);
    CU_ASSERT_TRUE(latest() > 0);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"the last few are kept", the_last_few_are_kept},
      {"a series that goes on drops the older ones", a_series_that_goes_on_drops_the_older_ones},
      {"the newest that is there is found", the_newest_that_is_there_is_found},
      {"checkpoints of another prefix are not its own", checkpoints_of_another_prefix_are_not_its_own},
      {"what a killed process left is removed", what_a_killed_process_left_is_removed},
      {"a directory that is not there is made", a_directory_that_is_not_there_is_made},
      {"a place that cannot be written is refused at once",
       a_place_that_cannot_be_written_is_refused_at_once},
      {"a full disk is seen before", a_full_disk_is_seen_before},
      {"the list is TensorFlow's", the_list_is_tensorflows},
      {"a process may be killed at any moment", a_process_may_be_killed_at_any_moment},
      {"also while it replaces the only one", also_while_it_replaces_the_only_one},
      {"no memory loses nothing", no_memory_loses_nothing},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("series", tests);
}
