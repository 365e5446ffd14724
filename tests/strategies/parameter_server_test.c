/* Parameter servers: what goes where, and that training is right in every mode. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "strategies/emit.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"
#include "tests/strategies/parameter_server_testing.h"

static void must(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static const weft_ps_model_t mlp = {
    .dtype = WEFT_F32, .optimizer = WEFT_PS_SGD, .inputs = 32, .hidden = 64, .classes = 10, .rate = 0.1};

/* Local training: the graph as it is, on one task. */
static void train_locally(const weft_graph_t *g, const weft_ps_model_t *m, int steps, int rows,
                          double *losses, weft_ps_cluster_t *c) {
  weft_ps_start(c, g, NULL, 0, 1);
  for (int i = 0; i < steps; i++) {
    weft_ps_batch_t b = weft_ps_batch(m, (int64_t)i * rows, rows);
    must(weft_ps_step(c, 0, &b, &losses[i]));
    weft_ps_batch_drop(&b);
  }
}

static void same_variables(weft_ps_cluster_t *a, weft_ps_cluster_t *b, double tolerance) {
  static const char *const names[] = {"w0/read:0", "b0/read:0", "w1/read:0", "w2/read:0", "b2/read:0"};
  for (int i = 0; i < 5; i++) {
    weft_tensor_t *x = weft_ps_value(a, names[i]), *y = weft_ps_value(b, names[i]);
    double d = weft_ps_distance(x, y);
    if (!(d <= tolerance)) printf("\n    %s differs by %g\n", names[i], d);
    CU_ASSERT_TRUE(d <= tolerance);
    weft_tensor_release(x);
    weft_tensor_release(y);
  }
}

/* T-PS1-2 */
static void one_worker_equals_local_training_bitwise(void) {
  static const char *const modes[] = {"", "mode=sync,split=0", "mode=sync", "mode=ssp,staleness=0",
                                      "placement=bytes,caching"};
  for (int i = 0; i < 5; i++) {
    for (int v = 0; v < 6; v++) {
      enum { STEPS = 8 };
      double local[STEPS], served[STEPS];
      weft_ps_model_t m = mlp;
      m.resources = v % 2 != 0;
      m.optimizer = (weft_ps_optimizer_t)(v / 2);
      weft_graph_t *g = weft_ps_model_graph(&m);
      weft_ps_cluster_t one, two;
      train_locally(g, &m, STEPS, 16, local, &one);
      weft_ps_start(&two, g, modes[i], 2, 1);
      for (int k = 0; k < STEPS; k++) {
        weft_ps_batch_t b = weft_ps_batch(&m, (int64_t)k * 16, 16);
        weft_status_t *s = weft_ps_step(&two, 0, &b, &served[k]);
        must(s);
        if (two.r.num_loops > 1) must(weft_ps_step(&two, 1, NULL, NULL));
        weft_ps_batch_drop(&b);
        if (local[k] != served[k])
          printf("\n    %s, case %d, step %d: %.9g for %.9g", modes[i], v, k, served[k], local[k]);
        CU_ASSERT_EQUAL(local[k], served[k]);
      }
      same_variables(&one, &two, 0);
      weft_ps_stop(&one);
      weft_ps_stop(&two);
      weft_graph_destroy(g);
    }
  }
}

/* ---- placement ---- */

static weft_graph_t *ten_variables(const int64_t *sizes) {
  weft_graph_t *g = NULL;
  must(weft_graph_create(&g));
  weft_emitter_t b = {.g = g};
  weft_node_t *inits[10], *updates[10];
  const weft_named_attr_t f32 = weft_type_attr("dtype", WEFT_F32);
  weft_output_t x = weft_emit(&b, "Placeholder", NULL, 0, &f32, 1, "x");
  for (int i = 0; i < 10; i++) {
    char name[16];
    const weft_shape_t shape = weft_shape_vector(sizes[i]);
    const weft_named_attr_t attrs[2] = {f32, weft_shape_attr("shape", &shape)};
    snprintf(name, sizeof name, "v%d", i);
    weft_output_t v = weft_emit(&b, "VariableV2", NULL, 0, attrs, 2, "%s", name);
    const int64_t dims[1] = {sizes[i]};
    weft_output_t zeros = weft_emit2(&b, "Fill", weft_emit_ints(&b, WEFT_I32, dims, 1, "dims"),
                                     weft_emit_number(&b, WEFT_F32, 0, "zero"), "zeros");
    inits[i] = weft_emit2(&b, "Assign", v, zeros, "assign").node;
    weft_output_t grad = weft_emit2(&b, "Mul", weft_emit1(&b, "Identity", v, "read"), x, "grad");
    updates[i] =
        weft_emit3(&b, "ApplyGradientDescent", v, weft_emit_number(&b, WEFT_F32, 1, "rate"), grad, "update")
            .node;
  }
  weft_emit_noop(&b, inits, 10, "init");
  weft_emit_noop(&b, updates, 10, "train");
  must(weft_emitter_end(&b));
  return g;
}

static weft_str_t device_of(const weft_ps_cluster_t *c, const char *node) {
  const weft_node_t *n = weft_graph_find(c->r.graph, weft_str(node));
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  return n->requested_device;
}

