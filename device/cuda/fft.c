/* device/cuda/fft.c - cuFFT, and the plans of each card.
 *
 * A plan lives as long as the context of its card: work that is under way, and recorded work that is
 * replayed, reads what it keeps in the device's memory. Its work area is scratch memory of each run. A plan
 * has one stream and one work area at a time, so a lock is held from setting them until the work is enqueued.
 */
#include "device/cuda/fft.h"

#include <cufft.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/shared_library.h"

enum { NUM_CHAINS = 256, MAX_PLANS = 4096 };

/* ---- the library ---- */

static struct {
#define WEFT_CUDA_FFT_CALL(name) __typeof__(name) *name;
#include "device/cuda/fft.def"
#undef WEFT_CUDA_FFT_CALL
} fft;

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: cuFFT");
}

static WEFT_Failure *failure_of(cufftResult r, const char *what) {
  if (r == CUFFT_SUCCESS) return NULL;
  const weft_code_t code = r == CUFFT_ALLOC_FAILED ? WEFT_RESOURCE_EXHAUSTED
                           : r == CUFFT_INVALID_SIZE || r == CUFFT_NOT_SUPPORTED || r == CUFFT_NOT_IMPLEMENTED
                               ? WEFT_UNIMPLEMENTED
                               : WEFT_INTERNAL;
  return weft_cuda_host->failure((int)code, "cuFFT: %s: error %d", what, (int)r);
}

static const weft_cuda_symbol_t symbols[] = {
#define WEFT_CUDA_FFT_CALL(name) WEFT_CUDA_SYMBOL(fft, name)
#include "device/cuda/fft.def"
#undef WEFT_CUDA_FFT_CALL
};

static const char *const places[] = {"libcufft.so.12", "libcufft.so.11",
                                     "/usr/local/cuda/lib64/libcufft.so.12",
                                     "/usr/local/cuda/lib64/libcufft.so.11", NULL};
static weft_cuda_shared_library_t library = {.what = "Fourier transforms need cuFFT",
                                             .version = "cuFFT 11 or 12",
                                             .hint = "install the CUDA toolkit's libcufft",
                                             .variable = "WEFT_CUFFT",
                                             .places = places,
                                             .symbols = symbols,
                                             .num_symbols = sizeof symbols / sizeof *symbols,
                                             .table = &fft,
                                             .mu = WEFT_MUTEX_INITIALIZER};

/* ---- plans ---- */

typedef struct cufft_plan {
  struct cufft_plan *next; /* of the chain */
  weft_cuda_fft_t key;
  cufftHandle handle; /* guarded by the device's mu */
  size_t workspace;
} cufft_plan_t;

typedef struct cufft_device {
  weft_mutex_t mu;
  cufft_plan_t *chains[NUM_CHAINS]; /* guarded by mu */
  int num_plans;                    /* guarded by mu */
} cufft_device_t;

