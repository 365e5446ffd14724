/* ops/array_sharding.c - factor notation of ops that move elements.
 *
 * Dimensions of the tensor that is moved are a, b, c, ... in their order; a result names those that it keeps
 * whole along which elements do not move.
 */
#include "ops/infer.h"
#include "ops/shard.h"

void weft_shard_letters(weft_strbuf_t *out, int first, int end, uint32_t whole) {
  for (int i = first; i < end; i++) {
    weft_strbuf_putc(out, (whole & (UINT32_C(1) << i)) != 0 ? '_' : weft_shard_letter(i));
  }
}

int weft_shard_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return (int)(axis < 0 ? axis + rank : axis);
}

bool weft_shard_axes(const weft_shape_ctx_t *c, int i, int rank, uint32_t *out) {
  *out = 0;
  if (rank < 0 || !weft_infer_is_known(c, i)) return false;
  for (int64_t k = 0; k < weft_infer_num_values(c, i); k++) {
    int axis = weft_shard_axis(weft_infer_value(c, i, k), rank);
    if (axis < 0) return false;
    *out |= UINT32_C(1) << axis;
  }
  return true;
}

/* "ab_,,->ab_": input 0 with the dimensions of `whole` whole, control operands, and the same. */
static bool same(const weft_shape_ctx_t *c, uint32_t whole, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  if (rank < 0) return false;
  weft_shard_letters(out, 0, rank, whole);
  for (int i = 1; i < c->num_inputs; i++) weft_strbuf_putc(out, ',');
  weft_strbuf_puts(out, "->");
  weft_shard_letters(out, 0, rank, whole);
  return true;
}

bool weft_shard_bitcast(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int in = c->inputs[0].rank, to = c->outputs[0].rank;
  if (in < 0 || to < 0) return false;
  int common = in < to ? in : to;
  weft_shard_letters(out, 0, common, 0);
  if (in > common) weft_strbuf_putc(out, '_');
  weft_strbuf_puts(out, "->");
  weft_shard_letters(out, 0, common, 0);
  if (to > common) weft_strbuf_putc(out, '_');
  return true;
}

/* Letters are the result's dimensions. */
bool weft_shard_broadcast_to(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const weft_shape_t *in = &c->inputs[0], *to = &c->outputs[0];
  if (!weft_shape_is_known(in) || !weft_shape_is_known(to)) return false;
  int extra = to->rank - in->rank;
  for (int i = 0; i < in->rank; i++) {
    bool is_same = in->dims[i] == to->dims[i + extra];
    weft_strbuf_putc(out, is_same ? weft_shard_letter(i + extra) : '_');
  }
  weft_strbuf_puts(out, ",[");
  weft_shard_letters(out, 0, to->rank, 0);
  weft_strbuf_puts(out, "]->");
  weft_shard_letters(out, 0, to->rank, 0);
  return true;
}

static bool concat(const weft_shape_ctx_t *c, int axis_input, int first, weft_strbuf_t *out) {
  int rank = c->inputs[first].rank;
  uint32_t axis;
  if (!weft_shard_axes(c, axis_input, rank, &axis) || axis == 0) return false;
  if (first > 0) weft_strbuf_putc(out, ',');
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_puts(out, first > 0 ? "*->" : "*,->");
  weft_shard_letters(out, 0, rank, axis);
  return true;
}
bool weft_shard_concat(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return concat(c, 0, 1, out); }
bool weft_shard_concat_v2(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  return concat(c, c->num_inputs - 1, 0, out);
}

/* Blocks of pixels go to channels and back: rows and columns are split at whole blocks. */
bool weft_shard_depth_to_space(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_str_t format = weft_infer_str(c, "data_format");
  if (!weft_str_is(format, "NHWC") && !weft_str_is(format, "NCHW")) return false;
  weft_strbuf_puts(out, weft_str_is(format, "NHWC") ? "bhw_->bhw_" : "b_hw->b_hw");
  return true;
}

bool weft_shard_ensure_shape(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_shape_t want = weft_infer_shape(c, "shape");
  uint32_t whole = 0;
  for (int i = 0; i < want.rank; i++) {
    if (want.dims[i] >= 0) whole |= UINT32_C(1) << i;
  }
  return same(c, whole, out);
}

