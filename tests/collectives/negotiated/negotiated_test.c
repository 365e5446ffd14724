/* T-HVD-1, 3, 4, 5, 6, 7: collectives by name between members of one process. */
#include "collectives/negotiated/negotiated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/collectives/world.h"
#include "tests/pace.h"
#include "tests/runner.h"

enum { MEMBERS = 4 };

typedef struct fixture {
  world_t w;
  int n;
  weft_negotiator_t *members[MEMBERS];
} fixture_t;

/* One submission and what came of it. */
typedef struct order {
  fixture_t *f;
  bool is_done; /* guarded by the world's mu, as those below */
  weft_status_t *status;
  weft_tensor_t *output;
} order_t;

static weft_negotiator_options_t defaults(void) {
  return (weft_negotiator_options_t){.fusion_bytes = -1, .cache_capacity = -1, .group_key = 1000};
}

static void begin(fixture_t *f, int n, weft_negotiator_options_t o) {
  memset(f, 0, sizeof *f);
  f->n = n;
  world_init(&f->w, n, 4, false, NULL);
  for (int i = 0; i < n; i++) {
    o.collectives = f->w.collectives[i];
    o.device = weft_str(f->w.devices[i]);
    o.rank = i;
    o.size = n;
    CU_ASSERT_PTR_NULL_FATAL(weft_negotiator_create(&o, &f->members[i]));
  }
}

static void end(fixture_t *f) {
  for (int i = 0; i < f->n; i++) weft_negotiator_destroy(f->members[i]);
  world_deinit(&f->w);
}

static void on_done(void *arg, weft_status_t *status, weft_tensor_t *output) {
  order_t *o = arg;
  weft_mutex_lock(&o->f->w.mu);
  o->status = status;
  o->output = output;
  o->is_done = true;
  weft_cond_broadcast(&o->f->w.changed);
  weft_mutex_unlock(&o->f->w.mu);
}

static void submit(fixture_t *f, int rank, const weft_named_request_t *r, weft_tensor_t *input, order_t *o) {
  *o = (order_t){.f = f};
  weft_negotiator_submit(f->members[rank], r, input, on_done, o);
}

static weft_code_t wait_for(order_t *o) {
  const int64_t deadline = weft_clock_ns() + 30 * INT64_C(1000000000);
  weft_mutex_lock(&o->f->w.mu);
  bool in_time = true;
  while (!o->is_done && in_time) in_time = weft_cond_wait_until(&o->f->w.changed, &o->f->w.mu, deadline);
  bool is_done = o->is_done;
  weft_mutex_unlock(&o->f->w.mu);
  CU_ASSERT_TRUE_FATAL(is_done);
  return weft_status_code(o->status);
}

static void drop(order_t *o) {
  weft_status_free(o->status);
  weft_tensor_release(o->output);
}

static weft_tensor_t *floats(const float *values, int n) {
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  if (n > 0) memcpy(t->data, values, (size_t)n * sizeof *values);
  return t;
}

static weft_tensor_t *doubles(const double *values, int n) {
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F64, &shape, NULL, &t));
  memcpy(t->data, values, (size_t)n * sizeof *values);
  return t;
}

static float at(const order_t *o, int i) { return ((const float *)o->output->data)[i]; }

static weft_named_request_t named(const char *name) {
  return (weft_named_request_t){.kind = WEFT_NAMED_ALL_REDUCE, .name = weft_str(name), .group = WEFT_STR("")};
}

/* All members submit a vector of n times `of_rank(rank)`; the codes must all be `wanted`. */
static void reduce_all(fixture_t *f, weft_named_request_t r, int n, order_t *orders) {
  for (int i = 0; i < f->n; i++) {
    float values[64];
    for (int k = 0; k < n; k++) values[k] = (float)(i + 1) * (float)(k + 1);
    weft_tensor_t *t = floats(values, n);
    submit(f, i, &r, t, &orders[i]);
    weft_tensor_release(t);
  }
  for (int i = 0; i < f->n; i++) wait_for(&orders[i]);
}

