/* kernels/cpu/dataset/sequence.c - data sets that choose and join elements of others without looking at them:
 * take, skip, shard, repeat, concatenate, zip. */
#include "kernels/cpu/dataset/sequence.h"

#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

typedef struct counted {
  weft_dataset_params_t base;
  int64_t count;
} counted_t;

/* An iterator with a number. */
typedef struct counting {
  weft_iterator_t base;
  int64_t at;
} counting_t;

static const counted_t *counted(const weft_dataset_t *d) { return (const counted_t *)d->params; }

static weft_status_t *counted_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)d;
  return weft_dataset_in_int(c, at, "count", &((counted_t *)params)->count);
}

static weft_status_t *counting_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((counting_t *)it)->at);
  return NULL;
}

static weft_status_t *counting_load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_saved_get_int_in(from, 0, INT64_MAX, &((counting_t *)it)->at);
}

/* ---- TakeDataset ---- */

static weft_status_t *take_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const int64_t count = counted(it->of)->count;
  *is_end = count >= 0 && it->num_given >= count;
  return *is_end ? NULL : weft_iterator_next(it->input, out, is_end);
}

static int64_t take_cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]), count = counted(d)->count;
  if (n == WEFT_CARDINALITY_UNKNOWN) return n;
  if (n == WEFT_CARDINALITY_INFINITE) return count < 0 ? n : count;
  return count < 0 || n < count ? n : count;
}

static const weft_dataset_class_t take_class = {.name = "Take",
                                                .keeps_batches = true,
                                                .shards_by_input = true,
                                                .iterator_size = sizeof(weft_iterator_t),
                                                .opens_inputs = true,
                                                .next = take_next,
                                                .cardinality = take_cardinality};

/* ---- SkipDataset ---- */

/* Elements of the input that were skipped: `at`. A failure among them: all are skipped anew. */
static weft_status_t *skip_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  counting_t *s = (counting_t *)it;
  const int64_t count = counted(it->of)->count;
  int64_t at = s->at;
  *is_end = count < 0;
  for (; !*is_end && at < count; at++) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    weft_element_release(out, it->of->spec->n);
  }
  s->at = at;
  return *is_end ? NULL : weft_iterator_next(it->input, out, is_end);
}

static int64_t skip_cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]), count = counted(d)->count;
  if (n < 0) return n;
  return count >= 0 && n > count ? n - count : 0;
}

static const weft_dataset_class_t skip_class = {.name = "Skip",
                                                .keeps_batches = true,
                                                .shards_by_input = true,
                                                .iterator_size = sizeof(counting_t),
                                                .opens_inputs = true,
                                                .next = skip_next,
                                                .save = counting_save,
                                                .load = counting_load,
                                                .cardinality = skip_cardinality};

/* ---- ShardDataset ---- */

typedef struct shard_params {
  weft_dataset_params_t base;
  int64_t num_shards, index;
  bool needs_one; /* an element for each shard */
} shard_params_t;

static weft_status_t *shard_read(const weft_kernel_setup_t *setup, void *params) {
  ((shard_params_t *)params)->needs_one = weft_knode_bool(setup, "require_non_empty");
  return NULL;
}

static weft_status_t *shard_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  shard_params_t *p = params;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at, "num_shards", &p->num_shards));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 1, "index", &p->index));
  if (p->num_shards <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Number of shards must be greater than zero (currently num_shards = %lld).",
                      (long long)p->num_shards);
  }
  if (p->index < 0 || p->index >= p->num_shards) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Index must be between 0 and %lld (currently index = %lld).",
                      (long long)p->num_shards - 1, (long long)p->index);
  }
  return NULL;
}

