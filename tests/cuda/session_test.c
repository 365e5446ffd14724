/* tests/cuda/session_test.c - sessions that compute on the CUDA device, by the loaded library and the fake
 * driver.
 *
 * Each graph runs on the device and, with its nodes pinned there, on the CPU; the results are the same.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

static const TF_Output none = {NULL, 0};

/* Values that differ from each other, in [-1, 1]. */
static TF_Tensor *values(TF_DataType type, int rank, const int64_t *dims, int seed) {
  size_t count = 1;
  for (int d = 0; d < rank; d++) count *= (size_t)dims[d];
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, count * TF_DataTypeSize(type));
  for (size_t i = 0; i < count; i++) {
    const double v = (double)((i * 37 + (size_t)seed * 11) % 101) / 50 - 1;
    if (type == TF_DOUBLE) {
      ((double *)TF_TensorData(t))[i] = v;
    } else {
      ((float *)TF_TensorData(t))[i] = (float)v;
    }
  }
  return t;
}

typedef struct node {
  const char *op, *name;
  TF_Output inputs[3];
  const char *flag; /* a bool attribute that is set */
} node_t;

static TF_Output add(world_t *w, const char *device, const node_t *n) {
  TF_OperationDescription *d = TF_NewOperation(w->g, n->op, n->name);
  for (int i = 0; i < 3 && n->inputs[i].oper != NULL; i++) TF_AddInput(d, n->inputs[i]);
  if (n->flag != NULL) TF_SetAttrBool(d, n->flag, 1);
  if (device != NULL) TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

/* Fetches the graph that `build` makes, on the device or the CPU. */
typedef TF_Output build_fn(world_t *w, const char *device);
static TF_Tensor *result(build_fn *build, const char *device) {
  world_t w;
  world_open(&w);
  const TF_Output y = build(&w, device);
  TF_Tensor *out = run1(&w, none, NULL, y);
  ASSERT_OK(&w);
  world_close(&w);
  return out;
}

static void is_the_same_on_both(build_fn *build, double tolerance) {
  TF_Tensor *here = result(build, "/device:GPU:0"), *there = result(build, "/device:CPU:0");
  CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(here), TF_TensorByteSize(there));
  CU_ASSERT_EQUAL(TF_NumDims(here), TF_NumDims(there));
  const bool is_f64 = TF_TensorType(here) == TF_DOUBLE;
  const int64_t count = TF_TensorElementCount(here);
  CU_ASSERT(count > 0);
  int wrong = 0;
  for (int64_t i = 0; i < count; i++) {
    const double a = is_f64 ? ((double *)TF_TensorData(here))[i] : float_at(here, (int)i);
    const double b = is_f64 ? ((double *)TF_TensorData(there))[i] : float_at(there, (int)i);
    wrong += !(fabs(a - b) <= tolerance * (1 + fabs(b)));
  }
  CU_ASSERT_EQUAL(wrong, 0);
  TF_DeleteTensor(here);
  TF_DeleteTensor(there);
}

/* ---- graphs ---- */

static TF_Output dense(world_t *w, const char *device) {
  const int64_t in[] = {7, 12}, weights[] = {12, 5}, bias[] = {5};
  const TF_Output x = constant(w, w->g, "x", values(TF_FLOAT, 2, in, 1)),
                  k = constant(w, w->g, "k", values(TF_FLOAT, 2, weights, 2)),
                  b = constant(w, w->g, "b", values(TF_FLOAT, 1, bias, 3));
  const TF_Output product = add(w, device, &(node_t){"MatMul", "product", {x, k}, NULL});
  const TF_Output sum = add(w, device, &(node_t){"AddV2", "sum", {product, b}, NULL});
  return add(w, device, &(node_t){"Relu", "relu", {sum}, NULL});
}

static TF_Output transposed(world_t *w, const char *device) {
  const int64_t a[] = {9, 4}, b[] = {9, 6};
  const TF_Output x = constant(w, w->g, "x", values(TF_DOUBLE, 2, a, 1)),
                  y = constant(w, w->g, "y", values(TF_DOUBLE, 2, b, 2));
  const TF_Output product = add(w, device, &(node_t){"MatMul", "product", {x, y}, "transpose_a"});
  const TF_Output twice = add(w, device, &(node_t){"MatMul", "twice", {product, product}, "transpose_b"});
  return add(w, device, &(node_t){"Tanh", "tanh", {twice}, NULL});
}

