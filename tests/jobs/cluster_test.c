/* tests/jobs/cluster_test.c - jobs on real servers: losses, resumes, masters that are gone, clusters that are
 * not complete. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/cluster/server_process.h"
#include "tests/directory.h"
#include "tests/jobs/job_testing.h"
#include "tests/runner.h"

static weft_test_servers_t servers; /* a ps and two workers */

typedef struct killer { /* kills a task after a step; counts resumes */
  int task;
  int64_t at_step;
  int resumed;
} killer_t;

static int kill_on_step(void *arg, WEFT_Job *job, int64_t step) {
  killer_t *k = arg;
  (void)job;
  if (step == k->at_step) weft_test_process_kill(&servers.processes[k->task]);
  return 0;
}

static void note_event(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  killer_t *k = arg;
  (void)job;
  k->resumed += e->kind == WEFT_JOB_EVENT_RESUMED;
}

static const char *master(void) { return servers.processes[1].target; }

/* Surviving tasks may not have heard yet that the lost one is back: then the next step fails once more, and
 * the job is resumed again. */
static void resume_and_run(WEFT_Job *job, int64_t from, int64_t steps) {
  enum { MOST_S = 60 };
  for (int64_t deadline_ns = weft_clock_ns() + MOST_S * INT64_C(1000000000); weft_clock_ns() < deadline_ns;) {
    WEFT_JobResume(job, job_status);
    if (TF_GetCode(job_status) == TF_OK) CU_ASSERT_TRUE(WEFT_JobStepsDone(job) >= from);
    if (TF_GetCode(job_status) == TF_OK) WEFT_JobRun(job, steps, job_status);
    if (TF_GetCode(job_status) != TF_UNAVAILABLE) break;
  }
  must("resuming");
}

/* The losses of an uninterrupted run, whatever is lost on the way: a parameter server, a worker, the master
 * itself. */
static void a_job_goes_on_after_a_loss(void) {
  static const char *const strategies[] = {"parameter_server:mode=sync,workers=2", "multi_worker_mirrored:2"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    weft_test_directory();
    weft_test_servers_start(&servers);
    WEFT_Job *job = training_job(master(), strategies[i], NULL, 0);
    run_to(job, 14);
    float wanted = value_of(job, 0);
    WEFT_DeleteJob(job);
    for (int task = i == 0 ? 0 : 1; task < 3; task++) {
      char prefix[300];
      killer_t killer = {.task = task, .at_step = 7};
      weft_test_directory();
      snprintf(prefix, sizeof prefix, "%s", weft_test_path("m"));
      job = training_job(master(), strategies[i], prefix, 3);
      WEFT_JobOnStep(job, kill_on_step, &killer, job_status);
      WEFT_JobOnEvent(job, note_event, &killer, job_status);
      WEFT_JobRun(job, 14, job_status);
      must_fail(TF_UNAVAILABLE, "");
      CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
      CU_ASSERT_TRUE_FATAL(weft_test_servers_start_one(&servers, task));
      killer.at_step = 0;
      resume_and_run(job, 6, 14);
      CU_ASSERT_TRUE(killer.resumed >= 1);
      CU_ASSERT_DOUBLE_EQUAL(value_of(job, 0), wanted, 1e-5);
      WEFT_DeleteJob(job);
    }
    weft_test_servers_kill(&servers);
  }
}

/* A resume before the cluster is up again fails, and can be tried again. */
static void a_resume_can_be_tried_until_the_cluster_is_there(void) {
  weft_test_directory();
  weft_test_servers_start(&servers);
  WEFT_Job *job = training_job(master(), "parameter_server:mode=sync,workers=2", weft_test_path("m"), 3);
  run_to(job, 3);
  weft_test_process_kill(&servers.processes[1]);
  WEFT_JobStep(job, job_status);
  must_fail(TF_UNAVAILABLE, "");
  WEFT_JobResume(job, job_status);
  must_fail(TF_UNAVAILABLE, "no server listens at");
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_FAILED);
  CU_ASSERT_TRUE_FATAL(weft_test_servers_start_one(&servers, 1));
  WEFT_JobResume(job, job_status);
  must("WEFT_JobResume");
  run_to(job, 5);
  WEFT_DeleteJob(job);
  weft_test_servers_kill(&servers);
}

