/* tests/tools/commands_test.c - the other commands: help, server, inspect, ops. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/runner.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"

static run_t r, server;

static bool has(const char *text, const char *part) {
  bool yes = strstr(text, part) != NULL;
  if (!yes) fprintf(stderr, "no '%s' in: %s\n", part, text);
  return yes;
}

static int lines(const char *text) {
  int n = 0;
  for (; *text != '\0'; text++) n += *text == '\n';
  return n;
}

static void every_command_has_help_with_examples(void) {
  static const char *const commands[] = {"server", "submit", "trace", "profile", "inspect", "ops", "bench"};
  CU_ASSERT_EQUAL(RUN(&r, "--help"), 0);
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    CU_ASSERT_TRUE(has(r.out, commands[i]));
  }
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    char example[40];
    snprintf(example, sizeof example, "Examples:\n  weft %s", commands[i]);
    CU_ASSERT_EQUAL(RUN(&r, commands[i], "--help"), 0);
    CU_ASSERT_TRUE(has(r.out, example));
    CU_ASSERT_STRING_EQUAL(r.err, "");
    CU_ASSERT_EQUAL(RUN(&r, "help", commands[i]), 0);
    CU_ASSERT_TRUE(has(r.out, example));
  }
}

static void bench_compares_a_time_with_its_floor(void) {
  CU_ASSERT_TRUE(RUN(&r, "bench", "local_step", "--quick", "--json") <= 1); /* 1: slower than its bar */
  CU_ASSERT_TRUE(has(r.out, "\"floor\": \"memory_load\""));
  CU_ASSERT_TRUE(has(r.out, "\"ratio\": "));
  CU_ASSERT_EQUAL(RUN(&r, "bench", "grpc_call", "--quick"), 0); /* a floor alone has no bar */
  CU_ASSERT_TRUE(has(r.out, "an empty call of gRPC"));
  CU_ASSERT_EQUAL(RUN(&r, "bench", "allreduce_copies", "--quick"), 0);
  CU_ASSERT_TRUE(has(r.out, "without any agreement"));
  CU_ASSERT_EQUAL(RUN(&r, "bench", "--trace", "--quick"), 0);
  CU_ASSERT_EQUAL(lines(r.out), 10); /* a heading, two steps and their parts */
  CU_ASSERT_EQUAL(RUN(&r, "bench", "nothing_like_this"), 2);
  CU_ASSERT_TRUE(has(r.err, "no benchmark has 'nothing_like_this' in its name"));
}

static void a_wrong_command_is_no_success(void) {
  static const char *const none[] = {NULL};
  CU_ASSERT_EQUAL(run(&r, none), 2);
  CU_ASSERT_TRUE(has(r.err, "Usage: weft COMMAND"));
  CU_ASSERT_EQUAL(RUN(&r, "sumbit"), 2);
  CU_ASSERT_TRUE(has(r.err, "did you mean 'submit'"));
  CU_ASSERT_EQUAL(lines(r.err), 1);
}

