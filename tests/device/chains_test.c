/* tests/device/chains_test.c - elementwise nodes that a device computes together (_WeftChain) give what they
 * give one by one on the CPU, and fail as they do there.
 *
 * Graphs are drawn from a seed: trees and forks of elementwise ops over inputs of shapes that broadcast, of
 * which some nodes are fetched.
 */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { MAX_NODES = 48, NUM_INPUTS = 5, MAX_FETCHES = 4 };

static const char *const ones[] = {"Neg", "Square", "Relu", "Tanh", "Sigmoid", "Exp"};
static const char *const twos[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum"};

/* Shapes that broadcast to [2, 3, 5] or to something smaller. */
static const struct input_shape {
  int rank;
  int64_t dims[3];
} shapes[] = {{0, {0}},    {1, {5}},       {1, {1}},       {2, {3, 5}},
              {2, {3, 1}}, {3, {2, 3, 5}}, {3, {2, 1, 1}}, {2, {1, 5}}};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct chain_graph {
  world_t w;
  TF_Output inputs[NUM_INPUTS], nodes[MAX_NODES], fetches[MAX_FETCHES];
  TF_Tensor *values[NUM_INPUTS];
  int num_nodes, num_fetches;
} chain_graph_t;

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

static TF_Output add(world_t *w, const char *device, const char *op, int i, TF_Output x, TF_Output y) {
  char name[16];
  snprintf(name, sizeof name, "n%d", i);
  TF_OperationDescription *d = TF_NewOperation(w->g, op, name);
  TF_AddInput(d, x);
  if (y.oper != NULL) TF_AddInput(d, y);
  TF_SetDevice(d, device);
  TF_Operation *o = TF_FinishOperation(d, w->s);
  ASSERT_OK(w);
  return (TF_Output){o, 0};
}

static TF_Tensor *input_value(uint64_t *seed, const struct input_shape *s) {
  float v[30];
  for (int i = 0; i < 30; i++) v[i] = (float)draw(seed, 2001) / 1000 - 1;
  return new_floats(s->rank, s->dims, v);
}

static void build(chain_graph_t *c, uint64_t seed, const char *device) {
  world_open(&c->w);
  for (int i = 0; i < NUM_INPUTS; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    c->inputs[i] = placeholder(&c->w, c->w.g, name, TF_FLOAT);
    c->values[i] = input_value(&seed, &shapes[draw(&seed, NUM_SHAPES)]);
  }
  c->num_nodes = 2 + (int)draw(&seed, MAX_NODES - 2);
  for (int i = 0; i < c->num_nodes; i++) {
    TF_Output from[2];
    for (int k = 0; k < 2; k++) { /* mostly the last node, so that chains are long */
      const uint32_t at =
          draw(&seed, 3) > 0 && i > 0 ? (uint32_t)i - 1 : draw(&seed, (uint32_t)i + NUM_INPUTS);
      const bool is_node = at < (uint32_t)i;
      from[k] = is_node ? c->nodes[at] : c->inputs[at - (uint32_t)i];
    }
    const bool is_one = draw(&seed, 2) == 0;
    const TF_Output none = {NULL, 0};
    c->nodes[i] = is_one ? add(&c->w, device, ones[draw(&seed, 6)], i, from[0], none)
                         : add(&c->w, device, twos[draw(&seed, 5)], i, from[0], from[1]);
  }
  c->num_fetches = 1 + (int)draw(&seed, MAX_FETCHES);
  c->fetches[0] = c->nodes[c->num_nodes - 1];
  for (int f = 1; f < c->num_fetches; f++) c->fetches[f] = c->nodes[draw(&seed, (uint32_t)c->num_nodes)];
}

static void destroy(chain_graph_t *c) {
  for (int i = 0; i < NUM_INPUTS; i++) TF_DeleteTensor(c->values[i]);
  world_close(&c->w);
}

static bool is_close(float a, float b) {
  return (isnan(a) && isnan(b)) || a == b || fabsf(a - b) <= 1e-5f * (1 + fabsf(b));
}

static char device[128];
static void there_is_a_device(void) {
  world_t w;
  world_open(&w);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_Session *s = TF_NewSession(w.g, o, w.s);
  TF_DeviceList *list = TF_SessionListDevices(s, w.s);
  for (int i = TF_DeviceListCount(list) - 1; i >= 0; i--) {
    if (strcmp(TF_DeviceListType(list, i, w.s), "CPU") != 0)
      snprintf(device, sizeof device, "%s", TF_DeviceListName(list, i, w.s));
  }
  TF_DeleteDeviceList(list);
  TF_CloseSession(s, w.s);
  TF_DeleteSession(s, w.s);
  TF_DeleteSessionOptions(o);
  world_close(&w);
  CU_ASSERT_NOT_EQUAL_FATAL(device[0], '\0');
}

static void compare(uint64_t seed) {
  static chain_graph_t there, here; /* large */
  build(&there, seed, device);
  build(&here, seed, "/device:CPU:0");
  for (int again = 0; again < 2; again++) {
    TF_Tensor *a[MAX_FETCHES] = {NULL}, *b[MAX_FETCHES] = {NULL};
    run(&there.w, there.inputs, there.values, NUM_INPUTS, there.fetches, a, there.num_fetches);
    ASSERT_OK(&there.w);
    run(&here.w, here.inputs, here.values, NUM_INPUTS, here.fetches, b, here.num_fetches);
    ASSERT_OK(&here.w);
    for (int f = 0; f < there.num_fetches; f++) {
      CU_ASSERT_EQUAL_FATAL(TF_NumDims(a[f]), TF_NumDims(b[f]));
      CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(a[f]), TF_TensorElementCount(b[f]));
      int wrong = 0;
      for (int i = 0; i < (int)TF_TensorElementCount(a[f]); i++)
        wrong += !is_close(float_at(a[f], i), float_at(b[f], i));
      if (wrong > 0) printf("seed %llu, fetch %d: %d wrong\n", (unsigned long long)seed, f, wrong);
      CU_ASSERT_EQUAL(wrong, 0);
      TF_DeleteTensor(a[f]);
      TF_DeleteTensor(b[f]);
    }
  }
  destroy(&there);
  destroy(&here);
}

