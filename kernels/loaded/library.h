/* kernels/loaded/library.h - device libraries (include/weft/device.h): found, loaded, checked, registered.
 *
 * A library that cannot be used is left out, with a warning in the log, and the CPU goes on. Those that were
 * seen are kept with what came of them, for `weft devices`.
 */
#ifndef WEFT_KERNELS_LOADED_LIBRARY_H_
#define WEFT_KERNELS_LOADED_LIBRARY_H_

#include "device/loaded/loaded.h"

/* What came of a library. Constant; lives as long as the process. */
typedef struct weft_device_library {
  const char *file;                   /* as it was named */
  const char *name, *version;         /* what it says of itself; "" where it did not come to that */
  const char *type;                   /* of its devices; NULL: it cannot be used, and `trouble` says why */
  const char *trouble;                /* NULL: none */
  const weft_loaded_driver_t *driver; /* NULL: as `type` */
  struct weft_device_library *next;   /* NULL behind the last */
} weft_device_library_t;

/* Loads libweft_cuda.so from the folder of the program, or of the shared object that this function is in, or
 * from weft, ../weft or ../lib/weft from there; then what WEFT_DEVICE_PATH names. Does so once in a process:
 * call it before drivers are counted or devices made. Thread-safe; may take as long as the libraries take to
 * load. */
void weft_device_libraries_load(void);
/* Those that were seen, in that order; NULL: none. Thread-safe. */
const weft_device_library_t *weft_device_libraries(void);

/* Loads one file. Not thread-safe, as weft_device_register() is not, nor are the next. Errors:
 * FAILED_PRECONDITION with the file's name, and what is wrong with it. */
WEFT_MUST_CHECK weft_status_t *weft_device_library_open(const char *file);
/* Registers what `open` gives, which is the entry of `file`: what follows when a file was loaded. */
WEFT_MUST_CHECK weft_status_t *weft_device_library_add(const char *file, WEFT_OpenDeviceLibraryFn *open);

#endif /* WEFT_KERNELS_LOADED_LIBRARY_H_ */
