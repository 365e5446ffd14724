/* tests/graph/copy_references_test.c - another task that reads a reference variable beside an update of it
 * gets a copy.
 */
#include "base/alloc.h"
#include "graph/references.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define FLOATS " attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}} "
#define ON(task) " device:'/job:" task "/replica:0/task:0/device:CPU:0' "
#define VARIABLE(name) "node{name:'" name "' op:'VariableV2'" ON("ps") FLOATS
#define INPUT(name) "node{name:'" name "' op:'Placeholder'" ON("ps") FLOATS
#define PAIR(name, op, task, x, y) \
  "node{name:'" name "' op:'" op "' input:'" x "' input:'" y "'" ON(task) T_FLOAT "} "
#define ONE(name, op, task, x) "node{name:'" name "' op:'" op "' input:'" x "'" ON(task) T_FLOAT "} "
#define AFTER(name, op, task, x, control) \
  "node{name:'" name "' op:'" op "' input:'" x "' input:'^" control "'" ON(task) T_FLOAT "} "

static bool crosses(void *arg, const weft_node_t *from, const weft_node_t *to) {
  (void)arg;
  return !weft_str_eq(from->requested_device, to->requested_device);
}

static weft_graph_t *copied(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  weft_test_expect(weft_pass_copy_references(g, crosses, NULL), WEFT_OK, "");
  return g;
}

static bool reads_copy(const weft_graph_t *g, const char *name) {
  return (weft_test_node(g, name)->inputs[0].node->flags & WEFT_OP_COPY) != 0;
}

static void a_reader_beside_an_update_gets_a_copy(void) {
  weft_graph_t *g = copied(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "ps", "w", "x") PAIR(
      "far", "Mul", "worker", "w", "w") ONE("other", "Neg", "worker", "w") ONE("near", "Neg", "ps", "w")
                               ONE("read", "Identity", "ps", "w") ONE("behind", "Neg", "worker", "read"));
  CU_ASSERT_TRUE(reads_copy(g, "far") && reads_copy(g, "other") && reads_copy(g, "behind"));
  CU_ASSERT_FALSE(reads_copy(g, "near") || reads_copy(g, "read") || reads_copy(g, "update"));
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), 2); /* of w, of what read gives */
  const weft_node_t *copy = weft_test_node(g, "far")->inputs[0].node;
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "far")->inputs[1].node, copy);
  CU_ASSERT_TRUE(weft_str_eq(copy->requested_device, weft_test_node(g, "w")->requested_device));
  weft_graph_destroy(g);
}

/* A step of training: the update waits for the gradient, which waits for the value. */
static void an_update_that_waits_for_its_readers_needs_no_copy(void) {
  weft_graph_t *g = copied(
      VARIABLE("w") INPUT("x") ONE("read", "Identity", "ps", "w") PAIR("loss", "Mul", "worker", "read", "x")
          ONE("gradient", "Neg", "worker", "loss") PAIR("update", "AssignSub", "ps", "w", "gradient"));
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), 0);
  weft_graph_destroy(g);
  g = copied(VARIABLE("w") INPUT("x") ONE("read", "Identity", "ps", "w")
                 PAIR("loss", "Mul", "worker", "read", "x") PAIR("update", "AssignSub", "ps", "w", "loss")
                     PAIR("second", "AssignSub", "ps", "w", "x"));
  CU_ASSERT_TRUE(reads_copy(g, "loss")); /* the second one does not wait */
  weft_graph_destroy(g);
}

static void a_reader_that_waits_for_an_update_sees_it(void) {
  weft_graph_t *g = copied(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "ps", "w", "x") AFTER(
      "new", "Neg", "worker", "w", "update") ONE("result", "Neg", "worker", "update"));
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), 0);
  weft_graph_destroy(g);
}

#define FRAME " attr{key:'frame_name' value{s:'loop'}} "
#define LOOP(body_input) \
  "node{name:'enter' op:'Enter' input:'x'" ON("worker") FRAME T_FLOAT                                        \
  "} node{name:'merge' op:'Merge' input:'enter' input:'next' attr{key:'N' value{i:2}}" ON("worker") T_FLOAT  \
  "} " PAIR("less", "Less", "worker", "merge", "merge") "node{name:'cond' op:'LoopCond' input:'less'"        \
  ON("worker") "} node{name:'switch' op:'Switch' input:'merge' input:'cond'" ON("worker") T_FLOAT            \
  "} " ONE("exit", "Exit", "worker", "switch") ONE("next", "NextIteration", "worker", "body")                \
  "node{name:'in' op:'Enter' input:'" body_input "' attr{key:'is_constant' value{b:true}}" ON("worker")      \
  FRAME T_FLOAT "} " PAIR("body", "Mul", "worker", "in", "switch:1")

