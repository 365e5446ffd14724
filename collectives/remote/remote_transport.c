/* collectives/remote/remote_transport.c - offers, fetches and their ends.
 *
 * An offer is in `offers` (waits for a RecvBuf, or for a fetch of this task) or in
 * `told` (its receiver was told over a link and reads it). A fetch is in `wants`
 * (waits for a link's message) or in `calls` (a RecvBuf in flight). `asked` holds
 * what others asked for by RecvBuf, `come` what links told and nobody wants yet.
 * Whoever takes an item out of its table, under mu, ends it; outside mu, because
 * callbacks may call us.
 *
 * An offer that was told ends only when its receiver says that it does not read it
 * any more, or is gone: so its memory is never freed under a reader. Ending a step or
 * a run tells the receivers, who answer at once.
 *
 * Names are "step;to_device;key". Steps that ended, runs that failed, and peers that
 * ended a step are kept in `endings` for those who come late; the oldest are forgotten.
 *
 * Locking: `mu` is a leaf.
 */
#include "collectives/remote/remote_transport.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/random.h"
#include "collectives/group_table.h"
#include "collectives/remote/host_link.h"

enum { MAX_LOSSES = 64, LEADER_LOST_MS = 2000, MAX_ENDINGS = 4096, NUM_HINTS = 1024, MAX_SCRATCH = 8, POOL_MIN_BYTES = 64 << 10 };

typedef struct transport transport_t;

typedef struct offer {
  struct offer *next; /* of a list of ended ones */
  int64_t step_id;
  char *name;    /* owned, with the two below behind it */
  weft_str_t key, to_task;
  const void *data;
  size_t bytes;
  uint64_t id;            /* in `told` */
  weft_host_link_t *link; /* retained; of one that was told */
  weft_transfer_done_fn *done;
  void *arg;
} offer_t;

typedef struct fetch {
  struct fetch *next;
  transport_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key, from_task, from_device, to_device;
  weft_fetch_t f;              /* texts as above */
  weft_canceller_t *canceller; /* retained; the asker's, or of a call: a child of it, owned */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by mu */
  weft_status_t *why;            /* guarded by mu: why its call was cancelled by us */
  weft_host_link_t *link;        /* retained: that the bytes come over */
  uint64_t id, address;          /* of the offer that it reads */
  weft_transfer_done_fn *done;
  void *arg;
} fetch_t;

typedef struct come { /* told by a link, and not wanted yet */
  struct come *next;
  char *name;
  weft_str_t key;
  int64_t step_id;
  weft_host_link_t *link; /* retained */
  uint64_t id, address;
  size_t bytes;
  bool is_inline;
  char data[];
} come_t;

typedef struct asked { /* a RecvBuf that waits */
  struct asked *next;
  transport_t *t;
  int64_t step_id;
  char *name;
  weft_str_t key;
  weft_canceller_t *canceller; /* retained */
  uint64_t token;
  bool is_waiting, is_cancelled; /* guarded by mu */
  weft_buf_fn *fn;
  void *arg;
} asked_t;

typedef struct ending {
  int64_t step_id; /* 0: a free place */
  char *run, *task; /* owned; NULL: all runs; we ourselves */
  weft_status_t *why;
} ending_t;

/* A task that died and has not come again, as far as we know. */
typedef struct loss {
  weft_str_t task;    /* in the arena */
  weft_status_t *why; /* NULL: a free place */
  int64_t at_ns;
} loss_t;

struct transport {
  weft_transport_t base;
  char *task; /* owned */
  uint64_t incarnation;
  weft_thread_pool_t *pool;
  weft_collective_peers_t peers;
  weft_host_links_t *links;
  weft_group_table_t *groups;
  weft_link_counters_t *counters;
  weft_mutex_t mu;
  weft_cond_t idle;                               /* signalled when num_busy falls to 0 */
  int num_busy;                                   /* guarded by mu: fetches and calls that have not ended */
  weft_map_t offers, told, wants, calls, come, asked; /* guarded by mu */
  uint64_t next_id;                               /* guarded by mu */
  ending_t endings[MAX_ENDINGS];                  /* guarded by mu: a ring */
  size_t next_ending;
  uint16_t hints[NUM_HINTS];                      /* guarded by mu: endings by the hash of their step: mostly 0 */
  int64_t last_step;                              /* guarded by mu: the last one that moved anything */
  weft_map_t steps;                               /* guarded by mu: steps that have moved something; values are 1 */
  void *scratch[MAX_SCRATCH];                     /* guarded by mu: blocks to read into */
  loss_t losses[MAX_LOSSES];                      /* guarded by mu: in the order in which they were known */
  weft_map_t seen;                                /* guarded by mu: group key -> the group as it was last; retained */
  weft_arena_t arena;                             /* guarded by mu: names and hosts of tasks */
  weft_map_t hosts;                               /* guarded by mu: task -> known_t, in the arena */
};

static transport_t *of(weft_transport_t *t) { return (transport_t *)(void *)t; }

static weft_status_t *no_memory(weft_str_t key) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for transferring '%.*s'", WEFT_STR_ARGS(key));
}

/* ---- names and endings ---- */

/* "step;to_device;key", and `more` behind its '\0'. *out_key and *out_more are views of it. */
static char *make_name(int64_t step_id, weft_str_t to_device, weft_str_t key, weft_str_t more, weft_str_t *out_key,
                       weft_str_t *out_more) {
  size_t size = 0;
  if (!weft_add_size(to_device.length, key.length, &size) || !weft_add_size(size, more.length + 32, &size)) return NULL;
  char *name = weft_malloc(size), *p = name;
  if (name == NULL) return NULL;
  for (uint64_t id = (uint64_t)step_id; id != 0; id >>= 6) *p++ = (char)('0' + (id & 63));
  *p++ = ';';
  if (to_device.length > 0) memcpy(p, to_device.data, to_device.length);
  p += to_device.length;
  *p++ = ';';
  if (key.length > 0) memcpy(p, key.data, key.length);
  *out_key = weft_str_of(p, key.length);
  p += key.length;
  *p++ = '\0';
  if (more.length > 0) memcpy(p, more.data, more.length);
  if (out_more != NULL) *out_more = weft_str_of(p, more.length);
  return name;
}

static bool is_in_run(weft_str_t key, const char *run) {
  size_t n = run == NULL ? 0 : strlen(run);
  return run == NULL || (key.length > n && memcmp(key.data, run, n) == 0 && key.data[n] == '/');
}

static size_t hint_of(int64_t step_id) { return (size_t)(((uint64_t)step_id * UINT64_C(0x9e3779b97f4a7c15)) >> 54); }

