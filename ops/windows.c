/* ops/windows.c - shapes of ops that slide a window: convolutions, pools, dilations, patches.
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

/* ---- convolution ---- */

/* "Pooling requires the stride attribute to contain 4 values, but got: 3" */
static weft_status_t *check_length(const weft_shape_ctx_t *c, const char *name, int length, const char *op,
                                   const char *word) {
  int n = weft_infer_list_length(c, name);
  if (n == length) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s requires the %s attribute to contain %d values, but got: %d", op,
                    word, length, n);
}

/* How many times a window fits into dimension `dim`, of size `in`, by the padding of the node. A window that
 * is larger than what it slides over is an error here; a kernel gives nothing. */
static weft_status_t *slide(const weft_shape_ctx_t *c, int dim, int64_t in, int64_t size, int64_t dilation,
                            int64_t stride, int64_t *out) {
  weft_str_t padding = weft_infer_str(c, "padding");
  const bool is_explicit = weft_str_is(padding, "EXPLICIT");
  const int64_t before = is_explicit ? weft_infer_list_int(c, "explicit_paddings", 2 * dim, 0) : 0;
  const int64_t after = is_explicit ? weft_infer_list_int(c, "explicit_paddings", 2 * dim + 1, 0) : 0;
  int64_t extent = 0, room = 0;
  if (!weft_str_is(padding, "SAME") && in >= 0 && size > 0 && dilation >= 1) {
    if (__builtin_add_overflow(in, before, &room) || __builtin_add_overflow(room, after, &room) ||
        __builtin_mul_overflow(size - 1, dilation, &extent) || extent >= room) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Negative dimension size caused by subtracting %" PRId64 " from %" PRId64, extent + 1,
                        room);
    }
  }
  return weft_window_size(in, size, dilation, stride, padding, before, after, out, NULL, NULL);
}

/* Output size of spatial dim i: in -> out, by strides, dilations and padding of the node. */
static weft_status_t *window(const weft_shape_ctx_t *c, const layout_t *at, int i, int64_t in, int64_t size,
                             int64_t *out) {
  int dim = at->space + i;
  return slide(c, dim, in, size, weft_infer_list_int(c, "dilations", dim, 1),
               weft_infer_list_int(c, "strides", dim, 1), out);
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

/* Channels of the input, and of the filter going in and out: a group of filters for each part of the input.
 */
static weft_status_t *check_depths(int64_t depth, int64_t filter_depth, int64_t out_depth) {
  if (depth < 0 || filter_depth < 0) return NULL;
  if (filter_depth == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Depth of filter must not be 0");
  if (depth % filter_depth != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Depth of input (%" PRId64 ") is not a multiple of input depth of filter (%" PRId64 ")",
                      depth, filter_depth);
  }
  int64_t groups = depth / filter_depth;
  if (groups > 0 && out_depth >= 0 && out_depth % groups != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Depth of output (%" PRId64 ") is not a multiple of the number of groups (%" PRId64 ")",
                      out_depth, groups);
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
  WEFT_RETURN_IF_ERROR(check_depths(in.dims[at.channel], filter.dims[2], filter.dims[3]));
  weft_shape_t out = {.rank = 4};
  out.dims[0] = in.dims[0];
  out.dims[at.channel] = filter.dims[3];
  for (int i = 0; i < 2; i++) {
    WEFT_RETURN_IF_ERROR(window(c, &at, i, in.dims[at.space + i], filter.dims[i], &out.dims[at.space + i]));
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_conv3d(weft_shape_ctx_t *c) {
  weft_shape_t in, filter;
  layout_t at = layout_of(c, 3);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 5, &in));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 5, &filter));
  WEFT_RETURN_IF_ERROR(check_length(c, "dilations", 5, "Conv3D", "dilation"));
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", 5, "Conv3D", "stride"));
  WEFT_RETURN_IF_ERROR(check_depths(in.dims[at.channel], filter.dims[3], filter.dims[4]));
  weft_shape_t out = {.rank = 5};
  out.dims[0] = in.dims[0];
  out.dims[at.channel] = filter.dims[4];
  for (int i = 0; i < 3; i++) {
    WEFT_RETURN_IF_ERROR(window(c, &at, i, in.dims[at.space + i], filter.dims[i], &out.dims[at.space + i]));
  }
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_depthwise(weft_shape_ctx_t *c) {
  weft_shape_t in, filter;
  layout_t at = layout_of(c, 2);
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", 4, "DepthwiseConv2D", "stride"));
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

/* The image, volume or filter that input i holds the shape of. */
static weft_status_t *rank_from(weft_shape_ctx_t *c, int i, int rank) {
  weft_shape_t s;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, NULL)); /* -1 as a scalar is no unknown shape here */
  WEFT_RETURN_IF_ERROR(weft_shape_from_input(c, i, &s));
  return weft_infer_rank(&s, rank, &c->outputs[0]);
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
  int64_t unused;
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(out.dims[0], out_backprop.dims[0], &unused));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(filter.dims[3], out_backprop.dims[at.channel], &unused));
  out.dims[0] = out_backprop.dims[0];
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_depthwise_backprop_input(weft_shape_ctx_t *c) { return rank_from(c, 0, 4); }

