/* collectives/group_cache.c - a map of groups, each with a map of instances.
 *
 * Locking: the cache's `mu` guards the map of groups, each group's `mu` its instances; both are leaves.
 */
#include "collectives/group_cache.h"

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

enum {
  MAX_INSTANCES = 1 << 14
}; /* per group; eager TensorFlow clients use a new key for each call: old ones go */

typedef struct cached_instance {
  struct cached_instance *next; /* of those with the same number */
  int64_t key;
  int rank;
  weft_cached_instance_t known;
} cached_instance_t;

struct weft_cached_group {
  atomic_int refs;
  weft_group_t *group; /* retained; constant */
  weft_mutex_t mu;
  weft_map_t instances; /* guarded by mu, as all below; number -> chain */
  size_t num_instances;
  bool is_doubtful;
};

struct weft_group_cache {
  weft_mutex_t mu;
  weft_map_t groups; /* guarded by mu; key -> weft_cached_group_t, one reference */
};

weft_status_t *weft_group_cache_create(weft_group_cache_t **out) {
  weft_group_cache_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a cache of collective groups");
  weft_mutex_init(&c->mu);
  *out = c;
  return NULL;
}

void weft_group_cache_destroy(weft_group_cache_t *c) {
  if (c == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&c->groups, &at, &e);) weft_cached_group_release(e.value);
  weft_map_deinit(&c->groups);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

static void forget_instances(weft_cached_group_t *g) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&g->instances, &at, &e);) {
    for (cached_instance_t *i = e.value, *next; i != NULL; i = next) {
      next = i->next;
      weft_collective_plan_release(i->known.plan);
      weft_free(i);
    }
  }
  weft_map_deinit(&g->instances);
  g->instances = (weft_map_t)WEFT_MAP_INIT;
  g->num_instances = 0;
}

void weft_cached_group_release(weft_cached_group_t *g) {
  if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
  forget_instances(g);
  weft_group_release(g->group);
  weft_mutex_deinit(&g->mu);
  weft_free(g);
}

weft_group_t *weft_cached_group(const weft_cached_group_t *g) { return g->group; }

static bool set_doubtful(weft_cached_group_t *g, bool is_doubtful) {
  weft_mutex_lock(&g->mu);
  const bool was = g->is_doubtful;
  g->is_doubtful = is_doubtful;
  weft_mutex_unlock(&g->mu);
  return was;
}

void weft_cached_group_doubt(weft_cached_group_t *g) {
  if (g != NULL) (void)set_doubtful(g, true);
}

weft_cached_group_t *weft_group_cache_find(weft_group_cache_t *c, int64_t key) {
  weft_mutex_lock(&c->mu);
  weft_cached_group_t *g = weft_map_get_u64(&c->groups, (uint64_t)key);
  if (g != NULL) atomic_fetch_add(&g->refs, 1);
  weft_mutex_unlock(&c->mu);
  if (g == NULL) return NULL;
  weft_mutex_lock(&g->mu);
  const bool is_doubtful = g->is_doubtful;
  weft_mutex_unlock(&g->mu);
  if (!is_doubtful) return g;
  weft_cached_group_release(g);
  return NULL;
}

/* The same members with the same lives. */
static bool is_equal(const weft_group_t *a, const weft_group_t *b) {
  bool is_same = a->size == b->size;
  for (int i = 0; a != b && is_same && i < a->size; i++) {
    is_same = a->members[i].incarnation == b->members[i].incarnation &&
              weft_str_eq(a->members[i].device, b->members[i].device);
  }
  return is_same;
}

weft_status_t *weft_group_cache_keep(weft_group_cache_t *c, weft_group_t *group, weft_cached_group_t **out) {
  weft_cached_group_t *mine = weft_calloc(1, sizeof *mine);
  if (mine == NULL) return WEFT_NO_MEMORY("collective group %lld", (long long)group->key);
  atomic_init(&mine->refs, 1);
  weft_mutex_init(&mine->mu);
  mine->group = weft_group_retain(group);
  weft_status_t *s = NULL;
  void *replaced = NULL;
  weft_mutex_lock(&c->mu);
  weft_cached_group_t *there = weft_map_get_u64(&c->groups, (uint64_t)group->key);
  const bool is_there = there != NULL && is_equal(there->group, group);
  if (!is_there) s = weft_map_put_u64(&c->groups, (uint64_t)group->key, mine, &replaced);
  weft_cached_group_t *kept = is_there ? there : mine;
  if (s == NULL) atomic_fetch_add(&kept->refs, 1); /* the caller's */
  weft_mutex_unlock(&c->mu);
  weft_cached_group_release(replaced);
  if (is_there || s != NULL) weft_cached_group_release(mine);
  if (s != NULL) return s;
  (void)set_doubtful(kept, false);
  *out = kept;
  return NULL;
}

