/* kernels/cpu/sampler/candidate_sampler.c - classes to compare the true ones with, and how many of each to
 * expect; accidental hits among them. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "io/file.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/sampler/range_sampler.h"

typedef struct sampler {
  weft_random_stream_t *stream;
  int64_t num_true, num_sampled;
  bool is_unique;
  int64_t distinct;             /* values that can be drawn */
  weft_mutex_t mu;              /* held while a learning sampler draws and learns */
  weft_range_sampler_t classes; /* guarded by mu where it learns */
} sampler_t;

/* ---- fixed weights ---- */

/* Which classes are this shard's: TensorFlow holds the attributes in 32 bits. */
typedef struct shard {
  int32_t count, index;
  int64_t word; /* number of the next class */
  float distortion;
  float *weights;
  int64_t used, room;
  float sum;
} shard_t;

static weft_status_t *add_weight(shard_t *s, float weight) {
  if (s->used == s->room) {
    const int64_t room = s->room == 0 ? 64 : 2 * s->room;
    float *weights = weft_realloc(s->weights, (size_t)room, sizeof *weights);
    if (weights == NULL) return WEFT_NO_MEMORY("%" PRId64 " weights", room);
    s->weights = weights;
    s->room = room;
  }
  s->weights[s->used++] = weight;
  return NULL;
}

static bool is_ours(const shard_t *s) { return s->count != 0 && (int32_t)s->word % s->count == s->index; }

static weft_status_t *add_class(shard_t *s, float weight) {
  if (is_ours(s)) {
    weight = powf(weight, s->distortion);
    s->sum += weight;
    WEFT_RETURN_IF_ERROR(add_weight(s, weight));
  }
  s->word++;
  return NULL;
}

/* A line of comma-separated fields, of which the last is the weight. */
static weft_status_t *add_line(shard_t *s, char *line) {
  if (*line == '\0') return NULL;
  if (!is_ours(s)) return add_class(s, 0.0f);
  char *comma = strrchr(line, ','), *field = comma == NULL ? line : comma + 1, *end = NULL;
  const float weight = strtof(field, &end);
  while (*end == ' ' || *end == '\t') end++;
  if (end == field || *end != '\0')
    return WEFT_ERROR(INVALID_ARGUMENT, "Wrong vocabulary format at line: %s", line);
  return add_class(s, weight);
}

static weft_status_t *add_file(shard_t *s, weft_str_t path) {
  char *name = weft_calloc(path.length + 1, 1), *text = NULL;
  size_t length = 0;
  if (name == NULL) return WEFT_NO_MEMORY("a path of %zu bytes", path.length);
  memcpy(name, path.data, path.length);
  weft_status_t *status = weft_file_read_all(name, &text, &length);
  weft_free(name);
  if (status != NULL) return status;
  size_t begin = 0;
  while (status == NULL && begin < length) {
    size_t to = begin, at = begin;
    for (; at < length && text[at] != '\n'; at++) {
      if (text[at] != '\r') text[to++] = text[at];
    }
    text[to] = '\0';
    status = add_line(s, text + begin);
    begin = at + 1;
  }
  weft_free(text);
  return status;
}

/* The reserved classes come first and have no weight; what follows them is numbered from how many of them are
 * this shard's, as in TensorFlow. */
static weft_status_t *add_reserved(shard_t *s, int32_t num_reserved, int64_t range) {
  for (s->word = 0; s->word < num_reserved && s->used <= range; s->word++) {
    if (is_ours(s)) WEFT_RETURN_IF_ERROR(add_weight(s, 0.0f));
  }
  s->word = s->used;
  return NULL;
}

