/* collectives/run.c - runs a plan: starts what is ready, reduces what comes, ends with the first failure. */
#include "collectives/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/name_list.h"

enum {
  ON_THE_POOL = 64 << 10, /* bytes: less is done at once, a closure for it would cost as much */
  PIECE = 4096,           /* bytes: what comes unaligned is moved in such pieces */
  COUNTS = -1,
  SHOW_MS = 50,
  GRACE_MS =
      200, /* for answers to "have you come?": many round trips on any network, short beside any timeout */
};

weft_coll_run_t *weft_run_retain(weft_coll_run_t *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void free_scratch(weft_coll_run_t *r) {
  if (r->scratch != NULL)
    weft_cpu_allocator()->deallocate(weft_cpu_allocator(), r->scratch, r->plan->scratch_bytes);
  r->scratch = NULL;
}

void weft_run_release(weft_coll_run_t *r) {
  if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(r->canceller);
  weft_canceller_release(r->probe_canceller);
  weft_status_free(r->status);
  weft_group_release(r->group);
  weft_collective_plan_release(r->plan);
  weft_tensor_release(r->call.input);
  weft_tensor_release(r->output);
  weft_free(r->transfers);
  weft_free(r->extra);
  weft_free(r->ready);
  weft_free(r->pending);
  weft_free(r->answered);
  weft_arena_deinit(&r->arena);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

static weft_str_t run_text(const weft_coll_run_t *r) { return weft_str_of(r->run_text, r->run_length); }

void weft_collective_run_fail(weft_coll_run_t *r, weft_status_t *s, bool tells_peers) {
  weft_mutex_lock(&r->mu);
  const bool is_first = !r->has_failed && !r->is_finished;
  if (is_first) {
    r->has_failed = true;
    r->status = s;
    r->num_ready = 0;
  }
  const bool has_run = r->run_length > 0;
  weft_mutex_unlock(&r->mu);
  if (!is_first) {
    weft_status_free(s);
    return;
  }
  weft_status_t *why = weft_status_clone(s); /* `s` is the run's now */
  /* Elsewhere our being cancelled is an echo of something that somebody else will report. */
  if (weft_status_code(why) == WEFT_CANCELLED) why = weft_status_mark_derived(why);
  if (has_run)
    r->transport->ops->fail(r->transport, r->call.step_id, run_text(r), tells_peers ? r->group : NULL, why);
  weft_canceller_cancel(r->canceller);
  weft_status_free(why);
}

void weft_run_begin(weft_coll_run_t *r) {
  weft_run_retain(r);
  weft_mutex_lock(&r->mu);
  r->outstanding++;
  weft_mutex_unlock(&r->mu);
}

void weft_run_end(weft_coll_run_t *r, weft_status_t *s) {
  const bool is_left = weft_status_code(s) == WEFT_FAILED_PRECONDITION;
  if (s != NULL) weft_collective_run_fail(r, s, true);
  if (is_left) weft_run_explain(r);
  weft_mutex_lock(&r->mu);
  r->outstanding--;
  weft_mutex_unlock(&r->mu);
  weft_run_advance(r);
  weft_run_release(r);
}

static void action_ended(weft_coll_transfer_t *x, weft_status_t *s) {
  weft_coll_run_t *r = x->run;
  if (s == NULL) {
    const weft_action_t *a = &r->plan->actions[x->action];
    weft_mutex_lock(&r->mu);
    for (int i = 0; i < a->num_after; i++) {
      const int after = r->plan->after[a->first_after + i];
      if (--r->pending[after] == 0 && !r->has_failed) r->ready[r->num_ready++] = after;
    }
    weft_mutex_unlock(&r->mu);
  }
  weft_run_end(r, s);
}

static void on_transfer(void *arg, weft_status_t *s) { action_ended(arg, s); }

static char *at(const weft_coll_run_t *r, weft_region_t g) { return r->base[g.buffer] + g.at; }

static bool is_aligned(const weft_coll_run_t *r, const void *p) {
  const size_t alignment = r->element > 8 ? 8 : r->element;
  return (uintptr_t)p % alignment == 0;
}

/* Reduces n whole elements that lie anywhere. */
static void reduce_elements(weft_coll_transfer_t *x, const unsigned char *bytes, size_t n) {
  const weft_coll_run_t *r = x->run;
  const weft_action_t *a = &r->plan->actions[x->action];
  union {
    double aligned;
    unsigned char bytes[PIECE];
  } piece;
  while (n > 0) {
    size_t now = n;
    const void *from = bytes;
    if (!is_aligned(r, bytes)) {
      now = n < PIECE / r->element ? n : PIECE / r->element;
      memcpy(piece.bytes, bytes, now * r->element);
      from = piece.bytes;
    }
    char *to = at(r, a->to) + x->done * r->element;
    r->reduce(to, at(r, a->from) + x->done * r->element, from, now);
    if (a->is_final) r->divide(to, r->call.group_size, now);
    x->done += now;
    bytes += now * r->element;
    n -= now;
  }
}

/* What comes is cut anywhere: an element may come in two blocks. */
static void consume(void *arg, size_t offset, const void *block, size_t n) {
  (void)offset; /* in order: `done` and `carried` say the same */
  weft_coll_transfer_t *x = arg;
  const size_t element = x->run->element;
  const unsigned char *bytes = block;
  if (x->carried > 0) {
    const size_t rest = element - x->carried, take = n < rest ? n : rest;
    memcpy(x->carry + x->carried, bytes, take);
    x->carried += take;
    bytes += take;
    n -= take;
    if (x->carried < element) return;
    x->carried = 0;
    reduce_elements(x, x->carry, 1);
  }
  reduce_elements(x, bytes, n / element);
  x->carried = n % element;
  memcpy(x->carry, bytes + n - x->carried, x->carried);
}

/* "RUN/agreed source/what.field.source.destination" */
static weft_str_t key_of(const weft_coll_run_t *r, char *text, const char *what, int pass, int field,
                         int source, int destination) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s/%x/%s%x.%x.%x.%x", (int)r->run_length, r->run_text,
                         (unsigned)(r->agreed_source + 1), what, pass, field, source, destination);
  return weft_str_of(text, (size_t)n);
}

