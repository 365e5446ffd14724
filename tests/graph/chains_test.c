/* tests/graph/chains_test.c - elementwise nodes become chains, and the graph stays one without cycles. */
#include <limits.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/passes.h"
#include "ops/chain.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

#define T_FLOAT " attr{key:'T' value{type:DT_FLOAT}} "
#define INPUT(name)                                            \
  "node{name:'" name                                           \
  "' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} " \
  "attr{key:'shape' value{shape{}}}} "

#define PAIR(name, op, x, y) "node{name:'" name "' op:'" op "' input:'" x "' input:'" y "'" T_FLOAT "} "
#define ONE(name, op, x) "node{name:'" name "' op:'" op "' input:'" x "'" T_FLOAT "} "

#define OUT(name, x) ONE(name, "Identity", x)

static bool may_be_link(const weft_node_t *n) { return (n->flags & WEFT_OP_IDENTITY) == 0; }

static const weft_chain_limits_t *one_output(void *arg, const weft_node_t *n) {
  static const weft_chain_limits_t limits = {WEFT_CHAIN_LIBRARY_INPUTS, WEFT_CHAIN_LIBRARY_LINKS,
                                             WEFT_CHAIN_LIBRARY_OUTPUTS};
  (void)arg;
  return may_be_link(n) ? &limits : NULL;
}

static const weft_chain_limits_t *many_outputs(void *arg, const weft_node_t *n) {
  static const weft_chain_limits_t limits = {INT_MAX, 1000, INT_MAX};
  (void)arg;
  return may_be_link(n) ? &limits : NULL;
}

static void no_chain_is_made(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  const int before = g->num_live;
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->num_live, before);
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 0);
  weft_graph_destroy(g);
}

static void elementwise_nodes_that_feed_only_each_other_become_one(void) {
  weft_graph_t *g = weft_test_graph(
      INPUT("x") INPUT("y") PAIR("sum", "AddV2", "x", "y") ONE("tanh", "Tanh", "sum")
          PAIR("twice", "Mul", "tanh", "tanh")
              PAIR("last", "Sub", "twice", "x") "node{name:'out' op:'Identity' input:'last'" T_FLOAT "}");
  weft_chain_t c;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->num_live, 4);
  const weft_node_t *n = weft_test_node(g, "last");
  CU_ASSERT_TRUE_FATAL(weft_str_is(n->op->name, "_WeftChain"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "out")->inputs[0].node, n);
  CU_ASSERT_EQUAL_FATAL(n->num_inputs, 2);
  weft_test_expect(weft_chain_read(&arena, n->attrs, n->num_attrs, &c), WEFT_OK, "");
  CU_ASSERT_EQUAL_FATAL(c.num_links, 4);
  CU_ASSERT(weft_str_is(c.links[0].op->name, "AddV2") && weft_str_is(c.links[0].node, "sum"));
  CU_ASSERT(weft_str_is(c.links[3].op->name, "Sub") && weft_str_is(c.links[3].node, "last"));
  CU_ASSERT(c.links[2].operands[0] == 3 && c.links[2].operands[1] == 3); /* two inputs, sum, tanh */
  CU_ASSERT(c.num_outputs == 1 && c.outputs[0] == 5);
  weft_arena_deinit(&arena);
  weft_graph_destroy(g);
}

static void what_is_seen_outside_stays_a_node(void) {
  weft_graph_t *g =
      weft_test_graph(INPUT("x") ONE("a", "Tanh", "x") ONE("b", "Exp", "a") ONE("c", "Neg", "b") ONE(
          "d", "Abs",
          "b") "node{name:'out' op:'IdentityN' input:'c' input:'d' attr{key:'T' value{list{type:DT_FLOAT "
               "type:DT_FLOAT}}}}");
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 1); /* a and b: two chains read b */
  CU_ASSERT_TRUE(weft_str_is(weft_test_node(g, "b")->op->name, "_WeftChain"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "c")->inputs[0].node, weft_test_node(g, "b"));
  weft_graph_destroy(g);
}

