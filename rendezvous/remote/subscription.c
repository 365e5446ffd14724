/* rendezvous/remote/subscription.c - what a step will receive, asked for when it begins.
 *
 * A subscription is what a step wants of one task:
 *   1. weft_remote_rendezvous_subscribe()  asks for all of its keys
 *   2. gathered()                          asks again for those that have not come, then puts what has come
 *                                          into the local table
 *   3. the last tensor, or a failure       ends it; a failure goes to the receives of all keys that have not
 *                                          come
 * One request at a time is under way. The keys that are still wanted are the first `num_wanted`; those that
 * an answer has brought are moved behind them, so that the next answer's thread and the one that still hands
 * out tensors use different parts of the array.
 *
 * A task that does not know such requests is asked for each key alone.
 */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash_map.h"
#include "device/device_name.h"
#include "rendezvous/remote/remote_impl.h"

typedef struct receive_list receive_list_t;

/* A key that steps receive. */
typedef struct receive_key {
  weft_key_t key;
  receive_list_t *list;
  int index;
  atomic_bool is_alone; /* its tensor is large: it is fetched by itself */
} receive_key_t;

struct receive_list {
  weft_str_t task;
  int index;
  receive_key_t *keys;
  int n;
  atomic_bool is_refused; /* the task does not know requests for several keys */
};

struct weft_receive_lists {
  atomic_int refs;
  weft_arena_t arena;
  weft_map_t by_hash;    /* of the key -> receive_key_t */
  receive_list_t *lists; /* one for each task, in the arena as all they point to */
  int n;
};

typedef struct subscription {
  weft_under_way_t base;
  receive_list_t *list;
  bool *is_asked; /* by the key's index; constant */
  int num_wanted;
  weft_key_t wanted[];
} subscription_t;

struct weft_subscriptions {
  weft_receive_lists_t *lists; /* retained */
  subscription_t *by_list[];   /* each may be NULL */
};

/* ---- lists ---- */

static receive_list_t *list_of(weft_receive_lists_t *l, weft_str_t task) {
  for (int i = 0; i < l->n; i++) {
    if (weft_str_eq(l->lists[i].task, task)) return &l->lists[i];
  }
  l->lists[l->n].task = task;
  l->lists[l->n].index = l->n;
  return &l->lists[l->n++];
}

/* Two keys with one hash, or two receives of one key: the later is fetched by itself. */
static weft_status_t *add_key(weft_receive_lists_t *l, weft_str_t own_task, weft_str_t text,
                              receive_key_t *out) {
  weft_key_parts_t parts;
  const weft_key_t key = weft_key(weft_arena_str(&l->arena, text));
  if (key.text.data == NULL) return WEFT_NO_MEMORY("the receives of a graph");
  weft_status_t *s = weft_key_parse(key.text, &parts);
  if (s != NULL) { /* its receive says so */
    weft_status_free(s);
    return NULL;
  }
  const weft_str_t task = weft_device_task_part(parts.src_device);
  if (weft_str_eq(task, own_task) || weft_map_get_u64(&l->by_hash, key.hash) != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put_u64(&l->by_hash, key.hash, out, NULL));
  out->key = key;
  out->list = list_of(l, task);
  out->index = out->list->n++;
  return NULL;
}

/* `all` has the keys in any order of their lists; a list's keys lie in a row. */
static weft_status_t *sort_keys(weft_receive_lists_t *l, receive_key_t *all, int n) {
  receive_key_t *sorted = weft_arena_calloc(&l->arena, (size_t)n + 1, sizeof *sorted);
  if (sorted == NULL) return WEFT_NO_MEMORY("the receives of a graph");
  for (int i = 0, at = 0; i < l->n; at += l->lists[i++].n) l->lists[i].keys = sorted + at;
  for (int i = 0; i < n; i++) {
    if (all[i].list == NULL) continue;
    receive_key_t *to = &all[i].list->keys[all[i].index];
    to->key = all[i].key;
    to->list = all[i].list;
    to->index = all[i].index;
    WEFT_RETURN_IF_ERROR(weft_map_put_u64(&l->by_hash, to->key.hash, to, NULL));
  }
  return NULL;
}

