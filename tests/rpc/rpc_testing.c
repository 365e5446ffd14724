/* tests/rpc/rpc_testing.c - see the header. */
#include "tests/rpc/rpc_testing.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/runner.h"

/* ---- latches ---- */

void weft_test_latch_init(weft_test_latch_t *l) {
  weft_mutex_init(&l->mu);
  weft_cond_init(&l->changed);
  l->count = 0;
}
void weft_test_latch_deinit(weft_test_latch_t *l) {
  weft_cond_deinit(&l->changed);
  weft_mutex_deinit(&l->mu);
}
void weft_test_latch_add(weft_test_latch_t *l) {
  weft_mutex_lock(&l->mu);
  l->count++;
  weft_cond_broadcast(&l->changed);
  weft_mutex_unlock(&l->mu);
}
static bool wait_for_ns(weft_test_latch_t *l, int count, int64_t ns) {
  const int64_t deadline = weft_clock_ns() + ns;
  weft_mutex_lock(&l->mu);
  bool in_time = true;
  while (l->count < count && in_time) in_time = weft_cond_wait_until(&l->changed, &l->mu, deadline);
  bool reached = l->count >= count;
  weft_mutex_unlock(&l->mu);
  return reached;
}
bool weft_test_latch_wait(weft_test_latch_t *l, int count) { return wait_for_ns(l, count, 60000000000); }

/* ---- the server ---- */

void weft_test_host_init(weft_test_host_t *h) {
  memset(h, 0, sizeof *h);
  weft_test_latch_init(&h->held);
  weft_test_latch_init(&h->cancelled);
  weft_test_latch_init(&h->unblocked);
}
void weft_test_host_deinit(weft_test_host_t *h) {
  weft_test_latch_deinit(&h->held);
  weft_test_latch_deinit(&h->cancelled);
  weft_test_latch_deinit(&h->unblocked);
}

static void answer_text(weft_rpc_call_t *call, weft_str_t text) {
  weft_message_t *response = NULL;
  weft_status_t *s = weft_message_create(&response);
  if (s == NULL) s = weft_message_append(response, text);
  if (s == NULL) {
    weft_rpc_reply(call, response);
  } else {
    weft_message_destroy(response);
    weft_rpc_fail(call, s);
  }
}

static void release_strbuf(void *arg) { weft_free(arg); }

/* Answers with the request's own bytes, copied once. */
static void echo(void *arg, weft_rpc_call_t *call) {
  weft_test_host_t *h = arg;
  if (weft_rpc_call_was_looked_for(call)) atomic_fetch_add(&h->num_looked_for, 1);
  weft_message_t *request = weft_rpc_call_request(call), *response = NULL;
  size_t n = weft_message_bytes(request);
  char *copy = weft_malloc(n + 1);
  weft_status_t *s = weft_message_create(&response);
  if (s == NULL && copy == NULL) s = WEFT_NO_MEMORY("an echo of %zu bytes", n);
  if (s == NULL) {
    (void)weft_message_read(request, 0, copy, n); /* all that there is */
    s = weft_message_share(response, copy, n, release_strbuf, copy);
    copy = NULL;
  }
  weft_free(copy);
  if (s != NULL) {
    weft_message_destroy(response);
    weft_rpc_fail(call, s);
  } else {
    weft_rpc_reply(call, response);
  }
}

static void echo_and_expect_more(void *arg, weft_rpc_call_t *call) {
  weft_rpc_call_expect_more(call);
  echo(arg, call);
}
static void tell_peer(void *arg, weft_rpc_call_t *call) {
  (void)arg;
  char peer[100];
  snprintf(peer, sizeof peer, "%s", weft_rpc_call_peer(call));
  answer_text(call, weft_str(peer));
}
static void fail(void *arg, weft_rpc_call_t *call) {
  (void)arg;
  weft_str_t text;
  weft_status_t *s = weft_message_flatten(weft_rpc_call_request(call), &text);
  if (s == NULL) s = WEFT_ERROR(ALREADY_EXISTS, "%.*s", WEFT_STR_ARGS(text));
  weft_rpc_fail(call, s);
}

/* Takes its thread until there is an UNBLOCK. */
static void block(void *arg, weft_rpc_call_t *call) {
  weft_test_host_t *h = arg;
  weft_test_latch_add(&h->held);
  weft_test_latch_wait(&h->unblocked, 1);
  answer_text(call, WEFT_STR(""));
}
static void unblock(void *arg, weft_rpc_call_t *call) {
  weft_test_latch_add(&((weft_test_host_t *)arg)->unblocked);
  answer_text(call, WEFT_STR(""));
}

typedef struct held {
  weft_test_host_t *h;
  weft_rpc_call_t *call;
} held_t;
static void answer_held(void *arg) {
  held_t *h = arg;
  weft_test_latch_t *cancelled = &h->h->cancelled;
  weft_rpc_call_t *call = h->call;
  weft_free(h);
  weft_test_latch_add(cancelled);
  weft_rpc_fail(call, WEFT_ERROR(CANCELLED, "held until cancelled"));
}
static void linger(void *arg) {
  weft_test_host_t *h = ((held_t *)arg)->h;
  if (wait_for_ns(&h->unblocked, 1, 200000000)) atomic_fetch_add(&h->num_overtaken, 1);
  answer_held(arg);
}
static void hold_until(void *arg, weft_rpc_call_t *call, void (*end)(void *arg)) {
  held_t *h = weft_calloc(1, sizeof *h);
  weft_test_latch_t *held = &((weft_test_host_t *)arg)->held;
  uint64_t token;
  h->h = arg;
  h->call = call;
  if (!weft_canceller_register(weft_rpc_call_canceller(call), end, h, &token)) end(h);
  weft_test_latch_add(held);
}
static void hold(void *arg, weft_rpc_call_t *call) { hold_until(arg, call, answer_held); }
static void hold_and_linger(void *arg, weft_rpc_call_t *call) { hold_until(arg, call, linger); }

