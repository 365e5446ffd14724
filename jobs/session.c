/* jobs/session.c - from a description to a session whose variables have values.
 *
 * What can be wrong with files is found before anything runs, and what can be wrong with the graph before a
 * session is opened.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "device/device_name.h"
#include "jobs/c_api.h"
#include "jobs/cluster_view.h"
#include "jobs/impl.h"
#include "jobs/master_probe.h"
#include "jobs/reach.h"
#include "jobs/run_options.h"
#include "protos/wire.h"
#include "weft/cluster.h"

enum { MAX_LOCAL_CPUS = 1 << 10 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a job's session"); }
static weft_str_t graph_bytes(const WEFT_Job *j) {
  return weft_str_of(j->graph_def.data == NULL ? "" : j->graph_def.data, j->graph_def.length);
}

/* ---- what it starts from ---- */

static weft_status_t *open_saving(WEFT_Job *j) {
  int n = 0;
  if (!weft_job_saving_is_used(&j->saving_spec)) return NULL;
  weft_str_t *step = weft_calloc((size_t)j->fetches.n + (size_t)j->targets.n + 1, sizeof *step);
  if (step == NULL) return no_memory();
  for (int i = 0; i < j->fetches.n; i++) step[n++] = j->fetches.names[i];
  for (int i = 0; i < j->targets.n; i++) step[n++] = j->targets.names[i];
  weft_status_t *s = weft_job_saving_init(&j->saving, &j->saving_spec, graph_bytes(j), step, n);
  weft_free(step);
  return s;
}

/* ---- the plan ---- */

/* A session at the master, which has been probed; a hanging call is ended by the watch from now on. */
static weft_status_t *open_session(WEFT_Job *j, TF_Graph *graph, TF_Session **out) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (options == NULL) return no_memory();
  TF_SetTarget(options, j->master);
  WEFT_SetWaitForMaster(options, 0);
  *out = TF_NewSession(graph, options, j->status);
  TF_DeleteSessionOptions(options);
  weft_status_t *s = weft_job_c_api_status(j->status);
  if (s == NULL) weft_job_watch_attach(&j->watch, *out);
  return s;
}

static void close_session(WEFT_Job *j, TF_Session *session) { /* NULL is fine */
  if (session == NULL) return;
  weft_job_watch_detach(&j->watch);
  TF_DeleteSession(session, j->status);
}

/* The cluster's devices, by a session without nodes. */
static weft_status_t *list_devices(WEFT_Job *j, weft_job_view_t *view) {
  if (j->master == NULL) return weft_job_view_local(view, MAX_LOCAL_CPUS);
  TF_Graph *nothing = TF_NewGraph();
  TF_Session *session = NULL;
  TF_DeviceList *devices = NULL;
  weft_status_t *s = nothing == NULL ? no_memory() : open_session(j, nothing, &session);
  if (s == NULL) {
    devices = TF_SessionListDevices(session, j->status);
    s = weft_job_c_api_status(j->status);
  }
  for (int i = 0; s == NULL && i < TF_DeviceListCount(devices); i++) {
    s = weft_job_view_add_device(view, weft_str(TF_DeviceListName(devices, i, j->status)));
  }
  if (devices != NULL) TF_DeleteDeviceList(devices);
  close_session(j, session);
  if (nothing != NULL) TF_DeleteGraph(nothing);
  return s;
}

weft_status_t *weft_job_step_reads_data(const WEFT_Job *j, bool *out) {
  const weft_job_names_t *lists[] = {&j->fetches, &j->targets};
  weft_status_t *s = NULL;
  *out = false;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < lists[k]->n && s == NULL && !*out; i++)
      s = weft_job_reads_data(lists[k]->outputs[i].oper, out);
  }
  return s;
}

