/* kernels/cpu/loops/number_text.h - numbers from text, as TensorFlow reads them. */
#ifndef WEFT_KERNELS_CPU_LOOPS_NUMBER_TEXT_H_
#define WEFT_KERNELS_CPU_LOOPS_NUMBER_TEXT_H_

#include "tensor/tensor.h"

/* Sets element i of `out`, of WEFT_F32, F64, I32, I64, U32 or U64, to the number that is all of `s` but
 * blanks around it. False if it is none, or does not fit an integer. */
WEFT_MUST_CHECK bool weft_number_from_text(weft_str_t s, weft_tensor_t *out, int64_t i);

#endif /* WEFT_KERNELS_CPU_LOOPS_NUMBER_TEXT_H_ */