static void drop_all(fixture_t *f, order_t *orders) {
  for (int i = 0; i < f->n; i++) drop(&orders[i]);
}

static void expect_sums(fixture_t *f, const char *name, int n) {
  order_t orders[MEMBERS];
  float total = (float)(f->n * (f->n + 1) / 2);
  reduce_all(f, named(name), n, orders);
  for (int i = 0; i < f->n; i++) {
    CU_ASSERT_PTR_NULL_FATAL(orders[i].status);
    for (int k = 0; k < n; k++) CU_ASSERT_EQUAL(at(&orders[i], k), total * (float)(k + 1));
  }
  drop_all(f, orders);
}

/* ---- T-HVD-1 ---- */

enum { TENSORS = 100, ROUNDS = 50, THREADS = 4 };

typedef struct crowd {
  fixture_t *f;
  int round;
  order_t orders[MEMBERS][TENSORS];
  weft_tensor_t *inputs[MEMBERS][TENSORS];
} crowd_t;

typedef struct task {
  crowd_t *crowd;
  int rank, thread;
  unsigned seed;
} task_t;

static unsigned next_random(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* A quarter of a member's tensors, in an order of its own. */
static void submit_some(void *arg) {
  task_t *t = arg;
  int order[TENSORS / THREADS];
  for (int i = 0; i < TENSORS / THREADS; i++) order[i] = t->thread * (TENSORS / THREADS) + i;
  for (int i = TENSORS / THREADS - 1; i > 0; i--) {
    int k = (int)(next_random(&t->seed) >> 8) % (i + 1), was = order[i];
    order[i] = order[k];
    order[k] = was;
  }
  for (int i = 0; i < TENSORS / THREADS; i++) {
    char name[32];
    snprintf(name, sizeof name, "gradient_%d", order[i]);
    weft_named_request_t r = named(name);
    submit(t->crowd->f, t->rank, &r, t->crowd->inputs[t->rank][order[i]],
           &t->crowd->orders[t->rank][order[i]]);
  }
}

static void any_order_from_any_thread_gives_sums(void) {
  fixture_t f;
  static crowd_t crowd;
  static task_t tasks[MEMBERS][THREADS];
  weft_thread_pool_t *pool = NULL;
  begin(&f, MEMBERS, defaults());
  for (int round = 0; round < ROUNDS; round++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_thread_pool_create("submit", THREADS, &pool));
    crowd = (crowd_t){.f = &f, .round = round};
    for (int i = 0; i < MEMBERS; i++) {
      for (int k = 0; k < TENSORS; k++) {
        float values[8];
        for (int e = 0; e < 1 + k % 8; e++) values[e] = (float)(round + k * 8 + e + i);
        crowd.inputs[i][k] = floats(values, 1 + k % 8);
      }
    }
    for (int i = 0; i < MEMBERS; i++) {
      for (int t = 0; t < THREADS; t++) {
        tasks[i][t] = (task_t){&crowd, i, t, (unsigned)(round * 100 + i * 10 + t)};
        CU_ASSERT_TRUE_FATAL(weft_thread_pool_submit(pool, submit_some, &tasks[i][t]));
      }
    }
    weft_thread_pool_destroy(pool); /* all are submitted */
    int wrong = 0;
    for (int i = 0; i < MEMBERS; i++) {
      for (int k = 0; k < TENSORS; k++) {
        wrong += wait_for(&crowd.orders[i][k]) != WEFT_OK;
        for (int e = 0; e < 1 + k % 8; e++) {
          wrong += at(&crowd.orders[i][k], e) !=
                   (float)(MEMBERS * (round + k * 8 + e) + MEMBERS * (MEMBERS - 1) / 2);
        }
        drop(&crowd.orders[i][k]);
        weft_tensor_release(crowd.inputs[i][k]);
      }
    }
    CU_ASSERT_EQUAL_FATAL(wrong, 0);
  }
  end(&f);
}

