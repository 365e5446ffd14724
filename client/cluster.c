/* client/cluster.c - WEFT_Cluster: a box around a cluster's description. */
#include "client/cluster.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "client/session_options.h"
#include "client/status.h"
#include "protos/wire.h"

enum { FIELD_DEVICE_FILTERS = 4 }; /* of ConfigProto */

/* Texts in the description's arena end with '\0'. */
struct WEFT_Cluster {
  weft_cluster_t tasks;
  weft_str_t own_job; /* in the arena; data NULL: not known */
  int own_index;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a cluster's description"); }

typedef weft_status_t *read_fn(weft_str_t text, WEFT_Cluster *out);

static weft_status_t *read_text(weft_str_t text, WEFT_Cluster *out) {
  return weft_status_prefix(weft_cluster_parse(text, &out->tasks), "cluster: ");
}
static weft_status_t *read_tf_config(weft_str_t text, WEFT_Cluster *out) {
  return weft_cluster_from_tf_config(text, &out->tasks, &out->own_job, &out->own_index);
}

static WEFT_Cluster *make(read_fn *read, const char *text, TF_Status *status) {
  WEFT_Cluster *c = weft_calloc(1, sizeof *c);
  weft_status_t *s = c == NULL ? no_memory() : NULL;
  if (s == NULL) {
    c->tasks.arena = (weft_arena_t)WEFT_ARENA_INIT;
    c->own_index = -1;
    s = read(weft_str(text), c);
  }
  if (weft_client_end(status, s)) return c;
  WEFT_DeleteCluster(c);
  return NULL;
}

const weft_cluster_t *weft_client_cluster(const WEFT_Cluster *c) { return &c->tasks; }

WEFT_Cluster *WEFT_NewCluster(const char *text, TF_Status *status) { return make(read_text, text, status); }

WEFT_Cluster *WEFT_NewClusterFromTFConfig(const char *json, TF_Status *status) {
  const char *text = json == NULL ? getenv("TF_CONFIG") : json;
  if (text != NULL) return make(read_tf_config, text, status);
  weft_client_end(status, WEFT_ERROR(FAILED_PRECONDITION, "TF_CONFIG is not set"));
  return NULL;
}

void WEFT_DeleteCluster(WEFT_Cluster *c) {
  if (c == NULL) return;
  weft_cluster_deinit(&c->tasks);
  weft_free(c);
}

int WEFT_ClusterNumTasks(const WEFT_Cluster *c, const char *job) {
  int n = 0;
  for (int i = 0; i < c->tasks.num_tasks; i++) n += weft_str_is(c->tasks.tasks[i].job, job);
  return n;
}

const char *WEFT_ClusterAddress(const WEFT_Cluster *c, const char *job, int index) {
  const weft_cluster_task_t *t = weft_cluster_find(&c->tasks, weft_str(job), index);
  return t == NULL ? NULL : t->address.data;
}

const char *WEFT_ClusterOwnJob(const WEFT_Cluster *c) { return c->own_job.data; }
int WEFT_ClusterOwnIndex(const WEFT_Cluster *c) { return c->own_index; }

TF_SessionOptions *WEFT_NewClusterSessionOptions(const WEFT_Cluster *c, const char *job, int index,
                                                 const char *const *filters, int num_filters,
                                                 TF_Status *status) {
  const char *address = WEFT_ClusterAddress(c, job, index);
  weft_strbuf_t target = WEFT_STRBUF_INIT, config = WEFT_STRBUF_INIT;
  TF_SessionOptions *o = TF_NewSessionOptions();
  weft_status_t *s = o == NULL ? no_memory() : NULL;
  if (s == NULL && address == NULL)
    s = WEFT_ERROR(NOT_FOUND, "the cluster has no task %d of job '%s'", index, job);
  if (s == NULL) {
    weft_strbuf_printf(&target, "grpc://%s", address);
    for (int i = 0; i < num_filters; i++)
      weft_wire_add_bytes(&config, FIELD_DEVICE_FILTERS, weft_str(filters[i]));
    if (target.failed || config.failed) s = no_memory();
  }
  if (s == NULL) {
    TF_SetTarget(o, target.data);
    TF_SetConfig(o, config.data == NULL ? "" : config.data, config.length, status);
    if (o->target == NULL) s = no_memory();
  }
  bool ok = s == NULL ? TF_GetCode(status) == TF_OK : weft_client_end(status, s);
  weft_strbuf_deinit(&target);
  weft_strbuf_deinit(&config);
  if (ok) return o;
  TF_DeleteSessionOptions(o);
  return NULL;
}
