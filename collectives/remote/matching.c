/* collectives/remote/matching.c - ends many transfers at once: those of a step, of a run, with a task, or
 * over a link.
 *
 * What matches is taken out of its table under mu and ended outside. Not what is
 * being read: its reader will say so.
 */
#include "collectives/remote/transport_impl.h"

#include <inttypes.h>

#include "base/alloc.h"

typedef struct ended_items {
  weft_remote_offer_t *offers;
  weft_remote_fetch_t *wants;
  weft_remote_asked_t *asked;
  weft_remote_come_t *come;
} ended_items_t;

static bool matches(const weft_remote_which_t *w, int64_t step_id, weft_str_t key, weft_str_t task,
                    const weft_host_link_t *link) {
  if (w->has_step && (step_id != w->step_id || !weft_remote_is_in_run(key, w->run))) return false;
  if (w->link != NULL) return link == w->link;
  return w->task.length == 0 || weft_str_eq(task, w->task);
}

static void take_offers_locked(weft_remote_t *t, const weft_remote_which_t *w, bool with_told,
                               ended_items_t *out) WEFT_REQUIRES(t->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->offers, &at, &e);) {
    weft_remote_offer_t *o = e.value;
    if (!matches(w, o->step_id, o->key, o->to_task, NULL)) continue;
    weft_map_remove(&t->offers, weft_str(o->name));
    o->next = out->offers;
    out->offers = o;
  }
  for (size_t at = 0; with_told && weft_map_next(&t->told, &at, &e);) {
    weft_remote_offer_t *o = e.value;
    if (!matches(w, o->step_id, o->key, o->to_task, o->link)) continue;
    weft_map_remove_u64(&t->told, o->id);
    o->next = out->offers;
    out->offers = o;
  }
}

static void take_fetches_locked(weft_remote_t *t, const weft_remote_which_t *w, ended_items_t *out)
    WEFT_REQUIRES(t->mu) {
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&t->wants, &at, &e);) {
    weft_remote_fetch_t *f = e.value;
    if (!matches(w, f->step_id, f->key, f->from_task, f->link)) continue;
    weft_map_remove(&t->wants, weft_str(f->name));
    f->is_waiting = false;
    f->next = out->wants;
    out->wants = f;
  }
  for (size_t at = 0; weft_map_next(&t->come, &at, &e);) {
    weft_remote_come_t *c = e.value;
    if (!matches(w, c->step_id, c->key, weft_host_link_task(c->link), c->link) ||
        (w->keep_inline && c->is_inline))
      continue;
    weft_map_remove(&t->come, weft_str(c->name));
    c->next = out->come;
    out->come = c;
  }
  for (size_t at = 0; w->task.length == 0 && w->link == NULL && weft_map_next(&t->asked, &at, &e);) {
    weft_remote_asked_t *a = e.value;
    if (!matches(w, a->step_id, a->key, w->task, NULL)) continue;
    weft_map_remove(&t->asked, weft_str(a->name));
    a->is_waiting = false;
    a->next = out->asked;
    out->asked = a;
  }
}

/* The calls that match, one after the other: each is cancelled with the cause that it shall report. */
static void cancel_calls(weft_remote_t *t, const weft_remote_which_t *w, const weft_status_t *why) {
  for (;;) {
    weft_status_t *mine = weft_status_clone(why);
    weft_canceller_t *c = NULL;
    weft_map_entry_t e;
    weft_mutex_lock(&t->mu);
    for (size_t at = 0; c == NULL && weft_map_next(&t->calls, &at, &e);) {
      weft_remote_fetch_t *f = e.value;
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
  for (weft_remote_offer_t *o = x->offers, *next; o != NULL; o = next) {
    next = o->next;
    weft_remote_end_offer(o, weft_status_clone(why));
  }
  for (weft_remote_fetch_t *f = x->wants, *next; f != NULL; f = next) {
    next = f->next;
    weft_remote_end_fetch(f, weft_status_clone(why), false);
  }
  for (weft_remote_asked_t *a = x->asked, *next; a != NULL; a = next) {
    next = a->next;
    weft_remote_refuse(a, weft_status_clone(why), false);
  }
  for (weft_remote_come_t *c = x->come, *next; c != NULL; c = next) {
    next = c->next;
    weft_remote_free_come(c, true);
  }
}

/* Ends all that match here, but not what is being read: its reader will say so. */
void weft_remote_end_matching(weft_remote_t *t, const weft_remote_which_t *w, bool with_told,
                              const weft_status_t *why) {
  ended_items_t items = {NULL, NULL, NULL, NULL};
  weft_mutex_lock(&t->mu);
  take_offers_locked(t, w, with_told, &items);
  take_fetches_locked(t, w, &items);
  weft_mutex_unlock(&t->mu);
  finish_all(&items, why);
  cancel_calls(t, w, why);
}

void weft_remote_fail_here(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_status_t *why) {
  char *copy = weft_strndup(run.data, run.length);
  if (copy == NULL) return;
  weft_remote_which_t w = {.has_step = true, .step_id = step_id, .run = copy};
  weft_strbuf_t probe = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&probe, "%s/", copy);
  weft_str_t key = weft_str_of(probe.data, probe.failed ? 0 : probe.length);
  weft_mutex_lock(&t->mu);
  weft_status_t *known = weft_remote_ended_locked(t, step_id, key, WEFT_STR(""));
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
  if (weft_status_code(why) == WEFT_UNAVAILABLE) weft_remote_note_failure(t, run, why);
  if (kept != NULL) {
    weft_remote_add_ending(t, step_id, kept, NULL, cause);
  } else {
    weft_status_free(cause);
  }
  weft_remote_end_matching(t, &w, false, why);
  weft_free(copy);
}

void weft_remote_ended(void *arg, weft_host_link_t *link, int64_t step_id, weft_str_t run,
                       weft_status_t *why) {
  weft_remote_t *t = arg;
  weft_str_t task = weft_host_link_task(link);
  if (why == NULL) why = WEFT_ERROR(ABORTED, "%.*s ended step %" PRId64, WEFT_STR_ARGS(task), step_id);
  if (run.length > 0) {
    weft_remote_fail_here(t, step_id, run, why);
  } else {
    char *copy = weft_strndup(task.data, task.length);
    if (copy != NULL) weft_remote_add_ending(t, step_id, NULL, copy, weft_status_clone(why));
    weft_remote_which_t w = {.has_step = true, .step_id = step_id, .link = link, .keep_inline = true};
    weft_remote_end_matching(t, &w, false, why);
  }
  weft_status_free(why);
}
