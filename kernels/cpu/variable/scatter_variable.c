/* kernels/cpu/variable/scatter_variable.c - rows of a variable written by index, and read by index.
 *
 * A row that is named twice is updated twice, in order. Shapes are checked before the first row is written.
 * An index that is out of range fails the op where it is met, as in TensorFlow: ScatterX has then written the
 * rows before it, ScatterNdX all rows whose places are in range. Readers check all indices first.
 */
#include <inttypes.h>

#include "kernels/cpu/array/strided_slice.h"
#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/indices.h"
#include "kernels/state.h"
#include "tensor/update.h"

static weft_status_t *bad_index(const weft_tensor_t *indices, int64_t i, int64_t total) {
  char text[WEFT_INDEX_TEXT];
  const bool is_scalar = indices->shape.rank == 0;
  return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %" PRId64 " is not in [0, %" PRId64 ")",
                    is_scalar ? "" : weft_index_print(&indices->shape, indices->shape.rank, i, text),
                    weft_cpu_int_at(indices, i), total);
}

/* Of `each` indices in a batch, whose rows are `limit` each and `total` together: as TensorFlow's, an index
 * may name a row of another batch. */
static weft_status_t *check_indices(const weft_tensor_t *indices, int64_t each, int64_t limit,
                                    int64_t total) {
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t at = weft_cpu_int_at(indices, i), first = i / each * limit;
    if (at < -first || at >= total - first) return bad_index(indices, i, total);
  }
  return NULL;
}

/* Elements [to_at, to_at+n) of `to` op= [from_at, ...) of `from`, or its one element. NULL fn: assignment. */
static weft_status_t *update_row(weft_update_fn *fn, weft_tensor_t *to, int64_t to_at,
                                 const weft_tensor_t *from, int64_t from_at, int64_t n, bool is_scalar) {
  size_t size = weft_dtype_size(to->dtype);
  if (n == 0) return NULL;
  if (fn != NULL) {
    size_t offset = is_scalar ? 0 : (size_t)from_at * size;
    fn((char *)to->data + (size_t)to_at * size, (const char *)from->data + offset, n, is_scalar);
    return NULL;
  }
  if (!is_scalar) return weft_tensor_copy_elements(to, to_at, from, from_at, n);
  for (int64_t i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(to, to_at + i, from, 0, 1));
  return NULL;
}

static weft_status_t *check_value(const weft_variable_t *v, const weft_tensor_t *value) WEFT_REQUIRES(v->mu) {
  if (v->value == NULL) return weft_variable_uninitialized(v);
  if (v->value->dtype == value->dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "DType of variable handle and value does not match: %s and %s",
                    weft_dtype_name(v->value->dtype), weft_dtype_name(value->dtype));
}

/* ---- ScatterX: updates.shape = indices.shape + var.shape[1:], or a scalar ---- */

static weft_status_t *check_scatter(const weft_kernel_ctx_t *c, const weft_tensor_t *var,
                                    const weft_tensor_t *indices, const weft_tensor_t *updates) {
  const weft_shape_t *v = &var->shape, *i = &indices->shape, *u = &updates->shape;
  if (v->rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least 1-D, got shape %s", WEFT_SHAPE_TEXT(v));
  }
  const bool has_rank = u->rank == i->rank + v->rank - 1, is_ref = c->inputs[0].ref != NULL;
  if (u->rank == 0 || (has_rank && !is_ref && indices->count == 0)) return NULL;
  bool is_prefix = has_rank;
  for (int d = 0; is_prefix && d < i->rank; d++) is_prefix = u->dims[d] == i->dims[d];
  if (has_rank && !is_prefix && !is_ref) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The shape of indices (%s) must be a prefix of the shape of updates (%s)",
                      WEFT_SHAPE_TEXT(i), WEFT_SHAPE_TEXT(u));
  }
  bool fits = is_prefix;
  for (int d = 1; fits && d < v->rank; d++) fits = u->dims[i->rank + d - 1] == v->dims[d];
  if (!fits) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
                      "updates.shape %s, indices.shape %s, params.shape %s",
                      WEFT_SHAPE_TEXT(u), WEFT_SHAPE_TEXT(i), WEFT_SHAPE_TEXT(v));
  }
  return NULL;
}

