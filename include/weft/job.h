/* weft/job.h - a graph run step by step: fed with batches, saved, resumed, stopped; on one device or under a
 * strategy.
 *
 * A *job* takes a single-device graph, which nodes of it initialise, which are run at each step, and where
 * its inputs come from. With a strategy ("mirrored:2", "parameter_server:mode=async") it rewrites the graph
 * for the devices of a master's cluster; without one the graph runs as it is. WEFT_JobRun() then runs steps:
 * it splits batches, runs a *worker loop* for each client thread that the strategy asks for, brings them to a
 * stop between two steps to save, and watches the master. `weft submit` is a command line around these
 * functions.
 *
 *    WEFT_Job *job = WEFT_NewJob(graph_def, "grpc://host:2222", &options, status);
 *    WEFT_JobAddInitialiser(job, "init", status);
 *    WEFT_JobAddTarget(job, "train", status);
 *    int loss = WEFT_JobAddFetch(job, "loss", status);
 *    WEFT_JobInputFile(job, "images", "images.npy", WEFT_JOB_ROWS, status);
 *    WEFT_JobOnStep(job, show_loss, &loss, status);
 *    WEFT_JobSaveEvery(job, "run/model", 500, 0, status);
 *    WEFT_JobRun(job, 5000, status);
 *    WEFT_DeleteJob(job);
 *
 * States. What stands beside an arrow makes the change; any other call in a state fails with
 * FAILED_PRECONDITION, and changes nothing.
 *
 *    WEFT_NewJob --> CREATED --WEFT_JobInitialise, WEFT_JobResume, WEFT_JobRun, WEFT_JobStep--> INITIALISED
 *    INITIALISED --WEFT_JobRun, WEFT_JobStep--> RUNNING --the steps are done--> INITIALISED
 *    RUNNING --a checkpoint is due--> SAVING --it is written--> RUNNING
 *    INITIALISED --WEFT_JobSave--> SAVING --it is written--> INITIALISED
 *    RUNNING --the step callback asks for it, a source has ended, WEFT_JobStop--> STOPPED
 *       (a source in the graph has ended when a node that takes from an iterator or a queue says
 * OUT_OF_RANGE) CREATED, INITIALISED, SAVING --WEFT_JobStop--> STOPPED CREATED, INITIALISED, RUNNING, SAVING
 * --a failure of what runs--> FAILED STOPPED, FAILED --WEFT_JobResume--> INITIALISED
 *
 * A wrong name or value in CREATED (WEFT_JobAdd..., WEFT_JobInput...) is reported and changes nothing; what
 * fails while a job initialises, runs or saves makes it FAILED.
 *
 * Threads. One thread at a time calls a job's functions; WEFT_JobStop(), WEFT_JobGetState() and
 * WEFT_JobStepsDone() may be called by any thread at any time, callbacks included. Texts are copied. `status`
 * is always set. Each error names the input, node, file or function that it is about.
 */
#ifndef WEFT_JOB_H_
#define WEFT_JOB_H_

#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_Job WEFT_Job;

typedef enum WEFT_JobState {
  WEFT_JOB_CREATED,     /* is being described; nothing has run */
  WEFT_JOB_INITIALISED, /* has a session; its variables have values */
  WEFT_JOB_RUNNING,
  WEFT_JOB_SAVING,  /* no step runs; variables are read */
  WEFT_JOB_STOPPED, /* ends without an error; runs no more steps unless it is resumed */
  WEFT_JOB_FAILED
} WEFT_JobState;

/* ---- making one ---- */

typedef struct WEFT_JobOptions {
  size_t struct_size;    /* set by WEFT_InitJobOptions */
  const char *strategy;  /* "name:options" (`weft inspect --help` lists them); NULL: the graph as it is */
  const char *container; /* variables, queues, tables are kept in it: jobs of one graph with different ones
                            share nothing. NULL: the graph's own */
  int64_t batch;         /* rows of a batch; 0: no input is cut */
  int shuffle;           /* 1: rows come in a new order in each epoch */
  uint64_t seed;         /* of the shuffling. 1 */
  int keep;              /* checkpoints that stay; 0: all. 5 */
  int restore_partly; /* 1: variables that a checkpoint lacks keep the values that the initialisers give them
                       */
  const char
      *trace; /* a file that WEFT_JobRun writes: the time line of its last step, for Perfetto; NULL: none */
  double wait_seconds; /* how long a master is waited for that does not listen yet; 0: not at all. 0 */
  const char
      *passes; /* of graph optimisation: "a,b,-c" (`weft submit --help` lists them); NULL: the master's */
} WEFT_JobOptions;
/* The defaults named above; all else NULL or 0. */
TF_CAPI_EXPORT extern void WEFT_InitJobOptions(WEFT_JobOptions *options);

