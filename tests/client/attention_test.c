/* tests/client/attention_test.c - two products with a softmax between them, computed part by part, give bit
 * for bit what they give node by node.
 *
 * Shapes, masks and what stands between the products are drawn from a seed. Each graph is run in two
 * sessions, of which one has the pass turned off.
 */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { MAX_FEEDS = 5 };

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

typedef struct drawn {
  world_t w;
  TF_Session *fused, *plain;
  uint64_t seed;
  TF_Output feeds[MAX_FEEDS];
  TF_Tensor *fed[MAX_FEEDS];
  int num_feeds, num_nodes;
} drawn_t;

static TF_Session *new_session(world_t *w, bool fuses) {
  /* ConfigProto: graph_options.rewrite_options.implementation_selector: OFF */
  static const char off[] = {0x52, 0x05, 0x52, 0x03, (char)0xb0, 0x01, 0x02};
  TF_SessionOptions *o = TF_NewSessionOptions();
  if (!fuses) TF_SetConfig(o, off, sizeof off, w->s);
  ASSERT_OK(w);
  TF_Session *s = TF_NewSession(w->g, o, w->s);
  ASSERT_OK(w);
  TF_DeleteSessionOptions(o);
  return s;
}

static TF_Output add_input(drawn_t *d, int rank, const int64_t *dims) {
  char name[16];
  int64_t count = 1;
  snprintf(name, sizeof name, "x%d", d->num_feeds);
  for (int i = 0; i < rank; i++) count *= dims[i];
  TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, rank, (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) {
    const float v = (float)draw(&d->seed, 4001) / 1000 - 2;
    ((float *)TF_TensorData(t))[i] =
        draw(&d->seed, 5000) == 0 ? (draw(&d->seed, 2) == 0 ? INFINITY : NAN) : v;
  }
  d->fed[d->num_feeds] = t;
  d->feeds[d->num_feeds] = placeholder(&d->w, d->w.g, name, TF_FLOAT);
  return d->feeds[d->num_feeds++];
}

static TF_Output node(drawn_t *d, const char *op, TF_Output x, TF_Output y) {
  char name[16];
  snprintf(name, sizeof name, "n%d", d->num_nodes++);
  return y.oper == NULL ? unary(&d->w, d->w.g, op, name, x) : binary(&d->w, d->w.g, op, name, x, y);
}

static TF_Output product(drawn_t *d, const char *op, const char *name, TF_Output x, TF_Output y, bool adj_x,
                         bool adj_y) {
  TF_OperationDescription *o = TF_NewOperation(d->w.g, op, name);
  TF_AddInput(o, x);
  TF_AddInput(o, y);
  TF_SetAttrBool(o, "adj_x", adj_x);
  TF_SetAttrBool(o, "adj_y", adj_y);
  if (strcmp(op, "BatchMatMulV3") == 0) TF_SetAttrType(o, "Tout", TF_FLOAT);
  TF_Operation *n = TF_FinishOperation(o, d->w.s);
  ASSERT_OK(&d->w);
  return (TF_Output){n, 0};
}

static TF_Output fold(drawn_t *d, const char *op, TF_Output x) {
  char name[16];
  const int32_t axis = -1;
  const int64_t one = 1;
  snprintf(name, sizeof name, "axis%d", d->num_nodes);
  const TF_Output axes = constant(&d->w, d->w.g, name, new_ints(1, &one, &axis));
  snprintf(name, sizeof name, "n%d", d->num_nodes++);
  TF_OperationDescription *o = TF_NewOperation(d->w.g, op, name);
  TF_AddInput(o, x);
  TF_AddInput(o, axes);
  TF_SetAttrBool(o, "keep_dims", 1);
  TF_Operation *n = TF_FinishOperation(o, d->w.s);
  ASSERT_OK(&d->w);
  return (TF_Output){n, 0};
}

static const TF_Output none = {NULL, 0};

