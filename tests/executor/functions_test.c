/* Functions that kernels run: found by name, compiled once, cancelled, failing, nested, in a growing library.
 *
 * The ops of these graphs have kernels of the test: MapDefun calls its function once with its inputs as they
 * are, Add and _WeftChain count how often they are prepared, Abs fails below 0, Neg waits until the step is
 * cancelled, Square gives how often it has run.
 */
#include <pthread.h>
#include <stdio.h>

#include "graph/function.h"
#include "graph/passes/optimize.h"
#include "kernels/function_call.h"
#include "tests/executor/graphs.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

/* ---- kernels ---- */

static atomic_int num_prepared, num_waiting;
static weft_callee_t *last_callee; /* lent, as to the node */

static weft_status_t *prepare_call(const weft_kernel_setup_t *setup, void **out_state) {
  weft_callee_t *f = NULL;
  WEFT_RETURN_IF_ERROR(weft_knode_callee(setup, "f", &f));
  *out_state = last_callee = f;
  return NULL;
}

typedef struct test_call {
  weft_kernel_ctx_t *c;
  weft_tensor_t *args[4];
} test_call_t;

static void called(void *arg, weft_status_t *status, weft_tensor_t **results) {
  test_call_t *call = arg;
  weft_kernel_ctx_t *c = call->c;
  for (int i = 0; status == NULL && i < c->node->num_outputs; i++) {
    weft_out_set(c, i, results[i]);
    results[i] = NULL;
  }
  weft_free(call);
  c->done(c, status);
}

static void call_function(weft_kernel_ctx_t *c) {
  test_call_t *call = weft_calloc(1, sizeof *call);
  if (call == NULL) {
    c->done(c, WEFT_NO_MEMORY("a call"));
    return;
  }
  call->c = c;
  for (int i = 0; i < c->node->num_inputs; i++) call->args[i] = weft_in(c, i);
  const weft_function_call_t made = {.args = call->args,
                                     .num_args = c->node->num_inputs,
                                     .num_results = c->node->num_outputs,
                                     .canceller = c->step->canceller,
                                     .step = c->step,
                                     .done = called,
                                     .arg = call};
  weft_callee_run(c->state, &made);
}

static int32_t int_in(const weft_kernel_ctx_t *c, int i) { return *(const int32_t *)weft_in(c, i)->data; }

static weft_status_t *prepare_add(const weft_kernel_setup_t *setup, void **out_state) {
  (void)setup;
  (void)out_state;
  atomic_fetch_add(&num_prepared, 1);
  return NULL;
}

static weft_status_t *add(weft_kernel_ctx_t *c) {
  const int32_t sum = int_in(c, 0) + int_in(c, 1);
  return weft_tensor_scalar(WEFT_I32, &sum, &c->outputs[0].tensor);
}

/* In the place of a chain of two products. */
static weft_status_t *cube(weft_kernel_ctx_t *c) {
  const int32_t x = int_in(c, 0), y = x * x * x;
  return weft_tensor_scalar(WEFT_I32, &y, &c->outputs[0].tensor);
}

static weft_status_t *fail_below_zero(weft_kernel_ctx_t *c) {
  const int32_t x = int_in(c, 0);
  if (x < 0) return WEFT_ERROR(INVALID_ARGUMENT, "negative");
  return weft_tensor_scalar(WEFT_I32, &x, &c->outputs[0].tensor);
}

static void end_wait(void *arg) {
  weft_kernel_ctx_t *c = arg;
  c->done(c, WEFT_ERROR(CANCELLED, "the wait was cancelled"));
}

static void wait_for_cancel(weft_kernel_ctx_t *c) {
  uint64_t token;
  if (!weft_canceller_register(c->step->canceller, end_wait, c, &token)) {
    end_wait(c);
    return;
  }
  atomic_fetch_add(&num_waiting, 1);
}

static weft_status_t *prepare_count(const weft_kernel_setup_t *setup, void **out_state) {
  (void)setup;
  *out_state = weft_calloc(1, sizeof(int32_t));
  return *out_state != NULL ? NULL : WEFT_NO_MEMORY("a count");
}

