/* collectives/negotiated/controller.c - the cycle, and the life of a negotiator.
 *
 *   submit -> queue -> (bit vector | requests) -> negotiation -> execute -> done
 *
 * Every member goes through the same cycles, so the number of a cycle tells its messages apart. A cycle
 * that fails ends the negotiator, for members could not agree any more.
 */
#include "collectives/negotiated/controller.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

enum {
  STATUS_BITS = 3, /* of the vector: kept inverted, so that an AND finds whether a member has set them */
  STATUS_END = 0,
  STATUS_NEW = 1,
  STATUS_OTHER = 2,
  GOODBYE_MS = 300, /* for the other members to learn that this one ends */
};
/* Instance keys of control messages; those of data are hashes, which have bit 30. */
enum { KEY_VECTOR = 1 << 20, KEY_DROPPED = 2 << 20, KEY_REQUESTS = 3 << 20 };

/* Gathers the bytes of all members, in rank order. `is_uniform`: all have the same number. */
static weft_status_t *tell(weft_negotiator_t *n, int64_t key, weft_str_t name, const void *bytes, size_t size,
                           bool is_uniform, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector((int64_t)size);
  weft_tensor_t *mine = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_U8, &shape, NULL, &mine));
  if (size > 0) memcpy(mine->data, bytes, size);
  weft_collective_t call = {.kind = WEFT_ALL_GATHER,
                            .name = name,
                            .root = -1,
                            .dtype = WEFT_U8,
                            .shape = shape,
                            .input = mine,
                            .is_uniform = is_uniform,
                            .instance_key = is_uniform ? key + (int64_t)size : key,
                            .iteration = n->cycle};
  weft_status_t *s = weft_negotiator_run(n, 0, &call, out);
  weft_tensor_release(mine);
  weft_mutex_lock(&n->mu);
  n->stats.control_bytes += (int64_t)size;
  weft_mutex_unlock(&n->mu);
  return s;
}

/* ---- a cycle ---- */

typedef struct negotiation_cycle {
  uint64_t *vector, *dropped; /* num_words */
  int num_words, num_bits;    /* num_bits: positions of the cache */
  bool wants_end;
} negotiation_cycle_t;

static void set_bit(uint64_t *words, int bit) { words[bit / 64] |= (uint64_t)1 << (bit % 64); }
static bool has_bit(const uint64_t *words, int bit) { return (words[bit / 64] >> (bit % 64) & 1) != 0; }

/* Another tensor of p's group is not in the cache as it is now: then the whole group is negotiated. */
static bool group_is_broken_locked(weft_negotiator_t *n, const weft_pending_t *p) WEFT_REQUIRES(n->mu) {
  if (p->request.group.length == 0) return false;
  for (const weft_pending_t *o = n->queue; o != NULL; o = o->next) {
    if (o->request.process_set == p->request.process_set && weft_str_eq(o->request.group, p->request.group) &&
        !o->is_hit)
      return true;
  }
  return false;
}

/* Looks up all that waits, and fills the vectors. */
static void classify(weft_negotiator_t *n, negotiation_cycle_t *y) {
  bool has_new = false, has_other = false;
  int64_t stale = weft_clock_ns() - n->o.stall_warning_ms * 1000000;
  weft_mutex_lock(&n->mu);
  for (weft_pending_t *p = n->queue; p != NULL; p = p->next) {
    if (p->is_told) continue;
    p->position = -1;
    p->is_hit = false;
    if (p->request.kind != WEFT_NAMED_JOIN) {
      weft_cache_answer_t a = weft_response_cache_find(n->cache, &p->request, &p->position);
      p->is_hit = a == WEFT_CACHE_HIT && p->since_ns > stale; /* what waits too long is sent to all */
    }
  }
  for (weft_pending_t *p = n->queue; p != NULL; p = p->next) {
    if (p->is_told) continue;
    bool is_ready = p->is_hit && !group_is_broken_locked(n, p);
    p->is_new = !is_ready;
    if (is_ready) set_bit(y->vector, STATUS_BITS + p->position);
    if (!is_ready) has_new = true;
    if (!is_ready && p->position >= 0) {
      set_bit(y->dropped, p->position);
      has_other = true;
    }
  }
  bool wants_end = n->wants_end || n->has_stalled;
  weft_mutex_unlock(&n->mu);
  for (int i = 0; i < y->num_bits;
       i++) { /* of other process sets, or after this member has joined: zeros are given for it */
    const weft_named_request_t *r = weft_response_cache_at(n->cache, i, false);
    if (r != NULL && (weft_negotiator_index(n, r->process_set) < 0 ||
                      weft_negotiation_has_joined(n->negotiation, n->o.rank))) {
      set_bit(y->vector, STATUS_BITS + i);
    }
  }
  if (!wants_end) set_bit(y->vector, STATUS_END);
  if (!has_new) set_bit(y->vector, STATUS_NEW);
  if (!has_other) set_bit(y->vector, STATUS_OTHER);
}

