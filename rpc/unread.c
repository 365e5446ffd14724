/* rpc/unread.c - a list of peers with answers that wait, each with a list of them; a tick that looks for
 * those that stand still.
 *
 * The tick goes on as long as something waits. It ends the calls of a peer a few at a time: under `mu` it
 * takes references to them, and cancels without it, since gRPC calls back.
 *
 * Locking: `mu` is a leaf. An answer is in a list until weft_unread_remove(), which its call does before it
 * gives its reference to gRPC's call back: so those in a list can be referred to.
 */
#include "rpc/unread.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/str.h"
#include "base/timer.h"

enum { AT_ONCE = 64, MAX_NAME = 96 };

struct weft_unread_peer {
  weft_unread_peer_t *next;
  weft_unread_answer_t *answers;
  int64_t bytes, num;
  int64_t since_ns; /* when the first came, or one was taken last */
  char name[MAX_NAME];
};

struct weft_unread {
  weft_timer_t *timer;
  int64_t max_bytes, timeout_ms;
  weft_mutex_t mu;
  weft_unread_peer_t *peers; /* guarded by mu, as all below; those with answers: a handful */
  bool is_ticking;
};

weft_status_t *weft_unread_create(size_t max_bytes, int timeout_ms, weft_unread_t **out) {
  weft_unread_t *u = weft_calloc(1, sizeof *u);
  if (u == NULL) return WEFT_NO_MEMORY("a server");
  weft_status_t *s = weft_timer_create(&u->timer);
  if (s != NULL) {
    weft_free(u);
    return s;
  }
  const int64_t least = INT64_C(4) << 30, pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t quarter = pages > 0 && page > 0 ? pages / 4 * page : 0;
  u->max_bytes = max_bytes > 0 ? (int64_t)max_bytes : quarter > least ? quarter : least;
  u->timeout_ms = timeout_ms > 0 ? timeout_ms : WEFT_UNREAD_TIMEOUT_MS;
  weft_mutex_init(&u->mu);
  *out = u;
  return NULL;
}

void weft_unread_destroy(weft_unread_t *u) {
  if (u == NULL) return;
  weft_timer_destroy(u->timer);
  weft_mutex_deinit(&u->mu);
  weft_free(u);
}

/* ---- peers that stand still ---- */

static bool stands_still(const weft_unread_t *u, const weft_unread_peer_t *p, int64_t now) {
  return now - p->since_ns > (u->timeout_ms + p->bytes / (WEFT_UNREAD_RATE / 1000)) * 1000000;
}

/* Takes up to AT_ONCE calls that are to end, each with a reference; all of one peer, which is described. */
static int take_locked(weft_unread_t *u, int64_t now, grpc_call **out, weft_unread_peer_t *described)
    WEFT_REQUIRES(u->mu) {
  int n = 0;
  for (weft_unread_peer_t *p = u->peers; p != NULL && n == 0; p = p->next) {
    if (!stands_still(u, p, now)) continue;
    for (weft_unread_answer_t *a = p->answers; a != NULL && n < AT_ONCE; a = a->next) {
      if (a->is_ended) continue;
      a->is_ended = true;
      grpc_call_ref(a->call);
      out[n++] = a->call;
    }
    *described = *p;
  }
  return n;
}

static void tick(void *arg);

static void arm_locked(weft_unread_t *u) WEFT_REQUIRES(u->mu) {
  uint64_t id = 0;
  const int64_t wait_ms = u->timeout_ms < 4000 ? u->timeout_ms / 4 + 1 : 1000;
  weft_status_t *s = weft_timer_add(u->timer, weft_clock_deadline_ns(wait_ms), tick, u, &id);
  u->is_ticking = s == NULL;
  weft_status_free(s); /* the next answer tries again */
}

static void tick(void *arg) {
  weft_unread_t *u = arg;
  grpc_call *calls[AT_ONCE];
  weft_unread_peer_t peer = {.num = 0};
  const int64_t now = weft_clock_ns();
  for (int n = AT_ONCE; n == AT_ONCE;) {
    weft_mutex_lock(&u->mu);
    n = take_locked(u, now, calls, &peer);
    if (n < AT_ONCE) u->is_ticking = false;
    if (n < AT_ONCE && u->peers != NULL) arm_locked(u);
    weft_mutex_unlock(&u->mu);
    if (n == 0) break;
    char why[256];
    snprintf(why, sizeof why,
             "%" PRId64 " bytes of answers wait for %s, which has taken none for %" PRId64 " s", peer.bytes,
             peer.name, (now - peer.since_ns) / 1000000000);
    weft_log(WEFT_LOG_WARNING, "rpc: %s: %d of its %" PRId64 " calls end", why, n, peer.num);
    for (int i = 0; i < n; i++) {
      grpc_call_cancel_with_status(calls[i], GRPC_STATUS_UNAVAILABLE, why, NULL);
      grpc_call_unref(calls[i]);
    }
  }
}

/* ---- answers ---- */

static weft_unread_peer_t *find_locked(weft_unread_t *u, const char *name) WEFT_REQUIRES(u->mu) {
  weft_unread_peer_t *p = u->peers;
  while (p != NULL && strncmp(p->name, name, sizeof p->name - 1) != 0) p = p->next;
  return p;
}

weft_status_t *weft_unread_add(weft_unread_t *u, weft_unread_answer_t *a, grpc_call *call, const char *peer,
                               size_t bytes) {
  weft_unread_peer_t *spare = weft_calloc(1, sizeof *spare);
  if (spare == NULL) return WEFT_NO_MEMORY("answering %s", peer);
  weft_mutex_lock(&u->mu);
  weft_unread_peer_t *p = find_locked(u, peer);
  const int64_t waiting = p == NULL ? 0 : p->bytes;
  const bool fits = waiting == 0 || (bytes <= INT64_MAX / 2 && waiting + (int64_t)bytes <= u->max_bytes);
  if (fits && p == NULL) {
    p = spare;
    spare = NULL;
    snprintf(p->name, sizeof p->name, "%s", peer);
    p->since_ns = weft_clock_ns();
    p->next = u->peers;
    u->peers = p;
  }
  if (fits) {
    *a = (weft_unread_answer_t){.next = p->answers, .peer = p, .call = call, .bytes = bytes};
    if (p->answers != NULL) p->answers->prev = a;
    p->answers = a;
    p->bytes += (int64_t)bytes;
    p->num++;
    if (!u->is_ticking) arm_locked(u);
  }
  weft_mutex_unlock(&u->mu);
  weft_free(spare);
  if (fits) return NULL;
  return WEFT_ERROR(
      RESOURCE_EXHAUSTED,
      "%" PRId64
      " bytes of answers wait for %s, which reads too slowly; %zu more would be over the limit of %" PRId64,
      waiting, peer, bytes, u->max_bytes);
}

void weft_unread_remove(weft_unread_t *u, weft_unread_answer_t *a) {
  if (a->peer == NULL) return; /* it was added before, by the same call */
  weft_mutex_lock(&u->mu);
  weft_unread_peer_t *p = a->peer, **at = &u->peers, *gone = NULL;
  if (a->next != NULL) a->next->prev = a->prev;
  if (a->prev != NULL) a->prev->next = a->next;
  if (a->prev == NULL) p->answers = a->next;
  p->bytes -= (int64_t)a->bytes;
  p->since_ns = weft_clock_ns();
  if (--p->num == 0) {
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    gone = p;
  }
  a->peer = NULL;
  weft_mutex_unlock(&u->mu);
  weft_free(gone);
}
