/* tests/device/collectives_test.c - collectives between LATE devices of one task: on the device, or by way of
 * the host, with the bits that the host's ring gives.
 */
#include "collectives/collectives.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "collectives/link_counters.h"
#include "collectives/transport.h"
#include "device/loaded/loaded.h"
#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/cpu/collective/collective_place.h"
#include "kernels/loaded/loaded_kernels.h"
#include "tests/collectives/local_transport.h"
#include "tests/device/late/late.h"
#include "tests/pace.h"
#include "tests/runner.h"

#define TASK "/job:worker/replica:0/task:0"
enum { MOST = 8 };

static void must(weft_status_t *s) {
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

/* ---- a task with LATE devices ---- */

typedef struct task {
  int n;
  weft_local_hub_t *hub;
  weft_transport_t *transport;
  weft_thread_pool_t *pool;
  weft_collectives_t *collectives;
  weft_device_t *devices[MOST];
  weft_device_place_t places[MOST];
  weft_mutex_t mu;
  weft_cond_t changed;
  int64_t step, instance;
} task_t;

static const weft_device_driver_t *late_driver(void) {
  static weft_loaded_driver_t *driver;
  WEFT_Failure *failure = NULL;
  if (driver == NULL)
    must(weft_loaded_driver_create(weft_late_open(&weft_device_host, &failure)->device, &driver));
  return weft_loaded_driver_base(driver);
}

static void open_task(task_t *t, int n, weft_late_options_t o) {
  *t = (task_t){.n = n, .step = 1, .instance = 1};
  if (o.seed == 0) o.seed = (uint64_t)n;
  if (o.max_delay_us == 0) o.max_delay_us = 100;
  o.num_devices = n;
  weft_late_configure(&o);
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->changed);
  must(weft_local_hub_create(false, &t->hub));
  must(weft_thread_pool_create("collectives", 2, &t->pool));
  must(weft_local_transport_create(t->hub, WEFT_STR(TASK), WEFT_STR("here"), 7, &t->transport));
  must(weft_collectives_create(WEFT_STR(TASK), t->pool, t->transport, &t->collectives));
  for (int i = 0; i < n; i++) {
    char name[64];
    snprintf(name, sizeof name, TASK "/device:LATE:%d", i);
    const weft_device_spec_t spec = {.name = weft_str(name), .incarnation = 7};
    must(late_driver()->create(late_driver(), &spec, i, &t->devices[i]));
    weft_device_place_init(&t->places[i], t->devices[i], t->devices[i]->allocator);
  }
}

static void close_task(task_t *t) {
  CU_ASSERT_EQUAL(weft_local_hub_num_waiting(t->hub), 0);
  weft_collectives_destroy(t->collectives);
  weft_transport_destroy(t->transport);
  weft_thread_pool_destroy(t->pool);
  weft_local_hub_destroy(t->hub);
  for (int i = 0; i < t->n; i++) weft_device_destroy(t->devices[i]);
  weft_cond_deinit(&t->changed);
  weft_mutex_deinit(&t->mu);
}

/* Bytes that have gone between the ranks by way of the host. */
static int64_t bytes_by_host(const task_t *t) {
  return weft_link_counters_sum(weft_local_hub_counters(t->hub), WEFT_STR(""), WEFT_STR(""),
                                WEFT_TRAFFIC_COLLECTIVE)
      .bytes;
}

/* ---- one call ---- */