/* Why a transfer of this step and key cannot be: a copy, or NULL. `task`: whom it is with. */
static weft_status_t *ended_locked(transport_t *t, int64_t step_id, weft_str_t key, weft_str_t task) WEFT_REQUIRES(t->mu) {
  if (t->hints[hint_of(step_id)] == 0) return NULL;
  for (size_t i = 0; i < MAX_ENDINGS; i++) {
    const ending_t *e = &t->endings[(t->next_ending + MAX_ENDINGS - 1 - i) % MAX_ENDINGS];
    if (e->why == NULL) break; /* from the newest on: the first free place is the end */
    if (e->step_id != step_id || !is_in_run(key, e->run)) continue;
    if (e->task == NULL || weft_str_is(task, e->task)) return weft_status_clone(e->why);
  }
  return NULL;
}

/* Consumes all. */
static void add_ending(transport_t *t, int64_t step_id, char *run, char *task, weft_status_t *why) {
  weft_mutex_lock(&t->mu);
  ending_t *e = &t->endings[t->next_ending], old = *e;
  t->next_ending = (t->next_ending + 1) % MAX_ENDINGS;
  *e = (ending_t){step_id, run, task, why};
  if (old.why != NULL) t->hints[hint_of(old.step_id)]--;
  t->hints[hint_of(step_id)]++;
  weft_mutex_unlock(&t->mu);
  weft_free(old.run);
  weft_free(old.task);
  weft_status_free(old.why);
}

static void mark_step_locked(transport_t *t, int64_t step_id) WEFT_REQUIRES(t->mu) {
  if (t->last_step == step_id || weft_map_get_u64(&t->steps, (uint64_t)step_id) != NULL) return;
  t->last_step = step_id;
  weft_status_free(weft_map_put_u64(&t->steps, (uint64_t)step_id, t, NULL)); /* without it, peers are not told that it ended */
}

static void begin_locked(transport_t *t, int64_t step_id) WEFT_REQUIRES(t->mu) {
  t->num_busy++;
  mark_step_locked(t, step_id);
}

static void end_busy(transport_t *t) {
  weft_mutex_lock(&t->mu);
  if (--t->num_busy == 0) weft_cond_broadcast(&t->idle);
  weft_mutex_unlock(&t->mu);
}

/* ---- ends of offers ---- */

/* Consumes the offer and the status. */
static void end_offer(offer_t *o, weft_status_t *status) {
  weft_transfer_done_fn *done = o->done;
  void *arg = o->arg;
  weft_host_link_release(o->link);
  weft_free(o->name);
  weft_free(o);
  done(arg, status);
}

static void release_offer(void *arg) { end_offer(arg, NULL); }

static void give(asked_t *a, offer_t *o) {
  weft_canceller_deregister(a->canceller, a->token);
  weft_canceller_release(a->canceller);
  weft_buf_t buf = {.bytes = o->bytes, .data = o->data, .release = release_offer, .release_arg = o};
  a->fn(a->arg, NULL, &buf);
  weft_free(a->name);
  weft_free(a);
}

static void refuse(asked_t *a, weft_status_t *status, bool is_in_cancel) {
  if (!is_in_cancel) weft_canceller_deregister(a->canceller, a->token);
  weft_canceller_release(a->canceller);
  a->fn(a->arg, status, NULL);
  weft_free(a->name);
  weft_free(a);
}

/* ---- ends of fetches ---- */

static void end_fetch(fetch_t *f, weft_status_t *status, bool is_in_cancel) {
  transport_t *t = f->t;
  if (!is_in_cancel) weft_canceller_deregister(f->canceller, f->token);
  weft_canceller_release(f->canceller);
  if (status == NULL) {
    weft_link_counters_add(t->counters, f->from_task, weft_str(t->task),
                           f->f.is_control ? WEFT_TRAFFIC_CONTROL : WEFT_TRAFFIC_COLLECTIVE, f->f.bytes);
  }
  weft_transfer_done_fn *done = f->done;
  void *arg = f->arg;
  weft_host_link_release(f->link);
  weft_status_free(f->why);
  weft_free(f->name);
  weft_free(f);
  done(arg, status);
  end_busy(t);
}

static weft_status_t *cancelled(weft_str_t key) {
  return weft_status_mark_derived(WEFT_ERROR(CANCELLED, "fetching '%.*s' was cancelled", WEFT_STR_ARGS(key)));
}

static weft_status_t *check_bytes(const fetch_t *f, size_t bytes) {
  if (bytes == f->f.bytes) return NULL;
  return WEFT_ERROR(INTERNAL, "'%.*s' from %.*s has %zu bytes, not %zu", WEFT_STR_ARGS(f->key), WEFT_STR_ARGS(f->from_task),
                    bytes, f->f.bytes);
}

static void *take_scratch(transport_t *t) {
  void *block = NULL;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_SCRATCH && block == NULL; i++) {
    block = t->scratch[i];
    t->scratch[i] = NULL;
  }
  weft_mutex_unlock(&t->mu);
  return block != NULL ? block : weft_aligned_alloc(64, WEFT_HOST_LINK_BLOCK);
}

static void give_scratch(transport_t *t, void *block) {
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_SCRATCH && block != NULL; i++) {
    if (t->scratch[i] != NULL) continue;
    t->scratch[i] = block;
    block = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_free(block);
}

/* Where bytes come from: memory of ours, a call's answer, or a peer's memory. */
typedef struct source {
  const char *data;
  const weft_buf_t *buf;
  weft_host_link_t *link;
  uint64_t address;
} source_t;

static weft_status_t *read_source(const source_t *s, size_t at, void *to, size_t n) {
  if (s->link != NULL) return weft_host_link_read(s->link, s->address + at, to, n);
  if (s->data != NULL) {
    memcpy(to, s->data + at, n);
  } else {
    s->buf->read(s->buf, at, to, n);
  }
  return NULL;
}

/* Moves all bytes of a fetch where they belong. */
static weft_status_t *move(fetch_t *f, const source_t *s) {
  const weft_fetch_t *w = &f->f;
  if (w->consume == NULL) return w->bytes == 0 ? NULL : read_source(s, 0, w->to, w->bytes);
  void *scratch = w->to == NULL && s->data == NULL ? take_scratch(f->t) : NULL;
  weft_status_t *status = NULL;
  if (w->to == NULL && s->data == NULL && scratch == NULL) status = no_memory(f->key);
  for (size_t at = 0; at < w->bytes && status == NULL;) {
    size_t n = w->bytes - at < WEFT_HOST_LINK_BLOCK ? w->bytes - at : WEFT_HOST_LINK_BLOCK;
    const void *block = s->data == NULL ? scratch : s->data + at;
    if (w->to != NULL) block = (char *)w->to + at;
    /* A block of our own memory is consumed where it lies, unless it is wanted elsewhere, too. */
    if (w->to != NULL || s->data == NULL) status = read_source(s, at, (void *)(uintptr_t)block, n);
    if (status == NULL) w->consume(w->consume_arg, at, block, n);
    at += n;
  }
  if (scratch != NULL) give_scratch(f->t, scratch);
  return status;
}

