/* worker/client_edges.c - see the header. */
#include "worker/client_edges.h"

#include "base/alloc.h"
#include "base/hash_map.h"

/* The place of each name that is wanted; `key_of(run, i)` is the i-th. False: one is not there, or is wanted
 * twice, or there is no memory. */
static bool find_all(const weft_str_t *keys, int num_keys, const weft_run_graph_t *run, int n,
                     weft_str_t (*key_of)(const weft_run_graph_t *run, int i), int *out) {
  weft_map_t places = WEFT_MAP_INIT;
  bool ok = true;
  for (int i = 0; ok && i < num_keys; i++) { /* a value in the map is the key's own place */
    weft_status_t *s = weft_map_put(&places, keys[i], (void *)(uintptr_t)&keys[i], NULL);
    ok = s == NULL;
    weft_status_free(s);
  }
  for (int i = 0; ok && i < n; i++) {
    const weft_str_t *at = weft_map_remove(&places, key_of(run, i));
    ok = at != NULL;
    if (ok) out[i] = (int)(at - keys);
  }
  weft_map_deinit(&places);
  return ok;
}

static weft_str_t send_key(const weft_run_graph_t *run, int i) { return run->sends[i].name; }
static weft_str_t recv_key(const weft_run_graph_t *run, int i) { return run->recv_keys[i]; }

weft_client_places_t *weft_client_places_find(const weft_client_edges_t *edges, const weft_run_graph_t *run) {
  const int feeds = run->num_sends, fetches = run->num_recvs;
  if (feeds != edges->num_feeds || fetches > edges->num_fetches) return NULL;
  weft_client_places_t *p = weft_calloc(1, sizeof *p + ((size_t)feeds + (size_t)fetches) * sizeof(int));
  if (p == NULL) return NULL;
  p->num_feeds = feeds;
  p->num_fetches = fetches;
  p->feed_of = (int *)(void *)(p + 1);
  p->fetch_of = p->feed_of + feeds;
  if (find_all(edges->feeds, edges->num_feeds, run, feeds, send_key, p->feed_of) &&
      find_all(edges->fetches, edges->num_fetches, run, fetches, recv_key, p->fetch_of)) {
    return p;
  }
  weft_free(p);
  return NULL;
}

void weft_client_places_free(weft_client_places_t *p) { weft_free(p); }

bool weft_client_places_fit(const weft_client_places_t *p, const weft_client_edges_t *edges,
                            const weft_run_graph_t *run) {
  bool fit = p->num_feeds == run->num_sends && p->num_fetches == run->num_recvs;
  for (int i = 0; fit && i < p->num_feeds; i++)
    fit = weft_str_eq(edges->feeds[p->feed_of[i]], run->sends[i].name);
  for (int i = 0; fit && i < p->num_fetches; i++)
    fit = weft_str_eq(edges->fetches[p->fetch_of[i]], run->recv_keys[i]);
  return fit;
}
