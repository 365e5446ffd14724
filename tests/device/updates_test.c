/* tests/device/updates_test.c - updates of many variables that a device computes at once (_WeftUpdates) give
 * what they give one by one, and fail as they do then.
 *
 * Graphs are drawn from a seed: variables by reference and by handle, of several sizes and types, updates by
 * several rules, some of which wait for others.
 */
#define _GNU_SOURCE /* memmem */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/client/client_testing.h"
#include "tests/cuda/fake/fake.h"

enum { MAX_UPDATES = 96, MAX_VARS = 3, MAX_INPUTS = 10 };
static const TF_Output none = {NULL, 0};
static char device[128];

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

/* ---- graphs ---- */

typedef struct drawn_update {
  TF_Operation *op, *inits[MAX_VARS];
  TF_Output reads[MAX_VARS]; /* as doubles */
  int num_vars;
  bool is_short; /* of half precision */
} drawn_update_t;

typedef struct update_graph {
  world_t w;
  const char *device;
  drawn_update_t updates[MAX_UPDATES];
  int n, num_values; /* num_values: for names */
} update_graph_t;

static TF_Output finish(update_graph_t *u, TF_OperationDescription *d, const char *on) {
  TF_SetDevice(d, on);
  TF_Operation *o = TF_FinishOperation(d, u->w.s);
  ASSERT_OK(&u->w);
  return (TF_Output){o, 0};
}

