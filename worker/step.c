/* worker/step.c - the table of steps.
 *
 * Locking: the table's `mu` is a leaf: steps are made before it is taken, and
 * aborted, cancelled and released after it is given back. The rendezvous's locks are taken under it.
 */
#include "worker/step.h"

#include <inttypes.h>

#include "base/alloc.h"

enum { MAX_FREE = 16 };

static void step_free(weft_worker_step_t *s) {
  weft_rendezvous_release(s->rendezvous);
  weft_step_container_destroy(s->container);
  weft_canceller_release(s->canceller);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

static weft_status_t *step_create(weft_step_table_t *t, int64_t id, weft_worker_step_t **out) {
  weft_worker_step_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("step %" PRId64, id);
  atomic_init(&s->refs, 1);
  weft_mutex_init(&s->mu);
  s->table = t;
  s->id = id;
  weft_status_t *status = weft_remote_rendezvous_create(t->task, id, t->source, &s->rendezvous);
  if (status == NULL) status = weft_step_container_create(&s->container);
  s->canceller = weft_canceller_create(NULL);
  if (status == NULL && s->canceller == NULL) status = WEFT_NO_MEMORY("step %" PRId64, id);
  if (status != NULL) {
    weft_worker_step_release(s);
    return status;
  }
  *out = s;
  return NULL;
}

/* Nothing knows of `s` any more. False: it was used. */
static bool is_kept(weft_worker_step_t *s) {
  if (s->canceller == NULL || !weft_canceller_is_new(s->canceller) || s->partial != NULL || s->is_moved)
    return false;
  if (!weft_step_container_is_new(s->container) || !weft_remote_rendezvous_renew(s->rendezvous, 0))
    return false;
  weft_step_table_t *t = s->table;
  weft_mutex_lock(&t->mu);
  const bool is_kept = !t->stopped && t->num_free < MAX_FREE;
  if (is_kept) {
    s->next_free = t->free;
    t->free = s;
    t->num_free++;
  }
  weft_mutex_unlock(&t->mu);
  return is_kept;
}

void weft_worker_step_release(weft_worker_step_t *s) {
  if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  if (s->rendezvous != NULL && s->container != NULL && is_kept(s)) return;
  if (s->partial != NULL) s->partial->free(s->partial);
  step_free(s);
}

/* One that was kept, as if it were new; in the table afterwards. NULL: there is none. */
static weft_worker_step_t *reuse_locked(weft_step_table_t *t, int64_t id) WEFT_REQUIRES(t->mu) {
  weft_worker_step_t *s = t->stopped ? NULL : t->free;
  if (s == NULL) return NULL;
  if (!weft_remote_rendezvous_renew(s->rendezvous, id)) return NULL;
  weft_status_t *status = weft_map_put_u64(&t->steps, (uint64_t)id, s, NULL);
  if (status != NULL) { /* the caller tries it once more, and says so */
    weft_status_free(status);
    return NULL;
  }
  t->free = s->next_free;
  t->num_free--;
  s->next_free = NULL;
  s->id = id;
  atomic_store(&s->refs, 1);
  atomic_store(&s->was_run, false);
  atomic_store(&s->ends_itself, false);
  atomic_store(&s->waiting_peers, 0);
  return s;
}

static weft_worker_step_t *retain(weft_worker_step_t *s) {
  if (s != NULL) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void weft_step_table_init(weft_step_table_t *t, weft_str_t task, weft_tensor_source_t source) {
  *t = (weft_step_table_t){.task = task, .source = source};
  weft_mutex_init(&t->mu);
}

void weft_step_table_deinit(weft_step_table_t *t) {
  for (weft_worker_step_t *next; t->free != NULL; t->free = next) {
    next = t->free->next_free;
    step_free(t->free);
  }
  weft_map_deinit(&t->steps);
  weft_mutex_deinit(&t->mu);
}

weft_worker_step_t *weft_step_table_find(weft_step_table_t *t, int64_t id) {
  weft_mutex_lock(&t->mu);
  weft_worker_step_t *s = retain(weft_map_get_u64(&t->steps, (uint64_t)id));
  weft_mutex_unlock(&t->mu);
  return s;
}

weft_status_t *weft_step_table_get(weft_step_table_t *t, int64_t id, weft_worker_step_t **out) {
  weft_mutex_lock(&t->mu);
  weft_worker_step_t *s = weft_map_get_u64(&t->steps, (uint64_t)id);
  if (s == NULL) s = reuse_locked(t, id);
  retain(s);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    *out = s;
    return NULL;
  }
  weft_worker_step_t *mine = NULL;
  WEFT_RETURN_IF_ERROR(step_create(t, id, &mine));
  weft_status_t *status = NULL;
  weft_mutex_lock(&t->mu);
  s = retain(weft_map_get_u64(&t->steps, (uint64_t)id)); /* another thread may have been faster */
  if (s == NULL && t->stopped)
    status = WEFT_ERROR(UNAVAILABLE, "The task %.*s was shut down", WEFT_STR_ARGS(t->task));
  if (s == NULL && status == NULL) {
    status = weft_map_put_u64(&t->steps, (uint64_t)id, mine, NULL);
    if (status == NULL) {
      s = retain(mine);
      mine = NULL;
    }
  }
  weft_mutex_unlock(&t->mu);
  weft_worker_step_release(mine);
  if (status == NULL) *out = s;
  return status;
}

weft_status_t *weft_worker_step_move(weft_worker_step_t *s, weft_str_t task, weft_worker_cache_t *cache) {
  weft_mutex_lock(
      &s->mu); /* pieces of a partial run may arrive at once: each waits until the step has moved */
  weft_status_t *status = s->is_moved ? NULL : weft_remote_rendezvous_move(s->rendezvous, task, cache);
  if (status == NULL) s->is_moved = true;
  weft_mutex_unlock(&s->mu);
  return status;
}

/* Ends a step that is out of the table with `status` (consumed; NULL: it has ended); gives back the table's
 * reference. */
static void finish(weft_worker_step_t *s, weft_status_t *status) {
  weft_mutex_lock(&s->mu);
  bool may_run = s->partial != NULL; /* a partial run waits for feeds that will never come */
  weft_mutex_unlock(&s->mu);
  weft_rendezvous_abort(s->rendezvous, status);
  if (may_run) weft_canceller_cancel(s->canceller);
  weft_status_free(status);
  weft_worker_step_release(s);
}

void weft_step_table_cleanup(weft_step_table_t *t, int64_t id) {
  weft_mutex_lock(&t->mu);
  weft_worker_step_t *s = weft_map_remove_u64(&t->steps, (uint64_t)id);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) finish(s, NULL);
}

