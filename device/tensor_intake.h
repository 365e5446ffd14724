/* device/tensor_intake.h - a tensor's bytes on their way from the host's memory to a device's, in parts.
 *
 * What receives a tensor from another process writes it into host memory that the device reads by itself. The
 * first parts are copied to the device while later ones are still received. The counterpart of
 * device/tensor_stream.h.
 */
#ifndef WEFT_DEVICE_TENSOR_INTAKE_H_
#define WEFT_DEVICE_TENSOR_INTAKE_H_

#include "device/device.h"

typedef struct weft_tensor_intake weft_tensor_intake_t; /* Callers serialize calls. */

/* For a tensor of a plain type and known shape in `space`, a device's memory; its device outlives the calls.
 * Never waits. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_intake_begin(weft_dtype_t dtype, const weft_shape_t *shape,
                                                        const weft_memory_space_t *space,
                                                        weft_tensor_intake_t **out);
/* The tensor in the host's memory, to be filled from its first byte on. Lent; its bytes may be retained
 * beyond the device's end. */
weft_tensor_t *weft_tensor_intake_host(weft_tensor_intake_t *x);
/* The first `there` bytes are filled in, and do not change any more: copies what is worth it. */
void weft_tensor_intake_arrive(weft_tensor_intake_t *x, size_t there);
/* Consumes `x`. is_whole: all bytes have arrived; *out: the device's tensor, with the fence behind the
 * copies. Else, and on failure, there is none. Errors: those of the copies. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_intake_end(weft_tensor_intake_t *x, bool is_whole,
                                                      weft_tensor_t **out);

#endif /* WEFT_DEVICE_TENSOR_INTAKE_H_ */
