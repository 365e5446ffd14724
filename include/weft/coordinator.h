/* weft/coordinator.h - one program schedules work on the workers that are alive.
 *
 * A *coordinator* serves a cluster of parameter servers and workers. Work is a
 * *closure*: a small graph that each worker has a copy of, with inputs, outputs
 * and targets. WEFT_Schedule() puts one call of a closure into a queue and returns
 * at once with a *remote value*, its future results; any worker that is free takes
 * the oldest call and runs it in a session of its own, at its own master, which sees
 * the parameter servers and that worker only. Variables live on the parameter
 * servers, so all workers see them; closures run in no particular order and several
 * at once.
 *
 * When a worker dies or is restarted, the call that it had goes back to the queue and
 * others take it; when it is back, its sessions and its per-worker values are built
 * again and it takes calls again. So a call runs at least once, and may have had
 * effects before. With `effectively_once`, updates that a closure guards by
 * WEFT_WorkerContextApplyOnce() take effect exactly once all the same.
 *
 * When a call itself fails, WEFT_Join(), WEFT_Schedule() or WEFT_Done() reports the
 * first failure, once; what ran or waited is cancelled then, and nothing runs any more
 * when they return. The coordinator can be used on. A parameter server that is lost
 * takes its variables along: that failure is UNAVAILABLE and
 * WEFT_CoordinatorErrorIsParameterServerLoss() tells it from all others; the program
 * restarts the server, restores its checkpoint, and schedules again.
 *
 * All functions may be called from any thread, unless they say otherwise. `status` is
 * always set. Times are in seconds.
 */
#ifndef WEFT_COORDINATOR_H_
#define WEFT_COORDINATOR_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "weft/cluster.h"
#include "weft/input.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_Coordinator WEFT_Coordinator;
typedef struct WEFT_Closure WEFT_Closure;
typedef struct WEFT_RemoteValue WEFT_RemoteValue;
typedef struct WEFT_PerWorker WEFT_PerWorker;
typedef struct WEFT_WorkerContext WEFT_WorkerContext;

/* ---- the coordinator ---- */

typedef enum WEFT_CoordinatorEventKind {
  WEFT_EVENT_WORKER_READY,     /* connected: takes calls from now on */
  WEFT_EVENT_WORKER_LOST,      /* lost, restarted or silent; its calls go back to the queue */
  WEFT_EVENT_CLOSURE_STARTED,  /* a worker has taken a call */
  WEFT_EVENT_CLOSURE_DONE,     /* its results are here */
  WEFT_EVENT_CLOSURE_PUT_BACK, /* it will be run again; the text says why */
  WEFT_EVENT_CLOSURE_FAILED,   /* its failure will be reported */
  WEFT_EVENT_RESOURCE_STARTED, /* a per-worker value is about to be built */
  WEFT_EVENT_RESOURCE_READY,   /* it is built */
  WEFT_EVENT_PS_REPORTED,      /* a parameter server could not be reached, for now */
  WEFT_EVENT_PS_LOST,          /* it is lost */
  WEFT_EVENT_WATCHDOG          /* nothing has ended for watchdog_s; the text is the coordinator's state */
} WEFT_CoordinatorEventKind;
typedef struct WEFT_CoordinatorEvent {
  WEFT_CoordinatorEventKind kind;
  int worker;       /* which one's thread tells it; -1: none's */
  const char *text; /* for people; lent for the call */
} WEFT_CoordinatorEvent;
/* Called on the coordinator's own threads, several at once. Must not call what may wait for the coordinator:
 * WEFT_Schedule, WEFT_Join, WEFT_Done, WEFT_Fetch, WEFT_DeleteCoordinator. */
typedef void (*WEFT_CoordinatorEventFn)(void *user, const WEFT_CoordinatorEvent *event);