static int64_t stopped_ns; /* when the event came; 0: it has not */

static void stop_on_waiting(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  (void)arg;
  if (e->kind != WEFT_JOB_EVENT_WAITING) return;
  stopped_ns = weft_clock_ns();
  WEFT_JobStop(job);
}

/* A master waits a minute for all tasks of its cluster. The job says so, and a stop ends the wait; so it does
 * while a strategy asks for the devices. */
static void a_stop_ends_the_wait_for_a_cluster_that_is_not_complete(void) {
  enum { MOST_S = 20 };
  weft_test_servers_start(&servers);
  weft_test_process_kill(&servers.processes[2]);
  weft_test_process_kill(&servers.processes[1]);
  CU_ASSERT_TRUE_FATAL(weft_test_servers_start_one(&servers, 1)); /* it has not heard of task 2 */
  for (int i = 0; i < 2; i++) {
    WEFT_Job *job = i == 0 ? counting_job(master(), NULL, 0) : training_job(master(), "mirrored:1", NULL, 0);
    stopped_ns = 0;
    WEFT_JobOnEvent(job, stop_on_waiting, NULL, job_status);
    must("WEFT_JobOnEvent");
    WEFT_JobRun(job, 1, job_status);
    must_fail(TF_CANCELLED, "the job was stopped");
    CU_ASSERT_TRUE(stopped_ns > 0);
    CU_ASSERT_TRUE(weft_clock_ns() - stopped_ns < MOST_S * INT64_C(1000000000));
    CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
    WEFT_DeleteJob(job);
  }
  weft_test_servers_kill(&servers);
}

typedef struct frozen { /* the master is frozen after a step, and the job stopped from another thread */
  pthread_t stopper;
  bool is_frozen;
} frozen_t;

static void *stop(void *arg) {
  WEFT_JobStop(arg);
  return NULL;
}

static int freeze_on_step(void *arg, WEFT_Job *job, int64_t step) {
  frozen_t *f = arg;
  if (step != 3) return 0;
  f->is_frozen = kill(servers.processes[1].pid, SIGSTOP) == 0;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&f->stopper, NULL, stop, job), 0);
  return 0;
}

/* A master that does not answer does not keep the caller. */
static void a_stop_ends_a_step_at_a_frozen_master(void) {
  frozen_t f = {.is_frozen = false};
  weft_test_servers_start(&servers);
  WEFT_Job *job = counting_job(master(), NULL, 0);
  WEFT_JobOnStep(job, freeze_on_step, &f, job_status);
  must("WEFT_JobOnStep");
  WEFT_JobRun(job, 1000000, job_status);
  must_fail(TF_CANCELLED, "the job was stopped after step "); /* the freeze may come a step later */
  CU_ASSERT_TRUE(f.is_frozen);
  pthread_join(f.stopper, NULL);
  kill(servers.processes[1].pid, SIGCONT); /* closing the session waits for its answer */
  WEFT_DeleteJob(job);
  weft_test_servers_kill(&servers);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a job goes on after a loss", a_job_goes_on_after_a_loss},
      {"a resume can be tried until the cluster is there", a_resume_can_be_tried_until_the_cluster_is_there},
      {"a stop ends the wait for a cluster that is not complete",
       a_stop_ends_the_wait_for_a_cluster_that_is_not_complete},
      {"a stop ends a step at a frozen master", a_stop_ends_a_step_at_a_frozen_master},
      CU_TEST_INFO_NULL,
  };
  job_status = TF_NewStatus();
  int code = weft_run_tests("jobs on a cluster", tests);
  TF_DeleteStatus(job_status);
  return code;
}
