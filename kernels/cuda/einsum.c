/* kernels/cuda/einsum.c - the row of Einsum.
 *
 * One operand is summed over the labels that the output lacks, and moved. Two operands are products of
 * matrices: each label is in one of four groups (batch, rows, columns, summed), and a tensor whose groups lie
 * at even distances in memory, in any order, is an operand of cuBLASLt as it is. Others are copied. Where
 * nothing is summed the product is elementwise.
 */
#include "ops/einsum.h"

#include "device/cuda/blas.h"
#include "kernels/cuda/binary.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/reduce.h"

/* ---- what a node has ---- */

typedef struct cuda_equation {
  const char *text;
  size_t length;
} cuda_equation_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  cuda_equation_t *e = calloc(1, sizeof *e);
  if (e == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: an equation");
  weft_cuda_host->attr_string(s, "equation", &e->text, &e->length);
  *out = e;
  return NULL;
}

static WEFT_Failure *failure_of(weft_status_t *s) {
  if (s == NULL) return NULL;
  WEFT_Failure *f = weft_cuda_host->failure((int)weft_status_code(s), "%s", weft_status_message(s));
  weft_status_free(s);
  return f;
}

/* ---- tensors by label ---- */

/* The labels that a tensor moves along, in the order of its dimensions, and how far. One of length 1 is left
 * out; one that occurs twice is the diagonal. */
typedef struct cuda_labelled {
  void *data;
  int n;
  int labels[WEFT_CUDA_DIMS];
  int64_t dims[WEFT_CUDA_DIMS], steps[WEFT_CUDA_DIMS];
  bool has_diagonal;
} cuda_labelled_t;

static int find(const cuda_labelled_t *t, int label) {
  for (int i = 0; i < t->n; i++) {
    if (t->labels[i] == label) return i;
  }
  return -1;
}

static int64_t step_along(const cuda_labelled_t *t, int label) {
  const int at = find(t, label);
  return at < 0 ? 0 : t->steps[at];
}

static cuda_labelled_t labelled(const weft_einsum_term_t *term, const int64_t *dims, void *data) {
  cuda_labelled_t t = {.data = data};
  int64_t steps[WEFT_CUDA_DIMS];
  weft_cuda_dense_steps(term->n, dims, steps);
  for (int i = 0; i < term->n; i++) {
    if (dims[i] == 1) continue;
    const int at = find(&t, term->labels[i]);
    if (at >= 0) {
      t.has_diagonal = true;
      t.steps[at] += steps[i];
    } else {
      t.labels[t.n] = term->labels[i];
      t.dims[t.n] = dims[i];
      t.steps[t.n++] = steps[i];
    }
  }
  return t;
}

static int64_t count_of(const cuda_labelled_t *t) { return weft_cuda_product(t->dims, 0, t->n); }

static bool is_same_order(const cuda_labelled_t *x, const cuda_labelled_t *y) {
  return x->n == y->n && memcmp(x->labels, y->labels, (size_t)x->n * sizeof x->labels[0]) == 0;
}

/* Copies x to y, which moves along no other labels. */
static WEFT_Failure *deliver(WEFT_KernelContext *c, int dtype, const cuda_labelled_t *x,
                             const cuda_labelled_t *y) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, y->n, y->dims);
  for (int d = 0; d < y->n; d++) {
    w.steps[0][d] = step_along(x, y->labels[d]);
    w.steps[1][d] = y->steps[d];
  }
  return weft_cuda_move(c, dtype, x->data, 0, y->data, 0, &w);
}

/* The same labels, densely. */
static WEFT_Failure *make_dense(WEFT_KernelContext *c, int dtype, cuda_labelled_t *t) {
  cuda_labelled_t dense = *t;
  weft_cuda_dense_steps(dense.n, dense.dims, dense.steps);
  dense.has_diagonal = false;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)count_of(t) * weft_cuda_size(dtype), &dense.data));
  WEFT_CUDA_TRY(deliver(c, dtype, t, &dense));
  *t = dense;
  return NULL;
}

/* Sums over the labels that neither of the others moves along (`other`: NULL, there is none). What is left
 * goes to the output where it is the whole result, which *is_result then says. */
