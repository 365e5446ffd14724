/* kernels/cpu/array/pad.c - Pad, PadV2, MirrorPad and MirrorPadGrad. */
#include <inttypes.h>

#include "kernels/cpu/loops/move.h"
#include "tensor/update.h"

static weft_status_t *read_paddings(const weft_tensor_t *t, const weft_shape_t *input, int64_t (*pads)[2]) {
  if (t->shape.rank != 2 || t->shape.dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "paddings must be a matrix with 2 columns: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (t->shape.dims[0] != input->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The first dimension of paddings must be the rank of inputs%s %s",
                      WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(input));
  }
  for (int d = 0; d < input->rank; d++) {
    pads[d][0] = weft_cpu_int_at(t, 2 * d);
    pads[d][1] = weft_cpu_int_at(t, 2 * d + 1);
    if (pads[d][0] < 0 || pads[d][1] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Paddings must be non-negative: %" PRId64 " %" PRId64, pads[d][0],
                        pads[d][1]);
    }
  }
  return NULL;
}

/* The shape with `sign` times the paddings added. Errors: INVALID_ARGUMENT if it is too large or below 0. */
static weft_status_t *padded_shape(const weft_shape_t *input, int64_t (*pads)[2], int sign,
                                   weft_shape_t *out) {
  *out = *input;
  for (int d = 0; d < input->rank; d++) {
    int64_t sum = 0;
    if (__builtin_add_overflow(pads[d][0], pads[d][1], &sum) ||
        __builtin_add_overflow(input->dims[d], sign * sum, &out->dims[d]) || out->dims[d] < 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "paddings %" PRId64 " %" PRId64 " do not fit dimension %d of %s",
                        pads[d][0], pads[d][1], d, WEFT_SHAPE_TEXT(input));
    }
  }
  return NULL;
}

/* A result of plain elements, [outer.., row], where row is the last dimension that is padded and what is
 * behind it. Each row is written once: a border, the input's row, a border; or a border alone. */
typedef struct pad_job {
  int rank; /* of the outer dimensions */
  int64_t dims[WEFT_MAX_DIMS], inner_dims[WEFT_MAX_DIMS],
      before[WEFT_MAX_DIMS]; /* of the result, the input */
  int64_t row, left, inner;  /* elements of a row, of its border in front, of the input's row */
  size_t size;
  const void *value;
  const char *from;
  char *to;
} pad_job_t;

static void pad_rows(void *arg, int64_t begin, int64_t end) {
  const pad_job_t *j = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t rest = i, at = 0, stride = 1;
    bool is_inside = true;
    for (int d = j->rank - 1; d >= 0; d--) {
      const int64_t index = rest % j->dims[d] - j->before[d];
      rest /= j->dims[d];
      is_inside = is_inside && index >= 0 && index < j->inner_dims[d];
      at += index * stride;
      stride *= j->inner_dims[d];
    }
    char *to = j->to + (size_t)(i * j->row) * j->size;
    if (!is_inside || j->inner == 0) {
      weft_move_fill(NULL, to, j->value, j->size, j->row);
      continue;
    }
    const size_t left = (size_t)j->left * j->size, inner = (size_t)j->inner * j->size;
    weft_move_fill(NULL, to, j->value, j->size, j->left);
    memcpy(to + left, j->from + (size_t)at * inner, inner);
    weft_move_fill(NULL, to + left + inner, j->value, j->size, j->row - j->left - j->inner);
  }
}

static void pad_plain(weft_thread_pool_t *pool, const weft_tensor_t *x, int64_t (*pads)[2],
                      const weft_tensor_t *value, weft_tensor_t *y) {
  static const weft_c128_t zero = {0, 0};
  int last = x->shape.rank - 1;
  while (pads[last][0] == 0 && pads[last][1] == 0) last--; /* a dimension is padded, or y were x */
  const int64_t behind = weft_cpu_product(&x->shape, last + 1, x->shape.rank);
  pad_job_t j = {.rank = last,
                 .row = y->shape.dims[last] * behind,
                 .left = pads[last][0] * behind,
                 .inner = x->shape.dims[last] * behind,
                 .size = weft_dtype_size(x->dtype),
                 .value = value == NULL ? (const void *)&zero : value->data,
                 .from = x->data,
                 .to = y->data};
  for (int d = 0; d < last; d++) {
    j.dims[d] = y->shape.dims[d];
    j.inner_dims[d] = x->shape.dims[d];
    j.before[d] = pads[d][0];
  }
  weft_parallel_for(pool, y->count / j.row, WEFT_CPU_GRAIN / j.row + 1, pad_rows, &j);
}

