/* rendezvous/local_rendezvous.c - a rendezvous inside one process.
 *
 * Items lie in a table that is divided by hash into shards, each with its lock
 * and its buckets. Invariant: the items under one key are all tensors or all
 * receivers, oldest first. A newcomer of the other kind takes the oldest instead
 * of joining, and then needs no item of its own.
 *
 * An item belongs to the table while it is linked, and to the thread that unlinks it
 * after that. A receiver that has a canceller is registered there before it is
 * linked; the thread that unlinks it deregisters it, which waits for a cancel_wait() that
 * came too late, and only then frees it.
 *
 * A gather waits in a list of the table. One thread at a time checks it, takes what is there and ends it: the
 * thread that made it, then a sender, canceller or aborter that finds it unchecked. A sender that finds it
 * being checked leaves word, and the checking thread looks again. A sender links its value before it looks
 * for gathers, and a gather is listed before it looks for values, so that one of them sees the other.
 *
 * Most steps of one task use no key at all: a table that was never used ends without a lock, and is as new
 * for the next step.
 *
 * Locking: a shard's `mu` and the table's `mu` are leaves. Under them items are
 * only relinked; memory, callbacks and cancellers are dealt with outside.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "rendezvous/gather.h"

/* USED: something was sent or received, or it was aborted with a failure. ENDED: its step has. */
enum { TABLE_USED = 1, TABLE_ENDED = 2 };
enum { NUM_SHARDS = 8, FIRST_BUCKETS = 4, MAX_LOAD = 4 };

typedef struct local local_t;
typedef struct item item_t;
typedef struct local_gather local_gather_t;

typedef enum item_state {
  ITEM_NEW, /* a receiver that is registered but not linked yet */
  ITEM_LINKED,
  ITEM_TAKEN,     /* unlinked: its taker has it */
  ITEM_CANCELLED, /* cancelled before it was linked */
} item_state_t;

struct item {
  item_t *next;
  uint64_t hash;
  item_state_t state;     /* guarded by the shard's mu */
  bool is_dead;           /* of a sent value */
  weft_tensor_t *tensor;  /* of a sent value; one reference, NULL if dead or failed */
  weft_status_t *failure; /* of a sent failure; owned */
  weft_recv_fn *fn;       /* of a receiver; NULL: a sent value */
  void *arg;
  local_t *table;              /* borrowed */
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token;
  size_t key_length;
  char key[];
};

typedef struct bucket {
  item_t *first, **last;
} bucket_t;

typedef struct rendezvous_shard {
  weft_mutex_t mu;
  bool aborted;         /* guarded by mu; then nothing is linked any more */
  uint32_t count;       /* guarded by mu */
  uint32_t num_buckets; /* guarded by mu; a power of two */
  bucket_t *buckets;    /* guarded by mu; `first_buckets`, or owned */
  bucket_t first_buckets[FIRST_BUCKETS];
} rendezvous_shard_t;

struct local {
  weft_rendezvous_t base;
  atomic_uint state; /* TABLE_USED, TABLE_ENDED */
  weft_mutex_t mu;
  bool is_aborted;         /* guarded by mu */
  weft_status_t *aborted;  /* written once under mu, before any shard's `aborted`; read after seeing that.
                              NULL: its step has ended */
  local_gather_t *gathers; /* guarded by mu */
  atomic_int num_gathers;  /* changes under mu */
  int64_t step_id;         /* constant while it is in use */
  rendezvous_shard_t shards[NUM_SHARDS];
};

static void empty_buckets(bucket_t *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    b[i].first = NULL;
    b[i].last = &b[i].first;
  }
}

static rendezvous_shard_t *shard_of(local_t *r, uint64_t hash) { return &r->shards[hash >> 61]; }
static bucket_t *bucket_of(rendezvous_shard_t *s, uint64_t hash) {
  return &s->buckets[hash & (s->num_buckets - 1)];
}

static weft_status_t *no_memory(weft_key_t key) {
  return WEFT_NO_MEMORY("the rendezvous of '%.*s'", WEFT_STR_ARGS(key.text));
}