/* What a loop's body reads, its Exits wait for, though only by way of the next iteration. */
static void loops_are_followed(void) {
  weft_graph_t *g = copied(VARIABLE("w") INPUT("x") LOOP("w") PAIR("update", "AssignAdd", "ps", "w", "exit"));
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), 0);
  weft_graph_destroy(g);
  g = copied(VARIABLE("w") INPUT("x") LOOP("w") PAIR("update", "AssignAdd", "ps", "w", "x"));
  CU_ASSERT_TRUE(reads_copy(g, "in"));
  weft_graph_destroy(g);
  g = copied(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "ps", "w", "x") LOOP("update")
                 AFTER("new", "Neg", "worker", "w", "exit"));
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), 0);
  weft_graph_destroy(g);
}

/* The variable is read in its task, but the loop ends in another one. */
static void a_loop_that_ends_elsewhere_gets_a_copy(void) {
  static const char *const in_task[] = {"in", "body", "less"};
  for (int waits = 0; waits < 2; waits++) {
    weft_graph_t *g = weft_test_graph(VARIABLE("w") INPUT("x") LOOP("w"));
    for (int i = 0; i < 3; i++)
      weft_test_node(g, in_task[i])->requested_device = weft_test_node(g, "w")->requested_device;
    weft_node_t *exit = weft_test_node(g, waits ? "exit" : "x");
    weft_node_t *update = NULL;
    const weft_output_t inputs[] = {{weft_test_node(g, "w"), 0}, {exit, 0}};
    const weft_named_attr_t type = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
    const weft_node_spec_t spec = {.name = WEFT_STR("update"),
                                   .op = WEFT_STR("AssignAdd"),
                                   .device = weft_test_node(g, "w")->requested_device,
                                   .inputs = inputs,
                                   .num_inputs = 2,
                                   .attrs = &type,
                                   .num_attrs = 1};
    weft_test_expect(weft_graph_add(g, &spec, &update), WEFT_OK, "");
    weft_test_expect(weft_pass_copy_references(g, crosses, NULL), WEFT_OK, "");
    CU_ASSERT_EQUAL(reads_copy(g, "in"), waits == 0);
    weft_graph_destroy(g);
  }
}

/* More than one word of updates. */
static void many_variables(void) {
  enum { MANY = 150 };
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, INPUT("x"));
  for (int i = 0; i < MANY; i++) {
    weft_strbuf_printf(&text, "node{name:'w%d' op:'VariableV2'" ON("ps") FLOATS, i);
    weft_strbuf_printf(&text, "node{name:'r%d' op:'Neg' input:'w%d'" ON("worker") T_FLOAT "} ", i, i);
    weft_strbuf_printf(&text, "node{name:'u%d' op:'AssignAdd' input:'w%d' ", i, i);
    if (i % 3 == 0) weft_strbuf_printf(&text, "input:'r%d'", i);
    if (i % 3 != 0) weft_strbuf_puts(&text, "input:'x'");
    weft_strbuf_puts(&text, ON("ps") T_FLOAT "} ");
  }
  weft_graph_t *g = copied(text.data);
  CU_ASSERT_EQUAL(weft_test_count(g, "DeepCopy"), MANY - MANY / 3);
  CU_ASSERT_TRUE(reads_copy(g, "r1") && reads_copy(g, "r149") && !reads_copy(g, "r147"));
  weft_strbuf_deinit(&text);
  weft_graph_destroy(g);
}

static weft_status_t *copy_in_copy(const weft_graph_t *g) {
  weft_graph_t *copy = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(g, &copy));
  weft_status_t *s = weft_pass_copy_references(copy, crosses, NULL);
  weft_graph_destroy(copy);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  weft_graph_t *g =
      weft_test_graph(VARIABLE("w") INPUT("x") LOOP("w") PAIR("update", "AssignAdd", "ps", "w", "x"));
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, copy_in_copy(g));
  CU_ASSERT(n > 5);
  weft_graph_destroy(g);
}

static CU_TestInfo tests[] = {
    {"a reader beside an update gets a copy", a_reader_beside_an_update_gets_a_copy},
    {"an update that waits for its readers needs no copy",
     an_update_that_waits_for_its_readers_needs_no_copy},
    {"a reader that waits for an update sees it", a_reader_that_waits_for_an_update_sees_it},
    {"loops are followed", loops_are_followed},
    {"a loop that ends elsewhere gets a copy", a_loop_that_ends_elsewhere_gets_a_copy},
    {"many variables", many_variables},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("copy_references", tests); }
