/* tools/submit/deal.h - deals batches to lanes: each its own, or to all their shares of the same one. */
#ifndef WEFT_TOOLS_SUBMIT_DEAL_H_
#define WEFT_TOOLS_SUBMIT_DEAL_H_

#include "base/mutex.h"
#include "tools/submit/feeds.h"

/* What a lane is fed in one step. */
typedef struct weft_hand {
  struct weft_hand *next;
  TF_Tensor **tensors; /* one per feed; cut ones are owned, others lent by the feeds */
  bool *is_owned;
  int n;
  double share; /* rows * lanes / rows of all; 1 if nothing is cut */
} weft_hand_t;
void weft_hand_free(weft_hand_t *h); /* NULL is fine */

typedef struct weft_dealer { /* Thread-safe. */
  weft_feeds_t *feeds; /* borrowed */
  int num_lanes;
  const bool *is_batch; /* borrowed; by feed: lanes get rows of it; others get all. NULL: what --batch cuts */
  bool splits;         /* rows [i*B/N, (i+1)*B/N) of the n-th batch are lane i's n-th hand */
  weft_mutex_t mu;
  weft_hand_t **first, **last; /* guarded by mu: hands cut, but not taken yet, by lane */
} weft_dealer_t;

WEFT_MUST_CHECK weft_status_t *weft_dealer_init(weft_dealer_t *d, weft_feeds_t *feeds, int num_lanes, bool splits,
                                                const bool *is_batch);
void weft_dealer_deinit(weft_dealer_t *d); /* also of one that is all zero */
/* How many epochs are over, and the row of this one that is dealt next. */
void weft_dealer_where(weft_dealer_t *d, int64_t *out_epoch, int64_t *out_row);
/* The next hand of the lane; *out is owned. Errors: INVALID_ARGUMENT if arrays that lanes share differ in their rows. */
WEFT_MUST_CHECK weft_status_t *weft_dealer_next(weft_dealer_t *d, int lane, weft_hand_t **out);

#endif /* WEFT_TOOLS_SUBMIT_DEAL_H_ */