static WEFT_Failure *sum_alone(WEFT_KernelContext *c, int dtype, cuda_labelled_t *t,
                               const cuda_labelled_t *other, const cuda_labelled_t *out, bool *is_result) {
  bool is_summed[WEFT_CUDA_DIMS];
  cuda_labelled_t left = {.n = 0};
  for (int i = 0; i < t->n; i++) {
    is_summed[i] = find(out, t->labels[i]) < 0 && (other == NULL || find(other, t->labels[i]) < 0);
    if (is_summed[i]) continue;
    left.labels[left.n] = t->labels[i];
    left.dims[left.n++] = t->dims[i];
  }
  *is_result = false;
  if (left.n == t->n) return NULL;
  if (t->has_diagonal) WEFT_CUDA_TRY(make_dense(c, dtype, t));
  weft_cuda_dense_steps(left.n, left.dims, left.steps);
  *is_result = other == NULL && !out->has_diagonal && is_same_order(&left, out);
  left.data = out->data;
  if (!*is_result)
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)count_of(&left) * weft_cuda_size(dtype), &left.data));
  WEFT_CUDA_TRY(weft_cuda_sum(c, dtype, t->data, t->n, t->dims, is_summed, left.data));
  *t = left;
  return NULL;
}

/* ---- one operand ---- */

static WEFT_Failure *move_one(WEFT_KernelContext *c, int dtype, cuda_labelled_t *x,
                              const cuda_labelled_t *y) {
  bool is_result = false;
  WEFT_CUDA_TRY(sum_alone(c, dtype, x, NULL, y, &is_result));
  return is_result ? NULL : deliver(c, dtype, x, y);
}

/* ---- two operands: groups of labels, and how they lie ---- */

typedef struct cuda_group {
  int n;
  int labels[WEFT_CUDA_DIMS];
  int64_t dims[WEFT_CUDA_DIMS], count;
} cuda_group_t;

enum { BATCH, ROWS, COLUMNS, SUMMED, NUM_GROUPS };

typedef struct cuda_product_of {
  const weft_einsum_t *e;
  int dtype;
  cuda_labelled_t a, b, out;
} cuda_product_of_t;

/* Which group a label is in. A label of both operands that one of them only repeats may be the other's own,
 * too: with `repeats` it is one of the batch. */
static int group_of(const cuda_product_of_t *p, int label, bool repeats) {
  bool in_a = find(&p->a, label) >= 0, in_b = find(&p->b, label) >= 0;
  if (find(&p->out, label) < 0) return SUMMED;
  if (repeats && weft_einsum_has(&p->e->in[0], label) && weft_einsum_has(&p->e->in[1], label)) return BATCH;
  return in_a && in_b ? BATCH : in_a ? ROWS : COLUMNS;
}

/* A group in the order that it has in `by`, which has all of its labels. */
static cuda_group_t group(const cuda_product_of_t *p, int which, bool repeats, const cuda_labelled_t *by) {
  cuda_group_t g = {.count = 1};
  for (int i = 0; i < by->n; i++) {
    if (group_of(p, by->labels[i], repeats) != which) continue;
    g.labels[g.n] = by->labels[i];
    g.dims[g.n++] = by->dims[i];
    g.count *= by->dims[i];
  }
  return g;
}

/* Is the group one run of elements at even distances? */
static bool runs_evenly(const cuda_labelled_t *t, const cuda_group_t *g, int64_t *step) {
  int64_t size = 1;
  *step = g->n == 0 ? 0 : step_along(t, g->labels[g->n - 1]);
  for (int i = g->n - 1; i >= 0; i--) {
    if (step_along(t, g->labels[i]) != *step * size) return false;
    size *= g->dims[i];
  }
  return true;
}

/* A tensor as matrices [rows, columns], or transposed ones. */
typedef struct cuda_view {
  void *data;
  bool transposed;
  int64_t row, matrix; /* from one to the next, as they lie in memory */
} cuda_view_t;

static bool view(const cuda_labelled_t *t, const cuda_group_t *batch, const cuda_group_t *rows,
                 const cuda_group_t *columns, cuda_view_t *v) {
  int64_t down, across;
  const int64_t m = rows->count, n = columns->count;
  v->data = t->data;
  if (!runs_evenly(t, batch, &v->matrix) || !runs_evenly(t, rows, &down) || !runs_evenly(t, columns, &across))
    return false;
  v->transposed = !((n == 1 || across == 1) && (m == 1 || down >= n));
  v->row = v->transposed ? (n == 1 ? m : across) : (m == 1 ? n : down);
  return !v->transposed || ((m == 1 || down == 1) && (n == 1 || across >= m));
}

/* The order of each group, and what it comes down to. */
typedef struct cuda_arrangement {
  cuda_group_t groups[NUM_GROUPS];
  cuda_view_t a, b, out;
  bool fits_a, fits_b, fits_out;
  int64_t cost; /* elements that are copied */
} cuda_arrangement_t;

