/* master/discover.c - asks workers for their devices, all at once. */
#include "base/alloc.h"
#include "master/create_session.h"

typedef struct discovery discovery_t;

typedef struct question {
  discovery_t *discovery;
  weft_str_t task; /* the worker that was asked; lent by it */
} question_t;

struct discovery {
  weft_mutex_t mu;
  weft_device_set_t devices; /* guarded by mu */
  weft_status_t *status;     /* guarded by mu; the first failure */
  atomic_int left;
  weft_discovered_fn *fn;
  void *arg;
  question_t questions[]; /* one per worker */
};

static void drop(discovery_t *d) {
  if (atomic_fetch_sub(&d->left, 1) != 1) return;
  d->fn(d->arg, d->status, &d->devices);
  weft_device_set_deinit(&d->devices);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static void got_status(void *arg, weft_status_t *status, const weft_device_list_t *reported) {
  question_t *q = arg;
  discovery_t *d = q->discovery;
  weft_mutex_lock(&d->mu);
  if (status == NULL) status = weft_device_set_add(&d->devices, q->task, reported);
  bool first = d->status == NULL;
  if (first) d->status = status;
  weft_mutex_unlock(&d->mu);
  if (!first) weft_status_free(status);
  drop(d);
}

void weft_discover_devices(weft_worker_client_t *const *workers, int n, weft_canceller_t *c, weft_discovered_fn *fn, void *arg) {
  discovery_t *d = weft_calloc(1, sizeof *d + (size_t)n * sizeof(question_t));
  if (d == NULL) {
    fn(arg, WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for asking workers"), NULL);
    return;
  }
  weft_mutex_init(&d->mu);
  atomic_init(&d->left, n + 1);
  d->fn = fn;
  d->arg = arg;
  for (int i = 0; i < n; i++) {
    d->questions[i] = (question_t){d, workers[i]->task};
    workers[i]->ops->get_status(workers[i], c, got_status, &d->questions[i]);
  }
  drop(d);
}