/* ---- T-HVD-3 ---- */

static weft_negotiator_stats_t stats_of(fixture_t *f, int rank) {
  weft_negotiator_stats_t s;
  weft_negotiator_get_stats(f->members[rank], &s);
  return s;
}

static void the_steady_state_costs_one_vector_per_cycle(void) {
  fixture_t f;
  char name[32];
  begin(&f, 3, defaults());
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 70; i++) { /* 70 tensors and 3 status bits: two words */
      snprintf(name, sizeof name, "t%d", i);
      expect_sums(&f, name, 3);
    }
  }
  weft_negotiator_stats_t before = stats_of(&f, 1);
  for (int i = 0; i < 70; i++) {
    snprintf(name, sizeof name, "t%d", i);
    expect_sums(&f, name, 3);
  }
  weft_negotiator_stats_t after = stats_of(&f, 1);
  CU_ASSERT_EQUAL(after.vector_bytes, 16);
  CU_ASSERT_EQUAL(after.slow_cycles, before.slow_cycles);
  int64_t cycles = after.cycles - before.cycles, bytes = after.control_bytes - before.control_bytes;
  CU_ASSERT_TRUE(bytes >= (cycles - 2) * 16 &&
                 bytes <= (cycles + 2) * 16); /* a cycle may be between its two counts */
  expect_sums(&f, "t5", 4);                   /* another shape */
  weft_negotiator_stats_t changed = stats_of(&f, 1);
  CU_ASSERT_TRUE(changed.slow_cycles > after.slow_cycles && changed.slow_cycles <= after.slow_cycles + 3);
  expect_sums(&f, "t5", 4);
  expect_sums(&f, "t6", 3);
  CU_ASSERT_EQUAL(stats_of(&f, 1).slow_cycles, changed.slow_cycles);
  end(&f);
}

static void a_small_cache_forgets_the_oldest(void) {
  fixture_t f;
  char name[32];
  weft_negotiator_options_t o = defaults();
  o.cache_capacity = 4;
  begin(&f, 3, o);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 9; i++) {
      snprintf(name, sizeof name, "t%d", i);
      expect_sums(&f, name, 2);
    }
  }
  end(&f);
  o.cache_capacity = 0;
  begin(&f, 2, o);
  for (int round = 0; round < 3; round++) expect_sums(&f, "t", 2);
  end(&f);
}

static void many_small_tensors_go_together(void) {
  fixture_t f;
  enum { COUNT = 60 };
  static order_t orders[2][COUNT];
  weft_negotiator_options_t o = defaults();
  o.cycle_us = 20000; /* time to submit all within one */
  begin(&f, 2, o);
  for (int round = 0; round < 2; round++) {
    weft_negotiator_stats_t before = stats_of(&f, 0);
    for (int i = 0; i < 2; i++) {
      for (int k = 0; k < COUNT; k++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", k);
        weft_named_request_t r = named(name);
        float value = (float)(k + i);
        weft_tensor_t *t = floats(&value, 1);
        submit(&f, i, &r, t, &orders[i][k]);
        weft_tensor_release(t);
      }
    }
    for (int i = 0; i < 2; i++) {
      for (int k = 0; k < COUNT; k++) {
        CU_ASSERT_EQUAL(wait_for(&orders[i][k]), WEFT_OK);
        CU_ASSERT_EQUAL(at(&orders[i][k], 0), (float)(2 * k + 1));
        drop(&orders[i][k]);
      }
    }
    weft_negotiator_stats_t after = stats_of(&f, 0);
    CU_ASSERT_EQUAL(after.tensors - before.tensors, COUNT);
    CU_ASSERT_TRUE(after.batches - before.batches <= 4);
  }
  end(&f);
}

/* ---- T-HVD-7 ---- */

enum { SMALL_TENSORS = 1000, SMALL_FLOATS = 1024 };

