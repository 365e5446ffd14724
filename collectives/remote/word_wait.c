/* collectives/remote/word_wait.c - the system's calls for sleeping on words. */
#define _GNU_SOURCE /* syscall */
#include "collectives/remote/word_wait.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* on all architectures */
#endif

/* As struct futex_waitv of <linux/futex.h>, which older headers lack. */
typedef struct futex_word {
  uint64_t value, address;
  uint32_t flags, reserved;
} futex_word_t;
enum { FUTEX_WORD_32 = 2 }; /* of 32 bits, of any process */

bool weft_words_wait(const weft_watched_word_t *words, int n) {
  assert(n > 0 && n <= WEFT_WATCHED_WORDS);
  futex_word_t list[WEFT_WATCHED_WORDS];
  for (int i = 0; i < n; i++)
    list[i] = (futex_word_t){words[i].seen, (uint64_t)(uintptr_t)words[i].word, FUTEX_WORD_32, 0};
  const long woken = syscall(SYS_futex_waitv, list, (unsigned)n, 0U, NULL, 0);
  return woken >= 0 || errno == EAGAIN || errno == EINTR;
}

void weft_word_wake(_Atomic uint32_t *word) {
  (void)syscall(SYS_futex, (void *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