/* What makes shares of the scores. */
static TF_Output add_shares(drawn_t *d, TF_Output x) {
  switch (draw(&d->seed, 6)) {
    case 0: {
      const TF_Output e = node(d, "Exp", node(d, "Sub", x, fold(d, "Max", x)), none);
      return node(d, "RealDiv", e, fold(d, "Sum", e));
    }
    case 1: return node(d, "Exp", node(d, "LogSoftmax", x, none), none);
    case 2: return node(d, "Relu", x, none);
    default: return node(d, "Softmax", x, none);
  }
}

static TF_Output einsum(drawn_t *d, const char *name, const char *equation, TF_Output x, TF_Output y) {
  const TF_Output inputs[] = {x, y};
  TF_OperationDescription *o = TF_NewOperation(d->w.g, "Einsum", name);
  TF_AddInputList(o, inputs, 2);
  TF_SetAttrString(o, "equation", equation, strlen(equation));
  TF_Operation *n = TF_FinishOperation(o, d->w.s);
  ASSERT_OK(&d->w);
  return (TF_Output){n, 0};
}

/* The operand of an Einsum with these labels. sizes: by label, from 'a' on. */
static TF_Output add_term(drawn_t *d, const char *term, const int64_t *sizes) {
  int64_t dims[8];
  int rank = 0;
  for (; term[rank] != '\0'; rank++) dims[rank] = sizes[term[rank] - 'a'];
  return add_input(d, rank, dims);
}

/* The same as Einsum, with the dimensions of each operand in any order: a and c are the batch, b the queries,
 * e the keys, d and f what they have of each. */
static TF_Output einsum_first(drawn_t *d, const int64_t *sizes) {
  static const char *const queries[] = {"abcd", "acbd", "acdb", "bacd", "cabd"}, *const keys[] = {
                                                                                     "aecd", "aced", "acde",
                                                                                     "eacd", "adec"};
  const char *q = queries[draw(&d->seed, 5)], *k = keys[draw(&d->seed, 5)];
  const bool swaps = draw(&d->seed, 2) == 0;
  char equation[32];
  snprintf(equation, sizeof equation, "%s,%s->acbe", swaps ? k : q, swaps ? q : k);
  const TF_Output first = add_term(d, swaps ? k : q, sizes);
  return einsum(d, "first", equation, first, add_term(d, swaps ? q : k, sizes));
}

static TF_Output einsum_second(drawn_t *d, const int64_t *sizes, TF_Output x) {
  static const char *const values[] = {"aecf", "acef", "acfe", "eacf", "afec"}, *const outs[] = {
                                                                                    "abcf", "acbf", "acfb",
                                                                                    "bcaf"};
  const char *v = values[draw(&d->seed, 5)];
  char equation[32];
  snprintf(equation, sizeof equation, "acbe,%s->%s", v, outs[draw(&d->seed, 4)]);
  return einsum(d, "second", equation, x, add_term(d, v, sizes));
}

/* q [B..., S, D], k [B..., T, D], v [B..., T, E]; batches may be broadcast, matrices transposed. */
static TF_Output build(drawn_t *d) {
  static const int64_t lengths[] = {1, 2, 7, 8, 15, 57, 64, 113, 129, 300}, depths[] = {1, 2, 8, 33, 64, 70};
  static const char *const ops[] = {"BatchMatMulV2", "BatchMatMulV2", "BatchMatMulV3", "BatchMatMul"};
  const int64_t S = lengths[draw(&d->seed, 10)], T = lengths[draw(&d->seed, 10)],
                D = depths[draw(&d->seed, 6)], E = depths[draw(&d->seed, 6)];
  const int64_t B = 1 + draw(&d->seed, 3), H = 1 + draw(&d->seed, 3);
  const char *op = ops[draw(&d->seed, 4)];
  const bool broadcasts = strcmp(op, "BatchMatMul") != 0 && draw(&d->seed, 3) == 0;
  const bool turns_q = draw(&d->seed, 6) == 0, turns_k = draw(&d->seed, 5) > 0,
             turns_v = draw(&d->seed, 6) == 0;
  int64_t q[] = {B, H, turns_q ? D : S, turns_q ? S : D}, k[] = {B, H, turns_k ? T : D, turns_k ? D : T},
          v[] = {B, H, turns_v ? E : T, turns_v ? T : E};
  const int64_t sizes[] = {B, S, H, D, T, E};
  const bool are_einsums = draw(&d->seed, 3) == 0;
  if (broadcasts) k[draw(&d->seed, 2)] = v[draw(&d->seed, 2)] = 1;
  TF_Output x = are_einsums
                    ? einsum_first(d, sizes)
                    : product(d, op, "first", add_input(d, 4, q), add_input(d, 4, k), turns_q, turns_k);
  if (draw(&d->seed, 4) > 0)
    x = node(d, draw(&d->seed, 2) == 0 ? "Mul" : "RealDiv", x,
             constant(&d->w, d->w.g, "scale", new_float(0.3f)));
  const int64_t masks[][4] = {{B, 1, 1, T}, {1, 1, S, T}, {B, H, S, T}, {1, 1, S, 1}, {1, H, 1, 1}};
  const uint32_t mask = draw(&d->seed, 7);
  if (mask < 5) x = node(d, draw(&d->seed, 4) == 0 ? "Mul" : "AddV2", x, add_input(d, 4, masks[mask]));
  x = add_shares(d, x);
  const bool reads_scores = draw(&d->seed, 12) == 0 && !are_einsums;
  TF_Output y = are_einsums ? einsum_second(d, sizes, x)
                            : product(d, op, "second", x, add_input(d, 4, v), false, turns_v);
  if (reads_scores) y = node(d, "AddV2", node(d, "Neg", y, none), fold(d, "Sum", x));
  return y;
}

