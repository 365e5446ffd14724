/* collectives/negotiated/adasum.h - a sum that adapts to how much two gradients agree.
 *
 *   pair(a, b) = (1 - <a,b>/(2|a|^2)) a + (1 - <a,b>/(2|b|^2)) b
 *
 * Orthogonal vectors add up, equal ones stay as they are. Over 2^k ranks: the pairs of
 * neighbours first, then pairs of pairs.
 *
 * Source: Maleki et al., "Scaling distributed training with adaptive summation" (2021); reference
 * strategies 3.7. Their halving of vectors is left out: each level sends whole vectors, log2 N in all.
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_ADASUM_H_
#define WEFT_COLLECTIVES_NEGOTIATED_ADASUM_H_

#include "tensor/tensor.h"

/* a := pair(a, b), n elements of a floating dtype, computed in double. The same bits whichever rank computes
 * it, if all give the lower rank's vector as a. */
void weft_adasum_pair(weft_dtype_t dtype, void *a, const void *b, int64_t n);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_ADASUM_H_ */
