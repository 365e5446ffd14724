/* benchmarks/server.c - starts servers as a user would, and looks at them from outside. */
#define _GNU_SOURCE
#include "benchmarks/server.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "benchmarks/child.h"
#include "benchmarks/rpc_step.h"

enum { STARTS = 11, START_TIMEOUT_MS = 10000, MAX_SECTIONS = 4096 };

typedef struct process {
  pid_t pid;
  char address[128]; /* "grpc://..." */
  double start_ms;
} process_t;

/* Reads the ready line, one byte at a time: it is short, and nothing may come behind it. */
static bool read_line(int fd, char *line, size_t size) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  size_t n = 0;
  while (n + 1 < size && poll(&p, 1, START_TIMEOUT_MS) == 1 && read(fd, line + n, 1) == 1) {
    if (line[n++] == '\n') break;
  }
  line[n] = '\0';
  return n > 0 && line[n - 1] == '\n';
}

static void stop(process_t *p) {
  if (p->pid <= 0) return;
  kill(p->pid, SIGTERM);
  while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  p->pid = 0;
}

static weft_status_t *start(const weft_bench_options_t *o, process_t *p) {
  int pipe_fds[2];
  char line[256];
  *p = (process_t){.pid = 0};
  if (o->weft_path == NULL) return WEFT_ERROR(UNIMPLEMENTED, "needs the weft command");
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %s", strerror(errno));
  char *const argv[] = {"weft",   "server", "--cluster", "worker=127.0.0.1:0", "--job", "worker",
                        "--task", "0",      NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  int64_t began = weft_clock_ns();
  int rc = posix_spawn(&p->pid, o->weft_path, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  bool ready = rc == 0 && read_line(pipe_fds[0], line, sizeof line);
  p->start_ms = (double)(weft_clock_ns() - began) / 1e6;
  close(pipe_fds[0]);
  const char *address = ready ? strstr(line, "grpc://") : NULL;
  if (rc != 0) p->pid = 0;
  if (address == NULL) {
    stop(p);
    return WEFT_ERROR(INTERNAL, "'%s server' did not start", o->weft_path);
  }
  snprintf(p->address, sizeof p->address, "%.*s", (int)strcspn(address, "\n"), address);
  return NULL;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

weft_status_t *weft_bench_server_start(const weft_bench_options_t *o, double *out_value) {
  double ms[STARTS];
  int n = o->is_quick ? 3 : STARTS;
  for (int i = 0; i < n; i++) {
    process_t p;
    WEFT_RETURN_IF_ERROR(start(o, &p));
    ms[i] = p.start_ms;
    stop(&p);
  }
  qsort(ms, (size_t)n, sizeof ms[0], compare);
  *out_value = ms[n / 2];
  return NULL;
}

weft_status_t *weft_bench_server_rss(const weft_bench_options_t *o, double *out_value) {
  process_t p;
  WEFT_RETURN_IF_ERROR(start(o, &p));
  double bytes = weft_proc_bytes(p.pid, "status", "VmRSS:");
  stop(&p);
  if (bytes < 0) return WEFT_ERROR(INTERNAL, "cannot read the memory of a process");
  *out_value = bytes / 1e6;
  return NULL;
}

/* What `strip` would leave: the file without symbols and debugging sections, which are never loaded. */
static weft_status_t *stripped_bytes(FILE *f, int64_t file_bytes, double *out) {
  Elf64_Ehdr header;
  if (fread(&header, sizeof header, 1, f) != 1 || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr) ||
      header.e_shnum > MAX_SECTIONS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the weft command is no 64-bit ELF file");
  }
  int64_t dropped = 0;
  if (fseek(f, (long)header.e_shoff, SEEK_SET) != 0)
    return WEFT_ERROR(INTERNAL, "cannot read the weft command");
  for (int i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section;
    if (fread(&section, sizeof section, 1, f) != 1)
      return WEFT_ERROR(INTERNAL, "cannot read the weft command");
    bool is_loaded = (section.sh_flags & SHF_ALLOC) != 0, is_names = i == header.e_shstrndx;
    if (!is_loaded && !is_names && section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
      dropped += (int64_t)section.sh_size;
  }
  *out = (double)(file_bytes - dropped);
  return NULL;
}

weft_status_t *weft_bench_binary_size(const weft_bench_options_t *o, double *out_value) {
  struct stat st;
  double bytes = 0;
  if (o->weft_path == NULL) return WEFT_ERROR(UNIMPLEMENTED, "needs the weft command");
  FILE *f = fopen(o->weft_path, "rb");
  if (f == NULL || fstat(fileno(f), &st) != 0) {
    if (f != NULL) fclose(f);
    return WEFT_ERROR(NOT_FOUND, "%s: %s", o->weft_path, strerror(errno));
  }
  weft_status_t *s = stripped_bytes(f, st.st_size, &bytes);
  fclose(f);
  *out_value = bytes / 1e6;
  return s;
}

/* Steps over gRPC from a process of their own: what uses gRPC cannot fork any more. */
static weft_status_t *run_steps(const process_t *p, int steps) {
  pid_t child = fork();
  if (child == 0) {
    weft_rpc_step_result_t r;
    weft_rpc_step_t step = {.master = p->address,
                            .feeds = {"x:0=2"},
                            .num_feeds = 1,
                            .fetches = {"y:0"},
                            .num_fetches = 1,
                            .steps = steps};
    weft_status_t *s = weft_rpc_step_measure(&step, &r);
    if (s != NULL) fprintf(stderr, "step_memory_growth: %s\n", weft_status_message(s));
    _exit(s != NULL);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && status == 0 ? NULL : WEFT_ERROR(INTERNAL, "the client failed: see above");
}

/* Anonymous memory only: pages of the program and its libraries come in as they are first used. */
weft_status_t *weft_bench_step_memory_growth(const weft_bench_options_t *o, double *out_value) {
  int steps = o->is_quick ? 10000 : 100000;
  process_t p;
  WEFT_RETURN_IF_ERROR(start(o, &p));
  weft_status_t *s = run_steps(&p, steps); /* caches and pools fill */
  double before = weft_proc_bytes(p.pid, "status", "RssAnon:");
  if (s == NULL) s = run_steps(&p, steps);
  double after = weft_proc_bytes(p.pid, "status", "RssAnon:");
  stop(&p);
  if (s != NULL) return s;
  if (before < 0 || after < 0) return WEFT_ERROR(INTERNAL, "cannot read the memory of a process");
  *out_value = after > before ? (after - before) / steps : 0;
  return NULL;
}
