/* device/loaded/loaded_queue.c - a library's queue: its timeline is the counter of weft_queue_t. */
#include "device/loaded/loaded_device.h"

/* The library reads the counter by its address. */
_Static_assert(sizeof(atomic_ullong) == sizeof(uint64_t), "an atomic counter is a plain uint64_t in memory");
/* Its waiter is the first member of ours. */
_Static_assert(offsetof(weft_fence_waiter_t, link) == 0, "a weft_fence_waiter_t begins with the library's");

static weft_loaded_queue_t *of(weft_queue_t *q) { return (weft_loaded_queue_t *)(void *)q; }

void *weft_loaded_queue(const weft_queue_t *q) {
  return ((const weft_loaded_queue_t *)(const void *)q)->handle;
}

static void wait_for(weft_queue_t *q, weft_fence_t f) {
  of(q)->type->wait(of(q)->handle, of(f.queue)->handle, f.value);
}

static bool has_passed(weft_queue_t *q, uint64_t value) {
  return of(q)->type->has_passed(of(q)->handle, value) != 0;
}

static void on_passed(WEFT_FenceWaiter *link, WEFT_Failure *failure) {
  weft_fence_waiter_t *w = (weft_fence_waiter_t *)(void *)link;
  w->fn(w->arg, weft_status_of_failure(failure));
}

static void then(weft_queue_t *q, weft_fence_waiter_t *w) {
  w->link.fn = on_passed;
  of(q)->type->when(of(q)->handle, &w->link);
}

static void *device_of(const weft_tensor_t *t) {
  return t->space == NULL ? NULL : weft_loaded_device(t->space->device);
}

static weft_status_t *copy(weft_queue_t *q, const weft_tensor_t *from, weft_tensor_t *to) {
  return weft_status_of_failure(
      of(q)->type->copy(of(q)->handle, device_of(from), from->data, device_of(to), to->data, from->bytes));
}

weft_status_t *weft_loaded_copy(const weft_device_t *d, const weft_tensor_t *from, weft_tensor_t *to) {
  return from->bytes == 0 ? NULL : copy(d->compute, from, to);
}

static weft_status_t *record_begin(weft_queue_t *q) {
  return weft_status_of_failure(of(q)->type->capture_begin(of(q)->handle));
}

static weft_status_t *record_end(weft_queue_t *q, void **out_recording) {
  return weft_status_of_failure(of(q)->type->capture_end(of(q)->handle, out_recording));
}

static weft_status_t *replay(weft_queue_t *q, void *recording) {
  return weft_status_of_failure(of(q)->type->replay(of(q)->handle, recording));
}

static void recording_destroy(weft_queue_t *q, void *recording) { of(q)->type->graph_destroy(recording); }

weft_status_t *weft_loaded_queue_init(weft_loaded_device_t *d, WEFT_QueueKind kind) {
  static const weft_queue_ops_t plain = {
      .wait = wait_for, .has_passed = has_passed, .then = then, .copy = copy};
  static const weft_queue_ops_t with_recordings = {.wait = wait_for,
                                                   .has_passed = has_passed,
                                                   .then = then,
                                                   .copy = copy,
                                                   .record_begin = record_begin,
                                                   .record_end = record_end,
                                                   .replay = replay,
                                                   .recording_destroy = recording_destroy};
  static const char *const names[] = {
      [WEFT_QUEUE_COMPUTE] = "compute",
      [WEFT_QUEUE_COPIES_IN] = "copies in",
      [WEFT_QUEUE_COPIES_OUT] = "copies out",
  };
  weft_loaded_queue_t *q = &d->queues[kind];
  const bool records = kind == WEFT_QUEUE_COMPUTE && d->type->capture_begin != NULL;
  q->base =
      (weft_queue_t){.ops = records ? &with_recordings : &plain, .device = &d->base, .name = names[kind]};
  q->type = d->type;
  const volatile uint64_t *marked = (const volatile uint64_t *)(const volatile void *)&q->base.last;
  return weft_status_of_failure(d->type->queue(d->handle, kind, marked, &q->handle));
}
