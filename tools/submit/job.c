/* tools/submit/job.c - graph, session, steps, results. */
#include "tools/submit/job.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/npy.h"
#include "protos/wire.h"
#include "tools/c_api.h"
#include "tools/graph_file.h"
#include "tools/strategy/container.h"
#include "tools/submit/feeds.h"
#include "tools/submit/fresh.h"
#include "tools/submit/lanes.h"
#include "tools/submit/master_probe.h"
#include "tools/submit/names.h"
#include "tools/submit/plan.h"
#include "tools/submit/reach.h"
#include "tools/submit/run_options.h"

typedef struct save {
  int fetch; /* index */
  const char *path;
} save_t;

typedef struct job {
  const weft_job_spec_t *spec;
  weft_watch_t watch;
  weft_strbuf_t graph_def;
  TF_Graph *graph, *rewritten; /* as in the file; what a strategy made of it, or NULL */
  weft_run_plan_t plan;
  weft_fresh_t fresh;
  TF_Session *session;
  TF_Status *status;
  weft_feeds_t feeds;
  weft_dealer_t dealer;
  weft_trace_t *trace;   /* NULL unless asked for */
  weft_progress_t progress;
  weft_saving_t saving; /* all zero: nothing is saved or restored */
  int num_fetches;       /* those of --fetch, then those that are only saved */
  TF_Output *fetches;
  TF_Tensor **values;    /* of the last step; owned */
  weft_progress_value_t *shown; /* one per --fetch; owns its value, which looks at `values` */
  const TF_Operation **targets, **inits;
  save_t *saves;
  weft_status_t *failure; /* of the whole; owned */
} job_t;

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for a job"); }

/* ---- what the command line names ---- */

