/* kernels/cpu/math/einsum.c - Einsum of one or two operands, as products of matrices.
 *
 * Labels are of four kinds: those in both operands and the output (a batch of products), those in one operand
 * and the output (rows of one matrix, columns of the other), and those that are not in the output (summed
 * over). An operand, or the output, is used where it is if the labels of each kind step through it as one
 * dimension, and one of the two of a matrix is contiguous. Otherwise it is copied to [batch, rows, summed] or
 * [batch, summed, columns]: what it lacks is repeated, a label that it has twice is its diagonal. One operand
 * alone is moved if nothing is summed over, and else multiplied by ones.
 */
#include "kernels/cpu/math/einsum.h"

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/move.h"
#include "ops/einsum.h"

typedef struct axes { /* labels in order */
  int n;
  int labels[WEFT_EINSUM_LABELS];
  int64_t count;
} axes_t;

typedef struct einsum_work {
  weft_einsum_t e;
  int64_t dims[WEFT_EINSUM_LABELS]; /* by label; 1 if no operand has more */
  axes_t batch, rows, columns, summed;
} einsum_work_t;

static void append(axes_t *a, int label, int64_t dim) {
  a->labels[a->n++] = label;
  a->count *= dim;
}

/* What a node has. */
typedef struct node {
  int num_inputs;
  weft_str_t equation; /* behind this struct */
} node_t;

static weft_status_t *plan(weft_str_t equation, const weft_shape_t *const *shapes, int n, einsum_work_t *w) {
  int ranks[WEFT_EINSUM_OPERANDS];
  for (int i = 0; i < n; i++) ranks[i] = shapes[i]->rank;
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(equation, ranks, n, &w->e));
  WEFT_RETURN_IF_ERROR(weft_einsum_dims(&w->e, shapes, w->dims));
  w->batch.count = w->rows.count = w->columns.count = w->summed.count = 1;
  for (int i = 0; n == 2 && i < w->e.out.n; i++) {
    const int l = w->e.out.labels[i];
    bool is_new = weft_einsum_has(&w->e.in[0], l) && weft_einsum_has(&w->e.in[1], l);
    for (int k = 0; k < i; k++) is_new = is_new && w->e.out.labels[k] != l;
    if (is_new) append(&w->batch, l, w->dims[l]);
  }
  for (int l = 0; l < WEFT_EINSUM_LABELS; l++) {
    bool in_a = weft_einsum_has(&w->e.in[0], l), in_b = n == 2 && weft_einsum_has(&w->e.in[1], l),
         in_out = weft_einsum_has(&w->e.out, l);
    if (in_a && !in_b && in_out) append(&w->rows, l, w->dims[l]);
    if (!in_a && in_b && in_out) append(&w->columns, l, w->dims[l]);
    if ((in_a || in_b) && !in_out) append(&w->summed, l, w->dims[l]);
  }
  return NULL;
}

/* Elements from one step along a label to the next; a label that occurs twice goes along both dimensions, one
 * of length 1 that broadcasts stays. */
static int64_t stride_of(const einsum_work_t *w, const weft_einsum_term_t *t, const weft_shape_t *shape,
                         const int64_t *strides, int label) {
  int64_t stride = 0;
  for (int i = 0; i < t->n; i++) {
    if (t->labels[i] == label && (shape->dims[i] != 1 || w->dims[label] == 1)) stride += strides[i];
  }
  return stride;
}

/* A matrix for each index of the batch, as weft_gemm takes them. */
typedef struct matrices {
  weft_tensor_t *t;
  bool is_turned; /* stored columns by rows */
  int64_t ld;
  int64_t batch_steps[WEFT_EINSUM_LABELS]; /* elements, for each label of the batch */
} matrices_t;

/* Do the labels step through a tensor as one dimension would? *out is that dimension's stride. A stride of 0
 * repeats. */
