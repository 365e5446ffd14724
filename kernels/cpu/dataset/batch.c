/* kernels/cpu/dataset/batch.c - consecutive elements as one, with a first dimension for them. Each element is
 * copied to its place as it comes. */
#include "kernels/cpu/dataset/batch.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/map.h"
#include "kernels/cpu/dataset/traversal.h"

/* ---- a batch in the making ---- */

/* Rows that are allocated at first: a batch of a billion may be how a graph asks for all that there is. */
enum { FIRST_ROWS = 1024 };

/* A component with room for `rows`, that begins with what *t has. */
static weft_status_t *make_room(weft_iterator_t *it, int64_t rows, weft_tensor_t **t, weft_dtype_t dtype,
                                const weft_shape_t *of_one) {
  weft_tensor_t *made = NULL;
  weft_shape_t shape = {.rank = of_one->rank + 1};
  if (shape.rank > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "a batch would have too many dimensions");
  shape.dims[0] = rows;
  memcpy(shape.dims + 1, of_one->dims, (size_t)of_one->rank * sizeof *shape.dims);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &shape, it->traversal->device->allocator, &made));
  weft_status_t *s = *t != NULL ? weft_tensor_copy_elements(made, 0, *t, 0, (*t)->count) : NULL;
  if (s != NULL) {
    weft_tensor_release(made);
    return s;
  }
  weft_tensor_release(*t);
  *t = made;
  return NULL;
}

weft_status_t *weft_batch_copy(weft_iterator_t *it, weft_tensor_t **batch, int64_t size, int64_t at,
                               weft_tensor_t *const *element, int n) {
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = element[i];
    int64_t rows = batch[i] != NULL ? batch[i]->shape.dims[0] : 0;
    weft_shape_t of_one = {.rank = t->shape.rank};
    if (batch[i] != NULL) {
      of_one.rank = batch[i]->shape.rank - 1;
      memcpy(of_one.dims, batch[i]->shape.dims + 1, (size_t)of_one.rank * sizeof *of_one.dims);
    }
    if (batch[i] != NULL && !weft_shape_eq(&of_one, &t->shape)) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Cannot batch tensors with different shapes in component %d. First element had shape %s "
          "and element %lld had shape %s.",
          i, WEFT_SHAPE_TEXT(&of_one), (long long)at, WEFT_SHAPE_TEXT(&t->shape));
    }
    if (at >= rows) {
      rows = rows == 0 ? FIRST_ROWS : 2 * rows;
      WEFT_RETURN_IF_ERROR(make_room(it, rows < size ? rows : size, &batch[i], t->dtype, &t->shape));
    }
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(batch[i], at * t->count, t, 0, t->count));
  }
  return NULL;
}

weft_status_t *weft_batch_cut(weft_tensor_t **batch, int n, int64_t rows) {
  for (int i = 0; i < n; i++) {
    weft_tensor_t *part = NULL;
    if (batch[i]->shape.dims[0] == rows) continue;
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(batch[i], 0, rows, &part));
    weft_tensor_release(batch[i]);
    batch[i] = part;
  }
  return NULL;
}

/* ---- BatchDataset ---- */

typedef struct batch_params {
  weft_dataset_params_t base;
  int64_t size;
  bool drops_remainder;
  bool preserves_cardinality; /* of a map below */
  bool is_parallel;           /* and so not made one with a map below */
} batch_params_t;

typedef struct batching {
  weft_iterator_t base;
  weft_tensor_t **element;
} batching_t;

static weft_status_t *begin(weft_iterator_t *it) {
  batching_t *b = (batching_t *)it;
  b->element = weft_calloc((size_t)it->of->spec->n, sizeof *b->element);
  return b->element != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void end(weft_iterator_t *it) { weft_free(((batching_t *)it)->element); }

/* The first failure to batch an element is the batch's; the others are taken out of the input all the same.
 * So they are if an element of a map has failed: TensorFlow makes one data set of the two. */
static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const batch_params_t *p = (const batch_params_t *)it->of->params;
  batching_t *b = (batching_t *)it;
  const int n = it->of->spec->n;
  weft_status_t *s = NULL, *of_map = NULL;
  int64_t rows = 0;
  for (bool is_input_over = false; rows < p->size; rows++) {
    weft_status_t *failed = weft_iterator_next(it->input, b->element, &is_input_over);
    if (failed != NULL && (p->is_parallel || !weft_is_map(it->input->of))) {
      weft_status_free(s);
      *is_end = is_input_over;
      return failed;
    }
    if (failed != NULL) {
      if (of_map == NULL) {
        of_map = failed;
      } else {
        weft_status_free(failed);
      }
      continue;
    }
    if (is_input_over) break;
    if (s == NULL) s = weft_batch_copy(it, out, p->size, rows, b->element, n);
    weft_element_release(b->element, n);
  }
  if (of_map != NULL) {
    weft_status_free(s);
    return of_map;
  }
  if (s != NULL) return weft_iterator_blame(it, it->index, s);
  *is_end = rows == 0 || (rows < p->size && p->drops_remainder);
  return *is_end ? NULL : weft_batch_cut(out, n, rows);
}

