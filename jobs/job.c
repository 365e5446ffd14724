/* jobs/job.c - the description of a job, and its states. */
#include <inttypes.h>

#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"
#include "io/file.h"
#include "io/npy.h"
#include "jobs/c_api.h"
#include "jobs/container.h"
#include "jobs/impl.h"

const weft_job_words_t weft_job_words = {.input = "input",
                                         .fetch = "fetch",
                                         .target = "target",
                                         .init = "initialiser",
                                         .master = "master",
                                         .strategy = "strategy",
                                         .container = "container",
                                         .trace = "trace",
                                         .batch = "options.batch",
                                         .shuffle = "options.shuffle",
                                         .seed = "options.seed",
                                         .array = "input that is given as WEFT_JOB_ROWS",
                                         .save = "WEFT_JobSaveEvery",
                                         .restore = "WEFT_JobRestore",
                                         .resume = "WEFT_JobResume",
                                         .partly = "options.restore_partly",
                                         .log = "WEFT_JobLog"};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a job"); }

/* ---- states ---- */

enum {
  CREATED = 1 << WEFT_JOB_CREATED,
  INITIALISED = 1 << WEFT_JOB_INITIALISED,
  ENDED = 1 << WEFT_JOB_STOPPED | 1 << WEFT_JOB_FAILED
};

static const char *const state_texts[] = {
    [WEFT_JOB_CREATED] = "not initialised yet",
    [WEFT_JOB_INITIALISED] = "initialised",
    [WEFT_JOB_RUNNING] = "running",
    [WEFT_JOB_SAVING] = "saving",
    [WEFT_JOB_STOPPED] = "stopped; WEFT_JobResume goes on",
    [WEFT_JOB_FAILED] = "in the state of a failure; WEFT_JobResume goes on",
};

/* Begins a function that the states in the mask `allowed` permit. */
static weft_status_t *enter(WEFT_Job *j, const char *function, int allowed) {
  weft_mutex_lock(&j->mu);
  WEFT_JobState state = j->state;
  bool ok = !j->is_busy && (allowed & 1 << state) != 0, is_busy = j->is_busy;
  if (ok) j->is_busy = true;
  if (ok && (1 << state & ENDED) != 0) j->is_stopping = false; /* it begins anew */
  weft_mutex_unlock(&j->mu);
  if (ok) return NULL;
  if (is_busy && state <= WEFT_JOB_INITIALISED)
    return WEFT_ERROR(FAILED_PRECONDITION, "%s: another function of the job is in progress", function);
  return WEFT_ERROR(FAILED_PRECONDITION, "%s: the job is %s", function, state_texts[state]);
}

/* Ends it. A stop in an idle state takes effect here, too. */
static void leave(WEFT_Job *j, WEFT_JobState state) {
  weft_mutex_lock(&j->mu);
  j->is_busy = false;
  j->state = state <= WEFT_JOB_INITIALISED && j->is_stopping ? WEFT_JOB_STOPPED : state;
  weft_mutex_unlock(&j->mu);
}

/* ---- making and ending ---- */

void WEFT_InitJobOptions(WEFT_JobOptions *o) {
  *o = (WEFT_JobOptions){.struct_size = sizeof *o, .seed = 1, .keep = 5};
}

static weft_status_t *copy_text(WEFT_Job *j, const char *text, const char **out) {
  if (text == NULL) return NULL;
  *out = weft_arena_str(&j->arena, weft_str(text)).data;
  return *out != NULL ? NULL : no_memory();
}

static weft_status_t *import(WEFT_Job *j, TF_Graph *graph) {
  return weft_job_c_api_import(weft_str_of(j->graph_def.data, j->graph_def.length), graph);
}

/* Before the steps: the last one is traced, and its file is written behind it. */
static weft_status_t *check_trace(const WEFT_Job *j) {
  if (j->trace_path == NULL) return NULL;
  weft_status_t *s = weft_status_prefix(weft_file_check_writable(j->trace_path), " ");
  return weft_status_prefix(s, j->words->trace);
}

