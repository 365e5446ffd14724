/* ops/cost.h - how many operations on numbers a node takes, by the shapes that it meets.
 *
 * The list is cost.def; element-wise ops that it lacks count one for each element of their output. What the
 * list says is what TensorFlow's profiler counts (its statistics "flops"), where that counts the op. A
 * multiplication and an addition are two operations; a comparison, a logarithm or a square root is one,
 * whatever it takes to compute.
 *
 * A cost is known in two parts, because a kernel may take its inputs for its output: what the inputs tell,
 * before the node runs, and what each element of the output adds, after it.
 */
#ifndef WEFT_OPS_COST_H_
#define WEFT_OPS_COST_H_

#include "ops/op.h"

typedef enum weft_cost_kind {
  WEFT_COST_NONE,              /* none at all: moves bytes */
  WEFT_COST_INPUT,             /* b for each element of input a */
  WEFT_COST_OUTPUT,            /* b for each element of the output */
  WEFT_COST_REDUCE,            /* one for each element of input 0, and b - 1 for each of the output */
  WEFT_COST_SUM,               /* n - 1 for each element of the first of n inputs */
  WEFT_COST_L2_LOSS,           /* 3 for each element of input 0, less one */
  WEFT_COST_MATMUL,            /* [..., M, K] x [..., K, N]; attribute transpose_a */
  WEFT_COST_BATCH_MATMUL,      /* the same; attribute adj_x */
  WEFT_COST_EINSUM,            /* attribute equation; without an ellipsis, else not known */
  WEFT_COST_ROWS,              /* rows of input a (all dimensions but the last) times the matrix of input b */
  WEFT_COST_ROWS_PAIR,         /* the same with the matrices of inputs b and b + 1 */
  WEFT_COST_ROWS_TWICE,        /* the same, for the gradient: once for the rows and once for the matrix */
  WEFT_COST_CONV,              /* filter [spatial..., in, out] is input 1 */
  WEFT_COST_DEPTHWISE,         /* filter [height, width, ...] is input 1 */
  WEFT_COST_CONV_INPUT_GRAD,   /* the same filter; attribute strides */
  WEFT_COST_CONV_FILTER_GRAD,  /* the output is that of the filter; image: input 0; attribute strides */
  WEFT_COST_DEPTHWISE_IN_GRAD, /* filter: input 1; gradient: input 2 */
  WEFT_COST_DEPTHWISE_FILTER_GRAD, /* the output is that of the filter; gradient: input 2 */
  WEFT_COST_POOL,                  /* the window of attribute ksize for each element of the output */
  WEFT_COST_ATTENTION,             /* two products and the chain between them */
  WEFT_COST_POOL_GRAD,             /* a times that window, and b, for each element of input 1 */
} weft_cost_kind_t;

/* Attributes and inputs of a node that is about to run. */
typedef struct weft_cost_inputs {
  const weft_named_attr_t *attrs;
  int num_attrs;
  const weft_shape_t *const *shapes; /* of the first num_shapes inputs; NULL: it has no tensor there */
  int num_shapes, num_inputs;
  /* Of the first num_shapes inputs; NULL: they are not known. Axes of reductions within chains are read. */
  const weft_tensor_t *const *values;
} weft_cost_inputs_t;
enum { WEFT_COST_MAX_SHAPES = 8 }; /* more are not looked at */

typedef struct weft_op_cost { /* plain; all zero: not known */
  bool is_known;
  bool is_by_window; /* `fixed` is for each place of the output's first two dimensions: a filter's window */
  double fixed, per_output;
} weft_op_cost_t;

/* Not known: for ops that are not counted, and for inputs that the op's kernel would refuse. Thread-safe. */
weft_op_cost_t weft_op_cost_begin(const weft_op_def_t *op, const weft_cost_inputs_t *in);
/* Operations in all, with the shape of output 0 (NULL: it has none); -1: not known. */
int64_t weft_op_cost_end(const weft_op_cost_t *c, const weft_shape_t *output);

/* Is the op counted at all? For lists of ops. */
bool weft_op_has_cost(const weft_op_def_t *op);

#endif /* WEFT_OPS_COST_H_ */
