/* collectives/remote/moving.c - moves the bytes of a fetch where they belong, and ends it.
 *
 * Bytes that are consumed on the way pass through blocks that stay in a core's cache;
 * a few such blocks are kept.
 */
#include "collectives/remote/transport_impl.h"

#include "base/alloc.h"
#include "base/clock.h"

/* Consumes the offer and the status. */
void weft_remote_end_offer(weft_remote_offer_t *o, weft_status_t *status) {
  weft_transfer_done_fn *done = o->done;
  void *arg = o->arg;
  weft_host_link_release(o->link);
  weft_free(o->name);
  weft_free(o);
  done(arg, status);
}

void weft_remote_learn(weft_remote_fetch_t *f, weft_way_t way) {
  if (f->began_ns == 0 || f->f.consume != NULL) return; /* consuming takes its own time */
  double seconds = (double)(weft_clock_ns() - f->began_ns) * 1e-9;
  if (way == WEFT_WAY_NEAR)
    seconds += weft_link_costs_of(&f->t->costs, way).alpha_s; /* the message came before */
  weft_link_costs_note(&f->t->costs, way, f->f.bytes, seconds);
}

weft_status_t *weft_remote_keep_locked(weft_map_t *map, weft_remote_fetch_t *f) {
  if (weft_map_get(map, weft_str(f->name)) != NULL)
    return WEFT_ERROR(INTERNAL, "'%.*s' is fetched twice", WEFT_STR_ARGS(f->key));
  return weft_map_put(map, weft_str(f->name), f, NULL);
}

void weft_remote_end_fetch(weft_remote_fetch_t *f, weft_status_t *status, bool is_in_cancel) {
  weft_remote_t *t = f->t;
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
  weft_remote_end_busy(t);
}

weft_status_t *weft_remote_cancelled(weft_str_t key) {
  return weft_status_mark_derived(WEFT_ERROR(CANCELLED, "fetching '%.*s' was cancelled", WEFT_STR_ARGS(key)));
}

weft_status_t *weft_remote_check_bytes(const weft_remote_fetch_t *f, size_t bytes) {
  if (bytes == f->f.bytes) return NULL;
  return WEFT_ERROR(INTERNAL, "'%.*s' from %.*s has %zu bytes, not %zu", WEFT_STR_ARGS(f->key),
                    WEFT_STR_ARGS(f->from_task), bytes, f->f.bytes);
}

static void *take_scratch(weft_remote_t *t) {
  void *block = NULL;
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_SCRATCH && block == NULL; i++) {
    block = t->scratch[i];
    t->scratch[i] = NULL;
  }
  weft_mutex_unlock(&t->mu);
  return block != NULL ? block : weft_aligned_alloc(64, WEFT_HOST_LINK_BLOCK);
}

static void give_scratch(weft_remote_t *t, void *block) {
  weft_mutex_lock(&t->mu);
  for (int i = 0; i < WEFT_REMOTE_SCRATCH && block != NULL; i++) {
    if (t->scratch[i] != NULL) continue;
    t->scratch[i] = block;
    block = NULL;
  }
  weft_mutex_unlock(&t->mu);
  weft_free(block);
}

static weft_status_t *read_source(const weft_remote_source_t *s, size_t at, void *to, size_t n) {
  if (s->link != NULL) return weft_host_link_read(s->link, s->address + at, to, n);
  if (s->data != NULL) {
    memcpy(to, s->data + at, n);
  } else {
    s->buf->read(s->buf, at, to, n);
  }
  return NULL;
}

/* Moves all bytes of a fetch where they belong. */
weft_status_t *weft_remote_move(weft_remote_fetch_t *f, const weft_remote_source_t *s) {
  const weft_fetch_t *w = &f->f;
  if (w->consume == NULL) return w->bytes == 0 ? NULL : read_source(s, 0, w->to, w->bytes);
  void *scratch = w->to == NULL && s->data == NULL ? take_scratch(f->t) : NULL;
  weft_status_t *status = NULL;
  if (w->to == NULL && s->data == NULL && scratch == NULL) status = weft_remote_no_memory(f->key);
  for (size_t at = f->moved; at < w->bytes && status == NULL;) {
    size_t n = w->bytes - at < WEFT_HOST_LINK_BLOCK ? w->bytes - at : WEFT_HOST_LINK_BLOCK;
    const void *block = s->data == NULL ? scratch : s->data + at;
    if (w->to != NULL) block = (char *)w->to + at;
    /* A block of our own memory is consumed where it lies, unless it is wanted elsewhere, too. */
    if (w->to != NULL || s->data == NULL) status = read_source(s, at, (void *)(uintptr_t)block, n);
    if (status == NULL) w->consume(w->consume_arg, at, block, n);
    at += n;
    if (status == NULL) f->moved = at;
  }
  if (scratch != NULL) give_scratch(f->t, scratch);
  return status;
}
