/* tests/cuda/rows/row_case.h - rows of a CUDA family against the CPU's kernels, on made-up arguments.
 *
 * A test is a table: an op, its types, and a function that makes arguments. Each type is run on several sets
 * of arguments, and those with their memory laid out in two ways, by the row and by the CPU's kernel of the
 * same node. Results agree within the type's tolerance; failures have the same code.
 */
#ifndef WEFT_TESTS_CUDA_ROWS_ROW_CASE_H_
#define WEFT_TESTS_CUDA_ROWS_ROW_CASE_H_

#include "tests/cuda/rows/row_host.h"
#include "tests/runner.h"

typedef struct weft_row_case {
  weft_dtype_t dtype; /* that is tested */
  int round;          /* 0, 1, ...: the first ones are the plainest */
  uint64_t random;    /* the state of the numbers */
  char attrs[512];    /* as tests/kernels/harness.h has them */
  int num_inputs;
  weft_tensor_t *inputs[WEFT_ROW_MAX_ARGS]; /* owned */
  bool is_variable[WEFT_ROW_MAX_ARGS]; /* by handle in ops Resource... and ...VariableOp, else by reference */
} weft_row_case_t;

typedef struct weft_row_op {
  const char *op;
  uint32_t types; /* that are tested: bits */
  void (*make)(weft_row_case_t *c);
  double tolerance;  /* times the type's; 0: 1; below 0: bits are equal */
  bool same_message; /* failures have the same words, too */
} weft_row_op_t;

/* Runs all of the table; CUnit counts the differences. */
void weft_row_check(const WEFT_DeviceKernel *rows, const weft_row_op_t *ops, int num_ops);
/* Every row, in each type that it may have, is in the table. */
void weft_row_check_covered(const WEFT_DeviceKernel *rows, const weft_row_op_t *ops, int num_ops);

/* ---- making arguments ---- */

typedef enum weft_row_values {
  WEFT_ROW_ANY,      /* small and large numbers, zeros, infinities, NaN, the ends of the type */
  WEFT_ROW_SMALL,    /* between -2 and 2, or -8 and 8 if they are integers */
  WEFT_ROW_POSITIVE, /* between 1/4 and 4, or 1 and 9 */
  WEFT_ROW_NONZERO   /* any number but 0 */
} weft_row_values_t;

int64_t weft_row_int(weft_row_case_t *c, int64_t low, int64_t high); /* both may come */
/* Dimensions between 0 and 7, seldom 0; in one round a large one. */
weft_shape_t weft_row_shape(weft_row_case_t *c, int min_rank, int max_rank);
/* A tensor that the next input is. */
weft_tensor_t *weft_row_add(weft_row_case_t *c, weft_dtype_t dtype, const weft_shape_t *shape,
                            weft_row_values_t values);
weft_tensor_t *weft_row_add_variable(weft_row_case_t *c, const weft_shape_t *shape, weft_row_values_t values);
/* An int32 or int64 vector (n < 0: a scalar) of these numbers. */
weft_tensor_t *weft_row_add_ints(weft_row_case_t *c, weft_dtype_t dtype, int n, const int64_t *values);
/* Appends attributes. */
void weft_row_attr(weft_row_case_t *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif /* WEFT_TESTS_CUDA_ROWS_ROW_CASE_H_ */
