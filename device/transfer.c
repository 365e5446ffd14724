/* device/transfer.c - copies between the host's memory and a device's.
 *
 * To the host: the device's queue for that direction waits for the tensor's fence, copies, and calls back
 * when the copy is done. To a device: the copy is enqueued and the new tensor handed out at once, with the
 * fence behind the copy; the source is held until then. From device to device it is the same where the driver
 * can copy so: the queue of the one that gets the bytes waits for the source's fence. Else they go by way of
 * the host.
 *
 * A tensor that a queue other than the one that owns its memory works on is held until that work is done
 * (here, until on_copied()): memory is given back in the order of its owner's queue only.
 */
#include "device/transfer.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/queue.h"
#include "tensor/memory_holders.h"

typedef struct device_transfer {
  weft_fence_waiter_t waiter;
  weft_tensor_t *from, *to; /* retained; `to` NULL while only `from`'s fence is waited for */
  const weft_memory_space_t *space;
  weft_memory_holder_t holder; /* what the caller allocates for */
  weft_transfer_fn *fn;        /* NULL: was called already */
  void *arg;
} device_transfer_t;

static weft_status_t *no_memory(const weft_tensor_t *t) {
  return WEFT_NO_MEMORY("copying a tensor of %zu bytes between memories", t->bytes);
}

/* Consumes `t` and `status`. */
static void end(device_transfer_t *x, weft_status_t *status) {
  weft_tensor_t *result = x->to != NULL ? x->to : weft_tensor_retain(x->from);
  weft_transfer_fn *fn = x->fn;
  void *arg = x->arg;
  weft_tensor_release(x->from);
  weft_free(x);
  if (fn == NULL || status != NULL) weft_tensor_release(result);
  if (fn == NULL) {
    weft_status_free(status); /* the timeline is poisoned: waits for the copy's fence fail with this status */
  } else {
    fn(arg, status, status == NULL ? result : NULL);
  }
}

static void on_copied(void *arg, weft_status_t *status) { end(arg, status); }

/* From a device to the host. */
static void copy_out(device_transfer_t *x) {
  weft_device_t *d = x->from->space->device;
  weft_status_t *s = weft_tensor_new(x->from->dtype, &x->from->shape, d->host_allocator, &x->to);
  if (s != NULL) {
    end(x, s);
    return;
  }
  weft_queue_wait(d->copies_out, x->from->fence);
  s = d->copies_out->ops->copy(d->copies_out, x->from, x->to);
  if (s != NULL) {
    end(x, s);
    return;
  }
  weft_fence_then(weft_queue_mark(d->copies_out), &x->waiter, on_copied, x);
}

/* To a device: from the host, where the bytes are there, or from a device that it reaches. */
static void copy_in(device_transfer_t *x) {
  weft_device_t *d = x->space->device;
  weft_tensor_t *to = NULL;
  const weft_memory_holder_t before = weft_memory_hold_for(x->holder);
  weft_status_t *s = weft_tensor_new(x->from->dtype, &x->from->shape,
                                     weft_memory_account(d->memory, WEFT_MEMORY_ACTIVATION), &to);
  (void)weft_memory_hold_for(before);
  if (s != NULL) {
    end(x, s);
    return;
  }
  x->to = to;
  weft_queue_wait(d->copies_in, to->fence); /* its memory's last use */
  weft_queue_wait(d->copies_in, x->from->fence);
  s = d->copies_in->ops->copy(d->copies_in, x->from, to);
  if (s != NULL) {
    end(x, s);
    return;
  }
  to->fence = weft_queue_mark(d->copies_in);
  weft_transfer_fn *fn = x->fn;
  void *fn_arg = x->arg;
  weft_fence_t copied = to->fence;
  weft_tensor_retain(to);
  x->fn = NULL;
  weft_fence_then(copied, &x->waiter, on_copied, x);
  fn(fn_arg, NULL, to);
}

static void on_readable(void *arg, weft_status_t *status) {
  device_transfer_t *x = arg;
  if (status != NULL || x->space == NULL) {
    end(x, status);
  } else {
    copy_in(x);
  }
}

static void on_host(void *arg, weft_status_t *status, weft_tensor_t *host) {
  device_transfer_t *x = arg;
  if (status != NULL) {
    end(x, status);
    return;
  }
  weft_tensor_release(x->from);
  x->from = host;
  copy_in(x);
}

static bool reaches(const weft_memory_space_t *from, const weft_memory_space_t *to) {
  const weft_device_driver_t *driver = from->device->driver;
  return driver == to->device->driver && driver->reaches != NULL && driver->reaches(from->device, to->device);
}

