/* kernels/cpu/tensor_array.c - arrays of tensors that a loop reads and writes, and their gradients.
 *
 * Each cell is written once and read any number of times (or once, if it is
 * cleared after reading). A gradient's array adds up what is written, and reads
 * zeros where nothing was: it knows the shapes from the array it belongs to.
 *
 * Locking: `mu` of one array at a time; allocation under it is for growing.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/step_resource.h"
#include "kernels/cpu/update.h"

typedef struct cell {
  weft_tensor_t *value;
  weft_shape_t shape; /* of what was written here, or in the array that this one is a gradient of */
  bool has_shape, is_written, is_read, is_cleared;
} cell_t;

typedef struct array {
  weft_object_t object;
  char *name;
  weft_dtype_t dtype;
  bool clear_after_read, is_identical, is_gradient;
  weft_mutex_t mu;
  bool is_dynamic;            /* guarded by mu: having a gradient ends it */
  weft_shape_t element_shape; /* guarded by mu, with what follows */
  cell_t *cells;
  int64_t size;
  bool is_closed;
} array_t;

static const weft_resource_type_t array_type = {"N10tensorflow11TensorArrayE", "_tensor_arrays", NULL};

static void clear_locked(array_t *a) WEFT_REQUIRES(a->mu) {
  for (int64_t i = 0; i < a->size; i++) weft_tensor_release(a->cells[i].value);
  weft_free(a->cells);
  a->cells = NULL;
  a->size = 0;
}

static void destroy(weft_object_t *o) {
  array_t *a = (array_t *)o;
  weft_mutex_lock(&a->mu);
  clear_locked(a);
  weft_mutex_unlock(&a->mu);
  weft_mutex_deinit(&a->mu);
  weft_free(a->name);
  weft_free(a);
}

/* Takes `name` over, in every case. */
static weft_status_t *array_new(char *name, int64_t size, array_t **out) {
  array_t *a = weft_calloc(1, sizeof *a);
  cell_t *cells = weft_calloc((size_t)size + 1, sizeof *cells);
  if (a == NULL || cells == NULL) {
    weft_free(a);
    weft_free(cells);
    weft_free(name);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "creating a TensorArray of %" PRId64 " elements", size);
  }
  atomic_init(&a->object.refs, 1);
  a->object.destroy = destroy;
  a->name = name;
  a->cells = cells;
  a->size = size;
  weft_mutex_init(&a->mu);
  *out = a;
  return NULL;
}

static weft_status_t *set_flow(weft_kernel_ctx_t *c, int output) {
  float zero = 0;
  return weft_tensor_scalar(WEFT_F32, &zero, &c->outputs[output].tensor);
}

static weft_status_t *array_make(weft_kernel_ctx_t *c) {
  const weft_tensor_t *size = weft_in(c, 0);
  if (size->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray size must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  int32_t n = *(const int32_t *)size->data;
  if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Size should be >= 0.");
  char *name = NULL;
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_name(c, "tensor_array_name", &name));
  WEFT_RETURN_IF_ERROR(array_new(name, n, &a));
  a->dtype = (weft_dtype_t)weft_knode_type(c->node, "dtype");
  a->is_dynamic = weft_knode_bool(c->node, "dynamic_size");
  a->clear_after_read = weft_knode_bool(c->node, "clear_after_read");
  a->is_identical = weft_knode_bool(c->node, "identical_element_shapes");
  const weft_attr_t *shape = weft_knode_attr(c->node, "element_shape");
  a->element_shape = shape == NULL || shape->kind != WEFT_ATTR_SHAPE ? WEFT_UNKNOWN_SHAPE : *shape->shape;
  weft_status_t *s = weft_step_resource_output(c, &array_type, a->name, &a->object);
  weft_object_release(&a->object);
  return s != NULL ? s : set_flow(c, 1);
}

static weft_status_t *in_array(weft_kernel_ctx_t *c, array_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_in(c, 0, &array_type, &o));
  *out = (array_t *)o;
  return NULL;
}

static weft_status_t *check_open_locked(const array_t *a) {
  return a->is_closed ? WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s has already been closed.", a->name)
                      : NULL;
}

/* ---- one cell ---- */

