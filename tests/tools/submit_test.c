/* tests/tools/submit_test.c - `weft submit`, as a person and as a program see it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/ports.h"
#include "tests/runner.h"
#include "tests/tools/command_run.h"
#include "tests/tools/graphs.h"

static run_t r, server; /* large, so not on the stack */

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

static void scalars_of_every_dtype_are_fed_and_shown(void) {
  static const struct {
    const char *name, *dtype, *fed, *shown;
  } cases[] = {
      {"f", "DT_FLOAT", "-1.5", "-1.5"},
      {"f", "DT_FLOAT", "nan", "nan"},
      {"f", "DT_FLOAT", "100", "100"},
      {"d", "DT_DOUBLE", "0.1", "0.1"},
      {"h", "DT_HALF", "0.1", "0.099976"},
      {"b", "DT_BFLOAT16", "-3", "-3"},
      {"i8", "DT_INT8", "-128", "-128"},
      {"u8", "DT_UINT8", "255", "255"},
      {"i16", "DT_INT16", "-5", "-5"},
      {"u16", "DT_UINT16", "65535", "65535"},
      {"i32", "DT_INT32", "-2147483648", "-2147483648"},
      {"u32", "DT_UINT32", "4294967295", "4294967295"},
      {"i64", "DT_INT64", "-9223372036854775808", "-9223372036854775808"},
      {"u64", "DT_UINT64", "18446744073709551615", "18446744073709551615"},
      {"bool", "DT_BOOL", "true", "true"},
      {"bool", "DT_BOOL", "False", "false"},
      {"c", "DT_COMPLEX64", "1-2j", "1-2j"},
      {"s", "DT_STRING", "a=b \"c\"", "\"a=b \\\"c\\\"\""},
      {"s", "DT_STRING", "", "\"\""},
      {"f", "DT_FLOAT", "[[1, 2], [3, 4.5]]", "[[1, 2], [3, 4.5]]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char graph[1000], feed[100], line[100];
    snprintf(graph, sizeof graph,
             "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: %s } } }\n"
             "node { name: \"%s\" op: \"Identity\" input: \"x\" attr { key: \"T\" value { type: %s } } }\n",
             cases[i].dtype, cases[i].name, cases[i].dtype);
    snprintf(feed, sizeof feed, "x=%s", cases[i].fed);
    snprintf(line, sizeof line, "\n%s = %s\n", cases[i].name, cases[i].shown);
    const char *path = write_text("scalar.pbtxt", graph);
    CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", feed, "--fetch", cases[i].name), 0);
    CU_ASSERT_TRUE(has(r.out, line));
    CU_ASSERT_STRING_EQUAL(r.err, "");
  }
}

/* Strings that are not kept in place and variants have memory of their own: it is freed once. */
static void values_that_own_memory_are_fetched(void) {
  const char *path = write_text(
      "owning.pbtxt",
      ECHO("s", "DT_STRING") NODE("minus", "Const",
                                  TYPE("dtype", "DT_INT32") "attr { key: \"value\" value { tensor { dtype: "
                                                            "DT_INT32 tensor_shape { } int_val: -1 } } }")
          NODE("list", "EmptyTensorList",
               "input: \"minus\" input: \"minus\" " TYPE("element_dtype", "DT_FLOAT")
                   TYPE("shape_type", "DT_INT32")));
  CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", "in_s=a text of more than twenty-two bytes", "--fetch",
                      "s", "--fetch", "list", "--steps", "3"),
                  0);
  CU_ASSERT_TRUE(has(r.out, "a text of more than twenty-two bytes"));
  CU_ASSERT_STRING_EQUAL(r.err, "");
}

/* Before version 22 a placeholder that says a scalar may be of any shape. */
static void a_scalar_of_an_old_graph_takes_any_shape(void) {
  static const char node[] =
      "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
      " attr { key: 'shape' value { shape { } } } }"
      "node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }"
      "versions { producer: %d }";
  char text[400];
  for (int producer = 21; producer <= 22; producer++) {
    snprintf(text, sizeof text, node, producer);
    const char *path = write_text("scalar.pbtxt", text);
    CU_ASSERT_EQUAL(RUN(&r, "submit", path, "--feed", "x=[1,2]", "--fetch", "y"), producer == 21 ? 0 : 1);
    if (producer == 22)
      CU_ASSERT_TRUE(
          has(r.err, "--feed x: cannot feed [1,2] of shape [2] for tensor x:0, which has shape []"));
  }
}

