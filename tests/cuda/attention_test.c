/* tests/cuda/attention_test.c - two products with a chain between them on the CUDA device: one node, computed
 * part by part, that gives what the CPU gives node by node.
 *
 * Shapes are drawn from a seed. The fake card's cache is so small that most scores have several parts. Each
 * graph is compiled by the fake NVRTC, once for each form of the chain.
 */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { MAX_FEEDS = 5 };
static const TF_Output none = {NULL, 0};

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

/* What makes shares of the scores. */
typedef enum form {
  MASKED,  /* Softmax(scores * scale + mask) */
  BARE,    /* Softmax(scores) */
  LOG,     /* Exp(LogSoftmax(scores + mask)) */
  NO_ROWS, /* Relu(scores * scale + mask) */
  BEHIND,  /* Softmax(scores) * mask */
  NUM_FORMS
} form_t;

typedef struct attention_case {
  form_t form;
  TF_DataType type;
  const char *op;
  int64_t q[4], k[4], v[5], mask[4];
  int v_rank;
  bool turns[3];
} attention_case_t;

typedef struct attention_graph {
  world_t w;
  const char *device;
  uint64_t seed;
  TF_Output feeds[MAX_FEEDS];
  TF_Tensor *fed[MAX_FEEDS];
  int num_feeds, num_nodes;
} attention_graph_t;

static TF_Output finish(attention_graph_t *g, TF_OperationDescription *d) {
  TF_SetDevice(d, g->device);
  TF_Operation *o = TF_FinishOperation(d, g->w.s);
  ASSERT_OK(&g->w);
  return (TF_Output){o, 0};
}

static TF_Output node(attention_graph_t *g, const char *op, TF_Output x, TF_Output y) {
  char name[16];
  snprintf(name, sizeof name, "n%d", g->num_nodes++);
  TF_OperationDescription *d = TF_NewOperation(g->w.g, op, name);
  TF_AddInput(d, x);
  if (y.oper != NULL) TF_AddInput(d, y);
  return finish(g, d);
}

