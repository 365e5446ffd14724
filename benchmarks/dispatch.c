/* benchmarks/dispatch.c - see dispatch.h. */
#include "benchmarks/dispatch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "executor/executor.h"

enum { NUM_NODES = 100000, NUM_STEPS = 31, QUICK_STEPS = 3, MAX_STEPS = 1000, EVICT_BYTES = 64 << 20 };

static uint64_t next_random(uint64_t *state) { /* splitmix64 by Sebastiano Vigna, public domain */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static weft_status_t *add(weft_graph_t *g, const char *op, int number, const weft_output_t *input,
                          weft_node_t *const *controls, int num_controls, weft_node_t **out) {
  char name[32];
  int length = snprintf(name, sizeof name, "n%d", number);
  weft_node_spec_t spec = {.name = weft_str_of(name, (size_t)length),
                           .op = weft_str(op),
                           .inputs = input,
                           .num_inputs = input != NULL,
                           .controls = controls,
                           .num_controls = num_controls};
  return weft_graph_add(g, &spec, out);
}

static weft_status_t *add_scalar(weft_graph_t *g, weft_node_t **out) {
  float one = 1.0f;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_F32, &one, &t));
  weft_named_attr_t attrs[] = {
      {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}},
  };
  weft_node_spec_t spec = {.name = WEFT_STR("n0"), .op = WEFT_STR("Const"), .attrs = attrs, .num_attrs = 2};
  weft_status_t *s = weft_graph_add(g, &spec, out);
  weft_tensor_release(t);
  return s;
}

static weft_status_t *add_node(weft_dispatch_kind_t kind, weft_graph_t *g, weft_node_t **nodes, int i,
                               int num_nodes, uint64_t *random) {
  weft_node_t *controls[3];
  int n = 0;
  switch (kind) {
    case WEFT_DISPATCH_CHAIN:
      if (i > 0) controls[n++] = nodes[i - 1];
      break;
    case WEFT_DISPATCH_WIDE:
      if (i == num_nodes - 1) return add(g, "NoOp", i, NULL, nodes + 1, i - 1, &nodes[i]);
      if (i > 0) controls[n++] = nodes[0];
      break;
    case WEFT_DISPATCH_RANDOM:
      for (int k = 0; k < 3 && i > 0; k++) {
        weft_node_t *from = nodes[next_random(random) % (uint64_t)i];
        bool is_new = true;
        for (int j = 0; j < n; j++) is_new = is_new && controls[j] != from;
        if (is_new) controls[n++] = from;
      }
      break;
    case WEFT_DISPATCH_VALUES:
      if (i == 0) return add_scalar(g, &nodes[0]);
      return add(g, "Identity", i, &(weft_output_t){nodes[i - 1], 0}, NULL, 0, &nodes[i]);
  }
  return add(g, "NoOp", i, NULL, controls, n, &nodes[i]);
}

static weft_status_t *build(weft_dispatch_kind_t kind, int num_nodes, weft_graph_t **out) {
  weft_graph_t *g = NULL;
  uint64_t random = 1;
  weft_node_t **nodes = weft_calloc((size_t)num_nodes, sizeof(*nodes));
  weft_status_t *s =
      nodes == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "%d nodes", num_nodes) : weft_graph_create(&g);
  for (int i = 0; s == NULL && i < num_nodes; i++) s = add_node(kind, g, nodes, i, num_nodes, &random);
  weft_free(nodes);
  if (s != NULL) {
    weft_graph_destroy(g);
    return s;
  }
  *out = g;
  return NULL;
}

static weft_status_t *compile(weft_dispatch_kind_t kind, int num_nodes, weft_device_t *d,
                              weft_exec_plan_t **out) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(build(kind, num_nodes, &g));
  weft_status_t *s = weft_plan_create(g, &(weft_plan_options_t){.device = d, .session = WEFT_STR("")}, out);
  weft_graph_destroy(g);
  return s;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Fills the caches with something else. */
static void evict(volatile char *bytes) {
  for (int i = 0; i < EVICT_BYTES; i += 64) bytes[i]++;
}

static weft_status_t *time_steps(weft_exec_plan_t *p, int num_steps, volatile char *cold, double *out_ns) {
  weft_run_options_t options = {.step = {.id = 1}, .run_inline = true};
  for (int i = -2; i < num_steps; i++) { /* two to warm up: they allocate what later steps use again */
    if (cold != NULL) evict(cold);
    int64_t start = weft_clock_ns();
    WEFT_RETURN_IF_ERROR(weft_plan_run_sync(p, &options));
    if (i >= 0) out_ns[i] = (double)(weft_clock_ns() - start);
  }
  qsort(out_ns, (size_t)num_steps, sizeof *out_ns, by_value);
  return NULL;
}

weft_status_t *weft_bench_dispatch(weft_dispatch_kind_t kind, int num_nodes, int num_steps, double *out_ns,
                                   double *out_spread) {
  weft_device_t *d = NULL;
  weft_exec_plan_t *p = NULL;
  double ns[MAX_STEPS];
  char *cold = weft_calloc(1, EVICT_BYTES);
  weft_status_t *s = NULL;
  if (cold == NULL || num_nodes < 3 || num_steps < 1 || num_steps > MAX_STEPS) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "cannot time %d steps of %d nodes", num_steps, num_nodes);
    goto done;
  }
  s = weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1, NULL, NULL, &d);
  if (s == NULL) s = compile(kind, num_nodes, d, &p);
  if (s == NULL) s = time_steps(p, num_steps, cold, ns);
  if (s != NULL) goto done;
  double median = ns[num_steps / 2];
  *out_ns = median / num_nodes;
  if (out_spread != NULL) *out_spread = (ns[num_steps * 9 / 10] - ns[num_steps / 10]) / median;
done:
  weft_plan_release(p);
  weft_device_destroy(d);
  weft_free(cold);
  return s;
}

static int steps(const weft_bench_options_t *o) { return o->is_quick ? QUICK_STEPS : NUM_STEPS; }

weft_status_t *weft_bench_dispatch_chain(const weft_bench_options_t *o, double *out_value) {
  return weft_bench_dispatch(WEFT_DISPATCH_CHAIN, NUM_NODES, steps(o), out_value, NULL);
}

weft_status_t *weft_bench_dispatch_wide(const weft_bench_options_t *o, double *out_value) {
  return weft_bench_dispatch(WEFT_DISPATCH_WIDE, NUM_NODES, steps(o), out_value, NULL);
}

weft_status_t *weft_bench_dispatch_random(const weft_bench_options_t *o, double *out_value) {
  return weft_bench_dispatch(WEFT_DISPATCH_RANDOM, NUM_NODES, steps(o), out_value, NULL);
}

weft_status_t *weft_bench_dispatch_step(const weft_bench_options_t *o, double *out_value) {
  weft_device_t *d = NULL;
  weft_exec_plan_t *p = NULL;
  double ns[MAX_STEPS];
  weft_status_t *s =
      weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1, NULL, NULL, &d);
  if (s == NULL) s = compile(WEFT_DISPATCH_VALUES, 5, d, &p);
  int n = o->is_quick ? 100 : MAX_STEPS;
  if (s == NULL) s = time_steps(p, n, NULL, ns);
  if (s == NULL) *out_value = ns[n / 2] / 1000;
  weft_plan_release(p);
  weft_device_destroy(d);
  return s;
}
