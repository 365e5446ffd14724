/* tools/submit/join.h - puts together what lanes that share a batch have fetched of it.
 *
 * A step is whole when each lane has done its run of it: then, not before, its
 * values are shown. Lanes may be a run ahead of others.
 */
#ifndef WEFT_TOOLS_SUBMIT_JOIN_H_
#define WEFT_TOOLS_SUBMIT_JOIN_H_

#include "base/status.h"
#include "tools/submit/lane.h"

/* What a lane has of a step. */
typedef struct weft_part {
  struct weft_part *next;
  TF_Tensor **values; /* owned, as long as the lane's fetches */
  int n;
  double weight; /* rows / rows of all */
} weft_part_t;

typedef struct weft_joiner {   /* Confined. */
  const weft_run_plan_t *plan; /* borrowed */
  weft_part_t **first, **last; /* by lane */
} weft_joiner_t;

WEFT_MUST_CHECK weft_status_t *weft_joiner_init(weft_joiner_t *j, const weft_run_plan_t *plan);
void weft_joiner_deinit(weft_joiner_t *j); /* also of one that is all zero */
/* A lane's next run is done; its values (NULLs are left in the array) had `weight` of the rows. *is_whole: it
 * was the last of its step; `out`, as long as the values of a lane that is fed, has the step's then, owned by
 * the caller. Errors: INVALID_ARGUMENT naming the fetch whose parts do not fit. */
WEFT_MUST_CHECK weft_status_t *weft_joiner_add(weft_joiner_t *j, int lane, TF_Tensor **values, double weight,
                                               bool *is_whole, TF_Tensor **out);

#endif /* WEFT_TOOLS_SUBMIT_JOIN_H_ */
