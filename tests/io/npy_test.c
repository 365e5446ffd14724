/* .npy files: what NumPy writes is read, what we write NumPy reads, and nonsense is refused by name. */
#include "io/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "tests/runner.h"

static char path[256];

static void make_path(void) {
  const char *dir = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/npy_test_%d.npy", dir == NULL ? "/tmp" : dir, (int)getpid());
}

static void write_bytes(const void *data, size_t n) {
  make_path();
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(data, 1, n, f), n);
  fclose(f);
}

/* A file of this version, header and data. */
static void write_file(int version, const char *header, const void *data, size_t n) {
  unsigned char file[4096] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
  size_t length = strlen(header), at = 8;
  file[at++] = (unsigned char)(length & 255);
  file[at++] = (unsigned char)(length >> 8);
  if (version > 1) at += 2;
  memcpy(file + at, header, length);
  if (n > 0) memcpy(file + at + length, data, n);
  write_bytes(file, at + length + n);
}

static void refused(weft_code_t code, const char *why) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_npy_read(path, &t);
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), path));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), why));
  if (strstr(weft_status_message(s), why) == NULL) printf("\n    got: %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL(t);
  weft_status_free(s);
  weft_tensor_release(t);
  remove(path);
}

static weft_tensor_t *read_back(void) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_npy_read(path, &t);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  remove(path);
  return t;
}

static void numpy_s_files_are_read(void) {
  static const float values[6] = {0, 1, 2, 3, 4, 5};
  static const char *const headers[] = {
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
      "{'shape': (2,3), 'fortran_order': False, 'descr': '<f4'}\n",
  };
  for (int version = 1; version <= 3; version++) {
    for (int i = 0; i < 2; i++) {
      write_file(version, headers[i], values, sizeof values);
      weft_tensor_t *t = read_back();
      CU_ASSERT_TRUE(t->dtype == WEFT_F32 && t->shape.rank == 2 && t->shape.dims[0] == 2 &&
                     t->shape.dims[1] == 3);
      CU_ASSERT_EQUAL(memcmp(t->data, values, sizeof values), 0);
      weft_tensor_release(t);
    }
  }
}

static void scalars_and_empty_arrays_are_arrays(void) {
  const int64_t one = 7;
  write_file(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", &one, sizeof one);
  weft_tensor_t *t = read_back();
  CU_ASSERT_TRUE(t->dtype == WEFT_I64 && t->shape.rank == 0 && *(const int64_t *)t->data == 7);
  weft_tensor_release(t);
  write_file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }\n", NULL, 0);
  t = read_back();
  CU_ASSERT_TRUE(t->dtype == WEFT_U8 && t->shape.rank == 2 && t->bytes == 0);
  weft_tensor_release(t);
}

static void every_plain_dtype_comes_back_as_it_was(void) {
  static const weft_dtype_t dtypes[] = {WEFT_BOOL, WEFT_I8,  WEFT_U8,  WEFT_I16, WEFT_U16,
                                        WEFT_I32,  WEFT_U32, WEFT_I64, WEFT_U64, WEFT_F16,
                                        WEFT_F32,  WEFT_F64, WEFT_C64, WEFT_C128};
  make_path();
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
    const int64_t dims[] = {3, 1, 2};
    weft_shape_t shape;
    weft_tensor_t *t = NULL;
    weft_status_t *s = weft_shape_make(dims, 3, &shape);
    if (s == NULL) s = weft_tensor_new(dtypes[i], &shape, NULL, &t);
    for (size_t b = 0; s == NULL && b < t->bytes; b++) ((unsigned char *)t->data)[b] = (unsigned char)(b % 2);
    if (s == NULL) s = weft_npy_write(path, t);
    CU_ASSERT_PTR_NULL_FATAL(s);
    weft_tensor_t *back = read_back();
    CU_ASSERT_TRUE(back->dtype == t->dtype && back->bytes == t->bytes && back->shape.rank == 3);
    CU_ASSERT_EQUAL(memcmp(back->data, t->data, t->bytes), 0);
    weft_tensor_release(back);
    weft_tensor_release(t);
  }
}

static void what_numpy_lacks_is_not_written(void) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(2);
  make_path();
  weft_status_t *s = weft_tensor_new(WEFT_BF16, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  s = weft_npy_write(path, t);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "bfloat16"));
  weft_status_free(s);
  CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
  s = weft_npy_write("/nonexistent/folder/x.npy", t);
  CU_ASSERT_NOT_EQUAL(weft_status_code(s), WEFT_OK);
  weft_status_free(s);
  weft_tensor_release(t);
}

static void nonsense_is_refused(void) {
  make_path();
  remove(path);
  refused(WEFT_NOT_FOUND, "");
  write_bytes("hello", 5);
  refused(WEFT_INVALID_ARGUMENT, "no magic bytes");
  write_bytes("\x93NUMPY\x09\x00", 8);
  refused(WEFT_INVALID_ARGUMENT, "version");
  write_bytes("\x93NUMPY\x01\x00\x40\x00{'descr'", 18);
  refused(WEFT_INVALID_ARGUMENT, "cut off");
  write_bytes("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12);
  refused(WEFT_INVALID_ARGUMENT, "too long");
  write_file(1, "{}\n", NULL, 0);
  refused(WEFT_INVALID_ARGUMENT, "dtype");
  write_file(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd", 4);
  refused(WEFT_INVALID_ARGUMENT, "big-endian");
  write_file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n", "abcd", 4);
  refused(WEFT_INVALID_ARGUMENT, "Fortran");
  write_file(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "abcd", 4);
  refused(WEFT_INVALID_ARGUMENT, "dtype");
  write_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", "abcd", 4);
  refused(WEFT_INVALID_ARGUMENT, "shape");
  write_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "abcd", 4);
  refused(WEFT_DATA_LOSS, "[2]");
  write_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n", "abcd",
             4);
  refused(WEFT_INVALID_ARGUMENT, "");
}

/* Any prefix of a good file is refused, and none crashes. */
static void every_cut_is_noticed(void) {
  static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  unsigned char file[128] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof header - 1, 0};
  memcpy(file + 10, header, sizeof header - 1);
  size_t whole = 10 + sizeof header - 1 + 8;
  for (size_t n = 0; n < whole; n++) {
    write_bytes(file, n);
    weft_tensor_t *t = NULL;
    weft_status_t *s = weft_npy_read(path, &t);
    CU_ASSERT_PTR_NOT_NULL(s);
    weft_status_free(s);
    weft_tensor_release(t);
  }
  remove(path);
}

static weft_status_t *read_and_drop(void) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_npy_read(path, &t);
  weft_tensor_release(t);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  long n;
  write_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd", 4);
  WEFT_FAIL_EACH_ALLOCATION(n, s, read_and_drop());
  CU_ASSERT_TRUE(n >= 2);
  remove(path);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"numpy_s_files_are_read", numpy_s_files_are_read},
      {"scalars_and_empty_arrays_are_arrays", scalars_and_empty_arrays_are_arrays},
      {"every_plain_dtype_comes_back_as_it_was", every_plain_dtype_comes_back_as_it_was},
      {"what_numpy_lacks_is_not_written", what_numpy_lacks_is_not_written},
      {"nonsense_is_refused", nonsense_is_refused},
      {"every_cut_is_noticed", every_cut_is_noticed},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("npy", tests);
}
