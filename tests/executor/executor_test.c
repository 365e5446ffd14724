/* Plans without loops: values, references, failures, threads, statistics. */
#include <pthread.h>
#include <stdio.h>

#include "tests/executor/graphs.h"
#include "tests/runner.h"

static void must_run(harness_t *h) {
  weft_status_t *s = harness_run(h);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
  weft_status_free(s);
}

static void must_fail(harness_t *h, weft_code_t code, const char *message) {
  weft_status_t *s = harness_run(h);
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  weft_status_free(s);
}

static void an_empty_graph_ends_at_once(void) {
  harness_t h;
  harness_init(&h, 0);
  must_run(&h);
  CU_ASSERT_EQUAL(weft_plan_num_nodes(h.plan), 0);
  harness_deinit(&h);
}

static void arguments_reach_results(void) {
  harness_t h;
  harness_init(&h, 0);
  int32_t three = 3;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I32, &three, &h.args[0]));
  weft_node_t *sum =
      add_op(&h, "Add", "sum", INPUTS(out0(add_arg(&h, "arg", 0)), out0(add_const(&h, "c", 4))));
  int r = add_fetch(&h, out0(sum));
  for (int i = 0; i < 5; i++) {
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), 7);
  }
  harness_deinit(&h);
}

static void a_missing_argument_is_refused(void) {
  harness_t h;
  harness_init(&h, 0);
  add_fetch(&h, out0(add_arg(&h, "arg", 3)));
  must_fail(&h, WEFT_INTERNAL, "no call frame: argument 3 of the step was not given\n\t [[{{node arg}}]]");
  harness_deinit(&h);
}

static void the_only_consumer_may_write_in_place(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *sum =
      add_op(&h, "Add", "sum", INPUTS(out0(add_const(&h, "a", 1)), out0(add_const(&h, "b", 2))));
  weft_node_t *id = add_op(&h, "Identity", "id", INPUTS(out0(sum)));
  weft_node_t *sq = add_op(&h, "Square", "square", INPUTS(out0(id)));
  int r = add_fetch(&h, out0(add_op(&h, "Square", "again", INPUTS(out0(sq)))));
  must_run(&h);
  CU_ASSERT_EQUAL(result(&h, r), 81);
  CU_ASSERT_EQUAL(atomic_load(&test_in_place), 2);
  harness_deinit(&h);
}

static void of_several_consumers_only_the_last_may(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *sum =
      add_op(&h, "Add", "sum", INPUTS(out0(add_const(&h, "a", 1)), out0(add_const(&h, "b", 2))));
  int r = add_fetch(&h, out0(add_op(&h, "Square", "x", INPUTS(out0(sum)))));
  int q = add_fetch(&h, out0(add_op(&h, "Square", "y", INPUTS(out0(sum)))));
  must_run(&h);
  CU_ASSERT_EQUAL(result(&h, r), 9);
  CU_ASSERT_EQUAL(result(&h, q), 9);
  CU_ASSERT_EQUAL(atomic_load(&test_in_place), 1);
  CU_ASSERT_EQUAL(atomic_load(&test_not_in_place), 1);
  harness_deinit(&h);
}

static void constants_are_never_written(void) {
  harness_t h;
  harness_init(&h, 0);
  int r = add_fetch(&h, out0(add_op(&h, "Square", "x", INPUTS(out0(add_const(&h, "c", 3))))));
  for (int i = 0; i < 3; i++) {
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), 9);
  }
  if (!harness_has_copies(&h)) CU_ASSERT_EQUAL(atomic_load(&test_in_place), 0); /* a copy may be */
  harness_deinit(&h);
}

