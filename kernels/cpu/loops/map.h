/* kernels/cpu/loops/map.h - elementwise kernels: one row per op, one inner loop per element type.
 *
 * A family's file reads: the loops, which map1.tmpl.h and map2.tmpl.h make, then the rows:
 *
 *   WEFT_MAP1("Erf", WEFT_SET_FLOATS, erf, WEFT_MAP_COSTLY),
 *
 * computes Erf of every floating-point type by the loops in erf_fns. The drivers here do the rest:
 * broadcasting, taking over an input's memory, threads. The result is of the dtype that the op's record says.
 */
#ifndef WEFT_KERNELS_CPU_LOOPS_MAP_H_
#define WEFT_KERNELS_CPU_LOOPS_MAP_H_

#include "kernels/cpu/loops/broadcast.h"

/* y[i] = f(x[i]); x may be y. */
typedef void weft_map1_fn(int64_t n, const void *x, void *y);
/* z[i] = f(x[i*sx], y[i*sy]); sx and sy are 0 or 1; z may be x or y where that one steps. */
typedef void weft_map2_fn(int64_t n, const void *x, int sx, const void *y, int sy, void *z);

typedef enum weft_map_flags {
  WEFT_MAP_SAME_SHAPE = 1 << 0,       /* no broadcasting */
  WEFT_MAP_SAME_COUNT = 1 << 1,       /* no broadcasting; only the number of elements is compared */
  WEFT_MAP_CHECK_DIVISOR = 1 << 2,    /* integers: a zero in y is an error */
  WEFT_MAP_ZERO_IS_INTERNAL = 1 << 3, /* ... which TensorFlow calls INTERNAL for two ops */
  WEFT_MAP_CHECK_EXPONENT = 1 << 4,   /* integers: a negative value in y is an error */
  WEFT_MAP_COSTLY = 1 << 5,           /* tens of ns an element: threads pay sooner */
} weft_map_flags_t;

/* The param of a row. */
typedef struct weft_map1 {
  weft_map1_fn *const *fns; /* by dtype */
  uint32_t flags;
} weft_map1_t;

typedef struct weft_map2 {
  weft_map2_fn *const *fns; /* by dtype of the inputs */
  uint32_t flags;
} weft_map2_t;

/* Rows of ops whose type attribute is T; `stem` is the MAP_STEM of the loops. */
#define WEFT_MAP1(op_, types_, stem, flags_)                                    \
  {                                                                             \
    .op = op_, .type_attr = "T", .types = types_, .compute = weft_map1_compute, \
    .param = &(const weft_map1_t) {                                             \
      stem##_fns, flags_                                                        \
    }                                                                           \
  }
#define WEFT_MAP2(op_, types_, stem, flags_)                                    \
  {                                                                             \
    .op = op_, .type_attr = "T", .types = types_, .compute = weft_map2_compute, \
    .param = &(const weft_map2_t) {                                             \
      stem##_fns, flags_                                                        \
    }                                                                           \
  }

/* Compute functions whose param is (or begins with) a weft_map1_t, a weft_map2_t. */
WEFT_MUST_CHECK weft_status_t *weft_map1_compute(weft_kernel_ctx_t *ctx);
WEFT_MUST_CHECK weft_status_t *weft_map2_compute(weft_kernel_ctx_t *ctx);

/* x + y by dtype: binary.c's loops, for kernels that add something on the way. */
extern weft_map2_fn *const *const weft_map2_add;

#endif /* WEFT_KERNELS_CPU_LOOPS_MAP_H_ */
