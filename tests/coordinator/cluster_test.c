/* tests/coordinator/cluster_test.c - clusters from texts and from TF_CONFIG, and sessions at their tasks. */
#include "weft/cluster.h"

#include <stdlib.h>

#include "tests/client/client_testing.h"

typedef struct with_status {
  TF_Status *s;
} with_status_t;

static void a_text_names_jobs_and_tasks(void) {
  with_status_t w = {TF_NewStatus()};
  WEFT_Cluster *c = WEFT_NewCluster("ps=a:1;worker=b:2,c:3", w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(WEFT_ClusterNumTasks(c, "worker"), 2);
  CU_ASSERT_EQUAL(WEFT_ClusterNumTasks(c, "ps"), 1);
  CU_ASSERT_EQUAL(WEFT_ClusterNumTasks(c, "chief"), 0);
  CU_ASSERT_STRING_EQUAL(WEFT_ClusterAddress(c, "worker", 1), "c:3");
  CU_ASSERT_PTR_NULL(WEFT_ClusterAddress(c, "worker", 2));
  CU_ASSERT_PTR_NULL(WEFT_ClusterOwnJob(c));
  CU_ASSERT_EQUAL(WEFT_ClusterOwnIndex(c), -1);
  WEFT_DeleteCluster(c);
  CU_ASSERT_PTR_NULL(WEFT_NewCluster("ps=nowhere", w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "'nowhere'");
  CU_ASSERT_PTR_NULL(WEFT_NewCluster("", w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "no tasks");
  WEFT_DeleteCluster(NULL);
  TF_DeleteStatus(w.s);
}

static void tf_config_also_names_this_task(void) {
  static const char text[] =
      "{\"cluster\": {\"worker\": {\"0\": \"b:2\", \"5\": \"c:3\"}, \"chief\": [\"a:1\"]}, "
      "\"task\": {\"type\": \"worker\", \"index\": 5}}";
  with_status_t w = {TF_NewStatus()};
  WEFT_Cluster *c = WEFT_NewClusterFromTFConfig(text, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_STRING_EQUAL(WEFT_ClusterOwnJob(c), "worker");
  CU_ASSERT_EQUAL(WEFT_ClusterOwnIndex(c), 5);
  CU_ASSERT_EQUAL(WEFT_ClusterNumTasks(c, "worker"), 2);
  CU_ASSERT_STRING_EQUAL(WEFT_ClusterAddress(c, "worker", 5), "c:3");
  WEFT_DeleteCluster(c);
  unsetenv("TF_CONFIG");
  CU_ASSERT_PTR_NULL(WEFT_NewClusterFromTFConfig(NULL, w.s));
  ASSERT_FAILS(&w, TF_FAILED_PRECONDITION, "TF_CONFIG is not set");
  setenv("TF_CONFIG", text, 1);
  c = WEFT_NewClusterFromTFConfig(NULL, w.s);
  ASSERT_OK(&w);
  WEFT_DeleteCluster(c);
  CU_ASSERT_PTR_NULL(WEFT_NewClusterFromTFConfig("{", w.s));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  TF_DeleteStatus(w.s);
}

static void session_options_need_a_task(void) {
  static const char *const filters[] = {"/job:ps"};
  with_status_t w = {TF_NewStatus()};
  WEFT_Cluster *c = WEFT_NewCluster("ps=127.0.0.1:1", w.s);
  ASSERT_OK(&w);
  TF_SessionOptions *o = WEFT_NewClusterSessionOptions(c, "ps", 0, filters, 1, w.s);
  ASSERT_OK(&w);
  TF_DeleteSessionOptions(o);
  CU_ASSERT_PTR_NULL(WEFT_NewClusterSessionOptions(c, "ps", 1, filters, 1, w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "no task 1 of job 'ps'");
  WEFT_DeleteCluster(c);
  TF_DeleteStatus(w.s);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a text names jobs and tasks", a_text_names_jobs_and_tasks},
      {"TF_CONFIG also names this task", tf_config_also_names_this_task},
      {"session options need a task", session_options_need_a_task},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("cluster", tests);
}
