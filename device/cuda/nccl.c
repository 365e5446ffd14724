/* device/cuda/nccl.c - NCCL, opened at run time.
 *
 * Collectives of several communicators on the same cards must come to all their streams in the same order, or
 * they wait for each other for ever (NCCL's guide, "Using multiple NCCL communicators concurrently"). One
 * thread at a time enqueues, and the parts of all ranks as one group.
 *
 * Of a communicator with other processes no call of NCCL blocks: each may go on when it has returned, and
 * says so when it is asked. Until then it is asked again and again, with a pause, because nothing tells.
 *
 * Until it is done, nothing else is enqueued on its cards.
 *
 * Locking: `calls`, under which only NCCL is called, and the driver. A communicator's `mu` is a leaf.
 */
#include "device/cuda/nccl.h"

#include <nccl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/collectives.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/shared_library.h"

enum {
  F32 = 1,
  F64 = 2,
  I32 = 3,
  U8 = 4,
  I8 = 6,
  I64 = 9,
  BF16 = 14,
  F16 = 19,
  U32 = 22,
  U64 = 23
}; /* TF_DataType */

static struct {
#define WEFT_CUDA_NCCL_CALL(name) __typeof__(name) *name;
#include "device/cuda/nccl.def"
#undef WEFT_CUDA_NCCL_CALL
} nccl;

static weft_mutex_t calls = WEFT_MUTEX_INITIALIZER;       /* groups of calls do not mix */
static weft_cond_t launched = {PTHREAD_COND_INITIALIZER}; /* `launching` became shorter */
static weft_cuda_nccl_t *launching; /* guarded by calls: what they enqueued may not be on all streams yet */

enum { PAUSE_NS = 100000 }; /* between two questions whether NCCL has done what it was asked for */

struct weft_cuda_nccl {
  int n, num_ranks;  /* of this process; of all */
  bool is_of_many;   /* of several processes */
  bool is_connected; /* all have joined; of the threads that enqueue */
  atomic_bool is_aborted;
  weft_cuda_nccl_t *next; /* of `launching` */
  weft_mutex_t mu;
  weft_cond_t changed; /* is_aborted became true, or num_calling fell */
  int num_calling;     /* threads that are in NCCL with these communicators; guarded by mu */
  ncclComm_t *comms;   /* by rank */
  weft_cuda_device_t *devices[];
};

/* ---- the library ---- */

static const weft_cuda_symbol_t symbols[] = {
#define WEFT_CUDA_NCCL_CALL(name) WEFT_CUDA_SYMBOL(nccl, name)
#include "device/cuda/nccl.def"
#undef WEFT_CUDA_NCCL_CALL
};

static const char *const places[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL};
static weft_cuda_shared_library_t library = {.what = "collectives between cards need NCCL",
                                             .version = "NCCL 2.14 or later",
                                             .hint = "install libnccl2, do without it (WEFT_NCCL=0)",
                                             .variable = "WEFT_NCCL",
                                             .places = places,
                                             .symbols = symbols,
                                             .num_symbols = sizeof symbols / sizeof *symbols,
                                             .table = &nccl,
                                             .mu = WEFT_MUTEX_INITIALIZER};

static WEFT_Failure *open_library(void) {
  const char *named = getenv("WEFT_NCCL");
  if (named != NULL && strcmp(named, "0") == 0)
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "WEFT_NCCL is 0");
  return weft_cuda_shared_library_open(&library);
}

static WEFT_Failure *failure_of(ncclResult_t r, const char *what) {
  if (r == ncclSuccess) return NULL;
  return weft_cuda_host->failure(WEFT_INTERNAL, "NCCL: %s: %s", what, nccl.ncclGetErrorString(r));
}

/* ---- communicators ---- */

