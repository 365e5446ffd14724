/* tests/graph/order_references_test.c - readers of a reference variable come before its updates, where they
 * can.
 */
#include "base/alloc.h"
#include "graph/references.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define FLOATS " attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}} "
#define VARIABLE(name) "node{name:'" name "' op:'VariableV2'" FLOATS
#define INPUT(name) "node{name:'" name "' op:'Placeholder'" FLOATS
#define PAIR(name, op, x, y) "node{name:'" name "' op:'" op "' input:'" x "' input:'" y "'" T_FLOAT "} "
#define AFTER(name, op, x, y, control) \
  "node{name:'" name "' op:'" op "' input:'" x "' input:'" y "' input:'^" control "'" T_FLOAT "} "
#define ONE(name, op, x) "node{name:'" name "' op:'" op "' input:'" x "'" T_FLOAT "} "
#define RECV(name)                                                                                  \
  "node{name:'" name                                                                                \
  "' op:'_Recv' attr{key:'tensor_type' value{type:DT_FLOAT}} attr{key:'tensor_name' value{s:'" name \
  "'}} attr{key:'send_device' value{s:'a'}} attr{key:'recv_device' value{s:'b'}} "                  \
  "attr{key:'send_device_incarnation' value{i:1}}} "

static weft_graph_t *ordered(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  weft_test_expect(weft_pass_order_references(g, NULL, NULL), WEFT_OK, "");
  weft_node_t **order = NULL;
  weft_test_expect(weft_graph_topological_order(g, &order), WEFT_OK, ""); /* no cycles */
  weft_free(order);
  return g;
}

static bool follows(const weft_graph_t *g, const char *to, const char *from) {
  return weft_test_depends(g, weft_test_node(g, to), weft_test_node(g, from));
}

static void readers_come_before_updates(void) {
  static const char *const updates_first = VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x")
      PAIR("square", "Mul", "w", "w") ONE("loss", "Neg", "square") ONE("read", "Identity", "w");
  static const char *const readers_first = VARIABLE("w") INPUT("x") ONE("read", "Identity", "w")
      PAIR("square", "Mul", "w", "w") ONE("loss", "Neg", "square") PAIR("update", "AssignAdd", "w", "x");
  for (int i = 0; i < 2; i++) {
    weft_graph_t *g = ordered(i == 0 ? updates_first : readers_first);
    CU_ASSERT_TRUE(follows(g, "update", "square"));
    CU_ASSERT_TRUE(follows(g, "update", "read"));
    CU_ASSERT_FALSE(follows(g, "update", "loss")); /* reads no reference */
    weft_graph_destroy(g);
  }
}

/* Identity and Reshape hand the variable's buffer on: what is behind them reads it. */
static void readers_through_identities_and_views_come_before_updates(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x")
                                ONE("read", "Identity", "w") ONE("again", "Identity", "read")
                                    PAIR("flat", "Reshape", "again", "shape") PAIR("loss", "Mul", "read", "x")
                                        ONE("far", "Neg", "flat") ONE("farther", "Neg", "far")
                                            AFTER("new", "Mul", "read", "x", "update")
                                                "node{name:'shape' op:'Placeholder' "
                                                "attr{key:'dtype' value{type:DT_INT32}} "
                                                "attr{key:'shape' value{shape{dim{size:1}}}}} ");
  CU_ASSERT_TRUE(follows(g, "update", "loss"));
  CU_ASSERT_TRUE(follows(g, "update", "far"));
  CU_ASSERT_FALSE(follows(g, "update", "farther")); /* has memory of its own */
  CU_ASSERT_TRUE(follows(g, "new", "update") && !follows(g, "update", "new"));
  weft_graph_destroy(g);
}

#define MERGE(name, x, y) \
  "node{name:'" name "' op:'Merge' input:'" x "' input:'" y "' attr{key:'N' value{i:2}}" T_FLOAT "} "
#define SWITCH(name, op, x) "node{name:'" name "' op:'" op "' input:'" x "' input:'p'" T_FLOAT "} "
#define PREDICATE \
  "node{name:'p' op:'Placeholder' attr{key:'dtype' value{type:DT_BOOL}} attr{key:'shape' value{shape{}}}} "