static TF_Output cast(attention_graph_t *g, TF_Output x, TF_DataType from, TF_DataType to) {
  char name[16];
  if (from == to) return x;
  snprintf(name, sizeof name, "cast%d", g->num_nodes++);
  TF_OperationDescription *d = TF_NewOperation(g->w.g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  return finish(g, d);
}

static TF_Output add_input(attention_graph_t *g, const attention_case_t *c, int rank, const int64_t *dims) {
  char name[16];
  int64_t count = 1;
  snprintf(name, sizeof name, "x%d", g->num_feeds);
  for (int i = 0; i < rank; i++) count *= dims[i];
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, rank, (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) ((float *)TF_TensorData(t))[i] = (float)draw(&g->seed, 4001) / 1000 - 2;
  g->fed[g->num_feeds] = t;
  g->feeds[g->num_feeds] = placeholder(&g->w, g->w.g, name, TF_FLOAT);
  return cast(g, g->feeds[g->num_feeds++], TF_FLOAT, c->type);
}

static TF_Output product(attention_graph_t *g, const attention_case_t *c, const char *name, TF_Output x,
                         TF_Output y, bool adj_x, bool adj_y) {
  TF_OperationDescription *d = TF_NewOperation(g->w.g, c->op, name);
  TF_AddInput(d, x);
  TF_AddInput(d, y);
  TF_SetAttrBool(d, "adj_x", adj_x);
  TF_SetAttrBool(d, "adj_y", adj_y);
  if (strcmp(c->op, "BatchMatMulV3") == 0) TF_SetAttrType(d, "Tout", c->type);
  return finish(g, d);
}

static TF_Output masked(attention_graph_t *g, const attention_case_t *c, TF_Output x) {
  TF_OperationDescription *d = TF_NewOperation(g->w.g, "AddV2", "masked");
  TF_AddInput(d, x);
  TF_AddInput(d, add_input(g, c, 4, c->mask));
  return finish(g, d);
}

static TF_Output add_shares(attention_graph_t *g, const attention_case_t *c, TF_Output x) {
  const bool is_scaled = c->form == MASKED || c->form == NO_ROWS;
  if (is_scaled) x = node(g, "Mul", x, add_input(g, c, 0, NULL));
  switch (c->form) {
    case MASKED: return node(g, "Softmax", masked(g, c, x), none);
    case BARE: return node(g, "Softmax", x, none);
    case LOG: return node(g, "Exp", node(g, "LogSoftmax", masked(g, c, x), none), none);
    case NO_ROWS: return node(g, "Relu", masked(g, c, x), none);
    default: return node(g, "Mul", node(g, "Softmax", x, none), add_input(g, c, 4, c->mask));
  }
}

static TF_Output build(attention_graph_t *g, const attention_case_t *c, const char *device, uint64_t seed) {
  *g = (attention_graph_t){.device = device, .seed = seed};
  world_open(&g->w);
  TF_Output x =
      product(g, c, "first", add_input(g, c, 4, c->q), add_input(g, c, 4, c->k), c->turns[0], c->turns[1]);
  x = add_shares(g, c, x);
  x = product(g, c, "second", x, add_input(g, c, c->v_rank, c->v), false, c->turns[2]);
  return cast(g, x, c->type, TF_FLOAT);
}

static void destroy(attention_graph_t *g) {
  for (int i = 0; i < g->num_feeds; i++) TF_DeleteTensor(g->fed[i]);
  world_close(&g->w);
}

static TF_Tensor *result(const attention_case_t *c, const char *device, uint64_t seed) {
  static attention_graph_t g;
  TF_Tensor *out = NULL;
  const TF_Output y = build(&g, c, device, seed);
  run(&g.w, g.feeds, g.fed, g.num_feeds, &y, &out, 1);
  if (TF_GetCode(g.w.s) != TF_OK) printf("on %s: %s\n", device, TF_Message(g.w.s));
  ASSERT_OK(&g.w);
  destroy(&g);
  return out;
}

static int count_wrong(TF_Tensor *a, TF_Tensor *b, double tolerance) {
  int wrong = 0;
  for (int i = 0; i < (int)TF_TensorElementCount(b); i++) {
    const double x = float_at(a, i), y = float_at(b, i);
    wrong += !(fabs(x - y) <= tolerance * (1 + fabs(y)) || (isnan(x) && isnan(y)));
  }
  return wrong;
}

/* Half and bfloat16 are rounded three times on the way, of sums that differ in their last bits. */
static void agree(const attention_case_t *c, uint64_t seed) {
  const double tolerance = c->type == TF_FLOAT    ? 2e-5
                           : c->type == TF_DOUBLE ? 2e-5
                           : c->type == TF_HALF   ? 1e-2
                                                  : 8e-2;
  TF_Tensor *here = result(c, "/device:GPU:0", seed), *there = result(c, "/device:CPU:0", seed);
  CU_ASSERT_EQUAL_FATAL(TF_NumDims(here), TF_NumDims(there));
  CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(here), TF_TensorElementCount(there));
  const int wrong = count_wrong(here, there, tolerance);
  if (wrong > 0) printf("form %d, type %d, seed %d: %d wrong\n", c->form, c->type, (int)seed, wrong);
  CU_ASSERT_EQUAL(wrong, 0);
  TF_DeleteTensor(here);
  TF_DeleteTensor(there);
}

/* q [B, H, S, D], k [B, H, T, D], v [B, H, T, E]; batches may be broadcast, matrices transposed. */
static attention_case_t draw_case(uint64_t *seed, form_t form, TF_DataType type) {
  static const int64_t lengths[] = {1, 2, 7, 16, 33, 57, 64, 129}, depths[] = {1, 3, 8, 33};
  static const char *const ops[] = {"BatchMatMulV2", "BatchMatMulV3", "BatchMatMul"};
  const int64_t S = lengths[draw(seed, 8)], T = lengths[draw(seed, 8)], D = depths[draw(seed, 4)],
                E = depths[draw(seed, 4)], B = 1 + draw(seed, 3), H = 1 + draw(seed, 3);
  attention_case_t c = {.form = form, .type = type, .op = ops[draw(seed, 3)], .v_rank = 4};
  for (int i = 0; i < 3; i++) c.turns[i] = draw(seed, 3) == 0;
  const int64_t q[] = {B, H, c.turns[0] ? D : S, c.turns[0] ? S : D},
                k[] = {B, H, c.turns[1] ? T : D, c.turns[1] ? D : T},
                v[] = {B, H, c.turns[2] ? E : T, c.turns[2] ? T : E},
                masks[][4] = {{B, 1, 1, T}, {1, 1, S, T}, {B, H, S, T}, {1, 1, S, 1}, {1, H, 1, 1}};
  memcpy(c.q, q, sizeof q);
  memcpy(c.k, k, sizeof k);
  memcpy(c.v, v, sizeof v);
  memcpy(c.mask, masks[draw(seed, 5)], sizeof c.mask);
  if (strcmp(c.op, "BatchMatMul") != 0 && draw(seed, 2) == 0) {
    (draw(seed, 4) == 0 ? c.q : c.k)[draw(seed, 2)] = 1;
    c.v[draw(seed, 2)] = 1;
  }
  return c;
}

