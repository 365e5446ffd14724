/* tests/client/bindings_test.c - the C API as bindings of other languages call it: the sequences of calls
 * that TensorFlow's Go package and the Rust crate make in their own tests, with the values that those tests
 * expect.
 *
 * Sources: tensorflow/go (session_test.go, graph_test.go, operation_test.go, op/op_test.go), tensorflow/rust
 * (src/lib.rs). */
#include <stdio.h>

#include "tests/client/client_testing.h"

/* A tensor as Go makes it: exactly the bytes of its elements, shape NULL for a scalar. */
static TF_Tensor *tensor(TF_DataType type, int rank, const int64_t *dims, const void *values) {
  size_t bytes = TF_DataTypeSize(type);
  for (int i = 0; i < rank; i++) bytes *= (size_t)dims[i];
  TF_Tensor *t = TF_AllocateTensor(type, rank == 0 ? NULL : dims, rank, bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  memcpy(TF_TensorData(t), values, bytes);
  return t;
}

static TF_Tensor *long_scalar(int64_t value) { return tensor(TF_INT64, 0, NULL, &value); }

/* A node with one list of inputs, after `first` if that has a node. */
static TF_Operation *of_list(world_t *w, const char *op, TF_Output first, const TF_Output *list, int n) {
  TF_OperationDescription *d = TF_NewOperation(w->g, op, op);
  if (first.oper != NULL) TF_AddInput(d, first);
  TF_AddInputList(d, list, n);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return o;
}

/* ---- sessions of Go ---- */

static void a_fetch_may_be_a_target_too(void) {
  const int64_t one = 1, minus_one = -1, three[] = {3}, square[] = {2, 2};
  const double vector[] = {-1, -2, 3}, minus_vector[] = {1, 2, -3};
  const float matrix[] = {1, -2, -3, 4}, minus_matrix[] = {-1, 2, 3, -4};
  const struct {
    TF_DataType type;
    int rank;
    const int64_t *dims;
    const void *in, *out;
  } cases[] = {{TF_INT64, 0, NULL, &one, &minus_one},
               {TF_DOUBLE, 1, three, vector, minus_vector},
               {TF_FLOAT, 2, square, matrix, minus_matrix}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world_t w;
    world_open(&w);
    TF_Output x = placeholder(&w, w.g, "p1", cases[i].type), y = unary(&w, w.g, "Neg", "neg1", x);
    TF_SessionOptions *o = TF_NewSessionOptions();
    w.session = TF_NewSession(w.g, o, w.s);
    TF_DeleteSessionOptions(o);
    ASSERT_OK(&w);
    TF_Tensor *in = tensor(cases[i].type, cases[i].rank, cases[i].dims, cases[i].in), *out = NULL;
    const TF_Operation *const target = y.oper;
    TF_SessionRun(w.session, NULL, &x, &in, 1, &y, &out, 1, &target, 1, NULL, w.s);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(TF_NumDims(out), cases[i].rank);
    CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(out), TF_TensorByteSize(in));
    CU_ASSERT_EQUAL(memcmp(TF_TensorData(out), cases[i].out, TF_TensorByteSize(out)), 0);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    TF_CloseSession(w.session, w.s);
    ASSERT_OK(&w);
    world_close(&w);
  }
}

/* Go hands the feeds over sorted by address, in no order of the graph's. */
static void many_feeds_reach_their_own_placeholders(void) {
  enum { N = 20 };
  world_t w;
  TF_Output in[N], products[N], backwards[N];
  TF_Tensor *values[N];
  int64_t expected = 0;
  world_open(&w);
  for (int i = 0; i < N; i++) {
    char name[16];
    snprintf(name, sizeof name, "input%d", i);
    in[i] = placeholder(&w, w.g, name, TF_INT64);
    snprintf(name, sizeof name, "factor%d", i);
    TF_Output factor = constant(&w, w.g, name, long_scalar(i + 1));
    snprintf(name, sizeof name, "Mul%d", i);
    products[i] = binary(&w, w.g, "Mul", name, in[i], factor);
    expected += (int64_t)(i + 1) * (i + 1);
    backwards[N - 1 - i] = in[i];
    values[N - 1 - i] = long_scalar(i + 1);
  }
  TF_Output sum = {of_list(&w, "AddN", (TF_Output){NULL, 0}, products, N), 0};
  TF_Tensor *out = NULL;
  run(&w, backwards, values, N, &sum, &out, 1);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(*(const int64_t *)TF_TensorData(out), expected);
  TF_DeleteTensor(out);
  for (int i = 0; i < N; i++) TF_DeleteTensor(values[i]);
  world_close(&w);
}