void weft_tensor_at(weft_tensor_t *t, const weft_memory_space_t *space, weft_transfer_fn *fn, void *arg) {
  const bool is_there = t->space == space || !weft_dtype_is_plain(t->dtype) || t->bytes == 0;
  if (is_there && (space != NULL || t->fence.queue == NULL)) {
    fn(arg, NULL, weft_tensor_retain(t));
    return;
  }
  device_transfer_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) {
    fn(arg, no_memory(t), NULL);
    return;
  }
  *x = (device_transfer_t){.from = weft_tensor_retain(t),
                           .space = is_there ? NULL : space,
                           .holder = weft_memory_held_for(),
                           .fn = fn,
                           .arg = arg};
  if (t->space == NULL) {
    weft_fence_then(t->fence, &x->waiter, on_readable, x);
  } else if (space == NULL) {
    copy_out(x);
  } else if (reaches(t->space, space)) {
    copy_in(x);
  } else {
    weft_tensor_at(t, NULL, on_host, x);
  }
}

/* ---- several ---- */

typedef struct device_transfers device_transfers_t;
typedef struct transfer_slot {
  device_transfers_t *all;
  weft_tensor_t **to;
} transfer_slot_t;

struct device_transfers {
  atomic_llong missing; /* transfers that are under way, and one more while they are begun */
  _Atomic(weft_status_t *) status;
  weft_transfers_fn *fn;
  void *arg;
  weft_tensor_t **tensors;
  int64_t n;
  transfer_slot_t slots[]; /* n */
};

void weft_tensors_free(weft_tensor_t **tensors, int64_t n) {
  for (int64_t i = 0; tensors != NULL && i < n; i++) weft_tensor_release(tensors[i]);
  weft_free(tensors);
}

static void one_less(device_transfers_t *x) {
  if (atomic_fetch_sub_explicit(&x->missing, 1, memory_order_acq_rel) != 1) return;
  weft_transfers_fn *fn = x->fn;
  void *arg = x->arg;
  weft_status_t *status = atomic_load_explicit(&x->status, memory_order_relaxed);
  weft_tensor_t **tensors = x->tensors;
  const int64_t n = x->n;
  weft_free(x);
  fn(arg, status, tensors, n);
}

static void on_one(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  transfer_slot_t *slot = arg;
  weft_status_t *none = NULL;
  *slot->to = tensor;
  if (status != NULL && !atomic_compare_exchange_strong(&slot->all->status, &none, status))
    weft_status_free(status);
  one_less(slot->all);
}

void weft_tensors_at(weft_tensor_t *const *t, int64_t n, const weft_memory_space_t *space,
                     weft_transfers_fn *fn, void *arg) {
  device_transfers_t *x = weft_calloc(1, sizeof *x + (size_t)n * sizeof x->slots[0]);
  weft_tensor_t **tensors = weft_calloc((size_t)n + 1, sizeof *tensors);
  if (x == NULL || tensors == NULL) {
    weft_free(x);
    weft_free(tensors);
    fn(arg, WEFT_NO_MEMORY("copying %lld tensors between memories", (long long)n), NULL, 0);
    return;
  }
  atomic_init(&x->missing, n + 1);
  atomic_init(&x->status, NULL);
  x->fn = fn;
  x->arg = arg;
  x->tensors = tensors;
  x->n = n;
  for (int64_t i = 0; i < n; i++) {
    x->slots[i] = (transfer_slot_t){x, &tensors[i]};
    if (t[i] == NULL) {
      one_less(x);
    } else {
      weft_tensor_at(t[i], space, on_one, &x->slots[i]);
    }
  }
  one_less(x);
}

/* ---- waiting ---- */

typedef struct arrival {
  weft_mutex_t mu;
  weft_cond_t come;
  bool has_come; /* guarded by mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *tensor;
} arrival_t;

static void arrive(void *arg, weft_status_t *status, weft_tensor_t *tensor) {
  arrival_t *a = arg;
  weft_mutex_lock(&a->mu);
  a->status = status;
  a->tensor = tensor;
  a->has_come = true;
  weft_cond_signal(&a->come);
  weft_mutex_unlock(&a->mu);
}

weft_status_t *weft_tensor_at_sync(weft_tensor_t *t, const weft_memory_space_t *space, weft_tensor_t **out) {
  arrival_t a = {.has_come = false};
  weft_mutex_init(&a.mu);
  weft_cond_init(&a.come);
  weft_tensor_at(t, space, arrive, &a);
  weft_mutex_lock(&a.mu);
  while (!a.has_come)
    weft_cond_wait(&a.come, &a.mu); /* woken by arrive(), which the device's queues always call */
  weft_mutex_unlock(&a.mu);
  weft_cond_deinit(&a.come);
  weft_mutex_deinit(&a.mu);
  *out = a.tensor;
  return a.status;
}
