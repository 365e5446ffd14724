/* tests/strategies/mirrored_test.c - mirrored replicas train as one device does.
 *
 * Acceptance tests of the reference: T-MIR-1, 2, 3, 5, T-DDP-1, 3, 6, T-HVD-8 (in one graph).
 */
#define _GNU_SOURCE /* mkdtemp */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "strategies/emit.h"
#include "tests/strategies/training.h"

/* Every fourth batch has 62 rows instead of 64: uneven for all numbers of replicas but 2. */
static void train_all(const char *graph, TF_DataType type, double tolerance, int steps) {
  static const char *const strategies[] = {"mirrored:2",
                                           "mirrored:3",
                                           "mirrored:4",
                                           "mirrored:3,reduce=one",
                                           "mirrored:4,fusion=none",
                                           "mirrored:2,fusion=horovod"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    run_t k = {graph, strategies[i], type, 32, 10, steps, 64, 62, tolerance};
    train_beside_one_device(&k);
  }
}

static void sgd_follows_one_device(void) {
  train_all("mlp_sgd", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_sgd", TF_DOUBLE, 1e-10, 200);
}
static void transformers_follow_one_device(void) { train_all("transformer", TF_FLOAT, 2e-5, 40); }
static void momentum_follows_one_device(void) {
  train_all("mlp_momentum", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_momentum", TF_DOUBLE, 1e-10, 200);
}
static void adam_follows_one_device(void) {
  train_all("mlp_adam", TF_FLOAT, 1e-5, 200);
  train_all("mlp64_adam", TF_DOUBLE, 1e-10, 200);
}

static void replicas_without_rows_add_nothing(void) {
  run_t k = {"mlp64_sgd", "mirrored:3", TF_DOUBLE, 32, 10, 40, 2, 1, 1e-10};
  train_beside_one_device(&k);
  k.strategy = "mirrored:1"; /* T-MIR-1 goes from 1 to 4 */
  train_beside_one_device(&k);
  k.strategy = "mirrored:4";
  train_beside_one_device(&k);
}

static void sparse_gradients_are_gathered(void) {
  run_t k = {"embedding_sgd", "mirrored:3", TF_INT32, 1000, 4, 60, 64, 62, 1e-5};
  train_beside_one_device(&k);
  k.graph = "embedding_adam";
  train_beside_one_device(&k);
}

static void convolutions_with_batch_statistics_follow_one_device(void) {
  run_t k = {"convolution", "mirrored:2", TF_FLOAT, 64, 10, 60, 32, 30, 1e-5};
  train_beside_one_device(&k);
  k.strategy = "mirrored:4";
  train_beside_one_device(&k);
}

static void fused_batch_normalisation_has_the_statistics_of_the_batch(void) {
  run_t k = {"batch_norm", "mirrored:3", TF_FLOAT, 64, 10, 40, 32, 31, 1e-5};
  train_beside_one_device(&k);
  use_t u = use_of("batch_norm", "mirrored:2,batch_norm=replica");
  weft_rewrite_t r = {.arena = WEFT_ARENA_INIT};
  weft_graph_t *g = read_graph("batch_norm");
  CU_ASSERT_PTR_NULL_FATAL(rewrite_for(g, &u, &r));
  CU_ASSERT_EQUAL(count_nodes(r.graph, "FusedBatchNormV3"), 2);
  weft_rewrite_deinit(&r);
  weft_graph_destroy(g);
}

/* Some values are computed alike on all replicas, of which one is asked: the sums before them are run by all
 * the same. */
static void rows_beside_all_others_of_the_batch_follow_one_device(void) {
  static const char *const strategies[] = {
      "mirrored:2",      "mirrored:3",        "mirrored:3,fusion=none,order=static", "mirrored:2,reduce=one",
      "data_parallel:2", "central_storage:3", "multi_worker_mirrored:workers=2"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    run_t k = {"contrastive", strategies[i], TF_DOUBLE, 32, 10, 30, 16, 11, 1e-9};
    train_beside_one_device(&k);
  }
}

/* Which axes a gradient adds up along is worked out in the step: of 1 beside 1, a batch of one row has more
 * of them. */
static void rows_beside_columns_follow_one_device(void) {
  static const char *const strategies[] = {"mirrored:2", "mirrored:3"};
  static const int last[] = {1, 2, 5};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    for (size_t k = 0; k < sizeof last / sizeof *last; k++) {
      run_t run = {"crossed", strategies[i], TF_DOUBLE, 32, 10, 12, 7, last[k], 1e-9};
      train_beside_one_device(&run);
    }
  }
}

static void options_change_no_results(void) {
  static const char *const strategies[] = {"mirrored:3,order=static,fusion=none",
                                           "mirrored:3,algorithm=ring",
                                           "mirrored:3,algorithm=halving_doubling",
                                           "mirrored:2,bytes_per_pack=4K",
                                           "mirrored:3,fusion=horovod",
                                           "mirrored:3,reduce=one",
                                           "mirrored:2,devices=CPU:2+CPU:1",
                                           "multi_worker_mirrored:workers=3"};
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
    run_t k = {"mlp64_adam", strategies[i], TF_DOUBLE, 32, 10, 20, 64, 62, 1e-10};
    train_beside_one_device(&k);
  }
}

