/* master/clients.c - a table of clients, the calls that hold them, and one timer for those that are away.
 *
 * Locking: `mu` is a leaf. The function that takes a hold out of its client, under `mu`, ends its call:
 * broken() when the call was cancelled, or the one that stops or replaces it, which first takes broken() off
 * the canceller and so waits for it.
 */
#include "master/clients.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/log.h"
#include "base/mutex.h"

enum { MAX_ID = 200, MAX_PEER = 100, MAX_DESCRIPTION = MAX_ID + MAX_PEER + 8 };

typedef struct hold {
  weft_clients_t *clients;
  weft_canceller_t *call; /* retained */
  uint64_t token;
  weft_done_fn *fn;
  void *arg;
  bool is_broken; /* guarded by mu */
  char id[MAX_ID];
} hold_t;

typedef struct client {
  char id[MAX_ID], peer[MAX_PEER]; /* peer: as of the last hold; "" before */
  uint64_t life;
  int num_sessions;
  hold_t *hold; /* owned; NULL: away */
  int64_t away_since_ns,
      away_since_micros; /* on the clocks of weft_clock_ns and weft_clock_micros; while away */
} client_t;

struct weft_clients {
  weft_timer_t *timer;
  int64_t grace_ms;
  weft_client_gone_fn *fn;
  void *arg;
  weft_mutex_t mu;
  weft_map_t by_id;   /* guarded by mu: id -> client_t, owned */
  uint64_t num_lives; /* guarded by mu: of all clients so far */
  bool has_timer;     /* guarded by mu: check() will run */
  uint64_t timer_id;  /* guarded by mu: of the last check; 0: there was none */
  bool stopped;       /* guarded by mu */
};

static weft_status_t *check_id(weft_str_t id) {
  bool ok = id.length > 0 && id.length < MAX_ID;
  for (size_t i = 0; ok && i < id.length; i++) ok = id.data[i] >= ' ' && id.data[i] <= '~';
  return ok ? NULL
            : WEFT_ERROR(INVALID_ARGUMENT, "a client's id has 1 to %d printable characters", MAX_ID - 1);
}

/* What is printed later comes from outside. */
static void copy_printable(weft_str_t from, char *to, size_t size) {
  size_t n = from.length < size - 1 ? from.length : size - 1;
  for (size_t i = 0; i < n; i++) to[i] = from.data[i] >= ' ' && from.data[i] <= '~' ? from.data[i] : '?';
  to[n] = '\0';
}

static client_t *find_locked(weft_clients_t *c, const char *id) WEFT_REQUIRES(c->mu) {
  return weft_map_get(&c->by_id, weft_str(id));
}

/* Finds the client, or makes one that is away since now of `fresh`, which then is NULL. */
static weft_status_t *find_or_add_locked(weft_clients_t *c, client_t **fresh, client_t **out)
    WEFT_REQUIRES(c->mu) {
  *out = find_locked(c, (*fresh)->id);
  if (*out != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put(&c->by_id, weft_str((*fresh)->id), *fresh, NULL));
  *out = *fresh;
  (*out)->life = ++c->num_lives;
  *fresh = NULL;
  return NULL;
}

static weft_status_t *make_client(weft_str_t id, client_t **out) {
  WEFT_RETURN_IF_ERROR(check_id(id));
  client_t *made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("a client");
  copy_printable(id, made->id, sizeof made->id);
  made->away_since_ns = weft_clock_ns();
  made->away_since_micros = weft_clock_micros();
  *out = made;
  return NULL;
}

/* ---- those that do not come back ---- */

static void check(void *arg);

/* When the first that is away now will be gone; INT64_MAX: none is away. */
static int64_t next_due_locked(weft_clients_t *c) WEFT_REQUIRES(c->mu) {
  weft_map_entry_t e;
  int64_t due = INT64_MAX;
  for (size_t at = 0; c->grace_ms >= 0 && weft_map_next(&c->by_id, &at, &e);) {
    const client_t *one = e.value;
    int64_t its = one->away_since_ns + c->grace_ms * 1000000;
    if (one->hold == NULL && its < due) due = its;
  }
  return due;
}