/* y->vector := AND over all members (is_and), or y->dropped := OR. */
static weft_status_t *combine(weft_negotiator_t *n, negotiation_cycle_t *y, bool is_and) {
  uint64_t *words = is_and ? y->vector : y->dropped;
  size_t bytes = (size_t)y->num_words * sizeof *words;
  weft_tensor_t *all = NULL;
  WEFT_RETURN_IF_ERROR(tell(n, is_and ? KEY_VECTOR : KEY_DROPPED, WEFT_STR("negotiation of what is ready"),
                            words, bytes, true, &all));
  for (int r = 0; r < n->o.size; r++) {
    for (int i = 0; i < y->num_words; i++) {
      uint64_t theirs;
      memcpy(&theirs, (const char *)all->data + (size_t)r * bytes + (size_t)i * sizeof theirs, sizeof theirs);
      words[i] = is_and ? words[i] & theirs : words[i] | theirs;
    }
  }
  weft_tensor_release(all);
  return NULL;
}

/* This member's new requests: a length, then the list. */
static weft_status_t *list_requests(weft_negotiator_t *n, weft_strbuf_t *out) {
  weft_strbuf_t list = WEFT_STRBUF_INIT;
  weft_mutex_lock(&n->mu);
  for (weft_pending_t *p = n->queue; p != NULL; p = p->next) {
    if (p->is_told || !p->is_new) continue; /* what was submitted since classify() waits for the next cycle */
    weft_named_encode(&p->request, &list);
    p->is_told = true;
  }
  weft_mutex_unlock(&n->mu);
  uint64_t length = list.length;
  weft_strbuf_append(out, weft_str_of((const char *)&length, sizeof length));
  weft_strbuf_append(out, weft_str_of(list.data, list.length));
  bool failed = list.failed || out->failed;
  weft_strbuf_deinit(&list);
  return failed ? WEFT_NO_MEMORY("a list of requests") : NULL;
}

static weft_status_t *tell_requests(weft_negotiator_t *n) {
  weft_strbuf_t mine = WEFT_STRBUF_INIT;
  weft_tensor_t *all = NULL;
  weft_status_t *s = list_requests(n, &mine);
  if (s == NULL)
    s = tell(n, KEY_REQUESTS, WEFT_STR("negotiation of new requests"), mine.data, mine.length, false, &all);
  weft_strbuf_deinit(&mine);
  const char *at = s == NULL ? all->data : NULL;
  size_t left = s == NULL ? all->bytes : 0;
  for (int r = 0; s == NULL && r < n->o.size; r++) {
    uint64_t length = 0;
    if (left >= sizeof length) memcpy(&length, at, sizeof length);
    if (left < sizeof length || length > left - sizeof length) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "rank %d sent a list of requests that is cut off", r);
      break;
    }
    s = weft_negotiation_take(n->negotiation, r, weft_str_of(at + sizeof length, (size_t)length),
                              weft_clock_ns());
    at += sizeof length + length;
    left -= sizeof length + (size_t)length;
  }
  weft_tensor_release(all);
  return s;
}

static void drop_marked(weft_negotiator_t *n, negotiation_cycle_t *y) {
  for (int i = 0; i < y->num_bits; i++) {
    if (!has_bit(y->dropped, i)) continue;
    weft_response_cache_drop(n->cache, i);
    y->vector[(STATUS_BITS + i) / 64] &= ~((uint64_t)1 << ((STATUS_BITS + i) % 64));
  }
}

