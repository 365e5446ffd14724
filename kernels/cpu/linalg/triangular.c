/* kernels/cpu/linalg/triangular.c - triangular equations, dense and banded, whose batch dimensions broadcast.
 */
#include "kernels/cpu/loops/broadcast.h"

#define EACH_FILE "kernels/cpu/linalg/triangular.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"

typedef weft_status_t *one_fn(const weft_linalg_flags_t *f, int64_t bands, int64_t n, int64_t m,
                              const void *a, const void *b, void *x);

/* The param of a row. */
typedef struct triangular {
  bool is_banded;
  one_fn *fns[4];
} triangular_t;

static const triangular_t dense = {false, WEFT_LINALG_FNS(triangular_one)};
static const triangular_t banded = {true, WEFT_LINALG_FNS(banded_one)};

typedef struct job {
  const weft_linalg_flags_t *flags;
  one_fn *fn;
  int64_t bands, n, m;
  size_t a_bytes, b_bytes; /* of a matrix */
  const char *a, *b;
  char *x;
  weft_status_t *_Atomic status;
} job_t;

static void run(void *arg, int64_t count, int64_t out_at, const int64_t *at, const int *step) {
  job_t *j = arg;
  for (int64_t i = 0; i < count; i++) {
    weft_status_t *none = NULL, *s = j->fn(j->flags, j->bands, j->n, j->m,
                                           j->a + (size_t)(at[0] + i * step[0]) * j->a_bytes,
                                           j->b + (size_t)(at[1] + i * step[1]) * j->b_bytes,
                                           j->x + (size_t)(out_at + i) * j->b_bytes);
    if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
  }
}

static weft_status_t *check(const triangular_t *t, const weft_tensor_t *a, const weft_tensor_t *b) {
  const weft_tensor_t *args[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    if (args[i]->shape.rank < 2)
      return WEFT_ERROR(INVALID_ARGUMENT, "In[%d] ndims must be >= 2: %d", i, args[i]->shape.rank);
  }
  const int64_t *ad = &a->shape.dims[a->shape.rank - 2];
  for (int i = 0; i < 2 && t->is_banded; i++) {
    if (args[i]->count == 0)
      return WEFT_ERROR(INVALID_ARGUMENT, "In[%d] must not be an empty tensor: %s", i,
                        WEFT_SHAPE_TEXT(&args[i]->shape));
  }
  if (!t->is_banded && ad[0] != ad[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "In[0] matrices in the last dimensions must be square (%lld =/= %lld)",
                      (long long)ad[1], (long long)ad[0]);
  }
  return NULL;
}

/* TensorFlow looks at the diagonal of the first matrix of a batch. */
static weft_status_t *check_bands(const job_t *j, int index, const weft_tensor_t *a) {
  bool (*const has_diagonal[4])(const weft_linalg_flags_t *, int64_t, int64_t, const void *) =
      WEFT_LINALG_FNS(has_band_diagonal);
  if (has_diagonal[index](j->flags, j->bands, j->n, a->data)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Input matrix is not invertible.");
}

static weft_status_t *triangular_compute(weft_kernel_ctx_t *ctx) {
  const triangular_t *t = ctx->node->param;
  weft_tensor_t *a = weft_in(ctx, 0), *b = weft_in(ctx, 1), *x = NULL;
  WEFT_RETURN_IF_ERROR(check(t, a, b));
  weft_shape_t a_batch = a->shape, b_batch = b->shape;
  a_batch.rank -= 2;
  b_batch.rank -= 2;
  const weft_shape_t *batches[2] = {&a_batch, &b_batch};
  weft_broadcast_t batch;
  if (!weft_broadcast_init(&batch, batches, 2)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] and In[1] must have compatible batch dimensions: %s vs. %s",
                      WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  const int64_t *ad = &a->shape.dims[a_batch.rank], *bd = &b->shape.dims[b_batch.rank];
  if (ad[1] != bd[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] mismatch In[1] shape: %lld vs. %lld: %s %s", (long long)ad[1],
                      (long long)bd[0], WEFT_SHAPE_TEXT(&a->shape), WEFT_SHAPE_TEXT(&b->shape));
  }
  weft_shape_t shape = batch.shape;
  if (shape.rank + 2 > WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
  shape.dims[shape.rank++] = bd[0];
  shape.dims[shape.rank++] = bd[1];
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, a->dtype, &shape, &x));
  if (x->count == 0) return NULL;
  size_t size = weft_dtype_size(a->dtype);
  int index = weft_linalg_index(a->dtype);
  job_t j = {.flags = ctx->state,
             .fn = t->fns[index],
             .bands = ad[0],
             .n = bd[0],
             .m = bd[1],
             .a_bytes = (size_t)(ad[0] * ad[1]) * size,
             .b_bytes = (size_t)(bd[0] * bd[1]) * size,
             .a = a->data,
             .b = b->data,
             .x = x->data};
  if (t->is_banded) WEFT_RETURN_IF_ERROR(check_bands(&j, index, a));
  double work = (double)ad[0] * (double)ad[1] * (double)bd[1];
  weft_broadcast_run(&batch, ctx->device->pool, (int64_t)(WEFT_CPU_GRAIN / work) + 1, run, &j);
  return atomic_load(&j.status);
}

#define ROW(op_, param_)                                                                     \
  {                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_LINALG_TYPES, .prepare = weft_linalg_prepare, \
    .compute = triangular_compute, .destroy = weft_free, .param = param_                     \
  }
const weft_kernel_t weft_cpu_triangular_kernels[] = {
    ROW("BandedTriangularSolve", &banded),
    {.op = "BatchMatrixTriangularSolve",
     .type_attr = "T",
     .types = WEFT_LINALG_REAL,
     .prepare = weft_linalg_prepare,
     .compute = triangular_compute,
     .destroy = weft_free,
     .param = &dense},
    ROW("MatrixTriangularSolve", &dense),
    {0},
};
