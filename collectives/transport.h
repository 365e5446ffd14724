/* collectives/transport.h - how members of a group reach each other: a table of functions.
 *
 * Backends: between tasks, by RPC or shared memory (collectives/remote/); for tests, in one process with a
 * link model (tests/collectives/local_transport.h).
 *
 * Data is pulled: the owner offers bytes under a key, where they lie; the other
 * side fetches them into its own memory, or reduces them into it as they arrive. An
 * offer is fetched exactly once and by the member that it names.
 */
#ifndef WEFT_COLLECTIVES_TRANSPORT_H_
#define WEFT_COLLECTIVES_TRANSPORT_H_

#include "base/arena.h"
#include "base/thread_pool.h"
#include "collectives/collectives.h"

typedef struct weft_transport weft_transport_t; /* Thread-safe. */

typedef void weft_transfer_done_fn(void *arg, weft_status_t *status); /* owns status; once, on any thread */
/* Takes bytes [at, at+n) of a fetch as they arrive, in order; n is at most the block size asked for. For
 * fetches that reduce on the way. */
typedef void weft_consume_fn(void *arg, size_t at, const void *bytes, size_t n);

typedef struct weft_fetch {
  weft_str_t from_task; /* "/job:worker/replica:0/task:2" */
  weft_str_t from_device, to_device;
  int64_t step_id;
  weft_str_t key;           /* copied; "RUN/REST": RUN names one run of an instance */
  size_t bytes;             /* exactly; another number is INTERNAL naming key and both */
  bool is_control;          /* counted as control, not as collective: row counts, signs of presence */
  void *to;                 /* where they go; NULL: only to `consume` */
  weft_consume_fn *consume; /* NULL: only to `to` */
  void *consume_arg;
} weft_fetch_t;

enum {
  /* Of one group. Each member is told of all the others: 16384 of them are 268 million entries on the
     leader's wires. */
  WEFT_MAX_GROUP = 16384,
  WEFT_GROUP_JOIN_MS = 60000, /* the members of a group wait this long for the last one to join, unless their
                                 timeout says otherwise */
  WEFT_MAX_DEVICE_TEXT = 255, /* bytes of a member's device name, and of its host's */
};

/* What the members of a group must agree on; answered by the leader when all have joined. */
typedef struct weft_group_request {
  int64_t group_key;
  int group_size, rank; /* rank -1: any */
  weft_str_t device_type, device;
  uint64_t incarnation; /* of the device; 0: the transport of its task puts it in */
  int64_t timeout_ms;   /* 0: none. The leader's answer is then DEADLINE_EXCEEDED and names the ranks that did
                           not join */
  weft_str_t host;      /* of the member; "": unknown. Put in by the transport, for the leader */
} weft_group_request_t;
typedef struct weft_group_member {
  weft_str_t device, task, host; /* host: equal texts share memory; "" unknown */
  uint64_t incarnation;
} weft_group_member_t;
typedef struct weft_link { /* a message of n bytes takes alpha_s + n * byte_s seconds */
  double alpha_s, byte_s;  /* both 0: not measured */
} weft_link_t;
typedef struct weft_group { /* Immutable. Refcounted. */
  atomic_int refs;
  weft_arena_t arena;
  int64_t key;
  int size;
  weft_group_member_t *members; /* by rank */
  weft_link_t near, far; /* between members of one host, of two; measured once by the leader, so that all
                            members choose alike */
} weft_group_t;
/* An empty group with room for `size` members; texts go into its arena. One reference; NULL without memory.
 */
weft_group_t *weft_group_new(int64_t key, int size);
weft_group_t *weft_group_retain(weft_group_t *g);
void weft_group_release(weft_group_t *g); /* NULL is fine */
/* The rank of a device; -1: it is no member. `g` may be NULL: it has no members. */
int weft_group_rank_of(const weft_group_t *g, weft_str_t device);
bool weft_group_has_task(const weft_group_t *g, weft_str_t task);
typedef void weft_group_fn(void *arg, weft_status_t *status, weft_group_t *group); /* group: one reference */

/* A member's part in a collective of few bytes whose members are all on one host. In round 0 each gives
 * `bytes` to all others, in round 1, if there is one, `second_bytes`. All is lent until it is done. */
typedef struct weft_posting {
  int64_t step_id;
  weft_str_t run; /* the run, and a part of its own: what ends it ends this */
  const weft_group_t *group;
  int rank;
  const void *data;
  const size_t *bytes;        /* by rank: what each gives */
  const size_t *second_bytes; /* by rank; NULL: one round */
  const size_t *reads[2];     /* by round and rank: what is read of it, for the counters */
  bool waits_for_readers;     /* is done when all others have read */
  bool keeps_thread;          /* the caller has nothing else to do: `post` may return when it is done */
  /* All members' bytes of a round have come: from[rank] are lent for this call. Others may change them
   * meanwhile, if the collective fails. `second`: memory for this member's second bytes, to be filled in
   * round 0; NULL in round 1. On any thread. */
  void (*read)(void *arg, int round, const void *const *from, void *second);
  void *arg; /* of read */
} weft_posting_t;

