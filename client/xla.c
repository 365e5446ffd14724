/* client/xla.c - the switches of a compiler that is not there: they are kept, and nothing else. */
#include <stdatomic.h>

#include "tensorflow/c/c_api_experimental.h"

static atomic_uchar is_lazy = 1, is_cpu_global, is_folding_disabled;

void TF_EnableXLACompilation(TF_SessionOptions *options, unsigned char enable) {
  (void)options;
  (void)enable;
}
unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable) {
  return atomic_exchange(&is_lazy, enable != 0);
}
unsigned char TF_SetTfXlaCpuGlobalJit(unsigned char enable) {
  return atomic_exchange(&is_cpu_global, enable != 0);
}
void TF_SetXlaAutoJitMode(const char *mode) { (void)mode; }
unsigned char TF_GetXlaAutoJitEnabled(void) { return 0; }
void TF_SetXlaMinClusterSize(int size) { (void)size; }
unsigned char TF_GetXlaConstantFoldingDisabled(void) { return atomic_load(&is_folding_disabled); }
void TF_SetXlaConstantFoldingDisabled(unsigned char should_enable) {
  atomic_store(&is_folding_disabled, should_enable != 0);
}
