/* ops/op_functions.h - declares every shape and gradient function that ops.def names.
 *
 * A function that no file defines is a link error; nothing else includes this
 * but the files that define them and the table.
 */
#ifndef WEFT_OPS_OP_FUNCTIONS_H_
#define WEFT_OPS_OP_FUNCTIONS_H_

#include "ops/gradient.h"
#include "ops/shape_inference.h"

#define WEFT_OP(name, signature, attrs, shape, grad, ...) \
  weft_shape_fn weft_##shape;                             \
  weft_grad_fn weft_##grad;
#include "ops/ops.def"
#undef WEFT_OP

#endif /* WEFT_OPS_OP_FUNCTIONS_H_ */
