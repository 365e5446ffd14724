/* tools/cmd_run.c - `weft run`: a training file is trained on servers that are started for it, or on a
 * cluster that stands; a signature of a SavedModel is run once. */
#include <stdio.h>
#include <string.h>

#include "server/cluster.h"
#include "tools/command.h"
#include "tools/option_checks.h"
#include "tools/run/local_cluster.h"
#include "tools/submit/job_line.h"

enum { MAX_SERVERS = 256 };

typedef struct run_args {
  weft_job_line_t job;
  int64_t workers, ps, cpus; /* of the servers that are started, or of `cluster` */
  const char *cluster;
  char master[300]; /* of `cluster` */
} run_args_t;

static const char more[] =
    "A training file (docs/from_tensorflow.md) is trained: its entry `train` is run step by step, on servers "
    "of "
    "this\n"
    "host that --workers and --ps start and that end with the job, on those of --cluster or --master, or in "
    "this\n"
    "process. Without --strategy, several workers are replicas in step (multi_worker_mirrored), those of\n"
    "--cluster too, and with --ps, or tasks `ps` in --cluster, the variables are on servers\n"
    "(parameter_server:mode=sync); --master alone does not say which tasks there are, and its own task\n"
    "trains. --evaluate-every saves, and runs the "
    "entry\n"
    "`evaluate` on what was saved.\n"
    "Anything else is run once: a signature of a SavedModel. It is restored first: its variables, its "
    "tables. An\n"
    "input takes a value (3, [[1, 2], [3, 4]], a text, [\"a\", \"b\"]) or an array from a NumPy file; a "
    "single "
    "value for\n"
    "an input that is an array becomes one of one element. Variables and tables are this run's own.\n";

static const char examples[] =
    "  weft run model.pb --workers 2 --feed x=x.npy --feed y=y.npy --batch 64 --epochs 3 --save run/model\n"
    "  weft run model.pb --workers 2 --ps 1 --feed x=x.npy --feed y=y.npy --batch 64 --epochs 3 --save "
    "run/model "
    "\\\n"
    "      --evaluate-every 100 --evaluate-feed x=test_x.npy --evaluate-feed y=test_y.npy --logdir run/logs\n"
    "  weft run model.pb --workers 2 --data \"train-*.tfrecord\" --batch 128 --epochs 3 --shuffle --save "
    "run/model\n"
    "  weft run model.pb --data people.csv --columns x=age+income+height --columns y=spent --batch 32\n"
    "  weft run model_dir --feed x='[[1, 2, 3]]'\n"
    "  weft run model_dir --signature serving_default --feed x=x.npy --fetch y --json\n"
    "  weft run model_dir --signature echo --feed text='[\"the quick\", \"brown fox\"]'\n"
    "  weft inspect model_dir    # says which signatures there are, and what they take\n";

/* ---- where it runs ---- */

/* The master of a cluster is its chief's, else that of its first worker. Workers are counted, and the chief
 * is one.
 */
static weft_status_t *look_at_cluster(run_args_t *a) {
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = weft_cluster_parse(weft_str(a->cluster), &cluster);
  const weft_cluster_task_t *t = s == NULL ? weft_cluster_find(&cluster, WEFT_STR("chief"), 0) : NULL;
  if (s == NULL && t == NULL) t = weft_cluster_find(&cluster, WEFT_STR("worker"), 0);
  if (s == NULL && t == NULL)
    s = WEFT_ERROR(
        INVALID_ARGUMENT,
        "--cluster %s has neither a chief nor a worker 0, whose master could run it; give --master",
        a->cluster);
  if (s == NULL) snprintf(a->master, sizeof a->master, "grpc://%.*s", WEFT_STR_ARGS(t->address));
  for (int i = 0; s == NULL && i < cluster.num_tasks; i++) {
    const weft_str_t job = cluster.tasks[i].job;
    a->ps += weft_str_eq(job, WEFT_STR("ps"));
    a->workers += weft_str_eq(job, WEFT_STR("worker")) || weft_str_eq(job, WEFT_STR("chief"));
  }
  weft_cluster_deinit(&cluster);
  a->job.spec.master = a->master;
  return s;
}

/* Of a graph file, as `weft submit` takes it. */
static bool names_nodes(const run_args_t *a) { return a->job.spec.inits.n + a->job.spec.targets.n > 0; }

