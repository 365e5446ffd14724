/* Saving while system calls fail: each one in turn fails once, or is the last one before the process "dies"
 * (all later ones do nothing; the last write is cut in half). Whatever is under the prefix afterwards loads,
 * whole.
 *
 * The calls that change files are defined here and stand in front of libc's. They also watch over the order:
 * no file gets its name before its bytes are synced, no index before the names of its data files are, and no
 * old data file goes before the new index is on the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/bundle.h"
#include "io/checkpoint_v1.h"
#include "tests/runner.h"

/* ---- the calls ---- */

static long fail_at = -1, calls;
static bool stays_dead, has_no_links;
static ino_t unsynced[64]; /* files with bytes that are not on the disk; 0: free */
static bool names_unsynced, index_unsynced;
static int disorders;

static void reset(long nth, bool dies) {
  fail_at = nth;
  calls = 0;
  stays_dead = dies;
  memset(unsynced, 0, sizeof unsynced);
  names_unsynced = index_unsynced = false;
}

static bool fails(void) {
  long n = calls++;
  if (fail_at < 0 || n < fail_at || (n > fail_at && !stays_dead)) return false;
  errno = EIO;
  return true;
}

static bool fired(void) { return fail_at >= 0 && calls > fail_at; }

static ino_t inode_of(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? info.st_ino : 0;
}

static void mark(ino_t inode, bool is_unsynced) {
  for (size_t i = 0; i < 64; i++) {
    if (unsynced[i] == inode) unsynced[i] = 0;
  }
  for (size_t i = 0; is_unsynced && i < 64; i++) {
    if (unsynced[i] != 0) continue;
    unsynced[i] = inode;
    return;
  }
}

static bool is_marked(ino_t inode) {
  for (size_t i = 0; i < 64; i++) {
    if (inode != 0 && unsynced[i] == inode) return true;
  }
  return false;
}

static void expect(bool holds, const char *what, const char *path) {
  if (holds) return;
  disorders++;
  fprintf(stderr, "%s: %s\n", what, path);
}

static bool is_index(const char *path) { return weft_str_ends_with(weft_str(path), ".index"); }

ssize_t write(int fd, const void *data, size_t n) {
  struct stat info;
  bool fails_now = fails();
  if (fails_now && stays_dead && calls - 1 == fail_at && n > 1) (void)!syscall(SYS_write, fd, data, n / 2);
  if (fails_now) return -1;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) mark(info.st_ino, true);
  return syscall(SYS_write, fd, data, n);
}

int fsync(int fd) {
  struct stat info;
  if (fails()) return -1;
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) names_unsynced = index_unsynced = false;
  if (fstat(fd, &info) == 0) mark(info.st_ino, false);
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
  if (fails()) return -1;
  expect(!is_marked(inode_of(from)), "renamed before it was synced", to);
  if (is_index(to)) {
    expect(!names_unsynced, "an index before the names of its data", to);
    index_unsynced = true;
  }
  names_unsynced = true;
  return (int)syscall(SYS_rename, from, to);
}

int link(const char *from, const char *to) {
  if (fails()) return -1;
  if (has_no_links) {
    errno = EPERM;
    return -1;
  }
  expect(!is_marked(inode_of(from)), "linked before it was synced", to);
  names_unsynced = true;
  return (int)syscall(SYS_link, from, to);
}

