/* tests/strategies/overlap_test.c - gradients travel while others are still computed, in one order
 * everywhere: T-DDP-4, T-DDP-5.
 *
 * Two workers with a graph each, between them links of a known rate. The products
 * of the backward pass take a time that the test sets: they end by a timer, so that they need no
 * processor and the test means the same on a busy machine. Times are the executor's step statistics.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/timer.h"
#include "executor/executor.h"
#include "graph/passes.h"
#include "tests/collectives/world.h"
#include "tests/graph/graph_testing.h"
#include "tests/strategies/training.h"

enum { RANKS = 2, MLP_BYTES = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10), ROWS = 4 };

/* ---- kernels that take their time ---- */

static weft_timer_t *timer;
static int64_t product_ns;   /* of each product of the backward pass */
static uint64_t jitter_seed; /* not 0: what gradients are weighted with takes up to 5 ms, differing by rank
                                and step, products nothing */

typedef struct slow_state {
  const weft_kernel_t *inner;
  weft_kernel_setup_t setup; /* the inner kernel's view of it */
  void *state;
  bool is_product, is_weighting;
} slow_state_t;

typedef struct ending {
  weft_kernel_ctx_t *c;
  weft_status_t *s;
} ending_t;

static weft_status_t *slow_prepare(const weft_kernel_setup_t *setup, void **out) {
  const weft_kernel_node_t *n = &setup->node;
  slow_state_t *k = weft_calloc(1, sizeof *k);
  if (k == NULL) return WEFT_NO_MEMORY("a test");
  k->inner = weft_kernel_find("CPU", n->op_name, setup->attrs, setup->num_attrs);
  k->is_product = weft_str_is(n->op_name, "MatMul") && strstr(n->name.data, "gradients/") != NULL;
  k->is_weighting = weft_str_is(n->op_name, "MulNoNan") && strstr(n->name.data, "/weft/") != NULL;
  k->setup = *setup;
  k->setup.node.param = k->inner->param;
  k->setup.reads = k->inner->reads;
  weft_status_t *s = k->inner->prepare == NULL ? NULL : k->inner->prepare(&k->setup, &k->state);
  if (s == NULL) *out = k;
  if (s != NULL) weft_free(k);
  return s;
}

static void slow_destroy(void *state) {
  slow_state_t *k = state;
  if (k->inner->destroy != NULL) k->inner->destroy(k->state);
  weft_free(k);
}

static void end_later(void *arg) {
  ending_t e = *(ending_t *)arg;
  weft_free(arg);
  e.c->done(e.c, e.s);
}

/* The same for a node and a rank in one step. */
static int64_t delay_of(const weft_kernel_ctx_t *c) {
  if (jitter_seed == 0) return product_ns;
  uint64_t h = jitter_seed * 1099511628211u + (uint64_t)c->step->id;
  weft_str_t texts[2] = {c->device->name, c->node->name};
  for (int i = 0; i < 2; i++) {
    for (size_t k = 0; k < texts[i].length; k++) h = (h ^ (unsigned char)texts[i].data[k]) * 1099511628211u;
  }
  return (int64_t)((h >> 20) % 5000) * 1000;
}

static void slow_run(weft_kernel_ctx_t *c) {
  slow_state_t *k = c->state;
  const weft_kernel_node_t *outer = c->node;
  c->state = k->state;
  c->node = &k->setup.node;
  weft_status_t *s = k->inner->compute(c);
  c->state = k;
  c->node = outer;
  ending_t *e = (jitter_seed == 0 ? k->is_product : k->is_weighting) ? weft_calloc(1, sizeof *e) : NULL;
  uint64_t id;
  if (e != NULL) {
    *e = (ending_t){c, s};
    weft_status_t *failure = weft_timer_add(timer, weft_clock_ns() + delay_of(c), end_later, e, &id);
    if (failure == NULL) return;
    weft_status_free(failure);
    weft_free(e);
  }
  c->done(c, s);
}

