/* tests/device/loaded.c - each task of the program has the devices of a device library, as has each process
 * that it starts: WEFT_DEVICE_PATH names the library.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/loaded/library.h"

#define PATH "WEFT_DEVICE_PATH"

static void fail(const char *why) {
  fprintf(stderr, "loading devices: %s\n", why);
  exit(2);
}

/* Before main(). */
__attribute__((constructor)) static void load_devices(void) {
  const char *path = getenv(PATH);
  char *file = path == NULL ? NULL : realpath(path, NULL); /* processes are started in other folders */
  if (file == NULL || setenv(PATH, file, 1) != 0) fail("no such file: " PATH);
  free(file);
  weft_device_libraries_load();
  const weft_device_library_t *l = weft_device_libraries();
  if (l == NULL || l->trouble != NULL) fail(l == NULL ? "none was found" : l->trouble);
}
