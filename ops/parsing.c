/* ops/parsing.c - shapes of what examples, CSV and bytes are read to. */
#include <inttypes.h>

#include "ops/infer.h"

/* ---- bytes and records ---- */

weft_status_t *weft_infer_decode_raw(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[0];
  return weft_infer_push(&c->outputs[0], WEFT_UNKNOWN_DIM);
}

weft_status_t *weft_infer_decode_padded_raw(weft_shape_ctx_t *c) {
  int64_t size = (int64_t)weft_dtype_size((weft_dtype_t)weft_infer_type(c, "out_type")),
          length = WEFT_UNKNOWN_DIM;
  if (weft_infer_is_known(c, 1)) WEFT_RETURN_IF_ERROR(weft_infer_dim_input(c, 1, &length));
  if (length != WEFT_UNKNOWN_DIM && length % size != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension size must be evenly divisible by %" PRId64 " but is %" PRId64, size, length);
  }
  c->outputs[0] = c->inputs[0];
  return weft_infer_push(&c->outputs[0], length == WEFT_UNKNOWN_DIM ? length : length / size);
}

weft_status_t *weft_infer_decode_csv(weft_shape_ctx_t *c) {
  for (int i = 1; i < c->num_inputs; i++) {
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, i, 1));
    if (c->inputs[i].rank == 1 && c->inputs[i].dims[0] > 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    }
  }
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = c->inputs[0];
  return NULL;
}

/* ---- messages ---- */

weft_status_t *weft_infer_decode_proto(weft_shape_ctx_t *c) {
  weft_shape_t values = c->inputs[0];
  c->outputs[0] = c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_push(&c->outputs[0], c->num_outputs - 1));
  WEFT_RETURN_IF_ERROR(weft_infer_push(&values, WEFT_UNKNOWN_DIM));
  for (int i = 1; i < c->num_outputs; i++) c->outputs[i] = values;
  return NULL;
}

weft_status_t *weft_infer_encode_proto(weft_shape_ctx_t *c) {
  weft_shape_t out = WEFT_UNKNOWN_SHAPE;
  for (int i = c->num_inputs - 1; i > 0; i--) {
    weft_shape_t prefix;
    WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[i], 2, &prefix));
    if (prefix.rank >= 0) prefix.rank--;
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&prefix, &out, &out));
  }
  c->outputs[0] = out;
  return NULL;
}

/* ---- examples ---- */

/* The outputs of sparse features: `n` each of indices, values and sizes. *at is the next output. */
static void sparse_outputs(weft_shape_ctx_t *c, int n, const weft_shape_t *batch, int *at) {
  int64_t rank = batch->rank == WEFT_UNKNOWN_DIM ? WEFT_UNKNOWN_DIM : batch->rank + 1;
  for (int i = 0; i < n; i++) {
    c->outputs[*at + i] = weft_shape_matrix(WEFT_UNKNOWN_DIM, rank);
    c->outputs[*at + n + i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
    c->outputs[*at + 2 * n + i] = weft_shape_vector(rank);
  }
  *at += 3 * n;
}

/* Of dense ones: the dimensions of the batch, then those in attribute `shapes`. */
static weft_status_t *dense_outputs(weft_shape_ctx_t *c, const char *shapes, const weft_shape_t *batch,
                                    int *at) {
  const weft_attr_t *list = weft_shape_attr(c, shapes);
  for (int i = 0; i < list->n; i++, ++*at) {
    const weft_shape_t *tail = &list->list.shapes[i];
    c->outputs[*at] = *batch;
    WEFT_RETURN_IF_ERROR(weft_infer_append(&c->outputs[*at], tail, 0, tail->rank));
  }
  return NULL;
}

/* Of ragged ones: values, and `levels` of row splits; the outermost counts the batch. */
static void ragged_outputs(weft_shape_ctx_t *c, int n, int levels, const weft_shape_t *batch, int *at) {
  int64_t rows =
      batch->rank == 1 && batch->dims[0] != WEFT_UNKNOWN_DIM ? batch->dims[0] + 1 : WEFT_UNKNOWN_DIM;
  for (int i = 0; i < n; i++) {
    c->outputs[*at + i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
    c->outputs[*at + n + i] = weft_shape_vector(rows);
    if (levels == 2) c->outputs[*at + 2 * n + i] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  }
  *at += (1 + levels) * n;
}

/* Two lists of attributes are of equal length. */
static weft_status_t *same_length(weft_shape_ctx_t *c, int64_t n, const char *list, const char *what) {
  if (weft_infer_list_length(c, list) == n) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "len(%s) != len(%s)", what, list);
}

/* A dense feature's shape has a rank, and only its first dimension may be unknown. */
static weft_status_t *check_dense(weft_shape_ctx_t *c, const char *types, const char *shapes, bool may_vary) {
  const weft_attr_t *list = weft_shape_attr(c, shapes);
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, types), shapes, types));
  for (int i = 0; i < list->n; i++) {
    const weft_shape_t *s = &list->list.shapes[i];
    bool is_ok = s->rank != WEFT_UNKNOWN_DIM;
    for (int d = may_vary ? 1 : 0; d < s->rank; d++) is_ok = is_ok && s->dims[d] != WEFT_UNKNOWN_DIM;
    if (is_ok) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s[%d] has unknown rank or unknown inner dimensions: %s", shapes, i,
                      WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

weft_status_t *weft_infer_parse_example(weft_shape_ctx_t *c) {
  weft_shape_t batch;
  int at = 0;
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "Nsparse"), "sparse_types", "sparse_keys"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "Ndense"), "Tdense", "dense_keys"));
  WEFT_RETURN_IF_ERROR(check_dense(c, "Tdense", "dense_shapes", true));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &batch));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  sparse_outputs(c, (int)weft_infer_int(c, "Nsparse"), &batch, &at);
  return dense_outputs(c, "dense_shapes", &batch, &at);
}

