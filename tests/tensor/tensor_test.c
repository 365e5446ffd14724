#include "tensor/tensor.h"

#include "base/alloc.h"
#include "tests/runner.h"

static weft_tensor_t *new_tensor(weft_dtype_t dtype, weft_shape_t shape) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(dtype, &shape, NULL, &t));
  return t;
}

static void expect_code(weft_status_t *s, weft_code_t code) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  weft_status_free(s);
}

static void tensors_of_every_dtype_and_size_have_their_bytes(void) {
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
    for (int64_t n = 0; n < 2000; n += 333) {
      weft_tensor_t *t = new_tensor((weft_dtype_t)d, weft_shape_vector(n));
      CU_ASSERT_EQUAL(t->count, n);
      CU_ASSERT_EQUAL(t->bytes, (size_t)n * weft_dtype_size(d));
      CU_ASSERT((t->data == NULL) == (n == 0));
      if (weft_dtype_is_plain(d) && n > 0) memset(t->data, 0x5a, t->bytes);
      if (t->bytes > 256) CU_ASSERT_EQUAL((uintptr_t)t->data % WEFT_TENSOR_ALIGNMENT, 0);
      weft_tensor_release(t);
    }
  }
}

static void impossible_tensors_are_refused(void) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(WEFT_UNKNOWN_DIM);
  expect_code(weft_tensor_new(WEFT_F32, &shape, NULL, &t), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_new(WEFT_F32, &WEFT_UNKNOWN_SHAPE, NULL, &t), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_new((weft_dtype_t)(WEFT_F32 + WEFT_REF), &WEFT_SCALAR, NULL, &t),
              WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_new((weft_dtype_t)99, &WEFT_SCALAR, NULL, &t), WEFT_INVALID_ARGUMENT);
  shape = weft_shape_vector(INT64_MAX / 2);
  expect_code(weft_tensor_new(WEFT_F64, &shape, NULL, &t), WEFT_RESOURCE_EXHAUSTED);
}

static void views_share_bytes_and_keep_them_alive(void) {
  weft_tensor_t *t = new_tensor(WEFT_I32, weft_shape_matrix(100, 3)), *view = NULL, *row = NULL;
  weft_shape_t flat = weft_shape_vector(300), wrong = weft_shape_vector(301);
  int32_t *data = t->data;
  for (int i = 0; i < 300; i++) data[i] = i;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_view(t, WEFT_I32, &flat, &view));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_slice(view, 297, 3, &row));
  weft_tensor_release(t);
  weft_tensor_release(view);
  CU_ASSERT_EQUAL(((int32_t *)row->data)[2], 299);
  CU_ASSERT_PTR_EQUAL(row->data, data + 297);
  expect_code(weft_tensor_view(row, WEFT_I32, &wrong, &view), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_slice(row, 2, 2, &view), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_slice(row, -1, 1, &view), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_slice(row, INT64_MAX, 1, &view), WEFT_INVALID_ARGUMENT);
  weft_tensor_release(row);
}

static void a_view_may_be_of_another_plain_dtype(void) {
  weft_tensor_t *t = new_tensor(WEFT_F32, weft_shape_vector(4)), *view = NULL;
  weft_shape_t two = weft_shape_vector(2), four = weft_shape_vector(4);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_view(t, WEFT_I64, &two, &view));
  CU_ASSERT_EQUAL(view->bytes, 16);
  weft_tensor_release(view);
  expect_code(weft_tensor_view(t, WEFT_I64, &four, &view), WEFT_INVALID_ARGUMENT);
  expect_code(weft_tensor_view(t, WEFT_STRING, &four, &view), WEFT_INVALID_ARGUMENT);
  weft_tensor_release(t);
}

static void rows_of_an_empty_tensor_are_empty(void) {
  weft_tensor_t *t = new_tensor(WEFT_F32, weft_shape_matrix(0, 5)), *rows = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_slice(t, 0, 0, &rows));
  CU_ASSERT_EQUAL(rows->count, 0);
  weft_tensor_release(rows);
  weft_tensor_release(t);
}

