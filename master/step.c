/* master/step.c - sends a step to its workers and joins their answers.
 *
 * Life of a step:
 *   1. weft_step_run   waits until the plan is built (for most steps it is), and for a collective
 *                      graph's id
 *   2. launch          RunGraph to every part
 *   3. part_done       each part ends; the first real failure cancels the others
 *   4. finish          the last one: joins statuses, answers, cleans up
 * The reference is held by the pending operation: the preparation, then each part.
 */
#include "master/step.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "protos/wire.h"

typedef struct running_step running_step_t;

typedef struct part_run {
  running_step_t *step;
  int index;
  bool ends_itself; /* the worker cleans up; written by the part alone */
} part_run_t;

enum { REASON_NONE, REASON_CALLER, REASON_DEADLINE };

struct running_step {
  weft_master_session_t *session;
  weft_step_plan_t *plan;
  weft_step_request_t request;
  weft_canceller_t *canceller;
  weft_cancel_waiter_t call_waiter; /* there while is_linked */
  uint64_t timer_id;
  bool is_linked, has_timer;
  bool has_graph_id; /* its id is that of a collective graph's next step */
  atomic_int reason; /* why the canceller was cancelled from outside */
  weft_run_step_fn *fn;
  void *arg;
  atomic_int left; /* parts still running, and one for the launch */
  weft_mutex_t mu;
  weft_status_t **failures; /* by part; each written by its part alone */
  bool was_cancelled;       /* guarded by mu: by a failure */
  weft_strbuf_t metadata;   /* guarded by mu: RunMetadata's fields */
  weft_strbuf_t dev_stats;  /* guarded by mu: StepStats' fields of all parts */
  weft_tensor_t **fetches;  /* written by the client's part */
  weft_named_tensor_t *sends;
  part_run_t *parts;
  bool has_own_parts; /* and failures: in the step's own block */
};

int64_t weft_step_new_id(void) {
  int64_t id = 0;
  while (id == 0) id = (int64_t)(weft_random_id() & (((uint64_t)1 << 57) - 1));
  return id;
}

static void free_step(running_step_t *t) {
  for (int i = 0; t->sends != NULL && i < t->request.num_sends; i++) weft_tensor_release(t->sends[i].tensor);
  for (int i = 0; t->failures != NULL && i < t->plan->num_parts; i++) weft_status_free(t->failures[i]);
  if (!t->has_own_parts) {
    weft_free(t->failures);
    weft_free(t->parts);
  }
  weft_strbuf_deinit(&t->metadata);
  weft_strbuf_deinit(&t->dev_stats);
  weft_canceller_release(t->canceller);
  weft_canceller_release(t->request.canceller);
  weft_step_plan_release(t->plan);
  weft_mutex_deinit(&t->mu);
  weft_master_session_t *s = t->session;
  weft_free(t);
  weft_master_session_end_step(s);
  weft_master_session_release(s);
}

/* ---- joining failures ---- */

static void tell(const running_step_t *t, int part, weft_strbuf_t *out) {
  if (!t->session->is_direct)
    weft_strbuf_printf(out, "From %.*s:\n", WEFT_STR_ARGS(t->plan->parts[part].worker->task));
  weft_strbuf_puts(out, weft_status_message(t->failures[part]));
}

/* The node that a message says failed, "[[{{node NAME}}]]"; empty: none. */
static weft_str_t failed_node(const char *message) {
  static const char open[] = "[[{{node ";
  const char *at = strstr(message, open), *end = at == NULL ? NULL : strstr(at, "}}]]");
  return end == NULL ? WEFT_STR("")
                     : weft_str_of(at + sizeof open - 1, (size_t)(end - at) - (sizeof open - 1));
}

