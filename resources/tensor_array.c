/* resources/tensor_array.c - the cells of an array.
 *
 * Locking: `mu` of one array at a time; allocation under it is for growing and for sums.
 */
#include "resources/tensor_array.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "tensor/update.h"

/* Written without a value: zeros, which are made when they are read. In a gradient's array these are the
 * cells that had been written in the array it belongs to. */
typedef struct array_cell {
  weft_tensor_t *value;
  weft_shape_t shape; /* where it is written */
  bool is_written, is_read, is_cleared;
} array_cell_t;

struct weft_tensor_array {
  weft_object_t object;
  char *name;
  weft_dtype_t dtype;
  bool clear_after_read, is_identical, is_gradient;
  weft_mutex_t mu;
  bool is_dynamic;            /* guarded by mu: having a gradient ends it */
  weft_shape_t element_shape; /* guarded by mu, with what follows */
  array_cell_t *cells;
  int64_t size;
  int64_t spread; /* the size when a tensor was last unpacked or split into it; -1: never */
  bool is_closed;
};

const weft_resource_type_t weft_tensor_array_type = {"N10tensorflow11TensorArrayE", "_tensor_arrays", NULL};

static void clear_locked(weft_tensor_array_t *a) WEFT_REQUIRES(a->mu) {
  for (int64_t i = 0; i < a->size; i++) weft_tensor_release(a->cells[i].value);
  weft_free(a->cells);
  a->cells = NULL;
  a->size = 0;
}

static void destroy(weft_object_t *o) {
  weft_tensor_array_t *a = (weft_tensor_array_t *)o;
  weft_mutex_lock(&a->mu);
  clear_locked(a);
  weft_mutex_unlock(&a->mu);
  weft_mutex_deinit(&a->mu);
  weft_free(a->name);
  weft_free(a);
}

/* Takes `name` over, in every case. */
static weft_status_t *array_new(char *name, int64_t size, const weft_tensor_array_config_t *config,
                                weft_tensor_array_t **out) {
  weft_tensor_array_t *a = weft_calloc(1, sizeof *a);
  array_cell_t *cells = weft_calloc((size_t)size + 1, sizeof *cells);
  if (a == NULL || cells == NULL || name == NULL) {
    weft_free(a);
    weft_free(cells);
    weft_free(name);
    return WEFT_NO_MEMORY("creating a TensorArray of %" PRId64 " elements", size);
  }
  atomic_init(&a->object.refs, 1);
  a->object.destroy = destroy;
  a->name = name;
  a->dtype = config->dtype;
  a->clear_after_read = config->clear_after_read;
  a->is_identical = config->is_identical;
  a->is_dynamic = config->is_dynamic;
  a->element_shape = config->element_shape;
  a->cells = cells;
  a->size = size;
  a->spread = -1;
  weft_mutex_init(&a->mu);
  *out = a;
  return NULL;
}

weft_status_t *weft_tensor_array_create(const char *name, int64_t size,
                                        const weft_tensor_array_config_t *config, weft_tensor_array_t **out) {
  return array_new(weft_strdup(name), size, config, out);
}

const char *weft_tensor_array_name(const weft_tensor_array_t *a) { return a->name; }
weft_dtype_t weft_tensor_array_dtype(const weft_tensor_array_t *a) { return a->dtype; }

static weft_status_t *check_open_locked(const weft_tensor_array_t *a) {
  return a->is_closed ? WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s has already been closed.", a->name)
                      : NULL;
}

/* ---- one cell ---- */

static weft_status_t *grow_locked(weft_tensor_array_t *a, int64_t size) WEFT_REQUIRES(a->mu) {
  if (size <= a->size) return NULL;
  array_cell_t *more = weft_realloc(a->cells, (size_t)size, sizeof *more);
  if (more == NULL) return WEFT_NO_MEMORY("growing TensorArray %s to %" PRId64, a->name, size);
  memset(more + a->size, 0, (size_t)(size - a->size) * sizeof *more);
  a->cells = more;
  a->size = size;
  return NULL;
}

static weft_status_t *cannot(const weft_tensor_array_t *a, const char *verb, int64_t i, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s: Could not %s TensorArray index %" PRId64 " because %s",
                    a->name, verb, i, why);
}

