/* kernels/cpu/dataset/shuffle.c - elements in random order, TensorFlow's own: a buffer out of which one is
 * drawn at a time.
 *
 * Each pass gets two seeds from the data set's generator of seeds, so that a pass differs from the one before
 * it and a whole run can be repeated. A pass that repeats its input draws from the elements of the oldest
 * repetition in the buffer alone. Source of the order: TensorFlow's ShuffleDataset and
 * ShuffleAndRepeatDataset.
 */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/seeds.h"
#include "kernels/cpu/dataset/sequence.h"

enum { MAX_EPOCHS_IN_BUFFER = 3 };

typedef struct shuffle {
  weft_dataset_params_t base;
  int64_t buffer_size; /* WEFT_CARDINALITY_UNKNOWN: all of the input */
  int64_t count;       /* repetitions of the input; -1: for ever */
  bool reshuffles;     /* each pass in an order of its own */
  weft_seeds_t *seeds;
} shuffle_t;

/* The elements of one repetition in the buffer, which is a ring: indices go on rising. */
typedef struct slice {
  int64_t begin, end;
} slice_t;

typedef struct shuffling {
  weft_iterator_t base;
  int64_t seed, seed2, num_drawn;
  weft_philox_words_t words;
  weft_tensor_t **ring; /* `capacity` elements, which grows up to buffer_size before the ring closes */
  int64_t capacity, num_elements, epoch;
  slice_t slices[MAX_EPOCHS_IN_BUFFER + 1];
  int num_slices;
  bool is_at_end; /* of the input's last repetition */
} shuffling_t;

static void seed(shuffling_t *s) { s->words = weft_seeds_words(s->seed, s->seed2, s->num_drawn); }

static weft_status_t *begin(weft_iterator_t *it) {
  shuffling_t *s = (shuffling_t *)it;
  weft_seeds_take(((const shuffle_t *)it->of->params)->seeds, &s->seed, &s->seed2);
  seed(s);
  s->num_slices = 1;
  return NULL;
}

static weft_tensor_t **element(const shuffling_t *s, int64_t index) {
  const shuffle_t *p = (const shuffle_t *)s->base.of->params;
  const int64_t size = p->buffer_size > 0 ? p->buffer_size : INT64_MAX;
  return s->ring + (index % size) * s->base.of->spec->n;
}

static void end(weft_iterator_t *it) {
  shuffling_t *s = (shuffling_t *)it;
  for (int i = 0; i < s->num_slices; i++) {
    for (int64_t k = s->slices[i].begin; k < s->slices[i].end; k++)
      weft_element_release(element(s, k), it->of->spec->n);
  }
  weft_free(s->ring);
}

/* Room for an element at `index`. */
static weft_status_t *reserve(shuffling_t *s, int64_t index) {
  const shuffle_t *p = (const shuffle_t *)s->base.of->params;
  const int64_t at = p->buffer_size > 0 ? index % p->buffer_size : index;
  if (at < s->capacity) return NULL;
  int64_t capacity = at < 64 ? 128 : 2 * at;
  if (p->buffer_size > 0 && capacity > p->buffer_size) capacity = p->buffer_size;
  weft_tensor_t **ring =
      weft_realloc(s->ring, (size_t)capacity, (size_t)s->base.of->spec->n * sizeof *s->ring);
  if (ring == NULL) return WEFT_NO_MEMORY("a buffer of %lld elements to shuffle", (long long)capacity);
  s->ring = ring;
  s->capacity = capacity;
  return NULL;
}

/* The next element of the input, or of its next repetition, into the buffer. *is_end: there is none, and
 * never was one. */
static weft_status_t *take_one(shuffling_t *s, bool *is_empty) {
  weft_iterator_t *it = &s->base;
  const shuffle_t *p = (const shuffle_t *)it->of->params;
  slice_t *last = &s->slices[s->num_slices - 1];
  bool is_end = false;
  WEFT_RETURN_IF_ERROR(reserve(s, last->end));
  if (it->input == NULL) WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, 0, &it->input));
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, element(s, last->end), &is_end));
  if (!is_end) {
    last->end++;
    s->num_elements++;
    return NULL;
  }
  *is_empty = p->count < 0 && s->epoch == 0 && it->index == 0 && s->num_elements == 0;
  weft_iterator_close(it->input);
  it->input = NULL;
  s->epoch++;
  s->is_at_end = *is_empty || (p->count >= 0 && s->epoch >= p->count);
  if (!s->is_at_end) {
    const int64_t at = last->end;
    s->slices[s->num_slices++] = (slice_t){at, at};
  }
  return NULL;
}

