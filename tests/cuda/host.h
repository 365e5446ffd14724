/* tests/cuda/host.h - as much of Weft as the CUDA device needs from it, for tests of the device alone.
 *
 * Failures are statuses. A context names a device and a node.
 */
#ifndef WEFT_TESTS_CUDA_HOST_H_
#define WEFT_TESTS_CUDA_HOST_H_

#include "weft/device.h"

extern const WEFT_DeviceHost weft_test_host;

struct WEFT_KernelContext {
  void *device;
  const char *node;
};

/* The last text that the device logged; "" if there is none. */
const char *weft_test_host_logged(void);

#endif /* WEFT_TESTS_CUDA_HOST_H_ */
