/* tests/device/late/late_device.c - the type of LATE devices, and the library. */
#include <stdlib.h>

#define WEFT_DEVICE_LIBRARY
#include "tests/device/late/late.h"

struct weft_late_device {
  weft_late_memory_t *bytes;
  weft_late_queue_t *queues[3]; /* by WEFT_QueueKind */
  int ordinal;
};

const WEFT_DeviceHost *weft_late_host;

static weft_late_options_t options = {.num_devices = 1, .max_delay_us = 200, .seed = 1};

void weft_late_configure(const weft_late_options_t *o) { options = *o; }
const weft_late_options_t *weft_late_options(void) { return &options; }

void *weft_late_bytes(const weft_late_device_t *d, void *p) { return weft_late_memory_bytes(d->bytes, p); }

weft_late_queue_t *weft_late_compute(const weft_late_device_t *d) { return d->queues[WEFT_QUEUE_COMPUTE]; }
int weft_late_ordinal(const weft_late_device_t *d) { return d->ordinal; }

static WEFT_Failure *count(const WEFT_DeviceOptions *o, int *out) {
  (void)o;
  *out = options.num_devices;
  return NULL;
}

static void close_device(void *device) {
  weft_late_device_t *d = device;
  for (int k = WEFT_QUEUE_COPIES_OUT; k >= WEFT_QUEUE_COMPUTE; k--) weft_late_queue_stop(d->queues[k]);
  for (int k = WEFT_QUEUE_COPIES_OUT; k >= WEFT_QUEUE_COMPUTE; k--) weft_late_queue_destroy(d->queues[k]);
  weft_late_memory_destroy(d->bytes);
  free(d);
}

static WEFT_Failure *open_device(const WEFT_DeviceOptions *o, int ordinal, void **out) {
  (void)o;
  weft_late_device_t *d = calloc(1, sizeof *d);
  if (d != NULL) d->bytes = weft_late_memory_create();
  if (d == NULL || d->bytes == NULL) {
    free(d);
    return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "out of memory: a late device");
  }
  d->ordinal = ordinal;
  *out = d;
  return NULL;
}

static void describe(void *device, WEFT_DeviceDescription *out) {
  (void)device;
  out->memory_limit = INT64_C(1) << 30;
  out->physical = "a late device of tests";
  out->allocator = "late";
}

static WEFT_Failure *queue(void *device, WEFT_QueueKind kind, const volatile uint64_t *marked, void **out) {
  weft_late_device_t *d = device;
  const uint64_t seed = options.seed + 3 * (uint64_t)d->ordinal + (uint64_t)kind;
  d->queues[kind] = weft_late_queue_create(d, kind, seed, marked);
  if (d->queues[kind] == NULL)
    return weft_late_host->failure(WEFT_LATE_RESOURCE_EXHAUSTED, "no thread for a queue");
  *out = d->queues[kind];
  return NULL;
}

static void *allocate(void *device, size_t bytes, uint64_t *after) {
  weft_late_device_t *d = device;
  return weft_late_memory_allocate(d->bytes, d->queues[WEFT_QUEUE_COMPUTE], bytes, after);
}

static void deallocate(void *device, void *p, size_t bytes, uint64_t used) {
  weft_late_device_t *d = device;
  (void)used; /* the block is overwritten in the queue's order, which is behind that */
  weft_late_memory_deallocate(d->bytes, d->queues[WEFT_QUEUE_COMPUTE], p, bytes);
}

static int reaches(void *from, void *to) {
  (void)from;
  (void)to;
  return !options.by_host;
}

const WEFT_DeviceType weft_late_type = {
    .size = sizeof(WEFT_DeviceType),
    .type = "LATE",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .queue = queue,
    .allocate = allocate,
    .deallocate = deallocate,
    .wait = weft_late_queue_wait,
    .has_passed = weft_late_queue_has_passed,
    .when = weft_late_queue_when,
    .copy = weft_late_queue_copy,
    .reaches = reaches,
    .collectives = &weft_late_collectives,
};

const WEFT_DeviceLibrary *weft_late_open(const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  static const WEFT_DeviceLibrary library = {
      .size = sizeof(WEFT_DeviceLibrary),
      .major = WEFT_DEVICE_MAJOR,
      .minor = WEFT_DEVICE_MINOR,
      .name = "weft_late",
      .version = "1",
      .device = &weft_late_type,
      .kernels = weft_late_kernels,
      .may_link = weft_late_may_link,
      .int32_on_device = 1, /* tests of the executor compute with int32 */
      .kernel_size = sizeof(WEFT_DeviceKernel),
  };
  (void)out_failure;
  weft_late_host = host;
  const char *number = getenv("WEFT_LATE_DEVICES");
  if (number != NULL) options.num_devices = number[0] - '0';
  return &library;
}

const WEFT_DeviceLibrary *WEFT_OpenDeviceLibrary(const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  return weft_late_open(host, out_failure);
}
