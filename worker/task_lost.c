/* worker/task_lost.c - reports the loss of a task of the cluster to collectives and resources. */
#include "base/alloc.h"
#include "worker/worker_impl.h"

static void tell_resources(const weft_devices_t *d, weft_str_t task) {
  for (int i = 0; d->resources != NULL && i < d->n; i++) weft_resource_task_lost(d->resources[i], task);
}

void weft_worker_task_lost(weft_worker_t *w, weft_str_t task, const weft_status_t *why) {
  if (!weft_remote_transport_break(w->transport, task)) weft_worker_lose_member(w, task, why);
  tell_resources(&w->devices, task);
  weft_mutex_lock(&w->mu);
  size_t n = w->sessions.count, i = 0;
  weft_mutex_unlock(&w->mu);
  weft_worker_session_t **sessions = weft_calloc(n + 1, sizeof(weft_worker_session_t *));
  if (sessions == NULL) return; /* their waits last until the steps are cancelled */
  weft_mutex_lock(&w->mu);
  weft_map_entry_t e;
  for (size_t at = 0; i < n && weft_map_next(&w->sessions, &at, &e);)
    sessions[i++] = weft_worker_session_retain(e.value);
  weft_mutex_unlock(&w->mu);
  for (size_t k = 0; k < i; k++) {
    tell_resources(&sessions[k]->own_devices, task);
    weft_worker_release_session(w, sessions[k]);
  }
  weft_free(sessions);
}

void weft_worker_leave(weft_worker_t *w) { weft_remote_transport_leave(w->transport); }

void weft_worker_task_returned(weft_worker_t *w, weft_str_t task, uint64_t incarnation) {
  weft_remote_transport_returned_task(w->transport, task, incarnation);
}
