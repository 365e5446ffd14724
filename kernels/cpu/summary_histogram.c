/* kernels/cpu/summary_histogram.c - HistogramSummary. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_summary_histogram_kernels[] = {
    {0},
};
