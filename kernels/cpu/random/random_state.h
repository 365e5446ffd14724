/* kernels/cpu/random/random_state.h - a generator whose state is the value of a resource variable.
 *
 * The variable is a vector of int64: the counter's two words and the key. Whatever lies behind them stays as
 * it is.
 */
#ifndef WEFT_KERNELS_CPU_RANDOM_RANDOM_STATE_H_
#define WEFT_KERNELS_CPU_RANDOM_RANDOM_STATE_H_

#include "kernels/cpu/random/random_fill.h"

enum { WEFT_RANDOM_STATE_WORDS = 3 };

/* The algorithm that input i says, a scalar of int32 or int64; WEFT_ALG_AUTO is read as WEFT_ALG_PHILOX.
 * Errors: INVALID_ARGUMENT: no scalar, or a number that names no algorithm. */
WEFT_MUST_CHECK weft_status_t *weft_random_alg_input(weft_kernel_ctx_t *ctx, int i, int64_t *out);
/* The generator in the variable of input 0, which moves on by 256 blocks for each of `numbers`. The
 * variable's first element is the algorithm, and the state begins behind it, if alg is 0. `old`: gets the
 * state as it was, unless NULL. Errors: NOT_FOUND: no such variable; INVALID_ARGUMENT: its value is no such
 * state; UNIMPLEMENTED: WEFT_ALG_THREEFRY. */
WEFT_MUST_CHECK weft_status_t *weft_random_state_take(weft_kernel_ctx_t *ctx, int64_t alg, uint64_t numbers,
                                                      int64_t old[WEFT_RANDOM_STATE_WORDS],
                                                      weft_philox_t *out);

#endif /* WEFT_KERNELS_CPU_RANDOM_RANDOM_STATE_H_ */