weft_status_t *weft_infer_conv_backprop_filter(weft_shape_ctx_t *c) { return rank_from(c, 1, 4); }

/* Of volumes: the shape is that of an input, or held by it. */
weft_status_t *weft_infer_rank5_unchanged(weft_shape_ctx_t *c) {
  return weft_shape_with_rank(c, 0, 5, &c->outputs[0]);
}
weft_status_t *weft_infer_rank5_second(weft_shape_ctx_t *c) {
  return weft_shape_with_rank(c, 1, 5, &c->outputs[0]);
}
weft_status_t *weft_infer_rank5_from_first(weft_shape_ctx_t *c) { return rank_from(c, 0, 5); }
weft_status_t *weft_infer_rank5_from_second(weft_shape_ctx_t *c) { return rank_from(c, 1, 5); }

/* ---- pooling ---- */

/* ksize and strides as values for each dimension, from attributes or constant inputs. `channels`: windows may
 * slide over these, too. */
static weft_status_t *pool(weft_shape_ctx_t *c, int num_space, bool channels, const int64_t *ksize,
                           const int64_t *strides) {
  weft_shape_t in;
  layout_t at = layout_of(c, num_space);
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, num_space + 2, &in));
  weft_shape_t out = in;
  for (int i = 0; i < num_space; i++) {
    int dim = at.space + i;
    if (ksize[dim] <= 0)
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Sliding window ksize for dimension %d must be positive, but got %" PRId64, dim,
                        ksize[dim]);
    WEFT_RETURN_IF_ERROR(slide(c, dim, in.dims[dim], ksize[dim], 1, strides[dim], &out.dims[dim]));
  }
  if (channels) {
    const int dim = at.channel;
    WEFT_RETURN_IF_ERROR(slide(c, dim, in.dims[dim], ksize[dim], 1, strides[dim], &out.dims[dim]));
  }
  c->outputs[0] = out;
  return NULL;
}

static weft_status_t *pool_by_attrs(weft_shape_ctx_t *c, int num_space, bool channels, const char *op) {
  int64_t ksize[5], strides[5];
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", num_space + 2, op, "stride"));
  WEFT_RETURN_IF_ERROR(check_length(c, "ksize", num_space + 2, op, "ksize"));
  for (int i = 0; i < num_space + 2; i++) {
    ksize[i] = weft_infer_list_int(c, "ksize", i, 1);
    strides[i] = weft_infer_list_int(c, "strides", i, 1);
  }
  return pool(c, num_space, channels, ksize, strides);
}

weft_status_t *weft_infer_pool(weft_shape_ctx_t *c) { return pool_by_attrs(c, 2, true, "Pooling"); }
weft_status_t *weft_infer_avg_pool(weft_shape_ctx_t *c) { return pool_by_attrs(c, 2, false, "AvgPool"); }
weft_status_t *weft_infer_pool3d(weft_shape_ctx_t *c) { return pool_by_attrs(c, 3, false, "Pool3D"); }

weft_status_t *weft_infer_pool_argmax(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_pool(c));
  c->outputs[1] = c->outputs[0];
  return NULL;
}

