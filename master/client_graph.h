/* master/client_graph.h - the part of a session's graph that one signature needs, with its feeds and fetches.
 *
 * Feed "n:i" becomes a _Recv, fetch "n:i" a _Send, both on the client device and
 * client-terminated. Source: CG/subgraph.cc as restated in the reference, 3.4.
 */
#ifndef WEFT_MASTER_CLIENT_GRAPH_H_
#define WEFT_MASTER_CLIENT_GRAPH_H_

#include "graph/graph.h"
#include "master/device_set.h"
#include "master/master.h"

typedef struct weft_signature {
  const weft_str_t *feeds, *fetches, *targets;
  int num_feeds, num_fetches, num_targets;
  const weft_str_t *connections_from,
      *connections_to; /* to: a tensor that gets from's value instead of its own */
  int num_connections;
  bool keeps_graphs;        /* workers keep the parts' graphs, for steps that record them */
  weft_str_t debug_options; /* serialized DebugOptions: what is watched; empty: nothing */
} weft_signature_t;

/* *out: a placed graph of its own with only what is needed. Errors: INVALID_ARGUMENT (nothing asked for; a
 * tensor fed twice; fed and fetched; no such output), NOT_FOUND naming the feed, fetch or target; of the
 * first needed node without a place, what `kernels` says is missing. `kernels` NULL: `full` was not placed.
 */
WEFT_MUST_CHECK weft_status_t *weft_client_graph_build(const weft_graph_t *full,
                                                       const weft_signature_t *signature,
                                                       const weft_session_device_t *client,
                                                       const weft_kernel_support_t *kernels,
                                                       weft_graph_t **out);
/* The rendezvous key of a feed or fetch. */
void weft_client_key(weft_strbuf_t *out, const weft_session_device_t *client, weft_str_t tensor);

/* Can `fetch` be computed when, of `feeds`, those with is_fed[i] false are still missing?
 * Errors: INVALID_ARGUMENT naming fetch and feed. For partial runs. */
WEFT_MUST_CHECK weft_status_t *weft_client_graph_check_fetch(const weft_graph_t *full, weft_str_t fetch,
                                                             const weft_str_t *feeds, const bool *is_fed,
                                                             int num_feeds);

#endif /* WEFT_MASTER_CLIENT_GRAPH_H_ */