/* Signs of presence are runs of their own, one for each rank that shows itself: a rank that has ended takes
 * back its own, not what other ranks of its task still offer. */
static weft_str_t presence_of(const weft_coll_run_t *r, char *text, int rank) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s.h%x", (int)r->run_length, r->run_text, rank);
  return weft_str_of(text, (size_t)n);
}

static weft_str_t presence_key(const weft_coll_run_t *r, char *text, int source, int destination) {
  const int n = snprintf(text, WEFT_KEY_TEXT, "%.*s.h%x/%x/%x", (int)r->run_length, r->run_text, source,
                         (unsigned)(r->agreed_source + 1), destination);
  return weft_str_of(text, (size_t)n);
}

/* Who only gives, in a collective with a root, hears nothing from the others: it stays until it knows that
 * they took part. */
static bool only_gives(const weft_coll_run_t *r) {
  const weft_collective_kind_t k = r->call.kind;
  return k == WEFT_BROADCAST || k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_REDUCE;
}

static void offer(weft_coll_run_t *r, weft_str_t key, int peer, const void *data, size_t bytes, bool is_kept,
                  weft_transfer_done_fn *fn, void *arg) {
  const weft_group_member_t *to = &r->group->members[peer];
  r->transport->ops->offer(r->transport, r->call.step_id, key, to->task, to->device, data, bytes, is_kept, fn,
                           arg);
}

static weft_fetch_t fetch_from(const weft_coll_run_t *r, weft_str_t key, int peer, size_t bytes) {
  const weft_group_member_t *from = &r->group->members[peer];
  return (weft_fetch_t){.from_task = from->task,
                        .from_device = from->device,
                        .to_device = r->group->members[r->rank].device,
                        .step_id = r->call.step_id,
                        .key = key,
                        .bytes = bytes};
}

static void start_now(weft_coll_transfer_t *x) {
  weft_coll_run_t *r = x->run;
  const weft_action_t *a = &r->plan->actions[x->action];
  char text[WEFT_KEY_TEXT];
  switch (a->kind) {
    case WEFT_ACTION_SEND:
      offer(r, key_of(r, text, "", a->pass, a->field, r->rank, a->peer), a->peer,
            a->from.bytes == 0 ? NULL : at(r, a->from), a->from.bytes, only_gives(r), on_transfer, x);
      return;
    case WEFT_ACTION_RECV:
    case WEFT_ACTION_RECV_REDUCE: {
      weft_fetch_t f =
          fetch_from(r, key_of(r, text, "", a->pass, a->field, a->peer, r->rank), a->peer, a->to.bytes);
      if (a->kind == WEFT_ACTION_RECV && a->to.bytes > 0) f.to = at(r, a->to);
      if (a->kind == WEFT_ACTION_RECV_REDUCE) f.consume = consume;
      f.consume_arg = x;
      r->transport->ops->fetch(r->transport, &f, r->canceller, on_transfer, x);
      return;
    }
    case WEFT_ACTION_COPY: memcpy(at(r, a->to), at(r, a->from), a->to.bytes); break;
    case WEFT_ACTION_REDUCE:
      r->reduce(at(r, a->to), at(r, a->from), at(r, a->other), a->to.bytes / r->element);
      if (a->is_final) r->divide(at(r, a->to), r->call.group_size, a->to.bytes / r->element);
      break;
    case WEFT_ACTION_ZERO: memset(at(r, a->to), 0, a->to.bytes); break;
  }
  action_ended(x, NULL);
}

