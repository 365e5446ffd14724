/* device/cuda/shared_library.h - NVIDIA's libraries, opened at run time when they are first needed. */
#ifndef WEFT_DEVICE_CUDA_SHARED_LIBRARY_H_
#define WEFT_DEVICE_CUDA_SHARED_LIBRARY_H_

#include <stdbool.h>

#include "base/mutex.h"
#include "weft/device.h"

/* A function, and where its pointer goes: a void * of that many bytes behind the table. */
typedef struct weft_cuda_symbol {
  const char *name;
  size_t offset;
} weft_cuda_symbol_t;

#define WEFT_CUDA_SYMBOL(table, name) {#name, (size_t)((char *)&(table).name - (char *)&(table))},

/* A library; static, zero but for the first members. */
typedef struct weft_cuda_shared_library {
  const char *what;          /* "products of matrices need cuBLASLt": for messages */
  const char *version;       /* "cuBLASLt 12 or later" */
  const char *hint;          /* "install the CUDA toolkit's libcublas": what to do where it is missing */
  const char *variable;      /* the environment's: a file to open instead */
  const char *const *places; /* files to try, ended by NULL */
  const weft_cuda_symbol_t *symbols;
  int num_symbols;
  void *table; /* of pointers to functions */
  weft_mutex_t mu;
  bool tried;            /* guarded by mu */
  WEFT_Failure *failure; /* guarded by mu; of the first call */
} weft_cuda_shared_library_t;

/* Opens it and fills the table at the first call; the later ones give the same answer. Thread-safe. Errors:
 * UNAVAILABLE, with what is missing and what to do. */
WEFT_Failure *weft_cuda_shared_library_open(weft_cuda_shared_library_t *l);

#endif /* WEFT_DEVICE_CUDA_SHARED_LIBRARY_H_ */