static weft_cached_group_t *take_group_of(weft_group_cache_t *c, weft_str_t task) {
  weft_cached_group_t *found = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&c->mu);
  for (size_t at = 0; found == NULL && weft_map_next(&c->groups, &at, &e);) {
    weft_cached_group_t *g = e.value;
    if (weft_group_has_task(g->group, task)) found = weft_map_remove_u64(&c->groups, (uint64_t)g->group->key);
  }
  weft_mutex_unlock(&c->mu);
  return found;
}

void weft_group_cache_lose_task(weft_group_cache_t *c, weft_str_t task, weft_group_losses_t *losses,
                                const weft_status_t *why) {
  for (weft_cached_group_t *g = take_group_of(c, task); g != NULL; g = take_group_of(c, task)) {
    weft_group_losses_add(losses, g->group->key, why);
    weft_cached_group_release(g);
  }
}

/* ---- instances ---- */

static uint64_t number_of(int64_t key, int rank) {
  return ((uint64_t)key * 0x9e3779b97f4a7c15u) ^ (uint64_t)rank;
}

static cached_instance_t *find_locked(weft_cached_group_t *g, int64_t key, int rank) WEFT_REQUIRES(g->mu) {
  cached_instance_t *i = weft_map_get_u64(&g->instances, number_of(key, rank));
  while (i != NULL && (i->key != key || i->rank != rank)) i = i->next;
  return i;
}

static bool is_same_signature(const weft_coll_signature_t *a, const weft_coll_signature_t *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

bool weft_cached_group_find(weft_cached_group_t *g, int64_t key, int rank, weft_cached_instance_t *out) {
  weft_mutex_lock(&g->mu);
  const cached_instance_t *i = find_locked(g, key, rank);
  if (i != NULL) {
    *out = i->known;
    weft_collective_plan_retain(out->plan);
  }
  weft_mutex_unlock(&g->mu);
  return i != NULL;
}

weft_status_t *weft_cached_group_keep(weft_cached_group_t *g, int64_t key, int rank,
                                      const weft_coll_signature_t *signature, bool is_source, int source) {
  cached_instance_t *spare = weft_calloc(1, sizeof *spare);
  if (spare == NULL) return WEFT_NO_MEMORY("a collective's instance");
  *spare = (cached_instance_t){.key = key, .rank = rank};
  weft_status_t *s = NULL;
  weft_coll_plan_t *old = NULL;
  weft_mutex_lock(&g->mu);
  cached_instance_t *i = find_locked(g, key, rank);
  if (i == NULL) {
    if (g->num_instances >= MAX_INSTANCES) forget_instances(g);
    spare->next = weft_map_get_u64(&g->instances, number_of(key, rank));
    s = weft_map_put_u64(&g->instances, number_of(key, rank), spare, NULL);
    if (s == NULL) {
      i = spare;
      spare = NULL;
      g->num_instances++;
    }
  }
  if (i != NULL) {
    if (!is_same_signature(&i->known.signature, signature) || i->known.source != source) {
      old = i->known.plan;
      i->known.plan = NULL;
    }
    i->known.signature = *signature;
    i->known.is_source = is_source;
    i->known.source = source;
  }
  weft_mutex_unlock(&g->mu);
  weft_collective_plan_release(old);
  weft_free(spare);
  return s;
}

void weft_cached_group_keep_plan(weft_cached_group_t *g, int64_t key, int rank,
                                 const weft_coll_signature_t *signature, weft_coll_plan_t *plan,
                                 bool owns_input) {
  weft_coll_plan_t *old = NULL;
  weft_mutex_lock(&g->mu);
  cached_instance_t *i = find_locked(g, key, rank);
  if (i != NULL && i->known.plan != plan && is_same_signature(&i->known.signature, signature)) {
    old = i->known.plan;
    i->known.plan = weft_collective_plan_retain(plan);
    i->known.plan_owns_input = owns_input;
  }
  weft_mutex_unlock(&g->mu);
  weft_collective_plan_release(old);
}