static weft_status_t *choose_plan(WEFT_Job *j) {
  const weft_job_plan_source_t from = {.graph = j->graph,
                                       .graph_def = graph_bytes(j),
                                       .inputs = &j->inputs,
                                       .fetches = &j->fetches,
                                       .targets = &j->targets,
                                       .inits = &j->inits,
                                       .words = j->words,
                                       .strategy = j->strategy,
                                       .container = j->container,
                                       .is_local = j->master == NULL,
                                       .marks_variables = weft_job_saving_is_used(&j->saving_spec),
                                       .agreement = j->saving.restore.fingerprint};
  if (j->strategy == NULL) return weft_job_plan_plain(&from, &j->plan);
  weft_job_view_t view;
  weft_job_view_init(&view);
  j->rewritten = TF_NewGraph();
  weft_status_t *s = j->rewritten == NULL ? no_memory() : list_devices(j, &view);
  if (s == NULL) s = weft_job_plan_rewritten(&from, &view.cluster, j->rewritten, &j->plan);
  weft_job_view_deinit(&view);
  return s;
}

static weft_status_t *make_plan(WEFT_Job *j) {
  WEFT_RETURN_IF_ERROR(choose_plan(j));
  return weft_job_step_reads_data(j, &j->plan.reads_data);
}

/* A graph whose node asks an iterator; *out_nothing: what can be run in it. */
static TF_Graph *asking_graph(WEFT_Job *j, TF_Operation **out_nothing) {
  TF_Graph *graph = TF_NewGraph();
  if (graph == NULL) return NULL;
  TF_OperationDescription *d = TF_NewOperation(graph, "Placeholder", "iterator");
  TF_SetAttrType(d, "dtype", TF_RESOURCE);
  TF_Operation *op = TF_FinishOperation(d, j->status);
  if (op != NULL) {
    d = TF_NewOperation(graph, "WeftIteratorWaits", "waits");
    TF_AddInput(d, (TF_Output){op, 0});
    op = TF_FinishOperation(d, j->status);
  }
  *out_nothing = op == NULL ? NULL : TF_FinishOperation(TF_NewOperation(graph, "NoOp", "nothing"), j->status);
  return graph;
}

/* Does the master know the ops that ask iterators? TensorFlow's does not. */
static weft_status_t *knows_iterators(WEFT_Job *j, bool *out) {
  TF_Operation *nothing = NULL;
  TF_Session *session = NULL;
  TF_Graph *graph = asking_graph(j, &nothing);
  weft_status_t *s = graph == NULL ? no_memory() : weft_job_c_api_status(j->status);
  if (s == NULL) s = open_session(j, graph, &session);
  if (s == NULL) {
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)&nothing, 1, NULL,
                  j->status);
    s = weft_job_c_api_status(j->status);
  }
  *out = s == NULL;
  close_session(j, session);
  if (graph != NULL) TF_DeleteGraph(graph);
  if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_status_free(s);
  return NULL;
}

static weft_status_t *ask_iterators(WEFT_Job *j) {
  bool is_known = true;
  if (!j->plan.reads_data) return NULL;
  if (j->master != NULL) WEFT_RETURN_IF_ERROR(knows_iterators(j, &is_known));
  if (!is_known) return NULL;
  return weft_job_iterators_init(&j->plan, weft_job_saving_is_used(&j->saving_spec), &j->iterators);
}

static weft_status_t *attach_saving(WEFT_Job *j) {
  const weft_job_saving_spec_t *spec = &j->saving_spec;
  if (!weft_job_saving_is_used(spec)) return NULL;
  bool is_restoring = spec->restore != NULL || spec->resumes;
  if (j->plan.collective_graph_key != 0 && j->plan.num_inits == 0 &&
      is_restoring) { /* they agree while they initialise */
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s with a client per worker needs %s: the clients compare their start states there",
                      spec->resumes ? spec->words->resume : spec->words->restore, spec->words->init);
  }
  return weft_job_saving_attach(&j->saving, j->plan.graph, j->strategy != NULL, j->plan.is_follower,
                                j->plan.round_steps);
}

/* ---- the session ---- */

/* ConfigProto: device_count {key: "CPU" value: n} allow_soft_placement: true isolate_session_state: true
 * graph_options {rewrite_options {...}}. */
