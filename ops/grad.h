/* ops/grad.h - what gradient functions share beyond gradient.h; only for the files in this folder.
 *
 * Letters in gradient files: x the inputs, y the outputs, dy the gradients of the
 * outputs, dx those of the inputs. All helpers do nothing once g->s is set.
 */
#ifndef WEFT_OPS_GRAD_H_
#define WEFT_OPS_GRAD_H_

#include "ops/op_functions.h"

typedef weft_grad_value_t value_t;

/* The same attribute of the differentiated node, or its default. */
weft_named_attr_t weft_grad_same(weft_grad_t *g, const char *name);
bool weft_grad_attr_bool(weft_grad_t *g, const char *name);
int64_t weft_grad_attr_int(weft_grad_t *g, const char *name);

bool weft_grad_is_zero(value_t v);
int weft_grad_dtype(weft_grad_t *g, value_t v);
weft_shape_t weft_grad_shape_of(weft_grad_t *g, value_t v);        /* static; may be unknown */
bool weft_grad_const_int(weft_grad_t *g, value_t v, int64_t *out); /* of a constant with one element */
value_t weft_grad_int_scalar(weft_grad_t *g, int dtype, int64_t value);

/* One-node formulas. */
value_t weft_grad_shape_node(weft_grad_t *g, value_t x, int out_type); /* Shape */
value_t weft_grad_cast(weft_grad_t *g, value_t x, int dtype);          /* Cast, unless it has that type */
value_t weft_grad_conj(weft_grad_t *g, value_t x);                     /* Conj of complex values, else x */
value_t weft_grad_reduce(weft_grad_t *g, const char *op, value_t x, value_t axes, bool keep_dims);
value_t weft_grad_expand(weft_grad_t *g, value_t x, int axis); /* ExpandDims */
value_t weft_grad_concat(weft_grad_t *g, const value_t *x, int n, int axis);
value_t weft_grad_pack(weft_grad_t *g, const value_t *x, int n);
value_t weft_grad_gather0(weft_grad_t *g, value_t params, value_t indices); /* GatherV2 along axis 0 */
/* dy[i], or zeros like y[i] where no gradient flows in. */
value_t weft_grad_dy_or_zeros(weft_grad_t *g, int i);
/* int32 vector: the shape of x with 1 at the places that the reduction axes (input 1) name. */
value_t weft_grad_kept_shape(weft_grad_t *g, value_t x, value_t axes);

/* The batch dims (all but the last two) of `grad` that x was broadcast over with `other` are summed. */
value_t weft_grad_unbroadcast_batch(weft_grad_t *g, value_t grad, value_t x, value_t other);

#endif /* WEFT_OPS_GRAD_H_ */
