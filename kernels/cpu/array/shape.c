/* kernels/cpu/array/shape.c - ops on shapes: Shape, Size, Rank, and the arithmetic of broadcasting and
 * concatenation. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"

/* A vector of n sizes of type int32 or int64. Errors: INVALID_ARGUMENT if one does not fit. */
static weft_status_t *put_ints(weft_kernel_ctx_t *ctx, int o, const int64_t *values, int n) {
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[o]);
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, dtype, &shape, &out));
  for (int i = 0; i < n; i++) {
    if (dtype == WEFT_I64) {
      ((int64_t *)out->data)[i] = values[i];
    } else if (values[i] > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shape output type is 32-bit  but dim %d is %" PRId64, i,
                        values[i]);
    } else {
      ((int32_t *)out->data)[i] = (int32_t)values[i];
    }
  }
  return NULL;
}

static weft_status_t *shape_compute(weft_kernel_ctx_t *ctx) {
  for (int i = 0; i < ctx->node->num_inputs; i++) { /* Shape, or ShapeN */
    const weft_shape_t *s = &weft_in(ctx, i)->shape;
    WEFT_RETURN_IF_ERROR(put_ints(ctx, i, s->dims, s->rank));
  }
  return NULL;
}

static weft_status_t *put_scalar(weft_kernel_ctx_t *ctx, int64_t value) {
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &WEFT_SCALAR, &out));
  if (dtype == WEFT_I64) {
    *(int64_t *)out->data = value;
    return NULL;
  }
  if (value > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of elements was larger than representable by 32-bit output type");
  }
  *(int32_t *)out->data = (int32_t)value;
  return NULL;
}

static weft_status_t *size_compute(weft_kernel_ctx_t *ctx) { return put_scalar(ctx, weft_in(ctx, 0)->count); }
static weft_status_t *rank_compute(weft_kernel_ctx_t *ctx) {
  return put_scalar(ctx, weft_in(ctx, 0)->shape.rank);
}

/* ---- broadcasting of two shapes given as vectors ---- */

/* A vector of sizes of any length. */
static weft_status_t *check_vector(const weft_kernel_ctx_t *ctx, int i) {
  const weft_tensor_t *t = weft_in(ctx, i);
  if (t->shape.rank == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "In[%d] must be a vector.%s", i, WEFT_SHAPE_TEXT(&t->shape));
}

static int64_t size_at(const weft_tensor_t *t, int64_t rank, int64_t d) {
  int64_t at = d - (rank - t->count);
  return at < 0 ? 1 : weft_cpu_int_at(t, at);
}

static weft_status_t *unfit(const weft_tensor_t *a, const weft_tensor_t *b) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int side = 0; side < 2; side++) {
    const weft_tensor_t *t = side == 0 ? a : b;
    weft_strbuf_puts(&text, side == 0 ? "[" : " vs. [");
    for (int64_t i = 0; i < t->count && i < 64; i++) {
      weft_strbuf_printf(&text, "%s%" PRId64, i > 0 ? "," : "", weft_cpu_int_at(t, i));
    }
    weft_strbuf_putc(&text, ']');
  }
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s", text.data == NULL ? "" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *put_vector(weft_kernel_ctx_t *ctx, int o, const int64_t *values, int64_t n) {
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[o]);
  weft_shape_t shape = weft_shape_vector(n);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, dtype, &shape, &out));
  for (int64_t i = 0; i < n; i++) {
    if (dtype == WEFT_I64) {
      ((int64_t *)out->data)[i] = values[i];
    } else {
      ((int32_t *)out->data)[i] = (int32_t)values[i];
    }
  }
  return NULL;
}

/* The axes that each side must be summed over; where both sizes are 1 the axis goes to both. */
static weft_status_t *gradient_args_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1);
  WEFT_RETURN_IF_ERROR(check_vector(ctx, 0));
  WEFT_RETURN_IF_ERROR(check_vector(ctx, 1));
  int64_t rank = a->count > b->count ? a->count : b->count, na = 0, nb = 0;
  int64_t *axes = weft_calloc((size_t)rank * 2 + 1, sizeof *axes);
  if (axes == NULL) return WEFT_NO_MEMORY("BroadcastGradientArgs");
  weft_status_t *s = NULL;
  bool same = a->count == b->count && rank > 0;
  for (int64_t d = 0; same && d < rank; d++) same = size_at(a, rank, d) == size_at(b, rank, d);
  for (int64_t d = 0; s == NULL && !same && d < rank; d++) {
    int64_t x = size_at(a, rank, d), y = size_at(b, rank, d);
    if (x != y && x != 1 && y != 1) s = unfit(a, b);
    if (x == 1) axes[na++] = d;
    if (y == 1) axes[rank + nb++] = d;
  }
  if (s == NULL) s = put_vector(ctx, 0, axes, na);
  if (s == NULL) s = put_vector(ctx, 1, axes + rank, nb);
  weft_free(axes);
  return s;
}

