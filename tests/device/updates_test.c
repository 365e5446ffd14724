/* tests/device/updates_test.c - updates of many variables that a device computes at once (_WeftUpdates) give
 * what they give one by one, and fail as they do then. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/cuda/fake/fake.h"
#include "tests/device/update_graphs.h"

static char device[128];

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
  names_update(&there, TF_Message(there.w.s), 3);
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
  names_update(&there, TF_Message(there.w.s), 1);
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
