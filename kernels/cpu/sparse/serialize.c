/* kernels/cpu/sparse/serialize.c - sparse tensors as three strings or three variants: SerializeSparse,
 * SerializeManySparse, DeserializeSparse, DeserializeManySparse.
 *
 * A string is a TensorProto; a variant holds the tensor itself.
 */
#include <inttypes.h>

#include "kernels/cpu/sparse/rows.h"
#include "tensor/pack.h"
#include "tensor/tensor_proto.h"

enum { PARTS = 3 };

/* ---- to strings, to variants ---- */

/* Element i of `out`. */
static weft_status_t *put_part(weft_tensor_t *out, int64_t i, weft_tensor_t *part) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (out->dtype == WEFT_VARIANT) {
    weft_pack_t *box = NULL;
    WEFT_RETURN_IF_ERROR(weft_pack_of(&weft_boxed_type, &part, 1, &box));
    ((weft_variant_t **)out->data)[i] = &box->variant;
    return NULL;
  }
  weft_status_t *s = weft_tensor_to_proto_content(part, &text);
  if (s == NULL) s = weft_tensor_set_str(out, i, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *put_row(weft_tensor_t *out, int64_t row, const weft_sparse_parts_t *parts) {
  WEFT_RETURN_IF_ERROR(put_part(out, PARTS * row, parts->indices));
  WEFT_RETURN_IF_ERROR(put_part(out, PARTS * row + 1, parts->values));
  return put_part(out, PARTS * row + 2, parts->shape);
}

static weft_status_t *serialize_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_parts_t parts = {weft_in(ctx, 0), weft_in(ctx, 1), weft_in(ctx, 2)};
  weft_tensor_t *out = NULL;
  weft_shape_t shape = weft_shape_vector(PARTS);
  if (!weft_is_matrix(parts.indices)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices should be a matrix but received shape %s",
                      WEFT_SHAPE_TEXT(&parts.indices->shape));
  }
  if (!weft_is_vector(parts.values)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input values should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&parts.values->shape));
  }
  if (!weft_is_vector(parts.shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape should be a vector but received shape %s",
                      WEFT_SHAPE_TEXT(&parts.shape->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &out));
  return put_row(out, 0, &parts);
}

