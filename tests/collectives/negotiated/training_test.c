/* Training with gradients reduced by name, as Horovod's DistributedOptimizer does it (T-HVD-8), and with
 * members that run out of batches (T-DDP-6).
 *
 * The model is a line with a momentum optimizer: pred = x w + b, squared errors, in
 * double. Each member has its copy; one copy is trained beside them on all rows.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "collectives/negotiated/negotiated.h"
#include "tests/collectives/world.h"
#include "tests/runner.h"

enum { MOST_MEMBERS = 4, COLUMNS = 6, PARAMETERS = COLUMNS + 1 };

typedef struct model {
  double value[PARAMETERS], velocity[PARAMETERS]; /* w, then b */
} model_t;

typedef struct order {
  world_t *w;
  bool is_done; /* guarded by the world's mu, as those below */
  weft_status_t *status;
  weft_tensor_t *output;
} order_t;

typedef struct fixture {
  world_t w;
  int n;
  weft_negotiator_t *members[MOST_MEMBERS];
  model_t models[MOST_MEMBERS];
  order_t orders[MOST_MEMBERS][2];
} fixture_t;

static const char *const names[2] = {"gradient of w", "gradient of b"};

/* ---- members ---- */

static void begin(fixture_t *f, int n, const weft_process_set_t *sets, int num_sets) {
  memset(f, 0, sizeof *f);
  f->n = n;
  world_init(&f->w, n, 2, false, NULL);
  for (int i = 0; i < n; i++) {
    const weft_negotiator_options_t o = {.collectives = f->w.collectives[i],
                                         .device = weft_str(f->w.devices[i]),
                                         .rank = i,
                                         .size = n,
                                         .group_key = 500,
                                         .sets = sets,
                                         .num_sets = num_sets,
                                         .fusion_bytes = -1,
                                         .cache_capacity = -1};
    CU_ASSERT_PTR_NULL_FATAL(weft_negotiator_create(&o, &f->members[i]));
  }
}

static void end(fixture_t *f) {
  for (int i = 0; i < f->n; i++) weft_negotiator_destroy(f->members[i]);
  world_deinit(&f->w);
}

static void on_done(void *arg, weft_status_t *status, weft_tensor_t *output) {
  order_t *o = arg;
  weft_mutex_lock(&o->w->mu);
  o->status = status;
  o->output = output;
  o->is_done = true;
  weft_cond_broadcast(&o->w->changed);
  weft_mutex_unlock(&o->w->mu);
}

/* Waits and drops; the output goes to `out` if that is not NULL. */
static void finish(order_t *o, double *out) {
  const int64_t deadline = weft_clock_ns() + 30 * INT64_C(1000000000);
  bool in_time = true;
  weft_mutex_lock(&o->w->mu);
  while (!o->is_done && in_time) in_time = weft_cond_wait_until(&o->w->changed, &o->w->mu, deadline);
  weft_mutex_unlock(&o->w->mu);
  CU_ASSERT_TRUE_FATAL(o->is_done);
  if (o->status != NULL) fprintf(stderr, "%s\n", weft_status_message(o->status));
  CU_ASSERT_PTR_NULL_FATAL(o->status);
  if (out != NULL) memcpy(out, o->output->data, o->output->bytes);
  weft_tensor_release(o->output);
}

static void submit(fixture_t *f, int i, const weft_named_request_t *r, const double *values, int count,
                   order_t *o) {
  weft_shape_t shape = weft_shape_vector(count);
  weft_tensor_t *t = NULL;
  *o = (order_t){.w = &f->w};
  if (values != NULL) {
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F64, &shape, NULL, &t));
    memcpy(t->data, values, t->bytes);
  }
  weft_negotiator_submit(f->members[i], r, t, on_done, o);
  weft_tensor_release(t);
}

