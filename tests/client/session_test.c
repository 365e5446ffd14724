/* tests/client/session_test.c - steps in a local session: values in and out, errors, threads, the session's
 * end. */
#include <pthread.h>

#include "device/device.h"
#include "tests/client/client_testing.h"

static const TF_Output nothing = {NULL, 0};

static void feeds_go_in_and_fetches_come_out(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), c = constant(&w, w.g, "c", new_float(2));
  TF_Output sum = binary(&w, w.g, "AddV2", "sum", x, c), product = binary(&w, w.g, "Mul", "product", x, c);
  TF_Tensor *in = new_float(5), *out[3] = {NULL, NULL, NULL};
  const TF_Output fetches[3] = {sum, product, sum};
  run(&w, &x, &in, 1, fetches, out, 3);
  ASSERT_OK(&w);
  CU_ASSERT(float_at(out[0], 0) == 7 && float_at(out[1], 0) == 10 && float_at(out[2], 0) == 7);
  for (int i = 0; i < 3; i++) TF_DeleteTensor(out[i]);
  TF_DeleteTensor(in);
  world_close(&w);
}

static void many_fetches_may_repeat(void) {
  world_t w;
  world_open(&w);
  TF_Output c[3];
  const char *const names[3] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) c[i] = constant(&w, w.g, names[i], new_int(i));
  TF_Output fetches[40];
  TF_Tensor *out[40];
  for (int i = 0; i < 40; i++) fetches[i] = c[i % 3];
  run(&w, NULL, NULL, 0, fetches, out, 40);
  ASSERT_OK(&w);
  for (int i = 0; i < 40; i++) {
    CU_ASSERT_EQUAL(int_at(out[i], 0), i % 3);
    TF_DeleteTensor(out[i]);
  }
  world_close(&w);
}

static void every_plain_type_passes_through(void) {
  static const TF_DataType types[] = {TF_FLOAT,  TF_DOUBLE,     TF_INT32, TF_UINT8,  TF_INT16,
                                      TF_INT8,   TF_COMPLEX64,  TF_INT64, TF_BOOL,   TF_BFLOAT16,
                                      TF_UINT16, TF_COMPLEX128, TF_HALF,  TF_UINT32, TF_UINT64};
  const int64_t dims[2] = {2, 3}, empty[2] = {0, 4};
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
    world_t w;
    world_open(&w);
    TF_Output x = placeholder(&w, w.g, "x", types[k]), y = unary(&w, w.g, "Identity", "y", x);
    size_t bytes = 6 * TF_DataTypeSize(types[k]);
    TF_Tensor *in = TF_AllocateTensor(types[k], dims, 2, bytes);
    for (size_t i = 0; i < bytes; i++)
      ((unsigned char *)TF_TensorData(in))[i] = (unsigned char)(types[k] == TF_BOOL ? i % 2 : i);
    TF_Tensor *out = run1(&w, x, in, y);
    ASSERT_OK(&w);
    CU_ASSERT(TF_TensorType(out) == types[k] && TF_NumDims(out) == 2 && TF_TensorByteSize(out) == bytes);
    CU_ASSERT_EQUAL(memcmp(TF_TensorData(out), TF_TensorData(in), bytes), 0);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    in = TF_AllocateTensor(types[k], empty, 2, 0);
    out = run1(&w, x, in, y);
    ASSERT_OK(&w);
    CU_ASSERT(TF_TensorElementCount(out) == 0 && TF_Dim(out, 1) == 4);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    world_close(&w);
  }
}

static void strings_pass_through(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_STRING), y = unary(&w, w.g, "Identity", "y", x);
  const int64_t dims[1] = {3};
  TF_Tensor *in = TF_AllocateTensor(TF_STRING, dims, 1, 3 * sizeof(TF_TString));
  TF_TString *s = TF_TensorData(in);
  for (int i = 0; i < 3; i++) TF_StringInit(&s[i]);
  TF_StringCopy(&s[1], "a\0b", 3);
  TF_StringCopy(&s[2], "a text that needs memory of its own", 35);
  TF_Tensor *out = run1(&w, x, in, y);
  ASSERT_OK(&w);
  const TF_TString *r = TF_TensorData(out);
  CU_ASSERT_EQUAL(TF_StringGetSize(&r[0]), 0);
  CU_ASSERT(TF_StringGetSize(&r[1]) == 3 && memcmp(TF_StringGetDataPointer(&r[1]), "a\0b", 3) == 0);
  CU_ASSERT(TF_StringGetSize(&r[2]) == 35 && memcmp(TF_StringGetDataPointer(&r[2]), "a text", 6) == 0);
  TF_DeleteTensor(in);
  TF_DeleteTensor(out);
  world_close(&w);
}

