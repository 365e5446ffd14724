/* tests/client/chains_test.c - steps in which elementwise nodes are computed together give, bit for bit, what
 * they give node by node.
 *
 * Graphs are drawn from a seed: elementwise ops of several types over inputs whose shapes broadcast, with
 * nodes between them that are none, control edges, branches and two devices. Each is run in two sessions, of
 * which one has the pass turned off.
 */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/client/client_testing.h"

enum { MAX_NODES = 120, NUM_INPUTS = 14, MAX_FETCHES = 6, MAX_RANK = 3 };

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

/* ---- two sessions on one graph ---- */

typedef struct sessions {
  world_t w;
  TF_Session *fused, *plain;
} sessions_t;

static TF_Session *new_session(world_t *w, bool fuses) {
  /* ConfigProto: device_count {"CPU": 2}, graph_options.rewrite_options.implementation_selector: OFF */
  static const char config[] = {0x0a, 0x07, 0x0a, 0x03, 'C',  'P',        'U',  0x10,
                                0x02, 0x52, 0x05, 0x52, 0x03, (char)0xb0, 0x01, 0x02};
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, config, fuses ? 9 : sizeof config, w->s);
  ASSERT_OK(w);
  TF_Session *s = TF_NewSession(w->g, o, w->s);
  ASSERT_OK(w);
  TF_DeleteSessionOptions(o);
  return s;
}

static void sessions_open(sessions_t *s) {
  s->fused = new_session(&s->w, true);
  s->plain = new_session(&s->w, false);
}

static void sessions_close(sessions_t *s) {
  TF_Session *const both[] = {s->fused, s->plain};
  for (int i = 0; i < 2; i++) {
    TF_CloseSession(both[i], s->w.s);
    TF_DeleteSession(both[i], s->w.s);
  }
}

/* ---- random graphs ---- */

typedef struct any_value {
  TF_Output of;
  TF_DataType type;
  int rank;
  bool is_odd; /* it has a shape that does not broadcast with those of others */
} any_value_t;

typedef struct any_graph {
  sessions_t s;
  uint64_t seed;
  any_value_t values[NUM_INPUTS + MAX_NODES + 8];
  int num_values, num_nodes;
  TF_Output feeds[NUM_INPUTS + 1];
  TF_Tensor *fed[NUM_INPUTS + 1];
  int num_feeds;
  TF_Output fetches[MAX_FETCHES];
  int num_fetches;
  int64_t dims[MAX_RANK]; /* that all shapes broadcast to */
  TF_Output full, bias;   /* floats of this shape, and of its last dimension */
} any_graph_t;

static const TF_DataType types[] = {TF_FLOAT, TF_FLOAT, TF_FLOAT, TF_DOUBLE,
                                    TF_INT32, TF_INT64, TF_HALF,  TF_BOOL};

static TF_Output add_node(any_graph_t *a, const char *op, const TF_Output *in, int n, const char *type_attr,
                          TF_DataType type) {
  char name[16];
  snprintf(name, sizeof name, "n%d", a->num_nodes++);
  TF_OperationDescription *d = TF_NewOperation(a->s.w.g, op, name);
  if (strcmp(op, "AddN") == 0) {
    TF_AddInputList(d, in, n);
  } else {
    for (int i = 0; i < n; i++) TF_AddInput(d, in[i]);
  }
  if (type_attr != NULL) TF_SetAttrType(d, type_attr, type);
  if (draw(&a->seed, 10) == 0)
    TF_AddControlInput(d, a->values[draw(&a->seed, (uint32_t)a->num_values)].of.oper);
  TF_SetDevice(d, draw(&a->seed, 12) == 0 ? "/device:CPU:1" : "/device:CPU:0");
  TF_Operation *o = TF_FinishOperation(d, a->s.w.s);
  if (TF_GetCode(a->s.w.s) != TF_OK) printf("%s: %s\n", op, TF_Message(a->s.w.s));
  ASSERT_OK(&a->s.w);
  return (TF_Output){o, 0};
}

