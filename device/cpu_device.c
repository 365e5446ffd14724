/* device/cpu_device.c - the host as a device: no queue, one memory. */
#include "base/alloc.h"
#include "base/isa.h"
#include "device/device.h"

/* What TensorFlow's CPU device reports. */
static const int64_t CPU_MEMORY_LIMIT = 256 << 20;

static weft_status_t *count(const weft_device_driver_t *self, const weft_accelerator_options_t *options,
                            int *out) {
  (void)self;
  (void)options;
  *out = 1;
  return NULL;
}

static void destroy(weft_device_t *d) {
  weft_device_deinit(d);
  weft_free(d);
}

static weft_status_t *create(const weft_device_driver_t *self, const weft_device_spec_t *spec, int ordinal,
                             weft_device_t **out) {
  if (!weft_isa_is_supported(WEFT_ISA_BASE)) {
    return WEFT_ERROR(FAILED_PRECONDITION,
                      "this processor does not have %s, which the kernels are compiled for",
                      weft_isa_name(WEFT_ISA_BASE));
  }
  weft_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  d->driver = self;
  d->ordinal = ordinal;
  d->numa_node = -1;
  d->memory_limit = CPU_MEMORY_LIMIT;
  d->allocator = d->host_allocator = weft_cpu_allocator();
  weft_status_t *s = weft_device_init(d, spec);
  if (s != NULL) {
    weft_free(d);
    return s;
  }
  *out = d;
  return NULL;
}

const weft_device_driver_t weft_cpu_driver = {
    .type = "CPU", .count = count, .create = create, .destroy = destroy};

weft_status_t *weft_cpu_device_create(weft_str_t name, uint64_t incarnation, weft_thread_pool_t *pool,
                                      weft_resource_manager_t *resources, weft_device_t **out) {
  const weft_device_spec_t spec = {
      .name = name, .incarnation = incarnation, .pool = pool, .resources = resources};
  return create(&weft_cpu_driver, &spec, 0, out);
}
