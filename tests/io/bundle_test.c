/* Checkpoints: written, read, merged, damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/bundle.h"
#include "io/crc32c.h"
#include "tests/runner.h"

static char dir[256];

static weft_str_t in_dir(const char *name, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/%s", dir, name);
  return weft_str(buffer);
}
#define PATH(name) in_dir(name, (char[320]){0}, 320)

static bool begin(void) {
  const char *root = getenv("TEST_TMPDIR");
  snprintf(dir, sizeof dir, "%s/bundleXXXXXX", root == NULL ? "/tmp" : root);
  return mkdtemp(dir) != NULL;
}

static weft_status_t *floats(int64_t rows, int64_t columns, float first, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_matrix(rows, columns);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &shape, NULL, out));
  for (int64_t i = 0; i < (*out)->count; i++) ((float *)(*out)->data)[i] = first + (float)i;
  return NULL;
}

static void the_checksum_is_castagnolis(void) {
  CU_ASSERT_EQUAL(weft_crc32c("123456789", 9), 0xe3069283u);
  CU_ASSERT_EQUAL(weft_crc32c_mask(0xe3069283u), 0xc78ab0e5u);
  CU_ASSERT_EQUAL(weft_crc32c_unmask(0xc78ab0e5u), 0xe3069283u);
  CU_ASSERT_EQUAL(weft_crc32c_extend(weft_crc32c("1234", 4), "56789", 5), 0xe3069283u);
  CU_ASSERT_EQUAL(weft_crc32c(NULL, 0), 0);
}

static void the_header_has_tensorflows_bytes(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_bundle_header_put(1, &b);
  CU_ASSERT_EQUAL(b.length, 6);
  CU_ASSERT_EQUAL(memcmp(b.data, "\x08\x01\x1a\x02\x08\x01", 6), 0);
  weft_strbuf_deinit(&b);
}

/* Writes matrix "m" whole, strings "s", and "p" [6,2] in two slices of three rows. */
static weft_status_t *write_bundle(const char *name, float first) {
  weft_bundle_writer_t *w = NULL;
  weft_tensor_t *m = NULL, *p = NULL, *strings = NULL;
  weft_shape_t two = weft_shape_vector(2), full = weft_shape_matrix(6, 2);
  weft_status_t *s = floats(2, 3, first, &m);
  if (s == NULL) s = floats(3, 2, 100, &p);
  if (s == NULL) s = weft_tensor_new(WEFT_STRING, &two, NULL, &strings);
  if (s == NULL)
    s = weft_tensor_set_str(strings, 0, WEFT_STR("a longer text than what fits into one element"));
  if (s == NULL) s = weft_bundle_writer_create(PATH(name), &w);
  if (s == NULL) s = weft_bundle_writer_add(w, WEFT_STR("m"), m);
  if (s == NULL) s = weft_bundle_writer_add(w, WEFT_STR("s"), strings);
  for (int i = 0; s == NULL && i < 2; i++) {
    weft_tensor_slice_t slice = {.rank = 2, .start = {3 * i}, .length = {3, 2}, .is_full = {false, true}};
    s = weft_bundle_writer_add_slice(w, WEFT_STR("p"), &full, &slice, p);
  }
  if (s == NULL) {
    s = weft_bundle_writer_finish(w);
  } else {
    weft_bundle_writer_abandon(w);
  }
  weft_tensor_release(m);
  weft_tensor_release(p);
  weft_tensor_release(strings);
  return s;
}

static weft_status_t *read_number(const char *bundle, const char *name, int64_t i, float *out) {
  weft_bundle_reader_t *r = NULL;
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_bundle_reader_open(PATH(bundle), &r);
  if (s == NULL) s = weft_bundle_reader_read(r, weft_str(name), &t);
  if (s == NULL) *out = ((float *)t->data)[i];
  weft_tensor_release(t);
  weft_bundle_reader_close(r);
  return s;
}

static void what_is_written_is_read(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("b", 1));
  float f = 0;
  CU_ASSERT_PTR_NULL(read_number("b", "m", 5, &f));
  CU_ASSERT_EQUAL(f, 6);
  CU_ASSERT_PTR_NULL(read_number("b", "p", 6, &f)); /* the first of the second slice */
  CU_ASSERT_EQUAL(f, 100);
  weft_bundle_reader_t *r = NULL;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_open(PATH("b"), &r));
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read(r, WEFT_STR("s"), &t));
  CU_ASSERT_TRUE(weft_str_is(weft_tensor_str_at(t, 0), "a longer text than what fits into one element"));
  CU_ASSERT_EQUAL(weft_tensor_str_at(t, 1).length, 0);
  weft_tensor_release(t);
  weft_tensor_slice_t slice = {.rank = 2, .start = {2, 1}, .length = {2, 1}}; /* across both stored slices */
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read_slice(r, WEFT_STR("p"), &slice, &t));
  CU_ASSERT_EQUAL(((float *)t->data)[0], 105);
  CU_ASSERT_EQUAL(((float *)t->data)[1], 101);
  weft_tensor_release(t);
  weft_status_t *s = weft_bundle_reader_read(r, WEFT_STR("x"), &t);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "Key x not found in checkpoint");
  weft_status_free(s);
  weft_bundle_reader_close(r);
}

