#include "base/alloc.h"
#include "graph/function.h"
#include "graph/passes.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define PLACEHOLDER(name, type) \
  "node{name:'" name "' op:'Placeholder' attr{key:'dtype' value{type:" type "}}} "
#define FUNC(key, name) " attr{key:'" key "' value{func{name:'" name "'}}} "
#define TYPES(key, types) " attr{key:'" key "' value{list{" types "}}} "
#define ARG(name, t) "input_arg{name:'" name "' type:" t "} "
#define RESULT(name, t) "output_arg{name:'" name "' type:" t "} "

static int count_functional(const weft_graph_t *g) {
  int n = 0;
  for (int id = 0; id < g->num_nodes; id++)
    n += g->nodes[id] != NULL && (g->nodes[id]->flags & WEFT_OP_FUNCTIONAL) != 0;
  return n;
}

static void expect_sound(weft_graph_t *g) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  CU_ASSERT_EQUAL(count_functional(g), 0);
  weft_test_expect(weft_pass_find_frames(g, &arena, &frames), WEFT_OK, "");
  weft_test_expect(weft_pass_infer_shapes(g), WEFT_OK, "");
  weft_arena_deinit(&arena);
}

static weft_graph_t *lowered(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  weft_status_t *s = weft_pass_lower_functions(g, 0);
  bool is_ok = s == NULL;
  weft_test_expect(s, WEFT_OK, "");
  CU_ASSERT_TRUE_FATAL(is_ok);
  expect_sound(g);
  return g;
}

/* ---- calls ---- */

#define SQUARE                                                                                             \
  "function{signature{name:'square' input_arg{name:'a' type_attr:'T'} output_arg{name:'r' type_attr:'T'} " \
  "attr{name:'T' type:'type'}} node_def{name:'m' op:'Mul' input:'a' input:'a' attr{key:'T' "               \
  "value{placeholder:'T'}}} "                                                                              \
  "ret{key:'r' value:'m:z:0'}} "

static void a_call_becomes_its_body_with_types_bound(void) {
  weft_graph_t *g = lowered(PLACEHOLDER(
      "x",
      "DT_INT32") "node{name:'c' op:'square' input:'x' attr{key:'T' value{type:DT_INT32}} device:'/job:w'} "
                  "node{name:'y' op:'Identity' input:'c' attr{key:'T' value{type:DT_INT32}}} "
                  "library{" SQUARE "}");
  const weft_node_t *m = weft_test_node(g, "c/m");
  CU_ASSERT(weft_str_is(m->op->name, "Mul"));
  CU_ASSERT_EQUAL(m->output_types[0], WEFT_I32);
  CU_ASSERT(weft_str_is(m->requested_device, "/job:w"));
  /* The name stays, and the consumer with it: a client may feed it. */
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "y")->inputs[0].node, weft_test_node(g, "c"));
  CU_ASSERT(weft_str_is(weft_test_node(g, "c")->op->name, "IdentityN"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "c")->inputs[0].node, m);
  weft_graph_destroy(g);
}

static void calls_inside_functions_are_lowered_too(void) {
  weft_graph_t *g = lowered(PLACEHOLDER("x", "DT_FLOAT") "node{name:'c' op:'PartitionedCall' input:'x'" FUNC("f", "outer") TYPES(
      "Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT") "} "
      "library{" SQUARE "function{signature{name:'outer' " ARG("a", "DT_FLOAT") RESULT("r", "DT_FLOAT") "} "
      "node_def{name:'s' op:'square' input:'a'" T_FLOAT "} "
      "node_def{name:'p' op:'PartitionedCall' input:'s:r:0'" TYPES("Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT")
      " attr{key:'f' value{func{name:'square' attr{key:'T' value{type:DT_FLOAT}}}}}} "
      "ret{key:'r' value:'p:output:0'}}}");
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "c")->inputs[0].node, weft_test_node(g, "c/p/m"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "c/p/m")->inputs[0].node, weft_test_node(g, "c/s/m"));
  weft_graph_destroy(g);
}

