/* tests/kernels/script.h - a test as a table of calls: op, attributes, inputs and the wanted outputs, all as
 * text. */
#ifndef WEFT_TESTS_KERNELS_SCRIPT_H_
#define WEFT_TESTS_KERNELS_SCRIPT_H_

#include "tests/kernels/harness.h"
#include "tests/runner.h"

/* Runs a node of `op` that takes no inputs; output 0: a handle or a reference. The node lives until
 * weft_made_drop. */
typedef struct weft_made {
  weft_harness_t *node;
  weft_value_t value;
} weft_made_t;
weft_made_t weft_make(weft_bench_t *b, const char *op, const char *attrs);
void weft_made_drop(weft_made_t *m);

/* Runs `op` with `first` (may be all zero: none) and the inputs in text; asserts that the outputs print as
 * `want`, or that the error prints as "CODE: message". Outputs that are references are not printed. */
void weft_expect(weft_bench_t *b, weft_value_t first, const char *op, const char *attrs, const char *inputs,
                 const char *want);

typedef struct weft_call {
  const char *op, *attrs, *inputs, *want;
} weft_call_t;
void weft_expect_all(weft_bench_t *b, weft_value_t first, const weft_call_t *calls, size_t n);
/* Runs each call while its 1st, 2nd, ... allocation fails: each failure is reported. `want` is not used. */
void weft_fail_allocations(weft_bench_t *b, const weft_call_t *calls, size_t n);

/* Inputs in text, parted by spaces; returns how many. A fault in the text, or more than `most`, fails the
 * test. */
int weft_tensors_parse(const char *text, weft_tensor_t **out, int most);

/* Runs the tests with a bench for all of them; returns main()'s exit status. */
int weft_run_bench_tests(const char *suite, const CU_TestInfo *tests, weft_bench_t *b);

#endif /* WEFT_TESTS_KERNELS_SCRIPT_H_ */
