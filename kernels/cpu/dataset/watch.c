/* kernels/cpu/dataset/watch.c - data sets that pass elements on and watch them: errors left out, a number of
 * elements that must be right, a pause before each, each once. */
#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/log.h"
#include "kernels/cpu/dataset/pause.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/sequence.h"

typedef struct watch_params {
  weft_dataset_params_t base;
  int64_t number; /* elements, or microseconds */
  bool logs;
} watch_params_t;

static const watch_params_t *params_of(const weft_iterator_t *it) {
  return (const watch_params_t *)it->of->params;
}

/* ---- IgnoreErrorsDataset ---- */

static weft_status_t *ignore_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  weft_status_t *s;
  while ((s = weft_iterator_next(it->input, out, is_end)) != NULL) {
    if (weft_canceller_is_cancelled(it->canceller)) return s;
    if (params_of(it)->logs)
      weft_log(WEFT_LOG_WARNING, "Error raised with error message %s", weft_status_message(s));
    weft_status_free(s);
    if (*is_end) return NULL; /* it would fail again and again */
  }
  return NULL;
}

static weft_status_t *ignore_read(const weft_kernel_setup_t *setup, void *params) {
  ((watch_params_t *)params)->logs = weft_knode_bool(setup, "log_warning");
  return NULL;
}

static const weft_dataset_class_t ignore_class = {.name = "IgnoreErrors",
                                                  .iterator_size = sizeof(weft_iterator_t),
                                                  .opens_inputs = true,
                                                  .next = ignore_next,
                                                  .cardinality = weft_cardinality_unknown};

/* ---- AssertCardinalityDataset ---- */

static weft_status_t *assert_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const int64_t wanted = params_of(it)->number, got = it->input->num_given;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  const char *how = *is_end ? "only " : "at least ";
  const int64_t n = *is_end ? got : got + 1;
  const bool is_wrong =
      *is_end ? wanted != got && wanted != WEFT_CARDINALITY_UNKNOWN : wanted >= 0 && n > wanted;
  if (!is_wrong) return NULL;
  if (wanted == WEFT_CARDINALITY_INFINITE) {
    return WEFT_ERROR(
        FAILED_PRECONDITION,
        "Input dataset was expected to contain an infinite number of elements but contained only %lld "
        "element%s.",
        (long long)n, n == 1 ? "" : "s");
  }
  return WEFT_ERROR(FAILED_PRECONDITION,
                    "Input dataset was expected to contain %lld element%s but contained %s%lld element%s.",
                    (long long)wanted, wanted == 1 ? "" : "s", how, (long long)n, n == 1 ? "" : "s");
}

static int64_t asserted(const weft_dataset_t *d) { return ((const watch_params_t *)d->params)->number; }

static weft_status_t *assert_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return weft_dataset_in_int(c, at, "cardinality", &((watch_params_t *)params)->number);
}

const weft_dataset_class_t weft_assert_cardinality_class = {.name = "AssertCardinality",
                                                            .keeps_batches = true,
                                                            .iterator_size = sizeof(weft_iterator_t),
                                                            .opens_inputs = true,
                                                            .shards_by_input = true,
                                                            .next = assert_next,
                                                            .cardinality = asserted};

/* ---- SleepDataset ---- */

static weft_status_t *sleep_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  WEFT_RETURN_IF_ERROR(weft_iterator_pause(it, params_of(it)->number));
  return weft_iterator_next(it->input, out, is_end);
}

static weft_status_t *sleep_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  watch_params_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "sleep_microseconds", &p->number));
  return p->number >= 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "`sleep_microseconds` must be >= 0");
}

static const weft_dataset_class_t sleep_class = {
    .name = "Sleep", .iterator_size = sizeof(weft_iterator_t), .opens_inputs = true, .next = sleep_next};

/* ---- UniqueDataset ---- */

typedef struct unique_iterator {
  weft_iterator_t base;
  weft_map_t seen; /* bytes of elements -> anything but NULL */
  weft_arena_t keys;
} unique_iterator_t;

static void unique_end(weft_iterator_t *it) {
  unique_iterator_t *u = (unique_iterator_t *)it;
  weft_map_deinit(&u->seen);
  weft_arena_deinit(&u->keys);
}

