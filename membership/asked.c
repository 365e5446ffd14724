/* membership/asked.c - questions about keys and values, as the keeper answers them. */
#include "membership/membership_impl.h"

#include "base/alloc.h"

static void on_answer(void *arg, weft_status_t *status, weft_str_t value) {
  weft_asked_t *a = arg;
  weft_membership_t *ms = a->ms;
  weft_mutex_lock(&ms->mu);
  if (a->prev != NULL) a->prev->next = a->next;
  if (a->prev == NULL) ms->asked = a->next;
  if (a->next != NULL) a->next->prev = a->prev;
  weft_mutex_unlock(&ms->mu);
  a->fn(a->arg, status, value);
  weft_canceller_release(a->canceller);
  weft_free(a);
  weft_membership_leave(ms);
}

/* False once the membership stops. */
static bool enter_asked(weft_membership_t *ms, weft_asked_t *a) {
  weft_mutex_lock(&ms->mu);
  bool ok = !ms->stopping;
  if (ok) {
    ms->in_flight++;
    a->next = ms->asked;
    if (a->next != NULL) a->next->prev = a;
    ms->asked = a;
  }
  weft_mutex_unlock(&ms->mu);
  return ok;
}

/* Those asked when the stop came; each answer takes its question out of the list. */
void weft_membership_cancel_asked(weft_membership_t *ms) {
  for (;;) {
    weft_canceller_t *c = NULL;
    weft_mutex_lock(&ms->mu);
    weft_asked_t *a = ms->asked;
    while (a != NULL && weft_canceller_is_cancelled(a->canceller)) a = a->next;
    if (a != NULL) c = weft_canceller_retain(a->canceller);
    weft_mutex_unlock(&ms->mu);
    if (c == NULL) return;
    weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
}

static void ask(weft_membership_t *ms, const weft_store_request_t *r, weft_canceller_t *canceller,
                weft_value_fn *fn, void *arg) {
  weft_status_t *s = NULL;
  weft_asked_t *a = weft_calloc(1, sizeof *a);
  weft_canceller_t *mine = a == NULL ? NULL : weft_canceller_create(canceller);
  if (mine == NULL) {
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory to ask for '%.*s'", WEFT_STR_ARGS(r->key));
  } else if (ms->client == NULL) {
    s = WEFT_ERROR(FAILED_PRECONDITION, "'%.*s' cannot be reached: nobody keeps the record",
                   WEFT_STR_ARGS(r->key));
  } else {
    *a = (weft_asked_t){.ms = ms, .canceller = mine, .fn = fn, .arg = arg};
    if (!enter_asked(ms, a)) {
      s = WEFT_ERROR(CANCELLED, "'%.*s' cannot be reached: this task stops", WEFT_STR_ARGS(r->key));
    }
  }
  if (s != NULL) {
    weft_canceller_release(mine);
    weft_free(a);
    fn(arg, s, WEFT_STR(""));
    return;
  }
  weft_canceller_retain(mine); /* the answer may come before the call returns */
  ms->client->ops->ask(ms->client, r, mine, on_answer, a);
  weft_canceller_release(mine);
}

void weft_membership_set(weft_membership_t *ms, weft_str_t key, weft_str_t value, weft_value_fn *fn,
                         void *arg) {
  ask(ms, &(weft_store_request_t){.op = WEFT_STORE_SET, .key = key, .value = value}, NULL, fn, arg);
}

void weft_membership_get(weft_membership_t *ms, weft_str_t key, int64_t timeout_ms,
                         weft_canceller_t *canceller, weft_value_fn *fn, void *arg) {
  ask(ms, &(weft_store_request_t){.op = WEFT_STORE_GET, .key = key, .timeout_ms = timeout_ms}, canceller, fn,
      arg);
}

void weft_membership_add(weft_membership_t *ms, weft_str_t key, int64_t delta, weft_value_fn *fn, void *arg) {
  ask(ms, &(weft_store_request_t){.op = WEFT_STORE_ADD, .key = key, .delta = delta}, NULL, fn, arg);
}

void weft_membership_compare_set(weft_membership_t *ms, weft_str_t key, weft_str_t expected,
                                 weft_str_t desired, weft_value_fn *fn, void *arg) {
  ask(ms,
      &(weft_store_request_t){
          .op = WEFT_STORE_COMPARE_SET, .key = key, .expected = expected, .value = desired},
      NULL, fn, arg);
}

void weft_membership_delete(weft_membership_t *ms, weft_str_t key, weft_value_fn *fn, void *arg) {
  ask(ms, &(weft_store_request_t){.op = WEFT_STORE_DELETE, .key = key}, NULL, fn, arg);
}

void weft_membership_barrier(weft_membership_t *ms, weft_str_t name, int size, int64_t timeout_ms,
                             weft_canceller_t *canceller, weft_value_fn *fn, void *arg) {
  ask(ms,
      &(weft_store_request_t){.op = WEFT_STORE_BARRIER, .key = name, .size = size, .timeout_ms = timeout_ms},
      canceller, fn, arg);
}
