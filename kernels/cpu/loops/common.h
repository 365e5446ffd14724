/* kernels/cpu/loops/common.h - small things that most CPU kernels need. */
#ifndef WEFT_KERNELS_CPU_LOOPS_COMMON_H_
#define WEFT_KERNELS_CPU_LOOPS_COMMON_H_

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/kernel.h"

/* For a loop whose output may be one of its inputs, element for element: nothing else ever overlaps. Without
 * it gcc falls back to a scalar loop when the addresses are equal. (clang warns where it cannot use the
 * hint.) */
#if defined(__clang__)
#define WEFT_IVDEP
#else
#define WEFT_IVDEP _Pragma("GCC ivdep")
#endif

/* One line of a kernel table; without prepare there is no state. */
#define WEFT_KERNEL(op_, attr_, types_, prepare_, compute_, destroy_)                         \
  {                                                                                           \
    .op = op_, .type_attr = attr_, .types = types_, .prepare = prepare_, .compute = compute_, \
    .destroy = destroy_                                                                       \
  }
/* With a second constrained type attribute. */
#define WEFT_KERNEL2(op_, attr_, types_, attr2_, types2_, prepare_, compute_, destroy_)      \
  {                                                                                          \
    .op = op_, .type_attr = attr_, .types = types_, .type_attr2 = attr2_, .types2 = types2_, \
    .prepare = prepare_, .compute = compute_, .destroy = destroy_                            \
  }

/* Below this many elements of a cheap loop a second thread costs more than it saves (about 10 us of work). */
enum { WEFT_CPU_GRAIN = 32768 };

/* Element i of an integer tensor (int8 to int64, unsigned likewise) as int64. */
int64_t weft_cpu_int_at(const weft_tensor_t *t, int64_t i);
/* The value of an integer tensor of one element.
 * Errors: INVALID_ARGUMENT "<what> must be a scalar, but received tensor of shape: [..]". */
WEFT_MUST_CHECK weft_status_t *weft_cpu_int_scalar(const weft_tensor_t *t, const char *what, int64_t *out);
/* A shape from a tensor of sizes (scalar counts as one size).
 * Errors: INVALID_ARGUMENT if it has rank 2 or more, too many entries, a negative one, or overflows. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_shape_from(const weft_tensor_t *t, const char *what,
                                                   weft_shape_t *out);
/* Brings `axis` from [-rank, rank) to [0, rank); false if it is outside. */
static inline bool weft_cpu_wrap_axis(int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank) return false;
  *out = (int)(axis < 0 ? axis + rank : axis);
  return true;
}
/* Product of dims[begin..end); meaningless when it overflows, which a tensor with elements cannot. */
static inline int64_t weft_cpu_product(const weft_shape_t *s, int begin, int end) {
  uint64_t n = 1;
  for (int i = begin; i < end; i++) n *= (uint64_t)s->dims[i];
  return (int64_t)n;
}
/* Input i's tensor under another shape of equal count, as output o: no bytes move. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_out_view(weft_kernel_ctx_t *c, int i, int o,
                                                 const weft_shape_t *shape);
/* Input i itself as output o. */
void weft_cpu_out_same(weft_kernel_ctx_t *c, int i, int o);
/* Copies n elements of any type. Plain bytes by memcpy. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_copy(weft_tensor_t *dst, int64_t dst_at, const weft_tensor_t *src,
                                             int64_t src_at, int64_t n);
/* All elements: zero, false, "" or NULL. */
void weft_cpu_zero(weft_tensor_t *t);
/* The shape of inputs first to first+n-1 joined along the axis that `axis_tensor` holds, and that axis.
 * Errors: INVALID_ARGUMENT in TensorFlow's words. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_concat_shape(const weft_kernel_ctx_t *ctx, int first, int n,
                                                     const weft_tensor_t *axis_tensor, const char *axis_name,
                                                     int *out_at, weft_shape_t *out);
/* The shape that Reshape gives to x; one of the sizes may be -1. Errors: INVALID_ARGUMENT in TensorFlow's
 * words. */
WEFT_MUST_CHECK weft_status_t *weft_cpu_reshaped(const weft_tensor_t *x, const weft_tensor_t *sizes,
                                                 weft_shape_t *out);
/* a*b for sizes; false when it overflows. Neither is negative. */
static inline bool weft_cpu_mul(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

#endif /* WEFT_KERNELS_CPU_LOOPS_COMMON_H_ */