static weft_status_t *load_graph(job_t *j) {
  WEFT_RETURN_IF_ERROR(weft_graph_file_read(j->spec->graph_path, &j->graph_def));
  if (j->spec->container != NULL) {
    WEFT_RETURN_IF_ERROR(weft_container_check(weft_str(j->spec->container)));
    weft_status_t *set = weft_container_set_bytes(&j->graph_def, weft_str(j->spec->container));
    if (set != NULL) return weft_status_annotate(set, "in %s", j->spec->graph_path);
  }
  TF_Buffer *buffer = TF_NewBufferFromString(j->graph_def.data == NULL ? "" : j->graph_def.data, j->graph_def.length);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(j->graph, buffer, options, j->status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  weft_status_t *s = weft_c_api_status(j->status);
  return s == NULL ? NULL : weft_status_annotate(s, "in %s", j->spec->graph_path);
}

static weft_status_t *find_nodes(job_t *j, const char *option, const weft_option_texts_t *names, const TF_Operation **out) {
  for (int i = 0; i < names->n; i++) {
    TF_Operation *op = NULL;
    WEFT_RETURN_IF_ERROR(weft_find_node(j->graph, option, weft_str(names->items[i]), &op));
    out[i] = op;
  }
  return NULL;
}

/* What is saved is fetched, also without --fetch. */
static weft_status_t *find_saves(job_t *j) {
  for (int i = 0; i < j->spec->saves.n; i++) {
    const char *text = j->spec->saves.items[i];
    weft_str_t name, path;
    TF_Output output;
    if (!weft_str_split(weft_str(text), '=', &name, &path) || name.length == 0 || path.length == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: give NAME=FILE.npy", text);
    }
    WEFT_RETURN_IF_ERROR(weft_find_output(j->graph, "--save-fetch", name, &output));
    int k = 0;
    while (k < j->num_fetches && (j->fetches[k].oper != output.oper || j->fetches[k].index != output.index)) k++;
    if (k == j->num_fetches) j->fetches[j->num_fetches++] = output;
    j->saves[i] = (save_t){k, path.data};
  }
  return NULL;
}

static weft_status_t *find_names(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  size_t most = (size_t)spec->fetches.n + (size_t)spec->saves.n + 1;
  j->fetches = weft_calloc(most, sizeof *j->fetches);
  j->values = weft_calloc(most, sizeof(TF_Tensor *));
  j->shown = weft_calloc(most, sizeof *j->shown);
  j->targets = weft_calloc((size_t)spec->targets.n + 1, sizeof(TF_Operation *));
  j->inits = weft_calloc((size_t)spec->inits.n + 1, sizeof(TF_Operation *));
  j->saves = weft_calloc((size_t)spec->saves.n + 1, sizeof *j->saves);
  bool ok = j->fetches != NULL && j->values != NULL && j->shown != NULL && j->targets != NULL && j->inits != NULL && j->saves != NULL;
  if (!ok) return no_memory();
  for (int i = 0; i < spec->fetches.n; i++) {
    WEFT_RETURN_IF_ERROR(weft_find_output(j->graph, "--fetch", weft_str(spec->fetches.items[i]), &j->fetches[i]));
    j->shown[i].name = spec->fetches.items[i];
  }
  j->num_fetches = spec->fetches.n;
  WEFT_RETURN_IF_ERROR(find_nodes(j, "--target", &spec->targets, j->targets));
  WEFT_RETURN_IF_ERROR(find_nodes(j, "--init", &spec->inits, j->inits));
  WEFT_RETURN_IF_ERROR(find_saves(j));
  return weft_feeds_init(&j->feeds, j->graph, spec->feeds.items, spec->feeds.n, &spec->batching);
}

/* ---- what it starts from ---- */

static weft_str_t graph_bytes(const job_t *j) { return weft_str_of(j->graph_def.data == NULL ? "" : j->graph_def.data, j->graph_def.length); }

/* Whatever can be wrong with files is found before anything runs. */
static weft_status_t *prepare_saving(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  weft_str_t tail;
  int n = 0;
  if (!weft_saving_is_used(&spec->saving)) return NULL;
  weft_str_t *step = weft_calloc((size_t)spec->fetches.n + (size_t)spec->targets.n + (size_t)spec->saves.n + 1, sizeof *step);
  if (step == NULL) return no_memory();
  for (int i = 0; i < spec->fetches.n; i++) step[n++] = weft_str(spec->fetches.items[i]);
  for (int i = 0; i < spec->targets.n; i++) step[n++] = weft_str(spec->targets.items[i]);
  for (int i = 0; i < spec->saves.n; i++, n++) weft_str_split(weft_str(spec->saves.items[i]), '=', &step[n], &tail);
  weft_status_t *s = weft_saving_init(&j->saving, &spec->saving, graph_bytes(j), step, n);
  weft_free(step);
  return s;
}

static weft_status_t *make_plan(job_t *j) {
  if (j->spec->strategy != NULL) {
    WEFT_RETURN_IF_ERROR(weft_run_plan_rewritten(j->spec, &j->feeds, graph_bytes(j), j->saving.restore.fingerprint, &j->plan, &j->rewritten));
  } else {
    weft_plan_source_t source = {.graph = j->graph, .fetches = j->fetches, .targets = j->targets, .inits = j->inits,
                                 .num_feeds = j->feeds.n, .num_fetches = j->num_fetches, .num_targets = j->spec->targets.n,
                                 .num_inits = j->spec->inits.n};
    source.feeds = weft_calloc((size_t)j->feeds.n + 1, sizeof *source.feeds);
    if (source.feeds == NULL) return no_memory();
    for (int i = 0; i < j->feeds.n; i++) source.feeds[i] = j->feeds.feeds[i].output;
    weft_status_t *s = weft_run_plan_plain(j->spec, &source, &j->plan);
    weft_free(source.feeds);
    WEFT_RETURN_IF_ERROR(s);
  }
  if (weft_saving_is_used(&j->spec->saving)) {
    bool is_restoring = j->spec->saving.restore != NULL || j->spec->saving.resumes;
    if (j->plan.collective_graph_key != 0 && j->plan.num_inits == 0 && is_restoring) { /* they agree while they initialise */
      return WEFT_ERROR(INVALID_ARGUMENT, "%s with a client per worker needs --init: the clients compare there what they start from",
                        j->spec->saving.resumes ? "--resume" : "--restore");
    }
    WEFT_RETURN_IF_ERROR(weft_saving_attach(&j->saving, j->plan.graph, j->spec->strategy != NULL, j->plan.is_follower, j->plan.round_steps));
  }
  WEFT_RETURN_IF_ERROR(weft_fresh_init(&j->fresh, &j->plan));
  weft_dealer_init(&j->dealer, &j->feeds);
  return j->spec->trace == NULL ? NULL : weft_trace_create(&j->trace);
}

/* ConfigProto.device_count {key: "CPU" value: n}. */
static void set_cpus(TF_SessionOptions *options, int n, TF_Status *status) {
  weft_strbuf_t config = WEFT_STRBUF_INIT;
  size_t entry = weft_wire_begin(&config, 1);
  weft_wire_put_text(&config, 1, "CPU");
  weft_wire_put_i64(&config, 2, n);
  weft_wire_end(&config, entry);
  TF_SetConfig(options, config.data, config.length, status);
  weft_strbuf_deinit(&config);
}

static weft_status_t *open_session(job_t *j) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (j->spec->master != NULL) TF_SetTarget(options, j->spec->master);
  if (j->plan.num_local_cpus > 0) set_cpus(options, j->plan.num_local_cpus, j->status);
  j->session = TF_NewSession(j->plan.graph, options, j->status);
  TF_DeleteSessionOptions(options);
  WEFT_RETURN_IF_ERROR(weft_c_api_status(j->status));
  weft_watch_session(&j->watch, j->session, j->spec->master);
  return NULL;
}

