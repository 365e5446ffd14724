/* kernels/cpu/kv/kv_clock.c - the kernels of clocks; all but the maker take a table's handle, too. */
#include "resources/kv_clock.h"
#include "base/alloc.h"
#include "kernels/cpu/kv/kv_common.h"
#include "kernels/cpu/loops/common.h"

typedef struct clock_config {
  int num_workers;
  const weft_attr_t *tasks; /* the node's */
} clock_config_t;

static weft_status_t *read_config(const weft_kernel_setup_t *setup, void *config) {
  clock_config_t *c = config;
  return weft_kv_read_workers(setup, &c->num_workers, &c->tasks);
}

static weft_status_t *create(weft_kernel_ctx_t *ctx, const char *name, const void *config,
                             weft_object_t **out) {
  (void)ctx;
  const clock_config_t *c = config;
  (void)name;
  return weft_clock_create(c->num_workers, c->tasks == NULL ? NULL : c->tasks->list.strings,
                           c->tasks == NULL ? 0 : c->tasks->n, out);
}

static weft_status_t *check(const char *name, const void *config, weft_object_t *o) {
  const clock_config_t *c = config;
  if (((weft_clocked_t *)o)->num_workers == c->num_workers) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "clock '%s' is of %d workers, not of %d", name,
                    ((weft_clocked_t *)o)->num_workers, c->num_workers);
}

static const weft_state_maker_t maker = {
    &weft_clock_type, sizeof(clock_config_t), read_config, create, check, NULL};

/* ---- operations ---- */

static weft_status_t *advance(weft_kernel_ctx_t *c) {
  weft_clocked_t *clock = NULL;
  int64_t worker = 0, now = 0;
  WEFT_RETURN_IF_ERROR(weft_kv_in_clocked(c, &clock));
  weft_status_t *s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_clocked_advance(clock, worker, &now);
  weft_object_release(&clock->object);
  return s != NULL ? s : weft_tensor_scalar(WEFT_I64, &now, &c->outputs[0].tensor);
}

static weft_status_t *join(weft_kernel_ctx_t *c) {
  weft_clocked_t *clock = NULL;
  int64_t worker = 0, now = 0;
  WEFT_RETURN_IF_ERROR(weft_kv_in_clocked(c, &clock));
  weft_status_t *s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_clocked_join(clock, worker, &now);
  weft_object_release(&clock->object);
  return s != NULL ? s : weft_tensor_scalar(WEFT_I64, &now, &c->outputs[0].tensor);
}

static weft_status_t *remove_worker(weft_kernel_ctx_t *c) {
  weft_clocked_t *clock = NULL;
  int64_t worker = 0;
  WEFT_RETURN_IF_ERROR(weft_kv_in_clocked(c, &clock));
  weft_status_t *s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_clocked_remove(clock, worker);
  weft_object_release(&clock->object);
  return s;
}

static weft_status_t *reset(weft_kernel_ctx_t *c) {
  weft_clocked_t *clock = NULL;
  WEFT_RETURN_IF_ERROR(weft_kv_in_clocked(c, &clock));
  weft_status_t *s = weft_clocked_reset(clock);
  weft_object_release(&clock->object);
  return s;
}

static weft_status_t *read_clocks(weft_kernel_ctx_t *c) {
  weft_clocked_t *clock = NULL;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_kv_in_clocked(c, &clock));
  weft_shape_t shape = weft_shape_vector(clock->num_workers);
  weft_status_t *s = weft_out_new(c, 0, WEFT_I64, &shape, &out);
  if (s == NULL) weft_clocked_read(clock, out->data);
  weft_object_release(&clock->object);
  return s;
}

WEFT_ATTRS_ASYNC(wait_for_slowest, (FLOAT, timeout_seconds))
static void wait_for_slowest(weft_kernel_ctx_t *c, const wait_for_slowest_attrs_t *attrs) {
  weft_clocked_t *clock = NULL;
  int64_t worker = 0, staleness = 0;
  weft_status_t *s = weft_kv_in_clocked(c, &clock);
  if (s == NULL) s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_kv_scalar(c, 2, "staleness", &staleness);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_clocked_wait(clock, &call, worker, staleness, weft_kv_timeout(c, attrs->timeout_seconds));
  }
  if (clock != NULL) weft_object_release(&clock->object);
}

const weft_kernel_t weft_cpu_kv_clock_kernels[] = {
    {.op = "WeftClock", WEFT_STATE_MAKER, .param = &maker},
    {.op = "WeftClockAdvance", .compute = advance},
    {.op = "WeftClockJoin", .compute = join},
    {.op = "WeftClockRead", .compute = read_clocks},
    {.op = "WeftClockRemove", .compute = remove_worker},
    {.op = "WeftClockReset", .compute = reset},
    {.op = "WeftClockWait", WEFT_COMPUTE_ASYNC(wait_for_slowest)},
    {0},
};
