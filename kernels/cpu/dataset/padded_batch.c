/* kernels/cpu/dataset/padded_batch.c - consecutive elements as one, each filled up to a common shape. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/traversal.h"

typedef struct padding {
  weft_dataset_params_t base;
  int64_t size;
  bool drops_remainder;
  int n;                  /* components */
  weft_shape_t *shapes;   /* that each element gets; -1: the largest of the batch */
  weft_tensor_t **values; /* what fills up */
} padding_t;

static void deinit(void *params) {
  padding_t *p = params;
  for (int i = 0; p->values != NULL && i < p->n; i++) weft_tensor_release(p->values[i]);
  weft_free(p->values);
  weft_free(p->shapes);
}

typedef struct padded_iterator {
  weft_iterator_t base;
  weft_tensor_t **element;
} padded_iterator_t;

static weft_status_t *begin(weft_iterator_t *it) {
  padded_iterator_t *p = (padded_iterator_t *)it;
  p->element = weft_calloc((size_t)it->of->spec->n, sizeof *p->element);
  return p->element != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void end(weft_iterator_t *it) { weft_free(((padded_iterator_t *)it)->element); }

/* The shape of component i of the batch. */
static weft_status_t *batch_shape(const padding_t *p, const weft_element_list_t *l, int i,
                                  weft_shape_t *out) {
  const weft_shape_t *wanted = &p->shapes[i];
  if (wanted->rank + 1 > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "component %d has too many dimensions to batch", i);
  *out = (weft_shape_t){.rank = wanted->rank + 1};
  out->dims[0] = l->count;
  for (int k = 0; k < wanted->rank; k++) out->dims[k + 1] = wanted->dims[k] < 0 ? 0 : wanted->dims[k];
  for (int64_t row = 0; row < l->count; row++) {
    const weft_shape_t *shape = &l->parts[row * p->n + i]->shape;
    if (shape->rank != wanted->rank) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "All elements in a batch must have the same rank as the padded shape for component%d: "
          "expected rank %d but got element with rank %d",
          i, wanted->rank, shape->rank);
    }
    for (int k = 0; k < shape->rank; k++) {
      if (shape->dims[k] <= out->dims[k + 1]) continue;
      if (wanted->dims[k] >= 0)
        return WEFT_ERROR(DATA_LOSS, "Attempted to pad to a smaller size than the input element.");
      out->dims[k + 1] = shape->dims[k];
    }
  }
  return NULL;
}

static weft_status_t *fill(weft_tensor_t *t, const weft_tensor_t *value) {
  const size_t size = weft_dtype_size(t->dtype);
  if (!weft_dtype_is_plain(t->dtype)) {
    for (int64_t i = 0; i < t->count; i++) WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(t, i, value, 0, 1));
    return NULL;
  }
  for (int64_t i = 0; i < t->count; i++) memcpy((char *)t->data + (size_t)i * size, value->data, size);
  return NULL;
}

/* Copies an element, which is no larger, to the begin of row `row`. */
static weft_status_t *copy_row(weft_tensor_t *batch, int64_t row, const weft_tensor_t *t) {
  int64_t at[WEFT_MAX_DIMS] = {0}, strides[WEFT_MAX_DIMS + 1];
  const int rank = t->shape.rank;
  const int64_t run = rank > 0 ? t->shape.dims[rank - 1] : 1;
  if (t->count == 0) return NULL;
  strides[rank] = 1;
  for (int k = rank - 1; k >= 0; k--) strides[k] = strides[k + 1] * batch->shape.dims[k + 1];
  for (int64_t from = 0; from < t->count; from += run) {
    int64_t to = row * strides[0];
    for (int k = 0; k < rank - 1; k++) to += at[k] * strides[k + 1];
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(batch, to, t, from, run));
    for (int k = rank - 2; k >= 0 && ++at[k] == t->shape.dims[k]; k--) at[k] = 0;
  }
  return NULL;
}

static weft_status_t *make_component(const padded_iterator_t *it, const weft_element_list_t *l, int i,
                                     weft_tensor_t **out) {
  const padding_t *p = (const padding_t *)it->base.of->params;
  weft_shape_t shape;
  bool is_even = true;
  WEFT_RETURN_IF_ERROR(batch_shape(p, l, i, &shape));
  WEFT_RETURN_IF_ERROR(
      weft_tensor_new(p->values[i]->dtype, &shape, it->base.traversal->device->allocator, out));
  for (int64_t row = 0; is_even && row < l->count; row++)
    is_even = l->parts[row * p->n + i]->count * l->count == (*out)->count;
  if (!is_even) WEFT_RETURN_IF_ERROR(fill(*out, p->values[i]));
  for (int64_t row = 0; row < l->count; row++)
    WEFT_RETURN_IF_ERROR(copy_row(*out, row, l->parts[row * p->n + i]));
  return NULL;
}