/* Of a communicator with other processes a call may still be under way when it returns. */
static bool goes_on(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

/* With other processes: destroying waits for them, and they may be gone. */
void weft_cuda_nccl_destroy(weft_cuda_nccl_t *c) {
  if (c == NULL) return;
  if (!atomic_load(&c->is_aborted)) {
    for (int i = 0; i < c->n; i++) {
      if (c->comms[i] == NULL) continue;
      if (c->is_of_many) (void)nccl.ncclCommAbort(c->comms[i]);
      if (!c->is_of_many) (void)nccl.ncclCommDestroy(c->comms[i]); /* its work is done: nothing is lost */
    }
  }
  weft_cond_deinit(&c->changed);
  weft_mutex_deinit(&c->mu);
  weft_free(c->comms);
  weft_free(c);
}

static weft_cuda_nccl_t *nccl_new(weft_cuda_device_t *const *devices, int n, int num_ranks) {
  weft_cuda_nccl_t *c = weft_calloc(1, sizeof *c + (size_t)n * sizeof c->devices[0]);
  if (c == NULL) return NULL;
  c->comms = weft_calloc((size_t)n, sizeof *c->comms);
  if (c->comms == NULL) {
    weft_free(c);
    return NULL;
  }
  for (int i = 0; i < n; i++) c->devices[i] = devices[i];
  c->n = n;
  c->num_ranks = num_ranks;
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->changed);
  return c;
}

/* Of one that NCCL knows nothing of. */
static void nccl_forget(weft_cuda_nccl_t *c) {
  if (c == NULL) return;
  atomic_store(&c->is_aborted, true);
  weft_cuda_nccl_destroy(c);
}

WEFT_Failure *weft_cuda_nccl_create(weft_cuda_device_t *const *devices, int n, weft_cuda_nccl_t **out) {
  WEFT_Failure *f = open_library();
  if (f != NULL) return f;
  weft_cuda_nccl_t *c = nccl_new(devices, n, n);
  int *ordinals = weft_calloc((size_t)n, sizeof *ordinals);
  if (c == NULL || ordinals == NULL) {
    f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a communicator of %d GPUs", n);
  } else {
    for (int i = 0; i < n; i++) ordinals[i] = devices[i]->physical->ordinal;
    weft_mutex_lock(&calls);
    f = failure_of(nccl.ncclCommInitAll(c->comms, n, ordinals), "making a communicator");
    weft_mutex_unlock(&calls);
  }
  weft_free(ordinals);
  if (f == NULL) {
    *out = c;
    return NULL;
  }
  nccl_forget(c);
  return f;
}

/* ---- with other processes ---- */

_Static_assert(sizeof(ncclUniqueId) == WEFT_COLLECTIVE_ID_BYTES, "an id of NCCL is one of Weft");

WEFT_Failure *weft_cuda_nccl_unique_id(unsigned char *out_id) {
  WEFT_Failure *f = open_library();
  if (f != NULL || out_id == NULL) return f;
  ncclUniqueId id;
  f = failure_of(nccl.ncclGetUniqueId(&id), "making an id");
  if (f == NULL) memcpy(out_id, &id, sizeof id);
  return f;
}

static ncclResult_t init_ranks(weft_cuda_nccl_t *c, const int *ranks, const unsigned char *bytes)
    WEFT_REQUIRES(calls) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  memcpy(&id, bytes, sizeof id);
  config.blocking = 0;
  ncclResult_t r = nccl.ncclGroupStart();
  if (r != ncclSuccess) return r;
  for (int i = 0; i < c->n && goes_on(r); i++) {
    WEFT_Failure *f = weft_cuda_queue_begin(c->devices[i]->queues[WEFT_QUEUE_COMPUTE], "a communicator");
    weft_cuda_host->failure_free(f);
    r = f != NULL ? ncclUnhandledCudaError
                  : nccl.ncclCommInitRankConfig(&c->comms[i], c->num_ranks, id, ranks[i], &config);
  }
  const ncclResult_t ended = nccl.ncclGroupEnd();
  return !goes_on(r) ? r : ended;
}

