/* device/loaded/loaded_driver.c - a library's type of device as a driver. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/loaded/loaded_device.h"

/* TensorFlow's name for it. */
#define ALLOW_GROWTH "TF_FORCE_GPU_ALLOW_GROWTH"

/* TensorFlow's variable, where it is set, has the last word. */
static int grows(const weft_accelerator_options_t *o) {
  const char *growth = getenv(ALLOW_GROWTH);
  if (growth != NULL && strcmp(growth, "true") == 0) return 1;
  if (growth != NULL && strcmp(growth, "false") == 0) return 0;
  return o != NULL && o->allow_growth;
}

/* `o` as libraries see it; lent by it. */
static WEFT_DeviceOptions options_of(const weft_accelerator_options_t *o) {
  WEFT_DeviceOptions is = {.size = sizeof is, .visible = "", .allow_growth = grows(o)};
  if (o == NULL) return is;
  is.visible = o->visible;
  is.memory_fraction = o->memory_fraction;
  is.num_per_device = o->num_per_device;
  is.num_split = o->num_split;
  is.num_logical = o->num_logical;
  is.logical_bytes = o->logical_bytes;
  return is;
}

static const weft_loaded_driver_t *driver_of(const weft_device_driver_t *base) {
  return (const weft_loaded_driver_t *)(const void *)base;
}

/* ---- devices ---- */

static void destroy(weft_device_t *base) {
  weft_loaded_device_t *d = (weft_loaded_device_t *)(void *)base;
  weft_peer_memory_end(base);
  if (base->memory != NULL) weft_device_deinit(base);
  weft_device_destroy(d->host);
  weft_loaded_device_let_go(d, true);
}

static weft_status_t *fill(weft_loaded_device_t *d, const weft_device_spec_t *spec, int ordinal) {
  weft_device_t *base = &d->base;
  const WEFT_DeviceOptions o = options_of(spec->accelerators);
  WEFT_DeviceDescription is = {.size = sizeof is, .numa_node = -1};
  const weft_device_spec_t host = {.name = WEFT_STR("host"), .incarnation = 1};
  WEFT_RETURN_IF_ERROR(weft_cpu_driver.create(&weft_cpu_driver, &host, 0, &d->host));
  WEFT_RETURN_IF_ERROR(weft_status_of_failure(d->type->open(&o, ordinal, &d->handle)));
  d->type->describe(d->handle, &is);
  base->memory_limit = is.memory_limit;
  base->physical = is.physical;
  base->numa_node = is.numa_node;
  weft_loaded_memory_init(d, is.allocator != NULL ? is.allocator : base->driver->type);
  for (int kind = WEFT_QUEUE_COMPUTE; kind <= WEFT_QUEUE_COPIES_OUT; kind++)
    WEFT_RETURN_IF_ERROR(weft_loaded_queue_init(d, (WEFT_QueueKind)kind));
  base->compute = &d->queues[WEFT_QUEUE_COMPUTE].base;
  base->copies_in = &d->queues[WEFT_QUEUE_COPIES_IN].base;
  base->copies_out = &d->queues[WEFT_QUEUE_COPIES_OUT].base;
  WEFT_RETURN_IF_ERROR(weft_device_init(base, spec));
  d->held = weft_memory_holders_create(&d->space, base->name, weft_loaded_memory_state, d);
  return d->held != NULL ? NULL : WEFT_NO_MEMORY("the records of its memory");
}

static weft_status_t *create(const weft_device_driver_t *self, const weft_device_spec_t *spec, int ordinal,
                             weft_device_t **out) {
  weft_loaded_device_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  atomic_init(&d->holders, 1);
  d->base.driver = self;
  d->base.ordinal = ordinal;
  d->type = &driver_of(self)->type;
  weft_status_t *s = fill(d, spec, ordinal);
  if (s != NULL) {
    destroy(&d->base);
    return weft_status_annotate(s, "creating device '%.*s'", WEFT_STR_ARGS(spec->name));
  }
  *out = &d->base;
  return NULL;
}

static bool reaches(const weft_device_t *from, const weft_device_t *to) {
  const WEFT_DeviceType *type = &driver_of(from->driver)->type;
  return type->reaches != NULL && type->reaches(weft_loaded_device(from), weft_loaded_device(to)) != 0;
}

/* ---- the driver ---- */

