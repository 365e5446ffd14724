/* tests/device/mutation_test.c - each wait that the runtime asks of a device's queues is needed.
 *
 * A graph of copies and computations runs many times on a LATE device, first as it should, then with one kind
 * of wait left out (tests/device/late/late.h). What the mutant computes must differ within MAX_STEPS steps.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "device/loaded/loaded.h"
#include "device/transfer.h"
#include "executor/executor.h"
#include "tests/device/late/late.h"
#include "tests/device/test_devices.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

enum { MAX_STEPS = 3000, STEPS = 100, LENGTH = 4096, CHAIN = 6 };

typedef struct world {
  bool has_finish; /* the graph has a node whose kernel has finish() */
  weft_thread_pool_t *pool;
  test_devices_t devices;
  weft_graph_t *g;
  weft_exec_plan_t *plan;
} world_t;

static weft_node_t *add(weft_graph_t *g, const char *op, const char *name, weft_output_t a, weft_output_t b,
                        const weft_named_attr_t *attrs, int num_attrs) {
  weft_node_t *n = NULL;
  weft_output_t inputs[2] = {a, b};
  const weft_node_spec_t spec = {.name = weft_str(name),
                                 .op = weft_str(op),
                                 .inputs = inputs,
                                 .num_inputs = a.node == NULL   ? 0
                                               : b.node == NULL ? 1
                                                                : 2,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_add(g, &spec, &n));
  return n;
}

/* y = x + x + ..., on the devices by turns; it goes to the host and back between. */
static void build(world_t *w, int num_late) {
  const weft_output_t none = {NULL, 0};
  const weft_attr_t f32 = {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}, zero = {.kind = WEFT_ATTR_INT, .i = 0};
  const weft_named_attr_t arg[] = {{WEFT_STR("T"), f32}, {WEFT_STR("index"), zero}};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&w->g));
  weft_node_t *x = add(w->g, "_Arg", "x", none, none, arg, 2), *y = x;
  for (int i = 0; i < CHAIN; i++) {
    char name[16];
    snprintf(name, sizeof name, "sum%d", i);
    y = add(w->g, "AddV2", name, (weft_output_t){y, 0}, (weft_output_t){x, 0}, NULL, 0);
    y->assigned_device = w->devices.all[1 + i % num_late]->name;
    if (i % num_late != num_late - 1) continue;
    snprintf(name, sizeof name, "host%d", i);
    y = add(w->g, "Snapshot", name, (weft_output_t){y, 0}, none, NULL, 0); /* has no kernel there */
  }
  if (w->has_finish) {
    y = add(w->g, "AddV2", "more", (weft_output_t){y, 0}, (weft_output_t){x, 0}, NULL, 0);
    y->assigned_device = w->devices.all[1]->name;
    y = add(w->g, "DeepCopy", "copy", (weft_output_t){y, 0}, none, NULL, 0);
    y->assigned_device = w->devices.all[1]->name;
    y = add(w->g, "Sub", "less", (weft_output_t){y, 0}, (weft_output_t){x, 0}, NULL, 0);
    y->assigned_device = w->devices.all[1]->name;
  }
  add(w->g, "_Retval", "y", (weft_output_t){y, 0}, none, arg, 2);
  test_devices_place(&w->devices, w->g, NULL);
  const weft_plan_options_t options = {.device = w->devices.all[0],
                                       .devices = w->devices.all,
                                       .num_devices = w->devices.n,
                                       .session = WEFT_STR("s")};
  CU_ASSERT_PTR_NULL_FATAL(weft_plan_create(w->g, &options, &w->plan));
}

static bool with_finish; /* of graphs that are built from now on */

static void open_world(world_t *w, weft_late_options_t options) {
  *w = (world_t){.has_finish = with_finish};
  options.max_delay_us = 100;
  options.seed = 3;
  weft_late_configure(&options);
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 2, &w->pool));
  test_devices_init(&w->devices, w->pool, NULL);
  build(w, options.num_devices);
}

static void close_world(world_t *w) {
  weft_plan_release(w->plan);
  weft_graph_destroy(w->g);
  weft_thread_pool_destroy(w->pool);
  test_devices_deinit(&w->devices);
  weft_late_configure(&(weft_late_options_t){.num_devices = 1, .max_delay_us = 200, .seed = 1});
}

