/* tests/strategies/multi_worker_test.c - several workers, one client each or one for all: T-MWM-1, T-MWM-2,
 * T-DDP-7. */
#include <math.h>
#include <stdio.h>

#include "tests/strategies/servers.h"

static const shape_t pair = {2, 1, 0}, three_with_two = {3, 2, 0};

static void train(shape_t shape, const char *graph, TF_DataType type, int columns, int classes,
                  double tolerance, bool between) {
  int clients = between ? shape.workers : 1, last = clients - 1;
  worker_t workers[MOST_TASKS];
  serve_all(workers, shape);
  use_t alone = use_of(graph, NULL);
  alone.inits[1] = NULL;
  job_t *one = job_start(&alone);
  for (int i = 0; i < clients; i++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, between ? "multi_worker_mirrored:task=%d" : "multi_worker_mirrored",
             i);
    open_client(&workers[i], shape, graph, strategy);
  }
  initialise(workers, clients);
  for (int i = 0; i < clients && between; i++) workers[i].key = train_key;
  uint64_t state = 11;
  for (int step = 0; step < 20; step++) {
    int rows = step % 4 == 3 ? 30 : 32;
    int first = !between        ? rows
                : step % 3 == 0 ? rows / clients
                                : 1 + step; /* rows of the first, and of each but the last */
    int cuts[MOST_WORKERS + 1] = {0, first, last > 1 ? first + 3 : rows, rows};
    step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
    s.values[0] =
        type == TF_INT32 ? random_ints(&state, rows, columns) : random_floats(&state, type, rows, columns);
    s.values[1] = random_ints(&state, rows, classes);
    for (int i = 0; i < clients; i++) {
      workers[i].step =
          (step_t){.feeds = {"x", "y"}, .fetches = {"loss:0", "logits:0"}, .targets = {"train"}};
      for (int f = 0; f < 2; f++) workers[i].step.values[f] = rows_of(s.values[f], cuts[i], cuts[i + 1]);
    }
    job_step(one, &s);
    run_all(workers, clients);
    expect_all(workers, clients);
    for (int i = 0; i < clients; i++) {
      double x = number_of(s.results[0]), y = number_of(workers[i].step.results[0]);
      CU_ASSERT(fabs(x - y) <= tolerance * fabs(x));
      CU_ASSERT_EQUAL(TF_Dim(workers[i].step.results[1], 0), cuts[i + 1] - cuts[i]);
      step_end(&workers[i].step);
    }
    step_end(&s);
    compare_all(workers, clients, shape);
  }
  job_end(one);
  for (int i = 0; i < clients; i++) close_client(&workers[i]);
  dismiss_all(workers, shape);
}

