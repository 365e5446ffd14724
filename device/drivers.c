/* device/drivers.c - the list of drivers. */
#include "device/device.h"

/* Written before the first task is made, read afterwards. The last place stays NULL. */
static const weft_device_driver_t *drivers[WEFT_MAX_DRIVERS + 1] = {&weft_cpu_driver};

const weft_device_driver_t *const *weft_device_drivers(void) { return drivers; }

int weft_device_count(const weft_device_driver_t *driver) {
  int n = 0;
  weft_status_t *s = driver->count(driver, NULL, &n);
  weft_status_free(s);
  return s == NULL ? n : 0;
}

const weft_device_driver_t *weft_device_accelerator(void) {
  const weft_device_driver_t *last = NULL;
  for (int i = 1; drivers[i] != NULL; i++) {
    if (weft_device_count(drivers[i]) > 0) last = drivers[i];
  }
  return last;
}

int weft_device_driver_index(weft_str_t type) {
  for (int i = 0; drivers[i] != NULL; i++) {
    if (weft_str_is(type, drivers[i]->type)) return i;
  }
  return -1;
}

weft_status_t *weft_device_register(const weft_device_driver_t *driver) {
  int n = 0;
  while (drivers[n] != NULL) n++;
  if (weft_device_driver_index(weft_str(driver->type)) >= 0) {
    return WEFT_ERROR(ALREADY_EXISTS, "there is a driver of devices of type %s", driver->type);
  }
  if (n == WEFT_MAX_DRIVERS) return WEFT_ERROR(RESOURCE_EXHAUSTED, "more than %d types of devices", n);
  drivers[n] = driver;
  return NULL;
}
