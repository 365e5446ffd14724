/* ops/bias.h - the shapes of a BiasAdd, in the words of TensorFlow's kernel. */
#ifndef WEFT_OPS_BIAS_H_
#define WEFT_OPS_BIAS_H_

#include <stdbool.h>

#include "tensor/shape.h"

/* Is `bias` a vector with an element for each channel of `value`, which has two dimensions or more? Channels
 * are dimension 1 if they come first, else the last one. Both shapes are known. Errors: INVALID_ARGUMENT,
 * what the op says while a step runs. */
WEFT_MUST_CHECK weft_status_t *weft_bias_check(const weft_shape_t *value, const weft_shape_t *bias,
                                               bool is_channels_first);

#endif /* WEFT_OPS_BIAS_H_ */