static bool merge_axes(const einsum_work_t *w, const weft_einsum_term_t *term, const weft_shape_t *shape,
                       const int64_t *strides, const axes_t *axes, int64_t *out) {
  int64_t next = 0;
  bool is_first = true;
  *out = 0;
  for (int i = axes->n - 1; i >= 0; i--) {
    const int label = axes->labels[i];
    const int64_t stride = stride_of(w, term, shape, strides, label);
    if (w->dims[label] == 1) continue;
    if (is_first) {
      *out = stride;
    } else if (stride != next) {
      return false;
    }
    is_first = false;
    if (__builtin_mul_overflow(stride, w->dims[label], &next)) return false;
  }
  return true;
}

/* Sees a tensor as matrices of `rows` by `columns` where it is. False if it is not laid out so. */
static bool view(const einsum_work_t *w, const weft_einsum_term_t *term, const weft_shape_t *shape,
                 const axes_t *rows, const axes_t *columns, matrices_t *out) {
  int64_t strides[WEFT_MAX_DIMS], row = 0, column = 0;
  weft_strides_of(shape, strides);
  if (!merge_axes(w, term, shape, strides, rows, &row) ||
      !merge_axes(w, term, shape, strides, columns, &column)) {
    return false;
  }
  const int64_t m = rows->count, n = columns->count;
  if (m == 0 || n == 0) return false;
  if (n == 1) column = 1;
  if (m == 1) row = column == 1 ? n : 1;
  if (column == 1 && row >= n) {
    out->is_turned = false;
    out->ld = row;
  } else if (row == 1 && column >= m) {
    out->is_turned = true;
    out->ld = column;
  } else {
    return false;
  }
  if (out->ld > INT32_MAX) return false; /* more than a product of matrices takes */
  for (int i = 0; i < w->batch.n; i++) {
    out->batch_steps[i] = stride_of(w, term, shape, strides, w->batch.labels[i]);
  }
  return true;
}

/* Row-major matrices, one behind the other in the order of the batch. */
static void lay_out(const einsum_work_t *w, int64_t rows, int64_t columns, matrices_t *out) {
  uint64_t step = (uint64_t)rows * (uint64_t)columns; /* wraps only where there are no elements */
  out->is_turned = false;
  out->ld = columns;
  for (int i = w->batch.n - 1; i >= 0; i--) {
    out->batch_steps[i] = (int64_t)step;
    step *= (uint64_t)w->dims[w->batch.labels[i]];
  }
}

/* Operand k as matrices of `rows` by `columns`, copied if it must be. The caller releases out->t. */
static weft_status_t *arrange(weft_kernel_ctx_t *ctx, const einsum_work_t *w, int k, const axes_t *rows,
                              const axes_t *columns, matrices_t *out) {
  weft_tensor_t *x = weft_in(ctx, k);
  if (view(w, &w->e.in[k], &x->shape, rows, columns, out)) {
    out->t = weft_tensor_retain(x);
    return NULL;
  }
  const axes_t *const groups[3] = {&w->batch, rows, columns};
  int64_t strides[WEFT_MAX_DIMS];
  weft_move_t m = {0};
  weft_shape_t shape = {0};
  weft_strides_of(&x->shape, strides);
  for (int g = 0; g < 3; g++) {
    for (int i = 0; i < groups[g]->n; i++) {
      int label = groups[g]->labels[i];
      if (shape.rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "Einsum has too many labels");
      m.from_strides[shape.rank] = stride_of(w, &w->e.in[k], &x->shape, strides, label);
      shape.dims[shape.rank++] = w->dims[label];
    }
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(x->dtype, &shape, NULL, &out->t));
  lay_out(w, rows->count, columns->count, out);
  m.rank = shape.rank;
  memcpy(m.dims, shape.dims, sizeof m.dims);
  weft_strides_of(&shape, m.to_strides);
  return weft_move_run(&m, ctx->device->pool, x, out->t);
}

static weft_status_t *ones(weft_dtype_t dtype, int64_t n, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(n);
  const double one = 1;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, NULL, out));
  for (int64_t i = 0; i < n; i++) {
    weft_cpu_cast_loop(WEFT_F64, dtype)(1, &one, (char *)(*out)->data + (size_t)i * weft_dtype_size(dtype));
  }
  return NULL;
}

/* Has the output a label twice? */
static bool has_diagonal(const weft_einsum_term_t *out) {
  bool has_one = false;
  for (int i = 0; i < out->n; i++) {
    for (int j = 0; j < i; j++) has_one = has_one || out->labels[j] == out->labels[i];
  }
  return has_one;
}