static void start_on_pool(void *arg) { start_now(arg); }

static void start(weft_coll_run_t *r, int action) {
  const weft_action_t *a = &r->plan->actions[action];
  weft_coll_transfer_t *x = &r->transfers[action];
  weft_run_retain(r); /* given back by weft_run_end() */
  const bool is_large = a->kind != WEFT_ACTION_SEND && a->to.bytes >= ON_THE_POOL;
  if (!is_large || r->pool == NULL || !weft_thread_pool_submit(r->pool, start_on_pool, x)) start_now(x);
}

weft_status_t *weft_run_start_actions(weft_coll_run_t *r) {
  const size_t n = (size_t)r->plan->num_actions;
  r->transfers = weft_calloc(n + 1, sizeof *r->transfers);
  r->ready = weft_calloc(n + 1, sizeof *r->ready);
  r->pending = weft_calloc(n + 1, sizeof *r->pending);
  if (r->transfers == NULL || r->ready == NULL || r->pending == NULL) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(r->call.name));
  }
  for (size_t i = 0; i < n; i++) {
    r->transfers[i] = (weft_coll_transfer_t){.run = r, .action = (int)i};
    r->pending[i] = r->plan->actions[i].num_before;
  }
  weft_mutex_lock(&r->mu);
  for (int i = (int)n - 1; i >= 0 && !r->has_failed; i--) { /* the first on top */
    if (r->pending[i] == 0) r->ready[r->num_ready++] = i;
  }
  weft_mutex_unlock(&r->mu);
  return NULL;
}

static void finish(weft_coll_run_t *r) {
  if (r->has_cancel && weft_canceller_try_deregister(r->canceller, r->cancel_token)) weft_run_release(r);
  weft_mutex_lock(&r->mu);
  const bool has_timer = r->has_timer;
  const uint64_t id = r->timer_id;
  r->has_timer = false;
  weft_status_t *s = r->status;
  r->status = NULL;
  weft_tensor_t *output = s == NULL ? r->output : NULL;
  if (s == NULL) r->output = NULL;
  weft_mutex_unlock(&r->mu);
  if (has_timer && weft_timer_remove(r->timer, id)) weft_run_release(r);
  weft_run_retain(r);
  if (s != NULL && weft_status_code(s) != WEFT_INVALID_ARGUMENT) weft_run_forget_group(r);
  weft_collective_done_fn *done = r->done;
  void *arg = r->arg;
  weft_tensor_release(r->output); /* of a failure: nothing of the run is left when its caller hears of it */
  r->output = NULL;
  weft_tensor_release(r->call.input);
  r->call.input = NULL;
  free_scratch(r);
  done(arg, s, output);
  weft_run_finished(r);
  weft_run_release(r);
}

/* Ends the signs of presence, which nobody has asked for. */
static void hide_presence(weft_coll_run_t *r) {
  char text[WEFT_KEY_TEXT];
  weft_status_t *why = WEFT_ERROR(ABORTED, "the collective has ended here");
  r->transport->ops->fail(r->transport, r->call.step_id, presence_of(r, text, r->rank), NULL, why);
  weft_status_free(why);
}

