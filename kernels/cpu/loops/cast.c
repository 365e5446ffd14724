/* kernels/cpu/loops/cast.c - Cast, Bitcast, ZerosLike, OnesLike. */
#include "kernels/cpu/loops/cast.h"

#include <complex.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/narrow.h"

/* 2^63 where it is out of range. */
static inline uint64_t u64_of(double v) {
  const int64_t low = (int64_t)v, high = (int64_t)(v - 0x1p63);
  return (uint64_t)low | ((uint64_t)high & (uint64_t)(low >> 63));
}

#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_COMPLEX
#define EACH_FILE "kernels/cpu/loops/cast_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#include "tensor/undef_each.tmpl.h"
#define EACH_HALFS
#define FROM_HALF
#define EACH_FILE "kernels/cpu/loops/cast_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef FROM_HALF
/* As each_dtype.tmpl.h's, but for LOAD: a comparison with 0 becomes a mask, which takes gcc seven times as
 * long. */
#define ELEM uint8_t
#define COMP uint8_t
#define SUFFIX bool
#define LOAD(v) ((uint8_t)((v) > 1 ? 1 : (v)))
#define FROM_BOOL
#include "kernels/cpu/loops/cast_one.tmpl.h"
#undef FROM_BOOL
#undef LOAD
#undef SUFFIX
#undef COMP
#undef ELEM

#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_COMPLEX
#define EACH_BOOL
#define MAP_STEM casts
static weft_cpu_cast_fn *const *const loops[WEFT_DTYPE_COUNT] = {
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

weft_dtype_t weft_cpu_stored_as(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_QINT8: return WEFT_I8;
    case WEFT_QUINT8: return WEFT_U8;
    case WEFT_QINT16: return WEFT_I16;
    case WEFT_QUINT16: return WEFT_U16;
    case WEFT_QINT32: return WEFT_I32;
    default: return dtype;
  }
}

weft_cpu_cast_fn *weft_cpu_cast_loop(weft_dtype_t from, weft_dtype_t to) {
  const weft_dtype_t x = weft_cpu_stored_as(from), y = weft_cpu_stored_as(to);
  return loops[x] == NULL ? NULL : loops[x][y];
}

typedef struct cast_job {
  weft_cpu_cast_fn *fn;
  const char *x;
  char *y;
  size_t x_size, y_size;
} cast_job_t;

static void cast_range(void *arg, int64_t begin, int64_t end) {
  const cast_job_t *j = arg;
  j->fn(end - begin, j->x + (size_t)begin * j->x_size, j->y + (size_t)begin * j->y_size);
}

static weft_status_t *cast_into(weft_kernel_ctx_t *ctx, const weft_tensor_t *x, weft_tensor_t *y) {
  weft_cpu_cast_fn *fn = weft_cpu_cast_loop(x->dtype, y->dtype);
  if (fn == NULL) {
    return WEFT_ERROR(UNIMPLEMENTED, "Cast %s to %s is not supported", weft_dtype_name(x->dtype),
                      weft_dtype_name(y->dtype));
  }
  cast_job_t j = {fn, x->data, y->data, weft_dtype_size(x->dtype), weft_dtype_size(y->dtype)};
  weft_parallel_for_cost(ctx->device->pool, x->count, weft_cpu_element(j.x_size + j.y_size, false),
                         cast_range, &j);
  return NULL;
}

weft_status_t *weft_cpu_cast(weft_kernel_ctx_t *ctx, const weft_tensor_t *x, weft_dtype_t to,
                             weft_tensor_t **out) {
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(to, &x->shape, ctx->device->allocator, &y));
  weft_status_t *s = cast_into(ctx, x, y);
  if (s != NULL) {
    weft_tensor_release(y);
    return s;
  }
  *out = y;
  return NULL;
}

/* Truncate: the mantissa bits that the narrower type lacks become zero before the conversion. */
static int mantissa_bits(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F64: return 52;
    case WEFT_F32: return 23;
    case WEFT_F16: return 10;
    case WEFT_BF16: return 7;
    default: return -1;
  }
}

