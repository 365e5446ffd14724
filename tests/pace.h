/* tests/pace.h - limits of time that hold on a busy machine, too. */
#ifndef WEFT_TESTS_PACE_H_
#define WEFT_TESTS_PACE_H_

#include <stdbool.h>
#include <stdint.h>

/* 1 where a thread or address sanitizer makes everything many times slower: sizes are smaller there, and
 * times are not compared. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define WEFT_TEST_IS_SANITIZED 1
#endif
#endif
#ifndef WEFT_TEST_IS_SANITIZED
#define WEFT_TEST_IS_SANITIZED 0
#endif

/* How many times longer than on an idle machine some work and some switches between two threads take now; at
 * least 1. Takes some 30 ms, times the result. */
double weft_test_pace(void);

/* True if what took `took_ms` was not slower than `limit_ms`, which is said of an idle machine. A slow or
 * busy one may take three times as long, or weft_test_pace() times if that is more. */
bool weft_test_is_in_time(double took_ms, double limit_ms);

/* The same of what began at `since_ns`, a time of weft_clock_ns(), and ends now. */
bool weft_test_is_within(int64_t since_ns, int64_t limit_ms);

#endif /* WEFT_TESTS_PACE_H_ */
