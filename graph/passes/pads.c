/* graph/passes/pads.c - a convolution takes along the zeros that a Pad puts around its images.
 *
 *   Pad -> Conv2D or DepthwiseConv2dNative with padding VALID         the convolution with padding EXPLICIT
 *
 * Models of Keras and of PyTorch pad images symmetrically before convolutions with a stride; the Pad is a
 * walk over memory as long as that of a small convolution. Here the filter has to be a constant of finite
 * numbers: padding is left out of a sum, and an infinite weight times a zero of a Pad would be NaN. A result
 * keeps its bits, but for the sign of a zero that is a sum of products which are all too small for a float.
 *
 * Source: the rule for Pad of TensorFlow's Remapper (grappler/optimizers/remapper.cc), which asks nothing of
 * the filter.
 */
#include "graph/passes/pads.h"

#include <math.h>

typedef struct pad_ops {
  const weft_op_def_t *pad, *pad_v2, *conv, *depthwise;
} pad_ops_t;

enum { RANK = 4, NUM_PADS = 2 * RANK };

/* Is it a Pad with nothing but zeros, on which nothing else depends? */
static bool is_pad(const weft_pass_round_t *r, const pad_ops_t *ops, const weft_node_t *pad,
                   const weft_node_t *conv) {
  if ((pad->op != ops->pad && pad->op != ops->pad_v2) || pad->num_controls > 0 || !weft_node_is_pure(pad))
    return false;
  if (pad->op == ops->pad_v2) {
    const weft_tensor_t *value = weft_pass_round_constant(pad->inputs[2]);
    if (value == NULL || value->dtype != WEFT_F32 || value->count != 1 || *(const float *)value->data != 0)
      return false;
  }
  return weft_output_may_replace(pad->inputs[0], conv) &&
         !weft_pass_round_is_variable(r, pad->inputs[0].node) &&
         weft_pass_round_shape(pad->inputs[0])->rank == RANK;
}

/* What a Pad adds before and after each dimension, if it adds nothing to images and channels. */
static bool read_pads(weft_output_t paddings, bool is_channels_first, int64_t out[NUM_PADS]) {
  const weft_tensor_t *t = weft_pass_round_constant(paddings);
  if (t == NULL || (t->dtype != WEFT_I32 && t->dtype != WEFT_I64)) return false;
  if (t->shape.rank != 2 || t->shape.dims[0] != RANK || t->shape.dims[1] != 2) return false;
  for (int i = 0; i < NUM_PADS; i++) {
    const int dim = i / 2, channels = is_channels_first ? 1 : RANK - 1;
    out[i] = t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    if (out[i] < 0 || out[i] > INT32_MAX || ((dim == 0 || dim == channels) && out[i] != 0)) return false;
  }
  return true;
}

static bool is_finite(weft_output_t filter) {
  const weft_tensor_t *t = weft_pass_round_constant(filter);
  if (t == NULL || t->dtype != WEFT_F32) return false;
  const float *f = t->data;
  bool is = true;
  for (int64_t i = 0; is && i < t->count; i++) is = isfinite(f[i]);
  return is;
}

static bool is_convolution(const pad_ops_t *ops, const weft_node_t *n) {
  return (n->op == ops->conv || n->op == ops->depthwise) && weft_node_attr_type(n, "T") == WEFT_F32 &&
         weft_str_is(weft_node_attr_string(n, "padding"), "VALID") && weft_pass_round_is_on_cpu(n);
}

static weft_status_t *fold(weft_pass_round_t *r, const pad_ops_t *ops, weft_node_t *n) {
  int64_t pads[NUM_PADS];
  if (!is_convolution(ops, n)) return NULL;
  const weft_node_t *pad = n->inputs[0].node;
  const weft_str_t format = weft_node_attr_string(n, "data_format");
  const bool is_channels_first = weft_str_is(format, "NCHW");
  if (!is_channels_first && !weft_str_is(format, "NHWC")) return NULL;
  if (!is_pad(r, ops, pad, n) || !read_pads(pad->inputs[1], is_channels_first, pads) ||
      !is_finite(n->inputs[1]))
    return NULL;
  const weft_attr_t explicit = {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("EXPLICIT")},
                    list = {.kind = WEFT_ATTR_INT, .is_list = true, .n = NUM_PADS, .list.ints = pads};
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(r->g, n, "explicit_paddings", &list));
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(r->g, n, "padding", &explicit));
  weft_graph_set_input(n, 0, pad->inputs[0]);
  r->has_changed = true;
  weft_pass_round_note(r, pad, "is part of", n->name);
  return NULL;
}

weft_status_t *weft_pass_fold_pads(weft_pass_round_t *r) {
  const pad_ops_t ops = {.pad = weft_op_find(WEFT_STR("Pad")),
                         .pad_v2 = weft_op_find(WEFT_STR("PadV2")),
                         .conv = weft_op_find(WEFT_STR("Conv2D")),
                         .depthwise = weft_op_find(WEFT_STR("DepthwiseConv2dNative"))};
  for (int i = 0; i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (weft_pass_round_has(r, n)) WEFT_RETURN_IF_ERROR(fold(r, &ops, n));
  }
  return NULL;
}
