/* tests/device/collectives_test.c - collectives between LATE devices of one task: on the device, or by way of
 * the host, with the bits that the host's ring gives.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "collectives/link_counters.h"
#include "device/loaded/loaded.h"
#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/loaded/loaded_kernels.h"
#include "tests/device/late/late.h"
#include "tests/device/ranks.h"
#include "tests/pace.h"
#include "tests/runner.h"

static const weft_device_driver_t *late_driver(void) {
  static weft_loaded_driver_t *driver;
  WEFT_Failure *failure = NULL;
  if (driver == NULL)
    ranks_must(weft_loaded_driver_create(weft_late_open(&weft_device_host, &failure)->device, &driver));
  return weft_loaded_driver_base(driver);
}

static void open_task(ranks_task_t *t, int n, weft_late_options_t o) {
  if (o.seed == 0) o.seed = (uint64_t)n;
  if (o.max_delay_us == 0) o.max_delay_us = 100;
  o.num_devices = n;
  weft_late_configure(&o);
  ranks_open(t, n, late_driver(), NULL);
}

static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                               WEFT_BROADCAST, WEFT_ALL_TO_ALL};
static const weft_dtype_t dtypes[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64};

static void results_are_the_hosts(void) {
  const int step = WEFT_TEST_IS_SANITIZED ? 3 : 1;
  int wrong = 0;
  for (int n = 1; n <= RANKS_MOST; n += step) {
    ranks_task_t t;
    open_task(&t, n, (weft_late_options_t){.max_delay_us = 20});
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const bool reduces = kinds[k] == WEFT_ALL_REDUCE || kinds[k] == WEFT_REDUCE_SCATTER;
        const ranks_trial_t x = {.kind = kinds[k],
                                 .dtype = dtypes[d],
                                 .reduction = reduces ? (weft_reduction_t)((size_t)n % 4) : WEFT_REDUCE_SUM,
                                 .is_mean = reduces && d % 2 == 0};
        wrong += ranks_try_sizes(&t, x);
      }
    }
    for (int op = WEFT_REDUCE_SUM; op <= WEFT_REDUCE_MAX; op++) {
      wrong += ranks_try_sizes(
          &t, (ranks_trial_t){.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .reduction = (weft_reduction_t)op});
    }
    ranks_close(&t);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* What goes by way of the host, and what does not. */
static void bytes_stay_on_the_devices_where_they_can(void) {
  for (int by_host = 0; by_host < 2; by_host++) {
    ranks_task_t t;
    weft_tensor_t *out[RANKS_MOST];
    open_task(&t, 4, (weft_late_options_t){.by_host = by_host != 0});
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      const ranks_trial_t x = {.kind = kinds[k], .dtype = WEFT_F32, .rows = 400};
      ranks_run_all(&t, &x, false, out);
      for (int r = 0; r < t.n; r++) weft_tensor_release(out[r]);
      CU_ASSERT_EQUAL(ranks_bytes_by_host(&t) > 0, by_host != 0);
      CU_ASSERT_TRUE(ranks_is_right(&t, &x));
      weft_link_counters_reset(weft_local_hub_counters(t.hub));
    }
    const ranks_trial_t half = {
        .kind = WEFT_ALL_REDUCE, .dtype = WEFT_F16, .rows = 400}; /* a type it lacks */
    ranks_run_all(&t, &half, false, out);
    for (int r = 0; r < t.n; r++) weft_tensor_release(out[r]);
    CU_ASSERT_TRUE(ranks_bytes_by_host(&t) > 0);
    ranks_close(&t);
  }
}