static TF_Output cast(update_graph_t *u, TF_Output x, TF_DataType to, const char *on) {
  char name[32];
  if (TF_OperationOutputType(x) == to) return x;
  snprintf(name, sizeof name, "cast%d", u->num_values++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  return finish(u, d, on);
}

/* A constant of `n` elements around `middle`; n < 0: a scalar. */
static TF_Output value(update_graph_t *u, TF_DataType type, int64_t n, float middle, uint64_t *seed) {
  char name[32];
  const int64_t count = n < 0 ? 1 : n;
  float *v = malloc((size_t)(count + 1) * sizeof *v);
  for (int64_t i = 0; i < count; i++) v[i] = middle * (1 + (float)draw(seed, 1024) / 2048);
  TF_Tensor *t = n < 0 ? new_float(v[0]) : new_floats(1, &n, v);
  free(v);
  snprintf(name, sizeof name, "value%d", u->num_values++);
  return cast(u, constant(&u->w, u->w.g, name, t), type, "/device:CPU:0");
}

static TF_Output add_variable(update_graph_t *u, drawn_update_t *x, const char *name, bool is_ref,
                              TF_Output first, int64_t n) {
  char text[96];
  TF_OperationDescription *d = TF_NewOperation(u->w.g, is_ref ? "VariableV2" : "VarHandleOp", name);
  TF_SetAttrType(d, "dtype", TF_OperationOutputType(first));
  TF_SetAttrShape(d, "shape", &n, 1);
  const TF_Output var = finish(u, d, u->device);
  snprintf(text, sizeof text, "%s/init", name);
  d = TF_NewOperation(u->w.g, is_ref ? "Assign" : "AssignVariableOp", text);
  TF_AddInput(d, var);
  TF_AddInput(d, first);
  x->inits[x->num_vars] = finish(u, d, u->device).oper;
  snprintf(text, sizeof text, "%s/read", name);
  d = TF_NewOperation(u->w.g, is_ref ? "Identity" : "ReadVariableOp", text);
  TF_AddInput(d, var);
  if (!is_ref) TF_SetAttrType(d, "dtype", TF_OperationOutputType(first));
  x->reads[x->num_vars++] = cast(u, finish(u, d, u->device), TF_DOUBLE, "/device:CPU:0");
  return var;
}

/* v: a variable, s: a scalar, g: the gradient. */
typedef struct rule {
  const char *name, *inputs;
} rule_t;
static const rule_t rules[] = {{"GradientDescent", "vsg"},
                               {"Momentum", "vvsgs"},
                               {"Adam", "vvvssssssg"},
                               {"AssignAdd", "vg"},
                               {"AssignSub", "vg"}};
enum { NUM_RULES = sizeof rules / sizeof *rules, ADAM = 2, ADD = 3 };

/* What an update has. */
typedef struct update_plan {
  const rule_t *rule;
  bool is_ref;
  TF_DataType type;
  int64_t n;
  TF_Output scalars[MAX_INPUTS], gradient; /* without a node: some constant */
  TF_Operation *behind;                    /* it waits for this; NULL: for nothing */
} update_plan_t;

static drawn_update_t *add_update(update_graph_t *u, const update_plan_t *p, uint64_t *seed) {
  drawn_update_t *x = &u->updates[u->n];
  char name[64], op[64];
  TF_Output inputs[MAX_INPUTS];
  int num_inputs = 0, scalar = 0;
  *x = (drawn_update_t){.is_short = p->type == TF_HALF || p->type == TF_BFLOAT16};
  for (const char *kind = p->rule->inputs; *kind != '\0'; kind++) {
    TF_Output in = none;
    if (*kind == 'v') {
      snprintf(name, sizeof name, "v%d_%d", u->n, x->num_vars);
      in = add_variable(u, x, name, p->is_ref, value(u, p->type, p->n, 0.5f, seed), p->n);
    } else if (*kind == 's') {
      in = p->scalars[scalar++];
      if (in.oper == NULL) in = value(u, p->type, -1, 0.25f, seed);
    } else {
      in = p->gradient.oper != NULL ? p->gradient : value(u, p->type, p->n, 0.125f, seed);
    }
    inputs[num_inputs++] = in;
  }
  const bool is_assign = p->rule->inputs[1] == 'g';
  snprintf(op, sizeof op, "%s%s%s",
           is_assign   ? ""
           : p->is_ref ? "Apply"
                       : "ResourceApply",
           p->rule->name, is_assign && !p->is_ref ? "VariableOp" : "");
  snprintf(name, sizeof name, "update%d", u->n++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, op, name);
  for (int i = 0; i < num_inputs; i++) TF_AddInput(d, inputs[i]);
  if (p->behind != NULL) TF_AddControlInput(d, p->behind);
  x->op = finish(u, d, u->device).oper;
  return x;
}

static void open_graph(update_graph_t *u, const char *on) {
  *u = (update_graph_t){.device = on};
  world_open(&u->w);
}

static void run_targets(update_graph_t *u, const TF_Operation *const *targets, int n) {
  if (u->w.session == NULL) {
    TF_SessionOptions *o = TF_NewSessionOptions();
    u->w.session = TF_NewSession(u->w.g, o, u->w.s);
    ASSERT_OK(&u->w);
    TF_DeleteSessionOptions(o);
  }
  TF_SessionRun(u->w.session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, n, NULL, u->w.s);
}

static void initialize(update_graph_t *u) {
  for (int i = 0; i < u->n; i++) {
    run_targets(u, (const TF_Operation *const *)u->updates[i].inits, u->updates[i].num_vars);
    ASSERT_OK(&u->w);
  }
}

static void update_all(update_graph_t *u) {
  const TF_Operation *targets[MAX_UPDATES];
  for (int i = 0; i < u->n; i++) targets[i] = u->updates[i].op;
  run_targets(u, targets, u->n);
}

/* How many elements of all variables differ, or differ by more than rounding does. */
static int num_different(update_graph_t *a, update_graph_t *b, bool to_the_bit) {
  int wrong = 0;
  for (int i = 0; i < a->n; i++) {
    const double tolerance = to_the_bit ? 0 : a->updates[i].is_short ? 0.02 : 1e-5;
    for (int k = 0; k < a->updates[i].num_vars; k++) {
      TF_Tensor *x = run1(&a->w, none, NULL, a->updates[i].reads[k]),
                *y = run1(&b->w, none, NULL, b->updates[i].reads[k]);
      ASSERT_OK(&a->w);
      ASSERT_OK(&b->w);
      CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(x), TF_TensorElementCount(y));
      const double *p = TF_TensorData(x), *q = TF_TensorData(y);
      for (int64_t e = 0; e < TF_TensorElementCount(x); e++)
        wrong += !(fabs(p[e] - q[e]) <= tolerance * (1 + fabs(q[e])));
      TF_DeleteTensor(x);
      TF_DeleteTensor(y);
    }
  }
  return wrong;
}

/* ---- what the driver has done ---- */

static bool is_cuda(void) { return strstr(device, "GPU") != NULL; }

/* -1: nothing counts them, because there is no CUDA or its driver is no fake. */
static long num_launches(void) {
  const char *file = getenv("WEFT_CUDA_DRIVER");
  void *driver = file == NULL ? NULL : dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  weft_fake_cuda_calls_fn *calls = NULL;
  if (driver != NULL) *(void **)&calls = dlsym(driver, WEFT_FAKE_CUDA_CALLS);
  return calls == NULL ? -1 : calls("cuLaunchKernel");
}

