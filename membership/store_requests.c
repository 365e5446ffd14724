/* membership/store_requests.c - requests for keys and values under way.
 *
 * A request is in the list until its answer comes. The stop cancels the requests that are in the list, one
 * after the other, because an answer may come while one is cancelled.
 *
 * Locking: `mu` guards the list and is a leaf. Answers and cancellers run without it.
 */
#include "membership/store_requests.h"

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct store_request {
  struct store_request *prev, *next; /* guarded by mu */
  weft_store_requests_t *owner;
  weft_canceller_t *canceller; /* a child of the caller's; owned */
  weft_value_fn *fn;
  void *arg;
} store_request_t;

struct weft_store_requests {
  weft_mutex_t mu;
  weft_cond_t idle;       /* num_running became 0 */
  store_request_t *first; /* guarded by mu, as all below: that wait for an answer */
  int num_running;        /* requests with an `fn` that has not returned */
  bool is_stopping;
};

weft_status_t *weft_store_requests_create(weft_store_requests_t **out) {
  weft_store_requests_t *q = weft_calloc(1, sizeof *q);
  if (q == NULL) return WEFT_NO_MEMORY("a membership");
  weft_mutex_init(&q->mu);
  weft_cond_init(&q->idle);
  *out = q;
  return NULL;
}

static void on_answer(void *arg, weft_status_t *status, weft_str_t value) {
  store_request_t *r = arg;
  weft_store_requests_t *q = r->owner;
  weft_mutex_lock(&q->mu);
  if (r->prev != NULL) r->prev->next = r->next;
  if (r->prev == NULL) q->first = r->next;
  if (r->next != NULL) r->next->prev = r->prev;
  weft_mutex_unlock(&q->mu);
  r->fn(r->arg, status, value);
  weft_canceller_release(r->canceller);
  weft_free(r);
  weft_mutex_lock(&q->mu);
  if (--q->num_running == 0) weft_cond_broadcast(&q->idle);
  weft_mutex_unlock(&q->mu);
}

/* False after the stop. */
static bool enter(weft_store_requests_t *q, store_request_t *r) {
  weft_mutex_lock(&q->mu);
  bool ok = !q->is_stopping;
  if (ok) {
    q->num_running++;
    r->next = q->first;
    if (r->next != NULL) r->next->prev = r;
    q->first = r;
  }
  weft_mutex_unlock(&q->mu);
  return ok;
}

void weft_store_requests_send(weft_store_requests_t *q, weft_coordination_client_t *client,
                              const weft_store_request_t *r, weft_canceller_t *canceller, weft_value_fn *fn,
                              void *arg) {
  weft_status_t *s = NULL;
  store_request_t *mine = weft_calloc(1, sizeof *mine);
  weft_canceller_t *c = mine == NULL ? NULL : weft_canceller_create(canceller);
  if (c == NULL) {
    s = WEFT_NO_MEMORY("asking for '%.*s'", WEFT_STR_ARGS(r->key));
  } else if (client == NULL) {
    s = WEFT_ERROR(FAILED_PRECONDITION,
                   "'%.*s' cannot be reached: this task has no connection to a coordination service",
                   WEFT_STR_ARGS(r->key));
  } else {
    *mine = (store_request_t){.owner = q, .canceller = c, .fn = fn, .arg = arg};
    if (!enter(q, mine)) {
      s = WEFT_ERROR(CANCELLED, "'%.*s' cannot be reached: this task is shutting down",
                     WEFT_STR_ARGS(r->key));
    }
  }
  if (s != NULL) {
    weft_canceller_release(c);
    weft_free(mine);
    fn(arg, s, WEFT_STR(""));
    return;
  }
  weft_canceller_retain(c); /* the answer may come before the call returns */
  client->ops->ask(client, r, c, on_answer, mine);
  weft_canceller_release(c);
}

void weft_store_requests_stop(weft_store_requests_t *q) {
  for (bool again = true; again;) {
    weft_canceller_t *c = NULL;
    weft_mutex_lock(&q->mu);
    q->is_stopping = true;
    store_request_t *r = q->first;
    while (r != NULL && weft_canceller_is_cancelled(r->canceller)) r = r->next;
    if (r != NULL) c = weft_canceller_retain(r->canceller);
    weft_mutex_unlock(&q->mu);
    again = c != NULL;
    if (again) weft_canceller_cancel(c);
    weft_canceller_release(c);
  }
  weft_mutex_lock(&q->mu);
  while (q->num_running > 0) weft_cond_wait(&q->idle, &q->mu); /* woken by on_answer(); all are cancelled */
  weft_mutex_unlock(&q->mu);
}

void weft_store_requests_destroy(weft_store_requests_t *q) {
  if (q == NULL) return;
  weft_cond_deinit(&q->idle);
  weft_mutex_deinit(&q->mu);
  weft_free(q);
}
