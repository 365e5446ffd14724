/* collectives/choose.h - which algorithm, and how long it will take.
 *
 * A message of l bytes takes alpha + l*beta on a link, and a rank sends and receives
 * one at a time. The links come with the group, measured once by its leader, and everything
 * else is the same on all ranks: so all of them choose alike.
 *
 * Source: reference strategies 3.1 (costs).
 */
#ifndef WEFT_COLLECTIVES_CHOOSE_H_
#define WEFT_COLLECTIVES_CHOOSE_H_

#include "collectives/transport.h"

/* Is there such an algorithm for this kind? */
bool weft_algorithm_is_for(weft_collective_kind_t kind, weft_collective_algorithm_t a);
/* Seconds that `a` needs to move `bytes` (one rank's tensor) among the group; infinite if it is not for this
 * kind. */
double weft_algorithm_cost(weft_collective_kind_t kind, weft_collective_algorithm_t a, const weft_group_t *g,
                           size_t bytes);
/* `wanted` where it is for this kind; else, and for AUTO, the cheapest. Never AUTO. */
weft_collective_algorithm_t weft_algorithm_choose(weft_collective_kind_t kind,
                                                  weft_collective_algorithm_t wanted, const weft_group_t *g,
                                                  size_t bytes);
/* Bytes per field of a pipelined transfer: so many that the messages' own cost is a few percent. */
size_t weft_algorithm_field_bytes(const weft_group_t *g);
/* hosts[rank]: a number per host, from 0 in order of rank; returns how many. Tasks of unknown host are alone.
 */
int weft_algorithm_hosts(const weft_group_t *g, int *hosts);

#endif /* WEFT_COLLECTIVES_CHOOSE_H_ */
