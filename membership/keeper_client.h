/* membership/keeper_client.h - the task that keeps the record, as another task reaches it: in the process, or
 * over gRPC. */
#ifndef WEFT_MEMBERSHIP_KEEPER_CLIENT_H_
#define WEFT_MEMBERSHIP_KEEPER_CLIENT_H_

#include "membership/keeper.h"

typedef void weft_beat_fn(void *arg, weft_status_t *status, uint64_t epoch); /* owns status */

typedef struct weft_keeper_client weft_keeper_client_t; /* Thread-safe. */
/* Each function is called once, on any thread, also before the call returns. UNAVAILABLE: the keeper is away.
 */
typedef struct weft_keeper_client_ops {
  void (*beat)(weft_keeper_client_t *c, const weft_keeper_caller_t *who, int64_t timeout_ms,
               weft_canceller_t *canceller, weft_beat_fn *fn, void *arg);
  void (*watch)(weft_keeper_client_t *c, const weft_keeper_caller_t *who, int64_t timeout_ms,
                weft_canceller_t *canceller, weft_roll_fn *fn, void *arg);
  /* Waits for the keeper to come up, for a while. */
  void (*ask)(weft_keeper_client_t *c, const weft_store_request_t *r, weft_canceller_t *canceller,
              weft_value_fn *fn, void *arg);
  void (*destroy)(weft_keeper_client_t *c);
} weft_keeper_client_ops_t;
struct weft_keeper_client {
  const weft_keeper_client_ops_t *ops;
};

/* A keeper of this process (borrowed). */
WEFT_MUST_CHECK weft_status_t *weft_local_keeper_client_create(weft_keeper_t *k, weft_keeper_client_t **out);

#endif /* WEFT_MEMBERSHIP_KEEPER_CLIENT_H_ */
