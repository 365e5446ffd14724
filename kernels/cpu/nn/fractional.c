/* kernels/cpu/nn/fractional.c - FractionalMaxPool, FractionalAvgPool and their gradients: pools whose windows
 * differ in size, in a random order (kernels/formulas/fraction.h). */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/nn/window.h"
#include "kernels/cpu/random/philox.h"

#define WEFT_FORMULA static inline
#include "kernels/formulas/fraction.h"

typedef struct fractional_state {
  float ratio[4];
  bool is_pseudo, is_overlapping, is_fixed; /* is_fixed: the same windows each time */
  weft_philox_t generator;                  /* if so */
} fractional_state_t;

/* One dimension: window i goes from starts[i] to starts[i + 1]. */
typedef struct fraction {
  int64_t in, out;
  const int64_t *starts;
} fraction_t;

typedef struct fractional_job {
  fraction_t rows, columns;
  int64_t images, channels;
  bool is_overlapping;
  const void *x;
  void *y;
  int64_t *where; /* of the maxima: which element of x; NULL: not wanted */
} fractional_job_t;

static void cells_of(const fraction_t *f, bool is_overlapping, int64_t i, int64_t *first, int64_t *last) {
  weft_fraction_cells(f->starts, f->in, is_overlapping, i, first, last);
}

#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_FILE "kernels/cpu/nn/fractional_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static weft_range_fn *const fractional_max_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM fractional_max
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
static weft_range_fn *const fractional_avg_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM fractional_avg
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
typedef bool fractional_give_fn(const fractional_job_t *j, const void *y, const void *dy, void *dx);
static fractional_give_fn *const fractional_give_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM fractional_give
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

/* ---- windows ---- */

static uint32_t next_word(void *words) { return weft_philox_word(words); }

static void make_windows(bool is_pseudo, int64_t in, int64_t out, weft_philox_t *generator, int64_t *starts) {
  weft_philox_words_t words = weft_philox_words(*generator);
  if (is_pseudo) {
    const uint32_t high = weft_philox_word(&words);
    weft_fraction_regular(in, out, weft_philox_double(high, weft_philox_word(&words)), starts);
  } else {
    weft_fraction_random(in, out, next_word, &words, starts);
  }
  weft_philox_skip(generator, is_pseudo ? 1 : (uint64_t)(out + 3) / 4);
}

static weft_status_t *fractional_windows(weft_kernel_ctx_t *ctx, int output, weft_philox_t *generator,
                                         fraction_t *f) {
  const fractional_state_t *s = ctx->state;
  const weft_shape_t shape = weft_shape_vector(f->out + 1);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, output, WEFT_I64, &shape, &t));
  make_windows(s->is_pseudo, f->in, f->out, generator, t->data);
  f->starts = t->data;
  return NULL;
}

/* ---- forward ---- */

static weft_status_t *read_state(const weft_kernel_setup_t *setup, fractional_state_t *s) {
  const weft_attr_t *ratio = weft_knode_attr(setup, "pooling_ratio");
  if (ratio == NULL || ratio->n != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "pooling_ratio field must specify 4 dimensions");
  for (int i = 0; i < 4; i++) {
    s->ratio[i] = ratio->list.floats[i];
    if (!(s->ratio[i] >= 1)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "pooling_ratio cannot be smaller than 1, got: %g",
                        (double)s->ratio[i]);
    }
  }
  if (s->ratio[0] != 1 || s->ratio[3] != 1) {
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Fractional pooling is not yet supported on the batch nor channel dimension.");
  }
  const int64_t seed = weft_knode_int(setup, "seed"), seed2 = weft_knode_int(setup, "seed2");
  s->is_fixed = weft_knode_bool(setup, "deterministic");
  if (!s->is_fixed && (seed != 0 || seed2 != 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Both seed and seed2 should be 0 if deterministic is false.");
  }
  s->generator = weft_philox_seeded(seed, seed2);
  s->is_pseudo = weft_knode_bool(setup, "pseudo_random");
  s->is_overlapping = weft_knode_bool(setup, "overlapping");
  return NULL;
}

static weft_status_t *fractional_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  fractional_state_t s;
  WEFT_RETURN_IF_ERROR(read_state(setup, &s));
  fractional_state_t *state = weft_malloc(sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  *state = s;
  *out_state = state;
  return NULL;
}

