/* client/collective.c - WEFT_CollectiveGroup: a server of its own, and calls of its worker's collectives.
 *
 * A group of N is a cluster with one job of N tasks, and one collective group over
 * their CPU:0s. A call's instance is told by a number made of what the ranks must
 * agree on anyway, so that the leader need not be asked again for calls alike, and
 * by its place in the order of calls: that is the "iteration".
 */
#include "weft/collective.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "client/statistics.h"
#include "client/status.h"
#include "client/tensor.h"
#include "collectives/collectives.h"
#include "collectives/link_counters.h"
#include "device/device_name.h"
#include "server/server.h"

#define GOODBYE_KEY INT64_MIN
enum { DEFAULT_TIMEOUT_MS = 600000, GOODBYE_MS = 1000, GROUP_KEY = 1, STEP_ID = 1, MAX_RANKS = 4096 };

struct WEFT_CollectiveGroup {
  weft_server_t *server;
  int rank, size;
  int64_t timeout_ms;
  char device[64];
  weft_canceller_t *canceller;
  weft_mutex_t mu;
  weft_cond_t idle;
  atomic_bool has_failed; /* a collective has, so that others may not come to the end */
  int num_running;        /* guarded by mu */
  weft_map_t counts;      /* guarded by mu: key -> how many calls there were, plus 1 */
};

struct WEFT_CollectiveRequest {
  WEFT_CollectiveGroup *group;
  weft_tensor_t *input; /* one reference */
  void *buffer;         /* where the result goes; NULL: into a tensor */
  weft_mutex_t mu;
  weft_cond_t done_cond;
  bool is_done; /* guarded by mu, as are the two below */
  weft_status_t *status;
  weft_tensor_t *output;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a collective"); }

/* ---- groups ---- */

static weft_status_t *describe(int size, const char *const *addresses, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "worker=");
  for (int i = 0; i < size; i++) {
    if (addresses == NULL || addresses[i] == NULL)
      return WEFT_ERROR(INVALID_ARGUMENT, "rank %d has no address", i);
    weft_strbuf_printf(out, "%s%s", i == 0 ? "" : ",", addresses[i]);
  }
  return out->failed ? no_memory() : NULL;
}

static weft_status_t *start(WEFT_CollectiveGroup *g, const char *const *addresses,
                            const WEFT_CollectiveGroupOptions *o) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_status_t *s = describe(g->size, addresses, &text);
  if (s == NULL)
    s = weft_status_prefix(weft_cluster_parse(weft_str_of(text.data, text.length), &cluster), "cluster: ");
  if (s == NULL) {
    ptrdiff_t colon = weft_str_rfind(weft_str(addresses[g->rank]), ':');
    char *host = weft_strndup(addresses[g->rank], (size_t)colon); /* the cluster's reader found the colon */
    weft_server_options_t options = {.cluster = &cluster,
                                     .job = WEFT_STR("worker"),
                                     .task = g->rank,
                                     .host = host,
                                     .port = -1,
                                     .num_threads = o->num_threads,
                                     .heartbeat_ms = o->heartbeat_ms,
                                     .collectives_only_rpc = o->only_rpc != 0};
    s = host == NULL ? no_memory() : weft_server_create(&options, &g->server);
    weft_free(host);
  }
  if (s == NULL) s = weft_server_start(g->server);
  weft_cluster_deinit(&cluster);
  weft_strbuf_deinit(&text);
  return s;
}

WEFT_CollectiveGroup *WEFT_NewCollectiveGroup(int rank, int num_ranks, const char *const *addresses,
                                              const WEFT_CollectiveGroupOptions *options, TF_Status *status) {
  static const WEFT_CollectiveGroupOptions defaults = {0, 0, 0, 0};
  const WEFT_CollectiveGroupOptions *o = options == NULL ? &defaults : options;
  weft_status_t *s = NULL;
  WEFT_CollectiveGroup *g = weft_calloc(1, sizeof *g);
  if (g == NULL) s = no_memory();
  if (s == NULL) {
    weft_mutex_init(&g->mu);
    weft_cond_init(&g->idle);
    g->rank = rank;
    g->size = num_ranks;
    g->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    snprintf(g->device, sizeof g->device, "/job:worker/replica:0/task:%d/device:" WEFT_HOST_DEVICE_TYPE ":0",
             rank);
    g->canceller = weft_canceller_create(NULL);
    if (g->canceller == NULL) s = no_memory();
  }
  if (s == NULL && (num_ranks < 1 || num_ranks > MAX_RANKS || rank < 0 || rank >= num_ranks)) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "rank %d of %d cannot be: ranks are 0 to N-1, N at most %d", rank,
                   num_ranks, MAX_RANKS);
  }
  if (s == NULL) s = start(g, addresses, o);
  if (weft_client_end(status, s)) return g;
  WEFT_DeleteCollectiveGroup(g);
  return NULL;
}