static int rank_of(const any_graph_t *a, TF_Output of) {
  for (int i = a->num_values - 1; i >= 0; i--) {
    if (a->values[i].of.oper == of.oper && a->values[i].of.index == of.index) return a->values[i].rank;
  }
  return 0;
}

static void keep(any_graph_t *a, TF_Output of, TF_DataType type, int rank) {
  a->values[a->num_values++] = (any_value_t){of, type, rank, false};
}

static int most(int x, int y) { return x > y ? x : y; }

/* A value of that type; mostly a late one, so that regions are large. */
static TF_Output pick(any_graph_t *a, TF_DataType type) {
  int at[NUM_INPUTS + MAX_NODES + 8], n = 0;
  for (int i = 0; i < a->num_values; i++) {
    if (a->values[i].type == type && !a->values[i].is_odd) at[n++] = i;
  }
  CU_ASSERT_TRUE_FATAL(n > 0); /* there is an input of each type */
  const uint32_t back = draw(&a->seed, 3) > 0 && n > 4 ? 4 : (uint32_t)n;
  return a->values[at[n - 1 - (int)draw(&a->seed, back)]].of;
}

static TF_Output feed(any_graph_t *a, TF_DataType type, int rank, const int64_t *dims) {
  char name[16];
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= dims[d];
  snprintf(name, sizeof name, "x%d", a->num_feeds);
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, (size_t)count * TF_DataTypeSize(type));
  for (int64_t i = 0; i < count; i++) {
    const float v = draw(&a->seed, 40) == 0 ? INFINITY : (float)draw(&a->seed, 4001) / 1000 - 2;
    switch (type) {
      case TF_FLOAT: ((float *)TF_TensorData(t))[i] = v; break;
      case TF_DOUBLE: ((double *)TF_TensorData(t))[i] = (double)v; break;
      case TF_INT32: ((int32_t *)TF_TensorData(t))[i] = (int32_t)draw(&a->seed, 200) - 100; break;
      case TF_INT64: ((int64_t *)TF_TensorData(t))[i] = (int64_t)draw(&a->seed, 200) - 100; break;
      case TF_HALF: ((uint16_t *)TF_TensorData(t))[i] = (uint16_t)draw(&a->seed, 65536); break;
      default: ((uint8_t *)TF_TensorData(t))[i] = (uint8_t)draw(&a->seed, 2); break;
    }
  }
  const TF_Output x = placeholder(&a->s.w, a->s.w.g, name, type);
  a->feeds[a->num_feeds] = x;
  a->fed[a->num_feeds++] = t;
  keep(a, x, type, rank);
  return x;
}

static void add_input(any_graph_t *a, TF_DataType type) {
  int64_t dims[MAX_RANK];
  const int rank = (int)draw(&a->seed, MAX_RANK + 1);
  for (int d = 0; d < rank; d++) dims[d] = draw(&a->seed, 3) == 0 ? 1 : a->dims[MAX_RANK - rank + d];
  (void)feed(a, type, rank, dims);
}

/* Two sides of a predicate, on each some nodes, and what they meet in. */
static void add_branch(any_graph_t *a, TF_Output pred) {
  const TF_Output switched[2] = {pick(a, TF_FLOAT), pred};
  const TF_Output s = add_node(a, "Switch", switched, 2, NULL, 0);
  TF_Output sides[2];
  for (int i = 0; i < 2; i++) {
    TF_Output x[2] = {{s.oper, i}, {s.oper, i}};
    x[0] = add_node(a, i == 0 ? "Tanh" : "Neg", x, 1, NULL, 0);
    x[0] = add_node(a, "Mul", x, 2, NULL, 0);
    if (draw(&a->seed, 2) == 0) x[0] = add_node(a, "Square", x, 1, NULL, 0);
    sides[i] = add_node(a, "Maximum", (TF_Output[]){x[0], {s.oper, i}}, 2, NULL, 0);
  }
  char name[16];
  snprintf(name, sizeof name, "n%d", a->num_nodes++);
  TF_OperationDescription *d = TF_NewOperation(a->s.w.g, "Merge", name);
  TF_AddInputList(d, sides, 2);
  TF_Operation *merge = TF_FinishOperation(d, a->s.w.s);
  ASSERT_OK(&a->s.w);
  keep(a, (TF_Output){merge, 0}, TF_FLOAT, rank_of(a, switched[0]));
}

