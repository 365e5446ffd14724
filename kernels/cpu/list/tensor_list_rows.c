/* kernels/cpu/list/tensor_list_rows.c - kernels of tensor lists: elements that are rows of one tensor. */
#include <inttypes.h>

#include "kernels/cpu/list/list_join.h"
#include "kernels/cpu/list/list_node.h"

/* A shape without its first dimension. */
static weft_shape_t row_shape(const weft_shape_t *s) {
  weft_shape_t row = *s;
  if (s->rank < 1) return row;
  row.rank--;
  memmove(row.dims, row.dims + 1, (size_t)row.rank * sizeof row.dims[0]);
  return row;
}

/* n elements of a shape below each other. */
static weft_status_t *shape_under(int64_t n, const weft_shape_t *element, weft_shape_t *out) {
  if (element->rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "the elements have too many dimensions");
  *out = (weft_shape_t){.rank = element->rank + 1, .dims = {n}};
  memcpy(out->dims + 1, element->dims, (size_t)element->rank * sizeof out->dims[0]);
  return NULL;
}

/* ---- many elements to one tensor ---- */

static weft_status_t *check_indices(const weft_tensor_list_t *l, const int32_t *indices, int64_t n) {
  for (int64_t i = 0; indices != NULL && i < n; i++) {
    if (indices[i] >= 0 && indices[i] < l->count) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Trying to gather element %d in a list with %" PRId64 " elements.",
                      indices[i], l->count);
  }
  return NULL;
}

/* The shape of each of n elements (all, or at `indices`) that are to be stacked. */
static weft_status_t *shape_to_stack(const weft_tensor_list_t *l, const int32_t *indices, int64_t n,
                                     const weft_tensor_t *given, weft_shape_t *out) {
  WEFT_RETURN_IF_ERROR(weft_list_declared_shape(l, given, out));
  if (n == 0 && !weft_shape_is_known(out)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Tried to stack elements of an empty list with non-fully-defined element_shape: %s",
                      WEFT_SHAPE_TEXT(out));
  }
  if (!weft_shape_is_known(&l->element_shape)) {
    WEFT_RETURN_IF_ERROR(check_indices(l, indices, n));
    WEFT_RETURN_IF_ERROR(weft_list_merge_items(l, indices, n, out));
  }
  if (weft_shape_is_known(out)) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
      "element_shape: %s",
      WEFT_SHAPE_TEXT(out));
}

/* Elements (all, or at `indices`) under a new first dimension. Indices of nothing are not looked at, as in
 * TensorFlow. */
static weft_status_t *stack_items(const weft_tensor_list_t *l, const int32_t *indices, int64_t n,
                                  const weft_tensor_t *given, weft_list_join_t *j) {
  weft_shape_t element;
  WEFT_RETURN_IF_ERROR(shape_to_stack(l, indices, n, given, &element));
  WEFT_RETURN_IF_ERROR(shape_under(n, &element, &j->shape));
  const int64_t each = weft_shape_count(&element);
  if (each == 0 || n == 0) return NULL;
  WEFT_RETURN_IF_ERROR(check_indices(l, indices, n));
  for (int64_t i = 0; i < n; i++) {
    weft_tensor_t *t = l->items[indices == NULL ? i : indices[i]];
    j->items[i] = t;
    j->at[i + 1] = (i + 1) * each;
    if (t == NULL || t->count == each) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "PartialTensorShape: Incompatible shapes during merge: %s vs. %s",
                      WEFT_SHAPE_TEXT(&element), WEFT_SHAPE_TEXT(&t->shape));
  }
  return NULL;
}

static weft_status_t *plan_stack(weft_kernel_ctx_t *c, weft_list_join_t **out) {
  const weft_tensor_list_t *l = NULL;
  int64_t wanted = weft_list_node(c)->num_elements;
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 0, &l));
  if (wanted != -1 && wanted != l->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Operation expected a list with %" PRId64 " elements but got a list with %" PRId64
                      " elements.",
                      wanted, l->count);
  }
  WEFT_RETURN_IF_ERROR(weft_list_join_new(c, l->dtype, l->count, out));
  return stack_items(l, NULL, l->count, weft_in(c, 1), *out);
}

