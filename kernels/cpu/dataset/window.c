/* kernels/cpu/dataset/window.c - windows over consecutive elements: as data sets, or as batches. */
#include "base/alloc.h"
#include "kernels/cpu/dataset/batch.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- what WindowDataset and SlidingWindowDataset have in common ---- */

typedef struct window_params {
  weft_dataset_params_t base;
  int64_t size, shift, stride;
  bool drops_remainder;
} window_params_t;

typedef struct window_iterator {
  weft_iterator_t base;
  weft_element_list_t buffer;
  weft_tensor_t **element; /* of the input */
  bool is_input_over;
} window_iterator_t;

static weft_status_t *begin(weft_iterator_t *it) {
  window_iterator_t *w = (window_iterator_t *)it;
  w->element = weft_calloc((size_t)it->of->inputs[0]->spec->n, sizeof *w->element);
  return w->element != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void end(weft_iterator_t *it) {
  window_iterator_t *w = (window_iterator_t *)it;
  weft_element_list_deinit(&w->buffer, it->of->inputs[0]->spec->n);
  weft_free(w->element);
}

/* One more element into the buffer, or out of the input only. */
static weft_status_t *take(window_iterator_t *w, bool is_kept) {
  const int n = w->base.of->inputs[0]->spec->n;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(w->base.input, w->element, &w->is_input_over));
  weft_status_t *s = NULL;
  if (!w->is_input_over && is_kept) s = weft_element_list_add(&w->buffer, w->element, n);
  weft_element_release(w->element, n);
  return s;
}

static int64_t span(const window_params_t *p) {
  int64_t n;
  return __builtin_mul_overflow(p->size - 1, p->stride, &n) || n == INT64_MAX ? INT64_MAX : n + 1;
}

static weft_status_t *fill(window_iterator_t *w, bool *is_end) {
  const window_params_t *p = (const window_params_t *)w->base.of->params;
  while (!w->is_input_over && w->buffer.count < span(p)) WEFT_RETURN_IF_ERROR(take(w, true));
  *is_end = w->buffer.count == 0 || (p->drops_remainder && w->buffer.count < span(p));
  return NULL;
}

static weft_status_t *move_on(window_iterator_t *w) {
  const window_params_t *p = (const window_params_t *)w->base.of->params;
  const int64_t had = w->buffer.count;
  weft_element_list_drop(&w->buffer, p->shift, w->base.of->inputs[0]->spec->n);
  for (int64_t i = had; i < p->shift && !w->is_input_over; i++) WEFT_RETURN_IF_ERROR(take(w, false));
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const window_iterator_t *w = (const window_iterator_t *)it;
  weft_saved_put_int(to, w->is_input_over);
  return weft_element_list_save(&w->buffer, it->of->inputs[0]->spec->n, to);
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  window_iterator_t *w = (window_iterator_t *)it;
  int64_t is_over;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  w->is_input_over = is_over != 0;
  return weft_element_list_load(&w->buffer, it->of->inputs[0]->spec, from);
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  window_params_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "size", &p->size));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "shift", &p->shift));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "stride", &p->stride));
  if (at + 3 < c->node->num_inputs)
    WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 3, "drop_remainder", &p->drops_remainder));
  if (p->size <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Window size must be greater than zero.");
  if (p->shift <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Window shift must be greater than zero.");
  if (p->stride <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "Window stride must be greater than zero.");
  return NULL;
}

static int64_t cardinality(const weft_dataset_t *d) {
  const window_params_t *p = (const window_params_t *)d->params;
  const int64_t n = weft_dataset_cardinality(d->inputs[0]);
  if (n < 0) return n;
  if (p->drops_remainder) return n < span(p) ? 0 : (n - span(p)) / p->shift + 1;
  return n / p->shift + (n % p->shift != 0);
}

/* ---- WindowDataset: each component is a data set ---- */

static weft_status_t *make_component(window_iterator_t *w, int i, weft_tensor_t **out) {
  const window_params_t *p = (const window_params_t *)w->base.of->params;
  const weft_element_spec_t *all = w->base.of->inputs[0]->spec;
  weft_element_spec_t *spec = NULL;
  weft_dataset_t *d = NULL;
  const int64_t used = w->buffer.count < span(p) ? w->buffer.count : span(p);
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(1, &spec));
  spec->dtypes[0] = all->dtypes[i];
  spec->shapes[0] = all->shapes[i];
  weft_status_t *s = weft_elements_dataset(w->base.of->device, w->buffer.parts, all->n,
                                           (used - 1) / p->stride + 1, p->stride, i, spec, &d);
  weft_element_spec_release(spec);
  return s != NULL ? s : weft_dataset_tensor(d, out);
}

static weft_status_t *window_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  window_iterator_t *w = (window_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(fill(w, is_end));
  if (*is_end) return NULL;
  for (int i = 0; i < it->of->spec->n; i++) WEFT_RETURN_IF_ERROR(make_component(w, i, &out[i]));
  return move_on(w);
}

/* ---- SlidingWindowDataset: each component is a batch ---- */

static weft_status_t *sliding_read(const weft_kernel_setup_t *setup, void *params) {
  ((window_params_t *)params)->drops_remainder = weft_knode_bool_or(setup, "drop_remainder", true);
  return NULL;
}

static weft_status_t *sliding_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  window_iterator_t *w = (window_iterator_t *)it;
  const window_params_t *p = (const window_params_t *)it->of->params;
  const int n = it->of->spec->n;
  WEFT_RETURN_IF_ERROR(fill(w, is_end));
  if (*is_end) return NULL;
  const int64_t rows = (w->buffer.count - 1) / p->stride + 1;
  for (int64_t i = 0; i < rows; i++)
    WEFT_RETURN_IF_ERROR(weft_batch_copy(it, out, rows, i, w->buffer.parts + i * p->stride * n, n));
  return move_on(w);
}

#define CLASS(name_, next_)                                                                           \
  {                                                                                                   \
    .name = (name_), .iterator_size = sizeof(window_iterator_t), .opens_inputs = true,                \
    .shards_by_input = true, .begin = begin, .next = (next_), .end = end, .save = save, .load = load, \
    .cardinality = cardinality                                                                        \
  }
static const weft_dataset_class_t window_class = CLASS("Window", window_next),
                                  sliding_class = CLASS("SlidingWindow", sliding_next);
static const weft_dataset_op_t window_op = {
    .class = &window_class, .num_inputs = 1, .params_size = sizeof(window_params_t), .make = make};
static const weft_dataset_op_t sliding_op = {.class = &sliding_class,
                                             .num_inputs = 1,
                                             .params_size = sizeof(window_params_t),
                                             .read = sliding_read,
                                             .make = make};

const weft_kernel_t weft_cpu_dataset_window_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalSlidingWindowDataset", sliding_op),
    WEFT_DATASET_ROW("SlidingWindowDataset", sliding_op),
    WEFT_DATASET_ROW("WindowDataset", window_op),
    {0},
};
