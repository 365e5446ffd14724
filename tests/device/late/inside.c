/* tests/device/late/inside.c - each task of the test has LATE devices, of the library that is linked in. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/loaded/library.h"
#include "tests/device/late/late.h"

/* Before main(). */
__attribute__((constructor)) static void register_late_devices(void) {
  weft_status_t *s = weft_device_library_add("the test", weft_late_open);
  if (s == NULL) return;
  fprintf(stderr, "registering LATE devices: %s\n", weft_status_message(s));
  exit(2);
}
