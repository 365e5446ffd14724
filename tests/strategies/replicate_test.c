/* tests/strategies/replicate_test.c - the graphs that synchronous strategies make: how many sums, how many
 * bytes, whose names; and what they refuse.
 *
 * T-MIR-2, T-DDP-3, T-DP-2 by the closed forms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "strategies/emit.h"
#include "tests/graph/graph_testing.h"
#include "tests/strategies/training.h"

enum { MLP_PARAMETERS = 32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10 };

static const use_t classifier = {.graph = "mlp_sgd",
                                 .feeds = {"x", "y"},
                                 .fetches = {"loss:0", "logits:0"},
                                 .targets = {"train"},
                                 .inits = {"init"}};

static weft_rewrite_t rewritten(const char *graph, const char *strategy) {
  use_t u = classifier;
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  u.strategy = strategy;
  weft_graph_t *g = read_graph(graph);
  weft_status_t *s = rewrite_for(g, &u, &r);
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  weft_graph_destroy(g);
  return r;
}

static int64_t bytes_that_say(const weft_rewrite_t *r, const char *what, const char *from) {
  int64_t bytes = 0;
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    bool fits = strstr(c->what.data, what) != NULL && weft_str_ends_with(c->from, from);
    if (fits && c->bytes > 0) bytes += c->bytes;
  }
  return bytes;
}

static void sums_move_what_a_ring_moves(void) {
  for (int n = 2; n <= 4; n++) {
    char strategy[64], from[16];
    snprintf(strategy, sizeof strategy, "mirrored:%d", n);
    weft_rewrite_t r = rewritten("mlp_sgd", strategy);
    for (int i = 0; i < n; i++) {
      snprintf(from, sizeof from, "CPU:%d", i);
      CU_ASSERT_EQUAL(bytes_that_say(&r, "bucket", from), (int64_t)2 * (n - 1) * 4 * MLP_PARAMETERS / n);
    }
    CU_ASSERT_EQUAL(count_nodes(r.graph, "CollectiveReduceV2"), n);
    CU_ASSERT_EQUAL(r.num_local_cpus, n);
    weft_rewrite_deinit(&r);
  }
}

/* Gradients of b0 (64), w0 (2048), b1 (64), w1 (4096), b2 (10), w2 (640) floats; ready last to first. */
static void packs_follow_their_rule(void) {
  static const struct {
    const char *strategy;
    int sums;
  } cases[] = {
      {"mirrored:2,fusion=none", 6},
      {"mirrored:2,bytes_per_pack=0", 1},
      {"mirrored:2,bytes_per_pack=1", 6},
      {"mirrored:2,bytes_per_pack=16K", 2},
      {"mirrored:2,fusion=horovod,bucket_bytes=0", 6},
      {"mirrored:2,fusion=horovod,bucket_bytes=1M", 1},
      {"mirrored:2,fusion=ddp,first_bucket_bytes=8K,bucket_bytes=16K", 3},
      {"mirrored:2,reduce=one", 0},
      {"mirrored:1", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_rewrite_t r = rewritten("mlp_sgd", cases[i].strategy);
    int sums = count_nodes(r.graph, "CollectiveReduceV2") / 2;
    if (sums != cases[i].sums) fprintf(stderr, "%s: %d sums\n", cases[i].strategy, sums);
    CU_ASSERT_EQUAL(sums, cases[i].sums);
    weft_rewrite_deinit(&r);
  }
}

enum { TRANSFORMER_PARAMETERS = 2 * (4 * (8 * 8 + 8) + 8 + (8 * 16 + 16) + (16 * 8 + 8)) + 8 * 10 + 10 };

/* Gradients behind the reshapes of tf.tensordot are of known size: all of them travel together, and what they
 * cost is known. */
static void gradients_of_a_transformer_travel_together(void) {
  static const char *const strategies[] = {"mirrored:2", "mirrored:3", "mirrored:2,accumulate=2",
                                           "mirrored:2,fusion=horovod"};
  for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
    weft_rewrite_t r = rewritten("transformer", strategies[k]);
    int n = r.num_local_cpus, sums = count_nodes(r.graph, "CollectiveReduceV2") / n;
    if (sums > 2) fprintf(stderr, "%s: %d sums\n", strategies[k], sums);
    CU_ASSERT_TRUE(sums <= 2);
    CU_ASSERT_EQUAL(bytes_that_say(&r, "bucket", "CPU:0"),
                    (int64_t)2 * (n - 1) * 4 * TRANSFORMER_PARAMETERS / n);
    weft_rewrite_deinit(&r);
  }
}

