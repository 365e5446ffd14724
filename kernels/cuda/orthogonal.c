/* kernels/cuda/orthogonal.c - rows of Qr, SelfAdjointEigV2, Svd and MatrixSolveLs.
 *
 * Singular values are the lengths of the columns once all are orthogonal; the rotations make V, and QR of the
 * columns makes U, also where a value is 0 or more columns are wanted than there are. A matrix with more
 * columns than rows is done as its adjoint. Eigenvalues are those of a Hermitian matrix that is shifted so
 * that none is below zero: then both kinds of vectors are the same. Vectors may have other signs than the
 * CPU's, as TensorFlow's on a GPU. Least squares are solved by the orthogonal columns and the rotations: the
 * CPU's normal equations (`fast`) have the square of the condition, and are refused where that is as good as
 * infinite.
 */
#include "kernels/cuda/orthogonal_args.h"

#include "base/alloc.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/linalg.h"
#include "kernels/cuda/move.h"

enum { PROGRESS_BYTES = 16 }; /* of a matrix, at most */

/* Sweeps that are enqueued for n columns: convergence is quadratic, and matrices of thousands of columns take
 * ten to twelve. */
static int num_sweeps(int64_t n) {
  int sweeps = 4;
  for (int64_t size = 1; size < n; size *= 2) sweeps += 2;
  return n < 2 ? 0 : sweeps;
}

#define SETS(m, f) m(f, f32) m(f, f64) m(f, c64) m(f, c128)
#define NAMED(f, type) WEFT_CUDA_FUNCTION("weft_or_" #f "_" #type),
#define STEP(name, kernel) static weft_cuda_function_t name[] = {SETS(NAMED, kernel)};
STEP(reflect, reflect)
STEP(reflect_others, reflect_others)
STEP(make_q, make_q)
STEP(make_r, make_r)
STEP(turn_q, turn_q)
STEP(scale, scale)
STEP(shift, shift)
STEP(identities, identities)
STEP(begin_sweep, begin_sweep)
STEP(rotate_pairs, rotate)
STEP(values_of, values)
STEP(sort_values, sort_values)
STEP(order, order)
STEP(conjugate, conjugate)
STEP(weigh, weigh)
STEP(project, project)
STEP(combine, combine)

#define TYPES (WEFT_CUDA_SET(F32_F64) | WEFT_CUDA_SET(COMPLEX))

static int index_of(int dtype) {
  return dtype == WEFT_CUDA_f32 ? 0 : dtype == WEFT_CUDA_f64 ? 1 : dtype == WEFT_CUDA_c64 ? 2 : 3;
}

typedef struct orthogonal_flags {
  bool has_vectors, is_full, is_fast;
} orthogonal_flags_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  int vectors = 0, full = 0, fast = 0;
  if (param != NULL) (void)weft_cuda_host->attr_bool(s, param, &vectors);
  (void)weft_cuda_host->attr_bool(s, "full_matrices", &full);
  (void)weft_cuda_host->attr_bool(s, "fast", &fast);
  orthogonal_flags_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: linear algebra");
  *f = (orthogonal_flags_t){vectors != 0, full != 0, fast != 0};
  *out_state = f;
  return NULL;
}

/* ---- launches ---- */

static WEFT_Failure *over(WEFT_KernelContext *c, weft_cuda_function_t *functions, int dtype, int64_t count,
                          void **args) {
  return weft_cuda_launch_over(c, &functions[index_of(dtype)], count, 1, args);
}

/* Blocks for `count` columns, pairs or matrices, each of so many elements. */
static WEFT_Failure *blocks(WEFT_KernelContext *c, weft_cuda_function_t *functions, int dtype, int64_t count,
                            int64_t elements, void **args) {
  const int64_t most = 16 * (int64_t)weft_cuda_num_processors(c);
  unsigned threads = 32;
  while (threads < WEFT_CUDA_BLOCK && threads < elements) threads *= 2;
  if (count == 0) return NULL;
  const weft_cuda_geometry_t g = {.grid = {(unsigned)(count < most ? count : most), 1, 1},
                                  .block = {threads, 1, 1}};
  return weft_cuda_launch(c, &functions[index_of(dtype)], &g, args);
}