static void a_fork_that_joins_again_is_one_chain(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") ONE("a", "Tanh", "x") ONE("b", "Exp", "a") ONE(
      "c", "Neg", "a") PAIR("d", "Mul", "b", "c") "node{name:'out' op:'Identity' input:'d'" T_FLOAT "}");
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(g->num_live, 3);
  weft_graph_destroy(g);
}

static void control_edges_of_links_are_kept(void) {
  weft_graph_t *g = weft_test_graph(INPUT(
      "x") "node{name:'before' op:'NoOp'} "
           "node{name:'a' op:'Tanh' input:'x' input:'^before'" T_FLOAT
           "} " ONE("b", "Exp", "a") "node{name:'after' op:'NoOp' input:'^b'}");
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  const weft_node_t *chain = weft_test_node(g, "b"), *after = weft_test_node(g, "after");
  CU_ASSERT_TRUE_FATAL(weft_str_is(chain->op->name, "_WeftChain"));
  CU_ASSERT_TRUE(weft_test_depends(g, chain, weft_test_node(g, "before")));
  CU_ASSERT_EQUAL_FATAL(after->num_controls, 1);
  CU_ASSERT_PTR_EQUAL(after->controls[0], chain);
  weft_graph_destroy(g);
  /* What waits for a link must not wait for the whole chain. */
  no_chain_is_made(INPUT("x") ONE("a", "Tanh", "x")
                       ONE("b", "Exp", "a") "node{name:'after' op:'NoOp' input:'^a'}");
}

static void some_nodes_are_no_links(void) {
  no_chain_is_made(INPUT("x") ONE("a", "Tanh", "x"));
  no_chain_is_made(INPUT("x") ONE("a", "Identity", "x") ONE("b", "Identity", "a"));
  no_chain_is_made(INPUT("x") ONE("a", "Tanh", "x") /* an attribute of its own */
                   "node{name:'b' op:'LeakyRelu' input:'a' attr{key:'alpha' value{f:0.3}}" T_FLOAT "}");
  no_chain_is_made(INPUT("x") "node{name:'a' op:'Tanh' input:'x'" T_FLOAT
                              "} "
                              "node{name:'b' op:'Equal' input:'a' input:'x' attr{key:'"
                              "incompatible_shape_error' value{b:false}}" T_FLOAT "}");
}

static void chains_end_where_they_would_grow_too_large(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%s", INPUT("x") ONE("n0", "Tanh", "x"));
  for (int i = 1; i < 200; i++)
    weft_strbuf_printf(&b, "node{name:'n%d' op:'Tanh' input:'n%d'" T_FLOAT "} ", i, i - 1);
  weft_graph_t *g = weft_test_graph(b.data);
  weft_test_expect(weft_pass_fuse_chains(g, one_output, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 4);
  CU_ASSERT_EQUAL(g->num_live, 5);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&b);
}

/* ---- chains of several outputs ---- */

static weft_graph_t *fused(const char *text) {
  weft_graph_t *g = weft_test_graph(text);
  weft_test_expect(weft_pass_fuse_chains(g, many_outputs, NULL), WEFT_OK, "");
  return g;
}

static void what_is_read_inside_and_outside_is_an_output(void) {
  weft_graph_t *g = fused(INPUT("x") ONE("a", "Tanh", "x") ONE("b", "Exp", "a") ONE("c", "Neg", "b") PAIR(
      "d", "Mul", "a", "c") OUT("out_a", "a") OUT("out_b", "b") OUT("out_d", "d"));
  const weft_node_t *n = weft_test_node(g, "d");
  CU_ASSERT_TRUE_FATAL(weft_str_is(n->op->name, "_WeftChain"));
  CU_ASSERT_EQUAL_FATAL(n->num_outputs, 3);
  CU_ASSERT(weft_test_node(g, "out_a")->inputs[0].node == n &&
            weft_test_node(g, "out_a")->inputs[0].index == 0);
  CU_ASSERT(weft_test_node(g, "out_b")->inputs[0].node == n &&
            weft_test_node(g, "out_b")->inputs[0].index == 1);
  CU_ASSERT(weft_test_node(g, "out_d")->inputs[0].node == n &&
            weft_test_node(g, "out_d")->inputs[0].index == 2);
  CU_ASSERT_EQUAL(g->num_live, 5);
  weft_graph_destroy(g);
}

