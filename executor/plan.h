/* executor/plan.h - what a plan is made of. Private to the executor.
 *
 * Nodes are numbered so that those of one frame are adjacent and, within a
 * frame, producers come first (but for edges out of NextIteration). So the state
 * of one iteration of a frame is dense arrays indexed by node - first_node and
 * slot - first_slot. Frame 0 is the top level.
 *
 * Hot data of a node are 32 bytes; what only a running kernel needs lies apart.
 */
#ifndef WEFT_EXECUTOR_PLAN_H_
#define WEFT_EXECUTOR_PLAN_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "executor/functions.h"
#include "ops/chain.h"

typedef struct weft_run run_t;
typedef struct weft_commands weft_commands_t;               /* commands.h */
typedef struct weft_command_buffers weft_command_buffers_t; /* likewise */
typedef struct frame frame_t;
typedef struct serial_program serial_program_t; /* serial.h */

typedef enum node_kind {
  NODE_NOOP,     /* nothing to do, no data */
  NODE_CONST,    /* hands out plan->consts[extra] */
  NODE_FORWARD,  /* output 0 is input 0 */
  NODE_MERGE,    /* extra: its side word */
  NODE_SYNC,     /* extra: its task, if NODE_COSTLY; aux: its cost */
  NODE_QUEUE,    /* of a device with queues: its kernel enqueues */
  NODE_COMMANDS, /* extra: which of plan->commands; its slots are inputs, other values, outputs */
  NODE_ASYNC,    /* extra: where its async_op_t lies, in units of 16 bytes */
  NODE_LOOP,     /* the first Enter of a frame that may run serially: its gate */
} node_kind_t;

enum {
  NODE_COSTLY = 1 << 0,    /* may be worth another thread; what it costs is measured */
  NODE_RUNS_DEAD = 1 << 1, /* sends and receives */
  NODE_TRIGGER = 1 << 2,   /* never dead */
  NODE_REF_INPUT = 1 << 3, /* some input comes from a reference output */
  NODE_UNINIT_OK = 1 << 4,
  NODE_ENTER = 1 << 5,           /* aux: the frame it enters */
  NODE_CONST_ENTER = 1 << 6,     /* extra: its place among the frame's invariants */
  NODE_EXIT = 1 << 7,            /* extra: its place among the frame's exits */
  NODE_NEXT_ITERATION = 1 << 8,  /* extra: its place among the frame's parked values */
  NODE_MAY_LACK_OUTPUT = 1 << 9, /* Switch, Recv */
  NODE_COMMUNICATION = 1 << 10,
  NODE_BIG_OUTPUTS = 1 << 11, /* outputs lie in slots behind its inputs */
  NODE_INDEX_USED = 1 << 12,  /* a Merge whose value_index has consumers */
  NODE_FEED = 1 << 13,        /* a client's _Recv; aux: which of the feeds */
  NODE_FETCH = 1 << 14,       /* a client's _Send; aux: which of the fetches */
  NODE_LASTS = 1 << 15,       /* a handle, the same in each step until something is deleted */
  NODE_CLIENT = NODE_FEED | NODE_FETCH,
  NODE_CROSSES = NODE_ENTER | NODE_EXIT | NODE_NEXT_ITERATION,
};

typedef struct plan_node {
  uint32_t first_edge;    /* data edges, sorted by output; they end where the next node's begin */
  uint32_t first_control; /* control edges, likewise */
  uint32_t first_slot;
  uint32_t num_inputs;
  uint32_t extra, aux; /* see above */
  uint16_t flags;
  uint8_t kind;
  uint32_t num_outputs;
} plan_node_t;

#define TO_MERGE UINT32_C(0x80000000) /* in an edge's `to`: the consumer is a Merge */

typedef struct plan_edge {
  uint32_t to, slot, output;
} plan_edge_t;