typedef struct answer {
  task_t *task;
  int calls; /* guarded by the task's mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *output;
} answer_t;

static void on_done(void *arg, weft_status_t *s, weft_tensor_t *output) {
  answer_t *a = arg;
  weft_mutex_lock(&a->task->mu);
  a->calls++;
  a->status = s;
  a->output = output;
  weft_cond_broadcast(&a->task->changed);
  weft_mutex_unlock(&a->task->mu);
}

static void await(answer_t *a) {
  const int64_t deadline = weft_clock_ns() + 60 * INT64_C(1000000000);
  bool in_time = true;
  weft_mutex_lock(&a->task->mu);
  while (a->calls == 0 && in_time) in_time = weft_cond_wait_until(&a->task->changed, &a->task->mu, deadline);
  const int calls = a->calls;
  weft_mutex_unlock(&a->task->mu);
  CU_ASSERT_EQUAL_FATAL(calls, 1);
}

static void end_answer(answer_t *a) {
  weft_status_free(a->status);
  weft_tensor_release(a->output);
}

/* `on_host`: with the tensors in the host's memory. */
static weft_collective_t call_of(task_t *t, int rank, weft_collective_kind_t kind, weft_dtype_t dtype,
                                 weft_shape_t shape, bool on_host) {
  return (weft_collective_t){.kind = kind,
                             .name = WEFT_STR("it"),
                             .device = t->devices[rank]->name,
                             .step_id = t->step,
                             .group_key = 1,
                             .instance_key = t->instance,
                             .group_size = t->n,
                             .rank = rank,
                             .root = kind == WEFT_BROADCAST ? t->n / 2 : -1,
                             .dtype = dtype,
                             .shape = shape,
                             .is_uniform = false,
                             .place = on_host ? NULL : &t->places[rank].base,
                             .algorithm = on_host ? WEFT_ALGORITHM_RING : WEFT_ALGORITHM_AUTO};
}

static weft_tensor_t *value(weft_dtype_t dtype, weft_shape_t shape, int rank) {
  weft_tensor_t *t = NULL;
  must(weft_tensor_new(dtype, &shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) {
    const uint32_t x = ((uint32_t)rank * 7919u + (uint32_t)i * 31u + 1u) * 0x7feb352du >> 8;
    const double v = (double)(x % 20001u) / 3333.0 - 3;
    switch ((int)dtype) {
      case WEFT_F16: ((uint16_t *)t->data)[i] = weft_f32_to_f16((float)v); break;
      case WEFT_BF16: ((uint16_t *)t->data)[i] = weft_f32_to_bf16((float)v); break;
      case WEFT_F32: ((float *)t->data)[i] = (float)v; break;
      case WEFT_F64: ((double *)t->data)[i] = v; break;
      case WEFT_I32: ((int32_t *)t->data)[i] = (int32_t)x; break;
      default: ((int64_t *)t->data)[i] = (int64_t)x * 77777777777; break;
    }
  }
  return t;
}

static weft_tensor_t *at(weft_tensor_t *t, const weft_device_t *d) {
  weft_tensor_t *there = NULL;
  must(weft_tensor_at_sync(t, d->space, &there));
  weft_tensor_release(t);
  return there;
}

/* ---- a collective on all ranks, on the device and on the host ---- */

typedef struct trial {
  weft_collective_kind_t kind;
  weft_reduction_t reduction;
  bool is_mean, takes_input, differs; /* differs: the rows of a gather */
  weft_dtype_t dtype;
  int64_t rows;
} trial_t;

static weft_shape_t shape_of(const trial_t *x, int rank) {
  weft_shape_t s = x->kind == WEFT_ALL_REDUCE ? weft_shape_vector(x->rows) : weft_shape_matrix(x->rows, 3);
  if (x->differs) s.dims[0] = x->rows + rank % 3;
  return s;
}

static void run_all(task_t *t, const trial_t *x, bool on_host, weft_tensor_t **out) {
  answer_t answers[MOST];
  for (int k = 0; k < t->n; k++) {
    const int r = t->n % 5 == 0 ? k : (k * 5 + 3) % t->n; /* in another order */
    weft_collective_t c = call_of(t, r, x->kind, x->dtype, shape_of(x, r), on_host);
    c.reduction = x->reduction;
    c.is_mean = x->is_mean;
    c.takes_input = x->takes_input;
    const bool gives = x->kind != WEFT_BROADCAST || r == c.root;
    weft_tensor_t *in = gives ? value(x->dtype, c.shape, r) : NULL;
    if (in != NULL && !on_host) in = at(in, t->devices[r]);
    c.input = in;
    answers[r] = (answer_t){.task = t};
    weft_collectives_run(t->collectives, &c, NULL, on_done, &answers[r]);
    weft_tensor_release(in); /* before it is done: the run holds it as long as it must */
  }
  for (int r = 0; r < t->n; r++) {
    await(&answers[r]);
    must(answers[r].status);
    out[r] = answers[r].output;
    CU_ASSERT_PTR_NOT_NULL_FATAL(out[r]);
    if (!on_host && out[r]->bytes > 0) CU_ASSERT_PTR_EQUAL(out[r]->space, t->devices[r]->space);
    if (!on_host) { /* its memory is given back at once, and used again */
      weft_tensor_t *back = NULL;
      must(weft_tensor_at_sync(out[r], NULL, &back));
      weft_tensor_release(out[r]);
      out[r] = back;
    }
  }
  weft_collectives_end_step(t->collectives, t->step++, NULL);
  t->instance++;
}

/* Are the device's results the host's? */
static bool is_right(task_t *t, const trial_t *x) {
  weft_tensor_t *here[MOST], *there[MOST];
  bool right = true;
  run_all(t, x, false, here);
  run_all(t, x, true, there);
  for (int r = 0; r < t->n; r++) {
    right = right && here[r]->dtype == there[r]->dtype && weft_shape_eq(&here[r]->shape, &there[r]->shape);
    right = right && (here[r]->bytes == 0 || memcmp(here[r]->data, there[r]->data, here[r]->bytes) == 0);
    weft_tensor_release(here[r]);
    weft_tensor_release(there[r]);
  }
  return right;
}

static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                               WEFT_BROADCAST, WEFT_ALL_TO_ALL};
static const weft_dtype_t dtypes[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64};

static int count_wrong(task_t *t, const trial_t *x) {
  if (is_right(t, x)) return 0;
  fprintf(stderr, "%d ranks: kind %d, reduction %d, mean %d, type %s, %lld rows\n", t->n, x->kind,
          x->reduction, x->is_mean, weft_dtype_name(x->dtype), (long long)x->rows);
  return 1;
}

static int try_sizes(task_t *t, trial_t x) {
  static const int64_t rows[] = {0, 1, 7, 1000};
  int wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    x.rows = x.kind == WEFT_ALL_TO_ALL ? rows[i] * t->n : rows[i];
    x.takes_input = i % 2 == 1;
    wrong += count_wrong(t, &x);
    x.differs = x.kind == WEFT_ALL_GATHER;
    if (x.differs) wrong += count_wrong(t, &x);
    x.differs = false;
  }
  return wrong;
}

