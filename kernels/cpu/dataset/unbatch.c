/* kernels/cpu/dataset/unbatch.c - the rows of batches: one by one, or in batches of other sizes. */
#include "kernels/cpu/dataset/unbatch.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"
#include "resources/batcher.h"

/* A batch that is handed out in parts. */
typedef struct unbatch_iterator {
  weft_iterator_t base;
  weft_tensor_t **batch; /* all NULL: none */
  bool has_batch;
  int64_t at;   /* of its rows */
  int64_t part; /* of rebatching: number of the next part, or of the next size */
} unbatch_iterator_t;

static weft_status_t *begin(weft_iterator_t *it) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  u->batch = weft_calloc((size_t)it->of->spec->n, sizeof *u->batch);
  return u->batch != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void drop_batch(unbatch_iterator_t *u) {
  weft_element_release(u->batch, u->base.of->spec->n);
  u->has_batch = false;
  u->at = 0;
}

static void end(weft_iterator_t *it) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  if (u->batch != NULL) drop_batch(u);
  weft_free(u->batch);
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const unbatch_iterator_t *u = (const unbatch_iterator_t *)it;
  weft_saved_put_int(to, u->part);
  weft_saved_put_int(to, u->has_batch);
  if (!u->has_batch) return NULL;
  weft_saved_put_int(to, u->at);
  return weft_saved_put_element(to, u->batch, it->of->spec->n);
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  int64_t has_batch;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &u->part));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_batch));
  if (has_batch == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &u->at));
  WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, it->of->spec, u->batch));
  u->has_batch = true;
  for (int i = 0; i < it->of->spec->n; i++) {
    if (u->batch[i]->shape.rank < 1 || u->at > u->batch[i]->shape.dims[0])
      return weft_saved_broken("no such row");
  }
  return NULL;
}

/* ---- UnbatchDataset ---- */

static weft_status_t *check_rows(const unbatch_iterator_t *u) {
  for (int i = 0; i < u->base.of->spec->n; i++) {
    const weft_shape_t *shape = &u->batch[i]->shape;
    if (shape->rank < 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "Input element must have a non-scalar value in each component.");
    if (shape->dims[0] != u->batch[0]->shape.dims[0]) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Input element must have the same batch size in each component. Component 0 had size %lld "
          "but component %d had size, %lld.",
          (long long)u->batch[0]->shape.dims[0], i, (long long)shape->dims[0]);
    }
  }
  return NULL;
}

/* The next batch with a row to give. */
static weft_status_t *need_row(unbatch_iterator_t *u, bool *is_end) {
  while (!u->has_batch || u->at >= u->batch[0]->shape.dims[0]) {
    drop_batch(u);
    WEFT_RETURN_IF_ERROR(weft_iterator_next(u->base.input, u->batch, is_end));
    if (*is_end) return NULL;
    weft_status_t *s = check_rows(u);
    if (s != NULL) {
      drop_batch(u);
      return weft_iterator_blame(u->base.input, u->base.input->index - 1, s);
    }
    u->has_batch = true;
  }
  return NULL;
}

static weft_status_t *row(weft_tensor_t *t, int64_t at, weft_tensor_t **out) {
  weft_tensor_t *one = NULL;
  weft_shape_t shape = {.rank = t->shape.rank - 1};
  memcpy(shape.dims, t->shape.dims + 1, (size_t)shape.rank * sizeof *shape.dims);
  WEFT_RETURN_IF_ERROR(weft_tensor_slice(t, at, 1, &one));
  weft_status_t *s = weft_tensor_view(one, t->dtype, &shape, out);
  weft_tensor_release(one);
  return s;
}

static weft_status_t *unbatch_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(need_row(u, is_end));
  if (*is_end) return NULL;
  const int64_t at = u->at++;
  for (int i = 0; i < it->of->spec->n; i++) WEFT_RETURN_IF_ERROR(row(u->batch[i], at, &out[i]));
  return NULL;
}

static int64_t unbatch_cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]);
  const weft_element_spec_t *spec = d->inputs[0]->spec;
  if (n == WEFT_CARDINALITY_INFINITE || n == WEFT_CARDINALITY_UNKNOWN) return n;
  for (int i = 0; i < spec->n; i++) {
    int64_t total;
    if (spec->shapes[i].rank < 1 || spec->shapes[i].dims[0] < 0) continue;
    return __builtin_mul_overflow(n, spec->shapes[i].dims[0], &total) ? INT64_MAX : total;
  }
  return WEFT_CARDINALITY_UNKNOWN;
}

static const weft_dataset_class_t unbatch_class = {.name = "Unbatch",
                                                   .iterator_size = sizeof(unbatch_iterator_t),
                                                   .opens_inputs = true,
                                                   .shards_by_input = true,
                                                   .begin = begin,
                                                   .next = unbatch_next,
                                                   .end = end,
                                                   .save = save,
                                                   .load = load,
                                                   .cardinality = unbatch_cardinality};

/* ---- RebatchDataset: each batch in equal parts, one for each replica ---- */