static void evaluate(const cuda_product_of_t *p, cuda_arrangement_t *r) {
  const cuda_group_t *g = r->groups;
  const int64_t batch = g[BATCH].count, m = g[ROWS].count, n = g[COLUMNS].count, k = g[SUMMED].count;
  r->fits_a = view(&p->a, &g[BATCH], &g[ROWS], &g[SUMMED], &r->a);
  r->fits_b = view(&p->b, &g[BATCH], &g[SUMMED], &g[COLUMNS], &r->b);
  r->fits_out = view(&p->out, &g[BATCH], &g[ROWS], &g[COLUMNS], &r->out);
  r->cost =
      (r->fits_a ? 0 : batch * m * k) + (r->fits_b ? 0 : batch * k * n) + (r->fits_out ? 0 : batch * m * n);
}

/* Tries each group in the orders that its tensors have it, until nothing is copied. */
static void arrange(const cuda_product_of_t *p, cuda_arrangement_t *best) {
  enum { ORDERS = 3 * 2 * 2 * 2 };
  const cuda_labelled_t *const of_batch[] = {&p->out, &p->a, &p->b}, *const of_rows[] = {&p->out, &p->a},
                               *const of_columns[] = {&p->out, &p->b}, *const of_summed[] = {&p->a, &p->b};
  bool is_first = true;
  for (int i = 0; i < 2 * ORDERS && (is_first || best->cost > 0); i++) {
    const bool repeats = i >= ORDERS;
    const int by[NUM_GROUPS] = {i % 3, i / 3 % 2, i / 6 % 2, i / 12 % 2};
    cuda_arrangement_t r;
    if (repeats && by[BATCH] != 0) continue; /* only the output has all of its labels */
    r.groups[BATCH] = group(p, BATCH, repeats, of_batch[by[BATCH]]);
    r.groups[ROWS] = group(p, ROWS, repeats, of_rows[by[ROWS]]);
    r.groups[COLUMNS] = group(p, COLUMNS, repeats, of_columns[by[COLUMNS]]);
    r.groups[SUMMED] = group(p, SUMMED, repeats, of_summed[by[SUMMED]]);
    evaluate(p, &r);
    if (is_first || r.cost < best->cost) *best = r;
    is_first = false;
  }
}

/* Dense memory for [batch, rows, columns]; with `from` it is filled. */
static WEFT_Failure *make_matrices(WEFT_KernelContext *c, int dtype, const cuda_labelled_t *from,
                                   const cuda_group_t *batch, const cuda_group_t *rows,
                                   const cuda_group_t *columns, cuda_view_t *v, cuda_labelled_t *out) {
  const cuda_group_t *const groups[] = {batch, rows, columns};
  *out = (cuda_labelled_t){.n = 0};
  for (int g = 0; g < 3; g++) {
    for (int i = 0; i < groups[g]->n; i++) {
      out->labels[out->n] = groups[g]->labels[i];
      out->dims[out->n++] = groups[g]->dims[i];
    }
  }
  weft_cuda_dense_steps(out->n, out->dims, out->steps);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)count_of(out) * weft_cuda_size(dtype), &out->data));
  *v = (cuda_view_t){out->data, false, columns->count, rows->count * columns->count};
  return from == NULL ? NULL : deliver(c, dtype, from, out);
}

static WEFT_Failure *multiply(WEFT_KernelContext *c, int dtype, const cuda_arrangement_t *r) {
  const bool swap = r->out.transposed; /* then the output's transpose is b's times a's */
  const cuda_group_t *g = r->groups;
  const cuda_view_t *a = swap ? &r->b : &r->a, *b = swap ? &r->a : &r->b;
  const weft_cuda_product_t p = {.dtype = dtype,
                                 .m = g[swap ? COLUMNS : ROWS].count,
                                 .n = g[swap ? ROWS : COLUMNS].count,
                                 .k = g[SUMMED].count,
                                 .transpose_a = a->transposed != swap,
                                 .transpose_b = b->transposed != swap,
                                 .batch = g[BATCH].count,
                                 .same_a = a->matrix == 0,
                                 .same_b = b->matrix == 0,
                                 .a_row = a->row,
                                 .b_row = b->row,
                                 .out_row = r->out.row,
                                 .a_step = a->matrix,
                                 .b_step = b->matrix,
                                 .out_step = r->out.matrix};
  return weft_cuda_multiply(c, &p, a->data, b->data, r->out.data);
}

/* Nothing is summed: each element of the output is one product. */
static WEFT_Failure *multiply_elements(WEFT_KernelContext *c, cuda_product_of_t *p) {
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, p->out.n, p->out.dims);
  for (int d = 0; d < p->out.n; d++) {
    w.steps[0][d] = step_along(&p->a, p->out.labels[d]);
    w.steps[1][d] = step_along(&p->b, p->out.labels[d]);
  }
  if (!p->out.has_diagonal)
    return weft_cuda_multiply_elements(c, p->dtype, p->a.data, p->b.data, p->out.data, &w);
  cuda_labelled_t dense = p->out;
  weft_cuda_dense_steps(dense.n, dense.dims, dense.steps);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)w.n * weft_cuda_size(p->dtype), &dense.data));
  WEFT_CUDA_TRY(weft_cuda_multiply_elements(c, p->dtype, p->a.data, p->b.data, dense.data, &w));
  return deliver(c, p->dtype, &dense, &p->out);
}