/* [batch, rows, columns] at `from` becomes [batch, columns, rows] at `to`. */
static WEFT_Failure *transpose(WEFT_KernelContext *c, int dtype, const void *from, void *to, int64_t batch,
                               int64_t rows, int64_t columns) {
  const int64_t dims[3] = {batch, columns, rows};
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, 3, dims);
  w.steps[0][0] = rows * columns;
  w.steps[0][1] = 1;
  w.steps[0][2] = columns;
  weft_cuda_dense_steps(3, dims, w.steps[1]);
  return weft_cuda_move(c, dtype, from, 0, to, 0, &w);
}

/* Scratch memory for `count` elements. */
static WEFT_Failure *room(WEFT_KernelContext *c, int dtype, int64_t count, void **out) {
  return weft_cuda_host->scratch(c, (size_t)count * weft_cuda_size(dtype), out);
}

/* The shape of matrices [rows, columns], or of vectors if columns is below 0, of x's batch. */
static WEFT_Failure *output_of(WEFT_KernelContext *c, int i, const WEFT_TensorView *x, int64_t rows,
                               int64_t columns, WEFT_TensorView *out) {
  int64_t dims[WEFT_CUDA_DIMS];
  int rank = x->rank - 2;
  for (int d = 0; d < rank; d++) dims[d] = x->dims[d];
  dims[rank++] = rows;
  if (columns >= 0) dims[rank++] = columns;
  return weft_cuda_host->output(c, i, rank, dims, out);
}

/* What is not computed: a scalar, as TensorFlow's kernels give it. */
static WEFT_Failure *output_nothing(WEFT_KernelContext *c, int i) {
  WEFT_TensorView y;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, i, 0, NULL, &y));
  return weft_cuda_fill(c, y.data, 0, y.bytes);
}

static WEFT_Failure *matrix_input(WEFT_KernelContext *c, WEFT_TensorView *x) {
  weft_cuda_host->input(c, 0, x);
  return x->rank >= 2 ? NULL : WEFT_CUDA_INVALID("Input tensor 0 must have rank >= 2, got %d", x->rank);
}

/* ---- QR ---- */

/* The columns x become reflections and R; the first s->inner columns of Q go to *q, scratch memory. */
static WEFT_Failure *decompose(WEFT_KernelContext *c, int dtype, void *x, weft_cuda_columns_t s, void **q) {
  void *taus = NULL, *args[] = {&x, &taus, &s};
  const int64_t least = s.m < s.n ? s.m : s.n;
  WEFT_CUDA_TRY(room(c, dtype, s.batch * s.n, &taus));
  for (s.k = 0; s.k < least; s.k++) {
    WEFT_CUDA_TRY(blocks(c, reflect, dtype, s.batch, s.m - s.k, args));
    WEFT_CUDA_TRY(blocks(c, reflect_others, dtype, s.batch * (s.n - s.k - 1), s.m - s.k, args));
  }
  WEFT_CUDA_TRY(room(c, dtype, s.batch * s.inner * s.m, q));
  void *of_q[] = {&x, &taus, q, &s};
  return blocks(c, make_q, dtype, s.batch * s.inner, s.m, of_q);
}

static WEFT_Failure *qr_row(WEFT_KernelContext *c) {
  const orthogonal_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView x, q, r;
  void *columns = NULL, *of_q = NULL;
  WEFT_CUDA_TRY(matrix_input(c, &x));
  weft_cuda_columns_t s = {
      .batch = weft_cuda_product(x.dims, 0, x.rank - 2), .m = x.dims[x.rank - 2], .n = x.dims[x.rank - 1]};
  s.inner = flags->is_full || s.m < s.n ? s.m : s.n;
  WEFT_CUDA_TRY(output_of(c, 0, &x, s.m, s.inner, &q));
  WEFT_CUDA_TRY(output_of(c, 1, &x, s.inner, s.n, &r));
  if (q.count == 0 && r.count == 0) return NULL;
  if (x.count > 0) {
    WEFT_CUDA_TRY(room(c, x.dtype, x.count, &columns));
    WEFT_CUDA_TRY(transpose(c, x.dtype, x.data, columns, s.batch, s.m, s.n));
  }
  WEFT_CUDA_TRY(decompose(c, x.dtype, columns, s, &of_q));
  void *of_r[] = {&columns, &r.data, &s};
  WEFT_CUDA_TRY(over(c, make_r, x.dtype, r.count, of_r));
  return transpose(c, x.dtype, of_q, q.data, s.batch, s.inner, s.m);
}

/* ---- Jacobi ---- */

typedef struct jacobi {
  weft_cuda_columns_t s;
  void *columns, *vectors, *progress, *values, *places;
} jacobi_t;