static weft_status_t *add_all(shard_t *s, const weft_kernel_setup_t *setup, int64_t range) {
  weft_str_t file = weft_knode_string(setup, "vocab_file");
  const weft_attr_t *unigrams = weft_knode_attr(setup, "unigrams");
  const int32_t n = unigrams == NULL ? 0 : unigrams->n;
  if (file.length == 0 && n == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Must provide either vocab_file or unigrams.");
  if (file.length > 0 && n > 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Must only provide one of vocab_file and unigrams.");
  WEFT_RETURN_IF_ERROR(add_reserved(s, (int32_t)weft_knode_int(setup, "num_reserved_ids"), range));
  if (file.length > 0) WEFT_RETURN_IF_ERROR(add_file(s, file));
  for (int32_t i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(add_class(s, unigrams->list.floats[i]));
  if (range == s->used && range <= INT32_MAX) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "range is %" PRId64 " must be equal to weights size  %" PRId64, range,
                    s->used);
}

static weft_status_t *prepare_fixed(const weft_kernel_setup_t *setup, weft_range_sampler_t *out) {
  shard_t s = {.count = (int32_t)weft_knode_int(setup, "num_shards"),
               .index = (int32_t)weft_knode_int(setup, "shard"),
               .distortion = weft_knode_float(setup, "distortion")};
  weft_status_t *status = add_all(&s, setup, out->range);
  if (status != NULL) {
    weft_free(s.weights);
    return status;
  }
  out->weight = s.sum;
  return weft_range_sampler_weigh(out, s.weights);
}

/* ---- the state ---- */

static void destroy(void *state) {
  sampler_t *s = state;
  if (s == NULL) return;
  weft_random_stream_destroy(s->stream);
  weft_range_sampler_deinit(&s->classes);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

static weft_status_t *fill_state(const weft_kernel_setup_t *setup, sampler_t *s) {
  void *stream = NULL;
  s->num_true = weft_knode_int(setup, "num_true");
  s->num_sampled = weft_knode_int(setup, "num_sampled");
  s->is_unique = weft_knode_bool(setup, "unique");
  if (s->num_true > INT32_MAX || s->num_sampled > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "Attr num_true or num_sampled has a value out of range for an int32");
  WEFT_RETURN_IF_ERROR(weft_random_stream_prepare(setup, &stream));
  s->stream = stream;
  s->classes.kind = *(const weft_sampler_kind_t *)setup->node.param;
  s->classes.range =
      s->classes.kind == WEFT_SAMPLE_ALL ? s->num_sampled : weft_knode_int_or(setup, "range_max", 0);
  if (s->classes.kind == WEFT_SAMPLE_LEARNED) {
    if (s->classes.range >= INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "range_max must be less than 2147483647 for unigram samplers, got %" PRId64,
                        s->classes.range);
    }
    WEFT_RETURN_IF_ERROR(weft_range_sampler_init_learned(&s->classes));
  }
  if (s->classes.kind == WEFT_SAMPLE_FIXED) WEFT_RETURN_IF_ERROR(prepare_fixed(setup, &s->classes));
  s->distinct = weft_range_sampler_distinct(&s->classes);
  return NULL;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  sampler_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_mutex_init(&s->mu);
  weft_status_t *status = fill_state(setup, s);
  if (status == NULL) {
    *out_state = s;
  } else {
    destroy(s);
  }
  return status;
}

/* ---- sampling ---- */

/* A set of numbers: open addressing in a table of at least twice their count. */
typedef struct number_set {
  int64_t *slots; /* number + 1; 0: empty. Numbers are below INT64_MAX */
  uint64_t mask;
} number_set_t;

static weft_status_t *number_set_init(number_set_t *set, int64_t n) {
  uint64_t size = 16;
  while (size < 2 * (uint64_t)n) size *= 2;
  set->mask = size - 1;
  set->slots = weft_calloc((size_t)size, sizeof *set->slots);
  return set->slots == NULL ? WEFT_NO_MEMORY("a set of %" PRId64 " classes", n) : NULL;
}

/* False: it was in. */
static bool number_set_add(number_set_t *set, int64_t x) {
  uint64_t at = (uint64_t)x * UINT64_C(0x9e3779b97f4a7c15) >> 20 & set->mask;
  for (; set->slots[at] != 0; at = (at + 1) & set->mask) {
    if (set->slots[at] == x + 1) return false;
  }
  set->slots[at] = x + 1;
  return true;
}

/* Draws until all are different; *tries says how often. */
static weft_status_t *draw_unique(const sampler_t *s, weft_philox_words_t *words, int64_t *out,
                                  int32_t *tries) {
  number_set_t set = {0};
  weft_status_t *status = number_set_init(&set, s->num_sampled);
  int32_t count = 0;
  for (int64_t n = 0; status == NULL && n < s->num_sampled;) {
    if (++count == INT32_MAX) {
      status = WEFT_ERROR(INVALID_ARGUMENT, "no %" PRId64 " different classes within %d tries",
                          s->num_sampled, INT32_MAX);
      break;
    }
    const int64_t x = weft_range_sampler_draw(&s->classes, words);
    if (number_set_add(&set, x)) out[n++] = x;
  }
  *tries = count;
  weft_free(set.slots);
  return status;
}

/* How many to expect of a class among the samples, given how many tries they took. */
static float expected_count(const sampler_t *s, int64_t value, int32_t tries) {
  if (s->classes.kind == WEFT_SAMPLE_ALL) return 1.0f;
  const float p = weft_range_sampler_probability(&s->classes, value);
  if (tries == s->num_sampled) return p * (float)s->num_sampled;
  return -expm1f((float)tries * log1pf(-p));
}

static weft_status_t *draw(sampler_t *s, const weft_tensor_t *true_classes, weft_tensor_t *const *out) {
  int64_t *samples = out[0]->data;
  int32_t tries = (int32_t)s->num_sampled;
  /* As many blocks as TensorFlow takes, whose product has 32 bits. */
  const int64_t reserved = (int32_t)((uint32_t)s->num_sampled * 2048u);
  weft_philox_words_t words =
      weft_philox_words(weft_random_stream_take(s->stream, (uint64_t)((reserved + 3) / 4)));
  if (s->classes.kind == WEFT_SAMPLE_ALL) {
    for (int64_t i = 0; i < s->num_sampled; i++) samples[i] = i;
  } else if (s->is_unique) {
    WEFT_RETURN_IF_ERROR(draw_unique(s, &words, samples, &tries));
  } else {
    for (int64_t i = 0; i < s->num_sampled; i++) samples[i] = weft_range_sampler_draw(&s->classes, &words);
  }
  const int64_t *seen = true_classes->data;
  for (int64_t i = 0; i < s->num_sampled; i++)
    ((float *)out[2]->data)[i] = expected_count(s, samples[i], tries);
  for (int64_t i = 0; i < true_classes->count; i++)
    ((float *)out[1]->data)[i] = expected_count(s, seen[i], tries);
  weft_range_sampler_learn(&s->classes, seen, true_classes->count);
  return NULL;
}

static weft_status_t *check(const sampler_t *s, const weft_tensor_t *t) {
  if (t->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "true_classes must be a matrix");
  if (t->shape.dims[1] != s->num_true) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "true_classes must have num_true columns, expected: %" PRId64 " was: %" PRId64,
                      t->shape.dims[1], s->num_true);
  }
  if (s->is_unique && s->num_sampled > s->classes.range)
    return WEFT_ERROR(INVALID_ARGUMENT, "Sampler's range is too small.");
  for (int64_t i = 0; i < t->count; i++) {
    const int64_t x = ((const int64_t *)t->data)[i];
    if (x >= 0 && x < s->classes.range) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "`true_candidate` out of range [0, %" PRId64 "), received %" PRId64,
                      s->classes.range, x);
  }
  if (s->is_unique && s->num_sampled > s->distinct) {
    return WEFT_ERROR(INVALID_ARGUMENT, "only %" PRId64 " classes have a weight, %" PRId64 " are wanted",
                      s->distinct, s->num_sampled);
  }
  return NULL;
}