static void the_session_follows_the_graph(void) {
  world_t w;
  world_open(&w);
  TF_Output x = constant(&w, w.g, "x", new_int(3));
  TF_Tensor *t = run1(&w, nothing, NULL, x);
  ASSERT_OK(&w);
  TF_DeleteTensor(t);
  TF_Output y = binary(&w, w.g, "Mul", "y", x, x);
  t = run1(&w, nothing, NULL, y);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(int_at(t, 0), 9);
  TF_DeleteTensor(t);
  world_close(&w);
}

static TF_Output variable(world_t *w, const char *name, TF_Operation **out_init) {
  TF_OperationDescription *d = TF_NewOperation(w->g, "VariableV2", name);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", NULL, 0);
  TF_Output v = {TF_FinishOperation(d, w->s), 0};
  ASSERT_OK(w);
  TF_Output start = constant(w, w->g, "start", new_float(1));
  *out_init = binary(w, w->g, "Assign", "init", v, start).oper;
  return v;
}

static void variables_live_as_long_as_their_session(void) {
  world_t w;
  world_open(&w);
  TF_Operation *init = NULL;
  TF_Output v = variable(&w, "v", &init), one = constant(&w, w.g, "one", new_float(1));
  TF_Output more = binary(&w, w.g, "AssignAdd", "more", v, one);
  TF_Tensor *t = run1(&w, nothing, NULL, v);
  CU_ASSERT_PTR_NULL(t);
  ASSERT_FAILS(&w, TF_FAILED_PRECONDITION, "Attempting to use uninitialized value v");
  run_target(&w, init);
  ASSERT_OK(&w);
  for (int i = 2; i < 5; i++) {
    t = run1(&w, nothing, NULL, more);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL(float_at(t, 0), (float)i);
    TF_DeleteTensor(t);
  }
  TF_DeleteSession(w.session, w.s);
  w.session = NULL;
  CU_ASSERT_PTR_NULL(run1(&w, nothing, NULL, v)); /* another session has variables of its own */
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_FAILED_PRECONDITION);
  world_close(&w);
}

static void errors_have_tensorflows_codes_and_words(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), y = unary(&w, w.g, "Neg", "y", x);
  CU_ASSERT_PTR_NULL(run1(&w, nothing, NULL, y));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "You must feed a value for placeholder tensor 'x' with dtype float");
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "[[{{node x}}]]"));
  CU_ASSERT_PTR_NULL(strstr(TF_Message(w.s), "/job:localhost"));
  TF_Tensor *number = new_int(1), *out = NULL;
  CU_ASSERT_PTR_NULL(run1(&w, x, number, y));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Expects arg[0] to be float but int32 is provided");
  run(&w, NULL, NULL, 0, NULL, NULL, 0);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
  TF_Tensor *f = new_float(1), *fs[2] = {f, f};
  const TF_Output twice[2] = {x, x};
  run(&w, twice, fs, 2, &y, &out, 1);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "fed more than once");
  out = run1(&w, x, f, x);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "x:0 is both fed and fetched.");
  out = run1(&w, x, f, (TF_Output){y.oper, 3});
  ASSERT_FAILS(&w, TF_OUT_OF_RANGE, "Node 'y' (type: 'Neg', num of outputs: 1) does not have output 3");
  out = run1(&w, (TF_Output){x.oper, 5}, f, y);
  ASSERT_FAILS(&w, TF_OUT_OF_RANGE,
               "Node 'x' (type: 'Placeholder', num of outputs: 1) does not have output 5");
  out = run1(&w, x, f, (TF_Output){y.oper, -1});
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT,
               "Tensor y:-1:0, specified in either feed_devices or fetch_devices was not found in the Graph");
  const int64_t two[1] = {2}, three[1] = {3};
  TF_Output a = placeholder(&w, w.g, "a", TF_FLOAT), b = placeholder(&w, w.g, "b", TF_FLOAT);
  TF_Output sum = binary(&w, w.g, "AddV2", "sum", a, b);
  const TF_Output feeds[2] = {a, b};
  const float zeros[3] = {0, 0, 0};
  TF_Tensor *values[2] = {new_floats(1, two, zeros), new_floats(1, three, zeros)};
  run(&w, feeds, values, 2, &sum, &out, 1);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Incompatible shapes: [2] vs. [3]");
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "{{node sum}}"));
  for (int i = 0; i < 2; i++) TF_DeleteTensor(values[i]);
  TF_DeleteTensor(number);
  TF_DeleteTensor(f);
  world_close(&w);
}