static int64_t cardinality(const weft_dataset_t *d) {
  const batch_params_t *p = (const batch_params_t *)d->params;
  const int64_t n = weft_dataset_cardinality(d->inputs[0]);
  return n < 0 ? n : n / p->size + (n % p->size != 0 && !p->drops_remainder);
}

/* Of batches that are made by several threads TensorFlow does not tell it. */
static int64_t batch_size(const weft_dataset_t *d) {
  const batch_params_t *p = (const batch_params_t *)d->params;
  return p->is_parallel ? -1 : p->size;
}

static weft_status_t *make_size(const weft_kernel_ctx_t *c, int at, batch_params_t *p) {
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "batch_size", &p->size));
  return p->size > 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "Batch size must be greater than zero.");
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  batch_params_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(make_size(c, at, p));
  if (at + 1 < c->node->num_inputs)
    WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 1, "drop_remainder", &p->drops_remainder));
  return NULL;
}

static const weft_dataset_class_t class = {.name = "Batch",
                                           .shards_by_input = true,
                                           .iterator_size = sizeof(batching_t),
                                           .opens_inputs = true,
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .cardinality = cardinality,
                                           .batch_size = batch_size};

/* ---- ParallelBatchDataset: batches made ahead; MapAndBatchDataset: batches of what a parallel map gives
 * ---- */

static weft_status_t *parallel_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  batch_params_t *p = params;
  int64_t num_parallel;
  (void)d;
  p->is_parallel = true;
  WEFT_RETURN_IF_ERROR(weft_parallel_in(c, at + 1, &num_parallel));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 2, "drop_remainder", &p->drops_remainder));
  return make_size(c, at, p);
}

/* batch_size, num_parallel_calls, drop_remainder */
static weft_status_t *map_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  batch_params_t *p = params;
  weft_map_params_t like = {.preserves_cardinality = p->preserves_cardinality};
  weft_dataset_params_t *map = NULL;
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(make_size(c, at, p));
  WEFT_RETURN_IF_ERROR(weft_parallel_in(c, at + 1, &like.num_parallel));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 2, "drop_remainder", &p->drops_remainder));
  WEFT_RETURN_IF_ERROR(weft_element_spec_of_row(d->spec, &spec));
  weft_status_t *s = weft_dataset_params_new(&like, sizeof like, NULL, &map);
  if (s == NULL) s = weft_dataset_put_below(d, &weft_parallel_map_class, map, spec);
  weft_element_spec_release(spec);
  return s;
}

static weft_status_t *map_read(const weft_kernel_setup_t *setup, void *params) {
  ((batch_params_t *)params)->preserves_cardinality = weft_knode_bool(setup, "preserve_cardinality");
  return NULL;
}

static const weft_dataset_op_t parallel_op = {
    .class = &class, .num_inputs = 1, .params_size = sizeof(batch_params_t), .make = parallel_make};
static const weft_dataset_op_t map_op = {.class = &class,
                                         .num_inputs = 1,
                                         .functions = {{"f", "Targuments"}},
                                         .params_size = sizeof(batch_params_t),
                                         .read = map_read,
                                         .make = map_make};
static const weft_dataset_op_t op = {
    .class = &class, .num_inputs = 1, .params_size = sizeof(batch_params_t), .make = make};

const weft_kernel_t weft_cpu_dataset_batch_kernels[] = {
    WEFT_DATASET_ROW("BatchDataset", op),
    WEFT_DATASET_ROW("BatchDatasetV2", op),
    WEFT_DATASET_ROW("ExperimentalMapAndBatchDataset", map_op),
    WEFT_DATASET_ROW("MapAndBatchDataset", map_op),
    WEFT_DATASET_ROW("ParallelBatchDataset", parallel_op),
    {0},
};
