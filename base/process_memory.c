/* base/process_memory.c - reads with process_vm_readv, a word of the owner with each. */
#define _GNU_SOURCE /* process_vm_readv */
#include "base/process_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/random.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t own_word; /* constant after `once` */
static bool may_read;     /* constant after `once` */

static void find_out(void) {
  own_word = weft_random_id();
  weft_status_t *s = weft_process_memory_read(
      getpid(), (weft_process_memory_t){(uint64_t)(uintptr_t)&own_word, own_word}, 0, NULL, 0);
  may_read = s == NULL;
  weft_status_free(s); /* what cannot be read goes over a socket */
}

weft_process_memory_t weft_process_memory_own(void) {
  (void)pthread_once(&once, find_out);
  return (weft_process_memory_t){(uint64_t)(uintptr_t)&own_word, own_word};
}

bool weft_process_memory_may_read(void) {
  (void)pthread_once(&once, find_out);
  return may_read;
}

weft_status_t *weft_process_memory_read(int64_t pid, weft_process_memory_t owner, uint64_t address, void *to,
                                        size_t n) {
  uint64_t word = 0;
  for (size_t at = 0; at < n || n == 0;) {
    const struct iovec here[2] = {{&word, sizeof word}, {(char *)to + at, n - at}};
    const struct iovec there[2] = {{(void *)(uintptr_t)owner.address, sizeof word},
                                   {(void *)(uintptr_t)(address + at), n - at}};
    const unsigned long pieces = n == 0 ? 1 : 2;
    const ssize_t got = process_vm_readv((pid_t)pid, here, pieces, there, pieces, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
      return WEFT_ERROR(PERMISSION_DENIED, "the memory of process %" PRId64 " may not be read", pid);
    const bool is_owner = got >= (ssize_t)sizeof word && word == owner.word;
    if (!is_owner || (n > 0 && got == (ssize_t)sizeof word)) {
      return WEFT_ERROR(UNAVAILABLE, "process %" PRId64 " has ended, or has no %zu bytes there", pid, n);
    }
    if (n == 0) break;
    at += (size_t)got - sizeof word;
  }
  return NULL;
}
