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
/* As TensorFlow's: a sum over all axes but the last, which rounds differently from BiasAddGrad's. */
weft_status_t *weft_grad_bias_add_v1(weft_grad_ctx_t *c) {
  LAYER;
  value_t zero = weft_grad_scalar(g, WEFT_I32, 0), one = weft_grad_scalar(g, WEFT_I32, 1);
  value_t axes = weft_grad_op3(g, "Range", zero, sub(g, weft_grad_op1(g, "Rank", dy), one), one);
  c->dx[0] = dy;
  c->dx[1] = weft_grad_reduce(g, "Sum", dy, axes, false);
  return g->s;
}

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

/* Channels from first to last, or back. */
static value_t move_channels(weft_grad_t *g, value_t v, int rank, bool to_last) {
  int32_t axes[5] = {0};
  for (int i = 1; i < rank; i++) axes[i] = 1 + (to_last ? i : i + rank - 3) % (rank - 1);
  return weft_grad_op2(g, "Transpose", v, weft_grad_int32s(g, axes, rank));
}

/* In training the kernel left batch statistics in its reserved outputs; otherwise the population's are
 * inputs, and the gradient's kernel wants the channels last. */
static weft_status_t *batch_norm(weft_grad_ctx_t *c, const char *op, int num_reserved) {
  LAYER;
  if (weft_grad_is_zero(dy)) return NULL; /* only the statistics were used: no gradient comes from there */
  bool is_training = weft_grad_attr_bool(g, "is_training");
  value_t inputs[6] = {dy, x, c->inputs[1], is_training ? c->outputs[3] : c->inputs[3],
                       is_training ? c->outputs[4] : c->inputs[4]};
  if (num_reserved > 2) inputs[5] = c->outputs[5];
  weft_named_attr_t attrs[] = {weft_grad_same(g, "epsilon"), weft_grad_same(g, "data_format"),
                               weft_grad_same(g, "is_training")};
  const weft_str_t format = attrs[1].value.s;
  const int rank = format.length == 5 ? 5 : 4;
  const bool is_moved = !is_training && weft_str_starts_with(format, "NC");
  if (is_moved) {
    attrs[1] = weft_text_attr("data_format", weft_str(rank == 5 ? "NDHWC" : "NHWC"));
    for (int i = 0; i < 2; i++) inputs[i] = move_channels(g, inputs[i], rank, true);
  }
  value_t d = weft_grad_node(g, op, inputs, 3 + num_reserved, attrs, 3);
  for (int i = 0; i < 3; i++) c->dx[i] = weft_grad_output(d, i);
  if (is_moved) c->dx[0] = move_channels(g, d, rank, false);
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

weft_status_t *weft_grad_approx_top_k(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  const int64_t axis = weft_grad_attr_int(&g, "reduction_dimension");
  if (axis != -1 && axis != weft_grad_shape_of(&g, c->inputs[0]).rank - 1)
    return WEFT_ERROR(UNIMPLEMENTED, "ApproxTopK has a gradient along the last dimension only");
  return weft_grad_top_k(c);
}

/* ---- windows without weights ---- */

weft_status_t *weft_grad_dilation(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "strides"), weft_grad_same(g, "rates"),
                               weft_grad_same(g, "padding")};
  value_t inputs[] = {x, c->inputs[1], dy};
  c->dx[0] = weft_grad_node(g, "Dilation2DBackpropInput", inputs, 3, attrs, 3);
  c->dx[1] = weft_grad_node(g, "Dilation2DBackpropFilter", inputs, 3, attrs, 3);
  return g->s;
}

/* The elements [from, to) of a vector. */
static value_t part(weft_grad_t *g, value_t v, int from, int to) {
  int32_t places[3];
  for (int i = from; i < to; i++) places[i - from] = i;
  return weft_grad_gather0(g, v, weft_grad_int32s(g, places, to - from));
}

/* The pixels of an image are numbered, and the numbers go the way that the pixels went: they say which pixel
 * each part of the gradient belongs to. Padding has the number 0, which becomes -1 and counts nowhere. */
static value_t pixels_of_patches(weft_grad_t *g, value_t space, int num_space) {
  static const char *const names[] = {"ksizes", "strides", "padding", "rates"};
  weft_named_attr_t attrs[4];
  const int num_attrs = num_space == 2 ? 4 : 3;
  for (int i = 0; i < num_attrs; i++) attrs[i] = weft_grad_same(g, names[i]);
  value_t one = weft_grad_int_scalar(g, WEFT_I64, 1), single = weft_grad_expand(g, one, 0);
  value_t count = weft_grad_reduce(g, "Prod", space, weft_grad_int32s(g, (int32_t[]){0}, 1), false);
  value_t numbers = weft_grad_op3(g, "Range", one, weft_grad_op2(g, "AddV2", count, one), one);
  value_t image =
      weft_grad_op2(g, "Reshape", numbers, weft_grad_concat(g, (value_t[]){single, space, single}, 3, 0));
  value_t patches = weft_grad_node(g, num_space == 2 ? "ExtractImagePatches" : "ExtractVolumePatches", &image,
                                   1, attrs, num_attrs);
  value_t flat = weft_grad_op2(g, "Reshape", patches, weft_grad_int32s(g, (int32_t[]){-1}, 1));
  return sub(g, flat, one);
}

