/* device/cuda/device.c - the functions of the type "GPU", over queues, an arena and copies. */
#include "device/cuda/device.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "device/cuda/capture.h"
#include "device/cuda/collectives.h"
#include "device/cuda/copies.h"
#include "device/cuda/driver.h"
#include "device/cuda/options.h"
#include "device/cuda/pinned.h"
#include "device/cuda/sharing.h"

enum { MAX_PHYSICAL = 64 };
static const int64_t REPORT_EVERY_NS = INT64_C(10) * 1000 * 1000 * 1000;

/* ---- which there are ---- */

static WEFT_Failure *choose(const WEFT_DeviceOptions *o, weft_cuda_choice_t *out, int *out_num) {
  bool usable[MAX_PHYSICAL] = {false};
  int num = 0;
  WEFT_Failure *f = weft_cuda_driver_open();
  if (f == NULL) f = weft_cuda_physical_count(MAX_PHYSICAL, usable, &num);
  if (f == NULL) f = weft_cuda_choose(o, num, usable, out, out_num);
  return f;
}

static WEFT_Failure *count(const WEFT_DeviceOptions *o, int *out) {
  weft_cuda_choice_t choices[WEFT_CUDA_MAX_LOGICAL];
  int num = 0;
  WEFT_Failure *f = choose(o, choices, &num);
  if (f == NULL) *out = num;
  return f;
}

/* ---- memory ---- */

static void *get_region(void *arg, size_t bytes) {
  const weft_cuda_device_t *d = arg;
  CUdeviceptr p = 0;
  CUresult r = weft_cuda_driver.cuCtxSetCurrent(d->physical->context);
  if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuMemAlloc(&p, bytes);
  return r == CUDA_SUCCESS ? (void *)(uintptr_t)p : NULL;
}

static void give_region_back(void *arg, void *p, size_t bytes) {
  const weft_cuda_device_t *d = arg;
  (void)bytes;
  if (weft_cuda_driver.cuCtxSetCurrent(d->physical->context) != CUDA_SUCCESS) return;
  (void)weft_cuda_driver.cuMemFree((CUdeviceptr)(uintptr_t)p); /* a lost context has no memory any more */
}

static uint64_t passed(void *arg) {
  const weft_cuda_device_t *d = arg;
  const weft_cuda_queue_t *q = d->queues[WEFT_QUEUE_COMPUTE];
  return q == NULL ? 0 : weft_cuda_queue_passed(q);
}

