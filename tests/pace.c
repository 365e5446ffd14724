/* tests/pace.c - see the header. */
#include "tests/pace.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/runner.h"

/* IDLE_NS: both together on two idle cores of 2020, without sanitizers. */
enum { SWITCHES = 1000, ROUNDS = 8 << 20, IDLE_NS = 30000000, USUAL = 3 };

static void *echo(void *arg) {
  const int *fds = arg;
  char c;
  while (read(fds[0], &c, 1) == 1 && write(fds[1], &c, 1) == 1) continue;
  return NULL;
}

static void switch_threads(void) {
  int there[2], back[2];
  char c = 0;
  pthread_t thread;
  CU_ASSERT_TRUE_FATAL(pipe(there) == 0 && pipe(back) == 0);
  int ends[2] = {there[0], back[1]};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, echo, ends), 0);
  for (int i = 0; i < SWITCHES; i++)
    CU_ASSERT_TRUE_FATAL(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
  close(there[1]);
  pthread_join(thread, NULL);
  close(there[0]);
  close(back[0]);
  close(back[1]);
}

static void work(void) {
  volatile uint32_t x = 1;
  for (int i = 0; i < ROUNDS; i++) x = x * 1664525u + 1013904223u;
}

double weft_test_pace(void) {
  const int64_t begin = weft_clock_ns();
  switch_threads();
  work();
  const double pace = (double)(weft_clock_ns() - begin) / IDLE_NS;
  return pace < 1 ? 1 : pace;
}

bool weft_test_is_in_time(double took_ms, double limit_ms) {
  if (took_ms <= limit_ms) return true;
  const double pace = weft_test_pace();
  printf("\n    %.1f ms instead of %.1f ms; the machine is %.1f times slower than an idle one ... ", took_ms,
         limit_ms, pace);
  return took_ms <= limit_ms * (pace > USUAL ? pace : USUAL);
}

bool weft_test_is_within(int64_t since_ns, int64_t limit_ms) {
  return weft_test_is_in_time((double)(weft_clock_ns() - since_ns) / 1e6, (double)limit_ms);
}
