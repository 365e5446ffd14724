/* tests/client/typed_ops_test.c - graphs built with weft/ops.h. */
#include "weft/ops.h"

#include <math.h>

#include "tests/client/client_testing.h"

static TF_Output ints(world_t *w, const int64_t n, const int32_t *values) {
  TF_Tensor *t = new_ints(1, &n, values);
  TF_Output c = WEFT_OpConst(w->g, NULL, t, TF_INT32, w->s);
  TF_DeleteTensor(t);
  return c;
}

static TF_Output floats(world_t *w, const int64_t n, const float *values) {
  TF_Tensor *t = new_floats(1, &n, values);
  TF_Output c = WEFT_OpConst(w->g, NULL, t, TF_FLOAT, w->s);
  TF_DeleteTensor(t);
  return c;
}

static TF_Output scalar(world_t *w, int32_t value) {
  TF_Tensor *t = new_int(value);
  TF_Output c = WEFT_OpConst(w->g, NULL, t, TF_INT32, w->s);
  TF_DeleteTensor(t);
  return c;
}

static TF_Tensor *value_of(world_t *w, TF_Output o) {
  TF_Tensor *t = run1(w, (TF_Output){NULL, 0}, NULL, o);
  ASSERT_OK(w);
  return t;
}

static void options_change_defaults(void) {
  world_t w;
  world_open(&w);
  TF_Output x = floats(&w, 2, (const float[]){-2, 4});
  WEFT_OpLeakyReluOptions o = WEFT_OpLeakyReluDefaults;
  CU_ASSERT_DOUBLE_EQUAL(o.alpha, 0.2, 1e-6);
  o.alpha = 0.5F;
  TF_Output plain = WEFT_OpLeakyRelu(w.g, NULL, x, NULL, w.s);
  TF_Output steep = WEFT_OpLeakyRelu(w.g, NULL, x, &o, w.s);
  TF_Tensor *a = value_of(&w, plain), *b = value_of(&w, steep);
  CU_ASSERT_DOUBLE_EQUAL(float_at(a, 0), -0.4, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(float_at(b, 0), -1, 1e-6);
  CU_ASSERT_STRING_EQUAL(TF_OperationName(plain.oper), "LeakyRelu");
  CU_ASSERT_STRING_EQUAL(TF_OperationName(steep.oper), "LeakyRelu_1");
  TF_DeleteTensor(a);
  TF_DeleteTensor(b);
  world_close(&w);
}

static void lists_go_in_and_come_out(void) {
  world_t w;
  world_open(&w);
  const TF_Output parts[] = {ints(&w, 2, (const int32_t[]){1, 2}), ints(&w, 2, (const int32_t[]){3, 4})};
  TF_Output all = WEFT_OpConcatV2(w.g, "all", parts, 2, scalar(&w, 0), w.s);
  WEFT_OpSplitOutputs halves = WEFT_OpSplit(w.g, NULL, scalar(&w, 0), all, 4, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(halves.num_output, 4);
  TF_Tensor *t = value_of(&w, (TF_Output){halves.output.oper, halves.output.index + 2});
  CU_ASSERT_EQUAL(int_at(t, 0), 3);
  TF_DeleteTensor(t);
  WEFT_OpTopKV2Outputs top = WEFT_OpTopKV2(w.g, NULL, all, scalar(&w, 2), NULL, w.s);
  t = value_of(&w, top.indices);
  CU_ASSERT_EQUAL(int_at(t, 0), 3);
  TF_DeleteTensor(t);
  const TF_Output mixed[] = {parts[0], floats(&w, 1, (const float[]){7})};
  WEFT_OpIdentityNOutputs same = WEFT_OpIdentityN(w.g, NULL, mixed, 2, w.s);
  CU_ASSERT_EQUAL(same.num_output, 2);
  t = value_of(&w, (TF_Output){same.output.oper, 1});
  CU_ASSERT_EQUAL(float_at(t, 0), 7);
  TF_DeleteTensor(t);
  world_close(&w);
}

static void lists_of_attributes_are_set(void) {
  world_t w;
  world_open(&w);
  const int64_t dims[] = {1, 3, 1}, one[] = {0};
  TF_Tensor *t = new_floats(3, dims, (const float[]){1, 2, 3});
  TF_Output x = WEFT_OpConst(w.g, NULL, t, TF_FLOAT, w.s);
  TF_DeleteTensor(t);
  WEFT_OpSqueezeOptions o = WEFT_OpSqueezeDefaults;
  o.squeeze_dims = one;
  o.num_squeeze_dims = 1;
  t = value_of(&w, WEFT_OpSqueeze(w.g, NULL, x, &o, w.s));
  CU_ASSERT_EQUAL(TF_NumDims(t), 2);
  TF_DeleteTensor(t);
  const TF_DataType types[] = {TF_FLOAT, TF_INT32};
  WEFT_OpFIFOQueueV2Options queue = WEFT_OpFIFOQueueV2Defaults;
  const WEFT_PartialShape shapes[] = {{dims, 2}, {NULL, 0}};
  queue.shapes = shapes;
  queue.num_shapes = 2;
  TF_Output q = WEFT_OpFIFOQueueV2(w.g, NULL, types, 2, &queue, w.s);
  t = value_of(&w, WEFT_OpQueueSizeV2(w.g, NULL, q, w.s));
  CU_ASSERT_EQUAL(int_at(t, 0), 0);
  TF_DeleteTensor(t);
  world_close(&w);
}

static void what_is_wrong_is_told_once(void) {
  world_t w;
  world_open(&w);
  TF_Output x = floats(&w, 2, (const float[]){1, 2});
  TF_Output sum = WEFT_OpAddV2(w.g, "sum", x, scalar(&w, 1), w.s);
  CU_ASSERT_PTR_NULL(sum.oper);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Inconsistent values for attr 'T'");
  TF_Output next = WEFT_OpRelu(w.g, "next", sum, w.s); /* does nothing, and keeps the cause */
  WEFT_OpSplitOutputs parts = WEFT_OpSplit(w.g, NULL, next, next, 2, w.s);
  CU_ASSERT_PTR_NULL(next.oper);
  CU_ASSERT_PTR_NULL(parts.output.oper);
  CU_ASSERT_EQUAL(parts.num_output, 0);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Inconsistent values for attr 'T'");
  CU_ASSERT_PTR_NULL(TF_GraphOperationByName(w.g, "next"));
  TF_SetStatus(w.s, TF_OK, "");
  CU_ASSERT_PTR_NULL(WEFT_OpRelu(w.g, "next", (TF_Output){NULL, 0}, w.s).oper);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Relu");
  world_close(&w);
}

static void nodes_without_outputs_are_targets(void) {
  world_t w;
  world_open(&w);
  TF_Output v = WEFT_OpVarHandleOp(w.g, "v", TF_INT32, (WEFT_PartialShape){NULL, 0}, NULL, w.s);
  TF_Operation *set = WEFT_OpAssignVariableOp(w.g, NULL, v, scalar(&w, 5), NULL, w.s);
  ASSERT_OK(&w);
  run_target(&w, set);
  TF_Tensor *t = value_of(&w, WEFT_OpReadVariableOp(w.g, NULL, v, TF_INT32, w.s));
  CU_ASSERT_EQUAL(int_at(t, 0), 5);
  TF_DeleteTensor(t);
  world_close(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"options change defaults", options_change_defaults},
      {"lists go in and come out", lists_go_in_and_come_out},
      {"lists of attributes are set", lists_of_attributes_are_set},
      {"what is wrong is told once", what_is_wrong_is_told_once},
      {"nodes without outputs are targets", nodes_without_outputs_are_targets},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("typed ops", tests);
}
