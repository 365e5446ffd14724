/* What a master makes of workers that fail, hang or are gone: the right status, the others cancelled, nothing
 * left behind. */
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/pace.h"
#include "tests/runner.h"

#define PS "/job:ps"
#define W1 "/job:worker/task:1"
#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
#define QUEUE_TYPES "attr{key:\"component_types\" value{list{type:DT_FLOAT}}} "

/* x is on every task; "stuck" waits on the ps for an element that never comes */
static const char graph[] = NODE("x", "Placeholder", "", "", "attr{key:\"dtype\" value{type:DT_FLOAT}} ")
    NODE("y", "Neg", IN("x"), PS, T) NODE("z", "Neg", IN("y"), W1, T)
        NODE("q", "FIFOQueueV2", "", PS, QUEUE_TYPES) NODE("deq", "QueueDequeueV2", IN("q"), PS, QUEUE_TYPES)
            NODE("stuck", "Neg", IN("deq"), W1, T);

static weft_test_cluster_t *c;
static weft_master_client_t *m;

static void begin(void) {
  c = weft_test_cluster_usual();
  m = weft_test_cluster_master(c, 1);
}

static void finish(weft_test_session_t *s) {
  if (s != NULL) weft_test_expect(weft_test_close(s), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_cluster_steps(c), 0);
  weft_test_cluster_destroy(c);
}

static const weft_test_run_t run_z = {.feeds = {"x:0"}, .values = {3}, .fetches = {"z:0"}};

static void works(weft_test_session_t *s) {
  double out = 0;
  weft_test_expect(weft_test_run(s, &run_z, &out), WEFT_OK, "");
  CU_ASSERT_EQUAL(out, 3);
}

static void a_failing_part_fails_the_step_and_only_that(void) {
  static const weft_code_t codes[] = {WEFT_UNAVAILABLE, WEFT_INTERNAL, WEFT_RESOURCE_EXHAUSTED,
                                      WEFT_INVALID_ARGUMENT};
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  for (int task = 0; task < 3; task++) {
    for (int i = 0; i < 4; i++) {
      weft_test_cluster_fail(c, task, WEFT_TEST_RUN_GRAPH, codes[i]);
      weft_test_expect(weft_test_run(&s, &run_z, NULL), codes[i], "is not well");
      weft_test_cluster_fail(c, task, WEFT_TEST_RUN_GRAPH, WEFT_OK);
      works(&s);
    }
  }
  finish(&s);
}

/* Steps that end well end by themselves; of one that has failed something may be left. */
static void workers_are_told_to_clean_up_where_they_may_have_to(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  works(&s);
  for (int task = 0; task < 3; task++)
    CU_ASSERT_EQUAL(weft_test_cluster_count(c, task, WEFT_TEST_CLEANUP_GRAPH), 0);
  weft_test_cluster_fail(c, 2, WEFT_TEST_RUN_GRAPH, WEFT_UNAVAILABLE);
  weft_test_expect(weft_test_run(&s, &run_z, NULL), WEFT_UNAVAILABLE, "");
  weft_test_cluster_fail(c, 2, WEFT_TEST_RUN_GRAPH, WEFT_OK);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  for (int task = 0; task < 3; task++)
    CU_ASSERT_EQUAL(weft_test_cluster_count(c, task, WEFT_TEST_CLEANUP_GRAPH), 1);
  finish(NULL);
}

static void the_others_are_cancelled(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  weft_test_cluster_fail(c, 2, WEFT_TEST_RUN_GRAPH, WEFT_UNAVAILABLE);
  weft_status_t *status = weft_test_run(&s, &(weft_test_run_t){.fetches = {"stuck:0"}},
                                        NULL); /* else the ps would wait for ever */
  CU_ASSERT_PTR_NOT_NULL(
      strstr(weft_status_message(status),
             "From /job:worker/replica:0/task:1:\n/job:worker/replica:0/task:1 is not well"));
  weft_test_expect(status, WEFT_UNAVAILABLE, "");
  finish(&s);
}

