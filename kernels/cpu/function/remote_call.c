/* kernels/cpu/function/remote_call.c - RemoteCall to a device that is known only when the node runs: one of
 * the node's own task. A call whose target is a constant became the function's body before (graph/lower.h),
 * on whatever task. */
#include "base/alloc.h"
#include "device/device_name.h"
#include "kernels/function_call.h"

typedef struct remote_call {
  weft_callee_t *f; /* on the node's own device */
} remote_call_t;

typedef struct remote_run {
  weft_kernel_ctx_t *c;
  weft_tensor_t *args[];
} remote_run_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  remote_call_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("RemoteCall");
  weft_status_t *s = weft_knode_callee(setup, "f", &st->f);
  if (s != NULL) {
    weft_free(st);
    return s;
  }
  *out = st;
  return NULL;
}

/* The first device of the task that `target` describes; parts that it leaves open are the node's own. */
static weft_status_t *find_target(weft_kernel_ctx_t *c, weft_device_t **out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->count != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "the target of a RemoteCall must be one string but has shape %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  const weft_str_t target = weft_tensor_str_at(t, 0);
  weft_device_name_t wanted, name;
  WEFT_RETURN_IF_ERROR(weft_device_name_parse(target, &wanted));
  const weft_device_t *d = c->device;
  for (int i = 0; i < d->num_siblings; i++) {
    WEFT_RETURN_IF_ERROR(weft_device_name_parse(d->siblings[i]->name, &name));
    if (!weft_device_name_matches(&wanted, &name)) continue;
    *out = d->siblings[i];
    return NULL;
  }
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "RemoteCall to '%.*s', which is no device of this task: only a constant may name another's",
      WEFT_STR_ARGS(target));
}

static void called(void *arg, weft_status_t *status, weft_tensor_t **results) {
  remote_run_t *run = arg;
  weft_kernel_ctx_t *c = run->c;
  for (int i = 0; status == NULL && i < c->node->num_outputs; i++) {
    weft_out_set(c, i, results[i]);
    results[i] = NULL;
  }
  weft_free(run);
  c->done(c, status);
}

static void compute(weft_kernel_ctx_t *c) {
  const remote_call_t *st = c->state;
  const int n = c->node->num_inputs - 1;
  weft_device_t *target = NULL;
  weft_callee_t *f = NULL;
  remote_run_t *run = NULL;
  weft_status_t *s = find_target(c, &target);
  if (s == NULL) s = weft_callee_on(st->f, target, &f);
  if (s == NULL) {
    run = weft_calloc(1, sizeof *run + (size_t)n * sizeof run->args[0]);
    if (run == NULL) s = WEFT_NO_MEMORY("RemoteCall");
  }
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  run->c = c;
  for (int i = 0; i < n; i++) run->args[i] = weft_in(c, i + 1);
  const weft_function_call_t call = {.args = run->args,
                                     .num_args = n,
                                     .num_results = c->node->num_outputs,
                                     .canceller = c->step->canceller,
                                     .step = c->step,
                                     .done = called,
                                     .arg = run};
  weft_callee_run(f, &call);
}

const weft_kernel_t weft_cpu_remote_call_kernels[] = {
    {.op = "RemoteCall", .prepare = prepare, .compute_async = compute, .destroy = weft_free},
    {0},
};