static weft_status_t *count_runs(weft_kernel_ctx_t *c) {
  int32_t *runs = c->state;
  const int32_t n = ++*runs;
  return weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static void destroy_count(void *state) { weft_free(state); }

static void save_count(void *state, weft_strbuf_t *out) {
  weft_strbuf_append(out, weft_str_of(state, sizeof(int32_t)));
}

static weft_status_t *load_count(void *state, weft_str_t from) {
  if (from.length != sizeof(int32_t)) return WEFT_ERROR(DATA_LOSS, "no count");
  memcpy(state, from.data, from.length);
  return NULL;
}

static const weft_kernel_keeping_t counts = {.save = save_count, .load = load_count};

static const weft_kernel_t kernels[] = {
    {.op = "MapDefun", .prepare = prepare_call, .compute_async = call_function},
    {.op = "Add", .prepare = prepare_add, .compute = add},
    {.op = "_WeftChain", .prepare = prepare_add, .compute = cube},
    {.op = "Abs", .compute = fail_below_zero},
    {.op = "Neg", .compute_async = wait_for_cancel},
    {.op = "Square",
     .prepare = prepare_count,
     .compute = count_runs,
     .destroy = destroy_count,
     .keeping = &counts},
    {0},
};
static const weft_kernel_t *const families[] = {kernels, NULL};
static const weft_kernel_table_t table = {.device_type = "CPU", .families = families};

/* ---- graphs ---- */

#define INT(name, value)                                                               \
  "node{name:'" name                                                                   \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{" \
  "dtype:DT_INT32 tensor_shape{} int_val:" value "}}}} "
#define TYPES(key) " attr{key:'" key "' value{list{type:DT_INT32}}} "
#define CALL(kind, name, f, input) \
  kind "{name:'" name "' op:'MapDefun' input:'" input "'" TYPES("Targuments") TYPES("output_types")        \
  " attr{key:'output_shapes' value{list{shape{unknown_rank:true}}}} attr{key:'f' value{func{name:'" f "'}}}} "
#define FUNCTION(name, nodes, result)                        \
  "function{signature{name:'" name                           \
  "' input_arg{name:'a' type:DT_INT32} output_arg{name:'r' " \
  "type:DT_INT32}} " nodes "ret{key:'r' value:'" result "'}} "
#define NODE(name, op, inputs) \
  "node_def{name:'" name "' op:'" op "'" inputs " attr{key:'T' value{type:DT_INT32}}} "
#define DOUBLE FUNCTION("double", NODE("m", "Add", " input:'a' input:'a'"), "m:z:0")

/* A graph whose node "call" is fetched. */
static void begin(harness_t *h, int num_threads, const char *text) {
  harness_init(h, num_threads);
  weft_graph_destroy(h->g);
  h->g = weft_test_graph(text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(h->g);
  add_fetch(h, out0(weft_test_node(h->g, "call")));
  atomic_store(&num_prepared, 0);
  atomic_store(&num_waiting, 0);
}

static weft_status_t *compile(harness_t *h, weft_op_segment_t *segment) {
  weft_plan_release(h->plan);
  h->plan = NULL;
  weft_plan_options_t options = {
      .device = h->device, .segment = segment, .session = WEFT_STR("test"), .kernels = &table};
  return weft_plan_create(h->g, &options, &h->plan);
}

static weft_status_t *run(harness_t *h) {
  WEFT_RETURN_IF_ERROR(compile(h, NULL));
  return harness_run(h);
}

static void expect(weft_status_t *s, weft_code_t code, const char *message) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), message);
  weft_status_free(s);
}

static void fails(const char *text, weft_code_t code, const char *message) {
  harness_t h;
  begin(&h, 2, text);
  expect(run(&h), code, message);
  harness_deinit(&h);
}

/* ---- tests ---- */

static void a_kernel_runs_a_function(void) {
  harness_t h;
  begin(&h, 2, INT("x", "4") CALL("node", "call", "double", "x") "library{" DOUBLE "}");
  expect(run(&h), WEFT_OK, "");
  CU_ASSERT_EQUAL(result(&h, 0), 8);
  harness_deinit(&h);
}