bool weft_shard_fill(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  if (c->outputs[0].rank < 0) return false;
  weft_strbuf_putc(out, '[');
  weft_shard_letters(out, 0, c->outputs[0].rank, 0);
  weft_strbuf_puts(out, "],->");
  weft_shard_letters(out, 0, c->outputs[0].rank, 0);
  return true;
}

/* The table: a to its rank; dimensions of the indices that are no batch dimensions follow. The dimension that
 * is looked up is masked: a part of the table gives zeros for the indices that it lacks. */
bool weft_shard_gather(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  bool is_variable = c->input_types[0] == WEFT_RESOURCE;
  int rank = is_variable ? c->handles[0].shape.rank : c->inputs[0].rank, indices = c->inputs[1].rank;
  int64_t batch = weft_op_attr(c->op, WEFT_STR("batch_dims")) == NULL ? 0 : weft_infer_int(c, "batch_dims");
  if (rank < 1 || indices < 0) return false;
  if (batch < 0) batch += indices;
  int axis = weft_shard_axis(batch, rank);
  if (c->num_inputs > 2) {
    if (!weft_infer_is_known(c, 2)) return false;
    axis = weft_shard_axis(weft_infer_value(c, 2, 0), rank);
  }
  if (batch < 0 || batch > indices || axis < batch || rank + indices > 26) return false;
  int last = rank + indices;
  weft_shard_letters(out, 0, axis + 1, 0);
  weft_strbuf_putc(out, ':');
  weft_shard_letters(out, axis + 1, rank, 0);
  weft_strbuf_putc(out, ',');
  weft_shard_letters(out, 0, (int)batch, 0);
  weft_shard_letters(out, rank + (int)batch, last, 0);
  weft_strbuf_puts(out, c->num_inputs > 2 ? ",->" : "->");
  weft_shard_letters(out, 0, axis, 0);
  weft_shard_letters(out, rank + (int)batch, last, 0);
  weft_shard_letters(out, axis + 1, rank, 0);
  return true;
}

bool weft_shard_gather_nd(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const weft_shape_t *table = c->input_types[0] == WEFT_RESOURCE ? &c->handles[0].shape : &c->inputs[0];
  int rank = table->rank, indices = c->inputs[1].rank;
  if (rank < 0 || indices < 1 || rank + indices > 26) return false;
  int64_t depth = c->inputs[1].dims[indices - 1];
  if (depth < 0 || depth > rank) return false;
  weft_shard_letters(out, 0, rank, (UINT32_C(1) << depth) - 1);
  weft_strbuf_putc(out, ',');
  weft_shard_letters(out, rank, rank + indices - 1, 0);
  weft_strbuf_puts(out, "_->");
  weft_shard_letters(out, rank, rank + indices - 1, 0);
  weft_shard_letters(out, (int)depth, rank, 0);
  return true;
}

/* Matrices and their diagonals: all but the last two dimensions of the matrices are examples. Operands that
 * are no scalars and of the type of the matrices have them. */
bool weft_shard_matrices(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = 0;
  for (int i = 0; i < c->num_inputs + c->num_outputs; i++) {
    int r = i < c->num_inputs ? c->inputs[i].rank : c->outputs[i - c->num_inputs].rank;
    if (r < 0) return false;
    if (r > rank) rank = r;
  }
  for (int i = 0; i < c->num_inputs + c->num_outputs; i++) {
    bool is_input = i < c->num_inputs;
    int r = is_input ? c->inputs[i].rank : c->outputs[i - c->num_inputs].rank;
    if (i > 0) weft_strbuf_puts(out, i == c->num_inputs ? "->" : ",");
    if (is_input && (c->op->inputs[i].kind != WEFT_ARG_ATTR || r == 0)) continue;
    weft_shard_letters(out, 0, r, ~((UINT32_C(1) << (rank - 2)) - 1));
  }
  return rank >= 2;
}

bool weft_shard_one_hot(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  if (rank < 0) return false;
  int axis = weft_shard_axis(weft_infer_int(c, "axis"), rank + 1);
  if (axis < 0) return false;
  weft_shard_letters(out, 0, rank, 0);
  weft_strbuf_puts(out, ",,,->");
  weft_shard_letters(out, 0, axis, 0);
  weft_strbuf_putc(out, '_');
  weft_shard_letters(out, axis, rank, 0);
  return true;
}