/* Written by TensorFlow: three shards, "p" [6,2] in slices of four and two rows in two of them. */
static void tensorflows_checkpoint_is_read(void) {
  weft_bundle_reader_t *r = NULL;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_open(WEFT_STR("tests/io/testdata/tf"), &r));
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read(r, WEFT_STR("p"), &t));
  CU_ASSERT_EQUAL_FATAL(t->count, 12);
  for (int i = 0; i < 12; i++) CU_ASSERT_EQUAL(((float *)t->data)[i], (float)i);
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read(r, WEFT_STR("s"), &t));
  CU_ASSERT_TRUE(t->count == 3 && weft_str_is(weft_tensor_str_at(t, 0), "ab"));
  CU_ASSERT_EQUAL(weft_tensor_str_at(t, 2).length, 300);
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read(r, WEFT_STR("bf"), &t));
  CU_ASSERT_EQUAL(t->dtype, WEFT_BF16);
  CU_ASSERT_EQUAL(weft_bf16_to_f32(((uint16_t *)t->data)[1]), 2.5f);
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_read(r, WEFT_STR("z"), &t));
  CU_ASSERT_TRUE(t->shape.rank == 2 && t->shape.dims[0] == 0 && t->shape.dims[1] == 3);
  weft_tensor_release(t);
  weft_bundle_reader_close(r);
}

static weft_status_t *replace_bundle(const char *name, float first) {
  weft_bundle_writer_t *w = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(floats(1, 2, first, &t));
  weft_status_t *s = weft_bundle_writer_create(PATH(name), &w);
  if (s == NULL) s = weft_bundle_writer_add(w, WEFT_STR("m"), t);
  if (s == NULL) {
    s = weft_bundle_writer_finish(w);
  } else {
    weft_bundle_writer_abandon(w);
  }
  weft_tensor_release(t);
  return s;
}

static float number_in(const char *bundle) {
  float f = -1;
  weft_status_t *s = read_number(bundle, "m", 0, &f);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  return f;
}

/* tests/io/crash_test.c has the moments in between. */
static void a_bundle_is_replaced(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  for (int i = 1; i < 6; i++) {
    CU_ASSERT_PTR_NULL_FATAL(replace_bundle("b", (float)i));
    CU_ASSERT_EQUAL(number_in("b"), (float)i);
    CU_ASSERT_TRUE(weft_file_exists(PATH("b.data-00000-of-00001").data));
    CU_ASSERT_FALSE(weft_file_exists(PATH("b.data-00000-of-00002").data));
  }
}

static void a_bundle_that_is_not_replaced_stays(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(replace_bundle("b", 1));
  weft_bundle_writer_t *w = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_writer_create(PATH("b"), &w));
  weft_bundle_writer_abandon(w);
  CU_ASSERT_EQUAL(number_in("b"), 1);
  for (int n = 0, is_over = 0; !is_over; n++) {
    float before = number_in("b");
    weft_fault_arm(n);
    weft_status_t *s = replace_bundle("b", before + 1);
    is_over = !weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_TRUE(s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED);
    CU_ASSERT_EQUAL(number_in("b"),
                    s == NULL ? before + 1 : before); /* a file that could not be removed is no failure */
    weft_status_free(s);
  }
}

static void names_are_listed_in_order(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("b", 1));
  weft_bundle_reader_t *r = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_reader_open(PATH("b"), &r));
  char all[16] = "";
  size_t at = 0;
  weft_str_t name;
  while (weft_bundle_reader_next(r, &at, &name))
    strncat(all, name.data, name.length); /* not the keys of slices */
  CU_ASSERT_STRING_EQUAL(all, "mps");
  weft_bundle_reader_close(r);
}

static void failed_writes_leave_no_file(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, write_bundle("b", 1));
  CU_ASSERT_TRUE(n > 5);
  CU_ASSERT_TRUE(weft_file_exists(PATH("b.index").data));
  weft_file_remove(PATH("b.index").data);
  weft_file_remove(PATH("b.data-00000-of-00001").data);
  CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing else was left */
}

static void bundles_merge(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  weft_bundle_writer_t *w = NULL;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(floats(1, 1, 77, &t));
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("tmp/a", 5));
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_writer_create(PATH("tmp/b"), &w));
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_writer_add(w, WEFT_STR("other"), t));
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_writer_finish(w));
  weft_tensor_release(t);
  weft_str_t from[] = {PATH("tmp/a"), PATH("tmp/b")};
  CU_ASSERT_PTR_NULL_FATAL(weft_bundle_merge(from, 2, PATH("all"), true, false));
  CU_ASSERT_FALSE(weft_file_exists(PATH("tmp").data));
  CU_ASSERT_TRUE(weft_file_exists(PATH("all.data-00001-of-00002").data));
  float f = 0;
  CU_ASSERT_PTR_NULL(read_number("all", "other", 0, &f));
  CU_ASSERT_EQUAL(f, 77);
  CU_ASSERT_PTR_NULL(read_number("all", "m", 0, &f));
  CU_ASSERT_EQUAL(f, 5);
  CU_ASSERT_PTR_NULL(read_number("all", "p", 11, &f));
  CU_ASSERT_EQUAL(f, 105);
}