/* A batch without a feed. */
static weft_status_t *give_batch(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  bool is_x = weft_str_is(c->node->name, "x");
  weft_shape_t shape = weft_shape_vector(ROWS);
  if (is_x) {
    shape.rank = 2;
    shape.dims[1] = 32;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, is_x ? WEFT_F32 : WEFT_I32, &shape, &t));
  for (int64_t i = 0; i < t->count; i++) {
    if (is_x) ((float *)t->data)[i] = (float)(i % 7) / 7;
    if (!is_x) ((int32_t *)t->data)[i] = (int32_t)(i % 10);
  }
  return NULL;
}

static const weft_kernel_t kernels[] = {
    {.op = "Placeholder", .compute = give_batch},
    {.op = "MatMul", .prepare = slow_prepare, .compute_async = slow_run, .destroy = slow_destroy},
    {.op = "MulNoNan", .prepare = slow_prepare, .compute_async = slow_run, .destroy = slow_destroy},
    {0},
};
static const weft_kernel_t *const families[] = {kernels, NULL};
static const weft_kernel_table_t table = {.device_type = "CPU", .families = families};

/* ---- workers ---- */

typedef struct rank {
  weft_resource_manager_t *resources;
  weft_device_t *device;
  weft_exec_plan_t *init, *train;
  weft_step_recorder_t recorder;
  weft_status_t *status; /* guarded by the world's mu, as is_done */
  bool is_done;
  struct fixture *f;
} rank_t;

typedef struct fixture {
  world_t w;
  weft_thread_pool_t *pool;
  rank_t ranks[RANKS];
} fixture_t;

static void must(weft_status_t *s) {
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static weft_exec_plan_t *plan_of(const weft_graph_t *g, const char *target, weft_device_t *device) {
  const weft_plan_options_t o = {.device = device, .kernels = &table};
  weft_graph_t *copy = NULL;
  weft_exec_plan_t *plan = NULL;
  must(weft_graph_copy(g, &copy));
  weft_node_t *root = weft_graph_find(copy, weft_str(target));
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  must(weft_pass_prune(copy, &root, 1));
  must(weft_plan_create(copy, &o, &plan));
  weft_graph_destroy(copy);
  return plan;
}

static void begin(fixture_t *f, const char *options, weft_link_model_t link) {
  memset(f, 0, sizeof *f);
  must(weft_timer_create(&timer));
  must(weft_thread_pool_create("workers", 2, &f->pool));
  world_init(&f->w, RANKS, 2, false, NULL);
  must(weft_local_hub_set_link(f->w.hub, WEFT_STR(""), WEFT_STR(""), link));
  weft_task_devices_t tasks[RANKS];
  for (int i = 0; i < RANKS; i++)
    tasks[i] = (weft_task_devices_t){weft_str(f->w.tasks[i]), WEFT_STR("worker"), i, 1, WEFT_STR("")};
  weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = RANKS};
  weft_str_t feeds[2] = {WEFT_STR("x"), WEFT_STR("y")}, fetch = WEFT_STR("loss"), target = WEFT_STR("train"),
             init = WEFT_STR("init");
  weft_graph_t *g = read_graph("mlp_sgd");
  for (int i = 0; i < RANKS; i++) {
    rank_t *r = &f->ranks[i];
    char strategy[256];
    weft_strategy_request_t request = {.graph = g,
                                       .cluster = &cluster,
                                       .feeds = {feeds, 2},
                                       .fetches = {&fetch, 1},
                                       .targets = {&target, 1},
                                       .inits = {&init, 1}};
    weft_rewrite_t out = {.arena = WEFT_ARENA_INIT};
    snprintf(strategy, sizeof strategy, "multi_worker_mirrored:task=%d,%s", i, options);
    must(weft_strategy_apply(weft_str(strategy), &request, &out));
    r->f = f;
    must(weft_resource_manager_create(&r->resources));
    must(weft_cpu_device_create(weft_str(f->w.devices[i]), (uint64_t)i + 100, f->pool, r->resources,
                                &r->device));
    r->init = plan_of(out.graph, "init", r->device);
    r->train = plan_of(out.graph, "train", r->device);
    weft_rewrite_deinit(&out);
  }
  weft_graph_destroy(g);
}

