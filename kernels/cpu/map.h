/* kernels/cpu/map.h - elementwise kernels: one row per op, one inner loop per element type.
 *
 * A row names the op, its loops by dtype and what must be checked. The drivers here do the rest:
 * broadcasting, taking over an input's memory, threads. The loops come from map1.tmpl.h and map2.tmpl.h.
 */
#ifndef WEFT_KERNELS_CPU_MAP_H_
#define WEFT_KERNELS_CPU_MAP_H_

#include "kernels/cpu/broadcast.h"

/* y[i] = f(x[i]); x may be y. */
typedef void weft_map1_fn(int64_t n, const void *x, void *y);
/* z[i] = f(x[i*sx], y[i*sy]); sx and sy are 0 or 1; z may be x or y where that one steps. */
typedef void weft_map2_fn(int64_t n, const void *x, int sx, const void *y, int sy, void *z);

typedef enum weft_map_flags {
  WEFT_MAP_BOOL_OUT = 1 << 0,         /* the result is bool, else as the inputs */
  WEFT_MAP_SAME_SHAPE = 1 << 1,       /* no broadcasting */
  WEFT_MAP_SAME_COUNT = 1 << 5,       /* no broadcasting; only the number of elements is compared */
  WEFT_MAP_CHECK_DIVISOR = 1 << 2,    /* integers: a zero in y is an error */
  WEFT_MAP_ZERO_IS_INTERNAL = 1 << 6, /* ... which TensorFlow calls INTERNAL for two ops */
  WEFT_MAP_CHECK_EXPONENT = 1 << 3,   /* integers: a negative value in y is an error */
  WEFT_MAP_COSTLY = 1 << 4,           /* tens of ns an element: threads pay sooner */
} weft_map_flags_t;

typedef struct weft_map1_row {
  const char *op;
  weft_map1_fn *const *fns; /* by dtype */
  uint32_t flags;
} weft_map1_row_t;

typedef struct weft_map2_row {
  const char *op;
  weft_map2_fn *const *fns; /* by dtype of the inputs */
  uint32_t flags;
} weft_map2_row_t;

/* The row of `op` in a table ended by an op of NULL; for prepare functions. Errors: INTERNAL. */
WEFT_MUST_CHECK weft_status_t *weft_map1_find(const weft_map1_row_t *rows, const weft_kernel_node_t *node,
                                              void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_map2_find(const weft_map2_row_t *rows, const weft_kernel_node_t *node,
                                              void **out_state);
/* Compute functions whose state is a row. */
WEFT_MUST_CHECK weft_status_t *weft_map1_compute(weft_kernel_ctx_t *ctx);
WEFT_MUST_CHECK weft_status_t *weft_map2_compute(weft_kernel_ctx_t *ctx);
/* Input 0 through `fn` to output 0. */
WEFT_MUST_CHECK weft_status_t *weft_map1_run(weft_kernel_ctx_t *ctx, weft_map1_fn *fn, uint32_t flags);

/* x + y by dtype: binary.c's loops, for kernels that add something on the way. */
extern weft_map2_fn *const *const weft_map2_add;

#endif /* WEFT_KERNELS_CPU_MAP_H_ */
