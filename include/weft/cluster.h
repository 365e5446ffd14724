/* weft/cluster.h - which tasks a cluster has and where they listen.
 *
 * A cluster is a list of jobs ("ps", "worker"), each with tasks 0, 1, ... at
 * addresses "host:port". It comes from a text as `weft server --cluster` takes it,
 * or from TF_CONFIG. It only describes: it starts no process and opens no connection.
 *
 * A WEFT_Cluster does not change once it is made, so any thread may read it.
 * Texts that functions return belong to it and live as long as it does.
 */
#ifndef WEFT_CLUSTER_H_
#define WEFT_CLUSTER_H_

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_Cluster WEFT_Cluster;

/* "ps=host:port;worker=host:port,host:port". The caller owns the result; NULL on failure.
 * Errors: INVALID_ARGUMENT naming the part that is wrong; RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_Cluster *WEFT_NewCluster(const char *text, TF_Status *status);
/* The JSON of TF_CONFIG; NULL: the environment's variable of that name. The text also says which task this
 * process is. Errors: INVALID_ARGUMENT naming the part; FAILED_PRECONDITION if the variable is not set;
 * RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_Cluster *WEFT_NewClusterFromTFConfig(const char *json, TF_Status *status);
/* NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteCluster(WEFT_Cluster *cluster);

/* How many tasks a job has; 0 for a job that is not there. Indices may have gaps: see the next function. */
TF_CAPI_EXPORT extern int WEFT_ClusterNumTasks(const WEFT_Cluster *cluster, const char *job);
/* "host:port" of a task, or NULL if there is no such task. */
TF_CAPI_EXPORT extern const char *WEFT_ClusterAddress(const WEFT_Cluster *cluster, const char *job,
                                                      int index);
/* The job of this process by TF_CONFIG: "chief", "worker", ...; NULL if it was made from a text. */
TF_CAPI_EXPORT extern const char *WEFT_ClusterOwnJob(const WEFT_Cluster *cluster);
/* The index beside WEFT_ClusterOwnJob(); -1 if there is none. */
TF_CAPI_EXPORT extern int WEFT_ClusterOwnIndex(const WEFT_Cluster *cluster);

/* Options for a session at a task's own master that sees only the devices that `filters` name ("/job:ps",
 * "/job:worker/task:1"); that task always sees itself, and with no filters all tasks are seen. Such a session
 * neither waits for the other tasks nor fails with them. The caller owns the result; NULL on failure. Errors:
 * NOT_FOUND if there is no such task; RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern TF_SessionOptions *WEFT_NewClusterSessionOptions(const WEFT_Cluster *cluster,
                                                                       const char *job, int index,
                                                                       const char *const *filters,
                                                                       int num_filters, TF_Status *status);

/* Whether a session with these options waits until its master can be reached, as TensorFlow's do and as is
 * the default (1), or fails with UNAVAILABLE when the first connection is refused (0): for programs that have
 * found the master before. */
TF_CAPI_EXPORT extern void WEFT_SetWaitForMaster(TF_SessionOptions *options, unsigned char waits);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_CLUSTER_H_ */