/* The mean over a set; b goes first at odd members, as if it were ready first there. */
static void submit_gradient(fixture_t *f, int i, int set, const double *gradient) {
  for (int k = 0; k < 2; k++) {
    int which = (k + i) % 2;
    weft_named_request_t r = {.kind = WEFT_NAMED_ALL_REDUCE,
                              .name = weft_str(names[which]),
                              .group = WEFT_STR(""),
                              .is_mean = true,
                              .process_set = set};
    submit(f, i, &r, which == 0 ? gradient : gradient + COLUMNS, which == 0 ? COLUMNS : 1,
           &f->orders[i][which]);
  }
}

static void take_gradient(fixture_t *f, int i, double *out) {
  finish(&f->orders[i][0], out);
  finish(&f->orders[i][1], out + COLUMNS);
}

/* ---- the model ---- */

static double number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 4503599627370496.0 - 1;
}

/* Adds the gradient of the mean squared error over rows [first, first + rows) of an endless table, and
 * returns that error. */
static double add_gradient(const model_t *m, int first, int rows, double *gradient) {
  double loss = 0;
  for (int r = first; r < first + rows; r++) {
    uint64_t state = (uint64_t)r * 7919 + 1;
    double x[PARAMETERS], d = 0;
    for (int c = 0; c < COLUMNS; c++) x[c] = number(&state);
    x[COLUMNS] = 1;
    for (int c = 0; c < PARAMETERS; c++) d += x[c] * m->value[c];
    d -= 3 * x[0] - x[1] + 0.5 + 0.1 * number(&state);
    loss += d * d / rows;
    for (int c = 0; c < PARAMETERS; c++) gradient[c] += 2 * d * x[c] / rows;
  }
  return loss;
}

static void apply(model_t *m, const double *gradient) {
  for (int c = 0; c < PARAMETERS; c++) {
    m->velocity[c] = 0.9 * m->velocity[c] + gradient[c];
    m->value[c] -= 0.02 * m->velocity[c];
  }
}

static void expect_models(const fixture_t *f, const model_t *wanted, double tolerance) {
  for (int i = 0; i < f->n; i++) {
    for (int c = 0; c < PARAMETERS; c++)
      CU_ASSERT(fabs(f->models[i].value[c] - wanted->value[c]) <= tolerance);
    CU_ASSERT_EQUAL(memcmp(&f->models[i], &f->models[0], sizeof f->models[i]), 0); /* the same bits on all */
  }
}

/* ---- tests ---- */

/* `backward_passes` gradients of `rows` rows each before they are reduced: one step on all these rows. */
static void train(int n, int backward_passes, int rows, int steps) {
  fixture_t f;
  model_t alone = {{0}, {0}};
  double first = 0, last = 0;
  begin(&f, n, NULL, 0);
  const int per_step = n * backward_passes * rows;
  for (int s = 0; s < steps; s++) {
    double whole[PARAMETERS] = {0};
    last = add_gradient(&alone, s * per_step, per_step, whole);
    if (s == 0) first = last;
    apply(&alone, whole);
    for (int i = 0; i < n; i++) {
      double own[PARAMETERS] = {0};
      for (int k = 0; k < backward_passes; k++)
        add_gradient(&f.models[i], s * per_step + (i * backward_passes + k) * rows, rows, own);
      for (int c = 0; c < PARAMETERS; c++) own[c] /= backward_passes;
      submit_gradient(&f, i, 0, own);
    }
    for (int i = 0; i < n; i++) {
      double mean[PARAMETERS];
      take_gradient(&f, i, mean);
      apply(&f.models[i], mean);
    }
    expect_models(&f, &alone, 1e-10);
  }
  CU_ASSERT(last < first / 4);
  end(&f);
}

static void members_follow_one_process(void) {
  for (int n = 1; n <= 4; n++) train(n, 1, 4, 200);
}

static void several_backward_passes_are_one_large_batch(void) {
  train(2, 4, 4, 60);
  train(3, 2, 4, 60);
}

