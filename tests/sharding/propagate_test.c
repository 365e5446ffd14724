/* Shardings spread from seeds over whole graphs, which are then computed on parts as the plan says. */
#include "sharding/propagate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_testing.h"
#include "tests/runner.h"
#include "tests/sharding/mesh_run.h"

/* One run of a test: a graph, a mesh, seeds "name axis=kind", a plan. */
typedef struct trial {
  weft_mesh_run_t *run;
  weft_mesh_t mesh;
  weft_arena_t arena;
  weft_sharding_plan_t plan;
} trial_t;

typedef struct seed {
  const char *value, *axis;
  int dim; /* of Shard; -1: Replicate */
} seed_t;

/* Bytes decide, though tensors are small. */
static const weft_reshard_link_t slow_link = {.latency = 1e-9, .seconds_per_byte = 1e-6};

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

static trial_t begin(const weft_mesh_node_t *nodes, int num_nodes, const char *mesh) {
  trial_t t = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_mesh_run_create(nodes, num_nodes, &t.run);
  if (s == NULL) s = weft_mesh_parse(weft_str(mesh), &t.mesh);
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  return t;
}

static void end(trial_t *t) {
  weft_mesh_run_destroy(t->run);
  weft_arena_deinit(&t->arena);
}

static weft_status_t *propagate(trial_t *t, const seed_t *seeds, int num_seeds) {
  weft_sharding_seed_t all[16] = {{{NULL, 0}, {{{0}}}}};
  for (int i = 0; i < num_seeds; i++) {
    int axis = weft_mesh_find_axis(&t->mesh, weft_str(seeds[i].axis));
    CU_ASSERT_FATAL(axis >= 0 && i < 16);
    all[i].value = weft_mesh_run_value(t->run, seeds[i].value);
    all[i].sharding.axes[axis] =
        seeds[i].dim < 0 ? weft_sharding_replicate(0) : weft_sharding_shard(seeds[i].dim, 0);
  }
  return weft_sharding_propagate(weft_mesh_run_graph(t->run), &t->mesh, all, num_seeds, &slow_link, &t->arena,
                                 &t->plan);
}

static void print(const trial_t *t) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_sharding_plan_print(&t->plan, &text);
  fputs(text.data, stderr);
  weft_strbuf_deinit(&text);
}

/* Propagates and computes: every value must be what one device computes. */
static void expect_whole(trial_t *t, const seed_t *seeds, int num_seeds) {
  int differences = -1;
  weft_status_t *s = propagate(t, seeds, num_seeds);
  if (s == NULL) s = weft_mesh_run_compute(t->run, &t->plan, &differences);
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL(s);
  CU_ASSERT_EQUAL(differences, 0);
  if (s != NULL || differences != 0) print(t);
  weft_status_free(s);
}

static const weft_sharded_node_t *node_of(const trial_t *t, const char *name) {
  return t->plan.nodes[weft_mesh_run_value(t->run, name).node->id];
}

static void expect_value(const trial_t *t, const char *name, const char *text) {
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  weft_sharding_print(&t->mesh, &node_of(t, name)->values[0], &got);
  CU_ASSERT_STRING_EQUAL(got.data, text);
  if (strcmp(got.data, text) != 0) fprintf(stderr, "%s: %s, not %s\n", name, got.data, text);
  weft_strbuf_deinit(&got);
}

/* How many steps of the kind the plan has; with other kinds that send. */
static int count_steps(const trial_t *t, weft_reshard_kind_t kind, int *out_others) {
  int n = 0;
  *out_others = 0;
  for (int i = 0; i < t->plan.num_reshardings; i++) {
    const weft_reshard_plan_t *plan = &t->plan.reshardings[i].plan;
    for (int k = 0; k < plan->num_steps; k++) {
      if (plan->steps[k].kind == kind)
        n++;
      else
        *out_others += plan->steps[k].wire_bytes > 0;
    }
  }
  return n;
}

