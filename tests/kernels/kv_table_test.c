/* Tables of keys and values: rules, policies, requests seen twice, snapshots; cutting keys by server. */
#include "kernels/cpu/kv_table_object.h"

#include <pthread.h>
#include <stdio.h>

#include "kernels/kv_slice.h"
#include "tests/kernels/script.h"
#include "tests/runner.h"

static weft_bench_t bench;
static void begin(void) { CU_ASSERT_PTR_NULL_FATAL(weft_bench_init(&bench)); }
static void end(void) { weft_bench_deinit(&bench); }

#define RUN(value, calls) weft_expect_all(&bench, value, calls, sizeof(calls) / sizeof((calls)[0]))
#define PUSH "WeftKvPush", "dtype=float"
#define PULL "WeftKvPull", "dtype=float"
#define ANYBODY " int64[]:-1 int64[]:-1 int64[]:0"

static void pushes_add_up(void) {
  static const weft_call_t calls[] = {
      {PULL, "int64[2]:5,-7 int64[]:-1 int64[]:-1", "float[2,2]:0.5,0.5,0.5,0.5 int64[]:0"},
      {"WeftKvSize", "", "", "int64[]:0"}, /* looking makes no rows */
      {PUSH, "int64[2]:5,-7 float[2,2]:1,2,3,4" ANYBODY, "bool[]:1 int64[]:0"},
      {PUSH, "int64[3]:5,5,9 float[3,2]:1,1,1,1,8,8" ANYBODY, "bool[]:1 int64[]:0"},
      {PULL, "int64[3]:9,-7,5 int64[]:-1 int64[]:-1", "float[3,2]:8.5,8.5,3.5,4.5,3.5,4.5 int64[]:0"},
      {"WeftKvSize", "", "", "int64[]:3"},
      {PUSH, "int64[0]: float[0,2]:" ANYBODY, "bool[]:1 int64[]:0"},
      {PULL, "int64[0]: int64[]:-1 int64[]:-1", "float[0,2]: int64[]:0"},
      {PUSH, "int64[1]:5 float[1,3]:1,2,3" ANYBODY,
       "INVALID_ARGUMENT: 1 keys of width 2 cannot have values of shape [1,3]"},
      {PUSH, "int64[1,1]:5 float[1,2]:1,2" ANYBODY,
       "INVALID_ARGUMENT: keys must be a vector, but have shape [1,1]"},
      {"WeftKvPush", "dtype=double", "int64[1]:5 double[1,2]:1,2" ANYBODY,
       "INVALID_ARGUMENT: WeftKvPush of double on a table of float"},
      {PUSH, "int64[1]:5 float[1,2]:1,2 int64[]:-2 int64[]:-1 int64[]:0",
       "INVALID_ARGUMENT: worker -2 is below -1"},
      {"WeftKvPullLens", "dtype=float", "int64[1]:5 int64[]:-1 int64[]:-1",
       "INVALID_ARGUMENT: a table with a width gives no lens"},
      {PUSH, "int64[1]:6 float[1,2]:0,0" ANYBODY, "RESOURCE_EXHAUSTED: no room for key 6 beside 3 others"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "dtype=float width=2 init_value=0.5 max_rows=3");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

static void every_rule_does_its_own(void) {
  static const struct {
    const char *attrs, *after_one, *after_two;
  } rules[] = {
      {"apply=assign", "float[1,1]:2 int64[]:0", "float[1,1]:4 int64[]:0"},
      {"apply=add", "float[1,1]:2 int64[]:0", "float[1,1]:6 int64[]:0"},
      {"apply=sgd learning_rate=0.5", "float[1,1]:-1 int64[]:0", "float[1,1]:-3 int64[]:0"},
      {"apply=momentum learning_rate=0.5 momentum=0.5", "float[1,1]:-1 int64[]:0",
       "float[1,1]:-3.5 int64[]:0"},
      {"apply=adagrad learning_rate=1", "float[1,1]:-1 int64[]:0", NULL},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    begin();
    weft_made_t t = weft_make(&bench, "WeftKvTable", rules[i].attrs);
    weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1,1]:2" ANYBODY, "bool[]:1 int64[]:0");
    weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", rules[i].after_one);
    weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1]:4" ANYBODY, "bool[]:1 int64[]:0");
    if (rules[i].after_two != NULL)
      weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", rules[i].after_two);
    weft_made_drop(&t);
    end();
  }
}