/* Is an element 0? Of a bfloat16 the bits say it: read as a float, a denormal may count as 0. */
static bool has_zero(const weft_tensor_t *t) {
  weft_cpu_cast_fn *to_bool = weft_cpu_cast_loop(t->dtype, WEFT_BOOL);
  size_t size = weft_dtype_size(t->dtype);
  for (int64_t i = 0; i < t->count; i++) {
    uint8_t is_other = 0;
    if (t->dtype == WEFT_BF16) {
      is_other = (((const uint16_t *)t->data)[i] & 0x7fff) != 0;
    } else {
      to_bool(1, (const char *)t->data + (size_t)i * size, &is_other);
    }
    if (is_other == 0) return true;
  }
  return false;
}

/* The caller holds v->mu. `attrs`: those of the kernel. */
typedef weft_status_t *write_fn(weft_kernel_ctx_t *c, const void *attrs, weft_variable_t *v,
                                weft_update_fn *fn);

static weft_status_t *scatter_locked(weft_kernel_ctx_t *c, const void *attrs, weft_variable_t *v,
                                     weft_update_fn *fn) WEFT_REQUIRES(v->mu) {
  (void)attrs;
  const weft_tensor_t *indices = weft_in(c, 1), *updates = weft_in(c, 2);
  WEFT_RETURN_IF_ERROR(check_value(v, updates));
  WEFT_RETURN_IF_ERROR(check_scatter(c, v->value, indices, updates));
  bool may_divide = c->inputs[0].ref != NULL || *(const weft_update_t *)c->node->param != WEFT_UPDATE_DIV;
  if (!may_divide && indices->count > 0 && has_zero(updates))
    return WEFT_ERROR(INVALID_ARGUMENT, "updates must not contain 0");
  WEFT_RETURN_IF_ERROR(weft_variable_make_writable_locked(v));
  bool is_scalar = updates->shape.rank == 0;
  const int64_t limit = v->value->shape.dims[0];
  const int64_t row = weft_cpu_product(&v->value->shape, 1, v->value->shape.rank);
  for (int64_t i = 0; i < indices->count; i++) {
    const int64_t at = weft_cpu_int_at(indices, i);
    if (at < 0 || at >= limit) return bad_index(indices, i, limit);
    WEFT_RETURN_IF_ERROR(update_row(fn, v->value, at * row, updates, i * row, row, is_scalar));
  }
  return NULL;
}

/* ---- ScatterNdX: the last dimension of indices is a place in the variable ---- */

typedef struct places {
  int depth;     /* dimensions that a place names */
  int64_t count; /* of places */
  int64_t row;   /* elements at each */
} places_t;

/* How many rows of indices, from `begin` on, have their positions in one array on the stack. */
static int64_t block_size(const places_t *p, int64_t begin) {
  return p->count - begin < WEFT_INDEX_BLOCK ? p->count - begin : WEFT_INDEX_BLOCK;
}

static places_t places_of(const weft_tensor_t *params, const weft_tensor_t *indices) {
  int batch = indices->shape.rank - 1, depth = (int)indices->shape.dims[batch];
  return (places_t){depth, weft_cpu_product(&indices->shape, 0, batch),
                    weft_cpu_product(&params->shape, depth, params->shape.rank)};
}

/* Place i of indices is not in params. `gather`: the node that reads, NULL for one that writes. */
static weft_status_t *bad_place(const weft_tensor_t *params, const weft_tensor_t *indices, const places_t *p,
                                int64_t i, const weft_kernel_node_t *gather) {
  char place[WEFT_INDEX_TEXT], values[WEFT_INDEX_TEXT];
  const int batch = indices->shape.rank - 1;
  const char *at = batch == 0 ? "" : weft_index_print(&indices->shape, batch, i, place);
  const char *what = weft_index_values(indices, i, p->depth, values);
  if (gather == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %s does not index into shape %s", at, what,
                      WEFT_SHAPE_TEXT(&params->shape));
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "indices%s = %s does not index into param shape %s, node name: %.*s",
                    at, what, WEFT_SHAPE_TEXT(&params->shape), WEFT_STR_ARGS(gather->name));
}

