/* kernels/cpu/dataset/source.c - data sets of tensors: one element, the rows of tensors, numbers in a range.
 */
#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- TensorDataset, TensorSliceDataset ---- */

typedef struct tensors {
  weft_dataset_params_t base;
  int n;
  int64_t rows; /* elements */
  weft_tensor_t **parts;
} tensors_t;

typedef struct place_iterator {
  weft_iterator_t base;
  int64_t at;
} place_iterator_t;

static void tensors_deinit(void *params) {
  tensors_t *p = params;
  for (int i = 0; p->parts != NULL && i < p->n; i++) weft_tensor_release(p->parts[i]);
  weft_free(p->parts);
}

static weft_status_t *keep_tensors(weft_kernel_ctx_t *c, tensors_t *p) {
  p->n = c->node->num_inputs;
  p->parts = weft_calloc((size_t)p->n, sizeof *p->parts);
  if (p->parts == NULL) return WEFT_NO_MEMORY("a data set of tensors");
  for (int i = 0; i < p->n; i++) p->parts[i] = weft_tensor_retain(weft_in(c, i));
  return NULL;
}

/* The shapes that the attribute declares must be those that elements have. */
static weft_status_t *check_shapes(const weft_dataset_t *d, const tensors_t *p, int skip) {
  weft_element_spec_t *got = NULL;
  if (d->spec->n != p->n) return WEFT_ERROR(INVALID_ARGUMENT, "a shape is needed for each component");
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(p->n, &got));
  for (int i = 0; i < p->n; i++) {
    got->dtypes[i] = p->parts[i]->dtype;
    got->shapes[i] = (weft_shape_t){.rank = p->parts[i]->shape.rank - skip};
    for (int k = 0; k < got->shapes[i].rank; k++) got->shapes[i].dims[k] = p->parts[i]->shape.dims[k + skip];
  }
  weft_status_t *s = weft_element_spec_check(d->spec, got);
  weft_element_spec_release(got);
  return s;
}

static weft_status_t *tensor_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  tensors_t *p = params;
  (void)at;
  p->rows = 1;
  WEFT_RETURN_IF_ERROR(keep_tensors(c, p));
  return check_shapes(d, p, 0);
}

static weft_status_t *slices_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  tensors_t *p = params;
  (void)at;
  for (int i = 0; i < c->node->num_inputs; i++) {
    const weft_shape_t *shape = &weft_in(c, i)->shape;
    if (shape->rank < 1) return WEFT_ERROR(INVALID_ARGUMENT, "All components must be at least 1-dimensional");
    if (i == 0) p->rows = shape->dims[0];
    if (shape->dims[0] != p->rows)
      return WEFT_ERROR(INVALID_ARGUMENT, "All components must have the same size in the 0th dimension");
  }
  WEFT_RETURN_IF_ERROR(keep_tensors(c, p));
  return check_shapes(d, p, 1);
}

static weft_status_t *tensor_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const tensors_t *p = (const tensors_t *)it->of->params;
  place_iterator_t *place = (place_iterator_t *)it;
  *is_end = place->at++ > 0;
  for (int i = 0; !*is_end && i < p->n; i++) out[i] = weft_tensor_retain(p->parts[i]);
  return NULL;
}

/* Row `at` without its first dimension, sharing bytes. */
static weft_status_t *row(weft_tensor_t *t, int64_t at, weft_tensor_t **out) {
  weft_tensor_t *one = NULL;
  weft_shape_t shape = {.rank = t->shape.rank - 1};
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = t->shape.dims[i + 1];
  WEFT_RETURN_IF_ERROR(weft_tensor_slice(t, at, 1, &one));
  weft_status_t *s = weft_tensor_view(one, t->dtype, &shape, out);
  weft_tensor_release(one);
  return s;
}

static weft_status_t *slices_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const tensors_t *p = (const tensors_t *)it->of->params;
  place_iterator_t *place = (place_iterator_t *)it;
  *is_end = place->at >= p->rows;
  if (*is_end) return NULL;
  for (int i = 0; i < p->n; i++) WEFT_RETURN_IF_ERROR(row(p->parts[i], place->at, &out[i]));
  place->at++;
  return NULL;
}

static weft_status_t *place_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((place_iterator_t *)it)->at);
  return NULL;
}

static weft_status_t *place_load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_saved_get_int_in(from, 0, INT64_MAX, &((place_iterator_t *)it)->at);
}

static int64_t tensors_cardinality(const weft_dataset_t *d) { return ((const tensors_t *)d->params)->rows; }

static const weft_dataset_class_t tensor_class = {.name = "Tensor",
                                                  .iterator_size = sizeof(place_iterator_t),
                                                  .next = tensor_next,
                                                  .save = place_save,
                                                  .load = place_load,
                                                  .cardinality = tensors_cardinality};