static weft_status_t *check_container(const WEFT_Job *j) {
  weft_status_t *s = weft_job_container_check(weft_str(j->container));
  if (s == NULL) return NULL;
  weft_status_t *told =
      WEFT_ERROR(INVALID_ARGUMENT, "%s '%s': %s", j->words->container, j->container, weft_status_message(s));
  weft_status_free(s);
  return told;
}

static weft_status_t *init(WEFT_Job *j, weft_str_t graph_def, const char *master, const WEFT_JobOptions *o) {
  if (o->struct_size != sizeof *o)
    return WEFT_ERROR(INVALID_ARGUMENT, "the options of a job were not initialised by WEFT_InitJobOptions");
  if (o->batch < 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s is %" PRId64, j->words->batch, o->batch);
  if (!(o->wait_seconds >= 0 && o->wait_seconds < 1e9))
    return WEFT_ERROR(INVALID_ARGUMENT, "options.wait_seconds is %g", o->wait_seconds);
  j->master_wait_ns = (int64_t)(o->wait_seconds * 1e9);
  if (o->keep < 0) return WEFT_ERROR(INVALID_ARGUMENT, "options.keep is %d", o->keep);
  WEFT_RETURN_IF_ERROR(copy_text(j, master, &j->master));
  WEFT_RETURN_IF_ERROR(copy_text(j, o->strategy, &j->strategy));
  WEFT_RETURN_IF_ERROR(copy_text(j, o->container, &j->container));
  WEFT_RETURN_IF_ERROR(copy_text(j, o->trace, &j->trace_path));
  WEFT_RETURN_IF_ERROR(check_trace(j));
  j->passes = weft_pass_defaults();
  j->has_passes = o->passes != NULL;
  if (j->has_passes)
    WEFT_RETURN_IF_ERROR(
        weft_status_prefix(weft_pass_settings_parse(weft_str(o->passes), &j->passes), "passes: "));
  const weft_job_batching_t how = {.batch = o->batch, .is_shuffled = o->shuffle != 0, .seed = o->seed};
  j->saving_spec =
      (weft_job_saving_spec_t){.words = j->words, .keep = o->keep, .is_partial = o->restore_partly != 0};
  weft_strbuf_append(&j->graph_def, graph_def);
  j->graph = TF_NewGraph();
  j->status = TF_NewStatus();
  if (j->graph_def.failed || j->graph == NULL || j->status == NULL) return no_memory();
  weft_job_inputs_init(&j->inputs, j->graph, &how, j->words);
  if (j->container != NULL) {
    WEFT_RETURN_IF_ERROR(check_container(j));
    WEFT_RETURN_IF_ERROR(
        weft_job_container_set_bytes(&j->graph_def, j->words->container, weft_str(j->container)));
  }
  return import(j, j->graph);
}

weft_status_t *weft_job_new(weft_str_t graph_def, const char *master, const WEFT_JobOptions *options,
                            const weft_job_words_t *words, WEFT_Job **out) {
  WEFT_JobOptions defaults;
  WEFT_InitJobOptions(&defaults);
  WEFT_Job *j = weft_calloc(1, sizeof *j);
  if (j == NULL) return no_memory();
  j->words = words;
  j->arena = j->inputs.arena = (weft_arena_t)WEFT_ARENA_INIT;
  j->graph_def = (weft_strbuf_t)WEFT_STRBUF_INIT;
  weft_mutex_init(&j->callback_mu);
  weft_mutex_init(&j->mu);
  weft_status_t *s = init(j, graph_def, master, options != NULL ? options : &defaults);
  if (s == NULL) {
    *out = j;
  } else {
    WEFT_DeleteJob(j);
  }
  return s;
}

WEFT_Job *WEFT_NewJob(const TF_Buffer *graph_def, const char *master, const WEFT_JobOptions *options,
                      TF_Status *status) {
  WEFT_Job *j = NULL;
  weft_status_t *s = graph_def == NULL ? WEFT_ERROR(INVALID_ARGUMENT, "%s: which graph? it is NULL", __func__)
                                       : weft_job_new(weft_str_of(graph_def->data, graph_def->length), master,
                                                      options, &weft_job_words, &j);
  weft_client_end(status, s);
  return j;
}

void WEFT_DeleteJob(WEFT_Job *j) {
  if (j == NULL) return;
  weft_job_close(j);
  weft_job_drop_values(j);
  weft_free(j->values);
  weft_free(j->waits);
  weft_job_inputs_deinit(&j->inputs);
  weft_job_names_deinit(&j->fetches);
  weft_job_names_deinit(&j->targets);
  weft_job_names_deinit(&j->inits);
  weft_job_log_spec_deinit(&j->log_spec);
  if (j->graph != NULL) TF_DeleteGraph(j->graph);
  TF_DeleteStatus(j->status);
  weft_strbuf_deinit(&j->graph_def);
  weft_arena_deinit(&j->arena);
  weft_mutex_deinit(&j->mu);
  weft_mutex_deinit(&j->callback_mu);
  weft_free(j);
}

void weft_job_isolate(WEFT_Job *j) { j->is_isolated = true; }

void weft_job_save_also_every(WEFT_Job *j, int64_t steps) { j->saving_spec.also_steps = steps; }

int64_t weft_job_steps_per_epoch(const WEFT_Job *j) {
  const weft_job_inputs_t *f = &j->inputs;
  return f->batch == 0 ? 0 : f->rows / f->batch + (f->rows % f->batch != 0);
}

/* ---- what runs, what is fed ---- */

/* Ends a change of the description. */
static weft_status_t *described(WEFT_Job *j, weft_status_t *s) {
  leave(j, WEFT_JOB_CREATED);
  return s;
}

static weft_status_t *add_node(WEFT_Job *j, weft_job_names_t *list, const char *option, const char *node) {
  TF_Operation *op = NULL;
  WEFT_RETURN_IF_ERROR(weft_job_find_node(j->graph, option, weft_str(node), &op));
  return weft_job_names_add(list, &j->arena, weft_str(node), (TF_Output){op, 0});
}

void WEFT_JobAddInitialiser(WEFT_Job *j, const char *node, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, add_node(j, &j->inits, j->words->init, node));
  weft_client_end(status, s);
}
void WEFT_JobAddTarget(WEFT_Job *j, const char *node, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, add_node(j, &j->targets, j->words->target, node));
  weft_client_end(status, s);
}
int WEFT_JobAddFetch(WEFT_Job *j, const char *name, TF_Status *status) {
  int index = -1;
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, weft_job_add_fetch(j, j->words->fetch, weft_str(name), &index));
  weft_client_end(status, s);
  return index;
}

