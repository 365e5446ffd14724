/* master/partial_step.c - a step that a client feeds and fetches piece by piece.
 *
 * All pieces share a step id. A piece may feed and fetch any of what was
 * announced, each once, and may fetch only what the feeds so far determine; one
 * that asks for anything else is refused and changes nothing. The last piece, or
 * one that fails, ends the step.
 */
#include "master/partial_step.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "master/step.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a partial run"); }

/* ---- set-up ---- */

typedef struct setup {
  weft_partial_step_t *partial;
  weft_master_session_t *session;
  weft_text_fn *fn;
  void *arg;
} setup_t;

static void set_up(void *arg, weft_status_t *status) {
  setup_t *u = arg;
  weft_partial_step_t *p = u->partial;
  if (status == NULL) {
    atomic_fetch_add(&p->refs, 1); /* the table's */
    weft_mutex_lock(&u->session->mu);
    status = weft_map_put(&u->session->partial_steps, p->handle, p, NULL);
    weft_mutex_unlock(&u->session->mu);
    if (status != NULL) weft_partial_step_release(p);
  }
  u->fn(u->arg, status, p->handle);
  weft_partial_step_release(p);
  weft_master_session_release(u->session);
  weft_free(u);
}

static weft_status_t *create(weft_master_session_t *s, weft_step_plan_t *plan, weft_partial_step_t **out) {
  weft_partial_step_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  atomic_init(&p->refs, 1);
  weft_mutex_init(&p->mu);
  p->session = s;
  p->plan = weft_step_plan_retain(plan);
  p->graph = weft_master_session_graph(s);
  p->canceller = weft_canceller_create(s->canceller);
  p->step_id = weft_step_new_id();
  p->is_fed = weft_calloc((size_t)plan->num_feeds + 1, sizeof *p->is_fed);
  p->is_fetched = weft_calloc((size_t)plan->num_fetches + 1, sizeof *p->is_fetched);
  p->left = plan->num_feeds + plan->num_fetches;
  weft_mutex_lock(&s->mu);
  int64_t number = s->next_partial++;
  weft_mutex_unlock(&s->mu);
  weft_strbuf_t handle = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&handle, "%" PRId64, number);
  char *text = NULL;
  weft_status_t *status = weft_strbuf_finish(&handle, &text, NULL);
  if (status == NULL) p->handle = weft_str(text);
  if (status == NULL && (p->canceller == NULL || p->is_fed == NULL || p->is_fetched == NULL))
    status = no_memory();
  if (status != NULL) {
    weft_partial_step_release(p);
    return status;
  }
  *out = p;
  return NULL;
}

void weft_partial_step_setup(weft_master_session_t *s, const weft_partial_run_setup_t *r, weft_canceller_t *c,
                             weft_text_fn *fn, void *arg) {
  weft_signature_t signature = {.feeds = r->feeds,
                                .fetches = r->fetches,
                                .targets = r->targets,
                                .num_feeds = r->num_feeds,
                                .num_fetches = r->num_fetches,
                                .num_targets = r->num_targets,
                                .keeps_graphs = true}; /* any piece may record them */
  weft_step_plan_t *plan = NULL;
  weft_partial_step_t *p = NULL;
  weft_status_t *status = weft_master_session_plan(s, &signature, true, &plan);
  if (status == NULL) status = create(s, plan, &p);
  setup_t *u = status != NULL ? NULL : weft_calloc(1, sizeof *u);
  if (status == NULL && u == NULL) status = no_memory();
  if (status != NULL) {
    weft_partial_step_release(p);
    fn(arg, status, WEFT_STR(""));
  } else {
    *u = (setup_t){p, weft_master_session_retain(s), fn, arg};
    weft_step_plan_wait(plan, c, set_up, u);
  }
  weft_step_plan_release(plan);
}

/* ---- one piece ---- */

static int index_of(const weft_str_t *names, int n, weft_str_t name) {
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(names[i], name)) return i;
  }
  return -1;
}

typedef struct piece {
  weft_partial_step_t *partial;
  weft_master_session_t *session;
  weft_run_step_fn *fn;
  void *arg;
  bool is_last;
} piece_t;

/* Takes the step out of the table; later pieces get "not found". */
static void end(weft_partial_step_t *p, weft_master_session_t *s) {
  weft_mutex_lock(&s->mu);
  weft_partial_step_t *in_table =
      weft_map_get(&s->partial_steps, p->handle) == p ? weft_map_remove(&s->partial_steps, p->handle) : NULL;
  weft_mutex_unlock(&s->mu);
  weft_partial_step_release(in_table);
}

static void piece_done(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  piece_t *k = arg;
  if (status != NULL || k->is_last) end(k->partial, k->session);
  if (status != NULL) weft_canceller_cancel(k->partial->canceller); /* other pieces in progress end, too */
  k->fn(k->arg, status, result);
  weft_partial_step_release(k->partial);
  weft_master_session_release(k->session);
  weft_free(k);
}

