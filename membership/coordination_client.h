/* membership/coordination_client.h - the coordination service as a task reaches it: in the process, or over
 * gRPC. */
#ifndef WEFT_MEMBERSHIP_COORDINATION_CLIENT_H_
#define WEFT_MEMBERSHIP_COORDINATION_CLIENT_H_

#include "membership/coordination_service.h"

typedef void weft_beat_fn(void *arg, weft_status_t *status, uint64_t epoch); /* owns status */

typedef struct weft_coordination_client weft_coordination_client_t; /* Thread-safe. */
/* Each function calls `fn` once, on any thread, also before it returns. UNAVAILABLE: the service does not
 * answer. */
typedef struct weft_coordination_client_ops {
  void (*beat)(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
               weft_canceller_t *canceller, weft_beat_fn *fn, void *arg);
  void (*watch)(weft_coordination_client_t *c, const weft_coordination_caller_t *caller, int64_t timeout_ms,
                weft_canceller_t *canceller, weft_cluster_state_fn *fn, void *arg);
  /* Waits for the service to start, for a while. */
  void (*ask)(weft_coordination_client_t *c, const weft_store_request_t *r, weft_canceller_t *canceller,
              weft_value_fn *fn, void *arg);
  void (*destroy)(weft_coordination_client_t *c);
} weft_coordination_client_ops_t;
struct weft_coordination_client {
  const weft_coordination_client_ops_t *ops;
};

/* A service of this process (borrowed). */
WEFT_MUST_CHECK weft_status_t *weft_local_coordination_client_create(weft_coordination_t *service,
                                                                     weft_coordination_client_t **out);

#endif /* WEFT_MEMBERSHIP_COORDINATION_CLIENT_H_ */
