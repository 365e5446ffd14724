/* tests/coordinator/prune_test.c - the part of a GraphDef that a worker needs. */
#include "coordinator/prune.h"

#include "tests/client/client_testing.h"

/* a -> square -> sum <- b, and c, which waits for b. */
static TF_Buffer *some_graph(world_t *w) {
  TF_Output a = constant(w, w->g, "a", new_float(1)), b = constant(w, w->g, "b", new_float(2));
  (void)binary(w, w->g, "AddV2", "sum", unary(w, w->g, "Square", "square", a), b);
  TF_OperationDescription *d = TF_NewOperation(w->g, "NoOp", "c");
  TF_AddControlInput(d, b.oper);
  (void)TF_FinishOperation(d, w->s);
  TF_Buffer *bytes = TF_NewBuffer();
  TF_GraphToGraphDef(w->g, bytes, w->s);
  ASSERT_OK(w);
  return bytes;
}

static int num_nodes(const weft_str_t graph_def, bool *has_square) {
  world_t w;
  world_open(&w);
  TF_Buffer *bytes = TF_NewBufferFromString(graph_def.data, graph_def.length);
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(w.g, bytes, o, w.s);
  ASSERT_OK(&w);
  size_t at = 0;
  int n = 0;
  while (TF_GraphNextOperation(w.g, &at) != NULL) n++;
  *has_square = TF_GraphOperationByName(w.g, "square") != NULL;
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(bytes);
  world_close(&w);
  return n;
}

static void a_worker_gets_what_it_needs(void) {
  static const struct {
    const char *root;
    int nodes;
    bool has_square;
  } cases[] = {{"sum:0", 4, true}, {"c", 2, false}, {"a", 1, false}, {"square", 2, true}};
  world_t w;
  world_open(&w);
  TF_Buffer *bytes = some_graph(&w);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_str_t root = weft_str(cases[i].root), part = {NULL, 0};
    bool has_square = false;
    weft_status_t *s = weft_co_prune(weft_str_of(bytes->data, bytes->length), &root, 1, &arena, &part);
    CU_ASSERT_PTR_NULL_FATAL(s);
    CU_ASSERT_EQUAL(num_nodes(part, &has_square), cases[i].nodes);
    CU_ASSERT_EQUAL(has_square, cases[i].has_square);
    weft_arena_deinit(&arena);
  }
  TF_DeleteBuffer(bytes);
  world_close(&w);
}

static void what_cannot_be_pruned_is_refused(void) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_str_t root = WEFT_STR("nowhere:0"), part;
  weft_status_t *s = weft_co_prune(WEFT_STR(""), &root, 1, &arena, &part);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "'nowhere:0'"));
  weft_status_free(s);
  s = weft_co_prune(WEFT_STR("\x0a\x7f"), &root, 1, &arena, &part);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  s = weft_co_prune(WEFT_STR("\x0a\x02\x0a\x7f"), &root, 1, &arena, &part);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_arena_deinit(&arena);
}

static void every_allocation_may_fail(void) {
  world_t w;
  int n = 0;
  world_open(&w);
  TF_Buffer *bytes = some_graph(&w);
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_str_t root = WEFT_STR("sum"), part;
  WEFT_FAIL_EACH_ALLOCATION(n, s,
                            weft_co_prune(weft_str_of(bytes->data, bytes->length), &root, 1, &arena, &part));
  CU_ASSERT_TRUE(n >= 3);
  weft_arena_deinit(&arena);
  TF_DeleteBuffer(bytes);
  world_close(&w);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a worker gets what it needs", a_worker_gets_what_it_needs},
      {"what cannot be pruned is refused", what_cannot_be_pruned_is_refused},
      {"every allocation may fail", every_allocation_may_fail},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("prune", tests);
}