/* T-PS1-1 */
static void variables_go_round_the_servers_or_to_the_least_loaded(void) {
  static const int64_t sizes[2][10] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {700, 10, 20, 900, 30, 400, 400, 50, 60, 300}};
  const char *const feeds[] = {"x:0", NULL};
  for (int how = 0; how < 2; how++) {
    weft_graph_t *g = ten_variables(sizes[how]);
    weft_ps_cluster_t c;
    int64_t loads[3] = {0}, total = 0, largest = 0;
    weft_ps_view(&c, 3, 2);
    must(weft_ps_rewrite(&c, g, how == 0 ? "" : "placement=bytes", feeds, NULL));
    for (int i = 0; i < 10; i++) {
      char name[16], wanted[64];
      snprintf(name, sizeof name, "v%d", i);
      weft_str_t device = device_of(&c, name);
      snprintf(wanted, sizeof wanted, "/job:ps/replica:0/task:%d/device:CPU:0", i % 3);
      if (how == 0) CU_ASSERT_TRUE(weft_str_is(device, wanted));
      CU_ASSERT_TRUE(weft_str_starts_with(device, "/job:ps/replica:0/task:"));
      int server = device.data[sizeof "/job:ps/replica:0/task:" - 1] - '0';
      CU_ASSERT_TRUE_FATAL(server >= 0 && server < 3);
      loads[server] += sizes[how][i];
      total += sizes[how][i];
      if (sizes[how][i] > largest) largest = sizes[how][i];
    }
    for (int i = 0; i < 3 && how == 1; i++)
      CU_ASSERT_TRUE(3 * loads[i] <= total + 2 * largest); /* avg + (1 - 1/N) largest */
    weft_ps_stop(&c);
    weft_graph_destroy(g);
  }
}

static void slots_stay_with_their_variable(void) {
  weft_ps_model_t m = mlp;
  m.optimizer = WEFT_PS_ADAM;
  weft_graph_t *g = weft_ps_model_graph(&m);
  const char *const feeds[] = {"x", "y", NULL}, *const fetches[] = {"loss", NULL};
  static const char *const options[] = {"", "placement=bytes", "shards=fixed:2", "shards=max_size:64:3"};
  for (int i = 0; i < 4; i++) {
    weft_ps_cluster_t c;
    weft_ps_view(&c, 3, 2);
    must(weft_ps_rewrite(&c, g, options[i], feeds, fetches));
    for (int id = 0; id < c.r.graph->num_nodes; id++) {
      const weft_node_t *n = c.r.graph->nodes[id];
      if (n == NULL || (n->flags & WEFT_OP_UPDATE) == 0) continue;
      for (int k = 0; k < n->num_inputs; k++) {
        if ((n->inputs[k].node->flags & WEFT_OP_VARIABLE) == 0) continue;
        CU_ASSERT_TRUE(weft_str_eq(n->requested_device, n->inputs[k].node->requested_device));
      }
    }
    CU_ASSERT_EQUAL(i >= 2, weft_graph_find(c.r.graph, WEFT_STR("w0/m/part_1")) != NULL);
    CU_ASSERT_EQUAL(i < 2, weft_graph_find(c.r.graph, WEFT_STR("w0/m")) != NULL &&
                               (weft_graph_find(c.r.graph, WEFT_STR("w0/m"))->flags & WEFT_OP_VARIABLE) != 0);
    weft_ps_stop(&c);
  }
  weft_graph_destroy(g);
}

static int worker_of(const weft_node_t *n) { /* -1: on a server */
  const char *at = n->requested_device.length == 0
                       ? NULL
                       : strstr(n->requested_device.data, "/job:worker/replica:0/task:");
  return at == NULL ? -1 : at[strlen("/job:worker/replica:0/task:")] - '0';
}

/* T-PS2-4, T-PS1-4 */
static void workers_send_nothing_to_each_other(void) {
  static const char *const options[] = {"",
                                        "mode=sync",
                                        "mode=sync,backup=1",
                                        "mode=ssp,staleness=2",
                                        "shards=fixed:3",
                                        "mode=sync,shards=min_size:128:2,caching",
                                        "placement=bytes,caching"};
  for (int i = 0; i < 7; i++) {
    for (int v = 0; v < 4; v++) {
      weft_ps_model_t m = mlp;
      m.resources = v % 2 != 0;
      m.rows = v / 2 * 100;
      m.width = 8;
      m.optimizer = WEFT_PS_MOMENTUM;
      weft_graph_t *g = weft_ps_model_graph(&m);
      const char *const feeds[] = {m.rows > 0 ? "ids" : "x", "y", NULL}, *const fetches[] = {"loss", NULL};
      weft_ps_cluster_t c;
      weft_ps_view(&c, 2, 3);
      must(weft_ps_rewrite(&c, g, options[i], feeds, fetches));
      for (int id = 0; id < c.r.graph->num_nodes; id++) {
        const weft_node_t *n = c.r.graph->nodes[id];
        for (int k = 0; n != NULL && k < n->num_inputs + n->num_controls; k++) {
          const weft_node_t *p = k < n->num_inputs ? n->inputs[k].node : n->controls[k - n->num_inputs];
          int from = worker_of(p), to = worker_of(n);
          if (from >= 0 && to >= 0 && from != to)
            printf("\n    %s: %s -> %s", options[i], p->name.data, n->name.data);
          CU_ASSERT_TRUE(from < 0 || to < 0 || from == to);
        }
      }
      weft_ps_stop(&c);
      weft_graph_destroy(g);
    }
  }
}