/* Seconds for a thousand tensors of 4 KiB over links with a latency, when all are known from before. */
static double seconds_for_small_tensors(int64_t fusion_bytes) {
  fixture_t f;
  static order_t orders[2][SMALL_TENSORS];
  static float values[SMALL_FLOATS];
  double took = 0;
  weft_negotiator_options_t o = defaults();
  o.fusion_bytes = fusion_bytes;
  begin(&f, 2, o);
  CU_ASSERT_PTR_NULL_FATAL(
      weft_local_hub_set_link(f.w.hub, WEFT_STR(""), WEFT_STR(""), (weft_link_model_t){.alpha_us = 100}));
  weft_tensor_t *t = floats(values, SMALL_FLOATS);
  for (int round = 0; round < 2; round++) {
    int64_t start = weft_clock_ns();
    for (int k = 0; k < SMALL_TENSORS; k++) {
      char name[32];
      snprintf(name, sizeof name, "t%d", k);
      weft_named_request_t r = named(name);
      for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i][k]);
    }
    for (int k = 0; k < SMALL_TENSORS; k++) {
      for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(wait_for(&orders[i][k]), WEFT_OK);
        drop(&orders[i][k]);
      }
    }
    took = (double)(weft_clock_ns() - start) / 1e9;
  }
  weft_tensor_release(t);
  end(&f);
  return took;
}

/* A busy machine makes the work of a thousand names dearer than it is beside their messages, and so is asked
 * again. A sanitizer does so always. */
static void fusion_saves_latency(void) {
  enum { TRIES = 5, LEAST_RATIO = WEFT_TEST_IS_SANITIZED ? 0 : 10 };
  bool saves = false;
  for (int i = 0; i < TRIES && !saves; i++) {
    double fused = seconds_for_small_tensors(-1), alone = seconds_for_small_tensors(0);
    saves = alone >= LEAST_RATIO * fused;
    if (getenv("WEFT_SHOW_TIMES") != NULL || !saves)
      fprintf(stderr, "fused %.4f s, each alone %.4f s\n", fused, alone);
  }
  CU_ASSERT_TRUE(saves);
}

/* ---- T-HVD-4 ---- */

static void expect_refusal(fixture_t *f, weft_named_request_t *requests, weft_tensor_t *const *inputs,
                           const char *text, const char *text2) {
  order_t orders[MEMBERS];
  for (int i = 0; i < f->n; i++) submit(f, i, &requests[i], inputs[i], &orders[i]);
  for (int i = 0; i < f->n; i++) {
    CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_INVALID_ARGUMENT);
    const char *message = weft_status_message(orders[i].status);
    CU_ASSERT_PTR_NOT_NULL(strstr(message, text));
    CU_ASSERT_PTR_NOT_NULL(strstr(message, text2));
    CU_ASSERT_PTR_NOT_NULL(strstr(message, "'bad'"));
    drop(&orders[i]);
  }
}

static void what_members_say_differently_is_an_error_for_all(void) {
  fixture_t f;
  const float one[] = {1, 2};
  const double wide[] = {1, 2};
  begin(&f, 3, defaults());
  expect_sums(&f, "bad", 2); /* it is in the caches, too */
  weft_tensor_t *two = floats(one, 2), *single = floats(one, 1), *f64 = doubles(wide, 2);
  weft_named_request_t r[] = {named("bad"), named("bad"), named("bad")};
  expect_refusal(&f, r, (weft_tensor_t *[]){two, two, f64}, "rank 0 has float", "rank 2 has double");
  expect_refusal(&f, r, (weft_tensor_t *[]){two, single, two}, "rank 0 has [2]", "rank 1 has [1]");
  r[1].reduction = WEFT_REDUCE_MAX;
  expect_refusal(&f, r, (weft_tensor_t *[]){two, two, two}, "rank 0 has sum", "rank 1 has max");
  r[1] = r[2] = r[0];
  r[2].kind = WEFT_NAMED_ALL_GATHER;
  expect_refusal(&f, r, (weft_tensor_t *[]){two, two, two}, "has all-reduce", "has all-gather");
  for (int i = 0; i < 3; i++) r[i].kind = WEFT_NAMED_BROADCAST;
  r[1].root = 2;
  expect_refusal(&f, r, (weft_tensor_t *[]){two, two, two}, "rank 0 has 0", "rank 1 has 2");
  expect_sums(&f, "bad", 2);
  expect_sums(&f, "bad", 2);
  weft_tensor_release(two);
  weft_tensor_release(single);
  weft_tensor_release(f64);
  end(&f);
}

