/* rpc/server.c - registered methods on a loop.
 *
 * Each method always has a few calls awaited (CALLS_AWAITED), so that a burst is
 * taken in without waiting for a thread to ask for the next one.
 *
 * Locking: the intake's `mu` is a leaf. It guards the state and the count of call
 * objects; stop waits on `changed` until none is left.
 */
#include "rpc/server.h"

#include <grpc/grpc_security.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/arguments.h"
#include "rpc/call.h"
#include "rpc/client.h"
#include "rpc/local_server.h"

enum { CALLS_AWAITED = 4, MAX_METHODS = 64 };

typedef enum server_state { NEW, RUNNING, STOPPING, STOPPED } server_state_t;

struct weft_rpc_server {
  weft_rpc_tag_t drained; /* gRPC has no more calls and connections */
  weft_rpc_loop_t *loop;
  bool owns_loop;
  weft_rpc_intake_t intake;   /* its mu guards the state, too */
  weft_local_server_t *local; /* owned: calls from this host past gRPC */
  char host[256];
  int port;
  weft_rpc_method_t methods[MAX_METHODS + 1]; /* the last one in use stands for unknown methods */
  int num_methods;
  server_state_t state; /* guarded by intake.mu */
  bool is_drained;      /* guarded by intake.mu */
};

static void on_drained(weft_rpc_tag_t *tag, bool ok) {
  (void)ok;
  weft_rpc_server_t *s = (weft_rpc_server_t *)(void *)((char *)tag - offsetof(weft_rpc_server_t, drained));
  weft_mutex_lock(&s->intake.mu);
  s->is_drained = true;
  weft_cond_broadcast(&s->intake.changed);
  weft_mutex_unlock(&s->intake.mu);
}

weft_status_t *weft_rpc_server_create(const weft_rpc_server_options_t *o, weft_rpc_server_t **out) {
  weft_rpc_server_t *made = NULL;
  weft_status_t *s = NULL;
  const char *host = o->host == NULL || o->host[0] == '\0' ? "127.0.0.1" : o->host;
  if (o->port < 0 || o->port > 65535) return WEFT_ERROR(INVALID_ARGUMENT, "%d is not a port", o->port);
  if (strlen(host) > sizeof made->host - 3)
    return WEFT_ERROR(INVALID_ARGUMENT, "the host name '%.40s...' is too long", host);
  made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("a server");
  weft_mutex_init(&made->intake.mu);
  weft_cond_init(&made->intake.changed);
  made->drained.done = on_drained;
  bool is_bare_v6 = strchr(host, ':') != NULL && host[0] != '[';
  snprintf(made->host, sizeof made->host, is_bare_v6 ? "[%s]" : "%s", host);
  made->port = o->port;
  s = weft_unread_create(o->max_unread_bytes, o->unread_timeout_ms, &made->intake.unread);
  if (s != NULL) goto done;
  if (o->client != NULL) {
    made->loop = weft_rpc_client_loop(o->client);
  } else {
    s = weft_rpc_loop_create(o->num_threads, &made->loop);
    if (s != NULL) goto done;
    made->owns_loop = true;
  }
  made->intake.queue = weft_rpc_loop_queue(made->loop);
  made->intake.impl = grpc_server_create(weft_rpc_server_arguments(), NULL);
  grpc_server_register_completion_queue(made->intake.impl, made->intake.queue, NULL);
  s = weft_local_server_create(&made->intake, made->loop, &made->local);
  if (s == NULL)
    s = weft_rpc_server_handle(made, WEFT_LOCAL_INTRODUCE, weft_local_server_introduce, made->local, NULL);
  if (s != NULL) goto done;
  *out = made;
  made = NULL;
done:
  weft_rpc_server_destroy(made);
  return s;
}

weft_status_t *weft_rpc_server_handle(weft_rpc_server_t *s, const char *path, weft_rpc_handler_fn *fn,
                                      void *arg, const void *row) {
  if (s->num_methods == MAX_METHODS)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "too many methods; no room for %s", path);
  void *registered =
      grpc_server_register_method(s->intake.impl, path, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
  if (registered == NULL) return WEFT_ERROR(ALREADY_EXISTS, "the method %s is already served", path);
  weft_rpc_method_t *method = &s->methods[s->num_methods++];
  *method = (weft_rpc_method_t){&s->intake, path, fn, arg, row, registered};
  return weft_map_put(&s->intake.by_path, weft_str(path), method, NULL);
}