weft_status_t *weft_infer_parse_example_v2(weft_shape_ctx_t *c) {
  const weft_shape_t *batch = &c->inputs[0];
  int at = 0;
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "num_sparse"), "sparse_types", "sparse_keys"));
  WEFT_RETURN_IF_ERROR(
      same_length(c, weft_infer_list_length(c, "ragged_value_types"), "ragged_split_types", "ragged_keys"));
  WEFT_RETURN_IF_ERROR(check_dense(c, "Tdense", "dense_shapes", true));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, 1));
  for (int i = 2; i < 5; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 1, NULL));
  sparse_outputs(c, (int)weft_infer_int(c, "num_sparse"), batch, &at);
  WEFT_RETURN_IF_ERROR(dense_outputs(c, "dense_shapes", batch, &at));
  ragged_outputs(c, weft_infer_list_length(c, "ragged_value_types"), 1, batch, &at);
  return NULL;
}

weft_status_t *weft_infer_parse_single_example(weft_shape_ctx_t *c) {
  weft_shape_t batch;
  int at = 0;
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "num_sparse"), "sparse_types", "sparse_keys"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "num_sparse"), "sparse_keys", "sparse_types"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "Tdense"), "dense_keys", "Tdense"));
  WEFT_RETURN_IF_ERROR(check_dense(c, "Tdense", "dense_shapes", true));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 0, &batch));
  sparse_outputs(c, (int)weft_infer_int(c, "num_sparse"), &batch, &at);
  return dense_outputs(c, "dense_shapes", &batch, &at);
}

/* ---- sequence examples: a context, and lists with one dimension more ---- */

static weft_status_t *check_sequence(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(
      same_length(c, weft_infer_int(c, "Ncontext_sparse"), "context_sparse_types", "Ncontext_sparse"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "Nfeature_list_sparse"), "feature_list_sparse_types",
                                   "Nfeature_list_sparse"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_int(c, "Nfeature_list_dense"), "feature_list_dense_types",
                                   "Nfeature_list_dense"));
  WEFT_RETURN_IF_ERROR(check_dense(c, "Tcontext_dense", "context_dense_shapes", false));
  return check_dense(c, "feature_list_dense_types", "feature_list_dense_shapes", false);
}

