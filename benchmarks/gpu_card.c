/* benchmarks/gpu_card.c - see the header. Each measure has memory of its own, which it gives back. */
#include "benchmarks/gpu_card.h"

#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { MAX_TIMES = 64 };
static const size_t WORKSPACE = (size_t)32 << 20;

#define CARD_DRIVER(m)                                                                                 \
  m(cuInit) m(cuDeviceGet) m(cuDevicePrimaryCtxRetain) m(cuDevicePrimaryCtxRelease) m(cuCtxSetCurrent) \
      m(cuMemGetInfo) m(cuMemAlloc) m(cuMemFree) m(cuMemcpyAsync) m(cuMemsetD8Async) m(cuStreamCreate) \
          m(cuStreamDestroy) m(cuStreamSynchronize)
#define CARD_BLAS(m)                                                                            \
  m(cublasLtCreate) m(cublasLtDestroy) m(cublasLtMatmul) m(cublasLtMatmulDescCreate)            \
      m(cublasLtMatmulDescDestroy) m(cublasLtMatrixLayoutCreate) m(cublasLtMatrixLayoutDestroy) \
          m(cublasLtMatmulPreferenceCreate) m(cublasLtMatmulPreferenceDestroy)                  \
              m(cublasLtMatmulPreferenceSetAttribute) m(cublasLtMatmulAlgoGetHeuristic)

struct weft_gpu_card {
#define CARD_MEMBER(name) __typeof__(name) *name;
  struct {
    CARD_DRIVER(CARD_MEMBER)
  } driver;
  struct {
    CARD_BLAS(CARD_MEMBER)
  } blas;
#undef CARD_MEMBER
  CUdevice device;
  CUcontext context;
  CUstream stream;
};

/* ---- libraries ---- */

typedef struct card_symbol {
  const char *name;
  size_t offset;
} card_symbol_t;
#define CARD_TEXT(name) #name
#define CARD_SYMBOL_OF(part, name) {CARD_TEXT(name), offsetof(weft_gpu_card_t, part.name)},
#define CARD_DRIVER_SYMBOL(name) CARD_SYMBOL_OF(driver, name)
#define CARD_BLAS_SYMBOL(name) CARD_SYMBOL_OF(blas, name)
static const card_symbol_t driver_symbols[] = {CARD_DRIVER(CARD_DRIVER_SYMBOL)};
static const card_symbol_t blas_symbols[] = {CARD_BLAS(CARD_BLAS_SYMBOL)};

/* Of the first of these files that opens; a file that the variable names comes first. */
static bool load(weft_gpu_card_t *c, const char *variable, const char *const *files, const card_symbol_t *s,
                 size_t n) {
  const char *named = getenv(variable);
  void *library = named == NULL || *named == '\0' ? NULL : dlopen(named, RTLD_NOW | RTLD_LOCAL);
  for (; library == NULL && *files != NULL; files++) library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library != NULL && i < n; i++) {
    void *function = dlsym(library, s[i].name);
    if (function == NULL) return false;
    memcpy((char *)c + s[i].offset, &function, sizeof function);
  }
  return library != NULL; /* it stays: threads may run in it */
}

weft_gpu_card_t *weft_gpu_card_open(const char **out_why) {
  static const char *const drivers[] = {"libcuda.so.1", NULL}, *const blas[] = {
                                                                   "libcublasLt.so.13", "libcublasLt.so.12",
                                                                   "/usr/local/cuda/lib64/libcublasLt.so.13",
                                                                   "/usr/local/cuda/lib64/libcublasLt.so.12",
                                                                   NULL};
  weft_gpu_card_t *c = weft_calloc(1, sizeof *c);
  *out_why = NULL;
  if (c == NULL) {
    *out_why = "out of memory";
  } else if (!load(c, "WEFT_CUDA_DRIVER", drivers, driver_symbols,
                   sizeof driver_symbols / sizeof *driver_symbols)) {
    *out_why = "NVIDIA's driver was not found";
  } else if (!load(c, "WEFT_CUBLASLT", blas, blas_symbols, sizeof blas_symbols / sizeof *blas_symbols)) {
    *out_why = "cuBLASLt was not found";
  } else if (c->driver.cuInit(0) != CUDA_SUCCESS || c->driver.cuDeviceGet(&c->device, 0) != CUDA_SUCCESS ||
             c->driver.cuDevicePrimaryCtxRetain(&c->context, c->device) != CUDA_SUCCESS) {
    *out_why = "there is no card that can be used";
  } else if (c->driver.cuCtxSetCurrent(c->context) != CUDA_SUCCESS ||
             c->driver.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    c->driver.cuDevicePrimaryCtxRelease(c->device);
    *out_why = "the card gives no stream";
  }
  if (*out_why == NULL) return c;
  weft_free(c);
  return NULL;
}

void weft_gpu_card_close(weft_gpu_card_t *c) {
  if (c == NULL) return;
  c->driver.cuStreamDestroy(c->stream);
  c->driver.cuCtxSetCurrent(NULL);
  c->driver.cuDevicePrimaryCtxRelease(c->device);
  weft_free(c);
}

/* A session that ends leaves its thread without a context. */
static bool enter(weft_gpu_card_t *c) { return c->driver.cuCtxSetCurrent(c->context) == CUDA_SUCCESS; }

size_t weft_gpu_card_free_bytes(weft_gpu_card_t *c) {
  size_t bytes = 0, all = 0;
  return enter(c) && c->driver.cuMemGetInfo(&bytes, &all) == CUDA_SUCCESS ? bytes : 0;
}

