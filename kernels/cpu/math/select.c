/* kernels/cpu/math/select.c - choosing between two tensors: Select, SelectV2, ClipByValue; and AddN,
 * AccumulateNV2. */
#include "kernels/cpu/math/select.h"

#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/math/sum.h"
#include "tensor/update.h"

typedef struct select_job {
  const weft_tensor_t *cond, *t, *e;
  weft_tensor_t *out;
  weft_status_t *_Atomic status;
} select_job_t;

/* n elements, of which each operand steps or repeats its first one. The steps are constants where it is
 * called, so that each loop is one of vectors. */
#define CHOOSE_LOOP(type)                                                                                  \
  static inline void choose_##type(int64_t n, const uint8_t *c, int cs, const type *t, int ts,             \
                                   const type *e, int es, type *out) {                                     \
    WEFT_IVDEP                                                                                             \
    for (int64_t i = 0; i < n; i++) out[i] = c[i * cs] != 0 ? t[i * ts] : e[i * es];                       \
  }                                                                                                        \
  static void choose_any_##type(int64_t n, const uint8_t *c, int cs, const void *t, int ts, const void *e, \
                                int es, void *out) {                                                       \
    if (cs == 0) {                                                                                         \
      const bool first = *c != 0;                                                                          \
      if (first && ts == 1) choose_##type(n, c, 0, t, 1, t, 1, out);                                       \
      if (first && ts == 0) choose_##type(n, c, 0, t, 0, t, 0, out);                                       \
      if (!first && es == 1) choose_##type(n, c, 0, e, 1, e, 1, out);                                      \
      if (!first && es == 0) choose_##type(n, c, 0, e, 0, e, 0, out);                                      \
    } else if (ts == 1) {                                                                                  \
      es == 1 ? choose_##type(n, c, 1, t, 1, e, 1, out) : choose_##type(n, c, 1, t, 1, e, 0, out);         \
    } else {                                                                                               \
      es == 1 ? choose_##type(n, c, 1, t, 0, e, 1, out) : choose_##type(n, c, 1, t, 0, e, 0, out);         \
    }                                                                                                      \
  }
CHOOSE_LOOP(uint8_t)
CHOOSE_LOOP(uint16_t)
CHOOSE_LOOP(uint32_t)
CHOOSE_LOOP(uint64_t)
CHOOSE_LOOP(weft_c128_t)

weft_choose_fn *weft_choose_of(size_t size) {
  switch (size) {
    case 1: return choose_any_uint8_t;
    case 2: return choose_any_uint16_t;
    case 4: return choose_any_uint32_t;
    case 8: return choose_any_uint64_t;
    default: return choose_any_weft_c128_t;
  }
}

static void select_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  select_job_t *j = arg;
  const uint8_t *c = j->cond->data;
  if (weft_dtype_is_plain(j->t->dtype)) {
    const size_t size = weft_dtype_size(j->t->dtype);
    weft_choose_of(size)(n, c + at[0], step[0], (const char *)j->t->data + (size_t)at[1] * size, step[1],
                         (const char *)j->e->data + (size_t)at[2] * size, step[2],
                         (char *)j->out->data + (size_t)out_at * size);
    return;
  }
  for (int64_t i = 0; i < n && atomic_load(&j->status) == NULL; i++) {
    bool first = c[at[0] + i * step[0]] != 0;
    weft_status_t *none = NULL, *s = first ? weft_cpu_copy(j->out, out_at + i, j->t, at[1] + i * step[1], 1)
                                           : weft_cpu_copy(j->out, out_at + i, j->e, at[2] + i * step[2], 1);
    if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
  }
}

static weft_status_t *select_walk(weft_kernel_ctx_t *ctx, const weft_broadcast_t *b) {
  select_job_t j = {.cond = weft_in(ctx, 0), .t = weft_in(ctx, 1), .e = weft_in(ctx, 2)};
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, j.t->dtype, &b->shape, &j.out));
  weft_broadcast_run_cost(b, ctx->device->pool, weft_cpu_element(1 + 3 * weft_dtype_size(j.t->dtype), false),
                          select_run, &j);
  return atomic_load(&j.status);
}

weft_status_t *weft_choose_mismatch(const weft_shape_t *c, const weft_shape_t *t, const weft_shape_t *e) {
  return WEFT_ERROR(INVALID_ARGUMENT, "condition %s, then %s, and else %s must be broadcastable",
                    WEFT_SHAPE_TEXT(c), WEFT_SHAPE_TEXT(t), WEFT_SHAPE_TEXT(e));
}