void weft_run_advance(weft_coll_run_t *r) {
  bool ends = false, hides = false;
  weft_mutex_lock(&r->mu);
  if (r->is_draining || r->is_finished) {
    weft_mutex_unlock(&r->mu);
    return;
  }
  r->is_draining = true;
  for (;;) {
    if (r->num_ready > 0) {
      const int action = r->ready[--r->num_ready];
      r->outstanding++;
      weft_mutex_unlock(&r->mu);
      start(r, action);
      weft_mutex_lock(&r->mu);
      continue;
    }
    if (r->outstanding > 0) break;
    if (r->has_failed || r->stage == WEFT_RUN_STAGES) {
      if (r->num_present > 0 && !hides) {
        hides = true;
        weft_mutex_unlock(&r->mu);
        hide_presence(r);
        weft_mutex_lock(&r->mu);
        continue;
      }
      ends = r->num_present == 0;
      break;
    }
    const int stage = r->stage++;
    r->outstanding++;
    weft_mutex_unlock(&r->mu);
    weft_status_t *s = weft_run_stage(r, stage);
    if (s != NULL) weft_collective_run_fail(r, s, true);
    weft_mutex_lock(&r->mu);
    r->outstanding--;
  }
  r->is_draining = false;
  r->is_finished = ends;
  weft_mutex_unlock(&r->mu);
  if (ends) finish(r);
}

/* ---- beside the plan: counts, and who has come ---- */

static weft_status_t *make_extra(weft_coll_run_t *r) {
  if (r->extra != NULL) return NULL;
  const size_t n = (size_t)r->group->size;
  r->extra = weft_calloc(4 * n, sizeof *r->extra);
  r->answered = weft_calloc(n, 1);
  if (r->extra == NULL || r->answered == NULL)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "collective %.*s", WEFT_STR_ARGS(r->call.name));
  for (size_t i = 0; i < 4 * n; i++)
    r->extra[i] = (weft_coll_transfer_t){.run = r, .action = COUNTS, .peer = (int)(i % n)};
  return NULL;
}

static void on_count(void *arg, weft_status_t *s) { weft_run_end(((weft_coll_transfer_t *)arg)->run, s); }

void weft_run_exchange(weft_coll_run_t *r, const void *out, void *in, size_t bytes) {
  weft_status_t *s = make_extra(r);
  if (s != NULL) {
    weft_collective_run_fail(r, s, true);
    return;
  }
  const int n = r->group->size;
  char text[WEFT_KEY_TEXT];
  for (int i = 1; i < n; i++) {
    const int to = (r->rank + i) % n, from = (r->rank - i + n) % n;
    weft_run_begin(r);
    offer(r, key_of(r, text, "n", 0, 0, r->rank, to), to, (const char *)out + (size_t)to * bytes, bytes,
          false, on_count, &r->extra[to]);
    weft_fetch_t f = fetch_from(r, key_of(r, text, "n", 0, 0, from, r->rank), from, bytes);
    f.to = (char *)in + (size_t)from * bytes;
    f.is_control = true;
    weft_run_begin(r);
    r->transport->ops->fetch(r->transport, &f, r->canceller, on_count, &r->extra[n + from]);
  }
}

static void on_presence(void *arg, weft_status_t *s) {
  weft_coll_transfer_t *x = arg;
  weft_coll_run_t *r = x->run;
  weft_status_free(s);
  weft_mutex_lock(&r->mu);
  r->num_present--;
  weft_mutex_unlock(&r->mu);
  weft_run_advance(r);
  weft_run_release(r);
}

/* Offers a sign of presence to all others, so that they can find out who has not come. */
static void show_presence(weft_coll_run_t *r) {
  weft_status_t *s = make_extra(r);
  const int n = r->group->size;
  char text[WEFT_KEY_TEXT];
  for (int i = 0; i < n && s == NULL; i++) {
    if (i == r->rank) continue;
    weft_run_retain(r);
    weft_mutex_lock(&r->mu);
    r->num_present++;
    weft_mutex_unlock(&r->mu);
    offer(r, presence_key(r, text, r->rank, i), i, NULL, 0, false, on_presence, &r->extra[2 * n + i]);
  }
  if (s != NULL) weft_collective_run_fail(r, s, true);
}

static void on_answer(void *arg, weft_status_t *s) {
  weft_coll_transfer_t *x = arg;
  weft_coll_run_t *r = x->run;
  weft_mutex_lock(&r->mu);
  /* Any answer but our own giving up shows that somebody is there. */
  r->answered[x->peer] = weft_status_code(s) != WEFT_CANCELLED && weft_status_code(s) != WEFT_UNAVAILABLE;
  weft_mutex_unlock(&r->mu);
  weft_status_free(s);
  weft_run_end(r, NULL);
}