WEFT_Failure *weft_cuda_nccl_join(weft_cuda_device_t *const *devices, const int *ranks, int num_own, int n,
                                  const unsigned char *id, weft_cuda_nccl_t **out) {
  WEFT_Failure *f = open_library();
  if (f != NULL) return f;
  weft_cuda_nccl_t *c = nccl_new(devices, num_own, n);
  if (c == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a communicator of %d GPUs", n);
  c->is_of_many = true;
  weft_mutex_lock(&calls);
  const ncclResult_t r = init_ranks(c, ranks, id);
  weft_mutex_unlock(&calls);
  if (r != ncclInProgress) f = failure_of(r, "making a communicator");
  if (f == NULL) {
    *out = c;
    return NULL;
  }
  weft_cuda_nccl_destroy(c); /* aborts those that have begun */
  return f;
}

static WEFT_Failure *aborted(void) {
  return weft_cuda_host->failure(WEFT_ABORTED, "a collective with other processes was ended");
}

/* Waits until NCCL has done what it was asked for. The caller is counted by num_calling. */
static WEFT_Failure *settle(weft_cuda_nccl_t *c, const char *what) {
  for (;;) {
    ncclResult_t worst = ncclSuccess;
    for (int i = 0; i < c->n && worst != ncclInProgress; i++) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t r = nccl.ncclCommGetAsyncError(c->comms[i], &state);
      if (r != ncclSuccess) state = r;
      if (state != ncclSuccess) worst = state;
    }
    if (worst != ncclInProgress) return failure_of(worst, what);
    weft_mutex_lock(&c->mu);
    if (!atomic_load(&c->is_aborted))
      (void)weft_cond_wait_until(&c->changed, &c->mu, weft_clock_ns() + PAUSE_NS);
    weft_mutex_unlock(&c->mu);
    if (atomic_load(&c->is_aborted)) return aborted();
  }
}

/* False: it was aborted. */
static bool begin_calls(weft_cuda_nccl_t *c) {
  weft_mutex_lock(&c->mu);
  const bool may_call = !atomic_load(&c->is_aborted);
  if (may_call) c->num_calling++;
  weft_mutex_unlock(&c->mu);
  return may_call;
}

static void end_calls(weft_cuda_nccl_t *c) {
  weft_mutex_lock(&c->mu);
  c->num_calling--;
  weft_cond_broadcast(&c->changed);
  weft_mutex_unlock(&c->mu);
}

/* The calling threads see it at their next question. */
static void abort_of_many(weft_cuda_nccl_t *c) {
  weft_mutex_lock(&c->mu);
  weft_cond_broadcast(&c->changed);
  while (c->num_calling > 0) weft_cond_wait(&c->changed, &c->mu); /* woken by end_calls() */
  weft_mutex_unlock(&c->mu);
  for (int i = 0; i < c->n; i++) {
    if (c->comms[i] != NULL) (void)nccl.ncclCommAbort(c->comms[i]);
  }
}

void weft_cuda_nccl_abort(weft_cuda_nccl_t *c, const WEFT_Failure *why) {
  if (atomic_exchange(&c->is_aborted, true)) return;
  if (c->is_of_many) {
    abort_of_many(c);
    return;
  }
  /* First, so that no fence behind work that is broken off passes. */
  for (int i = 0; i < c->n; i++)
    weft_cuda_queue_poison(c->devices[i]->queues[WEFT_QUEUE_COMPUTE], weft_cuda_host->failure_copy(why));
  for (int i = 0; i < c->n; i++) (void)nccl.ncclCommAbort(c->comms[i]); /* the failure is told already */
}

/* ---- collectives ---- */

/* What a type is called; false: NCCL does not reduce it. */
static bool type_of(int dtype, ncclDataType_t *out) {
  switch (dtype) {
    case F32: *out = ncclFloat32; return true;
    case F64: *out = ncclFloat64; return true;
    case F16: *out = ncclFloat16; return true;
    case BF16: *out = ncclBfloat16; return true;
    case I8: *out = ncclInt8; return true;
    case U8: *out = ncclUint8; return true;
    case I32: *out = ncclInt32; return true;
    case U32: *out = ncclUint32; return true;
    case I64: *out = ncclInt64; return true;
    case U64: *out = ncclUint64; return true;
    default: return false;
  }
}

