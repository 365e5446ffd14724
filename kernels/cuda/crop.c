/* kernels/cuda/crop.c - rows of CropAndResize, its gradients and ImageProjectiveTransform.
 *
 * The number of a box's image lies in the host's memory, where it is checked. Boxes lie in the device's: a
 * coordinate that is not finite, which the CPU's kernel refuses, is outside of the image here.
 */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/image_args.h"
#include "kernels/cuda/kernels.h"

#define WEFT_FORMULA static inline
#include "kernels/formulas/pixel.h"

enum { OUT_OF_RANGE = 11, CORNERS = 4, COEFFICIENTS = 8 };

WEFT_CUDA_INSTANCES(grad_instances, crop_grad, F32_F64)
WEFT_CUDA_INSTANCES(project_instances, project, PROJECTED)
static weft_cuda_function_t crop_function = WEFT_CUDA_FUNCTION("weft_crop"),
                            grad_boxes_function = WEFT_CUDA_FUNCTION("weft_crop_grad_boxes");

static bool is_text(const char *text, size_t length, const char *wanted) {
  return text != NULL && length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

/* ---- what is shared by the crops ---- */

/* The state. */
static WEFT_Failure *crop_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  const char *method = NULL;
  size_t length = 0;
  (void)param;
  weft_cuda_crop_t *j = calloc(1, sizeof *j);
  if (j == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a crop");
  (void)weft_cuda_host->attr_string(s, "method", &method, &length);
  (void)weft_cuda_host->attr_float(s, "extrapolation_value", &j->outside);
  j->is_nearest = is_text(method, length, "nearest");
  *out = j;
  return NULL;
}

static WEFT_Failure *check_image(int rank, const int64_t *dims, const char *shape, weft_cuda_crop_t *j) {
  if (rank != 4) return WEFT_CUDA_INVALID("input image must be 4-D, got shape %s", shape);
  j->images = dims[0];
  j->size[0] = dims[1];
  j->size[1] = dims[2];
  j->channels = dims[3];
  return j->size[0] > 0 && j->size[1] > 0 ? NULL : WEFT_CUDA_INVALID("image dimensions must be positive");
}

static WEFT_Failure *check_boxes(const WEFT_TensorView *boxes, const WEFT_TensorView *owners,
                                 weft_cuda_crop_t *j) {
  if (boxes->count == 0 && owners->count == 0) return NULL;
  if (boxes->rank != 2) return WEFT_CUDA_INVALID("boxes must be 2-D, got: %s", WEFT_CUDA_SHAPE(boxes));
  if (boxes->dims[1] != CORNERS) return WEFT_CUDA_INVALID("boxes must have 4 columns");
  if (owners->rank != 1) return WEFT_CUDA_INVALID("box_index must be 1-D, got: %s", WEFT_CUDA_SHAPE(owners));
  if (owners->count != boxes->dims[0]) return WEFT_CUDA_INVALID("box_index has incompatible shape");
  j->num_boxes = owners->count;
  return NULL;
}

static WEFT_Failure *send_owners(WEFT_KernelContext *c, const WEFT_TensorView *owners,
                                 const weft_cuda_crop_t *j, void **out) {
  for (int64_t b = 0; b < j->num_boxes; b++) {
    const int32_t owner = ((const int32_t *)owners->data)[b];
    if (owner < 0 || owner >= j->images)
      return weft_cuda_host->failure(OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
  }
  if (j->num_boxes == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, owners->bytes, out));
  return weft_cuda_copy(c, *out, owners->data, owners->bytes);
}

static WEFT_Failure *check_crops(const WEFT_TensorView *dy, weft_cuda_crop_t *j) {
  if (dy->rank != 4) return WEFT_CUDA_INVALID("grads image must be 4-D, got shape %s", WEFT_CUDA_SHAPE(dy));
  j->crop[0] = dy->dims[1];
  j->crop[1] = dy->dims[2];
  return j->crop[0] > 0 && j->crop[1] > 0 ? NULL : WEFT_CUDA_INVALID("grads dimensions must be positive");
}

/* An image as floats. */
static WEFT_Failure *floats_of(WEFT_KernelContext *c, const WEFT_TensorView *x, void **out) {
  *out = x->data;
  if (x->dtype == WEFT_CUDA_f32 || x->count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)x->count * sizeof(float), out));
  return weft_cuda_convert(c, x->dtype, x->data, WEFT_CUDA_f32, *out, x->count);
}

/* ---- CropAndResize ---- */

