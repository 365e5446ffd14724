/* master/step.h - one step: a RunGraph to every part, all in flight at once. */
#ifndef WEFT_MASTER_STEP_H_
#define WEFT_MASTER_STEP_H_

#include "master/session.h"

typedef struct weft_step_request {
  weft_step_plan_t *plan;           /* retained */
  int64_t step_id;                  /* 0: a new random one */
  const weft_named_tensor_t *sends; /* name: rendezvous key in `plan`; copied, tensors retained */
  int num_sends;
  const weft_str_t *recv_keys; /* in `plan`; copied */
  int num_recvs;
  bool is_partial, is_last_partial;
  bool keep; /* do not clean up yet: more pieces of a partial run follow */
  weft_step_options_t options;
  weft_canceller_t *canceller; /* the call's; retained; may be NULL */
  weft_canceller_t *parent;    /* what else ends the step; NULL: the session's */
} weft_step_request_t;

/* Runs the step in session `s`, which must have begun it (weft_master_session_begin_step); ends it there,
 * too. Failures: the first real cause, "From /job:...:\n" in front; several causes are joined as TensorFlow
 * joins them; CANCELLED after the session was closed; DEADLINE_EXCEEDED after options.timeout_ms. */
void weft_step_run(weft_master_session_t *s, const weft_step_request_t *r, weft_run_step_fn *fn, void *arg);
int64_t weft_step_new_id(void); /* uniform in [1, 2^57) */

#endif /* WEFT_MASTER_STEP_H_ */