/* d reads b by way of a node that is no link. */
static void a_path_out_and_back_ends_a_chain(void) {
  weft_graph_t *g = fused(INPUT("x") ONE("a", "Tanh", "x") ONE("b", "Exp", "a") PAIR("m", "MatMul", "b", "b")
                              PAIR("c", "Mul", "m", "a") ONE("d", "Neg", "c") OUT("out", "d"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 2); /* a and b; c and d */
  CU_ASSERT_EQUAL(weft_test_node(g, "b")->num_outputs, 2);
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "m")->inputs[0].node, weft_test_node(g, "b"));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "d"), weft_test_node(g, "m")));
  weft_graph_destroy(g);
  g = fused(INPUT("x") ONE("a", "Tanh", "x") ONE(
      "b", "Exp",
      "a") "node{name:'between' op:'NoOp' input:'^b'} "
           "node{name:'c' op:'Neg' input:'a' input:'^between'" T_FLOAT "} " ONE("d", "Abs", "c")
                OUT("out", "d"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 2);
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "d"), weft_test_node(g, "between")));
  weft_graph_destroy(g);
}

/* Two chains that would wait for each other: a1 -> b1 and b2 -> a2, on two devices. */
static void chains_do_not_wait_for_each_other(void) {
  weft_graph_t *g = weft_test_graph(INPUT("x") ONE("a1", "Tanh", "x") ONE("b2", "Exp", "x") PAIR(
      "b1", "Mul", "a1", "b2") PAIR("a2", "Sub", "b2", "a1") ONE("b3", "Neg", "b1") ONE("a3", "Neg", "a2")
                                        OUT("out_a", "a3") OUT("out_b", "b3"));
  for (int i = 0; i < g->num_nodes; i++)
    g->nodes[i]->assigned_device =
        weft_graph_intern(g, weft_str(g->nodes[i]->name.data[0] == 'a' ? "/a" : "/b"));
  weft_node_t **order = NULL;
  weft_test_expect(weft_pass_fuse_chains(g, many_outputs, NULL), WEFT_OK, "");
  weft_test_expect(weft_graph_topological_order(g, &order), WEFT_OK, "");
  weft_free(order);
  weft_graph_destroy(g);
}