/* Whatever is fetched, sums and rows are those of the whole batch. */
static void fetches_mean_what_they_meant(void) {
  use_t alone = use_of("mlp_sgd", NULL), together = use_of("mlp_sgd", "mirrored:3");
  static const char *const fetches[MAX_NAMES] = {"accuracy:0", "num_hits:0", "b1:0", "w0:0", "summaries:0"};
  memcpy(together.fetches, fetches, sizeof fetches);
  alone.inits[1] = together.inits[1] = NULL;
  job_t *jobs[2] = {job_start(&alone), job_start(&together)};
  double values[2][4];
  char summary[2][256];
  size_t length[2];
  for (int k = 0; k < 2; k++) {
    uint64_t state = 3;
    for (int i = 0; i < 3; i++) {
      step_t s = {.feeds = {"x", "y"}, .targets = {"train"}};
      memcpy(s.fetches, fetches, sizeof fetches);
      if (i == 2) s.targets[0] = NULL;
      s.values[0] = random_floats(&state, TF_FLOAT, 7, 32);
      s.values[1] = random_ints(&state, 7, 10);
      job_step(jobs[k], &s);
      if (TF_GetCode(jobs[k]->status) != TF_OK) CU_FAIL_FATAL(TF_Message(jobs[k]->status));
      for (int f = 0; f < 4; f++) values[k][f] = number_of(s.results[f]);
      const TF_TString *text = TF_TensorData(s.results[4]);
      length[k] = TF_StringGetSize(text);
      CU_ASSERT_FATAL(length[k] < sizeof summary[k]);
      memcpy(summary[k], TF_StringGetDataPointer(text), length[k]);
      step_end(&s);
    }
  }
  for (int f = 0; f < 4; f++) CU_ASSERT(fabs(values[0][f] - values[1][f]) <= 1e-6);
  CU_ASSERT(length[0] == length[1] && length[0] > 0);
  for (int k = 0; k < 2; k++) job_end(jobs[k]);
}

static void batches_of_different_lengths_fail_the_step(void) {
  use_t u = use_of("mlp_sgd", "mirrored:2");
  u.inits[1] = NULL;
  job_t *j = job_start(&u);
  uint64_t state = 1;
  for (int rows = 63; rows <= 65; rows++) {
    step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {"train"}};
    s.values[0] = random_floats(&state, TF_FLOAT, 64, 32);
    s.values[1] = random_ints(&state, rows, 10);
    job_step(j, &s);
    CU_ASSERT_EQUAL(TF_GetCode(j->status), rows == 64 ? TF_OK : TF_INVALID_ARGUMENT);
    if (rows != 64) {
      CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(j->status), "batches y and x have different numbers of rows"));
    }
    step_end(&s);
  }
  compare_copies(j);
  /* what needs one batch only asks for no other */
  step_t s = {.feeds = {"x"}, .fetches = {"logits:0"}};
  s.values[0] = random_floats(&state, TF_FLOAT, 5, 32);
  job_step(j, &s);
  CU_ASSERT_EQUAL(TF_GetCode(j->status), TF_OK);
  CU_ASSERT(s.results[0] != NULL && TF_Dim(s.results[0], 0) == 5);
  step_end(&s);
  job_end(j);
}

