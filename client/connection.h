/* client/connection.h - a session at a master, near or far, with calls that wait for their answer.
 *
 * A connection without a target has a worker and a master of its own in this
 * process: its variables are private to it, and no network is touched. With
 * "grpc://host:port" it talks to the master there. The session itself is created
 * by the first graph that is sent.
 */
#ifndef WEFT_CLIENT_CONNECTION_H_
#define WEFT_CLIENT_CONNECTION_H_

#include "base/mutex.h"
#include "client/session_options.h"
#include "master/master_client.h"
#include "tensorflow/c/c_api.h"

typedef struct weft_connection weft_connection_t; /* Thread-safe. */

/* Does not wait for a server to come up. Errors: NOT_FOUND for a target of an unknown kind; INVALID_ARGUMENT.
 */
WEFT_MUST_CHECK weft_status_t *weft_connection_open(const TF_SessionOptions *options,
                                                    weft_connection_t **out);
/* Closes the session first, if that was not done. NULL is fine. */
void weft_connection_destroy(weft_connection_t *c);
/* Cancels what runs and waits for its end. Later calls fail. */
WEFT_MUST_CHECK weft_status_t *weft_connection_close(weft_connection_t *c);

bool weft_connection_is_local(const weft_connection_t *c); /* without a target */
bool weft_connection_has_session(weft_connection_t *c);
/* Creates the session with this GraphDef, or adds it to the session's graph. Callers take turns by
 * themselves. */
WEFT_MUST_CHECK weft_status_t *weft_connection_extend(weft_connection_t *c, weft_str_t graph_def);
/* Runs a step; r->session and request_id are filled in here. out_fetches[r->num_fetches] gets one reference
 * each. *metadata (may be NULL) gets a serialized RunMetadata. */
WEFT_MUST_CHECK weft_status_t *weft_connection_run(weft_connection_t *c, weft_run_step_t *r,
                                                   weft_tensor_t **out_fetches, weft_strbuf_t *metadata);
/* *out_handle is owned by the caller. */
WEFT_MUST_CHECK weft_status_t *weft_connection_partial_setup(weft_connection_t *c,
                                                             weft_partial_run_setup_t *r, char **out_handle);
/* *out is to be freed with weft_device_list_deinit. */
WEFT_MUST_CHECK weft_status_t *weft_connection_list_devices(weft_connection_t *c, weft_device_list_t *out);
WEFT_MUST_CHECK weft_status_t *weft_connection_reset(weft_connection_t *c, const weft_str_t *containers,
                                                     int n);

#endif /* WEFT_CLIENT_CONNECTION_H_ */