static void a_server_refuses_what_it_cannot_serve(void) {
  static const struct {
    const char *environment, *args[8];
    int code;
    const char *said;
  } cases[] = {
      {NULL, {"server"}, 2, "--cluster"},
      {NULL, {"server", "--cluster", "a=127.0.0.1:0"}, 2, "--job"},
      {NULL, {"server", "--cluster", "a", "--job", "a"}, 2, "--cluster a: 'a' is not job=host:port"},
      {NULL, {"server", "--cluster", "a=127.0.0.1", "--job", "a"}, 2, "--cluster a=127.0.0.1: '127.0.0.1'"},
      {NULL,
       {"server", "--cluster", "a=127.0.0.1:0", "--job", "b"},
       2,
       "--job b, --task 0: --cluster has no task 0 of job 'b'"},
      {NULL,
       {"server", "--cluster", "a=127.0.0.1:0", "--job", "a", "--task", "1"},
       2,
       "no task 1 of job 'a'"},
      {NULL, {"server", "--cluster", "a=127.0.0.1:0", "--job", "a", "--task", "x"}, 2, "--task 'x'"},
      {NULL, {"server", "--cluster", "a=127.0.0.1:0", "--job", "a", "--port=70000"}, 2, "--port '70000'"},
      {NULL, {"server", "--cluster", "a=127.0.0.1:0", "--job", "a", "--host", "192.0.2.1"}, 1, "192.0.2.1"},
      {NULL,
       {"server", "--cluster", "a=127.0.0.1:0", "--job", "a", "--collective-leader", "/job:b/task:0"},
       1,
       "'/job:b/task:0' is not a task"},
      {NULL,
       {"server", "--cluster", "a=127.0.0.1:9,127.0.0.1:9", "--job", "a"},
       2,
       "address 127.0.0.1:9 is given to task 0"},
      {NULL, {"server", "extra"}, 2, "'extra'"},
      {"TF_CONFIG=", {"server"}, 1, "TF_CONFIG"},
      {"TF_CONFIG={\"cluster\": 1}", {"server"}, 1, "cluster is missing or not an object"},
      {"TF_CONFIG={\"cluster\": {\"w\": [1]}}", {"server"}, 1, "cluster.w[0]"},
      {"TF_CONFIG={\"cluster\": {\"w\": [\"127.0.0.1:0\"]}}", {"server"}, 1, "task.type"},
      {"TF_CONFIG={\"cluster\": {\"w\": [\"127.0.0.1:0\"]}, \"task\": {\"type\": \"w\"}}",
       {"server"},
       1,
       "task.index"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run_start(&r, cases[i].args, cases[i].environment);
    run_end(&r);
    CU_ASSERT_EQUAL(r.code, cases[i].code);
    CU_ASSERT_EQUAL(lines(r.err), 1);
    CU_ASSERT_TRUE(has(r.err, cases[i].said));
    CU_ASSERT_STRING_EQUAL(r.out, "");
  }
}

static void a_server_says_one_line_and_gives_its_port_back(void) {
  char target[64], again[64], cluster[80];
  CU_ASSERT_TRUE_FATAL(run_server(&server, target));
  snprintf(cluster, sizeof cluster, "worker=%s", target + strlen("grpc://"));
  CU_ASSERT_EQUAL(RUN(&r, "server", "--cluster", cluster, "--job", "worker"), 1);
  CU_ASSERT_EQUAL(lines(r.err), 1);
  CU_ASSERT_TRUE(has(r.err, target + strlen("grpc://")));
  for (int number = 0; number < 2; number++) { /* the second time on the same port, at once */
    run_signal(&server, number == 0 ? SIGTERM : SIGINT);
    run_end(&server);
    CU_ASSERT_EQUAL(server.code, 0);
    CU_ASSERT_EQUAL(lines(server.out), 1);
    if (number == 1) break;
    const char *const args[] = {"server", "--cluster", cluster, "--job", "worker", "--task", "0", NULL};
    run_start(&server, args, NULL);
    CU_ASSERT_TRUE(run_until(&server, "\n") && sscanf(server.out, "weft: listening on %63s", again) == 1);
    CU_ASSERT_STRING_EQUAL(again, target);
  }
}

static void tf_config_names_cluster_and_task(void) {
  static const char *const args[] = {"server", NULL};
  run_start(&server, args,
            "TF_CONFIG={\"cluster\": {\"ps\": [\"127.0.0.1:1\"], \"w\": [\"127.0.0.1:2\", \"127.0.0.1:0\"]}, "
            "\"task\": {\"type\": \"w\", \"index\": \"1\"}}");
  CU_ASSERT_TRUE(run_until(&server, "weft: listening on grpc://127.0.0.1:"));
  run_signal(&server, SIGTERM);
  run_end(&server);
  CU_ASSERT_EQUAL(server.code, 0);
}

static void inspect_says_what_is_in_a_graph(void) {
  const char *graph = write_text("counter.pbtxt", COUNTER NODE("odd", "NoSuchOp", "device: \"/job:ps\""));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph), 0);
  static const char *const parts[] = {"inputs (1)\n  by ", "variables (1)\n  v ", "4 B", "/job:ps",
                                      "ops not supported (1)\n  NoSuchOp"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) CU_ASSERT_TRUE(has(r.out, parts[i]));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "\"NoSuchOp\": 1"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--dot", "--all"), 0);
  CU_ASSERT_TRUE(has(r.out, "digraph") && has(r.out, "NoSuchOp"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--svg", "--all"), 0);
  CU_ASSERT_TRUE(has(r.out, "<svg ") && has(r.out, "NoSuchOp") && has(r.out, "</svg>\n"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", write_text("empty.pb", "")), 0);
  CU_ASSERT_TRUE(has(r.out, "empty"));
  static const char *const devices[] = {"/dev/zero", "/dev/urandom", "/dev/null"};
  for (int i = 0; i < 3; i++) { /* read until memory is at an end, before */
    CU_ASSERT_EQUAL(RUN(&r, "inspect", devices[i]), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err, "it is a device, no file"));
    CU_ASSERT_EQUAL(RUN(&r, "submit", devices[i], "--master", "grpc://127.0.0.1:1", "--target", "x"), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err, "it is a device, no file"));
  }
  CU_ASSERT_EQUAL(RUN(&r, "inspect", write_text("bad.pbtxt", "node {")), 1);
  CU_ASSERT_TRUE(has(r.err, "bad.pbtxt:1:"));
}

#define FLOATS TYPE("T", "DT_FLOAT")
#define VALUE(number)                                                                                    \
  "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: DT_FLOAT " \
  "tensor_shape {} float_val: " number " } } } "

/* y = -map(f, x), f(v) = relu(v + sqrt(4)). */
static const char mapped[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "
    "node { name: 'map' op: 'MapDefun' input: 'x' attr { key: 'f' value { func { name: 'f' } } } "
    "attr { key: 'Targuments' value { list { type: DT_FLOAT } } } "
    "attr { key: 'output_types' value { list { type: DT_FLOAT } } } "
    "attr { key: 'output_shapes' value { list { shape { unknown_rank: true } } } } } "
    "node { name: 'same' op: 'Identity' input: 'map' " FLOATS "} "
    "node { name: 'y' op: 'Neg' input: 'same' " FLOATS "} "
    "library { function { signature { name: 'f' input_arg { name: 'v' type: DT_FLOAT } "
    "output_arg { name: 'r' type: DT_FLOAT } } "
    "node_def { name: 'four' op: 'Const' " VALUE("4") "} "
    "node_def { name: 'two' op: 'Sqrt' input: 'four:output:0' " FLOATS "} "
    "node_def { name: 'sum' op: 'AddV2' input: 'v' input: 'two:y:0' " FLOATS "} "
    "node_def { name: 'end' op: 'Relu' input: 'sum:z:0' " FLOATS "} "
    "ret { key: 'r' value: 'end:activations:0' } } }";

/* A fetch keeps its value, not its node; functions that kernels call are shown, too. */
static void inspect_shows_what_passes_do(void) {
  const char *graph = write_text("mapped.pbtxt", mapped);
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--optimized", "--fetch", "same"), 0);
  CU_ASSERT_TRUE(has(r.out, "3 nodes before, 2 after\n") && has(r.out, "identities: is read as map"));
  CU_ASSERT_TRUE(has(r.out, "function f: 8 nodes before, "));
  CU_ASSERT_TRUE(has(r.out, "fold: is a constant") && has(r.out, "fuse: is computed in f/end"));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--optimized", "--fetch", "y", "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "\"functions\": [\n") && has(r.out, "\"name\": \"f\""));
  CU_ASSERT_EQUAL(RUN(&r, "inspect", graph, "--optimized", "--fetch", "same", "--passes", "none"), 0);
  CU_ASSERT_TRUE(has(r.out, "3 nodes before, 3 after\n") &&
                 has(r.out, "function f: 8 nodes before, 8 after\n"));
  CU_ASSERT_TRUE(strstr(r.out, "fold: ") == NULL);
}