static void several_causes_are_told_together(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  weft_test_cluster_fail(c, 0, WEFT_TEST_RUN_GRAPH, WEFT_INTERNAL);
  weft_test_cluster_fail(c, 2, WEFT_TEST_RUN_GRAPH, WEFT_UNAVAILABLE);
  weft_status_t *status = weft_test_run(&s, &run_z, NULL);
  const char *text = weft_status_message(status);
  const char *const parts[] = {
      "\n=====================\n",
      "INTERNAL: From /job:ps/replica:0/task:0:\n/job:ps/replica:0/task:0 is not well\n",
      "UNAVAILABLE: From /job:worker/replica:0/task:1:\n/job:worker/replica:0/task:1 is not well\n"};
  for (int i = 0; i < 3; i++) CU_ASSERT_PTR_NOT_NULL(strstr(text, parts[i]));
  static const char cause[] = "/job:ps/replica:0/task:0 is not well; 2 more tasks failed with it\n=====";
  CU_ASSERT_TRUE(strncmp(text, cause, strlen(cause)) == 0);
  CU_ASSERT_TRUE(strlen(text) > 23 && strcmp(text + strlen(text) - 22, parts[0] + 1) == 0);
  weft_status_free(status);
  finish(&s);
}

static void a_part_that_hangs_ends_with_the_deadline_or_the_session(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  weft_test_run_t run = run_z;
  run.options.timeout_ms = 20;
  weft_test_cluster_hang(c, 0, WEFT_TEST_RUN_GRAPH, true);
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_DEADLINE_EXCEEDED, "");
  weft_test_step_t k;
  weft_test_start(&s, &run_z, &k);
  weft_test_expect(weft_test_close(&s), WEFT_OK, "");
  weft_test_expect(weft_test_step_wait(&k), WEFT_CANCELLED, "Session::Close()");
  weft_test_step_deinit(&k);
  finish(NULL);
}

static void a_receive_that_fails_or_hangs_fails_the_step(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  weft_test_cluster_fail(c, 0, WEFT_TEST_RECV_TENSOR, WEFT_UNAVAILABLE);
  weft_test_expect(weft_test_run(&s, &run_z, NULL), WEFT_UNAVAILABLE, "/job:ps/replica:0/task:0 is not well");
  weft_test_cluster_fail(c, 0, WEFT_TEST_RECV_TENSOR, WEFT_OK);
  weft_test_run_t run = run_z;
  run.options.timeout_ms = 20;
  weft_test_cluster_hang(c, 1, WEFT_TEST_RECV_TENSOR, true);
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_DEADLINE_EXCEEDED, "");
  weft_test_cluster_hang(c, 1, WEFT_TEST_RECV_TENSOR, false);
  works(&s);
  finish(&s);
}

static void a_failed_registration_is_tried_again_by_the_next_step(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  for (int task = 0; task < 3; task++) {
    weft_test_cluster_fail(c, task, WEFT_TEST_REGISTER_GRAPH, WEFT_UNAVAILABLE);
    weft_test_expect(weft_test_run(&s, &run_z, NULL), WEFT_UNAVAILABLE, "is not well");
    weft_test_cluster_fail(c, task, WEFT_TEST_REGISTER_GRAPH, WEFT_OK);
  }
  works(&s);
  finish(&s);
}

static void a_session_is_made_everywhere_or_nowhere(void) {
  static const weft_test_call_t calls[] = {WEFT_TEST_GET_STATUS, WEFT_TEST_CREATE_SESSION};
  begin();
  for (int i = 0; i < 2; i++) {
    weft_test_session_t s;
    weft_test_cluster_fail(c, 2, calls[i], WEFT_UNAVAILABLE);
    weft_test_expect(weft_test_open(m, graph, "", &s), WEFT_UNAVAILABLE, "task:1 is not well");
    CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
    weft_test_cluster_fail(c, 2, calls[i], WEFT_OK);
  }
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  finish(&s);
}

static void created(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  (void)version;
  weft_test_on_text(arg, status, session);
}