/* Does a step of all updates run a _WeftUpdates? Its statistics name what ran. */
static bool runs_together(update_graph_t *u) {
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  const TF_Operation *targets[MAX_UPDATES];
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  for (int i = 0; i < u->n; i++) targets[i] = u->updates[i].op;
  TF_SessionRun(u->w.session, options, NULL, NULL, 0, NULL, NULL, 0, targets, u->n, metadata, u->w.s);
  ASSERT_OK(&u->w);
  const bool does = memmem(metadata->data, metadata->length, "_WeftUpdates", 12) != NULL;
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  return does;
}

/* ---- the tests ---- */

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

/* The gradient, behind an update. */
static TF_Output behind(update_graph_t *u, TF_Output gradient, const drawn_update_t *after) {
  char name[32];
  snprintf(name, sizeof name, "again%d", u->num_values++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, "Identity", name);
  TF_AddInput(d, gradient);
  TF_AddControlInput(d, after->op);
  return finish(u, d, u->device);
}

static void build(update_graph_t *u, uint64_t seed, const char *on, bool with_edges) {
  static const TF_DataType types[] = {TF_FLOAT, TF_DOUBLE, TF_HALF, TF_BFLOAT16};
  static const int64_t sizes[] = {0, 1, 31, 5000, 257, 8192, 100};
  const uint32_t first_rule = draw(&seed, NUM_RULES), first_type = draw(&seed, 4);
  open_graph(u, on);
  const int n = 3 + (int)draw(&seed, 12);
  TF_Output shared[4][MAX_INPUTS];
  for (int t = 0; t < 4; t++) {
    for (int i = 0; i < MAX_INPUTS; i++) shared[t][i] = value(u, types[t], -1, 0.25f, &seed);
  }
  for (int i = 0; i < n; i++) {
    const uint32_t type = is_cuda() ? (first_type + draw(&seed, 2)) % 4 : 0;
    update_plan_t p = {.rule = &rules[(first_rule + draw(&seed, 2)) % NUM_RULES],
                       .is_ref = draw(&seed, 3) == 0,
                       .type = types[type],
                       .n = sizes[draw(&seed, 7)]};
    if (draw(&seed, 3) > 0) memcpy(p.scalars, shared[type], sizeof p.scalars);
    const drawn_update_t *after = i == 0 ? NULL : &u->updates[draw(&seed, (uint32_t)i)];
    const uint32_t edge = draw(&seed, 8);
    if (with_edges && after != NULL && edge == 0) p.behind = after->op;
    if (with_edges && after != NULL && edge == 1)
      p.gradient = behind(u, value(u, p.type, p.n, 0.125f, &seed), after);
    add_update(u, &p, &seed);
  }
}

static update_graph_t there, here; /* large */

static void compare(uint64_t seed, bool with_edges) {
  build(&there, seed, device, with_edges);
  build(&here, seed, with_edges ? "/device:CPU:0" : device, with_edges);
  initialize(&there);
  initialize(&here);
  for (int step = 0; step < 3; step++) {
    update_all(&there);
    ASSERT_OK(&there.w);
    if (with_edges) update_all(&here);
    for (int i = 0; !with_edges && i < here.n; i++) { /* one by one */
      const TF_Operation *one[] = {here.updates[i].op};
      run_targets(&here, one, 1);
      ASSERT_OK(&here.w);
    }
    ASSERT_OK(&here.w);
  }
  const int wrong = num_different(&there, &here, !with_edges);
  if (wrong > 0) printf("seed %llu: %d wrong\n", (unsigned long long)seed, wrong);
  CU_ASSERT_EQUAL(wrong, 0);
  world_close(&there.w);
  world_close(&here.w);
}

static void as_one_by_one_to_the_bit(void) {
  for (uint64_t i = 0; i < 8; i++) compare(i * 7919 + 1, false);
}

static void what_waits_for_another_is_not_merged_with_it(void) {
  for (uint64_t i = 0; i < 12; i++) compare(i * 104729 + 5, true);
}

