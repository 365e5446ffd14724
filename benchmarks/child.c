/* benchmarks/child.c - forks, pipes and TCP connections of benchmarks. */
#include "benchmarks/child.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool weft_write_all(int fd, const void *data, size_t n) {
  const char *p = data;
  while (n > 0) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

bool weft_read_all(int fd, void *data, size_t n) {
  char *p = data;
  while (n > 0) {
    ssize_t k = read(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

static int no_delay(int fd) {
  int one = 1;
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

int weft_tcp_listen(int *out_port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 1) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
    if (fd >= 0) close(fd);
    return -1;
  }
  *out_port = ntohs(address.sin_port);
  return fd;
}

int weft_tcp_accept(int listener) { return no_delay(accept(listener, NULL, NULL)); }

int weft_tcp_connect(int port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    fd = -1;
  }
  return no_delay(fd);
}

weft_status_t *weft_child_start(weft_child_fn *fn, void *arg, const char *what, void *says, size_t n,
                                weft_child_t *out) {
  int tell[2], until[2];
  *out = (weft_child_t)WEFT_CHILD_INIT;
  if (pipe(tell) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  if (pipe(until) != 0) {
    close(tell[0]);
    close(tell[1]);
    return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  }
  out->pid = fork();
  if (out->pid == 0) {
    close(tell[0]);
    close(until[1]);
    weft_status_t *s = fn(arg, tell[1], until[0]);
    if (s != NULL) fprintf(stderr, "%s: %s\n", what, weft_status_message(s));
    _exit(s != NULL);
  }
  close(tell[1]);
  close(until[0]);
  out->stop = until[1];
  weft_status_t *s = out->pid < 0 ? WEFT_ERROR(INTERNAL, "cannot fork: %d", errno) : NULL;
  if (s == NULL && !weft_read_all(tell[0], says, n))
    s = WEFT_ERROR(INTERNAL, "a process of %s failed: see above", what);
  close(tell[0]);
  return s;
}

void weft_child_end(weft_child_t *c) {
  if (c->stop >= 0) close(c->stop);
  if (c->pid > 0) waitpid(c->pid, NULL, 0);
  *c = (weft_child_t)WEFT_CHILD_INIT;
}

double weft_proc_bytes(pid_t pid, const char *file, const char *field) {
  char path[64], line[256];
  double kb = -1;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
  FILE *f = fopen(path, "r");
  while (f != NULL && fgets(line, sizeof line, f) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) kb = strtod(line + strlen(field), NULL);
  }
  if (f != NULL) fclose(f);
  return kb * 1024;
}

double weft_allocated_bytes(void) {
  struct mallinfo2 m = mallinfo2();
  return (double)m.uordblks + (double)m.hblkhd;
}
