/* kernels/cpu/collective/collective_place.c - copies to the host and back; and collectives as drivers know
 * them. */
#include "kernels/cpu/collective/collective_place.h"

#include "base/alloc.h"
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

static weft_status_t *run_parts(const weft_collective_together_t *t, weft_device_part_t *parts) {
  const weft_device_driver_t *driver = of(t->places[0])->device->driver;
  for (int i = 0; i < t->n; i++) {
    weft_device_t *d = of(t->places[i])->device;
    if (t->places[i]->ops != t->places[0]->ops || d->driver != driver)
      return WEFT_ERROR(UNIMPLEMENTED, "the members are devices of several types");
    parts[i] = (weft_device_part_t){d, t->inputs[i], t->outputs[i]};
  }
  const WEFT_Collective what = {.size = sizeof what,
                                .kind = kind_of(t->call->kind),
                                .dtype = (int)t->call->dtype,
                                .reduction = reduction_of(t->call->reduction),
                                .is_divided = t->call->is_mean,
                                .root = t->source,
                                .count = count_of(t),
                                .bounds = t->bounds};
  return what.count == 0 ? NULL : driver->collective(&what, parts, t->n);
}

static weft_status_t *run_together(const weft_collective_together_t *t) {
  weft_device_part_t *parts = weft_calloc((size_t)t->n, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("a collective of %d devices", t->n);
  weft_status_t *s = run_parts(t, parts);
  weft_free(parts);
  return s;
}

void weft_device_place_init(weft_device_place_t *p, weft_device_t *device, weft_allocator_t *allocator) {
  static const weft_collective_place_ops_t together = {.new_output = new_output,
                                                       .to_host = to_host,
                                                       .from_host = from_host,
                                                       .run_together = run_together},
                                           alone = {.new_output = new_output,
                                                    .to_host = to_host,
                                                    .from_host = from_host};
  p->base.ops = device->driver->collective != NULL ? &together : &alone;
  p->device = device;
  p->allocator = allocator;
}
