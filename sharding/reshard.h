/* sharding/reshard.h - the cheapest way from one sharding of a value to another.
 *
 * A plan is a list of steps, each along one axis of the mesh. Steps on the wire cost, for each device, a
 * latency for each message and the time of the bytes it sends, by the closed forms of a ring of n devices
 * (Thakur, Rabenseifner, Gropp 2005) that hold b bytes each before the step:
 *
 *   all-reduce      Partial -> Replicate   2(n-1) messages, 2(n-1)/n * b bytes
 *   reduce-scatter  Partial -> Shard        (n-1) messages,  (n-1)/n * b bytes
 *   all-gather      Shard -> Replicate      (n-1) messages,    (n-1) * b bytes
 *   all-to-all      Shard -> Shard          (n-1) messages,  (n-1)/n * b bytes
 *   slice           Replicate -> Shard     none
 *   mask            Replicate -> Partial   none: the first device keeps the value, the others have 0 (or 1)
 *   scale           Partial(sum) <-> Partial(mean)   none
 *   keep            Replicate -> Partial(min, max, mean)   none: what a device has is what is wanted
 *
 * The planner is Dijkstra's algorithm over the shardings that the value can have. It therefore finds that a
 * slice along one axis makes a gather along another cheaper, or that two all-to-alls are cheaper than a
 * gather. Where two axes shard one dimension, the later axis splits the parts of the earlier: the earlier one
 * cannot change before the later one is gone, and the planner takes such detours.
 */
#ifndef WEFT_SHARDING_RESHARD_H_
#define WEFT_SHARDING_RESHARD_H_

#include "base/arena.h"
#include "sharding/mesh.h"

typedef enum weft_reshard_kind {
  WEFT_RESHARD_ALL_REDUCE,
  WEFT_RESHARD_REDUCE_SCATTER,
  WEFT_RESHARD_ALL_GATHER,
  WEFT_RESHARD_ALL_TO_ALL,
  WEFT_RESHARD_SLICE,
  WEFT_RESHARD_MASK,
  WEFT_RESHARD_SCALE,
  WEFT_RESHARD_KEEP,
} weft_reshard_kind_t;

typedef struct weft_reshard_step {
  weft_reshard_kind_t kind;
  int axis;
  weft_axis_sharding_t from, to; /* along that axis; the other axes stay as they are */
  double wire_bytes;             /* sent by each device */
  double seconds;
} weft_reshard_step_t;

/* What a message and a byte cost. */
typedef struct weft_reshard_link {
  double latency, seconds_per_byte; /* 0 and 0: those of a network of 10 Gbit/s and 20 us */
} weft_reshard_link_t;

typedef struct weft_reshard_cost {
  double seconds, wire_bytes;
} weft_reshard_cost_t;

typedef struct weft_reshard_plan {
  weft_reshard_step_t *steps; /* in the arena */
  int num_steps;
  weft_reshard_cost_t cost;
} weft_reshard_plan_t;

/* How a value of `shape`, `element_bytes` each, comes from one sharding to the other; no steps if they are
 * equal. `link` may be NULL. Errors: INVALID_ARGUMENT: a sharding that the value cannot have
 * (weft_mesh_block), a degree, a shape that is not known, sums mixed with minima or maxima on different axes
 * (which of them comes first would matter); RESOURCE_EXHAUSTED: no memory, or too many shardings to search.
 */
WEFT_MUST_CHECK weft_status_t *weft_reshard_plan(const weft_mesh_t *mesh, const weft_sharding_t *from,
                                                 const weft_sharding_t *to, const weft_shape_t *shape,
                                                 size_t element_bytes, const weft_reshard_link_t *link,
                                                 weft_arena_t *arena, weft_reshard_plan_t *out);

const char *weft_reshard_kind_name(weft_reshard_kind_t kind); /* "all-gather" */
/* "all-gather along model: Shard(0) -> Replicate". */
void weft_reshard_print(const weft_mesh_t *mesh, const weft_reshard_step_t *step, weft_strbuf_t *out);

#endif /* WEFT_SHARDING_RESHARD_H_ */