/* ---- fetching over a link ---- */

static void read_offer(void *arg) {
  fetch_t *f = arg;
  source_t source = {.link = f->link, .address = f->address};
  weft_status_t *s = move(f, &source);
  bool is_linked = weft_host_link_finished(f->link, f->id); /* a broken link ends the offer, too */
  if (s == NULL && !is_linked) { /* and what we read may have been something else already */
    s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s", WEFT_STR_ARGS(f->from_task));
  }
  end_fetch(f, s, false);
}

/* The fetch has met its offer: `f` is out of the tables. Takes over what is told. */
static void read_told(transport_t *t, fetch_t *f, weft_host_link_t *link, uint64_t id, uint64_t address, size_t bytes,
                      const void *inline_data) {
  weft_status_t *s = check_bytes(f, bytes);
  if (s != NULL || inline_data != NULL || bytes == 0) {
    source_t source = {.data = inline_data == NULL ? "" : inline_data};
    if (s == NULL) s = move(f, &source);
    if (id != 0) (void)weft_host_link_finished(link, id);
    end_fetch(f, s, false);
    return;
  }
  weft_host_link_retain(link);
  weft_host_link_release(f->link); /* of a fetch that waited: the same one */
  f->link = link;
  f->id = id;
  f->address = address;
  if (bytes < POOL_MIN_BYTES || !weft_thread_pool_submit(t->pool, read_offer, f)) read_offer(f);
}

static void offered(void *arg, weft_host_link_t *link, const weft_host_offer_t *o) {
  transport_t *t = arg;
  weft_str_t key = {NULL, 0};
  char *name = make_name(o->step_id, o->to_device, o->key, WEFT_STR(""), &key, NULL);
  come_t *c = name == NULL ? NULL : weft_malloc(sizeof *c + (o->inline_data == NULL ? 0 : o->bytes));
  if (c == NULL) { /* the fetch waits until its step or its timeout ends it */
    weft_free(name);
    if (o->id != 0) (void)weft_host_link_finished(link, o->id);
    return;
  }
  *c = (come_t){.name = name, .key = key, .step_id = o->step_id, .link = weft_host_link_retain(link), .id = o->id,
                .address = o->address, .bytes = o->bytes, .is_inline = o->inline_data != NULL};
  if (c->is_inline && o->bytes > 0) memcpy(c->data, o->inline_data, o->bytes);
  weft_mutex_lock(&t->mu);
  weft_status_t *why = ended_locked(t, o->step_id, key, WEFT_STR(""));
  fetch_t *f = why == NULL ? weft_map_remove(&t->wants, weft_str(name)) : NULL;
  if (f != NULL) f->is_waiting = false;
  bool keep = why == NULL && f == NULL && weft_map_get(&t->come, weft_str(name)) == NULL;
  if (keep) {
    weft_status_t *s = weft_map_put(&t->come, weft_str(name), c, NULL);
    keep = s == NULL;
    weft_status_free(s);
  }
  weft_mutex_unlock(&t->mu);
  if (f != NULL) {
    read_told(t, f, link, o->id, o->address, o->bytes, o->inline_data);
  } else if (!keep && o->id != 0) {
    (void)weft_host_link_finished(link, o->id);
  }
  weft_status_free(why);
  if (keep) return;
  weft_host_link_release(c->link);
  weft_free(c->name);
  weft_free(c);
}

static void finished(void *arg, weft_host_link_t *link, uint64_t id) {
  transport_t *t = arg;
  weft_mutex_lock(&t->mu);
  offer_t *o = weft_map_get_u64(&t->told, id);
  if (o != NULL && o->link == link) {
    weft_map_remove_u64(&t->told, id);
  } else {
    o = NULL;
  }
  weft_status_t *why = o == NULL ? NULL : ended_locked(t, o->step_id, o->key, WEFT_STR(""));
  weft_mutex_unlock(&t->mu);
  if (o != NULL) end_offer(o, why);
}

static void free_come(come_t *c, bool tell) {
  if (tell && c->id != 0) (void)weft_host_link_finished(c->link, c->id);
  weft_host_link_release(c->link);
  weft_free(c->name);
  weft_free(c);
}

/* ---- ending many at once ---- */

/* Which ones: of a step, of a run in it, with a task, over a link; unset ones match all. */
typedef struct which {
  bool has_step;
  int64_t step_id;
  const char *run;
  weft_str_t task;
  const weft_host_link_t *link;
  bool keep_inline;
} which_t;

typedef struct ended_items {
  offer_t *offers;
  fetch_t *wants;
  asked_t *asked;
  come_t *come;
} ended_items_t;

static bool matches(const which_t *w, int64_t step_id, weft_str_t key, weft_str_t task, const weft_host_link_t *link) {
  if (w->has_step && (step_id != w->step_id || !is_in_run(key, w->run))) return false;
  if (w->link != NULL) return link == w->link;
  return w->task.length == 0 || weft_str_eq(task, w->task);
}

static void take_offers_locked(transport_t *t, const which_t *w, bool with_told, ended_items_t *out) WEFT_REQUIRES(t->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->offers, &at, &e);) {
    offer_t *o = e.value;
    if (!matches(w, o->step_id, o->key, o->to_task, NULL)) continue;
    weft_map_remove(&t->offers, weft_str(o->name));
    o->next = out->offers;
    out->offers = o;
  }
  for (size_t at = 0; with_told && weft_map_next(&t->told, &at, &e);) {
    offer_t *o = e.value;
    if (!matches(w, o->step_id, o->key, o->to_task, o->link)) continue;
    weft_map_remove_u64(&t->told, o->id);
    o->next = out->offers;
    out->offers = o;
  }
}

static void take_fetches_locked(transport_t *t, const which_t *w, ended_items_t *out) WEFT_REQUIRES(t->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->wants, &at, &e);) {
    fetch_t *f = e.value;
    if (!matches(w, f->step_id, f->key, f->from_task, f->link)) continue;
    weft_map_remove(&t->wants, weft_str(f->name));
    f->is_waiting = false;
    f->next = out->wants;
    out->wants = f;
  }
  for (size_t at = 0; weft_map_next(&t->come, &at, &e);) {
    come_t *c = e.value;
    if (!matches(w, c->step_id, c->key, weft_host_link_task(c->link), c->link) || (w->keep_inline && c->is_inline)) continue;
    weft_map_remove(&t->come, weft_str(c->name));
    c->next = out->come;
    out->come = c;
  }
  for (size_t at = 0; w->task.length == 0 && w->link == NULL && weft_map_next(&t->asked, &at, &e);) {
    asked_t *a = e.value;
    if (!matches(w, a->step_id, a->key, w->task, NULL)) continue;
    weft_map_remove(&t->asked, weft_str(a->name));
    a->is_waiting = false;
    a->next = out->asked;
    out->asked = a;
  }
}