static WEFT_Failure *crop(WEFT_KernelContext *c) {
  weft_cuda_crop_t j = *(const weft_cuda_crop_t *)weft_cuda_host->state(c);
  WEFT_TensorView in[4], y;
  void *x = NULL, *owners = NULL;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_image(in[0].rank, in[0].dims, WEFT_CUDA_SHAPE(&in[0]), &j));
  if (in[1].rank != 2) return WEFT_CUDA_INVALID("boxes must be 2-D, got: %s", WEFT_CUDA_SHAPE(&in[1]));
  if (in[2].rank != 1)
    return WEFT_CUDA_INVALID("box_indices must be rank 1 but is shape %s", WEFT_CUDA_SHAPE(&in[2]));
  WEFT_CUDA_TRY(check_boxes(&in[1], &in[2], &j));
  WEFT_CUDA_TRY(weft_cuda_size_read(&in[3], "crop_size", j.crop));
  const int64_t dims[4] = {j.num_boxes, j.crop[0], j.crop[1], j.channels};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  WEFT_CUDA_TRY(send_owners(c, &in[2], &j, &owners));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(floats_of(c, &in[0], &x));
  void *args[] = {&x, &in[1].data, &owners, &y.data, &j, &y.count};
  return weft_cuda_launch_over(c, &crop_function, y.count, 1, args);
}

/* ---- gradients ---- */

/* Inputs 1 and 2, or 2 and 3, are the boxes and their images. */
static WEFT_Failure *check_gradient(const WEFT_TensorView *dy, const WEFT_TensorView *boxes,
                                    weft_cuda_crop_t *j) {
  WEFT_CUDA_TRY(check_boxes(&boxes[0], &boxes[1], j));
  return dy->dims[0] == j->num_boxes ? NULL : WEFT_CUDA_INVALID("boxes and grads have incompatible shape");
}

/* Terms are added in float, or in double where that is the type. */
static WEFT_Failure *grad_image(WEFT_KernelContext *c) {
  weft_cuda_crop_t j = *(const weft_cuda_crop_t *)weft_cuda_host->state(c);
  WEFT_TensorView in[4], dx;
  int64_t dims[4];
  void *owners = NULL;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_crops(&in[0], &j));
  WEFT_CUDA_TRY(check_gradient(&in[0], &in[1], &j));
  if (in[3].rank != 1 || in[3].count != 4) {
    return WEFT_CUDA_INVALID("image_size must be 1-D with 4 elements, got shape %s", WEFT_CUDA_SHAPE(&in[3]));
  }
  for (int d = 0; d < 4; d++) dims[d] = weft_cuda_int_at(&in[3], d);
  if (dims[1] <= 0 || dims[2] <= 0) return WEFT_CUDA_INVALID("image dimensions must be positive");
  if (dims[3] != in[0].dims[3]) return WEFT_CUDA_INVALID("image_size and grads are incompatible");
  if (dims[0] < 0) return WEFT_CUDA_INVALID("Dimension %lld must be >= 0", (long long)dims[0]);
  WEFT_CUDA_TRY(check_image(4, dims, "", &j));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &dx));
  WEFT_CUDA_TRY(send_owners(c, &in[2], &j, &owners));
  if (dx.count == 0) return NULL;
  const int sum_type = dx.dtype == WEFT_CUDA_f64 ? WEFT_CUDA_f64 : WEFT_CUDA_f32;
  const size_t bytes = (size_t)dx.count * weft_cuda_size(sum_type);
  void *sums = dx.data;
  if (dx.dtype != sum_type) WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &sums));
  WEFT_CUDA_TRY(weft_cuda_fill(c, sums, 0, bytes));
  void *args[] = {&in[0].data, &in[1].data, &owners, &sums, &j, &in[0].count};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&grad_instances, sum_type), in[0].count, 1, args));
  return dx.dtype == sum_type ? NULL : weft_cuda_convert(c, sum_type, sums, dx.dtype, dx.data, dx.count);
}

static WEFT_Failure *grad_boxes(WEFT_KernelContext *c) {
  weft_cuda_crop_t j = *(const weft_cuda_crop_t *)weft_cuda_host->state(c);
  WEFT_TensorView in[4], d;
  void *x = NULL, *owners = NULL;
  for (int i = 0; i < 4; i++) weft_cuda_host->input(c, i, &in[i]);
  WEFT_CUDA_TRY(check_crops(&in[0], &j));
  WEFT_CUDA_TRY(check_image(in[1].rank, in[1].dims, WEFT_CUDA_SHAPE(&in[1]), &j));
  if (j.channels != in[0].dims[3]) return WEFT_CUDA_INVALID("image, grads depth differ");
  WEFT_CUDA_TRY(check_gradient(&in[0], &in[2], &j));
  const int64_t dims[2] = {j.num_boxes, CORNERS};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &d));
  WEFT_CUDA_TRY(send_owners(c, &in[3], &j, &owners));
  if (d.count == 0) return NULL;
  WEFT_CUDA_TRY(floats_of(c, &in[1], &x));
  const int64_t most = (int64_t)weft_cuda_num_processors(c) * 8;
  const weft_cuda_geometry_t g = {
      {(unsigned)(j.num_boxes < most ? j.num_boxes : most), 1, 1}, {WEFT_CUDA_BLOCK, 1, 1}, 0};
  void *args[] = {&in[0].data, &x, &in[2].data, &owners, &d.data, &j};
  return weft_cuda_launch(c, &grad_boxes_function, &g, args);
}

