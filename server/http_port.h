/* server/http_port.h - a port for operators' tools: is the task alive, is it ready, and its numbers.
 *
 *   GET /healthz   200 "ok": the process answers
 *   GET /readyz    200 "ready", or 503 with the reason
 *   GET /metrics   Prometheus's text format
 *
 * One thread serves all of it with libevent. Requests have no body, are small, and end within seconds; a
 * connection that says nothing is closed. Nothing is changed by any of them, and there is no authentication:
 * the port belongs on an address that only the site reaches.
 */
#ifndef WEFT_SERVER_HTTP_PORT_H_
#define WEFT_SERVER_HTTP_PORT_H_

#include "base/status.h"
#include "base/str.h"

typedef struct weft_http_port weft_http_port_t; /* Thread-safe. */

/* Both are called on the port's thread, and must not block. */
typedef struct weft_http_answers {
  /* Ready: NULL. Else why not; the caller owns it. */
  weft_status_t *(*why_not_ready)(void *arg);
  void (*write_metrics)(void *arg, weft_strbuf_t *out);
  void *arg;
} weft_http_answers_t;

/* Binds and serves. `host`: an address or a name; `port` 0: any free one. Errors: UNAVAILABLE, with the
 * address; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_http_port_create(const char *host, int port,
                                                     const weft_http_answers_t *answers,
                                                     weft_http_port_t **out);
int weft_http_port_number(const weft_http_port_t *p); /* that it is bound to */
void weft_http_port_destroy(weft_http_port_t *p); /* ends connections and joins the thread. NULL is fine */

#endif /* WEFT_SERVER_HTTP_PORT_H_ */