static weft_status_t *select_v2_compute(weft_kernel_ctx_t *ctx) {
  weft_broadcast_t b;
  const weft_shape_t *shapes[3] = {&weft_in(ctx, 0)->shape, &weft_in(ctx, 1)->shape, &weft_in(ctx, 2)->shape};
  if (!weft_broadcast_init(&b, shapes, 3)) return weft_choose_mismatch(shapes[0], shapes[1], shapes[2]);
  return select_walk(ctx, &b);
}

/* The older rule: the condition is a scalar, or picks rows, or has the operands' shape. */
static weft_status_t *select_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *cond = weft_in(ctx, 0), *t = weft_in(ctx, 1), *e = weft_in(ctx, 2);
  if (cond->shape.rank == 0) {
    if (!weft_shape_eq(&t->shape, &e->shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "'then' and 'else' must have the same size.  but received: %s vs. %s",
                        WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(&e->shape));
    }
    weft_cpu_out_same(ctx, *(const uint8_t *)cond->data != 0 ? 1 : 2, 0);
    return NULL;
  }
  weft_shape_t spread = cond->shape;
  bool by_row = cond->shape.rank == 1 && t->shape.rank != 1;
  if (by_row) {
    if (t->shape.rank < 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'then' must be at least a vector, but saw shape: %s",
                        WEFT_SHAPE_TEXT(&t->shape));
    }
    if (t->shape.dims[0] != cond->shape.dims[0]) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Number of batches of 'then' must match size of 'cond', but saw: %lld vs. %lld",
                        (long long)t->shape.dims[0], (long long)cond->shape.dims[0]);
    }
    spread.rank = t->shape.rank;
    for (int d = 1; d < spread.rank; d++) spread.dims[d] = 1;
  }
  for (int i = 1; i < 3 && !by_row; i++) {
    const weft_shape_t *other = &weft_in(ctx, i)->shape;
    if (!weft_shape_eq(&cond->shape, other)) return weft_shapes_mismatch(ctx->node, &cond->shape, i, other);
  }
  if (!weft_shape_eq(&t->shape, &e->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "'then' and 'else' must have the same size.  but received: %s vs. %s",
                      WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(&e->shape));
  }
  weft_broadcast_t b;
  const weft_shape_t *shapes[3] = {&spread, &t->shape, &e->shape};
  if (!weft_broadcast_init(&b, shapes, 3)) return WEFT_ERROR(INTERNAL, "Select: shapes");
  return select_walk(ctx, &b);
}

/* ---- ClipByValue: max with the lower bound, then min with the upper ---- */

/* Elements that stay in the first-level cache between the bounds. */
enum { CLIP_BLOCK = 2048 };

typedef struct clip_job {
  const weft_tensor_t *low, *high;
  weft_tensor_t *y; /* its memory may be x's */
  const char *from;
  weft_update_fn *min, *max; /* of elements, or of the parts of complex numbers */
  size_t size;
} clip_job_t;

/* Each of y's elements is `how` of itself and that of `limit`, which may be a scalar; of complex numbers the
 * real and the imaginary parts are, each by itself. */
static void bound(const clip_job_t *j, weft_update_fn *how, const weft_tensor_t *limit, int64_t begin,
                  int64_t n) {
  const bool is_scalar = limit->shape.rank == 0;
  char *y = (char *)j->y->data + (size_t)begin * j->size;
  const char *by = (const char *)limit->data + (is_scalar ? 0 : (size_t)begin * j->size);
  if (!weft_dtype_is_complex(j->y->dtype)) {
    how(y, by, n, is_scalar);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    how(y + (size_t)i * j->size, by + (is_scalar ? 0 : (size_t)i * j->size), 2, false);
  }
}

static void clip_range(void *arg, int64_t begin, int64_t end) {
  const clip_job_t *j = arg;
  for (int64_t at = begin; at < end; at += CLIP_BLOCK) {
    const int64_t n = end - at < CLIP_BLOCK ? end - at : CLIP_BLOCK;
    char *y = (char *)j->y->data + (size_t)at * j->size;
    if (j->y->data != j->from) memcpy(y, j->from + (size_t)at * j->size, (size_t)n * j->size);
    bound(j, j->min, j->high, at, n);
    bound(j, j->max, j->low, at, n);
  }
}

