/* kernels/cuda/hinted_matmul.c - the row of SparseMatMul. */
#include "base/alloc.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/hinted_matmul_args.h"
#include "kernels/cuda/kernels.h"

/* [a is bfloat16][b is bfloat16] */
static weft_cuda_function_t functions[2][2] = {
    {WEFT_CUDA_FUNCTION("weft_hinted_f32_f32"), WEFT_CUDA_FUNCTION("weft_hinted_f32_bf16")},
    {WEFT_CUDA_FUNCTION("weft_hinted_bf16_f32"), WEFT_CUDA_FUNCTION("weft_hinted_bf16_bf16")}};

/* The state. */
typedef struct hinted_flags {
  int transpose_a, transpose_b, a_is_sparse, b_is_sparse;
} hinted_flags_t;

static WEFT_Failure *prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  hinted_flags_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a product");
  (void)weft_cuda_host->attr_bool(s, "transpose_a", &f->transpose_a);
  (void)weft_cuda_host->attr_bool(s, "transpose_b", &f->transpose_b);
  (void)weft_cuda_host->attr_bool(s, "a_is_sparse", &f->a_is_sparse);
  (void)weft_cuda_host->attr_bool(s, "b_is_sparse", &f->b_is_sparse);
  *out = f;
  return NULL;
}

static WEFT_Failure *multiply(WEFT_KernelContext *c) {
  const hinted_flags_t *f = weft_cuda_host->state(c);
  WEFT_TensorView a, b, y;
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, 1, &b);
  if (a.rank != 2) return WEFT_CUDA_INVALID("a is not a matrix");
  if (b.rank != 2) return WEFT_CUDA_INVALID("b is not a matrix");
  weft_cuda_hinted_t p = {.m = a.dims[f->transpose_a],
                          .k = a.dims[!f->transpose_a],
                          .n = b.dims[!f->transpose_b],
                          .a_row = f->transpose_a ? 1 : a.dims[1],
                          .a_column = f->transpose_a ? a.dims[1] : 1,
                          .b_row = f->transpose_b ? 1 : b.dims[1],
                          .b_column = f->transpose_b ? b.dims[1] : 1,
                          .skips_a = f->a_is_sparse,
                          .skips_b = f->b_is_sparse && !f->a_is_sparse};
  if (p.k != b.dims[f->transpose_b]) {
    return WEFT_CUDA_INVALID("Matrix size incompatible: a: %s, b: %s", WEFT_CUDA_SHAPE(&a),
                             WEFT_CUDA_SHAPE(&b));
  }
  const int64_t dims[2] = {p.m, p.n}, tile = WEFT_CUDA_HINTED_TILE;
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &y));
  if (y.count == 0) return NULL;
  const int64_t tiles = ((p.m + tile - 1) / tile) * ((p.n + tile - 1) / tile),
                most = 16 * (int64_t)weft_cuda_num_processors(c);
  const weft_cuda_geometry_t g = {.grid = {(unsigned)(tiles < most ? tiles : most), 1, 1},
                                  .block = {WEFT_CUDA_HINTED_TILE * WEFT_CUDA_HINTED_TILE, 1, 1}};
  void *args[] = {&a.data, &b.data, &y.data, &p};
  return weft_cuda_launch(c, &functions[a.dtype == WEFT_CUDA_bf16][b.dtype == WEFT_CUDA_bf16], &g, args);
}

const WEFT_DeviceKernel weft_cuda_hinted_matmul_kernels[] = {
    {.op = "SparseMatMul",
     .type_attr = "Ta",
     .types = WEFT_CUDA_SET(F32_BF16),
     .type_attr2 = "Tb",
     .types2 = WEFT_CUDA_SET(F32_BF16),
     .prepare = prepare,
     .compute = multiply,
     .destroy = weft_free},
    {.op = NULL},
};