/* An output that goes elsewhere may be what the receive waits for. */
static void an_output_does_not_wait_for_what_comes_from_elsewhere(void) {
#define CROSSING                                                                \
  "attr{key:'tensor_name' value{s:'t'}} attr{key:'send_device' value{s:'/a'}} " \
  "attr{key:'send_device_incarnation' value{i:1}} attr{key:'recv_device' value{s:'/b'}} "
  weft_graph_t *g =
      fused(INPUT("x") "node{name:'r' op:'_Recv' attr{key:'tensor_type' value{type:DT_FLOAT}}" CROSSING
                       "} " ONE("a", "Tanh", "x") "node{name:'s' op:'_Send' input:'a' " T_FLOAT CROSSING
                                                  "} " PAIR("b", "Mul", "a", "r") ONE("c", "Neg", "b")
                                                      OUT("out", "c"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 1); /* b and c */
  CU_ASSERT_FALSE(weft_test_depends(g, weft_test_node(g, "s"), weft_test_node(g, "r")));
  weft_graph_destroy(g);
}

static void an_output_does_not_wait_for_what_takes_long(void) {
  weft_graph_t *g = fused(INPUT("x") ONE("a", "Tanh", "x") PAIR("m", "MatMul", "x", "x") OUT("out_a", "a")
                              PAIR("b", "Mul", "a", "m") OUT("out_b", "b"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 0);
  weft_graph_destroy(g);
}

/* On one side of a predicate only. */
static void an_output_is_dead_by_itself(void) {
  weft_graph_t *g = fused(INPUT(
      "x") "node{name:'p' op:'Placeholder' attr{key:'dtype' value{type:DT_BOOL}} attr{key:'shape' "
           "value{shape{}}}} "
           "node{name:'s' op:'Switch' input:'x' input:'p'" T_FLOAT "} " ONE("a", "Tanh", "x") OUT(
               "out_a", "a") PAIR("b", "Mul", "a", "s:1") ONE("c", "Neg", "b") ONE("d", "Exp", "s:1")
                              PAIR("e", "Add", "d", "b") OUT("out_c", "c") OUT("out_e", "e"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 1); /* all but a */
  CU_ASSERT_EQUAL(weft_test_count(g, "Tanh"), 1);
  weft_graph_destroy(g);
}

static void what_waits_for_several_links_waits_for_the_chain_once(void) {
  weft_graph_t *g = fused(INPUT(
      "x") "node{name:'before' op:'NoOp'} "
           "node{name:'a' op:'Tanh' input:'x' input:'^before'" T_FLOAT
           "} "
           "node{name:'b' op:'Exp' input:'a' input:'^before'" T_FLOAT
           "} "
           "node{name:'c' op:'Neg' input:'b' input:'^a'" T_FLOAT "} " OUT(
               "out", "c") "node{name:'after' op:'NoOp' input:'^a' input:'^b' input:'^before'} "
                           "node{name:'d' op:'Abs' input:'x' input:'^b' input:'^c'" T_FLOAT
                           "} "
                           "node{name:'m' op:'NoOp' input:'^after'} "
                           "node{name:'e' op:'Abs' input:'d' input:'^m'" T_FLOAT "} ");
  const weft_node_t *chain = weft_test_node(g, "out")->inputs[0].node, *after = weft_test_node(g, "after");
  CU_ASSERT_TRUE_FATAL(weft_str_is(chain->op->name, "_WeftChain"));
  CU_ASSERT_EQUAL(chain->num_controls, 1);
  CU_ASSERT_EQUAL(after->num_controls, 2);
  CU_ASSERT_TRUE(weft_test_depends(g, after, chain));
  CU_ASSERT_TRUE(weft_test_depends(g, weft_test_node(g, "e"), chain));
  weft_graph_destroy(g);
}

static void nodes_that_are_marked_stay(void) {
  static const weft_attr_t is_set = {.kind = WEFT_ATTR_BOOL, .b = true};
  weft_graph_t *g = weft_test_graph(INPUT("x") ONE("a", "Tanh", "x") ONE("b", "Exp", "a") OUT("out", "b"));
  CU_ASSERT_TRUE(weft_pass_may_fuse_chains(g, many_outputs, NULL));
  for (int id = 0; id < g->num_nodes; id++)
    weft_test_expect(weft_graph_set_attr(g, g->nodes[id], WEFT_NO_CHAIN_ATTR, &is_set), WEFT_OK, "");
  CU_ASSERT_FALSE(weft_pass_may_fuse_chains(g, many_outputs, NULL));
  weft_test_expect(weft_pass_fuse_chains(g, many_outputs, NULL), WEFT_OK, "");
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 0);
  weft_graph_destroy(g);
}

static void a_long_chain_is_cut(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%s", INPUT("x") ONE("n0", "Tanh", "x"));
  for (int i = 1; i < 2500; i++)
    weft_strbuf_printf(&b, "node{name:'n%d' op:'Tanh' input:'n%d'" T_FLOAT "} ", i, i - 1);
  weft_graph_t *g = fused(b.data);
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 3);
  CU_ASSERT_EQUAL(g->num_live, 4);
  weft_graph_destroy(g);
  weft_strbuf_deinit(&b);
}

/* ---- reductions ---- */

#define AXES(name, values)                                                \
  "node{name:'" name                                                      \
  "' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' " \
  "value{tensor{dtype:DT_INT32 tensor_shape{dim{size:1}} int_val:" values "}}}} "
#define FOLD(name, op, x, axes)                                             \
  "node{name:'" name "' op:'" op "' input:'" x "' input:'" axes "'" T_FLOAT \
  "attr{key:'Tidx' value{type:DT_INT32}} attr{key:'keep_dims' value{b:true}}} "

static void a_normalisation_is_one_chain(void) {
  weft_graph_t *g = fused(INPUT("x") AXES("axes", "-1") FOLD("mean", "Mean", "x", "axes") PAIR(
      "parts", "SquaredDifference", "x", "mean") FOLD("variance", "Mean", "parts", "axes")
                              ONE("factor", "Rsqrt", "variance") PAIR("centred", "Sub", "x", "mean")
                                  PAIR("y", "Mul", "centred", "factor") OUT("out", "y"));
  const weft_node_t *n = weft_test_node(g, "y");
  weft_chain_t c;
  weft_arena_t arena = WEFT_ARENA_INIT;
  CU_ASSERT_TRUE_FATAL(weft_str_is(n->op->name, "_WeftChain"));
  CU_ASSERT_EQUAL(g->num_live, 4);
  CU_ASSERT_EQUAL(n->num_inputs, 2);
  weft_test_expect(weft_chain_read(&arena, n->attrs, n->num_attrs, &c), WEFT_OK, "");
  CU_ASSERT_TRUE(c.links[0].keeps_dims);
  weft_arena_deinit(&arena);
  weft_graph_destroy(g);
}

/* Along the outermost dimension, and along one that only the step knows. */
static void other_reductions_stay_nodes(void) {
  weft_graph_t *g =
      fused(INPUT("x") AXES("axes", "0") ONE("a", "Tanh", "x") FOLD("b", "Sum", "a", "axes") OUT("out", "b"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 0);
  weft_graph_destroy(g);
  g = fused(INPUT("x") "node{name:'axes' op:'Placeholder' attr{key:'dtype' value{type:DT_INT32}}} " ONE(
      "a", "Tanh", "x") FOLD("b", "Sum", "a", "axes") OUT("out", "b"));
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftChain"), 0);
  weft_graph_destroy(g);
}

/* ---- attention ---- */

#define PRODUCT(name, x, y) PAIR(name, "BatchMatMulV2", x, y)
#define EINSUM(name, x, y, equation)                         \
  "node{name:'" name "' op:'Einsum' input:'" x "' input:'" y \
  "' attr{key:'N' value{i:2}} attr{key:'equation' value{s:'" equation "'}}" T_FLOAT "} "
#define SHARES                \
  INPUT("q")                  \
  INPUT("k")                  \
  INPUT("v")                  \
  INPUT("mask")               \
  PRODUCT("scores", "q", "k") \
  PAIR("masked", "AddV2", "scores", "mask") ONE("shares", "Softmax", "masked") PRODUCT("y", "shares", "v")

static bool may_attend(void *arg, const weft_node_t *n) {
  (void)n;
  return *(const bool *)arg;
}

static weft_graph_t *attended(const char *text, bool may) {
  weft_graph_t *g = fused(text);
  weft_test_expect(weft_pass_fuse_attention(g, may_attend, &may), WEFT_OK, "");
  return g;
}

static void products_and_the_chain_between_them_become_one(void) {
  weft_graph_t *g = attended(SHARES OUT("out", "y") "node{name:'after' op:'NoOp' input:'^y'}", true);
  const weft_node_t *n = weft_test_node(g, "y");
  CU_ASSERT_TRUE_FATAL(weft_str_is(n->op->name, "_WeftAttention"));
  CU_ASSERT_EQUAL(g->num_live, 7);
  CU_ASSERT_EQUAL_FATAL(n->num_inputs, 4);
  CU_ASSERT_PTR_EQUAL(n->inputs[2].node, weft_test_node(g, "k"));
  CU_ASSERT_PTR_EQUAL(n->inputs[3].node, weft_test_node(g, "v"));
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "out")->inputs[0].node, n);
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "after")->controls[0], n);
  weft_graph_destroy(g);
  g = attended(INPUT("q") INPUT("k") INPUT("v") PRODUCT("scores", "q", "k") ONE("shares", "Softmax", "scores")
                   PRODUCT("y", "shares", "v") PRODUCT("again", "y", "k") ONE("more", "Softmax", "again")
                       PRODUCT("z", "more", "v") OUT("out", "z"),
               true);
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftAttention"), 2);
  CU_ASSERT_PTR_EQUAL(weft_test_node(g, "z")->inputs[0].node, weft_test_node(g, "y"));
  weft_graph_destroy(g);
}