/* T-PS1-4: with dense gradients each worker gets and sends as many bytes as the variables have. */
static void each_worker_gets_and_sends_the_variables(void) {
  weft_graph_t *g = weft_ps_model_graph(&mlp);
  const char *const feeds[] = {"x", "y", NULL}, *const fetches[] = {"loss", NULL};
  static const char *const options[] = {"", "shards=fixed:2", "mode=sync", "mode=sync,shards=fixed:2"};
  const int64_t psi = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10);
  for (int i = 0; i < 4; i++) {
    weft_ps_cluster_t c;
    weft_ps_view(&c, 2, 2);
    must(weft_ps_rewrite(&c, g, options[i], feeds, fetches));
    for (int w = 0; w < 2; w++) {
      int64_t got = 0, sent = 0;
      for (int k = 0; k < c.r.num_crossings; k++) {
        const weft_crossing_t *x = &c.r.crossings[k];
        char task[64];
        snprintf(task, sizeof task, "/job:worker/replica:0/task:%d/", w);
        if (x->bytes >= 0 && weft_str_starts_with(x->to, task))
          got += x->bytes; /* what batches have depends on the step */
        if (x->bytes >= 0 && weft_str_starts_with(x->from, task)) sent += x->bytes;
      }
      int64_t more = i >= 2 ? 64 : 0; /* in step: counts of rows, a loss */
      bool is_right = got >= psi && got <= psi + more && (i >= 2 || sent >= psi) && sent <= psi + more;
      if (!is_right)
        printf("\n    %s: %lld %lld %lld", options[i], (long long)got, (long long)sent, (long long)psi);
      CU_ASSERT_TRUE(is_right);
    }
    weft_ps_stop(&c);
  }
  weft_graph_destroy(g);
}

/* ---- training with several workers ---- */

typedef struct running { /* A worker loop that a thread runs. */
  weft_ps_cluster_t *c;
  const weft_ps_model_t *m;
  int loop, steps, rows, loops;
  int64_t begin, stride; /* rows of step i: begin + i * stride */
  weft_status_t *failure;
  double losses[600];
  pthread_t thread;
} running_t;

static void *run_loop(void *arg) {
  running_t *r = arg;
  for (int i = 0; i < r->steps && r->failure == NULL; i++) {
    weft_ps_batch_t b = {NULL, NULL};
    bool updates = r->c->r.loops[r->loop].kind == WEFT_WORKER_LOOP_UPDATE;
    if (!updates) b = weft_ps_batch(r->m, r->begin + i * r->stride, r->rows);
    r->failure = weft_ps_step(r->c, r->loop, updates ? NULL : &b, &r->losses[i]);
    weft_ps_batch_drop(&b);
  }
  return NULL;
}

/* All worker loops side by side: worker w takes `rows` of each `stride` rows, or rows[w] of them. */
static void train_together(weft_ps_cluster_t *c, const weft_ps_model_t *m, int steps, const int *rows,
                           running_t *r) {
  int total = 0, begin = 0, workers = c->num_workers;
  for (int w = 0; w < workers; w++) total += rows[w];
  for (int i = 0; i < c->r.num_loops; i++) {
    r[i] = (running_t){.c = c, .m = m, .loop = i, .steps = steps, .begin = begin, .stride = total};
    if (i < workers) r[i].rows = rows[i];
    if (i < workers) begin += rows[i];
    CU_ASSERT_EQUAL_FATAL(pthread_create(&r[i].thread, NULL, run_loop, &r[i]), 0);
  }
  for (int i = 0; i < c->r.num_loops; i++) {
    pthread_join(r[i].thread, NULL);
    must(r[i].failure);
  }
}

static int64_t global_step(weft_ps_cluster_t *c) {
  weft_tensor_t *t = weft_ps_value(c, "global_step/read:0");
  int64_t v = *(int64_t *)t->data;
  weft_tensor_release(t);
  return v;
}

/* Batches of `rows` rows that all workers share. */
static void train_in_step(weft_ps_cluster_t *c, const weft_ps_model_t *m, int steps, int rows,
                          double *losses) {
  CU_ASSERT_EQUAL_FATAL(c->r.num_loops, 1);
  for (int i = 0; i < steps; i++) {
    weft_ps_batch_t b = weft_ps_batch(m, (int64_t)i * rows, rows);
    must(weft_ps_step(c, 0, &b, &losses[i]));
    weft_ps_batch_drop(&b);
  }
}