static weft_status_t *parts_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  const int64_t num_parts = ((const weft_rebatch_params_t *)it->of->params)->sizes[0];
  if (!u->has_batch) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, u->batch, is_end));
    if (*is_end) return NULL;
    for (int i = 0; i < it->of->spec->n; i++) {
      if (u->batch[i]->shape.rank > 0) continue;
      drop_batch(u);
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Cannot rebatch dataset: All components must have at least one dimension. Perhaps your "
          "input dataset is not batched? Component %d is scalar.",
          i);
    }
    u->has_batch = true;
  }
  for (int i = 0; i < it->of->spec->n; i++) {
    const int64_t rows = u->batch[i]->shape.dims[0], each = rows / num_parts + (rows % num_parts != 0);
    const int64_t to = each * (u->part + 1) < rows ? each * (u->part + 1) : rows;
    const int64_t from = each * u->part < to ? each * u->part : to;
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(u->batch[i], from, to - from, &out[i]));
  }
  u->part = (u->part + 1) % num_parts;
  if (u->part == 0) drop_batch(u);
  return NULL;
}

const weft_dataset_class_t weft_rebatch_parts_class = {.name = "Rebatch",
                                                       .iterator_size = sizeof(unbatch_iterator_t),
                                                       .opens_inputs = true,
                                                       .shards_by_input = true,
                                                       .begin = begin,
                                                       .next = parts_next,
                                                       .end = end,
                                                       .save = save,
                                                       .load = load,
                                                       .cardinality = weft_cardinality_unknown};

/* ---- RebatchDatasetV2: batches of sizes that take turns ---- */

/* Up to `rows` of the batch's rows, of each component, as one more piece of the output. */
static weft_status_t *take_rows(unbatch_iterator_t *u, int64_t rows, weft_tensor_t **pieces,
                                int64_t num_pieces, int64_t max_pieces) {
  for (int i = 0; i < u->base.of->spec->n; i++)
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(u->batch[i], u->at, rows, &pieces[i * max_pieces + num_pieces]));
  u->at += rows;
  return NULL;
}

/* An empty batch: what is not known of its shape is 0. */
static weft_status_t *empty(const weft_iterator_t *it, int i, weft_tensor_t **out) {
  weft_shape_t shape = it->of->spec->shapes[i];
  if (shape.rank < 1) shape = weft_shape_vector(0);
  for (int k = 0; k < shape.rank; k++) shape.dims[k] = k == 0 || shape.dims[k] < 0 ? 0 : shape.dims[k];
  return weft_tensor_new(it->of->spec->dtypes[i], &shape, NULL, out);
}

typedef struct rebatch_pieces {
  weft_tensor_t **all; /* of component i from i * max on */
  int64_t count, max;
} rebatch_pieces_t;

/* Room for one more piece of each component. */
static weft_status_t *more_pieces(rebatch_pieces_t *p, int n) {
  if (p->count < p->max) return NULL;
  const int64_t max = p->max == 0 ? 4 : 2 * p->max;
  weft_tensor_t **all = weft_calloc((size_t)n * (size_t)max, sizeof *all);
  if (all == NULL) return WEFT_NO_MEMORY("the parts of a batch");
  for (int i = 0; p->count > 0 && i < n; i++)
    memcpy(all + i * max, p->all + i * p->max, (size_t)p->count * sizeof *all);
  weft_free(p->all);
  p->all = all;
  p->max = max;
  return NULL;
}

static weft_status_t *collect(unbatch_iterator_t *u, int64_t wanted, rebatch_pieces_t *p, int64_t *rows) {
  const int n = u->base.of->spec->n;
  for (bool is_end = false; *rows < wanted;) {
    weft_status_t *s = need_row(u, &is_end);
    u->base.is_over = s != NULL && is_end;
    if (s != NULL || is_end) return s;
    const int64_t left = u->batch[0]->shape.dims[0] - u->at;
    const int64_t some = left < wanted - *rows ? left : wanted - *rows;
    WEFT_RETURN_IF_ERROR(more_pieces(p, n));
    WEFT_RETURN_IF_ERROR(take_rows(u, some, p->all, p->count, p->max));
    p->count++;
    *rows += some;
  }
  return NULL;
}

static weft_status_t *sizes_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  unbatch_iterator_t *u = (unbatch_iterator_t *)it;
  const weft_rebatch_params_t *params = (const weft_rebatch_params_t *)it->of->params;
  rebatch_pieces_t p = {0};
  int64_t rows = 0;
  const int n = it->of->spec->n;
  *is_end = it->input->is_over;
  if (*is_end) return NULL;
  const int64_t wanted = params->sizes[u->part % params->num_sizes];
  weft_status_t *s = collect(u, wanted, &p, &rows);
  u->part = (u->part + 1) % params->num_sizes;
  *is_end = s != NULL ? it->is_over : (rows == 0 && wanted > 0) || (rows < wanted && params->drops_remainder);
  for (int i = 0; s == NULL && !*is_end && i < n; i++) {
    s = p.count == 0
            ? empty(it, i, &out[i])
            : weft_batch_join(p.all + i * p.max, (int)p.count, it->traversal->device->allocator, &out[i]);
  }
  for (int i = 0; i < n; i++) {
    for (int64_t k = 0; k < p.count; k++) weft_tensor_release(p.all[i * p.max + k]);
  }
  weft_free(p.all);
  return weft_iterator_blame(it, it->index, s);
}