static void end(fixture_t *f) {
  for (int i = 0; i < RANKS; i++) {
    rank_t *r = &f->ranks[i];
    weft_plan_release(r->init);
    weft_plan_release(r->train);
    weft_device_destroy(r->device);
    weft_resource_manager_destroy(r->resources);
  }
  world_deinit(&f->w);
  weft_thread_pool_destroy(f->pool);
  weft_timer_destroy(timer);
}

static void on_done(void *arg, weft_status_t *status) {
  rank_t *r = arg;
  weft_mutex_lock(&r->f->w.mu);
  r->status = status;
  r->is_done = true;
  weft_cond_broadcast(&r->f->w.changed);
  weft_mutex_unlock(&r->f->w.mu);
}

/* A step of all ranks at once. Leaves statistics to be dropped with drop(). */
static void step(fixture_t *f, bool trains) {
  const int64_t id = f->w.next_step++, deadline = weft_clock_ns() + 60 * INT64_C(1000000000);
  weft_canceller_t *cancellers[RANKS];
  weft_step_container_t *containers[RANKS];
  for (int i = 0; i < RANKS; i++) {
    rank_t *r = &f->ranks[i];
    cancellers[i] = weft_canceller_create(NULL);
    must(weft_step_container_create(&containers[i]));
    weft_step_recorder_init(&r->recorder);
    r->is_done = false;
    weft_run_options_t o = {.step = {.id = id,
                                     .canceller = cancellers[i],
                                     .container = containers[i],
                                     .collectives = f->w.collectives[i]},
                            .recorder = &r->recorder};
    weft_plan_run(trains ? r->train : r->init, &o, on_done, r);
  }
  bool in_time = true, all_done = false;
  weft_mutex_lock(&f->w.mu);
  while (!all_done && in_time) {
    all_done = true;
    for (int i = 0; i < RANKS; i++) all_done &= f->ranks[i].is_done;
    if (!all_done) in_time = weft_cond_wait_until(&f->w.changed, &f->w.mu, deadline);
  }
  weft_mutex_unlock(&f->w.mu);
  CU_ASSERT_TRUE_FATAL(all_done);
  for (int i = 0; i < RANKS; i++) {
    must(f->ranks[i].status);
    weft_collectives_end_step(f->w.collectives[i], id, NULL);
    weft_step_container_destroy(containers[i]);
    weft_canceller_release(cancellers[i]);
  }
}

static void drop(fixture_t *f) {
  for (int i = 0; i < RANKS; i++) weft_step_recorder_deinit(&f->ranks[i].recorder);
}

/* ---- what statistics say ---- */

enum { MOST_BUCKETS = 8 };

typedef struct times {
  int64_t begin_ns, computed_ns, reduced_ns; /* of the products, end of the last all-reduce */
  int order[MOST_BUCKETS];                   /* of launches */
  int64_t launched_ns[MOST_BUCKETS];
  int num_buckets;
} times_t;

static times_t times_of(const rank_t *r) {
  times_t t = {.begin_ns = INT64_MAX};
  for (size_t i = 0; i < r->recorder.count; i++) {
    const weft_node_stats_t *s = &r->recorder.stats[i];
    const char *bucket = strstr(s->node->name.data, "all_reduce_");
    if (weft_str_is(s->node->op_name, "MatMul") && strstr(s->node->name.data, "gradients/") != NULL) {
      if (s->start_ns < t.begin_ns) t.begin_ns = s->start_ns;
      if (s->end_ns > t.computed_ns) t.computed_ns = s->end_ns;
    }
    if (!weft_str_is(s->node->op_name, "CollectiveReduceV2") || bucket == NULL ||
        strstr(bucket, "value") != NULL)
      continue;
    CU_ASSERT_FATAL(t.num_buckets < MOST_BUCKETS);
    int k = t.num_buckets++;
    while (k > 0 && t.launched_ns[k - 1] > s->start_ns) {
      t.launched_ns[k] = t.launched_ns[k - 1];
      t.order[k] = t.order[k - 1];
      k--;
    }
    t.launched_ns[k] = s->start_ns;
    t.order[k] = atoi(bucket + strlen("all_reduce_"));
    if (s->end_ns > t.reduced_ns) t.reduced_ns = s->end_ns;
  }
  return t;
}