/* The window is in the last two inputs. */
weft_status_t *weft_infer_pool_v2(weft_shape_ctx_t *c) {
  int64_t ksize[4], strides[4];
  int first = c->num_inputs - 2;
  for (int i = first; i < first + 2; i++) {
    weft_shape_t v;
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &v));
    WEFT_RETURN_IF_ERROR(weft_infer_dim_is(v.dims[0], 4));
    if (weft_infer_is_known(c, i)) continue;
    return weft_shape_with_rank(c, 0, 4, NULL);
  }
  for (int i = 0; i < 4; i++) {
    ksize[i] = weft_infer_value(c, first, i);
    strides[i] = weft_infer_value(c, first + 1, i);
  }
  return pool(c, 2, true, ksize, strides);
}

weft_status_t *weft_infer_avg_pool_grad(weft_shape_ctx_t *c) { return rank_from(c, 0, 4); }

/* Of a pool with inputs x, y, dy: dy is as x, and what comes out as y. */
static weft_status_t *as_output(weft_shape_ctx_t *c, weft_status_t *s) {
  weft_shape_t unused;
  if (s == NULL) s = weft_shape_merge(&c->inputs[0], &c->inputs[2], &unused);
  if (s == NULL) s = weft_shape_merge(&c->inputs[1], &c->outputs[0], &unused);
  return s;
}
weft_status_t *weft_infer_pool_grad_grad(weft_shape_ctx_t *c) { return as_output(c, weft_infer_pool(c)); }
weft_status_t *weft_infer_pool_grad_grad_v2(weft_shape_ctx_t *c) {
  return as_output(c, weft_infer_pool_v2(c));
}
weft_status_t *weft_infer_pool3d_grad_grad(weft_shape_ctx_t *c) { return as_output(c, weft_infer_pool3d(c)); }

/* ---- windows without weights ---- */

/* How many windows of `size` cells `rate` apart fit into each spatial dimension. The lists are those of the
 * node: all of num_space + 2 values. `known`: false if some size is not known. */
static weft_status_t *windows(const weft_shape_ctx_t *c, int num_space, const weft_shape_t *in,
                              const int64_t *sizes, bool *known, int64_t *out) {
  *known = true;
  for (int i = 0; i < num_space; i++) {
    out[i] = WEFT_UNKNOWN_DIM;
    if (in->dims[1 + i] < 0 || sizes[i] < 0) *known = false;
  }
  for (int i = 0; i < num_space && *known; i++) {
    int64_t extent = 0;
    const int64_t rate = weft_infer_list_int(c, "rates", 1 + i, 1);
    if (__builtin_mul_overflow(sizes[i] - 1, rate - 1, &extent) ||
        __builtin_add_overflow(extent, sizes[i], &extent)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "a window of %" PRId64 " with rate %" PRId64 " is too large",
                        sizes[i], rate);
    }
    WEFT_RETURN_IF_ERROR(weft_window_size(in->dims[1 + i], extent, 1,
                                          weft_infer_list_int(c, "strides", 1 + i, 1),
                                          weft_infer_str(c, "padding"), 0, 0, &out[i], NULL, NULL));
  }
  return NULL;
}

weft_status_t *weft_infer_dilation(weft_shape_ctx_t *c) {
  weft_shape_t in, filter;
  bool known = false;
  int64_t depth = 0, out[2];
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 3, &filter));
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", 4, "Dilation2D", "stride"));
  WEFT_RETURN_IF_ERROR(check_length(c, "rates", 4, "Dilation2D", "rates"));
  WEFT_RETURN_IF_ERROR(windows(c, 2, &in, filter.dims, &known, out));
  if (known) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(in.dims[3], filter.dims[2], &depth));
  c->outputs[0] = (weft_shape_t){.rank = 4, .dims = {in.dims[0], out[0], out[1], filter.dims[2]}};
  return NULL;
}

weft_status_t *weft_infer_as_second(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[1];
  return NULL;
}

