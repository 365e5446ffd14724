/* kernels/cpu/collective/collective_place.c - copies to the host and back; and collectives as drivers know
 * them. */
#include "kernels/cpu/collective/collective_place.h"

#include "base/alloc.h"
#include "device/joint.h"
#include "device/queue.h"
#include "device/transfer.h"
#include "weft/device.h"

static weft_device_place_t *of(weft_collective_place_t *p) { return (weft_device_place_t *)(void *)p; }

static weft_status_t *new_output(weft_collective_place_t *p, weft_dtype_t dtype, const weft_shape_t *shape,
                                 weft_tensor_t **out) {
  return weft_tensor_new(dtype, shape, of(p)->allocator, out);
}

static void to_host(weft_collective_place_t *p, weft_tensor_t *t, weft_collective_moved_fn *fn, void *arg) {
  (void)p;
  weft_tensor_at(t, NULL, fn, arg);
}

static void from_host(weft_collective_place_t *p, weft_tensor_t *t, weft_collective_moved_fn *fn, void *arg) {
  weft_tensor_at(t, of(p)->device->space, fn, arg);
}

/* ---- all members at once ---- */

static WEFT_CollectiveKind kind_of(weft_collective_kind_t k) {
  return k == WEFT_ALL_REDUCE       ? WEFT_COLLECTIVE_REDUCE
         : k == WEFT_REDUCE         ? WEFT_COLLECTIVE_REDUCE
         : k == WEFT_REDUCE_SCATTER ? WEFT_COLLECTIVE_REDUCE_SCATTER
         : k == WEFT_ALL_GATHER     ? WEFT_COLLECTIVE_GATHER
         : k == WEFT_BROADCAST      ? WEFT_COLLECTIVE_BROADCAST
                                    : WEFT_COLLECTIVE_ALL_TO_ALL;
}

static WEFT_CollectiveReduction reduction_of(weft_reduction_t r) {
  return r == WEFT_REDUCE_SUM    ? WEFT_COLLECTIVE_SUM
         : r == WEFT_REDUCE_PROD ? WEFT_COLLECTIVE_PROD
         : r == WEFT_REDUCE_MIN  ? WEFT_COLLECTIVE_MIN
                                 : WEFT_COLLECTIVE_MAX;
}

/* Elements: what WEFT_Collective.count means, or all of what is cut. */
static int64_t count_of(const weft_collective_together_t *t) {
  if (t->call->kind == WEFT_ALL_GATHER) return t->bounds[t->n];
  if (t->call->kind == WEFT_ALL_TO_ALL) return t->inputs[0]->count / t->n;
  return t->call->kind == WEFT_BROADCAST ? t->outputs[0]->count : t->inputs[0]->count;
}