static int remove_name(int dir, const char *path, int flags) {
  if (fails()) return -1;
  if (strstr(path, ".tempstate") == NULL)
    expect(!index_unsynced, "removed before the index was on the disk", path);
  return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int unlink(const char *path) { return remove_name(AT_FDCWD, path, 0); }
int unlinkat(int dir, const char *path, int flags) { return remove_name(dir, path, flags); }
int rmdir(const char *path) { return remove_name(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdir(const char *path, mode_t mode) {
  return fails() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if ((flags & O_CREAT) != 0 && fails()) return -1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- what is saved ---- */

static char dir[256];

static weft_str_t in_dir(const char *name, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/%s", dir, name);
  return weft_str(buffer);
}
#define PATH(name) in_dir(name, (char[320]){0}, 320)

static bool begin(void) {
  const char *root = getenv("TEST_TMPDIR");
  reset(-1, false);
  has_no_links = false;
  snprintf(dir, sizeof dir, "%s/crashXXXXXX", root == NULL ? "/tmp" : root);
  return mkdtemp(dir) != NULL;
}

enum { COUNT = 70000 }; /* more than the writer's buffer: its bytes take several writes */

static weft_tensor_t *filled(float value) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(COUNT);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  for (int i = 0; i < COUNT; i++) ((float *)t->data)[i] = value;
  return t;
}

static weft_status_t *save(const char *name, const char *tensor, float value) {
  weft_bundle_writer_t *w = NULL;
  weft_tensor_t *t = filled(value);
  weft_status_t *s = weft_bundle_writer_create(PATH(name), &w);
  if (s == NULL) s = weft_bundle_writer_add(w, weft_str(tensor), t);
  if (s == NULL) {
    s = weft_bundle_writer_finish(w);
  } else {
    weft_bundle_writer_abandon(w);
  }
  weft_tensor_release(t);
  return s;
}

static weft_status_t *save_one(float value) { return save("b", "x", value); }

static weft_status_t *save_and_merge(int n, const char *destination, float value) {
  static const char *const parts[] = {"b_temp/part-0", "b_temp/part-1", "b_temp/part-2"};
  char tensor[2] = "x", paths[3][320];
  weft_str_t prefixes[3];
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < n; i++, tensor[0]++) {
    prefixes[i] = in_dir(parts[i], paths[i], sizeof paths[i]);
    s = save(parts[i], tensor, value);
  }
  if (s == NULL) s = weft_bundle_merge(prefixes, (size_t)n, PATH(destination), true, false);
  return s;
}

static weft_status_t *merge_one(float value) { return save_and_merge(1, "b", value); }
static weft_status_t *merge_two(float value) { return save_and_merge(2, "b", value); }
static weft_status_t *merge_one_or_two(float value) { return save_and_merge(1 + (int)value % 2, "b", value); }

static weft_status_t *save_v1(float value) {
  weft_checkpoint_v1_writer_t *w = NULL;
  weft_tensor_t *t = filled(value);
  weft_tensor_slice_t all = weft_tensor_slice_whole(&t->shape);
  weft_status_t *s = weft_checkpoint_v1_writer_create(PATH("v1"), &w);
  if (s == NULL) s = weft_checkpoint_v1_writer_add(w, WEFT_STR("x"), &t->shape, &all, t);
  if (s == NULL) {
    s = weft_checkpoint_v1_writer_finish(w);
  } else {
    weft_checkpoint_v1_writer_abandon(w);
  }
  weft_tensor_release(t);
  return s;
}

/* The one value of all elements; -2: they differ, or are not `before`, if that is one. load(): -1: there is
 * nothing. */
static float value_of(const weft_tensor_t *t, float before) {
  for (int i = 0; i < COUNT; i++) {
    if (((float *)t->data)[i] != ((float *)t->data)[0]) return -2;
  }
  float value = ((float *)t->data)[0];
  return before == -1 || before == value ? value : -2;
}

static float load(void) {
  weft_bundle_reader_t *r = NULL;
  weft_status_t *s = weft_bundle_reader_open(PATH("b"), &r);
  size_t at = 0;
  float value = -1;
  weft_str_t name;
  if (weft_status_code(s) == WEFT_NOT_FOUND && !weft_file_exists(PATH("b.index").data)) {
    weft_status_free(s);
    return -1;
  }
  while (s == NULL && weft_bundle_reader_next(r, &at, &name)) {
    weft_tensor_t *t = NULL;
    s = weft_bundle_reader_read(r, name, &t);
    if (s == NULL) value = value_of(t, value);
    weft_tensor_release(t);
  }
  if (s != NULL) {
    fprintf(stderr, "%s\n", weft_status_message(s));
    value = -2;
  }
  weft_status_free(s);
  weft_bundle_reader_close(r);
  return value;
}

static float load_v1(void) {
  weft_checkpoint_v1_reader_t *r = NULL;
  weft_tensor_t *t = NULL;
  if (!weft_file_exists(PATH("v1").data)) return -1;
  weft_status_t *s = weft_checkpoint_v1_reader_open(PATH("v1"), -1, &r);
  if (s == NULL) s = weft_checkpoint_v1_reader_restore(r, WEFT_STR("x"), WEFT_STR(""), WEFT_F32, &t);
  float value = s == NULL ? value_of(t, -1) : -2;
  weft_status_free(s);
  weft_tensor_release(t);
  weft_checkpoint_v1_reader_close(r);
  return value;
}

/* ---- each call fails ---- */

static int num_names;
static void count_name(void *arg, int dir_fd, const char *name) {
  (void)dir_fd;
  if (name[0] != '.') num_names++;
  if (weft_file_temporary_base(name) > 0) (*(int *)arg)++;
}

/* How many files there are in `dir`; *out: temporary ones. */
static int count_files(int *out_temporary) {
  num_names = *out_temporary = 0;
  weft_file_each_name(dir, count_name, out_temporary);
  return num_names;
}

typedef struct kind {
  weft_status_t *(*save)(float value);
  float (*load)(void);
  int num_files; /* that are there after a save; 0: it varies */
} kind_t;

/* Saves 1, 2, 3, ... over each other, or afresh; in each save the next call fails. */
static void fail_each_call(const kind_t *kind, bool dies, bool is_fresh) {
  long n = 0;
  int temporary;
  float value = 1, last = -1;
  if (!is_fresh) {
    CU_ASSERT_PTR_NULL_FATAL(kind->save(value));
    last = value;
  }
  for (bool is_over = false; !is_over; n++) {
    value++;
    reset(n, dies);
    weft_status_t *s = kind->save(value);
    is_over = !fired();
    reset(-1, false);
    float now = kind->load();
    if (now != last && now != value)
      fprintf(stderr, "call %ld: loads %g, saved were %g and %g\n", n, now, last, value);
    CU_ASSERT_TRUE(now == value || now == last);
    if (s == NULL && !dies) CU_ASSERT_EQUAL(now, value);
    weft_status_free(s);
    if (is_fresh && !is_over) {
      CU_ASSERT_TRUE_FATAL(begin());
      continue;
    }
    last = now;
    if (n % 2 == 0) continue; /* of two failures in a row the second finds what the first one left */
    value++;
    CU_ASSERT_PTR_NULL(kind->save(value));
    CU_ASSERT_EQUAL(kind->load(), value);
    last = value;
    int files = count_files(&temporary);
    CU_ASSERT_EQUAL(temporary, 0);
    if (kind->num_files > 0 && !dies) CU_ASSERT_EQUAL(files, kind->num_files);
  }
  CU_ASSERT_TRUE(n > 5);
}

static const kind_t bundle = {save_one, load, 2}, merged_1 = {merge_one, load, 2},
                    merged_2 = {merge_two, load, 3}, merged = {merge_one_or_two, load, 0},
                    v1 = {save_v1, load_v1, 1};
static const kind_t *const kinds[] = {&bundle, &merged_1, &merged_2, &merged, &v1};

static void try_all(bool dies, bool is_fresh) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    CU_ASSERT_TRUE_FATAL(begin());
    disorders = 0;
    fail_each_call(kinds[i], dies, is_fresh);
    CU_ASSERT_EQUAL(disorders, 0);
  }
}

