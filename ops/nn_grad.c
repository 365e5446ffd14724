/* ops/nn_grad.c - gradients of neural-network ops. */
#include "ops/grad.h"

#define LAYER                                                 \
  weft_grad_t g_ = {c, NULL}, *g = &g_;                       \
  value_t x = c->inputs[0], y = c->outputs[0], dy = c->dy[0]; \
  (void)x;                                                    \
  (void)y

static value_t mul(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Mul", a, b); }
static value_t sub(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "Sub", a, b); }
static value_t shape_of(weft_grad_t *g, value_t x) { return weft_grad_shape_node(g, x, WEFT_I32); }

/* ---- activations ---- */

/* dx = op(dy, v) */
static weft_status_t *activation(weft_grad_ctx_t *c, const char *op, value_t v) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = weft_grad_op2(&g, op, c->dy[0], v);
  return g.s;
}
weft_status_t *weft_grad_relu(weft_grad_ctx_t *c) { return activation(c, "ReluGrad", c->outputs[0]); }
weft_status_t *weft_grad_relu6(weft_grad_ctx_t *c) { return activation(c, "Relu6Grad", c->outputs[0]); }
weft_status_t *weft_grad_elu(weft_grad_ctx_t *c) { return activation(c, "EluGrad", c->outputs[0]); }
weft_status_t *weft_grad_selu(weft_grad_ctx_t *c) { return activation(c, "SeluGrad", c->outputs[0]); }
weft_status_t *weft_grad_softplus(weft_grad_ctx_t *c) { return activation(c, "SoftplusGrad", c->inputs[0]); }
weft_status_t *weft_grad_softsign(weft_grad_ctx_t *c) { return activation(c, "SoftsignGrad", c->inputs[0]); }

weft_status_t *weft_grad_leaky_relu(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t alpha = weft_grad_same(g, "alpha");
  c->dx[0] = weft_grad_node(g, "LeakyReluGrad", (value_t[]){dy, x}, 2, &alpha, 1);
  return g->s;
}

/* Second order of the piecewise linear ones: zero for the features. */
weft_status_t *weft_grad_relu_grad(weft_grad_ctx_t *c) { return activation(c, "ReluGrad", c->inputs[1]); }
weft_status_t *weft_grad_relu6_grad(weft_grad_ctx_t *c) { return activation(c, "Relu6Grad", c->inputs[1]); }
weft_status_t *weft_grad_leaky_relu_grad(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t alpha = weft_grad_same(g, "alpha");
  c->dx[0] = weft_grad_node(g, "LeakyReluGrad", (value_t[]){dy, c->inputs[1]}, 2, &alpha, 1);
  return g->s;
}

static value_t sum_last(weft_grad_t *g, value_t v) {
  return weft_grad_reduce(g, "Sum", v, weft_grad_int32s(g, (int32_t[]){-1}, 1), true);
}

weft_status_t *weft_grad_softmax(weft_grad_ctx_t *c) {
  LAYER;
  c->dx[0] = mul(g, sub(g, dy, sum_last(g, mul(g, dy, y))), y);
  return g->s;
}

weft_status_t *weft_grad_log_softmax(weft_grad_ctx_t *c) {
  LAYER;
  c->dx[0] = sub(g, dy, mul(g, sum_last(g, dy), weft_grad_op1(g, "Exp", y)));
  return g->s;
}

weft_status_t *weft_grad_bias_add(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t format = {weft_str("data_format"), {.kind = WEFT_ATTR_STRING, .s = WEFT_STR("NHWC")}};
  if (weft_op_attr(c->op, format.name) != NULL) format = weft_grad_same(g, "data_format");
  c->dx[0] = dy;
  c->dx[1] = weft_grad_node(g, "BiasAddGrad", &dy, 1, &format, 1);
  return g->s;
}

/* Each channel's value for all that was summed. */
weft_status_t *weft_grad_bias_add_grad(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t format = weft_grad_same(g, "data_format");
  value_t spread = dy;
  if (weft_str_is(format.value.s,
                  "NCHW")) { /* [C] -> [C, 1, ...]: as many as there are dimensions behind the channels */
    value_t shape = shape_of(g, x), ones = weft_grad_op1(g, "OnesLike", shape);
    value_t behind = weft_grad_op3(g, "Slice", ones, weft_grad_int32s(g, (int32_t[]){2}, 1),
                                   weft_grad_int32s(g, (int32_t[]){-1}, 1));
    spread = weft_grad_op2(g, "Reshape", dy, weft_grad_concat(g, (value_t[]){shape_of(g, dy), behind}, 2, 0));
  }
  c->dx[0] = weft_grad_op2(g, "BroadcastTo", spread, shape_of(g, x));
  return g->s;
}

