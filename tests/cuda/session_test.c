/* tests/cuda/session_test.c - sessions that compute on the CUDA device, by the loaded library and the fake
 * driver.
 *
 * Each graph runs on the device and, with its nodes pinned there, on the CPU; the results are the same.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/both.h"

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

/* ---- graphs ---- */

static TF_Output dense(world_t *w, const char *device) {
  const int64_t in[] = {7, 12}, weights[] = {12, 5}, bias[] = {5};
  const TF_Output x = constant(w, w->g, "x", weft_both_values(TF_FLOAT, 2, in, 1)),
                  k = constant(w, w->g, "k", weft_both_values(TF_FLOAT, 2, weights, 2)),
                  b = constant(w, w->g, "b", weft_both_values(TF_FLOAT, 1, bias, 3));
  const TF_Output product = add(w, device, &(node_t){"MatMul", "product", {x, k}, NULL});
  const TF_Output sum = add(w, device, &(node_t){"AddV2", "sum", {product, b}, NULL});
  return add(w, device, &(node_t){"Relu", "relu", {sum}, NULL});
}

static TF_Output transposed(world_t *w, const char *device) {
  const int64_t a[] = {9, 4}, b[] = {9, 6};
  const TF_Output x = constant(w, w->g, "x", weft_both_values(TF_DOUBLE, 2, a, 1)),
                  y = constant(w, w->g, "y", weft_both_values(TF_DOUBLE, 2, b, 2));
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
  const TF_Output x = constant(w, w->g, "x", weft_both_values(TF_FLOAT, 5, a, 1)),
                  y = constant(w, w->g, "y", weft_both_values(TF_FLOAT, 5, b, 2));
  return add(w, device,
             &(node_t){"BatchMatMulV2",
                       "product",
                       {x, y},
                       batch_flags == 1   ? "adj_x"
                       : batch_flags == 2 ? "adj_y"
                                          : NULL});
}

/* Of complex numbers: an adjoint operand is conjugated. */
static TF_Output conjugated(world_t *w, const char *device) {
  const int64_t a[] = {2, 5, 4}, b[] = {2, 5, 6};
  const TF_Output x = add(w, device,
                          &(node_t){"Complex",
                                    "x",
                                    {constant(w, w->g, "x_re", weft_both_values(TF_FLOAT, 3, a, 1)),
                                     constant(w, w->g, "x_im", weft_both_values(TF_FLOAT, 3, a, 2))},
                                    NULL}),
                  y = add(w, device,
                          &(node_t){"Complex",
                                    "y",
                                    {constant(w, w->g, "y_re", weft_both_values(TF_FLOAT, 3, b, 3)),
                                     constant(w, w->g, "y_im", weft_both_values(TF_FLOAT, 3, b, 4))},
                                    NULL});
  const TF_Output z = add(w, device, &(node_t){"BatchMatMulV2", "product", {x, y}, "adj_x"});
  return add(w, device, &(node_t){"Imag", "im", {z}, NULL});
}

/* Boxes in the device's memory, and the numbers of their images in the host's. */
static TF_Output cropped(world_t *w, const char *device) {
  const int64_t images[] = {2, 9, 8, 3}, boxes[] = {3, 4}, three[] = {3}, two[] = {2};
  const int32_t owners[] = {1, 0, 1}, size[] = {5, 6};
  const TF_Output x = constant(w, w->g, "x", weft_both_values(TF_FLOAT, 4, images, 1));
  TF_OperationDescription *d = TF_NewOperation(w->g, "CropAndResize", "crops");
  TF_AddInput(d, add(w, device, &(node_t){"Square", "square", {x}, NULL}));
  TF_AddInput(d, constant(w, w->g, "boxes", weft_both_values(TF_FLOAT, 2, boxes, 2)));
  TF_AddInput(d, constant(w, w->g, "owners", new_ints(1, three, owners)));
  TF_AddInput(d, constant(w, w->g, "size", new_ints(1, two, size)));
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  const TF_Output hsv = add(w, device, &(node_t){"RGBToHSV", "hsv", {{op, 0}}, NULL}),
                  rounded = add(w, device, &(node_t){"FakeQuantWithMinMaxArgs", "rounded", {hsv}, NULL}),
                  moved = add(w, device, &(node_t){"Exp", "moved", {rounded}, NULL});
  return add(w, device, &(node_t){"Lgamma", "lgamma", {moved}, NULL});
}