int WEFT_CollectiveRank(const WEFT_CollectiveGroup *g) { return g->rank; }
int WEFT_CollectiveSize(const WEFT_CollectiveGroup *g) { return g->size; }

/* ---- one call ---- */

static void finished(void *arg, weft_status_t *status, weft_tensor_t *output) {
  WEFT_CollectiveRequest *r = arg;
  WEFT_CollectiveGroup *g = r->group;
  if (r->buffer != NULL && output != NULL) {
    if (output->data != r->buffer && output->bytes > 0) memcpy(r->buffer, output->data, output->bytes);
    weft_tensor_release(output);
    output = NULL;
  }
  weft_mutex_lock(&r->mu);
  if (status != NULL) atomic_store(&g->has_failed, true);
  r->status = status;
  r->output = output;
  r->is_done = true;
  weft_cond_broadcast(&r->done_cond);
  weft_mutex_unlock(&r->mu);
  weft_mutex_lock(&g->mu);
  if (--g->num_running == 0) weft_cond_broadcast(&g->idle);
  weft_mutex_unlock(&g->mu);
}

/* How many calls with this key there were. */
static weft_status_t *count_call(WEFT_CollectiveGroup *g, int64_t key, int64_t *out) {
  int64_t *mine = weft_calloc(1, sizeof *mine);
  if (mine == NULL) return no_memory();
  weft_status_t *s = NULL;
  weft_mutex_lock(&g->mu);
  int64_t *count = weft_map_get_u64(&g->counts, (uint64_t)key);
  if (count == NULL) {
    s = weft_map_put_u64(&g->counts, (uint64_t)key, mine, NULL);
    if (s == NULL) {
      count = mine;
      mine = NULL;
    }
  }
  if (count != NULL) *out = (*count)++;
  if (s == NULL) g->num_running++;
  weft_mutex_unlock(&g->mu);
  weft_free(mine);
  return s;
}

static weft_status_t *read_hints(const WEFT_CollectiveGroup *g, const WEFT_CollectiveHints *hints,
                                 weft_collective_t *call) {
  call->timeout_ms = hints != NULL && hints->timeout_ms > 0 ? hints->timeout_ms : g->timeout_ms;
  if (hints != NULL && hints->algorithm != NULL &&
      !weft_collective_algorithm_parse(weft_str(hints->algorithm), &call->algorithm)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'%s' is not an algorithm of collectives", hints->algorithm);
  }
  return NULL;
}

/* Consumes `input` (may be NULL). NULL on failure, with *s. */
static WEFT_CollectiveRequest *begin(WEFT_CollectiveGroup *g, weft_collective_t *call, weft_tensor_t *input,
                                     void *buffer, const WEFT_CollectiveHints *hints, weft_status_t **s) {
  int64_t key = hints == NULL ? 0 : hints->key;
  *s = read_hints(g, hints, call);
  if (*s == NULL && call->root >= g->size) {
    *s = WEFT_ERROR(INVALID_ARGUMENT, "root %d is not a rank of a group of %d", call->root, g->size);
  }
  WEFT_CollectiveRequest *r = *s == NULL ? weft_calloc(1, sizeof *r) : NULL;
  if (*s == NULL && r == NULL) *s = no_memory();
  if (*s == NULL) *s = count_call(g, key, &call->iteration);
  if (*s != NULL) {
    weft_free(r);
    weft_tensor_release(input);
    return NULL;
  }
  weft_mutex_init(&r->mu);
  weft_cond_init(&r->done_cond);
  r->group = g;
  r->input = input;
  r->buffer = buffer;
  call->name = weft_str("collective");
  call->device = weft_str(g->device);
  call->step_id = STEP_ID;
  call->frame_id = (uint64_t)key;
  call->group_key = GROUP_KEY;
  call->group_size = g->size;
  call->rank = g->rank;
  call->instance_key = key;
  call->input = input;
  weft_collectives_run(weft_server_collectives(g->server), call, g->canceller, finished, r);
  return r;
}

