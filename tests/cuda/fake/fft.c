/* tests/cuda/fake/fft.c - cuFFT, played by the host: libcufft_fake.so.
 *
 * Transforms are sums by their definition, in double, in the order of the fake driver's streams. What a real
 * library refuses is refused: plans that are none, addresses that are no device memory, a plan that has no
 * work area. Transforms to real numbers write over their input, and all write over the work area. A length of
 * 4099 is not supported, as by no real library.
 */
#pragma GCC visibility push(default)
#include <cuda.h>

#include <cufft.h>
#pragma GCC visibility pop
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/numbers.h"

#define EXPORT __attribute__((visibility("default")))
enum { MAX_HANDLES = 1024, WORKSPACE = 512, REFUSED = 4099 };

typedef struct fft_plan {
  bool is_made, is_planned, allocates;
  int rank;
  int64_t n[3], batch;
  cufftType type;
  cudaStream_t stream;
  char *workspace; /* the host's address */
} fft_plan_t;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static fft_plan_t plans[MAX_HANDLES]; /* guarded by mu */

/* A function of the fake driver, which is there already. */
static void *driver_function(const char *name) {
  const char *path = getenv("WEFT_CUDA_DRIVER");
  void *driver = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

/* The host's address of `size` bytes of the device, or NULL. */
static char *bytes_of(const void *p, size_t size) {
  weft_fake_cuda_bytes_fn *bytes;
  *(void **)&bytes = driver_function(WEFT_FAKE_CUDA_BYTES);
  char *at = (char *)(uintptr_t)p;
  if (bytes == NULL || size == 0 || bytes(at + size - 1) == NULL) return NULL;
  return bytes(at);
}

EXPORT cufftResult CUFFTAPI cufftCreate(cufftHandle *out) {
  cufftResult r = CUFFT_ALLOC_FAILED;
  pthread_mutex_lock(&mu);
  for (int i = 0; i < MAX_HANDLES && r != CUFFT_SUCCESS; i++) {
    if (plans[i].is_made) continue;
    plans[i] = (fft_plan_t){.is_made = true, .allocates = true};
    *out = i + 1;
    r = CUFFT_SUCCESS;
  }
  pthread_mutex_unlock(&mu);
  return r;
}

static fft_plan_t *plan_of(cufftHandle h) {
  return h >= 1 && h <= MAX_HANDLES && plans[h - 1].is_made ? &plans[h - 1] : NULL;
}

EXPORT cufftResult CUFFTAPI cufftDestroy(cufftHandle h) {
  pthread_mutex_lock(&mu);
  fft_plan_t *p = plan_of(h);
  if (p != NULL) p->is_made = false;
  pthread_mutex_unlock(&mu);
  return p == NULL ? CUFFT_INVALID_PLAN : CUFFT_SUCCESS;
}

EXPORT cufftResult CUFFTAPI cufftSetAutoAllocation(cufftHandle h, int allocates) {
  fft_plan_t *p = plan_of(h);
  if (p == NULL || p->is_planned) return CUFFT_INVALID_PLAN;
  p->allocates = allocates != 0;
  return CUFFT_SUCCESS;
}

EXPORT cufftResult CUFFTAPI cufftMakePlanMany64(cufftHandle h, int rank, long long int *n,
                                                long long int *inembed, long long int istride,
                                                long long int idist, long long int *onembed,
                                                long long int ostride, long long int odist, cufftType type,
                                                long long int batch, size_t *workspace) {
  fft_plan_t *p = plan_of(h);
  (void)istride, (void)idist, (void)ostride, (void)odist;
  if (p == NULL || p->is_planned || p->allocates) return CUFFT_INVALID_PLAN;
  if (rank < 1 || rank > 3 || batch < 1 || inembed != NULL || onembed != NULL) return CUFFT_INVALID_VALUE;
  for (int i = 0; i < rank; i++) {
    if (n[i] < 1) return CUFFT_INVALID_SIZE;
    if (n[i] == REFUSED) return CUFFT_NOT_SUPPORTED;
    p->n[i] = n[i];
  }
  p->rank = rank;
  p->batch = batch;
  p->type = type;
  p->is_planned = true;
  *workspace = WORKSPACE;
  return CUFFT_SUCCESS;
}

EXPORT cufftResult CUFFTAPI cufftSetStream(cufftHandle h, cudaStream_t stream) {
  fft_plan_t *p = plan_of(h);
  if (p == NULL) return CUFFT_INVALID_PLAN;
  p->stream = stream;
  return CUFFT_SUCCESS;
}

EXPORT cufftResult CUFFTAPI cufftSetWorkArea(cufftHandle h, void *area) {
  fft_plan_t *p = plan_of(h);
  if (p == NULL || !p->is_planned) return CUFFT_INVALID_PLAN;
  p->workspace = bytes_of(area, WORKSPACE);
  return p->workspace == NULL ? CUFFT_INVALID_VALUE : CUFFT_SUCCESS;
}

/* ---- the transform ---- */

typedef struct fft_run {
  fft_plan_t plan;
  int direction; /* -1: forward */
  char *x, *y;
} fft_run_t;

static bool is_double(cufftType t) { return t == CUFFT_Z2Z || t == CUFFT_D2Z || t == CUFFT_Z2D; }
static bool from_real(cufftType t) { return t == CUFFT_R2C || t == CUFFT_D2Z; }
static bool to_real(cufftType t) { return t == CUFFT_C2R || t == CUFFT_Z2D; }

static int64_t total(const fft_plan_t *p, bool is_half) {
  int64_t n = 1;
  for (int i = 0; i < p->rank; i++) n *= is_half && i == p->rank - 1 ? p->n[i] / 2 + 1 : p->n[i];
  return n;
}

/* Transforms all dimensions of `n` numbers in place. */
static void transform(const fft_plan_t *p, int sign, double _Complex *v) {
  int64_t inner = 1;
  const int64_t n = total(p, false);
  for (int d = p->rank - 1; d >= 0; d--) {
    const int64_t length = p->n[d];
    double _Complex *line = calloc((size_t)length, sizeof *line);
    for (int64_t first = 0; first < n; first++) {
      if (first / inner % length != 0) continue;
      for (int64_t k = 0; k < length; k++) {
        line[k] = 0;
        for (int64_t i = 0; i < length; i++)
          line[k] += v[first + i * inner] *
                     cexp(sign * 2 * acos(-1) * I * (double)(i * k % length) / (double)length);
      }
      for (int64_t k = 0; k < length; k++) v[first + k * inner] = line[k];
    }
    free(line);
    inner *= length;
  }
}

/* The index of the number whose conjugate stands for number i of a transform of real numbers, and whether
 * number i is in the half that is there: then its place in *out. */
static bool place_in_half(const fft_plan_t *p, int64_t i, int64_t *out, int64_t *out_mirror) {
  int64_t at = 0, mirror = 0, index[3];
  for (int d = p->rank - 1; d >= 0; d--) {
    index[d] = i % p->n[d];
    i /= p->n[d];
  }
  for (int d = 0; d < p->rank; d++) {
    const int64_t width = d == p->rank - 1 ? p->n[d] / 2 + 1 : p->n[d];
    at = at * width + index[d];
    mirror = mirror * width + (p->n[d] - index[d]) % p->n[d];
  }
  *out = at;
  *out_mirror = mirror;
  return index[p->rank - 1] <= p->n[p->rank - 1] / 2;
}

static void run_one(const fft_run_t *r, int64_t b, double _Complex *v) {
  const fft_plan_t *p = &r->plan;
  const fake_number_t type = is_double(p->type) ? FAKE_F64 : FAKE_F32;
  const int64_t n = total(p, false), half = total(p, true);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i, mirror = 0;
    if (from_real(p->type)) {
      v[i] = fake_load(type, r->x, b * n + i);
      continue;
    }
    const bool is_there = !to_real(p->type) || place_in_half(p, i, &at, &mirror);
    const int64_t from = to_real(p->type) ? b * half + (is_there ? at : mirror) : b * n + i;
    const double re = fake_load(type, r->x, 2 * from), im = fake_load(type, r->x, 2 * from + 1);
    v[i] = re + (is_there ? im : -im) * I;
  }
  transform(p, to_real(p->type) ? 1 : from_real(p->type) ? -1 : r->direction, v);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i, mirror = 0;
    if (to_real(p->type)) {
      fake_store(type, r->y, b * n + i, creal(v[i]));
    } else if (!from_real(p->type) || place_in_half(p, i, &at, &mirror)) {
      const int64_t to = from_real(p->type) ? b * half + at : b * n + i;
      fake_store(type, r->y, 2 * to, creal(v[i]));
      fake_store(type, r->y, 2 * to + 1, cimag(v[i]));
    }
  }
}