weft_status_t *weft_job_input_dtype(WEFT_Job *j, weft_str_t name, int *out) {
  TF_Output output;
  WEFT_RETURN_IF_ERROR(weft_job_find_output(j->graph, j->words, j->words->input, name, &output));
  *out = (int)TF_OperationOutputType(output);
  return NULL;
}

weft_status_t *weft_job_add_input(WEFT_Job *j, weft_str_t name, weft_tensor_t *data, bool is_rows,
                                  const char *text) {
  return weft_job_inputs_add(&j->inputs, name, data, is_rows, text);
}

static weft_status_t *check_feeding(const WEFT_Job *j, const char *name, WEFT_JobFeeding how) {
  if (how == WEFT_JOB_WHOLE || (how == WEFT_JOB_ROWS && j->inputs.batch > 0)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: %s", j->words->input, name,
                    how == WEFT_JOB_ROWS ? "rows of it are fed, but options.batch is 0"
                                         : "it is given neither as WEFT_JOB_WHOLE nor as WEFT_JOB_ROWS");
}

static weft_status_t *input_tensor(WEFT_Job *j, const char *name, const TF_Tensor *value,
                                   WEFT_JobFeeding how) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(check_feeding(j, name, how));
  if (value == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: the tensor is NULL", j->words->input, name);
  WEFT_RETURN_IF_ERROR(weft_client_tensor_get(value, &t));
  return weft_job_add_input(j, weft_str(name), t, how == WEFT_JOB_ROWS, "the array");
}

