/* ops/nn.c - shapes of neural-network ops.
 *
 * Letters: N batch, H and W space, C channels, K filters; a layout ("NHWC", "NCHW")
 * says where each dim of an image is.
 */
#include <inttypes.h>

#include "ops/infer.h"

/* Where the dims of an image of 2 or 3 spatial dimensions are. */
typedef struct layout {
  int channel, space; /* of C; of the first spatial dim */
  int num_space;
} layout_t;

static layout_t layout_of(const weft_shape_ctx_t *c, int num_space) {
  bool channel_first = weft_str_starts_with(weft_infer_str(c, "data_format"), "NC");
  return channel_first ? (layout_t){1, 2, num_space} : (layout_t){num_space + 1, 1, num_space};
}

/* ---- activations, bias ---- */

weft_status_t *weft_infer_softmax(weft_shape_ctx_t *c) {
  return weft_shape_with_rank_at_least(c, 0, 1, &c->outputs[0]);
}

weft_status_t *weft_infer_bias_add(weft_shape_ctx_t *c) {
  weft_shape_t in, bias;
  bool channel_first = weft_str_is(weft_infer_str(c, "data_format"), "NCHW");
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, channel_first ? 3 : 2, &in));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &bias));
  if (in.rank < 0) return NULL;
  int at = channel_first ? 1 : in.rank - 1;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in.dims[at], bias.dims[0], &in.dims[at]));
  c->outputs[0] = in;
  return NULL;
}

weft_status_t *weft_infer_bias_add_grad(weft_shape_ctx_t *c) {
  weft_shape_t in;
  bool channel_first = weft_str_is(weft_infer_str(c, "data_format"), "NCHW");
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, channel_first ? 3 : 2, &in));
  c->outputs[0] = weft_shape_vector(weft_infer_dim(&in, channel_first ? 1 : -1));
  return NULL;
}

/* ---- losses ---- */

weft_status_t *weft_infer_cross_entropy(weft_shape_ctx_t *c) {
  weft_shape_t in;
  const weft_shape_t *a = &c->inputs[0], *b = &c->inputs[1];
  weft_status_t *s = weft_infer_rank(a, 2, &in);
  if (s == NULL) s = weft_shape_merge(&in, b, &in);
  if (s != NULL) { /* not equal, but one may broadcast to the other */
    weft_status_free(s);
    WEFT_RETURN_IF_ERROR(weft_shape_broadcast(a, b, &in));
    if (in.rank < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be broadcasted with rank 2, but is rank is unknown.");
    if (in.rank != 2) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be broadcasted with rank 2, but is rank %d", in.rank);
    }
  }
  c->outputs[0] = weft_shape_vector(in.dims[0]);
  c->outputs[1] = in;
  return NULL;
}

weft_status_t *weft_infer_sparse_cross_entropy(weft_shape_ctx_t *c) {
  weft_shape_t features, labels;
  int64_t batch = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &features));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &labels));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(features.dims[0], labels.dims[0], &batch));
  c->outputs[0] = weft_shape_vector(batch);
  features.dims[0] = batch;
  c->outputs[1] = features;
  return NULL;
}

weft_status_t *weft_infer_in_top_k(weft_shape_ctx_t *c) {
  weft_shape_t predictions, targets;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &predictions));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &targets));
  if (c->num_inputs > 2) WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  c->outputs[0] = weft_shape_vector(0);
  return weft_shape_merge_dim(predictions.dims[0], targets.dims[0], &c->outputs[0].dims[0]);
}

weft_status_t *weft_infer_top_k(weft_shape_ctx_t *c) {
  weft_shape_t in;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 0, 1, &in));
  int64_t k = WEFT_UNKNOWN_DIM;
  if (c->num_inputs == 1) {
    k = weft_infer_int(c, "k");
  } else {
    WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 1, &k));
  }
  if (in.rank < 0) return NULL;
  int64_t last = weft_infer_dim(&in, -1);
  if (last >= 0 && k >= 0 && last < k) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must have last dimension >= k = %" PRId64 " but is %" PRId64,
                      k, last);
  }
  in.dims[in.rank - 1] = k;
  c->outputs[0] = c->outputs[1] = in;
  return NULL;
}

