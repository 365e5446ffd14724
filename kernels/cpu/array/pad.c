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
  bool is_zero; /* all bits of the value */
  const char *from;
  char *to;
} pad_job_t;

/* The outer index of row i. */
static void outer_index(int rank, const int64_t *dims, int64_t i, int64_t *out) {
  for (int d = rank - 1; d >= 0; d--) {
    out[d] = i % dims[d];
    i /= dims[d];
  }
}

/* To the next one. */
static void outer_next(int rank, const int64_t *dims, int64_t *index) {
  for (int d = rank - 1; d >= 0 && ++index[d] == dims[d]; d--) index[d] = 0;
}

static void pad_fill(const pad_job_t *j, char *to, int64_t n) {
  if (n <= 0) return;
  if (j->is_zero) {
    memset(to, 0, (size_t)n * j->size);
  } else {
    weft_move_fill(NULL, to, j->value, j->size, n);
  }
}

static void pad_rows(void *arg, int64_t begin, int64_t end) {
  const pad_job_t *j = arg;
  const size_t left = (size_t)j->left * j->size, inner = (size_t)j->inner * j->size;
  int64_t index[WEFT_MAX_DIMS];
  outer_index(j->rank, j->dims, begin, index);
  for (int64_t i = begin; i < end; i++, outer_next(j->rank, j->dims, index)) {
    int64_t at = 0;
    bool is_inside = j->inner > 0;
    for (int d = 0; d < j->rank; d++) {
      const int64_t from = index[d] - j->before[d];
      is_inside = is_inside && from >= 0 && from < j->inner_dims[d];
      at = at * j->inner_dims[d] + from;
    }
    char *to = j->to + (size_t)(i * j->row) * j->size;
    if (!is_inside) {
      pad_fill(j, to, j->row);
      continue;
    }
    pad_fill(j, to, j->left);
    memcpy(to + left, j->from + (size_t)at * inner, inner);
    pad_fill(j, to + left + inner, j->row - j->left - j->inner);
  }
}

static bool is_all_zero(const void *value, size_t size) {
  static const weft_c128_t zero = {0, 0};
  return memcmp(value, &zero, size) == 0;
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
  j.is_zero = is_all_zero(j.value, j.size);
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

/* A padded tensor and its inner one as rows: the last dimension that is padded, and what is behind it. A row
 * has places of `behind` elements: `left` ones that mirror the front of the inner row, the inner row, and
 * `right` ones that mirror its rear. */
typedef struct mirror_rows {
  mirror_t m;
  int rank; /* of the outer dimensions */
  int64_t outer_dims[WEFT_MAX_DIMS], inner_dims[WEFT_MAX_DIMS];
  int64_t rows, left, inner, right, behind;
  size_t size; /* of an element */
} mirror_rows_t;

/* `outer` has elements. */
static void find_rows(const mirror_t *m, const weft_shape_t *outer, const weft_shape_t *inner, size_t size,
                      mirror_rows_t *out) {
  int last = outer->rank - 1;
  while (last > 0 && m->pads[last][0] == 0 && m->pads[last][1] == 0) last--;
  *out = (mirror_rows_t){.m = *m, .rank = last, .size = size};
  out->rows = weft_cpu_product(outer, 0, last);
  out->behind = weft_cpu_product(outer, last + 1, outer->rank);
  out->left = m->pads[last][0];
  out->inner = inner->dims[last];
  out->right = m->pads[last][1];
  memcpy(out->outer_dims, outer->dims, sizeof out->outer_dims);
  memcpy(out->inner_dims, inner->dims, sizeof out->inner_dims);
}

/* The first element of the inner row that an outer one stands for. */
static int64_t inner_row(const mirror_rows_t *r, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < r->rank; d++) {
    at = at * r->inner_dims[d] + mirrored(&r->m, d, index[d], r->inner_dims[d]);
  }
  return at * r->inner * r->behind;
}