/* Of operands as Keras has them: [batch, length, heads, depth]. */
static void einsums_are_products(void) {
  weft_graph_t *g = attended(INPUT("q") INPUT("k") INPUT("v") EINSUM("scores", "k", "q", "aecd,abcd->acbe")
                                 ONE("shares", "Softmax", "scores")
                                     EINSUM("y", "shares", "v", "acbe,aecd->abcd") OUT("out", "y"),
                             true);
  const weft_node_t *n = weft_test_node(g, "y");
  CU_ASSERT_TRUE_FATAL(weft_str_is(n->op->name, "_WeftAttention"));
  CU_ASSERT_PTR_EQUAL(n->inputs[0].node, weft_test_node(g, "k"));
  CU_ASSERT_PTR_EQUAL(n->inputs[1].node, weft_test_node(g, "q"));
  const weft_attr_t *equations = weft_node_attr(n, "equations");
  CU_ASSERT_TRUE_FATAL(equations != NULL && equations->n == 2);
  CU_ASSERT_TRUE(weft_str_is(equations->list.strings[1], "acbe,aecd->abcd"));
  weft_graph_destroy(g);
  g = attended(INPUT("q") INPUT("k") INPUT("v") EINSUM("scores", "k", "q", "aecd,abcd->acbe")
                   ONE("shares", "Softmax", "scores") EINSUM("y", "v", "shares", "aecd,acbe->abcd")
                       OUT("out", "y"),
               true);
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftAttention"), 0);
  weft_graph_destroy(g);
}