static void choose_strategy(run_args_t *a) {
  const char **strategy = &a->job.spec.options.strategy;
  if (*strategy != NULL) return;
  if (a->ps > 0) {
    *strategy = "parameter_server:mode=sync";
  } else if (a->workers > 1) {
    *strategy = "multi_worker_mirrored";
  }
}

static int train_on_servers(run_args_t *a) {
  weft_local_cluster_t *servers = NULL;
  const weft_local_cluster_options_t o = {
      .workers = a->workers > 0 ? (int)a->workers : 1, .ps = (int)a->ps, .cpus = (int)a->cpus};
  weft_status_t *s = weft_local_cluster_start(&o, &servers);
  if (s != NULL) return weft_command_fail(s);
  a->job.spec.master = weft_local_cluster_master(servers);
  int code = weft_job_line_run(&a->job);
  weft_local_cluster_stop(servers);
  return code;
}

/* What a cluster names: its master, and how many train. */
static int choose_cluster(run_args_t *a, const weft_command_line_t *line) {
  weft_submit_spec_t *j = &a->job.spec;
  if (a->workers + a->ps > 0 && (a->cluster != NULL || j->master != NULL))
    return weft_options_complain(line,
                                 "--workers and --ps start servers here; --cluster and --master name others");
  if (a->cluster != NULL && j->master != NULL)
    return weft_options_complain(line, "give --cluster or --master, not both");
  return a->cluster == NULL ? 0 : weft_command_fail(look_at_cluster(a));
}

/* What options of training need each other; NULL: all is well. */
static const char *options_trouble(const weft_submit_spec_t *j) {
  if (j->evaluate_every > 0 && j->save == NULL)
    return "--evaluate-every needs --save PREFIX: what was saved is evaluated";
  if (j->evaluate_feeds.n + j->evaluate_data.n > 0 && j->evaluate_every == 0)
    return "--evaluate-feed and --evaluate-data need --evaluate-every N";
  if (j->data.n + j->evaluate_data.n > 0 && j->options.batch == 0)
    return "--data needs --batch N: how many records make a step";
  if (j->columns.n > 0 && j->data.n + j->evaluate_data.n == 0)
    return "--columns needs --data or --evaluate-data, whose fields it names";
  if ((j->data.n > 0 && j->feeds.n > 0) || (j->evaluate_data.n > 0 && j->evaluate_feeds.n > 0))
    return "inputs are fed or read from --data, not both";
  if (j->steps >= 0 && j->epochs > 0 && j->data.n == 0)
    return "--steps and --epochs both say when the job ends; give one";
  return NULL;
}

/* The entry is named even if other nodes are fetched beside its outputs. */
static void choose_entry(run_args_t *a) {
  weft_submit_spec_t *j = &a->job.spec;
  if (j->signature == NULL && !names_nodes(a) && weft_job_line_is_training(&a->job, true))
    j->signature = "train";
}

static int train(run_args_t *a, const weft_command_line_t *line) {
  weft_submit_spec_t *j = &a->job.spec;
  const bool starts = a->workers + a->ps > 0;
  const int code = choose_cluster(a, line);
  const char *trouble = code == 0 ? options_trouble(j) : NULL;
  if (trouble != NULL) return weft_options_complain(line, "%s", trouble);
  if (code != 0) return code;
  if (j->steps < 0 && j->epochs == 0 && j->feeds.n > 0 && j->options.batch > 0) j->epochs = 1;
  choose_entry(a);
  choose_strategy(a);
  return starts ? train_on_servers(a) : weft_job_line_run(&a->job);
}

/* ---- once ---- */

static int run_once(run_args_t *a, const weft_command_line_t *line) {
  weft_submit_spec_t *j = &a->job.spec;
  const int code = choose_cluster(a, line);
  if (code != 0) return code;
  if (j->signature == NULL) j->signature = "serving_default";
  if (j->steps < 0) j->steps = 1;
  j->is_isolated = true;
  j->style = a->job.json ? WEFT_PROGRESS_VALUES_JSON : WEFT_PROGRESS_VALUES;
  return weft_job_line_run(&a->job);
}

/* ---- which of both ---- */

