/* Images of another size, their gradients, and response norms, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static weft_shape_t image(weft_row_case_t *c, int64_t n, const int64_t *size, int64_t channels) {
  (void)c;
  return (weft_shape_t){.rank = 4, .dims = {n, size[0], size[1], channels}};
}

/* Two sizes, in one round of a few hundred pixels, and how positions are computed. */
static void choose(weft_row_case_t *c, int64_t from[2], int64_t to[2]) {
  for (int d = 0; d < 2; d++) {
    from[d] = weft_row_int(c, 1, 9);
    to[d] = c->round == 3 ? from[d] : weft_row_int(c, 1, 20);
  }
  if (c->round == 1) from[0] = 130, to[0] = 37;
  if (c->round == 4) from[1] = 41, to[1] = 123;
  weft_row_attr(c, "align_corners=%s half_pixel_centers=%s",
                c->round % 3 == 1 || c->round == 6 ? "true" : "false",
                c->round % 3 == 2 || c->round == 6 ? "true" : "false");
}

static void resize(weft_row_case_t *c) {
  int64_t from[2], to[2];
  choose(c, from, to);
  weft_shape_t s = image(c, weft_row_int(c, 0, 2), from, weft_row_int(c, 1, 4));
  if (c->round == 7) s.rank = 3;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, 2, to);
}
static void area(weft_row_case_t *c) {
  resize(c);
  c->attrs[0] = '\0';
  weft_row_attr(c, "align_corners=%s", c->round % 3 == 1 ? "true" : "false");
}
static void nearest_grad(weft_row_case_t *c) {
  int64_t from[2], to[2];
  choose(c, from, to);
  const weft_shape_t s = image(c, weft_row_int(c, 1, 2), to, weft_row_int(c, 1, 4));
  if (c->round == 7) from[1] = 0;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, 2, from);
}
static void bilinear_grad(weft_row_case_t *c) {
  int64_t from[2], to[2];
  choose(c, from, to);
  const int64_t n = weft_row_int(c, 1, 2), channels = weft_row_int(c, 1, 4);
  if (c->round == 7) to[0] = 0;
  const weft_shape_t dy = image(c, n, to, channels), x = image(c, n, from, channels);
  weft_row_add(c, WEFT_F32, &dy, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
}

static const weft_row_op_t resizes[] = {
    {"ResizeArea", WEFT_CUDA_SET(PIXELS), area, .tolerance = 10},
    {"ResizeBicubic", WEFT_CUDA_SET(PIXELS), resize, .tolerance = 10},
    {"ResizeBicubicGrad", WEFT_CUDA_SET(F32_F64), bilinear_grad, .tolerance = 20},
    {"ResizeBilinear", WEFT_CUDA_SET(PIXELS), resize, .tolerance = -1},
    {"ResizeBilinearGrad", WEFT_CUDA_SET(FLOAT), bilinear_grad, .tolerance = 10},
    {"ResizeNearestNeighbor", WEFT_CUDA_SET(PIXELS), resize, .tolerance = -1},
    {"ResizeNearestNeighborGrad", WEFT_CUDA_SET(PIXEL_GRADS), nearest_grad, .tolerance = -1},
};

static weft_shape_t response(weft_row_case_t *c) {
  const int64_t size[2] = {weft_row_int(c, 1, 5), weft_row_int(c, 1, 5)};
  weft_row_attr(c, "depth_radius=%d bias=%s alpha=%s beta=%s", (int)weft_row_int(c, 0, 7),
                c->round % 2 == 0 ? "1.0" : "2.0", c->round % 3 == 0 ? "0.25" : "1.0",
                c->round % 3 == 0   ? "0.5"
                : c->round % 3 == 1 ? "1.0"
                                    : "0.75");
  return image(c, weft_row_int(c, 0, 2), size, weft_row_int(c, 1, 12));
}
static void lrn(weft_row_case_t *c) {
  weft_shape_t s = response(c);
  if (c->round == 7) s.rank = 3;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}
static void lrn_grad(weft_row_case_t *c) {
  weft_shape_t s = response(c);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  if (c->round == 7) s.dims[3]++;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
}
static const weft_row_op_t norms[] = {
    {"LRN", WEFT_CUDA_SET(F32_HALFS), lrn, .tolerance = 10},
    {"LRNGrad", WEFT_CUDA_SET(F32_HALFS), lrn_grad, .tolerance = 20},
};

#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))
static void as_the_cpu(void) {
  weft_row_check(weft_cuda_resize_kernels, resizes, NUM(resizes));
  weft_row_check(weft_cuda_lrn_kernels, norms, NUM(norms));
}
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_resize_kernels, resizes, NUM(resizes));
  weft_row_check_covered(weft_cuda_lrn_kernels, norms, NUM(norms));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("resizes", tests);
}
