/* jobs/saving.h - when a job saves, and the checkpoint that it starts from. */
#ifndef WEFT_JOBS_SAVING_H_
#define WEFT_JOBS_SAVING_H_

#include "jobs/checkpoint/checkpoint.h"
#include "jobs/inputs.h"
#include "jobs/iterators.h"

typedef struct weft_job_saving_spec { /* texts are lent */
  const weft_job_words_t *words;
  const char *restore;           /* a checkpoint, or a directory with some; NULL: none */
  const char *save;              /* the prefix of a series; NULL: nothing is saved */
  int64_t every_steps, every_ns; /* 0, 0: only at the end */
  int64_t also_steps;            /* after every so many steps, too; 0: not */
  bool resumes;                  /* continue from the newest of the series, if there is one */
  bool is_partial;               /* variables that the checkpoint lacks keep their values */
  int64_t keep;                  /* how many of the series; 0: all */
} weft_job_saving_spec_t;

typedef struct weft_job_saving {      /* Confined, except fields that the job locks. */
  const weft_job_saving_spec_t *spec; /* lent */
  weft_graph_t *graph;                /* owned: the single-device graph */
  weft_saved_variables_t variables;
  weft_series_t series;
  weft_restore_t restore; /* source NULL: nothing is restored */
  weft_access_t access;
  bool is_saving;               /* false: another client saves */
  int round;                    /* variables change after every so many steps only, from the first on */
  weft_job_position_t mark;     /* where the job stood when they changed last; kept if round > 1 */
  int64_t first;                /* steps done before the job began */
  int64_t saved_step, saved_ns; /* the last saved step, -1: none; when */
} weft_job_saving_t;

/* Before anything runs: finds the graph's variables, and chooses, opens and reads the checkpoint to start
 * from. `step`: names of what a step runs and fetches. The caller deinits *out in any case, also one that is
 * all zero. Errors: those of weft_restore_open. */
WEFT_MUST_CHECK weft_status_t *weft_job_saving_init(weft_job_saving_t *out,
                                                    const weft_job_saving_spec_t *spec, weft_str_t graph_def,
                                                    const weft_str_t *step, int num_step);
void weft_job_saving_deinit(weft_job_saving_t *s);
/* Does anything have to be restored or saved? */
bool weft_job_saving_is_used(const weft_job_saving_spec_t *spec);
/* Does the job go on from where another stood? */
bool weft_job_saving_resumes(const weft_job_saving_t *s);
/* Moves the inputs to the position of the restored job, if they are the same data (else `note` gets the
 * reason). */
void weft_job_saving_seek(weft_job_saving_t *s, weft_job_inputs_t *inputs, weft_strbuf_t *note);
/* The position of the job after step `done`. No batch may be in preparation. */
weft_job_position_t weft_job_position(const weft_job_inputs_t *inputs, int64_t done);

/* Adds nodes to the graph that runs, and checks that files can be written. A follower restores, but leaves
 * the saving to another client. Errors: also those of weft_series_check_place. */
WEFT_MUST_CHECK weft_status_t *weft_job_saving_attach(weft_job_saving_t *s, TF_Graph *graph,
                                                      bool is_rewritten, bool is_follower, int round);
/* After the initialisation. */
WEFT_MUST_CHECK weft_status_t *weft_job_saving_restore(weft_job_saving_t *s, TF_Session *session);
/* After that, of a job that resumes: iterators go on where they stood. `note` gets which begin anew, and why.
 */
WEFT_MUST_CHECK weft_status_t *weft_job_saving_restore_iterators(weft_job_saving_t *s, TF_Session *session,
                                                                 const weft_job_iterators_t *iterators,
                                                                 weft_strbuf_t *note);
/* The step after which to save next; INT64_MAX: none is known. */
int64_t weft_job_saving_next_step(const weft_job_saving_t *s, int64_t done);
bool weft_job_saving_is_due(const weft_job_saving_t *s); /* by the clock */
/* After each step: remembers where variables changed last. */
void weft_job_saving_step(weft_job_saving_t *s, const weft_job_position_t *now);
/* Saves the state as it is now; within a round, that after the last complete one, and iterators as they are.
 * *out_path is lent; "" if that is saved already, or nothing is to be saved. `note` gets what could not be
 * saved, once. */
WEFT_MUST_CHECK weft_status_t *weft_job_saving_save(weft_job_saving_t *s, TF_Session *session,
                                                    weft_job_iterators_t *iterators,
                                                    const weft_job_position_t *now, weft_str_t *out_path,
                                                    weft_strbuf_t *note);

#endif /* WEFT_JOBS_SAVING_H_ */
