/* Slices of tensors: parsed, printed, intersected, copied, as keys and messages. */
#include <stdio.h>
#include <string.h>

#include "io/tensor_slice.h"
#include "tests/runner.h"

static void slice_keys_have_tensorflows_bytes(void) {
  static const unsigned char rows[] = {0x00, 0x76, 0x61, 0x72, 0x00, 0x01,
                                       0x01, 0x02, 0x80, 0x85, 0x80, 0x7f};
  static const unsigned char vector[] = {0x00, 0x76, 0x61, 0x72, 0x00, 0x01,
                                         0x01, 0x01, 0xc0, 0x64, 0xc1, 0x2c};
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_tensor_slice_t s = {.rank = 2, .length = {5, 3}, .is_full = {false, true}};
  weft_tensor_slice_key(WEFT_STR("var"), &s, &key);
  CU_ASSERT_EQUAL_FATAL(key.length, sizeof rows);
  CU_ASSERT_EQUAL(memcmp(key.data, rows, sizeof rows), 0);
  key.length = 0;
  s = (weft_tensor_slice_t){.rank = 1, .start = {100}, .length = {300}};
  weft_tensor_slice_key(WEFT_STR("var"), &s, &key);
  CU_ASSERT_EQUAL_FATAL(key.length, sizeof vector);
  CU_ASSERT_EQUAL(memcmp(key.data, vector, sizeof vector), 0);
  weft_strbuf_deinit(&key);
}

static void a_slice_is_parsed(void) {
  weft_shape_t full, shape;
  weft_tensor_slice_t slice;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_slice_parse(WEFT_STR("10 20 2,5:-"), &full, &slice, &shape));
  CU_ASSERT_TRUE(full.rank == 2 && full.dims[0] == 10 && full.dims[1] == 20);
  CU_ASSERT_TRUE(shape.rank == 2 && shape.dims[0] == 5 && shape.dims[1] == 20);
  CU_ASSERT_TRUE(slice.start[0] == 2 && !slice.is_full[0] && slice.is_full[1]);
  weft_tensor_slice_print(&slice, &text);
  CU_ASSERT_TRUE(weft_str_is(weft_str_of(text.data, text.length), "2,5:-"));
  CU_ASSERT_PTR_NULL(weft_tensor_slice_parse(WEFT_STR("3 4 0,1::-"), &full, &slice,
                                             &shape)); /* empty pieces count for nothing */
  CU_ASSERT_TRUE(shape.rank == 2 && shape.dims[0] == 1 && shape.dims[1] == 4);
  weft_strbuf_deinit(&text);
}

static void what_cannot_be_parsed_is_said_as_tensorflow_does(void) {
  static const struct {
    const char *text;
    weft_code_t code;
    const char *message;
  } bad[] = {
      {"3", WEFT_INVALID_ARGUMENT, "Need least two elements in shape_and_slice specification: 3"},
      {"3 4", WEFT_INVALID_ARGUMENT, "Expected a pair of numbers or '-' but got '4': string = 4"},
      {"x 4 -:-", WEFT_INVALID_ARGUMENT, "Non numerical dimension in shape_and_slice: x 4 -:-"},
      {"3 4  -:-", WEFT_INVALID_ARGUMENT, "Non numerical dimension in shape_and_slice: 3 4  -:-"},
      {"3 4 -", WEFT_INTERNAL, "Mismatching ranks: shape = [3,4], slice = -"},
      {"3 4 ", WEFT_INTERNAL, "Mismatching ranks: shape = [3,4], slice = "},
      {"3 4 -:-:-", WEFT_INTERNAL, "Mismatching ranks: shape = [3,4], slice = -:-:-"},
      {"3 4 0,0:-", WEFT_INVALID_ARGUMENT,
       "Expected non-negative start and positive length but got start = 0, length = 0: string = 0,0:-"},
      {"3 4 -1,2:-", WEFT_INVALID_ARGUMENT,
       "Expected non-negative start and positive length but got start = -1, length = 2: string = -1,2:-"},
      {"3 4 2,2:-", WEFT_INTERNAL, "Extent in dimension 0 out of bounds: shape = [3,4], slice = 2,2:-"},
      {"3 4 1,9223372036854775807:-", WEFT_INTERNAL,
       "Extent in dimension 0 out of bounds: shape = [3,4], slice = 1,9223372036854775807:-"},
      {"3 4 1,2,3:-", WEFT_INVALID_ARGUMENT,
       "Expected a pair of numbers or '-' but got '1,2,3': string = 1,2,3:-"},
      {"-1 4 -:-", WEFT_INVALID_ARGUMENT, "Negative dimension in shape_and_slice: -1 4 -:-"},
      {"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 -", WEFT_INVALID_ARGUMENT,
       "more than 16 dimensions in shape_and_slice: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 -"},
      {"1 -:-:-:-:-:-:-:-:-:-:-:-:-:-:-:-:-", WEFT_INVALID_ARGUMENT,
       "a slice of more than 16 dimensions: string = -:-:-:-:-:-:-:-:-:-:-:-:-:-:-:-:-"},
  };
  weft_shape_t full, shape;
  weft_tensor_slice_t slice;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weft_status_t *s = weft_tensor_slice_parse(weft_str(bad[i].text), &full, &slice, &shape);
    CU_ASSERT_EQUAL(weft_status_code(s), bad[i].code);
    CU_ASSERT_STRING_EQUAL(weft_status_message(s), bad[i].message);
    weft_status_free(s);
  }
}