static void rows_may_have_lengths_of_their_own(void) {
  static const weft_call_t calls[] = {
      {"WeftKvPushLens", "dtype=float", "int64[2]:1,2 float[5]:1,2,3,4,5 int64[2]:2,3" ANYBODY,
       "bool[]:1 int64[]:0"},
      {"WeftKvPullLens", "dtype=float", "int64[3]:2,7,1 int64[]:-1 int64[]:-1",
       "float[5]:3,4,5,1,2 int64[3]:3,0,2 int64[]:0"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[2]:1,1 int64[1]:2" ANYBODY, "bool[]:1 int64[]:0"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:3" ANYBODY,
       "INVALID_ARGUMENT: key 1 has 2 values, not 3"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:2" ANYBODY,
       "INVALID_ARGUMENT: the lens add up to 2, but there are 3 values"},
      {"WeftKvPushLens", "dtype=float", "int64[1]:1 float[3]:1,1,1 int64[1]:4" ANYBODY,
       "INVALID_ARGUMENT: key 1 has a length of 4 of 3 values"},
      {PUSH, "int64[1]:1 float[1,1]:1" ANYBODY, "INVALID_ARGUMENT: a table without a width needs lens"},
      {"WeftKvPullLens", "dtype=float", "int64[1]:1 int64[]:-1 int64[]:-1",
       "float[2]:2,3 int64[1]:2 int64[]:0"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "width=0");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

static void a_request_that_was_seen_is_not_applied_again(void) {
  static const weft_call_t calls[] = {
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10", "bool[]:0 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:4 int64[]:-1 int64[]:10",
       "bool[]:1 int64[]:0"}, /* another worker's */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:9",
       "bool[]:1 int64[]:0"}, /* out of order */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:9", "bool[]:0 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:2000", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:976",
       "bool[]:0 int64[]:0"}, /* too old to tell */
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:977", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,2]:1,1 int64[]:3 int64[]:-1 int64[]:2001",
       "INVALID_ARGUMENT: 1 keys of width 1 cannot have values of shape [1,2]"},
      {PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:2001",
       "bool[]:1 int64[]:0"}, /* the failure was not seen */
      {PULL, "int64[1]:1 int64[]:-1 int64[]:-1", "float[1,1]:6 int64[]:0"},
      {"WeftKvAttach", "", "int64[]:3", "int64[]:0 int64[]:2001"},
      {"WeftKvAttach", "", "int64[]:8", "int64[]:0 int64[]:0"},
      {"WeftKvAttach", "greets=true", "int64[]:8", "int64[]:0 int64[]:0"},
      {"WeftKvAttach", "", "int64[]:8", "int64[]:0 int64[]:1"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

/* ---- policies ---- */

#define PUSH_PULL "WeftKvPushPull", "dtype=float"

static void bulk_synchronous_pushes_wait_for_all(void) {
  static const weft_call_t calls[] = {
      {"WeftKvPush", "dtype=float advance=true", "int64[1]:1 float[1,1]:6 int64[]:1 int64[]:0 int64[]:1",
       "bool[]:1 int64[]:0"},
      {PULL, "int64[1]:1 int64[]:0 int64[]:-1", "float[1,1]:0 int64[]:0"}, /* worker 0 is still at clock 0 */
      {PUSH_PULL, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:0 int64[]:1", "float[1,1]:-4 int64[]:1"},
      {PULL, "int64[1]:1 int64[]:1 int64[]:1", "float[1,1]:-4 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:0 int64[]:2", "bool[]:0 int64[]:1"}, /* too late */
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:5 int64[]:3",
       "FAILED_PRECONDITION: worker 0 pushes for clock 5, but is at 1"},
      {"WeftClockRead", "", "", "int64[2]:1,1"},
      {"WeftClockRemove", "", "int64[]:1", ""},
      {PUSH_PULL, "int64[1]:1 float[1,1]:2 int64[]:0 int64[]:-1 int64[]:4",
       "float[1,1]:-6 int64[]:2"}, /* alone now */
      {PULL, "int64[1]:1 int64[]:2 int64[]:-1",
       "INVALID_ARGUMENT: worker 2 is not one of the 2 workers of the clock"},
  };
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable",
                            "apply=sgd learning_rate=1 num_workers=2 policy=BSP reduction_type=MEAN");
  RUN(t.value, calls);
  weft_canceller_cancel(bench.canceller);
  weft_expect(&bench, t.value, PULL, "int64[1]:1 int64[]:0 int64[]:9", "CANCELLED: The pull was cancelled");
  weft_made_drop(&t);
  end();
}

