#define _GNU_SOURCE
#include "tests/cluster/server_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/pace.h"
#include "tests/runner.h"

enum { MAX_ARGUMENTS = 30, START_TIMEOUT_MS = 60000, END_TIMEOUT_MS = 30000 };

/* The environment and one more. The array is the caller's to free. */
static char **extended(const char *more) {
  size_t n = 0;
  while (environ[n] != NULL) n++;
  char **all = weft_calloc(n + 2, sizeof *all);
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  memcpy(all, environ, n * sizeof *all);
  all[n] = (char *)(uintptr_t)more;
  return all;
}

void weft_test_process_start(weft_test_process_t *p, const char *const *arguments, const char *environment) {
  const char *weft = getenv("WEFT");
  if (weft == NULL) weft = "tools/weft";
  char *argv[MAX_ARGUMENTS + 2] = {(char *)(uintptr_t)weft};
  int out[2], err[2];
  for (int i = 0; i < MAX_ARGUMENTS && arguments[i] != NULL; i++)
    argv[i + 1] = (char *)(uintptr_t)arguments[i];
  *p = (weft_test_process_t){.pid = 0};
  bool ok = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
  CU_ASSERT_TRUE_FATAL(ok);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  char **all = extended(environment);
  int rc = posix_spawn(&p->pid, weft, &actions, NULL, argv, all);
  posix_spawn_file_actions_destroy(&actions);
  weft_free(all);
  close(out[1]);
  close(err[1]);
  p->out = out[0];
  p->err = err[0];
  if (rc != 0) p->pid = 0;
  if (rc != 0) printf("\n    cannot start %s: %s (is WEFT set?)\n", weft, strerror(rc));
  CU_ASSERT_EQUAL_FATAL(rc, 0);
}

bool weft_test_process_ready(weft_test_process_t *p) {
  static const char begins[] = "weft: listening on grpc://";
  char line[256];
  size_t n = 0;
  struct pollfd fd = {.fd = p->out, .events = POLLIN};
  while (n + 1 < sizeof line && poll(&fd, 1, START_TIMEOUT_MS) == 1 && read(p->out, line + n, 1) == 1) {
    if (line[n++] == '\n') break;
  }
  line[n] = '\0';
  bool ok = strncmp(line, begins, strlen(begins)) == 0 && line[n - 1] == '\n';
  if (ok)
    snprintf(p->target, sizeof p->target, "grpc://%.*s", (int)strcspn(line + strlen(begins), "\n"),
             line + strlen(begins));
  if (!ok) printf("\n    not a ready line: '%s'\n", line);
  CU_ASSERT_TRUE(ok);
  return ok;
}

bool weft_test_process_log(weft_test_process_t *p, const char *text, char *line, size_t size) {
  struct pollfd fd = {.fd = p->err, .events = POLLIN};
  size_t n = 0;
  while (poll(&fd, 1, END_TIMEOUT_MS) == 1) {
    char c;
    if (read(p->err, &c, 1) != 1) break;
    if (c != '\n') {
      if (n + 1 < size) line[n++] = c;
      continue;
    }
    line[n] = '\0';
    if (strstr(line, text) != NULL) return true;
    n = 0;
  }
  printf("\n    no line with '%s'\n", text);
  CU_FAIL("a line of the log");
  return false;
}

static void drain(int fd, char *text, size_t size) {
  char block[4096];
  size_t at = 0;
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) {
    size_t take = text == NULL || at + 1 >= size ? 0 : size - 1 - at;
    if (take > (size_t)n) take = (size_t)n;
    if (take > 0) memcpy(text + at, block, take);
    at += take;
  }
  if (text != NULL && size > 0) text[at] = '\0';
  close(fd);
}

int weft_test_process_wait(weft_test_process_t *p, int timeout_ms, char *out, char *err, size_t size) {
  int status = 0, fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
  struct pollfd end = {.fd = fd, .events = POLLIN};
  CU_ASSERT_TRUE_FATAL(fd >= 0);
  bool ended = poll(&end, 1, timeout_ms) == 1;
  close(fd);
  CU_ASSERT_TRUE(ended);
  if (!ended) kill(p->pid, SIGKILL);
  while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
  }
  drain(p->out, out, size);
  drain(p->err, err, size);
  p->pid = 0;
  if (!ended) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int weft_test_process_stop(weft_test_process_t *p) {
  const int64_t begin = weft_clock_ns();
  kill(p->pid, SIGTERM);
  const int code = weft_test_process_wait(p, END_TIMEOUT_MS, NULL, NULL, 0);
  CU_ASSERT_TRUE(weft_test_is_within(begin, 1000));
  return code;
}

void weft_test_process_kill(weft_test_process_t *p) {
  if (p->pid <= 0) return;
  kill(p->pid, SIGKILL);
  (void)weft_test_process_wait(p, END_TIMEOUT_MS, NULL, NULL, 0);
}

bool weft_test_servers_start_one(weft_test_servers_t *s, int task) {
  char index[16];
  snprintf(index, sizeof index, "%d", task == 0 ? 0 : task - 1);
  const char *const arguments[] = {"server", "--cluster", s->cluster, "--job",    task == 0 ? "ps" : "worker",
                                   "--task", index,       s->more[0], s->more[1], NULL};
  weft_test_process_start(&s->processes[task], arguments, s->environment);
  return weft_test_process_ready(&s->processes[task]);
}

void weft_test_servers_start(weft_test_servers_t *s) { weft_test_servers_start_with(s, NULL, NULL, NULL); }

void weft_test_servers_start_with(weft_test_servers_t *s, const char *option, const char *value,
                                  const char *environment) {
  *s = (weft_test_servers_t){.cluster = "", .more = {option, value}, .environment = environment};
  for (int i = 0; i < 3; i++) s->ports[i] = weft_test_free_port();
  snprintf(s->cluster, sizeof s->cluster, "ps=127.0.0.1:%d;worker=127.0.0.1:%d,127.0.0.1:%d", s->ports[0],
           s->ports[1], s->ports[2]);
  for (int i = 0; i < 3; i++) (void)weft_test_servers_start_one(s, i);
}

void weft_test_servers_kill(weft_test_servers_t *s) {
  for (int i = 0; i < 3; i++) weft_test_process_kill(&s->processes[i]);
}

bool weft_test_client_open(weft_test_client_t *c, const char *target, int64_t timeout_ms) {
  weft_rpc_channel_t *channel = NULL;
  *c = (weft_test_client_t){NULL, NULL};
  weft_status_t *s = weft_rpc_client_create(1, &c->rpc);
  if (s == NULL) s = weft_rpc_channel_create(c->rpc, weft_str(target + strlen("grpc://")), &channel);
  if (s == NULL) s = weft_remote_master_client_create(channel, timeout_ms, &c->master);
  weft_rpc_channel_release(channel);
  bool ok = s == NULL;
  weft_status_free(s);
  CU_ASSERT_TRUE(ok);
  return ok;
}

void weft_test_client_close(weft_test_client_t *c) {
  weft_master_client_release(c->master);
  weft_rpc_client_destroy(c->rpc);
}