static void cut_mantissa(weft_tensor_t *t, int bits) {
  if (t->dtype == WEFT_F64) {
    uint64_t *v = t->data, mask = ~(((uint64_t)1 << bits) - 1);
    for (int64_t i = 0; i < t->count; i++) v[i] &= mask;
  } else if (t->dtype == WEFT_F32) {
    uint32_t *v = t->data, mask = ~(((uint32_t)1 << bits) - 1);
    for (int64_t i = 0; i < t->count; i++) v[i] &= mask;
  }
}

WEFT_ATTRS(cast_compute, (BOOL, Truncate))
static weft_status_t *cast_compute(weft_kernel_ctx_t *ctx, const cast_compute_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL, *cut = NULL;
  weft_dtype_t to = weft_dtype_base(ctx->node->output_types[0]);
  if (x->dtype == to) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  int spare = mantissa_bits(x->dtype) - mantissa_bits(to);
  weft_status_t *s = NULL;
  if (mantissa_bits(to) > 0 && spare > 0 && attrs->Truncate) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy(x, &cut));
    cut_mantissa(cut, spare);
  }
  s = weft_out_new(ctx, 0, to, &x->shape, &y);
  if (s == NULL) s = cast_into(ctx, cut != NULL ? cut : x, y);
  weft_tensor_release(cut);
  return s;
}

/* ---- Bitcast ---- */

static weft_status_t *bitcast_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_dtype_t to = weft_dtype_base(ctx->node->output_types[0]);
  size_t from_size = weft_dtype_size(x->dtype), to_size = weft_dtype_size(to);
  weft_shape_t shape = x->shape;
  if (from_size > to_size) {
    if (shape.rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "Bitcast: too many dimensions");
    shape.dims[shape.rank++] = (int64_t)(from_size / to_size);
  } else if (from_size < to_size) {
    if (shape.rank == 0 || shape.dims[shape.rank - 1] != (int64_t)(to_size / from_size)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Cannot bitcast from %d to %d", (int)x->dtype, (int)to);
    }
    shape.rank--;
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_view(x, to, &shape, &y));
  weft_out_set(ctx, 0, y);
  return NULL;
}

/* ---- ZerosLike, OnesLike ---- */

static weft_status_t *zeros_like_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_shape_t shape = x->shape;
  if (weft_dtype_is_plain(x->dtype)) {
    WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, x->dtype, &shape, &y));
  } else {
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  }
  weft_cpu_zero(y);
  return NULL;
}

static weft_status_t *ones_like_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  weft_dtype_t dtype = x->dtype;
  weft_shape_t shape = x->shape;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, dtype, &shape, &y));
  weft_cpu_cast_fn *fn = weft_cpu_cast_loop(WEFT_BOOL, dtype);
  if (fn == NULL) return WEFT_ERROR(UNIMPLEMENTED, "OnesLike of %s", weft_dtype_name(dtype));
  const uint8_t one[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  size_t size = weft_dtype_size(dtype);
  for (int64_t i = 0; i < y->count; i += 64) {
    int64_t n = y->count - i < 64 ? y->count - i : 64;
    fn(n, one, (char *)y->data + (size_t)i * size);
  }
  return NULL;
}

#define NUMBERS_AND_BOOL (WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL))
#define ALL_BUT_RESOURCE (WEFT_SET_ALL & ~WEFT_DTYPE_BIT(WEFT_RESOURCE) & ~WEFT_DTYPE_BIT(WEFT_VARIANT))
const weft_kernel_t weft_cpu_cast_kernels[] = {
    WEFT_KERNEL("Bitcast", NULL, 0, NULL, bitcast_compute, NULL),
    {.op = "Cast",
     .type_attr = "SrcT",
     .types = NUMBERS_AND_BOOL | WEFT_SET_QUANTIZED,
     .type_attr2 = "DstT",
     .types2 = NUMBERS_AND_BOOL | WEFT_SET_QUANTIZED,
     WEFT_COMPUTE(cast_compute)},
    WEFT_KERNEL("OnesLike", "T", NUMBERS_AND_BOOL, NULL, ones_like_compute, NULL),
    WEFT_KERNEL("ZerosLike", "T", ALL_BUT_RESOURCE, NULL, zeros_like_compute, NULL),
    {0},
};
