/* Cutting a placed graph: which transfers join its parts, and how loops go on in each of them. */
#include "graph/partition.h"

#include <stdio.h>

#include "base/alloc.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define A "/job:a/replica:0/task:0/device:CPU:0"
#define B "/job:b/replica:0/task:0/device:CPU:0"
#define T "attr{key:\"T\" value{type:DT_FLOAT}} "
#define NODE(name, op, inputs, device, more) \
  "node{name:\"" name "\" op:\"" op "\" " inputs " device:\"" device "\" " more "} "
#define IN(x) "input:\"" x "\" "
#define X(name, device) NODE(name, "Placeholder", "", device, "attr{key:\"dtype\" value{type:DT_FLOAT}} ")
#define NEG(name, inputs, device) NODE(name, "Neg", inputs, device, T)
#define VARIABLE(name, device)         \
  NODE(name, "VariableV2", "", device, \
       "attr{key:\"dtype\" value{type:DT_FLOAT}} attr{key:\"shape\" value{shape{}}} ")

static weft_str_t itself(weft_str_t device) { return device; }
static uint64_t incarnation(void *arg, weft_str_t device) {
  (void)arg;
  return weft_str_is(device, A) ? 0xa : 0xb;
}

typedef struct cut {
  weft_graph_t *left; /* what partition left to us */
  weft_partition_t *parts;
  int n;
  weft_status_t *s;
} cut_t;

static cut_t cut(const char *text) {
  cut_t c = {.left = weft_test_graph(text)};
  int64_t next_edge = 0;
  for (int i = 0; i < c.left->num_nodes; i++) {
    weft_node_t *n = c.left->nodes[i];
    n->assigned_device = weft_graph_intern(c.left, n->requested_device);
  }
  weft_partition_options_t o = {.locate = itself, .incarnation = incarnation, .next_edge = &next_edge};
  c.s = weft_graph_partition(&c.left, &o, &c.parts, &c.n);
  return c;
}

static cut_t cut_well(const char *text) {
  cut_t c = cut(text);
  weft_test_expect(c.s, WEFT_OK, "");
  c.s = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(c.parts);
  return c;
}

static void drop(cut_t *c) {
  weft_partitions_free(c->parts, c->n);
  weft_graph_destroy(c->left);
}

static weft_graph_t *part(const cut_t *c, const char *location) {
  for (int i = 0; i < c->n; i++) {
    if (weft_str_is(c->parts[i].location, location)) return c->parts[i].graph;
  }
  CU_FAIL_FATAL("no such part");
  return NULL;
}

static weft_node_t *only(const weft_graph_t *g, const char *op) {
  weft_node_t *found = NULL;
  for (int i = 0; i < g->num_nodes; i++) {
    if (g->nodes[i] != NULL && weft_str_is(g->nodes[i]->op->name, op)) found = g->nodes[i];
  }
  CU_ASSERT_EQUAL(weft_test_count(g, op), 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(found);
  return found;
}

static void one_part_is_the_graph_itself(void) {
  cut_t c = cut_well(X("x", A) NEG("y", IN("x"), A));
  CU_ASSERT_EQUAL(c.n, 1);
  CU_ASSERT_PTR_NULL(c.left);
  CU_ASSERT_EQUAL(c.parts[0].graph->num_live, 2);
  drop(&c);
}

static void one_transfer_serves_all_consumers_of_a_tensor(void) {
  cut_t c =
      cut_well(X("x", A) NEG("y", IN("x"), B) NEG("z", IN("x"), B) NODE("w", "AddV2", IN("x") IN("y"), B, T));
  CU_ASSERT_EQUAL(c.n, 2);
  weft_node_t *send = only(part(&c, A), "_Send"), *recv = only(part(&c, B), "_Recv");
  static const char *const names[] = {"y", "z", "w"};
  for (int i = 0; i < 3; i++)
    CU_ASSERT_PTR_EQUAL(weft_test_node(part(&c, B), names[i])->inputs[0].node, recv);
  CU_ASSERT_PTR_EQUAL(send->inputs[0].node, weft_test_node(part(&c, A), "x"));
  weft_str_t name = weft_node_attr_string(send, "tensor_name");
  CU_ASSERT_TRUE(weft_str_eq(name, weft_node_attr_string(recv, "tensor_name")));
  CU_ASSERT_TRUE(weft_str_starts_with(name, "edge_") && weft_str_ends_with(name, "_x"));
  const weft_node_t *both[] = {send, recv};
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(both[i], "send_device"), A));
    CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(both[i], "recv_device"), B));
    CU_ASSERT_EQUAL(weft_node_attr_int(both[i], "send_device_incarnation", 0), 0xa);
    CU_ASSERT_FALSE(weft_node_attr_bool(both[i], "client_terminated", true));
  }
  drop(&c);
}

