/* Clusters: from a command line, TF_CONFIG and messages; whatever is wrong is named. */
#include "server/cluster.h"

#include <stdio.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "tests/runner.h"

static void is_three_tasks(const weft_cluster_t *c) {
  static const char *const jobs[] = {"ps", "worker", "worker"}, *const addresses[] = {"h:1", "h:2",
                                                                                      "[::1]:3"};
  static const int indices[] = {0, 0, 1};
  CU_ASSERT_EQUAL(c->num_tasks, 3);
  for (int i = 0; i < c->num_tasks && i < 3; i++) {
    CU_ASSERT_TRUE(weft_str_is(c->tasks[i].job, jobs[i]) && c->tasks[i].index == indices[i] &&
                   weft_str_is(c->tasks[i].address, addresses[i]));
  }
}

static void refused(weft_status_t *s, const char *culprit) {
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), culprit));
  if (strstr(weft_status_message(s), culprit) == NULL)
    printf("\n    %s: %s\n", culprit, weft_status_message(s));
  weft_status_free(s);
}

static void ok(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static void a_command_line_names_all_tasks(void) {
  static const char *const texts[] = {"ps=h:1;worker=h:2,[::1]:3", "worker=h:2,[::1]:3;ps=h:1;"};
  for (int i = 0; i < 2; i++) {
    weft_cluster_t c, copy;
    ok(weft_cluster_parse(weft_str(texts[i]), &c));
    is_three_tasks(&c);
    ok(weft_cluster_copy(&c, &copy));
    weft_cluster_deinit(&c);
    is_three_tasks(&copy);
    CU_ASSERT_PTR_EQUAL(weft_cluster_find(&copy, WEFT_STR("worker"), 1), &copy.tasks[2]);
    CU_ASSERT_PTR_NULL(weft_cluster_find(&copy, WEFT_STR("worker"), 2));
    CU_ASSERT_PTR_NULL(weft_cluster_find(&copy, WEFT_STR("work"), 0));
    weft_cluster_deinit(&copy);
  }
}

static void wrong_command_lines_are_refused(void) {
  static const struct {
    const char *text, *culprit;
  } cases[] = {
      {"", "no tasks"},
      {";", "no tasks"},
      {"worker", "'worker'"},
      {"=h:1", "''"},
      {"1w=h:1", "1w"},
      {"a b=h:1", "a b"},
      {"w=", "w"},
      {"w=h", "'h'"},
      {"w=h:", "h:"},
      {"w=h:x", "h:x"},
      {"w=h:65536", "65536"},
      {"w=:1", ":1"},
      {"w=a/b:1", "a/b"},
      {"w=h:1;w=h:2", "given twice"},
      {"w=h:1,h:1", "address h:1 is given to task 0 of job 'w' and to task 1 of job 'w'"},
      {"ps=h:2;w=h:1,g:1,h:2", "address h:2 is given to task 0 of job 'ps' and to task 2 of job 'w'"},
      {"w=h:1,,h:2", "''"},
      {"w=h:1,", "''"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_cluster_t c;
    refused(weft_cluster_parse(weft_str(cases[i].text), &c), cases[i].culprit);
  }
}

static weft_status_t *from_config(const char *json, weft_cluster_t *c, weft_str_t *job, int *task) {
  return weft_cluster_from_tf_config(weft_str(json), c, job, task);
}

static void tf_config_names_the_tasks(void) {
  static const char *const texts[] = {
      "{\"cluster\":{\"worker\":[\"h:2\",\"[::1]:3\"],\"ps\":[\"h:1\"]},\"task\":{\"type\":\"worker\","
      "\"index\":1}}",
      "{\"cluster\":{\"worker\":{\"1\":\"[::1]:3\",\"0\":\"h:2\"},\"ps\":[\"h:1\"]},\"task\":{\"type\":"
      "\"worker\",\"index\":\"1\"},\"rpc_layer\":\"grpc\"}",
  };
  for (int i = 0; i < 2; i++) {
    weft_cluster_t c;
    weft_str_t job;
    int task = -1;
    ok(from_config(texts[i], &c, &job, &task));
    is_three_tasks(&c);
    CU_ASSERT_TRUE(weft_str_is(job, "worker") && task == 1);
    weft_cluster_deinit(&c);
  }
}

static void wrong_tf_configs_are_refused(void) {
#define TASK "\"task\":{\"type\":\"w\",\"index\":0}}"
  static const struct {
    const char *text, *culprit;
  } cases[] = {{"", "TF_CONFIG: line 1"},
               {"[]", "TF_CONFIG"},
               {"{\"cluster\":", "line 1, column"},
               {"{}", "cluster"},
               {"null", "TF_CONFIG"},
               {"{\"cluster\":[]," TASK, "cluster"},
               {"{\"cluster\":{}," TASK, "no tasks"},
               {"{\"cluster\":{\"w\":3}," TASK, "cluster.w"},
               {"{\"cluster\":{\"w\":[3]}," TASK, "cluster.w[0]"},
               {"{\"cluster\":{\"w\":{\"x\":\"h:1\"}}," TASK, "cluster.w.x"},
               {"{\"cluster\":{\"w\":{\"-1\":\"h:1\"}}," TASK, "-1"},
               {"{\"cluster\":{\"w\":[\"nowhere\"]}," TASK, "nowhere"},
               {"{\"cluster\":{\"w\":[\"h:1\"]}}", "task"},
               {"{\"cluster\":{\"w\":[\"h:1\"]},\"task\":{\"type\":\"w\"}}", "task.index"},
               {"{\"cluster\":{\"w\":[\"h:1\"]},\"task\":{\"index\":0}}", "task.type"},
               {"{\"cluster\":{\"w\":[\"h:1\"]},\"task\":{\"type\":\"w\",\"index\":-1}}", "-1"},
               {"{\"cluster\":{\"w\":[\"h:1\"]},\"task\":{\"type\":\"w\",\"index\":99999999999999999999}}",
                "TF_CONFIG"},
               {"{\"cluster\":{\"w\":[\"h:1\"],\"w\":[\"h:2\"]}," TASK, "TF_CONFIG"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_cluster_t c;
    weft_str_t job;
    int task;
    refused(from_config(cases[i].text, &c, &job, &task), cases[i].culprit);
  }
}

/* Deeper than any parser should follow. */
static void a_deep_tf_config_does_not_exhaust_the_stack(void) {
  enum { DEPTH = 200000 };
  char *text = weft_calloc(DEPTH + 1, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(text);
  memset(text, '[', DEPTH);
  weft_cluster_t c;
  weft_str_t job;
  int task;
  refused(from_config(text, &c, &job, &task), "TF_CONFIG");
  weft_free(text);
}

static void put_task(weft_strbuf_t *b, int64_t index, const char *address) {
  size_t entry = weft_wire_begin(b, 2);
  weft_wire_put_i64(b, 1, index);
  weft_wire_put_text(b, 2, address);
  weft_wire_end(b, entry);
}

static void put_cluster(weft_strbuf_t *b) {
  size_t job = weft_wire_begin(b, 1);
  weft_wire_put_text(b, 1, "worker");
  put_task(b, 1, "[::1]:3");
  put_task(b, 0, "h:2");
  weft_wire_end(b, job);
  job = weft_wire_begin(b, 1);
  weft_wire_put_text(b, 1, "ps");
  put_task(b, 0, "h:1");
  weft_wire_end(b, job);
}

static void messages_say_the_same(void) {
  weft_strbuf_t cluster = WEFT_STRBUF_INIT, server = WEFT_STRBUF_INIT;
  weft_cluster_t c;
  weft_str_t job;
  int task = -1;
  put_cluster(&cluster);
  ok(weft_cluster_from_cluster_def(weft_str_of(cluster.data, cluster.length), &c));
  is_three_tasks(&c);
  weft_cluster_deinit(&c);
  weft_wire_put_bytes(&server, 1, weft_str_of(cluster.data, cluster.length));
  weft_wire_put_text(&server, 2, "worker");
  weft_wire_put_i64(&server, 3, 1);
  ok(weft_cluster_from_server_def(weft_str_of(server.data, server.length), &c, &job, &task));
  is_three_tasks(&c);
  CU_ASSERT_TRUE(weft_str_is(job, "worker") && task == 1);
  weft_cluster_deinit(&c);
  for (size_t n = 0; n < cluster.length; n++) { /* no prefix crashes; most are no message */
    weft_status_t *s = weft_cluster_from_cluster_def(weft_str_of(cluster.data, n), &c);
    if (s == NULL) weft_cluster_deinit(&c);
    weft_status_free(s);
  }
  refused(weft_cluster_from_cluster_def(weft_str_of(cluster.data, cluster.length - 1), &c), "malformed");
  weft_strbuf_deinit(&cluster);
  weft_strbuf_deinit(&server);
}

static weft_status_t *parse_and_drop(void) {
  weft_cluster_t c;
  weft_status_t *s = weft_cluster_parse(WEFT_STR("ps=h:1;worker=h:2,h:3"), &c);
  if (s == NULL) weft_cluster_deinit(&c);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, parse_and_drop());
  CU_ASSERT_TRUE(n >= 2);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_command_line_names_all_tasks", a_command_line_names_all_tasks},
      {"wrong_command_lines_are_refused", wrong_command_lines_are_refused},
      {"tf_config_names_the_tasks", tf_config_names_the_tasks},
      {"wrong_tf_configs_are_refused", wrong_tf_configs_are_refused},
      {"a_deep_tf_config_does_not_exhaust_the_stack", a_deep_tf_config_does_not_exhaust_the_stack},
      {"messages_say_the_same", messages_say_the_same},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("cluster", tests);
}
