/* tests/cuda/conv_test.c - convolutions and their gradients on the CUDA device, by cuDNN or what plays it.
 *
 * Each case runs on the device and on the CPU; the results are the same.
 */
#include <stdio.h>

#include "tests/cuda/both.h"

typedef enum conv_kind { FORWARD, OF_INPUT, OF_FILTER } conv_kind_t;

typedef struct conv_case {
  TF_DataType type;
  int space; /* spatial dimensions: 2 or 3 */
  int is_first;
  int64_t n, c, groups, oc, in[3], k[3], stride, dilation;
  const char *padding;
  int64_t pads[2][2]; /* EXPLICIT: height and width */
} conv_case_t;

static const conv_case_t cases[] = {
    {TF_FLOAT, 2, 0, 2, 3, 1, 4, {7, 6}, {3, 3}, 1, 1, "SAME", {{0}}},
    {TF_FLOAT, 2, 1, 2, 3, 1, 4, {7, 6}, {3, 3}, 1, 1, "SAME", {{0}}},
    {TF_FLOAT, 2, 0, 2, 3, 1, 4, {8, 6}, {3, 3}, 2, 1, "SAME", {{0}}}, /* padded behind only */
    {TF_FLOAT, 2, 1, 1, 3, 1, 5, {8, 6}, {3, 2}, 2, 1, "SAME", {{0}}},
    {TF_FLOAT, 2, 0, 2, 4, 2, 6, {7, 8}, {2, 3}, 2, 1, "VALID", {{0}}}, /* groups; cells are left over */
    {TF_FLOAT, 2, 1, 2, 4, 2, 6, {7, 8}, {2, 3}, 1, 2, "VALID", {{0}}},
    {TF_FLOAT, 2, 0, 1, 2, 1, 3, {6, 6}, {3, 3}, 1, 1, "EXPLICIT", {{2, 0}, {1, 2}}},
    {TF_FLOAT, 2, 1, 1, 2, 1, 3, {6, 6}, {3, 3}, 2, 1, "EXPLICIT", {{1, 1}, {0, 2}}},
    {TF_FLOAT, 2, 0, 2, 3, 1, 4, {6, 5}, {1, 1}, 3, 1, "SAME", {{0}}},  /* strides longer than the window */
    {TF_DOUBLE, 2, 0, 2, 3, 1, 4, {8, 6}, {3, 3}, 2, 1, "SAME", {{0}}}, /* cuDNN has channels first alone */
    {TF_DOUBLE, 2, 1, 2, 3, 1, 4, {7, 6}, {3, 3}, 1, 2, "SAME", {{0}}},
    {TF_HALF, 2, 0, 2, 3, 1, 4, {7, 6}, {3, 3}, 1, 1, "SAME", {{0}}},
    {TF_BFLOAT16, 2, 1, 2, 3, 1, 4, {7, 6}, {3, 3}, 2, 1, "VALID", {{0}}},
    {TF_FLOAT, 3, 0, 1, 2, 1, 3, {4, 5, 4}, {2, 3, 2}, 1, 1, "SAME", {{0}}},
    {TF_FLOAT, 3, 0, 2, 2, 1, 3, {4, 5, 6}, {2, 2, 3}, 2, 1, "VALID", {{0}}},
    {TF_DOUBLE, 3, 0, 1, 2, 1, 3, {4, 5, 4}, {3, 3, 3}, 2, 1, "SAME", {{0}}},
    {TF_FLOAT, 2, 0, 0, 3, 1, 4, {7, 6}, {3, 3}, 1, 1, "SAME", {{0}}}, /* no images: a filter's gradient is 0
                                                                        */
};
static const conv_case_t *now;
static conv_kind_t kind;

static int64_t out_of(int i) {
  const int64_t effective = (now->k[i] - 1) * now->dilation + 1;
  const int64_t pads = now->padding[0] == 'E' ? now->pads[i][0] + now->pads[i][1] : 0;
  return now->padding[0] == 'S' ? (now->in[i] + now->stride - 1) / now->stride
                                : (now->in[i] + pads - effective + now->stride) / now->stride;
}

static void image_dims(int of_output, int64_t *dims) {
  dims[0] = now->n;
  dims[now->is_first ? 1 : now->space + 1] = of_output ? now->oc : now->c;
  for (int i = 0; i < now->space; i++) dims[(now->is_first ? 2 : 1) + i] = of_output ? out_of(i) : now->in[i];
}

static TF_Output cast(world_t *w, const char *device, const char *name, TF_Output x, TF_DataType to) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static TF_Output operand(world_t *w, const char *device, const char *name, const int64_t *dims, int seed) {
  char given[32];
  const TF_DataType type = now->type == TF_DOUBLE ? TF_DOUBLE : TF_FLOAT;
  snprintf(given, sizeof given, "%s_given", name);
  const TF_Output x = constant(w, w->g, given, weft_both_values(type, now->space + 2, dims, seed));
  return type == now->type ? x : cast(w, device, name, x, now->type);
}