/* ---- ImageProjectiveTransform ---- */

static WEFT_Failure *project_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char *const modes[] = {"REFLECT", "WRAP", "CONSTANT", "NEAREST"};
  const char *interpolation = NULL, *mode = NULL;
  size_t length = 0, mode_length = 0;
  int m = 0;
  (void)param;
  (void)weft_cuda_host->attr_string(s, "interpolation", &interpolation, &length);
  (void)weft_cuda_host->attr_string(s, "fill_mode", &mode, &mode_length);
  const bool is_bilinear = is_text(interpolation, length, "BILINEAR");
  if (!is_bilinear && !is_text(interpolation, length, "NEAREST")) {
    return WEFT_CUDA_INVALID("Invalid interpolation %.*s. Supported types: NEAREST, BILINEAR", (int)length,
                             interpolation == NULL ? "" : interpolation);
  }
  while (m <= WEFT_FILL_NEAREST && !is_text(mode, mode_length, modes[m])) m++;
  if (m > WEFT_FILL_NEAREST) {
    return WEFT_CUDA_INVALID("Invalid mode %.*s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST",
                             (int)mode_length, mode == NULL ? "" : mode);
  }
  weft_cuda_projection_t *j = calloc(1, sizeof *j);
  if (j == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a projection");
  j->is_bilinear = is_bilinear;
  j->mode = m;
  *out = j;
  return NULL;
}

static WEFT_Failure *project(WEFT_KernelContext *c) {
  weft_cuda_projection_t j = *(const weft_cuda_projection_t *)weft_cuda_host->state(c);
  WEFT_TensorView x, t, size, fill, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &t);
  weft_cuda_host->input(c, 2, &size);
  if (x.rank != 4) return WEFT_CUDA_INVALID("Input images must have rank 4");
  if (t.rank != 2 || (t.dims[0] != x.dims[0] && t.dims[0] != 1) || t.dims[1] != COEFFICIENTS)
    return WEFT_CUDA_INVALID("Input transform should be num_images x 8 or 1 x 8");
  WEFT_CUDA_TRY(weft_cuda_size_read(&size, "output shape", j.out));
  j.in[0] = x.dims[1];
  j.in[1] = x.dims[2];
  j.channels = x.dims[3];
  j.transform_stride = t.dims[0] == 1 ? 0 : COEFFICIENTS;
  if (weft_cuda_host->num_inputs(c) > 3) {
    weft_cuda_host->input(c, 3, &fill);
    if (fill.rank != 0)
      return WEFT_CUDA_INVALID("fill_value must be a scalar, got shape %s", WEFT_CUDA_SHAPE(&fill));
    j.fill = *(const float *)fill.data;
  }
  const int64_t dims[4] = {x.dims[0], j.out[0], j.out[1], j.channels};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  void *args[] = {&x.data, &t.data, &y.data, &j, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&project_instances, x.dtype), y.count, 1, args);
}

enum { THIRD = 4, FOURTH = 8 };
#define IMAGES (WEFT_CUDA_SET(PIXELS) & ~(UINT32_C(1) << WEFT_CUDA_bf16))
#define CROP(op_, types_, fn, host)                                                                        \
  {                                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, .prepare = crop_prepare, .compute = fn, .destroy = free, \
    .host_inputs = host                                                                                    \
  }
#define PROJECT(op_, host)                                                                          \
  {                                                                                                 \
    .op = op_, .type_attr = "dtype", .types = WEFT_CUDA_SET(PROJECTED), .prepare = project_prepare, \
    .compute = project, .destroy = free, .host_inputs = host                                        \
  }
const WEFT_DeviceKernel weft_cuda_crop_kernels[] = {
    CROP("CropAndResize", IMAGES, crop, THIRD | FOURTH),
    CROP("CropAndResizeGradBoxes", IMAGES, grad_boxes, FOURTH),
    CROP("CropAndResizeGradImage", WEFT_CUDA_SET(FLOAT) & ~(UINT32_C(1) << WEFT_CUDA_bf16), grad_image,
         THIRD | FOURTH),
    PROJECT("ImageProjectiveTransformV2", THIRD),
    PROJECT("ImageProjectiveTransformV3", THIRD | FOURTH),
    {0},
};