static void drawn_open(drawn_t *d, uint64_t seed) {
  *d = (drawn_t){.seed = seed};
  world_open(&d->w);
}

static void make_sessions(drawn_t *d) {
  d->fused = new_session(&d->w, true);
  d->plain = new_session(&d->w, false);
}

static void drawn_close(drawn_t *d) {
  TF_Session *const both[] = {d->fused, d->plain};
  for (int i = 0; i < d->num_feeds; i++) TF_DeleteTensor(d->fed[i]);
  for (int i = 0; i < 2; i++) {
    TF_CloseSession(both[i], d->w.s);
    TF_DeleteSession(both[i], d->w.s);
  }
  world_close(&d->w);
}

static TF_Tensor *run_in(drawn_t *d, TF_Session *s, TF_Output y) {
  TF_Tensor *out = NULL;
  TF_SessionRun(s, NULL, d->feeds, d->fed, d->num_feeds, &y, &out, 1, NULL, 0, NULL, d->w.s);
  return out;
}

static void compare(uint64_t seed) {
  static drawn_t d;
  drawn_open(&d, seed);
  const TF_Output y = build(&d);
  make_sessions(&d);
  for (int again = 0; again < 2; again++) {
    TF_Tensor *got = run_in(&d, d.fused, y);
    ASSERT_OK(&d.w);
    TF_Tensor *want = run_in(&d, d.plain, y);
    ASSERT_OK(&d.w);
    const size_t bytes = TF_TensorByteSize(want);
    const bool same = TF_TensorByteSize(got) == bytes && TF_NumDims(got) == TF_NumDims(want) &&
                      memcmp(TF_TensorData(got), TF_TensorData(want), bytes) == 0;
    if (!same) printf("seed %llu differs\n", (unsigned long long)seed);
    CU_ASSERT_TRUE(same);
    TF_DeleteTensor(got);
    TF_DeleteTensor(want);
  }
  drawn_close(&d);
}

static void random_attentions_give_the_same_bits(void) {
  const char *cases = getenv("WEFT_ATTENTION_CASES");
  const int n = cases == NULL ? 120 : atoi(cases);
  for (int i = 0; i < n; i++) compare((uint64_t)i * 6151 + 3);
}

/* softmax(q . k' * scale + mask) . v with these shapes. */
static TF_Output build_plain(drawn_t *d, const int64_t *q, const int64_t *k, const int64_t *mask,
                             const int64_t *v) {
  drawn_open(d, 1);
  TF_Output x = product(d, "BatchMatMulV2", "first", add_input(d, 3, q), add_input(d, 3, k), false, true);
  x = node(d, "Mul", x, constant(&d->w, d->w.g, "scale", new_float(0.125f)));
  x = binary(&d->w, d->w.g, "AddV2", "masked", x, add_input(d, 3, mask));
  x = product(d, "BatchMatMulV2", "second", node(d, "Softmax", x, none), add_input(d, 3, v), false, false);
  make_sessions(d);
  return node(d, "Neg", x, none);
}

