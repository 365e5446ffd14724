/* client/strategy/scope.h - what a graph knows of the strategy whose scope is open on it.
 *
 * The state hangs at the TF_Graph from the first use until the graph dies. One
 * thread builds at a time (with WEFT_TRACE_EACH one replica's thread at a time), so there
 * is no lock here; nodes are added under the graph's own.
 */
#ifndef WEFT_CLIENT_STRATEGY_SCOPE_H_
#define WEFT_CLIENT_STRATEGY_SCOPE_H_

#include "client/graph.h"
#include "strategies/emit.h"
#include "strategies/shard.h"
#include "weft/strategy.h"

typedef enum weft_strategy_kind {
  WEFT_KIND_REPLICAS, /* one device, mirrored, multi-worker mirrored: a copy of each variable per replica */
  WEFT_KIND_CENTRAL,
  WEFT_KIND_PARTS, /* parameter servers */
} weft_strategy_kind_t;

struct WEFT_Strategy { /* Immutable. */
  weft_arena_t arena;
  weft_strategy_kind_t kind;
  weft_str_t *devices; /* by replica; '\0'-ended. Of PARTS: one, "" */
  int num_replicas, num_pipelines;
  weft_str_t *parameter_devices; /* of CENTRAL one, of PARTS the servers */
  int num_parameter_devices;
  weft_partitioner_t partitioner; /* of PARTS */
  weft_str_t algorithm;           /* '\0'-ended */
  int64_t bytes_per_pack;
  double timeout_s;
};

typedef enum weft_variable_kind {
  WEFT_VARIABLE_PLAIN,
  WEFT_VARIABLE_MIRRORED,
  WEFT_VARIABLE_ON_READ,
  WEFT_VARIABLE_PARTS
} weft_variable_kind_t;

typedef struct weft_component {
  TF_Output handle;
  TF_Operation *init;
  weft_str_t device;   /* '\0'-ended */
  int64_t begin, rows; /* of a part */
} weft_component_t;

struct WEFT_Variable { /* In the scope's arena. Constant once made. */
  WEFT_Variable *next; /* in the order they were made */
  TF_Graph *graph;
  weft_str_t name;
  weft_variable_kind_t kind;
  WEFT_Aggregation aggregation;
  int dtype;
  weft_shape_t shape;
  weft_component_t *components;
  int num_components;
};

typedef enum weft_context {
  WEFT_CONTEXT_NONE,
  WEFT_CONTEXT_CROSS,
  WEFT_CONTEXT_REPLICA,
  WEFT_CONTEXT_UPDATE
} weft_context_t;

typedef struct weft_creator weft_creator_t;
struct weft_creator {
  weft_creator_t *below;
  WEFT_VariableCreator fn;
  void *user;
};

/* Where the graph's builder is. */
typedef struct weft_place {
  weft_context_t context;
  int replica;                      /* of REPLICA */
  int component;                    /* of UPDATE */
  WEFT_ReplicaContext *replica_run; /* of REPLICA */
  weft_str_t prefix, device;        /* of new operations; '\0'-ended */
} weft_place_t;

typedef struct weft_scope {
  weft_arena_t arena;
  WEFT_Strategy *strategy; /* borrowed; NULL: no scope is open */
  int depth;
  weft_place_t place;
  weft_creator_t *creators; /* in the arena */
  WEFT_Variable *variables, **last_variable;
  int num_variables;
  int next_server;       /* round robin */
  int64_t next_instance; /* of collectives */
  weft_map_t
      shared; /* node ids (+ 1) in the middle of a replica's function that are no replica's: variables */
} weft_scope_t;

/* The graph's state, made at first. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_scope_of(TF_Graph *g, weft_scope_t **out);
/* The same where a scope must be open, in one of the contexts of `allowed` (bits 1 << weft_context_t). `what`
 * is the function for the message. Errors: FAILED_PRECONDITION. */
WEFT_MUST_CHECK weft_status_t *weft_scope_check(TF_Graph *g, const WEFT_Strategy *strategy, unsigned allowed,
                                                const char *what, weft_scope_t **out);
/* Goes to another place, and tells the graph the prefix and device of new operations; returns where we were.
 */
weft_place_t weft_scope_go(TF_Graph *g, weft_scope_t *s, weft_place_t to);
static inline weft_place_t weft_cross_place(void) {
  return (weft_place_t){.context = WEFT_CONTEXT_CROSS, .prefix = WEFT_STR(""), .device = WEFT_STR("")};
}

/* Adding nodes: between begin and end the graph is locked, and `e` adds to it. */
typedef struct weft_adding {
  weft_emitter_t e;
  TF_Graph *graph;
  int first_id;
} weft_adding_t;
void weft_adding_begin(weft_adding_t *b, TF_Graph *g, weft_str_t device);
WEFT_MUST_CHECK weft_status_t *weft_adding_end(weft_adding_t *b);
/* After the end: what the API's caller gets. {NULL, 0} for nothing. */
TF_Output weft_adding_output(const weft_adding_t *b, weft_output_t o);
TF_Operation *weft_adding_operation(const weft_adding_t *b, weft_node_t *n);

struct WEFT_Value { /* Immutable. */
  int n;            /* 1: plain */
  bool is_mirrored;
  TF_Output outputs[];
};
WEFT_MUST_CHECK weft_status_t *weft_value_new(const TF_Output *outputs, int n, bool is_mirrored,
                                              WEFT_Value **out);
static inline TF_Output weft_value_of(const WEFT_Value *v, int replica) {
  return v->outputs[v->n == 1 ? 0 : replica];
}

/* Reduces values[k] (each `n` tensors, one per replica) and puts the result on every replica: out[k * n + i].
 * By collectives where there are several devices, packed as the strategy says. MEAN divides the sum. The
 * graph is not locked. */
WEFT_MUST_CHECK weft_status_t *weft_all_reduce(TF_Graph *g, weft_scope_t *s, WEFT_ReduceOp op,
                                               const TF_Output *values, int num_values, TF_Output *out);
/* The reduction on one device only. */
WEFT_MUST_CHECK weft_status_t *weft_reduce_to_one(TF_Graph *g, WEFT_ReduceOp op, const TF_Output *values,
                                                  int n, weft_str_t device, TF_Output *out);

/* Inside a replica's function: all replicas come together. fn gets values of all replicas ([arg * replicas +
 * replica]) in cross-replica context and gives results alike; *out_op (may be NULL) is the same for all. */
typedef weft_status_t *weft_merge_fn(TF_Graph *g, weft_scope_t *s, const TF_Output *args, int num_args,
                                     TF_Output *results, int num_results, TF_Operation **op, void *user);
WEFT_MUST_CHECK weft_status_t *weft_merge(WEFT_ReplicaContext *c, weft_merge_fn *fn, void *user,
                                          const TF_Output *args, int num_args, TF_Output *results,
                                          int num_results, TF_Operation **out_op);

/* Turns what a public call left in `status` into ours (owned). */
WEFT_MUST_CHECK weft_status_t *weft_status_taken(TF_Status *status);

#endif /* WEFT_CLIENT_STRATEGY_SCOPE_H_ */
