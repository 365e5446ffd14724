/* tests/device/mutation_test.c - each wait that the runtime asks of a device's queues is needed.
 *
 * A graph of copies and computations runs many times on a LATE device, first as it should, then with one kind
 * of wait left out (tests/device/late/late.h). What the mutant computes must differ within MAX_STEPS steps.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "executor/executor.h"
#include "tests/device/late/late.h"
#include "tests/device/test_devices.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

enum { MAX_STEPS = 3000, STEPS = 100, LENGTH = 4096, CHAIN = 6 };

typedef struct world {
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

/* y = x + x + ..., on the device; x + 1 on the host goes there and back between. */
static void build(world_t *w) {
  const weft_output_t none = {NULL, 0};
  const weft_attr_t f32 = {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}, zero = {.kind = WEFT_ATTR_INT, .i = 0};
  const weft_named_attr_t arg[] = {{WEFT_STR("T"), f32}, {WEFT_STR("index"), zero}};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&w->g));
  weft_node_t *x = add(w->g, "_Arg", "x", none, none, arg, 2), *y = x;
  for (int i = 0; i < CHAIN; i++) {
    char name[16];
    snprintf(name, sizeof name, "sum%d", i);
    y = add(w->g, "AddV2", name, (weft_output_t){y, 0}, (weft_output_t){x, 0}, NULL, 0);
    snprintf(name, sizeof name, "host%d", i);
    y = add(w->g, "Snapshot", name, (weft_output_t){y, 0}, none, NULL, 0); /* has no kernel there */
  }
  add(w->g, "_Retval", "y", (weft_output_t){y, 0}, none, arg, 2);
  test_devices_place(&w->devices, w->g, NULL);
  const weft_plan_options_t options = {.device = w->devices.all[0],
                                       .devices = w->devices.all,
                                       .num_devices = w->devices.n,
                                       .session = WEFT_STR("s")};
  CU_ASSERT_PTR_NULL_FATAL(weft_plan_create(w->g, &options, &w->plan));
}

static void open_world(world_t *w, weft_late_mutation_t mutation) {
  *w = (world_t){.pool = NULL};
  weft_late_configure(
      &(weft_late_options_t){.num_devices = 1, .max_delay_us = 100, .seed = 3, .mutation = mutation});
  CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("test", 2, &w->pool));
  test_devices_init(&w->devices, w->pool, NULL);
  build(w);
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

static void with_all_waits_results_are_right(void) {
  world_t w;
  open_world(&w, WEFT_LATE_NOTHING);
  for (int i = 0; i < STEPS; i++) CU_ASSERT_TRUE(step_is_right(&w, (float)i));
  close_world(&w);
}

/* In a process of its own: a mutant may write into memory that is not its any more. */
static void must_go_wrong(weft_late_mutation_t mutation) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    world_t w;
    int i = 0;
    const bool is_quiet = freopen("/dev/null", "w", stderr) != NULL;
    open_world(&w, mutation);
    while (i < MAX_STEPS && step_is_right(&w, (float)(i % 1000))) i++;
    _exit(i == MAX_STEPS && is_quiet ? 0 : 1);
  }
  CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
  CU_ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void computations_wait_for_copies_in(void) { must_go_wrong(WEFT_LATE_COMPUTE_BEFORE_COPY_IN); }
static void copies_out_wait_for_computations(void) { must_go_wrong(WEFT_LATE_COPY_OUT_BEFORE_COMPUTE); }
static void copies_in_wait_for_the_last_use_of_their_memory(void) {
  must_go_wrong(WEFT_LATE_COPY_IN_BEFORE_COMPUTE);
}
static void the_host_waits_for_copies_out(void) { must_go_wrong(WEFT_LATE_HOST_BEFORE_COPY_OUT); }
static void the_host_keeps_what_is_copied_in(void) { must_go_wrong(WEFT_LATE_HOST_BEFORE_COPY_IN); }

/* ---- the end of a step ---- */

static weft_status_t *broken(void *arg, const weft_status_t *poison) {
  (void)arg;
  return poison == NULL ? WEFT_ERROR(DATA_LOSS, "{{node broken}} broke") : NULL;
}

static weft_status_t *break_late(weft_kernel_ctx_t *c) { return weft_late_enqueue(c->queue, broken, NULL); }

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

static const CU_TestInfo tests[] = {
    {"with all waits results are right", with_all_waits_results_are_right},
    {"computations wait for copies in", computations_wait_for_copies_in},
    {"copies out wait for computations", copies_out_wait_for_computations},
    {"copies in wait for the last use of their memory", copies_in_wait_for_the_last_use_of_their_memory},
    {"the host waits for copies out", the_host_waits_for_copies_out},
    {"the host keeps what is copied in", the_host_keeps_what_is_copied_in},
    {"a step ends when its work is done", a_step_ends_when_its_work_is_done},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/mutation", tests); }
