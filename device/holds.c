/* device/holds.c - one lock for all devices: holds begin and end with threads, which is seldom. */
#include "device/holds.h"

#include "base/mutex.h"

static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER;
static weft_cond_t ended; /* of a hold; guarded by mu, made by the first that waits */
static bool is_made;

void weft_device_hold(weft_device_t *d) {
  weft_mutex_lock(&mu);
  d->holds++;
  weft_mutex_unlock(&mu);
}

void weft_device_let_go(weft_device_t *d) {
  weft_mutex_lock(&mu);
  if (--d->holds == 0 && is_made) weft_cond_broadcast(&ended);
  weft_mutex_unlock(&mu);
}

void weft_device_wait_for_holds(weft_device_t *d) {
  weft_mutex_lock(&mu);
  if (!is_made) weft_cond_init(&ended);
  is_made = true;
  while (d->holds > 0) weft_cond_wait(&ended, &mu);
  weft_mutex_unlock(&mu);
}
