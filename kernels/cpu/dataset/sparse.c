/* kernels/cpu/dataset/sparse.c - sparse tensors as elements: the rows of one, and batches of dense elements
 * as one. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "tensor/pack.h"

/* ---- SparseTensorSliceDataset ---- */

typedef struct sparse_params {
  weft_dataset_params_t base;
  weft_tensor_t *indices, *values, *shape;
} sparse_params_t;

typedef struct sparse_iterator {
  weft_iterator_t base;
  int64_t row, at; /* `at`: in the indices, which rise */
} sparse_iterator_t;

static void deinit(void *params) {
  sparse_params_t *p = params;
  weft_tensor_release(p->indices);
  weft_tensor_release(p->values);
  weft_tensor_release(p->shape);
}

static int64_t rows(const weft_dataset_t *d) {
  return *(const int64_t *)((const sparse_params_t *)d->params)->shape->data;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  sparse_iterator_t *r = (sparse_iterator_t *)it;
  const sparse_params_t *p = (const sparse_params_t *)it->of->params;
  const int64_t rank = p->shape->count, *indices = p->indices->data;
  *is_end = r->row >= rows(it->of);
  if (*is_end) return NULL;
  int64_t n = 0;
  while (r->at + n < p->values->count && indices[(r->at + n) * rank] == r->row) n++;
  const weft_shape_t matrix = weft_shape_matrix(n, rank - 1), vector = weft_shape_vector(rank - 1);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &matrix, NULL, &out[0]));
  for (int64_t i = 0; i < n; i++) {
    memcpy((int64_t *)out[0]->data + i * (rank - 1), indices + (r->at + i) * rank + 1,
           (size_t)(rank - 1) * sizeof *indices);
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_slice(p->values, r->at, n, &out[1]));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &vector, NULL, &out[2]));
  memcpy(out[2]->data, (const int64_t *)p->shape->data + 1, (size_t)(rank - 1) * sizeof *indices);
  r->at += n;
  r->row++;
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const sparse_iterator_t *r = (const sparse_iterator_t *)it;
  weft_saved_put_int(to, r->row);
  weft_saved_put_int(to, r->at);
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  sparse_iterator_t *r = (sparse_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, rows(it->of), &r->row));
  return weft_saved_get_int_in(from, 0, ((const sparse_params_t *)it->of->params)->values->count, &r->at);
}

static weft_status_t *check(const weft_tensor_t *indices, const weft_tensor_t *values,
                            const weft_tensor_t *shape) {
  if (indices->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input indices must be a matrix. Got: %s",
                      WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (values->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input values must be a vector. Got: %s",
                      WEFT_SHAPE_TEXT(&values->shape));
  if (shape->shape.rank != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input shape must be a vector. Got: %s",
                      WEFT_SHAPE_TEXT(&shape->shape));
  if (values->count != indices->shape.dims[0])
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of values must match first dimension of indices. Got %lld values, "
                      "indices shape: %s",
                      (long long)values->count, WEFT_SHAPE_TEXT(&indices->shape));
  if (shape->count != indices->shape.dims[1])
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of dimensions must match second dimension of indices. Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)shape->count, WEFT_SHAPE_TEXT(&indices->shape));
  if (shape->count == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "The shape argument requires at least one element.");
  const int64_t rank = shape->count, *at = indices->data;
  for (int64_t i = 0, before = -1; i < values->count; i++) {
    const int64_t row = at[i * rank];
    if (row < before)
      return WEFT_ERROR(UNIMPLEMENTED,
                        "The SparseTensor must be ordered in the batch dimension; handling "
                        "arbitrarily ordered input is not currently supported.");
    if (row < 0 || row >= *(const int64_t *)shape->data)
      return WEFT_ERROR(INVALID_ARGUMENT, "index %lld of value %lld is out of bounds", (long long)row,
                        (long long)i);
    before = row;
  }
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  sparse_params_t *p = params;
  weft_tensor_t *indices = weft_in(c, at), *values = weft_in(c, at + 1), *shape = weft_in(c, at + 2);
  WEFT_RETURN_IF_ERROR(check(indices, values, shape));
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(3, &d->spec));
  d->spec->dtypes[0] = d->spec->dtypes[2] = WEFT_I64;
  d->spec->dtypes[1] = values->dtype;
  d->spec->shapes[0] = weft_shape_matrix(WEFT_UNKNOWN_DIM, shape->count - 1);
  d->spec->shapes[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  d->spec->shapes[2] = weft_shape_vector(shape->count - 1);
  p->indices = weft_tensor_retain(indices);
  p->values = weft_tensor_retain(values);
  p->shape = weft_tensor_retain(shape);
  return NULL;
}

static const weft_dataset_class_t class = {.name = "SparseTensorSlice",
                                           .iterator_size = sizeof(sparse_iterator_t),
                                           .next = next,
                                           .save = save,
                                           .load = load,
                                           .cardinality = rows};

/* ---- DenseToSparseBatchDataset ---- */

typedef struct to_sparse_params {
  weft_dataset_params_t base;
  int64_t size;
  weft_shape_t row; /* -1: the largest of the batch */
} to_sparse_params_t;

/* The dense shape of a batch: its rows, and for each dimension what is given or the largest. */
static weft_status_t *widen(const to_sparse_params_t *p, const weft_shape_t *element, int64_t *dims) {
  if (element->rank != p->row.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input element had shape (%s) that is incompatible with the row shape (%s).",
                      WEFT_SHAPE_TEXT(element), WEFT_SHAPE_TEXT(&p->row));
  }
  for (int k = 0; k < element->rank; k++) {
    if (p->row.dims[k] >= 0 && element->dims[k] > p->row.dims[k]) {
      return WEFT_ERROR(DATA_LOSS, "Input element had shape (%s) that is larger than the row shape (%s).",
                        WEFT_SHAPE_TEXT(element), WEFT_SHAPE_TEXT(&p->row));
    }
    if (element->dims[k] > dims[k + 1]) dims[k + 1] = element->dims[k];
  }
  dims[0]++;
  return NULL;
}