static void configure(TF_SessionOptions *options, const WEFT_Job *j) {
  const weft_job_plan_t *p = &j->plan;
  weft_strbuf_t config = WEFT_STRBUF_INIT;
  if (p->num_local_cpus > 0) {
    size_t entry = weft_wire_begin(&config, 1);
    weft_wire_put_text(&config, 1, WEFT_HOST_DEVICE_TYPE);
    weft_wire_put_i64(&config, 2, p->num_local_cpus);
    weft_wire_end(&config, entry);
  }
  if (p->is_soft) weft_wire_put_bool(&config, 7, true);
  if (j->is_isolated) weft_wire_put_bool(&config, 15, true);
  if (j->has_passes) {
    size_t graph_options = weft_wire_begin(&config, 10);
    weft_pass_settings_write(&j->passes, &config);
    weft_wire_end(&config, graph_options);
  }
  TF_SetConfig(options, config.data, config.length, j->status);
  weft_strbuf_deinit(&config);
}

static weft_status_t *new_session(WEFT_Job *j) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (options == NULL) return no_memory();
  if (j->master != NULL) TF_SetTarget(options, j->master);
  WEFT_SetWaitForMaster(options, 0); /* it was there when the job was planned */
  if (j->plan.num_local_cpus > 0 || j->plan.is_soft || j->is_isolated || j->has_passes) configure(options, j);
  j->session = TF_NewSession(j->plan.graph, options, j->status);
  TF_DeleteSessionOptions(options);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(j->status));
  weft_job_watch_attach(&j->watch, j->session);
  return NULL;
}

/* ---- initialisers ---- */

/* What initialiser `i` is made of, of all that is fed: all rows of it. */
static weft_status_t *feed_init(WEFT_Job *j, int i, TF_Output *outputs, TF_Tensor **values, bool *reached,
                                int *out_n) {
  const weft_job_names_t *inputs = &j->inputs.names;
  *out_n = 0;
  if (i >= j->inits.n) return NULL; /* one that the strategy added */
  WEFT_RETURN_IF_ERROR(weft_job_reach(j->inits.outputs[i].oper, inputs->outputs, inputs->n, reached));
  for (int k = 0; k < inputs->n; k++) {
    TF_Output from = inputs->outputs[k];
    TF_Operation *op =
        reached[k] ? TF_GraphOperationByName(j->plan.graph, TF_OperationName(from.oper)) : NULL;
    if (op == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_job_input_whole(&j->inputs, k, &values[*out_n]));
    outputs[(*out_n)++] = (TF_Output){op, from.index};
  }
  return NULL;
}

static weft_status_t *run_init(WEFT_Job *j, int i) {
  int n = 0;
  size_t most = (size_t)j->inputs.n + 1;
  TF_Output *outputs = weft_calloc(most, sizeof *outputs);
  TF_Tensor **values = weft_calloc(most, sizeof(TF_Tensor *));
  bool *reached = weft_calloc(most, sizeof *reached);
  weft_status_t *s = outputs == NULL || values == NULL || reached == NULL
                         ? no_memory()
                         : feed_init(j, i, outputs, values, reached, &n);
  if (s == NULL) {
    TF_Buffer *options = weft_job_run_options(false, j->plan.collective_graph_key);
    TF_SessionRun(j->session, options, outputs, values, n, NULL, NULL, 0, &j->plan.inits[i], 1, NULL,
                  j->status);
    if (options != NULL) TF_DeleteBuffer(options);
    weft_job_watch_progress(&j->watch);
    s = weft_job_c_api_status(j->status);
  }
  for (int k = 0; k < n; k++) TF_DeleteTensor(values[k]);
  weft_free(outputs);
  weft_free(values);
  weft_free(reached);
  return s == NULL ? NULL
                   : weft_status_annotate(s, "while running %s %s", j->words->init, j->plan.init_names[i]);
}

