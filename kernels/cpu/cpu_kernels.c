/* kernels/cpu/cpu_kernels.c - all kernels of the CPU, by family: those of families.def, and those
 * of kernels/ that are the same on every device. */
#include "kernels/kernel.h"

#include "kernels/host/host_kernels.h"

#define WEFT_FAMILY(name) extern const weft_kernel_t weft_cpu_##name##_kernels[];
#include "kernels/cpu/families.def"
#undef WEFT_FAMILY

const weft_kernel_table_t *weft_cpu_kernels(void); /* kernels/tables.def names it */

const weft_kernel_table_t *weft_cpu_kernels(void) {
  static const weft_kernel_t *const families[] = {
      weft_control_flow_kernels,
      weft_graph_kernels,
      weft_sendrecv_kernels,
      weft_args_kernels,
      weft_memory_copy_kernels,
#define WEFT_FAMILY(name) weft_cpu_##name##_kernels,
#include "kernels/cpu/families.def"
#undef WEFT_FAMILY
      NULL,
  };
  static const weft_kernel_table_t table = {.device_type = "CPU", .families = families};
  return &table;
}
