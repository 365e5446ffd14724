/* kernels/cpu/image/suppress.c - NonMaxSuppression and its versions: boxes by falling score, but for those
 * that overlap one chosen before. Soft suppression lowers scores instead: Bodla et al., "Soft-NMS - Improving
 * Object Detection With One Line of Code" (2017). */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/each_row.h"

enum { CORNERS = 4 }; /* of a box: y1, x1, y2, x2, any two opposite ones */

/* ---- candidates: a heap, the best one on top ---- */

typedef struct candidate {
  int32_t box;
  int32_t seen; /* how many of the chosen boxes it has been held against */
  float score;
} candidate_t;

static bool is_better(const candidate_t *a, const candidate_t *b) {
  return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void push(candidate_t *heap, int64_t *n, candidate_t c) {
  int64_t at = (*n)++;
  while (at > 0 && is_better(&c, &heap[(at - 1) / 2])) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = c;
}

static candidate_t pop(candidate_t *heap, int64_t *n) {
  const candidate_t top = heap[0], last = heap[--*n];
  int64_t at = 0;
  for (int64_t child = 1; child < *n; child = 2 * at + 1) {
    if (child + 1 < *n && is_better(&heap[child + 1], &heap[child])) child++;
    if (!is_better(&heap[child], &last)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return top;
}

/* ---- the choice ---- */

typedef struct suppress_job {
  const float *boxes, *overlaps, *scores; /* boxes or, of each pair of boxes, how much they overlap */
  int64_t num_boxes, box_stride, score_stride;
  float most_overlap, least_score;
  float sigma;   /* 0: whatever overlaps too much goes */
  bool is_half;  /* scores and weights are rounded to half */
  bool is_plain; /* an overlap that is NaN is none */
} suppress_job_t;

static inline float smaller(float a, float b) { return b < a ? b : a; }
static inline float larger(float a, float b) { return a < b ? b : a; }
static float rounded(const suppress_job_t *j, float v) {
  return j->is_half ? weft_f16_to_f32(weft_f32_to_f16(v)) : v;
}

/* The intersection of two boxes divided by their union; 0 if one is empty. */
static float overlap_of_boxes(const float *a, const float *b) {
  const float a_y1 = smaller(a[0], a[2]), a_x1 = smaller(a[1], a[3]), a_y2 = larger(a[0], a[2]),
              a_x2 = larger(a[1], a[3]);
  const float b_y1 = smaller(b[0], b[2]), b_x1 = smaller(b[1], b[3]), b_y2 = larger(b[0], b[2]),
              b_x2 = larger(b[1], b[3]);
  const float area_a = (a_y2 - a_y1) * (a_x2 - a_x1), area_b = (b_y2 - b_y1) * (b_x2 - b_x1);
  if (area_a <= 0 || area_b <= 0) return 0;
  const float common = larger(smaller(a_y2, b_y2) - larger(a_y1, b_y1), 0) *
                       larger(smaller(a_x2, b_x2) - larger(a_x1, b_x1), 0);
  return common / (area_a + area_b - common);
}

static float overlap(const suppress_job_t *j, int64_t a, int64_t b) {
  if (j->overlaps != NULL) return j->overlaps[a * j->num_boxes + b];
  return rounded(j, overlap_of_boxes(j->boxes + a * j->box_stride, j->boxes + b * j->box_stride));
}

/* What a score is multiplied by because of an overlap. */
static float weight(const suppress_job_t *j, float by) {
  if (j->is_plain) return 1;
  const float scale = j->sigma > 0 ? rounded(j, -0.5f / j->sigma) : 0;
  const float w = rounded(j, expf(rounded(j, rounded(j, scale * by) * by)));
  return j->sigma > 0 || by <= j->most_overlap ? w : 0;
}

/* Holds a candidate against the chosen boxes, the latest first; false: it is out. */
static bool survives(const suppress_job_t *j, candidate_t *c, const int32_t *chosen, int64_t n) {
  for (int64_t i = n - 1; i >= c->seen; i--) {
    const float by = overlap(j, c->box, chosen[i]);
    c->score = rounded(j, c->score * weight(j, by));
    if (!(j->sigma > 0) && by > j->most_overlap) return false;
    if (c->score <= j->least_score) break;
  }
  c->seen = (int32_t)n;
  return true;
}

/* Up to `most` boxes, with their scores. `heap`: room for all boxes. */
static int64_t choose(const suppress_job_t *j, candidate_t *heap, int64_t most, int32_t *chosen,
                      float *scores) {
  int64_t waiting = 0, n = 0;
  for (int64_t i = 0; i < j->num_boxes; i++) {
    const float score = j->scores[i * j->score_stride];
    if (score > j->least_score) push(heap, &waiting, (candidate_t){.box = (int32_t)i, .score = score});
  }
  while (n < most && waiting > 0) {
    candidate_t c = pop(heap, &waiting);
    const float before = c.score;
    if (!survives(j, &c, chosen, n)) continue;
    if (c.score == before) {
      chosen[n] = c.box;
      scores[n++] = c.score;
    } else if (c.score > j->least_score) {
      push(heap, &waiting, c);
    }
  }
  return n;
}

/* ---- NonMaxSuppression, V2 to V5, NonMaxSuppressionWithOverlaps ---- */

typedef struct suppress_op {
  int num_thresholds; /* inputs behind the number of boxes: largest overlap, least score, sigma */
  bool has_overlaps;
  bool has_scores; /* the scores are an output */
} suppress_op_t;

typedef struct suppress_state {
  float most_overlap; /* of the first version */
  bool pads;
} suppress_state_t;

static weft_status_t *suppress_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  suppress_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  const weft_attr_t *most = weft_knode_attr(setup, "iou_threshold");
  state->most_overlap = most == NULL ? 0 : most->f;
  state->pads = weft_knode_bool_or(setup, "pad_to_max_output_size", false);
  *out_state = state;
  return NULL;
}

static weft_status_t *check_scalar(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 0-D, got shape %s (Shape must be rank 0 but is rank %d)",
                    what, WEFT_SHAPE_TEXT(&t->shape), t->shape.rank);
}

static weft_status_t *read_threshold(weft_kernel_ctx_t *ctx, const suppress_job_t *j, int i, const char *what,
                                     float *out) {
  const weft_tensor_t *t = weft_in(ctx, i);
  WEFT_RETURN_IF_ERROR(check_scalar(t, what));
  const float v =
      t->dtype == WEFT_F16 ? weft_f16_to_f32(*(const uint16_t *)t->data) : *(const float *)t->data;
  *out = rounded(j, v);
  return NULL;
}

static weft_status_t *read_thresholds(weft_kernel_ctx_t *ctx, suppress_job_t *j) {
  const suppress_op_t *op = ctx->node->param;
  WEFT_RETURN_IF_ERROR(check_scalar(weft_in(ctx, 2), "max_output_size"));
  j->least_score = j->is_half ? -65504 : -FLT_MAX;
  if (op->num_thresholds > 0)
    WEFT_RETURN_IF_ERROR(read_threshold(ctx, j, 3, "iou_threshold", &j->most_overlap));
  if (!op->has_overlaps && !(j->most_overlap >= 0 && j->most_overlap <= 1))
    return WEFT_ERROR(INVALID_ARGUMENT, "iou_threshold must be in [0, 1]");
  if (op->num_thresholds > 1)
    WEFT_RETURN_IF_ERROR(read_threshold(ctx, j, 4, "score_threshold", &j->least_score));
  if (op->num_thresholds > 2) {
    WEFT_RETURN_IF_ERROR(read_threshold(ctx, j, 5, "soft_nms_sigma", &j->sigma));
    if (!(j->sigma >= 0)) return WEFT_ERROR(INVALID_ARGUMENT, "soft_nms_sigma must be >= 0");
  }
  return NULL;
}

static weft_status_t *check_boxes(weft_kernel_ctx_t *ctx, suppress_job_t *j) {
  const suppress_op_t *op = ctx->node->param;
  const weft_shape_t *boxes = &weft_in(ctx, 0)->shape, *scores = &weft_in(ctx, 1)->shape;
  const char *what = op->has_overlaps ? "overlaps" : "boxes";
  if (boxes->rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be 2-D, got shape %s (Shape must be rank 2 but is rank %d)",
                      what, WEFT_SHAPE_TEXT(boxes), boxes->rank);
  }
  const int64_t n = boxes->dims[0], width = op->has_overlaps ? n : CORNERS;
  if (boxes->dims[1] != width) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s must have %" PRId64 " columns (Dimension must be %" PRId64 " but is %" PRId64 ")",
                      what, width, width, boxes->dims[1]);
  }
  if (scores->rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "scores must be 1-D, got shape %s (Shape must be rank 1 but is rank %d)",
                      WEFT_SHAPE_TEXT(scores), scores->rank);
  }
  if (scores->dims[0] != n || n > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "scores has incompatible shape (Dimensions must be equal, but are %" PRId64
                      " and %" PRId64 ")",
                      n, scores->dims[0]);
  }
  j->num_boxes = n;
  return NULL;
}