static weft_status_t *of_patches(weft_grad_ctx_t *c, int num_space) {
  LAYER;
  const int rank = num_space + 2;
  value_t shape = weft_grad_shape_node(g, x, WEFT_I64), space = part(g, shape, 1, rank - 1);
  value_t pixels = pixels_of_patches(g, space, num_space);
  value_t cells = weft_grad_shape_node(g, pixels, WEFT_I64),
          swap = weft_grad_int32s(g, (int32_t[]){1, 0, 2}, 3);
  value_t count = weft_grad_reduce(g, "Prod", space, weft_grad_int32s(g, (int32_t[]){0}, 1), false);
  value_t sizes[] = {part(g, shape, 0, 1), cells, part(g, shape, rank - 1, rank)};
  value_t flat = weft_grad_op2(g, "Reshape", dy, weft_grad_concat(g, sizes, 3, 0));
  value_t sums =
      weft_grad_op3(g, "UnsortedSegmentSum", weft_grad_op2(g, "Transpose", flat, swap), pixels, count);
  c->dx[0] = weft_grad_op2(g, "Reshape", weft_grad_op2(g, "Transpose", sums, swap), shape);
  return g->s;
}
weft_status_t *weft_grad_image_patches(weft_grad_ctx_t *c) { return of_patches(c, 2); }
weft_status_t *weft_grad_volume_patches(weft_grad_ctx_t *c) { return of_patches(c, 3); }

/* ---- fractional pooling: the windows are outputs of the node ---- */

static weft_status_t *of_fractional(weft_grad_ctx_t *c, const char *op, const value_t *inputs, int n) {
  weft_grad_t g = {c, NULL};
  weft_named_attr_t overlapping = weft_grad_same(&g, "overlapping");
  if (weft_grad_is_zero(c->dy[0])) return NULL;
  c->dx[0] = weft_grad_node(&g, op, inputs, n, &overlapping, 1);
  return g.s;
}
weft_status_t *weft_grad_fractional_max_pool(weft_grad_ctx_t *c) {
  value_t inputs[] = {c->inputs[0], c->outputs[0], c->dy[0], c->outputs[1], c->outputs[2]};
  return of_fractional(c, "FractionalMaxPoolGrad", inputs, 5);
}
weft_status_t *weft_grad_fractional_avg_pool(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  if (weft_grad_is_zero(c->dy[0])) return NULL;
  value_t inputs[] = {weft_grad_shape_node(&g, c->inputs[0], WEFT_I64), c->dy[0], c->outputs[1],
                      c->outputs[2]};
  return g.s != NULL ? g.s : of_fractional(c, "FractionalAvgPoolGrad", inputs, 4);
}

/* ---- normalisation with given statistics ---- */

weft_status_t *weft_grad_global_norm(weft_grad_ctx_t *c) {
  LAYER;
  weft_named_attr_t attrs[] = {weft_grad_same(g, "variance_epsilon"),
                               weft_grad_same(g, "scale_after_normalization")};
  value_t inputs[] = {x, c->inputs[1], c->inputs[2], c->inputs[4], dy};
  value_t d = weft_grad_node(g, "BatchNormWithGlobalNormalizationGrad", inputs, 5, attrs, 2);
  for (int i = 0; i < 5; i++) c->dx[i] = weft_grad_output(d, i);
  return g->s;
}

/* ---- the second order of batch normalisation: the derivatives of
 *   dx = s r (dy - mean(dy) - r^2 mean(dy e) e), ds = r sum(dy e), db = sum(dy),  e = x - mean(x),
 *   r = 1 / sqrt(mean(e^2) + epsilon),
 * or with the given mean and variance dx = s r dy. a, b, d are the gradients of dx, ds, db. ---- */

typedef struct norm_grads {
  weft_grad_t *g;
  value_t dy, x, s, a, b, d; /* vectors are spread along the channels */
  value_t axes;              /* all dimensions but the channels */
  float epsilon;
} norm_grads_t;

