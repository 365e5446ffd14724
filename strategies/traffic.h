/* strategies/traffic.h - what the steps of a rewritten graph send, worked out from the graph alone.
 *
 * The master partitions the graph by task. A value with consumers in another task is sent once to each such
 * task per run of a worker loop, however many consumers it has there; a control edge is a message without
 * bytes; feeds come from the task of the worker loop's client, fetches go there. Within a task a value with
 * consumers on another device is copied once per device. An all-reduce over N ranks moves 2(N-1)/N of its
 * bytes out of each; with several ranks in a task, the links are those that the collectives choose (hosts:
 * cluster). So this agrees with what servers count (weft/statistics.h).
 *
 * Exact for what is fixed by shapes. Values inside loops are counted once, values in
 * branches as if they were taken; strings and what has as many rows as it turns out have no size.
 */
#ifndef WEFT_STRATEGIES_TRAFFIC_H_
#define WEFT_STRATEGIES_TRAFFIC_H_

#include "strategies/rewrite.h"

enum {
  WEFT_ROWS_UNKNOWN = 0, /* what depends on the batch has no size */
  WEFT_ROWS_ANY = -1,    /* it has a size per row */
};

/* Fills crossings, collectives and cost of `r` anew. `rows`: of a worker loop's batch, or one of the above.
 * Shapes of the graph are inferred, again where rows count; they are those without rows afterwards. */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_measure(weft_rewrite_t *r, const weft_cluster_view_t *cluster,
                                                    int64_t rows);

/* "/job:worker/replica:0/task:1" of a device; a text without a device is returned as it is. */
weft_str_t weft_traffic_task(weft_str_t device);

#endif /* WEFT_STRATEGIES_TRAFFIC_H_ */