bool weft_shard_pack(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank, axis = rank < 0 ? -1 : weft_shard_axis(weft_infer_int(c, "axis"), rank + 1);
  if (axis < 0) return false;
  weft_shard_letters(out, 0, rank, 0);
  weft_strbuf_puts(out, rank == 0 ? "->" : "*->"); /* scalars have no dimension that a star could repeat */
  if (rank == 0) return false;
  weft_shard_letters(out, 0, axis, 0);
  weft_strbuf_putc(out, '_');
  weft_shard_letters(out, axis, rank, 0);
  return true;
}

bool weft_shard_unpack(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank, axis = rank < 0 ? -1 : weft_shard_axis(weft_infer_int(c, "axis"), rank);
  if (axis < 0 || rank < 2) return false;
  weft_shard_letters(out, 0, rank, UINT32_C(1) << axis);
  weft_strbuf_puts(out, "->");
  weft_shard_letters(out, 0, axis, 0);
  weft_shard_letters(out, axis + 1, rank, 0);
  weft_strbuf_putc(out, '*');
  return true;
}

bool weft_shard_pad(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  uint32_t whole = 0;
  if (c->inputs[0].rank < 0 || !weft_infer_is_known(c, 1)) return false;
  for (int i = 0; i < c->inputs[0].rank; i++) {
    bool is_padded = weft_infer_value(c, 1, 2 * i) != 0 || weft_infer_value(c, 1, 2 * i + 1) != 0;
    if (is_padded) whole |= UINT32_C(1) << i;
  }
  return same(c, whole, out);
}

/* Dimensions i to i_end-1 of the one shape are dimensions k to k_end-1 of the other: elements keep their
 * order, so that the outermost that is not 1 can be split in both, at multiples. */
static void name_group(const weft_shape_t *from, int i, int i_end, const weft_shape_t *to, int k, int k_end,
                       char letter, char *names[2]) {
  while (i < i_end && from->dims[i] == 1) i++;
  while (k < k_end && to->dims[k] == 1) k++;
  if (i == i_end || k == k_end) return;
  int64_t a = from->dims[i], b = to->dims[k];
  if (a == 0 || b == 0 || (a < b ? b % a : a % b) != 0) return;
  names[0][i] = names[1][k] = letter;
}

bool weft_shard_reshape(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const weft_shape_t *from = &c->inputs[0], *to = &c->outputs[0];
  char text[2][WEFT_MAX_DIMS + 1] = {{0}}, *names[2] = {text[0], text[1]};
  bool has_sizes = c->num_inputs > 1 && weft_shape_count(&c->inputs[1]) == to->rank &&
                   c->inputs[1].rank == 1 && weft_op_attr(c->op, WEFT_STR("Tshape")) != NULL;
  if (!weft_shape_is_known(from) || !weft_shape_is_known(to) || weft_shape_count(from) == 0) return false;
  memset(text[0], '_', (size_t)from->rank);
  memset(text[1], '_', (size_t)to->rank);
  for (int i = 0, k = 0, letter = 0; i < from->rank && k < to->rank; letter++) {
    int i_end = i + 1, k_end = k + 1;
    int64_t a = from->dims[i], b = to->dims[k];
    while (a != b) {
      if (a < b ? i_end == from->rank : k_end == to->rank) return false;
      if (a < b)
        a *= from->dims[i_end++];
      else
        b *= to->dims[k_end++];
    }
    name_group(from, i, i_end, to, k, k_end, weft_shard_letter(letter), names);
    i = i_end;
    k = k_end;
  }
  weft_strbuf_puts(out, text[0]);
  if (c->num_inputs > 1) weft_strbuf_puts(out, ",");
  if (has_sizes) weft_strbuf_printf(out, "[%s]", text[1]);
  weft_strbuf_printf(out, "->%s", text[1]);
  return true;
}

/* Without a list of dimensions a part of one row would lose that, too. */
bool weft_shard_squeeze(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  return weft_infer_list_length(c, "squeeze_dims") > 0 && weft_shard_reshape(c, out);
}

bool weft_shard_reverse(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const weft_tensor_t *dims = c->values[1];
  uint32_t whole = 0;
  if (dims == NULL || dims->dtype != WEFT_BOOL) return false;
  for (int i = 0; i < dims->count && i < WEFT_MAX_DIMS; i++) {
    if (((const bool *)dims->data)[i]) whole |= UINT32_C(1) << i;
  }
  return same(c, whole, out);
}
bool weft_shard_reverse_axes(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  uint32_t whole;
  return weft_shard_axes(c, 1, c->inputs[0].rank, &whole) && same(c, whole, out);
}
bool weft_shard_roll(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  uint32_t whole;
  return weft_shard_axes(c, 2, c->inputs[0].rank, &whole) && same(c, whole, out);
}

