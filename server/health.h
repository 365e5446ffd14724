/* server/health.h - the membership of a server's cluster, and what its losses end.
 *
 * When a task is lost, calls to its worker end with UNAVAILABLE naming it, so the steps that need it fail;
 * clocks and tables of this process no longer wait for its workers. A task that hangs keeps connections open:
 * calls that begin while it is lost end within two intervals, too.
 */
#ifndef WEFT_SERVER_HEALTH_H_
#define WEFT_SERVER_HEALTH_H_

#include "membership/task_membership.h"
#include "rpc/channel.h"
#include "rpc/server.h"
#include "server/cluster.h"
#include "server/task.h"

typedef struct weft_health weft_health_t; /* Thread-safe. */

typedef struct weft_health_options {
  const weft_cluster_t *cluster; /* borrowed, with all that follows */
  weft_str_t job;
  int task;
  weft_task_t *own;
  weft_rpc_client_t *rpc;
  int64_t heartbeat_ms;                     /* 0: none */
  weft_membership_replaced_fn *on_replaced; /* another process has this task's place: see task_membership.h */
  void *on_replaced_arg;
} weft_health_options_t;

/* Registers the coordination service on `server` if this task hosts it; before the server's start. */
WEFT_MUST_CHECK weft_status_t *weft_health_create(const weft_health_options_t *o, weft_rpc_server_t *server,
                                                  weft_health_t **out);
/* Of this task; lent. Others may watch it before the start. */
weft_membership_t *weft_health_membership(weft_health_t *h);
WEFT_MUST_CHECK weft_status_t *weft_health_start(weft_health_t *h); /* does not block */
void weft_health_stop(weft_health_t *h);    /* no watcher is called afterwards; NULL is fine */
void weft_health_destroy(weft_health_t *h); /* after the server; NULL is fine */

#endif /* WEFT_SERVER_HEALTH_H_ */
