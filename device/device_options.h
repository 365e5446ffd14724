/* device/device_options.h - what a task takes of its machine's accelerators: TensorFlow's device_count and
 * GPUOptions. */
#ifndef WEFT_DEVICE_DEVICE_OPTIONS_H_
#define WEFT_DEVICE_DEVICE_OPTIONS_H_

#include <stdbool.h>
#include <stdint.h>

enum { WEFT_MAX_SPLIT_DEVICES = 64, WEFT_MAX_LOGICAL_DEVICES = 256, WEFT_MAX_VISIBLE_DEVICES = 256 };

/* All zero: all devices, each with nearly all of its memory. */
typedef struct weft_accelerator_options {
  bool is_limited;                        /* only the first max_devices of the logical devices are made */
  int max_devices;                        /* device_count of the accelerators' type */
  char visible[WEFT_MAX_VISIBLE_DEVICES]; /* visible_device_list: "1,0"; "": all */
  double memory_fraction;                 /* per_process_gpu_memory_fraction; 0: nearly all */
  bool allow_growth;
  int num_per_device; /* num_virtual_devices_per_gpu: so many logical devices of each, of equal parts; 0: see
                         next */
  /* Of the first num_split visible devices, several logical ones are made (experimental.virtual_devices):
   * of device i num_logical[i], 0: one of all its memory. The limits of all of them stand one after the
   * other; 0: an equal part of it. */
  int num_split, num_limits;
  int num_logical[WEFT_MAX_SPLIT_DEVICES];
  int64_t logical_bytes[WEFT_MAX_LOGICAL_DEVICES];
  char wrong[256]; /* what is wrong with the options, which matters to a task that has accelerators; "":
                      nothing */
} weft_accelerator_options_t;

#endif /* WEFT_DEVICE_DEVICE_OPTIONS_H_ */
