/* Checkpoints of the first format: TensorFlow's read, ours written and read, damaged, incomplete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint_v1.h"
#include "io/file.h"
#include "tests/runner.h"

#define TENSORFLOWS "tests/io/testdata/"

static char dir[256];
static weft_str_t in_dir(const char *name, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/%s", dir, name);
  return weft_str(buffer);
}
#define PATH(name) in_dir(name, (char[320]){0}, 320)

static bool begin(void) {
  const char *root = getenv("TEST_TMPDIR");
  snprintf(dir, sizeof dir, "%s/firstXXXXXX", root == NULL ? "/tmp" : root);
  return mkdtemp(dir) != NULL;
}

static weft_status_t *restore(const char *pattern, int64_t preferred, const char *name, const char *spec,
                              weft_dtype_t dtype, weft_tensor_t **out) {
  weft_checkpoint_v1_reader_t *r = NULL;
  WEFT_RETURN_IF_ERROR(weft_checkpoint_v1_reader_open(weft_str(pattern), preferred, &r));
  weft_status_t *s = weft_checkpoint_v1_reader_restore(r, weft_str(name), weft_str(spec), dtype, out);
  weft_checkpoint_v1_reader_close(r);
  return s;
}

/* The sum of a float tensor; -1 on any failure. */
static float sum(const char *pattern, int64_t preferred, const char *name, const char *spec) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = restore(pattern, preferred, name, spec, WEFT_F32, &t);
  float total = s == NULL ? 0 : -1;
  for (int64_t i = 0; s == NULL && i < t->count; i++) total += ((const float *)t->data)[i];
  weft_status_free(s);
  weft_tensor_release(t);
  return total;
}

static void expect_failure(const char *pattern, const char *name, const char *spec, weft_dtype_t dtype,
                           weft_code_t code, const char *message) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = restore(pattern, -1, name, spec, dtype, &t);
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  weft_status_free(s);
  weft_tensor_release(t);
}

static weft_status_t *numbers(int64_t rows, float first, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_matrix(rows, 2);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &shape, NULL, out));
  for (int64_t i = 0; i < (*out)->count; i++) ((float *)(*out)->data)[i] = first + (float)i;
  return NULL;
}

/* "w" [4,2] = 0..7: in one piece, or rows from `first` on as a slice of it. */
static weft_status_t *write_rows(const char *file, int64_t first, int64_t rows) {
  weft_checkpoint_v1_writer_t *w = NULL;
  weft_tensor_t *t = NULL;
  weft_shape_t full = weft_shape_matrix(4, 2);
  weft_tensor_slice_t slice = weft_tensor_slice_whole(&full);
  if (rows < 4) {
    slice.is_full[0] = false;
    slice.start[0] = first;
    slice.length[0] = rows;
  }
  WEFT_RETURN_IF_ERROR(weft_checkpoint_v1_writer_create(PATH(file), &w));
  weft_status_t *s = numbers(rows, (float)(2 * first), &t);
  if (s == NULL) s = weft_checkpoint_v1_writer_add(w, WEFT_STR("w"), &full, &slice, t);
  weft_tensor_release(t);
  if (s == NULL) return weft_checkpoint_v1_writer_finish(w);
  weft_checkpoint_v1_writer_abandon(w);
  return s;
}

static void tensorflows_files_are_read(void) {
  static const char *const patterns[] = {TENSORFLOWS "first-0000[01]-of-00002", TENSORFLOWS "first_snappy-*"};
  for (int i = 0; i < 2; i++) {
    weft_tensor_t *t = NULL;
    CU_ASSERT_EQUAL(sum(patterns[i], -1, "p", ""), 66); /* [6,2] = 0..11, in a slice in each file */
    CU_ASSERT_EQUAL(sum(patterns[i], 1, "p", ""), 66);  /* what the second lacks is looked for in the first */
    CU_ASSERT_EQUAL(sum(patterns[i], 0, "p", "6 2 3,2:1,1"), 7 + 9);
    CU_ASSERT_PTR_NULL_FATAL(restore(patterns[i], -1, "ramp", "", WEFT_I32, &t));
    for (int32_t k = 0; k < 1000; k++) CU_ASSERT_EQUAL(((const int32_t *)t->data)[k], k - 500);
    weft_tensor_release(t);
    CU_ASSERT_PTR_NULL_FATAL(restore(patterns[i], 1, "words", "", WEFT_STRING, &t));
    CU_ASSERT_TRUE(t->count == 3 && weft_str_is(weft_tensor_str_at(t, 0), "one"));
    CU_ASSERT_TRUE(weft_str_eq(weft_tensor_str_at(t, 2), weft_str_of("\0\xff", 2)));
    weft_tensor_release(t);
    CU_ASSERT_PTR_NULL_FATAL(restore(patterns[i], -1, "half", "", WEFT_F16, &t));
    CU_ASSERT_TRUE(t->shape.rank == 0 && weft_f16_to_f32(((const uint16_t *)t->data)[0]) == 1.5f);
    weft_tensor_release(t);
  }
}