static void only_the_last_reference_may_write(void) {
  weft_tensor_t *t = new_tensor(WEFT_F32, weft_shape_vector(4)), *view = NULL;
  CU_ASSERT(weft_tensor_is_exclusive(t));
  weft_tensor_retain(t);
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(t));
  weft_tensor_release(t);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_view(t, WEFT_F32, &t->shape, &view));
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(t));
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(view));
  weft_tensor_release(t);
  CU_ASSERT(weft_tensor_is_exclusive(view));
  weft_tensor_release(view);
}

static void count_call(void *data, size_t n, void *arg) {
  (void)data;
  *(size_t *)arg += n;
}

static void wrapped_bytes_are_given_back_once_and_never_written(void) {
  char bytes[12] = "hello world";
  size_t given_back = 0;
  weft_tensor_t *t = NULL, *view = NULL;
  weft_shape_t shape = weft_shape_vector(3);
  expect_code(weft_tensor_wrap(WEFT_F32, &shape, bytes, 11, count_call, &given_back, &t),
              WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_wrap(WEFT_F32, &shape, bytes, 12, count_call, &given_back, &t));
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(t));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_view(t, WEFT_F32, &shape, &view));
  weft_tensor_release(t);
  CU_ASSERT_EQUAL(given_back, 0);
  weft_tensor_release(view);
  CU_ASSERT_EQUAL(given_back, 12);
}

static void strings_are_copied_deep(void) {
  static const char long_text[] = "a string that is longer than fits inside of the element";
  weft_tensor_t *t = new_tensor(WEFT_STRING, weft_shape_vector(3)), *copy = NULL;
  CU_ASSERT_EQUAL(weft_tensor_str_at(t, 1).length, 0);
  CU_ASSERT_PTR_NULL(weft_tensor_set_str(t, 0, WEFT_STR("short")));
  CU_ASSERT_PTR_NULL(weft_tensor_set_str(t, 2, weft_str(long_text)));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_copy(t, &copy));
  CU_ASSERT_PTR_NULL(weft_tensor_set_str(t, 2, WEFT_STR("changed")));
  weft_tensor_release(t);
  CU_ASSERT(weft_str_is(weft_tensor_str_at(copy, 0), "short"));
  CU_ASSERT(weft_str_is(weft_tensor_str_at(copy, 1), ""));
  CU_ASSERT(weft_str_is(weft_tensor_str_at(copy, 2), long_text));
  weft_tensor_release(copy);
}

static void elements_are_copied_within_bounds_only(void) {
  weft_tensor_t *a = new_tensor(WEFT_I16, weft_shape_vector(4)),
                *b = new_tensor(WEFT_I16, weft_shape_vector(4));
  memcpy(a->data, (int16_t[]){1, 2, 3, 4}, 8);
  memcpy(b->data, (int16_t[]){5, 6, 7, 8}, 8);
  CU_ASSERT_PTR_NULL(weft_tensor_copy_elements(a, 2, b, 0, 2));
  CU_ASSERT(memcmp(a->data, (int16_t[]){1, 2, 5, 6}, 8) == 0);
  expect_code(weft_tensor_copy_elements(a, 3, b, 0, 2), WEFT_INTERNAL);
  expect_code(weft_tensor_copy_elements(a, 0, b, 3, 2), WEFT_INTERNAL);
  expect_code(weft_tensor_copy_elements(a, 0, b, -1, 2), WEFT_INTERNAL);
  weft_tensor_release(a);
  weft_tensor_release(b);
}

static int destroyed;
static void count_destroy(weft_object_t *o) {
  (void)o;
  destroyed++;
}

static void handles_are_shared_and_released(void) {
  weft_object_t object = {.destroy = count_destroy};
  atomic_init(&object.refs, 1);
  weft_handle_t *h =
      weft_handle_create(WEFT_STR("/cpu:0"), WEFT_STR(""), WEFT_STR("v"), WEFT_STR("Var"), 7, &object);
  CU_ASSERT_PTR_NOT_NULL_FATAL(h);
  weft_object_release(&object);
  weft_tensor_t *t = new_tensor(WEFT_RESOURCE, WEFT_SCALAR), *copy = NULL;
  *(weft_handle_t **)t->data = h;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_copy(t, &copy));
  weft_tensor_release(t);
  CU_ASSERT_EQUAL(destroyed, 0);
  CU_ASSERT(weft_str_is((*(weft_handle_t **)copy->data)->name, "v"));
  weft_tensor_release(copy);
  CU_ASSERT_EQUAL(destroyed, 1);
}

