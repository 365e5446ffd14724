/* weft/collective.h - operations in which every member of a group of processes takes part, without any graph.
 *
 * N processes make a group: each says which rank it is and where all of them
 * listen. Then each calls the same collectives in the same order, and gets its part
 * of the result. On one host the members read straight in each other's memory;
 * between hosts they speak gRPC. All members get the same bits.
 *
 *   WEFT_CollectiveGroup *g = WEFT_NewCollectiveGroup(rank, 4, addresses, NULL, status);
 *   WEFT_AllReduceBuffer(g, gradient, gradient, 1000000, TF_FLOAT, WEFT_REDUCTION_MEAN, NULL, status);
 *   WEFT_DeleteCollectiveGroup(g);
 *
 * Threads: any thread may call at any time. Calls of the ranks belong together by their order on each rank,
 * or by WEFT_CollectiveHints.key. Calls with different keys may be made in any order.
 *
 * Errors, where the functions say nothing else, all through `status`:
 * - INVALID_ARGUMENT: the calls of the ranks differ in kind, type, shape or reduction; the message has both
 * values, and every rank gets it. Or the call itself is wrong.
 * - DEADLINE_EXCEEDED: the timeout has passed; names the ranks that did not join.
 * - UNAVAILABLE: a member has failed, or cannot be reached; names its task.
 * - CANCELLED: the group is being deleted.
 * - RESOURCE_EXHAUSTED: there is no memory.
 *
 * After an error of one collective the group can still be used, unless a member is lost.
 */
#ifndef WEFT_COLLECTIVE_H_
#define WEFT_COLLECTIVE_H_

#include "tensorflow/c/c_api.h"
#include "weft/statistics.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WEFT_CollectiveGroup WEFT_CollectiveGroup; /* the caller's; WEFT_DeleteCollectiveGroup */
typedef struct WEFT_CollectiveRequest
    WEFT_CollectiveRequest; /* one that was started; WEFT_WaitCollective ends it */

typedef enum WEFT_Reduction {
  WEFT_REDUCTION_SUM,
  WEFT_REDUCTION_MEAN, /* the sum, divided by the number of ranks; integers: towards zero */
  WEFT_REDUCTION_PROD,
  WEFT_REDUCTION_MIN,
  WEFT_REDUCTION_MAX
} WEFT_Reduction;

/* Zero is the default of every field. */
typedef struct WEFT_CollectiveGroupOptions {
  int64_t timeout_ms; /* of calls without a timeout of their own, and of the start of the other ranks; 0: ten
                         minutes */
  int num_threads;    /* that reduce and copy; 0: as many as processors */
  int only_rpc;       /* not 0: speaks gRPC on one host, too */
  int heartbeat_ms;   /* interval of the heartbeats of members; 0: a second */
} WEFT_CollectiveGroupOptions;

typedef struct WEFT_CollectiveHints {
  const char *algorithm; /* "auto", "ring", "tree", "halving_doubling", "hierarchical", "direct"; NULL: auto.
                            The same on all ranks */
  int64_t timeout_ms;    /* 0: the group's */
  int64_t key; /* not 0: matches the other ranks' calls with this key, in any order of calls. Calls with equal
                  keys match in their order. What the ranks do under a key is agreed on once; calls that
                  differ from the one before in kind, type or shape are agreed on anew, which costs a question
                  to rank 0: calls that alternate are faster with a key for each */
} WEFT_CollectiveHints;

/* Starts listening at addresses[rank] ("host:port", num_ranks of them, copied) and returns at once; the first
 * collective waits for the others. `options` may be NULL. One process may have several groups, at different
 * ports. Errors: INVALID_ARGUMENT for a bad rank or address; UNAVAILABLE if the port is taken. */
TF_CAPI_EXPORT extern WEFT_CollectiveGroup *WEFT_NewCollectiveGroup(
    int rank, int num_ranks, const char *const *addresses, const WEFT_CollectiveGroupOptions *options,
    TF_Status *status);
/* Ends what still runs with CANCELLED, and leaves: members that wait for this one get UNAVAILABLE. NULL is
 * fine. */
TF_CAPI_EXPORT extern void WEFT_DeleteCollectiveGroup(WEFT_CollectiveGroup *group);
TF_CAPI_EXPORT extern int WEFT_CollectiveRank(const WEFT_CollectiveGroup *group);
TF_CAPI_EXPORT extern int WEFT_CollectiveSize(const WEFT_CollectiveGroup *group);

/* ---- on tensors: each waits for the result, which the caller owns (TF_DeleteTensor); NULL on failure ----
 * `input` is borrowed and does not change. `hints` may be NULL. Types: half, bfloat16, float, double and the
 * integers of 8 to 64 bits; what moves without arithmetic may have any type of fixed size. */

TF_CAPI_EXPORT extern TF_Tensor *WEFT_AllReduce(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                                WEFT_Reduction reduction, const WEFT_CollectiveHints *hints,
                                                TF_Status *status);
