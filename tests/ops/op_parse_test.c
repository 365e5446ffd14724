/* tests/ops/op_parse_test.c - the notation of ops.def: what it says, and what is refused. */
#include "ops/op.h"

#include "tests/runner.h"

static weft_status_t *parse(weft_arena_t *arena, const char *signature, const char *attrs,
                            weft_op_def_t *op) {
  return weft_op_parse(arena, "Test", signature, attrs, op);
}

/* The op as it is printed must be this. */
static void expect_print(const char *signature, const char *attrs, const char *printed) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_op_def_t op;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = parse(&arena, signature, attrs, &op);
  CU_ASSERT_PTR_NULL(s);
  if (s == NULL) {
    weft_op_print(&op, &text);
    CU_ASSERT_STRING_EQUAL(text.data, printed);
    for (int i = 0; i < op.num_attrs; i++) {
      weft_attr_t value = op.attrs[i].default_value;
      if (op.attrs[i].has_default) weft_attr_release_tensors(&value);
    }
  }
  weft_status_free(s);
  weft_strbuf_deinit(&text);
  weft_arena_deinit(&arena);
}

static void signatures_read_as_they_print(void) {
  expect_print("->", "", "Op<name=Test; signature= -> >");
  expect_print("a: T, b: Ref(T) -> c: N * T", "N: int >= 2, T: {float, double} = double",
               "Op<name=Test; signature=a:T, b:Ref(T) -> c:N*T; attr=N:int,min=2; "
               "attr=T:type,default=DT_DOUBLE,allowed=[DT_FLOAT, DT_DOUBLE]>");
  expect_print("x: list_of -> y: int32, z: Ref(string)", "list_of: list(type) >= 1",
               "Op<name=Test; signature=x: -> y:int32, z:Ref(string); attr=list_of:list(type),min=1>");
  expect_print(
      "x: N * string ->", "N: int, p: {'SAME', 'VALID'}, s: string = 'a\\'b\\n'",
      "Op<name=Test; signature=x:N*string -> ; attr=N:int; attr=p:string,allowed=[\"SAME\", \"VALID\"]; "
      "attr=s:string,default=\"a\\'b\\n\">");
  expect_print(
      "->", "a: float = -1.5, b: bool = true, c: shape = [2,?], d: shape = ?, e: list(int) = [1, 2], f: func",
      "Op<name=Test; signature= -> ; attr=a:float,default=-1.5; attr=b:bool,default=true; "
      "attr=c:shape,default=[2,?]; attr=d:shape,default=<unknown>; attr=e:list(int),default=[1, 2]; "
      "attr=f:func>");
  expect_print(
      "->", "t: tensor = uint8[2]{1, 2}",
      "Op<name=Test; signature= -> ; attr=t:tensor,default=Tensor<type: uint8 shape: [2] values: 1 2>>");
}

static void an_attribute_hides_a_dtype_of_that_name(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_op_def_t op;
  CU_ASSERT_PTR_NULL(parse(&arena, "x: string -> y: half", "string: type", &op));
  CU_ASSERT_EQUAL(op.inputs[0].kind, WEFT_ARG_ATTR);
  CU_ASSERT_EQUAL(op.outputs[0].kind, WEFT_ARG_FIXED);
  CU_ASSERT_EQUAL(op.outputs[0].dtype, WEFT_F16);
  weft_arena_deinit(&arena);
}

static void mistakes_name_the_op_and_the_place(void) {
  static const struct {
    const char *signature, *attrs, *part;
  } cases[] = {
      {"x: T -> y: T", "", "dtype at column 4"},
      {"x float -> y: float", "", "':'"},
      {"x: float", "", "'->'"},
      {"x: float -> y: float z: float", "", "the end"},
      {"x: Ref(float -> y: float", "", "')'"},
      {"x: N * float -> y: float", "", "int attribute"},
      {"x: N * T -> y: float", "N: int, T: list(type)", "one type"},
      {"->", "T: typo", "attribute kind at column 4"},
      {"->", "T: {float, nothing}", "dtype at column 12"},
      {"->", "T: {float", "',' or '}'"},
      {"->", "s: string = abc", "single quotes"},
      {"->", "s: string = 'abc", "closing quote"},
      {"->", "b: bool = maybe", "true or false"},
      {"->", "i: int = x", "whole number"},
      {"->", "f: float >= 1", "no minimum"},
      {"->", "i: int, i: int", "no second attribute"},
      {"->", "f: func = x", "no default"},
      {"->", "t: tensor = float[1]{1}", "uint8"},
      {"->", "t: tensor = uint8[2]{1}", "','"},
      {"->", "s: shape = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "fewer dimensions"},
      {"->", "a: list(int) = [1 2]", "','"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_op_def_t op;
    weft_status_t *s = parse(&arena, cases[i].signature, cases[i].attrs, &op);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "'Test'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].part));
    weft_status_free(s);
    weft_arena_deinit(&arena);
  }
}

static weft_status_t *parse_and_drop(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_op_def_t op = {.num_attrs = 0};
  weft_status_t *s = parse(&arena, "a: T, b: N * T -> c: L",
                           "N: int, T: {float}, L: list(type) = [float], t: tensor = uint8[1]{7}", &op);
  for (int i = 0; s == NULL && i < op.num_attrs; i++) {
    weft_attr_t value = op.attrs[i].default_value;
    if (op.attrs[i].has_default) weft_attr_release_tensors(&value);
  }
  weft_arena_deinit(&arena);
  return s;
}

static void no_memory_is_reported(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, parse_and_drop());
  CU_ASSERT_TRUE(n > 0);
}

/* ---- types of arguments ---- */

static void types_follow_the_attributes(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_op_def_t op;
  int *types = NULL, n = 0;
  static const int list[] = {WEFT_I32, WEFT_STRING};
  weft_named_attr_t attrs[] = {
      {WEFT_STR("N"), {.kind = WEFT_ATTR_INT, .i = 2}},
      {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F64}},
      {WEFT_STR("L"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 2, .list.types = list}}};
  CU_ASSERT_PTR_NULL(
      parse(&arena, "a: Ref(T), b: N * T, c: L, d: bool ->", "N: int, T: type, L: list(type)", &op));
  CU_ASSERT_PTR_NULL(weft_op_arg_types(&arena, op.inputs, op.num_inputs, attrs, 3, &types, &n));
  static const int wanted[] = {WEFT_F64 + WEFT_REF, WEFT_F64, WEFT_F64, WEFT_I32, WEFT_STRING, WEFT_BOOL};
  CU_ASSERT_EQUAL_FATAL(n, 6);
  CU_ASSERT_EQUAL(memcmp(types, wanted, sizeof wanted), 0);
  CU_ASSERT_PTR_NULL(weft_op_arg_types(&arena, op.outputs, op.num_outputs, attrs, 3, &types, &n));
  CU_ASSERT_EQUAL(n, 0);
  weft_arena_deinit(&arena);
}

