/* executor/schedule.c - which thread runs which ready node.
 *
 * A runner empties its list of cheap nodes, then runs one costly node itself
 * after giving the others to the pool, and so on until both lists are empty.
 *
 * Asynchronous kernels call back on any thread. If that thread is in the middle
 * of one of our own kernels, the rest must not run inside it, or two runs that
 * feed each other would recurse for ever: it goes to the pool, or, without one,
 * waits until the outermost runner of this thread has ended.
 */
#include "executor/step.h"

/* After this many cheap nodes other threads get what is worth their while: a long row of cheap ones must not
 * keep them waiting. */
enum { SHARE_EVERY = 32 };

/* What this thread is doing for executors. */
static _Thread_local struct {
  runner_t *inner;      /* the innermost runner; NULL: none */
  async_op_t *deferred; /* ended kernels that wait for the outermost runner to end */
  bool is_draining;
} here;

/* Other threads have ended their tasks, with all that they did, when this is seen. */
static inline bool is_alone(const run_t *run) {
  return run->serial || atomic_load_explicit(&run->tasks, memory_order_acquire) == 1;
}

void weft_runner_begin(runner_t *r, run_t *run) {
  r->run = run;
  r->plan = run->plan;
  r->is_alone = is_alone(run);
  r->is_guest = false;
  r->cheap.first = r->costly.first = (ready_t){NULL, 0};
  memset(r->scratch, 0, sizeof r->scratch);
  r->outer = here.inner;
  here.inner = r;
}

static void continue_op(async_op_t *op, bool is_guest);

static void drain_deferred(void) {
  if (here.is_draining) return;
  here.is_draining = true;
  while (here.deferred != NULL) {
    async_op_t *op = here.deferred;
    here.deferred = op->next;
    continue_op(op, true);
  }
  here.is_draining = false;
}

void weft_runner_end(runner_t *r) {
  run_t *run = r->run;
  here.inner = r->outer;
  bool is_last = run->serial || atomic_fetch_sub_explicit(&run->tasks, 1, memory_order_acq_rel) == 1;
  if (is_last) weft_run_finish(run);
  if (here.inner == NULL && here.deferred != NULL) drain_deferred();
}

/* Gives costly nodes to the pool, all but one, or all if this thread is not ours. What the pool does not take
 * stays. */
static void share_costly(runner_t *r) {
  run_t *run = r->run;
  if (run->pool == NULL || run->serial) return;
  ready_list_t keep = {{NULL, 0}, {NULL, 0}}, rest = r->costly;
  while (rest.first.node != 0) {
    iteration_t *it;
    bool is_dead;
    uint32_t node = ready_take(r->plan, &rest, &it, &is_dead);
    bool given = false;
    if (keep.first.node != 0 || r->is_guest) {
      const plan_node_t *n = &r->plan->nodes[node];
      task_t *task = &it->tasks[n->kind == NODE_LOOP ? r->plan->frames[n->aux].task : n->extra];
      *task = (task_t){it, node};
      r->is_alone = false;
      atomic_fetch_add_explicit(&run->tasks, 1, memory_order_relaxed);
      given = weft_thread_pool_submit(run->pool, weft_run_task, task);
      if (!given)
        atomic_fetch_sub_explicit(&run->tasks, 1, memory_order_relaxed); /* our own task is still counted */
    }
    if (!given) ready_append(r->plan, &keep, it, node);
  }
  r->costly = keep;
}

void weft_runner_loop(runner_t *r) {
  run_t *run = r->run;
  iteration_t *it;
  bool is_dead;
  for (;;) {
    for (int n = 0; r->cheap.first.node != 0; n++) {
      if (weft_run_dropped(run)) return; /* what is still on our lists is dropped with the run */
      if (n % SHARE_EVERY == SHARE_EVERY - 1 && r->costly.first.node != 0) share_costly(r);
      uint32_t node = ready_take(r->plan, &r->cheap, &it, &is_dead);
      weft_node_run(r, it, node, is_dead);
    }
    if (r->costly.first.node == 0 || weft_run_dropped(run)) return;
    if (!r->is_alone) r->is_alone = is_alone(run);
    if (weft_canceller_is_cancelled(run->step.canceller) && !atomic_load(&run->fate.is_committed)) {
      weft_run_fail(run, WEFT_ERROR(CANCELLED, "Step was cancelled."), NULL, false);
      if (weft_run_dropped(run)) return; /* else a kernel has committed us just now */
    }
    share_costly(r);
    if (r->costly.first.node == 0) return;
    uint32_t node = ready_take(r->plan, &r->costly, &it, &is_dead);
    weft_node_run(r, it, node, is_dead);
  }
}

void weft_run_task(void *arg) {
  const task_t task = *(const task_t *)arg;
  runner_t r;
  weft_runner_begin(&r, task.it->run);
  if (!weft_run_dropped(r.run)) weft_node_run(&r, task.it, task.node, false);
  weft_runner_loop(&r);
  weft_runner_end(&r);
}

/* Goes on behind an ended kernel with a runner of its own; the kernel's count in `tasks` becomes the
 * runner's. */
static void continue_op(async_op_t *op, bool is_guest) {
  runner_t r;
  weft_runner_begin(&r, op->it->run);
  r.is_guest = is_guest;
  weft_status_t *status = op->status;
  op->status = NULL;
  weft_node_finish_async(&r, op, status);
  weft_runner_loop(&r);
  weft_runner_end(&r);
}

static void continue_op_task(void *arg) { continue_op(arg, false); }

void weft_async_done(weft_kernel_ctx_t *ctx, weft_status_t *status) {
  async_op_t *op = (async_op_t *)(void *)ctx;
  run_t *run = op->it->run;
  if (here.inner != NULL && here.inner->run == run) {
    /* Inside a kernel of the same run: its runner goes on with what gets ready. It holds a task of its own.
     */
    weft_node_finish_async(here.inner, op, status);
    atomic_fetch_sub_explicit(&run->tasks, 1, memory_order_acq_rel);
    return;
  }
  op->status = status;
  if (here.inner == NULL) {
    continue_op(op, true);
  } else if (run->pool == NULL || !weft_thread_pool_submit(run->pool, continue_op_task, op)) {
    op->next = here.deferred;
    here.deferred = op;
  }
}
