/* device/cuda/sharing.c - handles of regions, given out and opened. */
#include "device/cuda/sharing.h"

#include <string.h>

#include "base/status.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"

_Static_assert(sizeof(CUuuid) == WEFT_DEVICE_ID_BYTES, "a card is known by its UUID");
_Static_assert(sizeof(CUipcMemHandle) == WEFT_MEMORY_HANDLE_BYTES, "a handle is CUDA's");

static WEFT_Failure *enter(const weft_cuda_device_t *d) {
  return weft_cuda_failure(weft_cuda_driver.cuCtxSetCurrent(d->physical->context), "sharing memory of GPU:%d",
                           d->ordinal);
}

static WEFT_Failure *identify(void *device, unsigned char *out) {
  const weft_cuda_device_t *d = device;
  if (!d->physical->has_uuid)
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "GPU:%d has no UUID", d->ordinal);
  memcpy(out, &d->physical->uuid, sizeof d->physical->uuid);
  return NULL;
}

static WEFT_Failure *export_memory(void *device, const void *p, const unsigned char *reader,
                                   WEFT_SharedMemory *out) {
  const weft_cuda_device_t *d = device;
  CUuuid card;
  void *region = NULL;
  size_t bytes = 0;
  CUipcMemHandle handle;
  memcpy(&card, reader, sizeof card);
  if (!weft_cuda_physical_may_be_read_by(d->physical, &card))
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "the memory of GPU:%d is out of reach", d->ordinal);
  if (!weft_cuda_arena_keep_region(d->arena, p, &region, &bytes))
    return weft_cuda_host->failure(WEFT_INTERNAL, "an address that is not of GPU:%d", d->ordinal);
  WEFT_Failure *f = enter(d);
  if (f == NULL) {
    f = weft_cuda_failure(weft_cuda_driver.cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)region),
                          "exporting memory of GPU:%d", d->ordinal);
  }
  if (f != NULL) return f;
  memcpy(out->handle, &handle, sizeof handle);
  out->offset = (uintptr_t)p - (uintptr_t)region;
  return NULL;
}

static WEFT_Failure *import_memory(void *device, const unsigned char *handle, const void **out_at,
                                   size_t *out_bytes) {
  const weft_cuda_device_t *d = device;
  CUipcMemHandle h;
  CUdeviceptr at = 0, first = 0;
  size_t bytes = 0;
  memcpy(&h, handle, sizeof h);
  WEFT_Failure *f = enter(d);
  if (f != NULL) return f;
  CUresult r = weft_cuda_driver.cuIpcOpenMemHandle(&at, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (r != CUDA_SUCCESS)
    return weft_cuda_failure(r, "opening memory of another process on GPU:%d", d->ordinal);
  r = weft_cuda_driver.cuMemGetAddressRange(&first, &bytes, at);
  if (r == CUDA_SUCCESS && first != at) r = CUDA_ERROR_INVALID_VALUE;
  if (r != CUDA_SUCCESS) {
    (void)weft_cuda_driver.cuIpcCloseMemHandle(at);
    return weft_cuda_failure(r, "asking for the size of another process's memory on GPU:%d", d->ordinal);
  }
  *out_at = (const void *)(uintptr_t)at;
  *out_bytes = bytes;
  return NULL;
}

static void close_memory(void *arg, void *at) {
  WEFT_Failure *f = enter(arg);
  if (f == NULL) (void)weft_cuda_driver.cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)at);
  weft_cuda_host->failure_free(f); /* a lost context has opened nothing any more */
}

/* A queue that has failed says so while its stream may still copy: then it is closed with the queue. */
static void forget_memory(void *device, const void *at) {
  weft_cuda_device_t *d = device;
  weft_cuda_queue_t *q = d->queues[WEFT_QUEUE_COPIES_IN];
  void *opened = (void *)(uintptr_t)at; /* the cast drops const: it is not written */
  WEFT_Failure *failed = weft_cuda_queue_begin(q, "closing another process's memory");
  if (failed == NULL) {
    close_memory(d, opened);
  } else {
    weft_cuda_queue_retire(q, close_memory, d, opened);
  }
  weft_cuda_host->failure_free(failed);
}

const WEFT_DeviceSharing weft_cuda_sharing = {
    .size = sizeof weft_cuda_sharing,
    .identify = identify,
    .export_memory = export_memory,
    .import_memory = import_memory,
    .forget_memory = forget_memory,
};
