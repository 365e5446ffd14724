/* tests/cuda/emulator/emulator.h - runs the CUDA kernels' own source on the host, for tests.
 *
 * Every WEFT_CUDA_KERNEL that is linked in is found by its name. Blocks run one after the other; the threads
 * of a block run one after the other as well or, in a WEFT_CUDA_BLOCK_KERNEL, as fibers that change at
 * __syncthreads and shuffles. What no device would do ends the process with a message: a barrier that not all
 * threads of a block reach, a wait in a kernel that is said not to wait, too many threads.
 *
 * Thread-safe: several launches may run at once on several threads.
 */
#ifndef WEFT_TESTS_CUDA_EMULATOR_EMULATOR_H_
#define WEFT_TESTS_CUDA_EMULATOR_EMULATOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_emulated_kernel weft_emulated_kernel_t;
struct weft_emulated_kernel {
  const char *name;
  int num_args;
  int waits; /* its threads wait for each other */
  /* A closure of the arguments' values, which are copied. Each pointer to device memory among them goes
   * through to_host, which gives the address where the host finds those bytes. NULL without memory. */
  void *(*capture)(void **args, void *(*to_host)(void *device_pointer));
  void *(*copy)(const void *closure);         /* of a closure, for another launch. NULL without memory */
  void (*run)(void *closure);                 /* one thread of it */
  const weft_emulated_kernel_t *next_in_list; /* the emulator's */
};

/* NULL: there is none. */
const weft_emulated_kernel_t *weft_emulated_kernel(const char *name);
int weft_emulated_count(void); /* of the kernels that are linked in */

/* Runs a launch to its end on the calling thread, and frees the closure. */
void weft_emulated_run(const weft_emulated_kernel_t *kernel, void *closure, const unsigned grid[3],
                       const unsigned block[3], size_t shared_bytes);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_TESTS_CUDA_EMULATOR_EMULATOR_H_ */