/* ---- losses ---- */

/* The kernel has computed softmax - labels as its second output; `dy1` is the gradient of that output, if
 * any. */
static value_t logits_gradient(weft_grad_t *g, value_t logits) {
  weft_grad_ctx_t *c = g->c;
  value_t dx = WEFT_GRAD_ZERO;
  if (!weft_grad_is_zero(c->dy[0])) dx = mul(g, weft_grad_expand(g, c->dy[0], -1), c->outputs[1]);
  if (!weft_grad_is_zero(c->dy[1])) { /* through softmax's own derivative */
    value_t p = weft_grad_op1(g, "Softmax", logits), dy1 = c->dy[1];
    value_t second = mul(g, sub(g, dy1, sum_last(g, mul(g, dy1, p))), p);
    dx = weft_grad_is_zero(dx) ? second : weft_grad_op2(g, "AddV2", dx, second);
  }
  return dx;
}

weft_status_t *weft_grad_cross_entropy(weft_grad_ctx_t *c) {
  LAYER;
  value_t labels = c->inputs[1];
  c->dx[0] = weft_grad_unbroadcast(g, logits_gradient(g, x), x, c->outputs[1], 0);
  if (!weft_grad_is_zero(dy)) {
    value_t d =
        mul(g, weft_grad_expand(g, dy, -1), weft_grad_op1(g, "Neg", weft_grad_op1(g, "LogSoftmax", x)));
    c->dx[1] = weft_grad_unbroadcast(g, d, labels, c->outputs[1], 0);
  }
  return g->s;
}

weft_status_t *weft_grad_sparse_cross_entropy(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = logits_gradient(&g, c->inputs[0]);
  return g.s;
}

/* ---- convolution ---- */

static const char *const conv_attrs[] = {"strides",     "padding",   "explicit_paddings",
                                         "data_format", "dilations", "use_cudnn_on_gpu"};

/* The node `op` with the window attributes of this one (depthwise convolution has no use_cudnn_on_gpu). */
static value_t conv(weft_grad_t *g, const char *op, value_t a, value_t b, value_t d, int n) {
  weft_named_attr_t attrs[6];
  int num_attrs = 0;
  for (int i = 0; i < 6; i++) {
    if (weft_op_attr(g->c->op, weft_str(conv_attrs[i])) != NULL)
      attrs[num_attrs++] = weft_grad_same(g, conv_attrs[i]);
  }
  return weft_grad_node(g, op, (value_t[]){a, b, d}, n, attrs, num_attrs);
}

