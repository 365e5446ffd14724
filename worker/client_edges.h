/* worker/client_edges.h - what a client feeds and fetches, by position instead of by name.
 *
 * RunGraph names each value by its rendezvous key. A graph's steps name them in the same order each time, so
 * the places in the plan (weft_client_edges_t) are found once; later steps only compare the names.
 */
#ifndef WEFT_WORKER_CLIENT_EDGES_H_
#define WEFT_WORKER_CLIENT_EDGES_H_

#include "executor/executor.h"
#include "worker/worker_client.h"

typedef struct weft_client_places {
  int num_feeds, num_fetches;
  int *feed_of, *fetch_of; /* place in the plan's client edges, by the order of RunGraph's names */
} weft_client_places_t;

/* Of a RunGraph that feeds all of the plan's feeds, once each, and fetches nothing else than its fetches,
 * none twice; NULL: this one does not, or there is no memory. */
weft_client_places_t *weft_client_places_find(const weft_client_edges_t *edges, const weft_run_graph_t *run);
void weft_client_places_free(weft_client_places_t *p); /* NULL is fine */
/* Are these the places of that RunGraph, too? */
bool weft_client_places_fit(const weft_client_places_t *p, const weft_client_edges_t *edges,
                            const weft_run_graph_t *run);

#endif /* WEFT_WORKER_CLIENT_EDGES_H_ */
