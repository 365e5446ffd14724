/* kernels/cpu/loops/map_shape.h - how the operands of a row of map.h are broadcast, for kernels that run such
 * rows themselves. */
#ifndef WEFT_KERNELS_CPU_LOOPS_MAP_SHAPE_H_
#define WEFT_KERNELS_CPU_LOOPS_MAP_SHAPE_H_

#include "kernels/cpu/loops/map.h"

/* Two operands of a row with these flags (weft_map_flags_t), as weft_map2_compute walks over them. `node`:
 * for messages. Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_map2_broadcast(const weft_kernel_node_t *node, uint32_t flags,
                                                   const weft_shape_t *x, const weft_shape_t *y,
                                                   weft_broadcast_t *out);

#endif /* WEFT_KERNELS_CPU_LOOPS_MAP_SHAPE_H_ */
