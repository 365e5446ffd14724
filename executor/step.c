/* executor/step.c - the beginning of a step. */
#include "executor/step.h"

#include "base/float_mode.h"

static void begin(run_t *run, weft_exec_plan_t *p, const weft_run_options_t *options, weft_plan_done_fn *done,
                  void *arg) {
  const plan_frame_t *f = &p->frames[0];
  run->plan = weft_plan_retain(p);
  run->step = options->step;
  run->pool = options->pool != NULL ? options->pool : p->device->pool;
  run->recorder = options->recorder;
  run->feeds = options->feeds;
  run->fetches = options->fetches;
  run->done = done;
  run->done_arg = arg;
  run->runs_program = atomic_load_explicit(&p->is_light, memory_order_relaxed) && run->recorder == NULL &&
                      (run->feeds != NULL || p->client_edges.num_feeds + p->client_edges.num_fetches == 0);
  run->serial = run->runs_program || (!p->has_async && (run->pool == NULL || p->num_costs == 0));
  run->status = NULL;
  run->frames = NULL;
  atomic_store_explicit(&run->tasks, 1, memory_order_relaxed);
  atomic_store_explicit(&run->fate.has_failed, false, memory_order_relaxed);
  atomic_store_explicit(&run->fate.is_committed, false, memory_order_relaxed);
  run->async_done = weft_async_done;
  run->step.fate = p->has_frames ? NULL : &run->fate;
  if (run->runs_program) return;
  if (run->has_lasting) weft_iteration_clear(run->root);
  run->has_lasting = false;
  memcpy((void *)run->root->words, p->words, f->num_nodes * sizeof(uint32_t));
  if (f->num_merges > 0) memset((void *)run->root->sides, 0, f->num_merges * sizeof(uint32_t));
  if (f->num_children > 0) memset(run->root->children, 0, (size_t)f->num_children * sizeof(frame_t *));
}

static void start(void *arg) {
  run_t *run = arg;
  const weft_exec_plan_t *p = run->plan;
  runner_t r;
  const uint64_t mode = weft_float_mode_flush(); /* the caller's thread, where a step is run inline */
  weft_runner_begin(&r, run);
  if (run->runs_program) {
    weft_serial_run_top(&r);
  } else {
    for (uint32_t i = 0; i < p->num_roots; i++) runner_push(&r, run->root, p->roots[i]);
    weft_runner_loop(&r);
  }
  weft_runner_end(&r);
  weft_float_mode_restore(mode);
}

void weft_plan_run(weft_exec_plan_t *p, const weft_run_options_t *options, weft_plan_done_fn *done,
                   void *arg) {
  run_t *run = weft_run_take(p);
  if (run == NULL) {
    weft_status_t *s = WEFT_NO_MEMORY("a step of %u nodes", p->num_nodes);
    if (options->step.rendezvous != NULL) weft_rendezvous_abort(options->step.rendezvous, s);
    if (options->step.canceller != NULL) weft_canceller_cancel(options->step.canceller);
    done(arg, s);
    return;
  }
  begin(run, p, options, done, arg);
  if (options->run_inline || run->pool == NULL || !weft_thread_pool_submit(run->pool, start, run)) start(run);
}

typedef struct step_waiter {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done;          /* guarded by mu */
  weft_status_t *status; /* guarded by mu */
} step_waiter_t;

static void wake(void *arg, weft_status_t *status) {
  step_waiter_t *w = arg;
  weft_mutex_lock(&w->mu);
  w->status = status;
  w->is_done = true;
  weft_cond_signal(&w->ended);
  weft_mutex_unlock(&w->mu);
}

weft_status_t *weft_plan_run_sync(weft_exec_plan_t *p, const weft_run_options_t *options) {
  step_waiter_t w = {.is_done = false};
  weft_mutex_init(&w.mu);
  weft_cond_init(&w.ended);
  weft_plan_run(p, options, wake, &w);
  weft_mutex_lock(&w.mu);
  while (!w.is_done) weft_cond_wait(&w.ended, &w.mu); /* woken by wake() */
  weft_mutex_unlock(&w.mu);
  weft_cond_deinit(&w.ended);
  weft_mutex_deinit(&w.mu);
  return w.status;
}
