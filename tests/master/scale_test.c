/* Large graphs of each shape, from a client's bytes to a finished step: the cost is linear in their size, and
 * no pass recurses over them. */
#include <stdio.h>
#include <time.h>

#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/pace.h"
#include "tests/runner.h"

#define W0 "/job:worker/task:0"
#define W1 "/job:worker/task:1"
#define IDENTITY "op:'Identity' attr{key:'T' value{type:DT_FLOAT}}"
#define ONE                                                           \
  "node{name:'n0' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} " \
  "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:1}}}} "

/* Graphs whose last node is "end". */

static void many_control_inputs(int n, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "node{name:'n%d' op:'NoOp'} ", i);
  weft_strbuf_puts(out, "node{name:'end' op:'NoOp'");
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, " input:'^n%d'", i);
  weft_strbuf_puts(out, "} ");
}

static void many_consumers(int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "node{name:'root' op:'NoOp'} ");
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "node{name:'n%d' op:'NoOp' input:'^root'} ", i);
  weft_strbuf_puts(out, "node{name:'end' op:'NoOp'");
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, " input:'^n%d'", i);
  weft_strbuf_puts(out, "} ");
}

/* One control input, said n times; TensorFlow takes it as one. */
static void equal_control_inputs(int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "node{name:'a' op:'NoOp'} node{name:'b' op:'NoOp'} node{name:'end' op:'NoOp'");
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, " input:'^%s'", i % 3 == 0 ? "a" : "b");
  weft_strbuf_puts(out, "} ");
}

static void between_tasks(int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "node{name:'root' op:'NoOp' device:'" W1 "'} ");
  for (int i = 0; i < n / 4; i++) {
    weft_strbuf_printf(out, "node{name:'n%d' op:'NoOp' input:'^root' device:'%s'} ", i, i % 2 == 0 ? W0 : W1);
  }
  weft_strbuf_puts(out, "node{name:'end' op:'NoOp' device:'" W0 "'");
  for (int i = 0; i < n / 4; i++) weft_strbuf_printf(out, " input:'^n%d'", i);
  weft_strbuf_puts(out, "} ");
}

static void a_chain_of_controls(int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "node{name:'n0' op:'NoOp'} ");
  for (int i = 1; i < n; i++) weft_strbuf_printf(out, "node{name:'n%d' op:'NoOp' input:'^n%d'} ", i, i - 1);
  weft_strbuf_printf(out, "node{name:'end' op:'NoOp' input:'^n%d'} ", n - 1);
}

/* Backwards in the file, too. */
static void a_chain_of_values(int n, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "node{name:'end' op:'NoOp' input:'^n%d'} ", n - 1);
  for (int i = n - 1; i > 0; i--)
    weft_strbuf_printf(out, "node{name:'n%d' " IDENTITY " input:'n%d'} ", i, i - 1);
  weft_strbuf_puts(out, ONE);
}

static void many_inputs(int n, weft_strbuf_t *out) {
  weft_strbuf_puts(out, ONE);
  for (int i = 1; i < n; i++) weft_strbuf_printf(out, "node{name:'n%d' " IDENTITY " input:'n0'} ", i);
  weft_strbuf_printf(
      out, "node{name:'sum' op:'AddN' attr{key:'N' value{i:%d}} attr{key:'T' value{type:DT_FLOAT}}", n);
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, " input:'n%d'", i);
  weft_strbuf_puts(out, "} node{name:'end' op:'NoOp' input:'^sum'} ");
}

typedef struct shape {
  const char *name;
  void (*write)(int n, weft_strbuf_t *out);
} shape_t;
static const shape_t shapes[] = {
    {"many control inputs", many_control_inputs},
    {"many consumers", many_consumers},
    {"equal control inputs", equal_control_inputs},
    {"controls between tasks", between_tasks},
    {"a chain of control edges", a_chain_of_controls},
    {"a chain of values", a_chain_of_values},
    {"many inputs", many_inputs},
};

/* Of this process alone: what else runs on the machine must not make it look quadratic. */
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(const shape_t *shape, int n) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "versions{producer:1882} ");
  shape->write(n, &text);
  weft_strbuf_t def = weft_test_graph_def(text.data);
  weft_strbuf_deinit(&text);
  double best = 1e9;
  for (int i = 0; i < 2; i++) {
    weft_test_cluster_t *c = weft_test_cluster_usual();
    weft_test_session_t s;
    const double start = cpu_seconds();
    weft_test_expect(
        weft_test_open_bytes(weft_test_cluster_master(c, 1), weft_str_of(def.data, def.length), "", &s),
        WEFT_OK, "");
    weft_test_target(&s, "end");
    weft_test_expect(weft_test_close(&s), WEFT_OK, "");
    const double seconds = cpu_seconds() - start;
    if (seconds < best) best = seconds;
    weft_test_cluster_destroy(c);
  }
  weft_strbuf_deinit(&def);
  return best;
}

/* Eight times as many nodes take eight times as long, or twelve where the caches end; as the square it would
 * be
 * 64. A busy machine makes a measurement twice as long. */
static void a_step_costs_time_linear_in_its_graph(void) {
  const int n = WEFT_TEST_IS_SANITIZED ? 2500 : 25000;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const double some = seconds_of(&shapes[i], n), all = seconds_of(&shapes[i], 8 * n);
    printf("\n    %-26s %d nodes: %.3f s, %d: %.3f s ", shapes[i].name, n, some, 8 * n, all);
    fflush(stdout);
    CU_ASSERT(WEFT_TEST_IS_SANITIZED || all < 24 * some + 0.1);
  }
}

static const CU_TestInfo tests[] = {
    {"a step costs time linear in its graph", a_step_costs_time_linear_in_its_graph},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("scale", tests); }