/* Adds a value to a cell that is written. */
static weft_status_t *aggregate_locked(weft_tensor_array_t *a, array_cell_t *cell, int64_t i,
                                       weft_tensor_t *value, const weft_array_memory_t *memory)
    WEFT_REQUIRES(a->mu) {
  if (!weft_shape_eq(&cell->shape, &value->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray %s: Could not aggregate to TensorArray index %" PRId64
                      " because the existing shape is %s but the new input shape is %s.",
                      a->name, i, WEFT_SHAPE_TEXT(&cell->shape), WEFT_SHAPE_TEXT(&value->shape));
  }
  if (cell->value == NULL || value->count == 0) {
    weft_tensor_release(cell->value);
    cell->value = weft_tensor_retain(value);
    return NULL;
  }
  weft_update_fn *add = a->dtype == WEFT_BOOL ? NULL : weft_update_find(WEFT_UPDATE_ADD, a->dtype);
  if (add == NULL) return cannot(a, "aggregate to", i, "its type cannot be added.");
  if (memory != NULL) {
    weft_tensor_t *sum = NULL;
    WEFT_RETURN_IF_ERROR(memory->add(memory->arg, cell->value, value, &sum));
    weft_tensor_release(cell->value);
    cell->value = sum;
    return NULL;
  }
  if (cell->value->space != NULL || value->space != NULL)
    return cannot(a, "aggregate to", i, "its values lie on other devices.");
  if (!weft_tensor_is_exclusive(cell->value)) {
    weft_tensor_t *mine = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_copy(cell->value, &mine));
    weft_tensor_release(cell->value);
    cell->value = mine;
  }
  add(cell->value->data, value->data, value->count, false);
  return NULL;
}

static weft_status_t *write_locked(weft_tensor_array_t *a, int64_t i, weft_tensor_t *value,
                                   const weft_array_memory_t *memory) WEFT_REQUIRES(a->mu) {
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
  if (a->is_identical) a->element_shape = value->shape;
  array_cell_t *cell = &a->cells[i];
  if (cell->is_read) return cannot(a, "write to", i, "it has already been read.");
  if (cell->is_written && !a->is_gradient) return cannot(a, "write to", i, "it has already been written to.");
  if (cell->is_written) return aggregate_locked(a, cell, i, value, memory);
  *cell = (array_cell_t){.value = weft_tensor_retain(value), .shape = value->shape, .is_written = true};
  return NULL;
}

/* Cell i counts as written if the shape of elements is known; a gradient's array grows up to it. */
static weft_status_t *make_zeros_locked(weft_tensor_array_t *a, int64_t i) WEFT_REQUIRES(a->mu) {
  const int64_t first = i < a->size ? i : a->size;
  if (!weft_shape_is_known(&a->element_shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray %s: Could not read from TensorArray index %" PRId64
        ".  Furthermore, the element shape is not fully defined: %s.  It is possible you are working "
        "with a resizeable TensorArray and stop_gradients is not allowing the gradients to be written.  "
        "If you set the full element_shape property on the forward TensorArray, the proper all-zeros "
        "tensor will be returned instead of incurring this error.",
        a->name, i, WEFT_SHAPE_TEXT(&a->element_shape));
  }
  WEFT_RETURN_IF_ERROR(grow_locked(a, i + 1));
  for (int64_t k = first; k <= i; k++) {
    a->cells[k].is_written = true;
    a->cells[k].shape = a->element_shape;
  }
  return NULL;
}

static weft_status_t *fill_zeros_locked(weft_tensor_array_t *a, array_cell_t *cell) WEFT_REQUIRES(a->mu) {
  if (!weft_dtype_is_plain(a->dtype) && weft_shape_count(&cell->shape) > 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s: there are no zeros of type %s", a->name,
                      weft_dtype_name(a->dtype));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(a->dtype, &cell->shape, NULL, &cell->value));
  if (cell->value->bytes > 0) memset(cell->value->data, 0, cell->value->bytes);
  return NULL;
}

static weft_status_t *read_locked(weft_tensor_array_t *a, int64_t i, weft_tensor_t **out)
    WEFT_REQUIRES(a->mu) {
  WEFT_RETURN_IF_ERROR(check_open_locked(a));
  if (i < 0 || (i >= a->size && !a->is_gradient)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tried to read from index %" PRId64 " but array size is: %" PRId64, i,
                      a->size);
  }
  if (i >= a->size || !a->cells[i].is_written) WEFT_RETURN_IF_ERROR(make_zeros_locked(a, i));
  array_cell_t *cell = &a->cells[i];
  if (cell->is_cleared) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray %s: Could not read index %" PRId64
        " twice because it was cleared after a previous read (perhaps try setting clear_after_read = "
        "false?).",
        a->name, i);
  }
  if (cell->value == NULL) WEFT_RETURN_IF_ERROR(fill_zeros_locked(a, cell));
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