/* The chosen boxes as outputs: their numbers, perhaps their scores, perhaps how many they are. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, const int32_t *chosen, const float *scores, int64_t n,
                              int64_t length) {
  const suppress_op_t *op = ctx->node->param;
  const weft_shape_t shape = weft_shape_vector(length);
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &shape, &y));
  weft_cpu_zero(y);
  if (n > 0) memcpy(y->data, chosen, (size_t)n * sizeof *chosen);
  if (op->has_scores) {
    const weft_dtype_t dtype = weft_in(ctx, 1)->dtype;
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, dtype, &shape, &y));
    weft_cpu_zero(y);
    weft_cpu_cast_loop(WEFT_F32, dtype)(n, scores, y->data);
  }
  if (ctx->node->num_outputs == 1) return NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, ctx->node->num_outputs - 1, WEFT_I32, &WEFT_SCALAR, &y));
  *(int32_t *)y->data = (int32_t)n;
  return NULL;
}

static weft_status_t *suppress(weft_kernel_ctx_t *ctx) {
  const suppress_op_t *op = ctx->node->param;
  const suppress_state_t *state = ctx->state;
  suppress_job_t j = {.box_stride = CORNERS,
                      .score_stride = 1,
                      .most_overlap = state->most_overlap,
                      .is_half = weft_in(ctx, 0)->dtype == WEFT_F16};
  WEFT_RETURN_IF_ERROR(read_thresholds(ctx, &j));
  WEFT_RETURN_IF_ERROR(check_boxes(ctx, &j));
  const int64_t wanted = *(const int32_t *)weft_in(ctx, 2)->data;
  if (wanted < 0) return WEFT_ERROR(INVALID_ARGUMENT, "output size must be non-negative");
  const int64_t most = wanted < j.num_boxes ? wanted : j.num_boxes;
  weft_tensor_t *boxes = NULL, *scores = NULL;
  candidate_t *heap = weft_calloc((size_t)j.num_boxes + 1, sizeof *heap);
  int32_t *chosen = weft_calloc((size_t)most + 1, sizeof *chosen);
  float *chosen_scores = weft_calloc((size_t)most + 1, sizeof *chosen_scores);
  weft_status_t *s = NULL;
  if (heap == NULL || chosen == NULL || chosen_scores == NULL)
    s = WEFT_NO_MEMORY("%" PRId64 " boxes", j.num_boxes);
  if (s == NULL) s = weft_cpu_cast(ctx, weft_in(ctx, 0), WEFT_F32, &boxes);
  if (s == NULL) s = weft_cpu_cast(ctx, weft_in(ctx, 1), WEFT_F32, &scores);
  if (s == NULL) {
    j.boxes = boxes->data;
    if (op->has_overlaps) j.overlaps = boxes->data;
    j.scores = scores->data;
    const int64_t n = choose(&j, heap, most, chosen, chosen_scores);
    s = deliver(ctx, chosen, chosen_scores, n, state->pads ? wanted : n);
  }
  weft_tensor_release(scores);
  weft_tensor_release(boxes);
  weft_free(chosen_scores);
  weft_free(chosen);
  weft_free(heap);
  return s;
}

/* ---- CombinedNonMaxSuppression: of each class of a batch of images by itself; then the best of all ---- */