/* A fed value inside the graph is a batch like any other. */
static void values_inside_the_graph_can_be_fed(void) {
  use_t uses[2] = {use_of("mlp_sgd", NULL), use_of("mlp_sgd", "mirrored:3")};
  double losses[2][3];
  for (int k = 0; k < 2; k++) {
    uint64_t state = 2;
    uses[k].feeds[0] = "Tanh:0";
    uses[k].inits[1] = NULL;
    uses[k].fetches[2] = NULL; /* the summaries */
    uses[k].targets[0] = NULL;
    job_t *j = job_start(&uses[k]);
    for (int i = 0; i < 3; i++) {
      step_t s = {.feeds = {"Tanh:0", "y"}, .fetches = {"loss:0", "logits:0"}};
      s.values[0] = random_floats(&state, TF_FLOAT, 7, 64);
      s.values[1] = random_ints(&state, 7, 10);
      job_step(j, &s);
      if (TF_GetCode(j->status) != TF_OK) CU_FAIL_FATAL(TF_Message(j->status));
      losses[k][i] = number_of(s.results[0]);
      CU_ASSERT_EQUAL(TF_Dim(s.results[1], 0), 7);
      step_end(&s);
    }
    if (k == 1)
      CU_ASSERT_TRUE(weft_str_is(j->rewrite.shared.items[0], "Tanh") ||
                     weft_str_is(j->rewrite.shared.items[1], "Tanh"));
    job_end(j);
  }
  for (int i = 0; i < 3; i++) CU_ASSERT(fabs(losses[0][i] - losses[1][i]) <= 1e-5 * losses[0][i]);
}

/* "returned": the loss, after all that the step does, as a function returns it. "seen": the same, after a
 * variable was read behind the updates. */
static void return_the_loss(weft_graph_t *g) {
  weft_emitter_t e = {.g = g};
  weft_node_t *train = weft_graph_find(g, WEFT_STR("train")), *loss = weft_graph_find(g, WEFT_STR("loss"));
  CU_ASSERT_FATAL(train != NULL && loss != NULL);
  weft_node_t *all = weft_emit_noop(&e, &train, 1, "all");
  weft_output_t returned = weft_emit1(&e, "Identity", (weft_output_t){loss, 0}, "returned");
  weft_emit_control(&e, all, returned.node);
  const weft_named_attr_t type = weft_type_attr("dtype", WEFT_I64);
  weft_output_t step = {weft_graph_find(g, WEFT_STR("global_step")), 0};
  weft_output_t now = weft_emit(&e, "ReadVariableOp", &step, 1, &type, 1, "now");
  weft_emit_control(&e, train, now.node);
  weft_output_t seen = weft_emit1(&e, "Identity", (weft_output_t){loss, 0}, "seen");
  weft_emit_control(&e, now.node, seen.node);
  CU_ASSERT_PTR_NULL_FATAL(weft_emitter_end(&e));
}

/* T-DDP-6, T-HVD-8: k steps are one with a batch of all their rows. */
static void accumulate_four(const char *strategy, const char *fetch) {
  static const int rows[4] = {16, 14, 3, 1};
  use_t alone = use_of("mlp64_adam", NULL), together = use_of("mlp64_adam", strategy);
  alone.inits[1] = together.inits[1] = NULL;
  alone.edit = together.edit = return_the_loss;
  alone.fetches[0] = together.fetches[0] = fetch;
  job_t *one = job_start(&alone), *many = job_start(&together);
  CU_ASSERT_EQUAL(count_nodes(many->rewrite.graph, "CollectiveReduceV2"), 2);
  uint64_t state = 5;
  for (int i = 0; i < 12; i++) {
    step_t whole = {.feeds = {"x", "y"}, .fetches = {fetch}, .targets = {"train"}};
    whole.values[0] = random_floats(&state, TF_DOUBLE, 34, 32);
    whole.values[1] = random_ints(&state, 34, 10);
    double sum = 0;
    for (int k = 0, at = 0; k < 4; at += rows[k++]) {
      step_t part = {.feeds = {"x", "y"}, .fetches = {fetch}, .targets = {"train"}};
      int64_t dims[2] = {rows[k], 32};
      part.values[0] = TF_AllocateTensor(TF_DOUBLE, dims, 2, (size_t)rows[k] * 32 * 8);
      part.values[1] = TF_AllocateTensor(TF_INT32, dims, 1, (size_t)rows[k] * 4);
      memcpy(TF_TensorData(part.values[0]), (const double *)TF_TensorData(whole.values[0]) + at * 32,
             (size_t)rows[k] * 32 * 8);
      memcpy(TF_TensorData(part.values[1]), (const int32_t *)TF_TensorData(whole.values[1]) + at,
             (size_t)rows[k] * 4);
      job_step(many, &part);
      if (TF_GetCode(many->status) != TF_OK) CU_FAIL_FATAL(TF_Message(many->status));
      sum += number_of(part.results[0]) * rows[k];
      step_end(&part);
    }
    job_step(one, &whole);
    CU_ASSERT(fabs(number_of(whole.results[0]) - sum / 34) <= 1e-10);
    step_end(&whole);
  }
  compare_copies(many);
  TF_Tensor *steps = job_read(many, "global_step");
  CU_ASSERT_EQUAL((int)number_of(steps), 12); /* updates, not steps */
  TF_DeleteTensor(steps);
  job_end(one);
  job_end(many);
}