/* The types of the operands and of the product. */
static TF_DataType mixed_types[3];

static TF_Output mixed(world_t *w, const char *device) {
  const int64_t a[] = {2, 3, 4, 5}, b[] = {3, 5, 6};
  TF_OperationDescription *d = TF_NewOperation(w->g, "BatchMatMulV3", "product");
  TF_AddInput(d, constant(w, w->g, "x", weft_both_values(mixed_types[0], 4, a, 1)));
  TF_AddInput(d, constant(w, w->g, "y", weft_both_values(mixed_types[1], 3, b, 2)));
  TF_SetAttrType(d, "Tout", mixed_types[2]);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static TF_Output reduced(world_t *w, const char *device) {
  const int64_t in[] = {33, 65}, one[] = {1};
  const int32_t axis[] = {1};
  const TF_Output x = constant(w, w->g, "x", weft_both_values(TF_FLOAT, 2, in, 5)),
                  axes = constant(w, w->g, "axes", new_ints(1, one, axis));
  const TF_Output e = add(w, device, &(node_t){"Exp", "exp", {x}, NULL});
  const TF_Output sum = add(w, device, &(node_t){"Sum", "sum", {e, axes}, "keep_dims"});
  return add(w, device, &(node_t){"RealDiv", "softmax", {e, sum}, NULL});
}

/* Indices in the host's memory, of two lists, one of which the device computes. */
static TF_Output stitched(world_t *w, const char *device) {
  const int64_t two[] = {2}, three[] = {3}, a[] = {2, 3}, b[] = {3, 3}, many[] = {5};
  const int32_t first[] = {4, 1}, second[] = {0, 1, 2}, ids[] = {0, 0, 2, 2, 2};
  TF_Output lists[2][2] = {
      {constant(w, w->g, "i", new_ints(1, two, first)), constant(w, w->g, "j", new_ints(1, three, second))},
      {constant(w, w->g, "x", weft_both_values(TF_FLOAT, 2, a, 1)),
       constant(w, w->g, "y", weft_both_values(TF_FLOAT, 2, b, 2))}};
  lists[1][1] = add(w, device, &(node_t){"Exp", "exp", {lists[1][1]}, NULL});
  TF_OperationDescription *d = TF_NewOperation(w->g, "DynamicStitch", "stitched");
  for (int i = 0; i < 2; i++) TF_AddInputList(d, lists[i], 2);
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  const TF_Output stitch = {op, 0};
  return add(
      w, device,
      &(node_t){"SegmentMean", "means", {stitch, constant(w, w->g, "ids", new_ints(1, many, ids))}, NULL});
}

/* Operands that cuBLASLt takes as they lie, with rows further apart than they are long; and those that are
 * copied for it. */
static const struct {
  const char *equation;
  int ranks[2];
  int64_t dims[2][4];
} equations[] = {
    {"abc,cde->abde", {3, 3}, {{2, 3, 4}, {4, 5, 6}}},
    {"abde,cde->abc", {4, 3}, {{2, 3, 5, 6}, {4, 5, 6}}},
    {"abc,abde->cde", {3, 4}, {{2, 3, 4}, {2, 3, 5, 6}}},
    {"aecd,abcd->acbe", {4, 4}, {{2, 5, 3, 4}, {2, 6, 3, 4}}},
    {"acbe,aecd->abcd", {4, 4}, {{1, 3, 6, 5}, {1, 5, 3, 4}}}, /* rows and matrices are mixed */
    {"bac,bda->bcd", {3, 3}, {{2, 3, 4}, {2, 5, 3}}},
    {"...ab,...bc->...ac", {3, 4}, {{3, 4, 5}, {2, 1, 5, 6}}},
    {"abc,bd->ca", {3, 2}, {{2, 3, 4}, {3, 5}}},
};
static int equation_case;

static TF_Output einsum(world_t *w, const char *device) {
  TF_Output x[2];
  TF_OperationDescription *d = TF_NewOperation(w->g, "Einsum", "einsum");
  for (int i = 0; i < 2; i++) {
    x[i] = constant(
        w, w->g, i == 0 ? "x" : "y",
        weft_both_values(TF_FLOAT, equations[equation_case].ranks[i], equations[equation_case].dims[i], i));
  }
  TF_AddInputList(d, x, 2);
  TF_SetAttrString(d, "equation", equations[equation_case].equation,
                   strlen(equations[equation_case].equation));
  TF_SetDevice(d, device);
  TF_Operation *op = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){op, 0};
}

