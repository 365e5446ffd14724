/* worker/run_graph.c - one RunGraph: feeds in, plan run, fetches out.
 *
 * Life of a run:
 *   1. weft_worker_run_graph   finds session, graph and step; links the call's canceller
 *   2. weft_plan_run           on this thread if the graph has been quick before, else on the pool
 *   3. plan_done               takes the fetches
 *   4. finish                  answers, frees
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "worker/worker_impl.h"

typedef struct graph_run {
  weft_worker_t *worker;
  weft_worker_session_t *session;
  weft_registered_graph_t *graph;
  weft_worker_step_t *step;
  weft_canceller_t *canceller;        /* the call's; retained */
  weft_cancel_waiter_t cancel_waiter; /* there while is_linked */
  bool is_linked;
  weft_run_graph_fn *fn;
  void *arg;
  const weft_str_t *recv_keys; /* lent until done */
  int num_recvs;
  bool record_timeline, record_graphs;
  bool has_recorder, logs_transfers;
  weft_run_recording_t *observed; /* owned; NULL: no recording is open */
  weft_step_recorder_t recorder;
  int64_t started_ns, ended_micros; /* ended_micros: of a run that is observed */
  /* The feeds and fetches by place (worker/client_edges.h); NULL: they go through the rendezvous. */
  const weft_client_places_t *places; /* the graph's */
  weft_tensor_t **feeds, **fetches;   /* of the plan's client edges; behind recvs */
  weft_tensor_t *recvs[];             /* num_recvs */
} graph_run_t;

static void cancel_step(void *arg) {
  graph_run_t *r = arg;
  weft_canceller_cancel(r->step->canceller);
}

weft_status_t *weft_fetch_failure(int64_t step_id, weft_str_t key, weft_status_t *cause, bool is_dead) {
  if (cause == NULL && is_dead) {
    cause = WEFT_ERROR(INVALID_ARGUMENT, "The tensor returned for %.*s was not valid.", WEFT_STR_ARGS(key));
  }
  if (cause == NULL) return NULL;
  bool derived = weft_status_is_derived(cause);
  weft_status_t *s =
      WEFT_ERROR(INTERNAL, "Failed to fetch outputs for step %" PRId64 ". (Original error message: %s)",
                 step_id, weft_status_message(cause));
  if (weft_status_code(cause) == WEFT_CANCELLED || weft_status_code(cause) == WEFT_ABORTED || derived) {
    weft_status_free(s);
    return cause;
  }
  weft_status_free(cause);
  return s;
}

/* Takes what the plan's _Send nodes left. The plan is done, so every key that will ever come is there. */
/* What the plan has put in its places. It is done, so what is missing is dead. */
static weft_status_t *take_places(graph_run_t *r) {
  for (int i = 0; i < r->num_recvs; i++) {
    weft_tensor_t **from = &r->fetches[r->places->fetch_of[i]];
    r->recvs[i] = *from;
    *from = NULL;
    WEFT_RETURN_IF_ERROR(weft_fetch_failure(r->step->id, r->recv_keys[i], NULL, r->recvs[i] == NULL));
  }
  return NULL;
}

static weft_status_t *take_fetches(graph_run_t *r) {
  if (r->places != NULL) return take_places(r);
  for (int i = 0; i < r->num_recvs; i++) {
    weft_status_t *s = NULL;
    bool is_dead = false;
    if (!weft_remote_rendezvous_take(r->step->rendezvous, weft_key(r->recv_keys[i]), &r->recvs[i],
                                     &is_dead)) {
      s = weft_remote_rendezvous_aborted(r->step->rendezvous);
      if (s == NULL)
        s = WEFT_ERROR(INVALID_ARGUMENT, "no node of the graph produces %.*s",
                       WEFT_STR_ARGS(r->recv_keys[i]));
    }
    WEFT_RETURN_IF_ERROR(weft_fetch_failure(r->step->id, r->recv_keys[i], s, is_dead));
  }
  return NULL;
}

static void free_run(graph_run_t *r) {
  weft_worker_t *w = r->worker;
  /* The master is gone, or has cancelled the step: its CleanupGraph may never arrive, or have arrived before.
   */
  if (weft_canceller_is_cancelled(r->canceller)) {
    weft_step_table_cleanup(&w->steps, r->step->id);
    weft_collectives_end_step(w->collectives, r->step->id, NULL);
    weft_step_recordings_end_step(w->recordings, r->step->id);
  }
  if (r->has_recorder) weft_step_recorder_deinit(&r->recorder);
  const weft_client_edges_t *edges = weft_plan_client_edges(r->graph->plan);
  for (int i = 0; r->places != NULL && i < edges->num_feeds; i++) weft_tensor_release(r->feeds[i]);
  for (int i = 0; r->places != NULL && i < edges->num_fetches; i++) weft_tensor_release(r->fetches[i]);
  weft_canceller_release(r->canceller);
  weft_worker_step_release(r->step);
  weft_registered_graph_release(r->graph);
  weft_worker_release_session(w, r->session);
  weft_free(r);
  weft_worker_end_run(w);
}

