/* kernels/cpu/nn/bias.c - BiasAdd and its gradient. The value is seen as [outer, channels, inner]. */
#include "ops/bias.h"
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/reduce.h"

/* NCHW: the channel is dimension 1; else the last. */
static weft_status_t *channels(weft_str_t format, const weft_shape_t *s, weft_shape_t *out) {
  if (s->rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor must be at least 2D: %s", WEFT_SHAPE_TEXT(s));
  int at = weft_str_is(format, "NCHW") ? 1 : s->rank - 1;
  *out = (weft_shape_t){.rank = 3};
  out->dims[0] = weft_cpu_product(s, 0, at);
  out->dims[1] = s->dims[at];
  out->dims[2] = weft_cpu_product(s, at + 1, s->rank);
  return NULL;
}

typedef struct bias_job {
  weft_map2_fn *add;
  const char *x, *bias;
  char *y;
  size_t size;
} bias_job_t;

static void bias_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const bias_job_t *j = arg;
  j->add(n, j->x + (size_t)at[0] * j->size, step[0], j->bias + (size_t)at[1] * j->size, step[1],
         j->y + (size_t)out_at * j->size);
}

static weft_status_t *bias_add(weft_kernel_ctx_t *ctx, weft_str_t format) {
  weft_tensor_t *x = weft_in(ctx, 0), *bias = weft_in(ctx, 1), *y = NULL;
  weft_shape_t view, shape = x->shape;
  WEFT_RETURN_IF_ERROR(weft_bias_check(&shape, &bias->shape, weft_str_is(format, "NCHW")));
  WEFT_RETURN_IF_ERROR(channels(format, &shape, &view));
  weft_broadcast_t b;
  weft_shape_t column = weft_shape_matrix(view.dims[1], 1);
  const weft_shape_t *shapes[2] = {&view, &column};
  bias_job_t j = {weft_map2_add[x->dtype], x->data, bias->data, NULL, weft_dtype_size(x->dtype)};
  WEFT_RETURN_IF_ERROR(weft_out_forward(ctx, 0, 0, x->dtype, &shape, &y));
  if (y->count == 0 || !weft_broadcast_init(&b, shapes, 2)) return NULL;
  j.y = y->data;
  weft_broadcast_run_cost(&b, ctx->device->pool, weft_cpu_element(2 * j.size, false), bias_run, &j);
  return NULL;
}

WEFT_ATTRS_STRUCT(bias, (STRING, data_format))
WEFT_ATTRS_OF(bias_add_compute, bias)
static weft_status_t *bias_add_compute(weft_kernel_ctx_t *ctx, const bias_attrs_t *attrs) {
  return bias_add(ctx, attrs->data_format);
}
static weft_status_t *bias_add_v1_compute(weft_kernel_ctx_t *ctx) { return bias_add(ctx, WEFT_STR("NHWC")); }

WEFT_ATTRS_OF(bias_grad_compute, bias)
static weft_status_t *bias_grad_compute(weft_kernel_ctx_t *ctx, const bias_attrs_t *attrs) {
  weft_tensor_t *dy = weft_in(ctx, 0), *db = NULL;
  weft_shape_t view;
  WEFT_RETURN_IF_ERROR(channels(attrs->data_format, &dy->shape, &view));
  weft_shape_t shape = weft_shape_vector(view.dims[1]);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dy->dtype, &shape, &db));
  if (dy->count == 0) {
    weft_cpu_zero(db);
    return NULL;
  }
  bool axes[WEFT_MAX_DIMS] = {true, false, true};
  weft_reduced_dims_t plan;
  weft_reduction_plan(&view, axes, &plan);
  return weft_reduction_run(&plan, ctx->device->pool, weft_reduce_sum[dy->dtype], weft_dtype_size(dy->dtype),
                            dy->data, db->data);
}

const weft_kernel_t weft_cpu_bias_kernels[] = {
    WEFT_KERNEL_ATTRS("BiasAdd", "T", WEFT_SET_NUMBERS, bias_add_compute),
    WEFT_KERNEL_ATTRS("BiasAddGrad", "T", WEFT_SET_NUMBERS, bias_grad_compute),
    WEFT_KERNEL("BiasAddV1", "T", WEFT_SET_NUMBERS, NULL, bias_add_v1_compute, NULL),
    {0},
};
