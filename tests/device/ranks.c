/* tests/device/ranks.c - see the header. */
#include "tests/device/ranks.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "collectives/link_counters.h"
#include "device/transfer.h"
#include "tensor/half.h"
#include "tests/runner.h"

void ranks_must(weft_status_t *s) {
  if (s != NULL) fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static void task_name(int task, char *out, size_t size) {
  snprintf(out, size, "/job:worker/replica:0/task:%d", task);
}

static void open_task(ranks_task_t *t, int task) {
  char name[64], host[16];
  task_name(task, name, sizeof name);
  snprintf(host, sizeof host, "host%d", task);
  ranks_must(weft_local_transport_create(t->hub, weft_str(name), weft_str(host), t->incarnations[task],
                                         &t->transports[task]));
  ranks_must(weft_collectives_create(weft_str(name), t->pool, t->transports[task], &t->of_task[task]));
  t->collectives = t->of_task[0];
}

void ranks_open_tasks(ranks_task_t *t, int num_tasks, int per_task, const weft_device_driver_t *driver,
                      const weft_accelerator_options_t *accelerators) {
  *t = (ranks_task_t){
      .n = num_tasks * per_task, .num_tasks = num_tasks, .per_task = per_task, .step = 1, .instance = 1};
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->changed);
  ranks_must(weft_local_hub_create(false, &t->hub));
  ranks_must(weft_thread_pool_create("collectives", 2, &t->pool));
  for (int i = 0; i < num_tasks; i++) {
    t->incarnations[i] = 7 + (uint64_t)i;
    open_task(t, i);
  }
  for (int i = 0; i < t->n; i++) {
    char task[64], name[96];
    task_name(i / per_task, task, sizeof task);
    snprintf(name, sizeof name, "%s/device:%s:%d", task, driver->type, i % per_task);
    const weft_device_spec_t spec = {.name = weft_str(name), .incarnation = 7, .accelerators = accelerators};
    ranks_must(driver->create(driver, &spec, i, &t->devices[i]));
    weft_device_place_init(&t->places[i], t->devices[i], t->devices[i]->allocator);
  }
}

void ranks_open(ranks_task_t *t, int n, const weft_device_driver_t *driver,
                const weft_accelerator_options_t *accelerators) {
  ranks_open_tasks(t, 1, n, driver, accelerators);
}

weft_collectives_t *ranks_collectives(const ranks_task_t *t, int rank) {
  return t->of_task[rank / t->per_task];
}

void ranks_lose_task(ranks_task_t *t, int task) {
  char name[64];
  task_name(task, name, sizeof name);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "no sign of life");
  weft_local_hub_kill(t->hub, weft_str(name));
  for (int i = 0; i < t->num_tasks; i++) weft_collectives_lost_task(t->of_task[i], weft_str(name), why);
  weft_status_free(why);
}

void ranks_return_task(ranks_task_t *t, int task) {
  weft_collectives_destroy(t->of_task[task]);
  weft_transport_destroy(t->transports[task]);
  t->incarnations[task] += 100;
  open_task(t, task);
}

void ranks_next_step(ranks_task_t *t, const weft_status_t *why) {
  for (int i = 0; i < t->num_tasks; i++) weft_collectives_end_step(t->of_task[i], t->step, why);
  t->step++;
  t->instance++;
}

void ranks_close(ranks_task_t *t) {
  CU_ASSERT_EQUAL(weft_local_hub_num_waiting(t->hub), 0);
  for (int i = 0; i < t->num_tasks; i++) {
    weft_collectives_destroy(t->of_task[i]);
    weft_transport_destroy(t->transports[i]);
  }
  weft_thread_pool_destroy(t->pool);
  weft_local_hub_destroy(t->hub);
  for (int i = 0; i < t->n; i++) weft_device_destroy(t->devices[i]);
  weft_cond_deinit(&t->changed);
  weft_mutex_deinit(&t->mu);
}

/* Bytes that have gone between the ranks by way of the host. */
int64_t ranks_bytes_by_host(const ranks_task_t *t) {
  return weft_link_counters_sum(weft_local_hub_counters(t->hub), WEFT_STR(""), WEFT_STR(""),
                                WEFT_TRAFFIC_COLLECTIVE)
      .bytes;
}

/* ---- one call ---- */

void ranks_on_done(void *arg, weft_status_t *s, weft_tensor_t *output) {
  ranks_answer_t *a = arg;
  weft_mutex_lock(&a->task->mu);
  a->calls++;
  a->status = s;
  a->output = output;
  weft_cond_broadcast(&a->task->changed);
  weft_mutex_unlock(&a->task->mu);
}

void ranks_await(ranks_answer_t *a) {
  const int64_t deadline = weft_clock_ns() + 60 * INT64_C(1000000000);
  bool in_time = true;
  weft_mutex_lock(&a->task->mu);
  while (a->calls == 0 && in_time) in_time = weft_cond_wait_until(&a->task->changed, &a->task->mu, deadline);
  const int calls = a->calls;
  weft_mutex_unlock(&a->task->mu);
  CU_ASSERT_EQUAL_FATAL(calls, 1);
}

