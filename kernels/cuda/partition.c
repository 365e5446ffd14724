/* kernels/cuda/partition.c - the row of DynamicPartition: rows of a tensor to the output that each one's
 * number names. The numbers are int32 and lie in the host's memory, so that it is known at once how large
 * each output is. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_SIZES(gather_functions, gather)

static WEFT_Failure *out_of_range(const WEFT_TensorView *to, int64_t i, int64_t p, int n) {
  weft_cuda_text_t at = {.s = ""};
  int64_t index[WEFT_CUDA_DIMS];
  for (int d = to->rank - 1; d >= 0; d--) {
    index[d] = i % to->dims[d];
    i /= to->dims[d];
  }
  const WEFT_TensorView place = {.rank = to->rank, .dims = index};
  if (to->rank > 0) at = weft_cuda_shape_text(&place);
  return WEFT_CUDA_INVALID("partitions%s = %lld is not in [0, %d)", at.s, (long long)p, n);
}

/* Sorts the rows' numbers by their output, in order; ends[p]: behind those of output p. */
static WEFT_Failure *sort(const WEFT_TensorView *to, int n, int64_t *order, int64_t *ends) {
  const int32_t *p = to->data;
  for (int64_t i = 0; i < to->count; i++) {
    if (p[i] < 0 || p[i] >= n) return out_of_range(to, i, p[i], n);
    ends[p[i]]++;
  }
  for (int k = 1; k < n; k++) ends[k] += ends[k - 1];
  for (int64_t i = to->count - 1; i >= 0; i--) order[--ends[p[i]]] = i;
  for (int k = 0; k < n; k++) ends[k] = k + 1 < n ? ends[k + 1] : to->count; /* they were the beginnings */
  return NULL;
}

static WEFT_Failure *hand_out(WEFT_KernelContext *c, const WEFT_TensorView *x, const WEFT_TensorView *to,
                              const int64_t *order, const int64_t *ends) {
  const int n = weft_cuda_host->num_outputs(c), rank = x->rank - to->rank + 1;
  int64_t dims[WEFT_CUDA_DIMS] = {0}, outer = 1, size = to->count,
          inner = weft_cuda_product(x->dims, to->rank, x->rank);
  int32_t index_bytes = sizeof *order;
  void *sent = NULL;
  for (int d = 1; d < rank; d++) dims[d] = x->dims[to->rank + d - 1];
  if (x->count > 0) {
    WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)size * sizeof *order, &sent));
    WEFT_CUDA_TRY(weft_cuda_copy(c, sent, order, (size_t)size * sizeof *order));
  }
  for (int p = 0; p < n; p++) {
    const int64_t begin = p == 0 ? 0 : ends[p - 1];
    WEFT_TensorView y;
    dims[0] = ends[p] - begin;
    WEFT_CUDA_TRY(weft_cuda_host->output(c, p, rank, dims, &y));
    if (y.count == 0) continue;
    int64_t rows = dims[0], count = y.count;
    const int64_t *indices = (const int64_t *)sent + begin;
    const void *from = x->data;
    void *args[] = {&from, &indices, &index_bytes, &y.data, &outer, &rows, &size, &inner, &count};
    WEFT_CUDA_TRY(weft_cuda_launch_over(c, weft_cuda_pick_size(gather_functions, x->dtype), count, 1, args));
  }
  return NULL;
}

static WEFT_Failure *partition(WEFT_KernelContext *c) {
  const int n = weft_cuda_host->num_outputs(c);
  WEFT_TensorView x, to;
  weft_cuda_host->input(c, 0, &x);
  weft_cuda_host->input(c, 1, &to);
  bool fits = x.rank >= to.rank;
  for (int d = 0; fits && d < to.rank; d++) fits = x.dims[d] == to.dims[d];
  if (!fits) {
    return WEFT_CUDA_INVALID(
        "data.shape must start with partitions.shape, got data.shape = %s, partitions.shape = %s",
        WEFT_CUDA_SHAPE(&x), WEFT_CUDA_SHAPE(&to));
  }
  if (x.rank - to.rank + 1 > WEFT_CUDA_DIMS)
    return WEFT_CUDA_INVALID("DynamicPartition: too many dimensions");
  int64_t *order = calloc((size_t)(to.count + n), sizeof *order);
  if (order == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a partition");
  WEFT_Failure *failure = sort(&to, n, order, order + to.count);
  if (failure == NULL) failure = hand_out(c, &x, &to, order, order + to.count);
  free(order);
  return failure;
}

enum { SECOND = 2 };
/* int32, which mostly is a shape, stays where the CPU's kernel is. */
const WEFT_DeviceKernel weft_cuda_partition_kernels[] = {
    {.op = "DynamicPartition",
     .type_attr = "T",
     .types = WEFT_CUDA_PLAIN_BUT_I32,
     .compute = partition,
     .host_inputs = SECOND},
    {0},
};