/* Sums that others wait for (statistics of a batch normalisation, and what their gradients need) go one after
 * the other; gradients of variables, for which nothing waits, do not go with each of them. */
static void gradients_of_all_depths_share_buckets(void) {
  weft_rewrite_t r = rewritten("batch_norm", "mirrored:2");
  int gradients = 0;
  for (int i = 0; i < r.num_crossings; i++) {
    const weft_crossing_t *c = &r.crossings[i];
    bool has_both = strstr(c->what.data, "MatMul") != NULL && strstr(c->what.data, "Conv2D") != NULL;
    gradients += has_both && weft_str_ends_with(c->from, "CPU:0");
  }
  CU_ASSERT_EQUAL(gradients, 1);
  weft_rewrite_deinit(&r);
}

static const weft_node_t *named(const weft_graph_t *g, const char *name) {
  const weft_node_t *n = weft_graph_find(g, weft_str(name));
  if (n == NULL) fprintf(stderr, "no node %s\n", name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  return n;
}

static void the_last_gradients_are_packed_first(void) {
  weft_rewrite_t r = rewritten("mlp_sgd", "mirrored:2,fusion=none");
  const weft_node_t *first = named(r.graph, "replica_0/weft/all_reduce_0"),
                    *last = named(r.graph, "replica_0/weft/all_reduce_5");
  weft_shape_t a = weft_static_shape_of(first->inputs[0]), b = weft_static_shape_of(last->inputs[0]);
  CU_ASSERT_EQUAL(a.dims[a.rank - 1], 10);       /* b2 or w2 */
  CU_ASSERT(b.dims[0] == 32 || b.dims[0] == 64); /* w0 or b0 */
  CU_ASSERT_FALSE(weft_test_depends(r.graph, last, first));
  weft_rewrite_deinit(&r);
  r = rewritten("mlp_sgd", "mirrored:2,fusion=none,order=static");
  first = named(r.graph, "replica_1/weft/all_reduce_0"), last = named(r.graph, "replica_1/weft/all_reduce_5");
  CU_ASSERT_TRUE(weft_test_depends(r.graph, last, first));
  weft_rewrite_deinit(&r);
}

/* Bucket rebuild: what was ready first is sent first, whatever was thought. */
static void buckets_follow_measured_times(void) {
  weft_rewrite_t r = rewritten("mlp_sgd", "mirrored:2,fusion=none");
  CU_ASSERT_EQUAL_FATAL(r.reductions.n, 6);
  char last[128];
  snprintf(last, sizeof last, "%.*s", WEFT_STR_ARGS(r.reductions.items[5]));
  (void)named(r.graph, last);
  weft_rewrite_deinit(&r);
  r = rewritten("mlp_sgd", "mirrored:2,fusion=none,ready=6+5+4+3+2+1.5");
  CU_ASSERT(weft_str_is(r.reductions.items[5], last)); /* the order of names stays */
  CU_ASSERT(
      weft_str_is(named(r.graph, "replica_0/weft/all_reduce_0")->inputs[0].node->inputs[0].node->name, last));
  weft_rewrite_deinit(&r);
}

static void instances_differ_and_groups_agree(void) {
  weft_rewrite_t r = rewritten("mlp_sgd", "mirrored:3,fusion=none");
  int64_t instances[6];
  for (int b = 0; b < 6; b++) {
    for (int i = 0; i < 3; i++) {
      char name[64];
      snprintf(name, sizeof name, "replica_%d/weft/all_reduce_%d", i, b);
      const weft_node_t *n = named(r.graph, name);
      const weft_node_t *of0 = named(r.graph, "replica_0/weft/all_reduce_0");
      int32_t key = *(const int32_t *)weft_node_attr(n->inputs[3].node, "value")->tensor->data;
      int32_t group = *(const int32_t *)weft_node_attr(n->inputs[2].node, "value")->tensor->data;
      CU_ASSERT_EQUAL(group, *(const int32_t *)weft_node_attr(of0->inputs[2].node, "value")->tensor->data);
      CU_ASSERT_EQUAL(*(const int32_t *)weft_node_attr(n->inputs[1].node, "value")->tensor->data, 3);
      if (i == 0) instances[b] = key;
      CU_ASSERT_EQUAL(key, instances[b]);
      for (int c = 0; c < b; c++) CU_ASSERT_NOT_EQUAL(key, instances[c]);
    }
  }
  weft_rewrite_deinit(&r);
}

static void names_go_on_meaning_the_same(void) {
  weft_rewrite_t r = rewritten("mlp_sgd", "mirrored:2");
  CU_ASSERT(weft_str_is(named(r.graph, "loss")->op->name, "Identity"));
  CU_ASSERT(weft_str_is(named(r.graph, "replica_0/loss")->op->name, "Mean"));
  CU_ASSERT(weft_str_is(named(r.graph, "replica_1/loss")->op->name, "Mean"));
  CU_ASSERT(weft_str_is(named(r.graph, "w0")->op->name, "VariableV2"));
  CU_ASSERT(weft_str_is(named(r.graph, "w0/replica_1")->op->name, "VariableV2"));
  CU_ASSERT(weft_str_is(named(r.graph, "x")->op->name, "Placeholder"));
  CU_ASSERT_PTR_NULL(weft_graph_find(r.graph, WEFT_STR("replica_1/x")));
  CU_ASSERT(r.num_loops == 1 && r.loops[0].feeds.n == 2 &&
            weft_str_is(r.loops[0].fetches.items[0], "loss:0"));
  CU_ASSERT(r.inits.n == 1 && weft_str_is(r.inits.items[0], "init"));
  for (int id = 0; id < r.graph->num_nodes; id++) {
    const weft_node_t *n = r.graph->nodes[id];
    if (n != NULL)
      CU_ASSERT(weft_str_starts_with(n->requested_device, "/job:localhost/replica:0/task:0/device:CPU:"));
  }
  weft_rewrite_deinit(&r);
}

/* Parameters go down to all but the first, gradients come up from all but the first. */
static void data_parallel_sends_all_through_the_first_device(void) {
  for (int n = 2; n <= 4; n++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, "data_parallel:%d", n);
    weft_rewrite_t r = rewritten("mlp_sgd", strategy);
    int64_t down = bytes_that_say(&r, "/read", "CPU:0"), up = 0;
    for (int i = 0; i < r.num_crossings; i++) {
      const weft_crossing_t *c = &r.crossings[i];
      if (weft_str_ends_with(c->to, "CPU:0") && strstr(c->what.data, "gradients/") != NULL) up += c->bytes;
      CU_ASSERT(weft_str_ends_with(c->to, "CPU:0") || weft_str_ends_with(c->from, "CPU:0"));
    }
    CU_ASSERT_EQUAL(down, (int64_t)(n - 1) * 4 * MLP_PARAMETERS);
    CU_ASSERT_EQUAL(up, (int64_t)(n - 1) * 4 * MLP_PARAMETERS);
    CU_ASSERT_EQUAL(count_nodes(r.graph, "VariableV2"), 6);
    CU_ASSERT_EQUAL(count_nodes(r.graph, "CollectiveReduceV2"), 0);
    weft_rewrite_deinit(&r);
  }
}

