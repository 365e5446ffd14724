/* client/session.h - TF_Session: a graph and a connection that follows it. */
#ifndef WEFT_CLIENT_SESSION_H_
#define WEFT_CLIENT_SESSION_H_

#include "client/connection.h"
#include "client/graph.h"

/* Thread-safe. */
struct TF_Session {
  TF_Graph *graph; /* retained */
  weft_connection_t *connection;
  weft_mutex_t extending; /* held while new nodes are sent; taken before the graph's mu */
  atomic_int size;        /* node ids sent; written under extending */
};

/* A session of `graph` on a connection, which it owns from now on, that has the graph's first `size` node
 * ids. Errors: RESOURCE_EXHAUSTED; `c` is then still the caller's. */
WEFT_MUST_CHECK weft_status_t *weft_client_session_new(TF_Graph *graph, weft_connection_t *c, int size,
                                                       TF_Session **out);
/* Sends nodes that the graph has got since the last time, if there are any. */
WEFT_MUST_CHECK weft_status_t *weft_client_session_extend(TF_Session *s);

/* A step's names and tensors as the master wants them. Small steps live on the stack. */
enum { WEFT_CLIENT_STEP_INLINE = 16 };
typedef struct weft_client_step {
  weft_named_tensor_t *feeds;
  weft_str_t *fetches, *targets;
  weft_tensor_t **results; /* num_fetches */
  int *fetch_of;           /* num_outputs: which fetch an output is; equal outputs are fetched once */
  int num_feeds, num_fetches, num_targets, num_outputs;
  void *block; /* owned; NULL: all in the fields below */
  weft_named_tensor_t few_feeds[WEFT_CLIENT_STEP_INLINE];
  weft_str_t few_fetches[WEFT_CLIENT_STEP_INLINE], few_targets[WEFT_CLIENT_STEP_INLINE];
  weft_tensor_t *few_results[WEFT_CLIENT_STEP_INLINE];
  int few_fetch_of[WEFT_CLIENT_STEP_INLINE];
} weft_client_step_t;

/* Room for so many. Nothing is filled in. */
WEFT_MUST_CHECK weft_status_t *weft_client_step_init(weft_client_step_t *s, int num_feeds, int num_outputs,
                                                     int num_targets);
void weft_client_step_deinit(weft_client_step_t *s); /* releases feeds and results */
WEFT_MUST_CHECK weft_status_t *weft_client_step_feed(weft_client_step_t *s, weft_str_t name,
                                                     const TF_Tensor *value);
void weft_client_step_fetch(weft_client_step_t *s, weft_str_t name);
static inline void weft_client_step_target(weft_client_step_t *s, weft_str_t name) {
  s->targets[s->num_targets++] = name;
}
/* Does the operation have such an output? */
bool weft_client_is_output(TF_Output o);
/* That it does not: INVALID_ARGUMENT or NOT_FOUND, in the words of TensorFlow's server. */
WEFT_MUST_CHECK weft_status_t *weft_client_no_such_output(TF_Output o, bool is_feed);
/* All feeds, fetches and targets of a session's step. Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE,
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_client_step_add(weft_client_step_t *step, const weft_connection_t *c,
                                                    const TF_Output *inputs, TF_Tensor *const *input_values,
                                                    int ninputs, const TF_Output *outputs, int noutputs,
                                                    const TF_Operation *const *target_opers, int ntargets);
/* Runs it: fills outputs[num_outputs] with new tensors, or NULLs on failure. `handle` (may be NULL) is a
 * partial run's. run_options and run_metadata may be NULL. */
WEFT_MUST_CHECK weft_status_t *weft_client_step_run(weft_client_step_t *s, weft_connection_t *c,
                                                    const char *handle, const TF_Buffer *run_options,
                                                    TF_Tensor **outputs, TF_Buffer *run_metadata);

#endif /* WEFT_CLIENT_SESSION_H_ */
