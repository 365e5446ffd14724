/* tools/submit/gate.h - brings all lanes to a stop between two steps, so that variables can be read as they
 * are after a step.
 *
 * A lane asks before each of its runs whether it may start. From the step `pause_at` on it may not, as soon
 * as that is safe for the other lanes; once no lane runs and none may start, the gate is still, and a lane
 * that waits there does what was to be done. Lanes that wait for each other within runs are let go on until
 * all have started equally many.
 */
#ifndef WEFT_TOOLS_SUBMIT_GATE_H_
#define WEFT_TOOLS_SUBMIT_GATE_H_

#include "tools/submit/lane.h"

typedef enum weft_gate_kind {
  WEFT_GATE_IN_STEP, /* the n-th run of every lane is the n-th step */
  WEFT_GATE_FREE,    /* every run is a step; lanes do not wait for each other */
  WEFT_GATE_BOUND,   /* every run is a step; lanes may wait until others have run as often, or nearly */
  WEFT_GATE_UPDATE,  /* the runs of the update lane are the steps, and the only ones that change variables */
} weft_gate_kind_t;

typedef struct weft_gate { /* Thread-compatible. */
  weft_gate_kind_t kind;
  int num_lanes;
  int64_t first, pause_at; /* steps done before the first run; where to stop, INT64_MAX: nowhere */
  struct weft_gate_lane {
    int64_t started; /* runs */
    bool is_busy, has_ended, is_update;
  } * lanes; /* owned */
} weft_gate_t;

WEFT_MUST_CHECK weft_status_t *weft_gate_init(weft_gate_t *g, const weft_run_plan_t *plan, int64_t first);
void weft_gate_deinit(weft_gate_t *g);
/* `done`: steps that are complete. */
bool weft_gate_may_start(const weft_gate_t *g, int lane, int64_t done);
bool weft_gate_is_still(const weft_gate_t *g, int64_t done);
/* Sets pause_at to the next step at which it is possible to stop, a multiple of `round` after the first. */
void weft_gate_stop_soon(weft_gate_t *g, int64_t done, int64_t round);

#endif /* WEFT_TOOLS_SUBMIT_GATE_H_ */