static void a_name_used_twice_is_refused_where_it_is(void) {
  fixture_t f;
  order_t orders[2], again;
  const float one[] = {1};
  begin(&f, 2, defaults());
  weft_tensor_t *t = floats(one, 1);
  weft_named_request_t r = named("t");
  submit(&f, 0, &r, t, &orders[0]);
  submit(&f, 0, &r, t, &again);
  CU_ASSERT_EQUAL(wait_for(&again), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(again.status), "'t'"));
  submit(&f, 1, &r, t, &orders[1]);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_OK);
    CU_ASSERT_EQUAL(at(&orders[i], 0), 2);
    drop(&orders[i]);
  }
  drop(&again);
  weft_tensor_release(t);
  end(&f);
}

static void gathers_and_broadcasts(void) {
  fixture_t f;
  order_t orders[3];
  begin(&f, 3, defaults());
  for (int round = 0; round < 3; round++) {
    weft_named_request_t r = named("rows");
    r.kind = WEFT_NAMED_ALL_GATHER;
    for (int i = 0; i < 3; i++) { /* rank i has i rows */
      float values[] = {(float)i, (float)i};
      weft_tensor_t *t = floats(values, i);
      submit(&f, i, &r, t, &orders[i]);
      weft_tensor_release(t);
    }
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_EQUAL_FATAL(wait_for(&orders[i]), WEFT_OK);
      CU_ASSERT_EQUAL_FATAL(orders[i].output->count, 3);
      CU_ASSERT_TRUE(at(&orders[i], 0) == 1 && at(&orders[i], 1) == 2 && at(&orders[i], 2) == 2);
    }
    drop_all(&f, orders);
    r = named("from_1");
    r.kind = WEFT_NAMED_BROADCAST;
    r.root = 1;
    reduce_all(&f, r, 3, orders);
    for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(orders[i].status == NULL && at(&orders[i], 2) == 6);
    drop_all(&f, orders);
    r = named("scaled");
    r.prescale = 2;
    r.postscale = 0.5;
    r.is_mean = true;
    reduce_all(&f, r, 3, orders);
    for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(orders[i].status == NULL && at(&orders[i], 1) == 4);
    drop_all(&f, orders);
  }
  end(&f);
}

static void a_group_goes_together_or_not_at_all(void) {
  fixture_t f;
  order_t a[2], b[2], other[2];
  const float one[] = {1};
  begin(&f, 2, defaults());
  weft_tensor_t *t = floats(one, 1);
  for (int round = 0; round < 3; round++) {
    weft_named_request_t ra = named("a"), rb = named("b"), free_one = named("free");
    ra.group = rb.group = WEFT_STR("pair");
    ra.group_members = rb.group_members = 2;
    submit(&f, 0, &ra, t, &a[0]);
    submit(&f, 1, &ra, t, &a[1]);
    for (int i = 0; i < 2; i++) submit(&f, i, &free_one, t, &other[i]);
    for (int i = 0; i < 2; i++)
      CU_ASSERT_EQUAL(wait_for(&other[i]), WEFT_OK); /* later cycles than a's have passed */
    weft_mutex_lock(&f.w.mu);
    bool too_early = a[0].is_done || a[1].is_done;
    weft_mutex_unlock(&f.w.mu);
    CU_ASSERT_FALSE(too_early);
    for (int i = 0; i < 2; i++) submit(&f, i, &rb, t, &b[i]);
    for (int i = 0; i < 2; i++) {
      CU_ASSERT_EQUAL(wait_for(&a[i]), WEFT_OK);
      CU_ASSERT_EQUAL(wait_for(&b[i]), WEFT_OK);
      drop(&a[i]);
      drop(&b[i]);
      drop(&other[i]);
    }
  }
  weft_tensor_release(t);
  end(&f);
}