/* A named algorithm is the host's. */
static void a_named_algorithm_is_taken(void) {
  ranks_task_t t;
  ranks_answer_t a[2];
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 50});
  for (int r = 0; r < 2; r++) {
    weft_collective_t c = ranks_call(&t, r, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(100), false);
    c.algorithm = WEFT_ALGORITHM_RING;
    c.input = ranks_at(ranks_value(WEFT_F32, c.shape, r), t.devices[r]);
    a[r] = (ranks_answer_t){.task = &t};
    weft_collectives_run(t.collectives, &c, NULL, ranks_on_done, &a[r]);
    weft_tensor_release(c.input);
  }
  for (int r = 0; r < 2; r++) {
    ranks_await(&a[r]);
    ranks_must(a[r].status);
    CU_ASSERT_PTR_EQUAL(a[r].output->space, t.devices[r]->space);
    ranks_end_answer(&a[r]);
  }
  CU_ASSERT_TRUE(ranks_bytes_by_host(&t) > 0);
  ranks_close(&t);
}

/* ---- many at once ---- */

typedef struct member {
  ranks_task_t *task;
  int rank, wrong;
} member_t;

enum { AT_ONCE = 12, ROUNDS = 10 };

/* Several instances of two groups, begun by each member in an order of its own. */
static void *run_member(void *arg) {
  member_t *m = arg;
  ranks_task_t *t = m->task;
  for (int round = 0; round < (WEFT_TEST_IS_SANITIZED ? 3 : ROUNDS); round++) {
    ranks_answer_t a[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = (k * 7 + m->rank * 5) % AT_ONCE;
      weft_collective_t c =
          ranks_call(t, m->rank, WEFT_ALL_REDUCE, WEFT_I64, weft_shape_vector(50 + i), false);
      c.group_key = 1 + i % 2;
      c.instance_key = 100 + i;
      c.step_id = 1000 + round;
      c.input = ranks_at(ranks_value(WEFT_I64, c.shape, m->rank + i), t->devices[m->rank]);
      a[i] = (ranks_answer_t){.task = t};
      weft_collectives_run(t->collectives, &c, NULL, ranks_on_done, &a[i]);
      weft_tensor_release(c.input);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      ranks_await(&a[i]);
      if (a[i].status != NULL) {
        m->wrong++;
      } else {
        weft_tensor_t *back = NULL;
        ranks_must(weft_tensor_at_sync(a[i].output, NULL, &back));
        int64_t sum[64] = {0};
        for (int r = 0; r < t->n; r++) {
          weft_tensor_t *in = ranks_value(WEFT_I64, weft_shape_vector(50 + i), r + i);
          for (int e = 0; e < 50 + i; e++)
            sum[e] = (int64_t)((uint64_t)sum[e] + ((const uint64_t *)in->data)[e]);
          weft_tensor_release(in);
        }
        m->wrong += memcmp(sum, back->data, back->bytes) != 0;
        weft_tensor_release(back);
      }
      ranks_end_answer(&a[i]);
    }
  }
  return NULL;
}

static void several_go_on_at_once(void) {
  ranks_task_t t;
  member_t members[4];
  pthread_t threads[4];
  open_task(&t, 4, (weft_late_options_t){.max_delay_us = 50});
  for (int r = 0; r < 4; r++) {
    members[r] = (member_t){.task = &t, .rank = r};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int r = 0; r < 4; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(members[r].wrong, 0);
  CU_ASSERT_EQUAL(ranks_bytes_by_host(&t), 0);
  ranks_close(&t);
}

/* ---- failures ---- */

static void start(ranks_task_t *t, int rank, weft_canceller_t *canceller, int64_t timeout_ms,
                  ranks_answer_t *a) {
  weft_collective_t c = ranks_call(t, rank, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(10), false);
  c.timeout_ms = timeout_ms;
  c.input = ranks_at(ranks_value(WEFT_F32, c.shape, rank), t->devices[rank]);
  *a = (ranks_answer_t){.task = t};
  weft_collectives_run(t->collectives, &c, canceller, ranks_on_done, a);
  weft_tensor_release(c.input);
}

/* The next collective is not harmed. */
static void works(ranks_task_t *t) {
  const ranks_trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 10};
  CU_ASSERT_TRUE(ranks_is_right(t, &x));
}

