/* kernels/cpu/loops/epilogue.c - see the header. There is a loop for each combination of parts, over strips
 * of columns whose operands stay in registers or in the first-level cache from row to row. */
#include "kernels/cpu/loops/epilogue.h"

#include <string.h>

#define SPECIALISED static inline __attribute__((always_inline))

/* Columns of a strip; rows that are done before the next strip, where all of a result is walked over. */
enum { STRIP = 32, BLOCK_ROWS = 32, LINE = 16, ROWS_AHEAD = 10, FACTORS = 512 };

/* NaN stays NaN: comparisons with it are false. */
SPECIALISED float activated(float v, const weft_epilogue_activation_t activation, float alpha) {
  switch (activation) {
    case WEFT_EPILOGUE_RELU: return v < 0 ? 0 : v;
    case WEFT_EPILOGUE_RELU6: return v < 0 ? 0 : v > 6 ? 6 : v;
    case WEFT_EPILOGUE_LEAKY_RELU: return v > 0 ? v : alpha * v;
    default: return v;
  }
}

typedef struct strip {
  float *y;            /* the first element */
  const float *addend; /* of that element */
  int64_t rows, column, width;
} strip_t;

/* The flags and, for a whole strip, `width` are constants where this is inlined. */
SPECIALISED void compute(const weft_epilogue_t *e, const strip_t *s, const int64_t width, const bool has_bias,
                         const bool has_norm, const bool has_addend,
                         const weft_epilogue_activation_t activation) {
  float bias[STRIP], mean[STRIP], factor[STRIP], shift[STRIP];
  const size_t bytes = (size_t)width * sizeof(float);
  if (has_bias) memcpy(bias, e->bias + s->column, bytes);
  if (has_norm) {
    memcpy(mean, e->mean + s->column, bytes);
    memcpy(factor, e->factor + s->column, bytes);
    memcpy(shift, e->shift + s->column, bytes);
  }
  for (int64_t r = 0; r < s->rows; r++) {
    float *restrict y = s->y + r * e->channels;
    if (has_addend) {
      for (int64_t c = 0; c < width; c += LINE)
        __builtin_prefetch(s->addend + (r + ROWS_AHEAD) * e->channels + c);
    }
    const float *restrict addend = has_addend ? s->addend + r * e->channels : NULL;
    WEFT_IVDEP
    for (int64_t c = 0; c < width; c++) {
      float v = y[c];
      if (has_bias) v += bias[c];
      if (has_norm) v = (v - mean[c]) * factor[c] + shift[c];
      if (has_addend) v += addend[c];
      y[c] = activated(v, activation, e->alpha);
    }
  }
}

typedef void strip_fn(const weft_epilogue_t *e, const strip_t *s);
#define LOOP(bias, norm, addend, name, activation)                                                       \
  static void loop_##bias##norm##addend##_##name(const weft_epilogue_t *e, const strip_t *s) {           \
    compute(e, s, s->width == STRIP ? STRIP : s->width, bias, norm, addend, WEFT_EPILOGUE_##activation); \
  }
#define EACH_LOOP(DO, name, activation) \
  DO(0, 0, 0, name, activation)         \
  DO(0, 0, 1, name, activation)         \
  DO(0, 1, 0, name, activation)         \
  DO(0, 1, 1, name, activation)         \
  DO(1, 0, 0, name, activation)         \
  DO(1, 0, 1, name, activation) DO(1, 1, 0, name, activation) DO(1, 1, 1, name, activation)
#define EACH_ACTIVATION(DO)   \
  EACH_LOOP(DO, plain, PLAIN) \
  EACH_LOOP(DO, relu, RELU)   \
  EACH_LOOP(DO, relu6, RELU6) \
  EACH_LOOP(DO, leaky_relu, LEAKY_RELU)
EACH_ACTIVATION(LOOP)
#define ENTRY(bias, norm, addend, name, activation) \
  [WEFT_EPILOGUE_##activation][bias][norm][addend] = loop_##bias##norm##addend##_##name,
static strip_fn *const loops[WEFT_EPILOGUE_NUM_ACTIVATIONS][2][2][2] = {EACH_ACTIVATION(ENTRY)};

/* `n` elements that follow each other, in the first-level cache. */
static void activate(const weft_epilogue_t *e, float *y, int64_t n) {
  float factors[FACTORS];
  if (!e->multiplies) {
    e->then(n, y, y);
    return;
  }
  for (int64_t i = 0; i < n; i += FACTORS) {
    const int64_t m = n - i < FACTORS ? n - i : FACTORS;
    e->then(m, y + i, factors);
    for (int64_t k = 0; k < m; k++) y[i + k] *= factors[k];
  }
}

void weft_epilogue_then(const weft_epilogue_t *e, float *y, int64_t row, int64_t rows, int64_t column,
                        int64_t columns) {
  const bool are_whole = columns == e->channels;
  for (int64_t r = 0; r < (are_whole ? 1 : rows); r++)
    activate(e, y + (row + r) * e->channels + column, are_whole ? rows * columns : columns);
}

void weft_epilogue_apply(const weft_epilogue_t *e, float *y, int64_t row, int64_t rows, int64_t column,
                         int64_t columns) {
  strip_fn *loop = loops[e->activation][e->bias != NULL][e->factor != NULL][e->addend != NULL];
  for (int64_t c = column; c < column + columns; c += STRIP) {
    const int64_t left = column + columns - c, at = row * e->channels + c;
    const strip_t s = {.y = y + at,
                       .addend = e->addend == NULL ? NULL : e->addend + at,
                       .rows = rows,
                       .column = c,
                       .width = left < STRIP ? left : STRIP};
    loop(e, &s);
  }
  if (e->then != NULL) weft_epilogue_then(e, y, row, rows, column, columns);
}

typedef struct epilogue_job {
  const weft_epilogue_t *e;
  float *y;
} epilogue_job_t;

static void run_range(void *arg, int64_t begin, int64_t end) {
  const epilogue_job_t *j = arg;
  for (int64_t r = begin; r < end; r += BLOCK_ROWS) {
    weft_epilogue_apply(j->e, j->y, r, end - r < BLOCK_ROWS ? end - r : BLOCK_ROWS, 0, j->e->channels);
  }
}

void weft_epilogue_run(weft_thread_pool_t *pool, const weft_epilogue_t *e, float *y, int64_t rows) {
  epilogue_job_t j = {e, y};
  if (rows == 0 || e->channels == 0) return;
  weft_parallel_for(pool, rows, WEFT_CPU_GRAIN / e->channels + 1, run_range, &j);
}
