/* device/cuda/options.c - the rules and messages of TensorFlow's GPU devices.
 *
 * Source: tensorflow/core/common_runtime/gpu/gpu_device.cc (MinSystemMemory, SingleVirtualDeviceMemoryLimit,
 * VerifyVirtualDeviceSettings) and tsl/framework/device_id_utils.cc (ParseVisibleDeviceList). Where
 * TensorFlow refuses a list of splits that is shorter than the list of devices, a device without an entry is
 * not split.
 */
#include "device/cuda/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "device/cuda/launch.h"

enum { MAX_PHYSICAL = 64 };

/* One number of the list; *end is behind it. */
static WEFT_Failure *parse_one(const char *list, const char *from, const char **end, int num, int *out) {
  const size_t length = strcspn(from, ",");
  char text[16], *rest;
  const bool fits = length > 0 && length < sizeof text;
  memcpy(text, from, fits ? length : 0);
  text[fits ? length : 0] = '\0';
  errno = 0;
  const long id = strtol(text, &rest, 10);
  if (!fits || rest == text || *rest != '\0' || errno != 0 || id > INT32_MAX || id < INT32_MIN) {
    return weft_cuda_host->failure(
        WEFT_INVALID_ARGUMENT,
        "Could not parse entry in 'visible_device_list': '%.*s'. visible_device_list = %s",
        (int)(length < 256 ? length : 256), from, list);
  }
  if (id < 0 || id >= num) {
    return weft_cuda_host->failure(
        WEFT_INVALID_ARGUMENT,
        "'visible_device_list' listed an invalid Device id '%ld' but visible device count is %d", id, num);
  }
  *out = (int)id;
  *end = from + length;
  return NULL;
}

/* The physical devices, in their order. */
static WEFT_Failure *visible(const char *list, int num, int *out, int *out_num) {
  bool seen[MAX_PHYSICAL] = {false};
  *out_num = 0;
  if (list == NULL || *list == '\0') {
    while (*out_num < num) out[*out_num] = *out_num, ++*out_num;
    return NULL;
  }
  for (const char *at = list;; at++) {
    int id = 0;
    WEFT_Failure *f = parse_one(list, at, &at, num, &id);
    if (f != NULL) return f;
    if (seen[id]) {
      return weft_cuda_host->failure(WEFT_INVALID_ARGUMENT,
                                     "visible_device_list contained a duplicate entry: %s", list);
    }
    seen[id] = true;
    out[(*out_num)++] = id;
    if (*at == '\0') return NULL;
  }
}

static WEFT_Failure *check_split(const WEFT_DeviceOptions *o, int num_listed, int num_valid) {
  if (o->memory_fraction > 0) {
    return weft_cuda_host->failure(
        WEFT_INVALID_ARGUMENT,
        "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.");
  }
  if (num_valid < o->num_split) {
    return weft_cuda_host->failure(
        WEFT_UNKNOWN, "Not enough GPUs to create virtual devices. num_gpus_to_use: %d #virtual_devices: %d",
        num_valid, o->num_split);
  }
  if (o->visible != NULL && *o->visible != '\0' && num_listed != o->num_split) {
    return weft_cuda_host->failure(
        WEFT_INVALID_ARGUMENT,
        "The number of GPUs in visible_device_list doesn't match the number of elements in "
        "the virtual_devices list. #GPUs in visible_device_list: %d virtual_devices.size(): %d",
        num_listed, o->num_split);
  }
  return NULL;
}

WEFT_Failure *weft_cuda_choose(const WEFT_DeviceOptions *o, int num_physical, const bool *usable,
                               weft_cuda_choice_t *out, int *out_num) {
  static const WEFT_DeviceOptions none = {.size = sizeof none};
  if (o == NULL) o = &none;
  int order[MAX_PHYSICAL], num_listed, num = 0;
  if (num_physical > MAX_PHYSICAL) num_physical = MAX_PHYSICAL;
  WEFT_Failure *f = visible(o->visible, num_physical, order, &num_listed);
  if (f != NULL) return f;
  if (o->memory_fraction < 0 || o->memory_fraction > 1) { /* above 1 TensorFlow takes unified memory */
    return weft_cuda_host->failure(WEFT_INVALID_ARGUMENT,
                                   "per_process_gpu_memory_fraction is %g; it must be from 0 to 1",
                                   o->memory_fraction);
  }
  for (int i = 0; i < num_listed; i++) {
    if (usable[order[i]]) order[num++] = order[i];
  }
  if (o->num_per_device <= 0 && o->num_split > 0) f = check_split(o, num_listed, num);
  if (f != NULL) return f;
  *out_num = 0;
  int limit = 0;
  for (int i = 0; i < num; i++) {
    const bool has_limits = o->num_per_device <= 0 && i < o->num_split && o->num_logical[i] > 0;
    const int parts = o->num_per_device > 0 ? o->num_per_device : has_limits ? o->num_logical[i] : 1;
    for (int k = 0; k < parts; k++) {
      if (*out_num == WEFT_CUDA_MAX_LOGICAL) {
        return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "more than %d logical devices",
                                       WEFT_CUDA_MAX_LOGICAL);
      }
      out[(*out_num)++] = (weft_cuda_choice_t){order[i], has_limits ? o->logical_bytes[limit++] : 0, parts};
    }
  }
  return NULL;
}

/* What the driver and its libraries need for themselves. */
static int64_t reserve(int64_t free_bytes, int capability_major) {
  if (free_bytes < INT64_C(1) << 31) return INT64_C(225) << 20;
  if (capability_major <= 6) return INT64_C(500) << 20;
  if (capability_major <= 7) return INT64_C(1050) << 20;
  if (capability_major <= 8) return INT64_C(1536) << 20;
  return INT64_C(1800) << 20;
}

int64_t weft_cuda_memory_limit(const WEFT_DeviceOptions *o, size_t free_bytes, size_t total_bytes,
                               int capability_major) {
  if (o != NULL && o->memory_fraction > 0) return (int64_t)((double)total_bytes * o->memory_fraction);
  const int64_t available = (int64_t)free_bytes, kept = reserve(available, capability_major);
  return kept < available ? available - kept : available;
}

bool weft_cuda_allows_growth(const WEFT_DeviceOptions *o) {
  const char *forced = getenv("TF_FORCE_GPU_ALLOW_GROWTH");
  if (forced != NULL && strcasecmp(forced, "true") == 0) return true;
  if (forced != NULL && strcasecmp(forced, "false") == 0) return false;
  return o != NULL && o->allow_growth != 0;
}
