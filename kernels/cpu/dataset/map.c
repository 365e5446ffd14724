/* kernels/cpu/dataset/map.c - a function of each element, one after the other or many at once; and the
 * elements that a predicate wants. */
#include "kernels/cpu/dataset/map.h"
#include "base/alloc.h"
#include "kernels/cpu/dataset/ahead.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"

/* A function's OUT_OF_RANGE ends the data set, unless the number of elements may not change. */
static weft_status_t *end_of_call(const weft_map_params_t *p, weft_status_t *s, bool *is_end) {
  if (weft_status_code(s) != WEFT_OUT_OF_RANGE) return s;
  if (p->preserves_cardinality) {
    weft_status_t *wrapped = WEFT_ERROR(INVALID_ARGUMENT, "Function invocation produced OutOfRangeError: %s",
                                        weft_status_message(s));
    weft_status_free(s);
    return wrapped;
  }
  weft_status_free(s);
  *is_end = true;
  return NULL;
}

/* ---- one after the other ---- */

static weft_status_t *map_read(const weft_kernel_setup_t *setup, void *params) {
  ((weft_map_params_t *)params)->preserves_cardinality =
      weft_knode_bool_or(setup, "preserve_cardinality", false);
  return NULL;
}

typedef struct map_iterator {
  weft_iterator_t base;
  weft_tensor_t **args; /* an element of the input */
} map_iterator_t;

static weft_status_t *args_new(weft_iterator_t *it, weft_tensor_t ***out) {
  *out = weft_calloc((size_t)it->of->inputs[0]->spec->n, sizeof **out);
  return *out != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static weft_status_t *map_begin(weft_iterator_t *it) { return args_new(it, &((map_iterator_t *)it)->args); }

static void map_end(weft_iterator_t *it) { weft_free(((map_iterator_t *)it)->args); }

static weft_status_t *map_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  map_iterator_t *m = (map_iterator_t *)it;
  const int n = it->of->inputs[0]->spec->n;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, m->args, is_end));
  if (*is_end) return NULL;
  weft_status_t *s = weft_iterator_call(it, it->of->fns[0], m->args, n, out, it->of->spec->n);
  weft_element_release(m->args, n);
  s = end_of_call((const weft_map_params_t *)it->of->params, s, is_end);
  return weft_iterator_blame(it, it->index, s);
}

static const weft_dataset_class_t map_class = {.name = "Map",
                                               .shards_by_input = true,
                                               .iterator_size = sizeof(map_iterator_t),
                                               .opens_inputs = true,
                                               .begin = map_begin,
                                               .next = map_next,
                                               .end = map_end};

static int64_t unknown_unless_preserved(const weft_dataset_t *d) {
  return ((const weft_map_params_t *)d->params)->preserves_cardinality
             ? weft_dataset_cardinality(d->inputs[0])
             : WEFT_CARDINALITY_UNKNOWN;
}

/* ---- many at once ---- */

typedef struct parallel_call {
  weft_ahead_slot_t *slot;
  weft_iterator_t *it;
  int64_t index;
  weft_tensor_t *args[]; /* owned: an element of the input */
} parallel_call_t;

static void end_call(parallel_call_t *c, weft_status_t *s) {
  bool is_end = false;
  s = end_of_call((const weft_map_params_t *)c->it->of->params, s, &is_end);
  s = weft_iterator_blame(c->it, c->index, s);
  weft_element_release(c->args, c->it->of->inputs[0]->spec->n);
  weft_ahead_end(c->slot, s, s == NULL && is_end);
  weft_free(c);
}

static void called(void *arg, weft_status_t *s, weft_tensor_t **results) {
  parallel_call_t *c = arg;
  for (int i = 0; s == NULL && i < c->it->of->spec->n; i++) {
    c->slot->parts[i] = results[i];
    results[i] = NULL;
  }
  end_call(c, s);
}

/* An element of the input, for a call; false: there is none. */
static bool take_one(void *arg, weft_ahead_slot_t *slot) {
  weft_parallel_iterator_t *p = arg;
  weft_iterator_t *it = &p->base;
  const size_t n = (size_t)it->of->inputs[0]->spec->n;
  bool is_end = false;
  parallel_call_t *c = weft_malloc(sizeof *c + n * sizeof *c->args);
  weft_status_t *s = c == NULL ? WEFT_NO_MEMORY("calling a data set's function") : NULL;
  if (s == NULL) s = weft_iterator_next(it->input, c->args, &is_end);
  if (s != NULL || is_end) {
    weft_free(c);
    weft_ahead_end(slot, s, s == NULL && is_end);
    return false;
  }
  c->slot = slot;
  c->it = it;
  c->index = p->index++;
  slot->work = c;
  return true;
}

static void apply_one(parallel_call_t *c) {
  weft_tensor_t **parts = c->slot->parts;
  weft_status_t *s = ((const weft_map_params_t *)c->it->of->params)->apply(c->it, c->args, parts);
  if (s != NULL) weft_element_release(parts, c->it->of->spec->n);
  end_call(c, s);
}