static void lists_follow_single_inputs(void) {
  const int64_t dims[] = {2, 3}, m1[] = {1, 2, 3, 4, 5, 6}, m2[] = {7, 8, 9, 10, 11, 12},
                want[] = {1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12};
  world_t w;
  world_open(&w);
  TF_Output dim = constant(&w, w.g, "dim1", new_int(1));
  const TF_Output list[] = {constant(&w, w.g, "m1", tensor(TF_INT64, 2, dims, m1)),
                            constant(&w, w.g, "m2", tensor(TF_INT64, 2, dims, m2))};
  TF_Output both = {of_list(&w, "Concat", dim, list, 2), 0};
  TF_Tensor *out = run1(&w, (TF_Output){NULL, 0}, NULL, both);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_Dim(out, 1), 6);
  CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(out), sizeof want);
  CU_ASSERT_EQUAL(memcmp(TF_TensorData(out), want, sizeof want), 0);
  TF_DeleteTensor(out);
  world_close(&w);
}

static void strings_are_hashed_as_tensorflow_hashes_them(void) {
  world_t w;
  world_open(&w);
  TF_Output text = constant(&w, w.g, "input", new_string("PleaseHashMe"));
  TF_OperationDescription *d = TF_NewOperation(w.g, "StringToHashBucketFast", "hash");
  TF_AddInput(d, text);
  TF_SetAttrInt(d, "num_buckets", (int64_t)1 << 32);
  TF_Output hash = {TF_FinishOperation(d, w.s), 0};
  ASSERT_OK(&w);
  TF_Output shown = unary(&w, w.g, "AsString", "AsString", hash);
  TF_Tensor *out = run1(&w, (TF_Output){NULL, 0}, NULL, shown);
  ASSERT_OK(&w);
  const TF_TString *s = TF_TensorData(out);
  CU_ASSERT_EQUAL_FATAL(TF_StringGetSize(s), strlen("1027741475"));
  CU_ASSERT_EQUAL(memcmp(TF_StringGetDataPointer(s), "1027741475", TF_StringGetSize(s)), 0);
  TF_DeleteTensor(out);
  world_close(&w);
}

/* inter_op_parallelism_threads; gpu_options with allow_growth, with allocator_type, with both. */
static void configurations_are_bytes(void) {
  static const struct {
    const char *bytes;
    size_t length;
  } configs[] = {{"", 0},
                 {"(\x01", 2},
                 {"2\x02 \x01", 4},
                 {"2\x09\x12\x07"
                  "default",
                  11},
                 {"2\x14\x12\x10"
                  "custom_allocator \x01",
                  22}};
  for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
    world_t w;
    world_open(&w);
    TF_Output c = constant(&w, w.g, "Const", new_int(14));
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, configs[i].bytes, configs[i].length, w.s);
    ASSERT_OK(&w);
    w.session = TF_NewSession(w.g, o, w.s);
    TF_DeleteSessionOptions(o);
    ASSERT_OK(&w);
    TF_Tensor *out = run1(&w, (TF_Output){NULL, 0}, NULL, c);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(int_at(out, 0), 14);
    TF_DeleteTensor(out);
    TF_DeviceList *devices = TF_SessionListDevices(w.session, w.s);
    ASSERT_OK(&w);
    CU_ASSERT_TRUE(TF_DeviceListCount(devices) > 0);
    TF_DeleteDeviceList(devices);
    world_close(&w);
  }
}

