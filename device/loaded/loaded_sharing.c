/* device/loaded/loaded_sharing.c - memory that a library's devices share with other processes. */
#include "device/loaded/loaded_device.h"

static const WEFT_DeviceSharing *of(const weft_device_t *d) {
  return ((const weft_loaded_driver_t *)(const void *)d->driver)->type.sharing;
}

static weft_status_t *identify(const weft_device_t *d, uint8_t *out) {
  return weft_status_of_failure(of(d)->identify(weft_loaded_device(d), out));
}

static weft_status_t *export_memory(const weft_device_t *d, const void *p, const uint8_t *reader,
                                    WEFT_SharedMemory *out) {
  return weft_status_of_failure(of(d)->export_memory(weft_loaded_device(d), p, reader, out));
}

static weft_status_t *import_memory(const weft_device_t *d, const uint8_t *handle, const void **out_at,
                                    size_t *out_bytes) {
  return weft_status_of_failure(of(d)->import_memory(weft_loaded_device(d), handle, out_at, out_bytes));
}

static void forget_memory(const weft_device_t *d, const void *at) {
  of(d)->forget_memory(weft_loaded_device(d), at);
}

const weft_device_sharing_t weft_loaded_sharing = {.identify = identify,
                                                   .export_memory = export_memory,
                                                   .import_memory = import_memory,
                                                   .forget_memory = forget_memory};