static weft_status_t *broadcast_args_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1);
  WEFT_RETURN_IF_ERROR(check_vector(ctx, 0));
  WEFT_RETURN_IF_ERROR(check_vector(ctx, 1));
  int64_t rank = a->count > b->count ? a->count : b->count;
  int64_t *dims = weft_calloc((size_t)rank + 1, sizeof *dims);
  if (dims == NULL) return WEFT_NO_MEMORY("BroadcastArgs");
  weft_status_t *s = NULL;
  for (int64_t d = 0; s == NULL && d < rank; d++) {
    int64_t x = size_at(a, rank, d), y = size_at(b, rank, d);
    if (x != y && x != 1 && y != 1) s = unfit(a, b);
    dims[d] = x == 1 ? y : x;
  }
  if (s == NULL) s = put_vector(ctx, 0, dims, rank);
  weft_free(dims);
  return s;
}

/* ---- ConcatOffset: where each piece begins ---- */

static void print_sizes(const weft_tensor_t *t, weft_strbuf_t *out) {
  for (int64_t i = 0; i < t->count; i++)
    weft_strbuf_printf(out, "%s%" PRId64, i > 0 ? " " : "", weft_cpu_int_at(t, i));
}

static weft_status_t *mismatch(int64_t axis, int i, const weft_tensor_t *t, const weft_tensor_t *first) {
  weft_strbuf_t mine = WEFT_STRBUF_INIT, firsts = WEFT_STRBUF_INIT;
  print_sizes(t, &mine);
  print_sizes(first, &firsts);
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT,
                 "All dimensions except %" PRId64
                 " must match. Input %d has shape [%s] and doesn't match input 0 with shape [%s].",
                 axis, i, mine.data == NULL ? "" : mine.data, firsts.data == NULL ? "" : firsts.data);
  weft_strbuf_deinit(&mine);
  weft_strbuf_deinit(&firsts);
  return s;
}

static weft_status_t *concat_offset_compute(weft_kernel_ctx_t *ctx) {
  int n = ctx->node->num_inputs - 1;
  int64_t axis = 0;
  if (weft_in(ctx, 0)->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Concat dim tensor should be a scalar integer, but got shape %s",
                      WEFT_SHAPE_TEXT(&weft_in(ctx, 0)->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_int_scalar(weft_in(ctx, 0), "Concat dim tensor", &axis));
  const weft_tensor_t *first = weft_in(ctx, 1);
  int64_t rank = first->count, at = axis < 0 ? axis + rank : axis, sum = 0;
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = weft_in(ctx, i + 1);
    if (t->shape.rank != 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "input %d should be a vector, but got shape %s", i,
                        WEFT_SHAPE_TEXT(&t->shape));
    }
    if (t->count != rank) {
      return WEFT_ERROR(INVALID_ARGUMENT, "input %d should contain %" PRId64 " elements, but got %" PRId64, i,
                        rank, t->count);
    }
  }
  if (at < 0 || at >= rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Concat dim is out of range: %" PRId64 " vs. %" PRId64, axis, rank);
  }
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = weft_in(ctx, i + 1);
    weft_tensor_t *out = NULL;
    WEFT_RETURN_IF_ERROR(weft_out_new(ctx, i, t->dtype, &t->shape, &out));
    weft_cpu_zero(out);
    for (int64_t d = 0; d < rank; d++) {
      if (d == at) {
        if (t->dtype == WEFT_I64) ((int64_t *)out->data)[d] = sum;
        if (t->dtype == WEFT_I32) ((int32_t *)out->data)[d] = (int32_t)sum;
        sum = (int64_t)((uint64_t)sum + (uint64_t)weft_cpu_int_at(t, d));
      } else if (weft_cpu_int_at(t, d) != weft_cpu_int_at(first, d)) {
        return mismatch(axis, i, t, first);
      }
    }
  }
  return NULL;
}

static weft_status_t *invert_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  if (x->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "invert_permutation expects a 1D vector.");
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  if (y->bytes > 0) memset(y->data, 0xff, y->bytes); /* -1 everywhere: nothing seen */
  for (int64_t i = 0; i < x->count; i++) {
    int64_t to = weft_cpu_int_at(x, i);
    if (to < 0 || to >= x->count) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " is not between 0 and %" PRId64, to, x->count);
    }
    if (weft_cpu_int_at(y, to) != -1)
      return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " is duplicated in the input.", to);
    if (x->dtype == WEFT_I64) {
      ((int64_t *)y->data)[to] = i;
    } else {
      ((int32_t *)y->data)[to] = (int32_t)i;
    }
  }
  return NULL;
}

const weft_kernel_t weft_cpu_shape_kernels[] = {
    WEFT_KERNEL("BroadcastArgs", "T", WEFT_SET_INDEX, NULL, broadcast_args_compute, NULL),
    WEFT_KERNEL("BroadcastGradientArgs", "T", WEFT_SET_INDEX, NULL, gradient_args_compute, NULL),
    WEFT_KERNEL("ConcatOffset", NULL, 0, NULL, concat_offset_compute, NULL),
    WEFT_KERNEL("InvertPermutation", "T", WEFT_SET_INDEX, NULL, invert_compute, NULL),
    WEFT_KERNEL("Rank", NULL, 0, NULL, rank_compute, NULL),
    WEFT_KERNEL("Shape", NULL, 0, NULL, shape_compute, NULL),
    WEFT_KERNEL("ShapeN", NULL, 0, NULL, shape_compute, NULL),
    WEFT_KERNEL("Size", NULL, 0, NULL, size_compute, NULL),
    {0},
};
