/* collectives/remote/peers.h - the requests of tasks to each other for collectives, without their transport.
 *
 * The worker gives these as functions (worker/worker_client.h); this folder knows neither workers nor gRPC.
 * The requests are those of TensorFlow's WorkerService.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_PEERS_H_
#define WEFT_COLLECTIVES_REMOTE_PEERS_H_

#include "collectives/transport.h"

/* RecvBuf. */
typedef struct weft_buf_request {
  int64_t step_id, request_id;
  weft_str_t key, src_device, dst_device; /* lent until done */
  int64_t bytes;            /* that the caller expects; INTERNAL if the owner has another number */
  uint64_t src_incarnation; /* 0: any */
} weft_buf_request_t;

/* The bytes of an answer. Lent until the callback returns; but `data` lives until release(release_arg), which
 * the callee calls once. */
typedef struct weft_buf weft_buf_t;
struct weft_buf {
  size_t bytes;
  const void *data; /* where they lie in this process; NULL: ask `read` */
  void (*read)(const weft_buf_t *b, size_t at, void *to, size_t n);
  void (*release)(void *arg); /* may be NULL */
  void *release_arg;
};
typedef void weft_buf_fn(void *arg, weft_status_t *status,
                         const weft_buf_t *buf); /* owns status; buf NULL then */

/* GetStepSequence: as many ids as keys were asked for; lent. */
typedef void weft_step_ids_fn(void *arg, weft_status_t *status, const int64_t *step_ids);

#endif /* WEFT_COLLECTIVES_REMOTE_PEERS_H_ */