static void expect_only(const trial_t *t, weft_reshard_kind_t kind, int num) {
  int others = 0;
  CU_ASSERT_EQUAL(count_steps(t, kind, &others), num);
  CU_ASSERT_EQUAL(others, 0);
  if (others != 0) print(t);
}

/* ---- networks ---- */

static const weft_mesh_node_t mlp[] = {
    {"x", "Placeholder", "", "double[8,6]"}, {"w1", "Placeholder", "", "double[6,16]"},
    {"b1", "Placeholder", "", "double[16]"}, {"w2", "Placeholder", "", "double[16,6]"},
    {"b2", "Placeholder", "", "double[6]"},  {"p1", "MatMul", "", "x w1"},
    {"h1", "BiasAdd", "", "p1 b1"},          {"a1", "Relu", "", "h1"},
    {"p2", "MatMul", "", "a1 w2"},           {"y", "BiasAdd", "", "p2 b2"},
};

static void columns_then_rows_need_one_all_reduce(void) {
  static const seed_t seeds[] = {
      {"w1", "model", 1}, {"w2", "model", 0}, {"y", "model", -1}, {"x", "data", 0}};
  static const char *const meshes[] = {"model=2", "model=4", "data=2,model=2", "model=2,data=4"};
  for (int i = 0; i < LENGTH(meshes); i++) {
    trial_t t = begin(mlp, LENGTH(mlp), meshes[i]);
    bool has_data = i >= 2;
    expect_whole(&t, seeds, has_data ? 4 : 3);
    expect_value(&t, "a1",
                 !has_data ? "model: Shard(1)"
                 : i == 2  ? "data: Shard(0), model: Shard(1)"
                           : "model: Shard(1), data: Shard(0)");
    expect_value(&t, "b1", "model: Shard(0)");
    expect_value(&t, "y", has_data ? "data: Shard(0)" : "Replicate");
    expect_only(&t, WEFT_RESHARD_ALL_REDUCE, 1);
    CU_ASSERT_EQUAL(t.plan.num_conflicts, 0);
    end(&t);
  }
}

/* Only the second weight has a seed: the first takes its sharding backward. */
static void shardings_go_backward(void) {
  static const seed_t seeds[] = {{"a1", "model", 1}};
  trial_t t = begin(mlp, LENGTH(mlp), "model=2");
  expect_whole(&t, seeds, 1);
  expect_value(&t, "w1", "model: Shard(1)");
  expect_value(&t, "b1", "model: Shard(0)");
  expect_value(&t, "w2", "model: Shard(0)");
  expect_value(&t, "x", "Replicate");
  end(&t);
}

static const weft_mesh_node_t attention[] = {
    {"x", "Placeholder", "", "double[8,32]"}, /* 2 examples of 4 tokens; 4 heads of 8 */
    {"wq", "Placeholder", "", "double[32,32]"},
    {"wk", "Placeholder", "", "double[32,32]"},
    {"wv", "Placeholder", "", "double[32,32]"},
    {"wo", "Placeholder", "", "double[32,32]"},
    {"apart", "Const", "", "int32[4]:2,4,4,8"},
    {"together", "Const", "", "int32[2]:8,32"},
    {"perm", "Const", "", "int32[4]:0,2,1,3"},
    {"q0", "MatMul", "", "x wq"},
    {"k0", "MatMul", "", "x wk"},
    {"v0", "MatMul", "", "x wv"},
    {"q1", "Reshape", "", "q0 apart"},
    {"k1", "Reshape", "", "k0 apart"},
    {"v1", "Reshape", "", "v0 apart"},
    {"q", "Transpose", "", "q1 perm"},
    {"k", "Transpose", "", "k1 perm"},
    {"v", "Transpose", "", "v1 perm"},
    {"scores", "BatchMatMulV2", "adj_y=true", "q k"},
    {"scale", "Const", "", "double[]:0.7"},
    {"scaled", "Mul", "", "scores scale"},
    {"weights", "Softmax", "", "scaled"},
    {"heads", "BatchMatMulV2", "", "weights v"},
    {"turned", "Transpose", "", "heads perm"},
    {"rows", "Reshape", "", "turned together"},
    {"out", "MatMul", "", "rows wo"},
    {"sum", "AddV2", "", "out x"},
};