/* ", node 'x' (MatMul), device ...", as far as the client's graph knows it. */
static void tell_node(const running_step_t *t, weft_str_t name, weft_strbuf_t *out) {
  if (name.length == 0) return;
  weft_graph_version_t *v = weft_master_session_graph(t->session);
  const weft_node_t *n = weft_graph_find(v->graph, name);
  weft_strbuf_printf(out, ", node '%.*s'", WEFT_STR_ARGS(name));
  if (n != NULL && n->op != NULL) weft_strbuf_printf(out, " (%.*s)", WEFT_STR_ARGS(n->op->name));
  if (n != NULL && n->assigned_device.length > 0)
    weft_strbuf_printf(out, ", device %.*s", WEFT_STR_ARGS(n->assigned_device));
  weft_graph_version_release(v);
}

static bool holds(weft_str_t text, weft_str_t word) {
  for (size_t i = 0; i + word.length <= text.length; i++) {
    if (memcmp(text.data + i, word.data, word.length) == 0) return true;
  }
  return false;
}

/* The cause in one line, before what each task says. A step of one task that is its own cause needs none. */
static void tell_cause(const running_step_t *t, int part, int num_failures, weft_strbuf_t *out) {
  enum { MAX_LINE = 400 };
  static const char remote[] = "\nAdditional GRPC error information";
  const char *message = weft_status_message(t->failures[part]);
  bool is_of_others = strstr(message, remote) != NULL;
  if (t->session->is_direct || (t->plan->num_parts == 1 && !is_of_others)) return;
  weft_str_t line = weft_str(message + strspn(message, "\n"));
  ptrdiff_t end = weft_str_find(line, '\n');
  if (end >= 0) line.length = (size_t)end;
  if (line.length > MAX_LINE) line.length = MAX_LINE;
  weft_str_t task = t->plan->parts[part].worker->task, node = failed_node(message);
  weft_strbuf_append(out, line);
  if (node.length > 0 || !holds(line, task)) {
    weft_strbuf_printf(out, " (at %.*s", WEFT_STR_ARGS(task));
    tell_node(t, node, out);
    weft_strbuf_putc(out, ')');
  }
  if (num_failures > 1)
    weft_strbuf_printf(out, "; %d more task%s failed with it", num_failures - 1,
                       num_failures == 2 ? "" : "s");
  weft_strbuf_putc(out, '\n');
}

static weft_code_t code_of(const running_step_t *t, int part) { return weft_status_code(t->failures[part]); }

/* One cause alone; several between lines; echoes ([_Derived_]) only if there is nothing else. Reference 3.9.
 * The cause in one line comes first. */
static weft_status_t *join_failures(running_step_t *t) {
  static const char line[] = "\n=====================\n";
  int n = t->plan->num_parts, num_causes = 0, num_failures = 0, first = -1, first_echo = -1;
  for (int i = 0; i < n; i++) {
    if (t->failures[i] == NULL) continue;
    bool is_echo = weft_status_is_derived(t->failures[i]);
    if (is_echo &&
        (first_echo < 0 || (code_of(t, first_echo) == WEFT_CANCELLED && code_of(t, i) != WEFT_CANCELLED)))
      first_echo = i;
    if (!is_echo && first < 0) first = i;
    num_causes += !is_echo;
    num_failures++;
  }
  if (first < 0) first = first_echo;
  if (first < 0) return NULL;
  weft_code_t code = weft_status_code(t->failures[first]);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  tell_cause(t, first, num_failures, &text);
  if (num_causes <= 1) {
    tell(t, first, &text);
  } else {
    weft_strbuf_puts(&text, text.length > 0 ? line + 1 : line);
    for (int i = 0; i < n; i++) {
      if (t->failures[i] == NULL || weft_status_is_derived(t->failures[i])) continue;
      weft_strbuf_printf(&text, "%s: ", weft_code_name(weft_status_code(t->failures[i])));
      tell(t, i, &text);
      weft_strbuf_putc(&text, '\n');
    }
    weft_strbuf_puts(&text, line + 1);
  }
  weft_status_t *joined =
      weft_status_new(code, __FILE__, __LINE__, "%s", text.failed ? "a step failed" : text.data);
  weft_strbuf_deinit(&text);
  return joined;
}

