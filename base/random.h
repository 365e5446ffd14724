/* base/random.h - identifiers that cannot be guessed (session handles, incarnations, request ids). */
#ifndef WEFT_BASE_RANDOM_H_
#define WEFT_BASE_RANDOM_H_

#include <stdint.h>

uint64_t weft_random_id(void); /* never 0; from the kernel's generator. Thread-safe. */

#endif /* WEFT_BASE_RANDOM_H_ */