static bool has_control_of(const weft_graph_t *g, const char *to, const char *op) {
  const weft_node_t *n = weft_test_node(g, to);
  bool found = false;
  for (int i = 0; i < n->num_controls; i++) found |= weft_str_eq(n->controls[i]->op->name, weft_str(op));
  return found;
}

/* Readers in a branch may be dead; the update is not. */
static void readers_in_branches_come_before_updates(void) {
  static const char *const switches[] = {"RefSwitch", "Switch"};
  for (int i = 0; i < 2; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text,
                       VARIABLE("w") INPUT("x") PREDICATE PAIR("update", "AssignAdd", "w", "x")
                           SWITCH("s", "%s", "w") PAIR("then", "Mul", "s:1", "s:1") ONE("else", "Neg", "s")
                               ONE("loss", "Neg", "then"),
                       switches[i]);
    weft_graph_t *g = ordered(text.data);
    CU_ASSERT_TRUE(follows(g, "update", "then") && follows(g, "update", "else"));
    CU_ASSERT_FALSE(follows(g, "update", "loss"));
    CU_ASSERT_TRUE(has_control_of(g, "update", "ControlTrigger"));
    weft_strbuf_deinit(&text);
    weft_graph_destroy(g);
  }
}

static void a_branch_that_an_update_decides_stays_behind_it(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") PAIR(
      "p", "Less", "update", "x") SWITCH("s", "RefSwitch", "w") PAIR("then", "Mul", "s:1", "s:1")
                                SWITCH("t", "Switch", "x") PAIR("in_branch", "AssignAdd", "s:1", "t:1"));
  CU_ASSERT_TRUE(follows(g, "then", "update") && !follows(g, "update", "then"));
  CU_ASSERT_TRUE(has_control_of(g, "in_branch", "Mul")); /* dead together: no gate */
  CU_ASSERT_FALSE(has_control_of(g, "in_branch", "ControlTrigger"));
  weft_graph_destroy(g);
}

#define FRAME(name) " attr{key:'frame_name' value{s:'" name "'}} "
#define ENTER(name, frame, x) "node{name:'" name "' op:'Enter' input:'" x "'" FRAME(frame) T_FLOAT "} "
#define LOOP(pre, frame, start)                                                \
  ENTER(pre "enter", frame, start)                                             \
  MERGE(pre "merge", pre "enter", pre "next")                                  \
  PAIR(pre "less", "Less", pre "merge", pre "merge")                           \
  "node{name:'" pre "cond' op:'LoopCond' input:'" pre "less'} node{name:'" pre \
  "switch' op:'Switch' input:'" pre "merge' input:'" pre "cond'" T_FLOAT       \
  "} " ONE(pre "exit", "Exit", pre "switch") ONE(pre "next", "NextIteration", pre "body")

/* The update waits for the end of the loop. */
static void readers_in_loops_come_before_updates(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") PAIR(
      "other", "AssignAdd", "w", "x") LOOP("", "loop", "x") ENTER("read", "loop", "w")
                                PAIR("body", "Mul", "switch:1", "read") ONE("loss", "Neg", "exit"));
  CU_ASSERT_TRUE(follows(g, "update", "exit") && follows(g, "other", "exit"));
  CU_ASSERT_FALSE(follows(g, "update", "loss"));
  weft_graph_destroy(g);
  g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") LOOP("", "loop", "x")
                  LOOP("in_", "inner", "switch:1") ENTER("w1", "loop", "w") ENTER("w2", "inner", "w1")
                      PAIR("in_body", "Mul", "in_switch:1", "w2") ONE("body", "Identity", "in_exit"));
  CU_ASSERT_TRUE(follows(g, "update", "exit")); /* the outer one's */
  weft_graph_destroy(g);
}

