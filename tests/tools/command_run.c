/* tests/tools/command_run.c - fork, pipes, poll. */
#define _GNU_SOURCE
#include "tests/tools/command_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { DEADLINE_MS = 180000 };

static void become(const char *const *args, const char *environment) {
  const char *program = getenv("WEFT");
  if (program == NULL) program = "tools/weft"; /* where Bazel puts it for a test */
  char *argv[RUN_MAX_ARGS + 2] = {(char *)(uintptr_t)program};
  for (int i = 0; args[i] != NULL && i < RUN_MAX_ARGS; i++) argv[i + 1] = (char *)(uintptr_t)args[i];
  if (environment != NULL) putenv((char *)(uintptr_t)environment);
  execv(program, argv);
  _exit(127);
}

void run_start(run_t *r, const char *const *args, const char *environment) {
  int out[2], err[2];
  memset(r, 0, sizeof *r);
  if (pipe(out) != 0 || pipe(err) != 0) exit(3);
  r->pid = fork();
  if (r->pid == 0) {
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int fd = 3; fd < 64; fd++) close(fd);
    become(args, environment);
  }
  close(out[1]);
  close(err[1]);
  r->out_fd = out[0];
  r->err_fd = err[0];
}

void run_start_on_terminal(run_t *r, const char *const *args, int columns) {
  struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
  memset(r, 0, sizeof *r);
  r->err_fd = -1;
  r->pid = forkpty(&r->out_fd, NULL, NULL, &size);
  if (r->pid == 0) become(args, "TERM=xterm");
}

/* Reads what there is. False at the end of the stream. */
static bool read_some(int fd, char *to, int *length) {
  char rest[4096];
  bool is_full = *length >= RUN_OUTPUT - 1;
  ssize_t n =
      is_full ? read(fd, rest, sizeof rest) : read(fd, to + *length, (size_t)(RUN_OUTPUT - 1 - *length));
  if (n <= 0) return n < 0 && errno == EINTR; /* a terminal whose program is gone gives EIO */
  if (!is_full) *length += (int)n;
  to[*length] = '\0';
  return true;
}

/* Reads both streams until both end, or `text` is in standard output, or the deadline. */
static bool pump(run_t *r, const char *text) {
  int64_t deadline_ns = weft_clock_ns() + DEADLINE_MS * INT64_C(1000000);
  while (r->out_fd >= 0 || r->err_fd >= 0) {
    if (text != NULL && strstr(r->out, text) != NULL) return true;
    int64_t left_ms = (deadline_ns - weft_clock_ns()) / 1000000;
    struct pollfd fds[2] = {{.fd = r->out_fd, .events = POLLIN}, {.fd = r->err_fd, .events = POLLIN}};
    if (left_ms <= 0 || poll(fds, 2, (int)left_ms) == 0) return false;
    if (fds[0].revents != 0 && !read_some(r->out_fd, r->out, &r->out_length)) {
      close(r->out_fd);
      r->out_fd = -1;
    }
    if (fds[1].revents != 0 && !read_some(r->err_fd, r->err, &r->err_length)) {
      close(r->err_fd);
      r->err_fd = -1;
    }
  }
  return text == NULL || strstr(r->out, text) != NULL;
}

bool run_until(run_t *r, const char *text) { return pump(r, text); }
void run_signal(run_t *r, int number) { kill(r->pid, number); }

void run_end(run_t *r) {
  int status = 0;
  bool is_over = pump(r, NULL);
  if (!is_over) kill(r->pid, SIGKILL);
  waitpid(r->pid, &status, 0);
  if (r->out_fd >= 0) close(r->out_fd);
  if (r->err_fd >= 0) close(r->err_fd);
  r->out_fd = r->err_fd = -1;
  r->code = !is_over ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run(run_t *r, const char *const *args) {
  run_start(r, args, NULL);
  run_end(r);
  return r->code;
}

bool run_server(run_t *r, char target[64]) {
  static const char *const args[] = {"server", "--cluster", "worker=127.0.0.1:0", "--job", "worker", NULL};
  run_start(r, args, NULL);
  return run_until(r, "\n") && sscanf(r->out, "weft: listening on %63s", target) == 1;
}

const char *write_file(const char *name, const void *bytes, size_t length) {
  static char paths[8][512];
  static int next;
  char *path = paths[next++ % 8];
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof paths[0], "%s/%s", folder == NULL ? "/tmp" : folder, name);
  FILE *f = fopen(path, "wb");
  if (f == NULL || fwrite(bytes, 1, length, f) != length || fclose(f) != 0) exit(3);
  return path;
}

const char *write_text(const char *name, const char *text) { return write_file(name, text, strlen(text)); }