/* An instance that was agreed on: members do not ask the leader, but wait for each other. */
static void agree(ranks_task_t *t) {
  const int64_t instance = t->instance;
  works(t);
  t->instance = instance;
}

static void are_cancelled(ranks_answer_t *a, int n) {
  for (int r = 0; r < n; r++) {
    ranks_await(&a[r]);
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), WEFT_CANCELLED);
    CU_ASSERT_PTR_NULL(a[r].output);
    ranks_end_answer(&a[r]);
  }
}

static void a_cancelled_rank_ends_the_others(void) {
  ranks_task_t t;
  ranks_answer_t a[3];
  open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
  agree(&t);
  weft_canceller_t *c = weft_canceller_create(NULL);
  start(&t, 0, c, 0, &a[0]);
  start(&t, 2, NULL, 0, &a[2]);
  CU_ASSERT_EQUAL(a[0].calls + a[2].calls, 0); /* nothing ends them but us */
  weft_canceller_cancel(c);
  start(&t, 1, NULL, 0, &a[1]); /* comes when it has failed */
  are_cancelled(a, 3);
  weft_collectives_end_step(t.collectives, t.step++, NULL);
  works(&t);
  weft_canceller_release(c);
  ranks_close(&t);
}

/* Cancelled before it begins, a rank is not known to the others: the end of the step ends them. */
static void the_end_of_a_step_ends_those_that_wait(void) {
  ranks_task_t t;
  ranks_answer_t a[3];
  open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
  agree(&t);
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_canceller_cancel(c);
  start(&t, 0, NULL, 0, &a[0]);
  start(&t, 1, c, 0, &a[1]);
  start(&t, 2, NULL, 0, &a[2]);
  ranks_await(&a[1]);
  weft_collectives_end_step(t.collectives, t.step++, a[1].status);
  are_cancelled(a, 3);
  works(&t);
  weft_canceller_release(c);
  ranks_close(&t);
}

static void cancelling_what_is_done_is_too_late(void) {
  ranks_task_t t;
  ranks_answer_t a[2];
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 50});
  weft_canceller_t *c = weft_canceller_create(NULL);
  for (int r = 0; r < 2; r++) start(&t, r, c, 0, &a[r]);
  for (int r = 0; r < 2; r++) ranks_await(&a[r]);
  weft_canceller_cancel(c);
  for (int r = 0; r < 2; r++) {
    ranks_must(a[r].status);
    ranks_end_answer(&a[r]);
  }
  weft_canceller_release(c);
  ranks_close(&t);
}

static void a_rank_that_does_not_come_is_named(void) {
  ranks_task_t t;
  ranks_answer_t a[3];
  open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
  agree(&t);
  for (int r = 0; r < 2; r++) start(&t, r, NULL, 300, &a[r]);
  for (int r = 0; r < 2; r++) {
    ranks_await(&a[r]);
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), WEFT_DEADLINE_EXCEEDED);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a[r].status), "2 (" RANKS_TASK "/device:LATE:2)"));
    ranks_end_answer(&a[r]);
  }
  weft_collectives_end_step(t.collectives, t.step++, NULL);
  works(&t);
  ranks_close(&t);
}

static WEFT_Failure *broken(void *arg, const WEFT_Failure *poison) {
  (void)arg;
  return poison == NULL ? weft_late_host->failure(WEFT_DATA_LOSS, "it broke") : NULL;
}

/* All ranks get the failure of a queue with their results. */
static void a_poisoned_queue_gives_its_failure(void) {
  for (int bad = 0; bad < 3; bad++) {
    ranks_task_t t;
    ranks_answer_t a[3];
    open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
    WEFT_Failure *f = weft_late_enqueue(weft_loaded_queue(t.devices[bad]->compute), broken, NULL);
    CU_ASSERT_PTR_NULL(f);
    (void)weft_queue_mark(t.devices[bad]->compute);
    for (int r = 0; r < 3; r++) start(&t, r, NULL, 0, &a[r]);
    for (int r = 0; r < 3; r++) {
      weft_tensor_t *back = NULL;
      ranks_await(&a[r]);
      ranks_must(a[r].status);
      weft_status_t *s = weft_tensor_at_sync(a[r].output, NULL, &back);
      CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DATA_LOSS);
      weft_status_free(s);
      ranks_end_answer(&a[r]);
    }
    weft_collectives_end_step(t.collectives, t.step++, NULL);
    ranks_close(&t);
  }
}

