/* kernels/cpu/ragged/ragged_cross.c - RaggedCross: crosses of features in ragged, sparse and dense columns.
 */
#include <inttypes.h>

#include "kernels/cpu/ragged/ragged.h"
#include "kernels/cpu/sparse/cross.h"

/* Inputs: values and splits of ragged columns, indices, values and shapes of sparse ones, dense ones. */
typedef struct ragged_inputs {
  int ragged, sparse, dense;
  int64_t rows;
} ragged_inputs_t;

static const weft_tensor_t *ragged_values(const weft_kernel_ctx_t *ctx, int i) { return weft_in(ctx, i); }
static const weft_tensor_t *ragged_splits(const weft_kernel_ctx_t *ctx, const ragged_inputs_t *in, int i) {
  return weft_in(ctx, in->ragged + i);
}
/* Part 0 to 2 of a sparse column: indices, values, shape. */
static const weft_tensor_t *sparse_part(const weft_kernel_ctx_t *ctx, const ragged_inputs_t *in, int part,
                                        int i) {
  return weft_in(ctx, 2 * in->ragged + part * in->sparse + i);
}
static const weft_tensor_t *dense_input(const weft_kernel_ctx_t *ctx, const ragged_inputs_t *in, int i) {
  return weft_in(ctx, 2 * in->ragged + 3 * in->sparse + i);
}

static weft_status_t *check_ragged(const weft_tensor_t *values, const weft_tensor_t *splits) {
  if (values->shape.rank != 1 || splits->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "tf.ragged.cross only supports inputs with rank=2.");
  bool fits = splits->count > 0 && weft_cpu_int_at(splits, 0) == 0;
  for (int64_t i = 1; fits && i < splits->count; i++)
    fits = weft_cpu_int_at(splits, i) >= weft_cpu_int_at(splits, i - 1);
  if (fits && weft_cpu_int_at(splits, splits->count - 1) == values->count) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid ragged splits: they must ascend from 0 to %" PRId64,
                    values->count);
}

static weft_status_t *check_sparse(const weft_kernel_ctx_t *ctx, const ragged_inputs_t *in, int i) {
  const weft_tensor_t *indices = sparse_part(ctx, in, 0, i), *values = sparse_part(ctx, in, 1, i),
                      *shape = sparse_part(ctx, in, 2, i);
  if (indices->shape.rank != 2 || values->shape.rank != 1 || shape->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid SparseTensor %d", i);
  if (shape->count != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "tf.ragged.cross only supports inputs with rank=2.");
  if (indices->shape.dims[0] != values->count || indices->shape.dims[1] != 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid SparseTensor %d: its indices do not fit", i);
  return NULL;
}

/* Column k of `c`; all must have as many rows. */
static weft_status_t *add_column(const weft_kernel_ctx_t *ctx, ragged_inputs_t *in, weft_cross_rows_t by,
                                 int i, weft_cross_column_t *out) {
  int64_t rows = 0;
  *out = (weft_cross_column_t){.by = by};
  if (by == WEFT_CROSS_RAGGED) {
    out->values = ragged_values(ctx, i);
    out->places = ragged_splits(ctx, in, i);
    WEFT_RETURN_IF_ERROR(check_ragged(out->values, out->places));
    rows = out->places->count - 1;
  } else if (by == WEFT_CROSS_DENSE) {
    out->values = dense_input(ctx, in, i);
    if (out->values->shape.rank != 2)
      return WEFT_ERROR(INVALID_ARGUMENT, "tf.ragged.cross only supports inputs with rank=2.");
    rows = out->values->shape.dims[0];
  } else {
    WEFT_RETURN_IF_ERROR(check_sparse(ctx, in, i));
    out->values = sparse_part(ctx, in, 1, i);
    out->places = sparse_part(ctx, in, 0, i);
    rows = weft_cpu_int_at(sparse_part(ctx, in, 2, i), 0);
  }
  if (in->rows < 0) in->rows = rows;
  if (rows < 0 || in->rows != rows)
    return WEFT_ERROR(INVALID_ARGUMENT, "inputs must all have the same batch dimension size.");
  return NULL;
}

static weft_status_t *add_columns(const weft_kernel_ctx_t *ctx, ragged_inputs_t *in, weft_str_t order,
                                  weft_cross_t *c) {
  static const char letters[] = "RSD";
  static const weft_cross_rows_t kinds[] = {WEFT_CROSS_RAGGED, WEFT_CROSS_SPARSE_UP_TO, WEFT_CROSS_DENSE};
  int next[] = {0, 0, 0}, limits[] = {in->ragged, in->sparse, in->dense};
  for (int i = 0; i < c->num_columns; i++) {
    const char *letter = order.data[i] == '\0' ? NULL : strchr(letters, order.data[i]);
    if (letter == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "Unexpected input_order value.");
    int k = (int)(letter - letters);
    if (next[k] >= limits[k]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "input_order \"%.*s\" names more than %d columns of a kind",
                        WEFT_STR_ARGS(order), limits[k]);
    }
    WEFT_RETURN_IF_ERROR(add_column(ctx, in, kinds[k], next[k]++, &c->columns[i]));
  }
  return NULL;
}

/* Output 1: the splits; then output 0: the crosses. */
static weft_status_t *put(weft_kernel_ctx_t *ctx, weft_cross_t *c, int64_t rows) {
  weft_shape_t shape;
  weft_tensor_t *splits = NULL, *values = NULL;
  int64_t n = 0, at = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_make((int64_t[]){rows + 1}, 1, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), &shape, &splits));
  weft_ragged_put(splits, 0, 0);
  for (int64_t b = 0; b < rows; b++) {
    WEFT_RETURN_IF_ERROR(weft_cross_next_row(c, b, &n));
    if (__builtin_add_overflow(at, n, &at) || !weft_ragged_fits(splits->dtype, at))
      return WEFT_ERROR(INVALID_ARGUMENT, "too many crosses");
    weft_ragged_put(splits, b + 1, at);
  }
  shape = weft_shape_vector(at);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &values));
  weft_cross_rewind(c);
  at = 0;
  for (int64_t b = 0; b < rows; b++, at += n) {
    WEFT_RETURN_IF_ERROR(weft_cross_next_row(c, b, &n));
    WEFT_RETURN_IF_ERROR(weft_cross_put(c, n, values, at));
  }
  return NULL;
}