/* Elements of the input that were taken: `at`. */
static weft_status_t *shard_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  counting_t *s = (counting_t *)it;
  const shard_params_t *p = (const shard_params_t *)it->of->params;
  for (bool is_mine = false; !is_mine; s->at++) {
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (*is_end && p->needs_one && s->at < p->num_shards) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Could not apply FILE based sharding: the dataset only has %lld file(s), which is not "
          "enough for the required %lld shards/workers. If you are using datasets with "
          "distribution strategy, consider setting the auto sharding policy to either DATA or "
          "OFF using the `experimental_distribute.auto_shard_policy` option of `tf.data.Options()`.",
          (long long)s->at, (long long)p->num_shards);
    }
    if (*is_end) return NULL;
    is_mine = s->at % p->num_shards == p->index;
    if (!is_mine) weft_element_release(out, it->of->spec->n);
  }
  return NULL;
}

static int64_t shard_cardinality(const weft_dataset_t *d) {
  const shard_params_t *p = (const shard_params_t *)d->params;
  const int64_t n = weft_dataset_cardinality(d->inputs[0]);
  return n < 0 ? n : n / p->num_shards + (p->index < n % p->num_shards);
}

static weft_status_t *shard_save(weft_iterator_t *it, weft_saved_t *to) {
  const shard_params_t *p = (const shard_params_t *)it->of->params;
  weft_saved_put_int(to, p->num_shards);
  weft_saved_put_int(to, p->index);
  return counting_save(it, to);
}

/* Going on in another shard would repeat elements and leave out others. */
static weft_status_t *shard_load(weft_iterator_t *it, weft_saved_t *from) {
  const shard_params_t *p = (const shard_params_t *)it->of->params;
  int64_t num_shards, index;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &num_shards));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &index));
  if (num_shards != p->num_shards || index != p->index) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "the saved iterator reads shard %lld of %lld, and this one shard %lld of %lld",
                      (long long)index, (long long)num_shards, (long long)p->index, (long long)p->num_shards);
  }
  return counting_load(it, from);
}

static const weft_dataset_class_t shard_class = {.name = "Shard",
                                                 .keeps_batches = true,
                                                 .shards_by_input = true,
                                                 .iterator_size = sizeof(counting_t),
                                                 .opens_inputs = true,
                                                 .next = shard_next,
                                                 .save = shard_save,
                                                 .load = shard_load,
                                                 .cardinality = shard_cardinality};

weft_status_t *weft_shard_create(weft_dataset_t *d, int64_t num_shards, int64_t index, bool needs_one,
                                 weft_dataset_t **out) {
  const shard_params_t like = {.num_shards = num_shards, .index = index, .needs_one = needs_one};
  weft_dataset_t made = {.class = &shard_class, .spec = d->spec, .device = d->device};
  WEFT_RETURN_IF_ERROR(weft_dataset_params_new(&like, sizeof like, NULL, &made.params));
  weft_status_t *s = weft_dataset_create(&made, &d, 1, out);
  weft_object_release(&made.params->object);
  return s;
}

/* ---- RepeatDataset ---- */

/* The first pass begins with the iterator: what it takes from generators of seeds, it takes then. */
static weft_status_t *repeat_begin(weft_iterator_t *it) {
  return counted(it->of)->count != 0 ? weft_iterator_open_input(it, 0, &it->input) : NULL;
}

/* Passes that have ended: `at`. One that ends without an element ends an endless repetition, too. */
static weft_status_t *repeat_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  counting_t *r = (counting_t *)it;
  const int64_t count = counted(it->of)->count;
  while (count < 0 || r->at < count) {
    if (it->input == NULL) WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, 0, &it->input));
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (!*is_end) return NULL;
    const bool was_empty = it->input->index == 0;
    weft_iterator_close(it->input);
    it->input = NULL;
    r->at++;
    if (was_empty && count < 0) return NULL;
  }
  *is_end = true;
  return NULL;
}

static int64_t repeat_cardinality(const weft_dataset_t *d) {
  const int64_t n = weft_dataset_cardinality(d->inputs[0]), count = counted(d)->count;
  int64_t total;
  if (count < 0) return n == 0 ? 0 : WEFT_CARDINALITY_INFINITE;
  if (count == 0) return 0;
  if (n < 0) return n;
  return __builtin_mul_overflow(n, count, &total) ? INT64_MAX : total;
}