/* What the step has fetched from other tasks. A master that has switched the log on fetches it itself. */
static void get_transfers(graph_run_t *r, weft_strbuf_t *out) {
  weft_transfer_log_t *log = r->worker->transfers;
  if (weft_transfer_log_is_enabled(log)) {
    weft_transfer_log_copy(log, r->step->id, out);
  } else if (r->logs_transfers) {
    weft_transfer_log_take(log, r->step->id, out);
  }
}

/* For observers, after the client has its answer. */
static void leave_record(graph_run_t *r, weft_code_t code, weft_str_t message, weft_str_t transfers) {
  weft_step_recordings_t *recordings = r->worker->recordings;
  if (r->observed == NULL) return;
  weft_strbuf_t stats = WEFT_STRBUF_INIT;
  if (weft_run_recording_is_wanted(recordings, r->observed)) {
    weft_step_stats_encode(r->session->devices, r->graph->plan, &r->recorder, true, &stats);
    weft_strbuf_append(&stats, transfers);
  }
  const weft_step_record_t record = {.end_micros = r->ended_micros,
                                     .code = code,
                                     .message = message,
                                     .session = r->session->handle,
                                     .graph = r->graph->handle,
                                     .step_stats = weft_str_of(stats.data, stats.failed ? 0 : stats.length)};
  weft_run_recording_end(recordings, r->observed, &record);
  weft_strbuf_deinit(&stats);
}

/* Will nothing be left of the step? What a client did not fetch would stay in the rendezvous, but not in
 * places. */
static bool ends_itself(const graph_run_t *r, const weft_status_t *status) {
  return status == NULL && r->graph->is_plain && r->places != NULL;
}

/* Ends the run; consumes `status`. */
static void finish(graph_run_t *r, weft_status_t *status) {
  weft_strbuf_t stats = WEFT_STRBUF_INIT, transfers = WEFT_STRBUF_INIT;
  weft_partition_graphs_t graphs = {.arena = WEFT_ARENA_INIT};
  const weft_devices_t *devices = r->session->devices;
  if (r->has_recorder) get_transfers(r, &transfers);
  if (status == NULL && r->record_timeline) {
    weft_step_stats_encode(devices, r->graph->plan, &r->recorder, false, &stats);
    if (!weft_transfer_log_is_enabled(r->worker->transfers))
      weft_strbuf_append(&stats, weft_str_of(transfers.data, transfers.length));
    if (stats.failed) status = WEFT_NO_MEMORY("step statistics");
  }
  if (status == NULL && r->record_graphs) {
    status = r->graph->graph != NULL
                 ? weft_partition_graphs_export(devices, r->graph->graph, &graphs)
                 : WEFT_ERROR(FAILED_PRECONDITION, "graph %.*s was registered without being kept",
                              WEFT_STR_ARGS(r->graph->handle));
  }
  weft_run_graph_result_t result = {.recvs = r->recvs,
                                    .num_recvs = r->num_recvs,
                                    .step_stats = weft_str_of(stats.data, stats.length),
                                    .partition_graphs = graphs.defs,
                                    .num_partition_graphs = graphs.n,
                                    .ends_itself = ends_itself(r, status)};
  if (status != NULL) {
    for (int i = 0; i < r->num_recvs; i++) weft_tensor_release(r->recvs[i]);
  }
  if (result.ends_itself) weft_step_table_end_when_empty(&r->worker->steps, r->step);
  weft_code_t code = weft_status_code(status);
  weft_status_t *told = r->observed == NULL ? NULL : weft_status_clone(status);
  r->fn(r->arg, status, status == NULL ? &result : NULL);
  leave_record(r, code, weft_str(told == NULL ? "" : weft_status_message(told)),
               weft_str_of(transfers.data, transfers.length));
  if (result.ends_itself) {
    weft_collectives_end_step(r->worker->collectives, r->step->id, NULL);
    weft_step_recordings_end_step(r->worker->recordings, r->step->id);
  }
  weft_status_free(told);
  weft_strbuf_deinit(&stats);
  weft_strbuf_deinit(&transfers);
  weft_partition_graphs_deinit(&graphs);
  free_run(r);
}