static void probes_tell_what_rewrites_cost(void) {
  weft_graph_t *g = read_graph("mlp_sgd");
  weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, fetch = WEFT_STR("loss"), target = WEFT_STR("train"),
             options;
  weft_strategy_request_t r = {
      .graph = g, .feeds = {feeds, 2}, .fetches = {&fetch, 1}, .targets = {&target, 1}};
  const weft_strategy_t *s = NULL;
  weft_cost_t cost;
  CU_ASSERT_PTR_NULL_FATAL(weft_strategy_find(WEFT_STR("mirrored:2"), &s, &options));
  r.options = options;
  CU_ASSERT_PTR_NULL_FATAL(s->probe(s, &r, &cost));
  CU_ASSERT(cost.bytes >= 2 * 4 * MLP_PARAMETERS && cost.bytes < 2 * 4 * MLP_PARAMETERS + 64);
  CU_ASSERT(cost.seconds > 0 && cost.messages >= 4);
  CU_ASSERT_EQUAL(cost.bytes_per_replica, 4 * MLP_PARAMETERS + 8);
  weft_graph_destroy(g);
}

static void what_cannot_be_rewritten_is_refused(void) {
  static const struct {
    const char *strategy, *fetch, *feed, *message;
    weft_code_t code;
  } cases[] = {
      {"mirrored:2", "nothing:0", "x", "nothing", WEFT_NOT_FOUND},
      {"mirrored:2", "loss:3", "x", "loss", WEFT_INVALID_ARGUMENT},
      {"mirrored:2", "loss:0", "z", "'z'", WEFT_NOT_FOUND},
      {"mirrored:0x", "loss:0", "x", "replicas", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,fusion=all", "loss:0", "x", "fusion", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,batch=w0", "loss:0", "x", "w0", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,batch=q", "loss:0", "x", "'q'", WEFT_NOT_FOUND},
      {"mirrored:devices=CPU:0+CPU:0", "loss:0", "x", "CPU:0", WEFT_INVALID_ARGUMENT},
      {"mirrored:3,devices=CPU:0+CPU:1", "loss:0", "x", "3 replicas on 2 devices", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,fusion=ddp,bytes_per_pack=4", "loss:0", "x", "bytes_per_pack", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,ready=1+2", "loss:0", "x", "2 times, but 6 values", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,ready=1+x", "loss:0", "x", "'x'", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,accumulate=2,reduce=one", "loss:0", "x", "accumulate", WEFT_INVALID_ARGUMENT},
      {"mirrored:2,accumulate=2", "train/update_w0/ApplyGradientDescent:0", "x", "most steps skip",
       WEFT_INVALID_ARGUMENT},
  };
  weft_graph_t *g = read_graph("mlp_sgd");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    use_t u = classifier;
    weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
    u.strategy = cases[i].strategy;
    u.fetches[0] = cases[i].fetch;
    u.feeds[0] = cases[i].feed;
    weft_status_t *s = rewrite_for(g, &u, &r);
    CU_ASSERT_EQUAL(weft_status_code(s), cases[i].code);
    if (strstr(weft_status_message(s), cases[i].message) == NULL)
      fprintf(stderr, "%s\n", weft_status_message(s));
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].message));
    CU_ASSERT_PTR_NULL(r.graph);
    weft_status_free(s);
    weft_rewrite_deinit(&r);
  }
  weft_graph_destroy(g);
}