/* If a client is away and no timer runs. */
static void add_timer(weft_clients_t *c) {
  uint64_t id = 0;
  weft_mutex_lock(&c->mu);
  int64_t due = c->has_timer || c->stopped ? INT64_MAX : next_due_locked(c);
  if (due != INT64_MAX) c->has_timer = true;
  weft_mutex_unlock(&c->mu);
  if (due == INT64_MAX) return;
  weft_status_t *s = weft_timer_add(c->timer, due, check, c, &id);
  weft_mutex_lock(&c->mu);
  if (s == NULL) c->timer_id = id;
  if (s != NULL) c->has_timer = false;
  weft_mutex_unlock(&c->mu);
  if (s != NULL) weft_log_status(WEFT_LOG_ERROR, "sessions of clients that are gone are not closed", s);
}

static client_t *take_gone_locked(weft_clients_t *c) WEFT_REQUIRES(c->mu) {
  weft_map_entry_t e;
  int64_t since = weft_clock_ns() - c->grace_ms * 1000000;
  for (size_t at = 0; !c->stopped && weft_map_next(&c->by_id, &at, &e);) {
    client_t *one = e.value;
    if (one->hold == NULL && one->away_since_ns <= since) return weft_map_remove(&c->by_id, e.key);
  }
  return NULL;
}

static void describe(const client_t *one, char *out, size_t size) {
  snprintf(out, size, "%s%s%s", one->id, one->peer[0] == '\0' ? "" : " at ", one->peer);
}

static void check(void *arg) {
  weft_clients_t *c = arg;
  for (;;) {
    weft_mutex_lock(&c->mu);
    client_t *one = take_gone_locked(c);
    if (one == NULL) c->has_timer = false;
    weft_mutex_unlock(&c->mu);
    if (one == NULL) break;
    char client[MAX_DESCRIPTION], why[sizeof client + 100], since[WEFT_CLOCK_TEXT];
    describe(one, client, sizeof client);
    weft_clock_print(one->away_since_micros, since);
    snprintf(why, sizeof why, "its client, %s, is gone since %s", client, since);
    c->fn(c->arg, one->life, why);
    weft_free(one);
  }
  add_timer(c);
}

/* ---- holds ---- */

/* The hold is no client's any more. */
static void end_hold(hold_t *h, weft_status_t *why) {
  h->fn(h->arg, why);
  weft_canceller_release(h->call);
  weft_free(h);
}

/* Takes the hold out of its client, which is away from now on, or forgotten if it has no sessions. False:
 * another did. */
static bool let_go(hold_t *h, char *client, size_t size, int *num_sessions) {
  weft_clients_t *c = h->clients;
  client_t *forgotten = NULL;
  weft_mutex_lock(&c->mu);
  h->is_broken = true;
  client_t *one = find_locked(c, h->id);
  bool is_mine = one != NULL && one->hold == h;
  if (is_mine) {
    one->hold = NULL;
    one->away_since_ns = weft_clock_ns();
    one->away_since_micros = weft_clock_micros();
    *num_sessions = one->num_sessions;
    describe(one, client, size);
    if (one->num_sessions == 0) forgotten = weft_map_remove(&c->by_id, weft_str(one->id));
  }
  weft_mutex_unlock(&c->mu);
  weft_free(forgotten);
  return is_mine;
}

/* On the canceller's thread. */
static void broken(void *arg) {
  hold_t *h = arg;
  weft_clients_t *c = h->clients;
  char client[MAX_DESCRIPTION];
  int num_sessions = 0;
  if (!let_go(h, client, sizeof client, &num_sessions)) return;
  if (num_sessions > 0) {
    weft_log(WEFT_LOG_WARNING, "lost the connection of client %s, which has %d session%s", client,
             num_sessions, num_sessions == 1 ? "" : "s");
    add_timer(c);
  }
  end_hold(h, WEFT_ERROR(CANCELLED, "the call was cancelled"));
}

static weft_status_t *make_hold(weft_clients_t *c, const weft_hold_client_t *r, weft_canceller_t *call,
                                weft_done_fn *fn, void *arg, hold_t **out) {
  hold_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_NO_MEMORY("a client");
  *h = (hold_t){.clients = c, .call = weft_canceller_retain(call), .fn = fn, .arg = arg};
  copy_printable(r->client, h->id, sizeof h->id);
  if (weft_canceller_register(call, broken, h, &h->token)) {
    *out = h;
    return NULL;
  }
  weft_canceller_release(h->call);
  weft_free(h);
  return weft_canceller_is_cancelled(call) ? WEFT_ERROR(CANCELLED, "the call was cancelled")
                                           : WEFT_NO_MEMORY("a client");
}