static TF_Output axes_node(any_graph_t *a, const int32_t *axes, int n) {
  const int64_t dims[] = {n};
  TF_Tensor *t = TF_AllocateTensor(TF_INT32, dims, 1, (size_t)n * sizeof *axes);
  memcpy(TF_TensorData(t), axes, (size_t)n * sizeof *axes);
  char name[16];
  snprintf(name, sizeof name, "axes%d", a->num_nodes);
  TF_OperationDescription *d = TF_NewOperation(a->s.w.g, "Const", name);
  TF_SetAttrTensor(d, "value", t, a->s.w.s);
  ASSERT_OK(&a->s.w);
  TF_SetAttrType(d, "dtype", TF_INT32);
  TF_SetDevice(d, "/device:CPU:0");
  TF_Operation *o = TF_FinishOperation(d, a->s.w.s);
  ASSERT_OK(&a->s.w);
  TF_DeleteTensor(t);
  return (TF_Output){o, 0};
}

static TF_Output add_fold(any_graph_t *a, const char *op, TF_Output x, TF_Output axes, bool keep_dims) {
  char name[16];
  snprintf(name, sizeof name, "n%d", a->num_nodes++);
  TF_OperationDescription *d = TF_NewOperation(a->s.w.g, op, name);
  TF_AddInput(d, x);
  TF_AddInput(d, axes);
  TF_SetAttrBool(d, "keep_dims", keep_dims);
  TF_SetDevice(d, draw(&a->seed, 12) == 0 ? "/device:CPU:1" : "/device:CPU:0");
  TF_Operation *o = TF_FinishOperation(d, a->s.w.s);
  ASSERT_OK(&a->s.w);
  return (TF_Output){o, 0};
}

/* A reduction along the last axes, or sometimes others. What has lost dimensions goes on alone. */
static void add_reduction(any_graph_t *a, TF_DataType type) {
  static const char *const of_numbers[] = {"Sum", "Mean", "Max", "Min", "Prod"}, *const of_bools[] = {"All",
                                                                                                      "Any"};
  const TF_Output x = pick(a, type);
  const int rank = rank_of(a, x);
  int32_t axes[MAX_RANK];
  if (rank == 0) return;
  const int from = draw(&a->seed, 5) == 0 ? 0 : rank - 1 - (int)draw(&a->seed, (uint32_t)rank);
  const int n = draw(&a->seed, 5) == 0 ? 1 : rank - from, base = draw(&a->seed, 2) == 0 ? from : from - rank;
  for (int i = 0; i < n; i++) axes[i] = base + i;
  const bool keep_dims = draw(&a->seed, 4) > 0;
  const char *op = type == TF_BOOL ? of_bools[draw(&a->seed, 2)] : of_numbers[draw(&a->seed, 5)];
  const TF_Output y = add_fold(a, op, x, axes_node(a, axes, n), keep_dims);
  if (keep_dims || n == rank) {
    keep(a, y, type, keep_dims ? rank : 0);
    return;
  }
  if (type == TF_BOOL) return;
  const TF_Output squares = add_node(a, "Square", &y, 1, NULL, 0);
  const TF_Output end = add_node(a, "SquaredDifference", (TF_Output[]){y, squares}, 2, NULL, 0);
  a->values[a->num_values++] = (any_value_t){end, type, rank - n, true};
}