static void run(const void *arg) {
  const fft_run_t *r = arg;
  const size_t size = is_double(r->plan.type) ? 8 : 4;
  double _Complex *v = calloc((size_t)total(&r->plan, false), sizeof *v);
  memset(r->plan.workspace, 0x77, WORKSPACE);
  for (int64_t b = 0; b < r->plan.batch; b++) run_one(r, b, v);
  if (to_real(r->plan.type)) memset(r->x, 0x77, (size_t)(r->plan.batch * total(&r->plan, true)) * 2 * size);
  free(v);
}

static cufftResult execute(cufftHandle h, cufftType type, void *x, void *y, int direction) {
  const fft_plan_t *p = plan_of(h);
  if (p == NULL || !p->is_planned || p->type != type) return CUFFT_INVALID_PLAN;
  if (p->workspace == NULL) return CUFFT_NO_WORKSPACE;
  const size_t number = is_double(type) ? 8 : 4;
  const size_t all = (size_t)(p->batch * total(p, false)) * number,
               half = (size_t)(p->batch * total(p, true)) * 2 * number;
  fft_run_t r = {.plan = *p, .direction = direction};
  r.x = bytes_of(x, from_real(type) ? all : to_real(type) ? half : 2 * all);
  r.y = bytes_of(y, to_real(type) ? all : from_real(type) ? half : 2 * all);
  weft_fake_cuda_call_fn *call;
  *(void **)&call = driver_function(WEFT_FAKE_CUDA_CALL);
  if (r.x == NULL || r.y == NULL || call == NULL) return CUFFT_INVALID_VALUE;
  return call(p->stream, run, &r, sizeof r) == CUDA_SUCCESS ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

EXPORT cufftResult CUFFTAPI cufftExecC2C(cufftHandle h, cufftComplex *x, cufftComplex *y, int direction) {
  return execute(h, CUFFT_C2C, x, y, direction);
}
EXPORT cufftResult CUFFTAPI cufftExecZ2Z(cufftHandle h, cufftDoubleComplex *x, cufftDoubleComplex *y,
                                         int direction) {
  return execute(h, CUFFT_Z2Z, x, y, direction);
}
EXPORT cufftResult CUFFTAPI cufftExecR2C(cufftHandle h, cufftReal *x, cufftComplex *y) {
  return execute(h, CUFFT_R2C, x, y, 0);
}
EXPORT cufftResult CUFFTAPI cufftExecC2R(cufftHandle h, cufftComplex *x, cufftReal *y) {
  return execute(h, CUFFT_C2R, x, y, 0);
}
EXPORT cufftResult CUFFTAPI cufftExecD2Z(cufftHandle h, cufftDoubleReal *x, cufftDoubleComplex *y) {
  return execute(h, CUFFT_D2Z, x, y, 0);
}
EXPORT cufftResult CUFFTAPI cufftExecZ2D(cufftHandle h, cufftDoubleComplex *x, cufftDoubleReal *y) {
  return execute(h, CUFFT_Z2D, x, y, 0);
}