/* Dimensions [a_begin, a_begin+n) of `a` are those from b_begin on of the updates. */
static weft_status_t *same_dims(const weft_shape_t *a, const char *a_name, int a_begin, const weft_shape_t *b,
                                int b_begin, int n) {
  for (int d = 0; d < n; d++) {
    if (a->dims[a_begin + d] == b->dims[b_begin + d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimensions [%d,%d) of %s[shape=%s] = %" PRId64
                      " must match dimensions [%d,%d) of updates[shape=%s] = %" PRId64,
                      a_begin, a_begin + n, a_name, WEFT_SHAPE_TEXT(a), a->dims[a_begin + d], b_begin,
                      b_begin + n, WEFT_SHAPE_TEXT(b), b->dims[b_begin + d]);
  }
  return NULL;
}

/* A vector of indices names a row each; else the last dimension names a place. */
static places_t updated_places(const weft_tensor_t *var, const weft_tensor_t *indices) {
  if (indices->shape.rank > 1) return places_of(var, indices);
  return (places_t){1, indices->count, weft_cpu_product(&var->shape, 1, var->shape.rank)};
}

static weft_status_t *check_scatter_nd(const weft_tensor_t *var, const weft_tensor_t *indices,
                                       const weft_tensor_t *updates) {
  const weft_shape_t *v = &var->shape, *i = &indices->shape, *u = &updates->shape;
  if (i->rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices shape must have rank at least one. Found:%s",
                      WEFT_SHAPE_TEXT(i));
  }
  bool is_nothing = indices->count == 0 && updates->count == 0;
  if (!is_nothing && (var->count == 0 || indices->count == 0 || updates->count == 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Indices and updates specified for empty output.  indices shape: %s",
                      WEFT_SHAPE_TEXT(i));
  }
  int batch = i->rank > 1 ? i->rank - 1 : 1;
  int64_t depth = i->rank > 1 ? i->dims[batch] : 1;
  if (u->rank < batch) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Updates shape must have rank at least %d. Found:%s", batch,
                      WEFT_SHAPE_TEXT(u));
  }
  WEFT_RETURN_IF_ERROR(same_dims(i, "indices", 0, u, 0, batch));
  if (depth > v->rank || u->rank - batch != v->rank - (int)depth) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimensions [%" PRId64
                      ",%d) of input[shape=%s] must match dimensions [%d,%d) of "
                      "updates[shape=%s]",
                      depth, v->rank, WEFT_SHAPE_TEXT(v), batch, u->rank, WEFT_SHAPE_TEXT(u));
  }
  WEFT_RETURN_IF_ERROR(same_dims(v, "input", (int)depth, u, batch, v->rank - (int)depth));
  if (var->count == 0 || (depth >= 1 && depth <= 7)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Only indices.shape[-1] values between 1 and 5 are currently supported.  Requested rank: "
                    "%" PRId64,
                    depth);
}

static weft_status_t *scatter_nd_locked(weft_kernel_ctx_t *c, const void *attrs, weft_variable_t *v,
                                        weft_update_fn *fn) WEFT_REQUIRES(v->mu) {
  const weft_tensor_t *indices = weft_in(c, 1), *updates = weft_in(c, 2);
  WEFT_RETURN_IF_ERROR(check_value(v, updates));
  WEFT_RETURN_IF_ERROR(check_scatter_nd(v->value, indices, updates));
  places_t p = updated_places(v->value, indices);
  WEFT_RETURN_IF_ERROR(weft_variable_make_writable_locked(v));
  int64_t at[WEFT_INDEX_BLOCK], bad = -1; /* the last, which TensorFlow names */
  for (int64_t begin = 0, n = 0; begin < p.count; begin += n) {
    n = block_size(&p, begin);
    const int64_t last = weft_index_positions(indices, begin, n, p.depth, &v->value->shape, at);
    if (last >= 0) bad = last;
    for (int64_t i = 0; i < n; i++) {
      if (at[i] < 0) continue;
      WEFT_RETURN_IF_ERROR(
          update_row(fn, v->value, at[i] * p.row, updates, (begin + i) * p.row, p.row, false));
    }
  }
  return bad < 0 || weft_ignores_bad_indices(attrs) ? NULL : bad_place(v->value, indices, &p, bad, NULL);
}

