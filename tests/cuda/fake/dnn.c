/* tests/cuda/fake/dnn.c - cuDNN, played by the host: libcudnn_fake.so.
 *
 * Convolutions are plain loops, in double, in the order of the fake driver's streams (a host function). What
 * a real library refuses is refused: sizes that do not fit together, addresses that are no device memory, a
 * workspace that is smaller than was asked for, a type of mathematics that is not the algorithm's. Of each
 * convolution there are two algorithms, with a workspace, which is written over, and without; of double with
 * channels last there is none.
 */
#pragma GCC visibility push(default)
#include <cuda.h>

#include <cudnn.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/numbers.h"

#define EXPORT __attribute__((visibility("default")))
enum { WANTED_WORKSPACE = 2048, MAX_DIMS = 5, WITH_WORKSPACE = 1, WITHOUT_WORKSPACE = 0 };

/* What the handles point to. */
struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct { /* of filters, too: cudnnFilterStruct */
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int rank, dims[MAX_DIMS];
};
struct cudnnConvolutionStruct {
  int num_space, pad[MAX_DIMS], stride[MAX_DIMS], dilation[MAX_DIMS], groups;
  cudnnDataType_t type;
  cudnnMathType_t math;
};
typedef struct cudnnTensorStruct dnn_tensor_t;
typedef struct cudnnConvolutionStruct dnn_conv_t;

static const dnn_tensor_t *filter_of(cudnnFilterDescriptor_t f) {
  return (const dnn_tensor_t *)(const void *)f;
}

static void *made(size_t bytes, void *out) {
  void *p = calloc(1, bytes);
  memcpy(out, &p, sizeof p);
  return p;
}
#define MAKE(type, out)                                                                 \
  (made(sizeof(type), out) == NULL ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED \
                                   : CUDNN_STATUS_SUCCESS)

