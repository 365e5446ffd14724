/* kernels/cpu/debug/watch.h - what ops that watch a value share: which value, and where its dumps go. */
#ifndef WEFT_KERNELS_CPU_DEBUG_WATCH_H_
#define WEFT_KERNELS_CPU_DEBUG_WATCH_H_

#include "io/debug_dump.h"
#include "kernels/kernel.h"

typedef struct weft_watch {
  weft_debug_key_t key;    /* lent by the plan, op by the caller */
  const weft_attr_t *urls; /* lent by the plan */
} weft_watch_t;

/* Reads device_name, tensor_name ("node" or "node:slot") and debug_urls. Errors: INVALID_ARGUMENT (a name of
 * another form), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_watch_read(const weft_kernel_setup_t *setup, weft_watch_t *out);
/* Writes a file under the path of each "file://<path>".
 * Errors: UNIMPLEMENTED "grpc://", INTERNAL (other URLs, files that cannot be written). */
WEFT_MUST_CHECK weft_status_t *weft_watch_publish(const weft_watch_t *w, const weft_tensor_t *t);

#endif /* WEFT_KERNELS_CPU_DEBUG_WATCH_H_ */
