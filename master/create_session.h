/* master/create_session.h - from a graph and a configuration to a session that can run.
 *
 *   1. weft_create_session_start   configuration; which tasks take part
 *   2. got_status                  every task tells its devices: this waits for tasks that are not up yet
 *   3. load                        import, lower, place
 *   4. worker_ready                every worker makes its side of the session
 *   5. finish                      the answer
 */
#ifndef WEFT_MASTER_CREATE_SESSION_H_
#define WEFT_MASTER_CREATE_SESSION_H_

#include "master/session.h"

/* fn gets the session (retained) or NULL. */
typedef void weft_created_fn(void *arg, weft_status_t *status, weft_master_session_t *session);

typedef struct weft_create_options {
  weft_str_t task; /* the master's */
  weft_worker_cache_t *cache;
  weft_cluster_maker_t *clusters; /* may be NULL */
  const weft_kernel_support_t *kernels;
  const weft_evaluator_t *evaluator; /* may be NULL */
  weft_pass_settings_t passes;
  bool is_direct; /* see weft_master_options_t */
  weft_collective_steps_t *collective_steps;
  weft_timer_t *timer;
  int64_t discovery_timeout_ms; /* see weft_discover_options_t */
  weft_canceller_t *stop;       /* of the master; also ends the waiting */
} weft_create_options_t;

/* Does a task, or a device, take part under a configuration's device_filters? The master's own always does.
 */
bool weft_takes_part(const weft_session_config_t *config, weft_str_t name, weft_str_t master_task);

/* `r`'s texts are lent until fn. */
void weft_create_session_start(const weft_create_options_t *o, const weft_create_session_t *r,
                               weft_canceller_t *c, weft_created_fn *fn, void *arg);

/* How long tasks may take to answer, where nothing is known of them. */
enum { WEFT_DISCOVERY_TIMEOUT_MS = 60000 };
typedef struct weft_discover_options {
  weft_timer_t *timer;          /* borrowed, as the cache */
  weft_worker_cache_t *cache;   /* says which tasks are lost; NULL: nothing does */
  int64_t discovery_timeout_ms; /* 0: WEFT_DISCOVERY_TIMEOUT_MS */
} weft_discover_options_t;

/* Asks each of `n` workers for its devices; fn when all have answered. Logs every 10 s which have not.
 * Errors: UNAVAILABLE that names a task that is lost, or those that have not answered in time; CANCELLED. */
typedef void weft_discovered_fn(void *arg, weft_status_t *status,
                                weft_device_set_t *devices); /* lent; unfinished */
void weft_discover_devices(weft_worker_client_t *const *workers, int n, const weft_discover_options_t *o,
                           weft_canceller_t *c, weft_discovered_fn *fn, void *arg);

#endif /* WEFT_MASTER_CREATE_SESSION_H_ */
