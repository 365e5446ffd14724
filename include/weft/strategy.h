/* weft/strategy.h - programs that build a graph for several replicas at once.
 *
 * A *strategy* says on which devices replicas run and how variables are kept. A
 * program enters its scope on a graph, creates variables, and gives a function to
 * WEFT_StrategyRun() that describes what one replica does; the strategy adds the
 * nodes of all replicas. Nothing is computed here: everything adds nodes to a
 * TF_Graph, which any session runs.
 *
 * Code runs in one of three contexts, which decide what reading and writing a
 * variable mean (the table stands at WEFT_AssignVariable):
 *
 *   replica        inside the function of WEFT_StrategyRun: one replica's view
 *   cross-replica  in a scope, outside of it, and inside a merge call: all replicas together
 *   update         inside the function of WEFT_StrategyUpdate: one copy of a variable
 *
 * Values are what replicas give and get: a plain tensor, one tensor per replica, or a
 * mirrored one (per replica, known to be equal).
 *
 * While a scope is open one thread builds the graph. Objects may be read by any
 * thread. `status` is always set; NULL results mean failure. Misuse of a context is
 * FAILED_PRECONDITION, and the message says what to call instead.
 *
 * There is another way to a distributed graph that needs no program: WEFT_RewriteGraph
 * below does what `weft submit --strategy` does to a finished single-device graph.
 *
 * Source of the rules: tf.distribute (StrategyBase, values, mirrored_run).
 */
#ifndef WEFT_STRATEGY_H_
#define WEFT_STRATEGY_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "weft/cluster.h"
#include "weft/input.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_Strategy WEFT_Strategy;
typedef struct WEFT_Variable WEFT_Variable; /* belongs to the graph's scope; never deleted by the caller */
typedef struct WEFT_Value WEFT_Value;       /* the caller's; WEFT_DeleteValue */
typedef struct WEFT_ReplicaContext WEFT_ReplicaContext; /* lent for a call */

/* ---- strategies ---- */

typedef enum WEFT_ReduceOp { WEFT_SUM, WEFT_MEAN, WEFT_MIN, WEFT_MAX } WEFT_ReduceOp;

typedef struct WEFT_CommOptions {
  const char *algorithm;  /* "auto" (NULL), "ring", "tree", "halving_doubling", "hierarchical", "direct" */
  int64_t bytes_per_pack; /* tensors that are reduced together are packed up to this size; 0: each alone */
  double timeout_s;       /* of a collective; 0: none */
} WEFT_CommOptions;

/* All devices of a replica strategy are full names, "/job:localhost/replica:0/task:0/device:CPU:1", or local
 * ones, "CPU:1". Texts and options are copied. Errors: INVALID_ARGUMENT for no device, a bad name, or one
 * that comes twice. */

/* One replica; for programs that are written for any strategy. */
TF_CAPI_EXPORT extern WEFT_Strategy *WEFT_NewOneDeviceStrategy(const char *device, TF_Status *status);
/* A copy of every variable on each device, kept equal by all-reduce; one replica per device. `options` may be
 * NULL. */
TF_CAPI_EXPORT extern WEFT_Strategy *WEFT_NewMirroredStrategy(const char *const *devices, int num_devices,
                                                              const WEFT_CommOptions *options,
                                                              TF_Status *status);
/* Variables on one device, replicas on others; gradients are reduced to it. */
TF_CAPI_EXPORT extern WEFT_Strategy *WEFT_NewCentralStorageStrategy(const char *const *devices,
                                                                    int num_devices,
                                                                    const char *parameter_device,
                                                                    TF_Status *status);
/* Mirrored over all tasks of job "worker" (and "chief") with `devices_per_task` CPU devices each, in one
 * graph. */
TF_CAPI_EXPORT extern WEFT_Strategy *WEFT_NewMultiWorkerMirroredStrategy(const WEFT_Cluster *cluster,
                                                                         int devices_per_task,
                                                                         const WEFT_CommOptions *options,
                                                                         TF_Status *status);
/* Variables go round the tasks of job "ps"; variables of at least one dimension are partitioned along the
 * first by `partitioner`: NULL or "none", "fixed:N", "min_size:BYTES[:MAX]", "max_size:BYTES[:MAX]" (defaults
 * of the sizes: 256 KiB). One replica, on the device of the task that builds it: between-graph, for
 * coordinators. */