/* Is y = (1 + CHAIN) x everywhere? */
static bool step_is_right(world_t *w, float value) {
  weft_tensor_t *x = NULL, *results[1] = {NULL};
  const weft_shape_t shape = weft_shape_vector(LENGTH);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &x));
  for (int i = 0; i < LENGTH; i++) ((float *)x->data)[i] = value;
  const weft_run_options_t o = {
      .step = {.id = 1, .args = &x, .num_args = 1, .results = results, .num_results = 1}, .run_inline = true};
  CU_ASSERT_PTR_NULL_FATAL(weft_plan_run_sync(w->plan, &o));
  weft_tensor_release(x);
  bool is_right = results[0] != NULL && results[0]->space == NULL;
  for (int i = 0; is_right && i < LENGTH; i++)
    is_right = ((const float *)results[0]->data)[i] == (1 + CHAIN) * value;
  weft_tensor_release(results[0]);
  return is_right;
}

static void must_be_right(weft_late_options_t options) {
  world_t w;
  open_world(&w, options);
  for (int i = 0; i < STEPS; i++) CU_ASSERT_TRUE(step_is_right(&w, (float)i));
  close_world(&w);
}

static void with_all_waits_results_are_right(void) {
  must_be_right((weft_late_options_t){.num_devices = 1});
  must_be_right((weft_late_options_t){.num_devices = 2});
  must_be_right((weft_late_options_t){.num_devices = 3});
  must_be_right((weft_late_options_t){.num_devices = 2, .by_host = true});
}

/* In a process of its own: a mutant may write into memory that is not its any more. */
static void must_go_wrong_apart(bool (*goes_wrong)(weft_late_options_t), weft_late_options_t options) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    const bool is_quiet = freopen("/dev/null", "w", stderr) != NULL;
    _exit(goes_wrong(options) || !is_quiet ? 1 : 0);
  }
  CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
  CU_ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool steps_go_wrong(weft_late_options_t options) {
  world_t w;
  int i = 0;
  open_world(&w, options);
  while (i < MAX_STEPS && step_is_right(&w, (float)(i % 1000))) i++;
  return i < MAX_STEPS;
}

static void must_go_wrong(int num_devices, weft_late_mutation_t mutation) {
  must_go_wrong_apart(steps_go_wrong,
                      (weft_late_options_t){.num_devices = num_devices, .mutation = mutation});
}

static void computations_wait_for_copies_in(void) {
  must_go_wrong(1, WEFT_LATE_COMPUTE_BEFORE_COPY_IN);
  must_go_wrong(2, WEFT_LATE_COMPUTE_BEFORE_COPY_IN);
}
static void copies_out_wait_for_computations(void) { must_go_wrong(1, WEFT_LATE_COPY_OUT_BEFORE_COMPUTE); }
static void copies_in_wait_for_the_last_use_of_their_memory(void) {
  must_go_wrong(1, WEFT_LATE_COPY_IN_BEFORE_COMPUTE);
  must_go_wrong(2, WEFT_LATE_COPY_IN_BEFORE_COMPUTE);
}
static void the_host_waits_for_copies_out(void) { must_go_wrong(1, WEFT_LATE_HOST_BEFORE_COPY_OUT); }
static void the_host_keeps_what_is_copied_in(void) { must_go_wrong(1, WEFT_LATE_HOST_BEFORE_COPY_IN); }
static void copies_between_devices_wait_for_computations(void) {
  must_go_wrong(2, WEFT_LATE_COPY_IN_BEFORE_PEER);
}

/* A kernel with finish() reads what compute() has enqueued, which reads what was copied in. */
static void finish_waits_for_what_was_begun(void) {
  with_finish = true;
  must_be_right((weft_late_options_t){.num_devices = 1});
  must_be_right((weft_late_options_t){.num_devices = 2});
  must_go_wrong(1, WEFT_LATE_HOST_BEFORE_COMPUTE);
  must_go_wrong(1, WEFT_LATE_COPY_OUT_BEFORE_COMPUTE);
  with_finish = false;
}

/* ---- the end of a step ---- */

static WEFT_Failure *broken(void *arg, const WEFT_Failure *poison) {
  (void)arg;
  return poison == NULL ? weft_late_host->failure(WEFT_DATA_LOSS, "{{node broken}} broke") : NULL;
}

static weft_status_t *break_late(weft_kernel_ctx_t *c) {
  return weft_status_of_failure(weft_late_enqueue(weft_loaded_queue(c->queue), broken, NULL));
}

