/* ops/chain.h - elementwise nodes, reductions and such that are computed together: what a _WeftChain says.
 *
 * Each node is a link: an op and where its operands come from. Values are numbered: the chain's inputs first,
 * then the results of the links in their order; an operand is a smaller number than the link's own. The axes
 * of a reduction are an operand, too, and always an input of the chain, so that all shapes follow from the
 * inputs. The chain's outputs are the results of those links that are read outside. The description says
 * nothing of how a device computes it.
 */
#ifndef WEFT_OPS_CHAIN_H_
#define WEFT_OPS_CHAIN_H_

#include "ops/op.h"

/* How large a chain may be. */
typedef struct weft_chain_limits {
  int inputs, links, outputs;
} weft_chain_limits_t;

/* Of device libraries (include/weft/device.h). */
enum { WEFT_CHAIN_LIBRARY_INPUTS = 12, WEFT_CHAIN_LIBRARY_LINKS = 64, WEFT_CHAIN_LIBRARY_OUTPUTS = 1 };

typedef struct weft_chain_link {
  const weft_op_def_t *op;
  weft_str_t node; /* the name of the node that it was */
  int type;        /* of the result */
  bool keeps_dims; /* of a reduction: its attribute keep_dims */
  int num_operands;
  const int64_t *operands; /* num_operands of them */
} weft_chain_link_t;

/* What a _WeftChain consists of. */
typedef struct weft_chain {
  int num_inputs, num_links, num_outputs;
  const int *input_types;         /* num_inputs */
  const weft_chain_link_t *links; /* num_links */
  const int64_t *outputs;         /* num_outputs values, ascending, each the result of a link */
} weft_chain_t;

/* Does the op fold its first input along the axes that its second one names: Sum, Mean, Max, ...? */
bool weft_chain_reduces(const weft_op_def_t *op);
/* Does the op compute each row, of the last dimension, from a row: Softmax, LogSoftmax? */
bool weft_chain_is_by_rows(const weft_op_def_t *op);
/* Does the op add a vector to each row: BiasAdd, with channels last? */
bool weft_chain_adds_bias(const weft_op_def_t *op);
/* May nodes of the op be links: is it elementwise, or one of those? */
bool weft_chain_may_link(const weft_op_def_t *op);
/* Which of a link's operands has the type by which a device chooses what computes it. */
static inline int weft_chain_main_operand(const weft_op_def_t *op, int num_operands) {
  return weft_chain_reduces(op) ? 0 : num_operands - 1;
}

/* Reads the attributes of a _WeftChain, which *out lends; lists of links are made in `arena`. The types of a
 * link's operands and its result are those that its op's signature asks for. Errors: INVALID_ARGUMENT: the
 * attributes do not describe a chain; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_chain_read(weft_arena_t *arena, const weft_named_attr_t *attrs,
                                               int num_attrs, weft_chain_t *out);

/* The shapes of the links' results. `shapes`: of the inputs, and behind them room for each link's. `inputs`:
 * what is known of the inputs' values, of which axes are read; NULL: of none. Errors: INVALID_ARGUMENT in the
 * words of TensorFlow's kernels, with the node where it is not the last; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_chain_infer(const weft_chain_t *c, weft_arena_t *arena,
                                                const weft_tensor_t *const *inputs, weft_shape_t *shapes);

/* The same, but a failure has no name of a node: *out_failed is the link that it is of. */
WEFT_MUST_CHECK weft_status_t *weft_chain_infer_links(const weft_chain_t *c, weft_arena_t *arena,
                                                      const weft_tensor_t *const *inputs,
                                                      weft_shape_t *shapes, int *out_failed);

static inline int weft_chain_num_values(const weft_chain_t *c) { return c->num_inputs + c->num_links; }

/* The type of a value: of an input, or a link's result. */
static inline weft_dtype_t weft_chain_type(const weft_chain_t *c, int64_t value) {
  return weft_dtype_base(value < c->num_inputs ? c->input_types[value]
                                               : c->links[value - c->num_inputs].type);
}

/* The attributes of a _WeftChain of these links, WEFT_CHAIN_NUM_ATTRS of them. They lend what `c` has, and
 * lists in `arena`. Errors: RESOURCE_EXHAUSTED. */
enum { WEFT_CHAIN_NUM_ATTRS = 9 };
WEFT_MUST_CHECK weft_status_t *weft_chain_attrs(weft_arena_t *arena, const weft_chain_t *c,
                                                weft_named_attr_t *out);

#endif /* WEFT_OPS_CHAIN_H_ */
