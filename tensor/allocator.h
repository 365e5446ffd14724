/* tensor/allocator.h - where the bytes of a tensor live. */
#ifndef WEFT_TENSOR_ALLOCATOR_H_
#define WEFT_TENSOR_ALLOCATOR_H_

#include <stdbool.h>
#include <stddef.h>

#include "tensor/fence.h"

enum { WEFT_TENSOR_ALIGNMENT = 64 }; /* a cache line, and the widest vector register */

/* One per memory: the host's, a device's, pinned host memory. Thread-safe. Lives as long as its device. */
typedef struct weft_allocator weft_allocator_t;
struct weft_allocator {
  const char *name;                 /* "cpu", "gpu_0_bfc": for step statistics */
  const weft_memory_space_t *space; /* NULL: the host's memory */
  /* Aligned; NULL when there is no memory. A device's allocator sets *after to the fence after which the
   * block may be written, where its last use is still under way; the caller has set it to {NULL, 0}. */
  void *(*allocate)(weft_allocator_t *self, size_t bytes, weft_fence_t *after);
  void (*deallocate)(weft_allocator_t *self, void *p, size_t bytes);
};

/* Host memory. Blocks of 256 KiB and more are kept in a cache, of at most 256 MiB, and used again,
 * because handing them back to the kernel costs a page fault per 4 KiB on the next use. */
weft_allocator_t *weft_cpu_allocator(void);

#endif /* WEFT_TENSOR_ALLOCATOR_H_ */
