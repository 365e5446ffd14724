/* collectives/remote/telling.c - tells tasks without a link that a run has failed, and why.
 *
 * A task that waits for others hears of a failure from whom it fetches; one that only offers would
 * hear nothing. So who fails a run asks every member that it has no link to for a
 * buffer whose name is the news:
 *
 *   weft-ended;CODE;RUN;MESSAGE       (code as a number, run as in keys)
 *
 * The answer, of no bytes, says that it was taken. Only tasks that are known to be Weft's are asked:
 * those whose leader told us a host. Nobody waits for the answers but stop(), and not for long: who leaves
 * because of a failure has told the others why.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "collectives/remote/transport_impl.h"

#define PREFIX "weft-ended;"

enum { MAX_NEWS = 2048, LEAVE_MS = 300 };

typedef struct telling {
  weft_remote_t *t;
  weft_strbuf_t key, device, from;
} telling_t;

static void told(void *arg, weft_status_t *status, const weft_buf_t *buf) {
  telling_t *x = arg;
  weft_remote_t *t = x->t;
  if (buf != NULL && buf->release != NULL) buf->release(buf->release_arg);
  weft_status_free(status); /* as well as one can */
  weft_strbuf_deinit(&x->key);
  weft_strbuf_deinit(&x->device);
  weft_strbuf_deinit(&x->from);
  weft_free(x);
  weft_mutex_lock(&t->mu);
  t->num_tellings--;
  weft_cond_broadcast(&t->idle);
  weft_mutex_unlock(&t->mu);
  weft_remote_end_busy(t);
}

void weft_remote_tell_ended(weft_remote_t *t, weft_str_t task, int64_t step_id, weft_str_t run,
                            const weft_status_t *why) {
  weft_str_t host = weft_remote_host_of(t, task);
  if (host.length == 0 || weft_remote_is_lost(t, task)) return;
  telling_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return;
  *x = (telling_t){.t = t, .key = WEFT_STRBUF_INIT, .device = WEFT_STRBUF_INIT, .from = WEFT_STRBUF_INIT};
  weft_strbuf_printf(&x->key, PREFIX "%d;%.*s;%.*s", (int)weft_status_code(why), WEFT_STR_ARGS(run), MAX_NEWS,
                     weft_status_message(why));
  weft_strbuf_printf(&x->device, "%.*s/device:CPU:0", WEFT_STR_ARGS(task));
  weft_strbuf_printf(&x->from, "%s/device:CPU:0", t->task);
  weft_mutex_lock(&t->mu);
  bool ok = !t->is_stopping && !x->key.failed && !x->device.failed && !x->from.failed;
  t->num_busy++;
  t->num_tellings++;
  weft_mutex_unlock(&t->mu);
  if (!ok) {
    told(x, NULL, NULL);
    return;
  }
  weft_buf_request_t r = {.step_id = step_id,
                          .request_id = (int64_t)weft_random_id(),
                          .key = weft_str_of(x->key.data, x->key.length),
                          .src_device = weft_str_of(x->device.data, x->device.length),
                          .dst_device = weft_str_of(x->from.data, x->from.length),
                          .src_incarnation = weft_remote_incarnation_of(t, task)};
  t->peers.recv_buf(t->peers.arg, task, &r, t->tellings, told, x);
}

bool weft_remote_take_news(weft_remote_t *t, const weft_buf_request_t *r) {
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

void weft_remote_end_tellings(weft_remote_t *t) {
  int64_t deadline = weft_clock_ns() + (int64_t)LEAVE_MS * 1000000;
  weft_mutex_lock(&t->mu);
  t->is_stopping = true;
  while (t->num_tellings > 0 && weft_cond_wait_until(&t->idle, &t->mu, deadline)) { /* woken by told() */
  }
  weft_mutex_unlock(&t->mu);
  weft_canceller_cancel(t->tellings);
}