/* ---- steps ---- */

static void drop_values(job_t *j) {
  for (int i = 0; i < j->num_fetches; i++) {
    if (i < j->spec->fetches.n) {
      weft_tensor_release(j->shown[i].value);
      j->shown[i].value = NULL;
    }
    TF_DeleteTensor(j->values[i]);
    j->values[i] = NULL;
  }
}

/* Where the job stands after step `done`. */
static weft_job_position_t position(job_t *j, int64_t done) {
  weft_job_position_t now = {.step = done, .rows = j->feeds.batch > 0 ? j->feeds.rows : 0, .is_shuffled = j->feeds.is_shuffled, .seed = j->feeds.seed};
  weft_dealer_where(&j->dealer, &now.epoch, &now.row);
  return now;
}

/* A lane ran: what it fetched becomes what is shown. */
static weft_status_t *ran(void *arg, TF_Tensor **values, int64_t done, bool counts) {
  job_t *j = arg;
  if (values != NULL) {
    drop_values(j);
    for (int i = 0; i < j->num_fetches; i++) {
      j->values[i] = values[i];
      values[i] = NULL;
    }
    for (int i = 0; i < j->spec->fetches.n; i++) WEFT_RETURN_IF_ERROR(weft_c_api_look_at(j->values[i], &j->shown[i].value));
  }
  if (counts) {
    weft_progress_step(&j->progress, done);
    weft_job_position_t now = position(j, done);
    weft_saving_step(&j->saving, &now);
  }
  return NULL;
}

/* What initialiser `i` is made of, of all that is fed: all rows of it. */
static weft_status_t *feed_init(job_t *j, int i, TF_Output *outputs, TF_Tensor **values, bool *reached, int *out_n) {
  *out_n = 0;
  if (i >= j->spec->inits.n) return NULL; /* one that the strategy added */
  for (int k = 0; k < j->feeds.n; k++) outputs[k] = j->feeds.feeds[k].output;
  WEFT_RETURN_IF_ERROR(weft_reach(j->inits[i], outputs, j->feeds.n, reached));
  for (int k = 0; k < j->feeds.n; k++) {
    TF_Output from = j->feeds.feeds[k].output;
    TF_Operation *op = reached[k] ? TF_GraphOperationByName(j->plan.graph, TF_OperationName(from.oper)) : NULL;
    if (op == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_gather_rows(j->feeds.feeds[k].data, NULL, 0, -1, &values[*out_n]));
    outputs[(*out_n)++] = (TF_Output){op, from.index};
  }
  return NULL;
}

