/* ops/bias.c - see the header. */
#include "ops/bias.h"

weft_status_t *weft_bias_check(const weft_shape_t *value, const weft_shape_t *bias, bool is_channels_first) {
  if (value->rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor must be at least 2D: %s", WEFT_SHAPE_TEXT(value));
  if (bias->rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "Biases must be 1D: %s", WEFT_SHAPE_TEXT(bias));
  if (bias->dims[0] == value->dims[is_channels_first ? 1 : value->rank - 1]) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Must provide as many biases as the last dimension of the input tensor: %s vs. %s",
                    WEFT_SHAPE_TEXT(bias), WEFT_SHAPE_TEXT(value));
}