static item_t *item_new(local_t *r, weft_key_t key) {
  size_t size;
  if (!weft_add_size(sizeof(item_t), key.text.length, &size)) return NULL;
  item_t *i = weft_malloc(size);
  if (i == NULL) return NULL;
  *i = (item_t){.hash = key.hash, .table = r, .key_length = key.text.length};
  memcpy(i->key, key.text.data, key.text.length);
  return i;
}

static void item_free(item_t *i) {
  if (i == NULL) return;
  weft_tensor_release(i->tensor);
  weft_status_free(i->failure);
  weft_canceller_release(i->canceller);
  weft_free(i);
}

static void unlink_locked(rendezvous_shard_t *s, bucket_t *b, item_t **at) WEFT_REQUIRES(s->mu) {
  item_t *i = *at;
  *at = i->next;
  if (b->last == &i->next) b->last = at;
  i->next = NULL;
  i->state = ITEM_TAKEN;
  s->count--;
}

/* Takes the oldest item under `key` if it is of the kind asked for. */
static item_t *take_locked(rendezvous_shard_t *s, weft_key_t key, bool receiver) WEFT_REQUIRES(s->mu) {
  bucket_t *b = bucket_of(s, key.hash);
  for (item_t **at = &b->first; *at != NULL; at = &(*at)->next) {
    item_t *i = *at;
    if (i->hash != key.hash || !weft_str_eq(weft_str_of(i->key, i->key_length), key.text)) continue;
    if ((i->fn != NULL) != receiver) return NULL;
    unlink_locked(s, b, at);
    return i;
  }
  return NULL;
}

static void link_locked(rendezvous_shard_t *s, item_t *i) WEFT_REQUIRES(s->mu) {
  bucket_t *b = bucket_of(s, i->hash);
  i->next = NULL;
  i->state = ITEM_LINKED;
  *b->last = i;
  b->last = &i->next;
  s->count++;
}

/* Doubles the buckets of a crowded shard. Without memory it stays as it is, only slower. */
static void grow(rendezvous_shard_t *s, uint32_t num_buckets) {
  uint32_t doubled = num_buckets * 2;
  bucket_t *fresh = weft_calloc(doubled, sizeof *fresh), *old = NULL;
  if (fresh == NULL) return;
  empty_buckets(fresh, doubled);
  weft_mutex_lock(&s->mu);
  if (s->num_buckets == num_buckets) {
    old = s->buckets;
    s->buckets = fresh;
    s->num_buckets = doubled;
    fresh = NULL;
    for (uint32_t k = 0; k < num_buckets; k++) {
      for (item_t *i = old[k].first, *next; i != NULL; i = next) {
        next = i->next;
        bucket_t *b = bucket_of(s, i->hash);
        i->next = NULL;
        *b->last = i;
        b->last = &i->next;
      }
    }
  }
  weft_mutex_unlock(&s->mu);
  if (old != s->first_buckets) weft_free(old);
  weft_free(fresh);
}

/* Ends a receiver that we have unlinked. Consumes the item, `status` and `tensor`. */
static void finish(item_t *i, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  weft_recv_fn *fn = i->fn;
  void *arg = i->arg;
  if (i->canceller != NULL) weft_canceller_deregister(i->canceller, i->token);
  item_free(i);
  fn(arg, status, tensor, is_dead);
}

static weft_status_t *cancelled(void) {
  return weft_status_mark_derived(WEFT_ERROR(CANCELLED, "RecvAsync is cancelled."));
}

/* What a canceller calls. The thread that unlinked the item before waits until this returns. */
static void cancel_wait(void *arg) {
  item_t *mine = arg;
  rendezvous_shard_t *s = shard_of(mine->table, mine->hash);
  bool won = false;
  weft_mutex_lock(&s->mu);
  if (mine->state == ITEM_LINKED) {
    bucket_t *b = bucket_of(s, mine->hash);
    item_t **at = &b->first;
    while (*at != mine) at = &(*at)->next;
    unlink_locked(s, b, at);
    won = true;
  } else if (mine->state == ITEM_NEW) {
    mine->state = ITEM_CANCELLED;
  }
  weft_mutex_unlock(&s->mu);
  if (!won) return;
  weft_recv_fn *fn = mine->fn;
  void *fn_arg = mine->arg;
  /* Our caller's canceller lives at least until we return. */
  item_free(mine);
  fn(fn_arg, cancelled(), NULL, false);
}