/* The calls that match, one after the other: each is cancelled with the cause that it shall report. */
static void cancel_calls(transport_t *t, const which_t *w, const weft_status_t *why) {
  for (;;) {
    weft_status_t *mine = weft_status_clone(why);
    weft_canceller_t *c = NULL;
    weft_map_entry_t e;
    weft_mutex_lock(&t->mu);
    for (size_t at = 0; c == NULL && weft_map_next(&t->calls, &at, &e);) {
      fetch_t *f = e.value;
      if (f->why != NULL || w->link != NULL || !matches(w, f->step_id, f->key, f->from_task, NULL)) continue;
      f->why = mine;
      mine = NULL;
      c = weft_canceller_retain(f->canceller);
    }
    weft_mutex_unlock(&t->mu);
    weft_status_free(mine);
    if (c == NULL) return;
    weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
}

static void finish_all(ended_items_t *x, const weft_status_t *why) {
  for (offer_t *o = x->offers, *next; o != NULL; o = next) {
    next = o->next;
    end_offer(o, weft_status_clone(why));
  }
  for (fetch_t *f = x->wants, *next; f != NULL; f = next) {
    next = f->next;
    end_fetch(f, weft_status_clone(why), false);
  }
  for (asked_t *a = x->asked, *next; a != NULL; a = next) {
    next = a->next;
    refuse(a, weft_status_clone(why), false);
  }
  for (come_t *c = x->come, *next; c != NULL; c = next) {
    next = c->next;
    free_come(c, true);
  }
}

/* Ends all that match here, but not what is being read: its reader will say so. */
static void end_matching(transport_t *t, const which_t *w, bool with_told, const weft_status_t *why) {
  ended_items_t items = {NULL, NULL, NULL, NULL};
  weft_mutex_lock(&t->mu);
  take_offers_locked(t, w, with_told, &items);
  take_fetches_locked(t, w, &items);
  weft_mutex_unlock(&t->mu);
  finish_all(&items, why);
  cancel_calls(t, w, why);
}

static void fail_here(transport_t *t, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  char *copy = weft_strndup(run.data, run.length);
  if (copy == NULL) return;
  which_t w = {.has_step = true, .step_id = step_id, .run = copy};
  weft_strbuf_t probe = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&probe, "%s/", copy);
  weft_str_t key = weft_str_of(probe.data, probe.failed ? 0 : probe.length);
  weft_mutex_lock(&t->mu);
  weft_status_t *known = ended_locked(t, step_id, key, WEFT_STR(""));
  weft_mutex_unlock(&t->mu);
  weft_strbuf_deinit(&probe);
  bool is_known = known != NULL;
  weft_status_free(known);
  if (is_known) { /* a second failure of a run is ignored */
    weft_free(copy);
    return;
  }
  char *kept = weft_strdup(copy);
  weft_status_t *cause = weft_status_clone(why);
  if (kept != NULL) {
    add_ending(t, step_id, kept, NULL, cause);
  } else {
    weft_status_free(cause);
  }
  end_matching(t, &w, false, why);
  weft_free(copy);
}

static void ended(void *arg, weft_host_link_t *link, int64_t step_id, weft_str_t run, weft_status_t *why) {
  transport_t *t = arg;
  weft_str_t task = weft_host_link_task(link);
  if (why == NULL) why = WEFT_ERROR(ABORTED, "%.*s ended step %" PRId64, WEFT_STR_ARGS(task), step_id);
  if (run.length > 0) {
    fail_here(t, step_id, run, why);
  } else {
    char *copy = weft_strndup(task.data, task.length);
    if (copy != NULL) add_ending(t, step_id, NULL, copy, weft_status_clone(why));
    which_t w = {.has_step = true, .step_id = step_id, .link = link, .keep_inline = true};
    end_matching(t, &w, false, why);
  }
  weft_status_free(why);
}

static void forget_loss_locked(transport_t *t, weft_str_t task, weft_status_t **old) WEFT_REQUIRES(t->mu) {
  int n = 0;
  for (int i = 0; i < MAX_LOSSES; i++) {
    loss_t l = t->losses[i];
    bool is_it = l.why != NULL && *old == NULL && weft_str_eq(l.task, task);
    if (is_it) *old = l.why;
    t->losses[i] = (loss_t){.why = NULL};
    if (l.why != NULL && !is_it) t->losses[n++] = l;
  }
}