WEFT_ATTRS(cross_compute, (INT, Nsparse), (STRING, input_order), (INT, num_buckets), (INT, hash_key),
           (TYPES, ragged_values_types))
static weft_status_t *cross_compute(weft_kernel_ctx_t *ctx, const cross_compute_attrs_t *attrs) {
  int ragged = attrs->ragged_values_types->n, sparse = (int)attrs->Nsparse;
  ragged_inputs_t in = {ragged, sparse, ctx->node->num_inputs - 2 * ragged - 3 * sparse, -1};
  weft_cross_t c;
  weft_status_t *s = weft_cross_init(&c, ragged + sparse + in.dense);
  c.separator = WEFT_STR("_X_");
  c.has_seed = true;
  c.seed = (uint64_t)attrs->hash_key;
  c.buckets = attrs->num_buckets;
  if (s == NULL) s = add_columns(ctx, &in, attrs->input_order, &c);
  if (s == NULL) s = put(ctx, &c, in.rows < 0 ? 0 : in.rows);
  weft_cross_deinit(&c);
  return s;
}

static weft_status_t *cross_prepare(const weft_kernel_setup_t *setup, void **out) {
  int ragged = weft_knode_attr(setup, "ragged_values_types")->n,
      dense = weft_knode_attr(setup, "dense_types")->n;
  int64_t sparse = weft_knode_int(setup, "Nsparse");
  if (ragged != weft_knode_attr(setup, "ragged_splits_types")->n)
    return WEFT_ERROR(INVALID_ARGUMENT, "ragged values and splits must have the same length");
  if (sparse != weft_knode_attr(setup, "sparse_values_types")->n)
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse indices and values must have the same length");
  if ((size_t)(ragged + sparse + dense) != weft_knode_string(setup, "input_order").length)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid length for input_order");
  return weft_attrs_prepare(setup, out);
}

const weft_kernel_t weft_cpu_ragged_cross_kernels[] = {
    {.op = "RaggedCross", WEFT_COMPUTE_CHECKED(cross_compute, cross_prepare)},
    {0},
};
