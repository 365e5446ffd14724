/* tests/graph/passes/optimized.c - see the header. */
#include "tests/graph/passes/optimized.h"

#include "device/device.h"
#include "kernels/evaluate.h"
#include "resources/resource.h"
#include "tests/runner.h"

static struct {
  weft_thread_pool_t *pool;
  weft_resource_manager_t *resources;
  weft_device_t *device;
  weft_evaluator_t evaluator;
} cpu;

const weft_evaluator_t *weft_test_evaluator(void) {
  if (cpu.device != NULL) return &cpu.evaluator;
  weft_test_expect(weft_thread_pool_create("fold", 2, &cpu.pool), WEFT_OK, "");
  weft_test_expect(weft_resource_manager_create(&cpu.resources), WEFT_OK, "");
  weft_test_expect(weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1,
                                          cpu.pool, cpu.resources, &cpu.device),
                   WEFT_OK, "");
  cpu.evaluator = (weft_evaluator_t){weft_evaluate_node, cpu.device};
  return &cpu.evaluator;
}

void weft_test_evaluator_destroy(void) {
  weft_device_destroy(cpu.device);
  weft_thread_pool_destroy(cpu.pool);
  weft_resource_manager_destroy(cpu.resources);
  cpu.device = NULL;
}

weft_graph_t *weft_test_optimized(const char *text, const char *passes, const char *const *keep) {
  enum { MOST_KEPT = 16 };
  weft_str_t names[MOST_KEPT];
  weft_graph_t *g = weft_test_graph(text);
  weft_optimize_options_t o = {
      .settings = weft_pass_defaults(), .keep = names, .evaluator = weft_test_evaluator()};
  o.settings.min_nodes = 0;
  weft_test_expect(weft_pass_settings_parse(weft_str(passes), &o.settings), WEFT_OK, "");
  while (keep[o.num_keep] != NULL && o.num_keep < MOST_KEPT) {
    names[o.num_keep] = weft_str(keep[o.num_keep]);
    o.num_keep++;
  }
  weft_test_expect(weft_optimize(&g, &o), WEFT_OK, "");
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  return g;
}

weft_graph_t *weft_test_optimized1(const char *text, const char *passes, const char *keep) {
  const char *const names[] = {keep, NULL};
  return weft_test_optimized(text, passes, names);
}

bool weft_test_reads(const weft_graph_t *g, const char *node, int input, const char *from) {
  const weft_node_t *n = weft_test_node(g, node);
  CU_ASSERT_FATAL(input < n->num_inputs);
  return weft_str_is(n->inputs[input].node->name, from);
}

bool weft_test_is_gone(const weft_graph_t *g, const char *node) {
  return weft_graph_find(g, weft_str(node)) == NULL;
}
