/* kernels/cpu/dataset/scan.c - a function with a state that goes from element to element; and elements as
 * long as a predicate holds. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

typedef struct scan_params {
  weft_dataset_params_t base;
  int num_states;
  weft_tensor_t **states; /* at the begin of a pass; owned */
  bool preserves_cardinality;
} scan_params_t;

static void deinit(void *params) {
  scan_params_t *p = params;
  if (p->states != NULL) weft_element_release(p->states, p->num_states);
  weft_free(p->states);
}

typedef struct scan_iterator {
  weft_iterator_t base;
  weft_tensor_t **args;    /* states, then an element */
  weft_tensor_t **results; /* states, then an element of the output */
} scan_iterator_t;

static int num_states(const weft_iterator_t *it) {
  return ((const scan_params_t *)it->of->params)->num_states;
}

static weft_status_t *begin(weft_iterator_t *it) {
  scan_iterator_t *s = (scan_iterator_t *)it;
  const scan_params_t *p = (const scan_params_t *)it->of->params;
  s->args = weft_calloc((size_t)p->num_states + (size_t)it->of->inputs[0]->spec->n, sizeof *s->args);
  s->results = weft_calloc((size_t)p->num_states + (size_t)it->of->spec->n, sizeof *s->results);
  if (s->args == NULL || s->results == NULL) return WEFT_NO_MEMORY("an iterator");
  for (int i = 0; i < p->num_states; i++) s->args[i] = weft_tensor_retain(p->states[i]);
  return NULL;
}

static void end(weft_iterator_t *it) {
  scan_iterator_t *s = (scan_iterator_t *)it;
  if (s->args != NULL) weft_element_release(s->args, num_states(it));
  weft_free(s->args);
  weft_free(s->results);
}

/* After a failure the state is that of before. */
static weft_status_t *call(scan_iterator_t *s, weft_tensor_t **out, bool *is_end) {
  weft_iterator_t *it = &s->base;
  const int states = num_states(it), n = it->of->inputs[0]->spec->n;
  weft_status_t *status =
      weft_iterator_call(it, it->of->fns[0], s->args, states + n, s->results, states + it->of->spec->n);
  if (weft_status_code(status) == WEFT_OUT_OF_RANGE) {
    if (((const scan_params_t *)it->of->params)->preserves_cardinality) {
      weft_status_t *wrapped = WEFT_ERROR(
          INVALID_ARGUMENT, "Function invocation produced OutOfRangeError: %s", weft_status_message(status));
      weft_status_free(status);
      return wrapped;
    }
    weft_status_free(status);
    *is_end = true;
    return NULL;
  }
  if (status != NULL) return status;
  weft_element_release(s->args, states);
  memcpy(s->args, s->results, (size_t)states * sizeof *s->args);
  memcpy(out, s->results + states, (size_t)it->of->spec->n * sizeof *out);
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  scan_iterator_t *s = (scan_iterator_t *)it;
  const int states = num_states(it), n = it->of->inputs[0]->spec->n;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, s->args + states, is_end));
  if (*is_end) return NULL;
  weft_status_t *status = call(s, out, is_end);
  weft_element_release(s->args + states, n);
  return weft_iterator_blame(it, it->index, status);
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  for (int i = 0; i < num_states(it); i++)
    WEFT_RETURN_IF_ERROR(weft_saved_put_tensor(to, ((scan_iterator_t *)it)->args[i]));
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  scan_iterator_t *s = (scan_iterator_t *)it;
  const scan_params_t *p = (const scan_params_t *)it->of->params;
  for (int i = 0; i < p->num_states; i++) {
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(weft_saved_get_tensor(from, &t));
    weft_tensor_release(s->args[i]);
    s->args[i] = t;
    if (t->dtype != p->states[i]->dtype) return weft_saved_broken("a state is of another type");
  }
  return NULL;
}

static int64_t cardinality(const weft_dataset_t *d) {
  return ((const scan_params_t *)d->params)->preserves_cardinality ? weft_dataset_cardinality(d->inputs[0])
                                                                   : WEFT_CARDINALITY_UNKNOWN;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  scan_params_t *p = params;
  p->num_states = weft_knode_attr(setup, "Tstate")->n;
  p->preserves_cardinality = weft_knode_bool(setup, "preserve_cardinality");
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  scan_params_t *p = params;
  (void)at, (void)d;
  p->states = weft_calloc((size_t)p->num_states, sizeof *p->states);
  if (p->states == NULL) return WEFT_NO_MEMORY("a data set");
  for (int i = 0; i < p->num_states; i++) p->states[i] = weft_tensor_retain(weft_in(c, 1 + i));
  return NULL;
}

static const weft_dataset_class_t scan_class = {.name = "Scan",
                                                .iterator_size = sizeof(scan_iterator_t),
                                                .opens_inputs = true,
                                                .begin = begin,
                                                .next = next,
                                                .end = end,
                                                .save = save,
                                                .load = load,
                                                .cardinality = cardinality};

/* ---- TakeWhileDataset ---- */

static weft_status_t *while_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  bool holds = false;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  if (*is_end) return NULL;
  weft_status_t *s = weft_iterator_ask(it, it->of->fns[0], out, it->of->spec->n, "`predicate`", &holds);
  *is_end = !holds;
  return weft_iterator_blame(it, it->index, s);
}

static const weft_dataset_class_t while_class = {.name = "TakeWhile",
                                                 .iterator_size = sizeof(weft_iterator_t),
                                                 .opens_inputs = true,
                                                 .next = while_next,
                                                 .cardinality = weft_cardinality_unknown};

static const weft_dataset_op_t scan_op = {.class = &scan_class,
                                          .num_inputs = 1,
                                          .leading = "Tstate",
                                          .functions = {{"f", "Targuments"}},
                                          .params_size = sizeof(scan_params_t),
                                          .read = read,
                                          .make = make,
                                          .deinit = deinit};
static const weft_dataset_op_t while_op = {
    .class = &while_class, .num_inputs = 1, .functions = {{"predicate", "Targuments"}}};

const weft_kernel_t weft_cpu_dataset_scan_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalScanDataset", scan_op),
    WEFT_DATASET_ROW("ExperimentalTakeWhileDataset", while_op),
    WEFT_DATASET_ROW("ScanDataset", scan_op),
    WEFT_DATASET_ROW("TakeWhileDataset", while_op),
    {0},
};
