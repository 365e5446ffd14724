/* rpc/loop.c - threads at a completion queue.
 *
 * Locking: `mu` guards the start of threads and of the local loop only.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "rpc/loop.h"

#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"

/* One thread reads the sockets and runs the handler that it read for; meanwhile the next one reads. Four let
 * three handlers be busy with short work at a time; a handler with long work passes it to a pool. */
enum { DEFAULT_THREADS = 4, MAX_THREADS = 64 };

struct weft_rpc_loop {
  grpc_completion_queue *queue;
  int num_threads;
  weft_mutex_t mu;
  atomic_int num_started;   /* written under mu */
  weft_local_loop_t *local; /* owned; guarded by mu; NULL until it is asked for */
  pthread_t threads[MAX_THREADS];
};

/* gRPC logs what our statuses say anyway (a connection was refused, a port is taken). */
static void log_of_grpc(gpr_log_func_args *args) { weft_log(WEFT_LOG_DEBUG, "grpc: %s", args->message); }

weft_status_t *weft_rpc_loop_create(int num_threads, weft_rpc_loop_t **out) {
  weft_rpc_loop_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("gRPC's threads");
  gpr_set_log_function(log_of_grpc);
  grpc_init();
  l->queue = grpc_completion_queue_create_for_next(NULL);
  l->num_threads = num_threads <= 0 ? DEFAULT_THREADS : num_threads > MAX_THREADS ? MAX_THREADS : num_threads;
  weft_mutex_init(&l->mu);
  *out = l;
  return NULL;
}

static void *run(void *arg) {
  weft_rpc_loop_t *l = arg;
  for (;;) {
    grpc_event event = grpc_completion_queue_next(l->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
    if (event.type != GRPC_OP_COMPLETE) continue;
    weft_rpc_tag_t *tag = event.tag;
    (void)atomic_load_explicit(&tag->is_armed, memory_order_acquire); /* pairs with weft_rpc_tag_arm */
    tag->done(tag, event.success != 0);
  }
}

weft_status_t *weft_rpc_loop_start(weft_rpc_loop_t *l) {
  if (atomic_load_explicit(&l->num_started, memory_order_acquire) == l->num_threads) return NULL;
  int error = 0;
  weft_mutex_lock(&l->mu);
  int n = atomic_load(&l->num_started);
  while (n < l->num_threads && error == 0) {
    error = pthread_create(&l->threads[n], NULL, run, l);
    if (error != 0) break;
    char name[16];
    snprintf(name, sizeof name, "weft-rpc/%u", (unsigned)n % 100u);
    pthread_setname_np(l->threads[n], name);
    n++;
  }
  atomic_store_explicit(&l->num_started, n, memory_order_release);
  weft_mutex_unlock(&l->mu);
  if (n == 0) return WEFT_ERROR(RESOURCE_EXHAUSTED, "cannot start a thread for gRPC: error %d", error);
  return NULL;
}

weft_status_t *weft_rpc_loop_local(weft_rpc_loop_t *l, weft_local_loop_t **out) {
  weft_mutex_lock(&l->mu);
  weft_status_t *s = l->local != NULL ? NULL : weft_local_loop_create(&l->local);
  *out = l->local;
  weft_mutex_unlock(&l->mu);
  return s;
}

void weft_rpc_loop_destroy(weft_rpc_loop_t *l) {
  if (l == NULL) return;
  weft_local_loop_destroy(l->local);
  grpc_completion_queue_shutdown(l->queue);
  int n = atomic_load(&l->num_started);
  for (int i = 0; i < n; i++) pthread_join(l->threads[i], NULL);
  if (n == 0) run(l); /* drains it here */
  grpc_completion_queue_destroy(l->queue);
  grpc_shutdown();
  weft_mutex_deinit(&l->mu);
  weft_free(l);
}

grpc_completion_queue *weft_rpc_loop_queue(weft_rpc_loop_t *l) { return l->queue; }
