/* kernels/cpu/dataset/interleave.c - data sets that a function makes of elements: one behind the other, or
 * several by turns. */
#include "kernels/cpu/dataset/interleave.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/options.h"
#include "kernels/cpu/dataset/saved.h"

weft_status_t *weft_iterator_make_inner(weft_iterator_t *it, weft_tensor_t *const *args, const char *what,
                                        int64_t num_ahead, weft_iterator_t **out) {
  weft_tensor_t *made = NULL;
  weft_dataset_t *d = NULL, *ahead = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, it->of->fns[0], args, it->of->inputs[0]->spec->n, &made, 1));
  weft_status_t *s = NULL;
  if (made->dtype != WEFT_VARIANT || made->shape.rank != 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s must return a single scalar of dtype DT_VARIANT.", what);
  if (s == NULL) s = weft_dataset_of(made, &d);
  if (s == NULL && d->spec->n != it->of->spec->n)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s must return data sets of %d components, not %d", what,
                   it->of->spec->n, d->spec->n);
  if (s == NULL && num_ahead != 0) {
    s = weft_prefetch_create(d, num_ahead, &ahead);
    d = ahead;
  }
  if (s == NULL) s = weft_iterator_open(d, it->traversal, it, out);
  weft_dataset_release(ahead);
  weft_tensor_release(made);
  return s;
}

/* ---- one of the data sets under way ---- */

typedef struct inner_dataset {
  weft_tensor_t **args;   /* the element that it was made of, for when it is made anew from a saved state */
  weft_iterator_t *inner; /* NULL: none */
  bool has_failed;        /* it could not be made: its place is taken until its next turn */
} inner_dataset_t;

static void part_close(inner_dataset_t *p, int n) {
  weft_iterator_close(p->inner);
  p->inner = NULL;
  if (p->args != NULL) weft_element_release(p->args, n);
}

typedef struct interleave {
  weft_dataset_params_t base;
  int64_t cycle_length, block_length;
  int64_t num_ahead; /* elements of each data set that are made ahead; 0: none */
  bool is_parallel;  /* a failure to make a data set has a place, as an element has */
  bool is_legacy;    /* a data set that ends is replaced at once; without one to replace it, its turn goes on
                        with the    next one */
} interleave_t;

typedef struct interleaving {
  weft_iterator_t base;
  inner_dataset_t *parts;
  int64_t num_parts, at, in_block, num_open;
  bool is_input_over;
} interleaving_t;

static const interleave_t *params_of(const weft_iterator_t *it) {
  return (const interleave_t *)it->of->params;
}

static weft_status_t *begin(weft_iterator_t *it) {
  interleaving_t *n = (interleaving_t *)it;
  const size_t num_args = (size_t)it->of->inputs[0]->spec->n;
  n->parts = weft_calloc((size_t)params_of(it)->cycle_length, sizeof *n->parts);
  if (n->parts == NULL) return WEFT_NO_MEMORY("an iterator");
  n->num_parts = params_of(it)->cycle_length;
  for (int64_t i = 0; i < n->num_parts; i++) {
    n->parts[i].args = weft_calloc(num_args, sizeof *n->parts[i].args);
    if (n->parts[i].args == NULL) return WEFT_NO_MEMORY("an iterator");
  }
  return NULL;
}

static void end(weft_iterator_t *it) {
  interleaving_t *n = (interleaving_t *)it;
  for (int64_t i = 0; i < n->num_parts; i++) {
    part_close(&n->parts[i], it->of->inputs[0]->spec->n);
    weft_free(n->parts[i].args);
  }
  weft_free(n->parts);
}

static void next_part(interleaving_t *n) {
  n->in_block = 0;
  n->at = (n->at + 1) % n->num_parts;
}

/* A new data set at the empty place, unless the input has no more. */
static weft_status_t *open_part(interleaving_t *n, inner_dataset_t *p) {
  weft_iterator_t *it = &n->base;
  bool is_end = false;
  weft_status_t *s = weft_iterator_next(it->input, p->args, &is_end);
  n->is_input_over = is_end && (s == NULL || it->of->class != &weft_flat_map_class);
  if (s != NULL || is_end) return s;
  s = weft_iterator_make_inner(it, p->args, "`f`", params_of(it)->num_ahead, &p->inner);
  if (s != NULL) {
    part_close(p, it->of->inputs[0]->spec->n);
    return weft_iterator_blame(it->input, it->input->index - 1, s);
  }
  n->num_open++;
  return NULL;
}

static weft_status_t *open_all(interleaving_t *n) {
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && !n->is_input_over && i < n->num_parts; i++) s = open_part(n, &n->parts[i]);
  return s;
}

