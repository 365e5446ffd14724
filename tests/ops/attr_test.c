/* tests/ops/attr_test.c - attribute values: equality, copies that outlive their source, text. */
#include "ops/attr.h"

#include "tests/runner.h"

static weft_tensor_t *floats(int64_t n) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(n);
  weft_status_t *s = weft_tensor_new(WEFT_F32, &shape, NULL, &t);
  weft_status_free(s);
  for (int64_t i = 0; t != NULL && i < n; i++) ((float *)t->data)[i] = (float)i / 2;
  return t;
}

static void expect_text(weft_attr_t a, const char *wanted) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_attr_print(&a, &text);
  CU_ASSERT_STRING_EQUAL(text.data, wanted);
  weft_strbuf_deinit(&text);
}

static void values_print_as_in_tensorflow(void) {
  static const weft_shape_t shape = {.rank = 2, .dims = {2, -1}};
  static const int64_t ints[] = {1, 2, 3};
  const weft_named_attr_t inner[] = {{WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}}};
  const weft_func_attr_t func = {.name = WEFT_STR("f"), .attrs = inner, .num_attrs = 1};
  expect_text((weft_attr_t){.kind = WEFT_ATTR_STRING, .s = WEFT_STR("a\"b\n\x01")}, "\"a\\\"b\\n\\001\"");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_INT, .i = -5}, "-5");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_FLOAT, .f = 0.1f}, "0.1");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_FLOAT, .f = 1e-7f}, "1e-07");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_BOOL, .b = true}, "true");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = WEFT_BF16}, "DT_BFLOAT16");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_SHAPE, .shape = &shape}, "[2,?]");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_INT, .is_list = true, .n = 3, .list.ints = ints}, "[1, 2, 3]");
  expect_text((weft_attr_t){.is_list = true}, "[]");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_FUNC, .func = &func}, "f[T=DT_FLOAT]");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_PLACEHOLDER, .s = WEFT_STR("T")}, "$T");
}

static void long_values_are_cut(void) {
  static char text[200];
  static int64_t ints[100];
  memset(text, 'x', sizeof text);
  expect_text((weft_attr_t){.kind = WEFT_ATTR_STRING, .s = weft_str_of(text, sizeof text)},
              "\"xxxxxxxxxx...xxxxxxxxxx\"");
  expect_text((weft_attr_t){.kind = WEFT_ATTR_INT, .is_list = true, .n = 100, .list.ints = ints},
              "[0, 0, 0, 0, 0, ..., 0, 0, 0, 0, 0]");
  weft_tensor_t *t = floats(5);
  expect_text((weft_attr_t){.kind = WEFT_ATTR_TENSOR, .tensor = t},
              "Tensor<type: float shape: [5] values: 0 0.5 1...>");
  weft_tensor_release(t);
}

static void equal_values_are_equal(void) {
  weft_tensor_t *a = floats(3), *b = floats(3), *c = floats(4);
  weft_attr_t x = {.kind = WEFT_ATTR_TENSOR, .tensor = a}, y = {.kind = WEFT_ATTR_TENSOR, .tensor = b},
              z = {.kind = WEFT_ATTR_TENSOR, .tensor = c};
  CU_ASSERT_TRUE(weft_attr_eq(&x, &y));
  CU_ASSERT_FALSE(weft_attr_eq(&x, &z));
  ((float *)b->data)[2] = 9;
  CU_ASSERT_FALSE(weft_attr_eq(&x, &y));
  weft_tensor_release(a);
  weft_tensor_release(b);
  weft_tensor_release(c);
  weft_attr_t one = {.kind = WEFT_ATTR_INT, .i = 1}, yes = {.kind = WEFT_ATTR_BOOL, .b = true};
  CU_ASSERT_TRUE(weft_attr_eq(&one, &one));
  CU_ASSERT_FALSE(weft_attr_eq(&one, &yes));
  weft_attr_t no_ints = {.kind = WEFT_ATTR_INT, .is_list = true}, nothing = {.is_list = true};
  CU_ASSERT_TRUE(weft_attr_eq(&no_ints, &nothing));
}

/* A function whose attributes hold a list of tensors and one of functions: the deepest value there is. */
static weft_status_t *copy_nested(weft_tensor_t *t) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_tensor_t *tensors[] = {t, t};
  char name[] = "inner";
  weft_named_attr_t inner_attrs[] = {
      {WEFT_STR("v"), {.kind = WEFT_ATTR_TENSOR, .is_list = true, .n = 2, .list.tensors = tensors}}};
  weft_func_attr_t inner = {.name = weft_str(name), .attrs = inner_attrs, .num_attrs = 1};
  const weft_func_attr_t *funcs[] = {&inner, &inner};
  weft_named_attr_t attrs[] = {
      {WEFT_STR("f"), {.kind = WEFT_ATTR_FUNC, .is_list = true, .n = 2, .list.funcs = funcs}},
      {WEFT_STR("s"), {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("text")}}};
  weft_func_attr_t outer = {.name = WEFT_STR("outer"), .attrs = attrs, .num_attrs = 2};
  weft_attr_t from = {.kind = WEFT_ATTR_FUNC, .func = &outer}, copy;
  weft_status_t *s = weft_attr_copy(&arena, &from, &copy);
  if (s == NULL) {
    CU_ASSERT_TRUE(weft_attr_eq(&from, &copy));
    name[0] = 'X';
    CU_ASSERT_FALSE(weft_attr_eq(&from, &copy));
    weft_attr_release_tensors(&copy);
  }
  weft_arena_deinit(&arena);
  return s;
}

static void copies_share_tensors_and_nothing_else(void) {
  weft_tensor_t *t = floats(3);
  CU_ASSERT_PTR_NULL(copy_nested(t));
  CU_ASSERT_EQUAL(atomic_load(&t->refs), 1);
  weft_tensor_release(t);
}

static void a_failed_copy_keeps_no_tensor(void) {
  weft_tensor_t *t = floats(3);
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, copy_nested(t));
  CU_ASSERT_EQUAL(atomic_load(&t->refs), 1);
  weft_tensor_release(t);
}

static void names_are_found(void) {
  weft_named_attr_t attrs[] = {{WEFT_STR("a"), {.kind = WEFT_ATTR_INT, .i = 1}},
                               {WEFT_STR("ab"), {.kind = WEFT_ATTR_INT, .i = 2}}};
  CU_ASSERT_PTR_EQUAL(weft_attr_find(attrs, 2, "ab"), &attrs[1].value);
  CU_ASSERT_PTR_NULL(weft_attr_find(attrs, 2, "b"));
  CU_ASSERT_STRING_EQUAL(weft_attr_kind_name(WEFT_ATTR_TYPE, true), "list(type)");
  CU_ASSERT_STRING_EQUAL(weft_attr_kind_name(WEFT_ATTR_INT, false), "int");
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"values print as in TensorFlow", values_print_as_in_tensorflow},
      {"long values are cut", long_values_are_cut},
      {"equal values are equal", equal_values_are_equal},
      {"copies share tensors and nothing else", copies_share_tensors_and_nothing_else},
      {"a failed copy keeps no tensor", a_failed_copy_keeps_no_tensor},
      {"names are found", names_are_found},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("attr", tests);
}