static void the_first_k_of_w_count(void) {
  static const weft_call_t calls[] = {
      {PUSH, "int64[1]:1 float[1,1]:3 int64[]:2 int64[]:0 int64[]:1", "bool[]:1 int64[]:0"},
      {PUSH, "int64[1]:1 float[1,1]:5 int64[]:0 int64[]:0 int64[]:1", "bool[]:1 int64[]:1"},
      {PULL, "int64[1]:1 int64[]:0 int64[]:-1", "float[1,1]:4 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:100 int64[]:1 int64[]:0 int64[]:1",
       "bool[]:0 int64[]:1"},                                              /* late: dropped */
      {PULL, "int64[1]:1 int64[]:1 int64[]:-1", "float[1,1]:4 int64[]:1"}, /* and goes on with the others */
      {PUSH, "int64[1]:1 float[1,1]:2 int64[]:1 int64[]:1 int64[]:2", "bool[]:1 int64[]:1"},
      {PUSH, "int64[1]:1 float[1,1]:4 int64[]:2 int64[]:1 int64[]:2", "bool[]:1 int64[]:2"},
      {PULL, "int64[1]:1 int64[]:1 int64[]:-1", "float[1,1]:7 int64[]:2"},
  };
  begin();
  weft_made_t t =
      weft_make(&bench, "WeftKvTable", "num_workers=3 policy=K_OF_W required=2 reduction_type=MEAN");
  RUN(t.value, calls);
  weft_made_drop(&t);
  end();
}

/* A pull on the object, without a harness. */
typedef struct pulled {
  weft_kernel_ctx_t ctx;
  weft_value_t outputs[3];
  weft_step_t step;
  bool is_done;
  weft_code_t code;
  double value;
} pulled_t;

static void on_pulled(weft_kernel_ctx_t *ctx, weft_status_t *s) {
  pulled_t *p = (pulled_t *)(void *)ctx;
  p->is_done = true;
  p->code = weft_status_code(s);
  if (s == NULL) p->value = *(double *)p->outputs[0].tensor->data;
  for (int i = 0; i < 3; i++) weft_tensor_release(p->outputs[i].tensor);
  weft_status_free(s);
}

static weft_tensor_t *key_tensor;
static void start_pull(weft_object_t *o, pulled_t *p, int64_t worker) {
  *p = (pulled_t){.is_done = false};
  p->ctx.outputs = p->outputs;
  p->ctx.step = &p->step;
  p->ctx.done = on_pulled;
  weft_kv_table_pull((weft_kv_table_t *)o, &p->ctx, key_tensor, worker, -1, false,
                     (weft_clock_patience_t){0});
}

static void push_one(weft_object_t *o, int64_t worker, double value) {
  weft_tensor_t *values = NULL;
  weft_shape_t one = weft_shape_vector(1);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F64, &one, NULL, &values));
  *(double *)values->data = value;
  weft_kv_push_t p = {.keys = key_tensor, .values = values, .worker = worker, .clock = -1, .advances = true};
  bool is_new = false;
  int64_t clock = 0;
  CU_ASSERT_PTR_NULL(weft_kv_table_push((weft_kv_table_t *)o, &p, &is_new, &clock));
  CU_ASSERT_TRUE(is_new);
  weft_tensor_release(values);
}

