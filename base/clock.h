/* base/clock.h - the two clocks: one that only goes forward, one that people read. */
#ifndef WEFT_BASE_CLOCK_H_
#define WEFT_BASE_CLOCK_H_

#include <stdint.h>

int64_t weft_clock_ns(void);     /* monotonic; for durations and deadlines */
int64_t weft_clock_micros(void); /* since 1970, UTC; for step statistics, events and logs */

/* `ms` from now, of weft_clock_ns(); what the clock cannot say is INT64_MAX: never. */
int64_t weft_clock_deadline_ns(int64_t ms);

#endif /* WEFT_BASE_CLOCK_H_ */