static weft_status_t *grow_locked(array_t *a, int64_t size) WEFT_REQUIRES(a->mu) {
  if (size <= a->size) return NULL;
  cell_t *more = weft_realloc(a->cells, (size_t)size, sizeof *more);
  if (more == NULL)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "growing TensorArray %s to %" PRId64, a->name, size);
  memset(more + a->size, 0, (size_t)(size - a->size) * sizeof *more);
  a->cells = more;
  a->size = size;
  return NULL;
}

static weft_status_t *cannot(const array_t *a, const char *verb, int64_t i, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s: Could not %s TensorArray index %" PRId64 " because %s",
                    a->name, verb, i, why);
}

static weft_status_t *aggregate_locked(array_t *a, cell_t *cell, int64_t i, weft_tensor_t *value)
    WEFT_REQUIRES(a->mu) {
  if (!weft_shape_eq(&cell->value->shape, &value->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray %s: Could not aggregate to TensorArray index %" PRId64
                      " because the existing shape is %s but the new input shape is %s.",
                      a->name, i, WEFT_SHAPE_TEXT(&cell->value->shape), WEFT_SHAPE_TEXT(&value->shape));
  }
  weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, a->dtype);
  if (add == NULL) return cannot(a, "aggregate to", i, "its type cannot be added.");
  if (!weft_tensor_is_exclusive(cell->value)) {
    weft_tensor_t *mine = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_copy(cell->value, &mine));
    weft_tensor_release(cell->value);
    cell->value = mine;
  }
  if (value->count > 0) add(cell->value->data, value->data, value->count, false);
  return NULL;
}

static weft_status_t *write_locked(array_t *a, int64_t i, weft_tensor_t *value) WEFT_REQUIRES(a->mu) {
  WEFT_RETURN_IF_ERROR(check_open_locked(a));
  if (i < 0 || (i >= a->size && !a->is_dynamic)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray %s: Tried to write to index %" PRId64
                      " but array is not resizeable and size is: %" PRId64,
                      a->name, i, a->size);
  }
  WEFT_RETURN_IF_ERROR(grow_locked(a, i + 1));
  if (!weft_shape_compatible(&a->element_shape, &value->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray %s: Could not write to TensorArray index %" PRId64
        " because the value shape is %s which is incompatible with the TensorArray's inferred element "
        "shape: %s (consider setting infer_shape=False).",
        a->name, i, WEFT_SHAPE_TEXT(&value->shape), WEFT_SHAPE_TEXT(&a->element_shape));
  }
  cell_t *cell = &a->cells[i];
  if (cell->is_read) return cannot(a, "write to", i, "it has already been read.");
  if (cell->is_written && !a->is_gradient) return cannot(a, "write to", i, "it has already been written to.");
  if (a->is_identical) a->element_shape = value->shape;
  if (cell->is_written) return aggregate_locked(a, cell, i, value);
  cell->value = weft_tensor_retain(value);
  cell->shape = value->shape;
  cell->has_shape = cell->is_written = true;
  return NULL;
}

/* A cell that was never written reads as zeros if its shape is known. */
static weft_status_t *fill_zeros_locked(array_t *a, cell_t *cell, int64_t i) WEFT_REQUIRES(a->mu) {
  weft_shape_t shape = cell->has_shape ? cell->shape : a->element_shape;
  if (!weft_shape_is_known(&shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray %s: Could not read from TensorArray index %" PRId64
        ".  Furthermore, the element shape is not fully defined: %s.  It is possible you are working "
        "with a resizeable TensorArray and stop_gradients is not allowing the gradients to be written.  "
        "If you set the full element_shape property on the forward TensorArray, the proper all-zeros "
        "tensor will be returned instead of incurring this error.",
        a->name, i, WEFT_SHAPE_TEXT(&shape));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(a->dtype, &shape, NULL, &cell->value));
  if (weft_dtype_is_plain(a->dtype) && cell->value->bytes > 0)
    memset(cell->value->data, 0, cell->value->bytes);
  cell->is_written = cell->has_shape = true;
  cell->shape = shape;
  return NULL;
}