/* The result is at `root` alone; elsewhere NULL with TF_OK. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_Reduce(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                             WEFT_Reduction reduction, int root,
                                             const WEFT_CollectiveHints *hints, TF_Status *status);
/* Rank i gets rows [i*d/N, (i+1)*d/N) of the reduction; d, the first dimension, must be a multiple of N. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_ReduceScatter(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                                    WEFT_Reduction reduction,
                                                    const WEFT_CollectiveHints *hints, TF_Status *status);
/* The inputs behind each other, in the order of ranks; their first dimensions may differ. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_AllGather(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                                const WEFT_CollectiveHints *hints, TF_Status *status);
/* The same at `root` alone; elsewhere NULL with TF_OK. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_Gather(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                                             const WEFT_CollectiveHints *hints, TF_Status *status);
/* Every rank gets the root's input. The others pass a tensor of the same type and shape, whose contents are
 * ignored. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_Broadcast(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                                                const WEFT_CollectiveHints *hints, TF_Status *status);
/* Rank i gets rows [i*d/N, (i+1)*d/N) of root's input. All others give a tensor of the type and shape that
 * they will get. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_Scatter(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                                              const WEFT_CollectiveHints *hints, TF_Status *status);
/* Block j of rank i's input becomes block i of rank j's result. `rows`: N row counts, one per block, which
 * add up to the first dimension; NULL: N equal blocks. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_AllToAll(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                               const int64_t *rows, const WEFT_CollectiveHints *hints,
                                               TF_Status *status);
/* Returns when all ranks have called it. */
TF_CAPI_EXPORT extern void WEFT_Barrier(WEFT_CollectiveGroup *group, const WEFT_CollectiveHints *hints,
                                        TF_Status *status);

/* ---- on memory of the caller: `count` elements; `input` and `output` may be the same, but not overlap
 * otherwise ---- Nothing is allocated for the payload, and a reduction in place moves it once. */

TF_CAPI_EXPORT extern void WEFT_AllReduceBuffer(WEFT_CollectiveGroup *group, const void *input, void *output,
                                                int64_t count, TF_DataType dtype, WEFT_Reduction reduction,
                                                const WEFT_CollectiveHints *hints, TF_Status *status);
/* In place at all ranks. */
TF_CAPI_EXPORT extern void WEFT_BroadcastBuffer(WEFT_CollectiveGroup *group, void *buffer, int64_t count,
                                                TF_DataType dtype, int root,
                                                const WEFT_CollectiveHints *hints, TF_Status *status);

/* ---- without waiting ---- */

/* Each takes over what the waiting function borrows until WEFT_WaitCollective: memory must live, and not
 * change, until then. NULL on failure to start. */
TF_CAPI_EXPORT extern WEFT_CollectiveRequest *WEFT_AllReduceAsync(WEFT_CollectiveGroup *group,
                                                                  const TF_Tensor *input,
                                                                  WEFT_Reduction reduction,
                                                                  const WEFT_CollectiveHints *hints,
                                                                  TF_Status *status);
TF_CAPI_EXPORT extern WEFT_CollectiveRequest *WEFT_AllReduceBufferAsync(
    WEFT_CollectiveGroup *group, const void *input, void *output, int64_t count, TF_DataType dtype,
    WEFT_Reduction reduction, const WEFT_CollectiveHints *hints, TF_Status *status);
TF_CAPI_EXPORT extern WEFT_CollectiveRequest *WEFT_AllGatherAsync(WEFT_CollectiveGroup *group,
                                                                  const TF_Tensor *input,
                                                                  const WEFT_CollectiveHints *hints,
                                                                  TF_Status *status);
TF_CAPI_EXPORT extern WEFT_CollectiveRequest *WEFT_ReduceScatterAsync(WEFT_CollectiveGroup *group,
                                                                      const TF_Tensor *input,
                                                                      WEFT_Reduction reduction,
                                                                      const WEFT_CollectiveHints *hints,
                                                                      TF_Status *status);
TF_CAPI_EXPORT extern WEFT_CollectiveRequest *WEFT_BroadcastAsync(WEFT_CollectiveGroup *group,
                                                                  const TF_Tensor *input, int root,
                                                                  const WEFT_CollectiveHints *hints,
                                                                  TF_Status *status);
/* Not 0 if WEFT_WaitCollective would not wait. */
TF_CAPI_EXPORT extern int WEFT_CollectiveIsDone(const WEFT_CollectiveRequest *request);
/* Waits, frees the request, and returns its result (the caller's; NULL for buffers and on failure). NULL
 * gives NULL and OK. */
TF_CAPI_EXPORT extern TF_Tensor *WEFT_WaitCollective(WEFT_CollectiveRequest *request, TF_Status *status);

/* ---- what moved ---- */

/* What this member has received from each other member, since its start or the last reset: fills at most
 * `max` entries of `counts`, and returns how many there are. */
TF_CAPI_EXPORT extern int WEFT_TransportCounters(WEFT_CollectiveGroup *group, WEFT_TransportCount *counts,
                                                 int max);
TF_CAPI_EXPORT extern void WEFT_ResetTransportCounters(WEFT_CollectiveGroup *group);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_COLLECTIVE_H_ */
