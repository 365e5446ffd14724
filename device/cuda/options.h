/* device/cuda/options.h - which devices a process has, and how much of their memory: TensorFlow's GPUOptions.
 */
#ifndef WEFT_DEVICE_CUDA_OPTIONS_H_
#define WEFT_DEVICE_CUDA_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/device.h"

enum { WEFT_CUDA_MAX_LOGICAL = 64 };

/* A logical device. */
typedef struct weft_cuda_choice {
  int physical;        /* the driver's number */
  int64_t limit_bytes; /* 0: what weft_cuda_memory_limit() says, */
  int parts;           /* of which it gets one of so many */
} weft_cuda_choice_t;

/* The logical devices that `o` asks for, in the order of their numbers, of `num_physical` that there are;
 * usable[i]: has physical device i kernels of ours? NULL `o`: the default. out: WEFT_CUDA_MAX_LOGICAL of
 * them. Errors: INVALID_ARGUMENT, UNKNOWN, RESOURCE_EXHAUSTED, in TensorFlow's words. */
WEFT_Failure *weft_cuda_choose(const WEFT_DeviceOptions *o, int num_physical, const bool *usable,
                               weft_cuda_choice_t *out, int *out_num);

/* The limit of a device that is not split. */
int64_t weft_cuda_memory_limit(const WEFT_DeviceOptions *o, size_t free_bytes, size_t total_bytes,
                               int capability_major);
/* Is memory to be taken when it is needed? The variable TF_FORCE_GPU_ALLOW_GROWTH comes before the options.
 */
bool weft_cuda_allows_growth(const WEFT_DeviceOptions *o);

#endif /* WEFT_DEVICE_CUDA_OPTIONS_H_ */