const weft_dataset_class_t weft_tensor_slice_class = {.name = "TensorSlice",
                                                      .iterator_size = sizeof(place_iterator_t),
                                                      .next = slices_next,
                                                      .save = place_save,
                                                      .load = place_load,
                                                      .cardinality = tensors_cardinality};

/* ---- ListDataset: one element after the other, as inputs ---- */

static weft_status_t *list_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  tensors_t *p = params;
  (void)at;
  if (d->spec->n == 0 || c->node->num_inputs % d->spec->n != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%d tensors are no whole number of elements of %d components",
                      c->node->num_inputs, d->spec->n);
  p->rows = c->node->num_inputs / d->spec->n;
  return keep_tensors(c, p);
}

static weft_status_t *list_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const tensors_t *p = (const tensors_t *)it->of->params;
  place_iterator_t *place = (place_iterator_t *)it;
  const int n = it->of->spec->n;
  *is_end = place->at >= p->rows;
  for (int i = 0; !*is_end && i < n; i++) out[i] = weft_tensor_retain(p->parts[place->at * n + i]);
  place->at++;
  return NULL;
}

static const weft_dataset_class_t list_class = {.name = "List",
                                                .iterator_size = sizeof(place_iterator_t),
                                                .next = list_next,
                                                .save = place_save,
                                                .load = place_load,
                                                .cardinality = tensors_cardinality};
static const weft_dataset_op_t list_op = {
    .class = &list_class, .params_size = sizeof(tensors_t), .make = list_make, .deinit = tensors_deinit};

/* ---- RangeDataset ---- */

typedef struct range {
  weft_dataset_params_t base;
  int64_t start, stop, step;
} range_t;

static weft_status_t *range_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  range_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "start", &p->start));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "stop", &p->stop));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "step", &p->step));
  return p->step != 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "step must be a non-zero integer.");
}

static int64_t range_cardinality(const weft_dataset_t *d) {
  const range_t *p = (const range_t *)d->params;
  const bool up = p->step > 0;
  if (up ? p->start >= p->stop : p->start <= p->stop) return 0;
  const uint64_t length =
      up ? (uint64_t)p->stop - (uint64_t)p->start : (uint64_t)p->start - (uint64_t)p->stop;
  const uint64_t step = up ? (uint64_t)p->step : -(uint64_t)p->step;
  const uint64_t n = (length - 1) / step + 1;
  return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* The number as the dtype that the data set declares, as a C conversion makes it. */
static weft_status_t *number(int64_t v, weft_dtype_t dtype, weft_tensor_t **out) {
  union {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
  } x = {.i64 = v};
  switch (dtype) {
    case WEFT_I8: x.i8 = (int8_t)v; break;
    case WEFT_U8: x.u8 = (uint8_t)v; break;
    case WEFT_I16: x.i16 = (int16_t)v; break;
    case WEFT_U16: x.u16 = (uint16_t)v; break;
    case WEFT_I32: x.i32 = (int32_t)v; break;
    case WEFT_U32: x.u32 = (uint32_t)v; break;
    case WEFT_I64: break;
    case WEFT_U64: x.u64 = (uint64_t)v; break;
    case WEFT_F32: x.f = (float)v; break;
    case WEFT_F64: x.d = (double)v; break;
    default: return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported data type: %s", weft_dtype_name(dtype));
  }
  return weft_tensor_scalar(dtype, &x, out);
}

static weft_status_t *range_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const range_t *p = (const range_t *)it->of->params;
  place_iterator_t *place = (place_iterator_t *)it;
  *is_end = place->at >= range_cardinality(it->of);
  if (*is_end) return NULL;
  const uint64_t v = (uint64_t)p->start + (uint64_t)place->at++ * (uint64_t)p->step;
  return number((int64_t)v, it->of->spec->dtypes[0], &out[0]);
}

static const weft_dataset_class_t range_class = {.name = "Range",
                                                 .iterator_size = sizeof(place_iterator_t),
                                                 .next = range_next,
                                                 .save = place_save,
                                                 .load = place_load,
                                                 .cardinality = range_cardinality};

static const weft_dataset_op_t tensor_op = {
    .class = &tensor_class, .params_size = sizeof(tensors_t), .make = tensor_make, .deinit = tensors_deinit};
static const weft_dataset_op_t slices_op = {.class = &weft_tensor_slice_class,
                                            .params_size = sizeof(tensors_t),
                                            .make = slices_make,
                                            .deinit = tensors_deinit};
static const weft_dataset_op_t range_op = {
    .class = &range_class, .params_size = sizeof(range_t), .make = range_make};

const weft_kernel_t weft_cpu_dataset_source_kernels[] = {
    WEFT_DATASET_ROW("ListDataset", list_op),
    WEFT_DATASET_ROW("RangeDataset", range_op),
    WEFT_DATASET_ROW("TensorDataset", tensor_op),
    WEFT_DATASET_ROW("TensorSliceDataset", slices_op),
    {0},
};