static void asynchronous_kernels_end_on_other_threads(void) {
  for (int threads = 0; threads < 3; threads++) {
    harness_t h;
    harness_init(&h, threads);
    weft_node_t *a = add_op(&h, "Neg", "a", INPUTS(out0(add_const(&h, "c", 3))));
    weft_node_t *b = add_op(&h, "Neg", "b", INPUTS(out0(add_const(&h, "d", 4))));
    weft_node_t *sum = add_op(&h, "Add", "sum", INPUTS(out0(a), out0(b)));
    int r = add_fetch(&h, out0(add_op(&h, "Neg", "e", INPUTS(out0(sum)))));
    for (int i = 0; i < 20; i++) {
      must_run(&h);
      CU_ASSERT_EQUAL(result(&h, r), 7);
    }
    harness_deinit(&h);
  }
}

enum { WIDTH = 200 };

/* WIDTH products, then a tree of sums. */
static int add_wide(harness_t *h) {
  weft_node_t *level[WIDTH];
  weft_node_t *two = add_const(h, "two", 2), *three = add_const(h, "three", 3);
  for (int i = 0; i < WIDTH; i++) {
    char name[32];
    snprintf(name, sizeof name, "p%d", i);
    level[i] = add_op(h, "Mul", name, INPUTS(out0(two), out0(three)));
  }
  for (int n = WIDTH, step = 0; n > 1; n = (n + 1) / 2, step++) {
    for (int i = 0; i < n / 2; i++) {
      char name[32];
      snprintf(name, sizeof name, "s%d_%d", step, i);
      level[i] = add_op(h, "Add", name, INPUTS(out0(level[i]), out0(level[n - 1 - i])));
    }
  }
  return add_fetch(h, out0(level[0]));
}

static void costly_nodes_are_shared_with_the_pool(void) {
  harness_t h;
  harness_init(&h, 4);
  int r = add_wide(&h);
  for (int i = 0; i < 5; i++) {
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), 6 * WIDTH);
  }
  harness_deinit(&h);
}

typedef struct steps {
  harness_t *h;
  int failures;
} steps_t;

static void *run_steps(void *arg) {
  steps_t *w = arg;
  for (int i = 0; i < 10; i++) {
    weft_tensor_t *results[MAX_RESULTS] = {NULL};
    weft_run_options_t o = {.step = {.id = i,
                                     .args = w->h->args,
                                     .num_args = MAX_RESULTS,
                                     .results = results,
                                     .num_results = MAX_RESULTS},
                            .run_inline = i % 2 == 0};
    weft_status_t *s = weft_plan_run_sync(w->h->plan, &o);
    if (s != NULL || results[0] == NULL || *(int32_t *)results[0]->data != 6 * WIDTH) w->failures++;
    weft_status_free(s);
    weft_tensor_release(results[0]);
  }
  return NULL;
}

static void steps_on_one_plan_run_at_once(void) {
  enum { NUM = 4 };
  harness_t h;
  harness_init(&h, 3);
  add_wide(&h);
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(&h));
  pthread_t t[NUM];
  steps_t w[NUM];
  for (int i = 0; i < NUM; i++) {
    w[i] = (steps_t){&h, 0};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, run_steps, &w[i]), 0);
  }
  for (int i = 0; i < NUM; i++) {
    pthread_join(t[i], NULL);
    CU_ASSERT_EQUAL(w[i].failures, 0);
  }
  harness_deinit(&h);
}

static void references_are_read_when_their_consumer_runs(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *v = add_variable(&h, "v");
  weft_node_t *read = add_op(&h, "Identity", "read", INPUTS(out0(v)));
  int r = add_fetch(&h, out0(read)),
      sum = add_fetch(&h, out0(add_op(&h, "Add", "sum", INPUTS(out0(read), out0(v)))));
  must_fail(&h, WEFT_FAILED_PRECONDITION, /* a copy reads in the name of the variable */
            harness_has_copies(&h) ? "Attempting to use uninitialized value v\n\t [[{{node v}}]]"
                                   : "Attempting to use uninitialized value v\n\t [[{{node read}}]]");
  for (int32_t i = 5; i < 12; i++) { /* the first steps are scheduled, later ones run serially */
    weft_tensor_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I32, &i, &t));
    weft_variable_write(test_variable, t);
    weft_tensor_release(t);
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), i);
    CU_ASSERT_EQUAL(result(&h, sum), 2 * i);
  }
  harness_deinit(&h);
}

