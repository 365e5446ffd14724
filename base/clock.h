/* base/clock.h - the two clocks: one that only goes forward, one that people read. */
#ifndef WEFT_BASE_CLOCK_H_
#define WEFT_BASE_CLOCK_H_

#include <stdint.h>

int64_t weft_clock_ns(void);     /* monotonic; for durations and deadlines */
int64_t weft_clock_micros(void); /* since 1970, UTC; for step statistics, events and logs */

/* `ms` from now, of weft_clock_ns(); what the clock cannot say is INT64_MAX: never. */
int64_t weft_clock_deadline_ns(int64_t ms);

/* "2026-01-31 12:00:00 UTC" of weft_clock_micros(). */
enum { WEFT_CLOCK_TEXT = 32 };
void weft_clock_print(int64_t micros, char out[WEFT_CLOCK_TEXT]);

#endif /* WEFT_BASE_CLOCK_H_ */
