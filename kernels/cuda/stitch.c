/* kernels/cuda/stitch.c - rows of DynamicStitch and ParallelDynamicStitch: rows of several tensors, each to
 * the place that its index names. The indices lie in the host's memory, as on TensorFlow's GPU. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/index_args.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_SIZES(put_functions, scatter_put)

static WEFT_Failure *no_memory(void) {
  return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: a stitch");
}

/* Pair i of indices and data fits the first. */
static WEFT_Failure *check_pair(WEFT_KernelContext *c, int n, int i) {
  WEFT_TensorView first_ids, first, ids, data;
  weft_cuda_host->input(c, 0, &first_ids);
  weft_cuda_host->input(c, n, &first);
  weft_cuda_host->input(c, i, &ids);
  weft_cuda_host->input(c, n + i, &data);
  bool fits = data.rank >= ids.rank;
  for (int d = 0; fits && d < ids.rank; d++) fits = ids.dims[d] == data.dims[d];
  if (!fits) {
    return WEFT_CUDA_INVALID("data[%d].shape = %s does not start with indices[%d].shape = %s", i,
                             WEFT_CUDA_SHAPE(&data), i, WEFT_CUDA_SHAPE(&ids));
  }
  fits = data.rank - ids.rank == first.rank - first_ids.rank;
  for (int d = 0; fits && d < data.rank - ids.rank; d++)
    fits = data.dims[ids.rank + d] == first.dims[first_ids.rank + d];
  if (fits) return NULL;
  return WEFT_CUDA_INVALID(
      "Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, data[%d].shape = %s, "
      "indices[0].shape = %s, indices[%d].shape = %s",
      first_ids.rank, i, ids.rank, WEFT_CUDA_SHAPE(&first), i, WEFT_CUDA_SHAPE(&data),
      WEFT_CUDA_SHAPE(&first_ids), i, WEFT_CUDA_SHAPE(&ids));
}

/* The largest index, -1 of none, and how many there are. */
static WEFT_Failure *check_all(WEFT_KernelContext *c, int n, int64_t *largest, int64_t *total) {
  *largest = -1;
  *total = 0;
  for (int i = 0; i < n; i++) {
    WEFT_TensorView ids;
    WEFT_CUDA_TRY(check_pair(c, n, i));
    weft_cuda_host->input(c, i, &ids);
    *total += ids.count;
    for (int64_t k = 0; k < ids.count; k++) {
      const int64_t id = weft_cuda_int_at(&ids, k);
      if (id < 0) return WEFT_CUDA_INVALID("indices[%lld] is out of range", (long long)k);
      if (id > *largest) *largest = id;
    }
  }
  return NULL;
}

/* to[e] of entry e: its index; -1 where a later entry has the same. `last` is for `rows` numbers, zeroed. */
static void find_last(WEFT_KernelContext *c, int n, int64_t *last, int32_t *to) {
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t i = 0, e = 0; i < n; i++) {
      WEFT_TensorView ids;
      weft_cuda_host->input(c, (int)i, &ids);
      for (int64_t k = 0; k < ids.count; k++, e++) {
        const int64_t id = weft_cuda_int_at(&ids, k);
        if (pass == 0) last[id] = e;
        if (pass == 1) to[e] = last[id] == e ? (int32_t)id : -1;
      }
    }
  }
}

static WEFT_Failure *put_all(WEFT_KernelContext *c, int n, const int32_t *to, int64_t total,
                             const WEFT_TensorView *y) {
  void *sent = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)total * sizeof *to, &sent));
  WEFT_CUDA_TRY(weft_cuda_copy(c, sent, to, (size_t)total * sizeof *to));
  for (int64_t i = 0, e = 0; i < n; i++) {
    WEFT_TensorView ids, data;
    weft_cuda_host->input(c, (int)i, &ids);
    weft_cuda_host->input(c, n + (int)i, &data);
    weft_cuda_scatter_t s = {.indices = (const int32_t *)sent + e,
                             .num = ids.count,
                             .inner = y->count / y->dims[0],
                             .dims = {y->dims[0]},
                             .depth = 1,
                             .index_bytes = sizeof *to};
    const void *from = data.data;
    void *whole = y->data;
    void *args[] = {&from, &whole, &s};
    WEFT_CUDA_TRY(
        weft_cuda_launch_over(c, weft_cuda_pick_size(put_functions, y->dtype), s.num * s.inner, 1, args));
    e += ids.count;
  }
  return NULL;
}

static WEFT_Failure *stitch(WEFT_KernelContext *c) {
  const int n = weft_cuda_host->num_inputs(c) / 2;
  WEFT_TensorView ids, data, y;
  int64_t largest = -1, total = 0, dims[WEFT_CUDA_DIMS];
  WEFT_CUDA_TRY(check_all(c, n, &largest, &total));
  weft_cuda_host->input(c, 0, &ids);
  weft_cuda_host->input(c, n, &data);
  const int rank = data.rank - ids.rank + 1;
  if (rank > WEFT_CUDA_DIMS) return WEFT_CUDA_INVALID("DynamicStitch: too many dimensions");
  dims[0] = largest + 1;
  for (int d = 1; d < rank; d++) dims[d] = data.dims[ids.rank + d - 1];
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, rank, dims, &y));
  if (y.count == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_fill(c, y.data, 0, y.bytes)); /* rows that no index names */
  int64_t *last = calloc((size_t)(dims[0] + total), sizeof *last);
  if (last == NULL) return no_memory();
  int32_t *to = (int32_t *)(void *)(last + dims[0]);
  find_last(c, n, last, to);
  WEFT_Failure *failure = put_all(c, n, to, total, &y);
  free(last);
  return failure;
}

/* int32, which mostly is a shape, stays where the CPU's kernel is. */
#define ROW(op_)                                                                      \
  {                                                                                   \
    .op = op_, .type_attr = "T", .types = WEFT_CUDA_PLAIN_BUT_I32, .compute = stitch, \
    .first_half_on_host = 1                                                           \
  }
const WEFT_DeviceKernel weft_cuda_stitch_kernels[] = {
    ROW("DynamicStitch"),
    ROW("ParallelDynamicStitch"),
    {0},
};