weft_status_t *weft_test_host_serve(weft_test_host_t *h, int port, weft_rpc_client_t *client) {
  weft_rpc_server_options_t o = {.host = "127.0.0.1", .port = port, .client = client};
  WEFT_RETURN_IF_ERROR(weft_rpc_server_create(&o, &h->server));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, ECHO, echo, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, PEER, tell_peer, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, MORE, echo_and_expect_more, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, HOLD, hold, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, LINGER, hold_and_linger, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, FAIL, fail, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, BLOCK, block, h, NULL));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(h->server, UNBLOCK, unblock, h, NULL));
  return weft_rpc_server_start(h->server);
}

/* ---- the client ---- */

void weft_test_rpc_init(weft_test_rpc_t *f) {
  memset(f, 0, sizeof *f);
  weft_test_host_init(&f->host);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_client_create(2, &f->client));
}

void weft_test_rpc_connect(weft_test_rpc_t *f, int port) {
  char target[64];
  snprintf(target, sizeof target, "127.0.0.1:%d", port);
  CU_ASSERT_PTR_NULL_FATAL(weft_rpc_channel_create(f->client, weft_str(target), &f->channel));
}

void weft_test_rpc_setup(weft_test_rpc_t *f) {
  weft_test_rpc_init(f);
  CU_ASSERT_PTR_NULL_FATAL(weft_test_host_serve(&f->host, 0, f->client));
  weft_test_rpc_connect(f, weft_rpc_server_port(f->host.server));
}

void weft_test_rpc_teardown(weft_test_rpc_t *f) {
  weft_rpc_channel_release(f->channel);
  weft_rpc_server_destroy(f->host.server);
  weft_rpc_client_destroy(f->client);
  weft_test_host_deinit(&f->host);
}

weft_message_t *weft_test_text_message(weft_str_t text) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  if (s == NULL) s = weft_message_append(m, text);
  weft_status_free(s); /* the answer will show it */
  return m;
}

weft_status_t *weft_test_ask(weft_test_rpc_t *f, const char *path, weft_str_t text,
                             const weft_rpc_options_t *o, weft_message_t **out) {
  *out = NULL;
  return weft_rpc_call_sync(f->channel, path, weft_test_text_message(text), o, out);
}

bool weft_test_echoes(weft_test_rpc_t *f, weft_str_t text, const weft_rpc_options_t *o) {
  weft_message_t *m;
  weft_str_t got = {NULL, 0};
  weft_status_t *s = weft_test_ask(f, ECHO, text, o, &m);
  bool ok = s == NULL;
  if (ok) s = weft_message_flatten(m, &got);
  ok = ok && s == NULL && weft_str_eq(got, text);
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

bool weft_test_is_near(weft_test_rpc_t *f, const weft_rpc_options_t *o) {
  weft_message_t *m;
  weft_str_t peer = {NULL, 0};
  weft_status_t *s = weft_test_ask(f, PEER, WEFT_STR(""), o, &m);
  if (s == NULL) s = weft_message_flatten(m, &peer);
  const bool ok = s == NULL && weft_str_starts_with(peer, "unix:process ");
  weft_status_free(s);
  weft_message_destroy(m);
  return ok;
}

void weft_test_become_near(weft_test_rpc_t *f) {
  bool ok = false;
  for (int i = 0; i < 100 && !ok; i++) ok = weft_test_is_near(f, NULL);
  CU_ASSERT_TRUE_FATAL(ok);
}

/* ---- calls that are told of their end ---- */

void weft_test_answers_count(void *arg, weft_status_t *status, weft_message_t *response) {
  weft_test_answers_t *a = arg;
  atomic_fetch_add(&a->codes[weft_status_code(status)], 1);
  if (response != NULL) atomic_fetch_add(&a->bytes, (long)weft_message_bytes(response));
  if (status != NULL) {
    weft_mutex_lock(&a->latch.mu);
    snprintf(a->text, sizeof a->text, "%s", weft_status_message(status));
    weft_mutex_unlock(&a->latch.mu);
  }
  weft_status_free(status);
  weft_message_destroy(response);
  weft_test_latch_add(&a->latch);
}
void weft_test_answers_init(weft_test_answers_t *a) {
  memset(a, 0, sizeof *a);
  weft_test_latch_init(&a->latch);
}
void weft_test_begin(weft_test_rpc_t *f, const char *path, weft_str_t text, const weft_rpc_options_t *o,
                     weft_test_answers_t *a) {
  weft_rpc_call(f->channel, path, weft_test_text_message(text), o, weft_test_answers_count, a);
}

void weft_test_answers_deinit(weft_test_answers_t *a) { weft_test_latch_deinit(&a->latch); }