static weft_status_t *plan_gather(weft_kernel_ctx_t *c, weft_list_join_t **out) {
  const weft_tensor_list_t *l = NULL;
  const weft_tensor_t *indices = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 0, &l));
  WEFT_RETURN_IF_ERROR(weft_list_join_new(c, l->dtype, indices->count, out));
  return stack_items(l, indices->data, indices->count, weft_in(c, 2), *out);
}

/* What an op gives, planned by `plan`, which leaves *out to be freed also where it fails. */
typedef weft_status_t *plan_fn(weft_kernel_ctx_t *c, weft_list_join_t **out);

static weft_status_t *run(weft_kernel_ctx_t *c, plan_fn *plan) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan(c, &j);
  if (s == NULL) return weft_list_join_run(j);
  weft_list_join_free(j);
  return s;
}

static void run_async(weft_kernel_ctx_t *c, plan_fn *plan) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan(c, &j);
  if (s == NULL) {
    weft_list_join_run_async(j);
    return;
  }
  weft_list_join_free(j);
  c->done(c, s);
}

#define PLANNED(name)                                                                     \
  static weft_status_t *list_##name(weft_kernel_ctx_t *c) { return run(c, plan_##name); } \
  static void list_##name##_async(weft_kernel_ctx_t *c) { run_async(c, plan_##name); }
PLANNED(stack)
PLANNED(gather)

/* Looks at the elements: `row` becomes the shape behind their first dimension, and `first` (-1: not known)
 * that dimension if it is the same in all. */
static weft_status_t *merge_rows(const weft_tensor_list_t *l, weft_shape_t *row, int64_t *first) {
  const int64_t given = *first;
  int64_t common = given;
  bool differs = false;
  for (int64_t i = 0; i < l->count; i++) {
    const weft_tensor_t *t = l->items[i];
    if (t == NULL) continue;
    if (t->shape.rank < 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Concat saw a scalar shape at index %" PRId64 " but requires at least vectors.", i);
    }
    const weft_shape_t of_item = row_shape(&t->shape);
    WEFT_RETURN_IF_ERROR(weft_list_merge(row, &of_item));
    if (given >= 0 && t->shape.dims[0] != given) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "First entry of element_shape input does not match the first dim of list element at "
                        "index: %" PRId64 " Expected: %" PRId64 " Actual: %" PRId64,
                        i, given, t->shape.dims[0]);
    }
    differs = differs || (common >= 0 && t->shape.dims[0] != common);
    common = t->shape.dims[0];
  }
  *first = differs ? -1 : common;
  return NULL;
}

/* The rows of element i: its own; of one that is not initialised those that `leading` says (NULL: nothing is
 * weft_list_node), else `first`. */
static weft_status_t *rows_of(const weft_tensor_list_t *l, int64_t i, const weft_tensor_t *leading,
                              int64_t first, int64_t *out) {
  const bool is_said = leading != NULL && i < leading->count;
  *out = is_said ? ((const int64_t *)leading->data)[i] : first;
  if (l->items[i] != NULL && l->items[i]->shape.rank > 0) *out = l->items[i]->shape.dims[0];
  if (*out >= 0) return NULL;
  return is_said || leading == NULL
             ? WEFT_ERROR(INVALID_ARGUMENT, "TensorListConcat cannot concat uninitialized tensors.")
             : WEFT_ERROR(INVALID_ARGUMENT,
                          "List contains uninitialized tensor at index %" PRId64
                          " but leading_dims has only %" PRId64 " elements.",
                          i, leading->count);
}

/* Elements one after the other along their first dimension, `first` (-1: not known); behind it they have the
 * shape `row`. */
