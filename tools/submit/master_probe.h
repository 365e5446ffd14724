/* tools/submit/master_probe.h - is there somebody at an address who speaks gRPC?
 *
 * A session waits for its master for ever, as TensorFlow's does; a person who
 * mistyped a port should not.
 */
#ifndef WEFT_TOOLS_SUBMIT_MASTER_PROBE_H_
#define WEFT_TOOLS_SUBMIT_MASTER_PROBE_H_

#include <stdbool.h>

#include "base/status.h"

/* Connects to `master`, "grpc://HOST:PORT", and exchanges HTTP/2 greetings; takes seconds at most.
 * Errors: INVALID_ARGUMENT if it is written in another way; UNAVAILABLE if nobody, or somebody else, is there. */
WEFT_MUST_CHECK weft_status_t *weft_master_probe(const char *master);

/* Does anybody accept connections there? For a master that was found before; takes seconds at most. */
bool weft_master_is_there(const char *master);

#endif /* WEFT_TOOLS_SUBMIT_MASTER_PROBE_H_ */
