/* kernels/cuda/special.c - Betainc. The other rows of special.cu are those of unary.c and binary.c. */
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

WEFT_CUDA_INSTANCES(betainc_instances, betainc, F32_F64)

/* Shapes are equal, but for scalars. */
static WEFT_Failure *betainc_compute(WEFT_KernelContext *c) {
  WEFT_TensorView in[3], out;
  int whole = 0;
  for (int i = 0; i < 3; i++) {
    weft_cuda_host->input(c, i, &in[i]);
    if (in[i].rank == 0) continue;
    if (in[whole].rank == 0) whole = i;
    if (!weft_cuda_same_shape(&in[whole], &in[i])) {
      return WEFT_CUDA_INVALID("Shapes of a, b and x are inconsistent: %s vs. %s",
                               WEFT_CUDA_SHAPE(&in[whole]), WEFT_CUDA_SHAPE(&in[i]));
    }
  }
  weft_cuda_walk_t w;
  weft_cuda_walk_init(&w, in[whole].rank, in[whole].dims);
  for (int i = 0; i < 3; i++) (void)weft_cuda_walk_broadcast(&w, i, in[i].rank, in[i].dims);
  weft_cuda_walk_collapse(&w, 3);
  WEFT_CUDA_TRY(weft_cuda_host->output(c, 0, in[whole].rank, in[whole].dims, &out));
  void *args[] = {&in[0].data, &in[1].data, &in[2].data, &out.data, &w};
  return weft_cuda_launch_over(c, weft_cuda_pick(&betainc_instances, out.dtype), w.n, 1, args);
}

const WEFT_DeviceKernel weft_cuda_special_kernels[] = {
    {.op = "Betainc", .type_attr = "T", .types = WEFT_CUDA_SET(F32_F64), .compute = betainc_compute},
    {0},
};
