/* rpc/service.h - a call whose messages are described by tables: decode, serve, encode. */
#ifndef WEFT_RPC_SERVICE_H_
#define WEFT_RPC_SERVICE_H_

#include "rpc/fields.h"
#include "rpc/server.h"

/* One call of a service's method. Lives until it is answered; the request is decoded behind it. */
typedef struct weft_served {
  weft_rpc_call_t *call; /* owned */
  void *service;         /* borrowed */
  const weft_message_type_t *type;
  weft_arena_t arena; /* for whatever lives as long as the call */
  void *request;      /* `type`'s struct */
} weft_served_t;

/* Takes `call` over and decodes its request into a new struct of `request_bytes`. NULL: it was malformed, and
 * the call has been answered. */
weft_served_t *weft_serve(weft_rpc_call_t *call, void *service, const weft_message_type_t *type,
                          size_t request_bytes);
/* The same for methods with failures in the response's body: comes back also from a malformed request, as far
 * as it could be read, with *status (owned). NULL only without memory. */
weft_served_t *weft_serve_any(weft_rpc_call_t *call, void *service, const weft_message_type_t *type,
                              size_t request_bytes, weft_status_t **status);
weft_canceller_t *weft_served_canceller(weft_served_t *s); /* lent until the answer */
/* Each ends the call and frees `s`. `status` is consumed. An answer that cannot be encoded fails the call. */
void weft_served_reply(weft_served_t *s, const weft_message_type_t *type, const void *response);
void weft_served_reply_empty(weft_served_t *s);
void weft_served_reply_bytes(weft_served_t *s, weft_str_t response);
void weft_served_reply_message(weft_served_t *s, weft_message_t *response); /* consumed */
void weft_served_fail(weft_served_t *s, weft_status_t *status);

#endif /* WEFT_RPC_SERVICE_H_ */
