/* tests/client/graph_test.c - GraphDefs out of graphs and into them, with every option. */
#include "tests/client/client_testing.h"

static int count_nodes(TF_Graph *g) {
  int n = 0;
  for (size_t pos = 0; TF_GraphNextOperation(g, &pos) != NULL;) n++;
  return n;
}

/* x + two -> y -> id (after x, with two) */
static TF_Buffer *small_graph(world_t *w) {
  TF_Graph *g = TF_NewGraph();
  TF_Output x = placeholder(w, g, "x", TF_INT32), two = constant(w, g, "two", new_int(2));
  TF_Output y = binary(w, g, "AddV2", "y", x, two);
  TF_OperationDescription *d = TF_NewOperation(g, "Identity", "id");
  TF_AddInput(d, y);
  TF_AddControlInput(d, x.oper);
  TF_ColocateWith(d, two.oper);
  TF_SetDevice(d, "/device:CPU:0");
  TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(g, def, w->s);
  ASSERT_OK(w);
  TF_DeleteGraph(g);
  return def;
}

static void import(world_t *w, const TF_Buffer *def, const char *prefix, bool uniquify_prefix,
                   bool uniquify_names) {
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  if (prefix != NULL) TF_ImportGraphDefOptionsSetPrefix(o, prefix);
  TF_ImportGraphDefOptionsSetUniquifyPrefix(o, uniquify_prefix);
  TF_ImportGraphDefOptionsSetUniquifyNames(o, uniquify_names);
  TF_GraphImportGraphDef(w->g, def, o, w->s);
  TF_DeleteImportGraphDefOptions(o);
}

static bool has(world_t *w, const char *name) { return TF_GraphOperationByName(w->g, name) != NULL; }

static void a_graph_survives_the_journey(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w), *again = TF_NewBuffer();
  import(&w, def, NULL, false, false);
  ASSERT_OK(&w);
  TF_GraphToGraphDef(w.g, again, w.s);
  CU_ASSERT(again->length == def->length && memcmp(again->data, def->data, def->length) == 0);
  TF_Operation *id = TF_GraphOperationByName(w.g, "id");
  CU_ASSERT_STRING_EQUAL(TF_OperationDevice(id), "/device:CPU:0");
  CU_ASSERT_EQUAL(TF_OperationNumControlInputs(id), 1);
  CU_ASSERT_EQUAL(TF_GraphGetTensorNumDims(w.g, (TF_Output){TF_GraphOperationByName(w.g, "two"), 0}, w.s), 0);
  TF_DeleteBuffer(def);
  TF_DeleteBuffer(again);
  world_close(&w);
}

static void names_are_kept_apart(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w);
  import(&w, def, NULL, false, false);
  import(&w, def, NULL, false, false);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Node name 'x' already exists in the Graph");
  import(&w, def, "p", false, false);
  ASSERT_OK(&w);
  CU_ASSERT(has(&w, "p/id") && !has(&w, "p_1/id"));
  import(&w, def, "p", true, false);
  ASSERT_OK(&w);
  CU_ASSERT(has(&w, "p_1/id"));
  import(&w, def, NULL, false, true);
  ASSERT_OK(&w);
  CU_ASSERT(has(&w, "x_1") && has(&w, "id_1"));
  void *value;
  size_t length;
  char storage[32];
  TF_OperationGetAttrStringList(TF_GraphOperationByName(w.g, "p_1/id"), "_class", &value, &length, 1, storage,
                                32, w.s);
  CU_ASSERT(length == 12 && memcmp(value, "loc:@p_1/two", 12) == 0);
  import(&w, def, "no good", false, false);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT,
               "Imported node name prefix 'no good/' would lead to invalid node names");
  CU_ASSERT_EQUAL(count_nodes(w.g), 16);
  TF_DeleteBuffer(def);
  world_close(&w);
}

static void inputs_are_mapped_and_results_returned(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w);
  TF_Output five = constant(&w, w.g, "five", new_int(5));
  TF_Operation *barrier = constant(&w, w.g, "barrier", new_int(0)).oper;
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, "m");
  TF_ImportGraphDefOptionsSetDefaultDevice(o, "/device:CPU:0");
  TF_ImportGraphDefOptionsAddInputMapping(o, "x", 0, five);
  TF_ImportGraphDefOptionsAddInputMapping(o, "nowhere", 3, five);
  TF_ImportGraphDefOptionsRemapControlDependency(o, "x", barrier);
  TF_ImportGraphDefOptionsAddControlDependency(o, barrier);
  TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 0);
  TF_ImportGraphDefOptionsAddReturnOutput(o, "x", 0);
  TF_ImportGraphDefOptionsAddReturnOperation(o, "id");
  CU_ASSERT_EQUAL(TF_ImportGraphDefOptionsNumReturnOutputs(o), 2);
  CU_ASSERT_EQUAL(TF_ImportGraphDefOptionsNumReturnOperations(o), 1);
  TF_ImportGraphDefResults *r = TF_GraphImportGraphDefWithResults(w.g, def, o, w.s);
  ASSERT_OK(&w);
  TF_Output *outputs = NULL;
  TF_Operation **operations = NULL, *control = NULL;
  const char **missing = NULL;
  int n = 0, *indexes = NULL;
  TF_ImportGraphDefResultsReturnOutputs(r, &n, &outputs);
  CU_ASSERT_EQUAL_FATAL(n, 2);
  CU_ASSERT_STRING_EQUAL(TF_OperationName(outputs[0].oper), "m/y");
  CU_ASSERT_PTR_EQUAL(outputs[1].oper, five.oper);
  TF_ImportGraphDefResultsReturnOperations(r, &n, &operations);
  CU_ASSERT_STRING_EQUAL(TF_OperationName(operations[0]), "m/id");
  CU_ASSERT_EQUAL(TF_OperationGetControlInputs(operations[0], &control, 1), 1);
  CU_ASSERT_PTR_EQUAL(control, barrier);
  TF_ImportGraphDefResultsMissingUnusedInputMappings(r, &n, &missing, &indexes);
  CU_ASSERT(n == 1 && strcmp(missing[0], "nowhere") == 0 && indexes[0] == 3);
  CU_ASSERT_STRING_EQUAL(TF_OperationDevice(outputs[0].oper), "/device:CPU:0");
  TF_Operation *two = TF_GraphOperationByName(w.g, "m/two");
  CU_ASSERT_EQUAL(TF_OperationGetControlInputs(two, &control, 1), 1);
  TF_Tensor *t = run1(&w, (TF_Output){NULL, 0}, NULL, outputs[0]);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(int_at(t, 0), 7);
  TF_DeleteTensor(t);
  TF_DeleteImportGraphDefResults(r);
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(def);
  world_close(&w);
}