static void results_are_the_hosts(void) {
  const int step = WEFT_TEST_IS_SANITIZED ? 3 : 1;
  int wrong = 0;
  for (int n = 1; n <= MOST; n += step) {
    task_t t;
    open_task(&t, n, (weft_late_options_t){.max_delay_us = 20});
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const bool reduces = kinds[k] == WEFT_ALL_REDUCE || kinds[k] == WEFT_REDUCE_SCATTER;
        const trial_t x = {.kind = kinds[k],
                           .dtype = dtypes[d],
                           .reduction = reduces ? (weft_reduction_t)((size_t)n % 4) : WEFT_REDUCE_SUM,
                           .is_mean = reduces && d % 2 == 0};
        wrong += try_sizes(&t, x);
      }
    }
    for (int op = WEFT_REDUCE_SUM; op <= WEFT_REDUCE_MAX; op++) {
      wrong += try_sizes(
          &t, (trial_t){.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .reduction = (weft_reduction_t)op});
    }
    close_task(&t);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* What goes by way of the host, and what does not. */
static void bytes_stay_on_the_devices_where_they_can(void) {
  for (int by_host = 0; by_host < 2; by_host++) {
    task_t t;
    weft_tensor_t *out[MOST];
    open_task(&t, 4, (weft_late_options_t){.by_host = by_host != 0});
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      const trial_t x = {.kind = kinds[k], .dtype = WEFT_F32, .rows = 400};
      run_all(&t, &x, false, out);
      for (int r = 0; r < t.n; r++) weft_tensor_release(out[r]);
      CU_ASSERT_EQUAL(bytes_by_host(&t) > 0, by_host != 0);
      CU_ASSERT_TRUE(is_right(&t, &x));
      weft_link_counters_reset(weft_local_hub_counters(t.hub));
    }
    const trial_t half = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F16, .rows = 400}; /* a type it lacks */
    run_all(&t, &half, false, out);
    for (int r = 0; r < t.n; r++) weft_tensor_release(out[r]);
    CU_ASSERT_TRUE(bytes_by_host(&t) > 0);
    close_task(&t);
  }
}

/* A named algorithm is the host's. */
static void a_named_algorithm_is_taken(void) {
  task_t t;
  answer_t a[2];
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 50});
  for (int r = 0; r < 2; r++) {
    weft_collective_t c = call_of(&t, r, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(100), false);
    c.algorithm = WEFT_ALGORITHM_RING;
    c.input = at(value(WEFT_F32, c.shape, r), t.devices[r]);
    a[r] = (answer_t){.task = &t};
    weft_collectives_run(t.collectives, &c, NULL, on_done, &a[r]);
    weft_tensor_release(c.input);
  }
  for (int r = 0; r < 2; r++) {
    await(&a[r]);
    must(a[r].status);
    CU_ASSERT_PTR_EQUAL(a[r].output->space, t.devices[r]->space);
    end_answer(&a[r]);
  }
  CU_ASSERT_TRUE(bytes_by_host(&t) > 0);
  close_task(&t);
}

/* ---- many at once ---- */

typedef struct member {
  task_t *task;
  int rank, wrong;
} member_t;

enum { AT_ONCE = 12, ROUNDS = 10 };

