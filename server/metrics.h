/* server/metrics.h - all numbers of a server: for this folder only. */
#ifndef WEFT_SERVER_METRICS_H_
#define WEFT_SERVER_METRICS_H_

#include "membership/membership.h"
#include "server/task.h"

/* Appends them in Prometheus's text format: the process's, under the names that its exporters share, those of
 * the cluster's tasks as this one sees them, and those of worker and master. Does not block. */
void weft_task_write_metrics(const weft_task_t *t, weft_membership_t *members, weft_strbuf_t *out);

#endif /* WEFT_SERVER_METRICS_H_ */
