/* kernels/cpu/random/random_samples.c - see the header. */
#include "kernels/cpu/random/random_samples.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/loops/cast.h"

/* ---- parameters ---- */

typedef struct spread {
  const weft_tensor_t *from;
  weft_cpu_cast_fn *to_double;
  double *to;
} spread_t;

static void spread_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const spread_t *s = arg;
  size_t size = weft_dtype_size(s->from->dtype);
  const char *from = (const char *)s->from->data + (size_t)at[0] * size;
  if (step[0] == 1) {
    s->to_double(n, from, s->to + out_at);
    return;
  }
  s->to_double(1, from, s->to + out_at);
  for (int64_t i = 1; i < n; i++) s->to[out_at + i] = s->to[out_at];
}

weft_status_t *weft_samples_parameter(const weft_tensor_t *t, const weft_shape_t *sets, double **out) {
  weft_broadcast_t b;
  const weft_shape_t *const shapes[] = {&t->shape, sets};
  if (!weft_broadcast_init(&b, shapes, 2) || !weft_shape_eq(&b.shape, sets)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "parameters of shape %s do not fit shape %s",
                      WEFT_SHAPE_TEXT(&t->shape), WEFT_SHAPE_TEXT(sets));
  }
  double *values = weft_calloc(b.count == 0 ? 1 : (size_t)b.count, sizeof *values);
  if (values == NULL) return WEFT_NO_MEMORY("%" PRId64 " parameters", b.count);
  spread_t spread = {.from = t, .to_double = weft_cpu_cast_loop(t->dtype, WEFT_F64), .to = values};
  weft_broadcast_walk(&b, 0, b.count, spread_run, &spread);
  *out = values;
  return NULL;
}

weft_status_t *weft_samples_plan(weft_samples_t *s, const weft_shape_t *output, const weft_shape_t *sets) {
  int before = output->rank - sets->rank;
  bool fits = before >= 0;
  for (int i = 0; fits && i < sets->rank; i++) fits = output->dims[before + i] == sets->dims[i];
  if (!fits) return WEFT_ERROR(INVALID_ARGUMENT, "Shape passed in must end with broadcasted shape.");
  s->num_samples = weft_cpu_product(output, 0, before);
  s->num_sets = weft_cpu_product(output, before, output->rank);
  return NULL;
}

void weft_samples_deinit(weft_samples_t *s) {
  for (int i = 0; i < WEFT_SAMPLES_MAX_PARAMETERS; i++) weft_free(s->parameters[i]);
}

/* ---- drawing ---- */

static void fill(void *arg, int64_t begin, int64_t end) {
  const weft_samples_t *s = arg;
  weft_cpu_cast_fn *from_double = weft_cpu_cast_loop(WEFT_F64, s->out->dtype);
  size_t size = weft_dtype_size(s->out->dtype);
  for (int64_t number = begin; number < end; number++) {
    int64_t set = number / s->num_samples, sample = number % s->num_samples;
    double x = s->draw(s, set, number);
    from_double(1, &x, (char *)s->out->data + (size_t)(sample * s->num_sets + set) * size);
  }
}

void weft_samples_fill(const weft_samples_t *s, weft_thread_pool_t *pool) {
  if (s->out->count > 0) weft_parallel_for(pool, s->out->count, WEFT_CPU_GRAIN / 256, fill, (void *)s);
}

/* ---- ops with one parameter ---- */

/* Draws all of `out` with the sets of parameters in `t`. */
static weft_status_t *draw_all(weft_kernel_ctx_t *ctx, weft_sample_fn *draw, weft_philox_t generator,
                               const weft_tensor_t *t, weft_tensor_t *out) {
  weft_samples_t s = {.generator = generator, .draw = draw, .type = t->dtype, .out = out};
  WEFT_RETURN_IF_ERROR(weft_samples_plan(&s, &out->shape, &t->shape));
  WEFT_RETURN_IF_ERROR(weft_samples_parameter(t, &t->shape, &s.parameters[0]));
  weft_samples_fill(&s, ctx->device->pool);
  weft_samples_deinit(&s);
  return NULL;
}

weft_status_t *weft_samples_of_stream(weft_kernel_ctx_t *ctx, weft_sample_fn *draw) {
  const weft_tensor_t *sizes = weft_in(ctx, 0), *t = weft_in(ctx, 1);
  weft_tensor_t *y = NULL;
  weft_shape_t samples;
  int64_t dims[WEFT_MAX_DIMS];
  if (sizes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "shape must be a vector of {int32,int64}, got shape %s",
                      WEFT_SHAPE_TEXT(&sizes->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_cpu_shape_from(sizes, "shape", &samples));
  int rank = samples.rank + t->shape.rank;
  if (rank > WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "a result of %d dimensions, more than %d", rank, WEFT_MAX_DIMS);
  for (int i = 0; i < rank; i++)
    dims[i] = i < samples.rank ? samples.dims[i] : t->shape.dims[i - samples.rank];
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, rank, &samples));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, weft_dtype_base(ctx->node->output_types[0]), &samples, &y));
  weft_philox_t generator =
      weft_random_stream_take(ctx->state, (uint64_t)y->count * WEFT_RANDOM_BLOCKS_PER_ELEMENT);
  return y->count == 0 ? NULL : draw_all(ctx, draw, generator, t, y);
}

weft_status_t *weft_samples_of_seed(weft_kernel_ctx_t *ctx, weft_sample_fn *draw) {
  weft_tensor_t *y = NULL;
  weft_philox_t generator;
  WEFT_RETURN_IF_ERROR(weft_random_seeded_output(ctx, &y, &generator));
  return y->count == 0 ? NULL : draw_all(ctx, draw, generator, weft_in(ctx, 2), y);
}

weft_status_t *weft_samples_of_key(weft_kernel_ctx_t *ctx, weft_sample_fn *draw) {
  weft_tensor_t *y = NULL;
  weft_philox_t generator;
  int32_t alg = 0;
  WEFT_RETURN_IF_ERROR(weft_random_keyed_output(ctx, &y, &alg, &generator));
  if (y->count == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_random_check_alg(alg));
  return draw_all(ctx, draw, generator, weft_in(ctx, 4), y);
}
