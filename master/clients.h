/* master/clients.h - the clients that a master's sessions belong to, and whether they are still there.
 *
 * A client that gives itself an id when it creates sessions keeps one call, HoldClient, open at the master
 * for as long as it lives. The call breaks when the client's process ends or its connection is lost. The
 * client then has `grace_ms` to come back, as it does after an interruption of the network; after that it
 * counts as gone, and the master closes its sessions. Sessions without an id, as TensorFlow's clients create
 * them, are not looked after: they live until they are closed.
 *
 *                enter, hold            hold                       hold's call breaks
 *     unknown ----------------> away <=========> held     away since the first session,
 *                                |  hold's call breaks          or since the call broke
 *                                '--> gone: for grace_ms; its sessions are closed, and it is unknown again
 */
#ifndef WEFT_MASTER_CLIENTS_H_
#define WEFT_MASTER_CLIENTS_H_

#include "base/timer.h"
#include "master/master_client.h"

typedef struct weft_clients weft_clients_t; /* Thread-safe. */

/* The client is gone: the sessions that began in that life of it are to be closed. On the timer's thread,
 * with no lock held. `why`: "its client, ..., is gone since ..."; lent. */
typedef void weft_client_gone_fn(void *arg, uint64_t life, const char *why);

/* `grace_ms` below 0: no client is ever gone. */
WEFT_MUST_CHECK weft_status_t *weft_clients_create(weft_timer_t *timer, int64_t grace_ms,
                                                   weft_client_gone_fn *fn, void *arg, weft_clients_t **out);
/* All calls that hold a client end with UNAVAILABLE, later ones at once; no client is reported gone any more.
 */
void weft_clients_stop(weft_clients_t *c);
void weft_clients_destroy(weft_clients_t *c); /* stops; before the timer. NULL is fine */

/* A session of `client` begins in *out_life, which is its own for as long as the client is known; a client
 * that was gone and is back has another. An empty id is no client's, and has life 0. Errors: INVALID_ARGUMENT
 * for an id that cannot be printed or is too long; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_clients_enter(weft_clients_t *c, weft_str_t client, uint64_t *out_life);
/* It ended otherwise than by weft_client_gone_fn. */
void weft_clients_leave(weft_clients_t *c, weft_str_t client, uint64_t life);
/* The call that holds the client, as its weft_hold_client_t says: fn when it breaks, or another takes its
 * place. */
void weft_clients_hold(weft_clients_t *c, const weft_hold_client_t *r, weft_canceller_t *call,
                       weft_done_fn *fn, void *arg);

#endif /* WEFT_MASTER_CLIENTS_H_ */