/* ---- tests ---- */

/* Three products one after the other, and as long for all gradients on the wire. */
static const int64_t layer_ns = 100 * 1000000;

static times_t train_once(const char *options, int buckets) {
  fixture_t f;
  product_ns = layer_ns;
  jitter_seed = 0;
  const weft_link_model_t link = {.bytes_per_s = MLP_BYTES / (3 * (double)layer_ns / 1e9)};
  begin(&f, options, link);
  step(&f, false);
  drop(&f);
  step(&f, true);
  times_t t = times_of(&f.ranks[0]), other = times_of(&f.ranks[1]);
  CU_ASSERT_EQUAL_FATAL(t.num_buckets, buckets);
  CU_ASSERT_EQUAL(other.num_buckets, buckets);
  drop(&f);
  end(&f);
  return t;
}

static double phase_ms(const times_t *t) { return (double)(t->reduced_ns - t->begin_ns) / 1e6; }

/* In one bucket nothing overlaps: 600 ms. In three, that of the second layer, three fifths of the bytes,
 * begins to travel after 200 ms, and that of the first behind it: 470 ms. A busy machine delays either, and
 * so is asked again. */
static void buckets_travel_while_gradients_are_computed(void) {
  enum { TRIES = 5 };
  const double longest = 3 * (double)layer_ns / 1e6;
  bool is_shorter = false;
  for (int i = 0; i < TRIES && !is_shorter; i++) {
    times_t many = train_once("algorithm=ring,fusion=ddp,first_bucket_bytes=2K,bucket_bytes=16K", 3);
    times_t one = train_once("algorithm=ring,fusion=ddp,first_bucket_bytes=1M,bucket_bytes=1M", 1);
    printf("\n    backward %.0f ms, communication %.0f ms; in buckets %.0f ms, in one %.0f ms",
           (double)(many.computed_ns - many.begin_ns) / 1e6, longest, phase_ms(&many), phase_ms(&one));
    is_shorter = phase_ms(&many) <= 0.9 * phase_ms(&one);
    CU_ASSERT_TRUE(phase_ms(&one) >= 1.6 * longest);
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(many.launched_ns[k] < many.computed_ns);
    CU_ASSERT_TRUE(one.launched_ns[0] >= one.computed_ns);
  }
  CU_ASSERT_TRUE(is_shorter);
}

/* How many of `steps` steps had launches in different orders on the two ranks. */
static int differing_orders(const char *options, int steps) {
  fixture_t f;
  int differing = 0;
  jitter_seed = 17;
  begin(&f, options, (weft_link_model_t){.alpha_us = 50});
  step(&f, false);
  drop(&f);
  for (int i = 0; i < steps; i++) {
    step(&f, true);
    times_t a = times_of(&f.ranks[0]), b = times_of(&f.ranks[1]);
    CU_ASSERT_EQUAL_FATAL(a.num_buckets, 6);
    CU_ASSERT_EQUAL_FATAL(b.num_buckets, 6);
    differing += memcmp(a.order, b.order, sizeof a.order) != 0;
    drop(&f);
  }
  end(&f);
  return differing;
}

static void a_static_order_is_that_of_all_ranks(void) {
  CU_ASSERT_EQUAL(differing_orders("fusion=none,order=static", 12), 0);
  CU_ASSERT_TRUE(differing_orders("fusion=none,order=ready", 12) >
                 0); /* gradients are not ready in one order */
}

static const CU_TestInfo tests[] = {
    {"buckets travel while gradients are computed", buckets_travel_while_gradients_are_computed},
    {"a static order is that of all ranks", a_static_order_is_that_of_all_ranks},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/overlap", tests); }
