/* tests/device/late/everywhere.c - each task of the program has a LATE device. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/device/late/late.h"

static void must(weft_status_t *s) {
  if (s == NULL) return;
  fprintf(stderr, "registering LATE devices: %s\n", weft_status_message(s));
  exit(2);
}

/* Before main(): of a test, or of the command that a test starts. */
__attribute__((constructor)) static void register_late_devices(void) {
  must(weft_kernel_table_register(weft_late_kernels()));
  must(weft_device_register(&weft_late_driver));
}
