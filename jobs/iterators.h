/* jobs/iterators.h - the iterators that the steps of a job read: how long steps wait for them, and where they
 * stand, for checkpoints.
 *
 * Nodes that ask them are added to the graph that runs, before it has a session. Nothing must run meanwhile
 * when an iterator is saved or restored.
 */
#ifndef WEFT_JOBS_ITERATORS_H_
#define WEFT_JOBS_ITERATORS_H_

#include "base/arena.h"
#include "jobs/checkpoint/checkpoint.h"
#include "jobs/plan.h"

typedef struct weft_job_iterator {
  const char *name;                  /* of its node in the graph that runs; arena */
  weft_str_t tensor;                 /* that holds its state in a checkpoint; arena */
  bool is_copy;                      /* another one, which is always where it is, is saved for it */
  TF_Operation *waits;               /* WeftIteratorWaits */
  TF_Operation *state, *restore;     /* NULL: the job does not save, or (state) it is a copy */
  TF_Output feed;                    /* of the state that is restored */
  int64_t first_ns, first_delivered; /* what had been waited and read before the first step */
} weft_job_iterator_t;

typedef struct weft_job_iterators { /* Confined. */
  weft_arena_t arena;
  weft_job_iterator_t *items; /* owned */
  int n;
  bool has_told; /* which of them cannot be saved */
} weft_job_iterators_t;

/* How long the steps of a run waited for the iterators of one device. */
typedef struct weft_job_wait {
  char device[512];             /* "/job:worker/replica:0/task:0/device:CPU:0" */
  int64_t waited_ns, delivered; /* in all; elements */
  int64_t buffered, budget;     /* bytes made ahead now, and how many there may be, of all its iterators */
} weft_job_wait_t;

/* Finds the iterators that the loops of a plan read, and adds nodes. `saves`: also such as save and restore.
 * The caller deinits *out in any case, also one that is all zero. Errors: those of the C API. */
WEFT_MUST_CHECK weft_status_t *weft_job_iterators_init(const weft_job_plan_t *plan, bool saves,
                                                       weft_job_iterators_t *out);
void weft_job_iterators_deinit(weft_job_iterators_t *l);
/* From here on waits count. */
WEFT_MUST_CHECK weft_status_t *weft_job_iterators_begin(weft_job_iterators_t *l, TF_Session *session);
/* The waits since then, by device: *out (owned; weft_free), *out_n of them. */
WEFT_MUST_CHECK weft_status_t *weft_job_iterators_wait(const weft_job_iterators_t *l, TF_Session *session,
                                                       weft_job_wait_t **out, int *out_n);

/* Where they stand, as tensors for a checkpoint; *out is to be deinitialised in any case. One that cannot be
 * saved, as its pipeline has state elsewhere, is left out, which `note` gets the first time. */
WEFT_MUST_CHECK weft_status_t *weft_job_iterators_save(weft_job_iterators_t *l, TF_Session *session,
                                                       weft_checkpoint_extras_t *out, weft_strbuf_t *note);
/* They go on from there. One whose state the checkpoint lacks, or that has other data, begins anew: `note`
 * gets the reason. Errors: DATA_LOSS and others where the checkpoint is damaged. */
WEFT_MUST_CHECK weft_status_t *weft_job_iterators_restore(const weft_job_iterators_t *l, TF_Session *session,
                                                          weft_source_t *from, weft_strbuf_t *note);

#endif /* WEFT_JOBS_ITERATORS_H_ */
