/* ops/ragged.c - shape functions of ragged tensors. */
#include <inttypes.h>

#include "ops/infer.h"

weft_status_t *weft_infer_ragged_fill_empty_rows(weft_shape_ctx_t *c) {
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[0], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 3));
  WEFT_RETURN_IF_ERROR(
      weft_shape_merge_dim(weft_infer_dim(&c->inputs[0], 0), weft_infer_dim(&c->inputs[1], 0), &n));
  c->outputs[0] = c->outputs[1] = c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[3] = weft_shape_vector(n);
  return NULL;
}

/* The number of elements of a shape: 0 if one dim is, whatever the others are. */
static int64_t count_of(const weft_shape_t *s) {
  if (s->rank < 0) return WEFT_UNKNOWN_DIM;
  int64_t n = 1;
  bool is_known = true;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] == 0) return 0;
    is_known = is_known && s->dims[d] > 0 && !__builtin_mul_overflow(n, s->dims[d], &n);
  }
  return is_known ? n : WEFT_UNKNOWN_DIM;
}

/* Inputs 0 to n - 1, row splits, are vectors. */
static weft_status_t *splits_are_vectors(weft_shape_ctx_t *c, int n) {
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 1, NULL));
  return NULL;
}

weft_status_t *weft_infer_ragged_range(weft_shape_ctx_t *c) {
  int64_t rows = WEFT_UNKNOWN_DIM;
  bool are_scalars = true;
  for (int i = 0; i < 3; i++) {
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, i, 1));
    are_scalars = are_scalars && c->inputs[i].rank == 0;
    if (c->inputs[i].rank == 1) WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(c->inputs[i].dims[0], rows, &rows));
  }
  if (are_scalars) rows = 1;
  c->outputs[0] = weft_shape_vector(rows < 0 ? WEFT_UNKNOWN_DIM : rows + 1);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_ragged_gather(weft_shape_ctx_t *c) {
  int rank = c->num_inputs - 2, out_rank = c->num_outputs - 1;
  const weft_shape_t *indices = &c->inputs[rank + 1];
  weft_shape_t values;
  if (indices->rank >= 0 && indices->rank != out_rank - rank + 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank %d but is rank %d", out_rank - rank + 1,
                      indices->rank);
  }
  WEFT_RETURN_IF_ERROR(splits_are_vectors(c, rank));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[rank], 1, &values));
  for (int i = 0; i < out_rank; i++) c->outputs[i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  if (values.rank >= 0) values.dims[0] = WEFT_UNKNOWN_DIM;
  c->outputs[out_rank] = values;
  return NULL;
}

weft_status_t *weft_infer_ragged_to_sparse(weft_shape_ctx_t *c) {
  int rank = c->num_inputs - 1;
  weft_shape_t values;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[rank], 1, &values));
  WEFT_RETURN_IF_ERROR(splits_are_vectors(c, rank));
  int64_t width = values.rank < 0 ? WEFT_UNKNOWN_DIM : values.rank + rank, n = count_of(&values);
  c->outputs[0] = weft_shape_matrix(n, width);
  c->outputs[1] = weft_shape_vector(n);
  c->outputs[2] = weft_shape_vector(width);
  return NULL;
}

/* ---- RaggedTensorToTensor ---- */

static weft_status_t *check_partition_types(weft_shape_ctx_t *c, const weft_attr_t *types) {
  static const char *const known[] = {"FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"};
  for (int i = 0; i < types->n; i++) {
    int kind = 0;
    while (kind < 3 && !weft_str_is(types->list.strings[i], known[kind])) kind++;
    if (kind == 3) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported partition type: %.*s",
                        WEFT_STR_ARGS(types->list.strings[i]));
    }
    if (kind == 0 && i > 0) return WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be first");
    if (kind == 1 && i == 0) return WEFT_ERROR(INVALID_ARGUMENT, "VALUE_ROWIDS cannot be first");
    if (kind == 0 && (types->n < 2 || !weft_str_is(types->list.strings[1], known[1])))
      return WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be followed by VALUE_ROWIDS");
    if (i + 3 >= c->num_inputs || c->inputs[i + 3].rank < 0) continue;
    if (c->inputs[i + 3].rank != (kind == 0 ? 0 : 1)) {
      return kind == 0 ? WEFT_ERROR(INVALID_ARGUMENT, "FIRST_DIM_SIZE must be a scalar.")
                       : WEFT_ERROR(INVALID_ARGUMENT, "Row partition must be a vector.");
    }
  }
  if (types->n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Partition info types should not be empty");
  if (types->n == c->num_inputs - 3) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Number of row partition tensors (%d) does not equal the number of row partition types(%d).",
      c->num_inputs - 3, types->n);
}

static weft_status_t *check_default(const weft_shape_t *fallback, const weft_shape_t *values) {
  if (fallback->rank < 0 || values->rank < 0) return NULL;
  bool fits = fallback->rank < values->rank;
  for (int d = 0; fits && d < fallback->rank; d++) {
    int64_t of_default = fallback->dims[d], of_values = values->dims[d + 1];
    fits = of_default < 0 || of_values < 0 || of_default == 1 || of_default == of_values;
  }
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible",
                    WEFT_SHAPE_TEXT(fallback), WEFT_SHAPE_TEXT(values));
}