static TF_Output sizes(world_t *w, const char *name, const int64_t *dims) {
  int32_t values[5];
  const int64_t n = now->space + 2;
  for (int i = 0; i < n; i++) values[i] = (int32_t)dims[i];
  return constant(w, w->g, name, new_ints(1, &n, values));
}

static void set_attributes(TF_OperationDescription *d) {
  int64_t strides[5] = {1, 1, 1, 1, 1}, dilations[5] = {1, 1, 1, 1, 1}, pads[8] = {0};
  const int first = now->is_first ? 2 : 1, rank = now->space + 2;
  for (int i = 0; i < now->space; i++) {
    strides[first + i] = now->stride;
    dilations[first + i] = now->dilation;
    if (now->space == 2) pads[2 * (first + i)] = now->pads[i][0];
    if (now->space == 2) pads[2 * (first + i) + 1] = now->pads[i][1];
  }
  const char *format = now->space == 3 ? "NDHWC" : now->is_first ? "NCHW" : "NHWC";
  TF_SetAttrIntList(d, "strides", strides, rank);
  TF_SetAttrIntList(d, "dilations", dilations, rank);
  TF_SetAttrString(d, "padding", now->padding, strlen(now->padding));
  TF_SetAttrString(d, "data_format", format, strlen(format));
  if (now->padding[0] == 'E') TF_SetAttrIntList(d, "explicit_paddings", pads, 8);
}

static TF_Output build(world_t *w, const char *device) {
  static const char *const ops[2][3] = {{"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"},
                                        {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"}};
  int64_t x[5], y[5], f[5];
  image_dims(0, x);
  image_dims(1, y);
  for (int i = 0; i < now->space; i++) f[i] = now->k[i];
  f[now->space] = now->c / now->groups;
  f[now->space + 1] = now->oc;
  const TF_Output first = kind == OF_INPUT ? sizes(w, "sizes", x) : operand(w, device, "x", x, 1);
  const TF_Output second = kind == OF_FILTER ? sizes(w, "sizes", f) : operand(w, device, "f", f, 2);
  const TF_Output dy = kind == FORWARD ? first : operand(w, device, "dy", y, 3);
  TF_OperationDescription *d = TF_NewOperation(w->g, ops[now->space - 2][kind], "conv");
  TF_AddInput(d, first);
  TF_AddInput(d, second);
  if (kind != FORWARD) TF_AddInput(d, dy);
  set_attributes(d);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  const TF_Output out = {op, 0};
  return now->type == TF_HALF || now->type == TF_BFLOAT16 ? cast(w, device, "wide", out, TF_FLOAT) : out;
}

static double tolerance(void) {
  return now->type == TF_DOUBLE     ? 1e-12
         : now->type == TF_HALF     ? 4e-3
         : now->type == TF_BFLOAT16 ? 3e-2
                                    : 1e-5;
}

static void convolutions_are_those_of_the_cpu(void) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    for (int k = FORWARD; k <= OF_FILTER; k++) {
      kind = (conv_kind_t)k;
      if (now->n == 0 && kind != OF_FILTER) continue; /* nothing to compare */
      const unsigned before = CU_get_number_of_failures();
      weft_both_agree(build, tolerance());
      if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu, kind %d\n", i, k);
    }
  }
}

static void what_does_not_fit_is_refused(void) {
  static const conv_case_t depth = {TF_FLOAT, 2, 0, 1, 3, 1, 4, {4, 4}, {5, 5}, 1, 1, "VALID", {{0}}};
  world_t w;
  now = &depth;
  kind = FORWARD;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), f = placeholder(&w, w.g, "f", TF_FLOAT);
  TF_OperationDescription *d = TF_NewOperation(w.g, "Conv2D", "conv");
  TF_AddInput(d, x);
  TF_AddInput(d, f);
  set_attributes(d);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *op = TF_FinishOperation(d, w.s);
  ASSERT_OK(&w);
  const int64_t images[] = {1, 4, 4, 3}, filter[] = {2, 2, 2, 4};
  TF_Tensor *in[2] = {weft_both_values(TF_FLOAT, 4, images, 1), weft_both_values(TF_FLOAT, 4, filter, 2)};
  const TF_Output feeds[2] = {x, f}, fetch = {op, 0};
  TF_Tensor *out = NULL;
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_Session *s = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  TF_SessionRun(s, NULL, feeds, in, 2, &fetch, &out, 1, NULL, 0, NULL, w.s);
  CU_ASSERT_PTR_NULL(out);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "input depth must be evenly divisible by filter depth: 3 vs 2");
  for (int i = 0; i < 2; i++) TF_DeleteTensor(in[i]);
  TF_CloseSession(s, w.s);
  TF_DeleteSession(s, w.s);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"convolutions are those of the CPU", convolutions_are_those_of_the_cpu},
    {"what does not fit is refused", what_does_not_fit_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA convolutions", tests);
}