weft_status_t *weft_infer_rank4_unchanged(weft_shape_ctx_t *c) {
  return weft_shape_with_rank(c, 0, 4, &c->outputs[0]);
}

weft_status_t *weft_infer_lrn_grad(weft_shape_ctx_t *c) {
  weft_shape_t s = weft_infer_unknown_of_rank(4);
  for (int i = 0; i < 3; i++) WEFT_RETURN_IF_ERROR(weft_shape_merge(&s, &c->inputs[i], &s));
  c->outputs[0] = s;
  return NULL;
}

/* ---- batch normalisation ---- */

weft_status_t *weft_infer_batch_norm(weft_shape_ctx_t *c) {
  int rank = weft_infer_str(c, "data_format").length == 5 ? 5 : 4;
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, rank, &x));
  int at = layout_of(c, rank - 2).channel;
  bool is_training = weft_infer_bool(c, "is_training");
  const weft_attr_t *factor = weft_shape_attr(c, "exponential_avg_factor");
  bool blends = factor->kind == WEFT_ATTR_FLOAT && factor->f != 1.0f;
  int64_t channels = x.dims[at];
  for (int i = 1; i < (is_training && !blends ? 3 : 5); i++) {
    weft_shape_t v;
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &v));
    if (is_training && i > 2 && v.dims[0] == 0) continue; /* no running statistics yet */
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(channels, v.dims[0], &channels));
  }
  x.dims[at] = channels;
  c->outputs[0] = x;
  for (int i = 1; i < 5; i++) c->outputs[i] = weft_shape_vector(channels);
  return NULL;
}

weft_status_t *weft_infer_batch_norm_grad(weft_shape_ctx_t *c) {
  int rank = weft_infer_str(c, "data_format").length == 5 ? 5 : 4;
  weft_shape_t dy, x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, rank, &dy));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, rank, &x));
  int at = layout_of(c, rank - 2).channel;
  int64_t channels = dy.dims[at];
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(channels, x.dims[at], &channels));
  for (int i = 2; i < 5; i++) {
    weft_shape_t v;
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &v));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(channels, v.dims[0], &channels));
  }
  dy.dims[at] = channels;
  c->outputs[0] = dy;
  c->outputs[1] = c->outputs[2] = weft_shape_vector(channels);
  c->outputs[3] = c->outputs[4] = weft_shape_vector(0);
  return NULL;
}

/* ---- convolution ---- */

/* "Pooling requires the stride attribute to contain 4 values, but got: 3" */
static weft_status_t *check_four(const weft_shape_ctx_t *c, const char *name, const char *op,
                                 const char *word) {
  int n = weft_infer_list_length(c, name);
  if (n == 4) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s requires the %s attribute to contain 4 values, but got: %d", op,
                    word, n);
}

/* Without padding a window that is larger than what it slides over is an error here; a kernel gives nothing.
 */
static weft_status_t *check_window(weft_str_t padding, int64_t in, int64_t window, int64_t dilation) {
  if (!weft_str_is(padding, "VALID") || in < 0 || window <= 0 || dilation < 1) return NULL;
  int64_t extent = 0;
  if (__builtin_mul_overflow(window - 1, dilation, &extent) || extent + 1 > in) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Negative dimension size caused by subtracting %" PRId64 " from %" PRId64, extent + 1,
                      in);
  }
  return NULL;
}

/* Output size of spatial dim i: in -> out, by strides, dilations and padding of the node. */
static weft_status_t *window(const weft_shape_ctx_t *c, const layout_t *at, int i, int64_t in, int64_t size,
                             int64_t *out) {
  int dim = at->space + i;
  WEFT_RETURN_IF_ERROR(
      check_window(weft_infer_str(c, "padding"), in, size, weft_infer_list_int(c, "dilations", dim, 1)));
  return weft_window_size(in, size, weft_infer_list_int(c, "dilations", dim, 1),
                          weft_infer_list_int(c, "strides", dim, 1), weft_infer_str(c, "padding"),
                          weft_infer_list_int(c, "explicit_paddings", 2 * dim, 0),
                          weft_infer_list_int(c, "explicit_paddings", 2 * dim + 1, 0), out, NULL, NULL);
}

