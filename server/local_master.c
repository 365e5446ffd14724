/* server/local_master.c - a whole task behind a master client, without a network: what a local session runs
 * on. */
#include "base/alloc.h"
#include "server/server.h"
#include "server/task.h"
#include "server/worker_cache.h"

/* Passes every call on to the task's own client; the last release takes the task down. */
typedef struct local_master {
  weft_master_client_t base;
  weft_task_t task;
} local_master_t;

static weft_master_client_t *inner(weft_master_client_t *m) {
  return ((local_master_t *)(void *)m)->task.master_client;
}

static void create_session(weft_master_client_t *m, const weft_create_session_t *r, weft_canceller_t *c,
                           weft_session_fn *fn, void *arg) {
  inner(m)->ops->create_session(inner(m), r, c, fn, arg);
}
static void extend_session(weft_master_client_t *m, const weft_extend_session_t *r, weft_canceller_t *c,
                           weft_number_fn *fn, void *arg) {
  inner(m)->ops->extend_session(inner(m), r, c, fn, arg);
}
static void run_step(weft_master_client_t *m, const weft_run_step_t *r, weft_canceller_t *c,
                     weft_run_step_fn *fn, void *arg) {
  inner(m)->ops->run_step(inner(m), r, c, fn, arg);
}
static void partial_run_setup(weft_master_client_t *m, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                              weft_text_fn *fn, void *arg) {
  inner(m)->ops->partial_run_setup(inner(m), r, c, fn, arg);
}
static void make_callable(weft_master_client_t *m, const weft_make_callable_t *r, weft_canceller_t *c,
                          weft_number_fn *fn, void *arg) {
  inner(m)->ops->make_callable(inner(m), r, c, fn, arg);
}
static void run_callable(weft_master_client_t *m, const weft_run_callable_t *r, weft_canceller_t *c,
                         weft_run_step_fn *fn, void *arg) {
  inner(m)->ops->run_callable(inner(m), r, c, fn, arg);
}
static void release_callable(weft_master_client_t *m, weft_str_t session, int64_t handle, weft_done_fn *fn,
                             void *arg) {
  inner(m)->ops->release_callable(inner(m), session, handle, fn, arg);
}
static void close_session(weft_master_client_t *m, weft_str_t session, weft_done_fn *fn, void *arg) {
  inner(m)->ops->close_session(inner(m), session, fn, arg);
}
static void list_devices(weft_master_client_t *m, weft_str_t session, weft_canceller_t *c,
                         weft_devices_fn *fn, void *arg) {
  inner(m)->ops->list_devices(inner(m), session, c, fn, arg);
}
static void hold_client(weft_master_client_t *m, const weft_hold_client_t *r, weft_canceller_t *c,
                        weft_done_fn *fn, void *arg) {
  inner(m)->ops->hold_client(inner(m), r, c, fn, arg);
}
static void reset(weft_master_client_t *m, const weft_str_t *containers, int n, const weft_str_t *filters,
                  int num_filters, weft_done_fn *fn, void *arg) {
  inner(m)->ops->reset(inner(m), containers, n, filters, num_filters, fn, arg);
}

static void destroy(weft_master_client_t *m) {
  weft_task_deinit(&((local_master_t *)(void *)m)->task);
  weft_free(m);
}

static const weft_master_client_ops_t ops = {
    .create_session = create_session,
    .extend_session = extend_session,
    .run_step = run_step,
    .partial_run_setup = partial_run_setup,
    .make_callable = make_callable,
    .run_callable = run_callable,
    .release_callable = release_callable,
    .close_session = close_session,
    .list_devices = list_devices,
    .hold_client = hold_client,
    .reset = reset,
    .destroy = destroy,
};

weft_status_t *weft_local_master_create(int num_threads, int num_cpus,
                                        const weft_accelerator_options_t *accelerators,
                                        weft_master_client_t **out) {
  local_master_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("a local session");
  m->base.ops = &ops;
  atomic_init(&m->base.refs, 1);
  weft_str_t name =
      WEFT_STR("/job:localhost/replica:0/task:0"); /* as TensorFlow names a local session's task */
  weft_worker_cache_t *cache = NULL;
  weft_status_t *s = weft_worker_cache_create_local(name, &cache);
  if (s == NULL)
    s = weft_task_init(
        name,
        (weft_task_options_t){.num_threads = num_threads, .num_cpus = num_cpus, .accelerators = accelerators},
        true, cache, NULL, &m->task);
  if (s != NULL) {
    weft_free(m);
    return s;
  }
  *out = &m->base;
  return NULL;
}
