/* strategies/buckets.h - which gradients are packed into one all-reduce.
 *
 * Every rule splits a sequence of values into buckets; values of different keys (data type and degree) never
 * share one, nor do values of unknown size. Each is linear but for Horovod's, which looks ahead.
 *
 * Sources: reference strategies 3.5 (PyTorch's Reducer), 3.7 (Horovod's controller), 3.25 (TensorFlow's
 * group_by_size).
 */
#ifndef WEFT_STRATEGIES_BUCKETS_H_
#define WEFT_STRATEGIES_BUCKETS_H_

#include "base/arena.h"

typedef struct weft_bucket_item {
  int64_t bytes; /* -1: unknown, goes alone */
  int64_t key;   /* a bucket holds values of one key */
} weft_bucket_item_t;

typedef enum weft_bucket_rule {
  WEFT_BUCKETS_DDP, /* closes once it holds the limit or more; the first of each key has a limit of its own */
  WEFT_BUCKETS_HOROVOD, /* holds the limit at most, but for one larger value; looks past values of other keys
                           as long as what it takes and what it skips are within the limit together */
  WEFT_BUCKETS_PACK,    /* opens a new one once the last holds more than the limit; 0: one for all */
  WEFT_BUCKETS_NONE,    /* each alone */
} weft_bucket_rule_t;

typedef struct weft_bucket_limits {
  int64_t first; /* of DDP */
  int64_t cap;
} weft_bucket_limits_t;
#define WEFT_BUCKET_LIMITS \
  { 1 << 20, 25 << 20 } /* what PyTorch's DDP takes unless told otherwise */

typedef struct weft_buckets {
  int *bucket_of; /* by item */
  int **items;    /* by bucket: its items in order */
  int *num_items;
  int num_buckets; /* in the order of their first items */
} weft_buckets_t;

/* All arrays are in `arena`. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_buckets_form(weft_bucket_rule_t rule, weft_bucket_limits_t limits,
                                                 const weft_bucket_item_t *items, int n, weft_arena_t *arena,
                                                 weft_buckets_t *out);

/* From step statistics: when each value was ready, in any unit; below 0: not seen. order[0] is the value that
 * was ready first; those not seen come last; ties keep their order. */
WEFT_MUST_CHECK weft_status_t *weft_buckets_order_by_time(const double *ready, int n, int *order);

#endif /* WEFT_STRATEGIES_BUCKETS_H_ */