static weft_status_t *sequence_outputs(weft_shape_ctx_t *c, const weft_shape_t *batch, bool has_lengths,
                                       bool has_ragged) {
  weft_shape_t list = *batch;
  int at = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_push(&list, WEFT_UNKNOWN_DIM));
  sparse_outputs(c, weft_infer_list_length(c, "context_sparse_types"), batch, &at);
  WEFT_RETURN_IF_ERROR(dense_outputs(c, "context_dense_shapes", batch, &at));
  if (has_ragged) ragged_outputs(c, weft_infer_list_length(c, "context_ragged_value_types"), 1, batch, &at);
  sparse_outputs(c, weft_infer_list_length(c, "feature_list_sparse_types"), &list, &at);
  WEFT_RETURN_IF_ERROR(dense_outputs(c, "feature_list_dense_shapes", &list, &at));
  int lengths = has_lengths ? weft_infer_list_length(c, "feature_list_dense_types") : 0;
  for (int i = 0; i < lengths; i++) c->outputs[at++] = *batch;
  if (has_ragged)
    ragged_outputs(c, weft_infer_list_length(c, "feature_list_ragged_value_types"), 2, batch, &at);
  return NULL;
}

weft_status_t *weft_infer_parse_sequence(weft_shape_ctx_t *c) {
  weft_shape_t batch;
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "context_sparse_types"),
                                   "context_sparse_keys", "context_sparse_types"));
  WEFT_RETURN_IF_ERROR(
      same_length(c, weft_infer_list_length(c, "Tcontext_dense"), "context_dense_keys", "Tcontext_dense"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "feature_list_sparse_types"),
                                   "feature_list_sparse_keys", "feature_list_sparse_types"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "feature_list_dense_types"),
                                   "feature_list_dense_keys", "feature_list_dense_types"));
  WEFT_RETURN_IF_ERROR(
      same_length(c, weft_infer_int(c, "Ncontext_dense"), "Tcontext_dense", "Ncontext_dense"));
  WEFT_RETURN_IF_ERROR(check_sequence(c));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &batch));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  return sequence_outputs(c, &batch, true, false);
}

weft_status_t *weft_infer_parse_sequence_v2(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "context_ragged_value_types"),
                                   "context_ragged_split_types", "context_ragged_value_types"));
  WEFT_RETURN_IF_ERROR(same_length(c, weft_infer_list_length(c, "feature_list_ragged_value_types"),
                                   "feature_list_ragged_split_types", "feature_list_ragged_value_types"));
  WEFT_RETURN_IF_ERROR(check_sequence(c));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, 1));
  for (int i = 2; i < 9; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[i], 1, NULL));
  return sequence_outputs(c, &c->inputs[0], true, true);
}

weft_status_t *weft_infer_parse_single_sequence(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(
      same_length(c, weft_infer_int(c, "Ncontext_dense"), "Tcontext_dense", "Ncontext_dense"));
  WEFT_RETURN_IF_ERROR(check_sequence(c));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  WEFT_RETURN_IF_ERROR(weft_infer_rank(&c->inputs[1], 1, NULL));
  return sequence_outputs(c, &(weft_shape_t){.rank = 0}, false, false);
}

/* ---- edit distance ---- */

static weft_status_t *sparse_input(weft_shape_ctx_t *c, int i) {
  weft_shape_t indices, values, sizes;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 2, &indices));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i + 1, 1, &values));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i + 2, 1, &sizes));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(indices.dims[0], values.dims[0], &n));
  return weft_shape_merge_dim(indices.dims[1], sizes.dims[0], &n);
}

weft_status_t *weft_infer_edit_distance(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(sparse_input(c, 0));
  WEFT_RETURN_IF_ERROR(sparse_input(c, 3));
  if (!weft_infer_is_known(c, 2) || !weft_infer_is_known(c, 5)) return NULL;
  int64_t rank = weft_infer_num_values(c, 2);
  if (rank != weft_infer_num_values(c, 5)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Num elements of hypothesis_shape does not match truth_shape: %" PRId64 " vs. %" PRId64,
                      rank, weft_infer_num_values(c, 5));
  }
  weft_shape_t out = WEFT_SCALAR;
  for (int64_t d = 0; d + 1 < rank; d++) {
    int64_t a = weft_infer_value(c, 2, d), b = weft_infer_value(c, 5, d);
    WEFT_RETURN_IF_ERROR(weft_infer_push(&out, a > b ? a : b));
  }
  c->outputs[0] = out;
  return NULL;
}
