/* Pooling, depthwise convolution and batch normalisation, against the CPU's kernels. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

typedef struct frame {
  bool channels_first, is_explicit;
  int64_t n, c, h, w, kh, kw, sh, sw, dh, dw, oh, ow;
} frame_t;

static weft_shape_t image(const frame_t *f, bool of_output, int64_t channels) {
  const int64_t h = of_output ? f->oh : f->h, w = of_output ? f->ow : f->w;
  return f->channels_first ? (weft_shape_t){.rank = 4, .dims = {f->n, channels, h, w}}
                           : (weft_shape_t){.rank = 4, .dims = {f->n, h, w, channels}};
}

static int64_t out_of(int64_t in, int64_t k, int64_t stride, int64_t dilation, int padding, int64_t pads) {
  const int64_t effective = (k - 1) * dilation + 1;
  return padding == 0 ? (in + stride - 1) / stride
                      : (in + (padding == 2 ? pads : 0) - effective + stride) / stride;
}

/* Attributes of data format, padding and strides; `has_explicit`: the op has explicit paddings. */
static frame_t frame(weft_row_case_t *c, bool is_conv, bool has_explicit) {
  frame_t f = {.channels_first = c->round % 3 == 1,
               .n = c->round == 6 && is_conv ? 0 : weft_row_int(c, 1, 3),
               .c = c->round == 3 ? 37 : weft_row_int(c, 1, 5),
               .h = weft_row_int(c, 4, 9),
               .w = weft_row_int(c, 4, 9),
               .kh = weft_row_int(c, 1, 3),
               .kw = weft_row_int(c, 1, 3),
               .sh = weft_row_int(c, 1, 3),
               .sw = weft_row_int(c, 1, 3),
               .dh = 1,
               .dw = 1};
  const int padding = (int)weft_row_int(c, 0, has_explicit ? 2 : 1); /* same, valid, explicit */
  const int64_t pads[4] = {weft_row_int(c, 0, f.kh - 1), weft_row_int(c, 0, f.kh - 1),
                           weft_row_int(c, 0, f.kw - 1), weft_row_int(c, 0, f.kw - 1)};
  if (is_conv) f.sw = f.sh;
  if (is_conv && f.sh == 1) f.dh = f.dw = weft_row_int(c, 1, 2);
  weft_row_attr(c, "data_format=%s", f.channels_first ? "NCHW" : "NHWC");
  weft_row_attr(c, "padding=%s", padding == 0 ? "SAME" : padding == 1 ? "VALID" : "EXPLICIT");
  if (padding == 2 && f.channels_first)
    weft_row_attr(c, "explicit_paddings=[0,0,0,0,%d,%d,%d,%d]", (int)pads[0], (int)pads[1], (int)pads[2],
                  (int)pads[3]);
  if (padding == 2 && !f.channels_first)
    weft_row_attr(c, "explicit_paddings=[0,0,%d,%d,%d,%d,0,0]", (int)pads[0], (int)pads[1], (int)pads[2],
                  (int)pads[3]);
  f.oh = out_of(f.h, f.kh, f.sh, f.dh, padding, pads[0] + pads[1]);
  f.ow = out_of(f.w, f.kw, f.sw, f.dw, padding, pads[2] + pads[3]);
  return f;
}

static void add_pair(weft_row_case_t *c, const frame_t *f, const char *name, int64_t h, int64_t w) {
  if (f->channels_first) {
    weft_row_attr(c, "%s=[1,1,%d,%d]", name, (int)h, (int)w);
  } else {
    weft_row_attr(c, "%s=[1,%d,%d,1]", name, (int)h, (int)w);
  }
}

/* ---- pooling ---- */

static frame_t pool_frame(weft_row_case_t *c, bool has_explicit) {
  const frame_t f = frame(c, false, has_explicit);
  add_pair(c, &f, "ksize", f.kh, f.kw);
  add_pair(c, &f, "strides", f.sh, f.sw);
  return f;
}

