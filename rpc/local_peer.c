/* rpc/local_peer.c - a server's name, and the connections to it.
 *
 * Locking: `mu` is a leaf. A thread that waits is in the list of waits from before its call until its end, so
 * that it can be ended; its connection is closed outside the list only.
 */
#include "rpc/local_peer.h"

#include "base/alloc.h"
#include "base/clock.h"

enum {
  ANSWERS_BEFORE_NAME = 4, /* a command that calls once or twice gains nothing */
  KEPT_WAITERS = 8         /* threads that wait at once, in the usual program */
};

typedef enum nearness { UNKNOWN, ASKING, NEAR, FAR } nearness_t;

/* A thread that waits for its call; on its stack. */
typedef struct local_wait {
  weft_local_peer_t *peer;
  struct local_wait *prev, *next; /* guarded by mu, as all below */
  weft_local_waiter_t *waiter;
  int64_t started_ns;
  bool is_cancelled, is_ended;
} local_wait_t;

struct weft_local_peer {
  _Atomic(nearness_t) nearness; /* changes under mu */
  atomic_int num_answers;       /* over gRPC, while it is unknown */
  weft_mutex_t mu;
  char *name;                /* owned; guarded by mu, as all below; NULL unless near */
  bool was_reached;          /* at that name */
  weft_local_calls_t *calls; /* owned; NULL: not open */
  weft_local_waiter_t *kept[KEPT_WAITERS];
  int num_kept;
  local_wait_t *waits;
  weft_status_t *ended_by; /* owned; what weft_local_peer_end() last said */
};

weft_status_t *weft_local_peer_create(weft_local_peer_t **out) {
  weft_local_peer_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("a channel");
  weft_mutex_init(&p->mu);
  *out = p;
  return NULL;
}

/* ---- what is known ---- */

bool weft_local_peer_is_near(weft_local_peer_t *p) {
  return atomic_load_explicit(&p->nearness, memory_order_relaxed) == NEAR;
}

bool weft_local_peer_wants_name(weft_local_peer_t *p) {
  if (atomic_load_explicit(&p->nearness, memory_order_relaxed) != UNKNOWN) return false;
  if (atomic_fetch_add(&p->num_answers, 1) + 1 < ANSWERS_BEFORE_NAME) return false;
  nearness_t unknown = UNKNOWN;
  return atomic_compare_exchange_strong(&p->nearness, &unknown, ASKING);
}

/* Forgets the name, and closes what no call uses. A name that was never reached is one of another network
 * namespace: the server is as far as one of another host. */
static void forget(weft_local_peer_t *p) {
  weft_local_waiter_t *kept[KEPT_WAITERS];
  weft_mutex_lock(&p->mu);
  const int num_kept = p->num_kept;
  memcpy(kept, p->kept, sizeof kept);
  p->num_kept = 0;
  weft_free(p->name);
  p->name = NULL;
  atomic_store(&p->num_answers, 0);
  atomic_store(&p->nearness, p->was_reached ? UNKNOWN : FAR);
  weft_mutex_unlock(&p->mu);
  for (int i = 0; i < num_kept; i++) weft_local_waiter_close(kept[i]);
}

void weft_local_peer_destroy(weft_local_peer_t *p) {
  if (p == NULL) return;
  forget(p);
  weft_local_calls_close(p->calls);
  weft_local_calls_release(p->calls);
  weft_status_free(p->ended_by);
  weft_mutex_deinit(&p->mu);
  weft_free(p);
}

void weft_local_peer_lost(weft_local_peer_t *p) {
  if (atomic_load_explicit(&p->nearness, memory_order_relaxed) != FAR) return;
  nearness_t far = FAR;
  atomic_store(&p->num_answers, 0);
  (void)atomic_compare_exchange_strong(&p->nearness, &far, UNKNOWN);
}

void weft_local_peer_named(weft_local_peer_t *p, weft_str_t name) {
  char *copy = name.length == 0 ? NULL : weft_strndup(name.data, name.length);
  weft_mutex_lock(&p->mu);
  weft_free(p->name);
  p->name = copy;
  p->was_reached = false;
  atomic_store(&p->nearness, copy == NULL ? FAR : NEAR);
  weft_mutex_unlock(&p->mu);
}

/* ---- calls that are told of their end ---- */

/* The open connection, retained, or NULL. */
static weft_local_calls_t *open_calls(weft_local_peer_t *p, weft_local_loop_t *loop, bool *is_gone) {
  weft_local_calls_t *over = NULL;
  weft_mutex_lock(&p->mu);
  if (p->calls != NULL && weft_local_calls_are_over(p->calls)) {
    over = p->calls;
    p->calls = NULL;
  }
  if (p->calls == NULL && p->name != NULL) p->calls = weft_local_calls_open(loop, weft_str(p->name), is_gone);
  weft_local_calls_t *calls = p->calls == NULL ? NULL : weft_local_calls_retain(p->calls);
  if (calls != NULL) p->was_reached = true;
  weft_mutex_unlock(&p->mu);
  weft_local_calls_release(over);
  return calls;
}

bool weft_local_peer_start(weft_local_peer_t *p, weft_local_loop_t *loop, const char *path,
                           weft_message_t *request, weft_canceller_t *canceller, weft_local_call_t *call) {
  bool is_gone = false;
  weft_local_calls_t *calls = open_calls(p, loop, &is_gone);
  const bool ok = calls != NULL && weft_local_calls_start(calls, path, request, canceller, call);
  weft_local_calls_release(calls);
  if (is_gone) forget(p);
  return ok;
}

