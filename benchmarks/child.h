/* benchmarks/child.h - parts of a benchmark that run in child processes, and what both sides need of sockets.
 *
 * gRPC does not survive a fork, so the program itself must not use it, if it is to run the next benchmark.
 */
#ifndef WEFT_BENCHMARKS_CHILD_H_
#define WEFT_BENCHMARKS_CHILD_H_

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* In the child: writes its results to `to`, and may stay until `until` ends. The process ends with it. */
typedef weft_status_t *weft_child_fn(void *arg, int to, int until);

typedef struct weft_child {
  pid_t pid;
  int stop; /* the child's `until` ends when this is closed; -1: it is */
} weft_child_t;
#define WEFT_CHILD_INIT \
  { .pid = -1, .stop = -1 }

/* Starts `fn` in a child and reads `n` bytes of what it says. What fails in the child is told on standard
 * error, after `what`. Errors: INTERNAL. *out is to be ended in any case. */
WEFT_MUST_CHECK weft_status_t *weft_child_start(weft_child_fn *fn, void *arg, const char *what, void *says,
                                                size_t n, weft_child_t *out);
void weft_child_end(weft_child_t *c); /* waits for it */

/* Of blocking descriptors; false when the other side is gone. */
bool weft_write_all(int fd, const void *data, size_t n);
bool weft_read_all(int fd, void *data, size_t n);

/* A value of /proc/<pid>/status or smaps_rollup (`file`) in bytes, such as "VmRSS:"; negative if it is not
 * there. */
double weft_proc_bytes(pid_t pid, const char *file, const char *field);

/* What this process has allocated and not freed, in bytes. */
double weft_allocated_bytes(void);

/* Sockets of 127.0.0.1 without delay; -1 if there is none. */
int weft_tcp_listen(int *out_port);
int weft_tcp_accept(int listener);
int weft_tcp_connect(int port);

#endif /* WEFT_BENCHMARKS_CHILD_H_ */