static void a_call_that_fails_loses_no_checkpoint(void) { try_all(false, false); }
static void a_process_that_dies_loses_no_checkpoint(void) { try_all(true, false); }
static void the_first_save_fails_cleanly(void) {
  try_all(false, true);
  try_all(true, true);
}

static void nor_does_it_where_files_have_one_name(void) {
  static const kind_t staged = {save_one, load, 2};
  for (int dies = 0; dies < 2; dies++) {
    CU_ASSERT_TRUE_FATAL(begin());
    has_no_links = true;
    fail_each_call(&staged, dies, false);
  }
}

/* The names that TensorFlow's saver gives, also after the hundredth save. */
static void names_are_tensorflows(void) {
  int temporary;
  CU_ASSERT_TRUE_FATAL(begin());
  for (int i = 1; i < 5; i++) {
    CU_ASSERT_PTR_NULL_FATAL(save_one((float)i));
    CU_ASSERT_TRUE(weft_file_exists(PATH("b.data-00000-of-00001").data));
    CU_ASSERT_EQUAL(count_files(&temporary), 2);
  }
  for (int i = 1; i < 5; i++) {
    CU_ASSERT_PTR_NULL_FATAL(merge_two((float)i));
    CU_ASSERT_TRUE(weft_file_exists(PATH("b.data-00001-of-00002").data));
    CU_ASSERT_EQUAL(count_files(&temporary), 3);
  }
}

