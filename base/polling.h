/* base/polling.h - whether to look for a peer's bytes for a moment before sleeping.
 *
 * Looking saves a sleep and a wake-up, which are dear where a core that has nothing to do is slow to begin
 * again; but it takes the core from a thread that has work: perhaps from the very peer that is waited for. So
 * the core is given away between two looks (sched_yield), and all looks together take no longer than
 * WEFT_POLL_NS. A core that comes back later than that had work for other threads: looking ends, and no
 * thread of this task polls for a while, which doubles each time up to WEFT_POLL_MOST_PAUSE_NS and begins
 * anew when polling was of use. Where the core came back at once each time, the peer is late, and the looks
 * took time that no thread wanted: the next wait polls again.
 */
#ifndef WEFT_BASE_POLLING_H_
#define WEFT_BASE_POLLING_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  WEFT_POLL_NS = 100000, /* a few times what a sleep and a wake-up cost */
  WEFT_POLL_LEAST_PAUSE_NS = 1000000,
  WEFT_POLL_MOST_PAUSE_NS = 128000000,
};

typedef struct weft_polling { /* Thread-safe. Zeroed is ready for use. */
  _Atomic int64_t not_before_ns, pause_ns;
} weft_polling_t;

/* False: it is not long since the cores were wanted. */
bool weft_polling_may(const weft_polling_t *p);
/* Calls `look` until it returns true, or it is time to sleep: false. */
bool weft_polling_run(weft_polling_t *p, bool (*look)(void *arg), void *arg);

#endif /* WEFT_BASE_POLLING_H_ */
