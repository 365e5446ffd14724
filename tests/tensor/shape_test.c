#include "tensor/shape.h"

#include "tests/runner.h"

static void counts_are_products(void) {
  weft_shape_t s = {.rank = 3, .dims = {2, 3, 4}};
  CU_ASSERT_EQUAL(weft_shape_count(&s), 24);
  CU_ASSERT_EQUAL(weft_shape_count(&WEFT_SCALAR), 1);
  s.dims[1] = 0;
  CU_ASSERT_EQUAL(weft_shape_count(&s), 0);
  s.dims[1] = WEFT_UNKNOWN_DIM;
  CU_ASSERT_EQUAL(weft_shape_count(&s), -1);
  CU_ASSERT_FALSE(weft_shape_is_known(&s));
  CU_ASSERT_EQUAL(weft_shape_count(&WEFT_UNKNOWN_SHAPE), -1);
}

static void overflow_is_seen(void) {
  weft_shape_t s = weft_shape_matrix((int64_t)1 << 40, (int64_t)1 << 40), out;
  CU_ASSERT_EQUAL(weft_shape_count(&s), -1);
  weft_status_t *e = weft_shape_make(s.dims, 2, &out);
  CU_ASSERT_EQUAL(weft_status_code(e), WEFT_INVALID_ARGUMENT);
  weft_status_free(e);
  int64_t huge_and_empty[] = {0, (int64_t)1 << 40, (int64_t)1 << 40};
  e = weft_shape_make(huge_and_empty, 3, &out);
  CU_ASSERT_EQUAL(weft_status_code(e), WEFT_INVALID_ARGUMENT);
  weft_status_free(e);
}

static void bad_dims_and_ranks_are_refused(void) {
  int64_t dims[WEFT_MAX_DIMS + 1] = {-1};
  weft_shape_t out;
  static const int ranks[] = {1, -1, WEFT_MAX_DIMS + 1};
  for (int i = 0; i < 3; i++) {
    weft_status_t *e = weft_shape_make(dims, ranks[i], &out);
    CU_ASSERT_EQUAL(weft_status_code(e), WEFT_INVALID_ARGUMENT);
    weft_status_free(e);
    dims[0] = 1;
  }
  for (int i = 0; i < WEFT_MAX_DIMS; i++) dims[i] = 1;
  CU_ASSERT_PTR_NULL(weft_shape_make(dims, WEFT_MAX_DIMS, &out));
  CU_ASSERT_EQUAL(weft_shape_count(&out), 1);
}

static void unknown_is_compatible_with_everything_but_equal_to_itself_only(void) {
  weft_shape_t a = weft_shape_matrix(2, WEFT_UNKNOWN_DIM), b = weft_shape_matrix(2, 3),
               c = weft_shape_matrix(4, 3);
  CU_ASSERT(weft_shape_compatible(&a, &b));
  CU_ASSERT_FALSE(weft_shape_compatible(&a, &c));
  CU_ASSERT(weft_shape_compatible(&WEFT_UNKNOWN_SHAPE, &c));
  CU_ASSERT_FALSE(weft_shape_compatible(&WEFT_SCALAR, &b));
  CU_ASSERT_FALSE(weft_shape_eq(&a, &b));
  CU_ASSERT(weft_shape_eq(&a, &a));
  CU_ASSERT(weft_shape_eq(&WEFT_UNKNOWN_SHAPE, &WEFT_UNKNOWN_SHAPE));
}

static void shapes_print_as_tensorflow_prints_them(void) {
  weft_shape_t s = {.rank = 3, .dims = {2, -1, 0}};
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&s), "[2,?,0]");
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&WEFT_SCALAR), "[]");
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&WEFT_UNKNOWN_SHAPE), "<unknown>");
  s.rank = WEFT_MAX_DIMS;
  for (int i = 0; i < WEFT_MAX_DIMS; i++) s.dims[i] = INT64_MAX;
  CU_ASSERT_EQUAL(strlen(WEFT_SHAPE_TEXT(&s)), 2 + 16 * 19 + 15); /* the widest that there is fits */
}

static const CU_TestInfo tests[] = {
    {"counts are products", counts_are_products},
    {"overflow is seen", overflow_is_seen},
    {"bad dims and ranks are refused", bad_dims_and_ranks_are_refused},
    {"unknown is compatible with everything but equal to itself only",
     unknown_is_compatible_with_everything_but_equal_to_itself_only},
    {"shapes print as TensorFlow prints them", shapes_print_as_tensorflow_prints_them},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("shape", tests); }
