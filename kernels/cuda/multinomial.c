/* kernels/cuda/multinomial.c - rows of Multinomial and StatelessMultinomial. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/random.h"

WEFT_CUDA_INSTANCES(totals_instances, multinomial_totals, FLOAT)
WEFT_CUDA_INSTANCES(draw_instances, multinomial_draw, INDEX)

static WEFT_Failure *check(const WEFT_TensorView *logits, const WEFT_TensorView *num) {
  if (logits->rank != 2)
    return WEFT_CUDA_INVALID("logits should be a matrix, got shape %s", WEFT_CUDA_SHAPE(logits));
  if (num->rank != 0)
    return WEFT_CUDA_INVALID("num_samples should be a scalar, got shape %s", WEFT_CUDA_SHAPE(num));
  const long long samples = weft_cuda_int_at(num, 0);
  if (samples < 0) return WEFT_CUDA_INVALID("num_samples should be non-negative, got %lld", samples);
  if (logits->dims[0] > INT32_MAX) return WEFT_CUDA_INVALID("batch_size cannot exceed max int");
  if (logits->dims[1] > INT32_MAX) return WEFT_CUDA_INVALID("num_classes cannot exceed max int");
  if (logits->dims[1] == 0) return WEFT_CUDA_INVALID("num_classes should be positive, got 0");
  return NULL;
}

/* The totals of the classes of all rows, in memory of their own. */
static WEFT_Failure *sum_classes(WEFT_KernelContext *c, const WEFT_TensorView *logits, void **out) {
  int64_t rows = logits->dims[0], classes = logits->dims[1];
  const int64_t most = 8 * (int64_t)weft_cuda_num_processors(c);
  const weft_cuda_geometry_t g = {.grid = {(unsigned)(rows < most ? rows : most), 1, 1},
                                  .block = {WEFT_CUDA_BLOCK, 1, 1}};
  const void *data = logits->data;
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, (size_t)logits->count * sizeof(double), out));
  void *args[] = {&data, out, &rows, &classes};
  return weft_cuda_launch(c, weft_cuda_pick(&totals_instances, logits->dtype), &g, args);
}

static WEFT_Failure *draw(WEFT_KernelContext *c) {
  WEFT_TensorView logits, num, y;
  weft_cuda_generator_t g;
  int at = 2;
  void *totals = NULL;
  weft_cuda_host->input(c, 0, &logits);
  weft_cuda_host->input(c, 1, &num);
  WEFT_CUDA_TRY(weft_cuda_generator_read(c, *(const weft_cuda_source_t *)weft_cuda_host->param(c), &at, &g));
  WEFT_CUDA_TRY(check(&logits, &num));
  int64_t samples = weft_cuda_int_at(&num, 0), classes = logits.dims[1];
  const int64_t dims[2] = {logits.dims[0], samples};
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, 2, dims, &y));
  if (y.count == 0) return NULL;
  /* Two words a number of each row, whose samples are rounded up to fours. */
  WEFT_CUDA_TRY(weft_cuda_generator_take(c, (uint64_t)dims[0] * (((uint64_t)samples + 3) / 4 * 8), &g));
  WEFT_CUDA_TRY(sum_classes(c, &logits, &totals));
  void *args[] = {&totals, &y.data, &samples, &classes, &y.count, &g.key, &g.low, &g.high};
  return weft_cuda_launch_over(c, weft_cuda_pick(&draw_instances, y.dtype), y.count, 1, args);
}

static const weft_cuda_source_t from_stream = WEFT_CUDA_FROM_STREAM, from_seed = WEFT_CUDA_FROM_SEED;

enum { SECOND = 2, THIRD = 4 };
const WEFT_DeviceKernel weft_cuda_multinomial_kernels[] = {
    {.op = "Multinomial",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .compute = draw,
     .param = &from_stream,
     .host_inputs = SECOND},
    {.op = "StatelessMultinomial",
     .type_attr = "T",
     .types = WEFT_CUDA_SET(FLOAT),
     .compute = draw,
     .param = &from_seed,
     .host_inputs = SECOND | THIRD},
    {.op = NULL},
};
