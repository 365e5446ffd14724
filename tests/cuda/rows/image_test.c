/* Colours, crops, projections, patches and dilations of images, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

#define BIT(type) (UINT32_C(1) << WEFT_CUDA_##type)
#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))

static void scalar(weft_row_case_t *c, double v) {
  weft_tensor_t *t = weft_row_add(c, WEFT_F32, &WEFT_SCALAR, WEFT_ROW_SMALL);
  *(float *)t->data = (float)v;
}

/* ---- colours ---- */

static weft_shape_t pixels(weft_row_case_t *c, int min_rank) {
  weft_shape_t s = weft_row_shape(c, min_rank, 5);
  if (s.rank > 0) s.dims[s.rank - 1] = c->round == 7 ? 4 : 3;
  if (c->round == 6) s.rank = min_rank - 1;
  return s;
}
static void space(weft_row_case_t *c) {
  const weft_shape_t s = pixels(c, 1);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_POSITIVE : WEFT_ROW_ANY);
}
static void adjust(weft_row_case_t *c) {
  static const double by[] = {.3, -.7, .5, 1, 0, 2.5, .1, .1};
  const weft_shape_t s = pixels(c, 3), vector = weft_shape_vector(2);
  weft_row_add(c, c->dtype, &s, c->round % 2 == 0 ? WEFT_ROW_POSITIVE : WEFT_ROW_SMALL);
  if (c->round == 5) {
    weft_row_add(c, WEFT_F32, &vector, WEFT_ROW_SMALL);
  } else {
    scalar(c, by[c->round]);
  }
}
static void contrast(weft_row_case_t *c) {
  weft_shape_t s = {.rank = c->round % 2 == 0 ? 3 : 4};
  for (int d = 0; d < s.rank; d++) s.dims[d] = weft_row_int(c, c->round == 2 ? 0 : 1, 4);
  if (c->round == 1) s.dims[2] = 300; /* more positions than a block has threads */
  if (c->round == 6) s.rank = 2;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  scalar(c, 1.5 + c->round);
}
static void bounded_contrast(weft_row_case_t *c) {
  contrast(c);
  scalar(c, -3);
  scalar(c, 4);
}
static const weft_row_op_t colours[] = {
    {"AdjustContrast", BIT(u8) | BIT(i8) | BIT(i16) | BIT(i32) | BIT(f32) | BIT(f64), bounded_contrast,
     .tolerance = 10},
    {"AdjustContrastv2", BIT(f32), contrast, .tolerance = 10},
    {"AdjustHue", BIT(f32), adjust, .tolerance = 10},
    {"AdjustSaturation", BIT(f32), adjust, .tolerance = 10},
    {"HSVToRGB", WEFT_CUDA_SET(FLOAT), space},
    {"RGBToHSV", WEFT_CUDA_SET(FLOAT), space},
};

/* ---- crops ---- */

/* Sizes of images and of crops. */
typedef struct crop_sizes {
  weft_shape_t images, crops;
  int64_t boxes;
} crop_sizes_t;

static crop_sizes_t choose(weft_row_case_t *c) {
  crop_sizes_t s = {.boxes = c->round == 2 ? 0 : weft_row_int(c, 1, 5)};
  s.images = (weft_shape_t){
      .rank = 4,
      .dims = {weft_row_int(c, 1, 3), weft_row_int(c, 1, 9), weft_row_int(c, 1, 9), weft_row_int(c, 1, 3)}};
  if (c->round == 1) s.images.dims[2] = 120;
  s.crops = (weft_shape_t){.rank = 4,
                           .dims = {s.boxes, weft_row_int(c, 1, 6), weft_row_int(c, 1, 6), s.images.dims[3]}};
  if (c->round == 3) s.crops.dims[2] = 90; /* more pixels than a block has threads */
  weft_row_attr(c, "method=%s", c->round % 3 == 2 ? "nearest" : "bilinear");
  return s;
}

/* Corners within the image and outside of it; in one round a box of an image that is not there. */
static void boxes(weft_row_case_t *c, const crop_sizes_t *s) {
  const weft_shape_t shape = weft_shape_matrix(s->boxes, 4);
  int64_t owners[5];
  for (int64_t b = 0; b < s->boxes; b++) owners[b] = weft_row_int(c, 0, s->images.dims[0] - 1);
  if (c->round == 7) owners[0] = s->images.dims[0];
  weft_row_add(c, WEFT_F32, &shape, c->round % 2 == 0 ? WEFT_ROW_POSITIVE : WEFT_ROW_SMALL);
  for (int64_t i = 0; i < 4 * s->boxes; i++) ((float *)c->inputs[c->num_inputs - 1]->data)[i] *= .4F;
  weft_row_add_ints(c, WEFT_I32, (int)s->boxes, owners);
}