/* Ends a step that ends itself, if nothing is left of it. A peer that receives tries it again afterwards. */
static void try_to_end(weft_step_table_t *t, weft_worker_step_t *s) {
  weft_mutex_lock(&t->mu);
  const bool is_over = atomic_load(&s->ends_itself) && atomic_load(&s->waiting_peers) == 0 &&
                       weft_map_get_u64(&t->steps, (uint64_t)s->id) == s &&
                       weft_remote_rendezvous_is_empty(s->rendezvous);
  if (is_over) weft_map_remove_u64(&t->steps, (uint64_t)s->id);
  weft_mutex_unlock(&t->mu);
  if (is_over) finish(s, NULL);
}

void weft_step_table_end_when_empty(weft_step_table_t *t, weft_worker_step_t *s) {
  atomic_store(&s->ends_itself, true);
  try_to_end(t, s);
}

size_t weft_step_table_count(weft_step_table_t *t) {
  weft_mutex_lock(&t->mu);
  size_t n = t->steps.count;
  weft_mutex_unlock(&t->mu);
  return n;
}

void weft_step_table_list_run(weft_step_table_t *t, weft_strbuf_t *out) {
  weft_map_entry_t e;
  weft_mutex_lock(&t->mu);
  for (size_t at = 0; weft_map_next(&t->steps, &at, &e);) {
    const weft_worker_step_t *s = e.value;
    if (atomic_load(&s->was_run)) weft_strbuf_append(out, weft_str_of((const char *)&s->id, sizeof s->id));
  }
  weft_mutex_unlock(&t->mu);
}

void weft_step_table_peer_done(weft_step_table_t *t, weft_worker_step_t *s) {
  weft_worker_step_t *forgotten = NULL;
  weft_mutex_lock(&t->mu);
  if (atomic_fetch_sub(&s->waiting_peers, 1) == 1 && !atomic_load(&s->was_run) &&
      weft_map_get_u64(&t->steps, (uint64_t)s->id) == s) {
    forgotten = weft_map_remove_u64(&t->steps, (uint64_t)s->id);
  }
  weft_mutex_unlock(&t->mu);
  weft_worker_step_release(forgotten);
  if (atomic_load(&s->ends_itself)) try_to_end(t, s);
}

void weft_step_table_stop(weft_step_table_t *t) {
  weft_mutex_lock(&t->mu);
  t->stopped = true;
  for (;;) {
    weft_map_entry_t e;
    size_t at = 0;
    if (!weft_map_next(&t->steps, &at, &e)) break;
    weft_worker_step_t *s = e.value;
    weft_map_remove_u64(&t->steps, (uint64_t)s->id);
    weft_mutex_unlock(&t->mu);
    weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "The task %.*s was shut down", WEFT_STR_ARGS(t->task));
    weft_rendezvous_abort(s->rendezvous,
                          why); /* first: peers get the cause, not the cancellation that follows */
    weft_canceller_cancel(s->canceller);
    finish(s, why);
    weft_mutex_lock(&t->mu);
  }
  weft_mutex_unlock(&t->mu);
}