/* Away with repetitions of which all elements have been drawn, but the last. The next one is drawn with seeds
 * of its own. */
static void drop_empty_slices(shuffling_t *s) {
  int n = 0;
  while (n < s->num_slices - 1 && s->slices[n].begin == s->slices[n].end) {
    n++;
    s->num_drawn = 0;
    weft_seeds_take(((const shuffle_t *)s->base.of->params)->seeds, &s->seed, &s->seed2);
    seed(s);
  }
  s->num_slices -= n;
  memmove(s->slices, s->slices + n, (size_t)s->num_slices * sizeof *s->slices);
}

static weft_status_t *fill(shuffling_t *s, bool *is_empty) {
  const shuffle_t *p = (const shuffle_t *)s->base.of->params;
  if (p->count == 0) s->is_at_end = true;
  while (!s->is_at_end && (p->buffer_size < 0 || s->num_elements < p->buffer_size) &&
         s->num_slices <= MAX_EPOCHS_IN_BUFFER && !*is_empty) {
    if (weft_canceller_is_cancelled(s->base.canceller))
      return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    WEFT_RETURN_IF_ERROR(take_one(s, is_empty));
    if (s->num_slices > MAX_EPOCHS_IN_BUFFER) drop_empty_slices(s);
  }
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  shuffling_t *s = (shuffling_t *)it;
  WEFT_RETURN_IF_ERROR(fill(s, is_end));
  *is_end = s->num_elements == 0;
  if (*is_end) return NULL;
  drop_empty_slices(s);
  slice_t *first = &s->slices[0];
  const size_t bytes = (size_t)it->of->spec->n * sizeof *out;
  const int64_t offset = (int64_t)weft_philox_word(&s->words) % (first->end - first->begin);
  weft_tensor_t **drawn = element(s, first->begin + offset), **oldest = element(s, first->begin);
  s->num_drawn++;
  memcpy(out, drawn, bytes);
  memmove(drawn, oldest, bytes);
  first->begin++;
  s->num_elements--;
  return NULL;
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const shuffling_t *s = (const shuffling_t *)it;
  weft_saved_put_int(to, weft_seeds_tell(((const shuffle_t *)it->of->params)->seeds));
  const int64_t numbers[] = {s->seed, s->seed2, s->num_drawn, s->epoch, s->is_at_end, s->num_slices};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) weft_saved_put_int(to, numbers[i]);
  for (int i = 0; i < s->num_slices; i++) {
    weft_saved_put_int(to, s->slices[i].begin);
    weft_saved_put_int(to, s->slices[i].end);
    for (int64_t k = s->slices[i].begin; k < s->slices[i].end; k++)
      WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, element(s, k), it->of->spec->n));
  }
  return NULL;
}

static weft_status_t *load_slice(shuffling_t *s, weft_saved_t *from) {
  const shuffle_t *p = (const shuffle_t *)s->base.of->params;
  const int64_t most = p->buffer_size > 0 ? p->buffer_size : INT64_MAX;
  slice_t *slice = &s->slices[s->num_slices];
  int64_t end_index;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, s->num_slices > 0 ? s->slices[s->num_slices - 1].end : 0,
                                             INT64_MAX / 2, &slice->begin));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, slice->begin, INT64_MAX / 2, &end_index));
  if (end_index - slice->begin > most - s->num_elements)
    return weft_saved_broken("more elements than the buffer has");
  slice->end = slice->begin;
  s->num_slices++;
  for (; slice->end < end_index; slice->end++, s->num_elements++) {
    WEFT_RETURN_IF_ERROR(reserve(s, slice->end));
    WEFT_RETURN_IF_ERROR(weft_saved_get_element(from, s->base.of->spec, element(s, slice->end)));
  }
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  shuffling_t *s = (shuffling_t *)it;
  int64_t is_at_end, num_slices, place;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &place));
  weft_seeds_seek(((const shuffle_t *)it->of->params)->seeds, place);
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &s->seed));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &s->seed2));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &s->num_drawn));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &s->epoch));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_at_end));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 1, MAX_EPOCHS_IN_BUFFER + 1, &num_slices));
  s->is_at_end = is_at_end != 0;
  seed(s);
  s->num_slices = 0;
  for (int64_t i = 0; i < num_slices; i++) WEFT_RETURN_IF_ERROR(load_slice(s, from));
  return NULL;
}