/* Placeholders need not say that they have rows, where the caller knows what it feeds by rows. */
static void what_is_fed_by_rows_is_the_batch(void) {
  static const char *const shapes[] = {"", "attr{key:'shape' value{shape{unknown_rank:true}}}",
                                       "attr{key:'shape' value{shape{dim{size:12} dim{size:3}}}}",
                                       "attr{key:'shape' value{shape{dim{size:-1} dim{size:3}}}}"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char text[2000];
    snprintf(text, sizeof text,
             "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} %s} "
             "node{name:'rate' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
             "value{shape{dim{size:-1}}}}} "
             "node{name:'v' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
             "value{shape{dim{size:3}}}}} "
             "node{name:'zero' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' "
             "value{tensor{dtype:DT_INT32 "
             "tensor_shape{dim{size:1}} int_val:0}}}} "
             "node{name:'mean' op:'Mean' input:'x' input:'zero' attr{key:'T' value{type:DT_FLOAT}}} "
             "node{name:'by' op:'Mul' input:'mean' input:'rate' attr{key:'T' value{type:DT_FLOAT}}} "
             "node{name:'train' op:'AssignSub' input:'v' input:'by' attr{key:'T' value{type:DT_FLOAT}}} ",
             shapes[i]);
    weft_graph_t *g = weft_test_graph(text);
    weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("rate")}, target = WEFT_STR("train");
    weft_strategy_request_t r = {
        .graph = g, .feeds = {feeds, 2}, .batches = {feeds, 1}, .targets = {&target, 1}};
    weft_rewrite_t out;
    weft_test_expect(weft_strategy_apply(WEFT_STR("mirrored:2"), &r, &out), WEFT_OK, "");
    CU_ASSERT_EQUAL(count_nodes(out.graph, "Mean"), 2);
    CU_ASSERT_EQUAL(count_nodes(out.graph, "CollectiveReduceV2"), 2);
    CU_ASSERT_EQUAL_FATAL(out.shared.n, 1); /* x alone: all of the rates go to each replica */
    CU_ASSERT(weft_str_is(out.shared.items[0], "x"));
    weft_rewrite_deinit(&out);
    weft_graph_destroy(g);
  }
}

