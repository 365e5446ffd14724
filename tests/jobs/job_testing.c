/* tests/jobs/job_testing.c - graphs, tensors, jobs. */
#include "tests/jobs/job_testing.h"

#include <stdio.h>
#include <string.h>

#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "tests/runner.h"
#include "tests/tools/graphs.h"

TF_Status *job_status;

TF_Buffer *graph_of_text(const char *text) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_to_binary(&tensorflow__graph_def__descriptor, weft_str(text), NULL, &bytes);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  TF_Buffer *out = TF_NewBufferFromString(bytes.data, bytes.length);
  weft_strbuf_deinit(&bytes);
  return out;
}

TF_Buffer *graph_of_file(const char *path) {
  static char bytes[1 << 20];
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  return TF_NewBufferFromString(bytes, n);
}

TF_Tensor *float_tensor(float value) {
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof value);
  memcpy(TF_TensorData(t), &value, sizeof value);
  return t;
}

TF_Tensor *mlp_x(int64_t begin, int64_t rows) {
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, (int64_t[]){rows, MLP_COLUMNS}, 2,
                                   (size_t)(rows * MLP_COLUMNS) * sizeof(float));
  for (int64_t i = 0; i < rows * MLP_COLUMNS; i++) {
    ((float *)TF_TensorData(t))[i] = (float)((begin * MLP_COLUMNS + i) * 7919 % 101) / 101.0f - 0.5f;
  }
  return t;
}

TF_Tensor *mlp_y(int64_t begin, int64_t rows) {
  TF_Tensor *t = TF_AllocateTensor(TF_INT32, &rows, 1, (size_t)rows * sizeof(int32_t));
  for (int64_t i = 0; i < rows; i++)
    ((int32_t *)TF_TensorData(t))[i] = (int32_t)((begin + i) * 31 % MLP_CLASSES);
  return t;
}

void must(const char *what) {
  if (TF_GetCode(job_status) != TF_OK) printf("\n    %s: %s\n", what, TF_Message(job_status));
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(job_status), TF_OK);
}

void must_fail(TF_Code code, const char *text) {
  bool ok = TF_GetCode(job_status) == code && strstr(TF_Message(job_status), text) != NULL;
  if (!ok)
    printf("\n    code %d, no '%s' in: %s\n", (int)TF_GetCode(job_status), text, TF_Message(job_status));
  CU_ASSERT_TRUE(ok);
}

WEFT_Job *new_job(TF_Buffer *graph, const char *master, const WEFT_JobOptions *options) {
  WEFT_Job *job = WEFT_NewJob(graph, master, options, job_status);
  TF_DeleteBuffer(graph);
  must("WEFT_NewJob");
  return job;
}

static void save_every(WEFT_Job *job, const char *prefix, int64_t every) {
  if (prefix != NULL) WEFT_JobSaveEvery(job, prefix, every, 0, job_status);
  must("WEFT_JobSaveEvery");
}

WEFT_Job *counting_job(const char *master, const char *prefix, int64_t every) {
  WEFT_Job *job = new_job(graph_of_text(COUNTER), master, NULL);
  TF_Tensor *one = float_tensor(1);
  WEFT_JobAddInitialiser(job, "init", job_status);
  must("WEFT_JobAddInitialiser");
  WEFT_JobAddTarget(job, "grow", job_status);
  must("WEFT_JobAddTarget");
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, "value", job_status), 0);
  WEFT_JobInputTensor(job, "by", one, WEFT_JOB_WHOLE, job_status);
  must("WEFT_JobInputTensor");
  TF_DeleteTensor(one);
  save_every(job, prefix, every);
  return job;
}

WEFT_Job *training_job(const char *master, const char *strategy, const char *prefix, int64_t every) {
  return training_job_of(graph_of_file(MLP), "loss", master, strategy, prefix, every);
}

WEFT_Job *training_job_of(TF_Buffer *graph, const char *fetch, const char *master, const char *strategy,
                          const char *prefix, int64_t every) {
  WEFT_JobOptions options;
  WEFT_InitJobOptions(&options);
  options.strategy = strategy;
  options.batch = 12;
  options.shuffle = 1;
  WEFT_Job *job = new_job(graph, master, &options);
  TF_Tensor *x = mlp_x(0, MLP_ROWS), *y = mlp_y(0, MLP_ROWS);
  WEFT_JobAddInitialiser(job, "init", job_status);
  WEFT_JobAddTarget(job, "train", job_status);
  CU_ASSERT_EQUAL(WEFT_JobAddFetch(job, fetch, job_status), 0);
  WEFT_JobInputTensor(job, "x", x, WEFT_JOB_ROWS, job_status);
  must("x");
  WEFT_JobInputTensor(job, "y", y, WEFT_JOB_ROWS, job_status);
  must("y");
  TF_DeleteTensor(x);
  TF_DeleteTensor(y);
  save_every(job, prefix, every);
  return job;
}

float value_of(const WEFT_Job *job, int fetch) {
  const TF_Tensor *t = WEFT_JobValue(job, fetch);
  return t == NULL ? -1 : *(const float *)TF_TensorData(t);
}

void run_to(WEFT_Job *job, int64_t steps) {
  WEFT_JobRun(job, steps, job_status);
  must("WEFT_JobRun");
}
