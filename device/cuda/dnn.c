/* device/cuda/dnn.c - cuDNN, and the algorithms that it proposed for each convolution.
 *
 * A plan is constant once it is in the table, and lives as long as the context of its card. A handle of cuDNN
 * has one stream at a time, so a lock is held from setting it until the work is enqueued.
 */
#include "device/cuda/dnn.h"

#include <cudnn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/shared_library.h"

enum {
  NUM_CHAINS = 256,
  MAX_PLANS = 4096, /* of a card; beyond, a plan is made for each run */
  MAX_CHOICES = 8,
  MAX_DIMS = WEFT_CUDA_DNN_SPACE + 2,
  TYPE_FLOAT = 1,
  TYPE_DOUBLE = 2,
  TYPE_BFLOAT16 = 14,
  TYPE_HALF = 19, /* TF_DataType */
};
static const size_t MAX_WORKSPACE = (size_t)1 << 30;

/* ---- the library ---- */

static struct {
#define WEFT_CUDA_DNN_CALL(name) __typeof__(name) *name;
#include "device/cuda/dnn.def"
#undef WEFT_CUDA_DNN_CALL
} dnn;

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: cuDNN");
}

static WEFT_Failure *failure_of(cudnnStatus_t r, const char *what) {
  if (r == CUDNN_STATUS_SUCCESS) return NULL;
  const bool is_memory = r == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                         r == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  return weft_cuda_host->failure(is_memory ? WEFT_RESOURCE_EXHAUSTED : WEFT_INTERNAL, "cuDNN: %s: %s", what,
                                 dnn.cudnnGetErrorString(r));
}

static const weft_cuda_symbol_t symbols[] = {
#define WEFT_CUDA_DNN_CALL(name) WEFT_CUDA_SYMBOL(dnn, name)
#include "device/cuda/dnn.def"
#undef WEFT_CUDA_DNN_CALL
};

