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
/* Output 0: the message as a scalar string, unless `s` is a failure, which it returns then. Frees the
 * builder. */
WEFT_MUST_CHECK weft_status_t *weft_summary_finish(weft_kernel_ctx_t *c, weft_status_t *s, weft_strbuf_t *b);
/* Input 0, a scalar; lent. Errors: INVALID_ARGUMENT `complaint`. */
WEFT_MUST_CHECK weft_status_t *weft_summary_tag(const weft_kernel_ctx_t *c, const char *complaint,
                                                weft_str_t *out);

/* ---- values of a Summary, appended to `b`; shared by the ops that return summaries and those that write
 * them ---- */

/* Element i of `values` as a number. */
void weft_summary_put_scalar(weft_strbuf_t *b, weft_str_t tag, const weft_tensor_t *values, int64_t i);
/* `metadata`: a serialised SummaryMetadata, or NULL: none; what cannot be parsed of it is left out, without a
 * word. Errors: UNIMPLEMENTED: a type without bytes. */
WEFT_MUST_CHECK weft_status_t *weft_summary_put_tensor(weft_strbuf_t *b, weft_str_t tag,
                                                       const weft_tensor_t *t, const weft_str_t *metadata);
/* Errors: INVALID_ARGUMENT, naming `what`: an element is not finite. */
WEFT_MUST_CHECK weft_status_t *weft_summary_put_histogram(weft_strbuf_t *b, weft_str_t tag,
                                                          const weft_tensor_t *values, weft_str_t what);
/* The first `max` of a batch of images [batch, height, width, 1, 3 or 4] as PNG; `bad_color`, a vector of
 * bytes, is for pixels that are not finite. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_summary_put_images(weft_strbuf_t *b, weft_str_t tag,
                                                       const weft_tensor_t *t, int64_t max,
                                                       const weft_tensor_t *bad_color);
/* The first `max` of a batch of sounds [batch, frames] or [batch, frames, channels] as WAV; `rate` in frames
 * per second. Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_summary_put_audio(weft_strbuf_t *b, weft_str_t tag,
                                                      const weft_tensor_t *t, int64_t max, float rate);

#endif /* WEFT_KERNELS_CPU_SUMMARY_SUMMARY_COMMON_H_ */