const weft_dataset_class_t weft_rebatch_class = {.name = "RebatchV2",
                                                 .iterator_size = sizeof(unbatch_iterator_t),
                                                 .opens_inputs = true,
                                                 .shards_by_input = true,
                                                 .begin = begin,
                                                 .next = sizes_next,
                                                 .end = end,
                                                 .save = save,
                                                 .load = load,
                                                 .cardinality = weft_cardinality_unknown};

static void rebatch_deinit(void *params) { weft_free(((weft_rebatch_params_t *)params)->sizes); }

static weft_status_t *parts_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  weft_rebatch_params_t *p = params;
  int64_t n;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "num_replicas", &n));
  if (n <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "num_replicas must be greater than zero.");
  p->sizes = weft_calloc(1, sizeof *p->sizes);
  if (p->sizes == NULL) return WEFT_NO_MEMORY("a data set");
  p->sizes[0] = n;
  p->num_sizes = 1;
  return NULL;
}

static weft_status_t *sizes_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  weft_rebatch_params_t *p = params;
  const weft_tensor_t *sizes = weft_in(c, at);
  (void)d;
  if (sizes->shape.rank > 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "`batch_sizes` must be a scalar or a vector.");
  if (sizes->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "`batch_sizes` must not be empty.");
  p->sizes = weft_calloc((size_t)sizes->count, sizeof *p->sizes);
  if (p->sizes == NULL) return WEFT_NO_MEMORY("a data set");
  memcpy(p->sizes, sizes->data, sizes->bytes);
  p->num_sizes = sizes->count;
  return weft_dataset_in_bool(c, at + 1, "drop_remainder", &p->drops_remainder);
}

/* Of the class, over `input`, whose batches it cuts anew; the params take `sizes`, also on failure. */
static weft_status_t *create(const weft_dataset_class_t *class, weft_dataset_t *input, int64_t *sizes,
                             int64_t num_sizes, weft_dataset_t **out) {
  const weft_rebatch_params_t like = {.sizes = sizes, .num_sizes = num_sizes};
  weft_dataset_t made = {.class = class, .device = input->device};
  weft_status_t *s = weft_dataset_params_new(&like, sizeof like, rebatch_deinit, &made.params);
  if (s != NULL) {
    weft_free(sizes);
    return s;
  }
  s = weft_element_spec_any_rows(input->spec, &made.spec);
  if (s == NULL) s = weft_dataset_create(&made, &input, 1, out);
  weft_element_spec_release(made.spec);
  weft_object_release(&made.params->object);
  return s;
}

weft_status_t *weft_rebatch_parts_create(const weft_dataset_t *d, int64_t num_parts, weft_dataset_t **out) {
  int64_t *sizes = weft_calloc(1, sizeof *sizes);
  if (sizes == NULL) return WEFT_NO_MEMORY("a data set");
  sizes[0] = num_parts;
  return create(&weft_rebatch_parts_class, d->inputs[0], sizes, 1, out);
}

weft_status_t *weft_rebatch_create(weft_dataset_t *d, const int64_t *sizes, int64_t num_sizes,
                                   weft_dataset_t **out) {
  int64_t *own = weft_calloc((size_t)num_sizes, sizeof *own);
  if (own == NULL) return WEFT_NO_MEMORY("a data set");
  memcpy(own, sizes, (size_t)num_sizes * sizeof *own);
  return create(&weft_rebatch_class, d, own, num_sizes, out);
}

static const weft_dataset_op_t unbatch_op = {.class = &unbatch_class, .num_inputs = 1};
static const weft_dataset_op_t parts_op = {.class = &weft_rebatch_parts_class,
                                           .num_inputs = 1,
                                           .params_size = sizeof(weft_rebatch_params_t),
                                           .make = parts_make,
                                           .deinit = rebatch_deinit};
static const weft_dataset_op_t sizes_op = {.class = &weft_rebatch_class,
                                           .num_inputs = 1,
                                           .params_size = sizeof(weft_rebatch_params_t),
                                           .make = sizes_make,
                                           .deinit = rebatch_deinit};

const weft_kernel_t weft_cpu_dataset_unbatch_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalRebatchDataset", parts_op),
    WEFT_DATASET_ROW("ExperimentalUnbatchDataset", unbatch_op),
    WEFT_DATASET_ROW("RebatchDataset", parts_op),
    WEFT_DATASET_ROW("RebatchDatasetV2", sizes_op),
    WEFT_DATASET_ROW("UnbatchDataset", unbatch_op),
    {0},
};