static weft_status_t *keep_new(weft_negotiator_t *n, const weft_named_response_t *responses, int num) {
  for (int i = 0; i < num; i++) {
    const weft_named_response_t *r = &responses[i];
    if (r->from_cache || r->error != NULL || r->request.kind == WEFT_NAMED_JOIN) continue;
    WEFT_RETURN_IF_ERROR(weft_response_cache_put(n->cache, &r->request));
  }
  return NULL;
}

/* Answers and carries out what all members have submitted. */
static weft_status_t *conclude(weft_negotiator_t *n, const negotiation_cycle_t *y) {
  const weft_named_response_t *responses = NULL;
  int num = 0;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < y->num_bits; i++) {
    const weft_named_request_t *r =
        has_bit(y->vector, STATUS_BITS + i) ? weft_response_cache_at(n->cache, i, true) : NULL;
    if (r != NULL) s = weft_negotiation_take_cached(n->negotiation, r);
  }
  if (s == NULL) s = weft_negotiation_answer(n->negotiation, &responses, &num);
  if (s == NULL) s = keep_new(n, responses, num);
  if (s == NULL) s = weft_negotiator_execute(n, responses, num);
  weft_negotiation_forget(n->negotiation);
  return s;
}

/* ---- stalls ---- */

static void note_late(void *arg, weft_str_t name, const int *missing, int num_missing, int64_t first_ns) {
  weft_negotiator_t *n = arg;
  double waited_s = (double)(weft_clock_ns() - first_ns) / 1e9;
  weft_name_list_t ranks = {0};
  for (int i = 0; i < num_missing; i++) weft_name_list_add(&ranks, "%d", missing[i]);
  weft_log(WEFT_LOG_WARNING, "'%.*s' has waited for %.1f s: these ranks have not asked for it: %s",
           WEFT_STR_ARGS(name), waited_s, weft_name_list_text(&ranks));
  if (n->o.on_stall != NULL) n->o.on_stall(n->o.on_stall_arg, name, missing, num_missing, waited_s);
}

static void note_too_late(void *arg, weft_str_t name, const int *missing, int num_missing, int64_t first_ns) {
  (void)name;
  (void)missing;
  (void)num_missing;
  (void)first_ns;
  ((weft_negotiator_t *)arg)->has_stalled = true;
}

static void note_stalled(void *arg, weft_str_t name, const int *missing, int num_missing, int64_t first_ns) {
  weft_negotiator_t *n = arg;
  (void)first_ns;
  weft_name_list_t ranks = {0};
  for (int i = 0; i < num_missing; i++) weft_name_list_add(&ranks, "%d", missing[i]);
  weft_name_list_add(&n->stalled, "'%.*s' waits for rank %s", WEFT_STR_ARGS(name),
                     weft_name_list_text(&ranks));
}

/* Rank 0 warns, four times per warning time. */
static void inspect(weft_negotiator_t *n, int64_t *next_warning_ns) {
  int64_t now = weft_clock_ns();
  if (n->o.rank == 0 && now >= *next_warning_ns) {
    weft_negotiation_each_late(n->negotiation, now - n->o.stall_warning_ms * 1000000, note_late, n);
    *next_warning_ns =
        now + n->o.stall_warning_ms * 1000000 / 4; /* a stall is reported within a quarter of the time */
  }
  if (n->o.stall_shutdown_ms > 0 && !n->has_stalled) {
    weft_negotiation_each_late(n->negotiation, now - n->o.stall_shutdown_ms * 1000000, note_too_late, n);
  }
}

/* ---- the thread ---- */

static weft_status_t *ended(weft_negotiator_t *n, bool wanted_here) {
  if (n->stalled.n > 0) {
    return WEFT_ERROR(ABORTED, "the negotiator has ended: it has waited for longer than %lld ms: %s",
                      (long long)n->o.stall_shutdown_ms, weft_name_list_text(&n->stalled));
  }
  return wanted_here ? WEFT_ERROR(ABORTED, "the negotiator has ended")
                     : WEFT_ERROR(ABORTED, "the negotiator has ended: another member has left");
}