static void a_failure_names_node_and_caller(void) {
  fails(INT("x", "-4") CALL("node", "call", "f", "x") "library{" FUNCTION("f", NODE("m", "Abs", " input:'a'"),
                                                                          "m:y:0") "}",
        WEFT_INVALID_ARGUMENT, "negative\n\t [[{{node f/m}}]]\n\t [[{{node call}}]]");
}

static void a_function_that_is_not_there_fails_the_call(void) {
  fails(INT("x", "4") CALL("node", "call", "f", "x"), WEFT_NOT_FOUND,
        "Function f is not defined.\n\t [[{{node call}}]]");
}

static void numbers_of_arguments_and_results_must_fit(void) {
  fails(INT("x", "4") CALL("node", "call", "f", "x") "library{function{signature{name:'f' output_arg{name:'r' "
        "type:DT_INT32}} " "node_def{name:'c' op:'Const' attr{key:'dtype' value{type:DT_INT32}} "
        "attr{key:'value' value{tensor{dtype:DT_INT32 tensor_shape{} int_val:1}}}} ret{key:'r' value:'c:output:0'}}}",
        WEFT_INVALID_ARGUMENT,
        "Function f takes 0 argument(s) but 1 argument(s) were passed\n\t [[{{node call}}]]");
  fails(INT("x", "4") CALL("node", "call", "f",
                           "x") "library{function{signature{name:'f' input_arg{name:'a' type:DT_INT32}}}}",
        WEFT_INTERNAL, "Function f returns only 0 of 1 expected result(s)\n\t [[{{node call}}]]");
}

/* f calls itself: each call is within the one before. */
static void calls_within_calls_end(void) {
  harness_t h;
  begin(&h, 2,
        INT("x", "4") CALL("node", "call", "f", "x") "library{" FUNCTION("f", CALL("node_def", "m", "f", "a"),
                                                                         "m:output:0") "}");
  weft_status_t *s = run(&h);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "Function f is called within 200 calls"));
  weft_status_free(s);
  harness_deinit(&h);
}

#define CUBE                                                                                              \
  FUNCTION("cube", NODE("m", "Mul", " input:'a' input:'a'") NODE("n", "Mul", " input:'m:z:0' input:'a'"), \
           "n:z:0")
#define OUTER FUNCTION("outer", CALL("node_def", "c", "cube", "a"), "c:output:0")

static void bodies_keep_their_nodes_where_the_caller_does(void) {
  for (int chains = 0; chains < 2; chains++) {
    harness_t h;
    begin(&h, 2, INT("x", "4") CALL("node", "call", "outer", "x") "library{" CUBE OUTER "}");
    weft_pass_settings_t s = weft_pass_defaults();
    if (chains == 0) s.passes &= ~WEFT_PASS_BIT(WEFT_PASS_FUSE);
    weft_test_expect(weft_pass_settings_mark(h.g, &s), WEFT_OK, "");
    expect(run(&h), WEFT_OK, "");
    CU_ASSERT_EQUAL(result(&h, 0), 64);
    CU_ASSERT_EQUAL(atomic_load(&num_prepared), chains); /* of two products */
    harness_deinit(&h);
  }
}

/* Two equal sums become one, if the caller's session shares. */
static void bodies_are_optimised_as_the_caller_is(void) {
#define TWICE                                                                                \
  FUNCTION("twice",                                                                          \
           NODE("m", "Add", " input:'a' input:'a'") NODE("n", "Add", " input:'a' input:'a'") \
               NODE("s", "Add", " input:'m:z:0' input:'n:z:0'"),                             \
           "s:z:0")
  for (int shares = 0; shares < 2; shares++) {
    harness_t h;
    begin(&h, 2,
          INT("x", "4") CALL("node", "call", "outer", "x") "library{" TWICE FUNCTION(
              "outer", CALL("node_def", "c", "twice", "a"), "c:output:0") "}");
    weft_pass_settings_t s = weft_pass_defaults();
    s.passes = shares ? WEFT_PASS_BIT(WEFT_PASS_SHARE) : 0;
    weft_test_expect(weft_pass_settings_mark(h.g, &s), WEFT_OK, "");
    expect(run(&h), WEFT_OK, "");
    CU_ASSERT_EQUAL(result(&h, 0), 16);
    CU_ASSERT_EQUAL(atomic_load(&num_prepared), shares ? 2 : 3);
    harness_deinit(&h);
  }
}

