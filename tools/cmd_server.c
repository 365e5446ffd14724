/* tools/cmd_server.c - `weft server`: one task of a cluster, until SIGTERM or SIGINT.
 *
 * Standard output gets exactly one line, when the server listens; everything
 * else goes to standard error. The main thread waits for signals at a pipe: the
 * handler may run on any thread, as libraries start some before main() that
 * cannot be told to block signals.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "server/http_port.h"
#include "server/server.h"
#include "tools/command.h"
#include "tools/option_checks.h"
#include "tools/options.h"
#include "tools/server_place.h"

enum {
  DEFAULT_HEARTBEAT_MS = 1000, /* as the server's own */
  DEFAULT_GRACE_S = 60,
  MAX_PORT = 65535,
};

typedef struct server_args {
  weft_place_options_t place;
  const char *host, *leader;
  int64_t port, http, threads, cpus, heartbeat_ms, grace_s; /* port, http -1: not given */
} server_args_t;

static int signal_pipe[2]; /* constant once the handlers are installed */

static void on_signal(int number) {
  int saved = errno;
  unsigned char byte = (unsigned char)number;
  (void)!write(signal_pipe[1], &byte, 1);
  errno = saved;
}

static weft_status_t *catch_signals(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (pipe2(signal_pipe, O_CLOEXEC) != 0 || sigaction(SIGTERM, &action, NULL) != 0 ||
      sigaction(SIGINT, &action, NULL) != 0) {
    return WEFT_ERROR(INTERNAL, "cannot wait for signals: %s", strerror(errno));
  }
  return NULL;
}

/* The processes of Open MPI outlive an mpirun that is killed. A server ends when its parent does, as by
 * SIGTERM. */
static weft_status_t *end_with_parent(void) {
  pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    return WEFT_ERROR(INTERNAL, "cannot wait for the end of mpirun: %s", strerror(errno));
  if (getppid() != parent) raise(SIGTERM); /* it has ended meanwhile */
  return NULL;
}

static int wait_for_signal(void) {
  unsigned char byte = 0;
  while (read(signal_pipe[0], &byte, 1) < 0 && errno == EINTR) {
  }
  return byte;
}

/* In the pipe instead of a signal's number. */
enum { REPLACED = 0 };

static void on_replaced(void *arg, const weft_status_t *why) {
  unsigned char byte = REPLACED;
  *(weft_status_t **)arg = weft_status_clone(why);
  (void)!write(signal_pipe[1], &byte, 1);
}

/* ---- health and metrics ---- */

static weft_status_t *why_not_ready(void *server) { return weft_server_why_not_ready(server); }
static void write_metrics(void *server, weft_strbuf_t *out) { weft_server_write_metrics(server, out); }

/* A launcher gives the same port to all tasks of a host: each adds its index there. */
static weft_status_t *serve_http(const server_args_t *a, const char *host, int local, weft_server_t *server,
                                 weft_http_port_t **out) {
  const weft_http_answers_t answers = {why_not_ready, write_metrics, server};
  if (a->http < 0) return NULL;
  int64_t port = a->http == 0 ? 0 : a->http + local;
  if (port > MAX_PORT)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "task %d of this host has no port for --http %" PRId64 ": give a lower one", local,
                      a->http);
  WEFT_RETURN_IF_ERROR(weft_http_port_create(host, (int)port, &answers, out));
  weft_log(WEFT_LOG_INFO, "health and metrics: http://%s:%d/metrics", host, weft_http_port_number(*out));
  return NULL;
}

/* The other tasks look for this one where the cluster says. */
static void warn_of_loopback(const server_args_t *a, const weft_launch_t *place) {
  const weft_cluster_task_t *own = weft_cluster_find(&place->cluster, place->job, place->task);
  if (a->host != NULL || place->is_remote || place->cluster.num_tasks == 1 || own == NULL ||
      weft_str_starts_with(own->address, "127.") || weft_str_starts_with(own->address, "localhost:") ||
      weft_str_starts_with(own->address, "[::1]:"))
    return;
  weft_log(WEFT_LOG_WARNING,
           "listening on 127.0.0.1 alone, but the cluster has this task at %.*s: if other hosts have to "
           "reach it, give "
           "--host %.*s or 0.0.0.0",
           WEFT_STR_ARGS(own->address), (int)weft_str_rfind(own->address, ':'), own->address.data);
}

