/* kernels/cpu/math/einsum.c - Einsum of one or two operands, as products of matrices.
 *
 * Labels are of four kinds: those in both operands and the output (a batch of products), those in one operand
 * and the output (rows of one matrix, columns of the other), and those that are not in the output (summed
 * over). Each operand is copied to [batch, rows, summed] or [batch, summed, columns]: what it lacks is
 * repeated, a label that it has twice is its diagonal. One operand alone is multiplied by ones.
 */
#include "ops/einsum.h"

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/move.h"
#include "kernels/cpu/math/gemm.h"

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

static weft_status_t *plan(weft_kernel_ctx_t *ctx, const node_t *node, einsum_work_t *w) {
  const weft_shape_t *shapes[WEFT_EINSUM_OPERANDS];
  int ranks[WEFT_EINSUM_OPERANDS], n = node->num_inputs;
  if (n > WEFT_EINSUM_OPERANDS)
    return WEFT_ERROR(INVALID_ARGUMENT, "Einsum takes one or two operands, got %d", n);
  for (int i = 0; i < n; i++) {
    shapes[i] = &weft_in(ctx, i)->shape;
    ranks[i] = shapes[i]->rank;
  }
  WEFT_RETURN_IF_ERROR(weft_einsum_parse(node->equation, ranks, n, &w->e));
  WEFT_RETURN_IF_ERROR(weft_einsum_dims(&w->e, shapes, w->dims));
  w->batch.count = w->rows.count = w->columns.count = w->summed.count = 1;
  for (int l = 0; l < WEFT_EINSUM_LABELS; l++) {
    bool in_a = weft_einsum_has(&w->e.in[0], l), in_b = n == 2 && weft_einsum_has(&w->e.in[1], l),
         in_out = weft_einsum_has(&w->e.out, l);
    if (in_a && in_b && in_out) append(&w->batch, l, w->dims[l]);
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

/* `x` (operand k) to the axes of the three groups, in that order. */
static weft_status_t *arrange(weft_kernel_ctx_t *ctx, const einsum_work_t *w, int k,
                              const axes_t *const groups[3], weft_tensor_t **out) {
  const weft_tensor_t *x = weft_in(ctx, k);
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
  WEFT_RETURN_IF_ERROR(weft_tensor_new(x->dtype, &shape, NULL, out));
  m.rank = shape.rank;
  memcpy(m.dims, shape.dims, sizeof m.dims);
  weft_strides_of(&shape, m.to_strides);
  return weft_move_run(&m, ctx->device->pool, x, *out);
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

/* [batch, rows, columns] to the labels of the output. */
static weft_status_t *deliver(weft_kernel_ctx_t *ctx, const einsum_work_t *w, const weft_tensor_t *product) {
  weft_shape_t shape = {.rank = w->e.out.n};
  weft_tensor_t *y = NULL;
  int64_t strides[WEFT_MAX_DIMS];
  weft_move_t m = {0};
  bool is_diagonal = false;
  const axes_t *const groups[3] = {&w->batch, &w->rows, &w->columns};
  for (int i = 0; i < shape.rank; i++) {
    shape.dims[i] = w->dims[w->e.out.labels[i]];
    for (int j = 0; j < i; j++) is_diagonal = is_diagonal || w->e.out.labels[j] == w->e.out.labels[i];
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, product->dtype, &shape, &y));
  if (is_diagonal) weft_cpu_zero(y);
  weft_strides_of(&shape, strides);
  weft_shape_t from = {0};
  for (int g = 0; g < 3; g++) {
    for (int i = 0; i < groups[g]->n; i++) {
      m.to_strides[from.rank] = stride_of(w, &w->e.out, &shape, strides, groups[g]->labels[i]);
      from.dims[from.rank++] = w->dims[groups[g]->labels[i]];
    }
  }
  m.rank = from.rank;
  memcpy(m.dims, from.dims, sizeof m.dims);
  weft_strides_of(&from, m.from_strides);
  return weft_move_run(&m, ctx->device->pool, product, y);
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

static weft_status_t *einsum_compute(weft_kernel_ctx_t *ctx) {
  const node_t *node = ctx->state;
  einsum_work_t w = {0};
  weft_tensor_t *a = NULL, *b = NULL, *product = NULL;
  weft_status_t *s = plan(ctx, node, &w);
  if (s != NULL) return s;
  weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  const int64_t m = w.rows.count, n = w.columns.count, k = w.summed.count;
  const weft_shape_t shape = {.rank = 3, .dims = {w.batch.count, m, n}};
  s = arrange(ctx, &w, 0, (const axes_t *const[3]){&w.batch, &w.rows, &w.summed}, &a);
  if (s == NULL && node->num_inputs == 2)
    s = arrange(ctx, &w, 1, (const axes_t *const[3]){&w.batch, &w.summed, &w.columns}, &b);
  if (s == NULL && node->num_inputs == 1) s = ones(dtype, k, &b);
  if (s == NULL) s = weft_tensor_new(dtype, &shape, NULL, &product);
  size_t size = weft_dtype_size(dtype);
  for (int64_t i = 0; i < w.batch.count && s == NULL; i++) {
    const char *at_b = (const char *)b->data + (node->num_inputs == 2 ? (size_t)(i * k * n) * size : 0);
    s = weft_gemm(ctx->device->pool, dtype, WEFT_GEMM_PLAIN, WEFT_GEMM_PLAIN, m, n, k,
                  (const char *)a->data + (size_t)(i * m * k) * size, k, at_b, n,
                  (char *)product->data + (size_t)(i * m * n) * size, n, false);
  }
  if (s == NULL) s = deliver(ctx, &w, product);
  weft_tensor_release(a);
  weft_tensor_release(b);
  weft_tensor_release(product);
  return s;
}

static void einsum_destroy(void *state) { weft_free(state); }

const weft_kernel_t weft_cpu_einsum_kernels[] = {
    WEFT_KERNEL("Einsum", "T", WEFT_SET_NUMBERS, einsum_prepare, einsum_compute, einsum_destroy),
    {0},
};