/* Its batch has no dimension of rows: only workers that take whole batches can train it. */
static void a_graph_that_cannot_be_split_is_told_where_it_trains(void) {
  weft_graph_t *g = weft_test_graph(
      "node{name:'v' op:'VariableV2' attr{key:'shape' value{shape{}}} attr{key:'dtype' "
      "value{type:DT_FLOAT}}} "
      "node{name:'x' op:'Placeholder' attr{key:'shape' value{shape{dim{size:4}}}} attr{key:'dtype' "
      "value{type:DT_FLOAT}}} "
      "node{name:'zero' op:'Const' attr{key:'dtype' value{type:DT_INT32}} attr{key:'value' "
      "value{tensor{dtype:DT_INT32 tensor_shape{} int_val:0}}}} "
      "node{name:'mean' op:'Mean' input:'x' input:'zero' attr{key:'T' value{type:DT_FLOAT}}} "
      "node{name:'train' op:'AssignSub' input:'v' input:'mean' attr{key:'T' value{type:DT_FLOAT}}} ");
  weft_task_devices_t task = {WEFT_STR("/job:localhost/replica:0/task:0"),
                              WEFT_STR("localhost"),
                              0,
                              2,
                              WEFT_STR(""),
                              WEFT_STR(""),
                              0};
  weft_cluster_view_t cluster = {.tasks = &task, .num_tasks = 1};
  weft_str_t feed = WEFT_STR("x"), target = WEFT_STR("train");
  weft_strategy_request_t r = {.graph = g, .cluster = &cluster, .feeds = {&feed, 1}, .targets = {&target, 1}};
  const char *const strategies[] = {"mirrored:2", "central_storage:2", "data_parallel:2"};
  for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
    weft_rewrite_t out;
    weft_status_t *s = weft_strategy_apply(weft_str(strategies[i]), &r, &out);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(weft_status_message(s), "train it on one device, or under parameter_server:mode=async"));
    weft_test_expect(s, WEFT_INVALID_ARGUMENT, "no input has a batch dimension");
  }
  weft_rewrite_t out; /* an option is no matter of the graph */
  weft_status_t *s = weft_strategy_apply(WEFT_STR("mirrored:2,speed=3"), &r, &out);
  CU_ASSERT_PTR_NULL(strstr(weft_status_message(s), "train it"));
  weft_test_expect(s, WEFT_INVALID_ARGUMENT, "no option 'speed'");
  weft_graph_destroy(g);
}

/* The device of a replica's variable, or a part of the error's message, under `strategy`. */
static void expect_device(const weft_strategy_request_t *r, const char *strategy, const char *variable,
                          const char *device) {
  weft_rewrite_t out;
  weft_status_t *s = weft_strategy_apply(weft_str(strategy), r, &out);
  if (s != NULL) {
    weft_test_expect(s, WEFT_INVALID_ARGUMENT, device);
    return;
  }
  CU_ASSERT_STRING_EQUAL(named(out.graph, variable)->requested_device.data, device);
  weft_rewrite_deinit(&out);
}

static void accelerators_come_before_cpus(void) {
  weft_task_devices_t tasks[2] = {
      {WEFT_STR("/job:worker/replica:0/task:0"), WEFT_STR("worker"), 0, 2, WEFT_STR(""), WEFT_STR("GPU"), 2},
      {WEFT_STR("/job:worker/replica:0/task:1"), WEFT_STR("worker"), 1, 2, WEFT_STR(""), WEFT_STR("GPU"), 2}};
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = 2};
  weft_graph_t *g = read_graph("mlp_sgd");
  weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, fetch = WEFT_STR("loss"), target = WEFT_STR("train");
  weft_strategy_request_t r = {
      .graph = g, .cluster = &cluster, .feeds = {feeds, 2}, .fetches = {&fetch, 1}, .targets = {&target, 1}};
