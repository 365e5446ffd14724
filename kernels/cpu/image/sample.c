/* kernels/cpu/image/sample.c - random parts of images: RandomCrop, SampleDistortedBoundingBox. The numbers
 * are TensorFlow's for the same seeds. */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/image/resize.h"
#include "kernels/cpu/random/random_fill.h"

/* A number in [0, n), each as likely; what would make the low ones likelier is drawn again. 0 for n = 0. */
static uint32_t uniform(weft_philox_words_t *words, uint32_t n) {
  uint32_t word = weft_philox_word(words);
  if (n == 0) return 0;
  if ((n & (n - 1)) == 0) return word & (n - 1);
  const uint32_t skewed = UINT32_MAX % n + 1;
  while (word < skewed) word = weft_philox_word(words);
  return word % n;
}

/* ---- RandomCrop ---- */

static weft_status_t *random_crop(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *x = weft_in(ctx, 0), *size = weft_in(ctx, 1);
  weft_tensor_t *y = NULL;
  weft_shape_t shape;
  if (x->shape.rank != 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 3-dimensional, got shape %s",
                      WEFT_SHAPE_TEXT(&x->shape));
  if (size->shape.rank != 1 || size->count != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape_t must be a vector of two elements, got shape %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  const int64_t *dims = x->shape.dims, *wanted = size->data;
  if (dims[1] < wanted[1] || dims[0] < wanted[0]) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "the crop must fit into the image: %" PRId64 " x %" PRId64 " of %" PRId64 " x %" PRId64,
                      wanted[0], wanted[1], dims[0], dims[1]);
  }
  WEFT_RETURN_IF_ERROR(weft_shape_make((int64_t[]){wanted[0], wanted[1], dims[2]}, 3, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  weft_philox_words_t words = weft_philox_words(weft_random_stream_take(ctx->state, 1));
  int64_t left = 0, top = 0;
  if (dims[1] > wanted[1]) left = weft_philox_word(&words) % (uint32_t)(dims[1] - wanted[1] + 1);
  if (dims[0] > wanted[0]) top = weft_philox_word(&words) % (uint32_t)(dims[0] - wanted[0] + 1);
  const size_t pixel = (size_t)dims[2] * weft_dtype_size(x->dtype);
  for (int64_t h = 0; h < wanted[0] && y->bytes > 0; h++) {
    memcpy((char *)y->data + (size_t)(h * wanted[1]) * pixel,
           (const char *)x->data + (size_t)((top + h) * dims[1] + left) * pixel, (size_t)wanted[1] * pixel);
  }
  return NULL;
}

/* ---- SampleDistortedBoundingBox: boxes of random size, shape and place, until one covers enough of an
 * object ---- */

typedef struct sample_state {
  void *stream; /* NULL: of the stateless version */
  float least_covered, aspect[2], area[2];
  int64_t attempts;
  bool uses_image;
} sample_state_t;

/* Rows [y1, y2), columns [x1, x2). */
typedef struct rectangle {
  int64_t x1, y1, x2, y2;
} rectangle_t;

static void sample_destroy(void *state) {
  if (state == NULL) return;
  weft_random_stream_destroy(((sample_state_t *)state)->stream);
  weft_free(state);
}

/* Two numbers above 0. */
static weft_status_t *read_range(const weft_kernel_setup_t *setup, const char *name, float out[2]) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  if (a == NULL || a->n != 2) return WEFT_ERROR(INVALID_ARGUMENT, "%s field must specify 2 dimensions", name);
  for (int i = 0; i < 2; i++) out[i] = a->list.floats[i];
  if (out[0] > 0 && out[1] > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be positive: [%g, %g]", name, (double)out[0], (double)out[1]);
}

static weft_status_t *check_covered(float least) {
  if (least >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Min object covered must be non-negative: %g", (double)least);
}

static weft_status_t *read_sample(const weft_kernel_setup_t *setup, sample_state_t *s) {
  const weft_attr_t *least = weft_knode_attr(setup, "min_object_covered");
  if (least != NULL) {
    s->least_covered = least->f;
    WEFT_RETURN_IF_ERROR(check_covered(s->least_covered));
  }
  s->uses_image = weft_knode_bool(setup, "use_image_if_no_bounding_boxes");
  WEFT_RETURN_IF_ERROR(read_range(setup, "aspect_ratio_range", s->aspect));
  WEFT_RETURN_IF_ERROR(read_range(setup, "area_range", s->area));
  if (!(s->area[0] <= 1 && s->area[1] <= 1)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Area range must be less than or equal to 1.0: [%g, %g]",
                      (double)s->area[0], (double)s->area[1]);
  }
  s->attempts = weft_knode_int(setup, "max_attempts");
  if (s->attempts > 0 && s->attempts <= INT32_MAX) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Max attempts must be positive: %" PRId64, s->attempts);
}

static weft_status_t *sample_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  sample_state_t s = {.stream = NULL};
  WEFT_RETURN_IF_ERROR(read_sample(setup, &s));
  if (weft_knode_attr(setup, "seed2") != NULL)
    WEFT_RETURN_IF_ERROR(weft_random_stream_prepare(setup, &s.stream));
  sample_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) {
    weft_random_stream_destroy(s.stream);
    return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  }
  *state = s;
  *out_state = state;
  return NULL;
}

