/* tests/device/late/everywhere.c - each task of the program has LATE devices, as many as WEFT_LATE_DEVICES
 * says. */
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
  const char *number = getenv("WEFT_LATE_DEVICES");
  weft_late_options_t o = *weft_late_options();
  if (number != NULL) o.num_devices = number[0] - '0';
  weft_late_configure(&o);
  must(weft_kernel_table_register(weft_late_kernels()));
  must(weft_device_register(&weft_late_driver));
}
