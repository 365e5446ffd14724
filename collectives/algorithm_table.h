/* collectives/algorithm_table.h - which algorithm, by its cost, and its plan.
 *
 * A message of l bytes takes alpha + l*beta on a link, and a rank sends and receives
 * one at a time. The links come with the group, measured once by its leader, and everything
 * else is the same on all ranks: so all of them choose alike.
 *
 * To add an algorithm: a file with its phases (algorithms.h), a cost, a row of the table.
 *
 * Source: reference strategies 3.1 (costs).
 */
#ifndef WEFT_COLLECTIVES_ALGORITHM_TABLE_H_
#define WEFT_COLLECTIVES_ALGORITHM_TABLE_H_

#include "collectives/algorithms.h"
#include "collectives/transport.h"

/* `wanted` where the kind has it; else, and for AUTO, the cheapest to move `bytes` (one rank's tensor) among
 * the group. Never AUTO. */
weft_collective_algorithm_t weft_algorithm_choose(weft_collective_kind_t kind,
                                                  weft_collective_algorithm_t wanted, const weft_group_t *g,
                                                  size_t bytes);

typedef struct weft_algorithm_args {
  weft_members_t m;
  const int *host_of; /* per rank: a number per host */
  int root;           /* of kinds that have one */
  weft_region_t in, out;
  const size_t *in_bounds, *out_bounds; /* of kinds with rows: bytes */
  const int *targets;                   /* of permute */
} weft_algorithm_args_t;
/* Writes the plan of a chosen algorithm. */
void weft_algorithm_plan(weft_collective_kind_t kind, weft_collective_algorithm_t algorithm,
                         weft_planner_t *p, const weft_algorithm_args_t *args);

/* Bytes per field of a pipelined transfer: so many that the messages' own cost is a few percent. */
size_t weft_algorithm_field_bytes(const weft_group_t *g);
/* hosts[rank]: a number per host, from 0 in order of rank; returns how many. Tasks of unknown host are alone.
 */
int weft_algorithm_hosts(const weft_group_t *g, int *hosts);

#endif /* WEFT_COLLECTIVES_ALGORITHM_TABLE_H_ */