static void number_elements(const weft_shape_t *s, int64_t row, int64_t count, int64_t *out) {
  int64_t at[WEFT_MAX_DIMS] = {0};
  for (int64_t i = 0; i < count; i++) {
    *out++ = row;
    for (int k = 0; k < s->rank; k++) *out++ = at[k];
    for (int k = s->rank - 1; k >= 0 && ++at[k] == s->dims[k]; k--) at[k] = 0;
  }
}

/* Indices, values and the dense shape of elements, which are scalars in `l`, as a vector of three variants'
 * tensors. */
static weft_status_t *to_sparse(const to_sparse_params_t *p, weft_tensor_t *const *elements, int64_t n,
                                weft_dtype_t dtype, weft_tensor_t **parts) {
  int64_t dims[WEFT_MAX_DIMS + 1] = {0}, total = 0;
  for (int k = 0; k < p->row.rank; k++) dims[k + 1] = p->row.dims[k] >= 0 ? p->row.dims[k] : 0;
  for (int64_t i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(widen(p, &elements[i]->shape, dims));
    total += elements[i]->count;
  }
  const weft_shape_t matrix = weft_shape_matrix(total, p->row.rank + 1), vector = weft_shape_vector(total),
                     shape = weft_shape_vector(p->row.rank + 1);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &matrix, NULL, &parts[0]));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &vector, NULL, &parts[1]));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, &shape, NULL, &parts[2]));
  memcpy(parts[2]->data, dims, (size_t)(p->row.rank + 1) * sizeof *dims);
  for (int64_t i = 0, at = 0; i < n; at += elements[i]->count, i++) {
    number_elements(&elements[i]->shape, i, elements[i]->count,
                    (int64_t *)parts[0]->data + at * (p->row.rank + 1));
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(parts[1], at, elements[i], 0, elements[i]->count));
  }
  return NULL;
}

/* A vector of three boxes. */
static weft_status_t *box_all(weft_tensor_t *const *parts, weft_tensor_t **out) {
  const weft_shape_t three = weft_shape_vector(3);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &three, NULL, out));
  for (int i = 0; i < 3; i++) {
    weft_pack_t *box = NULL;
    WEFT_RETURN_IF_ERROR(weft_pack_of(&weft_boxed_type, &parts[i], 1, &box));
    ((weft_variant_t **)(*out)->data)[i] = &box->variant;
  }
  return NULL;
}

static weft_status_t *to_sparse_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const to_sparse_params_t *p = (const to_sparse_params_t *)it->of->params;
  weft_element_list_t l = {0};
  weft_tensor_t *element = NULL, *parts[3] = {NULL, NULL, NULL};
  weft_status_t *s = NULL;
  for (bool is_over = false; s == NULL && !is_over && l.count < p->size;) {
    s = weft_iterator_next(it->input, &element, &is_over);
    if (s == NULL && !is_over) s = weft_element_list_add(&l, &element, 1);
    weft_tensor_release(element);
    element = NULL;
  }
  *is_end = l.count == 0;
  if (s == NULL && !*is_end) s = to_sparse(p, l.parts, l.count, it->of->inputs[0]->spec->dtypes[0], parts);
  if (s == NULL && !*is_end) s = box_all(parts, &out[0]);
  weft_element_release(parts, 3);
  weft_element_list_deinit(&l, 1);
  return weft_iterator_blame(it, it->index, s);
}

static int64_t to_sparse_cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]),
                size = ((const to_sparse_params_t *)d->params)->size;
  return n < 0 ? n : n / size + (n % size != 0);
}

static weft_status_t *to_sparse_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  to_sparse_params_t *p = params;
  const weft_tensor_t *row = weft_in(c, at + 1);
  if (d->inputs[0]->spec->n != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "DenseToSparseBatchDataset only supports inputs with a single component.");
  }
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "batch_size", &p->size));
  if (p->size <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Batch size must be greater than zero.");
  if (row->shape.rank != 1 || row->count > WEFT_MAX_DIMS - 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "row_shape must be a vector");
  p->row = (weft_shape_t){.rank = (int)row->count};
  for (int k = 0; k < p->row.rank; k++) {
    p->row.dims[k] = ((const int64_t *)row->data)[k];
    if (p->row.dims[k] < -1)
      return WEFT_ERROR(INVALID_ARGUMENT, "dimension %d of row_shape is %lld", k, (long long)p->row.dims[k]);
  }
  return NULL;
}

static const weft_dataset_class_t to_sparse_class = {.name = "DenseToSparseBatch",
                                                     .iterator_size = sizeof(weft_iterator_t),
                                                     .opens_inputs = true,
                                                     .next = to_sparse_next,
                                                     .cardinality = to_sparse_cardinality};

static const weft_dataset_op_t op = {
    .class = &class, .params_size = sizeof(sparse_params_t), .make = make, .deinit = deinit};
static const weft_dataset_op_t to_sparse_op = {.class = &to_sparse_class,
                                               .num_inputs = 1,
                                               .params_size = sizeof(to_sparse_params_t),
                                               .make = to_sparse_make};

const weft_kernel_t weft_cpu_dataset_sparse_kernels[] = {
    WEFT_DATASET_ROW("DenseToSparseBatchDataset", to_sparse_op),
    WEFT_DATASET_ROW("ExperimentalDenseToSparseBatchDataset", to_sparse_op),
    WEFT_DATASET_ROW("SparseTensorSliceDataset", op),
    {0},
};
