/* collectives/collectives.h - operations in which every member of a group takes part.
 *
 * A member is a device. A *group* is found by its key: the group's leader (one
 * task of the cluster) waits until group_size members have joined, gives them their ranks once, and answers
 * all; a failure (sizes or device types that differ) is sticky for the key. An *instance* is one collective
 * of a group, found by (group key, instance key); its kind, dtype, shape and reduction are checked to be the
 * same on all ranks, and a mismatch is INVALID_ARGUMENT on every rank with both values in the message. Data
 * moves by keys that hold step, instance, pass, field and source rank, so members may start collectives in
 * any order.
 *
 * Nothing waits for ever: the step's canceller, a timeout (DEADLINE_EXCEEDED naming the ranks that did not
 * join), and the failure of a member (UNAVAILABLE naming its task, on every rank) end a collective
 * everywhere. A later group or step is not harmed.
 *
 * Sources: reference strategies 3.1 (algorithms, costs, the bitwise oracle), 1.1 R2;
 * TensorFlow's collective_param_resolver, ring_reducer, hierarchical broadcast.
 */
#ifndef WEFT_COLLECTIVES_COLLECTIVES_H_
#define WEFT_COLLECTIVES_COLLECTIVES_H_

#include "base/cancellation.h"
#include "tensor/tensor.h"

/* Shapes: `input` is what a rank gives, `output` what it gets. S: one rank's tensor. */
typedef enum weft_collective_kind {
  WEFT_BROADCAST,  /* root's input -> output of all ranks */
  WEFT_SCATTER,    /* root's input [N*d0, ...] -> rank i gets rows i*d0.. */
  WEFT_GATHER,     /* as all-gather, but only root has an output (others: NULL) */
  WEFT_ALL_GATHER, /* inputs joined along dimension 0 in rank order; first dimensions may differ */
  WEFT_ALL_TO_ALL, /* block j of rank i's input -> block i of rank j's output; `splits`: rows per block (v) */
  WEFT_REDUCE,     /* the reduction, at root only */
  WEFT_ALL_REDUCE, /* the reduction, at all ranks */
  WEFT_REDUCE_SCATTER, /* rank i gets rows i*d0/N.. of the reduction */
  WEFT_PERMUTE,        /* rank i's input -> rank targets[i]; a rank that is no target gets zeros */
  WEFT_BARRIER,        /* nothing moves; ends when all ranks have joined */
} weft_collective_kind_t;

typedef enum weft_reduction {
  WEFT_REDUCE_SUM,
  WEFT_REDUCE_PROD,
  WEFT_REDUCE_MIN,
  WEFT_REDUCE_MAX
} weft_reduction_t;

typedef enum weft_collective_algorithm {
  WEFT_ALGORITHM_AUTO, /* by size and topology, from the measured cost model */
  WEFT_ALGORITHM_RING,
  WEFT_ALGORITHM_TREE,
  WEFT_ALGORITHM_HALVING_DOUBLING, /* any N: binary blocks or fold in the rest */
  WEFT_ALGORITHM_HIERARCHICAL,     /* within a host, across hosts, within a host */
  WEFT_ALGORITHM_DIRECT,           /* every rank fetches its field from all others at once: one host */
} weft_collective_algorithm_t;
/* "auto", "ring", "tree", "halving_doubling", "hierarchical", "direct"; false if unknown. "nccl" is AUTO. "":
 * AUTO. */
bool weft_collective_algorithm_parse(weft_str_t text, weft_collective_algorithm_t *out);
const char *weft_collective_algorithm_name(weft_collective_algorithm_t a);

/* Where a member's tensors lie, if that is not the host's memory. The caller's own struct begins with one; it
 * lives until the call is done. */
typedef struct weft_collective_place weft_collective_place_t;

/* Called once, on any thread. Owns both; `tensor` is NULL on failure. */
typedef void weft_collective_moved_fn(void *arg, weft_status_t *status, weft_tensor_t *tensor);

/* What all members of one task do at once; those of one task among several, where it is begun jointly. */
typedef struct weft_collective_together {
  const struct weft_collective *call; /* of one of them; rank, device, input and place are its own */
  int source;                         /* of a broadcast */
  const int64_t *bounds; /* all-gather, reduce-scatter: rank i's elements are those from bounds[i] on */
  int n;                 /* of the group */
  int num_own;           /* of the task: of the three below */
  weft_collective_place_t *const *places; /* by rank, as the next two */
  weft_tensor_t *const *inputs;           /* NULL: the rank only receives */
  weft_tensor_t *const *outputs; /* by new_output, or the rank's input or another tensor of its bytes */
} weft_collective_together_t;

enum { WEFT_PLACE_ID_BYTES = 16, WEFT_JOINT_ID_BYTES = 128 };

/* What places of several tasks do by themselves, in communicators that they make together (device/joint.h).
 */
