/* client/graph.h - TF_Graph and TF_Operation: our graph, with consumers kept up to date.
 *
 * A TF_Operation stands for one node. It lists the consumers of its outputs. Our graphs keep edges only at
 * the consumer, so each node that enters the graph is announced once, by weft_client_graph_sync_locked().
 */
#ifndef WEFT_CLIENT_GRAPH_H_
#define WEFT_CLIENT_GRAPH_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "tensorflow/c/c_api.h"

typedef struct weft_client_edge weft_client_edge_t;
struct weft_client_edge {
  weft_client_edge_t *next;
  TF_Operation *to;
  int output; /* of the producer; -1: control */
  int input;  /* of the consumer; -1: control */
};

struct TF_Operation {
  weft_node_t *node;
  TF_Graph *graph;
  weft_client_edge_t *first, *last;  /* guarded by the graph's mu: consumers, in the order they came */
  _Atomic(const weft_str_t *) names; /* "node:0", ...: made at the first feed or fetch, then constant */
};

/* Thread-safe. Refcounted: one reference is the caller's, one each session's. */
struct TF_Graph {
  atomic_int refs;
  weft_mutex_t mu;
  weft_graph_t
      *graph; /* guarded by mu, as all below; nodes do not move and are constant but for rare edits */
  weft_inference_t *inference;
  weft_arena_t arena;        /* operations, edges, names */
  TF_Operation **operations; /* owned; by node id; NULL where there is no node */
  int num_operations, capacity;
  atomic_int size;                          /* node ids given out: sessions look at it without the lock */
  struct weft_client_set_shape *set_shapes; /* what callers said of shapes; in the arena */
  struct weft_client_loop *loop; /* of the graph of a loop's condition: what the loop is made of; borrowed */
  weft_str_t name_prefix,
      default_device; /* of operations that are made from now on; set by the one thread that builds */
  struct weft_scope *strategy_scope; /* client/strategy/scope.h; owned; NULL: none was ever open */
  void (*free_strategy_scope)(void *scope);
};

void weft_client_graph_retain(TF_Graph *g);
void weft_client_graph_release(TF_Graph *g);

/* Makes operations for all new nodes. On failure some may be missing: call it again. */
WEFT_MUST_CHECK weft_status_t *weft_client_graph_sync_locked(TF_Graph *g) WEFT_REQUIRES(g->mu);
/* All consumers anew, when all nodes have operations: after a pass that changed inputs of nodes. */
WEFT_MUST_CHECK weft_status_t *weft_client_graph_relink_locked(TF_Graph *g) WEFT_REQUIRES(g->mu);
/* The operation of a node of this graph that was synced. */
static inline TF_Operation *weft_client_operation(const TF_Graph *g, const weft_node_t *n) {
  return g->operations[n->id];
}
/* Infers the shapes of the nodes from `first_id` on, in an order that allows for nodes before their inputs.
 */
WEFT_MUST_CHECK weft_status_t *weft_client_graph_infer(weft_graph_t *g, weft_inference_t *inference,
                                                       int first_id);
/* Enters or removes the record of one edge, after the node's own was changed. */
WEFT_MUST_CHECK weft_status_t *weft_client_edge_add_locked(TF_Graph *g, TF_Operation *from, TF_Operation *to,
                                                           int output, int input) WEFT_REQUIRES(g->mu);
void weft_client_edge_remove_locked(TF_Graph *g, TF_Operation *from, const TF_Operation *to, int output,
                                    int input) WEFT_REQUIRES(g->mu);
/* Merges what is known of an output's shape with `shape`. Errors: INVALID_ARGUMENT if they contradict. */
WEFT_MUST_CHECK weft_status_t *weft_client_set_shape_locked(TF_Graph *g, weft_output_t o,
                                                            const weft_shape_t *shape) WEFT_REQUIRES(g->mu);
/* The shapes that callers set, once more: after a pass inferred all shapes anew. */
void weft_client_reset_shapes_locked(TF_Graph *g) WEFT_REQUIRES(g->mu);
/* After functions were added: a graph with any says that readers must know functions. */
void weft_client_note_functions_locked(TF_Graph *g) WEFT_REQUIRES(g->mu);
/* A GraphDef of the nodes from `first_id` on, with all functions and the versions. */
WEFT_MUST_CHECK weft_status_t *weft_client_export_locked(TF_Graph *g, int first_id, weft_strbuf_t *out)
    WEFT_REQUIRES(g->mu);

/* NOT_FOUND, as TensorFlow says that there is no such op. */
WEFT_MUST_CHECK weft_status_t *weft_client_unknown_op(const char *name);
/* "node:index"; lent as long as the graph; data NULL without memory. Thread-safe. */
weft_str_t weft_client_tensor_name(TF_Output o);
static inline weft_output_t weft_client_output(TF_Output o) {
  return (weft_output_t){o.oper == NULL ? NULL : o.oper->node, o.index};
}

#endif /* WEFT_CLIENT_GRAPH_H_ */