static const weft_dataset_class_t repeat_class = {.name = "Repeat",
                                                  .keeps_batches = true,
                                                  .shards_by_input = true,
                                                  .iterator_size = sizeof(counting_t),
                                                  .begin = repeat_begin,
                                                  .next = repeat_next,
                                                  .save = counting_save,
                                                  .load = counting_load,
                                                  .cardinality = repeat_cardinality};

/* ---- ConcatenateDataset ---- */

/* What each element has in common of two data sets. */
static weft_status_t *concatenate_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  const weft_element_spec_t *a = d->inputs[0]->spec, *b = d->inputs[1]->spec;
  (void)c, (void)at, (void)params;
  bool fits = a->n == b->n;
  for (int i = 0; fits && i < a->n; i++) fits = a->dtypes[i] == b->dtypes[i];
  return fits ? NULL
              : WEFT_ERROR(INVALID_ARGUMENT,
                           "input dataset and dataset to concatenate have different output_types");
}

static weft_status_t *concatenate_begin(weft_iterator_t *it) {
  return weft_iterator_open_input(it, 0, &it->input);
}

/* Number of the input that is gone through: `at`. */
static weft_status_t *concatenate_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  counting_t *n = (counting_t *)it;
  for (; n->at < it->of->num_inputs; n->at++) {
    if (it->input == NULL) WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, (int)n->at, &it->input));
    WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
    if (!*is_end) return NULL;
    weft_iterator_close(it->input);
    it->input = NULL;
  }
  *is_end = true;
  return NULL;
}

static weft_status_t *concatenate_load(weft_iterator_t *it, weft_saved_t *from) {
  counting_t *n = (counting_t *)it;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, it->of->num_inputs, &n->at));
  if (n->at == it->of->num_inputs) return NULL;
  return weft_iterator_open_input(it, (int)n->at, &it->input); /* what is loaded next */
}

static int64_t concatenate_cardinality(const weft_dataset_t *d) {
  const int64_t a = weft_dataset_cardinality(d->inputs[0]), b = weft_dataset_cardinality(d->inputs[1]);
  int64_t total;
  if (a == WEFT_CARDINALITY_INFINITE || b == WEFT_CARDINALITY_INFINITE) return WEFT_CARDINALITY_INFINITE;
  if (a == WEFT_CARDINALITY_UNKNOWN || b == WEFT_CARDINALITY_UNKNOWN) return WEFT_CARDINALITY_UNKNOWN;
  return __builtin_add_overflow(a, b, &total) ? INT64_MAX : total;
}

const weft_dataset_class_t weft_concatenate_class = {.name = "Concatenate",
                                                     .keeps_batches = true,
                                                     .iterator_size = sizeof(counting_t),
                                                     .begin = concatenate_begin,
                                                     .next = concatenate_next,
                                                     .save = counting_save,
                                                     .load = concatenate_load,
                                                     .cardinality = concatenate_cardinality};

/* ---- ZipDataset ---- */

typedef struct zipping {
  weft_iterator_t base;
  weft_iterator_t **inputs; /* one for each; owned */
} zipping_t;

static weft_status_t *zip_begin(weft_iterator_t *it) {
  zipping_t *z = (zipping_t *)it;
  z->inputs = weft_calloc((size_t)it->of->num_inputs, sizeof *z->inputs);
  if (z->inputs == NULL) return WEFT_NO_MEMORY("an iterator");
  for (int i = 0; i < it->of->num_inputs; i++)
    WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, i, &z->inputs[i]));
  return NULL;
}

static void zip_end(weft_iterator_t *it) {
  zipping_t *z = (zipping_t *)it;
  for (int i = 0; z->inputs != NULL && i < it->of->num_inputs; i++) weft_iterator_close(z->inputs[i]);
  weft_free(z->inputs);
}

