/* tests/client/saved_model_test.c - TF_LoadSessionFromSavedModel: what it loads, and that it leaves nothing
 * behind. */
#include <stdio.h>

#include "base/alloc.h"
#include "tests/client/client_testing.h"
#include "tests/directory.h"
#include "weft/ops.h"

/* A variable that the saver restores and one that the init op copies the asset's path to. */
#define TYPE(key, type) "attr { key: \"" key "\" value { type: " type " } } "
#define SCALAR "attr { key: \"shape\" value { shape { } } } "
#define NODE(name, op, rest) "  node { name: \"" name "\" op: \"" op "\" " rest "}\n"
#define TEXTS(name, value) \
  NODE(name, "Const",                                                                                   \
       TYPE("dtype", "DT_STRING") "attr { key: \"value\" value { tensor { dtype: DT_STRING tensor_shape { " \
                                  "dim { size: 1 } } string_val: \"" value "\" } } } ")
static const char graph[] = "graph_def {\n" NODE("v", "VarHandleOp", TYPE("dtype", "DT_FLOAT") SCALAR)
    NODE("file", "Placeholder", TYPE("dtype", "DT_STRING")) NODE(
        "asset", "Placeholder", TYPE("dtype", "DT_STRING")) TEXTS("names", "number") TEXTS("slices", "")
        NODE("restored", "RestoreV2",
             "input: \"file\" input: \"names\" input: \"slices\" attr { key: \"dtypes\" value { list { "
             "type: DT_FLOAT } } } ") NODE("restore", "AssignVariableOp",
                                           "input: \"v\" input: \"restored\" " TYPE("dtype", "DT_FLOAT"))
            NODE("path", "VarHandleOp", TYPE("dtype", "DT_STRING") SCALAR) NODE(
                "init", "AssignVariableOp", "input: \"path\" input: \"asset\" " TYPE("dtype", "DT_STRING"))
                NODE("value", "ReadVariableOp", "input: \"v\" " TYPE("dtype", "DT_FLOAT"))
                    NODE("where", "ReadVariableOp", "input: \"path\" " TYPE("dtype", "DT_STRING")) "}\n";
static const char rest[] =
    "saver_def { filename_tensor_name: \"file:0\" restore_op_name: \"restore\" }\n"
    "asset_file_def { tensor_info { name: \"asset:0\" } filename: \"words.txt\" }\n"
    "signature_def { key: \"__saved_model_init_op\" value { outputs { key: \"__saved_model_init_op\" value { "
    "name: "
    "\"init\" } } } }\n";

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  CU_ASSERT_EQUAL(fclose(f), 0);
}

static TF_Output texts(world_t *w, const char *value, int rank) {
  TF_Tensor *t = new_string(value);
  TF_Output c = WEFT_OpConst(w->g, NULL, t, TF_STRING, w->s);
  TF_DeleteTensor(t);
  return rank == 0 ? c : WEFT_OpPack(w->g, NULL, &c, 1, NULL, w->s);
}

/* Writes a model whose number is 7; the folder is good until the next call. */
static const char *model(const char *meta) {
  static char folder[300], path[400];
  world_t w;
  world_open(&w);
  snprintf(folder, sizeof folder, "%s", weft_test_directory());
  snprintf(path, sizeof path, "%s/variables/variables", folder);
  TF_Tensor *t = new_float(7);
  const TF_Output value = WEFT_OpConst(w.g, NULL, t, TF_FLOAT, w.s);
  TF_DeleteTensor(t);
  run_target(&w, WEFT_OpSaveV2(w.g, NULL, texts(&w, path, 0), texts(&w, "number", 1), texts(&w, "", 1),
                               &value, 1, w.s));
  ASSERT_OK(&w);
  world_close(&w);
  snprintf(path, sizeof path, "%s/saved_model.pbtxt", folder);
  write_text(path, meta);
  return folder;
}

static const char *whole(void) {
  static char text[8192];
  snprintf(text, sizeof text, "meta_graphs { meta_info_def { tags: \"serve\" }\n%s%s}\n", graph, rest);
  return model(text);
}

/* NULL on failure; the status is the world's. */
static TF_Session *load(world_t *w, const char *folder, const char *tag, TF_Buffer *meta) {
  const char *tags[] = {tag};
  TF_SessionOptions *options = TF_NewSessionOptions();
  CU_ASSERT_PTR_NOT_NULL_FATAL(options);
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, folder, tags, 1, w->g, meta, w->s);
  TF_DeleteSessionOptions(options);
  return session;
}

