/* jobs/inputs.h - what is fed at each step: whole arrays, rows of arrays, or what a callback gives.
 *
 * With a batch size, each step gets the next rows of every array that is given by rows, the same rows of all;
 * an epoch's last batch may be smaller. With shuffling each epoch has an order of its own, from a seed.
 * Arrays never end. A callback gives the values of one input or of several for a batch, and says when there
 * are no more.
 */
#ifndef WEFT_JOBS_INPUTS_H_
#define WEFT_JOBS_INPUTS_H_

#include "jobs/names.h"
#include "tensor/tensor.h"
#include "weft/job.h"

typedef struct weft_job_input {
  weft_tensor_t *data; /* the array; owned; NULL: a callback gives the values */
  bool is_rows;        /* rows of it are fed; of a callback's values: it is not a scalar, which is a rate or a
                          schedule */
  TF_Tensor *whole; /* all of it, for every step; owned; NULL for an input that is split, or not yet made */
} weft_job_input_t;

typedef struct weft_job_source { /* a callback: of the inputs [first, first + n) */
  WEFT_JobSourceFn fn;
  void *arg;
  int first, n;
} weft_job_source_t;

/* How arrays become batches. */
typedef struct weft_job_batching {
  int64_t batch; /* rows of a batch; 0: arrays are fed whole */
  bool is_shuffled;
  uint64_t seed;
} weft_job_batching_t;

typedef struct weft_job_inputs { /* Thread-compatible. */
  const weft_job_words_t *words;
  TF_Graph *graph; /* borrowed: the single-device graph */
  weft_arena_t arena;
  weft_job_names_t names; /* input i is called so, and is that output */
  weft_job_input_t *items;
  weft_job_source_t *sources;
  TF_Status *status; /* for callbacks; owned */
  int n, capacity, num_sources;
  int64_t rows;        /* of the arrays that are cut; 0: there are none */
  int64_t batch;       /* rows of a batch; 0: nothing is split */
  int64_t num_given;   /* batches that callbacks have given */
  int64_t *order;      /* rows in the epoch's order; NULL: as in the array */
  int64_t epoch, next; /* how many epochs are over; position in this one */
  bool is_shuffled;
  uint64_t seed, state; /* of the shuffle's random numbers */
} weft_job_inputs_t;

/* Rows of the arrays, as positions in the epoch's order. Without a batch size: 0 rows, and nothing is split.
 */
typedef struct weft_job_rows {
  int64_t begin, rows;
} weft_job_rows_t;

void weft_job_inputs_init(weft_job_inputs_t *f, TF_Graph *graph, const weft_job_batching_t *how,
                          const weft_job_words_t *words);
void weft_job_inputs_deinit(weft_job_inputs_t *f);
/* An input with an array; `data` is consumed. `text`: where it comes from, for messages. Errors:
 * INVALID_ARGUMENT, NOT_FOUND naming the input. */
WEFT_MUST_CHECK weft_status_t *weft_job_inputs_add(weft_job_inputs_t *f, weft_str_t name, weft_tensor_t *data,
                                                   bool is_rows, const char *text);
/* `n` inputs that a callback gives. Errors: the same. */
WEFT_MUST_CHECK weft_status_t *weft_job_inputs_add_source(weft_job_inputs_t *f, const char *const *names,
                                                          int n, WEFT_JobSourceFn fn, void *arg);
/* Before the first batch and after the last input, and to begin anew: goes to the first row. Errors:
 * INVALID_ARGUMENT if there is nothing to make batches of. */
WEFT_MUST_CHECK weft_status_t *weft_job_inputs_begin(weft_job_inputs_t *f);
/* Goes to row `next` of an epoch, as if all before it had been fed. Not backwards. */
void weft_job_inputs_seek(weft_job_inputs_t *f, int64_t epoch, int64_t next);
/* Is each step given other rows of it, or the same value? */
bool weft_job_input_is_batch(const weft_job_inputs_t *f, int i);
/* All of array `i`: a tensor of the caller's. Errors: FAILED_PRECONDITION for one that a callback gives. */
WEFT_MUST_CHECK weft_status_t *weft_job_input_whole(const weft_job_inputs_t *f, int i, TF_Tensor **out);
/* The values of the next batch, one per input; `is_owned[i]`: the caller's to delete, else lent until deinit.
 * *out_has_ended: a callback had no more, and nothing was taken. Errors: those of the callbacks;
 * INVALID_ARGUMENT naming the input whose dtype or shape is wrong. */
WEFT_MUST_CHECK weft_status_t *weft_job_inputs_next(weft_job_inputs_t *f, TF_Tensor **tensors, bool *is_owned,
                                                    bool *out_has_ended);

#endif /* WEFT_JOBS_INPUTS_H_ */