/* A row less its mean, in relation to its deviation; and a row of shares. */
static void add_normalisation(any_graph_t *a) {
  const TF_DataType type = draw(&a->seed, 4) == 0 ? TF_DOUBLE : TF_FLOAT;
  const TF_Output x = pick(a, type);
  const int rank = rank_of(a, x);
  if (rank == 0) return;
  const int32_t last = draw(&a->seed, 2) == 0 ? -1 : rank - 1;
  const TF_Output axes = axes_node(a, &last, 1);
  if (draw(&a->seed, 2) == 0) {
    const TF_Output max = add_fold(a, "Max", x, axes, true);
    const TF_Output e =
        add_node(a, "Exp", (TF_Output[]){add_node(a, "Sub", (TF_Output[]){x, max}, 2, NULL, 0)}, 1, NULL, 0);
    const TF_Output sum = add_fold(a, "Sum", e, axes, true);
    keep(a, add_node(a, "RealDiv", (TF_Output[]){e, sum}, 2, NULL, 0), type, rank);
    if (draw(&a->seed, 3) == 0) keep(a, sum, type, rank);
    return;
  }
  const TF_Output mean = add_fold(a, "Mean", x, axes, true);
  const TF_Output parts = add_node(a, "SquaredDifference", (TF_Output[]){x, mean}, 2, NULL, 0);
  const TF_Output variance = add_fold(a, "Mean", parts, axes, true);
  const TF_Output factor = add_node(a, "Rsqrt", &variance, 1, NULL, 0);
  const TF_Output scale = pick(a, type);
  const TF_Output scaled = add_node(a, "Mul", (TF_Output[]){factor, scale}, 2, NULL, 0);
  const TF_Output shift = add_node(a, "Mul", (TF_Output[]){mean, scaled}, 2, NULL, 0);
  const TF_Output y = add_node(a, "Mul", (TF_Output[]){x, scaled}, 2, NULL, 0);
  keep(a, add_node(a, "Sub", (TF_Output[]){y, shift}, 2, NULL, 0), type, most(rank, rank_of(a, scale)));
  if (draw(&a->seed, 3) == 0) keep(a, factor, type, rank);
}

static void add_bias(any_graph_t *a) {
  const TF_Output x = add_node(a, "AddV2", (TF_Output[]){pick(a, TF_FLOAT), a->full}, 2, NULL, 0);
  keep(a, add_node(a, "BiasAdd", (TF_Output[]){x, a->bias}, 2, NULL, 0), TF_FLOAT, MAX_RANK);
}

static void add_any(any_graph_t *a) {
  static const char *const of_floats[] = {"Neg",  "Square", "Relu",  "Tanh", "Sigmoid", "Exp",
                                          "Sqrt", "Abs",    "Floor", "Erf",  "Rsqrt",   "Sign"};
  static const char *const of_ints[] = {"Neg", "Abs", "Square", "Sign"};
  static const char *const twos[] = {"AddV2",   "Sub",     "Mul", "Maximum", "Minimum", "SquaredDifference",
                                     "RealDiv", "DivNoNan"};
  static const char *const compares[] = {"Less", "GreaterEqual", "Equal", "NotEqual"};
  static const char *const logic[] = {"LogicalAnd", "LogicalOr"};
  const TF_DataType type = types[draw(&a->seed, 8)];
  const bool is_float = type == TF_FLOAT || type == TF_DOUBLE || type == TF_HALF;
  TF_Output in[4] = {pick(a, type), pick(a, type)};
  const int first = rank_of(a, in[0]), both = most(first, rank_of(a, in[1]));
  const uint32_t kind = draw(&a->seed, 20);
  if (kind == 19) {
    add_bias(a);
  } else if (kind == 18) {
    add_normalisation(a);
  } else if (kind > 15) {
    add_reduction(a, type);
  } else if (kind == 0) { /* a node that is no link */
    if (type == TF_FLOAT) keep(a, add_node(a, "L2Loss", in, 1, NULL, 0), type, 0);
  } else if (kind == 1) {
    const TF_DataType to = types[draw(&a->seed, 8)];
    if (to != type) keep(a, add_node(a, "Cast", in, 1, "DstT", to), to, first);
  } else if (kind == 2) {
    in[2] = in[1];
    in[1] = in[0];
    in[0] = pick(a, TF_BOOL);
    keep(a, add_node(a, "SelectV2", in, 3, NULL, 0), type, most(both, rank_of(a, in[0])));
  } else if (kind == 3 && type != TF_BOOL) {
    for (int i = 1; i < 4; i++) in[i] = in[0];
    in[1] = add_node(a, "Square", in, 1, NULL, 0);
    if (type != TF_INT32) keep(a, add_node(a, "AddN", in, 2 + (int)draw(&a->seed, 3), NULL, 0), type, first);
  } else if (kind < 6) {
    const bool any = type != TF_BOOL;
    keep(a, add_node(a, any ? compares[draw(&a->seed, 4)] : logic[draw(&a->seed, 2)], in, 2, NULL, 0),
         TF_BOOL, both);
  } else if (kind < 11 || type == TF_BOOL) {
    const char *op = type == TF_BOOL ? "LogicalNot"
                     : is_float      ? of_floats[draw(&a->seed, 12)]
                                     : of_ints[draw(&a->seed, 4)];
    keep(a, add_node(a, op, in, 1, NULL, 0), type, first);
  } else {
    keep(a,
         add_node(a,
                  twos[draw(&a->seed, type == TF_FLOAT || type == TF_DOUBLE ? 8
                                      : is_float                            ? 7
                                                                            : 5)],
                  in, 2, NULL, 0),
         type, both);
  }
}

