/* graph/graph.h - nodes, edges and functions in memory.
 *
 * A graph owns its nodes and their edges, which die with it. What a node is described by (name, attributes,
 * types, shapes) lies in the graph's store, is never changed, and is shared with copies of the node in other
 * graphs (graph/graph_store.h). Data inputs are arrays of (node, output index); control inputs are a
 * list of nodes. Edges are kept at the consumer only: code that needs consumers
 * builds a weft_fanout_t, which is linear. Node ids are dense at creation; a
 * removed node leaves a hole (NULL) in weft_graph_t.nodes.
 *
 * Thread-compatible: any number of readers, or one writer.
 */
#ifndef WEFT_GRAPH_GRAPH_H_
#define WEFT_GRAPH_GRAPH_H_

#include "base/hash_map.h"
#include "graph/graph_store.h"
#include "graph/node_index.h"
#include "ops/op.h"

typedef struct weft_node weft_node_t;
typedef struct weft_graph weft_graph_t;
typedef struct weft_function weft_function_t;
typedef struct weft_function_library weft_function_library_t;

typedef struct weft_output {
  weft_node_t *node;
  int index;
} weft_output_t;

struct weft_node {
  weft_str_t name;           /* '\0'-ended */
  const weft_op_def_t *op;   /* for a call of a function by name: the function's signature */
  weft_function_t *function; /* set when op names a function of the library; else NULL */
  weft_str_t requested_device;
  weft_str_t assigned_device; /* full name once placed; empty before. Interned per graph: compare pointers */
  weft_output_t *inputs;      /* num_inputs */
  weft_node_t **controls;     /* num_controls; no duplicates */
  const weft_named_attr_t *attrs;    /* num_attrs, sorted by name; op defaults filled in, '_' attributes kept.
                                        Nodes share lists; each counts the tensors in its own */
  const int *input_types;            /* num_inputs; may be ref types */
  const int *output_types;           /* num_outputs */
  const weft_shape_t *output_shapes; /* num_outputs, or NULL before inference */
  uint64_t flags;                    /* copy of op->flags */
  int id;                            /* index in the graph's nodes */
  int mark;                          /* scratch for the pass that runs now */
  int num_inputs, num_controls, num_attrs, num_outputs;
};

struct weft_graph {
  weft_graph_store_t *store; /* retained: names, attributes, types, shapes */
  weft_arena_t *arena;       /* the store's */
  weft_arena_t records;      /* nodes and arrays of their edges */
  weft_node_t **nodes;       /* num_nodes ids; NULL where removed */
  int num_nodes;             /* ids given out */
  int num_live;
  int capacity;
  weft_node_index_t by_name;
  weft_map_t control_tables;        /* id -> table of controls.c, of nodes with many control inputs */
  weft_map_t strings;               /* interned: device names, op names */
  weft_map_t types, shapes;         /* interned: type lists, single shapes; many nodes share few */
  weft_map_t suffixes;              /* base name -> int64_t: the last number that made it unique */
  weft_function_library_t *library; /* owned, shared between copies; never NULL */
  int producer, min_consumer;       /* GraphDef.versions */
  const int *bad_consumers;
  int num_bad_consumers;
};

WEFT_MUST_CHECK weft_status_t *weft_graph_create(weft_graph_t **out);
void weft_graph_destroy(weft_graph_t *g); /* NULL is fine */

/* What a new node is made of; everything is copied (tensors retained). */
typedef struct weft_node_spec {
  weft_str_t name, op, device;
  const weft_output_t *inputs;
  int num_inputs;
  weft_node_t *const *controls;
  int num_controls;
  const weft_named_attr_t *attrs; /* any order; defaults are filled in */
  int num_attrs;
} weft_node_spec_t;

/* Adds a node. Type attributes that the inputs determine may be left out.
 * Errors (message names the node): INVALID_ARGUMENT name (bad or taken), NOT_FOUND op ("Op type not
 * registered 'X'..."), INVALID_ARGUMENT attributes, input count or dtypes ("Input 'b' of 'MatMul' Op has type
 * int32 that does not match type float of argument 'a'."-like, as TensorFlow words it at import). */
WEFT_MUST_CHECK weft_status_t *weft_graph_add(weft_graph_t *g, const weft_node_spec_t *spec,
                                              weft_node_t **out);
/* Nothing if it is one already. Constant time, however many there are. */
WEFT_MUST_CHECK weft_status_t *weft_graph_add_control(weft_graph_t *g, weft_node_t *from, weft_node_t *to);
/* The index of the control input `from` of `n`, or -1. Constant time, too. */
WEFT_MUST_CHECK weft_status_t *weft_graph_find_control(weft_graph_t *g, weft_node_t *n,
                                                       const weft_node_t *from, int *out);
