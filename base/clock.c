/* base/clock.c - POSIX clocks. */
#include "base/clock.h"

#include <time.h>

int64_t weft_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t weft_clock_micros(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t weft_clock_deadline_ns(int64_t ms) {
  int64_t now = weft_clock_ns();
  if (ms < 0) return now;
  return ms < (INT64_MAX - now) / 1000000 ? now + ms * 1000000 : INT64_MAX;
}

void weft_clock_print(int64_t micros, char out[WEFT_CLOCK_TEXT]) {
  time_t seconds = (time_t)(micros / 1000000);
  struct tm utc;
  gmtime_r(&seconds, &utc);
  if (strftime(out, WEFT_CLOCK_TEXT, "%Y-%m-%d %H:%M:%S UTC", &utc) == 0) out[0] = '\0';
}
