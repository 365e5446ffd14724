/* executor/step.c - the beginning and the end of a step, and its first failure. */
#include "executor/step.h"

#include "base/alloc.h"

static run_t *run_new(weft_exec_plan_t *p) {
  const size_t drains_at = (sizeof(run_t) + 15) & ~(size_t)15;
  const size_t header = (drains_at + p->num_queues * sizeof(weft_fence_waiter_t) + 15) & ~(size_t)15;
  size_t bytes;
  if (!weft_add_size(header, p->frames[0].bytes, &bytes)) return NULL;
  char *block = weft_calloc(1, bytes);
  if (block == NULL) return NULL;
  run_t *run = (run_t *)(void *)block;
  weft_mutex_init(&run->mu);
  weft_mutex_init(&run->top.mu);
  run->top.plan = &p->frames[0];
  run->drains = (weft_fence_waiter_t *)(void *)(block + drains_at);
  run->root = weft_iteration_layout(run, &run->top, &p->frames[0], block + header);
  return run;
}

void weft_run_free(run_t *run) {
  weft_mutex_deinit(&run->top.mu);
  weft_mutex_deinit(&run->mu);
  weft_free(run);
}

static run_t *run_take(weft_exec_plan_t *p) {
  weft_mutex_lock(&p->mu);
  run_t *run = p->free_runs;
  if (run != NULL) {
    p->free_runs = run->next_free;
    p->num_free_runs--;
  }
  weft_mutex_unlock(&p->mu);
  return run != NULL ? run : run_new(p);
}

static void run_recycle(weft_exec_plan_t *p, run_t *run) {
  weft_mutex_lock(&p->mu);
  bool keep = p->num_free_runs < MAX_FREE_RUNS;
  if (keep) {
    run->next_free = p->free_runs;
    p->free_runs = run;
    p->num_free_runs++;
  }
  weft_mutex_unlock(&p->mu);
  if (!keep) weft_run_free(run);
}

/* UNAVAILABLE means that a peer is away; a kernel that talks to nobody must not say so. */
static weft_status_t *not_a_network_failure(weft_status_t *s, const weft_kernel_node_t *node) {
  weft_status_t *replaced = WEFT_ERROR(INTERNAL,
                                       "%s\nExecuting non-communication op <%s> originally returned "
                                       "UnavailableError, and was replaced by InternalError "
                                       "to avoid invoking TF network error handling logic.",
                                       weft_status_message(s), node->name.data);
  weft_status_free(s);
  return replaced;
}

void weft_run_fail(run_t *run, weft_status_t *s, const weft_kernel_node_t *node, bool is_communication) {
  if (node != NULL) s = weft_status_attach_node(s, node->name);
  if (node != NULL && !is_communication && weft_status_code(s) == WEFT_UNAVAILABLE)
    s = not_a_network_failure(s, node);
  weft_code_t code = weft_status_code(s);
  if ((code == WEFT_CANCELLED || code == WEFT_ABORTED) && weft_canceller_is_cancelled(run->step.canceller)) {
    s = weft_status_mark_derived(s); /* an echo of what cancelled the step */
  }
  weft_status_t *copy = weft_status_clone(s); /* run->status may be gone before abort() has read it */
  weft_mutex_lock(&run->mu);
  bool is_first = run->status == NULL;
  if (is_first) run->status = s;
  weft_mutex_unlock(&run->mu);
  if (is_first) {
    atomic_store(&run->fate.has_failed, true);
    if (run->step.rendezvous != NULL) weft_rendezvous_abort(run->step.rendezvous, copy);
    if (run->step.canceller != NULL) weft_canceller_cancel(run->step.canceller);
  } else {
    weft_status_free(s);
  }
  weft_status_free(copy);
}

static void clear_root(run_t *run) {
  weft_value_t *slots = run->root->slots;
  for (uint32_t i = 0; i < run->plan->frames[0].num_slots; i++) {
    if (!value_is_none(&slots[i])) value_release(&slots[i]);
  }
}

