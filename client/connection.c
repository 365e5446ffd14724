/* client/connection.c - waits for the answers of an asynchronous master.
 *
 * Locking: `mu` guards handle and version and is held for no call. A call's answer
 * lies on the caller's stack, with a mutex of its own where the caller has to sleep for it.
 */
#include "client/connection.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/random.h"
#include "client/config.h"
#include "rpc/channel.h"
#include "server/server.h"
#include "services/presence.h"
#include "services/remote_master.h"

struct weft_connection {
  bool is_local;
  weft_client_config_t options;
  char *config, *target; /* owned */
  size_t config_bytes;
  weft_rpc_client_t *rpc; /* remote only, as the channel is */
  weft_rpc_channel_t *channel;
  weft_master_client_t *master;
  weft_presence_t
      *presence; /* remote only, from the session's creation on; written by the one that creates it */
  weft_canceller_t
      *canceller; /* of calls to the master; cancelled if the session is closed before it is there */
  weft_mutex_t mu;
  weft_str_t handle; /* guarded by mu until it is set, then constant; owned; data NULL before */
  int64_t version;   /* guarded by mu */
  bool is_closed;    /* guarded by mu */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a session"); }

/* ---- waiting ---- */

/* An answer that a caller waits for. Of a session in this process it is mostly there when the call returns:
 * then neither mutex nor condition are made.
 *
 *   COMING -> HERE              deliver(): the caller has not begun to wait, and may go on at once
 *   COMING -> AWAITED -> HERE   await(), then deliver(), under mu: the caller sleeps
 */
enum { ANSWER_COMING, ANSWER_AWAITED, ANSWER_HERE };

typedef struct pending_answer {
  atomic_int state; /* the rest is written before it is ANSWER_HERE (release, acquire) */
  weft_mutex_t mu;  /* made before it is ANSWER_AWAITED, as is the condition */
  weft_cond_t came;
  weft_status_t *status; /* owned */
  char *text;            /* owned: a handle */
  size_t text_length;
  int64_t number;
  weft_tensor_t **fetches; /* borrowed */
  int num_fetches;
  weft_strbuf_t *metadata; /* borrowed; may be NULL */
  weft_device_list_t devices;
} pending_answer_t;

static void expect(pending_answer_t *a) { memset(a, 0, sizeof *a); }

/* `a` may be gone when the state is ANSWER_HERE and mu is free. */
static void deliver(pending_answer_t *a, weft_status_t *status) {
  int state = ANSWER_COMING;
  a->status = status;
  if (atomic_compare_exchange_strong(&a->state, &state, ANSWER_HERE)) return;
  weft_mutex_lock(&a->mu);
  atomic_store(&a->state, ANSWER_HERE);
  weft_cond_signal(&a->came);
  weft_mutex_unlock(&a->mu);
}

/* Woken by deliver(), which every call of a master reaches once. */
static weft_status_t *await(pending_answer_t *a) {
  int state = ANSWER_COMING;
  if (atomic_load(&a->state) == ANSWER_HERE) return a->status;
  weft_mutex_init(&a->mu);
  weft_cond_init(&a->came);
  if (atomic_compare_exchange_strong(&a->state, &state, ANSWER_AWAITED)) {
    weft_mutex_lock(&a->mu);
    while (atomic_load(&a->state) != ANSWER_HERE) weft_cond_wait(&a->came, &a->mu);
    weft_mutex_unlock(&a->mu);
  }
  weft_cond_deinit(&a->came);
  weft_mutex_deinit(&a->mu);
  return a->status;
}

static void done(void *arg, weft_status_t *status) { deliver(arg, status); }

static void got_session(void *arg, weft_status_t *status, weft_str_t session, int64_t version) {
  pending_answer_t *a = arg;
  if (status == NULL) {
    a->text = weft_strndup(session.data, session.length);
    a->text_length = session.length;
    a->number = version;
    if (a->text == NULL) status = no_memory();
  }
  deliver(a, status);
}

static void got_number(void *arg, weft_status_t *status, int64_t number) {
  ((pending_answer_t *)arg)->number = number;
  deliver(arg, status);
}

static void got_text(void *arg, weft_status_t *status, weft_str_t text) { got_session(arg, status, text, 0); }

static void got_fetches(void *arg, weft_status_t *status, weft_run_step_result_t *result) {
  pending_answer_t *a = arg;
  if (status == NULL) {
    for (int i = 0; i < result->num_fetches; i++) {
      if (i < a->num_fetches) {
        a->fetches[i] = result->fetches[i];
      } else {
        weft_tensor_release(result->fetches[i]);
      }
    }
    if (a->metadata != NULL) weft_strbuf_append(a->metadata, result->metadata);
  }
  deliver(a, status);
}

static void got_devices(void *arg, weft_status_t *status, const weft_device_list_t *devices) {
  pending_answer_t *a = arg;
  for (int i = 0; status == NULL && i < devices->n; i++)
    status = weft_device_list_add(&a->devices, &devices->devices[i]);
  deliver(a, status);
}

/* ---- opening ---- */

static weft_status_t *unknown_target(const char *target) {
  return WEFT_ERROR(NOT_FOUND,
                    "No session factory registered for the given session options: {target: \"%s\" config: } "
                    "Registered factories are {GRPC_SESSION, DIRECT_SESSION}.",
                    target);
}

static weft_status_t *check_address(weft_str_t address) {
  uint64_t port = 0;
  ptrdiff_t colon = weft_str_rfind(address, ':');
  bool is_ok =
      colon > 0 && weft_str_find(address, '/') < 0 &&
      weft_str_to_u64(weft_str_of(address.data + colon + 1, address.length - (size_t)colon - 1), &port) &&
      port <= UINT32_MAX;
  if (is_ok) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Could not interpret \"%.*s\" as a host-port pair.",
                    WEFT_STR_ARGS(address));
}