/* Whichever allocation fails: all ranks end, well or with a failure, and nothing is left. */
static void each_allocation_may_fail(void) {
  ranks_task_t t;
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 5});
  int failed = 0;
  for (int nth = 0;; nth++) {
    ranks_answer_t a[2];
    weft_tensor_t *in[2];
    weft_collective_t c[2];
    for (int r = 0; r < 2; r++) {
      a[r] = (ranks_answer_t){.task = &t};
      c[r] = ranks_call(&t, r, nth % 2 == 0 ? WEFT_ALL_REDUCE : WEFT_ALL_GATHER, WEFT_F32,
                        weft_shape_matrix(5, 2), false);
      c[r].is_uniform = true;
      in[r] = ranks_at(ranks_value(WEFT_F32, c[r].shape, r), t.devices[r]);
      c[r].input = in[r];
    }
    weft_fault_arm(nth / 2);
    for (int r = 0; r < 2; r++) weft_collectives_run(t.collectives, &c[r], NULL, ranks_on_done, &a[r]);
    const bool is_through = !weft_fault_fired();
    weft_fault_arm(-1);
    weft_collectives_end_step(t.collectives, t.step++, NULL); /* one without a group cannot tell the others */
    for (int r = 0; r < 2; r++) {
      ranks_await(&a[r]);
      failed += a[r].status != NULL;
      CU_ASSERT_EQUAL(a[r].status == NULL, a[r].output != NULL);
      ranks_end_answer(&a[r]);
      weft_tensor_release(in[r]);
    }
    t.instance++;
    if (is_through && nth % 2 == 1) break;
  }
  CU_ASSERT_TRUE(failed > 20);
  works(&t);
  ranks_close(&t);
}

/* ---- each wait is needed ---- */

static void each_wait_is_needed(void) {
  static const weft_late_mutation_t mutations[] = {WEFT_LATE_NOTHING, WEFT_LATE_FIRST_BEFORE_OTHERS,
                                                   WEFT_LATE_OTHERS_BEFORE_FIRST};
  const ranks_trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 3000};
  for (int m = 0; m < (WEFT_TEST_IS_SANITIZED ? 1 : 3); m++) {
    ranks_task_t t;
    int round = 0;
    const int most = m == 0 ? 100 : 2000;
    open_task(&t, 3, (weft_late_options_t){.max_delay_us = 200, .mutation = mutations[m]});
    while (round < most && ranks_is_right(&t, &x)) round++;
    CU_ASSERT_EQUAL(round < most, m != 0);
    ranks_close(&t);
  }
}

static const CU_TestInfo tests[] = {
    {"results are the host's", results_are_the_hosts},
    {"bytes stay on the devices where they can", bytes_stay_on_the_devices_where_they_can},
    {"a named algorithm is taken", a_named_algorithm_is_taken},
    {"several go on at once", several_go_on_at_once},
    {"a cancelled rank ends the others", a_cancelled_rank_ends_the_others},
    {"the end of a step ends those that wait", the_end_of_a_step_ends_those_that_wait},
    {"cancelling what is done is too late", cancelling_what_is_done_is_too_late},
    {"a rank that does not come is named", a_rank_that_does_not_come_is_named},
    {"a poisoned queue gives its failure", a_poisoned_queue_gives_its_failure},
    {"each allocation may fail", each_allocation_may_fail},
    {"each wait is needed", each_wait_is_needed},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/collectives", tests); }