/* The shape that input i holds, or -1 for an unknown one. */
static weft_status_t *shape_or_unknown(weft_shape_ctx_t *c, int i, weft_shape_t *out) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, i, 1));
  *out = WEFT_UNKNOWN_SHAPE;
  if (weft_infer_is_known(c, i) || c->inputs[i].rank == 1) return weft_shape_from_input(c, i, out);
  if (c->inputs[i].rank < 0) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Received a shape scalar with unknown static value.  A static value of '-1' is required to "
      "represent an unknown shape.");
}

weft_status_t *weft_infer_ragged_to_tensor(weft_shape_ctx_t *c) {
  const weft_attr_t *types = weft_shape_attr(c, "row_partition_types");
  const weft_shape_t *values = &c->inputs[1];
  weft_shape_t out;
  WEFT_RETURN_IF_ERROR(shape_or_unknown(c, 0, &out));
  WEFT_RETURN_IF_ERROR(check_partition_types(c, types));
  WEFT_RETURN_IF_ERROR(check_default(&c->inputs[2], values));
  int ragged = types->n - (int)weft_str_is(types->list.strings[0], "FIRST_DIM_SIZE");
  if (values->rank >= 0 && out.rank < 0) {
    for (int d = 0, rank = ragged + values->rank; d < rank; d++) {
      if (d == 0) out = WEFT_SCALAR;
      WEFT_RETURN_IF_ERROR(weft_infer_push(&out, WEFT_UNKNOWN_DIM));
    }
  }
  if (values->rank >= 0 && ragged + values->rank != out.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rt_input.shape and shape=%s are incompatible: rt_input.rank = %d but shape.rank = %d",
                      WEFT_SHAPE_TEXT(&out), ragged + values->rank, out.rank);
  }
  for (int d = 1; d < values->rank; d++)
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(values->dims[d], out.dims[ragged + d], &out.dims[ragged + d]));
  c->outputs[0] = out;
  return NULL;
}

/* ---- variants ---- */

weft_status_t *weft_infer_ragged_to_variant(weft_shape_ctx_t *c) {
  int rank = c->num_inputs - 1;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[rank], 1, NULL));
  WEFT_RETURN_IF_ERROR(splits_are_vectors(c, rank));
  c->outputs[0] = WEFT_SCALAR;
  if (!weft_infer_bool(c, "batched_input")) return NULL;
  if (rank == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "ragged_rank=0 is not currently supported when batched_input=true.");
  int64_t n = weft_infer_dim(&c->inputs[0], 0);
  if (n == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Negative dimension size caused by subtracting 1 from 0");
  c->outputs[0] = weft_shape_vector(n < 0 ? n : n - 1);
  return NULL;
}

weft_status_t *weft_infer_ragged_from_variant(weft_shape_ctx_t *c) {
  int64_t in_rank = weft_infer_int(c, "input_ragged_rank"), out_rank = c->num_outputs - 1;
  if (c->inputs[0].rank >= 0 && in_rank >= 0 && c->inputs[0].rank != out_rank - in_rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank %" PRId64 " but is rank %d", out_rank - in_rank,
                      c->inputs[0].rank);
  }
  for (int i = 0; i < out_rank; i++) c->outputs[i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_ragged_to_variant_gradient(weft_shape_ctx_t *c) {
  return shape_or_unknown(c, 2, &c->outputs[0]);
}

weft_status_t *weft_infer_ragged_cross(weft_shape_ctx_t *c) {
  int ragged = weft_infer_list_length(c, "ragged_values_types"), sparse = (int)weft_infer_int(c, "Nsparse");
  weft_shape_t splits = weft_shape_vector(WEFT_UNKNOWN_DIM);
  if (ragged != weft_infer_list_length(c, "ragged_splits_types"))
    return WEFT_ERROR(INVALID_ARGUMENT, "ragged values and splits must have the same length.");
  if (sparse != weft_infer_list_length(c, "sparse_values_types"))
    return WEFT_ERROR(INVALID_ARGUMENT, "sparse indices and values must have the same length");
  for (int i = 0; i < ragged; i++)
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&splits, &c->inputs[ragged + i], &splits));
  for (int i = 2 * ragged + 3 * sparse; i < c->num_inputs; i++) {
    int64_t rows = weft_infer_dim(&c->inputs[i], 0), n = 0;
    if (c->inputs[i].rank < 0) continue;
    if (c->inputs[i].rank != 2)
      return WEFT_ERROR(INVALID_ARGUMENT, "tf.ragged.cross only supports inputs with rank=2");
    WEFT_RETURN_IF_ERROR(weft_infer_add(rows, 1, &n));
    WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(n, splits.dims[0], &splits.dims[0]));
  }
  c->outputs[0] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[1] = splits;
  return NULL;
}

/* ---- counts ---- */

static void set_counts(weft_shape_ctx_t *c, int64_t rank) {
  c->outputs[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, rank);
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  c->outputs[2] = weft_shape_vector(rank);
}

weft_status_t *weft_infer_dense_count(weft_shape_ctx_t *c) {
  weft_shape_t values = c->inputs[0];
  if (count_of(&c->inputs[1]) != 0) WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[1], &values, &values));
  set_counts(c, values.rank < 0 ? WEFT_UNKNOWN_DIM : values.rank);
  return NULL;
}

weft_status_t *weft_infer_ragged_count(weft_shape_ctx_t *c) {
  set_counts(c, c->inputs[1].rank < 0 ? WEFT_UNKNOWN_DIM : c->inputs[1].rank + 1);
  return NULL;
}
