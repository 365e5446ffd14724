/* device/tensor_intake.c - copies to a device, each enqueued when its bytes are there.
 *
 * The intake becomes the waiter for its last copy: both tensors are held until the device is done with them.
 */
#include "device/tensor_intake.h"

#include "base/alloc.h"
#include "device/queue.h"

enum { LEAST_PART = 1 << 20 }; /* bytes: large beside the cost of a copy */

struct weft_tensor_intake {
  weft_fence_waiter_t waiter;
  weft_tensor_t *from, *to; /* retained */
  size_t copied;            /* bytes, from the first on, whose copy is enqueued */
  weft_status_t *failure;   /* owned; of a copy that could not be enqueued */
};

static weft_queue_t *queue_of(const weft_tensor_intake_t *x) { return x->to->space->device->copies_in; }

weft_status_t *weft_tensor_intake_begin(weft_dtype_t dtype, const weft_shape_t *shape,
                                        const weft_memory_space_t *space, weft_tensor_intake_t **out) {
  weft_device_t *d = space->device;
  weft_tensor_intake_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("receiving a tensor");
  weft_status_t *s = weft_tensor_new(dtype, shape, d->host_allocator, &x->from);
  if (s == NULL) s = weft_tensor_new(dtype, shape, weft_memory_account(d->memory, WEFT_MEMORY_COMM), &x->to);
  if (s != NULL) {
    weft_tensor_release(x->from);
    weft_free(x);
    return s;
  }
  weft_queue_wait(d->copies_in, x->to->fence); /* its memory's last use */
  *out = x;
  return NULL;
}

weft_tensor_t *weft_tensor_intake_host(weft_tensor_intake_t *x) { return x->from; }

/* Bytes [begin, end) of a tensor. */
static weft_status_t *part_of(weft_tensor_t *t, size_t begin, size_t end, weft_tensor_t **out) {
  weft_tensor_t *bytes = NULL;
  const weft_shape_t all = weft_shape_vector((int64_t)t->bytes);
  WEFT_RETURN_IF_ERROR(weft_tensor_view(t, WEFT_U8, &all, &bytes));
  weft_status_t *s = weft_tensor_slice(bytes, (int64_t)begin, (int64_t)(end - begin), out);
  weft_tensor_release(bytes);
  return s;
}

void weft_tensor_intake_arrive(weft_tensor_intake_t *x, size_t there) {
  weft_tensor_t *from = NULL, *to = NULL;
  weft_queue_t *q = queue_of(x);
  if (x->failure != NULL || there <= x->copied) return;
  if (there - x->copied < LEAST_PART && there < x->from->bytes) return;
  weft_status_t *s = part_of(x->from, x->copied, there, &from);
  if (s == NULL) s = part_of(x->to, x->copied, there, &to);
  if (s == NULL) s = q->ops->copy(q, from, to);
  weft_tensor_release(from); /* the intake holds their bytes */
  weft_tensor_release(to);
  x->failure = s;
  x->copied = there;
}

static void on_copied(void *arg, weft_status_t *status) {
  weft_tensor_intake_t *x = arg;
  weft_tensor_release(x->from);
  weft_tensor_release(x->to);
  weft_status_free(x->failure);
  weft_free(x);
  weft_status_free(status); /* the timeline is poisoned: waits for the tensor's fence fail with this status */
}

weft_status_t *weft_tensor_intake_end(weft_tensor_intake_t *x, bool is_whole, weft_tensor_t **out) {
  if (is_whole) weft_tensor_intake_arrive(x, x->from->bytes);
  weft_status_t *s = x->failure;
  x->failure = NULL;
  const weft_fence_t copied = weft_queue_mark(queue_of(x));
  if (is_whole && s == NULL) {
    x->to->fence = copied;
    *out = weft_tensor_retain(x->to);
  }
  weft_fence_then(copied, &x->waiter, on_copied, x);
  return s;
}
