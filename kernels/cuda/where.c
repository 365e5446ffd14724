/* kernels/cuda/where.c - the row of Where: how many elements are not zero is known when the device has
 * counted them. */
#include "kernels/cuda/where.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/where_args.h"

WEFT_CUDA_INSTANCES(count_real, where_count, REAL_BOOL)
WEFT_CUDA_INSTANCES(count_complex, where_count, COMPLEX)
WEFT_CUDA_INSTANCES(write_real, where_write, REAL_BOOL)
WEFT_CUDA_INSTANCES(write_complex, where_write, COMPLEX)
static weft_cuda_function_t places_function = WEFT_CUDA_FUNCTION("weft_where_places");

static weft_cuda_function_t *pick(const weft_cuda_instances_t *real, const weft_cuda_instances_t *complex,
                                  int dtype) {
  weft_cuda_function_t *f = weft_cuda_pick(real, dtype);
  return f != NULL ? f : weft_cuda_pick(complex, dtype);
}

static weft_cuda_where_t where_of(const WEFT_TensorView *x) {
  weft_cuda_where_t w = {.n = x->count, .rank = x->rank};
  w.num_pieces = (w.n + WEFT_CUDA_PIECE - 1) / WEFT_CUDA_PIECE;
  for (int d = 0; d < x->rank; d++) w.dims[d] = x->dims[d];
  return w;
}

/* A block for each piece, but no more than keep the device busy. */
static weft_cuda_geometry_t geometry_of(WEFT_KernelContext *c, const weft_cuda_where_t *w) {
  const int64_t most = 8 * (int64_t)weft_cuda_num_processors(c);
  const unsigned blocks = (unsigned)(w->num_pieces < most ? w->num_pieces : most);
  return (weft_cuda_geometry_t){.grid = {blocks, 1, 1}, .block = {WEFT_CUDA_BLOCK, 1, 1}};
}

WEFT_Failure *weft_cuda_where_count(WEFT_KernelContext *c, const WEFT_TensorView *x,
                                    weft_cuda_where_told_t *told) {
  weft_cuda_where_t w = where_of(x);
  if (w.n == 0) return NULL;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)(w.num_pieces + 1) * sizeof(int64_t), &told->places));
  const weft_cuda_geometry_t g = geometry_of(c, &w),
                             one = {.grid = {1, 1, 1}, .block = {WEFT_CUDA_BLOCK, 1, 1}};
  const void *data = x->data;
  void *places = told->places;
  void *args[] = {&data, &places, &w};
  WEFT_CUDA_TRY(weft_cuda_launch(c, pick(&count_real, &count_complex, x->dtype), &g, args));
  void *sums[] = {&places, &w.num_pieces};
  WEFT_CUDA_TRY(weft_cuda_launch(c, &places_function, &one, sums));
  return weft_cuda_read(c, &told->count, (int64_t *)places + w.num_pieces, sizeof told->count);
}

WEFT_Failure *weft_cuda_where_write(WEFT_KernelContext *c, const WEFT_TensorView *x,
                                    const weft_cuda_where_told_t *told, void *to) {
  if (told->count == 0) return NULL;
  weft_cuda_where_t w = where_of(x);
  const weft_cuda_geometry_t g = geometry_of(c, &w);
  const void *data = x->data;
  void *places = told->places, *args[] = {&data, &places, &to, &w};
  return weft_cuda_launch(c, pick(&write_real, &write_complex, x->dtype), &g, args);
}

static WEFT_Failure *where(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  void *told = NULL;
  weft_cuda_host->input(c, 0, &x);
  if (x.rank == 0) return WEFT_CUDA_INVALID("WhereOp : Unhandled input dimensions: 0");
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(weft_cuda_where_told_t), &told));
  return weft_cuda_where_count(c, &x, told);
}

static WEFT_Failure *finish(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  void *told = NULL;
  weft_cuda_host->input(c, 0, &x);
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, 0, &told));
  const int64_t dims[2] = {((const weft_cuda_where_told_t *)told)->count, x.rank};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &y));
  return weft_cuda_where_write(c, &x, told, y.data);
}

const WEFT_DeviceKernel weft_cuda_where_kernels[] = {
    {.op = "Where",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(REAL_BOOL) | WEFT_CUDA_SET(COMPLEX),
     .compute = where,
     .finish = finish},
    {.op = NULL},
};
