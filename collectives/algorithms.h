/* collectives/algorithms.h - what each algorithm file gives: phases that write into a plan.
 *
 * A phase works among `n` ranks given by a list (all of them, or those of one host);
 * `me` is this rank's place in it, -1 if it has no part. Texts after the arrow: which member holds the
 * result. Costs are in messages and bytes sent by one rank; S is the size of `in`.
 */
#ifndef WEFT_COLLECTIVES_ALGORITHMS_H_
#define WEFT_COLLECTIVES_ALGORITHMS_H_

#include "collectives/plan.h"

typedef struct weft_members {
  const int *ranks; /* borrowed */
  int n, me;
} weft_members_t;

/* The ring (ring.c). Chunk c of n is summed along the ring c, c+1, ..., c-1 in that order; so the bits are
 * those of `acc = x_c; for j in 1..n-1: acc = x_{c+j} + acc`, on all ranks. */
/* in -> chunk c of out at member c-1. `out` is scratch elsewhere. n-1 messages and (n-1)/n S, in fields. */
void weft_ring_reduce_to_chunks(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                                bool is_final);
/* Chunk c of out, at member c-1 -> all of out at all. n-1 messages, (n-1)/n S, in fields. */
void weft_ring_spread_chunks(weft_planner_t *p, weft_members_t m, weft_region_t out);
void weft_ring_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out);
/* bounds[n+1]: bytes; in -> out (bounds[me]..bounds[me+1]) at member me, and at it alone. */
void weft_ring_reduce_scatter(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                              const size_t *bounds);
/* bounds as above: in is member me's block -> all blocks in out. */
void weft_ring_all_gather(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                          const size_t *bounds);
/* A chain from member `root`, in fields. 1 message per field and rank, S. */
void weft_ring_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out);

/* The binomial tree (tree.c): ceil(log2 n) rounds. */
void weft_tree_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out);
/* in -> out at root (elsewhere `out` is scratch for inner nodes, and may be `in` if that may be overwritten).
 */
void weft_tree_reduce(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                      bool is_final);
/* bounds[n+1]: member i's block. in (root's) -> out (each its own). */
void weft_tree_scatter(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                       const size_t *bounds);
void weft_tree_gather(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                      const size_t *bounds);

/* Recursive halving and doubling (halving_doubling.c): 2 log2 n rounds, 2(n-1)/n S; where n is no power of
 * two, the ranks beyond the largest one within first give their input to another and get the result back from
 * it: 2 S more. */
void weft_halving_doubling_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in,
                                      weft_region_t out);

/* By hosts (hierarchical.c); host_of[rank]: a number per host. */
void weft_hierarchical_all_reduce(weft_planner_t *p, weft_members_t m, const int *host_of, weft_region_t in,
                                  weft_region_t out);
void weft_hierarchical_broadcast(weft_planner_t *p, weft_members_t m, const int *host_of, int root,
                                 weft_region_t in, weft_region_t out);

/* Every member from every other (direct.c). The bits are the ring's. 2(n-1) messages per field, 2(n-1)/n S.
 */
void weft_direct_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out);
void weft_direct_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in,
                           weft_region_t out);
void weft_direct_all_gather(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                            const size_t *bounds);
void weft_direct_reduce_scatter(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                                const size_t *bounds);

/* Pairwise exchanges (exchange.c). */
/* Bytes [in_bounds[j], in_bounds[j+1]) of in go to member j; what comes from j goes to out_bounds[j] of out.
 */
void weft_pairwise_all_to_all(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                              const size_t *in_bounds, const size_t *out_bounds);
/* in of member i -> out of member targets[i] (-1: none); without a source: zeros. */
void weft_exchange_permute(weft_planner_t *p, weft_members_t m, const int *targets, weft_region_t in,
                           weft_region_t out);
/* Dissemination: after ceil(log2 n) rounds every rank has been reached by every other. */
void weft_exchange_barrier(weft_planner_t *p, weft_members_t m);

#endif /* WEFT_COLLECTIVES_ALGORITHMS_H_ */