/* Asks everybody whether they have come; the timer's next call reads the answers. */
static void ask_for_presence(weft_coll_run_t *r) {
  const int n = r->group->size;
  char text[WEFT_KEY_TEXT];
  weft_mutex_lock(&r->mu);
  r->is_probing = r->extra != NULL;
  if (r->is_probing) r->answered[r->rank] = 1;
  weft_mutex_unlock(&r->mu);
  for (int i = 0; i < n && r->extra != NULL; i++) {
    if (i == r->rank) continue;
    weft_fetch_t f = fetch_from(r, presence_key(r, text, i, r->rank), i, 0);
    f.is_control = true;
    weft_run_begin(r);
    r->transport->ops->fetch(r->transport, &f, r->probe_canceller, on_answer, &r->extra[3 * n + i]);
  }
}

/* Who is here longer than this shows itself: well within the grace, so that who comes last is not taken for
 * missing, and so late that a collective that goes well never does. */
static int64_t first_part(const weft_coll_run_t *r) {
  const int64_t half = r->call.timeout_ms / 2;
  return half < SHOW_MS ? half : SHOW_MS;
}

static weft_status_t *too_late(weft_coll_run_t *r) {
  weft_name_list_t missing = {0};
  weft_mutex_lock(&r->mu);
  for (int i = 0; r->is_probing && i < r->group->size; i++) {
    if (!r->answered[i])
      weft_name_list_add(&missing, "%d (%.*s)", i, WEFT_STR_ARGS(r->group->members[i].device));
  }
  weft_mutex_unlock(&r->mu);
  weft_status_t *s = WEFT_ERROR(
      DEADLINE_EXCEEDED,
      "Collective has timed out waiting for other workers. %.*s (group_key=%lld, instance_key=%lld, step "
      "%lld) has taken more than %lld ms%s%s",
      WEFT_STR_ARGS(r->call.name), (long long)r->call.group_key, (long long)r->call.instance_key,
      (long long)r->call.step_id, (long long)r->call.timeout_ms,
      missing.n > 0 ? "; these ranks have not joined: " : "", weft_name_list_text(&missing));
  return s;
}

/* The time of one part of the timeout is over. */
static void late(void *arg) { /* holds the timer's reference */
  weft_coll_run_t *r = arg;
  weft_mutex_lock(&r->mu);
  const bool goes_on = !r->has_failed && !r->is_finished;
  const weft_patience_t part = r->patience;
  if (goes_on) r->outstanding++; /* nothing ends while we are at it */
  weft_mutex_unlock(&r->mu);
  if (goes_on) {
    weft_run_retain(r);
    weft_status_t *s = NULL;
    if (part == WEFT_PATIENCE_FIRST) {
      show_presence(r);
      s = weft_run_set_timeout(r, WEFT_PATIENCE_REST, r->call.timeout_ms - first_part(r));
    } else if (part == WEFT_PATIENCE_REST) {
      ask_for_presence(r);
      s = weft_run_set_timeout(r, WEFT_PATIENCE_GRACE, GRACE_MS);
    } else {
      s = too_late(r);
      weft_canceller_cancel(r->probe_canceller);
    }
    weft_run_end(r, s);
  }
  weft_run_release(r);
}

static void on_timeout(
    void *arg) { /* the timer's thread serves everybody: the work goes elsewhere if it can */
  weft_coll_run_t *r = arg;
  weft_mutex_lock(&r->mu);
  r->has_timer = false;
  weft_mutex_unlock(&r->mu);
  if (r->pool == NULL || !weft_thread_pool_submit(r->pool, late, r)) late(r);
}

weft_status_t *weft_run_set_timeout(weft_coll_run_t *r, weft_patience_t part, int64_t ms) {
  weft_mutex_lock(&r->mu);
  const bool had = r->has_timer;
  const uint64_t old = r->timer_id;
  r->has_timer = false;
  weft_mutex_unlock(&r->mu);
  if (had && weft_timer_remove(r->timer, old)) weft_run_release(r);
  weft_run_retain(r);
  weft_mutex_lock(&r->mu); /* held, so that the timer's thread cannot clear what is not yet set */
  weft_status_t *s = weft_timer_add(r->timer, weft_clock_deadline_ns(ms), on_timeout, r, &r->timer_id);
  r->has_timer = s == NULL;
  r->patience = part;
  weft_mutex_unlock(&r->mu);
  if (s != NULL) weft_run_release(r);
  return s;
}

weft_status_t *weft_run_expect_others(weft_coll_run_t *r) {
  return weft_run_set_timeout(r, WEFT_PATIENCE_FIRST, first_part(r));
}