static void one_client_drives_all_workers(void) {
  train(pair, "mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, false);
  train(three_with_two, "embedding_sgd", TF_INT32, 1000, 4, 1e-5, false);
  train(pair, "noisy", TF_DOUBLE, 32, 10, 1e-10, false);
}

static void each_worker_has_a_client_of_its_own(void) {
  train(pair, "mlp64_adam", TF_DOUBLE, 32, 10, 1e-10, true);
  train(pair, "batch_norm", TF_FLOAT, 64, 10, 1e-5, true);
}

static void random_numbers_of_all_workers_are_those_of_one_device(void) {
  train(pair, "noisy", TF_DOUBLE, 32, 10, 1e-10, true);
  train(three_with_two, "noisy", TF_DOUBLE, 32, 10, 1e-10, true);
}

/* Rows of gradients differ in number from worker to worker. */
static void workers_gather_rows_of_sparse_gradients(void) {
  train(pair, "embedding_adam", TF_INT32, 1000, 4, 1e-5, true);
}

/* T-MWM-1 */
static void three_workers_with_two_devices_are_as_one_device(void) {
  train(three_with_two, "mlp_sgd", TF_FLOAT, 32, 10, 1e-5, true);
  train(three_with_two, "mlp64_momentum", TF_DOUBLE, 32, 10, 1e-10, true);
}

/* T-MWM-2: every worker draws numbers of its own, and gets the first one's. */
static void initial_values_are_the_first_workers(void) {
  worker_t workers[MOST_TASKS];
  serve_all(workers, three_with_two);
  for (int i = 0; i < three_with_two.workers; i++) {
    char strategy[64];
    snprintf(strategy, sizeof strategy, "multi_worker_mirrored:task=%d", i);
    open_client(&workers[i], three_with_two, "random_start", strategy);
  }
  initialise(workers, three_with_two.workers);
  compare_all(workers, three_with_two.workers, three_with_two);
  TF_Tensor *w = job_read(&workers[2].job, "w");
  const float *values = TF_TensorData(w);
  CU_ASSERT(values[0] != values[1] && values[0] >= 0 && values[0] < 1);
  TF_DeleteTensor(w);
  for (int i = 0; i < three_with_two.workers; i++) close_client(&workers[i]);
  dismiss_all(workers, three_with_two);
}

/* T-DDP-7: pred = x w + [use] x v, where each worker says for itself whether it uses v; by hand. */
static void a_worker_that_does_not_use_a_variable_adds_nothing(void) {
  enum { ROWS = 6, COLUMNS = 8, STEPS = 12 };
  worker_t workers[MOST_TASKS];
  double w[2][COLUMNS];
  serve_all(workers, pair);
  for (int i = 0; i < 2; i++) {
    open_client(&workers[i], pair, "branch",
                i == 0 ? "multi_worker_mirrored:task=0" : "multi_worker_mirrored:task=1");
  }
  initialise(workers, 2);
  for (int k = 0; k < 2; k++) {
    TF_Tensor *t = job_read(&workers[0].job, k == 0 ? "w" : "v");
    memcpy(w[k], TF_TensorData(t), sizeof w[k]);
    TF_DeleteTensor(t);
  }
  uint64_t state = 4;
  for (int step = 0; step < STEPS; step++) {
    double gradient[2][COLUMNS] = {{0}}, loss = 0;
    for (int i = 0; i < 2; i++) {
      bool uses = step % 3 != 2 && (i == 0 || step % 2 == 0); /* in each third step neither does */
      step_t *s = &workers[i].step;
      *s = (step_t){.feeds = {"x", "y", "use"}, .fetches = {"loss:0"}, .targets = {"train"}};
      s->values[0] = random_floats(&state, TF_DOUBLE, ROWS, COLUMNS);
      s->values[1] = random_floats(&state, TF_DOUBLE, ROWS, 1);
      s->values[2] = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
      *(unsigned char *)TF_TensorData(s->values[2]) = uses;
      const double *x = TF_TensorData(s->values[0]), *y = TF_TensorData(s->values[1]);
      for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        double d = -y[r];
        for (int c = 0; c < COLUMNS; c++) d += x[c] * (w[0][c] + (uses ? w[1][c] : 0));
        loss += d * d / (2 * ROWS);
        for (int c = 0; c < COLUMNS; c++) {
          gradient[0][c] += d * x[c] / ROWS;
          if (uses) gradient[1][c] += d * x[c] / ROWS;
        }
      }
      workers[i].key = train_key;
    }
    run_all(workers, 2);
    expect_all(workers, 2);
    for (int i = 0; i < 2; i++) {
      CU_ASSERT_DOUBLE_EQUAL(number_of(workers[i].step.results[0]), loss, 1e-12);
      step_end(&workers[i].step);
    }
    for (int k = 0; k < 2; k++) {
      TF_Tensor *t = job_read(&workers[1].job, k == 0 ? "w" : "v");
      const double *now = TF_TensorData(t);
      for (int c = 0; c < COLUMNS; c++) {
        w[k][c] -= (double)0.1f * gradient[k][c]; /* the rate is a float */
        CU_ASSERT_DOUBLE_EQUAL(now[c], w[k][c], 1e-12);
      }
      memcpy(w[k], now, sizeof w[k]);
      TF_DeleteTensor(t);
    }
    compare_all(workers, 2, pair);
  }
  for (int i = 0; i < 2; i++) close_client(&workers[i]);
  dismiss_all(workers, pair);
}

/* One worker packs otherwise, has another optimizer, another type, model or rate of learning: all are told
 * before anything is trained. */