static void heads_are_computed_apart(void) {
  static const seed_t seeds[] = {{"wq", "model", 1}, {"wk", "model", 1},   {"wv", "model", 1},
                                 {"wo", "model", 0}, {"sum", "model", -1}, {"x", "data", 0}};
  static const char *const meshes[] = {"model=2", "model=4", "data=2,model=2"};
  for (int i = 0; i < LENGTH(meshes); i++) {
    trial_t t = begin(attention, LENGTH(attention), meshes[i]);
    expect_whole(&t, seeds, i == 2 ? 6 : 5);
    expect_value(&t, "weights", i == 2 ? "data: Shard(0), model: Shard(1)" : "model: Shard(1)");
    expect_only(&t, WEFT_RESHARD_ALL_REDUCE, 1);
    CU_ASSERT_EQUAL(t.plan.num_conflicts, 0);
    end(&t);
  }
}

static void embeddings_are_split_both_ways(void) {
  static const weft_mesh_node_t nodes[] = {
      {"table", "Placeholder", "", "double[64,8]"},
      {"ids", "Placeholder", "", "int32[2,4]%64"},
      {"axis", "Const", "", "int32[]:0"},
      {"e", "GatherV2", "", "table ids axis"},
      {"y", "Square", "", "e"},
  };
  static const seed_t rows[] = {{"table", "model", 0}, {"y", "model", -1}};
  static const seed_t columns[] = {{"table", "model", 1}, {"ids", "data", 0}};
  trial_t t = begin(nodes, LENGTH(nodes), "data=2,model=2");
  expect_whole(&t, rows, 2);
  expect_only(&t, WEFT_RESHARD_ALL_REDUCE, 1);
  CU_ASSERT_EQUAL(node_of(&t, "e")->input_reshardings[0], -1);
  expect_whole(&t, columns, 2);
  expect_value(&t, "y", "data: Shard(0), model: Shard(2)");
  CU_ASSERT_EQUAL(t.plan.num_reshardings, 0);
  end(&t);
}

/* ---- conflicts ---- */

static void the_cheaper_resharding_wins(void) {
  static const char *const shapes[2][2] = {{"double[64,8]", "double[8,4]"}, {"double[4,8]", "double[8,64]"}};
  static const seed_t seeds[] = {{"a", "model", 0}, {"b", "model", 1}};
  for (int i = 0; i < 2; i++) {
    weft_mesh_node_t nodes[] = {{"a", "Placeholder", "", shapes[i][0]},
                                {"b", "Placeholder", "", shapes[i][1]},
                                {"y", "MatMul", "", "a b"}};
    trial_t t = begin(nodes, LENGTH(nodes), "model=2");
    expect_whole(&t, seeds, 2);
    expect_value(&t, "y", i == 0 ? "model: Shard(0)" : "model: Shard(1)");
    CU_ASSERT_EQUAL_FATAL(t.plan.num_conflicts, 1);
    const weft_sharding_conflict_t *c = &t.plan.conflicts[0];
    CU_ASSERT_EQUAL(c->input, 1 - i);
    CU_ASSERT_EQUAL(c->has.dim, 1 - i);
    CU_ASSERT_EQUAL(c->required.kind, WEFT_SHARDING_REPLICATE);
    CU_ASSERT_TRUE(c->seconds > 0 && c->seconds < c->second_seconds);
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_sharding_plan_print(&t.plan, &text);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text.data, i == 0 ? "conflict at y, input 1, along model: Shard(1) -> Replicate"
                                 : "conflict at y, input 0, along model: Shard(0) -> Replicate"));
    weft_strbuf_deinit(&text);
    end(&t);
  }
}