/* Several instances of two groups, begun by each member in an order of its own. */
static void *run_member(void *arg) {
  member_t *m = arg;
  task_t *t = m->task;
  for (int round = 0; round < (WEFT_TEST_IS_SANITIZED ? 3 : ROUNDS); round++) {
    answer_t a[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = (k * 7 + m->rank * 5) % AT_ONCE;
      weft_collective_t c = call_of(t, m->rank, WEFT_ALL_REDUCE, WEFT_I64, weft_shape_vector(50 + i), false);
      c.group_key = 1 + i % 2;
      c.instance_key = 100 + i;
      c.step_id = 1000 + round;
      c.input = at(value(WEFT_I64, c.shape, m->rank + i), t->devices[m->rank]);
      a[i] = (answer_t){.task = t};
      weft_collectives_run(t->collectives, &c, NULL, on_done, &a[i]);
      weft_tensor_release(c.input);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      await(&a[i]);
      if (a[i].status != NULL) {
        m->wrong++;
      } else {
        weft_tensor_t *back = NULL;
        must(weft_tensor_at_sync(a[i].output, NULL, &back));
        int64_t sum[64] = {0};
        for (int r = 0; r < t->n; r++) {
          weft_tensor_t *in = value(WEFT_I64, weft_shape_vector(50 + i), r + i);
          for (int e = 0; e < 50 + i; e++)
            sum[e] = (int64_t)((uint64_t)sum[e] + ((const uint64_t *)in->data)[e]);
          weft_tensor_release(in);
        }
        m->wrong += memcmp(sum, back->data, back->bytes) != 0;
        weft_tensor_release(back);
      }
      end_answer(&a[i]);
    }
  }
  return NULL;
}

static void several_go_on_at_once(void) {
  task_t t;
  member_t members[4];
  pthread_t threads[4];
  open_task(&t, 4, (weft_late_options_t){.max_delay_us = 50});
  for (int r = 0; r < 4; r++) {
    members[r] = (member_t){.task = &t, .rank = r};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int r = 0; r < 4; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < 4; r++) CU_ASSERT_EQUAL(members[r].wrong, 0);
  CU_ASSERT_EQUAL(bytes_by_host(&t), 0);
  close_task(&t);
}

/* ---- failures ---- */

static void start(task_t *t, int rank, weft_canceller_t *canceller, int64_t timeout_ms, answer_t *a) {
  weft_collective_t c = call_of(t, rank, WEFT_ALL_REDUCE, WEFT_F32, weft_shape_vector(10), false);
  c.timeout_ms = timeout_ms;
  c.input = at(value(WEFT_F32, c.shape, rank), t->devices[rank]);
  *a = (answer_t){.task = t};
  weft_collectives_run(t->collectives, &c, canceller, on_done, a);
  weft_tensor_release(c.input);
}

/* The next collective is not harmed. */
static void works(task_t *t) {
  const trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 10};
  CU_ASSERT_TRUE(is_right(t, &x));
}

/* An instance that was agreed on: members do not ask the leader, but wait for each other. */
static void agree(task_t *t) {
  const int64_t instance = t->instance;
  works(t);
  t->instance = instance;
}

static void are_cancelled(answer_t *a, int n) {
  for (int r = 0; r < n; r++) {
    await(&a[r]);
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), WEFT_CANCELLED);
    CU_ASSERT_PTR_NULL(a[r].output);
    end_answer(&a[r]);
  }
}

static void a_cancelled_rank_ends_the_others(void) {
  task_t t;
  answer_t a[3];
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
  close_task(&t);
}

/* Cancelled before it begins, a rank is not known to the others: the end of the step ends them. */
static void the_end_of_a_step_ends_those_that_wait(void) {
  task_t t;
  answer_t a[3];
  open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
  agree(&t);
  weft_canceller_t *c = weft_canceller_create(NULL);
  weft_canceller_cancel(c);
  start(&t, 0, NULL, 0, &a[0]);
  start(&t, 1, c, 0, &a[1]);
  start(&t, 2, NULL, 0, &a[2]);
  await(&a[1]);
  weft_collectives_end_step(t.collectives, t.step++, a[1].status);
  are_cancelled(a, 3);
  works(&t);
  weft_canceller_release(c);
  close_task(&t);
}

static void cancelling_what_is_done_is_too_late(void) {
  task_t t;
  answer_t a[2];
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 50});
  weft_canceller_t *c = weft_canceller_create(NULL);
  for (int r = 0; r < 2; r++) start(&t, r, c, 0, &a[r]);
  for (int r = 0; r < 2; r++) await(&a[r]);
  weft_canceller_cancel(c);
  for (int r = 0; r < 2; r++) {
    must(a[r].status);
    end_answer(&a[r]);
  }
  weft_canceller_release(c);
  close_task(&t);
}