static weft_status_t *concat_items(weft_kernel_ctx_t *c, const weft_tensor_list_t *l, weft_shape_t row,
                                   int64_t first, const weft_tensor_t *leading, weft_list_join_t **out) {
  weft_tensor_t *lengths = NULL;
  weft_shape_t vector = weft_shape_vector(l->count);
  int64_t rows = 0;
  if (!weft_shape_is_known(&l->element_shape)) WEFT_RETURN_IF_ERROR(merge_rows(l, &row, &first));
  if (!weft_shape_is_known(&row)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "All except the first dimension must be fully defined when concating a list without "
                      "tensors. element_shape: %s",
                      WEFT_SHAPE_TEXT(&row));
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_I64, &vector, &lengths));
  int64_t *length = lengths->data;
  for (int64_t i = 0; i < l->count; i++) {
    WEFT_RETURN_IF_ERROR(rows_of(l, i, leading, first, &length[i]));
    if (__builtin_add_overflow(rows, length[i], &rows))
      return WEFT_ERROR(INVALID_ARGUMENT, "the rows of the elements are too many to count");
  }
  WEFT_RETURN_IF_ERROR(weft_list_join_new(c, l->dtype, l->count, out));
  weft_list_join_t *j = *out;
  WEFT_RETURN_IF_ERROR(shape_under(rows, &row, &j->shape));
  int64_t each = weft_shape_count(&row);
  for (int64_t i = 0; i < l->count; i++) {
    j->items[i] = l->items[i];
    j->at[i + 1] = j->at[i] + length[i] * each;
    if (l->items[i] != NULL && l->items[i]->count != length[i] * each)
      return WEFT_ERROR(INVALID_ARGUMENT, "element %" PRId64 " has shape %s, which is no row of shape %s", i,
                        WEFT_SHAPE_TEXT(&l->items[i]->shape), WEFT_SHAPE_TEXT(&j->shape));
  }
  return NULL;
}

static weft_status_t *plan_concat(weft_kernel_ctx_t *c, weft_list_join_t **out) {
  const weft_tensor_list_t *l = NULL;
  const weft_shape_t *shape = &weft_list_node(c)->element_shape;
  if (shape->rank == 0) return WEFT_ERROR(INVALID_ARGUMENT, "element_shape must not be empty");
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 0, &l));
  return concat_items(c, l, row_shape(shape), -1, NULL, out);
}

static weft_status_t *plan_concat_v2(weft_kernel_ctx_t *c, weft_list_join_t **out) {
  const weft_tensor_list_t *l = NULL;
  weft_shape_t shape;
  WEFT_RETURN_IF_ERROR(weft_list_in(c, 0, &l));
  WEFT_RETURN_IF_ERROR(weft_list_declared_shape(l, weft_in(c, 1), &shape));
  if (shape.rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Concat requires elements to be at least vectors, found scalars instead.");
  }
  int64_t first = shape.rank > 0 && shape.dims[0] != WEFT_UNKNOWN_DIM ? shape.dims[0] : -1;
  return concat_items(c, l, row_shape(&shape), first, weft_in(c, 2), out);
}

PLANNED(concat)
PLANNED(concat_v2)

/* ---- one tensor to many elements ---- */

/* Rows [begin, begin+rows) of `t` become element i, which is there; `drop_first`: one row without its first
 * dimension. */
static weft_status_t *put_part(weft_kernel_ctx_t *c, weft_tensor_list_t *l, int64_t i, weft_tensor_t *t,
                               int64_t begin, int64_t rows, bool drop_first) {
  weft_shape_t shape = t->shape;
  weft_tensor_t *part = NULL;
  int64_t row = t->shape.dims[0] == 0 ? 0 : t->count / t->shape.dims[0];
  shape.dims[0] = rows;
  if (drop_first) shape = row_shape(&shape);
  WEFT_RETURN_IF_ERROR(weft_list_part(c, t, begin * row, &shape, &part));
  weft_tensor_release(l->items[i]);
  l->items[i] = part;
  return NULL;
}

/* A list of n elements of `shape` is to be made of a tensor's rows. */
static weft_status_t *check_row(const weft_shape_t *shape, const weft_tensor_t *t) {
  const weft_shape_t row = row_shape(&t->shape);
  if (weft_shape_compatible(shape, &row)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Specified a list with shape %s from a tensor with shape %s",
                    WEFT_SHAPE_TEXT(shape), WEFT_SHAPE_TEXT(&row));
}

static weft_status_t *need_vector(const weft_tensor_t *t) {
  if (t->shape.rank >= 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be at least a vector, but saw shape: %s",
                    WEFT_SHAPE_TEXT(&t->shape));
}