static void sample_save(void *state, weft_strbuf_t *out) {
  weft_random_stream_keeping.save(((sample_state_t *)state)->stream, out);
}

static weft_status_t *sample_load(void *state, weft_str_t from) {
  return weft_random_stream_keeping.load(((sample_state_t *)state)->stream, from);
}

static const weft_kernel_keeping_t sample_keeping = {.save = sample_save, .load = sample_load};

/* To the nearest integer, ties to even. */
static int64_t nearest(float v) { return (int32_t)weft_pixel_index(rintf(v)); }

/* The height of a crop whose width is `aspect` times that; drawn between what the areas allow. */
static int64_t draw_height(int64_t width, int64_t height, const float areas[2], float aspect,
                           weft_philox_words_t *words) {
  int64_t least = nearest(sqrtf(areas[0] / aspect)), most = nearest(sqrtf(areas[1] / aspect));
  if (nearest((float)most * aspect) > width) {
    most = (int64_t)(((double)width + 0.5 - (double)1e-7F) / (double)aspect);
    if (nearest((float)most * aspect) > width) most--;
  }
  if (most > height) most = height;
  if (least >= most) return most;
  return least + uniform(words, (uint32_t)(most - least + 1));
}

/* One attempt at a crop; false: none can be so large, or so small. */
static bool draw_crop(const sample_state_t *s, int64_t width, int64_t height, float aspect,
                      weft_philox_words_t *words, rectangle_t *out) {
  if (width <= 0 || height <= 0 || aspect <= 0 || s->area[0] > s->area[1]) return false;
  const float areas[2] = {s->area[0] * (float)width * (float)height,
                          s->area[1] * (float)width * (float)height};
  int64_t h = draw_height(width, height, areas, aspect, words), w = nearest((float)h * aspect);
  if ((float)(w * h) < areas[0]) w = nearest((float)++h * aspect); /* rounding made it too small */
  if ((float)(w * h) > areas[1]) w = nearest((float)--h * aspect); /* ... or too large */
  const float area = (float)(w * h);
  if (area < areas[0] || area > areas[1] || w > width || h > height || w <= 0 || h <= 0) return false;
  out->y1 = h < height ? uniform(words, (uint32_t)(height - h)) : 0;
  out->x1 = w < width ? uniform(words, (uint32_t)(width - w)) : 0;
  out->x2 = out->x1 + w;
  out->y2 = out->y1 + h;
  return true;
}

static float area_of(const rectangle_t *r) { return (float)((r->x2 - r->x1) * (r->y2 - r->y1)); }

static float common_area(const rectangle_t *a, const rectangle_t *b) {
  const rectangle_t r = {a->x1 > b->x1 ? a->x1 : b->x1, a->y1 > b->y1 ? a->y1 : b->y1,
                         a->x2 < b->x2 ? a->x2 : b->x2, a->y2 < b->y2 ? a->y2 : b->y2};
  return r.x1 > r.x2 || r.y1 > r.y2 ? 0 : area_of(&r);
}

/* Box i in pixels; the whole image if there are none. */
static rectangle_t object(const weft_tensor_t *boxes, int64_t i, int64_t width, int64_t height) {
  if (boxes->count == 0) return (rectangle_t){0, 0, width, height};
  const float *b = (const float *)boxes->data + 4 * i;
  return (rectangle_t){(int64_t)(b[1] * (float)width), (int64_t)(b[0] * (float)height),
                       (int64_t)(b[3] * (float)width), (int64_t)(b[2] * (float)height)};
}

static bool covers_enough(const rectangle_t *crop, float least, const weft_tensor_t *boxes, int64_t width,
                          int64_t height) {
  if (area_of(crop) < 1) return false;
  for (int64_t i = 0; i < boxes->count / 4 || i == 0; i++) {
    const rectangle_t it = object(boxes, i, width, height);
    if (area_of(&it) >= 1 && common_area(crop, &it) / area_of(&it) >= least) return true;
  }
  return false;
}