typedef struct detection {
  float score;
  int32_t class, rank; /* rank: the how-manieth of its class */
  const float *box;
} detection_t;

typedef struct combined_job {
  suppress_job_t each;
  int64_t num_classes, boxes_per_place, most_per_class, length; /* length: of an image's output */
  bool clips;
  float *boxes, *scores, *classes;
  int32_t *valid;
} combined_job_t;

WEFT_ATTRS(combined, (BOOL, pad_per_class), (BOOL, clip_boxes))

static int by_score(const void *a, const void *b) {
  const detection_t *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->class != y->class) return x->class < y->class ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* All that is chosen of image i, in `found`. */
static int64_t find_detections(const combined_job_t *c, int64_t i, candidate_t *heap, int32_t *chosen,
                               float *scores, detection_t *found) {
  int64_t n = 0;
  for (int64_t class = 0; class < c->num_classes; class ++) {
    suppress_job_t j = c->each;
    j.boxes += i * j.num_boxes * j.box_stride + (c->boxes_per_place > 1 ? class * CORNERS : 0);
    j.scores += i * j.num_boxes * j.score_stride + class;
    const int64_t num = choose(&j, heap, c->most_per_class, chosen, scores);
    for (int64_t k = 0; k < num; k++) {
      found[n++] = (detection_t){scores[k], (int32_t) class, (int32_t)k, j.boxes + chosen[k] * j.box_stride};
    }
  }
  return n;
}