static weft_status_t *clear_stale(WEFT_Job *j) {
  if (j->stale.n == 0) return NULL;
  TF_SessionRun(j->session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)j->stale.clears,
                j->stale.n, NULL, j->status);
  weft_job_watch_progress(&j->watch);
  weft_status_t *s = weft_job_c_api_status(j->status);
  return s == NULL
             ? NULL
             : weft_status_annotate(s, "while variables of a former job were cleared for %s", j->words->init);
}

static weft_status_t *run_inits(WEFT_Job *j) {
  weft_status_t *s = clear_stale(j);
  for (int i = 0; s == NULL && i < j->plan.num_inits; i++)
    s = run_init(j, i); /* a later one may need an earlier one */
  if (s == NULL && j->saving.spec != NULL) s = weft_job_saving_restore(&j->saving, j->session);
  return s;
}

/* Says what the job starts from, and has the inputs and the iterators start there, too. */
static weft_status_t *tell_start(WEFT_Job *j) {
  weft_job_saving_t *s = &j->saving;
  if (s->spec == NULL) return NULL;
  weft_strbuf_t note = WEFT_STRBUF_INIT;
  weft_job_saving_seek(s, &j->inputs, &note);
  weft_status_t *failure = weft_job_saving_restore_iterators(s, j->session, &j->iterators, &note);
  if (failure != NULL) {
    weft_strbuf_deinit(&note);
    return failure;
  }
  WEFT_JobEvent event = {.step = s->first,
                         .path = s->restore.path.data,
                         .note = note.length == 0 ? NULL : note.data,
                         .num_restored = s->restore.num_found,
                         .num_variables = s->variables.n};
  if (s->spec->resumes && s->series.latest.length > 0) {
    event.kind = WEFT_JOB_EVENT_RESUMED;
    weft_job_notify(j, &event);
  } else {
    if (s->spec->resumes) {
      const WEFT_JobEvent none = {.kind = WEFT_JOB_EVENT_NOTHING_TO_RESUME, .path = s->series.prefix.data};
      weft_job_notify(j, &none);
    }
    event.kind = WEFT_JOB_EVENT_RESTORED;
    if (s->restore.source != NULL) weft_job_notify(j, &event);
  }
  weft_strbuf_deinit(&note);
  return NULL;
}

/* ---- opening and closing ---- */

static void on_watch(void *arg, bool is_lost) {
  WEFT_Job *j = arg;
  const WEFT_JobEvent event = {.kind = is_lost ? WEFT_JOB_EVENT_MASTER_LOST : WEFT_JOB_EVENT_WAITING,
                               .path = j->master};
  weft_mutex_lock(&j->mu);
  if (is_lost && j->has_loops) weft_job_loops_stop(&j->loops);
  weft_mutex_unlock(&j->mu);
  weft_job_notify(j, &event);
}

/* From here on WEFT_JobStop() reaches the watch. */
static weft_status_t *start_watch(WEFT_Job *j) {
  weft_status_t *s = weft_job_watch_start(&j->watch, j->master, on_watch, j);
  weft_mutex_lock(&j->mu);
  j->has_watch = true;
  if (j->is_stopping) weft_job_watch_stop(&j->watch);
  weft_mutex_unlock(&j->mu);
  return s;
}

static weft_status_t *check_stopped(WEFT_Job *j) {
  bool is_lost;
  return weft_job_watch_is_stopped(&j->watch, &is_lost) ? WEFT_ERROR(CANCELLED, "the job was stopped") : NULL;
}

static weft_status_t *make_loops(WEFT_Job *j) {
  weft_job_splitter_init(&j->splitter, &j->inputs);
  j->loops = (weft_job_loops_t){.plan = &j->plan,
                                .session = j->session,
                                .splitter = &j->splitter,
                                .watch = &j->watch,
                                .callback_mu = &j->callback_mu};
  weft_status_t *s = weft_job_loops_init(&j->loops, j->saving.first);
  weft_mutex_lock(&j->mu);
  j->has_loops = true;
  if (j->is_stopping) weft_job_loops_stop(&j->loops);
  weft_mutex_unlock(&j->mu);
  return s;
}