static void einsums_give_what_the_cpu_gives(void) {
  for (equation_case = 0; equation_case < (int)(sizeof equations / sizeof *equations); equation_case++)
    weft_both_agree(einsum, 1e-5);
}

static void graphs_give_what_the_cpu_gives(void) {
  weft_both_agree(stitched, 1e-5);
  weft_both_agree(dense, 1e-5);
  weft_both_agree(transposed, 1e-12);
  weft_both_agree(reduced, 1e-5);
  weft_both_agree(conjugated, 1e-5);
  weft_both_agree(cropped, 1e-5);
}

static void batches_broadcast_as_on_the_cpu(void) {
  for (batch_case = 0; batch_case < (int)(sizeof batch_dims / sizeof *batch_dims); batch_case++) {
    for (batch_flags = 0; batch_flags < 3; batch_flags++) weft_both_agree(batches, 1e-5);
  }
}

static void operands_may_be_of_several_types(void) {
  static const TF_DataType types[][3] = {
      {TF_FLOAT, TF_FLOAT, TF_FLOAT}, {TF_FLOAT, TF_DOUBLE, TF_DOUBLE}, {TF_DOUBLE, TF_FLOAT, TF_FLOAT}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    memcpy(mixed_types, types[i], sizeof mixed_types);
    weft_both_agree(mixed, types[i][2] == TF_DOUBLE ? 1e-12 : 1e-5);
  }
}

static void shapes_that_do_not_fit_are_refused(void) {
  world_t w;
  world_open(&w);
  const int64_t a[] = {2, 3}, b[] = {4, 5};
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT),
                  y = constant(&w, w.g, "y", weft_both_values(TF_FLOAT, 2, b, 2));
  const TF_Output product = add(&w, "/device:GPU:0", &(node_t){"MatMul", "product", {x, y}, NULL});
  TF_Tensor *in = weft_both_values(TF_FLOAT, 2, a, 1);
  CU_ASSERT_PTR_NULL(run1(&w, x, in, product));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]");
  TF_DeleteTensor(in);
  world_close(&w);
}

/* ---- state ---- */

static const TF_Output none = {NULL, 0};

static TF_Output random_numbers(world_t *w, const char *device, const char *op) {
  const int64_t rank[] = {2};
  const int32_t shape[] = {5, 7};
  TF_OperationDescription *d = TF_NewOperation(w->g, op, op);
  TF_AddInput(d, constant(w, w->g, "shape", new_ints(1, rank, shape)));
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrInt(d, "seed", 11);
  TF_SetAttrInt(d, "seed2", -4);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

/* Each step has numbers of its own, which are those that the CPU draws in that step. */
static void streams_of_random_numbers_go_on_as_on_the_cpu(void) {
  world_t here, there;
  TF_Tensor *last = NULL;
  world_open(&here);
  world_open(&there);
  const TF_Output x = random_numbers(&here, "/device:GPU:0", "RandomUniform"),
                  y = random_numbers(&there, "/device:CPU:0", "RandomUniform");
  for (int step = 0; step < 4; step++) {
    TF_Tensor *a = run1(&here, none, NULL, x), *b = run1(&there, none, NULL, y);
    ASSERT_OK(&here);
    ASSERT_OK(&there);
    CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(a), TF_TensorByteSize(b));
    CU_ASSERT_EQUAL(memcmp(TF_TensorData(a), TF_TensorData(b), TF_TensorByteSize(a)), 0);
    CU_ASSERT(last == NULL || memcmp(TF_TensorData(a), TF_TensorData(last), TF_TensorByteSize(a)) != 0);
    if (last != NULL) TF_DeleteTensor(last);
    last = a;
    TF_DeleteTensor(b);
  }
  TF_DeleteTensor(last);
  world_close(&here);
  world_close(&there);
}