static weft_status_t *run_cycle(weft_negotiator_t *n, negotiation_cycle_t *y) {
  classify(n, y);
  weft_mutex_lock(&n->mu);
  bool wanted_here = n->wants_end;
  n->stats.cycles++;
  n->stats.vector_bytes = y->num_words * (int64_t)sizeof *y->vector;
  weft_mutex_unlock(&n->mu);
  WEFT_RETURN_IF_ERROR(combine(n, y, true));
  if (!has_bit(y->vector, STATUS_END)) {
    if (n->o.stall_shutdown_ms >
        0) { /* on whichever rank it was noticed first: all report all that has waited about as long */
      weft_negotiation_each_late(n->negotiation, weft_clock_ns() - n->o.stall_shutdown_ms * 500000,
                                 note_stalled, n);
    }
    return ended(n, wanted_here);
  }
  if (!has_bit(y->vector, STATUS_OTHER)) {
    WEFT_RETURN_IF_ERROR(combine(n, y, false));
    drop_marked(n, y);
  }
  if (!has_bit(y->vector, STATUS_NEW)) {
    weft_mutex_lock(&n->mu);
    n->stats.slow_cycles++;
    weft_mutex_unlock(&n->mu);
    WEFT_RETURN_IF_ERROR(tell_requests(n));
  }
  return conclude(n, y);
}

static weft_status_t *cycle(weft_negotiator_t *n) {
  negotiation_cycle_t y = {.num_bits = weft_response_cache_num_bits(n->cache)};
  y.num_words = (y.num_bits + STATUS_BITS + 63) / 64;
  y.vector = weft_calloc((size_t)y.num_words, sizeof *y.vector);
  y.dropped = weft_calloc((size_t)y.num_words, sizeof *y.dropped);
  weft_status_t *s = y.vector == NULL || y.dropped == NULL ? WEFT_NO_MEMORY("a cycle") : run_cycle(n, &y);
  weft_free(y.vector);
  weft_free(y.dropped);
  n->cycle++;
  return s;
}

/* Consumes `why`. */
static void finish(weft_negotiator_t *n, weft_status_t *why) {
  weft_mutex_lock(&n->mu);
  n->is_over = true;
  n->failure = why;
  weft_pending_t *left = n->queue;
  n->queue = n->last = NULL;
  weft_mutex_unlock(&n->mu);
  for (weft_pending_t *next; left != NULL; left = next) {
    next = left->next;
    weft_pending_end(left, weft_status_clone(why), NULL);
  }
  weft_mutex_lock(&n->mu);
  weft_cond_broadcast(&n->ended);
  weft_mutex_unlock(&n->mu);
}

static void loop(void *arg) {
  weft_negotiator_t *n = arg;
  weft_status_t *why = NULL;
  int64_t next_ns = weft_clock_ns(), next_warning_ns = next_ns;
  while (why == NULL) {
    weft_mutex_lock(&n->mu);
    while (!n->wants_end && weft_cond_wait_until(&n->wake, &n->mu, next_ns)) {
    }
    weft_mutex_unlock(&n->mu);
    next_ns = weft_clock_ns() + n->o.cycle_us * 1000;
    why = cycle(n);
    if (why == NULL) inspect(n, &next_warning_ns);
  }
  finish(n, why);
}

/* ---- life ---- */

static weft_status_t *copy_options(weft_negotiator_t *n, const weft_negotiator_options_t *o) {
  n->o = *o;
  n->o.device = weft_arena_str(&n->arena, o->device);
  weft_process_set_t *sets = weft_arena_calloc(&n->arena, (size_t)o->num_sets + 1, sizeof *sets);
  bool ok = sets != NULL && n->o.device.data != NULL;
  for (int i = 0; ok && i < o->num_sets; i++) {
    int *ranks = weft_arena_calloc(&n->arena, (size_t)o->sets[i].n + 1, sizeof *ranks);
    ok = ranks != NULL;
    for (int k = 0; ok && k < o->sets[i].n; k++) ranks[k] = o->sets[i].ranks[k];
    sets[i] = (weft_process_set_t){ranks, o->sets[i].n};
  }
  n->o.sets = sets;
  if (n->o.cycle_us <= 0) n->o.cycle_us = 1000;
  if (n->o.fusion_bytes < 0) n->o.fusion_bytes = 128 << 20;
  if (n->o.cache_capacity < 0) n->o.cache_capacity = 1024;
  if (n->o.stall_warning_ms <= 0) n->o.stall_warning_ms = 60000;
  return ok ? NULL : WEFT_NO_MEMORY("a negotiator");
}