typedef struct mirror_job {
  mirror_rows_t r;
  const char *from;
  char *to;
} mirror_job_t;

static void mirror_range(void *arg, int64_t begin, int64_t end) {
  const mirror_job_t *j = arg;
  const mirror_rows_t *r = &j->r;
  const int64_t place = r->behind * (int64_t)r->size, row = (r->left + r->inner + r->right) * place;
  /* From the last place that the border in front mirrors to the first, and the same behind. */
  const weft_sheet_t left = {r->left, r->behind, -r->behind, 1, r->behind, 1},
                     right = {r->right, r->behind, -r->behind, 1, r->behind, 1};
  int64_t index[WEFT_MAX_DIMS];
  outer_index(r->rank, r->outer_dims, begin, index);
  for (int64_t i = begin; i < end; i++, outer_next(r->rank, r->outer_dims, index)) {
    const char *x = j->from + inner_row(r, index) * (int64_t)r->size;
    char *y = j->to + i * row;
    memcpy(y + r->left * place, x, (size_t)(r->inner * place));
    if (r->left > 0) weft_move_sheet(&left, x + (r->left - 1 + r->m.offset) * place, y, r->size);
    if (r->right > 0)
      weft_move_sheet(&right, x + (r->inner - 1 - r->m.offset) * place, y + (r->left + r->inner) * place,
                      r->size);
  }
}

/* Element by element, of any kind. */
static weft_status_t *mirror_elements(const mirror_rows_t *r, const weft_tensor_t *x, weft_tensor_t *y) {
  const int last = r->rank;
  int64_t index[WEFT_MAX_DIMS], to = 0;
  outer_index(r->rank, r->outer_dims, 0, index);
  for (int64_t i = 0; i < r->rows; i++, outer_next(r->rank, r->outer_dims, index)) {
    for (int64_t p = 0; p < r->left + r->inner + r->right; p++, to += r->behind) {
      const int64_t from = inner_row(r, index) + mirrored(&r->m, last, p, r->inner) * r->behind;
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(y, to, x, from, r->behind));
    }
  }
  return NULL;
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
  if (shape.rank == 0) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  if (y->count == 0) return NULL;
  mirror_job_t j = {.from = x->data, .to = y->data};
  find_rows(&m, &shape, &x->shape, weft_dtype_size(x->dtype), &j.r);
  if (!weft_dtype_is_plain(x->dtype)) return mirror_elements(&j.r, x, y);
  const int64_t row = y->count / j.r.rows;
  weft_parallel_for(ctx->device->pool, j.r.rows, WEFT_CPU_GRAIN / row + 1, mirror_range, &j);
  return NULL;
}

/* The gradient of an element is the sum of those that mirror it, in their order. */
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
  if (dy->count == 0) return NULL;
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, dy->dtype);
  if (shape.rank == 0) {
    add(dx->data, dy->data, 1, false);
    return NULL;
  }
  mirror_rows_t r;
  find_rows(&m, &dy->shape, &shape, weft_dtype_size(dy->dtype), &r);
  const int64_t place = r.behind * (int64_t)r.size;
  const char *from = dy->data;
  int64_t index[WEFT_MAX_DIMS];
  outer_index(r.rank, r.outer_dims, 0, index);
  for (int64_t i = 0; i < r.rows; i++, outer_next(r.rank, r.outer_dims, index)) {
    char *row = (char *)dx->data + inner_row(&r, index) * (int64_t)r.size;
    for (int64_t p = 0; p < r.left; p++, from += place) {
      add(row + mirrored(&m, r.rank, p, r.inner) * place, from, r.behind, false);
    }
    add(row, from, r.inner * r.behind, false);
    from += r.inner * place;
    for (int64_t p = 0; p < r.right; p++, from += place) {
      add(row + (r.inner - 1 - m.offset - p) * place, from, r.behind, false);
    }
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
