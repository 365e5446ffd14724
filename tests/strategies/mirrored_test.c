/* tests/strategies/mirrored_test.c - mirrored replicas train as one device does.
 *
 * Acceptance tests of the reference: T-MIR-1, 2, 3, 5, T-DDP-1, 3 (in one graph).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "strategies/emit.h"
#include "tests/strategies/training.h"

static const use_t classifier = {.feeds = {"x", "y"},
                                 .fetches = {"loss:0", "logits:0", "summaries:0"},
                                 .targets = {"train"},
                                 .inits = {"init", "saver/restore_all"}};

static use_t with(const char *graph, const char *strategy) {
  use_t u = classifier;
  u.graph = graph;
  u.strategy = strategy;
  return u;
}

typedef struct run {
  const char *graph, *strategy;
  TF_DataType type; /* of x; ints for TF_INT32 */
  int columns, classes, steps, rows, last_rows; /* every fourth batch has last_rows */
  double tolerance;
} run_t;

static step_t next_step(const run_t *k, uint64_t *state, int i) {
  int64_t rows = i % 4 == 3 ? k->last_rows : k->rows;
  step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0", "logits:0"}, .targets = {"train"}};
  s.values[0] = k->type == TF_INT32 ? random_ints(state, rows, k->columns) : random_floats(state, k->type, rows, k->columns);
  s.values[1] = random_ints(state, rows, k->classes);
  return s;
}

static double largest_difference(const TF_Tensor *a, const TF_Tensor *b) {
  double most = 0;
  CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(a), TF_TensorByteSize(b));
  for (int64_t i = 0; i < TF_TensorElementCount(a); i++) {
    double x = TF_TensorType(a) == TF_FLOAT ? (double)((const float *)TF_TensorData(a))[i] : ((const double *)TF_TensorData(a))[i];
    double y = TF_TensorType(b) == TF_FLOAT ? (double)((const float *)TF_TensorData(b))[i] : ((const double *)TF_TensorData(b))[i];
    double d = fabs(x - y) / (1 + fabs(x));
    if (!(d <= most)) most = d;
  }
  return most;
}

/* Every "name/replica_i" holds the same bytes as "name". */
static void compare_copies(job_t *j) {
  int compared = 0;
  for (int id = 0; id < j->rewrite.graph->num_nodes; id++) {
    const weft_node_t *n = j->rewrite.graph->nodes[id];
    ptrdiff_t at = n == NULL ? -1 : weft_str_rfind(n->name, '/');
    if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0 || at < 0) continue;
    if (!weft_str_starts_with(weft_str_of(n->name.data + at, n->name.length - (size_t)at), "/replica_")) continue;
    char first[256];
    snprintf(first, sizeof first, "%.*s", (int)at, n->name.data);
    TF_Tensor *a = job_read(j, first), *b = job_read(j, n->name.data);
    CU_ASSERT_EQUAL_FATAL(TF_TensorByteSize(a), TF_TensorByteSize(b));
    CU_ASSERT_EQUAL(memcmp(TF_TensorData(a), TF_TensorData(b), TF_TensorByteSize(a)), 0);
    TF_DeleteTensor(a);
    TF_DeleteTensor(b);
    compared++;
  }
  CU_ASSERT(compared > 0);
}

static void train_beside_one_device(const run_t *k) {
  use_t alone = with(k->graph, NULL), together = with(k->graph, k->strategy);
  alone.inits[1] = together.inits[1] = NULL;
  job_t *one = job_start(&alone), *many = job_start(&together);
  uint64_t a = 7, b = 7;
  double worst = 0, worst_logits = 0, first = 0, last = 0;
  compare_copies(many);
  for (int i = 0; i < k->steps; i++) {
    step_t s = next_step(k, &a, i), t = next_step(k, &b, i);
    job_step(one, &s);
    job_step(many, &t);
    if (TF_GetCode(one->status) != TF_OK) CU_FAIL_FATAL(TF_Message(one->status));
    if (TF_GetCode(many->status) != TF_OK) fprintf(stderr, "%s %s: %s\n", k->graph, k->strategy, TF_Message(many->status));
    CU_ASSERT_EQUAL_FATAL(TF_GetCode(many->status), TF_OK);
    double x = number_of(s.results[0]), y = number_of(t.results[0]), d = fabs(x - y) / fabs(x);
    if (!(d <= worst)) worst = d;
    double e = largest_difference(s.results[1], t.results[1]);
    if (!(e <= worst_logits)) worst_logits = e;
    if (i == 0) first = x;
    last = x;
    step_end(&s);
    step_end(&t);
    if (i % 10 == 0) compare_copies(many);
  }
  compare_copies(many);
  if (getenv("SHOW") != NULL || !(worst <= k->tolerance)) fprintf(stderr, "%s %s: loss differs by %g, logits by %g\n", k->graph, k->strategy, worst, worst_logits);
  CU_ASSERT(worst <= k->tolerance);
  CU_ASSERT(worst_logits <= k->tolerance * 100);
  CU_ASSERT(last != first);
  TF_Tensor *steps = job_read(many, "global_step");
  CU_ASSERT_EQUAL((int)number_of(steps), k->steps);
  TF_DeleteTensor(steps);
  job_end(one);
  job_end(many);
}

static void train_all(const char *graph, TF_DataType type, double tolerance, int steps) {
  static const char *const strategies[] = {"mirrored:2,reduce=one", "mirrored:3,reduce=one", "mirrored:4,reduce=one"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    run_t k = {graph, strategies[i], type, 32, 10, steps, 64, 62, tolerance};
    train_beside_one_device(&k);
  }
}

static void sgd_follows_one_device(void) {
  train_all("mlp_sgd", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_sgd", TF_DOUBLE, 1e-10, 200);
}
static void momentum_follows_one_device(void) {
  train_all("mlp_momentum", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_momentum", TF_DOUBLE, 1e-10, 200);
}
static void adam_follows_one_device(void) {
  train_all("mlp_adam", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_adam", TF_DOUBLE, 1e-10, 200);
}

static void replicas_without_rows_add_nothing(void) {
  run_t k = {"mlp64_sgd", "mirrored:3,reduce=one", TF_DOUBLE, 32, 10, 40, 2, 1, 1e-10};
  train_beside_one_device(&k);
  k.strategy = "mirrored:4,reduce=one";
  train_beside_one_device(&k);
}

static void sparse_gradients_are_gathered(void) {
  run_t k = {"embedding_sgd", "mirrored:3,reduce=one", TF_INT32, 1000, 4, 60, 64, 62, 1e-5};
  train_beside_one_device(&k);
  k.graph = "embedding_adam";
  train_beside_one_device(&k);
}

static void convolutions_with_batch_statistics_follow_one_device(void) {
  run_t k = {"convolution", "mirrored:2,reduce=one", TF_FLOAT, 64, 10, 60, 32, 30, 1e-5};
  train_beside_one_device(&k);
  k.strategy = "mirrored:4,reduce=one";
  train_beside_one_device(&k);
}

static const CU_TestInfo tests[] = {
    {"SGD on replicas follows one device", sgd_follows_one_device},
    {"momentum on replicas follows one device", momentum_follows_one_device},
    {"Adam on replicas follows one device", adam_follows_one_device},
    {"replicas without rows add nothing", replicas_without_rows_add_nothing},
    {"sparse gradients are gathered", sparse_gradients_are_gathered},
    {"convolutions with batch statistics follow one device", convolutions_with_batch_statistics_follow_one_device},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/mirrored", tests); }
