/* tests/server/cluster_maker_test.c - clusters that clients bring along: which task the server is in them,
 * what is refused. */
#include "server/cluster_maker.h"

#include <string.h>

#include "tests/runner.h"

/* Messages as bytes: ClusterDef {1: JobDef {1: name, 2: {1: index, 2: address}}}. */
#define JOB(name, index, address) "\x0a\x1b\x0a\x05" name "\x12\x12\x08" index "\x12\x0e" address
#define HERE "127.0.0.1:2221"
#define THERE "127.0.0.1:2222"
#define CLUSTER WEFT_STR(JOB("alpha", "\x03", HERE) JOB("gamma", "\x00", THERE))

typedef struct fixture {
  weft_worker_t *worker;
  weft_server_clusters_t clusters;
} fixture_t;

static void must(weft_status_t *s) {
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_status_free(s);
}

/* A worker that was started as /job:delta/task:3 and listens on port 2221. */
static void setup(fixture_t *f) {
  *f = (fixture_t){0};
  weft_worker_options_t o = {.task = WEFT_STR("/job:delta/replica:0/task:3"), .num_threads = 1};
  must(weft_worker_create(&o, &f->worker));
  weft_server_clusters_init(&f->clusters, WEFT_STR("delta"), 3, NULL);
  f->clusters.worker = f->worker;
  atomic_store(&f->clusters.port, 2221);
}

static void teardown(fixture_t *f) { weft_worker_destroy(f->worker); }

static void refused(weft_status_t *s, weft_session_cluster_t *c, const char *text) {
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), text));
  CU_ASSERT_PTR_NULL(c->cache);
  CU_ASSERT_PTR_NULL(c->task);
  weft_status_free(s);
}

static weft_status_t *as_master(fixture_t *f, weft_str_t cluster, const char *target,
                                weft_session_cluster_t *out) {
  *out = (weft_session_cluster_t){NULL, NULL};
  return f->clusters.base.for_master(&f->clusters.base, cluster, weft_str(target), out);
}

static void a_master_finds_itself_by_its_address(void) {
  fixture_t f;
  setup(&f);
  weft_session_cluster_t c;
  must(as_master(&f, CLUSTER, "grpc://" HERE, &c));
  CU_ASSERT_STRING_EQUAL(c.task, "/job:alpha/replica:0/task:3");
  int n = 0;
  const weft_str_t *tasks = c.cache->tasks(c.cache, &n);
  CU_ASSERT_EQUAL_FATAL(n, 2);
  CU_ASSERT_TRUE(weft_str_is(tasks[0], "/job:alpha/replica:0/task:3"));
  CU_ASSERT_TRUE(weft_str_is(tasks[1], "/job:gamma/replica:0/task:0"));
  weft_worker_client_t *self = c.cache->find(c.cache, tasks[0]);
  CU_ASSERT_PTR_NOT_NULL_FATAL(self);
  CU_ASSERT_TRUE(weft_str_is(self->task, c.task));
  weft_worker_client_release(self);
  weft_session_cluster_deinit(&c);
  teardown(&f);
}

static void masters_that_are_not_in_it_once_are_refused(void) {
  fixture_t f;
  setup(&f);
  weft_session_cluster_t c;
  refused(as_master(&f, CLUSTER, "grpc://127.0.0.1:9", &c), &c,
          "The master (current machine) is not included in the provided cluster_def. job {\n  name: "
          "\"alpha\"\n  tasks {\n"
          "    key: 3\n    value: \"" HERE "\"\n  }\n}\njob {\n  name: \"gamma\"\n");
  refused(as_master(&f, WEFT_STR(JOB("alpha", "\x03", HERE) JOB("gamma", "\x00", HERE)), "grpc://" HERE, &c),
          &c,
          "Found multiple matching tasks that correspond to to the master. Master target: 'grpc://" HERE
          "'. ClusterDef: job { name: \"alpha\" tasks { key: 3 value: \"" HERE
          "\" } } job { name: \"gamma\" tasks { key: 0 "
          "value: \"" HERE "\" } }");
  refused(as_master(&f, WEFT_STR(JOB("delta", "\x03", HERE)), "grpc://" HERE, &c), &c,
          "Job: delta, task index: 3");
  refused(as_master(&f, CLUSTER, "grpc://" THERE, &c), &c,
          "Requested port 2222 differs from expected port 2221");
  refused(as_master(&f, WEFT_STR("\x0a\xff"), "grpc://" HERE, &c), &c, "ClusterDef");
  teardown(&f);
}

static weft_status_t *as_worker(fixture_t *f, weft_str_t def, weft_session_cluster_t *out) {
  *out = (weft_session_cluster_t){NULL, NULL};
  return f->clusters.base.for_worker(&f->clusters.base, def, out);
}

/* ServerDef {1: ClusterDef, 2: job_name, 3: task_index, 5: protocol} */
#define SERVER(job, index) \
  WEFT_STR("\x0a\x1d" JOB("alpha", "\x03", HERE) "\x12\x05" job "\x18" index "\x2a\x04grpc")

static void a_worker_is_the_task_that_its_master_names(void) {
  fixture_t f;
  setup(&f);
  weft_session_cluster_t c;
  must(as_worker(&f, SERVER("alpha", "\x03"), &c));
  CU_ASSERT_STRING_EQUAL(c.task, "/job:alpha/replica:0/task:3");
  weft_session_cluster_deinit(&c);
  refused(as_worker(&f, SERVER("gamma", "\x03"), &c), &c, "no task 3 of job 'gamma'");
  refused(as_worker(&f, WEFT_STR("\x0a\xff"), &c), &c, "ServerDef");
  teardown(&f);
}

static void without_a_cluster_a_worker_keeps_its_own(void) {
  fixture_t f;
  setup(&f);
  weft_session_cluster_t c;
  must(as_worker(&f, WEFT_STR(""), &c));
  CU_ASSERT_PTR_NULL(c.cache);
  must(as_worker(&f,
                 WEFT_STR("\x0a\x00\x12\x05"
                          "alpha\x2a\x04grpc"),
                 &c));
  CU_ASSERT_PTR_NULL(c.cache);
  teardown(&f);
}

static weft_status_t *make_and_drop(fixture_t *f) {
  weft_session_cluster_t c;
  WEFT_RETURN_IF_ERROR(as_master(f, CLUSTER, "grpc://" HERE, &c));
  weft_session_cluster_deinit(&c);
  return NULL;
}

static void no_memory_is_an_error(void) {
  fixture_t f;
  setup(&f);
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_and_drop(&f));
  CU_ASSERT_TRUE(n > 3);
  teardown(&f);
}

static const CU_TestInfo tests[] = {
    {"a master finds itself by its address", a_master_finds_itself_by_its_address},
    {"masters that are not in it once are refused", masters_that_are_not_in_it_once_are_refused},
    {"a worker is the task that its master names", a_worker_is_the_task_that_its_master_names},
    {"without a cluster a worker keeps its own", without_a_cluster_a_worker_keeps_its_own},
    {"no memory is an error", no_memory_is_an_error},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("cluster_maker", tests); }