static void what_is_written_is_read_again(void) {
  static const weft_dtype_t dtypes[] = {WEFT_F32,    WEFT_F64,    WEFT_I32, WEFT_U8,   WEFT_I16,
                                        WEFT_I8,     WEFT_C64,    WEFT_I64, WEFT_BOOL, WEFT_QINT8,
                                        WEFT_QUINT8, WEFT_QINT32, WEFT_U16, WEFT_C128, WEFT_F16};
  enum { N = sizeof dtypes / sizeof dtypes[0] };
  weft_shape_t shape = weft_shape_matrix(3, 5);
  weft_tensor_slice_t all = weft_tensor_slice_whole(&shape);
  weft_tensor_t *saved[N];
  weft_checkpoint_v1_writer_t *w = NULL;
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_v1_writer_create(PATH("a"), &w));
  for (int i = 0; i < N; i++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtypes[i], &shape, NULL, &saved[i]));
    uint8_t *bytes = saved[i]->data;
    for (size_t k = 0; k < saved[i]->bytes; k++)
      bytes[k] = dtypes[i] == WEFT_BOOL ? k & 1 : (uint8_t)(k * 89 + 7);
    CU_ASSERT_PTR_NULL(
        weft_checkpoint_v1_writer_add(w, weft_str(weft_dtype_name(dtypes[i])), &shape, &all, saved[i]));
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_v1_writer_finish(w));
  for (int i = 0; i < N; i++) {
    weft_tensor_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(restore(PATH("a").data, -1, weft_dtype_name(dtypes[i]), "", dtypes[i], &t));
    CU_ASSERT_TRUE(weft_shape_eq(&t->shape, &shape) && memcmp(t->data, saved[i]->data, t->bytes) == 0);
    weft_tensor_release(t);
    weft_tensor_release(saved[i]);
  }
}

static void types_without_a_place_are_refused(void) {
  static const struct {
    weft_dtype_t dtype;
    weft_code_t code;
    const char *message;
  } bad[] = {
      {WEFT_BF16, WEFT_UNIMPLEMENTED, "Saving data type bfloat16 not yet supported"},
      {WEFT_QINT16, WEFT_UNIMPLEMENTED, "Saving data type qint16 not yet supported"},
      {WEFT_VARIANT, WEFT_UNIMPLEMENTED, "Saving data type variant not yet supported"},
      {WEFT_U64, WEFT_INVALID_ARGUMENT, "Tensor slice serialization not implemented for dtype 23"},
  };
  weft_checkpoint_v1_writer_t *w = NULL;
  weft_tensor_slice_t all = weft_tensor_slice_whole(&WEFT_SCALAR);
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_v1_writer_create(WEFT_STR("never"), &w));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weft_tensor_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(bad[i].dtype, &WEFT_SCALAR, NULL, &t));
    weft_status_t *s = weft_checkpoint_v1_writer_add(w, WEFT_STR("x"), &WEFT_SCALAR, &all, t);
    CU_ASSERT_EQUAL(weft_status_code(s), bad[i].code);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), bad[i].message);
    weft_status_free(s);
    weft_tensor_release(t);
  }
  weft_checkpoint_v1_writer_abandon(w);
}

static void slices_come_together_or_it_is_said_why_not(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_rows("s-0", 0, 1));
  CU_ASSERT_PTR_NULL_FATAL(write_rows("s-1", 1, 2));
  CU_ASSERT_EQUAL(sum(PATH("s-*").data, -1, "w", "4 2 0,3:-"), 15);
  CU_ASSERT_EQUAL(sum(PATH("s-*").data, 7, "w", "4 2 0,2:1,1"), 4);
  expect_failure(PATH("s-*").data, "w", "", WEFT_F32, WEFT_INVALID_ARGUMENT, "Error copying slice data");
  CU_ASSERT_PTR_NULL_FATAL(write_rows("s-2", 3, 1));
  CU_ASSERT_EQUAL(sum(PATH("s-*").data, 1, "w", ""), 28);
  CU_ASSERT_PTR_NULL_FATAL(write_rows("s-3", 2, 2));
  expect_failure(PATH("s-*").data, "w", "", WEFT_F32, WEFT_INTERNAL,
                 "Overlapping slices: existing slice = 1,2:-, new slice = 2,2:-");
}