/* One consumer wishes v Shard(1), two wish it Shard(0). */
static void the_wish_of_most_wins(void) {
  static const weft_mesh_node_t nodes[] = {
      {"v", "Placeholder", "", "double[8,6]"},
      {"rows", "Placeholder", "", "double[8,6]"},
      {"columns", "Placeholder", "", "double[8,6]"},
      {"a", "Mul", "", "v columns"},
      {"b", "Mul", "", "v rows"},
      {"c", "Sub", "", "rows v"},
  };
  static const seed_t seeds[] = {{"rows", "model", 0}, {"columns", "model", 1}};
  trial_t t = begin(nodes, LENGTH(nodes), "model=2");
  expect_whole(&t, seeds, 2);
  expect_value(&t, "v", "model: Shard(0)");
  CU_ASSERT_EQUAL(t.plan.num_conflicts, 1);
  expect_only(&t, WEFT_RESHARD_ALL_TO_ALL, 1);
  end(&t);
}

/* What two consumers require alike is done once. */
static void a_resharding_is_shared(void) {
  static const weft_mesh_node_t nodes[] = {
      {"v", "Placeholder", "", "double[8]"}, {"a", "Diag", "", "v"}, {"b", "Diag", "", "v"}};
  static const seed_t seeds[] = {{"v", "model", 0}};
  trial_t t = begin(nodes, LENGTH(nodes), "model=2");
  expect_whole(&t, seeds, 1);
  expect_only(&t, WEFT_RESHARD_ALL_GATHER, 1);
  CU_ASSERT_EQUAL(t.plan.num_reshardings, 1);
  CU_ASSERT_EQUAL(t.plan.num_conflicts, 2);
  end(&t);
}

/* ---- what cannot be split ---- */

static void uneven_sizes_are_refused_or_whole(void) {
  static const weft_mesh_node_t nodes[] = {
      {"x", "Placeholder", "", "double[8,6]"},
      {"odd", "Placeholder", "", "double[6,7]"},
      {"shape", "Const", "", "int32[2]:2,24"},
      {"y", "Reshape", "", "x shape"},
      {"z", "MatMul", "", "x odd"},
  };
  static const seed_t refused[] = {{"odd", "model", 1}}, rows[] = {{"x", "model", 0}};
  trial_t t = begin(nodes, LENGTH(nodes), "model=4");
  weft_status_t *s = propagate(&t, refused, 1);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "seed of 'odd:0'"));
  weft_status_free(s);
  expect_whole(&t, rows, 1); /* 4 does not divide the 2 rows that 8 become */
  expect_value(&t, "y", "Replicate");
  expect_value(&t, "z", "model: Shard(0)");
  end(&t);
}

static void a_value_has_one_seed(void) {
  static const seed_t seeds[] = {{"x", "model", 0}, {"x", "model", 1}};
  trial_t t = begin(mlp, LENGTH(mlp), "model=2");
  weft_status_t *s = propagate(&t, seeds, 2);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  end(&t);
}

static void ops_without_a_rule_get_the_whole(void) {
  static const weft_mesh_node_t nodes[] = {
      {"x", "Placeholder", "", "double[8,6]"},
      {"i", "Const", "", "int32[1]:1"},
      {"v", "Sum", "", "x i"},
      {"d", "Diag", "", "v"},
      {"s", "Shape", "", "x"},
      {"y", "Reshape", "", "x s ^d"},
  };
  static const seed_t seeds[] = {{"x", "model", 0}};
  trial_t t = begin(nodes, LENGTH(nodes), "model=2");
  expect_whole(&t, seeds, 1);
  expect_value(&t, "v", "model: Shard(0)");
  expect_value(&t, "d", "Replicate");
  CU_ASSERT_PTR_NOT_NULL(node_of(&t, "d")->lacks);
  CU_ASSERT_PTR_NULL(node_of(&t, "v")->lacks);
  expect_only(&t, WEFT_RESHARD_ALL_GATHER, 1);
  CU_ASSERT_EQUAL(node_of(&t, "s")->input_reshardings[0], -1); /* looks at the shape of what is there */
  CU_ASSERT_EQUAL(t.plan.num_conflicts, 1);
  expect_value(&t, "y", "model: Shard(0)"); /* the control edge of d carries nothing */
  end(&t);
}