/* Of a table that is aborted. Most steps end without one, so it is not made before it is asked for. */
static weft_status_t *abort_status(const local_t *r) {
  if (r->aborted != NULL) return weft_status_clone(r->aborted);
  return weft_status_mark_derived(WEFT_ERROR(ABORTED, "Cleanup %" PRId64, r->step_id));
}

/* False: the table's step has ended. */
static inline bool begin_use(local_t *r) {
  unsigned state = atomic_load_explicit(&r->state, memory_order_acquire);
  if ((state & TABLE_USED) == 0) state = atomic_fetch_or(&r->state, TABLE_USED);
  return (state & TABLE_ENDED) == 0;
}

static void notify_gathers(local_t *r, uint64_t hash);

/* Sends a tensor, a dead value or a failure. The failure is consumed. */
static weft_status_t *put(local_t *r, weft_key_t key, weft_tensor_t *tensor, bool is_dead,
                          weft_status_t *failure) {
  rendezvous_shard_t *s = shard_of(r, key.hash);
  item_t *mine = NULL, *receiver = NULL;
  uint32_t crowded = 0;
  bool aborted, linked = false;
  if (!begin_use(r)) {
    weft_status_free(failure);
    return abort_status(r);
  }
  for (;;) {
    weft_mutex_lock(&s->mu);
    aborted = s->aborted;
    if (!aborted) receiver = take_locked(s, key, true);
    if (!aborted && receiver == NULL && mine != NULL) {
      link_locked(s, mine);
      linked = true;
      if (s->count > s->num_buckets * MAX_LOAD) crowded = s->num_buckets;
    }
    weft_mutex_unlock(&s->mu);
    if (aborted || receiver != NULL || mine != NULL) break;
    mine = item_new(r, key); /* only the side that arrives first needs one */
    if (mine == NULL) {
      weft_status_free(failure);
      return no_memory(key);
    }
    mine->tensor = weft_tensor_retain(tensor);
    mine->is_dead = is_dead;
    mine->failure = failure;
  }
  if (linked) { /* `mine` may be gone already */
    if (atomic_load(&r->num_gathers) > 0) notify_gathers(r, key.hash);
  } else if (mine != NULL) {
    mine->failure = NULL;
    item_free(mine);
  }
  if (receiver != NULL) finish(receiver, failure, weft_tensor_retain(tensor), is_dead);
  if (aborted) weft_status_free(failure);
  if (crowded != 0) grow(s, crowded);
  return aborted ? abort_status(r) : NULL;
}

static weft_status_t *local_send(weft_rendezvous_t *base, weft_key_t key, weft_tensor_t *tensor,
                                 bool is_dead) {
  return put((local_t *)base, key, is_dead ? NULL : tensor, is_dead, NULL);
}

void weft_local_rendezvous_fail(weft_rendezvous_t *r, weft_key_t key, weft_status_t *why) {
  weft_status_t *s = put((local_t *)r, key, NULL, false, why);
  if (s != NULL) weft_rendezvous_abort(r, s); /* a receive that is not told would wait for ever */
  weft_status_free(s);
}

/* Hands a taken value to a receiver that has no linked item. */
static void deliver(item_t *value, weft_recv_fn *fn, void *arg) {
  weft_tensor_t *tensor = value->tensor;
  weft_status_t *failure = value->failure;
  bool is_dead = value->is_dead;
  value->tensor = NULL;
  value->failure = NULL;
  item_free(value);
  fn(arg, failure, tensor, is_dead);
}

