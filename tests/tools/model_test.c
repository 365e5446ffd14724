/* tests/tools/model_test.c - SavedModels and meta graphs on the command line. */
#include <stdio.h>
#include <string.h>

#include "tests/runner.h"
#include "tests/tools/command_run.h"

static run_t r;

static bool has(const char *text, const char *part) {
  bool yes = strstr(text, part) != NULL;
  if (!yes) fprintf(stderr, "no '%s' in: %s\n", part, text);
  return yes;
}

#define DTYPE(key, type) "attr { key: \"" key "\" value { type: " type " } } "
#define NODE(name, op, rest) "node { name: \"" name "\" op: \"" op "\" " rest "}\n"
/* y = x / 2 + 2; n: the number of words; which a table would need. */
#define GRAPH \
  "graph_def {\n" NODE("x", "Placeholder", DTYPE("dtype", "DT_FLOAT"))                                        \
      NODE("half", "Const",                                                                                   \
           DTYPE("dtype", "DT_FLOAT") "attr { key: \"value\" value { tensor { dtype: DT_FLOAT float_val: "    \
                                      "0.5 tensor_shape { } } } } ")                                          \
          NODE("y", "Mul", "input: \"x\" input: \"half\" " DTYPE("T", "DT_FLOAT"))                            \
              NODE("asset", "Placeholder", DTYPE("dtype", "DT_STRING"))                                       \
                  NODE("text", "Placeholder", DTYPE("dtype", "DT_STRING"))                                    \
                      NODE("same", "Identity", "input: \"text\" " DTYPE("T", "DT_STRING"))                    \
                          NODE("where", "Identity", "input: \"asset\" " DTYPE("T", "DT_STRING")) "}\n"
#define INFO(key, name, dtype, shape) \
  "{ key: \"" key "\" value { name: \"" name "\" dtype: " dtype " tensor_shape { " shape " } } } "
#define SIGNATURES \
  "signature_def { key: \"serving_default\" value { inputs " INFO("value", "x:0", "DT_FLOAT", "dim { size: -1 } ") \
      "outputs " INFO("halved", "y:0", "DT_FLOAT", "dim { size: -1 } ") "method_name: \"predict\" } }\n"      \
  "signature_def { key: \"echo\" value { inputs " INFO("said", "text:0", "DT_STRING", "dim { size: -1 } ")    \
      "outputs " INFO("heard", "same:0", "DT_STRING", "dim { size: -1 } ") "outputs "                         \
          INFO("file", "where:0", "DT_STRING", "") "} }\n"                                                    \
  "asset_file_def { tensor_info { name: \"asset:0\" } filename: \"words.txt\" }\n"
#define TAGS(tags) "meta_info_def { tensorflow_version: \"2.19.1\" " tags " }\n"

/* The folder of a model with these meta graphs. */
static const char *model(const char *meta_graphs) {
  static char folder[4096];
  snprintf(folder, sizeof folder, "%s", write_text("saved_model.pbtxt", meta_graphs));
  *strrchr(folder, '/') = '\0';
  return folder;
}

static const char *serving(void) {
  return model("meta_graphs {\n" TAGS("tags: \"serve\"") GRAPH SIGNATURES "}\n");
}

static void a_signature_is_run_by_its_own_names(void) {
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "value=[1, 3]"), 0);
  CU_ASSERT_STRING_EQUAL(r.out, "halved = [0.5, 1.5]\n");
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "value=8"), 0); /* one value for a vector */
  CU_ASSERT_STRING_EQUAL(r.out, "halved = [4]\n");
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "value=[4]", "--json"), 0);
  CU_ASSERT_STRING_EQUAL(r.out, "{\"halved\":[2.0]}\n");
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "x:0=[4]", "--fetch", "y:0"), 0); /* the graph's, too */
  CU_ASSERT_STRING_EQUAL(r.out, "y:0 = [2]\n");
}

static void texts_are_lists_where_a_list_is_wanted_and_assets_are_paths(void) {
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--signature", "echo", "--feed", "said=[\"a\", \"b\"]"), 0);
  CU_ASSERT_TRUE(has(r.out, "heard = [\"a\", \"b\"]\n"));
  CU_ASSERT_TRUE(has(r.out, "/assets/words.txt\"\n"));
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--signature", "echo", "--feed", "said=a b", "--fetch", "heard"),
                  0);
  CU_ASSERT_STRING_EQUAL(r.out, "heard = [\"a b\"]\n");
}

