/* kernels/cpu/dataset/generator.c - elements that functions make: one begins, one gives an element at a time
 * until it ends with OUT_OF_RANGE, one cleans up. A function that needs Python has no kernel here, and says
 * so by name. */
#include "base/alloc.h"
#include "kernels/cpu/dataset/dataset.h"

enum { INIT_FN, NEXT_FN, FINALIZE_FN };

typedef struct generator_params {
  weft_dataset_params_t base;
  int num_states; /* results of the first function */
  int num_last;   /* results of the last one */
} generator_params_t;

typedef struct generator_iterator {
  weft_iterator_t base;
  weft_tensor_t **state; /* what the first function has returned; NULL: it was not called */
} generator_iterator_t;

static const generator_params_t *params_of(const weft_iterator_t *it) {
  return (const generator_params_t *)it->of->params;
}

static weft_status_t *init(generator_iterator_t *g) {
  weft_iterator_t *it = &g->base;
  const int n = params_of(it)->num_states;
  weft_tensor_t **state = weft_calloc((size_t)n + 1, sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("a generator");
  weft_status_t *s = weft_iterator_call(it, it->of->fns[INIT_FN], NULL, 0, state, n);
  if (s != NULL) {
    weft_free(state);
    return s;
  }
  g->state = state;
  return NULL;
}

/* Also when the pass was cancelled: what the first function has opened is closed. */
static weft_status_t *finalize(generator_iterator_t *g) {
  weft_iterator_t *it = &g->base;
  const int n = params_of(it)->num_last;
  weft_tensor_t **results = weft_calloc((size_t)n + 1, sizeof *results);
  if (results == NULL) return WEFT_NO_MEMORY("a generator");
  weft_canceller_t *canceller = it->canceller;
  it->canceller = NULL;
  weft_status_t *s =
      weft_iterator_call(it, it->of->fns[FINALIZE_FN], g->state, params_of(it)->num_states, results, n);
  it->canceller = canceller;
  weft_element_release(results, n);
  weft_free(results);
  weft_element_release(g->state, params_of(it)->num_states);
  weft_free(g->state);
  g->state = NULL;
  return s;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  generator_iterator_t *g = (generator_iterator_t *)it;
  if (g->state == NULL) WEFT_RETURN_IF_ERROR(init(g));
  weft_status_t *s =
      weft_iterator_call(it, it->of->fns[NEXT_FN], g->state, params_of(it)->num_states, out, it->of->spec->n);
  if (weft_status_code(s) != WEFT_OUT_OF_RANGE) return weft_iterator_blame(it, it->index, s);
  weft_status_free(s);
  *is_end = true;
  return finalize(g);
}

static void end(weft_iterator_t *it) {
  generator_iterator_t *g = (generator_iterator_t *)it;
  if (g->state != NULL) weft_status_free(finalize(g)); /* no request waits for it */
}

static weft_status_t *refuse_save(weft_iterator_t *it, weft_saved_t *to) {
  (void)it, (void)to;
  return WEFT_ERROR(
      UNIMPLEMENTED,
      "GeneratorDataset does not support checkpointing: its functions have a state of their own");
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  generator_params_t *p = params;
  (void)c, (void)at;
  WEFT_RETURN_IF_ERROR(weft_callee_num_results(d->fns[INIT_FN]->callee, &p->num_states));
  return weft_callee_num_results(d->fns[FINALIZE_FN]->callee, &p->num_last);
}

static const weft_dataset_class_t class = {.name = "Generator",
                                           .iterator_size = sizeof(generator_iterator_t),
                                           .next = next,
                                           .end = end,
                                           .save = refuse_save,
                                           .cardinality = weft_cardinality_unknown};
static const weft_dataset_op_t op = {.class = &class,
                                     .functions = {{"init_func", "Tinit_func_args"},
                                                   {"next_func", "Tnext_func_args"},
                                                   {"finalize_func", "Tfinalize_func_args"}},
                                     .params_size = sizeof(generator_params_t),
                                     .make = make};

const weft_kernel_t weft_cpu_dataset_generator_kernels[] = {
    WEFT_DATASET_ROW("GeneratorDataset", op),
    {0},
};