/* A receiver's item, registered with its canceller; NULL and *why if it need not or cannot wait. */
static item_t *waiter_new(local_t *r, weft_key_t key, weft_canceller_t *canceller, weft_recv_fn *fn,
                          void *arg, weft_status_t **why) {
  item_t *i = item_new(r, key);
  if (i == NULL) {
    *why = no_memory(key);
    return NULL;
  }
  i->fn = fn;
  i->arg = arg;
  if (canceller == NULL) return i;
  i->canceller = weft_canceller_retain(canceller);
  if (weft_canceller_register(canceller, cancel_wait, i, &i->token)) return i;
  *why = weft_canceller_is_cancelled(canceller) ? cancelled() : no_memory(key);
  item_free(i);
  return NULL;
}

static void local_recv_async(weft_rendezvous_t *base, weft_key_t key, weft_canceller_t *canceller,
                             weft_recv_fn *fn, void *arg) {
  local_t *r = (local_t *)base;
  rendezvous_shard_t *s = shard_of(r, key.hash);
  item_t *mine = NULL, *value = NULL;
  uint32_t crowded = 0;
  bool aborted, linked = false;
  if (!begin_use(r)) {
    fn(arg, abort_status(r), NULL, false);
    return;
  }
  for (;;) {
    weft_mutex_lock(&s->mu);
    aborted = s->aborted;
    if (!aborted) value = take_locked(s, key, false);
    if (!aborted && value == NULL && mine != NULL && mine->state == ITEM_NEW) {
      link_locked(s, mine);
      linked = true;
      if (s->count > s->num_buckets * MAX_LOAD) crowded = s->num_buckets;
    }
    weft_mutex_unlock(&s->mu);
    if (aborted || value != NULL || mine != NULL) break;
    weft_status_t *why = NULL;
    mine = waiter_new(r, key, canceller, fn, arg, &why);
    if (mine == NULL) {
      fn(arg, why, NULL, false);
      return;
    }
  }
  if (linked) { /* `mine` may be gone already, and fn called */
    if (crowded != 0) grow(s, crowded);
    return;
  }
  if (mine != NULL && mine->canceller != NULL) weft_canceller_deregister(mine->canceller, mine->token);
  item_free(mine);
  if (value != NULL) {
    deliver(value, fn, arg);
  } else {
    fn(arg, aborted ? abort_status(r) : cancelled(), NULL, false);
  }
}

bool weft_local_rendezvous_take(weft_rendezvous_t *r, weft_key_t key, weft_tensor_t **out_tensor,
                                bool *out_is_dead) {
  local_t *table = (local_t *)r;
  rendezvous_shard_t *s = shard_of(table, key.hash);
  weft_mutex_lock(&s->mu);
  item_t *value = take_locked(s, key, false);
  weft_mutex_unlock(&s->mu);
  if (value == NULL) return false;
  *out_tensor = value->tensor;
  *out_is_dead = value->is_dead;
  value->tensor = NULL;
  item_free(value);
  return true;
}

/* ---- gathers ---- */

struct local_gather {
  local_gather_t *prev, *next; /* guarded by the table's mu, as the four flags */
  bool is_listed;
  bool is_checked; /* by a thread, which alone uses it */
  bool is_asked;   /* to be checked again */
  bool is_cancelled;
  local_t *table; /* borrowed */
  const weft_key_t *keys;
  int n, num_found;
  weft_canceller_t *canceller; /* retained; may be NULL */
  uint64_t token;
  weft_gather_fn *fn;
  void *arg;
  weft_gathered_t *found; /* room for n */
  uint64_t mask;          /* of `hashes`, an open-addressed set of the keys' hashes; 0: an empty place */
  uint64_t hashes[];
};

static uint64_t entry_of(uint64_t hash) { return hash == 0 ? 1 : hash; }

static bool wants(const local_gather_t *g, uint64_t hash) {
  const uint64_t entry = entry_of(hash);
  for (uint64_t i = entry & g->mask; g->hashes[i] != 0; i = (i + 1) & g->mask) {
    if (g->hashes[i] == entry) return true;
  }
  return false;
}

