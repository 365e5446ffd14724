/* collectives/plan.h - one rank's part of a collective as a list of actions.
 *
 * An algorithm is a function that writes a plan: what to send, receive, reduce and
 * copy, from which bytes to which. It says no order: an action waits for the
 * earlier ones whose bytes it needs or overwrites, which the plan finds out from
 * the regions. So fields pipeline by themselves, algorithms compose (a hierarchical
 * all-reduce is three others, one after another), and running a plan (collectives/run_actions.c) needs no
 * knowledge of the algorithm.
 *
 * Transfers meet by (pass, field, source, destination). All ranks count passes alike:
 * a rank without a part in a phase takes its pass number, too.
 *
 * A plan depends on shapes only and is kept with its instance. Failure to allocate is remembered
 * and said by weft_plan_finish(), so that algorithms are plain loops.
 */
#ifndef WEFT_COLLECTIVES_PLAN_H_
#define WEFT_COLLECTIVES_PLAN_H_

#include "collectives/collectives.h"

typedef enum weft_plan_buffer {
  WEFT_PLAN_INPUT,
  WEFT_PLAN_OUTPUT,
  WEFT_PLAN_SCRATCH,
  WEFT_PLAN_BUFFERS
} weft_plan_buffer_t;

typedef struct weft_region {
  weft_plan_buffer_t buffer;
  size_t at, bytes;
} weft_region_t;

typedef enum weft_action_kind {
  WEFT_ACTION_SEND,        /* offers `from` to peer */
  WEFT_ACTION_RECV,        /* fetches into `to` */
  WEFT_ACTION_RECV_REDUCE, /* to = from op the bytes that arrive */
  WEFT_ACTION_COPY,        /* to = from */
  WEFT_ACTION_REDUCE,      /* to = from op other; `to` may be one of them */
  WEFT_ACTION_ZERO,        /* to = 0 */
} weft_action_kind_t;

typedef struct weft_action {
  weft_action_kind_t kind;
  bool is_final; /* of a mean: the result is divided */
  int peer;      /* a rank */
  int pass, field;
  weft_region_t to, from, other;
  int num_before;             /* how many it waits for */
  int first_after, num_after; /* the actions that wait for it: a range of weft_coll_plan_t.after */
} weft_action_t;

typedef struct weft_coll_plan { /* Immutable once finished. Refcounted. */
  atomic_int refs;
  weft_action_t *actions; /* owned */
  int num_actions;
  int *after; /* owned */
  size_t scratch_bytes;
  bool input_is_output; /* what is said of OUTPUT and INPUT is about one memory */
} weft_coll_plan_t;
weft_coll_plan_t *weft_collective_plan_retain(weft_coll_plan_t *p);
void weft_collective_plan_release(weft_coll_plan_t *p); /* NULL is fine */

/* A plan in the making. Confined. */
typedef struct weft_planner {
  int rank, size;
  size_t element;     /* bytes */
  size_t field_bytes; /* a chunk is cut in fields of about this size */
  bool is_mean;
  bool input_is_output; /* one memory */
  bool owns_input;      /* the input may be overwritten */
  int next_pass;
  size_t scratch_bytes;
  bool failed;
  weft_action_t *actions;
  int num_actions, max_actions;
  struct weft_plan_access
      *accesses; /* live regions: which action wrote them last, which have read them since */
  int num_accesses, max_accesses;
  int *edges; /* pairs: before, after */
  int num_edges, max_edges;
} weft_planner_t;

int weft_plan_pass(weft_planner_t *p);
weft_region_t weft_plan_scratch(weft_planner_t *p, size_t bytes);
/* Regions of 0 bytes make no action. */
void weft_plan_send(weft_planner_t *p, int to_rank, int pass, int field, weft_region_t from);
void weft_plan_recv(weft_planner_t *p, int from_rank, int pass, int field, weft_region_t to);
void weft_plan_recv_reduce(weft_planner_t *p, int from_rank, int pass, int field, weft_region_t to,
                           weft_region_t mine, bool is_final);
void weft_plan_copy(weft_planner_t *p, weft_region_t to, weft_region_t from);
/* to = a op b; `to` may be a or b. */
void weft_plan_reduce(weft_planner_t *p, weft_region_t to, weft_region_t a, weft_region_t b, bool is_final);
void weft_plan_zero(weft_planner_t *p, weft_region_t to);
/* A message without bytes: the receiver continues when it has arrived; waits for all actions before it. */
void weft_plan_signal(weft_planner_t *p, int to_rank, int pass);
void weft_plan_await(weft_planner_t *p, int from_rank, int pass);

/* Part `i` of `n` of a region, cut at element bounds floor(S*i/n). */
weft_region_t weft_plan_part(const weft_planner_t *p, weft_region_t r, int i, int n);
/* Parts [i, j) together. */
weft_region_t weft_plan_parts(const weft_planner_t *p, weft_region_t r, int i, int j, int n);
/* In how many fields a chunk of this many bytes is cut; the same on all ranks if `bytes` is: take the largest
 * chunk. */
int weft_plan_fields(const weft_planner_t *p, size_t bytes);
static inline weft_region_t weft_region(weft_plan_buffer_t buffer, size_t at, size_t bytes) {
  return (weft_region_t){buffer, at, bytes};
}
static inline weft_region_t weft_region_in(weft_region_t like, weft_plan_buffer_t buffer) {
  return (weft_region_t){buffer, like.at, like.bytes};
}

/* Takes what was planned; the planner is then empty. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_plan_finish(weft_planner_t *p, weft_coll_plan_t **out);
void weft_planner_deinit(weft_planner_t *p);

#endif /* WEFT_COLLECTIVES_PLAN_H_ */