typedef struct WEFT_CoordinatorOptions {
  size_t struct_size;               /* set by WEFT_InitCoordinatorOptions */
  const char *worker_job, *ps_job;  /* "worker", "ps"; lent until the coordinator is made */
  int queue_capacity;               /* length of the queue; WEFT_Schedule blocks when it is full. 262144 */
  double worker_recovery_timeout_s; /* seconds until a lost worker that does not return is reported. 3600 */
  int ignore_transient_ps_reports;  /* failed attempts to reach a parameter server before it counts as lost. 3
                                     */
  int effectively_once; /* 0: guards of WEFT_WorkerContextApplyOnce let every run pass; 1: one per call. 0 */
  double poll_s;        /* interval of probes; a task that misses two is lost. 1 */
  double watchdog_s;    /* 0: no watchdog. 300 */
  WEFT_CoordinatorEventFn on_event; /* NULL: losses and the watchdog are logged */
  void *event_user;
} WEFT_CoordinatorOptions;
/* Fills in the defaults named above. */
TF_CAPI_EXPORT extern void WEFT_InitCoordinatorOptions(WEFT_CoordinatorOptions *options);

/* Starts a thread per worker and one that watches the tasks. Does not wait for the tasks: a worker takes
 * calls as soon as it is up. `cluster` is copied; `options` NULL: the defaults. The caller owns the result;
 * NULL on failure. Errors: INVALID_ARGUMENT (no workers; an option out of range), RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_Coordinator *WEFT_NewCoordinator(const WEFT_Cluster *cluster,
                                                            const WEFT_CoordinatorOptions *options,
                                                            TF_Status *status);
/* Cancels all calls, running or queued (their remote values end with CANCELLED), ends all threads, closes all
 * sessions. Closures, remote values and per-worker values may be deleted before or after. No other call may
 * be in progress. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteCoordinator(WEFT_Coordinator *coordinator);
TF_CAPI_EXPORT extern int WEFT_CoordinatorNumWorkers(const WEFT_Coordinator *coordinator);

/* ---- closures ---- */

/* Describes the closure's graph for one worker: adds nodes to `graph`, and names inputs, outputs and targets
 * to `context`. Called once for each worker, on that worker's thread, before its first call of the closure;
 * the graph is kept for the sessions that replace it after a recovery. Nodes without a device run on the
 * worker. `graph` and `context` are lent for the call. A failure that it leaves in `status` fails the call
 * that needed the graph. */
typedef void (*WEFT_BuildFn)(TF_Graph *graph, WEFT_WorkerContext *context, void *user, TF_Status *status);

/* A closure that `build` describes. `destroy` (may be NULL) is called with `user` when it is no longer in
 * use, on any thread. The caller owns the result. Errors: RESOURCE_EXHAUSTED (destroy is not called then).
 */
TF_CAPI_EXPORT extern WEFT_Closure *WEFT_NewClosure(WEFT_Coordinator *coordinator, WEFT_BuildFn build,
                                                    void *user, void (*destroy)(void *user),
                                                    TF_Status *status);

/* What a worker feeds, fetches and runs of a graph: names "node" or "node:0". */
typedef struct WEFT_ClosureNames {
  const char *const *inputs;
  int num_inputs;
  const char *const *outputs;
  int num_outputs;
  const char *const *targets;
  int num_targets;
} WEFT_ClosureNames;
/* A closure of a ready graph, a serialized GraphDef: for graphs that a strategy has rewritten, where each
 * worker has nodes of its own. names[i] is worker i's, num_names as many as there are workers; or num_names
 * 1: the same for all. All have as many inputs and as many outputs. A worker's session gets only those nodes
 * that its names need, which must be on its own devices or the parameter servers'. Everything is copied.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_Closure *WEFT_NewClosureFromGraphDef(WEFT_Coordinator *coordinator,
                                                                const TF_Buffer *graph_def,
                                                                const WEFT_ClosureNames *names, int num_names,
                                                                TF_Status *status);
/* Calls that are scheduled still run. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteClosure(WEFT_Closure *closure);

/* ---- inside WEFT_BuildFn; texts are lent for the call ---- */

