/* tests/cuda/fake/nccl.c - NCCL, played by the host: libnccl_fake.so.
 *
 * What a group gives to a communicator is one piece of work on its stream: a host function that waits until
 * those of all ranks have got there, as NCCL's kernels do; the last one computes. So streams that get
 * collectives in different orders wait for each other for ever, and a rank whose stream has failed lets the
 * others wait until ncclCommAbort. What the library refuses is refused: two ranks of one card, bytes that are
 * not of one allocation, calls that differ between the ranks (that is an error of the device here).
 *
 * Of a communicator of several processes each rank puts its work in memory that they share and computes its
 * own outputs (tests/cuda/fake/nccl_shared.h). As of one that does not block, all have joined when it is
 * asked.
 */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <nccl.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/half.h"
#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/nccl_shared.h"

#define EXPORT __attribute__((visibility("default")))
enum { MAX_RANKS = 8, MAX_CALLS = 64, MAX_OPEN = 64 };

typedef enum fake_op { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV } fake_op_t;

typedef struct fake_call {
  fake_op_t op;
  const char *in;
  char *out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer; /* or the root */
} fake_call_t;

/* What one rank does in one group. */
typedef struct fake_batch {
  struct ncclComm *comm;
  cudaStream_t stream;
  uint64_t number;
  int n;
  fake_call_t calls[MAX_CALLS];
} fake_batch_t;

typedef struct fake_clique {
  int n, users;
  bool is_aborted;
  uint64_t done; /* batches up to this one are computed */
  struct {
    uint64_t number;
    int num_there;
    fake_batch_t *there[MAX_RANKS];
  } open[MAX_OPEN];
} fake_clique_t;

