/* kernels/cuda/patches.c - rows of ExtractImagePatches, ExtractVolumePatches, Dilation2D and its gradients.
 */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/window.h"

enum { OUT_OF_RANGE = 11 };

WEFT_CUDA_SIZES(patches_functions, patches)
WEFT_CUDA_INSTANCES(dilation_instances, dilation, FLOAT)
WEFT_CUDA_INSTANCES(grad_instances, dilation_grad, FLOAT)

static bool is_same_padding(const WEFT_KernelSetup *s) {
  const char *padding = NULL;
  size_t length = 0;
  (void)weft_cuda_host->attr_string(s, "padding", &padding, &length);
  return padding != NULL && length == 4 && memcmp(padding, "SAME", 4) == 0;
}

static WEFT_Failure *keep(const weft_cuda_windows_t *a, void **out) {
  weft_cuda_windows_t *state = malloc(sizeof *state);
  if (state == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: windows");
  *state = *a;
  *out = state;
  return NULL;
}

/* ---- patches ---- */

/* A list that says something of each spatial dimension and 1 of the others. */
static WEFT_Failure *read_patches(const WEFT_KernelSetup *s, const char *name, int num_space, int64_t *out) {
  int64_t v[WEFT_CUDA_SPACE + 2] = {0};
  const int n = weft_cuda_host->attr_ints(s, name, v, WEFT_CUDA_SPACE + 2);
  if (n < 0) return NULL;
  if (n < num_space + 2 || v[0] != 1 || v[num_space + 1] != 1)
    return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED, "Only support %s across space.", name);
  for (int i = 0; i < num_space; i++) {
    if (v[1 + i] < 1 || v[1 + i] > INT32_MAX)
      return weft_cuda_host->failure(OUT_OF_RANGE, "%s is out of range.", name);
    out[WEFT_CUDA_SPACE - num_space + i] = v[1 + i];
  }
  return NULL;
}

static WEFT_Failure *patches_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  weft_cuda_windows_t a = {.num_space = *(const int *)param,
                           .ksize = {1, 1, 1},
                           .stride = {1, 1, 1},
                           .dilation = {1, 1, 1},
                           .ksize_channel = 1,
                           .stride_channel = 1,
                           .padding = is_same_padding(s) ? WEFT_CUDA_SAME : WEFT_CUDA_VALID};
  a.is_centred = a.num_space == 3;
  WEFT_CUDA_TRY(read_patches(s, "ksizes", a.num_space, a.ksize));
  WEFT_CUDA_TRY(read_patches(s, "strides", a.num_space, a.stride));
  WEFT_CUDA_TRY(read_patches(s, "rates", a.num_space, a.dilation));
  return keep(&a, out);
}

static WEFT_Failure *patches(WEFT_KernelContext *c) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, y;
  int64_t dims[WEFT_CUDA_SPACE + 2], depth;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank != a->num_space + 2) {
    return WEFT_CUDA_INVALID("input must be %d-dimensional, got %s", a->num_space + 2, WEFT_CUDA_SHAPE(&x));
  }
  WEFT_CUDA_TRY(weft_cuda_windows_plan(a, x.dims, a->ksize, &m));
  depth = m.channels;
  for (int d = 0; d < WEFT_CUDA_SPACE; d++) {
    if (__builtin_mul_overflow(depth, m.k[d], &depth))
      return WEFT_CUDA_INVALID("a patch of %lld channels is too large", (long long)m.channels);
  }
  const int rank = weft_cuda_images_dims(a, &m, true, depth, dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  void *args[] = {&x.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(patches_functions, x.dtype), y.count, 1, args);
}

/* ---- dilation ---- */

/* A list of four ints of which only those of rows and columns may differ from 1. */
static WEFT_Failure *read_dilation(const WEFT_KernelSetup *s, const char *name, int64_t *out) {
  int64_t v[4] = {0};
  if (weft_cuda_host->attr_ints(s, name, v, 4) != 4)
    return WEFT_CUDA_INVALID("%s must specify 4 dimensions", name);
  if (v[0] != 1 || v[3] != 1) {
    return weft_cuda_host->failure(WEFT_CUDA_UNIMPLEMENTED,
                                   "%s other than 1 are only supported across spatial dimensions.", name);
  }
  out[1] = v[1];
  out[2] = v[2];
  return NULL;
}

static WEFT_Failure *dilation_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  weft_cuda_windows_t a = {.num_space = 2,
                           .ksize_channel = 1,
                           .stride_channel = 1,
                           .padding = is_same_padding(s) ? WEFT_CUDA_SAME : WEFT_CUDA_VALID};
  (void)param;
  WEFT_CUDA_TRY(read_dilation(s, "strides", a.stride));
  WEFT_CUDA_TRY(read_dilation(s, "rates", a.dilation));
  return keep(&a, out);
}

