/* tests/cuda/rows/row_host.h - runs one row of a CUDA family alone: a host table (WEFT_DeviceHost) for it,
 * and launches that the emulator runs at once.
 *
 * Addresses of device memory are marked, so that the host cannot read or write by them; each block of memory
 * ends or begins at a page without access. A row that looks at the device's memory, or a kernel that leaves
 * its tensors, ends the test with a fault.
 */
#ifndef WEFT_TESTS_CUDA_ROWS_ROW_HOST_H_
#define WEFT_TESTS_CUDA_ROWS_ROW_HOST_H_

#include "kernels/kernel.h"
#include "weft/device.h"

enum { WEFT_ROW_MAX_ARGS = 16 };

typedef struct weft_row_run {
  const weft_kernel_setup_t *setup; /* of the node */
  const WEFT_DeviceKernel *row;
  int num_inputs;
  weft_tensor_t *inputs[WEFT_ROW_MAX_ARGS]; /* borrowed; in the host's memory. Of a variable: its value */
  bool ends_at_guard;                       /* device memory ends at a guard page, else it begins there */
  bool may_forward;                         /* no other node needs the inputs' bytes */
  int num_processors;
  /* Set by weft_row_run(), owned by the caller: copies of the outputs, and of the variables that the row
   * updates. */
  weft_tensor_t *outputs[WEFT_ROW_MAX_ARGS], *updated[WEFT_ROW_MAX_ARGS];
} weft_row_run_t;

/* Must be called before anything else. */
void weft_row_host_init(void);
/* The first row of `table` for the node, or NULL. */
const WEFT_DeviceKernel *weft_row_find(const WEFT_DeviceKernel *table, const weft_kernel_setup_t *setup);
/* Prepares the row, runs it once, destroys its state. Errors: the row's. */
WEFT_MUST_CHECK weft_status_t *weft_row_run(weft_row_run_t *r);
/* Whether a kernel of that name has been launched. */
bool weft_row_was_launched(const char *kernel);

#endif /* WEFT_TESTS_CUDA_ROWS_ROW_HOST_H_ */
