/* weft/kv.h - a table of keys and values on parameter servers, as a worker sees it.
 *
 * The keys are spread over the tasks of a job; each has its part of the table. A
 * worker pushes values, which the table's rule adds, assigns or takes for
 * gradients, and pulls them. A request is split by server; a server that has none of
 * its keys gets no message. Requests run in the background: each has a timestamp,
 * which says whether it is done. Pushes and pulls are queued by priority, per server.
 *
 * A message that is not answered is sent again, and again later each time; a push
 * that arrives twice is applied once. When a server stays away too long the request
 * ends with DEADLINE_EXCEEDED. A server that was killed and started again has an
 * empty table: requests to it wait until its part is restored.
 *
 * With another policy than ASP, a worker's clock counts its WEFT_KvAdvance() calls, and
 * a pull waits for the others as the policy says.
 *
 * Sources: ps-lite's KVWorker (reference strategies 3.2).
 */
#ifndef WEFT_KV_H_
#define WEFT_KV_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "weft/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_KvWorker WEFT_KvWorker; /* Thread-safe. */

/* Stands between a worker and a server, for tests: called before a request is sent (is_response 0) and when
 * its answer is there (1). Not 0: the message is lost. */
typedef int (*WEFT_KvLinkFn)(void *user, int server, int64_t timestamp, int attempt, int is_response);

typedef struct WEFT_KvOptions {
  size_t struct_size; /* set by WEFT_InitKvOptions */
  /* The table; all workers say the same. */
  const char *table;              /* its name. "kv" */
  TF_DataType dtype;              /* TF_FLOAT, TF_DOUBLE, TF_INT32, TF_INT64. TF_FLOAT */
  int64_t width;                  /* values per key; 0: each key its own number. 1 */
  const char *apply;              /* "assign", "add", "sgd", "momentum", "adagrad". "add" */
  double learning_rate, momentum; /* 0.01, 0.9 */
  const char *initializer;        /* "constant", "uniform", "normal". "constant" */
  double init_value;              /* 0 */
  int64_t seed;                   /* 0 */
  const char *policy;             /* "ASP", "BSP", "SSP", "K_OF_W". "ASP" */
  int64_t staleness, required;
  int num_workers;                 /* that have clocks. 0 */
  int takes_mean;                  /* of what a clock gathers, not the sum. 0 */
  const char *const *worker_tasks; /* NULL, or num_workers names "/job:worker/replica:0/task:0": a lost one
                                      delays no other */
  /* Which keys a server has: all by hash, or with max_key > 0 an equal part of [0, max_key) each. */
  int64_t max_key;
  /* This worker. */
  const char *job;     /* of the servers. "ps" */
  int64_t worker;      /* from 0. 0 */
  int max_outstanding; /* requests; a further one waits. At most 512. 128 */
  int resend_ms;       /* first time; then twice that, three times that. 1000 */
  int max_tries;       /* then DEADLINE_EXCEEDED; 1: nothing is sent again. 10 */
  WEFT_KvLinkFn link;  /* NULL: none */
  void *link_user;
} WEFT_KvOptions;
TF_CAPI_EXPORT extern void WEFT_InitKvOptions(WEFT_KvOptions *options);

/* Starts two threads per server and greets each, so that it knows this worker. `options` NULL: the defaults;
 * copied. The caller owns the result; NULL on failure. Errors: INVALID_ARGUMENT; UNAVAILABLE or
 * DEADLINE_EXCEEDED naming the server. */
TF_CAPI_EXPORT extern WEFT_KvWorker *WEFT_NewKvWorker(const WEFT_Cluster *cluster,
                                                      const WEFT_KvOptions *options, TF_Status *status);
/* Requests that are not done end with CANCELLED. NULL is fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteKvWorker(WEFT_KvWorker *worker);
TF_CAPI_EXPORT extern int WEFT_KvNumServers(const WEFT_KvWorker *worker);

/* Called once when a request is done, on a thread of the worker's; `code` is TF_OK or the error. It must not
 * wait. */
typedef void (*WEFT_KvDoneFn)(void *user, int64_t timestamp, TF_Code code);

/* Each copies what it is given, and returns the request's timestamp, or -1 with a status. `priority`: higher
 * goes first. `done` may be NULL. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
TF_CAPI_EXPORT extern int64_t WEFT_KvPush(WEFT_KvWorker *worker, const int64_t *keys, int64_t num_keys,
                                          const void *values, int priority, WEFT_KvDoneFn done, void *user,
                                          TF_Status *status);
/* num_keys * width values come to `values`, in the order of the keys, before the request is done. */
TF_CAPI_EXPORT extern int64_t WEFT_KvPull(WEFT_KvWorker *worker, const int64_t *keys, int64_t num_keys,
                                          void *values, int priority, WEFT_KvDoneFn done, void *user,
                                          TF_Status *status);
/* A push, and a pull of the same keys behind it, in one message per server. */
TF_CAPI_EXPORT extern int64_t WEFT_KvPushPull(WEFT_KvWorker *worker, const int64_t *keys, int64_t num_keys,
                                              const void *values, void *pulled, int priority,
                                              WEFT_KvDoneFn done, void *user, TF_Status *status);
/* For tables of width 0: lens[i] values belong to keys[i]. */
TF_CAPI_EXPORT extern int64_t WEFT_KvPushLens(WEFT_KvWorker *worker, const int64_t *keys, int64_t num_keys,
                                              const void *values, const int64_t *lens, int priority,
                                              WEFT_KvDoneFn done, void *user, TF_Status *status);
/* lens[i] gets how many values keys[i] has, and `values`, of room for max_values, all of them one behind the
 * other; the request ends with OUT_OF_RANGE if there are more. */
TF_CAPI_EXPORT extern int64_t WEFT_KvPullLens(WEFT_KvWorker *worker, const int64_t *keys, int64_t num_keys,
                                              void *values, int64_t max_values, int64_t *lens, int priority,
                                              WEFT_KvDoneFn done, void *user, TF_Status *status);
/* The worker is done with its clock, at every server. */
TF_CAPI_EXPORT extern int64_t WEFT_KvAdvance(WEFT_KvWorker *worker, WEFT_KvDoneFn done, void *user,
                                             TF_Status *status);

/* Waits until the request is done, and says how it ended. It is forgotten when max_outstanding others have
 * come after it: then NOT_FOUND. */
TF_CAPI_EXPORT extern void WEFT_KvWait(WEFT_KvWorker *worker, int64_t timestamp, TF_Status *status);
TF_CAPI_EXPORT extern int WEFT_KvIsDone(WEFT_KvWorker *worker, int64_t timestamp);

typedef struct WEFT_KvCounts {
  int64_t requests, responses; /* messages to and from servers */
  int64_t resent, duplicates;  /* requests sent again; pushes that had arrived before */
} WEFT_KvCounts;
TF_CAPI_EXPORT extern void WEFT_KvGetCounts(WEFT_KvWorker *worker, WEFT_KvCounts *counts);

/* Everything that one server has, to be kept by the caller; and back. Both wait. Errors: those of a request.
 */
typedef struct WEFT_KvSnapshot WEFT_KvSnapshot;
TF_CAPI_EXPORT extern WEFT_KvSnapshot *WEFT_KvSave(WEFT_KvWorker *worker, int server, TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_KvRestore(WEFT_KvWorker *worker, int server, const WEFT_KvSnapshot *snapshot,
                                          TF_Status *status);
TF_CAPI_EXPORT extern void WEFT_DeleteKvSnapshot(WEFT_KvSnapshot *snapshot); /* NULL is fine */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_KV_H_ */
