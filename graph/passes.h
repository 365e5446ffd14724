/* graph/passes.h - rewrites of a whole graph. Each is linear in nodes and edges unless it says otherwise. */
#ifndef WEFT_GRAPH_PASSES_H_
#define WEFT_GRAPH_PASSES_H_

#include "graph/graph.h"
#include "ops/chain.h"

/* Keeps only nodes from which one of `roots` can be reached (backwards over data and control edges). */
WEFT_MUST_CHECK weft_status_t *weft_pass_prune(weft_graph_t *g, weft_node_t *const *roots, int num_roots);
/* Infers output_shapes of all nodes in topological order; shapes that do not fit are INVALID_ARGUMENT as
 * TensorFlow words them, naming the node. Also folds small constants it needs for shapes, without changing
 * the graph. */
WEFT_MUST_CHECK weft_status_t *weft_pass_infer_shapes(weft_graph_t *g);
/* After weft_pass_infer_shapes: the shapes of loop variables, and what follows from them. Some passes over
 * the graph if it has loops; nothing else. */
WEFT_MUST_CHECK weft_status_t *weft_pass_infer_loop_shapes(weft_graph_t *g);
/* The same for graphs that grow node by node: inputs come before their consumers; what was not inferred is
 * unknown. Thread-compatible. */
typedef struct weft_inference weft_inference_t;
WEFT_MUST_CHECK weft_status_t *weft_inference_create(weft_graph_t *g, weft_inference_t **out);
void weft_inference_destroy(weft_inference_t *inference); /* NULL is fine; before the graph */
WEFT_MUST_CHECK weft_status_t *weft_inference_add(weft_inference_t *inference, weft_node_t *n);
/* The value of a constant or of a small integer formula over constants; lent until destroy; NULL: not known.
 */
const weft_tensor_t *weft_inference_value(const weft_inference_t *inference, weft_output_t of);
typedef struct weft_handle_data weft_handle_data_t; /* ops/shape_inference.h */
/* What is known of the object behind a handle, lent until it changes; NULL: nothing. And what a caller knows
 * better. */
const weft_handle_data_t *weft_inference_handle(const weft_inference_t *inference, weft_output_t of);
WEFT_MUST_CHECK weft_status_t *weft_inference_set_handle(weft_inference_t *inference, weft_output_t of,
                                                         const weft_handle_data_t *data);

/* Replaces If, StatelessIf, Case, While, StatelessWhile, PartitionedCall, StatefulPartitionedCall and calls
 * of functions by name with Switch/Merge, Enter/Exit loops and bodies, recursively. The old name stays
 * fetchable through an IdentityN (NoOp if there are no outputs). Nodes with name ids >= `first_id` only are
 * looked at (0: all). On failure the graph is unusable: destroy it. Errors: INVALID_ARGUMENT naming the node
 * and function (also for a function that calls itself); RESOURCE_EXHAUSTED for calls that unfold without
 * bounds. Source: reference 3.8, op-coverage 1.10. */
WEFT_MUST_CHECK weft_status_t *weft_pass_lower_functions(weft_graph_t *g, int first_id);
/* The same for the nodes that `which` marks, by id, and what is in their functions; they keep their
 * consumers, and one that cannot be lowered is an error. Functions for which the library has a gradient stay
 * calls. What node x becomes is named "scope/x/...". */
WEFT_MUST_CHECK weft_status_t *weft_pass_lower_some(weft_graph_t *g, const uint8_t *which, weft_str_t scope);
/* Puts a _WeftChain (ops/chain.h), named as its last node, in the place of elementwise nodes on one device
 * that feed each other. `limits` says how large a chain may be that `n` is a link of; NULL: it may be none.
 * The result is lent, the same one for all nodes of a device; for chains of several outputs `inputs` is not
 * looked at. A node whose output others must see by name needs a consumer that is no link. On failure the
 * graph is unusable: destroy it. */
typedef const weft_chain_limits_t *weft_chain_limits_fn(void *arg, const weft_node_t *n);
WEFT_MUST_CHECK weft_status_t *weft_pass_fuse_chains(weft_graph_t *g, weft_chain_limits_fn *limits,
                                                     void *arg);
