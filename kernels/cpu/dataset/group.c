/* kernels/cpu/dataset/group.c - elements by a key that a function gives them: in windows that a function
 * makes a data set of, or reduced to one element for each key. Keys come out in rising order at the end of
 * the input, as in TensorFlow. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"

/* A function's one result, a scalar int64; `keep` (may be NULL) gets the tensor itself. */
static weft_status_t *call_int(weft_iterator_t *it, int fn, weft_tensor_t *const *args, int num_args,
                               const char *what, int64_t *out, weft_tensor_t **keep) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, it->of->fns[fn], args, num_args, &t, 1));
  if (t->dtype != WEFT_I64 || t->count != 1) {
    weft_tensor_release(t);
    return WEFT_ERROR(INVALID_ARGUMENT, "`%s` must return a scalar int64.", what);
  }
  *out = *(const int64_t *)t->data;
  if (keep != NULL) {
    *keep = t;
  } else {
    weft_tensor_release(t);
  }
  return NULL;
}

/* The place of a key among `n` sorted ones, `stride` bytes apart, that begin with it. */
static int64_t place_of(const void *sorted, int64_t n, size_t stride, int64_t key, bool *is_there) {
  int64_t low = 0;
  for (int64_t high = n; low < high;) {
    const int64_t middle = low + (high - low) / 2;
    if (*(const int64_t *)(const void *)((const char *)sorted + (size_t)middle * stride) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *is_there = low < n && *(const int64_t *)(const void *)((const char *)sorted + (size_t)low * stride) == key;
  return low;
}

/* Room for one more at `at` among *n, zeroed. */
static weft_status_t *insert(void **sorted, int64_t *n, size_t stride, int64_t at) {
  char *more = weft_realloc(*sorted, (size_t)*n + 1, stride);
  if (more == NULL) return WEFT_NO_MEMORY("elements by key");
  memmove(more + (size_t)(at + 1) * stride, more + (size_t)at * stride, (size_t)(*n - at) * stride);
  memset(more + (size_t)at * stride, 0, stride);
  *sorted = more;
  ++*n;
  return NULL;
}

/* ---- GroupByWindowDataset ---- */

enum { KEY_FN, REDUCE_FN, SIZE_FN };

typedef struct group {
  int64_t key; /* first */
  int64_t window;
  weft_element_list_t elements;
} group_t;

typedef struct group_iterator {
  weft_iterator_t base;
  weft_tensor_t **element;
  group_t *groups; /* by key; all that were ever seen */
  int64_t num_groups;
  bool is_input_over;
  weft_iterator_t *flushed; /* the data set that was made of a window; NULL: none */
  group_t flushing;         /* that window, for the saved state */
} group_iterator_t;

static weft_status_t *group_begin(weft_iterator_t *it) {
  group_iterator_t *g = (group_iterator_t *)it;
  g->element = weft_calloc((size_t)it->of->inputs[0]->spec->n, sizeof *g->element);
  return g->element != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void stop_flushing(group_iterator_t *g) {
  weft_iterator_close(g->flushed);
  g->flushed = NULL;
  weft_element_list_deinit(&g->flushing.elements, g->base.of->inputs[0]->spec->n);
}

static void group_end(weft_iterator_t *it) {
  group_iterator_t *g = (group_iterator_t *)it;
  stop_flushing(g);
  for (int64_t i = 0; i < g->num_groups; i++)
    weft_element_list_deinit(&g->groups[i].elements, it->of->inputs[0]->spec->n);
  weft_free(g->groups);
  weft_free(g->element);
}

/* Makes a data set of g->flushing. */
static weft_status_t *open_flushed(group_iterator_t *g) {
  weft_iterator_t *it = &g->base;
  weft_element_spec_t *spec = it->of->inputs[0]->spec;
  weft_tensor_t *args[2] = {NULL, NULL}, *made = NULL;
  weft_dataset_t *window = NULL, *d = NULL;
  weft_status_t *s = weft_tensor_scalar(WEFT_I64, &g->flushing.key, &args[0]);
  if (s == NULL)
    s = weft_elements_dataset(it->of->device, g->flushing.elements.parts, spec->n, g->flushing.elements.count,
                              1, 0, spec, &window);
  if (s == NULL) s = weft_dataset_tensor(window, &args[1]);
  if (s == NULL) s = weft_iterator_call(it, it->of->fns[REDUCE_FN], args, 2, &made, 1);
  if (s == NULL && (made->dtype != WEFT_VARIANT || made->shape.rank != 0))
    s = WEFT_ERROR(INVALID_ARGUMENT, "`reduce_func` must return a single scalar of dtype DT_VARIANT.");
  if (s == NULL) s = weft_dataset_of(made, &d);
  if (s == NULL) s = weft_element_spec_check(it->of->spec, d->spec);
  if (s == NULL) s = weft_iterator_open(d, it->traversal, it, &g->flushed);
  weft_tensor_release(args[0]);
  weft_tensor_release(args[1]);
  weft_tensor_release(made);
  return weft_iterator_blame(it, it->index, s);
}

static weft_status_t *flush(group_iterator_t *g, group_t *group) {
  stop_flushing(g);
  g->flushing = *group;
  group->elements = (weft_element_list_t){0};
  weft_status_t *s = open_flushed(g);
  if (s != NULL) stop_flushing(g);
  return s;
}

/* The group of an element's key; a new one asks the function for the size of its windows. */
static weft_status_t *find_group(group_iterator_t *g, group_t **out) {
  weft_iterator_t *it = &g->base;
  weft_tensor_t *key_tensor = NULL;
  int64_t key = 0, window = 0;
  bool is_there = false;
  WEFT_RETURN_IF_ERROR(
      call_int(it, KEY_FN, g->element, it->of->inputs[0]->spec->n, "key_func", &key, &key_tensor));
  const int64_t at = place_of(g->groups, g->num_groups, sizeof *g->groups, key, &is_there);
  weft_status_t *s = NULL;
  if (!is_there) {
    s = call_int(it, SIZE_FN, &key_tensor, 1, "window_size_func", &window, NULL);
    if (s == NULL && window <= 0) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Window size must be greater than zero, but got %lld.",
                     (long long)window);
    }
    if (s == NULL) s = insert((void **)&g->groups, &g->num_groups, sizeof *g->groups, at);
    if (s == NULL) {
      g->groups[at].key = key;
      g->groups[at].window = window;
    }
  }
  weft_tensor_release(key_tensor);
  if (s == NULL) *out = &g->groups[at];
  return s;
}

/* Takes elements until a window is full. */
static weft_status_t *fill_groups(group_iterator_t *g) {
  weft_iterator_t *it = &g->base;
  const int n = it->of->inputs[0]->spec->n;
  while (!g->is_input_over && g->flushed == NULL) {
    group_t *group = NULL;
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, g->element, &g->is_input_over));
    if (g->is_input_over) break;
    weft_status_t *s = find_group(g, &group);
    if (s == NULL) s = weft_element_list_add(&group->elements, g->element, n);
    weft_element_release(g->element, n);
    if (s != NULL) return weft_iterator_blame(it, it->input->index - 1, s);
    if (group->elements.count == group->window) WEFT_RETURN_IF_ERROR(flush(g, group));
  }
  for (int64_t i = 0; g->flushed == NULL && i < g->num_groups; i++) {
    if (g->groups[i].elements.count > 0) WEFT_RETURN_IF_ERROR(flush(g, &g->groups[i]));
  }
  return NULL;
}

