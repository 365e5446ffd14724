/* kernels/cpu/array/sorted_bound.c - LowerBound, UpperBound: places of values in sorted rows, by bisection.
 *
 * A row that is not sorted, or has a NaN, gives what the steps of the standard library's functions give, as
 * in TensorFlow. Of a sorted row any steps give the same. */
#include "kernels/cpu/loops/common.h"

enum {
  SEARCHES = 8,       /* searches side by side */
  BOUND_BLOCK = 1024, /* values of a row at a time: their places are kept as int64 */
  WORTH_A_LOOK = 32,  /* elements of a row that are compared in the time of a search */
};

/* The places of `count` values in a row of n elements, n > 0. */
typedef void bound_fn(const void *sorted, int64_t n, const void *values, int64_t count, bool is_upper,
                      int64_t *out);
#define EACH_HALFS
#define EACH_FLOATS
#define EACH_I32_I64
#define EACH_I8_I16
#define EACH_UNSIGNED
#define EACH_FILE "kernels/cpu/array/sorted_bound_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
static bound_fn *const bound_fns[WEFT_DTYPE_COUNT] = {
#define MAP_STEM bound
#define EACH_FILE "tensor/dtype_entry.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#undef MAP_STEM
};
#include "tensor/undef_each.tmpl.h"

static weft_status_t *check_rank(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank == 2) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape must be rank 2 but is rank %d for `%s` argument", t->shape.rank,
                    what);
}

typedef struct bound_job {
  const weft_tensor_t *sorted, *values;
  weft_tensor_t *out;
  int64_t n, width; /* of a row of either */
  bool is_upper;
} bound_job_t;

static void put_places(const bound_job_t *j, int64_t to, int64_t n, const int64_t *places) {
  if (j->out->dtype == WEFT_I64) {
    memcpy((int64_t *)j->out->data + to, places, (size_t)n * sizeof *places);
  } else {
    for (int64_t i = 0; i < n; i++) ((int32_t *)j->out->data)[to + i] = (int32_t)places[i];
  }
}

/* Values [begin, end) of all rows. */
static void bound_range(void *arg, int64_t begin, int64_t end) {
  const bound_job_t *j = arg;
  const size_t size = weft_dtype_size(j->sorted->dtype);
  int64_t places[BOUND_BLOCK];
  for (int64_t i = begin, m = 0; i < end; i += m) {
    const int64_t row = i / j->width, row_end = (row + 1) * j->width < end ? (row + 1) * j->width : end;
    m = row_end - i < BOUND_BLOCK ? row_end - i : BOUND_BLOCK;
    bound_fns[j->sorted->dtype]((const char *)j->sorted->data + (size_t)(row * j->n) * size, j->n,
                                (const char *)j->values->data + (size_t)i * size, m, j->is_upper, places);
    put_places(j, i, m, places);
  }
}

static weft_status_t *sorted_bound(weft_kernel_ctx_t *ctx) {
  const weft_tensor_t *sorted = weft_in(ctx, 0), *values = weft_in(ctx, 1);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(check_rank(sorted, "sorted_inputs"));
  WEFT_RETURN_IF_ERROR(check_rank(values, "values"));
  if (sorted->shape.dims[0] != values->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Leading dim_size of both tensors must match.");
  }
  const weft_dtype_t dtype = weft_dtype_base(ctx->node->output_types[0]);
  bound_job_t j = {.sorted = sorted,
                   .values = values,
                   .n = sorted->shape.dims[1],
                   .width = values->shape.dims[1],
                   .is_upper = *(const bool *)ctx->node->param};
  if (values->count >= INT32_MAX || (dtype == WEFT_I32 && j.n >= INT32_MAX)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "values tensor size must less than INT_MAX");
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, dtype, &values->shape, &out));
  j.out = out;
  if (j.n == 0) { /* all in front of nothing */
    weft_cpu_zero(out);
    return NULL;
  }
  weft_parallel_for(ctx->device->pool, values->count, WEFT_CPU_GRAIN / 16, bound_range, &j);
  return NULL;
}

#define BOUND(op_, is_upper)                                                                                 \
  {                                                                                                          \
    .op = op_, .type_attr = "T", .types = WEFT_SET_REAL, .type_attr2 = "out_type", .types2 = WEFT_SET_INDEX, \
    .compute = sorted_bound, .param = &(const bool) {                                                        \
      is_upper                                                                                               \
    }                                                                                                        \
  }
const weft_kernel_t weft_cpu_sorted_bound_kernels[] = {
    BOUND("LowerBound", false),
    BOUND("UpperBound", true),
    {0},
};