static const weft_kernel_t breaking[] = {{.op = "Print", .compute = break_late}, {0}};

/* A node without outputs whose work fails after it has "computed": only the end of the step can tell. */
static weft_code_t code_of_broken_step(weft_late_mutation_t mutation) {
  static const weft_kernel_t *const families[] = {breaking, NULL};
  static const weft_kernel_table_t table = {.device_type = "LATE", .families = families};
  weft_late_configure(
      &(weft_late_options_t){.num_devices = 1, .max_delay_us = 100, .seed = 3, .mutation = mutation});
  test_devices_t d;
  weft_graph_t *g = NULL;
  weft_exec_plan_t *plan = NULL;
  weft_node_t *n = NULL;
  test_devices_init(&d, NULL, NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&g));
  weft_tensor_t *one = NULL;
  float value = 1;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &value, &one));
  const weft_named_attr_t attrs[] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                                     {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = one}}};
  weft_node_t *c = add(g, "Const", "c", (weft_output_t){NULL, 0}, (weft_output_t){NULL, 0}, attrs, 2);
  const weft_output_t in = {c, 0};
  const weft_named_attr_t types[] = {{WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}}};
  const weft_node_spec_t print = {.name = WEFT_STR("broken"),
                                  .op = WEFT_STR("Print"),
                                  .inputs = (weft_output_t[]){in, in},
                                  .num_inputs = 2,
                                  .attrs = types,
                                  .num_attrs = 1};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_add(g, &print, &n));
  n->assigned_device = d.all[1]->name;
  test_devices_place(&d, g, NULL);
  const weft_plan_options_t options = {
      .device = d.all[0], .devices = d.all, .num_devices = d.n, .session = WEFT_STR("s"), .kernels = &table};
  CU_ASSERT_PTR_NULL_FATAL(weft_plan_create(g, &options, &plan));
  const weft_run_options_t o = {.step = {.id = 1}, .run_inline = true};
  weft_status_t *s = weft_plan_run_sync(plan, &o);
  weft_code_t code = weft_status_code(s);
  if (s != NULL) CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "{{node broken}} broke"));
  weft_status_free(s);
  weft_plan_release(plan);
  weft_graph_destroy(g);
  weft_tensor_release(one);
  test_devices_deinit(&d);
  weft_late_configure(&(weft_late_options_t){.num_devices = 1, .max_delay_us = 200, .seed = 1});
  return code;
}

static void a_step_ends_when_its_work_is_done(void) {
  CU_ASSERT_EQUAL(code_of_broken_step(WEFT_LATE_NOTHING), WEFT_DATA_LOSS);
  CU_ASSERT_EQUAL(code_of_broken_step(WEFT_LATE_HOST_BEFORE_COMPUTE), WEFT_OK);
}

/* ---- between devices ---- */

/* From device 0 to device 1, released at once, and back to the host: is it still what it was? */
static bool copy_is_right(weft_device_t *const *d, float value) {
  weft_tensor_t *host = NULL, *from = NULL, *to = NULL, *back = NULL;
  const weft_shape_t shape = weft_shape_vector(LENGTH);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &host));
  for (int i = 0; i < LENGTH; i++) ((float *)host->data)[i] = value;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(host, d[0]->space, &from));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(from, d[1]->space, &to));
  weft_tensor_release(from);
  CU_ASSERT_PTR_EQUAL(to->space, d[1]->space);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_at_sync(to, NULL, &back));
  bool is_right = true;
  for (int i = 0; is_right && i < LENGTH; i++) is_right = ((const float *)back->data)[i] == value;
  weft_tensor_release(host);
  weft_tensor_release(to);
  weft_tensor_release(back);
  return is_right;
}

static bool copies_go_wrong(weft_late_options_t options) {
  test_devices_t d;
  int i = 0;
  options.num_devices = 2;
  options.max_delay_us = 100;
  weft_late_configure(&options);
  test_devices_init(&d, NULL, NULL);
  const int most = options.mutation == WEFT_LATE_NOTHING ? STEPS : MAX_STEPS;
  while (i < most && copy_is_right(&d.all[1], (float)i)) i++;
  if (i < most) return true;
  test_devices_deinit(&d);
  weft_late_configure(&(weft_late_options_t){.num_devices = 1, .max_delay_us = 200, .seed = 1});
  return false;
}