static void note_loss(transport_t *t, weft_str_t task, const weft_status_t *why) {
  weft_status_t *mine = weft_status_clone(why);
  weft_mutex_lock(&t->mu);
  int i = 0;
  while (i < MAX_LOSSES && t->losses[i].why != NULL && !weft_str_eq(t->losses[i].task, task)) i++;
  weft_str_t name = i < MAX_LOSSES && t->losses[i].why == NULL ? weft_arena_str(&t->arena, task) : WEFT_STR("");
  if (name.length > 0) {
    t->losses[i] = (loss_t){name, mine, weft_clock_ns()};
    mine = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_status_free(mine);
}

static void forget_loss(transport_t *t, weft_str_t task) {
  weft_status_t *old = NULL;
  weft_mutex_lock(&t->mu);
  forget_loss_locked(t, task, &old);
  weft_mutex_unlock(&t->mu);
  weft_status_free(old);
}

static void broken(void *arg, weft_host_link_t *link) {
  transport_t *t = arg;
  weft_str_t task = weft_host_link_task(link);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s: the task has died or was stopped", WEFT_STR_ARGS(task));
  note_loss(t, task, why);
  which_t by_link = {.link = link}, by_task = {.task = task};
  end_matching(t, &by_link, true, why);
  end_matching(t, &by_task, false, why);
  if (t->peers.lost != NULL) t->peers.lost(t->peers.arg, task, why);
  weft_status_free(why);
}

/* ---- the table of functions ---- */

static void transport_offer(weft_transport_t *base, int64_t step_id, weft_str_t key, weft_str_t to_task, weft_str_t to_device,
                            const void *data, size_t bytes, weft_transfer_done_fn *done, void *arg) {
  transport_t *t = of(base);
  bool is_own = weft_str_is(to_task, t->task);
  weft_host_link_t *link = is_own ? NULL : weft_host_links_find(t->links, to_task);
  bool is_inline = link != NULL && bytes <= WEFT_HOST_LINK_INLINE;
  offer_t *o = weft_calloc(1, sizeof *o);
  if (o != NULL) o->name = make_name(step_id, to_device, key, to_task, &o->key, &o->to_task);
  weft_status_t *s = o == NULL || o->name == NULL ? no_memory(key) : NULL;
  if (s != NULL) {
    weft_host_link_release(link);
    weft_free(o);
    done(arg, s);
    return;
  }
  o->step_id = step_id;
  o->data = data;
  o->bytes = bytes;
  o->done = done;
  o->arg = arg;
  o->link = link;
  asked_t *a = NULL;
  weft_mutex_lock(&t->mu);
  mark_step_locked(t, step_id);
  s = ended_locked(t, step_id, o->key, WEFT_STR(""));
  if (s == NULL) a = weft_map_remove(&t->asked, weft_str(o->name));
  if (a != NULL) {
    a->is_waiting = false;
  } else if (s == NULL && link != NULL && !is_inline) {
    o->id = ++t->next_id;
    s = weft_map_put_u64(&t->told, o->id, o, NULL);
  } else if (s == NULL && link == NULL) {
    if (weft_map_get(&t->offers, weft_str(o->name)) != NULL) {
      s = WEFT_ERROR(INTERNAL, "'%.*s' is offered twice", WEFT_STR_ARGS(key));
    } else {
      s = weft_map_put(&t->offers, weft_str(o->name), o, NULL);
    }
  }
  uint64_t id = o->id;
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    end_offer(o, s);
  } else if (a != NULL) {
    give(a, o);
  } else if (link != NULL) {
    weft_host_offer_t told = {.id = id, .step_id = step_id, .key = key, .to_device = to_device, .bytes = bytes,
                              .address = (uint64_t)(uintptr_t)data, .inline_data = is_inline ? (bytes == 0 ? "" : data) : NULL};
    weft_host_link_retain(link); /* o may be gone as soon as the peer knows of it */
    bool ok = weft_host_link_offer(link, &told);
    weft_mutex_lock(&t->mu);
    if (!is_inline && !ok) o = weft_map_remove_u64(&t->told, id);
    weft_mutex_unlock(&t->mu);
    if (is_inline || (!ok && o != NULL)) {
      if (!ok) s = WEFT_ERROR(UNAVAILABLE, "lost the connection to %.*s", WEFT_STR_ARGS(weft_host_link_task(link)));
      end_offer(o, s);
    }
    weft_host_link_release(link);
  }
}

static void cancel_asked(void *arg) {
  asked_t *a = arg; /* lives: whoever ends it waits for us */
  transport_t *t = a->t;
  weft_mutex_lock(&t->mu);
  a->is_cancelled = true;
  bool is_ours = a->is_waiting;
  if (is_ours) weft_map_remove(&t->asked, weft_str(a->name));
  a->is_waiting = false;
  weft_mutex_unlock(&t->mu);
  if (is_ours) refuse(a, cancelled(a->key), true);
}

void weft_remote_transport_serve(weft_transport_t *base, const weft_buf_request_t *r, weft_canceller_t *canceller,
                                 weft_buf_fn *fn, void *arg) {
  transport_t *t = of(base);
  if (r->src_incarnation != 0 && r->src_incarnation != t->incarnation) {
    fn(arg,
       weft_status_mark_restarted(WEFT_ERROR(
           FAILED_PRECONDITION,
           "RecvBuf expects a different device incarnation: %" PRIu64 " vs. %" PRIu64
           ". Your worker job (\"%s\") was probably restarted. Check your worker job for the reason why it was restarted.",
           r->src_incarnation, t->incarnation, t->task)),
       NULL);
    return;
  }
  asked_t *a = weft_calloc(1, sizeof *a);
  if (a != NULL) a->name = make_name(r->step_id, r->dst_device, r->key, WEFT_STR(""), &a->key, NULL);
  if (a == NULL || a->name == NULL) {
    weft_free(a);
    fn(arg, no_memory(r->key), NULL);
    return;
  }
  a->t = t;
  a->step_id = r->step_id;
  a->fn = fn;
  a->arg = arg;
  a->canceller = weft_canceller_retain(canceller);
  if (!weft_canceller_register(canceller, cancel_asked, a, &a->token)) {
    refuse(a, cancelled(a->key), true);
    return;
  }
  weft_mutex_lock(&t->mu);
  weft_status_t *s = a->is_cancelled ? cancelled(r->key) : ended_locked(t, r->step_id, r->key, WEFT_STR(""));
  offer_t *o = s == NULL ? weft_map_remove(&t->offers, weft_str(a->name)) : NULL;
  if (s == NULL && o == NULL) {
    if (weft_map_get(&t->asked, weft_str(a->name)) != NULL) {
      s = WEFT_ERROR(INTERNAL, "'%.*s' is asked for twice", WEFT_STR_ARGS(r->key));
    } else {
      s = weft_map_put(&t->asked, weft_str(a->name), a, NULL);
    }
    a->is_waiting = s == NULL;
  }
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    refuse(a, s, false);
  } else if (o != NULL) {
    give(a, o);
  }
}

/* ---- tasks ---- */

/* What is known of a task; in the arena: it stays. */
typedef struct known {
  weft_str_t host;
  uint64_t incarnation;
} known_t;

static weft_str_t host_of(void *arg, weft_str_t task) {
  transport_t *t = arg;
  weft_mutex_lock(&t->mu);
  const known_t *known = weft_map_get(&t->hosts, task);
  weft_str_t text = known == NULL ? WEFT_STR("") : known->host;
  weft_mutex_unlock(&t->mu);
  return text;
}

static void note_task(transport_t *t, weft_str_t task, weft_str_t host, uint64_t incarnation) {
  weft_mutex_lock(&t->mu);
  known_t *known = weft_map_get(&t->hosts, task);
  if (known == NULL || !weft_str_eq(known->host, host)) {
    known_t *entry = weft_arena_calloc(&t->arena, 1, sizeof *entry);
    weft_str_t name = weft_arena_str(&t->arena, task);
    if (entry != NULL) entry->host = weft_arena_str(&t->arena, host);
    if (entry != NULL && entry->host.data != NULL && name.data != NULL) {
      weft_map_remove(&t->hosts, task);
      weft_status_t *s = weft_map_put(&t->hosts, name, entry, NULL);
      known = s == NULL ? entry : NULL;
      weft_status_free(s); /* unknown, then: no links to it */
    }
  }
  if (known != NULL) known->incarnation = incarnation;
  weft_mutex_unlock(&t->mu);
}

static uint64_t incarnation_of(transport_t *t, weft_str_t task) {
  weft_mutex_lock(&t->mu);
  const known_t *known = weft_map_get(&t->hosts, task);
  uint64_t incarnation = known == NULL ? 0 : known->incarnation;
  weft_mutex_unlock(&t->mu);
  return incarnation;
}