/* A job of a serialized GraphDef (copied), at a master "grpc://host:port"; NULL: in this process. `options`
 * NULL: the defaults. Nothing is connected or run yet. The caller owns the result; NULL on failure. Errors:
 * INVALID_ARGUMENT (not a graph; an option), NOT_FOUND (an op that is unknown), RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern WEFT_Job *WEFT_NewJob(const TF_Buffer *graph_def, const char *master,
                                            const WEFT_JobOptions *options, TF_Status *status);
/* Stops it if it is initialised, and closes its session: waits for the master's answer. No other call may be
 * in progress. Variables on a cluster stay. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteJob(WEFT_Job *job);

/* ---- what runs (in CREATED) ---- */

/* A node that runs once before the steps; several in the order in which they are added. It is fed whole
 * arrays of those inputs that it depends on. Errors (of these three): NOT_FOUND naming the node, with the
 * name that may have been meant. */
TF_CAPI_EXPORT extern void WEFT_JobAddInitialiser(WEFT_Job *job, const char *node, TF_Status *status);
/* A node that runs at each step. */
TF_CAPI_EXPORT extern void WEFT_JobAddTarget(WEFT_Job *job, const char *node, TF_Status *status);
/* A tensor, "node" or "node:1", that is fetched at each step. Returns its index for WEFT_JobValue(), -1 on
 * failure; a tensor that is added twice keeps its index. Under a strategy: the value of the whole batch, as
 * the graph on one device would give it. */
TF_CAPI_EXPORT extern int WEFT_JobAddFetch(WEFT_Job *job, const char *name, TF_Status *status);

/* ---- what is fed (in CREATED) ---- */

typedef enum WEFT_JobFeeding {
  WEFT_JOB_WHOLE, /* the same value at each step */
  WEFT_JOB_ROWS   /* the next options.batch rows, the same rows of all inputs given so; the last batch of an
                     epoch may have fewer */
} WEFT_JobFeeding;

/* An array. The job shares its elements, which must not change; the tensor itself may be deleted. ROWS:
 * [rows, ...], of a dtype whose elements have one size. Errors (also of the next): NOT_FOUND;
 * INVALID_ARGUMENT: another dtype than the graph's, other rows than another array, an input that is given
 * twice. */
TF_CAPI_EXPORT extern void WEFT_JobInputTensor(WEFT_Job *job, const char *name, const TF_Tensor *value,
                                               WEFT_JobFeeding how, TF_Status *status);
/* An array from a NumPy file (.npy), read now. Errors: also those of the file. */
TF_CAPI_EXPORT extern void WEFT_JobInputFile(WEFT_Job *job, const char *name, const char *path,
                                             WEFT_JobFeeding how, TF_Status *status);

/* Gives batch number `batch` (from 0; after WEFT_JobResume, from the number that comes next): sets values[0
 * .. num_values - 1] to new tensors, which the job deletes, or leaves all of them NULL: the data have ended,
 * and so does the run. A failure in `status` fails the job. Values that come from one source have equally
 * many rows, which may differ between batches; dtypes and shapes must be those of the graph. Called on
 * threads of the job, one call at a time; it may call WEFT_JobStop, and nothing else that waits for the job.
 */
typedef void (*WEFT_JobSourceFn)(void *arg, int64_t batch, TF_Tensor **values, int num_values,
                                 TF_Status *status);
/* `num_names` inputs whose values a function gives for each step. Under a strategy an input that is not a
 * scalar in the graph is a batch, which is split over replicas by rows. Errors: NOT_FOUND; INVALID_ARGUMENT.
 */
TF_CAPI_EXPORT extern void WEFT_JobInputSource(WEFT_Job *job, const char *const *names, int num_names,
                                               WEFT_JobSourceFn fn, void *arg, TF_Status *status);