/* Stops at the first input that has ended, and takes nothing from those behind it; after a failure all others
 * have moved on by one. */
static weft_status_t *zip_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const zipping_t *z = (const zipping_t *)it;
  weft_status_t *s = NULL;
  for (int i = 0, at = 0; i < it->of->num_inputs; i++) {
    weft_status_t *mine = weft_iterator_next(z->inputs[i], out + at, is_end);
    if (s == NULL) {
      s = mine;
    } else {
      weft_status_free(mine);
    }
    if (*is_end) break;
    at += it->of->inputs[i]->spec->n;
  }
  it->is_over = *is_end; /* after a failure, too: see weft_iterator_next */
  return s;
}

static weft_status_t *zip_save(weft_iterator_t *it, weft_saved_t *to) {
  const zipping_t *z = (const zipping_t *)it;
  for (int i = 0; i < it->of->num_inputs; i++) WEFT_RETURN_IF_ERROR(weft_iterator_save(z->inputs[i], to));
  return NULL;
}

static weft_status_t *zip_load(weft_iterator_t *it, weft_saved_t *from) {
  const zipping_t *z = (const zipping_t *)it;
  for (int i = 0; i < it->of->num_inputs; i++) WEFT_RETURN_IF_ERROR(weft_iterator_load(z->inputs[i], from));
  return NULL;
}

static int64_t zip_cardinality(const weft_dataset_t *d) {
  int64_t least = WEFT_CARDINALITY_INFINITE;
  for (int i = 0; i < d->num_inputs; i++) {
    const int64_t n = weft_dataset_cardinality(d->inputs[i]);
    if (n == WEFT_CARDINALITY_UNKNOWN) return n;
    if (n >= 0 && (least < 0 || n < least)) least = n;
  }
  return least;
}

static weft_status_t *zip_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  int n = 0;
  (void)c, (void)at, (void)params;
  for (int i = 0; i < d->num_inputs; i++) n += d->inputs[i]->spec->n;
  return n == d->spec->n
             ? NULL
             : WEFT_ERROR(INVALID_ARGUMENT, "the data sets to zip have %d components, not %d", n, d->spec->n);
}

const weft_dataset_class_t weft_zip_class = {.name = "Zip",
                                             .keeps_batches = true,
                                             .iterator_size = sizeof(zipping_t),
                                             .begin = zip_begin,
                                             .next = zip_next,
                                             .end = zip_end,
                                             .save = zip_save,
                                             .load = zip_load,
                                             .cardinality = zip_cardinality};

#define COUNTED(name) \
  { .class = &name, .num_inputs = 1, .params_size = sizeof(counted_t), .make = counted_make }
static const weft_dataset_op_t take_op = COUNTED(take_class), skip_op = COUNTED(skip_class),
                               repeat_op = COUNTED(repeat_class);
static const weft_dataset_op_t shard_op = {.class = &shard_class,
                                           .num_inputs = 1,
                                           .params_size = sizeof(shard_params_t),
                                           .read = shard_read,
                                           .make = shard_make};
static const weft_dataset_op_t concatenate_op = {
    .class = &weft_concatenate_class, .num_inputs = 2, .make = concatenate_make};
static const weft_dataset_op_t zip_op = {.class = &weft_zip_class, .num_inputs = -1, .make = zip_make};

const weft_kernel_t weft_cpu_dataset_sequence_kernels[] = {
    WEFT_DATASET_ROW("ConcatenateDataset", concatenate_op),
    WEFT_DATASET_ROW("RepeatDataset", repeat_op),
    WEFT_DATASET_ROW("ShardDataset", shard_op),
    WEFT_DATASET_ROW("SkipDataset", skip_op),
    WEFT_DATASET_ROW("TakeDataset", take_op),
    WEFT_DATASET_ROW("ZipDataset", zip_op),
    {0},
};