/* ---- fetching by a call, or from this task itself ---- */

typedef struct local_read {
  fetch_t *fetch;
  const void *data;
  void (*release)(void *arg);
  void *release_arg;
} local_read_t;

static void read_local(void *arg) {
  local_read_t *l = arg;
  fetch_t *f = l->fetch;
  source_t source = {.data = l->data == NULL ? "" : l->data};
  weft_status_t *s = move(f, &source);
  l->release(l->release_arg);
  weft_free(l);
  end_fetch(f, s, false);
}

static void called(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  fetch_t *f = arg;
  transport_t *t = f->t;
  weft_mutex_lock(&t->mu);
  if (weft_map_get(&t->calls, weft_str(f->name)) == f) weft_map_remove(&t->calls, weft_str(f->name));
  weft_status_t *why = f->why;
  f->why = NULL;
  weft_mutex_unlock(&t->mu);
  if (why != NULL && status != NULL) { /* the cause, not its echo */
    weft_status_free(status);
    status = why;
    why = NULL;
  }
  weft_status_free(why);
  if (status == NULL) status = check_bytes(f, buf->bytes);
  if (status == NULL && buf->data != NULL && buf->bytes >= POOL_MIN_BYTES && buf->release != NULL) {
    local_read_t *l = weft_calloc(1, sizeof *l);
    if (l != NULL) {
      *l = (local_read_t){f, buf->data, buf->release, buf->release_arg};
      if (!weft_thread_pool_submit(t->pool, read_local, l)) read_local(l);
      return;
    }
  }
  source_t source = {.data = buf == NULL ? NULL : buf->data, .buf = buf};
  if (status == NULL) status = move(f, &source);
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  end_fetch(f, status, true); /* nothing is registered at a call's canceller */
}

static void call_for(transport_t *t, fetch_t *f, bool is_own) {
  weft_buf_request_t r = {.step_id = f->step_id, .request_id = (int64_t)weft_random_id(), .key = f->key,
                          .src_device = f->from_device, .dst_device = f->to_device, .bytes = (int64_t)f->f.bytes,
                          .src_incarnation = is_own ? 0 : incarnation_of(t, f->from_task)};
  weft_canceller_t *lent = weft_canceller_retain(f->canceller); /* f may be gone before the call returns */
  if (is_own) {
    weft_remote_transport_serve(&t->base, &r, lent, called, f);
  } else {
    t->peers.recv_buf(t->peers.arg, f->from_task, &r, lent, called, f);
  }
  weft_canceller_release(lent);
}

static void cancel_want(void *arg) {
  fetch_t *f = arg; /* lives: whoever ends it waits for us */
  transport_t *t = f->t;
  weft_mutex_lock(&t->mu);
  f->is_cancelled = true;
  bool is_ours = f->is_waiting;
  if (is_ours) weft_map_remove(&t->wants, weft_str(f->name));
  f->is_waiting = false;
  weft_mutex_unlock(&t->mu);
  if (is_ours) end_fetch(f, cancelled(f->key), true);
}

static weft_status_t *keep_locked(weft_map_t *map, fetch_t *f) {
  if (weft_map_get(map, weft_str(f->name)) != NULL)
    return WEFT_ERROR(INTERNAL, "'%.*s' is fetched twice", WEFT_STR_ARGS(f->key));
  return weft_map_put(map, weft_str(f->name), f, NULL);
}

/* Over a link: what has come is there already, or will be told. */
static void want(transport_t *t, fetch_t *f, weft_host_link_t *link) {
  bool is_registered = weft_canceller_register(f->canceller, cancel_want, f, &f->token);
  come_t *c = NULL;
  weft_mutex_lock(&t->mu);
  weft_status_t *s = !is_registered || f->is_cancelled ? cancelled(f->key) : NULL;
  if (s == NULL) c = weft_map_remove(&t->come, weft_str(f->name));
  if (s == NULL && c == NULL) s = ended_locked(t, f->step_id, f->key, f->from_task);
  if (s == NULL && c == NULL) {
    f->link = link;
    s = keep_locked(&t->wants, f);
    f->is_waiting = s == NULL;
    if (s != NULL) f->link = NULL;
  }
  bool waits = s == NULL && c == NULL;
  weft_host_link_retain(link); /* f is not ours any more once it waits */
  weft_mutex_unlock(&t->mu);
  if (waits && !weft_host_link_is_linked(link)) broken(t, link); /* it broke before we waited: nobody else would say so */
  weft_host_link_release(link);
  if (s != NULL) {
    end_fetch(f, s, !is_registered);
    weft_host_link_release(link);
  } else if (c != NULL) {
    read_told(t, f, c->link, c->id, c->address, c->bytes, c->is_inline ? c->data : NULL);
    free_come(c, false);
    weft_host_link_release(link);
  }
}

static char *copy_texts(const weft_fetch_t *f, fetch_t *out) {
  size_t size = f->from_task.length + f->from_device.length + f->to_device.length;
  char *texts = weft_malloc(size + 1), *p = texts;
  if (texts == NULL) return NULL;
  const weft_str_t *from[3] = {&f->from_task, &f->from_device, &f->to_device};
  weft_str_t *to[3] = {&out->from_task, &out->from_device, &out->to_device};
  for (int i = 0; i < 3; i++) {
    if (from[i]->length > 0) memcpy(p, from[i]->data, from[i]->length);
    *to[i] = weft_str_of(p, from[i]->length);
    p += from[i]->length;
  }
  return texts;
}