static local_gather_t *gather_new(local_t *r, const weft_key_t *keys, int n, weft_gather_fn *fn, void *arg) {
  uint64_t places = 4;
  while (places < 2 * (uint64_t)n) places *= 2;
  const size_t head = sizeof(local_gather_t) + (size_t)places * sizeof(uint64_t);
  local_gather_t *g = weft_calloc(1, head + (size_t)n * sizeof(weft_gathered_t));
  if (g == NULL) return NULL;
  g->is_checked = true;
  g->table = r;
  g->keys = keys;
  g->n = n;
  g->fn = fn;
  g->arg = arg;
  g->found = (weft_gathered_t *)(void *)((char *)g + head);
  g->mask = places - 1;
  for (int k = 0; k < n; k++) {
    uint64_t i = entry_of(keys[k].hash) & g->mask;
    while (g->hashes[i] != 0) i = (i + 1) & g->mask;
    g->hashes[i] = entry_of(keys[k].hash);
  }
  return g;
}

static bool is_gathered(const weft_tensor_t *t) {
  return t->space == NULL && t->bytes <= WEFT_GATHER_TENSOR_BYTES && weft_dtype_is_plain(t->dtype);
}

/* What lies under `key`: taken out (*out_item is the caller's), or only seen. */
static bool gather_one(local_t *r, weft_key_t key, weft_gathered_t *out, item_t **out_item) {
  rendezvous_shard_t *s = shard_of(r, key.hash);
  bool is_there = false;
  weft_mutex_lock(&s->mu);
  bucket_t *b = bucket_of(s, key.hash);
  item_t **at = &b->first;
  while (*at != NULL &&
         ((*at)->hash != key.hash || !weft_str_eq(weft_str_of((*at)->key, (*at)->key_length), key.text)))
    at = &(*at)->next;
  item_t *i = *at;
  if (i != NULL && i->fn == NULL && i->failure == NULL) {
    is_there = true;
    out->kind = i->is_dead               ? WEFT_GATHERED_DEAD
                : is_gathered(i->tensor) ? WEFT_GATHERED_TENSOR
                                         : WEFT_GATHERED_ALONE;
    if (out->kind != WEFT_GATHERED_ALONE) {
      unlink_locked(s, b, at);
      *out_item = i;
    }
  }
  weft_mutex_unlock(&s->mu);
  return is_there;
}

static void take_all(local_gather_t *g) {
  size_t bytes = 0;
  for (int k = 0; k < g->n && bytes < WEFT_GATHER_BYTES; k++) {
    weft_gathered_t one = {.key = k};
    item_t *item = NULL;
    if (!gather_one(g->table, g->keys[k], &one, &item)) continue;
    if (one.kind == WEFT_GATHERED_TENSOR) {
      one.tensor = item->tensor;
      item->tensor = NULL;
      bytes += one.tensor->bytes;
    }
    item_free(item);
    g->found[g->num_found++] = one;
  }
}

static void unlist_locked(local_t *r, local_gather_t *g) WEFT_REQUIRES(r->mu) {
  if (!g->is_listed) return;
  if (g->prev != NULL) g->prev->next = g->next;
  if (g->prev == NULL) r->gathers = g->next;
  if (g->next != NULL) g->next->prev = g->prev;
  g->is_listed = false;
  atomic_fetch_sub(&r->num_gathers, 1);
}

static void list_locked(local_t *r, local_gather_t *g) WEFT_REQUIRES(r->mu) {
  g->next = r->gathers;
  if (g->next != NULL) g->next->prev = g;
  r->gathers = g;
  g->is_listed = true;
  atomic_fetch_add(&r->num_gathers, 1);
}

/* Ends a gather that is not listed and that the calling thread checks. Consumes `status`. Inside its
 * canceller the gather is not deregistered. */
static void end_gather(local_gather_t *g, weft_status_t *status, bool is_in_cancel) {
  if (g->canceller != NULL && !is_in_cancel) weft_canceller_deregister(g->canceller, g->token);
  weft_canceller_release(g->canceller);
  g->fn(g->arg, g->num_found > 0 ? NULL : status, g->found, g->num_found);
  if (g->num_found > 0) weft_status_free(status);
  weft_free(g);
}