static weft_status_t *check_explicit_paddings(const weft_shape_ctx_t *c) {
  int n = weft_infer_list_length(c, "explicit_paddings");
  bool is_explicit = weft_str_is(weft_infer_str(c, "padding"), "EXPLICIT");
  if (is_explicit && n != 8) {
    return WEFT_ERROR(INVALID_ARGUMENT, "explicit_paddings attribute must contain 8 values, but got: %d", n);
  }
  if (!is_explicit && n != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  for (int i = 0; i < n; i++) {
    if (weft_infer_list_int(c, "explicit_paddings", i, 0) < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "All elements of explicit_paddings must be nonnegative");
    }
  }
  return NULL;
}

weft_status_t *weft_infer_conv2d(weft_shape_ctx_t *c) {
  weft_shape_t in, filter;
  layout_t at = layout_of(c, 2);
  if (weft_infer_list_length(c, "dilations") != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv2D requires the dilation attribute to contain 4 values, but got: %d",
                      weft_infer_list_length(c, "dilations"));
  }
  if (weft_infer_list_length(c, "strides") != 4) {
    weft_str_t format = weft_infer_str(c, "data_format");
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Conv2D on data format %.*s requires the stride attribute to contain 4 values, but got: %d",
        WEFT_STR_ARGS(format), weft_infer_list_length(c, "strides"));
  }
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 4, &filter));
  WEFT_RETURN_IF_ERROR(check_explicit_paddings(c));
  int64_t depth = in.dims[at.channel], filter_depth = filter.dims[2];
  if (depth >= 0 && filter_depth >= 0) {
    if (filter_depth == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Depth of filter must not be 0");
    if (depth % filter_depth != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Depth of input (%" PRId64 ") is not a multiple of input depth of filter (%" PRId64
                        ")",
                        depth, filter_depth);
    }
    int64_t groups = depth / filter_depth;
    if (groups > 0 && filter.dims[3] >= 0 && filter.dims[3] % groups != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Depth of output (%" PRId64 ") is not a multiple of the number of groups (%" PRId64
                        ")",
                        filter.dims[3], groups);
    }
  }
  weft_shape_t out = {.rank = 4};
  out.dims[0] = in.dims[0];
  out.dims[at.channel] = filter.dims[3];
  for (int i = 0; i < 2; i++) {
    WEFT_RETURN_IF_ERROR(window(c, &at, i, in.dims[at.space + i], filter.dims[i], &out.dims[at.space + i]));
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_depthwise(weft_shape_ctx_t *c) {
  weft_shape_t in, filter;
  layout_t at = layout_of(c, 2);
  WEFT_RETURN_IF_ERROR(check_four(c, "strides", "DepthwiseConv2D", "stride"));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 4, &filter));
  int64_t depth = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in.dims[at.channel], filter.dims[2], &depth));
  weft_shape_t out = {.rank = 4};
  out.dims[0] = in.dims[0];
  WEFT_RETURN_IF_ERROR(weft_infer_multiply(depth, filter.dims[3], &out.dims[at.channel]));
  for (int i = 0; i < 2; i++) {
    WEFT_RETURN_IF_ERROR(window(c, &at, i, in.dims[at.space + i], filter.dims[i], &out.dims[at.space + i]));
  }
  c->outputs[0] = out;
  return NULL;
}

/* The image or filter that input i holds the shape of; always of rank 4. */
static weft_status_t *rank4_from(weft_shape_ctx_t *c, int i) {
  weft_shape_t s;
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, i, &s));
  return weft_infer_rank(&s, 4, &c->outputs[0]);
}