#define WORKER(task, device) "/job:worker/replica:0/task:" task "/device:" device
  expect_device(&r, "mirrored", "w0/replica_1", WORKER("0", "GPU:1"));
  expect_device(&r, "mirrored:2,device_type=CPU", "w0/replica_1", WORKER("0", "CPU:1"));
  expect_device(&r, "mirrored:3", "", "the task has 2 GPU devices: device_type=CPU takes CPUs");
  expect_device(&r, "mirrored:2,device_type=TPU", "w0/replica_1", WORKER("0", "TPU:1")); /* not known here */
  expect_device(&r, "mirrored:devices=GPU:1+CPU:0", "w0", WORKER("0", "GPU:1"));
  expect_device(&r, "mirrored:devices=GPU:1+CPU:0,device_type=CPU", "", "'device_type' is for");
  expect_device(&r, "data_parallel", "w0", WORKER("0", "GPU:0"));
  expect_device(&r, "central_storage", "w0", WORKER("0", "CPU:0"));
  expect_device(&r, "multi_worker_mirrored", "w0/replica_3", WORKER("1", "GPU:1"));
  expect_device(&r, "multi_worker_mirrored:per_worker=1,device_type=CPU", "w0/replica_1",
                WORKER("1", "CPU:0"));
  tasks[1].num_accelerators = 0; /* not all have some */
  expect_device(&r, "multi_worker_mirrored", "w0/replica_3", WORKER("1", "CPU:1"));
  weft_graph_destroy(g);
}

static void clusters_give_their_devices(void) {
  weft_task_devices_t tasks[3] = {
      {WEFT_STR("/job:ps/replica:0/task:0"), WEFT_STR("ps"), 0, 1, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:0"), WEFT_STR("worker"), 0, 2, WEFT_STR("")},
      {WEFT_STR("/job:worker/replica:0/task:1"), WEFT_STR("worker"), 1, 2, WEFT_STR("")}};
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = 3};
  weft_graph_t *g = read_graph("mlp_sgd");
  weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, fetch = WEFT_STR("loss"), target = WEFT_STR("train");
  weft_strategy_request_t r = {
      .graph = g, .cluster = &cluster, .feeds = {feeds, 2}, .fetches = {&fetch, 1}, .targets = {&target, 1}};
  weft_rewrite_t out;
  CU_ASSERT_PTR_NULL_FATAL(weft_strategy_apply(WEFT_STR("multi_worker_mirrored"), &r, &out));
  CU_ASSERT_EQUAL(count_nodes(out.graph, "CollectiveReduceV2"), 4);
  CU_ASSERT(weft_str_is(named(out.graph, "w0/replica_3")->requested_device,
                        "/job:worker/replica:0/task:1/device:CPU:1"));
  CU_ASSERT_EQUAL(out.num_local_cpus, 0);
  weft_rewrite_deinit(&out);
  CU_ASSERT_PTR_NULL_FATAL(weft_strategy_apply(WEFT_STR("multi_worker_mirrored:per_worker=1"), &r, &out));
  CU_ASSERT_EQUAL(count_nodes(out.graph, "CollectiveReduceV2"), 2);
  weft_rewrite_deinit(&out);
  CU_ASSERT_PTR_NULL_FATAL(weft_strategy_apply(WEFT_STR("mirrored"), &r, &out));
  CU_ASSERT(weft_str_is(named(out.graph, "w0/replica_1")->requested_device,
                        "/job:worker/replica:0/task:0/device:CPU:1"));
  weft_rewrite_deinit(&out);
  static const char *const bad[] = {"multi_worker_mirrored:3", "multi_worker_mirrored:per_worker=3",
                                    "mirrored:3"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    weft_status_t *s = weft_strategy_apply(weft_str(bad[i]), &r, &out);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
  weft_graph_destroy(g);
}

/* Each node is given a device: what placed it beside others in the source ("_class") names nodes that may be
 * elsewhere now. */
static void nothing_stays_beside_what_may_have_moved(void) {
  static const char *const graphs[] = {"mlp_sgd", "mlp_adam", "embedding_sgd", "embedding_adam"};
  static const char *const strategies[] = {"mirrored:2",
                                           "data_parallel:2",
                                           "central_storage:2",
                                           "parameter_server:mode=sync,ps=2,workers=2",
                                           "parameter_server:mode=sync,ps=3,workers=2,shards=fixed:2",
                                           "parameter_server:mode=sync,ps=2,workers=3,backup=1",
                                           "parameter_server:mode=async,ps=2,workers=2,shards=fixed:3",
                                           "parameter_server:mode=ssp,ps=2,workers=2"};
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    weft_graph_t *g = read_graph(graphs[i]);
    weft_str_t beside = WEFT_STR("loc:@global_step");
    weft_attr_t colocated = {.kind = WEFT_ATTR_STRING, .is_list = true, .n = 1, .list = {.strings = &beside}};
    for (int id = 0; id < g->num_nodes; id++)
      if (g->nodes[id] != NULL)
        CU_ASSERT_PTR_NULL_FATAL(weft_graph_set_attr(g, g->nodes[id], "_class", &colocated));
    for (size_t k = 0; k < sizeof strategies / sizeof *strategies; k++) {
      weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
      use_t u = use_of(graphs[i], strategies[k]);
      weft_status_t *s = rewrite_for(g, &u, &r);
      if (s != NULL) fprintf(stderr, "%s under %s: %s\n", graphs[i], strategies[k], weft_status_message(s));
      CU_ASSERT_PTR_NULL_FATAL(s);
      int num_beside = 0;
      for (int id = 0; id < r.graph->num_nodes; id++) {
        const weft_node_t *n = r.graph->nodes[id];
        const weft_attr_t *a = n == NULL ? NULL : weft_node_attr(n, "_class");
        if (a == NULL || a->n == 0) continue;
        if (num_beside++ == 0)
          fprintf(stderr, "%s under %s: '%s' is colocated\n", graphs[i], strategies[k], n->name.data);
      }
      CU_ASSERT_EQUAL(num_beside, 0);
      weft_rewrite_deinit(&r);
    }
    weft_graph_destroy(g);
  }
}

