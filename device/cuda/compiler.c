/* device/cuda/compiler.c - NVRTC. */
#include "device/cuda/compiler.h"

#include <nvrtc.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "device/cuda/compile_cache.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/shared_library.h"

enum { MAX_ARCHITECTURES = 64, MAX_HEADERS = 16 };

/* ---- the library ---- */

static struct {
#define WEFT_CUDA_NVRTC_CALL(name) __typeof__(name) *name;
#include "device/cuda/nvrtc.def"
#undef WEFT_CUDA_NVRTC_CALL
} nvrtc;

static const weft_cuda_symbol_t symbols[] = {
#define WEFT_CUDA_NVRTC_CALL(name) WEFT_CUDA_SYMBOL(nvrtc, name)
#include "device/cuda/nvrtc.def"
#undef WEFT_CUDA_NVRTC_CALL
};

static const char *const places[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                     "/usr/local/cuda/lib64/libnvrtc.so.13",
                                     "/usr/local/cuda/lib64/libnvrtc.so.12", NULL};
static weft_cuda_shared_library_t library = {.what = "chains of elementwise ops are compiled by NVRTC",
                                             .version = "NVRTC 12 or later",
                                             .hint = "install the CUDA toolkit's libnvrtc",
                                             .variable = "WEFT_NVRTC",
                                             .places = places,
                                             .symbols = symbols,
                                             .num_symbols = sizeof symbols / sizeof *symbols,
                                             .table = &nvrtc,
                                             .mu = WEFT_MUTEX_INITIALIZER};

bool weft_cuda_can_compile(void) {
  WEFT_Failure *f = weft_cuda_shared_library_open(&library);
  weft_cuda_host->failure_free(f);
  return f == NULL;
}

static WEFT_Failure *failure_of(nvrtcResult r, const char *what) {
  if (r == NVRTC_SUCCESS) return NULL;
  return weft_cuda_host->failure(r == NVRTC_ERROR_OUT_OF_MEMORY ? WEFT_RESOURCE_EXHAUSTED : WEFT_INTERNAL,
                                 "NVRTC: %s: %s", what, nvrtc.nvrtcGetErrorString(r));
}

/* ---- what it compiles for ---- */

typedef struct cuda_target {
  int architecture; /* 90: of compute capability 9.0 */
  bool is_exact;    /* the device's own: machine code. Else the nearest one before it, as PTX */
  char key[48];     /* "sm_90 13.0" */
} cuda_target_t;

static WEFT_Failure *find_target(const weft_cuda_physical_t *p, cuda_target_t *out) {
  const int wanted = p->capability_major * 10 + p->capability_minor;
  int num = 0, all[MAX_ARCHITECTURES], major = 0, minor = 0;
  nvrtcResult r = nvrtc.nvrtcGetNumSupportedArchs(&num);
  if (r == NVRTC_SUCCESS && num <= MAX_ARCHITECTURES) r = nvrtc.nvrtcGetSupportedArchs(all);
  if (r == NVRTC_SUCCESS) r = nvrtc.nvrtcVersion(&major, &minor);
  if (r != NVRTC_SUCCESS) return failure_of(r, "its architectures");
  if (num > MAX_ARCHITECTURES) num = 0;
  out->architecture = 0;
  for (int i = 0; i < num; i++) {
    if (all[i] <= wanted && all[i] > out->architecture) out->architecture = all[i];
  }
  if (out->architecture == 0)
    return weft_cuda_host->failure(WEFT_UNAVAILABLE,
                                   "NVRTC %d.%d does not compile for compute capability %d.%d", major, minor,
                                   p->capability_major, p->capability_minor);
  out->is_exact = out->architecture == wanted;
  snprintf(out->key, sizeof out->key, "%s_%d %d.%d", out->is_exact ? "sm" : "compute", out->architecture,
           major, minor);
  return NULL;
}

/* ---- compiling ---- */

/* The first lines of what NVRTC says of the source. */
static WEFT_Failure *bad_source(nvrtcProgram program, nvrtcResult r, const char *name) {
  size_t bytes = 0;
  char *log = NULL;
  if (nvrtc.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 0)
    log = weft_calloc(1, bytes + 1);
  if (log != NULL && nvrtc.nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) log[0] = '\0';
  WEFT_Failure *f = weft_cuda_host->failure(WEFT_INTERNAL, "NVRTC: compiling %s: %s: %.600s", name,
                                            nvrtc.nvrtcGetErrorString(r), log == NULL ? "" : log);
  weft_free(log);
  return f;
}