static void scores_that_are_read_elsewhere_stay(void) {
  static const char *const texts[] = {SHARES OUT("out", "y") OUT("other", "scores"),
                                      SHARES OUT("out", "y") OUT("other", "shares"),
                                      SHARES OUT("out", "y") "node{name:'after' op:'NoOp' input:'^scores'}"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_graph_t *g = attended(texts[i], true);
    CU_ASSERT_EQUAL(weft_test_count(g, "_WeftAttention"), 0);
    CU_ASSERT_EQUAL(weft_test_count(g, "BatchMatMulV2"), 2);
    weft_graph_destroy(g);
  }
  weft_graph_t *g = attended(SHARES OUT("out", "y"), false); /* a device without a kernel for it */
  CU_ASSERT_EQUAL(weft_test_count(g, "_WeftAttention"), 0);
  weft_graph_destroy(g);
}

/* ---- random graphs ---- */

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

enum { NUM_RANDOM = 60 };

/* Links, others and control edges, on two devices. */
static weft_graph_t *random_graph(uint64_t seed) {
  static const char *const ops[] = {"AddV2", "Mul", "Sub", "MatMul"};
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&b, "%s", INPUT("n0") INPUT("n1"));
  for (int i = 2; i < NUM_RANDOM; i++) {
    const uint32_t back = (uint32_t)i < 8 ? (uint32_t)i : 8;
    weft_strbuf_printf(&b, "node{name:'n%d' op:'%s' input:'n%u' input:'n%u' ", i, ops[draw(&seed, 4)],
                       (uint32_t)i - 1 - draw(&seed, back), (uint32_t)i - 1 - draw(&seed, back));
    if (draw(&seed, 4) == 0) weft_strbuf_printf(&b, "input:'^n%u' ", draw(&seed, (uint32_t)i));
    weft_strbuf_printf(&b, T_FLOAT "} ");
  }
  weft_graph_t *g = weft_test_graph(b.data);
  weft_strbuf_deinit(&b);
  for (int i = 0; i < g->num_nodes; i++)
    g->nodes[i]->assigned_device = weft_graph_intern(g, weft_str(draw(&seed, 8) == 0 ? "/b" : "/a"));
  return g;
}