static weft_status_t *read_locked(array_t *a, int64_t i, weft_tensor_t **out) WEFT_REQUIRES(a->mu) {
  WEFT_RETURN_IF_ERROR(check_open_locked(a));
  if (i < 0 || i >= a->size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tried to read from index %" PRId64 " but array size is: %" PRId64, i,
                      a->size);
  }
  cell_t *cell = &a->cells[i];
  if (cell->is_cleared) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray %s: Could not read index %" PRId64
        " twice because it was cleared after a previous read (perhaps try setting clear_after_read = "
        "false?).",
        a->name, i);
  }
  if (!cell->is_written) WEFT_RETURN_IF_ERROR(fill_zeros_locked(a, cell, i));
  *out = cell->value;
  if (a->clear_after_read) {
    cell->value = NULL; /* its reference goes to the reader */
    cell->is_cleared = true;
  } else {
    weft_tensor_retain(cell->value);
  }
  cell->is_read = true;
  return NULL;
}

/* ---- write, read, size, close ---- */

static weft_status_t *check_dtype(const array_t *a, weft_dtype_t dtype, const char *what) {
  if (a->dtype == dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray dtype is %s but Op %s dtype %s.",
                    weft_dtype_name(a->dtype), what, weft_dtype_name(dtype));
}

static weft_status_t *scalar_index(const weft_kernel_ctx_t *c, int i, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray index must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = *(const int32_t *)t->data;
  return NULL;
}

static void pass_flow(weft_kernel_ctx_t *c, int input) {
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, input)));
}

static weft_status_t *array_write(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  int64_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  if (s == NULL) {
    weft_mutex_lock(&a->mu);
    s = write_locked(a, i, weft_in(c, 2));
    weft_mutex_unlock(&a->mu);
  }
  weft_object_release(&a->object);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *array_read(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  int64_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_dtype(a, (weft_dtype_t)weft_knode_type(c->node, "dtype"), "requested");
  if (s == NULL) {
    weft_mutex_lock(&a->mu);
    s = read_locked(a, i, &c->outputs[0].tensor);
    weft_mutex_unlock(&a->mu);
  }
  weft_object_release(&a->object);
  return s;
}

static weft_status_t *array_size(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_mutex_lock(&a->mu);
  weft_status_t *s = check_open_locked(a);
  int32_t n = (int32_t)a->size;
  weft_mutex_unlock(&a->mu);
  weft_object_release(&a->object);
  return s != NULL ? s : weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *array_close(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_mutex_lock(&a->mu);
  clear_locked(a);
  a->is_closed = true;
  weft_mutex_unlock(&a->mu);
  weft_object_release(&a->object);
  return NULL;
}

/* ---- gather and concat: many cells to one tensor ---- */

/* Reads n cells into `out`, which is zeroed and has room for them. */
static weft_status_t *read_many(array_t *a, const int32_t *indices, int64_t n, weft_tensor_t **out) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&a->mu);
  for (int64_t i = 0; s == NULL && i < n; i++) s = read_locked(a, indices == NULL ? i : indices[i], &out[i]);
  weft_mutex_unlock(&a->mu);
  return s;
}

static void release_many(weft_tensor_t **t, int64_t n) {
  for (int64_t i = 0; t != NULL && i < n; i++) weft_tensor_release(t[i]);
  weft_free(t);
}

static weft_status_t *stack_up(weft_kernel_ctx_t *c, weft_dtype_t dtype, weft_tensor_t *const *t, int64_t n,
                               weft_shape_t element) {
  weft_tensor_t *out = NULL;
  for (int64_t i = 1; i < n; i++) {
    if (weft_shape_eq(&t[0]->shape, &t[i]->shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray has inconsistent shapes.  Index 0 has shape: %s but index %" PRId64
                      " has shape: %s",
                      WEFT_SHAPE_TEXT(&t[0]->shape), i, WEFT_SHAPE_TEXT(&t[i]->shape));
  }
  if (n > 0) element = t[0]->shape;
  if (!weft_shape_is_known(&element)) {
    return WEFT_ERROR(
        UNIMPLEMENTED,
        "TensorArray has size zero, but element shape %s is not fully defined. Currently only static "
        "shapes are supported when packing zero-size TensorArrays.",
        WEFT_SHAPE_TEXT(&element));
  }
  if (element.rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "the elements have too many dimensions");
  memmove(element.dims + 1, element.dims, (size_t)element.rank * sizeof element.dims[0]);
  element.dims[0] = n;
  element.rank++;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &element, &out));
  for (int64_t i = 0, at = 0; i < n; at += t[i]->count, i++) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, at, t[i], 0, t[i]->count));
  }
  return NULL;
}

