/* tools/submit/submit.c - the command's words for what a job does. */
#include "tools/submit/submit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/npy.h"
#include "jobs/c_api.h"
#include "tools/command.h"
#include "tools/model.h"
#include "tools/run/data_graph.h"
#include "tools/submit/feed_args.h"
#include "tools/submit/signals.h"

static const weft_job_words_t words = {.input = "--feed",
                                       .fetch = "--fetch",
                                       .target = "--target",
                                       .init = "--init",
                                       .master = "--master",
                                       .strategy = "--strategy",
                                       .container = "--container",
                                       .trace = "--trace",
                                       .batch = "--batch",
                                       .shuffle = "--shuffle",
                                       .seed = "--seed",
                                       .array = "--feed NAME=FILE.npy",
                                       .save = "--save",
                                       .restore = "--restore",
                                       .resume = "--resume",
                                       .partly = "--restore-partly",
                                       .log = "--logdir",
                                       .lists_batches = true};

typedef struct submit {
  const weft_submit_spec_t *spec;
  weft_job_words_t words; /* with the spec's own word for a feed */
  weft_submit_signals_t signals;
  weft_model_t model;
  weft_signature_def_t fed;    /* the signature without its inputs, where these are read from files */
  weft_strbuf_t graph;         /* with what reads them */
  weft_str_t begin_data;       /* the op that begins it; "": none */
  weft_option_texts_t fetches; /* those of the spec, or all that the signature has */
  WEFT_Job *job;
  TF_Status *status;
  int64_t steps; /* of the job; WEFT_PROGRESS_UNBOUNDED: until the data end */
  weft_progress_t progress;
  weft_job_worker_t *workers; /* owned; what the progress shows of them */
  int max_workers;
  bool has_begun;         /* the progress is shown */
  int64_t saved_step;     /* the last one, -1: none */
  int64_t evaluated_step; /* the last one, or where the job began */
  bool has_evaluated;
  weft_status_t *evaluation;      /* what evaluating failed with; owned */
  weft_progress_value_t *shown;   /* one per --fetch; owns its value, which looks at the job's */
  int *shown_fetch, *saved_fetch; /* of each --fetch, --save-fetch: the job's */
  weft_status_t *failure;         /* of the whole; owned */
} submit_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a job"); }

/* ---- what is shown ---- */

static void drop_values(submit_t *m) {
  for (int i = 0; m->shown != NULL && i < m->fetches.n; i++) {
    weft_tensor_release(m->shown[i].value);
    m->shown[i].value = NULL;
  }
}

/* Looks at the job's values again. They may have changed since. */
static void look_at_values(submit_t *m) {
  drop_values(m);
  for (int i = 0; i < m->fetches.n; i++) {
    const TF_Tensor *value = WEFT_JobValue(m->job, m->shown_fetch[i]);
    if (value != NULL)
      weft_status_free(
          weft_job_c_api_look_at(value, &m->shown[i].value)); /* without memory it is not shown */
  }
}

/* What the progress shows beside the steps: how far each worker is, how many examples there were. Of files
 * that the graph reads itself a step is taken to have a whole batch. */
static void ask_job(void *arg, weft_progress_t *p) {
  submit_t *m = arg;
  const int n = weft_job_workers(m->job, m->workers, m->max_workers);
  if (n > m->max_workers) {
    weft_free(m->workers);
    m->workers = weft_calloc((size_t)n, sizeof *m->workers);
    m->max_workers = m->workers == NULL ? 0 : n;
    weft_job_workers(m->job, m->workers, m->max_workers);
  }
  p->workers = m->workers;
  p->num_workers = n < m->max_workers ? n : m->max_workers;
  p->examples = (double)weft_job_rows_fed(m->job);
  if (m->spec->data.n == 0) return;
  int64_t batches = n == 0 ? WEFT_JobStepsDone(m->job) - p->first : 0;
  for (int i = 0; i < p->num_workers; i++) batches += m->workers[i].steps;
  p->examples = (double)batches * (double)m->spec->options.batch;
}

