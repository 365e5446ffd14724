/* kernels/cpu/summary/png.h - pixels to a PNG file in memory. */
#ifndef WEFT_KERNELS_CPU_SUMMARY_PNG_H_
#define WEFT_KERNELS_CPU_SUMMARY_PNG_H_

#include "base/status.h"
#include "base/str.h"

/* `pixels`: height * width * depth bytes, rows first; depth 1 (gray), 2 (with alpha), 3 (RGB) or 4 (RGBA).
 * Appends to `out`. Errors: INVALID_ARGUMENT (empty or too large), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_png_encode(const uint8_t *pixels, int64_t height, int64_t width,
                                               int depth, weft_strbuf_t *out);

#endif /* WEFT_KERNELS_CPU_SUMMARY_PNG_H_ */
