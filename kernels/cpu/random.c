/* kernels/cpu/random.c - random numbers of a stream that goes on from run to run. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_random_kernels[] = {
    {0},
};
