/* jobs/job.h - what the command uses of a job beside weft/job.h: messages that name its options, and inputs
 * that it has parsed. */
#ifndef WEFT_JOBS_JOB_H_
#define WEFT_JOBS_JOB_H_

#include "jobs/words.h"
#include "tensor/tensor.h"
#include "weft/job.h"

/* WEFT_NewJob with messages that use `words`; `bytes` is copied. *out is owned by the caller. */
WEFT_MUST_CHECK weft_status_t *weft_job_new(weft_str_t graph_def, const char *master,
                                            const WEFT_JobOptions *options, const weft_job_words_t *words,
                                            WEFT_Job **out);
/* In CREATED: variables, tables, queues are the job's own, also on a cluster, and are gone with it. */
void weft_job_isolate(WEFT_Job *job);
/* In CREATED, of a job that saves: it saves after every so many steps, too, whatever WEFT_JobSaveEvery says.
 */
void weft_job_save_also_every(WEFT_Job *job, int64_t steps);
/* The dtype of an input of the graph. Errors: NOT_FOUND. */
WEFT_MUST_CHECK weft_status_t *weft_job_input_dtype(WEFT_Job *job, weft_str_t name, int *out);
/* WEFT_JobInputTensor: `data` is consumed; `text` is where it comes from, for messages. */
WEFT_MUST_CHECK weft_status_t *weft_job_add_input(WEFT_Job *job, weft_str_t name, weft_tensor_t *data,
                                                  bool is_rows, const char *text);
/* WEFT_JobAddFetch, with an option of its own for messages. */
WEFT_MUST_CHECK weft_status_t *weft_job_add_fetch(WEFT_Job *job, const char *option, weft_str_t name,
                                                  int *out);
/* The name of a fetch in the job's log, if it is another than its node's; the first one that is given stays.
 * In CREATED. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_log_fetch_as(WEFT_Job *job, int fetch, weft_str_t name);
/* Does a step take a batch from a source in the graph? Such a job ends without an error when the source does:
 * when a step ends with OUT_OF_RANGE. Once it is described. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_job_step_reads_data(const WEFT_Job *job, bool *out);

/* How many batches the rows that are fed make; 0: nothing is fed by rows. Once it is described. */
int64_t weft_job_steps_per_epoch(const WEFT_Job *job);

/* A worker of a strategy whose workers run on their own: parameter servers with mode=async, ssp or backup. */
typedef struct weft_job_worker {
  const char *name; /* "worker 1"; lent until the job is resumed or deleted */
  int64_t steps;    /* that it has ended since the job began or was resumed */
  bool has_data;    /* false: its part of the data has ended */
} weft_job_worker_t;
/* Fills out[i] for i < num_out; returns how many there are, 0 where one loop runs all steps. In the step
 * callback, and while the job does not run. */
int weft_job_workers(WEFT_Job *job, weft_job_worker_t *out, int num_out);
/* The rows that were fed, of all steps since the job began or was resumed and of those in flight; 0: nothing
 * is fed by rows. There, too. */
int64_t weft_job_rows_fed(WEFT_Job *job);

/* How the steps of the last WEFT_JobRun that went well waited for data from iterators in the graph. */
typedef struct weft_job_device_wait {
  const char *device;        /* that the iterators are on: "/job:worker/replica:0/task:0/device:CPU:0" */
  double share, ms_per_step; /* of the time of its steps, 0 to 1; milliseconds in each */
  int64_t delivered;         /* elements */
  int64_t buffered, budget;  /* bytes made ahead at the end, and how many there may be */
} weft_job_device_wait_t;
/* Fills out[i] for i < num_out, one for each device that reads; returns how many there are. Texts are lent
 * until the next run. Not while the job runs. */
int weft_job_waits(const WEFT_Job *job, weft_job_device_wait_t *out, int num_out);

#endif /* WEFT_JOBS_JOB_H_ */