static weft_object_t *fresh(weft_kv_policy_t policy, int64_t staleness, int workers) {
  weft_kv_config_t c = {.dtype = WEFT_F64,
                        .width = 1,
                        .rule = WEFT_KV_SGD,
                        .learning_rate = 0.1,
                        .policy = policy,
                        .staleness = staleness,
                        .is_mean = true};
  weft_object_t *o = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_create(&c, workers, NULL, 0, &o));
  return o;
}

static void begin_objects(void) {
  weft_shape_t one = weft_shape_vector(1);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I64, &one, NULL, &key_tensor));
  *(int64_t *)key_tensor->data = 4;
}

enum { WORKERS = 4, STEPS = 1000 };

/* Workers minimize (w - worker)^2: each round, those whose pull was answered push. `seed` picks who goes
 * first, and worker 3 moves only every tenth round. Returns the last value; *out_spread gets the largest
 * distance of clocks. */
static double train(weft_kv_policy_t policy, int64_t staleness, int steps, uint64_t seed,
                    int64_t *out_spread) {
  weft_object_t *o = fresh(policy, staleness, WORKERS);
  pulled_t pulls[WORKERS];
  int64_t done[WORKERS] = {0}, clocks[WORKERS];
  *out_spread = 0;
  for (int i = 0; i < WORKERS; i++) start_pull(o, &pulls[i], i);
  for (int round = 0; done[0] < steps || done[1] < steps || done[2] < steps || done[3] < steps; round++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    for (int k = 0; k < WORKERS; k++) {
      int i = (int)(((uint64_t)k + (seed >> 33)) % WORKERS);
      if (!pulls[i].is_done || done[i] == steps || (i == 3 && round % 10 != 0)) continue;
      push_one(o, i, 2 * (pulls[i].value - i));
      if (++done[i] < steps) start_pull(o, &pulls[i], i);
      weft_clocked_read((weft_clocked_t *)o, clocks);
      int64_t low = INT64_MAX, high = 0;
      for (int j = 0; j < WORKERS; j++) {
        if (clocks[j] < low) low = clocks[j];
        if (clocks[j] > high) high = clocks[j];
      }
      if (high - low > *out_spread) *out_spread = high - low;
    }
    if (round > 100 * STEPS) break; /* stuck */
  }
  for (int i = 0; i < WORKERS; i++) CU_ASSERT_EQUAL(done[i], steps);
  pulled_t last;
  start_pull(o, &last, 0);
  CU_ASSERT_TRUE(last.is_done && last.code == WEFT_OK);
  weft_object_release(o);
  return last.value;
}

static void bulk_synchronous_is_one_process_bit_for_bit(void) {
  int64_t spread = 0;
  begin_objects();
  double w = 0, first = train(WEFT_KV_BSP, 0, 200, 1, &spread);
  CU_ASSERT_TRUE(spread <= 1);
  for (int t = 0; t < 200; t++) { /* one process, the mean gradient in the order of workers */
    double sum = 0;
    for (int i = 0; i < WORKERS; i++) sum += 2 * (w - i);
    w -= 0.1 * (sum / WORKERS);
  }
  CU_ASSERT_EQUAL(first, w);
  CU_ASSERT_EQUAL(first, train(WEFT_KV_BSP, 0, 200, 77, &spread)); /* whoever comes first */
  CU_ASSERT_EQUAL(first, train(WEFT_KV_SSP, 0, 200, 5, &spread));  /* no staleness is bulk synchronous */
  weft_tensor_release(key_tensor);
}