static void tick(void *arg) { weft_progress_tick(&((submit_t *)arg)->progress); }

static void begin(submit_t *m, int64_t first) {
  if (m->has_begun) return;
  m->has_begun = true;
  m->progress.ask = ask_job;
  m->progress.ask_arg = m;
  weft_progress_start(&m->progress, m->spec->style, first, m->steps, m->shown, m->fetches.n);
}

static int on_step(void *arg, WEFT_Job *job, int64_t step) {
  submit_t *m = arg;
  (void)job;
  look_at_values(m);
  weft_progress_step(&m->progress, step);
  return 0;
}

/* Nothing has begun yet: not even the bar. */
static void on_no_master(submit_t *m, const WEFT_JobEvent *e) {
  weft_progress_t before = {.style = m->spec->style, .steps = m->steps};
  weft_progress_tell(&before, 0, "waiting", e->path, "waiting for a server to listen at %s, %g s at most",
                     e->path, m->spec->options.wait_seconds);
}

static void on_master(submit_t *m, const WEFT_JobEvent *e) {
  char message[300];
  bool is_lost = e->kind == WEFT_JOB_EVENT_MASTER_LOST;
  snprintf(message, sizeof message,
           is_lost ? "the master at %s is gone; start it again, then the job (UNAVAILABLE)"
                   : "still waiting for %s; are all tasks of its cluster running?",
           e->path);
  if (is_lost) weft_submit_signals_give_up(&m->signals, WEFT_EXIT_FAILED, message);
  weft_submit_signals_say(&m->signals, message);
}

/* " of 100", or nothing. */
typedef struct of_text {
  char text[32];
} of_text_t;

static of_text_t of_all(const submit_t *m) {
  of_text_t of = {""};
  if (m->steps != WEFT_PROGRESS_UNBOUNDED) snprintf(of.text, sizeof of.text, " of %" PRId64, m->steps);
  return of;
}

static void on_saved(submit_t *m, const WEFT_JobEvent *e);

static void on_event(void *arg, WEFT_Job *job, const WEFT_JobEvent *e) {
  submit_t *m = arg;
  weft_progress_t *p = &m->progress;
  const of_text_t of = of_all(m);
  (void)job;
  if (e->kind == WEFT_JOB_EVENT_WAITING || e->kind == WEFT_JOB_EVENT_MASTER_LOST) {
    on_master(m, e);
    return;
  }
  if (e->kind == WEFT_JOB_EVENT_NO_MASTER_YET) {
    on_no_master(m, e);
    return;
  }
  look_at_values(m);
  if (e->kind != WEFT_JOB_EVENT_SAVED) begin(m, e->kind == WEFT_JOB_EVENT_RESUMED ? e->step : 0);
  switch (e->kind) {
    case WEFT_JOB_EVENT_RESUMED:
      weft_progress_tell(p, e->step, "resumed", e->path, "resumed from %s: step %" PRId64 "%s is done%s%s",
                         e->path, e->step, of.text, e->note == NULL ? "" : "; ",
                         e->note == NULL ? "" : e->note);
      if (e->note != NULL && p->style == WEFT_PROGRESS_JSON)
        weft_progress_tell(p, e->step, "note", e->note, "%s", e->note);
      return;
    case WEFT_JOB_EVENT_NOTHING_TO_RESUME:
      weft_progress_tell(p, 0, "resumed", NULL, "no checkpoint %s-* to resume from: starting afresh",
                         e->path);
      return;
    case WEFT_JOB_EVENT_RESTORED:
      weft_progress_tell(p, 0, "restored", e->path, "restored %s (%d of %d variables)", e->path,
                         e->num_restored, e->num_variables);
      return;
    default:
      weft_progress_saved(p, e->saved_step);
      weft_progress_tell(p, e->step, "saved", e->path, "saved %s (step %" PRId64 ")", e->path, e->saved_step);
      if (e->note != NULL) weft_progress_tell(p, e->step, "note", e->note, "%s", e->note);
      on_saved(m, e);
  }
}

