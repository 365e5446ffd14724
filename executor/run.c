/* executor/run.c - how a run fails and ends. */
#include "executor/step.h"

/* UNAVAILABLE means that a peer is away; a kernel that does not communicate must not say so. */
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

/* Decides now and then how later steps are run; first it must be known what nodes cost. */
static void look_at_costs(run_t *run) {
  enum { LOOK_EVERY = 16 };
  weft_exec_plan_t *p = run->plan;
  const uint32_t n = atomic_fetch_add_explicit(&p->num_runs, 1, memory_order_relaxed) + 1;
  if (n % LOOK_EVERY != 0 && (n > LOOK_EVERY || (n & (n - 1)) != 0)) return;
  const bool is_heavy = weft_serial_is_heavy(run, &p->frames[0], run->root);
  atomic_store_explicit(&p->is_light, !is_heavy, memory_order_relaxed);
}

static void end(run_t *run) {
  weft_exec_plan_t *p = run->plan;
  weft_plan_done_fn *done = run->done;
  void *arg = run->done_arg;
  weft_status_t *s = run->status;
  run->status = NULL;
  /* Without frames every node of a step that went well has run and taken its inputs. So has a program. */
  if (s != NULL || (p->has_frames && !run->runs_program)) {
    weft_frames_clear(run);
    weft_iteration_clear(run->root);
    run->has_lasting = false;
  }
  if (s == NULL && p->frames[0].program != NULL && run->recorder == NULL) look_at_costs(run);
  weft_run_recycle(p, run);
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
