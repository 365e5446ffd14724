/* Random graphs over several tasks: the same results as on one, with no transfer too many, with passes and
 * without; and steps in a crowd.
 *
 * Acceptance tests T-TF-1, 2 and 7 of the reference's sheet 3.23.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/graph/graph_testing.h"
#include "tests/master/local_cluster.h"
#include "tests/runner.h"

enum {
  GRAPHS = 1000, /* or WEFT_TEST_GRAPHS, where each takes long */
  MAX_NODES = 200,
  MAX_BRANCH = 6,                             /* nodes on a side of a condition */
  ALL_NODES = MAX_NODES + 2 * MAX_BRANCH + 4, /* with the last condition, and the client */
  MAX_TASKS = 5,
  FETCHES = 4,
  MAX_EDGES = 4 * ALL_NODES
};

static const char *const tasks[MAX_TASKS] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
                                             "/job:worker/replica:0/task:2", "/job:worker/replica:0/task:3",
                                             "/job:worker/replica:0/task:4"};

typedef struct edge {
  int from, output, to; /* output -1: control */
} edge_t;

typedef struct random_graph {
  uint64_t state;
  int num_nodes, num_edges, num_values, num_tasks, num_predicates;
  int predicates[ALL_NODES];
  int task_of[ALL_NODES], values[ALL_NODES]; /* values: nodes that others may use */
  edge_t edges[MAX_EDGES + FETCHES];
  bool on_one; /* the same graph, all on task 0 */
  weft_strbuf_t text;
} random_graph_t;

static int draw(random_graph_t *g, int n) {
  g->state = g->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((g->state >> 33) % (uint64_t)n);
}

static void begin_node(random_graph_t *g, const char *op) {
  int id = g->num_nodes++, task = draw(g, g->num_tasks);
  g->task_of[id] = g->on_one ? 0 : task;
  weft_strbuf_printf(&g->text, "node{name:\"n%d\" op:\"%s\" device:\"%s\" ", id, op, tasks[g->task_of[id]]);
}
static void input(random_graph_t *g, int from, int output) {
  if (output < 0) {
    weft_strbuf_printf(&g->text, "input:\"^n%d\" ", from);
  } else {
    weft_strbuf_printf(&g->text, "input:\"n%d:%d\" ", from, output);
  }
  g->edges[g->num_edges++] = (edge_t){from, output, g->num_nodes - 1};
}
static int any_value(random_graph_t *g) { return g->values[draw(g, g->num_values)]; }

/* Ends a node that computes a float; it may wait for one more. */
static void end_node(random_graph_t *g, const char *attrs, bool may_wait) {
  if (may_wait && draw(g, 4) == 0) input(g, any_value(g), -1);
  weft_strbuf_printf(&g->text, "%s} ", attrs);
}
static void value(random_graph_t *g) { g->values[g->num_values++] = g->num_nodes - 1; }

#define FLOAT "attr{key:\"T\" value{type:DT_FLOAT}}"

static void add_constant(random_graph_t *g) {
  char attrs[200];
  snprintf(attrs, sizeof attrs,
           "attr{key:\"dtype\" value{type:DT_FLOAT}} attr{key:\"value\" value{tensor{dtype:DT_FLOAT "
           "tensor_shape{} float_val:%d}}}",
           draw(g, 20) - 10);
  begin_node(g, "Const");
  end_node(g, attrs, false);
  value(g);
}

static void add_math(random_graph_t *g) {
  static const char *const ops[] = {"AddV2", "Sub", "Maximum", "Minimum", "Mul", "Neg", "Identity"};
  int op = draw(g, 7);
  begin_node(g, ops[op]);
  input(g, any_value(g), 0);
  if (op < 5) input(g, any_value(g), 0);
  end_node(g, FLOAT, true);
  value(g);
}

/* A Less, or one that was asked before: what it switches then is dead with what it switched there. */
static int any_predicate(random_graph_t *g) {
  if (g->num_predicates > 0 && draw(g, 2) == 0) return g->predicates[draw(g, g->num_predicates)];
  begin_node(g, "Less");
  input(g, any_value(g), 0);
  input(g, any_value(g), 0);
  end_node(g, FLOAT, false);
  return g->predicates[g->num_predicates++] = g->num_nodes - 1;
}

/* Nodes on a side of a condition; returns the last. */
static int add_branch(random_graph_t *g, int fork, int side) {
  static const char *const ops[] = {"Neg", "Identity", "AddV2", "Minimum"};
  int last = fork, output = side;
  for (int i = 1 + draw(g, MAX_BRANCH); i > 0; i--) {
    int op = draw(g, 4);
    begin_node(g, ops[op]);
    input(g, last, output);
    if (op > 1) input(g, any_value(g), 0);
    end_node(g, FLOAT, false);
    last = g->num_nodes - 1;
    output = 0;
  }
  return last;
}