static int64_t cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]), count = ((const shuffle_t *)d->params)->count;
  int64_t total;
  if (n == 0 || count == 0) return 0;
  if (count < 0 || n == WEFT_CARDINALITY_INFINITE) return WEFT_CARDINALITY_INFINITE;
  if (n < 0) return n;
  return __builtin_mul_overflow(n, count, &total) ? INT64_MAX : total;
}

const weft_dataset_class_t weft_shuffle_class = {.name = "Shuffle",
                                                 .keeps_batches = true,
                                                 .shards_by_input = true,
                                                 .iterator_size = sizeof(shuffling_t),
                                                 .begin = begin,
                                                 .next = next,
                                                 .end = end,
                                                 .save = save,
                                                 .load = load,
                                                 .cardinality = cardinality};

/* ---- kernels ---- */

static void deinit(void *params) { weft_seeds_release(((shuffle_t *)params)->seeds); }

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  ((shuffle_t *)params)->reshuffles = weft_knode_bool_or(setup, "reshuffle_each_iteration", true);
  return NULL;
}

static weft_status_t *make_with(weft_kernel_ctx_t *c, int at, shuffle_t *p, int seeds_at, int count_at) {
  int64_t seed = 0, seed2 = 0;
  p->count = 1;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "buffer_size", &p->buffer_size));
  if (p->buffer_size < 1 && p->buffer_size != WEFT_CARDINALITY_UNKNOWN) {
    return WEFT_ERROR(INVALID_ARGUMENT, "buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
  }
  if (count_at >= 0) WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, count_at, "count", &p->count));
  if (seeds_at >= 0) WEFT_RETURN_IF_ERROR(weft_seeds_in(c, seeds_at, &p->seeds));
  if (p->seeds != NULL) return NULL;
  if (seeds_at != at + 1) {
    WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "seed", &seed));
    WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "seed2", &seed2));
  }
  return weft_seeds_create(seed, seed2, p->reshuffles, &p->seeds);
}

/* buffer_size, seed, seed2 */
static weft_status_t *make_v1(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return make_with(c, at, params, -1, -1);
}
/* buffer_size, seed_generator */
static weft_status_t *make_v2(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return make_with(c, at, params, at + 1, -1);
}
/* buffer_size, seed, seed2, seed_generator */
static weft_status_t *make_v3(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return make_with(c, at, params, at + 3, -1);
}
/* buffer_size, seed, seed2, count */
static weft_status_t *make_repeated(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return make_with(c, at, params, -1, at + 3);
}
/* buffer_size, seed, seed2, count, seed_generator */
static weft_status_t *make_repeated_v2(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return make_with(c, at, params, at + 4, at + 3);
}

#define SHUFFLE(make_)                                                                             \
  {                                                                                                \
    .class = &weft_shuffle_class, .num_inputs = 1, .params_size = sizeof(shuffle_t), .read = read, \
    .make = (make_), .deinit = deinit                                                              \
  }
static const weft_dataset_op_t v1 = SHUFFLE(make_v1), v2 = SHUFFLE(make_v2), v3 = SHUFFLE(make_v3),
                               repeated = SHUFFLE(make_repeated), repeated_v2 = SHUFFLE(make_repeated_v2);

const weft_kernel_t weft_cpu_dataset_shuffle_kernels[] = {
    WEFT_DATASET_ROW("ShuffleAndRepeatDataset", repeated),
    WEFT_DATASET_ROW("ShuffleAndRepeatDatasetV2", repeated_v2),
    WEFT_DATASET_ROW("ShuffleDataset", v1),
    WEFT_DATASET_ROW("ShuffleDatasetV2", v2),
    WEFT_DATASET_ROW("ShuffleDatasetV3", v3),
    {0},
};