static void missing_and_hostile_attributes_are_refused(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_op_def_t op;
  int *types = NULL, n = 0;
  CU_ASSERT_PTR_NULL(parse(&arena, "b: N * T ->", "N: int, T: type", &op));
  weft_named_attr_t attrs[] = {{WEFT_STR("N"), {.kind = WEFT_ATTR_INT, .i = 2}},
                               {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F64}}};
  weft_status_t *s = weft_op_arg_types(&arena, op.inputs, op.num_inputs, attrs, 1, &types, &n);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "No attr named 'T'"));
  weft_status_free(s);
  static const int64_t numbers[] = {-1, INT64_MAX, INT64_C(1) << 40};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    attrs[0].value.i = numbers[i];
    s = weft_op_arg_types(&arena, op.inputs, op.num_inputs, attrs, 2, &types, &n);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
  weft_arena_deinit(&arena);
}

/* ---- checking values; the messages are TensorFlow's ---- */

static void expect_refusal(const char *op_name, const char *attr, weft_attr_t value, const char *message) {
  const weft_op_def_t *op = weft_op_find(weft_str(op_name));
  CU_ASSERT_PTR_NOT_NULL_FATAL(op);
  const weft_attr_def_t *def = weft_op_attr(op, weft_str(attr));
  CU_ASSERT_PTR_NOT_NULL_FATAL(def);
  weft_status_t *s = weft_op_check_attr(op, def, &value);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  CU_ASSERT_EQUAL(weft_status_code(s), message[0] == '\0' ? WEFT_OK : WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
}

static void values_are_checked_in_tensorflows_words(void) {
  expect_refusal("Tanh", "T", (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}, "");
  expect_refusal(
      "Tanh", "T", (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = WEFT_STRING},
      "Value for attr 'T' of string is not in the list of allowed values: bfloat16, half, float, double, "
      "complex64, complex128");
  expect_refusal("Tanh", "T", (weft_attr_t){.kind = WEFT_ATTR_INT, .i = 1},
                 "AttrValue had value with type 'int' when 'type' expected\n\t for attr 'T'");
  expect_refusal("Tanh", "T", (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = WEFT_F32 + WEFT_REF},
                 "AttrValue must not have reference type value of float_ref\n\t for attr 'T'");
  expect_refusal("Tanh", "T", (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = 77},
                 "AttrValue has invalid DataType enum: 77\n\t for attr 'T'");
  expect_refusal("Tanh", "T",
                 (weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 1, .list.types = (int[]){1}},
                 "AttrValue had value with type 'list(type)' when 'type' expected\n\t for attr 'T'");
  expect_refusal("Pack", "N", (weft_attr_t){.kind = WEFT_ATTR_INT, .i = 0},
                 "Value for attr 'N' of 0 must be at least minimum 1");
  expect_refusal("IdentityN", "T", (weft_attr_t){.is_list = true},
                 "Length for attr 'T' of 0 must be at least minimum 1");
  expect_refusal(
      "BiasAdd", "data_format", (weft_attr_t){.kind = WEFT_ATTR_STRING, .s = WEFT_STR("FOO")},
      "Value for attr 'data_format' of \"FOO\" is not in the list of allowed values: \"NHWC\", \"NCHW\"");
  expect_refusal("BiasAdd", "data_format", (weft_attr_t){.kind = WEFT_ATTR_STRING, .s = WEFT_STR("NCHW")},
                 "");
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"signatures read as they print", signatures_read_as_they_print},
      {"an attribute hides a dtype of that name", an_attribute_hides_a_dtype_of_that_name},
      {"mistakes name the op and the place", mistakes_name_the_op_and_the_place},
      {"no memory is reported", no_memory_is_reported},
      {"types follow the attributes", types_follow_the_attributes},
      {"missing and hostile attributes are refused", missing_and_hostile_attributes_are_refused},
      {"values are checked in TensorFlow's words", values_are_checked_in_tensorflows_words},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("op notation", tests);
}