static WEFT_Failure *multiply_two(WEFT_KernelContext *c, cuda_product_of_t *p) {
  cuda_arrangement_t r;
  cuda_labelled_t made, result;
  bool is_result = false;
  WEFT_CUDA_TRY(sum_alone(c, p->dtype, &p->a, &p->b, &p->out, &is_result));
  WEFT_CUDA_TRY(sum_alone(c, p->dtype, &p->b, &p->a, &p->out, &is_result));
  arrange(p, &r);
  const cuda_group_t *g = r.groups;
  if (g[SUMMED].count == 1) return multiply_elements(c, p);
  if (!r.fits_a)
    WEFT_CUDA_TRY(make_matrices(c, p->dtype, &p->a, &g[BATCH], &g[ROWS], &g[SUMMED], &r.a, &made));
  if (!r.fits_b)
    WEFT_CUDA_TRY(make_matrices(c, p->dtype, &p->b, &g[BATCH], &g[SUMMED], &g[COLUMNS], &r.b, &made));
  if (r.fits_out) return multiply(c, p->dtype, &r);
  WEFT_CUDA_TRY(make_matrices(c, p->dtype, NULL, &g[BATCH], &g[ROWS], &g[COLUMNS], &r.out, &result));
  WEFT_CUDA_TRY(multiply(c, p->dtype, &r));
  return deliver(c, p->dtype, &result, &p->out);
}

/* ---- the row ---- */

static weft_status_t *parse(WEFT_KernelContext *c, const WEFT_TensorView *x, int n, weft_einsum_t *e,
                            int64_t *dims) {
  const cuda_equation_t *equation = weft_cuda_host->state(c);
  int ranks[WEFT_EINSUM_OPERANDS];
  weft_shape_t shapes[WEFT_EINSUM_OPERANDS];
  const weft_shape_t *list[WEFT_EINSUM_OPERANDS];
  for (int i = 0; i < n; i++) {
    ranks[i] = x[i].rank;
    list[i] = &shapes[i];
    shapes[i] = (weft_shape_t){.rank = x[i].rank};
    for (int d = 0; d < x[i].rank; d++) shapes[i].dims[d] = x[i].dims[d];
  }
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(weft_str_of(equation->text, equation->length), ranks, n, e));
  return weft_einsum_dims(e, list, dims);
}

/* The same elements in the same order. */
static bool is_renamed(const cuda_labelled_t *x, const cuda_labelled_t *y) {
  return is_same_order(x, y) && !x->has_diagonal && !y->has_diagonal;
}

static WEFT_Failure *compute(WEFT_KernelContext *c) {
  WEFT_TensorView x[WEFT_EINSUM_OPERANDS], y;
  weft_einsum_t e;
  int64_t by_label[WEFT_EINSUM_LABELS], dims[WEFT_CUDA_DIMS];
  bool is_empty = false;
  const int n = weft_cuda_host->num_inputs(c);
  if (n > WEFT_EINSUM_OPERANDS) return WEFT_CUDA_INVALID("Einsum takes one or two operands, got %d", n);
  for (int i = 0; i < n; i++) weft_cuda_host->input(c, i, &x[i]);
  WEFT_CUDA_TRY(failure_of(parse(c, x, n, &e, by_label)));
  for (int d = 0; d < e.out.n; d++) dims[d] = by_label[e.out.labels[d]];
  for (int l = 0; l < WEFT_EINSUM_LABELS; l++) is_empty = is_empty || by_label[l] == 0;
  cuda_product_of_t p = {.e = &e, .dtype = x[0].dtype, .a = labelled(&e.in[0], x[0].dims, x[0].data)};
  p.out = labelled(&e.out, dims, NULL);
  if (n == 1 && !is_empty && is_renamed(&p.a, &p.out))
    return weft_cuda_host->output_is_input(c, 0, 0, e.out.n, dims);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, e.out.n, dims, &y));
  if (y.count == 0) return NULL;
  p.out.data = y.data;
  if (is_empty || p.out.has_diagonal) WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes));
  if (is_empty) return NULL;
  if (n == 1) return move_one(c, p.dtype, &p.a, &p.out);
  p.b = labelled(&e.in[1], x[1].dims, x[1].data);
  return multiply_two(c, &p);
}

const WEFT_DeviceKernel weft_cuda_einsum_kernels[] = {
    {.op = "Einsum",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .prepare = prepare,
     .compute = compute,
     .destroy = free},
    {0},
};