/* ---- StridedSliceAssign ---- */

static weft_status_t *assign_slice_locked(weft_kernel_ctx_t *c, const void *attrs, weft_variable_t *v,
                                          weft_update_fn *fn) WEFT_REQUIRES(v->mu) {
  weft_tensor_t *value = weft_in(c, 4), *whole = NULL;
  weft_slice_t slice;
  weft_move_t move;
  (void)fn;
  WEFT_RETURN_IF_ERROR(check_value(v, value));
  weft_shape_t shape = v->value->shape;
  WEFT_RETURN_IF_ERROR(weft_slice_decode(&shape, weft_in(c, 1), weft_in(c, 2), weft_in(c, 3), attrs, &slice));
  if (weft_shape_count(&slice.final) == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_slice_value(&slice, NULL, value, &whole));
  weft_status_t *s = weft_variable_make_writable_locked(v);
  weft_slice_move(&slice, &shape, true, &move);
  if (s == NULL) s = weft_move_run(&move, NULL, whole, v->value);
  weft_tensor_release(whole);
  return s;
}

/* Of truth values a sum is "or", a difference "not equal". */
static void add_bool(void *to, const void *from, int64_t n, bool is_scalar) {
  uint8_t *y = to;
  const uint8_t *x = from;
  for (int64_t i = 0; i < n; i++) y[i] |= x[is_scalar ? 0 : i];
}
static void sub_bool(void *to, const void *from, int64_t n, bool is_scalar) {
  uint8_t *y = to;
  const uint8_t *x = from;
  for (int64_t i = 0; i < n; i++) y[i] ^= x[is_scalar ? 0 : i];
}

static weft_update_fn *find_update(weft_update_t what, weft_dtype_t dtype) {
  if (dtype == WEFT_BOOL)
    return what == WEFT_UPDATE_ADD ? add_bool : what == WEFT_UPDATE_SUB ? sub_bool : NULL;
  return weft_update_find(what, dtype);
}

/* ---- the kernels that write: the param of a row is what they do with a value ---- */

static weft_status_t *write_rows(weft_kernel_ctx_t *c, write_fn *write, const void *attrs) {
  weft_variable_t *v = NULL;
  const weft_update_t what = *(const weft_update_t *)c->node->param;
  weft_dtype_t dtype = weft_in(c, c->node->num_inputs - 1)->dtype;
  weft_update_fn *fn = what == WEFT_UPDATE_SET ? NULL : find_update(what, dtype);
  if (fn == NULL && what != WEFT_UPDATE_SET) {
    return WEFT_ERROR(UNIMPLEMENTED, "no kernel for %.*s of type %s", WEFT_STR_ARGS(c->node->op_name),
                      weft_dtype_name(dtype));
  }
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_mutex_lock(&v->mu);
  weft_status_t *s = write(c, attrs, v, fn);
  weft_mutex_unlock(&v->mu);
  weft_object_release(&v->object);
  if (s == NULL && c->inputs[0].ref != NULL && c->node->num_outputs > 0) {
    c->outputs[0].ref = (weft_variable_t *)weft_object_retain(&c->inputs[0].ref->object);
  }
  return s;
}

static weft_status_t *scatter(weft_kernel_ctx_t *c) { return write_rows(c, scatter_locked, NULL); }

static weft_status_t *check_policy(const weft_kernel_setup_t *setup, void **out_state) {
  static const char *const policies[] = {"", "DEFAULT", "ERROR", "IGNORE"};
  weft_str_t policy = weft_knode_string(setup, "bad_indices_policy");
  for (int i = 0; i < 4; i++) {
    if (weft_str_is(policy, policies[i])) return weft_attrs_prepare(setup, out_state);
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "Unknown bad indices handling attribute: %.*s", WEFT_STR_ARGS(policy));
}