/* Checks a piece and marks what it brings; counts what it has marked. Fills the arrays with rendezvous keys.
 */
static weft_status_t *mark_locked(weft_partial_step_t *p, const weft_run_step_t *r,
                                  weft_named_tensor_t *sends, weft_str_t *keys, int *feeds, int *fetches)
    WEFT_REQUIRES(p->mu) {
  const weft_step_plan_t *plan = p->plan;
  for (; *feeds < r->num_feeds; ++*feeds) {
    weft_str_t name = r->feeds[*feeds].name;
    int k = index_of(plan->feeds, plan->num_feeds, name);
    if (k < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "The feed %.*s was not specified in partial_run_setup.",
                        WEFT_STR_ARGS(name));
    if (p->is_fed[k])
      return WEFT_ERROR(INVALID_ARGUMENT, "The feed %.*s has already been fed.", WEFT_STR_ARGS(name));
    p->is_fed[k] = true;
    sends[*feeds] = (weft_named_tensor_t){plan->feed_keys[k], r->feeds[*feeds].tensor};
  }
  for (; *fetches < r->num_fetches; ++*fetches) {
    weft_str_t name = r->fetches[*fetches];
    int k = index_of(plan->fetches, plan->num_fetches, name);
    if (k < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "The fetch %.*s was not specified in partial_run_setup.",
                        WEFT_STR_ARGS(name));
    if (p->is_fetched[k])
      return WEFT_ERROR(INVALID_ARGUMENT, "The fetch %.*s has already been fetched.", WEFT_STR_ARGS(name));
    WEFT_RETURN_IF_ERROR(
        weft_client_graph_check_fetch(p->graph->graph, name, plan->feeds, p->is_fed, plan->num_feeds));
    p->is_fetched[k] = true;
    keys[*fetches] = plan->fetch_keys[k];
  }
  return NULL;
}

/* A piece that is refused leaves the partial run as it was. */
static weft_status_t *admit_locked(weft_partial_step_t *p, const weft_run_step_t *r,
                                   weft_named_tensor_t *sends, weft_str_t *keys) WEFT_REQUIRES(p->mu) {
  const weft_step_plan_t *plan = p->plan;
  int feeds = 0, fetches = 0;
  weft_status_t *s = mark_locked(p, r, sends, keys, &feeds, &fetches);
  for (int i = 0; s != NULL && i < feeds; i++)
    p->is_fed[index_of(plan->feeds, plan->num_feeds, r->feeds[i].name)] = false;
  for (int i = 0; s != NULL && i < fetches; i++)
    p->is_fetched[index_of(plan->fetches, plan->num_fetches, r->fetches[i])] = false;
  if (s == NULL) p->left -= feeds + fetches;
  return s;
}

static weft_partial_step_t *find(weft_master_session_t *s, weft_str_t handle) {
  weft_mutex_lock(&s->mu);
  weft_partial_step_t *p = weft_map_get(&s->partial_steps, handle);
  if (p != NULL) atomic_fetch_add(&p->refs, 1);
  weft_mutex_unlock(&s->mu);
  return p;
}

void weft_partial_step_run(weft_master_session_t *s, const weft_run_step_t *r, weft_canceller_t *c,
                           weft_run_step_fn *fn, void *arg) {
  weft_named_tensor_t *sends = weft_calloc((size_t)r->num_feeds + 1, sizeof *sends);
  weft_str_t *keys = weft_calloc((size_t)r->num_fetches + 1, sizeof *keys);
  piece_t *k = weft_calloc(1, sizeof *k);
  weft_partial_step_t *p = find(s, r->partial_run_handle);
  weft_status_t *status = NULL;
  if (sends == NULL || keys == NULL || k == NULL) status = no_memory();
  if (status == NULL && p == NULL) {
    status = WEFT_ERROR(INVALID_ARGUMENT, "Must run PartialRunSetup before performing partial runs");
  }
  bool is_last = false;
  if (status == NULL) {
    weft_mutex_lock(&p->mu);
    status = admit_locked(p, r, sends, keys);
    is_last = p->left == 0;
    weft_mutex_unlock(&p->mu);
  }
  if (status == NULL) status = weft_master_session_begin_step(s);
  if (status != NULL) {
    weft_partial_step_release(p);
    weft_free(k);
    fn(arg, status, NULL);
  } else {
    *k = (piece_t){p, weft_master_session_retain(s), fn, arg, is_last};
    weft_step_request_t request = {.plan = p->plan,
                                   .step_id = p->step_id,
                                   .sends = sends,
                                   .num_sends = r->num_feeds,
                                   .recv_keys = keys,
                                   .num_recvs = r->num_fetches,
                                   .is_partial = true,
                                   .is_last_partial = is_last,
                                   .keep = !is_last,
                                   .options = r->options,
                                   .canceller = c,
                                   .parent = p->canceller};
    weft_step_run(s, &request, piece_done, k);
  }
  weft_free(sends);
  weft_free(keys);
}
