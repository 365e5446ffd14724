/* tests/tools/value_test.c - text to tensors and back; "did you mean". */
#include "tools/submit/value.h"

#include <stdlib.h>

#include "base/similar.h"
#include "tests/runner.h"

static void values_are_read_and_printed(void) {
  static const struct {
    int dtype;
    const char *text, *printed, *json; /* printed NULL: refused */
  } cases[] = {
      {WEFT_F32, "1e3", "1000", "1000.0"},
      {WEFT_F32, "-inf", "-inf", "null"},
      {WEFT_F32, "16777217", "16777216", "16777216.0"},
      {WEFT_F64, "16777217", "16777217", "16777217.0"},
      {WEFT_F64, "1e300", "1e+300", "1.0000000000000001e300"},
      {WEFT_F32, "1.5x", NULL, NULL},
      {WEFT_F32, "", NULL, NULL},
      {WEFT_F64, "1e999", NULL, NULL},
      {WEFT_I8, "127", "127", "127"},
      {WEFT_I8, "128", NULL, NULL},
      {WEFT_I8, "-129", NULL, NULL},
      {WEFT_U8, "-1", NULL, NULL},
      {WEFT_U16, "65536", NULL, NULL},
      {WEFT_U32, "4294967296", NULL, NULL},
      {WEFT_I64, "9223372036854775807", "9223372036854775807", "9223372036854775807"},
      {WEFT_I64, "9223372036854775808", NULL, NULL},
      {WEFT_U64, "18446744073709551616", NULL, NULL},
      {WEFT_I32, "+7", "7", "7"},
      {WEFT_BOOL, "true", "true", "true"},
      {WEFT_BOOL, "yes", NULL, NULL},
      {WEFT_C64, "2j", "0+2j", "[0.0,2.0]"},
      {WEFT_C128, "-1.5-2.5j", "-1.5-2.5j", "[-1.5,-2.5]"},
      {WEFT_C64, "1+2", NULL, NULL},
      {WEFT_STRING, "[1]", "\"[1]\"", "\"[1]\""},
      {WEFT_STRING, "\xff\n", "\"\xff\\n\"", "\"\\\\xff\\\\x0a\""},
      {WEFT_I32, "[]", "int32 of shape [0]", "[]"},
      {WEFT_I32, "[1, -2]", "[1, -2]", "[1,-2]"},
      {WEFT_I32, "[1, 2.5]", NULL, NULL},
      {WEFT_I32, "[1, [2]]", NULL, NULL},
      {WEFT_I32, "[1, \"two\"]", NULL, NULL},
      {WEFT_I32, "[1", NULL, NULL},
      {WEFT_F32, "[[1], [\"nan\"]]", "[[1], [nan]]", "[[1.0],[null]]"},
      {WEFT_BOOL, "[true, false]", "[true, false]", "[true,false]"},
      {WEFT_RESOURCE, "1", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_tensor_t *t = NULL;
    weft_status_t *s = weft_value_parse(weft_str(cases[i].text), cases[i].dtype, NULL, &t);
    CU_ASSERT_EQUAL(s == NULL, cases[i].printed != NULL);
    if (s == NULL && cases[i].printed != NULL) {
      weft_strbuf_t out = WEFT_STRBUF_INIT;
      weft_value_print(t, &out);
      CU_ASSERT_STRING_EQUAL(out.data, cases[i].printed);
      weft_strbuf_deinit(&out);
      json_t *json = weft_value_json(t);
      char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
      CU_ASSERT_STRING_EQUAL(text, cases[i].json);
      free(text);
      json_decref(json);
    }
    weft_status_free(s);
    weft_tensor_release(t);
  }
}

static void large_arrays_are_told_by_their_shape(void) {
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(weft_shape_make((int64_t[]){1001}, 1, &shape));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  weft_value_print(t, &out);
  CU_ASSERT_STRING_EQUAL(out.data, "float of shape [1001]");
  out.length = 0;
  CU_ASSERT_FALSE(weft_value_print_short(t, &out));
  json_t *json = weft_value_json(t);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json, "dtype")), "float");
  json_decref(json);
  weft_strbuf_deinit(&out);
  weft_tensor_release(t);
}

static void the_closest_name_is_meant(void) {
  static const struct {
    const char *wanted, *best; /* NULL: nothing is close */
  } cases[] = {{"lsos", "loss"}, {"Loss", "loss"},     {"accuracys", "accuracies"},
               {"x", NULL},      {"completely", NULL}, {"", NULL}};
  static const char *const names[] = {"loss", "accuracies", "train"};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_similar_t similar;
    weft_similar_init(&similar, weft_str(cases[i].wanted));
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
      weft_similar_offer(&similar, weft_str(names[k]));
    CU_ASSERT_EQUAL(similar.best.data == NULL, cases[i].best == NULL);
    if (similar.best.data != NULL && cases[i].best != NULL)
      CU_ASSERT_TRUE(weft_str_is(similar.best, cases[i].best));
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"values are read and printed", values_are_read_and_printed},
      {"large arrays are told by their shape", large_arrays_are_told_by_their_shape},
      {"the closest name is meant", the_closest_name_is_meant},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("values", tests);
}