static void build(any_graph_t *a, uint64_t seed) {
  *a = (any_graph_t){.seed = seed};
  world_open(&a->s.w);
  static const int64_t sizes[][MAX_RANK] = {{1, 1, 1},    {2, 3, 5}, {2, 0, 5},    {4, 33, 65}, {3, 1, 7},
                                            {31, 5, 129}, {4, 3, 0}, {3, 2, 9000}, {2, 300, 3}};
  memcpy(a->dims, sizes[draw(&a->seed, 9)], sizeof a->dims);
  for (int i = 0; i < NUM_INPUTS - 3; i++) add_input(a, types[i % 8]);
  a->full = feed(a, TF_FLOAT, MAX_RANK, a->dims);
  a->bias = feed(a, TF_FLOAT, 1, &a->dims[MAX_RANK - 1]);
  const TF_Output pred = placeholder(&a->s.w, a->s.w.g, "pred", TF_BOOL);
  a->feeds[a->num_feeds] = pred;
  a->fed[a->num_feeds] = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
  *(uint8_t *)TF_TensorData(a->fed[a->num_feeds++]) = (uint8_t)draw(&a->seed, 2);
  const int n = 8 + (int)draw(&a->seed, MAX_NODES - 40);
  while (a->num_nodes < n) {
    if (draw(&a->seed, 20) == 0) {
      add_branch(a, pred);
    } else {
      add_any(a);
    }
  }
  const int first = NUM_INPUTS - 1; /* of the values that are not fed */
  a->num_fetches = 1 + (int)draw(&a->seed, MAX_FETCHES);
  for (int f = 0; f < a->num_fetches; f++)
    a->fetches[f] =
        a->values[f == 0 ? a->num_values - 1 : first + (int)draw(&a->seed, (uint32_t)(a->num_values - first))]
            .of;
  sessions_open(&a->s);
}

static void destroy(any_graph_t *a) {
  for (int i = 0; i < a->num_feeds; i++) TF_DeleteTensor(a->fed[i]);
  sessions_close(&a->s);
  world_close(&a->s.w);
}

/* Whether the bits are those of a NaN, whose sign and payload IEEE 754 leaves to the order of an operation's
 * operands. */
static bool is_nan(TF_DataType dtype, const void *p) {
  uint16_t half;
  float f;
  double d;
  switch (dtype) {
    case TF_FLOAT: return memcpy(&f, p, sizeof f), isnan(f);
    case TF_DOUBLE: return memcpy(&d, p, sizeof d), isnan(d);
    case TF_HALF: return memcpy(&half, p, sizeof half), (half & 0x7fff) > 0x7c00;
    case TF_BFLOAT16: return memcpy(&half, p, sizeof half), (half & 0x7fff) > 0x7f80;
    default: return false;
  }
}