/* f(v) = { v += 1; return 2 }: the effect must happen before the result is seen, and after the call's inputs.
 */
#define BUMP \
  "function{signature{name:'bump' " ARG("v", "DT_RESOURCE") RESULT("r", "DT_FLOAT") " is_stateful:true} "         \
  "node_def{name:'one' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:DT_FLOAT " \
  "tensor_shape{} float_val:1}}}} "                                                                               \
  "node_def{name:'add' op:'AssignAddVariableOp' input:'v' input:'one:output:0' attr{key:'dtype' value{type:DT_FLOAT}} device:'/task:3'} " \
  "node_def{name:'two' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'_class' value{list{s:'loc:@one' s:'loc:@v'}}} attr{key:'value' value{tensor{dtype:DT_FLOAT " \
  "tensor_shape{} float_val:2}}}} "                                                                               \
  "ret{key:'r' value:'two:output:0'} control_ret{key:'add' value:'add'}} "
#define VARIABLE \
  "node{name:'v' op:'VarHandleOp' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{}}}} "

static void effects_come_after_inputs_and_before_results(void) {
  weft_graph_t *g = lowered(VARIABLE "node{name:'before' op:'NoOp'} "
                                     "node{name:'c' op:'StatefulPartitionedCall' input:'v' input:'^before' device:'/job:ps'" FUNC("f", "bump") TYPES("Tin", "type:DT_RESOURCE") TYPES("Tout", "type:DT_FLOAT") "} "
                                     "node{name:'y' op:'Identity' input:'c'" T_FLOAT "} node{name:'after' op:'NoOp' input:'^c'} "
                                     "library{" BUMP "}");
  const weft_node_t *add = weft_test_node(g, "c/add"), *before = weft_test_node(g, "before");
  CU_ASSERT_TRUE(weft_test_depends(g, add, before));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "c/two"), before));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "y"), add));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "after"), add));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "c"), add));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "after"), weft_test_node(g, "c")));
  CU_ASSERT(weft_str_is(add->requested_device, "/job:ps/task:3"));
  const weft_attr_t *group = weft_node_attr(weft_test_node(g, "c/two"), "_class");
  CU_ASSERT(weft_str_is(group->list.strings[0], "loc:@c/one"));
  CU_ASSERT(weft_str_is(group->list.strings[1], "loc:@v"));
  weft_graph_destroy(g);
}

/* ---- conditionals ---- */

#define BRANCH(name, op) \
  "function{signature{name:'" name "' " ARG("a", "DT_FLOAT") RESULT("r", "DT_FLOAT") "} "                    \
  "node_def{name:'k' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:DT_FLOAT " \
  "tensor_shape{} float_val:1}}}} node_def{name:'o' op:'" op "' input:'a' input:'k:output:0'" T_FLOAT "} "  \
  "ret{key:'r' value:'o:z:0'}} "

static void if_becomes_switches_and_a_merge(void) {
  weft_graph_t *g = lowered(PLACEHOLDER("p", "DT_BOOL") PLACEHOLDER("x", "DT_FLOAT") "node{name:'w' op:'NoOp'} "
                            "node{name:'c' op:'If' input:'p' input:'x' input:'^w' attr{key:'Tcond' value{type:DT_BOOL}}" FUNC("then_branch", "t") FUNC("else_branch", "e") TYPES("Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT") "} "
                            "node{name:'y' op:'Identity' input:'c'" T_FLOAT "} node{name:'after' op:'NoOp' input:'^c'} "
                            "library{" BRANCH("t", "AddV2") BRANCH("e", "Mul") "}");
  const weft_node_t *merge = weft_test_node(g, "y")->inputs[0].node;
  const weft_node_t *t = weft_test_node(g, "c/then/o"), *e = weft_test_node(g, "c/else/o");
  CU_ASSERT(weft_str_is(merge->op->name, "Merge"));
  CU_ASSERT_PTR_EQUAL(merge->inputs[0].node, e);
  CU_ASSERT_PTR_EQUAL(merge->inputs[1].node, t);
  CU_ASSERT(weft_str_is(t->inputs[0].node->op->name, "Switch"));
  CU_ASSERT_EQUAL(t->inputs[0].index, 1);
  CU_ASSERT_EQUAL(e->inputs[0].index, 0);
  CU_ASSERT_PTR_EQUAL(t->inputs[0].node, e->inputs[0].node);
  /* Constants of a branch are dead when it is not taken. */
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "c/then/k"), weft_test_node(g, "p")));
  CU_ASSERT_TRUE(weft_test_depends(g, t, weft_test_node(g, "w")));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "after"), t));
  weft_graph_destroy(g);
}