static void accumulated_steps_are_one_large_step(void) {
  accumulate_four("mirrored:2,accumulate=4", "loss:0");
  accumulate_four("mirrored:2,accumulate=4,fusion=horovod", "loss:0");
}

static void accumulated_steps_give_what_follows_the_update(void) {
  accumulate_four("mirrored:2,accumulate=4", "returned:0");
  accumulate_four("mirrored:2,accumulate=4,order=static", "seen:0");
}

static weft_output_t variable(weft_emitter_t *e, const char *name, double value) {
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t attrs[3] = {weft_type_attr("dtype", WEFT_F64), weft_shape_attr("shape", &scalar),
                                      weft_text_attr("shared_name", weft_str(name))};
  weft_output_t handle = weft_emit(e, "VarHandleOp", NULL, 0, attrs, 3, "%s", name);
  const weft_output_t in[2] = {handle, weft_emit_number(e, WEFT_F64, value, "%s/first", name)};
  weft_emit(e, "AssignVariableOp", in, 2, attrs, 1, "%s/init", name);
  return handle;
}

/* "ratio": the sum of x, divided by a variable that is 0. "tell" keeps in "seen" that it is infinite. */
static void divide_by_nothing(weft_graph_t *g) {
  weft_emitter_t e = {.g = g};
  const weft_named_attr_t type = weft_type_attr("dtype", WEFT_F64);
  const int64_t axes[2] = {0, 1};
  weft_output_t nothing = variable(&e, "nothing", 0), seen = variable(&e, "seen", -1);
  weft_output_t sum = weft_emit2(&e, "Sum", (weft_output_t){weft_graph_find(g, WEFT_STR("x")), 0},
                                 weft_emit_ints(&e, WEFT_I32, axes, 2, "both"), "sum_of_x");
  weft_output_t ratio =
      weft_emit2(&e, "RealDiv", sum, weft_emit(&e, "ReadVariableOp", &nothing, 1, &type, 1, "zero"), "ratio");
  weft_output_t told = weft_emit3(&e, "SelectV2", weft_emit1(&e, "IsInf", ratio, "is_inf"),
                                  weft_emit_number(&e, WEFT_F64, 1, "yes"), ratio, "chosen");
  const weft_output_t in[2] = {seen, told};
  weft_emit(&e, "AssignVariableOp", in, 2, &type, 1, "tell");
  CU_ASSERT_PTR_NULL_FATAL(weft_emitter_end(&e));
}

/* 0 / 0 of a replica without rows does not get into what one device has. */
static void a_part_of_nothing_divided_by_0_counts_as_0(void) {
  static const char *const strategies[] = {"mirrored:2",
                                           "mirrored:4,reduce=one",
                                           "central_storage:2",
                                           "parameter_server:mode=sync,ps=2,workers=3",
                                           "mirrored:2,accumulate=2",
                                           "mirrored:3,accumulate=3,fusion=none"};
  for (size_t k = 0; k < sizeof strategies / sizeof *strategies; k++) {
    const char *accumulate = strstr(strategies[k], "accumulate=");
    use_t u = use_of("mlp64_sgd", strategies[k]);
    u.edit = divide_by_nothing;
    u.inits[1] = "nothing/init";
    u.inits[2] = "seen/init";
    u.targets[1] = "tell";
    u.fetches[0] = accumulate == NULL ? "ratio:0" : "loss:0";
    u.fetches[1] = NULL;
    job_t *j = job_start(&u);
    for (int i = accumulate == NULL ? 1 : atoi(accumulate + strlen("accumulate=")); i > 0; i--) {
      uint64_t state = 3;
      step_t s = {.feeds = {"x", "y"}, .fetches = {u.fetches[0]}, .targets = {"train", "tell"}};
      s.values[0] = random_floats(&state, TF_DOUBLE, 1, 32);
      s.values[1] = random_ints(&state, 1, 10);
      job_step(j, &s);
      if (TF_GetCode(j->status) != TF_OK) CU_FAIL_FATAL(TF_Message(j->status));
      CU_ASSERT(accumulate != NULL || isinf(number_of(s.results[0])));
      step_end(&s);
    }
    TF_Tensor *seen = job_read(j, "seen");
    if (number_of(seen) != 1) fprintf(stderr, "%s: %g\n", strategies[k], number_of(seen));
    CU_ASSERT_EQUAL((int)number_of(seen), 1);
    TF_DeleteTensor(seen);
    job_end(j);
  }
}

