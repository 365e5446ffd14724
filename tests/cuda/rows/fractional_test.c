/* Fractional pooling and its gradients against the CPU's kernels. */
#include <math.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

/* Windows are the same each time: others are random whatever the seed. */
static void pool(weft_row_case_t *c) {
  static const double ratios[] = {1, 1.44, 1.5, 2, 2.9};
  const double rows = ratios[weft_row_int(c, 0, 4)], columns = ratios[weft_row_int(c, 0, 4)];
  weft_shape_t x = {
      .rank = 4,
      .dims = {weft_row_int(c, 1, 3), weft_row_int(c, 3, 12), weft_row_int(c, 3, 12), weft_row_int(c, 1, 3)}};
  if (c->round == 1) x.dims[1] = 300;
  if (c->round == 5) x.dims[2] = 2; /* may be too few */
  if (c->round == 6) x.rank = 3;
  weft_row_attr(
      c, "pooling_ratio=[1.0,%g,%g,1.0] pseudo_random=%s overlapping=%s deterministic=true seed=%d seed2=%d",
      rows, columns, c->round % 2 == 0 ? "true" : "false", c->round % 4 < 2 ? "true" : "false",
      (int)weft_row_int(c, 1, 50), (int)weft_row_int(c, 0, 50));
  weft_row_add(c, c->dtype, &x, c->round == 3 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
}
/* Where n windows begin, in any steps. */
static void add_starts(weft_row_case_t *c, int64_t in, int64_t n) {
  int64_t starts[16] = {0};
  for (int64_t i = 1; i < n; i++) starts[i] = starts[i - 1] + weft_row_int(c, 1, 3);
  starts[n] = in;
  if (c->round == 4) starts[0] = -1;
  if (c->round == 5) n--; /* one too few */
  weft_row_add_ints(c, WEFT_I64, (int)n + 1, starts);
}

static void avg_grad(weft_row_case_t *c) {
  const int64_t out[2] = {weft_row_int(c, 1, 4), weft_row_int(c, 1, 4)};
  int64_t x[4] = {weft_row_int(c, 1, 3), weft_row_int(c, 8, 12), weft_row_int(c, 8, 12),
                  weft_row_int(c, 1, 3)};
  const weft_shape_t dy = {.rank = c->round == 6 ? 3 : 4, .dims = {x[0], out[0], out[1], x[3]}};
  if (c->round == 2) x[0]++, x[3] += 2; /* more than the gradient has */
  if (c->round == 7) x[3] = 0;
  weft_row_attr(c, "overlapping=%s", c->round % 2 == 0 ? "true" : "false");
  weft_row_add_ints(c, WEFT_I64, 4, x);
  weft_row_add(c, c->dtype, &dy, WEFT_ROW_SMALL);
  for (int d = 0; d < 2; d++) add_starts(c, x[d + 1], out[d]);
}

/* The largest of the cells of each window, as the kernel finds it. */
static void add_maxima(weft_row_case_t *c, bool is_overlapping) {
  const weft_tensor_t *x = c->inputs[0], *starts[2] = {c->inputs[1], c->inputs[2]};
  const int64_t *dims = x->shape.dims;
  const weft_shape_t s = {.rank = 4, .dims = {dims[0], starts[0]->count - 1, starts[1]->count - 1, dims[3]}};
  weft_tensor_t *y = weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < y->count; i++) {
    const int64_t channel = i % dims[3], n = i / dims[3] / s.dims[2] / s.dims[1];
    const int64_t window[2] = {i / dims[3] / s.dims[2] % s.dims[1], i / dims[3] % s.dims[2]};
    int64_t at[2], last[2], most = -1;
    for (int d = 0; d < 2; d++) {
      at[d] = ((const int64_t *)starts[d]->data)[window[d]];
      last[d] = ((const int64_t *)starts[d]->data)[window[d] + 1] - (is_overlapping ? 0 : 1);
      if (last[d] >= dims[d + 1]) last[d] = dims[d + 1] - 1;
    }
    for (int64_t h = at[0]; h <= last[0]; h++) {
      for (int64_t w = at[1]; w <= last[1]; w++) {
        const int64_t cell = ((n * dims[1] + h) * dims[2] + w) * dims[3] + channel;
        bool is_more = most < 0;
        switch (c->dtype) {
          case WEFT_F32: is_more |= ((float *)x->data)[most < 0 ? 0 : most] < ((float *)x->data)[cell]; break;
          case WEFT_F64:
            is_more |= ((double *)x->data)[most < 0 ? 0 : most] < ((double *)x->data)[cell];
            break;
          case WEFT_I32:
            is_more |= ((int32_t *)x->data)[most < 0 ? 0 : most] < ((int32_t *)x->data)[cell];
            break;
          default: is_more |= ((int64_t *)x->data)[most < 0 ? 0 : most] < ((int64_t *)x->data)[cell]; break;
        }
        if (is_more) most = cell;
      }
    }
    const size_t size = weft_dtype_size(c->dtype);
    if (most >= 0) memcpy((char *)y->data + (size_t)i * size, (char *)x->data + (size_t)most * size, size);
  }
}

static void max_grad(weft_row_case_t *c) {
  const int64_t out[2] = {weft_row_int(c, 1, 4), weft_row_int(c, 1, 4)};
  const bool is_overlapping = c->round % 2 == 0;
  const weft_shape_t x = {.rank = 4,
                          .dims = {weft_row_int(c, 1, 2), weft_row_int(c, 10, 12), weft_row_int(c, 10, 12),
                                   weft_row_int(c, 1, 3)}};
  weft_row_attr(c, "overlapping=%s", is_overlapping ? "true" : "false");
  weft_row_add(c, c->dtype, &x, c->round == 3 ? WEFT_ROW_ANY : WEFT_ROW_SMALL); /* perhaps of a NaN */
  const int round = c->round;
  c->round = round == 4 || round == 5 ? 0 : round;
  for (int d = 0; d < 2; d++) add_starts(c, x.dims[d + 1], out[d]);
  add_maxima(c, is_overlapping);
  c->round = round;
  /* The order of the op: image, maxima, gradient, windows. */
  weft_tensor_t *rows = c->inputs[1], *columns = c->inputs[2];
  weft_shape_t s = c->inputs[3]->shape;
  c->inputs[1] = c->inputs[3];
  c->num_inputs = 2;
  if (round == 4) memset(c->inputs[1]->data, 0x55, 4); /* not the maximum */
  if (round == 5) s.dims[0]++;
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  c->inputs[3] = rows;
  c->inputs[4] = columns;
  c->num_inputs = 5;
}

static const weft_row_op_t ops[] = {
    {"FractionalAvgPool", WEFT_CUDA_SET(F32_F64_INDEX), pool, .tolerance = 2, .same_message = true},
    {"FractionalAvgPoolGrad", WEFT_CUDA_SET(F32_F64_INDEX), avg_grad, .tolerance = 2, .same_message = true},
    {"FractionalMaxPool", WEFT_CUDA_SET(F32_F64_INDEX), pool, .tolerance = -1, .same_message = true},
    {"FractionalMaxPoolGrad", WEFT_CUDA_SET(F32_F64_INDEX), max_grad, .tolerance = 2, .same_message = true},
};

#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))
static void as_the_cpu(void) { weft_row_check(weft_cuda_fractional_kernels, ops, NUM(ops)); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_fractional_kernels, ops, NUM(ops)); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("fractional pooling", tests);
}
