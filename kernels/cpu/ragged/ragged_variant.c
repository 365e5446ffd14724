/* kernels/cpu/ragged/ragged_variant.c - ragged tensors inside variants: RaggedTensorToVariant,
 * RaggedTensorFromVariant, RaggedTensorToVariantGradient.
 *
 * The variant is a pack (tensor/pack.h) of the row splits, outermost first, and the values.
 */
#include <inttypes.h>

#include "kernels/cpu/ragged/ragged.h"
#include "tensor/pack.h"

static const weft_tensor_t *values_of(const weft_pack_t *p) { return p->items[p->count - 1]; }

/* Row i of a tensor of rank 1 or more has so many elements. */
static int64_t row_size(const weft_tensor_t *t) { return weft_cpu_product(&t->shape, 1, t->shape.rank); }

/* Rows begin to begin + n of `t` as a tensor of their own. */
static weft_status_t *rows_of(const weft_tensor_t *t, int64_t begin, int64_t n, weft_tensor_t **out) {
  weft_shape_t shape = t->shape;
  shape.dims[0] = n;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(t->dtype, &shape, NULL, out));
  return weft_cpu_copy(*out, 0, t, begin * row_size(t), (*out)->count);
}

/* ---- RaggedTensorToVariant ---- */

/* Are these splits of `n` rows or values? */
static weft_status_t *check_splits(const weft_ragged_ints_t *splits, int64_t n) {
  if (splits->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "row splits must not be empty");
  for (int64_t i = 1; i < splits->n; i++) {
    if (splits->at[i] < splits->at[i - 1])
      return WEFT_ERROR(INVALID_ARGUMENT, "row splits must ascend: %" PRId64 " after %" PRId64, splits->at[i],
                        splits->at[i - 1]);
  }
  if (splits->at[0] != 0 || splits->at[splits->n - 1] != n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "row splits must go from 0 to %" PRId64 ", not from %" PRId64 " to %" PRId64, n,
                      splits->at[0], splits->at[splits->n - 1]);
  }
  return NULL;
}

/* Splits begin to end of one level, counted from where they begin. */
static weft_status_t *splits_of(const weft_ragged_ints_t *splits, weft_dtype_t dtype, int64_t begin,
                                int64_t end, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(end - begin + 1);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, NULL, out));
  for (int64_t k = begin; k <= end; k++) weft_ragged_put(*out, k - begin, splits->at[k] - splits->at[begin]);
  return NULL;
}

/* Row i of the outermost dimension. */
static weft_status_t *component(const weft_kernel_ctx_t *ctx, const weft_ragged_ints_t *splits, int rank,
                                int64_t i, weft_variant_t **out) {
  weft_pack_t *p = NULL;
  int64_t begin = splits[0].at[i], end = splits[0].at[i + 1];
  WEFT_RETURN_IF_ERROR(weft_pack_create(&weft_ragged_type, rank, &p));
  weft_status_t *s = NULL;
  for (int k = 1; k < rank && s == NULL; k++) {
    s = splits_of(&splits[k], weft_in(ctx, k)->dtype, begin, end, &p->items[k - 1]);
    begin = splits[k].at[begin];
    end = splits[k].at[end];
  }
  if (s == NULL) s = rows_of(weft_in(ctx, rank), begin, end - begin, &p->items[rank - 1]);
  if (s != NULL) {
    weft_variant_release(&p->variant);
    return s;
  }
  *out = &p->variant;
  return NULL;
}

static weft_status_t *components(weft_kernel_ctx_t *ctx, const weft_ragged_ints_t *splits, int rank) {
  weft_tensor_t *out = NULL;
  for (int k = 0; k < rank; k++) {
    int64_t n = k + 1 < rank ? splits[k + 1].n - 1 : weft_in(ctx, rank)->shape.dims[0];
    WEFT_RETURN_IF_ERROR(check_splits(&splits[k], n));
  }
  weft_shape_t shape = weft_shape_vector(splits[0].n - 1);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_VARIANT, &shape, &out));
  for (int64_t i = 0; i < out->count; i++)
    WEFT_RETURN_IF_ERROR(component(ctx, splits, rank, i, (weft_variant_t **)out->data + i));
  return NULL;
}