static weft_status_t *clip_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *low = weft_in(ctx, 1), *high = weft_in(ctx, 2), *y = NULL;
  bool low_fits = low->shape.rank == 0 || weft_shape_eq(&low->shape, &x->shape);
  bool high_fits = high->shape.rank == 0 || weft_shape_eq(&high->shape, &x->shape);
  if (!low_fits || !high_fits) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. input "
        "shape: %sclip_value_min shape: %sclip_value_max shape: %s",
        WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&low->shape), WEFT_SHAPE_TEXT(&high->shape));
  }
  weft_shape_t shape = x->shape;
  const weft_dtype_t dtype = x->dtype, part = dtype == WEFT_C64    ? WEFT_F32
                                              : dtype == WEFT_C128 ? WEFT_F64
                                                                   : dtype;
  clip_job_t j = {.low = low,
                  .high = high,
                  .from = x->data,
                  .min = weft_update_find(WEFT_UPDATE_MIN, part),
                  .max = weft_update_find(WEFT_UPDATE_MAX, part),
                  .size = weft_dtype_size(dtype)};
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, dtype, &shape, &y));
  j.y = y;
  weft_parallel_for_cost(ctx->device->pool, y->count, weft_cpu_element(2 * j.size, false), clip_range, &j);
  return NULL;
}

/* ---- AddN: in the order of the list ---- */

/* The sum of a block stays in the first-level cache between groups of operands. */
enum { SUM_BLOCK = 2048 };

typedef struct sum_job {
  const weft_kernel_ctx_t *ctx;
  const char *first;
  weft_tensor_t *sum; /* its memory may be `first` */
  weft_sum_fn *fn;
} sum_job_t;

static void sum_range(void *arg, int64_t begin, int64_t end) {
  const sum_job_t *j = arg;
  const size_t size = weft_dtype_size(j->sum->dtype);
  const int num = j->ctx->node->num_inputs;
  for (int64_t at = begin; at < end; at += SUM_BLOCK) {
    const int64_t n = end - at < SUM_BLOCK ? end - at : SUM_BLOCK;
    const void *x[WEFT_SUM_AT_ONCE] = {j->first + (size_t)at * size};
    char *to = (char *)j->sum->data + (size_t)at * size;
    for (int i = 1; i < num;) {
      int k = 1;
      for (; i < num && k < WEFT_SUM_AT_ONCE; i++, k++)
        x[k] = (const char *)weft_in(j->ctx, i)->data + (size_t)at * size;
      j->fn(n, k, x, to);
      x[0] = to;
    }
  }
}

weft_status_t *weft_shapes_mismatch(const weft_kernel_node_t *node, const weft_shape_t *first, int i,
                                    const weft_shape_t *other) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Inputs to operation %s of type %s must have the same size and shape.  Input 0: %s != input %d: %s",
      node->name.data, node->op_name.data, WEFT_SHAPE_TEXT(first), i, WEFT_SHAPE_TEXT(other));
}

static weft_status_t *add_n_compute(weft_kernel_ctx_t *ctx) {
  int n = ctx->node->num_inputs;
  weft_tensor_t *first = weft_in(ctx, 0), *sum = NULL;
  for (int i = 1; i < n; i++) {
    const weft_shape_t *other = &weft_in(ctx, i)->shape;
    if (!weft_shape_eq(other, &first->shape)) return weft_shapes_mismatch(ctx->node, &first->shape, i, other);
  }
  if (n == 1) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  weft_dtype_t dtype = first->dtype;
  const void *data = first->data;
  weft_shape_t shape = first->shape;
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, dtype, &shape, &sum));
  sum_job_t j = {ctx, data, sum, weft_sum_of(dtype)};
  weft_parallel_for_cost(ctx->device->pool, sum->count,
                         weft_cpu_element((size_t)(n + 1) * weft_dtype_size(dtype), false), sum_range, &j);
  return NULL;
}

const weft_kernel_t weft_cpu_select_kernels[] = {
    WEFT_KERNEL("AccumulateNV2", "T", WEFT_SET_NUMBERS, NULL, add_n_compute, NULL),
    WEFT_KERNEL("AddN", "T", WEFT_SET_NUMBERS, NULL, add_n_compute, NULL),
    WEFT_KERNEL("ClipByValue", "T", WEFT_SET_NUMBERS, NULL, clip_compute, NULL),
    WEFT_KERNEL("Select", NULL, 0, NULL, select_compute, NULL),
    WEFT_KERNEL("SelectV2", NULL, 0, NULL, select_v2_compute, NULL),
    {0},
};