static void a_variables_value_is_never_written(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_tensor_t *t = NULL;
  int32_t five = 5;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I32, &five, &t));
  weft_variable_write(test_variable, t);
  weft_tensor_release(t);
  int r = add_fetch(&h, out0(add_op(&h, "Square", "x", INPUTS(out0(add_variable(&h, "v"))))));
  for (int i = 0; i < 2; i++) {
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), 25);
  }
  CU_ASSERT_EQUAL(atomic_load(&test_in_place), 0);
  harness_deinit(&h);
}

static void reference_switches_pass_references(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *sw =
      add_op(&h, "RefSwitch", "switch", INPUTS(out0(add_variable(&h, "v")), out0(add_bool(&h, "b", true))));
  int dead = add_fetch(&h, out0(add_op(&h, "Identity", "no", INPUTS(out(sw, 0)))));
  must_run(&h); /* nothing reads the live side, so it may be uninitialised */
  CU_ASSERT_PTR_NULL(h.results[dead]);
  harness_deinit(&h);
}

static void failures_name_their_node(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *bad = add_op(&h, "Abs", "bad", INPUTS(out0(add_const(&h, "c", -1))));
  weft_node_t *after = add_op(&h, "Add", "after", INPUTS(out0(bad), out0(bad)));
  add_fetch(&h, out0(after));
  for (int i = 0; i < 3; i++) must_fail(&h, WEFT_INVALID_ARGUMENT, "negative\n\t [[{{node bad}}]]");
  CU_ASSERT_EQUAL(atomic_load(&test_runs), 0);
  harness_deinit(&h);
}

static void unavailable_is_for_those_that_communicate(void) {
  harness_t h;
  harness_init(&h, 0);
  add_op(&h, "Sign", "s", INPUTS(out0(add_const(&h, "c", -1))));
  must_fail(&h, WEFT_INTERNAL,
            "away\n\t [[{{node s}}]]\nExecuting non-communication op <s> originally returned "
            "UnavailableError, and was "
            "replaced by InternalError to avoid invoking TF network error handling logic.");
  harness_deinit(&h);
}

static void a_missing_output_is_an_internal_error(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *c = add_const(&h, "c", 1);
  weft_node_t *f = add_op(&h, "Maximum", "none", INPUTS(out0(c), out0(c)));
  must_run(&h); /* it has no consumer */
  weft_plan_release(h.plan);
  h.plan = NULL;
  add_fetch(&h, out0(f));
  must_fail(&h, WEFT_INTERNAL, "Missing 0-th output from {{node none}}\n\t [[{{node none}}]]");
  harness_deinit(&h);
}

static void an_output_of_the_wrong_type_is_an_internal_error(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *c = add_const(&h, "c", 1);
  add_fetch(&h, out0(add_op(&h, "Minimum", "wrong", INPUTS(out0(c), out0(c)))));
  must_fail(
      &h, WEFT_INTERNAL,
      "Output 0 of type bool does not match declared output type int32 for node {{node wrong}}\n\t [[{{node "
      "wrong}}]]");
  harness_deinit(&h);
}

static void waits_end_when_another_node_fails(void) {
  harness_t h;
  harness_init(&h, 2);
  weft_node_t *wait = add_recv(&h, "recv", "never");
  add_fetch(&h, out0(wait));
  add_op(&h, "Abs", "bad", INPUTS(out0(add_const(&h, "c", -1))));
  must_fail(&h, WEFT_INVALID_ARGUMENT, "negative\n\t [[{{node bad}}]]");
  CU_ASSERT_TRUE(weft_canceller_is_cancelled(h.canceller));
  harness_deinit(&h);
}

static void *cancel(void *arg) {
  weft_canceller_cancel(arg);
  return NULL;
}