static void report_exhausted(weft_cuda_device_t *d, size_t bytes) {
  const int64_t now = weft_clock_ns();
  int64_t last = __atomic_load_n(&d->last_report_ns, __ATOMIC_RELAXED);
  if ((last != 0 && now - last < REPORT_EVERY_NS) ||
      !__atomic_compare_exchange_n(&d->last_report_ns, &last, now, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  weft_cuda_arena_statistics_t s;
  weft_cuda_arena_statistics(d->arena, &s);
  char text[512];
  snprintf(text, sizeof text,
           "Allocator (%s) ran out of memory trying to allocate %zu bytes: limit %zu, reserved %zu, in use "
           "%zu in %zu "
           "blocks, peak %zu, largest free block %zu",
           d->allocator, bytes, s.limit, s.reserved, s.in_use, s.num_in_use, s.peak, s.largest_free);
  weft_cuda_host->log(1, text);
}

static void memory(void *device, WEFT_DeviceMemory *out) {
  weft_cuda_arena_statistics_t s;
  weft_cuda_arena_statistics(((const weft_cuda_device_t *)device)->arena, &s);
  out->reserved = (int64_t)s.reserved;
  out->in_use = (int64_t)s.in_use;
  out->peak = (int64_t)s.peak;
  out->largest_free = (int64_t)s.largest_free;
}

static void *allocate(void *device, size_t bytes, uint64_t *after) {
  weft_cuda_device_t *d = device;
  void *p = weft_cuda_arena_allocate(d->arena, bytes, after);
  if (p == NULL) report_exhausted(d, bytes);
  return p;
}

static void deallocate(void *device, void *p, size_t bytes, uint64_t used) {
  (void)bytes;
  weft_cuda_arena_free(((weft_cuda_device_t *)device)->arena, p, used);
}

static void *host_allocate(void *device, size_t bytes) {
  const weft_cuda_device_t *d = device;
  if (weft_cuda_driver.cuCtxSetCurrent(d->physical->context) != CUDA_SUCCESS) return NULL;
  return weft_cuda_pinned_allocate(bytes);
}

static void host_deallocate(void *device, void *p, size_t bytes) {
  (void)device;
  (void)bytes;
  weft_cuda_pinned_free(NULL, p);
}

/* ---- life ---- */

static void close_device(void *device) {
  weft_cuda_device_t *d = device;
  for (int k = 0; k < 3; k++) weft_cuda_queue_destroy(d->queues[k]);
  d->queues[WEFT_QUEUE_COMPUTE] = NULL;
  weft_cuda_arena_destroy(d->arena);
  weft_cuda_physical_release(d->physical);
  weft_free(d);
}

static WEFT_Failure *set_limit(weft_cuda_device_t *d, const WEFT_DeviceOptions *o,
                               const weft_cuda_choice_t *choice) {
  size_t free_bytes = 0, total = 0;
  CUresult r = weft_cuda_driver.cuCtxSetCurrent(d->physical->context);
  if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuMemGetInfo(&free_bytes, &total);
  if (r != CUDA_SUCCESS)
    return weft_cuda_failure(r, "asking for the free memory of device %d", d->physical->ordinal);
  /* An equal part is one of all memory: what the other parts have taken already is not free. */
  const size_t left = choice->parts > 1 ? total : free_bytes;
  d->memory_limit = choice->limit_bytes;
  if (d->memory_limit <= 0)
    d->memory_limit = weft_cuda_memory_limit(o, left, total, d->physical->capability_major) / choice->parts;
  const weft_cuda_arena_source_t source = {get_region, give_region_back, passed, d};
  d->arena = weft_cuda_arena_create(&source, (size_t)d->memory_limit, weft_cuda_allows_growth(o));
  return d->arena != NULL
             ? NULL
             : weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: GPU:%d", d->ordinal);
}

static WEFT_Failure *open_device(const WEFT_DeviceOptions *o, int ordinal, void **out) {
  weft_cuda_choice_t choices[WEFT_CUDA_MAX_LOGICAL];
  int num = 0;
  WEFT_Failure *f = choose(o, choices, &num);
  if (f != NULL) return f;
  if (ordinal < 0 || ordinal >= num) {
    return weft_cuda_host->failure(WEFT_INVALID_ARGUMENT, "there is no GPU:%d; there are %d", ordinal, num);
  }
  weft_cuda_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: GPU:%d", ordinal);
  d->ordinal = ordinal;
  snprintf(d->allocator, sizeof d->allocator, "GPU_%d_bfc", ordinal);
  f = weft_cuda_physical_retain(choices[ordinal].physical, &d->physical);
  if (f == NULL) f = set_limit(d, o, &choices[ordinal]);
  if (f != NULL) {
    close_device(d);
    return f;
  }
  *out = d;
  return NULL;
}

static void describe(void *device, WEFT_DeviceDescription *out) {
  const weft_cuda_device_t *d = device;
  out->memory_limit = d->memory_limit;
  out->physical = d->physical->description;
  out->numa_node = d->physical->numa_node;
  out->allocator = d->allocator;
}

static WEFT_Failure *queue(void *device, WEFT_QueueKind kind, const volatile uint64_t *marked, void **out) {
  static const char *const names[] = {"compute", "copies in", "copies out"};
  weft_cuda_device_t *d = device;
  char name[48];
  snprintf(name, sizeof name, "GPU:%d (%s)", d->ordinal, names[kind]);
  WEFT_Failure *f = weft_cuda_queue_create(d->physical->context, name, marked, &d->queues[kind]);
  if (f == NULL) *out = d->queues[kind];
  return f;
}

static WEFT_Failure *copy(void *q, void *from_device, const void *from, void *to_device, void *to,
                          size_t bytes) {
  const weft_cuda_device_t *source = from_device, *target = to_device;
  if (source == NULL && target == NULL)
    return weft_cuda_host->failure(WEFT_INTERNAL, "a copy within the host's memory");
  if (source == NULL) return weft_cuda_copy_in(q, from, to, bytes);
  if (target == NULL) return weft_cuda_copy_out(q, from, to, bytes);
  return weft_cuda_copy_across(q, source->physical->context, from, target->physical->context, to, bytes);
}

static int reaches(void *from, void *to) {
  const weft_cuda_device_t *a = from, *b = to;
  return weft_cuda_physical_reaches(a->physical, b->physical);
}

const WEFT_DeviceType weft_cuda_device_type = {
    .size = sizeof weft_cuda_device_type,
    .type = "GPU",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .queue = queue,
    .allocate = allocate,
    .deallocate = deallocate,
    .host_allocate = host_allocate,
    .host_deallocate = host_deallocate,
    .wait = weft_cuda_queue_wait,
    .has_passed = weft_cuda_queue_has_passed,
    .when = weft_cuda_queue_when,
    .copy = copy,
    .reaches = reaches,
    .collectives = &weft_cuda_collectives,
    .sharing = &weft_cuda_sharing,
    .memory = memory,
    .capture_begin = weft_cuda_capture_begin,
    .capture_end = weft_cuda_capture_end,
    .replay = weft_cuda_graph_replay,
    .graph_destroy = weft_cuda_graph_destroy,
};
