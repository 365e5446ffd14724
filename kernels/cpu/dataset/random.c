/* kernels/cpu/dataset/random.c - random numbers as elements, and a random part of the elements; TensorFlow's
 * own numbers. */
#include "base/random.h"
#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/seeds.h"

typedef struct random_params {
  weft_dataset_params_t base;
  float rate; /* of the elements that stay */
  bool reseeds;
  weft_seeds_t *seeds;
} random_params_t;

typedef struct random_iterator {
  weft_iterator_t base;
  int64_t seed, seed2, num_drawn;
  weft_philox_words_t words;
} random_iterator_t;

static void seed(random_iterator_t *r) { r->words = weft_seeds_words(r->seed, r->seed2, r->num_drawn); }

static weft_status_t *begin(weft_iterator_t *it) {
  random_iterator_t *r = (random_iterator_t *)it;
  weft_seeds_take(((const random_params_t *)it->of->params)->seeds, &r->seed, &r->seed2);
  seed(r);
  return NULL;
}

static uint32_t draw(random_iterator_t *r) {
  r->num_drawn++;
  return weft_philox_word(&r->words);
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const random_iterator_t *r = (const random_iterator_t *)it;
  weft_saved_put_int(to, weft_seeds_tell(((const random_params_t *)it->of->params)->seeds));
  weft_saved_put_int(to, r->seed);
  weft_saved_put_int(to, r->seed2);
  weft_saved_put_int(to, r->num_drawn);
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  random_iterator_t *r = (random_iterator_t *)it;
  int64_t place;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &place));
  weft_seeds_seek(((const random_params_t *)it->of->params)->seeds, place);
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &r->seed));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &r->seed2));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &r->num_drawn));
  seed(r);
  return NULL;
}

static void deinit(void *params) { weft_seeds_release(((random_params_t *)params)->seeds); }

/* ---- RandomDataset ---- */

static weft_status_t *random_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const int64_t v = draw((random_iterator_t *)it);
  *is_end = false;
  return weft_tensor_scalar(WEFT_I64, &v, &out[0]);
}

static int64_t infinite(const weft_dataset_t *d) {
  (void)d;
  return WEFT_CARDINALITY_INFINITE;
}

static weft_status_t *random_read(const weft_kernel_setup_t *setup, void *params) {
  ((random_params_t *)params)->reseeds = weft_knode_bool_or(setup, "rerandomize_each_iteration", false);
  return NULL;
}

static weft_status_t *random_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  random_params_t *p = params;
  int64_t seed, seed2;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "seed", &seed));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "seed2", &seed2));
  if (at + 2 < c->node->num_inputs) WEFT_RETURN_IF_ERROR(weft_seeds_in(c, at + 2, &p->seeds));
  return p->seeds != NULL ? NULL : weft_seeds_create(seed, seed2, p->reseeds, &p->seeds);
}

static const weft_dataset_class_t random_class = {.name = "Random",
                                                  .iterator_size = sizeof(random_iterator_t),
                                                  .begin = begin,
                                                  .next = random_next,
                                                  .save = save,
                                                  .load = load,
                                                  .cardinality = infinite};

/* ---- SamplingDataset ---- */

static weft_status_t *sampling_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const float rate = ((const random_params_t *)it->of->params)->rate;
  for (;;) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (*is_end || weft_philox_float(draw((random_iterator_t *)it)) < rate) return NULL;
    weft_element_release(out, it->of->spec->n);
  }
}

static weft_status_t *sampling_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  random_params_t *p = params;
  int64_t seed, seed2;
  (void)d;
  if (weft_in(c, at)->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "rate must be a scalar");
  p->rate = *(const float *)weft_in(c, at)->data;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "seed", &seed));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "seed2", &seed2));
  return weft_seeds_create(seed, seed2, false, &p->seeds);
}

static const weft_dataset_class_t sampling_class = {.name = "Sampling",
                                                    .iterator_size = sizeof(random_iterator_t),
                                                    .opens_inputs = true,
                                                    .begin = begin,
                                                    .next = sampling_next,
                                                    .save = save,
                                                    .load = load,
                                                    .cardinality = weft_cardinality_unknown};

static const weft_dataset_op_t random_op = {.class = &random_class,
                                            .params_size = sizeof(random_params_t),
                                            .read = random_read,
                                            .make = random_make,
                                            .deinit = deinit};
static const weft_dataset_op_t sampling_op = {.class = &sampling_class,
                                              .num_inputs = 1,
                                              .params_size = sizeof(random_params_t),
                                              .make = sampling_make,
                                              .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_random_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalRandomDataset", random_op),
    WEFT_DATASET_ROW("RandomDataset", random_op),
    WEFT_DATASET_ROW("RandomDatasetV2", random_op),
    WEFT_DATASET_ROW("SamplingDataset", sampling_op),
    {0},
};