/* Batches that broadcast in all ways: as a whole, from one side, from both, crosswise. */
static const int64_t batch_dims[][2][5] = {
    {{2, 3, 1, 4, 5}, {2, 3, 1, 5, 6}}, {{2, 3, 2, 4, 5}, {1, 1, 1, 5, 6}},
    {{1, 1, 1, 4, 5}, {2, 3, 2, 5, 6}}, {{2, 1, 3, 4, 5}, {1, 4, 1, 5, 6}},
    {{1, 3, 1, 4, 5}, {2, 3, 2, 5, 6}}, {{2, 3, 2, 4, 5}, {2, 1, 2, 5, 6}},
};
static int batch_case, batch_flags;

static TF_Output batches(world_t *w, const char *device) {
  int64_t a[5], b[5];
  memcpy(a, batch_dims[batch_case][0], sizeof a);
  memcpy(b, batch_dims[batch_case][1], sizeof b);
  if (batch_flags == 1) a[3] = 5, a[4] = 4;
  if (batch_flags == 2) b[3] = 6, b[4] = 5;
  const TF_Output x = constant(w, w->g, "x", values(TF_FLOAT, 5, a, 1)),
                  y = constant(w, w->g, "y", values(TF_FLOAT, 5, b, 2));
  return add(w, device,
             &(node_t){"BatchMatMulV2",
                       "product",
                       {x, y},
                       batch_flags == 1   ? "adj_x"
                       : batch_flags == 2 ? "adj_y"
                                          : NULL});
}

static TF_Output reduced(world_t *w, const char *device) {
  const int64_t in[] = {33, 65}, one[] = {1};
  const int32_t axis[] = {1};
  const TF_Output x = constant(w, w->g, "x", values(TF_FLOAT, 2, in, 5)),
                  axes = constant(w, w->g, "axes", new_ints(1, one, axis));
  const TF_Output e = add(w, device, &(node_t){"Exp", "exp", {x}, NULL});
  const TF_Output sum = add(w, device, &(node_t){"Sum", "sum", {e, axes}, "keep_dims"});
  return add(w, device, &(node_t){"RealDiv", "softmax", {e, sum}, NULL});
}

static void graphs_give_what_the_cpu_gives(void) {
  is_the_same_on_both(dense, 1e-5);
  is_the_same_on_both(transposed, 1e-12);
  is_the_same_on_both(reduced, 1e-5);
}

static void batches_broadcast_as_on_the_cpu(void) {
  for (batch_case = 0; batch_case < (int)(sizeof batch_dims / sizeof *batch_dims); batch_case++) {
    for (batch_flags = 0; batch_flags < 3; batch_flags++) is_the_same_on_both(batches, 1e-5);
  }
}

static void shapes_that_do_not_fit_are_refused(void) {
  world_t w;
  world_open(&w);
  const int64_t a[] = {2, 3}, b[] = {4, 5};
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT),
                  y = constant(&w, w.g, "y", values(TF_FLOAT, 2, b, 2));
  const TF_Output product = add(&w, "/device:GPU:0", &(node_t){"MatMul", "product", {x, y}, NULL});
  TF_Tensor *in = values(TF_FLOAT, 2, a, 1);
  CU_ASSERT_PTR_NULL(run1(&w, x, in, product));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]");
  TF_DeleteTensor(in);
  world_close(&w);
}

/* ---- the device ---- */

static void the_device_is_listed_as_tensorflow_does(void) {
  world_t w;
  world_open(&w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_Session *s = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  TF_DeviceList *list = TF_SessionListDevices(s, w.s);
  ASSERT_OK(&w);
  int found = -1;
  for (int i = 0; i < TF_DeviceListCount(list); i++) {
    if (strcmp(TF_DeviceListType(list, i, w.s), "GPU") == 0) found = i;
  }
  CU_ASSERT_FATAL(found >= 0);
  CU_ASSERT_STRING_EQUAL(TF_DeviceListName(list, found, w.s), "/job:localhost/replica:0/task:0/device:GPU:0");
  const int64_t bytes = TF_DeviceListMemoryBytes(list, found, w.s);
  if (strstr(getenv("WEFT_CUDA_DRIVER"), "emulated") != NULL) { /* not a real one's */
    CU_ASSERT_EQUAL(bytes, (INT64_C(1) << 30) - (INT64_C(225) << 20));
  }
  CU_ASSERT(bytes > 0);
  TF_DeleteDeviceList(list);
  TF_CloseSession(s, w.s);
  TF_DeleteSession(s, w.s);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

/* Steps one after the other on one session: blocks and buffers are used again. */
static void many_steps_give_their_own_results(void) {
  world_t w;
  world_open(&w);
  const int64_t dims[] = {64, 64};
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT),
                  k = constant(&w, w.g, "k", values(TF_FLOAT, 2, dims, 2));
  TF_Output y = x;
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "add%d", i);
    y = add(&w, NULL, &(node_t){"AddV2", name, {y, k}, NULL}); /* where Weft places it */
  }
  for (int step = 0; step < 50; step++) {
    TF_Tensor *in = values(TF_FLOAT, 2, dims, step), *out = run1(&w, x, in, y),
              *added = values(TF_FLOAT, 2, dims, 2);
    ASSERT_OK(&w);
    int wrong = 0;
    for (int i = 0; i < 64 * 64; i++)
      wrong += fabsf(float_at(out, i) - float_at(in, i) - 4 * float_at(added, i)) > 1e-5f;
    CU_ASSERT_EQUAL(wrong, 0);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    TF_DeleteTensor(added);
  }
  world_close(&w);
}

