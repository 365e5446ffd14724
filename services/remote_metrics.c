/* services/remote_metrics.c - one method, both sides. */
#include "services/remote_metrics.h"

#include "base/alloc.h"
#include "rpc/service.h"
#include "services/messages.h"

#define METHOD "/weft.WorkerService/Metrics"

struct weft_metrics_service {
  weft_write_metrics_fn *write;
  void *arg;
};

static void metrics(weft_served_t *s) {
  const weft_metrics_service_t *service = s->service;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  service->write(service->arg, &text);
  weft_status_t *status = text.failed ? WEFT_NO_MEMORY("the numbers of a task") : NULL;
  const weft_metrics_response_msg_t response = {.text = weft_str_of(text.data, text.length)};
  weft_served_answer(s, status, &weft_metrics_response_type, &response);
  weft_strbuf_deinit(&text);
}

static const weft_service_method_t methods[] = {{WEFT_METHOD_OF(METHOD, empty, metrics)}};

weft_status_t *weft_metrics_service_create(weft_rpc_server_t *server, weft_write_metrics_fn *write, void *arg,
                                           weft_metrics_service_t **out) {
  weft_metrics_service_t *made = weft_calloc(1, sizeof *made);
  if (made == NULL) return WEFT_NO_MEMORY("the metrics service");
  *made = (weft_metrics_service_t){write, arg};
  weft_status_t *s = weft_service_register(server, methods, sizeof methods / sizeof methods[0], made);
  if (s != NULL) {
    weft_free(made);
    return s;
  }
  *out = made;
  return NULL;
}

void weft_metrics_service_destroy(weft_metrics_service_t *s) { weft_free(s); }

/* ---- the client's side ---- */

typedef struct metrics_call {
  weft_metrics_text_fn *fn;
  void *arg;
} metrics_call_t;

static void on_metrics(void *arg, weft_status_t *status, weft_message_t *response) {
  metrics_call_t *call = arg;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_metrics_response_msg_t body = {.text = {NULL, 0}};
  if (status == NULL) status = weft_fields_decode(&weft_metrics_response_type, response, &arena, &body);
  call->fn(call->arg, status, status == NULL ? body.text : weft_str_of("", 0));
  weft_arena_deinit(&arena);
  weft_message_destroy(response);
  weft_free(call);
}

void weft_remote_metrics_get(weft_rpc_channel_t *channel, const weft_rpc_options_t *o,
                             weft_metrics_text_fn *fn, void *arg) {
  weft_message_t *request = NULL;
  metrics_call_t *call = weft_calloc(1, sizeof *call);
  weft_status_t *s = call == NULL ? WEFT_NO_MEMORY("calling " METHOD) : NULL;
  if (s == NULL) s = weft_fields_encode(&weft_empty_type, NULL, &request);
  if (s != NULL) {
    weft_free(call);
    fn(arg, s, weft_str_of("", 0));
    return;
  }
  *call = (metrics_call_t){fn, arg};
  weft_rpc_call(channel, METHOD, request, o, on_metrics, call);
}
