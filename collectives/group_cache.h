/* collectives/group_cache.h - groups that the leader has given to this task, and what was agreed on their
 * instances.
 *
 * The leader is asked once for a group and once for an instance. Both answers are kept, so that a repeated
 * step looks into two hash tables and sends no request. After a failed run a group is doubtful: the next run
 * asks the leader again. What was agreed on its instances stays if the leader then names the same members,
 * because a rank that does something else next time must know which agreement it leaves.
 */
#ifndef WEFT_COLLECTIVES_GROUP_CACHE_H_
#define WEFT_COLLECTIVES_GROUP_CACHE_H_

#include "collectives/collective_call.h"
#include "collectives/group_losses.h"
#include "collectives/plan.h"
#include "collectives/transport.h"

typedef struct weft_group_cache weft_group_cache_t;   /* Thread-safe. */
typedef struct weft_cached_group weft_cached_group_t; /* Thread-safe. Refcounted. */

/* What is known of an instance since its first step, as one rank does it. */
typedef struct weft_cached_instance {
  weft_coll_signature_t signature;
  bool is_source;
  int source;
  weft_coll_plan_t *plan; /* NULL: none yet, or it depends on row counts */
  bool plan_owns_input;
} weft_cached_instance_t;

WEFT_MUST_CHECK weft_status_t *weft_group_cache_create(weft_group_cache_t **out);
void weft_group_cache_destroy(weft_group_cache_t *c); /* NULL is fine */

/* Retained; NULL if the leader is to be asked. */
weft_cached_group_t *weft_group_cache_find(weft_group_cache_t *c, int64_t key);
/* Keeps `group` (retained); *out: one reference. An equal group that is there already stays with its
 * instances. */
WEFT_MUST_CHECK weft_status_t *weft_group_cache_keep(weft_group_cache_t *c, weft_group_t *group,
                                                     weft_cached_group_t **out);
/* Forgets the groups with a member of `task`, and notes for each that it has lost it. */
void weft_group_cache_lose_task(weft_group_cache_t *c, weft_str_t task, weft_group_losses_t *losses,
                                const weft_status_t *why);

weft_group_t *weft_cached_group(const weft_cached_group_t *g); /* lent */
void weft_cached_group_doubt(weft_cached_group_t *g);          /* NULL is fine */
void weft_cached_group_release(weft_cached_group_t *g);        /* NULL is fine */

/* Copies what is known of an instance at this rank; out->plan is retained. False: nothing. */
bool weft_cached_group_find(weft_cached_group_t *g, int64_t instance_key, int rank,
                            weft_cached_instance_t *out);
/* Keeps what was agreed; a plan that was kept for another agreement goes. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_cached_group_keep(weft_cached_group_t *g, int64_t instance_key, int rank,
                                                      const weft_coll_signature_t *signature, bool is_source,
                                                      int source);
/* Keeps `plan` (retained) if `signature` still is what was agreed. */
void weft_cached_group_keep_plan(weft_cached_group_t *g, int64_t instance_key, int rank,
                                 const weft_coll_signature_t *signature, weft_coll_plan_t *plan,
                                 bool owns_input);

#endif /* WEFT_COLLECTIVES_GROUP_CACHE_H_ */