TF_CAPI_EXPORT extern int WEFT_WorkerContextIndex(const WEFT_WorkerContext *context); /* 0 .. workers - 1 */
TF_CAPI_EXPORT extern int WEFT_WorkerContextNumWorkers(const WEFT_WorkerContext *context);
TF_CAPI_EXPORT extern int WEFT_WorkerContextNumParameterServers(const WEFT_WorkerContext *context);
/* "/job:worker/replica:0/task:1": this worker, for TF_SetDevice. */
TF_CAPI_EXPORT extern const char *WEFT_WorkerContextDevice(const WEFT_WorkerContext *context);
/* "/job:ps/replica:0/task:0": parameter server number i, 0 <= i < their number; else NULL. */
TF_CAPI_EXPORT extern const char *WEFT_WorkerContextParameterServerDevice(const WEFT_WorkerContext *context,
                                                                          int i);
/* The next input, output or target of the closure. Inputs are placeholders, fed with the call's arguments in
 * order. */
TF_CAPI_EXPORT extern void WEFT_WorkerContextAddInput(WEFT_WorkerContext *context, TF_Output input);
TF_CAPI_EXPORT extern void WEFT_WorkerContextAddOutput(WEFT_WorkerContext *context, TF_Output output);
TF_CAPI_EXPORT extern void WEFT_WorkerContextAddTarget(WEFT_WorkerContext *context,
                                                       const TF_Operation *target);
/* An int64 scalar that is fed with the number of the call. With effectively_once it stays the same when the
 * call is run again; otherwise each run has a number of its own. Always the same placeholder of a graph.
 * Errors: RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern TF_Output WEFT_WorkerContextClosureId(WEFT_WorkerContext *context, TF_Graph *graph,
                                                            TF_Status *status);
/* Guards updates of variables on parameter server `ps`: guarded[i] is values[i], brought there, in the first
 * run of the call that gets so far; in a run that repeats it, guarded[i] is dead, and so is every node that
 * depends on it. From the guard on, the updates on that server are done whatever happens to the worker and to
 * the step, as long as all that they need is there: they may depend on guarded values, variables and
 * constants on that server, and nothing else. A call's updates on one server belong behind one guard, or each
 * has a guard of its own; one guard is not a condition for another server's. Nodes that depend on guarded
 * values may be targets, but not outputs. The parameter servers remember the last 1048576 calls. Where that
 * server's part of the graph has loops (While), a worker's death may still come between a guard and its
 * updates. num_values >= 1. Errors: INVALID_ARGUMENT (no such server), RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern void WEFT_WorkerContextApplyOnce(WEFT_WorkerContext *context, TF_Graph *graph, int ps,
                                                       const TF_Output *values, int num_values,
                                                       TF_Output *guarded, TF_Status *status);

/* ---- calls ---- */

typedef enum WEFT_ArgKind {
  WEFT_ARG_TENSOR, /* `tensor` is the same for all workers; its bytes must not change until the call has ended
                    */
  WEFT_ARG_PER_WORKER,  /* each worker takes its own: the next element of its dataset, or the outputs of its
                           resource */
  WEFT_ARG_REMOTE_VALUE /* refused: a remote value may not be an argument */
} WEFT_ArgKind;
typedef struct WEFT_Arg {
  WEFT_ArgKind kind;
  TF_Tensor *tensor;          /* retained */
  WEFT_PerWorker *per_worker; /* retained */
  WEFT_RemoteValue *remote_value;
} WEFT_Arg;

/* Puts a call into the queue; waits while the queue is full or a WEFT_Join is in progress. The arguments,
 * each of which stands for as many inputs as it has tensors, are the closure's inputs in order. The caller
 * owns the result, to be released; NULL on failure, and then the call is not in the queue. Errors:
 * INVALID_ARGUMENT for an argument that is refused; the first failure of earlier calls (see above); CANCELLED
 * when the coordinator is deleted. */
TF_CAPI_EXPORT extern WEFT_RemoteValue *WEFT_Schedule(WEFT_Coordinator *coordinator, WEFT_Closure *closure,
                                                      const WEFT_Arg *args, int num_args, TF_Status *status);