static void without_seeds_all_is_replicated(void) {
  trial_t t = begin(attention, LENGTH(attention), "data=2,model=2");
  expect_whole(&t, NULL, 0);
  for (int i = 0; i < LENGTH(attention); i++) expect_value(&t, attention[i].name, "Replicate");
  CU_ASSERT_EQUAL(t.plan.num_reshardings, 0);
  end(&t);
}

/* ---- graphs that are planned only ---- */

#define FLOAT(key) " attr{key:'" key "' value{type:DT_FLOAT}} "
#define SHAPE(dims) " attr{key:'shape' value{shape{" dims "}}} "
#define INPUT(name, dims) "node{name:'" name "' op:'Placeholder'" FLOAT("dtype") SHAPE(dims) "} "

/* Seeds output 0 of a node with Shard(dim) along the only axis. */
static weft_status_t *plan_of(weft_graph_t *g, const char *seeded, int index, int dim, trial_t *t) {
  weft_sharding_seed_t seed = {{weft_test_node(g, seeded), index}, {.axes = {weft_sharding_shard(dim, 0)}}};
  weft_status_t *s = weft_mesh_parse(WEFT_STR("model=2"), &t->mesh);
  if (s == NULL) s = weft_sharding_propagate(g, &t->mesh, &seed, 1, &slow_link, &t->arena, &t->plan);
  return s;
}

static const weft_sharded_node_t *planned(const trial_t *t, const weft_graph_t *g, const char *name) {
  return t->plan.nodes[weft_test_node(g, name)->id];
}

static void a_variable_is_seeded_by_its_handle(void) {
  weft_graph_t *g = weft_test_graph(
      "node{name:'w' op:'VarHandleOp'" FLOAT("dtype") SHAPE("dim{size:6} dim{size:8}") "} "
      "node{name:'r' op:'ReadVariableOp' input:'w'" FLOAT("dtype") "} "
      INPUT("x", "dim{size:4} dim{size:6}")
      "node{name:'y' op:'MatMul' input:'x' input:'r'" FLOAT("T") "} "
      INPUT("rate", "")
      INPUT("delta", "dim{size:6} dim{size:8}")
      "node{name:'up' op:'ResourceApplyGradientDescent' input:'w' input:'rate' input:'delta'" FLOAT("T") "}");
  trial_t t = {.arena = WEFT_ARENA_INIT};
  weft_test_expect(plan_of(g, "w", 0, 1, &t), WEFT_OK, "");
  weft_axis_sharding_t columns = weft_sharding_shard(1, 0);
  CU_ASSERT_TRUE(weft_axis_sharding_eq(&planned(&t, g, "r")->values[0].axes[0], &columns));
  CU_ASSERT_TRUE(weft_axis_sharding_eq(&planned(&t, g, "y")->values[0].axes[0], &columns));
  CU_ASSERT_PTR_NOT_NULL(planned(&t, g, "up")->lacks);
  CU_ASSERT_TRUE(weft_axis_sharding_eq(&planned(&t, g, "up")->required[0].axes[0], &columns));
  CU_ASSERT_EQUAL(t.plan.num_reshardings, 0);
  weft_test_expect(plan_of(g, "w", 0, 2, &t), WEFT_INVALID_ARGUMENT, "seed of 'w:0'");
  weft_test_expect(plan_of(g, "w", 1, 0, &t), WEFT_INVALID_ARGUMENT, "no such output");
  weft_arena_deinit(&t.arena);
  weft_graph_destroy(g);
}

