/* membership/store.c - keys, values, and the requests that wait for them.
 *
 * A slot is a key with its value, its waiters, or both kinds at different times:
 * a slot with a value has no waiters. A barrier is a slot of a map of its own. A
 * slot without value and waiters does not exist.
 *
 * A waiter in a slot belongs to it. The thread that unlinks it under `mu` owns it: it deregisters the
 * canceller's and the timer's callback, which waits for one that is about to find it gone, and then calls its
 * function. A waiter is registered
 * before it is linked; what happens in between is noted in `early`.
 *
 * Locking: `mu` guards everything and is a leaf but for allocation.
 */
#include "membership/store.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"

typedef enum end_cause { NOT_ENDED, BY_VALUE, BY_CANCELLER, BY_DEADLINE, BY_STOP } end_cause_t;

typedef struct store_slot store_slot_t;
typedef struct store_waiter {
  struct store_waiter *prev, *next;
  weft_store_t *store;
  store_slot_t *slot; /* that it is linked in; NULL: none */
  weft_value_fn *fn;
  void *arg;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token, timer_id;
  bool has_token, has_timer;
  end_cause_t early;     /* guarded by mu: what came before it was linked */
  weft_status_t *status; /* of the end; owned */
  char *key;             /* for messages; behind the struct */
} store_waiter_t;

struct store_slot {
  char *key; /* owned */
  size_t key_length;
  char *value; /* owned; NULL: no value */
  size_t value_length;
  store_waiter_t *waiters;
  int64_t size, arrived; /* of a barrier */
};

struct weft_store {
  weft_timer_t *timer; /* borrowed */
  weft_mutex_t mu;
  weft_map_t values, barriers; /* guarded by mu, with all that follows: key -> store_slot_t, owned */
  size_t bytes;                /* of keys and values */
  int64_t num_waits;
  bool stopped;
};

weft_status_t *weft_store_create(weft_timer_t *timer, weft_store_t **out) {
  weft_store_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a store");
  s->timer = timer;
  weft_mutex_init(&s->mu);
  *out = s;
  return NULL;
}

/* ---- slots; all with the lock held ---- */

static store_slot_t *find_slot(weft_map_t *m, weft_str_t key) { return weft_map_get(m, key); }

static store_slot_t *make_slot(weft_store_t *s, weft_map_t *m, weft_str_t key) WEFT_REQUIRES(s->mu) {
  store_slot_t *slot = weft_calloc(1, sizeof *slot);
  char *copy = weft_strndup(key.data, key.length);
  weft_status_t *status = NULL;
  if (slot != NULL && copy != NULL) status = weft_map_put(m, weft_str_of(copy, key.length), slot, NULL);
  if (slot == NULL || copy == NULL || status != NULL) {
    weft_status_free(status);
    weft_free(slot);
    weft_free(copy);
    return NULL;
  }
  slot->key = copy;
  slot->key_length = key.length;
  s->bytes += key.length + sizeof *slot;
  return slot;
}

/* Forgets a slot that holds nothing any more. */
static void drop_if_empty(weft_store_t *s, weft_map_t *m, store_slot_t *slot) WEFT_REQUIRES(s->mu) {
  if (slot->value != NULL || slot->waiters != NULL) return;
  weft_map_remove(m, weft_str_of(slot->key, slot->key_length));
  s->bytes -= slot->key_length + sizeof *slot;
  weft_free(slot->key);
  weft_free(slot);
}

static void link_waiter(weft_store_t *s, store_slot_t *slot, store_waiter_t *w) WEFT_REQUIRES(s->mu) {
  w->slot = slot;
  w->next = slot->waiters;
  if (w->next != NULL) w->next->prev = w;
  slot->waiters = w;
  slot->arrived++;
  s->num_waits++;
}

static void unlink_waiter(weft_store_t *s, store_waiter_t *w) WEFT_REQUIRES(s->mu) {
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) w->slot->waiters = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  w->slot->arrived--;
  w->slot = NULL;
  w->prev = w->next = NULL;
  s->num_waits--;
}