static weft_status_t *group_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  group_iterator_t *g = (group_iterator_t *)it;
  for (;;) {
    if (g->flushed == NULL) WEFT_RETURN_IF_ERROR(fill_groups(g));
    *is_end = g->flushed == NULL;
    if (*is_end) return NULL;
    WEFT_RETURN_IF_ERROR(weft_iterator_next(g->flushed, out, is_end));
    if (!*is_end) return NULL;
    stop_flushing(g);
  }
}

static weft_status_t *group_save(weft_iterator_t *it, weft_saved_t *to) {
  const group_iterator_t *g = (const group_iterator_t *)it;
  const int n = it->of->inputs[0]->spec->n;
  weft_saved_put_int(to, g->is_input_over);
  weft_saved_put_int(to, g->num_groups);
  for (int64_t i = 0; i < g->num_groups; i++) {
    weft_saved_put_int(to, g->groups[i].key);
    weft_saved_put_int(to, g->groups[i].window);
    WEFT_RETURN_IF_ERROR(weft_element_list_save(&g->groups[i].elements, n, to));
  }
  weft_saved_put_int(to, g->flushed != NULL);
  if (g->flushed == NULL) return NULL;
  weft_saved_put_int(to, g->flushing.key);
  WEFT_RETURN_IF_ERROR(weft_element_list_save(&g->flushing.elements, n, to));
  return weft_iterator_save(g->flushed, to);
}