static void a_tensor_in_two_bundles_is_refused(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("a", 1));
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("b", 2));
  weft_str_t from[] = {PATH("a"), PATH("b")};
  weft_status_t *s = weft_bundle_merge(from, 2, PATH("all"), false, false);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
}

/* Flips each byte in turn: the reader must notice or give the right numbers, and never crash. */
static void damage_is_noticed(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  CU_ASSERT_PTR_NULL_FATAL(write_bundle("b", 1));
  static const char *const files[] = {"b.index", "b.data-00000-of-00001"};
  for (int k = 0; k < 2; k++) {
    char *bytes = NULL;
    size_t n = 0;
    CU_ASSERT_PTR_NULL_FATAL(weft_file_read_all(PATH(files[k]).data, &bytes, &n));
    for (size_t i = 0; i < n; i++) {
      weft_file_writer_t *w = NULL;
      bytes[i] ^= 0x21;
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(PATH(files[k]).data, &w));
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_append(w, bytes, n));
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_finish(w));
      bytes[i] ^= 0x21;
      float f = 0;
      weft_status_t *s = read_number("b", "m", 2, &f);
      CU_ASSERT_TRUE(s != NULL || f == 3);
      weft_status_free(s);
    }
    for (size_t length = 0; length < n; length += 7) {
      weft_file_writer_t *w = NULL;
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(PATH(files[k]).data, &w));
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_append(w, bytes, length));
      CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_finish(w));
      float f = 0;
      weft_status_t *s = read_number("b", "m", 2, &f);
      CU_ASSERT_TRUE(s != NULL || f == 3);
      weft_status_free(s);
    }
    CU_ASSERT_PTR_NULL_FATAL(write_bundle("b", 1));
    weft_free(bytes);
  }
}

static void tables_of_many_blocks_are_read(void) {
  CU_ASSERT_TRUE_FATAL(begin());
  enum { MANY = 20000 };
  char(*keys)[32] = weft_calloc(MANY, sizeof *keys);
  weft_table_entry_t *entries = weft_calloc(MANY, sizeof *entries);
  weft_file_writer_t *w = NULL;
  weft_table_t t;
  for (int i = 0; i < MANY; i++) {
    snprintf(keys[i], sizeof keys[i], "layer_%08d/kernel", i);
    entries[i] = (weft_table_entry_t){weft_str(keys[i]), weft_str(keys[i] + 3)};
  }
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_create(PATH("t").data, &w));
  CU_ASSERT_PTR_NULL_FATAL(weft_table_write(w, entries, MANY));
  CU_ASSERT_PTR_NULL_FATAL(weft_file_writer_finish(w));
  CU_ASSERT_PTR_NULL_FATAL(weft_table_read(PATH("t").data, &t));
  CU_ASSERT_EQUAL(t.count, MANY);
  const weft_table_entry_t *e = weft_table_find(&t, WEFT_STR("layer_00012345/kernel"));
  CU_ASSERT_TRUE(e != NULL && weft_str_is(e->value, "er_00012345/kernel"));
  CU_ASSERT_PTR_NULL(weft_table_find(&t, WEFT_STR("layer_00012345/kerne")));
  weft_table_deinit(&t);
  weft_table_reader_t *r = NULL;
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(weft_table_reader_open(PATH("t").data, &r));
  for (int i = 0; i < MANY; i += 997) {
    value.length = 0;
    CU_ASSERT_PTR_NULL_FATAL(weft_table_reader_get(r, entries[i].key, &value));
    CU_ASSERT_TRUE(weft_str_eq(weft_str_of(value.data, value.length), entries[i].value));
  }
  static const char *const absent[] = {"", "layer_00012345/kerne", "layer_00019999/kernel+"};
  for (int i = 0; i < 3; i++) {
    weft_status_t *s = weft_table_reader_get(r, weft_str(absent[i]), &value);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
    weft_status_free(s);
  }
  weft_table_reader_close(r);
  weft_strbuf_deinit(&value);
  weft_free(entries);
  weft_free(keys);
}

static const CU_TestInfo tests[] = {
    {"the checksum is Castagnoli's", the_checksum_is_castagnolis},
    {"the header has TensorFlow's bytes", the_header_has_tensorflows_bytes},
    {"what is written is read", what_is_written_is_read},
    {"TensorFlow's checkpoint is read", tensorflows_checkpoint_is_read},
    {"a bundle is replaced", a_bundle_is_replaced},
    {"a bundle that is not replaced stays", a_bundle_that_is_not_replaced_stays},
    {"names are listed in order", names_are_listed_in_order},
    {"failed writes leave no file", failed_writes_leave_no_file},
    {"bundles merge", bundles_merge},
    {"a tensor in two bundles is refused", a_tensor_in_two_bundles_is_refused},
    {"damage is noticed", damage_is_noticed},
    {"tables of many blocks are read", tables_of_many_blocks_are_read},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("bundle", tests); }