/* How many steps all workers do in 1000 rounds, in which worker 3 moves a hundred times. */
static int64_t steps_in_rounds(weft_kv_policy_t policy, int64_t staleness) {
  weft_object_t *o = fresh(policy, staleness, WORKERS);
  pulled_t pulls[WORKERS];
  int64_t steps = 0;
  for (int i = 0; i < WORKERS; i++) start_pull(o, &pulls[i], i);
  for (int round = 0; round < 1000; round++) {
    for (int i = 0; i < WORKERS; i++) {
      if (!pulls[i].is_done || (i == 3 && round % 10 != 0)) continue;
      push_one(o, i, 2 * (pulls[i].value - i));
      start_pull(o, &pulls[i], i);
      steps++;
    }
  }
  weft_clocked_abandon(o); /* who still waits */
  weft_object_release(o);
  return steps;
}

static void a_straggler_slows_only_those_who_wait_for_it(void) {
  begin_objects();
  int64_t asp = steps_in_rounds(WEFT_KV_ASP, 0), bsp = steps_in_rounds(WEFT_KV_BSP, 0);
  CU_ASSERT_TRUE(2 * asp >= 7 * bsp); /* 3.5 times as many */
  CU_ASSERT_TRUE(bsp >= 4 * 100 && bsp <= 4 * 101);
  weft_tensor_release(key_tensor);
}

static void staleness_is_bounded_over_1000_steps(void) {
  begin_objects();
  for (int64_t s = 0; s < 5; s++) {
    int64_t spread = 0;
    double w = train(WEFT_KV_SSP, s, STEPS, (uint64_t)s, &spread);
    CU_ASSERT_TRUE(spread <= s + 1);
    CU_ASSERT_TRUE(spread >= 1); /* the fast ones did go ahead */
    CU_ASSERT_TRUE(w > 0 && w < 3);
  }
  weft_tensor_release(key_tensor);
}

/* ---- many at once: T-PSL-2 ---- */

enum { KEYS = 10000, PUSHES = 100 };
static weft_object_t *shared_table;

static void *push_ones(void *arg) {
  weft_tensor_t *keys = NULL, *ones = NULL;
  weft_shape_t n = weft_shape_vector(KEYS);
  int64_t clock = 0;
  bool is_new = false;
  if (weft_tensor_new(WEFT_I64, &n, NULL, &keys) != NULL ||
      weft_tensor_new(WEFT_F32, &n, NULL, &ones) != NULL)
    return NULL;
  for (int i = 0; i < KEYS; i++) {
    ((int64_t *)keys->data)[i] = i;
    ((float *)ones->data)[i] = 1;
  }
  for (int i = 0; i < PUSHES; i++) {
    weft_kv_push_t p = {
        .keys = keys, .values = ones, .worker = *(int64_t *)arg, .clock = -1, .request_id = i + 1};
    for (int twice = 0; twice < 2; twice++)
      weft_status_free(weft_kv_table_push((weft_kv_table_t *)shared_table, &p, &is_new, &clock));
  }
  weft_tensor_release(keys);
  weft_tensor_release(ones);
  return NULL;
}

static void four_workers_push_exactly_400(void) {
  weft_kv_config_t c = {.dtype = WEFT_F32, .width = 1, .rule = WEFT_KV_ADD};
  pthread_t threads[4];
  int64_t workers[4] = {0, 1, 2, 3};
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_create(&c, 0, NULL, 0, &shared_table));
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, push_ones, &workers[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  weft_tensor_t *out[5] = {NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_export((weft_kv_table_t *)shared_table, out));
  int wrong = 0;
  CU_ASSERT_EQUAL(out[0]->count, KEYS);
  for (int i = 0; i < KEYS; i++)
    wrong += ((float *)out[1]->data)[i] != 400 || ((int64_t *)out[0]->data)[i] != i;
  CU_ASSERT_EQUAL(wrong, 0);
  for (int i = 0; i < 5; i++) weft_tensor_release(out[i]);
  weft_object_release(shared_table);
}

/* ---- snapshots ---- */