static void crop(weft_row_case_t *c) {
  const crop_sizes_t s = choose(c);
  weft_row_add(c, c->dtype, &s.images, WEFT_ROW_SMALL);
  boxes(c, &s);
  weft_row_add_ints(c, WEFT_I32, c->round == 6 ? 1 : 2, &s.crops.dims[1]);
  weft_row_attr(c, "extrapolation_value=0.75");
}
static void crop_grad_image(weft_row_case_t *c) {
  crop_sizes_t s = choose(c);
  weft_row_add(c, WEFT_F32, &s.crops, WEFT_ROW_SMALL);
  boxes(c, &s);
  if (c->round == 6) s.images.dims[3]++;
  weft_row_add_ints(c, WEFT_I32, 4, s.images.dims);
  weft_row_attr(c, "T=%s", weft_dtype_name(c->dtype));
}
static void crop_grad_boxes(weft_row_case_t *c) {
  crop_sizes_t s = choose(c);
  weft_row_attr(c, "method=bilinear");
  weft_row_add(c, WEFT_F32, &s.crops, WEFT_ROW_SMALL);
  if (c->round == 6) s.images.dims[3]++;
  weft_row_add(c, c->dtype, &s.images, WEFT_ROW_SMALL);
  boxes(c, &s);
}

static void project(weft_row_case_t *c, bool has_fill) {
  static const char *const modes[] = {"REFLECT", "WRAP", "CONSTANT", "NEAREST"};
  const crop_sizes_t s = choose(c);
  weft_shape_t t = weft_shape_matrix(c->round % 2 == 0 ? 1 : s.images.dims[0], c->round == 7 ? 7 : 8);
  c->attrs[0] = '\0';
  weft_row_add(c, c->dtype, &s.images, WEFT_ROW_SMALL);
  weft_tensor_t *transforms = weft_row_add(c, WEFT_F32, &t, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t.dims[0] && t.dims[1] == 8; i++) { /* near the image, seldom infinitely far */
    for (int k = 6; k < 8; k++) ((float *)transforms->data)[8 * i + k] *= .125F;
  }
  const int64_t size[2] = {weft_row_int(c, 1, 9), weft_row_int(c, c->round == 6 ? 0 : 1, 9)};
  weft_row_add_ints(c, WEFT_I32, 2, size);
  if (has_fill) scalar(c, 3);
  weft_row_attr(c, "interpolation=%s fill_mode=%s", c->round < 4 ? "BILINEAR" : "NEAREST",
                modes[c->round % 4]);
}
static void project_v2(weft_row_case_t *c) { project(c, false); }
static void project_v3(weft_row_case_t *c) { project(c, true); }

#define IMAGES (WEFT_CUDA_SET(PIXELS) & ~BIT(bf16))
static const weft_row_op_t crops[] = {
    {"CropAndResize", IMAGES, crop},
    {"CropAndResizeGradBoxes", IMAGES, crop_grad_boxes, .tolerance = 20},
    {"CropAndResizeGradImage", WEFT_CUDA_SET(FLOAT) & ~BIT(bf16), crop_grad_image, .tolerance = 20},
    {"ImageProjectiveTransformV2", WEFT_CUDA_SET(PROJECTED), project_v2},
    {"ImageProjectiveTransformV3", WEFT_CUDA_SET(PROJECTED), project_v3},
};

/* ---- windows ---- */

static void windows(weft_row_case_t *c, const char *const *names, const int64_t (*values)[3], int num_space) {
  for (int i = 0; names[i] != NULL; i++) {
    const int64_t *v = values[i];
    if (num_space == 2) {
      weft_row_attr(c, "%s=[1,%d,%d,1]", names[i], (int)v[1], (int)v[2]);
    } else {
      weft_row_attr(c, "%s=[1,%d,%d,%d,1]", names[i], (int)v[0], (int)v[1], (int)v[2]);
    }
  }
  weft_row_attr(c, "padding=%s", c->round % 2 == 0 ? "SAME" : "VALID");
}

