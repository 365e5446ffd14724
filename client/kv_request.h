/* client/kv_request.h - one request of a worker to the servers of a table: its pieces, and what comes back.
 */
#ifndef WEFT_CLIENT_KV_REQUEST_H_
#define WEFT_CLIENT_KV_REQUEST_H_

#include "client/kv_link.h"

typedef struct weft_kv_request weft_kv_request_t;

/* What one server gets of a request. */
typedef struct weft_kv_piece {
  struct weft_kv_piece *next; /* in the server's line */
  weft_kv_request_t *request; /* borrowed: it waits for its pieces */
  int server, tries;
  int64_t num_keys, *positions;    /* of its keys among the request's; owned */
  TF_Tensor *keys, *values, *lens; /* owned; values and lens NULL for a pull */
  TF_Tensor *pulled, *pulled_lens; /* what came back; owned */
} weft_kv_piece_t;

struct weft_kv_request {
  int64_t timestamp;
  weft_kv_call_t call;
  int priority;
  size_t element;                 /* bytes of a value */
  int64_t width, num_keys, clock; /* clock: how often the worker had advanced */
  weft_kv_piece_t *pieces;        /* num_pieces; owned */
  int num_pieces, num_open;       /* num_open: guarded by the worker's mu */
  void *pulled;                   /* the caller's; may be NULL */
  int64_t max_pulled, *pulled_lens;
  TF_Code code;  /* guarded by the worker's mu */
  char *message; /* owned; the same */
  WEFT_KvDoneFn done;
  void *user;
};

/* What the caller asks. lens NULL: `width` values per key. */
typedef struct weft_kv_ask {
  weft_kv_call_t call;
  const int64_t *keys;
  int64_t num_keys;
  const void *values;
  const int64_t *lens;
  int priority;
  bool goes_everywhere; /* also to servers that have none of the keys */
} weft_kv_ask_t;

/* Cuts the request. Errors: INVALID_ARGUMENT (a key out of range, a length below 0), RESOURCE_EXHAUSTED. */
weft_kv_request_t *weft_kv_request_new(const WEFT_KvOptions *o, int num_servers, const weft_kv_ask_t *ask,
                                       TF_Status *status);
void weft_kv_request_free(weft_kv_request_t *r); /* NULL is fine */
/* All pieces of a pull are there: to the caller's memory. */
void weft_kv_request_gather(weft_kv_request_t *r, TF_Status *status);
TF_Tensor *weft_kv_scalar_tensor(int64_t value); /* NULL without memory */

#endif /* WEFT_CLIENT_KV_REQUEST_H_ */
