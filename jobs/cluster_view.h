/* jobs/cluster_view.h - the cluster that a strategy is told of: from a master's devices, or from a text. */
#ifndef WEFT_JOBS_CLUSTER_VIEW_H_
#define WEFT_JOBS_CLUSTER_VIEW_H_

#include "base/arena.h"
#include "strategies/strategy.h"

typedef struct weft_view { /* Confined. */
  weft_arena_t arena;
  weft_cluster_view_t cluster; /* its tasks are in the arena, sorted by job, then index */
  weft_task_devices_t *tasks;
  int capacity;
} weft_job_view_t;

void weft_job_view_init(weft_job_view_t *v);
void weft_job_view_deinit(weft_job_view_t *v);
/* One device of the cluster by its full name, in the order of its task's devices. Errors: INVALID_ARGUMENT
 * for another name. */
WEFT_MUST_CHECK weft_status_t *weft_job_view_add_device(weft_job_view_t *v, weft_str_t name);
/* "ps=2,worker=3" (so many tasks), or "ps=host:port;worker=host:port,host:port" as `weft server` takes it;
 * every task has `num_cpus` CPU devices. Errors: INVALID_ARGUMENT naming the part. */
WEFT_MUST_CHECK weft_status_t *weft_job_view_parse(weft_job_view_t *v, weft_str_t text, int num_cpus);
/* A process of its own, which can be given `num_cpus` CPU devices, with the accelerators that this one has:
 * "/job:localhost/replica:0/task:0". */
WEFT_MUST_CHECK weft_status_t *weft_job_view_local(weft_job_view_t *v, int num_cpus);

#endif /* WEFT_JOBS_CLUSTER_VIEW_H_ */
