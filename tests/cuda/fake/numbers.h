/* tests/cuda/fake/numbers.h - elements of the floating types as double, for the fakes of libraries. */
#ifndef WEFT_TESTS_CUDA_FAKE_NUMBERS_H_
#define WEFT_TESTS_CUDA_FAKE_NUMBERS_H_

#include <stddef.h>
#include <stdint.h>

typedef enum fake_number { FAKE_F16, FAKE_BF16, FAKE_F32, FAKE_F64 } fake_number_t;

size_t fake_size(fake_number_t type); /* bytes of an element */
/* Element i of an array; a double is rounded to the nearest number of the type, ties to even. */
double fake_load(fake_number_t type, const char *p, int64_t i);
void fake_store(fake_number_t type, char *p, int64_t i, double value);

#endif /* WEFT_TESTS_CUDA_FAKE_NUMBERS_H_ */
