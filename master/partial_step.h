/* master/partial_step.h - a step that a client feeds and fetches piece by piece. */
#ifndef WEFT_MASTER_PARTIAL_STEP_H_
#define WEFT_MASTER_PARTIAL_STEP_H_

#include "master/session.h"

struct weft_partial_step { /* Refcounted: the session's table, and each piece that runs. */
  atomic_int refs;
  weft_master_session_t *session; /* borrowed: the table belongs to it */
  weft_step_plan_t *plan;
  weft_graph_version_t *graph; /* for asking what depends on what */
  weft_canceller_t *canceller; /* child of the session's */
  weft_str_t handle;           /* owned */
  int64_t step_id;
  weft_mutex_t mu;
  bool *is_fed, *is_fetched; /* guarded by mu */
  int left;                  /* guarded by mu: feeds and fetches to come */
  bool is_over;              /* guarded by mu */
};

/* partial_step.c */
void weft_partial_step_setup(weft_master_session_t *s, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                             weft_text_fn *fn, void *arg);
void weft_partial_step_run(weft_master_session_t *s, const weft_run_step_t *r, weft_canceller_t *c,
                           weft_run_step_fn *fn, void *arg);

/* partial_table.c */
void weft_partial_step_release(weft_partial_step_t *p); /* NULL is fine */
/* Ends those of a session that closes and runs nothing any more. */
void weft_partial_steps_abandon(weft_master_session_t *s);

#endif /* WEFT_MASTER_PARTIAL_STEP_H_ */