/* All waiters of a slot, as a list by `next`. */
static store_waiter_t *take_waiters(weft_store_t *s, store_slot_t *slot) WEFT_REQUIRES(s->mu) {
  store_waiter_t *taken = NULL;
  while (slot->waiters != NULL) {
    store_waiter_t *w = slot->waiters;
    unlink_waiter(s, w);
    w->next = taken;
    taken = w;
  }
  return taken;
}

/* ---- waiters ---- */

static weft_status_t *why(const store_waiter_t *w, end_cause_t cause, int64_t arrived, int64_t size) {
  switch (cause) {
    case BY_CANCELLER: return WEFT_ERROR(CANCELLED, "the wait for '%s' was cancelled", w->key);
    case BY_STOP:
      return WEFT_ERROR(CANCELLED, "the wait for '%s' ended: the coordination service is shutting down",
                        w->key);
    case BY_DEADLINE:
      if (size == 0) return WEFT_ERROR(DEADLINE_EXCEEDED, "'%s' was not set in time", w->key);
      return WEFT_ERROR(DEADLINE_EXCEEDED,
                        "only %" PRId64 " of %" PRId64 " callers arrived at the barrier '%s' in time",
                        arrived, size, w->key);
    default: return NULL;
  }
}

/* Ends a waiter that is in no slot. `cause`: the callback that this is called from is not deregistered. */
static void end_waiter(store_waiter_t *w, end_cause_t cause, weft_str_t value) {
  if (w->has_token && cause != BY_CANCELLER) weft_canceller_deregister(w->canceller, w->token);
  if (w->has_timer && cause != BY_DEADLINE) weft_timer_remove(w->store->timer, w->timer_id);
  weft_status_t *status = w->status;
  w->fn(w->arg, status, status == NULL ? value : WEFT_STR(""));
  weft_canceller_release(w->canceller);
  weft_free(w);
}

static void end_all(store_waiter_t *taken, end_cause_t cause, weft_str_t value) {
  while (taken != NULL) {
    store_waiter_t *next = taken->next;
    taken->next = NULL;
    end_waiter(taken, cause, value);
    taken = next;
  }
}

/* The canceller's or the timer's callback. */
static void end_one(store_waiter_t *w, end_cause_t cause) {
  weft_store_t *s = w->store;
  weft_mutex_lock(&s->mu);
  store_slot_t *slot = w->slot;
  if (slot == NULL) {
    if (w->early == NOT_ENDED) w->early = cause;
    weft_mutex_unlock(&s->mu);
    return; /* not linked yet, or taken by another thread */
  }
  w->status = why(w, cause, slot->arrived, slot->size);
  unlink_waiter(s, w);
  drop_if_empty(s, slot->size > 0 ? &s->barriers : &s->values, slot);
  weft_mutex_unlock(&s->mu);
  end_waiter(w, cause, WEFT_STR(""));
}

static void on_cancel(void *arg) { end_one(arg, BY_CANCELLER); }
static void on_deadline(void *arg) { end_one(arg, BY_DEADLINE); }

/* A waiter with its callbacks registered; NULL when there is no memory. */
static store_waiter_t *make_waiter(weft_store_t *s, const weft_store_request_t *r,
                                   weft_canceller_t *canceller, weft_value_fn *fn, void *arg) {
  store_waiter_t *w = weft_calloc(1, sizeof *w + r->key.length + 1);
  if (w == NULL) return NULL;
  w->store = s;
  w->fn = fn;
  w->arg = arg;
  w->key = (char *)(w + 1);
  memcpy(w->key, r->key.data, r->key.length);
  w->canceller = weft_canceller_retain(canceller);
  weft_status_t *status =
      weft_timer_add(s->timer, weft_clock_deadline_ns(r->timeout_ms), on_deadline, w, &w->timer_id);
  if (status != NULL) {
    weft_status_free(status);
    weft_canceller_release(canceller);
    weft_free(w);
    return NULL;
  }
  w->has_timer = true;
  if (canceller == NULL) return w;
  w->has_token = weft_canceller_register(canceller, on_cancel, w, &w->token);
  if (w->has_token) return w;
  if (!weft_canceller_is_cancelled(canceller)) {
    weft_timer_remove(s->timer, w->timer_id);
    weft_canceller_release(canceller);
    weft_free(w);
    return NULL;
  }
  weft_mutex_lock(&s->mu);
  w->early = BY_CANCELLER;
  weft_mutex_unlock(&s->mu);
  return w;
}

