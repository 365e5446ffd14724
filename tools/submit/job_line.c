/* tools/submit/job_line.c - the options that describe a job, and what they mean together. */
#include "tools/submit/job_line.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "graph/passes/optimize.h"
#include "jobs/names.h"
#include "tools/command.h"
#include "tools/model.h"
#include "tools/option_checks.h"
#include "tools/strategy/names.h"
#include "tools/submit/feed_args.h"

/* A bar needs a terminal that can go back to the start of a line. */
static weft_progress_style_t style_for(bool json) {
  if (json) return WEFT_PROGRESS_JSON;
  const char *terminal = getenv("TERM");
  bool is_capable = isatty(STDOUT_FILENO) && (terminal == NULL || strcmp(terminal, "dumb") != 0);
  return is_capable ? WEFT_PROGRESS_BAR : WEFT_PROGRESS_LINES;
}

/* "64", or "64:x+y". */
static bool read_batch(const char *text, weft_submit_spec_t *out) {
  weft_str_t number = weft_str(text), names;
  if (weft_str_split(weft_str(text), ':', &number, &names)) out->batch_names = names.data;
  return weft_str_to_i64(number, &out->options.batch) && out->options.batch > 0 &&
         (out->batch_names == NULL || *out->batch_names != '\0');
}

/* Seconds in 's', 'm', 'h'; 0: it is no unit. */
static double unit_seconds(char unit) { return unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0; }

/* Reads "30s", "10m", "2h"; "30" is seconds. False for other texts. */
static bool read_time(const char *text, double *out_seconds) {
  const size_t length = strlen(text);
  const double unit = length == 0 ? 0 : unit_seconds(text[length - 1]);
  const char *end = NULL;
  double n = 0;
  if (!weft_option_decimal(text, &n, &end)) return false;
  *out_seconds = unit > 0 ? n * unit : n;
  return end == text + length - (unit > 0) && *out_seconds < 1e9;
}

/* Reads "100", or a time with its unit. False for other texts, 0 included. */
static bool read_every(const char *text, int64_t *out_steps, double *out_seconds) {
  weft_str_t s = weft_str(text);
  if (s.length == 0) return false;
  if (unit_seconds(s.data[s.length - 1]) == 0) return weft_str_to_i64(s, out_steps) && *out_steps > 0;
  return read_time(text, out_seconds) && *out_seconds > 0;
}

/* What options of saving and logging need each other; NULL: all is well. */
static const char *options_trouble(const char *every, weft_submit_spec_t *s) {
  if (every != NULL && !read_every(every, &s->save_steps, &s->save_seconds))
    return "--save-every: give steps (100) or a time (30s, 10m, 2h)";
  if (s->save == NULL && every != NULL) return "--save-every needs --save PREFIX";
  if (s->save == NULL && s->resumes)
    return "--resume needs --save PREFIX, whose newest checkpoint it goes on from";
  const WEFT_JobLogOptions *log = &s->log_options;
  if (s->log == NULL && (s->hparams.n > 0 || log->profile_every > 0 || log->every > 1 || log->norms != 0))
    return "--log-every, --log-norms, --profile-every and --hparam need --logdir DIR";
  if (s->options.restore_partly != 0 && s->restore == NULL && !s->resumes)
    return "--restore-partly needs --restore PREFIX";
  return NULL;
}

/* Up to the first '=', where there is one. */
static weft_str_t name_of(const char *text) {
  weft_str_t name, rest;
  return weft_str_split(weft_str(text), '=', &name, &rest) ? name : weft_str(text);
}

/* The first of the texts that names no output; NULL: all do. */
static const char *misnamed(const weft_option_texts_t *texts) {
  for (int i = 0; i < texts->n; i++) {
    if (!weft_job_is_output_name(name_of(texts->items[i]))) return texts->items[i];
  }
  return NULL;
}

/* A signature's names may be any text; what the graph's are is told when it is read. Returns 0, or the exit
 * code after a complaint. */
static int check_names(const weft_submit_spec_t *s, const weft_command_line_t *line) {
  const struct {
    const char *option;
    const weft_option_texts_t *texts;
  } lists[] = {{"fetch", &s->fetches},
               {"save-fetch", &s->saves},
               {"feed", &s->feeds},
               {"evaluate-feed", &s->evaluate_feeds}};
  for (size_t i = 0; s->signature == NULL && i < sizeof lists / sizeof lists[0]; i++) {
    const char *text = misnamed(lists[i].texts);
    if (text != NULL)
      return weft_options_complain(line, "--%s %s: give NODE or NODE:OUTPUT, where OUTPUT is a number",
                                   lists[i].option, text);
  }
  return 0;
}

