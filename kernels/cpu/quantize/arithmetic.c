/* kernels/cpu/quantize/arithmetic.c - sums, products and activations of quantised values.
 *
 * An integer of 8 bits is one of 256, so what it becomes in the result's range is looked up.
 */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/loops/broadcast.h"
#include "kernels/cpu/quantize/quantize.h"

enum { VALUES = 256 };

/* What each integer of 8 bits is in the result. */
typedef struct byte_table {
  int32_t of[VALUES];
} byte_table_t;

static int32_t sum_of(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static int32_t product_of(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

/* ---- QuantizedAdd, QuantizedMul ---- */

typedef struct pair_run {
  const uint8_t *x, *y;
  int64_t nx, ny; /* elements: the shorter one is repeated */
  int32_t *z;
  byte_table_t tx, ty;
  bool multiplies;
} pair_run_t;

static void pair_range(void *arg, int64_t begin, int64_t end) {
  const pair_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    const int32_t a = r->tx.of[r->x[i % r->nx]], b = r->ty.of[r->y[i % r->ny]];
    r->z[i] = r->multiplies ? product_of(a, b) : sum_of(a, b);
  }
}

/* Into how many groups the dimensions fall if neighbours that broadcast alike are one dimension. */
static int broadcast_groups(const weft_shape_t *x, const weft_shape_t *y) {
  const int rank = x->rank > y->rank ? x->rank : y->rank;
  int groups = 0, last = 0;
  for (int i = 1; i <= rank; i++) {
    const int64_t a = i <= x->rank ? x->dims[x->rank - i] : 1, b = i <= y->rank ? y->dims[y->rank - i] : 1;
    const int how = a == b ? 1 : a == 1 ? 2 : 3;
    if (a == 1 && b == 1) continue;
    groups += how != last;
    last = how;
  }
  return groups;
}

static weft_status_t *check_range(weft_range_t r, const char *name) {
  if (r.max > r.min) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "max_%s must be larger than min_%s.", name, name);
}

/* Shapes and ranges of both; the result as output 0. The shorter operand is repeated as it is, even where its
 * dimensions of 1 do not lie in front: TensorFlow does so. */
static weft_status_t *begin_pair(weft_kernel_ctx_t *c, pair_run_t *r, weft_range_t *rx, weft_range_t *ry) {
  const weft_tensor_t *x = weft_in(c, 0), *y = weft_in(c, 1);
  const int64_t longer = x->count > y->count ? x->count : y->count;
  weft_broadcast_t b;
  weft_tensor_t *z = NULL;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 2, rx));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 4, ry));
  if (!weft_broadcast_init(&b, (const weft_shape_t *[]){&x->shape, &y->shape}, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", WEFT_SHAPE_TEXT(&x->shape),
                      WEFT_SHAPE_TEXT(&y->shape));
  }
  WEFT_RETURN_IF_ERROR(check_range(*rx, "x"));
  WEFT_RETURN_IF_ERROR(check_range(*ry, "y"));
  const int groups = broadcast_groups(&x->shape, &y->shape);
  if (groups > 2 || (groups == 2 && b.count > longer)) {
    return WEFT_ERROR(UNIMPLEMENTED, "Broadcast between %s and %s is not supported yet.",
                      WEFT_SHAPE_TEXT(&x->shape), WEFT_SHAPE_TEXT(&y->shape));
  }
  if (groups == 2 && (x->count == 0 || y->count == 0)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Must have some elements to add or multiply");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &b.shape, &z));
  r->x = x->data;
  r->y = y->data;
  r->nx = x->count;
  r->ny = y->count;
  r->z = z->data;
  return NULL;
}

static weft_status_t *end_pair(weft_kernel_ctx_t *c, pair_run_t *r, weft_range_t range) {
  const int64_t n = weft_shape_count(&c->outputs[0].tensor->shape);
  weft_parallel_for(c->device->pool, n, WEFT_CPU_GRAIN, pair_range, r);
  return weft_range_output(c, 1, range);
}

