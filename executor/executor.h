/* executor/executor.h - a partition compiled to a flat plan, and the running of steps on it.
 *
 * A plan is struct-of-arrays over nodes: kernel, input slots, out-edges in
 * compressed rows, initial pending counts, flags. A step is one block of memory.
 * Graphs without control flow never touch frame code. A node of a device with queues is done when its work is
 * enqueued; the step is done when all its work is. Source of the semantics:
 * TensorFlow's executor as restated in the reference, 3.9.
 */
#ifndef WEFT_EXECUTOR_EXECUTOR_H_
#define WEFT_EXECUTOR_EXECUTOR_H_

#include "graph/graph.h"
#include "kernels/kernel.h"

typedef struct weft_exec_plan
    weft_exec_plan_t; /* Immutable, Thread-safe, refcounted. Any number of steps at once. */

/* Keeps the kernels of stateful nodes by node name over all plans of a session, so that a random generator or
 * a private queue goes on where it was. Thread-safe. */
typedef struct weft_op_segment weft_op_segment_t;
WEFT_MUST_CHECK weft_status_t *weft_op_segment_create(weft_op_segment_t **out);
weft_op_segment_t *weft_op_segment_retain(weft_op_segment_t *s);
void weft_op_segment_release(weft_op_segment_t *s); /* plans hold a reference, too */

typedef struct weft_functions weft_functions_t; /* executor/functions.h */

typedef struct weft_plan_options {
  weft_device_t *device; /* borrowed; must outlive the plan. All nodes run on it, but for `devices` */
  weft_device_t *const
      *devices;    /* num_devices of one pool, `device` among them; likewise. Each node runs on the one
                      whose name is its assigned_device, `device` if it has none. Between devices with
                      memories of their own values are copied; one device must be the host's */
  int num_devices; /* 0: only `device`, whatever the nodes are assigned to */
  weft_op_segment_t *segment; /* retained; NULL: the plan's own */
  weft_str_t session;         /* copied */
  const weft_kernel_table_t
      *kernels; /* looked at before the device type's own; NULL: only those. Must outlive the plan */
  weft_functions_t *functions; /* that its nodes call; lent by what owns the plan, too; NULL: the segment's */
  bool only_schedules;         /* nothing is run serially, and no updates together in the host's memory: to
                                  compare results */
} weft_plan_options_t;

/* Compiles a graph. The graph may be destroyed afterwards.
 * Errors: INVALID_ARGUMENT "<name> unknown device.", "No OpKernel was registered to support Op '...' used by
 * {{node ...}}...", what kernels' prepare functions say (with the node), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_plan_create(const weft_graph_t *g, const weft_plan_options_t *options,
                                                weft_exec_plan_t **out);
weft_exec_plan_t *weft_plan_retain(weft_exec_plan_t *p);
void weft_plan_release(weft_exec_plan_t *p); /* NULL is fine */
int weft_plan_num_nodes(const weft_exec_plan_t *p);

/* What a client feeds and fetches: top-level _Recv and _Send with client_terminated, in the host's memory. */
typedef struct weft_client_edges {
  weft_str_t *feeds, *fetches; /* their rendezvous keys, each once */
  int num_feeds, num_fetches;
} weft_client_edges_t;
const weft_client_edges_t *weft_plan_client_edges(const weft_exec_plan_t *p); /* lives as long as the plan */
/* What each step receives from other devices, whatever it does: by the top-level _Recv nodes that no client
 * feeds. */
typedef struct weft_plan_receives {
  weft_str_t *keys; /* their rendezvous keys */
  int n;
} weft_plan_receives_t;
const weft_plan_receives_t *weft_plan_receives(const weft_exec_plan_t *p); /* lives as long as the plan */
/* What nodes keep from run to run (weft_kernel_keeping_t), appended; nothing if none does. And back: into
 * nodes of the same names. No run may be under way. Errors of load: INVALID_ARGUMENT: there is no such node;
 * DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_plan_save_kept(const weft_exec_plan_t *p, weft_strbuf_t *out);
WEFT_MUST_CHECK weft_status_t *weft_plan_load_kept(const weft_exec_plan_t *p, weft_str_t from);

/* What one node did, for step statistics. Times in nanoseconds of weft_clock_ns(). */
typedef struct weft_node_stats {
  const weft_kernel_node_t *node; /* lives as long as the plan */
  int64_t scheduled_ns, start_ns, end_ns;
  uint32_t thread; /* small number of the thread */
  int num_outputs;
  weft_dtype_t first_dtype; /* of output 0; 0 if none */
  weft_shape_t first_shape;
  size_t input_bytes, output_bytes;
  int64_t flops; /* by the shapes (ops/cost.h); -1: not known */
} weft_node_stats_t;
typedef struct weft_step_recorder { /* filled by the run; Thread-compatible: read it after done. */
  weft_mutex_t mu;
  weft_node_stats_t *stats; /* owned */
  size_t count, capacity;
} weft_step_recorder_t;
void weft_step_recorder_init(weft_step_recorder_t *r);
void weft_step_recorder_deinit(weft_step_recorder_t *r);

/* Which node each input of a plan's nodes comes from. Copies between memories, which a plan adds, are left
 * out. */
typedef struct weft_plan_inputs weft_plan_inputs_t; /* Thread-compatible. */
/* The plan must live as long. Linear in the plan. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_plan_inputs_create(const weft_exec_plan_t *p, weft_plan_inputs_t **out);
void weft_plan_inputs_destroy(weft_plan_inputs_t *x); /* NULL is fine */
/* Appends the inputs of `n`, a node that a recorder has of the plan: "x, y:1". */
void weft_plan_inputs_print(const weft_plan_inputs_t *x, const weft_kernel_node_t *n, weft_strbuf_t *out);

typedef struct weft_run_options {
  weft_step_t step;         /* copied; what it points to must live until done */
  weft_thread_pool_t *pool; /* where nodes run; NULL: the device's */
  bool run_inline;          /* start on the calling thread instead of on the pool: for short steps */
  /* In the order of the plan's client edges, and there until done. Feeds are taken out, one reference each,
   * and fetches put in; NULL: a dead one. `feeds` NULL: all of them go through the rendezvous instead. */
  weft_tensor_t **feeds, **fetches;
  weft_step_recorder_t *recorder; /* NULL: no statistics, no cost */
} weft_run_options_t;

/* Called once, on any thread, when no node of the step is running any more. Owns status: the first failure,
 * with " [[{{node NAME}}]]" appended. All references that the step held are gone. */
typedef void weft_plan_done_fn(void *arg, weft_status_t *status);

/* Runs all nodes of the plan once. After the first failure nothing new is started, the rendezvous is aborted
 * with it and the canceller (step.canceller, if any) is cancelled, so that all waits return. */
void weft_plan_run(weft_exec_plan_t *p, const weft_run_options_t *options, weft_plan_done_fn *done,
                   void *arg);
/* The same for callers that have nothing else to do: waits. */
WEFT_MUST_CHECK weft_status_t *weft_plan_run_sync(weft_exec_plan_t *p, const weft_run_options_t *options);

#endif /* WEFT_EXECUTOR_EXECUTOR_H_ */
