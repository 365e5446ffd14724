/* tools/run/local_cluster.c - processes, their ports, their first lines and their ends. */
#define _GNU_SOURCE
#include "tools/run/local_cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

enum { START_MS = 30000, STOP_MS = 3000, LINE = 256, ATTEMPTS = 3 };

typedef struct local_server {
  const char *job; /* static */
  int task, port;
  pid_t pid; /* 0: not started, or its end was seen */
  int out;   /* its standard output; -1: closed */
  char *log; /* path; owned */
  bool listens;
} local_server_t;

struct weft_local_cluster {
  local_server_t *servers;
  int n, cpus;
  char *spec;      /* "ps=127.0.0.1:1;worker=127.0.0.1:2"; owned */
  char master[40]; /* of worker 0 */
  char *logs;      /* directory of the logs; owned; NULL: none was made */
  bool has_failed; /* the logs stay */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("servers of this host"); }

static weft_status_t *failed(const char *what) {
  return WEFT_ERROR(INTERNAL, "%s: %s", what, strerror(errno));
}

/* ---- ports ---- */

/* A port that is free now: all are held until each server has one. */
static weft_status_t *hold_port(int *out_socket, int *out_port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  *out_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (*out_socket < 0) return failed("cannot look for a free port");
  if (bind(*out_socket, (struct sockaddr *)&address, sizeof address) != 0 ||
      getsockname(*out_socket, (struct sockaddr *)&address, &length) != 0)
    return failed("cannot look for a free port");
  *out_port = ntohs(address.sin_port);
  return NULL;
}

static weft_status_t *choose_ports(weft_local_cluster_t *c) {
  int *sockets = weft_calloc((size_t)c->n + 1, sizeof *sockets), n = 0;
  if (sockets == NULL) return no_memory();
  weft_status_t *s = NULL;
  for (; s == NULL && n < c->n; n++) s = hold_port(&sockets[n], &c->servers[n].port);
  for (int i = 0; i < n; i++) {
    if (sockets[i] >= 0) close(sockets[i]);
  }
  weft_free(sockets);
  return s;
}

static weft_status_t *describe(weft_local_cluster_t *c) {
  weft_strbuf_t spec = WEFT_STRBUF_INIT;
  for (int i = 0; i < c->n; i++) {
    const local_server_t *v = &c->servers[i];
    if (v->task == 0) weft_strbuf_printf(&spec, "%s%s=", i > 0 ? ";" : "", v->job);
    weft_strbuf_printf(&spec, "%s127.0.0.1:%d", v->task > 0 ? "," : "", v->port);
    if (v->task == 0 && strcmp(v->job, "worker") == 0)
      snprintf(c->master, sizeof c->master, "grpc://127.0.0.1:%d", v->port);
  }
  weft_free(c->spec);
  c->spec = spec.failed ? NULL : weft_strndup(spec.data, spec.length);
  weft_strbuf_deinit(&spec);
  return c->spec == NULL ? no_memory() : NULL;
}

/* ---- processes ---- */