/* ---- what is run ---- */

/* The first of those that are asked for that is no output of the signature; empty: all are. */
static weft_str_t first_unknown(const weft_model_t *model, const weft_option_texts_t *names) {
  weft_str_t name, rest;
  for (int i = 0; i < names->n; i++) {
    if (!weft_str_split(weft_str(names->items[i]), '=', &name, &rest)) name = weft_str(names->items[i]);
    if (weft_model_output(model, name) == NULL) return name;
  }
  return WEFT_STR("");
}

/* A training file's own step, unless nodes of the graph are named. */
static void choose_default(submit_t *m) {
  const weft_submit_spec_t *spec = m->spec;
  if (spec->targets.n + spec->inits.n > 0) return;
  weft_model_t *model = &m->model;
  weft_model_choose_default(model);
  if (model->signature == NULL) return;
  model->no_output = first_unknown(model, &spec->fetches);
  if (model->no_output.length == 0) model->no_output = first_unknown(model, &spec->saves);
  if (model->no_output.length > 0) model->signature = NULL;
}

/* Has the entry an input of this name? Those that are trained and those that are evaluated share --columns.
 */
static bool has_input(const submit_t *m, weft_str_t entry, weft_str_t name) {
  const weft_signature_def_t *signature =
      m->model.meta == NULL ? NULL : weft_meta_graph_signature(m->model.meta, entry);
  for (int i = 0; signature != NULL && i < signature->num_inputs; i++) {
    if (weft_str_eq(signature->inputs[i].key, name)) return true;
  }
  return false;
}

static weft_status_t *no_column_input(const submit_t *m, const char *text, weft_str_t name) {
  const weft_signature_def_t *signature = m->model.signature;
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  weft_model_print_names(signature->inputs, signature->num_inputs, &names);
  weft_status_t *s = WEFT_ERROR(
      INVALID_ARGUMENT, "--columns %s: there is no input '%.*s'; the inputs of '%.*s' are %s", text,
      WEFT_STR_ARGS(name), WEFT_STR_ARGS(signature->key), names.data == NULL ? "none" : names.data);
  weft_strbuf_deinit(&names);
  return s;
}

/* Each names an input. Their form, and that none is named twice, has been checked with the options. */
static weft_status_t *check_columns(const submit_t *m) {
  const weft_option_texts_t *columns = &m->spec->columns;
  for (int i = 0; i < columns->n; i++) {
    weft_str_t name = {NULL, 0}, rest;
    const char *text = columns->items[i];
    (void)weft_str_split(weft_str(text), '=', &name, &rest);
    if (weft_model_input(&m->model, name) == NULL && !has_input(m, WEFT_STR("train"), name) &&
        !has_input(m, WEFT_STR("evaluate"), name))
      return no_column_input(m, text, name);
  }
  return NULL;
}

/* Files take the place of the signature's inputs. */
static weft_status_t *attach_data(submit_t *m, weft_str_t *graph_def) {
  const weft_submit_spec_t *spec = m->spec;
  const weft_data_graph_options_t o = {.option = "--data",
                                       .batch = spec->options.batch,
                                       .epochs = spec->epochs > 0 ? spec->epochs : 1,
                                       .is_shuffled = spec->options.shuffle != 0,
                                       .seed = spec->options.seed,
                                       .columns = &spec->columns};
  weft_data_files_t files;
  if (m->model.signature == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "--data: %s does not say what its inputs are; a training file does",
                      spec->graph_path);
  WEFT_RETURN_IF_ERROR(check_columns(m));
  weft_status_t *s = weft_data_files_open(&spec->data, &files);
  if (s == NULL)
    s = weft_data_graph_attach(&files, m->model.signature, &o, *graph_def, &m->graph, &m->model.arena,
                               &m->begin_data);
  weft_data_files_close(&files);
  if (s != NULL) return s;
  *graph_def = weft_str_of(m->graph.data, m->graph.length);
  m->fed = *m->model.signature;
  m->fed.num_inputs = 0;
  m->model.signature = &m->fed;
  return NULL;
}