/* The array's own element shape, as far as it is known, narrowed by the node's. */
static weft_shape_t element_shape(weft_kernel_ctx_t *c, array_t *a, const char *attr) {
  const weft_attr_t *given = weft_knode_attr(c->node, attr);
  weft_mutex_lock(&a->mu);
  weft_shape_t shape = a->element_shape;
  weft_mutex_unlock(&a->mu);
  if (!weft_shape_is_known(&shape) && given != NULL && given->kind == WEFT_ATTR_SHAPE) shape = *given->shape;
  return shape;
}

static weft_status_t *array_gather(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  const weft_tensor_t *indices = weft_in(c, 1);
  if (indices->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_tensor_t **t = weft_calloc((size_t)indices->count + 1, sizeof *t);
  weft_status_t *s = check_dtype(a, (weft_dtype_t)weft_knode_type(c->node, "dtype"), "requested");
  if (s == NULL && t == NULL) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "gathering from TensorArray %s", a->name);
  if (s == NULL) s = read_many(a, indices->data, indices->count, t);
  if (s == NULL) s = stack_up(c, a->dtype, t, indices->count, element_shape(c, a, "element_shape"));
  release_many(t, indices->count);
  weft_object_release(&a->object);
  return s;
}

static weft_status_t *string_together(weft_kernel_ctx_t *c, weft_dtype_t dtype, weft_tensor_t *const *t,
                                      int64_t n, weft_shape_t rest) {
  weft_tensor_t *out = NULL, *lengths = NULL;
  weft_shape_t shape = {0}, vector = weft_shape_vector(n);
  int64_t rows = 0;
  for (int64_t i = 0; i < n; i++) {
    weft_shape_t s = t[i]->shape;
    if (s.rank == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Concat saw a scalar shape at index %" PRId64
                        " but requires at least vectors.  Did you mean to call pack?",
                        i);
    }
    rows += s.dims[0];
    if (i == 0) shape = s;
    s.dims[0] = shape.dims[0];
    if (weft_shape_eq(&shape, &s)) continue;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: %s but index "
        "%" PRId64 " has (excepting dimension 0) shape: %s",
        WEFT_SHAPE_TEXT(&t[0]->shape), i, WEFT_SHAPE_TEXT(&t[i]->shape));
  }
  if (n == 0) {
    if (!weft_shape_is_known(&rest) || rest.rank >= WEFT_MAX_DIMS) {
      return WEFT_ERROR(
          UNIMPLEMENTED,
          "TensorArray has size zero, but element_shape_except0 %s is not fully defined. Currently only "
          "static shapes are supported when concatenating zero-size TensorArrays.",
          WEFT_SHAPE_TEXT(&rest));
    }
    shape = rest;
    memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
    shape.rank++;
  }
  shape.dims[0] = rows;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_I64, &vector, &lengths));
  for (int64_t i = 0, at = 0; i < n; at += t[i]->count, i++) {
    ((int64_t *)lengths->data)[i] = t[i]->shape.dims[0];
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, at, t[i], 0, t[i]->count));
  }
  return NULL;
}

static weft_status_t *array_concat(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_mutex_lock(&a->mu);
  int64_t n = a->size;
  weft_mutex_unlock(&a->mu);
  weft_tensor_t **t = weft_calloc((size_t)n + 1, sizeof *t);
  weft_status_t *s = check_dtype(a, (weft_dtype_t)weft_knode_type(c->node, "dtype"), "requested");
  if (s == NULL && t == NULL) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "concatenating TensorArray %s", a->name);
  if (s == NULL) s = read_many(a, NULL, n, t);
  if (s == NULL) s = string_together(c, a->dtype, t, n, element_shape(c, a, "element_shape_except0"));
  release_many(t, n);
  weft_object_release(&a->object);
  return s;
}

/* ---- scatter and split: one tensor to many cells ---- */