static void with_file(job_t *j, const char *path, const char *target) {
  step_t s = {.feeds = {"saver/Const"}, .targets = {target}};
  s.values[0] = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_StringInit(TF_TensorData(s.values[0]));
  TF_StringCopy(TF_TensorData(s.values[0]), path, strlen(path));
  job_step(j, &s);
  if (TF_GetCode(j->status) != TF_OK) CU_FAIL_FATAL(TF_Message(j->status));
  step_end(&s);
}

static double train_a_little(job_t *j, int steps, bool trains) {
  uint64_t state = 9;
  double loss = 0;
  for (int i = 0; i < steps; i++) {
    step_t s = {.feeds = {"x", "y"}, .fetches = {"loss:0"}, .targets = {trains ? "train" : NULL}};
    s.values[0] = random_floats(&state, TF_DOUBLE, 12, 32);
    s.values[1] = random_ints(&state, 12, 10);
    job_step(j, &s);
    CU_ASSERT_EQUAL_FATAL(TF_GetCode(j->status), TF_OK);
    loss = number_of(s.results[0]);
    step_end(&s);
  }
  return loss;
}

/* T-MIR-5: what four replicas saved one device restores, and the other way round. */
static void checkpoints_go_from_four_replicas_to_one_and_on_to_three(void) {
  static const char *const strategies[] = {"mirrored:4", NULL, "mirrored:3", "central_storage:2"};
  char directory[] = "/tmp/weft_mirrored_XXXXXX", path[64], files[2][96];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/model", directory);
  double before = 0;
  for (int k = 0; k < 4; k++) {
    use_t u = use_of("mlp64_adam", strategies[k]);
    u.feeds[2] = "saver/Const";
    u.targets[1] = "saver/control_dependency";
    u.targets[2] = "saver/restore_all";
    u.inits[1] = NULL;
    job_t *j = job_start(&u);
    if (k > 0) {
      with_file(j, path, "saver/restore_all");
      CU_ASSERT(fabs(train_a_little(j, 1, false) - before) <= 1e-12);
    }
    if (strategies[k] != NULL) compare_copies(j);
    train_a_little(j, 5, true);
    before = train_a_little(j, 1, false);
    with_file(j, path, "saver/control_dependency");
    job_end(j);
  }
  snprintf(files[0], sizeof files[0], "%s.index", path);
  snprintf(files[1], sizeof files[1], "%s.data-00000-of-00001", path);
  CU_ASSERT(unlink(files[0]) == 0 && unlink(files[1]) == 0 && rmdir(directory) == 0);
}

static const CU_TestInfo tests[] = {
    {"SGD on replicas follows one device", sgd_follows_one_device},
    {"transformers follow one device", transformers_follow_one_device},
    {"momentum on replicas follows one device", momentum_follows_one_device},
    {"Adam on replicas follows one device", adam_follows_one_device},
    {"replicas without rows add nothing", replicas_without_rows_add_nothing},
    {"sparse gradients are gathered", sparse_gradients_are_gathered},
    {"convolutions with batch statistics follow one device",
     convolutions_with_batch_statistics_follow_one_device},
    {"fused batch normalisation has the statistics of the batch",
     fused_batch_normalisation_has_the_statistics_of_the_batch},
    {"rows beside all others of the batch follow one device",
     rows_beside_all_others_of_the_batch_follow_one_device},
    {"rows beside columns follow one device", rows_beside_columns_follow_one_device},
    {"options change no results", options_change_no_results},
    {"fetches mean what they meant", fetches_mean_what_they_meant},
    {"batches of different lengths fail the step", batches_of_different_lengths_fail_the_step},
    {"values inside the graph can be fed", values_inside_the_graph_can_be_fed},
    {"accumulated steps are one large step", accumulated_steps_are_one_large_step},
    {"a part of nothing divided by 0 counts as 0", a_part_of_nothing_divided_by_0_counts_as_0},
    {"accumulated steps give what follows the update", accumulated_steps_give_what_follows_the_update},
    {"checkpoints go from four replicas to one and on to three",
     checkpoints_go_from_four_replicas_to_one_and_on_to_three},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("strategies/mirrored", tests); }