static weft_status_t *input_file(WEFT_Job *j, const char *name, const char *path, WEFT_JobFeeding how) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(check_feeding(j, name, how));
  if (path == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: the path is NULL", j->words->input, name);
  weft_status_t *s = weft_npy_read(path, &t);
  if (s != NULL) return weft_status_annotate(s, "%s %s", j->words->input, name);
  return weft_job_add_input(j, weft_str(name), t, how == WEFT_JOB_ROWS, path);
}

void WEFT_JobInputTensor(WEFT_Job *j, const char *name, const TF_Tensor *value, WEFT_JobFeeding how,
                         TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, input_tensor(j, name, value, how));
  weft_client_end(status, s);
}
void WEFT_JobInputFile(WEFT_Job *j, const char *name, const char *path, WEFT_JobFeeding how,
                       TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, input_file(j, name, path, how));
  weft_client_end(status, s);
}
void WEFT_JobInputSource(WEFT_Job *j, const char *const *names, int num_names, WEFT_JobSourceFn fn, void *arg,
                         TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, weft_job_inputs_add_source(&j->inputs, names, num_names, fn, arg));
  weft_client_end(status, s);
}

/* ---- what is told and kept ---- */

static weft_status_t *on_step(WEFT_Job *j, WEFT_JobStepFn fn, void *arg) {
  j->on_step = fn;
  j->step_arg = arg;
  return NULL;
}

static weft_status_t *on_event(WEFT_Job *j, WEFT_JobEventFn fn, void *arg) {
  j->on_event = fn;
  j->event_arg = arg;
  return NULL;
}

static weft_status_t *save_every(WEFT_Job *j, const char *prefix, int64_t steps, double seconds) {
  const double longest = 1e9;
  bool ok = weft_str(prefix).length > 0 && steps >= 0 && seconds >= 0 && seconds < longest &&
            (steps == 0 || seconds == 0);
  if (!ok) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: give a prefix and steps (100) or seconds (30), not both; got %" PRId64 " and %g",
                      j->words->save, steps, seconds);
  }
  j->saving_spec.every_steps = steps;
  j->saving_spec.every_ns = (int64_t)(seconds * 1e9);
  return copy_text(j, prefix, &j->saving_spec.save);
}

static weft_status_t *restore(WEFT_Job *j, const char *path) {
  if (weft_str(path).length == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: which checkpoint? the path is %s", j->words->restore,
                      path == NULL ? "NULL" : "empty");
  }
  return copy_text(j, path, &j->saving_spec.restore);
}

void WEFT_InitJobLogOptions(WEFT_JobLogOptions *o) {
  *o = (WEFT_JobLogOptions){.struct_size = sizeof *o, .every = 1};
}

static weft_status_t *log_to(WEFT_Job *j, const char *directory, const WEFT_JobLogOptions *o) {
  if (directory == NULL || *directory == '\0')
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: which directory?", j->words->log);
  if (o->struct_size != sizeof *o)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "the options of a log were not initialised by WEFT_InitJobLogOptions");
  if (o->every < 1 || o->profile_every < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: every is %" PRId64 ", profile_every is %" PRId64, j->words->log,
                      o->every, o->profile_every);
  }
  j->log_spec.every = o->every;
  j->log_spec.profile_every = o->profile_every;
  j->log_spec.has_norms = o->norms != 0;
  return copy_text(j, directory, &j->log_spec.directory);
}