static void process_sets_run_beside_each_other(void) {
  fixture_t f;
  order_t orders[4], stranger;
  static const int even[] = {0, 2}, odd[] = {1, 3};
  const weft_process_set_t sets[] = {{even, 2}, {odd, 2}};
  weft_negotiator_options_t o = defaults();
  o.sets = sets;
  o.num_sets = 2;
  begin(&f, 4, o);
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < 4; i++) {
      float value = (float)(1 << i);
      weft_tensor_t *t = floats(&value, 1);
      weft_named_request_t r = named("same name");
      r.process_set = 1 + i % 2;
      submit(&f, i, &r, t, &orders[i]);
      weft_tensor_release(t);
    }
    for (int i = 0; i < 4; i++) {
      CU_ASSERT_EQUAL_FATAL(wait_for(&orders[i]), WEFT_OK);
      CU_ASSERT_EQUAL(at(&orders[i], 0), i % 2 == 0 ? 5 : 10);
    }
    drop_all(&f, orders);
    expect_sums(&f, "same name", 2);
  }
  float value = 1;
  weft_tensor_t *t = floats(&value, 1);
  weft_named_request_t r = named("x");
  r.process_set = 2;
  submit(&f, 0, &r, t, &stranger);
  CU_ASSERT_EQUAL(wait_for(&stranger), WEFT_INVALID_ARGUMENT);
  drop(&stranger);
  weft_tensor_release(t);
  end(&f);
}

static void a_joined_member_gives_zeros(void) {
  fixture_t f;
  order_t joins[3], orders[3];
  weft_named_request_t join = {.kind = WEFT_NAMED_JOIN, .name = WEFT_STR(""), .group = WEFT_STR("")};
  const float one[] = {1};
  begin(&f, 3, defaults());
  expect_sums(&f, "cached", 1);
  weft_tensor_t *t = floats(one, 1);
  for (int round = 0; round < 2; round++) {
    submit(&f, 2, &join, NULL, &joins[2]);
    const char *const names[] = {"cached", "new"};
    for (int k = 0; k < 2; k++) {
      weft_named_request_t r = named(names[k]);
      for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i]);
      for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(wait_for(&orders[i]), WEFT_OK);
        CU_ASSERT_EQUAL(at(&orders[i], 0), 2);
        drop(&orders[i]);
      }
    }
    weft_named_request_t gather = named("rows");
    gather.kind = WEFT_NAMED_ALL_GATHER;
    for (int i = 0; i < 2; i++) submit(&f, i, &gather, t, &orders[i]);
    for (int i = 0; i < 2; i++) {
      CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_INVALID_ARGUMENT);
      CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(orders[i].status), "joined"));
      drop(&orders[i]);
    }
    for (int i = 0; i < 2; i++) submit(&f, i, &join, NULL, &joins[i]);
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_EQUAL(wait_for(&joins[i]), WEFT_OK);
      drop(&joins[i]);
    }
    expect_sums(&f, "after", 2);
  }
  weft_tensor_release(t);
  end(&f);
}

/* ---- T-HVD-5 ---- */

typedef struct report {
  weft_mutex_t mu;
  weft_cond_t came;
  int missing; /* guarded by mu, as the name */
  char name[32];
} report_t;

static void on_stall(void *arg, weft_str_t name, const int *missing, int num_missing, double waited_s) {
  report_t *r = arg;
  (void)waited_s;
  weft_mutex_lock(&r->mu);
  r->missing = num_missing == 1 ? missing[0] : -1;
  snprintf(r->name, sizeof r->name, "%.*s", WEFT_STR_ARGS(name));
  weft_cond_broadcast(&r->came);
  weft_mutex_unlock(&r->mu);
}

