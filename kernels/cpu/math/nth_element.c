/* kernels/cpu/math/nth_element.c - NthElement: the n-th smallest (or largest) of each row. */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"

typedef weft_status_t *nth_element_fn(const weft_tensor_t *in, int64_t n, weft_tensor_t *out);
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/math/nth_element_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static nth_element_fn *const nth_element_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM nth_element
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

WEFT_ATTRS(nth_element, (BOOL, reverse))
static weft_status_t *nth_element(weft_kernel_ctx_t *ctx, const nth_element_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(ctx, 0), *which = weft_in(ctx, 1);
  weft_tensor_t *out = NULL;
  if (which->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "N must be scalar but has rank %d", which->shape.rank);
  }
  int64_t n = weft_cpu_int_at(which, 0);
  if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "n must be non-negative but is %" PRId64, n);
  if (in->shape.rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Input must be at least rank 1 but is rank 0");
  weft_shape_t shape = in->shape;
  int64_t width = shape.dims[--shape.rank];
  if (width <= n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input must have last dimension > n = %" PRId64, n);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, in->dtype, &shape, &out));
  return nth_element_fns[in->dtype](in, attrs->reverse ? width - n - 1 : n, out);
}

const weft_kernel_t weft_cpu_nth_element_kernels[] = {
    WEFT_KERNEL_ATTRS("NthElement", "T", WEFT_SET_REAL, nth_element),
    {0},
};