void WEFT_JobLog(WEFT_Job *j, const char *directory, const WEFT_JobLogOptions *options, TF_Status *status) {
  WEFT_JobLogOptions defaults;
  WEFT_InitJobLogOptions(&defaults);
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, log_to(j, directory, options != NULL ? options : &defaults));
  weft_client_end(status, s);
}
void WEFT_JobLogHyperparameter(WEFT_Job *j, const char *name, const char *value, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) {
    s = described(j, weft_job_log_spec_hparam(&j->log_spec, &j->arena, weft_str(name), weft_str(value)));
  }
  weft_client_end(status, s);
}

void WEFT_JobOnStep(WEFT_Job *j, WEFT_JobStepFn fn, void *arg, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, on_step(j, fn, arg));
  weft_client_end(status, s);
}
void WEFT_JobOnEvent(WEFT_Job *j, WEFT_JobEventFn fn, void *arg, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, on_event(j, fn, arg));
  weft_client_end(status, s);
}
void WEFT_JobSaveEvery(WEFT_Job *j, const char *prefix, int64_t steps, double seconds, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, save_every(j, prefix, steps, seconds));
  weft_client_end(status, s);
}
void WEFT_JobRestore(WEFT_Job *j, const char *path, TF_Status *status) {
  weft_status_t *s = enter(j, __func__, CREATED);
  if (s == NULL) s = described(j, restore(j, path));
  weft_client_end(status, s);
}

/* ---- running ---- */

/* The nodes that an earlier session had are gone with its graph. */
static void find_again(weft_job_names_t *l, TF_Graph *graph) {
  for (int i = 0; i < l->n; i++)
    l->outputs[i].oper = TF_GraphOperationByName(graph, TF_OperationName(l->outputs[i].oper));
}

static weft_status_t *renew_graph(WEFT_Job *j) {
  TF_Graph *graph = TF_NewGraph();
  weft_status_t *s = graph == NULL ? no_memory() : import(j, graph);
  if (s != NULL) {
    if (graph != NULL) TF_DeleteGraph(graph);
    return s;
  }
  weft_job_names_t *lists[] = {&j->inputs.names, &j->fetches, &j->targets, &j->inits};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) find_again(lists[i], graph);
  TF_DeleteGraph(j->graph);
  j->graph = j->inputs.graph = graph;
  return NULL;
}

static weft_status_t *open_session(WEFT_Job *j, bool resumes) {
  bool grows = false;
  weft_job_close(j);
  weft_status_t *s = weft_job_logging_prepare(j, &grows);
  if (s == NULL && (j->was_opened || grows)) s = renew_graph(j);
  if (s == NULL) s = weft_job_logging_fetch(j);
  if (s == NULL) s = weft_job_open(j, resumes);
  return s == NULL ? NULL : weft_job_cause(j, s);
}

/* The state after a function that failed: a stop is no failure. */
static WEFT_JobState state_after(WEFT_Job *j, const weft_status_t *s, WEFT_JobState well) {
  if (s == NULL) return well;
  weft_mutex_lock(&j->mu);
  bool is_stopping = j->is_stopping;
  weft_mutex_unlock(&j->mu);
  return is_stopping && weft_status_code(s) == WEFT_CANCELLED ? WEFT_JOB_STOPPED : WEFT_JOB_FAILED;
}

static weft_status_t *must_save(const WEFT_Job *j, const char *function) {
  if (j->saving_spec.save != NULL) return NULL;
  return WEFT_ERROR(FAILED_PRECONDITION,
                    "%s: the job does not save; WEFT_JobSaveEvery says where its checkpoints are", function);
}

static void initialise(WEFT_Job *j, const char *function, int allowed, bool resumes, TF_Status *status) {
  weft_status_t *s = resumes ? must_save(j, function) : NULL;
  if (s == NULL) s = enter(j, function, allowed);
  if (s == NULL) {
    s = open_session(j, resumes);
    leave(j, state_after(j, s, WEFT_JOB_INITIALISED));
  }
  weft_client_end(status, s);
}