static void random_graphs_give_what_the_cpu_gives(void) {
  const char *cases = getenv("WEFT_CHAIN_CASES");
  const int n = cases == NULL ? 40 : atoi(cases);
  for (int i = 0; i < n; i++) compare((uint64_t)i * 7919 + 1);
}

/* More elements than a block of the CPU or one wave of a device has, and none at all. */
static void long_and_empty_tensors(void) {
  const int64_t sizes[] = {0, 1, 1023, 1024, 1025, 100003};
  for (int k = 0; k < 6; k++) {
    world_t w;
    world_open(&w);
    const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), none = {NULL, 0};
    const TF_Output half = constant(&w, w.g, "half", new_float(0.5f));
    TF_Output y = add(&w, device, "Mul", 0, x, half);
    y = add(&w, device, "Square", 1, y, none);
    y = add(&w, device, "Sub", 2, y, x);
    float *v = malloc((size_t)(sizes[k] + 1) * sizeof *v);
    for (int64_t i = 0; i < sizes[k]; i++) v[i] = (float)(i % 1000) / 100;
    TF_Tensor *in = new_floats(1, &sizes[k], v), *out = run1(&w, x, in, y);
    ASSERT_OK(&w);
    CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(out), sizes[k]);
    int wrong = 0;
    for (int64_t i = 0; i < sizes[k]; i++)
      wrong += !is_close(float_at(out, (int)i), v[i] * 0.5f * (v[i] * 0.5f) - v[i]);
    CU_ASSERT_EQUAL(wrong, 0);
    free(v);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    world_close(&w);
  }
}

static void a_failure_names_the_link(void) {
  world_t w;
  world_open(&w);
  const int64_t a[] = {2}, b[] = {3};
  const float v[3] = {1, 2, 3};
  const TF_Output in[] = {placeholder(&w, w.g, "x", TF_FLOAT), placeholder(&w, w.g, "y", TF_FLOAT)},
                  none = {NULL, 0};
  TF_Output y = add(&w, device, "AddV2", 0, in[0], in[1]);
  y = add(&w, device, "Tanh", 1, y, none);
  TF_Tensor *values[] = {new_floats(1, a, v), new_floats(1, b, v)}, *out = NULL;
  run(&w, in, values, 2, &y, &out, 1);
  ASSERT_FAILS(&w, TF_INVALID_ARGUMENT, "Incompatible shapes: [2] vs. [3]");
  CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(w.s), "{{node n0}}"));
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  world_close(&w);
}

/* A step's statistics name what ran. */
static void nodes_ran_together(void) {
  world_t w;
  world_open(&w);
  const TF_Output x = placeholder(&w, w.g, "x", TF_FLOAT), none = {NULL, 0};
  TF_Output y = add(&w, device, "Tanh", 0, x, none);
  y = add(&w, device, "Square", 1, y, none);
  TF_SessionOptions *o = TF_NewSessionOptions();
  w.session = TF_NewSession(w.g, o, w.s);
  ASSERT_OK(&w);
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  TF_Tensor *in = new_float(0.5f), *out = NULL;
  TF_SessionRun(w.session, options, &x, &in, 1, &y, &out, 1, NULL, 0, metadata, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_PTR_NOT_NULL(memmem(metadata->data, metadata->length, "_WeftChain", 10));
  TF_DeleteTensor(in);
  TF_DeleteTensor(out);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  TF_DeleteSessionOptions(o);
  world_close(&w);
}

static const CU_TestInfo tests[] = {
    {"there is a device", there_is_a_device}, /* which the others run on */
    {"nodes ran together", nodes_ran_together},
    {"random graphs give what the CPU gives", random_graphs_give_what_the_cpu_gives},
    {"long and empty tensors", long_and_empty_tensors},
    {"a failure names the link", a_failure_names_the_link},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_DEVICE_PATH", "tests/device/late/libweft_late.so", 0);
  return weft_run_tests("chains", tests);
}