/* An op on the variable `handle`, behind `after`. */
static TF_Output on_variable(world_t *w, const char *op, const char *name, TF_Output handle, TF_Output second,
                             TF_Output third, TF_Operation *after) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, handle);
  TF_AddInput(d, second);
  if (third.oper != NULL) TF_AddInput(d, third);
  if (after != NULL) TF_AddControlInput(d, after);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetDevice(d, "/device:GPU:0");
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

/* Rows of a table are gathered, changed where it lies, and gathered again; the rows from before stay. */
static void rows_of_a_variable_are_read_and_changed(void) {
  world_t w;
  world_open(&w);
  const int64_t shape[] = {6, 3}, few[] = {4}, updates[] = {4, 3};
  const int32_t at[] = {5, 0, 5, 2};
  TF_OperationDescription *d = TF_NewOperation(w.g, "VarHandleOp", "table");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", shape, 2);
  TF_SetDevice(d, "/device:GPU:0");
  const TF_Output table = {TF_FinishOperation(d, w.s), 0};
  ASSERT_OK(&w);
  const TF_Output value = constant(&w, w.g, "value", weft_both_values(TF_FLOAT, 2, shape, 1)),
                  indices = constant(&w, w.g, "indices", new_ints(1, few, at)),
                  added = constant(&w, w.g, "added", weft_both_values(TF_FLOAT, 2, updates, 2));
  const TF_Output set = on_variable(&w, "AssignVariableOp", "set", table, value, none, NULL);
  const TF_Output before = on_variable(&w, "ResourceGather", "before", table, indices, none, NULL);
  const TF_Output add = on_variable(&w, "ResourceScatterAdd", "add", table, indices, added, before.oper);
  const TF_Output after = on_variable(&w, "ResourceGather", "after", table, indices, none, add.oper);
  TF_Tensor *out[2] = {NULL}, *v = weft_both_values(TF_FLOAT, 2, shape, 1),
            *u = weft_both_values(TF_FLOAT, 2, updates, 2);
  run(&w, NULL, NULL, 0, &before, out, 1);
  ASSERT_FAILS(&w, TF_NOT_FOUND, "table");
  run_target(&w, set.oper);
  ASSERT_OK(&w);
  run(&w, NULL, NULL, 0, (const TF_Output[]){before, after}, out, 2);
  ASSERT_OK(&w);
  int wrong = 0;
  for (int i = 0; i < 12; i++) {
    const float old = float_at(v, at[i / 3] * 3 + i % 3);
    float sum = old;
    for (int r = 0; r < 4; r++) sum += at[r] == at[i / 3] ? float_at(u, r * 3 + i % 3) : 0;
    wrong += float_at(out[0], i) != old || fabsf(float_at(out[1], i) - sum) > 1e-6f;
  }
  CU_ASSERT_EQUAL(wrong, 0);
  for (int i = 0; i < 2; i++) TF_DeleteTensor(out[i]);
  TF_DeleteTensor(v);
  TF_DeleteTensor(u);
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
                  k = constant(&w, w.g, "k", weft_both_values(TF_FLOAT, 2, dims, 2));
  TF_Output y = x;
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "add%d", i);
    y = add(&w, NULL, &(node_t){"AddV2", name, {y, k}, NULL}); /* where Weft places it */
  }
  for (int step = 0; step < 50; step++) {
    TF_Tensor *in = weft_both_values(TF_FLOAT, 2, dims, step), *out = run1(&w, x, in, y),
              *added = weft_both_values(TF_FLOAT, 2, dims, 2);
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
    {"Einsums give what the CPU gives", einsums_give_what_the_cpu_gives},
    {"batches broadcast as on the CPU", batches_broadcast_as_on_the_cpu},
    {"operands may be of several types", operands_may_be_of_several_types},
    {"shapes that do not fit are refused", shapes_that_do_not_fit_are_refused},
    {"many steps give their own results", many_steps_give_their_own_results},
    {"used up memory names what holds it", used_up_memory_names_what_holds_it},
    {"streams of random numbers go on as on the CPU", streams_of_random_numbers_go_on_as_on_the_cpu},
    {"rows of a variable are read and changed", rows_of_a_variable_are_read_and_changed},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("CUDA sessions", tests);
}