static void add_image(weft_row_case_t *c, const frame_t *f, bool of_output, int64_t channels,
                      weft_row_values_t values) {
  const weft_shape_t s = image(f, of_output, channels);
  weft_row_add(c, c->dtype, &s, values);
}

static void max_pool(weft_row_case_t *c) {
  const frame_t f = pool_frame(c, true);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
}
static void max_depth(weft_row_case_t *c) {
  const weft_shape_t s = {.rank = 4, .dims = {2, 3, 4, c->round == 7 ? 5 : 6}};
  weft_row_add(c, c->dtype, &s, WEFT_ROW_SMALL);
  weft_row_attr(c, "ksize=[1,1,1,2] strides=[1,1,1,2] padding=VALID");
}
static void max_pool_grad(weft_row_case_t *c) {
  frame_t f = pool_frame(c, true);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  if (c->round == 7) f.oh++;
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
}
static void add_inputs(weft_row_case_t *c, const frame_t *f) {
  const int64_t first[2][4] = {{1, 1, f->kh, f->kw}, {1, 1, f->sh, f->sw}},
                last[2][4] = {{1, f->kh, f->kw, 1}, {1, f->sh, f->sw, 1}};
  for (int i = 0; i < 2; i++) weft_row_add_ints(c, WEFT_I32, 4, f->channels_first ? first[i] : last[i]);
}
static void max_pool_v2(weft_row_case_t *c) {
  const frame_t f = frame(c, false, false);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
  add_inputs(c, &f);
}
static void max_pool_grad_v2(weft_row_case_t *c) {
  const frame_t f = frame(c, false, false);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  add_inputs(c, &f);
}
static void avg_pool(weft_row_case_t *c) {
  const frame_t f = pool_frame(c, false);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
}
static void avg_pool_grad(weft_row_case_t *c) {
  const frame_t f = pool_frame(c, false);
  const weft_shape_t s = image(&f, false, f.c);
  weft_row_add_ints(c, WEFT_I32, 4, s.dims);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
}

static void max_pool_second(weft_row_case_t *c) {
  frame_t f = pool_frame(c, false);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
  if (c->round == 7) f.oh++;
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  add_image(c, &f, false, f.c + (c->round == 6), WEFT_ROW_SMALL);
}
static void max_pool_second_v2(weft_row_case_t *c) {
  const frame_t f = frame(c, false, false);
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  add_image(c, &f, false, f.c, WEFT_ROW_SMALL);
  add_inputs(c, &f);
}

/* Ops that name maxima know no data format. */
static frame_t argmax_frame(weft_row_case_t *c) {
  frame_t f = frame(c, false, false);
  f.channels_first = false;
  c->attrs[0] = '\0';
  const bool is_same = weft_row_int(c, 0, 1) != 0;
  f.oh = out_of(f.h, f.kh, f.sh, 1, is_same ? 0 : 1, 0);
  f.ow = out_of(f.w, f.kw, f.sw, 1, is_same ? 0 : 1, 0);
  weft_row_attr(c, "padding=%s", is_same ? "SAME" : "VALID");
  weft_row_attr(c, "include_batch_in_index=%s", c->round % 2 == 1 ? "true" : "false");
  add_pair(c, &f, "ksize", f.kh, f.kw);
  add_pair(c, &f, "strides", f.sh, f.sw);
  return f;
}
static void max_argmax(weft_row_case_t *c) {
  frame_t f = argmax_frame(c);
  if (c->round == 6) f.n = 0;
  weft_row_attr(c, "Targmax=%s", c->round % 4 < 2 ? "int32" : "int64");
  add_image(c, &f, false, f.c, WEFT_ROW_ANY);
}
static void max_argmax_grad(weft_row_case_t *c) {
  const frame_t f = argmax_frame(c);
  const weft_dtype_t type = c->round % 4 < 2 ? WEFT_I32 : WEFT_I64;
  const weft_shape_t s = image(&f, true, f.c + (c->round == 7));
  const int64_t size = f.h * f.w * f.c * (c->round % 2 == 1 ? f.n : 1);
  add_image(c, &f, false, f.c, WEFT_ROW_SMALL);
  add_image(c, &f, true, f.c, WEFT_ROW_SMALL);
  weft_tensor_t *t = weft_row_add(c, type, &s, WEFT_ROW_SMALL);
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t v = weft_row_int(c, 0, size - 1);
    if (type == WEFT_I32) ((int32_t *)t->data)[i] = (int32_t)v;
    if (type == WEFT_I64) ((int64_t *)t->data)[i] = v;
  }
}

