/* kernels/cpu/random_choice.c - RandomShuffle, Multinomial: random choices among what is given. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_random_choice_kernels[] = {
    {0},
};