/* Checks a listed gather, until it ends or waits; the calling thread has it. */
static void check(local_gather_t *g) {
  local_t *r = g->table;
  for (;;) {
    take_all(g);
    weft_mutex_lock(&r->mu);
    const bool is_aborted = r->is_aborted, is_over = g->num_found > 0 || is_aborted || g->is_cancelled;
    const bool waits = !is_over && !g->is_asked;
    if (is_over) unlist_locked(r, g);
    g->is_asked = false;
    g->is_checked = !waits;
    weft_mutex_unlock(&r->mu);
    if (waits) return;
    if (!is_over) continue;
    end_gather(g, g->num_found > 0 ? NULL : is_aborted ? abort_status(r) : cancelled(), false);
    return;
  }
}

/* A gather that wants `hash` and that the calling thread has to check now; NULL: there is none (any more). */
static local_gather_t *claim_gather(local_t *r, uint64_t hash) {
  local_gather_t *found = NULL;
  weft_mutex_lock(&r->mu);
  for (local_gather_t *g = r->gathers; g != NULL && found == NULL; g = g->next) {
    if (!wants(g, hash)) continue;
    if (g->is_checked) g->is_asked = true;
    if (!g->is_checked) found = g;
  }
  if (found != NULL) found->is_checked = true;
  weft_mutex_unlock(&r->mu);
  return found;
}

/* A value has come under a key of that hash. */
static void notify_gathers(local_t *r, uint64_t hash) {
  local_gather_t *g = claim_gather(r, hash);
  if (g != NULL) check(g); /* of two that want one value one gets it, and the other goes on waiting */
}

static void cancel_gather(void *arg) {
  local_gather_t *g = arg;
  local_t *r = g->table;
  weft_mutex_lock(&r->mu);
  const bool is_ours = !g->is_checked;
  g->is_cancelled = true;
  g->is_checked = true;
  if (is_ours) unlist_locked(r, g);
  weft_mutex_unlock(&r->mu);
  if (is_ours) end_gather(g, cancelled(), true);
}

void weft_local_rendezvous_gather(weft_rendezvous_t *base, const weft_key_t *keys, int n,
                                  weft_canceller_t *canceller, weft_gather_fn *fn, void *arg) {
  local_t *r = (local_t *)base;
  local_gather_t *g = gather_new(r, keys, n, fn, arg);
  weft_status_t *s = NULL;
  if (g == NULL) {
    fn(arg, no_memory(keys[0]), NULL, 0);
    return;
  }
  if (!begin_use(r)) s = abort_status(r);
  if (s == NULL) take_all(g);
  if (s == NULL && g->num_found == 0 && canceller != NULL) {
    g->canceller = weft_canceller_retain(canceller);
    if (!weft_canceller_register(canceller, cancel_gather, g, &g->token)) {
      s = weft_canceller_is_cancelled(canceller) ? cancelled() : no_memory(keys[0]);
      weft_canceller_release(canceller);
      g->canceller = NULL;
    }
  }
  if (s != NULL || g->num_found > 0) {
    end_gather(g, s, false);
    return;
  }
  weft_mutex_lock(&r->mu);
  list_locked(r, g);
  weft_mutex_unlock(&r->mu);
  check(g);
}

/* The table is aborted. A gather that a thread checks is ended by that thread. */
static void end_gathers(local_t *r) {
  for (;;) {
    weft_mutex_lock(&r->mu);
    local_gather_t *g = r->gathers;
    while (g != NULL && g->is_checked) g = g->next;
    if (g != NULL) {
      g->is_checked = true;
      unlist_locked(r, g);
    }
    weft_mutex_unlock(&r->mu);
    if (g == NULL) return;
    end_gather(g, abort_status(r), false);
  }
}

bool weft_local_rendezvous_is_empty(weft_rendezvous_t *base) {
  local_t *r = (local_t *)base;
  if ((atomic_load_explicit(&r->state, memory_order_acquire) & TABLE_USED) == 0) return true;
  bool is_empty = atomic_load(&r->num_gathers) == 0;
  for (int k = 0; is_empty && k < NUM_SHARDS; k++) {
    weft_mutex_lock(&r->shards[k].mu);
    is_empty = r->shards[k].count == 0;
    weft_mutex_unlock(&r->shards[k].mu);
  }
  return is_empty;
}

