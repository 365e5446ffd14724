/* tests/fuzz/op_fuzz.h - kernels that read strings from outside, on the input's bytes. */
#ifndef WEFT_TESTS_FUZZ_OP_FUZZ_H_
#define WEFT_TESTS_FUZZ_OP_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

typedef struct weft_fuzz_op {
  const char *op, *attrs; /* as tests/kernels/harness.h has them */
  const char *inputs;     /* tensors as text; '$' stands for a scalar string with the bytes */
} weft_fuzz_op_t;

/* Runs each of n ops once. Any result or error will do; it must come. */
void weft_fuzz_ops(const weft_fuzz_op_t *ops, int n, const uint8_t *data, size_t size);

#endif /* WEFT_TESTS_FUZZ_OP_FUZZ_H_ */