static const weft_row_op_t pools[] = {
    {"AvgPool", WEFT_CUDA_SET(FLOAT), avg_pool, .tolerance = 10},
    {"AvgPoolGrad", WEFT_CUDA_SET(FLOAT), avg_pool_grad, .tolerance = 10},
    {"MaxPool", WEFT_CUDA_SET(FLOAT), max_pool},
    {"MaxPool", WEFT_CUDA_SET(FLOAT), max_depth},
    {"MaxPoolGrad", WEFT_CUDA_SET(FLOAT), max_pool_grad, .tolerance = 10},
    {"MaxPoolGradGrad", WEFT_CUDA_SET(FLOAT), max_pool_second, .tolerance = -1},
    {"MaxPoolGradGradV2", WEFT_CUDA_SET(FLOAT), max_pool_second_v2, .tolerance = -1},
    {"MaxPoolGradV2", WEFT_CUDA_SET(FLOAT), max_pool_grad_v2, .tolerance = 10},
    {"MaxPoolGradWithArgmax", WEFT_CUDA_SET(FLOAT), max_argmax_grad, .tolerance = 10},
    {"MaxPoolV2", WEFT_CUDA_SET(FLOAT), max_pool_v2},
    {"MaxPoolWithArgmax", WEFT_CUDA_SET(FLOAT), max_argmax, .tolerance = -1},
};

/* ---- pools of volumes ---- */

/* Volumes before and behind a pool; attributes are set. */
typedef struct volumes {
  weft_shape_t in, out;
} volumes_t;

static volumes_t volumes(weft_row_case_t *c) {
  volumes_t v = {.in = {.rank = 5, .dims = {c->round == 6 ? 0 : weft_row_int(c, 1, 2)}}};
  const bool is_same = weft_row_int(c, 0, 1) != 0;
  int k[3], stride[3];
  v.in.dims[4] = weft_row_int(c, 1, 4);
  v.out = v.in;
  for (int d = 0; d < 3; d++) {
    v.in.dims[d + 1] = weft_row_int(c, 3, 6);
    /* A window may be larger than the input. */
    k[d] = (int)weft_row_int(c, 1, is_same && c->round > 3 ? 8 : 3);
    stride[d] = (int)weft_row_int(c, 1, 3);
    v.out.dims[d + 1] = out_of(v.in.dims[d + 1], k[d], stride[d], 1, is_same ? 0 : 1, 0);
  }
  weft_row_attr(c, "padding=%s ksize=[1,%d,%d,%d,1] strides=[1,%d,%d,%d,1]", is_same ? "SAME" : "VALID", k[0],
                k[1], k[2], stride[0], stride[1], stride[2]);
  return v;
}
static void volume(weft_row_case_t *c) {
  volumes_t v = volumes(c);
  if (c->round == 7) v.in.rank = 4;
  weft_row_add(c, c->dtype, &v.in, WEFT_ROW_ANY);
}
/* Maxima that are some cells' values, so that gradients go somewhere. */
static void add_maxima(weft_row_case_t *c, const volumes_t *v) {
  weft_tensor_t *x = weft_row_add(c, c->dtype, &v->in, WEFT_ROW_SMALL);
  weft_tensor_t *y = weft_row_add(c, c->dtype, &v->out, WEFT_ROW_SMALL);
  const size_t size = weft_dtype_size(c->dtype);
  for (size_t i = 0; i < x->bytes; i += size * 3) memset((char *)x->data + i, 0, size);
  for (size_t i = 0; i < y->bytes; i += size * 2) memset((char *)y->data + i, 0, size);
}
static void max_volume_grad(weft_row_case_t *c) {
  volumes_t v = volumes(c);
  weft_row_attr(c, "TInput=%s", weft_dtype_name(c->dtype));
  add_maxima(c, &v);
  if (c->round == 7) v.out.dims[2]++;
  weft_row_add(c, c->dtype, &v.out, WEFT_ROW_SMALL);
}
static void max_volume_second(weft_row_case_t *c) {
  volumes_t v = volumes(c);
  add_maxima(c, &v);
  if (c->round == 7) v.in.dims[2]++;
  weft_row_add(c, c->dtype, &v.in, WEFT_ROW_SMALL);
}
static void avg_volume_grad(weft_row_case_t *c) {
  volumes_t v = volumes(c);
  weft_row_add_ints(c, WEFT_I32, 5, v.in.dims);
  if (c->round == 7) v.out.dims[3] += 9;
  if (c->round == 3) v.out.dims[4]++;
  if (c->round == 5 && v.out.dims[1] > 1) v.out.dims[1]--;
  weft_row_add(c, c->dtype, &v.out, WEFT_ROW_SMALL);
}