/* Add of integers needs no kernel for that. */
static void constants_of_bodies_are_computed_once(void) {
#define CONSTANT(name, value)                                                                \
  "node_def{name:'" name                                                                     \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' value{tensor{dtype:" \
  "DT_INT32 tensor_shape{} int_val:" value "}}}} "
  harness_t h;
  begin(&h, 2,
        INT("x", "4") CALL("node", "call", "f", "x") "library{" FUNCTION(
            "f",
            CONSTANT("c", "3") NODE("own", "Add", " input:'c:output:0' input:'c:output:0'")
                NODE("square", "Mul", " input:'own:z:0' input:'c:output:0'")
                    NODE("m", "Mul", " input:'a' input:'square:z:0'"),
            "m:z:0") "}");
  weft_pass_settings_t s = weft_pass_defaults();
  s.passes = WEFT_PASS_BIT(WEFT_PASS_FOLD);
  weft_test_expect(weft_pass_settings_mark(h.g, &s), WEFT_OK, "");
  expect(run(&h), WEFT_OK, "");
  CU_ASSERT_EQUAL(result(&h, 0), 4 * 18);
  CU_ASSERT_EQUAL(atomic_load(&num_prepared), 0);
  harness_deinit(&h);
}

static void a_session_compiles_a_function_once(void) {
  harness_t h;
  weft_op_segment_t *segment = NULL;
  begin(&h, 2,
        INT("x", "4") CALL("node", "first", "double", "x")
            CALL("node", "call", "double", "first") "library{" DOUBLE "}");
  CU_ASSERT_PTR_NULL_FATAL(weft_op_segment_create(&segment));
  for (int plans = 0; plans < 2; plans++) {
    CU_ASSERT_PTR_NULL(compile(&h, segment));
    for (int steps = 0; steps < 2; steps++) {
      expect(harness_run(&h), WEFT_OK, "");
      CU_ASSERT_EQUAL(result(&h, 0), 16);
    }
  }
  CU_ASSERT_EQUAL(atomic_load(&num_prepared), 1);
  weft_op_segment_release(segment); /* the plan holds it */
  harness_deinit(&h);
}

typedef struct ending {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool has_ended;
  weft_status_t *status;
} ending_t;

static void step_ended(void *arg, weft_status_t *status) {
  ending_t *e = arg;
  weft_mutex_lock(&e->mu);
  e->status = status;
  e->has_ended = true;
  weft_cond_signal(&e->ended);
  weft_mutex_unlock(&e->mu);
}

static void cancelling_the_step_ends_the_call(void) {
  harness_t h;
  ending_t e = {.has_ended = false};
  weft_mutex_init(&e.mu);
  weft_cond_init(&e.ended);
  begin(&h, 2,
        INT("x", "4") CALL("node", "call", "f", "x") "library{" FUNCTION("f", NODE("m", "Neg", " input:'a'"),
                                                                         "m:y:0") "}");
  CU_ASSERT_PTR_NULL_FATAL(compile(&h, NULL));
  weft_run_options_t options = harness_options(&h);
  weft_plan_run(h.plan, &options, step_ended, &e);
  while (atomic_load(&num_waiting) == 0) sched_yield();
  weft_canceller_cancel(h.canceller);
  weft_mutex_lock(&e.mu);
  while (!e.has_ended) weft_cond_wait(&e.ended, &e.mu);
  weft_mutex_unlock(&e.mu);
  CU_ASSERT_EQUAL(weft_status_code(e.status), WEFT_CANCELLED);
  const char *text = weft_status_message(e.status);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "the wait was cancelled"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "{{node f/m}}"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "{{node call}}"));
  weft_status_free(e.status);
  weft_cond_deinit(&e.ended);
  weft_mutex_deinit(&e.mu);
  harness_deinit(&h);
}