static weft_status_t *serve_place(const server_args_t *a, const weft_launch_t *place,
                                  weft_status_t **why_replaced) {
  weft_server_t *server = NULL;
  weft_http_port_t *http = NULL;
  const char *host = a->host != NULL ? a->host : place->is_remote ? "0.0.0.0" : "127.0.0.1";
  weft_server_options_t o = {.cluster = &place->cluster,
                             .job = place->job,
                             .task = place->task,
                             .host = host,
                             .port = (int)a->port,
                             .num_threads = (int)a->threads,
                             .num_cpus = (int)a->cpus,
                             .collective_leader = weft_str(a->leader == NULL ? "" : a->leader),
                             .client_grace_ms = a->grace_s == 0 ? -1 : a->grace_s * 1000,
                             .on_replaced = on_replaced,
                             .on_replaced_arg = why_replaced,
                             .heartbeat_ms = a->heartbeat_ms == 0 ? -1 : (int)a->heartbeat_ms};
  weft_status_t *s = weft_server_create(&o, &server);
  if (s == NULL) s = weft_server_start(server);
  if (s == NULL) s = serve_http(a, host, place->local, server, &http);
  if (s != NULL) goto done;
  warn_of_loopback(a, place);
  printf("weft: listening on %s\n", weft_server_target(server));
  if (fflush(stdout) != 0)
    weft_log(WEFT_LOG_WARNING, "standard output is closed; listening on %s", weft_server_target(server));
  int number = wait_for_signal();
  if (number != REPLACED) weft_log(WEFT_LOG_INFO, "stopping: %s", strsignal(number));
  weft_server_stop(server);
done:
  weft_http_port_destroy(http);
  weft_server_destroy(server);
  return s;
}

static weft_status_t *serve(const server_args_t *a, weft_status_t **why_replaced) {
  weft_launch_t place;
  WEFT_RETURN_IF_ERROR(weft_place_find(&a->place, &place));
  weft_status_t *s = catch_signals();
  if (s == NULL && a->place.is_started_by[WEFT_LAUNCHER_MPI]) s = end_with_parent();
  if (s == NULL && place.is_remote) {
    const weft_cluster_task_t *own = weft_cluster_find(&place.cluster, place.job, place.task);
    weft_log(WEFT_LOG_INFO, "task %d of job %.*s, at %.*s, of %d tasks", place.task, WEFT_STR_ARGS(place.job),
             WEFT_STR_ARGS(own->address), place.cluster.num_tasks);
  }
  if (s == NULL) s = serve_place(a, &place, why_replaced);
  weft_launch_deinit(&place);
  return s;
}

static weft_status_t *print_place(const weft_place_options_t *o) {
  weft_launch_t place;
  WEFT_RETURN_IF_ERROR(weft_place_find(o, &place));
  weft_status_t *s = weft_place_print(&place);
  weft_launch_deinit(&place);
  return s;
}

static const weft_help_item_t environment[] = {
    {"TF_CONFIG",
     "The cluster and the task, in TensorFlow's JSON, for what --cluster, --job and --task leave open"},
    {"WEFT_JOBS", "What --jobs says, if that is not given"},
    {"WEFT_SERVICE", "For --kubernetes: the headless Service of the pods"},
    {"WEFT_POD_NAME", "For --kubernetes: the name of the pod (default: HOSTNAME)"},
    {"WEFT_LOG_LEVEL", "The least that is logged: debug, info (default), warning or error"},
};

static const weft_help_item_t exit_codes[] = {
    {"3",
     "Another process runs as this task of the cluster, and has done so for two times the silence after "
     "which a task is lost (6 s), so that this one has left"},
};

static const char more[] =
    "Prints `weft: listening on grpc://HOST:PORT` when ready; logs go to standard error. SIGTERM and Ctrl-C\n"
    "stop it within a second.\n"
    "--slurm, --mpi and --kubernetes find cluster and task in the environment (docs/clusters.md). The tasks\n"
    "of a host listen on the ports from --port-base on, and serve HTTP on those from --http on. Unless all\n"
    "are on this host, they listen on all of its addresses: there is no authentication, so the network has\n"
    "to be one that you trust.\n";