weft_status_t *weft_infer_conv_backprop_input(weft_shape_ctx_t *c) {
  weft_shape_t sizes, filter, out_backprop, given;
  layout_t at = layout_of(c, 2);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &sizes));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 4, &filter));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 4, &out_backprop));
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, 0, &given));
  if (given.rank >= 0 && given.rank != 2 && given.rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: %d",
                      given.rank);
  }
  weft_shape_t out = weft_infer_unknown_of_rank(4);
  if (given.rank == 4) out = given;
  if (given.rank == 2) { /* only the spatial dims */
    for (int i = 0; i < 2; i++) out.dims[at.space + i] = given.dims[i];
    out.dims[at.channel] = filter.dims[2];
  }
  c->outputs[0] = out;
  return weft_shape_merge_dim(out.dims[0], out_backprop.dims[0], &c->outputs[0].dims[0]);
}

weft_status_t *weft_infer_depthwise_backprop_input(weft_shape_ctx_t *c) { return rank4_from(c, 0); }

weft_status_t *weft_infer_conv_backprop_filter(weft_shape_ctx_t *c) { return rank4_from(c, 1); }

/* ---- pooling ---- */

/* ksize and strides as four values each, from attributes or constant inputs 1 and 2. */
static weft_status_t *pool(weft_shape_ctx_t *c, const int64_t *ksize, const int64_t *strides) {
  weft_shape_t in;
  layout_t at = layout_of(c, 2);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  weft_shape_t out = in;
  int64_t k_depth = ksize[at.channel], s_depth = strides[at.channel];
  for (int i = 0; i < 2; i++) {
    int dim = at.space + i;
    if (ksize[dim] <= 0)
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Sliding window ksize for dimension %d must be positive, but got %" PRId64, dim,
                        ksize[dim]);
    WEFT_RETURN_IF_ERROR(check_window(weft_infer_str(c, "padding"), in.dims[dim], ksize[dim], 1));
    WEFT_RETURN_IF_ERROR(weft_window_size(
        in.dims[dim], ksize[dim], 1, strides[dim], weft_infer_str(c, "padding"),
        weft_infer_list_int(c, "explicit_paddings", 2 * dim, 0),
        weft_infer_list_int(c, "explicit_paddings", 2 * dim + 1, 0), &out.dims[dim], NULL, NULL));
  }
  WEFT_RETURN_IF_ERROR(weft_window_size(in.dims[at.channel], k_depth, 1, s_depth, WEFT_STR("VALID"), 0, 0,
                                        &out.dims[at.channel], NULL, NULL));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_pool(weft_shape_ctx_t *c) {
  int64_t ksize[4], strides[4];
  WEFT_RETURN_IF_ERROR(check_four(c, "strides", "Pooling", "stride"));
  WEFT_RETURN_IF_ERROR(check_four(c, "ksize", "Pooling", "ksize"));
  for (int i = 0; i < 4; i++) {
    ksize[i] = weft_infer_list_int(c, "ksize", i, 1);
    strides[i] = weft_infer_list_int(c, "strides", i, 1);
  }
  return pool(c, ksize, strides);
}

weft_status_t *weft_infer_pool_argmax(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_pool(c));
  c->outputs[1] = c->outputs[0];
  return NULL;
}

weft_status_t *weft_infer_pool_v2(weft_shape_ctx_t *c) {
  int64_t ksize[4], strides[4];
  for (int i = 1; i < 3; i++) {
    weft_shape_t v;
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &v));
    WEFT_RETURN_IF_ERROR(weft_infer_dim_is(v.dims[0], 4));
    if (weft_infer_is_known(c, i)) continue;
    return weft_shape_with_rank(c, 0, 4, NULL);
  }
  for (int i = 0; i < 4; i++) {
    ksize[i] = weft_infer_value(c, 1, i);
    strides[i] = weft_infer_value(c, 2, i);
  }
  return pool(c, ksize, strides);
}

weft_status_t *weft_infer_avg_pool_grad(weft_shape_ctx_t *c) { return rank4_from(c, 0); }

weft_status_t *weft_infer_pool_grad_grad(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[1];
  return NULL;
}
