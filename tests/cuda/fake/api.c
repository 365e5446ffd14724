/* tests/cuda/fake/api.c - the functions of the driver. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/machine.h"

#define EXPORT FAKE_EXPORT

fake_machine_t fake = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local CUcontext current;

/* ---- each call ---- */

#define AS_TEXT(x) #x
static struct {
  const char *name;
  long calls;
} functions[] = {
#define WEFT_CUDA_CALL(name) {AS_TEXT(name), 0},
#include "device/cuda/driver.def"
#undef WEFT_CUDA_CALL
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

static bool ends_context(CUresult r) { return (r >= 700 && r <= 720) || r == CUDA_ERROR_UNKNOWN; }

/* What call number `n` of `name` is to fail with. */
static CUresult on_demand(const char *name, long n) {
  for (const char *at = fake.fail; *at != '\0';) {
    const size_t length = strcspn(at, "+"), of_name = strcspn(at, "@");
    if (of_name < length && strlen(name) == of_name && strncmp(at, name, of_name) == 0) {
      const char *number = at + of_name + 1, *code = strchr(number, ':');
      if (*number == '*' || strtol(number, NULL, 10) == n) {
        return code != NULL && code < at + length ? (CUresult)strtol(code + 1, NULL, 10) : CUDA_ERROR_UNKNOWN;
      }
    }
    at += length + (at[length] == '+');
  }
  return CUDA_SUCCESS;
}

CUcontext fake_current(void) { return current; }

CUresult fake_begin(const char *name, bool needs_context) {
  pthread_mutex_lock(&fake.mu);
  CUresult r = CUDA_SUCCESS;
  for (int i = 0; i < NUM_FUNCTIONS; i++) {
    if (strcmp(functions[i].name, name) == 0) r = on_demand(name, ++functions[i].calls);
  }
  fake.live.calls++;
  if (r != CUDA_SUCCESS) {
    if (ends_context(r) && current != NULL) fake_context_break(current, r);
  } else if (!fake.initialised) {
    r = CUDA_ERROR_NOT_INITIALIZED;
  } else if (needs_context && current == NULL) {
    fake_fault("%s without a context", name);
    r = CUDA_ERROR_INVALID_CONTEXT;
  } else if (needs_context && current->users == 0) {
    fake_fault("%s in a context that has been released", name);
    r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } else if (needs_context) {
    r = current->broken;
  }
  if (r != CUDA_SUCCESS) pthread_mutex_unlock(&fake.mu);
  return r;
}
#define BEGIN FAKE_BEGIN

CUresult fake_end(CUresult r) {
  pthread_mutex_unlock(&fake.mu);
  return r;
}
#define end fake_end

/* The same for what a capturing thread must not call. */
#define BEGIN_UNSAFE(name, needs_context)                \
  do {                                                   \
    BEGIN(name, needs_context);                          \
    const CUresult unsafe = fake_capture_unsafe();       \
    if (unsafe != CUDA_SUCCESS) return fake_end(unsafe); \
  } while (0)

void fake_fault(const char *format, ...) {
  if (fake.live.faults++ > 0) return;
  va_list args;
  va_start(args, format);
  vsnprintf(fake.live.fault, sizeof fake.live.fault, format, args);
  va_end(args);
}

/* ---- options ---- */

static size_t size_option(const char *value) {
  char *rest;
  size_t n = strtoull(value, &rest, 10);
  if (*rest == 'g') n <<= 30;
  if (*rest == 'm') n <<= 20;
  if (*rest == 'k') n <<= 10;
  return n;
}

static const char *option(const char *name) {
  const char *all = getenv("WEFT_FAKE_CUDA");
  const size_t length = strlen(name);
  while (all != NULL && *all != '\0') {
    if (strncmp(all, name, length) == 0 && all[length] == '=') return all + length + 1;
    all = strchr(all, ',');
    if (all != NULL) all++;
  }
  return NULL;
}

static int int_option(const char *name, int otherwise) {
  const char *value = option(name);
  return value == NULL ? otherwise : (int)strtol(value, NULL, 10);
}

static void configure_locked(void) {
  fake.num_devices = int_option("devices", 1);
  if (fake.num_devices > FAKE_MAX_DEVICES) fake.num_devices = FAKE_MAX_DEVICES;
  fake.late_us = int_option("late_us", 0);
  fake.version = int_option("version", CUDA_VERSION);
  fake.capability = int_option("capability", 90);
  fake.peers = int_option("peers", 1);
  fake.first = int_option("first", 0);
  fake.own = int_option("own", 0);
  fake.seed = (uint64_t)int_option("seed", 1);
  const char *memory = option("memory"), *fail = option("fail");
  const size_t bytes = memory == NULL ? (size_t)1 << 30 : size_option(memory);
  snprintf(fake.fail, sizeof fake.fail, "%.*s", fail == NULL ? 0 : (int)strcspn(fail, ","),
           fail == NULL ? "" : fail);
  for (int i = 0; i < fake.num_devices; i++) {
    fake.devices[i].context.device = i;
    if (fake.devices[i].front == NULL) (void)fake_memory_create(&fake.devices[i], bytes);
  }
}

EXPORT CUresult CUDAAPI cuInit(unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&fake.mu);
  if (!fake.initialised) configure_locked();
  fake.initialised = true;
  pthread_mutex_unlock(&fake.mu);
  BEGIN(cuInit, false);
  return end(fake.num_devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}

/* ---- devices ---- */

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *out) {
  BEGIN(cuDriverGetVersion, false);
  *out = fake.version;
  return end(CUDA_SUCCESS);
}