/* Ends a waiter that was never linked. */
static void end_unlinked(store_waiter_t *w, weft_status_t *status, weft_str_t value) {
  w->status = status;
  end_waiter(w, BY_VALUE, value);
}

/* ---- operations ---- */

static weft_status_t *full(weft_str_t key) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no room for '%.*s': the store may hold %d bytes", WEFT_STR_ARGS(key),
                    WEFT_STORE_MAX_BYTES);
}

/* Puts a value into the slot of `key`, which may not exist yet. The waiters for it come back in *out_taken.
 */
static weft_status_t *put_locked(weft_store_t *s, weft_str_t key, weft_str_t value,
                                 store_waiter_t **out_taken) WEFT_REQUIRES(s->mu) {
  if (value.length > WEFT_STORE_MAX_VALUE) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "the value of '%.*s' has %zu bytes; at most %d are allowed",
                      WEFT_STR_ARGS(key), value.length, WEFT_STORE_MAX_VALUE);
  }
  store_slot_t *slot = find_slot(&s->values, key);
  size_t had = slot == NULL ? 0 : slot->value_length;
  if (s->bytes - had + value.length + key.length > WEFT_STORE_MAX_BYTES) return full(key);
  char *copy = weft_strndup(value.length == 0 ? "" : value.data, value.length);
  if (copy != NULL && slot == NULL) slot = make_slot(s, &s->values, key);
  if (copy == NULL || slot == NULL) {
    weft_free(copy);
    return WEFT_NO_MEMORY("'%.*s'", WEFT_STR_ARGS(key));
  }
  weft_free(slot->value);
  slot->value = copy;
  slot->value_length = value.length;
  s->bytes = s->bytes - had + value.length;
  *out_taken = take_waiters(s, slot);
  return NULL;
}

/* The value of `key` as a copy for the answer; empty text: absent. */
static weft_status_t *copy_locked(weft_store_t *s, weft_str_t key, weft_strbuf_t *out) WEFT_REQUIRES(s->mu) {
  const store_slot_t *slot = find_slot(&s->values, key);
  if (slot != NULL && slot->value != NULL)
    weft_strbuf_append(out, weft_str_of(slot->value, slot->value_length));
  return out->failed ? WEFT_NO_MEMORY("'%.*s'", WEFT_STR_ARGS(key)) : NULL;
}

static weft_status_t *add_locked(weft_store_t *s, const weft_store_request_t *r, weft_strbuf_t *out,
                                 store_waiter_t **taken) WEFT_REQUIRES(s->mu) {
  const store_slot_t *slot = find_slot(&s->values, r->key);
  int64_t sum = 0;
  if (slot != NULL && slot->value != NULL &&
      !weft_str_to_i64(weft_str_of(slot->value, slot->value_length), &sum)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "cannot add to '%.*s': its value is not a number",
                      WEFT_STR_ARGS(r->key));
  }
  if ((r->delta > 0 && sum > INT64_MAX - r->delta) || (r->delta < 0 && sum < INT64_MIN - r->delta)) {
    return WEFT_ERROR(OUT_OF_RANGE, "cannot add %" PRId64 " to '%.*s': it is %" PRId64, r->delta,
                      WEFT_STR_ARGS(r->key), sum);
  }
  weft_strbuf_printf(out, "%" PRId64, sum + r->delta);
  if (out->failed) return WEFT_NO_MEMORY("'%.*s'", WEFT_STR_ARGS(r->key));
  return put_locked(s, r->key, weft_str_of(out->data, out->length), taken);
}

static weft_status_t *compare_set_locked(weft_store_t *s, const weft_store_request_t *r, weft_strbuf_t *out,
                                         store_waiter_t **taken) WEFT_REQUIRES(s->mu) {
  const store_slot_t *slot = find_slot(&s->values, r->key);
  bool is_there = slot != NULL && slot->value != NULL;
  weft_str_t now = is_there ? weft_str_of(slot->value, slot->value_length) : WEFT_STR("");
  if (weft_str_eq(now, r->expected)) WEFT_RETURN_IF_ERROR(put_locked(s, r->key, r->value, taken));
  return copy_locked(s, r->key, out);
}