weft_status_t *weft_local_rendezvous_aborted(weft_rendezvous_t *r) {
  local_t *table = (local_t *)r;
  weft_mutex_lock(&table->mu);
  const bool has_ended = (atomic_load(&table->state) & TABLE_ENDED) != 0;
  weft_status_t *s = table->is_aborted || has_ended ? abort_status(table) : NULL;
  weft_mutex_unlock(&table->mu);
  return s;
}

static void end_all(local_t *r, item_t *items) {
  for (item_t *next; items != NULL; items = next) {
    next = items->next;
    if (items->fn != NULL) {
      finish(items, abort_status(r), NULL, false);
    } else {
      item_free(items);
    }
  }
}

static void local_abort(weft_rendezvous_t *base, const weft_status_t *why) {
  local_t *r = (local_t *)base;
  const unsigned before = atomic_fetch_or(&r->state, why == NULL ? TABLE_ENDED : TABLE_USED);
  if (why == NULL && (before & TABLE_USED) == 0) return;
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&r->mu);
  bool first = !r->is_aborted;
  r->is_aborted = true;
  if (first) r->aborted = copy;
  weft_mutex_unlock(&r->mu);
  if (!first) {
    weft_status_free(copy);
    return;
  }
  end_gathers(r);
  for (int k = 0; k < NUM_SHARDS; k++) {
    rendezvous_shard_t *s = &r->shards[k];
    item_t *all = NULL, **tail = &all;
    weft_mutex_lock(&s->mu);
    s->aborted = true;
    for (uint32_t b = 0; b < s->num_buckets; b++) {
      while (s->buckets[b].first != NULL) {
        item_t *i = s->buckets[b].first;
        unlink_locked(s, &s->buckets[b], &s->buckets[b].first);
        *tail = i;
        tail = &i->next;
      }
    }
    weft_mutex_unlock(&s->mu);
    end_all(r, all);
  }
}

static void local_destroy(weft_rendezvous_t *base) {
  local_t *r = (local_t *)base;
  local_abort(base, NULL); /* a no-op after an earlier abort: then nothing waits either */
  for (int k = 0; k < NUM_SHARDS; k++) {
    if (r->shards[k].buckets != r->shards[k].first_buckets) weft_free(r->shards[k].buckets);
    weft_mutex_deinit(&r->shards[k].mu);
  }
  weft_mutex_deinit(&r->mu);
  weft_status_free(r->aborted);
  weft_free(r);
}

bool weft_local_rendezvous_renew(weft_rendezvous_t *r, int64_t step_id) {
  local_t *table = (local_t *)r;
  if (atomic_load(&table->base.refs) != 1 || (atomic_load(&table->state) & TABLE_USED) != 0) return false;
  table->step_id = step_id;
  atomic_store(&table->state, 0);
  return true;
}

weft_status_t *weft_local_rendezvous_create(int64_t step_id, weft_rendezvous_t **out) {
  static const weft_rendezvous_ops_t ops = {local_send, local_recv_async, local_abort, local_destroy};
  local_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("creating a rendezvous");
  r->base.ops = &ops;
  r->step_id = step_id;
  atomic_init(&r->base.refs, 1);
  weft_mutex_init(&r->mu);
  for (int k = 0; k < NUM_SHARDS; k++) {
    rendezvous_shard_t *s = &r->shards[k];
    weft_mutex_init(&s->mu);
    s->buckets = s->first_buckets;
    s->num_buckets = FIRST_BUCKETS;
    empty_buckets(s->buckets, FIRST_BUCKETS);
  }
  *out = &r->base;
  return NULL;
}

weft_rendezvous_t *weft_rendezvous_retain(weft_rendezvous_t *r) {
  if (r != NULL) atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

void weft_rendezvous_release(weft_rendezvous_t *r) {
  if (r != NULL && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) r->ops->destroy(r);
}