static weft_status_t *pad_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *x = weft_in(ctx, 0), *value = NULL, *y = NULL;
  int64_t pads[WEFT_MAX_DIMS][2];
  WEFT_RETURN_IF_ERROR(read_paddings(weft_in(ctx, 1), &x->shape, pads));
  if (ctx->node->num_inputs == 3) {
    value = weft_in(ctx, 2);
    if (value->shape.rank != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "constant_values must be a scalar. Found: %s",
                        WEFT_SHAPE_TEXT(&value->shape));
    }
  }
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(padded_shape(&x->shape, pads, 1, &shape));
  if (weft_shape_eq(&shape, &x->shape)) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  if (weft_dtype_is_plain(x->dtype)) {
    pad_plain(ctx->device->pool, x, pads, value, y);
    return NULL;
  }
  weft_move_t fill = {.rank = 1, .dims = {y->count}, .from_strides = {0}, .to_strides = {1}};
  if (value != NULL) {
    WEFT_RETURN_IF_ERROR(weft_move_run(&fill, ctx->device->pool, value, y));
  } else {
    weft_cpu_zero(y);
  }
  weft_move_t m = {.rank = x->shape.rank};
  weft_strides_of(&x->shape, m.from_strides);
  weft_strides_of(&shape, m.to_strides);
  for (int d = 0; d < x->shape.rank; d++) {
    m.dims[d] = x->shape.dims[d];
    m.to_base = (int64_t)((uint64_t)m.to_base + (uint64_t)pads[d][0] * (uint64_t)m.to_strides[d]);
  }
  return weft_move_run(&m, ctx->device->pool, x, y);
}

/* ---- mirror padding: an index of the result stands for one of the input ---- */

typedef struct mirror {
  int64_t pads[WEFT_MAX_DIMS][2];
  int offset; /* 1: the border itself is not repeated (REFLECT), 0: it is (SYMMETRIC) */
} mirror_t;

static weft_status_t *read_mirror(const weft_kernel_ctx_t *ctx, weft_str_t mode, const weft_shape_t *input,
                                  mirror_t *out) {
  out->offset = weft_str_is(mode, "REFLECT") ? 1 : 0;
  return read_paddings(weft_in(ctx, 1), input, out->pads);
}

static weft_status_t *check_mirror(const mirror_t *m, const weft_shape_t *inner) {
  for (int d = 0; d < inner->rank; d++) {
    int64_t dim = inner->dims[d], limit = dim - m->offset;
    if (m->pads[d][0] <= limit && m->pads[d][1] <= limit) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "paddings must be %s the dimension size: %" PRId64 ", %" PRId64 " %s %" PRId64,
                      m->offset == 1 ? "less than" : "no greater than", m->pads[d][0], m->pads[d][1],
                      m->offset == 1 ? "not less than" : "greater than", dim);
  }
  return NULL;
}

static int64_t mirrored(const mirror_t *m, int d, int64_t at, int64_t dim) {
  int64_t i = at - m->pads[d][0];
  if (i < 0) return m->offset - 1 - i;
  if (i >= dim) return 2 * dim - 1 - m->offset - i;
  return i;
}

/* Position in `inner` of element `i` of the padded tensor `outer`. */
static int64_t inner_position(const mirror_t *m, const weft_shape_t *outer, const weft_shape_t *inner,
                              int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = outer->rank - 1; d >= 0; d--) {
    at += mirrored(m, d, i % outer->dims[d], inner->dims[d]) * stride;
    stride *= inner->dims[d];
    i /= outer->dims[d];
  }
  return at;
}

WEFT_ATTRS_STRUCT(mirror, (STRING, mode))
WEFT_ATTRS_OF(mirror_compute, mirror)
static weft_status_t *mirror_compute(weft_kernel_ctx_t *ctx, const mirror_attrs_t *attrs) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  mirror_t m;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(read_mirror(ctx, attrs->mode, &x->shape, &m));
  WEFT_RETURN_IF_ERROR(check_mirror(&m, &x->shape));
  WEFT_RETURN_IF_ERROR(padded_shape(&x->shape, m.pads, 1, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  for (int64_t i = 0; i < y->count; i++) {
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, i, x, inner_position(&m, &shape, &x->shape, i), 1));
  }
  return NULL;
}

WEFT_ATTRS_OF(mirror_grad_compute, mirror)
static weft_status_t *mirror_grad_compute(weft_kernel_ctx_t *ctx, const mirror_attrs_t *attrs) {
  weft_tensor_t *dy = weft_in(ctx, 0), *dx = NULL;
  mirror_t m;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(read_mirror(ctx, attrs->mode, &dy->shape, &m));
  WEFT_RETURN_IF_ERROR(padded_shape(&dy->shape, m.pads, -1, &shape));
  WEFT_RETURN_IF_ERROR(check_mirror(&m, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &shape, &dx));
  weft_cpu_zero(dx);
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, dy->dtype);
  size_t size = weft_dtype_size(dy->dtype);
  for (int64_t i = 0; i < dy->count; i++) {
    int64_t to = inner_position(&m, &dy->shape, &shape, i);
    add((char *)dx->data + (size_t)to * size, (const char *)dy->data + (size_t)i * size, 1, false);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_pad_kernels[] = {
    WEFT_KERNEL_ATTRS("MirrorPad", NULL, 0, mirror_compute),
    WEFT_KERNEL_ATTRS("MirrorPadGrad", "T", WEFT_SET_NUMBERS, mirror_grad_compute),
    WEFT_KERNEL("Pad", NULL, 0, NULL, pad_compute, NULL),
    WEFT_KERNEL("PadV2", NULL, 0, NULL, pad_compute, NULL),
    {0},
};