/* The output. A label that it has twice is its diagonal, beside which it is zero. */
static weft_status_t *make_output(weft_kernel_ctx_t *ctx, const einsum_work_t *w, bool *out_diagonal,
                                  weft_tensor_t **out) {
  weft_shape_t shape = {.rank = w->e.out.n};
  const bool is_diagonal = has_diagonal(&w->e.out);
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = w->dims[w->e.out.labels[i]];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_in(ctx, 0)->dtype, &shape, out));
  if (is_diagonal) weft_cpu_zero(*out);
  *out_diagonal = is_diagonal;
  return NULL;
}

/* `from`, which has the labels of `term` (NULL: those of `groups`, in that order), to the output. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, const einsum_work_t *w, const axes_t *const groups[3],
                              const weft_einsum_term_t *term, const weft_tensor_t *from, weft_tensor_t *y) {
  int64_t to_strides[WEFT_MAX_DIMS], from_strides[WEFT_MAX_DIMS];
  weft_move_t m = {0};
  weft_strides_of(&y->shape, to_strides);
  weft_strides_of(&from->shape, from_strides);
  for (int g = 0; g < 3; g++) {
    for (int i = 0; i < groups[g]->n; i++) {
      const int label = groups[g]->labels[i];
      m.to_strides[m.rank] = stride_of(w, &w->e.out, &y->shape, to_strides, label);
      if (term != NULL) m.from_strides[m.rank] = stride_of(w, term, &from->shape, from_strides, label);
      m.dims[m.rank++] = w->dims[label];
    }
  }
  if (term == NULL) { /* dense, in the order of the groups */
    weft_shape_t dense = {.rank = m.rank};
    memcpy(dense.dims, m.dims, sizeof dense.dims);
    weft_strides_of(&dense, m.from_strides);
  }
  return weft_move_run(&m, ctx->device->pool, from, y);
}

static weft_status_t *einsum_prepare(const weft_kernel_setup_t *setup, void **out) {
  weft_str_t equation = weft_knode_string(setup, "equation");
  node_t *node = weft_calloc(1, sizeof *node + equation.length + 1);
  if (node == NULL) return WEFT_NO_MEMORY("an equation");
  memcpy(node + 1, equation.data, equation.length);
  *node = (node_t){setup->node.num_inputs, weft_str_of((const char *)(node + 1), equation.length)};
  *out = node;
  return NULL;
}

/* c = a . b for each index of the batch; true: as the transposed product, b' . a'. */
static bool product_of(const einsum_work_t *w, const matrices_t *a, const matrices_t *b, const matrices_t *c,
                       weft_batch_product_t *out) {
  const weft_gemm_op_t ops[2] = {WEFT_GEMM_PLAIN, WEFT_GEMM_TRANSPOSED};
  const bool turns = c->is_turned;
  const matrices_t *of[3] = {turns ? b : a, turns ? a : b, c};
  *out = (weft_batch_product_t){.op_a = ops[of[0]->is_turned != turns],
                                .op_b = ops[of[1]->is_turned != turns],
                                .m = turns ? w->columns.count : w->rows.count,
                                .n = turns ? w->rows.count : w->columns.count,
                                .k = w->summed.count,
                                .lda = of[0]->ld,
                                .ldb = of[1]->ld,
                                .ldc = c->ld,
                                .count = w->batch.count,
                                .rank = w->batch.n};
  for (int d = 0; d < w->batch.n; d++) {
    out->dims[d] = w->dims[w->batch.labels[d]];
    for (int k = 0; k < 3; k++) out->steps[k][d] = of[k]->batch_steps[d];
  }
  return turns;
}

static weft_status_t *multiply(weft_kernel_ctx_t *ctx, const einsum_work_t *w, const matrices_t *a,
                               const matrices_t *b, const matrices_t *c) {
  weft_batch_product_t p;
  const bool turns = product_of(w, a, b, c, &p);
  return weft_batch_product_run(&p, ctx->device->pool, a->t->dtype, (turns ? b : a)->t->data,
                                (turns ? a : b)->t->data, c->t->data);
}