static weft_status_t *run_init(job_t *j, int i) {
  int n = 0;
  TF_Output *outputs = weft_calloc((size_t)j->feeds.n + 1, sizeof *outputs);
  TF_Tensor **values = weft_calloc((size_t)j->feeds.n + 1, sizeof(TF_Tensor *));
  bool *reached = weft_calloc((size_t)j->feeds.n + 1, sizeof *reached);
  weft_status_t *s = outputs == NULL || values == NULL || reached == NULL ? no_memory() : feed_init(j, i, outputs, values, reached, &n);
  if (s == NULL) {
    TF_Buffer *options = weft_run_options(false, j->plan.collective_graph_key);
    TF_SessionRun(j->session, options, outputs, values, n, NULL, NULL, 0, &j->plan.inits[i], 1, NULL, j->status);
    if (options != NULL) TF_DeleteBuffer(options);
    weft_watch_progress(&j->watch);
    s = weft_c_api_status(j->status);
  }
  for (int k = 0; k < n; k++) TF_DeleteTensor(values[k]);
  weft_free(outputs);
  weft_free(values);
  weft_free(reached);
  return s == NULL ? NULL : weft_status_annotate(s, "while running --init %s", j->plan.init_names[i]);
}

static weft_status_t *forget_former_job(job_t *j) {
  if (j->fresh.n == 0) return NULL;
  TF_SessionRun(j->session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)j->fresh.clears, j->fresh.n, NULL, j->status);
  weft_watch_progress(&j->watch);
  weft_status_t *s = weft_c_api_status(j->status);
  return s == NULL ? NULL : weft_status_annotate(s, "while variables of a former job were cleared for --init");
}

static weft_status_t *run_inits(job_t *j) {
  weft_status_t *s = forget_former_job(j);
  for (int i = 0; s == NULL && i < j->plan.num_inits; i++) s = run_init(j, i); /* a later one may need an earlier one */
  return s;
}

/* ---- checkpoints ---- */

static weft_status_t *save(job_t *j, int64_t done) {
  weft_str_t path;
  const weft_job_position_t now = position(j, done);
  WEFT_RETURN_IF_ERROR(weft_saving_save(&j->saving, j->session, &now, &path));
  weft_watch_progress(&j->watch);
  if (path.length > 0) {
    weft_progress_tell(&j->progress, done, "saved", path.data, "saved %s (step %" PRId64 ")", path.data, j->saving.saved_step);
  }
  return NULL;
}

/* All lanes stand still. */
static weft_status_t *pause_lanes(void *arg, int64_t done, int64_t *out_next) {
  job_t *j = arg;
  *out_next = weft_saving_next_step(&j->saving, done);
  return save(j, done);
}

static bool is_due(void *arg) { return weft_saving_is_due(&((job_t *)arg)->saving); }

/* Says what the job starts from, and has the feeds start there, too. */
static void tell_start(job_t *j) {
  weft_saving_t *s = &j->saving;
  const char *note = NULL;
  if (s->spec == NULL) return;
  weft_saving_seek(s, &j->feeds, &note);
  if (s->spec->resumes && s->series.latest.length > 0) {
    weft_progress_tell(&j->progress, s->first, "resumed", s->restore.path.data, "resumed from %s: step %" PRId64 " of %" PRId64 " is done%s%s",
                       s->restore.path.data, s->first, j->spec->steps, note == NULL ? "" : "; ", note == NULL ? "" : note);
    return;
  }
  if (s->spec->resumes) {
    weft_progress_tell(&j->progress, 0, "resumed", NULL, "no checkpoint %s-* to resume from: starting afresh", s->series.prefix.data);
  }
  if (s->restore.source != NULL) {
    weft_progress_tell(&j->progress, 0, "restored", s->restore.path.data, "restored %s (%d of %d variables)", s->restore.path.data,
                       s->restore.num_found, s->variables.n);
  }
}

/* If a signal ended the job, that is what happened, whatever the step says. */
static weft_status_t *cause(job_t *j, weft_status_t *s, int64_t done) {
  if (weft_watch_signal(&j->watch) == 0) return s;
  weft_status_free(s);
  const weft_series_t *series = &j->saving.series;
  weft_str_t last = series->n > 0 ? series->names[series->n - 1] : WEFT_STR("");
  return WEFT_ERROR(CANCELLED, "interrupted after %" PRId64 " of %" PRId64 " steps%s%.*s", done, j->spec->steps,
                    last.length > 0 ? "; --resume goes on from " : "", WEFT_STR_ARGS(last));
}