static void the_source_of_a_copy_between_devices_is_kept(void) {
  CU_ASSERT_FALSE(copies_go_wrong((weft_late_options_t){.seed = 1}));
  CU_ASSERT_FALSE(copies_go_wrong((weft_late_options_t){.by_host = true}));
  must_go_wrong_apart(copies_go_wrong, (weft_late_options_t){.mutation = WEFT_LATE_HOST_BEFORE_PEER_COPY});
}

static weft_status_t *break_with_output(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &weft_in(c, 0)->shape, &t));
  return break_late(c);
}

/* The failing node is on the first device; the second adds what comes from there, and the host reads it. */
static weft_graph_t *failing_graph(const test_devices_t *d) {
  weft_graph_t *g = NULL;
  const weft_output_t none = {NULL, 0};
  const weft_attr_t f32 = {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}, zero = {.kind = WEFT_ATTR_INT, .i = 0};
  const weft_named_attr_t arg[] = {{WEFT_STR("T"), f32}, {WEFT_STR("index"), zero}};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&g));
  weft_node_t *x = add(g, "_Arg", "x", none, none, arg, 2);
  weft_node_t *bad = add(g, "Exp", "broken", (weft_output_t){x, 0}, none, NULL, 0);
  weft_node_t *sum = add(g, "AddV2", "sum", (weft_output_t){bad, 0}, (weft_output_t){x, 0}, NULL, 0);
  bad->assigned_device = d->all[1]->name;
  sum->assigned_device = d->all[2]->name;
  add(g, "_Retval", "y", (weft_output_t){sum, 0}, none, arg, 2);
  test_devices_place(d, g, NULL);
  return g;
}

static void fail_on_one_of_two(bool by_host) {
  static const weft_kernel_t exp[] = {{.op = "Exp", .compute = break_with_output}, {0}};
  static const weft_kernel_t *const families[] = {exp, NULL};
  static const weft_kernel_table_t table = {.device_type = "LATE", .families = families};
  test_devices_t d;
  weft_exec_plan_t *plan = NULL;
  weft_tensor_t *x = NULL, *results[1] = {NULL};
  const float one = 1;
  weft_late_configure(
      &(weft_late_options_t){.num_devices = 2, .max_delay_us = 100, .seed = 3, .by_host = by_host});
  test_devices_init(&d, NULL, NULL);
  weft_graph_t *g = failing_graph(&d);
  const weft_plan_options_t options = {
      .device = d.all[0], .devices = d.all, .num_devices = d.n, .session = WEFT_STR("s"), .kernels = &table};
  CU_ASSERT_PTR_NULL_FATAL(weft_plan_create(g, &options, &plan));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_scalar(WEFT_F32, &one, &x));
  const weft_run_options_t o = {
      .step = {.id = 1, .args = &x, .num_args = 1, .results = results, .num_results = 1}, .run_inline = true};
  for (int i = 0; i < 3; i++) {
    weft_status_t *s = weft_plan_run_sync(plan, &o);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DATA_LOSS);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "{{node broken}} broke"));
    CU_ASSERT_PTR_NULL(results[0]);
    weft_status_free(s);
  }
  weft_tensor_release(x);
  weft_plan_release(plan);
  weft_graph_destroy(g);
  test_devices_deinit(&d);
  weft_late_configure(&(weft_late_options_t){.num_devices = 1, .max_delay_us = 200, .seed = 1});
}

static void a_failure_on_one_device_ends_the_step_on_both(void) {
  fail_on_one_of_two(false);
  fail_on_one_of_two(true);
}

static const CU_TestInfo tests[] = {
    {"finish waits for what was begun", finish_waits_for_what_was_begun},
    {"with all waits results are right", with_all_waits_results_are_right},
    {"computations wait for copies in", computations_wait_for_copies_in},
    {"copies out wait for computations", copies_out_wait_for_computations},
    {"copies in wait for the last use of their memory", copies_in_wait_for_the_last_use_of_their_memory},
    {"the host waits for copies out", the_host_waits_for_copies_out},
    {"the host keeps what is copied in", the_host_keeps_what_is_copied_in},
    {"copies between devices wait for computations", copies_between_devices_wait_for_computations},
    {"a step ends when its work is done", a_step_ends_when_its_work_is_done},
    {"the source of a copy between devices is kept", the_source_of_a_copy_between_devices_is_kept},
    {"a failure on one device ends the step on both", a_failure_on_one_device_ends_the_step_on_both},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/mutation", tests); }