static void returned_ten(void *arg, weft_status_t *status, weft_tensor_t **results) {
  expect(status, WEFT_OK, "");
  CU_ASSERT_EQUAL(*(const int32_t *)results[0]->data, 10);
  step_ended(arg, NULL);
}

/* As a resource would that calls a function after the step which made it. */
static void a_function_may_outlive_its_plan(void) {
  harness_t h;
  ending_t e = {.has_ended = false};
  weft_mutex_init(&e.mu);
  weft_cond_init(&e.ended);
  begin(&h, 2, INT("x", "4") CALL("node", "call", "double", "x") "library{" DOUBLE "}");
  expect(run(&h), WEFT_OK, "");
  weft_callee_t *f = weft_callee_retain(last_callee);
  weft_plan_release(h.plan);
  h.plan = NULL;
  const int32_t five = 5;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_I32, &five, &h.args[0]));
  const weft_function_call_t call = {
      .args = h.args, .num_args = 1, .num_results = 1, .done = returned_ten, .arg = &e};
  weft_callee_run(f, &call);
  weft_mutex_lock(&e.mu);
  while (!e.has_ended) weft_cond_wait(&e.ended, &e.mu);
  weft_mutex_unlock(&e.mu);
  weft_callee_release(f);
  weft_cond_deinit(&e.ended);
  weft_mutex_deinit(&e.mu);
  harness_deinit(&h);
}

/* Adds functions to the library until told to stop. */
typedef struct extension {
  weft_function_library_t *library;
  atomic_bool is_over;
  int num_added;
} extension_t;

static void *extend(void *arg) {
  extension_t *x = arg;
  for (; !atomic_load(&x->is_over) || x->num_added < 100; x->num_added++) {
    char text[600];
    snprintf(text, sizeof text,
             "library{" FUNCTION("more_%d", NODE("m", "Add", " input:'a' input:'a'"), "m:z:0") "}",
             x->num_added);
    weft_graph_t *g = weft_test_graph(text);
    weft_map_entry_t each;
    for (size_t at = 0; weft_map_next(&g->library->by_name, &at, &each);) {
      CU_ASSERT_PTR_NULL(weft_function_add(x->library, ((weft_function_t *)each.value)->def));
    }
    weft_graph_destroy(g);
  }
  return NULL;
}

static void functions_are_called_while_the_library_grows(void) {
  harness_t h;
  pthread_t thread;
  begin(&h, 2, INT("x", "4") CALL("node", "call", "double", "x") "library{" DOUBLE "}");
  extension_t x = {.library = h.g->library};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, extend, &x), 0);
  for (int i = 0; i < 100; i++) { /* each compiles the function again: a plan without a segment has its own */
    expect(run(&h), WEFT_OK, "");
    CU_ASSERT_EQUAL(result(&h, 0), 8);
  }
  atomic_store(&x.is_over, true);
  pthread_join(thread, NULL);
  harness_deinit(&h);
}

static weft_status_t *compile_and_run(harness_t *h, const weft_run_options_t *options) {
  weft_tensor_release(h->results[0]);
  h->results[0] = NULL;
  WEFT_RETURN_IF_ERROR(compile(h, NULL));
  return weft_plan_run_sync(h->plan, options);
}

/* But for those of passes, without which a function runs as it is. */
static void every_failing_allocation_is_reported(void) {
  harness_t h;
  begin(&h, 0, INT("x", "4") CALL("node", "call", "double", "x") "library{" DOUBLE "}");
  weft_pass_settings_t none = weft_pass_defaults();
  none.passes = 0;
  weft_test_expect(weft_pass_settings_mark(h.g, &none), WEFT_OK, "");
  expect(run(&h), WEFT_OK, ""); /* the table of ops is made once */
  weft_run_options_t options = harness_options(&h);
  options.step.canceller = NULL; /* a failure cancels it */
  options.step.rendezvous = NULL;
  long n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, compile_and_run(&h, &options));
  CU_ASSERT_TRUE(n > 50);
  CU_ASSERT_EQUAL(result(&h, 0), 8);
  harness_deinit(&h);
}

