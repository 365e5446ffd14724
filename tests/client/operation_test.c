/* tests/client/operation_test.c - building nodes: what is accepted, what is refused and in which words;
 * attributes. */
#include "tests/client/client_testing.h"

static void refuse(world_t *w, TF_OperationDescription *d, const char *text) {
  size_t before = 0, after = 0;
  for (size_t pos = 0; TF_GraphNextOperation(w->g, &pos) != NULL;) before++;
  CU_ASSERT_PTR_NULL(TF_FinishOperation(d, w->s));
  ASSERT_FAILS(w, TF_INVALID_ARGUMENT, text);
  for (size_t pos = 0; TF_GraphNextOperation(w->g, &pos) != NULL;) after++;
  CU_ASSERT_EQUAL(before, after);
}

static TF_OperationDescription *start(world_t *w, const char *op, TF_Output a, TF_Output b) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, "new");
  TF_AddInput(d, a);
  TF_AddInput(d, b);
  return d;
}

static void wrong_nodes_are_refused_and_leave_the_graph_alone(void) {
  world_t w;
  world_open(&w);
  TF_Output f = constant(&w, w.g, "f", new_float(1)), i = constant(&w, w.g, "i", new_int(1));
  refuse(&w, TF_NewOperation(w.g, "NoSuchOp", "new"), "Op type not registered 'NoSuchOp' in binary");
  refuse(&w, TF_NewOperation(w.g, "NoOp", "f"), "Duplicate node name in graph: 'f'");
  refuse(&w, TF_NewOperation(w.g, "Placeholder", "new"),
         "NodeDef missing attr 'dtype' from Op<name=Placeholder");
  TF_OperationDescription *d = TF_NewOperation(w.g, "AddV2", "new");
  TF_AddInput(d, f);
  refuse(&w, d, "1 inputs specified of 2 inputs in Op while building NodeDef 'new' using Op<name=AddV2");
  d = start(&w, "AddV2", f, f);
  TF_AddInput(d, f);
  refuse(&w, d, "More Input() calls than the 2 input_args");
  refuse(&w, start(&w, "AddV2", f, i), "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32");
  refuse(&w, start(&w, "MatMul", f, f), "Shape must be rank 2 but is rank 0 for '{{node new}} = MatMul");
  refuse(&w, start(&w, "Switch", f, f), "Input 'pred' passed float expected bool");
  refuse(&w, start(&w, "AddV2", f, (TF_Output){f.oper, 4}),
         "Attempt to add output 4 of f not in range [0, 1)");
  refuse(&w, start(&w, "AddV2", f, (TF_Output){NULL, 0}),
         "Attempt to add nullptr Node to node with type AddV2");
  d = TF_NewOperation(w.g, "AddN", "new");
  TF_AddInput(d, f);
  refuse(&w, d, "Single tensor passed to 'inputs', expected list");
  d = TF_NewOperation(w.g, "Identity", "new");
  TF_AddInputList(d, &f, 1);
  refuse(&w, d, "List provided to input 'input' when single Tensor expected");
  d = TF_NewOperation(w.g, "Placeholder", "new");
  TF_SetAttrInt(d, "dtype", 1);
  refuse(&w, d, "AttrValue had value with type 'int' when 'type' expected");
  d = TF_NewOperation(w.g, "Variable", "new");
  TF_SetAttrType(d, "dtype", (TF_DataType)77);
  const int64_t bad[1] = {-5};
  TF_SetAttrShape(d, "shape", bad, 1);
  refuse(&w, d, "");
  world_close(&w);
}

