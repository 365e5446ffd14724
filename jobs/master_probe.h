/* jobs/master_probe.h - does a gRPC server listen at an address?
 *
 * A session waits for its master for ever, as TensorFlow's does; a
 * mistyped port is found before.
 */
#ifndef WEFT_JOBS_MASTER_PROBE_H_
#define WEFT_JOBS_MASTER_PROBE_H_

#include <stdbool.h>

#include "base/status.h"

/* Is it written as "grpc://HOST:PORT"? Looks nothing up. */
bool weft_job_is_master(const char *master);

/* Connects to `master`, "grpc://HOST:PORT", and exchanges HTTP/2 greetings; takes seconds at most. `option`
 * ("--master") is for messages. Errors: INVALID_ARGUMENT if it is written in another way; UNAVAILABLE if no
 * server, or one of another kind, listens there. *out_may_come is set with an error: one that is being
 * started may come, as nothing listens there, it does not answer yet, or the host's name is not known. */
WEFT_MUST_CHECK weft_status_t *weft_job_probe_master(const char *option, const char *master,
                                                     bool *out_may_come);

/* Are connections accepted there? For a master that was found before; takes seconds at most. */
bool weft_job_master_is_there(const char *master);

#endif /* WEFT_JOBS_MASTER_PROBE_H_ */
