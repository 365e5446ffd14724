/* jobs/batch_splitter.h - hands successive batches to worker loops, the next one to the loop that requests
 * it. */
#ifndef WEFT_JOBS_BATCH_SPLITTER_H_
#define WEFT_JOBS_BATCH_SPLITTER_H_

#include "base/mutex.h"
#include "jobs/saving.h"

/* The feeds of a worker loop for one step. */
typedef struct weft_job_part { /* Confined. */
  TF_Tensor **tensors;         /* one per input; lent by the inputs unless is_owned */
  bool *is_owned;
  int n;
} weft_job_part_t;
/* Both: of one that is all zero, too. */
WEFT_MUST_CHECK weft_status_t *weft_job_part_init(weft_job_part_t *p, int num_inputs);
void weft_job_part_deinit(weft_job_part_t *p);
/* The rows of its batches, as many as the longest has; 0: there are none. */
int64_t weft_job_part_rows(const weft_job_part_t *p, const weft_job_inputs_t *inputs);
/* Deletes the feeds of a step; the array is kept for the next one. */
void weft_job_part_clear(weft_job_part_t *p);

typedef struct weft_job_splitter { /* Thread-safe. */
  weft_job_inputs_t *inputs; /* borrowed; guarded by mu. Callbacks of the program are called with it: one
                                batch is made at a time */
  int64_t rows;              /* of all parts so far; guarded by mu */
  weft_mutex_t mu;
} weft_job_splitter_t;

void weft_job_splitter_init(weft_job_splitter_t *d, weft_job_inputs_t *inputs);
void weft_job_splitter_deinit(weft_job_splitter_t *d); /* also of one that is all zero */
/* Fills `part`, which is empty, with the next batch. Errors, *out_has_ended: weft_job_inputs_next. */
WEFT_MUST_CHECK weft_status_t *weft_job_splitter_next(weft_job_splitter_t *d, weft_job_part_t *part,
                                                      bool *out_has_ended);
/* The rows of all parts that it has filled; also once it is deinitialised. */
int64_t weft_job_splitter_rows(weft_job_splitter_t *d);
/* Where a job stands after step `done`. */
weft_job_position_t weft_job_splitter_position(weft_job_splitter_t *d, int64_t done);

#endif /* WEFT_JOBS_BATCH_SPLITTER_H_ */