/* Members 0 and 2 train one model, 1 and 3 another, at the same time and under the same names. */
static void process_sets_train_beside_each_other(void) {
  static const int even[] = {0, 2}, odd[] = {1, 3};
  const weft_process_set_t sets[] = {{even, 2}, {odd, 2}};
  fixture_t f;
  model_t alone[2] = {{{0}, {0}}, {{1}, {0}}};
  begin(&f, 4, sets, 2);
  for (int i = 0; i < 4; i++) f.models[i] = alone[i % 2];
  for (int s = 0; s < 60; s++) {
    for (int i = 0; i < 4; i++) {
      double own[PARAMETERS] = {0};
      add_gradient(&f.models[i], 16 * s + 8 * (i % 2) + 4 * (i / 2), 4, own);
      submit_gradient(&f, i, 1 + i % 2, own);
    }
    for (int i = 0; i < 4; i++) {
      double mean[PARAMETERS];
      take_gradient(&f, i, mean);
      apply(&f.models[i], mean);
    }
    for (int k = 0; k < 2; k++) {
      double whole[PARAMETERS] = {0};
      add_gradient(&alone[k], 16 * s + 8 * k, 8, whole);
      apply(&alone[k], whole);
      for (int i = k; i < 4; i += 2) {
        for (int c = 0; c < PARAMETERS; c++)
          CU_ASSERT(fabs(f.models[i].value[c] - alone[k].value[c]) <= 1e-10);
      }
    }
  }
  CU_ASSERT(fabs(alone[0].value[0] - alone[1].value[0]) > 1e-6);
  end(&f);
}

/* Members with 10, 13 and 7 batches: a member that has none left joins and adds zeros to means over all
 * three. In the end all take the model of the one that trained longest. */
static void members_with_fewer_batches_join(void) {
  static const int batches[3] = {10, 13, 7};
  const weft_named_request_t join = {.kind = WEFT_NAMED_JOIN, .name = WEFT_STR(""), .group = WEFT_STR("")};
  fixture_t f;
  order_t joins[3];
  model_t alone = {{0}, {0}};
  begin(&f, 3, NULL, 0);
  for (int s = 0; s < 14; s++) {
    double sum[PARAMETERS] = {0};
    for (int i = 0; i < 3; i++) {
      double own[PARAMETERS] = {0};
      if (s == batches[i]) submit(&f, i, &join, NULL, 0, &joins[i]);
      if (s >= batches[i]) continue;
      add_gradient(&alone, 100 * i + 4 * s, 4, sum);
      add_gradient(&f.models[i], 100 * i + 4 * s, 4, own);
      submit_gradient(&f, i, 0, own);
    }
    for (int c = 0; c < PARAMETERS; c++) sum[c] /= 3;
    if (s < 13) apply(&alone, sum);
    for (int i = 0; i < 3; i++) {
      double mean[PARAMETERS];
      if (s >= batches[i]) continue;
      take_gradient(&f, i, mean);
      apply(&f.models[i], mean);
    }
  }
  for (int i = 0; i < 3; i++) finish(&joins[i], NULL);
  weft_named_request_t take = {
      .kind = WEFT_NAMED_BROADCAST, .name = WEFT_STR("model"), .group = WEFT_STR(""), .root = 1};
  for (int i = 0; i < 3; i++) submit(&f, i, &take, f.models[i].value, 2 * PARAMETERS, &f.orders[i][0]);
  for (int i = 0; i < 3; i++) finish(&f.orders[i][0], f.models[i].value);
  expect_models(&f, &alone, 1e-12);
  end(&f);
}

static const CU_TestInfo tests[] = {
    {"members follow one process", members_follow_one_process},
    {"several backward passes are one large batch", several_backward_passes_are_one_large_batch},
    {"process sets train beside each other", process_sets_train_beside_each_other},
    {"members with fewer batches join", members_with_fewer_batches_join},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("collectives/negotiated/training", tests); }