static WEFT_Failure *jacobi_rooms(WEFT_KernelContext *c, int dtype, bool has_vectors, jacobi_t *j) {
  const int64_t all = j->s.batch * j->s.n;
  WEFT_CUDA_TRY(room(c, dtype, all * j->s.m, &j->columns));
  if (has_vectors) WEFT_CUDA_TRY(room(c, dtype, all * j->s.n, &j->vectors));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)j->s.batch * PROGRESS_BYTES, &j->progress));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)all * sizeof(double), &j->values));
  return weft_cuda_host->scratch(c, (size_t)all * sizeof(int64_t), &j->places);
}

/* Makes the columns orthogonal. */
static WEFT_Failure *rotate(WEFT_KernelContext *c, int dtype, jacobi_t *j) {
  weft_cuda_columns_t s = j->s;
  void *begin[] = {&j->progress, &s}, *round[] = {&j->columns, &j->vectors, &j->progress, &s},
       *first[] = {&j->vectors, &s};
  const int64_t rounds = s.n + s.n % 2 - 1, pairs = s.batch * ((s.n + 1) / 2);
  if (j->vectors != NULL) WEFT_CUDA_TRY(over(c, identities, dtype, s.batch * s.n * s.n, first));
  for (int sweep = num_sweeps(s.n); sweep > 0; sweep--) {
    WEFT_CUDA_TRY(over(c, begin_sweep, dtype, s.batch, begin));
    for (s.k = 0; s.k < rounds; s.k++) WEFT_CUDA_TRY(blocks(c, rotate_pairs, dtype, pairs, s.m, round));
  }
  return NULL;
}

static WEFT_Failure *sort(WEFT_KernelContext *c, int dtype, jacobi_t *j, bool ascending, void *sorted) {
  void *none = NULL, *vectors = ascending ? j->vectors : none;
  int32_t is_ascending = ascending;
  void *values[] = {&j->columns, &vectors, &j->values, &j->s},
       *places[] = {&j->values, &j->progress, &j->places, &sorted, &is_ascending, &j->s};
  WEFT_CUDA_TRY(blocks(c, values_of, dtype, j->s.batch * j->s.n, j->s.m, values));
  return over(c, sort_values, dtype, j->s.batch * j->s.n, places);
}

/* The columns `from`, of `length` elements, in their order. */
static WEFT_Failure *in_order(WEFT_KernelContext *c, int dtype, const jacobi_t *j, void *from, int64_t length,
                              void **out) {
  const int64_t count = j->s.batch * j->s.n * length;
  weft_cuda_columns_t s = j->s;
  void *places = j->places;
  WEFT_CUDA_TRY(room(c, dtype, count, out));
  void *args[] = {&from, &places, out, &length, &s};
  return over(c, order, dtype, count, args);
}

/* V, by rows. */
static WEFT_Failure *put_vectors(WEFT_KernelContext *c, int dtype, const jacobi_t *j, void *to) {
  void *sorted = NULL;
  WEFT_CUDA_TRY(in_order(c, dtype, j, j->vectors, j->s.n, &sorted));
  return transpose(c, dtype, sorted, to, j->s.batch, j->s.n, j->s.n);
}

static WEFT_Failure *eig_row(WEFT_KernelContext *c) {
  const orthogonal_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView x, e, v = {.data = NULL};
  jacobi_t j = {.vectors = NULL};
  WEFT_CUDA_TRY(matrix_input(c, &x));
  const int64_t n = x.dims[x.rank - 1];
  if (x.dims[x.rank - 2] != n) return WEFT_CUDA_INVALID("Input matrix must be square.");
  WEFT_CUDA_TRY(output_of(c, 0, &x, n, -1, &e));
  WEFT_CUDA_TRY(flags->has_vectors ? output_of(c, 1, &x, n, n, &v) : output_nothing(c, 1));
  if (x.count == 0) return NULL;
  j.s = (weft_cuda_columns_t){.batch = weft_cuda_product(x.dims, 0, x.rank - 2), .m = n, .n = n};
  WEFT_CUDA_TRY(jacobi_rooms(c, x.dtype, true, &j));
  void *args[] = {&x.data, &j.columns, &j.progress, &j.s};
  WEFT_CUDA_TRY(blocks(c, shift, x.dtype, j.s.batch, n * n, args));
  WEFT_CUDA_TRY(rotate(c, x.dtype, &j));
  WEFT_CUDA_TRY(sort(c, x.dtype, &j, true, e.data));
  return flags->has_vectors ? put_vectors(c, x.dtype, &j, v.data) : NULL;
}