static void a_loop_behind_an_update_or_around_it_stays_as_it_is(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") LOOP(
      "", "loop", "x") ENTER("read", "loop", "w") ENTER("new", "loop", "update")
                                PAIR("sum", "Mul", "switch:1", "new") PAIR("body", "Mul", "sum", "read"));
  CU_ASSERT_TRUE(!follows(g, "update", "exit") && weft_test_node(g, "update")->num_controls == 0);
  weft_graph_destroy(g);
  g = ordered(VARIABLE("w") INPUT("x") LOOP("", "loop", "x") PAIR(
      "loss", "Mul", "w", "x") "node{name:'ref' op:'RefEnter' input:'w'" FRAME("loop") T_FLOAT
              "} " PAIR("update", "AssignAdd", "ref", "switch:1") PAIR("body", "Mul", "update", "ref"));
  CU_ASSERT_FALSE(follows(g, "update", "loss"));
  weft_graph_destroy(g);
}

/* What a loop receives may come of the update. */
static void updates_do_not_wait_for_loops_that_receive(void) {
  weft_graph_t *g =
      ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") LOOP("", "loop", "x") ENTER(
          "read", "loop",
          "w") "node{name:'r' op:'_Recv' input:'^switch' attr{key:'tensor_type' "
               "value{type:DT_FLOAT}} attr{key:'tensor_name' value{s:'r'}} "
               "attr{key:'send_device' value{s:'a'}} attr{key:'recv_device' value{s:'b'}} "
               "attr{key:'send_device_incarnation' value{i:1}}} " PAIR("sum", "Mul", "switch:1", "r")
                   PAIR("body", "Mul", "sum", "read"));
  CU_ASSERT_FALSE(follows(g, "update", "exit"));
  weft_graph_destroy(g);
}

static void readers_behind_ops_that_may_forward_come_before_updates(void) {
  static const char *const ops[] = {"StopGradient", "PreventGradient", "Snapshot", "GuaranteeConst"};
  for (int i = 0; i < 4; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&text,
                       VARIABLE("w") VARIABLE("v") INPUT("x") PREDICATE PAIR("update", "AssignAdd", "w", "x")
                           PAIR("update_v", "AssignAdd", "v", "x") ONE("f", "%s", "w")
                               SWITCH("s", "Switch", "f") SWITCH("t", "Switch", "v")
                                   MERGE("merge", "s:1", "t") ONE("loss", "Neg", "merge"),
                       ops[i]);
    weft_graph_t *g = ordered(text.data);
    CU_ASSERT_TRUE(follows(g, "update", "loss"));
    CU_ASSERT_TRUE(follows(g, "update_v", "loss"));
    weft_strbuf_deinit(&text);
    weft_graph_destroy(g);
  }
}

static void a_reader_behind_an_update_stays_behind_it(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x")
                                ONE("new", "Identity", "update") AFTER("later", "Mul", "w", "w", "update")
                                    PAIR("other", "AssignSub", "w", "x") PAIR("old", "Mul", "w", "x"));
  CU_ASSERT_TRUE(follows(g, "update", "old"));
  CU_ASSERT_TRUE(follows(g, "other", "old"));
  CU_ASSERT_TRUE(follows(g, "later", "update"));
  CU_ASSERT_TRUE(follows(g, "new", "update"));
  weft_graph_destroy(g);
}

static void updates_wait_for_nothing_that_they_did_not_wait_for(void) {
  weft_graph_t *g = ordered(VARIABLE("w") INPUT("x") RECV("r") RECV("s") PAIR("far", "Mul", "w", "r")
                                PAIR("near", "Mul", "w", "x") PAIR("update", "AssignAdd", "w", "x")
                                    PAIR("step", "AssignSub", "w", "r") PAIR("third", "AssignSub", "w", "s"));
  CU_ASSERT_TRUE(follows(g, "update", "near"));
  CU_ASSERT_FALSE(follows(g, "update", "far")); /* what r brings may come of the update */
  CU_ASSERT_TRUE(follows(g, "step", "far") && follows(g, "step", "near"));
  CU_ASSERT_TRUE(!follows(g, "third", "far") && follows(g, "third", "near"));
  weft_graph_destroy(g);
}