static void transport_fetch(weft_transport_t *base, const weft_fetch_t *wanted, weft_canceller_t *canceller,
                            weft_transfer_done_fn *done, void *arg) {
  transport_t *t = of(base);
  bool is_own = weft_str_is(wanted->from_task, t->task);
  weft_host_link_t *link = is_own ? NULL : weft_host_links_find(t->links, wanted->from_task);
  fetch_t *f = weft_calloc(1, sizeof *f);
  weft_str_t more = {NULL, 0};
  char *texts = f == NULL ? NULL : copy_texts(wanted, f);
  if (texts != NULL) {
    size_t size = f->from_task.length + f->from_device.length + f->to_device.length;
    f->name = make_name(wanted->step_id, wanted->to_device, wanted->key, weft_str_of(texts, size), &f->key, &more);
  }
  weft_free(texts);
  if (f != NULL && f->name != NULL && link == NULL) f->canceller = weft_canceller_create(canceller);
  if (f == NULL || f->name == NULL || (link == NULL && f->canceller == NULL)) {
    if (f != NULL) weft_free(f->name);
    weft_free(f);
    weft_host_link_release(link);
    done(arg, no_memory(wanted->key));
    return;
  }
  f->from_task = weft_str_of(more.data, wanted->from_task.length);
  f->from_device = weft_str_of(f->from_task.data + f->from_task.length, wanted->from_device.length);
  f->to_device = weft_str_of(f->from_device.data + f->from_device.length, wanted->to_device.length);
  if (link != NULL) f->canceller = weft_canceller_retain(canceller);
  f->t = t;
  f->step_id = wanted->step_id;
  f->f = *wanted;
  f->done = done;
  f->arg = arg;
  weft_mutex_lock(&t->mu);
  begin_locked(t, f->step_id);
  weft_status_t *s = NULL;
  if (link == NULL) {
    s = ended_locked(t, f->step_id, f->key, f->from_task);
    if (s == NULL) s = keep_locked(&t->calls, f);
  } else { /* what has come is good, even if the one who sent it ended the step since; but not if we did */
    s = ended_locked(t, f->step_id, f->key, WEFT_STR(""));
  }
  weft_mutex_unlock(&t->mu);
  if (s != NULL) {
    end_fetch(f, s, true);
    weft_host_link_release(link);
  } else if (link != NULL) {
    want(t, f, link);
  } else {
    call_for(t, f, is_own);
  }
}

static void transport_fail(weft_transport_t *base, int64_t step_id, weft_str_t run, const weft_group_t *group,
                           const weft_status_t *why) {
  transport_t *t = of(base);
  for (int i = 0; group != NULL && i < group->size; i++) {
    weft_str_t task = group->members[i].task;
    bool is_told = weft_str_is(task, t->task);
    for (int k = 0; k < i && !is_told; k++) is_told = weft_str_eq(group->members[k].task, task);
    weft_host_link_t *link = is_told ? NULL : weft_host_links_find(t->links, task);
    if (link != NULL) (void)weft_host_link_ended(link, step_id, run, why);
    weft_host_link_release(link);
  }
  fail_here(t, step_id, run, why);
}

static void transport_lost_task(weft_transport_t *base, weft_str_t task, const weft_status_t *why) {
  transport_t *t = of(base);
  which_t by_task = {.task = task};
  note_loss(t, task, why);
  end_matching(t, &by_task, false, why);
  (void)weft_host_links_break(t->links, task);
  weft_group_table_lost_task(t->groups, task, why);
}

static void transport_end_step(weft_transport_t *base, int64_t step_id, const weft_status_t *why) {
  transport_t *t = of(base);
  weft_mutex_lock(&t->mu);
  bool is_known = weft_map_remove_u64(&t->steps, (uint64_t)step_id) != NULL;
  if (t->last_step == step_id) t->last_step = 0;
  weft_mutex_unlock(&t->mu);
  if (!is_known && why == NULL) return; /* a step without collectives */
  weft_status_t *cause = why != NULL ? weft_status_clone(why)
                                     : weft_status_mark_derived(WEFT_ERROR(ABORTED, "step %" PRId64 " has ended", step_id));
  add_ending(t, step_id, NULL, NULL, weft_status_clone(cause));
  weft_host_links_tell_ended(t->links, step_id, why);
  which_t w = {.has_step = true, .step_id = step_id};
  end_matching(t, &w, false, cause);
  weft_status_free(cause);
}

/* ---- the leader ---- */

typedef struct group_wait {
  transport_t *t;
  int64_t key;
  atomic_int pending; /* links to be decided, and one for us */
  weft_group_t *group;
  weft_group_fn *fn;
  void *arg;
} group_wait_t;

/* Why the group of this key broke first, as far as we know: a copy. Who is lost after that may only have followed. */
static weft_status_t *first_loss(transport_t *t, int64_t key) {
  weft_status_t *found = NULL;
  weft_mutex_lock(&t->mu);
  const weft_group_t *g = weft_map_get_u64(&t->seen, (uint64_t)key);
  for (int i = 0; g != NULL && i < MAX_LOSSES && found == NULL; i++) {
    const loss_t *l = &t->losses[i];
    if (l->why == NULL) continue;
    for (int k = 0; k < g->size && found == NULL; k++) {
      if (weft_str_eq(g->members[k].task, l->task)) found = weft_status_clone(l->why);
    }
  }
  weft_mutex_unlock(&t->mu);
  return found;
}

static bool is_lost_lately(transport_t *t, weft_str_t task) {
  bool is_lost = false;
  int64_t now = weft_clock_ns();
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < MAX_LOSSES && !is_lost; i++) {
    const loss_t *l = &t->losses[i];
    is_lost = l->why != NULL && weft_str_eq(l->task, task) && now - l->at_ns < (int64_t)LEADER_LOST_MS * 1000000;
  }
  weft_mutex_unlock(&t->mu);
  return is_lost;
}

static void remember(transport_t *t, weft_group_t *group) {
  void *old = NULL;
  for (int i = 0; i < group->size; i++) forget_loss(t, group->members[i].task);
  weft_mutex_lock(&t->mu);
  weft_status_t *s = weft_map_put_u64(&t->seen, (uint64_t)group->key, weft_group_retain(group), &old);
  weft_mutex_unlock(&t->mu);
  if (s != NULL) weft_group_release(group);
  weft_status_free(s); /* a later failure may then name the wrong task of several */
  weft_group_release(old);
}

static void linked(void *arg) {
  group_wait_t *w = arg;
  if (atomic_fetch_sub_explicit(&w->pending, 1, memory_order_acq_rel) != 1) return;
  w->fn(w->arg, NULL, w->group);
  weft_free(w);
}

static void grouped(void *arg, weft_status_t *status, weft_group_t *group) {
  group_wait_t *w = arg;
  transport_t *t = w->t;
  if (status != NULL) {
    weft_status_t *first = weft_status_code(status) == WEFT_UNAVAILABLE ? first_loss(t, w->key) : NULL;
    if (first != NULL) weft_status_free(status);
    w->fn(w->arg, first != NULL ? first : status, NULL);
    weft_free(w);
    return;
  }
  w->group = group;
  remember(t, group);
  for (int i = 0; i < group->size; i++) {
    note_task(t, group->members[i].task, group->members[i].host, group->members[i].incarnation);
  }
  weft_str_t host = weft_host_links_host(t->links);
  weft_group_retain(group); /* w may be gone when the last link is decided */
  atomic_init(&w->pending, group->size + 1);
  for (int i = 0; i < group->size; i++) {
    const weft_group_member_t *m = &group->members[i];
    bool is_near = host.length > 0 && weft_str_eq(m->host, host) && !weft_str_is(m->task, t->task);
    if (is_near) {
      weft_host_links_connect(t->links, m->task, m->incarnation, linked, w);
    } else {
      linked(w);
    }
  }
  linked(w);
  weft_group_release(group);
}

