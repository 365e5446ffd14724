/* kernels/cuda/bands.c - rows of TridiagonalSolve, TridiagonalMatMul and BandedTriangularSolve. */
#include "kernels/cuda/bands_args.h"

#include "base/alloc.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/linalg.h"

#define STEP(name) WEFT_CUDA_INSTANCES(name, name, SCALAR)
STEP(tridiagonal_factors)
STEP(tridiagonal_forward)
STEP(tridiagonal_backward)
STEP(tridiagonal_perturbed)
STEP(tridiagonal_product)
STEP(banded_triangular)
STEP(banded_check)

static WEFT_Failure *over(WEFT_KernelContext *c, const weft_cuda_instances_t *of, int dtype, int64_t count,
                          void **args) {
  return weft_cuda_launch_over(c, weft_cuda_pick(of, dtype), count, 1, args);
}

/* The state of rows with attributes. */
typedef struct cuda_bands_flags {
  int is_adjoint, is_lower, pivots, perturbs;
} bands_flags_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  (void)param;
  bands_flags_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: linear algebra");
  (void)weft_cuda_host->attr_bool(s, "adjoint", &f->is_adjoint);
  (void)weft_cuda_host->attr_bool(s, "lower", &f->is_lower);
  (void)weft_cuda_host->attr_bool(s, "partial_pivoting", &f->pivots);
  (void)weft_cuda_host->attr_bool(s, "perturb_singular", &f->perturbs);
  *out_state = f;
  return NULL;
}

/* ---- TridiagonalSolve ---- */

/* What elimination leaves, in scratch memory. */
typedef struct cuda_tridiagonal_factors {
  void *u, *factors, *ways, *largest, *bad;
} factors_t;

static WEFT_Failure *factors_new(WEFT_KernelContext *c, size_t size, const weft_cuda_bands_t *s,
                                 factors_t *f) {
  const size_t rows = (size_t)(s->batch * s->n);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, 3 * rows * size, &f->u));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, rows * size, &f->factors));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, rows * sizeof(int32_t), &f->ways));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s->batch * size, &f->largest));
  return weft_cuda_host->scratch(c, (size_t)s->batch * sizeof(int32_t), &f->bad);
}

/* Inputs: the diagonals [3, n] of each matrix, and its right sides [n, m]. */
static WEFT_Failure *check_tridiagonal(WEFT_KernelContext *c, const bands_flags_t *flags,
                                       weft_cuda_bands_t *s) {
  WEFT_TensorView diagonals, b;
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 2));
  weft_cuda_host->input(c, 0, &diagonals);
  weft_cuda_host->input(c, 1, &b);
  const weft_cuda_matrices_t of_a = weft_cuda_matrices_of(&diagonals), of_b = weft_cuda_matrices_of(&b);
  if (flags->perturbs != 0 && flags->pivots == 0)
    return WEFT_CUDA_INVALID("Setting perturb_singular requires also setting partial_pivoting.");
  if (of_a.n != 3) {
    return WEFT_CUDA_INVALID("Expected diagonals to be provided as a matrix with 3 rows, got %lld rows.",
                             (long long)of_a.n);
  }
  if (of_a.m != of_b.n) {
    return WEFT_CUDA_INVALID(
        "Expected the same number of left-hand sides and right-hand sides, got %lld and %lld.",
        (long long)of_a.m, (long long)of_b.n);
  }
  *s = (weft_cuda_bands_t){.batch = of_b.batch,
                           .n = of_b.n,
                           .m = of_b.m,
                           .pivoting = flags->perturbs != 0 ? WEFT_CUDA_PERTURBED
                                       : flags->pivots != 0 ? WEFT_CUDA_PIVOTED
                                                            : WEFT_CUDA_NOT_PIVOTED};
  return NULL;
}

static WEFT_Failure *tridiagonal_solve(WEFT_KernelContext *c) {
  WEFT_TensorView diagonals, b, y;
  weft_cuda_bands_t s;
  factors_t f;
  WEFT_CUDA_TRY(check_tridiagonal(c, weft_cuda_host->state(c), &s));
  weft_cuda_host->input(c, 0, &diagonals);
  weft_cuda_host->input(c, 1, &b);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, b.rank, b.dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(factors_new(c, weft_cuda_size(b.dtype), &s, &f));
  void *eliminate[] = {&diagonals.data, &f.u, &f.factors, &f.ways, &f.largest, &f.bad, &s},
       *forward[] = {&f.factors, &f.ways, &b.data, &y.data, &s}, *backward[] = {&f.u, &f.bad, &y.data, &s},
       *perturb[] = {&f.u, &f.largest, &y.data, &s};
  WEFT_CUDA_TRY(over(c, &tridiagonal_factors, b.dtype, s.batch, eliminate));
  WEFT_CUDA_TRY(over(c, &tridiagonal_forward, b.dtype, s.batch * s.m, forward));
  if (s.pivoting == WEFT_CUDA_PERTURBED) return over(c, &tridiagonal_perturbed, b.dtype, s.batch, perturb);
  return over(c, &tridiagonal_backward, b.dtype, s.batch * s.m, backward);
}