static weft_status_t *delete_locked(weft_store_t *s, const weft_store_request_t *r, weft_strbuf_t *out)
    WEFT_REQUIRES(s->mu) {
  store_slot_t *slot = find_slot(&s->values, r->key);
  bool is_there = slot != NULL && slot->value != NULL;
  weft_strbuf_putc(out, is_there ? '1' : '0');
  if (out->failed) return WEFT_NO_MEMORY("'%.*s'", WEFT_STR_ARGS(r->key));
  if (!is_there) return NULL;
  s->bytes -= slot->value_length;
  weft_free(slot->value);
  slot->value = NULL;
  slot->value_length = 0;
  drop_if_empty(s, &s->values, slot);
  return NULL;
}

/* Operations that do not wait, and a get of a key that is there: then *out_waits is false. */
static weft_status_t *at_once_locked(weft_store_t *s, const weft_store_request_t *r, weft_strbuf_t *out,
                                     store_waiter_t **taken, bool *out_waits) WEFT_REQUIRES(s->mu) {
  *out_waits = false;
  if (s->stopped) {
    return WEFT_ERROR(CANCELLED, "'%.*s' cannot be reached: the coordination service is shutting down",
                      WEFT_STR_ARGS(r->key));
  }
  switch (r->op) {
    case WEFT_STORE_SET: return put_locked(s, r->key, r->value, taken);
    case WEFT_STORE_ADD: return add_locked(s, r, out, taken);
    case WEFT_STORE_COMPARE_SET: return compare_set_locked(s, r, out, taken);
    case WEFT_STORE_DELETE: return delete_locked(s, r, out);
    case WEFT_STORE_GET: break;
    case WEFT_STORE_BARRIER: *out_waits = true; return NULL;
  }
  const store_slot_t *slot = find_slot(&s->values, r->key);
  if (slot != NULL && slot->value != NULL) return copy_locked(s, r->key, out);
  if (r->timeout_ms == 0) return WEFT_ERROR(NOT_FOUND, "there is no '%.*s'", WEFT_STR_ARGS(r->key));
  *out_waits = true;
  return NULL;
}

/* ---- waiting ---- */

/* Links `w`, or says why not. A barrier that is complete now gives all its waiters, `w` too. */
static weft_status_t *join_locked(weft_store_t *s, const weft_store_request_t *r, store_waiter_t *w,
                                  weft_strbuf_t *value, store_waiter_t **out_taken, bool *out_is_linked)
    WEFT_REQUIRES(s->mu) {
  bool is_barrier = r->op == WEFT_STORE_BARRIER;
  weft_map_t *map = is_barrier ? &s->barriers : &s->values;
  *out_is_linked = false;
  if (s->stopped) return why(w, BY_STOP, 0, 0);
  store_slot_t *slot = find_slot(map, r->key);
  if (is_barrier && slot != NULL && slot->size != r->size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "barrier '%.*s' is for %" PRId64 ", not for %" PRId64,
                      WEFT_STR_ARGS(r->key), slot->size, r->size);
  }
  if (w->early != NOT_ENDED) {
    return why(w, w->early, slot == NULL ? 1 : slot->arrived + 1, is_barrier ? r->size : 0);
  }
  if (!is_barrier && slot != NULL && slot->value != NULL)
    return copy_locked(s, r->key, value); /* it came meanwhile */
  if (s->num_waits >= WEFT_STORE_MAX_WAITS || s->bytes + r->key.length > WEFT_STORE_MAX_BYTES)
    return full(r->key);
  if (slot == NULL) slot = make_slot(s, map, r->key);
  if (slot == NULL) return WEFT_NO_MEMORY("waiting for '%.*s'", WEFT_STR_ARGS(r->key));
  if (is_barrier) slot->size = r->size;
  link_waiter(s, slot, w);
  *out_is_linked = true;
  if (is_barrier && slot->arrived == slot->size) {
    *out_taken = take_waiters(s, slot);
    drop_if_empty(s, map, slot);
  }
  return NULL;
}