static void plan_done(void *arg, weft_status_t *status) {
  graph_run_t *r = arg;
  if (r->is_linked) weft_canceller_deregister(r->canceller, r->cancel_waiter.token);
  const int64_t ns = weft_clock_ns() - r->started_ns;
  atomic_store_explicit(&r->graph->last_run_ns, ns, memory_order_relaxed);
  if (r->observed != NULL) r->ended_micros = weft_clock_micros();
  if (status != NULL) status = weft_worker_blame_stop(r->worker, status);
  if (status != NULL) weft_collectives_end_step(r->worker->collectives, r->step->id, status);
  if (status == NULL) status = take_fetches(r);
  weft_worker_count_run(r->worker, ns, status);
  finish(r, status);
}

/* The places of the step's values, where the graph's steps have some. */
static const weft_client_places_t *find_places(weft_registered_graph_t *g, const weft_run_graph_t *run) {
  const weft_client_edges_t *edges = weft_plan_client_edges(g->plan);
  weft_client_places_t *p = atomic_load_explicit(&g->places, memory_order_acquire), *other = NULL;
  if (p != NULL) return weft_client_places_fit(p, edges, run) ? p : NULL;
  p = weft_client_places_find(edges, run);
  if (p == NULL || atomic_compare_exchange_strong(&g->places, &other, p)) return p;
  weft_client_places_free(p); /* another step was faster */
  return weft_client_places_fit(other, edges, run) ? other : NULL;
}

/* Keeps the feeds for the plan, in their places. */
static void place_feeds(graph_run_t *r, const weft_client_places_t *places, const weft_run_graph_t *run) {
  r->places = places;
  r->feeds = r->recvs + r->num_recvs;
  r->fetches = r->feeds + weft_plan_client_edges(r->graph->plan)->num_feeds;
  for (int i = 0; i < run->num_sends; i++)
    r->feeds[places->feed_of[i]] = weft_tensor_retain(run->sends[i].tensor);
}

static weft_status_t *send_feeds(weft_worker_step_t *step, const weft_run_graph_t *run) {
  for (int i = 0; i < run->num_sends; i++) {
    WEFT_RETURN_IF_ERROR(
        weft_rendezvous_send(step->rendezvous, weft_key(run->sends[i].name), run->sends[i].tensor, false));
  }
  return NULL;
}

/* A plan whose last step was shorter than this runs on the calling thread: a switch to the pool would cost
 * more. */
#define INLINE_NS 100000

static void start(graph_run_t *r) {
  weft_run_options_t options = {
      .step = {.id = r->step->id,
               .rendezvous = r->step->rendezvous,
               .canceller = r->step->canceller,
               .container = r->step->container,
               .collectives = r->worker->collectives,
               .negotiators = r->worker->negotiators},
      .recorder = r->has_recorder ? &r->recorder : NULL,
      .feeds = r->feeds,
      .fetches = r->fetches,
      .run_inline = atomic_load_explicit(&r->graph->last_run_ns, memory_order_relaxed) < INLINE_NS,
  };
  r->started_ns = weft_clock_ns();
  if (r->graph->receives != NULL)
    weft_remote_rendezvous_subscribe(r->step->rendezvous, r->graph->receives, r->step->canceller);
  weft_plan_run(r->graph->plan, &options, plan_done, r);
}

/* What a run has looked up, for the next run of the graph. */
typedef struct found_graph {
  weft_kept_graph_t base;
  weft_worker_t *worker;
  weft_worker_session_t *session; /* retained, as is the graph */
  weft_registered_graph_t *graph;
} found_graph_t;

static void forget(weft_kept_graph_t *k) {
  found_graph_t *found = (found_graph_t *)(void *)k;
  weft_registered_graph_release(found->graph);
  weft_worker_release_session(found->worker, found->session);
  weft_free(found);
}

/* Without memory nothing is kept. */
static void keep(weft_worker_t *w, const weft_run_graph_t *run, weft_worker_session_t *session,
                 weft_registered_graph_t *graph) {
  found_graph_t *found = run->kept == NULL ? NULL : weft_calloc(1, sizeof *found);
  weft_kept_graph_t *none = NULL;
  if (found == NULL) return;
  *found =
      (found_graph_t){{forget}, w, weft_worker_session_retain(session), weft_registered_graph_retain(graph)};
  if (!atomic_compare_exchange_strong(run->kept, &none, &found->base)) forget(&found->base);
}

