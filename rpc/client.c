/* rpc/client.c - the loop of a process's channels, and queues for calls that wait.
 *
 * Locking: `mu` is a leaf and guards everything but the loop.
 */
#include "rpc/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"

enum { KEPT_QUEUES = 8 }; /* threads that wait at once, in the usual program; making a queue costs some µs */

struct weft_rpc_client {
  weft_rpc_loop_t *loop;
  weft_canceller_t *stopper;
  weft_mutex_t mu;
  weft_cond_t idle;
  int64_t num_calls;                        /* guarded by mu */
  grpc_completion_queue *kept[KEPT_QUEUES]; /* guarded by mu */
  int num_kept;                             /* guarded by mu */
};

weft_status_t *weft_rpc_client_create(int num_threads, weft_rpc_client_t **out) {
  weft_rpc_client_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("an RPC client");
  c->stopper = weft_canceller_create(NULL);
  weft_status_t *s =
      c->stopper == NULL ? WEFT_NO_MEMORY("an RPC client") : weft_rpc_loop_create(num_threads, &c->loop);
  if (s != NULL) {
    weft_canceller_release(c->stopper);
    weft_free(c);
    return s;
  }
  weft_mutex_init(&c->mu);
  weft_cond_init(&c->idle);
  *out = c;
  return NULL;
}

static void drop_queue(grpc_completion_queue *queue) {
  grpc_completion_queue_shutdown(queue);
  grpc_completion_queue_pluck(queue, NULL, gpr_inf_past(GPR_CLOCK_REALTIME), NULL); /* nothing is in it */
  grpc_completion_queue_destroy(queue);
}

void weft_rpc_client_stop(weft_rpc_client_t *c, int grace_ms) {
  int64_t deadline = weft_clock_ns() + (int64_t)grace_ms * 1000000;
  weft_mutex_lock(&c->mu);
  while (c->num_calls > 0 &&
         weft_cond_wait_until(&c->idle, &c->mu, deadline)) { /* woken by weft_rpc_client_leave */
  }
  weft_mutex_unlock(&c->mu);
  weft_canceller_cancel(c->stopper);
}

weft_canceller_t *weft_rpc_client_stopper(weft_rpc_client_t *c) { return c->stopper; }

void weft_rpc_client_destroy(weft_rpc_client_t *c) {
  if (c == NULL) return;
  weft_mutex_lock(&c->mu);
  while (c->num_calls > 0) weft_cond_wait(&c->idle, &c->mu); /* woken by weft_rpc_client_leave */
  weft_mutex_unlock(&c->mu);
  for (int i = 0; i < c->num_kept; i++) drop_queue(c->kept[i]);
  weft_rpc_loop_destroy(c->loop);
  weft_canceller_release(c->stopper);
  weft_cond_deinit(&c->idle);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

weft_rpc_loop_t *weft_rpc_client_loop(weft_rpc_client_t *c) { return c->loop; }

grpc_completion_queue *weft_rpc_client_take_queue(weft_rpc_client_t *c) {
  grpc_completion_queue *queue = NULL;
  weft_mutex_lock(&c->mu);
  if (c->num_kept > 0) queue = c->kept[--c->num_kept];
  weft_mutex_unlock(&c->mu);
  return queue != NULL ? queue : grpc_completion_queue_create_for_pluck(NULL);
}

void weft_rpc_client_give_queue(weft_rpc_client_t *c, grpc_completion_queue *queue) {
  weft_mutex_lock(&c->mu);
  bool keep = c->num_kept < KEPT_QUEUES;
  if (keep) c->kept[c->num_kept++] = queue;
  weft_mutex_unlock(&c->mu);
  if (!keep) drop_queue(queue);
}

void weft_rpc_client_enter(weft_rpc_client_t *c) {
  weft_mutex_lock(&c->mu);
  c->num_calls++;
  weft_mutex_unlock(&c->mu);
}

void weft_rpc_client_leave(weft_rpc_client_t *c) {
  weft_mutex_lock(&c->mu);
  c->num_calls--;
  if (c->num_calls == 0) weft_cond_broadcast(&c->idle);
  weft_mutex_unlock(&c->mu);
}