/* `n` variables with one rule; a scalar each, if they are not shared. */
static void build_plain(update_graph_t *u, const rule_t *rule, int n, bool share) {
  uint64_t seed = 17;
  open_graph(u, device);
  update_plan_t p = {.rule = rule, .type = TF_FLOAT};
  for (int i = 0; share && i < MAX_INPUTS; i++) p.scalars[i] = value(u, TF_FLOAT, -1, 0.25f, &seed);
  for (int i = 0; i < n; i++) {
    p.n = i % 5 == 3 ? 0 : 7 * i + 1;
    add_update(u, &p, &seed);
  }
  initialize(u);
}

static void launches_of(const rule_t *rule, int n, bool share, long expected) {
  build_plain(&there, rule, n, share);
  update_all(&there); /* loads modules */
  ASSERT_OK(&there.w);
  const long before = num_launches();
  update_all(&there);
  ASSERT_OK(&there.w);
  CU_ASSERT(before < 0 || num_launches() - before == expected);
  CU_ASSERT_TRUE(!is_cuda() || runs_together(&there));
  world_close(&there.w);
}

static void one_launch_for_all(void) {
  const char *driver = getenv("WEFT_CUDA_DRIVER");
  CU_ASSERT(!is_cuda() || driver == NULL || strstr(driver, "emulated") == NULL || num_launches() >= 0);
  launches_of(&rules[ADAM], 20, true, 1);
  launches_of(&rules[ADAM], 90, true, 2);  /* a table has 64 rows */
  launches_of(&rules[ADAM], 10, false, 1); /* of which two are empty: 8 sets of scalars */
  launches_of(&rules[ADAM], 12, false, 2);
  launches_of(&rules[ADD], 20, true, 1);
}

static void they_ran_together(void) {
  build_plain(&there, &rules[ADD], 5, true);
  CU_ASSERT_TRUE(runs_together(&there));
  world_close(&there.w);
}

/* ---- failures ---- */

/* The message names that node and no other. */
static void names(const char *message, int update) {
  for (int i = 0; i < there.n; i++) {
    char text[32];
    snprintf(text, sizeof text, "{{node update%d}}", i);
    CU_ASSERT_EQUAL(strstr(message, text) != NULL, i == update);
  }
}

static void a_variable_without_a_value_is_named(bool is_ref) {
  uint64_t seed = 3;
  open_graph(&there, device);
  const update_plan_t p = {.rule = &rules[ADD], .type = TF_FLOAT, .n = 4, .is_ref = is_ref};
  for (int i = 0; i < 4; i++) add_update(&there, &p, &seed);
  there.n = 3; /* the last one is not initialized */
  initialize(&there);
  there.n = 4;
  const TF_Operation *last[] = {there.updates[3].op};
  run_targets(&there, last, 1);
  const TF_Code code = TF_GetCode(there.w.s);
  char alone[512];
  snprintf(alone, sizeof alone, "%s", TF_Message(there.w.s));
  CU_ASSERT_NOT_EQUAL(code, TF_OK);
  update_all(&there);
  CU_ASSERT_EQUAL(TF_GetCode(there.w.s), code);
  CU_ASSERT_STRING_EQUAL(TF_Message(there.w.s), alone);
  names(TF_Message(there.w.s), 3);
  there.n = 3; /* none of the others has changed */
  world_t *w = &there.w;
  TF_Tensor *x = run1(w, none, NULL, there.updates[0].reads[0]);
  ASSERT_OK(w);
  CU_ASSERT(((const double *)TF_TensorData(x))[0] < 0.76);
  TF_DeleteTensor(x);
  world_close(&there.w);
}

static void failures_name_the_variable_s_node(void) {
  a_variable_without_a_value_is_named(false);
  a_variable_without_a_value_is_named(true);
}

static void a_wrong_shape_is_named(void) {
  uint64_t seed = 3;
  const int64_t wrong[] = {5};
  const float v[5] = {0};
  open_graph(&there, device);
  update_plan_t p = {.rule = &rules[ADD], .type = TF_FLOAT, .n = 4};
  const TF_Output feed = placeholder(&there.w, there.w.g, "x", TF_FLOAT);
  for (int i = 0; i < 3; i++) {
    p.gradient = i == 1 ? feed : none;
    add_update(&there, &p, &seed);
  }
  initialize(&there);
  const TF_Operation *targets[3];
  for (int i = 0; i < 3; i++) targets[i] = there.updates[i].op;
  TF_Tensor *in = new_floats(1, wrong, v);
  TF_SessionRun(there.w.session, NULL, &feed, &in, 1, NULL, NULL, 0, targets, 3, NULL, there.w.s);
  CU_ASSERT_EQUAL(TF_GetCode(there.w.s), TF_INVALID_ARGUMENT);
  names(TF_Message(there.w.s), 1);
  TF_DeleteTensor(in);
  world_close(&there.w);
}

