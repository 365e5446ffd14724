/* kernels/cpu/random/random_choice.c - RandomShuffle, Multinomial and their stateless versions: random
 * choices among what is given. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/random/random_fill.h"
#include "kernels/cpu/random/random_rows.h"

/* ---- RandomShuffle: Fisher and Yates, from the front, one word a row ---- */

static int64_t num_rows(const weft_tensor_t *x) {
  return x->shape.rank > 0 && x->count > 1 ? x->shape.dims[0] : 1;
}

static weft_status_t *shuffle_rows(weft_kernel_ctx_t *ctx, weft_philox_t generator) {
  weft_tensor_t *x = weft_in(ctx, 0), *y = NULL;
  int64_t rows = num_rows(x);
  if (rows <= 1) {
    weft_cpu_out_same(ctx, 0, 0);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &y));
  int64_t *order = weft_calloc((size_t)rows, sizeof *order);
  if (order == NULL) return WEFT_NO_MEMORY("shuffling %" PRId64 " rows", rows);
  weft_philox_words_t words = weft_philox_words(generator);
  for (int64_t i = 0; i < rows; i++) order[i] = i;
  for (int64_t i = 0; i < rows - 1; i++) {
    int64_t j = i + (int64_t)(weft_philox_word(&words) % (uint32_t)(rows - i)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  weft_status_t *s = NULL;
  int64_t width = x->count / rows;
  for (int64_t i = 0; s == NULL && i < rows; i++) s = weft_cpu_copy(y, i * width, x, order[i] * width, width);
  weft_free(order);
  return s;
}

static weft_status_t *shuffle(weft_kernel_ctx_t *ctx) {
  uint64_t words = (uint64_t)num_rows(weft_in(ctx, 0)) - 1;
  return shuffle_rows(ctx, weft_random_stream_take(ctx->state, (words + 3) / 4));
}

static weft_status_t *stateless_shuffle(weft_kernel_ctx_t *ctx) {
  weft_philox_t generator;
  int32_t alg = 0;
  WEFT_RETURN_IF_ERROR(
      weft_random_from_key(weft_in(ctx, 1), weft_in(ctx, 2), weft_in(ctx, 3), &alg, &generator));
  WEFT_RETURN_IF_ERROR(weft_random_check_alg(alg));
  return shuffle_rows(ctx, generator);
}

/* ---- Multinomial ---- */

typedef struct multinomial {
  weft_philox_t generator;
  weft_cpu_cast_fn *to_double;
  const weft_tensor_t *logits;
  weft_tensor_t *out;
  double *totals;       /* a row of num_classes for each piece */
  int64_t batch, first; /* rows of the whole batch; where ours begin in it */
  int64_t rows, num_classes, num_samples, rows_per_piece;
} multinomial_t;

/* totals[i]: the sum of the probabilities up to class i, not normalised; the largest logit counts 1. What is
 * not finite has no probability. Returns the sum of all. */
static double accumulate(const multinomial_t *m, int64_t row, double *totals) {
  const char *logits = (const char *)m->logits->data;
  size_t row_bytes = (size_t)m->num_classes * weft_dtype_size(m->logits->dtype);
  m->to_double(m->num_classes, logits + (size_t)row * row_bytes, totals);
  double max = -HUGE_VAL, sum = 0;
  for (int64_t i = 0; i < m->num_classes; i++) {
    if (isfinite(totals[i]) && totals[i] > max) max = totals[i];
  }
  for (int64_t i = 0; i < m->num_classes; i++) {
    if (isfinite(totals[i])) sum += exp(totals[i] - max);
    totals[i] = sum;
  }
  return sum;
}

/* The first class whose total is above x; num_classes if none is. */
static int64_t find_class(const double *totals, int64_t n, double x) {
  int64_t low = 0;
  while (n > 0) {
    int64_t half = n / 2;
    if (!(x < totals[low + half])) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

/* Samples of row `row` of ours, from words that begin with its own. */
static void draw_row(const multinomial_t *m, int64_t row, weft_philox_words_t *words, double *totals) {
  double sum = accumulate(m, row, totals);
  for (int64_t i = 0; i < m->num_samples; i++) {
    uint32_t high = weft_philox_word(words), low = weft_philox_word(words);
    int64_t at = row * m->num_samples + i,
            c = find_class(totals, m->num_classes, weft_philox_double(high, low) * sum);
    if (m->out->dtype == WEFT_I32) {
      ((int32_t *)m->out->data)[at] = (int32_t)c;
    } else {
      ((int64_t *)m->out->data)[at] = c;
    }
  }
}

/* Pieces are those of the whole batch, from the one in which our rows begin. */
static void draw_pieces(void *arg, int64_t begin, int64_t end) {
  const multinomial_t *m = arg;
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t start = (m->first / m->rows_per_piece + piece) * m->rows_per_piece,
            limit = start + m->rows_per_piece;
    int64_t row = start < m->first ? m->first : start;
    if (limit > m->first + m->rows) limit = m->first + m->rows;
    weft_philox_words_t words = weft_philox_words(m->generator);
    weft_philox_skip(&words.generator, (uint64_t)(start * (m->num_samples + 3) / 4));
    uint64_t passed =
        (uint64_t)(row - start) * 2 * (uint64_t)m->num_samples; /* words of the piece's rows before ours */
    weft_philox_skip(&words.generator, passed / 4);
    for (uint64_t i = 0; i < passed % 4; i++) (void)weft_philox_word(&words);
    for (; row < limit; row++) draw_row(m, row - m->first, &words, m->totals + piece * m->num_classes);
  }
}

static weft_status_t *check_multinomial(const weft_tensor_t *logits, const weft_tensor_t *num_samples) {
  if (logits->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "logits should be a matrix, got shape %s",
                      WEFT_SHAPE_TEXT(&logits->shape));
  }
  if (num_samples->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_samples should be a scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&num_samples->shape));
  }
  int64_t samples = weft_cpu_int_at(num_samples, 0);
  if (samples < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_samples should be non-negative, got %" PRId64, samples);
  if (logits->shape.dims[0] > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_size cannot exceed max int");
  if (logits->shape.dims[1] > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_classes cannot exceed max int");
  if (logits->shape.dims[1] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_classes should be positive, got 0");
  return NULL;
}

typedef struct choice_rows {
  void *stream;
  int64_t factor;
} choice_rows_t;

static void destroy_rows(void *state) {
  choice_rows_t *s = state;
  if (s == NULL) return;
  weft_random_stream_destroy(s->stream);
  weft_free(s);
}

static weft_status_t *prepare_rows(const weft_kernel_setup_t *setup, void **out_state) {
  choice_rows_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  s->factor = weft_knode_int(setup, "factor");
  weft_status_t *status = weft_random_stream_prepare(setup, &s->stream);
  if (status == NULL) {
    *out_state = s;
  } else {
    destroy_rows(s);
  }
  return status;
}

/* Samples for each row of input 0, which are rows [first, first + its rows) of a batch; batch < 0: they are
 * all of it. From `stream`, or from `own` if that is NULL. */
static weft_status_t *draw_multinomial(weft_kernel_ctx_t *ctx, weft_random_stream_t *stream,
                                       weft_philox_t own, int64_t first, int64_t batch) {
  weft_tensor_t *logits = weft_in(ctx, 0), *y = NULL;
  WEFT_RETURN_IF_ERROR(check_multinomial(logits, weft_in(ctx, 1)));
  multinomial_t m = {.logits = logits,
                     .first = first,
                     .rows = logits->shape.dims[0],
                     .num_classes = logits->shape.dims[1],
                     .num_samples = weft_cpu_int_at(weft_in(ctx, 1), 0),
                     .to_double = weft_cpu_cast_loop(logits->dtype, WEFT_F64)};
  m.batch = batch < 0 ? m.rows : batch;
  weft_shape_t shape = weft_shape_matrix(m.rows, m.num_samples);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &shape, &y));
  if (m.batch == 0 || m.num_samples == 0) return NULL;
  /* Two words a number, 256 blocks for each. */
  uint64_t blocks =
      (uint64_t)m.batch * (((uint64_t)m.num_samples + 3) / 4 * 4 * 2) * WEFT_RANDOM_BLOCKS_PER_ELEMENT;
  m.generator = stream == NULL ? own : weft_random_stream_take(stream, blocks);
  if (y->count == 0) return NULL;
  m.out = y;
  /* A piece starts its generator anew, so the pieces are part of the result: they are TensorFlow's. */
  int64_t cycles =
      (int64_t)(50 * ((double)m.num_samples * log((double)m.num_classes) / log(2) + (double)m.num_classes));
  m.rows_per_piece = weft_random_piece(m.batch, (double)cycles, weft_thread_pool_size(ctx->device->pool));
  int64_t pieces = (m.first + m.rows - 1) / m.rows_per_piece - m.first / m.rows_per_piece + 1, doubles = 0;
  if (weft_cpu_mul(pieces, m.num_classes, &doubles))
    m.totals = weft_calloc((size_t)doubles, sizeof *m.totals);
  if (m.totals == NULL) return WEFT_NO_MEMORY("sums of %" PRId64 " classes", m.num_classes);
  weft_parallel_for(ctx->device->pool, pieces, 1, draw_pieces, &m);
  weft_free(m.totals);
  return NULL;
}

static weft_status_t *multinomial(weft_kernel_ctx_t *ctx) {
  return draw_multinomial(ctx, ctx->state, (weft_philox_t){{0}}, 0, -1);
}

static weft_status_t *stateless_multinomial(weft_kernel_ctx_t *ctx) {
  weft_philox_t generator;
  WEFT_RETURN_IF_ERROR(weft_random_from_seed(weft_in(ctx, 2), &generator));
  return draw_multinomial(ctx, NULL, generator, 0, -1);
}

/* WeftMultinomialRows: what the rows of a part of a batch would get from Multinomial of the whole. */
static weft_status_t *multinomial_rows(weft_kernel_ctx_t *ctx) {
  const choice_rows_t *state = ctx->state;
  const weft_tensor_t *logits = weft_in(ctx, 0);
  weft_random_rows_t rows, along;
  WEFT_RETURN_IF_ERROR(check_multinomial(logits, weft_in(ctx, 1)));
  WEFT_RETURN_IF_ERROR(weft_random_rows_read(weft_in(ctx, 2), &rows));
  WEFT_RETURN_IF_ERROR(weft_random_rows_along(&rows, state->factor, logits->shape.dims[0], &along));
  if (logits->shape.dims[0] == along.count)
    return draw_multinomial(ctx, state->stream, (weft_philox_t){{0}}, along.begin, along.all);
  return WEFT_ERROR(INVALID_ARGUMENT, "logits have %" PRId64 " rows, not %" PRId64, logits->shape.dims[0],
                    along.count);
}

const weft_kernel_t weft_cpu_random_choice_kernels[] = {
    WEFT_STREAM_KERNEL("Multinomial", "T", WEFT_SET_FLOATS, multinomial),
    WEFT_KERNEL("WeftMultinomialRows", "T", WEFT_SET_FLOATS, prepare_rows, multinomial_rows, destroy_rows),
    WEFT_STREAM_KERNEL("RandomShuffle", NULL, 0, shuffle),
    WEFT_KERNEL("StatelessMultinomial", "T", WEFT_SET_FLOATS, NULL, stateless_multinomial, NULL),
    WEFT_KERNEL("StatelessShuffle", NULL, 0, NULL, stateless_shuffle, NULL),
    {0},
};