/* A failure to open a part is the part's only element, of parallel versions. */
static weft_status_t *keep_place(interleaving_t *n, inner_dataset_t *p, weft_status_t *s) {
  const interleave_t *params = params_of(&n->base);
  if (s == NULL || !params->is_parallel) return s;
  p->has_failed = true;
  n->num_open++;
  if (++n->in_block == params->block_length) next_part(n);
  return s;
}

/* After the end of a data set: which one comes next. */
static weft_status_t *replace_part(interleaving_t *n, inner_dataset_t *p) {
  const int64_t in_block = n->in_block;
  next_part(n);
  if (!params_of(&n->base)->is_legacy) return NULL;
  weft_status_t *s = n->is_input_over ? NULL : open_part(n, p);
  if (p->inner == NULL) n->in_block = in_block;
  return s;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  interleaving_t *n = (interleaving_t *)it;
  const interleave_t *params = (const interleave_t *)it->of->params;
  if (params->is_legacy && it->input->index == 0) WEFT_RETURN_IF_ERROR(open_all(n));
  while (!n->is_input_over || n->num_open > 0) {
    inner_dataset_t *p = &n->parts[n->at];
    if (p->inner != NULL || p->has_failed) {
      bool is_over = p->has_failed;
      p->has_failed = false;
      if (!is_over) WEFT_RETURN_IF_ERROR(weft_iterator_next(p->inner, out, &is_over));
      if (!is_over) {
        if (++n->in_block == params->block_length) next_part(n);
        return NULL;
      }
      part_close(p, it->of->inputs[0]->spec->n);
      n->num_open--;
      WEFT_RETURN_IF_ERROR(replace_part(n, p));
    } else if (!n->is_input_over) {
      WEFT_RETURN_IF_ERROR(keep_place(n, p, open_part(n, p)));
    } else {
      n->at = (n->at + 1) % n->num_parts;
    }
  }
  *is_end = true;
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const interleaving_t *n = (const interleaving_t *)it;
  weft_saved_put_int(to, n->num_parts);
  weft_saved_put_int(to, n->at);
  weft_saved_put_int(to, n->in_block);
  weft_saved_put_int(to, n->is_input_over);
  for (int64_t i = 0; i < n->num_parts; i++) {
    const inner_dataset_t *p = &n->parts[i];
    weft_saved_put_int(to, p->inner != NULL ? 1 : p->has_failed ? 2 : 0);
    if (p->inner == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, p->args, it->of->inputs[0]->spec->n));
    WEFT_RETURN_IF_ERROR(weft_iterator_save(p->inner, to));
  }
  return NULL;
}

static weft_status_t *load_part(interleaving_t *n, inner_dataset_t *p, weft_saved_t *from) {
  weft_iterator_t *it = &n->base;
  int64_t is_open;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 2, &is_open));
  p->has_failed = is_open == 2;
  n->num_open += p->has_failed;
  if (is_open != 1) return NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, it->of->inputs[0]->spec, p->args));
  WEFT_RETURN_IF_ERROR(weft_iterator_make_inner(it, p->args, "`f`", params_of(it)->num_ahead, &p->inner));
  n->num_open++;
  return weft_iterator_load(p->inner, from);
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  interleaving_t *n = (interleaving_t *)it;
  int64_t num_parts, is_over;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, n->num_parts, n->num_parts, &num_parts));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, num_parts - 1, &n->at));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &n->in_block));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  n->is_input_over = is_over != 0;
  for (int64_t i = 0; i < num_parts; i++) WEFT_RETURN_IF_ERROR(load_part(n, &n->parts[i], from));
  return NULL;
}

#define CLASS(name_)                                                                                \
  {                                                                                                 \
    .name = (name_), .iterator_size = sizeof(interleaving_t), .opens_inputs = true, .begin = begin, \
    .next = next, .end = end, .save = save, .load = load, .cardinality = weft_cardinality_unknown   \
  }
const weft_dataset_class_t weft_flat_map_class = CLASS("FlatMap"),
                           weft_interleave_class = CLASS("Interleave");

/* ---- kernels ---- */

static weft_status_t *flat_read(const weft_kernel_setup_t *setup, void *params) {
  interleave_t *p = params;
  (void)setup;
  p->cycle_length = p->block_length = 1;
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  interleave_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "cycle_length", &p->cycle_length));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "block_length", &p->block_length));
  if (p->cycle_length == -1)
    p->cycle_length = c->device->pool != NULL ? weft_thread_pool_size(c->device->pool) : 1;
  if (p->cycle_length <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "cycle_length must be greater than zero.");
  if (p->block_length <= 0) return WEFT_ERROR(INVALID_ARGUMENT, "block_length must be greater than zero.");
  return NULL;
}