/* The image's size and boxes within it. */
static weft_status_t *check_sample(weft_kernel_ctx_t *ctx, int64_t *width, int64_t *height) {
  const sample_state_t *s = ctx->state;
  const weft_tensor_t *size = weft_in(ctx, 0), *boxes = weft_in(ctx, 1);
  if (size->shape.rank != 1 || size->count != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image_size must be 1-dimensional with 3 elements, got shape %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  *height = weft_cpu_int_at(size, 0);
  *width = weft_cpu_int_at(size, 1);
  if (*height < 0 || *height >= INT32_MAX || *width < 0 || *width >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "image height and width must be from 0 to int32 max");
  if (boxes->shape.rank != 3 || boxes->shape.dims[2] != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "bounding boxes must have shape [batch, num_boxes, 4], got %s",
                      WEFT_SHAPE_TEXT(&boxes->shape));
  }
  if (ctx->node->num_inputs > 2) {
    const weft_tensor_t *least = weft_in(ctx, 2);
    if (least->shape.rank != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "min_object_covered must be 0-D, got shape %s",
                        WEFT_SHAPE_TEXT(&least->shape));
    }
    WEFT_RETURN_IF_ERROR(check_covered(*(const float *)least->data));
  }
  for (int64_t i = 0; i < boxes->count; i++) {
    const float v = ((const float *)boxes->data)[i];
    if (!(v >= 0 && v <= 1)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "All bounding box coordinates must be in [0.0, 1.0]: %g",
                        (double)v);
    }
  }
  if (boxes->count == 0 && !s->uses_image) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if "
        "you wish to not provide any bounding boxes.");
  }
  return NULL;
}

/* Begin and size of the crop for Slice, and its box as parts of the image. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, const rectangle_t *r, int64_t width, int64_t height) {
  const weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  const int64_t values[2][3] = {{r->y1, r->x1, 0}, {r->y2 - r->y1, r->x2 - r->x1, -1}};
  const weft_shape_t three = weft_shape_vector(3), box = {.rank = 3, .dims = {1, 1, 4}};
  weft_tensor_t *t = NULL;
  for (int o = 0; o < 2; o++) {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, dtype, &three, &t));
    weft_cpu_cast_loop(WEFT_I64, dtype)(3, values[o], t->data);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_F32, &box, &t));
  float *part = t->data;
  part[0] = (float)r->y1 / (float)height;
  part[1] = (float)r->x1 / (float)width;
  part[2] = (float)r->y2 / (float)height;
  part[3] = (float)r->x2 / (float)width;
  return NULL;
}

static weft_status_t *sample(weft_kernel_ctx_t *ctx) {
  const sample_state_t *s = ctx->state;
  int64_t width = 0, height = 0;
  weft_philox_t generator;
  if (s->stream != NULL) {
    generator = weft_random_stream_take(s->stream, (uint64_t)s->attempts);
  } else {
    WEFT_RETURN_IF_ERROR(weft_random_from_seed(weft_in(ctx, 3), &generator));
  }
  WEFT_RETURN_IF_ERROR(check_sample(ctx, &width, &height));
  const float least = ctx->node->num_inputs > 2 ? *(const float *)weft_in(ctx, 2)->data : s->least_covered;
  weft_philox_words_t words = weft_philox_words(generator);
  for (int64_t i = 0; i < s->attempts; i++) {
    const float u = weft_philox_float(weft_philox_word(&words));
    rectangle_t r;
    if (draw_crop(s, width, height, u * (s->aspect[1] - s->aspect[0]) + s->aspect[0], &words, &r) &&
        covers_enough(&r, least, weft_in(ctx, 1), width, height))
      return deliver(ctx, &r, width, height);
  }
  return deliver(ctx, &(const rectangle_t){0, 0, width, height}, width, height);
}

#define SAMPLE_TYPES (WEFT_SET_SIGNED | WEFT_DTYPE_BIT(WEFT_U8))
#define SAMPLE_OF_STREAM(op_)                                                                         \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = SAMPLE_TYPES, .prepare = sample_prepare, .compute = sample, \
    .destroy = sample_destroy, .keeping = &sample_keeping                                             \
  }
const weft_kernel_t weft_cpu_sample_kernels[] = {
    WEFT_STREAM_KERNEL("RandomCrop", "T", SAMPLE_TYPES | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64),
                       random_crop),
    SAMPLE_OF_STREAM("SampleDistortedBoundingBox"),
    SAMPLE_OF_STREAM("SampleDistortedBoundingBoxV2"),
    WEFT_KERNEL("StatelessSampleDistortedBoundingBox", "T", SAMPLE_TYPES, sample_prepare, sample,
                sample_destroy),
    {0},
};