/* ---- what is told (in CREATED) ---- */

/* After step `step`, counted from 1 over all runs of a job that was resumed. Return 0 to go on, anything else
 * to stop: the steps in flight are completed, the state is saved if the job saves, and WEFT_JobRun() ends
 * without an error. WEFT_JobValue() gives the values that were fetched last. Called on threads of the job,
 * one call at a time and in order; steps wait for it. It may call WEFT_JobStop, WEFT_JobGetState,
 * WEFT_JobStepsDone and WEFT_JobValue. */
typedef int (*WEFT_JobStepFn)(void *arg, WEFT_Job *job, int64_t step);
TF_CAPI_EXPORT extern void WEFT_JobOnStep(WEFT_Job *job, WEFT_JobStepFn fn, void *arg, TF_Status *status);

typedef enum WEFT_JobEventKind {
  WEFT_JOB_EVENT_RESTORED, /* variables were set: num_restored of num_variables, from `path` */
  WEFT_JOB_EVENT_RESUMED, /* variables were set, and step `step` of an earlier run is done; `note`: the reason
                             why the data begin with the first row, or an iterator of the graph anew */
  WEFT_JOB_EVENT_NOTHING_TO_RESUME, /* no checkpoint `path`-* was found: the job begins with its first step */
  WEFT_JOB_EVENT_SAVED,   /* the state after step `saved_step`, as `path`; `step` are done; `note`: which
                             iterators of the graph could not be saved, said once */
  WEFT_JOB_EVENT_WAITING, /* the master `path` has not answered for 10 s: some task of its cluster may not be
                             running */
  WEFT_JOB_EVENT_MASTER_LOST,  /* the master `path` takes no connections: the job fails with UNAVAILABLE */
  WEFT_JOB_EVENT_NO_MASTER_YET /* no server listens at `path` yet: the job waits for one, for
                                  options.wait_seconds at most. Told once */
} WEFT_JobEventKind;
typedef struct WEFT_JobEvent { /* lent for the call */
  WEFT_JobEventKind kind;
  int64_t step, saved_step;
  const char *path, *note; /* NULL: none */
  int num_restored, num_variables;
} WEFT_JobEvent;
/* As WEFT_JobStepFn; WAITING and MASTER_LOST may come at the same time as another call. */
typedef void (*WEFT_JobEventFn)(void *arg, WEFT_Job *job, const WEFT_JobEvent *event);
TF_CAPI_EXPORT extern void WEFT_JobOnEvent(WEFT_Job *job, WEFT_JobEventFn fn, void *arg, TF_Status *status);

/* ---- what is kept (in CREATED; docs/saving.md) ---- */

/* Saves all variables and the position in the data as the checkpoint PREFIX-STEP, which TensorFlow reads: at
 * the end of each WEFT_JobRun, after every `steps` steps (0: not by steps) or every `seconds` seconds (0: not
 * by time). Not both. Errors: INVALID_ARGUMENT. */
TF_CAPI_EXPORT extern void WEFT_JobSaveEvery(WEFT_Job *job, const char *prefix, int64_t steps, double seconds,
                                             TF_Status *status);
/* After the initialisers, variables get the values of this checkpoint (a directory: its latest); steps count
 * from 0. */
TF_CAPI_EXPORT extern void WEFT_JobRestore(WEFT_Job *job, const char *path, TF_Status *status);

/* ---- what is logged (in CREATED; docs/tensorboard.md) ---- */

typedef struct WEFT_JobLogOptions {
  size_t struct_size;    /* set by WEFT_InitJobLogOptions */
  int64_t every;         /* steps between two events; values are those of the last step. 1 */
  int64_t profile_every; /* one of so many steps is traced: times and memory of its nodes; 0: none. 0 */
  int norms;             /* 1: norms of each gradient that an optimizer applies, and of its variable behind
                            the update, which nodes of the job compute. 0 */
} WEFT_JobLogOptions;
/* The defaults named above. */
TF_CAPI_EXPORT extern void WEFT_InitJobLogOptions(WEFT_JobLogOptions *options);

