/* server/cluster.h - which tasks there are and where: from a command line, TF_CONFIG or a ServerDef. */
#ifndef WEFT_SERVER_CLUSTER_H_
#define WEFT_SERVER_CLUSTER_H_

#include "base/arena.h"

typedef struct weft_cluster_task {
  weft_str_t job;
  int index;
  weft_str_t address; /* "host:port" */
} weft_cluster_task_t;

/* Sorted by job, then index. Everything is in the arena. A plain struct; deinit frees it. */
typedef struct weft_cluster {
  weft_arena_t arena;
  weft_cluster_task_t *tasks;
  int num_tasks;
} weft_cluster_t;

void weft_cluster_deinit(weft_cluster_t *c);
/* "ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222". Errors: INVALID_ARGUMENT naming the part. */
WEFT_MUST_CHECK weft_status_t *weft_cluster_parse(weft_str_t text, weft_cluster_t *out);
/* TF_CONFIG's JSON (reference 4.6): also which task this process is. Errors: INVALID_ARGUMENT naming the
 * part. */
WEFT_MUST_CHECK weft_status_t *weft_cluster_from_tf_config(weft_str_t json, weft_cluster_t *out,
                                                           weft_str_t *out_job, int *out_task);
/* A serialized ServerDef or ClusterDef. */
WEFT_MUST_CHECK weft_status_t *weft_cluster_from_server_def(weft_str_t bytes, weft_cluster_t *out,
                                                            weft_str_t *out_job, int *out_task);
WEFT_MUST_CHECK weft_status_t *weft_cluster_from_cluster_def(weft_str_t bytes, weft_cluster_t *out);
const weft_cluster_task_t *weft_cluster_find(const weft_cluster_t *c, weft_str_t job,
                                             int index); /* NULL if absent */
WEFT_MUST_CHECK weft_status_t *weft_cluster_copy(const weft_cluster_t *from, weft_cluster_t *out);

#endif /* WEFT_SERVER_CLUSTER_H_ */