static weft_status_t *fractional_pool(weft_kernel_ctx_t *ctx, weft_range_fn *const fns[]) {
  const fractional_state_t *s = ctx->state;
  const weft_tensor_t *x = weft_in(ctx, 0);
  weft_shape_t shape = x->shape;
  weft_tensor_t *y = NULL;
  if (x->shape.rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "tensor_in must be 4-dimensional");
  for (int i = 0; i < 4; i++) {
    const float dim = (float)shape.dims[i];
    if (!(dim >= s->ratio[i]) || shape.dims[i] > INT32_MAX) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Pooling ratio is higher than input dimension size for dimension %d. Input dim size: "
                        "%" PRId64 " pooling ratio: %g",
                        i, shape.dims[i], (double)s->ratio[i]);
    }
    shape.dims[i] = (int64_t)floorf(dim / s->ratio[i]);
  }
  weft_philox_t generator = s->is_fixed ? s->generator : weft_philox_seeded(0, 0);
  fractional_job_t j = {.rows = {.in = x->shape.dims[1], .out = shape.dims[1]},
                        .columns = {.in = x->shape.dims[2], .out = shape.dims[2]},
                        .images = shape.dims[0],
                        .channels = shape.dims[3],
                        .is_overlapping = s->is_overlapping,
                        .x = x->data};
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &y));
  WEFT_RETURN_IF_ERROR(fractional_windows(ctx, 1, &generator, &j.rows));
  WEFT_RETURN_IF_ERROR(fractional_windows(ctx, 2, &generator, &j.columns));
  j.y = y->data;
  weft_parallel_for(ctx->device->pool, j.images, WEFT_CPU_GRAIN / (x->count / j.images) + 1, fns[x->dtype],
                    &j);
  return NULL;
}
static weft_status_t *fractional_max_pool(weft_kernel_ctx_t *ctx) {
  return fractional_pool(ctx, fractional_max_fns);
}
static weft_status_t *fractional_avg_pool(weft_kernel_ctx_t *ctx) {
  return fractional_pool(ctx, fractional_avg_fns);
}

/* ---- gradients ---- */

/* The starts of the windows in input `i`. */
static weft_status_t *read_starts(weft_kernel_ctx_t *ctx, int i, const char *what, bool is_overlapping,
                                  fraction_t *f) {
  const weft_tensor_t *t = weft_in(ctx, i);
  f->starts = t->data;
  if (t->count < f->out + 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must have at least %" PRId64 " elements, but got %" PRId64, what,
                      f->out + 1, t->count);
  }
  for (int64_t k = 0; k < f->out; k++) {
    int64_t first, last;
    cells_of(f, is_overlapping, k, &first, &last);
    if (first < 0 || last < 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s values must not be negative, got %" PRId64, what, f->starts[k]);
  }
  return NULL;
}

static weft_status_t *check_max_grad(weft_kernel_ctx_t *ctx) {
  static const char *const names[] = {"orig_input", "orig_output", "out_backprop", "row_pooling_sequence",
                                      "col_pooling_sequence"};
  for (int i = 0; i < 3; i++) {
    const weft_tensor_t *t = weft_in(ctx, i);
    if (t->shape.rank == 4 && t->count > 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s should be a tensor of rank 4 with elements, got %s", names[i],
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  const weft_shape_t *x = &weft_in(ctx, 0)->shape, *y = &weft_in(ctx, 1)->shape;
  if (!weft_shape_eq(y, &weft_in(ctx, 2)->shape) || x->dims[0] != y->dims[0] || x->dims[3] != y->dims[3]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "orig_input %s, orig_output %s and out_backprop %s do not fit",
                      WEFT_SHAPE_TEXT(x), WEFT_SHAPE_TEXT(y), WEFT_SHAPE_TEXT(&weft_in(ctx, 2)->shape));
  }
  for (int i = 3; i < 5; i++) {
    const weft_shape_t *s = &weft_in(ctx, i)->shape;
    if (s->rank == 1 && s->dims[0] == y->dims[i - 2] + 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a vector of %" PRId64 " elements, received shape %s",
                      names[i], y->dims[i - 2] + 1, WEFT_SHAPE_TEXT(s));
  }
  return NULL;
}

WEFT_ATTRS_STRUCT(fractional_grad, (BOOL, overlapping))
WEFT_ATTRS_OF(fractional_max_grad, fractional_grad)
static weft_status_t *fractional_max_grad(weft_kernel_ctx_t *ctx, const fractional_grad_attrs_t *attrs) {
  const weft_tensor_t *x = weft_in(ctx, 0), *y = weft_in(ctx, 1), *dy = weft_in(ctx, 2);
  weft_tensor_t *again = NULL, *dx = NULL;
  WEFT_RETURN_IF_ERROR(check_max_grad(ctx));
  fractional_job_t j = {.rows = {.in = x->shape.dims[1], .out = y->shape.dims[1]},
                        .columns = {.in = x->shape.dims[2], .out = y->shape.dims[2]},
                        .images = y->shape.dims[0],
                        .channels = y->shape.dims[3],
                        .is_overlapping = attrs->overlapping,
                        .x = x->data};
  WEFT_RETURN_IF_ERROR(read_starts(ctx, 3, "row_pooling_sequence", attrs->overlapping, &j.rows));
  WEFT_RETURN_IF_ERROR(read_starts(ctx, 4, "col_pooling_sequence", attrs->overlapping, &j.columns));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &x->shape, &dx));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(y->dtype, &y->shape, ctx->device->allocator, &again));
  weft_status_t *s = NULL;
  j.y = again->data;
  j.where = weft_calloc((size_t)y->count, sizeof *j.where);
  if (j.where == NULL) {
    s = WEFT_NO_MEMORY("%" PRId64 " maxima", y->count);
  } else {
    fractional_max_fns[x->dtype](&j, 0, j.images);
    weft_cpu_zero(dx);
    if (!fractional_give_fns[x->dtype](&j, y->data, dy->data, dx->data))
      s = WEFT_ERROR(INVALID_ARGUMENT, "orig_output is not what these windows make of orig_input");
  }
  weft_free(j.where);
  weft_tensor_release(again);
  return s;
}

