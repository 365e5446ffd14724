/* ops/nn.c - shapes of neural-network ops: activations, losses, the largest, normalisation. Those that slide
 * a window are in ops/windows.c. */
#include <inttypes.h>
#include <math.h>

#include "ops/infer.h"

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

/* Which dim of images or volumes of this rank the channels are. */
static int channel_axis(const weft_shape_ctx_t *c, int rank) {
  return weft_str_starts_with(weft_infer_str(c, "data_format"), "NC") ? 1 : rank - 1;
}

weft_status_t *weft_infer_batch_norm(weft_shape_ctx_t *c) {
  int rank = weft_infer_str(c, "data_format").length == 5 ? 5 : 4;
  weft_shape_t x;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, rank, &x));
  int at = channel_axis(c, rank);
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
  int at = channel_axis(c, rank);
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

/* ---- normalisation with given statistics ---- */

/* Images in input 0, vectors of their channels in inputs [1, end). */
static weft_status_t *global_norm(weft_shape_ctx_t *c, int end, weft_shape_t *image) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 4, image));
  if (end == 4) WEFT_RETURN_IF_ERROR(weft_shape_merge(image, &c->inputs[4], image)); /* the gradient */
  for (int i = 1; i < end; i++) {
    weft_shape_t v;
    WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &v));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(image->dims[3], v.dims[0], &image->dims[3]));
  }
  c->outputs[0] = *image;
  return NULL;
}
weft_status_t *weft_infer_global_norm(weft_shape_ctx_t *c) {
  weft_shape_t image;
  return global_norm(c, 5, &image);
}
weft_status_t *weft_infer_global_norm_grad(weft_shape_ctx_t *c) {
  weft_shape_t image;
  WEFT_RETURN_IF_ERROR(global_norm(c, 4, &image));
  for (int i = 1; i < 5; i++) c->outputs[i] = weft_shape_vector(image.dims[3]);
  return NULL;
}

/* ---- approximate top k: without the last step, the result is what a TPU's tiles leave of a dimension.
 * Source: Chern et al., "TPU-KNN: K Nearest Neighbor Search at Peak FLOP/s" (2022). ---- */

static int log2_ceil(int64_t v) {
  int n = 0;
  while (n < 62 && (INT64_C(1) << n) < v) n++;
  return n;
}

static int64_t ratio_ceil(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static weft_status_t *approximate_size(const weft_shape_ctx_t *c, int64_t n, int rank, int64_t k,
                                       int64_t *out) {
  const int64_t tile = rank == 1 ? 1024 : 128, other = weft_infer_int(c, "reduction_input_size_override");
  const double recall = (double)weft_shape_attr(c, "recall_target")->f;
  *out = n;
  if (n <= tile) return NULL;
  if (other >= 0 && n > other) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "reduction_input_size_override: %" PRId64 " should be greater equals to %" PRId64,
                      other, n);
  }
  if (k == 1) *out = tile;
  if (k == 1 || recall == 1.0) return NULL;
  if (!(recall > 0 && recall <= 1))
    return WEFT_ERROR(INVALID_ARGUMENT, "recall_target should range in (0,1]");
  const double wanted = (1.0 - (double)k) / log(recall);
  int64_t m = wanted > (double)n ? n : wanted > (double)tile ? (int64_t)wanted : tile;
  if (m > n) m = n;
  int steps = 0;
  for (int64_t rest = (other >= 0 ? other : n) / m; rest > 1; rest /= 2) steps++;
  if (steps > log2_ceil(n / tile)) steps = log2_ceil(n / tile);
  if (steps > 0) *out = ratio_ceil(ratio_ceil(n, tile), INT64_C(1) << steps) * tile;
  return NULL;
}

weft_status_t *weft_infer_approx_top_k(weft_shape_ctx_t *c) {
  weft_shape_t in = c->inputs[0];
  int64_t axis = weft_infer_int(c, "reduction_dimension"), k = weft_infer_int(c, "k"), size = k;
  const int rank = in.rank < 0 ? -1 : in.rank;
  if (axis < -rank || axis >= rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid reduction dimension: %" PRId64 ". Must be within the range of [%d, %d]", axis,
                      -rank, rank - 1);
  }
  if (axis < 0) axis += rank;
  const int64_t n = in.dims[axis];
  if (n < k) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must have last dimension >= k = %" PRId64 " but was %" PRId64,
                      k, n);
  }
  if (!weft_infer_bool(c, "aggregate_to_topk")) WEFT_RETURN_IF_ERROR(approximate_size(c, n, rank, k, &size));
  in.dims[axis] = size;
  c->outputs[0] = c->outputs[1] = in;
  return NULL;
}