static weft_status_t *take_all(padded_iterator_t *it, weft_element_list_t *l) {
  const padding_t *p = (const padding_t *)it->base.of->params;
  for (bool is_end = false; l->count < p->size;) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->base.input, it->element, &is_end));
    if (is_end) return NULL;
    weft_status_t *s = weft_element_list_add(l, it->element, p->n);
    weft_element_release(it->element, p->n);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const padding_t *p = (const padding_t *)it->of->params;
  weft_element_list_t l = {0};
  weft_status_t *s = take_all((padded_iterator_t *)it, &l);
  *is_end = l.count == 0 || (l.count < p->size && p->drops_remainder);
  for (int i = 0; s == NULL && !*is_end && i < p->n; i++)
    s = weft_iterator_blame(it, it->index, make_component((padded_iterator_t *)it, &l, i, &out[i]));
  weft_element_list_deinit(&l, p->n);
  return s;
}

static int64_t cardinality(const weft_dataset_t *d) {
  const padding_t *p = (const padding_t *)d->params;
  const int64_t n = weft_dataset_cardinality(d->inputs[0]);
  return n < 0 ? n : n / p->size + (n % p->size != 0 && !p->drops_remainder);
}

/* ---- the kernel ---- */

static weft_status_t *read_shape(const weft_tensor_t *t, weft_shape_t *out) {
  if (t->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "All padded shapes must be vectors");
  if (t->count > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "a padded shape has too many dimensions");
  *out = (weft_shape_t){.rank = (int)t->count};
  for (int k = 0; k < out->rank; k++) {
    out->dims[k] = ((const int64_t *)t->data)[k];
    if (out->dims[k] < -1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Dimension %d of a padded shape must be >= -1, but is %lld", k,
                        (long long)out->dims[k]);
    }
  }
  return NULL;
}

static int64_t batch_size(const weft_dataset_t *d) { return ((const padding_t *)d->params)->size; }

static weft_status_t *read_component(weft_kernel_ctx_t *c, int at, const weft_dataset_t *d, padding_t *p,
                                     int i) {
  weft_tensor_t *value = weft_in(c, at + 1 + p->n + i);
  WEFT_RETURN_IF_ERROR(read_shape(weft_in(c, at + 1 + i), &p->shapes[i]));
  if (value->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "All padding values must be scalars");
  if (value->dtype != d->inputs[0]->spec->dtypes[i]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Mismatched type between padding value %d and input dataset's component %d: %s vs. %s",
                      i, i, weft_dtype_name(value->dtype), weft_dtype_name(d->inputs[0]->spec->dtypes[i]));
  }
  p->values[i] = weft_tensor_retain(value);
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  padding_t *p = params;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "batch_size", &p->size));
  if (p->size <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Batch size must be greater than zero.");
  if (p->n != d->inputs[0]->spec->n) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Number of padded shapes (%d) must match the number of components in the input dataset's "
        "elements (%d)",
        p->n, d->inputs[0]->spec->n);
  }
  const int num_values = d->spec->n;
  if (num_values != p->n) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Number of padding values (%d) must match the number of components in the input dataset's "
        "elements (%d)",
        num_values, p->n);
  }
  p->shapes = weft_calloc((size_t)p->n, sizeof *p->shapes);
  p->values = weft_calloc((size_t)p->n, sizeof *p->values);
  if (p->shapes == NULL || p->values == NULL) return WEFT_NO_MEMORY("a padded batch");
  for (int i = 0; i < p->n; i++) WEFT_RETURN_IF_ERROR(read_component(c, at, d, p, i));
  if (at + 1 + 2 * p->n < c->node->num_inputs)
    return weft_dataset_in_bool(c, at + 1 + 2 * p->n, "drop_remainder", &p->drops_remainder);
  return NULL;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  ((padding_t *)params)->n = (int)weft_knode_int(setup, "N");
  return NULL;
}

static const weft_dataset_class_t class = {.name = "PaddedBatch",
                                           .shards_by_input = true,
                                           .iterator_size = sizeof(padded_iterator_t),
                                           .opens_inputs = true,
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .cardinality = cardinality,
                                           .batch_size = batch_size};
static const weft_dataset_op_t op = {.class = &class,
                                     .num_inputs = 1,
                                     .params_size = sizeof(padding_t),
                                     .read = read,
                                     .make = make,
                                     .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_padded_batch_kernels[] = {
    WEFT_DATASET_ROW("PaddedBatchDataset", op),
    WEFT_DATASET_ROW("PaddedBatchDatasetV2", op),
    {0},
};