bool weft_shard_reverse_sequence(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  if (rank < 0) return false;
  int along = weft_shard_axis(weft_infer_int(c, "seq_dim"), rank);
  int batch = weft_shard_axis(weft_infer_int(c, "batch_dim"), rank);
  if (along < 0 || batch < 0 || along == batch) return false;
  uint32_t whole = UINT32_C(1) << along;
  weft_shard_letters(out, 0, rank, whole);
  weft_strbuf_printf(out, ",%c->", weft_shard_letter(batch));
  weft_shard_letters(out, 0, rank, whole);
  return true;
}

/* Updates that go to one place add up: parts of them give terms of a sum. */
bool weft_shard_scatter_nd(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int indices = c->inputs[0].rank, updates = c->inputs[1].rank, rank = c->outputs[0].rank;
  if (indices < 1 || updates < indices - 1 || rank < 0) return false;
  int64_t depth = c->inputs[0].dims[indices - 1];
  if (depth < 0 || rank - depth != updates - (indices - 1)) return false;
  weft_shard_letters(out, 0, indices - 1, 0);
  weft_strbuf_puts(out, "_,");
  weft_shard_letters(out, 0, updates, 0);
  for (int result = 0; result < 2; result++) { /* the shape, and what has it */
    weft_strbuf_puts(out, result == 0 ? ",[" : "]->");
    for (int64_t i = 0; i < depth; i++) weft_strbuf_putc(out, '_');
    weft_shard_letters(out, indices - 1, updates, 0);
  }
  return true;
}

/* Adding or replacing whole rows: split within rows. */
bool weft_shard_tensor_scatter(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank, indices = c->inputs[1].rank;
  if (rank < 0 || indices < 1) return false;
  int64_t depth = c->inputs[1].dims[indices - 1];
  if (depth < 0 || depth > rank) return false;
  uint32_t whole = (UINT32_C(1) << depth) - 1;
  weft_shard_letters(out, 0, rank, whole);
  weft_strbuf_puts(out, ",,");
  for (int i = 0; i < indices - 1; i++) weft_strbuf_putc(out, '_');
  weft_shard_letters(out, (int)depth, rank, 0);
  weft_strbuf_puts(out, "->");
  weft_shard_letters(out, 0, rank, whole);
  return true;
}

bool weft_shard_slice(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const weft_shape_t *in = &c->inputs[0];
  uint32_t whole = 0;
  if (in->rank < 0 || !weft_infer_is_known(c, 1) || !weft_infer_is_known(c, 2)) return false;
  for (int i = 0; i < in->rank; i++) {
    int64_t size = weft_infer_value(c, 2, i);
    bool keeps = weft_infer_value(c, 1, i) == 0 && (size == -1 || (size >= 0 && size == in->dims[i]));
    if (!keeps) whole |= UINT32_C(1) << i;
  }
  weft_shard_letters(out, 0, in->rank, whole);
  weft_strbuf_puts(out, ",,[");
  weft_shard_letters(out, 0, in->rank, whole);
  weft_strbuf_puts(out, "]->");
  weft_shard_letters(out, 0, in->rank, whole);
  return true;
}

bool weft_shard_space_to_batch(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int64_t blocks = c->inputs[1].rank == 1 ? c->inputs[1].dims[0] : -1;
  if (blocks < 0 || blocks >= WEFT_MAX_DIMS) return false;
  return same(c, (UINT32_C(1) << (blocks + 1)) - 1, out);
}

bool weft_shard_split(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[1].rank;
  uint32_t axis;
  if (!weft_shard_axes(c, 0, rank, &axis) || axis == 0) return false;
  weft_strbuf_putc(out, ',');
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_puts(out, "->");
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_putc(out, '*');
  return true;
}
bool weft_shard_split_v(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  uint32_t axis;
  if (!weft_shard_axes(c, 2, rank, &axis) || axis == 0) return false;
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_puts(out, ",,->");
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_putc(out, '*');
  return true;
}