static weft_status_t *make_some(void) {
  weft_tensor_t *t = NULL, *copy = NULL, *view = NULL;
  weft_shape_t shape = weft_shape_vector(20);
  weft_status_t *s = weft_tensor_new(WEFT_STRING, &shape, NULL, &t);
  for (int64_t i = 0; s == NULL && i < 20; i++)
    s = weft_tensor_set_str(t, i, WEFT_STR("a string of a certain length"));
  if (s == NULL) s = weft_tensor_copy(t, &copy);
  if (s == NULL) s = weft_tensor_slice(copy, 3, 4, &view);
  weft_tensor_release(view);
  weft_tensor_release(copy);
  weft_tensor_release(t);
  return s;
}

static void failed_allocations_are_reported_and_leak_nothing(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_some());
  CU_ASSERT(n > 40);
}

/* ---- variants in variants ---- */

typedef struct box {
  weft_variant_t variant; /* first */
  weft_tensor_t *inside[2];
} box_t;

static int num_boxes_destroyed;

static void box_destroy(weft_variant_t *v) {
  box_t *b = (box_t *)v;
  num_boxes_destroyed++;
  for (int i = 0; i < 2; i++) weft_tensor_release(b->inside[i]);
  weft_free(b);
}

/* Takes the references to a and b. */
static weft_tensor_t *boxed(weft_tensor_t *a, weft_tensor_t *b) {
  static const weft_variant_type_t type = {"box", box_destroy};
  box_t *box = weft_calloc(1, sizeof *box);
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(box);
  atomic_init(&box->variant.refs, 1);
  box->variant.type = &type;
  box->inside[0] = a;
  box->inside[1] = b;
  weft_status_t *s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  ((weft_variant_t **)t->data)[0] = &box->variant;
  return t;
}

/* A loop that puts a list into a list makes any depth; a server's stack was at its end after some 100,000. */
static void variants_in_variants_need_little_stack(void) {
  enum { DEPTH = 1000000, TREE = 12 };
  weft_tensor_t *chain = NULL;
  for (int i = 0; i < DEPTH; i++) chain = i % 2 == 0 ? boxed(chain, NULL) : boxed(NULL, chain);
  num_boxes_destroyed = 0;
  weft_tensor_release(chain);
  CU_ASSERT_EQUAL(num_boxes_destroyed, DEPTH);

  weft_tensor_t *held = boxed(NULL, NULL), *level[1 << TREE]; /* a tree, whose leaves share one that stays */
  for (int i = 0; i < 1 << TREE; i++) level[i] = boxed(weft_tensor_retain(held), NULL);
  for (int n = 1 << (TREE - 1); n > 0; n /= 2) {
    for (int i = 0; i < n; i++) level[i] = boxed(level[2 * i], level[2 * i + 1]);
  }
  for (int i = 0; i < 100; i++) level[0] = boxed(level[0], NULL);
  num_boxes_destroyed = 0;
  weft_tensor_release(level[0]);
  CU_ASSERT_EQUAL(num_boxes_destroyed, (2 << TREE) - 1 + 100);
  weft_tensor_release(held);
  CU_ASSERT_EQUAL(num_boxes_destroyed, (2 << TREE) + 100);
}

static const CU_TestInfo tests[] = {
    {"tensors of every dtype and size have their bytes", tensors_of_every_dtype_and_size_have_their_bytes},
    {"impossible tensors are refused", impossible_tensors_are_refused},
    {"views share bytes and keep them alive", views_share_bytes_and_keep_them_alive},
    {"a view may be of another plain dtype", a_view_may_be_of_another_plain_dtype},
    {"rows of an empty tensor are empty", rows_of_an_empty_tensor_are_empty},
    {"only the last reference may write", only_the_last_reference_may_write},
    {"wrapped bytes are given back once and never written",
     wrapped_bytes_are_given_back_once_and_never_written},
    {"strings are copied deep", strings_are_copied_deep},
    {"elements are copied within bounds only", elements_are_copied_within_bounds_only},
    {"handles are shared and released", handles_are_shared_and_released},
    {"failed allocations are reported and leak nothing", failed_allocations_are_reported_and_leak_nothing},
    {"variants in variants need little stack", variants_in_variants_need_little_stack},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("tensor", tests); }