/* Each gradient in equal parts to the cells of its window, summed in double precision. */
static void spread(const fractional_job_t *j, const fraction_t *rows, const fraction_t *columns,
                   int64_t in_channels) {
  const double *dy = j->x;
  for (int64_t i = 0; i < j->images * rows->out * columns->out; i++, dy += j->channels) {
    int64_t top, bottom, left, right;
    const int64_t n = i / (rows->out * columns->out);
    cells_of(rows, j->is_overlapping, i / columns->out % rows->out, &top, &bottom);
    cells_of(columns, j->is_overlapping, i % columns->out, &left, &right);
    if (top > bottom || left > right) continue;
    const double cells = (double)((bottom - top + 1) * (right - left + 1));
    for (int64_t h = top; h <= bottom; h++) {
      for (int64_t w = left; w <= right; w++) {
        double *dx = (double *)j->y + ((n * rows->in + h) * columns->in + w) * in_channels;
        for (int64_t c = 0; c < j->channels; c++) dx[c] += dy[c] / cells;
      }
    }
  }
}

static weft_status_t *check_avg_grad(const weft_tensor_t *size, const weft_shape_t *dy, weft_shape_t *out) {
  if (size->shape.rank != 1 || size->count != 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "original input tensor shape must be 1-dimensional and 4 elements");
  }
  if (dy->rank != 4) return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be 4-dimensional");
  if (weft_shape_count(dy) == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop must be positive for all dimension, got %s",
                      WEFT_SHAPE_TEXT(dy));
  WEFT_RETURN_IF_ERROR(weft_shape_make(size->data, 4, out));
  if (out->dims[1] == 0 || out->dims[2] == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Rows and columns of input must not be 0");
  if (out->dims[0] < dy->dims[0] || out->dims[3] < dy->dims[3]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "out_backprop %s does not fit an input of shape %s",
                      WEFT_SHAPE_TEXT(dy), WEFT_SHAPE_TEXT(out));
  }
  return NULL;
}

WEFT_ATTRS_OF(fractional_avg_grad, fractional_grad)
static weft_status_t *fractional_avg_grad(weft_kernel_ctx_t *ctx, const fractional_grad_attrs_t *attrs) {
  const weft_tensor_t *dy = weft_in(ctx, 1);
  const weft_dtype_t dtype = dy->dtype;
  weft_shape_t shape;
  weft_tensor_t *sums = NULL, *wide = NULL;
  WEFT_RETURN_IF_ERROR(check_avg_grad(weft_in(ctx, 0), &dy->shape, &shape));
  fractional_job_t j = {
      .images = dy->shape.dims[0], .channels = dy->shape.dims[3], .is_overlapping = attrs->overlapping};
  fraction_t rows = {.in = shape.dims[1], .out = dy->shape.dims[1]},
             columns = {.in = shape.dims[2], .out = dy->shape.dims[2]};
  if (j.images > 0) {
    WEFT_RETURN_IF_ERROR(read_starts(ctx, 2, "Row sequence tensor", attrs->overlapping, &rows));
    WEFT_RETURN_IF_ERROR(read_starts(ctx, 3, "Column sequence tensor", attrs->overlapping, &columns));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F64, &shape, ctx->device->allocator, &sums));
  weft_cpu_zero(sums);
  weft_status_t *s = weft_cpu_cast(ctx, dy, WEFT_F64, &wide);
  if (s == NULL) {
    j.x = wide->data;
    j.y = sums->data;
    spread(&j, &rows, &columns, shape.dims[3]);
    s = weft_cpu_cast(ctx, sums, dtype, &ctx->outputs[0].tensor);
  }
  weft_tensor_release(wide);
  weft_tensor_release(sums);
  return s;
}

#define FRACTIONAL_TYPES (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64) | WEFT_SET_INDEX)
const weft_kernel_t weft_cpu_fractional_kernels[] = {
    WEFT_KERNEL("FractionalAvgPool", "T", FRACTIONAL_TYPES, fractional_prepare, fractional_avg_pool,
                weft_free),
    WEFT_KERNEL_ATTRS("FractionalAvgPoolGrad", "T", FRACTIONAL_TYPES, fractional_avg_grad),
    WEFT_KERNEL("FractionalMaxPool", "T", FRACTIONAL_TYPES, fractional_prepare, fractional_max_pool,
                weft_free),
    WEFT_KERNEL_ATTRS("FractionalMaxPoolGrad", "T", FRACTIONAL_TYPES, fractional_max_grad),
    {0},
};