static void a_number_can_be_a_condition_and_an_effect_stays_in_its_branch(void) {
  weft_graph_t *g = lowered(
      PLACEHOLDER("p", "DT_INT32") VARIABLE
      "node{name:'c' op:'If' input:'p' input:'v' attr{key:'Tcond' value{type:DT_INT32}}" FUNC("then_branch", "bump") FUNC("else_branch", "zero") TYPES("Tin", "type:DT_RESOURCE") TYPES("Tout", "type:DT_FLOAT") "} "
      "library{" BUMP "function{signature{name:'zero' " ARG("v", "DT_RESOURCE") RESULT("r", "DT_FLOAT") "} "
      "node_def{name:'z' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:0}}}} "
      "ret{key:'r' value:'z:output:0'}}}");
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "c"), weft_test_node(g, "c/then/add")));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "c/then/add"), weft_test_node(g, "p")));
  CU_ASSERT_EQUAL(weft_test_count(g, "ToBool"), 1);
  weft_graph_destroy(g);
}

static void case_switches_n_ways(void) {
  weft_graph_t *g = lowered(
      PLACEHOLDER("i", "DT_INT32") PLACEHOLDER("x", "DT_FLOAT")
      "node{name:'c' op:'Case' input:'i' input:'x' attr{key:'branches' value{list{func{name:'a'} func{name:'b'} func{name:'d'}}}}" TYPES("Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT") "} "
      "library{" BRANCH("a", "AddV2") BRANCH("b", "Mul") BRANCH("d", "Sub") "}");
  const weft_node_t *merge = weft_test_node(g, "c")->inputs[0].node;
  CU_ASSERT_EQUAL(merge->num_inputs, 3);
  CU_ASSERT_PTR_EQUAL(merge->inputs[2].node, weft_test_node(g, "c/branch2/o"));
  CU_ASSERT_EQUAL(weft_test_node(g, "c/branch2/o")->inputs[0].index, 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "_SwitchN"), 2);
  weft_graph_destroy(g);
}

/* ---- loops ---- */

#define LESS \
  "function{signature{name:'less' " ARG("i", "DT_FLOAT") ARG("v", "DT_RESOURCE") RESULT("r", "DT_BOOL") "} " \
  "node_def{name:'limit' op:'ReadVariableOp' input:'v' attr{key:'dtype' value{type:DT_FLOAT}}} "             \
  "node_def{name:'l' op:'Less' input:'i' input:'limit:value:0'" T_FLOAT "} ret{key:'r' value:'l:z:0'}} "
#define STEP \
  "function{signature{name:'step' " ARG("i", "DT_FLOAT") ARG("v", "DT_RESOURCE") RESULT("r", "DT_FLOAT") RESULT("w", "DT_RESOURCE") " is_stateful:true} " \
  "node_def{name:'k' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'value' value{tensor{dtype:DT_FLOAT "  \
  "tensor_shape{} float_val:1}}}} node_def{name:'o' op:'AddV2' input:'i' input:'k:output:0'" T_FLOAT "} "     \
  "node_def{name:'s' op:'AssignAddVariableOp' input:'v' input:'k:output:0' attr{key:'dtype' value{type:DT_FLOAT}}} " \
  "ret{key:'r' value:'o:z:0'} ret{key:'w' value:'v'} control_ret{key:'s' value:'s'}} "