/* Workers with batches of their own, as large as each other: the mean of their losses. */
static void train_on_own_batches(weft_ps_cluster_t *c, const weft_ps_model_t *m, int steps, int rows,
                                 double *losses) {
  static running_t r[8];
  int each[8];
  for (int w = 0; w < c->num_workers; w++) each[w] = rows / c->num_workers;
  train_together(c, m, steps, each, r);
  for (int k = 0; k < steps; k++) {
    losses[k] = 0;
    for (int w = 0; w < c->num_workers; w++) losses[k] += r[w].losses[k] / c->num_workers;
  }
}

static double worst_difference(const double *got, const double *wanted, int n) {
  double worst = 0;
  for (int k = 0; k < n; k++) {
    double d = fabs(got[k] - wanted[k]) / fabs(wanted[k]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/* T-PS1-3. With 23 rows three workers have 7, 8 and 8 of them. */
static void three_workers_in_step_equal_one_with_a_batch_of_three(void) {
  static const char *const options[] = {"mode=sync", "mode=sync,split=0", "mode=sync,shards=fixed:2",
                                        "mode=sync,placement=bytes,caching", "mode=sync,batch=x+y"};
  for (int i = 0; i < 5; i++) {
    for (int v = 0; v < 12; v++) {
      enum { STEPS = 30 };
      static double local[STEPS], served[STEPS];
      weft_ps_model_t m = mlp;
      m.dtype = v < 6 ? WEFT_F32 : WEFT_F64;
      m.resources = v % 2 != 0;
      m.optimizer = (weft_ps_optimizer_t)(v / 2 % 3);
      if (m.optimizer == WEFT_PS_ADAM) m.rate = 0.003;
      int rows = i != 1 && v >= 6 ? 23 : 24;
      double tolerance = m.dtype == WEFT_F64 ? 1e-10 : 2e-5;
      weft_graph_t *g = weft_ps_model_graph(&m);
      weft_ps_cluster_t one, many;
      train_locally(g, &m, STEPS, rows, local, &one);
      weft_ps_start(&many, g, options[i], 2, 3);
      (i == 1 ? train_on_own_batches : train_in_step)(&many, &m, STEPS, rows, served);
      double worst = worst_difference(served, local, STEPS);
      if (!(worst <= 1e-6)) printf("\n    %s case %d: losses differ by %g", options[i], v, worst);
      CU_ASSERT_TRUE(worst <= 1e-6);
      same_variables(&one, &many, tolerance);
      if (i == 1)
        CU_ASSERT_EQUAL(global_step(&many), STEPS); /* the others keep no names that the step does not need */
      weft_ps_stop(&one);
      weft_ps_stop(&many);
      weft_graph_destroy(g);
    }
  }
}

static void two_to_four_workers_follow_one_device_for_200_steps(void) {
  for (int workers = 2; workers <= 4; workers++) {
    for (int v = 0; v < 6; v++) {
      enum { STEPS = 200, ROWS = 23 };
      static double local[STEPS], served[STEPS];
      weft_ps_model_t m = mlp;
      m.dtype = v < 3 ? WEFT_F32 : WEFT_F64;
      m.resources = v % 2 != 0;
      m.optimizer = (weft_ps_optimizer_t)(v % 3);
      if (m.optimizer == WEFT_PS_MOMENTUM) m.rate = 0.02;
      if (m.optimizer == WEFT_PS_ADAM) m.rate = 0.001;
      weft_graph_t *g = weft_ps_model_graph(&m);
      weft_ps_cluster_t one, many;
      train_locally(g, &m, STEPS, ROWS, local, &one);
      weft_ps_start(&many, g, "mode=sync", 2, workers);
      train_in_step(&many, &m, STEPS, ROWS, served);
      double worst = worst_difference(served, local, STEPS);
      if (!(worst <= (v < 3 ? 1e-5 : 1e-10)))
        printf("\n    %d workers, case %d: losses differ by %g", workers, v, worst);
      CU_ASSERT_TRUE(worst <= (v < 3 ? 1e-5 : 1e-10));
      CU_ASSERT_TRUE(local[STEPS - 1] < local[0]);
      weft_ps_stop(&one);
      weft_ps_stop(&many);
      weft_graph_destroy(g);
    }
  }
}

/* What is no sum over workers is done with the gradient of all; a summed loss has a summed gradient. */
static void clipping_and_summed_losses_see_the_whole_batch(void) {
  static const char *const options[] = {"mode=sync", "mode=sync,shards=fixed:2"};
  for (int v = 0; v < 8; v++) {
    enum { STEPS = 15, ROWS = 23 };
    double local[STEPS], served[STEPS];
    weft_ps_model_t m = mlp;
    m.dtype = WEFT_F64;
    m.resources = v % 2 != 0;
    m.clip = v / 2 % 2 == 0 ? 0.05 : 0;
    m.sums = v / 2 % 2 != 0;
    m.rate = m.sums ? 0.01 : 0.5;
    weft_graph_t *g = weft_ps_model_graph(&m);
    weft_ps_cluster_t one, many;
    train_locally(g, &m, STEPS, ROWS, local, &one);
    weft_ps_start(&many, g, options[v / 4], 2, 3);
    train_in_step(&many, &m, STEPS, ROWS, served);
    CU_ASSERT_TRUE(worst_difference(served, local, STEPS) <= 1e-9);
    same_variables(&one, &many, 1e-10);
    weft_ps_stop(&one);
    weft_ps_stop(&many);
    weft_graph_destroy(g);
  }
}

static void every_step_of_every_worker_is_counted(void) {
  static const char *const options[] = {"", "mode=ssp,staleness=2", "shards=min_size:256:2,caching"};
  static const int rows[3] = {8, 8, 8};
  static running_t r[4];
  for (int i = 0; i < 6; i++) {
    weft_ps_model_t m = mlp;
    m.resources = i % 2 != 0;
    weft_graph_t *g = weft_ps_model_graph(&m);
    weft_ps_cluster_t c;
    weft_ps_start(&c, g, options[i / 2], 2, 3);
    CU_ASSERT_EQUAL(c.r.num_loops, 3);
    train_together(&c, &m, 100, rows, r);
    CU_ASSERT_EQUAL(global_step(&c), 300);
    weft_ps_stop(&c);
    weft_graph_destroy(g);
  }
}

/* T-PS1-3: as far with 3 workers in twice the steps of one. */
static void async_reaches_the_loss_of_one_worker(void) {
  static const weft_ps_model_t m = {.dtype = WEFT_F32, .inputs = 8, .classes = 1, .rate = 0.02};
  static const int rows[3] = {16, 16, 16};
  static running_t r[3];
  enum { STEPS = 120 };
  double local[STEPS], last = 0;
  weft_graph_t *g = weft_ps_model_graph(&m);
  weft_ps_cluster_t one, many;
  train_locally(g, &m, STEPS, 16, local, &one);
  weft_ps_start(&many, g, "", 1, 3);
  train_together(&many, &m, 2 * STEPS / 3, rows, r);
  for (int k = 0; k < 10; k++) last += r[0].losses[2 * STEPS / 3 - 1 - k] / 10;
  double target = 0;
  for (int k = 0; k < 10; k++) target += local[STEPS - 1 - k] / 10;
  CU_ASSERT_TRUE(last < 1.2 * target);
  weft_ps_stop(&one);
  weft_ps_stop(&many);
  weft_graph_destroy(g);
}

/* T-PSC-2: w(t+1) = w(t) - rate * grad f(w(t - delay)), driven by hand: a gradient is fetched now and fed
 * later. */
static void a_constant_delay_follows_its_recurrence(void) {
  static const weft_ps_model_t m = {
      .dtype = WEFT_F64, .inputs = 4, .classes = 1, .rate = 0.05, .resources = true};
  enum { STEPS = 60, DELAY = 3, ROWS = 8 };
  weft_graph_t *g = weft_ps_model_graph(&m);
  weft_ps_cluster_t c;
  weft_ps_start(&c, g, "", 1, 2);
  char grads[2][128];
  for (int i = 0; i < 2; i++) {
    const weft_node_t *update =
        weft_graph_find(c.r.graph, i == 0 ? WEFT_STR("update_w0") : WEFT_STR("update_b0"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(update);
    snprintf(grads[i], sizeof grads[i], "%s:%d", update->inputs[2].node->name.data, update->inputs[2].index);
  }
  double w[STEPS + 1][5] = {{0}};
  weft_tensor_t *w0 = weft_ps_value(&c, "w0/read:0"), *b0 = weft_ps_value(&c, "b0/read:0");
  for (int k = 0; k < 4; k++) w[0][k] = ((double *)w0->data)[k];
  w[0][4] = *(double *)b0->data;
  weft_tensor_release(w0);
  weft_tensor_release(b0);
  weft_tensor_t *waiting[STEPS][2];
  for (int t = 0; t < STEPS; t++) {
    weft_ps_batch_t b = weft_ps_batch(&m, t * ROWS, ROWS);
    weft_test_step_t k;
    weft_test_start(
        &c.sessions[0],
        &(weft_test_run_t){.feeds = {"x:0", "y:0"}, .tensors = {b.x, b.y}, .fetches = {grads[0], grads[1]}},
        &k);
    must(weft_test_step_wait(&k));
    for (int i = 0; i < 2; i++) waiting[t][i] = weft_tensor_retain(k.fetches[i]);
    weft_test_step_deinit(&k);
    double step[5] = {0};
    if (t >= DELAY) {
      weft_ps_batch_t old = weft_ps_batch(&m, (t - DELAY) * ROWS, ROWS);
      const double *x = old.x->data, *y = old.y->data, *v = w[t - DELAY];
      for (int row = 0; row < ROWS; row++) {
        double d = v[4] - y[row];
        for (int i = 0; i < 4; i++) d += x[row * 4 + i] * v[i];
        for (int i = 0; i < 4; i++) step[i] += 2 * d * x[row * 4 + i] / ROWS;
        step[4] += 2 * d / ROWS;
      }
      weft_ps_batch_drop(&old);
      weft_test_run_t run = {.feeds = {grads[0], grads[1]},
                             .tensors = {waiting[t - DELAY][0], waiting[t - DELAY][1]},
                             .targets = {"train"}};
      must(weft_test_run(&c.sessions[t % 2], &run, NULL));
    }
    for (int i = 0; i < 5; i++) w[t + 1][i] = w[t][i] - 0.05 * step[i];
    weft_ps_batch_drop(&b);
    w0 = weft_ps_value(&c, "w0/read:0");
    for (int i = 0; i < 4; i++) CU_ASSERT_TRUE(fabs(((double *)w0->data)[i] - w[t + 1][i]) < 1e-12);
    weft_tensor_release(w0);
  }
  for (int t = 0; t < STEPS; t++) {
    weft_tensor_release(waiting[t][0]);
    weft_tensor_release(waiting[t][1]);
  }
  CU_ASSERT_EQUAL(global_step(&c), STEPS - DELAY);
  weft_ps_stop(&c);
  weft_graph_destroy(g);
}

/* ---- backup workers ---- */

static int64_t counter(weft_ps_cluster_t *c, const char *handle) {
  weft_node_t *n = weft_graph_find(c->r.graph, weft_str(handle));
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  char read[128] = "";
  for (int id = 0; id < c->r.graph->num_nodes; id++) {
    const weft_node_t *r = c->r.graph->nodes[id];
    if (r != NULL && weft_str_is(r->op->name, "ReadVariableOp") && r->inputs[0].node == n &&
        r->num_controls == 0) {
      snprintf(read, sizeof read, "%s:0", r->name.data);
    }
  }
  CU_ASSERT_NOT_EQUAL_FATAL(read[0], '\0');
  weft_tensor_t *t = weft_ps_value(c, read);
  int64_t v = *(int64_t *)t->data;
  weft_tensor_release(t);
  return v;
}

/* T-PSC-1: the batch of worker w is the constant w + 1, so a variable tells which workers took part in an
 * update. */
static weft_graph_t *participants(void) {
  weft_graph_t *g = NULL;
  must(weft_graph_create(&g));
  weft_emitter_t b = {.g = g};
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", WEFT_F64), weft_shape_attr("shape", &scalar)};
  weft_output_t x = weft_emit(&b, "Placeholder", NULL, 0, attrs, 2, "x");
  weft_output_t y = weft_emit(&b, "Placeholder", NULL, 0, attrs, 2, "y");
  weft_node_t *inits[2], *updates[2];
  for (int i = 0; i < 2; i++) {
    weft_output_t v = weft_emit(&b, "VarHandleOp", NULL, 0, attrs, 2, "%s", i == 0 ? "v0" : "v1");
    const weft_output_t zero[2] = {v, weft_emit_number(&b, WEFT_F64, 0, "zero")},
                        add[2] = {v, i == 0 ? x : y};
    inits[i] = weft_emit(&b, "AssignVariableOp", zero, 2, attrs, 1, "assign").node;
    updates[i] = weft_emit(&b, "AssignAddVariableOp", add, 2, attrs, 1, "add").node;
    weft_emit(&b, "ReadVariableOp", &v, 1, attrs, 1, "%s", i == 0 ? "r0" : "r1");
  }
  weft_output_t loss = weft_emit2(&b, "Mul", x, y, "loss");
  (void)loss;
  weft_emit_noop(&b, inits, 2, "init");
  weft_emit_noop(&b, updates, 2, "train");
  must(weft_emitter_end(&b));
  return g;
}

static weft_ps_batch_t constant_batch(double x) {
  weft_ps_batch_t b;
  must(weft_tensor_scalar(WEFT_F64, &x, &b.x));
  must(weft_tensor_scalar(WEFT_F64, &x, &b.y));
  return b;
}

static double value_of(weft_ps_cluster_t *c, const char *fetch) {
  weft_tensor_t *t = weft_ps_value(c, fetch);
  double v = *(double *)t->data;
  weft_tensor_release(t);
  return v;
}

typedef struct late { /* A step that a thread of its own makes. */
  weft_ps_cluster_t *c;
  int loop;
  double value;
  int64_t ended;
  weft_status_t *failure;
  pthread_t thread;
} late_t;

static void *run_once(void *arg) {
  late_t *l = arg;
  weft_ps_batch_t b = constant_batch(l->value);
  l->failure = weft_ps_step(l->c, l->loop, l->loop == l->c->num_workers ? NULL : &b, NULL);
  weft_ps_batch_drop(&b);
  return NULL;
}

static void *run_for_ever(void *arg) { /* until its session is closed */
  late_t *l = arg;
  while (l->failure == NULL) {
    weft_ps_batch_t b = constant_batch(l->value);
    l->failure = weft_ps_step(l->c, l->loop, &b, NULL);
    weft_ps_batch_drop(&b);
    l->ended += l->failure == NULL;
  }
  return NULL;
}

static void together(weft_ps_cluster_t *c, const int *loops, int n) {
  late_t l[8];
  for (int i = 0; i < n; i++) {
    l[i] = (late_t){.c = c, .loop = loops[i], .value = pow(10, loops[i])};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&l[i].thread, NULL, run_once, &l[i]), 0);
  }
  for (int i = 0; i < n; i++) {
    pthread_join(l[i].thread, NULL);
    must(l[i].failure);
  }
}

/* How many of the four workers made a sum, 3 * mean; each value at most once; -1: something else. */
static int how_many(double sum) {
  int n = 0, rest = (int)lrint(sum);
  for (int w = 0; w < 4; w++, rest /= 10) {
    if (rest % 10 > 1) return -1;
    n += rest % 10;
  }
  return rest == 0 ? n : -1;
}

static void with_a_backup_three_of_four_make_an_update(void) {
  weft_graph_t *g = participants();
  weft_ps_cluster_t c;
  static const int fast[] = {0, 1, 2, 4};
  weft_ps_start(&c, g, "mode=sync,backup=1", 1, 4);
  double before = 0;
  for (int step = 0; step < 10; step++) { /* the fourth sleeps */
    together(&c, fast, 4);
    double now = value_of(&c, "r0:0");
    CU_ASSERT_EQUAL(lrint(3 * (now - before)), 111);
    CU_ASSERT_EQUAL(now, value_of(&c, "r1:0"));
    before = now;
  }
  CU_ASSERT_EQUAL(counter(&c, "parameter_server/step"), 10);
  late_t l[4];
  for (int i = 0; i < 4; i++) { /* all four, as fast as they can */
    l[i] = (late_t){.c = &c, .loop = i, .value = pow(10, i)};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&l[i].thread, NULL, run_for_ever, &l[i]), 0);
  }
  weft_ps_cluster_t look = c; /* at values, by the session of updates */
  look.sessions[0] = c.sessions[4];
  int updates = 0;
  for (bool dropped = false; updates < 20 || (!dropped && updates < 2000);
       updates++) { /* until one came too late */
    must(weft_ps_step(&c, 4, NULL, NULL));
    dropped = counter(&look, "parameter_server/dropped") > 0;
    double now = value_of(&look, "r0:0");
    CU_ASSERT_EQUAL(how_many(3 * (now - before)), 3); /* three of them, the same for both variables */
    CU_ASSERT_EQUAL(now, value_of(&look, "r1:0"));
    before = now;
  }
  int64_t ended = 0;
  for (int i = 0; i < 4; i++) must(weft_test_close(&c.sessions[i]));
  for (int i = 0; i < 4; i++) {
    pthread_join(l[i].thread, NULL);
    ended += l[i].ended;
    CU_ASSERT_PTR_NOT_NULL(l[i].failure); /* cancelled, or its session was no longer there */
    weft_status_free(l[i].failure);
  }
  CU_ASSERT_EQUAL(counter(&look, "parameter_server/step"), 10 + updates);
  weft_tensor_t *dropped = weft_ps_value(&look, "parameter_server/dropped_now:0");
  int64_t taken =
      3 * updates +
      *(int64_t *)
           dropped->data; /* every gradient was taken or counted as dropped; four may be on their way */
  CU_ASSERT_TRUE(*(int64_t *)dropped->data > 0);
  CU_ASSERT_TRUE(ended <= taken && taken <= ended + 4);
  weft_tensor_release(dropped);
  must(weft_test_close(&c.sessions[4]));
  c.r.num_loops = 0; /* all are closed */
  weft_ps_stop(&c);
  weft_graph_destroy(g);
}

/* ---- refusals ---- */

static void what_cannot_be_done_is_refused_by_name(void) {
  static const struct {
    const char *options, *text;
  } cases[] = {{"ps=4", "ps=4, but the cluster has 2 tasks of job ps"},
               {"workers=9", "workers=9"},
               {"mode=bsp", "mode"},
               {"staleness=2", "staleness"},
               {"mode=sync,backup=3", "backup=3"},
               {"mode=sync,backup=1,split=1", "rows would be lost"},
               {"mode=sync,backup=1,batch=x", "'batch'"},
               {"mode=sync,batch=w0", "'w0'"},
               {"batch=x", "mode=sync"},
               {"shards=half", "'half'"},
               {"shards=fixed:0", "fixed:0"},
               {"nonsense=1", "nonsense"}};
  weft_graph_t *g = weft_ps_model_graph(&mlp);
  const char *const feeds[] = {"x", "y", NULL}, *const fetches[] = {"loss", NULL},
                    *const absent[] = {"lost", NULL}, *const updated[] = {"train:0", NULL};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_ps_cluster_t c;
    weft_ps_view(&c, 2, 3);
    weft_test_expect(weft_ps_rewrite(&c, g, cases[i].options, feeds, fetches), WEFT_INVALID_ARGUMENT,
                     cases[i].text);
  }
  weft_ps_cluster_t c;
  weft_ps_view(&c, 2, 3);
  weft_test_expect(weft_ps_rewrite(&c, g, "", feeds, absent), WEFT_INVALID_ARGUMENT, "'lost'");
  weft_test_expect(weft_ps_rewrite(&c, g, "mode=sync,backup=1", feeds, updated), WEFT_INVALID_ARGUMENT,
                   "'train:0'");
  weft_graph_destroy(g);
}