static void drawn_attentions_give_what_the_cpu_gives(void) {
  enum { EACH = 8 };
  uint64_t seed = 11;
  for (int form = 0; form < NUM_FORMS; form++) {
    for (int i = 0; i < EACH; i++) {
      const attention_case_t c = draw_case(&seed, (form_t)form, TF_FLOAT);
      agree(&c, seed);
    }
  }
}

static void halfs_and_doubles_give_what_the_cpu_gives(void) {
  const TF_DataType types[] = {TF_HALF, TF_BFLOAT16, TF_DOUBLE};
  uint64_t seed = 12;
  for (int t = 0; t < 3; t++) {
    for (int i = 0; i < 4; i++) {
      const attention_case_t c = draw_case(&seed, MASKED, types[t]);
      agree(&c, seed);
    }
  }
}

/* The chain broadcasts the scores, or the second product the shares; or there is nothing to sum. */
static void shapes_that_have_no_parts(void) {
  static const attention_case_t cases[] = {
      {MASKED, TF_FLOAT, "BatchMatMulV2", {1, 2, 5, 3}, {1, 2, 3, 7}, {3, 2, 7, 4}, {3, 1, 1, 7}, 4, {0}},
      {MASKED, TF_FLOAT, "BatchMatMulV2", {1, 2, 1, 3}, {1, 2, 3, 7}, {1, 2, 7, 4}, {1, 2, 6, 7}, 4, {0}},
      {BEHIND, TF_FLOAT, "BatchMatMulV2", {2, 2, 5, 3}, {2, 2, 3, 1}, {2, 2, 9, 4}, {1, 1, 1, 9}, 4, {0}},
      {MASKED, TF_FLOAT, "BatchMatMulV2", {2, 2, 5, 3}, {2, 2, 3, 1}, {2, 2, 9, 4}, {1, 1, 5, 9}, 4, {0}},
      {BARE, TF_FLOAT, "BatchMatMulV2", {2, 2, 5, 3}, {2, 2, 3, 6}, {3, 2, 2, 6, 4}, {0}, 5, {0}},
      {BARE, TF_FLOAT, "BatchMatMulV2", {2, 1, 5, 0}, {2, 1, 0, 6}, {2, 1, 6, 4}, {0}, 4, {0}},
      {BARE, TF_FLOAT, "BatchMatMulV2", {2, 1, 5, 3}, {2, 1, 3, 0}, {2, 1, 0, 4}, {0}, 4, {0}},
      {NO_ROWS, TF_FLOAT, "BatchMatMul", {2, 1, 5, 3}, {2, 1, 3, 0}, {2, 1, 0, 4}, {1, 1, 1, 1}, 4, {0}},
      {BARE, TF_FLOAT, "BatchMatMulV2", {2, 1, 0, 3}, {2, 1, 3, 6}, {2, 1, 6, 4}, {0}, 4, {0}},
      {LOG, TF_FLOAT, "BatchMatMulV2", {0, 1, 5, 3}, {0, 1, 3, 6}, {1, 1, 6, 4}, {1, 1, 1, 6}, 4, {0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) agree(&cases[i], i);
}

/* From the third step on with the same shapes a step is recorded and replayed. */
static void steps_that_are_replayed_give_the_same(void) {
  enum { STEPS = 6 };
  static attention_graph_t g;
  static const attention_case_t c = {
      MASKED, TF_FLOAT, "BatchMatMulV2", {2, 2, 60, 8}, {2, 2, 8, 57}, {2, 2, 57, 8}, {2, 1, 1, 57}, 4, {0}};
  TF_Tensor *out[STEPS] = {NULL};
  const TF_Output y = build(&g, &c, "/device:GPU:0", 3);
  for (int i = 0; i < STEPS; i++) {
    run(&g.w, g.feeds, g.fed, g.num_feeds, &y, &out[i], 1);
    ASSERT_OK(&g.w);
    CU_ASSERT_EQUAL(memcmp(TF_TensorData(out[i]), TF_TensorData(out[0]), TF_TensorByteSize(out[0])), 0);
  }
  for (int i = 0; i < STEPS; i++) TF_DeleteTensor(out[i]);
  destroy(&g);
}

static void a_failure_names_its_part(void) {
  static const struct {
    attention_case_t c;
    const char *text, *name;
  } cases[] = {
      {{MASKED, TF_FLOAT, "BatchMatMulV2", {2, 1, 9, 8}, {2, 1, 7, 9}, {2, 1, 9, 8}, {1, 1, 1, 9}, 4, {0}},
       "Matrix size-incompatible",
       "{{node first}}"},
      {{MASKED, TF_FLOAT, "BatchMatMulV2", {2, 1, 9, 8}, {3, 1, 8, 9}, {2, 1, 9, 8}, {1, 1, 1, 9}, 4, {0}},
       "compatible batch dimensions",
       "{{node first}}"},
      {{MASKED, TF_FLOAT, "BatchMatMulV2", {2, 1, 9, 8}, {2, 1, 8, 9}, {2, 1, 9, 8}, {1, 1, 1, 8}, 4, {0}},
       "Incompatible shapes",
       "{{node masked}}"},
      {{MASKED, TF_FLOAT, "BatchMatMulV2", {2, 1, 9, 8}, {2, 1, 8, 9}, {2, 1, 8, 8}, {1, 1, 1, 9}, 4, {0}},
       "Matrix size-incompatible",
       "{{node second}}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    static attention_graph_t g;
    TF_Tensor *out = NULL;
    const TF_Output y = build(&g, &cases[i].c, "/device:GPU:0", 1);
    run(&g.w, g.feeds, g.fed, g.num_feeds, &y, &out, 1);
    ASSERT_FAILS(&g.w, TF_INVALID_ARGUMENT, cases[i].text);
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(g.w.s), cases[i].name));
    destroy(&g);
  }
}

/* A step's statistics name what ran. */
static bool ran(form_t form, TF_DataType type, const char *op) {
  static attention_graph_t g;
  const attention_case_t c = {
      form, type, "BatchMatMulV2", {2, 2, 40, 8}, {2, 2, 8, 50}, {2, 2, 50, 8}, {1, 1, 1, 50}, 4, {0}};
  const TF_Output y = build(&g, &c, "/device:GPU:0", 1);
  TF_SessionOptions *o = TF_NewSessionOptions();
  g.w.session = TF_NewSession(g.w.g, o, g.w.s);
  ASSERT_OK(&g.w);
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  TF_Tensor *out = NULL;
  TF_SessionRun(g.w.session, options, g.feeds, g.fed, g.num_feeds, &y, &out, 1, NULL, 0, metadata, g.w.s);
  ASSERT_OK(&g.w);
  const bool has = memmem(metadata->data, metadata->length, op, strlen(op)) != NULL;
  TF_DeleteTensor(out);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  TF_DeleteSessionOptions(o);
  destroy(&g);
  return has;
}

static void the_parts_are_one_node(void) {
  const TF_DataType types[] = {TF_FLOAT, TF_HALF, TF_BFLOAT16, TF_DOUBLE};
  for (int t = 0; t < 4; t++) {
    CU_ASSERT_TRUE(ran(MASKED, types[t], "_WeftAttention"));
    CU_ASSERT_FALSE(ran(MASKED, types[t], "BatchMatMul"));
  }
  CU_ASSERT_TRUE(ran(BARE, TF_FLOAT, "_WeftAttention"));
  CU_ASSERT_TRUE(ran(LOG, TF_FLOAT, "_WeftAttention"));
  CU_ASSERT_TRUE(ran(NO_ROWS, TF_FLOAT, "_WeftAttention"));
}

static const CU_TestInfo tests[] = {
    {"the parts are one node", the_parts_are_one_node},
    {"drawn attentions give what the CPU gives", drawn_attentions_give_what_the_cpu_gives},
    {"halfs and doubles give what the CPU gives", halfs_and_doubles_give_what_the_cpu_gives},
    {"shapes that have no parts", shapes_that_have_no_parts},
    {"steps that are replayed give the same", steps_that_are_replayed_give_the_same},
    {"a failure names its part", a_failure_names_its_part},
    CU_TEST_INFO_NULL,
};

int main(void) {
  const char *tmp = getenv("TEST_TMPDIR");
  char folder[480];
  snprintf(folder, sizeof folder, "%s/kernels.XXXXXX", tmp == NULL ? "/tmp" : tmp);
  if (mkdtemp(folder) == NULL) return 1;
  setenv("WEFT_DEVICE_PATH", "tests/cuda/fake/libweft_cuda_emulated.so", 0);
  setenv("WEFT_CUDA_DRIVER", "tests/cuda/fake/libcuda_emulated.so", 0);
  setenv("WEFT_PASSES", "fuse", 0);
  setenv("WEFT_CUBLASLT", "tests/cuda/fake/libcublasLt_fake.so", 0);
  setenv("WEFT_NVRTC", "tests/cuda/fake/libnvrtc_fake.so", 0);
  setenv("WEFT_FAKE_NVRTC_REAL", "1", 0);
  setenv("WEFT_TF32", "0", 0);
  setenv("WEFT_FAKE_CUDA", "late_us=100,seed=5", 0);
  setenv("WEFT_CACHE_DIR", folder, 0);
  return weft_run_tests("CUDA attention", tests);
}