static void a_snapshot_goes_on_where_it_was_taken(void) {
  begin_objects();
  weft_kv_config_t c = {
      .dtype = WEFT_F64, .width = 1, .rule = WEFT_KV_MOMENTUM, .learning_rate = 0.1, .momentum = 0.9};
  weft_object_t *a = NULL, *b = NULL;
  weft_tensor_t *out[5] = {NULL}, *again[5] = {NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_create(&c, 2, NULL, 0, &a));
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_create(&c, 2, NULL, 0, &b));
  push_one(a, 0, 1);
  push_one(a, 0, 2);
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_export((weft_kv_table_t *)a, out));
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_import((weft_kv_table_t *)b, out));
  push_one(a, 1, 3); /* the velocity came along */
  push_one(b, 1, 3);
  for (int i = 0; i < 5; i++) weft_tensor_release(out[i]);
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_export((weft_kv_table_t *)a, out));
  CU_ASSERT_PTR_NULL_FATAL(weft_kv_table_export((weft_kv_table_t *)b, again));
  for (int i = 0; i < 5; i++) {
    CU_ASSERT_EQUAL(out[i]->bytes, again[i]->bytes);
    CU_ASSERT_EQUAL(memcmp(out[i]->data, again[i]->data, out[i]->bytes), 0);
  }
  weft_tensor_t *broken = NULL; /* what does not fit is refused, and nothing has changed */
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_copy(out[2], &broken));
  ((int64_t *)broken->data)[0] = 7;
  weft_tensor_t *mixed[5] = {out[0], out[1], broken, out[3], out[4]};
  weft_status_t *s = weft_kv_table_import((weft_kv_table_t *)b, mixed);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  CU_ASSERT_EQUAL(weft_kv_table_size((weft_kv_table_t *)b), 1);
  for (int i = 0; i < 5; i++) {
    weft_tensor_release(out[i]);
    weft_tensor_release(again[i]);
  }
  weft_tensor_release(broken);
  weft_tensor_release(key_tensor);
  weft_object_release(a);
  weft_object_release(b);
}

static void a_snapshot_knows_which_requests_were_seen(void) {
  begin();
  weft_made_t t = weft_make(&bench, "WeftKvTable", "shared_name=t");
  weft_made_t u = weft_make(&bench, "WeftKvTable", "shared_name=u");
  weft_harness_t *h = NULL;
  weft_value_t in[6] = {{NULL, NULL}}, out[5] = {{NULL, NULL}};
  static const int types[6] = {WEFT_RESOURCE, WEFT_I64, WEFT_F32, WEFT_I64, WEFT_F32, WEFT_I64};
  weft_expect(&bench, t.value, PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10",
              "bool[]:1 int64[]:0");
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, "WeftKvExport", "dtype=float", types, 1, &h));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(h, &t.value, out));
  weft_harness_destroy(h);
  in[0] = u.value;
  memcpy(in + 1, out, sizeof out);
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_create(&bench, "WeftKvImport", "dtype=float", types, 6, &h));
  CU_ASSERT_PTR_NULL_FATAL(weft_harness_run_values(h, in, NULL));
  weft_harness_destroy(h);
  for (int i = 0; i < 5; i++) weft_tensor_release(out[i].tensor);
  weft_expect(&bench, u.value, PUSH, "int64[1]:1 float[1,1]:1 int64[]:3 int64[]:-1 int64[]:10",
              "bool[]:0 int64[]:0");
  weft_expect(&bench, u.value, PULL, "int64[1]:1 int64[]:-1 int64[]:-1", "float[1,1]:1 int64[]:0");
  weft_made_drop(&t);
  weft_made_drop(&u);
  end();
}

static void tables_that_cannot_work_are_refused(void) {
  static const struct {
    const char *attrs, *text;
  } cases[] = {
      {"dtype=int32 apply=sgd", "a table of int32 can assign or add, nothing else"},
      {"policy=BSP", "a table whose policy is not ASP needs num_workers"},
      {"policy=BSP num_workers=2 width=0", "rows of different lengths cannot be gathered"},
      {"policy=K_OF_W num_workers=2", "`required` is 0"},
      {"width=99999999", "width must be at most"},
      {"num_workers=1 worker_tasks=['a','b']", "worker_tasks has 2 entries for 1 workers"},
  };
  begin();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_tensor_t *out[1] = {NULL};
    int n = 0;
    weft_status_t *s = weft_run_op(&bench, "WeftKvTable", cases[i].attrs, NULL, 0, out, 1, &n);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), cases[i].text));
    if (strstr(weft_status_message(s), cases[i].text) == NULL) printf("\n    %s\n", weft_status_message(s));
    weft_status_free(s);
    weft_tensor_release(out[0]);
  }
  end();
}