/* In the child, which may call little between fork and exec. */
static void become_server(char *const *argv, pid_t parent, int out, int log) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it has ended meanwhile; which process takes orphans is not known */
  dup2(out, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

static weft_status_t *launch(weft_local_cluster_t *c, local_server_t *v) {
  char task[16], cpus[16];
  snprintf(task, sizeof task, "%d", v->task);
  snprintf(cpus, sizeof cpus, "%d", c->cpus);
  char *argv[] = {"weft",   "server", "--cluster", c->spec, "--job", (char *)(uintptr_t)v->job,
                  "--task", task,     "--cpus",    cpus,    NULL};
  int ends[2], log = open(v->log, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (log < 0) return failed(v->log);
  if (pipe2(ends, O_CLOEXEC) != 0) {
    close(log);
    return failed("cannot start a server");
  }
  fflush(NULL);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become_server(argv, parent, ends[1], log);
  close(log);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return failed("cannot start a server");
  }
  v->pid = pid;
  v->out = ends[0];
  return NULL;
}

/* The last line of a server's log, or what it ended with. */
static weft_status_t *ended(weft_local_cluster_t *c, local_server_t *v) {
  char line[LINE] = "", last[LINE] = "";
  int state = 0;
  if (v->pid != 0) waitpid(v->pid, &state, 0);
  v->pid = 0;
  c->has_failed = true;
  FILE *log = fopen(v->log, "re");
  while (log != NULL && fgets(line, sizeof line, log) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0') memcpy(last, line, sizeof last);
  }
  if (log != NULL) fclose(log);
  return WEFT_ERROR(UNAVAILABLE, "the server of %s %d ended before it listened: %s (its log: %s)", v->job,
                    v->task, last[0] == '\0' ? "it said nothing" : last, v->log);
}

/* A line of its standard output says that it listens. */
static weft_status_t *hear(weft_local_cluster_t *c, local_server_t *v) {
  char text[LINE];
  const ssize_t n = read(v->out, text, sizeof text - 1);
  if (n < 0 && errno == EINTR) return NULL;
  if (n <= 0) return ended(c, v);
  text[n] = '\0';
  v->listens = v->listens || strstr(text, "listening on") != NULL;
  return NULL;
}

static weft_status_t *wait_for_all(weft_local_cluster_t *c) {
  const int64_t deadline = weft_clock_deadline_ns(START_MS);
  struct pollfd *polled = weft_calloc((size_t)c->n + 1, sizeof *polled);
  if (polled == NULL) return no_memory();
  weft_status_t *s = NULL;
  for (;;) {
    int waiting = 0, first = 0;
    for (int i = 0; i < c->n; i++) {
      polled[i] = (struct pollfd){.fd = c->servers[i].listens ? -1 : c->servers[i].out, .events = POLLIN};
      if (!c->servers[i].listens && waiting++ == 0) first = i;
    }
    const int64_t left_ms = (deadline - weft_clock_ns()) / 1000000;
    if (waiting == 0) break;
    if (left_ms <= 0) {
      c->has_failed = true;
      s = WEFT_ERROR(UNAVAILABLE, "the server of %s %d does not listen within %d s (its log: %s)",
                     c->servers[first].job, c->servers[first].task, START_MS / 1000, c->servers[first].log);
      break;
    }
    if (poll(polled, (nfds_t)c->n, (int)left_ms) < 0 && errno != EINTR) s = failed("cannot wait for servers");
    for (int i = 0; s == NULL && i < c->n; i++) {
      if (polled[i].fd >= 0 && polled[i].revents != 0) s = hear(c, &c->servers[i]);
    }
    if (s != NULL) break;
  }
  weft_free(polled);
  return s;
}

static void signal_all(const weft_local_cluster_t *c, int number) {
  for (int i = 0; i < c->n; i++) {
    if (c->servers[i].pid != 0) kill(c->servers[i].pid, number);
  }
}

/* A server's standard output ends with it. False: not all have ended in time. */
static bool wait_for_ends(weft_local_cluster_t *c, int64_t deadline) {
  struct pollfd *polled = weft_calloc((size_t)c->n + 1, sizeof *polled);
  char rest[LINE];
  int left = polled == NULL ? 0 : 1;
  while (left > 0) {
    left = 0;
    for (int i = 0; i < c->n; i++) {
      polled[i] = (struct pollfd){.fd = c->servers[i].out, .events = POLLIN};
      if (c->servers[i].out >= 0) left++;
    }
    const int64_t left_ms = (deadline - weft_clock_ns()) / 1000000;
    if (left == 0 || left_ms <= 0) break;
    if (poll(polled, (nfds_t)c->n, (int)left_ms) < 0 && errno != EINTR) break;
    for (int i = 0; i < c->n; i++) {
      if (polled[i].fd < 0 || polled[i].revents == 0 || read(polled[i].fd, rest, sizeof rest) > 0) continue;
      close(polled[i].fd);
      c->servers[i].out = -1;
    }
  }
  weft_free(polled);
  return left == 0;
}

static void stop_servers(weft_local_cluster_t *c) {
  signal_all(c, SIGTERM);
  if (!wait_for_ends(c, weft_clock_deadline_ns(STOP_MS))) signal_all(c, SIGKILL);
  for (int i = 0; i < c->n; i++) {
    local_server_t *v = &c->servers[i];
    if (v->pid != 0) waitpid(v->pid, NULL, 0);
    if (v->out >= 0) close(v->out);
    v->pid = 0;
    v->out = -1;
    v->listens = false;
  }
}

/* ---- a cluster ---- */

/* A text of its own. */
static WEFT_PRINTF(2, 3) weft_status_t *print(char **out, const char *fmt, ...) {
  va_list args;
  char none;
  va_start(args, fmt);
  const int n = vsnprintf(&none, 1, fmt, args);
  va_end(args);
  *out = weft_malloc((size_t)n + 1);
  if (*out == NULL) return no_memory();
  va_start(args, fmt);
  vsnprintf(*out, (size_t)n + 1, fmt, args);
  va_end(args);
  return NULL;
}

static weft_status_t *create(const weft_local_cluster_options_t *o, weft_local_cluster_t **out) {
  weft_local_cluster_t *c = *out = weft_calloc(1, sizeof *c);
  if (c == NULL) return no_memory();
  c->cpus = o->cpus;
  c->servers = weft_calloc((size_t)(o->ps + o->workers) + 1, sizeof *c->servers);
  if (c->servers == NULL) return no_memory();
  const char *directory = getenv("TMPDIR");
  WEFT_RETURN_IF_ERROR(print(&c->logs, "%s/weft-run.XXXXXX", directory != NULL ? directory : "/tmp"));
  if (mkdtemp(c->logs) == NULL) {
    weft_status_t *s = failed(c->logs);
    weft_free(c->logs);
    c->logs = NULL;
    return s;
  }
  for (; c->n < o->ps + o->workers; c->n++) {
    local_server_t *v = &c->servers[c->n];
    const bool is_ps = c->n < o->ps;
    *v = (local_server_t){.job = is_ps ? "ps" : "worker", .task = is_ps ? c->n : c->n - o->ps, .out = -1};
    WEFT_RETURN_IF_ERROR(print(&v->log, "%s/%s-%d.log", c->logs, v->job, v->task));
  }
  return NULL;
}

static weft_status_t *start(weft_local_cluster_t *c) {
  c->has_failed = false;
  weft_status_t *s = choose_ports(c);
  if (s == NULL) s = describe(c);
  for (int i = 0; s == NULL && i < c->n; i++) s = launch(c, &c->servers[i]);
  return s == NULL ? wait_for_all(c) : s;
}

weft_status_t *weft_local_cluster_start(const weft_local_cluster_options_t *o, weft_local_cluster_t **out) {
  weft_status_t *s = create(o, out);
  for (int i = 0; s == NULL && i < ATTEMPTS; i++) { /* another process may take a port meanwhile */
    s = start(*out);
    if (s == NULL) return NULL;
    stop_servers(*out);
    const bool again = weft_status_code(s) == WEFT_UNAVAILABLE && i + 1 < ATTEMPTS &&
                       strstr(weft_status_message(s), "in use") != NULL;
    if (!again) break;
    weft_status_free(s);
    s = NULL;
  }
  weft_local_cluster_stop(*out);
  *out = NULL;
  return s;
}

const char *weft_local_cluster_master(const weft_local_cluster_t *c) { return c->master; }

void weft_local_cluster_stop(weft_local_cluster_t *c) {
  if (c == NULL) return;
  stop_servers(c);
  for (int i = 0; i < c->n; i++) {
    if (c->servers[i].log != NULL && !c->has_failed) unlink(c->servers[i].log);
    weft_free(c->servers[i].log);
  }
  if (c->logs != NULL && !c->has_failed) rmdir(c->logs);
  weft_free(c->logs);
  weft_free(c->servers);
  weft_free(c->spec);
  weft_free(c);
}