static weft_status_t *patches(weft_shape_ctx_t *c, int num_space, const char *op) {
  weft_shape_t in;
  bool known = false;
  int64_t sizes[3], out[3], cells = 1, depth = 0;
  const int rank = num_space + 2;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, rank, &in));
  WEFT_RETURN_IF_ERROR(check_length(c, "ksizes", rank, op, "ksizes"));
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", rank, op, "stride"));
  if (num_space == 2) WEFT_RETURN_IF_ERROR(check_length(c, "rates", rank, op, "rates"));
  for (int i = 0; i < num_space; i++) {
    sizes[i] = weft_infer_list_int(c, "ksizes", 1 + i, 1);
    if (sizes[i] < 0 || sizes[i] > INT32_MAX)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: ksizes is out of range", op);
    WEFT_RETURN_IF_ERROR(weft_infer_multiply(cells, sizes[i], &cells));
  }
  WEFT_RETURN_IF_ERROR(weft_infer_multiply(in.dims[rank - 1], cells, &depth));
  WEFT_RETURN_IF_ERROR(windows(c, num_space, &in, sizes, &known, out));
  weft_shape_t shape = {.rank = rank, .dims = {in.dims[0]}};
  for (int i = 0; i < num_space; i++) shape.dims[1 + i] = out[i];
  shape.dims[rank - 1] = depth;
  if (num_space == 3 && !known) { /* of rank 4 in TensorFlow */
    shape.rank = 4;
    shape.dims[3] = depth;
  }
  c->outputs[0] = shape;
  return NULL;
}
weft_status_t *weft_infer_image_patches(weft_shape_ctx_t *c) { return patches(c, 2, "ExtractImagePatches"); }
weft_status_t *weft_infer_volume_patches(weft_shape_ctx_t *c) {
  return patches(c, 3, "ExtractVolumePatches");
}

/* ---- fractional pooling ---- */

weft_status_t *weft_infer_fractional_pool(weft_shape_ctx_t *c) {
  weft_shape_t in;
  const weft_attr_t *ratio = weft_shape_attr(c, "pooling_ratio");
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, &in));
  if (ratio->n != 4) return WEFT_ERROR(INVALID_ARGUMENT, "pooling_ratio field must specify 4 dimensions");
  for (int i = 0; i < 4; i++) {
    if (in.dims[i] < 0) continue;
    const float size = (float)in.dims[i] / ratio->list.floats[i];
    if (!(size >= 0 && size < 0x1p63F))
      return WEFT_ERROR(INVALID_ARGUMENT, "Size computed for dim %d is negative: %g", i, (double)size);
    in.dims[i] = (int64_t)size;
  }
  c->outputs[0] = in;
  for (int i = 1; i < 3; i++) c->outputs[i] = weft_shape_vector(in.dims[i]); /* TensorFlow's, one too short */
  return NULL;
}

weft_status_t *weft_infer_fractional_avg_grad(weft_shape_ctx_t *c) {
  if (weft_infer_is_known(c, 0)) return weft_shape_from_input(c, 0, &c->outputs[0]);
  c->outputs[0] = weft_infer_unknown_of_rank(4);
  return NULL;
}

/* ---- convolution of any kind ---- */

/* What does not depend on sizes: groups, ranks, the lengths of lists. */
static weft_status_t *check_conv(const weft_shape_ctx_t *c, int64_t batch_dims) {
  const int64_t rank = c->inputs[0].rank - (batch_dims - 1);
  const int filter_rank = c->inputs[1].rank, num_strides = weft_infer_list_length(c, "strides"),
            num_dilations = weft_infer_list_length(c, "dilations"),
            num_pads = weft_infer_list_length(c, "explicit_paddings");
  if (weft_infer_int(c, "groups") <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Groups attribute should be a positive integer");
  if (rank != 4 && rank != 5) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input tensor must be rank 4 or 5, excluding extra batch dimensions, but got: %" PRId64,
                      rank);
  }
  if (filter_rank != 4 && filter_rank != 5)
    return WEFT_ERROR(INVALID_ARGUMENT, "Filter tensor must be rank 4 or 5, but got: %d", filter_rank);
  if (filter_rank != rank)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor rank must be the same as filter rank.");
  if (num_strides != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Stride attribute should contain %d values, but got: %d", (int)rank,
                      num_strides);
  }
  if (num_dilations != 0 && num_dilations != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Conv requires the dilation attribute to contain %d values, but got: %d", (int)rank,
                      num_dilations);
  }
  const bool is_explicit = weft_str_is(weft_infer_str(c, "padding"), "EXPLICIT");
  if (num_pads == (is_explicit ? 2 * rank : 0)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "explicit_paddings attribute must contain %d values, but got: %d",
                    is_explicit ? 2 * (int)rank : 0, num_pads);
}

/* Channels of the input, of the filter's input and of the output, where they are known, are `groups` groups.
 */