static void loops_get_the_whole(void) {
  weft_graph_t *g = weft_test_graph(
      INPUT("x", "dim{size:4} dim{size:6}")
      "node{name:'c' op:'Placeholder' attr{key:'dtype' value{type:DT_BOOL}}" SHAPE("") "} "
      "node{name:'e' op:'Enter' input:'x' attr{key:'frame_name' value{s:'f'}}" FLOAT("T") "} "
      "node{name:'ce' op:'Enter' input:'c' attr{key:'frame_name' value{s:'f'}} "
      "attr{key:'is_constant' value{b:true}} attr{key:'T' value{type:DT_BOOL}}} "
      "node{name:'m' op:'Merge' input:'e' input:'n' attr{key:'N' value{i:2}}" FLOAT("T") "} "
      "node{name:'l' op:'LoopCond' input:'ce'} "
      "node{name:'s' op:'Switch' input:'m' input:'l'" FLOAT("T") "} "
      "node{name:'n' op:'NextIteration' input:'s:1'" FLOAT("T") "} "
      "node{name:'o' op:'Exit' input:'s'" FLOAT("T") "}");
  trial_t t = {.arena = WEFT_ARENA_INIT};
  weft_test_expect(plan_of(g, "x", 0, 0, &t), WEFT_OK, "");
  CU_ASSERT_EQUAL(planned(&t, g, "o")->values[0].axes[0].kind, WEFT_SHARDING_REPLICATE);
  CU_ASSERT_EQUAL(t.plan.num_conflicts, 1);
  expect_only(&t, WEFT_RESHARD_ALL_GATHER, 1);
  weft_arena_deinit(&t.arena);
  weft_graph_destroy(g);
}

/* ---- the test itself ---- */

static void a_lost_resharding_is_found(void) {
  static const seed_t seeds[] = {{"w1", "model", 1}, {"w2", "model", 0}, {"y", "model", -1}};
  trial_t t = begin(mlp, LENGTH(mlp), "model=2");
  expect_whole(&t, seeds, 3);
  int num_lost = 0;
  for (int i = 0; i < t.plan.num_nodes; i++) {
    weft_sharded_node_t *n = t.plan.nodes[i];
    for (int k = 0; k < n->node->num_inputs + n->node->num_outputs; k++) {
      int *index = k < n->node->num_inputs ? &n->input_reshardings[k]
                                           : &n->output_reshardings[k - n->node->num_inputs];
      int differences = 0, was = *index;
      if (was < 0 || t.plan.reshardings[was].plan.cost.wire_bytes == 0) continue;
      *index = -1;
      weft_status_t *s = weft_mesh_run_compute(t.run, &t.plan, &differences);
      CU_ASSERT_TRUE(s != NULL || differences > 0);
      weft_status_free(s);
      *index = was;
      num_lost++;
    }
  }
  CU_ASSERT_EQUAL(num_lost, 1);
  end(&t);
}

static weft_status_t *propagate_again(trial_t *t, const seed_t *seeds, int num_seeds) {
  weft_arena_deinit(&t->arena);
  t->arena = (weft_arena_t)WEFT_ARENA_INIT;
  return propagate(t, seeds, num_seeds);
}

static void failed_allocations_are_reported(void) {
  static const seed_t seeds[] = {{"w1", "model", 1}, {"w2", "model", 0}};
  trial_t t = begin(mlp, LENGTH(mlp), "model=2");
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, propagate_again(&t, seeds, 2));
  CU_ASSERT_TRUE(n > 20);
  end(&t);
}

/* ---- one node ---- */

static weft_sharding_t along(weft_axis_sharding_t s) { return (weft_sharding_t){.axes = {s}}; }