WEFT_ATTRS_OF(scatter_nd, weft_bad_indices)
static weft_status_t *scatter_nd(weft_kernel_ctx_t *c, const weft_bad_indices_attrs_t *attrs) {
  return write_rows(c, scatter_nd_locked, attrs);
}

WEFT_ATTRS_OF(assign_slice, weft_slice)
static weft_status_t *assign_slice(weft_kernel_ctx_t *c, const weft_slice_attrs_t *attrs) {
  return write_rows(c, assign_slice_locked, attrs);
}

/* ---- reading rows ---- */

/* out.shape = indices.shape + params.shape[b+1:] for b batch dimensions, which both start with. */
static weft_status_t *gather_rows(weft_kernel_ctx_t *c, const weft_tensor_t *params, int batch_dims) {
  const weft_tensor_t *indices = weft_in(c, 1);
  int rank = params->shape.rank;
  if (batch_dims < 0) batch_dims += indices->shape.rank;
  if (rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least 1 dimensional");
  if (batch_dims < 0 || batch_dims > indices->shape.rank || batch_dims >= rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_dims %d is not in the range of indices %s and params %s",
                      batch_dims, WEFT_SHAPE_TEXT(&indices->shape), WEFT_SHAPE_TEXT(&params->shape));
  }
  if (indices->shape.rank + rank - 1 - batch_dims > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ResourceGather gives too many dimensions");
  }
  weft_shape_t shape = indices->shape;
  for (int d = 0; d < batch_dims; d++) {
    if (indices->shape.dims[d] == params->shape.dims[d]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "params.shape[%d] should be equal to indices.shape[%d]: %s and %s", d,
                      d, WEFT_SHAPE_TEXT(&params->shape), WEFT_SHAPE_TEXT(&indices->shape));
  }
  for (int d = batch_dims + 1; d < rank; d++) shape.dims[shape.rank++] = params->shape.dims[d];
  int64_t limit = params->shape.dims[batch_dims],
          row = weft_cpu_product(&params->shape, batch_dims + 1, rank);
  int64_t batches = weft_cpu_product(&params->shape, 0, batch_dims),
          each = batches == 0 ? 0 : indices->count / batches;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(check_indices(indices, each, limit, batches * limit));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, params->dtype, &shape, &out));
  for (int64_t i = 0; i < indices->count && row > 0; i++) {
    int64_t from = (i / each * limit + weft_cpu_int_at(indices, i)) * row;
    WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, i * row, params, from, row));
  }
  return NULL;
}

static weft_status_t *gather_places(weft_kernel_ctx_t *c, const weft_tensor_t *params) {
  const weft_tensor_t *indices = weft_in(c, 1);
  if (params->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "params must be at least a vector");
  if (indices->shape.rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "indices must be at least a vector");
  int batch = indices->shape.rank - 1;
  if (indices->shape.dims[batch] > params->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "index innermost dimension length must be <= params rank; saw: %" PRId64 " vs. %d",
                      indices->shape.dims[batch], params->shape.rank);
  }
  places_t p = places_of(params, indices);
  if (batch + params->shape.rank - p.depth > WEFT_MAX_DIMS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "ResourceGatherNd gives too many dimensions");
  }
  weft_shape_t shape = indices->shape;
  shape.rank = batch;
  for (int d = p.depth; d < params->shape.rank; d++) shape.dims[shape.rank++] = params->shape.dims[d];
  weft_tensor_t *out = NULL;
  if (p.count > 0 && params->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Requested more than 0 entries, but params is empty.  Params shape: %s",
                      WEFT_SHAPE_TEXT(&params->shape));
  }
  int64_t at[WEFT_INDEX_BLOCK], bad = -1; /* the last, which TensorFlow names */
  for (int64_t begin = 0, n = 0; begin < p.count; begin += n) {
    n = block_size(&p, begin);
    const int64_t last = weft_index_positions(indices, begin, n, p.depth, &params->shape, at);
    if (last >= 0) bad = last;
  }
  if (bad >= 0) return bad_place(params, indices, &p, bad, c->node);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, params->dtype, &shape, &out));
  for (int64_t begin = 0, n = 0; begin < p.count && p.row > 0; begin += n) {
    n = block_size(&p, begin);
    (void)weft_index_positions(indices, begin, n, p.depth, &params->shape, at);
    for (int64_t i = 0; i < n; i++) {
      WEFT_RETURN_IF_ERROR(weft_cpu_copy(out, (begin + i) * p.row, params, at[i] * p.row, p.row));
    }
  }
  return NULL;
}