static weft_status_t *read_graph(submit_t *m) {
  weft_str_t graph_def;
  WEFT_JobOptions options = m->spec->options;
  m->words = words;
  if (m->spec->feed_option != NULL) m->words.input = m->spec->feed_option;
  WEFT_RETURN_IF_ERROR(
      weft_model_open(m->spec->graph_path, m->spec->tags, &m->model)); /* which names the file */
  if (m->spec->signature == NULL) choose_default(m);
  if (m->spec->signature != NULL) WEFT_RETURN_IF_ERROR(weft_model_choose(&m->model, m->spec->signature));
  WEFT_RETURN_IF_ERROR(weft_model_bound_graph(&m->model, &graph_def));
  if (m->spec->data.n > 0) {
    WEFT_RETURN_IF_ERROR(attach_data(m, &graph_def));
    options.batch = options.shuffle = 0; /* the graph does both */
  }
  weft_status_t *s = weft_job_new(graph_def, m->spec->master, &options, &m->words, &m->job);
  if (s == NULL && m->spec->is_isolated) weft_job_isolate(m->job);
  return s == NULL ? NULL : weft_status_annotate(s, "in %s", m->spec->graph_path);
}

/* The fetches that are asked for; all of the signature's if nothing else is to run. */
static weft_status_t *choose_fetches(submit_t *m) {
  const weft_submit_spec_t *spec = m->spec;
  const weft_signature_def_t *signature = m->model.signature;
  bool takes_all = signature != NULL && spec->fetches.n + spec->targets.n + spec->saves.n == 0;
  int n = takes_all ? signature->num_outputs : spec->fetches.n;
  m->fetches.items = weft_calloc((size_t)n + 1, sizeof *m->fetches.items);
  if (m->fetches.items == NULL) return no_memory();
  for (; m->fetches.n < n; m->fetches.n++)
    m->fetches.items[m->fetches.n] =
        takes_all ? signature->outputs[m->fetches.n].key.data : spec->fetches.items[m->fetches.n];
  return NULL;
}

/* A fetch by its name in the signature, or in the graph. */
static weft_status_t *add_fetch(submit_t *m, const char *option, weft_str_t name, int *out) {
  const weft_signature_def_t *signature = m->model.signature;
  const weft_signature_tensor_t *output = weft_model_output(&m->model, name);
  weft_status_t *s = weft_job_add_fetch(m->job, option, output == NULL ? name : output->tensor, out);
  if (s == NULL || signature == NULL || weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  weft_model_print_names(signature->outputs, signature->num_outputs, &names);
  s = weft_status_annotate(s, "the outputs of signature '%.*s' are %s", WEFT_STR_ARGS(signature->key),
                           names.data == NULL ? "none" : names.data);
  weft_strbuf_deinit(&names);
  return s;
}

static weft_status_t *add_fetches(submit_t *m) {
  const weft_submit_spec_t *spec = m->spec;
  WEFT_RETURN_IF_ERROR(choose_fetches(m));
  m->shown = weft_calloc((size_t)m->fetches.n + 1, sizeof *m->shown);
  m->shown_fetch = weft_calloc((size_t)m->fetches.n + 1, sizeof *m->shown_fetch);
  m->saved_fetch = weft_calloc((size_t)spec->saves.n + 1, sizeof *m->saved_fetch);
  if (m->shown == NULL || m->shown_fetch == NULL || m->saved_fetch == NULL) return no_memory();
  for (int i = 0; i < m->fetches.n; i++) {
    WEFT_RETURN_IF_ERROR(add_fetch(m, words.fetch, weft_str(m->fetches.items[i]), &m->shown_fetch[i]));
    m->shown[i].name = m->fetches.items[i];
    WEFT_RETURN_IF_ERROR(weft_job_log_fetch_as(m->job, m->shown_fetch[i], weft_str(m->fetches.items[i])));
  }
  return NULL;
}

/* Before the steps: the file is written behind them. */
static weft_status_t *check_save(weft_str_t name, const char *path) {
  weft_status_t *s = weft_file_check_writable(path);
  if (s == NULL) return NULL;
  weft_status_t *told = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "--save-fetch %.*s=%s",
                                        WEFT_STR_ARGS(name), weft_status_message(s));
  weft_status_free(s);
  return told;
}