#define TYPE(attr, type) " attr{key:'" attr "' value{type:" type "}}"
#define TABLE \
  "node{name:'ids' op:'Placeholder'" TYPE("dtype", "DT_INT32") " attr{key:'shape' value{shape{dim{size:-1}" \
  "}}}} node{name:'x' op:'Placeholder'" TYPE("dtype", "DT_FLOAT") " attr{key:'shape' value{shape{dim{size:" \
  "-1} dim{size:2}}}}} node{name:'half' op:'Const'" TYPE("dtype", "DT_FLOAT") " attr{key:'value' value{"    \
  "tensor{dtype:DT_FLOAT tensor_shape{} float_val:0.5}}}} node{name:'v' op:'VarHandleOp'" TYPE(             \
      "dtype", "DT_FLOAT") " attr{key:'shape' value{shape{dim{size:2} dim{size:2}}}}} "                     \
  "node{name:'rows' op:'ResourceGather' input:'v' input:'ids'" TYPE("dtype", "DT_FLOAT") TYPE(              \
      "Tindices", "DT_INT32") "} node{name:'init' op:'AssignVariableOp' input:'v' input:'zero'" TYPE(       \
      "dtype", "DT_FLOAT") "} node{name:'zero' op:'Const'" TYPE("dtype", "DT_FLOAT") " attr{key:'value' "   \
  "value{tensor{dtype:DT_FLOAT tensor_shape{dim{size:2} dim{size:2}} float_val:0}}}} "                      \
  "node{name:'train' op:'ResourceApplyGradientDescent' input:'v' input:'half' input:'g'" TYPE(              \
      "T", "DT_FLOAT") "} node{name:'g' op:'MatMul' input:'x' input:'b'" TYPE("T", "DT_FLOAT")              \
  " attr{key:'transpose_a' value{b:true}}} "

