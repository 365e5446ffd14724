/* server/pmi.h - asks the other ranks of an MPI run where they are, through the process manager of MPICH. */
#ifndef WEFT_SERVER_PMI_H_
#define WEFT_SERVER_PMI_H_

#include "server/launcher.h"

/* Tells the others that `own` is rank `rank`, waits until all `num_ranks` ranks have told, and fills
 * out[num_ranks]; texts are put into the arena. `fd` is the number in PMI_FD, a socket to the process manager
 * on this host; it is closed. Blocks until all ranks have come; SIGTERM, which the manager sends when one
 * ends, ends the wait with the process. Errors: FAILED_PRECONDITION if the manager does not answer as it
 * should; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pmi_places(int fd, int rank, const weft_rank_place_t *own, int num_ranks,
                                               weft_arena_t *arena, weft_rank_place_t *out);

#endif /* WEFT_SERVER_PMI_H_ */
