/* client/gpu_options.c - GPUOptions: which GPUs a task takes, how much of their memory, in how many parts.
 *
 * Source: TensorFlow's config.proto and VerifyVirtualDeviceSettings of gpu_device.cc.
 */
#include <stdio.h>
#include <string.h>

#include "client/config.h"
#include "protos/config.pb-c.h"
#include "protos/unpack.h"

typedef Tensorflow__GPUOptions gpu_options_t;
typedef Tensorflow__GPUOptions__Experimental__VirtualDevices virtual_devices_t;

static const double BYTES_PER_MB = 1 << 20; /* of memory_limit_mb */

static weft_status_t *too_many(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "virtual_devices: more than %d devices in %d parts in all",
                    WEFT_MAX_SPLIT_DEVICES, WEFT_MAX_LOGICAL_DEVICES);
}

/* The parts of the next device. */
static weft_status_t *add_parts(const virtual_devices_t *v, weft_accelerator_options_t *out) {
  if (out->num_split == WEFT_MAX_SPLIT_DEVICES) return too_many();
  if (v->n_priority > 0 && v->n_priority != v->n_memory_limit_mb) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Number of virtual device priorities specified doesn't match with number of "
        "memory_limit_mb specified for GPU# %d memory_limit_mb size: %zu and priority size: %zu",
        out->num_split, v->n_memory_limit_mb, v->n_priority);
  }
  for (size_t i = 0; i < v->n_memory_limit_mb; i++) {
    const double bytes = (double)v->memory_limit_mb[i] * BYTES_PER_MB;
    if (!(bytes >= 0 && bytes < 0x1p62))
      return WEFT_ERROR(INVALID_ARGUMENT, "virtual_devices: memory_limit_mb is %g",
                        (double)v->memory_limit_mb[i]);
    if (out->num_limits == WEFT_MAX_LOGICAL_DEVICES) return too_many();
    out->logical_bytes[out->num_limits++] = (int64_t)bytes;
  }
  out->num_logical[out->num_split++] = (int)v->n_memory_limit_mb;
  return NULL;
}

static weft_status_t *read_experimental(const Tensorflow__GPUOptions__Experimental *e, double fraction,
                                        weft_accelerator_options_t *out) {
  if (e->n_virtual_devices > 0 && e->num_virtual_devices_per_gpu > 0)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "It's invalid to set virtual_devices and num_virtual_devices_per_gpu at the same time");
  if (e->num_virtual_devices_per_gpu < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_virtual_devices_per_gpu is %d", e->num_virtual_devices_per_gpu);
  out->num_per_device = e->num_virtual_devices_per_gpu;
  if (e->n_virtual_devices > 0 && fraction > 0)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.");
  for (size_t i = 0; i < e->n_virtual_devices; i++)
    WEFT_RETURN_IF_ERROR(add_parts(e->virtual_devices[i], out));
  return NULL;
}

static weft_status_t *read_options(const gpu_options_t *o, weft_accelerator_options_t *out) {
  const size_t length = strlen(o->visible_device_list);
  if (length >= sizeof out->visible)
    return WEFT_ERROR(INVALID_ARGUMENT, "visible_device_list has %zu characters, at most %zu are allowed",
                      length, sizeof out->visible - 1);
  memcpy(out->visible, o->visible_device_list, length + 1);
  out->memory_fraction = o->per_process_gpu_memory_fraction;
  out->allow_growth = o->allow_growth;
  if (!(out->memory_fraction >= 0))
    return WEFT_ERROR(INVALID_ARGUMENT, "per_process_gpu_memory_fraction is %g", out->memory_fraction);
  return o->experimental == NULL ? NULL : read_experimental(o->experimental, out->memory_fraction, out);
}

weft_status_t *weft_gpu_options_read(weft_str_t bytes, weft_accelerator_options_t *out) {
  if (bytes.length == 0) return NULL;
  ProtobufCMessage *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_proto_unpack(&tensorflow__gpuoptions__descriptor, bytes, &m));
  weft_status_t *s = read_options((const gpu_options_t *)m, out);
  weft_proto_free(m);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  snprintf(out->wrong, sizeof out->wrong, "%s", weft_status_message(s));
  weft_status_free(s);
  return NULL;
}