static bool is_once(const run_args_t *a, bool is_wanted) {
  const char *signature = a->job.spec.signature;
  if (signature != NULL)
    return !is_wanted || strcmp(signature, "train") != 0 || !weft_job_line_is_training(&a->job, true);
  return !names_nodes(a) && !weft_job_line_is_training(&a->job, is_wanted);
}

static int complain_of_training(const run_args_t *a, const weft_command_line_t *line) {
  const weft_submit_spec_t *j = &a->job.spec;
  if (weft_job_line_is_training(&a->job, true))
    return weft_options_complain(line,
                                 "--signature %s is run once; --workers, --ps, --epochs and --evaluate-every "
                                 "are for the entry 'train' of %s",
                                 j->signature, j->graph_path);
  return weft_options_complain(
      line, "%s is no training file, which --workers, --ps, --epochs and --evaluate-every are for",
      j->graph_path);
}

static int run(run_args_t *a, const weft_command_line_t *line) {
  weft_submit_spec_t *j = &a->job.spec;
  const bool is_wanted = a->workers + a->ps + j->epochs + j->evaluate_every > 0;
  const bool runs_once = is_once(a, is_wanted);
  if (runs_once && is_wanted) return complain_of_training(a, line);
  if (runs_once && j->signature == NULL) j->signature = "serving_default";
  const int code = weft_job_line_check(&a->job, line);
  if (code != 0) return code;
  return runs_once ? run_once(a, line) : train(a, line);
}

int weft_command_run(int argc, char **argv) {
  static run_args_t a; /* options point into it */
  a = (run_args_t){.cpus = 1};
  weft_job_line_init(&a.job);
  const weft_option_t own[] = {
      {"workers", "N", "Start N servers on this host as workers", .number = &a.workers, .max = MAX_SERVERS},
      {"ps", "N", "Start N servers on this host for variables", .number = &a.ps, .max = MAX_SERVERS},
      {"cpus", "N", "CPU devices of each server that is started (default 1)", .number = &a.cpus, .min = 1,
       .max = 4096},
      {"cluster", "SPEC", "Train on this cluster, which stands: \"worker=HOST:PORT,HOST:PORT\"",
       .text = &a.cluster, .check = weft_check_cluster},
      {"epochs", "N", "Go N times through the data (default 1), instead of --steps",
       .number = &a.job.spec.epochs, .min = 1, .max = INT64_MAX},
      {"data", "FILES",
       "Read the inputs from files: TFRecords of Examples, or CSV; a folder or a pattern. May be repeated",
       .texts = &a.job.spec.data, .kind = WEFT_VALUE_FILE},
      {"columns", "INPUT=NAME+NAME",
       "Features or columns of --data for an input of another name. May be repeated",
       .texts = &a.job.spec.columns, .check = weft_check_columns, .names_once = true},
      {"evaluate-data", "FILES", "The same as --data, when evaluating", .texts = &a.job.spec.evaluate_data,
       .kind = WEFT_VALUE_FILE},
      {"evaluate-every", "N", "Evaluate after every N steps, and at the end",
       .number = &a.job.spec.evaluate_every, .min = 1, .max = INT64_MAX},
      {"evaluate-feed", "NAME=VALUE", "Feed this when evaluating. May be repeated",
       .texts = &a.job.spec.evaluate_feeds, .kind = WEFT_VALUE_NAMED_FILE, .check = weft_check_feed,
       .names_once = true},
  };
  weft_job_line_add(&a.job, own, sizeof own / sizeof own[0]);
  const weft_command_line_t line = {
      .command = "weft run",
      .about =
          "Trains a training file, or a graph file whose --init and --target are named, with servers of its "
          "own if "
          "one likes; or runs a signature of a SavedModel once and shows its outputs.",
      .more = more,
      .examples = examples,
      .options = a.job.options,
      .num_options = a.job.num_options,
      .argument_name = "MODEL",
      .argument = &a.job.spec.graph_path,
      .argument_is_missing = "which MODEL? give a training file, or the folder that has saved_model.pb",
      .argument_kind = WEFT_VALUE_FILE,
      .exit_codes = weft_submit_exit_codes,
      .num_exit_codes = weft_submit_num_exit_codes,
  };
  int code;
  if (weft_options_read(&line, argc, argv, &code)) code = run(&a, &line);
  weft_job_line_deinit(&a.job);
  return code;
}
