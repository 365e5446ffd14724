/* tools/run/local_cluster.h - servers on this host for the time of one job: started, waited for, stopped.
 *
 * Each server is a process of this program, in a process group of its own: Ctrl-C at the terminal reaches the
 * job alone, which ends its steps before the servers go. The kernel kills them if the process ends without
 * stopping them.
 */
#ifndef WEFT_TOOLS_RUN_LOCAL_CLUSTER_H_
#define WEFT_TOOLS_RUN_LOCAL_CLUSTER_H_

#include <stdint.h>

#include "base/status.h"

typedef struct weft_local_cluster weft_local_cluster_t; /* Confined to the main thread. */

typedef struct weft_local_cluster_options {
  int workers, ps; /* how many servers of each job; 1 worker at least */
  int cpus;        /* CPU devices that each offers */
} weft_local_cluster_options_t;

/* Returns when all listen. Their logs go to files that are removed at the end, unless one of them fails.
 * Errors: UNAVAILABLE (a server ended, or does not listen within 30 s; the message has its last words),
 * RESOURCE_EXHAUSTED, INTERNAL. */
WEFT_MUST_CHECK weft_status_t *weft_local_cluster_start(const weft_local_cluster_options_t *o,
                                                        weft_local_cluster_t **out);
/* "grpc://127.0.0.1:PORT" of worker 0; lent. */
const char *weft_local_cluster_master(const weft_local_cluster_t *c);
/* Stops all servers; those that do not end within 3 s are killed. NULL is fine. */
void weft_local_cluster_stop(weft_local_cluster_t *c);

#endif /* WEFT_TOOLS_RUN_LOCAL_CLUSTER_H_ */
