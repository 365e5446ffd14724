/* kernels/cpu/loops/fingerprint.h - numbers that stand for texts, the same in every process and version. */
#ifndef WEFT_KERNELS_CPU_LOOPS_FINGERPRINT_H_
#define WEFT_KERNELS_CPU_LOOPS_FINGERPRINT_H_

#include "base/str.h"

/* Fingerprint64 of FarmHash, which TensorFlow calls Fingerprint64. */
uint64_t weft_fingerprint64(weft_str_t s);

/* One number of two, which TensorFlow calls FingerprintCat64. */
uint64_t weft_fingerprint_join(uint64_t a, uint64_t b);

/* Fingerprint128 of FarmHash, which is CityHash128: the low and the high half. */
void weft_fingerprint128(weft_str_t s, uint64_t out[2]);

/* SipHash-2-4 with a key of 128 bits, which TensorFlow calls StrongKeyedHash. */
uint64_t weft_siphash64(const uint64_t key[2], weft_str_t s);

#endif /* WEFT_KERNELS_CPU_LOOPS_FINGERPRINT_H_ */
