/* tests/client/function_test.c - functions from graphs, in graphs and called; loops. */
#include "tests/client/client_testing.h"

static const TF_Output nothing = {NULL, 0};

/* Foo(Feed.A, b) = (Feed.A * 2 + b, Feed.A * 2) */
typedef struct body {
  TF_Graph *g;
  TF_Output a, b, product, sum;
} body_t;

static body_t make_body(world_t *w) {
  body_t f = {.g = TF_NewGraph()};
  f.a = placeholder(w, f.g, "Feed.A", TF_INT32);
  f.b = placeholder(w, f.g, "b", TF_INT32);
  f.product = binary(w, f.g, "Mul", "mul", f.a, constant(w, f.g, "two", new_int(2)));
  f.sum = binary(w, f.g, "AddV2", "add", f.product, f.b);
  return f;
}

static TF_Function *make_function(world_t *w, const body_t *f, const char *name) {
  const TF_Output in[2] = {f->a, f->b}, out[2] = {f->sum, f->product};
  return TF_GraphToFunction(f->g, name, 0, -1, NULL, 2, in, 2, out, NULL, NULL, NULL, w->s);
}

static void a_function_is_called_by_its_name(void) {
  world_t w;
  world_open(&w);
  body_t f = make_body(&w);
  TF_Function *fn = make_function(&w, &f, "Foo");
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(TF_FunctionName(fn), "Foo");
  TF_GraphCopyFunction(w.g, fn, NULL, w.s);
  TF_GraphCopyFunction(w.g, fn, NULL, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_GraphNumFunctions(w.g), 1);
  TF_Output call =
      binary(&w, w.g, "Foo", "call", constant(&w, w.g, "x", new_int(3)), constant(&w, w.g, "y", new_int(10)));
  CU_ASSERT_EQUAL(TF_OperationNumOutputs(call.oper), 2);
  TF_Tensor *t = run1(&w, nothing, NULL, call);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(int_at(t, 0), 16);
  TF_DeleteTensor(t);
  t = run1(&w, nothing, NULL, (TF_Output){call.oper, 1});
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(int_at(t, 0), 6);
  TF_DeleteTensor(t);
  TF_DeleteFunction(fn);
  TF_DeleteGraph(f.g);
  world_close(&w);
}

