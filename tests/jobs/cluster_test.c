/* tests/jobs/cluster_test.c - jobs on real servers: losses, resumes, masters that are gone, clusters that are
 * not complete. */
#include <stdio.h>

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
  enum { MOST_TRIES = 20 };
  for (int i = 0; i < MOST_TRIES; i++) {
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

static void stop_on_waiting(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  *(int *)arg += e->kind == WEFT_JOB_EVENT_WAITING;
  if (e->kind == WEFT_JOB_EVENT_WAITING) WEFT_JobStop(job);
}

/* A master waits for all tasks of its cluster. The job says so, and a stop ends the wait; so it does while
 * devices are asked for. */
static void a_stop_ends_the_wait_for_a_cluster_that_is_not_complete(void) {
  weft_test_servers_start(&servers);
  weft_test_process_kill(&servers.processes[2]);
  weft_test_process_kill(&servers.processes[1]);
  CU_ASSERT_TRUE_FATAL(weft_test_servers_start_one(&servers, 1)); /* it has not heard of task 2 */
  int waiting = 0;
  WEFT_Job *job = counting_job(master(), NULL, 0);
  WEFT_JobOnEvent(job, stop_on_waiting, &waiting, job_status);
  must("WEFT_JobOnEvent");
  WEFT_JobRun(job, 1, job_status);
  must_fail(TF_CANCELLED, "the job was stopped");
  CU_ASSERT_EQUAL(waiting, 1);
  CU_ASSERT_EQUAL(WEFT_JobGetState(job), WEFT_JOB_STOPPED);
  WEFT_DeleteJob(job);
  weft_test_servers_kill(&servers);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a job goes on after a loss", a_job_goes_on_after_a_loss},
      {"a resume can be tried until the cluster is there", a_resume_can_be_tried_until_the_cluster_is_there},
      {"a stop ends the wait for a cluster that is not complete",
       a_stop_ends_the_wait_for_a_cluster_that_is_not_complete},
      CU_TEST_INFO_NULL,
  };
  job_status = TF_NewStatus();
  int code = weft_run_tests("jobs on a cluster", tests);
  TF_DeleteStatus(job_status);
  return code;
}
