/* Tables of keys and values: consistency of many workers, snapshots. */
#include "resources/kv_table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "resources/kv_slice.h"
#include "tests/runner.h"

typedef struct pulled {
  weft_value_t outputs[3];
  bool is_done;
  weft_code_t code;
  double value;
} pulled_t;

static void on_pulled(void *arg, weft_status_t *s) {
  pulled_t *p = arg;
  p->is_done = true;
  p->code = weft_status_code(s);
  if (s == NULL) p->value = *(double *)p->outputs[0].tensor->data;
  for (int i = 0; i < 3; i++) weft_tensor_release(p->outputs[i].tensor);
  weft_status_free(s);
}

static weft_tensor_t *key_tensor;
static void start_pull(weft_object_t *o, pulled_t *p, int64_t worker) {
  *p = (pulled_t){.is_done = false};
  const weft_resource_call_t call = {.outputs = p->outputs, .done = on_pulled, .arg = p};
  weft_kv_table_pull((weft_kv_table_t *)o, &call, key_tensor, worker, -1, false, (weft_clock_timeout_t){0});
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

/* Workers minimize (w - worker)^2: each round, those whose pull was answered push. `seed` picks the worker
 * that goes first, and worker 3 moves only every tenth round. Returns the last value; *out_spread gets the
 * largest distance of clocks. */
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
  CU_ASSERT_EQUAL(first, train(WEFT_KV_BSP, 0, 200, 77, &spread)); /* in any order of arrival */
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
  weft_clocked_abandon(o); /* ends the pulls that still wait */
  weft_object_release(o);
  return steps;
}

static void a_straggler_slows_only_its_waiters(void) {
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
    {"bulk synchronous is one process, bit for bit", bulk_synchronous_is_one_process_bit_for_bit},
    {"a straggler slows only its waiters", a_straggler_slows_only_its_waiters},
    {"staleness is bounded over 1000 steps", staleness_is_bounded_over_1000_steps},
    {"four workers push exactly 400", four_workers_push_exactly_400},
    {"a snapshot goes on where it was taken", a_snapshot_goes_on_where_it_was_taken},
    {"small keys go to all servers", small_keys_go_to_all_servers},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("kv_table", tests); }