static weft_status_t *load_group(group_iterator_t *g, weft_saved_t *from) {
  int64_t key = 0, window = 0;
  bool is_there;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &key));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 1, INT64_MAX, &window));
  const int64_t at = place_of(g->groups, g->num_groups, sizeof *g->groups, key, &is_there);
  if (is_there) return weft_saved_broken("a key twice");
  WEFT_RETURN_IF_ERROR(insert((void **)&g->groups, &g->num_groups, sizeof *g->groups, at));
  g->groups[at].key = key;
  g->groups[at].window = window;
  return weft_element_list_load(&g->groups[at].elements, g->base.of->inputs[0]->spec, from);
}

static weft_status_t *group_load(weft_iterator_t *it, weft_saved_t *from) {
  group_iterator_t *g = (group_iterator_t *)it;
  int64_t is_over, num_groups, is_flushing;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &num_groups));
  g->is_input_over = is_over != 0;
  for (int64_t i = 0; i < num_groups; i++) WEFT_RETURN_IF_ERROR(load_group(g, from));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_flushing));
  if (is_flushing == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &g->flushing.key));
  WEFT_RETURN_IF_ERROR(weft_element_list_load(&g->flushing.elements, it->of->inputs[0]->spec, from));
  WEFT_RETURN_IF_ERROR(open_flushed(g));
  return weft_iterator_load(g->flushed, from);
}

static int64_t unknown_unless_infinite(const weft_dataset_t *d) {
  return weft_dataset_cardinality(d->inputs[0]) == WEFT_CARDINALITY_INFINITE ? WEFT_CARDINALITY_INFINITE
                                                                             : WEFT_CARDINALITY_UNKNOWN;
}

static const weft_dataset_class_t window_class = {.name = "GroupByWindow",
                                                  .iterator_size = sizeof(group_iterator_t),
                                                  .opens_inputs = true,
                                                  .begin = group_begin,
                                                  .next = group_next,
                                                  .end = group_end,
                                                  .save = group_save,
                                                  .load = group_load,
                                                  .cardinality = unknown_unless_infinite};

/* ---- GroupByReducerDataset ---- */

enum { INIT_FN = 1, FOLD_FN, FINALIZE_FN };

typedef struct key_state {
  int64_t key; /* first */
  weft_tensor_t **state;
} key_state_t;

typedef struct reduce_params {
  weft_dataset_params_t base;
  int num_states;
} reduce_params_t;

typedef struct reduce_iterator {
  weft_iterator_t base;
  weft_tensor_t **args; /* a state, then an element */
  key_state_t *keys;    /* sorted */
  int64_t num_keys, at; /* `at`: of the next one to come out */
  bool is_input_over;
} reduce_iterator_t;

static int num_states(const weft_iterator_t *it) {
  return ((const reduce_params_t *)it->of->params)->num_states;
}

static weft_status_t *reduce_begin(weft_iterator_t *it) {
  reduce_iterator_t *r = (reduce_iterator_t *)it;
  r->args = weft_calloc((size_t)num_states(it) + (size_t)it->of->inputs[0]->spec->n, sizeof *r->args);
  return r->args != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void reduce_end(weft_iterator_t *it) {
  reduce_iterator_t *r = (reduce_iterator_t *)it;
  for (int64_t i = 0; i < r->num_keys; i++) {
    if (r->keys[i].state != NULL) weft_element_release(r->keys[i].state, num_states(it));
    weft_free(r->keys[i].state);
  }
  weft_free(r->keys);
  weft_free(r->args);
}

static weft_status_t *new_key(reduce_iterator_t *r, int64_t at, int64_t key, weft_tensor_t *key_tensor) {
  weft_iterator_t *it = &r->base;
  weft_tensor_t **state = weft_calloc((size_t)num_states(it), sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("elements by key");
  weft_status_t *s = key_tensor == NULL ? NULL
                                        : weft_iterator_call(it, it->of->fns[INIT_FN], &key_tensor, 1, state,
                                                             num_states(it));
  if (s == NULL) s = insert((void **)&r->keys, &r->num_keys, sizeof *r->keys, at);
  if (s != NULL) {
    weft_element_release(state, num_states(it));
    weft_free(state);
    return s;
  }
  r->keys[at] = (key_state_t){key, state};
  return NULL;
}

/* r->args from num_states on: the element. */
static weft_status_t *fold(reduce_iterator_t *r) {
  weft_iterator_t *it = &r->base;
  const int states = num_states(it), n = it->of->inputs[0]->spec->n;
  weft_tensor_t *key_tensor = NULL;
  int64_t key = 0;
  bool is_there = false;
  WEFT_RETURN_IF_ERROR(call_int(it, KEY_FN, r->args + states, n, "key_func", &key, &key_tensor));
  const int64_t at = place_of(r->keys, r->num_keys, sizeof *r->keys, key, &is_there);
  weft_status_t *s = is_there ? NULL : new_key(r, at, key, key_tensor);
  weft_tensor_release(key_tensor);
  if (s != NULL) return s;
  weft_tensor_t **state = r->keys[at].state;
  memcpy(r->args, state, (size_t)states * sizeof *state);
  memset(state, 0, (size_t)states * sizeof *state);
  s = weft_iterator_call(it, it->of->fns[FOLD_FN], r->args, states + n, state, states);
  weft_element_release(r->args, states);
  return s;
}

static weft_status_t *reduce_all(reduce_iterator_t *r) {
  weft_iterator_t *it = &r->base;
  const int states = num_states(it), n = it->of->inputs[0]->spec->n;
  while (!r->is_input_over) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, r->args + states, &r->is_input_over));
    if (r->is_input_over) break;
    weft_status_t *s = fold(r);
    weft_element_release(r->args + states, n);
    if (s != NULL) return weft_iterator_blame(it, it->input->index - 1, s);
  }
  return NULL;
}

