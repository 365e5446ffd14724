/* tests/io/file_test.c - what is read of files that do not end, do not say their size, or are no files, and
 * what is left of those, and of links, that are written to. */
#include "io/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/bundle.h"
#include "tests/runner.h"

static char directory[64];

static const char *in_directory(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static void expect(const char *path, weft_code_t code, const char *text) {
  char *bytes = NULL;
  size_t n = 0;
  weft_status_t *s = weft_file_read_all(path, &bytes, &n);
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(s == NULL ? bytes : weft_status_message(s), text));
  if (weft_status_code(s) != code) fprintf(stderr, "\n    %s: %s\n", path, weft_status_message(s));
  CU_ASSERT(s != NULL || strlen(bytes) <= n);
  weft_status_free(s);
  weft_free(bytes);
}

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
}

static void files_are_read_whole(void) {
  put(in_directory("a"), "hello");
  expect(in_directory("a"), WEFT_OK, "hello");
  put(in_directory("empty"), "");
  expect(in_directory("empty"), WEFT_OK, "");
  expect("/dev/null", WEFT_OK, "");
  expect("/proc/self/status", WEFT_OK, "VmPeak"); /* says that it has 0 bytes */
  expect("/proc/self/maps", WEFT_OK, "[stack]");  /* and comes in pieces */
}

/* Each of these was read until memory was at an end, or waited for without end. */
static void what_does_not_end_is_refused(void) {
  expect("/dev/zero", WEFT_RESOURCE_EXHAUSTED, "/dev/zero; it has not ended after 67108864 bytes");
  expect("/dev/urandom", WEFT_RESOURCE_EXHAUSTED, "it has not ended after");
  CU_ASSERT_EQUAL_FATAL(symlink("/dev/zero", in_directory("zero")), 0);
  expect(in_directory("zero"), WEFT_RESOURCE_EXHAUSTED, "it has not ended after");
  CU_ASSERT_EQUAL_FATAL(mkfifo(in_directory("pipe"), 0600), 0);
  expect(in_directory("pipe"), WEFT_FAILED_PRECONDITION, "pipe; it is a pipe or a socket");
  int writer = open(in_directory("pipe"), O_RDWR | O_NONBLOCK); /* one that writes nothing */
  expect(in_directory("pipe"), WEFT_FAILED_PRECONDITION, "it is a pipe or a socket");
  close(writer);
  expect(directory, WEFT_FAILED_PRECONDITION, "Is a directory");
  expect(in_directory("nothing"), WEFT_NOT_FOUND, "No such file");
}

/* Holes cost nothing; a file can say that it has any size. */
static void what_says_that_it_is_too_large_is_refused(void) {
  put(in_directory("holes"), "x");
  CU_ASSERT_EQUAL_FATAL(truncate(in_directory("holes"), (off_t)1 << 40), 0);
  expect(in_directory("holes"), WEFT_RESOURCE_EXHAUSTED,
         "holes; it has 1099511627776 bytes, of 68719476736 that can be read at once");
}

static void checkpoints_that_are_no_files_are_refused(void) {
  static const char *const targets[] = {"/dev/zero", "/dev/null", "/proc/self/status", "pipe"};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    char index[160], data[160], prefix[128];
    snprintf(prefix, sizeof prefix, "%s", in_directory("checkpoint"));
    snprintf(index, sizeof index, "%s.index", prefix);
    snprintf(data, sizeof data, "%s.data-00000-of-00001", prefix);
    unlink(index);
    unlink(data);
    CU_ASSERT_EQUAL_FATAL(symlink(targets[i], index) | symlink(targets[i], data), 0);
    weft_bundle_reader_t *r = NULL;
    weft_status_t *s = weft_bundle_reader_open(weft_str(prefix), &r);
    CU_ASSERT_PTR_NOT_NULL(s);
    weft_status_free(s);
    CU_ASSERT_PTR_NULL(r);
  }
}

static void text_is_appended(void) {
  const char *path = in_directory("log");
  for (int i = 0; i < 3; i++) {
    weft_status_t *s = weft_file_append(path, "line\n", 5);
    CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
  }
  expect(path, WEFT_OK, "line\nline\nline\n");
  weft_status_t *s = weft_file_append(in_directory("pipe"), "x", 1); /* that nothing reads: it would wait */
  CU_ASSERT_PTR_NOT_NULL(s);
  weft_status_free(s);
  s = weft_file_append("/dev/full", "x", 1);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_RESOURCE_EXHAUSTED);
  weft_status_free(s);
  s = weft_file_append(in_directory("no/such"), "x", 1);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  weft_status_free(s);
}

typedef weft_status_t *end_fn(weft_file_writer_t *w);
static end_fn *const ends[] = {weft_file_writer_finish, weft_file_writer_commit};

static weft_code_t write_file(const char *path, const char *text, end_fn *end) {
  weft_file_writer_t *w = NULL;
  weft_status_t *s = weft_file_writer_create(path, &w);
  if (s == NULL) s = weft_file_writer_append(w, text, strlen(text));
  if (s == NULL) {
    s = end(w);
  } else {
    weft_file_writer_abandon(w);
  }
  const weft_code_t code = weft_status_code(s);
  if (s != NULL) CU_ASSERT_PTR_EQUAL(strstr(weft_status_message(s), path), weft_status_message(s));
  weft_status_free(s);
  return code;
}

static mode_t mode_of(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 ? info.st_mode : 0;
}

