/* kernels/cpu/summary.c - ScalarSummary, MergeSummary, TensorSummary, TensorSummaryV2. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_summary_kernels[] = {
    {0},
};