/* Rows [begin, begin+rows) of `value`; with `drop_first` one row without its first dimension. */
static weft_status_t *part_of(const weft_tensor_t *value, int64_t begin, int64_t rows, bool drop_first,
                              weft_tensor_t **out) {
  weft_shape_t shape = value->shape;
  weft_tensor_t *t = NULL;
  int64_t row = value->shape.dims[0] == 0 ? 0 : value->count / value->shape.dims[0];
  shape.dims[0] = rows;
  if (drop_first) {
    shape.rank--;
    memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(value->dtype, &shape, NULL, &t));
  weft_status_t *s = weft_tensor_copy_elements(t, 0, value, begin * row, t->count);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

static weft_status_t *write_part(array_t *a, int64_t i, const weft_tensor_t *value, int64_t begin,
                                 int64_t rows, bool drop_first) {
  weft_tensor_t *part = NULL;
  WEFT_RETURN_IF_ERROR(part_of(value, begin, rows, drop_first, &part));
  weft_mutex_lock(&a->mu);
  weft_status_t *s = write_locked(a, i, part);
  weft_mutex_unlock(&a->mu);
  weft_tensor_release(part);
  return s;
}

static weft_status_t *scatter(array_t *a, const weft_tensor_t *indices, const weft_tensor_t *value) {
  int64_t max = -1;
  const int32_t *at = indices->data;
  if (indices->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (value->shape.rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input value for unpack must be at least a vector.");
  if (indices->count != value->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected len(indices) == values.shape[0], but saw: %" PRId64 " vs. %" PRId64,
                      indices->count, value->shape.dims[0]);
  }
  for (int64_t i = 0; i < indices->count; i++) max = at[i] > max ? at[i] : max;
  weft_mutex_lock(&a->mu);
  int64_t size = a->size;
  bool is_dynamic = a->is_dynamic;
  weft_mutex_unlock(&a->mu);
  if (!is_dynamic && max >= size) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Max scatter index must be < array size (%" PRId64 " vs. %" PRId64 ")", max, size);
  }
  for (int64_t i = 0; i < indices->count; i++) WEFT_RETURN_IF_ERROR(write_part(a, at[i], value, i, 1, true));
  return NULL;
}

static weft_status_t *split(array_t *a, const weft_tensor_t *lengths, const weft_tensor_t *value) {
  const int64_t *length = lengths->data;
  int64_t sum = 0;
  if (lengths->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected lengths to be a vector, received shape: %s",
                      WEFT_SHAPE_TEXT(&lengths->shape));
  }
  if (value->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected value to be at least a vector, but received shape: %s",
                      WEFT_SHAPE_TEXT(&value->shape));
  }
  for (int64_t i = 0; i < lengths->count; i++) {
    if (length[i] < 0 || __builtin_add_overflow(sum, length[i], &sum)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "lengths must not be negative, but lengths[%" PRId64 "] is %" PRId64, i, length[i]);
    }
  }
  if (sum != value->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %" PRId64
                      " and value's shape is: %s",
                      sum, WEFT_SHAPE_TEXT(&value->shape));
  }
  weft_mutex_lock(&a->mu);
  int64_t size = a->size;
  bool is_dynamic = a->is_dynamic;
  weft_mutex_unlock(&a->mu);
  if (size != lengths->count && !is_dynamic) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray's size is not equal to the size of lengths (%" PRId64 " vs. %" PRId64
                      "), and the TensorArray is not marked as dynamically resizeable",
                      size, lengths->count);
  }
  for (int64_t i = 0, at = 0; i < lengths->count; at += length[i], i++) {
    WEFT_RETURN_IF_ERROR(write_part(a, i, value, at, length[i], false));
  }
  return NULL;
}