/* The vectors of the other side, of the columns: the first `inner` of Q, by rows. */
static WEFT_Failure *put_columns(WEFT_KernelContext *c, int dtype, const jacobi_t *j, int64_t inner,
                                 void *to) {
  weft_cuda_columns_t s = j->s;
  void *sorted = NULL, *q = NULL;
  s.inner = inner;
  WEFT_CUDA_TRY(in_order(c, dtype, j, j->columns, s.m, &sorted));
  WEFT_CUDA_TRY(decompose(c, dtype, sorted, s, &q));
  void *turn[] = {&sorted, &q, &s};
  WEFT_CUDA_TRY(over(c, turn_q, dtype, s.batch * s.n * s.m, turn));
  return transpose(c, dtype, q, to, s.batch, inner, s.m);
}

/* The columns of matrices x [.., rows, columns] or, if these are more than the rows, of their adjoints,
 * divided by their largest element. */
static WEFT_Failure *take_columns(WEFT_KernelContext *c, const WEFT_TensorView *x, jacobi_t *j) {
  const int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1];
  int64_t count = x->count;
  const void *from = x->data;
  void *flip[] = {&from, &j->columns, &count}, *args[] = {&j->columns, &j->progress, &j->s};
  WEFT_CUDA_TRY(m < n ? over(c, conjugate, x->dtype, count, flip)
                      : transpose(c, x->dtype, x->data, j->columns, j->s.batch, m, n));
  return blocks(c, scale, x->dtype, j->s.batch, j->s.m * j->s.n, args);
}

static WEFT_Failure *svd_row(WEFT_KernelContext *c) {
  const orthogonal_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView x, values, u = {.data = NULL}, v = {.data = NULL};
  jacobi_t j = {.vectors = NULL};
  WEFT_CUDA_TRY(matrix_input(c, &x));
  const int64_t m = x.dims[x.rank - 2], n = x.dims[x.rank - 1], least = m < n ? m : n;
  WEFT_CUDA_TRY(output_of(c, 0, &x, least, -1, &values));
  if (flags->has_vectors) {
    WEFT_CUDA_TRY(output_of(c, 1, &x, m, flags->is_full ? m : least, &u));
    WEFT_CUDA_TRY(output_of(c, 2, &x, n, flags->is_full ? n : least, &v));
  } else {
    WEFT_CUDA_TRY(output_nothing(c, 1));
    WEFT_CUDA_TRY(output_nothing(c, 2));
  }
  j.s = (weft_cuda_columns_t){
      .batch = weft_cuda_product(x.dims, 0, x.rank - 2), .m = m < n ? n : m, .n = least};
  const int64_t inner = flags->is_full ? j.s.m : least;
  if (j.s.batch == 0 || (x.count == 0 && !(flags->has_vectors && flags->is_full))) return NULL;
  if (x.count == 0) { /* any basis */
    void *to = m < n ? v.data : u.data;
    weft_cuda_columns_t all = {.batch = j.s.batch, .n = j.s.m};
    void *args[] = {&to, &all};
    return over(c, identities, x.dtype, all.batch * all.n * all.n, args);
  }
  WEFT_CUDA_TRY(jacobi_rooms(c, x.dtype, flags->has_vectors, &j));
  WEFT_CUDA_TRY(take_columns(c, &x, &j));
  WEFT_CUDA_TRY(rotate(c, x.dtype, &j));
  WEFT_CUDA_TRY(sort(c, x.dtype, &j, false, values.data));
  if (!flags->has_vectors) return NULL;
  WEFT_CUDA_TRY(put_vectors(c, x.dtype, &j, m < n ? u.data : v.data));
  return put_columns(c, x.dtype, &j, inner, m < n ? v.data : u.data);
}

/* ---- least squares ---- */

static WEFT_Failure *check_least_squares(WEFT_KernelContext *c, WEFT_TensorView *a, WEFT_TensorView *b,
                                         double *l2) {
  WEFT_TensorView l;
  WEFT_CUDA_TRY(weft_cuda_matrices_check(c, 2));
  weft_cuda_host->input(c, 0, a);
  weft_cuda_host->input(c, 1, b);
  weft_cuda_host->input(c, 2, &l);
  if (a->dims[a->rank - 2] != b->dims[b->rank - 2])
    return WEFT_CUDA_INVALID("Input matrix and rhs are incompatible.");
  *l2 = 0;
  if (weft_cuda_product(a->dims, 0, a->rank - 2) == 0) return NULL;
  if (l.rank != 0)
    return WEFT_CUDA_INVALID("l2_regularizer must be scalar, got shape %s", WEFT_CUDA_SHAPE(&l));
  memcpy(l2, l.data, sizeof *l2);
  return *l2 >= 0 ? NULL : WEFT_CUDA_INVALID("l2_regularizer must be >= 0.");
}