#define COUNTING                                                                                    \
  INT("x", "4")                                                                                     \
  CALL("node", "call", "f", "x")                                                                    \
  "library{" FUNCTION("f", NODE("n", "Square", " input:'a'") NODE("m", "Square", " input:'n:y:0'"), \
                      "m:y:0") "}"

/* f runs `times` times. */
static void run_counting(harness_t *h, int times, int32_t last) {
  for (int i = 0; i < times; i++) expect(harness_run(h), WEFT_OK, "");
  CU_ASSERT_EQUAL(result(h, 0), last);
}

static void what_a_function_keeps_goes_on_elsewhere(void) {
  weft_strbuf_t kept = WEFT_STRBUF_INIT;
  for (int session = 0; session < 2; session++) {
    harness_t h;
    begin(&h, 2, COUNTING);
    CU_ASSERT_PTR_NULL_FATAL(compile(&h, NULL));
    weft_callee_t *f = last_callee;
    if (session == 0) {
      expect(weft_callee_save(f, &kept), WEFT_OK, ""); /* it was never called */
      CU_ASSERT_EQUAL(kept.length, 0);
      run_counting(&h, 3, 3);
      expect(weft_callee_save(f, &kept), WEFT_OK, "");
      run_counting(&h, 2, 5);
    }
    expect(weft_callee_load(f, weft_str_of(kept.data, kept.length)), WEFT_OK, "");
    run_counting(&h, 1, 4);
    harness_deinit(&h);
  }
  weft_strbuf_deinit(&kept);
}

static void what_is_no_state_of_the_function_is_refused(void) {
  harness_t h;
  weft_strbuf_t kept = WEFT_STRBUF_INIT;
  begin(&h, 2, COUNTING);
  CU_ASSERT_PTR_NULL_FATAL(compile(&h, NULL));
  run_counting(&h, 1, 1);
  expect(weft_callee_save(last_callee, &kept), WEFT_OK, "");
  for (size_t cut = 1; cut < kept.length; cut++) { /* some end with a whole field */
    weft_status_t *s = weft_callee_load(last_callee, weft_str_of(kept.data, cut));
    CU_ASSERT(s == NULL || weft_status_code(s) == WEFT_DATA_LOSS);
    weft_status_free(s);
  }
  char *name = memchr(kept.data, 'n', kept.length); /* of "f/n" */
  CU_ASSERT_PTR_NOT_NULL_FATAL(name);
  *name = 'x';
  weft_status_t *s = weft_callee_load(last_callee, weft_str_of(kept.data, kept.length));
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  weft_strbuf_deinit(&kept);
  harness_deinit(&h);
}

static const CU_TestInfo tests[] = {
    {"what a function keeps goes on elsewhere", what_a_function_keeps_goes_on_elsewhere},
    {"what is no state of the function is refused", what_is_no_state_of_the_function_is_refused},
    {"a kernel runs a function", a_kernel_runs_a_function},
    {"a failure names node and caller", a_failure_names_node_and_caller},
    {"a function that is not there fails the call", a_function_that_is_not_there_fails_the_call},
    {"numbers of arguments and results must fit", numbers_of_arguments_and_results_must_fit},
    {"calls within calls end", calls_within_calls_end},
    {"bodies keep their nodes where the caller does", bodies_keep_their_nodes_where_the_caller_does},
    {"bodies are optimised as the caller is", bodies_are_optimised_as_the_caller_is},
    {"constants of bodies are computed once", constants_of_bodies_are_computed_once},
    {"a session compiles a function once", a_session_compiles_a_function_once},
    {"cancelling the step ends the call", cancelling_the_step_ends_the_call},
    {"a function may outlive its plan", a_function_may_outlive_its_plan},
    {"functions are called while the library grows", functions_are_called_while_the_library_grows},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("functions", tests); }