/* A scalar is requantised by itself, all others by what the first two integers become. */
static void widen(byte_table_t *t, bool is_scalar, weft_range_t from, weft_range_t to) {
  const int64_t zero =
      weft_quantize_unclamped(WEFT_QINT32, weft_dequantize_exactly(WEFT_QUINT8, 0, from), to);
  const int64_t one = weft_quantize_unclamped(WEFT_QINT32, weft_dequantize_exactly(WEFT_QUINT8, 1, from), to);
  const int32_t step = (int32_t)(uint32_t)((uint64_t)one - (uint64_t)zero);
  for (int v = 0; v < VALUES; v++) {
    const int64_t wide = (int64_t)((uint64_t)zero + (uint64_t)v * (uint64_t)(int64_t)step);
    t->of[v] = (int32_t)(wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : wide);
    if (is_scalar)
      t->of[v] = weft_quantize_exactly(WEFT_QINT32, weft_dequantize_exactly(WEFT_QUINT8, v, from), to);
  }
}

static float larger(float a, float b) { return a < b ? b : a; }

/* The result's range is symmetric, with room for sums: 14 bits more than the operands'. */
static weft_status_t *add(weft_kernel_ctx_t *c) {
  pair_run_t r = {.multiplies = false};
  weft_range_t rx, ry;
  WEFT_RETURN_IF_ERROR(begin_pair(c, &r, &rx, &ry));
  const float min = rx.min < ry.min ? rx.min : ry.min, max = larger(rx.max, ry.max);
  const float most = larger(fabsf(min), fabsf(max)) * (float)(1 << 14);
  const weft_range_t range = {-most, most};
  widen(&r.tx, r.nx == 1, rx, range);
  widen(&r.ty, r.nx != 1 && r.ny == 1, ry, range);
  return end_pair(c, &r, range);
}

static weft_status_t *multiply(weft_kernel_ctx_t *c) {
  pair_run_t r = {.multiplies = true};
  weft_range_t rx, ry;
  WEFT_RETURN_IF_ERROR(begin_pair(c, &r, &rx, &ry));
  const int32_t zero_x = (int32_t)weft_quantize_unclamped(WEFT_QUINT8, 0, rx),
                zero_y = (int32_t)weft_quantize_unclamped(WEFT_QUINT8, 0, ry);
  for (int v = 0; v < VALUES; v++) {
    r.tx.of[v] = (int32_t)((uint32_t)v - (uint32_t)zero_x);
    r.ty.of[v] = (int32_t)((uint32_t)v - (uint32_t)zero_y);
  }
  return end_pair(c, &r, weft_product_range(WEFT_QUINT8, rx, WEFT_QUINT8, ry));
}

/* ---- QuantizedBiasAdd ---- */

typedef struct bias_run {
  const weft_tensor_t *x, *bias;
  int32_t *y;
  byte_table_t tx, tb; /* from the type's lowest integer on */
  int64_t lowest;
} bias_run_t;

static void bias_range(void *arg, int64_t begin, int64_t end) {
  const bias_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t a = weft_quant_at(r->x, i) - r->lowest;
    const int64_t b = weft_quant_at(r->bias, i % r->bias->count) - r->lowest;
    r->y[i] = sum_of(r->tx.of[a], r->tb.of[b]);
  }
}

static weft_status_t *check_bias(const weft_shape_t *x, const weft_shape_t *bias) {
  if (x->rank < 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor must be at least 2D: %s", WEFT_SHAPE_TEXT(x));
  }
  if (bias->rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "Biases must be 1D: %s", WEFT_SHAPE_TEXT(bias));
  if (bias->dims[0] == x->dims[x->rank - 1]) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Must provide as many biases as the last dimension of the input tensor: %s vs. %s",
                    WEFT_SHAPE_TEXT(bias), WEFT_SHAPE_TEXT(x));
}