/* What is saved is fetched, also without --fetch. */
static weft_status_t *add_saves(submit_t *m) {
  for (int i = 0; i < m->spec->saves.n; i++) {
    weft_str_t name, path;
    (void)weft_str_split(weft_str(m->spec->saves.items[i]), '=', &name, &path); /* tools/option_checks.h */
    WEFT_RETURN_IF_ERROR(add_fetch(m, "--save-fetch", name, &m->saved_fetch[i]));
    WEFT_RETURN_IF_ERROR(check_save(name, path.data));
  }
  return NULL;
}

typedef void add_fn(WEFT_Job *job, const char *name, TF_Status *status);

static weft_status_t *add_all(submit_t *m, add_fn *add, const weft_option_texts_t *names) {
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < names->n; i++) {
    add(m->job, names->items[i], m->status);
    s = weft_job_c_api_status(m->status);
  }
  return s;
}

/* What a signature runs beside its outputs. */
static weft_status_t *add_ops(submit_t *m) {
  const weft_signature_def_t *signature = m->model.signature;
  const int n = signature == NULL ? 0 : signature->num_ops;
  weft_option_texts_t ops = {weft_arena_calloc(&m->model.arena, (size_t)n + 1, sizeof *ops.items), n};
  if (ops.items == NULL) return no_memory();
  for (int i = 0; i < n; i++) {
    ops.items[i] = weft_arena_str(&m->model.arena, signature->ops[i].tensor).data;
    if (ops.items[i] == NULL) return no_memory();
  }
  return add_all(m, WEFT_JobAddTarget, &ops);
}

/* What a model needs before it is used: its variables, its tables. */
static weft_status_t *add_start(submit_t *m) {
  const weft_model_start_t *start = &m->model.start;
  const char *names[3];
  weft_option_texts_t ops = {names, 0};
  if (start->restores) names[ops.n++] = weft_arena_str(&m->model.arena, start->restore_op).data;
  if (start->init_op.length > 0) names[ops.n++] = weft_arena_str(&m->model.arena, start->init_op).data;
  if (m->begin_data.length > 0) names[ops.n++] = m->begin_data.data;
  for (int i = 0; i < ops.n; i++) {
    if (names[i] == NULL) return no_memory();
  }
  return add_all(m, WEFT_JobAddInitialiser, &ops);
}

/* "NAME=VALUE". */
static weft_status_t *add_hparam(submit_t *m, const char *text) {
  weft_str_t name, value;
  (void)weft_str_split(weft_str(text), '=', &name, &value); /* it has the form: tools/option_checks.h */
  char *copy = weft_strndup(name.data, name.length);
  if (copy == NULL) return no_memory();
  WEFT_JobLogHyperparameter(m->job, copy, value.data, m->status);
  weft_free(copy);
  return weft_job_c_api_status(m->status);
}

static weft_status_t *add_log(submit_t *m) {
  const weft_submit_spec_t *spec = m->spec;
  WEFT_JobLog(m->job, spec->log, &spec->log_options, m->status);
  weft_status_t *s = weft_job_c_api_status(m->status);
  for (int i = 0; s == NULL && i < spec->hparams.n; i++) s = add_hparam(m, spec->hparams.items[i]);
  return s;
}

