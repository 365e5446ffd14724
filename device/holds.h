/* device/holds.h - what keeps a device: work behind the back of steps, such as an input pipeline's threads.
 *
 * A device is destroyed only when nothing holds it: weft_device_destroy waits. What holds one must be on its
 * way to an end by then: a worker lets go of its resources first, and that cancels them.
 */
#ifndef WEFT_DEVICE_HOLDS_H_
#define WEFT_DEVICE_HOLDS_H_

#include "device/device.h"

/* Thread-safe, as is let_go. */
void weft_device_hold(weft_device_t *d);
void weft_device_let_go(weft_device_t *d); /* the device may be gone when this returns */
void weft_device_wait_for_holds(weft_device_t *d);

#endif /* WEFT_DEVICE_HOLDS_H_ */