static void what_is_wrong_is_said_on_one_line(void) {
  const char *good =
      write_text("good.pbtxt", ECHO("y", "DT_FLOAT") ECHO("n", "DT_INT32") NODE("go", "NoOp", ""));
  const char *syntax = write_text("syntax.pbtxt", "node {\n  name: \"a\"\n  op: }\n");
  const char *garbage = write_text("garbage.pb", "\xff\xff\xff this is no graph");
  const char *cut = write_file("cut.npy", "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4'", 24);
  char feed_cut[600], feed_none[] = "in_y=/no/such/file.npy";
  snprintf(feed_cut, sizeof feed_cut, "in_y=%s", cut);
  const struct {
    const char *args[8];
    int code;
    const char *said[3];
  } cases[] = {
      {{"submit"}, 2, {"GRAPH"}},
      {{"submit", good}, 2, {"nothing to run"}},
      {{"submit", good, "--fetch"}, 2, {"--fetch needs a value"}},
      {{"submit", good, "--fecth", "y"}, 2, {"--fecth", "'--fetch'"}},
      {{"submit", good, good, "--fetch", "y"}, 2, {"one GRAPH only"}},
      {{"submit", good, "--fetch", "y", "--steps", "-1"}, 2, {"--steps '-1'"}},
      {{"submit", good, "--fetch", "y", "--steps", "1x"}, 2, {"--steps '1x'"}},
      {{"submit", good, "--json=yes"}, 2, {"takes no value"}},
      {{"submit", "/no/such.pb", "--fetch", "y"}, 1, {"/no/such.pb", "NOT_FOUND"}},
      {{"submit", garbage, "--fetch", "y"}, 1, {"garbage.pb", "INVALID_ARGUMENT"}},
      {{"submit", syntax, "--fetch", "y"}, 1, {"syntax.pbtxt:3:7"}},
      {{"submit", good, "--fetch", "in_z"}, 1, {"in_z", "did you mean 'in_y'", "NOT_FOUND"}},
      {{"submit", good, "--fetch", "y:1"}, 1, {"y:1", "NOT_FOUND"}},
      {{"submit", good, "--fetch", "go"}, 1, {"--target"}},
      {{"submit", good, "--fetch", "y"}, 1, {"placeholder tensor 'in_y'", "INVALID_ARGUMENT"}},
      {{"submit", good, "--fetch", "y", "--feed", "in_y"}, 2, {"--feed in_y: give NAME=VALUE"}},
      {{"submit", good, "--fetch", "y", "--feed", "in_y=abc"}, 1, {"in_y", "'abc' is not a float"}},
      {{"submit", good, "--fetch", "n", "--feed", "in_n=3.5"}, 1, {"in_n", "'3.5' is not a int32"}},
      {{"submit", good, "--fetch", "n", "--feed", "in_n=2147483648"}, 1, {"2147483648"}},
      {{"submit", good, "--fetch", "n", "--feed", "in_n=[[1],[2,3]]"}, 1, {"differ in length"}},
      {{"submit", good, "--fetch", "y", "--feed", feed_cut}, 1, {"cut.npy"}},
      {{"submit", good, "--fetch", "y", "--feed", feed_none}, 1, {"/no/such/file.npy"}},
      {{"submit", good, "--fetch", "y", "--feed", "in_y=1", "--batch=2"}, 1, {"--batch"}},
      {{"submit", good, "--fetch", "y", "--feed", "in_y=1", "--save-fetch=y"}, 2, {"NAME=FILE.npy"}},
      {{"submit", good, "--fetch", "y", "--feed", "in_y=1", "--save-fetch=y=/no/dir/y.npy"},
       1,
       {"--save-fetch y=/no/dir/y.npy", "No such file or directory", "NOT_FOUND"}},
      {{"submit", good, "--fetch", "y", "--trace", "/no/dir/trace.json"},
       1,
       {"--trace /no/dir/trace.json", "No such file or directory", "NOT_FOUND"}},
      {{"submit", good, "--fetch", "y", "--trace", "/tmp"}, 1, {"--trace /tmp", "directory"}},
      {{"submit", good, "--fetch", "y", "--container", "_a"}, 2, {"--container _a: give letters"}},
      {{"submit", good, "--fetch", "y", "--container="}, 2, {"--container needs a value"}},
      {{"submit", good, "--fetch", "y", "--master", "127.0.0.1:1"}, 2, {"grpc://HOST:PORT"}},
      {{"submit", good, "--fetch", "y", "--wait", "1d"}, 2, {"--wait 1d: give a time (30s, 2m), or 0"}},
      {{"submit", good, "--fetch", "y", "--wait", "-1"}, 2, {"--wait -1: give a time"}},
      {{"submit", good, "--fetch", "y", "--wait="}, 2, {"--wait needs a value"}},
      {{"submit", good, "--fetch=y", "--master", "grpc://127.0.0.1:1", "--wait", "0.2s"},
       1,
       {"no server listens", "UNAVAILABLE"}},
      {{"submit", good, "--fetch=y", "--master", "grpc://127.0.0.1:1", "--wait", "0"},
       1,
       {"no server listens", "UNAVAILABLE"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CU_ASSERT_EQUAL(run(&r, cases[i].args), cases[i].code);
    CU_ASSERT_EQUAL(lines(r.err), 1);
    for (int k = 0; k < 3 && cases[i].said[k] != NULL; k++) CU_ASSERT_TRUE(has(r.err, cases[i].said[k]));
  }
}

static void an_unknown_op_fails_only_the_step_that_needs_it(void) {
  const char *graph = write_text("unknown.pbtxt", NODE("a", "NoSuchOp", "") NODE("b", "NorThis", "") COUNTER);
  const char *const needs[] = {"submit", graph, "--target", "a", NULL};
  CU_ASSERT_EQUAL(run(&r, needs), 1);
  CU_ASSERT_TRUE(has(r.err, "NorThis")); /* the log line names all of them */
  CU_ASSERT_TRUE(has(r.err, "weft: Op type not registered 'NoSuchOp'") && has(r.err, "NOT_FOUND"));
  const char *const does_not[] = {"submit", graph,    "--init", "init", "--target",
                                  "grow",   "--feed", "by=1",   NULL};
  CU_ASSERT_EQUAL(run(&r, does_not), 0);
}

static void variables_live_on_between_jobs_on_a_server(void) {
  char target[64];
  const char *graph = write_text("counter.pbtxt", COUNTER);
  CU_ASSERT_TRUE_FATAL(run_server(&server, target));
  CU_ASSERT_EQUAL(RUN(&r, "submit", graph, "--master", target, "--feed", "by=2", "--fetch", "value"), 1);
  CU_ASSERT_TRUE(has(r.err, "does not exist") && has(r.err, "NOT_FOUND"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", graph, "--master", target, "--init", "init"), 0);
  CU_ASSERT_EQUAL(
      RUN(&r, "submit", graph, "--master", target, "--feed", "by=2", "--fetch", "value", "--steps", "3"), 0);
  CU_ASSERT_TRUE(has(r.out, "value = 16\n"));
  CU_ASSERT_EQUAL(
      RUN(&r, "submit", graph, "--master", target, "--feed", "by=-1", "--fetch", "value", "--fetch", "ten"),
      0);
  CU_ASSERT_TRUE(has(r.out, "value = 15\nten = 10\n"));
  run_signal(&server, SIGTERM);
  run_end(&server);
  CU_ASSERT_EQUAL(server.code, 0);
}

static void json_is_an_object_per_line(void) {
  const char *graph = write_text("counter.pbtxt", COUNTER);
  CU_ASSERT_EQUAL(RUN(&r, "submit", graph, "--init", "init", "--feed", "by=0.5", "--fetch", "value",
                      "--steps", "2", "--json"),
                  0);
  CU_ASSERT_EQUAL(lines(r.out), 3);
  CU_ASSERT_TRUE(has(r.out, "{\"step\":1,\"steps\":2,\"seconds\":"));
  CU_ASSERT_TRUE(has(r.out, "\"fetches\":{\"value\":11.0},\"done\":true}\n"));
  CU_ASSERT_EQUAL(RUN(&r, "submit", graph, "--feed", "by=0.5", "--fetch", "value", "--json"), 1);
  CU_ASSERT_TRUE(has(r.out, "\"code\":\"NOT_FOUND\"}\n"));
}

static void a_terminal_gets_a_bar_no_wider_than_it_is(void) {
  const char *graph = write_text("counter.pbtxt", COUNTER);
  for (int columns = 20; columns <= 120; columns += 50) {
    const char *const args[] = {"submit",  graph,   "--init",  "init", "--feed", "by=1",
                                "--fetch", "value", "--steps", "50",   NULL};
    run_start_on_terminal(&r, args, columns);
    run_end(&r);
    CU_ASSERT_EQUAL(r.code, 0);
    CU_ASSERT_TRUE(has(r.out, "\r\x1b[2K"));
    CU_ASSERT_TRUE(has(r.out, "50/50"));
    CU_ASSERT_TRUE(has(r.out, "value = 60\r\n"));
    for (const char *p = r.out; (p = strstr(p, "\x1b[2K")) != NULL;) {
      p += strlen("\x1b[2K");
      CU_ASSERT_TRUE((int)strcspn(p, "\r") < columns);
    }
  }
}

static void a_failing_step_leaves_a_clean_line_on_a_terminal(void) {
  const char *graph = write_text("echo.pbtxt", ECHO("y", "DT_FLOAT"));
  const char *const args[] = {"submit", graph, "--fetch", "y", NULL};
  run_start_on_terminal(&r, args, 100);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 1);
  CU_ASSERT_TRUE(has(r.out, "\r\nweft: You must feed a value"));
}

/* A port that nothing listens on, and `weft submit` that waits for a server there. */
static void start_without_server(const char *wait, char cluster[64]) {
  const char *graph = write_text("counter.pbtxt", COUNTER);
  const int port = weft_test_free_port();
  char master[64];
  snprintf(master, sizeof master, "grpc://127.0.0.1:%d", port);
  snprintf(cluster, 64, "worker=127.0.0.1:%d", port);
  const char *const args[] = {"submit", graph,     "--master", master,   "--init", "init",   "--feed",
                              "by=2",   "--fetch", "value",    "--wait", wait,     "--json", NULL};
  run_start(&r, args, NULL);
  CU_ASSERT_TRUE(run_until(&r, "\"waiting\":\"grpc://"));
}

static void a_master_that_starts_later_is_waited_for(void) {
  char cluster[64];
  start_without_server("3h", cluster);
  const char *const args[] = {"server", "--cluster", cluster, "--job", "worker", NULL};
  run_start(&server, args, NULL);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 0);
  CU_ASSERT_EQUAL(lines(r.err), 0);
  CU_ASSERT_TRUE(has(r.out, "{\"value\":12.0},\"done\":true"));
  run_signal(&server, SIGTERM);
  run_end(&server);
  CU_ASSERT_EQUAL(server.code, 0);
}

static void the_wait_for_a_master_can_be_interrupted(void) {
  char cluster[64];
  start_without_server("3h", cluster);
  run_signal(&r, SIGINT);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 130);
  CU_ASSERT_EQUAL(lines(r.err), 1);
}

static void ctrl_c_cancels_the_step_and_exits_130(void) {
  char target[64];
  const char *graph = write_text("blocked.pbtxt", BLOCKED);
  CU_ASSERT_TRUE_FATAL(run_server(&server, target));
  const char *const near[] = {"submit", graph, "--fetch", "never", NULL};
  const char *const far[] = {"submit", graph, "--fetch", "never", "--master", target, NULL};
  for (int i = 0; i < 2; i++) {
    run_start_on_terminal(&r, i == 0 ? near : far, 80);
    CU_ASSERT_TRUE(run_until(&r, "0/1"));
    run_signal(&r, SIGINT);
    run_end(&r);
    CU_ASSERT_EQUAL(r.code, 130);
    CU_ASSERT_TRUE(has(r.out, "interrupted"));
  }
  run_signal(&server, SIGTERM);
  run_end(&server);
  CU_ASSERT_EQUAL(server.code, 0);
}

static void a_master_that_dies_ends_the_job(void) {
  char target[64];
  const char *graph = write_text("counter.pbtxt", COUNTER);
  CU_ASSERT_TRUE_FATAL(run_server(&server, target));
  const char *const args[] = {"submit", graph,     "--master", target,    "--init",     "init", "--feed",
                              "by=1",   "--fetch", "value",    "--steps", "1000000000", NULL};
  run_start_on_terminal(&r, args, 80);
  CU_ASSERT_TRUE(run_until(&r, "value 1"));
  run_signal(&server, SIGKILL);
  run_end(&r);
  CU_ASSERT_EQUAL(r.code, 1);
  CU_ASSERT_TRUE(has(r.out, "UNAVAILABLE"));
  run_end(&server);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"scalars of every dtype are fed and shown", scalars_of_every_dtype_are_fed_and_shown},
      {"values that own memory are fetched", values_that_own_memory_are_fetched},
      {"a scalar of an old graph takes any shape", a_scalar_of_an_old_graph_takes_any_shape},
      {"what is wrong is said on one line", what_is_wrong_is_said_on_one_line},
      {"an unknown op fails only the step that needs it", an_unknown_op_fails_only_the_step_that_needs_it},
      {"variables live on between jobs on a server", variables_live_on_between_jobs_on_a_server},
      {"JSON is an object per line", json_is_an_object_per_line},
      {"a terminal gets a bar no wider than it is", a_terminal_gets_a_bar_no_wider_than_it_is},
      {"a failing step leaves a clean line on a terminal", a_failing_step_leaves_a_clean_line_on_a_terminal},
      {"a master that starts later is waited for", a_master_that_starts_later_is_waited_for},
      {"the wait for a master can be interrupted", the_wait_for_a_master_can_be_interrupted},
      {"Ctrl-C cancels the step and exits 130", ctrl_c_cancels_the_step_and_exits_130},
      {"a master that dies ends the job", a_master_that_dies_ends_the_job},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("weft submit", tests);
}
