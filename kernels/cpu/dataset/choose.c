/* kernels/cpu/dataset/choose.c - data sets that take each element from one of several. */
#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- DirectedInterleaveDataset: input 0 says which of the others gives the next element ---- */

typedef struct directed_params {
  weft_dataset_params_t base;
  bool stops_on_empty;
} directed_params_t;

typedef struct directed_iterator {
  weft_iterator_t base;
  weft_iterator_t **from; /* of inputs 1 and on; NULL: it is over */
  int num_open;
} directed_iterator_t;

static int num_from(const weft_iterator_t *it) { return it->of->num_inputs - 1; }

static weft_status_t *begin(weft_iterator_t *it) {
  directed_iterator_t *d = (directed_iterator_t *)it;
  d->from = weft_calloc((size_t)num_from(it), sizeof *d->from);
  if (d->from == NULL) return WEFT_NO_MEMORY("an iterator");
  for (int i = 0; i < num_from(it); i++, d->num_open++)
    WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, i + 1, &d->from[i]));
  return NULL;
}

static void end(weft_iterator_t *it) {
  directed_iterator_t *d = (directed_iterator_t *)it;
  for (int i = 0; d->from != NULL && i < num_from(it); i++) weft_iterator_close(d->from[i]);
  weft_free(d->from);
}

static weft_status_t *choose(directed_iterator_t *d, int64_t *which, bool *is_end) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(d->base.input, &t, is_end));
  if (*is_end) return NULL;
  *which = t->count == 1 ? *(const int64_t *)t->data : -1;
  weft_tensor_release(t);
  if (*which >= 0 && *which < num_from(&d->base)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Selector index out of range: %lld >= %d", (long long)*which,
                    num_from(&d->base));
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  directed_iterator_t *d = (directed_iterator_t *)it;
  const bool stops = ((const directed_params_t *)it->of->params)->stops_on_empty;
  int64_t which = 0;
  while (d->num_open > 0) {
    WEFT_RETURN_IF_ERROR(choose(d, &which, is_end));
    if (*is_end) return NULL;
    if (d->from[which] == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_iterator_next(d->from[which], out, is_end));
    if (!*is_end || stops) return NULL;
    weft_iterator_close(d->from[which]);
    d->from[which] = NULL;
    d->num_open--;
  }
  *is_end = true;
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const directed_iterator_t *d = (const directed_iterator_t *)it;
  for (int i = 0; i < num_from(it); i++) {
    weft_saved_put_int(to, d->from[i] != NULL);
    if (d->from[i] != NULL) WEFT_RETURN_IF_ERROR(weft_iterator_save(d->from[i], to));
  }
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  directed_iterator_t *d = (directed_iterator_t *)it;
  for (int i = 0; i < num_from(it); i++) {
    int64_t is_open;
    WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_open));
    if (is_open != 0) {
      WEFT_RETURN_IF_ERROR(weft_iterator_load(d->from[i], from));
      continue;
    }
    weft_iterator_close(d->from[i]);
    d->from[i] = NULL;
    d->num_open--;
  }
  return NULL;
}

/* As TensorFlow's: it does not look at which inputs are chosen. */
static int64_t cardinality(const weft_dataset_t *d) {
  for (int i = 1; i < d->num_inputs; i++) {
    if (weft_dataset_cardinality(d->inputs[i]) == WEFT_CARDINALITY_INFINITE) return WEFT_CARDINALITY_INFINITE;
  }
  return WEFT_CARDINALITY_UNKNOWN;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  ((directed_params_t *)params)->stops_on_empty = weft_knode_bool_or(setup, "stop_on_empty_dataset", false);
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  const weft_element_spec_t *selector = d->inputs[0]->spec, *first = d->inputs[1]->spec;
  (void)c, (void)at, (void)params;
  if (selector->n != 1 || selector->dtypes[0] != WEFT_I64) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The selector dataset must contain a single scalar element of type int64.");
  }
  for (int i = 2; i < d->num_inputs; i++) {
    const weft_element_spec_t *other = d->inputs[i]->spec;
    bool fits = other->n == first->n;
    for (int k = 0; fits && k < first->n; k++) fits = other->dtypes[k] == first->dtypes[k];
    if (!fits)
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "All inputs must have the same output_dtypes. First input has types of "
                        "another kind than input %d",
                        i - 1);
  }
  return NULL;
}

static const weft_dataset_class_t directed_class = {.name = "DirectedInterleave",
                                                    .iterator_size = sizeof(directed_iterator_t),
                                                    .opens_inputs = true,
                                                    .begin = begin,
                                                    .next = next,
                                                    .end = end,
                                                    .save = save,
                                                    .load = load,
                                                    .cardinality = cardinality};
static const weft_dataset_op_t directed_op = {.class = &directed_class,
                                              .num_inputs = -1,
                                              .num_more_inputs = 1,
                                              .params_size = sizeof(directed_params_t),
                                              .read = read,
                                              .make = make};

/* ---- ChooseFastestDataset: its inputs have the same elements, so the first will do ---- */

static weft_status_t *first_input(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  for (int i = c->node->num_inputs - 1; i >= 0; i--) WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, i), &d));
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, 0)));
  return NULL;
}

const weft_kernel_t weft_cpu_dataset_choose_kernels[] = {
    {.op = "ChooseFastestDataset", .compute = first_input},
    WEFT_DATASET_ROW("DirectedInterleaveDataset", directed_op),
    {.op = "ExperimentalChooseFastestDataset", .compute = first_input},
    WEFT_DATASET_ROW("ExperimentalDirectedInterleaveDataset", directed_op),
    {0},
};