static weft_status_t *combined_image(void *arg, int64_t i, weft_strbuf_t *text) {
  const combined_job_t *c = arg;
  (void)text;
  const size_t most = (size_t)c->most_per_class, room = most * (size_t)c->num_classes + 1;
  candidate_t *heap = weft_calloc((size_t)c->each.num_boxes + 1, sizeof *heap);
  int32_t *chosen = weft_calloc(most + 1, sizeof *chosen);
  float *scores = weft_calloc(most + 1, sizeof *scores);
  detection_t *found = weft_calloc(room, sizeof *found);
  weft_status_t *s = NULL;
  if (heap == NULL || chosen == NULL || scores == NULL || found == NULL) {
    s = WEFT_NO_MEMORY("%" PRId64 " boxes of %" PRId64 " classes", c->each.num_boxes, c->num_classes);
  } else {
    const int64_t n = find_detections(c, i, heap, chosen, scores, found);
    const int64_t valid = n < c->length ? n : c->length;
    qsort(found, (size_t)n, sizeof *found, by_score);
    c->valid[i] = (int32_t)valid;
    for (int64_t k = 0; k < valid; k++) {
      const int64_t at = i * c->length + k;
      c->scores[at] = found[k].score;
      c->classes[at] = (float)found[k].class;
      for (int d = 0; d < CORNERS; d++) {
        const float v = found[k].box[d];
        c->boxes[at * CORNERS + d] = c->clips ? larger(smaller(v, 1), 0) : v;
      }
    }
  }
  weft_free(found);
  weft_free(scores);
  weft_free(chosen);
  weft_free(heap);
  return s;
}

static weft_status_t *check_combined_shapes(const weft_shape_t *boxes, const weft_shape_t *scores) {
  if (boxes->rank != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "boxes must be 4-D [batch, num_boxes, q, 4], got shape %s",
                      WEFT_SHAPE_TEXT(boxes));
  }
  if (scores->rank != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "scores must be 3-D [batch, num_boxes, num_classes], got shape %s",
                      WEFT_SHAPE_TEXT(scores));
  }
  if (boxes->dims[2] != 1 && boxes->dims[2] != scores->dims[2])
    return WEFT_ERROR(INVALID_ARGUMENT, "third dimension of boxes must be either 1 or num classes");
  if (boxes->dims[3] != CORNERS) return WEFT_ERROR(INVALID_ARGUMENT, "boxes must have 4 columns");
  if (scores->dims[1] != boxes->dims[1] || boxes->dims[1] > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "scores has incompatible shape");
  if (boxes->dims[0] != scores->dims[0])
    return WEFT_ERROR(INVALID_ARGUMENT, "boxes and scores must have same batch size");
  return NULL;
}

static weft_status_t *read_positive(const weft_tensor_t *t, const char *what, int64_t *out) {
  WEFT_RETURN_IF_ERROR(check_scalar(t, what));
  *out = *(const int32_t *)t->data;
  return *out > 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "%s must be > 0", what);
}