/* Both are retained. */
static weft_status_t *find_graph(weft_worker_t *w, const weft_run_graph_t *run,
                                 weft_worker_session_t **session, weft_registered_graph_t **graph) {
  weft_kept_graph_t *kept = run->kept == NULL ? NULL : atomic_load(run->kept);
  const found_graph_t *found = (const found_graph_t *)(const void *)kept;
  if (found != NULL && !atomic_load(&found->session->is_deleted)) {
    *session = weft_worker_session_retain(found->session);
    *graph = weft_registered_graph_retain(found->graph);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_worker_find_session(w, run->session, session));
  WEFT_RETURN_IF_ERROR(weft_worker_session_find(*session, run->graph_handle, graph));
  keep(w, run, *session, *graph);
  return NULL;
}

static weft_status_t *prepare(weft_worker_t *w, const weft_run_graph_t *run, weft_worker_session_t **session,
                              weft_registered_graph_t **graph, weft_worker_step_t **step,
                              const weft_client_places_t **places) {
  WEFT_RETURN_IF_ERROR(find_graph(w, run, session, graph));
  WEFT_RETURN_IF_ERROR(weft_step_table_get(&w->steps, run->step_id, step));
  atomic_store(&(*step)->was_run, true);
  WEFT_RETURN_IF_ERROR(weft_collectives_begin_step(w->collectives, run->step_id, (*session)->losses));
  const weft_session_cluster_t *cluster = &(*session)->cluster;
  if (cluster->cache != NULL)
    WEFT_RETURN_IF_ERROR(weft_worker_step_move(*step, weft_str(cluster->task), cluster->cache));
  *places = run->is_partial ? NULL : find_places(*graph, run);
  return *places != NULL ? NULL : send_feeds(*step, run);
}

/* From now on the caller's canceller cancels the step. */
static void link_to_caller(graph_run_t *r, weft_canceller_t *caller) {
  if (caller == NULL) return;
  r->is_linked = weft_canceller_register_in(caller, &r->cancel_waiter, cancel_step, r);
  if (!r->is_linked) weft_canceller_cancel(r->step->canceller); /* the plan ends at once with CANCELLED */
}

void weft_worker_run_graph(weft_worker_t *w, const weft_run_graph_t *run, weft_canceller_t *canceller,
                           weft_run_graph_fn *fn, void *arg) {
  if (!weft_worker_begin_run(w)) {
    fn(arg, WEFT_ERROR(UNAVAILABLE, "The task %.*s was shut down", WEFT_STR_ARGS(w->task)), NULL);
    return;
  }
  weft_worker_session_t *session = NULL;
  weft_registered_graph_t *graph = NULL;
  weft_worker_step_t *step = NULL;
  const weft_client_places_t *places = NULL;
  weft_status_t *status = prepare(w, run, &session, &graph, &step, &places);
  if (status == NULL && run->is_partial) {
    weft_worker_run_partial(w, session, graph, step, run, canceller, fn, arg);
    return;
  }
  const weft_client_edges_t *edges = places == NULL ? NULL : weft_plan_client_edges(graph->plan);
  const size_t num_places = edges == NULL ? 0 : (size_t)edges->num_feeds + (size_t)edges->num_fetches;
  const size_t num_values = (size_t)run->num_recvs + num_places;
  graph_run_t *r = status != NULL ? NULL : weft_calloc(1, sizeof *r + num_values * sizeof(weft_tensor_t *));
  if (status == NULL && r == NULL) status = WEFT_NO_MEMORY("step %" PRId64, run->step_id);
  if (status != NULL) {
    weft_worker_step_release(step);
    weft_registered_graph_release(graph);
    weft_worker_release_session(w, session);
    fn(arg, status, NULL);
    weft_worker_end_run(w);
    return;
  }
  r->step = step;
  link_to_caller(r, canceller);
  r->worker = w;
  r->session = session;
  r->graph = graph;
  r->canceller = weft_canceller_retain(canceller);
  r->fn = fn;
  r->arg = arg;
  r->recv_keys = run->recv_keys;
  r->num_recvs = run->num_recvs;
  if (places != NULL) place_feeds(r, places, run);
  r->record_timeline = run->record_timeline;
  r->record_graphs = run->record_partition_graphs;
  r->observed = weft_run_recording_begin(w->recordings, step->id);
  r->has_recorder = r->record_timeline || r->observed != NULL;
  if (r->has_recorder) weft_step_recorder_init(&r->recorder);
  if (r->record_timeline || (r->observed != NULL && !weft_transfer_log_is_enabled(w->transfers))) {
    r->logs_transfers = true;
    weft_transfer_log_open(w->transfers, step->id);
  }
  start(r);
}