typedef struct plan_frame {
  int parent; /* -1: none */
  weft_str_t name;
  uint64_t name_hash;
  int ordinal; /* among its parent's children */
  int num_children;
  int num_enters;
  int max_parallel;
  uint32_t first_node, num_nodes, first_slot, num_slots;
  uint32_t num_merges, num_tasks;
  size_t async_bytes;
  uint32_t num_invariants, num_next, num_exits;
  uint32_t *invariants, *nexts, *exits;                                        /* nodes by ordinal */
  size_t sides_at, links_at, tasks_at, async_at, children_at, slots_at, bytes; /* an iteration's block */
  frame_t *free; /* guarded by the plan's mu; recycled frames */
  /* Of a frame that may run serially (serial.h): */
  serial_program_t *program; /* NULL: the frame is scheduled */
  uint32_t *order;           /* num_order nodes, producers first; of the Enters of a frame inside the first */
  uint32_t *enters;          /* num_enters; the first one is the gate */
  uint32_t num_order;
  uint32_t task, cost;      /* the gate's, as a costly node's */
  atomic_uint heavy_starts; /* 0: it is worth one thread only; else it is scheduled, and starts are counted */
} plan_frame_t;

/* What a running kernel, and statistics, need of a node. */
typedef struct plan_setup {
  weft_kernel_node_t node;        /* its name and types lie in the plan's store, */
  const weft_named_attr_t *attrs; /* as these; their tensors are retained */
  int num_attrs;
  bool shares_state; /* the segment destroys the node's state */
} plan_setup_t;

typedef struct weft_op_instance {
  const weft_kernel_t *kernel;
  void *state; /* what prepare made */
} op_instance_t;

enum { MAX_FREE_RUNS = 16 };

struct weft_exec_plan {
  atomic_int refs;
  weft_arena_t arena;
  weft_graph_store_t *store; /* retained: of the graph that was compiled */
  uint32_t num_nodes;
  plan_node_t *nodes; /* num_nodes + 1: the last one ends the rows */
  plan_edge_t *edges;
  uint32_t *controls;
  uint32_t *words; /* initial state words */
  plan_setup_t *setups;
  op_instance_t *instances;
  weft_tensor_t **consts;    /* num_consts; retained */
  weft_commands_t *commands; /* num_commands */
  atomic_uint *costs;        /* num_costs; see step.h */
  uint32_t *roots;           /* num_roots nodes that wait for nothing */
  plan_frame_t *frames;
  uint32_t num_consts, num_costs, num_roots, num_commands;
  int num_frames;
  bool has_frames, has_async;
  weft_client_edges_t client_edges; /* in the arena */
  weft_plan_receives_t receives;    /* likewise */
  weft_device_t *device;            /* borrowed; its pool runs the plan */
  weft_queue_t **queues;            /* num_queues; of the devices whose kernels the plan runs; lent */
  uint32_t num_queues;
  weft_op_segment_t *segment;  /* retained; may be NULL */
  weft_functions_t *functions; /* its own, where there are neither a segment nor the options' */
  weft_mutex_t mu;             /* a leaf */
  run_t *free_runs;            /* guarded by mu */
  atomic_uint num_runs;        /* that were measured; of a plan with a program */
  atomic_bool is_light;        /* one thread is best: its program is run */
  int num_free_runs;           /* guarded by mu */
};

/* What plan_create() knows while it builds. */
typedef struct plan_builder {
  weft_exec_plan_t *plan;
  const weft_plan_options_t *options;
  const weft_graph_t *graph;
  const weft_command_buffers_t *buffers; /* NULL: none */
  function_source_t functions;
  weft_node_t **order; /* owned; by new number once frames are known */
  uint32_t *number;    /* owned; new number by graph id */
  int *frame_of;       /* owned; frame by graph id */
  int *entered;        /* owned; of Enters: the frame that they enter, by graph id */
  bool *feeds_update;  /* owned; makes what an update applies, by graph id */
  uint32_t num_edges, num_controls;
} plan_builder_t;

/* plan_frames.c: assigns frames, sorts b->order and fills b->number. */
WEFT_MUST_CHECK weft_status_t *weft_plan_assign_frames(plan_builder_t *b);
/* plan_nodes.c: kernels, kinds, slots, edges. */
WEFT_MUST_CHECK weft_status_t *weft_plan_add_nodes(plan_builder_t *b);
/* plan_serial.c: which frames may run serially, behind everything else but the blocks' layout. */
WEFT_MUST_CHECK weft_status_t *weft_plan_find_serial(weft_exec_plan_t *p);
/* kernel_node.c: what the kernel `k`, which may be NULL, is told of `n`. Lends what the graph has. */
void weft_plan_describe(const plan_builder_t *b, const weft_node_t *n, weft_device_t *d,
                        const weft_kernel_t *k, weft_kernel_setup_t *out);