static void while_becomes_a_frame(void) {
  weft_graph_t *g = lowered(PLACEHOLDER("x", "DT_FLOAT") VARIABLE "node{name:'w' op:'NoOp'} "
                            "node{name:'loop' op:'While' input:'x' input:'v' input:'^w' attr{key:'parallel_iterations' value{i:7}}" FUNC("cond", "less") FUNC("body", "step") TYPES("T", "type:DT_FLOAT type:DT_RESOURCE") "} "
                            "node{name:'y' op:'Identity' input:'loop'" T_FLOAT "} "
                            "node{name:'z' op:'ReadVariableOp' input:'loop:1' attr{key:'dtype' value{type:DT_FLOAT}}} "
                            "library{" LESS STEP "}");
  const weft_node_t *out = weft_test_node(g, "y")->inputs[0].node;
  CU_ASSERT(weft_str_is(out->op->name, "Exit"));
  const weft_node_t *sw = out->inputs[0].node, *merge = sw->inputs[0].node, *next = merge->inputs[1].node;
  CU_ASSERT(weft_str_is(sw->op->name, "Switch"));
  CU_ASSERT(weft_str_is(sw->inputs[1].node->op->name, "LoopCond"));
  CU_ASSERT(weft_str_is(next->op->name, "NextIteration"));
  CU_ASSERT_TRUE(weft_test_depends(g, next, weft_test_node(g, "loop/body/s")));
  const weft_node_t *enter = merge->inputs[0].node;
  CU_ASSERT(weft_str_is(weft_node_attr_string(enter, "frame_name"), "loop"));
  CU_ASSERT_EQUAL(weft_node_attr_int(enter, "parallel_iterations", 0), 7);
  CU_ASSERT_EQUAL(weft_test_count(g, "Enter"), 2);
  CU_ASSERT_EQUAL(weft_test_count(g, "Merge"), 1);
  /* The variable is read anew in every round, and after the loop. */
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "loop/cond/limit"), merge));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "loop/body/s"), sw));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "z"), out));
  CU_ASSERT_TRUE(weft_test_depends(g, enter, weft_test_node(g, "w")));
  weft_graph_destroy(g);
}

static void a_loop_over_a_resource_alone_still_turns(void) {
  weft_graph_t *g = lowered(
      VARIABLE "node{name:'loop' op:'While' input:'v'" FUNC("cond", "c") FUNC("body", "b") TYPES("T", "type:DT_RESOURCE") "} "
               "library{function{signature{name:'c' " ARG("v", "DT_RESOURCE") RESULT("r", "DT_FLOAT") "} "
               "node_def{name:'read' op:'ReadVariableOp' input:'v' attr{key:'dtype' value{type:DT_FLOAT}}} ret{key:'r' value:'read:value:0'}} "
               "function{signature{name:'b' " ARG("v", "DT_RESOURCE") RESULT("r", "DT_RESOURCE") "} "
               "node_def{name:'call' op:'StatefulPartitionedCall' input:'v'" FUNC("f", "bump") TYPES("Tin", "type:DT_RESOURCE") TYPES("Tout", "type:DT_FLOAT") "} "
               "ret{key:'r' value:'v'}} " BUMP "}");
  CU_ASSERT_EQUAL(weft_test_count(g, "NextIteration"), 1);
  const weft_node_t *next = NULL;
  for (int id = 0; id < g->num_nodes; id++) {
    if ((g->nodes[id]->flags & WEFT_OP_NEXT_ITERATION) != 0) next = g->nodes[id];
  }
  CU_ASSERT_PTR_NOT_NULL_FATAL(next);
  CU_ASSERT(weft_str_starts_with(next->name, "loop/next_iteration/_"));
  CU_ASSERT_TRUE(weft_test_depends(g, next, weft_test_node(g, "loop/body/call/add")));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "loop"), weft_test_node(g, "loop/cond/read")));
  weft_graph_destroy(g);
}