static WEFT_Failure *take_image(nvrtcProgram program, bool is_exact, char **out, size_t *out_bytes) {
  nvrtcResult r =
      is_exact ? nvrtc.nvrtcGetCUBINSize(program, out_bytes) : nvrtc.nvrtcGetPTXSize(program, out_bytes);
  if (r != NVRTC_SUCCESS) return failure_of(r, "the compiled kernel");
  char *image = weft_malloc(*out_bytes);
  if (image == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a compiled kernel");
  r = is_exact ? nvrtc.nvrtcGetCUBIN(program, image) : nvrtc.nvrtcGetPTX(program, image);
  if (r != NVRTC_SUCCESS) {
    weft_free(image);
    return failure_of(r, "the compiled kernel");
  }
  *out = image;
  return NULL;
}

static WEFT_Failure *compile(const cuda_target_t *t, const char *name, const char *source,
                             const weft_cuda_header_t *headers, char **out, size_t *out_bytes) {
  const char *names[MAX_HEADERS], *texts[MAX_HEADERS];
  char option[48];
  int n = 0;
  for (; headers[n].name != NULL && n < MAX_HEADERS; n++) {
    names[n] = headers[n].name;
    texts[n] = headers[n].text;
  }
  snprintf(option, sizeof option, "--gpu-architecture=%s_%d", t->is_exact ? "sm" : "compute",
           t->architecture);
  const char *const options[] = {option, "--std=c++17"};
  nvrtcProgram program = NULL;
  nvrtcResult r = nvrtc.nvrtcCreateProgram(&program, source, name, n, texts, names);
  if (r != NVRTC_SUCCESS) return failure_of(r, name);
  r = nvrtc.nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
  WEFT_Failure *f =
      r != NVRTC_SUCCESS ? bad_source(program, r, name) : take_image(program, t->is_exact, out, out_bytes);
  (void)nvrtc.nvrtcDestroyProgram(&program);
  return f;
}

/* What the cache knows a source by: its headers are part of it. NULL: no memory. */
static char *whole_text(const char *source, const weft_cuda_header_t *headers) {
  size_t bytes = strlen(source) + 1;
  for (int i = 0; headers[i].name != NULL; i++) bytes += strlen(headers[i].text);
  char *all = weft_malloc(bytes), *at = all;
  if (all == NULL) return NULL;
  for (int i = 0; headers[i].name != NULL; i++) {
    const size_t n = strlen(headers[i].text);
    memcpy(at, headers[i].text, n);
    at += n;
  }
  memcpy(at, source, strlen(source) + 1);
  return all;
}

static WEFT_Failure *build(const weft_cuda_device_t *d, const char *name, const char *source,
                           const weft_cuda_header_t *headers) {
  cuda_target_t target;
  char *image = NULL, *text = whole_text(source, headers);
  size_t bytes = 0;
  if (text == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: compiling %s", name);
  WEFT_Failure *f = weft_cuda_shared_library_open(&library);
  if (f == NULL) f = find_target(d->physical, &target);
  if (f == NULL && !weft_cuda_cache_find(target.key, text, &image, &bytes)) {
    f = compile(&target, name, source, headers, &image, &bytes);
    if (f == NULL) weft_cuda_cache_store(target.key, text, image, bytes);
  }
  if (f == NULL) f = weft_cuda_modules_add(d->physical->modules, name, image);
  weft_free(image);
  weft_free(text);
  return f;
}

WEFT_Failure *weft_cuda_compile(void *device, weft_cuda_function_t *f, const char *source,
                                const weft_cuda_header_t *headers) {
  const weft_cuda_device_t *d = device;
  CUfunction function;
  const CUresult r = weft_cuda_driver.cuCtxSetCurrent(d->physical->context);
  if (r != CUDA_SUCCESS) return weft_cuda_failure(r, "compiling %s", f->name);
  WEFT_Failure *failure = weft_cuda_modules_find(d->physical->modules, f, &function);
  if (failure == NULL || weft_cuda_host->failure_code(failure) != WEFT_NOT_FOUND) return failure;
  weft_cuda_host->failure_free(failure);
  return build(d, f->name, source, headers);
}