/* ---- TridiagonalMatMul ---- */

/* Inputs: superdiagonal, diagonal and subdiagonal [1, n] of each matrix, and what it is multiplied with [n,
 * m]. */
static WEFT_Failure *tridiagonal_multiply(WEFT_KernelContext *c) {
  static const char *const names[3] = {"superdiagonal", "main diagonal", "subdiagonal"};
  WEFT_TensorView diagonals[3], b, y;
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 4));
  weft_cuda_host->input(c, 3, &b);
  const weft_cuda_matrices_t of_b = weft_cuda_matrices_of(&b);
  for (int i = 0; i < 3; i++) {
    weft_cuda_host->input(c, i, &diagonals[i]);
    const weft_cuda_matrices_t d = weft_cuda_matrices_of(&diagonals[i]);
    if (d.n != 1 || d.m != of_b.n) return WEFT_CUDA_INVALID("Invalid %s shape.", names[i]);
  }
  weft_cuda_bands_t s = {.batch = of_b.batch, .n = of_b.n, .m = of_b.m};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, b.rank, b.dims, &y));
  void *args[] = {&diagonals[0].data, &diagonals[1].data, &diagonals[2].data, &b.data, &y.data, &s};
  return over(c, &tridiagonal_product, b.dtype, y.count, args);
}

/* ---- BandedTriangularSolve ---- */

/* Inputs: the diagonals [bands, n] of each matrix, and its right sides [n, m]; the batches broadcast. */
static WEFT_Failure *banded_solve(WEFT_KernelContext *c) {
  const bands_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView in[2], y;
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  void *bad = NULL;
  for (int i = 0; i < 2; i++) weft_cuda_host->input(c, i, &in[i]);
  for (int i = 0; i < 2; i++) {
    if (in[i].rank < 2) return WEFT_CUDA_INVALID("In[%d] ndims must be >= 2: %d", i, in[i].rank);
  }
  for (int i = 0; i < 2; i++) {
    if (in[i].count == 0)
      return WEFT_CUDA_INVALID("In[%d] must not be an empty tensor: %s", i, WEFT_CUDA_SHAPE(&in[i]));
  }
  WEFT_CUDA_TRY(weft_cuda_matrices_broadcast(&in[0], &in[1], &rank, dims));
  weft_cuda_bands_t s = {.batch = weft_cuda_product(dims, 0, rank),
                         .n = dims[rank],
                         .m = dims[rank + 1],
                         .bands = in[0].dims[in[0].rank - 2],
                         .is_lower = flags->is_lower,
                         .is_adjoint = flags->is_adjoint};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank + 2, dims, &y));
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &bad));
  void *matrices = in[0].data, *check[] = {&matrices, &bad, &s}, *solve[] = {&matrices, &y.data, &s};
  WEFT_CUDA_TRY(over(c, &banded_check, y.dtype, s.n, check));
  WEFT_CUDA_TRY(weft_cuda_note_send(c, bad));
  WEFT_CUDA_TRY(weft_cuda_matrices_repeat(c, &in[1], rank, dims, y.data));
  if (weft_cuda_product(in[0].dims, 0, in[0].rank - 2) != s.batch) {
    const size_t count = (size_t)(s.batch * s.bands * s.n);
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, count * weft_cuda_size(y.dtype), &matrices));
    WEFT_CUDA_TRY(weft_cuda_matrices_repeat(c, &in[0], rank, dims, matrices));
  }
  return over(c, &banded_triangular, y.dtype, s.batch * s.m, solve);
}
static WEFT_Failure *banded_finish(WEFT_KernelContext *c) {
  bool has_none = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &has_none));
  return has_none ? WEFT_CUDA_INVALID("Input matrix is not invertible.") : NULL;
}

const WEFT_DeviceKernel weft_cuda_bands_kernels[] = {
    {.op = "BandedTriangularSolve",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(SCALAR),
     .prepare = prepare,
     .compute = banded_solve,
     .destroy = weft_free,
     .finish = banded_finish},
    {.op = "TridiagonalMatMul",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(SCALAR),
     .compute = tridiagonal_multiply},
    {.op = "TridiagonalSolve",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(SCALAR),
     .prepare = prepare,
     .compute = tridiagonal_solve,
     .destroy = weft_free},
    {.op = NULL},
};