static weft_status_t *save_fetches(job_t *j) {
  for (int i = 0; i < j->spec->saves.n; i++) {
    weft_tensor_t *t = NULL;
    TF_Tensor *value = j->values[j->saves[i].fetch];
    if (value == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: without a step there is no value", j->spec->saves.items[i]);
    WEFT_RETURN_IF_ERROR(weft_c_api_look_at(value, &t));
    weft_status_t *s = weft_npy_write(j->saves[i].path, t);
    weft_tensor_release(t);
    if (s != NULL) return weft_status_annotate(s, "while saving --save-fetch %s", j->spec->saves.items[i]);
  }
  return NULL;
}

static weft_status_t *run_steps(job_t *j) {
  const weft_job_spec_t *spec = j->spec;
  int64_t first = j->saving.first, done = first;
  weft_status_t *s = run_inits(j);
  if (s == NULL && j->saving.spec != NULL) s = weft_saving_restore(&j->saving, j->session);
  if (s != NULL) return cause(j, s, first);
  weft_progress_start(&j->progress, spec->style, first, spec->steps, j->shown, spec->fetches.n);
  tell_start(j);
  j->saving.mark = position(j, first);
  weft_lanes_t lanes = {.plan = &j->plan, .session = j->session, .dealer = &j->dealer, .watch = &j->watch, .trace = j->trace,
                        .first = first, .steps = spec->steps, .ran = ran, .arg = j};
  if (j->saving.is_saving) {
    lanes.is_due = is_due;
    lanes.pause = pause_lanes;
    lanes.pause_at = weft_saving_next_step(&j->saving, first);
    lanes.round = j->saving.round;
  }
  if (spec->steps > first) s = weft_lanes_run(&lanes, &done);
  if (done < spec->steps) s = cause(j, s, done);
  if (s == NULL && j->saving.is_saving) s = save(j, done);
  if (s == NULL) s = save_fetches(j);
  if (s == NULL && j->trace != NULL) s = weft_trace_write(j->trace, spec->trace);
  weft_progress_end(&j->progress, done, s);
  return s;
}

static void deinit(job_t *j) {
  if (j->values != NULL) drop_values(j);
  if (j->session != NULL) {
    TF_CloseSession(j->session, j->status); /* a failure here hides nothing: the results are in */
    weft_watch_forget(&j->watch);
    TF_DeleteSession(j->session, j->status);
  }
  weft_dealer_deinit(&j->dealer);
  weft_trace_destroy(j->trace);
  weft_fresh_deinit(&j->fresh);
  weft_run_plan_deinit(&j->plan);
  weft_strbuf_deinit(&j->graph_def);
  weft_feeds_deinit(&j->feeds);
  weft_saving_deinit(&j->saving);
  weft_free(j->fetches);
  weft_free(j->values);
  weft_free(j->shown);
  weft_free(j->targets);
  weft_free(j->inits);
  weft_free(j->saves);
  TF_DeleteGraph(j->graph);
  if (j->rewritten != NULL) TF_DeleteGraph(j->rewritten);
  TF_DeleteStatus(j->status);
}

static void run(void *arg) {
  job_t *j = arg;
  weft_status_t *s = load_graph(j);
  if (s == NULL) s = find_names(j);
  if (s == NULL) s = prepare_saving(j);
  if (s == NULL && j->spec->master != NULL) s = weft_master_probe(j->spec->master);
  if (s == NULL) s = make_plan(j);
  if (s == NULL) s = open_session(j);
  if (s == NULL) s = run_steps(j);
  deinit(j);
  j->failure = s;
}

weft_status_t *weft_job_run(const weft_job_spec_t *spec, int *out_signal) {
  job_t j = {.spec = spec, .graph = TF_NewGraph(), .status = TF_NewStatus()};
  *out_signal = 0;
  weft_status_t *s = weft_watch_run(&j.watch, spec->style == WEFT_PROGRESS_BAR, run, &j);
  if (s != NULL) return s; /* the process ends; what was made for the job ends with it */
  *out_signal = j.watch.signal_number;
  return j.failure;
}