static bool ran(drawn_t *d, TF_Session *s, TF_Output y, const char *op) {
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  TF_Tensor *out = NULL;
  TF_SessionRun(s, options, d->feeds, d->fed, d->num_feeds, &y, &out, 1, NULL, 0, metadata, d->w.s);
  ASSERT_OK(&d->w);
  const bool has = memmem(metadata->data, metadata->length, op, strlen(op)) != NULL;
  TF_DeleteTensor(out);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  return has;
}

static void the_three_are_one_node(void) {
  static drawn_t d;
  const int64_t q[] = {2, 20, 8}, mask[] = {1, 20, 20};
  const TF_Output y = build_plain(&d, q, q, mask, q);
  CU_ASSERT_TRUE(ran(&d, d.fused, y, "_WeftAttention"));
  CU_ASSERT_FALSE(ran(&d, d.plain, y, "_WeftAttention"));
  CU_ASSERT_TRUE(ran(&d, d.plain, y, "BatchMatMulV2"));
  drawn_close(&d);
}

/* As Keras writes it, with operands [batch, length, heads, depth]. */
static void einsums_and_what_is_between_them_are_one_node(void) {
  static drawn_t d;
  const int64_t sizes[] = {2, 20, 3, 8, 30, 8};
  drawn_open(&d, 1);
  const TF_Output k = add_term(&d, "aecd", sizes), q = add_term(&d, "abcd", sizes);
  const TF_Output x = node(&d, "Softmax", einsum(&d, "first", "aecd,abcd->acbe", k, q), none);
  TF_Output y = einsum(&d, "second", "acbe,aecd->abcd", x, k);
  y = node(&d, "Neg", y, none);
  make_sessions(&d);
  CU_ASSERT_TRUE(ran(&d, d.fused, y, "_WeftAttention"));
  CU_ASSERT_TRUE(ran(&d, d.plain, y, "Einsum"));
  drawn_close(&d);
}

static void a_failure_names_its_part(void) {
  static const struct {
    int64_t q[3], k[3], mask[3], v[3];
    const char *text, *name;
  } cases[] = {
      {{2, 9, 8}, {2, 9, 7}, {1, 1, 9}, {2, 9, 8}, "Matrix size-incompatible", "{{node first}}"},
      {{2, 9, 8}, {3, 9, 8}, {1, 1, 9}, {2, 9, 8}, "compatible batch dimensions", "{{node first}}"},
      {{2, 9, 8}, {2, 9, 8}, {1, 1, 8}, {2, 9, 8}, "Incompatible shapes", "{{node masked}}"},
      {{2, 9, 8}, {2, 9, 8}, {1, 1, 9}, {2, 8, 8}, "Matrix size-incompatible", "{{node second}}"},
      {{2, 9, 8}, {2, 9, 8}, {1, 1, 9}, {3, 9, 8}, "compatible batch dimensions", "{{node second}}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    static drawn_t d;
    char first[1024];
    const TF_Output y = build_plain(&d, cases[i].q, cases[i].k, cases[i].mask, cases[i].v);
    (void)run_in(&d, d.fused, y);
    ASSERT_FAILS(&d.w, TF_INVALID_ARGUMENT, cases[i].text);
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(d.w.s), cases[i].name));
    snprintf(first, sizeof first, "%s", TF_Message(d.w.s));
    (void)run_in(&d, d.plain, y);
    CU_ASSERT_STRING_EQUAL(first, TF_Message(d.w.s));
    drawn_close(&d);
  }
}

static const CU_TestInfo tests[] = {
    {"random attentions give the same bits", random_attentions_give_the_same_bits},
    {"the three are one node", the_three_are_one_node},
    {"Einsums and what is between them are one node", einsums_and_what_is_between_them_are_one_node},
    {"a failure names its part", a_failure_names_its_part},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("attention in steps", tests); }
