/* kernels/cpu/random_truncated.c - ParameterizedTruncatedNormal. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_random_truncated_kernels[] = {
    {0},
};