static void ops_lists_what_is_supported(void) {
  CU_ASSERT_EQUAL(RUN(&r, "ops", "MatMul"), 0);
  CU_ASSERT_TRUE(has(r.out, "\nMatMul ") && has(r.out, "CPU"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "matmul", "--json"), 0);
  static const char *const keys[] = {"\"name\": \"MatMul\"", "\"devices\": [", "\"dtypes\": [",
                                     "\"gradient\": true"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) CU_ASSERT_TRUE(has(r.out, keys[i]));
  CU_ASSERT_EQUAL(r.out[0], '[');
  CU_ASSERT_EQUAL(RUN(&r, "ops", "NoSuchOp"), 1);
  CU_ASSERT_EQUAL(lines(r.err), 1);
  CU_ASSERT_EQUAL(RUN(&r, "ops", "CollectiveReduceV2"), 0);
  CU_ASSERT_TRUE(has(r.out, " test_collectives "));
}

static void ops_says_what_is_not_there_and_why(void) {
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--absent", "PyFunc"), 0);
  CU_ASSERT_TRUE(has(r.out, "EagerPyFunc ") && has(r.out, "calls a function of a Python process"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--absent", "PyFunc", "--json"), 0);
  CU_ASSERT_TRUE(has(r.out, "\"absent\": \"calls a function of a Python process\""));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--absent", "MatMul_"), 1);
}

static void the_page_of_ops_is_what_ops_prints(void) {
  static char page[1 << 20];
  FILE *f = fopen("docs/ops.md", "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(page, 1, sizeof page - 1, f);
  fclose(f);
  page[n] = '\0';
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--markdown"), 0);
  bool is_same = strcmp(page, r.out) == 0;
  if (!is_same) fprintf(stderr, "docs/ops.md is old: bazel-bin/tools/weft ops --markdown >docs/ops.md\n");
  CU_ASSERT_TRUE(is_same);
}

static void ops_says_what_a_graph_lacks(void) {
  const char *graph =
      write_text("lacking.pbtxt", COUNTER NODE("odd", "NoSuchOp", "") NODE("odd_2", "NoSuchOp", "")
                                      NODE("python", "PyFuncStateless", ""));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--missing", graph), 1);
  CU_ASSERT_TRUE(has(r.out, "NoSuchOp ") && has(r.out, " 2 TensorFlow registers no such op"));
  CU_ASSERT_TRUE(has(r.out, " 1 calls a function of a Python process") && has(r.out, "2 ops are not"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--missing", graph, "--json"), 1);
  CU_ASSERT_TRUE(has(r.out, "\"nodes\": 2"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--missing", write_text("counter.pbtxt", COUNTER)), 0);
  CU_ASSERT_TRUE(has(r.out, "all ops are supported"));
  CU_ASSERT_EQUAL(RUN(&r, "ops", "--missing", "no_such_file.pb"), 1);
  CU_ASSERT_EQUAL(lines(r.err), 1);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every command has help with examples", every_command_has_help_with_examples},
      {"bench compares a time with its floor", bench_compares_a_time_with_its_floor},
      {"a wrong command is no success", a_wrong_command_is_no_success},
      {"a server refuses what it cannot serve", a_server_refuses_what_it_cannot_serve},
      {"a server says one line and gives its port back", a_server_says_one_line_and_gives_its_port_back},
      {"TF_CONFIG names cluster and task", tf_config_names_cluster_and_task},
      {"inspect says what is in a graph", inspect_says_what_is_in_a_graph},
      {"inspect shows what passes do", inspect_shows_what_passes_do},
      {"ops lists what is supported", ops_lists_what_is_supported},
      {"ops says what is not there and why", ops_says_what_is_not_there_and_why},
      {"ops says what a graph lacks", ops_says_what_a_graph_lacks},
      {"the page of ops is what ops prints", the_page_of_ops_is_what_ops_prints},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("weft", tests);
}
