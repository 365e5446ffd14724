/* device/cpu_device.c - the host as a device: no streams, no events, one memory. */
#include "base/alloc.h"
#include "device/device.h"

/* What TensorFlow's CPU device reports. */
static const int64_t CPU_MEMORY_LIMIT = 256 << 20;

static weft_status_t *stream_create(weft_device_t *d, weft_stream_t **out) {
  (void)d;
  *out = NULL;
  return NULL;
}

static void stream_destroy(weft_device_t *d, weft_stream_t *s) {
  (void)d;
  (void)s;
}

static weft_status_t *event_record(weft_device_t *d, weft_stream_t *s, weft_event_t **out) {
  (void)d;
  (void)s;
  *out = NULL;
  return NULL;
}

static weft_status_t *stream_wait(weft_device_t *d, weft_stream_t *s, weft_event_t *e) {
  (void)d;
  (void)s;
  (void)e;
  return NULL;
}

static void event_then(weft_device_t *d, weft_event_t *e, weft_device_done_fn *fn, void *arg) {
  (void)d;
  (void)e;
  fn(arg, NULL);
}

static void event_destroy(weft_device_t *d, weft_event_t *e) {
  (void)d;
  (void)e;
}

static void copy(weft_device_t *d, weft_stream_t *s, weft_tensor_t *from, weft_tensor_t *to,
                 weft_device_done_fn *done, void *arg) {
  (void)d;
  (void)s;
  weft_status_t *status = NULL;
  if (from->count != to->count) {
    status = WEFT_ERROR(INVALID_ARGUMENT, "copying a tensor of shape %s to one of shape %s",
                        WEFT_SHAPE_TEXT(&from->shape), WEFT_SHAPE_TEXT(&to->shape));
  } else {
    status = weft_tensor_copy_elements(to, 0, from, 0, from->count);
  }
  done(arg, status);
}

static void destroy(weft_device_t *d) {
  weft_memory_accounts_release(d->memory);
  weft_free((void *)d->name.data);
  weft_free(d);
}

static const weft_device_ops_t cpu_ops = {
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_then = event_then,
    .event_destroy = event_destroy,
    .copy_to_host = copy,
    .copy_from_host = copy,
    .destroy = destroy,
};

weft_status_t *weft_cpu_device_create(weft_str_t name, uint64_t incarnation, weft_thread_pool_t *pool,
                                      weft_resource_manager_t *resources, weft_device_t **out) {
  weft_device_t *d = weft_calloc(1, sizeof *d);
  char *copy_of_name = weft_strndup(name.data == NULL ? "" : name.data, name.length);
  weft_memory_accounts_t *memory = weft_memory_accounts_create(weft_cpu_allocator());
  if (d == NULL || copy_of_name == NULL || memory == NULL) {
    weft_free(d);
    weft_free(copy_of_name);
    weft_memory_accounts_release(memory);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "creating device '%.*s'", WEFT_STR_ARGS(name));
  }
  d->ops = &cpu_ops;
  d->name = weft_str_of(copy_of_name, name.length);
  d->type = "CPU";
  d->incarnation = incarnation;
  d->memory_limit = CPU_MEMORY_LIMIT;
  d->allocator = weft_cpu_allocator();
  d->host_allocator = d->allocator;
  d->memory = memory;
  d->pool = pool;
  d->resources = resources;
  *out = d;
  return NULL;
}

void weft_device_destroy(weft_device_t *d) {
  if (d != NULL) d->ops->destroy(d);
}