static void waiting_for_a_task_that_is_not_up_can_be_given_up(void) {
  begin();
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  weft_create_session_t r = {.graph_def = WEFT_STR(""), .config = WEFT_STR("")};
  weft_test_step_t k, second;
  weft_test_cluster_hang(c, 2, WEFT_TEST_GET_STATUS, true);
  weft_test_step_begin(&k);
  m->ops->create_session(m, &r, canceller, created, &k);
  CU_ASSERT_FALSE(weft_test_step_is_done(&k));
  weft_canceller_cancel(canceller);
  weft_test_expect(weft_test_step_wait(&k), WEFT_CANCELLED, "");
  weft_test_step_deinit(&k);
  weft_test_step_begin(&second);
  m->ops->create_session(m, &r, NULL, created, &second);
  finish(NULL); /* the master that is shut down gives up, and says why */
  weft_test_expect(weft_test_step_wait(&second), WEFT_UNAVAILABLE,
                   "The task /job:worker/replica:0/task:0, the master, was shut down");
  weft_test_step_deinit(&second);
  weft_canceller_release(canceller);
}

/* Three tasks; the last one never answers. */
static void open_without_the_last(int64_t discovery_timeout_ms, bool is_lost, const char *message) {
  static const char *const tasks[] = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                      "/job:worker/replica:0/task:1"};
  weft_test_session_t s;
  weft_test_cluster_t *cluster = weft_test_cluster_with_timeout(tasks, 3, discovery_timeout_ms);
  weft_test_cluster_hang(cluster, 2, WEFT_TEST_GET_STATUS, true);
  if (is_lost) weft_test_cluster_lose(cluster, 2);
  int64_t began_ns = weft_clock_ns();
  weft_test_expect(weft_test_open(weft_test_cluster_master(cluster, 1), graph, "", &s), WEFT_UNAVAILABLE,
                   message);
  CU_ASSERT_TRUE(weft_test_is_within(began_ns, 5000));
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(cluster), 0);
  weft_test_cluster_destroy(cluster);
}
static void a_session_is_not_made_on_a_lost_task(void) {
  open_without_the_last(60000, true, "The task /job:worker/replica:0/task:1 is lost");
}
static void a_session_does_not_wait_for_ever(void) {
  /* Time for the others, also on a busy machine: one that has not answered is named, too. */
  open_without_the_last(2500, false, "No answer from /job:worker/replica:0/task:1 for");
}

static void a_filter_spares_waiting_for_the_others(void) {
  begin();
  weft_test_session_t s;
  weft_test_cluster_hang(c, 2, WEFT_TEST_GET_STATUS, true);
  weft_test_expect(weft_test_open(m, NODE("n", "NoOp", "", PS, ""), "device_filters: \"/job:ps\"", &s),
                   WEFT_OK, "");
  weft_test_target(&s, "n");
  finish(&s);
}

static void a_session_closes_though_a_worker_is_gone(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  weft_test_cluster_fail(c, 2, WEFT_TEST_DELETE_SESSION, WEFT_UNAVAILABLE);
  finish(&s);
}

static void a_worker_that_was_restarted_aborts(void) {
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  weft_worker_client_t *w = NULL; /* the session is gone there, as after a restart */
  weft_test_expect(weft_local_worker_client_create(weft_test_cluster_worker(c, 2), &w), WEFT_OK, "");
  weft_test_step_t k;
  weft_test_step_begin(&k);
  w->ops->delete_session(w, weft_str(s.handle), weft_test_on_done, &k);
  weft_test_expect(weft_test_step_wait(&k), WEFT_OK, "");
  weft_test_step_deinit(&k);
  weft_worker_client_release(w);
  weft_test_expect(weft_test_run(&s, &run_z, NULL), WEFT_ABORTED, "just restarted");
  weft_test_session_t fresh = weft_test_opened(m, graph);
  works(&fresh);
  weft_test_expect(weft_test_close(&fresh), WEFT_OK, "");
  finish(&s);
}

/* Failures and cancellations at random moments. */
/* A step that lacks memory says so, on whichever task: it is not cancelled. What memory only would have made
 * faster may be missing. */