static weft_status_t *show(weft_status_t *s) {
  if (s != NULL && weft_status_code(s) != WEFT_RESOURCE_EXHAUSTED) printf("\n    %s", weft_status_message(s));
  return s;
}

static void no_allocation_failure_is_lost(void) {
  static const char *const options[] = {"caching", "mode=sync,backup=1", "mode=ssp", "shards=fixed:2"};
  static const weft_ps_model_t m = {
      .dtype = WEFT_F32, .inputs = 2, .classes = 1, .rows = 6, .width = 2, .rate = 1};
  weft_graph_t *g = weft_ps_model_graph(&m);
  const char *const feeds[] = {"ids", "y", NULL}, *const fetches[] = {"loss", NULL};
  for (int i = 0; i < 4; i++) {
    weft_ps_cluster_t c;
    long n;
    weft_ps_view(&c, 2, 2);
    WEFT_FAIL_EACH_ALLOCATION(n, s, show(weft_ps_rewrite(&c, g, options[i], feeds, fetches)));
    CU_ASSERT_TRUE(n > 100);
    weft_ps_stop(&c);
  }
  weft_graph_destroy(g);
}

/* An update that depends on the mean gradient through a chain of 150,000 nodes: the walks over it need no
 * stack. */
static void what_an_update_depends_on_may_be_deep(void) {
  enum { DEPTH = 150000 };
#define T_F32 " attr{key:'T' value{type:DT_FLOAT}}"
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text,
                   "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
                   "value{shape{dim{size:-1} dim{size:2}}}}} "
                   "node{name:'axis' op:'Const' attr{key:'dtype' value{type:DT_INT32}} "
                   "attr{key:'value' value{tensor{dtype:DT_INT32 tensor_shape{} int_val:0}}}} "
                   "node{name:'rate' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} "
                   "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{} float_val:0.1}}}} "
                   "node{name:'w' op:'VariableV2' attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' "
                   "value{shape{dim{size:2}}}}} "
                   "node{name:'zero' op:'Const' attr{key:'dtype' value{type:DT_FLOAT}} "
                   "attr{key:'value' value{tensor{dtype:DT_FLOAT tensor_shape{dim{size:2}} float_val:0}}}} "
                   "node{name:'init' op:'Assign' input:'w' input:'zero'" T_F32
                   "} "
                   "node{name:'read' op:'Identity' input:'w'" T_F32
                   "} node{name:'xw' op:'Mul' input:'x' input:'read'" T_F32
                   "} "
                   "node{name:'n0' op:'Mean' input:'xw' input:'axis'" T_F32
                   " attr{key:'Tidx' value{type:DT_INT32}}} ");
  for (int i = 1; i < DEPTH; i++)
    weft_strbuf_printf(&text, "node{name:'n%d' op:'Tanh' input:'n%d'" T_F32 "} ", i, i - 1);
  weft_strbuf_printf(&text,
                     "node{name:'train' op:'ApplyGradientDescent' input:'w' input:'rate' input:'n%d'" T_F32
                     "} "
                     "node{name:'loss' op:'Identity' input:'n0'" T_F32 "} ",
                     DEPTH - 1);
  weft_graph_t *g = weft_test_graph(text.data);
  weft_strbuf_deinit(&text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  weft_ps_cluster_t c;
  weft_ps_view(&c, 1, 2);
  static const char *const feeds[] = {"x", NULL}, *const fetches[] = {NULL};
  weft_status_t *s = weft_ps_rewrite(&c, g, "mode=sync,backup=1", feeds, fetches);
  CU_ASSERT_PTR_NULL(s);
  if (s != NULL) fprintf(stderr, "\n    %s\n", weft_status_message(s));
  weft_status_free(s);
  weft_rewrite_deinit(&c.r);
  weft_graph_destroy(g);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"one_worker_equals_local_training_bitwise", one_worker_equals_local_training_bitwise},
      {"variables_go_round_the_servers_or_to_the_least_loaded",
       variables_go_round_the_servers_or_to_the_least_loaded},
      {"slots_stay_with_their_variable", slots_stay_with_their_variable},
      {"workers_send_nothing_to_each_other", workers_send_nothing_to_each_other},
      {"each_worker_gets_and_sends_the_variables", each_worker_gets_and_sends_the_variables},
      {"three_workers_in_step_equal_one_with_a_batch_of_three",
       three_workers_in_step_equal_one_with_a_batch_of_three},
      {"two_to_four_workers_follow_one_device_for_200_steps",
       two_to_four_workers_follow_one_device_for_200_steps},
      {"clipping_and_summed_losses_see_the_whole_batch", clipping_and_summed_losses_see_the_whole_batch},
      {"every_step_of_every_worker_is_counted", every_step_of_every_worker_is_counted},
      {"async_reaches_the_loss_of_one_worker", async_reaches_the_loss_of_one_worker},
      {"a_constant_delay_follows_its_recurrence", a_constant_delay_follows_its_recurrence},
      {"with_a_backup_three_of_four_make_an_update", with_a_backup_three_of_four_make_an_update},
      {"what_cannot_be_done_is_refused_by_name", what_cannot_be_done_is_refused_by_name},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      {"what an update depends on may be deep", what_an_update_depends_on_may_be_deep},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("parameter_server", tests);
}
