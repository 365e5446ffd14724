/* tests/strategies/wire_test.c - what strategies send between tasks, counted by the servers: T-DDP-3,
 * T-MIR-3, T-PS1-4, T-PS2-4. Between hosts, that is: within one, small collectives are read in memory that
 * all members map, each rank all of them (docs/decisions/0034).
 */
#include <stdio.h>
#include <stdlib.h>

#include "strategies/traffic.h"
#include "tests/graph/graph_testing.h"
#include "tests/strategies/servers.h"
#include "weft/statistics.h"

enum { PSI = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10), STEPS = 5, MOST_COUNTS = 64 };

/* Payload that task `to` has fetched from task `from` (NULL: all); `traffic` NULL: all but control. */
static int64_t fetched(worker_t *workers, shape_t shape, int to, const char *from, const char *traffic) {
  static WEFT_TransportCount counts[MOST_COUNTS];
  int n = WEFT_ServerTransportCounters(workers[to].server, counts, MOST_COUNTS);
  int64_t bytes = 0;
  CU_ASSERT_FATAL(n <= MOST_COUNTS && to < shape.workers + shape.servers);
  for (int i = 0; i < n; i++) {
    if (strcmp(counts[i].traffic, "control") == 0) continue;
    if (traffic != NULL && strcmp(counts[i].traffic, traffic) != 0) continue;
    if (from == NULL || strcmp(counts[i].source, from) == 0) bytes += counts[i].bytes;
  }
  return bytes;
}

static void reset_all(worker_t *workers, shape_t shape) {
  for (int i = 0; i < shape.workers + shape.servers; i++)
    WEFT_ResetServerTransportCounters(workers[i].server);
}