static void a_rank_that_does_not_come_is_named(void) {
  task_t t;
  answer_t a[3];
  open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
  agree(&t);
  for (int r = 0; r < 2; r++) start(&t, r, NULL, 300, &a[r]);
  for (int r = 0; r < 2; r++) {
    await(&a[r]);
    CU_ASSERT_EQUAL(weft_status_code(a[r].status), WEFT_DEADLINE_EXCEEDED);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(a[r].status), "2 (" TASK "/device:LATE:2)"));
    end_answer(&a[r]);
  }
  weft_collectives_end_step(t.collectives, t.step++, NULL);
  works(&t);
  close_task(&t);
}

static WEFT_Failure *broken(void *arg, const WEFT_Failure *poison) {
  (void)arg;
  return poison == NULL ? weft_late_host->failure(WEFT_DATA_LOSS, "it broke") : NULL;
}

/* All ranks get the failure of a queue with their results. */
static void a_poisoned_queue_gives_its_failure(void) {
  for (int bad = 0; bad < 3; bad++) {
    task_t t;
    answer_t a[3];
    open_task(&t, 3, (weft_late_options_t){.max_delay_us = 50});
    WEFT_Failure *f = weft_late_enqueue(weft_loaded_queue(t.devices[bad]->compute), broken, NULL);
    CU_ASSERT_PTR_NULL(f);
    (void)weft_queue_mark(t.devices[bad]->compute);
    for (int r = 0; r < 3; r++) start(&t, r, NULL, 0, &a[r]);
    for (int r = 0; r < 3; r++) {
      weft_tensor_t *back = NULL;
      await(&a[r]);
      must(a[r].status);
      weft_status_t *s = weft_tensor_at_sync(a[r].output, NULL, &back);
      CU_ASSERT_EQUAL(weft_status_code(s), WEFT_DATA_LOSS);
      weft_status_free(s);
      end_answer(&a[r]);
    }
    weft_collectives_end_step(t.collectives, t.step++, NULL);
    close_task(&t);
  }
}

/* Whichever allocation fails: all ranks end, well or with a failure, and nothing is left. */
static void each_allocation_may_fail(void) {
  task_t t;
  open_task(&t, 2, (weft_late_options_t){.max_delay_us = 5});
  int failed = 0;
  for (int nth = 0;; nth++) {
    answer_t a[2];
    weft_tensor_t *in[2];
    weft_collective_t c[2];
    for (int r = 0; r < 2; r++) {
      a[r] = (answer_t){.task = &t};
      c[r] = call_of(&t, r, nth % 2 == 0 ? WEFT_ALL_REDUCE : WEFT_ALL_GATHER, WEFT_F32,
                     weft_shape_matrix(5, 2), false);
      c[r].is_uniform = true;
      in[r] = at(value(WEFT_F32, c[r].shape, r), t.devices[r]);
      c[r].input = in[r];
    }
    weft_fault_arm(nth / 2);
    for (int r = 0; r < 2; r++) weft_collectives_run(t.collectives, &c[r], NULL, on_done, &a[r]);
    const bool is_through = !weft_fault_fired();
    weft_fault_arm(-1);
    weft_collectives_end_step(t.collectives, t.step++, NULL); /* one without a group cannot tell the others */
    for (int r = 0; r < 2; r++) {
      await(&a[r]);
      failed += a[r].status != NULL;
      CU_ASSERT_EQUAL(a[r].status == NULL, a[r].output != NULL);
      end_answer(&a[r]);
      weft_tensor_release(in[r]);
    }
    t.instance++;
    if (is_through && nth % 2 == 1) break;
  }
  CU_ASSERT_TRUE(failed > 20);
  works(&t);
  close_task(&t);
}

/* ---- each wait is needed ---- */

static void each_wait_is_needed(void) {
  static const weft_late_mutation_t mutations[] = {WEFT_LATE_NOTHING, WEFT_LATE_FIRST_BEFORE_OTHERS,
                                                   WEFT_LATE_OTHERS_BEFORE_FIRST};
  const trial_t x = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .rows = 3000};
  for (int m = 0; m < (WEFT_TEST_IS_SANITIZED ? 1 : 3); m++) {
    task_t t;
    int round = 0;
    const int most = m == 0 ? 100 : 2000;
    open_task(&t, 3, (weft_late_options_t){.max_delay_us = 200, .mutation = mutations[m]});
    while (round < most && is_right(&t, &x)) round++;
    CU_ASSERT_EQUAL(round < most, m != 0);
    close_task(&t);
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