/* The three ops of a convolution, each of which is linear in what the two others give. */
typedef struct conv_ops {
  const char *forward, *input, *filter;
} conv_ops_t;
static const conv_ops_t conv2d = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};
static const conv_ops_t conv3d = {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"};
static const conv_ops_t depthwise = {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                                     "DepthwiseConv2dNativeBackpropFilter"};

static weft_status_t *of_forward(weft_grad_ctx_t *c, const conv_ops_t *ops) {
  LAYER;
  value_t filter = c->inputs[1];
  c->dx[0] = conv(g, ops->input, shape_of(g, x), filter, dy, 3);
  c->dx[1] = conv(g, ops->filter, x, shape_of(g, filter), dy, 3);
  return g->s;
}

static weft_status_t *of_input(weft_grad_ctx_t *c, const conv_ops_t *ops) {
  LAYER;
  value_t filter = c->inputs[1], out = c->inputs[2];
  c->dx[1] = conv(g, ops->filter, dy, shape_of(g, filter), out, 3);
  c->dx[2] = conv(g, ops->forward, dy, filter, WEFT_GRAD_ZERO, 2);
  return g->s;
}

static weft_status_t *of_filter(weft_grad_ctx_t *c, const conv_ops_t *ops) {
  LAYER;
  value_t out = c->inputs[2];
  c->dx[0] = conv(g, ops->input, shape_of(g, x), dy, out, 3);
  c->dx[2] = conv(g, ops->forward, x, dy, WEFT_GRAD_ZERO, 2);
  return g->s;
}

weft_status_t *weft_grad_conv2d(weft_grad_ctx_t *c) { return of_forward(c, &conv2d); }
weft_status_t *weft_grad_conv2d_backprop_input(weft_grad_ctx_t *c) { return of_input(c, &conv2d); }
weft_status_t *weft_grad_conv2d_backprop_filter(weft_grad_ctx_t *c) { return of_filter(c, &conv2d); }
weft_status_t *weft_grad_conv3d(weft_grad_ctx_t *c) { return of_forward(c, &conv3d); }
weft_status_t *weft_grad_conv3d_backprop_input(weft_grad_ctx_t *c) { return of_input(c, &conv3d); }
weft_status_t *weft_grad_conv3d_backprop_filter(weft_grad_ctx_t *c) { return of_filter(c, &conv3d); }
weft_status_t *weft_grad_depthwise(weft_grad_ctx_t *c) { return of_forward(c, &depthwise); }
weft_status_t *weft_grad_depthwise_backprop_input(weft_grad_ctx_t *c) { return of_input(c, &depthwise); }
weft_status_t *weft_grad_depthwise_backprop_filter(weft_grad_ctx_t *c) { return of_filter(c, &depthwise); }

/* ---- pooling ---- */

static value_t pool(weft_grad_t *g, const char *op, const value_t *inputs, int n) {
  static const char *const names[] = {"ksize", "strides", "padding", "explicit_paddings", "data_format"};
  weft_named_attr_t attrs[5];
  int num_attrs = 0;
  for (int i = 0; i < 5; i++) {
    if (weft_op_attr(g->c->op, weft_str(names[i])) != NULL) attrs[num_attrs++] = weft_grad_same(g, names[i]);
  }
  return weft_grad_node(g, op, inputs, n, attrs, num_attrs);
}

weft_status_t *weft_grad_max_pool(weft_grad_ctx_t *c) {
  LAYER;
  c->dx[0] = pool(g, "MaxPoolGrad", (value_t[]){x, y, dy}, 3);
  return g->s;
}

weft_status_t *weft_grad_max_pool3d(weft_grad_ctx_t *c) {
  LAYER;
  c->dx[0] = pool(g, "MaxPool3DGrad", (value_t[]){x, y, dy}, 3);
  return g->s;
}

weft_status_t *weft_grad_max_pool_v2(weft_grad_ctx_t *c) {
  LAYER;
  c->dx[0] = pool(g, "MaxPoolGradV2", (value_t[]){x, y, dy, c->inputs[1], c->inputs[2]}, 5);
  return g->s;
}

/* `op` of this one's x and y and of the gradient: of a pool's gradient, and of that one's. */
static weft_status_t *of_pool_grad(weft_grad_ctx_t *c, const char *op) {
  static const char *const names[] = {"ksize", "strides", "padding", "data_format"};
  weft_grad_t g = {c, NULL};
  weft_named_attr_t attrs[4];
  int num_attrs = 0;
  for (int i = 0; i < 4; i++) {
    if (weft_op_attr(c->op, weft_str(names[i])) != NULL) attrs[num_attrs++] = weft_grad_same(&g, names[i]);
  }
  value_t inputs[5] = {c->inputs[0], c->inputs[1], c->dy[0]};
  for (int i = 3; i < c->num_inputs; i++) inputs[i] = c->inputs[i];
  c->dx[2] = weft_grad_node(&g, op, inputs, c->num_inputs, attrs, num_attrs);
  return g.s;
}

weft_status_t *weft_grad_max_pool_grad(weft_grad_ctx_t *c) {
  const weft_attr_t *paddings = weft_attr_find(c->attrs, c->num_attrs, "explicit_paddings");
  if (paddings != NULL && paddings->n > 0) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "the second gradient of MaxPool with explicit paddings is not supported");
  }
  return of_pool_grad(c, "MaxPoolGradGrad");
}
weft_status_t *weft_grad_max_pool_grad_v2(weft_grad_ctx_t *c) { return of_pool_grad(c, "MaxPoolGradGradV2"); }
weft_status_t *weft_grad_max_pool_grad_grad(weft_grad_ctx_t *c) { return of_pool_grad(c, "MaxPoolGrad"); }
weft_status_t *weft_grad_max_pool3d_grad(weft_grad_ctx_t *c) { return of_pool_grad(c, "MaxPool3DGradGrad"); }
weft_status_t *weft_grad_max_pool3d_grad_grad(weft_grad_ctx_t *c) { return of_pool_grad(c, "MaxPool3DGrad"); }

weft_status_t *weft_grad_max_pool_argmax(weft_grad_ctx_t *c) {
  LAYER;
  static const char *const names[] = {"ksize", "strides", "padding", "include_batch_in_index"};
  weft_named_attr_t attrs[4];
  for (int i = 0; i < 4; i++) attrs[i] = weft_grad_same(g, names[i]);
  if (weft_grad_is_zero(dy)) return g->s;
  c->dx[0] = weft_grad_node(g, "MaxPoolGradWithArgmax", (value_t[]){x, dy, c->outputs[1]}, 3, attrs, 4);
  return g->s;
}