static bool are_equal(const TF_Tensor *a, const TF_Tensor *b) {
  if (TF_NumDims(a) != TF_NumDims(b) || TF_TensorType(a) != TF_TensorType(b)) return false;
  for (int d = 0; d < TF_NumDims(a); d++) {
    if (TF_Dim(a, d) != TF_Dim(b, d)) return false;
  }
  const TF_DataType dtype = TF_TensorType(a);
  const size_t bytes = TF_TensorByteSize(a), size = TF_DataTypeSize(dtype);
  if (bytes != TF_TensorByteSize(b)) return false;
  const char *x = TF_TensorData(a), *y = TF_TensorData(b);
  if (bytes == 0 || memcmp(x, y, bytes) == 0) return true;
  for (size_t i = 0; i < bytes; i += size) {
    if (memcmp(x + i, y + i, size) != 0 && !(is_nan(dtype, x + i) && is_nan(dtype, y + i))) return false;
  }
  return true;
}

static void compare(uint64_t seed) {
  static any_graph_t a; /* large */
  build(&a, seed);
  for (int again = 0; again < 2; again++) {
    TF_Tensor *x[MAX_FETCHES] = {NULL}, *y[MAX_FETCHES] = {NULL};
    TF_SessionRun(a.s.fused, NULL, a.feeds, a.fed, a.num_feeds, a.fetches, x, a.num_fetches, NULL, 0, NULL,
                  a.s.w.s);
    if (TF_GetCode(a.s.w.s) != TF_OK)
      printf("seed %llu: %s\n", (unsigned long long)seed, TF_Message(a.s.w.s));
    ASSERT_OK(&a.s.w);
    TF_SessionRun(a.s.plain, NULL, a.feeds, a.fed, a.num_feeds, a.fetches, y, a.num_fetches, NULL, 0, NULL,
                  a.s.w.s);
    ASSERT_OK(&a.s.w);
    for (int f = 0; f < a.num_fetches; f++) {
      const bool same = are_equal(x[f], y[f]);
      if (!same)
        printf("seed %llu, fetch %d: %s differs\n", (unsigned long long)seed, f,
               TF_OperationName(a.fetches[f].oper));
      CU_ASSERT_TRUE(same);
      TF_DeleteTensor(x[f]);
      TF_DeleteTensor(y[f]);
    }
  }
  destroy(&a);
}

static void random_graphs_give_the_same_bits(void) {
  const char *cases = getenv("WEFT_CHAIN_CASES");
  const int n = cases == NULL ? 150 : atoi(cases);
  for (int i = 0; i < n; i++) compare((uint64_t)i * 7919 + 1);
}

/* ---- loops ---- */

