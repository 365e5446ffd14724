/* kernels/cpu/collective/collective_place.h - a device's memory as the place of a member's tensors.
 *
 * Members that are devices of one driver do a collective on their compute queues, if the driver has that.
 */
#ifndef WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_PLACE_H_
#define WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_PLACE_H_

#include "collectives/collectives.h"
#include "device/device.h"

typedef struct weft_device_place {
  weft_collective_place_t base; /* first */
  weft_device_t *device;
  weft_allocator_t *allocator; /* of outputs, in the device's memory */
} weft_device_place_t;

/* Of a device with a memory of its own. Both are borrowed. */
void weft_device_place_init(weft_device_place_t *p, weft_device_t *device, weft_allocator_t *allocator);

#endif /* WEFT_KERNELS_CPU_COLLECTIVE_COLLECTIVE_PLACE_H_ */