static void expect_report(report_t *r, const char *name, int missing) {
  const int64_t deadline = weft_clock_ns() + 20 * INT64_C(1000000000);
  weft_mutex_lock(&r->mu);
  bool in_time = true;
  while (!(r->missing == missing && strcmp(r->name, name) == 0) && in_time)
    in_time = weft_cond_wait_until(&r->came, &r->mu, deadline); /* on a busy machine others may stall, too */
  CU_ASSERT_EQUAL(r->missing, missing);
  CU_ASSERT_STRING_EQUAL(r->name, name);
  weft_mutex_unlock(&r->mu);
}

static void a_stall_is_told_with_tensor_and_rank(void) {
  fixture_t f;
  order_t orders[3];
  report_t report = {.missing = -1};
  const float one[] = {1};
  weft_negotiator_options_t o = defaults();
  o.stall_warning_ms = 150;
  o.on_stall = on_stall;
  o.on_stall_arg = &report;
  weft_mutex_init(&report.mu);
  weft_cond_init(&report.came);
  begin(&f, 3, o);
  weft_tensor_t *t = floats(one, 1);
  expect_sums(&f, "late", 1);
  for (int round = 0; round < 2; round++) { /* known from the caches; then not */
    weft_named_request_t r = named(round == 0 ? "late" : "later");
    for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i]);
    expect_report(&report, round == 0 ? "late" : "later", 2);
    submit(&f, 2, &r, t, &orders[2]);
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_OK);
      drop(&orders[i]);
    }
  }
  weft_tensor_release(t);
  end(&f);
  weft_cond_deinit(&report.came);
  weft_mutex_deinit(&report.mu);
}

static void a_stall_that_lasts_ends_all(void) {
  fixture_t f;
  order_t orders[3], late;
  const float one[] = {1};
  weft_negotiator_options_t o = defaults();
  o.stall_warning_ms = 50;
  o.stall_shutdown_ms = 300;
  begin(&f, 3, o);
  weft_tensor_t *t = floats(one, 1);
  weft_named_request_t r = named("withheld"), other = named("other");
  for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i]);
  submit(&f, 2, &other, t, &orders[2]);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_ABORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(orders[i].status), "'withheld' waits for rank 2"));
    drop(&orders[i]);
  }
  submit(&f, 1, &r, t, &late);
  CU_ASSERT_EQUAL(wait_for(&late), WEFT_ABORTED);
  drop(&late);
  weft_tensor_release(t);
  end(&f);
}

static void a_member_that_leaves_ends_all(void) {
  fixture_t f;
  order_t orders[2];
  const float one[] = {1};
  begin(&f, 3, defaults());
  weft_tensor_t *t = floats(one, 1);
  weft_named_request_t r = named("t");
  for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i]);
  weft_negotiator_destroy(f.members[2]);
  f.members[2] = NULL;
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_ABORTED);
    drop(&orders[i]);
  }
  weft_tensor_release(t);
  end(&f);
}

static void a_member_that_dies_is_named(void) {
  fixture_t f;
  order_t orders[2];
  const float one[] = {1};
  begin(&f, 3, defaults());
  expect_sums(&f, "t", 1);
  weft_tensor_t *t = floats(one, 1);
  weft_named_request_t r = named("t");
  for (int i = 0; i < 2; i++) submit(&f, i, &r, t, &orders[i]);
  weft_local_hub_kill(f.w.hub, weft_str(f.w.tasks[2]));
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(wait_for(&orders[i]), WEFT_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(orders[i].status), f.w.tasks[2]));
    drop(&orders[i]);
  }
  weft_tensor_release(t);
  end(&f);
}

/* ---- T-HVD-6 ---- */

static void pair_of(const double *a, const double *b, int n, double *out) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 0; i < n; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  for (int i = 0; i < n; i++) out[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
}