static weft_rule_pick_t pick_of(const weft_rule_t *rule, const weft_mesh_t *mesh, weft_axis_sharding_t a,
                                weft_axis_sharding_t b, weft_axis_sharding_t y) {
  weft_sharding_t inputs[2] = {along(a), along(b)}, outputs[1] = {along(y)};
  weft_rule_choice_t choices[WEFT_MESH_AXES] = {{WEFT_RULE_REPLICATE, 0}};
  weft_rule_use_t use = {mesh, &slow_link, inputs, outputs, choices};
  weft_rule_pick_t pick;
  weft_status_t *s = weft_rule_choose(rule, &use, 0, &pick);
  CU_ASSERT_PTR_NULL_FATAL(s);
  return pick;
}

/* MatMul's m, k and n, forward from its inputs, backward from its output. */
static void choices_go_both_ways(void) {
  static const weft_mesh_node_t nodes[] = {{"a", "Placeholder", "", "double[64,32]"},
                                           {"b", "Placeholder", "", "double[32,8]"},
                                           {"y", "MatMul", "", "a b"}};
  enum { K = 'k' - 'a', M = 'm' - 'a', N = 'n' - 'a' };
  weft_axis_sharding_t open = {0}, whole = weft_sharding_replicate(0);
  weft_axis_sharding_t rows = weft_sharding_shard(0, 0), columns = weft_sharding_shard(1, 0);
  const struct {
    weft_axis_sharding_t a, b, y;
    int factor; /* -1: replicate */
  } cases[] = {
      {rows, open, open, M},    {open, columns, open, N},  {columns, rows, open, K},
      {open, open, rows, M},    {open, open, columns, N},  {columns, open, whole, K},
      {rows, columns, open, M}, {whole, whole, whole, -1}, {open, rows, weft_sharding_partial(0), K}};
  trial_t t = begin(nodes, LENGTH(nodes), "model=2");
  expect_whole(&t, NULL, 0);
  for (int i = 0; i < LENGTH(cases); i++) {
    weft_rule_pick_t pick = pick_of(&node_of(&t, "y")->rule, &t.mesh, cases[i].a, cases[i].b, cases[i].y);
    bool is_right = cases[i].factor < 0
                        ? pick.choice.kind == WEFT_RULE_REPLICATE
                        : pick.choice.kind == WEFT_RULE_FACTOR && pick.choice.index == cases[i].factor;
    if (!is_right)
      fprintf(stderr, "case %d: choice %d of kind %d\n", i, pick.choice.index, (int)pick.choice.kind);
    CU_ASSERT_TRUE(is_right);
    CU_ASSERT_TRUE(pick.seconds <= pick.second_seconds);
  }
  end(&t);
}

int main(void) {
  CU_TestInfo tests[] = {{"choices go both ways", choices_go_both_ways},
                         {"columns, then rows, need one all-reduce", columns_then_rows_need_one_all_reduce},
                         {"shardings go backward", shardings_go_backward},
                         {"heads are computed apart", heads_are_computed_apart},
                         {"embeddings are split both ways", embeddings_are_split_both_ways},
                         {"the cheaper resharding wins", the_cheaper_resharding_wins},
                         {"the wish of most wins", the_wish_of_most_wins},
                         {"a resharding is shared", a_resharding_is_shared},
                         {"uneven sizes are refused, or whole", uneven_sizes_are_refused_or_whole},
                         {"a value has one seed", a_value_has_one_seed},
                         {"ops without a rule get the whole", ops_without_a_rule_get_the_whole},
                         {"without seeds all is replicated", without_seeds_all_is_replicated},
                         {"a variable is seeded by its handle", a_variable_is_seeded_by_its_handle},
                         {"loops get the whole", loops_get_the_whole},
                         {"a lost resharding is found", a_lost_resharding_is_found},
                         {"failed allocations are reported", failed_allocations_are_reported},
                         CU_TEST_INFO_NULL};
  return weft_run_tests("propagate", tests);
}