/* The example of Go's documentation: a + 2 is fetched, (a + 2) + 3 computed, then b added. */
static void a_partial_run_keeps_what_it_has_computed(void) {
  world_t w;
  world_open(&w);
  TF_Output a = placeholder(&w, w.g, "a", TF_INT32), b = placeholder(&w, w.g, "b", TF_INT32);
  TF_Output two = constant(&w, w.g, "Two", new_int(2)), three = constant(&w, w.g, "Three", new_int(3));
  TF_Output plus2 = binary(&w, w.g, "Add", "plus2", a, two);
  TF_Output plus3 = binary(&w, w.g, "Add", "plus3", plus2, three);
  TF_Output plus_b = binary(&w, w.g, "Add", "plusB", plus3, b);
  const TF_Output feeds[] = {a, b}, fetches[] = {plus2, plus_b};
  const TF_Operation *const target = plus3.oper;
  const char *handle = NULL;
  TF_SessionOptions *o = TF_NewSessionOptions();
  w.session = TF_NewSession(w.g, o, w.s);
  TF_DeleteSessionOptions(o);
  TF_SessionPRunSetup(w.session, feeds, 2, fetches, 2, &target, 1, &handle, w.s);
  ASSERT_OK(&w);
  const int32_t in[] = {1, 4}, want[] = {3, 10};
  for (int i = 0; i < 2; i++) {
    TF_Tensor *value = new_int(in[i]), *out = NULL;
    TF_SessionPRun(w.session, handle, &feeds[i], &value, 1, &fetches[i], &out, 1, NULL, 0, w.s);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(int_at(out, 0), want[i]);
    TF_DeleteTensor(value);
    TF_DeleteTensor(out);
  }
  TF_DeletePRunHandle(handle);
  world_close(&w);
}

/* ---- graphs of Go ---- */

static bool has_operation(TF_Graph *g, const char *name) {
  size_t pos = 0;
  bool is_listed = false;
  for (TF_Operation *o; (o = TF_GraphNextOperation(g, &pos)) != NULL;)
    is_listed = is_listed || strcmp(TF_OperationName(o), name) == 0;
  return is_listed && TF_GraphOperationByName(g, name) != NULL;
}

static void a_graph_is_imported_into_itself(void) {
  world_t w;
  world_open(&w);
  unary(&w, w.g, "Neg", "neg", placeholder(&w, w.g, "input", TF_INT64));
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(w.g, def, w.s);
  ASSERT_OK(&w);
  TF_Buffer *copy = TF_NewBufferFromString(def->data, def->length);
  TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, "imported");
  TF_GraphImportGraphDef(w.g, copy, o, w.s);
  ASSERT_OK(&w);
  static const char *const names[] = {"input", "neg", "imported/input", "imported/neg"};
  for (int i = 0; i < 4; i++) CU_ASSERT_TRUE(has_operation(w.g, names[i]));
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(def);
  TF_DeleteBuffer(copy);
  world_close(&w);
}

static TF_Output square(world_t *w, const char *name, TF_Output x) {
  return unary(w, w->g, "Square", name, x);
}

/* d/dx of y1 = x^4, of y2 = x^2 + x2 by both, of y0 + y1, and of y0 with the gradient of y1 behind it, at 3.
 */
static void gradients_are_added_and_chained(void) {
  world_t w;
  TF_Output dx[6];
  TF_Tensor *out[6] = {NULL};
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x1", TF_FLOAT), x2 = placeholder(&w, w.g, "x2", TF_FLOAT);
  TF_Output y[2];
  y[0] = square(&w, "y0", x);
  y[1] = square(&w, "y1", y[0]);
  TF_Output terms[] = {y[0], x2}, both[] = {x, x2};
  TF_Output y2 = {of_list(&w, "AddN", (TF_Output){NULL, 0}, terms, 2), 0};
  TF_AddGradientsWithPrefix(w.g, NULL, &y[1], 1, &x, 1, NULL, w.s, &dx[0]);
  ASSERT_OK(&w);
  TF_AddGradientsWithPrefix(w.g, NULL, &y2, 1, both, 2, NULL, w.s, &dx[1]);
  ASSERT_OK(&w);
  TF_AddGradientsWithPrefix(w.g, NULL, y, 2, &x, 1, NULL, w.s, &dx[3]);
  ASSERT_OK(&w);
  TF_AddGradientsWithPrefix(w.g, NULL, &y[1], 1, &y[0], 1, NULL, w.s, &dx[4]);
  ASSERT_OK(&w);
  TF_AddGradientsWithPrefix(w.g, NULL, &y[0], 1, &x, 1, &dx[4], w.s, &dx[5]);
  ASSERT_OK(&w);
  TF_Tensor *values[] = {new_float(3), new_float(2)};
  run(&w, both, values, 2, dx, out, 6);
  ASSERT_OK(&w);
  static const float want[] = {108, 6, 1, 114, 18, 108};
  for (int i = 0; i < 6; i++) {
    CU_ASSERT_EQUAL(TF_OperationOutputType(dx[i]), TF_FLOAT);
    CU_ASSERT_EQUAL(float_at(out[i], 0), want[i]);
    TF_DeleteTensor(out[i]);
  }
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  world_close(&w);
}