/* Less -> Switch -> a few nodes on each side -> Merge. */
static void add_condition(random_graph_t *g) {
  const int less = any_predicate(g);
  begin_node(g, "Switch");
  input(g, any_value(g), 0);
  input(g, less, 0);
  end_node(g, FLOAT, false);
  const int fork = g->num_nodes - 1;
  const int no = add_branch(g, fork, 0), yes = add_branch(g, fork, 1);
  begin_node(g, "Merge");
  input(g, no, 0);
  input(g, yes, 0);
  end_node(g, FLOAT " attr{key:\"N\" value{i:2}}", false);
  value(g);
}

static void make(random_graph_t *g, uint64_t seed, bool on_one) {
  *g = (random_graph_t){.state = seed, .on_one = on_one, .text = WEFT_STRBUF_INIT};
  g->num_tasks = 1 + draw(g, MAX_TASKS);
  int wanted = 10 + draw(g, MAX_NODES - 10);
  weft_strbuf_puts(&g->text, "versions{producer:1882} ");
  for (int i = 0; i < 3; i++) add_constant(g);
  while (g->num_nodes < wanted) {
    int kind = draw(g, 10);
    if (kind == 0)
      add_constant(g);
    else if (kind == 1)
      add_condition(g);
    else
      add_math(g);
  }
}

static weft_test_run_t fetch_last(const random_graph_t *g, char names[FETCHES][16]) {
  weft_test_run_t run = {0};
  for (int i = 0; i < FETCHES; i++) {
    int at = g->num_values - 1 - i;
    if (at < 0) break;
    snprintf(names[i], sizeof names[i], "n%d:0", g->values[at]);
    run.fetches[i] = names[i];
  }
  return run;
}

/* Distinct (tensor, destination task) pairs of what the fetches need; fetches go to the master's task. */
static int transfers(random_graph_t *g) {
  static bool needed[ALL_NODES];
  int n = 0, client = g->num_nodes;
  memset(needed, 0, sizeof needed);
  needed[client] = true;
  g->task_of[client] = 0;
  for (int i = 0; i < FETCHES && i < g->num_values; i++) {
    g->edges[g->num_edges++] = (edge_t){g->values[g->num_values - 1 - i], 0, client};
  }
  for (int i = g->num_edges - 1; i >= 0; i--) { /* edges are in the order of their ends */
    if (needed[g->edges[i].to]) needed[g->edges[i].from] = true;
  }
  for (int i = 0; i < g->num_edges; i++) {
    const edge_t *e = &g->edges[i];
    bool is_new = needed[e->to] && g->task_of[e->from] != g->task_of[e->to];
    for (int k = 0; k < i && is_new; k++) {
      const edge_t *f = &g->edges[k];
      is_new = !(needed[f->to] && f->from == e->from && f->output == e->output &&
                 g->task_of[f->to] == g->task_of[e->to]);
    }
    n += is_new;
  }
  return n;
}

static weft_test_cluster_t *cluster;

static int count(weft_test_call_t call) {
  int n = 0;
  for (int i = 0; i < MAX_TASKS; i++) n += weft_test_cluster_count(cluster, i, call);
  return n;
}

static weft_test_session_t opened_without_passes(weft_master_client_t *m, const char *graph) {
  static const char off[] = "graph_options{rewrite_options{disable_meta_optimizer:true}}";
  weft_test_session_t s = {.master = m};
  weft_test_expect(weft_test_open(m, graph, off, &s), WEFT_OK, "");
  return s;
}

static void results_and_transfers_are_right(void) {
  static random_graph_t many, one;
  int wrong = 0, too_many = 0;
  cluster = weft_test_cluster_create(tasks, MAX_TASKS);
  weft_master_client_t *m = weft_test_cluster_master(cluster, 0);
  const char *wanted = getenv("WEFT_TEST_GRAPHS");
  const int graphs = wanted == NULL ? GRAPHS : atoi(wanted);
  for (int i = 0; i < graphs; i++) {
    char names[FETCHES][16];
    double expected[FETCHES] = {0}, got[FETCHES] = {0}, optimised[FETCHES] = {0};
    make(&many, (uint64_t)i, false);
    make(&one, (uint64_t)i, true);
    weft_test_run_t run = fetch_last(&many, names);
    weft_test_session_t a = opened_without_passes(m, one.text.data);
    weft_test_session_t b = opened_without_passes(m, many.text.data);
    weft_test_session_t c = weft_test_opened(m, many.text.data);
    weft_test_expect(weft_test_run(&a, &run, expected), WEFT_OK, "");
    int before = count(WEFT_TEST_RECV_TENSOR);
    weft_test_expect(weft_test_run(&b, &run, got), WEFT_OK, "");
    int sent = count(WEFT_TEST_RECV_TENSOR) - before;
    weft_test_expect(weft_test_run(&c, &run, optimised), WEFT_OK, "");
    const int sent_optimised = count(WEFT_TEST_RECV_TENSOR) - before - sent;
    wrong += memcmp(expected, got, sizeof got) != 0 || memcmp(expected, optimised, sizeof got) != 0;
    int expected_sent = transfers(&many);
    too_many += sent != expected_sent || sent_optimised > sent;
    if (sent != expected_sent && too_many == 1)
      fprintf(stderr, "graph %d: %d transfers, not %d\n", i, sent, expected_sent);
    weft_test_expect(weft_test_close(&a), WEFT_OK, "");
    weft_test_expect(weft_test_close(&b), WEFT_OK, "");
    weft_test_expect(weft_test_close(&c), WEFT_OK, "");
    weft_strbuf_deinit(&many.text);
    weft_strbuf_deinit(&one.text);
  }
  CU_ASSERT_TRUE(graphs > 0);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(too_many, 0);
  weft_test_cluster_destroy(cluster);
}