static weft_status_t *reduce_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  reduce_iterator_t *r = (reduce_iterator_t *)it;
  WEFT_RETURN_IF_ERROR(reduce_all(r));
  *is_end = r->at >= r->num_keys;
  if (*is_end) return NULL;
  weft_tensor_t **state = r->keys[r->at++].state;
  return weft_iterator_call(it, it->of->fns[FINALIZE_FN], state, num_states(it), out, it->of->spec->n);
}

static weft_status_t *reduce_save(weft_iterator_t *it, weft_saved_t *to) {
  const reduce_iterator_t *r = (const reduce_iterator_t *)it;
  weft_saved_put_int(to, r->is_input_over);
  weft_saved_put_int(to, r->at);
  weft_saved_put_int(to, r->num_keys);
  for (int64_t i = 0; i < r->num_keys; i++) {
    weft_saved_put_int(to, r->keys[i].key);
    for (int k = 0; k < num_states(it); k++)
      WEFT_RETURN_IF_ERROR(weft_saved_put_tensor(to, r->keys[i].state[k]));
  }
  return NULL;
}

static weft_status_t *reduce_load(weft_iterator_t *it, weft_saved_t *from) {
  reduce_iterator_t *r = (reduce_iterator_t *)it;
  int64_t is_over, n, key = 0;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &r->at));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &n));
  r->is_input_over = is_over != 0;
  for (int64_t i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &key));
    if (i > 0 && key <= r->keys[i - 1].key) return weft_saved_broken("keys do not rise");
    WEFT_RETURN_IF_ERROR(new_key(r, i, key, NULL));
    for (int k = 0; k < num_states(it); k++)
      WEFT_RETURN_IF_ERROR(weft_saved_get_tensor(from, &r->keys[i].state[k]));
  }
  return NULL;
}

static const weft_dataset_class_t reduce_class = {.name = "GroupByReducer",
                                                  .iterator_size = sizeof(reduce_iterator_t),
                                                  .opens_inputs = true,
                                                  .begin = reduce_begin,
                                                  .next = reduce_next,
                                                  .end = reduce_end,
                                                  .save = reduce_save,
                                                  .load = reduce_load,
                                                  .cardinality = weft_cardinality_unknown};

static weft_status_t *reduce_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  int n = 0;
  (void)c, (void)at;
  WEFT_RETURN_IF_ERROR(weft_callee_num_results(d->fns[INIT_FN]->callee, &n));
  ((reduce_params_t *)params)->num_states = n;
  return n > 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "`init_func` must return a state");
}

static const weft_dataset_op_t window_op = {
    .class = &window_class,
    .num_inputs = 1,
    .functions = {{"key_func", "Tkey_func_other_arguments"},
                  {"reduce_func", "Treduce_func_other_arguments"},
                  {"window_size_func", "Twindow_size_func_other_arguments"}}};
static const weft_dataset_op_t reduce_op = {
    .class = &reduce_class,
    .num_inputs = 1,
    .functions = {{"key_func", "Tkey_func_other_arguments"},
                  {"init_func", "Tinit_func_other_arguments"},
                  {"reduce_func", "Treduce_func_other_arguments"},
                  {"finalize_func", "Tfinalize_func_other_arguments"}},
    .params_size = sizeof(reduce_params_t),
    .make = reduce_make};

const weft_kernel_t weft_cpu_dataset_group_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalGroupByReducerDataset", reduce_op),
    WEFT_DATASET_ROW("ExperimentalGroupByWindowDataset", window_op),
    WEFT_DATASET_ROW("GroupByReducerDataset", reduce_op),
    WEFT_DATASET_ROW("GroupByWindowDataset", window_op),
    {0},
};