static void transport_complete_group(weft_transport_t *base, const weft_group_request_t *r, weft_canceller_t *canceller,
                                     weft_group_fn *fn, void *arg) {
  transport_t *t = of(base);
  group_wait_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) {
    fn(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for joining group %" PRId64, r->group_key), NULL);
    return;
  }
  w->t = t;
  w->key = r->group_key;
  w->fn = fn;
  w->arg = arg;
  /* The call to a leader waits until it is there: not to one that has just died. */
  weft_status_t *s = is_lost_lately(t, t->peers.leader) ? first_loss(t, r->group_key) : NULL;
  if (s != NULL) {
    weft_free(w);
    fn(arg, s, NULL);
    return;
  }
  weft_group_request_t mine = *r;
  mine.incarnation = t->incarnation;
  mine.host = weft_host_links_host(t->links);
  t->peers.complete_group(t->peers.arg, &mine, canceller, grouped, w);
}

static void transport_complete_instance(weft_transport_t *base, const weft_instance_request_t *r, weft_canceller_t *canceller,
                                        weft_instance_fn *fn, void *arg) {
  transport_t *t = of(base);
  t->peers.complete_instance(t->peers.arg, r, canceller, fn, arg);
}

void weft_remote_transport_join_group(weft_transport_t *base, const weft_group_request_t *r, weft_canceller_t *canceller,
                                      weft_group_fn *fn, void *arg) {
  transport_t *t = of(base);
  note_task(t, weft_transport_task_of(r->device), r->host, r->incarnation);
  weft_group_table_join(t->groups, r, canceller, fn, arg);
}

void weft_remote_transport_join_instance(weft_transport_t *base, const weft_instance_request_t *r, weft_canceller_t *canceller,
                                         weft_instance_fn *fn, void *arg) {
  weft_group_table_join_instance(of(base)->groups, r, canceller, fn, arg);
}

bool weft_remote_transport_break(weft_transport_t *base, weft_str_t task) { return weft_host_links_break(of(base)->links, task); }

void weft_remote_transport_returned_task(weft_transport_t *base, weft_str_t task, uint64_t incarnation) {
  if (incarnation_of(of(base), task) == incarnation) return; /* old news */
  forget_loss(of(base), task);
  weft_group_table_returned_task(of(base)->groups, task);
}

/* Seconds; on a machine of 2020s servers: a link's message 15 us, a call 120 us; memory read twice at 5 GB/s, loopback or a
 * network at 1 GB/s. The leader asks, and tells all members, so that they choose alike. */
static double cost_between(transport_t *t, weft_str_t from, weft_str_t to, size_t bytes) {
  if (weft_str_eq(from, to)) return 5e-6 + (double)bytes / 10e9;
  weft_str_t a = host_of(t, from), b = host_of(t, to);
  bool is_near = a.length > 0 && weft_str_eq(a, b);
  return is_near ? 15e-6 + (double)bytes / 5e9 : 120e-6 + (double)bytes / 1e9;
}

static double transport_cost(weft_transport_t *base, weft_str_t from_task, weft_str_t to_task, size_t bytes) {
  return cost_between(of(base), from_task, to_task, bytes);
}
static double leader_cost(void *arg, weft_str_t from_task, weft_str_t to_task, size_t bytes) {
  return cost_between(arg, from_task, to_task, bytes);
}

weft_link_counters_t *weft_remote_transport_counters(weft_transport_t *t) { return of(t)->counters; }

/* ---- life ---- */

void weft_remote_transport_stop(weft_transport_t *base) {
  transport_t *t = of(base);
  weft_host_links_stop(t->links);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "%s is stopping", t->task);
  which_t all = {.has_step = false};
  end_matching(t, &all, true, why);
  weft_status_free(why);
}

static void transport_destroy(weft_transport_t *base) {
  transport_t *t = of(base);
  if (t->links != NULL) weft_remote_transport_stop(base);
  weft_mutex_lock(&t->mu);
  while (t->num_busy > 0) weft_cond_wait(&t->idle, &t->mu); /* woken by end_busy; calls are cancelled, reads end by themselves */
  weft_mutex_unlock(&t->mu);
  weft_host_links_destroy(t->links);
  weft_group_table_destroy(t->groups);
  weft_link_counters_destroy(t->counters);
  for (size_t i = 0; i < MAX_ENDINGS; i++) {
    weft_free(t->endings[i].run);
    weft_free(t->endings[i].task);
    weft_status_free(t->endings[i].why);
  }
  for (int i = 0; i < MAX_SCRATCH; i++) weft_free(t->scratch[i]);
  for (int i = 0; i < MAX_LOSSES; i++) weft_status_free(t->losses[i].why);
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->seen, &at, &e);) weft_group_release(e.value);
  weft_map_t *maps[] = {&t->offers, &t->told, &t->wants, &t->calls, &t->come, &t->asked, &t->steps, &t->hosts, &t->seen};
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) weft_map_deinit(maps[i]);
  weft_arena_deinit(&t->arena);
  weft_cond_deinit(&t->idle);
  weft_mutex_deinit(&t->mu);
  weft_free(t->task);
  weft_free(t);
}

weft_status_t *weft_remote_transport_create(const weft_remote_transport_options_t *o, weft_transport_t **out) {
  static const weft_transport_ops_t ops = {.offer = transport_offer,
                                           .fail = transport_fail,
                                           .lost_task = transport_lost_task,
                                           .end_step = transport_end_step,
                                           .fetch = transport_fetch,
                                           .complete_group = transport_complete_group,
                                           .complete_instance = transport_complete_instance,
                                           .cost = transport_cost,
                                           .destroy = transport_destroy};
  static const weft_host_link_ops_t link_ops = {offered, finished, ended, broken};
  transport_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for the transport of collectives");
  t->base.ops = &ops;
  weft_mutex_init(&t->mu);
  weft_cond_init(&t->idle);
  t->incarnation = o->incarnation;
  t->pool = o->pool;
  t->peers = o->peers;
  t->task = weft_strndup(o->task.data, o->task.length);
  weft_group_table_env_t env = {.host_of = host_of, .cost = leader_cost, .arg = t};
  weft_status_t *s = t->task == NULL ? no_memory(o->task) : NULL;
  if (s == NULL) s = weft_link_counters_create(&t->counters);
  if (s == NULL) s = weft_group_table_create(&env, &t->groups);
  if (s == NULL) s = weft_host_links_create(weft_str(t->task), o->only_rpc ? 0 : o->incarnation, &link_ops, t, &t->links);
  if (s != NULL) {
    transport_destroy(&t->base);
    return s;
  }
  *out = &t->base;
  return NULL;
}