/* Behind it: puts a _WeftAttention, named as the last of them, in the place of a BatchMatMul or an Einsum of
 * two operands, a chain that alone reads it (or a node that could be one by itself, as Softmax), and another
 * such product that alone reads that, as its first operand. Its attributes are those of the chain, of which
 * input `scores` is the first product, and of whose inputs the last two are no links': the node's inputs are
 * the chain's with the first product's left operand in the place of `scores`, then its right operand, then
 * the second product's. All three are of one type, `Tproducts`. `products`, `product_ops` and `equations`
 * have the names and ops of the two, and the equation of an Einsum; `adj_q`, `adj_k`, `adj_v`: are the first
 * one's left and right operand and the second one's right operand transposed? `may`: does the device of `n`,
 * a product or what is between them, have a kernel for an attention of its type that has such a part? On
 * failure the graph is unusable: destroy it. */
typedef bool weft_may_attend_fn(void *arg, const weft_node_t *n);
WEFT_MUST_CHECK weft_status_t *weft_pass_fuse_attention(weft_graph_t *g, weft_may_attend_fn *may, void *arg);
/* Could one of the two change the graph? Linear, and without a change of it. */
bool weft_pass_may_fuse_chains(const weft_graph_t *g, weft_chain_limits_fn *limits, void *arg);
/* A node with this attribute is not put into a chain. */
#define WEFT_NO_CHAIN_ATTR "_weft_no_chain"
/* An update of a variable with this attribute is not computed together with others. */
#define WEFT_APART_ATTR "_weft_apart"

/* Of a graph whose nodes are placed: NcclReduce and NcclBroadcast become nodes on each of their devices that
 * find each other. On failure the graph is unusable: destroy it. Errors: INVALID_ARGUMENT for a reduction
 * without an input on its own device, or with one on a device of another type or task. */
WEFT_MUST_CHECK weft_status_t *weft_pass_pair_nccl(weft_graph_t *g);

/* Gives every node its control-flow frame: frames[id] (index; 0 is the root), parents[frame], names[frame].
 * An Enter is in the frame that it enters; an Exit is in the frame that it leaves, its value in the parent.
 * Arrays are in `arena`. Errors: INVALID_ARGUMENT for a node with inputs from two frames. */
typedef struct weft_frames {
  int *frame_of;           /* num_nodes of the graph */
  int *parent;             /* num_frames; parent[0] = 0 */
  weft_str_t *name;        /* num_frames: frame_name */
  weft_node_t **loop_cond; /* num_frames; NULL if the frame has none */
  int num_frames;
} weft_frames_t;
WEFT_MUST_CHECK weft_status_t *weft_pass_find_frames(const weft_graph_t *g, weft_arena_t *arena,
                                                     weft_frames_t *out);

/* Adds nodes that compute d(sum of ys)/d(xs). dys (may be NULL: ones) are gradients flowing into ys.
 * out_dx[i] has node NULL where x i does not influence ys. New nodes are "prefix/Op", on the device of the
 * node whose gradient they compute; a prefix without data is "gradients", "gradients_1", ...; a given one
 * must not be in use. Shapes of all nodes are inferred on the way. Functional ops on the way are lowered, as
 * by weft_pass_lower_some; loops get variables that keep what their gradients need. Source: TensorFlow's
 * SymbolicGradientBuilder (reverse accumulation over the op table's gradient functions).
 * Errors: NOT_FOUND naming the op without gradient on the path; INVALID_ARGUMENT; UNIMPLEMENTED for a tensor
 * in a loop. Nodes added before stay, but of a graph with functional ops on the way nothing is changed,
 * unless memory ran out. */
WEFT_MUST_CHECK weft_status_t *weft_graph_add_gradients(weft_graph_t *g, weft_str_t prefix,
                                                        const weft_output_t *ys, int num_ys,
                                                        const weft_output_t *xs, int num_xs,
                                                        const weft_output_t *dys, weft_output_t *out_dx);

#endif /* WEFT_GRAPH_PASSES_H_ */