static void variables_are_apart(void) {
  weft_graph_t *g = ordered(VARIABLE("v") VARIABLE("w") INPUT("x") PAIR("of_v", "Mul", "v", "x")
                                PAIR("of_w", "Mul", "w", "x") PAIR("update_v", "AssignAdd", "v", "of_w")
                                    PAIR("update_w", "AssignAdd", "w", "of_v"));
  CU_ASSERT_TRUE(follows(g, "update_v", "of_v") && follows(g, "update_w", "of_w"));
  CU_ASSERT_FALSE(follows(g, "update_v", "update_w") || follows(g, "update_w", "update_v"));
  weft_graph_destroy(g);
}

static void many_accesses_take_few_edges(void) {
  enum { MANY = 300 };
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, VARIABLE("w") INPUT("x"));
  for (int i = 0; i < MANY; i++) {
    weft_strbuf_printf(&text, "node{name:'r%d' op:'Neg' input:'w'" T_FLOAT "} ", i);
    weft_strbuf_printf(&text, "node{name:'u%d' op:'AssignAdd' input:'w' input:'x'" T_FLOAT "} ", i);
  }
  weft_graph_t *g = ordered(text.data);
  int num_controls = 0;
  for (int i = 0; i < g->num_nodes; i++) num_controls += g->nodes[i] == NULL ? 0 : g->nodes[i]->num_controls;
  CU_ASSERT_TRUE(num_controls <= 3 * MANY);
  CU_ASSERT_TRUE(follows(g, "u0", "r299") && follows(g, "u299", "r0") && follows(g, "u150", "r150"));
  weft_strbuf_deinit(&text);
  weft_graph_destroy(g);
}

static void graphs_without_updates_stay_as_they_are(void) {
  weft_graph_t *g = weft_test_graph(VARIABLE("w") PAIR("square", "Mul", "w", "w"));
  CU_ASSERT_FALSE(weft_pass_may_order_references(g));
  weft_test_expect(weft_pass_order_references(g, NULL, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_node(g, "square")->num_controls, 0);
  weft_graph_destroy(g);
}

static weft_status_t *order_copy(const weft_graph_t *g) {
  weft_graph_t *copy = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(g, &copy));
  weft_status_t *s = weft_pass_order_references(copy, NULL, NULL);
  weft_graph_destroy(copy);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  weft_graph_t *g = weft_test_graph(
      VARIABLE("w") INPUT("x") PAIR("update", "AssignAdd", "w", "x") PAIR("other", "AssignAdd", "w", "x")
          PAIR("square", "Mul", "w", "w") ONE("read", "Identity", "w") PREDICATE SWITCH("s", "Switch", "w")
              ONE("then", "Neg", "s:1") LOOP("", "loop", "x") ENTER("in", "loop", "w")
                  PAIR("body", "Mul", "switch:1", "in"));
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, order_copy(g));
  CU_ASSERT(n > 5);
  weft_graph_destroy(g);
}

static CU_TestInfo tests[] = {
    {"readers come before updates", readers_come_before_updates},
    {"readers through identities and views come before updates",
     readers_through_identities_and_views_come_before_updates},
    {"readers in branches come before updates", readers_in_branches_come_before_updates},
    {"a branch that an update decides stays behind it", a_branch_that_an_update_decides_stays_behind_it},
    {"readers in loops come before updates", readers_in_loops_come_before_updates},
    {"a loop behind an update or around it stays as it is",
     a_loop_behind_an_update_or_around_it_stays_as_it_is},
    {"updates do not wait for loops that receive", updates_do_not_wait_for_loops_that_receive},
    {"readers behind ops that may forward come before updates",
     readers_behind_ops_that_may_forward_come_before_updates},
    {"a reader behind an update stays behind it", a_reader_behind_an_update_stays_behind_it},
    {"updates wait for nothing that they did not wait for",
     updates_wait_for_nothing_that_they_did_not_wait_for},
    {"variables are apart", variables_are_apart},
    {"many accesses take few edges", many_accesses_take_few_edges},
    {"graphs without updates stay as they are", graphs_without_updates_stay_as_they_are},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("order_references", tests); }