static weft_status_t *list_from_tensor(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = weft_in(c, 0);
  weft_shape_t shape;
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_shape(weft_in(c, 1), &shape));
  WEFT_RETURN_IF_ERROR(need_vector(t));
  WEFT_RETURN_IF_ERROR(check_row(&shape, t));
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(t->dtype, &shape, -1, t->shape.dims[0], &l));
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < l->count; i++) s = put_part(c, l, i, t, i, 1, true);
  return weft_list_give(c, l, s);
}

/* Finds how many elements a list needs that gets a row of `t` at each of the indices. */
static weft_status_t *places_of_rows(const weft_tensor_t *t, const weft_tensor_t *indices, int64_t *out) {
  if (indices->count != t->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid number of rows in input tensor. Expected: %" PRId64 " Actual: %" PRId64,
                      indices->count, t->shape.dims[0]);
  }
  *out = 0;
  for (int64_t i = 0; i < indices->count; i++) {
    const int64_t at = ((const int32_t *)indices->data)[i];
    if (at < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Indices in TensorListScatter must all be non-negative.");
    if (at >= *out) *out = at + 1;
  }
  return NULL;
}

/* Puts row i of `t` at indices[i], which is there. */
static weft_status_t *scatter_rows(weft_kernel_ctx_t *c, weft_tensor_list_t *l, weft_tensor_t *t,
                                   const weft_tensor_t *indices) {
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < indices->count; i++)
    s = put_part(c, l, ((const int32_t *)indices->data)[i], t, i, 1, true);
  return s;
}

static weft_status_t *list_scatter(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = weft_in(c, 0);
  weft_shape_t shape;
  weft_tensor_list_t *l = NULL;
  int64_t n = -1, needed = 0;
  WEFT_RETURN_IF_ERROR(weft_list_shape(weft_in(c, 2), &shape));
  if (c->node->num_inputs > 3) WEFT_RETURN_IF_ERROR(weft_list_int(c, 3, "num_elements", &n));
  if (n < -1)
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorListScatter expects num_elements >= -1, found: %" PRId64, n);
  WEFT_RETURN_IF_ERROR(need_vector(t));
  WEFT_RETURN_IF_ERROR(check_row(&shape, t));
  WEFT_RETURN_IF_ERROR(places_of_rows(t, weft_in(c, 1), &needed));
  if (n >= 0 && needed > n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorListScatter: Trying to scatter at index %" PRId64 " in list with size %" PRId64,
                      needed - 1, n);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(t->dtype, &shape, -1, n < 0 ? needed : n, &l));
  return weft_list_give(c, l, scatter_rows(c, l, t, weft_in(c, 1)));
}

/* The list grows where an index lies behind its end. Rows may have another shape than its elements. */
static weft_status_t *list_scatter_into(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = weft_in(c, 1);
  const weft_tensor_t *indices = weft_in(c, 2);
  weft_tensor_list_t *l = NULL;
  int64_t needed = 0;
  WEFT_RETURN_IF_ERROR(need_vector(t));
  if (indices->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  WEFT_RETURN_IF_ERROR(places_of_rows(t, indices, &needed));
  WEFT_RETURN_IF_ERROR(weft_list_take_typed(c, 0, &l));
  weft_status_t *s = needed > l->count ? weft_tensor_list_resize(l, needed) : NULL;
  if (s == NULL) s = scatter_rows(c, l, t, indices);
  return weft_list_give(c, l, s);
}

static weft_status_t *split_rows(weft_kernel_ctx_t *c, weft_tensor_list_t *l, weft_tensor_t *t,
                                 const weft_tensor_t *lengths) {
  int64_t at = 0;
  for (int64_t i = 0; i < lengths->count; i++) {
    int64_t n = ((const int64_t *)lengths->data)[i];
    if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Invalid value in lengths: %" PRId64, n);
    if (n > t->shape.dims[0] - at) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Attempting to slice [%" PRId64 ", %" PRId64 "] from tensor with length %" PRId64, at,
                        at + n, t->shape.dims[0]);
    }
    WEFT_RETURN_IF_ERROR(put_part(c, l, i, t, at, n, false));
    at += n;
  }
  if (at == t->shape.dims[0]) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Unused values in tensor. Length of tensor: %" PRId64 " Values used: %" PRId64,
                    t->shape.dims[0], at);
}

