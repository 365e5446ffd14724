/* kernels/cuda/linalg.c - rows of Cholesky and its gradient, inverses, equations, determinants.
 *
 * Steps are launches (kernels/cuda/linalg_args.h), two for each column at most. That a matrix has no inverse
 * is known when all of them are done.
 */
#include "kernels/cuda/linalg.h"

#include "base/alloc.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"

#define STEP(name) WEFT_CUDA_INSTANCES(name, la_##name, SCALAR)
STEP(lower)
STEP(cholesky)
STEP(cholesky_check)
STEP(cholesky_finish)
STEP(gram_phi)
STEP(adjoint)
STEP(symmetric)
STEP(lu)
STEP(lu_check)
STEP(lu_pivot)
STEP(permute)
STEP(determinants)
STEP(triangular)
STEP(triangular_divide)
static weft_cuda_function_t lu_begin = WEFT_CUDA_FUNCTION("weft_lu_begin");

#define REALS WEFT_CUDA_SET(F32_F64)
#define TYPES WEFT_CUDA_SET(SCALAR)

/* The state of rows with attributes. */
typedef struct linalg_flags {
  bool is_adjoint, is_lower;
} linalg_flags_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  int adjoint_flag = 0, lower_flag = 0;
  (void)param;
  (void)weft_cuda_host->attr_bool(s, "adjoint", &adjoint_flag);
  (void)weft_cuda_host->attr_bool(s, "lower", &lower_flag);
  linalg_flags_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: linear algebra");
  *f = (linalg_flags_t){adjoint_flag != 0, lower_flag != 0};
  *out_state = f;
  return NULL;
}

/* ---- checks, in TensorFlow's words ---- */

WEFT_Failure *weft_cuda_matrices_check(WEFT_KernelContext *c, int num) {
  WEFT_TensorView first, x;
  weft_cuda_host->input(c, 0, &first);
  if (first.rank < 2) return WEFT_CUDA_INVALID("Input tensor 0 must have rank >= 2, got %d", first.rank);
  for (int i = 1; i < num; i++) {
    weft_cuda_host->input(c, i, &x);
    if (x.rank != first.rank) return WEFT_CUDA_INVALID("All input tensors must have the same rank.");
    for (int d = 0; d < x.rank - 2; d++) {
      if (x.dims[d] != first.dims[d])
        return WEFT_CUDA_INVALID("All input tensors must have the same outer dimensions.");
    }
  }
  return NULL;
}

weft_cuda_matrices_t weft_cuda_matrices_of(const WEFT_TensorView *x) {
  return (weft_cuda_matrices_t){.batch = weft_cuda_product(x->dims, 0, x->rank - 2),
                                .n = x->dims[x->rank - 2],
                                .m = x->dims[x->rank - 1]};
}

static WEFT_Failure *square(WEFT_KernelContext *c, WEFT_TensorView *x, weft_cuda_matrices_t *s) {
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 1));
  weft_cuda_host->input(c, 0, x);
  *s = weft_cuda_matrices_of(x);
  return s->n == s->m ? NULL : WEFT_CUDA_INVALID("Input matrix must be square.");
}

/* ---- steps ---- */

/* A launch over the elements of all matrices [rows, columns]. */
static WEFT_Failure *over(WEFT_KernelContext *c, const weft_cuda_instances_t *of, int dtype, int64_t count,
                          void **args) {
  return weft_cuda_launch_over(c, weft_cuda_pick(of, dtype), count, 1, args);
}

static WEFT_Failure *solve_triangular(WEFT_KernelContext *c, int dtype, const void *a, void *x, int64_t m,
                                      bool is_lower, bool is_adjoint, bool is_unit, weft_cuda_matrices_t s) {
  s.m = m;
  s.forward = is_lower != is_adjoint;
  s.is_adjoint = is_adjoint;
  s.is_unit = is_unit;
  void *args[] = {&a, &x, &s};
  for (int64_t i = 0; i + 1 < s.n; i++) {
    s.k = s.forward ? i : s.n - 1 - i;
    WEFT_CUDA_TRY(over(c, &triangular, dtype, s.batch * (s.n - 1 - i) * s.m, args));
  }
  return is_unit ? NULL : over(c, &triangular_divide, dtype, s.batch * s.n * s.m, args);
}

/* ---- Cholesky ---- */