static void cancelling_ends_waits_with_a_derived_failure(void) {
  harness_t h;
  harness_init(&h, 2);
  add_fetch(&h, out0(add_recv(&h, "recv", "never")));
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(&h));
  weft_run_options_t o = harness_options(&h);
  pthread_t t;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel, h.canceller), 0);
  weft_status_t *s = weft_plan_run_sync(h.plan, &o);
  pthread_join(t, NULL);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_CANCELLED);
  CU_ASSERT_TRUE(weft_status_is_derived(s));
  weft_status_free(s);
  harness_deinit(&h);
}

static void sends_meet_receives(void) {
  harness_t h;
  harness_init(&h, 2);
  weft_node_t *recv = add_recv(&h, "recv", "x");
  int r = add_fetch(&h, out0(recv));
  add_send(&h, "send", "x", out0(add_const(&h, "c", 8)));
  for (int i = 0; i < 10; i++) {
    must_run(&h);
    CU_ASSERT_EQUAL(result(&h, r), 8);
  }
  harness_deinit(&h);
}

static void dead_values_are_sent_and_received_dead(void) {
  harness_t h;
  harness_init(&h, 2);
  weft_node_t *sw =
      add_op(&h, "Switch", "switch", INPUTS(out0(add_const(&h, "c", 8)), out0(add_bool(&h, "b", false))));
  weft_node_t *recv = add_recv(&h, "recv", "x");
  int r = add_fetch(&h, out0(recv));
  add_send(&h, "send", "x", out(sw, 1));
  must_run(&h);
  CU_ASSERT_PTR_NULL(h.results[r]);
  harness_deinit(&h);
}

static void ops_without_a_kernel_are_refused_by_name(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *c = add_const(&h, "c", 1);
  add_op(&h, "FloorMod", "odd", INPUTS(out0(c), out0(c)));
  weft_exec_plan_t *p = NULL;
  static const weft_kernel_t *const nothing[] = {NULL};
  weft_kernel_table_t none = {.device_type = "CPU", .families = nothing};
  weft_device_t elsewhere = *h.device;
  elsewhere.type = "NONE"; /* a device that has no kernel at all */
  weft_plan_options_t options = {.device = &elsewhere, .session = WEFT_STR(""), .kernels = &none};
  weft_status_t *s = weft_plan_create(h.g, &options, &p);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s),
                                "No OpKernel was registered to support Op 'FloorMod' used "
                                "by {{node odd}} with these attrs: [T=DT_INT32]"));
  weft_status_free(s);
  harness_deinit(&h);
}

static void statistics_tell_of_every_node(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *sum =
      add_op(&h, "Add", "sum", INPUTS(out0(add_const(&h, "a", 1)), out0(add_const(&h, "b", 2))));
  add_fetch(&h, out0(add_op(&h, "Neg", "neg", INPUTS(out0(sum)))));
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(&h));
  weft_step_recorder_t recorder;
  weft_step_recorder_init(&recorder);
  weft_run_options_t o = harness_options(&h);
  o.recorder = &recorder;
  CU_ASSERT_PTR_NULL(weft_plan_run_sync(h.plan, &o));
  CU_ASSERT_EQUAL(recorder.count, harness_has_copies(&h) ? 7 : 5);
  for (size_t i = 0; i < recorder.count; i++) {
    const weft_node_stats_t *s = &recorder.stats[i];
    CU_ASSERT_TRUE(s->start_ns > 0 && s->end_ns >= s->start_ns);
    if (!weft_str_is(s->node->name, "sum")) continue;
    CU_ASSERT_EQUAL(s->first_dtype, WEFT_I32);
    CU_ASSERT_EQUAL(s->output_bytes, 4);
  }
  weft_step_recorder_deinit(&recorder);
  harness_deinit(&h);
}

/* Compiles and runs; what the pool or the rendezvous of the harness needs is made outside. */
static weft_status_t *compile_and_run(harness_t *h) {
  weft_plan_release(h->plan);
  h->plan = NULL;
  WEFT_RETURN_IF_ERROR(harness_compile(h));
  weft_run_options_t o = {.step = {.id = 1, .results = h->results, .num_results = MAX_RESULTS},
                          .run_inline = true};
  return weft_plan_run_sync(h->plan, &o);
}