static weft_status_t *connect_to(weft_connection_t *c, bool fails_fast) {
  static const char scheme[] = "grpc://";
  weft_str_t target = weft_str(c->target);
  if (target.length == 0) {
    c->is_local = true;
    WEFT_RETURN_IF_ERROR(weft_client_config_check(&c->options));
    return weft_local_master_create(c->options.num_threads, c->options.num_cpus, &c->options.accelerators,
                                    &c->master);
  }
  if (!weft_str_starts_with(target, scheme)) return unknown_target(c->target);
  weft_str_t address = weft_str_of(target.data + sizeof scheme - 1, target.length - (sizeof scheme - 1));
  WEFT_RETURN_IF_ERROR(check_address(address));
  WEFT_RETURN_IF_ERROR(weft_rpc_client_create(1, &c->rpc));
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(c->rpc, address, &c->channel));
  return fails_fast
             ? weft_remote_master_client_create_fail_fast(c->channel, c->options.timeout_ms, &c->master)
             : weft_remote_master_client_create(c->channel, c->options.timeout_ms, &c->master);
}

weft_status_t *weft_connection_open(const TF_SessionOptions *options, weft_connection_t **out) {
  weft_connection_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return no_memory();
  weft_mutex_init(&c->mu);
  weft_strbuf_t local = WEFT_STRBUF_INIT;
  weft_str_t config = weft_str_of(options->config, options->config_bytes);
  c->target = weft_strdup(options->target == NULL ? "" : options->target);
  c->canceller = weft_canceller_create(NULL);
  weft_status_t *s = c->target == NULL || c->canceller == NULL ? no_memory() : NULL;
  if (s == NULL) s = weft_client_config_read(config, &c->options, &local);
  if (s == NULL) s = connect_to(c, options->fails_fast);
  if (s == NULL) {
    weft_str_t kept = c->is_local ? weft_str_of(local.data, local.length) : config;
    c->config = weft_strndup(kept.data == NULL ? "" : kept.data, kept.length);
    c->config_bytes = kept.length;
    if (c->config == NULL) s = no_memory();
  }
  weft_strbuf_deinit(&local);
  if (s != NULL) {
    weft_connection_destroy(c);
    return s;
  }
  *out = c;
  return NULL;
}