int WEFT_CollectiveIsDone(const WEFT_CollectiveRequest *request) {
  /* The cast: looking takes the lock. */
  WEFT_CollectiveRequest *r = (WEFT_CollectiveRequest *)(uintptr_t)request;
  weft_mutex_lock(&r->mu);
  bool is_done = r->is_done;
  weft_mutex_unlock(&r->mu);
  return is_done;
}

/* Waits, and frees the request; *out may be NULL. */
static weft_status_t *wait_for(WEFT_CollectiveRequest *r, weft_tensor_t **out) {
  weft_mutex_lock(&r->mu);
  while (!r->is_done)
    weft_cond_wait(&r->done_cond, &r->mu); /* woken by finished(), which timeout and canceller bring */
  weft_mutex_unlock(&r->mu);
  weft_status_t *s = r->status;
  *out = r->output;
  weft_tensor_release(r->input);
  weft_cond_deinit(&r->done_cond);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
  return s;
}

TF_Tensor *WEFT_WaitCollective(WEFT_CollectiveRequest *request, TF_Status *status) {
  weft_tensor_t *output = NULL;
  TF_Tensor *box = NULL;
  weft_status_t *s = request == NULL ? NULL : wait_for(request, &output);
  if (s == NULL && output != NULL) s = weft_client_tensor_new(output, &box);
  weft_client_end(status, s);
  return box;
}

/* ---- the kinds ---- */

static void set_reduction(weft_collective_t *call, WEFT_Reduction reduction) {
  static const weft_reduction_t reductions[] = {WEFT_REDUCE_SUM, WEFT_REDUCE_SUM, WEFT_REDUCE_PROD,
                                                WEFT_REDUCE_MIN, WEFT_REDUCE_MAX};
  int i = reduction >= WEFT_REDUCTION_SUM && reduction <= WEFT_REDUCTION_MAX ? (int)reduction : 0;
  call->reduction = reductions[i];
  call->is_mean = reduction == WEFT_REDUCTION_MEAN;
}

/* On a tensor. */
static WEFT_CollectiveRequest *begin_tensor(WEFT_CollectiveGroup *g, weft_collective_t call,
                                            const TF_Tensor *input, const WEFT_CollectiveHints *hints,
                                            TF_Status *status) {
  weft_tensor_t *tensor = NULL;
  WEFT_CollectiveRequest *r = NULL;
  bool gives = (call.kind != WEFT_BROADCAST && call.kind != WEFT_SCATTER) || call.root == g->rank;
  weft_status_t *s = input == NULL ? WEFT_ERROR(INVALID_ARGUMENT, "a collective needs a tensor on every rank")
                                   : weft_client_tensor_get(input, &tensor);
  if (s == NULL) {
    call.dtype = tensor->dtype;
    call.shape = tensor->shape;
    call.is_source = gives && call.root == g->rank;
    if (!gives) {
      weft_tensor_release(tensor);
      tensor = NULL;
    }
    r = begin(g, &call, tensor, NULL, hints, &s);
  }
  weft_client_end(status, s);
  return r;
}

static TF_Tensor *run_tensor(WEFT_CollectiveGroup *g, weft_collective_t call, const TF_Tensor *input,
                             const WEFT_CollectiveHints *hints, TF_Status *status) {
  call.waits = true;
  WEFT_CollectiveRequest *r = begin_tensor(g, call, input, hints, status);
  return r == NULL ? NULL : WEFT_WaitCollective(r, status);
}

static weft_collective_t reduction_of(weft_collective_kind_t kind, WEFT_Reduction reduction, int root) {
  weft_collective_t call = {.kind = kind, .root = root};
  set_reduction(&call, reduction);
  return call;
}

