/* kernels/cpu/linalg/linalg.h - ops on batches of matrices: one function for one matrix, run over all of
 * them.
 *
 * A family's file has a function for each scalar type (each_scalar.tmpl.h makes them) that reads one matrix
 * of each operand and writes one of each result; the driver here checks ranks and batch dimensions, allocates
 * results and shares out the batch among threads. Matrices are dense and stored by rows.
 */
#ifndef WEFT_KERNELS_CPU_LINALG_LINALG_H_
#define WEFT_KERNELS_CPU_LINALG_LINALG_H_

#include "kernels/cpu/loops/common.h"

enum { WEFT_LINALG_MAX_IN = 4, WEFT_LINALG_MAX_OUT = 3 };

/* Attributes; false where an op has none of that name. */
typedef struct weft_linalg_flags {
  bool vectors; /* compute_v, compute_uv */
  bool full_matrices, adjoint, lower, fast, partial_pivoting, perturb_singular;
} weft_linalg_flags_t;

typedef struct weft_linalg_shape { /* of one matrix; of results also [rows] (rank 1) and [] (rank 0) */
  int rank;
  int64_t rows, cols;
} weft_linalg_shape_t;

typedef struct weft_linalg_call {
  weft_kernel_ctx_t *ctx;
  const weft_linalg_flags_t *flags;
  weft_linalg_shape_t in[WEFT_LINALG_MAX_IN], out[WEFT_LINALG_MAX_OUT];
  int num_out; /* results that are computed; those beyond are scalars, 0 */
} weft_linalg_call_t;

/* One matrix. `in` and `out` are of the op's types, but float for half. The results are not initialised. */
typedef weft_status_t *weft_linalg_fn(const weft_linalg_call_t *c, const void *const *in, void *const *out);

/* The param of a row. */
typedef struct weft_linalg {
  int num_in; /* operands that are matrices; those behind are the op's own */
  /* Checks c->in and sets c->out and c->num_out. */
  weft_status_t *(*shapes)(weft_linalg_call_t *c);
  weft_linalg_fn *fns[4]; /* float, double, complex64, complex128 */
} weft_linalg_t;

#define WEFT_LINALG_FNS(stem) \
  { stem##_f32, stem##_f64, stem##_c64, stem##_c128 }
#define WEFT_LINALG_ROW(op_, types_, num_in_, shapes_, stem)                                \
  {                                                                                         \
    .op = op_, .type_attr = "T", .types = types_, .prepare = weft_linalg_prepare,           \
    .compute = weft_linalg_compute, .destroy = weft_free, .param = &(const weft_linalg_t) { \
      .num_in = num_in_, .shapes = shapes_, .fns = WEFT_LINALG_FNS(stem)                    \
    }                                                                                       \
  }
#define WEFT_LINALG_TYPES \
  (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) | WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define WEFT_LINALG_REAL (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
#define WEFT_LINALG_HALF (WEFT_LINALG_TYPES | WEFT_DTYPE_BIT(WEFT_F16))

/* The index in fns, of float for half; -1: none. */
int weft_linalg_index(weft_dtype_t dtype);
/* State: weft_linalg_flags_t. */
WEFT_MUST_CHECK weft_status_t *weft_linalg_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_linalg_compute(weft_kernel_ctx_t *ctx);

/* Shapes that several ops have. Errors: INVALID_ARGUMENT as TensorFlow words it. */
WEFT_MUST_CHECK weft_status_t *weft_linalg_square(weft_linalg_call_t *c); /* out: as in */
WEFT_MUST_CHECK weft_status_t *weft_linalg_check_square(const weft_linalg_call_t *c);

#endif /* WEFT_KERNELS_CPU_LINALG_LINALG_H_ */