static void functions_travel_as_messages(void) {
  world_t w;
  world_open(&w);
  body_t f = make_body(&w);
  TF_Function *fn = make_function(&w, &f, "Foo");
  TF_Buffer *def = TF_NewBuffer(), *value = TF_NewBuffer(), *none = TF_NewBuffer();
  TF_FunctionSetAttrValueProto(fn, "_note", "\x18\x05", 2, w.s);
  TF_FunctionSetAttrValueProto(fn, "_note", "\x18\x06", 2, w.s);
  ASSERT_OK(&w);
  TF_FunctionToFunctionDef(fn, def, w.s);
  TF_Function *copy = TF_FunctionImportFunctionDef(def->data, def->length, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(TF_FunctionName(copy), "Foo");
  TF_FunctionGetAttrValueProto(copy, "_note", value, w.s);
  CU_ASSERT(value->length == 2 && memcmp(value->data, "\x18\x06", 2) == 0);
  TF_FunctionGetAttrValueProto(copy, "other", none, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Function 'Foo' has no attr named 'other'.");
  CU_ASSERT_PTR_NULL(TF_FunctionImportFunctionDef("\xff", 1, w.s));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  TF_GraphCopyFunction(w.g, copy, NULL, w.s);
  TF_Function *all[4] = {NULL};
  CU_ASSERT_EQUAL(TF_GraphGetFunctions(w.g, all, 4, w.s), 1);
  CU_ASSERT_STRING_EQUAL(TF_FunctionName(all[0]), "Foo");
  TF_DeleteFunction(all[0]);
  TF_DeleteFunction(copy);
  TF_DeleteFunction(fn);
  TF_DeleteBuffer(def);
  TF_DeleteBuffer(value);
  TF_DeleteBuffer(none);
  TF_DeleteGraph(f.g);
  world_close(&w);
}

static void incomplete_functions_are_refused(void) {
  world_t w;
  world_open(&w);
  body_t f = make_body(&w);
  const TF_Output in[2] = {f.a, f.b}, twice[2] = {f.a, f.a}, out[2] = {f.sum, f.product};
  const char *const same[2] = {"o", "o"};
  const TF_Operation *const add_only[1] = {f.sum.oper};
  CU_ASSERT_PTR_NULL(TF_GraphToFunction(f.g, "F", 0, -1, NULL, 2, in, 2, out, same, NULL, NULL, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Cannot have duplicate output names. Name 'o'");
  CU_ASSERT_PTR_NULL(TF_GraphToFunction(f.g, "F", 0, -1, NULL, 2, twice, 2, out, NULL, NULL, NULL, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "TF_Output Feed.A:0 appears more than once in the input list");
  CU_ASSERT_PTR_NULL(TF_GraphToFunction(f.g, "F", 0, 1, add_only, 2, in, 1, out, NULL, NULL, NULL, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Input 0, 'mul:0', of node 'add' in function 'F' is not available.");
  const TF_Output no_input[2] = {f.a, {f.b.oper, 1}}, no_output[2] = {f.sum, {f.product.oper, 9}};
  CU_ASSERT_PTR_NULL(TF_GraphToFunction(f.g, "F", 0, -1, NULL, 2, no_input, 2, out, NULL, NULL, NULL, w.s));
  ASSERT_FAILS(&w, TF_OUT_OF_RANGE, "does not have output 1\n\tEncountered while processing input 1 into");
  CU_ASSERT_PTR_NULL(TF_GraphToFunction(f.g, "F", 0, -1, NULL, 2, in, 2, no_output, NULL, NULL, NULL, w.s));
  ASSERT_FAILS(&w, TF_OUT_OF_RANGE,
               "Node 'mul' (type: 'Mul', num of outputs: 1) does not have output 9\n"
               "\tEncountered while processing output 1 from function 'F'");
  TF_Function *one = make_function(&w, &f, "Foo");
  const TF_Output first[1] = {f.product};
  TF_Function *other = TF_GraphToFunction(f.g, "Foo", 0, -1, NULL, 2, in, 1, first, NULL, NULL, NULL, w.s);
  ASSERT_OK(&w);
  TF_GraphCopyFunction(w.g, one, NULL, w.s);
  TF_GraphCopyFunction(w.g, other, NULL, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT,
               "Cannot add function 'Foo' because a different function with the same name already exists.");
  TF_DeleteFunction(one);
  TF_DeleteFunction(other);
  TF_DeleteGraph(f.g);
  world_close(&w);
}

/* while (i < 10) { i += 1; acc += i_before } */
static void fill_loop(world_t *w, TF_WhileParams *p) {
  TF_Output ten = constant(w, p->cond_graph, "ten", new_int(10)),
            one = constant(w, p->body_graph, "one", new_int(1));
  p->cond_output = binary(w, p->cond_graph, "Less", "less", p->cond_inputs[0], ten);
  p->body_outputs[0] = binary(w, p->body_graph, "AddV2", "next", p->body_inputs[0], one);
  p->body_outputs[1] = binary(w, p->body_graph, "AddV2", "sum", p->body_inputs[1], p->body_inputs[0]);
  p->name = "loop";
}

static void a_loop_runs_until_its_condition_fails(void) {
  world_t w;
  world_open(&w);
  TF_Output i = placeholder(&w, w.g, "i", TF_INT32), acc = constant(&w, w.g, "acc", new_int(0));
  TF_Output in[2] = {i, acc}, out[2];
  TF_WhileParams p = TF_NewWhile(w.g, in, 2, w.s);
  ASSERT_OK(&w);
  fill_loop(&w, &p);
  TF_FinishWhile(&p, w.s, out);
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(TF_OperationName(out[1].oper), "loop/Exit_1");
  CU_ASSERT_PTR_NOT_NULL(TF_GraphOperationByName(w.g, "loop/cond/less"));
  CU_ASSERT_PTR_NOT_NULL(TF_GraphOperationByName(w.g, "loop/body/sum"));
  TF_Operation *merge = TF_GraphOperationByName(w.g, "loop/Merge");
  CU_ASSERT_STRING_EQUAL(TF_OperationName(TF_OperationInput((TF_Input){merge, 1}).oper),
                         "loop/NextIteration");
  for (int start = 0; start < 12; start += 4) {
    TF_Tensor *value = new_int(start), *results[2];
    int expected = 0;
    for (int k = start; k < 10; k++) expected += k;
    run(&w, &i, &value, 1, out, results, 2);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(int_at(results[0], 0), start < 10 ? 10 : start);
    CU_ASSERT_EQUAL(int_at(results[1], 0), expected);
    TF_DeleteTensor(results[0]);
    TF_DeleteTensor(results[1]);
    TF_DeleteTensor(value);
  }
  world_close(&w);
}

static void loops_may_be_given_up(void) {
  world_t w;
  world_open(&w);
  TF_Output in[1] = {placeholder(&w, w.g, "i", TF_INT32)}, out[1];
  TF_NewWhile(w.g, in, 0, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
  TF_WhileParams p = TF_NewWhile(w.g, in, 1, w.s);
  ASSERT_OK(&w);
  TF_AbortWhile(&p);
  TF_WhileParams q = TF_NewWhile(w.g, in, 1, w.s);
  q.name = "loop";
  TF_FinishWhile(&q, w.s, out);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "TF_WhileParams `cond_output` field isn't set");
  TF_WhileParams r = TF_NewWhile(w.g, in, 1, w.s);
  r.name = "loop";
  r.cond_output = r.cond_inputs[0]; /* no boolean */
  r.body_outputs[0] = r.body_inputs[0];
  TF_FinishWhile(&r, w.s, out);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "'cond' argument must return a boolean output");
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"a function is called by its name", a_function_is_called_by_its_name},
    {"functions travel as messages", functions_travel_as_messages},
    {"incomplete functions are refused", incomplete_functions_are_refused},
    {"a loop runs until its condition fails", a_loop_runs_until_its_condition_fails},
    {"loops may be given up", loops_may_be_given_up},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/function", tests); }