static void a_signature_is_registered_once(void) {
  static random_graph_t g;
  char names[FETCHES][16];
  cluster = weft_test_cluster_create(tasks, MAX_TASKS);
  make(&g, 1, false);
  weft_test_run_t run = fetch_last(&g, names);
  weft_test_session_t s = weft_test_opened(weft_test_cluster_master(cluster, 0), g.text.data);
  weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_OK, "");
  int before = count(WEFT_TEST_REGISTER_GRAPH);
  CU_ASSERT_TRUE(before > 1);
  for (int i = 0; i < 10; i++) weft_test_expect(weft_test_run(&s, &run, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(count(WEFT_TEST_REGISTER_GRAPH), before);
  weft_strbuf_deinit(&g.text);
  weft_test_cluster_destroy(cluster);
}

#define COUNTER                                                                                       \
  "versions{producer:1882} node{name:\"v\" op:\"VariableV2\" device:\"/job:worker/task:1\" "          \
  "attr{key:\"dtype\" value{type:DT_FLOAT}} "                                                         \
  "attr{key:\"shape\" value{shape{}}}} node{name:\"zero\" op:\"Const\" attr{key:\"dtype\" "           \
  "value{type:DT_FLOAT}} "                                                                            \
  "attr{key:\"value\" value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:0}}}} node{name:\"one\" "  \
  "op:\"Const\" "                                                                                     \
  "device:\"/job:worker/task:2\" attr{key:\"dtype\" value{type:DT_FLOAT}} attr{key:\"value\" "        \
  "value{tensor{dtype:DT_FLOAT "                                                                      \
  "tensor_shape{} float_val:1}}}} node{name:\"init\" op:\"Assign\" input:\"v\" input:\"zero\" " FLOAT \
  "} "                                                                                                \
  "node{name:\"more\" op:\"AssignAdd\" input:\"v\" input:\"one\" " FLOAT                              \
  " attr{key:\"use_locking\" value{b:true}}} "                                                        \
  "node{name:\"read\" op:\"Identity\" input:\"v\" device:\"/job:worker/task:3\" " FLOAT "}"

/* Two sessions, `steps` of each in flight at once. */
static void crowd(const char *config, double expected_a, double expected_b) {
  enum { STEPS = 500 };
  static weft_test_step_t k[2][STEPS];
  weft_test_session_t s[2];
  cluster = weft_test_cluster_create(tasks, MAX_TASKS);
  weft_strbuf_t def = weft_test_graph_def(COUNTER);
  memset(k, 0, sizeof k);
  for (int i = 0; i < 2; i++) {
    weft_master_client_t *m = weft_test_cluster_master(cluster, i);
    weft_test_expect(weft_test_open_bytes(m, weft_str_of(def.data, def.length), config, &s[i]), WEFT_OK, "");
  }
  for (int i = 0; i < 2; i++) weft_test_target(&s[i], "init");
  weft_test_run_t run = {.targets = {"more"}};
  for (int j = 0; j < STEPS; j++) {
    for (int i = 0; i < 2; i++) weft_test_start(&s[i], &run, &k[i][j]);
  }
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < STEPS; j++) {
      weft_test_expect(weft_test_step_wait(&k[i][j]), WEFT_OK, "");
      weft_test_step_deinit(&k[i][j]);
    }
  }
  CU_ASSERT_EQUAL(weft_test_fetch(&s[0], "read:0"), expected_a);
  CU_ASSERT_EQUAL(weft_test_fetch(&s[1], "read:0"), expected_b);
  for (int i = 0; i < 2; i++) weft_test_expect(weft_test_close(&s[i]), WEFT_OK, "");
  weft_strbuf_deinit(&def);
  weft_test_cluster_destroy(cluster);
}

static void a_thousand_steps_of_two_sessions_share_or_do_not(void) {
  crowd("isolate_session_state: false", 1000, 1000);
  crowd("isolate_session_state: true", 500, 500);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"results and transfers are right", results_and_transfers_are_right},
      {"a signature is registered once", a_signature_is_registered_once},
      {"a thousand steps of two sessions share or do not", a_thousand_steps_of_two_sessions_share_or_do_not},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("random graphs", tests);
}