TF_Tensor *WEFT_AllReduce(WEFT_CollectiveGroup *group, const TF_Tensor *input, WEFT_Reduction reduction,
                          const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_ALL_REDUCE, reduction, -1), input, hints, status);
}
WEFT_CollectiveRequest *WEFT_AllReduceAsync(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                            WEFT_Reduction reduction, const WEFT_CollectiveHints *hints,
                                            TF_Status *status) {
  return begin_tensor(group, reduction_of(WEFT_ALL_REDUCE, reduction, -1), input, hints, status);
}
TF_Tensor *WEFT_Reduce(WEFT_CollectiveGroup *group, const TF_Tensor *input, WEFT_Reduction reduction,
                       int root, const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_REDUCE, reduction, root), input, hints, status);
}
TF_Tensor *WEFT_ReduceScatter(WEFT_CollectiveGroup *group, const TF_Tensor *input, WEFT_Reduction reduction,
                              const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_REDUCE_SCATTER, reduction, -1), input, hints, status);
}
WEFT_CollectiveRequest *WEFT_ReduceScatterAsync(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                                WEFT_Reduction reduction, const WEFT_CollectiveHints *hints,
                                                TF_Status *status) {
  return begin_tensor(group, reduction_of(WEFT_REDUCE_SCATTER, reduction, -1), input, hints, status);
}
TF_Tensor *WEFT_AllGather(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                          const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_ALL_GATHER, WEFT_REDUCTION_SUM, -1), input, hints, status);
}
WEFT_CollectiveRequest *WEFT_AllGatherAsync(WEFT_CollectiveGroup *group, const TF_Tensor *input,
                                            const WEFT_CollectiveHints *hints, TF_Status *status) {
  return begin_tensor(group, reduction_of(WEFT_ALL_GATHER, WEFT_REDUCTION_SUM, -1), input, hints, status);
}
TF_Tensor *WEFT_Gather(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                       const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_GATHER, WEFT_REDUCTION_SUM, root), input, hints, status);
}
TF_Tensor *WEFT_Broadcast(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                          const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_BROADCAST, WEFT_REDUCTION_SUM, root), input, hints, status);
}
WEFT_CollectiveRequest *WEFT_BroadcastAsync(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                                            const WEFT_CollectiveHints *hints, TF_Status *status) {
  return begin_tensor(group, reduction_of(WEFT_BROADCAST, WEFT_REDUCTION_SUM, root), input, hints, status);
}
TF_Tensor *WEFT_Scatter(WEFT_CollectiveGroup *group, const TF_Tensor *input, int root,
                        const WEFT_CollectiveHints *hints, TF_Status *status) {
  return run_tensor(group, reduction_of(WEFT_SCATTER, WEFT_REDUCTION_SUM, root), input, hints, status);
}
TF_Tensor *WEFT_AllToAll(WEFT_CollectiveGroup *group, const TF_Tensor *input, const int64_t *rows,
                         const WEFT_CollectiveHints *hints, TF_Status *status) {
  weft_collective_t call = reduction_of(WEFT_ALL_TO_ALL, WEFT_REDUCTION_SUM, -1);
  call.splits = rows;
  return run_tensor(group, call, input, hints, status);
}

void WEFT_Barrier(WEFT_CollectiveGroup *group, const WEFT_CollectiveHints *hints, TF_Status *status) {
  weft_status_t *s = NULL;
  weft_tensor_t *output = NULL;
  weft_collective_t call = {.kind = WEFT_BARRIER, .root = -1, .dtype = WEFT_F32, .waits = true};
  WEFT_CollectiveRequest *r = begin(group, &call, NULL, NULL, hints, &s);
  if (r != NULL) s = wait_for(r, &output);
  weft_tensor_release(output);
  weft_client_end(status, s);
}

/* ---- the end of a group ---- */

/* A rank that departs while others still take part in the last collective would break it, though they need
 * nothing more of it: so the ranks depart together, if they can. A rank that departs alone waits a moment. */
static void say_goodbye(WEFT_CollectiveGroup *g) {
  weft_mutex_lock(&g->mu);
  bool is_idle = g->num_running == 0 && g->counts.count > 0;
  weft_mutex_unlock(&g->mu);
  if (!is_idle || g->size == 1 || atomic_load(&g->has_failed)) return;
  weft_status_t *s = NULL;
  weft_tensor_t *output = NULL;
  WEFT_CollectiveHints hints = {.key = GOODBYE_KEY, .timeout_ms = GOODBYE_MS};
  weft_collective_t call = {.kind = WEFT_BARRIER, .root = -1, .dtype = WEFT_F32};
  WEFT_CollectiveRequest *r = begin(g, &call, NULL, NULL, &hints, &s);
  if (r != NULL) s = wait_for(r, &output);
  weft_tensor_release(output);
  weft_status_free(s); /* the others are not there any more, or not yet */
}

void WEFT_DeleteCollectiveGroup(WEFT_CollectiveGroup *g) {
  if (g == NULL) return;
  say_goodbye(g);
  if (g->canceller != NULL) weft_canceller_cancel(g->canceller);
  weft_mutex_lock(&g->mu);
  while (g->num_running > 0) weft_cond_wait(&g->idle, &g->mu); /* woken by finished(); they are cancelled */
  weft_mutex_unlock(&g->mu);
  weft_server_destroy(g->server);
  weft_canceller_release(g->canceller);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&g->counts, &at, &e);) weft_free(e.value);
  weft_map_deinit(&g->counts);
  weft_cond_deinit(&g->idle);
  weft_mutex_deinit(&g->mu);
  weft_free(g);
}