static weft_status_t *count(const weft_device_driver_t *self, const weft_accelerator_options_t *options,
                            int *out) {
  const WEFT_DeviceOptions o = options_of(options);
  int n = 0;
  WEFT_RETURN_IF_ERROR(weft_status_of_failure(driver_of(self)->type.count(&o, &n)));
  *out = n < 0 ? 0 : n;
  return NULL;
}

weft_status_t *weft_loaded_driver_count(const weft_loaded_driver_t *d, int *out) {
  return count(&d->base, NULL, out);
}

/* The function that a type lacks, or NULL. */
static const char *missing(const WEFT_DeviceType *t) {
#define NEEDS(name) \
  if (t->name == NULL) return #name;
  NEEDS(count)
  NEEDS(open)
  NEEDS(close)
  NEEDS(describe)
  NEEDS(queue)
  NEEDS(allocate)
  NEEDS(deallocate)
  NEEDS(wait)
  NEEDS(has_passed)
  NEEDS(when)
  NEEDS(copy)
#undef NEEDS
  if ((t->host_allocate == NULL) != (t->host_deallocate == NULL))
    return t->host_allocate == NULL ? "host_allocate" : "host_deallocate";
  const WEFT_DeviceCollectives *c = t->collectives;
  if (c != NULL && (c->size < offsetof(WEFT_DeviceCollectives, abort) + sizeof c->abort || c->join == NULL ||
                    c->leave == NULL || c->enqueue == NULL))
    return "collectives";
  const WEFT_DeviceSharing *shares = t->sharing;
  if (shares != NULL &&
      (shares->size < offsetof(WEFT_DeviceSharing, forget_memory) + sizeof shares->forget_memory ||
       shares->identify == NULL || shares->export_memory == NULL || shares->import_memory == NULL ||
       shares->forget_memory == NULL))
    return "sharing";
  if (t->capture_begin != NULL || t->capture_end != NULL || t->replay != NULL || t->graph_destroy != NULL) {
    return t->capture_begin == NULL   ? "capture_begin"
           : t->capture_end == NULL   ? "capture_end"
           : t->replay == NULL        ? "replay"
           : t->graph_destroy == NULL ? "graph_destroy"
                                      : NULL;
  }
  return NULL;
}

/* Are there collectives with other processes? */
static bool has_joint(const WEFT_DeviceCollectives *c) {
  return c->size >= offsetof(WEFT_DeviceCollectives, join_ranks) + sizeof c->join_ranks && c->abort != NULL &&
         c->unique_id != NULL && c->join_ranks != NULL;
}

/* As in "/device:GPU:0". */
static bool is_type_name(const char *name) {
  size_t n = name == NULL ? 0 : strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  return n > 0 && name[n] == '\0' && name[0] >= 'A' && name[0] <= 'Z';
}

weft_status_t *weft_loaded_driver_create(const WEFT_DeviceType *type, weft_loaded_driver_t **out) {
  WEFT_DeviceType known = {0};
  if (type->size < offsetof(WEFT_DeviceType, type) + sizeof known.type)
    return WEFT_ERROR(INVALID_ARGUMENT, "its WEFT_DeviceType has a size of %zu bytes", type->size);
  memcpy(&known, type, type->size < sizeof known ? type->size : sizeof known);
  if (!is_type_name(known.type)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "its type of device is called '%s'; a name such as GPU is needed",
                      known.type == NULL ? "" : known.type);
  }
  const char *lacks = missing(&known);
  if (lacks != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "its type of device %s lacks the function '%s'", known.type, lacks);
  weft_loaded_driver_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("a driver of devices of type %s", known.type);
  d->type = known;
  d->base = (weft_device_driver_t){
      .type = known.type, .count = count, .create = create, .destroy = destroy, .reaches = reaches};
  if (known.collectives != NULL) d->base.collective = weft_loaded_collective;
  if (known.collectives != NULL && has_joint(known.collectives)) d->base.joint = &weft_loaded_joint;
  if (known.sharing != NULL) d->base.sharing = &weft_loaded_sharing;
  *out = d;
  return NULL;
}

void weft_loaded_driver_destroy(weft_loaded_driver_t *d) { weft_free(d); }

const weft_device_driver_t *weft_loaded_driver_base(const weft_loaded_driver_t *d) { return &d->base; }
