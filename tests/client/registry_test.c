/* tests/client/registry_test.c - lists of ops and kernels, their documentation, and what is not offered. */
#include "tests/client/client_testing.h"

static bool contains(const TF_Buffer *b, const char *text) {
  size_t n = strlen(text);
  for (size_t i = 0; i + n <= b->length; i++) {
    if (memcmp((const char *)b->data + i, text, n) == 0) return true;
  }
  return false;
}

static void ops_and_kernels_are_listed(void) {
  TF_Status *s = TF_NewStatus();
  TF_Buffer *ops = TF_GetAllOpList(), *kernels = TF_GetAllRegisteredKernels(s);
  TF_Buffer *one = TF_GetRegisteredKernelsForOp("MatMul", s),
            *none = TF_GetRegisteredKernelsForOp("NoSuchOp", s);
  CU_ASSERT(contains(ops, "MatMul") && contains(ops, "VarHandleOp"));
  CU_ASSERT(contains(kernels, "Conv2D") && kernels->length > one->length);
  CU_ASSERT(contains(one, "MatMul") && contains(one, "CPU") && !contains(one, "Conv2D"));
  CU_ASSERT_EQUAL(none->length, 0);
  CU_ASSERT_STRING_EQUAL(TF_Version(), "2.19.1");
  TF_DeleteBuffer(ops);
  TF_DeleteBuffer(kernels);
  TF_DeleteBuffer(one);
  TF_DeleteBuffer(none);
  TF_DeleteStatus(s);
}

static void texts_override_documentation(void) {
  static const char text[] =
      "op: <\n  graph_op_name: 'MatMul'\n  in_arg < name: 'a' description: 'left' >\n"
      "  summary: <<END\nTwo \"lines\"\nof text\nEND\n>\nop < graph_op_name: 'Unknown' >\n";
  static const char bad[] = "op < graph_op_name: 'MatMul' in_arg < name: 'zz' > >";
  TF_Status *s = TF_NewStatus();
  TF_Buffer *ops = TF_GetAllOpList(), *junk = TF_NewBufferFromString("\xff", 1);
  CU_ASSERT_PTR_NULL(TF_NewApiDefMap(junk, s));
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  TF_ApiDefMap *m = TF_NewApiDefMap(ops, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  TF_ApiDefMapPut(m, text, sizeof text - 1, s);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "");
  TF_Buffer *d = TF_ApiDefMapGet(m, "MatMul", 6, s);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  CU_ASSERT(contains(d, "left") && contains(d, "Two \"lines\"\nof text") && contains(d, "transpose_a"));
  CU_ASSERT_PTR_NULL(TF_ApiDefMapGet(m, "Unknown", 7, s));
  TF_ApiDefMapPut(m, bad, sizeof bad - 1, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_FAILED_PRECONDITION);
  TF_ApiDefMapPut(m, "op {", 4, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
  TF_DeleteBuffer(d);
  TF_DeleteBuffer(ops);
  TF_DeleteBuffer(junk);
  TF_DeleteApiDefMap(m);
  TF_DeleteStatus(s);
}

static void what_is_not_offered_says_so(void) {
  TF_Status *s = TF_NewStatus();
  CU_ASSERT_PTR_NULL(TF_LoadLibrary("x.so", s));
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_UNIMPLEMENTED);
  TF_RegisterFilesystemPlugin("x.so", s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_UNIMPLEMENTED);
  CU_ASSERT_PTR_NULL(TF_GraphImportGraphDefWithResultsNoSerialization(NULL, NULL, NULL, s));
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_UNIMPLEMENTED);
  TF_DeleteStatus(s);
}

static const CU_TestInfo tests[] = {
    {"ops and kernels are listed", ops_and_kernels_are_listed},
    {"texts override documentation", texts_override_documentation},
    {"what is not offered says so", what_is_not_offered_says_so},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/registry", tests); }
