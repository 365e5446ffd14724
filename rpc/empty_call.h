/* rpc/empty_call.h - the time of a call that says nothing, by gRPC's core alone: the floor of every call of
 * ours.
 *
 * Nothing of ours is between: the server answers from the queue that told it of the call, and the
 * client waits as ours does, looking for the answer before it sleeps. For benchmarks.
 */
#ifndef WEFT_RPC_EMPTY_CALL_H_
#define WEFT_RPC_EMPTY_CALL_H_

#include "base/status.h"

/* Serves on a free port of 127.0.0.1, which it writes to `to` as an int, until `until` ends. For a process of
 * its own: its thread is left behind. Errors: INTERNAL. */
WEFT_MUST_CHECK weft_status_t *weft_rpc_empty_call_serve(int to, int until);

/* The median of `num_calls` calls to such a server, in nanoseconds. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE.
 */
WEFT_MUST_CHECK weft_status_t *weft_rpc_empty_call_measure(int port, int num_calls, double *out_ns);

#endif /* WEFT_RPC_EMPTY_CALL_H_ */
