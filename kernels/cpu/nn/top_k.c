/* kernels/cpu/nn/top_k.c - TopK, TopKV2, InTopK, InTopKV2. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"

#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/nn/top_k_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
typedef void top_k_fn(const void *row, int64_t n, int64_t k, bool sorted, int64_t *heap);
static top_k_fn *const fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM top_k
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
};
#include "tensor/undef_each.tmpl.h"

typedef struct top_k_job {
  const weft_tensor_t *x;
  weft_tensor_t *values, *indices;
  int64_t n, k;
  bool sorted;
  atomic_bool failed;
} top_k_job_t;

static void put_index(weft_tensor_t *t, int64_t i, int64_t v) {
  switch (t->dtype) {
    case WEFT_I16: ((int16_t *)t->data)[i] = (int16_t)v; break;
    case WEFT_I64: ((int64_t *)t->data)[i] = v; break;
    default: ((int32_t *)t->data)[i] = (int32_t)v; break;
  }
}

static void rows_range(void *arg, int64_t begin, int64_t end) {
  top_k_job_t *j = arg;
  size_t size = weft_dtype_size(j->x->dtype);
  int64_t *heap = weft_calloc((size_t)j->k + (j->k == j->n ? (size_t)j->n : 1), sizeof *heap);
  if (heap == NULL) {
    atomic_store(&j->failed, true);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    const char *row = (const char *)j->x->data + (size_t)(r * j->n) * size;
    fns[j->x->dtype](row, j->n, j->k, j->sorted, heap);
    for (int64_t i = 0; i < j->k; i++) {
      memcpy((char *)j->values->data + (size_t)(r * j->k + i) * size, row + (size_t)heap[i] * size, size);
      put_index(j->indices, r * j->k + i, heap[i]);
    }
  }
  weft_free(heap);
}

static weft_status_t *top_k(weft_kernel_ctx_t *ctx, int64_t k, bool sorted) {
  weft_tensor_t *x = weft_in(ctx, 0);
  if (k < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Need k >= 0, got %" PRId64, k);
  if (x->shape.rank < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "input must be >= 1-D, got shape %s", WEFT_SHAPE_TEXT(&x->shape));
  }
  top_k_job_t j = {.x = x, .n = x->shape.dims[x->shape.rank - 1], .k = k, .sorted = sorted};
  if (j.n < k) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input must have at least k columns. Had %" PRId64 ", needed %" PRId64, j.n, k);
  }
  weft_shape_t shape = x->shape;
  shape.dims[shape.rank - 1] = k;
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, x->dtype, &shape, &j.values));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 1, weft_dtype_base(ctx->node->output_types[1]), &shape, &j.indices));
  if (j.values->count == 0) return NULL;
  int64_t rows = x->count / j.n, grain = WEFT_CPU_GRAIN / 4 / j.n + 1;
  weft_parallel_for(rows > grain ? ctx->device->pool : NULL, rows, grain, rows_range, &j);
  return atomic_load(&j.failed) ? WEFT_NO_MEMORY("TopK") : NULL;
}

WEFT_ATTRS(top_k_compute, (BOOL, sorted), (INT, k))
static weft_status_t *top_k_compute(weft_kernel_ctx_t *ctx, const top_k_compute_attrs_t *attrs) {
  return top_k(ctx, attrs->k, attrs->sorted);
}

WEFT_ATTRS(top_k_v2_compute, (BOOL, sorted))
static weft_status_t *top_k_v2_compute(weft_kernel_ctx_t *ctx, const top_k_v2_compute_attrs_t *attrs) {
  weft_tensor_t *k = weft_in(ctx, 1);
  if (k->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "k must be scalar, got shape %s", WEFT_SHAPE_TEXT(&k->shape));
  }
  return top_k(ctx, weft_cpu_int_at(k, 0), attrs->sorted);
}

/* Exact on the CPU, as in TensorFlow, which has a kernel for these attributes alone. */
WEFT_ATTRS(approx_top_k_compute, (INT, k), (INT, reduction_dimension), (BOOL, is_max_k))
static weft_status_t *approx_top_k_compute(weft_kernel_ctx_t *ctx,
                                           const approx_top_k_compute_attrs_t *attrs) {
  if (attrs->is_max_k && attrs->reduction_dimension == -1) return top_k(ctx, attrs->k, true);
  return WEFT_ERROR(UNIMPLEMENTED, "ApproxTopK on the CPU takes maxima along the last dimension only");
}

/* ---- InTopK: do fewer than k predictions beat the target's? ---- */

static weft_status_t *in_top_k(weft_kernel_ctx_t *ctx, int64_t k) {
  weft_tensor_t *predictions = weft_in(ctx, 0), *targets = weft_in(ctx, 1), *out = NULL;
  if (predictions->shape.rank != 2) return WEFT_ERROR(INVALID_ARGUMENT, "predictions must be 2-dimensional");
  if (targets->shape.rank != 1) return WEFT_ERROR(INVALID_ARGUMENT, "targets must be 1-dimensional");
  int64_t rows = predictions->shape.dims[0], classes = predictions->shape.dims[1];
  if (rows != targets->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "First dimension of predictions %" PRId64 " must match length of targets %" PRId64,
                      rows, targets->count);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_BOOL, &targets->shape, &out));
  for (int64_t r = 0; r < rows; r++) {
    const float *row = (const float *)predictions->data + r * classes;
    int64_t target = weft_cpu_int_at(targets, r), better = 0;
    bool can_say = target >= 0 && target < classes && isfinite(row[target]);
    for (int64_t c = 0; can_say && c < classes && better <= k; c++) {
      if (!isfinite(row[c])) {
        can_say = false;
      } else if (row[c] > row[target]) {
        better++;
      }
    }
    ((uint8_t *)out->data)[r] = can_say && better < k;
  }
  return NULL;
}

WEFT_ATTRS(in_top_k_compute, (INT, k))
static weft_status_t *in_top_k_compute(weft_kernel_ctx_t *ctx, const in_top_k_compute_attrs_t *attrs) {
  return in_top_k(ctx, attrs->k);
}
static weft_status_t *in_top_k_v2_compute(weft_kernel_ctx_t *ctx) {
  weft_tensor_t *k = weft_in(ctx, 2);
  if (k->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "k must be 0-D, got shape %s", WEFT_SHAPE_TEXT(&k->shape));
  }
  return in_top_k(ctx, weft_cpu_int_at(k, 0));
}

const weft_kernel_t weft_cpu_top_k_kernels[] = {
    WEFT_KERNEL_ATTRS("ApproxTopK", "T", WEFT_SET_FLOATS & ~WEFT_DTYPE_BIT(WEFT_F64), approx_top_k_compute),
    WEFT_KERNEL_ATTRS("InTopK", NULL, 0, in_top_k_compute),
    WEFT_KERNEL("InTopKV2", NULL, 0, NULL, in_top_k_v2_compute, NULL),
    WEFT_KERNEL_ATTRS("TopK", "T", WEFT_SET_REAL, top_k_compute),
    WEFT_KERNEL_ATTRS("TopKV2", "T", WEFT_SET_REAL, top_k_v2_compute),
    {0},
};