/* kernel_node.c: what the plan keeps of that; tensors are retained until weft_attrs_release_tensors. */
void weft_plan_setup_set(const weft_kernel_setup_t *seen, plan_setup_t *out);
/* plan_find.c: the device and the kernel (NULL: none) of a node; of a copy what it copies, else `n`, for
 * messages. */
WEFT_MUST_CHECK weft_status_t *weft_plan_find_device(const weft_plan_options_t *o, const weft_node_t *n,
                                                     weft_device_t **out);
const weft_kernel_t *weft_plan_find_kernel(const weft_plan_options_t *o, const weft_node_t *n,
                                           const weft_device_t *d);
const weft_node_t *weft_plan_origin(const weft_node_t *n);
/* How large a chain on the node's device may be; NULL: `n` may not be a link. `finder`: a
 * chain_limits_finder_t, which remembers what it has found for ops, types and devices: attributes of links
 * say no more. */
const weft_chain_limits_t *weft_plan_chain_limits(void *finder, const weft_node_t *n);
/* A weft_may_attend_fn; `finder` likewise. */
bool weft_plan_may_attend(void *finder, const weft_node_t *n);
enum { CHAIN_LIMITS_KNOWN = 61 };
typedef struct chain_limits_known {
  const weft_op_def_t *op; /* NULL: nothing yet */
  const char *device;
  int operand, result;
  const weft_chain_limits_t *limits;
} chain_limits_known_t;
typedef struct chain_limits_finder {
  const weft_plan_options_t *options;
  chain_limits_known_t known[CHAIN_LIMITS_KNOWN];
} chain_limits_finder_t;
/* merge_updates.c: makes one node of many updates of variables, on devices that compute them at once. On
 * failure the graph is unusable: destroy it. */
WEFT_MUST_CHECK weft_status_t *weft_plan_merge_updates(const weft_plan_options_t *o, weft_graph_t *g);
/* Are there several nodes that it may make one? */
bool weft_plan_may_merge_updates(const weft_plan_options_t *o, const weft_graph_t *g);
/* memory_copies.c: is there a device with a memory of its own? Then copies between memories are to be put
 * into the graph. */
bool weft_plan_spans_memories(const weft_plan_options_t *o);
WEFT_MUST_CHECK weft_status_t *weft_plan_insert_copies(const weft_plan_options_t *o, weft_graph_t *g);
/* op_segment.c: the shared instance of a stateful node, made if need be. */
WEFT_MUST_CHECK weft_status_t *weft_op_segment_instance(weft_op_segment_t *s, const weft_kernel_t *kernel,
                                                        const weft_kernel_setup_t *setup, op_instance_t *out,
                                                        bool *out_is_shared);
/* kernel_node.c: copies what kernels see of a node into `arena`; tensors in attributes are retained until the
 * release. */
WEFT_MUST_CHECK weft_status_t *weft_kernel_setup_copy(weft_arena_t *arena, const weft_kernel_setup_t *from,
                                                      weft_kernel_setup_t *out);
void weft_kernel_setup_release(weft_kernel_setup_t *n);
/* kernel_node.c: what a kernel has made of an output, NULL: nothing. Errors, in TensorFlow's words: INTERNAL
 * if that is needed, or of another type than the node declares. */
WEFT_MUST_CHECK weft_status_t *weft_kernel_node_check(const weft_kernel_node_t *n, int output,
                                                      const weft_tensor_t *t, bool is_needed);
/* kernel_node.c: consumes `s` and returns it with "\n\t [[{{node NAME}}]]" behind its message, as TensorFlow
 * does. */
WEFT_MUST_CHECK weft_status_t *weft_status_attach_node(weft_status_t *s, weft_str_t node);
/* frame_memory.c */
void weft_run_free(run_t *run);
void weft_frame_free(frame_t *f);

#endif /* WEFT_EXECUTOR_PLAN_H_ */