weft_status_t *weft_einsum_product(weft_str_t equation, const weft_shape_t *const shapes[2],
                                   weft_batch_product_t *out, int *out_a, bool *out_is_one) {
  einsum_work_t w = {0};
  matrices_t a = {.t = NULL}, b = {.t = NULL}, c = {.t = NULL};
  *out_is_one = false;
  WEFT_RETURN_IF_ERROR(plan(equation, shapes, 2, &w));
  weft_shape_t shape = {.rank = w.e.out.n};
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = w.dims[w.e.out.labels[i]];
  if (has_diagonal(&w.e.out) || !view(&w, &w.e.in[0], shapes[0], &w.rows, &w.summed, &a) ||
      !view(&w, &w.e.in[1], shapes[1], &w.summed, &w.columns, &b) ||
      !view(&w, &w.e.out, &shape, &w.rows, &w.columns, &c))
    return NULL;
  *out_a = product_of(&w, &a, &b, &c, out) ? 1 : 0;
  out->shape = shape;
  *out_is_one = true;
  return NULL;
}

/* With the operands and y there: the products, into y or beside it. */
static weft_status_t *compute_products(weft_kernel_ctx_t *ctx, const einsum_work_t *w, const matrices_t *a,
                                       const matrices_t *b, weft_tensor_t *y, bool is_diagonal) {
  matrices_t c = {.t = y};
  if (!is_diagonal && view(w, &w->e.out, &y->shape, &w->rows, &w->columns, &c))
    return multiply(ctx, w, a, b, &c);
  const weft_shape_t shape = {.rank = 3, .dims = {w->batch.count, w->rows.count, w->columns.count}};
  c.t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(y->dtype, &shape, NULL, &c.t));
  lay_out(w, w->rows.count, w->columns.count, &c);
  weft_status_t *s = multiply(ctx, w, a, b, &c);
  const axes_t *const groups[3] = {&w->batch, &w->rows, &w->columns};
  if (s == NULL) s = deliver(ctx, w, groups, NULL, c.t, y);
  weft_tensor_release(c.t);
  return s;
}

static weft_status_t *einsum_compute(weft_kernel_ctx_t *ctx) {
  const node_t *node = ctx->state;
  einsum_work_t w = {0};
  weft_tensor_t *y = NULL;
  bool is_diagonal = false;
  const int n = node->num_inputs;
  const weft_shape_t *shapes[WEFT_EINSUM_OPERANDS];
  if (n > WEFT_EINSUM_OPERANDS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Einsum takes one or two operands, got %d", n);
  for (int i = 0; i < n; i++) shapes[i] = &weft_in(ctx, i)->shape;
  WEFT_RETURN_IF_ERROR(plan(node->equation, shapes, n, &w));
  WEFT_RETURN_IF_ERROR(make_output(ctx, &w, &is_diagonal, &y));
  if (node->num_inputs == 1 && w.summed.count == 1) {
    const axes_t *const groups[3] = {&w.batch, &w.rows, &w.columns};
    return deliver(ctx, &w, groups, &w.e.in[0], weft_in(ctx, 0), y);
  }
  matrices_t a = {.t = NULL}, b = {.t = NULL};
  weft_status_t *s = arrange(ctx, &w, 0, &w.rows, &w.summed, &a);
  if (s == NULL && node->num_inputs == 2) s = arrange(ctx, &w, 1, &w.summed, &w.columns, &b);
  if (s == NULL && node->num_inputs == 1) {
    s = ones(weft_in(ctx, 0)->dtype, w.summed.count, &b.t);
    b.ld = 1;
  }
  if (s == NULL) s = compute_products(ctx, &w, &a, &b, y, is_diagonal);
  weft_tensor_release(a.t);
  weft_tensor_release(b.t);
  return s;
}

static void einsum_destroy(void *state) { weft_free(state); }

const weft_kernel_t weft_cpu_einsum_kernels[] = {
    WEFT_KERNEL("Einsum", "T", WEFT_SET_NUMBERS, einsum_prepare, einsum_compute, einsum_destroy),
    {0},
};
