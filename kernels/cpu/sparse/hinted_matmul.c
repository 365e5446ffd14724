/* kernels/cpu/sparse/hinted_matmul.c - SparseMatMul: a product of dense matrices of which one, as a hint
 * says, has many zeros.
 *
 * Zeros of that one are skipped, also where they meet an infinity; of two it is the first. Without a hint it
 * is a plain product. Operands are float or bfloat16, sums and product float.
 */
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/math/gemm.h"
#include "kernels/cpu/sparse/sparse.h"

WEFT_ATTRS(hinted_compute, (BOOL, transpose_a), (BOOL, transpose_b), (BOOL, a_is_sparse), (BOOL, b_is_sparse))

/* One operand in float: element [i, j] of op(x) is data[i * row + j * column]. */
typedef struct hinted_operand {
  const float *data;
  int64_t row, column;
} hinted_operand_t;

typedef struct hinted_product {
  hinted_operand_t a, b;
  float *out; /* [m, n] */
  int64_t n, k;
  bool skips_b; /* zeros of b rather than a */
} hinted_product_t;

static hinted_operand_t operand_of(const weft_tensor_t *t, bool is_transposed) {
  int64_t width = t->shape.dims[1];
  return is_transposed ? (hinted_operand_t){t->data, 1, width} : (hinted_operand_t){t->data, width, 1};
}

static void multiply_rows(void *arg, int64_t begin, int64_t end) {
  const hinted_product_t *p = arg;
  for (int64_t i = begin; i < end; i++) {
    float *out = p->out + i * p->n;
    memset(out, 0, (size_t)p->n * sizeof *out);
    for (int64_t k = 0; k < p->k; k++) {
      float a = p->a.data[i * p->a.row + k * p->a.column];
      const float *b = p->b.data + k * p->b.row;
      if (!p->skips_b && a == 0) continue;
      for (int64_t j = 0; j < p->n; j++) {
        float v = b[j * p->b.column];
        if (!p->skips_b || v != 0) out[j] += a * v;
      }
    }
  }
}

static weft_status_t *multiply(weft_kernel_ctx_t *ctx, const hinted_compute_attrs_t *attrs,
                               const weft_tensor_t *a, const weft_tensor_t *b, int64_t k,
                               weft_tensor_t *out) {
  int64_t m = out->shape.dims[0], n = out->shape.dims[1];
  if (!attrs->a_is_sparse && !attrs->b_is_sparse) {
    return weft_gemm(ctx->device->pool, WEFT_F32, attrs->transpose_a ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN,
                     attrs->transpose_b ? WEFT_GEMM_TRANSPOSED : WEFT_GEMM_PLAIN, m, n, k, a->data,
                     a->shape.dims[1], b->data, b->shape.dims[1], out->data, n, false);
  }
  hinted_product_t p = {.a = operand_of(a, attrs->transpose_a),
                        .b = operand_of(b, attrs->transpose_b),
                        .out = out->data,
                        .n = n,
                        .k = k,
                        .skips_b = !attrs->a_is_sparse};
  if (n > 0) weft_parallel_for(ctx->device->pool, m, 1 + WEFT_CPU_GRAIN / (1 + n * k), multiply_rows, &p);
  return NULL;
}

static weft_status_t *hinted_compute(weft_kernel_ctx_t *ctx, const hinted_compute_attrs_t *attrs) {
  const weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1);
  if (!weft_is_matrix(a)) return WEFT_ERROR(INVALID_ARGUMENT, "a is not a matrix");
  if (!weft_is_matrix(b)) return WEFT_ERROR(INVALID_ARGUMENT, "b is not a matrix");
  int64_t k = a->shape.dims[attrs->transpose_a ? 0 : 1];
  if (k != b->shape.dims[attrs->transpose_b ? 1 : 0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Matrix size incompatible: a: %s, b: %s", WEFT_SHAPE_TEXT(&a->shape),
                      WEFT_SHAPE_TEXT(&b->shape));
  }
  weft_shape_t shape;
  weft_tensor_t *out = NULL, *wide_a = NULL, *wide_b = NULL;
  WEFT_RETURN_IF_ERROR(weft_shape_make(
      (int64_t[]){a->shape.dims[attrs->transpose_a ? 1 : 0], b->shape.dims[attrs->transpose_b ? 0 : 1]}, 2,
      &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_F32, &shape, &out));
  weft_status_t *s = weft_cpu_cast(ctx, a, WEFT_F32, &wide_a);
  if (s == NULL) s = weft_cpu_cast(ctx, b, WEFT_F32, &wide_b);
  if (s == NULL) s = multiply(ctx, attrs, wide_a, wide_b, k, out);
  weft_tensor_release(wide_a);
  weft_tensor_release(wide_b);
  return s;
}

const weft_kernel_t weft_cpu_hinted_matmul_kernels[] = {
    {.op = "SparseMatMul", WEFT_COMPUTE(hinted_compute)},
    {0},
};