static void slices_intersect(void) {
  weft_shape_t shape = weft_shape_matrix(6, 4), empty = weft_shape_matrix(0, 4);
  weft_tensor_slice_t whole = weft_tensor_slice_whole(&shape), none = weft_tensor_slice_whole(&empty), common;
  weft_tensor_slice_t a = {.rank = 2, .start = {0, 1}, .length = {3, 2}},
                      b = {.rank = 2, .start = {2, 0}, .length = {4, 2}};
  weft_tensor_slice_t far_off = {.rank = 2, .start = {3, 0}, .length = {3, 4}};
  CU_ASSERT_TRUE_FATAL(weft_tensor_slice_intersect(&a, &b, &common));
  CU_ASSERT_TRUE(common.start[0] == 2 && common.length[0] == 1 && common.start[1] == 1 &&
                 common.length[1] == 1);
  CU_ASSERT_TRUE(weft_tensor_slice_intersect(&a, &whole, &common) && common.length[0] == 3 &&
                 !common.is_full[0]);
  CU_ASSERT_TRUE(weft_tensor_slice_intersect(&whole, &whole, &common) && common.is_full[1]);
  CU_ASSERT_TRUE(
      weft_tensor_slice_intersect(&none, &none, NULL)); /* both are all there is, though that is nothing */
  CU_ASSERT_FALSE(weft_tensor_slice_intersect(&a, &far_off, NULL));
  far_off.rank = 1;
  CU_ASSERT_FALSE(weft_tensor_slice_intersect(&b, &far_off, NULL));
}

static void a_message_must_fit_the_tensor(void) {
  weft_shape_t shape = weft_shape_matrix(6, 4), small = weft_shape_matrix(4, 4),
               vector = weft_shape_vector(6);
  weft_tensor_slice_t s = {.rank = 2, .start = {2, 0}, .length = {3, 4}, .is_full = {false, true}}, got;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_tensor_slice_put(&s, 1, &b);
  weft_str_t message = weft_str_of(b.data + 2, b.length - 2); /* without tag and length */
  CU_ASSERT_TRUE_FATAL(weft_tensor_slice_get(message, &shape, &got));
  CU_ASSERT_TRUE(got.start[0] == 2 && got.length[0] == 3 && got.is_full[1] && got.length[1] == 4);
  CU_ASSERT_FALSE(weft_tensor_slice_get(message, &small, &got));
  CU_ASSERT_FALSE(weft_tensor_slice_get(message, &vector, &got));
  CU_ASSERT_FALSE(weft_tensor_slice_get(weft_str_of(message.data, message.length - 1), &shape, &got));
  weft_strbuf_deinit(&b);
}

static const CU_TestInfo tests[] = {
    {"slice keys have TensorFlow's bytes", slice_keys_have_tensorflows_bytes},
    {"a slice is parsed", a_slice_is_parsed},
    {"what cannot be parsed is said as TensorFlow does", what_cannot_be_parsed_is_said_as_tensorflow_does},
    {"slices intersect", slices_intersect},
    {"a message must fit the tensor", a_message_must_fit_the_tensor},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("tensor_slice", tests); }