static void workers_with_different_graphs_are_refused(void) {
  static const struct {
    const char *graph, *options, *target;
    float rate;
  } others[] = {{"mlp_sgd", ",fusion=none", "init", 0}, {"mlp_momentum", "", "init", 0},
                {"mlp64_sgd", "", "init", 0},           {"random_start", "", "init", 0},
                {"mlp_sgd", "", "init", 0.2f},          {"mlp_momentum", "", "train", 0}};
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    worker_t workers[MOST_TASKS];
    char strategy[64];
    serve_all(workers, pair);
    snprintf(strategy, sizeof strategy, "multi_worker_mirrored:task=1%s", others[k].options);
    open_client(&workers[0], pair, "mlp_sgd", "multi_worker_mirrored:task=0");
    workers[1].rate = others[k].rate;
    open_client(&workers[1], pair, others[k].graph, strategy);
    uint64_t state = 3;
    bool trains =
        strcmp(others[k].target, "train") == 0; /* without initial values, and no worker waits for ever */
    for (int i = 0; i < pair.workers; i++) {
      workers[i].step = (step_t){.targets = {others[k].target}};
      workers[i].key = init_key;
      if (!trains) continue;
      workers[i].step.feeds[0] = "x";
      workers[i].step.feeds[1] = "y";
      workers[i].step.values[0] = random_floats(&state, TF_FLOAT, 4, 32);
      workers[i].step.values[1] = random_ints(&state, 4, 10);
    }
    run_all(workers, pair.workers);
    int told = 0;
    for (int i = 0; i < pair.workers; i++) {
      CU_ASSERT_NOT_EQUAL(TF_GetCode(workers[i].job.status), TF_OK);
      told += strstr(TF_Message(workers[i].job.status),
                     "the graph of this worker, or the checkpoint that it starts from, differs from that of "
                     "the other workers") != NULL;
      step_end(&workers[i].step);
    }
    if (told == 0 && !trains)
      fprintf(stderr, "%s%s: %s\n", others[k].graph, others[k].options, TF_Message(workers[0].job.status));
    CU_ASSERT(told > 0 || trains);
    for (int i = 0; i < pair.workers; i++) close_client(&workers[i]);
    dismiss_all(workers, pair);
  }
}

/* The rows of one worker do not fit its model: both are told, and a step with good rows works. */
static void a_step_that_fails_on_one_worker_fails_on_all(void) {
  worker_t workers[MOST_TASKS];
  uint64_t state = 3;
  serve_all(workers, pair);
  open_client(&workers[0], pair, "mlp_sgd", "multi_worker_mirrored:task=0");
  open_client(&workers[1], pair, "mlp_sgd", "multi_worker_mirrored:task=1");
  initialise(workers, pair.workers);
  for (int step = 0; step < 6; step++) {
    int bad = step % 3 - 1; /* -1: none */
    for (int i = 0; i < pair.workers; i++) {
      workers[i].key = train_key;
      workers[i].step = (step_t){.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
      workers[i].step.values[0] = random_floats(&state, TF_FLOAT, 4, 32);
      workers[i].step.values[1] = random_ints(&state, bad == i ? 3 : 4, 10);
    }
    run_all(workers, pair.workers);
    if (bad < 0) {
      expect_all(workers, pair.workers);
      compare_all(workers, pair.workers, pair);
    } else {
      CU_ASSERT_EQUAL(TF_GetCode(workers[bad].job.status), TF_INVALID_ARGUMENT);
      CU_ASSERT_NOT_EQUAL(TF_GetCode(workers[1 - bad].job.status), TF_OK);
    }
    for (int i = 0; i < pair.workers; i++) step_end(&workers[i].step);
  }
  for (int i = 0; i < pair.workers; i++) close_client(&workers[i]);
  dismiss_all(workers, pair);
}

static const CU_TestInfo tests[] = {
    {"one client drives all workers", one_client_drives_all_workers},
    {"each worker has a client of its own", each_worker_has_a_client_of_its_own},
    {"random numbers of all workers are those of one device",
     random_numbers_of_all_workers_are_those_of_one_device},
    {"workers gather rows of sparse gradients", workers_gather_rows_of_sparse_gradients},
    {"three workers with two devices are as one device", three_workers_with_two_devices_are_as_one_device},
    {"initial values are the first worker's", initial_values_are_the_first_workers},
    {"a worker that does not use a variable adds nothing",
     a_worker_that_does_not_use_a_variable_adds_nothing},
    {"a step that fails on one worker fails on all", a_step_that_fails_on_one_worker_fails_on_all},
    {"workers with different graphs are refused", workers_with_different_graphs_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/multi_worker", tests); }