static void graphs_made_by_tensorflow_are_lowered(void) {
  static const char *const files[] = {"control_v2", "tf_function", "while_v1", "mlp_resource"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    weft_strbuf_t b = weft_test_read(files[i]);
    weft_graph_t *g = NULL;
    weft_test_expect(weft_test_import(weft_str_of(b.data, b.length), &g), WEFT_OK, "");
    weft_strbuf_deinit(&b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    weft_test_expect(weft_pass_lower_functions(g, 0), WEFT_OK, "");
    expect_sound(g);
    weft_graph_destroy(g);
  }
}

/* ---- what is refused ---- */

static const struct {
  const char *graph, *text;
} refused[] = {
    {"node{name:'c' op:'StatefulPartitionedCall'" FUNC("f", "nosuch") TYPES("Tin", "") TYPES("Tout", "") "}",
     "Node 'c': Failed to find function \"nosuch\" in function library"},
    {"node{name:'c' op:'f'} library{function{signature{name:'f'} node_def{name:'n' op:'g'}} "
     "function{signature{name:'g'} "
     "node_def{name:'n' op:'f'}}}",
     "Node 'c/n/n': function 'f' calls itself"},
    {PLACEHOLDER("x", "DT_INT32") "node{name:'c' op:'PartitionedCall' input:'x'" FUNC("f", "f")
         TYPES("Tin", "type:DT_INT32")
             TYPES("Tout", "") "} library{function{signature{name:'f' " ARG("a", "DT_FLOAT") "}}}",
     "Node 'c': argument 0 of function 'f' was passed int32, but float is expected"},
    {"node{name:'c' op:'PartitionedCall'" FUNC("f", "f") TYPES("Tin", "")
         TYPES("Tout", "") "} "
                           "library{function{signature{name:'f' " ARG("a", "DT_FLOAT") "}}}",
     "function 'f' takes 1 arguments, but is called with 0"},
    {PLACEHOLDER("x", "DT_FLOAT") "node{name:'c' op:'PartitionedCall' input:'x'" FUNC("f", "f")
         TYPES("Tin", "type:DT_FLOAT") TYPES("Tout", "") "} library{function{signature{name:'f' " ARG(
             "a", "DT_FLOAT") RESULT("r", "DT_FLOAT") "} "
                                                      "ret{key:'r' value:'a'}}}",
     "Node 'c': its function returns 1 results, but the op 'PartitionedCall' has 0 outputs"},
    {"node{name:'c' op:'f'} library{function{signature{name:'f'} node_def{name:'n' op:'Identity' "
     "input:'m:out:0'" T_FLOAT "}}}",
     "function 'f': c/n: input 'm:out:0' is not found"},
    {"node{name:'c' op:'f'} library{function{signature{name:'f' " RESULT("r", "DT_FLOAT") "}}}",
     "function 'f' does not say what it returns as 'r'"},
    {"node{name:'c' op:'f'} library{function{signature{name:'f'} node_def{name:'n' op:'NoOp'} "
     "node_def{name:'n' op:'NoOp'}}}",
     "function 'f': Node 'n' is not unique"},
    {"node{name:'c' op:'f'} library{function{signature{name:'f'} node_def{name:'n' op:'Placeholder' "
     "attr{key:'dtype' value{placeholder:'T'}}}}}",
     "function 'f' is called without a value for attr 'T'"},
};

static void wrong_calls_are_refused(void) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    weft_graph_t *g = weft_test_graph(refused[i].graph);
    weft_status_t *s = weft_pass_lower_functions(g, 0);
    weft_test_expect(weft_test_first_failure(s, g), WEFT_INVALID_ARGUMENT, refused[i].text);
    weft_graph_destroy(g);
  }
}