weft_status_t *weft_rpc_server_start(weft_rpc_server_t *s) {
  char address[sizeof s->host + 16];
  snprintf(address, sizeof address, "%s:%d", s->host, s->port);
  grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(s->intake.impl, address, plain);
  grpc_server_credentials_release(plain);
  if (port == 0)
    return WEFT_ERROR(UNAVAILABLE, "cannot listen on %s: the port is taken or the host is not ours", address);
  s->port = port;
  s->methods[s->num_methods] = (weft_rpc_method_t){.intake = &s->intake, .path = "an unknown method"};
  weft_mutex_lock(&s->intake.mu);
  s->state = RUNNING;
  s->intake.is_open = true;
  weft_mutex_unlock(&s->intake.mu);
  grpc_server_start(s->intake.impl);
  for (int i = 0; i <= s->num_methods; i++) {
    for (int k = 0; k < CALLS_AWAITED; k++) weft_rpc_call_await(&s->methods[i]);
  }
  weft_status_t *status = weft_rpc_loop_start(s->loop);
  if (status != NULL) weft_rpc_server_stop(s, 0);
  return status;
}

int weft_rpc_server_port(const weft_rpc_server_t *s) { return s->port; }

static bool is_busy_locked(weft_rpc_server_t *s) WEFT_REQUIRES(s->intake.mu) {
  return !s->is_drained || s->intake.num_calls > 0;
}

static void shut_down(weft_rpc_server_t *s, int64_t deadline_ns) {
  weft_rpc_tag_arm(&s->drained);
  grpc_server_shutdown_and_notify(s->intake.impl, s->intake.queue, &s->drained);
  weft_local_server_stop(s->local);
  weft_mutex_lock(&s->intake.mu);
  while (is_busy_locked(s) &&
         weft_cond_wait_until(&s->intake.changed, &s->intake.mu,
                              deadline_ns)) { /* woken by on_drained and weft_rpc_intake_leave */
  }
  const bool is_busy = is_busy_locked(s);
  weft_mutex_unlock(&s->intake.mu);
  if (is_busy) {
    grpc_server_cancel_all_calls(s->intake.impl);
    weft_local_server_cancel(s->local);
  }
  weft_mutex_lock(
      &s->intake.mu); /* woken by on_drained, and by handlers that answer as their calls are cancelled */
  while (is_busy_locked(s)) weft_cond_wait(&s->intake.changed, &s->intake.mu);
  weft_mutex_unlock(&s->intake.mu);
  weft_local_server_destroy(s->local);
  s->local = NULL;
}

void weft_rpc_server_stop(weft_rpc_server_t *s, int grace_ms) {
  int64_t deadline_ns = weft_clock_ns() + (int64_t)(grace_ms < 0 ? 0 : grace_ms) * 1000000;
  weft_mutex_lock(&s->intake.mu);
  server_state_t before = s->state;
  if (before == RUNNING) s->state = STOPPING;
  s->intake.is_open = false;
  while (before == STOPPING && s->state != STOPPED)
    weft_cond_wait(&s->intake.changed, &s->intake.mu); /* woken by the first stop */
  weft_mutex_unlock(&s->intake.mu);
  if (before != RUNNING) return;
  shut_down(s, deadline_ns);
  weft_mutex_lock(&s->intake.mu);
  s->state = STOPPED;
  weft_cond_broadcast(&s->intake.changed);
  weft_mutex_unlock(&s->intake.mu);
}

/* gRPC wants every server shut down before it is destroyed, also one that never ran. */
static void shut_down_unstarted(weft_rpc_server_t *s) {
  if (weft_rpc_loop_start(s->loop) != NULL) return;
  shut_down(s, weft_clock_ns());
}

void weft_rpc_server_destroy(weft_rpc_server_t *s) {
  if (s == NULL) return;
  weft_rpc_server_stop(s, 0);
  if (s->intake.impl != NULL) {
    if (s->state == NEW) shut_down_unstarted(s);
    grpc_server_destroy(s->intake.impl);
  }
  weft_local_server_destroy(s->local);
  weft_map_deinit(&s->intake.by_path);
  if (s->owns_loop) weft_rpc_loop_destroy(s->loop);
  weft_unread_destroy(s->intake.unread);
  weft_cond_deinit(&s->intake.changed);
  weft_mutex_deinit(&s->intake.mu);
  weft_free(s);
}