static void gradients_have_a_prefix_of_their_own(void) {
  static const char *const prefixes[] = {NULL, NULL, "more_gradients", "even_more_gradients"};
  static const char *const starts[] = {"gradients/", "gradients_1/", "more_gradients/",
                                       "even_more_gradients/"};
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = square(&w, "y0", x), dx;
  for (int i = 0; i < 4; i++) {
    TF_AddGradientsWithPrefix(w.g, prefixes[i], &y, 1, &x, 1, NULL, w.s, &dx);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(strncmp(TF_OperationName(dx.oper), starts[i], strlen(starts[i])), 0);
  }
  world_close(&w);
}

/* ---- operations of Go ---- */

static void outputs_tell_type_shape_and_consumers(void) {
  const int64_t three[] = {3}, matrix[] = {2, 3};
  const uint64_t values[6] = {1, 2, 3, 4, 5, 6};
  const struct {
    TF_DataType type;
    int rank;
    const int64_t *dims;
  } cases[] = {{TF_INT64, 0, NULL}, {TF_INT32, 1, three}, {TF_DOUBLE, 2, matrix}, {TF_UINT64, 2, matrix}};
  world_t w;
  world_open(&w);
  for (int i = 0; i < 4; i++) {
    char name[16];
    int64_t dims[2] = {-7, -7};
    snprintf(name, sizeof name, "const%d", i);
    TF_Output c = constant(&w, w.g, name, tensor(cases[i].type, cases[i].rank, cases[i].dims, values));
    CU_ASSERT_EQUAL(TF_OperationOutputType(c), cases[i].type);
    CU_ASSERT_EQUAL(TF_GraphGetTensorNumDims(w.g, c, w.s), cases[i].rank);
    TF_GraphGetTensorShape(w.g, c, dims, cases[i].rank, w.s);
    ASSERT_OK(&w);
    for (int k = 0; k < cases[i].rank; k++) CU_ASSERT_EQUAL(dims[k], cases[i].dims[k]);
  }
  TF_Output x = placeholder(&w, w.g, "x", TF_DOUBLE);
  CU_ASSERT_EQUAL(TF_GraphGetTensorNumDims(w.g, x, w.s), -1);
  TF_Output a = unary(&w, w.g, "Neg", "a", x), b = unary(&w, w.g, "Neg", "b", x);
  TF_Input consumers[3];
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(x), 2);
  CU_ASSERT_EQUAL(TF_OperationOutputConsumers(x, consumers, 3), 2);
  CU_ASSERT_PTR_EQUAL(consumers[0].oper, a.oper);
  CU_ASSERT_PTR_EQUAL(consumers[1].oper, b.oper);
  CU_ASSERT_PTR_EQUAL(TF_OperationInput(consumers[1]).oper, x.oper);
  CU_ASSERT_EQUAL(TF_OperationOutputNumConsumers(b), 0);
  CU_ASSERT_EQUAL(TF_OperationNumInputs(a.oper), 1);
  world_close(&w);
}

static void lists_of_outputs_tell_their_length(void) {
  world_t w;
  const int64_t dims[] = {2, 2}, values[] = {1, 2, 3, 4};
  world_open(&w);
  const TF_Output list[] = {constant(&w, w.g, "c1", long_scalar(1)),
                            constant(&w, w.g, "c2", tensor(TF_INT64, 2, dims, values))};
  TF_Operation *o = of_list(&w, "ShapeN", (TF_Output){NULL, 0}, list, 2);
  CU_ASSERT_EQUAL(TF_OperationOutputListLength(o, "output", w.s), 2);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(TF_OperationNumOutputs(o), 2);
  CU_ASSERT_EQUAL(TF_OperationOutputListLength(o, "none", w.s), -1);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  world_close(&w);
}

