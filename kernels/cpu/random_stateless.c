/* kernels/cpu/random_stateless.c - random numbers that depend on their seed alone. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_random_stateless_kernels[] = {
    {0},
};
