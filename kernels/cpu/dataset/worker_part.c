/* kernels/cpu/dataset/worker_part.c - batches cut for workers that share each step. */
#include "kernels/cpu/dataset/worker_part.h"

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"

typedef struct worker_part_params {
  weft_dataset_params_t base;
  int64_t num_parts, index;
} worker_part_params_t;

/* A batch that is handed out in turns. */
typedef struct turns {
  weft_iterator_t base;
  weft_tensor_t **batch; /* of the input; all NULL: none */
  bool has_batch;
  int64_t turn; /* of the next part, 0 to num_parts - 1 */
} turns_t;

static const worker_part_params_t *params_of(const weft_iterator_t *it) {
  return (const worker_part_params_t *)it->of->params;
}

static int64_t begin_of(int64_t rows, int64_t num_parts, int64_t part) {
  return rows / num_parts * part + rows % num_parts * part / num_parts; /* rows * part / num_parts */
}

static weft_status_t *check_batch(weft_tensor_t *const *batch, int n) {
  for (int i = 0; i < n; i++) {
    if (batch[i]->shape.rank > 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot rebatch dataset: All components must have at least one dimension. Perhaps your "
                      "input dataset is not batched? Component %d is scalar.",
                      i);
  }
  return NULL;
}

/* An iterator that goes on with other parts than it was saved with would repeat rows and leave out others. */
static weft_status_t *save_params(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, params_of(it)->num_parts);
  weft_saved_put_int(to, params_of(it)->index);
  return NULL;
}

static weft_status_t *load_params(weft_iterator_t *it, weft_saved_t *from) {
  int64_t num_parts, index;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &num_parts));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &index));
  if (num_parts == params_of(it)->num_parts && index == params_of(it)->index) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "the saved iterator is that of worker %lld of %lld, and this one is that of worker %lld "
                    "of %lld",
                    (long long)index, (long long)num_parts, (long long)params_of(it)->index,
                    (long long)params_of(it)->num_parts);
}

/* ---- one part of each batch ---- */

static weft_status_t *part_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const worker_part_params_t *p = params_of(it);
  const int n = it->of->spec->n;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  if (*is_end) return NULL;
  WEFT_RETURN_IF_ERROR(check_batch(out, n));
  for (int i = 0; i < n; i++) {
    weft_tensor_t *whole = out[i];
    const int64_t rows = whole->shape.dims[0], begin = begin_of(rows, p->num_parts, p->index);
    const int64_t end = begin_of(rows, p->num_parts, p->index + 1);
    out[i] = NULL;
    weft_status_t *s = weft_tensor_slice(whole, begin, end - begin, &out[i]);
    weft_tensor_release(whole);
    if (s != NULL) return s;
  }
  return NULL;
}

static const weft_dataset_class_t part_class = {.name = "WorkerPart",
                                                .iterator_size = sizeof(weft_iterator_t),
                                                .opens_inputs = true,
                                                .next = part_next,
                                                .save = save_params,
                                                .load = load_params};
static const weft_dataset_class_t shared_part_class = {.name = "WorkerPart",
                                                       .iterator_size = sizeof(weft_iterator_t),
                                                       .opens_inputs = true,
                                                       .passes_state = true,
                                                       .next = part_next};

/* ---- whole batches, in turns ---- */

static weft_status_t *turns_begin(weft_iterator_t *it) {
  turns_t *t = (turns_t *)it;
  t->batch = weft_calloc((size_t)it->of->spec->n, sizeof *t->batch);
  return t->batch != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void drop_batch(turns_t *t) {
  weft_element_release(t->batch, t->base.of->spec->n);
  t->has_batch = false;
}

static void turns_end(weft_iterator_t *it) {
  turns_t *t = (turns_t *)it;
  if (t->batch != NULL) drop_batch(t);
  weft_free(t->batch);
}

/* The rows of the next turn: those before it have been given. */
static void bounds_of(const turns_t *t, int64_t rows, int64_t *begin, int64_t *end) {
  const worker_part_params_t *p = params_of(&t->base);
  *begin = *end = 0;
  for (int64_t k = 0; k <= t->turn; k++) {
    const int64_t part = (k + p->index) % p->num_parts;
    *begin = *end;
    *end += begin_of(rows, p->num_parts, part + 1) - begin_of(rows, p->num_parts, part);
  }
}

static weft_status_t *turns_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  turns_t *t = (turns_t *)it;
  if (!t->has_batch) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, t->batch, is_end));
    if (*is_end) return NULL;
    weft_status_t *s = check_batch(t->batch, it->of->spec->n);
    if (s != NULL) {
      drop_batch(t);
      return s;
    }
    t->has_batch = true;
  }
  for (int i = 0; i < it->of->spec->n; i++) {
    int64_t begin, end;
    bounds_of(t, t->batch[i]->shape.dims[0], &begin, &end);
    WEFT_RETURN_IF_ERROR(weft_tensor_slice(t->batch[i], begin, end - begin, &out[i]));
  }
  t->turn = (t->turn + 1) % params_of(it)->num_parts;
  if (t->turn == 0) drop_batch(t);
  return NULL;
}

static weft_status_t *turns_save(weft_iterator_t *it, weft_saved_t *to) {
  const turns_t *t = (const turns_t *)it;
  WEFT_RETURN_IF_ERROR(save_params(it, to));
  weft_saved_put_int(to, t->turn);
  return t->has_batch ? weft_saved_put_element(to, t->batch, it->of->spec->n) : NULL;
}