static WEFT_Failure *cholesky_row(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  weft_cuda_matrices_t s;
  void *w = NULL, *bad = NULL;
  WEFT_CUDA_TRY(square(c, &x, &s));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (x.count == 0) return NULL;
  const int dtype = x.dtype;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, x.bytes, &w));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s.batch * sizeof(int32_t), &bad));
  WEFT_CUDA_TRY(weft_cuda_fill(c, bad, 0, (size_t)s.batch * sizeof(int32_t)));
  void *copy[] = {&x.data, &w, &s}, *step[] = {&w, &s}, *check[] = {&w, &bad, &s},
       *finish[] = {&w, &bad, &y.data, &s};
  WEFT_CUDA_TRY(over(c, &lower, dtype, x.count, copy));
  for (s.k = 0; s.k + 1 < s.n; s.k++)
    WEFT_CUDA_TRY(over(c, &cholesky, dtype, s.batch * (s.n - s.k - 1) * (s.n - s.k - 1), step));
  WEFT_CUDA_TRY(over(c, &cholesky_check, dtype, s.batch * s.n, check));
  return over(c, &cholesky_finish, dtype, x.count, finish);
}

static WEFT_Failure *cholesky_grad_row(WEFT_KernelContext *c) {
  WEFT_TensorView l, g, y;
  void *a = NULL, *b = NULL;
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 2));
  weft_cuda_host->input(c, 0, &l);
  weft_cuda_host->input(c, 1, &g);
  weft_cuda_matrices_t s = weft_cuda_matrices_of(&l), of_g = weft_cuda_matrices_of(&g);
  if (s.n != of_g.n || s.m != of_g.m)
    return WEFT_CUDA_INVALID("Inputs (L and grad) must have the same shape.");
  if (s.n != s.m) return WEFT_CUDA_INVALID("Inputs must be a square matrices.");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, l.rank, l.dims, &y));
  if (l.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, l.bytes, &a));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, l.bytes, &b));
  void *phi[] = {&l.data, &g.data, &a, &s}, *flip[] = {&a, &b, &s}, *join[] = {&b, &y.data, &s};
  WEFT_CUDA_TRY(over(c, &gram_phi, l.dtype, l.count, phi));
  WEFT_CUDA_TRY(solve_triangular(c, l.dtype, l.data, a, s.n, true, true, false, s));
  WEFT_CUDA_TRY(over(c, &adjoint, l.dtype, l.count, flip));
  WEFT_CUDA_TRY(solve_triangular(c, l.dtype, l.data, b, s.n, true, true, false, s));
  return over(c, &symmetric, l.dtype, l.count, join);
}

/* ---- LU ---- */

/* A decomposition, in scratch memory. */
typedef struct factors {
  void *lu, *rows, *signs;
} factors_t;

static WEFT_Failure *factorize(WEFT_KernelContext *c, const WEFT_TensorView *x, bool is_adjoint,
                               weft_cuda_matrices_t s, factors_t *out) {
  const int dtype = x->dtype;
  const void *from = x->data;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, x->bytes, &out->lu));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(s.batch * s.n) * sizeof(int64_t), &out->rows));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s.batch * sizeof(int32_t), &out->signs));
  void *copy[] = {&from, &out->lu, &s}, *begin[] = {&out->rows, &out->signs, &s},
       *pivot[] = {&out->lu, &out->rows, &out->signs, &s}, *step[] = {&out->lu, &s};
  WEFT_CUDA_TRY(is_adjoint ? over(c, &adjoint, dtype, x->count, copy)
                           : weft_cuda_copy(c, out->lu, from, x->bytes));
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &lu_begin, s.batch * s.n, 1, begin));
  const int64_t most = 4 * (int64_t)weft_cuda_num_processors(c);
  unsigned threads = 32; /* of a block, for a column */
  while (threads < WEFT_CUDA_BLOCK && threads < s.n) threads *= 2;
  const weft_cuda_geometry_t each = {.grid = {(unsigned)(s.batch < most ? s.batch : most), 1, 1},
                                     .block = {threads, 1, 1}};
  for (s.k = 0; s.k < s.n; s.k++) {
    WEFT_CUDA_TRY(weft_cuda_launch(c, weft_cuda_pick(&lu_pivot, dtype), &each, pivot));
    WEFT_CUDA_TRY(over(c, &lu, dtype, s.batch * (s.n - s.k - 1) * (s.n - s.k - 1), step));
  }
  return NULL;
}

/* Finds out whether all have an inverse: finish() says so. */
static WEFT_Failure *check_pivots(WEFT_KernelContext *c, int dtype, const factors_t *f,
                                  weft_cuda_matrices_t s) {
  void *bad = NULL, *lu_memory = f->lu;
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &bad));
  void *args[] = {&lu_memory, &bad, &s};
  WEFT_CUDA_TRY(over(c, &lu_check, dtype, s.batch * s.n, args));
  return weft_cuda_note_send(c, bad);
}