weft_status_t *weft_tensor_array_check_dtype(const weft_tensor_array_t *a, weft_dtype_t dtype,
                                             const char *what) {
  if (a->dtype == dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray dtype is %s but Op %s dtype %s.",
                    weft_dtype_name(a->dtype), what, weft_dtype_name(dtype));
}

weft_status_t *weft_tensor_array_write(weft_tensor_array_t *a, int64_t i, weft_tensor_t *value,
                                       const weft_array_memory_t *memory) {
  weft_mutex_lock(&a->mu);
  weft_status_t *s = write_locked(a, i, value, memory);
  weft_mutex_unlock(&a->mu);
  return s;
}

weft_status_t *weft_tensor_array_size(weft_tensor_array_t *a, bool of_pack, int64_t *out) {
  weft_mutex_lock(&a->mu);
  weft_status_t *s = check_open_locked(a);
  *out = of_pack && a->is_gradient && a->spread >= 0 ? a->spread : a->size;
  weft_mutex_unlock(&a->mu);
  return s;
}

weft_status_t *weft_tensor_array_refine(weft_tensor_array_t *a, const weft_shape_t *shape) {
  weft_mutex_lock(&a->mu);
  const bool fits = weft_shape_refine(&a->element_shape, shape);
  weft_mutex_unlock(&a->mu);
  if (fits) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s: its elements have another shape than %s", a->name,
                    WEFT_SHAPE_TEXT(shape));
}

void weft_tensor_array_close(weft_tensor_array_t *a) {
  weft_mutex_lock(&a->mu);
  clear_locked(a);
  a->is_closed = true;
  weft_mutex_unlock(&a->mu);
}

weft_status_t *weft_tensor_array_read(weft_tensor_array_t *a, const int32_t *indices, int64_t n,
                                      weft_tensor_t **out) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&a->mu);
  for (int64_t i = 0; s == NULL && i < n; i++) s = read_locked(a, indices == NULL ? i : indices[i], &out[i]);
  weft_mutex_unlock(&a->mu);
  return s;
}

/* ---- scatter and split: one tensor to many cells ---- */

/* Rows [begin, begin+rows) of `value`; with `drop_first` one row without its first dimension. */
static weft_status_t *part_of(weft_tensor_t *value, int64_t begin, int64_t rows, bool drop_first,
                              const weft_array_memory_t *memory, weft_tensor_t **out) {
  weft_shape_t shape = value->shape;
  weft_tensor_t *t = NULL;
  int64_t row = value->shape.dims[0] == 0 ? 0 : value->count / value->shape.dims[0];
  shape.dims[0] = rows;
  if (drop_first) {
    shape.rank--;
    memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
  }
  if (memory != NULL) return memory->part(memory->arg, value, begin * row, &shape, out);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(value->dtype, &shape, NULL, &t));
  weft_status_t *s = weft_tensor_copy_elements(t, 0, value, begin * row, t->count);
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

static weft_status_t *write_part(weft_tensor_array_t *a, int64_t i, weft_tensor_t *value, int64_t begin,
                                 int64_t rows, bool drop_first, const weft_array_memory_t *memory) {
  weft_tensor_t *part = NULL;
  WEFT_RETURN_IF_ERROR(part_of(value, begin, rows, drop_first, memory, &part));
  weft_status_t *s = weft_tensor_array_write(a, i, part, memory);
  weft_tensor_release(part);
  return s;
}

/* Finds out of how many elements the array is, or may be if it is to hold `needed`. */
static weft_status_t *spread_over(weft_tensor_array_t *a, int64_t needed, int64_t *out) {
  weft_mutex_lock(&a->mu);
  weft_status_t *s = check_open_locked(a);
  *out = a->is_dynamic && a->size < needed ? needed : a->size;
  weft_mutex_unlock(&a->mu);
  return s;
}

static void note_spread(weft_tensor_array_t *a, int64_t size) {
  weft_mutex_lock(&a->mu);
  if (!a->is_gradient) a->spread = size;
  weft_mutex_unlock(&a->mu);
}

