/* tests/jobs/job_testing.h - graphs and short ways to describe jobs, for tests of weft/job.h. */
#ifndef WEFT_TESTS_JOBS_JOB_TESTING_H_
#define WEFT_TESTS_JOBS_JOB_TESTING_H_

#include <stdbool.h>

#include "weft/job.h"

#define MLP "tests/strategies/testdata/mlp_momentum.pb"
enum { MLP_ROWS = 50, MLP_COLUMNS = 32, MLP_CLASSES = 4 };

/* A serialized GraphDef of text; the caller deletes it. A failure fails the test. */
TF_Buffer *graph_of_text(const char *text);
TF_Buffer *graph_of_file(const char *path);

/* New tensors: a float scalar; the inputs of the MLP, the same at each call: rows [begin, begin + rows). */
TF_Tensor *float_tensor(float value);
TF_Tensor *mlp_x(int64_t begin, int64_t rows);
TF_Tensor *mlp_y(int64_t begin, int64_t rows);

/* Deletes `graph` if not NULL; the test fails if no job comes of it. */
WEFT_Job *new_job(TF_Buffer *graph, const char *master, const WEFT_JobOptions *options);
/* A counter (tests/tools/graphs.h): starts at 10, grows by 1 at each step; fetch 0 is its value. */
WEFT_Job *counting_job(const char *master, const char *prefix, int64_t every);
/* Trains the MLP with rows of arrays, 12 at a time, shuffled; fetch 0 is the loss. `prefix` NULL: nothing is
 * saved. */
WEFT_Job *training_job(const char *master, const char *strategy, const char *prefix, int64_t every);
/* The same with a graph that has the MLP and more, which it deletes, and another fetch. */
WEFT_Job *training_job_of(TF_Buffer *graph, const char *fetch, const char *master, const char *strategy,
                          const char *prefix, int64_t every);
/* -1: there is none yet. */
float value_of(const WEFT_Job *job, int fetch);

/* The status of the calls below; of the test's thread. */
extern TF_Status *job_status;
void must(const char *what);                    /* the last call succeeded */
void must_fail(TF_Code code, const char *text); /* it failed so, saying that */
/* As the functions of weft/job.h; the test fails if they fail. */
void run_to(WEFT_Job *job, int64_t steps);

#endif /* WEFT_TESTS_JOBS_JOB_TESTING_H_ */