static void wait_for(weft_store_t *s, const weft_store_request_t *r, weft_canceller_t *canceller,
                     weft_value_fn *fn, void *arg) {
  store_waiter_t *w = make_waiter(s, r, canceller, fn, arg), *taken = NULL;
  if (w == NULL) {
    fn(arg, WEFT_NO_MEMORY("waiting for '%.*s'", WEFT_STR_ARGS(r->key)), WEFT_STR(""));
    return;
  }
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  bool is_linked = false;
  weft_mutex_lock(&s->mu);
  weft_status_t *status = join_locked(s, r, w, &value, &taken, &is_linked);
  weft_mutex_unlock(&s->mu);
  if (!is_linked) end_unlinked(w, status, weft_str_of(value.data, value.length));
  end_all(taken, BY_VALUE, WEFT_STR(""));
  weft_strbuf_deinit(&value);
}

static weft_status_t *check(const weft_store_request_t *r) {
  if (r->key.length == 0) return WEFT_ERROR(INVALID_ARGUMENT, "a key must not be empty");
  if (r->key.length > WEFT_STORE_MAX_KEY) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the key '%.64s...' has %zu bytes; at most %d are allowed",
                      r->key.data, r->key.length, WEFT_STORE_MAX_KEY);
  }
  if (r->timeout_ms < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the timeout for '%.*s' is %" PRId64 " ms", WEFT_STR_ARGS(r->key),
                      r->timeout_ms);
  }
  if (r->op == WEFT_STORE_BARRIER && (r->size < 1 || r->size > WEFT_STORE_MAX_WAITS)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "barrier '%.*s' is for %" PRId64 " callers", WEFT_STR_ARGS(r->key),
                      r->size);
  }
  return NULL;
}

void weft_store_ask(weft_store_t *s, const weft_store_request_t *r, weft_canceller_t *canceller,
                    weft_value_fn *fn, void *arg) {
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  store_waiter_t *taken = NULL;
  bool waits = false;
  weft_status_t *status = check(r);
  if (status == NULL) {
    weft_mutex_lock(&s->mu);
    status = at_once_locked(s, r, &value, &taken, &waits);
    weft_mutex_unlock(&s->mu);
  }
  if (waits) {
    wait_for(s, r, canceller, fn, arg);
  } else {
    weft_str_t set = r->op == WEFT_STORE_SET || r->op == WEFT_STORE_COMPARE_SET
                         ? r->value
                         : weft_str_of(value.data, value.length);
    if (status == NULL) end_all(taken, BY_VALUE, set);
    fn(arg, status, status == NULL ? weft_str_of(value.data, value.length) : WEFT_STR(""));
  }
  weft_strbuf_deinit(&value);
}

/* ---- the end ---- */

static store_waiter_t *take_all_locked(weft_store_t *s, weft_map_t *m) WEFT_REQUIRES(s->mu) {
  store_waiter_t *taken = NULL;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(m, &at, &e);) {
    store_slot_t *slot = e.value;
    while (slot->waiters != NULL) {
      store_waiter_t *w = slot->waiters;
      w->status = why(w, BY_STOP, 0, 0);
      unlink_waiter(s, w);
      w->next = taken;
      taken = w;
    }
  }
  return taken;
}

void weft_store_stop(weft_store_t *s) {
  weft_mutex_lock(&s->mu);
  s->stopped = true;
  store_waiter_t *a = take_all_locked(s, &s->values), *b = take_all_locked(s, &s->barriers);
  weft_mutex_unlock(&s->mu);
  end_all(a, BY_STOP, WEFT_STR(""));
  end_all(b, BY_STOP, WEFT_STR(""));
}

static void free_slots(weft_map_t *m) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(m, &at, &e);) {
    store_slot_t *slot = e.value;
    weft_free(slot->key);
    weft_free(slot->value);
    weft_free(slot);
  }
  weft_map_deinit(m);
}

void weft_store_destroy(weft_store_t *s) {
  if (s == NULL) return;
  weft_store_stop(s);
  free_slots(&s->values);
  free_slots(&s->barriers);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}
