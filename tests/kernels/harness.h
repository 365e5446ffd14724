/* tests/kernels/harness.h - runs one kernel by its op's name, without a graph and without an executor.
 *
 * A harness is a node: an op, attributes, a prepared kernel. It may run many
 * times, so kernels with state (random streams, variables) show it. Attributes
 * and tensors may be written as text, so that a table of cases is a table of
 * lines:
 *   attributes  "T=float strides=[1,2,2,1] padding=SAME shape=[2,?] message='two words'"
 *   tensors     "float[2,2]:1,-2.5,nan,inf"  "string[2]:'a','b\x0a'"  "complex64[1]:1:-2"  "bool[]:1"
 */
#ifndef WEFT_TESTS_KERNELS_HARNESS_H_
#define WEFT_TESTS_KERNELS_HARNESS_H_

#include "kernels/kernel.h"

/* What every node of a test shares: a CPU device with two threads, resources, a step. Confined. */
typedef struct weft_bench {
  weft_thread_pool_t *pool;
  weft_resource_manager_t *resources;
  weft_device_t *device;
  weft_canceller_t *canceller;
  weft_step_container_t *container;
  weft_rendezvous_t *rendezvous; /* NULL unless the test sets it; not owned */
} weft_bench_t;

WEFT_MUST_CHECK weft_status_t *weft_bench_init(weft_bench_t *b);
void weft_bench_deinit(weft_bench_t *b);

typedef struct weft_harness weft_harness_t; /* Confined. */

/* A node "n" of `op`. `attrs` is text as above (NULL: none); type attributes that are missing are taken from
 * the inputs' dtypes `input_types` (of num_inputs entries), list lengths ("N") likewise where one list input
 * allows it. Errors: NOT_FOUND (no such op or no kernel), INVALID_ARGUMENT, the kernel's own from prepare. */
WEFT_MUST_CHECK weft_status_t *weft_harness_create(weft_bench_t *b, const char *op, const char *attrs,
                                                   const int *input_types, int num_inputs,
                                                   weft_harness_t **out);
void weft_harness_destroy(weft_harness_t *h); /* NULL is fine */
int weft_harness_num_outputs(const weft_harness_t *h);
/* What the kernel was prepared for: op, attributes with defaults, types. Lives as long as `h`. */
const weft_kernel_setup_t *weft_harness_setup(const weft_harness_t *h);

/* Runs the node once; waits for an asynchronous kernel. Inputs are borrowed (each gets a reference of its own
 * for the run); outputs are owned by the caller, all zero after an error. */
WEFT_MUST_CHECK weft_status_t *weft_harness_run_values(weft_harness_t *h, const weft_value_t *inputs,
                                                       weft_value_t *outputs);
/* The same with plain tensors. Consumes nothing. */
WEFT_MUST_CHECK weft_status_t *weft_harness_run(weft_harness_t *h, weft_tensor_t *const *inputs,
                                                weft_tensor_t **outputs);
/* As weft_harness_run, but the kernel gets the only references to the inputs, so that it may write in place.
 * Consumes the inputs, in every case. */
WEFT_MUST_CHECK weft_status_t *weft_harness_run_owned(weft_harness_t *h, weft_tensor_t **inputs,
                                                      weft_tensor_t **outputs);

/* Creates, runs once, destroys. outputs: `max_outputs` entries; *num_outputs of them are set. */
WEFT_MUST_CHECK weft_status_t *weft_run_op(weft_bench_t *b, const char *op, const char *attrs,
                                           weft_tensor_t *const *inputs, int num_inputs,
                                           weft_tensor_t **outputs, int max_outputs, int *num_outputs);

/* Text to tensor and back. `*text` moves behind what was read. Errors: INVALID_ARGUMENT with the place. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_parse(const char **text, weft_tensor_t **out);
void weft_tensor_print(const weft_tensor_t *t, weft_strbuf_t *out);
/* Element i as a double (0 for complex's imaginary part if `imaginary` is false). For numbers and bool. */
double weft_tensor_number(const weft_tensor_t *t, int64_t i, bool imaginary);
/* Same dtype, shape and contents; numbers within tolerance * max(1, |wanted|), NaN equals NaN. On a
 * difference `why` says which. */
bool weft_tensor_close(const weft_tensor_t *got, const weft_tensor_t *want, double tolerance,
                       weft_strbuf_t *why);

#endif /* WEFT_TESTS_KERNELS_HARNESS_H_ */
