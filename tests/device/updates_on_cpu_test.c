/* tests/device/updates_on_cpu_test.c - updates of small variables that the CPU computes in one call
 * (_WeftUpdates) give what they give apart, to the bit, and fail as they do then. */
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tests/device/update_graphs.h"

static const char device[] = "/device:CPU:0";
static update_graph_t joint, apart; /* large */

/* ---- results ---- */

/* Of the larger sizes only the narrow types are small. */
static void build(update_graph_t *u, uint64_t seed, bool with_edges) {
  static const TF_DataType types[] = {TF_FLOAT, TF_DOUBLE, TF_HALF, TF_BFLOAT16};
  static const int64_t sizes[] = {0, 1, 31, 5000, 257, 8192, 100};
  const uint32_t first_rule = draw(&seed, ADD), first_type = draw(&seed, 4);
  const bool hides_shapes = u->hides_shapes;
  open_graph(u, device);
  u->hides_shapes = hides_shapes;
  const int n = 3 + (int)draw(&seed, 20);
  TF_Output shared[4][MAX_INPUTS];
  for (int t = 0; t < 4; t++) {
    for (int i = 0; i < MAX_INPUTS; i++) shared[t][i] = value(u, types[t], -1, 0.25f, &seed);
  }
  for (int i = 0; i < n; i++) {
    const uint32_t type = (first_type + draw(&seed, 2)) % 4;
    update_plan_t p = {.rule = &rules[(first_rule + draw(&seed, 2)) % NUM_RULES],
                       .is_ref = !with_edges && draw(&seed, 3) == 0,
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
  initialize(u);
}

static void close_both(void) {
  const int wrong = num_different(&joint, &apart, true);
  CU_ASSERT_EQUAL(wrong, 0);
  world_close(&joint.w);
  world_close(&apart.w);
}

/* Enough steps for the program of the plan to be run. */
enum { STEPS = 5 };

static void as_one_by_one_to_the_bit(void) {
  for (uint64_t seed = 0; seed < 12; seed++) {
    build(&joint, seed * 7919 + 1, false);
    build(&apart, seed * 7919 + 1, false);
    for (int step = 0; step < STEPS; step++) {
      update_all(&joint);
      ASSERT_OK(&joint.w);
      for (int i = 0; i < apart.n; i++) {
        const TF_Operation *one[] = {apart.updates[i].op};
        run_targets(&apart, one, 1);
        ASSERT_OK(&apart.w);
      }
    }
    close_both();
  }
}

/* What does not say its shape is not known to be small. */
static void as_with_unknown_shapes_to_the_bit(void) {
  apart.hides_shapes = true;
  for (uint64_t seed = 0; seed < 16; seed++) {
    build(&joint, seed * 104729 + 5, true);
    build(&apart, seed * 104729 + 5, true);
    for (int step = 0; step < STEPS; step++) {
      update_all(&joint);
      ASSERT_OK(&joint.w);
      update_all(&apart);
      ASSERT_OK(&apart.w);
    }
    CU_ASSERT_FALSE(runs_together(&apart));
    update_all(&joint);
    close_both();
  }
  apart.hides_shapes = false;
}

/* `n` variables of `size` elements. */
static void build_plain(int n, int64_t size, bool is_ref) {
  uint64_t seed = 17;
  open_graph(&joint, device);
  update_plan_t p = {.rule = &rules[MOMENTUM], .type = TF_FLOAT, .n = size, .is_ref = is_ref};
  for (int i = 0; i < 2; i++) p.scalars[i] = value(&joint, TF_FLOAT, -1, 0.25f, &seed);
  for (int i = 0; i < n; i++) add_update(&joint, &p, &seed);
  initialize(&joint);
}

static void small_ones_run_together(void) {
  for (int is_ref = 0; is_ref < 2; is_ref++) {
    build_plain(5, 64, is_ref);
    CU_ASSERT_TRUE(runs_together(&joint));
    world_close(&joint.w);
    build_plain(5, 5000, is_ref);
    CU_ASSERT_FALSE(runs_together(&joint));
    world_close(&joint.w);
  }
}

/* ConfigProto.graph_options.rewrite_options.scoped_allocator_optimization = OFF */
static void the_pass_can_be_turned_off(void) {
  static const char off[] = {0x52, 4, 0x52, 2, 0x78, 2};
  uint64_t seed = 4;
  open_graph(&joint, device);
  for (int i = 0; i < 3; i++) {
    const update_plan_t p = {.rule = &rules[DESCENT], .type = TF_FLOAT, .n = 4};
    add_update(&joint, &p, &seed);
  }
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, off, sizeof off, joint.w.s);
  ASSERT_OK(&joint.w);
  joint.w.session = TF_NewSession(joint.w.g, o, joint.w.s);
  ASSERT_OK(&joint.w);
  TF_DeleteSessionOptions(o);
  initialize(&joint);
  CU_ASSERT_FALSE(runs_together(&joint));
  world_close(&joint.w);
}

static double first_of(update_graph_t *u, TF_Output read) {
  TF_Tensor *t = run1(&u->w, none, NULL, read);
  ASSERT_OK(&u->w);
  const double v = *(const double *)TF_TensorData(t);
  TF_DeleteTensor(t);
  return v;
}

/* Each moves the variable: w becomes w - lr * g twice. */
static void one_variable_twice(void) {
  uint64_t seed = 9;
  open_graph(&joint, device);
  const update_plan_t p = {.rule = &rules[DESCENT], .type = TF_FLOAT, .n = 1};
  const drawn_update_t *x = add_update(&joint, &p, &seed);
  TF_OperationDescription *d = TF_NewOperation(joint.w.g, "ResourceApplyGradientDescent", "again");
  for (int i = 0; i < 3; i++) TF_AddInput(d, TF_OperationInput((TF_Input){x->op, i}));
  TF_Operation *again = finish(&joint, d, device).oper;
  initialize(&joint);
  const double before = first_of(&joint, x->reads[0]);
  const TF_Operation *once[] = {x->op}, *twice[] = {x->op, again};
  run_targets(&joint, once, 1);
  const double step = first_of(&joint, x->reads[0]) - before;
  for (int i = 0; i < 3; i++) {
    run_targets(&joint, twice, 2);
    ASSERT_OK(&joint.w);
  }
  CU_ASSERT_DOUBLE_EQUAL(first_of(&joint, x->reads[0]), before + 7 * step, 1e-5);
  world_close(&joint.w);
}

/* ---- failures ---- */

static void a_variable_without_a_value_is_named(bool is_ref) {
  uint64_t seed = 3;
  open_graph(&joint, device);
  const update_plan_t p = {.rule = &rules[DESCENT], .type = TF_FLOAT, .n = 4, .is_ref = is_ref};
  for (int i = 0; i < 4; i++) add_update(&joint, &p, &seed);
  joint.n = 3; /* the last one is not initialized */
  initialize(&joint);
  joint.n = 4;
  const TF_Operation *last[] = {joint.updates[3].op};
  run_targets(&joint, last, 1);
  const TF_Code code = TF_GetCode(joint.w.s);
  char alone[512];
  snprintf(alone, sizeof alone, "%s", TF_Message(joint.w.s));
  CU_ASSERT_NOT_EQUAL(code, TF_OK);
  for (int step = 0; step < STEPS; step++) {
    update_all(&joint);
    CU_ASSERT_EQUAL(TF_GetCode(joint.w.s), code);
    CU_ASSERT_STRING_EQUAL(TF_Message(joint.w.s), alone);
  }
  names_update(&joint, TF_Message(joint.w.s), 3);
  initialize(&joint);
  update_all(&joint);
  ASSERT_OK(&joint.w);
  world_close(&joint.w);
}

static void failures_name_the_variable_s_node(void) {
  a_variable_without_a_value_is_named(false);
  a_variable_without_a_value_is_named(true);
}

static void a_wrong_shape_is_named(void) {
  uint64_t seed = 3;
  const int64_t wrong[] = {5};
  const float v[5] = {0};
  open_graph(&joint, device);
  update_plan_t p = {.rule = &rules[DESCENT], .type = TF_FLOAT, .n = 4};
  const TF_Output feed = placeholder(&joint.w, joint.w.g, "x", TF_FLOAT);
  for (int i = 0; i < 3; i++) {
    p.gradient = i == 1 ? feed : none;
    add_update(&joint, &p, &seed);
  }
  initialize(&joint);
  const TF_Operation *targets[3];
  for (int i = 0; i < 3; i++) targets[i] = joint.updates[i].op;
  TF_Tensor *in = new_floats(1, wrong, v);
  TF_SessionRun(joint.w.session, NULL, &feed, &in, 1, NULL, NULL, 0, targets, 3, NULL, joint.w.s);
  CU_ASSERT_EQUAL(TF_GetCode(joint.w.s), TF_INVALID_ARGUMENT);
  names_update(&joint, TF_Message(joint.w.s), 1);
  TF_DeleteTensor(in);
  world_close(&joint.w);
}

/* Each allocation of a step that is compiled anew fails once; the next step is whole again. */
static void without_memory_nothing_is_harmed(void) {
  for (long n = 0;; n++) {
    build_plain(3, 5, false);
    weft_fault_arm(n);
    update_all(&joint);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    const TF_Code code = TF_GetCode(joint.w.s);
    CU_ASSERT(code == TF_OK || code == TF_RESOURCE_EXHAUSTED || code == TF_CANCELLED);
    update_all(&joint);
    ASSERT_OK(&joint.w);
    world_close(&joint.w);
    if (!fired) break;
  }
}

/* ---- several steps at once ---- */

enum { THREADS = 4, STEPS_EACH = 50 };

static void *run_steps(void *arg) {
  TF_Status *s = TF_NewStatus();
  const TF_Operation *targets[MAX_UPDATES];
  int *failed = arg;
  for (int i = 0; i < joint.n; i++) targets[i] = joint.updates[i].op;
  for (int step = 0; step < STEPS_EACH; step++) {
    TF_SessionRun(joint.w.session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, joint.n, NULL, s);
    *failed += TF_GetCode(s) != TF_OK;
  }
  TF_DeleteStatus(s);
  return NULL;
}

/* Each step subtracts the same from each variable, so that their order does not matter. */
static void steps_at_once_are_all_done(void) {
  update_graph_t *both[] = {&joint, &apart};
  for (int k = 0; k < 2; k++) {
    uint64_t seed = 21;
    open_graph(both[k], device);
    for (int i = 0; i < 8; i++) {
      const update_plan_t p = {
          .rule = &rules[DESCENT], .type = TF_FLOAT, .n = 8 * i + 1, .is_ref = i % 3 == 0};
      add_update(both[k], &p, &seed);
    }
    initialize(both[k]);
  }
  pthread_t threads[THREADS];
  int failed[THREADS] = {0};
  for (int t = 0; t < THREADS; t++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, run_steps, &failed[t]), 0);
  for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  for (int t = 0; t < THREADS; t++) CU_ASSERT_EQUAL(failed[t], 0);
  for (int step = 0; step < THREADS * STEPS_EACH; step++) {
    update_all(&apart);
    ASSERT_OK(&apart.w);
  }
  close_both();
}