/* What is wrong with the file is told when it is run. */
bool weft_job_line_is_training(const weft_job_line_t *j, bool is_wanted) {
  weft_model_t model;
  weft_status_t *s = weft_model_open(j->spec.graph_path, j->spec.tags, &model);
  if (s == NULL) weft_model_choose_default(&model);
  const bool serves = s == NULL && model.folder != NULL &&
                      weft_meta_graph_signature(model.meta, WEFT_STR("serving_default")) != NULL;
  const bool is = s != NULL || (model.signature != NULL && (is_wanted || !serves));
  weft_status_free(s);
  weft_model_close(&model);
  return is;
}

int weft_job_line_check(weft_job_line_t *j, const weft_command_line_t *line) {
  weft_submit_spec_t *spec = &j->spec;
  spec->style = style_for(j->json);
  spec->options.seed = (uint64_t)j->seed;
  spec->options.keep = (int)j->keep;
  spec->options.shuffle = j->shuffle;
  spec->options.restore_partly = j->partly;
  if (j->batch != NULL && !read_batch(j->batch, spec))
    return weft_options_complain(line,
                                 "--batch %s: give a number of rows, 1 or more (64), and perhaps the feeds "
                                 "that have them (64:x+y)",
                                 j->batch);
  const weft_str_t unfed = weft_submit_unfed_rows(&spec->feeds, spec->batch_names);
  if (unfed.length > 0)
    return weft_options_complain(line, "--batch %s: there is no --feed %.*s=FILE.npy", j->batch,
                                 WEFT_STR_ARGS(unfed));
  const int code = check_names(spec, line);
  if (code != 0) return code;
  if (j->shuffle && j->batch == NULL && spec->data.n == 0)
    return weft_options_complain(line, "--shuffle needs --batch N: rows of batches are shuffled");
  int num_run = spec->fetches.n + spec->saves.n + spec->targets.n;
  spec->log_options.norms = j->norms;
  if (!read_time(j->wait, &spec->options.wait_seconds))
    return weft_options_complain(line, "--wait %s: give a time (30s, 2m), or 0", j->wait);
  const char *trouble = options_trouble(j->every, spec);
  if (trouble != NULL) return weft_options_complain(line, "%s", trouble);
  const bool names_nothing = num_run == 0 && spec->inits.n == 0 && spec->signature == NULL;
  const bool has_entry = names_nothing && weft_job_line_is_training(j, true);
  if (names_nothing && !has_entry && spec->restore == NULL)
    return weft_options_complain(line, "nothing to run: give --target, --fetch, --init or --signature");
  if (num_run == 0 && spec->signature == NULL && !has_entry) spec->steps = 0;
  return 0;
}

int weft_job_line_run(const weft_job_line_t *j) {
  int signal_number = 0;
  int code = weft_command_flush(weft_command_fail(weft_submit_run(&j->spec, &signal_number)));
  return code != 0 && signal_number != 0 ? 128 + signal_number : code; /* as a shell says it */
}

static void name_passes(weft_job_line_t *j) {
  weft_strbuf_puts(
      &j->passes_help,
      "Graph optimisation by these passes alone, or by all but -NAME (default: the master's, all):");
  for (int i = 0; i < WEFT_NUM_PASSES; i++) {
    weft_strbuf_printf(&j->passes_help, " %s,", weft_pass_name(i));
    weft_strbuf_printf(&j->passes, "%s ", weft_pass_name(i));
  }
  weft_strbuf_puts(&j->passes_help, " all, none");
  weft_strbuf_puts(&j->passes, "all none");
}

