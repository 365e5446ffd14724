/* graph/inline.h - a function's body put into a graph, with what lowering needs beyond graph/function.h;
 * for this folder only. */
#ifndef WEFT_GRAPH_INLINE_H_
#define WEFT_GRAPH_INLINE_H_

#include "graph/function.h"

typedef struct weft_inlined {
  weft_output_t *results; /* num_results; in the graph's arena */
  int num_results;
  weft_node_t **must_run; /* num_must_run: control_ret and stateful nodes */
  int num_must_run;
  weft_node_t **body; /* num_body: all nodes added */
  int num_body;
} weft_inlined_t;

typedef struct weft_inline_spec {
  size_t *name_bytes; /* what names of nodes may still take, lowered by those of the body; NULL: anything */
  const weft_function_t *function;
  const weft_named_attr_t *attrs; /* bind the function's type attributes */
  int num_attrs;
  weft_str_t prefix;         /* "call": nodes are named "call/x" */
  weft_str_t device;         /* fills in what a body node's device leaves open */
  const weft_output_t *args; /* one per flat input of the signature */
  int num_args;
  weft_node_t *gate; /* may be NULL: body nodes without any input wait for it */
} weft_inline_spec_t;
/* Adds the function's body to `g`; argument i becomes args[i]. Body nodes that call functions stay calls.
 * Errors: INVALID_ARGUMENT; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_inline(weft_graph_t *g, const weft_inline_spec_t *spec,
                                           weft_inlined_t *out);

/* `own` with its open parts filled in from `caller`; in the graph's arena. Parts that do not parse leave
 * `own` as it is. data is NULL without memory. */
weft_str_t weft_device_merge(weft_graph_t *g, weft_str_t own, weft_str_t caller);

#endif /* WEFT_GRAPH_INLINE_H_ */