static const char examples[] =
    "  weft server --cluster \"ps=127.0.0.1:2220;worker=127.0.0.1:2221\" --job worker --task 0\n"
    "  weft server --cluster \"worker=127.0.0.1:0\" --job worker --http 9100\n"
    "  TF_CONFIG='{\"cluster\": {\"worker\": [\"127.0.0.1:2222\"]}, \"task\": {\"type\": \"worker\", "
    "\"index\": 0}}' weft server\n"
    "  srun -n 3 weft server --slurm --jobs worker=2,ps=1\n"
    "  mpirun -n 3 weft server --mpi --jobs worker=2,ps=1\n"
    "  weft server --slurm --jobs worker=2,ps=1 --print-config\n";

int weft_command_server(int argc, char **argv) {
  server_args_t a = {.place = {.task = -1, .port_base = -1},
                     .port = -1,
                     .http = -1,
                     .cpus = 1,
                     .heartbeat_ms = DEFAULT_HEARTBEAT_MS,
                     .grace_s = DEFAULT_GRACE_S};
  int code;
  const weft_option_t options[] = {
      {"cluster", "SPEC", "All tasks: \"ps=HOST:PORT;worker=HOST:PORT,HOST:PORT\" (default: TF_CONFIG)",
       .text = &a.place.cluster, .check = weft_check_cluster},
      {"job", "NAME", "This task's job", .text = &a.place.job},
      {"task", "N", "This task's index in its job (default 0)", .number = &a.place.task, .max = INT32_MAX},
#define WEFT_LAUNCHER(id, name, find, text) \
  {name, NULL, text, .flag = &a.place.is_started_by[WEFT_LAUNCHER_##id]},
#include "server/launchers.def"
#undef WEFT_LAUNCHER
      {"jobs", "JOB=N,JOB=N",
       "Which jobs the launcher's processes are, in this order (default: WEFT_JOBS, else all are workers)",
       .text = &a.place.jobs},
      {"port-base", "N", "The port of a host's first task, for launchers (default 2222)",
       .number = &a.place.port_base, .min = 1, .max = MAX_PORT},
      {"print-config", NULL, "Print cluster and task as a value for TF_CONFIG, and end",
       .flag = &a.place.is_client},
      {"host", "ADDRESS",
       "Listen on this address (default 127.0.0.1, or 0.0.0.0, which is all, where a launcher has put tasks "
       "on other hosts)",
       .text = &a.host},
      {"port", "N", "Listen on this port instead of the cluster's (0: any free one)", .number = &a.port,
       .max = MAX_PORT},
      {"http", "N",
       "Serve /healthz, /readyz and /metrics (for Prometheus) by HTTP on this port (0: any free one)",
       .number = &a.http, .max = MAX_PORT},
      {"threads", "N", "Compute threads (default: one per processor)", .number = &a.threads, .max = 4096},
      {"collective-leader", "TASK",
       "The task that leads collective groups: \"/job:worker/task:0\" (default: the chief, else worker 0)",
       .text = &a.leader, .check = weft_check_task},
      {"cpus", "N", "Offer the devices CPU:0 to CPU:N-1 (default 1)", .number = &a.cpus, .min = 1,
       .max = 4096},
      {"heartbeat-ms", "N", "Send a heartbeat every N ms (default 1000; 0: never)", .number = &a.heartbeat_ms,
       .max = 3600000},
      {"client-grace", "SECONDS", "How long the sessions of a lost client are kept (default 60; 0: for ever)",
       .number = &a.grace_s, .max = 86400 * 365},
  };
  const weft_command_line_t line = {
      .command = "weft server",
      .about = "Runs one task of a cluster: its worker and a master.",
      .more = more,
      .environment = environment,
      .num_environment = sizeof environment / sizeof environment[0],
      .exit_codes = exit_codes,
      .num_exit_codes = sizeof exit_codes / sizeof exit_codes[0],
      .examples = examples,
      .options = options,
      .num_options = sizeof options / sizeof options[0],
  };
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  code = weft_place_complain(&a.place, &line);
  if (code != 0) return code;
  if (a.place.is_client) return weft_command_flush(weft_command_fail(print_place(&a.place)));
  weft_status_t *why_replaced = NULL, *s = serve(&a, &why_replaced);
  if (s != NULL || why_replaced == NULL) {
    weft_status_free(why_replaced);
    return weft_command_fail(s);
  }
  weft_command_fail(weft_status_prefix(why_replaced, "this process was replaced: "));
  return WEFT_EXIT_REPLACED;
}
