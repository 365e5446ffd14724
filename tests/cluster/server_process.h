/* tests/cluster/server_process.h - real `weft server` processes for tests, and clients of theirs.
 *
 * Nothing sleeps: a start ends with the ready line, a stop with the process, each
 * with a deadline. The command is tools/weft, or what WEFT in the environment says.
 */
#ifndef WEFT_TESTS_CLUSTER_SERVER_PROCESS_H_
#define WEFT_TESTS_CLUSTER_SERVER_PROCESS_H_

#include <sys/types.h>

#include "services/remote_master.h"
#include "tests/ports.h"

typedef struct weft_test_process {
  pid_t pid;        /* 0: not running */
  int out, err;     /* what it prints */
  char target[128]; /* "grpc://127.0.0.1:2222" once ready */
} weft_test_process_t;

/* Starts `weft <arguments...>` (ended by NULL; at most 30). `environment`: one more "NAME=value", or NULL. */
void weft_test_process_start(weft_test_process_t *p, const char *const *arguments, const char *environment);
/* Reads the ready line; false (and a failed test) if another or none comes. */
bool weft_test_process_ready(weft_test_process_t *p);
/* Waits for the end of the process, which must come within `timeout_ms`; returns the exit status, 128 + the
 * signal if one killed it, -1 (and a failed test, and a killed process) if it did not end. Text may be NULL.
 */
int weft_test_process_wait(weft_test_process_t *p, int timeout_ms, char *out, char *err, size_t size);
/* SIGTERM, and the end within a second (of an idle machine); returns the exit status. */
int weft_test_process_stop(weft_test_process_t *p);
/* SIGKILL. NULL or one that does not run is fine. */
void weft_test_process_kill(weft_test_process_t *p);

/* A ps and two workers. */
typedef struct weft_test_servers {
  weft_test_process_t processes[3];
  char cluster[256]; /* as --cluster takes it */
  int ports[3];
  const char *more[3];     /* arguments of every server; NULL at the end */
  const char *environment; /* "NAME=value" or NULL */
} weft_test_servers_t;
void weft_test_servers_start(weft_test_servers_t *s);
/* With an option and its value, and something in the environment: texts are lent until the end. */
void weft_test_servers_start_with(weft_test_servers_t *s, const char *option, const char *value,
                                  const char *environment);
/* Reads what the process writes to standard error until a line with `text` comes, which is given back ('\0'
 * at its end, cut to `size`). False, and a failed test, if none comes in time. */
bool weft_test_process_log(weft_test_process_t *p, const char *text, char *line, size_t size);
/* Task 0 is the ps, 1 and 2 the workers. True when it is ready. */
bool weft_test_servers_start_one(weft_test_servers_t *s, int task);
void weft_test_servers_kill(weft_test_servers_t *s);

/* A client of one server; calls wait for their answer. */
typedef struct weft_test_client {
  weft_rpc_client_t *rpc;
  weft_master_client_t *master;
} weft_test_client_t;
bool weft_test_client_open(weft_test_client_t *c, const char *target, int64_t timeout_ms);
void weft_test_client_close(weft_test_client_t *c);

#endif /* WEFT_TESTS_CLUSTER_SERVER_PROCESS_H_ */
