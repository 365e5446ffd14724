/* FakeQuantWithMinMax..., QuantizeAndDequantize and their gradients, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

static void put(weft_tensor_t *t, int64_t i, double v) {
  if (t->dtype == WEFT_F64) {
    ((double *)t->data)[i] = v;
  } else {
    ((float *)t->data)[i] = (float)v;
  }
}

/* Ranges around 0, beside it, of nothing, and of nothing but 0. n < 0: of a scalar. */
static void range(weft_row_case_t *c, weft_dtype_t dtype, int64_t n, bool is_ordered) {
  static const double ranges[][2] = {{-1, 1.5}, {.25, 3}, {-6, -.5}, {0, 0}, {-.1, 1e-3}, {0, 2}, {1, 1}};
  const weft_shape_t shape = n < 0 ? WEFT_SCALAR : weft_shape_vector(n);
  const int at = (int)weft_row_int(c, 0, 6);
  weft_tensor_t *sides[2] = {weft_row_add(c, dtype, &shape, WEFT_ROW_SMALL),
                             weft_row_add(c, dtype, &shape, WEFT_ROW_SMALL)};
  for (int64_t i = 0; i < sides[0]->count; i++) {
    for (int k = 0; k < 2; k++) put(sides[k], i, ranges[(at + i) % 7][is_ordered ? k : 1 - k]);
  }
}

static weft_shape_t fake_shape(weft_row_case_t *c, bool has_channels) {
  weft_shape_t s = weft_row_shape(c, has_channels ? 1 : 0, 4);
  if (c->round == 3) s = (weft_shape_t){.rank = 3, .dims = {40, 30, has_channels ? 37 : 2}};
  if (c->round == 5 && has_channels) s.dims[s.rank - 1] = 1;
  return s;
}

static void fake(weft_row_case_t *c, bool is_gradient, bool has_args, bool has_channels) {
  static const int bits[] = {8, 8, 8, 4, 16, 2, 3, 5};
  weft_shape_t s = fake_shape(c, has_channels), other = s;
  if (c->round == 6 && other.rank > 0) other.dims[0]++;
  if (is_gradient) weft_row_add(c, WEFT_F32, c->round == 6 ? &other : &s, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &s, c->round % 2 == 0 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
  if (has_args) {
    weft_row_attr(c, "min=%s max=3.0", c->round % 2 == 0 ? "-1.25" : "0.5");
  } else if (has_channels) {
    range(c, WEFT_F32, s.dims[s.rank - 1] + (c->round == 4), true);
  } else {
    range(c, WEFT_F32, c->round == 4 ? 1 : -1, true);
  }
  weft_row_attr(c, "num_bits=%d narrow_range=%s", bits[c->round], c->round % 3 == 1 ? "true" : "false");
}
static void args(weft_row_case_t *c) { fake(c, false, true, false); }
static void args_grad(weft_row_case_t *c) { fake(c, true, true, false); }
static void vars(weft_row_case_t *c) { fake(c, false, false, false); }
static void vars_grad(weft_row_case_t *c) { fake(c, true, false, false); }
static void channels(weft_row_case_t *c) { fake(c, false, false, true); }
static void channels_grad(weft_row_case_t *c) { fake(c, true, false, true); }

static void values(weft_row_case_t *c, const weft_shape_t *s) {
  weft_row_add(c, c->dtype, s, c->round == 4 ? WEFT_ROW_ANY : WEFT_ROW_SMALL);
}
static void v1(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4);
  values(c, &s);
  weft_row_attr(c, "num_bits=%d signed_input=%s range_given=%s input_min=-0.75 input_max=1.5", 4 + c->round,
                c->round % 3 == 0 ? "false" : "true", c->round % 2 == 0 ? "true" : "false");
}

/* An axis, or -1; in some rounds the range is that of the values. */
static int64_t axis_of(weft_row_case_t *c, const weft_shape_t *s) {
  return c->round % 2 == 0 || s->rank == 0 ? -1 : c->round == 7 ? s->rank : weft_row_int(c, 0, s->rank - 1);
}
static void v2(weft_row_case_t *c) {
  weft_shape_t s = weft_row_shape(c, 0, 4);
  if (c->round == 3) s = (weft_shape_t){.rank = 3, .dims = {40, 37, 60}};
  const int64_t axis = axis_of(c, &s);
  values(c, &s);
  range(c, c->dtype, -1, c->round != 6);
  weft_row_attr(c, "num_bits=%d signed_input=%s range_given=%s axis=%d round_mode=%s narrow_range=%s",
                3 + c->round, c->round % 3 == 0 ? "false" : "true",
                c->round % 2 == 0 && c->round != 2 ? "true" : "false", (int)axis,
                c->round % 3 == 1 ? "HALF_UP" : "HALF_TO_EVEN", c->round % 3 == 2 ? "true" : "false");
}
static void v3(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, c->round == 5 ? 0 : 1, 4);
  const int64_t axis = axis_of(c, &s), bits = c->round == 6 ? 64 : 4 + c->round;
  values(c, &s);
  range(c, c->dtype, axis < 0 || axis >= s.rank ? -1 : s.dims[axis], true);
  weft_row_add_ints(c, WEFT_I32, -1, &bits);
  weft_row_attr(c, "signed_input=%s range_given=%s axis=%d narrow_range=%s",
                c->round % 3 == 0 ? "false" : "true", c->round == 3 ? "false" : "true", (int)axis,
                c->round % 3 == 2 ? "true" : "false");
}
static void v4_grad(weft_row_case_t *c) {
  const weft_shape_t s = weft_row_shape(c, 0, 4), other = weft_shape_vector(3);
  const int64_t axis = axis_of(c, &s);
  weft_row_add(c, c->dtype, c->round == 6 ? &other : &s, WEFT_ROW_SMALL);
  values(c, &s);
  range(c, c->dtype, axis < 0 || axis >= s.rank ? -1 : s.dims[axis], true);
  weft_row_attr(c, "axis=%d", (int)axis);
}

#define F32 (UINT32_C(1) << WEFT_CUDA_f32)
static const weft_row_op_t ops[] = {
    {"FakeQuantWithMinMaxArgs", F32, args},
    {"FakeQuantWithMinMaxArgsGradient", F32, args_grad, .tolerance = -1},
    {"FakeQuantWithMinMaxVars", F32, vars},
    {"FakeQuantWithMinMaxVarsGradient", F32, vars_grad, .tolerance = 20},
    {"FakeQuantWithMinMaxVarsPerChannel", F32, channels},
    {"FakeQuantWithMinMaxVarsPerChannelGradient", F32, channels_grad, .tolerance = 20},
    {"QuantizeAndDequantize", WEFT_CUDA_SET(F32_F64), v1},
    {"QuantizeAndDequantizeV2", WEFT_CUDA_SET(F32_F64), v2},
    {"QuantizeAndDequantizeV3", WEFT_CUDA_SET(F32_F64), v3},
    {"QuantizeAndDequantizeV4", WEFT_CUDA_SET(F32_F64), v2},
    {"QuantizeAndDequantizeV4Grad", WEFT_CUDA_SET(F32_F64), v4_grad, .tolerance = -1},
};
enum { NUM = sizeof ops / sizeof ops[0] };

static void as_the_cpu(void) { weft_row_check(weft_cuda_quantize_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_quantize_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("quantize", tests);
}