/* A mean is TensorFlow's for real numbers alone: integers are divided as the host does it. */
static bool operation_of(const WEFT_Collective *what, ncclRedOp_t *out) {
  static const ncclRedOp_t plain[] = {ncclSum, ncclProd, ncclMin, ncclMax};
  const bool is_real = what->dtype == F32 || what->dtype == F64 || what->dtype == F16 || what->dtype == BF16;
  *out = what->is_divided ? ncclAvg : plain[what->reduction];
  return !what->is_divided || (is_real && what->reduction == WEFT_COLLECTIVE_SUM);
}

static bool is_even(const WEFT_Collective *what, int n) {
  for (int i = 0; i < n; i++) {
    if (what->bounds[i] != what->bounds[1] * i) return false;
  }
  return what->bounds[n] == what->bounds[1] * n;
}

static bool reduces(const WEFT_Collective *what) {
  return what->kind == WEFT_COLLECTIVE_REDUCE || what->kind == WEFT_COLLECTIVE_REDUCE_SCATTER;
}

typedef struct nccl_part {
  const WEFT_Collective *what;
  const WEFT_CollectiveRank *rank;
  int n;
  ncclDataType_t type;
  ncclRedOp_t operation;
  size_t element;
  ncclComm_t comm;
  cudaStream_t stream;
} nccl_part_t;

/* Rows of different numbers: each rank's are broadcast. */
static ncclResult_t gather_uneven(const nccl_part_t *p) {
  ncclResult_t r = ncclSuccess;
  for (int root = 0; root < p->n && goes_on(r); root++) {
    const int64_t begin = p->what->bounds[root], count = p->what->bounds[root + 1] - begin;
    char *to = (char *)p->rank->output + (size_t)begin * p->element;
    if (count > 0)
      r = nccl.ncclBroadcast(p->rank->input, to, (size_t)count * p->element, ncclUint8, root, p->comm,
                             p->stream);
  }
  return r;
}

static ncclResult_t exchange(const nccl_part_t *p) {
  const size_t bytes = (size_t)p->what->count * p->element;
  ncclResult_t r = ncclSuccess;
  for (int peer = 0; peer < p->n && goes_on(r); peer++) {
    const size_t at = (size_t)peer * bytes;
    r = nccl.ncclSend((const char *)p->rank->input + at, bytes, ncclUint8, peer, p->comm, p->stream);
    if (goes_on(r))
      r = nccl.ncclRecv((char *)p->rank->output + at, bytes, ncclUint8, peer, p->comm, p->stream);
  }
  return r;
}

static ncclResult_t enqueue_part(const nccl_part_t *p) {
  const WEFT_Collective *what = p->what;
  const size_t count = (size_t)what->count;
  const void *in = p->rank->input;
  void *out = p->rank->output;
  switch (what->kind) {
    case WEFT_COLLECTIVE_REDUCE:
      return nccl.ncclAllReduce(in, out, count, p->type, p->operation, p->comm, p->stream);
    case WEFT_COLLECTIVE_REDUCE_SCATTER:
      return nccl.ncclReduceScatter(in, out, (size_t)what->bounds[1], p->type, p->operation, p->comm,
                                    p->stream);
    case WEFT_COLLECTIVE_GATHER:
      if (!is_even(what, p->n)) return gather_uneven(p);
      return nccl.ncclAllGather(in, out, (size_t)what->bounds[1] * p->element, ncclUint8, p->comm, p->stream);
    case WEFT_COLLECTIVE_BROADCAST:
      return nccl.ncclBroadcast(in, out, count * p->element, ncclUint8, what->root, p->comm, p->stream);
    case WEFT_COLLECTIVE_ALL_TO_ALL: return exchange(p);
  }
  return ncclInvalidArgument;
}

