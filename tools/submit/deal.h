/* tools/submit/deal.h - deals batches to lanes, the next one to the lane that asks. */
#ifndef WEFT_TOOLS_SUBMIT_DEAL_H_
#define WEFT_TOOLS_SUBMIT_DEAL_H_

#include "base/mutex.h"
#include "tools/submit/feeds.h"

/* What a lane is fed in one step. */
typedef struct weft_hand {
  TF_Tensor **tensors; /* one per feed; cut ones are owned, others lent by the feeds */
  bool *is_owned;
  int n;
} weft_hand_t;
void weft_hand_free(weft_hand_t *h); /* NULL is fine */

typedef struct weft_dealer { /* Thread-safe. */
  weft_feeds_t *feeds; /* borrowed; guarded by mu */
  weft_mutex_t mu;
} weft_dealer_t;

void weft_dealer_init(weft_dealer_t *d, weft_feeds_t *feeds);
void weft_dealer_deinit(weft_dealer_t *d); /* also of one that is all zero */
/* How many epochs are over, and the row of this one that is dealt next. */
void weft_dealer_where(weft_dealer_t *d, int64_t *out_epoch, int64_t *out_row);
/* The next batch; *out is owned. */
WEFT_MUST_CHECK weft_status_t *weft_dealer_next(weft_dealer_t *d, weft_hand_t **out);

#endif /* WEFT_TOOLS_SUBMIT_DEAL_H_ */