static void each_output_and_destination_has_a_transfer_of_its_own(void) {
  cut_t c = cut_well(X("x", A) NODE("axis", "Placeholder", "", A, "attr{key:\"dtype\" value{type:DT_INT32}} ")
                         NODE("s", "Split", IN("axis") IN("x"), A, T "attr{key:\"num_split\" value{i:2}} ")
                             NEG("p", IN("s"), B) NEG("q", IN("s:1"), B)
                                 NEG("r", IN("s:1"), "/job:c/replica:0/task:0/device:CPU:0"));
  CU_ASSERT_EQUAL(c.n, 3);
  CU_ASSERT_EQUAL(weft_test_count(part(&c, A), "_Send"), 3);
  CU_ASSERT_EQUAL(weft_test_count(part(&c, B), "_Recv"), 2);
  drop(&c);
}

static void control_edges_cross_as_an_empty_tensor(void) {
  cut_t c = cut_well(X("x", A) NODE("n", "NoOp", IN("^x"), B, "") NEG("y", IN("z") IN("^x"), B) X("z", B));
  weft_graph_t *a = part(&c, A), *b = part(&c, B);
  weft_node_t *token = only(a, "Const"), *identity = only(b, "Identity");
  CU_ASSERT_PTR_EQUAL(token->controls[0], weft_test_node(a, "x"));
  CU_ASSERT_PTR_EQUAL(only(a, "_Send")->inputs[0].node, token);
  CU_ASSERT_PTR_EQUAL(identity->inputs[0].node, only(b, "_Recv"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(b, "n")->controls[0], identity);
  CU_ASSERT_PTR_EQUAL(weft_test_node(b, "y")->controls[0], identity);
  const weft_attr_t *value = weft_node_attr(token, "value");
  CU_ASSERT_TRUE(value != NULL && value->tensor->dtype == WEFT_F32 && value->tensor->bytes == 0);
  drop(&c);
}

/* Two readers of a variable may be ordered differently against its updates. */
static void references_are_read_anew_for_each_consumer(void) {
  cut_t c = cut_well(VARIABLE("v", A) NODE("i", "Identity", IN("v"), B, T)
                         NODE("k", "Identity", IN("v") IN("^i"), B, T));
  weft_graph_t *b = part(&c, B);
  CU_ASSERT_EQUAL(weft_test_count(b, "_Recv"), 2);
  const weft_node_t *second = weft_test_node(b, "k")->inputs[0].node;
  CU_ASSERT_EQUAL(weft_node_attr_type(second, "tensor_type"), WEFT_F32);
  CU_ASSERT_EQUAL(second->num_controls, 1);
  if (second->num_controls == 1) CU_ASSERT_PTR_EQUAL(second->controls[0], weft_test_node(b, "i"));
  drop(&c);
}

/* i = 0; while (i < n) i = body(i), with the body elsewhere. */
#define LOOP(cond_op, cond_attrs, body_device)                                                       \
  X("zero", A)                                                                                       \
  NODE("limit", "Placeholder", "", A, "attr{key:\"dtype\" value{type:DT_FLOAT}} ")                   \
  NODE("enter", "Enter", IN("zero"), A,                                                              \
       T "attr{key:\"frame_name\" value{s:\"loop\"}} attr{key:\"parallel_iterations\" value{i:7}} ") \
  NODE("limit_in", "Enter", IN("limit"), A,                                                          \
       T                                                                                             \
       "attr{key:\"frame_name\" value{s:\"loop\"}} attr{key:\"parallel_iterations\" value{i:7}} "    \
       "attr{key:\"is_constant\" value{b:true}} ")                                                   \
  NODE("merge", "Merge", IN("enter") IN("next"), A, T "attr{key:\"N\" value{i:2}} ")                 \
  NODE("less", "Less", IN("merge") IN("limit_in"), A, T)                                             \
  NODE("cond", cond_op, IN("less"), A, cond_attrs)                                                   \
  NODE("switch", "Switch", IN("merge") IN("cond"), A, T)                                             \
  NEG("body", IN("switch:1"), body_device)                                                           \
  NODE("next", "NextIteration", IN("body"), A, T)                                                    \
  NODE("exit", "Exit", IN("switch"), A, T)

static void a_loop_goes_on_where_only_its_body_is(void) {
  cut_t c = cut_well(LOOP("LoopCond", "", B));
  weft_graph_t *b = part(&c, B);
  weft_node_t *enter = only(b, "Enter"), *merge = only(b, "Merge"), *branch = only(b, "Switch");
  CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(enter, "frame_name"), "loop"));
  CU_ASSERT_EQUAL(weft_node_attr_int(enter, "parallel_iterations", 0), 7);
  CU_ASSERT_PTR_EQUAL(merge->inputs[0].node, enter);
  CU_ASSERT_TRUE((merge->inputs[1].node->flags & WEFT_OP_NEXT_ITERATION) != 0);
  CU_ASSERT_PTR_EQUAL(merge->inputs[1].node->inputs[0].node, branch);
  CU_ASSERT_EQUAL(merge->inputs[1].node->inputs[0].index, 1);
  int triggered = 0;
  for (int i = 0; i < b->num_nodes; i++) {
    weft_node_t *n = b->nodes[i];
    if (n == NULL || !weft_str_is(n->op->name, "_Recv")) continue;
    triggered += n->num_controls == 1 && n->controls[0] == merge;
  }
  CU_ASSERT_EQUAL(triggered,
                  weft_test_count(b, "_Recv")); /* the body's value and the condition, once per iteration */
  CU_ASSERT_EQUAL(triggered, 2);
  CU_ASSERT_EQUAL(weft_test_count(part(&c, A), "Enter"),
                  3); /* the body's result comes back: its receive, too, is triggered */
  drop(&c);
}

