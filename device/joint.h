/* device/joint.h - collectives between devices of several processes, which a driver does by itself.
 *
 * Each process has some of the ranks. One of them makes an id, all join with it, and then all begin the same
 * collectives in the same order: that they do is the caller's affair (collectives/joints.h). A process that
 * does not come, or is lost, is waited for until the communicator is broken off.
 */
#ifndef WEFT_DEVICE_JOINT_H_
#define WEFT_DEVICE_JOINT_H_

#include "device/device.h"
#include "weft/device.h"

typedef struct weft_device_communicator weft_device_communicator_t; /* Thread-safe. */

/* A driver's. */
struct weft_device_joint {
  /* Can these be in one communicator with devices of other processes? Fills n times WEFT_DEVICE_ID_BYTES:
   * what the device is on its host. Errors: UNIMPLEMENTED, the driver's. */
  weft_status_t *(*identify)(weft_device_t *const *devices, int n, uint8_t *out_ids);
  /* WEFT_COLLECTIVE_ID_BYTES. Errors: as above. */
  weft_status_t *(*unique_id)(weft_device_t *const *devices, int n, uint8_t *out);
  /* devices[i] is rank ranks[i] of n. Does not wait. Errors: the driver's. */
  weft_status_t *(*join)(weft_device_t *const *devices, const int *ranks, int num_devices, int n,
                         const uint8_t *id, weft_device_communicator_t **out);
  /* Enqueues the parts of this process's devices; waits until all processes have joined. done(arg, status) is
   * called once, on any thread, when the devices have done it or it was broken off: then status says so.
   * Errors, and then it is not called: UNIMPLEMENTED; ABORTED, it was broken off; the driver's. */
  weft_status_t *(*run)(weft_device_communicator_t *c, const WEFT_Collective *what,
                        const weft_device_part_t *parts, void (*done)(void *arg, weft_status_t *status),
                        void *arg);
  /* Ends what waits for other processes. */
  void (*abort)(weft_device_communicator_t *c);
  void (*leave)(weft_device_communicator_t *c); /* its collectives are done. NULL is fine */
};

#endif /* WEFT_DEVICE_JOINT_H_ */