static value_t add(weft_grad_t *g, value_t a, value_t b) { return weft_grad_op2(g, "AddV2", a, b); }
static value_t mean(const norm_grads_t *n, value_t v) {
  return weft_grad_reduce(n->g, "Mean", v, n->axes, true);
}
static value_t total(const norm_grads_t *n, value_t v) {
  return weft_grad_op2(n->g, "Reshape", weft_grad_reduce(n->g, "Sum", v, n->axes, true),
                       weft_grad_int32s(n->g, (int32_t[]){-1}, 1));
}
static value_t inverse_deviation(const norm_grads_t *n, value_t variance) {
  weft_grad_t *g = n->g;
  return weft_grad_op1(g, "Rsqrt", add(g, variance, weft_grad_scalar(g, WEFT_F32, (double)n->epsilon)));
}

/* A vector as an image of one pixel. */
static value_t as_image(weft_grad_t *g, value_t v, int rank, bool is_first) {
  const int32_t first[] = {1, -1, 1, 1, 1}, last[] = {1, 1, 1, 1, -1};
  return weft_grad_op2(g, "Reshape", v, weft_grad_int32s(g, is_first ? first : last + 5 - rank, rank));
}

static void norm_grads_training(const norm_grads_t *n, value_t out[3]) {
  weft_grad_t *g = n->g;
  value_t e = sub(g, n->x, mean(n, n->x)), r = inverse_deviation(n, mean(n, mul(g, e, e)));
  value_t r2 = mul(g, r, r), sr = mul(g, n->s, r), br = mul(g, n->b, r);
  value_t dy = sub(g, n->dy, mean(n, n->dy)), a = sub(g, n->a, mean(n, n->a));
  value_t by_dy = mean(n, mul(g, n->dy, e)), by_a = mean(n, mul(g, n->a, e)),
          both = mean(n, mul(g, n->a, dy));
  value_t slope = mul(g, mul(g, r2, by_dy), e); /* what dx lacks of dy */
  value_t part = mul(g, sr, sub(g, a, mul(g, mul(g, r2, by_a), e)));
  out[0] = add(g, add(g, part, mul(g, br, e)), n->d);
  value_t curve = mul(g, weft_grad_scalar(g, WEFT_F32, 3), mul(g, r2, mul(g, by_dy, by_a)));
  value_t bent = sub(g, mul(g, sub(g, curve, both), e), add(g, mul(g, by_a, dy), mul(g, by_dy, a)));
  out[1] = add(g, mul(g, mul(g, sr, r2), bent), mul(g, br, sub(g, dy, slope)));
  out[2] = total(n, mul(g, mul(g, n->a, sub(g, dy, slope)), r));
}

static void norm_grads_given(const norm_grads_t *n, value_t given_mean, value_t variance, value_t out[3]) {
  weft_grad_t *g = n->g;
  value_t e = sub(g, n->x, given_mean), r = inverse_deviation(n, variance), br = mul(g, n->b, r);
  out[0] = add(g, add(g, mul(g, n->a, mul(g, n->s, r)), mul(g, br, e)), n->d);
  out[1] = mul(g, br, n->dy);
  out[2] = total(n, mul(g, mul(g, n->a, n->dy), r));
}

weft_status_t *weft_grad_batch_norm_grad(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  const weft_str_t format = weft_grad_same(g, "data_format").value.s;
  const int rank = format.length == 5 ? 5 : 4, dtype = weft_grad_dtype(g, c->inputs[1]);
  const bool is_first = weft_str_starts_with(format, "NC");
  int32_t axes[4];
  for (int i = 0, n = 0; i < rank; i++) {
    if (i != (is_first ? 1 : rank - 1)) axes[n++] = i;
  }
  norm_grads_t n = {.g = g,
                    .dy = weft_grad_cast(g, c->inputs[0], WEFT_F32),
                    .x = weft_grad_cast(g, c->inputs[1], WEFT_F32),
                    .s = as_image(g, c->inputs[2], rank, is_first),
                    .a = weft_grad_cast(g, weft_grad_dy_or_zeros(g, 0), WEFT_F32),
                    .b = as_image(g, weft_grad_dy_or_zeros(g, 1), rank, is_first),
                    .d = as_image(g, weft_grad_dy_or_zeros(g, 2), rank, is_first),
                    .axes = weft_grad_int32s(g, axes, rank - 1),
                    .epsilon = weft_grad_same(g, "epsilon").value.f};
  value_t out[3];
  if (weft_grad_attr_bool(g, "is_training")) {
    norm_grads_training(&n, out);
  } else {
    norm_grads_given(&n, as_image(g, c->inputs[3], rank, is_first), as_image(g, c->inputs[4], rank, is_first),
                     out);
  }
  c->dx[0] = weft_grad_cast(g, out[0], dtype);
  c->dx[1] = weft_grad_cast(g, out[1], dtype);
  c->dx[2] = out[2];
  return g->s;
}