static TF_Tensor *fetch(world_t *w, TF_Session *session, const char *name) {
  const TF_Output output = {TF_GraphOperationByName(w->g, name), 0};
  TF_Tensor *value = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(output.oper);
  TF_SessionRun(session, NULL, NULL, NULL, 0, &output, &value, 1, NULL, 0, NULL, w->s);
  ASSERT_OK(w);
  return value;
}

static void a_model_is_ready_when_it_is_loaded(void) {
  world_t w;
  world_open(&w);
  TF_Buffer *meta = TF_NewBuffer();
  const char *folder = whole();
  TF_Session *session = load(&w, folder, "serve", meta);
  ASSERT_OK(&w);
  TF_Tensor *t = fetch(&w, session, "value");
  CU_ASSERT_EQUAL(float_at(t, 0), 7);
  TF_DeleteTensor(t);
  t = fetch(&w, session, "where");
  const TF_TString *where = TF_TensorData(t);
  CU_ASSERT_EQUAL(strncmp(TF_StringGetDataPointer(where), folder, strlen(folder)), 0);
  CU_ASSERT_EQUAL(TF_StringGetSize(where), strlen(folder) + strlen("/assets/words.txt"));
  TF_DeleteTensor(t);
  CU_ASSERT_TRUE(meta->length > 100);
  TF_Output v = {TF_GraphOperationByName(w.g, "v"), 0}; /* the session follows the graph */
  TF_Output twice = WEFT_OpReadVariableOp(w.g, "again", v, TF_FLOAT, w.s);
  ASSERT_OK(&w);
  t = fetch(&w, session, TF_OperationName(twice.oper));
  CU_ASSERT_EQUAL(float_at(t, 0), 7);
  TF_DeleteTensor(t);
  TF_DeleteSession(session, w.s);
  TF_DeleteBuffer(meta);
  world_close(&w);
}

static void what_is_wrong_leaves_the_graph_empty(void) {
  world_t w;
  world_open(&w);
  CU_ASSERT_PTR_NULL(load(&w, "/nowhere", "serve", NULL));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "/nowhere");
  CU_ASSERT_PTR_NULL(load(&w, whole(), "train", NULL));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "supplied tags: { train }. The SavedModel");
  CU_ASSERT_PTR_NULL(load(&w, model("meta_graphs {"), "serve", NULL));
  ASSERT_FAILS(&w, TF_DATA_LOSS, "saved_model.pbtxt");
  CU_ASSERT_PTR_NULL(
      load(&w,
           model("meta_graphs { meta_info_def { tags: \"serve\" } graph_def { node { name: \"n\" "
                 "op: \"NoOp\" } } collection_def { key: \"legacy_init_op\" value { node_list { "
                 "value: \"nothing\" } } } saver_def { restore_op_name: \"n\" "
                 "filename_tensor_name: \"f:0\" } }"),
           "serve", NULL));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "f:0");
  size_t at = 0;
  CU_ASSERT_PTR_NULL(TF_GraphNextOperation(w.g, &at));
  WEFT_OpNoOp(w.g, NULL, w.s);
  TF_SetStatus(w.s, TF_OK, "");
  WEFT_OpNoOp(w.g, NULL, w.s);
  CU_ASSERT_PTR_NULL(load(&w, whole(), "serve", NULL));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Graph is non-empty.");
  world_close(&w);
}

/* Each allocation that can fail, fails once: a status, and all that was made is gone again. */
static void memory_may_run_out(void) {
  enum { MOST = 20000, STEP = 7 };
  const char *folder = whole();
  bool is_done = false;
  for (int i = 0; i < MOST && !is_done; i += STEP) {
    world_t w;
    world_open(&w);
    const char *tags[] = {"serve"};
    TF_SessionOptions *options = TF_NewSessionOptions();
    weft_fault_arm(i);
    TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, folder, tags, 1, w.g, NULL, w.s);
    is_done = !weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(session == NULL, TF_GetCode(w.s) != TF_OK);
    if (is_done) CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_OK);
    if (session != NULL) TF_DeleteSession(session, w.s);
    TF_DeleteSessionOptions(options);
    world_close(&w);
  }
  CU_ASSERT_TRUE(is_done);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a model is ready when it is loaded", a_model_is_ready_when_it_is_loaded},
      {"what is wrong leaves the graph empty", what_is_wrong_leaves_the_graph_empty},
      {"memory may run out", memory_may_run_out},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("SavedModels", tests);
}