void weft_connection_destroy(weft_connection_t *c) {
  if (c == NULL) return;
  if (c->master != NULL)
    weft_status_free(weft_connection_close(c)); /* the master is told, whatever it answers */
  weft_presence_stop(c->presence);
  weft_master_client_release(c->master);
  if (c->channel != NULL) weft_rpc_channel_release(c->channel);
  weft_rpc_client_destroy(c->rpc);
  weft_canceller_release(c->canceller);
  weft_mutex_deinit(&c->mu);
  weft_free((void *)(uintptr_t)c->handle.data);
  weft_free(c->config);
  weft_free(c->target);
  weft_free(c);
}

/* ---- the session ---- */

static weft_str_t handle_of(weft_connection_t *c, int64_t *version, bool *is_closed) {
  weft_mutex_lock(&c->mu);
  weft_str_t h = c->handle;
  if (version != NULL) *version = c->version;
  if (is_closed != NULL) *is_closed = c->is_closed;
  weft_mutex_unlock(&c->mu);
  return h;
}

bool weft_connection_is_local(const weft_connection_t *c) { return c->is_local; }
bool weft_connection_has_session(weft_connection_t *c) { return handle_of(c, NULL, NULL).data != NULL; }

/* Where TensorFlow's session in one process words a failure differently from its master. */
static const struct {
  const char *from, *to;
} local_words[] = {
    {"Must run PartialRunSetup before performing partial runs",
     "Must run 'setup' before performing partial runs!"},
    {"Timed out waiting for notification", "Timed out waiting for notification"}, /* and nothing behind it */
};

/* A session in this process has one task, which needs no naming. Consumes `s`. */
static weft_status_t *told(weft_connection_t *c, weft_status_t *s) {
  static const char from[] = "From /job:localhost/replica:0/task:0:\n";
  if (s == NULL || !c->is_local) return s;
  const char *text = weft_status_message(s);
  if (weft_str_starts_with(weft_str(text), from)) text += sizeof from - 1;
  for (size_t i = 0; i < sizeof local_words / sizeof local_words[0]; i++) {
    if (weft_str_starts_with(weft_str(text), local_words[i].from)) text = local_words[i].to;
  }
  if (text == weft_status_message(s)) return s;
  weft_status_t *bare = weft_status_from_wire((int)weft_status_code(s), text, strlen(text));
  weft_status_free(s);
  return bare;
}

static weft_status_t *closed(const weft_connection_t *c) {
  return c->is_local ? WEFT_ERROR(CANCELLED, "Session has been closed.")
                     : WEFT_ERROR(INVALID_ARGUMENT, "A session is not created yet....");
}

static weft_status_t *need_session(weft_connection_t *c, weft_str_t *out) {
  bool is_closed = false;
  *out = handle_of(c, NULL, &is_closed);
  if (is_closed) return closed(c);
  if (out->data == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "Session was not created with a graph before Run()!");
  return NULL;
}

static weft_status_t *close_at_master(weft_connection_t *c, weft_str_t session) {
  pending_answer_t a;
  expect(&a);
  c->master->ops->close_session(c->master, session, done, &a);
  return told(c, await(&a));
}

static weft_status_t *create_session(weft_connection_t *c, weft_str_t graph_def) {
  weft_create_session_t r = {.graph_def = graph_def,
                             .config = weft_str_of(c->config, c->config_bytes),
                             .target = weft_str(c->target)};
  if (!c->is_local && c->presence == NULL) WEFT_RETURN_IF_ERROR(weft_presence_start(c->master, &c->presence));
  if (!c->is_local) r.client = weft_presence_id(c->presence);
  pending_answer_t a;
  expect(&a);
  c->master->ops->create_session(c->master, &r, c->canceller, got_session, &a);
  WEFT_RETURN_IF_ERROR(await(&a));
  weft_mutex_lock(&c->mu);
  c->handle = weft_str_of(a.text, a.text_length);
  c->version = a.number;
  bool is_closed = c->is_closed;
  weft_mutex_unlock(&c->mu);
  if (!is_closed) return NULL;
  weft_status_free(close_at_master(c, c->handle)); /* it was closed while it was created */
  return closed(c);
}