/* All that must be the same in one instance on all ranks, and which rank is the source of a broadcast. */
typedef struct weft_instance_request {
  int64_t group_key, instance_key, step_id;
  int rank, group_size;
  weft_str_t name, device;
  weft_collective_kind_t kind;
  int dtype;
  weft_shape_t shape; /* for kinds whose shapes may differ by rank: without dimension 0 */
  weft_reduction_t reduction;
  bool is_mean, is_source;
  weft_collective_algorithm_t algorithm; /* as wanted */
  int root;
  uint64_t details;   /* hash of splits' presence, targets and the like; must be the same on all ranks, but
                         WEFT_INSTANCE_DOUBT */
  int64_t timeout_ms; /* as above */
} weft_instance_request_t;
/* A peer does something else than was agreed: the leader waits for the request of that peer instead of
 * answering from memory. */
#define WEFT_INSTANCE_DOUBT (UINT64_C(1) << 63)
typedef void weft_instance_fn(void *arg, weft_status_t *status, int source_rank);

typedef struct weft_transport_ops {
  /* Offers `bytes` at `data`, to be fetched once by `to_device`'s task; done when it has them, or when the
   * offer ends (withdrawn, step ended, peer lost). `data` must live until then. Few bytes may be done as soon
   * as they are on their way, unless `is_kept`: then not before they were fetched. */
  void (*offer)(weft_transport_t *t, int64_t step_id, weft_str_t key, weft_str_t to_task,
                weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                weft_transfer_done_fn *done, void *arg);
  /* One run of an instance failed: offers made here and fetches asked for here or from elsewhere, under keys
   * that begin with "run/", end with `why`, present ones and those that come until the step ends; so they do
   * at the tasks of `group` (NULL: only here), to which it is broadcast as well as possible, without waiting.
   * A second failure of a run is ignored. */
  void (*fail)(weft_transport_t *t, int64_t step_id, weft_str_t run, const weft_group_t *group,
               const weft_status_t *why);
  /* `task` is lost: transfers with it end with UNAVAILABLE naming it (`why`); a leader fails its groups. */
  void (*lost_task)(weft_transport_t *t, weft_str_t task, const weft_status_t *why);
  /* Why `task` may be lost: a task that departs because another one failed is not the cause. Consumes `why`;
   * returns it, or the cause. NULL: the transport knows nothing of causes. */
  weft_status_t *(*cause)(weft_transport_t *t, weft_str_t task, weft_status_t *why);
  /* A step begins, perhaps under the id of one that failed before: what end_step ended is forgotten. NULL:
   * nothing to forget. */
  void (*begin_step)(weft_transport_t *t, int64_t step_id);
  /* Ends the offers and fetches of a step, with `why`: present ones, and later ones until it begins again. */
  void (*end_step)(weft_transport_t *t, int64_t step_id, const weft_status_t *why);
  void (*fetch)(weft_transport_t *t, const weft_fetch_t *f, weft_canceller_t *canceller,
                weft_transfer_done_fn *done, void *arg);
  /* Done when this member has read all rounds. UNIMPLEMENTED, and `read` was not called: it is so for all
   * members of the group, which go another way. NULL: always so. */
  void (*post)(weft_transport_t *t, const weft_posting_t *p, weft_canceller_t *canceller,
               weft_transfer_done_fn *done, void *arg);
  int max_posting; /* most members of a posting */
  /* Ask the leader. */
  void (*complete_group)(weft_transport_t *t, const weft_group_request_t *r, weft_canceller_t *canceller,
                         weft_group_fn *fn, void *arg);
  void (*complete_instance)(weft_transport_t *t, const weft_instance_request_t *r,
                            weft_canceller_t *canceller, weft_instance_fn *fn, void *arg);
  /* Seconds that a message of `bytes` takes between two members: the measured link, for the choice of an
   * algorithm. */
  double (*cost)(weft_transport_t *t, weft_str_t from_task, weft_str_t to_task, size_t bytes);
  void (*destroy)(weft_transport_t *t);
} weft_transport_ops_t;
struct weft_transport {
  const weft_transport_ops_t *ops;
};
/* What ends collectives with `task`, which is lost because of `why`: UNAVAILABLE. A task that departs because
 * of another loss gives that as its reason; the reason then stands alone, because the first task named is
 * taken for the cause. */
weft_status_t *weft_transport_loss(weft_str_t task, const weft_status_t *why);
/* "/job:a/replica:0/task:1/device:CPU:0" -> "/job:a/replica:0/task:1" and "CPU"; views of `device`. */
weft_str_t weft_transport_task_of(weft_str_t device);
weft_str_t weft_transport_type_of(weft_str_t device);

WEFT_MUST_CHECK weft_status_t *weft_collectives_create(
    weft_str_t task, weft_thread_pool_t *pool, weft_transport_t *transport,
    weft_collectives_t **out);                        /* all borrowed but `task`, copied */
void weft_collectives_destroy(weft_collectives_t *c); /* cancels and waits; NULL is fine */

#endif /* WEFT_COLLECTIVES_TRANSPORT_H_ */