weft_status_t *weft_receive_lists_create(weft_str_t task, const weft_str_t *keys, int n,
                                         weft_receive_lists_t **out) {
  weft_status_t *s = NULL;
  *out = NULL;
  weft_receive_lists_t *l = n == 0 ? NULL : weft_calloc(1, sizeof *l);
  if (l == NULL) return n == 0 ? NULL : WEFT_NO_MEMORY("the receives of a graph");
  atomic_init(&l->refs, 1);
  receive_key_t *all = weft_calloc((size_t)n, sizeof *all);
  l->lists = weft_arena_calloc(&l->arena, (size_t)n, sizeof *l->lists);
  if (all == NULL || l->lists == NULL) s = WEFT_NO_MEMORY("the receives of a graph");
  for (int i = 0; s == NULL && i < n; i++) s = add_key(l, task, keys[i], &all[i]);
  if (s == NULL) s = sort_keys(l, all, n);
  weft_free(all);
  if (s == NULL && l->n > 0) {
    *out = l;
  } else {
    weft_receive_lists_release(l);
  }
  return s;
}

weft_receive_lists_t *weft_receive_lists_retain(weft_receive_lists_t *l) {
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  return l;
}

void weft_receive_lists_release(weft_receive_lists_t *l) {
  if (l == NULL || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  weft_map_deinit(&l->by_hash);
  weft_arena_deinit(&l->arena);
  weft_free(l);
}

/* ---- tensors that come ---- */

/* A tensor that is fetched alone, on its way into the local table. */
typedef struct lone_fetch {
  weft_step_rendezvous_t *r; /* retained */
  weft_key_t key;            /* of the lists, which the rendezvous holds */
} lone_fetch_t;

static void deliver(weft_step_rendezvous_t *r, weft_key_t key, weft_tensor_t *tensor, bool is_dead) {
  weft_status_t *s = weft_rendezvous_send(r->local, key, tensor, is_dead);
  if (s != NULL) weft_local_rendezvous_fail(r->local, key, s);
  weft_tensor_release(tensor);
}

static void came_alone(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  lone_fetch_t *f = arg;
  weft_step_rendezvous_t *r = f->r;
  const weft_key_t key = f->key;
  weft_free(f);
  if (status != NULL) {
    weft_local_rendezvous_fail(r->local, key, status);
    weft_tensor_release(tensor);
  } else {
    deliver(r, key, tensor, is_dead);
  }
  weft_rendezvous_release(&r->base);
}

static void fetch_alone(weft_step_rendezvous_t *r, weft_key_t key, weft_canceller_t *canceller) {
  weft_key_parts_t parts;
  lone_fetch_t *f = weft_malloc(sizeof *f);
  weft_status_t *s = f == NULL ? WEFT_NO_MEMORY("fetching '%.*s'", WEFT_STR_ARGS(key.text))
                               : weft_key_parse(key.text, &parts);
  if (s != NULL) {
    weft_free(f);
    weft_local_rendezvous_fail(r->local, key, s);
    return;
  }
  weft_rendezvous_retain(&r->base);
  *f = (lone_fetch_t){r, key};
  weft_remote_fetch(r, key, &parts, canceller, came_alone, f);
}

/* ---- requests ---- */

static void gathered(void *arg, weft_status_t *status, const weft_gathered_t *items, int n);

static void ask(subscription_t *s) {
  weft_step_rendezvous_t *r = s->base.r;
  weft_canceller_t *lent = weft_canceller_retain(s->base.canceller); /* s may have ended before it returns */
  r->source.gather(r->source.arg, r->step_id, s->list->task, s->wanted, s->num_wanted, lent, gathered, s);
  weft_canceller_release(lent);
}

/* No request follows. After an abort the receives have its failure. Consumes `status`. */
static void fail(subscription_t *s, weft_status_t *status) {
  weft_step_rendezvous_t *r = s->base.r;
  weft_canceller_t *canceller = weft_canceller_retain(s->base.canceller);
  weft_under_way_end(&s->base);
  const bool is_unknown = weft_status_code(status) == WEFT_UNIMPLEMENTED;
  if (is_unknown) atomic_store_explicit(&s->list->is_refused, true, memory_order_relaxed);
  for (int i = 0; i < s->num_wanted; i++) {
    if (is_unknown) {
      fetch_alone(r, s->wanted[i], canceller);
    } else {
      weft_local_rendezvous_fail(r->local, s->wanted[i], weft_status_clone(status));
    }
  }
  weft_status_free(status);
  weft_canceller_release(canceller);
}

/* Moves the keys of `items` behind those that are still wanted, in the items' order. */
static void move_behind(subscription_t *s, const weft_gathered_t *items, int n) {
  for (int k = n - 1; k >= 0; k--) {
    weft_key_t *from = &s->wanted[items[k].key], *to = &s->wanted[--s->num_wanted];
    const weft_key_t key = *from;
    *from = *to;
    *to = key;
  }
}

static void hand_out(weft_step_rendezvous_t *r, weft_key_t key, const weft_gathered_t *item,
                     weft_canceller_t *canceller) {
  if (item->kind != WEFT_GATHERED_ALONE) {
    deliver(r, key, item->tensor, item->kind == WEFT_GATHERED_DEAD);
    return;
  }
  receive_key_t *known = weft_map_get_u64(&r->subscriptions->lists->by_hash, key.hash);
  atomic_store_explicit(&known->is_alone, true, memory_order_relaxed);
  fetch_alone(r, key, canceller);
}

static void gathered(void *arg, weft_status_t *status, const weft_gathered_t *items, int n) {
  subscription_t *s = arg;
  weft_step_rendezvous_t *r = s->base.r;
  if (status != NULL) {
    fail(s, status);
    weft_rendezvous_release(&r->base);
    return;
  }
  move_behind(s, items, n);
  const weft_key_t *came = &s->wanted[s->num_wanted];
  weft_rendezvous_retain(&r->base);
  weft_canceller_t *canceller = weft_canceller_retain(s->base.canceller);
  if (s->num_wanted > 0) {
    ask(s);
  } else {
    weft_under_way_end(&s->base);
    weft_rendezvous_release(&r->base);
  }
  for (int k = 0; k < n; k++) hand_out(r, came[k], &items[k], canceller);
  weft_canceller_release(canceller);
  weft_rendezvous_release(&r->base);
}

/* ---- a step's subscriptions ---- */

/* NULL: there is no memory, or nothing to be asked for. */
static subscription_t *subscription_new(receive_list_t *list) {
  if (atomic_load_explicit(&list->is_refused, memory_order_relaxed)) return NULL;
  const size_t head = sizeof(subscription_t) + (size_t)list->n * sizeof(weft_key_t);
  subscription_t *s = weft_calloc(1, head + (size_t)list->n * sizeof(bool));
  if (s == NULL) return NULL;
  s->list = list;
  s->is_asked = (bool *)((char *)s + head);
  for (int i = 0; i < list->n; i++) {
    if (atomic_load_explicit(&list->keys[i].is_alone, memory_order_relaxed)) continue;
    s->is_asked[i] = true;
    s->wanted[s->num_wanted++] = list->keys[i].key;
  }
  if (s->num_wanted > 0) return s;
  weft_free(s);
  return NULL;
}

void weft_remote_rendezvous_subscribe(weft_rendezvous_t *base, weft_receive_lists_t *lists,
                                      weft_canceller_t *canceller) {
  weft_step_rendezvous_t *r = (weft_step_rendezvous_t *)base;
  if (r->source.gather == NULL || r->subscriptions != NULL) return;
  weft_subscriptions_t *all = weft_calloc(1, sizeof *all + (size_t)lists->n * sizeof(subscription_t *));
  if (all == NULL) return;
  all->lists = weft_receive_lists_retain(lists);
  for (int i = 0; i < lists->n; i++) all->by_list[i] = subscription_new(&lists->lists[i]);
  r->subscriptions = all;
  for (int i = 0; i < lists->n; i++) {
    subscription_t *s = all->by_list[i];
    weft_status_t *why = s == NULL ? NULL : weft_under_way_begin(r, canceller, &s->base);
    if (why != NULL) {
      for (int k = 0; k < s->num_wanted; k++)
        weft_local_rendezvous_fail(r->local, s->wanted[k], weft_status_clone(why));
      weft_status_free(why);
    } else if (s != NULL) {
      ask(s);
    }
  }
}

bool weft_subscriptions_have(const weft_subscriptions_t *s, weft_key_t key) {
  if (s == NULL) return false;
  const receive_key_t *known = weft_map_get_u64(&s->lists->by_hash, key.hash);
  if (known == NULL || !weft_str_eq(known->key.text, key.text)) return false;
  const subscription_t *its = s->by_list[known->list->index];
  return its != NULL && its->is_asked[known->index];
}

void weft_subscriptions_free(weft_subscriptions_t *s) {
  if (s == NULL) return;
  for (int i = 0; i < s->lists->n; i++) weft_free(s->by_list[i]);
  weft_receive_lists_release(s->lists);
  weft_free(s);
}
