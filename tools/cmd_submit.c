/* tools/cmd_submit.c - `weft submit`: the command line of a job. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "tools/command.h"
#include "tools/model.h"
#include "tools/options.h"
#include "tools/strategy/names.h"
#include "tools/submit/submit.h"

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

/* Reads "100", "30s", "10m", "2h". False for other texts, 0 included. */
static bool read_every(const char *text, int64_t *out_steps, double *out_seconds) {
  weft_str_t s = weft_str(text);
  double unit = 0;
  if (s.length == 0) return false;
  switch (s.data[s.length - 1]) {
    case 's': unit = 1; break;
    case 'm': unit = 60; break;
    case 'h': unit = 3600; break;
    default: return weft_str_to_i64(s, out_steps) && *out_steps > 0;
  }
  char *end = NULL;
  double n = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : 0;
  *out_seconds = n * unit;
  return end == text + s.length - 1 && *out_seconds > 0 && *out_seconds < 1e9;
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

/* Does the file say itself what a step runs? What is wrong with it is told when it is run. */
static bool is_training_file(const weft_submit_spec_t *j) {
  weft_model_t model;
  weft_status_t *s = weft_model_open(j->graph_path, j->tags, &model);
  if (s == NULL) weft_model_choose_default(&model);
  const bool is = s != NULL || model.signature != NULL;
  weft_status_free(s);
  weft_model_close(&model);
  return is;
}

/* What the specification has in another form. */
typedef struct submit_words {
  bool json, shuffle, partly, norms;
  int64_t seed, keep;
  const char *batch, *every;
} submit_words_t;

static int run(const weft_command_line_t *line, const submit_words_t *w, weft_submit_spec_t *j) {
  j->style = style_for(w->json);
  j->options.seed = (uint64_t)w->seed;
  j->options.keep = (int)w->keep;
  j->options.shuffle = w->shuffle;
  j->options.restore_partly = w->partly;
  if (w->batch != NULL && !read_batch(w->batch, j))
    return weft_options_complain(line,
                                 "--batch %s: give a number of rows, 1 or more (64), and perhaps the feeds "
                                 "that have them (64:x+y)",
                                 w->batch);
  int num_run = j->fetches.n + j->saves.n + j->targets.n;
  j->log_options.norms = w->norms;
  const char *trouble = options_trouble(w->every, j);
  if (trouble != NULL) return weft_options_complain(line, "%s", trouble);
  const bool names_nothing = num_run == 0 && j->inits.n == 0 && j->signature == NULL;
  const bool has_entry = names_nothing && is_training_file(j);
  if (names_nothing && !has_entry && j->restore == NULL)
    return weft_options_complain(line, "nothing to run: give --target, --fetch, --init or --signature");
  if (num_run == 0 && j->signature == NULL && !has_entry) j->steps = 0;
  int signal_number = 0;
  int code = weft_command_flush(weft_command_fail(weft_submit_run(j, &signal_number)));
  return code != 0 && signal_number != 0 ? 128 + signal_number : code; /* as a shell says it */
}

static const char more[] =
    "NAME is NODE or NODE:OUTPUT. Variables on a cluster live on after the run: a second run without --init "
    "goes\n"
    "on with them, in the same --container; with --init it starts as on fresh servers. Ctrl-C cancels\n"
    "the step, also on the cluster. Checkpoints are read and written by this process and\n"
    "do not depend on the strategy: train with one, go on with another (docs/saving.md).\n";

static const char examples[] =
    "  weft submit digits.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss \\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --shuffle --steps 700\n"
    "  weft submit digits.pb --strategy mirrored:2 --init init --target train --fetch loss --trace step.json "
    "\\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --steps 700\n"
    "  weft submit digits.pb --strategy mirrored:2 --init init --target train --fetch loss --steps 5000 \\\n"
    "      --feed images=images.npy --feed labels=labels.npy --batch 64 --save run/digits --resume\n"
    "  weft submit digits.pb --restore run/digits-5000 --feed images=test.npy --save-fetch "
    "predictions=out.npy\n"
    "  weft submit model.pb --feed x=x.npy --feed y=y.npy --batch 64 --steps 1000     (a file of "
    "weft_export)\n"
    "  weft submit model_dir --signature train --strategy mirrored:2 --feed x=x.npy --feed y=y.npy \\\n"
    "      --batch 64 --steps 1000 --save run/model\n"
    "  weft submit add.pbtxt --feed x=3 --feed y=-0.5 --fetch sum\n"
    "  weft submit model.pb --feed x=x.npy --save-fetch y=y.npy --json\n";

static void spec_deinit(weft_submit_spec_t *j) {
  weft_texts_deinit(&j->feeds);
  weft_texts_deinit(&j->inits);
  weft_texts_deinit(&j->targets);
  weft_texts_deinit(&j->fetches);
  weft_texts_deinit(&j->saves);
  weft_texts_deinit(&j->hparams);
}

static int read_and_run(const weft_option_t *options, int num_options, int argc, char **argv,
                        submit_words_t *w, weft_submit_spec_t *j) {
  int code;
  const weft_command_line_t line = {
      .command = "weft submit",
      .about =
          "Runs a graph file (.pb, .pbtxt), a meta graph or the folder of a SavedModel step by step, on a "
          "cluster or in this process.",
      .more = more,
      .examples = examples,
      .options = options,
      .num_options = num_options,
      .argument_name = "GRAPH",
      .argument = &j->graph_path,
      .argument_is_missing = "which GRAPH? give a .pb or .pbtxt file, or the folder of a SavedModel",
      .argument_kind = WEFT_VALUE_FILE,
      .exit_codes = weft_submit_exit_codes,
      .num_exit_codes = weft_submit_num_exit_codes,
  };
  WEFT_InitJobOptions(&j->options);
  WEFT_InitJobLogOptions(&j->log_options);
  if (weft_options_read(&line, argc, argv, &code)) code = run(&line, w, j);
  return code;
}

int weft_command_submit(int argc, char **argv) {
  weft_submit_spec_t j = {.steps = -1};
  submit_words_t w = {.seed = 1, .keep = 5};
  weft_strbuf_t strategies = WEFT_STRBUF_INIT;
  weft_strategy_names(&strategies);
  const weft_option_t options[] = {
      {"master", "grpc://HOST:PORT", "The master that runs it (default: in this process)", .text = &j.master},
      {"feed", "NAME=VALUE", "Feed a scalar, or an array: NAME=FILE.npy. May be repeated", .texts = &j.feeds,
       .kind = WEFT_VALUE_NAMED_FILE},
      {"batch", "N[:NAME+NAME]",
       "Feed N rows of the arrays (or of those feeds) at each step, the rest of them at an epoch's last",
       .text = &w.batch},
      {"shuffle", NULL, "Take the rows in a new order in each epoch", .flag = &w.shuffle},
      {"seed", "N", "Of the shuffling (default 1)", .number = &w.seed, .max = INT64_MAX},
      {"init", "NODE", "Run this node once before the steps. May be repeated: in that order",
       .texts = &j.inits},
      {"target", "NODE", "Run this node at each step. May be repeated", .texts = &j.targets},
      {"fetch", "NAME", "Fetch this tensor at each step and show it. May be repeated", .texts = &j.fetches},
      {"signature", "NAME", "Of a SavedModel: names feeds and fetches; alone, it fetches all its outputs",
       .text = &j.signature},
      {"tags", "TAG,TAG", "Which of a SavedModel's graphs (default: the only one, or serve)",
       .text = &j.tags},
      {"steps", "N", "How many steps in all (default 1; a graph that reads its own data: to their end)",
       .number = &j.steps, .max = INT64_MAX},
      {"save-fetch", "NAME=FILE.npy", "Fetch this tensor and save its last value. May be repeated",
       .texts = &j.saves, .kind = WEFT_VALUE_NAMED_FILE},
      {"strategy", "NAME:OPTIONS",
       "Train in parallel: mirrored:4, parameter_server:mode=async, ... (`weft inspect --help` lists them)",
       .text = &j.options.strategy, .words = strategies.data},
      {"container", "NAME",
       "Keep variables, queues, tables in this container: jobs of one graph with different ones share "
       "nothing (default: the task's)",
       .text = &j.options.container},
      {"restore", "PREFIX", "After --init, set the variables to a checkpoint's (a directory: its latest)",
       .text = &j.restore, .kind = WEFT_VALUE_FILE},
      {"restore-partly", NULL, "Variables that the checkpoint lacks keep the values that --init gives them",
       .flag = &w.partly},
      {"save", "PREFIX", "Save all variables at the end as PREFIX-STEP, a checkpoint that TensorFlow reads",
       .text = &j.save, .kind = WEFT_VALUE_FILE},
      {"save-every", "N|TIME", "Save after every N steps, or every 30s, 10m, 2h, as well", .text = &w.every},
      {"keep", "N", "How many checkpoints to keep (default 5; 0: all)", .number = &w.keep, .max = 1000000},
      {"resume", NULL, "Go on from the newest checkpoint of --save: variables, step, place in the data",
       .flag = &j.resumes},
      {"trace", "FILE.json", "Write the last step's time line, for Perfetto or chrome://tracing",
       .text = &j.options.trace, .kind = WEFT_VALUE_FILE},
      {"logdir", "DIR",
       "Write for TensorBoard: fetches, speed, graphs, hyperparameters (docs/tensorboard.md)", .text = &j.log,
       .kind = WEFT_VALUE_FILE},
      {"log-every", "N", "Write to --logdir at every N-th step (default 1)", .number = &j.log_options.every,
       .max = INT64_MAX},
      {"profile-every", "N", "Trace every N-th step for --logdir: times and memory of nodes",
       .number = &j.log_options.profile_every, .max = INT64_MAX},
      {"log-norms", NULL, "Write norms of gradients and weights to --logdir", .flag = &w.norms},
      {"hparam", "NAME=VALUE", "A hyperparameter for --logdir. May be repeated", .texts = &j.hparams},
      {"json", NULL,
       "One JSON object per line and step: step, steps, seconds, steps_per_second, fetches, done; or step, "
       "steps, and saved, resumed or restored; the last has input (docs/strategies.md)",
       .flag = &w.json},
  };
  int code = read_and_run(options, sizeof options / sizeof options[0], argc, argv, &w, &j);
  weft_strbuf_deinit(&strategies);
  spec_deinit(&j);
  return code;
}