static void a_failed_import_leaves_no_trace(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w), *junk = TF_NewBufferFromString("junk!!", 6);
  TF_Output f = constant(&w, w.g, "f", new_float(1));
  const struct {
    int kind;
    const char *text;
  } cases[] = {{0, "Invalid GraphDef"},
               {1, "was passed float from f:0 incompatible with expected int32"},
               {2, "Requested return tensor 'zz:0' not found in graph def"},
               {3, "Invalid return output 5 of node 'y', which has 1 output(s)"},
               {4, "Requested return node 'zz' not found in graph def"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetPrefix(o, "q");
    if (cases[i].kind == 1) TF_ImportGraphDefOptionsAddInputMapping(o, "x", 0, f);
    if (cases[i].kind == 2) TF_ImportGraphDefOptionsAddReturnOutput(o, "zz", 0);
    if (cases[i].kind == 3) TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 5);
    if (cases[i].kind == 4) TF_ImportGraphDefOptionsAddReturnOperation(o, "zz");
    TF_GraphImportGraphDef(w.g, cases[i].kind == 0 ? junk : def, o, w.s);
    ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, cases[i].text);
    CU_ASSERT_EQUAL(count_nodes(w.g), 1);
    CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(f), 0);
    TF_DeleteImportGraphDefOptions(o);
  }
  import(&w, def, "q", false, false); /* the names are free */
  ASSERT_OK(&w);
  TF_DeleteBuffer(def);
  TF_DeleteBuffer(junk);
  world_close(&w);
}

static void every_cut_of_a_graph_is_refused_or_read(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w);
  for (size_t n = 0; n < def->length; n++) {
    TF_Buffer *cut = TF_NewBufferFromString(def->data, n);
    import(&w, cut, "p", true, false);
    TF_DeleteBuffer(cut);
  }
  import(&w, def, NULL, false, false);
  ASSERT_OK(&w);
  TF_DeleteBuffer(def);
  world_close(&w);
}

static void an_allocation_that_fails_leaves_the_graph_usable(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *def = small_graph(&w);
  for (long n = 0;; n++) {
    TF_Graph *g = TF_NewGraph();
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetPrefix(o, "p");
    weft_fault_arm(n);
    TF_GraphImportGraphDef(g, def, o, w.s);
    bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(TF_GetCode(w.s), fired ? TF_RESOURCE_EXHAUSTED : TF_OK);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteGraph(g);
    if (!fired) break;
  }
  TF_DeleteBuffer(def);
  world_close(&w);
}

static void versions_and_ops_are_told(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *b = TF_NewBuffer(), *op = TF_NewBuffer(), *no = TF_NewBuffer();
  TF_GraphVersions(w.g, b, w.s);
  CU_ASSERT(b->length == 3 && memcmp(b->data, "\x08\xd1\x10", 3) == 0); /* producer 2129 */
  TF_GraphGetOpDef(w.g, "MatMul", op, w.s);
  ASSERT_OK(&w);
  CU_ASSERT(op->length > 8 && memcmp((const char *)op->data + 2, "MatMul", 6) == 0);
  TF_GraphGetOpDef(w.g, "NoSuchOp", no, w.s);
  ASSERT_FAILS(&w, TF_NOT_FOUND, "Op type not registered 'NoSuchOp'");
  TF_DeleteBuffer(b);
  TF_DeleteBuffer(op);
  TF_DeleteBuffer(no);
  world_close(&w);
}

static void constants_are_evaluated(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), c = constant(&w, w.g, "c", new_float(3));
  TF_Output sum = binary(&w, w.g, "AddV2", "sum", c, c), other = binary(&w, w.g, "AddV2", "other", c, x);
  TF_Tensor *t = NULL;
  CU_ASSERT_EQUAL_FATAL(TF_TryEvaluateConstant(w.g, sum, &t, w.s), 1);
  CU_ASSERT_EQUAL(float_at(t, 0), 6);
  TF_DeleteTensor(t);
  CU_ASSERT_EQUAL(TF_TryEvaluateConstant(w.g, other, &t, w.s), 0);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NULL(t);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"a graph survives the journey", a_graph_survives_the_journey},
    {"names are kept apart", names_are_kept_apart},
    {"inputs are mapped and results returned", inputs_are_mapped_and_results_returned},
    {"a failed import leaves no trace", a_failed_import_leaves_no_trace},
    {"every cut of a graph is refused or read", every_cut_of_a_graph_is_refused_or_read},
    {"an allocation that fails leaves the graph usable", an_allocation_that_fails_leaves_the_graph_usable},
    {"versions and ops are told", versions_and_ops_are_told},
    {"constants are evaluated", constants_are_evaluated},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/graph", tests); }
