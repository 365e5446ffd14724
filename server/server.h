/* server/server.h - one task of a cluster as a process runs it: worker, master and their gRPC services. */
#ifndef WEFT_SERVER_SERVER_H_
#define WEFT_SERVER_SERVER_H_

#include "device/device_options.h"
#include "master/master_client.h"
#include "server/cluster.h"

typedef struct weft_server weft_server_t; /* Thread-safe. */

typedef struct weft_server_options {
  const weft_cluster_t *cluster; /* copied */
  weft_str_t job;
  int task;
  const char *host;             /* to listen on; NULL: 127.0.0.1 */
  int port;                     /* -1: the one in the cluster for this task; 0: any free one */
  int num_threads;              /* 0: as many as processors */
  weft_str_t collective_leader; /* a task of the cluster; empty: see weft_worker_options_t */
  int num_cpus;                 /* devices CPU:0 .. CPU:n-1; 0: one */
  const weft_accelerator_options_t *accelerators; /* borrowed by weft_server_create; NULL: all */
  bool collectives_only_rpc;                      /* no links between tasks of one host */
  int64_t
      client_grace_ms; /* how long the sessions of a lost client are kept; 0: a minute; below 0: for ever */
  int heartbeat_ms;    /* how often it tells that it lives; 0: every second; -1: never */
  /* Another process has this task's place, as the coordination service reports: the server stops by itself.
   * Called once, before that, on any thread; `why` is lent. NULL is fine. */
  void (*on_replaced)(void *arg, const weft_status_t *why);
  void *on_replaced_arg;
} weft_server_options_t;

/* Creates worker and master; does not listen yet. Errors: INVALID_ARGUMENT naming job and task. */
WEFT_MUST_CHECK weft_status_t *weft_server_create(const weft_server_options_t *o, weft_server_t **out);
WEFT_MUST_CHECK weft_status_t *weft_server_start(weft_server_t *s); /* binds and serves */
void weft_server_stop(weft_server_t *s);                            /* within a second; idempotent */
void weft_server_join(weft_server_t *s);                            /* waits until stopped */
void weft_server_destroy(weft_server_t *s);                         /* stops first; NULL is fine */
const char *weft_server_target(const weft_server_t *s); /* "grpc://127.0.0.1:2222"; after the start */

/* NULL: the task serves. Else why it does not, which the caller owns. */
WEFT_MUST_CHECK weft_status_t *weft_server_why_not_ready(weft_server_t *s);
/* Appends the numbers of the process and of the task in Prometheus's text format. Does not block. */
void weft_server_write_metrics(weft_server_t *s, weft_strbuf_t *out);

/* The task's collectives, and what their transport has fetched; lent. */
struct weft_collectives *weft_server_collectives(weft_server_t *s);
struct weft_link_counters *weft_server_counters(weft_server_t *s);

/* A session without servers: a worker and a master in this process, no gRPC. The client owns both. Numbers as
 * above. */
WEFT_MUST_CHECK weft_status_t *weft_local_master_create(int num_threads, int num_cpus,
                                                        const weft_accelerator_options_t *accelerators,
                                                        weft_master_client_t **out);

#endif /* WEFT_SERVER_SERVER_H_ */