static const char *const places[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", NULL};
static weft_cuda_shared_library_t library = {.what = "convolutions need cuDNN 9",
                                             .version = "cuDNN 9",
                                             .hint = "install libcudnn9",
                                             .variable = "WEFT_CUDNN",
                                             .places = places,
                                             .symbols = symbols,
                                             .num_symbols = sizeof symbols / sizeof *symbols,
                                             .table = &dnn,
                                             .mu = WEFT_MUTEX_INITIALIZER};

/* ---- plans ---- */

/* One of the three enumerations of algorithms, by the plan's kind. */
typedef struct cudnn_choice {
  int algorithm;
  cudnnMathType_t math;
  size_t workspace;
} cudnn_choice_t;

typedef struct cudnn_plan {
  struct cudnn_plan *next; /* of the chain */
  weft_cuda_conv_t key;
  bool in_tf32;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t conv;
  cudnnStatus_t status; /* why there are no choices */
  int num_choices;      /* 0: cuDNN has none. The fastest first */
  cudnn_choice_t choices[MAX_CHOICES];
} cudnn_plan_t;

typedef struct cudnn_device {
  cudnnHandle_t handle; /* guarded by mu */
  weft_mutex_t mu;
  cudnn_plan_t *chains[NUM_CHAINS]; /* guarded by mu */
  int num_plans;                    /* guarded by mu */
} cudnn_device_t;

static void destroy_plan(cudnn_plan_t *p) {
  if (p == NULL) return;
  if (p->x != NULL) (void)dnn.cudnnDestroyTensorDescriptor(p->x);
  if (p->y != NULL) (void)dnn.cudnnDestroyTensorDescriptor(p->y);
  if (p->filter != NULL) (void)dnn.cudnnDestroyFilterDescriptor(p->filter);
  if (p->conv != NULL) (void)dnn.cudnnDestroyConvolutionDescriptor(p->conv);
  weft_free(p);
}

static void destroy_device(void *value) {
  cudnn_device_t *d = value;
  for (int i = 0; i < NUM_CHAINS; i++) {
    for (cudnn_plan_t *p = d->chains[i], *next; p != NULL; p = next) {
      next = p->next;
      destroy_plan(p);
    }
  }
  if (d->handle != NULL) (void)dnn.cudnnDestroy(d->handle);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static WEFT_Failure *make_device(void **out) {
  WEFT_Failure *f = weft_cuda_shared_library_open(&library);
  if (f != NULL) return f;
  cudnn_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return no_memory();
  weft_mutex_init(&d->mu);
  f = failure_of(dnn.cudnnCreate(&d->handle), "making a handle");
  if (f != NULL) {
    d->handle = NULL;
    destroy_device(d);
    return f;
  }
  *out = d;
  return NULL;
}

static cudnnDataType_t type_of(int dtype) {
  switch (dtype) {
    case TYPE_DOUBLE: return CUDNN_DATA_DOUBLE;
    case TYPE_HALF: return CUDNN_DATA_HALF;
    case TYPE_BFLOAT16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

/* [first, second, space...], as cuDNN numbers dimensions in each format. */
static int dims_of(const weft_cuda_conv_t *p, int64_t first, int64_t second, const int64_t *space, int *out) {
  out[0] = (int)first;
  out[1] = (int)second;
  for (int i = 0; i < p->num_space; i++) out[2 + i] = (int)space[WEFT_CUDA_DNN_SPACE - p->num_space + i];
  return p->num_space + 2;
}

static cudnnStatus_t describe_tensors(cudnn_plan_t *p) {
  const weft_cuda_conv_t *k = &p->key;
  const cudnnTensorFormat_t format = k->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const cudnnDataType_t type = type_of(k->dtype);
  int dims[MAX_DIMS];
  cudnnStatus_t r = dnn.cudnnCreateTensorDescriptor(&p->x);
  if (r == CUDNN_STATUS_SUCCESS) r = dnn.cudnnCreateTensorDescriptor(&p->y);
  if (r == CUDNN_STATUS_SUCCESS) r = dnn.cudnnCreateFilterDescriptor(&p->filter);
  if (r == CUDNN_STATUS_SUCCESS) {
    const int n = dims_of(k, k->batch, k->in_channels, k->in, dims);
    r = dnn.cudnnSetTensorNdDescriptorEx(p->x, format, type, n, dims);
  }
  if (r == CUDNN_STATUS_SUCCESS) {
    const int n = dims_of(k, k->batch, k->out_channels, k->out, dims);
    r = dnn.cudnnSetTensorNdDescriptorEx(p->y, format, type, n, dims);
  }
  if (r == CUDNN_STATUS_SUCCESS) {
    const int n = dims_of(k, k->out_channels, k->in_channels / k->groups, k->k, dims);
    r = dnn.cudnnSetFilterNdDescriptor(p->filter, type, format, n, dims);
  }
  return r;
}

/* half and bfloat16 take tensor cores, float too in TF32; CUDNN_FMA_MATH forbids TF32. */
static cudnnMathType_t math_of(const cudnn_plan_t *p) {
  if (p->key.dtype == TYPE_HALF || p->key.dtype == TYPE_BFLOAT16) return CUDNN_TENSOR_OP_MATH;
  return p->key.dtype == TYPE_FLOAT && !p->in_tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

static cudnnStatus_t describe_conv(cudnn_plan_t *p) {
  const weft_cuda_conv_t *k = &p->key;
  int pad[MAX_DIMS], stride[MAX_DIMS], dilation[MAX_DIMS];
  (void)dims_of(k, 0, 0, k->pad, pad);
  (void)dims_of(k, 0, 0, k->stride, stride);
  (void)dims_of(k, 0, 0, k->dilation, dilation);
  cudnnStatus_t r = dnn.cudnnCreateConvolutionDescriptor(&p->conv);
  if (r == CUDNN_STATUS_SUCCESS) {
    r = dnn.cudnnSetConvolutionNdDescriptor(p->conv, k->num_space, pad + 2, stride + 2, dilation + 2,
                                            CUDNN_CROSS_CORRELATION,
                                            k->dtype == TYPE_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  }
  if (r == CUDNN_STATUS_SUCCESS) r = dnn.cudnnSetConvolutionGroupCount(p->conv, (int)k->groups);
  if (r == CUDNN_STATUS_SUCCESS) r = dnn.cudnnSetConvolutionMathType(p->conv, math_of(p));
  return r;
}

static void consider(cudnn_plan_t *p, cudnnStatus_t status, int algorithm, cudnnMathType_t math,
                     size_t workspace) {
  const bool is_forbidden = math_of(p) == CUDNN_FMA_MATH && math != CUDNN_FMA_MATH;
  if (status != CUDNN_STATUS_SUCCESS || is_forbidden || workspace > MAX_WORKSPACE) return;
  p->choices[p->num_choices++] = (cudnn_choice_t){algorithm, math, workspace};
}

static cudnnStatus_t choose(cudnnHandle_t handle, cudnn_plan_t *p) {
  cudnnStatus_t r = CUDNN_STATUS_SUCCESS;
  int n = 0;
  if (p->key.kind == WEFT_CUDA_CONV_FORWARD) {
    cudnnConvolutionFwdAlgoPerf_t found[MAX_CHOICES];
    r = dnn.cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->filter, p->conv, p->y, MAX_CHOICES, &n,
                                                   found);
    for (int i = 0; r == CUDNN_STATUS_SUCCESS && i < n; i++)
      consider(p, found[i].status, (int)found[i].algo, found[i].mathType, found[i].memory);
  } else if (p->key.kind == WEFT_CUDA_CONV_OF_INPUT) {
    cudnnConvolutionBwdDataAlgoPerf_t found[MAX_CHOICES];
    r = dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->filter, p->y, p->conv, p->x, MAX_CHOICES,
                                                        &n, found);
    for (int i = 0; r == CUDNN_STATUS_SUCCESS && i < n; i++)
      consider(p, found[i].status, (int)found[i].algo, found[i].mathType, found[i].memory);
  } else {
    cudnnConvolutionBwdFilterAlgoPerf_t found[MAX_CHOICES];
    r = dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->conv, p->filter, MAX_CHOICES,
                                                          &n, found);
    for (int i = 0; r == CUDNN_STATUS_SUCCESS && i < n; i++)
      consider(p, found[i].status, (int)found[i].algo, found[i].mathType, found[i].memory);
  }
  return r;
}

/* There are no algorithms for such types and formats; some versions call them bad parameters. */
static bool is_unsupported(cudnnStatus_t r) {
  return (int)r >= (int)CUDNN_STATUS_BAD_PARAM && (int)r < (int)CUDNN_STATUS_INTERNAL_ERROR;
}

static WEFT_Failure *make_plan(cudnn_device_t *d, const weft_cuda_conv_t *key, bool in_tf32,
                               cudnn_plan_t **out) {
  cudnn_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  p->key = *key;
  p->in_tf32 = in_tf32;
  cudnnStatus_t r = describe_tensors(p);
  if (r == CUDNN_STATUS_SUCCESS) r = describe_conv(p);
  if (r == CUDNN_STATUS_SUCCESS) r = choose(d->handle, p);
  p->status = r == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_NOT_SUPPORTED : r;
  if (r != CUDNN_STATUS_SUCCESS && !is_unsupported(r)) {
    destroy_plan(p);
    return failure_of(r, "describing a convolution");
  }
  *out = p;
  return NULL;
}

static uint64_t mixed(uint64_t h, uint64_t v) { return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15); }

static unsigned chain_of(const weft_cuda_conv_t *k) {
  uint64_t h = mixed((uint64_t)k->kind, (uint64_t)k->batch);
  h = mixed(h, (uint64_t)k->in_channels);
  h = mixed(h, (uint64_t)k->out_channels);
  for (int i = 0; i < WEFT_CUDA_DNN_SPACE; i++) h = mixed(mixed(h, (uint64_t)k->in[i]), (uint64_t)k->k[i]);
  return (unsigned)(h >> 56); /* NUM_CHAINS */
}

static bool same_space(const int64_t *a, const int64_t *b) {
  return memcmp(a, b, WEFT_CUDA_DNN_SPACE * sizeof *a) == 0;
}
static bool is_same(const weft_cuda_conv_t *a, const weft_cuda_conv_t *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->num_space == b->num_space &&
         a->channels_last == b->channels_last && a->batch == b->batch && a->in_channels == b->in_channels &&
         a->out_channels == b->out_channels && a->groups == b->groups && same_space(a->in, b->in) &&
         same_space(a->out, b->out) && same_space(a->k, b->k) && same_space(a->stride, b->stride) &&
         same_space(a->dilation, b->dilation) && same_space(a->pad, b->pad);
}

static bool is_off(const char *variable) {
  const char *value = getenv(variable);
  return value != NULL && strcmp(value, "0") == 0;
}

/* *out_owned: the table is full, and the caller destroys the plan. */
static WEFT_Failure *find_plan_locked(cudnn_device_t *d, const weft_cuda_conv_t *key, cudnn_plan_t **out,
                                      bool *out_owned) {
  const bool in_tf32 = key->dtype == TYPE_FLOAT && !is_off("NVIDIA_TF32_OVERRIDE") && !is_off("WEFT_TF32");
  cudnn_plan_t **chain = &d->chains[chain_of(key)], *p = *chain;
  *out_owned = false;
  while (p != NULL && !(is_same(&p->key, key) && p->in_tf32 == in_tf32)) p = p->next;
  if (p == NULL) {
    WEFT_Failure *f = make_plan(d, key, in_tf32, &p);
    if (f != NULL) return f;
    *out_owned = d->num_plans >= MAX_PLANS;
    if (!*out_owned) {
      p->next = *chain;
      *chain = p;
      d->num_plans++;
    }
  }
  *out = p;
  return NULL;
}

static WEFT_Failure *check_sizes(const weft_cuda_conv_t *p) {
  int64_t largest = p->batch > p->in_channels ? p->batch : p->in_channels;
  if (p->out_channels > largest) largest = p->out_channels;
  for (int i = 0; i < WEFT_CUDA_DNN_SPACE; i++) {
    if (p->in[i] > largest) largest = p->in[i];
    if (p->k[i] > largest) largest = p->k[i];
  }
  if (largest <= INT32_MAX) return NULL;
  return weft_cuda_host->failure(WEFT_INVALID_ARGUMENT, "a convolution with a dimension of %lld",
                                 (long long)largest);
}

/* What there is for the context's card, with its context current. */
static WEFT_Failure *device_of(WEFT_KernelContext *c, const weft_cuda_conv_t *p, cudnn_device_t **out) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  void *kept = NULL;
  WEFT_Failure *f = check_sizes(p);
  if (f == NULL) f = weft_cuda_queue_begin(device->queues[WEFT_QUEUE_COMPUTE], "a convolution");
  if (f == NULL)
    f = weft_cuda_physical_attachment(device->physical, WEFT_CUDA_DNN, make_device, destroy_device, &kept);
  *out = kept;
  return f;
}

WEFT_Failure *weft_cuda_conv_is_known(WEFT_KernelContext *c, const weft_cuda_conv_t *p, bool *out) {
  cudnn_device_t *d = NULL;
  cudnn_plan_t *plan = NULL;
  bool is_owned = false;
  WEFT_Failure *f = device_of(c, p, &d);
  if (f != NULL) return f;
  weft_mutex_lock(&d->mu);
  f = find_plan_locked(d, p, &plan, &is_owned);
  if (f == NULL) *out = plan->num_choices > 0;
  weft_mutex_unlock(&d->mu);
  if (is_owned) destroy_plan(plan);
  return f;
}

/* ---- convolutions ---- */

/* The first choice for whose workspace there is memory. */
static WEFT_Failure *make_workspace(WEFT_KernelContext *c, const cudnn_plan_t *p, void **out,
                                    const cudnn_choice_t **out_choice) {
  WEFT_Failure *f = NULL;
  size_t least = SIZE_MAX;
  for (int i = 0; i < p->num_choices; i++) {
    const cudnn_choice_t *choice = &p->choices[i];
    if (choice->workspace >= least) continue; /* there was no memory for less than that */
    weft_cuda_host->failure_free(f);
    *out_choice = choice;
    f = choice->workspace == 0 ? NULL : weft_cuda_host->scratch(c, choice->workspace, out);
    if (f == NULL) return NULL;
    least = choice->workspace;
  }
  return f;
}

static cudnnStatus_t run_locked(cudnn_device_t *d, const cudnn_plan_t *p, const cudnn_choice_t *choice,
                                void *workspace, CUstream stream, const void *a, const void *b, void *out) {
  static const double one_f64 = 1, zero_f64 = 0;
  static const float one_f32 = 1, zero_f32 = 0;
  const bool is_f64 = p->key.dtype == TYPE_DOUBLE;
  const void *one = is_f64 ? (const void *)&one_f64 : &one_f32,
             *zero = is_f64 ? (const void *)&zero_f64 : &zero_f32;
  cudnnStatus_t r = dnn.cudnnSetStream(d->handle, (cudaStream_t)stream);
  if (r == CUDNN_STATUS_SUCCESS) r = dnn.cudnnSetConvolutionMathType(p->conv, choice->math);
  if (r != CUDNN_STATUS_SUCCESS) return r;
  switch (p->key.kind) {
    case WEFT_CUDA_CONV_FORWARD:
      return dnn.cudnnConvolutionForward(d->handle, one, p->x, a, p->filter, b, p->conv,
                                         (cudnnConvolutionFwdAlgo_t)choice->algorithm, workspace,
                                         choice->workspace, zero, p->y, out);
    case WEFT_CUDA_CONV_OF_INPUT:
      return dnn.cudnnConvolutionBackwardData(d->handle, one, p->filter, b, p->y, a, p->conv,
                                              (cudnnConvolutionBwdDataAlgo_t)choice->algorithm, workspace,
                                              choice->workspace, zero, p->x, out);
    default:
      return dnn.cudnnConvolutionBackwardFilter(d->handle, one, p->x, a, p->y, b, p->conv,
                                                (cudnnConvolutionBwdFilterAlgo_t)choice->algorithm, workspace,
                                                choice->workspace, zero, p->filter, out);
  }
}

static WEFT_Failure *convolve_locked(WEFT_KernelContext *c, cudnn_device_t *d, const cudnn_plan_t *p,
                                     const void *a, const void *b, void *out) {
  const weft_cuda_device_t *device = weft_cuda_host->device(c);
  weft_cuda_queue_t *q = device->queues[WEFT_QUEUE_COMPUTE];
  const cudnn_choice_t *choice = NULL;
  void *workspace = NULL;
  if (p->num_choices == 0) {
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "cuDNN has no algorithm for the convolution of %s: %s",
                                   weft_cuda_host->node_name(c), dnn.cudnnGetErrorString(p->status));
  }
  WEFT_Failure *f = make_workspace(c, p, &workspace, &choice);
  if (f != NULL) return f;
  weft_cuda_queue_note(q, weft_cuda_host->node_name(c));
  return failure_of(run_locked(d, p, choice, workspace, weft_cuda_queue_stream(q), a, b, out),
                    "enqueuing a convolution");
}

WEFT_Failure *weft_cuda_convolve(WEFT_KernelContext *c, const weft_cuda_conv_t *p, const void *a,
                                 const void *b, void *out) {
  cudnn_device_t *d = NULL;
  cudnn_plan_t *plan = NULL;
  bool is_owned = false;
  WEFT_Failure *f = device_of(c, p, &d);
  if (f != NULL) return f;
  weft_mutex_lock(&d->mu);
  f = find_plan_locked(d, p, &plan, &is_owned);
  if (f == NULL) f = convolve_locked(c, d, plan, a, b, out);
  weft_mutex_unlock(&d->mu);
  if (is_owned) destroy_plan(plan);
  return f;
}