static weft_status_t *sample(weft_kernel_ctx_t *ctx) {
  sampler_t *s = ctx->state;
  weft_tensor_t *true_classes = weft_in(ctx, 0), *out[3];
  WEFT_RETURN_IF_ERROR(check(s, true_classes));
  weft_shape_t samples = weft_shape_vector(s->num_sampled);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I64, &samples, &out[0]));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_F32, &true_classes->shape, &out[1]));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_F32, &samples, &out[2]));
  if (s->classes.kind != WEFT_SAMPLE_LEARNED) return draw(s, true_classes, out);
  weft_mutex_lock(&s->mu);
  weft_status_t *status = draw(s, true_classes, out);
  weft_mutex_unlock(&s->mu);
  return status;
}

/* ---- ComputeAccidentalHits ---- */

typedef struct sampled {
  int64_t id, place;
} sampled_t;

static int by_id(const void *a, const void *b) {
  const sampled_t *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

/* The last place of an id among n sorted ones; -1: it is not there. */
static int64_t place_of(const sampled_t *sorted, int64_t n, int64_t id) {
  int64_t low = 0;
  while (n > 0) { /* the first one above id is in [low, low + n] */
    const int64_t half = n / 2;
    if (sorted[low + half].id <= id) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low > 0 && sorted[low - 1].id == id ? sorted[low - 1].place : -1;
}

static weft_status_t *put_hits(weft_kernel_ctx_t *ctx, const sampled_t *sorted, int64_t n) {
  const weft_tensor_t *seen = weft_in(ctx, 0);
  const int64_t *id = seen->data, columns = seen->shape.dims[1];
  weft_tensor_t *rows = NULL, *places = NULL, *weights = NULL;
  int64_t hits = 0;
  for (int64_t i = 0; i < seen->count; i++) hits += place_of(sorted, n, id[i]) >= 0;
  weft_shape_t shape = weft_shape_vector(hits);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &shape, &rows));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, WEFT_I64, &shape, &places));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 2, WEFT_F32, &shape, &weights));
  for (int64_t i = 0, k = 0; i < seen->count; i++) {
    const int64_t place = place_of(sorted, n, id[i]);
    if (place < 0) continue;
    ((int32_t *)rows->data)[k] = (int32_t)(i / columns);
    ((int64_t *)places->data)[k] = place;
    ((float *)weights->data)[k++] = -FLT_MAX;
  }
  return NULL;
}

