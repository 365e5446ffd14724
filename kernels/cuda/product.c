/* kernels/cuda/product.c - see the header. */
#include "kernels/cuda/product.h"

/* Dimension d of the `rank` batch dimensions of v; 1 where it has none. */
static int64_t batch_dim(const WEFT_TensorView *v, int rank, int d) {
  const int own = d - (rank - (v->rank - 2));
  return own < 0 ? 1 : v->dims[own];
}

bool weft_cuda_batches_line_up(const WEFT_TensorView *operands, int num_operands, weft_cuda_batches_t *out) {
  *out = (weft_cuda_batches_t){.num_operands = num_operands};
  for (int k = 0; k < num_operands; k++) {
    if (operands[k].rank > WEFT_CUDA_DIMS) return false;
    if (operands[k].rank - 2 > out->rank) out->rank = operands[k].rank - 2;
  }
  for (int d = 0; d < out->rank; d++) {
    out->dims[d] = 1;
    for (int k = 0; k < num_operands; k++) {
      const int64_t dim = batch_dim(&operands[k], out->rank, d);
      if (dim != 1 && out->dims[d] != 1 && out->dims[d] != dim) return false;
      if (dim != 1) out->dims[d] = dim;
    }
  }
  for (int k = 0; k < num_operands; k++) {
    int64_t step = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
      const int64_t dim = batch_dim(&operands[k], out->rank, d);
      out->steps[k][d] = dim == 1 ? 0 : step;
      step *= dim;
    }
  }
  return true;
}

/* Does dimension d go on as `repeats` and `dense` say of the dimensions behind it? */
static bool joins(const weft_cuda_batches_t *b, int d, const bool *repeats, int64_t dense, bool is_first) {
  for (int k = 0; k < b->num_operands; k++) {
    const bool same = b->steps[k][d] == 0;
    if ((!is_first && same != repeats[k]) || (!same && b->steps[k][d] != dense)) return false;
  }
  return true;
}

int weft_cuda_batches_run(const weft_cuda_batches_t *b) {
  bool repeats[WEFT_CUDA_PRODUCT_OPERANDS] = {false}, is_first = true;
  int64_t dense = 1;
  int d = b->rank;
  for (; d > 0; d--) {
    if (b->dims[d - 1] == 1) continue;
    if (!joins(b, d - 1, repeats, dense, is_first)) break;
    for (int k = 0; k < b->num_operands; k++) repeats[k] = b->steps[k][d - 1] == 0;
    is_first = false;
    dense *= b->dims[d - 1];
  }
  return d;
}

void weft_cuda_batches_place(const weft_cuda_batches_t *b, int end, int64_t i,
                             int64_t at[WEFT_CUDA_PRODUCT_OPERANDS]) {
  for (int k = 0; k < b->num_operands; k++) at[k] = 0;
  for (int d = end - 1; d >= 0; d--) {
    const int64_t index = i % b->dims[d];
    i /= b->dims[d];
    for (int k = 0; k < b->num_operands; k++) at[k] += index * b->steps[k][d];
  }
}

bool weft_cuda_batches_repeat(const weft_cuda_batches_t *b, int end, int k) {
  for (int d = end; d < b->rank; d++) {
    if (b->steps[k][d] != 0) return false;
  }
  return true;
}

WEFT_Failure *weft_cuda_multiply_batches(WEFT_KernelContext *c, const weft_cuda_batches_t *b,
                                         weft_cuda_product_t *p, const char *x, const char *y, char *out) {
  const int end = weft_cuda_batches_run(b);
  const int64_t num_runs = weft_cuda_product(b->dims, 0, end);
  const int64_t size = (int64_t)weft_cuda_size(p->dtype);
  weft_cuda_workspace_t workspace = {.at = NULL};
  if (p->workspace == NULL) p->workspace = &workspace;
  p->batch = weft_cuda_product(b->dims, end, b->rank);
  p->same_a = p->batch > 1 && weft_cuda_batches_repeat(b, end, 0);
  p->same_b = p->batch > 1 && weft_cuda_batches_repeat(b, end, 1);
  const int64_t a_bytes = p->m * p->k * size, b_bytes = p->k * p->n * size,
                out_bytes = p->batch * p->m * p->n * size;
  if (p->same_b && !p->same_a && !p->transpose_a) { /* one tall product */
    p->m *= p->batch;
    p->batch = 1;
    p->same_b = false;
  }
  for (int64_t i = 0; i < num_runs; i++) {
    int64_t at[WEFT_CUDA_PRODUCT_OPERANDS];
    weft_cuda_batches_place(b, end, i, at);
    WEFT_CUDA_TRY(weft_cuda_multiply(c, p, x + at[0] * a_bytes, y + at[1] * b_bytes, out + i * out_bytes));
  }
  return NULL;
}
