/* strategies/rewrite.h - what goes into a rewrite of a graph for a cluster, and what comes out.
 *
 * The graph goes in as it trains on one device; the same graph, with devices and
 * communication in it, comes out. What was fed, fetched and run by name before is
 * fed, fetched and run by the same names after, with the same meaning: a fetch of
 * a loss is the loss of the whole batch, a fetch of predictions has the rows of the
 * whole batch in order.
 */
#ifndef WEFT_STRATEGIES_REWRITE_H_
#define WEFT_STRATEGIES_REWRITE_H_

#include "graph/graph.h"
#include "sharding/sharding.h"

/* ---- in ---- */

typedef struct weft_task_devices { /* a task and its devices */
  weft_str_t task;                 /* "/job:worker/replica:0/task:1" */
  weft_str_t job;                  /* "worker" */
  int index, num_cpus;
  weft_str_t host;        /* "" if unknown */
  weft_str_t accelerator; /* the type of its other devices, "GPU": of several that which placement prefers */
  int num_accelerators;   /* 0: none, or not known */
} weft_task_devices_t;
typedef struct weft_cluster_view {
  const weft_task_devices_t *tasks;
  int num_tasks;
  int num_local_cpus; /* with one task: how many CPU devices it can be given; a local session takes what it is
                         told */
  double link_seconds, link_bytes_per_second; /* measured: what a message costs. 0: defaults */
} weft_cluster_view_t;

/* What will be done with the graph. All texts are names of the single-device graph, "node" or "node:0". */
typedef struct weft_names {
  const weft_str_t *items;
  int n;
} weft_names_t;
typedef struct weft_strategy_request {
  const weft_graph_t *graph; /* lent, unchanged */
  const weft_cluster_view_t *cluster;
  weft_names_t feeds, fetches, targets; /* of the training step */
  weft_names_t batches; /* of the feeds: those that are given rows of a batch; none: not known */
  weft_names_t inits;   /* targets that run before the steps (initialisers, restore) */
  weft_str_t options;   /* what stands behind "name:"; "" for none */
  bool is_one_session;  /* all worker loops run in one session, which owns the strategy's own clocks, queues
                           and  accumulators; else worker loops find them by name in the task's resources,
                           where  they outlive the sessions */
  uint64_t
      agreement; /* a number of the start state; clients of one graph with different numbers are refused */
} weft_strategy_request_t;

/* ---- out ---- */

typedef struct weft_cost { /* of a run of every worker loop; of what has a size that is known */
  double seconds;          /* communication of a step, predicted */
  int64_t bytes, messages; /* per step, over all links: between tasks, and between devices of a task */
  int64_t remote_bytes;    /* of these between tasks */
  double row_bytes, remote_row_bytes;         /* and so many more for each row of the batch */
  int num_unknown;                            /* crossings of unknown size */
  double link_seconds, link_bytes_per_second; /* what `seconds` takes a message to cost, and its bytes */
  int64_t bytes_per_replica;                  /* of variables kept on each replica's device */
} weft_cost_t;

/* A worker loop: a step that one thread of the client runs repeatedly. Synchronous strategies have one; in
 * asynchronous ones each worker has its own, and the chief may have another. */