/* Rows that a step fetches are read before the step's update where the update's steps feed the ids. */
static void rows_are_read_before_an_update_that_needs_the_same_feeds(void) {
  static const struct {
    const char *graph;
    bool is_ordered;
  } cases[] = {
      {TABLE "node{name:'b' op:'Identity' input:'x'" TYPE("T", "DT_FLOAT") "}", false},
      {TABLE "node{name:'b' op:'Mul' input:'x' input:'w'" TYPE(
           "T", "DT_FLOAT") "} node{name:'w' op:'Reshape' "
                            "input:'f' input:'column'" TYPE("T", "DT_FLOAT") TYPE(
                                "Tshape",
                                "DT_INT32") "} node{name:'f' "
                                            "op:'Cast' input:'ids'" TYPE("SrcT", "DT_INT32") TYPE(
                                                "DstT",
                                                "DT_FLOAT") "} node{name:'column' "
                                                            "op:'Const'" TYPE(
                                                                "dtype",
                                                                "DT_INT32") " attr{key:'value' "
                                                                            "value{tensor{dtype:DT_INT32 "
                                                                            "tensor_shape{dim{size:2}} "
                                                                            "int_val:-1 int_val:1}}}}",
       true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const use_t u = {.strategy = "central_storage:2",
                     .feeds = {"ids", "x"},
                     .fetches = {"rows:0"},
                     .targets = {"train"},
                     .inits = {"init"}};
    weft_graph_t *g = weft_test_graph(cases[i].graph);
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
    weft_test_expect(rewrite_for(g, &u, &r), WEFT_OK, "");
    const weft_node_t *update = weft_test_node(r.graph, "train");
    for (int id = 0; id < r.graph->num_nodes; id++) {
      const weft_node_t *n = r.graph->nodes[id];
      if (n != NULL && weft_str_is(n->op->name, "ResourceGather"))
        CU_ASSERT_EQUAL(weft_test_depends(r.graph, update, n), cases[i].is_ordered);
    }
    CU_ASSERT_EQUAL(count_nodes(r.graph, "ResourceGather"), 2);
    weft_rewrite_deinit(&r);
    weft_graph_destroy(g);
  }
}

/* One in so many: there are thousands of them. */
static void running_out_of_memory_is_reported(void) {
  weft_graph_t *g = read_graph("linear");
  use_t u = classifier;
  u.fetches[1] = NULL;
  for (long n = 0;; n += 1 + n / 40) {
    weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
    u.strategy = "mirrored:2,accumulate=2";
    weft_fault_arm(n);
    weft_status_t *s = rewrite_for(g, &u, &r);
    bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    CU_ASSERT_EQUAL(weft_status_code(s), fired ? WEFT_RESOURCE_EXHAUSTED : WEFT_OK);
    if (weft_status_code(s) != (fired ? WEFT_RESOURCE_EXHAUSTED : WEFT_OK))
      fprintf(stderr, "%ld: %s\n", n, weft_status_message(s));
    weft_status_free(s);
    weft_rewrite_deinit(&r);
    if (!fired) break;
  }
  weft_graph_destroy(g);
}

static const CU_TestInfo tests[] = {
    {"sums move what a ring moves", sums_move_what_a_ring_moves},
    {"packs follow their rule", packs_follow_their_rule},
    {"gradients of a transformer travel together", gradients_of_a_transformer_travel_together},
    {"gradients of all depths share buckets", gradients_of_all_depths_share_buckets},
    {"the last gradients are packed first", the_last_gradients_are_packed_first},
    {"buckets follow measured times", buckets_follow_measured_times},
    {"instances differ and groups agree", instances_differ_and_groups_agree},
    {"names go on meaning the same", names_go_on_meaning_the_same},
    {"data parallel sends all through the first device", data_parallel_sends_all_through_the_first_device},
    {"probes tell what rewrites cost", probes_tell_what_rewrites_cost},
    {"what cannot be rewritten is refused", what_cannot_be_rewritten_is_refused},
    {"what is fed by rows is the batch", what_is_fed_by_rows_is_the_batch},
    {"a graph that cannot be split is told where it trains",
     a_graph_that_cannot_be_split_is_told_where_it_trains},
    {"accelerators come before CPUs", accelerators_come_before_cpus},
    {"clusters give their devices", clusters_give_their_devices},
    {"nothing stays beside what may have moved", nothing_stays_beside_what_may_have_moved},
    {"rows are read before an update that needs the same feeds",
     rows_are_read_before_an_update_that_needs_the_same_feeds},
    {"running out of memory is reported", running_out_of_memory_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/replicate", tests); }