typedef struct weft_joint_places {
  /* Can these be in one communicator with those of other tasks? Fills n times WEFT_PLACE_ID_BYTES: two ranks
   * of one id cannot. Errors: UNIMPLEMENTED, or why not. */
  weft_status_t *(*identify)(weft_collective_place_t *const *places, int n, uint8_t *out_ids);
  weft_status_t *(*unique_id)(weft_collective_place_t *const *places, int n, uint8_t *out);
  /* places[i] is rank ranks[i] of n. Does not wait. */
  weft_status_t *(*join)(weft_collective_place_t *const *places, const int *ranks, int num_own, int n,
                         const uint8_t *id, void **out_communicator);
  /* Begins; waits for the tasks that have not joined. done(arg, status) is called once, on any thread, when
   * it is done here or was broken off; not after an error: then UNIMPLEMENTED, nothing has begun, or why. */
  weft_status_t *(*run)(void *communicator, const weft_collective_together_t *t,
                        void (*done)(void *arg, weft_status_t *status), void *arg);
  void (*abort)(void *communicator); /* ends what waits for other tasks */
  void (*leave)(void *communicator);
} weft_joint_places_t;

typedef struct weft_collective_place_ops {
  /* A new tensor there. Errors: RESOURCE_EXHAUSTED. */
  weft_status_t *(*new_output)(weft_collective_place_t *p, weft_dtype_t dtype, const weft_shape_t *shape,
                               weft_tensor_t **out);
  /* A tensor's value in the host's memory, to be read at once; a tensor of the host's at the place. Never
   * block. */
  void (*to_host)(weft_collective_place_t *p, weft_tensor_t *t, weft_collective_moved_fn *fn, void *arg);
  void (*from_host)(weft_collective_place_t *p, weft_tensor_t *t, weft_collective_moved_fn *fn, void *arg);
  /* Begins all-reduce, reduction, reduce-scatter, all-gather, broadcast or all-to-all of equal blocks, where
   * all members are of one task. A reduction has outputs at all ranks. Does not wait for it: the outputs have
   * fences. Errors: UNIMPLEMENTED, and nothing has begun: then bytes go by way of the host. NULL: always so.
   */
  weft_status_t *(*run_together)(const weft_collective_together_t *t);
  /* The same, where members are of several tasks. NULL: by way of the host. */
  const weft_joint_places_t *joint;
} weft_collective_place_ops_t;
struct weft_collective_place {
  const weft_collective_place_ops_t *ops;
};

/* One member's part in one collective. Copied by weft_collectives_run, `input` retained; texts too. */
typedef struct weft_collective {
  weft_collective_kind_t kind;
  weft_str_t name;   /* of the node, for messages */
  weft_str_t device; /* "/job:worker/replica:0/task:1/device:CPU:0": the member. One per device and group */
  int64_t step_id;
  uint64_t frame_id; /* in a loop: an instance runs once per iteration */
  int64_t iteration;
  int64_t group_key, instance_key;
  weft_str_t shared_name; /* not "": there are no keys. The group is the first group_size members of this task
                             that name it in a step, frame and iteration */
  int group_size;
  int rank; /* wanted rank; -1: by the order of device names. All members say the same way */
  weft_reduction_t reduction;
  bool is_mean;   /* divides what was reduced by group_size */
  int root;       /* rank; -1: the rank that has is_source */
  bool is_source; /* of a broadcast without known root, or of another kind with a root and a shared_name */
  weft_dtype_t dtype;
  weft_shape_t shape;             /* of the input; of the output for a receiver of broadcast or scatter */
  weft_tensor_t *input;           /* NULL for a rank that only receives */
  weft_collective_place_t *place; /* of input and output; NULL: the host's memory */
  const int64_t *splits;          /* of all-to-all: group_size row counts; NULL: equal blocks */
  const int *targets;             /* of permute: group_size ranks */
  bool is_uniform;  /* of gather, all-gather: all ranks' shapes are the same (then checked), no row counts
                       travel */
  bool takes_input; /* the input's memory may be overwritten: the caller holds no other reference */
  bool waits;       /* the caller has nothing else to do until it is done: weft_collectives_run() may keep its
                       thread until then */
  weft_collective_algorithm_t algorithm;
  int64_t timeout_ms; /* 0: none */
} weft_collective_t;

typedef struct weft_collectives weft_collectives_t; /* Of a task. Thread-safe. */

/* Called once, on any thread. Owns status and output (NULL if this rank gets none). */
typedef void weft_collective_done_fn(void *arg, weft_status_t *status, weft_tensor_t *output);
/* Never blocks, unless call->waits. All outstanding transfers have ended when done is called. Errors beside
 * those above: INTERNAL (INVALID_ARGUMENT for what the call itself says wrongly), CANCELLED. A zero-sized or
 * one-member collective works. */
void weft_collectives_run(weft_collectives_t *c, const weft_collective_t *call, weft_canceller_t *canceller,
                          weft_collective_done_fn *done, void *arg);

/* The step ended: forgets what it kept here; fetches of it end with `why` (copied; NULL: ABORTED). */
void weft_collectives_end_step(weft_collectives_t *c, int64_t step_id, const weft_status_t *why);

/* How many losses the groups in use here have had: the age of a session that begins now. */
int64_t weft_collectives_losses(const weft_collectives_t *c);
/* Step `step_id` begins, perhaps under the id of one that failed before. It is of a session that began after
 * `losses` losses: its collectives in groups that have lost a member since end with that loss, because the
 * other members begin anew. Known until weft_collectives_end_step. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_collectives_begin_step(weft_collectives_t *c, int64_t step_id,
                                                           int64_t losses);

/* A task is known to be lost (heartbeats): what waits for it ends with UNAVAILABLE naming it, and its groups
 * fail until it returns. */
void weft_collectives_lost_task(weft_collectives_t *c, weft_str_t task, const weft_status_t *why);

#endif /* WEFT_COLLECTIVES_COLLECTIVES_H_ */
