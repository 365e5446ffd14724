/* ops/gradient.h - what a gradient function sees and builds.
 *
 * A gradient function gets a node's inputs and outputs and the gradients of its
 * outputs, adds nodes through the builder and returns the gradients of its
 * inputs. It knows no graph: graph/gradients.c implements the builder. Confined.
 */
#ifndef WEFT_OPS_GRADIENT_H_
#define WEFT_OPS_GRADIENT_H_

#include "ops/op.h"

/* A tensor in the graph that is being differentiated. `node` is the builder's; NULL is "none" (a zero
 * gradient). */
typedef struct weft_grad_value {
  void *node;
  int index;
} weft_grad_value_t;
#define WEFT_GRAD_ZERO ((weft_grad_value_t){NULL, 0})

typedef struct weft_grad_builder_ops {
  /* Adds a node; its name is made from the differentiated node's and `op`. *out is its output 0; output k
   * has the same node and index k. `attrs` are by name; type attributes may be left out where inputs tell
   * them. */
  weft_status_t *(*add)(void *self, const char *op, const weft_grad_value_t *inputs, int num_inputs,
                        const weft_named_attr_t *attrs, int num_attrs, weft_grad_value_t *out);
  /* A Const holding `tensor` (retained). */
  weft_status_t *(*constant)(void *self, weft_tensor_t *tensor, weft_grad_value_t *out);
  int (*dtype)(void *self, weft_grad_value_t v);          /* base type */
  weft_shape_t (*shape)(void *self, weft_grad_value_t v); /* inferred; may be unknown */
  const weft_tensor_t *(*value)(void *self,
                                weft_grad_value_t v); /* lent, of a constant; NULL: not known. The member
                                                         itself may be NULL: then nothing is known */
} weft_grad_builder_ops_t;

struct weft_grad_ctx {
  const weft_grad_builder_ops_t *ops;
  void *self; /* of ops */
  const weft_op_def_t *op;
  weft_str_t node_name;
  weft_str_t scope; /* the prefix of these gradients' names, which no other gradients of the graph have */
  const weft_named_attr_t *attrs;
  int num_attrs;
  int num_inputs, num_outputs;
  const weft_grad_value_t *inputs, *outputs; /* of the node */
  const weft_grad_value_t *dy;               /* num_outputs; node NULL where no gradient flows in */
  weft_grad_value_t *dx;                     /* num_inputs, to be set; all WEFT_GRAD_ZERO at the start */
};

/* Short forms for gradient functions: they remember the first failure in *s and do nothing after it, so a
 * formula reads as a formula. */
typedef struct weft_grad weft_grad_t;
struct weft_grad {
  weft_grad_ctx_t *c;
  weft_status_t *s;
};
weft_grad_value_t weft_grad_op1(weft_grad_t *g, const char *op, weft_grad_value_t a);
weft_grad_value_t weft_grad_op2(weft_grad_t *g, const char *op, weft_grad_value_t a, weft_grad_value_t b);
weft_grad_value_t weft_grad_op3(weft_grad_t *g, const char *op, weft_grad_value_t a, weft_grad_value_t b,
                                weft_grad_value_t d);
weft_grad_value_t weft_grad_node(weft_grad_t *g, const char *op, const weft_grad_value_t *inputs, int n,
                                 const weft_named_attr_t *attrs, int num_attrs);
weft_grad_value_t weft_grad_output(weft_grad_value_t node, int index);
weft_grad_value_t weft_grad_scalar(weft_grad_t *g, int dtype, double value);      /* Const of that type */
weft_grad_value_t weft_grad_int32s(weft_grad_t *g, const int32_t *values, int n); /* 1-D Const */
/* Sums `grad` down to the shape of `x` after a broadcast (BroadcastGradientArgs, Sum, Reshape); no nodes
 * where the shapes are known to be equal. */
weft_grad_value_t weft_grad_unbroadcast(weft_grad_t *g, weft_grad_value_t grad, weft_grad_value_t x,
                                        weft_grad_value_t other, int side);

#endif /* WEFT_OPS_GRADIENT_H_ */
