/* collectives/remote/abort_broadcast.c - tells tasks without a link that a run has failed, and why.
 *
 * A task that fetches learns of a failure from the peer that it fetches from; a task that only offers would
 * not learn of it. So the task that fails a run asks every member that it has no link to for a buffer whose
 * name is the message:
 *
 *   weft-ended;CODE;RUN;MESSAGE       (code as a number, run as in keys)
 *
 * The answer, of no bytes, confirms it. Only tasks that are known to be Weft's are asked: those whose leader
 * named a host. No thread waits for the answers but at the departure of this task, and not for long: a task
 * that departs because of a failure has told the others why.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "collectives/remote/remote_impl.h"

#define PREFIX "weft-ended;"

enum { MAX_MESSAGE = 2048, LEAVE_MS = 300 };

typedef struct abort_message {
  weft_remote_t *t;
  weft_strbuf_t key, device, from;
} abort_message_t;

weft_status_t *weft_abort_broadcasts_init(weft_abort_broadcasts_t *b) {
  weft_mutex_init(&b->mu);
  weft_cond_init(&b->idle);
  b->canceller = weft_canceller_create(NULL);
  return b->canceller != NULL ? NULL : WEFT_NO_MEMORY("the transport of collectives");
}

void weft_abort_broadcasts_deinit(weft_abort_broadcasts_t *b) {
  weft_mutex_lock(&b->mu);
  while (b->num_in_flight > 0)
    weft_cond_wait(&b->idle, &b->mu); /* woken by on_confirmed(); all are cancelled */
  weft_mutex_unlock(&b->mu);
  weft_canceller_release(b->canceller);
  weft_cond_deinit(&b->idle);
  weft_mutex_deinit(&b->mu);
}

static void on_confirmed(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  abort_message_t *x = arg;
  weft_abort_broadcasts_t *b = &x->t->broadcasts;
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  weft_status_free(status); /* as well as one can */
  weft_strbuf_deinit(&x->key);
  weft_strbuf_deinit(&x->device);
  weft_strbuf_deinit(&x->from);
  weft_free(x);
  weft_mutex_lock(&b->mu);
  b->num_in_flight--;
  weft_cond_broadcast(&b->idle);
  weft_mutex_unlock(&b->mu);
}

void weft_remote_broadcast_abort(weft_remote_t *t, weft_str_t task, int64_t step_id, weft_str_t run,
                                 const weft_status_t *why) {
  weft_str_t host = weft_peer_table_host_of(t->known, task);
  if (host.length == 0 || weft_peer_table_is_lost(t->known, task)) return;
  abort_message_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return;
  *x = (abort_message_t){
      .t = t, .key = WEFT_STRBUF_INIT, .device = WEFT_STRBUF_INIT, .from = WEFT_STRBUF_INIT};
  weft_strbuf_printf(&x->key, PREFIX "%d;%.*s;%.*s", (int)weft_status_code(why), WEFT_STR_ARGS(run),
                     MAX_MESSAGE, weft_status_message(why));
  weft_strbuf_printf(&x->device, "%.*s/device:CPU:0", WEFT_STR_ARGS(task));
  weft_strbuf_printf(&x->from, "%s/device:CPU:0", t->task);
  weft_abort_broadcasts_t *b = &t->broadcasts;
  weft_mutex_lock(&b->mu);
  bool ok = !b->is_stopping && !x->key.failed && !x->device.failed && !x->from.failed;
  b->num_in_flight++;
  weft_mutex_unlock(&b->mu);
  if (!ok) {
    on_confirmed(x, NULL, NULL);
    return;
  }
  weft_buf_request_t r = {.step_id = step_id,
                          .request_id = (int64_t)weft_random_id(),
                          .key = weft_str_of(x->key.data, x->key.length),
                          .src_device = weft_str_of(x->device.data, x->device.length),
                          .dst_device = weft_str_of(x->from.data, x->from.length),
                          .src_incarnation = weft_peer_table_incarnation_of(t->known, task)};
  t->peers.recv_buf(t->peers.arg, task, &r, b->canceller, on_confirmed, x);
}

bool weft_remote_receive_abort(weft_remote_t *t, const weft_buf_request_t *r) {
  if (!weft_str_starts_with(r->key, PREFIX)) return false;
  const char *p = r->key.data + sizeof PREFIX - 1, *end = r->key.data + r->key.length;
  const char *run = memchr(p, ';', (size_t)(end - p));
  const char *message = run == NULL ? NULL : memchr(run + 1, ';', (size_t)(end - run - 1));
  if (message == NULL) return false;
  int32_t code = 0;
  for (; p < run && *p >= '0' && *p <= '9' && code < 1000; p++) code = code * 10 + (*p - '0');
  if (p != run || code == 0 || message == run + 1) return false;
  weft_status_t *why = weft_status_from_wire(code, message + 1, (size_t)(end - message - 1));
  weft_remote_fail_here(t, r->step_id, weft_str_of(run + 1, (size_t)(message - run - 1)), why);
  weft_status_free(why);
  return true;
}

void weft_remote_stop_broadcasts(weft_remote_t *t) {
  weft_abort_broadcasts_t *b = &t->broadcasts;
  int64_t deadline = weft_clock_ns() + (int64_t)LEAVE_MS * 1000000;
  weft_mutex_lock(&b->mu);
  b->is_stopping = true;
  while (b->num_in_flight > 0 &&
         weft_cond_wait_until(&b->idle, &b->mu, deadline)) { /* woken by on_confirmed() */
  }
  weft_mutex_unlock(&b->mu);
  weft_canceller_cancel(b->canceller);
}

bool weft_remote_is_departing(weft_remote_t *t) {
  weft_abort_broadcasts_t *b = &t->broadcasts;
  weft_mutex_lock(&b->mu);
  bool is_departing = b->is_stopping;
  weft_mutex_unlock(&b->mu);
  return is_departing;
}

weft_status_t *weft_remote_departure_status(weft_remote_t *t) {
  weft_str_t failed = {NULL, 0};
  weft_status_t *why = weft_peer_table_departure_cause(t->known, &failed);
  return why != NULL ? why : WEFT_ERROR(UNAVAILABLE, "The task %s was shut down", t->task);
}

void weft_remote_fail(weft_remote_t *t, int64_t step_id, weft_str_t run, const weft_group_t *group,
                      const weft_status_t *why) {
  for (int i = 0; group != NULL && i < group->size; i++) {
    weft_str_t task = group->members[i].task;
    bool is_told = weft_str_is(task, t->task);
    for (int k = 0; k < i && !is_told; k++) is_told = weft_str_eq(group->members[k].task, task);
    if (is_told) continue;
    weft_host_link_t *link = weft_host_links_find(t->links, task);
    if (link != NULL) (void)weft_host_link_ended(link, step_id, run, why);
    if (link == NULL) weft_remote_broadcast_abort(t, task, step_id, run, why);
    weft_host_link_release(link);
  }
  weft_remote_fail_here(t, step_id, run, why);
}
