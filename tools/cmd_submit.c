/* tools/cmd_submit.c - `weft submit`: the command line of a job. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "tools/command.h"
#include "tools/submit/job.h"

enum { OPT_MASTER = 1000, OPT_FEED, OPT_BATCH, OPT_SHUFFLE, OPT_SEED, OPT_INIT, OPT_TARGET, OPT_FETCH, OPT_STEPS, OPT_SAVE, OPT_JSON };

static const struct argp_option options[] = {
    {"master", OPT_MASTER, "grpc://HOST:PORT", 0, "The master that runs it (default: in this process)", 0},
    {"feed", OPT_FEED, "NAME=VALUE", 0, "Feed a scalar, or an array: NAME=FILE.npy. May be repeated", 0},
    {"batch", OPT_BATCH, "N", 0, "Feed N rows of the arrays at each step", 0},
    {"shuffle", OPT_SHUFFLE, NULL, 0, "Take the rows in a new order each time through", 0},
    {"seed", OPT_SEED, "N", 0, "Of the shuffling (default 1)", 0},
    {"init", OPT_INIT, "NODE", 0, "Run this node once before the steps. May be repeated", 0},
    {"target", OPT_TARGET, "NODE", 0, "Run this node at each step. May be repeated", 0},
    {"fetch", OPT_FETCH, "NAME", 0, "Fetch this tensor at each step; scalars are shown. May be repeated", 0},
    {"steps", OPT_STEPS, "N", 0, "How many steps (default 1)", 0},
    {"save-fetch", OPT_SAVE, "NAME=FILE.npy", 0, "Save the last value of a fetch. May be repeated", 0},
    {"json", OPT_JSON, NULL, 0, "One JSON object per line: step, steps, seconds, steps_per_second, fetches, done", 0},
    {0},
};

/* Lists grow as the command line is read; it is short. */
static const char *const *append(struct argp_state *state, const char *const *list, int *n, const char *text) {
  const char **grown = weft_realloc((void *)(uintptr_t)list, (size_t)*n + 1, sizeof *grown);
  if (grown == NULL) argp_failure(state, WEFT_EXIT_FAILED, 0, "no memory");
  grown[(*n)++] = text;
  return grown;
}

static int64_t number(struct argp_state *state, const char *option, const char *text, int64_t min) {
  int64_t value = 0;
  if (!weft_str_to_i64(weft_str(text), &value) || value < min) {
    argp_error(state, "--%s: '%s' is not a number from %lld on", option, text, (long long)min);
  }
  return value;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  weft_job_spec_t *j = state->input;
  switch (key) {
    case OPT_MASTER: j->master = arg; break;
    case OPT_FEED: j->feeds = append(state, j->feeds, &j->num_feeds, arg); break;
    case OPT_INIT: j->inits = append(state, j->inits, &j->num_inits, arg); break;
    case OPT_TARGET: j->targets = append(state, j->targets, &j->num_targets, arg); break;
    case OPT_FETCH: j->fetches = append(state, j->fetches, &j->num_fetches, arg); break;
    case OPT_SAVE: j->saves = append(state, j->saves, &j->num_saves, arg); break;
    case OPT_BATCH: j->batch = number(state, "batch", arg, 1); break;
    case OPT_STEPS: j->steps = number(state, "steps", arg, 0); break;
    case OPT_SEED: j->seed = (uint64_t)number(state, "seed", arg, 0); break;
    case OPT_SHUFFLE: j->is_shuffled = true; break;
    case OPT_JSON: j->style = WEFT_PROGRESS_JSON; break;
    case ARGP_KEY_ARG:
      if (j->graph_path != NULL) argp_error(state, "give one GRAPH only");
      j->graph_path = arg;
      break;
    case ARGP_KEY_END:
      if (j->graph_path == NULL) argp_error(state, "which GRAPH? give a .pb or .pbtxt file");
      if (j->num_fetches + j->num_targets == 0 && j->num_inits == 0) {
        argp_error(state, "nothing to run: give --target, --fetch or --init");
      }
      if (j->num_fetches + j->num_targets == 0) j->steps = 0;
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "GRAPH",
    .doc = "Runs a graph file (.pb, or .pbtxt as text) step by step, on a cluster or in this process.\v"
           "Variables on a cluster live on after the run: a second run without --init goes on with them.\n\nExamples:\n"
           "  weft submit digits.pb --master grpc://127.0.0.1:2221 --init init --target train --fetch loss \\\n"
           "      --feed images=images.npy --feed labels=labels.npy --batch 64 --shuffle --steps 700\n"
           "  weft submit add.pbtxt --feed x=3 --fetch y",
};

int weft_command_submit(int argc, char **argv) {
  weft_job_spec_t j = {.steps = 1, .seed = 1, .style = isatty(STDOUT_FILENO) ? WEFT_PROGRESS_BAR : WEFT_PROGRESS_LINES};
  argp_err_exit_status = WEFT_EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, &j);
  int code = weft_command_fail(weft_job_run(&j));
  weft_free((void *)(uintptr_t)j.feeds);
  weft_free((void *)(uintptr_t)j.inits);
  weft_free((void *)(uintptr_t)j.targets);
  weft_free((void *)(uintptr_t)j.fetches);
  weft_free((void *)(uintptr_t)j.saves);
  return code;
}