static weft_status_t *serialize_rows(const weft_sparse_t *x, weft_tensor_t *row_shape, weft_tensor_t *out) {
  int64_t next = 0;
  for (int64_t row = 0; row < x->dims[0]; row++) {
    weft_sparse_parts_t parts;
    WEFT_RETURN_IF_ERROR(weft_sparse_take_row(x, row, &next, &parts));
    parts.shape = weft_tensor_retain(row_shape);
    weft_status_t *s = put_row(out, row, &parts);
    weft_sparse_parts_release(&parts);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *serialize_many_compute(weft_kernel_ctx_t *ctx) {
  weft_sparse_t x;
  weft_shape_t shape;
  weft_tensor_t *out = NULL, *row_shape = NULL;
  WEFT_RETURN_IF_ERROR(weft_sparse_read_rows(ctx, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_make((int64_t[]){x.dims[0], PARTS}, 2, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &out));
  WEFT_RETURN_IF_ERROR(weft_sparse_row_shape(&x, &row_shape));
  weft_status_t *s = serialize_rows(&x, row_shape, out);
  weft_tensor_release(row_shape);
  return s;
}

/* ---- and back ---- */

/* The tensor in element i; the caller owns it. */
static weft_status_t *get_part(const weft_tensor_t *in, int64_t i, weft_tensor_t **out) {
  if (in->dtype == WEFT_STRING) return weft_tensor_from_proto(weft_tensor_str_at(in, i), out);
  const weft_pack_t *box = weft_pack_at(in, i, &weft_boxed_type);
  if (box == NULL || box->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Could not get a tensor from serialized_sparse[%" PRId64 ", %" PRId64 "]", i / PARTS,
                      i % PARTS);
  }
  *out = weft_tensor_retain(box->items[0]);
  return NULL;
}

static weft_status_t *get_rows(const weft_tensor_t *in, weft_dtype_t dtype, int64_t n,
                               weft_sparse_parts_t *rows) {
  for (int64_t i = 0; i < n; i++) {
    weft_shape_t shape;
    WEFT_RETURN_IF_ERROR(get_part(in, PARTS * i, &rows[i].indices));
    WEFT_RETURN_IF_ERROR(get_part(in, PARTS * i + 1, &rows[i].values));
    WEFT_RETURN_IF_ERROR(get_part(in, PARTS * i + 2, &rows[i].shape));
    WEFT_RETURN_IF_ERROR(weft_sparse_check_parts(&rows[i], dtype, i));
    if (in->dtype == WEFT_STRING && in->shape.rank > 1)
      WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(rows[i].shape, "shape", &shape));
  }
  return NULL;
}

/* Outputs 0 and 2, a stack with one dimension in front, with `leads` instead. Coordinates are not checked. */
static weft_status_t *unfold(weft_kernel_ctx_t *ctx, const weft_shape_t *leads) {
  weft_tensor_t *indices = ctx->outputs[0].tensor, *dims = ctx->outputs[2].tensor;
  weft_shape_t from, to = *leads;
  int64_t *at = NULL, n = indices->shape.dims[0];
  ctx->outputs[0].tensor = ctx->outputs[2].tensor = NULL;
  weft_status_t *s = weft_cpu_shape_from(dims, "shape", &from);
  if (s == NULL && to.rank + from.rank - 1 > WEFT_MAX_DIMS)
    s = WEFT_ERROR(INVALID_ARGUMENT, "a sparse tensor of %d dimensions", to.rank + from.rank - 1);
  for (int d = 1; s == NULL && d < from.rank; d++) to.dims[to.rank++] = from.dims[d];
  if (s == NULL && n > 0 && weft_shape_count(&from) == 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "Input tensor has %" PRId64 " non zero elements but shape %s is empty",
                   n, WEFT_SHAPE_TEXT(&from));
  if (s == NULL) s = weft_sparse_new_indices(ctx, 0, n, to.rank, &at);
  if (s == NULL) s = weft_sparse_put_shape(ctx, 2, to.dims, to.rank);
  if (s == NULL) weft_sparse_reshape_indices(indices->data, n, &from, &to, at);
  weft_tensor_release(indices);
  weft_tensor_release(dims);
  return s;
}

static weft_status_t *put_rows(weft_kernel_ctx_t *ctx, const weft_tensor_t *in, weft_dtype_t dtype,
                               weft_sparse_parts_t *rows, int64_t n) {
  weft_shape_t leads = in->shape, flat = weft_shape_vector(n), shape;
  leads.rank--;
  if (leads.rank == 0) {
    weft_out_set(ctx, 0, weft_tensor_retain(rows[0].indices));
    weft_out_set(ctx, 1, weft_tensor_retain(rows[0].values));
    weft_out_set(ctx, 2, weft_tensor_retain(rows[0].shape));
    return NULL;
  }
  if (in->dtype == WEFT_VARIANT) return weft_sparse_stack(ctx, dtype, rows, n, &leads);
  WEFT_RETURN_IF_ERROR(weft_sparse_stack(ctx, dtype, rows, n, &flat));
  return leads.rank > 1 ? unfold(ctx, &leads) : weft_cpu_shape_from(ctx->outputs[2].tensor, "shape", &shape);
}

static weft_status_t *deserialize_compute(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *in = weft_in(ctx, 0);
  weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[1]);
  if (in->shape.rank == 0 || in->shape.dims[in->shape.rank - 1] != PARTS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Serialized sparse should have 3 as the last dimension %s",
                      WEFT_SHAPE_TEXT(&in->shape));
  }
  int64_t n = in->count / PARTS;
  if (n == 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Serialized sparse should have at least 1 serialized tensor, but has a zero dimension %s",
        WEFT_SHAPE_TEXT(&in->shape));
  }
  weft_sparse_parts_t *rows = weft_calloc((size_t)n, sizeof *rows);
  if (rows == NULL) return WEFT_NO_MEMORY("%" PRId64 " sparse tensors", n);
  weft_status_t *s = get_rows(in, dtype, n, rows);
  if (s == NULL) s = put_rows(ctx, in, dtype, rows, n);
  for (int64_t i = 0; i < n; i++) weft_sparse_parts_release(&rows[i]);
  weft_free(rows);
  return s;
}

const weft_kernel_t weft_cpu_sparse_serialize_kernels[] = {
    {.op = "DeserializeManySparse", .compute = deserialize_compute},
    {.op = "DeserializeSparse", .compute = deserialize_compute},
    {.op = "SerializeManySparse", .compute = serialize_many_compute},
    {.op = "SerializeSparse", .compute = serialize_compute},
    {0},
};
