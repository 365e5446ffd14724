/* graph/node_build.h - the steps by which a node comes to be; for the files of this folder only.
 *
 * Import, the builder, inlining and copies all make nodes from these steps: look
 * up the op, complete and check the attributes, work out the types, enter the
 * node. Values that a step keeps must already lie in the graph's arena (or live
 * for ever, as the op table does). Thread-compatible, like the graph.
 */
#ifndef WEFT_GRAPH_NODE_BUILD_H_
#define WEFT_GRAPH_NODE_BUILD_H_

#include "graph/function.h"
#include "graph/graph.h"

/* Limits on what a graph may ask of us. Inputs are bounded by the message's own size. */
enum {
  WEFT_MAX_NODES = WEFT_NODE_INDEX_MAX_IDS,
  WEFT_MAX_OUTPUTS = 1 << 20, /* of one node */
  WEFT_MAX_ATTRS = 1 << 16,   /* of one node */
};

/* How messages are worded where TensorFlow itself has two ways: its servers and its C API differ. */
typedef enum weft_words { WEFT_WORDS_CLIENT, WEFT_WORDS_SERVER } weft_words_t;

/* "[A-Za-z0-9.][A-Za-z0-9_./-]*" and more such parts behind '>'; with is_internal a part may start with '_'.
 */
bool weft_name_is_valid(weft_str_t name, bool is_internal);
/* The same with ":index" behind it, or with '^' before it. */
bool weft_input_is_valid(weft_str_t input);

/* The function of the library called `name`, or the op of the table; both NULL if there is neither. */
void weft_node_resolve_op(const weft_graph_t *g, weft_str_t name, const weft_op_def_t **out_op,
                          weft_function_t **out_function);
/* The same for a node that comes with its graph: an op that the table lacks gets its stand-in. */
WEFT_MUST_CHECK weft_status_t *weft_node_resolve_any_op(weft_graph_t *g, weft_str_t name,
                                                        const weft_op_def_t **out_op,
                                                        weft_function_t **out_function);

/* Sorts `attrs` (values in the arena; owned by this call, tensors too), drops all but the last of equal
 * names, checks each against the op, adds defaults and sets n->attrs. Names that the op lacks are kept. The
 * name and op of `n` must be set. On failure all tensors are released and n->num_attrs is 0. */
WEFT_MUST_CHECK weft_status_t *weft_node_set_attrs(weft_graph_t *g, weft_node_t *n, weft_named_attr_t *attrs,
                                                   int num_attrs, weft_words_t words);
/* Sets the types of inputs and outputs from op and attributes, with room for the inputs (all NULL). A number
 * of inputs that does not fit `num_given` is an error, unless that is negative. Of an op that is not
 * registered, num_given inputs of no type. */
WEFT_MUST_CHECK weft_status_t *weft_node_set_types(weft_graph_t *g, weft_node_t *n, int num_given);
/* How many tensors an arg of n's op stands for. The attributes must be set. */
int weft_node_arg_count(const weft_node_t *n, const weft_arg_def_t *arg);
/* Can a tensor of type `from` go into an input of type `to`? */
bool weft_types_fit(int from, int to);
/* Connects input i, checking index and type. */
WEFT_MUST_CHECK weft_status_t *weft_node_connect(weft_graph_t *g, weft_node_t *n, int input,
                                                 weft_output_t from);

/* A blank node with the next id; entered under `name` (in the arena, '\0'-ended), which must be free.
 * Errors: INVALID_ARGUMENT if the name is taken; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_graph_enter(weft_graph_t *g, weft_str_t name, weft_node_t **out);
/* Gives a node that was just entered, but for its name and control inputs, what `like`, of `from` or
 * described by its store, has; room for as many inputs. */
WEFT_MUST_CHECK weft_status_t *weft_node_describe_like(weft_graph_t *g, const weft_graph_t *from,
                                                       const weft_node_t *like, weft_node_t *n);
/* Room for n->num_inputs inputs, all {NULL, 0}. */
WEFT_MUST_CHECK weft_status_t *weft_node_reserve_inputs(weft_graph_t *g, weft_node_t *n);
/* Room for the control inputs of a node that has none, to be filled in by the caller, each once. */
WEFT_MUST_CHECK weft_status_t *weft_node_reserve_controls(weft_graph_t *g, weft_node_t *n, int num_controls);
/* The same array for equal lists. NULL without memory. */
const int *weft_graph_intern_types(weft_graph_t *g, const int *types, int n);
const weft_shape_t *weft_graph_intern_shape(weft_graph_t *g, const weft_shape_t *shape);

/* Appends "Op<...>; NodeDef: {{node n}}", in TensorFlow's order of the two, to a failure. Consumes `s`. */
WEFT_MUST_CHECK weft_status_t *weft_node_blame(weft_status_t *s, const weft_node_t *n);

#endif /* WEFT_GRAPH_NODE_BUILD_H_ */
