/* kernels/cpu/dataset/interleave.c - data sets that a function makes of elements: one behind the other, or
 * several by turns. */
#include "kernels/cpu/dataset/interleave.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

weft_status_t *weft_iterator_make_inner(weft_iterator_t *it, weft_tensor_t *const *args, const char *what,
                                        weft_iterator_t **out) {
  weft_tensor_t *made = NULL;
  weft_dataset_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_call(it, it->of->fn, args, it->of->inputs[0]->spec->n, &made, 1));
  weft_status_t *s = NULL;
  if (made->dtype != WEFT_VARIANT || made->shape.rank != 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s must return a single scalar of dtype DT_VARIANT.", what);
  if (s == NULL) s = weft_dataset_of(made, &d);
  if (s == NULL && d->spec->n != it->of->spec->n)
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s must return data sets of %d components, not %d", what,
                   it->of->spec->n, d->spec->n);
  if (s == NULL) s = weft_iterator_open(d, it->traversal, it, out);
  weft_tensor_release(made);
  return s;
}

/* ---- one of the data sets under way ---- */

typedef struct inner_dataset {
  weft_tensor_t **args;   /* the element that it was made of, for when it is made anew from a saved state */
  weft_iterator_t *inner; /* NULL: none */
} inner_dataset_t;

static void part_close(inner_dataset_t *p, int n) {
  weft_iterator_close(p->inner);
  p->inner = NULL;
  if (p->args != NULL) weft_element_release(p->args, n);
}

typedef struct interleave {
  weft_dataset_params_t base;
  int64_t cycle_length, block_length;
} interleave_t;

typedef struct interleaving {
  weft_iterator_t base;
  inner_dataset_t *parts;
  int64_t num_parts, at, in_block, num_open;
  bool is_input_over;
} interleaving_t;

static weft_status_t *begin(weft_iterator_t *it) {
  interleaving_t *n = (interleaving_t *)it;
  const size_t num_args = (size_t)it->of->inputs[0]->spec->n;
  n->parts = weft_calloc((size_t)((const interleave_t *)it->of->params)->cycle_length, sizeof *n->parts);
  if (n->parts == NULL) return WEFT_NO_MEMORY("an iterator");
  n->num_parts = ((const interleave_t *)it->of->params)->cycle_length;
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
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, p->args, &is_end));
  n->is_input_over = is_end;
  if (is_end) return NULL;
  weft_status_t *s = weft_iterator_make_inner(it, p->args, "`f`", &p->inner);
  if (s != NULL) {
    part_close(p, it->of->inputs[0]->spec->n);
    return weft_iterator_blame(it->input, it->input->index - 1, s);
  }
  n->num_open++;
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  interleaving_t *n = (interleaving_t *)it;
  const interleave_t *params = (const interleave_t *)it->of->params;
  while (!n->is_input_over || n->num_open > 0) {
    inner_dataset_t *p = &n->parts[n->at];
    if (p->inner != NULL) {
      bool is_over = false;
      WEFT_RETURN_IF_ERROR(weft_iterator_next(p->inner, out, &is_over));
      if (!is_over) {
        if (++n->in_block == params->block_length) next_part(n);
        return NULL;
      }
      part_close(p, it->of->inputs[0]->spec->n);
      n->num_open--;
      next_part(n);
    } else if (!n->is_input_over) {
      WEFT_RETURN_IF_ERROR(open_part(n, p));
    } else {
      next_part(n);
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
    weft_saved_put_int(to, p->inner != NULL);
    if (p->inner == NULL) continue;
    WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, p->args, it->of->inputs[0]->spec->n));
    WEFT_RETURN_IF_ERROR(weft_iterator_save(p->inner, to));
  }
  return NULL;
}

static weft_status_t *load_part(interleaving_t *n, inner_dataset_t *p, weft_saved_t *from) {
  weft_iterator_t *it = &n->base;
  int64_t is_open;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_open));
  if (is_open == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, it->of->inputs[0]->spec, p->args));
  WEFT_RETURN_IF_ERROR(weft_iterator_make_inner(it, p->args, "`f`", &p->inner));
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

static const weft_dataset_class_t flat_class = {.name = "FlatMap",
                                                .iterator_size = sizeof(interleaving_t),
                                                .opens_inputs = true,
                                                .begin = begin,
                                                .next = next,
                                                .end = end,
                                                .save = save,
                                                .load = load,
                                                .cardinality = weft_cardinality_unknown};
static const weft_dataset_class_t class = {.name = "Interleave",
                                           .iterator_size = sizeof(interleaving_t),
                                           .opens_inputs = true,
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load,
                                           .cardinality = weft_cardinality_unknown};

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

static const weft_dataset_op_t flat_op = {.class = &flat_class,
                                          .num_inputs = 1,
                                          .function = "f",
                                          .params_size = sizeof(interleave_t),
                                          .read = flat_read};
static const weft_dataset_op_t op = {
    .class = &class, .num_inputs = 1, .function = "f", .params_size = sizeof(interleave_t), .make = make};

const weft_kernel_t weft_cpu_dataset_interleave_kernels[] = {
    WEFT_DATASET_ROW("FlatMapDataset", flat_op),
    WEFT_DATASET_ROW("InterleaveDataset", op),
    {0},
};
