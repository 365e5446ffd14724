/* collectives/hierarchical.c - within a host, across hosts, within a host.
 *
 * Where all hosts have as many ranks L, each rank sums 1/L of the tensor within its host, then
 * with its like on the other hosts, and spreads it within its host: the slow links carry
 * S/L per rank. Otherwise one rank per host does the talking.
 *
 * Source: reference strategies 3.1 (Horovod's hierarchical all-reduce; TensorFlow's hierarchical tree
 * broadcast).
 */
#include "base/alloc.h"
#include "collectives/algorithms.h"

typedef struct host_groups {
  int *lists;  /* owned; n ranks sorted by host, then by place */
  int *starts; /* owned; where each host's list begins; one more at the end */
  int *of;     /* owned; by place: the host's number among those here */
  int n;
  bool is_even;
} host_groups_t;

static void hosts_deinit(host_groups_t *h) {
  weft_free(h->lists);
  weft_free(h->starts);
  weft_free(h->of);
}

static bool hosts_init(host_groups_t *h, weft_members_t m, const int *host_of) {
  *h = (host_groups_t){.is_even = true};
  h->lists = weft_calloc((size_t)m.n, sizeof *h->lists);
  h->of = weft_calloc((size_t)m.n, sizeof *h->of);
  h->starts = weft_calloc((size_t)m.n + 1, sizeof *h->starts);
  if (h->lists == NULL || h->of == NULL || h->starts == NULL) return false;
  int count = 0;
  for (int i = 0; i < m.n; i++) {
    int first = 0;
    while (host_of[m.ranks[first]] != host_of[m.ranks[i]]) first++;
    if (first < i) continue; /* its host is done */
    h->starts[h->n] = count;
    for (int j = i; j < m.n; j++) {
      if (host_of[m.ranks[j]] != host_of[m.ranks[i]]) continue;
      h->of[j] = h->n;
      h->lists[count++] = m.ranks[j];
    }
    h->n++;
    h->starts[h->n] = count;
    h->is_even = h->is_even && h->starts[h->n] - h->starts[h->n - 1] == h->starts[1];
  }
  return true;
}

/* The members of one host; `me` only if this rank is of it. */
static weft_members_t of_host(const host_groups_t *h, int host, int rank) {
  weft_members_t out = {&h->lists[h->starts[host]], h->starts[host + 1] - h->starts[host], -1};
  for (int i = 0; i < out.n; i++) {
    if (out.ranks[i] == rank) out.me = i;
  }
  return out;
}

/* Member `place` of each host; ranks[] is room for them. */
static weft_members_t across(const host_groups_t *h, int place, int rank, int *ranks) {
  weft_members_t out = {ranks, h->n, -1};
  for (int i = 0; i < h->n; i++) {
    ranks[i] = h->lists[h->starts[i] + place];
    if (ranks[i] == rank) out.me = i;
  }
  return out;
}

void weft_hierarchical_all_reduce(weft_planner_t *p, weft_members_t m, const int *host_of, weft_region_t in,
                                  weft_region_t out) {
  host_groups_t h;
  int *ranks = weft_calloc((size_t)m.n, sizeof *ranks);
  if (!hosts_init(&h, m, host_of) || ranks == NULL) {
    p->failed = true;
    goto done;
  }
  /* Every rank walks through all hosts and places, so that all count the same passes. */
  for (int host = 0; host < h.n; host++) {
    const weft_members_t local = of_host(&h, host, p->rank);
    if (h.is_even) weft_ring_reduce_to_chunks(p, local, in, out, h.n == 1);
    if (!h.is_even) weft_tree_reduce(p, local, 0, in, out, h.n == 1);
  }
  const int places = h.is_even ? h.starts[1] : 1;
  for (int place = 0; place < places; place++) {
    const weft_members_t others = across(&h, place, p->rank, ranks);
    /* The ring leaves chunk place+1 at this place. */
    const weft_region_t chunk = h.is_even ? weft_plan_part(p, out, (place + 1) % places, places) : out;
    weft_ring_all_reduce(p, others, chunk, chunk);
  }
  for (int host = 0; host < h.n; host++) {
    const weft_members_t local = of_host(&h, host, p->rank);
    if (h.is_even) weft_ring_spread_chunks(p, local, out);
    if (!h.is_even) weft_tree_broadcast(p, local, 0, out, out);
  }
done:
  hosts_deinit(&h);
  weft_free(ranks);
}

void weft_hierarchical_broadcast(weft_planner_t *p, weft_members_t m, const int *host_of, int root,
                                 weft_region_t in, weft_region_t out) {
  host_groups_t h;
  int *ranks = weft_calloc((size_t)m.n, sizeof *ranks);
  if (!hosts_init(&h, m, host_of) || ranks == NULL) {
    p->failed = true;
    goto done;
  }
  const int root_rank = m.ranks[root], root_host = h.of[root];
  weft_members_t heads = across(&h, 0, p->rank, ranks); /* the root stands for its host */
  ranks[root_host] = root_rank;
  heads.me = -1;
  for (int i = 0; i < h.n; i++) {
    if (ranks[i] == p->rank) heads.me = i;
  }
  weft_tree_broadcast(p, heads, root_host, in, out);
  for (int host = 0; host < h.n; host++) {
    const weft_members_t local = of_host(&h, host, p->rank);
    int local_root = 0;
    for (int i = 0; i < local.n && host == root_host; i++) {
      if (local.ranks[i] == root_rank) local_root = i;
    }
    weft_tree_broadcast(p, local, local_root, p->rank == root_rank ? in : out, out);
  }
done:
  hosts_deinit(&h);
  weft_free(ranks);
}