static void patches(weft_row_case_t *c, int num_space) {
  static const char *const names[] = {"ksizes", "strides", "rates", NULL}, *const of_volumes[] = {
                                                                               "ksizes", "strides", NULL};
  int64_t values[3][3];
  for (int i = 0; i < 9; i++) values[i / 3][i % 3] = weft_row_int(c, 1, i < 3 ? 3 : 2);
  weft_shape_t s = {.rank = num_space + 2, .dims = {weft_row_int(c, c->round == 2 ? 0 : 1, 3)}};
  for (int d = 0; d < num_space; d++) s.dims[1 + d] = weft_row_int(c, 5, 8);
  s.dims[num_space + 1] = weft_row_int(c, 1, 4);
  if (c->round == 1) s.dims[1] = 100;
  if (c->round == 7) s.rank--;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_ANY);
  windows(c, num_space == 2 ? names : of_volumes, (const int64_t(*)[3])values, num_space);
}
static void image_patches(weft_row_case_t *c) { patches(c, 2); }
static void volume_patches(weft_row_case_t *c) { patches(c, 3); }

static void dilation_of(weft_row_case_t *c, bool has_gradient) {
  static const char *const names[] = {"strides", "rates", NULL};
  int64_t values[2][3], out[2];
  weft_shape_t x = {.rank = 4, .dims = {weft_row_int(c, c->round == 2 ? 0 : 1, 2)}},
               f = {.rank = 3, .dims = {weft_row_int(c, 1, 3), weft_row_int(c, 1, 3)}};
  for (int i = 0; i < 6; i++) values[i / 3][i % 3] = weft_row_int(c, 1, 2);
  for (int d = 0; d < 2; d++) x.dims[1 + d] = weft_row_int(c, 5, 8);
  if (c->round == 1) x.dims[2] = 60;
  x.dims[3] = f.dims[2] = weft_row_int(c, 1, 4);
  for (int d = 0; d < 2; d++) {
    const int64_t stride = values[0][1 + d], effective = (f.dims[d] - 1) * values[1][1 + d] + 1,
                  room = c->round % 2 == 0 ? x.dims[1 + d] : x.dims[1 + d] - effective + 1;
    out[d] = (room + stride - 1) / stride;
  }
  const weft_shape_t dy = {.rank = 4,
                           .dims = {x.dims[0], out[0], out[1] + (has_gradient && c->round == 6), x.dims[3]}};
  if (c->round == 7) f.dims[2]++;
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  if (c->round == 4) { /* windows of nothing but NaN */
    for (int64_t i = 0; i < c->inputs[0]->count / 2; i++)
      memset((char *)c->inputs[0]->data + (size_t)i * weft_dtype_size(c->dtype), 0xff,
             weft_dtype_size(c->dtype));
  }
  weft_row_add(c, c->dtype, &f, WEFT_ROW_SMALL);
  if (has_gradient) weft_row_add(c, c->dtype, &dy, WEFT_ROW_SMALL);
  windows(c, names, (const int64_t(*)[3])values, 2);
}
static void dilation(weft_row_case_t *c) { dilation_of(c, false); }
static void dilation_grad(weft_row_case_t *c) { dilation_of(c, true); }

#define NUMBERS (WEFT_CUDA_SET(EVERY) & ~BIT(boolean))
static const weft_row_op_t seen[] = {
    {"Dilation2D", WEFT_CUDA_SET(FLOAT), dilation, .tolerance = -1},
    {"Dilation2DBackpropFilter", WEFT_CUDA_SET(FLOAT), dilation_grad, .tolerance = 20},
    {"Dilation2DBackpropInput", WEFT_CUDA_SET(FLOAT), dilation_grad, .tolerance = 5},
    {"ExtractImagePatches", NUMBERS | WEFT_CUDA_SET(COMPLEX), image_patches, .tolerance = -1},
    {"ExtractVolumePatches", NUMBERS, volume_patches, .tolerance = -1},
};

static void as_the_cpu(void) {
  weft_row_check(weft_cuda_patches_kernels, seen, NUM(seen));
  weft_row_check(weft_cuda_crop_kernels, crops, NUM(crops));
  weft_row_check(weft_cuda_colour_kernels, colours, NUM(colours));
}
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_patches_kernels, seen, NUM(seen));
  weft_row_check_covered(weft_cuda_crop_kernels, crops, NUM(crops));
  weft_row_check_covered(weft_cuda_colour_kernels, colours, NUM(colours));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("images", tests);
}
