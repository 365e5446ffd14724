/* kernels/cpu/nn/data_format.c - DataFormatDimMap, DataFormatVecPermute: dimensions and what belongs to them,
 * brought from one layout of images to another ("NHWC" to "NCHW"). */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"

enum { MAX_LETTERS = 5 };

typedef struct data_format {
  weft_str_t from, to; /* lent by the plan; a permutation of the same letters */
} data_format_t;

static int place_of(weft_str_t format, char letter) {
  for (size_t i = 0; i < format.length; i++) {
    if (format.data[i] == letter) return (int)i;
  }
  return -1;
}

static bool is_permutation(weft_str_t a, weft_str_t b) {
  if (a.length != b.length) return false;
  for (size_t i = 0; i < a.length; i++) {
    if (place_of(a, a.data[i]) != (int)i || place_of(b, b.data[i]) != (int)i || place_of(b, a.data[i]) < 0)
      return false;
  }
  return true;
}

static weft_status_t *format_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const data_format_t f = {weft_knode_string(setup, "src_format"), weft_knode_string(setup, "dst_format")};
  if (f.from.length != 4 && f.from.length != 5) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Source format must be of length 4 or 5, received src_format = %.*s",
                      WEFT_STR_ARGS(f.from));
  }
  if (f.to.length != 4 && f.to.length != 5) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Destination format must be of length 4 or 5, received dst_format = %.*s",
                      WEFT_STR_ARGS(f.to));
  }
  if (!is_permutation(f.from, f.to)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Destination and source format must determine a permutation, got %.*s and %.*s",
                      WEFT_STR_ARGS(f.from), WEFT_STR_ARGS(f.to));
  }
  data_format_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = f;
  *out_state = state;
  return NULL;
}

/* x + n, which wraps around in the type, modulo n. What is below 0 then counts as the last dimension. */
static int64_t wrapped_dim(const weft_tensor_t *x, int64_t i, int64_t n) {
  int64_t v = 0;
  if (x->dtype == WEFT_I32) {
    v = (int32_t)((uint32_t)weft_cpu_int_at(x, i) + (uint32_t)n) % (int32_t)n;
  } else {
    v = (int64_t)((uint64_t)weft_cpu_int_at(x, i) + (uint64_t)n) % n;
  }
  return v < 0 ? n - 1 : v;
}

/* Numbers of dimensions, negative ones counted from the end. */
static weft_status_t *dim_map(weft_kernel_ctx_t *ctx) {
  const data_format_t *f = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL;
  const int64_t n = (int64_t)f->from.length;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  for (int64_t i = 0; i < x->count; i++) {
    const int place = place_of(f->to, f->from.data[wrapped_dim(x, i, n)]);
    if (x->dtype == WEFT_I32) {
      ((int32_t *)y->data)[i] = place;
    } else {
      ((int64_t *)y->data)[i] = place;
    }
  }
  return NULL;
}

/* `format` without the letters of batch and channels. */
static weft_str_t spatial(weft_str_t format, char out[MAX_LETTERS]) {
  size_t n = 0;
  for (size_t i = 0; i < format.length; i++) {
    const char c = format.data[i];
    if (c == 'H' || c == 'W' || (c == 'D' && format.length == MAX_LETTERS)) out[n++] = c;
  }
  return (weft_str_t){out, n};
}

static weft_status_t *check_vec(const weft_shape_t *s, int64_t full) {
  if (s->rank != 1 && s->rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be a vector or 2D tensor, but got shape %s",
                      WEFT_SHAPE_TEXT(s));
  }
  if (s->dims[0] != full && s->dims[0] != full - 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "First dimension of the input must be of size %" PRId64 " or %" PRId64
                      ", but got shape %s",
                      full - 2, full, WEFT_SHAPE_TEXT(s));
  }
  if (s->rank == 2 && s->dims[1] != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Second dimension of 2D input must be of size 2, but got shape %s",
                      WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

/* A number, or a pair of them, for each dimension or for each spatial one. */
static weft_status_t *vec_permute(weft_kernel_ctx_t *ctx) {
  data_format_t f = *(const data_format_t *)ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_tensor_t *y = NULL;
  char from[MAX_LETTERS], to[MAX_LETTERS];
  const int64_t full = (int64_t)f.from.length;
  WEFT_RETURN_IF_ERROR(check_vec(&x->shape, full));
  const int64_t n = x->shape.dims[0];
  if (n != full) {
    f = (data_format_t){spatial(f.from, from), spatial(f.to, to)};
    if ((int64_t)f.from.length != n || (int64_t)f.to.length != n)
      return WEFT_ERROR(INVALID_ARGUMENT, "Format specifier must contain all spatial dimensions");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  const size_t row = x->bytes / (size_t)n;
  for (int64_t i = 0; i < n; i++) {
    memcpy((char *)y->data + (size_t)place_of(f.to, f.from.data[i]) * row,
           (const char *)x->data + (size_t)i * row, row);
  }
  return NULL;
}

const weft_kernel_t weft_cpu_data_format_kernels[] = {
    WEFT_KERNEL("DataFormatDimMap", "T", WEFT_SET_INDEX, format_prepare, dim_map, weft_free),
    WEFT_KERNEL("DataFormatVecPermute", "T", WEFT_SET_INDEX, format_prepare, vec_permute, weft_free),
    {0},
};
