/* rpc/service.c - a call whose messages are described by tables. */
#include "rpc/service.h"

#include "base/alloc.h"

static weft_rpc_call_t *served_free(weft_served_t *s) {
  weft_rpc_call_t *call = s->call;
  weft_fields_release(s->type, s->request);
  weft_arena_deinit(&s->arena);
  weft_free(s);
  return call;
}

weft_served_t *weft_serve_any(weft_rpc_call_t *call, void *service, const weft_message_type_t *type,
                              size_t request_bytes, weft_status_t **status) {
  size_t head = (sizeof(weft_served_t) + 15) & ~(size_t)15;
  weft_served_t *s = weft_calloc(1, head + request_bytes);
  if (s == NULL) {
    weft_rpc_fail(call, WEFT_NO_MEMORY("a %s", type->name));
    return NULL;
  }
  s->call = call;
  s->service = service;
  s->type = type;
  s->request = (char *)s + head;
  *status = weft_fields_decode(type, weft_rpc_call_request(call), &s->arena, s->request);
  return s;
}

weft_served_t *weft_serve(weft_rpc_call_t *call, void *service, const weft_message_type_t *type,
                          size_t request_bytes) {
  weft_status_t *status = NULL;
  weft_served_t *s = weft_serve_any(call, service, type, request_bytes, &status);
  if (s == NULL || status == NULL) return s;
  weft_served_fail(s, status);
  return NULL;
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

void weft_served_reply_empty(weft_served_t *s) { weft_served_reply_bytes(s, WEFT_STR("")); }

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