static TF_Output unplaced(TF_Graph *g, TF_Status *s, const char *op, const char *name, TF_Output x,
                          TF_Output y) {
  TF_OperationDescription *d = TF_NewOperation(g, op, name);
  TF_AddInput(d, x);
  if (y.oper != NULL) TF_AddInput(d, y);
  if (strcmp(op, "Cast") == 0) TF_SetAttrType(d, "DstT", TF_FLOAT);
  TF_Operation *o = TF_FinishOperation(d, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  return (TF_Output){o, 0};
}

/* Values that an iteration computes together are read in it, in the next one and behind the loop. */
static void a_loop_gives_the_same_bits(void) {
  const TF_Output none = {NULL, 0};
  sessions_t s = {.fused = NULL};
  world_open(&s.w);
  TF_Graph *g = s.w.g;
  const TF_Output in[] = {placeholder(&s.w, g, "i", TF_INT32), placeholder(&s.w, g, "x", TF_FLOAT),
                          placeholder(&s.w, g, "y", TF_FLOAT)};
  TF_Output vars[] = {in[0], in[1], in[2]}, out[3];
  TF_WhileParams p = TF_NewWhile(g, vars, 3, s.w.s);
  ASSERT_OK(&s.w);
  p.name = "loop";
  p.cond_output = binary(&s.w, p.cond_graph, "Less", "less", p.cond_inputs[0],
                         constant(&s.w, p.cond_graph, "n", new_int(9)));
  TF_Graph *b = p.body_graph;
  const TF_Output one = constant(&s.w, b, "one", new_int(1)),
                  scale = constant(&s.w, b, "scale", new_float(0.9f));
  const TF_Output t =
      unplaced(b, s.w.s, "Tanh", "t", unplaced(b, s.w.s, "Mul", "scaled", p.body_inputs[1], scale), none);
  const TF_Output step = unplaced(b, s.w.s, "Cast", "step", p.body_inputs[0], none);
  const TF_Output z = unplaced(b, s.w.s, "Mul", "z", p.body_inputs[2], t);
  p.body_outputs[0] = unplaced(b, s.w.s, "AddV2", "next", p.body_inputs[0], one);
  p.body_outputs[1] = unplaced(b, s.w.s, "AddV2", "moved", t, step);
  p.body_outputs[2] = unplaced(b, s.w.s, "Sub", "rest", z, unplaced(b, s.w.s, "Square", "squares", t, none));
  TF_FinishWhile(&p, s.w.s, out);
  ASSERT_OK(&s.w);
  const TF_Output fetches[] = {out[0], out[1],
                               unary(&s.w, g, "Exp", "exp", unary(&s.w, g, "Neg", "neg", out[2]))};
  sessions_open(&s);
  const int64_t dims[] = {3, 5};
  float v[15];
  for (int i = 0; i < 15; i++) v[i] = (float)i / 8 - 1;
  TF_Tensor *values[] = {new_int(0), new_floats(1, dims + 1, v), new_floats(2, dims, v)}, *got[3] = {NULL},
            *want[3] = {NULL};
  TF_SessionRun(s.fused, NULL, in, values, 3, fetches, got, 3, NULL, 0, NULL, s.w.s);
  ASSERT_OK(&s.w);
  TF_SessionRun(s.plain, NULL, in, values, 3, fetches, want, 3, NULL, 0, NULL, s.w.s);
  ASSERT_OK(&s.w);
  CU_ASSERT_EQUAL(int_at(got[0], 0), 9);
  for (int f = 0; f < 3; f++) {
    CU_ASSERT_TRUE(are_equal(got[f], want[f]));
    TF_DeleteTensor(got[f]);
    TF_DeleteTensor(want[f]);
    TF_DeleteTensor(values[f]);
  }
  sessions_close(&s);
  world_close(&s.w);
}

/* ---- what a step shows ---- */

static void a_failure_names_the_node(void) {
  sessions_t s = {.fused = NULL};
  world_open(&s.w);
  const int64_t a[] = {2}, b[] = {3};
  const float v[3] = {1, 2, 3};
  const TF_Output in[] = {placeholder(&s.w, s.w.g, "x", TF_FLOAT), placeholder(&s.w, s.w.g, "y", TF_FLOAT)};
  TF_Output y = binary(&s.w, s.w.g, "AddV2", "sum", unary(&s.w, s.w.g, "Square", "before", in[0]), in[1]);
  y = unary(&s.w, s.w.g, "Tanh", "behind", y);
  sessions_open(&s);
  TF_Tensor *values[] = {new_floats(1, a, v), new_floats(1, b, v)}, *out = NULL;
  char first[512] = "";
  for (int i = 0; i < 2; i++) {
    TF_SessionRun(i == 0 ? s.fused : s.plain, NULL, in, values, 2, &y, &out, 1, NULL, 0, NULL, s.w.s);
    ASSERT_FAILS(&s.w, TF_INVALID_ARGUMENT, "Incompatible shapes: [2] vs. [3]");
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(s.w.s), "{{node sum}}"));
    if (i == 0) snprintf(first, sizeof first, "%s", TF_Message(s.w.s));
  }
  CU_ASSERT_STRING_EQUAL(first, TF_Message(s.w.s));
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  sessions_close(&s);
  world_close(&s.w);
}

static bool ran_a_chain(world_t *w, TF_Session *s, TF_Output x, TF_Output y) {
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  TF_Tensor *in = new_float(0.5f), *out = NULL;
  TF_SessionRun(s, options, &x, &in, 1, &y, &out, 1, NULL, 0, metadata, w->s);
  ASSERT_OK(w);
  const bool has = memmem(metadata->data, metadata->length, "_WeftChain", 10) != NULL;
  TF_DeleteTensor(in);
  TF_DeleteTensor(out);
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  return has;
}

