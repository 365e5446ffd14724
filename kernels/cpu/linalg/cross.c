/* kernels/cpu/linalg/cross.c - cross products of vectors of three elements. */
#include "kernels/cpu/loops/common.h"

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/linalg/cross_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef void cross_fn(int64_t begin, int64_t end, const void *a, const void *b, void *y);
static cross_fn *const cross_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM cross
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

typedef struct cross_job {
  cross_fn *fn;
  const void *a, *b;
  void *y;
} cross_job_t;

static void cross_range(void *arg, int64_t begin, int64_t end) {
  const cross_job_t *j = arg;
  j->fn(begin, end, j->a, j->b, j->y);
}

static weft_status_t *cross_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1), *y = NULL;
  if (!weft_shape_eq(&a->shape, &b->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Both inputs must be of same shape: %s vs. %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  int rank = a->shape.rank;
  if (rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must be at least 1D%s", WEFT_SHAPE_TEXT(&a->shape));
  if (a->shape.dims[rank - 1] != 3)
    return WEFT_ERROR(FAILED_PRECONDITION, "Cross-products are only defined for 3-element vectors.");
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, a->dtype, &a->shape, &y));
  cross_job_t j = {cross_fns[a->dtype], a->data, b->data, y->data};
  weft_parallel_for(ctx->device->pool, a->count / 3, WEFT_CPU_GRAIN / 4, cross_range, &j);
  return NULL;
}

const weft_kernel_t weft_cpu_cross_kernels[] = {
    WEFT_KERNEL("Cross", "T", WEFT_SET_REAL, NULL, cross_compute, NULL),
    {0},
};
