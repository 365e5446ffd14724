/* kernels/cpu/math/matmul.c - MatMul, and BatchMatMul with and without broadcasting of the batch dimensions.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/math/batch_product.h"

/* The param of a row. */
typedef struct matmul_product {
  const char *flip_a, *flip_b; /* attributes */
  weft_gemm_op_t flipped;
  bool broadcasts; /* the batch dimensions of V2 and V3 */
} matmul_product_t;

static const matmul_product_t plain = {"transpose_a", "transpose_b", WEFT_GEMM_TRANSPOSED, false};
static const matmul_product_t batch = {"adj_x", "adj_y", WEFT_GEMM_ADJOINT, false};
static const matmul_product_t batch_broadcast = {"adj_x", "adj_y", WEFT_GEMM_ADJOINT, true};

typedef struct matmul_state {
  weft_gemm_op_t op_a, op_b;
  bool broadcasts;
  weft_dtype_t out;  /* V3 may widen */
  weft_kept_t *kept; /* owned; panels of the second matrix; NULL: it may be another one each time */
} matmul_state_t;

static void destroy(void *state) {
  matmul_state_t *s = state;
  if (s != NULL) weft_kept_destroy(s->kept);
  weft_free(s);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  matmul_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  const matmul_product_t *p = setup->node.param;
  s->op_a = weft_knode_bool(setup, p->flip_a) ? p->flipped : WEFT_GEMM_PLAIN;
  s->op_b = weft_knode_bool(setup, p->flip_b) ? p->flipped : WEFT_GEMM_PLAIN;
  s->broadcasts = p->broadcasts;
  s->out = weft_dtype_base(setup->node.output_types[0]);
  weft_status_t *status = weft_kept_may_keep(setup, 1) ? weft_kept_create(&s->kept) : NULL;
  if (status != NULL) {
    weft_free(s);
    return status;
  }
  *out_state = s;
  return NULL;
}

static weft_status_t *matmul_compute(weft_kernel_ctx_t *ctx) {
  const matmul_state_t *s = ctx->state;
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1), *c = NULL;
  if (a->shape.rank != b->shape.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] has different ndims: %s vs. %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  if (a->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] ndims must be == 2: %d", a->shape.rank);
  }
  bool ta = s->op_a != WEFT_GEMM_PLAIN, tb = s->op_b != WEFT_GEMM_PLAIN;
  int64_t m = a->shape.dims[ta], k = a->shape.dims[!ta], n = b->shape.dims[!tb];
  if (b->shape.dims[tb] != k) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Matrix size-incompatible: In[0]: %s, In[1]: %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  weft_shape_t shape = weft_shape_matrix(m, n);
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, a->dtype, &shape, &c));
  return weft_gemm_kept(ctx->device->pool, a->dtype, s->op_a, s->op_b, m, n, k, a->data, a->shape.dims[1], b,
                        c->data, n, s->kept);
}

/* ---- batches ---- */

/* A matrix b for all rows of a, whose batch is then no more than rows: b is read once. An element of c has
 * the same bits (kernels/cpu/math/tiles.h), but where OpenBLAS computes it. */
static bool is_one_product(const weft_batch_product_t *p, const weft_tensor_t *b) {
  return p->op_a == WEFT_GEMM_PLAIN && p->op_b == WEFT_GEMM_PLAIN && b->shape.rank == 2 &&
         p->count <= INT32_MAX / (p->m + 1);
}

/* Both operands are of type s->out. */
static weft_status_t *batch_product(weft_kernel_ctx_t *ctx, const weft_batch_product_t *p,
                                    const weft_tensor_t *a, weft_tensor_t *b) {
  const matmul_state_t *s = ctx->state;
  weft_thread_pool_t *pool = ctx->device->pool;
  weft_tensor_t *c = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, a->dtype, &p->shape, &c));
  if (!is_one_product(p, b)) return weft_batch_product_run(p, pool, a->dtype, a->data, b->data, c->data);
  weft_kept_t *kept = b == weft_in(ctx, 1) ? s->kept : NULL; /* not what was converted */
  return weft_gemm_kept(pool, a->dtype, p->op_a, p->op_b, p->count * p->m, p->n, p->k, a->data, p->lda, b,
                        c->data, p->n, kept);
}

static weft_status_t *batch_compute(weft_kernel_ctx_t *ctx) {
  const matmul_state_t *s = ctx->state;
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1), *wide_a = NULL, *wide_b = NULL;
  weft_batch_product_t p;
  WEFT_RETURN_IF_ERROR(weft_batch_product_plan(s->op_a, s->op_b, s->broadcasts, &a->shape, &b->shape, &p));
  weft_status_t *status = NULL;
  if (a->dtype != s->out) status = weft_cpu_cast(ctx, a, s->out, &wide_a);
  if (status == NULL && b->dtype != s->out) status = weft_cpu_cast(ctx, b, s->out, &wide_b);
  if (status == NULL)
    status = batch_product(ctx, &p, wide_a != NULL ? wide_a : a, wide_b != NULL ? wide_b : b);
  weft_tensor_release(wide_a);
  weft_tensor_release(wide_b);
  return status;
}

#define U8 WEFT_DTYPE_BIT(WEFT_U8)
#define V2_TYPES (WEFT_SET_NUMBERS & ~WEFT_DTYPE_BIT(WEFT_I8))
#define V3_TYPES (WEFT_SET_FIELD | WEFT_SET_SIGNED | U8)
#define PRODUCT(op_, types_, fn, param_, ...)                                                           \
  {                                                                                                     \
    .op = op_, .types = types_, .prepare = prepare, .compute = fn, .destroy = destroy, .param = param_, \
    __VA_ARGS__                                                                                         \
  }
const weft_kernel_t weft_cpu_matmul_kernels[] = {
    PRODUCT("BatchMatMul", WEFT_SET_FIELD | WEFT_SET_INDEX, batch_compute, &batch, .type_attr = "T"),
    PRODUCT("BatchMatMulV2", V2_TYPES, batch_compute, &batch_broadcast, .type_attr = "T"),
    PRODUCT("BatchMatMulV3", V3_TYPES, batch_compute, &batch_broadcast, .type_attr = "Ta", .type_attr2 = "Tb",
            .types2 = V3_TYPES),
    PRODUCT("MatMul", WEFT_SET_FIELD | WEFT_SET_INDEX | WEFT_SET_UNSIGNED, matmul_compute, &plain,
            .type_attr = "T"),
    {0},
};