/* One client that drives all; `rows` of numbers below `ids` (0: 32 floats) per step. */
static void train(worker_t *w, int rows, int ids, uint64_t *state) {
  w->step = (step_t){.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
  w->step.values[0] = ids > 0 ? random_ints(state, rows, ids) : random_floats(state, TF_FLOAT, rows, 32);
  w->step.values[1] = random_ints(state, rows, 4);
  run_all(w, 1);
  expect_all(w, 1);
  step_end(&w->step);
}

static void expect_about(int64_t bytes, double wanted, const char *what) {
  bool is_right = (double)bytes >= 0.99 * wanted && (double)bytes <= 1.01 * wanted;
  if (!is_right) printf("\n    %s: %lld bytes instead of %.0f", what, (long long)bytes, wanted);
  CU_ASSERT_TRUE(is_right);
}

/* T-DDP-3: 2(N-1)/N of the parameters come to each worker. What depends on the batch alone was fed at the
 * first worker. */
static void gradients_go_round_once(void) {
  static const char *const strategies[] = {"multi_worker_mirrored:algorithm=ring", "multi_worker_mirrored",
                                           "multi_worker_mirrored:fusion=none"};
  for (int n = 2; n <= 3; n++) {
    for (int k = 0; k < 3; k++) {
      const shape_t shape = {n, 1, 0};
      worker_t workers[MOST_TASKS];
      uint64_t state = 1;
      serve_all(workers, shape);
      open_client(&workers[0], shape, "mlp_sgd", strategies[k]);
      initialise(workers, 1);
      reset_all(workers, shape);
      for (int i = 0; i < STEPS; i++) train(&workers[0], 3, 0, &state);
      for (int i = 1; i < n; i++)
        expect_about(fetched(workers, shape, i, NULL, NULL) / STEPS, 2.0 * (n - 1) / n * PSI, strategies[k]);
      close_client(&workers[0]);
      dismiss_all(workers, shape);
    }
  }
}

/* T-MIR-3: three times as many more rows are three times as many more bytes, and far fewer than the table
 * has. */
static void sparse_gradients_are_as_large_as_their_rows(void) {
  static const int rows[3] = {32, 64, 128};
  const shape_t shape = {2, 1, 0};
  worker_t workers[MOST_TASKS];
  int64_t bytes[3];
  uint64_t state = 1;
  serve_all(workers, shape);
  open_client(&workers[0], shape, "embedding_sgd", "multi_worker_mirrored");
  initialise(workers, 1);
  for (int k = 0; k < 3; k++) {
    reset_all(workers, shape);
    for (int i = 0; i < STEPS; i++) train(&workers[0], rows[k], 1000, &state);
    bytes[k] = fetched(workers, shape, 1, NULL, NULL) / STEPS;
  }
  expect_about(bytes[2] - bytes[0], 3.0 * (double)(bytes[1] - bytes[0]), "sparse gradients");
  CU_ASSERT_TRUE(bytes[1] - bytes[0] >= 16 * 16 * 4); /* 16 rows more from the other worker, of 16 floats */
  CU_ASSERT_TRUE(bytes[1] < 1000 * 16 * 4 / 4);
  close_client(&workers[0]);
  dismiss_all(workers, shape);
}

/* A step of each worker's loop, one after the other; worker loops that wait for each other run at once. */
static void train_loops(worker_t *client, uint64_t *state) {
  const weft_rewrite_t *r = &client->job.rewrite;
  for (int i = 0; i < r->num_loops; i++) {
    const weft_worker_loop_t *l = &r->loops[i];
    client->step = (step_t){.feeds = {l->feeds.items[0].data, l->feeds.items[1].data},
                            .targets = {l->targets.items[0].data}};
    client->step.values[0] = random_floats(state, TF_FLOAT, 4, 32);
    client->step.values[1] = random_ints(state, 4, 4);
    run_all(client, 1);
    expect_all(client, 1);
    step_end(&client->step);
  }
}

/* T-PS1-4, T-PS2-4: each worker gets the parameters and sends as much, nothing goes from worker to worker.
 * The client is at a server, so that what is fed goes from there. */
static void parameters_go_to_each_worker_and_gradients_come_back(void) {
  static const char *const strategies[] = {"parameter_server", "parameter_server:shards=fixed:2",
                                           "parameter_server:placement=bytes,caching"};
  for (int k = 0; k < 3; k++) {
    const shape_t shape = {2, 1, 2};
    worker_t workers[MOST_TASKS];
    uint64_t state = 1;
    serve_all(workers, shape);
    open_client(&workers[2], shape, "mlp_sgd", strategies[k]);
    initialise(workers + 2, 1);
    CU_ASSERT_EQUAL_FATAL(workers[2].job.rewrite.num_loops, 2);
    train_loops(&workers[2], &state);
    reset_all(workers, shape);
    for (int i = 0; i < STEPS; i++) train_loops(&workers[2], &state);
    int64_t batch = STEPS * 4 * (32 * 4 + 4);
    for (int i = 0; i < 2; i++) {
      expect_about((fetched(workers, shape, i, NULL, NULL) - batch) / STEPS, PSI, strategies[k]);
      CU_ASSERT_EQUAL(fetched(workers, shape, i, task_names[1 - i], NULL), 0);
      int64_t sent = 0;
      for (int p = 2; p < 4; p++) sent += fetched(workers, shape, p, task_names[i], NULL);
      expect_about(sent / STEPS, PSI, strategies[k]);
    }
    close_client(&workers[2]);
    dismiss_all(workers, shape);
  }
}

/* ---- what is predicted ---- */

/* Bytes that a task is predicted to receive from others in a run of each worker loop with batches of so many
 * rows. The client of all is at task `home`. */
static double predicted(worker_t *client, int home, int task, int rows) {
  weft_rewrite_t *r = &client->job.rewrite;
  double bytes = 0;
  for (int i = 0; i < r->num_loops; i++) r->loops[i].task = weft_str(task_names[home]);
  weft_task_devices_t tasks[MOST_TASKS]; /* on one host, as these are */
  for (int i = 0; i < MOST_TASKS; i++)
    tasks[i] = (weft_task_devices_t){.task = weft_str(task_names[i]), .host = WEFT_STR("here")};
  const weft_cluster_view_t cluster = {.tasks = tasks, .num_tasks = MOST_TASKS};
  weft_test_expect(weft_rewrite_measure(r, &cluster, rows), WEFT_OK, "");
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    if (!c->is_remote || !weft_str_is(weft_traffic_task(c->to), task_names[task])) continue;
    CU_ASSERT_TRUE(c->bytes >= 0);
    bytes += (double)c->bytes;
  }
  return bytes;
}

static void expect_predicted(double bytes, double wanted, const char *what, int task) {
  bool is_right = bytes >= 0.99 * wanted && bytes <= 1.01 * wanted;
  if (!is_right) printf("\n    %s, task %d: predicted %.0f bytes, sent %.0f", what, task, bytes, wanted);
  CU_ASSERT_TRUE(is_right);
}

typedef struct forecast {
  const char *graph, *strategy;
  shape_t shape;
  int rows, columns, ids;
} forecast_t;

/* A run of each worker loop, with all that it feeds, fetches and runs; of all worker loops at once where they
 * wait for each other. */