/* X of A X = B, for the identity where b is NULL. */
static WEFT_Failure *solve_factors(WEFT_KernelContext *c, int dtype, const factors_t *f, const void *b,
                                   void *x, int64_t m, weft_cuda_matrices_t s) {
  s.m = m;
  void *rows = f->rows, *args[] = {&rows, &b, &x, &s};
  WEFT_CUDA_TRY(over(c, &permute, dtype, s.batch * s.n * m, args));
  WEFT_CUDA_TRY(solve_triangular(c, dtype, f->lu, x, m, true, false, true, s));
  return solve_triangular(c, dtype, f->lu, x, m, false, false, false, s);
}

static WEFT_Failure *finish_with(WEFT_KernelContext *c, const char *words) {
  bool has_none = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &has_none));
  return has_none ? WEFT_CUDA_INVALID("%s", words) : NULL;
}

static WEFT_Failure *inverse_row(WEFT_KernelContext *c) {
  const linalg_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView x, y;
  weft_cuda_matrices_t s;
  factors_t f;
  WEFT_CUDA_TRY(square(c, &x, &s));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank, x.dims, &y));
  if (x.count == 0) return NULL;
  WEFT_CUDA_TRY(factorize(c, &x, flags->is_adjoint, s, &f));
  WEFT_CUDA_TRY(check_pivots(c, x.dtype, &f, s));
  return solve_factors(c, x.dtype, &f, NULL, y.data, s.n, s);
}
static WEFT_Failure *inverse_finish(WEFT_KernelContext *c) {
  return finish_with(c, "Input is not invertible.");
}

static WEFT_Failure *solve_row(WEFT_KernelContext *c) {
  const linalg_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView a, b, y;
  factors_t f;
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 2));
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, 1, &b);
  weft_cuda_matrices_t s = weft_cuda_matrices_of(&a), of_b = weft_cuda_matrices_of(&b);
  if (s.n != s.m) return WEFT_CUDA_INVALID("First input (lhs) must be a square matrix.");
  if (s.n != of_b.n) return WEFT_CUDA_INVALID("Input matrix and rhs are incompatible.");
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, b.rank, b.dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(factorize(c, &a, flags->is_adjoint, s, &f));
  WEFT_CUDA_TRY(check_pivots(c, a.dtype, &f, s));
  return solve_factors(c, a.dtype, &f, b.data, y.data, of_b.m, s);
}
static WEFT_Failure *solve_finish(WEFT_KernelContext *c) {
  return finish_with(c, "Input matrix is not invertible.");
}

/* ---- determinants ---- */

static WEFT_Failure *determinant_row(WEFT_KernelContext *c) {
  WEFT_TensorView x, sign, log_abs = {.data = NULL};
  weft_cuda_matrices_t s;
  factors_t f = {NULL, NULL, NULL};
  WEFT_CUDA_TRY(square(c, &x, &s));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x.rank - 2, x.dims, &sign));
  if (weft_cuda_host->num_outputs(c) > 1)
    WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, x.rank - 2, x.dims, &log_abs));
  if (s.batch == 0) return NULL;
  if (s.n == 0) { /* of nothing: 1 */
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s.batch * sizeof(int32_t), &f.signs));
    weft_cuda_matrices_t ones = {.batch = s.batch, .n = 1};
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)s.batch * sizeof(int64_t), &f.rows));
    void *begin[] = {&f.rows, &f.signs, &ones};
    WEFT_CUDA_TRY(weft_cuda_launch_over(c, &lu_begin, s.batch, 1, begin));
  } else {
    WEFT_CUDA_TRY(factorize(c, &x, false, s, &f));
  }
  void *args[] = {&f.lu, &f.signs, &sign.data, &log_abs.data, &s};
  return over(c, &determinants, x.dtype, s.batch, args);
}

/* ---- triangular equations, whose batch dimensions broadcast ---- */

static WEFT_Failure *check_triangular(const WEFT_TensorView *a, const WEFT_TensorView *b) {
  const WEFT_TensorView *args[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    if (args[i]->rank < 2) return WEFT_CUDA_INVALID("In[%d] ndims must be >= 2: %d", i, args[i]->rank);
  }
  const int64_t rows = a->dims[a->rank - 2], columns = a->dims[a->rank - 1];
  if (rows == columns) return NULL;
  return WEFT_CUDA_INVALID("In[0] matrices in the last dimensions must be square (%lld =/= %lld)",
                           (long long)columns, (long long)rows);
}