/* Each allocation of a step that is compiled anew fails once; the next step is whole again. (Work on a LATE
 * device needs memory, too, and a device whose work has failed stays so.) */
static void without_memory_nothing_is_harmed(void) {
  for (long n = 0;; n++) {
    build_plain(&there, &rules[ADD], 3, true);
    weft_fault_arm(n);
    update_all(&there);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    const TF_Code code = TF_GetCode(there.w.s);
    CU_ASSERT(code == TF_OK || code == TF_RESOURCE_EXHAUSTED);
    update_all(&there);
    CU_ASSERT(TF_GetCode(there.w.s) == TF_OK || (!is_cuda() && code != TF_OK));
    world_close(&there.w);
    if (!fired) break;
  }
}

/* ---- what must stay apart ---- */

static double first_of(TF_Output read) {
  TF_Tensor *t = run1(&there.w, none, NULL, read);
  ASSERT_OK(&there.w);
  const double v = *(const double *)TF_TensorData(t);
  TF_DeleteTensor(t);
  return v;
}

/* An AssignAdd of `gradient` to a new variable of one element. */
static drawn_update_t *add_to_new(TF_Output gradient, uint64_t *seed) {
  const update_plan_t p = {.rule = &rules[ADD], .type = TF_FLOAT, .n = 1, .gradient = gradient};
  return add_update(&there, &p, seed);
}

/* Two updates of one variable are both done. */
static void one_variable_twice(void) {
  uint64_t seed = 9;
  open_graph(&there, device);
  const drawn_update_t *x = add_to_new(none, &seed);
  TF_OperationDescription *d = TF_NewOperation(there.w.g, "AssignAddVariableOp", "again");
  TF_AddInput(d, TF_OperationInput((TF_Input){x->op, 0}));
  TF_AddInput(d, TF_OperationInput((TF_Input){x->op, 1}));
  TF_Operation *again = finish(&there, d, device).oper;
  initialize(&there);
  const double before = first_of(x->reads[0]);
  const TF_Operation *once[] = {x->op}, *twice[] = {x->op, again};
  run_targets(&there, once, 1);
  const double step = first_of(x->reads[0]) - before;
  for (int i = 0; i < 3; i++) {
    run_targets(&there, twice, 2);
    ASSERT_OK(&there.w);
  }
  CU_ASSERT_DOUBLE_EQUAL(first_of(x->reads[0]), before + 7 * step, 1e-5);
  world_close(&there.w);
}

/* Behind a reference a value is what its variable's buffer has: what another update writes is not read by the
 * same launch. */
static void a_value_that_another_writes(void) {
  uint64_t seed = 9;
  open_graph(&there, device);
  update_plan_t p = {.rule = &rules[ADD], .type = TF_FLOAT, .n = 6, .is_ref = true};
  const drawn_update_t *x = add_update(&there, &p, &seed);
  TF_OperationDescription *d = TF_NewOperation(there.w.g, "Identity", "now");
  TF_AddInput(d, TF_OperationInput((TF_Input){x->op, 0}));
  p.gradient = finish(&there, d, device);
  add_update(&there, &p, &seed);
  initialize(&there);
  update_all(&there);
  const long before = num_launches();
  update_all(&there);
  ASSERT_OK(&there.w);
  CU_ASSERT(before < 0 || num_launches() - before == 2);
  world_close(&there.w);
}