void ranks_end_answer(ranks_answer_t *a) {
  weft_status_free(a->status);
  weft_tensor_release(a->output);
}

weft_collective_t ranks_call(ranks_task_t *t, int rank, weft_collective_kind_t kind, weft_dtype_t dtype,
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

weft_tensor_t *ranks_value(weft_dtype_t dtype, weft_shape_t shape, int rank) {
  weft_tensor_t *t = NULL;
  ranks_must(weft_tensor_new(dtype, &shape, NULL, &t));
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

weft_tensor_t *ranks_at(weft_tensor_t *t, const weft_device_t *d) {
  weft_tensor_t *there = NULL;
  ranks_must(weft_tensor_at_sync(t, d->space, &there));
  weft_tensor_release(t);
  return there;
}

/* ---- a collective on all ranks, on the devices and on the host ---- */

static weft_shape_t shape_of(const ranks_trial_t *x, int rank) {
  weft_shape_t s = x->kind == WEFT_ALL_REDUCE ? weft_shape_vector(x->rows) : weft_shape_matrix(x->rows, 3);
  if (x->differs) s.dims[0] = x->rows + rank % 3;
  return s;
}

void ranks_run_all(ranks_task_t *t, const ranks_trial_t *x, bool on_host, weft_tensor_t **out) {
  ranks_answer_t answers[RANKS_MOST];
  for (int k = 0; k < t->n; k++) {
    const int r = t->n % 5 == 0 ? k : (k * 5 + 3) % t->n; /* in another order */
    weft_collective_t c = ranks_call(t, r, x->kind, x->dtype, shape_of(x, r), on_host);
    c.reduction = x->reduction;
    c.is_mean = x->is_mean;
    c.takes_input = x->takes_input;
    const bool gives = x->kind != WEFT_BROADCAST || r == c.root;
    weft_tensor_t *in = gives ? ranks_value(x->dtype, c.shape, r) : NULL;
    if (in != NULL && !on_host) in = ranks_at(in, t->devices[r]);
    c.input = in;
    answers[r] = (ranks_answer_t){.task = t};
    weft_collectives_run(ranks_collectives(t, r), &c, NULL, ranks_on_done, &answers[r]);
    weft_tensor_release(in); /* before it is done: the run holds it as long as it must */
  }
  for (int r = 0; r < t->n; r++) {
    ranks_await(&answers[r]);
    ranks_must(answers[r].status);
    out[r] = answers[r].output;
    CU_ASSERT_PTR_NOT_NULL_FATAL(out[r]);
    if (!on_host && out[r]->bytes > 0) CU_ASSERT_PTR_EQUAL(out[r]->space, t->devices[r]->space);
    if (!on_host) { /* its memory is given back at once, and used again */
      weft_tensor_t *back = NULL;
      ranks_must(weft_tensor_at_sync(out[r], NULL, &back));
      weft_tensor_release(out[r]);
      out[r] = back;
    }
  }
  ranks_next_step(t, NULL);
}

static double number(const weft_tensor_t *t, int64_t i) {
  switch ((int)t->dtype) {
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_F32: return (double)((const float *)t->data)[i];
    default: return ((const double *)t->data)[i];
  }
}

static bool is_near(const weft_tensor_t *a, const weft_tensor_t *b, double tolerance) {
  for (int64_t i = 0; i < a->count; i++) {
    const double x = number(a, i), y = number(b, i);
    if (!(fabs(x - y) <= tolerance * (10 + fabs(y)))) return false;
  }
  return true;
}

static bool is_same(const weft_tensor_t *a, const weft_tensor_t *b, double tolerance) {
  if (a->dtype != b->dtype || !weft_shape_eq(&a->shape, &b->shape)) return false;
  if (tolerance > 0 && weft_dtype_is_floating(a->dtype)) return is_near(a, b, tolerance);
  return a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0;
}

bool ranks_is_right(ranks_task_t *t, const ranks_trial_t *x) {
  weft_tensor_t *here[RANKS_MOST], *there[RANKS_MOST];
  bool right = true;
  ranks_run_all(t, x, false, here);
  ranks_run_all(t, x, true, there);
  for (int r = 0; r < t->n; r++) {
    right = right && is_same(here[r], there[r], x->tolerance);
    weft_tensor_release(here[r]);
    weft_tensor_release(there[r]);
  }
  return right;
}

static int count_wrong(ranks_task_t *t, const ranks_trial_t *x) {
  if (ranks_is_right(t, x)) return 0;
  fprintf(stderr, "%d ranks: kind %d, reduction %d, mean %d, type %s, %lld rows\n", t->n, x->kind,
          x->reduction, x->is_mean, weft_dtype_name(x->dtype), (long long)x->rows);
  return 1;
}

int ranks_try_sizes(ranks_task_t *t, ranks_trial_t x) {
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