EXPORT cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t *out) { return MAKE(struct cudnnContext, out); }
EXPORT cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t h) {
  free(h);
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
EXPORT const char *CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_INTERNAL_ERROR";
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
  return MAKE(dnn_tensor_t, out);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  free(d);
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out) {
  return MAKE(dnn_tensor_t, out);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  free(d);
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out) {
  return MAKE(dnn_conv_t, out);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  free(d);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_tensor(dnn_tensor_t *t, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                const int *dims) {
  if (n < 4 || n > MAX_DIMS || (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC))
    return CUDNN_STATUS_BAD_PARAM;
  *t = (dnn_tensor_t){.format = format, .type = type, .rank = n};
  for (int i = 0; i < n; i++) {
    if (dims[i] <= 0) return CUDNN_STATUS_BAD_PARAM;
    t->dims[i] = dims[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t d,
                                                              cudnnTensorFormat_t format,
                                                              cudnnDataType_t type, int n, const int *dims) {
  return set_tensor(d, format, type, n, dims);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                                            cudnnTensorFormat_t format, int n,
                                                            const int *dims) {
  return set_tensor((dnn_tensor_t *)(void *)d, format, type, n, dims);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int n,
                                                                 const int *pad, const int *stride,
                                                                 const int *dilation,
                                                                 cudnnConvolutionMode_t mode,
                                                                 cudnnDataType_t type) {
  if (n < 2 || n > MAX_DIMS - 2 || mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_BAD_PARAM;
  *d = (dnn_conv_t){.num_space = n, .groups = 1, .type = type, .math = CUDNN_DEFAULT_MATH};
  for (int i = 0; i < n; i++) {
    if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1) return CUDNN_STATUS_BAD_PARAM;
    d->pad[i] = pad[i];
    d->stride[i] = stride[i];
    d->dilation[i] = dilation[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int n) {
  d->groups = n;
  return n < 1 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d,
                                                             cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- algorithms ---- */

/* All three belong to one convolution. */
static bool fits(const dnn_tensor_t *x, const dnn_tensor_t *f, const dnn_tensor_t *y, const dnn_conv_t *c) {
  const int rank = c->num_space + 2;
  bool is_right = x->rank == rank && f->rank == rank && y->rank == rank && x->type == f->type &&
                  x->type == y->type && x->format == f->format && x->format == y->format &&
                  x->dims[0] == y->dims[0] && f->dims[0] == y->dims[1] &&
                  x->dims[1] == f->dims[1] * c->groups && f->dims[0] % c->groups == 0 &&
                  c->type == (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  for (int i = 0; is_right && i < c->num_space; i++) {
    const int effective = (f->dims[2 + i] - 1) * c->dilation[i] + 1;
    const int room = x->dims[2 + i] + 2 * c->pad[i] - effective;
    is_right = room >= 0 && room / c->stride[i] + 1 == y->dims[2 + i];
  }
  return is_right;
}

static bool is_half(const dnn_tensor_t *x) {
  return x->type == CUDNN_DATA_HALF || x->type == CUDNN_DATA_BFLOAT16;
}

/* The mathematics that algorithms have: what was wished for, where the type has it. */
static cudnnMathType_t math_for(const dnn_tensor_t *x, const dnn_conv_t *c) {
  if (x->type == CUDNN_DATA_DOUBLE) return CUDNN_DEFAULT_MATH;
  return is_half(x) && c->math == CUDNN_TENSOR_OP_MATH ? CUDNN_TENSOR_OP_MATH
         : c->math == CUDNN_FMA_MATH                   ? CUDNN_FMA_MATH
                                                       : CUDNN_DEFAULT_MATH;
}

static bool is_known(const dnn_tensor_t *x) {
  return x->type != CUDNN_DATA_DOUBLE || x->format == CUDNN_TENSOR_NCHW;
}

#define PROPOSE(enumeration, x, f, y, c)                                                 \
  do {                                                                                   \
    if (max < 2 || !fits(x, f, y, c)) return CUDNN_STATUS_BAD_PARAM;                     \
    memset(found, 0, 2 * sizeof *found);                                                 \
    for (int i = 0; i < 2; i++) {                                                        \
      found[i].algo = (enumeration)(i == 0 ? WITH_WORKSPACE : WITHOUT_WORKSPACE);        \
      found[i].status = is_known(x) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED; \
      found[i].memory = i == 0 ? WANTED_WORKSPACE : 0;                                   \
      found[i].mathType = math_for(x, c);                                                \
    }                                                                                    \
    *out_n = 2;                                                                          \
    return CUDNN_STATUS_SUCCESS;                                                         \
  } while (0)

EXPORT cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t h, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t f, cudnnConvolutionDescriptor_t c,
    cudnnTensorDescriptor_t y, const int max, int *out_n, cudnnConvolutionFwdAlgoPerf_t *found) {
  (void)h;
  PROPOSE(cudnnConvolutionFwdAlgo_t, x, filter_of(f), y, c);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t h, cudnnFilterDescriptor_t f, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
    cudnnTensorDescriptor_t x, const int max, int *out_n, cudnnConvolutionBwdDataAlgoPerf_t *found) {
  (void)h;
  PROPOSE(cudnnConvolutionBwdDataAlgo_t, x, filter_of(f), y, c);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t h, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t c,
    cudnnFilterDescriptor_t f, const int max, int *out_n, cudnnConvolutionBwdFilterAlgoPerf_t *found) {
  (void)h;
  PROPOSE(cudnnConvolutionBwdFilterAlgo_t, x, filter_of(f), y, c);
}

/* ---- convolutions ---- */

typedef enum dnn_kind { FORWARD, OF_INPUT, OF_FILTER } dnn_kind_t;

typedef struct dnn_run {
  dnn_kind_t kind;
  dnn_tensor_t x, f, y;
  dnn_conv_t c;
  char *x_bytes, *f_bytes, *y_bytes, *workspace;
  size_t workspace_bytes;
} dnn_run_t;

static fake_number_t number_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE  ? FAKE_F64
         : type == CUDNN_DATA_HALF  ? FAKE_F16
         : type == CUDNN_DATA_FLOAT ? FAKE_F32
                                    : FAKE_BF16;
}

/* Element [first, second, space] of a tensor. */
static int64_t index_of(const dnn_tensor_t *t, int first, int second, const int *space) {
  int64_t at = first;
  if (t->format == CUDNN_TENSOR_NCHW) at = at * t->dims[1] + second;
  for (int i = 2; i < t->rank; i++) at = at * t->dims[i] + space[i - 2];
  return t->format == CUDNN_TENSOR_NCHW ? at : at * t->dims[1] + second;
}

static int64_t space_count(const dnn_tensor_t *t) {
  int64_t n = 1;
  for (int i = 2; i < t->rank; i++) n *= t->dims[i];
  return n;
}
static void place(const dnn_tensor_t *t, int64_t number, int *out) {
  for (int i = t->rank - 1; i >= 2; i--) {
    out[i - 2] = (int)(number % t->dims[i]);
    number /= t->dims[i];
  }
}

/* The cell of x under cell k of the window at o; false: padding. */
static bool cell_under(const dnn_run_t *r, const int *o, const int *k, int *out) {
  bool is_inside = true;
  for (int i = 0; i < r->c.num_space; i++) {
    out[i] = o[i] * r->c.stride[i] - r->c.pad[i] + k[i] * r->c.dilation[i];
    is_inside = is_inside && out[i] >= 0 && out[i] < r->x.dims[2 + i];
  }
  return is_inside;
}

/* Adds up each product of an element of x and one of the filter that y gets. */
static void add_products(const dnn_run_t *r, double *sums) {
  const fake_number_t type = number_of(r->x.type);
  const int outputs = r->y.dims[1] / r->c.groups;
  int o[MAX_DIMS], k[MAX_DIMS], at[MAX_DIMS];
  for (int n = 0; n < r->x.dims[0]; n++) {
    for (int64_t pixel = 0; pixel < space_count(&r->y); pixel++) {
      place(&r->y, pixel, o);
      for (int64_t cell = 0; cell < space_count(&r->f); cell++) {
        place(&r->f, cell, k);
        if (!cell_under(r, o, k, at)) continue;
        for (int oc = 0; oc < r->y.dims[1]; oc++) {
          const int64_t y = index_of(&r->y, n, oc, o);
          for (int ic = 0; ic < r->f.dims[1]; ic++) {
            const int64_t x = index_of(&r->x, n, oc / outputs * r->f.dims[1] + ic, at);
            const int64_t f = index_of(&r->f, oc, ic, k);
            switch (r->kind) {
              case FORWARD: sums[y] += fake_load(type, r->x_bytes, x) * fake_load(type, r->f_bytes, f); break;
              case OF_INPUT:
                sums[x] += fake_load(type, r->y_bytes, y) * fake_load(type, r->f_bytes, f);
                break;
              case OF_FILTER:
                sums[f] += fake_load(type, r->x_bytes, x) * fake_load(type, r->y_bytes, y);
                break;
            }
          }
        }
      }
    }
  }
}

static int64_t count_of(const dnn_tensor_t *t) { return space_count(t) * t->dims[0] * t->dims[1]; }

static void run(const void *arg) {
  const dnn_run_t *r = arg;
  const dnn_tensor_t *out = r->kind == FORWARD ? &r->y : r->kind == OF_INPUT ? &r->x : &r->f;
  char *to = r->kind == FORWARD ? r->y_bytes : r->kind == OF_INPUT ? r->x_bytes : r->f_bytes;
  double *sums = calloc((size_t)count_of(out), sizeof *sums);
  if (sums == NULL) abort();
  if (r->workspace != NULL) memset(r->workspace, 0x77, r->workspace_bytes);
  add_products(r, sums);
  for (int64_t i = 0; i < count_of(out); i++) fake_store(number_of(out->type), to, i, sums[i]);
  free(sums);
}

/* A function of the fake driver, which is there already. */
static void *driver_function(const char *name) {
  const char *path = getenv("WEFT_CUDA_DRIVER");
  void *driver = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return driver == NULL ? NULL : dlsym(driver, name);
}

static char *bytes_at(const void *p, size_t bytes) {
  weft_fake_cuda_bytes_fn *find;
  *(void **)&find = driver_function(WEFT_FAKE_CUDA_BYTES);
  char *at = (char *)(uintptr_t)p;
  if (find == NULL || bytes == 0 || find(at + bytes - 1) == NULL) return NULL;
  return find(at);
}

static char *bytes_of(const void *p, const dnn_tensor_t *t) {
  return bytes_at(p, (size_t)count_of(t) * fake_size(number_of(t->type)));
}

static cudnnStatus_t enqueue(cudnnHandle_t h, dnn_kind_t kind, const void *alpha, const void *beta,
                             const dnn_tensor_t *x_desc, const void *x, const dnn_tensor_t *f_desc,
                             const void *f, const dnn_tensor_t *y_desc, const void *y, const dnn_conv_t *c,
                             int algorithm, void *workspace, size_t workspace_bytes) {
  const bool is_f64 = x_desc->type == CUDNN_DATA_DOUBLE;
  const double scale = is_f64 ? *(const double *)alpha : *(const float *)alpha;
  const double added = is_f64 ? *(const double *)beta : *(const float *)beta;
  weft_fake_cuda_call_fn *call;
  *(void **)&call = driver_function(WEFT_FAKE_CUDA_CALL);
  dnn_run_t r = {.kind = kind,
                 .x = *x_desc,
                 .f = *f_desc,
                 .y = *y_desc,
                 .c = *c,
                 .x_bytes = bytes_of(x, x_desc),
                 .f_bytes = bytes_of(f, f_desc),
                 .y_bytes = bytes_of(y, y_desc)};
  if (algorithm == WITH_WORKSPACE && workspace_bytes >= WANTED_WORKSPACE)
    r.workspace = bytes_at(workspace, workspace_bytes);
  r.workspace_bytes = workspace_bytes;
  if (!fits(x_desc, f_desc, y_desc, c) || !is_known(x_desc) || c->math != math_for(x_desc, c) || scale != 1 ||
      added != 0 || r.x_bytes == NULL || r.f_bytes == NULL || r.y_bytes == NULL || call == NULL ||
      (algorithm == WITH_WORKSPACE && r.workspace == NULL)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return call(h->stream, run, &r, sizeof r) == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS
                                                            : CUDNN_STATUS_EXECUTION_FAILED;
}

EXPORT cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(cudnnHandle_t h, const void *alpha,
                                                         cudnnTensorDescriptor_t x_desc, const void *x,
                                                         cudnnFilterDescriptor_t f_desc, const void *f,
                                                         cudnnConvolutionDescriptor_t c,
                                                         cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                                                         size_t bytes, const void *beta,
                                                         cudnnTensorDescriptor_t y_desc, void *y) {
  return enqueue(h, FORWARD, alpha, beta, x_desc, x, filter_of(f_desc), f, y_desc, y, c, (int)algorithm,
                 workspace, bytes);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(cudnnHandle_t h, const void *alpha,
                                                              cudnnFilterDescriptor_t f_desc, const void *f,
                                                              cudnnTensorDescriptor_t y_desc, const void *dy,
                                                              cudnnConvolutionDescriptor_t c,
                                                              cudnnConvolutionBwdDataAlgo_t algorithm,
                                                              void *workspace, size_t bytes, const void *beta,
                                                              cudnnTensorDescriptor_t x_desc, void *dx) {
  return enqueue(h, OF_INPUT, alpha, beta, x_desc, dx, filter_of(f_desc), f, y_desc, dy, c, (int)algorithm,
                 workspace, bytes);
}
EXPORT cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,
    cudnnTensorDescriptor_t y_desc, const void *dy, cudnnConvolutionDescriptor_t c,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t bytes, const void *beta,
    cudnnFilterDescriptor_t f_desc, void *df) {
  return enqueue(h, OF_FILTER, alpha, beta, x_desc, x, filter_of(f_desc), df, y_desc, dy, c, (int)algorithm,
                 workspace, bytes);
}
