/* master/master.h - sessions: prune, place, partition, register once, run many.
 *
 * The master knows workers only through worker_client.h and computes nothing. Source: TensorFlow's Master and
 * MasterSession as restated in the reference, 1.3-1.6 and 3.1-3.6.
 */
#ifndef WEFT_MASTER_MASTER_H_
#define WEFT_MASTER_MASTER_H_

#include "graph/passes/optimize.h"
#include "master/master_client.h"
#include "worker/session_cluster.h"

typedef struct weft_master weft_master_t; /* Thread-safe. */

/* What there are kernels for. The master has none of its own: the server provides the functions. */
typedef struct weft_kernel_support {
  uint32_t (*types)(const weft_node_t *node);         /* bit i: the i-th driver of weft_device_drivers() */
  weft_status_t *(*missing)(const weft_node_t *node); /* the failure of a step that needs a node without */
} weft_kernel_support_t;

typedef struct weft_master_options {
  weft_str_t task;                /* the master's own; copied */
  weft_worker_cache_t *cache;     /* all tasks, its own included; borrowed */
  weft_cluster_maker_t *clusters; /* for ConfigProto.cluster_def; borrowed; NULL: such sessions are refused */
  const weft_kernel_support_t *kernels; /* lives as long as the process */
  const weft_evaluator_t *evaluator;    /* for constants; copied; NULL: none but shapes are folded */
  const weft_pass_settings_t *passes;   /* of sessions without a word of their own; copied; NULL: all */
  weft_str_t collective_leader; /* the task that draws step ids of collective graphs; copied; empty: the
                                   master's own */
  int64_t discovery_timeout_ms; /* how long a session's creation waits for tasks of which nothing is known; 0:
                                   a minute */
  int64_t client_grace_ms; /* how long a session waits for its client to come back; 0: a minute; below 0: for
                              ever */
  bool is_direct;          /* serves its own process alone: failures do not name a task */
} weft_master_options_t;

WEFT_MUST_CHECK weft_status_t *weft_master_create(const weft_master_options_t *o, weft_master_t **out);
void weft_master_stop(weft_master_t *m);    /* cancels all steps and pending session creations */
void weft_master_destroy(weft_master_t *m); /* stops and waits; NULL is fine */

int64_t weft_master_num_sessions(weft_master_t *m);

/* The master as a client in its own process: what a local session uses. */
WEFT_MUST_CHECK weft_status_t *weft_local_master_client_create(weft_master_t *m, weft_master_client_t **out);

#endif /* WEFT_MASTER_MASTER_H_ */