/* Where each node of the graph as it was is now. */
static const weft_node_t *holder(const weft_graph_t *g, const char *name) {
  const weft_node_t *n = weft_graph_find(g, weft_str(name));
  for (int i = 0; n == NULL && i < g->num_nodes; i++) {
    const weft_node_t *chain = g->nodes[i];
    const weft_attr_t *nodes = chain == NULL ? NULL : weft_node_attr(chain, "nodes");
    for (int k = 0; nodes != NULL && k < nodes->n; k++) {
      if (weft_str_is(nodes->list.strings[k], name)) n = chain;
    }
  }
  return n;
}

static void random_graphs_keep_their_order(void) {
  int num_chains = 0, num_outputs = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    weft_graph_t *before = random_graph(seed), *g = NULL;
    weft_node_t **order = NULL;
    weft_test_expect(weft_graph_copy(before, &g), WEFT_OK, "");
    weft_test_expect(weft_pass_fuse_chains(g, many_outputs, NULL), WEFT_OK, "");
    weft_status_t *s = weft_graph_topological_order(g, &order);
    if (s != NULL) printf("seed %d\n", (int)seed);
    weft_test_expect(s, WEFT_OK, "");
    for (int i = 0; i < g->num_nodes; i++) {
      if (g->nodes[i] == NULL || !weft_str_is(g->nodes[i]->op->name, "_WeftChain")) continue;
      num_chains++;
      num_outputs += g->nodes[i]->num_outputs;
    }
    for (int i = 2; i < before->num_nodes; i++) {
      const weft_node_t *n = before->nodes[i], *now = holder(g, n->name.data);
      CU_ASSERT_PTR_NOT_NULL_FATAL(now);
      for (int k = 0; k < n->num_controls; k++) {
        const weft_node_t *from = holder(g, n->controls[k]->name.data);
        CU_ASSERT_TRUE(from == now || weft_test_depends(g, now, from));
      }
    }
    weft_free(order);
    weft_graph_destroy(g);
    weft_graph_destroy(before);
  }
  CU_ASSERT_TRUE(num_chains > 1000 && num_outputs > num_chains);
}

static weft_status_t *fuse_copy(const weft_graph_t *from) {
  weft_graph_t *g = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(from, &g));
  weft_status_t *s = weft_pass_fuse_chains(g, many_outputs, NULL);
  weft_graph_destroy(g);
  return s;
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void) {
  weft_graph_t *g = random_graph(7);
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, fuse_copy(g));
  CU_ASSERT_TRUE(n > 10);
  weft_graph_destroy(g);
}

static const CU_TestInfo tests[] = {
    {"elementwise nodes that feed only each other become one",
     elementwise_nodes_that_feed_only_each_other_become_one},
    {"what is seen outside stays a node", what_is_seen_outside_stays_a_node},
    {"a fork that joins again is one chain", a_fork_that_joins_again_is_one_chain},
    {"control edges of links are kept", control_edges_of_links_are_kept},
    {"some nodes are no links", some_nodes_are_no_links},
    {"chains end where they would grow too large", chains_end_where_they_would_grow_too_large},
    {"what is read inside and outside is an output", what_is_read_inside_and_outside_is_an_output},
    {"a path out and back ends a chain", a_path_out_and_back_ends_a_chain},
    {"chains do not wait for each other", chains_do_not_wait_for_each_other},
    {"an output does not wait for what comes from elsewhere",
     an_output_does_not_wait_for_what_comes_from_elsewhere},
    {"an output does not wait for what takes long", an_output_does_not_wait_for_what_takes_long},
    {"an output is dead by itself", an_output_is_dead_by_itself},
    {"what waits for several links waits for the chain once",
     what_waits_for_several_links_waits_for_the_chain_once},
    {"nodes that are marked stay", nodes_that_are_marked_stay},
    {"a long chain is cut", a_long_chain_is_cut},
    {"a normalisation is one chain", a_normalisation_is_one_chain},
    {"other reductions stay nodes", other_reductions_stay_nodes},
    {"products and the chain between them become one", products_and_the_chain_between_them_become_one},
    {"einsums are products", einsums_are_products},
    {"scores that are read elsewhere stay", scores_that_are_read_elsewhere_stay},
    {"random graphs keep their order", random_graphs_keep_their_order},
    {"a failed allocation is reported and leaks nothing", a_failed_allocation_is_reported_and_leaks_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("chains", tests); }
