/* kernels/cuda/unique.c - rows of Unique, UniqueWithCounts and their V2 forms along an axis: how many values
 * there are is known when the device has found them. */
#include "kernels/cuda/unique_args.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/where.h"

WEFT_CUDA_INSTANCES(insert_floats, unique_insert, FLOAT)
static weft_cuda_function_t insert_words[] = {WEFT_CUDA_WORDS(WEFT_CUDA_INSTANCE_, unique_insert)};
static weft_cuda_function_t mark_function = WEFT_CUDA_FUNCTION("weft_unique_mark"),
                            rank_function = WEFT_CUDA_FUNCTION("weft_unique_rank");
WEFT_CUDA_INSTANCES(number_instances, unique_number, INDEX)
WEFT_CUDA_SIZES(gather_functions, gather)

/* What compute() leaves for finish(). */
typedef struct unique_told {
  weft_cuda_where_told_t first; /* rows that equal none in front of them */
  void *slots, *at, *is_first;  /* in the device's memory, see unique.cu */
} unique_told_t;

/* The axis whose rows are compared. */
static WEFT_Failure *find_axis(WEFT_KernelContext *c, const WEFT_TensorView *x, int *out) {
  WEFT_TensorView axes;
  *out = 0;
  if (weft_cuda_host->param(c) != NULL) { /* V2 */
    weft_cuda_host->input(c, 1, &axes);
    if (axes.rank != 1) return WEFT_CUDA_INVALID("axis expects a 1D vector.");
    if (axes.count > 1)
      return WEFT_CUDA_INVALID("axis does not support input tensors larger than 1 elements");
    if (axes.count == 1) {
      const int64_t given = weft_cuda_int_at(&axes, 0), axis = given < 0 ? given + x->rank : given;
      if (axis < 0 || axis >= x->rank) return WEFT_CUDA_INVALID("axis has to be between [0, %d)", x->rank);
      *out = (int)axis;
      return NULL;
    }
  }
  return x->rank == 1 ? NULL : WEFT_CUDA_INVALID("unique expects a 1D vector.");
}

static weft_cuda_unique_t unique_of(const WEFT_TensorView *x, int axis) {
  weft_cuda_unique_t u = {.n = x->dims[axis],
                          .outer = weft_cuda_product(x->dims, 0, axis),
                          .inner = weft_cuda_product(x->dims, axis + 1, x->rank)};
  uint64_t slots = 16;
  while (slots < 2 * (uint64_t)u.n) slots *= 2;
  u.mask = slots - 1;
  return u;
}

static WEFT_TensorView flags_of(const unique_told_t *told, const int64_t *n) {
  return (WEFT_TensorView){
      .dtype = WEFT_CUDA_boolean, .rank = 1, .dims = n, .count = *n, .data = told->is_first};
}

static WEFT_Failure *insert(WEFT_KernelContext *c, const WEFT_TensorView *x, const weft_cuda_unique_t *given,
                            const unique_told_t *told) {
  weft_cuda_unique_t u = *given;
  const void *data = x->data;
  void *slots = told->slots, *at = told->at;
  weft_cuda_function_t *f = weft_cuda_pick(&insert_floats, weft_cuda_part_type(x->dtype));
  if (f == NULL) f = weft_cuda_pick_size(insert_words, x->dtype);
  if (weft_cuda_part_type(x->dtype) != x->dtype) u.inner *= 2; /* complex numbers */
  void *args[] = {&data, &slots, &at, &u};
  return weft_cuda_launch_over(c, f, u.n, 1, args);
}

static WEFT_Failure *find(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  void *memory = NULL;
  int axis = 0;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(find_axis(c, &x, &axis));
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(unique_told_t), &memory));
  unique_told_t *told = memory;
  weft_cuda_unique_t u = unique_of(&x, axis);
  if (u.n == 0) return NULL;
  const size_t bytes = (size_t)(u.mask + 1) * sizeof(uint64_t);
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, bytes, &told->slots));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)u.n * sizeof(int64_t), &told->at));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)u.n, &told->is_first));
  WEFT_CUDA_TRY(weft_cuda_fill(c, told->slots, 0xff, bytes));
  WEFT_CUDA_TRY(insert(c, &x, &u, told));
  void *slots = told->slots, *at = told->at, *is_first = told->is_first;
  void *args[] = {&slots, &at, &is_first, &u.n};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &mark_function, u.n, 1, args));
  const WEFT_TensorView flags = flags_of(told, &u.n);
  return weft_cuda_where_count(c, &flags, &told->first);
}

/* Output 0: the rows `first` of x, in order. */
static WEFT_Failure *pick_rows(WEFT_KernelContext *c, const WEFT_TensorView *x, int axis,
                               const weft_cuda_unique_t *given, const void *first, int64_t n) {
  WEFT_TensorView y;
  int64_t dims[WEFT_CUDA_DIMS];
  weft_cuda_unique_t u = *given;
  int32_t index_bytes = sizeof(int64_t);
  for (int d = 0; d < x->rank; d++) dims[d] = d == axis ? n : x->dims[d];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, x->rank, dims, &y));
  if (y.count == 0) return NULL;
  const void *data = x->data;
  void *args[] = {&data, &first, &index_bytes, &y.data, &u.outer, &n, &u.n, &u.inner, &y.count};
  return weft_cuda_launch_over(c, weft_cuda_pick_size(gather_functions, x->dtype), y.count, 1, args);
}

static WEFT_Failure *finish(WEFT_KernelContext *c) {
  WEFT_TensorView x, which, counts = {.data = NULL};
  void *memory = NULL, *first = NULL;
  int axis = 0;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(find_axis(c, &x, &axis));
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, 0, &memory));
  const unique_told_t *told = memory;
  const weft_cuda_unique_t u = unique_of(&x, axis);
  int64_t n = told->first.count, num_rows = u.n;
  const bool has_counts = weft_cuda_host->num_outputs(c) > 2;
  if (n > 0) WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)n * sizeof(int64_t), &first));
  const WEFT_TensorView flags = flags_of(told, &num_rows);
  WEFT_CUDA_TRY(weft_cuda_where_write(c, &flags, &told->first, first));
  WEFT_CUDA_TRY(pick_rows(c, &x, axis, &u, first, n));
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 1, 1, &num_rows, &which));
  if (has_counts) WEFT_CUDA_TRY(weft_cuda_host->output(c, 2, 1, &n, &counts));
  if (n == 0) return NULL;
  if (has_counts) WEFT_CUDA_TRY(weft_cuda_fill(c, counts.data, 0, counts.bytes));
  void *slots = told->slots, *at = told->at;
  void *rank[] = {&first, &at, &slots, &n}, *numbers[] = {&slots, &at, &which.data, &counts.data, &num_rows};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &rank_function, n, 1, rank));
  return weft_cuda_launch_over(c, weft_cuda_pick(&number_instances, which.dtype), num_rows, 1, numbers);
}

/* Values of int32 stay where the CPU's kernel is. */
enum { SECOND = 2 };
#define ROW(op_, is_v2)                                                                               \
  {                                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_PLAIN_BUT_I32, .compute = find, .finish = finish, \
    .param = (is_v2) ? "V2" : NULL, .host_inputs = (is_v2) ? SECOND : 0                               \
  }
const WEFT_DeviceKernel weft_cuda_unique_kernels[] = {
    ROW("Unique", false),
    ROW("UniqueV2", true),
    ROW("UniqueWithCounts", false),
    ROW("UniqueWithCountsV2", true),
    {.op = NULL},
};