/* `from` takes the place of control input `i`. */
WEFT_MUST_CHECK weft_status_t *weft_graph_replace_control(weft_graph_t *g, weft_node_t *n, int i,
                                                          weft_node_t *from);
void weft_graph_clear_controls(weft_graph_t *g, weft_node_t *n);
void weft_graph_set_input(weft_node_t *n, int input, weft_output_t from);
/* Appends a data input to a node whose signature was extended by hand (Merge of a loop, ...). */
WEFT_MUST_CHECK weft_status_t *weft_graph_set_attr(weft_graph_t *g, weft_node_t *n, const char *name,
                                                   const weft_attr_t *value);
WEFT_MUST_CHECK weft_status_t *weft_graph_clear_attr(weft_graph_t *g, weft_node_t *n,
                                                     const char *name); /* nothing if it has none such */
/* Gives `n` another name, which is in the graph's arena and not taken. */
WEFT_MUST_CHECK weft_status_t *weft_graph_rename(weft_graph_t *g, weft_node_t *n, weft_str_t name);
void weft_graph_remove(weft_graph_t *g, weft_node_t *n);              /* it must have no consumers */
weft_node_t *weft_graph_find(const weft_graph_t *g, weft_str_t name); /* NULL if absent */
/* `base`, or base_1, base_2, ... : a name that is not taken. In the graph's arena; data NULL without memory.
 */
weft_str_t weft_graph_unique_name(weft_graph_t *g, weft_str_t base);
weft_str_t weft_graph_intern(weft_graph_t *g, weft_str_t text); /* '\0'-ended; data NULL without memory */
/* A copy with nodes and edges of its own; ids are compacted; the library and what describes nodes are shared.
 */
WEFT_MUST_CHECK weft_status_t *weft_graph_copy(const weft_graph_t *g, weft_graph_t **out);

/* A copy of `n` in `g`, with the same name, op, attributes, types and devices, and no
 * inputs: num_inputs entries of {NULL, 0}, to be set by the caller; controls are added with
 * weft_graph_add_control. `from`: the graph whose store, or that of `g`, has what `n` is described by; `g`
 * keeps it. No checks: the node was valid where it is. Errors: RESOURCE_EXHAUSTED; ALREADY_EXISTS name. */
WEFT_MUST_CHECK weft_status_t *weft_graph_clone_node(weft_graph_t *g, const weft_graph_t *from,
                                                     const weft_node_t *n, weft_node_t **out);

/* Makes room for `num_nodes` more nodes, where their number is known. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_graph_reserve(weft_graph_t *g, int num_nodes);

/* Takes, and gives up, a count of each tensor in a list of attributes. */
void weft_attrs_retain_tensors(const weft_named_attr_t *attrs, int num_attrs);
void weft_attrs_release_tensors(const weft_named_attr_t *attrs, int num_attrs);
/* Gives up the attributes of a node, for others to be set. */
void weft_node_drop_attrs(weft_node_t *n);

/* Attribute access for passes and kernels: the node surely has its op's attributes. */
const weft_attr_t *weft_node_attr(const weft_node_t *n, const char *name); /* NULL if absent */
int64_t weft_node_attr_int(const weft_node_t *n, const char *name, int64_t otherwise);
bool weft_node_attr_bool(const weft_node_t *n, const char *name, bool otherwise);
weft_str_t weft_node_attr_string(const weft_node_t *n, const char *name); /* "" if absent */
int weft_node_attr_type(const weft_node_t *n, const char *name);          /* 0 if absent */
/* "{{node n}} = MatMul[T=DT_FLOAT, ...](a, b)" */
void weft_node_print(const weft_node_t *n, weft_strbuf_t *out);

/* Parses "name:index" or "name" (index 0). False if it is neither. "^name" is refused. */
bool weft_tensor_name_parse(weft_str_t text, weft_str_t *name, int *index);

/* Consumers of each node, in compressed rows. edges[begin[id]..begin[id+1]). */
typedef struct weft_fanout_edge {
  weft_node_t *to;
  int output; /* of the producer; -1: control */
  int input;  /* of the consumer; -1: control */
} weft_fanout_edge_t;
typedef struct weft_fanout {
  int *begin; /* num_nodes + 1 */
  weft_fanout_edge_t *edges;
} weft_fanout_t;
WEFT_MUST_CHECK weft_status_t *weft_fanout_build(const weft_graph_t *g, weft_fanout_t *out);
void weft_fanout_deinit(weft_fanout_t *f);

/* Nodes in an order where producers come first; edges out of NextIteration are ignored. *out has num_live
 * entries; free with weft_free. Errors: INVALID_ARGUMENT naming nodes of a cycle outside loops. */
WEFT_MUST_CHECK weft_status_t *weft_graph_topological_order(const weft_graph_t *g, weft_node_t ***out);

#endif /* WEFT_GRAPH_GRAPH_H_ */
