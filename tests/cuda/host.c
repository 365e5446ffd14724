/* tests/cuda/host.c - failures that are statuses, and contexts that are two pointers. */
#include "tests/cuda/host.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"
#include "device/cuda/device.h"

static char logged[1024];

static weft_status_t *status(const WEFT_Failure *f) { return (weft_status_t *)(uintptr_t)f; }

static WEFT_Failure *failure(int code, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return (WEFT_Failure *)weft_status_new((weft_code_t)code, __FILE__, __LINE__, "%s", text);
}

static WEFT_Failure *copy(const WEFT_Failure *f) {
  return f == NULL ? NULL : (WEFT_Failure *)weft_status_clone(status(f));
}
static int code(const WEFT_Failure *f) { return (int)weft_status_code(status(f)); }
static const char *message(const WEFT_Failure *f) { return weft_status_message(status(f)); }
static void release(WEFT_Failure *f) { weft_status_free(status(f)); }
static void note(int level, const char *text) { snprintf(logged, sizeof logged, "%d %s", level, text); }
static void *device(const WEFT_KernelContext *c) { return c->device; }
static const char *node_name(const WEFT_KernelContext *c) { return c->node; }

/* Of the device; what is not given back ends with it. */
static WEFT_Failure *scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  uint64_t after;
  *out = weft_cuda_device_type.allocate(c->device, bytes, &after);
  return *out == NULL ? failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: %zu bytes", bytes) : NULL;
}

const char *weft_test_host_logged(void) { return logged; }

const WEFT_DeviceHost weft_test_host = {
    .size = sizeof weft_test_host,
    .major = WEFT_DEVICE_MAJOR,
    .minor = WEFT_DEVICE_MINOR,
    .failure = failure,
    .failure_copy = copy,
    .failure_code = code,
    .failure_message = message,
    .failure_free = release,
    .log = note,
    .device = device,
    .node_name = node_name,
    .scratch = scratch,
};