/* The parallel versions: the same order, with elements of each data set made ahead on a thread of its own.
 * That order is one of those that a version may give which need not keep it. Threads: as many as data sets
 * are open. */
enum { FEW_AHEAD = 2 };

/* cycle_length, block_length, num_parallel_calls */
static weft_status_t *parallel_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  interleave_t *p = params;
  int64_t num_parallel, cycle_length;
  WEFT_RETURN_IF_ERROR(make(c, at, d, params));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "cycle_length", &cycle_length));
  WEFT_RETURN_IF_ERROR(weft_parallel_in(c, c->node->num_inputs - 1, &num_parallel));
  if (cycle_length != WEFT_AUTOTUNE && num_parallel > cycle_length) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "If `cycle_length` is set to a fixed value, `num_parallel_calls` must be either "
                      "`tf.data.AUTOTUNE` or a value less than or equal to `cycle_length`. However, "
                      "`num_parallel_calls` is %lld and `cycle_length` is %lld",
                      (long long)num_parallel, (long long)cycle_length);
  }
  p->num_ahead = FEW_AHEAD;
  p->is_parallel = true;
  return NULL;
}

/* cycle_length, block_length, buffer_output_elements, prefetch_input_elements, num_parallel_calls */
static weft_status_t *buffered_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  interleave_t *p = params;
  int64_t num_outputs, num_inputs;
  WEFT_RETURN_IF_ERROR(parallel_make(c, at, d, params));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "buffer_output_elements", &num_outputs));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 3, "prefetch_input_elements", &num_inputs));
  if (num_outputs != WEFT_AUTOTUNE && num_outputs < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "`buffer_output_elements` must be -1 or > 0 but is %lld",
                      (long long)num_outputs);
  if (num_inputs != WEFT_AUTOTUNE && num_inputs < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "`prefetch_input_elements` must be -1 or >= 0 but is %lld",
                      (long long)num_inputs);
  p->num_ahead = num_outputs == WEFT_AUTOTUNE ? FEW_AHEAD : num_outputs;
  return NULL;
}

/* cycle_length, block_length, sloppy, buffer_output_elements, prefetch_input_elements */
static weft_status_t *legacy_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  interleave_t *p = params;
  int64_t num_inputs;
  bool is_sloppy;
  const bool has_sloppy = weft_in(c, at + 2)->dtype == WEFT_BOOL;
  p->is_legacy = true;
  WEFT_RETURN_IF_ERROR(make(c, at, d, params));
  if (has_sloppy) WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, at + 2, "sloppy", &is_sloppy));
  const int buffers = at + 2 + has_sloppy;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, buffers, "buffer_output_elements", &p->num_ahead));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, buffers + 1, "prefetch_input_elements", &num_inputs));
  if (p->num_ahead == WEFT_AUTOTUNE) p->num_ahead = FEW_AHEAD;
  if (p->num_ahead <= 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "`buffer_output_elements` must be > 0 but is %lld",
                      (long long)p->num_ahead);
  if (num_inputs < 0 && num_inputs != WEFT_AUTOTUNE)
    return WEFT_ERROR(INVALID_ARGUMENT, "`prefetch_input_elements` must be >= 0 but is %lld",
                      (long long)num_inputs);
  return NULL;
}

#define INTERLEAVE(make_)                                                                 \
  {                                                                                       \
    .class = &weft_interleave_class, .num_inputs = 1, .functions = {{"f", "Targuments"}}, \
    .params_size = sizeof(interleave_t), .make = (make_)                                  \
  }
static const weft_dataset_op_t op = INTERLEAVE(make), parallel_op = INTERLEAVE(parallel_make),
                               buffered_op = INTERLEAVE(buffered_make), legacy_op = INTERLEAVE(legacy_make);
static const weft_dataset_op_t flat_op = {.class = &weft_flat_map_class,
                                          .num_inputs = 1,
                                          .functions = {{"f", "Targuments"}},
                                          .params_size = sizeof(interleave_t),
                                          .read = flat_read};
const weft_kernel_t weft_cpu_dataset_interleave_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalParallelInterleaveDataset", legacy_op),
    WEFT_DATASET_ROW("FlatMapDataset", flat_op),
    WEFT_DATASET_ROW("InterleaveDataset", op),
    WEFT_DATASET_ROW("LegacyParallelInterleaveDatasetV2", legacy_op),
    WEFT_DATASET_ROW("ParallelInterleaveDataset", legacy_op),
    WEFT_DATASET_ROW("ParallelInterleaveDatasetV2", parallel_op),
    WEFT_DATASET_ROW("ParallelInterleaveDatasetV3", parallel_op),
    WEFT_DATASET_ROW("ParallelInterleaveDatasetV4", buffered_op),
    {0},
};
