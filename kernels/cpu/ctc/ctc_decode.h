/* kernels/cpu/ctc/ctc_decode.h - decoders of predictions: what they share. */
#ifndef WEFT_KERNELS_CPU_CTC_CTC_DECODE_H_
#define WEFT_KERNELS_CPU_CTC_CTC_DECODE_H_

#include "kernels/cpu/loops/common.h"

/* Decoded labels of one path of each sequence, one sequence behind the other. */
typedef struct weft_ctc_path {
  int32_t *labels;
  int64_t count, room;
  int64_t *ends; /* of each sequence */
} weft_ctc_path_t;

typedef struct weft_ctc_decoder {
  const weft_tensor_t *inputs; /* [max_time, batch, num_classes] */
  const int32_t *lengths;
  int64_t max_time, batch, num_classes, num_paths;
  weft_tensor_t *scores; /* [batch, num_paths] */
  weft_ctc_path_t *paths;
} weft_ctc_decoder_t;

WEFT_MUST_CHECK weft_status_t *weft_ctc_path_push(weft_ctc_path_t *p, int32_t label);

/* One beam search (ctc_beam.c): sequence b of d->inputs into the end of each path, and scores[0] to
 * [num_paths - 1]. Errors: INVALID_ARGUMENT: more paths are wanted than there are; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_ctc_beam_f32(weft_ctc_decoder_t *d, int64_t b, int64_t beam_width,
                                                 bool merge_repeated);
WEFT_MUST_CHECK weft_status_t *weft_ctc_beam_f64(weft_ctc_decoder_t *d, int64_t b, int64_t beam_width,
                                                 bool merge_repeated);

#endif /* WEFT_KERNELS_CPU_CTC_CTC_DECODE_H_ */