/* f0 calls f1 twice, f1 calls f2 twice, ...: 2^40 nodes. */
static void calls_that_unfold_without_bounds_are_refused(void) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "node{name:'c' op:'f0'} library{");
  for (int i = 0; i < 40; i++) {
    weft_strbuf_printf(
        &text, "function{signature{name:'f%d'} node_def{name:'a' op:'f%d'} node_def{name:'b' op:'f%d'}} ", i,
        i + 1, i + 1);
  }
  weft_strbuf_puts(&text, "function{signature{name:'f40'} node_def{name:'n' op:'NoOp'}}}");
  weft_graph_t *g = weft_test_graph(text.data);
  weft_test_expect(weft_pass_lower_functions(g, 0), WEFT_RESOURCE_EXHAUSTED, "unfold to more than");
  weft_graph_destroy(g);
  weft_strbuf_deinit(&text);
}

/* Ways in which function f0 calls f1, f1 calls f2, ...; the last adds. */
static const struct {
  const char *name, *node;
} ways[] = {
    {"a call", "op:'f%d' input:'x'"},
    {"PartitionedCall", "op:'PartitionedCall' input:'x' attr{key:'f' value{func{name:'f%d'}}} " TYPES(
                            "Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT")},
    {"StatefulPartitionedCall",
     "op:'StatefulPartitionedCall' input:'x' attr{key:'f' value{func{name:'f%d'}}} " TYPES(
         "Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT")},
    {"If",
     "op:'If' input:'x' input:'x' attr{key:'then_branch' value{func{name:'f%d'}}} attr{key:'else_branch' "
     "value{func{name:'leaf'}}} "
     "attr{key:'Tcond' value{type:DT_FLOAT}} " TYPES("Tin", "type:DT_FLOAT") TYPES("Tout", "type:DT_FLOAT")},
    {"While",
     "op:'While' input:'x' attr{key:'body' value{func{name:'f%d'}}} attr{key:'cond' "
     "value{func{name:'more'}}} " TYPES("T", "type:DT_FLOAT")},
};

static weft_status_t *lower_nested(size_t way, int depth, bool is_recursive) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, PLACEHOLDER("x", "DT_FLOAT") "node{name:'c' ");
  weft_strbuf_printf(&text, ways[way].node, 0);
  weft_strbuf_puts(&text, "} library{function{signature{name:'leaf' " ARG("x", "DT_FLOAT") RESULT("y", "DT_FLOAT") "} "
                          "node_def{name:'n' op:'Neg' input:'x'" T_FLOAT "} ret{key:'y' value:'n:y:0'}} "
                          "function{signature{name:'more' " ARG("x", "DT_FLOAT") RESULT("y", "DT_BOOL") "} "
                          "node_def{name:'n' op:'Less' input:'x' input:'x'" T_FLOAT "} ret{key:'y' value:'n:z:0'}} ");
  for (int i = 0; i < depth; i++) {
    const bool is_last = i == depth - 1;
    weft_strbuf_printf(&text,
                       "function{signature{name:'f%d' " ARG("x", "DT_FLOAT")
                           RESULT("y", "DT_FLOAT") "} node_def{name:'n' ",
                       i);
    if (is_last && !is_recursive)
      weft_strbuf_puts(&text, "op:'Neg' input:'x'" T_FLOAT);
    else
      weft_strbuf_printf(&text, ways[way].node, is_last ? 0 : i + 1);
    weft_strbuf_printf(&text, "} ret{key:'y' value:'n:%s:0'}} ",
                       is_last && !is_recursive ? "y"
                       : way == 0               ? "y"
                                                : "output");
  }
  weft_strbuf_puts(&text, "}");
  weft_graph_t *g = weft_test_graph(text.data);
  weft_strbuf_deinit(&text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  weft_status_t *s = weft_test_first_failure(weft_pass_lower_functions(g, 0), g);
  if (s == NULL) s = weft_pass_infer_shapes(g);
  weft_graph_destroy(g);
  return s;
}