static void every_failing_allocation_is_reported(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *enter = add_enter(&h, "enter", out0(add_const(&h, "x", 1)), "f", false, 10);
  weft_node_t *exit = add_op(&h, "Exit", "exit", INPUTS(out0(enter)));
  int r = add_fetch(&h, out0(add_op(&h, "Add", "sum", INPUTS(out0(exit), out0(exit)))));
  weft_status_t *warm = harness_run(&h); /* the table of ops is made once */
  CU_ASSERT_PTR_NULL(warm);
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, compile_and_run(&h));
  CU_ASSERT_TRUE(n > 10);
  CU_ASSERT_EQUAL(result(&h, r), 2);
  harness_deinit(&h);
}

/* Stateful kernels: how often they were prepared, and with which state they ran. */
static int test_prepared;

static weft_status_t *prepare_state(const weft_kernel_setup_t *n, void **out_state) {
  (void)n;
  int32_t *state = weft_calloc(1, sizeof *state);
  if (state == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "state");
  test_prepared++;
  *out_state = state;
  return NULL;
}

static weft_status_t *count_up(weft_kernel_ctx_t *c) {
  int32_t *state = c->state;
  ++*state;
  return weft_tensor_scalar(WEFT_I32, state, &c->outputs[0].tensor);
}

static const weft_kernel_t stateful_kernels[] = {
    {.op = "RandomUniformInt", .prepare = prepare_state, .compute = count_up, .destroy = weft_free}, {0}};
static const weft_kernel_t *const stateful_families[] = {stateful_kernels, NULL};
static const weft_kernel_table_t stateful_table = {.device_type = "CPU", .families = stateful_families};

static weft_exec_plan_t *stateful_plan(harness_t *h, weft_op_segment_t *segment) {
  weft_exec_plan_t *p = NULL;
  weft_plan_options_t o = {
      .device = h->device, .segment = segment, .session = WEFT_STR("s"), .kernels = &stateful_table};
  weft_status_t *s = weft_plan_create(h->g, &o, &p);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "");
  weft_status_free(s);
  return p;
}

static void run_stateful(harness_t *h, weft_exec_plan_t *p, int32_t want) {
  weft_run_options_t o = harness_options(h);
  CU_ASSERT_PTR_NULL(weft_plan_run_sync(p, &o));
  CU_ASSERT_EQUAL(result(h, 0), want);
}

static void plans_of_a_segment_share_stateful_kernels(void) {
  harness_t h;
  harness_init(&h, 0);
  weft_node_t *c = add_const(&h, "c", 1);
  weft_node_t *shape = add_vector(&h, "shape");
  weft_node_t *n = add_op(&h, "RandomUniformInt", "random", INPUTS(out0(shape), out0(c), out0(c)));
  add_fetch(&h, out0(n));
  test_prepared = 0;
  weft_op_segment_t *segment = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_op_segment_create(&segment));
  weft_exec_plan_t *a = stateful_plan(&h, segment);
  run_stateful(&h, a, 1);
  weft_plan_release(a);
  weft_exec_plan_t *b = stateful_plan(&h, segment), *own = stateful_plan(&h, NULL);
  run_stateful(&h, b, 2);
  run_stateful(&h, own, 1);
  CU_ASSERT_EQUAL(test_prepared, 2);
  weft_op_segment_release(segment);
  run_stateful(&h, b, 3);
  weft_plan_release(b);
  weft_plan_release(own);
  harness_deinit(&h);
}

/* Two plans that feed each other for ever would recurse without end if a callback ran the rest of a plan. */
static weft_exec_plan_t *ping_pong_plan(harness_t *h, const char *from, const char *to, int hops,
                                        bool starts) {
  weft_node_t *value = add_const(h, "start", 0);
  for (int i = 0; i < hops; i++) {
    char name[64], key[64];
    if (i > 0 || !starts) {
      snprintf(name, sizeof name, "recv%d", i);
      snprintf(key, sizeof key, "%s%d", from, i);
      value = add_recv(h, name, key);
    }
    snprintf(name, sizeof name, "send%d", i);
    snprintf(key, sizeof key, "%s%d", to, starts ? i : i + 1);
    add_send(h, name, key, out0(value));
  }
  CU_ASSERT_PTR_NULL_FATAL(harness_compile(h));
  return h->plan;
}