static void call_one(void *arg, weft_ahead_slot_t *slot) {
  weft_iterator_t *it = &((weft_parallel_iterator_t *)arg)->base;
  parallel_call_t *c = slot->work;
  if (((const weft_map_params_t *)it->of->params)->apply != NULL) {
    apply_one(c);
    return;
  }
  weft_iterator_call_async(it, it->of->fns[0], c->args, it->of->inputs[0]->spec->n, it->of->spec->n, called,
                           c);
}

weft_status_t *weft_parallel_begin(weft_iterator_t *it) {
  weft_parallel_iterator_t *p = (weft_parallel_iterator_t *)it;
  const weft_map_params_t *params = (const weft_map_params_t *)it->of->params;
  weft_ahead_options_t o = {.owner = it,
                            .is_any_order = weft_order_is_any(params->order, it->traversal),
                            .begin = take_one,
                            .go_on = call_one,
                            .arg = p};
  weft_parallel_limit(it, params->num_parallel, &o);
  WEFT_RETURN_IF_ERROR(weft_ahead_create(&o, &p->ahead));
  return weft_iterator_open_input(it, 0, &it->input);
}

void weft_parallel_end(weft_iterator_t *it) { weft_ahead_destroy(((weft_parallel_iterator_t *)it)->ahead); }

weft_status_t *weft_parallel_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  return weft_ahead_next(((weft_parallel_iterator_t *)it)->ahead, out, is_end);
}

weft_status_t *weft_parallel_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_parallel_iterator_t *p = (weft_parallel_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(weft_ahead_save(p->ahead, to));
  weft_saved_put_int(to, p->index);
  return NULL;
}

weft_status_t *weft_parallel_load(weft_iterator_t *it, weft_saved_t *from) {
  weft_parallel_iterator_t *p = (weft_parallel_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(weft_ahead_load(p->ahead, from));
  return weft_saved_get_int_in(from, 0, INT64_MAX, &p->index);
}

const weft_dataset_class_t weft_parallel_map_class = {.name = "ParallelMap",
                                                      .shards_by_input = true,
                                                      .iterator_size = sizeof(weft_parallel_iterator_t),
                                                      .begin = weft_parallel_begin,
                                                      .next = weft_parallel_next,
                                                      .end = weft_parallel_end,
                                                      .save = weft_parallel_save,
                                                      .load = weft_parallel_load,
                                                      .cardinality = unknown_unless_preserved};

static weft_status_t *parallel_read(const weft_kernel_setup_t *setup, void *params) {
  weft_map_params_t *p = params;
  p->preserves_cardinality = weft_knode_bool_or(setup, "preserve_cardinality", false);
  return weft_order_read(setup, &p->order);
}

static weft_status_t *parallel_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return weft_parallel_in(c, at, &((weft_map_params_t *)params)->num_parallel);
}

bool weft_is_map(const weft_dataset_t *d) {
  return d->class == &map_class || d->class == &weft_parallel_map_class;
}

/* ---- FilterDataset ---- */

static weft_status_t *filter_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const int n = it->of->spec->n;
  for (bool is_wanted = false; !is_wanted;) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (*is_end) return NULL;
    weft_status_t *s = weft_iterator_ask(it, it->of->fns[0], out, n, "Filter predicate `f`", &is_wanted);
    if (s != NULL || !is_wanted) weft_element_release(out, n);
    if (s != NULL) return weft_iterator_blame(it, it->input->index - 1, s);
  }
  return NULL;
}

static const weft_dataset_class_t filter_class = {.name = "Filter",
                                                  .keeps_batches = true,
                                                  .shards_by_input = true,
                                                  .iterator_size = sizeof(weft_iterator_t),
                                                  .opens_inputs = true,
                                                  .next = filter_next,
                                                  .cardinality = weft_cardinality_unknown};

static const weft_dataset_op_t map_op = {.class = &map_class,
                                         .num_inputs = 1,
                                         .functions = {{"f", "Targuments"}},
                                         .params_size = sizeof(weft_map_params_t),
                                         .read = map_read};
static const weft_dataset_op_t parallel_op = {.class = &weft_parallel_map_class,
                                              .num_inputs = 1,
                                              .functions = {{"f", "Targuments"}},
                                              .params_size = sizeof(weft_map_params_t),
                                              .read = parallel_read,
                                              .make = parallel_make};
static const weft_dataset_op_t filter_op = {
    .class = &filter_class, .num_inputs = 1, .functions = {{"predicate", "Targuments"}}};

/* The predicate is asked for one element after the other: the elements and their order are those of
 * FilterDataset. */
static weft_status_t *parallel_filter_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  int64_t num_parallel;
  (void)d, (void)params;
  return weft_parallel_in(c, at, &num_parallel);
}
static const weft_dataset_op_t parallel_filter_op = {.class = &filter_class,
                                                     .num_inputs = 1,
                                                     .functions = {{"predicate", "Targuments"}},
                                                     .make = parallel_filter_make};

const weft_kernel_t weft_cpu_dataset_map_kernels[] = {
    WEFT_DATASET_ROW("FilterDataset", filter_op),
    WEFT_DATASET_ROW("MapDataset", map_op),
    WEFT_DATASET_ROW("ParallelFilterDataset", parallel_filter_op),
    WEFT_DATASET_ROW("ParallelMapDataset", parallel_op),
    WEFT_DATASET_ROW("ParallelMapDatasetV2", parallel_op),
    {0},
};