/* Writes what TensorBoard shows as an event file in `directory`, which is made: each fetch that is a number,
 * a Summary or a text, under its name; the learning rate that optimizers apply; the speed of steps and how
 * long they waited for input; the graph, and the graph that the strategy made of it; hyperparameters. It is
 * written every few seconds and when a run ends. A disk that fails fails the job; the error names the file.
 * Of several clients of one training (a client per worker) the first writes. `options` NULL: the defaults.
 * Errors: INVALID_ARGUMENT. */
TF_CAPI_EXPORT extern void WEFT_JobLog(WEFT_Job *job, const char *directory,
                                       const WEFT_JobLogOptions *options, TF_Status *status);
/* A hyperparameter of the job for its log, beside "strategy", "cluster", "devices", "batch", "shuffle",
 * "seed" and "steps", which the job adds itself: a number if `value` reads as one, true or false, or a text.
 * A name that comes again gets another value. Errors: INVALID_ARGUMENT for what is not UTF-8. */
TF_CAPI_EXPORT extern void WEFT_JobLogHyperparameter(WEFT_Job *job, const char *name, const char *value,
                                                     TF_Status *status);

/* ---- running ---- */

/* CREATED -> INITIALISED. Reads the checkpoint, rewrites the graph for the master's devices, opens the
 * session, runs the initialisers, restores. WEFT_JobRun does it if it was not done. Errors: UNAVAILABLE (no
 * master at the address, and none within options.wait_seconds), those of the strategy, of the checkpoint and
 * of the initialisers; INVALID_ARGUMENT (there is nothing to make batches of); CANCELLED by WEFT_JobStop. */
TF_CAPI_EXPORT extern void WEFT_JobInitialise(WEFT_Job *job, TF_Status *status);
/* CREATED, STOPPED, FAILED -> INITIALISED. The same, but goes on from the newest checkpoint of
 * WEFT_JobSaveEvery: its variables, its step, its place in the data. Without one it begins as
 * WEFT_JobInitialise does. After a loss (a failed job) it opens a new session; the cluster must be up again.
 * Errors: also FAILED_PRECONDITION without WEFT_JobSaveEvery. */
TF_CAPI_EXPORT extern void WEFT_JobResume(WEFT_Job *job, TF_Status *status);
/* Runs until `steps` steps are done in all, those before a resume included; none if they are. Then saves, and
 * writes the trace. OK with fewer steps (state STOPPED) if the step callback stopped it or a source has
 * ended; WEFT_JobStepsDone tells. Strategies whose late workers are cancelled at the end (backup workers) run
 * once: the job is STOPPED then. Errors: the first failure of a step, a source or a save; CANCELLED by
 * WEFT_JobStop, with nothing saved. */
TF_CAPI_EXPORT extern void WEFT_JobRun(WEFT_Job *job, int64_t steps, TF_Status *status);
/* Runs one more step: WEFT_JobRun without the save at the end. */
TF_CAPI_EXPORT extern void WEFT_JobStep(WEFT_Job *job, TF_Status *status);
/* In INITIALISED: saves now. No file is written for a state that is saved already. Errors:
 * FAILED_PRECONDITION without WEFT_JobSaveEvery; those of the files. */
TF_CAPI_EXPORT extern void WEFT_JobSave(WEFT_Job *job, TF_Status *status);
/* Ends a step, an initialiser or a wait that is in progress, on the cluster, too, and returns at once; the
 * function that ran it reports CANCELLED. Any thread. In STOPPED and FAILED: does nothing. */
TF_CAPI_EXPORT extern void WEFT_JobStop(WEFT_Job *job);

/* ---- looking at it ---- */

TF_CAPI_EXPORT extern WEFT_JobState WEFT_JobGetState(const WEFT_Job *job);
/* Steps that are done, those before a resume included. */
TF_CAPI_EXPORT extern int64_t WEFT_JobStepsDone(const WEFT_Job *job);
/* What fetch number `fetch` gave last. Lent: until the next step, or during a callback. NULL before the first
 * step. */
TF_CAPI_EXPORT extern const TF_Tensor *WEFT_JobValue(const WEFT_Job *job, int fetch);
/* The newest checkpoint of WEFT_JobSaveEvery's prefix that this job has written or resumed from: its file
 * name without the directory; lent until the next save. NULL: none. */
TF_CAPI_EXPORT extern const char *WEFT_JobLastCheckpoint(const WEFT_Job *job);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_JOB_H_ */
