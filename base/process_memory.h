/* base/process_memory.h - reading the memory of another process of this host and user.
 *
 * A process tells a handle of itself by other means; the reader adds the process number that the kernel gave
 * it for the other end of a socket. Each read also reads a random word of the owner, so that bytes of a later
 * process with the same number are never taken for the owner's.
 *
 * Source: process_vm_readv(2); the system may forbid it (ptrace(2), "Ptrace access mode checking").
 */
#ifndef WEFT_BASE_PROCESS_MEMORY_H_
#define WEFT_BASE_PROCESS_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct weft_process_memory {
  uint64_t address; /* of the owner's word, in the owner */
  uint64_t word;
} weft_process_memory_t;

/* What other processes need to read this one; the same each time. Thread-safe. */
weft_process_memory_t weft_process_memory_own(void);
/* May this process read any process at all? Asked of the system once. Thread-safe. */
bool weft_process_memory_may_read(void);

/* Copies `n` bytes at `address` of process `pid`, which is `owner`; with 0 bytes finds out whether it could.
 * Any address is safe. Does not block, also if the owner is stopped. Errors: PERMISSION_DENIED, the system
 * forbids it; UNAVAILABLE, the owner has ended, or has no such memory. Thread-safe. */
WEFT_MUST_CHECK weft_status_t *weft_process_memory_read(int64_t pid, weft_process_memory_t owner,
                                                        uint64_t address, void *to, size_t n);

#endif /* WEFT_BASE_PROCESS_MEMORY_H_ */