static void shapes_may_be_partly_known_scalar_or_unknown(void) {
  static const struct {
    const char *name;
    int rank;
    int64_t dims[2];
  } cases[] = {{"x/Placeholder", 2, {-1, 10}}, {"y/Placeholder", 0, {0}}, {"z/Placeholder", -1, {0}}};
  world_t w;
  world_open(&w);
  for (int i = 0; i < 3; i++) {
    TF_OperationDescription *d = TF_NewOperation(w.g, "Placeholder", cases[i].name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", cases[i].rank <= 0 ? NULL : cases[i].dims, cases[i].rank);
    TF_Output x = {TF_FinishOperation(d, w.s), 0};
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(TF_GraphGetTensorNumDims(w.g, x, w.s), cases[i].rank);
  }
  world_close(&w);
}

static void an_input_of_another_type_is_refused(void) {
  const int64_t two[] = {2}, size[] = {80, 80};
  world_t w;
  world_open(&w);
  TF_Output images = placeholder(&w, w.g, "images", TF_FLOAT);
  TF_Output sizes = constant(&w, w.g, "size", tensor(TF_INT64, 1, two, size)); /* int32 is expected */
  TF_OperationDescription *d = TF_NewOperation(w.g, "ResizeArea", "resize");
  TF_AddInput(d, images);
  TF_AddInput(d, sizes);
  CU_ASSERT_PTR_NULL(TF_FinishOperation(d, w.s));
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  world_close(&w);
}

/* ---- tensors of Rust: a slice begins at an address, also one of no elements ---- */

static void no_elements_have_an_address(void) {
  static const TF_DataType types[] = {TF_FLOAT, TF_INT64, TF_UINT8, TF_STRING, TF_COMPLEX128};
  static const int64_t shapes[][2] = {{0, 0}, {3, 0}, {0, 3}};
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < 3; k++) {
      world_t w;
      world_open(&w);
      TF_Tensor *in = TF_AllocateTensor(types[i], shapes[k], 2, 0);
      CU_ASSERT_PTR_NOT_NULL(TF_TensorData(in));
      CU_ASSERT_TRUE(TF_TensorIsAligned(in));
      TF_Output x = placeholder(&w, w.g, "x", types[i]), y = unary(&w, w.g, "Identity", "y", x);
      TF_Tensor *out = run1(&w, x, in, y);
      ASSERT_OK(&w);
      CU_ASSERT_PTR_NOT_NULL(TF_TensorData(out));
      CU_ASSERT_EQUAL(TF_TensorByteSize(out), 0);
      CU_ASSERT_EQUAL(TF_TensorElementCount(out), 0);
      TF_DeleteTensor(out);
      TF_DeleteTensor(in);
      world_close(&w);
    }
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a fetch may be a target, too", a_fetch_may_be_a_target_too},
      {"many feeds reach their own placeholders", many_feeds_reach_their_own_placeholders},
      {"lists follow single inputs", lists_follow_single_inputs},
      {"strings are hashed as TensorFlow hashes them", strings_are_hashed_as_tensorflow_hashes_them},
      {"configurations are bytes", configurations_are_bytes},
      {"a partial run keeps what it has computed", a_partial_run_keeps_what_it_has_computed},
      {"a graph is imported into itself", a_graph_is_imported_into_itself},
      {"gradients are added and chained", gradients_are_added_and_chained},
      {"gradients have a prefix of their own", gradients_have_a_prefix_of_their_own},
      {"outputs tell type, shape and consumers", outputs_tell_type_shape_and_consumers},
      {"lists of outputs tell their length", lists_of_outputs_tell_their_length},
      {"shapes may be partly known, scalar or unknown", shapes_may_be_partly_known_scalar_or_unknown},
      {"an input of another type is refused", an_input_of_another_type_is_refused},
      {"no elements have an address", no_elements_have_an_address},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("client/bindings", tests);
}