WEFT_ATTRS(to_variant_compute, (BOOL, batched_input))
static weft_status_t *to_variant_compute(weft_kernel_ctx_t *ctx, const to_variant_compute_attrs_t *attrs) {
  int rank = ctx->node->num_inputs - 1;
  if (!attrs->batched_input) {
    weft_pack_t *p = NULL;
    WEFT_RETURN_IF_ERROR(weft_pack_create(&weft_ragged_type, rank + 1, &p));
    for (int i = 0; i <= rank; i++) p->items[i] = weft_tensor_retain(weft_in(ctx, i));
    return weft_pack_scalar(p, &ctx->outputs[0].tensor);
  }
  if (rank == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "rt_nested_splits must be a list of one or more, but it is empty");
  if (weft_in(ctx, rank)->shape.rank == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "rt_dense_values must have rank 1 or more");
  weft_ragged_ints_t *splits = NULL;
  weft_status_t *s = weft_ragged_open_all(ctx, 0, rank, &splits);
  if (s == NULL) s = components(ctx, splits, rank);
  weft_ragged_close_all(splits, rank);
  return s;
}

/* ---- RaggedTensorFromVariant ---- */

static weft_status_t *check_component(const weft_kernel_ctx_t *ctx, const weft_pack_t *p, int64_t i,
                                      int rank) {
  int last = ctx->node->num_outputs - 1;
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[last]);
  if (p == NULL || p->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input Variant element at index %" PRId64 " doesn't hold a RaggedTensorVariant", i);
  }
  if (p->count - 1 != rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Encoded input RaggedTensorVariant has ragged_rank=%d.  Expected ragged_rank=%d.",
                      p->count - 1, rank);
  }
  if (values_of(p)->dtype != dtype || values_of(p)->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected values of %s and rank >= 1, found: %s of shape %s",
                      weft_dtype_name(dtype), weft_dtype_name(values_of(p)->dtype),
                      WEFT_SHAPE_TEXT(&values_of(p)->shape));
  }
  for (int k = 0; k < rank; k++) {
    weft_dtype_t wanted = weft_dtype_base(ctx->node->output_types[0]);
    if (p->items[k]->dtype != wanted || p->items[k]->shape.rank != 1) {
      return WEFT_ERROR(
          INVALID_ARGUMENT, "Expected row_splits Tensor dtype: %s and rank 1, found: %s of shape %s",
          weft_dtype_name(wanted), weft_dtype_name(p->items[k]->dtype), WEFT_SHAPE_TEXT(&p->items[k]->shape));
    }
  }
  return NULL;
}

static weft_status_t *new_splits(weft_kernel_ctx_t *ctx, int o, int64_t n, weft_tensor_t **out) {
  weft_shape_t shape = weft_shape_vector(n);
  return weft_out_new(ctx, o, weft_dtype_base(ctx->node->output_types[o]), &shape, out);
}

static weft_status_t *put_split(weft_tensor_t *out, int64_t i, int64_t v) {
  if (!weft_ragged_fits(out->dtype, v))
    return WEFT_ERROR(INVALID_ARGUMENT, "a row split of %" PRId64 " rows", v);
  weft_ragged_put(out, i, v);
  return NULL;
}

/* Splits of the variant's own dimensions, all but the last. */
static weft_status_t *put_outer(weft_kernel_ctx_t *ctx) {
  const weft_shape_t *dims = &weft_in(ctx, 0)->shape;
  for (int k = 0; k + 1 < dims->rank; k++) {
    weft_tensor_t *out = NULL;
    WEFT_RETURN_IF_ERROR(new_splits(ctx, k, dims->dims[k] + 1, &out));
    for (int64_t i = 0; i <= dims->dims[k]; i++)
      WEFT_RETURN_IF_ERROR(put_split(out, i, i * dims->dims[k + 1]));
  }
  return NULL;
}

