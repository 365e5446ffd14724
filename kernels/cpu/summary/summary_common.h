/* kernels/cpu/summary/summary_common.h - what the summary families share. Field numbers are those of
 * summary.proto.
 */
#ifndef WEFT_KERNELS_CPU_SUMMARY_SUMMARY_COMMON_H_
#define WEFT_KERNELS_CPU_SUMMARY_SUMMARY_COMMON_H_

#include "kernels/cpu/loops/common.h"
#include "protos/wire.h"

enum {
  WEFT_SUMMARY_VALUE = 1,
  WEFT_VALUE_TAG = 1,
  WEFT_VALUE_SIMPLE = 2,
  WEFT_VALUE_IMAGE = 4,
  WEFT_VALUE_HISTO = 5,
  WEFT_VALUE_AUDIO = 6,
  WEFT_VALUE_NODE_NAME = 7,
  WEFT_VALUE_TENSOR = 8,
  WEFT_VALUE_METADATA = 9,
};

/* Element i of a tensor of real numbers. */
double weft_summary_number(const weft_tensor_t *t, int64_t i);
/* Output 0: the message as a scalar string. Frees the builder, in every case. */
WEFT_MUST_CHECK weft_status_t *weft_summary_set(weft_kernel_ctx_t *c, weft_strbuf_t *b);
/* Input 0, a scalar; lent. Errors: INVALID_ARGUMENT `complaint`. */
WEFT_MUST_CHECK weft_status_t *weft_summary_tag(const weft_kernel_ctx_t *c, const char *complaint,
                                                weft_str_t *out);

#endif /* WEFT_KERNELS_CPU_SUMMARY_SUMMARY_COMMON_H_ */
