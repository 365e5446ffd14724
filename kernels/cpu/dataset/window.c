/* kernels/cpu/dataset/window.c - windows over consecutive elements: as data sets, or as batches. */
#include "kernels/cpu/dataset/window.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/batch.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"

/* ---- elements in memory ---- */

weft_status_t *weft_element_list_add(weft_element_list_t *l, weft_tensor_t **element, int n) {
  if (l->count == l->capacity) {
    const int64_t capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
    weft_tensor_t **parts = weft_realloc(l->parts, (size_t)capacity, (size_t)n * sizeof *parts);
    if (parts == NULL) return WEFT_NO_MEMORY("a buffer of elements");
    l->parts = parts;
    l->capacity = capacity;
  }
  memcpy(l->parts + l->count * n, element, (size_t)n * sizeof *element);
  memset(element, 0, (size_t)n * sizeof *element);
  l->count++;
  return NULL;
}

void weft_element_list_drop(weft_element_list_t *l, int64_t count, int n) {
  if (count > l->count) count = l->count;
  for (int64_t i = 0; i < count; i++) weft_element_release(l->parts + i * n, n);
  l->count -= count;
  if (l->count > 0) memmove(l->parts, l->parts + count * n, (size_t)(l->count * n) * sizeof *l->parts);
}

void weft_element_list_deinit(weft_element_list_t *l, int n) {
  weft_element_list_drop(l, l->count, n);
  weft_free(l->parts);
  *l = (weft_element_list_t){0};
}

weft_status_t *weft_element_list_save(const weft_element_list_t *l, int n, weft_saved_t *to) {
  weft_saved_put_int(to, l->count);
  for (int64_t i = 0; i < l->count; i++)
    WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, l->parts + i * n, n));
  return NULL;
}

weft_status_t *weft_element_list_load(weft_element_list_t *l, const weft_element_spec_t *spec,
                                      weft_saved_t *from) {
  int64_t count;
  weft_tensor_t **element = weft_calloc((size_t)spec->n, sizeof *element);
  if (element == NULL) return WEFT_NO_MEMORY("a buffer of elements");
  weft_element_list_drop(l, l->count, spec->n);
  weft_status_t *s = weft_saved_get_int_in(from, 0, INT64_MAX, &count);
  for (int64_t i = 0; s == NULL && i < count; i++) {
    s = weft_saved_get_element(from, spec, element);
    if (s == NULL) s = weft_element_list_add(l, element, spec->n);
    weft_element_release(element, spec->n);
  }
  weft_free(element);
  return s;
}

/* ---- a window as a data set ---- */

typedef struct window_elements {
  weft_dataset_params_t base;
  int64_t count;
  int n;
  weft_tensor_t **parts; /* n for each element */
} window_elements_t;

typedef struct window_elements_iterator {
  weft_iterator_t base;
  int64_t at;
} window_elements_iterator_t;

static void elements_deinit(void *params) {
  window_elements_t *p = params;
  for (int64_t i = 0; p->parts != NULL && i < p->count * p->n; i++) weft_tensor_release(p->parts[i]);
  weft_free(p->parts);
}

static weft_status_t *elements_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const window_elements_t *p = (const window_elements_t *)it->of->params;
  window_elements_iterator_t *e = (window_elements_iterator_t *)it;
  *is_end = e->at >= p->count;
  for (int i = 0; !*is_end && i < p->n; i++) out[i] = weft_tensor_retain(p->parts[e->at * p->n + i]);
  e->at++;
  return NULL;
}

static weft_status_t *elements_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((window_elements_iterator_t *)it)->at);
  return NULL;
}

static weft_status_t *elements_load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_saved_get_int_in(from, 0, INT64_MAX, &((window_elements_iterator_t *)it)->at);
}

static int64_t elements_cardinality(const weft_dataset_t *d) {
  return ((const window_elements_t *)d->params)->count;
}

static const weft_dataset_class_t elements_class = {.name = "WindowElements",
                                                    .iterator_size = sizeof(window_elements_iterator_t),
                                                    .next = elements_next,
                                                    .save = elements_save,
                                                    .load = elements_load,
                                                    .cardinality = elements_cardinality};

weft_status_t *weft_window_create(const weft_iterator_t *it, weft_tensor_t *const *parts, int n,
                                  int64_t count, int64_t stride, int from, weft_element_spec_t *spec,
                                  weft_dataset_t **out) {
  window_elements_t like = {.count = count, .n = spec->n};
  weft_dataset_params_t *params = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_params_new(&like, sizeof like, elements_deinit, &params));
  window_elements_t *p = (window_elements_t *)params;
  p->parts = weft_calloc((size_t)count, (size_t)spec->n * sizeof *p->parts);
  weft_status_t *s = p->parts == NULL ? WEFT_NO_MEMORY("a window of elements") : NULL;
  for (int64_t i = 0; s == NULL && i < count; i++) {
    for (int k = 0; k < spec->n; k++)
      p->parts[i * spec->n + k] = weft_tensor_retain(parts[i * stride * n + from + k]);
  }
  const weft_dataset_t of = {
      .class = &elements_class, .params = params, .spec = spec, .device = it->of->device};
  if (s == NULL) s = weft_dataset_create(&of, NULL, 0, out);
  weft_object_release(&params->object);
  return s;
}

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
  weft_status_t *s = weft_window_create(&w->base, w->buffer.parts, all->n, (used - 1) / p->stride + 1,
                                        p->stride, i, spec, &d);
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