/* Batch dimension d, of `rank`, of x; 1 where it has none. */
static int64_t batch_dim(const WEFT_TensorView *x, int rank, int d) {
  const int own = d - (rank - (x->rank - 2));
  return own < 0 ? 1 : x->dims[own];
}

WEFT_Failure *weft_cuda_matrices_repeat(WEFT_KernelContext *c, const WEFT_TensorView *x, int rank,
                                        const int64_t *dims, void *to) {
  weft_cuda_walk_t w;
  int64_t all[WEFT_CUDA_DIMS];
  for (int d = 0; d < rank; d++) all[d] = dims[d];
  all[rank] = x->dims[x->rank - 2];
  all[rank + 1] = x->dims[x->rank - 1];
  weft_cuda_walk_init(&w, rank + 2, all);
  (void)weft_cuda_walk_broadcast(&w, 0, x->rank, x->dims);
  weft_cuda_dense_steps(rank + 2, all, w.steps[1]);
  return weft_cuda_move(c, x->dtype, x->data, 0, to, 0, &w);
}

WEFT_Failure *weft_cuda_matrices_broadcast(const WEFT_TensorView *a, const WEFT_TensorView *b, int *out_rank,
                                           int64_t *dims) {
  const int rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
  for (int d = 0; d < rank; d++) {
    const int64_t of_a = batch_dim(a, rank, d), of_b = batch_dim(b, rank, d);
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      return WEFT_CUDA_INVALID("In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                               WEFT_CUDA_SHAPE(a), WEFT_CUDA_SHAPE(b));
    }
    dims[d] = of_a == 1 ? of_b : of_a;
  }
  const int64_t n = a->dims[a->rank - 1], rows = b->dims[b->rank - 2];
  if (n != rows) {
    return WEFT_CUDA_INVALID("In[0] mismatch In[1] shape: %lld vs. %lld: %s %s", (long long)n,
                             (long long)rows, WEFT_CUDA_SHAPE(a), WEFT_CUDA_SHAPE(b));
  }
  dims[rank] = rows;
  dims[rank + 1] = b->dims[b->rank - 1];
  *out_rank = rank;
  return NULL;
}

static WEFT_Failure *triangular_row(WEFT_KernelContext *c) {
  const linalg_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView a, b, y;
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = 0;
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, 1, &b);
  WEFT_CUDA_TRY(check_triangular(&a, &b));
  WEFT_CUDA_TRY(weft_cuda_matrices_broadcast(&a, &b, &rank, dims));
  const int64_t n = dims[rank], m = dims[rank + 1];
  const weft_cuda_matrices_t s = {.batch = weft_cuda_product(dims, 0, rank), .n = n, .m = m};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank + 2, dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_matrices_repeat(c, &b, rank, dims, y.data));
  void *matrices = a.data;
  if (weft_cuda_product(a.dims, 0, a.rank - 2) != s.batch) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(s.batch * n * n) * weft_cuda_size(a.dtype), &matrices));
    WEFT_CUDA_TRY(weft_cuda_matrices_repeat(c, &a, rank, dims, matrices));
  }
  return solve_triangular(c, a.dtype, matrices, y.data, m, flags->is_lower, flags->is_adjoint, false, s);
}

#define ROW(op_, types_, compute_) \
  { .op = op_, .type_attr = "T", .types = types_, .compute = compute_ }
#define FLAGGED(op_, types_, compute_, finish_)                                            \
  {                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare, .compute = compute_, \
    .destroy = weft_free, .finish = finish_                                                \
  }
const WEFT_DeviceKernel weft_cuda_linalg_kernels[] = {
    ROW("BatchCholesky", REALS, cholesky_row),
    ROW("BatchCholeskyGrad", REALS, cholesky_grad_row),
    ROW("BatchMatrixDeterminant", TYPES, determinant_row),
    FLAGGED("BatchMatrixInverse", REALS, inverse_row, inverse_finish),
    FLAGGED("BatchMatrixSolve", REALS, solve_row, solve_finish),
    FLAGGED("BatchMatrixTriangularSolve", REALS, triangular_row, NULL),
    ROW("Cholesky", TYPES, cholesky_row),
    ROW("CholeskyGrad", REALS, cholesky_grad_row),
    ROW("LogMatrixDeterminant", TYPES, determinant_row),
    ROW("MatrixDeterminant", TYPES, determinant_row),
    FLAGGED("MatrixInverse", TYPES, inverse_row, inverse_finish),
    FLAGGED("MatrixSolve", TYPES, solve_row, solve_finish),
    FLAGGED("MatrixTriangularSolve", TYPES, triangular_row, NULL),
    {.op = NULL},
};
