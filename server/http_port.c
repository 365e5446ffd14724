/* server/http_port.c - HTTP by libevent, on a thread of its own. */
#define _GNU_SOURCE
#include "server/http_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { MAX_HEADERS = 16 << 10, MAX_BODY = 1 << 10, TIMEOUT_S = 10 };

struct weft_http_port {
  weft_http_answers_t answers;
  struct event_base *base; /* of the thread, once that runs */
  struct evhttp *http;
  struct event *stop;
  int stop_pipe[2]; /* a byte in it ends the thread */
  int number;
  pthread_t thread;
  bool is_started;
};

static void reply(struct evhttp_request *r, int code, const char *reason, const char *type, weft_str_t text) {
  struct evbuffer *body = evbuffer_new();
  if (body == NULL || evbuffer_add(body, text.data, text.length) != 0) {
    evhttp_send_error(r, HTTP_INTERNAL, "out of memory");
  } else {
    evhttp_add_header(evhttp_request_get_output_headers(r), "Content-Type", type);
    evhttp_add_header(evhttp_request_get_output_headers(r), "Cache-Control", "no-store");
    evhttp_send_reply(r, code, reason, body);
  }
  if (body != NULL) evbuffer_free(body);
}

#define PLAIN "text/plain; charset=utf-8"

static void healthz(struct evhttp_request *r, void *arg) {
  (void)arg;
  reply(r, HTTP_OK, "OK", PLAIN, WEFT_STR("ok\n"));
}

static void readyz(struct evhttp_request *r, void *arg) {
  const weft_http_port_t *p = arg;
  weft_status_t *why = p->answers.why_not_ready(p->answers.arg);
  if (why == NULL) {
    reply(r, HTTP_OK, "OK", PLAIN, WEFT_STR("ready\n"));
    return;
  }
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "not ready: %s\n", weft_status_message(why));
  reply(r, HTTP_SERVUNAVAIL, "Service Unavailable", PLAIN, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  weft_status_free(why);
}

static void metrics(struct evhttp_request *r, void *arg) {
  const weft_http_port_t *p = arg;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  p->answers.write_metrics(p->answers.arg, &text);
  if (text.failed) {
    evhttp_send_error(r, HTTP_INTERNAL, "out of memory");
  } else {
    reply(r, HTTP_OK, "OK", "text/plain; version=0.0.4; charset=utf-8", weft_str_of(text.data, text.length));
  }
  weft_strbuf_deinit(&text);
}

static void other(struct evhttp_request *r, void *arg) {
  (void)arg;
  reply(r, HTTP_NOTFOUND, "Not Found", PLAIN, WEFT_STR("there are /healthz, /readyz and /metrics\n"));
}

/* ---- the thread ---- */

static void on_stop(evutil_socket_t fd, short what, void *arg) {
  (void)fd, (void)what;
  event_base_loopbreak(((weft_http_port_t *)arg)->base);
}

/* Signals are other threads' affair; so a peer that is gone is an error of a write, not the end of the
 * process. */
static void *serve(void *arg) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  event_base_dispatch(((weft_http_port_t *)arg)->base);
  return NULL;
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("an HTTP port"); }

static int port_of(evutil_socket_t fd) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                             : ((struct sockaddr_in *)&address)->sin_port);
}

static weft_status_t *bind_to(weft_http_port_t *p, const char *host, int port) {
  struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(p->http, host, (uint16_t)port);
  if (bound == NULL)
    return WEFT_ERROR(UNAVAILABLE, "cannot listen for HTTP on %s:%d: %s", host, port, strerror(errno));
  p->number = port_of(evhttp_bound_socket_get_fd(bound));
  return NULL;
}

static weft_status_t *build(weft_http_port_t *p, const char *host, int port) {
  p->base = event_base_new();
  p->http = p->base != NULL ? evhttp_new(p->base) : NULL;
  if (p->http == NULL || pipe2(p->stop_pipe, O_CLOEXEC) != 0) return no_memory();
  p->stop = event_new(p->base, p->stop_pipe[0], EV_READ, on_stop, p);
  if (p->stop == NULL || event_add(p->stop, NULL) != 0) return no_memory();
  evhttp_set_allowed_methods(p->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(p->http, MAX_HEADERS);
  evhttp_set_max_body_size(p->http, MAX_BODY);
  evhttp_set_timeout(p->http, TIMEOUT_S);
  evhttp_set_gencb(p->http, other, p);
  if (evhttp_set_cb(p->http, "/healthz", healthz, p) != 0 ||
      evhttp_set_cb(p->http, "/readyz", readyz, p) != 0 ||
      evhttp_set_cb(p->http, "/metrics", metrics, p) != 0)
    return no_memory();
  WEFT_RETURN_IF_ERROR(bind_to(p, host, port));
  p->is_started = pthread_create(&p->thread, NULL, serve, p) == 0;
  if (!p->is_started) return no_memory();
  pthread_setname_np(p->thread, "weft-http");
  return NULL;
}

weft_status_t *weft_http_port_create(const char *host, int port, const weft_http_answers_t *answers,
                                     weft_http_port_t **out) {
  weft_http_port_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  p->answers = *answers;
  p->stop_pipe[0] = p->stop_pipe[1] = -1;
  weft_status_t *s = build(p, host, port);
  if (s != NULL) {
    weft_http_port_destroy(p);
    return s;
  }
  *out = p;
  return NULL;
}

int weft_http_port_number(const weft_http_port_t *p) { return p->number; }

void weft_http_port_destroy(weft_http_port_t *p) {
  if (p == NULL) return;
  if (p->is_started) {
    (void)!write(p->stop_pipe[1], "", 1);
    pthread_join(p->thread, NULL);
  }
  if (p->stop != NULL) event_free(p->stop);
  if (p->http != NULL) evhttp_free(p->http);
  if (p->base != NULL) event_base_free(p->base);
  for (int i = 0; i < 2; i++) {
    if (p->stop_pipe[i] >= 0) close(p->stop_pipe[i]);
  }
  weft_free(p);
}