/* The parts are freed by the caller. Errors: UNIMPLEMENTED, the members are of several types. */
static weft_status_t *parts_of(const weft_collective_together_t *t, WEFT_Collective *out_what,
                               weft_device_part_t **out) {
  const weft_device_driver_t *driver = of(t->places[0])->device->driver;
  weft_device_part_t *parts = weft_calloc((size_t)t->num_own, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("a collective of %d devices", t->n);
  for (int i = 0; i < t->num_own; i++) {
    weft_device_t *d = of(t->places[i])->device;
    if (t->places[i]->ops != t->places[0]->ops || d->driver != driver) {
      weft_free(parts);
      return WEFT_ERROR(UNIMPLEMENTED, "the members are devices of several types");
    }
    parts[i] = (weft_device_part_t){d, t->inputs[i], t->outputs[i]};
  }
  *out_what = (WEFT_Collective){.size = sizeof *out_what,
                                .kind = kind_of(t->call->kind),
                                .dtype = (int)t->call->dtype,
                                .reduction = reduction_of(t->call->reduction),
                                .is_divided = t->call->is_mean,
                                .root = t->source,
                                .count = count_of(t),
                                .bounds = t->bounds};
  *out = parts;
  return NULL;
}

static weft_status_t *run_together(const weft_collective_together_t *t) {
  weft_device_part_t *parts = NULL;
  WEFT_Collective what;
  WEFT_RETURN_IF_ERROR(parts_of(t, &what, &parts));
  weft_status_t *s =
      what.count == 0 ? NULL : of(t->places[0])->device->driver->collective(&what, parts, t->n);
  weft_free(parts);
  return s;
}

/* ---- with members of other tasks ---- */

static const weft_device_joint_t *joint_of(weft_collective_place_t *p) {
  return of(p)->device->driver->joint;
}

/* NULL without memory. */
static weft_device_t **devices_of(weft_collective_place_t *const *places, int n) {
  weft_device_t **devices = weft_calloc((size_t)n, sizeof(weft_device_t *));
  for (int i = 0; devices != NULL && i < n; i++) devices[i] = of(places[i])->device;
  return devices;
}

static weft_status_t *identify(weft_collective_place_t *const *places, int n, uint8_t *out_ids) {
  weft_device_t **devices = devices_of(places, n);
  if (devices == NULL) return WEFT_NO_MEMORY("a collective of %d devices", n);
  weft_status_t *s = joint_of(places[0])->identify(devices, n, out_ids);
  weft_free(devices);
  return s;
}

static weft_status_t *unique_id(weft_collective_place_t *const *places, int n, uint8_t *out) {
  weft_device_t **devices = devices_of(places, n);
  if (devices == NULL) return WEFT_NO_MEMORY("a collective of %d devices", n);
  weft_status_t *s = joint_of(places[0])->unique_id(devices, n, out);
  weft_free(devices);
  return s;
}

/* A communicator, and which functions it is for. */
typedef struct place_communicator {
  const weft_device_joint_t *of;
  weft_device_communicator_t *it;
} place_communicator_t;

static weft_status_t *join(weft_collective_place_t *const *places, const int *ranks, int num_own, int n,
                           const uint8_t *id, void **out) {
  weft_device_t **devices = devices_of(places, num_own);
  place_communicator_t *c = weft_calloc(1, sizeof *c);
  weft_status_t *s = NULL;
  if (devices == NULL || c == NULL) {
    s = WEFT_NO_MEMORY("a collective of %d devices", n);
  } else {
    c->of = joint_of(places[0]);
    s = c->of->join(devices, ranks, num_own, n, id, &c->it);
  }
  weft_free(devices);
  if (s != NULL) {
    weft_free(c);
    return s;
  }
  *out = c;
  return NULL;
}

static weft_status_t *run_jointly(void *communicator, const weft_collective_together_t *t,
                                  void (*done)(void *arg, weft_status_t *status), void *arg) {
  place_communicator_t *c = communicator;
  weft_device_part_t *parts = NULL;
  WEFT_Collective what;
  WEFT_RETURN_IF_ERROR(parts_of(t, &what, &parts));
  weft_status_t *s = NULL;
  if (what.count > 0) s = c->of->run(c->it, &what, parts, done, arg);
  weft_free(parts);
  if (what.count == 0) done(arg, NULL); /* at all members */
  return s;
}

static void abort_jointly(void *communicator) {
  place_communicator_t *c = communicator;
  c->of->abort(c->it);
}

static void leave(void *communicator) {
  place_communicator_t *c = communicator;
  c->of->leave(c->it);
  weft_free(c);
}

static const weft_joint_places_t joint_places = {.identify = identify,
                                                 .unique_id = unique_id,
                                                 .join = join,
                                                 .run = run_jointly,
                                                 .abort = abort_jointly,
                                                 .leave = leave};

void weft_device_place_init(weft_device_place_t *p, weft_device_t *device, weft_allocator_t *allocator) {
  static const weft_collective_place_ops_t together = {.new_output = new_output,
                                                       .to_host = to_host,
                                                       .from_host = from_host,
                                                       .run_together = run_together},
                                           jointly = {.new_output = new_output,
                                                      .to_host = to_host,
                                                      .from_host = from_host,
                                                      .run_together = run_together,
                                                      .joint = &joint_places},
                                           alone = {.new_output = new_output,
                                                    .to_host = to_host,
                                                    .from_host = from_host};
  p->base.ops = device->driver->collective == NULL ? &alone
                : device->driver->joint == NULL    ? &together
                                                   : &jointly;
  p->device = device;
  p->allocator = allocator;
}