static void what_is_missing_is_named(void) {
  CU_ASSERT_EQUAL(RUN(&r, "run", serving()), 1);
  CU_ASSERT_TRUE(has(r.err, "input 'value' (float [?]) of signature 'serving_default' is not fed"));
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "value=1", "--feed", "other=2"), 1);
  CU_ASSERT_TRUE(has(r.err, "the inputs of signature 'serving_default' are value"));
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--feed", "value=1", "--fetch", "other"), 1);
  CU_ASSERT_TRUE(has(r.err, "the outputs of signature 'serving_default' are halved"));
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--signature", "train"), 1);
  CU_ASSERT_TRUE(has(r.err, "the model has the signatures echo, serving_default"));
  CU_ASSERT_EQUAL(RUN(&r, "run", serving(), "--tags", "serve,gpu"), 1);
  CU_ASSERT_TRUE(has(r.err, "matching supplied tags: { serve gpu }"));
  CU_ASSERT_EQUAL(RUN(&r, "run", "/nowhere", "--feed", "x=1"), 1);
  CU_ASSERT_TRUE(has(r.err, "/nowhere"));
  CU_ASSERT_EQUAL(RUN(&r, "run"), 2);
  CU_ASSERT_TRUE(has(r.err, "which MODEL?"));
}

static void a_model_is_submitted_like_a_graph(void) {
  CU_ASSERT_EQUAL(RUN(&r, "submit", serving(), "--signature", "serving_default", "--feed", "value=[1, 3]",
                      "--steps", "2"),
                  0);
  CU_ASSERT_TRUE(has(r.out, "\nhalved = [0.5, 1.5]\n"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", serving(), "--fetch", "y", "--feed", "x=[1]"), 0);
  CU_ASSERT_TRUE(has(r.out, "\ny = [0.5]\n"));
}

static void a_model_is_looked_at(void) {
  CU_ASSERT_EQUAL(RUN(&r, "inspect", serving()), 0);
  CU_ASSERT_TRUE(has(r.out, "graph { serve }: 7 nodes, 0 functions, written by TensorFlow 2.19.1"));
  CU_ASSERT_TRUE(has(r.out, "signature serving_default (predict)"));
  CU_ASSERT_TRUE(has(r.out, "words.txt"));
  CU_ASSERT_TRUE(has(r.out, "all ops are supported"));
  CU_ASSERT_TRUE(has(r.out, "variables in the checkpoint (0)"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", serving(), "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "\"serving_default\""));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", serving(), "--tags", "serve"), 0);
  CU_ASSERT_TRUE(has(r.out, "inputs (3)"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--missing", serving()), 0);
}

static void tags_choose_among_several_graphs(void) {
  const char *folder = model("meta_graphs {\n" TAGS("tags: \"train\"") "}\nmeta_graphs {\n" TAGS(
      "tags: \"serve\"") GRAPH SIGNATURES "}\nmeta_graphs {\n" TAGS("tags: \"serve\" tags: \"gpu\"") "}\n");
  CU_ASSERT_EQUAL(RUN(&r, "run", folder, "--feed", "value=[4]"), 0); /* serve, if nothing is said */
  CU_ASSERT_EQUAL(RUN(&r, "run", folder, "--feed", "value=[4]", "--tags", "serve"), 0);
  CU_ASSERT_EQUAL(RUN(&r, "run", folder, "--feed", "value=[4]", "--tags", "gpu,serve"), 1);
  CU_ASSERT_TRUE(has(r.err, "the model has no signatures"));
  CU_ASSERT_EQUAL(RUN(&r, "run", folder, "--feed", "value=[4]", "--tags", "gpu"), 1);
  CU_ASSERT_TRUE(has(r.err, "has { train }, { serve }, { serve gpu }"));
}

static void a_meta_graph_is_run_and_looked_at(void) {
  const char *path =
      write_text("model.pbtxt", TAGS("") GRAPH SIGNATURES
                 "collection_def { key: \"train_op\" value { node_list { value: \"y\" } } }\n");
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", "x=[1]", "--fetch", "y"), 0);
  CU_ASSERT_TRUE(has(r.out, "\ny = [0.5]\n"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", path), 0);
  CU_ASSERT_TRUE(has(r.out, "a meta graph"));
  CU_ASSERT_TRUE(has(r.out, "train_op                        1 (node_list)"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--tags", "serve", "--fetch", "y"), 1);
  CU_ASSERT_TRUE(has(r.err, "is a file; the folder of a SavedModel has tags"));
}

/* A file that says what runs: v begins with 5, a step adds x to it and shows it. */
#define OP(name) "{ key: \"" name "\" value { name: \"" name "\" } } "
#define TRAINING \
  "graph_def {\n" NODE("x", "Placeholder", DTYPE("dtype", "DT_FLOAT"))                                        \
      NODE("other", "Placeholder", DTYPE("dtype", "DT_FLOAT"))                                                \
          NODE("twice", "Add", "input: \"other\" input: \"other\" " DTYPE("T", "DT_FLOAT"))                   \
              NODE("v", "VarHandleOp", DTYPE("dtype", "DT_FLOAT") "attr { key: \"shape\" value { shape { } } } ") \
                  NODE("five", "Const", DTYPE("dtype", "DT_FLOAT") "attr { key: \"value\" value { tensor { dtype: " \
                                                                   "DT_FLOAT float_val: 5 tensor_shape { } } } } ")   \
                      NODE("begin", "AssignVariableOp", "input: \"v\" input: \"five\" " DTYPE("dtype", "DT_FLOAT"))   \
                          NODE("step", "AssignAddVariableOp",                                                       \
                               "input: \"v\" input: \"x\" " DTYPE("dtype", "DT_FLOAT"))                             \
                              NODE("now", "ReadVariableOp", "input: \"v\" input: \"^step\" " DTYPE("dtype", "DT_FLOAT")) "}\n" \
  "signature_def { key: \"__saved_model_init_op\" value { outputs { key: \"__saved_model_init_op\" value { name: " \
  "\"begin\" } } } }\n"                                                                                        \
  "signature_def { key: \"train\" value { inputs " INFO("amount", "x:0", "DT_FLOAT", "")                        \
      "outputs " INFO("sum", "now:0", "DT_FLOAT", "") "outputs " OP("step") "} }\n"                              \
  "signature_def { key: \"double\" value { inputs " INFO("value", "other:0", "DT_FLOAT", "")                    \
      "outputs " INFO("doubled", "twice:0", "DT_FLOAT", "") "} }\n"

static void a_training_file_says_what_runs(void) {
  const char *path = write_text("training.pbtxt", TAGS("") TRAINING);
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", "amount=2", "--steps", "3"), 0);
  CU_ASSERT_TRUE(has(r.out, "\nsum = 11\n")); /* 5, and 2 three times */
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", "amount=2", "--fetch", "sum"), 0);
  CU_ASSERT_TRUE(has(r.out, "\nsum = 7\n"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--signature", "double", "--feed", "value=4"), 0);
  CU_ASSERT_TRUE(has(r.out, "\ndoubled = 8\n"));
  CU_ASSERT_EQUAL(
      RUN(&r, "submit", path, "--target", "step", "--init", "begin", "--feed", "x=1", "--fetch", "now"),
      0); /* the graph's names, as of any file */
  CU_ASSERT_TRUE(has(r.out, "\nnow = 6\n"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--fetch", "twice", "--feed", "other=3"), 0);
  CU_ASSERT_TRUE(has(r.out, "\ntwice = 6\n"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", path), 1);
  CU_ASSERT_TRUE(has(r.err, "input 'amount' (float []) of signature 'train' is not fed"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", path), 0);
  CU_ASSERT_TRUE(has(r.out, "    runs   step"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", path, "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "\"ops\""));
}

static void a_file_without_an_entry_names_what_is_missing(void) {
  const char *path = write_text("model.pbtxt", TAGS("") GRAPH SIGNATURES);
  CU_ASSERT_EQUAL(RUN(&r, "submit", path), 2);
  CU_ASSERT_TRUE(has(r.err, "nothing to run"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", "/nowhere.pb"), 1);
  CU_ASSERT_TRUE(has(r.err, "/nowhere.pb"));
  const char *bad =
      write_text("bad.pbtxt", TAGS("") GRAPH
                 "signature_def { key: \"__saved_model_init_op\" value { outputs " OP("other") "} }\n");
  CU_ASSERT_EQUAL(RUN(&r, "submit", bad, "--fetch", "y", "--feed", "x=1"), 1);
  CU_ASSERT_TRUE(has(r.err, "Could not find output __saved_model_init_op"));
}

static void a_broken_model_is_named(void) {
  CU_ASSERT_EQUAL(RUN(&r, "inspect", model("meta_graphs { nothing: 1 }")), 1);
  CU_ASSERT_TRUE(has(r.err, "saved_model.pbtxt:1:15"));
  CU_ASSERT_EQUAL(RUN(&r, "run",
                      model("meta_graphs {\n" TAGS("tags: \"serve\"") GRAPH SIGNATURES
                            "asset_file_def { tensor_info { name: \"asset:0\" } filename: "
                            "\"../words.txt\" } }\n"),
                      "--feed", "value=1"),
                  1);
  CU_ASSERT_TRUE(has(r.err, "asset '../words.txt'"));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a signature is run by its own names", a_signature_is_run_by_its_own_names},
      {"texts are lists where a list is wanted, and assets are paths",
       texts_are_lists_where_a_list_is_wanted_and_assets_are_paths},
      {"what is missing is named", what_is_missing_is_named},
      {"a model is submitted like a graph", a_model_is_submitted_like_a_graph},
      {"a model is looked at", a_model_is_looked_at},
      {"tags choose among several graphs", tags_choose_among_several_graphs},
      {"a meta graph is run and looked at", a_meta_graph_is_run_and_looked_at},
      {"a training file says what runs", a_training_file_says_what_runs},
      {"a file without an entry names what is missing", a_file_without_an_entry_names_what_is_missing},
      {"a broken model is named", a_broken_model_is_named},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("models on the command line", tests);
}