static weft_status_t *describe(submit_t *m) {
  const weft_submit_spec_t *spec = m->spec;
  WEFT_RETURN_IF_ERROR(add_fetches(m));
  WEFT_RETURN_IF_ERROR(add_all(m, WEFT_JobAddTarget, &spec->targets));
  WEFT_RETURN_IF_ERROR(add_ops(m));
  WEFT_RETURN_IF_ERROR(add_start(m));
  WEFT_RETURN_IF_ERROR(add_all(m, WEFT_JobAddInitialiser, &spec->inits));
  WEFT_RETURN_IF_ERROR(add_saves(m));
  WEFT_RETURN_IF_ERROR(weft_submit_feeds(m->job, &m->model, m->words.input, &spec->feeds,
                                         spec->data.n > 0 ? 0 : spec->options.batch, spec->batch_names));
  if (spec->save != NULL) {
    WEFT_JobSaveEvery(m->job, spec->save, spec->save_steps, spec->save_seconds, m->status);
    WEFT_RETURN_IF_ERROR(weft_job_c_api_status(m->status));
    weft_job_save_also_every(m->job, spec->evaluate_every);
  }
  if (spec->log != NULL) WEFT_RETURN_IF_ERROR(add_log(m));
  if (spec->restore != NULL) WEFT_JobRestore(m->job, spec->restore, m->status);
  WEFT_JobOnStep(m->job, on_step, m, m->status);
  WEFT_JobOnEvent(m->job, on_event, m, m->status);
  return weft_job_c_api_status(m->status);
}

static weft_status_t *choose_steps(submit_t *m) {
  bool reads = false;
  m->steps = m->spec->steps;
  if (m->spec->epochs > 0 && m->spec->data.n == 0) {
    const int64_t each = weft_job_steps_per_epoch(m->job);
    if (each == 0)
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "--epochs: nothing is fed by rows; give --feed NAME=FILE.npy and --batch N, or --steps N");
    if (__builtin_mul_overflow(each, m->spec->epochs, &m->steps)) m->steps = WEFT_PROGRESS_UNBOUNDED - 1;
  }
  if (m->steps >= 0) return NULL;
  if (m->spec->feeds.n == 0) WEFT_RETURN_IF_ERROR(weft_job_step_reads_data(m->job, &reads));
  m->steps = reads ? WEFT_PROGRESS_UNBOUNDED : 1;
  if (reads && m->spec->options.trace != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "--trace needs --steps: the last step is traced");
  return NULL;
}

static weft_status_t *save_fetches(submit_t *m) {
  for (int i = 0; i < m->spec->saves.n; i++) {
    weft_tensor_t *t = NULL;
    weft_str_t name, path;
    const TF_Tensor *value = WEFT_JobValue(m->job, m->saved_fetch[i]);
    if (value == NULL)
      return WEFT_ERROR(INVALID_ARGUMENT, "--save-fetch %s: without a step there is no value",
                        m->spec->saves.items[i]);
    weft_str_split(weft_str(m->spec->saves.items[i]), '=', &name, &path);
    WEFT_RETURN_IF_ERROR(weft_job_c_api_look_at(value, &t));
    weft_status_t *s = weft_npy_write(path.data, t);
    weft_tensor_release(t);
    if (s != NULL) return weft_status_annotate(s, "while saving --save-fetch %s", m->spec->saves.items[i]);
  }
  return NULL;
}