/* Splits of the last dimension: how many rows each component has. */
static weft_status_t *put_lengths(weft_kernel_ctx_t *ctx, const weft_pack_t *const *parts) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  weft_tensor_t *out = NULL;
  int64_t at = 0;
  WEFT_RETURN_IF_ERROR(new_splits(ctx, in->shape.rank - 1, in->count + 1, &out));
  weft_ragged_put(out, 0, 0);
  for (int64_t i = 0; i < in->count; i++) {
    const weft_tensor_t *rows = parts[i]->items[0]; /* splits, or the values themselves */
    int64_t n = parts[i]->count > 1 ? rows->count - 1 : rows->shape.dims[0];
    if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "the row splits of component %" PRId64 " are empty", i);
    at += n;
    WEFT_RETURN_IF_ERROR(put_split(out, i + 1, at));
  }
  return NULL;
}

/* Level k of the components' own splits, as output o. */
static weft_status_t *put_inner(weft_kernel_ctx_t *ctx, const weft_pack_t *const *parts, int k, int o) {
  weft_tensor_t *out = NULL;
  int64_t n = 1, at = 1, last = 0;
  for (int64_t i = 0; i < weft_in(ctx, 0)->count; i++) {
    if (parts[i]->items[k]->count == 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "the row splits of component %" PRId64 " are empty", i);
    n += parts[i]->items[k]->count - 1;
  }
  WEFT_RETURN_IF_ERROR(new_splits(ctx, o, n, &out));
  weft_ragged_put(out, 0, 0);
  for (int64_t i = 0; i < weft_in(ctx, 0)->count; i++) {
    const weft_tensor_t *splits = parts[i]->items[k];
    for (int64_t j = 1; j < splits->count; j++) {
      int64_t v = 0;
      if (__builtin_add_overflow(last, weft_cpu_int_at(splits, j), &v))
        return WEFT_ERROR(INVALID_ARGUMENT, "row splits overflow");
      WEFT_RETURN_IF_ERROR(put_split(out, at++, v));
    }
    last = weft_cpu_int_at(out, at - 1);
  }
  return NULL;
}

static weft_status_t *put_values(weft_kernel_ctx_t *ctx, const weft_pack_t *const *parts) {
  int o = ctx->node->num_outputs - 1;
  int64_t n = weft_in(ctx, 0)->count, at = 0;
  weft_shape_t shape = n == 0 ? weft_shape_vector(0) : values_of(parts[0])->shape;
  weft_tensor_t *out = NULL;
  for (int64_t i = 1; i < n; i++) {
    const weft_shape_t *other = &values_of(parts[i])->shape;
    bool fits = other->rank == shape.rank;
    for (int d = 1; fits && d < shape.rank; d++) fits = other->dims[d] == shape.dims[d];
    if (!fits) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Rank of values must match for all components; values shape at index 0: %s, values shape at "
          "index %" PRId64 ": %s",
          WEFT_SHAPE_TEXT(&values_of(parts[0])->shape), i, WEFT_SHAPE_TEXT(other));
    }
    if (__builtin_add_overflow(shape.dims[0], other->dims[0], &shape.dims[0]))
      return WEFT_ERROR(INVALID_ARGUMENT, "too many values");
  }
  WEFT_RETURN_IF_ERROR(weft_shape_make(shape.dims, shape.rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, o, weft_dtype_base(ctx->node->output_types[o]), &shape, &out));
  for (int64_t i = 0; i < n; i++) {
    const weft_tensor_t *values = values_of(parts[i]);
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, at, values, 0, values->count));
    at += values->count;
  }
  return NULL;
}

