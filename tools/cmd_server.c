/* tools/cmd_server.c - `weft server`: one task of a cluster, until SIGTERM or SIGINT.
 *
 * Standard output gets exactly one line, when the server listens; everything
 * else goes to standard error. The main thread waits for signals; they are
 * blocked before any other thread starts.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "server/server.h"
#include "tools/command.h"

typedef struct server_args {
  const char *cluster, *job, *host;
  int task, port, threads;
  bool has_task;
} server_args_t;

enum { OPT_CLUSTER = 1000, OPT_JOB, OPT_TASK, OPT_HOST, OPT_PORT, OPT_THREADS };

static const struct argp_option options[] = {
    {"cluster", OPT_CLUSTER, "SPEC", 0, "All tasks: \"ps=HOST:PORT;worker=HOST:PORT,HOST:PORT\". Default: TF_CONFIG", 0},
    {"job", OPT_JOB, "NAME", 0, "This task's job", 0},
    {"task", OPT_TASK, "N", 0, "This task's index in its job", 0},
    {"host", OPT_HOST, "ADDRESS", 0, "Listen on this address (default 127.0.0.1; 0.0.0.0 for all)", 0},
    {"port", OPT_PORT, "N", 0, "Listen on this port instead of the cluster's (0: any free one)", 0},
    {"threads", OPT_THREADS, "N", 0, "Compute threads (default: one per processor)", 0},
    {0},
};

static int number(struct argp_state *state, const char *text, const char *option, int64_t max) {
  int64_t value = 0;
  if (!weft_str_to_i64(weft_str(text), &value) || value < 0 || value > max) {
    argp_error(state, "--%s: '%s' is not a number from 0 to %lld", option, text, (long long)max);
  }
  return (int)value;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  server_args_t *a = state->input;
  switch (key) {
    case OPT_CLUSTER: a->cluster = arg; break;
    case OPT_JOB: a->job = arg; break;
    case OPT_HOST: a->host = arg; break;
    case OPT_PORT: a->port = number(state, arg, "port", 65535); break;
    case OPT_THREADS: a->threads = number(state, arg, "threads", 4096); break;
    case OPT_TASK:
      a->task = number(state, arg, "task", INT32_MAX);
      a->has_task = true;
      break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Runs one task of a cluster: its worker and a master.\v"
           "Prints `weft: listening on grpc://HOST:PORT` when ready. SIGTERM stops it within a second.\n\n"
           "Examples:\n"
           "  weft server --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221\" --job worker --task 0\n"
           "  TF_CONFIG='{\"cluster\":{\"worker\":[\"127.0.0.1:2221\"]},\"task\":{\"type\":\"worker\",\"index\":0}}' weft server",
};

/* The cluster and which task of it we are: from the options, else from TF_CONFIG. */
static weft_status_t *find_cluster(const server_args_t *a, weft_cluster_t *cluster, weft_str_t *job, int *task) {
  const char *config = getenv("TF_CONFIG");
  if (a->cluster != NULL) {
    WEFT_RETURN_IF_ERROR(weft_cluster_parse(weft_str(a->cluster), cluster));
  } else if (config != NULL) {
    WEFT_RETURN_IF_ERROR(weft_cluster_from_tf_config(weft_str(config), cluster, job, task));
  } else {
    return WEFT_ERROR(INVALID_ARGUMENT, "give --cluster, or set TF_CONFIG");
  }
  if (a->job != NULL) *job = weft_str(a->job);
  if (a->has_task) *task = a->task;
  if (job->length == 0) return WEFT_ERROR(INVALID_ARGUMENT, "give --job: which of the cluster's tasks is this?");
  return NULL;
}

static weft_status_t *serve(const server_args_t *a, const sigset_t *signals) {
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_server_t *server = NULL;
  weft_str_t job = {NULL, 0};
  int task = 0, signal_number = 0;
  weft_status_t *s = find_cluster(a, &cluster, &job, &task);
  if (s != NULL) goto done;
  weft_server_options_t o = {.cluster = &cluster, .job = job, .task = task, .host = a->host, .port = a->port,
                             .num_threads = a->threads};
  s = weft_server_create(&o, &server);
  if (s == NULL) s = weft_server_start(server);
  if (s != NULL) goto done;
  printf("weft: listening on %s\n", weft_server_target(server));
  fflush(stdout);
  sigwait(signals, &signal_number);
  weft_log(WEFT_LOG_INFO, "stopping: %s", strsignal(signal_number));
  weft_server_stop(server);
done:
  weft_server_destroy(server);
  weft_cluster_deinit(&cluster);
  return s;
}

int weft_command_server(int argc, char **argv) {
  server_args_t a = {.port = -1};
  argp_err_exit_status = WEFT_EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  return weft_command_fail(serve(&a, &signals));
}
