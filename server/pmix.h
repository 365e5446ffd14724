/* server/pmix.h - asks the process manager of an MPI run where its ranks are. */
#ifndef WEFT_SERVER_PMIX_H_
#define WEFT_SERVER_PMIX_H_

#include "server/launcher.h"

/* The `pmix_places` of weft_launch_system_t for a process that a manager with PMIx has started (Open MPI's
 * mpirun, PRRTE). `arg` is not used. Waits for the manager's daemon on this host, which knows all places from
 * the start; other ranks are not asked. To be called once, before other threads. Errors: FAILED_PRECONDITION
 * if libpmix is not installed or the manager does not answer as it should. */
WEFT_MUST_CHECK weft_status_t *weft_pmix_places(void *arg, int num_ranks, weft_arena_t *arena,
                                                weft_rank_place_t *out);

#endif /* WEFT_SERVER_PMIX_H_ */
