/* kernels/cpu/array/sorted_bound.c - LowerBound, UpperBound: places of values in sorted rows, by bisection.
 */
#include "kernels/cpu/loops/common.h"

typedef int64_t bound_fn(const void *row, int64_t n, const void *values, int64_t i, bool is_upper);
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/array/sorted_bound_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static bound_fn *const bound_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM bound
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static weft_status_t *check_rank(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank == 2) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 2 but is rank %d for `%s` argument", t->shape.rank,
                    what);
}

static weft_status_t *sorted_bound(weft_kernel_ctx_t *ctx) {
  const bool *is_upper = ctx->node->param;
  const weft_tensor_t *sorted = weft_in(ctx, 0), *values = weft_in(ctx, 1);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(check_rank(sorted, "sorted_inputs"));
  WEFT_RETURN_IF_ERROR(check_rank(values, "values"));
  if (sorted->shape.dims[0] != values->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Leading dim_size of both tensors must match.");
  }
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  int64_t n = sorted->shape.dims[1], width = values->shape.dims[1];
  if (values->count >= INT32_MAX || (dtype == WEFT_I32 && n >= INT32_MAX)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "values tensor size must less than INT_MAX");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &values->shape, &out));
  for (int64_t i = 0; i < values->count; i++) {
    const char *row = (const char *)sorted->data + (size_t)(i / width * n) * weft_dtype_size(sorted->dtype);
    int64_t at = bound_fns[sorted->dtype](row, n, values->data, i, *is_upper);
    if (dtype == WEFT_I32) ((int32_t *)out->data)[i] = (int32_t)at;
    if (dtype == WEFT_I64) ((int64_t *)out->data)[i] = at;
  }
  return NULL;
}

#define BOUND(op_, is_upper)                                                                                 \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_SET_REAL, .type_attr2 = "out_type", .types2 = WEFT_SET_INDEX, \
    .compute = sorted_bound, .param = &(const bool) {                                                        \
      is_upper                                                                                               \
    }                                                                                                        \
  }
const weft_kernel_t weft_cpu_sorted_bound_kernels[] = {
    BOUND("LowerBound", false),
    BOUND("UpperBound", true),
    {0},
};
