/* graph/call_body.h - what a call calls, as a graph in which its shapes are inferred; for this folder only.
 */
#ifndef WEFT_GRAPH_CALL_BODY_H_
#define WEFT_GRAPH_CALL_BODY_H_

#include "graph/inline.h"
#include "ops/shape_inference.h"

typedef struct weft_call_body {
  weft_graph_t *graph; /* owned; shares the library of the call's graph */
  weft_output_t *args; /* a placeholder for each input of the call, with its shape: the graph's first nodes */
  weft_inlined_t inlined; /* the function's nodes, and its results */
} weft_call_body_t;

/* The body of the function that a node calls, with arguments of the shapes that `c` has for the node's
 * inputs. *out is NULL where the node calls nothing, the function is not in the library, or the node says not
 * to look into it. Errors: INVALID_ARGUMENT for a body that cannot be instantiated, NOT_FOUND for one with an
 * op that is not registered. */
WEFT_MUST_CHECK weft_status_t *weft_call_body_create(const weft_graph_t *g, const weft_node_t *n,
                                                     const weft_shape_ctx_t *c, weft_call_body_t **out);
void weft_call_body_destroy(weft_call_body_t *body); /* NULL is allowed */

#endif /* WEFT_GRAPH_CALL_BODY_H_ */