weft_status_t *weft_connection_extend(weft_connection_t *c, weft_str_t graph_def) {
  int64_t version = 0;
  bool is_closed = false;
  weft_str_t session = handle_of(c, &version, &is_closed);
  if (is_closed) return closed(c);
  if (session.data == NULL) return told(c, create_session(c, graph_def));
  const weft_extend_session_t r = {.session = session, .graph_def = graph_def, .current_version = version};
  pending_answer_t a;
  expect(&a);
  c->master->ops->extend_session(c->master, &r, c->canceller, got_number, &a);
  weft_status_t *s = await(&a);
  if (s != NULL) return told(c, s);
  weft_mutex_lock(&c->mu);
  c->version = a.number;
  weft_mutex_unlock(&c->mu);
  return NULL;
}

weft_status_t *weft_connection_run(weft_connection_t *c, weft_run_step_t *r, weft_tensor_t **out_fetches,
                                   weft_strbuf_t *metadata) {
  WEFT_RETURN_IF_ERROR(need_session(c, &r->session));
  if (!c->is_local) r->request_id = (int64_t)weft_random_id();
  if (r->options.timeout_ms == 0) r->options.timeout_ms = c->options.timeout_ms;
  pending_answer_t a;
  expect(&a);
  a.fetches = out_fetches;
  a.num_fetches = r->num_fetches;
  a.metadata = metadata;
  c->master->ops->run_step(c->master, r, c->canceller, got_fetches, &a);
  return told(c, await(&a));
}

weft_status_t *weft_connection_partial_setup(weft_connection_t *c, weft_partial_run_setup_t *r,
                                             char **out_handle) {
  WEFT_RETURN_IF_ERROR(need_session(c, &r->session));
  if (!c->is_local) r->request_id = (int64_t)weft_random_id();
  pending_answer_t a;
  expect(&a);
  c->master->ops->partial_run_setup(c->master, r, c->canceller, got_text, &a);
  weft_status_t *s = await(&a);
  if (s == NULL) *out_handle = a.text;
  return told(c, s);
}

weft_status_t *weft_connection_list_devices(weft_connection_t *c, weft_device_list_t *out) {
  if (!weft_connection_has_session(c)) WEFT_RETURN_IF_ERROR(weft_connection_extend(c, WEFT_STR("")));
  weft_str_t session;
  WEFT_RETURN_IF_ERROR(need_session(c, &session));
  pending_answer_t a;
  expect(&a);
  c->master->ops->list_devices(c->master, session, c->canceller, got_devices, &a);
  weft_status_t *s = await(&a);
  if (s != NULL) {
    weft_device_list_deinit(&a.devices);
    return told(c, s);
  }
  *out = a.devices;
  return NULL;
}

weft_status_t *weft_connection_reset(weft_connection_t *c, const weft_str_t *containers, int n) {
  pending_answer_t a;
  expect(&a);
  c->master->ops->reset(c->master, containers, n, NULL, 0, done, &a);
  return told(c, await(&a));
}

weft_status_t *weft_connection_close(weft_connection_t *c) {
  weft_mutex_lock(&c->mu);
  bool was_closed = c->is_closed;
  c->is_closed = true;
  weft_str_t session = c->handle;
  weft_mutex_unlock(&c->mu);
  if (was_closed) return NULL;
  if (session.data != NULL) return close_at_master(c, session);
  weft_canceller_cancel(c->canceller); /* one that is being created waits for all tasks of the cluster */
  return NULL;
}