/* If a signal ended the job, that is what happened, whatever the step says. */
static weft_status_t *cause(submit_t *m, weft_status_t *s) {
  if (weft_submit_signals_number(&m->signals) == 0 || (s == NULL && WEFT_JobStepsDone(m->job) >= m->steps))
    return s;
  weft_status_free(s);
  const char *last = WEFT_JobLastCheckpoint(m->job);
  const of_text_t of = of_all(m);
  return WEFT_ERROR(CANCELLED, "interrupted after %" PRId64 "%s steps%s%s", WEFT_JobStepsDone(m->job),
                    of.text, last != NULL ? "; --resume goes on from " : "", last != NULL ? last : "");
}

/* The last word, with how long the steps waited for data. */
static weft_status_t *end(submit_t *m, weft_status_t *s) {
  const int n = weft_job_waits(m->job, NULL, 0);
  weft_job_device_wait_t *waits = weft_calloc((size_t)n + 1, sizeof *waits);
  if (waits != NULL && s == NULL) {
    m->progress.num_waits = weft_job_waits(m->job, waits, n);
    m->progress.waits = waits;
  }
  weft_progress_end(&m->progress, WEFT_JobStepsDone(m->job), s);
  weft_free(waits);
  return s;
}

static void release(submit_t *m) {
  drop_values(m);
  WEFT_DeleteJob(m->job);
  weft_texts_deinit(&m->fetches);
  weft_strbuf_deinit(&m->graph);
  weft_model_close(&m->model);
  weft_free(m->shown);
  weft_free(m->workers);
  weft_free(m->shown_fetch);
  weft_free(m->saved_fetch);
  TF_DeleteStatus(m->status);
}

/* ---- evaluation ---- */

static weft_status_t *prepare(submit_t *e) {
  WEFT_RETURN_IF_ERROR(read_graph(e));
  WEFT_RETURN_IF_ERROR(describe(e));
  return choose_steps(e);
}

/* The entry "evaluate", on the variables of the newest checkpoint, in this process; without `m` all is made
 * for it, and nothing runs. */
static weft_status_t *evaluate_in(submit_t *e, submit_t *m) {
  WEFT_RETURN_IF_ERROR(prepare(e));
  if (m == NULL) return NULL;
  weft_submit_signals_job(&m->signals, e->job); /* a signal stops it */
  WEFT_JobRun(e->job, e->steps, e->status);
  weft_submit_signals_job(&m->signals, m->job);
  WEFT_RETURN_IF_ERROR(weft_job_c_api_status(e->status));
  look_at_values(e);
  weft_progress_tell_values(&m->progress, m->saved_step, "evaluated", e->shown, e->fetches.n);
  return NULL;
}

static weft_status_t *evaluate_on(const weft_submit_spec_t *of, const char *checkpoint, submit_t *m) {
  weft_submit_spec_t spec = {.graph_path = of->graph_path,
                             .tags = of->tags,
                             .signature = "evaluate",
                             .feeds = of->evaluate_feeds,
                             .feed_option = "--evaluate-feed",
                             .data = of->evaluate_data,
                             .columns = of->columns,
                             .batch_names = of->batch_names,
                             .options = {.struct_size = of->options.struct_size, .batch = of->options.batch},
                             .restore = checkpoint,
                             .is_isolated = true,
                             .epochs = of->evaluate_feeds.n > 0 && of->options.batch > 0 ? 1 : 0,
                             .steps = -1,
                             .style = WEFT_PROGRESS_VALUES};
  submit_t e = {.spec = &spec,
                .status = TF_NewStatus(),
                .has_begun = true,
                .progress = {.style = WEFT_PROGRESS_VALUES}};
  weft_status_t *s = e.status == NULL ? no_memory() : evaluate_in(&e, m);
  if (s != NULL) s = weft_status_annotate(s, "while evaluating");
  release(&e);
  return s;
}

static weft_status_t *evaluate(submit_t *m) {
  const weft_submit_spec_t *of = m->spec;
  const char *last = WEFT_JobLastCheckpoint(m->job), *slash = strrchr(of->save, '/');
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  if (slash != NULL) weft_strbuf_append(&path, weft_str_of(of->save, (size_t)(slash - of->save) + 1));
  weft_strbuf_puts(&path, last == NULL ? "" : last);
  weft_status_t *s = path.failed ? no_memory() : evaluate_on(of, path.data, m);
  weft_strbuf_deinit(&path);
  return s;
}