static weft_status_t *turns_load(weft_iterator_t *it, weft_saved_t *from) {
  turns_t *t = (turns_t *)it;
  WEFT_RETURN_IF_ERROR(load_params(it, from));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, params_of(it)->num_parts - 1, &t->turn));
  if (t->turn == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, it->of->spec, t->batch));
  t->has_batch = true;
  weft_status_t *s = check_batch(t->batch, it->of->spec->n);
  if (s == NULL) return NULL;
  weft_status_free(s);
  return weft_saved_broken("no such row");
}

static const weft_dataset_class_t turns_class = {.name = "WorkerTurns",
                                                 .iterator_size = sizeof(turns_t),
                                                 .opens_inputs = true,
                                                 .begin = turns_begin,
                                                 .next = turns_next,
                                                 .end = turns_end,
                                                 .save = turns_save,
                                                 .load = turns_load,
                                                 .cardinality = weft_cardinality_unknown};

/* ---- batches of no rows at the end ---- */

/* The last batch, and then batches like it without its rows. */
typedef struct then_empty {
  weft_iterator_t base;
  weft_tensor_t **like; /* no rows of each component; all NULL: no batch has come yet */
} then_empty_t;

static weft_status_t *then_empty_begin(weft_iterator_t *it) {
  then_empty_t *t = (then_empty_t *)it;
  t->like = weft_calloc((size_t)it->of->spec->n, sizeof *t->like);
  return t->like != NULL ? NULL : WEFT_NO_MEMORY("an iterator");
}

static void then_empty_end(weft_iterator_t *it) {
  then_empty_t *t = (then_empty_t *)it;
  if (t->like != NULL) weft_element_release(t->like, it->of->spec->n);
  weft_free(t->like);
}

/* Without a batch, what is not known of a shape is 0. */
static weft_status_t *no_rows(const then_empty_t *t, int i, const weft_tensor_t *of, weft_tensor_t **out) {
  const weft_element_spec_t *spec = t->base.of->spec;
  weft_shape_t shape = of != NULL ? of->shape : spec->shapes[i];
  if (shape.rank < 1) shape = weft_shape_vector(0);
  for (int k = 0; k < shape.rank; k++) shape.dims[k] = k == 0 || shape.dims[k] < 0 ? 0 : shape.dims[k];
  return weft_tensor_new(spec->dtypes[i], &shape, NULL, out);
}

static bool is_alike(const weft_tensor_t *like, const weft_tensor_t *batch) {
  if (like == NULL || like->shape.rank != batch->shape.rank) return false;
  for (int k = 1; k < like->shape.rank; k++) {
    if (like->shape.dims[k] != batch->shape.dims[k]) return false;
  }
  return true;
}

static weft_status_t *then_empty_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  then_empty_t *t = (then_empty_t *)it;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  const bool is_over = *is_end;
  *is_end = false;
  for (int i = 0; i < it->of->spec->n; i++) {
    if (is_over && t->like[i] != NULL) {
      out[i] = weft_tensor_retain(t->like[i]);
    } else if (is_over) {
      WEFT_RETURN_IF_ERROR(no_rows(t, i, NULL, &out[i]));
    } else if (!is_alike(t->like[i], out[i])) {
      weft_tensor_release(t->like[i]);
      t->like[i] = NULL;
      WEFT_RETURN_IF_ERROR(no_rows(t, i, out[i], &t->like[i]));
    }
  }
  return NULL;
}

static weft_status_t *then_empty_save(weft_iterator_t *it, weft_saved_t *to) {
  const then_empty_t *t = (const then_empty_t *)it;
  const bool has_like = t->like[0] != NULL;
  weft_saved_put_int(to, has_like);
  return has_like ? weft_saved_put_element(to, t->like, it->of->spec->n) : NULL;
}

static weft_status_t *then_empty_load(weft_iterator_t *it, weft_saved_t *from) {
  int64_t has_like;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_like));
  return has_like != 0 ? weft_saved_get_element(from, it->of->spec, ((then_empty_t *)it)->like) : NULL;
}

static int64_t then_empty_cardinality(const weft_dataset_t *d) {
  (void)d;
  return WEFT_CARDINALITY_INFINITE;
}

static const weft_dataset_class_t then_empty_class = {.name = "ThenEmpty",
                                                      .iterator_size = sizeof(then_empty_t),
                                                      .opens_inputs = true,
                                                      .begin = then_empty_begin,
                                                      .next = then_empty_next,
                                                      .end = then_empty_end,
                                                      .save = then_empty_save,
                                                      .load = then_empty_load,
                                                      .cardinality = then_empty_cardinality};

/* ---- making them ---- */

/* Of the class, over `d`. Batches have any number of rows. */
static weft_status_t *create(const weft_dataset_class_t *class, weft_dataset_t *d, int64_t num_parts,
                             int64_t index, weft_dataset_t **out) {
  const worker_part_params_t like = {.num_parts = num_parts, .index = index};
  weft_dataset_t made = {.class = class, .device = d->device};
  WEFT_RETURN_IF_ERROR(weft_dataset_params_new(&like, sizeof like, NULL, &made.params));
  weft_status_t *s = weft_element_spec_any_rows(d->spec, &made.spec);
  if (s == NULL) s = weft_dataset_create(&made, &d, 1, out);
  weft_element_spec_release(made.spec);
  weft_object_release(&made.params->object);
  return s;
}

weft_status_t *weft_part_create(weft_dataset_t *d, int64_t num_parts, int64_t index, bool passes_state,
                                weft_dataset_t **out) {
  return create(passes_state ? &shared_part_class : &part_class, d, num_parts, index, out);
}

weft_status_t *weft_turns_create(weft_dataset_t *d, int64_t num_parts, int64_t index, weft_dataset_t **out) {
  return create(&turns_class, d, num_parts, index, out);
}

weft_status_t *weft_then_empty_create(weft_dataset_t *d, weft_dataset_t **out) {
  return create(&then_empty_class, d, 1, 0, out);
}
