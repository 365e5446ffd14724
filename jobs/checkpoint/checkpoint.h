/* jobs/checkpoint/checkpoint.h - the variables of a session into a bundle, and back.
 *
 * A checkpoint is what TensorFlow's Saver writes for the single-device graph, under whatever strategy it was
 * written: one tensor per variable, under the variable's name. Beside these it holds tensors of its
 * own: where the job stood, and where the iterators that it reads.
 */
#ifndef WEFT_JOBS_CHECKPOINT_CHECKPOINT_H_
#define WEFT_JOBS_CHECKPOINT_CHECKPOINT_H_

#include "io/source.h"
#include "jobs/checkpoint/access.h"
#include "jobs/checkpoint/series.h"
#include "jobs/words.h"

#define WEFT_CHECKPOINT_STEP "_weft/step"          /* int64 scalar: steps done */
#define WEFT_CHECKPOINT_BATCHES "_weft/batches"    /* int64 [5]: epoch, row, rows, is shuffled, seed */
#define WEFT_CHECKPOINT_ITERATOR "_weft/iterator/" /* and the iterator's name: string scalar, its state */

/* Where a job stands: how many steps are done, and which rows of its data come next. */
typedef struct weft_job_position {
  int64_t step;
  int64_t epoch, row,
      rows; /* the next row of an epoch of `rows`; rows 0: the data are not cut into batches */
  bool is_shuffled;
  uint64_t seed;
} weft_job_position_t;

/* What else a checkpoint holds: tensors by name. */
typedef struct weft_checkpoint_extras { /* Confined. */
  weft_str_t *names;                    /* owned, as the next; their texts are lent */
  weft_tensor_t **tensors;
  int n;
} weft_checkpoint_extras_t;
void weft_checkpoint_extras_deinit(weft_checkpoint_extras_t *e);

/* ---- restoring ---- */

/* A checkpoint that fits the graph and is not damaged. */
typedef struct weft_restore { /* Confined. */
  weft_arena_t arena;
  const weft_job_words_t *words; /* for messages */
  const char *option;            /* "--restore" */
  weft_str_t path;
  weft_source_t *source;
  const weft_saved_variables_t *variables; /* borrowed */
  weft_str_t *tensors;                     /* by variable: its name in the checkpoint; "": it is not there */
  int num_found;
  bool has_position;
  weft_job_position_t position;
  uint64_t fingerprint; /* of the values that are restored and the position; never 0 */
} weft_restore_t;

/* Opens the checkpoint, and reads all of it that will be restored. What the step needs must be there unless
 * `is_partial`. The caller closes *out in any case. Errors: NOT_FOUND, INVALID_ARGUMENT (of another model:
 * names the first variable that does not fit, and how many do not), DATA_LOSS (damaged). */
WEFT_MUST_CHECK weft_status_t *weft_restore_open(const weft_job_words_t *words, const char *option,
                                                 weft_str_t path, const weft_saved_variables_t *variables,
                                                 bool is_partial, weft_restore_t *out);
void weft_restore_close(weft_restore_t *r);
/* Sets all variables of the session that the checkpoint has. */
WEFT_MUST_CHECK weft_status_t *weft_restore_run(weft_restore_t *r, const weft_access_t *access,
                                                TF_Session *session);

/* ---- saving ---- */

/* The bytes of all variables whose shapes are known. */
uint64_t weft_checkpoint_bytes(const weft_saved_variables_t *variables);
/* Saves all variables that have a value, where the job stands, and `extras`, as the series' checkpoint of
 * that step. On failure the series is as before. `*out_path` lives as long as the series. */
WEFT_MUST_CHECK weft_status_t *weft_checkpoint_save(const weft_access_t *access, TF_Session *session,
                                                    const weft_job_position_t *at,
                                                    const weft_checkpoint_extras_t *extras,
                                                    weft_series_t *series, weft_str_t *out_path);

#endif /* WEFT_JOBS_CHECKPOINT_CHECKPOINT_H_ */