void WEFT_JobInitialise(WEFT_Job *j, TF_Status *status) { initialise(j, __func__, CREATED, false, status); }
void WEFT_JobResume(WEFT_Job *j, TF_Status *status) {
  initialise(j, __func__, CREATED | ENDED, true, status);
}

/* `steps` < 0: one more. */
static void run(WEFT_Job *j, const char *function, int64_t steps, TF_Status *status) {
  bool stops = false, ends = steps >= 0;
  weft_status_t *s = enter(j, function, CREATED | INITIALISED);
  if (s == NULL) {
    if (j->session == NULL) s = open_session(j, false);
    if (s == NULL) {
      weft_job_set_state(j, WEFT_JOB_RUNNING);
      s = weft_job_run_steps(j, ends ? steps : atomic_load(&j->done) + 1, ends, &stops);
    }
    leave(j, state_after(j, s, stops ? WEFT_JOB_STOPPED : WEFT_JOB_INITIALISED));
  }
  weft_client_end(status, s);
}

void WEFT_JobRun(WEFT_Job *j, int64_t steps, TF_Status *status) {
  if (steps < 0) {
    weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT, "%s: %" PRId64 " steps", __func__, steps));
  } else {
    run(j, __func__, steps, status);
  }
}

void WEFT_JobStep(WEFT_Job *j, TF_Status *status) { run(j, __func__, -1, status); }

void WEFT_JobSave(WEFT_Job *j, TF_Status *status) {
  weft_status_t *s = must_save(j, __func__);
  if (s == NULL) s = enter(j, __func__, INITIALISED);
  if (s == NULL) {
    s = weft_job_save_now(j);
    if (s != NULL) s = weft_job_cause(j, s);
    leave(j, state_after(j, s, WEFT_JOB_INITIALISED));
  }
  weft_client_end(status, s);
}

void WEFT_JobStop(WEFT_Job *j) {
  weft_mutex_lock(&j->mu);
  if (j->is_busy || (1 << j->state & ENDED) == 0) {
    j->is_stopping = true;
    if (!j->is_busy) j->state = WEFT_JOB_STOPPED;
    if (j->has_watch) weft_job_watch_stop(&j->watch);
    if (j->has_loops) weft_job_loops_stop(&j->loops);
  }
  weft_mutex_unlock(&j->mu);
}

/* ---- looking at it ---- */

const TF_Tensor *WEFT_JobValue(const WEFT_Job *j, int fetch) {
  return j->values == NULL || fetch < 0 || fetch >= j->fetches.n ? NULL : j->values[fetch];
}

int weft_job_workers(WEFT_Job *j, weft_job_worker_t *out, int num_out) {
  int n = 0;
  if (!j->has_loops || j->plan.num_loops < 2) return 0;
  for (int i = 0; i < j->plan.num_loops; i++) {
    if (j->plan.loops[i].is_update) continue;
    const int64_t runs = weft_job_loops_runs(&j->loops, i);
    if (n < num_out) {
      out[n] = (weft_job_worker_t){
          .name = j->plan.loops[i].name, .steps = runs < 0 ? 0 : runs, .has_data = runs >= 0};
    }
    n++;
  }
  return n;
}

int64_t weft_job_rows_fed(WEFT_Job *j) { return weft_job_splitter_rows(&j->splitter); }

int weft_job_waits(const WEFT_Job *j, weft_job_device_wait_t *out, int num_out) {
  for (int i = 0; i < j->num_waits && i < num_out; i++) {
    const weft_job_wait_t *w = &j->waits[i];
    const double ns = (double)w->waited_ns, share = j->wait_ns > 0 ? ns / j->wait_ns : 0;
    out[i] = (weft_job_device_wait_t){.device = w->device,
                                      .share = share < 1 ? share : 1,
                                      .ms_per_step = j->wait_steps > 0 ? ns * 1e-6 / j->wait_steps : 0,
                                      .delivered = w->delivered,
                                      .buffered = w->buffered,
                                      .budget = w->budget};
  }
  return j->num_waits;
}
