/* tests/cuda/fake/emulated.c - the kernels of kernels/cuda, run on the host. */
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/fake/machine.h"

static void run(const fake_kernel_t *k, void *closure, const unsigned grid[3], const unsigned block[3],
                size_t shared) {
  weft_emulated_run(k->data, closure, grid, block, shared);
}

bool fake_find_emulated(const char *name, fake_kernel_t *out) {
  const weft_emulated_kernel_t *k = weft_emulated_kernel(name);
  if (k == NULL) return false;
  *out = (fake_kernel_t){.name = k->name, .capture = k->capture, .run = run, .copy = k->copy, .data = k};
  return true;
}
