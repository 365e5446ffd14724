/* kernels/cuda/gamma.c - rows of RandomGamma, StatelessRandomGammaV2 and V3: the CPU's samples. Shapes, seeds
 * and keys lie in the host's memory, alpha on the device. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/random.h"

WEFT_CUDA_INSTANCES(gamma_instances, gamma, F32_F64_F16)

/* Draws output 0 for the sets of parameters that the input behind the shape and the generator has. */
static WEFT_Failure *draw(WEFT_KernelContext *c) {
  WEFT_TensorView alpha, y;
  weft_cuda_generator_t g;
  int parameter = 1;
  WEFT_CUDA_TRY(
      weft_cuda_generator_read(c, *(const weft_cuda_source_t *)weft_cuda_host->param(c), &parameter, &g));
  WEFT_CUDA_TRY(weft_cuda_host->output_inferred(c, 0, &y));
  weft_cuda_host->input(c, parameter, &alpha);
  const int before = y.rank - alpha.rank;
  bool fits = before >= 0;
  for (int d = 0; fits && d < alpha.rank; d++) fits = y.dims[before + d] == alpha.dims[d];
  if (y.count == 0) return NULL;
  if (!fits) return WEFT_CUDA_INVALID("Shape passed in must end with broadcasted shape.");
  WEFT_CUDA_TRY(weft_cuda_generator_take(c, (uint64_t)y.count, &g));
  int64_t samples = weft_cuda_product(y.dims, 0, before), sets = alpha.count;
  void *args[] = {&alpha.data, &y.data, &samples, &sets, &g.key, &g.low, &g.high};
  return weft_cuda_launch_over(c, weft_cuda_pick(&gamma_instances, y.dtype), y.count, 1, args);
}

static const weft_cuda_source_t from_stream = WEFT_CUDA_FROM_STREAM, from_seed = WEFT_CUDA_FROM_SEED,
                                from_key = WEFT_CUDA_FROM_KEY;
#define ROW(op_, attr, source, host)                                                                      \
  {                                                                                                       \
    .op = op_, .type_attr = attr, .types = WEFT_CUDA_SET(F32_F64_F16), .compute = draw, .param = &source, \
    .host_inputs = host                                                                                   \
  }
const WEFT_DeviceKernel weft_cuda_gamma_kernels[] = {
    ROW("RandomGamma", "T", from_stream, 1),
    ROW("StatelessRandomGammaV2", "dtype", from_seed, 1 | 2),
    ROW("StatelessRandomGammaV3", "dtype", from_key, 1 | 2 | 4 | 8),
    {0},
};