void weft_local_peer_expect_more(weft_local_peer_t *p) {
  weft_mutex_lock(&p->mu);
  if (p->calls != NULL) weft_local_calls_expect_more(p->calls);
  weft_mutex_unlock(&p->mu);
}

/* ---- calls that are waited for ---- */

/* A connection that was kept, or NULL. */
static weft_local_waiter_t *take_kept(weft_local_peer_t *p) {
  weft_mutex_lock(&p->mu);
  weft_local_waiter_t *w = p->num_kept > 0 ? p->kept[--p->num_kept] : NULL;
  weft_mutex_unlock(&p->mu);
  return w;
}

static weft_local_waiter_t *open_waiter(weft_local_peer_t *p) {
  char name[64] = "";
  bool is_gone = false;
  for (weft_local_waiter_t *w; (w = take_kept(p)) != NULL; weft_local_waiter_close(w)) {
    if (!weft_local_waiter_is_over(w)) return w;
  }
  weft_mutex_lock(&p->mu);
  if (p->name != NULL && strlen(p->name) < sizeof name) memcpy(name, p->name, strlen(p->name) + 1);
  weft_mutex_unlock(&p->mu);
  weft_local_waiter_t *made = name[0] == '\0' ? NULL : weft_local_waiter_open(weft_str(name), &is_gone);
  if (is_gone) forget(p);
  return made;
}

static void keep_waiter(weft_local_peer_t *p, weft_local_waiter_t *w) {
  weft_mutex_lock(&p->mu);
  const bool keeps = p->num_kept < KEPT_WAITERS && p->name != NULL;
  p->was_reached = true;
  if (keeps) p->kept[p->num_kept++] = w;
  weft_mutex_unlock(&p->mu);
  if (!keeps) weft_local_waiter_close(w);
}

static void link_wait(local_wait_t *w) {
  weft_local_peer_t *p = w->peer;
  weft_mutex_lock(&p->mu);
  w->next = p->waits;
  if (w->next != NULL) w->next->prev = w;
  p->waits = w;
  weft_mutex_unlock(&p->mu);
}

/* After it no other thread touches the wait, but its canceller. */
static weft_status_t *unlink_wait(local_wait_t *w) {
  weft_local_peer_t *p = w->peer;
  weft_mutex_lock(&p->mu);
  if (w->prev != NULL) w->prev->next = w->next;
  if (w->prev == NULL) p->waits = w->next;
  if (w->next != NULL) w->next->prev = w->prev;
  weft_status_t *why = w->is_ended ? weft_status_clone(p->ended_by) : NULL;
  weft_mutex_unlock(&p->mu);
  return why;
}

static void cancel_wait(void *arg) {
  local_wait_t *w = arg; /* lives: its thread waits for us */
  weft_mutex_lock(&w->peer->mu);
  w->is_cancelled = true;
  weft_mutex_unlock(&w->peer->mu);
  weft_local_waiter_break(w->waiter);
}

void weft_local_peer_end(weft_local_peer_t *p, const weft_status_t *why, int64_t before_ns) {
  weft_status_t *copy = weft_status_clone(why);
  weft_mutex_lock(&p->mu);
  weft_status_t *old = p->ended_by;
  p->ended_by = copy;
  for (local_wait_t *w = p->waits; w != NULL; w = w->next) {
    if (w->started_ns > before_ns) continue;
    w->is_ended = true;
    weft_local_waiter_break(w->waiter); /* which does not wait */
  }
  weft_local_calls_t *calls = p->calls == NULL ? NULL : weft_local_calls_retain(p->calls);
  weft_mutex_unlock(&p->mu);
  weft_status_free(old);
  if (calls != NULL) weft_local_calls_end(calls, why, before_ns);
  weft_local_calls_release(calls);
}

bool weft_local_peer_wait(weft_local_peer_t *p, const char *path, weft_message_t *request,
                          weft_canceller_t *canceller, weft_local_reply_t *out) {
  weft_local_waiter_t *waiter = open_waiter(p);
  if (waiter == NULL) return false;
  local_wait_t w = {.peer = p, .waiter = waiter, .started_ns = weft_clock_ns()};
  uint64_t token = 0;
  link_wait(&w);
  if (!weft_canceller_register(canceller, cancel_wait, &w, &token)) {
    *out = (weft_local_reply_t){.outcome = WEFT_LOCAL_CANCELLED};
    if (!weft_canceller_is_cancelled(canceller))
      *out = (weft_local_reply_t){.outcome = WEFT_LOCAL_FAILED, .status = WEFT_NO_MEMORY("calling %s", path)};
    weft_status_free(unlink_wait(&w));
    keep_waiter(p, waiter);
    return true;
  }
  weft_local_waiter_call(waiter, path, request, out);
  weft_canceller_deregister(canceller, token);
  weft_status_t *ended_by = unlink_wait(&w);
  const bool has_lost = out->outcome == WEFT_LOCAL_LOST || out->outcome == WEFT_LOCAL_SILENT;
  if (has_lost && w.is_cancelled) {
    out->outcome = WEFT_LOCAL_CANCELLED;
  } else if (has_lost && ended_by != NULL) {
    out->outcome = WEFT_LOCAL_ENDED;
    out->status = ended_by;
    ended_by = NULL;
  }
  weft_status_free(ended_by);
  if (has_lost || w.is_cancelled || w.is_ended) {
    weft_local_waiter_close(waiter);
  } else {
    keep_waiter(p, waiter);
  }
  return true;
}