static weft_status_t *array_scatter(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  if (s == NULL) s = scatter(a, weft_in(c, 1), weft_in(c, 2));
  weft_object_release(&a->object);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *array_split(weft_kernel_ctx_t *c) {
  array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_dtype(a, weft_in(c, 1)->dtype, "is trying to write");
  if (s == NULL) s = split(a, weft_in(c, 2), weft_in(c, 1));
  weft_object_release(&a->object);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

/* ---- the gradient's array: one per source, made by whoever asks first ---- */

static bool prepend(const weft_shape_t *front, weft_shape_t *shape) {
  if (shape->rank < 0 || front->rank == 0) return true;
  if (front->rank + shape->rank > WEFT_MAX_DIMS) return false;
  memmove(shape->dims + front->rank, shape->dims, (size_t)shape->rank * sizeof shape->dims[0]);
  memcpy(shape->dims, front->dims, (size_t)front->rank * sizeof shape->dims[0]);
  shape->rank += front->rank;
  return true;
}

/* `name` is taken over. From now on the forward array keeps its size. */
static weft_status_t *make_gradient(array_t *forward, char *name, const weft_shape_t *front, array_t **out) {
  array_t *g = NULL;
  bool fits = true;
  weft_mutex_lock(&forward->mu);
  weft_status_t *s = check_open_locked(forward);
  if (s == NULL) {
    forward->is_dynamic = false;
    s = array_new(name, forward->size, &g);
    name = NULL;
  }
  if (s == NULL) {
    g->dtype = forward->dtype;
    g->element_shape = forward->element_shape;
    g->is_identical = forward->is_identical;
    g->clear_after_read = g->is_gradient = true;
    fits = prepend(front, &g->element_shape);
    for (int64_t i = 0; i < g->size; i++) {
      g->cells[i].shape = forward->cells[i].shape;
      g->cells[i].has_shape = forward->cells[i].has_shape;
      fits = fits && prepend(front, &g->cells[i].shape);
    }
  }
  weft_mutex_unlock(&forward->mu);
  weft_free(name);
  if (s == NULL && !fits) {
    weft_object_release(&g->object);
    return WEFT_ERROR(INVALID_ARGUMENT, "the shape to prepend makes too many dimensions");
  }
  if (s == NULL) *out = g;
  return s;
}

static weft_status_t *find_or_make_gradient(weft_kernel_ctx_t *c, array_t *forward,
                                            const weft_shape_t *front) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  char *name = NULL;
  size_t length = 0;
  array_t *g = NULL;
  weft_strbuf_printf(&text, "%s@%.*s", forward->name, WEFT_STR_ARGS(weft_knode_string(c->node, "source")));
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&text, &name, &length));
  weft_object_t *found = weft_step_resource_find(c, &array_type, name);
  weft_status_t *s = NULL;
  if (found == NULL) {
    s = make_gradient(forward, name, front, &g);
    if (s != NULL) return s;
    s = weft_step_resource_output(c, &array_type, g->name, &g->object);
    if (weft_status_code(s) == WEFT_ALREADY_EXISTS) { /* somebody was faster */
      weft_status_free(s);
      s = NULL;
      found = weft_step_resource_find(c, &array_type, g->name);
    }
  } else {
    weft_free(name);
  }
  if (s == NULL && found != NULL)
    s = weft_step_resource_handle(c, &array_type, ((array_t *)found)->name, found);
  weft_object_release(found);
  if (g != NULL) weft_object_release(&g->object);
  return s;
}

static weft_status_t *array_grad(weft_kernel_ctx_t *c) {
  array_t *forward = NULL;
  weft_shape_t front = WEFT_SCALAR;
  if (c->node->num_inputs > 2) { /* TensorArrayGradWithShape */
    int64_t dims[WEFT_MAX_DIMS];
    int n = 0;
    WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 2), "shape_to_prepend", WEFT_MAX_DIMS, dims, &n));
    WEFT_RETURN_IF_ERROR(weft_shape_make(dims, n, &front));
  }
  WEFT_RETURN_IF_ERROR(in_array(c, &forward));
  weft_status_t *s = find_or_make_gradient(c, forward, &front);
  weft_object_release(&forward->object);
  return s != NULL ? s : set_flow(c, 1);
}

#define TYPED(name, attr, fn) \
  { .op = name, .type_attr = attr, .types = WEFT_SET_ALL, .compute = fn }

const weft_kernel_t weft_cpu_tensor_array_kernels[] = {
    {.op = "TensorArrayCloseV3", .compute = array_close},
    TYPED("TensorArrayConcatV3", "dtype", array_concat),
    TYPED("TensorArrayGatherV3", "dtype", array_gather),
    {.op = "TensorArrayGradV3", .compute = array_grad},
    {.op = "TensorArrayGradWithShape", .compute = array_grad},
    TYPED("TensorArrayReadV3", "dtype", array_read),
    TYPED("TensorArrayScatterV3", "T", array_scatter),
    {.op = "TensorArraySizeV3", .compute = array_size},
    TYPED("TensorArraySplitV3", "T", array_split),
    TYPED("TensorArrayV3", "dtype", array_make),
    TYPED("TensorArrayWriteV3", "T", array_write),
    {0},
};