static void count_temporary(void *arg, int dir_fd, const char *name) {
  (void)dir_fd;
  if (weft_file_temporary_base(name) > 0) ++*(int *)arg;
}

static int num_temporary(void) {
  int n = 0;
  weft_file_each_name(directory, count_temporary, &n);
  return n;
}

/* A link was replaced by a file, and what it leads to was left as it was. */
static void what_a_link_leads_to_is_written(void) {
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    char file[128], near[128], far[128];
    snprintf(file, sizeof file, "%s", in_directory("linked"));
    snprintf(near, sizeof near, "%s", in_directory("near"));
    snprintf(far, sizeof far, "%s", in_directory("far"));
    put(file, "before");
    unlink(near);
    unlink(far);
    CU_ASSERT_EQUAL_FATAL(symlink("linked", near) | symlink(near, far), 0);
    CU_ASSERT_EQUAL(write_file(far, "after", ends[i]), WEFT_OK);
    expect(file, WEFT_OK, "after");
    CU_ASSERT_TRUE(S_ISLNK(mode_of(near)) && S_ISLNK(mode_of(far)) && S_ISREG(mode_of(file)));
  }
  CU_ASSERT_EQUAL(num_temporary(), 0);
}

/* The devices are named by links, which alone would be lost where a file took their place. */
static void a_device_is_written_to_and_stays(void) {
  char null[128], full[128];
  snprintf(null, sizeof null, "%s", in_directory("null"));
  snprintf(full, sizeof full, "%s", in_directory("full"));
  CU_ASSERT_EQUAL_FATAL(symlink("/dev/null", null) | symlink("/dev/full", full), 0);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    CU_ASSERT_EQUAL(write_file(null, "text", ends[i]), WEFT_OK);
    CU_ASSERT_EQUAL(write_file(full, "text", ends[i]), WEFT_RESOURCE_EXHAUSTED);
    CU_ASSERT_TRUE(S_ISLNK(mode_of(null)) && S_ISLNK(mode_of(full)));
  }
  CU_ASSERT_EQUAL(num_temporary(), 0);
}

static void a_pipe_is_written_to_and_stays(void) {
  const char *path = in_directory("to_reader");
  CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    CU_ASSERT_NOT_EQUAL(write_file(path, "text", ends[i]), WEFT_OK); /* nothing reads it: it would wait */
    char got[8] = "";
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    CU_ASSERT_EQUAL(write_file(path, "text", ends[i]), WEFT_OK);
    CU_ASSERT_EQUAL(read(reader, got, sizeof got), 4);
    CU_ASSERT_STRING_EQUAL(got, "text");
    close(reader);
    CU_ASSERT_TRUE(S_ISFIFO(mode_of(path)));
  }
  CU_ASSERT_EQUAL(num_temporary(), 0);
}

static void a_directory_is_refused_before_it_is_written_to(void) {
  weft_file_writer_t *w = NULL;
  weft_status_t *s = weft_file_writer_create(directory, &w);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
  CU_ASSERT_PTR_NULL(w);
  weft_status_free(s);
}

/* What its owner alone may read was for all to read once it was written anew. */
static void a_file_keeps_its_permissions(void) {
  static const mode_t modes[] = {0600, 0640, 0666, 0755};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    const char *path = in_directory("permissions");
    put(path, "before");
    CU_ASSERT_EQUAL_FATAL(chmod(path, modes[i]), 0);
    CU_ASSERT_EQUAL(write_file(path, "after", ends[i % 2]), WEFT_OK);
    CU_ASSERT_EQUAL(mode_of(path) & 0777, modes[i]);
    expect(path, WEFT_OK, "after");
  }
}

static void what_is_abandoned_leaves_the_file_as_it_was(void) {
  const char *path = in_directory("kept");
  weft_file_writer_t *w = NULL;
  put(path, "before");
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(path, &w));
  CU_ASSERT_PTR_NULL(weft_file_writer_append(w, "after", 5));
  CU_ASSERT_EQUAL(num_temporary(), 1);
  weft_file_writer_abandon(w);
  CU_ASSERT_EQUAL(num_temporary(), 0);
  expect(path, WEFT_OK, "before");
}

static const CU_TestInfo tests[] = {
    {"files are read whole", files_are_read_whole},
    {"what does not end is refused", what_does_not_end_is_refused},
    {"what says that it is too large is refused", what_says_that_it_is_too_large_is_refused},
    {"checkpoints that are no files are refused", checkpoints_that_are_no_files_are_refused},
    {"text is appended", text_is_appended},
    {"what a link leads to is written", what_a_link_leads_to_is_written},
    {"a device is written to and stays", a_device_is_written_to_and_stays},
    {"a pipe is written to and stays", a_pipe_is_written_to_and_stays},
    {"a directory is refused before it is written to", a_directory_is_refused_before_it_is_written_to},
    {"a file keeps its permissions", a_file_keeps_its_permissions},
    {"what is abandoned leaves the file as it was", what_is_abandoned_leaves_the_file_as_it_was},
    CU_TEST_INFO_NULL,
};

int main(void) {
  const char *base = getenv("TEST_TMPDIR");
  snprintf(directory, sizeof directory, "%.40s/weftfileXXXXXX",
           base == NULL || strlen(base) > 40 ? "/tmp" : base);
  if (mkdtemp(directory) == NULL) return 1;
  return weft_run_tests("file", tests);
}
