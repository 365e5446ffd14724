/* tests/device/late/everywhere.c - each task of the test has a LATE device. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/device/late/late.h"

void weft_test_setup(void); /* tests/runner.c */

static void must(weft_status_t *s) {
  if (s == NULL) return;
  fprintf(stderr, "registering LATE devices: %s\n", weft_status_message(s));
  exit(2);
}

void weft_test_setup(void) {
  must(weft_kernel_table_register(weft_late_kernels()));
  must(weft_device_register(&weft_late_driver));
}