static void a_step_without_memory_is_no_cancelled_one(void) {
  /* On the CPU: a queue that lacks memory for what it was given fails for good. */
  static const char on_cpus[] =
      NODE("x", "Placeholder", "", PS "/device:CPU:0", "attr{key:\"dtype\" value{type:DT_FLOAT}} ")
          NODE("y", "Neg", IN("x"), PS "/device:CPU:0", T) NODE("z", "Neg", IN("y"), W1 "/device:CPU:0", T);
  begin();
  weft_test_session_t s = weft_test_opened(m, on_cpus);
  works(&s);
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  weft_test_run_t run = run_z;
  const float three = 3;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &three, &run.tensors[0]));
  run.canceller = canceller;
  bool fired = true;
  int num_failed = 0;
  for (long n = 0; fired && n < 2000; n++) {
    weft_fault_arm(n);
    weft_status_t *status = weft_test_run(&s, &run, NULL);
    fired = weft_fault_fired();
    weft_fault_arm(-1);
    num_failed += status != NULL;
    const weft_code_t code = weft_status_code(status);
    CU_ASSERT_TRUE(code == WEFT_OK || (fired && code == WEFT_RESOURCE_EXHAUSTED));
    if (code != WEFT_OK && code != WEFT_RESOURCE_EXHAUSTED)
      fprintf(stderr, "allocation %ld: %s\n", n, weft_status_message(status));
    weft_status_free(status);
    works(&s);
  }
  CU_ASSERT_FALSE(fired);
  CU_ASSERT_TRUE(num_failed > 10);
  weft_tensor_release(run.tensors[0]);
  weft_canceller_release(canceller);
  finish(&s);
}

static void storms_of_failures_leave_nothing_behind(void) {
  enum { STEPS = 120 };
  static weft_test_step_t k[STEPS];
  begin();
  weft_test_session_t s = weft_test_opened(m, graph);
  works(&s);
  for (int i = 0; i < STEPS; i++) {
    weft_test_cluster_fail(c, i % 3, WEFT_TEST_RUN_GRAPH, i % 4 == 0 ? WEFT_UNAVAILABLE : WEFT_OK);
    weft_test_cluster_fail(c, i % 3, WEFT_TEST_RECV_TENSOR, i % 5 == 0 ? WEFT_UNAVAILABLE : WEFT_OK);
    weft_test_run_t run = i % 7 == 0 ? (weft_test_run_t){.fetches = {"stuck:0"}} : run_z;
    run.options.timeout_ms = i % 7 == 0 ? 1 + i % 3 : 0;
    weft_test_start(&s, &run, &k[i]);
  }
  for (int i = 0; i < STEPS; i++) {
    weft_status_t *status = weft_test_step_wait(&k[i]);
    weft_code_t code = weft_status_code(status);
    CU_ASSERT_TRUE(code == WEFT_OK || code == WEFT_UNAVAILABLE || code == WEFT_DEADLINE_EXCEEDED);
    if (code != WEFT_OK && code != WEFT_UNAVAILABLE && code != WEFT_DEADLINE_EXCEEDED)
      printf("\n  %d: %s\n", i, weft_status_message(status));
    weft_status_free(status);
    weft_test_step_deinit(&k[i]);
  }
  for (int task = 0; task < 3; task++) {
    weft_test_cluster_fail(c, task, WEFT_TEST_RUN_GRAPH, WEFT_OK);
    weft_test_cluster_fail(c, task, WEFT_TEST_RECV_TENSOR, WEFT_OK);
  }
  works(&s);
  finish(&s);
}

/* Closes a session again and again while steps are starting in it. */
static void closing_races_with_steps(void) {
  begin();
  for (int i = 0; i < 60; i++) {
    enum { STEPS = 8 };
    weft_test_step_t k[STEPS], closing;
    weft_test_session_t s = weft_test_opened(m, graph);
    for (int j = 0; j < STEPS; j++) {
      weft_test_run_t run = j % 2 == 0 ? run_z : (weft_test_run_t){.fetches = {"stuck:0"}};
      weft_test_start(&s, &run, &k[j]);
    }
    weft_test_step_begin(&closing);
    m->ops->close_session(m, weft_str(s.handle), weft_test_on_done, &closing);
    for (int j = 0; j < STEPS; j++) {
      weft_status_t *status = weft_test_step_wait(&k[j]);
      CU_ASSERT_TRUE(weft_status_code(status) == WEFT_CANCELLED || (j % 2 == 0 && status == NULL));
      if (status != NULL && weft_status_code(status) != WEFT_CANCELLED)
        printf("\n  %s\n", weft_status_message(status));
      weft_status_free(status);
      weft_test_step_deinit(&k[j]);
    }
    weft_test_expect(weft_test_step_wait(&closing), WEFT_OK, "");
    weft_test_step_deinit(&closing);
  }
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  finish(NULL);
}