static weft_str_t key_of(const weft_tensor_t *t) {
  return t->dtype == WEFT_STRING ? weft_tensor_str_at(t, 0) : weft_str_of(t->data, t->bytes);
}

static weft_status_t *note(unique_iterator_t *u, weft_str_t key, bool *is_new) {
  *is_new = weft_map_get(&u->seen, key) == NULL;
  if (!*is_new) return NULL;
  const weft_str_t kept = weft_arena_str(&u->keys, key);
  return kept.data == NULL ? WEFT_NO_MEMORY("elements that were seen")
                           : weft_map_put(&u->seen, kept, u, NULL);
}

static weft_status_t *unique_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  for (bool is_new = false; !is_new;) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (*is_end) return NULL;
    if (out[0]->count != 1)
      return WEFT_ERROR(INVALID_ARGUMENT, "element %lld is no scalar", (long long)it->input->index - 1);
    WEFT_RETURN_IF_ERROR(note((unique_iterator_t *)it, key_of(out[0]), &is_new));
    if (!is_new) weft_element_release(out, 1);
  }
  return NULL;
}

static weft_status_t *unique_save(weft_iterator_t *it, weft_saved_t *to) {
  unique_iterator_t *u = (unique_iterator_t *)it;
  weft_map_entry_t each;
  for (size_t at = 0; weft_map_next(&u->seen, &at, &each);) {
    weft_saved_put_int(to, 1);
    weft_saved_put_string(to, each.key);
  }
  weft_saved_put_int(to, 0);
  return NULL;
}

static weft_status_t *unique_load(weft_iterator_t *it, weft_saved_t *from) {
  for (;;) {
    int64_t more;
    bool is_new;
    weft_str_t key = WEFT_STR("");
    WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &more));
    if (more == 0) return NULL;
    WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &key));
    WEFT_RETURN_IF_ERROR(note((unique_iterator_t *)it, key, &is_new));
  }
}

static weft_status_t *unique_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  const weft_element_spec_t *spec = d->inputs[0]->spec;
  (void)c, (void)at, (void)params;
  const weft_dtype_t t = spec->n == 1 ? spec->dtypes[0] : WEFT_DTYPE_INVALID;
  if (spec->n != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "UniqueDataset only supports inputs with a single component.");
  if (t != WEFT_I32 && t != WEFT_I64 && t != WEFT_STRING) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` "
        "component.");
  }
  return NULL;
}

static const weft_dataset_class_t unique_class = {.name = "Unique",
                                                  .iterator_size = sizeof(unique_iterator_t),
                                                  .opens_inputs = true,
                                                  .next = unique_next,
                                                  .end = unique_end,
                                                  .save = unique_save,
                                                  .load = unique_load,
                                                  .cardinality = weft_cardinality_unknown};

static const weft_dataset_op_t ignore_op = {
    .class = &ignore_class, .num_inputs = 1, .params_size = sizeof(watch_params_t), .read = ignore_read};
static const weft_dataset_op_t assert_op = {.class = &weft_assert_cardinality_class,
                                            .num_inputs = 1,
                                            .params_size = sizeof(watch_params_t),
                                            .make = assert_make};
static const weft_dataset_op_t sleep_op = {
    .class = &sleep_class, .num_inputs = 1, .params_size = sizeof(watch_params_t), .make = sleep_make};
static const weft_dataset_op_t unique_op = {.class = &unique_class, .num_inputs = 1, .make = unique_make};

const weft_kernel_t weft_cpu_dataset_watch_kernels[] = {
    WEFT_DATASET_ROW("AssertCardinalityDataset", assert_op),
    WEFT_DATASET_ROW("ExperimentalIgnoreErrorsDataset", ignore_op),
    WEFT_DATASET_ROW("ExperimentalSleepDataset", sleep_op),
    WEFT_DATASET_ROW("ExperimentalUniqueDataset", unique_op),
    WEFT_DATASET_ROW("IgnoreErrorsDataset", ignore_op),
    WEFT_DATASET_ROW("SleepDataset", sleep_op),
    WEFT_DATASET_ROW("UniqueDataset", unique_op),
    {0},
};