static weft_status_t *check_options(const weft_negotiator_options_t *o) {
  if (o->size < 1 || o->rank < 0 || o->rank >= o->size)
    return WEFT_ERROR(INVALID_ARGUMENT, "a negotiator of rank %d of %d", o->rank, o->size);
  for (int i = 0; i < o->num_sets; i++) {
    bool ok = o->sets[i].n > 0;
    for (int k = 0; ok && k < o->sets[i].n; k++) {
      int r = o->sets[i].ranks[k];
      ok = r >= 0 && r < o->size && (k == 0 || r > o->sets[i].ranks[k - 1]);
    }
    if (!ok)
      return WEFT_ERROR(INVALID_ARGUMENT, "process set %d must name ranks of 0..%d in ascending order", i + 1,
                        o->size - 1);
  }
  return NULL;
}

weft_status_t *weft_negotiator_create(const weft_negotiator_options_t *o, weft_negotiator_t **out) {
  WEFT_RETURN_IF_ERROR(check_options(o));
  weft_negotiator_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("a negotiator");
  weft_mutex_init(&n->mu);
  weft_cond_init(&n->wake);
  weft_cond_init(&n->ended);
  weft_status_t *s = copy_options(n, o);
  if (s == NULL) s = weft_negotiation_create(o->size, o->rank, n->o.sets, n->o.num_sets, &n->negotiation);
  if (s == NULL) s = weft_response_cache_create(n->o.cache_capacity, &n->cache);
  if (s == NULL && (n->canceller = weft_canceller_create(NULL)) == NULL) s = WEFT_NO_MEMORY("a negotiator");
  if (s == NULL) s = weft_thread_pool_create("weft-negotiate", 1, &n->thread);
  if (s == NULL && !weft_thread_pool_submit(n->thread, loop, n)) s = WEFT_NO_MEMORY("a negotiator");
  if (s != NULL) {
    n->is_over = true;
    weft_negotiator_destroy(n);
    return s;
  }
  *out = n;
  return NULL;
}

void weft_negotiator_destroy(weft_negotiator_t *n) {
  if (n == NULL) return;
  int64_t deadline = weft_clock_ns() + (int64_t)GOODBYE_MS * 1000000;
  weft_mutex_lock(&n->mu);
  n->wants_end = true;
  weft_cond_signal(&n->wake);
  while (!n->is_over && weft_cond_wait_until(&n->ended, &n->mu, deadline)) {
  }
  weft_mutex_unlock(&n->mu);
  if (n->canceller != NULL) weft_canceller_cancel(n->canceller);
  weft_thread_pool_destroy(n->thread); /* waits for the loop, which is over or cancelled */
  weft_negotiation_destroy(n->negotiation);
  weft_response_cache_destroy(n->cache);
  weft_canceller_release(n->canceller);
  weft_status_free(n->failure);
  weft_map_deinit(&n->by_hash);
  weft_cond_deinit(&n->wake);
  weft_cond_deinit(&n->ended);
  weft_mutex_deinit(&n->mu);
  weft_arena_deinit(&n->arena);
  weft_free(n);
}

bool weft_negotiator_is_over(weft_negotiator_t *n) {
  weft_mutex_lock(&n->mu);
  bool is_over = n->is_over;
  weft_mutex_unlock(&n->mu);
  return is_over;
}

void weft_negotiator_get_stats(weft_negotiator_t *n, weft_negotiator_stats_t *out) {
  weft_mutex_lock(&n->mu);
  *out = n->stats;
  weft_mutex_unlock(&n->mu);
}