static WEFT_Failure *plan(WEFT_KernelContext *c, const WEFT_TensorView *x, const WEFT_TensorView *f,
                          weft_cuda_images_t *m) {
  const weft_cuda_windows_t *a = weft_cuda_host->state(c);
  if (x->rank != 4) return WEFT_CUDA_INVALID("input must be 4-dimensional, got %s", WEFT_CUDA_SHAPE(x));
  if (f->rank != 3) return WEFT_CUDA_INVALID("filter must be 3-dimensional: %s", WEFT_CUDA_SHAPE(f));
  if (x->dims[3] != f->dims[2]) {
    return WEFT_CUDA_INVALID("input and filter must have the same depth: %lld vs %lld", (long long)x->dims[3],
                             (long long)f->dims[2]);
  }
  const int64_t k[WEFT_CUDA_SPACE] = {1, f->dims[0], f->dims[1]};
  return weft_cuda_windows_plan(a, x->dims, k, m);
}

static WEFT_Failure *dilation(WEFT_KernelContext *c) {
  weft_cuda_images_t m;
  WEFT_TensorView x, f, y;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &f);
  WEFT_CUDA_TRY(plan(c, &x, &f, &m));
  const int64_t dims[4] = {m.batch, m.out[1], m.out[2], m.channels};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 4, dims, &y));
  void *args[] = {&x.data, &f.data, &y.data, &m, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick(&dilation_instances, x.dtype), y.count, 1, args);
}

/* Gradients of half and bfloat16 are added in float. */
static WEFT_Failure *dilation_grad(WEFT_KernelContext *c) {
  int32_t of_filter = *(const int *)weft_cuda_host->param(c);
  weft_cuda_images_t m;
  WEFT_TensorView x, f, dy, d;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &f);
  weft_cuda_host->input(c, 2, &dy);
  WEFT_CUDA_TRY(plan(c, &x, &f, &m));
  if (dy.rank != 4)
    return WEFT_CUDA_INVALID("out_backprop must be 4-dimensional, got %s", WEFT_CUDA_SHAPE(&dy));
  const int64_t dims[4] = {m.batch, m.out[1], m.out[2], m.channels};
  if (memcmp(dy.dims, dims, sizeof dims) != 0)
    return WEFT_CUDA_INVALID("out_backprop has incompatible size.");
  const WEFT_TensorView *like = of_filter != 0 ? &f : &x;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, like->rank, like->dims, &d));
  if (d.count == 0) return NULL;
  const int sum_type = d.dtype == WEFT_CUDA_f64 ? WEFT_CUDA_f64 : WEFT_CUDA_f32;
  const size_t bytes = (size_t)d.count * weft_cuda_size(sum_type);
  void *sums = d.data;
  if (sum_type != d.dtype) WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &sums));
  WEFT_CUDA_TRY(weft_cuda_fill(c, sums, 0, bytes));
  void *args[] = {&x.data, &f.data, &dy.data, &sums, &of_filter, &m, &dy.count};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick(&grad_instances, dy.dtype), dy.count, 1, args));
  return sum_type == d.dtype ? NULL : weft_cuda_convert(c, sum_type, sums, d.dtype, d.data, d.count);
}

#define BIT(type) (UINT32_C(1) << WEFT_CUDA_##type)
#define NUMBERS (WEFT_CUDA_PLAIN & ~BIT(boolean))
#define PATCHES(op_, types_, num_space)                                                           \
  {                                                                                               \
    .op = op_, .type_attr = "T", .types = types_, .prepare = patches_prepare, .compute = patches, \
    .destroy = free, .param = &(const int) {                                                      \
      num_space                                                                                   \
    }                                                                                             \
  }
#define DILATION(op_, fn, of_filter)                                                                        \
  {                                                                                                         \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_SET(FLOAT), .prepare = dilation_prepare, .compute = fn, \
    .destroy = free, .param = &(const int) {                                                                \
      of_filter                                                                                             \
    }                                                                                                       \
  }
const WEFT_DeviceKernel weft_cuda_patches_kernels[] = {
    DILATION("Dilation2D", dilation, 0),
    DILATION("Dilation2DBackpropFilter", dilation_grad, 1),
    DILATION("Dilation2DBackpropInput", dilation_grad, 0),
    PATCHES("ExtractImagePatches", NUMBERS, 2),
    PATCHES("ExtractVolumePatches", NUMBERS & ~(BIT(c64) | BIT(c128)), 3),
    {0},
};