TF_CAPI_EXPORT extern WEFT_Strategy *WEFT_NewParameterServerStrategy(const WEFT_Cluster *cluster,
                                                                     const char *partitioner,
                                                                     TF_Status *status);
/* No graph may use it any more. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteStrategy(WEFT_Strategy *strategy);
TF_CAPI_EXPORT extern int WEFT_NumReplicasInSync(const WEFT_Strategy *strategy);
/* The device of replica i; lent. NULL if there is no such replica. */
TF_CAPI_EXPORT extern const char *WEFT_ReplicaDevice(const WEFT_Strategy *strategy, int i);

/* Opens the strategy's scope on the graph; entering the same again nests. Errors: FAILED_PRECONDITION if
 * another strategy's is open. Variables stay with the graph after the scope has been left, and are known
 * again when it is entered again. */
TF_CAPI_EXPORT extern void WEFT_ScopeEnter(WEFT_Strategy *strategy, TF_Graph *graph, TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_ScopeExit(WEFT_Strategy *strategy, TF_Graph *graph, TF_Status *status);
/* 1 if one is open. */
TF_CAPI_EXPORT extern int WEFT_HasScope(TF_Graph *graph);

/* ---- variables ---- */

typedef enum WEFT_Synchronization {
  WEFT_SYNC_AUTO,     /* ON_WRITE */
  WEFT_SYNC_NONE,     /* one plain variable, on the current device */
  WEFT_SYNC_ON_WRITE, /* mirrored: writes reach all copies */
  WEFT_SYNC_ON_READ   /* each replica writes its own; a read outside of replicas aggregates */
} WEFT_Synchronization;
typedef enum WEFT_Aggregation {
  WEFT_AGGREGATION_NONE,
  WEFT_AGGREGATION_SUM,
  WEFT_AGGREGATION_MEAN,
  WEFT_AGGREGATION_ONLY_FIRST_REPLICA
} WEFT_Aggregation;

/* The initial value of the rows [begin, begin + rows) of a variable of `num_dims` dims (0 rows at 0: all of a
 * scalar). */
typedef TF_Output (*WEFT_InitFn)(TF_Graph *graph, const int64_t *dims, int num_dims, TF_DataType dtype,
                                 int64_t begin, int64_t rows, void *user, TF_Status *status);
typedef struct WEFT_VariableOptions {
  const char *name;
  TF_DataType dtype;
  const int64_t *dims;
  int num_dims;
  WEFT_InitFn init; /* or NULL: zeros */
  void *init_user;
  WEFT_Synchronization synchronization;
  WEFT_Aggregation aggregation;
  WEFT_Variable
      *colocate_with; /* placed, copied and partitioned like this one: for optimizers' slots. May be NULL */
} WEFT_VariableOptions;
typedef struct WEFT_CreatorChain WEFT_CreatorChain;
/* A hook into the creation of variables: it may change the options, create something else, or only observe.
 * Creators that were pushed last are asked first; the strategy's own comes last. */
typedef WEFT_Variable *(*WEFT_VariableCreator)(TF_Graph *graph, const WEFT_VariableOptions *options,
                                               WEFT_CreatorChain *next, void *user, TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_PushVariableCreator(TF_Graph *graph, WEFT_VariableCreator creator, void *user,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_PopVariableCreator(TF_Graph *graph, TF_Status *status);
TF_CAPI_EXPORT extern WEFT_Variable *WEFT_CallNextCreator(WEFT_CreatorChain *next, TF_Graph *graph,
                                                          const WEFT_VariableOptions *options,
                                                          TF_Status *status);
/* Creates the variable as the scope says; without a scope, a plain one. Inside a replica's function each name
 * is created once for all replicas, and a second call with it gives the same variable. Copies are "name",
 * "name/replica_1", ...; parts are "name/part_0", ... Errors: INVALID_ARGUMENT; ALREADY_EXISTS. */
TF_CAPI_EXPORT extern WEFT_Variable *WEFT_CreateVariable(TF_Graph *graph, const WEFT_VariableOptions *options,
                                                         TF_Status *status);
TF_CAPI_EXPORT extern int WEFT_VariableNumComponents(
    const WEFT_Variable *variable); /* copies or parts; 1 for a plain one */
TF_CAPI_EXPORT extern TF_Output WEFT_VariableComponent(const WEFT_Variable *variable,
                                                       int i); /* its resource handle */
TF_CAPI_EXPORT extern const char *WEFT_VariableDevice(const WEFT_Variable *variable,
                                                      int i); /* "" if none was asked for */
TF_CAPI_EXPORT extern WEFT_Variable *WEFT_FindVariable(TF_Graph *graph,
                                                       const char *name); /* NULL if there is none */
/* A target that gives all variables that the graph has by now their first values: copies get the first
 * copy's. Errors: FAILED_PRECONDITION if there is no variable. */
TF_CAPI_EXPORT extern TF_Operation *WEFT_Initializer(TF_Graph *graph, TF_Status *status);

/*                              replica                         cross-replica                     update
 * read   mirrored              own copy                        first copy                        that copy
 *        sync on read          own copy                        aggregated (NONE: error)          that copy
 *        parts                 joined                          joined                            that part
 * assign mirrored, NONE        error: needs aggregation        to all copies                     that copy
 *        mirrored, others      aggregated, then to all copies  to all copies                     that copy
 *        sync on read, SUM     own copy                        first copy = value, others = 0    that copy
 *        sync on read, others  own copy                        to all copies                     that copy
 * add    mirrored              as assign                       to all copies                     that copy
 *        sync on read, SUM     own copy                        error                             that copy
 *        sync on read, others  own copy                        to all copies                     that copy
 *
 * Errors: INVALID_ARGUMENT for those in the table. The operation is the one that ends when all copies are
 * written. */
TF_CAPI_EXPORT extern TF_Output WEFT_ReadVariable(TF_Graph *graph, WEFT_Variable *variable,
                                                  TF_Status *status);
TF_CAPI_EXPORT extern TF_Operation *WEFT_AssignVariable(TF_Graph *graph, WEFT_Variable *variable,
                                                        TF_Output value, TF_Status *status);
TF_CAPI_EXPORT extern TF_Operation *WEFT_AssignAddVariable(TF_Graph *graph, WEFT_Variable *variable,
                                                           TF_Output value, TF_Status *status);
/* Rows `ids` (int32 or int64, any shape) of a variable; of one in parts, each part gives its own. */
TF_CAPI_EXPORT extern TF_Output WEFT_GatherRows(TF_Graph *graph, WEFT_Variable *variable, TF_Output ids,
                                                TF_Status *status);
/* Adds `values` (a row per id) to the rows `ids`; ids that come twice are added twice. */
TF_CAPI_EXPORT extern TF_Operation *WEFT_ScatterAddRows(TF_Graph *graph, WEFT_Variable *variable,
                                                        TF_Output ids, TF_Output values, TF_Status *status);
/* What a checkpoint holds of the variable, as one tensor, whatever the strategy; and the operation that sets
 * it from there. Sync on read with SUM: the total; restoring puts all of it into the first copy. */
TF_CAPI_EXPORT extern TF_Output WEFT_VariableSaveValue(TF_Graph *graph, WEFT_Variable *variable,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern TF_Operation *WEFT_RestoreVariable(TF_Graph *graph, WEFT_Variable *variable,
                                                         TF_Output value, TF_Status *status);

/* ---- values ---- */

TF_CAPI_EXPORT extern WEFT_Value *WEFT_NewValue(TF_Output tensor,
                                                TF_Status *status); /* the same for all replicas */
TF_CAPI_EXPORT extern WEFT_Value *WEFT_NewPerReplicaValue(const TF_Output *tensors, int num_replicas,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_DeleteValue(WEFT_Value *value);           /* NULL is fine */
TF_CAPI_EXPORT extern int WEFT_ValueNumReplicas(const WEFT_Value *value); /* 1 for a plain tensor */
TF_CAPI_EXPORT extern TF_Output WEFT_ValueOfReplica(const WEFT_Value *value,
                                                    int replica); /* a plain tensor: itself */
TF_CAPI_EXPORT extern int WEFT_ValueIsMirrored(const WEFT_Value *value);
/* The values of the replicas of this graph, in order: at most `max` into out. Returns how many there are. */
TF_CAPI_EXPORT extern int WEFT_LocalResults(const WEFT_Strategy *strategy, const WEFT_Value *value,
                                            TF_Output *out, int max);

/* ---- running ---- */

typedef enum WEFT_TraceMode {
  WEFT_TRACE_ONCE, /* the function is called once, for replica 0; the others get copies of its nodes. It must
                      not ask which replica it is, and only adds nodes */
  WEFT_TRACE_EACH  /* the function is called for each replica, on a thread of its own, one at a time */
} WEFT_TraceMode;
/* One replica's part: `args` in, `results` out (new values, or NULL, num_results of them). */
typedef void (*WEFT_ReplicaFn)(WEFT_ReplicaContext *context, WEFT_Value *const *args, int num_args,
                               WEFT_Value **results, int num_results, void *user, TF_Status *status);
/* Adds the nodes of all replicas. results[i] is what they gave as result i, per replica. Nodes of replica i >
 * 0 are named "replica_<i>/...", and run on its device unless they ask for another. Args are lent, results
 * the caller's. Errors: what the function says; FAILED_PRECONDITION outside the strategy's scope, inside a
 * replica's function, or if replicas make different numbers of merge calls. */
TF_CAPI_EXPORT extern void WEFT_StrategyRun(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_TraceMode mode,
                                            WEFT_ReplicaFn fn, WEFT_Value *const *args, int num_args,
                                            WEFT_Value **results, int num_results, void *user,
                                            TF_Status *status);

/* In cross-replica context. One tensor of all replicas' values; axis >= 0: reduced along that axis, too,
 * where a mean is weighted by the sizes. Errors: FAILED_PRECONDITION in another context. */
TF_CAPI_EXPORT extern TF_Output WEFT_StrategyReduce(WEFT_Strategy *strategy, TF_Graph *graph,
                                                    WEFT_ReduceOp op, const WEFT_Value *value, int axis,
                                                    TF_Status *status);
/* In cross-replica context: the reduction of values[i] into out[i], mirrored on the replicas' devices;
 * packed. */
TF_CAPI_EXPORT extern void WEFT_StrategyBatchReduce(WEFT_Strategy *strategy, TF_Graph *graph,
                                                    WEFT_ReduceOp op, WEFT_Value *const *values, int n,
                                                    WEFT_Value **out, TF_Status *status);
/* In cross-replica context: replicas' tensors joined along the axis, in order. */
TF_CAPI_EXPORT extern TF_Output WEFT_StrategyGather(WEFT_Strategy *strategy, TF_Graph *graph,
                                                    const WEFT_Value *value, int axis, TF_Status *status);
/* Describes the update of one copy (or part), whose handle is `component`; args are that copy's. */
typedef TF_Operation *(*WEFT_UpdateFn)(TF_Graph *graph, WEFT_Variable *variable, TF_Output component,
                                       TF_Output const *args, int num_args, void *user, TF_Status *status);
/* In cross-replica context: calls fn for each copy of the variable, on its device; a mirrored or plain
 * argument is the copy's own. Returns the operation that ends when all have been updated. */
TF_CAPI_EXPORT extern TF_Operation *WEFT_StrategyUpdate(WEFT_Strategy *strategy, TF_Graph *graph,
                                                        WEFT_Variable *variable, WEFT_UpdateFn fn,
                                                        WEFT_Value *const *args, int num_args, void *user,
                                                        TF_Status *status);

/* ---- inside a replica's function ---- */

/* 0 .. replicas - 1. With WEFT_TRACE_ONCE there is no answer: -1, and WEFT_StrategyRun ends with
 * FAILED_PRECONDITION. */
TF_CAPI_EXPORT extern int WEFT_ReplicaId(WEFT_ReplicaContext *context);
TF_CAPI_EXPORT extern int WEFT_NumReplicas(const WEFT_ReplicaContext *context);
TF_CAPI_EXPORT extern TF_Graph *WEFT_ReplicaGraph(const WEFT_ReplicaContext *context);
TF_CAPI_EXPORT extern TF_Output WEFT_ReplicaAllReduce(WEFT_ReplicaContext *context, WEFT_ReduceOp op,
                                                      TF_Output value, TF_Status *status);
/* Several at once: packed as the strategy's options say. `out` has n. */
TF_CAPI_EXPORT extern void WEFT_ReplicaBatchAllReduce(WEFT_ReplicaContext *context, WEFT_ReduceOp op,
                                                      const TF_Output *values, int n, TF_Output *out,
                                                      TF_Status *status);
TF_CAPI_EXPORT extern TF_Output WEFT_ReplicaAllGather(WEFT_ReplicaContext *context, TF_Output value, int axis,
                                                      TF_Status *status);
/* A merge of all replicas: fn is called once, in cross-replica context, with the replicas' arguments as
 * per-replica values; each replica continues with its own part of the results. */
typedef void (*WEFT_MergeFn)(WEFT_Strategy *strategy, TF_Graph *graph, WEFT_Value *const *args, int num_args,
                             WEFT_Value **results, int num_results, void *user, TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_ReplicaMergeCall(WEFT_ReplicaContext *context, WEFT_MergeFn fn,
                                                 const TF_Output *args, int num_args, TF_Output *results,
                                                 int num_results, void *user, TF_Status *status);

/* ---- input ---- */

/* In cross-replica context: replica i of N gets the rows [i*B/N, (i+1)*B/N) of the batch. */
TF_CAPI_EXPORT extern WEFT_Value *WEFT_DistributeBatch(WEFT_Strategy *strategy, TF_Graph *graph,
                                                       TF_Output batch, TF_Status *status);
/* Of pipeline `pipeline` (a task of a multi-worker strategy; else 0). */
TF_CAPI_EXPORT extern WEFT_InputContext WEFT_StrategyInputContext(const WEFT_Strategy *strategy,
                                                                  int pipeline);

/* ---- rewriting finished graphs: to look at, or to run in sessions of the program's own. weft/job.h rewrites
 * and runs ---- */

typedef struct WEFT_Rewrite WEFT_Rewrite;
/* Names of the single-device graph, "node" or "node:0"; arrays end with NULL, and may be NULL. */
typedef struct WEFT_RewriteNames {
  const char *const *feeds, *const *fetches, *const *targets, *const *inits;
} WEFT_RewriteNames;
/* Applies "mirrored:4", "parameter_server:mode=async", ... to a serialized GraphDef. `cluster` NULL: one
 * process, with devices CPU:0 .. as many as it needs and the accelerators that it has; `cpus_per_task` of
 * each task of a cluster. `names` NULL: none. A session for replicas on accelerators needs
 * ConfigProto.allow_soft_placement. The caller owns the result. Errors: NOT_FOUND for an unknown strategy;
 * INVALID_ARGUMENT naming the option, or the node that cannot be rewritten and why. */
TF_CAPI_EXPORT extern WEFT_Rewrite *WEFT_RewriteGraph(const TF_Buffer *graph_def, const char *strategy,
                                                      const WEFT_Cluster *cluster, int cpus_per_task,
                                                      const WEFT_RewriteNames *names, TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_DeleteRewrite(WEFT_Rewrite *rewrite); /* NULL is fine */
/* The new graph, serialized; the caller deletes it. */
TF_CAPI_EXPORT extern TF_Buffer *WEFT_RewriteGraphDef(const WEFT_Rewrite *rewrite, TF_Status *status);
/* CPU devices that a local session needs (ConfigProto.device_count). */
TF_CAPI_EXPORT extern int WEFT_RewriteNumLocalCPUs(const WEFT_Rewrite *rewrite);
/* For people: the rewrite, the placement, bytes per step. Lent. */
TF_CAPI_EXPORT extern const char *WEFT_RewriteExplain(const WEFT_Rewrite *rewrite);
/* Worker loops: each is a step that a thread of its own runs repeatedly. Most strategies have one. */
TF_CAPI_EXPORT extern int WEFT_RewriteNumWorkerLoops(const WEFT_Rewrite *rewrite);
TF_CAPI_EXPORT extern int WEFT_RewriteWorkerLoopIsUpdate(const WEFT_Rewrite *rewrite,
                                                         int loop); /* 1: fed nothing; the chief's side */
typedef enum WEFT_RewriteNameKind {
  WEFT_REWRITE_FEED,
  WEFT_REWRITE_FETCH,
  WEFT_REWRITE_TARGET
} WEFT_RewriteNameKind;
/* Name number i of that kind in the new graph; feeds, fetches and targets are in the order asked for. Lent;
 * NULL behind the last. */
TF_CAPI_EXPORT extern const char *WEFT_RewriteWorkerLoopName(const WEFT_Rewrite *rewrite, int loop,
                                                             WEFT_RewriteNameKind kind, int i);
/* Not 0: RunOptions.experimental.collective_graph_key of every run, where other clients run the other
 * replicas. */
TF_CAPI_EXPORT extern int64_t WEFT_RewriteCollectiveGraphKey(const WEFT_Rewrite *rewrite);
/* Targets to run once before, in order: those asked for, then others. Lent; NULL behind the last. */
TF_CAPI_EXPORT extern const char *WEFT_RewriteInit(const WEFT_Rewrite *rewrite, int i);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_STRATEGY_H_ */
