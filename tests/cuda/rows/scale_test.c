/* Images resampled by kernels, and gradients, against the CPU's kernels. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static const char *const kinds[] = {"lanczos1", "LANCZOS3", "lanczos5",  "gaussian",
                                    "box",      "triangle", "keyscubic", "mitchellCubic"};
enum { NUM_KINDS = 8 };

static void add_pair(weft_row_case_t *c, double a, double b) {
  const weft_shape_t shape = {.rank = 1, .dims = {2}};
  float *v = weft_row_add(c, WEFT_F32, &shape, WEFT_ROW_SMALL)->data;
  v[0] = (float)a;
  v[1] = (float)b;
}

/* Sizes; scales between a seventh and seven, or those of the sizes; translations within the image and out of
 * it. */
static void choose(weft_row_case_t *c, int64_t from[2], int64_t to[2]) {
  for (int d = 0; d < 2; d++) {
    from[d] = weft_row_int(c, 1, 12);
    to[d] = weft_row_int(c, 1, 16);
  }
  if (c->round == 1) from[0] = 130, to[0] = 37;
  if (c->round == 3) from[1] = 41, to[1] = 123;
  weft_row_attr(c, "kernel_type='%s' antialias=%s", kinds[weft_row_int(c, 0, NUM_KINDS - 1)],
                weft_row_int(c, 0, 2) == 0 ? "false" : "true");
}
static void add_places(weft_row_case_t *c, const int64_t *from, const int64_t *to) {
  double scale[2], translation[2];
  for (int d = 0; d < 2; d++) {
    scale[d] =
        weft_row_int(c, 0, 1) == 0 ? (double)to[d] / (double)from[d] : (double)weft_row_int(c, 1, 49) / 7;
    translation[d] = weft_row_int(c, 0, 2) == 0 ? 0 : (double)weft_row_int(c, -40, 40) / 8;
  }
  if (c->round == 4) scale[0] = 1e-9; /* a span that is too large, of an image of several rows */
  if (c->round == 5) scale[1] = c->dtype == WEFT_F32 ? 0 : 1e9;
  add_pair(c, scale[0], scale[1]);
  add_pair(c, translation[0], translation[1]);
}

static void forward(weft_row_case_t *c) {
  int64_t from[2], to[2];
  choose(c, from, to);
  weft_shape_t s = {.rank = 4, .dims = {weft_row_int(c, 0, 2), from[0], from[1], weft_row_int(c, 1, 4)}};
  if (c->round == 6 && c->dtype == WEFT_F64) s.rank = 3;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, 2, to);
  add_places(c, from, to);
}

static void grad(weft_row_case_t *c) {
  int64_t from[2], to[2];
  choose(c, from, to);
  const int64_t n = weft_row_int(c, 1, 2), channels = weft_row_int(c, 1, 4);
  const weft_shape_t dy = {.rank = 4, .dims = {n, to[0], to[1], channels}},
                     x = {.rank = c->round == 6 ? 3 : 4, .dims = {n, from[0], from[1], channels}};
  weft_tensor_t *t = weft_row_add(c, WEFT_F32, &dy, WEFT_ROW_SMALL);
  if (c->round == 2)
    ((float *)t->data)[t->count / 2] = INFINITY; /* 0 times it is NaN, as far as weights are kept */
  weft_row_add(c, WEFT_F32, &x, WEFT_ROW_SMALL);
  add_places(c, from, to);
}

static const weft_row_op_t ops[] = {
    {"ScaleAndTranslate", WEFT_CUDA_SET(PIXELS), forward, .tolerance = 20, .same_message = true},
    {"ScaleAndTranslateGrad", WEFT_DTYPE_BIT(WEFT_F32), grad, .tolerance = 40, .same_message = true},
};

#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))
static void as_the_cpu(void) { weft_row_check(weft_cuda_scale_kernels, ops, NUM(ops)); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_scale_kernels, ops, NUM(ops)); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("resampled images", tests);
}