static WEFT_Failure *solve_ls_row(WEFT_KernelContext *c) {
  const orthogonal_flags_t *flags = weft_cuda_host->state(c);
  WEFT_TensorView a, b, x;
  double l2 = 0;
  jacobi_t j = {.vectors = NULL};
  void *weights = NULL, *parts = NULL, *bad = NULL;
  WEFT_CUDA_TRY(check_least_squares(c, &a, &b, &l2));
  int64_t m = a.dims[a.rank - 2], n = a.dims[a.rank - 1], sides = b.dims[b.rank - 1];
  WEFT_CUDA_TRY(output_of(c, 0, &a, n, sides, &x));
  WEFT_CUDA_TRY(weft_cuda_note_new(c, &bad));
  if (x.count == 0) return NULL;
  if (m == 0) return weft_cuda_fill(c, x.data, 0, x.bytes);
  j.s = (weft_cuda_columns_t){
      .batch = weft_cuda_product(a.dims, 0, a.rank - 2), .m = m < n ? n : m, .n = m < n ? m : n};
  WEFT_CUDA_TRY(jacobi_rooms(c, a.dtype, true, &j));
  WEFT_CUDA_TRY(take_columns(c, &a, &j));
  WEFT_CUDA_TRY(rotate(c, a.dtype, &j));
  WEFT_CUDA_TRY(room(c, a.dtype, j.s.batch * j.s.n, &weights));
  WEFT_CUDA_TRY(room(c, a.dtype, j.s.batch * j.s.n * sides, &parts));
  void *none = NULL, *of_b = m < n ? j.vectors : j.columns, *of_x = m < n ? j.columns : j.vectors;
  int32_t least = !flags->is_fast;
  void *lengths[] = {&j.columns, &none, &j.values, &j.s},
       *weighing[] = {&j.values, &j.progress, &weights, &l2, &least, &bad, &j.s},
       *projection[] = {&of_b, &b.data, &weights, &parts, &m, &sides, &j.s},
       *combination[] = {&of_x, &parts, &x.data, &n, &sides, &j.s};
  WEFT_CUDA_TRY(blocks(c, values_of, a.dtype, j.s.batch * j.s.n, j.s.m, lengths));
  WEFT_CUDA_TRY(over(c, weigh, a.dtype, j.s.batch * j.s.n, weighing));
  WEFT_CUDA_TRY(weft_cuda_note_send(c, bad));
  WEFT_CUDA_TRY(over(c, project, a.dtype, j.s.batch * j.s.n * sides, projection));
  return over(c, combine, a.dtype, x.count, combination);
}
static WEFT_Failure *solve_ls_finish(WEFT_KernelContext *c) {
  bool is_bad = false;
  WEFT_CUDA_TRY(weft_cuda_note_read(c, &is_bad));
  if (!is_bad) return NULL;
  return WEFT_CUDA_INVALID(
      "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
      "l2_regularizer > 0.");
}

#define ROW(op_, types_, compute_, vectors_)                                               \
  {                                                                                        \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare, .compute = compute_, \
    .destroy = weft_free, .param = vectors_                                                \
  }
#define LEAST_SQUARES(op_, types_)                                                             \
  {                                                                                            \
    .op = op_, .type_attr = "T", .types = types_, .prepare = prepare, .compute = solve_ls_row, \
    .finish = solve_ls_finish, .destroy = weft_free, .host_inputs = 4                          \
  }
const WEFT_DeviceKernel weft_cuda_orthogonal_kernels[] = {
    LEAST_SQUARES("BatchMatrixSolveLs", WEFT_CUDA_SET(F32_F64)),
    ROW("BatchSelfAdjointEigV2", WEFT_CUDA_SET(F32_F64), eig_row, "compute_v"),
    ROW("BatchSvd", TYPES, svd_row, "compute_uv"),
    LEAST_SQUARES("MatrixSolveLs", TYPES),
    ROW("Qr", TYPES, qr_row, NULL),
    ROW("SelfAdjointEigV2", TYPES, eig_row, "compute_v"),
    ROW("Svd", TYPES, svd_row, "compute_uv"),
    {.op = NULL},
};
