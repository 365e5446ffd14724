/* kernels/cpu/ctc/ctc_beam.c - the beam search of CTCBeamSearchDecoder.
 *
 * Source: Graves, "Supervised sequence labelling with recurrent neural networks" (2012), section 7.5.
 */
#include <inttypes.h>
#include <math.h>

#include "kernels/cpu/ctc/ctc_decode.h"
#include "kernels/cpu/ctc/log_sum.h"

enum { CTC_SMALL_SORT = 16 }; /* up to this many are sorted by insertion */

#define CTC_REAL float
#define CTC_STEM f32
#define CTC_F(name) name##f
#define CTC_LOG_SUM weft_log_sum_f32
#define CTC_DECODE weft_ctc_beam_f32
#include "kernels/cpu/ctc/ctc_beam.tmpl.h"
#define CTC_REAL double
#define CTC_STEM f64
#define CTC_F(name) name
#define CTC_LOG_SUM weft_log_sum_f64
#define CTC_DECODE weft_ctc_beam_f64
#include "kernels/cpu/ctc/ctc_beam.tmpl.h"