static const weft_row_op_t volume_pools[] = {
    {"AvgPool3D", WEFT_CUDA_SET(F32_BF16), volume},
    {"AvgPool3DGrad", WEFT_CUDA_SET(F32_BF16), avg_volume_grad},
    {"MaxPool3D", WEFT_CUDA_SET(F32_BF16), volume, .tolerance = -1},
    {"MaxPool3DGrad", WEFT_CUDA_SET(F32_BF16), max_volume_grad},
    {"MaxPool3DGradGrad", WEFT_CUDA_SET(F32_BF16), max_volume_second, .tolerance = -1},
};

/* ---- depthwise convolution ---- */

static frame_t depth_frame(weft_row_case_t *c, weft_shape_t *filter) {
  const frame_t f = frame(c, true, true);
  add_pair(c, &f, "strides", f.sh, f.sw);
  add_pair(c, &f, "dilations", f.dh, f.dw);
  *filter = (weft_shape_t){.rank = 4, .dims = {f.kh, f.kw, f.c, weft_row_int(c, 1, 3)}};
  return f;
}
static void depthwise(weft_row_case_t *c) {
  weft_shape_t filter;
  const frame_t f = depth_frame(c, &filter);
  add_image(c, &f, false, f.c, WEFT_ROW_SMALL);
  if (c->round == 7) filter.dims[2]++;
  weft_row_add(c, c->dtype, &filter, WEFT_ROW_SMALL);
}
static void depthwise_input(weft_row_case_t *c) {
  weft_shape_t filter;
  const frame_t f = depth_frame(c, &filter);
  const weft_shape_t s = image(&f, false, f.c);
  weft_row_add_ints(c, WEFT_I32, 4, s.dims);
  weft_row_add(c, c->dtype, &filter, WEFT_ROW_SMALL);
  add_image(c, &f, true, f.c * filter.dims[3], WEFT_ROW_SMALL);
}
static void depthwise_filter(weft_row_case_t *c) {
  weft_shape_t filter;
  const frame_t f = depth_frame(c, &filter);
  add_image(c, &f, false, f.c, WEFT_ROW_SMALL);
  weft_row_add_ints(c, WEFT_I32, 4, filter.dims);
  add_image(c, &f, true, f.c * filter.dims[3] + (c->round == 7), WEFT_ROW_SMALL);
}

static const weft_row_op_t depths[] = {
    {"DepthwiseConv2dNative", WEFT_CUDA_SET(FLOAT), depthwise, .tolerance = 10},
    {"DepthwiseConv2dNativeBackpropFilter", WEFT_CUDA_SET(FLOAT), depthwise_filter, .tolerance = 20},
    {"DepthwiseConv2dNativeBackpropInput", WEFT_CUDA_SET(FLOAT), depthwise_input, .tolerance = 10},
};

/* ---- batch normalisation ---- */