/* Waits until all calls have ended; new ones are held up meanwhile. timeout_s < 0: waits as long as it takes.
 * Errors: the first failure of a call; DEADLINE_EXCEEDED (work goes on). */
TF_CAPI_EXPORT extern void WEFT_Join(WEFT_Coordinator *coordinator, double timeout_s, TF_Status *status);
/* 1: all calls have ended; 0: not yet. Errors: the first failure of a call, as WEFT_Join. */
TF_CAPI_EXPORT extern int WEFT_Done(WEFT_Coordinator *coordinator, TF_Status *status);

typedef enum WEFT_RemoteState {
  WEFT_REMOTE_NOT_READY,
  WEFT_REMOTE_ABORTED,
  WEFT_REMOTE_READY
} WEFT_RemoteState;
/* ABORTED: the call failed or was cancelled. READY: the results are here, whatever happens to the worker. */
TF_CAPI_EXPORT extern WEFT_RemoteState WEFT_RemoteValueState(WEFT_RemoteValue *value);
/* How many outputs; -1 while it is not ready. */
TF_CAPI_EXPORT extern int WEFT_RemoteValueNumOutputs(WEFT_RemoteValue *value);
/* Waits until the call has ended and copies its outputs 0 .. n-1 to out, which the caller deletes; several
 * tensors of one output share their bytes: do not change them. On failure out is all NULL. Errors: the call's
 * own failure; CANCELLED if it was cancelled because of another's; INVALID_ARGUMENT if it has fewer outputs.
 */
TF_CAPI_EXPORT extern void WEFT_Fetch(WEFT_RemoteValue *value, TF_Tensor **out, int n, TF_Status *status);
/* The call still runs. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_RemoteValueRelease(WEFT_RemoteValue *value);

/* 1 if `status` says that a parameter server is lost, 0 otherwise. `*task` (may be NULL) gets its number, or
 * -1. */
TF_CAPI_EXPORT extern int WEFT_CoordinatorErrorIsParameterServerLoss(const TF_Status *status, int *task);

/* ---- what each worker has of its own ---- */

/* A stream of elements. All functions are called by one thread at a time. */
typedef struct WEFT_Generator {
  void *self;
  /* Fills out[0 .. n-1], n <= max, with new tensors for the coordinator to delete, and returns n. A failure
   * in status ends the call that asked for the element; OUT_OF_RANGE says that there are no more. */
  int (*next)(void *self, TF_Tensor **out, int max, TF_Status *status);
  void (*destroy)(void *self); /* may be NULL */
} WEFT_Generator;
/* Opens the stream of one worker at its beginning; called on the worker's thread, again after each recovery.
 */
typedef void (*WEFT_DatasetFn)(const WEFT_InputContext *context, void *user, WEFT_Generator *out,
                               TF_Status *status);
/* Each worker gets a stream of its own. As an argument of a call it stands for the next element of the stream
 * of the worker that runs the call. `user` must live as long as the coordinator and the value. The caller
 * owns the result. Errors: RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_PerWorker *WEFT_CreatePerWorkerDataset(WEFT_Coordinator *coordinator,
                                                                  WEFT_DatasetFn open, void *user,
                                                                  TF_Status *status);
/* The graph that `build` describes (without inputs) runs once on each worker, before it takes calls, and
 * again after each recovery; as an argument the value stands for the outputs of that run: resource handles,
 * or nothing at all where closures find what was made by its name. The caller owns the result. Errors:
 * RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_PerWorker *WEFT_CreatePerWorkerResource(WEFT_Coordinator *coordinator,
                                                                   WEFT_BuildFn build, void *user,
                                                                   TF_Status *status);
/* NOT_READY before it was first built, ABORTED from the worker's loss until it is built again, or if building
 * failed. */
TF_CAPI_EXPORT extern WEFT_RemoteState WEFT_PerWorkerState(WEFT_PerWorker *value, int worker);
/* Calls that are scheduled still have it. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeletePerWorker(WEFT_PerWorker *value);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_COORDINATOR_H_ */
