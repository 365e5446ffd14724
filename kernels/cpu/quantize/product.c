/* kernels/cpu/quantize/product.c - QuantizedMatMul and QuantizedConv2D.
 *
 * What the integers lie above their zero is multiplied and summed in 32 bits, modulo 2^32.
 */
#include <inttypes.h>

#include "base/thread_pool.h"
#include "kernels/cpu/math/gemm.h"
#include "kernels/cpu/nn/convolve.h"
#include "kernels/cpu/quantize/quantize.h"

/* `t` minus its zero, as int32; the caller frees it. */
static weft_status_t *above_zero(const weft_tensor_t *t, weft_range_t range, int32_t **out) {
  const int32_t zero = (int32_t)weft_quantize_unclamped(t->dtype, 0, range);
  int32_t *wide = weft_malloc(((size_t)t->count + 1) * sizeof *wide);
  if (wide == NULL) return WEFT_NO_MEMORY("the factors of a quantised product");
  for (int64_t i = 0; i < t->count; i++) wide[i] = (int32_t)((uint32_t)weft_quant_at(t, i) - (uint32_t)zero);
  *out = wide;
  return NULL;
}

static weft_status_t *factors(const weft_kernel_ctx_t *c, weft_range_t a, weft_range_t b, int32_t *out[2]) {
  WEFT_RETURN_IF_ERROR(above_zero(weft_in(c, 0), a, &out[0]));
  return above_zero(weft_in(c, 1), b, &out[1]);
}

/* The range of the result as outputs 1 and 2. */
static weft_status_t *product_range(weft_kernel_ctx_t *c, weft_range_t a, weft_range_t b) {
  return weft_range_output(c, 1, weft_product_range(weft_in(c, 0)->dtype, a, weft_in(c, 1)->dtype, b));
}

WEFT_ATTRS(matmul, (BOOL, transpose_a), (BOOL, transpose_b))
static weft_status_t *matmul(weft_kernel_ctx_t *c, const matmul_attrs_t *attrs) {
  const weft_tensor_t *a = weft_in(c, 0), *b = weft_in(c, 1);
  const int ta = attrs->transpose_a, tb = attrs->transpose_b;
  weft_range_t ra, rb;
  float min_a = 0;
  weft_tensor_t *y = NULL;
  int32_t *wide[2] = {NULL, NULL};
  WEFT_RETURN_IF_ERROR(weft_float_input(c, 2, &min_a));
  WEFT_RETURN_IF_ERROR(weft_range_of_one(c, 2, &ra));
  WEFT_RETURN_IF_ERROR(weft_range_of_one(c, 4, &rb));
  if (!(ra.max > ra.min)) return WEFT_ERROR(INVALID_ARGUMENT, "max_a must be larger than min_a.");
  if (!(rb.max > rb.min)) return WEFT_ERROR(INVALID_ARGUMENT, "max_b must be larger than min_b.");
  if (a->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "In[0] is not a matrix");
  if (b->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "In[1] is not a matrix");
  if (a->shape.dims[1 - ta] != b->shape.dims[tb]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: %s, In[1]: %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  const int64_t m = a->shape.dims[ta], n = b->shape.dims[1 - tb], k = a->shape.dims[1 - ta];
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &(const weft_shape_t){.rank = 2, .dims = {m, n}}, &y));
  weft_status_t *s = factors(c, ra, rb, wide);
  if (s == NULL) {
    s = weft_gemm(c->device->pool, WEFT_I32, ta ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN,
                  tb ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN, m, n, k, wide[0], a->shape.dims[1], wide[1],
                  b->shape.dims[1], y->data, n, false);
  }
  weft_free(wide[0]);
  weft_free(wide[1]);
  return s != NULL ? s : product_range(c, ra, rb);
}

/* ---- QuantizedConv2D ---- */

/* One spatial dimension; where windows of SAME leave something over, half of it lies in front. */
static weft_status_t *plan_window(const weft_window_attrs_t *a, int dim, int64_t in, int64_t k,
                                  weft_window_t *out) {
  WEFT_RETURN_IF_ERROR(weft_window_plan(a, dim, in, k, out));
  if (a->padding == WEFT_PADDING_SAME) out->before = ((out->out - 1) * out->stride + k - in) / 2;
  return NULL;
}

static weft_status_t *plan(const weft_window_attrs_t *a, const weft_shape_t *x, const weft_shape_t *f,
                           weft_conv_t *v) {
  if (x->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be 4-dimensional: %s", WEFT_SHAPE_TEXT(x));
  if (f->rank != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "filter must be 4-dimensional: %s", WEFT_SHAPE_TEXT(f));
  if (x->dims[3] != f->dims[2]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      x->dims[3], f->dims[2]);
  }
  *v = (weft_conv_t){
      .dtype = WEFT_I32, .n = x->dims[0], .c = x->dims[3], .cg = x->dims[3], .oc = f->dims[3], .groups = 1};
  v->s[0] = WEFT_WINDOW_ONE;
  for (int d = 1; d < WEFT_SPACE; d++)
    WEFT_RETURN_IF_ERROR(plan_window(a, d, x->dims[d], f->dims[d - 1], &v->s[d]));
  if (v->n > 0 && v->s[1].out > 0 && v->s[2].out > 0 && v->oc > 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "the result of QuantizedConv2D must have elements");
}

static weft_status_t *conv(weft_kernel_ctx_t *c) {
  const weft_tensor_t *x = weft_in(c, 0), *f = weft_in(c, 1);
  weft_range_t rx, rf;
  weft_conv_t v;
  weft_tensor_t *y = NULL;
  int32_t *wide[2] = {NULL, NULL};
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 2, &rx));
  WEFT_RETURN_IF_ERROR(weft_range_input(c, 4, &rf));
  WEFT_RETURN_IF_ERROR(plan(c->state, &x->shape, &f->shape, &v));
  const weft_shape_t shape = {.rank = 4, .dims = {v.n, v.s[1].out, v.s[2].out, v.oc}};
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_QINT32, &shape, &y));
  weft_status_t *s = factors(c, rx, rf, wide);
  if (s == NULL) s = weft_conv_forward(c->device->pool, &v, wide[0], wide[1], y->data);
  weft_free(wide[0]);
  weft_free(wide[1]);
  return s != NULL ? s : product_range(c, rx, rf);
}

static weft_status_t *conv_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *strides = weft_knode_attr(setup, "strides");
  if (strides->n != 4)
    return WEFT_ERROR(INVALID_ARGUMENT, "Sliding window strides field must specify 4 dimensions");
  const int64_t *v = strides->list.ints;
  if (v[1] != v[2]) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Current implementation only supports equal length strides in the row and column dimensions.");
  }
  WEFT_RETURN_IF_ERROR(weft_strict_conv_prepare(setup, out_state));
  weft_window_attrs_t *a = *out_state;
  for (int d = 0; d < WEFT_SPACE; d++) a->dilation[d] = 1; /* which TensorFlow does not read */
  return NULL;
}

#define QUINT8 WEFT_DTYPE_BIT(WEFT_QUINT8)
const weft_kernel_t weft_cpu_quantize_product_kernels[] = {
    WEFT_KERNEL2("QuantizedConv2D", "Tinput", QUINT8, "Tfilter", QUINT8, conv_prepare, conv, weft_free),
    {.op = "QuantizedMatMul",
     .type_attr = "T1",
     .types = QUINT8,
     .type_attr2 = "T2",
     .types2 = QUINT8,
     WEFT_COMPUTE(matmul)},
    {0},
};
