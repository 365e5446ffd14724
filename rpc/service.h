/* rpc/service.h - a call whose messages are described by tables: decode, serve, encode. */
#ifndef WEFT_RPC_SERVICE_H_
#define WEFT_RPC_SERVICE_H_

#include "rpc/fields.h"
#include "rpc/recent_ids.h"
#include "rpc/server.h"

/* One call of a service's method. Lives until it is answered; the request is decoded behind it. */
typedef struct weft_served {
  weft_rpc_call_t *call; /* owned */
  void *service;         /* borrowed */
  const struct weft_service_method *method;
  weft_arena_t arena; /* for whatever lives as long as the call */
  void *request;      /* the struct of the method's request */
} weft_served_t;

/* A method: what it is asked, and what serves it. */
typedef struct weft_service_method {
  const char *path;
  const weft_message_type_t *request;
  size_t request_bytes;            /* of the request's struct */
  void (*serve)(weft_served_t *s); /* ends the call, now or later */
  /* Ends a call whose request is malformed, as far as it could be read, or was received before. NULL:
   * weft_served_fail. */
  void (*fail)(weft_served_t *s, weft_status_t *status);
  int tag; /* the service's own */
} weft_service_method_t;

/* Of a row: a method with the given request, and one whose request has the name of the function. */
#define WEFT_METHOD_OF(path_, message, fn)                                                             \
  .path = (path_), .request = &weft_##message##_type, .request_bytes = sizeof(weft_##message##_msg_t), \
  .serve = (fn)
#define WEFT_METHOD(path_, fn) WEFT_METHOD_OF(path_, fn##_request, fn)

/* Serves `n` methods, before the server starts; the table lives as long as the server. */
WEFT_MUST_CHECK weft_status_t *weft_service_register(weft_rpc_server_t *server,
                                                     const weft_service_method_t *methods, int n,
                                                     void *service);

/* Was no request with this id received before? Otherwise the call has been ended, with a refusal that gives
 * the method that name. */
bool weft_served_once(weft_served_t *s, weft_recent_ids_t *recent, int64_t id, const char *name);
weft_canceller_t *weft_served_canceller(weft_served_t *s); /* lent until the answer */
/* Each ends the call and frees `s`. `status` is consumed. An answer that cannot be encoded fails the call. */
void weft_served_reply(weft_served_t *s, const weft_message_type_t *type, const void *response);
void weft_served_reply_bytes(weft_served_t *s, weft_str_t response);
void weft_served_reply_message(weft_served_t *s, weft_message_t *response); /* consumed */
void weft_served_fail(weft_served_t *s, weft_status_t *status);
/* Fails if there is a status, else replies. */
void weft_served_answer(weft_served_t *s, weft_status_t *status, const weft_message_type_t *type,
                        const void *response);
void weft_served_done(void *arg,
                      weft_status_t *status); /* the same with an empty answer; arg: weft_served_t */

#endif /* WEFT_RPC_SERVICE_H_ */