static void destroy_device(void *value) {
  cufft_device_t *d = value;
  for (int i = 0; i < NUM_CHAINS; i++) {
    for (cufft_plan_t *p = d->chains[i], *next; p != NULL; p = next) {
      next = p->next;
      (void)fft.cufftDestroy(p->handle);
      weft_free(p);
    }
  }
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static WEFT_Failure *make_device(void **out) {
  WEFT_Failure *f = weft_cuda_shared_library_open(&library);
  if (f != NULL) return f;
  cufft_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return no_memory();
  weft_mutex_init(&d->mu);
  *out = d;
  return NULL;
}

static cufftType type_of(const weft_cuda_fft_t *k) {
  switch (k->kind) {
    case WEFT_CUDA_FFT_FROM_REAL: return k->is_double ? CUFFT_D2Z : CUFFT_R2C;
    case WEFT_CUDA_FFT_TO_REAL: return k->is_double ? CUFFT_Z2D : CUFFT_C2R;
    default: return k->is_double ? CUFFT_Z2Z : CUFFT_C2C;
  }
}

static WEFT_Failure *make_plan(const weft_cuda_fft_t *key, cufft_plan_t **out) {
  cufft_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  p->key = *key;
  long long n[3] = {0};
  for (int i = 0; i < key->rank; i++) n[i] = key->n[i];
  cufftResult r = fft.cufftCreate(&p->handle);
  if (r != CUFFT_SUCCESS) {
    weft_free(p);
    return failure_of(r, "making a plan");
  }
  r = fft.cufftSetAutoAllocation(p->handle, 0);
  if (r == CUFFT_SUCCESS) { /* no embedding: dense, and then the distances are not read */
    r = fft.cufftMakePlanMany64(p->handle, key->rank, n, NULL, 1, 1, NULL, 1, 1, type_of(key), key->batch,
                                &p->workspace);
  }
  if (r != CUFFT_SUCCESS) {
    (void)fft.cufftDestroy(p->handle);
    weft_free(p);
    return failure_of(r, "planning a transform");
  }
  *out = p;
  return NULL;
}

static bool is_same(const weft_cuda_fft_t *a, const weft_cuda_fft_t *b) {
  const bool is_complex = a->kind <= WEFT_CUDA_FFT_BACKWARD && b->kind <= WEFT_CUDA_FFT_BACKWARD;
  if (!(is_complex || a->kind == b->kind) || a->is_double != b->is_double || a->rank != b->rank ||
      a->batch != b->batch) {
    return false;
  }
  for (int i = 0; i < a->rank; i++) {
    if (a->n[i] != b->n[i]) return false;
  }
  return true;
}

static unsigned chain_of(const weft_cuda_fft_t *k) {
  uint64_t h = (uint64_t)k->batch;
  for (int i = 0; i < k->rank; i++) h = (h ^ (uint64_t)k->n[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return (unsigned)(h >> 32) % NUM_CHAINS;
}

static WEFT_Failure *find_plan_locked(cufft_device_t *d, const weft_cuda_fft_t *key, cufft_plan_t **out)
    WEFT_REQUIRES(d->mu) {
  cufft_plan_t **chain = &d->chains[chain_of(key)], *p = *chain;
  while (p != NULL && !is_same(&p->key, key)) p = p->next;
  if (p == NULL) {
    if (d->num_plans >= MAX_PLANS) {
      return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "cuFFT: more than %d different transforms",
                                     (int)MAX_PLANS);
    }
    WEFT_Failure *f = make_plan(key, &p);
    if (f != NULL) return f;
    p->next = *chain;
    *chain = p;
    d->num_plans++;
  }
  *out = p;
  return NULL;
}

/* ---- transforms ---- */

static cufftResult execute(cufftHandle h, const weft_cuda_fft_t *k, void *x, void *y) {
  const int direction = k->kind == WEFT_CUDA_FFT_BACKWARD ? CUFFT_INVERSE : CUFFT_FORWARD;
  switch (type_of(k)) {
    case CUFFT_R2C: return fft.cufftExecR2C(h, x, y);
    case CUFFT_D2Z: return fft.cufftExecD2Z(h, x, y);
    case CUFFT_C2R: return fft.cufftExecC2R(h, x, y);
    case CUFFT_Z2D: return fft.cufftExecZ2D(h, x, y);
    case CUFFT_Z2Z: return fft.cufftExecZ2Z(h, x, y, direction);
    default: return fft.cufftExecC2C(h, x, y, direction);
  }
}

static WEFT_Failure *transform_locked(WEFT_KernelContext *c, cufft_device_t *d, const weft_cuda_fft_t *k,
                                      void *x, void *y) WEFT_REQUIRES(d->mu) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  weft_cuda_queue_t *q = device->queues[WEFT_QUEUE_COMPUTE];
  cufft_plan_t *p = NULL;
  void *workspace = NULL;
  WEFT_Failure *f = find_plan_locked(d, k, &p);
  if (f == NULL && p->workspace > 0) f = weft_cuda_host->scratch(c, p->workspace, &workspace);
  if (f != NULL) return f;
  weft_cuda_queue_note(q, weft_cuda_host->node_name(c));
  cufftResult r = fft.cufftSetStream(p->handle, (cudaStream_t)weft_cuda_queue_stream(q));
  if (r == CUFFT_SUCCESS && workspace != NULL) r = fft.cufftSetWorkArea(p->handle, workspace);
  if (r == CUFFT_SUCCESS) r = execute(p->handle, k, x, y);
  return failure_of(r, "enqueuing a transform");
}

WEFT_Failure *weft_cuda_fft(WEFT_KernelContext *c, const weft_cuda_fft_t *p, void *x, void *y) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  void *kept = NULL;
  WEFT_Failure *f = weft_cuda_queue_begin(device->queues[WEFT_QUEUE_COMPUTE], "a Fourier transform");
  if (f == NULL)
    f = weft_cuda_physical_attachment(device->physical, WEFT_CUDA_FFT, make_device, destroy_device, &kept);
  if (f != NULL) return f;
  cufft_device_t *d = kept;
  weft_mutex_lock(&d->mu);
  f = transform_locked(c, d, p, x, y);
  weft_mutex_unlock(&d->mu);
  return f;
}