/* ---- cutting by server ---- */

static void keys_are_cut_by_server_and_merged(void) {
  static const weft_value_t none = {NULL, NULL};
  begin();
  weft_expect(&bench, none, "WeftKvSlice", "N=3 by=range max_key=10",
              "int64[5]:9,0,3,0,4 float[5,1]:1,2,3,4,5",
              "int64[2]:0,3 int64[1]:4 int64[1]:9 float[2,1]:6,3 float[1,1]:5 float[1,1]:1");
  weft_expect(&bench, none, "WeftKvSlice", "N=2 by=range max_key=10", "int64[1]:1 float[1]:7",
              "int64[1]:1 int64[0]: float[1]:7 float[0]:");
  weft_expect(&bench, none, "WeftKvSlice", "N=2 by=range max_key=10", "int64[1]:10 float[1]:7",
              "INVALID_ARGUMENT: key 10 is not in [0, 10)");
  weft_expect(&bench, none, "WeftKvSlice", "N=2", "int64[2]:1,2 float[1]:7",
              "INVALID_ARGUMENT: keys of shape [2] cannot have values of shape [1]");
  weft_expect(&bench, none, "WeftKvMerge", "N=2",
              "int64[4]:9,0,3,9 int64[2]:0,3 int64[1]:9 float[2,2]:1,2,3,4 float[1,2]:5,6",
              "float[4,2]:5,6,1,2,3,4,5,6");
  weft_expect(&bench, none, "WeftKvMerge", "N=1", "int64[1]:8 int64[1]:9 float[1]:1",
              "INVALID_ARGUMENT: no piece has key 8");
  end();
}

static void small_keys_go_to_all_servers(void) {
  int by_hash[4] = {0}, by_range[4] = {0};
  for (int64_t key = 0; key < 1000; key++) {
    by_hash[weft_kv_server_by_hash(key, 4)]++;
    by_range[weft_kv_server_by_range(key, 1000, 4)]++;
  }
  for (int i = 0; i < 4; i++) {
    CU_ASSERT_TRUE(by_hash[i] > 200 && by_hash[i] < 300);
    CU_ASSERT_EQUAL(by_range[i], 250);
  }
  CU_ASSERT_EQUAL(weft_kv_server_by_range(INT64_MAX - 1, INT64_MAX, 7), 6);
  CU_ASSERT_EQUAL(weft_kv_server_by_range(1, 2, 7), 1);
}

static const CU_TestInfo tests[] = {
    {"pushes add up", pushes_add_up},
    {"every rule does its own", every_rule_does_its_own},
    {"rows may have lengths of their own", rows_may_have_lengths_of_their_own},
    {"a request that was seen is not applied again", a_request_that_was_seen_is_not_applied_again},
    {"bulk synchronous pushes wait for all", bulk_synchronous_pushes_wait_for_all},
    {"the first k of W count", the_first_k_of_w_count},
    {"bulk synchronous is one process, bit for bit", bulk_synchronous_is_one_process_bit_for_bit},
    {"a straggler slows only those who wait for it", a_straggler_slows_only_those_who_wait_for_it},
    {"staleness is bounded over 1000 steps", staleness_is_bounded_over_1000_steps},
    {"four workers push exactly 400", four_workers_push_exactly_400},
    {"a snapshot goes on where it was taken", a_snapshot_goes_on_where_it_was_taken},
    {"a snapshot knows which requests were seen", a_snapshot_knows_which_requests_were_seen},
    {"tables that cannot work are refused", tables_that_cannot_work_are_refused},
    {"keys are cut by server and merged", keys_are_cut_by_server_and_merged},
    {"small keys go to all servers", small_keys_go_to_all_servers},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_table", tests); }