static void run_loops(worker_t *client, const forecast_t *f, uint64_t *state) {
  const weft_rewrite_t *r = &client->job.rewrite;
  for (int i = 0; i < r->num_loops; i++) {
    const weft_worker_loop_t *l = &r->loops[i];
    client->step = (step_t){.options = NULL};
    CU_ASSERT_EQUAL_FATAL(l->feeds.n, 2);
    for (int k = 0; k < 2; k++) client->step.feeds[k] = l->feeds.items[k].data;
    for (int k = 0; k < l->fetches.n; k++) client->step.fetches[k] = l->fetches.items[k].data;
    for (int k = 0; k < l->targets.n; k++) client->step.targets[k] = l->targets.items[k].data;
    client->step.values[0] = f->ids > 0 ? random_ints(state, f->rows, f->ids)
                                        : random_floats(state, TF_FLOAT, f->rows, f->columns);
    client->step.values[1] = random_ints(state, f->rows, 4);
    run_all(client, 1);
    expect_all(client, 1);
    step_end(&client->step);
  }
}

static int task_of(shape_t shape, int i) { return i < shape.workers ? i : MOST_WORKERS + i - shape.workers; }

static void compare_with_forecast(const forecast_t *f) {
  worker_t workers[MOST_TASKS];
  uint64_t state = 1;
  char what[160];
  serve_all(workers, f->shape);
  bool has_loops = f->shape.servers > 0;
  worker_t *client = &workers[has_loops ? f->shape.workers : 0];
  open_client(client, f->shape, f->graph, f->strategy);
  initialise(client, 1);
  for (int i = 0; i < 2; i++) { /* the first step measures links, or compiles */
    reset_all(workers, f->shape);
    run_loops(client, f, &state);
  }
  snprintf(what, sizeof what, "%s %s", f->graph, f->strategy);
  int num_tasks = f->shape.workers + f->shape.servers,
      home = has_loops ? task_of(f->shape, f->shape.workers) : 0;
  for (int i = 0; i < num_tasks; i++) {
    double sent = 0;
    for (int k = 0; k < num_tasks; k++) {
      if (k != i) sent += (double)fetched(workers, f->shape, i, task_names[task_of(f->shape, k)], NULL);
    }
    expect_predicted(predicted(client, home, task_of(f->shape, i), f->rows), sent, what,
                     task_of(f->shape, i));
  }
  close_client(client);
  dismiss_all(workers, f->shape);
}

static void what_is_predicted_is_sent(void) {
  static const forecast_t cases[] = {
      {"mlp_sgd", "multi_worker_mirrored", {2, 1, 0}, 12, 32, 0},
      {"mlp_adam", "multi_worker_mirrored", {3, 1, 0}, 12, 32, 0},
      {"mlp_adam", "multi_worker_mirrored:fusion=none", {2, 1, 0}, 12, 32, 0},
      {"mlp_momentum", "multi_worker_mirrored:reduce=one", {3, 1, 0}, 12, 32, 0},
      {"mlp_sgd", "multi_worker_mirrored", {2, 2, 0}, 12, 32, 0},
      {"mlp_sgd", "multi_worker_mirrored:algorithm=ring", {3, 2, 0}, 12, 32, 0},
      {"embedding_sgd", "multi_worker_mirrored", {2, 3, 0}, 12, 0, 100},
      {"transformer", "multi_worker_mirrored", {2, 1, 0}, 12, 32, 0},
      {"embedding_sgd", "multi_worker_mirrored", {2, 1, 0}, 12, 0, 100},
      {"embedding_adam", "multi_worker_mirrored", {3, 1, 0}, 12, 0, 100},
      {"batch_norm", "multi_worker_mirrored", {2, 1, 0}, 12, 64, 0},
      {"mlp_sgd", "data_parallel", {3, 1, 0}, 12, 32, 0},
      {"mlp_sgd", "central_storage", {2, 1, 0}, 12, 32, 0},
      {"mlp_sgd", "parameter_server", {2, 1, 2}, 4, 32, 0},
      {"mlp_momentum", "parameter_server", {2, 1, 1}, 4, 32, 0},
      {"mlp_sgd", "parameter_server:shards=fixed:2", {2, 1, 2}, 4, 32, 0},
      {"mlp_sgd", "parameter_server:mode=sync", {2, 1, 2}, 12, 32, 0},
      {"mlp_adam", "parameter_server:mode=sync", {3, 1, 1}, 12, 32, 0},
      {"transformer", "parameter_server:mode=sync", {2, 1, 1}, 12, 32, 0},
      {"batch_norm", "parameter_server:mode=sync", {2, 1, 1}, 12, 64, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) compare_with_forecast(&cases[i]);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"gradients go round once", gradients_go_round_once},
      {"sparse gradients are as large as their rows", sparse_gradients_are_as_large_as_their_rows},
      {"parameters go to each worker and gradients come back",
       parameters_go_to_each_worker_and_gradients_come_back},
      {"what is predicted is sent", what_is_predicted_is_sent},
      CU_TEST_INFO_NULL,
  };
  setenv("WEFT_SHARED_COLLECTIVES", "0", 1);
  return weft_run_tests("strategies/wire", tests);
}
