/* sharding/sharding.h - how a value is split over the devices of a mesh.
 *
 * A mesh has named axes (data, model, stage, ...). Along each axis, on its own, a
 * value is replicated, sharded along one of its dimensions, or partial: a value that
 * a reduction over the axis makes of what the devices have. (GSPMD, Xu et al. 2021;
 * OneFlow's SBP, Yuan et al. 2021; PyTorch's DTensor.)
 *
 * The data axis alone is uneven: device i has B_i of the B rows of a batch, w_i =
 * B_i / B. Its shardings have a degree d, and three more kinds, of which the other
 * axes know nothing:
 *
 *   REPLICATE   every device has the true value                 true         = local_i * w_i^d
 *   SHARD       device i has its rows of it, along `dim`        rows of true = local_i * w_i^d
 *   PARTIAL     the true value is a sum over devices            true         = sum_i local_i * w_i^d
 *   SINGLE      device 0 alone has it: readers, queues, what has no rule
 *   COUNTS      a scalar or vector of numbers made of shapes: REPLICATE of degree 0, but elements of the mask
 *               `rows` count rows: such an element of the true value is the sum of the devices' (or local_i /
 * w_i) LOCAL       a thing of its own on each device (TensorArray, stack handles, local statistics of a
 * batch)
 *
 * Only numbers with a fraction have a degree other than 0.
 */
#ifndef WEFT_SHARDING_SHARDING_H_
#define WEFT_SHARDING_SHARDING_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef enum weft_sharding_kind {
  WEFT_SHARDING_NONE, /* not reached */
  WEFT_SHARDING_REPLICATE,
  WEFT_SHARDING_SHARD,
  WEFT_SHARDING_PARTIAL,
  WEFT_SHARDING_SINGLE,
  WEFT_SHARDING_COUNTS,
  WEFT_SHARDING_LOCAL,
} weft_sharding_kind_t;

/* What makes the value of what the devices have. */
typedef enum weft_partial_kind {
  WEFT_PARTIAL_SUM,
  WEFT_PARTIAL_MIN,
  WEFT_PARTIAL_MAX,
  WEFT_PARTIAL_MEAN,
  WEFT_PARTIAL_PROD,
} weft_partial_kind_t;

/* Along one axis of a mesh. */
typedef struct weft_axis_sharding {
  weft_sharding_kind_t kind;
  int dim;                     /* of SHARD */
  int degree;                  /* of REPLICATE, SHARD, PARTIAL; 0 but on the data axis */
  weft_partial_kind_t partial; /* of PARTIAL; a sum on the data axis */
  uint64_t rows;               /* of COUNTS: bit i: element i counts rows; of a scalar: bit 0 */
  int count;                   /* of COUNTS: how many elements; -1: a scalar */
  bool is_hollow; /* of PARTIAL 0: what a device without rows has is no number, and counts as 0 */
} weft_axis_sharding_t;

/* Over all axes of a mesh, in their order. */
enum { WEFT_MESH_AXES = 4 };
typedef struct weft_sharding {
  weft_axis_sharding_t axes[WEFT_MESH_AXES];
} weft_sharding_t;

bool weft_axis_sharding_eq(const weft_axis_sharding_t *a, const weft_axis_sharding_t *b);
/* "Replicate", "Shard(0)", "Partial(sum), degree 1", "Single", "Counts", "Local". */
void weft_axis_sharding_print(const weft_axis_sharding_t *s, weft_strbuf_t *out);

static inline weft_axis_sharding_t weft_sharding_replicate(int degree) {
  return (weft_axis_sharding_t){.kind = WEFT_SHARDING_REPLICATE, .degree = degree};
}
static inline weft_axis_sharding_t weft_sharding_shard(int dim, int degree) {
  return (weft_axis_sharding_t){.kind = WEFT_SHARDING_SHARD, .dim = dim, .degree = degree};
}
static inline weft_axis_sharding_t weft_sharding_partial(int degree) {
  return (weft_axis_sharding_t){.kind = WEFT_SHARDING_PARTIAL, .degree = degree};
}
static inline weft_axis_sharding_t weft_sharding_of_kind(weft_sharding_kind_t kind) {
  return (weft_axis_sharding_t){.kind = kind};
}

#endif /* WEFT_SHARDING_SHARDING_H_ */