/* Before the first step: inputs that are missing or of another shape, files that are not there. */
static weft_status_t *check_evaluation(const submit_t *m) {
  return m->spec->evaluate_every == 0 ? NULL : evaluate_on(m->spec, NULL, NULL);
}

/* The job saves after every N steps, and at other times if asked to: the first checkpoint after each N steps
 * is evaluated, while the steps stand still. */
static void on_saved(submit_t *m, const WEFT_JobEvent *e) {
  const int64_t every = m->spec->evaluate_every;
  m->saved_step = e->saved_step;
  if (every == 0 || m->evaluation != NULL || e->saved_step / every <= m->evaluated_step / every) return;
  m->evaluated_step = e->saved_step;
  m->has_evaluated = true;
  m->evaluation = evaluate(m);
  if (m->evaluation != NULL) WEFT_JobStop(m->job);
}

static weft_status_t *run_and_evaluate(submit_t *m) {
  m->saved_step = m->evaluated_step = WEFT_JobStepsDone(m->job);
  WEFT_JobRun(m->job, m->steps, m->status);
  weft_status_t *s = weft_job_c_api_status(m->status);
  if (m->evaluation != NULL) { /* it has stopped the job */
    weft_status_free(s);
    s = m->evaluation;
    m->evaluation = NULL;
  }
  const bool is_evaluated = m->has_evaluated && m->evaluated_step == m->saved_step;
  if (s != NULL || m->spec->evaluate_every == 0 || is_evaluated || WEFT_JobLastCheckpoint(m->job) == NULL)
    return s;
  return evaluate(m);
}

static weft_status_t *run_job(submit_t *m) {
  bool is_interrupted =
      weft_submit_signals_number(&m->signals) != 0; /* a resume would begin anew all the same */
  weft_status_t *s = is_interrupted ? WEFT_ERROR(CANCELLED, "interrupted") : NULL;
  if (s == NULL) {
    if (m->spec->resumes) {
      WEFT_JobResume(m->job, m->status);
    } else {
      WEFT_JobInitialise(m->job, m->status);
    }
    s = weft_job_c_api_status(m->status);
  }
  if (s != NULL) return cause(m, s);
  begin(m, WEFT_JobStepsDone(m->job));
  s = cause(m, run_and_evaluate(m));
  if (s == NULL) s = save_fetches(m);
  look_at_values(m);
  return end(m, s);
}

static void run(void *arg) {
  submit_t *m = arg;
  m->status = TF_NewStatus();
  weft_status_t *s = m->status == NULL ? no_memory() : prepare(m);
  if (s == NULL) s = check_evaluation(m);
  if (s == NULL) {
    weft_submit_signals_job(&m->signals, m->job);
    s = run_job(m);
    weft_submit_signals_job(&m->signals, NULL);
  }
  release(m);
  m->failure = s;
}

weft_status_t *weft_submit_run(const weft_submit_spec_t *spec, int *out_signal) {
  submit_t m = {.spec = spec};
  *out_signal = 0;
  const bool has_bar = spec->style == WEFT_PROGRESS_BAR;
  weft_status_t *s = weft_submit_signals_run(&m.signals, has_bar ? tick : NULL, run, &m);
  if (s != NULL) return s; /* the process ends; what was made for the job ends with it */
  weft_progress_deinit(&m.progress);
  *out_signal = m.signals.number;
  return m.failure;
}

const weft_help_item_t weft_submit_exit_codes[] = {
    {"128+N", "Signal N ended it (130 is Ctrl-C), and it says how far it came"},
};
const int weft_submit_num_exit_codes = sizeof weft_submit_exit_codes / sizeof weft_submit_exit_codes[0];