/* ---- on memory ---- */

static void leave_alone(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  (void)arg;
}

static WEFT_CollectiveRequest *begin_buffer(WEFT_CollectiveGroup *g, weft_collective_t call,
                                            const void *input, void *output, int64_t count, TF_DataType dtype,
                                            const WEFT_CollectiveHints *hints, weft_status_t **s) {
  weft_tensor_t *tensor = NULL;
  weft_shape_t shape = weft_shape_vector(count);
  size_t bytes = 0;
  *s = NULL;
  if (count < 0 || (count > 0 && (input == NULL || output == NULL))) {
    *s = WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " elements at no address", count);
  } else if (!weft_dtype_is_valid((int)dtype) || weft_dtype_is_ref((int)dtype) ||
             !weft_dtype_is_plain((int)dtype)) {
    *s = WEFT_ERROR(INVALID_ARGUMENT, "type %d has no elements of fixed size", (int)dtype);
  } else if (!weft_mul_size((size_t)count, weft_dtype_size((weft_dtype_t)dtype), &bytes)) {
    *s = WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " elements are too many", count);
  }
  bool gives = call.kind != WEFT_BROADCAST || call.root == g->rank;
  /* The cast: where it is written to, the caller has said so by giving the same place twice. */
  if (*s == NULL && gives) {
    *s = weft_tensor_wrap((weft_dtype_t)dtype, &shape, (void *)(uintptr_t)(count == 0 ? "" : input), bytes,
                          leave_alone, NULL, &tensor);
  }
  if (*s != NULL) return NULL;
  call.dtype = (weft_dtype_t)dtype;
  call.shape = shape;
  call.is_source = gives && call.root == g->rank;
  call.takes_input = call.kind != WEFT_BROADCAST && input == output;
  return begin(g, &call, tensor, count == 0 ? NULL : output, hints, s);
}

/* Begins and waits. */
static void run_buffer(WEFT_CollectiveGroup *g, weft_collective_t call, const void *input, void *to,
                       int64_t count, TF_DataType dtype, const WEFT_CollectiveHints *hints,
                       TF_Status *status) {
  weft_status_t *s = NULL;
  weft_tensor_t *output = NULL;
  call.waits = true;
  WEFT_CollectiveRequest *r = begin_buffer(g, call, input, to, count, dtype, hints, &s);
  if (r != NULL) s = wait_for(r, &output);
  weft_tensor_release(output); /* of no elements */
  weft_client_end(status, s);
}

void WEFT_AllReduceBuffer(WEFT_CollectiveGroup *group, const void *input, void *output, int64_t count,
                          TF_DataType dtype, WEFT_Reduction reduction, const WEFT_CollectiveHints *hints,
                          TF_Status *status) {
  run_buffer(group, reduction_of(WEFT_ALL_REDUCE, reduction, -1), input, output, count, dtype, hints, status);
}
WEFT_CollectiveRequest *WEFT_AllReduceBufferAsync(WEFT_CollectiveGroup *group, const void *input,
                                                  void *output, int64_t count, TF_DataType dtype,
                                                  WEFT_Reduction reduction, const WEFT_CollectiveHints *hints,
                                                  TF_Status *status) {
  weft_status_t *s = NULL;
  WEFT_CollectiveRequest *r = begin_buffer(group, reduction_of(WEFT_ALL_REDUCE, reduction, -1), input, output,
                                           count, dtype, hints, &s);
  weft_client_end(status, s);
  return r;
}
void WEFT_BroadcastBuffer(WEFT_CollectiveGroup *group, void *buffer, int64_t count, TF_DataType dtype,
                          int root, const WEFT_CollectiveHints *hints, TF_Status *status) {
  run_buffer(group, reduction_of(WEFT_BROADCAST, WEFT_REDUCTION_SUM, root), buffer, buffer, count, dtype,
             hints, status);
}

/* ---- what moved ---- */

int WEFT_TransportCounters(WEFT_CollectiveGroup *group, WEFT_TransportCount *counts, int max) {
  return weft_client_counts(weft_server_counters(group->server), counts, max);
}

void WEFT_ResetTransportCounters(WEFT_CollectiveGroup *group) {
  weft_link_counters_reset(weft_server_counters(group->server));
}