static weft_shape_t norm_image(weft_row_case_t *c, bool *out_first) {
  weft_shape_t s = {.rank = 4, .dims = {weft_row_int(c, 1, 4), 5, 6, c->round == 4 ? 72 : 3}};
  *out_first = c->round % 2 == 1;
  if (c->round == 1) s = (weft_shape_t){.rank = 4, .dims = {4, 3, 40, 50}};
  if (c->round == 2) s = (weft_shape_t){.rank = 4, .dims = {9, 30, 20, 3}};
  if (c->round == 5) s.dims[0] = 0;
  weft_row_attr(c, "data_format=%s epsilon=0.001", *out_first ? "NCHW" : "NHWC");
  return s;
}

static void norm_forward(weft_row_case_t *c) {
  bool is_first = false;
  const weft_shape_t x = norm_image(c, &is_first);
  const bool is_training = c->round != 6 && c->round != 3;
  weft_shape_t v = weft_shape_vector(x.dims[is_first ? 1 : 3]), old = v;
  if (is_training && c->round != 4) old = weft_shape_vector(0);
  weft_row_attr(c, "is_training=%s", is_training ? "true" : "false");
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &v, WEFT_ROW_SMALL);
  if (c->round == 7) v.dims[0]++;
  weft_row_add(c, WEFT_F32, &v, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &old, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &old, WEFT_ROW_POSITIVE);
}
static void norm_averages(weft_row_case_t *c) {
  norm_forward(c);
  if (c->round == 4) weft_row_attr(c, "exponential_avg_factor=0.25");
}
static void norm_gradient(weft_row_case_t *c) {
  bool is_first = false;
  const weft_shape_t x = norm_image(c, &is_first);
  const weft_shape_t v = weft_shape_vector(x.dims[is_first ? 1 : 3] + (c->round == 7));
  weft_row_attr(c, "is_training=%s", c->round == 6 ? "false" : "true");
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_row_add(c, c->dtype, &x, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &v, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &v, WEFT_ROW_SMALL);
  weft_row_add(c, WEFT_F32, &v, WEFT_ROW_POSITIVE);
}
/* V3 has another reserved input, which is not read. */
static void norm_gradient_v3(weft_row_case_t *c) {
  const weft_shape_t one = WEFT_SCALAR;
  norm_gradient(c);
  weft_row_add(c, WEFT_F32, &one, WEFT_ROW_SMALL);
}

#define F32 WEFT_DTYPE_BIT(WEFT_F32)
static const weft_row_op_t norms[] = {
    {"FusedBatchNorm", F32, norm_forward, .tolerance = 20},
    {"FusedBatchNormGrad", F32, norm_gradient, .tolerance = 50},
    {"FusedBatchNormGradV2", WEFT_CUDA_SET(F32_HALFS), norm_gradient, .tolerance = 50},
    {"FusedBatchNormGradV3", WEFT_CUDA_SET(F32_HALFS), norm_gradient_v3, .tolerance = 50},
    {"FusedBatchNormV2", WEFT_CUDA_SET(F32_HALFS), norm_forward, .tolerance = 20},
    {"FusedBatchNormV3", WEFT_CUDA_SET(F32_HALFS), norm_averages, .tolerance = 20},
};

#define NUM(table) ((int)(sizeof(table) / sizeof(table)[0]))
static void as_the_cpu(void) {
  weft_row_check(weft_cuda_pool_kernels, pools, NUM(pools));
  weft_row_check(weft_cuda_pool3d_kernels, volume_pools, NUM(volume_pools));
  weft_row_check(weft_cuda_depthwise_kernels, depths, NUM(depths));
  weft_row_check(weft_cuda_norm_kernels, norms, NUM(norms));
}
static void all_are_tested(void) {
  weft_row_check_covered(weft_cuda_pool_kernels, pools, NUM(pools));
  weft_row_check_covered(weft_cuda_pool3d_kernels, volume_pools, NUM(volume_pools));
  weft_row_check_covered(weft_cuda_depthwise_kernels, depths, NUM(depths));
  weft_row_check_covered(weft_cuda_norm_kernels, norms, NUM(norms));
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("windows", tests);
}
