/* collectives/collectives_impl.h - what a task's collectives are made of; for collectives.c, join.c and
 * agreement.c alone.
 *
 * The leader is asked once for a group and once for an instance; both answers are kept, so that a repeated
 * step touches two hash tables and asks nobody. A kept group goes when a task of it is lost, or when a run of
 * it failed: the next one asks the leader again. Whoever uses it meanwhile holds a reference.
 *
 * Locking: `mu` is a leaf; groups' entries and their instances are guarded by it.
 */
#ifndef WEFT_COLLECTIVES_COLLECTIVES_IMPL_H_
#define WEFT_COLLECTIVES_COLLECTIVES_IMPL_H_

#include "base/hash_map.h"
#include "collectives/run.h"

typedef struct weft_group_entry {
  atomic_int refs;
  weft_group_t *group;
  weft_map_t instances; /* guarded by the collectives' mu; number -> chain */
  size_t num_instances;
  bool is_doubtful; /* guarded by the collectives' mu: a run has failed, the leader is to be asked for the
                       group again */
} weft_group_entry_t;

struct weft_collectives {
  char *task;
  weft_str_t task_text;
  weft_thread_pool_t *pool;    /* borrowed */
  weft_transport_t *transport; /* borrowed */
  weft_timer_t *timer;
  weft_mutex_t mu;
  weft_cond_t idle;
  weft_map_t groups;     /* guarded by mu; key -> weft_group_entry_t, one reference */
  weft_coll_run_t *runs; /* guarded by mu */
  int num_runs;          /* guarded by mu */
  bool is_ending;        /* guarded by mu */
};

void weft_group_entry_forget_instances(weft_group_entry_t *e);
void weft_group_entry_release(weft_group_entry_t *e); /* NULL is fine */

/* join.c: the group of a run, from memory or from the leader. */
WEFT_MUST_CHECK weft_status_t *weft_run_stage_group(weft_coll_run_t *r);
/* agreement.c: what all ranks do in an instance. */
WEFT_MUST_CHECK weft_status_t *weft_run_stage_instance(weft_coll_run_t *r);

#endif /* WEFT_COLLECTIVES_COLLECTIVES_IMPL_H_ */
