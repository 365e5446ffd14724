/* tests/device/late/late_device.c - the driver of LATE devices. */
#include "base/alloc.h"
#include "tests/device/late/late.h"

typedef struct late_device {
  weft_device_t base; /* first */
  weft_late_memory_t *bytes;
  weft_device_t *host;
} late_device_t;

static weft_late_options_t options = {.num_devices = 1, .max_delay_us = 200, .seed = 1};

void weft_late_configure(const weft_late_options_t *o) { options = *o; }
const weft_late_options_t *weft_late_options(void) { return &options; }

static const late_device_t *of(const weft_device_t *d) {
  return (const late_device_t *)(const void *)(d->alias_of != NULL ? d->alias_of : d);
}

void *weft_late_bytes(const weft_device_t *d, void *p) { return weft_late_memory_bytes(of(d)->bytes, p); }
weft_device_t *weft_late_host(const weft_device_t *d) { return of(d)->host; }

static bool reaches(const weft_device_t *from, const weft_device_t *to) {
  (void)from;
  (void)to;
  return !options.by_host;
}

static int count(void) { return options.num_devices; }

static void destroy(weft_device_t *d) {
  late_device_t *late = (late_device_t *)(void *)d;
  weft_late_queue_stop(d->copies_out);
  weft_late_queue_stop(d->copies_in);
  weft_late_queue_stop(d->compute);
  weft_late_queue_destroy(d->copies_out);
  weft_late_queue_destroy(d->copies_in);
  weft_late_queue_destroy(d->compute);
  if (d->memory != NULL) weft_device_deinit(d);
  weft_late_memory_destroy(late->bytes);
  weft_device_destroy(late->host);
  weft_free(late);
}

static weft_status_t *fill(late_device_t *late, const weft_device_spec_t *spec, int ordinal) {
  weft_device_t *d = &late->base;
  const uint64_t seed = options.seed + 3 * (uint64_t)ordinal;
  d->driver = &weft_late_driver;
  d->ordinal = ordinal;
  d->memory_limit = 1 << 30;
  const weft_device_spec_t host = {.name = WEFT_STR("host"), .incarnation = 1};
  WEFT_RETURN_IF_ERROR(weft_cpu_driver.create(&host, 0, &late->host));
  WEFT_RETURN_IF_ERROR(weft_late_memory_create(d, &late->bytes));
  d->allocator = weft_late_memory_allocator(late->bytes);
  d->space = d->allocator->space;
  d->host_allocator = weft_cpu_allocator();
  WEFT_RETURN_IF_ERROR(weft_late_queue_create(d, "compute", seed, &d->compute));
  WEFT_RETURN_IF_ERROR(weft_late_queue_create(d, "copies in", seed + 1, &d->copies_in));
  WEFT_RETURN_IF_ERROR(weft_late_queue_create(d, "copies out", seed + 2, &d->copies_out));
  return weft_device_init(d, spec);
}

static weft_status_t *create(const weft_device_spec_t *spec, int ordinal, weft_device_t **out) {
  late_device_t *late = weft_calloc(1, sizeof *late);
  if (late == NULL)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  weft_status_t *s = fill(late, spec, ordinal);
  if (s != NULL) {
    destroy(&late->base);
    return s;
  }
  *out = &late->base;
  return NULL;
}

const weft_device_driver_t weft_late_driver = {
    .type = "LATE", .count = count, .create = create, .destroy = destroy, .reaches = reaches};
