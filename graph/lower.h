/* graph/lower.h - what the files that lower functional ops share; for this folder only.
 *
 * A lowered node stays in the graph under its name as an IdentityN of its results
 * (a NoOp if it has none), so that it can be fetched. At the end of the pass its
 * consumers are connected past it: data to the results themselves, control to a
 * node that is done when all the work of the call is. Only calls in the graph
 * itself keep their consumers: their results may be fed.
 */
#ifndef WEFT_GRAPH_LOWER_H_
#define WEFT_GRAPH_LOWER_H_

#include "graph/inline.h"

/* Functions around a node, innermost first: a function inside itself would never end. */
typedef struct weft_call_chain weft_call_chain_t;
struct weft_call_chain {
  const weft_function_t *function;
  const weft_call_chain_t *outer; /* NULL at the graph itself */
};

enum {
  WEFT_LOWER_GRADIENT_DEPTH = 32, /* each is a graph of its own, and recursion */
  WEFT_LOWER_DEPTH = 1000, /* functions in functions; TensorFlow 2.19 takes 14 s to start a step with 300 */
  WEFT_LOWER_NODES = 1 << 21,       /* that calls unfold to */
  WEFT_LOWER_NAME_BYTES = 512 << 20 /* of their names, which grow with the depth */
};

typedef struct weft_lowering weft_lowering_t;
struct weft_lowering {
  weft_graph_t *g;
  const weft_call_chain_t **chains; /* owned; by id; NULL for nodes of the graph itself */
  weft_node_t **done;               /* owned; by id; set for lowered nodes */
  int capacity;                     /* of both */
  int first_new_id;
  const uint8_t *which; /* by id: which of the nodes that were there are lowered; NULL: all */
  weft_str_t scope;     /* before the names of what those become: a session may have lowered them itself */
  size_t name_bytes;    /* that names of nodes in bodies may still take */
  int depth;            /* of gradients of functions in gradients of functions */
  bool keeps_own;       /* calls of functions with gradients of their own stay calls */
  /* Lowers all of a graph that is made meanwhile. Errors: INVALID_ARGUMENT, too deep. */
  weft_status_t *(*nested)(const weft_lowering_t *outer, weft_graph_t *g, bool keeps_own);
};

/* One instantiated function. */
typedef struct weft_body {
  weft_output_t *results; /* in the graph's arena; not there before the function's effects are done */
  int num_results;
  weft_node_t *effects; /* NoOp after everything that must run; NULL if nothing must */
  weft_node_t *done;    /* NoOp after effects and results */
} weft_body_t;

/* Instantiates `func` for node `site`; body nodes are named "site/infix/x" ("site/x" if infix is empty).
 * `gate` (may be NULL) is in the right frame and dead when the body must be dead. */
WEFT_MUST_CHECK weft_status_t *weft_lower_body(weft_lowering_t *l, const weft_node_t *site,
                                               const weft_func_attr_t *func, const char *infix,
                                               const weft_output_t *args, int num_args, weft_node_t *gate,
                                               weft_body_t *out);
/* Turns `n` into the IdentityN or NoOp that keeps its name. */
WEFT_MUST_CHECK weft_status_t *weft_lower_finish(weft_lowering_t *l, weft_node_t *n,
                                                 const weft_output_t *results, int num_results,
                                                 weft_node_t *done);
/* Adds "site/name/_N" with the site's device (or that of `near`, if given). Type attributes come from the
 * inputs. */
WEFT_MUST_CHECK weft_status_t *weft_lower_add(weft_lowering_t *l, const weft_node_t *site, const char *name,
                                              const char *op, const weft_node_t *near,
                                              const weft_output_t *inputs, int num_inputs,
                                              weft_node_t *const *controls, int num_controls,
                                              const weft_named_attr_t *attrs, int num_attrs,
                                              weft_node_t **out);
/* Appends the name of a site, to which those of its nodes are added. */
void weft_lower_put_name(const weft_lowering_t *l, const weft_node_t *site, weft_strbuf_t *out);
/* Short forms: one input; a NoOp. control may be NULL. */
WEFT_MUST_CHECK weft_status_t *weft_lower_add1(weft_lowering_t *l, const weft_node_t *site, const char *name,
                                               const char *op, weft_output_t input, weft_node_t *control,
                                               weft_node_t **out);
WEFT_MUST_CHECK weft_status_t *weft_lower_add_noop(weft_lowering_t *l, const weft_node_t *site,
                                                   const char *name, weft_node_t *const *controls,
                                                   int num_controls, weft_node_t **out);
/* `value` as a bool scalar: what If and While accept as their condition. Of numbers and texts
 * that are no scalar, whether there are any. */
WEFT_MUST_CHECK weft_status_t *weft_lower_to_bool(weft_lowering_t *l, const weft_node_t *site,
                                                  weft_output_t value, weft_output_t *out);
/* The func attribute `name` of n. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_lower_func_attr(const weft_node_t *n, const char *name,
                                                    const weft_func_attr_t **out);

/* The arguments are the inputs from `first_arg` on. */
WEFT_MUST_CHECK weft_status_t *weft_lower_call(weft_lowering_t *l, weft_node_t *n,
                                               const weft_func_attr_t *func, int first_arg);
WEFT_MUST_CHECK weft_status_t *weft_lower_remote_call(weft_lowering_t *l, weft_node_t *n);
WEFT_MUST_CHECK weft_status_t *weft_lower_cond(weft_lowering_t *l, weft_node_t *n);     /* If and Case */
WEFT_MUST_CHECK weft_status_t *weft_lower_while(weft_lowering_t *l, weft_node_t *n);    /* and For */
WEFT_MUST_CHECK weft_status_t *weft_lower_gradient(weft_lowering_t *l, weft_node_t *n); /* SymbolicGradient */

/* The library's own gradient of the function; data NULL if it has none. */
weft_str_t weft_lower_own_gradient(const weft_graph_t *g, weft_str_t function);
/* The function that a node calls, and the attributes to instantiate it with, lent; false if it is no call. */
bool weft_lower_called(const weft_node_t *n, weft_func_attr_t *out);

/* A NoOp behind everything that precedes n, which is dead when n must be; NULL if nothing does. */
WEFT_MUST_CHECK weft_status_t *weft_lower_gate(weft_lowering_t *l, const weft_node_t *n, weft_node_t **out);

#endif /* WEFT_GRAPH_LOWER_H_ */