static weft_status_t *join(weft_kernel_ctx_t *ctx, int rank, const weft_pack_t **parts) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  for (int64_t i = 0; i < in->count; i++) {
    parts[i] = weft_pack_at(in, i, &weft_ragged_type);
    WEFT_RETURN_IF_ERROR(check_component(ctx, parts[i], i, rank));
  }
  if (in->shape.rank == 0) {
    for (int i = 0; i <= rank; i++) weft_out_set(ctx, i, weft_tensor_retain(parts[0]->items[i]));
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(put_outer(ctx));
  WEFT_RETURN_IF_ERROR(put_lengths(ctx, parts));
  for (int k = 0; k < rank; k++) WEFT_RETURN_IF_ERROR(put_inner(ctx, parts, k, in->shape.rank + k));
  return put_values(ctx, parts);
}

WEFT_ATTRS(from_variant_compute, (INT, input_ragged_rank))
static weft_status_t *from_variant_compute(weft_kernel_ctx_t *ctx,
                                           const from_variant_compute_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  int rank = ctx->node->num_outputs - 1 - in->shape.rank;
  if (rank < 0 || (attrs->input_ragged_rank != -1 && attrs->input_ragged_rank != rank)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
                      "output_ragged_rank: %d, input_ragged_rank: %" PRId64 ", encoded_variant.dims(): %d.",
                      ctx->node->num_outputs - 1, attrs->input_ragged_rank, in->shape.rank);
  }
  const weft_pack_t **parts = weft_calloc((size_t)in->count + 1, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("%" PRId64 " ragged tensors", in->count);
  weft_status_t *s = join(ctx, rank, parts);
  weft_free(parts);
  return s;
}

/* ---- RaggedTensorToVariantGradient: the values of the variants, one behind the other ---- */

/* Variant i's values; of one without any, zeros for as many rows as its splits say. */
static weft_status_t *put_gradient(const weft_kernel_ctx_t *ctx, int64_t i, weft_tensor_t *out, int64_t *at) {
  const weft_tensor_t *in = weft_in(ctx, 0), *splits = weft_in(ctx, 1);
  const weft_pack_t *p = weft_pack_at(in, i, &weft_ragged_type);
  int64_t n = 0;
  if (p != NULL && p->count > 0) {
    n = values_of(p)->count;
    if (values_of(p)->dtype != out->dtype || n > out->count - *at)
      return WEFT_ERROR(INVALID_ARGUMENT, "the gradient of component %" PRId64 " does not fit", i);
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, *at, values_of(p), 0, n));
  } else {
    if (i + 1 >= splits->count) return WEFT_ERROR(INVALID_ARGUMENT, "there are too few row splits");
    n = weft_cpu_int_at(splits, i + 1) - weft_cpu_int_at(splits, i);
    if (n < 0 || !weft_cpu_mul(n, out->shape.rank == 0 ? 1 : row_size(out), &n) || n > out->count - *at)
      return WEFT_ERROR(INVALID_ARGUMENT, "the row splits of component %" PRId64 " do not fit", i);
  }
  *at += n;
  return NULL;
}

static weft_status_t *gradient_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  int64_t at = 0;
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(weft_in(ctx, 2), "dense_values_shape", &shape));
  const weft_pack_t *only = in->count == 1 ? weft_pack_at(in, 0, &weft_ragged_type) : NULL;
  if (only != NULL && only->count > 0 && values_of(only)->dtype == dtype) {
    weft_out_set(ctx, 0, weft_tensor_retain(only->items[only->count - 1]));
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &shape, &out));
  weft_cpu_zero(out);
  for (int64_t i = 0; i < in->count; i++) WEFT_RETURN_IF_ERROR(put_gradient(ctx, i, out, &at));
  return NULL;
}

const weft_kernel_t weft_cpu_ragged_variant_kernels[] = {
    {.op = "RaggedTensorFromVariant", WEFT_COMPUTE(from_variant_compute)},
    {.op = "RaggedTensorToVariant", WEFT_COMPUTE(to_variant_compute)},
    {.op = "RaggedTensorToVariantGradient", .compute = gradient_compute},
    {0},
};