static void a_loop_in_one_part_needs_nothing(void) {
  cut_t c = cut_well(LOOP("LoopCond", "", A) NEG("after", IN("exit"), B));
  CU_ASSERT_EQUAL(weft_test_count(part(&c, B), "Enter"), 0);
  CU_ASSERT_EQUAL(only(part(&c, B), "_Recv")->num_controls, 0);
  drop(&c);
}

static void a_loop_over_parts_needs_a_condition(void) {
  cut_t c = cut(
      LOOP("Identity", "attr{key:\"T\" value{type:DT_BOOL}} ", B)); /* a bool Identity in LoopCond's place */
  weft_test_expect(c.s, WEFT_INVALID_ARGUMENT, "A cross-device loop must have a pivot predicate: loop");
  weft_graph_destroy(c.left);
}

/* Cuts a fresh copy each time: a failed cut may leave control loops behind. */
static weft_status_t *cut_and_drop(const weft_graph_t *g) {
  weft_graph_t *copy = NULL;
  weft_partition_t *parts = NULL;
  int n = 0;
  int64_t next_edge = 0;
  weft_partition_options_t o = {.locate = itself, .incarnation = incarnation, .next_edge = &next_edge};
  WEFT_RETURN_IF_ERROR(weft_graph_copy(g, &copy));
  weft_status_t *s = weft_graph_partition(&copy, &o, &parts, &n);
  weft_partitions_free(parts, n);
  weft_graph_destroy(copy);
  return s;
}

static void no_allocation_failure_is_lost(void) {
  weft_graph_t *g = weft_test_graph(LOOP("LoopCond", "", B) NODE("n", "NoOp", IN("^exit"), B, ""));
  long n;
  for (int i = 0; i < g->num_nodes; i++)
    g->nodes[i]->assigned_device = weft_graph_intern(g, g->nodes[i]->requested_device);
  WEFT_FAIL_EACH_ALLOCATION(n, s, cut_and_drop(g));
  CU_ASSERT_TRUE(n > 20);
  weft_graph_destroy(g);
}

static void clones_are_equal_and_names_are_taken_once(void) {
  weft_graph_t *from = weft_test_graph(X("x", A) NODE(
      "s", "Enter", IN("x"), B, T "attr{key:\"frame_name\" value{s:\"f\"}} attr{key:\"_mine\" value{i:3}} "));
  weft_graph_t *to = NULL;
  weft_node_t *clone = NULL, *again = NULL;
  weft_test_expect(weft_graph_create(&to), WEFT_OK, "");
  weft_test_expect(weft_graph_clone_node(to, from, weft_test_node(from, "s"), &clone), WEFT_OK, "");
  weft_test_expect(weft_graph_clone_node(to, from, weft_test_node(from, "s"), &again), WEFT_ALREADY_EXISTS,
                   "'s'");
  CU_ASSERT_PTR_EQUAL(weft_graph_find(to, WEFT_STR("s")), clone);
  weft_graph_destroy(from); /* a clone owes nothing to its model */
  CU_ASSERT_TRUE(weft_str_is(clone->op->name, "Enter") && weft_str_is(clone->requested_device, B));
  CU_ASSERT_TRUE(clone->num_inputs == 1 && clone->inputs[0].node == NULL &&
                 clone->input_types[0] == WEFT_F32);
  CU_ASSERT_TRUE(weft_str_is(weft_node_attr_string(clone, "frame_name"), "f"));
  CU_ASSERT_EQUAL(weft_node_attr_int(clone, "_mine", 0), 3);
  CU_ASSERT_EQUAL(weft_node_attr_int(clone, "parallel_iterations", 0), 10);
  weft_graph_destroy(to);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"one_part_is_the_graph_itself", one_part_is_the_graph_itself},
      {"one_transfer_serves_all_consumers_of_a_tensor", one_transfer_serves_all_consumers_of_a_tensor},
      {"each_output_and_destination_has_a_transfer_of_its_own",
       each_output_and_destination_has_a_transfer_of_its_own},
      {"control_edges_cross_as_an_empty_tensor", control_edges_cross_as_an_empty_tensor},
      {"references_are_read_anew_for_each_consumer", references_are_read_anew_for_each_consumer},
      {"a_loop_goes_on_where_only_its_body_is", a_loop_goes_on_where_only_its_body_is},
      {"a_loop_in_one_part_needs_nothing", a_loop_in_one_part_needs_nothing},
      {"a_loop_over_parts_needs_a_condition", a_loop_over_parts_needs_a_condition},
      {"clones_are_equal_and_names_are_taken_once", clones_are_equal_and_names_are_taken_once},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("partition", tests);
}
