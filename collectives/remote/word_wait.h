/* collectives/remote/word_wait.h - sleeping until one of several words changes.
 *
 * The words may lie in files that other processes write and this one maps for reading only. A process that
 * changes a word wakes all threads of all processes that sleep on it by one call.
 *
 * Source: futex(2) and futex_waitv(2) of Linux 5.16.
 */
#ifndef WEFT_COLLECTIVES_REMOTE_WORD_WAIT_H_
#define WEFT_COLLECTIVES_REMOTE_WORD_WAIT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WEFT_WATCHED_WORDS = 128 }; /* the system's limit */

typedef struct weft_watched_word {
  const _Atomic uint32_t *word; /* lent */
  uint32_t seen;                /* its value before the caller found that it has to sleep */
} weft_watched_word_t;

static inline weft_watched_word_t weft_word_watch(const _Atomic uint32_t *word) {
  return (weft_watched_word_t){word, atomic_load(word)};
}

/* Sleeps until one of `n` words (1 to WEFT_WATCHED_WORDS) is no longer what was seen and its writer has woken
 * the sleepers; may return earlier. False, at once: the system has no such wait. */
bool weft_words_wait(const weft_watched_word_t *words, int n);
/* Wakes all that sleep on `word`, which the caller has changed. */
void weft_word_wake(_Atomic uint32_t *word);

#endif /* WEFT_COLLECTIVES_REMOTE_WORD_WAIT_H_ */