/* Why a step was cancelled. Consumes what its parts said. */
static weft_status_t *explain(running_step_t *t, weft_status_t *s) {
  if (atomic_load(&t->reason) == REASON_DEADLINE) {
    weft_status_free(s);
    return WEFT_ERROR(DEADLINE_EXCEEDED,
                      "Timed out waiting for notification: the step took longer than %" PRId64 " ms",
                      t->request.options.timeout_ms);
  }
  if (weft_canceller_is_cancelled(t->session->canceller)) {
    weft_status_free(s);
    return weft_master_session_end(t->session);
  }
  if (weft_status_code(s) != WEFT_CANCELLED || t->session->is_direct) return s;
  bool by_caller = atomic_load(&t->reason) == REASON_CALLER;
  bool by_piece = t->request.parent != NULL && weft_canceller_is_cancelled(t->request.parent);
  if (!by_caller && !by_piece) return s;
  weft_status_free(s);
  return WEFT_ERROR(CANCELLED, "Step was cancelled: %s",
                    by_caller ? "its client has cancelled the call, or is gone"
                              : "another piece of its partial run has failed");
}

static weft_status_t *outcome(running_step_t *t) {
  weft_status_t *s = join_failures(t);
  weft_code_t code = weft_status_code(s);
  bool is_cause = s != NULL && !weft_status_is_derived(s) && code != WEFT_CANCELLED;
  /* The master's own worker goes with it, and is away only for that reason. */
  if (code == WEFT_UNAVAILABLE && weft_canceller_is_cancelled(t->session->canceller)) is_cause = false;
  return s == NULL || is_cause ? s : explain(t, s);
}

static void finish(running_step_t *t) {
  if (t->is_linked) weft_canceller_deregister(t->request.canceller, t->call_waiter.token);
  if (t->has_timer) weft_timer_remove(t->session->timer, t->timer_id);
  weft_status_t *s = outcome(t);
  if (s == NULL && t->dev_stats.length > 0) {
    weft_wire_put_bytes(&t->metadata, 1, weft_str_of(t->dev_stats.data, t->dev_stats.length));
  }
  weft_run_step_result_t result = {.fetches = t->fetches,
                                   .num_fetches = t->request.num_recvs,
                                   .metadata = weft_str_of(t->metadata.data, t->metadata.length)};
  if (s != NULL) {
    for (int i = 0; i < t->request.num_recvs; i++) weft_tensor_release(t->fetches[i]);
  }
  bool is_kept = t->request.keep && s == NULL, has_failed = s != NULL;
  if (t->has_graph_id) {
    weft_collective_steps_retire(t->session->collective_steps, t->request.options.collective_graph_key,
                                 t->request.step_id, s);
  }
  t->fn(t->arg, s, s == NULL ? &result : NULL);
  for (int i = 0; !is_kept && i < t->plan->num_parts; i++) {
    if (!has_failed && t->parts[i].ends_itself) continue; /* a failed step may leave more behind */
    weft_step_plan_cleanup_part(&t->plan->parts[i], t->request.step_id);
  }
  free_step(t);
}

static void drop(running_step_t *t) {
  if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1) finish(t);
}

/* ---- running ---- */