/* Waits for a master that is started together with the job: its port is closed, or its host has no name yet.
 */
static weft_status_t *find_master(WEFT_Job *j) {
  enum { FIRST_NS = 50000000, LONGEST_NS = 1000000000 };
  const int64_t deadline_ns = weft_clock_ns() + j->master_wait_ns;
  for (int64_t pause_ns = FIRST_NS;; pause_ns = pause_ns < LONGEST_NS / 2 ? 2 * pause_ns : LONGEST_NS) {
    bool may_come = false;
    weft_status_t *s = weft_job_probe_master(j->words->master, j->master, &may_come);
    const int64_t left_ns = deadline_ns - weft_clock_ns();
    if (s == NULL || !may_come || left_ns <= 0) return s;
    weft_status_free(s);
    if (pause_ns == FIRST_NS) {
      const WEFT_JobEvent event = {.kind = WEFT_JOB_EVENT_NO_MASTER_YET, .path = j->master};
      weft_job_notify(j, &event);
    }
    if (weft_job_watch_wait(&j->watch, weft_clock_ns() + (pause_ns < left_ns ? pause_ns : left_ns)))
      return check_stopped(j);
  }
}

weft_status_t *weft_job_open(WEFT_Job *j, bool resumes) {
  j->saving_spec.resumes = resumes;
  j->was_opened = true;
  weft_job_drop_values(j);
  if (j->values == NULL) j->values = weft_calloc((size_t)j->fetches.n + 1, sizeof(TF_Tensor *));
  if (j->values == NULL) return no_memory();
  atomic_store(&j->done, 0);
  WEFT_RETURN_IF_ERROR(weft_job_inputs_begin(&j->inputs));
  WEFT_RETURN_IF_ERROR(start_watch(j));
  WEFT_RETURN_IF_ERROR(open_saving(j));
  if (j->master != NULL) WEFT_RETURN_IF_ERROR(find_master(j));
  WEFT_RETURN_IF_ERROR(check_stopped(j));
  WEFT_RETURN_IF_ERROR(make_plan(j));
  WEFT_RETURN_IF_ERROR(weft_job_logging_open(j));
  WEFT_RETURN_IF_ERROR(attach_saving(j));
  WEFT_RETURN_IF_ERROR(ask_iterators(j));
  WEFT_RETURN_IF_ERROR(weft_job_stale_init(&j->stale, &j->plan));
  WEFT_RETURN_IF_ERROR(new_session(j));
  WEFT_RETURN_IF_ERROR(check_stopped(j));
  atomic_store(&j->done, j->saving.first);
  WEFT_RETURN_IF_ERROR(run_inits(j));
  WEFT_RETURN_IF_ERROR(tell_start(j));
  WEFT_RETURN_IF_ERROR(weft_job_iterators_begin(&j->iterators, j->session));
  j->run_ns = 0;
  return make_loops(j);
}

void weft_job_close(WEFT_Job *j) {
  weft_mutex_lock(&j->mu);
  j->has_watch = j->has_loops = false;
  weft_mutex_unlock(&j->mu);
  if (j->session != NULL) {
    TF_CloseSession(j->session, j->status); /* a failure here hides nothing: the results are in */
    weft_job_watch_detach(&j->watch);
    TF_DeleteSession(j->session, j->status);
    j->session = NULL;
  }
  weft_job_watch_end(&j->watch);
  weft_job_logging_close(j);
  weft_job_loops_deinit(&j->loops);
  weft_job_splitter_deinit(&j->splitter);
  weft_job_stale_deinit(&j->stale);
  weft_job_iterators_deinit(&j->iterators);
  weft_job_plan_deinit(&j->plan);
  weft_job_saving_deinit(&j->saving);
  if (j->rewritten != NULL) TF_DeleteGraph(j->rewritten);
  j->rewritten = NULL;
}
