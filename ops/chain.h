/* ops/chain.h - elementwise nodes that are computed together: what a _WeftChain says of them.
 *
 * A chain is a tree of elementwise nodes, of which only the last one's output is seen outside. Each node is a
 * link: an op and where its operands come from. Values are numbered: the chain's inputs first, then the
 * results of the links in their order; an operand is a smaller number than the link's own. The description
 * says nothing of how a device computes it.
 */
#ifndef WEFT_OPS_CHAIN_H_
#define WEFT_OPS_CHAIN_H_

#include "ops/op.h"

enum { WEFT_CHAIN_MAX_INPUTS = 12, WEFT_CHAIN_MAX_LINKS = 64 };

typedef struct weft_chain_link {
  const weft_op_def_t *op;
  weft_str_t node; /* the name of the node that it was */
  int type;        /* of the result */
  int num_operands;
  const int64_t *operands; /* num_operands of them */
} weft_chain_link_t;

/* What a _WeftChain consists of. Lent by its attributes. */
typedef struct weft_chain {
  int num_inputs, num_links;
  const int *input_types;
  weft_chain_link_t links[WEFT_CHAIN_MAX_LINKS];
} weft_chain_t;

/* Reads the attributes of a _WeftChain. Errors: INVALID_ARGUMENT: they do not describe a chain. */
WEFT_MUST_CHECK weft_status_t *weft_chain_read(const weft_named_attr_t *attrs, int num_attrs,
                                               weft_chain_t *out);

/* The shapes of the links' results. `values`: of the inputs, and behind them room for each link's. Errors:
 * INVALID_ARGUMENT in the words of TensorFlow's kernels, with the node where it is not the last. */
WEFT_MUST_CHECK weft_status_t *weft_chain_infer(const weft_chain_t *c, weft_shape_t *values);
enum { WEFT_CHAIN_MAX_VALUES = WEFT_CHAIN_MAX_INPUTS + WEFT_CHAIN_MAX_LINKS };

/* The type of a value: of an input, or a link's result. */
static inline weft_dtype_t weft_chain_type(const weft_chain_t *c, int64_t value) {
  return weft_dtype_base(value < c->num_inputs ? c->input_types[value]
                                               : c->links[value - c->num_inputs].type);
}

/* The attributes of a _WeftChain of these links, WEFT_CHAIN_NUM_ATTRS of them. They lend what `c` has, and
 * lists in `arena`. Errors: RESOURCE_EXHAUSTED. */
enum { WEFT_CHAIN_NUM_ATTRS = 7 };
WEFT_MUST_CHECK weft_status_t *weft_chain_attrs(weft_arena_t *arena, const weft_chain_t *c,
                                                weft_named_attr_t *out);

#endif /* WEFT_OPS_CHAIN_H_ */
