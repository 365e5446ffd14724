/* tests/membership/membership_testing.h - answers of keys and values, waited for on the test's thread. */
#ifndef WEFT_TESTS_MEMBERSHIP_MEMBERSHIP_TESTING_H_
#define WEFT_TESTS_MEMBERSHIP_MEMBERSHIP_TESTING_H_

#include "base/mutex.h"
#include "membership/membership.h"

/* What came back. Zeroed is ready for use. */
typedef struct weft_test_answer {
  weft_mutex_t mu;
  weft_cond_t cond;
  bool is_made, is_done;
  int times;
  weft_code_t code;
  char value[256], message[512];
} weft_test_answer_t;

void weft_test_answer_init(weft_test_answer_t *a);
void weft_test_answer_deinit(weft_test_answer_t *a);
void weft_test_answered(void *arg, weft_status_t *status, weft_str_t value); /* a weft_value_fn */
bool weft_test_answer_is_done(weft_test_answer_t *a);
/* Waits, 10 s at most, and makes it ready for the next; returns the code, DATA_LOSS if nothing came. */
weft_code_t weft_test_answer_wait(weft_test_answer_t *a);

#endif /* WEFT_TESTS_MEMBERSHIP_MEMBERSHIP_TESTING_H_ */