/* ---- deleted variables ---- */

/* A handle that a plan keeps from step to step is looked up anew when its variable has been deleted. */
static void a_deleted_variable_is_made_anew(void) {
  uint64_t seed = 5;
  open_graph(&joint, device);
  const update_plan_t p = {.rule = &rules[DESCENT], .type = TF_FLOAT, .n = 3};
  const drawn_update_t *x = add_update(&joint, &p, &seed);
  add_update(&joint, &p, &seed);
  TF_OperationDescription *d = TF_NewOperation(joint.w.g, "DestroyResourceOp", "delete");
  TF_AddInput(d, TF_OperationInput((TF_Input){x->op, 0}));
  const TF_Operation *deletion[] = {finish(&joint, d, device).oper};
  initialize(&joint);
  const double first = first_of(&joint, x->reads[0]);
  for (int i = 0; i < 3; i++) {
    for (int step = 0; step < STEPS; step++) {
      update_all(&joint);
      ASSERT_OK(&joint.w);
    }
    CU_ASSERT_NOT_EQUAL(first_of(&joint, x->reads[0]), first);
    run_targets(&joint, deletion, 1);
    ASSERT_OK(&joint.w);
    update_all(&joint);
    CU_ASSERT_EQUAL(TF_GetCode(joint.w.s), TF_INTERNAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(joint.w.s), "Invalid variable reference."));
    names_update(&joint, TF_Message(joint.w.s), 0);
    initialize(&joint);
    CU_ASSERT_EQUAL(first_of(&joint, x->reads[0]), first);
  }
  world_close(&joint.w);
}

static const CU_TestInfo tests[] = {
    {"as one by one, to the bit", as_one_by_one_to_the_bit},
    {"as with unknown shapes, to the bit", as_with_unknown_shapes_to_the_bit},
    {"small ones run together", small_ones_run_together},
    {"the pass can be turned off", the_pass_can_be_turned_off},
    {"one variable twice", one_variable_twice},
    {"failures name the variable's node", failures_name_the_variable_s_node},
    {"a wrong shape is named", a_wrong_shape_is_named},
    {"without memory nothing is harmed", without_memory_nothing_is_harmed},
    {"steps at once are all done", steps_at_once_are_all_done},
    {"a deleted variable is made anew", a_deleted_variable_is_made_anew},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("updates on the CPU", tests); }