typedef struct both {
  weft_mutex_t mu;
  weft_cond_t ended;
  int left, failures;
} both_t;

static void one_ended(void *arg, weft_status_t *s) {
  both_t *b = arg;
  weft_mutex_lock(&b->mu);
  b->left--;
  b->failures += s != NULL;
  weft_cond_signal(&b->ended);
  weft_mutex_unlock(&b->mu);
  weft_status_free(s);
}

static void plans_that_feed_each_other_do_not_recurse(void) {
  enum { HOPS = 3000 };
  for (int threads = 0; threads < 2; threads++) {
    harness_t a, b;
    harness_init(&a, threads);
    weft_object_release(&test_variable->object);
    harness_init(&b, threads);
    ping_pong_plan(&a, "b", "a", HOPS, true);
    ping_pong_plan(&b, "a", "b", HOPS, false);
    weft_run_options_t oa = harness_options(&a), ob = harness_options(&b);
    ob.step.rendezvous = oa.step.rendezvous;
    both_t both = {.left = 2};
    weft_mutex_init(&both.mu);
    weft_cond_init(&both.ended);
    weft_plan_run(b.plan, &ob, one_ended, &both);
    weft_plan_run(a.plan, &oa, one_ended, &both);
    weft_mutex_lock(&both.mu);
    while (both.left > 0) weft_cond_wait(&both.ended, &both.mu);
    weft_mutex_unlock(&both.mu);
    CU_ASSERT_EQUAL(both.failures, 0);
    weft_cond_deinit(&both.ended);
    weft_mutex_deinit(&both.mu);
    harness_deinit(&b);
    CU_ASSERT_PTR_NULL_FATAL(weft_variable_create(WEFT_STR("v"), WEFT_I32, &WEFT_SCALAR, &test_variable));
    harness_deinit(&a);
  }
}

static const CU_TestInfo tests[] = {
    {"an empty graph ends at once", an_empty_graph_ends_at_once},
    {"arguments reach results", arguments_reach_results},
    {"a missing argument is refused", a_missing_argument_is_refused},
    {"the only consumer may write in place", the_only_consumer_may_write_in_place},
    {"of several consumers only the last may", of_several_consumers_only_the_last_may},
    {"constants are never written", constants_are_never_written},
    {"asynchronous kernels end on other threads", asynchronous_kernels_end_on_other_threads},
    {"costly nodes are shared with the pool", costly_nodes_are_shared_with_the_pool},
    {"steps on one plan run at once", steps_on_one_plan_run_at_once},
    {"references are read when their consumer runs", references_are_read_when_their_consumer_runs},
    {"a variable's value is never written", a_variables_value_is_never_written},
    {"reference switches pass references", reference_switches_pass_references},
    {"failures name their node", failures_name_their_node},
    {"UNAVAILABLE is for those that communicate", unavailable_is_for_those_that_communicate},
    {"a missing output is an internal error", a_missing_output_is_an_internal_error},
    {"an output of the wrong type is an internal error", an_output_of_the_wrong_type_is_an_internal_error},
    {"waits end when another node fails", waits_end_when_another_node_fails},
    {"cancelling ends waits with a derived failure", cancelling_ends_waits_with_a_derived_failure},
    {"sends meet receives", sends_meet_receives},
    {"dead values are sent and received dead", dead_values_are_sent_and_received_dead},
    {"ops without a kernel are refused by name", ops_without_a_kernel_are_refused_by_name},
    {"statistics tell of every node", statistics_tell_of_every_node},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"plans of a segment share stateful kernels", plans_of_a_segment_share_stateful_kernels},
    {"plans that feed each other do not recurse", plans_that_feed_each_other_do_not_recurse},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("executor", tests); }
