/* collectives/run_watchdog.c - the timeout of a run, and which ranks are missing when it is over. */
#include "base/clock.h"
#include "base/name_list.h"
#include "collectives/run.h"

enum {
  OFFER_MS = 50,
  GRACE_MS = 200, /* for answers about presence: many round trips on any network, short beside any timeout */
};

static void on_presence(void *arg, weft_status_t *s) {
  weft_coll_transfer_t *x = arg;
  weft_coll_run_t *r = x->run;
  weft_status_free(s);
  weft_mutex_lock(&r->mu);
  r->num_present--;
  weft_mutex_unlock(&r->mu);
  weft_coll_run_advance(r);
  weft_coll_run_release(r);
}

/* Offers a sign of presence to all other ranks, so that they can find out which ranks are missing. */
static void offer_presence(weft_coll_run_t *r) {
  weft_status_t *s = weft_coll_run_make_extra(r);
  const int n = r->group->size;
  char text[WEFT_KEY_TEXT];
  for (int i = 0; i < n && s == NULL; i++) {
    if (i == r->rank) continue;
    weft_coll_run_retain(r);
    weft_mutex_lock(&r->mu);
    r->num_present++;
    weft_mutex_unlock(&r->mu);
    weft_coll_run_offer(r, weft_coll_run_presence_key(r, text, r->rank, i), i, NULL, 0, false, on_presence,
                        &r->extra[2 * n + i]);
  }
  if (s != NULL) weft_coll_run_fail(r, s, true);
}

static void on_answer(void *arg, weft_status_t *s) {
  weft_coll_transfer_t *x = arg;
  weft_coll_run_t *r = x->run;
  weft_mutex_lock(&r->mu);
  /* Any answer but our own cancellation shows that the rank has joined. */
  r->answered[x->peer] = weft_status_code(s) != WEFT_CANCELLED && weft_status_code(s) != WEFT_UNAVAILABLE;
  weft_mutex_unlock(&r->mu);
  weft_status_free(s);
  weft_coll_run_end(r, NULL);
}

/* Asks all other ranks for their signs of presence; the timer's next call reads the answers. */
static void ask_for_presence(weft_coll_run_t *r) {
  const int n = r->group->size;
  char text[WEFT_KEY_TEXT];
  weft_mutex_lock(&r->mu);
  r->is_probing = r->extra != NULL;
  if (r->is_probing) r->answered[r->rank] = 1;
  weft_mutex_unlock(&r->mu);
  for (int i = 0; i < n && r->extra != NULL; i++) {
    if (i == r->rank) continue;
    weft_fetch_t f = weft_coll_run_fetch_from(r, weft_coll_run_presence_key(r, text, i, r->rank), i, 0);
    f.is_control = true;
    weft_coll_run_begin(r);
    r->transport->ops->fetch(r->transport, &f, r->probe_canceller, on_answer, &r->extra[3 * n + i]);
  }
}

/* A run that takes longer than this offers signs of presence: well within the grace period, so that the last
 * rank to join is not reported as missing, and so late that a collective that goes well never does. */
static int64_t first_wait_ms(const weft_coll_run_t *r) {
  const int64_t half = r->call.timeout_ms / 2;
  return half < OFFER_MS ? half : OFFER_MS;
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

/* One stage of the timeout is over. */
static void late(void *arg) { /* holds the timer's reference */
  weft_coll_run_t *r = arg;
  weft_mutex_lock(&r->mu);
  const bool goes_on = !r->has_failed && !r->is_finished;
  const weft_watchdog_stage_t stage = r->watchdog;
  if (goes_on) r->outstanding++; /* the run does not end meanwhile */
  weft_mutex_unlock(&r->mu);
  if (goes_on) {
    weft_coll_run_retain(r);
    weft_status_t *s = NULL;
    if (stage == WEFT_WATCHDOG_OFFER) {
      offer_presence(r);
      s = weft_coll_run_set_timeout(r, WEFT_WATCHDOG_ASK, r->call.timeout_ms - first_wait_ms(r));
    } else if (stage == WEFT_WATCHDOG_ASK) {
      ask_for_presence(r);
      s = weft_coll_run_set_timeout(r, WEFT_WATCHDOG_FAIL, GRACE_MS);
    } else {
      s = too_late(r);
      weft_canceller_cancel(r->probe_canceller);
    }
    weft_coll_run_end(r, s);
  }
  weft_coll_run_release(r);
}

/* The timer's thread serves all runs: the work moves to the pool if it can. */
static void on_timeout(void *arg) {
  weft_coll_run_t *r = arg;
  weft_mutex_lock(&r->mu);
  r->has_timer = false;
  weft_mutex_unlock(&r->mu);
  if (r->pool == NULL || !weft_thread_pool_submit(r->pool, late, r)) late(r);
}

weft_status_t *weft_coll_run_set_timeout(weft_coll_run_t *r, weft_watchdog_stage_t stage, int64_t ms) {
  weft_mutex_lock(&r->mu);
  const bool had = r->has_timer;
  const uint64_t old = r->timer_id;
  r->has_timer = false;
  weft_mutex_unlock(&r->mu);
  if (had && weft_timer_remove(r->timer, old)) weft_coll_run_release(r);
  weft_coll_run_retain(r);
  weft_mutex_lock(&r->mu); /* held, so that the timer's thread cannot clear what is not yet set */
  weft_status_t *s = weft_timer_add(r->timer, weft_clock_deadline_ns(ms), on_timeout, r, &r->timer_id);
  r->has_timer = s == NULL;
  r->watchdog = stage;
  weft_mutex_unlock(&r->mu);
  if (s != NULL) weft_coll_run_release(r);
  return s;
}

weft_status_t *weft_coll_run_watch_others(weft_coll_run_t *r) {
  return weft_coll_run_set_timeout(r, WEFT_WATCHDOG_OFFER, first_wait_ms(r));
}
