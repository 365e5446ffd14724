/* tests/cuda/fused_test.c - the ops that TensorFlow's graph optimiser puts in the place of several nodes, on
 * the CUDA device and on the CPU.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/both.h"
#include "tests/cuda/fake/fake.h"

enum { MAX_OPS = 3, MAX_ARGS = 5 };

typedef struct fused_case {
  const char *op;
  TF_DataType type;
  const char *format;         /* NULL: the op has none */
  int64_t x[5], filter[5];    /* of a norm the filter is not there; ended by 0 */
  const char *fused[MAX_OPS]; /* of a norm its activation_mode */
  int training;               /* of a norm */
} fused_case_t;

#define IMAGE \
  { 2, 5, 6, 3 }
#define CONV "_FusedConv2D"
#define DEPTHWISE "_FusedDepthwiseConv2dNative"
static const fused_case_t cases[] = {
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Relu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Relu6"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Elu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "LeakyRelu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Tanh"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Sigmoid"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "GeluApproximate"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "GeluExact"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Add", "Relu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {1, 1}, {1, 1}, {"Relu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 1}, {"BiasAdd", "Relu"}, 0},
    {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {"GeluApproximate"}, 0},
    {"_FusedMatMul", TF_HALF, NULL, {67, 9}, {9, 130}, {"BiasAdd", "Relu"}, 0},
    {"_FusedMatMul", TF_BFLOAT16, NULL, {5, 7}, {7, 3}, {"BiasAdd", "GeluApproximate"}, 0},
    {"_FusedMatMul", TF_HALF, NULL, {67, 9}, {9, 130}, {"BiasAdd", "Tanh"}, 0},
    {"_FusedMatMul", TF_BFLOAT16, NULL, {5, 7}, {7, 3}, {"BiasAdd", "Add"}, 0},
    {CONV, TF_FLOAT, "NHWC", IMAGE, {3, 2, 3, 4}, {"BiasAdd"}, 0},
    {CONV, TF_FLOAT, "NHWC", IMAGE, {3, 2, 3, 4}, {"BiasAdd", "Add", "Relu"}, 0},
    {CONV, TF_FLOAT, "NHWC", IMAGE, {3, 2, 3, 4}, {"FusedBatchNorm", "LeakyRelu"}, 0},
    {CONV, TF_FLOAT, "NCHW", {2, 3, 5, 6}, {3, 2, 3, 4}, {"BiasAdd", "Relu6"}, 0},
    {CONV, TF_FLOAT, "NCHW", {2, 3, 5, 6}, {3, 2, 3, 4}, {"FusedBatchNorm", "Add", "Elu"}, 0},
    {CONV, TF_DOUBLE, "NHWC", IMAGE, {3, 2, 3, 4}, {"FusedBatchNorm", "Elu"}, 0},
    {CONV, TF_HALF, "NHWC", IMAGE, {3, 2, 3, 4}, {"BiasAdd", "Relu"}, 0},
    {"_FusedConv3D", TF_FLOAT, "NDHWC", {1, 4, 3, 4, 2}, {2, 2, 2, 2, 3}, {"BiasAdd", "Relu"}, 0},
    {CONV, TF_FLOAT, "NCHW", {2, 3, 4, 8}, {3, 2, 3, 5}, {"FusedBatchNorm", "Add", "Relu6"}, 0}, /* packs */
    {CONV, TF_HALF, "NHWC", IMAGE, {3, 2, 3, 16}, {"FusedBatchNorm", "LeakyRelu"}, 0},
    {"_FusedMatMul", TF_BFLOAT16, NULL, {300, 3}, {3, 24}, {"BiasAdd", "Add", "Sigmoid"}, 0},
    {DEPTHWISE, TF_FLOAT, "NHWC", IMAGE, {3, 2, 3, 2}, {"BiasAdd", "Relu6"}, 0},
    {DEPTHWISE, TF_BFLOAT16, "NHWC", IMAGE, {3, 2, 3, 2}, {"BiasAdd"}, 0},
    {DEPTHWISE, TF_DOUBLE, "NHWC", IMAGE, {3, 2, 3, 2}, {"FusedBatchNorm", "Relu"}, 0},
    {"_FusedBatchNormEx", TF_FLOAT, "NHWC", IMAGE, {0}, {"Identity"}, 1},
    {"_FusedBatchNormEx", TF_FLOAT, "NHWC", IMAGE, {0}, {"Relu"}, 0},
    {"_FusedBatchNormEx", TF_FLOAT, "NCHW", {2, 3, 5, 6}, {0}, {"Relu", "side"}, 1},
    {"_FusedBatchNormEx", TF_HALF, "NHWC", IMAGE, {0}, {"Relu", "side"}, 0},
};
static const fused_case_t *now;

static int rank_of(const int64_t *dims) {
  int n = 0;
  while (n < 5 && dims[n] != 0) n++;
  return n;
}

static bool is_first(void) { return now->format != NULL && strcmp(now->format, "NCHW") == 0; }
static bool is_norm(void) { return now->filter[0] == 0; }

/* A value of the case's type; it is above 0 where `positive` says so. */
static TF_Output operand(world_t *w, const char *device, const char *name, int rank, const int64_t *dims,
                         TF_DataType type, bool positive, int seed) {
  char given[32];
  snprintf(given, sizeof given, "%s_given", name);
  const TF_DataType made = type == TF_DOUBLE ? TF_DOUBLE : TF_FLOAT;
  TF_Tensor *t = weft_both_values(made, rank, dims, seed);
  for (int64_t i = 0; positive && i < TF_TensorElementCount(t); i++) {
    if (made == TF_DOUBLE) ((double *)TF_TensorData(t))[i] += 1.25;
    if (made == TF_FLOAT) ((float *)TF_TensorData(t))[i] += 1.25f;
  }
  const TF_Output x = constant(w, w->g, given, t);
  if (made == type) return x;
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", type);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

/* The dimensions of the plain op's result: windows are padded to the same size. */
static void result_dims(int64_t *dims) {
  const int rank = rank_of(now->x);
  memcpy(dims, now->x, sizeof now->x);
  if (is_norm()) return;
  const int64_t *f = now->filter;
  const bool is_depthwise = strcmp(now->op, DEPTHWISE) == 0;
  dims[is_first() ? 1 : rank - 1] = is_depthwise ? f[2] * f[3] : f[rank_of(f) - 1];
}

static int num_fused(void) {
  int n = 0;
  while (n < MAX_OPS && now->fused[n] != NULL) n++;
  return n;
}

static bool has(const char *name) {
  for (int i = 0; i < num_fused(); i++) {
    if (strcmp(now->fused[i], name) == 0) return true;
  }
  return false;
}

/* What follows: a vector or four, an addend. */
static int make_args(world_t *w, const char *device, TF_Output *out) {
  int64_t dims[5];
  int n = 0;
  char name[16];
  result_dims(dims);
  const int64_t channels = dims[is_first() ? 1 : rank_of(now->x) - 1];
  const int vectors = has("BiasAdd") ? 1 : has("FusedBatchNorm") ? 4 : 0;
  for (int i = 0; i < vectors; i++) {
    snprintf(name, sizeof name, "vector%d", i);
    out[n++] = operand(w, device, name, 1, &channels, now->type, i == 3, 5 + i);
  }
  if (has("Add")) out[n++] = operand(w, device, "addend", rank_of(now->x), dims, now->type, false, 11);
  return n;
}

static TF_Output build_norm(world_t *w, const char *device) {
  const int64_t channels = now->x[is_first() ? 1 : 3], none = 0;
  const TF_Output x = operand(w, device, "x", 4, now->x, now->type, false, 1),
                  side = operand(w, device, "side", 4, now->x, now->type, false, 7);
  TF_OperationDescription *d = TF_NewOperation(w->g, now->op, "fused");
  TF_AddInput(d, x);
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "vector%d", i);
    const int64_t *n = i >= 2 && now->training ? &none : &channels;
    TF_AddInput(d, operand(w, device, name, 1, n, TF_FLOAT, i == 3, 5 + i));
  }
  TF_AddInputList(d, &side, has("side"));
  TF_SetAttrInt(d, "num_side_inputs", has("side"));
  TF_SetAttrBool(d, "is_training", (unsigned char)now->training);
  TF_SetAttrString(d, "activation_mode", now->fused[0], strlen(now->fused[0]));
  TF_SetAttrString(d, "data_format", now->format, strlen(now->format));
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Output build_fused(world_t *w, const char *device) {
  TF_Output args[MAX_ARGS];
  TF_DataType types[MAX_ARGS];
  size_t lengths[MAX_OPS];
  const int64_t ones[5] = {1, 1, 1, 1, 1};
  const int rank = rank_of(now->x), n = num_fused();
  const TF_Output x = operand(w, device, "x", rank, now->x, now->type, false, 1),
                  f = operand(w, device, "f", rank, now->filter, now->type, false, 2);
  const int num_args = make_args(w, device, args);
  TF_OperationDescription *d = TF_NewOperation(w->g, now->op, "fused");
  TF_AddInput(d, x);
  TF_AddInput(d, f);
  TF_AddInputList(d, args, num_args);
  for (int i = 0; i < num_args; i++) types[i] = now->type;
  for (int i = 0; i < n; i++) lengths[i] = strlen(now->fused[i]);
  TF_SetAttrStringList(d, "fused_ops", (const void *const *)now->fused, lengths, n);
  TF_SetAttrInt(d, "num_args", num_args);
  TF_SetAttrFloat(d, "epsilon", 0.01f);
  TF_SetAttrFloat(d, "leakyrelu_alpha", 0.3f);
  if (strcmp(now->op, CONV) == 0) {
    TF_SetAttrTypeList(d, "TArgs", types, num_args);
    TF_AddInputList(d, NULL, 0); /* host_args */
  }
  if (now->format != NULL) {
    TF_SetAttrIntList(d, "strides", ones, rank);
    TF_SetAttrString(d, "padding", "SAME", 4);
    TF_SetAttrString(d, "data_format", now->format, strlen(now->format));
  }
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Output build(world_t *w, const char *device) {
  const TF_Output y = is_norm() ? build_norm(w, device) : build_fused(w, device);
  if (now->type != TF_HALF && now->type != TF_BFLOAT16) return y;
  TF_OperationDescription *d = TF_NewOperation(w->g, "Cast", "wide");
  TF_AddInput(d, y);
  TF_SetAttrType(d, "DstT", TF_FLOAT);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static void fused_ops_are_those_of_the_cpu(void) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    now = &cases[i];
    const unsigned before = CU_get_number_of_failures();
    weft_both_agree(build, now->type == TF_DOUBLE  ? 1e-11
                           : now->type == TF_FLOAT ? 1e-5
                           : now->type == TF_HALF  ? 4e-3
                                                   : 3e-2);
    if (CU_get_number_of_failures() != before) fprintf(stderr, "case %zu\n", i);
  }
}

/* Both devices say the same. */
static void is_refused(const fused_case_t *what, TF_Code code, const char *text) {
  static const char *const devices[] = {"/device:GPU:0", "/device:CPU:0"};
  now = what;
  for (int i = 0; i < 2; i++) {
    world_t w;
    world_open(&w);
    const TF_Output y = build(&w, devices[i]), none = {NULL, 0};
    CU_ASSERT_PTR_NULL(run1(&w, none, NULL, y));
    ASSERT_FAILS(&w, code, text);
    world_close(&w);
  }
}

static void what_is_not_known_is_refused(void) {
  static const fused_case_t unknown = {"_FusedMatMul",          TF_FLOAT, NULL, {5, 7}, {7, 3},
                                       {"BiasAdd", "Softplus"}, 0},
                            wrong_order = {"_FusedMatMul",      TF_FLOAT, NULL, {5, 7}, {7, 3},
                                           {"Relu", "BiasAdd"}, 0},
                            nothing = {"_FusedMatMul", TF_FLOAT, NULL, {5, 7}, {7, 3}, {NULL}, 0},
                            of_products = {CONV, TF_FLOAT, "NHWC", IMAGE, {3, 2, 3, 4}, {"BiasAdd", "Tanh"},
                                           0},
                            mode = {"_FusedBatchNormEx", TF_FLOAT, "NHWC", IMAGE, {0}, {"Elu"}, 0},
                            side = {"_FusedBatchNormEx",  TF_FLOAT, "NHWC", IMAGE, {0},
                                    {"Identity", "side"}, 0};
  is_refused(&unknown, TF_UNIMPLEMENTED, "Fusion is not implemented: [BiasAdd,Softplus]");
  is_refused(&wrong_order, TF_UNIMPLEMENTED, "Fusion is not implemented: [Relu,BiasAdd]");
  is_refused(&nothing, TF_INVALID_ARGUMENT, "Fused MatMul must have at least one fused op.");
  is_refused(&of_products, TF_UNIMPLEMENTED, "Fusion is not implemented: [BiasAdd,Tanh]");
  is_refused(&mode, TF_INVALID_ARGUMENT, "Unsupported activation mode: Elu");
  is_refused(&side, TF_INVALID_ARGUMENT, "Identity activation is not supported with non-empty side input");
}

/* A bias of 2 elements for 3 columns. */
static void a_bias_that_does_not_fit_is_refused(void) {
  static const char *const devices[] = {"/device:GPU:0", "/device:CPU:0"};
  static const int64_t a[] = {4, 5}, b[] = {5, 3}, two = 2;
  static const char *const fused[] = {"BiasAdd"};
  static const size_t length = 7;
  for (int i = 0; i < 2; i++) {
    world_t w;
    world_open(&w);
    const TF_Output bias = operand(&w, devices[i], "bias", 1, &two, TF_FLOAT, false, 3), none = {NULL, 0};
    TF_OperationDescription *d = TF_NewOperation(w.g, "_FusedMatMul", "fused");
    TF_AddInput(d, operand(&w, devices[i], "a", 2, a, TF_FLOAT, false, 1));
    TF_AddInput(d, operand(&w, devices[i], "b", 2, b, TF_FLOAT, false, 2));
    TF_AddInputList(d, &bias, 1);
    TF_SetAttrStringList(d, "fused_ops", (const void *const *)fused, &length, 1);
    TF_SetAttrInt(d, "num_args", 1);
    TF_SetDevice(d, devices[i]);
    TF_Operation *o = TF_FinishOperation(d, w.s);
    ASSERT_OK(&w);
    CU_ASSERT_PTR_NULL(run1(&w, none, NULL, (TF_Output){o, 0}));
    ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "argument 2 must be a vector of 3 elements, got [2]");
    world_close(&w);
  }
}