static void nodes_tell_what_they_are(void) {
  world_t w;
  world_open(&w);
  TF_Output a = constant(&w, w.g, "a", new_float(1)), b = constant(&w, w.g, "b", new_float(2));
  TF_OperationDescription *d = TF_NewOperation(w.g, "AddN", "sum");
  const TF_Output both[2] = {a, b};
  TF_AddInputList(d, both, 2);
  TF_AddControlInput(d, a.oper);
  TF_AddControlInput(d, b.oper);
  TF_AddControlInput(d, a.oper);
  TF_ColocateWith(d, b.oper);
  TF_SetDevice(d, "/job:worker/task:1");
  TF_Operation *sum = TF_FinishOperation(d, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(TF_OperationName(sum), "sum");
  CU_ASSERT_STRING_EQUAL(TF_OperationOpType(sum), "AddN");
  CU_ASSERT_STRING_EQUAL(TF_OperationDevice(sum), "/job:worker/task:1");
  CU_ASSERT_EQUAL(TF_OperationNumInputs(sum), 2);
  CU_ASSERT_EQUAL(TF_OperationInputListLength(sum, "inputs", w.s), 2);
  CU_ASSERT_EQUAL(TF_OperationOutputListLength(sum, "sum", w.s), 1);
  CU_ASSERT_EQUAL(TF_OperationOutputListLength(sum, "nothing", w.s), -1);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Output arg 'nothing' not found");
  CU_ASSERT_EQUAL(TF_OperationOutputType((TF_Output){sum, 0}), TF_FLOAT);
  CU_ASSERT_EQUAL(TF_OperationInputType((TF_Input){sum, 1}), TF_FLOAT);
  CU_ASSERT_PTR_EQUAL(TF_OperationInput((TF_Input){sum, 1}).oper, b.oper);
  TF_Operation *controls[4];
  CU_ASSERT_EQUAL(TF_OperationNumControlInputs(sum), 2);
  CU_ASSERT_EQUAL(TF_OperationGetControlInputs(sum, controls, 4), 2);
  CU_ASSERT_EQUAL(TF_OperationGetControlInputs(sum, controls, 1), 2); /* all that there are */
  CU_ASSERT_EQUAL(TF_OperationGetControlOutputs(a.oper, controls, 4), 1);
  CU_ASSERT_PTR_EQUAL(controls[0], sum);
  TF_Input consumers[4];
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(b), 1);
  CU_ASSERT_EQUAL(TF_OperationOutputConsumers(b, consumers, 4), 1);
  CU_ASSERT_EQUAL(TF_OperationOutputConsumers(b, consumers, 0), 1);
  CU_ASSERT_PTR_EQUAL(consumers[0].oper, sum);
  CU_ASSERT_EQUAL(consumers[0].index, 1);
  CU_ASSERT_PTR_EQUAL(TF_GraphOperationByName(w.g, "sum"), sum);
  CU_ASSERT_PTR_NULL(TF_GraphOperationByName(w.g, "no"));
  void *values[2];
  size_t lengths[2];
  char storage[32];
  TF_OperationGetAttrStringList(sum, "_class", values, lengths, 2, storage, sizeof storage, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(lengths[0], 6);
  CU_ASSERT_EQUAL(memcmp(values[0], "loc:@b", 6), 0);
  world_close(&w);
}

static void shapes_are_inferred_and_merged(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = placeholder(&w, w.g, "y", TF_FLOAT);
  const int64_t xs[2] = {-1, 3}, ys[2] = {3, 4}, bad[2] = {5, 5};
  int64_t dims[2];
  CU_ASSERT_EQUAL(TF_GraphGetTensorNumDims(w.g, x, w.s), -1);
  TF_GraphSetTensorShape(w.g, x, xs, 2, w.s);
  TF_GraphSetTensorShape(w.g, y, ys, 2, w.s);
  ASSERT_OK(&w);
  TF_Output p = binary(&w, w.g, "MatMul", "p", x, y);
  CU_ASSERT_EQUAL_FATAL(TF_GraphGetTensorNumDims(w.g, p, w.s), 2);
  TF_GraphGetTensorShape(w.g, p, dims, 2, w.s);
  CU_ASSERT(dims[0] == -1 && dims[1] == 4);
  TF_GraphGetTensorShape(w.g, p, dims, 1, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is 2");
  TF_GraphSetTensorShape(w.g, p, bad, 2, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Dimension 1 in both shapes must be equal, but are 4 and 5");
  TF_GraphSetTensorShape(w.g, (TF_Output){p.oper, 9}, bad, 2, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "out of range");
  world_close(&w);
}

static void attributes_come_back_as_they_were_set(void) {
  world_t w;
  world_open(&w);
  TF_Output image = placeholder(&w, w.g, "image", TF_FLOAT);
  const int64_t filter_dims[4] = {1, 1, 1, 1}, strides[4] = {1, 2, 2, 1};
  const float one = 1;
  TF_Output filter = constant(&w, w.g, "filter", new_floats(4, filter_dims, &one));
  TF_OperationDescription *d = start(&w, "Conv2D", image, filter);
  TF_SetAttrIntList(d, "strides", strides, 4);
  TF_SetAttrString(d, "padding", "SAME", 4);
  TF_SetAttrBool(d, "use_cudnn_on_gpu", 0);
  TF_SetAttrFloat(d, "_f", 1.5f);
  const float floats[2] = {1, 2};
  TF_SetAttrFloatList(d, "_fs", floats, 2);
  const unsigned char bools[3] = {1, 0, 1};
  TF_SetAttrBoolList(d, "_bs", bools, 3);
  const TF_DataType types[2] = {TF_INT32, TF_STRING};
  TF_SetAttrTypeList(d, "_ts", types, 2);
  const int64_t *const shapes[2] = {strides, NULL};
  const int ranks[2] = {2, -1};
  TF_SetAttrShapeList(d, "_ss", shapes, ranks, 2);
  TF_SetAttrFuncName(d, "_fn", "Foo", 3);
  TF_SetAttrPlaceholder(d, "_p", "T");
  TF_Operation *o = TF_FinishOperation(d, w.s);
  ASSERT_OK(&w);
  TF_AttrMetadata m = TF_OperationGetAttrMetadata(o, "strides", w.s);
  CU_ASSERT(m.is_list == 1 && m.list_size == 4 && m.type == TF_ATTR_INT);
  int64_t ints[4] = {0};
  TF_OperationGetAttrIntList(o, "strides", ints, 4, w.s);
  CU_ASSERT_EQUAL(memcmp(ints, strides, sizeof strides), 0);
  m = TF_OperationGetAttrMetadata(o, "padding", w.s);
  CU_ASSERT(m.is_list == 0 && m.list_size == -1 && m.type == TF_ATTR_STRING && m.total_size == 4);
  char text[5] = "";
  TF_OperationGetAttrString(o, "padding", text, 4, w.s);
  CU_ASSERT_STRING_EQUAL(text, "SAME");
  unsigned char flag = 9;
  TF_OperationGetAttrBool(o, "use_cudnn_on_gpu", &flag, w.s);
  CU_ASSERT_EQUAL(flag, 0);
  float f = 0, fs[2] = {0};
  TF_OperationGetAttrFloat(o, "_f", &f, w.s);
  TF_OperationGetAttrFloatList(o, "_fs", fs, 2, w.s);
  CU_ASSERT(f == 1.5f && fs[1] == 2);
  unsigned char bs[3] = {9, 9, 9};
  TF_OperationGetAttrBoolList(o, "_bs", bs, 3, w.s);
  CU_ASSERT(bs[0] == 1 && bs[1] == 0 && bs[2] == 1);
  TF_DataType ts[2] = {0}, type = 0;
  TF_OperationGetAttrTypeList(o, "_ts", ts, 2, w.s);
  TF_OperationGetAttrType(o, "T", &type, w.s);
  CU_ASSERT(ts[0] == TF_INT32 && ts[1] == TF_STRING && type == TF_FLOAT);
  int64_t storage[4], *dims[2];
  int num_dims[2];
  m = TF_OperationGetAttrMetadata(o, "_ss", w.s);
  CU_ASSERT(m.is_list == 1 && m.type == TF_ATTR_SHAPE && m.total_size == 2);
  TF_OperationGetAttrShapeList(o, "_ss", dims, num_dims, 2, storage, 4, w.s);
  ASSERT_OK(&w);
  CU_ASSERT(num_dims[0] == 2 && dims[0][1] == 2 && num_dims[1] == -1);
  TF_OperationGetAttrShapeList(o, "_ss", dims, num_dims, 2, storage, 1, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Not enough storage");
  m = TF_OperationGetAttrMetadata(o, "_fn", w.s);
  CU_ASSERT_EQUAL(m.type, TF_ATTR_FUNC);
  m = TF_OperationGetAttrMetadata(o, "explicit_paddings", w.s);
  CU_ASSERT(m.is_list == 1 && m.list_size == 0 && m.type == TF_ATTR_INT);
  TF_Tensor *t = NULL;
  TF_OperationGetAttrTensor(filter.oper, "value", &t, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(t, 0), 1);
  TF_DeleteTensor(t);
  TF_OperationGetAttrInt(o, "padding", ints, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "AttrValue had value with type 'string' when 'int' expected");
  TF_OperationGetAttrMetadata(o, "none", w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Operation 'new' has no attr named 'none'.");
  world_close(&w);
}

static void attributes_travel_as_messages(void) {
  world_t w;
  world_open(&w);
  TF_OperationDescription *d = TF_NewOperation(w.g, "Placeholder", "p");
  TF_SetAttrValueProto(d, "dtype", "\x30\x03", 2, w.s); /* type: DT_INT32 */
  ASSERT_OK(&w);
  TF_SetAttrValueProto(d, "_x", "\xff", 1, w.s);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  TF_SetAttrTensorShapeProto(d, "shape", "\x12\x02\x08\x07", 4, w.s);
  TF_Operation *o = TF_FinishOperation(d, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_OperationOutputType((TF_Output){o, 0}), TF_INT32);
  TF_Buffer *b = TF_NewBuffer(), *shape = TF_NewBuffer(), *node = TF_NewBuffer();
  TF_OperationGetAttrValueProto(o, "dtype", b, w.s);
  ASSERT_OK(&w);
  CU_ASSERT(b->length == 2 && memcmp(b->data, "\x30\x03", 2) == 0);
  TF_OperationGetAttrValueProto(o, "dtype", b, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Passing non-empty TF_Buffer is invalid.");
  TF_OperationGetAttrTensorShapeProto(o, "shape", shape, w.s);
  CU_ASSERT(shape->length == 4 && memcmp(shape->data, "\x12\x02\x08\x07", 4) == 0);
  TF_OperationToNodeDef(o, node, w.s);
  ASSERT_OK(&w);
  CU_ASSERT(node->length > 10);
  int found = 0;
  for (int i = 0; i < TF_OperationGetNumAttrs(o); i++) {
    char name[16] = "";
    CU_ASSERT_FATAL(TF_OperationGetAttrNameLength(o, i) < 16);
    TF_OperationGetAttrName(o, i, name, w.s);
    found += strcmp(name, "dtype") == 0 || strcmp(name, "shape") == 0;
  }
  CU_ASSERT_EQUAL(found, 2);
  CU_ASSERT_EQUAL(TF_OperationGetAttrNameLength(o, 99), -1);
  TF_DeleteBuffer(b);
  TF_DeleteBuffer(shape);
  TF_DeleteBuffer(node);
  world_close(&w);
}

static void edges_and_devices_can_be_changed(void) {
  world_t w;
  world_open(&w);
  TF_Output a = constant(&w, w.g, "a", new_int(1)), b = constant(&w, w.g, "b", new_int(5));
  TF_Output sum = binary(&w, w.g, "AddV2", "sum", a, a);
  TF_UpdateEdge(w.g, b, (TF_Input){sum.oper, 1}, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(a), 1);
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(b), 1);
  TF_UpdateEdge(w.g, b, (TF_Input){sum.oper, 2}, w.s);
  ASSERT_FAILS(&w, TF_OUT_OF_RANGE, "Input index [2]");
  TF_AddOperationControlInput(w.g, sum.oper, a.oper);
  CU_ASSERT_EQUAL(TF_OperationNumControlOutputs(a.oper), 1);
  TF_RemoveAllControlInputs(w.g, sum.oper);
  CU_ASSERT_EQUAL(TF_OperationNumControlOutputs(a.oper), 0);
  TF_SetRequestedDevice(w.g, sum.oper, "/device:CPU:0");
  CU_ASSERT_STRING_EQUAL(TF_OperationDevice(sum.oper), "/device:CPU:0");
  TF_Tensor *t = run1(&w, (TF_Output){NULL, 0}, NULL, sum);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(int_at(t, 0), 6);
  TF_DeleteTensor(t);
  world_close(&w);
}

static TF_Operation *build_one(world_t *w, TF_Output x) {
  const int64_t dims[2] = {1, 2};
  TF_OperationDescription *d = TF_NewOperation(w->g, "AddN", "sum");
  TF_AddInputList(d, &x, 1);
  TF_AddControlInput(d, x.oper);
  TF_SetDevice(d, "/device:CPU:0");
  TF_ColocateWith(d, x.oper);
  TF_SetAttrShape(d, "_s", dims, 2);
  TF_SetAttrIntList(d, "_i", dims, 2);
  TF_SetAttrString(d, "_t", "text", 4);
  return TF_FinishOperation(d, w->s);
}

static void an_allocation_that_fails_adds_no_node(void) {
  for (long n = 0;; n++) {
    world_t w;
    world_open(&w);
    TF_Output x = constant(&w, w.g, "x", new_float(1));
    weft_fault_arm(n);
    TF_Operation *o = build_one(&w, x);
    bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(TF_GetCode(w.s), fired ? TF_RESOURCE_EXHAUSTED : TF_OK);
    CU_ASSERT_EQUAL(o == NULL, fired);
    CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(x), fired ? 0 : 1);
    world_close(&w);
    if (!fired) break;
  }
}

static const CU_TestInfo tests[] = {
    {"wrong nodes are refused and leave the graph alone", wrong_nodes_are_refused_and_leave_the_graph_alone},
    {"nodes tell what they are", nodes_tell_what_they_are},
    {"shapes are inferred and merged", shapes_are_inferred_and_merged},
    {"attributes come back as they were set", attributes_come_back_as_they_were_set},
    {"attributes travel as messages", attributes_travel_as_messages},
    {"edges and devices can be changed", edges_and_devices_can_be_changed},
    {"an allocation that fails adds no node", an_allocation_that_fails_adds_no_node},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/operation", tests); }