void weft_clients_hold(weft_clients_t *c, const weft_hold_client_t *r, weft_canceller_t *call,
                       weft_done_fn *fn, void *arg) {
  client_t *fresh = NULL, *one = NULL;
  hold_t *h = NULL, *old = NULL;
  bool was_away = false, is_broken = false;
  weft_status_t *s = make_client(r->client, &fresh);
  if (s == NULL) s = make_hold(c, r, call, fn, arg, &h);
  if (s != NULL) {
    weft_free(fresh);
    fn(arg, s);
    return;
  }
  weft_mutex_lock(&c->mu);
  is_broken = h->is_broken;
  if (c->stopped) s = WEFT_ERROR(UNAVAILABLE, "the master is stopping");
  if (s == NULL && !is_broken) s = find_or_add_locked(c, &fresh, &one);
  if (one != NULL) {
    old = one->hold;
    was_away = old == NULL && one->peer[0] != '\0';
    one->hold = h;
    copy_printable(r->peer, one->peer, sizeof one->peer);
  }
  weft_mutex_unlock(&c->mu);
  weft_free(fresh);
  if (one == NULL) { /* broken() found no client with it */
    weft_canceller_deregister(call, h->token);
    end_hold(h, s != NULL ? s : WEFT_ERROR(CANCELLED, "the call was cancelled"));
    return;
  }
  if (was_away) weft_log(WEFT_LOG_INFO, "client %.*s is back", WEFT_STR_ARGS(r->client));
  if (old == NULL) return;
  weft_canceller_deregister(old->call, old->token);
  end_hold(old, WEFT_ERROR(ABORTED, "another call holds this client now"));
}

/* ---- sessions ---- */

weft_status_t *weft_clients_enter(weft_clients_t *c, weft_str_t client, uint64_t *out_life) {
  client_t *fresh = NULL, *one = NULL;
  *out_life = 0;
  if (client.length == 0) return NULL;
  WEFT_RETURN_IF_ERROR(make_client(client, &fresh));
  weft_mutex_lock(&c->mu);
  weft_status_t *s = find_or_add_locked(c, &fresh, &one);
  if (s == NULL) {
    one->num_sessions++;
    *out_life = one->life;
  }
  weft_mutex_unlock(&c->mu);
  weft_free(fresh);
  if (s == NULL) add_timer(c);
  return s;
}

void weft_clients_leave(weft_clients_t *c, weft_str_t client, uint64_t life) {
  char id[MAX_ID];
  client_t *forgotten = NULL;
  if (client.length == 0) return;
  copy_printable(client, id, sizeof id);
  weft_mutex_lock(&c->mu);
  client_t *one = find_locked(c, id);
  if (one != NULL && one->life == life && --one->num_sessions == 0 && one->hold == NULL)
    forgotten = weft_map_remove(&c->by_id, weft_str(one->id));
  weft_mutex_unlock(&c->mu);
  weft_free(forgotten);
}

/* ---- life ---- */

weft_status_t *weft_clients_create(weft_timer_t *timer, int64_t grace_ms, weft_client_gone_fn *fn, void *arg,
                                   weft_clients_t **out) {
  weft_clients_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a master");
  *c = (weft_clients_t){.timer = timer, .grace_ms = grace_ms, .fn = fn, .arg = arg};
  weft_mutex_init(&c->mu);
  *out = c;
  return NULL;
}

void weft_clients_stop(weft_clients_t *c) {
  for (;;) {
    weft_map_entry_t e;
    hold_t *h = NULL;
    weft_mutex_lock(&c->mu);
    c->stopped = true;
    for (size_t at = 0; h == NULL && weft_map_next(&c->by_id, &at, &e);) {
      client_t *one = e.value;
      h = one->hold;
      one->hold = NULL;
    }
    weft_mutex_unlock(&c->mu);
    if (h == NULL) return;
    weft_canceller_deregister(h->call, h->token);
    end_hold(h, WEFT_ERROR(UNAVAILABLE, "the master is stopping"));
  }
}

void weft_clients_destroy(weft_clients_t *c) {
  if (c == NULL) return;
  weft_clients_stop(c);
  weft_mutex_lock(&c->mu);
  uint64_t id = c->timer_id;
  weft_mutex_unlock(&c->mu);
  if (id != 0)
    weft_timer_remove(c->timer, id); /* waits for a check that runs; it adds no other, as it sees `stopped` */
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&c->by_id, &at, &e);) weft_free(e.value);
  weft_map_deinit(&c->by_id);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}