/* Whether the first dimension of element_shape is that of the elements is not asked. */
static weft_status_t *list_split(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = weft_in(c, 0);
  const weft_tensor_t *lengths = weft_in(c, 2);
  weft_shape_t shape;
  weft_tensor_list_t *l = NULL;
  WEFT_RETURN_IF_ERROR(weft_list_shape(weft_in(c, 1), &shape));
  if (shape.rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorListSplit requires element_shape to be at least of rank 1, but saw: []");
  }
  WEFT_RETURN_IF_ERROR(need_vector(t));
  const weft_shape_t row = row_shape(&shape);
  WEFT_RETURN_IF_ERROR(check_row(&row, t));
  if (lengths->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected lengths to be a vector, received shape: %s",
                      WEFT_SHAPE_TEXT(&lengths->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_list_create(t->dtype, &shape, -1, lengths->count, &l));
  return weft_list_give(c, l, split_rows(c, l, t, lengths));
}

/* Is each of a vector's elements a list that takes a row of `t`? */
static weft_status_t *check_batch(const weft_kernel_ctx_t *c, const weft_tensor_t *lists,
                                  const weft_tensor_t *t) {
  if (lists->shape.rank != 1 || t->shape.dims[0] != lists->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected tensor.shape[0] == input_handles.size, but saw %s and %s",
                      WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(&lists->shape));
  }
  for (int64_t i = 0; i < lists->count; i++) {
    const weft_variant_t *v = ((weft_variant_t *const *)lists->data)[i];
    if (v == NULL || v->type != &weft_tensor_list_type)
      return WEFT_ERROR(INVALID_ARGUMENT, "Input handle at index %" PRId64 " is not a list.", i);
    WEFT_RETURN_IF_ERROR(check_row(&((const weft_tensor_list_t *)v)->element_shape, t));
    WEFT_RETURN_IF_ERROR(weft_list_check_dtype(c, (const weft_tensor_list_t *)v));
  }
  return NULL;
}

/* Row i of the tensor goes to the end of list i, be it full or not. */
static weft_status_t *list_push_batch(weft_kernel_ctx_t *c) {
  const weft_tensor_t *lists = weft_in(c, 0);
  weft_tensor_t *t = weft_in(c, 1), *out = NULL;
  WEFT_RETURN_IF_ERROR(need_vector(t));
  WEFT_RETURN_IF_ERROR(check_batch(c, lists, t));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_VARIANT, &lists->shape, &out));
  for (int64_t i = 0; i < lists->count; i++) {
    weft_tensor_list_t *l = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_list_copy(((weft_tensor_list_t *const *)lists->data)[i], &l));
    ((weft_variant_t **)out->data)[i] = &l->variant;
    WEFT_RETURN_IF_ERROR(weft_tensor_list_resize(l, l->count + 1));
    WEFT_RETURN_IF_ERROR(put_part(c, l, l->count - 1, t, i, 1, true));
  }
  return NULL;
}

const weft_kernel_t weft_cpu_tensor_list_rows_kernels[] = {
    WEFT_LIST_KERNEL_BOTH("TensorListConcat", list_concat, list_concat_async),
    WEFT_LIST_KERNEL_BOTH("TensorListConcatV2", list_concat_v2, list_concat_v2_async),
    WEFT_LIST_KERNEL("TensorListFromTensor", list_from_tensor),
    WEFT_LIST_KERNEL_BOTH("TensorListGather", list_gather, list_gather_async),
    WEFT_LIST_KERNEL("TensorListPushBackBatch", list_push_batch),
    WEFT_LIST_KERNEL("TensorListScatter", list_scatter),
    WEFT_LIST_KERNEL("TensorListScatterIntoExistingList", list_scatter_into),
    WEFT_LIST_KERNEL("TensorListScatterV2", list_scatter),
    WEFT_LIST_KERNEL("TensorListSplit", list_split),
    WEFT_LIST_KERNEL_BOTH("TensorListStack", list_stack, list_stack_async),
    {0},
};
