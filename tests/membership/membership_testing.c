/* tests/membership/membership_testing.c - answers. */
#include "tests/membership/membership_testing.h"

#include <stdio.h>

#include "base/clock.h"

void weft_test_answer_init(weft_test_answer_t *a) {
  memset(a, 0, sizeof *a);
  weft_mutex_init(&a->mu);
  weft_cond_init(&a->cond);
}

void weft_test_answer_deinit(weft_test_answer_t *a) {
  weft_cond_deinit(&a->cond);
  weft_mutex_deinit(&a->mu);
}

void weft_test_answered(void *arg, weft_status_t *status, weft_str_t value) {
  weft_test_answer_t *a = arg;
  weft_mutex_lock(&a->mu);
  a->code = weft_status_code(status);
  snprintf(a->message, sizeof a->message, "%s", weft_status_message(status));
  snprintf(a->value, sizeof a->value, "%.*s", WEFT_STR_ARGS(value));
  a->is_done = true;
  a->times++;
  weft_cond_broadcast(&a->cond);
  weft_mutex_unlock(&a->mu);
  weft_status_free(status);
}

bool weft_test_answer_is_done(weft_test_answer_t *a) {
  weft_mutex_lock(&a->mu);
  bool is_done = a->is_done;
  weft_mutex_unlock(&a->mu);
  return is_done;
}

weft_code_t weft_test_answer_wait(weft_test_answer_t *a) {
  int64_t until = weft_clock_ns() + (int64_t)10000 * 1000000;
  weft_mutex_lock(&a->mu);
  bool in_time = true;
  while (!a->is_done && in_time)
    in_time = weft_cond_wait_until(&a->cond, &a->mu, until); /* woken by weft_test_answered */
  weft_code_t code = a->is_done ? a->code : WEFT_DATA_LOSS;
  a->is_done = false;
  weft_mutex_unlock(&a->mu);
  return code;
}