/* `batch_dims`: of rows; NULL: places are gathered. */
static weft_status_t *gather(weft_kernel_ctx_t *c, const int64_t *batch_dims) {
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_tensor_t *params = weft_variable_read(v);
  weft_object_release(&v->object);
  if (params == NULL) return WEFT_ERROR(NOT_FOUND, "the variable was destroyed while it was read");
  weft_status_t *s = NULL;
  if (params->dtype != weft_dtype_base(c->node->output_types[0])) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Trying to read variable with wrong dtype. Expected %s got %s",
                   weft_dtype_name(c->node->output_types[0]), weft_dtype_name(params->dtype));
  } else {
    s = batch_dims == NULL ? gather_places(c, params) : gather_rows(c, params, (int)*batch_dims);
  }
  weft_tensor_release(params);
  return s;
}

WEFT_ATTRS(resource_gather, (INT, batch_dims))
static weft_status_t *resource_gather(weft_kernel_ctx_t *c, const resource_gather_attrs_t *attrs) {
  return gather(c, &attrs->batch_dims);
}
static weft_status_t *resource_gather_nd(weft_kernel_ctx_t *c) { return gather(c, NULL); }

#define WRITE(op_, attr, set, run, what)                                                                    \
  {                                                                                                         \
    .op = op_, .type_attr = attr, .types = set, run, .param = &(const weft_update_t) { WEFT_UPDATE_##what } \
  }
#define BOTH(word, set, resource_set, what)                  \
  WRITE("Scatter" word, "T", set, .compute = scatter, what), \
      WRITE("ResourceScatter" word, "dtype", resource_set, .compute = scatter, what)
#define BOTH_ND(word, set, resource_set, what)                                                           \
  WRITE("ScatterNd" word, "T", set, WEFT_COMPUTE_CHECKED(scatter_nd, check_policy), what),               \
      WRITE("ResourceScatterNd" word, "T", resource_set, WEFT_COMPUTE_CHECKED(scatter_nd, check_policy), \
            what)

const weft_kernel_t weft_cpu_scatter_variable_kernels[] = {
    BOTH("Add", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS, ADD),
    BOTH("Div", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS, DIV),
    BOTH("Max", WEFT_SET_FLOATS | WEFT_SET_INDEX, WEFT_SET_REAL, MAX),
    BOTH("Min", WEFT_SET_FLOATS | WEFT_SET_INDEX, WEFT_SET_REAL, MIN),
    BOTH("Mul", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS, MUL),
    BOTH("Sub", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS, SUB),
    BOTH("Update", WEFT_SET_ALL, WEFT_SET_ALL, SET),
    BOTH_ND("Max", WEFT_SET_REAL, WEFT_SET_REAL, MAX),
    BOTH_ND("Min", WEFT_SET_REAL, WEFT_SET_REAL, MIN),
    BOTH_ND("Add", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL), ADD),
    BOTH_ND("Sub", WEFT_SET_NUMBERS, WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL), SUB),
    BOTH_ND("Update", WEFT_SET_ALL, WEFT_SET_ALL, SET),
    WEFT_KERNEL_ATTRS("ResourceGather", "dtype", WEFT_SET_ALL, resource_gather),
    WEFT_KERNEL("ResourceGatherNd", "dtype", WEFT_SET_ALL, NULL, resource_gather_nd, NULL),
    WRITE("ResourceStridedSliceAssign", "T", WEFT_SET_ALL, WEFT_COMPUTE(assign_slice), SET),
    WRITE("StridedSliceAssign", "T", WEFT_SET_ALL, WEFT_COMPUTE(assign_slice), SET),
    {0},
};