WEFT_ATTRS(accidental_hits, (INT, num_true))
static weft_status_t *accidental_hits(weft_kernel_ctx_t *ctx, const accidental_hits_attrs_t *attrs) {
  const weft_tensor_t *seen = weft_in(ctx, 0), *candidates = weft_in(ctx, 1);
  if (seen->shape.rank != 2 || seen->shape.dims[1] != attrs->num_true)
    return WEFT_ERROR(INVALID_ARGUMENT, "true_candidates must be a batch_size * num_true matrix");
  if (candidates->shape.rank != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "sampled_candidates must be a vector, which is typically an output from CandidateSampler");
  }
  const int64_t n = candidates->count;
  sampled_t *sorted = weft_calloc((size_t)n, sizeof *sorted);
  if (sorted == NULL) return WEFT_NO_MEMORY("%" PRId64 " candidates", n);
  for (int64_t i = 0; i < n; i++) sorted[i] = (sampled_t){((const int64_t *)candidates->data)[i], i};
  qsort(sorted, (size_t)n, sizeof *sorted, by_id);
  weft_status_t *s = put_hits(ctx, sorted, n);
  weft_free(sorted);
  return s;
}

#define SAMPLER(op_, kind_)                                               \
  {                                                                       \
    .op = op_, .prepare = prepare, .compute = sample, .destroy = destroy, \
    .param = &(const weft_sampler_kind_t) {                               \
      WEFT_SAMPLE_##kind_                                                 \
    }                                                                     \
  }

const weft_kernel_t weft_cpu_candidate_sampler_kernels[] = {
    SAMPLER("AllCandidateSampler", ALL),
    WEFT_KERNEL_ATTRS("ComputeAccidentalHits", NULL, 0, accidental_hits),
    SAMPLER("FixedUnigramCandidateSampler", FIXED),
    SAMPLER("LearnedUnigramCandidateSampler", LEARNED),
    SAMPLER("LogUniformCandidateSampler", LOG_UNIFORM),
    SAMPLER("ThreadUnsafeUnigramCandidateSampler", LEARNED),
    SAMPLER("UniformCandidateSampler", UNIFORM),
    {0},
};