static weft_status_t *of_avg_pool(weft_grad_ctx_t *c, const char *op) {
  LAYER;
  c->dx[0] = pool(g, op, (value_t[]){shape_of(g, x), dy}, 2);
  return g->s;
}
weft_status_t *weft_grad_avg_pool(weft_grad_ctx_t *c) { return of_avg_pool(c, "AvgPoolGrad"); }
weft_status_t *weft_grad_avg_pool3d(weft_grad_ctx_t *c) { return of_avg_pool(c, "AvgPool3DGrad"); }

static weft_status_t *of_avg_pool_grad(weft_grad_ctx_t *c, const char *op) {
  LAYER;
  c->dx[1] = pool(g, op, &dy, 1);
  return g->s;
}
weft_status_t *weft_grad_avg_pool_grad(weft_grad_ctx_t *c) { return of_avg_pool_grad(c, "AvgPool"); }
weft_status_t *weft_grad_avg_pool3d_grad(weft_grad_ctx_t *c) { return of_avg_pool_grad(c, "AvgPool3D"); }

/* ---- normalisation ---- */

weft_status_t *weft_grad_lrn(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "depth_radius"), weft_grad_same(g, "bias"),
                               weft_grad_same(g, "alpha"), weft_grad_same(g, "beta")};
  c->dx[0] = weft_grad_node(g, "LRNGrad", (value_t[]){dy, x, y}, 3, attrs, 4);
  return g->s;
}

/* In training the kernel left batch statistics in its reserved outputs; otherwise the population's are
 * inputs. */
static weft_status_t *batch_norm(weft_grad_ctx_t *c, const char *op, int num_reserved) {
  LAYER;
  if (weft_grad_is_zero(dy)) return NULL; /* only the statistics were used: no gradient comes from there */
  bool is_training = weft_grad_attr_bool(g, "is_training");
  value_t inputs[6] = {dy, x, c->inputs[1], is_training ? c->outputs[3] : c->inputs[3],
                       is_training ? c->outputs[4] : c->inputs[4]};
  if (num_reserved > 2) inputs[5] = c->outputs[5];
  weft_named_attr_t attrs[] = {weft_grad_same(g, "epsilon"), weft_grad_same(g, "data_format"),
                               weft_grad_same(g, "is_training")};
  value_t d = weft_grad_node(g, op, inputs, 3 + num_reserved, attrs, 3);
  for (int i = 0; i < 3; i++) c->dx[i] = weft_grad_output(d, i);
  return g->s;
}
weft_status_t *weft_grad_batch_norm(weft_grad_ctx_t *c) { return batch_norm(c, "FusedBatchNormGrad", 2); }
weft_status_t *weft_grad_batch_norm_v2(weft_grad_ctx_t *c) {
  return batch_norm(c, "FusedBatchNormGradV2", 2);
}
weft_status_t *weft_grad_batch_norm_v3(weft_grad_ctx_t *c) {
  return batch_norm(c, "FusedBatchNormGradV3", 3);
}

/* ---- top k: dy goes back to where the values came from ---- */

weft_status_t *weft_grad_top_k(weft_grad_ctx_t *c) {
  LAYER;
  if (weft_grad_is_zero(dy)) return NULL;
  value_t minus_one = weft_grad_int32s(g, (int32_t[]){-1}, 1), shape = shape_of(g, x),
          zero = weft_grad_scalar(g, WEFT_I32, 0), one = weft_grad_scalar(g, WEFT_I32, 1);
  value_t indices = weft_grad_cast(g, c->outputs[1], WEFT_I32);
  value_t width = weft_grad_gather0(g, shape, weft_grad_op2(g, "Sub", weft_grad_op1(g, "Size", shape), one));
  value_t k =
      weft_grad_gather0(g, shape_of(g, y), weft_grad_op2(g, "Sub", weft_grad_op1(g, "Size", shape), one));
  value_t rows = weft_grad_op2(g, "Reshape", indices,
                               weft_grad_pack(g, (value_t[]){weft_grad_scalar(g, WEFT_I32, -1), k}, 2));
  value_t num_rows = weft_grad_gather0(g, shape_of(g, rows), zero);
  value_t starts = weft_grad_op3(g, "Range", zero, weft_grad_op2(g, "Mul", num_rows, width), width);
  value_t flat = weft_grad_op2(g, "Reshape", weft_grad_op2(g, "AddV2", rows, weft_grad_expand(g, starts, -1)),
                               minus_one);
  value_t size = weft_grad_expand(g, weft_grad_reduce(g, "Prod", shape, zero, false), 0);
  value_t scattered = weft_grad_op3(g, "ScatterNd", weft_grad_expand(g, flat, -1),
                                    weft_grad_op2(g, "Reshape", dy, minus_one), size);
  c->dx[0] = weft_grad_op2(g, "Reshape", scattered, shape);
  return g->s;
}