typedef enum weft_worker_loop_kind {
  WEFT_WORKER_LOOP_STEP,   /* fed with a batch */
  WEFT_WORKER_LOOP_UPDATE, /* fed nothing: the chief's side of a synchronous update */
} weft_worker_loop_kind_t;
typedef struct weft_worker_loop {
  weft_worker_loop_kind_t kind;
  weft_str_t name;                      /* "worker 1" */
  weft_str_t task;                      /* the task with the nearest master; "": any */
  weft_names_t feeds, fetches, targets; /* in the request's order; names of the new graph */
  weft_str_t leave; /* a node to run when the loop's own data have ended: others no longer wait for it; "" */
} weft_worker_loop_t;
/* What goes from one device to another in a step (traffic.h). */
typedef enum weft_crossing_kind {
  WEFT_CROSSING_VALUE,
  WEFT_CROSSING_SIGNAL, /* that something is done: a message without bytes */
  WEFT_CROSSING_COLLECTIVE,
} weft_crossing_kind_t;
typedef struct weft_crossing {
  weft_str_t from, to, what; /* tasks or devices; "gradients of dense/kernel, bucket 2" */
  int64_t bytes;             /* per step, beside those of rows; -1 unknown */
  double row_bytes;          /* per row of the batch */
  weft_crossing_kind_t kind;
  int64_t messages;
  int loop;
  bool is_remote;                     /* between tasks */
  bool is_repeated;                   /* once in each iteration of a loop; counted once */
  const weft_node_t *source, *target; /* of the new graph; NULL: the client, or another worker's */
} weft_crossing_t;
/* A collective of a step. */
typedef struct weft_rewrite_collective {
  int64_t instance_key;
  weft_str_t op, what; /* "CollectiveReduceV2"; what it is for, for people */
  int64_t bytes;       /* of one member's value, beside those of rows; -1 unknown */
  double row_bytes;
  int size; /* members, other workers' too */
} weft_rewrite_collective_t;
/* A value of the graph for one device that is not equal on all replicas. */
typedef struct weft_rewrite_sharding {
  weft_str_t value;          /* "dense/MatMul:0" */
  weft_axis_sharding_t data; /* along the axis of replicas */
} weft_rewrite_sharding_t;
typedef struct weft_rewrite {
  weft_arena_t arena;
  const struct weft_strategy *strategy; /* set by weft_strategy_apply */
  weft_graph_t *graph;                  /* owned */
  weft_names_t inits; /* in the request's order, then what else must run before the first step */
  weft_worker_loop_t *loops;
  int num_loops;
  bool in_step;       /* with an update loop: the n-th run of each worker loop belongs to the n-th update */
  bool loops_wait;    /* a worker loop may wait in a run until others have run as often, or nearly */
  int num_local_cpus; /* CPU devices that a local session needs */
  int64_t collective_graph_key; /* for the RunOptions of every run, inits too, where other clients run the
                                   other replicas; 0: none */
  bool is_follower;             /* another client runs the first replica, which saves and tells the values */
  int round_steps;              /* updates come after so many steps each; 0, 1: with each step */
  weft_names_t
      reductions; /* nodes of the first replica whose values are summed over replicas, in the order in which
               they are thought to become ready; option `ready` tells when they did (step statistics) */
  weft_names_t replicas; /* devices by rank, other workers' too; none: worker loops are no replicas */
  weft_names_t shared;   /* feeds that are split by rows over replicas */
  weft_rewrite_collective_t
      *collectives; /* of the steps. `what` is set when one is created; the rest is measured */
  int num_collectives;
  weft_rewrite_sharding_t *shardings; /* of all values that are not Replicate */
  int num_shardings;
  weft_crossing_t *crossings;
  int num_crossings;
  weft_cost_t cost;
  weft_str_t *notes; /* what was done and why, a line each: for people */
  int num_notes;
} weft_rewrite_t;
void weft_rewrite_deinit(weft_rewrite_t *r);
WEFT_MUST_CHECK weft_status_t *weft_rewrite_note(weft_rewrite_t *r, const char *fmt, ...) WEFT_PRINTF(2, 3);
WEFT_MUST_CHECK weft_status_t *weft_rewrite_crossing(weft_rewrite_t *r, weft_str_t from, weft_str_t to,
                                                     weft_str_t what, int64_t bytes); /* copies */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_add_crossing(weft_rewrite_t *r,
                                                         const weft_crossing_t *c); /* texts are lent */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_sharding(weft_rewrite_t *r, weft_output_t value,
                                                     const weft_axis_sharding_t *data); /* copies */
/* Sets `what` of a collective of the new graph. `what` is copied. */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_collective(weft_rewrite_t *r, int64_t instance_key,
                                                       weft_str_t what);

#endif /* WEFT_STRATEGIES_REWRITE_H_ */