static void end(run_t *run) {
  weft_exec_plan_t *p = run->plan;
  weft_plan_done_fn *done = run->done;
  void *arg = run->done_arg;
  weft_status_t *s = run->status;
  run->status = NULL;
  /* Without frames every node of a step that went well has run and taken its inputs. */
  if (s != NULL || p->has_frames) {
    weft_frames_clear(run);
    clear_root(run);
  }
  run_recycle(p, run);
  weft_plan_release(p);
  done(arg, s);
}

static void on_drained(void *arg, weft_status_t *status) {
  run_t *run = arg;
  if (status != NULL) weft_run_fail(run, status, NULL, false);
  if (atomic_fetch_sub_explicit(&run->num_undrained, 1, memory_order_acq_rel) == 1) end(run);
}

/* No node is running any more; what was enqueued may be. */
void weft_run_finish(run_t *run) {
  const weft_exec_plan_t *p = run->plan;
  if (p->num_queues == 0) {
    end(run);
    return;
  }
  const uint32_t n = p->num_queues;
  atomic_store_explicit(&run->num_undrained, n, memory_order_relaxed);
  for (uint32_t i = 0; i < n; i++)
    weft_fence_then(weft_queue_mark(p->queues[i]), &run->drains[i], on_drained, run);
}

static void begin(run_t *run, weft_exec_plan_t *p, const weft_run_options_t *options, weft_plan_done_fn *done,
                  void *arg) {
  const plan_frame_t *f = &p->frames[0];
  run->plan = weft_plan_retain(p);
  run->step = options->step;
  run->pool = options->pool != NULL ? options->pool : p->device->pool;
  run->recorder = options->recorder;
  run->done = done;
  run->done_arg = arg;
  run->serial = !p->has_async && (run->pool == NULL || p->num_costs == 0);
  run->status = NULL;
  run->frames = NULL;
  atomic_store_explicit(&run->tasks, 1, memory_order_relaxed);
  atomic_store_explicit(&run->fate.has_failed, false, memory_order_relaxed);
  atomic_store_explicit(&run->fate.is_committed, false, memory_order_relaxed);
  run->step.fate = p->has_frames ? NULL : &run->fate;
  memcpy((void *)run->root->words, p->words, f->num_nodes * sizeof(uint32_t));
  if (f->num_merges > 0) memset((void *)run->root->sides, 0, f->num_merges * sizeof(uint32_t));
  if (f->num_children > 0) memset(run->root->children, 0, (size_t)f->num_children * sizeof(frame_t *));
}

static void start(void *arg) {
  run_t *run = arg;
  const weft_exec_plan_t *p = run->plan;
  runner_t r;
  weft_runner_begin(&r, run);
  for (uint32_t i = 0; i < p->num_roots; i++) runner_push(&r, run->root, p->roots[i]);
  weft_runner_loop(&r);
  weft_runner_end(&r);
}

void weft_plan_run(weft_exec_plan_t *p, const weft_run_options_t *options, weft_plan_done_fn *done,
                   void *arg) {
  run_t *run = run_take(p);
  if (run == NULL) {
    weft_status_t *s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a step of %u nodes", p->num_nodes);
    if (options->step.rendezvous != NULL) weft_rendezvous_abort(options->step.rendezvous, s);
    if (options->step.canceller != NULL) weft_canceller_cancel(options->step.canceller);
    done(arg, s);
    return;
  }
  begin(run, p, options, done, arg);
  if (options->run_inline || run->pool == NULL || !weft_thread_pool_submit(run->pool, start, run)) start(run);
}

typedef struct waiter {
  weft_mutex_t mu;
  weft_cond_t ended;
  bool is_done;          /* guarded by mu */
  weft_status_t *status; /* guarded by mu */
} waiter_t;

static void wake(void *arg, weft_status_t *status) {
  waiter_t *w = arg;
  weft_mutex_lock(&w->mu);
  w->status = status;
  w->is_done = true;
  weft_cond_signal(&w->ended);
  weft_mutex_unlock(&w->mu);
}

weft_status_t *weft_plan_run_sync(weft_exec_plan_t *p, const weft_run_options_t *options) {
  waiter_t w = {.is_done = false};
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