static const struct {
  CUresult result;
  const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EXPORT CUresult CUDAAPI cuGetErrorName(CUresult r, const char **out) {
  *out = "CUDA_ERROR_OTHER";
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].result == r) *out = errors[i].name;
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGetErrorString(CUresult r, const char **out) {
  *out = "some other error";
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].result == r) *out = errors[i].text;
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetCount(int *out) {
  BEGIN(cuDeviceGetCount, false);
  *out = fake.num_devices;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *out, int ordinal) {
  BEGIN(cuDeviceGet, false);
  if (ordinal < 0 || ordinal >= fake.num_devices) return end(CUDA_ERROR_INVALID_DEVICE);
  *out = ordinal;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDeviceGetName(char *out, int length, CUdevice device) {
  BEGIN(cuDeviceGetName, false);
  (void)device;
  snprintf(out, (size_t)length, "NVIDIA Fake");
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDeviceGetPCIBusId(char *out, int length, CUdevice device) {
  BEGIN(cuDeviceGetPCIBusId, false);
  snprintf(out, (size_t)length, "ffff:%02x:00.0", device + 1);
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice device) {
  BEGIN(cuDeviceGetAttribute, false);
  (void)device;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *out = fake.capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *out = fake.capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *out = 4; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *out = 24 << 10; break; /* small: parts are many */
    default: return end(CUDA_ERROR_INVALID_VALUE);
  }
  return end(CUDA_SUCCESS);
}

/* The same in all processes, if `first` is: they are on one machine. */
EXPORT CUresult CUDAAPI cuDeviceGetUuid(CUuuid *out, CUdevice device) {
  BEGIN(cuDeviceGetUuid, false);
  memset(out, 0, sizeof *out);
  snprintf(out->bytes, sizeof out->bytes, "fake card %d", fake.first + device);
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer) {
  BEGIN(cuDeviceCanAccessPeer, false);
  *out = device != peer && fake.peers != 0;
  return end(CUDA_SUCCESS);
}

/* ---- contexts ---- */

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  BEGIN(cuDevicePrimaryCtxRetain, false);
  CUcontext c = &fake.devices[device].context;
  if (c->users == 0) {
    c->broken = CUDA_SUCCESS;
    memset(c->peers, 0, sizeof c->peers);
    fake.live.contexts++;
  }
  c->users++;
  *out = c;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  BEGIN(cuDevicePrimaryCtxRelease, false);
  fake_device_t *d = &fake.devices[device];
  if (d->context.users == 0) {
    fake_fault("a context was released that is not there");
    return end(CUDA_ERROR_INVALID_CONTEXT);
  }
  if (--d->context.users == 0) {
    fake.live.contexts--;
    while (d->context.broken != CUDA_SUCCESS && d->allocations != NULL) { /* they go with it */
      (void)fake_memory_free(d, d->allocations->at);
    }
    if (d->allocations != NULL) fake_fault("memory is left in a context that ends");
    fake_imports_end(device, d->context.broken != CUDA_SUCCESS);
  }
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext c) {
  BEGIN(cuCtxSetCurrent, false);
  current = c;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  BEGIN(cuCtxEnablePeerAccess, true);
  (void)flags;
  if (fake.peers == 0) return end(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  if (current->peers[peer->device]) return end(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  current->peers[peer->device] = true;
  return end(CUDA_SUCCESS);
}

/* ---- memory ---- */

EXPORT CUresult CUDAAPI cuMemGetInfo(size_t *out_free, size_t *out_total) {
  BEGIN(cuMemGetInfo, true);
  const fake_device_t *d = &fake.devices[current->device];
  *out_free = d->bytes - d->allocated;
  *out_total = d->bytes;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  BEGIN_UNSAFE(cuMemAlloc, true);
  if (bytes == 0) return end(CUDA_ERROR_INVALID_VALUE);
  void *p = fake_memory_allocate(&fake.devices[current->device], bytes);
  if (p == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  *out = (CUdeviceptr)(uintptr_t)p;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuMemFree(CUdeviceptr p) {
  BEGIN_UNSAFE(cuMemFree, true);
  for (CUstream s = fake.streams; s != NULL; s = s->next) { /* it waits for the context's work */
    while (s->context == current && !fake_stream_is_idle(s)) pthread_cond_wait(&fake.changed, &fake.mu);
  }
  if (!fake_memory_free(&fake.devices[current->device], (void *)(uintptr_t)p)) {
    fake_fault("memory was freed that is not allocated");
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  BEGIN_UNSAFE(cuMemHostAlloc, true);
  (void)flags;
  for (int i = 0; i < FAKE_PINNED_MAX; i++) {
    if (fake.pinned[i].at != NULL) continue;
    char *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (p == NULL) break;
    fake.pinned[i].at = p;
    fake.pinned[i].bytes = bytes;
    fake.live.pinned++;
    *out = p;
    return end(CUDA_SUCCESS);
  }
  return end(CUDA_ERROR_OUT_OF_MEMORY);
}

/* Works in a broken context, too: what a process has pinned can always be given back. */
EXPORT CUresult CUDAAPI cuMemFreeHost(void *p) {
  BEGIN_UNSAFE(cuMemFreeHost, false);
  for (int i = 0; i < FAKE_PINNED_MAX; i++) {
    if (fake.pinned[i].at != p) continue;
    fake.pinned[i].at = NULL;
    fake.live.pinned--;
    free(p);
    return end(CUDA_SUCCESS);
  }
  fake_fault("pinned memory was freed that is not allocated");
  return end(CUDA_ERROR_INVALID_VALUE);
}

/* ---- streams ---- */

static CUresult add(CUstream s, const fake_work_t *w) {
  if (s->capture != FAKE_NO_CAPTURE) return end(fake_capture_add(s, w));
  fake_work_t *copy = s->ends ? NULL : malloc(sizeof *copy);
  if (copy == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  *copy = *w;
  fake_stream_add(s, copy);
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
  BEGIN(cuStreamCreate, true);
  (void)flags;
  *out = fake_stream_create(current);
  return end(*out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuStreamDestroy(CUstream s) {
  BEGIN(cuStreamDestroy, false);
  if (s->capture != FAKE_NO_CAPTURE) fake_fault("a stream is destroyed that captures");
  fake_capture_drop(s);
  end(CUDA_SUCCESS);
  fake_stream_destroy(s);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream s) {
  BEGIN(cuStreamSynchronize, true);
  if (s->capture != FAKE_NO_CAPTURE) return end(fake_capture_spoil(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  while (!fake_stream_is_idle(s)) pthread_cond_wait(&fake.changed, &fake.mu);
  return end(s->context->broken);
}

EXPORT CUresult CUDAAPI cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  BEGIN(cuStreamWaitEvent, true);
  (void)flags;
  if (e->captured != NULL && e->captured != s) {
    fake_fault("a stream waits for an event of a capture");
    return end(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  e->users++;
  return add(s, &(fake_work_t){.kind = FAKE_WAIT, .event = e, .number = e->recorded});
}

EXPORT CUresult CUDAAPI cuLaunchHostFunc(CUstream s, CUhostFn fn, void *arg) {
  BEGIN(cuLaunchHostFunc, true);
  return add(s, &(fake_work_t){.kind = FAKE_HOST, .host = fn, .arg = arg});
}

static CUresult copy(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  const char *source = (const char *)(uintptr_t)from;
  char *target = (char *)(uintptr_t)to;
  if (!fake_memory_is_valid(source, bytes) || !fake_memory_is_valid(target, bytes)) {
    fake_fault("a copy of %zu bytes goes beyond an allocation", bytes);
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  if ((fake_memory_owner(source) == NULL && !fake_memory_is_pinned(source, bytes)) ||
      (fake_memory_owner(target) == NULL && !fake_memory_is_pinned(target, bytes))) {
    fake_fault("a copy of %zu bytes of pageable memory, which may wait", bytes);
  }
  return add(s, &(fake_work_t){.kind = FAKE_COPY, .to = target, .from = source, .bytes = bytes});
}

EXPORT CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  BEGIN(cuMemcpyAsync, true);
  return copy(s, to, from, bytes);
}

EXPORT CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                          CUcontext from_context, size_t bytes, CUstream s) {
  BEGIN(cuMemcpyPeerAsync, true);
  if (fake_memory_owner((void *)(uintptr_t)to) != &fake.devices[to_context->device] ||
      fake_memory_owner((void *)(uintptr_t)from) != &fake.devices[from_context->device]) {
    fake_fault("a copy between devices that do not have the memory");
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  return copy(s, to, from, bytes);
}

EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream s) {
  BEGIN(cuMemsetD8Async, true);
  char *target = (char *)(uintptr_t)to;
  if (fake_memory_owner(target) == NULL || !fake_memory_is_valid(target, bytes)) {
    fake_fault("a fill of %zu bytes goes beyond an allocation", bytes);
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  return add(s, &(fake_work_t){.kind = FAKE_FILL, .to = target, .byte = byte, .bytes = bytes});
}

/* ---- events ---- */

EXPORT CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
  BEGIN(cuEventCreate, true);
  (void)flags;
  CUevent e = calloc(1, sizeof *e);
  if (e == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  e->context = current;
  e->users = 1;
  fake.live.events++;
  *out = e;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuEventDestroy(CUevent e) {
  BEGIN(cuEventDestroy, false);
  fake.live.events--;
  fake_event_release(e);
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuEventRecord(CUevent e, CUstream s) {
  BEGIN(cuEventRecord, true);
  if (e->context != s->context) {
    fake_fault("an event is recorded on a stream of another context");
    return end(CUDA_ERROR_INVALID_HANDLE);
  }
  e->users++;
  e->captured = NULL;
  if (s->capture == FAKE_NO_CAPTURE) ++e->recorded;
  return add(s, &(fake_work_t){.kind = FAKE_RECORD, .event = e, .number = e->recorded});
}

EXPORT CUresult CUDAAPI cuEventQuery(CUevent e) {
  BEGIN_UNSAFE(cuEventQuery, false);
  if (e->captured != NULL) return end(CUDA_ERROR_CAPTURED_EVENT);
  if (e->context->broken != CUDA_SUCCESS) return end(e->context->broken);
  return end(e->done >= e->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent e) {
  BEGIN_UNSAFE(cuEventSynchronize, false);
  if (e->captured != NULL) return end(CUDA_ERROR_CAPTURED_EVENT);
  const uint64_t wanted = e->recorded;
  while (e->done < wanted && e->context->broken == CUDA_SUCCESS) pthread_cond_wait(&fake.changed, &fake.mu);
  return end(e->context->broken);
}

/* ---- modules and kernels ---- */

EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image) {
  BEGIN_UNSAFE(cuModuleLoadData, true);
  if (image == NULL || !fake_image_load(image)) return end(CUDA_ERROR_INVALID_IMAGE);
  CUmodule m = calloc(1, sizeof *m);
  if (m == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  m->context = current;
  fake.live.modules++;
  *out = m;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule m) {
  BEGIN_UNSAFE(cuModuleUnload, false);
  fake.live.modules--;
  free(m);
  return end(CUDA_SUCCESS);
}

/* A module has all kernels. */
EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  BEGIN(cuModuleGetFunction, true);
  (void)m;
  for (CUfunction f = fake.functions; f != NULL; f = f->next) {
    if (strcmp(f->kernel.name, name) != 0) continue;
    *out = f;
    return end(CUDA_SUCCESS);
  }
  fake_kernel_t kernel;
  if (!fake_find_kernel(name, &kernel) &&
      (fake_find_emulated == NULL || !fake_find_emulated(name, &kernel))) {
    return end(CUDA_ERROR_NOT_FOUND);
  }
  CUfunction f = calloc(1, sizeof *f);
  if (f == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  *f = (struct CUfunc_st){.next = fake.functions, .kernel = kernel, .max_shared = 48 << 10};
  fake.functions = f;
  *out = f;
  return end(CUDA_SUCCESS);
}

EXPORT CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  BEGIN(cuFuncSetAttribute, true);
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 << 10) {
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  f->max_shared = value;
  return end(CUDA_SUCCESS);
}

static _Thread_local CUresult captured; /* what is wrong with the pointers of a launch */

static void *to_host(void *p) {
  if (p == NULL) return NULL;
  if (fake_memory_owner(p) == NULL ? !fake_memory_is_pinned(p, 0) : !fake_memory_is_valid(p, 0)) {
    captured = CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return fake_memory_bytes(p);
}

EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                       unsigned by, unsigned bz, unsigned shared, CUstream s, void **args,
                                       void **extra) {
  BEGIN(cuLaunchKernel, true);
  (void)extra;
  const bool fits = gx > 0 && gy > 0 && gz > 0 && gx <= INT32_MAX && gy <= 65535 && gz <= 65535 && bx > 0 &&
                    by > 0 && bz > 0 && bx <= 1024 && by <= 1024 && bz <= 64 &&
                    (uint64_t)bx * by * bz <= 1024 && shared <= (unsigned)f->max_shared;
  if (!fits || s == NULL || s->context != current) {
    fake_fault("a launch of %s with (%u,%u,%u) blocks of (%u,%u,%u) threads and %u bytes", f->kernel.name, gx,
               gy, gz, bx, by, bz, shared);
    return end(CUDA_ERROR_INVALID_VALUE);
  }
  captured = CUDA_SUCCESS;
  void *closure = f->kernel.capture(args, to_host);
  if (closure == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  return add(s, &(fake_work_t){.kind = FAKE_KERNEL,
                               .kernel = &f->kernel,
                               .closure = closure,
                               .grid = {gx, gy, gz},
                               .block = {bx, by, bz},
                               .shared = shared,
                               .fault = captured});
}

/* ---- for the libraries beside the driver ---- */

typedef struct library_call {
  size_t bytes; /* of all this */
  void (*run)(const void *args);
  _Alignas(16) char args[];
} library_call_t;

static void run_call(const fake_kernel_t *k, void *closure, const unsigned grid[3], const unsigned block[3],
                     size_t shared) {
  (void)k, (void)grid, (void)block, (void)shared;
  const library_call_t *c = closure;
  c->run(c->args);
  free(closure);
}

static void *copy_call(const void *closure) {
  const library_call_t *c = closure;
  void *copy = malloc(c->bytes);
  if (copy != NULL) memcpy(copy, c, c->bytes);
  return copy;
}

EXPORT weft_fake_cuda_call_fn weft_fake_cuda_call;
int weft_fake_cuda_call(void *stream, void (*run)(const void *args), const void *args, size_t bytes) {
  static const fake_kernel_t kernel = {.name = "a library's call", .run = run_call, .copy = copy_call};
  CUstream s = stream;
  BEGIN(cuLaunchKernel, true);
  library_call_t *c = malloc(sizeof *c + bytes);
  if (c == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
  c->bytes = sizeof *c + bytes;
  c->run = run;
  memcpy(c->args, args, bytes);
  return (int)add(s, &(fake_work_t){.kind = FAKE_KERNEL, .kernel = &kernel, .closure = c});
}

/* ---- for tests ---- */

EXPORT weft_fake_cuda_live_fn weft_fake_cuda_live;
EXPORT weft_fake_cuda_hold_fn weft_fake_cuda_hold;
EXPORT weft_fake_cuda_break_fn weft_fake_cuda_break;
EXPORT weft_fake_cuda_calls_fn weft_fake_cuda_calls;
EXPORT weft_fake_cuda_bytes_fn weft_fake_cuda_bytes;
EXPORT weft_fake_cuda_trace_fn weft_fake_cuda_trace;
EXPORT weft_fake_cuda_settle_fn weft_fake_cuda_settle;

void weft_fake_cuda_live(weft_fake_cuda_live_t *out) {
  pthread_mutex_lock(&fake.mu);
  *out = fake.live;
  pthread_mutex_unlock(&fake.mu);
}

void weft_fake_cuda_hold(int kinds) {
  pthread_mutex_lock(&fake.mu);
  fake.hold = kinds;
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.mu);
}

void weft_fake_cuda_break(int device, int result) {
  pthread_mutex_lock(&fake.mu);
  fake_context_break(&fake.devices[device].context, (CUresult)result);
  pthread_mutex_unlock(&fake.mu);
}

long weft_fake_cuda_calls(const char *function) {
  long calls = -1;
  pthread_mutex_lock(&fake.mu);
  for (int i = 0; i < NUM_FUNCTIONS; i++) {
    if (strcmp(functions[i].name, function) == 0) calls = functions[i].calls;
  }
  pthread_mutex_unlock(&fake.mu);
  return calls;
}

void *weft_fake_cuda_bytes(void *p) {
  pthread_mutex_lock(&fake.mu);
  void *bytes = fake_memory_owner(p) == NULL ? NULL : fake_memory_bytes(p);
  pthread_mutex_unlock(&fake.mu);
  return bytes;
}

int weft_fake_cuda_trace(weft_fake_cuda_done_t *out, int max) {
  pthread_mutex_lock(&fake.mu);
  const int n = fake.num_done;
  for (int i = 0; i < n && i < max; i++) out[i] = fake.trace[i];
  pthread_mutex_unlock(&fake.mu);
  return n;
}

void weft_fake_cuda_settle(void) {
  pthread_mutex_lock(&fake.mu);
  for (CUstream s = fake.streams; s != NULL;) {
    if (fake_stream_is_stuck(s)) {
      s = s->next;
      continue;
    }
    pthread_cond_wait(&fake.changed, &fake.mu);
    s = fake.streams; /* what one has done may let another go on */
  }
  pthread_mutex_unlock(&fake.mu);
}
