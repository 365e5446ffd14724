/* master/collective_steps.c - a map from graph keys to ids. `mu` is a leaf: nothing is called under it. */
#include "master/collective_steps.h"

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"

#define ID_BITS ((INT64_C(1) << 56) - 1)

typedef struct graph_steps {
  int64_t first, next; /* the leader's id, and this master's position; 0: not requested yet */
  bool is_doubtful;    /* a step has failed since the leader was asked */
} graph_steps_t;

struct weft_collective_steps {
  weft_worker_cache_t *cache;
  char *task, *leader;
  weft_mutex_t mu;
  weft_map_t graphs; /* guarded by mu: key -> graph_steps_t, owned */
};

weft_status_t *weft_collective_steps_create(const weft_collective_steps_options_t *o,
                                            weft_collective_steps_t **out) {
  weft_collective_steps_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a master");
  weft_mutex_init(&s->mu);
  weft_str_t leader = o->leader.length > 0 ? o->leader : o->task;
  s->cache = o->cache;
  s->task = weft_strndup(o->task.data, o->task.length);
  s->leader = weft_strndup(leader.data, leader.length);
  if (s->task == NULL || s->leader == NULL) {
    weft_collective_steps_destroy(s);
    return WEFT_NO_MEMORY("a master");
  }
  *out = s;
  return NULL;
}

void weft_collective_steps_destroy(weft_collective_steps_t *s) {
  if (s == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) weft_free(e.value);
  weft_map_deinit(&s->graphs);
  weft_mutex_deinit(&s->mu);
  weft_free(s->task);
  weft_free(s->leader);
  weft_free(s);
}

bool weft_collective_steps_has_peers(const weft_collective_steps_t *s) {
  int n = 0;
  s->cache->tasks(s->cache, &n);
  return n > 1;
}

/* Finds the graph or adds `fresh` (then consumed: *fresh is NULL). */
static weft_status_t *find_locked(weft_collective_steps_t *s, int64_t key, graph_steps_t **fresh,
                                  graph_steps_t **out) WEFT_REQUIRES(s->mu) {
  *out = weft_map_get_u64(&s->graphs, (uint64_t)key);
  if (*out != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&s->graphs, (uint64_t)key, *fresh, NULL));
  *out = *fresh;
  *fresh = NULL;
  return NULL;
}

/* The leader says `id`. A master that has counted on from the leader's id keeps its count, unless the leader
 * is ahead, or was restarted: then its id is elsewhere. */
static void learn(graph_steps_t *g, int64_t id) {
  bool is_behind = g->next != 0 && id >= g->first && id <= g->next;
  if (!is_behind) g->first = g->next = id;
  g->is_doubtful = false;
}

static void doubt_locked(weft_collective_steps_t *s) WEFT_REQUIRES(s->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) ((graph_steps_t *)e.value)->is_doubtful = true;
}

/* This master's own count of them. */
static void forget_locked(weft_collective_steps_t *s) WEFT_REQUIRES(s->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) ((graph_steps_t *)e.value)->next = 0;
}

void weft_collective_steps_doubt(weft_collective_steps_t *s) {
  weft_mutex_lock(&s->mu);
  doubt_locked(s);
  weft_mutex_unlock(&s->mu);
}

typedef struct step_id_query {
  weft_collective_steps_t *steps;
  int64_t key;
  weft_step_id_fn *fn;
  void *arg;
} step_id_query_t;

static void answered(void *arg, weft_status_t *status, const int64_t *ids) {
  step_id_query_t *q = arg;
  weft_collective_steps_t *s = q->steps;
  graph_steps_t *fresh = status == NULL ? weft_calloc(1, sizeof *fresh) : NULL, *g = NULL;
  int64_t id = 0;
  if (status != NULL) weft_collective_steps_doubt(s); /* a leader that is back counts from elsewhere */
  if (status == NULL && fresh == NULL) status = WEFT_NO_MEMORY("a collective graph");
  if (status == NULL) {
    weft_mutex_lock(&s->mu);
    status = find_locked(s, q->key, &fresh, &g);
    if (status == NULL && (g->next == 0 || g->is_doubtful))
      learn(g, ids[0]); /* else another step has asked meanwhile */
    if (status == NULL) id = g->next;
    weft_mutex_unlock(&s->mu);
  }
  weft_free(fresh);
  q->fn(q->arg, status, id);
  weft_free(q);
}

void weft_collective_steps_next(weft_collective_steps_t *s, int64_t key, weft_step_id_fn *fn, void *arg) {
  weft_mutex_lock(&s->mu);
  const graph_steps_t *g = weft_map_get_u64(&s->graphs, (uint64_t)key);
  int64_t id = g == NULL || g->is_doubtful ? 0 : g->next;
  weft_mutex_unlock(&s->mu);
  if (id != 0) {
    fn(arg, NULL, id);
    return;
  }
  weft_worker_client_t *leader = s->cache->find(s->cache, weft_str(s->leader));
  step_id_query_t *q = leader == NULL ? NULL : weft_calloc(1, sizeof *q);
  if (q == NULL) {
    fn(arg,
       leader == NULL
           ? WEFT_ERROR(INVALID_ARGUMENT, "No worker known as %s, which leads collective graphs", s->leader)
           : WEFT_NO_MEMORY("a collective graph"),
       0);
  } else {
    *q = (step_id_query_t){s, key, fn, arg};
    leader->ops->get_step_sequence(leader, &key, 1, answered, q);
  }
  weft_worker_client_release(leader);
}

void weft_collective_steps_retire(weft_collective_steps_t *s, int64_t key, int64_t step_id,
                                  const weft_status_t *failure) {
  weft_mutex_lock(&s->mu);
  graph_steps_t *g = weft_map_get_u64(&s->graphs, (uint64_t)key);
  bool is_next = g != NULL && g->next == step_id;
  if (is_next) g->next = (step_id + 1) & ID_BITS;
  if (failure != NULL) doubt_locked(s);
  if (weft_status_code(failure) == WEFT_UNAVAILABLE) forget_locked(s);
  weft_mutex_unlock(&s->mu);
  if (!is_next || strcmp(s->task, s->leader) != 0) return;
  weft_worker_client_t *own = s->cache->find(s->cache, weft_str(s->task));
  if (own != NULL) own->ops->retire_step(own, key, step_id);
  weft_worker_client_release(own);
}