static void a_session_turns_it_off(void) {
  sessions_t s = {.fused = NULL};
  world_open(&s.w);
  const TF_Output x = placeholder(&s.w, s.w.g, "x", TF_FLOAT);
  const TF_Output y = unary(&s.w, s.w.g, "Tanh", "b", unary(&s.w, s.w.g, "Neg", "a", x));
  sessions_open(&s);
  CU_ASSERT_TRUE(ran_a_chain(&s.w, s.fused, x, y));
  CU_ASSERT_FALSE(ran_a_chain(&s.w, s.plain, x, y));
  sessions_close(&s);
  world_close(&s.w);
}

/* A client that feeds one value when it has seen another gets that. */
static void a_partial_run_sees_each_node(void) {
  world_t w;
  world_open(&w);
  const TF_Output in[] = {placeholder(&w, w.g, "x", TF_FLOAT), placeholder(&w, w.g, "y", TF_FLOAT)};
  const TF_Output a = unary(&w, w.g, "Neg", "a", in[0]), b = binary(&w, w.g, "Mul", "b", a, in[1]);
  const TF_Output fetches[] = {a, b};
  TF_Session *s = new_session(&w, true);
  const char *handle = NULL;
  TF_SessionPRunSetup(s, in, 2, fetches, 2, NULL, 0, &handle, w.s);
  ASSERT_OK(&w);
  TF_Tensor *value = new_float(3), *got = NULL;
  TF_SessionPRun(s, handle, &in[0], &value, 1, &a, &got, 1, NULL, 0, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(got, 0), -3);
  TF_Tensor *next = NULL;
  TF_SessionPRun(s, handle, &in[1], &got, 1, &b, &next, 1, NULL, 0, w.s);
  ASSERT_OK(&w);
  CU_ASSERT_EQUAL(float_at(next, 0), 9);
  TF_DeleteTensor(value);
  TF_DeleteTensor(got);
  TF_DeleteTensor(next);
  TF_DeletePRunHandle(handle);
  TF_CloseSession(s, w.s);
  TF_DeleteSession(s, w.s);
  world_close(&w);
}

/* Shapes change from step to step, more often than the kernel remembers. */
static void shapes_change_from_step_to_step(void) {
  sessions_t s = {.fused = NULL};
  world_open(&s.w);
  const TF_Output x = placeholder(&s.w, s.w.g, "x", TF_FLOAT), a = unary(&s.w, s.w.g, "Tanh", "a", x),
                  b = binary(&s.w, s.w.g, "Mul", "b", a, x), fetches[] = {a, b};
  sessions_open(&s);
  float *v = malloc(40000 * sizeof *v);
  for (int i = 0; i < 40000; i++) v[i] = (float)(i % 1000) / 500 - 1;
  for (int64_t n = 0; n < 24; n++) {
    const int64_t dims[] = {(n * 7 % 12) * (n * 7 % 12) * (n % 2 == 0 ? 300 : 1)};
    TF_Tensor *in = new_floats(1, dims, v), *got[2] = {NULL}, *want[2] = {NULL};
    TF_SessionRun(s.fused, NULL, &x, &in, 1, fetches, got, 2, NULL, 0, NULL, s.w.s);
    ASSERT_OK(&s.w);
    TF_SessionRun(s.plain, NULL, &x, &in, 1, fetches, want, 2, NULL, 0, NULL, s.w.s);
    ASSERT_OK(&s.w);
    for (int f = 0; f < 2; f++) {
      CU_ASSERT_TRUE(are_equal(got[f], want[f]));
      TF_DeleteTensor(got[f]);
      TF_DeleteTensor(want[f]);
    }
    TF_DeleteTensor(in);
  }
  free(v);
  sessions_close(&s);
  world_close(&s.w);
}

static const CU_TestInfo tests[] = {
    {"a session turns it off", a_session_turns_it_off},
    {"random graphs give the same bits", random_graphs_give_the_same_bits},
    {"a loop gives the same bits", a_loop_gives_the_same_bits},
    {"a failure names the node", a_failure_names_the_node},
    {"a partial run sees each node", a_partial_run_sees_each_node},
    {"shapes change from step to step", shapes_change_from_step_to_step},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("chains in steps", tests); }
