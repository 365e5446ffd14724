/* tests/strategies/wire_test.c - what strategies send between tasks, counted by the servers: T-DDP-3,
 * T-MIR-3, T-PS1-4, T-PS2-4.
 */
#include <stdio.h>

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

/* A step of each worker's lane, one after the other; lanes that wait for each other run at once. */
static void train_lanes(worker_t *client, uint64_t *state) {
  const weft_rewrite_t *r = &client->job.rewrite;
  for (int i = 0; i < r->num_lanes; i++) {
    const weft_lane_t *l = &r->lanes[i];
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
    CU_ASSERT_EQUAL_FATAL(workers[2].job.rewrite.num_lanes, 2);
    train_lanes(&workers[2], &state);
    reset_all(workers, shape);
    for (int i = 0; i < STEPS; i++) train_lanes(&workers[2], &state);
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

int main(void) {
  static const CU_TestInfo tests[] = {
      {"gradients go round once", gradients_go_round_once},
      {"sparse gradients are as large as their rows", sparse_gradients_are_as_large_as_their_rows},
      {"parameters go to each worker and gradients come back",
       parameters_go_to_each_worker_and_gradients_come_back},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("strategies/wire", tests);
}