static weft_status_t *bias_add(weft_kernel_ctx_t *c) {
  bias_run_t r = {.x = weft_in(c, 0), .bias = weft_in(c, 1)};
  const int dtype = r.x->dtype;
  weft_range_t rx, rb;
  weft_tensor_t *y = NULL;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 2, &rx));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 4, &rb));
  WEFT_RETURN_IF_ERROR(check_bias(&r.x->shape, &r.bias->shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &r.x->shape, &y));
  const float most = larger(rx.max, larger(-rx.min, larger(rb.max, -rb.min))) * (float)(1 << 17);
  const weft_range_t range = {-most, most};
  const weft_quant_t to = weft_quant_of(WEFT_QINT32, range);
  const weft_dequant_t from_x = weft_dequant_of(dtype, rx), from_bias = weft_dequant_of(dtype, rb);
  const int32_t zero = weft_quantize_exactly(WEFT_QINT32, 0, range);
  r.y = y->data;
  r.lowest = weft_quant_lowest(dtype);
  for (int v = 0; v < VALUES; v++) {
    const int32_t integer = (int32_t)(r.lowest + v);
    r.tx.of[v] = weft_quantize(&to, weft_dequantize(&from_x, integer));
    r.tb.of[v] = sum_of(weft_quantize(&to, weft_dequantize(&from_bias, integer)), zero);
  }
  if (y->count > 0) weft_parallel_for(c->device->pool, y->count, WEFT_CPU_GRAIN, bias_range, &r);
  return weft_range_output(c, 1, range);
}

/* ---- QuantizedRelu, QuantizedRelu6 ---- */

typedef struct clamp_run {
  const weft_tensor_t *x;
  weft_tensor_t *y;
  int32_t low, high;
} clamp_run_t;

static void clamp_range(void *arg, int64_t begin, int64_t end) {
  const clamp_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    int32_t v = weft_quant_at(r->x, i);
    v = v < r->low ? r->low : v;
    weft_quant_set(r->y, i, v > r->high ? r->high : v);
  }
}

/* From 0 to `most`, on the integers; the range stays. */
static weft_status_t *clamp(weft_kernel_ctx_t *c, const float *most) {
  clamp_run_t r = {.x = weft_in(c, 0)};
  const weft_dtype_t dtype = r.x->dtype;
  const int64_t count = r.x->count;
  weft_range_t range;
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 1, &range));
  r.low = weft_quantize_exactly(dtype, 0, range);
  r.high = most == NULL ? (int32_t)weft_quant_highest(dtype) : weft_quantize_exactly(dtype, *most, range);
  WEFT_RETURN_IF_ERROR(weft_out_forward(c, 0, 0, dtype, &weft_in(c, 0)->shape, &r.y));
  weft_parallel_for(c->device->pool, count, WEFT_CPU_GRAIN, clamp_range, &r);
  return weft_range_output(c, 1, range);
}

static weft_status_t *relu(weft_kernel_ctx_t *c) { return clamp(c, NULL); }
static weft_status_t *relu6(weft_kernel_ctx_t *c) { return clamp(c, &(const float){6}); }

#define QINT8 WEFT_DTYPE_BIT(WEFT_QINT8)
#define QUINT8 WEFT_DTYPE_BIT(WEFT_QUINT8)
#define QINT32 WEFT_DTYPE_BIT(WEFT_QINT32)
const weft_kernel_t weft_cpu_quantize_arithmetic_kernels[] = {
    WEFT_KERNEL2("QuantizedAdd", "T1", QUINT8, "T2", QUINT8, NULL, add, NULL),
    WEFT_KERNEL2("QuantizedBiasAdd", "T1", QINT8, "T2", QINT8, NULL, bias_add, NULL),
    WEFT_KERNEL2("QuantizedBiasAdd", "T1", QUINT8, "T2", QUINT8, NULL, bias_add, NULL),
    WEFT_KERNEL2("QuantizedMul", "T1", QUINT8, "T2", QUINT8, NULL, multiply, NULL),
    WEFT_KERNEL2("QuantizedRelu", "Tinput", QINT32, "out_type", QINT32, NULL, relu, NULL),
    WEFT_KERNEL2("QuantizedRelu", "Tinput", QUINT8, "out_type", QUINT8, NULL, relu, NULL),
    WEFT_KERNEL2("QuantizedRelu6", "Tinput", QINT32, "out_type", QINT32, NULL, relu6, NULL),
    WEFT_KERNEL2("QuantizedRelu6", "Tinput", QUINT8, "out_type", QUINT8, NULL, relu6, NULL),
    {0},
};