static void part_done(void *arg, weft_status_t *status, weft_run_graph_result_t *result) {
  part_run_t *p = arg;
  running_step_t *t = p->step;
  if (status != NULL) {
    weft_mutex_lock(&t->mu);
    bool cancel = !t->was_cancelled;
    t->was_cancelled = true;
    weft_mutex_unlock(&t->mu);
    weft_code_t code = weft_status_code(status);
    /* A part that the master cancelled reports that cancellation, not a cause. */
    if (!cancel && (code == WEFT_CANCELLED || code == WEFT_ABORTED))
      status = weft_status_mark_derived(status);
    t->failures[p->index] = status;
    if (cancel) weft_canceller_cancel(t->canceller);
  } else {
    p->ends_itself = result->ends_itself;
    if (t->plan->parts[p->index].is_client) {
      for (int i = 0; i < result->num_recvs; i++) t->fetches[i] = result->recvs[i];
    }
    if (result->step_stats.length > 0 || result->num_partition_graphs > 0) {
      weft_mutex_lock(&t->mu);
      weft_strbuf_append(&t->dev_stats, result->step_stats);
      for (int i = 0; i < result->num_partition_graphs; i++)
        weft_wire_put_bytes(&t->metadata, 3, result->partition_graphs[i]);
      weft_mutex_unlock(&t->mu);
    }
  }
  drop(t);
}

static void launch(running_step_t *t) {
  const weft_step_request_t *r = &t->request;
  int n = t->plan->num_parts;
  for (int i = 0; i < n; i++) {
    weft_step_part_t *part = &t->plan->parts[i];
    t->parts[i] = (part_run_t){t, i, false};
    weft_run_graph_t run = {.session = t->plan->session,
                            .graph_handle = part->graph_handle,
                            .step_id = r->step_id,
                            .request_id = (int64_t)weft_random_id(),
                            .sends = part->is_client ? t->sends : NULL,
                            .num_sends = part->is_client ? r->num_sends : 0,
                            .recv_keys = part->is_client ? r->recv_keys : NULL,
                            .num_recvs = part->is_client ? r->num_recvs : 0,
                            .is_partial = r->is_partial,
                            .is_last_partial = r->is_last_partial,
                            .record_timeline = r->options.trace_level >= 2,
                            .record_partition_graphs = r->options.output_partition_graphs,
                            .kept = &part->kept};
    part->worker->ops->run_graph(part->worker, &run, t->canceller, part_done, &t->parts[i]);
  }
  drop(t);
}

static void caller_gone(void *arg) {
  running_step_t *t = arg;
  atomic_store(&t->reason, REASON_CALLER);
  weft_canceller_cancel(t->canceller);
}

static void deadline_passed(void *arg) {
  running_step_t *t = arg;
  atomic_store(&t->reason, REASON_DEADLINE);
  weft_canceller_cancel(t->canceller);
}

/* Ends a step that was never launched; consumes `status`. */
static void give_up(running_step_t *t, weft_status_t *status) {
  if (t->is_linked) weft_canceller_deregister(t->request.canceller, t->call_waiter.token);
  if (t->has_timer) weft_timer_remove(t->session->timer, t->timer_id);
  if (weft_status_code(status) == WEFT_CANCELLED) status = explain(t, status);
  t->fn(t->arg, status, NULL);
  free_step(t);
}

static void got_graph_id(void *arg, weft_status_t *status, int64_t step_id) {
  running_step_t *t = arg;
  if (status != NULL) {
    give_up(t, status);
    return;
  }
  t->request.step_id = step_id;
  t->has_graph_id = true;
  launch(t);
}

/* Members that are missing are other clients', as long as there is a task at which these can be. */
static weft_status_t *find_members(running_step_t *t) {
  const weft_collective_members_t *m = &t->plan->members;
  if (t->request.options.collective_graph_key != 0 || m->graph_key == 0) return NULL;
  if (weft_collective_steps_has_peers(t->session->collective_steps)) {
    t->request.options.collective_graph_key = m->graph_key;
    return NULL;
  }
  return m->missing.data == NULL ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "%.*s", WEFT_STR_ARGS(m->missing));
}