/* Of the two sides of a predicate one is dead. */
static void sides_of_a_predicate(void) {
  uint64_t seed = 9;
  open_graph(&there, device);
  const int64_t one = 1;
  const float step = 2;
  unsigned char no = 0;
  const TF_Output predicate = placeholder(&there.w, there.w.g, "p", TF_BOOL);
  TF_OperationDescription *d = TF_NewOperation(there.w.g, "Switch", "switch");
  TF_AddInput(d, constant(&there.w, there.w.g, "step", new_floats(1, &one, &step)));
  TF_AddInput(d, predicate);
  const TF_Output sides = finish(&there, d, device);
  const drawn_update_t *on_false = add_to_new(sides, &seed),
                       *on_true = add_to_new((TF_Output){sides.oper, 1}, &seed);
  initialize(&there);
  const double was_false = first_of(on_false->reads[0]), was_true = first_of(on_true->reads[0]);
  const TF_Operation *targets[] = {on_false->op, on_true->op};
  TF_Tensor *in = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
  memcpy(TF_TensorData(in), &no, 1);
  TF_SessionRun(there.w.session, NULL, &predicate, &in, 1, NULL, NULL, 0, targets, 2, NULL, there.w.s);
  ASSERT_OK(&there.w);
  CU_ASSERT_DOUBLE_EQUAL(first_of(on_false->reads[0]), was_false + 2, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(first_of(on_true->reads[0]), was_true, 1e-6);
  TF_DeleteTensor(in);
  world_close(&there.w);
}

/* The second one's gradient comes through a queue, into which it is put behind the first one: the graph does
 * not show that it waits. */
static void a_queue_between_them(void) {
  uint64_t seed = 9;
  const int64_t one = 1;
  const float step = 2;
  const TF_DataType type = TF_FLOAT;
  open_graph(&there, device);
  const drawn_update_t *first = add_to_new(none, &seed);
  TF_OperationDescription *d = TF_NewOperation(there.w.g, "FIFOQueueV2", "queue");
  TF_SetAttrTypeList(d, "component_types", &type, 1);
  const TF_Output queue = finish(&there, d, "/device:CPU:0");
  d = TF_NewOperation(there.w.g, "QueueEnqueueV2", "put");
  TF_AddInput(d, queue);
  const TF_Output element = constant(&there.w, there.w.g, "step", new_floats(1, &one, &step));
  TF_AddInputList(d, &element, 1);
  TF_AddControlInput(d, first->op);
  TF_Operation *put = finish(&there, d, "/device:CPU:0").oper;
  d = TF_NewOperation(there.w.g, "QueueDequeueV2", "take");
  TF_AddInput(d, queue);
  TF_SetAttrTypeList(d, "component_types", &type, 1);
  const drawn_update_t *second = add_to_new(finish(&there, d, "/device:CPU:0"), &seed);
  initialize(&there);
  const double before = first_of(second->reads[0]);
  const TF_Operation *targets[] = {first->op, put, second->op};
  run_targets(&there, targets, 3);
  ASSERT_OK(&there.w);
  CU_ASSERT_DOUBLE_EQUAL(first_of(second->reads[0]), before + 2, 1e-6);
  world_close(&there.w);
}

/* What an update by reference gives is the variable. */
static void outputs_are_their_variables(void) {
  uint64_t seed = 9;
  open_graph(&there, device);
  const update_plan_t p = {.rule = &rules[ADD], .type = TF_FLOAT, .n = 6, .is_ref = true};
  TF_Output fetches[3];
  TF_Tensor *out[3] = {NULL};
  for (int i = 0; i < 3; i++) fetches[i] = (TF_Output){add_update(&there, &p, &seed)->op, 0};
  initialize(&there);
  run(&there.w, NULL, NULL, 0, fetches, out, 3);
  ASSERT_OK(&there.w);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL((double)float_at(out[i], 0), first_of(there.updates[i].reads[0]));
    TF_DeleteTensor(out[i]);
  }
  world_close(&there.w);
}

static const CU_TestInfo tests[] = {
    {"there is a device", there_is_a_device}, /* which the others run on */
    {"they ran together", they_ran_together},
    {"one launch for all", one_launch_for_all},
    {"as one by one, to the bit", as_one_by_one_to_the_bit},
    {"what waits for another is not merged with it", what_waits_for_another_is_not_merged_with_it},
    {"failures name the variable's node", failures_name_the_variable_s_node},
    {"a wrong shape is named", a_wrong_shape_is_named},
    {"without memory nothing is harmed", without_memory_nothing_is_harmed},
    {"one variable twice", one_variable_twice},
    {"a value that another writes", a_value_that_another_writes},
    {"sides of a predicate", sides_of_a_predicate},
    {"a queue between them", a_queue_between_them},
    {"outputs are their variables", outputs_are_their_variables},
    CU_TEST_INFO_NULL,
};

int main(void) {
  setenv("WEFT_DEVICE_PATH", "tests/device/late/libweft_late.so", 0);
  return weft_run_tests("updates", tests);
}