static weft_status_t *check_groups(int64_t groups, int64_t in, int64_t filter_in, int64_t out) {
  if (in >= 0 && in % groups != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of groups should divide input depth");
  if (out >= 0 && out % groups != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of groups should divide output depth");
  if (in < 0 || filter_in <= 0 || in / filter_in == groups) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Input depth divided by filter input depth does not match with groups parameter (%" PRId64 ")", groups);
}

weft_status_t *weft_infer_conv(weft_shape_ctx_t *c) {
  const weft_shape_t *x = &c->inputs[0], *filter = &c->inputs[1];
  const int64_t batch_dims = weft_infer_int(c, "batch_dims");
  if (batch_dims < 0 || batch_dims > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Batch dims must be non-negative.");
  if (x->rank < 0 || filter->rank < 0) return NULL;
  WEFT_RETURN_IF_ERROR(check_conv(c, batch_dims));
  const int num_space = filter->rank - 2,
            behind = (int)batch_dims - 1; /* dims of x behind those of the layout */
  const bool is_first = weft_str_is(weft_infer_str(c, "data_format"), "CHANNELS_FIRST");
  const layout_t at = is_first ? (layout_t){1, 2, num_space} : (layout_t){num_space + 1, 1, num_space};
  weft_shape_t out = *x;
  const int64_t in = x->dims[at.channel + behind], *depths = &filter->dims[num_space];
  WEFT_RETURN_IF_ERROR(check_depths(in, depths[0], depths[1]));
  WEFT_RETURN_IF_ERROR(check_groups(weft_infer_int(c, "groups"), in, depths[0], depths[1]));
  out.dims[at.channel + behind] = depths[1];
  for (int i = 0; i < num_space; i++) {
    const int dim = at.space + i + behind;
    WEFT_RETURN_IF_ERROR(window(c, &at, i, x->dims[dim], filter->dims[i], &out.dims[dim]));
  }
  c->outputs[0] = out;
  return NULL;
}

/* The shape of images after resizing, if there is that, and padding. */
static weft_status_t *padded_images(weft_shape_ctx_t *c, weft_shape_t *out) {
  const int pads = c->num_inputs - 2;
  weft_shape_t s;
  int64_t unused = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, out));
  if (c->num_inputs == 4) {
    const weft_shape_t two = weft_shape_vector(2);
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[1], &two, &s));
    for (int i = 0; i < 2; i++) {
      const int64_t v = weft_infer_is_known(c, 1) ? weft_infer_value(c, 1, i) : WEFT_UNKNOWN_DIM;
      out->dims[1 + i] = v < 0 ? WEFT_UNKNOWN_DIM : v;
    }
  }
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, pads, 2, &s));
  if (s.dims[0] >= 0) WEFT_RETURN_IF_ERROR(weft_infer_rank(out, s.dims[0] > 99 ? 99 : (int)s.dims[0], NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(s.dims[1], 2, &unused));
  for (int i = 0; i < 4; i++) {
    int64_t around = 0;
    if (!weft_infer_is_known(c, pads)) {
      out->dims[i] = WEFT_UNKNOWN_DIM;
      continue;
    }
    const int64_t before = weft_infer_value(c, pads, 2 * i), after = weft_infer_value(c, pads, 2 * i + 1);
    if (before < 0 || after < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "Paddings must be non-negative, got %" PRId64, before);
    WEFT_RETURN_IF_ERROR(weft_infer_add(before, after, &around));
    WEFT_RETURN_IF_ERROR(weft_infer_add(out->dims[i], around, &out->dims[i]));
  }
  return NULL;
}

weft_status_t *weft_infer_pad_conv(weft_shape_ctx_t *c) {
  weft_shape_t image, filter;
  int64_t depth = 0;
  const layout_t at = {3, 1, 2};
  WEFT_RETURN_IF_ERROR(padded_images(c, &image));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, c->num_inputs - 1, 4, &filter));
  WEFT_RETURN_IF_ERROR(check_length(c, "strides", 4, "Operation", "stride"));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(image.dims[3], filter.dims[2], &depth));
  weft_shape_t out = {.rank = 4, .dims = {image.dims[0], 0, 0, filter.dims[3]}};
  for (int i = 0; i < 2; i++)
    WEFT_RETURN_IF_ERROR(window(c, &at, i, image.dims[1 + i], filter.dims[i], &out.dims[1 + i]));
  c->outputs[0] = out;
  return NULL;
}