static long num_kernels(void) {
  weft_fake_cuda_calls_fn *calls;
  void *driver = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  *(void **)&calls = driver == NULL ? NULL : dlsym(driver, WEFT_FAKE_CUDA_CALLS);
  return calls == NULL ? -1 : calls("cuLaunchKernel");
}

/* A dense layer of a client's graph, in plain ops. */
static TF_Output build_layer(world_t *w, const char *device) {
  static const int64_t a[] = {4, 5}, b[] = {5, 3}, three = 3;
  static const char *const ops[] = {"MatMul", "BiasAdd", "Relu"};
  const TF_Output others[] = {operand(w, device, "b", 2, b, TF_FLOAT, false, 2),
                              operand(w, device, "bias", 1, &three, TF_FLOAT, false, 3)};
  TF_Output y = operand(w, device, "a", 2, a, TF_FLOAT, false, 1);
  for (int i = 0; i < 3; i++) {
    TF_OperationDescription *d = TF_NewOperation(w->g, ops[i], ops[i]);
    TF_AddInput(d, y);
    if (i < 2) TF_AddInput(d, others[i]);
    TF_SetDevice(d, device);
    y = (TF_Output){TF_FinishOperation(d, w->s), 0};
    ASSERT_OK(w);
  }
  return y;
}

/* The pass makes one node of it, whose bias and activation the product computes. A real driver does not
 * count. */
static void a_layer_is_one_product(void) {
  weft_both_agree(build_layer, 1e-5);
  const long before = num_kernels();
  weft_both_agree(build_layer, 1e-5);
  const long plain = num_kernels() - before;
  setenv("WEFT_PASSES", "remap", 1);
  weft_both_agree(build_layer, 1e-5);
  const long fused = num_kernels() - before - plain;
  setenv("WEFT_PASSES", "none", 1);
  if (before < 0) return;
  CU_ASSERT_EQUAL(plain - fused, 2); /* opening a device counts as a call */
}

static const CU_TestInfo tests[] = {
    {"fused ops are those of the CPU", fused_ops_are_those_of_the_cpu},
    {"what is not known is refused", what_is_not_known_is_refused},
    {"a layer is one product", a_layer_is_one_product},
    {"a bias that does not fit is refused", a_bias_that_does_not_fit_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA fused ops", tests);
}