/* ---- memory ---- */

static TF_Output filled(world_t *w, const char *name, int32_t count, TF_Operation *after) {
  const int64_t one[] = {1};
  char dims[32], value[32];
  snprintf(dims, sizeof dims, "%s/dims", name);
  snprintf(value, sizeof value, "%s/value", name);
  TF_OperationDescription *d = TF_NewOperation(w->g, "Fill", name);
  TF_AddInput(d, constant(w, w->g, dims, new_ints(1, one, &count)));
  TF_AddInput(d, constant(w, w->g, value, new_float(1)));
  if (after != NULL) TF_AddControlInput(d, after);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

/* Of a variable of 16 MiB that is assigned. */
static TF_Output assigned(world_t *w) {
  const int64_t dims[] = {4 << 20};
  TF_OperationDescription *d = TF_NewOperation(w->g, "VariableV2", "w");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", dims, 1);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *variable = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return add(w, "/device:GPU:0",
             &(node_t){"Assign", "assign", {{variable, 0}, filled(w, "init", 4 << 20, NULL)}, NULL});
}

static void used_up_memory_names_what_holds_it(void) {
  /* gpu_options.per_process_gpu_memory_fraction = 0.046875: 48 MiB of a GiB */
  static const unsigned char config[] = {0x32, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xa8, 0x3f};
  world_t w;
  world_open(&w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, config, sizeof config, w.s);
  ASSERT_OK(&w);
  const int64_t one[] = {1};
  const int32_t zero = 0;
  const TF_Output variable = assigned(&w), small = filled(&w, "small", 2 << 20, NULL),
                  big = filled(&w, "big", 16 << 20, small.oper),
                  axes = constant(&w, w.g, "axes", new_ints(1, one, &zero));
  const TF_Output sum = add(&w, "/device:GPU:0", &(node_t){"Sum", "sum", {big, axes}, NULL});
  const TF_Output both = add(&w, "/device:GPU:0", &(node_t){"AddV2", "both", {sum, small}, NULL});
  w.session = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  run_target(&w, variable.oper);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NULL(run1(&w, none, NULL, both));
  ASSERT_FAILS(&w, TF_RESOURCE_EXHAUSTED,
               "OOM when allocating tensor with shape[16777216] and type float on "
               "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc: 25165");
  ASSERT_FAILS(&w, TF_RESOURCE_EXHAUSTED, " of 50331648 bytes are in use, 335544");
  ASSERT_FAILS(&w, TF_RESOURCE_EXHAUSTED,
               ", the largest free block has 16777216; held by variable 'w' (16777216 "
               "bytes), node 'small' (8388608 bytes)");
  ASSERT_FAILS(&w, TF_RESOURCE_EXHAUSTED, "{{node big}}");
  CU_ASSERT_PTR_NOT_NULL(run1(&w, none, NULL, small)); /* the session goes on */
  ASSERT_OK(&w);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"the device is listed as TensorFlow does", the_device_is_listed_as_tensorflow_does},
    {"graphs give what the CPU gives", graphs_give_what_the_cpu_gives},
    {"batches broadcast as on the CPU", batches_broadcast_as_on_the_cpu},
    {"shapes that do not fit are refused", shapes_that_do_not_fit_are_refused},
    {"many steps give their own results", many_steps_give_their_own_results},
    {"used up memory names what holds it", used_up_memory_names_what_holds_it},
    CU_TEST_INFO_NULL,
};

int main(void) {
  /* Before the first session; what is set already, as by tests/cuda/run, stays. */
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_CUBLASLT", "tests/cuda/fake/libcublasLt_fake.so", 0);
  setenv("WEFT_TF32", "0", 0); /* as exact as the CPU */
  setenv("WEFT_FAKE_CUDA", "late_us=100,seed=5", 0);
  return weft_run_tests("CUDA sessions", tests);
}
