/* collectives/remote/link_costs.h - how long messages take, as measured from those that went by.
 *
 * Two kinds of ways are told apart: near, between tasks of one host that are linked, and
 * far, by calls. A message of n bytes takes alpha_s + n * byte_s. Short messages teach
 * alpha_s, long ones byte_s. A measured time holds waiting, too, which is no fault of the way:
 * so shorter times count at once, longer ones little by little.
 *
 * Before the first message the numbers are those of servers of the 2020s.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_LINK_COSTS_H_
#define WEFT_COLLECTIVES_REMOTE_LINK_COSTS_H_

#include "base/mutex.h"
#include "collectives/transport.h"

typedef enum weft_way { WEFT_WAY_NEAR, WEFT_WAY_FAR, WEFT_WAYS } weft_way_t;

typedef struct weft_link_costs { /* Thread-safe. */
  weft_mutex_t mu;               /* a leaf */
  weft_link_t ways[WEFT_WAYS];   /* guarded by mu */
} weft_link_costs_t;

void weft_link_costs_init(weft_link_costs_t *c);
void weft_link_costs_deinit(weft_link_costs_t *c);
/* A message of `bytes` took `seconds`. Sizes between short and long teach nothing. */
void weft_link_costs_note(weft_link_costs_t *c, weft_way_t way, size_t bytes, double seconds);
weft_link_t weft_link_costs_of(weft_link_costs_t *c, weft_way_t way);

#endif /* WEFT_COLLECTIVES_REMOTE_LINK_COSTS_H_ */