static void failures_have_tensorflows_words(void) {
  char message[1024];
  CU_ASSERT_TRUE_FATAL(begin());
  const char *path = PATH("w").data;
  snprintf(message, sizeof message,
           "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s", path);
  expect_failure(path, "w", "", WEFT_F32, WEFT_NOT_FOUND, message);
  CU_ASSERT_PTR_NULL_FATAL(write_rows("w", 0, 4));
  snprintf(message, sizeof message, "Tensor name \"v\" not found in checkpoint files %s", path);
  expect_failure(path, "v", "", WEFT_F32, WEFT_NOT_FOUND, message);
  expect_failure(
      path, "w", "", WEFT_I32, WEFT_INVALID_ARGUMENT,
      "Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = w");
  expect_failure(path, "w", "5 2 -:-", WEFT_F32, WEFT_INVALID_ARGUMENT,
                 "Shape in shape_and_slice spec does not match the shape in the save file: [5,2], save file "
                 "shape: [4,2]");
  snprintf(message, sizeof message,
           "Unable to open table file %s: FAILED_PRECONDITION: %s; Is a directory: perhaps your file is in a "
           "different "
           "file format and you need to use a different restore operator?",
           dir, dir);
  expect_failure(dir, "w", "", WEFT_F32, WEFT_DATA_LOSS, message);
}

static void a_second_tensor_of_the_name_must_agree(void) {
  weft_checkpoint_v1_writer_t *w = NULL;
  weft_shape_t one = weft_shape_matrix(1, 2), two = weft_shape_matrix(2, 2);
  weft_tensor_slice_t a = weft_tensor_slice_whole(&one), b = weft_tensor_slice_whole(&two);
  weft_tensor_t *t = NULL, *u = NULL;
  CU_ASSERT_PTR_NULL_FATAL(numbers(1, 0, &t));
  CU_ASSERT_PTR_NULL_FATAL(numbers(2, 0, &u));
  CU_ASSERT_PTR_NULL_FATAL(weft_checkpoint_v1_writer_create(WEFT_STR("never"), &w));
  CU_ASSERT_PTR_NULL(weft_checkpoint_v1_writer_add(w, WEFT_STR("w"), &one, &a, t));
  CU_ASSERT_PTR_NULL(
      weft_checkpoint_v1_writer_add(w, WEFT_STR("w"), &one, &a, t)); /* the first will be kept */
  weft_status_t *s = weft_checkpoint_v1_writer_add(w, WEFT_STR("w"), &two, &b, u);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s),
                         "Mismatching shapes: existing tensor = [1,2], trying to add name w, shape = [2,2]");
  weft_status_free(s);
  weft_checkpoint_v1_writer_abandon(w);
  weft_tensor_release(t);
  weft_tensor_release(u);
}

static void failed_writes_leave_no_file(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, write_rows("w", 1, 2));
  CU_ASSERT_TRUE(n > 5);
  weft_file_remove(PATH("w").data);
  CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing else was left */
}

static weft_status_t *read_rows(void) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = restore(PATH("r-*").data, 1, "w", "", WEFT_F32, &t);
  weft_tensor_release(t);
  return s;
}

static void reading_survives_without_memory(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_rows("r-0", 0, 1));
  CU_ASSERT_PTR_NULL_FATAL(write_rows("r-1", 1, 3));
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, read_rows());
  CU_ASSERT_TRUE(n > 5);
}

static void put_file(const char *bytes, size_t n) {
  weft_file_writer_t *w = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(PATH("d").data, &w));
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_append(w, bytes, n));
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_finish(w));
}

/* Flips each byte in turn, then cuts the file: the reader must notice or give the right numbers, and never
 * crash. */
static void damage_to_a_file_is_noticed(void) {
  static const char *const files[] = {TENSORFLOWS "first-00001-of-00002",
                                      TENSORFLOWS "first_snappy-00001-of-00002"};
  CU_ASSERT_TRUE_FATAL(begin());
  for (int k = 0; k < 2; k++) {
    char *bytes = NULL;
    size_t n = 0;
    CU_ASSERT_PTR_NULL_FATAL(weft_file_read_all(files[k], &bytes, &n));
    for (size_t i = 0; i < n; i++) {
      bytes[i] ^= 0x21;
      put_file(bytes, n);
      bytes[i] ^= 0x21;
      float got = sum(PATH("d").data, -1, "p", "6 2 4,2:-");
      CU_ASSERT_TRUE(got == -1 || got == 8 + 9 + 10 + 11);
    }
    for (size_t length = 0; length < n; length += 3) {
      put_file(bytes, length);
      CU_ASSERT_EQUAL(sum(PATH("d").data, -1, "p", "6 2 4,2:-"), -1);
    }
    weft_free(bytes);
  }
}

static const CU_TestInfo tests[] = {
    {"TensorFlow's files are read", tensorflows_files_are_read},
    {"what is written is read again", what_is_written_is_read_again},
    {"types without a place are refused", types_without_a_place_are_refused},
    {"slices come together or it is said why not", slices_come_together_or_it_is_said_why_not},
    {"failures have TensorFlow's words", failures_have_tensorflows_words},
    {"a second tensor of the name must agree", a_second_tensor_of_the_name_must_agree},
    {"failed writes leave no file", failed_writes_leave_no_file},
    {"reading survives without memory", reading_survives_without_memory},
    {"damage to a file is noticed", damage_to_a_file_is_noticed},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("checkpoint_v1", tests); }
