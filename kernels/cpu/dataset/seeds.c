/* kernels/cpu/dataset/seeds.c - generators of seeds, and the ops that make them by themselves. */
#include "kernels/cpu/dataset/seeds.h"

#include "base/alloc.h"
#include "base/random.h"
#include "kernels/state.h"

struct weft_seeds {
  weft_object_t object;
  weft_mutex_t mu;
  weft_philox_words_t words; /* guarded by mu */
  int64_t num_taken;         /* likewise: pairs */
  int64_t seed, seed2;       /* constant */
  bool reshuffles;
};

const weft_resource_type_t weft_seeds_type = {.name = "N10tensorflow4data20SeedGeneratorManagerE",
                                              .text = "SeedGenerator"};

weft_philox_t weft_seeds_philox(int64_t seed, int64_t seed2) {
  const uint64_t a = (uint64_t)seed, b = (uint64_t)seed2;
  return (weft_philox_t){.key = {(uint32_t)a, (uint32_t)(a >> 32)},
                         .counter = {0, 0, (uint32_t)b, (uint32_t)(b >> 32)}};
}

weft_philox_words_t weft_seeds_words(int64_t seed, int64_t seed2, int64_t first) {
  weft_philox_t from = weft_seeds_philox(seed, seed2);
  weft_philox_skip(&from, (uint64_t)first / 4);
  weft_philox_words_t words = weft_philox_words(from);
  for (int64_t i = 0; i < first % 4; i++) (void)weft_philox_word(&words);
  return words;
}

static void destroy(weft_object_t *o) {
  weft_seeds_t *s = (weft_seeds_t *)o;
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

weft_status_t *weft_seeds_create(int64_t seed, int64_t seed2, bool reshuffles, weft_seeds_t **out) {
  weft_seeds_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("a generator of seeds");
  if (seed == 0 && seed2 == 0) {
    seed = (int64_t)weft_random_id();
    seed2 = (int64_t)weft_random_id();
  }
  atomic_init(&s->object.refs, 1);
  s->object.destroy = destroy;
  weft_mutex_init(&s->mu);
  s->words = weft_seeds_words(seed, seed2, 0);
  s->seed = seed;
  s->seed2 = seed2;
  s->reshuffles = reshuffles;
  *out = s;
  return NULL;
}

void weft_seeds_release(weft_seeds_t *s) {
  if (s != NULL) weft_object_release(&s->object);
}

void weft_seeds_take(weft_seeds_t *s, int64_t *seed, int64_t *seed2) {
  *seed = s->seed;
  *seed2 = s->seed2;
  if (!s->reshuffles) return;
  weft_mutex_lock(&s->mu);
  *seed = weft_philox_word(&s->words);
  *seed2 = weft_philox_word(&s->words);
  s->num_taken++;
  weft_mutex_unlock(&s->mu);
}

int64_t weft_seeds_tell(weft_seeds_t *s) {
  weft_mutex_lock(&s->mu);
  const int64_t place = s->num_taken;
  weft_mutex_unlock(&s->mu);
  return place;
}

void weft_seeds_seek(weft_seeds_t *s, int64_t place) {
  weft_mutex_lock(&s->mu);
  s->words = weft_seeds_words(s->seed, s->seed2, 2 * place);
  s->num_taken = place;
  weft_mutex_unlock(&s->mu);
}

weft_status_t *weft_seeds_in(weft_kernel_ctx_t *c, int i, weft_seeds_t **out) {
  return weft_state_in_if_there(c, i, &weft_seeds_type, (weft_object_t **)out);
}

/* ---- kernels ---- */

/* seed, seed2, and perhaps `reshuffle`. Output 1 is TensorFlow's deleter: nothing here, since the handle
 * holds what it names. */
static weft_status_t *make(weft_kernel_ctx_t *c) {
  int64_t seed, seed2;
  bool reshuffles = true;
  weft_seeds_t *made = NULL;
  weft_tensor_t *handle = NULL, *deleter = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 0, "seed", &seed));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 1, "seed2", &seed2));
  if (c->node->num_inputs > 2) WEFT_RETURN_IF_ERROR(weft_dataset_in_bool(c, 2, "reshuffle", &reshuffles));
  WEFT_RETURN_IF_ERROR(weft_seeds_create(seed, seed2, reshuffles, &made));
  weft_status_t *s = weft_state_handle(c->device, "", "AnonymousSeedGenerator", &weft_seeds_type,
                                       &made->object, WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &handle);
  weft_seeds_release(made);
  if (s != NULL) return s;
  weft_out_set(c, 0, handle);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &deleter));
  weft_out_set(c, 1, deleter);
  return NULL;
}

static weft_status_t *make_dummy(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_handle(c->device, "localhost", "dummy_resource", &weft_seeds_type, NULL,
                                         WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *forget(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

const weft_kernel_t weft_cpu_dataset_seeds_kernels[] = {
    {.op = "AnonymousRandomSeedGenerator", .compute = make},
    {.op = "AnonymousSeedGenerator", .compute = make},
    {.op = "DeleteRandomSeedGenerator", .compute = forget},
    {.op = "DeleteSeedGenerator", .compute = forget},
    {.op = "DummyIterationCounter", .compute = make_dummy},
    {.op = "DummyMemoryCache", .compute = make_dummy},
    {.op = "DummySeedGenerator", .compute = make_dummy},
    {0},
};