weft_status_t *weft_tensor_array_scatter(weft_tensor_array_t *a, const weft_tensor_t *indices,
                                         weft_tensor_t *value, const weft_array_memory_t *memory) {
  int64_t max = -1, size = 0;
  const int32_t *at = indices->data;
  if (value->shape.rank < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input value for unpack must be at least a vector.");
  if (indices->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (indices->count != value->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected len(indices) == values.shape[0], but saw: %" PRId64 " vs. %" PRId64,
                      indices->count, value->shape.dims[0]);
  }
  for (int64_t i = 0; i < indices->count; i++) max = at[i] > max ? at[i] : max;
  WEFT_RETURN_IF_ERROR(spread_over(a, max + 1, &size));
  if (max >= size) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Max scatter index must be < array size (%" PRId64 " vs. %" PRId64 ")", max, size);
  }
  for (int64_t i = 0; i < indices->count; i++)
    WEFT_RETURN_IF_ERROR(write_part(a, at[i], value, i, 1, true, memory));
  return NULL;
}

weft_status_t *weft_tensor_array_unpack(weft_tensor_array_t *a, weft_tensor_t *value,
                                        const weft_array_memory_t *memory) {
  int64_t size = 0;
  if (value->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input value for unpack must be at least a vector but received shape: %s",
                      WEFT_SHAPE_TEXT(&value->shape));
  }
  const int64_t rows = value->shape.dims[0];
  WEFT_RETURN_IF_ERROR(spread_over(a, rows, &size));
  if (rows != size) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input value must have first dimension equal to the array size (%" PRId64
                      " vs. %" PRId64 ")",
                      rows, size);
  }
  note_spread(a, size);
  for (int64_t i = 0; i < rows; i++) WEFT_RETURN_IF_ERROR(write_part(a, i, value, i, 1, true, memory));
  return NULL;
}

weft_status_t *weft_tensor_array_split(weft_tensor_array_t *a, const weft_tensor_t *lengths,
                                       weft_tensor_t *value, const weft_array_memory_t *memory) {
  const int64_t *length = lengths->data;
  int64_t sum = 0, size = 0;
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
  WEFT_RETURN_IF_ERROR(spread_over(a, lengths->count, &size));
  if (size != lengths->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray's size is not equal to the size of lengths (%" PRId64 " vs. %" PRId64
                      "), and the TensorArray is not marked as dynamically resizeable",
                      size, lengths->count);
  }
  note_spread(a, size);
  for (int64_t i = 0, at = 0; i < lengths->count; at += length[i], i++) {
    WEFT_RETURN_IF_ERROR(write_part(a, i, value, at, length[i], false, memory));
  }
  return NULL;
}

/* ---- the gradient's array ---- */

static bool prepend(const weft_shape_t *front, weft_shape_t *shape) {
  if (shape->rank < 0 || front->rank == 0) return true;
  if (front->rank + shape->rank > WEFT_MAX_DIMS) return false;
  memmove(shape->dims + front->rank, shape->dims, (size_t)shape->rank * sizeof shape->dims[0]);
  memcpy(shape->dims, front->dims, (size_t)front->rank * sizeof shape->dims[0]);
  shape->rank += front->rank;
  return true;
}

weft_status_t *weft_tensor_array_gradient(weft_tensor_array_t *forward, const char *name,
                                          const weft_shape_t *front, weft_tensor_array_t **out) {
  weft_tensor_array_t *g = NULL;
  bool fits = true;
  weft_mutex_lock(&forward->mu);
  weft_status_t *s = check_open_locked(forward);
  if (s == NULL && forward->is_gradient)
    s = WEFT_ERROR(INVALID_ARGUMENT, "TensorArray %s is itself that of a gradient", forward->name);
  if (s == NULL) {
    forward->is_dynamic = false;
    const weft_tensor_array_config_t config = {.dtype = forward->dtype,
                                               .element_shape = forward->element_shape,
                                               .is_identical = forward->is_identical,
                                               .clear_after_read = true};
    s = weft_tensor_array_create(name, forward->size, &config, &g);
  }
  if (s == NULL) {
    g->is_gradient = true;
    g->spread = forward->spread;
    fits = prepend(front, &g->element_shape);
    for (int64_t i = 0; i < g->size; i++) {
      if (!forward->cells[i].is_written) continue;
      g->cells[i].shape = forward->cells[i].shape;
      g->cells[i].is_written = true;
      fits = fits && prepend(front, &g->cells[i].shape);
    }
  }
  weft_mutex_unlock(&forward->mu);
  if (s == NULL && !fits) {
    weft_object_release(&g->object);
    return WEFT_ERROR(INVALID_ARGUMENT, "the shape to prepend makes too many dimensions");
  }
  if (s == NULL) *out = g;
  return s;
}