static ncclResult_t enqueue_locked(const weft_cuda_nccl_t *c, nccl_part_t p, const WEFT_CollectiveRank *ranks)
    WEFT_REQUIRES(calls) {
  ncclResult_t r = nccl.ncclGroupStart();
  if (r != ncclSuccess) return r;
  for (int i = 0; i < c->n && goes_on(r); i++) {
    p.rank = &ranks[i];
    p.comm = c->comms[i];
    p.stream = (cudaStream_t)weft_cuda_queue_stream(c->devices[i]->queues[WEFT_QUEUE_COMPUTE]);
    r = enqueue_part(&p);
  }
  const ncclResult_t ended = nccl.ncclGroupEnd();
  return !goes_on(r) ? r : ended;
}

static bool have_a_card_in_common(const weft_cuda_nccl_t *a, const weft_cuda_nccl_t *b) {
  for (int i = 0; i < a->n; i++) {
    for (int k = 0; k < b->n; k++) {
      if (a->devices[i]->physical == b->devices[k]->physical) return true;
    }
  }
  return false;
}

static void wait_for_cards_locked(const weft_cuda_nccl_t *c) WEFT_REQUIRES(calls) {
  for (const weft_cuda_nccl_t *x = launching; x != NULL;) {
    if (!have_a_card_in_common(c, x)) {
      x = x->next;
      continue;
    }
    weft_cond_wait(&launched, &calls); /* woken when that has ended, which aborting it makes it do */
    x = launching;
  }
}

static WEFT_Failure *enqueue_of_many(weft_cuda_nccl_t *c, nccl_part_t p, const WEFT_CollectiveRank *ranks) {
  if (!begin_calls(c)) return aborted();
  WEFT_Failure *f = c->is_connected ? NULL : settle(c, "joining other processes");
  if (f == NULL) {
    c->is_connected = true;
    weft_mutex_lock(&calls);
    wait_for_cards_locked(c);
    const ncclResult_t r = enqueue_locked(c, p, ranks);
    c->next = launching;
    launching = c;
    weft_mutex_unlock(&calls);
    f = r == ncclInProgress ? NULL : failure_of(r, "a collective");
    if (f == NULL) f = settle(c, "a collective");
    weft_mutex_lock(&calls);
    weft_cuda_nccl_t **at = &launching;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    weft_cond_broadcast(&launched);
    weft_mutex_unlock(&calls);
  }
  end_calls(c);
  if (f != NULL) weft_cuda_nccl_abort(c, f);
  return f;
}

WEFT_Failure *weft_cuda_nccl_enqueue(weft_cuda_nccl_t *c, const WEFT_Collective *what,
                                     const WEFT_CollectiveRank *ranks) {
  nccl_part_t p = {
      .what = what, .n = c->num_ranks, .type = ncclUint8, .element = weft_cuda_element_bytes(what->dtype)};
  const bool is_known = !reduces(what) || (type_of(what->dtype, &p.type) && operation_of(what, &p.operation));
  if (!is_known || p.element == 0 ||
      (what->kind == WEFT_COLLECTIVE_REDUCE_SCATTER && !is_even(what, c->num_ranks)))
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "NCCL has no such collective");
  for (int i = 0; i < c->n; i++) { /* a queue that has failed takes no part: the others would wait for it */
    WEFT_Failure *f = weft_cuda_queue_begin(c->devices[i]->queues[WEFT_QUEUE_COMPUTE], "a collective");
    if (f != NULL) return f;
  }
  if (c->is_of_many) return enqueue_of_many(c, p, ranks);
  weft_mutex_lock(&calls);
  wait_for_cards_locked(c);
  const ncclResult_t r = enqueue_locked(c, p, ranks);
  weft_mutex_unlock(&calls);
  WEFT_Failure *f = failure_of(r, "a collective");
  if (f != NULL) weft_cuda_nccl_abort(c, f); /* parts of it may be enqueued, and wait for the others */
  return f;
}