static bool mask_bit(const weft_shape_ctx_t *c, const char *name, int64_t i) {
  return (weft_infer_int(c, name) >> i & 1) != 0;
}

/* Does entry k of a strided slice take the whole of a dimension of that size, in order? */
static bool takes_all(const weft_shape_ctx_t *c, int first_input, int64_t k, int64_t size) {
  int64_t begin = weft_infer_value(c, first_input, k), end = weft_infer_value(c, first_input + 1, k);
  if (weft_infer_value(c, first_input + 2, k) != 1) return false;
  bool from_start = mask_bit(c, "begin_mask", k) || begin == 0;
  return from_start && (mask_bit(c, "end_mask", k) || (size >= 0 && end >= size));
}

/* Writes the dimensions of the tensor that is sliced, and those of the slice. */
static bool sliced_dims(const weft_shape_ctx_t *c, int first_input, const weft_shape_t *whole,
                        weft_strbuf_t *dims, weft_strbuf_t *slice) {
  int64_t n = weft_infer_num_values(c, first_input), used = 0;
  for (int i = first_input; i < first_input + 3; i++) {
    if (!weft_infer_is_known(c, i)) return false;
  }
  for (int64_t k = 0; k < n; k++) {
    if (!mask_bit(c, "ellipsis_mask", k) && !mask_bit(c, "new_axis_mask", k)) used++;
  }
  int dim = 0, rest = whole->rank - (int)used;
  if (rest < 0) return false;
  for (int64_t k = 0; k <= n; k++) {
    if (k == n || mask_bit(c, "ellipsis_mask", k)) { /* without an ellipsis it is at the end */
      for (; rest > 0; rest--, dim++) {
        weft_strbuf_putc(dims, weft_shard_letter(dim));
        weft_strbuf_putc(slice, weft_shard_letter(dim));
      }
      continue;
    }
    if (mask_bit(c, "new_axis_mask", k)) {
      weft_strbuf_putc(slice, '_');
      continue;
    }
    bool shrinks = mask_bit(c, "shrink_axis_mask", k);
    char name = !shrinks && takes_all(c, first_input, k, whole->dims[dim]) ? weft_shard_letter(dim) : '_';
    weft_strbuf_putc(dims, name);
    if (!shrinks) weft_strbuf_putc(slice, name);
    dim++;
  }
  return true;
}

bool weft_shard_strided_slice(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_t slice = WEFT_STRBUF_INIT;
  bool ok = c->inputs[0].rank >= 0 && sliced_dims(c, 1, &c->inputs[0], out, &slice);
  weft_strbuf_puts(out, ",,,->");
  weft_strbuf_append(out, weft_str_of(slice.data, slice.length));
  out->failed = out->failed || slice.failed;
  weft_strbuf_deinit(&slice);
  return ok;
}

bool weft_shard_strided_slice_grad(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_t dims = WEFT_STRBUF_INIT, slice = WEFT_STRBUF_INIT;
  bool ok = c->outputs[0].rank >= 0 && sliced_dims(c, 1, &c->outputs[0], &dims, &slice);
  weft_str_t whole = weft_str_of(dims.data, dims.length);
  weft_strbuf_printf(out, "[%.*s],,,,%.*s->%.*s", WEFT_STR_ARGS(whole), (int)slice.length,
                     slice.length == 0 ? "" : slice.data, WEFT_STR_ARGS(whole));
  out->failed = out->failed || dims.failed || slice.failed;
  weft_strbuf_deinit(&dims);
  weft_strbuf_deinit(&slice);
  return ok;
}

bool weft_shard_tile(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  uint32_t whole = 0;
  if (c->inputs[0].rank < 0 || !weft_infer_is_known(c, 1)) return false;
  for (int i = 0; i < c->inputs[0].rank; i++) {
    if (weft_infer_value(c, 1, i) != 1) whole |= UINT32_C(1) << i;
  }
  return same(c, whole, out);
}

bool weft_shard_transpose(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  uint32_t all;
  if (!weft_shard_axes(c, 1, rank, &all) || weft_infer_num_values(c, 1) != rank) return false;
  weft_shard_letters(out, 0, rank, 0);
  weft_strbuf_puts(out, ",->");
  for (int i = 0; i < rank; i++) {
    weft_strbuf_putc(out, weft_shard_letter(weft_shard_axis(weft_infer_value(c, 1, i), rank)));
  }
  return true;
}