static weft_status_t *combined_outputs(weft_kernel_ctx_t *ctx, int64_t batch, combined_job_t *c) {
  weft_shape_t shape = {.rank = 3, .dims = {batch, c->length, CORNERS}};
  weft_tensor_t *boxes = NULL, *scores = NULL, *classes = NULL, *valid = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &boxes));
  shape.rank = 2;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_F32, &shape, &scores));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_F32, &shape, &classes));
  shape.rank = 1;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 3, WEFT_I32, &shape, &valid));
  weft_cpu_zero(boxes);
  weft_cpu_zero(scores);
  weft_cpu_zero(classes);
  c->boxes = boxes->data;
  c->scores = scores->data;
  c->classes = classes->data;
  c->valid = valid->data;
  return NULL;
}

static weft_status_t *combined(weft_kernel_ctx_t *ctx, const combined_attrs_t *attrs) {
  const weft_tensor_t *boxes = weft_in(ctx, 0), *scores = weft_in(ctx, 1);
  int64_t per_class = 0, total = 0;
  WEFT_RETURN_IF_ERROR(check_combined_shapes(&boxes->shape, &scores->shape));
  combined_job_t c = {.each = {.boxes = boxes->data,
                               .scores = scores->data,
                               .num_boxes = boxes->shape.dims[1],
                               .box_stride = boxes->shape.dims[2] * CORNERS,
                               .score_stride = scores->shape.dims[2],
                               .is_plain = true},
                      .num_classes = scores->shape.dims[2],
                      .boxes_per_place = boxes->shape.dims[2],
                      .clips = attrs->clip_boxes};
  WEFT_RETURN_IF_ERROR(read_positive(weft_in(ctx, 2), "max_size_per_class", &per_class));
  WEFT_RETURN_IF_ERROR(read_positive(weft_in(ctx, 3), "max_total_size", &total));
  WEFT_RETURN_IF_ERROR(read_threshold(ctx, &c.each, 4, "iou_threshold", &c.each.most_overlap));
  WEFT_RETURN_IF_ERROR(read_threshold(ctx, &c.each, 5, "score_threshold", &c.each.least_score));
  if (!(c.each.most_overlap >= 0 && c.each.most_overlap <= 1))
    return WEFT_ERROR(INVALID_ARGUMENT, "iou_threshold must be in [0, 1]");
  c.most_per_class = per_class < c.each.num_boxes ? per_class : c.each.num_boxes;
  if (c.num_classes > 0 && c.most_per_class > INT32_MAX / c.num_classes)
    return WEFT_ERROR(INVALID_ARGUMENT, "size_per_class * num_classes causes overflow");
  c.length = total;
  if (attrs->pad_per_class && (c.num_classes == 0 || per_class <= total / c.num_classes))
    c.length = per_class * c.num_classes;
  WEFT_RETURN_IF_ERROR(combined_outputs(ctx, boxes->shape.dims[0], &c));
  return weft_each_row(ctx, boxes->shape.dims[0], 1, combined_image, &c);
}

#define SUPPRESS(op_, attr_, ...)                                                                \
  {                                                                                              \
    .op = op_, .type_attr = attr_, .types = WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_F32), \
    .prepare = suppress_prepare, .compute = suppress, .destroy = weft_free,                      \
    .param = &(const suppress_op_t) {                                                            \
      __VA_ARGS__                                                                                \
    }                                                                                            \
  }
const weft_kernel_t weft_cpu_suppress_kernels[] = {
    {.op = "CombinedNonMaxSuppression", WEFT_COMPUTE(combined)},
    SUPPRESS("NonMaxSuppression", NULL, .num_thresholds = 0),
    SUPPRESS("NonMaxSuppressionV2", "T", .num_thresholds = 1),
    SUPPRESS("NonMaxSuppressionV3", "T", .num_thresholds = 2),
    SUPPRESS("NonMaxSuppressionV4", "T", .num_thresholds = 2),
    SUPPRESS("NonMaxSuppressionV5", "T", .num_thresholds = 3, .has_scores = true),
    SUPPRESS("NonMaxSuppressionWithOverlaps", NULL, .num_thresholds = 2, .has_overlaps = true),
    {0},
};