static void functions_are_nested_to_a_limit(void) {
  for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
    weft_test_expect(lower_nested(way, 300, false), WEFT_OK, "");
    weft_test_expect(lower_nested(way, 3000, false), WEFT_INVALID_ARGUMENT,
                     "' is called within 1000 functions; they can be nested 1000 deep (at node 'c/");
    for (int cycle = 1; cycle < 200; cycle *= 3) {
      weft_test_expect(lower_nested(way, cycle, true), WEFT_INVALID_ARGUMENT, "function 'f0' calls itself");
    }
  }
  weft_test_expect(lower_nested(0, 1000, false), WEFT_OK, "");
}

/* The body of a function has 1000 nodes, and the node that calls it a name of a megabyte: a gigabyte of
 * names. */
static void names_of_nodes_in_functions_are_limited(void) {
  enum { LONG = 1 << 20 };
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "node{name:'");
  char *name = weft_strbuf_reserve(&text, LONG);
  CU_ASSERT_PTR_NOT_NULL_FATAL(name);
  memset(name, 'n', LONG);
  text.length += LONG;
  weft_strbuf_puts(&text, "' op:'f'} library{function{signature{name:'f'} ");
  for (int i = 0; i < 1000; i++) weft_strbuf_printf(&text, "node_def{name:'n%d' op:'NoOp'} ", i);
  weft_strbuf_puts(&text, "}}");
  weft_graph_t *g = weft_test_graph(text.data);
  weft_strbuf_deinit(&text);
  weft_test_expect(weft_pass_lower_functions(g, 0), WEFT_RESOURCE_EXHAUSTED,
                   "unfolding function 'f' needs too much memory for names: 1000 nodes, each of whose names "
                   "begins with the 1048576 bytes of 'nnn");
  CU_ASSERT(g->arena->bytes < 64 << 20);
  weft_graph_destroy(g);
}

static weft_status_t *import_and_lower(weft_str_t bytes) {
  weft_graph_t *g = NULL;
  weft_status_t *s = weft_test_import(bytes, &g);
  if (s == NULL) s = weft_pass_lower_functions(g, 0);
  if (s == NULL) s = weft_pass_infer_shapes(g);
  weft_graph_destroy(g);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  static const char *const files[] = {"control_v2", "tf_function"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    weft_strbuf_t b = weft_test_read(files[i]);
    long n;
    WEFT_FAIL_EACH_ALLOCATION(n, s, import_and_lower(weft_str_of(b.data, b.length)));
    CU_ASSERT_TRUE(n > 10);
    weft_strbuf_deinit(&b);
  }
}

static const CU_TestInfo tests[] = {
    {"a call becomes its body, with types bound", a_call_becomes_its_body_with_types_bound},
    {"calls inside functions are lowered, too", calls_inside_functions_are_lowered_too},
    {"effects come after inputs and before results", effects_come_after_inputs_and_before_results},
    {"If becomes switches and a merge", if_becomes_switches_and_a_merge},
    {"a number can be a condition", a_number_can_be_a_condition_and_an_effect_stays_in_its_branch},
    {"Case switches n ways", case_switches_n_ways},
    {"While becomes a frame", while_becomes_a_frame},
    {"a loop over a resource alone still turns", a_loop_over_a_resource_alone_still_turns},
    {"graphs made by TensorFlow are lowered", graphs_made_by_tensorflow_are_lowered},
    {"wrong calls are refused", wrong_calls_are_refused},
    {"calls that unfold without bounds are refused", calls_that_unfold_without_bounds_are_refused},
    {"functions are nested to a limit", functions_are_nested_to_a_limit},
    {"names of nodes in functions are limited", names_of_nodes_in_functions_are_limited},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("lower", tests); }