/* `values`: per rank, n each. */
static void expect_adasum(int members, const double *values, int n, const double *wanted) {
  fixture_t f;
  order_t orders[MEMBERS];
  weft_named_request_t r = named("delta");
  r.kind = WEFT_NAMED_ADASUM;
  begin(&f, members, defaults());
  for (int i = 0; i < members; i++) {
    weft_tensor_t *t = doubles(values + i * n, n);
    submit(&f, i, &r, t, &orders[i]);
    weft_tensor_release(t);
  }
  for (int i = 0; i < members; i++) {
    CU_ASSERT_EQUAL_FATAL(wait_for(&orders[i]), WEFT_OK);
    const double *got = (const double *)orders[i].output->data;
    for (int k = 0; k < n; k++) CU_ASSERT_TRUE(fabs(got[k] - wanted[k]) <= 1e-12 * (1 + fabs(wanted[k])));
    CU_ASSERT_EQUAL(memcmp(got, orders[0].output->data, (size_t)n * sizeof *got), 0);
  }
  drop_all(&f, orders);
  end(&f);
}

static void adasum_adds_what_is_orthogonal_and_averages_what_is_equal(void) {
  expect_adasum(2, (const double[]){1, 0, 0, 2}, 2, (const double[]){1, 2});
  expect_adasum(2, (const double[]){3, -1, 3, -1}, 2, (const double[]){3, -1});
  expect_adasum(2, (const double[]){1, 0, 1, 1}, 2, (const double[]){1.25, 0.75});
  expect_adasum(2, (const double[]){0, 0, 1, 1}, 2, (const double[]){1, 1});
}

static void adasum_of_four_is_of_pairs_of_pairs(void) {
  enum { N = 7 };
  double values[4 * N], ab[N], cd[N], wanted[N];
  for (int i = 0; i < 4 * N; i++) values[i] = sin(1.7 * i) * 3;
  pair_of(values, values + N, N, ab);
  pair_of(values + 2 * N, values + 3 * N, N, cd);
  pair_of(ab, cd, N, wanted);
  expect_adasum(4, values, N, wanted);
}

static void adasum_of_three_is_refused(void) {
  fixture_t f;
  order_t orders[3];
  weft_named_request_t r = named("delta");
  r.kind = WEFT_NAMED_ADASUM;
  begin(&f, 3, defaults());
  reduce_all(&f, r, 2, orders);
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(weft_status_code(orders[i].status), WEFT_INVALID_ARGUMENT);
  drop_all(&f, orders);
  end(&f);
}

static const CU_TestInfo tests[] = {
    {"any order from any thread gives sums", any_order_from_any_thread_gives_sums},
    {"the steady state costs one vector per cycle", the_steady_state_costs_one_vector_per_cycle},
    {"a small cache forgets the oldest", a_small_cache_forgets_the_oldest},
    {"many small tensors go together", many_small_tensors_go_together},
    {"fusion saves latency", fusion_saves_latency},
    {"what members say differently is an error for all", what_members_say_differently_is_an_error_for_all},
    {"a name used twice is refused where it is", a_name_used_twice_is_refused_where_it_is},
    {"gathers and broadcasts", gathers_and_broadcasts},
    {"a group goes together or not at all", a_group_goes_together_or_not_at_all},
    {"process sets run beside each other", process_sets_run_beside_each_other},
    {"a joined member gives zeros", a_joined_member_gives_zeros},
    {"a stall is told with tensor and rank", a_stall_is_told_with_tensor_and_rank},
    {"a stall that lasts ends all", a_stall_that_lasts_ends_all},
    {"a member that leaves ends all", a_member_that_leaves_ends_all},
    {"a member that dies is named", a_member_that_dies_is_named},
    {"Adasum adds what is orthogonal and averages what is equal",
     adasum_adds_what_is_orthogonal_and_averages_what_is_equal},
    {"Adasum of four is of pairs of pairs", adasum_of_four_is_of_pairs_of_pairs},
    {"Adasum of three is refused", adasum_of_three_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("negotiated", tests); }
