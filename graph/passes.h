/* graph/passes.h - rewrites of a whole graph. Each is linear in nodes and edges unless it says otherwise. */
#ifndef WEFT_GRAPH_PASSES_H_
#define WEFT_GRAPH_PASSES_H_

#include "graph/graph.h"

/* Keeps only nodes from which one of `roots` can be reached (backwards over data and control edges). */
WEFT_MUST_CHECK weft_status_t *weft_pass_prune(weft_graph_t *g, weft_node_t *const *roots, int num_roots);
/* Infers output_shapes of all nodes in topological order; shapes that do not fit are INVALID_ARGUMENT as
 * TensorFlow words them, naming the node. Also folds small constants it needs for shapes, without changing the graph. */
WEFT_MUST_CHECK weft_status_t *weft_pass_infer_shapes(weft_graph_t *g);
/* Replaces If, StatelessIf, Case, While, StatelessWhile, PartitionedCall, StatefulPartitionedCall and calls of
 * functions by name with Switch/Merge, Enter/Exit loops and bodies, recursively. The old name stays fetchable
 * through an IdentityN (NoOp if there are no outputs). Nodes with name ids >= `first_id` only are looked at
 * (0: all). Errors: INVALID_ARGUMENT naming the node and function. Source: reference 3.8, op-coverage 1.10. */
WEFT_MUST_CHECK weft_status_t *weft_pass_lower_functions(weft_graph_t *g, int first_id);
/* Gives every node its control-flow frame: frames[id] (index; 0 is the root), parents[frame], names[frame].
 * Arrays are in `arena`. Errors: INVALID_ARGUMENT for a node with inputs from two frames. */
typedef struct weft_frames {
  int *frame_of;         /* num_nodes of the graph */
  int *parent;           /* num_frames; parent[0] = 0 */
  weft_str_t *name;      /* num_frames: frame_name */
  weft_node_t **loop_cond; /* num_frames; NULL if the frame has none */
  int num_frames;
} weft_frames_t;
WEFT_MUST_CHECK weft_status_t *weft_pass_find_frames(const weft_graph_t *g, weft_arena_t *arena, weft_frames_t *out);

/* Adds nodes that compute d(sum of ys)/d(xs). dys (may be NULL: ones) are gradients flowing into ys. out_dx[i] has
 * node NULL where x i does not influence ys. Names get `prefix` ("gradients"). Source: TensorFlow's
 * SymbolicGradientBuilder (reverse accumulation over the op table's gradient functions).
 * Errors: UNIMPLEMENTED/ NOT_FOUND naming the op without gradient on the path; INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_graph_add_gradients(weft_graph_t *g, weft_str_t prefix, const weft_output_t *ys,
                                                        int num_ys, const weft_output_t *xs, int num_xs,
                                                        const weft_output_t *dys, weft_output_t *out_dx);

#endif /* WEFT_GRAPH_PASSES_H_ */