/* Two real checkpoints are merged into one of them: until it is there both load. */
static void inputs_of_a_merge_are_whole_until_it_is_there(void) {
  for (long n = 0, is_over = 0; !is_over; n++) {
    CU_ASSERT_TRUE_FATAL(begin());
    CU_ASSERT_PTR_NULL_FATAL(save("b", "x", 1));
    CU_ASSERT_PTR_NULL_FATAL(save("c", "y", 1));
    char first[320], second[320];
    weft_str_t prefixes[2] = {in_dir("b", first, sizeof first), in_dir("c", second, sizeof second)};
    reset(n, true);
    weft_status_t *s = weft_bundle_merge(prefixes, 2, prefixes[0], true, false);
    is_over = !fired();
    reset(-1, false);
    weft_status_free(s);
    CU_ASSERT_EQUAL(load(), 1);
    weft_bundle_reader_t *r = NULL;
    weft_tensor_t *t = NULL;
    weft_dtype_t dtype;
    weft_shape_t shape;
    CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_open(prefixes[0], &r));
    s = weft_bundle_reader_lookup(r, WEFT_STR("y"), &dtype, &shape);
    bool is_merged = s == NULL;
    weft_status_free(s);
    weft_bundle_reader_close(r);
    if (is_merged) continue;
    CU_ASSERT_FALSE(is_over);
    CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_open(prefixes[1], &r));
    CU_ASSERT_PTR_NULL(weft_bundle_reader_read(r, WEFT_STR("y"), &t));
    weft_tensor_release(t);
    weft_bundle_reader_close(r);
  }
}

/* A temporary file is left alone while its writer lives. */
static void files_of_a_living_writer_stay(void) {
  weft_file_writer_t *w = NULL;
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(PATH("b.index").data, &w));
  int temporary;
  fclose(fopen(PATH("b.index.tempstate7").data, "w"));
  fclose(fopen(PATH("bb.index.tempstate7").data, "w"));
  CU_ASSERT_PTR_NULL_FATAL(save_one(1));
  CU_ASSERT_EQUAL(count_files(&temporary), 4); /* the index, the data, the living one, the other prefix's */
  CU_ASSERT_EQUAL(temporary, 2);
  CU_ASSERT_PTR_NULL(weft_file_writer_commit(w));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a call that fails loses no checkpoint", a_call_that_fails_loses_no_checkpoint},
      {"a process that dies loses no checkpoint", a_process_that_dies_loses_no_checkpoint},
      {"the first save fails cleanly", the_first_save_fails_cleanly},
      {"nor does it where files have one name", nor_does_it_where_files_have_one_name},
      {"names are TensorFlow's", names_are_tensorflows},
      {"inputs of a merge are whole until it is there", inputs_of_a_merge_are_whole_until_it_is_there},
      {"files of a living writer stay", files_of_a_living_writer_stay},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("crash", tests);
}