/* ---- measures ---- */

/* Memory that is filled, so that a product has no NaN of old bytes. */
static bool take(weft_gpu_card_t *c, size_t bytes, CUdeviceptr *out) {
  return c->driver.cuMemAlloc(out, bytes) == CUDA_SUCCESS &&
         c->driver.cuMemsetD8Async(*out, 0x3c, bytes, c->stream) == CUDA_SUCCESS;
}
static void give(weft_gpu_card_t *c, CUdeviceptr p) {
  if (p != 0) c->driver.cuMemFree(p);
}

static double least(double a, double b) { return a < 0 || b < a ? b : a; }

double weft_gpu_card_copy(weft_gpu_card_t *c, size_t bytes, int times) {
  CUdeviceptr from = 0, to = 0;
  double best = -1;
  bool ok = enter(c) && take(c, bytes, &from) && take(c, bytes, &to) &&
            c->driver.cuStreamSynchronize(c->stream) == CUDA_SUCCESS;
  for (int i = 0; i < times && i < MAX_TIMES && ok; i++) {
    enum { COPIES = 8 }; /* so that the wait for their end is no part of it */
    const int64_t start = weft_clock_ns();
    for (int k = 0; k < COPIES && ok; k++)
      ok = c->driver.cuMemcpyAsync(to, from, bytes, c->stream) == CUDA_SUCCESS;
    ok = ok && c->driver.cuStreamSynchronize(c->stream) == CUDA_SUCCESS;
    best = least(best, (double)(weft_clock_ns() - start) / 1e9 / COPIES);
  }
  give(c, from);
  give(c, to);
  return ok ? best : -1;
}

typedef struct card_product {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t what;
  cublasLtMatrixLayout_t layout; /* of all three: square and dense */
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t chosen;
  CUdeviceptr a, b, out, workspace;
} card_product_t;

static bool describe(weft_gpu_card_t *c, int64_t n, bool is_bfloat16, card_product_t *p) {
  const cudaDataType type = is_bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  const size_t bytes = (size_t)n * (size_t)n * (is_bfloat16 ? 2 : 4), workspace = WORKSPACE;
  int found = 0;
  return c->blas.cublasLtCreate(&p->handle) == CUBLAS_STATUS_SUCCESS &&
         c->blas.cublasLtMatmulDescCreate(&p->what,
                                          is_bfloat16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32,
                                          CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
         c->blas.cublasLtMatrixLayoutCreate(&p->layout, type, (uint64_t)n, (uint64_t)n, n) ==
             CUBLAS_STATUS_SUCCESS &&
         c->blas.cublasLtMatmulPreferenceCreate(&p->preference) == CUBLAS_STATUS_SUCCESS &&
         c->blas.cublasLtMatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace,
                                                      sizeof workspace) == CUBLAS_STATUS_SUCCESS &&
         c->blas.cublasLtMatmulAlgoGetHeuristic(p->handle, p->what, p->layout, p->layout, p->layout,
                                                p->layout, p->preference, 1, &p->chosen,
                                                &found) == CUBLAS_STATUS_SUCCESS &&
         found == 1 && take(c, bytes, &p->a) && take(c, bytes, &p->b) && take(c, bytes, &p->out) &&
         take(c, WORKSPACE, &p->workspace) && c->driver.cuStreamSynchronize(c->stream) == CUDA_SUCCESS;
}

static bool multiply(weft_gpu_card_t *c, const card_product_t *p) {
  const float one = 1, zero = 0;
  return c->blas.cublasLtMatmul(p->handle, p->what, &one, (const void *)(uintptr_t)p->a, p->layout,
                                (const void *)(uintptr_t)p->b, p->layout, &zero, (void *)(uintptr_t)p->out,
                                p->layout, (void *)(uintptr_t)p->out, p->layout, &p->chosen.algo,
                                (void *)(uintptr_t)p->workspace, WORKSPACE,
                                (cudaStream_t)c->stream) == CUBLAS_STATUS_SUCCESS;
}

double weft_gpu_card_product(weft_gpu_card_t *c, int64_t n, bool is_bfloat16, int times) {
  card_product_t p = {.handle = NULL};
  double best = -1;
  bool ok = enter(c) && describe(c, n, is_bfloat16, &p) && multiply(c, &p) &&
            c->driver.cuStreamSynchronize(c->stream) == CUDA_SUCCESS;
  for (int i = 0; i < times && i < MAX_TIMES && ok; i++) {
    enum { PRODUCTS = 8 };
    const int64_t start = weft_clock_ns();
    for (int k = 0; k < PRODUCTS && ok; k++) ok = multiply(c, &p);
    ok = ok && c->driver.cuStreamSynchronize(c->stream) == CUDA_SUCCESS;
    best = least(best, (double)(weft_clock_ns() - start) / 1e9 / PRODUCTS);
  }
  give(c, p.a);
  give(c, p.b);
  give(c, p.out);
  give(c, p.workspace);
  if (p.preference != NULL) c->blas.cublasLtMatmulPreferenceDestroy(p.preference);
  if (p.layout != NULL) c->blas.cublasLtMatrixLayoutDestroy(p.layout);
  if (p.what != NULL) c->blas.cublasLtMatmulDescDestroy(p.what);
  if (p.handle != NULL) c->blas.cublasLtDestroy(p.handle);
  return ok ? best : -1;
}
