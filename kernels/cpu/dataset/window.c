/* kernels/cpu/dataset/window.c - windows over consecutive elements: as data sets, or as batches. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/batch.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- what WindowDataset and SlidingWindowDataset have in common ---- */

typedef struct window_params {
  weft_dataset_params_t base;
  int64_t size, shift, stride;
  bool drops_remainder;
  bool keeps_failures; /* an element that has failed fails the windows that hold it, not the one that meets it
                        */
} window_params_t;

typedef struct window_iterator {
  weft_iterator_t base;
  weft_element_list_t buffer; /* an element that has failed: NULLs */
  weft_status_t **failures;   /* of the buffer's elements; NULL: none of them has failed */
  int64_t num_failures;       /* room of the above */
  weft_tensor_t **element;    /* of the input */
  bool is_input_over;
} window_iterator_t;

static weft_status_t *begin(weft_iterator_t *it) {
  window_iterator_t *w = (window_iterator_t *)it;
  w->element = weft_calloc((size_t)it->of->inputs[0]->spec->n, sizeof *w->element);
  return w->element != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

/* Notes that element `at` of the buffer has failed; owns the status. */
static weft_status_t *note_failure(window_iterator_t *w, int64_t at, weft_status_t *failure) {
  if (at >= w->num_failures) {
    const int64_t n = 2 * at + 16;
    weft_status_t **more = weft_realloc(w->failures, (size_t)n, sizeof *more);
    if (more == NULL) {
      weft_status_free(failure);
      return WEFT_NO_MEMORY("a buffer of elements");
    }
    memset(more + w->num_failures, 0, (size_t)(n - w->num_failures) * sizeof *more);
    w->failures = more;
    w->num_failures = n;
  }
  w->failures[at] = failure;
  return NULL;
}

static const weft_status_t *failure_of(const window_iterator_t *w, int64_t at) {
  return at < w->num_failures ? w->failures[at] : NULL;
}

/* The first `count` elements out of the buffer. */
static void drop(window_iterator_t *w, int64_t count) {
  if (count > w->buffer.count) count = w->buffer.count;
  weft_element_list_drop(&w->buffer, count, w->base.of->inputs[0]->spec->n);
  if (count > w->num_failures) count = w->num_failures;
  for (int64_t i = 0; i < count; i++) weft_status_free(w->failures[i]);
  const int64_t kept = w->num_failures - count;
  if (kept > 0) memmove(w->failures, w->failures + count, (size_t)kept * sizeof *w->failures);
  for (int64_t i = kept; i < w->num_failures; i++) w->failures[i] = NULL;
}

static void end(weft_iterator_t *it) {
  window_iterator_t *w = (window_iterator_t *)it;
  drop(w, w->buffer.count);
  weft_element_list_deinit(&w->buffer, it->of->inputs[0]->spec->n);
  weft_free(w->failures);
  weft_free(w->element);
}

/* One more element into the buffer, or out of the input only. */
static weft_status_t *take(window_iterator_t *w, bool is_kept) {
  const int n = w->base.of->inputs[0]->spec->n;
  const bool keeps_failures = ((const window_params_t *)w->base.of->params)->keeps_failures;
  weft_status_t *failure = weft_iterator_next(w->base.input, w->element, &w->is_input_over), *s = NULL;
  if (failure != NULL && (!keeps_failures || weft_canceller_is_cancelled(w->base.canceller))) return failure;
  if (!w->is_input_over && is_kept) s = weft_element_list_add(&w->buffer, w->element, n);
  if (failure != NULL && !w->is_input_over && is_kept && s == NULL) {
    s = note_failure(w, w->buffer.count - 1, failure);
  } else {
    weft_status_free(failure);
  }
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
  drop(w, p->shift);
  for (int64_t i = had; i < p->shift && !w->is_input_over; i++) WEFT_RETURN_IF_ERROR(take(w, false));
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const window_iterator_t *w = (const window_iterator_t *)it;
  const int n = it->of->inputs[0]->spec->n;
  weft_saved_put_int(to, w->is_input_over);
  weft_saved_put_int(to, w->buffer.count);
  for (int64_t i = 0; i < w->buffer.count; i++) {
    weft_saved_put_status(to, failure_of(w, i));
    if (failure_of(w, i) == NULL)
      WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, w->buffer.parts + i * n, n));
  }
  return NULL;
}

static weft_status_t *load_element(window_iterator_t *w, int64_t i, weft_saved_t *from) {
  const weft_element_spec_t *spec = w->base.of->inputs[0]->spec;
  weft_status_t *failure = NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_status(from, &failure));
  weft_status_t *s =
      failure != NULL ? note_failure(w, i, failure) : weft_saved_get_element(from, spec, w->element);
  if (s == NULL) s = weft_element_list_add(&w->buffer, w->element, spec->n);
  weft_element_release(w->element, spec->n);
  return s;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  window_iterator_t *w = (window_iterator_t *)it;
  int64_t is_over, count;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  w->is_input_over = is_over != 0;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &count));
  for (int64_t i = 0; i < count; i++) WEFT_RETURN_IF_ERROR(load_element(w, i, from));
  return NULL;
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

/* Of those that the window takes; NULL: none. */
static const weft_status_t *first_failure(const window_iterator_t *w) {
  const window_params_t *p = (const window_params_t *)w->base.of->params;
  for (int64_t i = 0; i < w->num_failures && i < w->buffer.count; i += p->stride) {
    if (w->failures[i] != NULL) return w->failures[i];
  }
  return NULL;
}

static weft_status_t *window_read(const weft_kernel_setup_t *setup, void *params) {
  (void)setup;
  ((window_params_t *)params)->keeps_failures = true;
  return NULL;
}

static weft_status_t *window_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  window_iterator_t *w = (window_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(fill(w, is_end));
  if (*is_end) return NULL;
  weft_status_t *s = weft_status_clone(first_failure(w));
  for (int i = 0; s == NULL && i < it->of->spec->n; i++) s = make_component(w, i, &out[i]);
  weft_status_t *moved = move_on(w);
  if (s == NULL) return moved;
  weft_status_free(moved);
  return s;
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
static const weft_dataset_op_t window_op = {.class = &window_class,
                                            .num_inputs = 1,
                                            .params_size = sizeof(window_params_t),
                                            .read = window_read,
                                            .make = make};
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