/* Steps, each of a signature that has no plan yet, until the session is closed. */
static void *run_new_signatures(void *arg) {
  static const char *const targets[] = {"y", "z", "q"};
  weft_test_session_t *s = arg;
  weft_code_t code = WEFT_OK;
  for (int i = 0; code == WEFT_OK; i++) {
    weft_test_run_t run = {.feeds = {"x:0"}, .values = {3}, .fetches = {"z:0"}};
    for (int j = 0, n = 0; j < 3; j++) {
      if ((i >> j) % 2 == 1) run.targets[n++] = targets[j];
    }
    weft_status_t *status = weft_test_run(s, &run, NULL);
    code = weft_status_code(status);
    CU_ASSERT_TRUE(code == WEFT_OK || code == WEFT_CANCELLED || code == WEFT_ABORTED ||
                   code == WEFT_FAILED_PRECONDITION);
    weft_status_free(status);
  }
  return NULL;
}

/* The plans that are being built when a session is closed are dropped with it. */
static void closing_races_with_planning(void) {
  begin();
  for (int i = 0; i < 60; i++) {
    weft_test_session_t s = weft_test_opened(m, graph);
    pthread_t runner;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&runner, NULL, run_new_signatures, &s), 0);
    if (i % 2 == 0) works(&s); /* the runner may plan by now */
    weft_test_step_t closing;
    weft_test_step_begin(&closing);
    m->ops->close_session(m, weft_str(s.handle), weft_test_on_done, &closing);
    weft_test_expect(weft_test_step_wait(&closing), WEFT_OK, "");
    weft_test_step_deinit(&closing);
    pthread_join(runner, NULL);
  }
  CU_ASSERT_EQUAL(weft_test_cluster_sessions(c), 0);
  finish(NULL);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a_failing_part_fails_the_step_and_only_that", a_failing_part_fails_the_step_and_only_that},
      {"workers are told to clean up where they may have to",
       workers_are_told_to_clean_up_where_they_may_have_to},
      {"the_others_are_cancelled", the_others_are_cancelled},
      {"several_causes_are_told_together", several_causes_are_told_together},
      {"a_part_that_hangs_ends_with_the_deadline_or_the_session",
       a_part_that_hangs_ends_with_the_deadline_or_the_session},
      {"a_receive_that_fails_or_hangs_fails_the_step", a_receive_that_fails_or_hangs_fails_the_step},
      {"a_failed_registration_is_tried_again_by_the_next_step",
       a_failed_registration_is_tried_again_by_the_next_step},
      {"a_session_is_made_everywhere_or_nowhere", a_session_is_made_everywhere_or_nowhere},
      {"waiting_for_a_task_that_is_not_up_can_be_given_up",
       waiting_for_a_task_that_is_not_up_can_be_given_up},
      {"a_session_is_not_made_on_a_lost_task", a_session_is_not_made_on_a_lost_task},
      {"a_session_does_not_wait_for_ever", a_session_does_not_wait_for_ever},
      {"a_filter_spares_waiting_for_the_others", a_filter_spares_waiting_for_the_others},
      {"a_session_closes_though_a_worker_is_gone", a_session_closes_though_a_worker_is_gone},
      {"a_worker_that_was_restarted_aborts", a_worker_that_was_restarted_aborts},
      {"a_step_without_memory_is_no_cancelled_one", a_step_without_memory_is_no_cancelled_one},
      {"storms_of_failures_leave_nothing_behind", storms_of_failures_leave_nothing_behind},
      {"closing_races_with_steps", closing_races_with_steps},
      {"closing_races_with_planning", closing_races_with_planning},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("failures", tests);
}
