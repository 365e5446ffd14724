/* device/cuda/driver.c - opening libcuda.so.1, and what its errors mean. */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "device/cuda/launch.h"

/* NVIDIA's rule of compatibility: what a toolkit compiles runs on every driver of the same major version and
 * of later ones. https://docs.nvidia.com/deploy/cuda-compatibility/ */
enum { NEEDED_VERSION = CUDA_VERSION / 1000 * 1000 };

weft_cuda_driver_t weft_cuda_driver;

static struct {
  weft_mutex_t mu;
  bool tried;            /* guarded by mu */
  WEFT_Failure *failure; /* guarded by mu; NULL: the driver works */
} state = {.mu = WEFT_MUTEX_INITIALIZER};

typedef struct cuda_call {
  const char *name;
  size_t offset;
} cuda_call_t;
#define AS_TEXT(x) #x
static const cuda_call_t entries[] = {
#define WEFT_CUDA_CALL(name) {AS_TEXT(name), offsetof(weft_cuda_driver_t, name)},
#include "device/cuda/driver.def"
#undef WEFT_CUDA_CALL
};
enum { NUM_ENTRIES = sizeof entries / sizeof *entries };

bool weft_cuda_is_fatal(CUresult r) {
  switch (r) {
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
  }
}

static weft_code_t code_of(CUresult r) {
  switch (r) {
    case CUDA_ERROR_OUT_OF_MEMORY: return WEFT_RESOURCE_EXHAUSTED;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_UNKNOWN: /* what a device gives that has fallen off its bus */ return WEFT_UNAVAILABLE;
    default: return WEFT_INTERNAL;
  }
}

/* What to do; NULL: nothing that we know of. */
static const char *advice(CUresult r) {
  switch (r) {
    case CUDA_ERROR_NO_DEVICE:
      return "no NVIDIA GPU is visible; see nvidia-smi, and CUDA_VISIBLE_DEVICES, which may hide them";
    case CUDA_ERROR_STUB_LIBRARY:
      return "the toolkit's stub was found before the driver's libcuda.so.1; remove the folder 'stubs' from "
             "LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "the kernel module and libcuda.so.1 are of different versions; after an update of the driver "
             "the "
             "module has to be loaded again, as by a reboot";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "libcuda.so.1 of a compatibility package does not support this GPU; remove it from "
             "LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "the machine's GPUs are not ready yet; on machines with NVSwitch nvidia-fabricmanager has to "
             "run";
    case CUDA_ERROR_UNKNOWN: return "see the kernel's log (dmesg) for lines that begin with NVRM: Xid";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "another process may have the GPU for itself (nvidia-smi -q -d COMPUTE)";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return "the hardware reports a fault; see nvidia-smi -q and the kernel's log";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "the library has no kernels for this GPU that its driver can use; a later driver may";
    default: return NULL;
  }
}

const char *weft_cuda_error_name(CUresult r) {
  const char *name = NULL;
  if (weft_cuda_driver.cuGetErrorName != NULL) weft_cuda_driver.cuGetErrorName(r, &name);
  return name == NULL ? "an unknown error" : name;
}

const char *weft_cuda_error_text(CUresult r) {
  const char *text = NULL;
  if (weft_cuda_driver.cuGetErrorString != NULL) weft_cuda_driver.cuGetErrorString(r, &text);
  return text == NULL ? "no description" : text;
}

WEFT_Failure *weft_cuda_failure(CUresult r, const char *format, ...) {
  if (r == CUDA_SUCCESS) return NULL;
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  const char *hint = advice(r);
  return weft_cuda_host->failure(code_of(r), "CUDA error: %s: %s: %s%s%s%s", what, weft_cuda_error_name(r),
                                 weft_cuda_error_text(r), hint == NULL ? "" : " (", hint == NULL ? "" : hint,
                                 hint == NULL ? "" : ")");
}

static WEFT_Failure *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    return weft_cuda_host->failure(
        WEFT_UNAVAILABLE,
        "NVIDIA's driver was not found: %s; install it, or run the container with GPUs "
        "(docker run --gpus all)",
        dlerror());
  }
  WEFT_Failure *failure = NULL;
  for (int i = 0; i < NUM_ENTRIES && failure == NULL; i++) {
    void *function = dlsym(library, entries[i].name);
    if (function == NULL) {
      failure = weft_cuda_host->failure(WEFT_UNAVAILABLE,
                                        "%s has no %s: the driver is too old; CUDA %d.0 or later is needed",
                                        path, entries[i].name, NEEDED_VERSION / 1000);
    }
    memcpy((char *)&weft_cuda_driver + entries[i].offset, &function, sizeof function);
  }
  return failure; /* the library stays: a driver's threads may run in it */
}

static WEFT_Failure *initialise(void) {
  int version = 0;
  WEFT_Failure *failure = weft_cuda_failure(weft_cuda_driver.cuInit(0), "initialising the driver");
  if (failure != NULL) return failure;
  failure =
      weft_cuda_failure(weft_cuda_driver.cuDriverGetVersion(&version), "asking for the driver's version");
  if (failure != NULL || version >= NEEDED_VERSION) return failure;
  return weft_cuda_host->failure(
      WEFT_UNAVAILABLE, "NVIDIA's driver supports CUDA %d.%d, and %d.%d is needed: install a later driver",
      version / 1000, version % 1000 / 10, NEEDED_VERSION / 1000, NEEDED_VERSION % 1000 / 10);
}

WEFT_Failure *weft_cuda_driver_open(void) {
  weft_mutex_lock(&state.mu);
  if (!state.tried) {
    state.tried = true;
    const char *path = getenv("WEFT_CUDA_DRIVER");
    state.failure = load(path == NULL || *path == '\0' ? "libcuda.so.1" : path);
    if (state.failure == NULL) state.failure = initialise();
  }
  WEFT_Failure *answer = weft_cuda_host->failure_copy(state.failure);
  weft_mutex_unlock(&state.mu);
  return answer;
}