void weft_job_line_init(weft_job_line_t *j) {
  *j = (weft_job_line_t){
      .spec = {.steps = -1}, .seed = 1, .keep = 5, .wait = "30s", .strategies = WEFT_STRBUF_INIT};
  WEFT_InitJobOptions(&j->spec.options);
  WEFT_InitJobLogOptions(&j->spec.log_options);
  weft_strategy_names(&j->strategies);
  name_passes(j);
  const weft_option_t all[] = {
      {"master", "grpc://HOST:PORT", "The master that runs it (default: in this process)",
       .text = &j->spec.master, .check = weft_check_master},
      {"wait", "TIME", "Wait so long for a master that does not listen yet (default 30s; 0: not at all)",
       .text = &j->wait},
      {"feed", "NAME=VALUE", "Feed a scalar, or an array: NAME=FILE.npy. May be repeated",
       .texts = &j->spec.feeds, .kind = WEFT_VALUE_NAMED_FILE, .check = weft_check_feed, .names_once = true},
      {"batch", "N[:NAME+NAME]",
       "Feed N rows of the arrays (or of those feeds) at each step, the rest of them at an epoch's last",
       .text = &j->batch},
      {"shuffle", NULL, "Take the rows in a new order in each epoch", .flag = &j->shuffle},
      {"seed", "N", "Of the shuffling (default 1)", .number = &j->seed, .max = INT64_MAX},
      {"init", "NODE", "Run this node once before the steps. May be repeated: in that order",
       .texts = &j->spec.inits},
      {"target", "NODE", "Run this node at each step. May be repeated", .texts = &j->spec.targets},
      {"fetch", "NAME", "Fetch this tensor at each step and show it. May be repeated",
       .texts = &j->spec.fetches},
      {"signature", "NAME", "Of a SavedModel: names feeds and fetches; alone, it fetches all its outputs",
       .text = &j->spec.signature},
      {"tags", "TAG,TAG", "Which of a SavedModel's graphs (default: the only one, or serve)",
       .text = &j->spec.tags},
      {"steps", "N", "How many steps in all (default 1; a graph that reads its own data: to their end)",
       .number = &j->spec.steps, .max = INT64_MAX},
      {"save-fetch", "NAME=FILE.npy", "Fetch this tensor and save its last value. May be repeated",
       .texts = &j->spec.saves, .kind = WEFT_VALUE_NAMED_FILE, .check = weft_check_array},
      {"strategy", "NAME:OPTIONS",
       "Train in parallel: mirrored:4, parameter_server:mode=async, ... (`weft inspect --help` lists them)",
       .text = &j->spec.options.strategy, .words = j->strategies.data, .check = weft_check_strategy},
      {"passes", "NAME,-NAME", j->passes_help.failed ? "" : j->passes_help.data,
       .text = &j->spec.options.passes, .words = j->passes.data, .check = weft_check_passes},
      {"container", "NAME",
       "Keep variables, queues, tables in this container: jobs of one graph with different ones share "
       "nothing (default: the task's)",
       .text = &j->spec.options.container, .check = weft_check_container},
      {"restore", "PREFIX", "After --init, set the variables to a checkpoint's (a directory: its latest)",
       .text = &j->spec.restore, .kind = WEFT_VALUE_FILE},
      {"restore-partly", NULL, "Variables that the checkpoint lacks keep the values that --init gives them",
       .flag = &j->partly},
      {"save", "PREFIX", "Save all variables at the end as PREFIX-STEP, a checkpoint that TensorFlow reads",
       .text = &j->spec.save, .kind = WEFT_VALUE_FILE},
      {"save-every", "N|TIME", "Save after every N steps, or every 30s, 10m, 2h, as well", .text = &j->every},
      {"keep", "N", "How many checkpoints to keep (default 5; 0: all)", .number = &j->keep, .max = 1000000},
      {"resume", NULL, "Go on from the newest checkpoint of --save: variables, step, place in the data",
       .flag = &j->spec.resumes},
      {"trace", "FILE.json", "Write the last step's time line, for Perfetto or chrome://tracing",
       .text = &j->spec.options.trace, .kind = WEFT_VALUE_FILE},
      {"logdir", "DIR",
       "Write for TensorBoard: fetches, speed, graphs, hyperparameters (docs/tensorboard.md)",
       .text = &j->spec.log, .kind = WEFT_VALUE_FILE},
      {"log-every", "N", "Write to --logdir at every N-th step (default 1)",
       .number = &j->spec.log_options.every, .min = 1, .max = INT64_MAX},
      {"profile-every", "N", "Trace every N-th step for --logdir: times and memory of nodes",
       .number = &j->spec.log_options.profile_every, .max = INT64_MAX},
      {"log-norms", NULL, "Write norms of gradients and weights to --logdir", .flag = &j->norms},
      {"hparam", "NAME=VALUE", "A hyperparameter for --logdir. May be repeated", .texts = &j->spec.hparams,
       .check = weft_check_pair, .names_once = true},
      {"json", NULL,
       "One JSON object per line and step: step, steps, seconds, steps_per_second, fetches, done, ...; or "
       "step, "
       "steps, and saved, resumed or restored; docs/observing.md lists the keys",
       .flag = &j->json},
  };
  _Static_assert(sizeof all / sizeof all[0] <= WEFT_JOB_LINE_OPTIONS, "the table is too small");
  memcpy(j->options, all, sizeof all);
  j->num_options = sizeof all / sizeof all[0];
}

void weft_job_line_add(weft_job_line_t *j, const weft_option_t *options, int n) {
  for (int i = 0; i < n && j->num_options < WEFT_JOB_LINE_OPTIONS; i++)
    j->options[j->num_options++] = options[i];
}

void weft_job_line_deinit(weft_job_line_t *j) {
  weft_option_texts_t *const lists[] = {
      &j->spec.feeds,   &j->spec.inits,          &j->spec.targets, &j->spec.fetches,       &j->spec.saves,
      &j->spec.hparams, &j->spec.evaluate_feeds, &j->spec.data,    &j->spec.evaluate_data, &j->spec.columns};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) weft_texts_deinit(lists[i]);
  weft_strbuf_deinit(&j->strategies);
  weft_strbuf_deinit(&j->passes);
  weft_strbuf_deinit(&j->passes_help);
}
