/* kernels/cpu/summary_media.c - ImageSummary, AudioSummaryV2. */
#include "kernels/cpu/common.h"

const weft_kernel_t weft_cpu_summary_media_kernels[] = {
    {0},
};