struct ncclComm {
  fake_clique_t *clique;
  int rank;
  uint64_t last;         /* number of its last batch */
  fake_shared_t *shared; /* of several processes; NULL: of this one */
  atomic_bool ends;      /* it was aborted; of several processes */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* ---- the fake driver ---- */

static void *driver_function(const char *name) {
  const char *path = getenv("WEFT_CUDA_DRIVER");
  void *driver = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

static size_t size_of(ncclDataType_t t) {
  return t == ncclFloat64 || t == ncclInt64 || t == ncclUint64   ? 8
         : t == ncclFloat32 || t == ncclInt32 || t == ncclUint32 ? 4
         : t == ncclFloat16 || t == ncclBfloat16                 ? 2
                                                                 : 1;
}

/* Where the host finds `bytes` of device memory; NULL: they are not of one allocation. */
static char *bytes_of(const void *p, size_t bytes) {
  weft_fake_cuda_bytes_fn *find;
  *(void **)&find = driver_function(WEFT_FAKE_CUDA_BYTES);
  char *at = (char *)(uintptr_t)p;
  if (find == NULL || p == NULL || bytes == 0) return NULL;
  return find(at + bytes - 1) == NULL ? NULL : find(at);
}

/* ---- arithmetic ---- */

static double load(ncclDataType_t t, const char *p, size_t i) {
  const void *at = p;
  switch ((int)t) {
    case ncclFloat64: return ((const double *)at)[i];
    case ncclFloat32: return (double)((const float *)at)[i];
    case ncclFloat16: return (double)weft_f16_to_f32(((const uint16_t *)at)[i]);
    default: return (double)weft_bf16_to_f32(((const uint16_t *)at)[i]);
  }
}

static void store(ncclDataType_t t, char *p, size_t i, double v) {
  void *at = p;
  switch ((int)t) {
    case ncclFloat64: ((double *)at)[i] = v; break;
    case ncclFloat32: ((float *)at)[i] = (float)v; break;
    case ncclFloat16: ((uint16_t *)at)[i] = weft_f32_to_f16((float)v); break;
    default: ((uint16_t *)at)[i] = weft_f32_to_bf16((float)v); break;
  }
}

static int64_t load_int(ncclDataType_t t, const char *p, size_t i) {
  const void *at = p;
  switch ((int)t) {
    case ncclInt64:
    case ncclUint64: return ((const int64_t *)at)[i];
    case ncclInt32:
    case ncclUint32: return ((const int32_t *)at)[i];
    case ncclInt8: return ((const int8_t *)at)[i];
    default: return ((const uint8_t *)at)[i];
  }
}

static bool is_real(ncclDataType_t t) {
  return t == ncclFloat64 || t == ncclFloat32 || t == ncclFloat16 || t == ncclBfloat16;
}

/* The reduction of element i, written to element `to_at` of `to`. The order is from the last rank to the
 * first: no order is promised. */
static void reduce_element(fake_batch_t *const *b, int call, int n, size_t i, char *to, size_t to_at) {
  const fake_call_t *c = &b[0]->calls[call];
  double real = 0;
  int64_t whole = 0;
  for (int r = n - 1; r >= 0; r--) {
    const double x = is_real(c->type) ? load(c->type, b[r]->calls[call].in, i) : 0;
    const int64_t y = is_real(c->type) ? 0 : load_int(c->type, b[r]->calls[call].in, i);
    const bool is_first = r == n - 1;
    switch ((int)c->reduction) {
      case ncclProd:
        real = is_first ? x : real * x;
        whole = is_first ? y : (int64_t)((uint64_t)whole * (uint64_t)y);
        break;
      case ncclMin:
        real = is_first || x < real || x != x ? x : real;
        whole = is_first || y < whole ? y : whole;
        break;
      case ncclMax:
        real = is_first || x > real || x != x ? x : real;
        whole = is_first || y > whole ? y : whole;
        break;
      default:
        real += x;
        whole = (int64_t)((uint64_t)whole + (uint64_t)y);
        break;
    }
  }
  if (c->reduction == ncclAvg) real /= n;
  if (is_real(c->type)) store(c->type, to, to_at, real);
  if (!is_real(c->type)) memcpy(to + to_at * size_of(c->type), &whole, size_of(c->type)); /* little endian */
}

static void reduce_all(fake_batch_t *const *b, int call, int n) {
  const fake_call_t *c = &b[0]->calls[call];
  const size_t size = size_of(c->type);
  char one[8];
  for (size_t i = 0; i < c->count; i++) { /* an output may be its rank's input */
    reduce_element(b, call, n, i, one, 0);
    for (int r = 0; r < n; r++) {
      if (b[r]->calls[call].out != NULL) memcpy(b[r]->calls[call].out + i * size, one, size);
    }
  }
}

static void reduce_parts(fake_batch_t *const *b, int call, int n) {
  const fake_call_t *c = &b[0]->calls[call];
  for (int r = 0; r < n; r++) {
    for (size_t i = 0; i < c->count && b[r]->calls[call].out != NULL; i++)
      reduce_element(b, call, n, (size_t)r * c->count + i, b[r]->calls[call].out, i);
  }
}

/* The k-th send of `from` to `to`. */
static const fake_call_t *sent(const fake_batch_t *from, int to, int k) {
  for (int i = 0; i < from->n; i++) {
    if (from->calls[i].op == SEND && from->calls[i].peer == to && k-- == 0) return &from->calls[i];
  }
  return NULL;
}

static void die(const char *why) {
  fprintf(stderr, "the fake NCCL: %s\n", why);
  abort();
}

static void receive(fake_batch_t *const *b, int rank, int call) {
  const fake_call_t *c = &b[rank]->calls[call];
  int k = 0;
  for (int i = 0; i < call; i++) k += b[rank]->calls[i].op == RECV && b[rank]->calls[i].peer == c->peer;
  const fake_call_t *s = sent(b[c->peer], rank, k);
  if (s == NULL || s->count * size_of(s->type) != c->count * size_of(c->type))
    die("a receive without its send");
  memcpy(c->out, s->in, c->count * size_of(c->type));
}

static void compute(fake_batch_t *const *b, int n) {
  for (int call = 0; call < b[0]->n; call++) {
    const fake_call_t *c = &b[0]->calls[call];
    const size_t bytes = c->count * size_of(c->type);
    for (int r = 0; r < n; r++) {
      const fake_call_t *x = &b[r]->calls[call];
      if (b[r]->n != b[0]->n || x->op != c->op || (c->op != SEND && c->op != RECV && x->count != c->count))
        die("ranks do different things");
    }
    for (int r = 0; r < n; r++) {
      char *out = b[r]->calls[call].out;
      if (out == NULL) continue; /* of a send, or of a rank in another process */
      if (c->op == BROADCAST && r != c->peer) memmove(out, b[c->peer]->calls[call].in, bytes);
      if (c->op == BROADCAST && r == c->peer && out != b[r]->calls[call].in)
        memmove(out, b[r]->calls[call].in, bytes);
      for (int from = 0; c->op == ALL_GATHER && from < n; from++)
        memcpy(out + (size_t)from * bytes, b[from]->calls[call].in, bytes);
      if (c->op == RECV) receive(b, r, call);
    }
    if (c->op == ALL_REDUCE) reduce_all(b, call, n);
    if (c->op == REDUCE_SCATTER) reduce_parts(b, call, n);
  }
}

/* ---- on the streams ---- */

static void release_locked(fake_clique_t *q) {
  if (--q->users == 0) free(q);
}

/* How many bytes a rank gives. */
static size_t input_bytes(const fake_call_t *c, int rank, int n) {
  const size_t bytes = c->count * size_of(c->type);
  switch (c->op) {
    case REDUCE_SCATTER: return bytes * (size_t)n;
    case BROADCAST: return rank == c->peer ? bytes : 0;
    case RECV: return 0;
    default: return bytes;
  }
}

/* A batch, and then its inputs. */
static void put_batch(const fake_batch_t *b, char *to) {
  size_t at = sizeof *b;
  memcpy(to, b, sizeof *b);
  for (int i = 0; i < b->n; i++) {
    const size_t bytes = input_bytes(&b->calls[i], b->comm->rank, b->comm->clique->n);
    if (at + bytes > FAKE_SHARED_BYTES) die("more bytes than ranks of several processes can share here");
    if (bytes > 0) memcpy(to + at, b->calls[i].in, bytes);
    at += (bytes + 7) / 8 * 8;
  }
}

static void get_batch(const char *from, int rank, int n, fake_batch_t *out) {
  size_t at = sizeof *out;
  memcpy(out, from, sizeof *out);
  for (int i = 0; i < out->n; i++) {
    const size_t bytes = input_bytes(&out->calls[i], rank, n);
    out->calls[i].in = from + at;
    out->calls[i].out = NULL;
    at += (bytes + 7) / 8 * 8;
  }
}

/* A host function, too: of a rank among those of several processes. */
static void run_shared(fake_batch_t *b) {
  struct ncclComm *comm = b->comm;
  const int n = comm->clique->n;
  fake_batch_t *all = calloc((size_t)n, sizeof *all), *each[MAX_RANKS];
  if (all == NULL) abort();
  put_batch(b, fake_shared_place(comm->shared, comm->rank, b->number));
  if (fake_shared_meet(comm->shared, comm->rank, n, b->number, &comm->ends)) {
    for (int r = 0; r < n; r++) {
      each[r] = &all[r];
      get_batch(fake_shared_place(comm->shared, r, b->number), r, n, &all[r]);
    }
    for (int i = 0; i < b->n; i++) all[comm->rank].calls[i].out = b->calls[i].out;
    compute(each, n);
  }
  free(all);
  free(b);
}

/* A host function. */
static void run(void *arg) {
  fake_batch_t *b = arg;
  fake_clique_t *q = b->comm->clique;
  if (b->comm->shared != NULL) {
    run_shared(b);
    return;
  }
  const uint64_t number = b->number;
  const int slot = (int)(number % MAX_OPEN);
  pthread_mutex_lock(&mu);
  q->open[slot].number = number;
  q->open[slot].there[b->comm->rank] = b;
  if (++q->open[slot].num_there == q->n && !q->is_aborted) {
    compute(q->open[slot].there, q->n);
    for (int r = 0; r < q->n; r++) free(q->open[slot].there[r]);
    memset(&q->open[slot], 0, sizeof q->open[slot]);
    q->done = number;
    pthread_cond_broadcast(&changed);
  }
  while (q->done < number && !q->is_aborted) pthread_cond_wait(&changed, &mu);
  release_locked(q);
  pthread_mutex_unlock(&mu);
}

/* ---- groups ---- */

static __thread struct {
  int depth, n;
  ncclResult_t failed;
  fake_batch_t *batches[MAX_RANKS];
} group;

typedef CUresult launch_host_fn(CUstream stream, CUhostFn fn, void *arg);

static ncclResult_t launch_all(void) {
  launch_host_fn *launch;
  *(void **)&launch = driver_function("cuLaunchHostFunc");
  ncclResult_t result = group.failed;
  for (int i = 0; i < group.n; i++) {
    fake_batch_t *b = group.batches[i];
    if (result == ncclSuccess) {
      b->number = ++b->comm->last;
      pthread_mutex_lock(&mu);
      b->comm->clique->users++;
      pthread_mutex_unlock(&mu);
      if (launch == NULL || launch((CUstream)b->stream, run, b) != CUDA_SUCCESS)
        result = ncclUnhandledCudaError;
    }
    if (result != ncclSuccess) free(b);
  }
  memset(&group, 0, sizeof group);
  return result;
}

/* NOLINTBEGIN(readability-redundant-declaration): nccl.h leaves (void) out */
EXPORT ncclResult_t ncclGroupStart(void);
EXPORT ncclResult_t ncclGroupEnd(void);
/* NOLINTEND(readability-redundant-declaration) */

EXPORT ncclResult_t ncclGroupStart(void) {
  group.depth++;
  return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void) {
  if (group.depth <= 0) return ncclInvalidUsage;
  return --group.depth > 0 ? ncclSuccess : launch_all();
}

static ncclResult_t add_to_group(const fake_call_t *call, ncclComm_t comm, cudaStream_t stream) {
  int i = 0;
  while (i < group.n && group.batches[i]->comm != comm) i++;
  if (i == group.n) {
    group.batches[i] = calloc(1, sizeof *group.batches[i]);
    if (group.batches[i] == NULL) return ncclSystemError;
    group.batches[i]->comm = comm;
    group.batches[i]->stream = stream;
    group.n++;
  }
  fake_batch_t *b = group.batches[i];
  if (b->n == MAX_CALLS || b->stream != stream) return ncclInvalidUsage;
  b->calls[b->n++] = *call;
  return ncclSuccess;
}

/* `in`, `out`: how many bytes there must be; 0: none are looked at. */
static ncclResult_t enqueue(fake_call_t call, const void *in, size_t in_bytes, void *out, size_t out_bytes,
                            ncclComm_t comm, cudaStream_t stream) {
  call.in = bytes_of(in, in_bytes);
  call.out = bytes_of(out, out_bytes);
  const bool fits = (in_bytes == 0 || call.in != NULL) && (out_bytes == 0 || call.out != NULL) &&
                    call.peer >= 0 && call.peer < comm->clique->n && call.count > 0;
  ncclGroupStart();
  const ncclResult_t r = fits ? add_to_group(&call, comm, stream) : ncclInvalidArgument;
  if (r != ncclSuccess) group.failed = r;
  const ncclResult_t ended = ncclGroupEnd();
  return r != ncclSuccess ? r : ended;
}

/* ---- the library's functions ---- */

EXPORT const char *ncclGetErrorString(ncclResult_t r) {
  return r == ncclInvalidUsage      ? "invalid usage"
         : r == ncclInvalidArgument ? "invalid argument"
                                    : "unhandled cuda error";
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices) {
  if (n < 1 || n > MAX_RANKS) return ncclInvalidArgument;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) {
      if (devices[k] == devices[i]) return ncclInvalidUsage; /* "Duplicate GPU detected" */
    }
  }
  fake_clique_t *q = calloc(1, sizeof *q);
  if (q == NULL) return ncclSystemError;
  q->n = q->users = n;
  for (int i = 0; i < n; i++) {
    comms[i] = calloc(1, sizeof **comms);
    if (comms[i] == NULL) abort();
    *comms[i] = (struct ncclComm){.clique = q, .rank = i};
  }
  return ncclSuccess;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  _Static_assert(sizeof id->internal == FAKE_SHARED_ID, "an id holds the place of the memory");
  return fake_shared_make(id->internal) ? ncclSuccess : ncclSystemError;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config) {
  if (n < 1 || n > MAX_RANKS || rank < 0 || rank >= n || config->blocking != 0) return ncclInvalidArgument;
  struct ncclComm *comm = calloc(1, sizeof *comm);
  fake_clique_t *q = calloc(1, sizeof *q);
  if (comm == NULL || q == NULL) abort();
  comm->shared = fake_shared_join(id.internal, rank);
  if (comm->shared == NULL) {
    free(comm);
    free(q);
    return ncclSystemError;
  }
  q->n = n;
  comm->clique = q;
  comm->rank = rank;
  *out = comm;
  return ncclInProgress;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out) {
  const bool is_ready = comm->shared == NULL || fake_shared_has(comm->shared, comm->clique->n);
  *out = is_ready ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

static ncclResult_t end(ncclComm_t comm, bool is_abort) {
  if (comm->shared != NULL) { /* work that was broken off may still begin: it stays */
    atomic_store(&comm->ends, true);
    fake_shared_wake(comm->shared);
    return ncclSuccess;
  }
  pthread_mutex_lock(&mu);
  if (is_abort) comm->clique->is_aborted = true;
  pthread_cond_broadcast(&changed);
  release_locked(comm->clique);
  pthread_mutex_unlock(&mu);
  if (!is_abort) free(comm); /* work that was broken off may still begin */
  return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end(comm, false); }
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return end(comm, true); }

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return enqueue((fake_call_t){.op = ALL_REDUCE, .count = count, .type = type, .reduction = op}, in, bytes,
                 out, bytes, comm, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return enqueue((fake_call_t){.op = REDUCE_SCATTER, .count = count, .type = type, .reduction = op}, in,
                 bytes * (size_t)comm->clique->n, out, bytes, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return enqueue((fake_call_t){.op = ALL_GATHER, .count = count, .type = type}, in, bytes, out,
                 bytes * (size_t)comm->clique->n, comm, stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  return enqueue((fake_call_t){.op = BROADCAST, .count = count, .type = type, .peer = root}, in,
                 comm->rank == root ? bytes : 0, out, bytes, comm, stream);
}

EXPORT ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  return enqueue((fake_call_t){.op = SEND, .count = count, .type = type, .peer = peer}, in,
                 count * size_of(type), NULL, 0, comm, stream);
}

EXPORT ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  return enqueue((fake_call_t){.op = RECV, .count = count, .type = type, .peer = peer}, NULL, 0, out,
                 count * size_of(type), comm, stream);
}
