/* tests/collectives/world.c - see the header. */
#include "tests/collectives/world.h"

#include <stdio.h>

#include "base/clock.h"
#include "tests/runner.h"

static void must(weft_status_t *s) {
  if (s == NULL) return;
  fprintf(stderr, "%s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

void world_init(world_t *w, int n, int num_threads, bool has_virtual_time, const char *const *hosts) {
  memset(w, 0, sizeof *w);
  w->n = n;
  w->next_step = 1;
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->changed);
  must(weft_local_hub_create(has_virtual_time, &w->hub));
  if (num_threads > 0) must(weft_thread_pool_create("collectives", num_threads, &w->pool));
  for (int i = 0; i < n; i++) {
    snprintf(w->tasks[i], sizeof w->tasks[i], "/job:worker/replica:0/task:%d", i);
    snprintf(w->devices[i], sizeof w->devices[i], "/job:worker/replica:0/task:%d/device:CPU:0", i);
    must(weft_local_transport_create(w->hub, weft_str(w->tasks[i]), weft_str(hosts == NULL ? "" : hosts[i]),
                                     (uint64_t)i + 100, &w->transports[i]));
    must(weft_collectives_create(weft_str(w->tasks[i]), w->pool, w->transports[i], &w->collectives[i]));
  }
}

void world_deinit(world_t *w) {
  for (int i = 0; i < w->n; i++) weft_collectives_destroy(w->collectives[i]);
  weft_thread_pool_destroy(w->pool);
  for (int i = 0; i < w->n; i++) weft_transport_destroy(w->transports[i]);
  weft_local_hub_destroy(w->hub);
  weft_cond_deinit(&w->changed);
  weft_mutex_deinit(&w->mu);
}

weft_collective_t world_call(const world_t *w, int rank, weft_collective_kind_t kind, weft_dtype_t dtype,
                             weft_shape_t shape) {
  return (weft_collective_t){.kind = kind,
                             .name = WEFT_STR("it"),
                             .device = weft_str(w->devices[rank]),
                             .step_id = w->next_step,
                             .group_key = 1,
                             .instance_key = 1,
                             .group_size = w->n,
                             .rank = rank,
                             .root = -1,
                             .dtype = dtype,
                             .shape = shape};
}

static void on_done(void *arg, weft_status_t *status, weft_tensor_t *output) {
  result_t *r = arg;
  world_t *w = r->world;
  weft_mutex_lock(&w->mu);
  r->calls++;
  r->status = status;
  r->output = output;
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
}

void world_start(world_t *w, int rank, const weft_collective_t *call, weft_canceller_t *canceller,
                 result_t *r) {
  *r = (result_t){.world = w};
  weft_collectives_run(w->collectives[rank], call, canceller, on_done, r);
}

bool world_wait(world_t *w, result_t *r) {
  weft_local_hub_run(w->hub);
  const int64_t deadline = weft_clock_ns() + 60 * INT64_C(1000000000);
  bool in_time = true;
  weft_mutex_lock(&w->mu);
  while (r->calls == 0 && in_time) in_time = weft_cond_wait_until(&w->changed, &w->mu, deadline);
  const bool is_done = r->calls == 1;
  weft_mutex_unlock(&w->mu);
  CU_ASSERT_TRUE_FATAL(is_done);
  return is_done;
}

void result_deinit(result_t *r) {
  weft_status_free(r->status);
  weft_tensor_release(r->output);
  r->status = NULL;
  r->output = NULL;
}

weft_collective_t world_call_of(const world_t *w, weft_collective_kind_t kind, weft_shape_t shape,
                                weft_collective_algorithm_t algorithm, int64_t instance) {
  weft_collective_t c = world_call(w, 0, kind, WEFT_F32, shape);
  c.algorithm = algorithm;
  c.instance_key = instance;
  return c;
}

double world_run_all(world_t *w, weft_collective_t call, int64_t root_rows) {
  weft_tensor_t *in[WORLD_MOST] = {NULL};
  result_t out[WORLD_MOST];
  const double before = weft_local_hub_seconds(w->hub);
  weft_link_counters_reset(weft_local_hub_counters(w->hub));
  for (int r = 0; r < w->n; r++) {
    weft_collective_t c = call;
    c.device = weft_str(w->devices[r]);
    c.rank = r;
    c.step_id = w->next_step;
    if (root_rows > 0 && r == c.root) c.shape.dims[0] = root_rows;
    weft_status_t *s = c.kind == WEFT_BARRIER ? NULL : weft_tensor_new(c.dtype, &c.shape, NULL, &in[r]);
    CU_ASSERT_PTR_NULL_FATAL(s);
    if (in[r] != NULL) memset(in[r]->data, 0, in[r]->bytes);
    c.input = in[r];
    c.takes_input = call.takes_input;
    world_start(w, r, &c, NULL, &out[r]);
    if (call.takes_input) { /* the run has it alone */
      weft_tensor_release(in[r]);
      in[r] = NULL;
    }
  }
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &out[r]);
    CU_ASSERT_PTR_NULL(out[r].status);
    result_deinit(&out[r]);
    weft_tensor_release(in[r]);
  }
  w->next_step++;
  return weft_local_hub_seconds(w->hub) - before;
}
