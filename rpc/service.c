/* rpc/service.c - a call whose messages are described by tables. */
#include "rpc/service.h"

#include "base/alloc.h"

static weft_rpc_call_t *served_free(weft_served_t *s) {
  weft_rpc_call_t *call = s->call;
  weft_fields_release(s->method->request, s->request);
  weft_arena_deinit(&s->arena);
  weft_free(s);
  return call;
}

/* By the method's own way, if it has one. */
static void refuse(weft_served_t *s, weft_status_t *status) {
  if (s->method->fail != NULL)
    s->method->fail(s, status);
  else
    weft_served_fail(s, status);
}

static void serve(void *service, weft_rpc_call_t *call) {
  const weft_service_method_t *method = weft_rpc_call_row(call);
  size_t head = (sizeof(weft_served_t) + 15) & ~(size_t)15;
  weft_served_t *s = weft_calloc(1, head + method->request_bytes);
  if (s == NULL) {
    weft_rpc_fail(call, WEFT_NO_MEMORY("a %s", method->request->name));
    return;
  }
  s->call = call;
  s->service = service;
  s->method = method;
  s->request = (char *)s + head;
  weft_status_t *status =
      weft_fields_decode(method->request, weft_rpc_call_request(call), &s->arena, s->request);
  if (status != NULL)
    refuse(s, status);
  else
    method->serve(s);
}

weft_status_t *weft_service_register(weft_rpc_server_t *server, const weft_service_method_t *methods, int n,
                                     void *service) {
  for (int i = 0; i < n; i++)
    WEFT_RETURN_IF_ERROR(weft_rpc_server_handle(server, methods[i].path, serve, service, &methods[i]));
  return NULL;
}

bool weft_served_once(weft_served_t *s, weft_recent_ids_t *recent, int64_t id, const char *name) {
  weft_status_t *status = weft_recent_ids_add(recent, id, name);
  if (status == NULL) return true;
  refuse(s, status);
  return false;
}

weft_canceller_t *weft_served_canceller(weft_served_t *s) { return weft_rpc_call_canceller(s->call); }

void weft_served_reply(weft_served_t *s, const weft_message_type_t *type, const void *response) {
  weft_message_t *m = NULL;
  weft_status_t *status = weft_fields_encode(type, response, &m);
  if (status == NULL && weft_message_bytes(m) > INT32_MAX) {
    status =
        WEFT_ERROR(RESOURCE_EXHAUSTED, "a %s of %zu bytes is more than the 2 GiB that a message may have",
                   type->name, weft_message_bytes(m));
    weft_message_destroy(m);
  }
  weft_rpc_call_t *call = served_free(s);
  if (status != NULL) {
    weft_rpc_fail(call, status);
  } else {
    weft_rpc_reply(call, m);
  }
}

void weft_served_reply_bytes(weft_served_t *s, weft_str_t response) {
  weft_message_t *m = NULL;
  weft_status_t *status = weft_message_create(&m);
  if (status == NULL) status = weft_message_append(m, response);
  if (status != NULL) {
    weft_message_destroy(m);
    weft_served_fail(s, status);
    return;
  }
  weft_rpc_reply(served_free(s), m);
}

void weft_served_reply_message(weft_served_t *s, weft_message_t *response) {
  weft_rpc_reply(served_free(s), response);
}

void weft_served_fail(weft_served_t *s, weft_status_t *status) { weft_rpc_fail(served_free(s), status); }

void weft_served_answer(weft_served_t *s, weft_status_t *status, const weft_message_type_t *type,
                        const void *response) {
  if (status != NULL)
    weft_served_fail(s, status);
  else
    weft_served_reply(s, type, response);
}

void weft_served_done(void *arg, weft_status_t *status) {
  weft_served_t *s = arg;
  if (status != NULL)
    weft_served_fail(s, status);
  else
    weft_served_reply_bytes(s, WEFT_STR(""));
}