static void options_and_metadata_are_messages(void) {
  world_t w;
  world_open(&w);
  TF_Output x = constant(&w, w.g, "x", new_int(3)), y = unary(&w, w.g, "Neg", "y", x);
  TF_Tensor *out = run1(&w, nothing, NULL, y);
  TF_DeleteTensor(out);
  TF_Buffer *bad = TF_NewBufferFromString("\xff\xff", 2), *trace = TF_NewBufferFromString("\x08\x03", 2);
  TF_Buffer *metadata = TF_NewBuffer();
  TF_SessionRun(w.session, bad, NULL, NULL, 0, &y, &out, 1, NULL, 0, NULL, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
  TF_SessionRun(w.session, trace, NULL, NULL, 0, &y, &out, 1, NULL, 0, metadata, w.s);
  ASSERT_OK(&w);
  TF_DeleteTensor(out);
  CU_ASSERT(metadata->length > 0);
  TF_SessionRun(w.session, trace, NULL, NULL, 0, &y, &out, 1, NULL, 0, metadata, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  TF_DeleteBuffer(bad);
  TF_DeleteBuffer(trace);
  TF_DeleteBuffer(metadata);
  world_close(&w);
}

static void a_closed_session_runs_nothing(void) {
  world_t w;
  world_open(&w);
  TF_Output x = constant(&w, w.g, "x", new_int(3));
  TF_Tensor *t = run1(&w, nothing, NULL, x);
  TF_DeleteTensor(t);
  TF_CloseSession(w.session, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NULL(run1(&w, nothing, NULL, x));
  ASSERT_FAILS(&w, TF_CANCELLED, "Session has been closed.");
  TF_CloseSession(w.session, w.s);
  ASSERT_OK(&w);
  world_close(&w);
}

static void the_graph_outlives_its_deletion_while_a_session_needs_it(void) {
  world_t w;
  world_open(&w);
  TF_Output x = constant(&w, w.g, "x", new_int(3));
  TF_Tensor *t = run1(&w, nothing, NULL, x);
  TF_DeleteTensor(t);
  TF_DeleteGraph(w.g);
  w.g = NULL;
  t = run1(&w, nothing, NULL, x);
  ASSERT_OK(&w);
  TF_DeleteTensor(t);
  world_close(&w);
}

static void devices_are_those_of_this_process(void) {
  world_t w;
  world_open(&w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  w.session = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  TF_DeviceList *l = TF_SessionListDevices(w.session, w.s);
  ASSERT_OK(&w);
  int num_devices = 0; /* one for each driver, the host's first */
  while (weft_device_drivers()[num_devices] != NULL) num_devices++;
  CU_ASSERT_EQUAL_FATAL(TF_DeviceListCount(l), num_devices);
  CU_ASSERT_STRING_EQUAL(TF_DeviceListName(l, 0, w.s), "/job:localhost/replica:0/task:0/device:CPU:0");
  CU_ASSERT_STRING_EQUAL(TF_DeviceListType(l, 0, w.s), "CPU");
  CU_ASSERT(TF_DeviceListMemoryBytes(l, 0, w.s) > 0);
  CU_ASSERT(TF_DeviceListIncarnation(l, 0, w.s) != 0);
  CU_ASSERT_PTR_NULL(TF_DeviceListName(l, num_devices, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "index out of bounds");
  TF_DeleteDeviceList(l);
  TF_Output x = constant(&w, w.g, "x", new_int(3));
  TF_Tensor *t = run1(&w, nothing, NULL, x); /* the session began with an empty graph */
  ASSERT_OK(&w);
  TF_DeleteTensor(t);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

static void targets_and_configs_are_checked(void) {
  world_t w;
  world_open(&w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, "\xff\xff", 2, w.s);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
  TF_SetConfig(o, "\x10\x02\x28\x02\x48\x01", 6, w.s); /* thread counts; use_per_session_threads */
  ASSERT_OK(&w);
  TF_SetTarget(o, "http://x");
  CU_ASSERT_PTR_NULL(TF_NewSession(w.g, o, w.s));
  ASSERT_FAILS(&w, TF_NOT_FOUND, "No session factory registered");
  TF_SetTarget(o, "grpc://nowhere");
  CU_ASSERT_PTR_NULL(TF_NewSession(w.g, o, w.s));
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Could not interpret \"nowhere\" as a host-port pair.");
  TF_SetTarget(o, "");
  w.session = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  TF_DeleteSessionOptions(o);
  TF_Output x = constant(&w, w.g, "x", new_int(3));
  TF_Tensor *t = run1(&w, nothing, NULL, x);
  ASSERT_OK(&w);
  TF_DeleteTensor(t);
  world_close(&w);
}

typedef struct runner {
  world_t *w;
  TF_Output x, y;
  int id, failures;
} runner_t;

static void *run_steps(void *arg) {
  runner_t *r = arg;
  TF_Status *s = TF_NewStatus();
  for (int i = 0; i < 200; i++) {
    TF_Tensor *in = new_int(r->id * 1000 + i), *out = NULL;
    TF_SessionRun(r->w->session, NULL, &r->x, &in, 1, &r->y, &out, 1, NULL, 0, NULL, s);
    r->failures += TF_GetCode(s) != TF_OK || int_at(out, 0) != -(r->id * 1000 + i);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
  }
  TF_DeleteStatus(s);
  return NULL;
}

static void steps_of_many_threads_do_not_mix(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_INT32), y = unary(&w, w.g, "Neg", "y", x);
  TF_Tensor *one = new_int(1), *t = run1(&w, x, one, y);
  TF_DeleteTensor(t);
  TF_DeleteTensor(one);
  runner_t r[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    r[i] = (runner_t){&w, x, y, i, 0};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run_steps, &r[i]), 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(r[i].failures, 0);
  world_close(&w);
}

static void old_sessions_name_tensors_by_text(void) {
  world_t w;
  world_open(&w);
  TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT);
  unary(&w, w.g, "Neg", "y", x);
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(w.g, def, w.s);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_DeprecatedSession *s = TF_NewDeprecatedSession(o, w.s);
  ASSERT_OK(&w);
  const char *in[1] = {"x"}, *out_names[1] = {"y:0"}, *no[1] = {"zz"};
  TF_Tensor *value = new_float(4), *out = NULL;
  TF_Run(s, NULL, in, &value, 1, out_names, &out, 1, NULL, 0, NULL, w.s);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  TF_ExtendGraph(s, def->data, def->length, w.s);
  ASSERT_OK(&w);
  TF_Run(s, NULL, in, &value, 1, out_names, &out, 1, NULL, 0, NULL, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(out, 0), -4);
  TF_DeleteTensor(out);
  TF_Run(s, NULL, in, &value, 1, no, &out, 1, NULL, 0, NULL, w.s);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_NOT_FOUND);
  TF_ExtendGraph(s, def->data, def->length, w.s);
  CU_ASSERT_EQUAL(TF_GetCode(w.s), TF_INVALID_ARGUMENT);
  TF_CloseDeprecatedSession(s, w.s);
  TF_DeleteDeprecatedSession(s, w.s);
  TF_DeleteTensor(value);
  TF_DeleteBuffer(def);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"feeds go in and fetches come out", feeds_go_in_and_fetches_come_out},
    {"many fetches may repeat", many_fetches_may_repeat},
    {"every plain type passes through", every_plain_type_passes_through},
    {"strings pass through", strings_pass_through},
    {"the session follows the graph", the_session_follows_the_graph},
    {"variables live as long as their session", variables_live_as_long_as_their_session},
    {"errors have TensorFlow's codes and words", errors_have_tensorflows_codes_and_words},
    {"options and metadata are messages", options_and_metadata_are_messages},
    {"a closed session runs nothing", a_closed_session_runs_nothing},
    {"the graph outlives its deletion while a session needs it",
     the_graph_outlives_its_deletion_while_a_session_needs_it},
    {"devices are those of this process", devices_are_those_of_this_process},
    {"targets and configs are checked", targets_and_configs_are_checked},
    {"steps of many threads do not mix", steps_of_many_threads_do_not_mix},
    {"old sessions name tensors by text", old_sessions_name_tensors_by_text},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("client/session", tests); }