static void planned(void *arg, weft_status_t *status) {
  running_step_t *t = arg;
  size_t n = (size_t)t->plan->num_parts + 1;
  if (status == NULL && t->parts == NULL) {
    t->failures = weft_calloc(n, sizeof(weft_status_t *));
    t->parts = weft_calloc(n, sizeof *t->parts);
    if (t->failures == NULL || t->parts == NULL) status = WEFT_NO_MEMORY("a step");
  }
  if (status == NULL && t->request.step_id == 0) status = find_members(t);
  if (status != NULL) {
    give_up(t, status);
    return;
  }
  atomic_init(&t->left, t->plan->num_parts + 1);
  if (t->request.step_id == 0 && t->request.options.collective_graph_key != 0) {
    weft_collective_steps_next(t->session->collective_steps, t->request.options.collective_graph_key,
                               got_graph_id, t);
    return;
  }
  if (t->request.step_id == 0) t->request.step_id = weft_step_new_id();
  launch(t);
}

/* Header, fetches, sends, receive keys and, of a plan that is there, its parts are one block. */
static running_step_t *allocate(const weft_step_request_t *r) {
  size_t recvs = (size_t)r->num_recvs, sends = (size_t)r->num_sends;
  const bool is_planned = atomic_load_explicit(&r->plan->is_ready, memory_order_acquire);
  const size_t parts = is_planned ? (size_t)r->plan->num_parts + 1 : 0;
  size_t size = sizeof(running_step_t) + recvs * (sizeof(weft_tensor_t *) + sizeof(weft_str_t)) +
                sends * sizeof(weft_named_tensor_t) + parts * (sizeof(weft_status_t *) + sizeof(part_run_t));
  running_step_t *t = weft_calloc(1, size);
  if (t == NULL) return NULL;
  char *at = (char *)(t + 1);
  t->sends = (weft_named_tensor_t *)(void *)at;
  at += sends * sizeof *t->sends;
  weft_str_t *keys = (weft_str_t *)(void *)at;
  at += recvs * sizeof *keys;
  t->fetches = (weft_tensor_t **)(void *)at;
  at += recvs * sizeof(weft_tensor_t *);
  if (is_planned) {
    t->failures = (weft_status_t **)(void *)at;
    at += parts * sizeof(weft_status_t *);
    t->parts = (part_run_t *)(void *)at;
    t->has_own_parts = true;
  }
  if (recvs > 0) memcpy(keys, r->recv_keys, recvs * sizeof *keys);
  for (size_t i = 0; i < sends; i++)
    t->sends[i] = (weft_named_tensor_t){r->sends[i].name, weft_tensor_retain(r->sends[i].tensor)};
  t->request = *r;
  t->request.recv_keys = keys;
  return t;
}

void weft_step_run(weft_master_session_t *s, const weft_step_request_t *r, weft_run_step_fn *fn, void *arg) {
  running_step_t *t = allocate(r);
  weft_status_t *status = NULL;
  if (t != NULL) t->canceller = weft_canceller_create(r->parent != NULL ? r->parent : s->canceller);
  if (t == NULL || t->canceller == NULL) {
    for (int i = 0; t != NULL && i < r->num_sends; i++) weft_tensor_release(t->sends[i].tensor);
    weft_free(t);
    fn(arg, WEFT_NO_MEMORY("a step"), NULL);
    weft_master_session_end_step(s);
    return;
  }
  t->session = weft_master_session_retain(s);
  t->plan = weft_step_plan_retain(r->plan);
  t->request.canceller = weft_canceller_retain(r->canceller);
  t->fn = fn;
  t->arg = arg;
  weft_mutex_init(&t->mu);
  if (r->canceller != NULL) {
    t->is_linked = weft_canceller_register_in(r->canceller, &t->call_waiter, caller_gone, t);
    if (!t->is_linked) caller_gone(t); /* it was cancelled before */
  }
  if (r->options.timeout_ms > 0) {
    int64_t deadline = weft_clock_deadline_ns(r->options.timeout_ms);
    status = weft_timer_add(s->timer, deadline, deadline_passed, t, &t->timer_id);
    t->has_timer = status == NULL;
  }
  if (status != NULL) {
    planned(t, status);
  } else {
    weft_step_plan_wait(t->plan, t->canceller, planned, t);
  }
}
